"""Apply masks to logits on the CPU: one pass over each row, 32 tokens per mask word.

Logits are handled as integers of their own width, so one loop serves float32 (as int32), float16 and bfloat16 (as int16);
``fill`` is the bit pattern of minus infinity. A mask word of all ones is skipped; any other is a select over 32 lanes with an
unconditional store, which LLVM turns into vector blends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cdplugin.kernels.jit.decorators import entry_kernel

MINUS_INFINITY = {"float32": np.int32(-0x00800000), "float16": np.int16(-0x0400), "bfloat16": np.int16(-0x0080)}
"""The bits of minus infinity as a signed integer of the type's width (0xFF800000, 0xFC00, 0xFF80)."""


@entry_kernel
def mask_rows(
    logits: Any,
    row_stride: int,
    column_stride: int,
    columns: int,
    masks: Any,
    mask_stride: int,
    words: int,
    indices: Any,
    rows: int,
    fill: Any,
) -> int:
    """Write ``fill`` where a mask has a zero bit, and in every column at or beyond ``32 * words``.

    Row ``i`` of the batch is ``logits[i * row_stride + c * column_stride]`` for ``c < columns`` and goes with the mask
    ``masks[i * mask_stride : i * mask_stride + words]``; both are flat arrays over the tensors' memory, int32 or int16 (the
    type of ``fill``) and int32.
    Rows ``indices[:rows]`` are treated, or the first ``rows`` when ``indices`` is empty. Returns ``rows``.
    O(rows * columns); the owner has checked the bounds of ``indices``.
    """
    listed = indices.shape[0] > 0
    covered = min(columns, 32 * words)
    whole = covered // 32
    for position in range(rows):
        i = indices[position] if listed else position
        base = i * row_stride
        mask = masks[i * mask_stride : i * mask_stride + words]
        if column_stride == 1:
            row = logits[base : base + columns]
            for w in range(whole):
                word = mask[w]
                if word != -1:
                    for k in range(32):
                        keep = (word >> np.int32(k)) & np.int32(1)  # 32-bit arithmetic: 64-bit lanes would be 50 times slower
                        row[32 * w + k] = row[32 * w + k] if keep != 0 else fill
            if covered > 32 * whole:
                word = mask[whole]
                for k in range(covered - 32 * whole):
                    if not (word >> k) & 1:
                        row[32 * whole + k] = fill
            if columns > covered:
                row[covered:columns] = fill
        else:
            for c in range(columns):
                if c >= covered or not (mask[c // 32] >> (c % 32)) & 1:
                    logits[base + c * column_stride] = fill
    return rows
