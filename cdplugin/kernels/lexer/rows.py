"""Transition rows of lexer states: 256 entries only for states that need them.

Inside a name or a keyword one byte goes on, and most states are met once. Rows of 256 entries for all states would be most of
an arena's memory: a fresh page for every four states, of which two entries each are used. So a state gets its row at its first
transition, as one of three kinds:

- *short*, for at most ``MOST_SHORT`` heads (:mod:`cdplugin.kernels.lexer.heads`): an entry for each head; other bytes are dead.
- *beside* the row of the simplified state (:mod:`cdplugin.kernels.lexer.simplified`), for EXACT lexemes of which at most
  ``MOST_SHORT`` bytes lead elsewhere: an entry for each of these; other bytes are looked up in the simplified state's row.
- *long*: an entry for each byte.

::

    {k: ame"}                                        short      | a |
    {k: ame", s: ([^"]* & ~(name | size))"}          beside     | a |    other bytes: as in the row of {s: [^"]*"}
    {s: [^"]*"}                                      long       | 0 | 1 | … | 255 |

L_HEADS lists the bytes of short rows and of rows beside others. L_N_HEADS tells the kinds apart: at most ``MOST_SHORT`` is a
short row, ``BESIDE`` or more a row beside another, anything between a long one. :mod:`cdplugin.kernels.lexer.layout` describes
the entries.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, value_of
from cdplugin.kernels.lexer.heads import MANY, MOST_HEADS, find_heads, head_at, head_from, head_place, note_heads
from cdplugin.kernels.lexer.simplified import simplified_state
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i32, i64, word_of

MOST_SHORT = 8  # most entries of a row that is not long: their bytes are one word of L_HEADS
BESIDE = 512  # L_N_HEADS is BESIDE + the number of entries: the row is beside that of L_SIMPLIFIED


@kernel
def row_of(h, state):
    """Return the index in TRANSITIONS of a state's row, making the row if there is none; or a status.

    Making the row also notes the state's heads: ``L_N_HEADS`` is valid from then on.
    """
    record = state * lexer_layout.LEXER_WORDS
    known = i64(h, layout.LEXER_STATES)[record + lexer_layout.L_ROW]
    if known >= 0:
        return known
    heads = find_heads(h, state)
    if heads == MANY:
        heads = _find_beside(h, state)
    if heads < 0:
        return heads
    size = np.int64(256)
    if heads <= MOST_SHORT or heads >= BESIDE:
        size = heads & (BESIDE - 1)
    head = header(h)
    row = head[layout.TRANSITIONS_USED]
    if not has_room(h, layout.TRANSITIONS, row + size):
        return np.int64(statuses.GROW)
    transitions = i32(h, layout.TRANSITIONS)
    few = MOST_SHORT < heads <= MOST_HEADS  # a long row with few heads: all other bytes are known to be dead
    for i in range(row, row + size):
        transitions[i] = 0 if few else -1
    if few:
        for i in range(heads):
            transitions[row + head_at(h, state, i)] = -1
    head[layout.TRANSITIONS_USED] = row + size
    records = i64(h, layout.LEXER_STATES)
    records[record + lexer_layout.L_N_HEADS] = heads
    records[record + lexer_layout.L_ROW] = row
    return row


@kernel
def _find_beside(h, state):
    """Return ``BESIDE`` plus the number of bytes by which a state may lead elsewhere than its simplified state, and note them
    in L_HEADS.

    Returns ``MANY`` if they are more than ``MOST_SHORT`` or nothing can be simplified; or a status. Only for EXACT lexemes: a
    LONGEST match tells two states apart by all bytes that end it.
    """
    if ending_of(h, word_of(h, value_of(h, state), 0) >> 32) != layout.EXACT:
        return np.int64(MANY)
    simplified = simplified_state(h, state)
    if simplified < 0:
        return np.int64(simplified)
    if simplified == state:
        return np.int64(MANY)
    own = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_OWN :]
    count = note_heads(h, state, own, MOST_SHORT)
    return np.int64(MANY if count < 0 else BESIDE + count)


@kernel
def has_long_row(h, state):
    """Return whether a state's row (it has one) has an entry for each byte."""
    heads = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS]
    return MOST_SHORT < heads < BESIDE


@kernel
def is_beside(h, state, other):
    """Return whether a state's row (it has one) is beside that of ``other``, so that only the bytes of L_HEADS may tell the two
    apart.
    """
    records = i64(h, layout.LEXER_STATES)
    record = state * lexer_layout.LEXER_WORDS
    return records[record + lexer_layout.L_N_HEADS] >= BESIDE and records[record + lexer_layout.L_SIMPLIFIED] == other


@kernel
def known_transition(h, state, byte):
    """Return the transition of a state by a byte if it is cached, else -1."""
    records = i64(h, layout.LEXER_STATES)
    record = state * lexer_layout.LEXER_WORDS
    heads = records[record + lexer_layout.L_N_HEADS]
    if MOST_SHORT < heads < BESIDE:  # two loads, which callers inline
        return np.int64(i32(h, layout.TRANSITIONS)[records[record + lexer_layout.L_ROW] + byte])
    return _known_in_short(h, state, byte) if heads >= 0 else np.int64(-1)


@kernel
def _known_in_short(h, state, byte):
    """Do :func:`known_transition` for a state whose row is not long."""
    records = i64(h, layout.LEXER_STATES)
    while True:
        record = state * lexer_layout.LEXER_WORDS
        heads = records[record + lexer_layout.L_N_HEADS]
        if heads < 0:
            return np.int64(-1)
        row = records[record + lexer_layout.L_ROW]
        if MOST_SHORT < heads < BESIDE:
            return np.int64(i32(h, layout.TRANSITIONS)[row + byte])
        place = head_place(h, state, byte)
        if place >= 0:
            return np.int64(i32(h, layout.TRANSITIONS)[row + place])
        if heads < BESIDE:
            return np.int64(0)
        state = records[record + lexer_layout.L_SIMPLIFIED]


@kernel
def live_from(h, state, byte):
    """Return the first byte from ``byte`` on that may lead anywhere from a state (it has a row); 256: none."""
    if byte < 256 and i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS] <= MOST_HEADS:
        return head_from(h, state, byte)
    return np.int64(byte)


@kernel
def first_head(h, state):
    """Return the first head of a state (it has a row) with few heads; 256 if there is none, or if they are many."""
    few = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS] <= MOST_HEADS
    return head_from(h, state, 0) if few else np.int64(256)


@kernel
def end_of_run(h, state, byte, after):
    """Return the first byte after ``byte`` whose transition is not known to be ``after``, the transition of ``byte``; 256:
    none.
    """
    byte += 1
    if has_long_row(h, state):
        transitions = i32(h, layout.TRANSITIONS)
        row = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_ROW]
        while byte < 256 and transitions[row + byte] == after:
            byte += 1
    return np.int64(byte)


@kernel
def owner_of(h, state, byte):
    """Return the state whose row has the entry of ``state`` by ``byte``, making rows on the way; or a status.

    It is the state itself, or, if its row is beside another one and lacks the byte, the simplified state (or that one's, and so
    on).
    """
    records = i64(h, layout.LEXER_STATES)
    while True:
        row = row_of(h, state)
        if row < 0:
            return row
        record = state * lexer_layout.LEXER_WORDS
        if records[record + lexer_layout.L_N_HEADS] < BESIDE or head_place(h, state, byte) >= 0:
            return np.int64(state)
        state = records[record + lexer_layout.L_SIMPLIFIED]
