"""Steps: what an element of the text makes of a set of lexer states, namely the next set and the lexemes that end. Memoised.

A step's record lies in ``STEPS``; ``STEP_OF`` has a row of records per set: 256 bytes, a slot, a gap, the end of the text. This
is the transition table of a lazy subset construction (Rabin and Scott, 1959), with gap and slot as further letters that stand
for many strings.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.effects import closure_of, effect_of, sort_crossings
from cdplugin.kernels.infill.state_sets import add_parts, add_state, end_set, fresh_stamp
from cdplugin.kernels.infill.workspace import charge, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, longest_of, rest_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import fill_words


@kernel
def set_of_class(h, w, suffix_class):
    """The set of states that a class's token rest leads to from a lexeme boundary, memoised in ``CLASS_SET``; or a status."""
    if not room(w, ws.CLASS_SET, suffix_class + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.CLASS_SET)[suffix_class]
    if known > 0:
        return known - 1
    record = tab(w, ws.CLASS_RECORD)[suffix_class]
    stamp = fresh_stamp(w)
    count = np.int64(0)
    for i in range(record + ws.E_FIRST, record + ws.E_FIRST + tab(w, ws.POOL)[record + ws.E_STATES]):
        count = add_parts(h, w, count, tab(w, ws.POOL)[i], stamp)
        if count < 0:
            return count
    number = end_set(w, count)
    if number >= 0:
        tab(w, ws.CLASS_SET)[suffix_class] = number + 1
    return number


@kernel
def column_of(element):
    """The column of an element's step in ``STEP_OF``."""
    if element >= 0:
        return np.int64(element)
    return np.int64(ws.BY_GAP if element == ws.GAP else ws.BY_SLOT)


@kernel
def step_of(h, w, set_, column, cap):
    """The record of a step in ``STEPS``, made now if it is new; or a status.

    ``column``: a byte, or ``BY_SLOT``, ``BY_GAP``, ``BY_END``. ``cap``: for a slot, the largest class that counts; a record
    made for a smaller cap is made again. Sets and steps outlive the text, so most texts only look up.
    """
    known = tab(w, ws.STEP_OF)[set_ * ws.COLUMNS_OF_STEPS + column]
    if known > 0 and (column != ws.BY_SLOT or tab(w, ws.STEPS)[known + ws.S_CAP] >= cap):
        return known
    head = whead(w)
    record = head[ws.W_STEPS_USED]
    charge(w, 16 + 4 * (tab(w, ws.SET_HEADS)[set_ + 1] - tab(w, ws.SET_HEADS)[set_]))
    if not room(w, ws.STEPS, record + ws.S_FIRST):
        return np.int64(statuses.W_GROW)
    steps = tab(w, ws.STEPS)
    fill_words(steps, record, ws.S_FIRST, 0)
    if column == ws.BY_SLOT:
        status = _by_slot(h, w, set_, record, cap)
    elif column == ws.BY_GAP:
        status = _by_gap(h, w, set_, record)
    elif column == ws.BY_END:
        status = _matched(h, w, set_, record, np.int64(-1))
    else:
        status = _by_byte(h, w, set_, record, column)
    if status < 0:
        return status
    steps = tab(w, ws.STEPS)
    head[ws.W_STEPS_USED] = (
        record + ws.S_FIRST + steps[record + ws.S_BEFORE] + steps[record + ws.S_ENDS] + steps[record + ws.S_CROSSINGS]
    )
    tab(w, ws.STEP_OF)[set_ * ws.COLUMNS_OF_STEPS + column] = record
    return record


@kernel
def _note(w, record, word, word_of_count):
    """Append a word to the lists of the record under construction and count it in ``word_of_count``; 0 or ``W_GROW``."""
    steps = tab(w, ws.STEPS)
    at = record + ws.S_FIRST + steps[record + ws.S_BEFORE] + steps[record + ws.S_ENDS] + steps[record + ws.S_CROSSINGS]
    charge(w, 2)
    if not room(w, ws.STEPS, at + 1):
        return np.int64(statuses.W_GROW)
    steps[at] = word
    steps[record + word_of_count] += 1
    return np.int64(0)


