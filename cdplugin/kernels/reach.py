"""Where lexemes that a token ended in the middle of may end, right of the hole."""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import LEXEME_WORDS, LEXEMES, LEXER_STATES, X_IS_SKIP, i64, length_of, mix, sort_unique, word_of
from cdplugin.kernels.boundaries import has_skip, may_follow, takes
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
    NODE_LAST,
    POOL,
    REACH_HASH,
    REACH_PATH,
    REACHED,
    REACHED_STATES,
    SLOT,
    SLOT_CLASSES,
    W_CLASS_CAP,
    W_ELEMENTS,
    W_ENDS_USED,
    W_GROW,
    W_HOLE,
    W_N_LEXEMES,
    W_N_REACHED,
    W_REACH_STAMP,
    W_REACHED_STATES_USED,
    W_SPLIT,
    W_STAMP,
    W_WIDTH,
    end_node,
    or_row,
    room,
    row_in,
    set_bit,
    tab,
    whead,
)

REACHED_WORDS = 4  # element, number of states, where they are in REACHED_STATES, rows in ENDS_ROWS


@kernel
def forget_reached(w):
    """Forget what was found for another hole; 0 or ``W_GROW``."""
    head = whead(w)
    ends = tab(w, ENDS_FROM)
    for i in range(ends.shape[0]):
        ends[i] = 0
    head[W_ENDS_USED] = 0
    head[W_STAMP] += 1
    head[W_REACH_STAMP] = head[W_STAMP]
    head[W_N_REACHED] = 0
    head[W_REACHED_STATES_USED] = 0
    return np.int64(0 if room(w, REACH_HASH, 1024) else W_GROW)


@kernel
def ends_from(h, w, state):
    """Where the lexemes of a lexer state that a token ended in may end: the offset of a row per lexeme in ``ENDS_ROWS``.

    Runs through what is right of the hole until nothing is alive, or states are met that another run met at the same element:
    each such set of states has rows of its own. Or a status.
    """
    head = whead(w)
    n_lexemes = head[W_N_LEXEMES]
    if not room(w, ENDS_FROM, state + 1) or not room(w, LIVE, 2):
        return np.int64(W_GROW)
    known = tab(w, ENDS_FROM)[state]
    if known > 0:
        return known - 1
    tab(w, LIVE)[0] = state
    count = np.int64(1)
    k = head[W_HOLE]
    if tab(w, ELEMENTS)[k] != GAP:
        k += 1
    steps = np.int64(0)
    following = np.int64(-1)
    while count > 0:
        count = sort_unique(tab(w, LIVE), 0, count)
        rows = _rows_of_states(w, k, count)
        if rows < -1:
            return rows
        if rows >= 0:
            following = rows
            break
        rows = head[W_ENDS_USED] - n_lexemes
        if not room(w, REACH_PATH, steps + 1):
            return np.int64(W_GROW)
        tab(w, REACH_PATH)[steps] = rows
        steps += 1
        status = _end_before(h, w, rows, k, count)
        if status < 0:
            return status
        if k == head[W_ELEMENTS]:
            break
        count = _pass_element(h, w, rows, k, count)
        if count < 0:
            return count
        k += 1
    for i in range(steps - 1, -1, -1):
        rows = tab(w, REACH_PATH)[i]
        for lexeme in range(n_lexemes):
            row = tab(w, ENDS_ROWS)[following + lexeme] if following >= 0 else np.int64(0)
            if row:
                into = row_in(w, ENDS_ROWS, rows + lexeme)
                if into < 0:
                    return into
                or_row(tab(w, BITS), into, row, head[W_WIDTH])
        following = rows
    tab(w, ENDS_FROM)[state] = following + 1
    return following


