"""Where lexemes that a token ended in the middle of may end, right of the hole."""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import LEXER_STATES, i64, length_of, word_of
from cdplugin.kernels.effects import C_FIRST, C_LEXEMES, C_STATES, E_CROSSINGS, E_ENDS, E_FIRST, E_STATES, closure_of, effect_of
from cdplugin.kernels.jit import kernel
from cdplugin.kernels.lexer import BEFORE, ENDS_BIT, L_ACCEPTED, L_LONGEST, L_REST, LEXER_WORDS, STATE_MASK, transition
from cdplugin.kernels.workspace import (
    ACCEPTS,
    BITS,
    CLASS_LIST,
    CLASS_NODE,
    ELEMENTS,
    ENDS_FROM,
    ENDS_ROWS,
    GAP,
    LIVE,
    LIVE_NEXT,
    LIVE_SLOT,
    NODE_BEFORE,
    POOL,
    SLOT_CLASSES,
    W_ELEMENTS,
    W_ENDS_USED,
    W_GROW,
    W_HOLE,
    W_N_LEXEMES,
    W_STAMP,
    end_node,
    room,
    row_in,
    set_bit,
    tab,
    whead,
)


@kernel
def ends_from(h, w, state):
    """Where the lexemes of a lexer state that a token ended in may end: the offset of a row per lexeme in ``ENDS_ROWS``.

    Runs through what is right of the hole until nothing is alive. Or a status.
    """
    head = whead(w)
    n_lexemes = head[W_N_LEXEMES]
    if not room(w, ENDS_FROM, state + 1):
        return np.int64(W_GROW)
    known = tab(w, ENDS_FROM)[state]
    if known > 0:
        return known - 1
    rows = head[W_ENDS_USED]
    if not room(w, ENDS_ROWS, rows + n_lexemes):
        return np.int64(W_GROW)
    for i in range(rows, rows + n_lexemes):
        tab(w, ENDS_ROWS)[i] = 0
    elements = tab(w, ELEMENTS)
    accepts = tab(w, ACCEPTS)
    nodes = tab(w, NODE_BEFORE)
    if not room(w, LIVE, 2):
        return np.int64(W_GROW)
    tab(w, LIVE)[0] = state
    count = np.int64(1)
    k = head[W_HOLE]
    if elements[k] != GAP:
        k += 1
    while count > 0:
        live, following = (LIVE, LIVE_NEXT)
        last = k == head[W_ELEMENTS]
        element = np.int64(0) if last else elements[k]
        for i in range(count):  # LONGEST lexemes that the end, or the next byte, ends
            here = tab(w, live)[i]
            matched = i64(h, LEXER_STATES)[here * LEXER_WORDS + L_LONGEST]
            if matched == 0:
                continue
            if accepts[k]:
                status = _note_ends(h, w, rows, matched, end_node(w), np.int64(-1))
                if status < 0:
                    return status
            if not last and element >= 0:
                after = transition(h, here, element)
                if after < 0:
                    return after
                if after == BEFORE:
                    status = _note_ends(h, w, rows, matched, nodes[k], np.int64(-1))
                    if status < 0:
                        return status
        if last:
            break
        node = nodes[k + 1]
        end = end_node(w) if accepts[k + 1] else np.int64(-1)
        for i in range(count):
            here = tab(w, live)[i]
            record = np.int64(0)
            if element == GAP:
                record = closure_of(h, w, here)
            elif element < 0:
                record = effect_of(h, w, here)
            if record < 0:
                return record
        head[W_STAMP] += 1
        stamp = head[W_STAMP]
        if element < 0 and element != GAP:
            first = tab(w, SLOT_CLASSES)[2 * k]
            for i in range(first, first + tab(w, SLOT_CLASSES)[2 * k + 1]):
                tab(w, CLASS_NODE)[tab(w, CLASS_LIST)[2 * i]] = (stamp << 32) | tab(w, CLASS_LIST)[2 * i + 1]
        n_next = np.int64(0)
        for i in range(count):
            here = tab(w, live)[i]
            if element >= 0:
                after = transition(h, here, element)
                if after < 0:
                    return after
                if after == 0 or after == BEFORE:
                    continue
                if after & ENDS_BIT:
                    after &= STATE_MASK
                    ended = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_ACCEPTED]
                    status = _note_ends(h, w, rows, ended, node, end)
                    if status < 0:
                        return status
                    after = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_REST]
                n_next = _add_state(w, following, n_next, after, stamp)
            elif element == GAP:
                n_next = _through_gap(h, w, rows, here, node, end, n_next, stamp)
            else:
                n_next = _through_slot(h, w, rows, here, node, end, n_next, stamp)
            if n_next < 0:
                return n_next
        for word in range(2):
            kept = head[2 * LIVE + word]
            head[2 * LIVE + word] = head[2 * LIVE_NEXT + word]
            head[2 * LIVE_NEXT + word] = kept
        count = n_next
        k += 1
    head[W_ENDS_USED] = rows + n_lexemes
    tab(w, ENDS_FROM)[state] = rows + 1
    return rows


