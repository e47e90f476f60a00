"""Fields of mask bases (``B_``), by name. Each is one load after inlining. ``base``: a record's number, from 0."""

from __future__ import annotations

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import i64


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
