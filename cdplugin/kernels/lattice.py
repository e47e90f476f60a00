"""The lattice: where in a text with gaps and slots lexemes may begin and end.

The text is run through once, from left to right, with all lexer states that are alive; each carries the row of the nodes at
which it started. A byte steps every state; a gap replaces a state by its closure; a slot by the effect of one token
(:mod:`cdplugin.kernels.effects`). Where a lexeme ends there is a node, and ``SPANS`` notes which lexemes lead from which node
to it. So lexemes that end in, begin in or span gaps come out without looking at strings (Bar-Hillel's construction on
derivatives; the paper of Mündler et al. builds an automaton per pair of partial lexemes instead).

At a node every lexeme is started that may follow one that ends there, anywhere in the grammar. For EXACT lexemes that is exact:
what the parser does not ask for is not used. LONGEST lexemes compete with all of these here
(:mod:`cdplugin.kernels.boundaries`), also with those that the parser does not allow after this very text: a boundary that is
accepted is a boundary for the matcher, but not always the other way round. Inside an open slot they compete with all lexemes of
the grammar.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import LEXER_STATES, i64
from cdplugin.kernels.boundaries import clear_node, edge, end_at, end_inside, end_text, fresh_node
from cdplugin.kernels.effects import C_FIRST, C_LEXEMES, C_STATES, E_CROSSINGS, E_ENDS, E_FIRST, E_STATES, closure_of, effect_of
from cdplugin.kernels.jit import kernel
from cdplugin.kernels.lexer import BEFORE, ENDS_BIT, L_ACCEPTED, L_LONGEST, L_REST, LEXER_WORDS, STATE_MASK, transition
from cdplugin.kernels.starts import allow, start_states
from cdplugin.kernels.workspace import (
    ACCEPTS,
    ALLOWED,
    BITS,
    CLASS_LIST,
    CLASS_NODE,
    CLASS_RECORD,
    CROSS_MARK,
    ELEMENTS,
    FOLLOWS,
    GAP,
    GATHERED,
    LIVE,
    LIVE_NEXT,
    LIVE_SLOT,
    NODE_BEFORE,
    NODE_LAST,
    NODE_OPEN,
    POOL,
    QUEUE,
    SET_MARK,
    SLOT,
    SLOT_CLASSES,
    SNAPSHOT,
    SPAN_SETS,
    SPANS,
    START_SETS,
    W_BITS_USED,
    W_CLASS_CAP,
    W_CLASS_LIST_USED,
    W_ELEMENTS,
    W_GROW,
    W_HOLE,
    W_LEFT,
    W_N_GATHERED,
    W_N_LEXEMES,
    W_N_LIVE,
    W_N_SNAPSHOT,
    W_NODES,
    W_SET,
    W_STAMP,
    W_WIDTH,
    end_node,
    final_node,
    forget_rows,
    has_bit,
    new_row,
    or_row,
    room,
    set_bit,
    tab,
    whead,
)

CROSSES = 1 << 62


@kernel
def build_lattice(h, w):
    """Fill ``SPANS``, ``NODE_BEFORE``, ``NODE_LAST`` and ``SNAPSHOT`` from ``ELEMENTS``; 0 or a status."""
    head = whead(w)
    forget_rows(w, 0, 1)  # row 0 is none
    head[W_NODES] = 0
    head[W_CLASS_LIST_USED] = 0
    head[W_N_LIVE] = 0
    head[W_N_SNAPSHOT] = 0
    count = head[W_ELEMENTS]
    n_lexemes = head[W_N_LEXEMES]
    if not room(w, NODE_BEFORE, count + 1) or not room(w, NODE_LAST, count + 1) or not room(w, SLOT_CLASSES, 2 * count + 2):
        return np.int64(W_GROW)
    if not room(w, SPANS, 64 * head[W_WIDTH] * n_lexemes) or not room(w, ALLOWED, 64 * head[W_WIDTH] * head[W_SET]):
        return np.int64(W_GROW)
    if not room(w, SPAN_SETS, 64 * head[W_WIDTH] * head[W_SET]) or not room(w, NODE_OPEN, 64 * head[W_WIDTH]):
        return np.int64(W_GROW)
    elements = tab(w, ELEMENTS)
    accepts = tab(w, ACCEPTS)
    for node in (end_node(w), final_node(w)):
        clear_node(w, node, 0)
    status = edge(w, end_node(w), n_lexemes - 1, final_node(w))
    if status < 0:
        return status
    first = fresh_node(w, 0)
    if first < 0:
        return first
    words = head[W_SET]
    for i in range(words):
        tab(w, ALLOWED)[first * words + i] = tab(w, FOLLOWS)[n_lexemes * words + i]
    if accepts[0]:
        status = edge(w, first, n_lexemes - 1, final_node(w))
        if status < 0:
            return status
    for k in range(count):
        element = elements[k]
        if element >= 0:
            status = _before_byte(h, w, first, element)
            if status < 0:
                return status
        tab(w, NODE_BEFORE)[k] = first
        tab(w, NODE_LAST)[k] = head[W_NODES]
        status = _start(h, w, first, head[W_NODES])
        if status < 0:
            return status
        if k == head[W_HOLE]:
            status = _take_snapshot(w)
            if status < 0:
                return status
            head[W_LEFT] = head[W_NODES]
        if element >= 0:
            first = _pass_byte(h, w, element, accepts[k + 1])
        elif element == GAP:
            first = _pass_gap(h, w, accepts[k + 1])
        else:
            first = _pass_slot(h, w, k, accepts[k + 1])
        if first < 0:
            return first
        if accepts[k + 1]:
            status = _end_longest(h, w)
            if status < 0:
                return status
    tab(w, NODE_BEFORE)[count] = first
    tab(w, NODE_LAST)[count] = head[W_NODES]
    return np.int64(0)


@kernel
def _add_live(w, table, count, state, starts, stamp):
    """Add a state with its starts to a list of live states; how many there are then, or ``W_GROW``."""
    if not room(w, LIVE_SLOT, state + 1) or not room(w, table, 2 * count + 2):
        return np.int64(W_GROW)
    slots = tab(w, LIVE_SLOT)
    live = tab(w, table)
    if slots[state] >> 32 == stamp:
        at = slots[state] & 0xFFFFFFFF
        or_row(tab(w, BITS), live[2 * at + 1], starts, whead(w)[W_WIDTH])
        return np.int64(count)
    row = new_row(w)
    if row < 0:
        return row
    or_row(tab(w, BITS), row, starts, whead(w)[W_WIDTH])
    live[2 * count] = state
    live[2 * count + 1] = row
    slots[state] = (stamp << 32) | count
    return np.int64(count + 1)


@kernel
def _add_states(w, first, n_states, count, starts, stamp):
    """:func:`_add_live` to ``LIVE_NEXT`` for the states ``POOL[first:first + n_states]``."""
    head = whead(w)
    width = head[W_WIDTH]
    used = head[W_BITS_USED]
    if not room(w, BITS, used + n_states * width) or not room(w, LIVE_NEXT, 2 * (count + n_states) + 2):
        return np.int64(W_GROW)
    pool = tab(w, POOL)
    bits = tab(w, BITS)
    slots = tab(w, LIVE_SLOT)
    live = tab(w, LIVE_NEXT)
    for i in range(first, first + n_states):
        state = pool[i]
        if state >= slots.shape[0]:
            room(w, LIVE_SLOT, state + 1)
            return np.int64(W_GROW)
        known = slots[state]
        if known >> 32 == stamp:
            row = live[2 * (known & 0xFFFFFFFF) + 1]
            for j in range(width):
                bits[row + j] |= bits[starts + j]
        else:
            for j in range(width):
                bits[used + j] = bits[starts + j]
            live[2 * count] = state
            live[2 * count + 1] = used
            slots[state] = (stamp << 32) | count
            used += width
            count += 1
    head[W_BITS_USED] = used
    return np.int64(count)


@kernel
def _fresh_stamp(w):
    head = whead(w)
    head[W_STAMP] += 1
    return head[W_STAMP]


@kernel
def _swap(w, count):
    """Make ``LIVE_NEXT`` the live states."""
    head = whead(w)
    for word in range(2):
        kept = head[2 * LIVE + word]
        head[2 * LIVE + word] = head[2 * LIVE_NEXT + word]
        head[2 * LIVE_NEXT + word] = kept
    head[W_N_LIVE] = count


@kernel
def _start(h, w, first, last):
    """Start at the nodes ``first .. last - 1`` the lexemes that may start there; 0 or a status. The states in ``LIVE`` are
    stamped anew.
    """
    head = whead(w)
    count = head[W_N_LIVE]
    stamp = _fresh_stamp(w)
    live = tab(w, LIVE)
    for i in range(count):
        tab(w, LIVE_SLOT)[live[2 * i]] = (stamp << 32) | i
    for node in range(first, last):
        row = new_row(w)
        if row < 0:
            return row
        set_bit(tab(w, BITS), row, node)
        at = start_states(h, w, node)
        if at < 0:
            return at
        for group in range(2):
            state = tab(w, START_SETS)[at + group]
            if state > 0:
                count = _add_live(w, LIVE, count, state, row, stamp)
                if count < 0:
                    return count
    head[W_N_LIVE] = count
    return np.int64(0)


@kernel
def _take_snapshot(w):
    head = whead(w)
    count = head[W_N_LIVE]
    if not room(w, SNAPSHOT, 2 * count + 2):
        return np.int64(W_GROW)
    live = tab(w, LIVE)
    snapshot = tab(w, SNAPSHOT)
    for i in range(2 * count):
        snapshot[i] = live[i]
    head[W_N_SNAPSHOT] = count
    return np.int64(0)


@kernel
def _before_byte(h, w, first, byte):
    """End the LONGEST lexemes that match here and cannot go on with ``byte``; 0 or a status."""
    for i in range(whead(w)[W_N_LIVE]):
        state = tab(w, LIVE)[2 * i]
        matched = i64(h, LEXER_STATES)[state * LEXER_WORDS + L_LONGEST]
        if matched == 0:
            continue
        after = transition(h, state, byte)
        if after < 0:
            return after
        if after == BEFORE:
            status = end_at(h, w, tab(w, LIVE)[2 * i + 1], matched, first)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _end_longest(h, w):
    """End the LONGEST lexemes that match where the text may end; 0 or a status."""
    for i in range(whead(w)[W_N_LIVE]):
        matched = i64(h, LEXER_STATES)[tab(w, LIVE)[2 * i] * LEXER_WORDS + L_LONGEST]
        if matched:
            status = end_text(h, w, tab(w, LIVE)[2 * i + 1], matched)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _pass_byte(h, w, byte, accepts):
    """Step all live states by a byte: the number of the first node after it (there may be none), or a status."""
    stamp = _fresh_stamp(w)
    first = whead(w)[W_NODES]
    count = np.int64(0)
    for i in range(whead(w)[W_N_LIVE]):
        live = tab(w, LIVE)
        starts = live[2 * i + 1]
        after = transition(h, live[2 * i], byte)
        if after < 0:
            return after
        if after == 0 or after == BEFORE:
            continue
        if after & ENDS_BIT:
            after &= STATE_MASK
            ended = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_ACCEPTED]
            status = end_at(h, w, starts, ended, first)
            if status >= 0 and accepts:
                status = end_text(h, w, starts, ended)
            if status < 0:
                return status
            after = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_REST]
        if after > 0:
            count = _add_live(w, LIVE_NEXT, count, after, starts, stamp)
            if count < 0:
                return count
    _swap(w, count)
    return first


@kernel
def _pass_gap(h, w, accepts):
    """Let any string come: the node inside the gap; or a status. Lexemes that lie in the gap lead from it to itself.

    What may start inside the gap is what may follow lexemes that end there, those that started there included.
    """
    here = fresh_node(w, 0)
    if here < 0:
        return here
    status = _allow_in_gap(h, w, here)
    if status >= 0:
        status = _start(h, w, here, here + 1)
    if status < 0:
        return status
    count = np.int64(0)
    n_live = whead(w)[W_N_LIVE]
    for i in range(n_live):  # closures take stamps: all of them first
        record = closure_of(h, w, tab(w, LIVE)[2 * i])
        if record < 0:
            return record
    stamp = _fresh_stamp(w)
    for i in range(n_live):
        starts = tab(w, LIVE)[2 * i + 1]
        record = closure_of(h, w, tab(w, LIVE)[2 * i])
        pool = tab(w, POOL)
        n_states = pool[record + C_STATES]
        first = record + C_FIRST
        for j in range(first + n_states, first + n_states + pool[record + C_LEXEMES]):
            status = end_inside(h, w, starts, pool[j], here)
            if status >= 0 and accepts:
                status = end_inside(h, w, starts, pool[j], end_node(w))
            if status < 0:
                return status
        count = _add_states(w, first, n_states, count, starts, stamp)
        if count < 0:
            return count
    _swap(w, count)
    return here


@kernel
def _allow_in_gap(h, w, here):
    """``ALLOWED`` of the node in a gap: a closure over what may follow what. 0 or a status."""
    head = whead(w)
    words = head[W_SET]
    n_lexemes = head[W_N_LEXEMES]
    for i in range(head[W_N_LIVE]):
        record = closure_of(h, w, tab(w, LIVE)[2 * i])
        if record < 0:
            return record
        pool = tab(w, POOL)
        first = record + C_FIRST + pool[record + C_STATES]
        for j in range(first, first + pool[record + C_LEXEMES]):
            allow(h, w, tab(w, LIVE)[2 * i + 1], pool[j], here)
    allowed = tab(w, ALLOWED)
    follows = tab(w, FOLLOWS)
    grown = True
    while grown:
        grown = False
        for lexeme in range(n_lexemes - 1):
            if not has_bit(allowed, here * words, lexeme):
                continue
            for i in range(words):
                more = follows[lexeme * words + i] & ~allowed[here * words + i]
                if more:
                    allowed[here * words + i] |= more
                    grown = True
    return np.int64(0)


@kernel
def _pass_slot(h, w, k, accepts):
    """Let any one token come: the number of the first node after it (there may be none), or a status.

    Where lexemes end inside the token there is a node for each class of what is left of it. Classes lead to smaller ones, so
    nodes are numbered from the largest class down.
    """
    head = whead(w)
    n_live = head[W_N_LIVE]
    cap = np.int64(SLOT) - tab(w, ELEMENTS)[k]
    head[W_CLASS_CAP] = cap
    for i in range(n_live):
        record = effect_of(h, w, tab(w, LIVE)[2 * i])
        if record < 0:
            return record
    stamp = _fresh_stamp(w)
    # 1. the classes that come up
    n_classes = np.int64(0)
    for i in range(n_live):
        record = effect_of(h, w, tab(w, LIVE)[2 * i])
        n_classes = _note_classes(w, record, n_classes, stamp, cap)
        if n_classes < 0:
            return n_classes
    at = 0
    while at < n_classes:
        record = tab(w, CLASS_RECORD)[tab(w, QUEUE)[at]]
        at += 1
        n_classes = _note_classes(w, record, n_classes, stamp, cap)
        if n_classes < 0:
            return n_classes
    classes = tab(w, QUEUE)
    for i in range(1, n_classes):
        word = classes[i]
        j = i - 1
        while j >= 0 and classes[j] < word:
            classes[j + 1] = classes[j]
            j -= 1
        classes[j + 1] = word
    # 2. their nodes
    used = head[W_CLASS_LIST_USED]
    if not room(w, CLASS_LIST, 2 * (used + n_classes)):
        return np.int64(W_GROW)
    listed = tab(w, CLASS_LIST)
    for i in range(n_classes):
        node = fresh_node(w, 1)
        if node < 0:
            return node
        tab(w, CLASS_NODE)[classes[i]] = (stamp << 32) | node
        listed[2 * (used + i)] = classes[i]
        listed[2 * (used + i) + 1] = node
    tab(w, SLOT_CLASSES)[2 * k] = used
    tab(w, SLOT_CLASSES)[2 * k + 1] = n_classes
    head[W_CLASS_LIST_USED] = used + n_classes
    first = head[W_NODES]
    # 3. the ways through the token; what ends in the same way is gathered first
    head[W_N_GATHERED] = 0
    count = np.int64(0)
    for i in range(n_live):
        live = tab(w, LIVE)
        record = effect_of(h, w, live[2 * i])
        count = _pass_effect(w, record, live[2 * i + 1], count, stamp)
        if count < 0:
            return count
    for i in range(used, used + n_classes):
        row = new_row(w)
        if row < 0:
            return row
        set_bit(tab(w, BITS), row, tab(w, CLASS_LIST)[2 * i + 1])
        record = tab(w, CLASS_RECORD)[tab(w, CLASS_LIST)[2 * i]]
        count = _pass_effect(w, record, row, count, stamp)
        if count < 0:
            return count
    status = _end_gathered(h, w, first, accepts)
    if status < 0:
        return status
    _swap(w, count)
    return first


@kernel
def _note_classes(w, record, count, stamp, cap):
    """Append the classes of an effect that are not marked yet to ``QUEUE``; the new count, or ``W_GROW``."""
    pool = tab(w, POOL)
    first = record + E_FIRST + pool[record + E_STATES] + pool[record + E_ENDS]
    for i in range(first, first + pool[record + E_CROSSINGS]):
        group = pool[i] & 0xFFFFFFFF
        if group > cap:
            break
        if not room(w, CLASS_NODE, group + 1) or not room(w, QUEUE, count + 1):
            return np.int64(W_GROW)
        nodes = tab(w, CLASS_NODE)
        if nodes[group] >> 32 != stamp:
            nodes[group] = stamp << 32
            tab(w, QUEUE)[count] = group
            count += 1
    return np.int64(count)


@kernel
def _pass_effect(w, record, starts, count, stamp):
    """Follow an effect from a row of starts: the number of states in ``LIVE_NEXT``, or a status. What ends is gathered."""
    pool = tab(w, POOL)
    cap = whead(w)[W_CLASS_CAP]
    n_lexemes = whead(w)[W_N_LEXEMES]
    first = record + E_FIRST
    count = _add_states(w, first, pool[record + E_STATES], count, starts, stamp)
    if count < 0:
        return count
    first += pool[record + E_STATES]
    for i in range(first, first + pool[record + E_ENDS]):
        if _gather(w, SET_MARK, pool[i], pool[i], starts, stamp) < 0:
            return np.int64(W_GROW)
    first += pool[record + E_ENDS]
    for i in range(first, first + pool[record + E_CROSSINGS]):
        group = pool[i] & 0xFFFFFFFF
        if group > cap:
            break
        if _gather(w, CROSS_MARK, group * n_lexemes + (pool[i] >> 32), CROSSES | pool[i], starts, stamp) < 0:
            return np.int64(W_GROW)
    return np.int64(count)


@kernel
def _gather(w, marks, key, what, starts, stamp):
    """Add a row of starts to those from which the same lexemes end in the same way; 0 or ``W_GROW``."""
    head = whead(w)
    count = head[W_N_GATHERED]
    if not room(w, marks, key + 1) or not room(w, GATHERED, 2 * count + 2):
        return np.int64(W_GROW)
    mark = tab(w, marks)
    gathered = tab(w, GATHERED)
    if mark[key] >> 32 == stamp:
        or_row(tab(w, BITS), gathered[2 * (mark[key] & 0xFFFFFFFF) + 1], starts, head[W_WIDTH])
        return np.int64(0)
    row = new_row(w)
    if row < 0:
        return row
    or_row(tab(w, BITS), row, starts, head[W_WIDTH])
    gathered[2 * count] = what
    gathered[2 * count + 1] = row
    mark[key] = (stamp << 32) | count
    head[W_N_GATHERED] = count + 1
    return np.int64(0)


@kernel
def _end_gathered(h, w, first, accepts):
    """Note where the gathered lexemes end: inside the token, or after it (nodes from ``first`` on); 0 or a status."""
    for i in range(whead(w)[W_N_GATHERED]):
        what = tab(w, GATHERED)[2 * i]
        starts = tab(w, GATHERED)[2 * i + 1]
        if what & CROSSES:
            node = tab(w, CLASS_NODE)[what & 0xFFFFFFFF] & 0xFFFFFFFF
            status = end_inside(h, w, starts, (what & ~CROSSES) >> 32, node)
        else:
            status = end_at(h, w, starts, what, first)
            if status >= 0 and accepts:
                status = end_text(h, w, starts, what)
        if status < 0:
            return status
    return np.int64(0)
