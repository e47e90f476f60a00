"""How compiled kernels are linked: inner kernels stay bitcode; an entry kernel is optimised as one program with all below it.

Numba by itself makes a finished library of *every* function: all that it calls, directly or not, is linked in, optimised and
turned into machine code. Two hundred inner kernels, which only call each other, pay for that again and again: it was three
quarters of the time of a cold start. Here, an inner kernel keeps only its own bitcode, and an entry kernel collects all bitcode
below it, once. The optimiser then sees the same functions with the same linkage.

The compilers that fill these libraries are in :mod:`cdplugin.kernels.jit.pipeline`.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.codegen import ll as llvm


class Bitcode(JITCodeLibrary):
    """The library of an inner kernel: the bitcode of that one function."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.environments: dict[str, Any] = {}

    @property
    def codegen(self) -> Any:
        """The object that is told the function's environment: the library itself, since there is no machine code yet."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Keep an environment (Python objects that the code refers to) for the programs that will include the function."""
        self.environments[name] = environment

    def finalize(self) -> None:
        """Check the module; optimise and compile nothing."""
        self._final_module.verify()
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """0: there is nothing to call."""
        self._ensure_finalized()
        return 0


class Program(JITCodeLibrary):
    """The library of an entry kernel: machine code of itself and of all inner kernels below it."""

    def finalize(self) -> None:
        """Link, optimise and compile, and register the environments of the functions that were not inlined away."""
        inner = self._link_all()
        super().finalize()
        for library in inner:
            for name, environment in library.environments.items():
                if self._codegen._engine.is_symbol_defined(name):
                    self._codegen.set_env(name, environment)

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return what is stored on disk: the machine code, and stubs instead of the bitcode: empty functions with the names
        that Python calls.

        Nobody links a program into another one, and its bitcode would take longer to read than its machine code.
        """
        name, kind, (machine_code, _) = super().serialize_using_object_code()
        called = [f.name for f in self._final_module.functions if not f.is_declaration and f.linkage.name == "external"]
        stubs = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in called)
        return name, kind, (machine_code, llvm.parse_assembly(stubs).as_bitcode())

    _linking_libraries: list[Any]

    def _link_all(self) -> list[Bitcode]:
        """Add what the inner kernels call, directly or not, to the libraries to link; return the inner kernels.

        Callers come before callees: LLVM links a function in only if something refers to it by then.
        """
        finished: list[Any] = []  # callees first
        seen: set[int] = set()
        todo: list[tuple[Any, bool]] = [(library, False) for library in self._linking_libraries]
        while todo:
            library, done = todo.pop()
            if done:
                finished.append(library)
            elif id(library) not in seen:
                seen.add(id(library))
                todo.append((library, True))
                if isinstance(library, Bitcode):
                    todo.extend((callee, False) for callee in library._linking_libraries)
        self._linking_libraries = finished[::-1]
        return [library for library in finished if isinstance(library, Bitcode)]
