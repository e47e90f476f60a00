"""The masking kernels beside a loop over bits. Triton's interpreter runs the Triton kernel, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdplugin.kernels.jit.decorators import BOUNDSCHECK, DISABLED
from cdplugin.kernels.masks.bitmask import MINUS_INFINITY, mask_rows

ROOT = Path(__file__).resolve().parents[2]
said_once = pytest.mark.skipif(DISABLED or BOUNDSCHECK, reason="no kernel of Numba's: nothing is interpreted or checked")


def naive(logits: np.ndarray, masks: np.ndarray, rows: list[int], fill: int) -> np.ndarray:
    """What the kernel must do, one bit at a time, on 2-D arrays."""
    out = logits.copy()
    for i in rows:
        for c in range(logits.shape[1]):
            word = int(masks[i, c // 32]) if c // 32 < masks.shape[1] else 0
            if not (word >> (c % 32)) & 1:
                out[i, c] = fill
    return out


@pytest.mark.kernel
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_kernel_equals_naive(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(MINUS_INFINITY)))
    fill = MINUS_INFINITY[kind]
    batch, columns, words = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 140)), data.draw(st.integers(1, 5))
    row_pad, column_stride = data.draw(st.integers(0, 3)), data.draw(st.sampled_from([1, 1, 2, 3]))
    mask_pad = data.draw(st.integers(0, 2))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    row_stride, mask_stride = columns * column_stride + row_pad, words + mask_pad
    flat = rng.integers(-1000, 1000, batch * row_stride).astype(fill.dtype)
    masks = rng.integers(-(2**31), 2**31, batch * mask_stride).astype(np.int32)
    masks[rng.random(masks.size) < 0.2] = -1
    masks[rng.random(masks.size) < 0.2] = 0
    rows = data.draw(st.lists(st.integers(0, batch - 1), unique=True))
    indices = np.array(rows, np.int64)
    logits_2d = flat.reshape(batch, row_stride)[:, : columns * column_stride : column_stride]
    expected_flat = flat.copy()
    expected_2d = expected_flat.reshape(batch, row_stride)[:, : columns * column_stride : column_stride]
    listed = rows if rows else list(range(batch))
    expected_2d[:] = naive(logits_2d, masks.reshape(batch, mask_stride)[:, :words], listed, int(fill))
    count = mask_rows(flat, row_stride, column_stride, columns, masks, mask_stride, words, indices, len(listed), fill)
    assert count == len(listed)
    np.testing.assert_array_equal(flat, expected_flat)  # the padding between rows and columns is untouched too


@pytest.mark.kernel
def test_no_words_masks_everything() -> None:
    flat = np.zeros(6, np.int32)
    mask_rows(flat, 3, 1, 3, np.empty(0, np.int32), 0, 0, np.empty(0, np.int64), 2, MINUS_INFINITY["float32"])
    assert (flat.view(np.float32) == -np.inf).all()


@said_once
def test_minus_infinity_bits() -> None:
    import torch

    for kind, bits in MINUS_INFINITY.items():
        value = torch.full((1,), float("-inf"), dtype=getattr(torch, kind))
        assert value.view(torch.int32 if kind == "float32" else torch.int16).item() == int(bits)


TRITON_CHECK = """
    import torch
    from cdplugin.kernels.masks import bitmask_triton
    generator = torch.Generator().manual_seed(0)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for rows, columns, words, row_pad, step, mask_pad in (
            (1, 1, 1, 0, 1, 0), (3, 64, 2, 0, 1, 0), (2, 70, 2, 5, 1, 0),
            (4, 5000, 157, 0, 1, 3), (2, 90, 3, 0, 2, 0), (3, 33, 4, 1, 1, 1),
        ):
            base = torch.randn(rows, columns * step + row_pad, generator=generator).to(dtype)
            masks = torch.randint(-2**31, 2**31 - 1, (rows, words + mask_pad), generator=generator).to(torch.int32)
            masks[0, 0] = -1
            masks = masks[:, :words]
            for listed in (None, [rows - 1], list(range(0, rows, 2))):
                actual_base, expected_base = base.clone(), base.clone()
                actual = actual_base[:, : columns * step : step]
                expected = expected_base[:, : columns * step : step]
                indices = None if listed is None else torch.tensor(listed, dtype=torch.int32)
                bitmask_triton.mask_rows(actual, masks, indices, rows if listed is None else len(listed))
                for i in range(rows) if listed is None else listed:
                    for c in range(columns):
                        word = int(masks[i, c // 32]) if c // 32 < words else 0
                        if not (word >> (c % 32)) & 1:
                            expected[i, c] = float("-inf")
                assert torch.equal(actual_base, expected_base), (dtype, rows, columns, words, listed)
    print("equal")
"""


@said_once
def test_triton_kernel_equals_naive() -> None:
    if importlib.util.find_spec("triton") is None:
        pytest.skip("triton is not installed: it has no wheel for this platform or Python version")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(TRITON_CHECK)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "equal"
