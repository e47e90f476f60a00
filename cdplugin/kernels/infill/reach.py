"""Ends, right of the hole, of lexemes that a token in the hole leaves unfinished.

The lattice knows where lexemes end that began at its nodes. A token in the hole may leave the lexer in a state that no node
leads to, so the elements right of the hole are read once more from this state. That makes no nodes: the lattice let any token
come, so it has all nodes needed. Runs that meet the same set of states before the same element share its rows from there on.

Called by :mod:`cdplugin.kernels.infill.pairs`, for each new lexer state at the end of a token.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.boundaries import has_skip, may_follow, takes
from cdplugin.kernels.infill.state_sets import add_parts, end_set, fresh_stamp
from cdplugin.kernels.infill.steps import column_of, step_of
from cdplugin.kernels.infill.workspace import (
    charge,
    clear_records,
    end_node,
    number_of,
    or_row,
    room,
    row_in,
    set_bit,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import is_skip
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import fill_words, length_of, word_of


@kernel
def forget_reached(w):
    """Forget what was found for another hole."""
    ends = tab(w, ws.ENDS_FROM)
    fill_words(ends, 0, ends.shape[0], 0)
    whead(w)[ws.W_ENDS_USED] = 0
    clear_records(w, np.int64(ws.W_N_REACHED))


@kernel
def ends_from(h, w, state):
    """Where the lexemes of a lexer state may end that is reached at the end of a token: the offset of one row per lexeme in
    ``ENDS_ROWS``; or a status.

    Reads the elements right of the hole until nothing is alive, or until it meets a set of states that another run met before
    the same element; each such (element, set) has rows of its own. Then it unites the rows backwards along the run
    (``REACH_PATH``). In a gap the run begins with the gap itself, since the token does not fill it.
    """
    head = whead(w)
    n_lexemes = head[ws.W_N_LEXEMES]
    if not room(w, ws.ENDS_FROM, state + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.ENDS_FROM)[state]
    if known > 0:
        return known - 1
    n_parts = add_parts(h, w, np.int64(0), state, fresh_stamp(w))
    if n_parts < 0:
        return n_parts
    set_ = end_set(w, n_parts)
    if set_ < 0:
        return set_
    k = head[ws.W_HOLE]
    if tab(w, ws.ELEMENTS)[k] != ws.GAP:
        k += 1
    steps = np.int64(0)
    following = np.int64(-1)
    while set_ > 0:
        if not charge(w, 16 + (n_lexemes >> 1)):
            return np.int64(statuses.W_GROW)
        number = number_of(w, ws.REACH_INDEX, ws.REACHED, ws.ANSWER_WORDS, ws.W_N_REACHED, (k << 32) | set_)
        rows = head[ws.W_ENDS_USED]
        if number < 0 or not room(w, ws.ENDS_ROWS, rows + n_lexemes) or not room(w, ws.REACH_PATH, steps + 1):
            return np.int64(statuses.W_GROW)
        reached = tab(w, ws.REACHED)
        if reached[ws.ANSWER_WORDS * number + 1]:
            following = reached[ws.ANSWER_WORDS * number + 1] - 1
            break
        reached[ws.ANSWER_WORDS * number + 1] = rows + 1
        fill_words(tab(w, ws.ENDS_ROWS), rows, n_lexemes, 0)
        head[ws.W_ENDS_USED] = rows + n_lexemes
        tab(w, ws.REACH_PATH)[steps] = rows
        steps += 1
        status = _end_before(h, w, rows, k, set_)
        if status < 0:
            return status
        if k == head[ws.W_ELEMENTS]:
            break
        set_ = _pass_element(h, w, rows, k, set_)
        if set_ < 0:
            return set_
        k += 1
    for i in range(steps - 1, -1, -1):
        charge(w, n_lexemes)
        rows = tab(w, ws.REACH_PATH)[i]
        for lexeme in range(n_lexemes):
            row = tab(w, ws.ENDS_ROWS)[following + lexeme] if following >= 0 else np.int64(0)
            if row:
                into = tab(w, ws.ENDS_ROWS)[rows + lexeme]
                if into == 0:  # it ends further right only, at the same nodes
                    tab(w, ws.ENDS_ROWS)[rows + lexeme] = row
                    continue
                charge(w, head[ws.W_WIDTH])
                or_row(tab(w, ws.BITS), into, row, head[ws.W_WIDTH])
        following = rows
    tab(w, ws.ENDS_FROM)[state] = following + 1
    return following


@kernel
def _end_before(h, w, rows, k, set_):
    """Record the LONGEST lexemes that end before element ``k``, or at the end of the text; 0 or a status."""
    if tab(w, ws.ACCEPTS)[k]:
        record = step_of(h, w, set_, np.int64(ws.BY_END), np.int64(0))
        if record < 0:
            return record
        for i in range(record + ws.S_FIRST, record + ws.S_FIRST + tab(w, ws.STEPS)[record + ws.S_BEFORE]):
            status = _note_text_end(h, w, rows, tab(w, ws.STEPS)[i])
            if status < 0:
                return status
    if k < whead(w)[ws.W_ELEMENTS] and tab(w, ws.ELEMENTS)[k] >= 0:
        record = step_of(h, w, set_, tab(w, ws.ELEMENTS)[k], np.int64(0))
        if record < 0:
            return record
        for i in range(record + ws.S_FIRST, record + ws.S_FIRST + tab(w, ws.STEPS)[record + ws.S_BEFORE]):
            status = _note_ends(h, w, rows, tab(w, ws.STEPS)[i], k)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _pass_element(h, w, rows, k, set_):
    """Record the lexemes that end in element ``k`` or with it; the set of states after it, or a status.

    ``rows``: the set's rows in ``ENDS_ROWS``. The nodes are the lattice's: the gap's node, those of the classes in a slot, or
    those at the boundary after the element.
    """
    element = tab(w, ws.ELEMENTS)[k]
    accepts = tab(w, ws.ACCEPTS)[k + 1]
    cap = np.int64(ws.SLOT) - element if element <= ws.SLOT else np.int64(0)
    record = step_of(h, w, set_, column_of(element), cap)
    if record < 0:
        return record
    steps = tab(w, ws.STEPS)
    first = record + ws.S_FIRST + steps[record + ws.S_BEFORE]
    last = first + steps[record + ws.S_ENDS]
    for i in range(first, last):
        if element == ws.GAP:
            status = _note_end(w, rows + steps[i], tab(w, ws.NODE_BEFORE)[k + 1])
            if status >= 0 and accepts:
                status = _note_end(w, rows + steps[i], end_node(w))
        else:
            status = _note_ends(h, w, rows, steps[i], k + 1)
            if status >= 0 and accepts:
                status = _note_text_end(h, w, rows, steps[i])
        if status < 0:
            return status
    if cap > 0:
        status = _note_crossings(w, rows, k, last, steps[record + ws.S_CROSSINGS], cap)
        if status < 0:
            return status
    return steps[record + ws.S_NEXT]


@kernel
def _note_crossings(w, rows, k, begin, n_crossings, cap):
    """Record the lexemes that end inside slot ``k``, at the nodes of the classes of the token's rest; 0 or ``W_GROW``.

    Classes for which the lattice made no node lead nowhere.
    """
    stamp = fresh_stamp(w)
    nodes = tab(w, ws.CLASS_NODE)
    first = tab(w, ws.SLOT_CLASSES)[2 * k]
    if not charge(w, 4 * tab(w, ws.SLOT_CLASSES)[2 * k + 1]):
        return np.int64(statuses.W_GROW)
    for i in range(first, first + tab(w, ws.SLOT_CLASSES)[2 * k + 1]):
        nodes[tab(w, ws.CLASS_LIST)[2 * i]] = (stamp << 32) | tab(w, ws.CLASS_LIST)[2 * i + 1]
    steps = tab(w, ws.STEPS)
    for i in range(begin, begin + n_crossings):
        suffix_class = steps[i] & 0xFFFFFFFF
        if suffix_class > cap or nodes.shape[0] <= suffix_class:
            break
        charge(w, 6)
        if nodes[suffix_class] >> 32 == stamp:
            status = _note_end(w, rows + (steps[i] >> 32), nodes[suffix_class] & 0xFFFFFFFF)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _note_end(w, index, node):
    """Record that a lexeme (entry ``index`` of ``ENDS_ROWS``) may end at a node; 0 or ``W_GROW``."""
    row = row_in(w, ws.ENDS_ROWS, index)
    if row < 0:
        return row
    set_bit(tab(w, ws.BITS), row, node)
    return np.int64(0)


@kernel
def _note_ends(h, w, rows, accepted, k):
    """Record that the lexemes of a set may end at the boundary before element ``k``; 0 or ``W_GROW``.

    The set may be smaller than those of the lattice, so the nodes at which at least the lexemes that may follow it compete are
    taken. After a skip all nodes are: what may follow depends on where the skip began, which the caller checks.
    """
    skips = has_skip(h, accepted)
    may_follow(h, w, accepted)
    first = tab(w, ws.NODE_BEFORE)[k]
    if whead(w)[ws.W_SPLIT] and k > 0 and tab(w, ws.ELEMENTS)[k - 1] == ws.GAP:
        first += 1  # behind the gap, not in it
    for node in range(first, tab(w, ws.NODE_LAST)[k]):
        charge(w, 4 + whead(w)[ws.W_SET])
        if whead(w)[ws.W_SPLIT] and not skips and not takes(w, node):
            continue
        for i in range(length_of(h, accepted)):
            lexeme = word_of(h, accepted, i)
            if skips and not is_skip(h, lexeme):
                continue
            status = _note_end(w, rows + lexeme, np.int64(node))
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _note_text_end(h, w, rows, accepted):
    """Record that the lexemes of a set may end where the text may end; 0 or ``W_GROW``."""
    skips = has_skip(h, accepted)
    for i in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, i)
        if skips and not is_skip(h, lexeme):
            continue
        status = _note_end(w, rows + lexeme, end_node(w))
        if status < 0:
            return status
    return np.int64(0)
