"""Machines that kernels can be compiled for ahead: levels of an instruction set instead of one processor.

Machine code for a level (psABI x86-64 microarchitecture levels; AArch64's base) runs on every processor that has the level's
instructions. ``cdplugin warmup --target LEVEL --out FOLDER`` makes it, an image or a wheel carries the folder, and a process
looks there before it compiles (:mod:`cdplugin.kernels.jit.machine_code`).
"""

from __future__ import annotations

import platform
from functools import lru_cache
from typing import NamedTuple

from numba.core.codegen import get_host_cpu_features


class Target(NamedTuple):
    """``cpu``: LLVM's name. ``machines``: as ``platform.machine()`` has them. ``features``: LLVM's names of what it needs."""

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
    """The levels whose code this machine runs, the one with most instructions first; none where LLVM cannot tell."""
    features = {flag[1:] for flag in get_host_cpu_features().split(",") if flag.startswith("+")}
    machine = platform.machine()
    return tuple(name for name, target in TARGETS.items() if machine in target.machines and target.features <= features)
