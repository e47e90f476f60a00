"""Costs of edges: how many bytes in gaps the lexemes that begin at a node take.

For completions, between ``OP_COLLECT`` and ``OP_CHOOSE``. Dijkstra's algorithm over *points* (element, lexer state): a byte
of the text costs nothing, a byte in a gap 1, and a gap may be left at any time. All lexemes that begin at the node are followed
together; they end at nodes of the lattice.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.boundaries import after_skips, has_skip, may_follow
from cdplugin.kernels.infill.derivation import pop, push
from cdplugin.kernels.infill.starts import start_set
from cdplugin.kernels.infill.workspace import charge, clear_records, end_node, number_of, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, is_skip, longest_of, rest_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.lexer.rows import live_from, row_of
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import equal_words, length_of, word_of

_TEXT_END = -1  # in place of an element


@kernel
def measure(h, w, node, k):
    """Fill ``MEASURES``: for each lexeme or skip that begins at ``node`` and each node where it may end, the cost; 0 or a
    status.

    ``k``: the element before which the node lies, or the gap in which it lies. Costs above ``W_MOST_IN_GAP``, if that is not 0,
    are left out.
    """
    head = whead(w)
    clear_records(w, np.int64(ws.W_N_POINTS))
    clear_records(w, np.int64(ws.W_N_MEASURES))
    set_ = start_set(h, w, node)
    if set_ < 0:
        return set_
    count = np.int64(0)
    for i in range(tab(w, ws.SET_HEADS)[set_], tab(w, ws.SET_HEADS)[set_ + 1]):
        count = _reach(h, w, count, k, tab(w, ws.SET_STATES)[i], np.int64(0))
        if count < 0:
            return count
    while count > 0:
        cost = tab(w, ws.HEAP)[0]
        at = ws.POINT_WORDS * tab(w, ws.HEAP)[1]
        count = pop(w, count)
        points = tab(w, ws.POINTS)
        if cost != points[at + ws.PT_COST] - 1:
            continue  # it was reached at a lower cost
        if not charge(w, 16):
            return np.int64(statuses.W_GROW)
        if head[ws.W_MOST_IN_GAP] and cost > head[ws.W_MOST_IN_GAP]:
            break  # all that follow cost more than is wanted
        count = _go_on(h, w, count, node, points[at] >> 32, points[at] & 0xFFFFFFFF, cost)
        if count < 0:
            return count
    return np.int64(0)


@kernel
def _go_on(h, w, count, node, k, state, cost):
    """Read the next element at a point (element ``k``, lexer state); the new size of the heap, or a status."""
    head = whead(w)
    matched = longest_of(h, state)
    if matched and tab(w, ws.ACCEPTS)[k]:
        if _note(h, w, node, matched, np.int64(_TEXT_END), cost) < 0:
            return np.int64(statuses.W_GROW)
    if k == head[ws.W_ELEMENTS]:
        return count
    element = tab(w, ws.ELEMENTS)[k]
    if element >= 0:
        after = transition(h, state, element)
        if after == lexer_layout.BEFORE:
            return count if _note(h, w, node, matched, k, cost) >= 0 else np.int64(statuses.W_GROW)
        return _arrive(h, w, count, node, after, k, cost)
    if matched and _note_in_gap(h, w, matched, k, cost) < 0:
        return np.int64(statuses.W_GROW)
    count = _reach(h, w, count, k + 1, state, cost)
    targets = _targets_of(h, w, state)
    if targets < 0:
        return targets
    for i in range(targets + 1, targets + 1 + tab(w, ws.POOL)[targets]):
        if count < 0:
            return count
        count = _arrive(h, w, count, node, tab(w, ws.POOL)[i], k, cost + 1)
    return count


@kernel
def _targets_of(h, w, state):
    """Where in ``POOL`` the list of the distinct states is that one byte leads to from a state, after its length; or a status.

    Memoised: in a gap a state is met from many nodes.
    """
    if not room(w, ws.TARGETS_OF, state + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.TARGETS_OF)[state]
    if known > 0:
        return known
    record = whead(w)[ws.W_POOL_USED]
    if not charge(w, 512) or not room(w, ws.POOL, record + 257):
        return np.int64(statuses.W_GROW)
    pool = tab(w, ws.POOL)
    count = np.int64(0)
    last = np.int64(0)
    row = row_of(h, state)
    if row < 0:
        return row
    byte = np.int64(-1)
    while True:
        byte = live_from(h, state, byte + 1)
        if byte == 256:
            break
        after = transition(h, state, byte)
        if after < 0:
            return after
        if after == last or after == 0 or after == lexer_layout.BEFORE:  # neighbours mostly lead to the same state
            continue
        last = after
        at = np.int64(0)
        while at < count and pool[record + 1 + at] != after:
            at += 1
        if at == count:
            pool[record + 1 + count] = after
            count += 1
    pool[record] = count
    whead(w)[ws.W_POOL_USED] = record + 1 + count
    tab(w, ws.TARGETS_OF)[state] = record
    return record


@kernel
def _arrive(h, w, count, node, after, k, cost):
    """Take a transition's target, in gap ``k`` or behind byte ``k``: record the lexemes that end, and continue with the rest.

    The new size of the heap, or a status.
    """
    if after <= 0:
        return count if after == 0 else after
    is_gap = tab(w, ws.ELEMENTS)[k] < 0
    state = after & lexer_layout.STATE_MASK
    if after & lexer_layout.ENDS_BIT:
        ended = accepted_of(h, state)
        status = _note_in_gap(h, w, ended, k, cost) if is_gap else _note(h, w, node, ended, k + 1, cost)
        if status >= 0 and tab(w, ws.ACCEPTS)[k + 1]:
            status = _note(h, w, node, ended, np.int64(_TEXT_END), cost)
        if status < 0:
            return status
        state = rest_of(h, state)
    return _reach(h, w, count, k if is_gap else k + 1, state, cost) if state else count


@kernel
def _reach(h, w, count, k, state, cost):
    """Reach a lexer state before element ``k`` at a cost; the new size of the heap, or a status.

    Most states cannot read the next byte of the text: these are dropped.
    """
    charge(w, 4)
    if k < whead(w)[ws.W_ELEMENTS] and not tab(w, ws.ACCEPTS)[k]:
        element = tab(w, ws.ELEMENTS)[k]
        if element >= 0:
            after = transition(h, state, element)
            if after <= 0:
                return after if after < 0 else count
    number = number_of(w, ws.POINT_INDEX, ws.POINTS, ws.POINT_WORDS, ws.W_N_POINTS, (k << 32) | state)
    if number < 0 or not room(w, ws.HEAP, 2 * (count + 1)):
        return np.int64(statuses.W_GROW)
    points = tab(w, ws.POINTS)
    known = points[ws.POINT_WORDS * number + ws.PT_COST]
    if known and known <= cost + 1:
        return count
    points[ws.POINT_WORDS * number + ws.PT_COST] = cost + 1
    return push(w, count, cost, number)


@kernel
def _note(h, w, node, accepted, k, cost):
    """Record that the lexemes of a set, begun at ``node``, end before element ``k``, or with the text; 0 or ``W_GROW``.

    With longest match they end at the boundary's node for exactly what may follow them.
    """
    head = whead(w)
    skips = has_skip(h, accepted)
    if k == _TEXT_END:
        return _note_all(h, w, accepted, skips, end_node(w), cost)
    split = head[ws.W_SPLIT] != 0
    if split and skips:
        after_skips(h, w, accepted, node)
    elif split:
        may_follow(h, w, accepted)
    first = tab(w, ws.NODE_BEFORE)[k]
    if k > 0 and tab(w, ws.ELEMENTS)[k - 1] == ws.GAP:
        first += 1  # behind the gap, not in it
    for end in range(first, tab(w, ws.NODE_LAST)[k]):
        charge(w, 2 + head[ws.W_SET])
        if split and not equal_words(tab(w, ws.ALLOWED), end * head[ws.W_SET], tab(w, ws.TARGET), 0, head[ws.W_SET]):
            continue
        if _note_all(h, w, accepted, skips, np.int64(end), cost) < 0:
            return np.int64(statuses.W_GROW)
        if split:
            break
    return np.int64(0)


@kernel
def _note_in_gap(h, w, accepted, k, cost):
    """Record that the lexemes of a set end in gap ``k``; 0 or ``W_GROW``."""
    return _note_all(h, w, accepted, has_skip(h, accepted), tab(w, ws.NODE_BEFORE)[k + 1], cost)


@kernel
def _note_all(h, w, accepted, skips, end, cost):
    """Record the least cost of each lexeme of a set, only of its skips if it has any (``skips``), to end at a node; 0 or
    ``W_GROW``.
    """
    for i in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, i)
        if skips and not is_skip(h, lexeme):
            continue
        key = (lexeme << ws.NODE_BITS) | end
        number = number_of(w, ws.MEASURE_INDEX, ws.MEASURES, ws.MEASURE_WORDS, ws.W_N_MEASURES, key)
        if number < 0:
            return number
        at = ws.MEASURE_WORDS * number + 1
        if tab(w, ws.MEASURES)[at] == 0 or cost + 1 < tab(w, ws.MEASURES)[at]:
            tab(w, ws.MEASURES)[at] = cost + 1
    return np.int64(0)
