"""Masking logits on a GPU with Triton. Import it only where Triton is installed and the logits are on the device.

A program masks ``BLOCK`` columns of one row: each of its lanes reads the word of its column, so 32 neighbouring lanes read one
word, and stores minus infinity or nothing. Logits that stay are not read: the traffic is that of the masked ones.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

BLOCK = 1024
LANES = {2: 256, 4: 128}
"""Lanes of a program by the bytes of a logit: each has few neighbouring columns, so that a warp stores to one small range.
Blocks and lanes are the fastest of those measured on an H100 (perf/results/2026-11-27-gpu-kernel.json)."""


@triton.jit
def _mask_kernel(
    logits,
    masks,
    indices,
    row_stride,
    column_stride,
    mask_stride,
    columns,
    words,
    LISTED: tl.constexpr,  # noqa: N803 - Triton's custom for constants
    BLOCK: tl.constexpr,  # noqa: N803
):
    """Program (p, b) masks columns ``b * BLOCK`` to ``(b + 1) * BLOCK`` of row ``indices[p]``, or of row p.

    Only masked columns are written; a column beyond the mask reads a word of zeros, and so is masked.
    """
    row = tl.program_id(0).to(tl.int64)
    if LISTED:
        row = tl.load(indices + row).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    word_index = column // 32
    word = tl.load(masks + row * mask_stride + word_index, mask=word_index < words, other=0)
    masked = ((word >> (column % 32)) & 1) == 0
    address = logits + row * row_stride + column.to(tl.int64) * column_stride
    tl.store(address, float("-inf"), mask=masked & (column < columns))


def mask_rows(logits: Any, masks: Any, indices: Any, rows: int) -> None:
    """Mask ``rows`` rows of a 2-D tensor in place; ``indices`` is None or an int32 tensor on the same device.

    The arguments are checked by :func:`cdplugin.apply_token_bitmask_inplace`.
    """
    columns = logits.shape[1]
    grid = (rows, triton.cdiv(columns, BLOCK))
    _mask_kernel[grid](
        logits,
        masks,
        masks if indices is None else indices,
        logits.stride(0),
        logits.stride(1),
        masks.stride(0),
        columns,
        masks.shape[1],
        LISTED=indices is not None,
        BLOCK=BLOCK,
        num_warps=LANES[logits.element_size()] // 32,
    )
