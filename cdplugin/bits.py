"""Rows of bits in Python: bit ``t % 32`` of word ``t // 32`` of a mask row is token ``t``."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

_FEW_BITS = 24  # fewer bits than this are set one by one


def bitmask_words(vocab_size: int) -> int:
    """The number of 32-bit words of a row: ``ceil(vocab_size / 32)``."""
    return (vocab_size + 31) // 32


def bit_flags(row: np.ndarray, size: int | None = None) -> np.ndarray:
    """The bits of an integer row, lowest first, as a bool array. ``size``: its length; bits beyond the row are False.

    The result is bool, not uint8, because ``np.flatnonzero`` of 128,256 uint8 takes ten times as long.
    """
    return np.unpackbits(row.view(np.uint8).reshape(-1), bitorder="little", count=size).view(np.bool_)


def packed_bits(flags: np.ndarray) -> np.ndarray:
    """The mask row (int32) with these bits: the reverse of :func:`bit_flags`, for a whole number of words."""
    return np.packbits(flags, bitorder="little").view(np.int32)


def bit_members(row: np.ndarray, size: int | None = None) -> np.ndarray:
    """The numbers of the set bits, ascending, as an int64 array. ``size``: only numbers below it."""
    return np.flatnonzero(bit_flags(row, size))


def allow_only(row: np.ndarray, tokens: Iterable[int]) -> None:
    """Make a mask row (32-bit words) allow exactly these tokens."""
    words = row.view(np.uint32)
    words[:] = 0
    for token in tokens:
        words[token >> 5] |= np.uint32(1 << (token & 31))


def has_bit(row: np.ndarray, token: int) -> bool:
    """Whether a mask row allows a token."""
    return bool(row[token >> 5] >> (token & 31) & 1)


def clear_bits(row: np.ndarray, tokens: Iterable[int]) -> None:
    """Make a mask row (32-bit words) forbid these tokens."""
    words = row.view(np.uint32)
    for token in tokens:
        words[token >> 5] &= ~np.uint32(1 << (token & 31))


def all_but(n_words: int, tokens: np.ndarray) -> np.ndarray:
    """The mask row (int32) that allows all tokens but these."""
    flags = np.ones(32 * n_words, np.bool_)
    flags[tokens] = False
    return packed_bits(flags)


def set_bits(row: np.ndarray, tokens: np.ndarray) -> None:
    """Make a mask row (int32) allow these tokens as well."""
    if len(tokens) < _FEW_BITS:
        np.bitwise_or.at(row.view(np.uint32), tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
        return
    flags = np.zeros(32 * len(row), np.bool_)
    flags[tokens] = True
    row |= packed_bits(flags)


def members(bits: int) -> list[int]:
    """The numbers of the set bits of an integer, ascending."""
    out = []
    while bits:
        low = bits & -bits
        out.append(low.bit_length() - 1)
        bits ^= low
    return out
