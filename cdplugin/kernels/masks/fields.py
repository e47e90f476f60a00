"""Accessors for the fields of mask bases (``B_``). Each inlines to one load. ``base`` is a record number, from 0."""

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import field, header, i64

tokens_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_TOKENS)
"""Index in ``TOKEN_LISTS`` where the base's token list begins."""
n_tokens_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_LENGTH)
"""The length of the base's token list, or ``AS_BITMASK``."""
groups_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_GROUPS)
"""Index in ``ENDS`` of the base's first group of ends."""
n_groups_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_N_GROUPS)
"""The number of the base's groups of ends."""
parent_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_PARENT)
"""The base that this one is stored as a difference from, -1: none."""


@kernel
def record_base(h, slice_row, tokens, length, groups, n_groups, parent, less, n_less):
    """Append a record to BASES and return its number. The caller has checked that there is room."""
    head = header(h)
    number = head[layout.N_BASES]
    bases = i64(h, layout.BASES)
    record = number * mask_layout.BASE_WORDS
    bases[record + mask_layout.B_SLICE] = slice_row
    bases[record + mask_layout.B_TOKENS] = tokens
    bases[record + mask_layout.B_LENGTH] = length
    bases[record + mask_layout.B_GROUPS] = groups
    bases[record + mask_layout.B_N_GROUPS] = n_groups
    bases[record + mask_layout.B_PARENT] = parent
    bases[record + mask_layout.B_LESS] = less
    bases[record + mask_layout.B_N_LESS] = n_less
    bases[record + mask_layout.B_LEARN] = 0
    head[layout.N_BASES] = number + 1
    return number
