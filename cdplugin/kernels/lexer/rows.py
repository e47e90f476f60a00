"""Transition rows of lexer states: of 256 entries only where a state needs them.

Inside a name or a keyword one byte goes on, and most states are met once. Rows of 256 entries for all would be most of an
arena's memory, a fresh page for every four states, and two entries of a row in use. So a state gets its row when its first
transition is asked for, and it is one of three:

- *short*, for at most ``MOST_SHORT`` heads (:mod:`cdplugin.kernels.lexer.heads`): an entry for each; other bytes are dead.
- *beside* the row of the simplified state (:mod:`cdplugin.kernels.lexer.simplified`), for EXACT lexemes of which at most
  ``MOST_SHORT`` bytes lead elsewhere than there: an entry for each of these; for other bytes the simplified state's row counts.
- *long*: an entry for each byte.

::

    {k: ame"}                                        short      | a |
    {k: ame", s: ([^"]* & ~(name | size))"}          beside     | a |    other bytes: as in the row of {s: [^"]*"}
    {s: [^"]*"}                                      long       | 0 | 1 | … | 255 |

The bytes of short rows and of rows beside others stand in L_HEADS, and L_N_HEADS tells the three apart: it is at most
``MOST_SHORT``, at least ``BESIDE``, or between. An entry is described in :mod:`cdplugin.kernels.lexer.layout`.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, value_of
from cdplugin.kernels.lexer.heads import MANY, MOST_HEADS, find_heads, head_at, head_from, head_place, note_heads
from cdplugin.kernels.lexer.simplified import simplified_state
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i32, i64, word_of

MOST_SHORT = 8  # entries of a row that is not long: its bytes are one word of L_HEADS
BESIDE = 512  # in L_N_HEADS, and the number of bytes: the row is beside that of L_SIMPLIFIED


@kernel
def row_of(h, state):
    """Where the row of a state begins in TRANSITIONS, made now if it has none: an index, or a status.

    It also says, from then on, whether the state has few heads: ``L_N_HEADS`` is noted with ``L_ROW``.
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
    few = MOST_SHORT < heads <= MOST_HEADS  # in a long row, what is no head is known to be dead
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
    """``BESIDE`` plus the number of bytes by which a state may lead elsewhere than its simplified one, noted in L_HEADS;
    ``MANY`` if they are more than ``MOST_SHORT`` or there is no such state; or a status.

    Only EXACT lexemes: what a LONGEST lexeme has matched tells two states apart by all bytes that end it.
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
    """Whether the row of a state, which has one, has an entry for each byte."""
    heads = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS]
    return MOST_SHORT < heads < BESIDE


@kernel
def is_beside(h, state, other):
    """Whether the row of a state, which has one, is beside that of ``other``: only the bytes of L_HEADS may tell them apart."""
    records = i64(h, layout.LEXER_STATES)
    record = state * lexer_layout.LEXER_WORDS
    return records[record + lexer_layout.L_N_HEADS] >= BESIDE and records[record + lexer_layout.L_SIMPLIFIED] == other


@kernel
def known_transition(h, state, byte):
    """The transition of a state by a byte, -1: not computed."""
    records = i64(h, layout.LEXER_STATES)
    record = state * lexer_layout.LEXER_WORDS
    heads = records[record + lexer_layout.L_N_HEADS]
    if MOST_SHORT < heads < BESIDE:  # two loads, which callers inline
        return np.int64(i32(h, layout.TRANSITIONS)[records[record + lexer_layout.L_ROW] + byte])
    return _known_in_short(h, state, byte) if heads >= 0 else np.int64(-1)


@kernel
def _known_in_short(h, state, byte):
    """:func:`known_transition` of a state whose row is not long."""
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
    """The first byte from ``byte`` on that may lead anywhere from a state, which has a row; 256: none."""
    if byte < 256 and i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS] <= MOST_HEADS:
        return head_from(h, state, byte)
    return np.int64(byte)


@kernel
def first_head(h, state):
    """The first of the bytes that may come next in a state, which has a row, where they are few; 256: they are not, or none."""
    few = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS] <= MOST_HEADS
    return head_from(h, state, 0) if few else np.int64(256)


@kernel
def end_of_run(h, state, byte, after):
    """The first byte behind ``byte``, whose transition is ``after``, that is not known to have the same; 256: none."""
    byte += 1
    if has_long_row(h, state):
        transitions = i32(h, layout.TRANSITIONS)
        row = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_ROW]
        while byte < 256 and transitions[row + byte] == after:
            byte += 1
    return np.int64(byte)


@kernel
def owner_of(h, state, byte):
    """The state whose row has the entry of ``state`` by ``byte``: itself, or the simplified state where the row is beside that
    one's and the byte is not in it. Makes the rows on the way. Or a status.
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