@kernel
def _note_set(w, record, accepted, stamp, word_of_count):
    """:func:`_note` for a set of lexemes unless it is marked; 0 or ``W_GROW``."""
    if not room(w, ws.SET_MARK, accepted + 1):
        return np.int64(statuses.W_GROW)
    mark = tab(w, ws.SET_MARK)
    if mark[accepted] == stamp:
        return np.int64(0)
    mark[accepted] = stamp
    return _note(w, record, accepted, word_of_count)


@kernel
def _matched(h, w, set_, record, byte):
    """List in ``S_BEFORE`` the LONGEST lexemes that match and cannot continue with ``byte``; 0 or a status.

    ``byte``: -1 at the end of the text, where all that match end.
    """
    stamp = fresh_stamp(w)
    for i in range(tab(w, ws.SET_HEADS)[set_], tab(w, ws.SET_HEADS)[set_ + 1]):
        state = tab(w, ws.SET_STATES)[i]
        matched = longest_of(h, state)
        if matched == 0:
            continue
        if byte >= 0:
            after = transition(h, state, byte)
            if after != lexer_layout.BEFORE:
                if after < 0:
                    return after
                continue
        status = _note_set(w, record, matched, stamp, ws.S_BEFORE)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _by_byte(h, w, set_, record, byte):
    """Fill a record for a byte: the lexemes that end before it, those that end with it, and the next set; 0 or a status.

    Where EXACT lexemes end, what continues stays in the set (``L_REST``). ``S_ENDS`` counts the sets of lexemes that end, one
    for each state that has one.
    """
    status = _matched(h, w, set_, record, byte)
    if status < 0:
        return status
    stamp = fresh_stamp(w)
    count = np.int64(0)
    for i in range(tab(w, ws.SET_HEADS)[set_], tab(w, ws.SET_HEADS)[set_ + 1]):
        after = transition(h, tab(w, ws.SET_STATES)[i], byte)
        if after < 0:
            return after
        if after == 0 or after == lexer_layout.BEFORE:
            continue
        if after & lexer_layout.ENDS_BIT:
            after &= lexer_layout.STATE_MASK
            ended = accepted_of(h, after)
            status = _note_set(w, record, ended, stamp, ws.S_ENDS)
            if status < 0:
                return status
            after = rest_of(h, after)
        if after > 0:
            count = add_state(w, count, after, stamp)
            if count < 0:
                return count
    return _set_next(w, record, count)


@kernel
def _set_next(w, record, count):
    """Make the set under construction the record's next set; 0 or ``W_GROW``."""
    following = end_set(w, count)
    if following < 0:
        return following
    tab(w, ws.STEPS)[record + ws.S_NEXT] = following
    return np.int64(0)


