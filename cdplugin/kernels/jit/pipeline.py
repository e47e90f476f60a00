"""Numba's compiler pipeline, reduced to what kernels need.

Numba lets a decorator name its compiler (``pipeline_class``). Ours choose the library to fill
(:mod:`cdplugin.kernels.jit.linking`), leave out passes, and cache how operators are typed. Together this saves a quarter of a
cold compile. The engine's machine code is the same.
"""

from __future__ import annotations

import operator
from typing import Any

from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typing.context import Context

from cdplugin.kernels.jit.linking import Bitcode, Program

_NOT_NEEDED = frozenset(
    (
        "DeadBranchPrune",
        "DumpParforDiagnostics",
        "FindLiterallyCalls",
        "InlineClosureLikes",
        "InlineInlinables",
        "InlineOverloads",
        "LiteralPropagationSubPipelinePass",
        "LiteralUnroll",
        "MakeFunctionToJitFunction",
        "NopythonRewrites",
        "RewriteDynamicRaises",
        "RewriteSemanticConstants",
        "WithLifting",
    )
)
"""Passes for what kernels do not use: closures, comprehensions, expressions of whole arrays, literals, ``with``, ``raise``."""

_signatures: dict[Any, Any] = {}  # of this program: (function, types of its arguments) -> signature


class _RememberingContext(Context):
    """Numba's typing context, with a cache for the signatures of Numba's own functions.

    For every occurrence of an operator, Numba tries all its templates, those for strings, lists and sets first.
    """

    @classmethod
    def beside(cls, context: Context) -> Context:
        """Return a context that shares all state with ``context``."""
        found = cls.__new__(cls)
        found.__dict__ = context.__dict__
        return found

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a function that is called with arguments of these types."""
        function = self._lookup_global(func) or func
        if type(function) is not types.Function or kws:
            return super().resolve_function_type(func, args, kws)
        key = (function, tuple(args))
        if key not in _signatures:
            _signatures[key] = super().resolve_function_type(func, args, kws)
        return _signatures[key]

    def resolve_setitem(self, target: Any, index: Any, value: Any) -> Any:
        """Return the signature of ``target[index] = value``."""
        return self.resolve_function_type(self.resolve_value_type(operator.setitem), (target, index, value), {})


class _CompilerTo(Compiler):
    """Numba's compiler, with a library of ours to fill."""

    library: type[JITCodeLibrary]

    def define_pipelines(self) -> Any:
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.typingctx = _RememberingContext.beside(state.typingctx)
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [entry for entry in pipeline.passes if entry[0].__name__ not in _NOT_NEEDED]
            pipeline.finalize()
        return pipelines


class CompilerToBitcode(_CompilerTo):
    """Fills a :class:`~cdplugin.kernels.jit.linking.Bitcode`: for ``kernel``."""

    library = Bitcode


class CompilerToProgram(_CompilerTo):
    """Fills a :class:`~cdplugin.kernels.jit.linking.Program`: for ``entry_kernel``."""

    library = Program

    def compile_extra(self, func: Any) -> Any:
        """As Numba's; afterwards the cached signatures of this program are dropped."""
        try:
            return super().compile_extra(func)
        finally:
            _signatures.clear()
