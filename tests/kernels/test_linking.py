"""Entry kernels and what is linked into them: values, errors, one callee of several callers, and the cache on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cdplugin.kernels.jit.decorators import DISABLED, entry_kernel, kernel

pytestmark = pytest.mark.kernel


@kernel
def _unused(x: int) -> int:
    return x - 1


@kernel
def _shared(x: int) -> int:
    if x == 7:
        raise ValueError("seven")
    return x * x


@kernel
def _left(x: int) -> int:
    return _shared(x) + 1


@kernel
def _right(values: np.ndarray) -> int:
    total = 0
    for k in range(len(values)):
        total += _left(values[k]) + _shared(k)
    return total


@entry_kernel
def _sum(values: np.ndarray, flag: int) -> int:
    return _right(values) + (_unused(flag) if flag > 5 else 0)


@entry_kernel
def _other(x: int) -> int:
    return _left(x) + _shared(x)


def test_a_callee_below_several_callers_and_entries() -> None:
    assert _sum(np.arange(5), 0) == sum(x * x + 1 for x in range(5)) + sum(x * x for x in range(5))
    assert _sum(np.arange(2), 9) == (1 + 2) + 1 + 8
    assert _other(3) == 19


def test_an_error_in_an_inner_kernel_reaches_python() -> None:
    with pytest.raises(ValueError, match="seven"):
        _sum(np.array([7]), 0)


LINKED = """
from cdplugin.kernels.jit.decorators import entry_kernel, kernel

@kernel
def inner(x):
    if x == 7:
        raise ValueError("seven")
    return x * x

@entry_kernel
def entry(x):
    return inner(x) + 1

print(entry(5), sum(entry.stats.cache_hits.values()))
try:
    entry(7)
except ValueError as error:
    print(error)
for made in inner.overloads.values():  # none, where the entry came from the cache
    program = next(iter(entry.overloads.values())).library
    print(len(program.serialize_using_object_code()[2][0]) > 0, made.library.get_pointer_to_function("anything"))
"""


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_only_an_entry_has_machine_code_which_answers_alike_from_the_cache(tmp_path: Path) -> None:
    source = tmp_path / "linked.py"
    source.write_text(LINKED)
    environment = {**os.environ, "CDPLUGIN_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, str(source)]
    answers = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert answers == ["26 0\nseven\nTrue 0\n", "26 1\nseven\n"]
