"""Rows of bits in Python: bit ``t % 32`` of word ``t // 32`` of a mask row is token ``t``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_FEW_BITS = 24  # that are added to a row one by one


def bit_flags(row: np.ndarray, size: int | None = None) -> np.ndarray:
    """The bits of a row of integers, lowest first, as bool[...]; ``size``: so many, False beyond the row.

    Not as uint8: ``np.flatnonzero`` of 128,256 bytes takes ten times as long as of so many booleans.
    """
    return np.unpackbits(row.view(np.uint8).reshape(-1), bitorder="little", count=size).view(np.bool_)


def packed_bits(flags: np.ndarray) -> np.ndarray:
    """The mask row (int32) with these bits: the reverse of :func:`bit_flags`, for a whole number of words."""
    return np.packbits(flags, bitorder="little").view(np.int32)


def bit_members(row: np.ndarray, size: int | None = None) -> np.ndarray:
    """The numbers of the bits that are set, ascending, as int64[...]; ``size``: only those below."""
    return np.flatnonzero(bit_flags(row, size))


def allow_only(row: np.ndarray, tokens: Iterable[int]) -> None:
    """Have a row of a bitmask, 32-bit words, allow just some tokens."""
    words = row.view(np.uint32)
    words[:] = 0
    for token in tokens:
        words[token >> 5] |= np.uint32(1 << (token & 31))


def set_bits(row: np.ndarray, tokens: np.ndarray) -> None:
    """Have a mask row (int32) allow some tokens, too."""
    if len(tokens) < _FEW_BITS:
        np.bitwise_or.at(row.view(np.uint32), tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
        return
    flags = np.zeros(32 * len(row), np.bool_)
    flags[tokens] = True
    row |= packed_bits(flags)


def members(bits: int) -> list[int]:
    """The numbers of the bits of an integer that are set, ascending."""
    out = []
    while bits:
        low = bits & -bits
        out.append(low.bit_length() - 1)
        bits ^= low
    return out
