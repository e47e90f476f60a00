"""Compiling in another process: kernels that are not on disk yet are compiled by a child process.

A process that compiles keeps some 650 MB of Numba's data, for the engine, and a fragmented heap in which Python is slower from
then on. All that ends with the child, and the other threads of the waiting process go on meanwhile. If no child can be started,
if nothing can be stored on disk, or if the child fails, the kernel is compiled at its first call, in this process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from numba import types
from numba.core.compiler_lock import global_compiler_lock

from cdplugin.kernels.jit import cache_files
from cdplugin.kernels.jit.machine_code import are_sources_imported, source_key

_MOST_SECONDS = 900
_CHILD = "import sys; sys.path[:] = sys.argv[5:]; from cdplugin.kernels.jit import elsewhere; elsewhere.main(*sys.argv[1:5])"


def compile_elsewhere(dispatcher: Any) -> None:
    """Have another process compile a kernel of integers, if its machine code is not on disk."""
    folder = cache_files.cache_root()
    if folder is None or not _is_python(sys.executable) or not are_sources_imported():
        return
    function = dispatcher.py_func
    kernel = (source_key(), function.__module__, function.__qualname__, str(function.__code__.co_argcount))
    environment = os.environ | {"CDPLUGIN_CACHE_DIR": str(folder)}
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined] # -O changes bytecode; multiprocessing asks, too
    # Numba's own lock: two threads do not have the same compiled, and a fork waits for it
    with global_compiler_lock, contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        if not dispatcher._cache.has_any():
            subprocess.run(
                [sys.executable, *flags, "-c", _CHILD, *kernel, *sys.path],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_MOST_SECONDS,
                check=False,
            )


def _is_python(executable: str | None) -> bool:
    """Return whether a program is Python itself, not one that embeds Python, which would start all over."""
    return Path(executable or "").name.lower().startswith("python")


def main(key: str, module: str, name: str, n_arguments: str) -> None:
    """Compile a kernel and store it, if sources and flags are those of the process that asks for it."""
    if key == source_key():
        getattr(importlib.import_module(module), name).compile((types.int64,) * int(n_arguments))
