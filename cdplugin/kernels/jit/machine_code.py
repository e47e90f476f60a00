"""Machine code on disk: what a dispatcher of Numba asks before it compiles, and is given after it has compiled.

Numba's own cache keeps an index and data files by the *path* of the source, does not notice an edit in another file that a
kernel calls, loads unchecked code under ``NUMBA_BOUNDSCHECK=1``, and raises for ever where a file is damaged. Here machine
code is one file for each kernel and signature, named by the kernel, a hash of all kernel sources with the versions and flags
that matter, and the machine. So all installations of one version share it, and one file is whole or is made again
(:mod:`cdplugin.kernels.jit.cache_files`).
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from cdplugin.kernels.jit import cache_files


@lru_cache(maxsize=1)
def source_key() -> str:
    """A hash of all kernel sources, and of the versions and flags that machine code depends on."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    python = (sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
    config = numba.config
    flags = (bool(config.BOUNDSCHECK), config.OPT, config.CPU_NAME, config.CPU_FEATURES)
    digest.update(repr((python, numba.__version__, np.__version__, flags)).encode())
    return digest.hexdigest()[:16]


class KernelCache(NullCache):
    """The machine code of one kernel on disk, by signature (Numba's interface, ``numba.core.caching``).

    Nothing here raises because of a file: what cannot be read is compiled, what cannot be written is warned of.
    """

    def __init__(self, function: Callable[..., Any], target_context: Any) -> None:
        self._context = target_context
        self._folder = f"kernels/{source_key()}"
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._own_key = _own_source(function)  # of a kernel elsewhere, say in a test

    @property
    def cache_path(self) -> str:
        """The folder that machine code is written to; empty where there is none."""
        root = cache_files.cache_root()
        return "" if root is None else str(root / self._folder)

    def has_any(self) -> bool:
        """Whether there is machine code for this machine, whole and readable."""
        return any(cache_files.read(name) is not None for name in cache_files.names(self._folder, self._prefix()))

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """The compiled kernel for a signature; None if it has to be compiled."""
        target_context.refresh()
        name = self._file(sig)
        content = cache_files.read(name)
        if content is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception:  # whole, but of no use to this Numba: compiled anew, as if it were absent
            cache_files.remove(name)
            return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Keep a compiled kernel, if it can be kept."""
        if data.library.has_dynamic_globals:
            return
        try:
            content = dumps(data._reduce())
        except ValueError:  # no object code: the signal that ended Numba's call was taken as it was handed over
            return
        cache_files.write(self._file(sig), [content])

    def _prefix(self) -> str:
        machine = repr((self._context.codegen().magic_tuple(), self._own_key))
        return f"{self._name}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}-"

    def _file(self, sig: Any) -> str:
        return f"{self._folder}/{self._prefix()}{hashlib.sha256(repr(sig).encode()).hexdigest()[:16]}.code"


def _own_source(function: Callable[..., Any]) -> str:
    try:
        source = Path(inspect.getfile(function)).read_bytes()
    except (OSError, TypeError):
        source = b""
    return hashlib.sha256(source + function.__code__.co_code).hexdigest()[:16]


if hasattr(os, "register_at_fork"):
    # A child that was forked while another thread compiled would wait for Numba's lock for ever, so the fork waits instead.
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )
