"""How large an arena's tables begin, and room for one that grows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdplugin.engine import pages
from cdplugin.engine.blocks import DTYPES
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout

# first capacities, in items: enough for a small schema, so that most grammars never grow
INITIAL = {
    layout.DATA: 6144,
    layout.VALUES: 1792 * layout.VALUE_WORDS,
    layout.INDEX: 8192,
    layout.MEMO_KEYS: 2048,
    layout.MEMO_RESULTS: 2048,
    layout.STACK: 4608,
    layout.TRANSITIONS: 32 * 256,
    layout.LEXER_STATES: 128 * lexer_layout.LEXER_WORDS,
    layout.ROWS: 1024,
    layout.BASES: 128 * mask_layout.BASE_WORDS,
    layout.MASKS: 512,
    layout.TOKEN_LISTS: 8192,
    layout.ENDS: 2048,
}
"""Items that tables begin with: zeros. Record 0 ("none") of values, lexer states, their transitions, and rows is among them:
kernels read it without asking."""

ROOM = {
    layout.DATA: 8,
    layout.VALUES: 4,
    layout.STACK: 8,
    layout.TRANSITIONS: 64,
    layout.LEXER_STATES: 16,
    layout.ROWS: 4,
    layout.BASES: 4,
    layout.MASKS: 4,
    layout.TOKEN_LISTS: 16,
    layout.ENDS: 16,
}
"""How many times ``INITIAL`` a table of a clone may become where it is: addresses that take no memory until they are used. Most
grammars grow, and a copy would take fresh pages for what is there already."""

AT_ONCE = {
    layout.DATA: 2,
    layout.VALUES: 2,
    layout.TRANSITIONS: 4,
    layout.LEXER_STATES: 4,
    layout.TOKEN_LISTS: 2,
    layout.ENDS: 2,
}
"""How many times ``INITIAL`` such a table may be used from the beginning, where arenas may be large: an operation that runs out
of room begins again. Only tables that fill from the front, so that what is not used is not touched."""

FOR_WALKS = {
    layout.DATA: 1 << 15,
    layout.VALUES: (1 << 12) * layout.VALUE_WORDS,
    layout.STACK: 1 << 15,
    layout.TRANSITIONS: 128 * 256,
    layout.LEXER_STATES: 256 * lexer_layout.LEXER_WORDS,
    layout.TOKEN_LISTS: 1 << 17,
    layout.ENDS: 1 << 15,
}
"""Items for walks of much of the trie."""

IN_USE = {
    layout.DATA: (layout.DATA_USED, 1),
    layout.VALUES: (layout.N_VALUES, layout.VALUE_WORDS),
    layout.LEXER_STATES: (layout.N_LEXER_STATES, lexer_layout.LEXER_WORDS),
    layout.TRANSITIONS: (layout.TRANSITIONS_USED, 1),
    layout.TOKEN_LISTS: (layout.TOKENS_USED, 1),
    layout.ENDS: (layout.ENDS_USED, 1),
    layout.STACK: (layout.STACK_TOP, 1),
}
"""Tables that fill from the front: the word of the header that counts their records, and the items of one."""

MEMO = (layout.MEMO_KEYS, layout.MEMO_RESULTS)
HASHED = (layout.INDEX, *MEMO)  # their numbers of items are powers of two


class Room(NamedTuple):
    """Memory for a table: zeros, unless a word of the header says how much of the table is in use (``IN_USE``)."""

    array: np.ndarray
    page: np.ndarray | None

    @classmethod
    def of(cls, table: int, items: int) -> Room:
        """Room for so many items of a table, or for all that its pages hold. Raises ``MemoryError``."""
        dtype = DTYPES[table]
        size = items * dtype.itemsize
        if size < pages.LARGE:
            return cls((np.empty if table in IN_USE else np.zeros)(items, dtype), None)
        page, is_zero = pages.acquire(size)
        part = page[:size] if table in HASHED else page
        if not is_zero and table not in IN_USE:
            part[:] = 0
        return cls(part.view(dtype), page)
