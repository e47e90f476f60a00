"""Fields of mask bases (``B_``), by name. Each is one load after inlining. ``base``: a record's number, from 0."""

from __future__ import annotations

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import header, i64


@kernel
def tokens_of(h, base):
    """Where its token list begins in ``TOKEN_LISTS``."""
    return i64(h, layout.BASES)[base * mask_layout.BASE_WORDS + mask_layout.B_TOKENS]


@kernel
def n_tokens_of(h, base):
    """The length of its token list, or ``AS_BITMASK``."""
    return i64(h, layout.BASES)[base * mask_layout.BASE_WORDS + mask_layout.B_LENGTH]


@kernel
def groups_of(h, base):
    """Its first group of ends, in ``ENDS``."""
    return i64(h, layout.BASES)[base * mask_layout.BASE_WORDS + mask_layout.B_GROUPS]


@kernel
def n_groups_of(h, base):
    """How many groups of ends it has."""
    return i64(h, layout.BASES)[base * mask_layout.BASE_WORDS + mask_layout.B_N_GROUPS]


@kernel
def parent_of(h, base):
    """The base whose tokens it has too, -1: none."""
    return i64(h, layout.BASES)[base * mask_layout.BASE_WORDS + mask_layout.B_PARENT]


@kernel
def record_base(h, slice_row, tokens, length, groups, n_groups):
    """Write the next record of BASES, for which there is room, without a parent; its number."""
    head = header(h)
    number = head[layout.N_BASES]
    bases = i64(h, layout.BASES)
    record = number * mask_layout.BASE_WORDS
    bases[record + mask_layout.B_SLICE] = slice_row
    bases[record + mask_layout.B_TOKENS] = tokens
    bases[record + mask_layout.B_LENGTH] = length
    bases[record + mask_layout.B_GROUPS] = groups
    bases[record + mask_layout.B_N_GROUPS] = n_groups
    bases[record + mask_layout.B_PARENT] = -1
    bases[record + mask_layout.B_LESS] = 0
    bases[record + mask_layout.B_N_LESS] = 0
    bases[record + mask_layout.B_LEARN] = 0
    head[layout.N_BASES] = number + 1
    return number
