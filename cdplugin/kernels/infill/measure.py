"""Costs of edges: how many bytes in gaps the lexemes that begin at a node take.

For completions, between ``OP_COLLECT`` and ``OP_CHOOSE``. All lexemes that begin at the node are followed together through the
elements, one after the other: a *layer* is the lexer states before an element, each with the least bytes in gaps that lead to
it. A byte of the text leads each state to one in the next layer. In a gap, Dijkstra's algorithm finds the least bytes: each
costs 1, and the gap may be left at any time. The lexemes end at nodes of the lattice.

What is spelled afterwards lies in gaps alone, so only the states in gaps are kept, as *gap points*: each with the gap point
before it, in the same gap (a byte was added) or in an earlier one (then text lies between). Where several lead to a state at
the same cost, the one that was reached at the least cost, furthest to the left, and then that of the lowest state number, is
kept; so a spelling does not depend on the order of the search.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.boundaries import after_skips, has_skip, may_follow
from cdplugin.kernels.infill.derivation import pop, push
from cdplugin.kernels.infill.starts import start_set
from cdplugin.kernels.infill.state_sets import fresh_stamp
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
    head[ws.W_N_POINTS] = 0
    clear_records(w, np.int64(ws.W_N_MEASURES))
    set_ = start_set(h, w, node)
    if set_ < 0:
        return set_
    head[ws.W_LAYER] = 0
    count = np.int64(0)
    stamp = fresh_stamp(w)
    for i in range(tab(w, ws.SET_HEADS)[set_], tab(w, ws.SET_HEADS)[set_ + 1]):
        count = _reach(w, count, stamp, np.int64(0), tab(w, ws.SET_STATES)[i], np.int64(0), np.int64(0), np.int64(0))
        if count < 0:
            return count
    while count > 0:
        if k < head[ws.W_ELEMENTS] and tab(w, ws.ELEMENTS)[k] < 0:
            count = _pass_gap(h, w, node, k, count)
        else:
            count = _pass_byte(h, w, node, k, count)
        if count < 0:
            return count
        head[ws.W_LAYER] ^= 1
        k += 1
    return np.int64(0)


@kernel
def _reach(w, count, stamp, parity, state, cost, before, point):
    """Reach a lexer state in a layer of ``count`` states; the new count, or ``W_GROW``.

    ``stamp``: the layer's; ``parity``: 0 for the layer under way, 1 for the next one, whose records alternate in ``LAYERS``;
    ``before``: the state before; ``point``: 1 + the last gap point, 0: none.
    """
    at = 2 * count + (whead(w)[ws.W_LAYER] ^ parity)
    charge(w, 12)
    if not room(w, ws.LAYERS, ws.LAYER_WORDS * (at + 1)) or not room(w, ws.POINT_OF, state + 1):
        return np.int64(statuses.W_GROW)
    points = tab(w, ws.POINT_OF)
    layers = tab(w, ws.LAYERS)
    if points[state] >> 32 == stamp:
        at = points[state] & 0xFFFFFFFF
        known = layers[ws.LAYER_WORDS * at + ws.LY_COST]
        if known < cost or (known == cost and layers[ws.LAYER_WORDS * at + ws.LY_BEFORE] <= before):
            return count
    else:
        points[state] = (stamp << 32) | at
        count += 1
    layers[ws.LAYER_WORDS * at + ws.LY_STATE] = state
    layers[ws.LAYER_WORDS * at + ws.LY_COST] = cost
    layers[ws.LAYER_WORDS * at + ws.LY_BEFORE] = before
    layers[ws.LAYER_WORDS * at + ws.LY_POINT] = point
    return count


@kernel
def _pass_byte(h, w, node, k, n_states):
    """Read element ``k``, a byte, in the ``n_states`` of a layer; or end with the text. The size of the next layer, or a
    status.
    """
    count = np.int64(0)
    stamp = fresh_stamp(w)
    for i in range(n_states):
        at = ws.LAYER_WORDS * (2 * i + whead(w)[ws.W_LAYER])
        state, cost = tab(w, ws.LAYERS)[at + ws.LY_STATE], tab(w, ws.LAYERS)[at + ws.LY_COST]
        point = tab(w, ws.LAYERS)[at + ws.LY_POINT]
        _step_from(w, ws.BY_TEXT | (k << 32) | state, point)
        if _end_before(h, w, node, k, state, cost) < 0:
            return np.int64(statuses.W_GROW)
        if k == whead(w)[ws.W_ELEMENTS]:
            continue
        after = transition(h, state, tab(w, ws.ELEMENTS)[k])
        if after < 0:
            return after
        if after == lexer_layout.BEFORE:
            if _note(h, w, node, longest_of(h, state), k, cost) < 0:
                return np.int64(statuses.W_GROW)
            continue
        after = _end_behind(h, w, node, k, after, cost)
        if after < 0:
            return after
        if after:
            count = _reach(w, count, stamp, np.int64(1), after, cost, state, point)
            if count < 0:
                return count
    return count


@kernel
def _pass_gap(h, w, node, k, n_states):
    """Add bytes in gap ``k`` to the ``n_states`` of a layer; the size of the next layer, or a status.

    States leave the heap by cost, then by number, so the first that leads to another at some cost is the one to keep. It is
    kept instead of one in which the gap begins, too, since it was reached at a lower cost.
    """
    head = whead(w)
    first = head[ws.W_N_POINTS]
    stamp = fresh_stamp(w)
    n_heap = np.int64(0)
    for i in range(n_states):
        at = ws.LAYER_WORDS * (2 * i + head[ws.W_LAYER])
        layers = tab(w, ws.LAYERS)
        n_heap = _reach_in_gap(w, n_heap, stamp, k, layers[at + ws.LY_STATE], layers[at + ws.LY_COST], layers[at + ws.LY_POINT])
        if n_heap < 0:
            return n_heap
    while n_heap > 0:
        cost, number = tab(w, ws.HEAP)[0] >> 32, tab(w, ws.HEAP)[1]
        n_heap = pop(w, n_heap)
        if not charge(w, 32):
            return np.int64(statuses.W_GROW)
        at = ws.POINT_WORDS * number
        if cost != tab(w, ws.POINTS)[at + ws.PT_COST]:
            continue  # it was reached at a lower cost
        if head[ws.W_MOST_IN_GAP] and cost > head[ws.W_MOST_IN_GAP]:
            break  # all that follow cost more than is wanted
        state = tab(w, ws.POINTS)[at + ws.PT_PLACE] & 0xFFFFFFFF
        point = number + 1
        _step_from(w, ws.BY_TEXT | (k << 32) | state, point)
        if _end_before(h, w, node, k, state, cost) < 0:
            return np.int64(statuses.W_GROW)
        matched = longest_of(h, state)
        if matched and _note_in_gap(h, w, matched, k, cost) < 0:
            return np.int64(statuses.W_GROW)
        targets = _targets_of(h, w, state)
        if targets < 0:
            return targets
        _step_from(w, (k << 32) | state, point)
        for i in range(targets + 1, targets + 1 + tab(w, ws.POOL)[targets]):
            after = _end_behind(h, w, node, k, tab(w, ws.POOL)[i], cost + 1)
            if after < 0:
                return after
            if after:
                n_heap = _reach_in_gap(w, n_heap, stamp, k, after, cost + 1, point)
                if n_heap < 0:
                    return n_heap
    count = np.int64(0)
    stamp = fresh_stamp(w)
    for number in range(first, head[ws.W_N_POINTS]):
        at = ws.POINT_WORDS * number
        state, cost = tab(w, ws.POINTS)[at + ws.PT_PLACE] & 0xFFFFFFFF, tab(w, ws.POINTS)[at + ws.PT_COST]
        if head[ws.W_MOST_IN_GAP] == 0 or cost <= head[ws.W_MOST_IN_GAP]:
            count = _reach(w, count, stamp, np.int64(1), state, cost, state, np.int64(number + 1))
            if count < 0:
                return count
    return count


@kernel
def _reach_in_gap(w, n_heap, stamp, k, state, cost, before):
    """Reach a lexer state in gap ``k``; the new size of the heap, or ``W_GROW``. ``before``: 1 + a gap point, 0: none."""
    head = whead(w)
    number = head[ws.W_N_POINTS]
    charge(w, 12)
    if not room(w, ws.POINTS, ws.POINT_WORDS * (number + 1)) or not room(w, ws.POINT_OF, state + 1):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.HEAP, 2 * (n_heap + 1)):
        return np.int64(statuses.W_GROW)
    points = tab(w, ws.POINTS)
    if tab(w, ws.POINT_OF)[state] >> 32 == stamp:
        number = tab(w, ws.POINT_OF)[state] & 0xFFFFFFFF
        at = ws.POINT_WORDS * number
        if points[at + ws.PT_COST] == cost:
            other = ws.POINT_WORDS * (points[at + ws.PT_BEFORE] - 1)  # bytes were written, so there is one
            if points[other + ws.PT_PLACE] >> 32 != k:
                points[at + ws.PT_BEFORE] = before
        if points[at + ws.PT_COST] <= cost:
            return n_heap
    else:
        tab(w, ws.POINT_OF)[state] = (stamp << 32) | number
        head[ws.W_N_POINTS] = number + 1
    at = ws.POINT_WORDS * number
    points[at + ws.PT_PLACE] = (k << 32) | state
    points[at + ws.PT_COST] = cost
    points[at + ws.PT_BEFORE] = before
    return push(w, n_heap, (cost << 32) | state, number)


@kernel
def _step_from(w, last, point):
    """Note from where the next steps are taken, for :func:`_note_all`."""
    whead(w)[ws.W_LAST] = last
    whead(w)[ws.W_LAST_POINT] = point


@kernel
def _end_before(h, w, node, k, state, cost):
    """Record the LONGEST lexemes that match in a state and end with the text, if it may end before element ``k``; 0 or
    ``W_GROW``.
    """
    matched = longest_of(h, state)
    if matched and tab(w, ws.ACCEPTS)[k]:
        return _note(h, w, node, matched, np.int64(_TEXT_END), cost)
    return np.int64(0)


@kernel
def _end_behind(h, w, node, k, after, cost):
    """Record the lexemes that end with a byte at element ``k``, given the transition over it.

    Returns the state in which the others go on (0: none do), or ``W_GROW``.
    """
    if not after & lexer_layout.ENDS_BIT:
        return after
    after &= lexer_layout.STATE_MASK
    ended = accepted_of(h, after)
    if tab(w, ws.ELEMENTS)[k] < 0:
        noted = _note_in_gap(h, w, ended, k, cost)
    else:
        noted = _note(h, w, node, ended, k + 1, cost)
    if noted < 0:
        return noted
    if tab(w, ws.ACCEPTS)[k + 1] and _note(h, w, node, ended, np.int64(_TEXT_END), cost) < 0:
        return np.int64(statuses.W_GROW)
    return rest_of(h, after)


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
    """Record the least cost of each lexeme of a set, only of its skips if it has any (``skips``), to end at a node, and from
    where it ends; 0 or ``W_GROW``.
    """
    last = whead(w)[ws.W_LAST]
    for i in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, i)
        if skips and not is_skip(h, lexeme):
            continue
        key = (lexeme << ws.NODE_BITS) | end
        number = number_of(w, ws.MEASURE_INDEX, ws.MEASURES, ws.MEASURE_WORDS, ws.W_N_MEASURES, key)
        if number < 0:
            return number
        measures = tab(w, ws.MEASURES)
        at = ws.MEASURE_WORDS * number
        known = measures[at + ws.MS_COST] - 1
        if known < 0 or cost < known or (cost == known and last < measures[at + ws.MS_LAST]):
            measures[at + ws.MS_COST] = cost + 1
            measures[at + ws.MS_LAST] = last
            measures[at + ws.MS_POINT] = whead(w)[ws.W_LAST_POINT]
    return np.int64(0)
