"""The decorators that make kernels, and the progress line of a first compilation.

Kernels run without the GIL; entry kernels are cached on disk (:mod:`cdplugin.kernels.jit.machine_code`). Only the files of this
folder use Numba's internal classes.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, TypeVar

import numba
from numba.core import types
from numba.core.types import unliteral  # type: ignore[attr-defined]
from numba.extending import intrinsic

from cdplugin.kernels.jit.machine_code import KernelCache
from cdplugin.kernels.jit.pipeline import CompilerToBitcode, CompilerToProgram

F = TypeVar("F", bound=Callable[..., Any])

DISABLED = bool(numba.config.DISABLE_JIT)
BOUNDSCHECK = bool(numba.config.BOUNDSCHECK)


def kernel(function: F) -> F:
    """Make an inner kernel: compiled as part of its callers, not cached by itself, not callable from Python.

    Numba compiles a callee anew for every integer *constant* that it is called with. One compilation for int64 is enough here,
    and a third of the work. So constants are widened to their type before the callee's signature is looked up.
    """
    if DISABLED:
        return function
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": CompilerToBitcode}
    dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
    look_up = dispatcher.get_call_template

    def look_up_widened(arguments, keywords):  # type: ignore[no-untyped-def]
        return look_up(tuple(unliteral(a) for a in arguments), keywords)

    dispatcher.get_call_template = look_up_widened
    return dispatcher


def entry_kernel(function: F) -> F:
    """Make a kernel that Python calls: compiled at its first call and cached on disk."""
    if DISABLED:
        return function
    dispatcher = numba.njit(nogil=True, error_model="numpy", pipeline_class=CompilerToProgram)(function)
    dispatcher._cache = KernelCache(function, dispatcher.targetctx)  # what its enable_caching() does with Numba's own cache
    return dispatcher


def entry_of(inner: F) -> F:
    """Make an entry kernel of an inner kernel's function as well."""
    return entry_kernel(getattr(inner, "py_func", inner))


def is_loaded(dispatcher: Any) -> bool:
    """Return whether an entry kernel has been called before, or is interpreted."""
    return DISABLED or bool(dispatcher.overloads)


def is_cached(dispatcher: Any) -> bool:
    """Return whether an entry kernel has machine code, in memory or on disk for this machine, or needs none
    (``NUMBA_DISABLE_JIT``).
    """
    return is_loaded(dispatcher) or dispatcher._cache.has_any()


def compiled(dispatcher: Any) -> Any:
    """Return the compiled wrapper of an entry kernel that has been called before, without Numba's dispatch on argument types
    (0.1 µs).

    For kernels of integers, which are taken as int64.
    """
    return dispatcher if DISABLED else next(iter(dispatcher.overloads.values())).entry_point


class FirstCall:
    """The context of an entry kernel's first call.

    If the kernel is not cached, another process compiles it (:mod:`cdplugin.kernels.jit.elsewhere`), and standard error shows
    that, and how long it took.
    """

    _silent: ClassVar[int] = 0  # how many callers show progress themselves

    def __init__(self, dispatcher: Any) -> None:
        self._dispatcher = dispatcher
        self.is_cold = not is_cached(dispatcher)
        self.shown = self.is_cold and not FirstCall._silent

    @classmethod
    @contextlib.contextmanager
    def silenced(cls) -> Iterator[None]:
        """A context without progress lines, for callers that show progress themselves."""
        FirstCall._silent += 1
        try:
            yield
        finally:
            FirstCall._silent -= 1

    def __enter__(self) -> None:
        if self.shown:
            self.began = time.monotonic()
            text = "cdplugin: compiling kernels, once for this version (up to a minute) ..."
            print(text, end="", file=sys.stderr, flush=True)
        if self.is_cold:
            from cdplugin.kernels.jit.elsewhere import compile_elsewhere  # a warm start does without subprocess

            compile_elsewhere(self._dispatcher)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print(f" {time.monotonic() - self.began:.0f} s", file=sys.stderr, flush=True)


if DISABLED:

    def low_bit(word: int) -> int:
        """The number of the lowest bit of a word that is not 0: the interpreted twin."""
        return (int(word) & -int(word)).bit_length() - 1

    def count_bits(word: int) -> int:
        """How many bits of a word are set: the interpreted twin, for which a negative word has 64 bits, too."""
        return (int(word) & 0xFFFFFFFFFFFFFFFF).bit_count()

else:

    @intrinsic
    def _trailing_zeros(typing_context, word):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

        return types.int64(types.int64), codegen

    @intrinsic
    def _population(typing_context, word):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            return builder.ctpop(arguments[0])

        return types.int64(types.int64), codegen

    @kernel
    def low_bit(word: int) -> int:
        """The number of the lowest bit of a word that is not 0."""
        return _trailing_zeros(word)

    @kernel
    def count_bits(word: int) -> int:
        """How many bits of a word are set."""
        return _population(word)
