"""Parser states as cursors: lexer and parser stepped together, byte by byte.

A *cursor* is one int64 word. ``(row + 1) << 32 | accepts << 31 | lexer state`` is the usual case, one (row, lexer state)
pair; a word below ``2**31`` is the id of an interned set of pairs (kind ``K_STATE``: the pairs as ``row << 32 | lexer
state``, sorted, after a leading -1 if the text may end here). 0 is the dead cursor.

Lexing is exact: where a lexeme ends, the pair that goes on and the pair that starts after it are both kept. All lexemes
that end at one byte, over all pairs, are scanned, and pairs with equal lexer states unite their rows (`exact_lexing.py` of
the sketches).
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import (
    GROW,
    K_STATE,
    LEXER_STATES,
    LIMIT_PAIRS,
    LOW_32,
    M_STEP,
    MAX_PAIRS,
    ROWS,
    STACK,
    STACK_TOP,
    TRANSITIONS,
    has_room,
    header,
    i32,
    i64,
    intern,
    length_of,
    memo_get,
    memo_put,
    pack,
    word_of,
)
from cdplugin.kernels.earley import R_ACCEPTS, R_START, ROW_WORDS, advance, unite_rows
from cdplugin.kernels.jit import kernel
from cdplugin.kernels.lexer import ENDS_BIT, L_ACCEPTED, L_REST, LEXER_WORDS, STATE_MASK, lexer_step

ACCEPT_BIT = 1 << 31
ACCEPT_MARK = -1


@kernel
def single(row, state, accepts):
    """The cursor of one pair."""
    return ((row + 1) << 32) | (accepts << 31) | state


@kernel
def start_of(h, row):
    """The cursor at the boundary before ``row``."""
    record = row * ROW_WORDS
    rows = i64(h, ROWS)
    return single(row, rows[record + R_START], rows[record + R_ACCEPTS])


@kernel
def accepts_at(h, cursor):
    """Whether the text may end here."""
    if cursor >> 32:
        return cursor & ACCEPT_BIT != 0
    return cursor != 0 and word_of(h, cursor, 0) == ACCEPT_MARK


@kernel
def transition(h, state, byte):
    """The lexer's transition, from its row or computed now; may be a status."""
    after = np.int64(i32(h, TRANSITIONS)[state * 256 + byte])
    return after if after >= 0 else lexer_step(h, state, byte)


@kernel
def step(h, cursor, byte):
    """The cursor after ``byte``: 0 if nothing legal begins so; or a status."""
    if cursor >> 32 == 0:
        return step_set(h, cursor, byte)
    state = cursor & STATE_MASK
    row = (cursor >> 32) - 1
    after = transition(h, state, byte)
    if after <= 0:
        return after
    if after & ENDS_BIT == 0:
        return single(row, after, 0)
    after &= STATE_MASK
    records = i64(h, LEXER_STATES)
    rest = records[after * LEXER_WORDS + L_REST]
    next_row = advance(h, row, records[after * LEXER_WORDS + L_ACCEPTED])
    if next_row < 0:
        return next_row
    if rest == 0:
        return start_of(h, next_row)
    return _pair_cursor(h, next_row, row, rest)


@kernel
def _pair_cursor(h, next_row, row, rest):
    """The cursor of ``next_row`` at its boundary together with the pair ``(row, rest)``."""
    head = header(h)
    rows = i64(h, ROWS)
    first = rows[next_row * ROW_WORDS + R_START]
    accepts = rows[next_row * ROW_WORDS + R_ACCEPTS]
    if first == 0 and not accepts:
        return single(row, rest, 0)
    if first == rest:
        next_row = unite_rows(h, next_row, row)
        if next_row < 0:
            return next_row
        return single(next_row, rest, accepts)
    base = head[STACK_TOP]
    if not has_room(h, STACK, base + 3):
        return GROW
    words = i64(h, STACK)
    count = 0
    if accepts:
        words[base] = ACCEPT_MARK
        count = 1
    a = pack(row, rest)
    if first == 0:
        words[base + count] = a
        return intern(h, K_STATE, base, count + 1)
    b = pack(next_row, first)
    words[base + count] = min(a, b)
    words[base + count + 1] = max(a, b)
    return intern(h, K_STATE, base, count + 2)


@kernel
def step_set(h, state, byte):
    """:func:`step` for an interned set of pairs; memoised."""
    if state == 0:
        return np.int64(0)
    known = memo_get(h, M_STEP, state, byte)
    if known >= 0:
        return known
    head = header(h)
    base = head[STACK_TOP]
    accepts = np.int64(0)
    count = length_of(h, state)
    for i in range(count):
        pair = word_of(h, state, i)
        if pair == ACCEPT_MARK:
            continue
        row = pair >> 32
        after = transition(h, pair & LOW_32, byte)
        if after < 0:
            return after
        if after == 0:
            continue
        ends = after & ENDS_BIT != 0
        after &= STATE_MASK
        if ends:
            next_row = advance(h, row, i64(h, LEXER_STATES)[after * LEXER_WORDS + L_ACCEPTED])
            if next_row < 0:
                return next_row
            rows = i64(h, ROWS)
            accepts |= rows[next_row * ROW_WORDS + R_ACCEPTS]
            status = _add_pair(h, base, next_row, rows[next_row * ROW_WORDS + R_START])
            if status < 0:
                return status
            after = i64(h, LEXER_STATES)[after * LEXER_WORDS + L_REST]
        status = _add_pair(h, base, row, after)
        if status < 0:
            return status
    count = head[STACK_TOP] - base
    if count > head[MAX_PAIRS]:
        return LIMIT_PAIRS
    words = i64(h, STACK)
    result = np.int64(0)
    if count == 1:
        result = single(words[base] >> 32, words[base] & LOW_32, accepts)
    elif count > 1 or accepts:
        for i in range(base + 1, base + count):  # insertion sort: a handful of pairs
            word = words[i]
            j = i - 1
            while j >= base and words[j] > word:
                words[j + 1] = words[j]
                j -= 1
            words[j + 1] = word
        if accepts:
            if not has_room(h, STACK, base + count + 1):
                return GROW
            words = i64(h, STACK)
            for i in range(base + count, base, -1):
                words[i] = words[i - 1]
            words[base] = ACCEPT_MARK
            count += 1
        result = intern(h, K_STATE, base, count)
    head[STACK_TOP] = base
    if result < 0:
        return result
    return memo_put(h, M_STEP, state, byte, result)


@kernel
def _add_pair(h, base, row, state):
    """Add ``(row, state)`` to the pairs ``STACK[base:top]``; a pair with the same lexer state takes over the row's items."""
    if state == 0:
        return 0
    head = header(h)
    words = i64(h, STACK)
    for i in range(base, head[STACK_TOP]):
        if words[i] & LOW_32 == state:
            united = unite_rows(h, words[i] >> 32, row)
            if united < 0:
                return united
            i64(h, STACK)[i] = pack(united, state)
            return 0
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + 1):
        return GROW
    i64(h, STACK)[top] = pack(row, state)
    head[STACK_TOP] = top + 1
    return 0


@kernel
def step_bytes(h, cursor, text, start, end):
    """The cursor after ``text[start:end]``; 0 if it is not the beginning of anything legal; or a status."""
    for i in range(start, end):
        cursor = step(h, cursor, np.int64(text[i]))
        if cursor <= 0:
            break
    return cursor
