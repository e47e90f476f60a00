"""Machine code on disk: the cache that Numba's dispatchers ask before they compile, and fill afterwards.

Numba's own cache is keyed by the *path* of the source; it does not notice an edit in another file that a kernel calls, loads
unchecked code under ``NUMBA_BOUNDSCHECK=1``, and fails for ever once a file is damaged. Here machine code is one file for each
kernel and signature, named by the kernel, by a hash of all kernel sources with the versions and flags that matter, and by the
machine. So all installations of one version share it, and a damaged file is made again
(:mod:`cdplugin.kernels.jit.cache_files`).

An image or a wheel can carry code compiled for an instruction set level (:data:`TARGETS`: psABI x86-64 microarchitecture
levels, AArch64's base), which runs on every processor with the level's instructions. It has the same form, and is used if there
is none for the machine itself. ``cdplugin warmup --target LEVEL --out FOLDER`` compiles it.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pickle
import platform
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.core.caching import NullCache
from numba.core.codegen import get_host_cpu_features
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from cdplugin.kernels.jit import cache_files


class Target(NamedTuple):
    """``cpu``: LLVM's name. ``machines``: the names that ``platform.machine()`` gives. ``features``: LLVM's names of what it
    needs.
    """

    cpu: str
    machines: tuple[str, ...]
    features: frozenset[str]


_X86 = ("x86_64", "AMD64", "amd64")
_V2 = frozenset(("cmov", "cx8", "fxsr", "mmx", "sse", "sse2", "cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3"))
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_V4 = _V3 | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}

TARGETS = {
    "x86-64-v4": Target("x86-64-v4", _X86, _V4),
    "x86-64-v3": Target("x86-64-v3", _X86, _V3),
    "x86-64-v2": Target("x86-64-v2", _X86, _V2),
    "armv8": Target("generic", ("aarch64", "arm64", "ARM64"), frozenset(("neon",))),
}
"""The levels by name, the one with most instructions first."""


@lru_cache(maxsize=1)
def host_targets() -> tuple[str, ...]:
    """Return the levels whose code this machine runs, the one with most instructions first; none if LLVM cannot tell."""
    features = {flag[1:] for flag in get_host_cpu_features().split(",") if flag.startswith("+")}
    machine = platform.machine()
    return tuple(name for name, target in TARGETS.items() if machine in target.machines and target.features <= features)


_SOURCES = [*Path(__file__).parents[1].rglob("*.py")]


def _stamps() -> list[tuple[int, int]]:
    """Return the modification time, in nanoseconds, and the size of each kernel source."""
    found = [os.stat(path) for path in _SOURCES]
    return [(of.st_mtime_ns, of.st_size) for of in found]


_imported = _stamps()  # taken before any kernel is imported: their modules import this one


@lru_cache(maxsize=1)
def sources_hash() -> bytes:
    """Return a hash of all kernel sources and their paths."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


def are_sources_imported() -> bool:
    """Return whether the sources on disk, which :func:`sources_hash` reads, are those that this process has imported.

    If other ones were installed meanwhile, kernels of two versions would be stored under the name of one of them, and crash
    every process that loads them. So if sources have changed, nothing is read from the cache and nothing stored; one warning
    says so.
    """
    try:
        same = _stamps() == _imported
    except OSError:  # one is gone
        same = False
    if not same:
        cache_files.warn("kernel sources have changed since this process began, which compiles them for itself")
    return same


def source_key(target: str | None = None) -> str:
    """Return a hash of all kernel sources and of the versions and flags that machine code depends on, for this process or for a
    target.

    Of NumPy, the major version counts, as for compiled extensions (Numba's own cache ignores NumPy): so environments made a
    week apart share their kernels.
    """
    digest = hashlib.sha256(sources_hash())
    python = (sys.implementation.cache_tag, getattr(sys, "abiflags", ""))
    config = numba.config
    machine = (config.CPU_NAME, config.CPU_FEATURES) if target is None else (TARGETS[target].cpu, "")
    flags = (bool(config.BOUNDSCHECK), config.OPT, *machine)
    digest.update(repr((python, numba.__version__, np.__version__.partition(".")[0], flags)).encode())
    return digest.hexdigest()[:16]


