"""Apply masks to logits on a GPU, with Triton. Import this only where Triton is installed and the logits are on the device.

Logits are processed in chunks of 16 bytes, as much as one store instruction writes. A chunk that is masked whole is written, an
unmasked one is left alone, and only a mixed one is read first. So the memory traffic is that of the masked logits.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

CHUNK_BYTES = 16
CHUNKS = 512
LANES = 256
"""A program masks ``CHUNKS`` chunks of a row with ``LANES`` lanes: the fastest of the sizes that were measured on an H100
(perf/results/2026-11-27-gpu-chunks.json)."""


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
    CHUNKS: tl.constexpr,  # noqa: N803
    WIDTH: tl.constexpr,  # noqa: N803
):
    """Program (p, b) masks columns ``b * CHUNKS * WIDTH`` to ``(b + 1) * CHUNKS * WIDTH`` of row ``indices[p]``, or of row p.

    A chunk has ``WIDTH`` columns, a divisor of 32: its bits lie in one word. A column beyond the mask reads a word of zeros,
    and so is masked. Where rows are not aligned to chunks, the compiler takes narrower instructions.
    """
    row = tl.program_id(0).to(tl.int64)
    if LISTED:
        row = tl.load(indices + row).to(tl.int64)
    first = (tl.program_id(1) * CHUNKS + tl.arange(0, CHUNKS)) * WIDTH
    word = tl.load(masks + row * mask_stride + first // 32, mask=first // 32 < words, other=0)
    bits = (word >> (first % 32)) & ((1 << WIDTH) - 1)
    is_any_masked = bits != (1 << WIDTH) - 1
    is_mixed = is_any_masked & (bits != 0)
    place = tl.arange(0, WIDTH)[None, :]
    column = first[:, None] + place
    is_inside = column < columns
    address = logits + row * row_stride + column.to(tl.int64) * column_stride
    kept = tl.load(address, mask=is_mixed[:, None] & is_inside, other=float("-inf"))
    is_masked = ((bits[:, None] >> place) & 1) == 0
    tl.store(address, tl.where(is_masked, float("-inf"), kept), mask=is_any_masked[:, None] & is_inside)


def mask_rows(logits: Any, masks: Any, indices: Any, rows: int) -> None:
    """Mask ``rows`` rows of a 2-D tensor in place; ``indices`` is None or an int32 tensor on the same device.

    The arguments are checked by :func:`cdplugin.apply_token_bitmask_inplace`.
    """
    columns = logits.shape[1]
    width = CHUNK_BYTES // logits.element_size()
    grid = (rows, triton.cdiv(columns, CHUNKS * width))
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
        CHUNKS=CHUNKS,
        WIDTH=width,
        num_warps=LANES // 32,
    )
