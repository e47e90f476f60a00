"""Cursors: parser states as single integers, stepped byte by byte through lexer and parser together.

A *cursor* is one int64 word. Usually it is one (row, lexer state) pair: ``(row + 1) << 32 | accepts << 31 | lexer state``. A
word below ``2**31`` is the id of an interned set of pairs (kind ``K_STATE``: the pairs as ``row << 32 | lexer state``, sorted,
after a leading -1 if the text may end here). 0 is the dead cursor. Pairs that carry a text
(:mod:`cdplugin.kernels.lexer.tracked`) occur only in sets.

Where an EXACT lexeme ends, two pairs are kept: the one that goes on, and the one that starts after it. If no lexemes compete
(``COMPETE``: all are EXACT, or a single one is not, and none is skipped), pairs with equal lexer states unite their rows, since
what either row allows is allowed.

Where a LONGEST lexeme ends is decided by the byte after it (:mod:`cdplugin.kernels.lexer.lexer`), so among LONGEST lexemes one
pair is left. Beside EXACT lexemes or token terminals there may be several pairs: each is a way to cut the text into lexemes. If
lexemes compete, they do so within a row, and these readings stay separate: in a union of rows, one reading would end, or go on
with, lexemes of another.

The grammar of :mod:`cdplugin.kernels.parser.earley`, stepped through ``[ab,``::

    [    (row 2, state 3)                    a word may start
    a    {(row 2, state 4), (row 3, state 5)}    the word goes on, or it has ended and "," or "]" may come
    b    the same set: equal pairs, equal id
    ,    (row 4, state 3)                    the word had to end; a pair again

Nothing is guessed and nothing is undone: all readings are followed. The number of pairs (``MAX_PAIRS``) is the ambiguity of the
lexing at one byte, not of the whole text. Token terminals match whole tokens (:mod:`cdplugin.kernels.parser.tokens`).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, longest_of, rest_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.lexer.rows import known_transition
from cdplugin.kernels.lexer.tracked import first_text, has_role, lexer_state_of, text_after, with_values
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser.earley import advance, unite_rows
from cdplugin.kernels.parser.fields import accepts_of, exact_start_of, longest_start_of
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    has_room,
    header,
    i64,
    intern,
    length_of,
    memo_get,
    memo_put,
    pack,
    sort_range,
    spend,
    u8,
    word_of,
)
from cdplugin.kernels.store.stack import push


@kernel
def single(row, state, accepts):
    """Return the cursor of one (row, lexer state) pair. Rows count from 1, so it is never 0.

    ``accepts``: 1 if the text may end here at a boundary. A LONGEST lexeme that matches at ``state`` may end the text as well;
    that is computed on demand (:func:`accepts_at`).
    """
    return ((row + 1) << 32) | (accepts << 31) | state


@kernel
def pairs_in(h, cursor):
    """Return how many words :func:`pair_of` has for a cursor; 0 for the dead one."""
    if cursor >> 32:
        return np.int64(1)
    return length_of(h, cursor) if cursor else np.int64(0)


@kernel
def pair_of(h, cursor, i):
    """Return pair ``i`` of a cursor, as ``row << 32 | lexer state``. The first word of a set may be ``ACCEPTS_HERE``
    instead.
    """
    if cursor >> 32:
        return pack((cursor >> 32) - 1, cursor & lexer_layout.STATE_MASK)
    return word_of(h, cursor, i)


@kernel
def start_of(h, row):
    """Return the cursor at the boundary before ``row``, or a status.

    EXACT and LONGEST lexemes never share a lexer state, so a row that allows both starts in a set of two pairs. A start state
    with lexemes that track their values carries the empty text, and therefore is in a set, too.
    """
    if not has_role(h, exact_start_of(h, row), layout.TRACKS):
        return textless_start(h, row)
    base = header(h)[layout.STACK_TOP]
    status = add_boundary(h, base, row)
    return status if status < 0 else cursor_of(h, base, accepts_of(h, row))


@kernel
def textless_start(h, row):
    """Return :func:`start_of` without texts, as masks need it."""
    exact = exact_start_of(h, row)
    longest = longest_start_of(h, row)
    accepts = accepts_of(h, row)
    if exact == 0 or longest == 0:  # the sum is the one that is not 0
        return single(row, exact + longest, accepts)
    base = header(h)[layout.STACK_TOP]
    if add_pair(h, base, row, exact) < 0 or add_pair(h, base, row, longest) < 0:
        return np.int64(statuses.GROW)
    return cursor_of(h, base, accepts)


@kernel
def says_accepts(h, cursor):
    """Return 1 if the text may end at a boundary here, as noted in the cursor itself; else 0."""
    if cursor >> 32:
        return (cursor & parser_layout.ACCEPT_BIT) >> 31
    # ACCEPTS_HERE sorts before all pairs
    return np.int64(cursor != 0 and word_of(h, cursor, 0) == parser_layout.ACCEPTS_HERE)


@kernel
def accepts_at(h, cursor):
    """Return 1 if the text may end here, else 0; or a status.

    The end of the text also ends LONGEST lexemes that match. For that the row after them has to be made, which may fail.
    """
    if says_accepts(h, cursor):
        return np.int64(1)
    for i in range(pairs_in(h, cursor)):
        pair = pair_of(h, cursor, i)
        accepts = _accepts_after(h, pair >> 32, pair & layout.LOW_32)
        if accepts != 0:
            return accepts
    return np.int64(0)


@kernel
def _accepts_after(h, row, state):
    """Return 1 if LONGEST lexemes match here and the text may end after them, else 0; or a status."""
    matched = longest_of(h, lexer_state_of(h, state))
    if matched == 0:
        return np.int64(0)
    after = advance(h, row, matched)
    return after if after < 0 else accepts_of(h, after)


@kernel
def step_inside(h, cursor, byte):
    """Return :func:`step` if the transition row alone tells it, else -1.

    That is the case for one pair that stays inside its lexemes after ``byte``, or dies (0).
    """
    if cursor >> 32 == 0:
        return np.int64(-1)
    after = known_transition(h, cursor & lexer_layout.STATE_MASK, byte)
    if after <= 0:
        return after
    return np.int64(-1) if after & lexer_layout.ENDS_BIT else ((cursor >> 32) << 32) | after


@kernel
def step(h, cursor, byte):
    """Return the cursor after ``byte``; 0 if nothing legal continues with it; or a status.

    The fast path is one pair that stays inside its lexemes: one transition. If lexemes end, the row advances (:func:`advance`),
    and both what goes on and what starts after the end are kept. ``BEFORE`` means that LONGEST lexemes ended before this byte:
    the row advances first, and the byte is the first one of what follows.
    """
    if cursor >> 32 == 0:
        return step_set(h, cursor, byte)
    state = cursor & lexer_layout.STATE_MASK
    row = (cursor >> 32) - 1
    after = transition(h, state, byte)
    if after <= 0:
        return after
    if after & lexer_layout.ENDS_BIT == 0:
        return single(row, after, 0)
    if after == lexer_layout.BEFORE:
        row = advance(h, row, longest_of(h, state))
        if row < 0:
            return row
        return _step_boundary(h, row, byte)
    # lexemes end with this byte: the row advances, and what goes on keeps the old row
    after &= lexer_layout.STATE_MASK
    rest = rest_of(h, after)
    next_row = advance(h, row, accepted_of(h, after))
    if next_row < 0:
        return next_row
    if rest == 0:
        return start_of(h, next_row)
    return _pair_cursor(h, next_row, row, rest)


@kernel
def _step_boundary(h, row, byte):
    """Return the cursor after ``byte`` from the boundary before ``row``; 0 or a status.

    At a boundary no lexeme has begun, so no LONGEST lexeme can end before the byte. The fast path is one start state and no
    end.
    """
    exact = exact_start_of(h, row)
    longest = longest_start_of(h, row)
    if exact == 0 or longest == 0:
        if exact + longest == 0:
            return np.int64(0)
        after = transition(h, exact + longest, byte)
        if after <= 0:
            return after
        if after & lexer_layout.ENDS_BIT == 0 and not has_role(h, exact, layout.TRACKS):
            return single(row, after, 0)
    base = header(h)[layout.STACK_TOP]
    accepts = _follow_boundary(h, base, row, byte)
    return accepts if accepts < 0 else cursor_of(h, base, accepts)


@kernel
def _pair_cursor(h, next_row, row, rest):
    """Return the cursor of two readings: a lexeme has ended (boundary of ``next_row``), or it goes on (the pair
    ``(row, rest)``).

    One pair is enough if nothing starts in the next row; or if it starts in the very state ``rest``, and no lexemes compete:
    then the rows are united.
    """
    first = exact_start_of(h, next_row)
    accepts = accepts_of(h, next_row)
    if longest_start_of(h, next_row) == 0 and not has_role(h, first, layout.TRACKS):
        # nothing may follow the ended lexeme: only the reading that goes on is left
        if first == 0 and not accepts:
            return single(row, rest, 0)
        if first == rest and not header(h)[layout.COMPETE]:
            next_row = unite_rows(h, next_row, row)
            if next_row < 0:
                return next_row
            return single(next_row, rest, accepts)
    base = header(h)[layout.STACK_TOP]
    status = add_boundary(h, base, next_row)
    if status >= 0:
        status = add_pair(h, base, row, rest)
    return status if status < 0 else cursor_of(h, base, accepts)


@kernel
def step_set(h, state, byte):
    """Do :func:`step` for an interned set of pairs; memoised by (set, byte). ``state``: the set's id.

    The target pairs of all pairs are collected on the stack, those with equal lexer states united, and interned. So inside a
    long string with an ambiguous end, each byte after the first costs a look-up.
    """
    if state == 0:
        return np.int64(0)
    known = memo_get(h, layout.M_STEP, state, byte)
    if known >= 0:
        return known
    base = header(h)[layout.STACK_TOP]
    accepts = np.int64(0)
    for i in range(length_of(h, state)):
        # each pair is compared with those before it
        if not spend(h, 4 + ((header(h)[layout.STACK_TOP] - base) >> 2)):
            return np.int64(statuses.LIMIT_WORK)
        pair = word_of(h, state, i)
        if pair != parser_layout.ACCEPTS_HERE:
            status = _follow(h, base, pair >> 32, pair & layout.LOW_32, byte)
            if status < 0:
                return status
            accepts |= status
    result = cursor_of(h, base, accepts)
    return memo_put(h, layout.M_STEP, state, byte, result)


# --- sets of pairs under construction: STACK[base:top] ------------------------------------------------------------------------


@kernel
def _follow(h, base, row, state, byte):
    """Add the pairs that ``(row, state)`` leads to by ``byte``; return 1 if the text may end at a boundary there, else 0; or a
    status.
    """
    if state & lexer_layout.TEXT_BIT:
        return _follow_text(h, base, row, state, byte)
    after = transition(h, state, byte)
    if after <= 0:
        return after
    if after == lexer_layout.BEFORE:
        row = advance(h, row, longest_of(h, state))
        if row < 0:
            return row
        return _follow_boundary(h, base, row, byte)
    return _land(h, base, row, after)


@kernel
def _follow_boundary(h, base, row, byte):
    """Do :func:`_follow` from the boundary before ``row``, where no lexeme has begun, so none ends before the byte.

    Both start states of the row are followed. One whose lexemes track their values begins with the empty text.
    """
    accepts = np.int64(0)
    for field in (parser_layout.R_START, parser_layout.R_LONGEST):
        state = i64(h, layout.ROWS)[row * parser_layout.ROW_WORDS + field]
        if has_role(h, state, layout.TRACKS):
            text = first_text(h, state)
            after = text if text < 0 else _follow_text(h, base, row, text, byte)
            if after < 0:
                return after
            accepts |= after
        elif state > 0:
            after = transition(h, state, byte)
            if after > 0:
                after = _land(h, base, row, after)
            if after < 0:
                return after
            accepts |= after
    return accepts


@kernel
def _follow_text(h, base, row, text, byte):
    """Do :func:`_follow` for a pair that carries a text, to which the byte is appended.

    Lexemes that end are scanned with their value (:func:`with_values`), so the rows after them know it. What goes on without
    tracking drops the text.
    """
    after = transition(h, lexer_state_of(h, text), byte)
    if after <= 0:
        return after
    accepts = np.int64(0)
    if after & lexer_layout.ENDS_BIT:
        after &= lexer_layout.STATE_MASK
        # the value is that of the text with this byte; the text also names the lexer state in which the lexeme ended
        whole = text_after(h, text, byte, after)
        if whole < 0:
            return whole
        ended = with_values(h, accepted_of(h, after), whole)
        accepts = ended if ended < 0 else add_after(h, base, row, ended)
        if accepts < 0:
            return accepts
        after = rest_of(h, after)
    if has_role(h, after, layout.TRACKS):
        after = text_after(h, text, byte, after)
        if after < 0:
            return after
    status = add_pair(h, base, row, after)
    return status if status < 0 else accepts


@kernel
def _land(h, base, row, after):
    """Add the pairs for the transition ``after`` (a state, perhaps with ``ENDS_BIT``) from ``row``; return 1 if the text may
    end at a boundary, else 0; or a status.

    These are the boundary after what ends, and the state of what goes on.
    """
    accepts = np.int64(0)
    if after & lexer_layout.ENDS_BIT:
        after &= lexer_layout.STATE_MASK
        accepts = add_after(h, base, row, accepted_of(h, after))
        if accepts < 0:
            return accepts
        after = rest_of(h, after)
    status = add_pair(h, base, row, after)
    return status if status < 0 else accepts


@kernel
def add_after(h, base, row, ended):
    """Scan ``ended`` (a ``K_ACCEPTED`` value) from ``row`` and add the pairs at the boundary after it; return 1 if the text may
    end there, else 0; or a status.
    """
    next_row = advance(h, row, ended)
    if next_row < 0:
        return next_row
    status = add_boundary(h, base, next_row)
    return status if status < 0 else accepts_of(h, next_row)


@kernel
def add_boundary(h, base, row):
    """Add the pairs at the boundary before ``row``; 0 or a status."""
    state = exact_start_of(h, row)
    if has_role(h, state, layout.TRACKS):
        state = first_text(h, state)
        if state < 0:
            return state
    status = add_pair(h, base, row, state)
    if status < 0:
        return status
    return add_pair(h, base, row, longest_start_of(h, row))


@kernel
def cursor_of(h, base, accepts):
    """Return the cursor of the pairs ``STACK[base:top]``, which are popped; 0 if there are none; or a status.

    ``accepts``: 1 if the text may end. A single pair becomes a word by itself, so that equal parser states have equal cursors.
    """
    head = header(h)
    count = head[layout.STACK_TOP] - base
    if count > head[layout.MAX_PAIRS]:
        return np.int64(statuses.LIMIT_PAIRS)
    if not has_room(h, layout.STACK, base + count + 1):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    head[layout.STACK_TOP] = base
    if count == 1 and words[base] & lexer_layout.TEXT_BIT == 0:
        return single(words[base] >> 32, words[base] & layout.LOW_32, accepts)
    if accepts:
        words[base + count] = parser_layout.ACCEPTS_HERE
        count += 1
    if count == 0:
        return np.int64(0)
    sort_range(words, base, count)
    return intern(h, layout.K_STATE, base, count)


@kernel
def add_pair(h, base, row, state):
    """Add ``(row, state)`` to the pairs ``STACK[base:top]``; 0 or a status.

    If no lexemes compete, a pair with the same lexer state takes over the row's items (:func:`unite_rows`), so the lexer states
    of a set are distinct. A linear search: there are few pairs. ``state`` 0 (nothing starts, nothing goes on) adds nothing.
    """
    if state == 0:
        return np.int64(0)
    head = header(h)
    words = i64(h, layout.STACK)
    for i in range(base, head[layout.STACK_TOP]):
        if words[i] & layout.LOW_32 == state:
            if words[i] >> 32 == row:
                return np.int64(0)
            if head[layout.COMPETE]:
                continue
            united = unite_rows(h, words[i] >> 32, row)
            if united < 0:
                return united
            i64(h, layout.STACK)[i] = pack(united, state)
            return np.int64(0)
    return np.int64(push(h, pack(row, state)))


@kernel
def step_bytes(h, cursor, text, start, end):
    """Return the cursor after ``text[start:end]`` (uint8); 0 if nothing legal begins with it; or a status."""
    for i in range(start, end):
        cursor = step(h, cursor, np.int64(text[i]))
        if cursor <= 0:
            break
    return cursor


@kernel
def step_token(h, cursor, token):
    """Return the cursor after a token's bytes; 0 if it is not legal; or a status. For callers that try many tokens; spends
    work.
    """
    if not spend(h, 8):
        return np.int64(statuses.LIMIT_WORK)
    offsets = i64(h, layout.TOKEN_OFFSETS)
    return step_bytes(h, cursor, u8(h, layout.TOKEN_BYTES), offsets[token], offsets[token + 1])


@kernel
def past_longest(h, row, state):
    """Return ``(row, state)`` at the boundary after the LONGEST lexemes that match, with the start state of EXACT lexemes
    there.

    A pair without such lexemes is returned as it is. The row is a status if negative.
    """
    matched = longest_of(h, state)
    if matched:
        row = advance(h, row, matched)
        state = exact_start_of(h, row) if row >= 0 else np.int64(0)
    return row, state