@kernel
def _through_gap(h, w, rows, state, node, end, n_next, stamp):
    """:func:`ends_from` for one state and a gap: the number of states after it, or a status."""
    record = closure_of(h, w, state)
    pool = tab(w, POOL)
    first = record + C_FIRST
    n_states = pool[record + C_STATES]
    for i in range(first, first + n_states):
        n_next = _add_state(w, LIVE_NEXT, n_next, pool[i], stamp)
        if n_next < 0:
            return n_next
    for i in range(first + n_states, first + n_states + pool[record + C_LEXEMES]):
        status = _note_end(w, rows + pool[i], node, end)
        if status < 0:
            return status
    return np.int64(n_next)


@kernel
def _through_slot(h, w, rows, state, node, end, n_next, stamp):
    """:func:`ends_from` for one state and a slot: the number of states after it, or a status."""
    record = effect_of(h, w, state)
    pool = tab(w, POOL)
    first = record + E_FIRST
    for i in range(first, first + pool[record + E_STATES]):
        n_next = _add_state(w, LIVE_NEXT, n_next, pool[i], stamp)
        if n_next < 0:
            return n_next
    first += pool[record + E_STATES]
    for i in range(first, first + pool[record + E_ENDS]):
        status = _note_end(w, rows + pool[i], node, end)
        if status < 0:
            return status
    first += pool[record + E_ENDS]
    for i in range(first, first + pool[record + E_CROSSINGS]):
        group = pool[i] & 0xFFFFFFFF
        if tab(w, CLASS_NODE).shape[0] <= group:
            continue
        known = tab(w, CLASS_NODE)[group]
        if known >> 32 == stamp:
            status = _note_end(w, rows + (pool[i] >> 32), known & 0xFFFFFFFF, np.int64(-1))
            if status < 0:
                return status
    return np.int64(n_next)


@kernel
def _add_state(w, table, count, state, stamp):
    """Append a state to a list if it is not marked yet; the new count, or ``W_GROW``."""
    if state == 0:
        return np.int64(count)
    if not room(w, LIVE_SLOT, state + 1) or not room(w, table, count + 1):
        return np.int64(W_GROW)
    slots = tab(w, LIVE_SLOT)
    if slots[state] >> 32 != stamp:
        slots[state] = stamp << 32
        tab(w, table)[count] = state
        count += 1
    return np.int64(count)


@kernel
def _note_end(w, index, node, end):
    """A lexeme (entry ``index`` of ``ENDS_ROWS``) may end at the nodes ``node`` and ``end`` (-1: none); 0 or ``W_GROW``."""
    for at in (node, end):
        if at >= 0:
            row = row_in(w, ENDS_ROWS, index)
            if row < 0:
                return row
            set_bit(tab(w, BITS), row, at)
    return np.int64(0)


@kernel
def _note_ends(h, w, rows, accepted, node, end):
    """:func:`_note_end` for every lexeme of a set."""
    for i in range(length_of(h, accepted)):
        status = _note_end(w, rows + word_of(h, accepted, i), node, end)
        if status < 0:
            return status
    return np.int64(0)
