"""Kernels that are not on disk yet are compiled by a process of their own.

What Numba leaves in a process that compiles (some 650 MB for the engine, and a heap full of holes, in which Python is slower
from then on) goes with that process, and the threads of the one that waits go on meanwhile. Where there can be no such process,
where nothing can be kept, or where it fails, the kernel is compiled at its first call as ever.
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
    """Have a kernel of integers compiled by another process, if its machine code is not on disk."""
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
    """Whether a program is Python itself, and not one that has Python inside, which would begin anew."""
    return Path(executable or "").name.lower().startswith("python")


def main(key: str, module: str, name: str, n_arguments: str) -> None:
    """Compile a kernel and keep it, if sources and flags are those of the process that asks for it."""
    if key == source_key():
        getattr(importlib.import_module(module), name).compile((types.int64,) * int(n_arguments))