@kernel
def _rows_of_states(w, k, count):
    """The rows of the states in ``LIVE`` before element ``k``; -1 if they are new: then the last rows in ``ENDS_ROWS`` are
    theirs, and empty. Or ``W_GROW``.
    """
    head = whead(w)
    live = tab(w, LIVE)
    hash_ = mix(2166136261, k)
    for i in range(count):
        hash_ = mix(hash_, live[i])
    index = tab(w, REACH_HASH)
    reached = tab(w, REACHED)
    states = tab(w, REACHED_STATES)
    stamp = head[W_REACH_STAMP]
    size = index.shape[0] - 1
    slot = (hash_ ^ (hash_ >> 16)) & size
    while index[slot] >> 32 == stamp:
        at = (index[slot] & 0xFFFFFFFF) * REACHED_WORDS
        if reached[at] == k and reached[at + 1] == count:
            same = True
            for i in range(count):
                if states[reached[at + 2] + i] != live[i]:
                    same = False
                    break
            if same:
                return reached[at + 3]
        slot = (slot + 1) & size
    number = head[W_N_REACHED]
    used = head[W_REACHED_STATES_USED]
    rows = head[W_ENDS_USED]
    n_lexemes = head[W_N_LEXEMES]
    if 2 * (number + 1) > index.shape[0]:
        room(w, REACH_HASH, 2 * index.shape[0])
        return np.int64(W_GROW)
    if not room(w, REACHED, (number + 1) * REACHED_WORDS) or not room(w, REACHED_STATES, used + count):
        return np.int64(W_GROW)
    if not room(w, ENDS_ROWS, rows + n_lexemes):
        return np.int64(W_GROW)
    for i in range(count):
        states[used + i] = live[i]
    reached[number * REACHED_WORDS] = k
    reached[number * REACHED_WORDS + 1] = count
    reached[number * REACHED_WORDS + 2] = used
    reached[number * REACHED_WORDS + 3] = rows
    index[slot] = (stamp << 32) | number
    for i in range(rows, rows + n_lexemes):
        tab(w, ENDS_ROWS)[i] = 0
    head[W_N_REACHED] = number + 1
    head[W_REACHED_STATES_USED] = used + count
    head[W_ENDS_USED] = rows + n_lexemes
    return np.int64(-1)


@kernel
def _end_before(h, w, rows, k, count):
    """Note the LONGEST lexemes that the end of the text, or element ``k``, ends; 0 or a status."""
    last = k == whead(w)[W_ELEMENTS]
    element = np.int64(0) if last else tab(w, ELEMENTS)[k]
    for i in range(count):
        here = tab(w, LIVE)[i]
        matched = i64(h, LEXER_STATES)[here * LEXER_WORDS + L_LONGEST]
        if matched == 0:
            continue
        if tab(w, ACCEPTS)[k]:
            status = _note_text_end(h, w, rows, matched)
            if status < 0:
                return status
        if not last and element >= 0:
            after = transition(h, here, element)
            if after < 0:
                return after
            if after == BEFORE:
                status = _note_ends(h, w, rows, matched, k)
                if status < 0:
                    return status
    return np.int64(0)


@kernel
def _pass_element(h, w, rows, k, count):
    """Note the lexemes that end in element ``k``: how many states are in ``LIVE`` after it, or a status."""
    head = whead(w)
    element = tab(w, ELEMENTS)[k]
    accepts = tab(w, ACCEPTS)[k + 1]
    for i in range(count):  # these take stamps: all of them first
        here = tab(w, LIVE)[i]
        record = np.int64(0)
        if element == GAP:
            record = closure_of(h, w, here)
        elif element < 0:
            record = effect_of(h, w, here)
        if record < 0:
            return record
    head[W_STAMP] += 1
    stamp = head[W_STAMP]
    if element <= SLOT:
        head[W_CLASS_CAP] = SLOT - element
        first = tab(w, SLOT_CLASSES)[2 * k]
        for i in range(first, first + tab(w, SLOT_CLASSES)[2 * k + 1]):
            tab(w, CLASS_NODE)[tab(w, CLASS_LIST)[2 * i]] = (stamp << 32) | tab(w, CLASS_LIST)[2 * i + 1]
    n_next = np.int64(0)
    for i in range(count):
        here = tab(w, LIVE)[i]
        if element >= 0:
            after = transition(h, here, element)
            if after < 0:
                return after
            if after == 0 or after == BEFORE:
                continue
            if after & ENDS_BIT:
                after &= STATE_MASK
                ended = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_ACCEPTED]
                status = _note_ends(h, w, rows, ended, k + 1)
                if status >= 0 and accepts:
                    status = _note_text_end(h, w, rows, ended)
                if status < 0:
                    return status
                after = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_REST]
            n_next = _add_state(w, LIVE_NEXT, n_next, after, stamp)
        elif element == GAP:
            n_next = _through_gap(h, w, rows, here, k, n_next, stamp)
        else:
            n_next = _through_slot(h, w, rows, here, k, n_next, stamp)
        if n_next < 0:
            return n_next
    for word in range(2):
        kept = head[2 * LIVE + word]
        head[2 * LIVE + word] = head[2 * LIVE_NEXT + word]
        head[2 * LIVE_NEXT + word] = kept
    return n_next


