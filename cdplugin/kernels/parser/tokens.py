"""Accepting whole tokens: by their bytes, as token terminals, and for lexemes that count tokens.

Token terminals match whole tokens at lexeme boundaries. So a token is followed twice, by its bytes and as a terminal, and the
cursor after it holds the pairs of both. A lexeme under ``[max_tokens]`` has a number for each count of tokens that are left; at
the end of a token, it changes to its next number (:func:`_tick_pair`).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import after_tick, n_ranges_of, ranges_of, symbol_of, value_of
from cdplugin.kernels.lexer.plain_text import advance_plain_run
from cdplugin.kernels.lexer.spelled_run import advance_spelled_run
from cdplugin.kernels.lexer.states import lexer_state
from cdplugin.kernels.lexer.tracked import has_role, lexer_state_of, text_in
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser.cursors import (
    add_after,
    add_pair,
    cursor_of,
    pair_of,
    pairs_in,
    past_longest,
    says_accepts,
    single,
    step_bytes,
)
from cdplugin.kernels.regex.expressions import nullable
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
    sort_unique,
    spend,
    u8,
    word_of,
)
from cdplugin.kernels.store.stack import push

_FEW_PAIRS = 4  # that are followed for each token


@kernel
def accept(h, cursor, token, as_text):
    """Return the cursor after ``token``, by its bytes (if ``as_text``) and as a token terminal; 0 if neither is legal; or a
    status.

    Lexemes that count tokens (``[max_tokens]``) count this one at its end. A token inside bounded plain text is accepted in one
    step (:func:`advance_plain_run`), and so is one inside names (:func:`advance_spelled_run`).
    """
    head = header(h)
    after = np.int64(0)
    if as_text:
        offsets = i64(h, layout.TOKEN_OFFSETS)
        if offsets[token + 1] > offsets[token]:
            text = u8(h, layout.TOKEN_BYTES)
            if cursor >> 32:
                after = advance_plain_run(h, cursor & lexer_layout.STATE_MASK, text, offsets[token], offsets[token + 1])
                if after == 0:
                    after = advance_spelled_run(h, cursor & lexer_layout.STATE_MASK, text, offsets[token], offsets[token + 1])
            if after > 0:
                after = single((cursor >> 32) - 1, after, 0)
            elif after == 0:
                after = step_bytes(h, cursor, text, offsets[token], offsets[token + 1])
    if after >= 0 and head[layout.HAS_CLOCKS]:
        after = _tick(h, after)
    if after < 0 or not head[layout.HAS_TERMINALS]:
        return after
    terminal = _after_terminals(h, cursor, token)
    if terminal <= 0:  # no terminal stands for the token: what its bytes lead to is all
        return after if terminal == 0 else terminal
    return _both(h, terminal, after) if after else terminal


@kernel
def _after_terminals(h, cursor, token):
    """The cursor after the terminals that stand for ``token``; 0 if none does; or a status.

    Tokens for which the same ones stand lead to the same cursor. Of an ambiguous text there are hundreds of pairs, and a
    hundred thousand tokens: it is made once for each such class of tokens, and memoised.
    """
    n_pairs = pairs_in(h, cursor)
    is_known_by_class = cursor >> 32 == 0 and n_pairs > _FEW_PAIRS
    number = np.int64(0)
    if is_known_by_class:
        number = _class_of(h, token)
        known = memo_get(h, layout.M_TERMINALS, cursor, number)
        if known >= 0:
            return known
    head = header(h)
    base = head[layout.STACK_TOP]
    accepts = np.int64(0)
    for i in range(n_pairs):
        # each pair is compared with those before it
        if not spend(h, 1 + ((head[layout.STACK_TOP] - base) >> 3)):
            return np.int64(statuses.LIMIT_WORK)
        pair = pair_of(h, cursor, i)
        if pair != parser_layout.ACCEPTS_HERE:
            status = _follow_terminal(h, base, pair >> 32, pair & layout.LOW_32, token)
            if status < 0:
                return status
            accepts |= status
    after = cursor_of(h, base, accepts)
    return memo_put(h, layout.M_TERMINALS, cursor, number, after) if is_known_by_class else after


@kernel
def _class_of(h, token):
    """How many bounds of the ranges of token terminals lie before a token: for tokens of one number the same ones stand."""
    ranges = i64(h, layout.TOKEN_RANGES)
    spend(h, 1 + (ranges.shape[0] >> 4))
    count = np.int64(0)
    for i in range(ranges.shape[0] >> 1):
        count += np.int64(ranges[2 * i] <= token) + np.int64(ranges[2 * i + 1] < token)
    return count


@kernel
def _both(h, first, second):
    """The cursor with the pairs of two, memoised of two sets; or a status."""
    are_sets = first >> 32 == 0 and second >> 32 == 0
    if are_sets:
        known = memo_get(h, layout.M_BOTH, first, second)
        if known >= 0:
            return known
    head = header(h)
    base = head[layout.STACK_TOP]
    for cursor in (first, second):
        for i in range(pairs_in(h, cursor)):
            if not spend(h, 1 + ((head[layout.STACK_TOP] - base) >> 4)):
                return np.int64(statuses.LIMIT_WORK)
            pair = pair_of(h, cursor, i)
            if pair != parser_layout.ACCEPTS_HERE:
                status = add_pair(h, base, pair >> 32, pair & layout.LOW_32)
                if status < 0:
                    return status
    after = cursor_of(h, base, says_accepts(h, first) | says_accepts(h, second))
    return memo_put(h, layout.M_BOTH, first, second, after) if are_sets else after


@kernel
def stands_for(h, lexeme, token):
    """Return whether a token terminal stands for ``token``, by bisection of its ranges, which ascend."""
    ranges = i64(h, layout.TOKEN_RANGES)
    low = ranges_of(h, lexeme)
    end = high = low + n_ranges_of(h, lexeme)
    while low < high:
        middle = (low + high) >> 1
        if ranges[2 * middle + 1] < token:
            low = middle + 1
        else:
            high = middle
    return low < end and ranges[2 * low] <= token


@kernel
def _follow_terminal(h, base, row, state, token):
    """Add the boundary after the terminals that stand for ``token`` at a pair; return 1 if the text may end there, else 0; or a
    status.

    A pair is at a boundary if its state has terminals among its words. LONGEST lexemes that match also end before the terminal,
    as before a byte that they cannot continue with.
    """
    row, state = past_longest(h, row, lexer_state_of(h, state))
    if row < 0:
        return row
    if state == 0:
        return np.int64(0)
    value = value_of(h, state)
    head = header(h)
    top = head[layout.STACK_TOP]
    for i in range(length_of(h, value)):
        lexeme = word_of(h, value, i) >> 32
        if stands_for(h, lexeme, token) and push(h, lexeme) < 0:
            return np.int64(statuses.GROW)
    count = head[layout.STACK_TOP] - top
    if count == 0:
        return np.int64(0)
    scanned = intern(h, layout.K_ACCEPTED, top, count)
    head[layout.STACK_TOP] = top
    return scanned if scanned < 0 else add_after(h, base, row, scanned)


@kernel
def _tick(h, cursor):
    """Return the cursor after the end of a token, for lexemes that count tokens; or a status.

    Each counting lexeme goes to its next number (``X_TICK``). One that has used up its tokens ends as soon as it matches.
    """
    base = header(h)[layout.STACK_TOP]
    accepts = says_accepts(h, cursor)
    for i in range(pairs_in(h, cursor)):
        pair = pair_of(h, cursor, i)
        if pair != parser_layout.ACCEPTS_HERE:
            status = _tick_pair(h, base, pair >> 32, pair & layout.LOW_32)
            if status < 0:
                return status
            accepts |= status
    return cursor_of(h, base, accepts)


@kernel
def _tick_pair(h, base, row, state):
    """Add the pairs that ``(row, state)`` becomes at the end of a token; return 1 if the text may end at a boundary, else 0; or
    a status.

    A lexeme whose next number is its last has used up its tokens: it ends here if it matches, and otherwise goes on under its
    last number, to end as soon as it does. A text is kept where tracking lexemes go on.
    """
    head = header(h)
    text = state if state & lexer_layout.TEXT_BIT else np.int64(0)
    state = lexer_state_of(h, state)
    value = value_of(h, state) if state else np.int64(0)
    count = length_of(h, value) if state else np.int64(0)
    top = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, top + 2 * count):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    kept = 0
    ended = 0
    for i in range(count):
        word = word_of(h, value, i)
        ticked = after_tick(h, word >> 32)
        if ticked < 0:
            words[top + kept] = word
            kept += 1
        # that was its last token, and it matches: it ends now, instead of at a byte
        elif after_tick(h, ticked) == ticked and nullable(h, word & layout.LOW_32):
            words[top + count + ended] = symbol_of(h, ticked)
            ended += 1
        else:
            words[top + kept] = pack(ticked, word & layout.LOW_32)
            kept += 1
    head[layout.STACK_TOP] = top + 2 * count
    sort_range(words, top, kept)
    after = lexer_state(h, top, kept)
    if after < 0:
        return after
    accepts = np.int64(0)
    head[layout.STACK_TOP] = top
    if ended:
        scanned = intern(h, layout.K_ACCEPTED, top + count, sort_unique(words, top + count, ended))
        accepts = scanned if scanned < 0 else add_after(h, base, row, scanned)
        if accepts < 0:
            return accepts
    if text and has_role(h, after, layout.TRACKS):
        after = text_in(h, text, after)
        if after < 0:
            return after
    status = add_pair(h, base, row, after)
    return status if status < 0 else accepts
