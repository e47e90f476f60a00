"""The part of Numba's pipeline that kernels go through: the passes that it omits, and the signatures that it remembers."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from numba.core import types
from numba.core.compiler import DefaultPassBuilder, StateDict
from numba.core.registry import cpu_target

from cdplugin.kernels.jit import pipeline
from cdplugin.kernels.jit.decorators import DISABLED, entry_kernel, kernel

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(DISABLED, reason="compiles")]


class _Flags:
    no_rewrites = False
    enable_ssa = True

    class auto_parallel:  # noqa: N801 - Numba's name
        enabled = False


def test_numba_has_the_passes_that_are_left_out() -> None:
    state = StateDict()
    state.func_ir, state.flags = None, _Flags
    passes = DefaultPassBuilder.define_nopython_pipeline(state).passes
    assert {entry[0].__name__ for entry in passes} >= pipeline._NOT_NEEDED


def test_signatures_are_remembered_and_are_those_of_numba() -> None:
    context = cpu_target.typing_context
    context.refresh()
    beside = pipeline._RememberingContext.beside(context)
    assert beside.callstack is context.callstack
    add = context.resolve_value_type(operator.add)
    floats = types.float64, types.int64
    integers = types.int64, types.literal(3)
    pipeline._signatures.clear()
    try:
        for arguments in (integers, floats, integers):
            assert beside.resolve_function_type(add, arguments, {}) == context.resolve_function_type(add, arguments, {})
        assert len(pipeline._signatures) == 2
        array = types.Array(types.int32, 1, "C")
        assert beside.resolve_setitem(array, types.int64, types.int64) == context.resolve_setitem(
            array, types.int64, types.int64
        )
    finally:
        pipeline._signatures.clear()


def test_a_program_forgets_what_it_remembered() -> None:
    @kernel
    def inner(values: np.ndarray, at: int) -> int:
        values[at] += at
        return values[at] * 2

    def outer(values: np.ndarray, at: int) -> int:
        return inner(values, at) + 1

    program = entry_kernel(outer)
    assert program(np.arange(4), 3) == 13
    assert pipeline._signatures == {}