@kernel
def _by_gap(h, w, set_, record):
    """Fill a record for a gap: the next set, and the lexemes that end in the gap, one by one; 0 or a status.

    The next set is the union of the states' closures. A state in another state's closure adds nothing, so it is passed over:
    behind a gap the set is closed or nearly so (``.{0,1000}`` at any count), and visiting all closures would be quadratic. Only
    lexemes that a gap can separate from what follows (``END_IN_GAPS``) end in it.
    """
    first = tab(w, ws.SET_HEADS)[set_]
    last = tab(w, ws.SET_HEADS)[set_ + 1]
    begun = fresh_stamp(w)  # a new closure marks its states with a later stamp
    for i in range(first, last):  # closures take stamps: make all of them before the union takes its own
        state = tab(w, ws.SET_STATES)[i]
        if not room(w, ws.MARK, state + 1):
            return np.int64(statuses.W_GROW)
        if tab(w, ws.MARK)[state] >= begun:
            continue
        closure = closure_of(h, w, state)
        if closure < 0:
            return closure
        pool = tab(w, ws.POOL)
        for j in range(closure + ws.C_FIRST, closure + ws.C_FIRST + pool[closure + ws.C_STATES]):
            if not room(w, ws.MARK, pool[j] + 1):
                return np.int64(statuses.W_GROW)
            if tab(w, ws.MARK)[pool[j]] < begun:
                tab(w, ws.MARK)[pool[j]] = begun
        charge(w, pool[closure + ws.C_STATES])
    stamp = fresh_stamp(w)
    count = np.int64(0)
    mark = tab(w, ws.LEXEME_MARK)
    for i in range(first, last):
        state = tab(w, ws.SET_STATES)[i]
        if tab(w, ws.MARK)[state] == stamp:
            continue
        closure = closure_of(h, w, state)
        pool = tab(w, ws.POOL)
        middle = closure + ws.C_FIRST + pool[closure + ws.C_STATES]
        for j in range(closure + ws.C_FIRST, middle):
            count = add_state(w, count, pool[j], stamp)
            if count < 0:
                return count
        for j in range(middle, middle + pool[closure + ws.C_LEXEMES]):
            if mark[pool[j]] != stamp and tab(w, ws.END_IN_GAPS)[pool[j]]:
                mark[pool[j]] = stamp
                if _note(w, record, pool[j], ws.S_ENDS) < 0:
                    return np.int64(statuses.W_GROW)
    return _set_next(w, record, count)


@kernel
def _by_slot(h, w, set_, record, cap):
    """Fill a record for a slot, with the classes up to ``cap`` rounded up to a power of two; 0 or a status.

    It is the union of the states' effects: next states, sets of lexemes that end with the token, crossings. Rounding up avoids
    making the record anew each time ``cap`` grows.
    """
    first = tab(w, ws.SET_HEADS)[set_]
    last = tab(w, ws.SET_HEADS)[set_ + 1]
    for i in range(first, last):  # effects take stamps: make all of them before the union takes its own
        effect = effect_of(h, w, tab(w, ws.SET_STATES)[i])
        if effect < 0:
            return effect
    rounded = np.int64(8 if cap > 0 else 0)
    while rounded < cap:
        rounded *= 2
    stamp = fresh_stamp(w)
    count = np.int64(0)
    for i in range(first, last):
        effect = effect_of(h, w, tab(w, ws.SET_STATES)[i])
        pool = tab(w, ws.POOL)
        middle = effect + ws.E_FIRST + pool[effect + ws.E_STATES]
        for j in range(effect + ws.E_FIRST, middle):
            count = add_state(w, count, pool[j], stamp)
            if count < 0:
                return count
        for j in range(middle, middle + pool[effect + ws.E_ENDS]):
            if _note_set(w, record, pool[j], stamp, ws.S_ENDS) < 0:
                return np.int64(statuses.W_GROW)
    steps = tab(w, ws.STEPS)
    begin = record + ws.S_FIRST + steps[record + ws.S_ENDS]
    n_lexemes = whead(w)[ws.W_N_LEXEMES]
    if not room(w, ws.CROSS_MARK, whead(w)[ws.W_N_CLASSES] * n_lexemes):
        return np.int64(statuses.W_GROW)
    for i in range(first, last):
        effect = effect_of(h, w, tab(w, ws.SET_STATES)[i])
        pool = tab(w, ws.POOL)
        at = effect + ws.E_FIRST + pool[effect + ws.E_STATES] + pool[effect + ws.E_ENDS]
        for j in range(at, at + pool[effect + ws.E_CROSSINGS]):
            suffix_class = pool[j] & 0xFFFFFFFF
            if suffix_class > rounded:
                break
            charge(w, 3)
            key = suffix_class * n_lexemes + (pool[j] >> 32)
            if tab(w, ws.CROSS_MARK)[key] != stamp:
                tab(w, ws.CROSS_MARK)[key] = stamp
                if _note(w, record, pool[j], ws.S_CROSSINGS) < 0:
                    return np.int64(statuses.W_GROW)
    steps = tab(w, ws.STEPS)
    sort_crossings(w, steps, begin, steps[record + ws.S_CROSSINGS])
    steps[record + ws.S_CAP] = rounded
    return _set_next(w, record, count)
