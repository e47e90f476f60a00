"""The lattice: where in a text with gaps and slots lexemes may begin and end.

The text is run through once, from left to right, with all lexer states that are alive; each carries the row of the nodes at
which it started. A byte steps every state; a gap replaces a state by its closure; a slot by the effect of one token
(:mod:`cdplugin.kernels.effects`). Where a lexeme ends there is a node, and ``SPANS`` notes which lexemes lead from which node
to it. So lexemes that end in, begin in or span gaps come out without looking at strings (Bar-Hillel's construction on
derivatives; the paper of Mündler et al. builds an automaton per pair of partial lexemes instead).

At a node every lexeme is started that may follow one that ends there, anywhere in the grammar. For EXACT lexemes that is exact:
what the parser does not ask for is not used. LONGEST lexemes compete with all of these here, also with those that the parser
does not allow after this very text: a boundary that this accepts is a boundary for the matcher, but not always the other way
round. Inside an open slot they compete with all lexemes of the grammar.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import (
    LEXER_STATES,
    i64,
    length_of,
    word_of,
)
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
    ELEMENTS,
    FOLLOWS,
    GAP,
    LIVE,
    LIVE_NEXT,
    LIVE_SLOT,
    NODE_BEFORE,
    POOL,
    QUEUE,
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
    W_HOLE_NODE,
    W_HOLE_STARTS,
    W_LEFT,
    W_N_LEXEMES,
    W_N_LIVE,
    W_N_SNAPSHOT,
    W_NODES,
    W_SET,
    W_STAMP,
    W_WIDTH,
    WIDEN,
    end_node,
    final_node,
    forget_rows,
    has_bit,
    low_bit,
    new_row,
    or_row,
    room,
    set_bit,
    span_row,
    tab,
    whead,
)


@kernel
def build_lattice(h, w):
    """Fill ``SPANS``, ``NODE_BEFORE`` and ``SNAPSHOT`` from ``ELEMENTS``; 0 or a status."""
    head = whead(w)
    forget_rows(w, 0, 1)  # row 0 is none
    head[W_NODES] = 0
    head[W_CLASS_LIST_USED] = 0
    head[W_HOLE_NODE] = -1
    head[W_N_LIVE] = 0
    head[W_N_SNAPSHOT] = 0
    count = head[W_ELEMENTS]
    n_lexemes = head[W_N_LEXEMES]
    if not room(w, NODE_BEFORE, count + 1) or not room(w, SLOT_CLASSES, 2 * count + 2):
        return np.int64(W_GROW)
    if not room(w, SPANS, 64 * head[W_WIDTH] * n_lexemes) or not room(w, ALLOWED, 64 * head[W_WIDTH] * head[W_SET]):
        return np.int64(W_GROW)
    if not room(w, SPAN_SETS, 64 * head[W_WIDTH] * head[W_SET]):
        return np.int64(W_GROW)
    elements = tab(w, ELEMENTS)
    accepts = tab(w, ACCEPTS)
    nodes = tab(w, NODE_BEFORE)
    for i in range(count + 1):
        nodes[i] = -1
    for node in (end_node(w), final_node(w)):
        _clear_node(w, node)
    status = _edge(w, end_node(w), n_lexemes - 1, final_node(w))
    if status < 0:
        return status
    here = _node(w)
    if here < 0:
        return here
    words = head[W_SET]
    for i in range(words):
        tab(w, ALLOWED)[here * words + i] = tab(w, FOLLOWS)[n_lexemes * words + i]
    if accepts[0]:
        status = _edge(w, here, n_lexemes - 1, final_node(w))
        if status < 0:
            return status
    for k in range(count):
        element = elements[k]
        if element >= 0:
            here = _before_byte(h, w, here, element)
            if here < -1:
                return here
        nodes[k] = here
        if here >= 0:
            status = _start(h, w, here, k == head[W_HOLE])
            if status < 0:
                return status
        if k == head[W_HOLE]:
            status = _take_snapshot(w)
            if status < 0:
                return status
            if here < 0:
                head[W_HOLE_STARTS] = 0
                head[W_HOLE_STARTS + 1] = 0
            head[W_HOLE_NODE] = here
            head[W_LEFT] = head[W_NODES]
        if element >= 0:
            here = _pass_byte(h, w, element, accepts[k + 1])
        elif element == GAP:
            here = _pass_gap(h, w, accepts[k + 1])
        else:
            here = _pass_slot(h, w, k, accepts[k + 1])
        if here < -1:
            return here
        if accepts[k + 1]:
            status = _end_longest(h, w)
            if status < 0:
                return status
    nodes[count] = here
    return np.int64(0)


@kernel
def _clear_node(w, node):
    words = whead(w)[W_SET]
    allowed = tab(w, ALLOWED)
    spans = tab(w, SPAN_SETS)
    for i in range(node * words, (node + 1) * words):
        allowed[i] = 0
        spans[i] = 0


@kernel
def _node(w):
    """A fresh node, or ``WIDEN``."""
    head = whead(w)
    node = head[W_NODES]
    if node >= end_node(w):
        return np.int64(WIDEN)
    head[W_NODES] = node + 1
    _clear_node(w, node)
    return node


@kernel
def _edge(w, start, lexeme, end):
    """Note that ``lexeme`` may span from node ``start`` to node ``end``; 0 or ``W_GROW``."""
    row = span_row(w, start, lexeme)
    if row < 0:
        return row
    set_bit(tab(w, BITS), row, end)
    return np.int64(0)


@kernel
def _edges(h, w, starts, lexeme, end):
    """:func:`_edge` from every node of the row ``starts``."""
    width = whead(w)[W_WIDTH]
    allow(h, w, starts, lexeme, end)
    for i in range(width):
        word = tab(w, BITS)[starts + i]
        while word:
            node = 64 * i + low_bit(word)
            word &= word - 1
            status = _edge(w, node, lexeme, end)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _edges_of_set(h, w, starts, accepted, end):
    """:func:`_edges` for every lexeme of a set."""
    for i in range(length_of(h, accepted)):
        status = _edges(h, w, starts, word_of(h, accepted, i), end)
        if status < 0:
            return status
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
def _start(h, w, node, at_hole):
    """Start at ``node`` the lexemes that may start there; 0 or a status. The states in ``LIVE`` are stamped anew."""
    head = whead(w)
    count = head[W_N_LIVE]
    stamp = _fresh_stamp(w)
    live = tab(w, LIVE)
    for i in range(count):
        tab(w, LIVE_SLOT)[live[2 * i]] = (stamp << 32) | i
    row = new_row(w)
    if row < 0:
        return row
    set_bit(tab(w, BITS), row, node)
    at = start_states(h, w, node)
    if at < 0:
        return at
    for group in range(2):
        state = tab(w, START_SETS)[at + group]
        if at_hole:
            head[W_HOLE_STARTS + group] = state
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
def _before_byte(h, w, here, byte):
    """End the LONGEST lexemes that match here and cannot go on with ``byte``: the node here, or -1; or a status."""
    for i in range(whead(w)[W_N_LIVE]):
        state = tab(w, LIVE)[2 * i]
        matched = i64(h, LEXER_STATES)[state * LEXER_WORDS + L_LONGEST]
        if matched == 0:
            continue
        after = transition(h, state, byte)
        if after < 0:
            return after - 100
        if after == BEFORE:
            if here < 0:
                here = _node(w)
                if here < 0:
                    return here - 100
            status = _edges_of_set(h, w, tab(w, LIVE)[2 * i + 1], matched, here)
            if status < 0:
                return status - 100
    return np.int64(here)


@kernel
def _end_longest(h, w):
    """End the LONGEST lexemes that match where the text may end; 0 or a status."""
    for i in range(whead(w)[W_N_LIVE]):
        matched = i64(h, LEXER_STATES)[tab(w, LIVE)[2 * i] * LEXER_WORDS + L_LONGEST]
        if matched:
            status = _edges_of_set(h, w, tab(w, LIVE)[2 * i + 1], matched, end_node(w))
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _pass_byte(h, w, byte, accepts):
    """Step all live states by a byte: the node after it, or -1; or a status less 100."""
    stamp = _fresh_stamp(w)
    here = np.int64(-1)
    count = np.int64(0)
    for i in range(whead(w)[W_N_LIVE]):
        live = tab(w, LIVE)
        starts = live[2 * i + 1]
        after = transition(h, live[2 * i], byte)
        if after < 0:
            return after - 100
        if after == 0 or after == BEFORE:
            continue
        if after & ENDS_BIT:
            after &= STATE_MASK
            if here < 0:
                here = _node(w)
                if here < 0:
                    return here - 100
            ended = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_ACCEPTED]
            status = _edges_of_set(h, w, starts, ended, here)
            if status >= 0 and accepts:
                status = _edges_of_set(h, w, starts, ended, end_node(w))
            if status < 0:
                return status - 100
            after = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_REST]
        if after > 0:
            count = _add_live(w, LIVE_NEXT, count, after, starts, stamp)
            if count < 0:
                return count - 100
    _swap(w, count)
    return here


@kernel
def _pass_gap(h, w, accepts):
    """Let any string come: the node inside the gap; or a status less 100. Lexemes that lie in the gap lead from it to itself.

    What may start inside the gap is what may follow lexemes that end there, those that started there included.
    """
    here = _node(w)
    if here < 0:
        return here - 100
    status = _allow_in_gap(h, w, here)
    if status >= 0:
        status = _start(h, w, here, False)
    if status < 0:
        return status - 100
    count = np.int64(0)
    n_live = whead(w)[W_N_LIVE]
    for i in range(n_live):  # closures take stamps: all of them first
        record = closure_of(h, w, tab(w, LIVE)[2 * i])
        if record < 0:
            return record - 100
    stamp = _fresh_stamp(w)
    for i in range(n_live):
        starts = tab(w, LIVE)[2 * i + 1]
        record = closure_of(h, w, tab(w, LIVE)[2 * i])
        pool = tab(w, POOL)
        n_states = pool[record + C_STATES]
        first = record + C_FIRST
        for j in range(first + n_states, first + n_states + pool[record + C_LEXEMES]):
            status = _edges(h, w, starts, pool[j], here)
            if status >= 0 and accepts:
                status = _edges(h, w, starts, pool[j], end_node(w))
            if status < 0:
                return status - 100
        count = _add_states(w, first, n_states, count, starts, stamp)
        if count < 0:
            return count - 100
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
    """Let any one token come: the node after it, or -1; or a status less 100.

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
            return record - 100
    stamp = _fresh_stamp(w)
    pool = tab(w, POOL)
    # 1. the classes that come up
    n_classes = np.int64(0)
    any_end = False
    for i in range(n_live):
        record = effect_of(h, w, tab(w, LIVE)[2 * i])
        any_end = any_end or pool[record + E_ENDS] > 0
        n_classes = _note_classes(w, record, n_classes, stamp, cap)
        if n_classes < 0:
            return n_classes - 100
    at = 0
    while at < n_classes:
        record = tab(w, CLASS_RECORD)[tab(w, QUEUE)[at]]
        at += 1
        any_end = any_end or pool[record + E_ENDS] > 0
        n_classes = _note_classes(w, record, n_classes, stamp, cap)
        if n_classes < 0:
            return n_classes - 100
    classes = tab(w, QUEUE)
    for i in range(1, n_classes):
        word = classes[i]
        j = i - 1
        while j >= 0 and classes[j] < word:
            classes[j + 1] = classes[j]
            j -= 1
        classes[j + 1] = word
    # 2. their nodes, and the one after the token
    used = head[W_CLASS_LIST_USED]
    if not room(w, CLASS_LIST, 2 * (used + n_classes)):
        return np.int64(W_GROW - 100)
    listed = tab(w, CLASS_LIST)
    for i in range(n_classes):
        node = _node(w)
        if node < 0:
            return node - 100
        tab(w, CLASS_NODE)[classes[i]] = (stamp << 32) | node
        listed[2 * (used + i)] = classes[i]
        listed[2 * (used + i) + 1] = node
    tab(w, SLOT_CLASSES)[2 * k] = used
    tab(w, SLOT_CLASSES)[2 * k + 1] = n_classes
    head[W_CLASS_LIST_USED] = used + n_classes
    here = np.int64(-1)
    if any_end:
        here = _node(w)
        if here < 0:
            return here - 100
    # 3. the ways through the token
    count = np.int64(0)
    for i in range(n_live):
        live = tab(w, LIVE)
        record = effect_of(h, w, live[2 * i])
        count = _pass_effect(h, w, record, live[2 * i + 1], count, stamp, here, accepts)
        if count < 0:
            return count - 100
    for i in range(used, used + n_classes):
        row = new_row(w)
        if row < 0:
            return row - 100
        set_bit(tab(w, BITS), row, tab(w, CLASS_LIST)[2 * i + 1])
        record = tab(w, CLASS_RECORD)[tab(w, CLASS_LIST)[2 * i]]
        count = _pass_effect(h, w, record, row, count, stamp, here, accepts)
        if count < 0:
            return count - 100
    _swap(w, count)
    return here


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
def _pass_effect(h, w, record, starts, count, stamp, here, accepts):
    """Follow an effect from a row of starts; the number of states in ``LIVE_NEXT``, or a status."""
    pool = tab(w, POOL)
    cap = whead(w)[W_CLASS_CAP]
    first = record + E_FIRST
    count = _add_states(w, first, pool[record + E_STATES], count, starts, stamp)
    if count < 0:
        return count
    first += pool[record + E_STATES]
    for i in range(first, first + pool[record + E_ENDS]):
        status = _edges(h, w, starts, pool[i], here)
        if status >= 0 and accepts:
            status = _edges(h, w, starts, pool[i], end_node(w))
        if status < 0:
            return status
    first += pool[record + E_ENDS]
    for i in range(first, first + pool[record + E_CROSSINGS]):
        group = pool[i] & 0xFFFFFFFF
        if group > cap:
            break
        status = _edges(h, w, starts, pool[i] >> 32, tab(w, CLASS_NODE)[group] & 0xFFFFFFFF)
        if status < 0:
            return status
    return np.int64(count)
