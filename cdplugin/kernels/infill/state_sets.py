"""Interned sets of lexer states: each set of states that are alive together is one number.

The lattice tracks all lexemes that began at one node as one set: at first the states in which lexemes start there, some hundred
behind a gap or an open slot. The next set depends on the set and the element alone (:mod:`cdplugin.kernels.infill.steps`), and
few sets occur, so the lattice looks up more than it computes: a lazy subset construction.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, charge_sort, live_row, or_row, room, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer.fields import ending_of, value_of
from cdplugin.kernels.lexer.states import take_state
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    equal_words,
    fill_words,
    first_slot,
    hash_words,
    header,
    length_of,
    mix,
    sort_range,
    word_of,
)
from cdplugin.kernels.store.stack import push

MOST_SETS = 1 << 13
MOST_STEP_WORDS = 1 << 22


@kernel
def reuse_sets(w):
    """At the beginning of a text, forget all sets if there are too many: 1 if sets are reused, 0 if they were forgotten, or
    ``W_GROW``.

    Checkpoints name sets by number, so they are dropped with them. Within one text nothing is forgotten.
    """
    head = whead(w)
    if not room(w, ws.SET_HASH, 4 * MOST_SETS) or not room(w, ws.SET_HEADS, 2) or not room(w, ws.STEPS, 1):
        return np.int64(statuses.W_GROW)
    if 0 < head[ws.W_N_SETS] < MOST_SETS and head[ws.W_STEPS_USED] < MOST_STEP_WORDS:
        return np.int64(1)
    for table in (ws.SET_HASH, ws.CLASS_SET):
        words = tab(w, table)
        fill_words(words, 0, words.shape[0], 0)
    tab(w, ws.SET_HEADS)[1] = 0  # set 0 is empty
    head[ws.W_N_SETS] = 1
    head[ws.W_STEPS_USED] = 1
    head[ws.W_N_START_SETS] = 0
    return np.int64(0)


@kernel
def fresh_stamp(w):
    """A new stamp: all marks made under older ones no longer count."""
    head = whead(w)
    head[ws.W_STAMP] += 1
    return head[ws.W_STAMP]


@kernel
def add_state(w, count, state, stamp):
    """Append a lexer state to the set under construction unless it is marked; the new count, or ``W_GROW``.

    The set under construction lies in ``SET_STATES`` behind the numbered sets. It gets its number in :func:`end_set`.
    """
    at = tab(w, ws.SET_HEADS)[whead(w)[ws.W_N_SETS]] + count
    charge(w, 2)
    if not room(w, ws.SET_STATES, at + 1) or not room(w, ws.MARK, state + 1):
        return np.int64(statuses.W_GROW)
    mark = tab(w, ws.MARK)
    if mark[state] == stamp:
        return np.int64(count)
    mark[state] = stamp
    tab(w, ws.SET_STATES)[at] = state
    return np.int64(count + 1)


@kernel
def add_parts(h, w, count, state, stamp):
    """:func:`add_state` for each lexeme of an EXACT state (0: none) by itself; the new count, or a status.

    EXACT lexemes do not compete, so each can be tracked by itself. There are far fewer states of one lexeme than of many, and
    each state's effect (what a token does to it) costs a walk of the whole trie.
    """
    if state == 0:
        return np.int64(count)
    value = value_of(h, state)
    n_words = length_of(h, value)
    if n_words == 1 or ending_of(h, word_of(h, value, 0) >> 32) != layout.EXACT:
        return add_state(w, count, state, stamp)
    for i in range(n_words):
        base = header(h)[layout.STACK_TOP]
        if push(h, word_of(h, value, i)) < 0:
            return np.int64(statuses.GROW)
        part = take_state(h, base)
        if part < 0:
            return part
        count = add_state(w, count, part, stamp)
        if count < 0:
            return count
    return np.int64(count)


@kernel
def _sort_states(w, states, first, count):
    """Sort ``count`` distinct states, from ``first`` on, in place; whether there was room and work.

    The states that a gap leads to were mostly made at one time, so their numbers are close: these are written to a bit set and
    read back. States far apart are sorted by comparison.
    """
    low = high = states[first]
    ascending = True
    for i in range(first + 1, first + count):
        ascending = ascending and states[i - 1] < states[i]
        low = min(low, states[i])
        high = max(high, states[i])
    if ascending:
        return True
    words = ((high - low) >> 6) + 1
    if words > 4 * count:
        if not charge_sort(w, count):
            return False
        sort_range(states, first, count)
        return True
    charge(w, 2 * words)
    if not room(w, ws.STATE_BITS, words):
        return False
    bits = tab(w, ws.STATE_BITS)
    fill_words(bits, 0, words, 0)
    for i in range(first, first + count):
        set_bit(bits, 0, states[i] - low)
    at = first
    for i in range(words):
        word = bits[i]
        while word:
            states[at] = low + 64 * i + low_bit(word)
            word &= word - 1
            at += 1
    return True


@kernel
def end_set(w, count):
    """The number of the set under construction, whose states come in any order; 0 if it is empty; or ``W_GROW``.

    Equal sets have one number: the states are sorted, hashed and compared. A new set gets an empty row of ``STEP_OF``.
    """
    if count == 0:
        return np.int64(0)
    head = whead(w)
    number = head[ws.W_N_SETS]
    states = tab(w, ws.SET_STATES)
    first = tab(w, ws.SET_HEADS)[number]
    charge(w, 16 + 4 * count)
    if not _sort_states(w, states, first, count):
        return np.int64(statuses.W_GROW)
    hash_ = mix(layout.HASH_SEED, count)
    hash_ = hash_words(hash_, states, first, count)
    index = tab(w, ws.SET_HASH)
    heads = tab(w, ws.SET_HEADS)
    size = index.shape[0] - 1
    slot = first_slot(hash_, size)
    while index[slot] != 0:
        other = heads[index[slot]]
        if heads[index[slot] + 1] - other == count and equal_words(states, other, states, first, count):
            return index[slot]
        slot = (slot + 1) & size
    charge(w, ws.COLUMNS_OF_STEPS)
    if not room(w, ws.SET_HEADS, number + 2) or not room(w, ws.STEP_OF, (number + 1) * ws.COLUMNS_OF_STEPS):
        return np.int64(statuses.W_GROW)
    if 2 * (number + 1) > index.shape[0]:
        room(w, ws.SET_HASH, 2 * index.shape[0])
        return np.int64(statuses.W_GROW)
    tab(w, ws.SET_HEADS)[number + 1] = first + count
    steps = tab(w, ws.STEP_OF)
    fill_words(steps, number * ws.COLUMNS_OF_STEPS, ws.COLUMNS_OF_STEPS, 0)
    index[slot] = number
    head[ws.W_N_SETS] = number + 1
    return number


@kernel
def add_live(w, table, count, set_, starts, stamp):
    """Add a set of states with the row of its starts to a list of live sets; the new count, or ``W_GROW``.

    ``table``: LIVE, LIVE_NEXT or SNAPSHOT; ``count``: its length; ``set_``: 0 adds nothing. If the list has the set already,
    only the starts are united. So the list has one entry per distinct set, however many nodes lexemes began at.
    """
    if set_ == 0:
        return np.int64(count)
    charge(w, 8 + whead(w)[ws.W_WIDTH])
    if not room(w, ws.LIVE_SLOT, set_ + 1) or not room(w, table, 2 * count + 2):
        return np.int64(statuses.W_GROW)
    slots = tab(w, ws.LIVE_SLOT)
    live = tab(w, table)
    # the stamp is this list's: the set is in it already
    if slots[set_] >> 32 == stamp:
        at = slots[set_] & 0xFFFFFFFF
        or_row(tab(w, ws.LIVE_BITS), live[2 * at + 1], starts, whead(w)[ws.W_WIDTH])
        return np.int64(count)
    row = live_row(w)
    if row < 0:
        return row
    or_row(tab(w, ws.LIVE_BITS), row, starts, whead(w)[ws.W_WIDTH])
    live[2 * count] = set_
    live[2 * count + 1] = row
    slots[set_] = (stamp << 32) | count
    return np.int64(count + 1)


@kernel
def swap_live(w, count):
    """Make ``LIVE_NEXT`` the live list, of length ``count``: the two tables swap places in the header, so nothing is copied."""
    head = whead(w)
    for word in range(2):
        saved = head[2 * ws.LIVE + word]
        head[2 * ws.LIVE + word] = head[2 * ws.LIVE_NEXT + word]
        head[2 * ws.LIVE_NEXT + word] = saved
    head[ws.W_N_LIVE] = count
