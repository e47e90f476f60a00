"""Rows of bits in Python: bit ``t % 32`` of word ``t // 32`` of a mask row is token ``t``."""

from __future__ import annotations

import numpy as np


def bit_flags(row: np.ndarray, size: int | None = None) -> np.ndarray:
    """The bits of a row of integers, lowest first, as uint8[...]; ``size``: only so many."""
    return np.unpackbits(row.view(np.uint8).reshape(-1), bitorder="little", count=size)


def bit_members(row: np.ndarray, size: int | None = None) -> np.ndarray:
    """The numbers of the bits that are set, ascending, as int64[...]; ``size``: only those below."""
    return np.flatnonzero(bit_flags(row, size))