@kernel
def _through_gap(h, w, rows, state, k, n_next, stamp):
    """:func:`ends_from` for one state and a gap: the number of states after it, or a status."""
    record = closure_of(h, w, state)
    pool = tab(w, POOL)
    first = record + C_FIRST
    n_states = pool[record + C_STATES]
    for i in range(first, first + n_states):
        n_next = _add_state(w, LIVE_NEXT, n_next, pool[i], stamp)
        if n_next < 0:
            return n_next
    node = tab(w, NODE_BEFORE)[k + 1]
    for i in range(first + n_states, first + n_states + pool[record + C_LEXEMES]):
        status = _note_end(w, rows + pool[i], node)
        if status >= 0 and tab(w, ACCEPTS)[k + 1]:
            status = _note_end(w, rows + pool[i], end_node(w))
        if status < 0:
            return status
    return np.int64(n_next)


@kernel
def _through_slot(h, w, rows, state, k, n_next, stamp):
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
        status = _note_ends(h, w, rows, pool[i], k + 1)
        if status >= 0 and tab(w, ACCEPTS)[k + 1]:
            status = _note_text_end(h, w, rows, pool[i])
        if status < 0:
            return status
    first += pool[record + E_ENDS]
    for i in range(first, first + pool[record + E_CROSSINGS]):
        group = pool[i] & 0xFFFFFFFF
        if group > whead(w)[W_CLASS_CAP] or tab(w, CLASS_NODE).shape[0] <= group:
            break
        known = tab(w, CLASS_NODE)[group]
        if known >> 32 == stamp:
            status = _note_end(w, rows + (pool[i] >> 32), known & 0xFFFFFFFF)
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
def _note_end(w, index, node):
    """A lexeme (entry ``index`` of ``ENDS_ROWS``) may end at a node; 0 or ``W_GROW``."""
    row = row_in(w, ENDS_ROWS, index)
    if row < 0:
        return row
    set_bit(tab(w, BITS), row, node)
    return np.int64(0)


@kernel
def _note_ends(h, w, rows, accepted, k):
    """The lexemes of a set may end at the boundary before element ``k``; 0 or ``W_GROW``.

    The set may be smaller than those that the lattice found, so the nodes where at least what may follow it competes are meant.
    After a skip, all nodes.
    """
    skips = has_skip(h, accepted)
    may_follow(h, w, accepted)
    lexemes = i64(h, LEXEMES)
    for node in range(tab(w, NODE_BEFORE)[k], tab(w, NODE_LAST)[k]):
        if whead(w)[W_SPLIT] and not skips and not takes(w, node):
            continue
        for i in range(length_of(h, accepted)):
            lexeme = word_of(h, accepted, i)
            if skips and not lexemes[lexeme * LEXEME_WORDS + X_IS_SKIP]:
                continue
            status = _note_end(w, rows + lexeme, np.int64(node))
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _note_text_end(h, w, rows, accepted):
    """The lexemes of a set may end where the text may end; 0 or ``W_GROW``."""
    skips = has_skip(h, accepted)
    lexemes = i64(h, LEXEMES)
    for i in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, i)
        if skips and not lexemes[lexeme * LEXEME_WORDS + X_IS_SKIP]:
            continue
        status = _note_end(w, rows + lexeme, end_node(w))
        if status < 0:
            return status
    return np.int64(0)
