"""What an element of the text makes of a set of lexer states: the next set, and the lexemes that end. Found once and kept.

A step's record lies in ``STEPS``; ``STEP_OF`` has a row of records per set: 256 bytes, a slot, a gap, the end of the text.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill.effects import (
    C_FIRST,
    C_LEXEMES,
    C_STATES,
    E_CROSSINGS,
    E_ENDS,
    E_FIRST,
    E_STATES,
    closure_of,
    effect_of,
    sort_crossings,
)
from cdplugin.kernels.infill.state_sets import COLUMNS_OF_STEPS, add_parts, add_state, end_set, fresh_stamp
from cdplugin.kernels.infill.workspace import (
    CLASS_RECORD,
    CLASS_SET,
    CROSS_MARK,
    END_IN_GAPS,
    GAP,
    LEXEME_MARK,
    POOL,
    SET_HEADS,
    SET_MARK,
    SET_STATES,
    STEP_OF,
    STEPS,
    W_GROW,
    W_N_CLASSES,
    W_N_LEXEMES,
    W_STEPS_USED,
    room,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.lexer import BEFORE, ENDS_BIT, L_ACCEPTED, L_LONGEST, L_REST, LEXER_WORDS, STATE_MASK, transition
from cdplugin.kernels.store.arena import LEXER_STATES, i64

BY_SLOT, BY_GAP, BY_END = 256, 257, 258  # after the bytes: the columns of STEP_OF
# a step's record: the next set (0: none), how many sets of lexemes end before it and end with it (of a gap: lexemes that end
# in it), how many (lexeme << 32 | class) pairs end in it and up to which class, smaller ones first; then these three lists
S_NEXT, S_BEFORE, S_ENDS, S_CROSSINGS, S_CAP, S_FIRST = range(6)


@kernel
def set_of_class(h, w, group):
    """The set of the states that what is left of a token leads to from a lexeme boundary; or a status."""
    if not room(w, CLASS_SET, group + 1):
        return np.int64(W_GROW)
    known = tab(w, CLASS_SET)[group]
    if known > 0:
        return known - 1
    record = tab(w, CLASS_RECORD)[group]
    stamp = fresh_stamp(w)
    count = np.int64(0)
    for i in range(record + E_FIRST, record + E_FIRST + tab(w, POOL)[record + E_STATES]):
        count = add_parts(h, w, count, tab(w, POOL)[i], stamp)
        if count < 0:
            return count
    number = end_set(w, count)
    if number >= 0:
        tab(w, CLASS_SET)[group] = number + 1
    return number


@kernel
def column_of(element):
    """Where in a row of ``STEP_OF`` an element's step is."""
    if element >= 0:
        return np.int64(element)
    return np.int64(BY_GAP if element == GAP else BY_SLOT)


@kernel
def step_of(h, w, set_, column, cap):
    """The record of a step in ``STEPS``, made now if it is not known; or a status. ``cap``: the largest class that counts."""
    known = tab(w, STEP_OF)[set_ * COLUMNS_OF_STEPS + column]
    if known > 0 and (column != BY_SLOT or tab(w, STEPS)[known + S_CAP] >= cap):
        return known
    head = whead(w)
    record = head[W_STEPS_USED]
    if not room(w, STEPS, record + S_FIRST):
        return np.int64(W_GROW)
    steps = tab(w, STEPS)
    for i in range(record, record + S_FIRST):
        steps[i] = 0
    if column == BY_SLOT:
        status = _by_slot(h, w, set_, record, cap)
    elif column == BY_GAP:
        status = _by_gap(h, w, set_, record)
    elif column == BY_END:
        status = _matched(h, w, set_, record, np.int64(-1))
    else:
        status = _by_byte(h, w, set_, record, column)
    if status < 0:
        return status
    steps = tab(w, STEPS)
    head[W_STEPS_USED] = record + S_FIRST + steps[record + S_BEFORE] + steps[record + S_ENDS] + steps[record + S_CROSSINGS]
    tab(w, STEP_OF)[set_ * COLUMNS_OF_STEPS + column] = record
    return record


@kernel
def _note(w, record, word, word_of_count):
    """Append a word to the lists of a record under construction, counted in ``word_of_count``; 0 or ``W_GROW``."""
    steps = tab(w, STEPS)
    at = record + S_FIRST + steps[record + S_BEFORE] + steps[record + S_ENDS] + steps[record + S_CROSSINGS]
    if not room(w, STEPS, at + 1):
        return np.int64(W_GROW)
    steps[at] = word
    steps[record + word_of_count] += 1
    return np.int64(0)


@kernel
def _note_set(w, record, accepted, stamp, word_of_count):
    """:func:`_note` for a set of lexemes that is not marked yet; 0 or ``W_GROW``."""
    if not room(w, SET_MARK, accepted + 1):
        return np.int64(W_GROW)
    mark = tab(w, SET_MARK)
    if mark[accepted] == stamp:
        return np.int64(0)
    mark[accepted] = stamp
    return _note(w, record, accepted, word_of_count)


