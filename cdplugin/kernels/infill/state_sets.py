"""Sets of lexer states that are alive together, each as one number.

All that may have begun at one node is followed as one set: at first the states in which lexemes start there, behind a gap or
an open slot some hundred. What a byte, a slot or a gap makes of a set depends on the set alone
(:mod:`cdplugin.kernels.infill.steps`), and few sets come up, so the lattice is looked up more than it is computed: the subset
construction, made as it is needed.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill.workspace import (
    CLASS_SET,
    MARK,
    SET_HASH,
    SET_HEADS,
    SET_STATES,
    STEP_OF,
    STEPS,
    W_GROW,
    W_N_SETS,
    W_N_START_SETS,
    W_STAMP,
    W_STEPS_USED,
    room,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.lexer import L_VALUE, LEXER_WORDS, kind, lexer_state
from cdplugin.kernels.store.arena import (
    EXACT,
    LEXER_STATES,
    STACK,
    STACK_TOP,
    has_room,
    header,
    i64,
    length_of,
    mix,
    sort_unique,
    word_of,
)
from cdplugin.kernels.store.arena import GROW as ARENA_GROW

COLUMNS_OF_STEPS = 259
MOST_SETS = 1 << 13
MOST_STEP_WORDS = 1 << 22


@kernel
def keep_sets(w):
    """At the beginning of a text: forget the sets of other texts if they have become many. 1 if they are kept, 0, or
    ``W_GROW``.
    """
    head = whead(w)
    if not room(w, SET_HASH, 4 * MOST_SETS) or not room(w, SET_HEADS, 2) or not room(w, STEPS, 1):
        return np.int64(W_GROW)
    if 0 < head[W_N_SETS] < MOST_SETS and head[W_STEPS_USED] < MOST_STEP_WORDS:
        return np.int64(1)
    for table in (SET_HASH, CLASS_SET):
        words = tab(w, table)
        for i in range(words.shape[0]):
            words[i] = 0
    tab(w, SET_HEADS)[1] = 0  # set 0 is empty
    head[W_N_SETS] = 1
    head[W_STEPS_USED] = 1
    head[W_N_START_SETS] = 0
    return np.int64(0)


@kernel
def fresh_stamp(w):
    """A number that no mark has."""
    head = whead(w)
    head[W_STAMP] += 1
    return head[W_STAMP]


@kernel
def add_state(w, count, state, stamp):
    """Append a lexer state to the set under construction if it is not marked yet; the new count, or ``W_GROW``."""
    at = tab(w, SET_HEADS)[whead(w)[W_N_SETS]] + count
    if not room(w, SET_STATES, at + 1) or not room(w, MARK, state + 1):
        return np.int64(W_GROW)
    mark = tab(w, MARK)
    if mark[state] == stamp:
        return np.int64(count)
    mark[state] = stamp
    tab(w, SET_STATES)[at] = state
    return np.int64(count + 1)


@kernel
def add_parts(h, w, count, state, stamp):
    """:func:`add_state` for each lexeme of an EXACT state (0: none) by itself; the new count, or a status.

    EXACT lexemes do not compete, so each can be followed on its own: there are far fewer states of one lexeme than of many, and
    what a token does to a state takes a walk through the vocabulary to find out.
    """
    if state == 0:
        return np.int64(count)
    value = i64(h, LEXER_STATES)[state * LEXER_WORDS + L_VALUE]
    n_words = length_of(h, value)
    if n_words == 1 or kind(h, word_of(h, value, 0) >> 32) != EXACT:
        return add_state(w, count, state, stamp)
    for i in range(n_words):
        base = header(h)[STACK_TOP]
        if not has_room(h, STACK, base + 1):
            return np.int64(ARENA_GROW)
        i64(h, STACK)[base] = word_of(h, value, i)
        header(h)[STACK_TOP] = base + 1
        part = lexer_state(h, base, 1)
        header(h)[STACK_TOP] = base
        if part < 0:
            return np.int64(part)
        count = add_state(w, count, np.int64(part), stamp)
        if count < 0:
            return count
    return np.int64(count)


@kernel
def end_set(w, count):
    """The number of the set with the states that were appended, in any order; or ``W_GROW``."""
    if count == 0:
        return np.int64(0)
    head = whead(w)
    number = head[W_N_SETS]
    states = tab(w, SET_STATES)
    first = tab(w, SET_HEADS)[number]
    count = sort_unique(states, first, count)
    hash_ = mix(2166136261, count)
    for i in range(first, first + count):
        hash_ = mix(hash_, states[i])
    index = tab(w, SET_HASH)
    heads = tab(w, SET_HEADS)
    size = index.shape[0] - 1
    slot = (hash_ ^ (hash_ >> 16)) & size
    while index[slot] != 0:
        other = heads[index[slot]]
        same = heads[index[slot] + 1] - other == count
        i = 0
        while same and i < count:
            same = states[other + i] == states[first + i]
            i += 1
        if same:
            return index[slot]
        slot = (slot + 1) & size
    if not room(w, SET_HEADS, number + 2) or not room(w, STEP_OF, (number + 1) * COLUMNS_OF_STEPS):
        return np.int64(W_GROW)
    if 2 * (number + 1) > index.shape[0]:
        room(w, SET_HASH, 2 * index.shape[0])
        return np.int64(W_GROW)
    tab(w, SET_HEADS)[number + 1] = first + count
    steps = tab(w, STEP_OF)
    for i in range(number * COLUMNS_OF_STEPS, (number + 1) * COLUMNS_OF_STEPS):
        steps[i] = 0
    index[slot] = number
    head[W_N_SETS] = number + 1
    return number
