"""Fields of mask bases (``B_``), by name. Each is one load after inlining. ``base``: a record's number, from 0."""

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import field, header, i64

tokens_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_TOKENS)
"""Where its token list begins in ``TOKEN_LISTS``."""
n_tokens_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_LENGTH)
"""The length of its token list, or ``AS_BITMASK``."""
groups_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_GROUPS)
"""Its first group of ends, in ``ENDS``."""
n_groups_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_N_GROUPS)
"""How many groups of ends it has."""
parent_of = field(layout.BASES, mask_layout.BASE_WORDS, mask_layout.B_PARENT)
"""The base whose tokens it has too, -1: none."""


@kernel
def record_base(h, slice_row, tokens, length, groups, n_groups, parent, less, n_less):
    """Write the next record of BASES, for which there is room; its number."""
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
