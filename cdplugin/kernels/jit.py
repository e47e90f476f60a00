"""How kernels are made: decorators, views on shared tables, and the folder of compiled kernels. Only this, ``views`` and
``linking`` know Numba's own classes.

A kernel is compiled without the GIL and cached on disk. Numba's cache does not notice an edit in *another* file that a kernel
calls, and loads unchecked code under ``NUMBA_BOUNDSCHECK=1``; therefore the cache folder is named by a hash of all kernel
sources together with Numba's version and flags.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import types
from numba.core.types import unliteral  # type: ignore[attr-defined]
from numba.extending import intrinsic

from cdplugin.kernels.linking import CompilerToBitcode, CompilerToProgram

F = TypeVar("F", bound=Callable[..., Any])

DISABLED = bool(numba.config.DISABLE_JIT)
BOUNDSCHECK = bool(numba.config.BOUNDSCHECK)


def _source_key() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    flags = (numba.__version__, np.__version__, BOUNDSCHECK, numba.config.OPT, numba.config.CPU_NAME)
    digest.update(repr(flags).encode())
    return digest.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@lru_cache(maxsize=1)
def cache_root() -> Path:
    """The user-writable folder of cdplugin's caches: ``CDPLUGIN_CACHE_DIR``, the XDG cache folder, or one below the
    temporary folder.
    """
    candidates = []
    if os.environ.get("CDPLUGIN_CACHE_DIR"):
        candidates.append(Path(os.environ["CDPLUGIN_CACHE_DIR"]))
    xdg = os.environ.get("XDG_CACHE_HOME")
    try:
        candidates.append((Path(xdg) if xdg else Path.home() / ".cache") / "cdplugin")
    except RuntimeError:  # no home folder
        pass
    try:
        user = str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
    except (KeyError, OSError):
        user = "user"
    candidates.append(Path(tempfile.gettempdir()) / f"cdplugin-{user}")
    for folder in candidates:
        if _writable(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix="cdplugin-"))


@lru_cache(maxsize=1)
def kernel_cache_dir() -> Path:
    """Where compiled kernels are kept: one folder per version of the kernel sources, of Numba, and of its flags."""
    folder = cache_root() / "kernels" / _source_key()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kernel(function: F) -> F:
    """An inner kernel: compiled with whoever calls it, not cached on its own, not callable from Python.

    Numba compiles a callee anew for every integer *constant* that it is called with. One compilation for int64 is enough
    here, and a third of the work, so constants are widened to their type before the callee's signature is looked up.
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
    """A kernel that Python calls: compiled at the first call and cached on disk."""
    if DISABLED:
        return function
    dispatcher = numba.njit(nogil=True, error_model="numpy", pipeline_class=CompilerToProgram)(function)
    previous = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(kernel_cache_dir())  # read once, when the dispatcher's cache is made
    try:
        dispatcher.enable_caching()
    finally:
        numba.config.CACHE_DIR = previous
    return dispatcher


def is_cached(dispatcher: Any) -> bool:
    """Whether an entry kernel has machine code in the cache folder, or needs none (``NUMBA_DISABLE_JIT``).

    Numba keeps machine code by the path of its source, so another installation of the same version has its own.
    """
    return DISABLED or any(Path(dispatcher.stats.cache_path).glob("*.nbi"))


class Notice:
    """A context that tells, on standard error, that kernels are being compiled and for how long, if they are not cached yet.

    ``Notice.wanted`` = False: somebody else shows progress.
    """

    wanted = True

    def __init__(self, dispatcher: Any) -> None:
        self.shown = self.wanted and not DISABLED and not dispatcher.signatures and not is_cached(dispatcher)

    def __enter__(self) -> None:
        if self.shown:
            self.began = time.monotonic()
            text = "cdplugin: compiling kernels, once for this version (up to a minute) ..."
            print(text, end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print(f" {time.monotonic() - self.began:.0f} s", file=sys.stderr, flush=True)


if DISABLED:

    def low_bit(word: int) -> int:
        return (int(word) & -int(word)).bit_length() - 1

    def count_bits(word: int) -> int:
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