class KernelCache(NullCache):
    """The machine code of one kernel on disk, by signature (Numba's interface, ``numba.core.caching``).

    Nothing here raises because of a file: what cannot be read is compiled, what cannot be written causes a warning.
    """

    def __init__(self, function: Callable[..., Any], target_context: Any) -> None:
        self._context = target_context
        self._name = f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._own_key = _own_source(function)  # of a kernel elsewhere, say in a test

    @property
    def cache_path(self) -> str:
        """The folder that machine code is written to; empty if there is none."""
        root = cache_files.cache_root()
        return "" if root is None else str(root / self._folder())

    def has_any(self) -> bool:
        """Return whether there is intact machine code for this machine."""
        own = cache_files.names(self._folder(), self._prefix())
        if any(cache_files.read(name) is not None for name in own):
            return True
        carried = [
            name
            for target in self._targets()
            for name in cache_files.names(self._folder(target), self._prefix(target), carried=True)
        ]
        return any(cache_files.read_carried(name) is not None for name in carried)

    def load_overload(self, sig: Any, target_context: Any) -> CompileResult | None:
        """Return the compiled kernel for a signature; None if it has to be compiled."""
        target_context.refresh()
        name = self._file(sig)
        if not are_sources_imported():
            return None
        content = cache_files.read(name)
        if content is not None:
            try:
                found = CompileResult._rebuild(target_context, *pickle.loads(content))
                cache_files.note_use(self._folder())
                return found
            except Exception:  # whole, but of no use to this Numba: compiled anew, as if it were absent
                cache_files.remove(name)
        for target in self._targets():
            content = cache_files.read_carried(self._file(sig, target))
            if content is not None:
                with contextlib.suppress(Exception):
                    return CompileResult._rebuild(target_context, *pickle.loads(content))
        return None

    def save_overload(self, sig: Any, data: CompileResult) -> None:
        """Store a compiled kernel, if possible."""
        if data.library.has_dynamic_globals:
            return
        try:
            content = dumps(data._reduce())
        except ValueError:  # no object code: a signal interrupted Numba as it was handing it over
            return
        name = self._file(sig)
        if are_sources_imported() and cache_files.write(name, [content]):
            parent, _, own = self._folder().partition("/")
            cache_files.prune(parent, own)

    @staticmethod
    def _targets() -> tuple[str, ...]:
        """Return the levels whose carried code may be used: none if nothing is carried, or if the user names a processor."""
        return host_targets() if numba.config.CPU_NAME is None and cache_files.carried_folders() else ()

    @staticmethod
    def _folder(target: str | None = None) -> str:
        """Return the folder of all kernels of these sources, for this machine or a target."""
        return f"kernels/{source_key(target)}"

    def _prefix(self, target: str | None = None) -> str:
        """Return the common prefix of this kernel's file names: its name, and a hash of the machine and of its own source."""
        machine = _machine(self._context)
        if target is not None:
            machine = (machine[0], TARGETS[target].cpu, "")
        key = repr((machine, self._own_key))
        return f"{self._name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}-"

    def _file(self, sig: Any, target: str | None = None) -> str:
        """Return the file name for a signature."""
        signature = hashlib.sha256(repr(sig).encode()).hexdigest()[:16]
        return f"{self._folder(target)}/{self._prefix(target)}{signature}{cache_files.SUFFIX}"


_machines: dict[tuple[str | None, str | None], tuple[str, ...]] = {}


def _machine(context: Any) -> tuple[str, ...]:
    """Return what Numba calls this machine under the present configuration.

    Asked once per configuration: the answer takes LLVM's lock, which a thread that was interrupted while holding it never
    releases.
    """
    config = (numba.config.CPU_NAME, numba.config.CPU_FEATURES)
    found = _machines.get(config)
    if found is None:
        found = _machines[config] = context.codegen().magic_tuple()
    return found


def _own_source(function: Callable[..., Any]) -> str:
    """Return a hash of the file and the code of a kernel outside this package (``source_key`` covers those inside)."""
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