@kernel
def _matched(h, w, set_, record, byte):
    """Note the LONGEST lexemes that match and cannot go on with ``byte``; at the end of the text (-1) all. 0 or a status."""
    stamp = fresh_stamp(w)
    for i in range(tab(w, SET_HEADS)[set_], tab(w, SET_HEADS)[set_ + 1]):
        state = tab(w, SET_STATES)[i]
        matched = i64(h, LEXER_STATES)[state * LEXER_WORDS + L_LONGEST]
        if matched == 0:
            continue
        if byte >= 0:
            after = transition(h, state, byte)
            if after != BEFORE:
                if after < 0:
                    return after
                continue
        status = _note_set(w, record, matched, stamp, S_BEFORE)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _by_byte(h, w, set_, record, byte):
    """Fill a record for a byte; 0 or a status."""
    status = _matched(h, w, set_, record, byte)
    if status < 0:
        return status
    stamp = fresh_stamp(w)
    count = np.int64(0)
    for i in range(tab(w, SET_HEADS)[set_], tab(w, SET_HEADS)[set_ + 1]):
        after = transition(h, tab(w, SET_STATES)[i], byte)
        if after < 0:
            return after
        if after == 0 or after == BEFORE:
            continue
        if after & ENDS_BIT:
            after &= STATE_MASK
            ended = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_ACCEPTED]
            status = _note_set(w, record, ended, stamp, S_ENDS)
            if status < 0:
                return status
            after = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_REST]
        if after > 0:
            count = add_state(w, count, after, stamp)
            if count < 0:
                return count
    return _set_next(w, record, count)


@kernel
def _set_next(w, record, count):
    """Make the set under construction a record's next one; 0 or ``W_GROW``."""
    following = end_set(w, count)
    if following < 0:
        return following
    tab(w, STEPS)[record + S_NEXT] = following
    return np.int64(0)


@kernel
def _by_gap(h, w, set_, record):
    """Fill a record for a gap: the lexemes that end in it, one by one; 0 or a status."""
    first = tab(w, SET_HEADS)[set_]
    last = tab(w, SET_HEADS)[set_ + 1]
    for i in range(first, last):  # closures take stamps: all of them first
        closure = closure_of(h, w, tab(w, SET_STATES)[i])
        if closure < 0:
            return closure
    stamp = fresh_stamp(w)
    count = np.int64(0)
    mark = tab(w, LEXEME_MARK)
    for i in range(first, last):
        closure = closure_of(h, w, tab(w, SET_STATES)[i])
        pool = tab(w, POOL)
        middle = closure + C_FIRST + pool[closure + C_STATES]
        for j in range(closure + C_FIRST, middle):
            count = add_state(w, count, pool[j], stamp)
            if count < 0:
                return count
        for j in range(middle, middle + pool[closure + C_LEXEMES]):
            if mark[pool[j]] != stamp and tab(w, END_IN_GAPS)[pool[j]]:
                mark[pool[j]] = stamp
                if _note(w, record, pool[j], S_ENDS) < 0:
                    return np.int64(W_GROW)
    return _set_next(w, record, count)


@kernel
def _by_slot(h, w, set_, record, cap):
    """Fill a record for a slot, with the classes up to a power of two that is not below ``cap``; 0 or a status."""
    first = tab(w, SET_HEADS)[set_]
    last = tab(w, SET_HEADS)[set_ + 1]
    for i in range(first, last):  # effects take stamps: all of them first
        effect = effect_of(h, w, tab(w, SET_STATES)[i])
        if effect < 0:
            return effect
    rounded = np.int64(8 if cap > 0 else 0)
    while rounded < cap:
        rounded *= 2
    stamp = fresh_stamp(w)
    count = np.int64(0)
    for i in range(first, last):
        effect = effect_of(h, w, tab(w, SET_STATES)[i])
        pool = tab(w, POOL)
        middle = effect + E_FIRST + pool[effect + E_STATES]
        for j in range(effect + E_FIRST, middle):
            count = add_state(w, count, pool[j], stamp)
            if count < 0:
                return count
        for j in range(middle, middle + pool[effect + E_ENDS]):
            if _note_set(w, record, pool[j], stamp, S_ENDS) < 0:
                return np.int64(W_GROW)
    steps = tab(w, STEPS)
    begin = record + S_FIRST + steps[record + S_ENDS]
    n_lexemes = whead(w)[W_N_LEXEMES]
    if not room(w, CROSS_MARK, whead(w)[W_N_CLASSES] * n_lexemes):
        return np.int64(W_GROW)
    for i in range(first, last):
        effect = effect_of(h, w, tab(w, SET_STATES)[i])
        pool = tab(w, POOL)
        at = effect + E_FIRST + pool[effect + E_STATES] + pool[effect + E_ENDS]
        for j in range(at, at + pool[effect + E_CROSSINGS]):
            group = pool[j] & 0xFFFFFFFF
            if group > rounded:
                break
            key = group * n_lexemes + (pool[j] >> 32)
            if tab(w, CROSS_MARK)[key] != stamp:
                tab(w, CROSS_MARK)[key] = stamp
                if _note(w, record, pool[j], S_CROSSINGS) < 0:
                    return np.int64(W_GROW)
    steps = tab(w, STEPS)
    sort_crossings(steps, begin, steps[record + S_CROSSINGS])
    steps[record + S_CAP] = rounded
    return _set_next(w, record, count)
