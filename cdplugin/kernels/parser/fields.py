"""Fields of rows (``R_``), by name. Each is one load after inlining. ``row``: a row's number, from 1."""

from __future__ import annotations

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import i64


@kernel
def items_of(h, row):
    """Its kernel items, a ``K_ITEMS`` value."""
    return i64(h, layout.ROWS)[row * parser_layout.ROW_WORDS + parser_layout.R_ITEMS]


@kernel
def origin_of(h, row):
    """The origin of the items that are predicted in it."""
    return i64(h, layout.ROWS)[row * parser_layout.ROW_WORDS + parser_layout.R_ORIGIN]


@kernel
def exact_start_of(h, row):
    """The lexer state in which its EXACT lexemes start, 0: none."""
    return i64(h, layout.ROWS)[row * parser_layout.ROW_WORDS + parser_layout.R_START]


@kernel
def longest_start_of(h, row):
    """The lexer state in which its LONGEST and LAZY lexemes start, 0: none."""
    return i64(h, layout.ROWS)[row * parser_layout.ROW_WORDS + parser_layout.R_LONGEST]


@kernel
def accepts_of(h, row):
    """1 if the text may end at the boundary before it, else 0."""
    return i64(h, layout.ROWS)[row * parser_layout.ROW_WORDS + parser_layout.R_ACCEPTS]
