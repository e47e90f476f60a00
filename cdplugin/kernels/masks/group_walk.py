"""The trie walk below a group's ends for one row: steps whole cursors, lexer and parser together.

:mod:`cdplugin.kernels.masks.masks` calls it for small groups, and where tracked values matter
(:mod:`cdplugin.kernels.lexer.tracked`). There the cursors of the walk carry no text, so any value stands for the lexemes that
ended: what they allow is never too little, but it may be too much. The walk sorts tokens into two kinds. A token is *sure* if
it is certainly allowed, whatever the values are:

- it reaches at most the first byte of a shadow; or
- it stays in a shadow whose state is *rich*: so many plain characters may come that the values to avoid cannot be all texts; or
- a lexeme that depends on no value goes on beside the shadow; or
- it gets past a place where a doubtful lexeme (UNSURE, SIGN) might have come, by a lexeme that surely may come there.

All other tokens are *doubts*. If no lexeme of the grammar tracks its value, all tokens are sure.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, role_of, roles_of, value_of
from cdplugin.kernels.lexer.lexer import plain_run_of, saturated, transition
from cdplugin.kernels.lexer.plain_text import plain_chars
from cdplugin.kernels.lexer.rows import first_head, row_of
from cdplugin.kernels.lexer.tracked import lexer_state_of
from cdplugin.kernels.masks.walk import begin_walk, end_walk, ends_before
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser.cursors import pair_of, pairs_in, step, step_inside, textless_start
from cdplugin.kernels.parser.fields import exact_start_of
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i32, i64, length_of, u8, word_of

RICH = 3  # any RICH plain characters are more texts than there can be values to avoid
# The mark of a cursor says what its way may depend on. 0: on no text. Above 0: it is in a shadow; row + 1. Otherwise:
_DIRTY = -1  # it may depend on a text
_AHEAD = -2  # it does not yet, but an UNSURE lexeme or a SIGN may begin here, or has begun
_BOTH = -3  # a doubtful lexeme and one that surely may come have just ended: the token is sure, but what follows may not be
_DOUBTFUL = 1 << layout.UNSURE | 1 << layout.SIGN  # roles


@kernel
def walk_group(h, row, ends, doubtful):
    """Append the sure tokens (or, if ``doubtful``, the doubts) that ``row`` allows below the ends of a group (``K_ENDS``); 0 or
    a status.

    If there may be doubts, the caller makes the walk twice, once for each kind, since a mask stores them in two lists.
    """
    cursor = textless_start(h, row)
    if cursor < 0 or (cursor >> 32 and cursor & lexer_layout.STATE_MASK == 0):  # only the end may come
        return min(cursor, np.int64(0))
    for i in range(0, length_of(h, ends), 2):
        status = _walk(h, cursor, word_of(h, ends, i), word_of(h, ends, i + 1), doubtful)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _walk(h, cursor, top_node, begun, doubtful):
    """Do :func:`walk_group` below one node (-1: the root), from the cursor at it.

    ``begun``: 0, or a LONGEST state; by its own bytes its lexeme would have gone on instead of ending here, so the walk leaves
    these bytes out at the first level. Bytes that stay inside a lexeme cost one look-up in the transition row. Beside each
    cursor stands its mark.
    """
    head = header(h)
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    top, base, levels, end = begin_walk(h, top_node, 2)
    if top < 0:
        return top
    words = i64(h, layout.STACK)  # by depth: cursors from base on, then marks
    has_marks = head[layout.HAS_TRACKED] != 0
    words[top] = cursor
    mark = _mark(h, np.int64(0), cursor) if has_marks else np.int64(0)
    words[top + levels] = mark
    out = i32(h, layout.TOKEN_LISTS)
    room = out.shape[0]
    used = head[layout.TOKENS_USED]
    node = np.int64(top_node + 1)
    visited = 0
    while node < end:
        visited += 1
        depth = base + depths[node]
        before = words[depth - 1]
        byte = np.int64(bytes_[node])
        # by a byte of its own the LONGEST lexeme would have gone on instead of ending here
        if begun and depth == top + 1:
            ended = ends_before(h, begun, byte)
            if ended < 0:
                return ended
            if ended == 0:
                node += skips[node]
                continue
        after = step_inside(h, before, byte)  # most bytes stay inside a lexeme or are dead
        if after < 0:
            after = step(h, before, byte)
            if after < 0:
                return after
        if after == 0:
            node += skips[node]
            continue
        if has_marks:
            mark = _mark_after(h, words[depth - 1 + levels], before, byte, after)
        token = tokens[node]
        if token >= 0:
            sure = _is_sure(h, after, mark)
            if sure < 0:
                return sure
            # sure tokens are wanted where doubtful is False, the others where it is True
            if (sure == 0) == doubtful:
                # the list is written through a view; when it is full, the walk starts over with a larger table
                if used == room:
                    has_room(h, layout.TOKEN_LISTS, room + 1)
                    return np.int64(statuses.GROW)
                out[used] = token
                used += 1
        words[depth] = after
        words[depth + levels] = mark
        node += 1
    head[layout.TOKENS_USED] = used
    head[layout.C_SUBWALKS] += 1
    return end_walk(h, top, visited, 8)


@kernel
def _mark_after(h, mark, before, byte, after):
    """Return the mark of the cursor ``after``, to which ``byte`` leads from the cursor ``before`` with ``mark``.

    If a doubtful lexeme may have ended, the way depends on a text for good. If only other lexemes have ended, it does not: they
    are offered whatever the value is.
    """
    if mark != _AHEAD:
        return _mark(h, mark, after)
    ended = _roles_ended(h, before, byte)
    if ended & _DOUBTFUL == 0:
        return _mark(h, np.int64(0), after)
    return np.int64(_BOTH if ended & 1 << layout.PLAIN and after >> 32 else _DIRTY)


@kernel
def _roles_ended(h, cursor, byte):
    """Return the roles of the lexemes that end with ``byte``, bit r for role r; the doubtful roles if that cannot be told.

    ``byte`` has just been a step of the cursor, so its transitions are known.
    """
    roles = np.int64(0)
    for i in range(pairs_in(h, cursor)):
        pair = pair_of(h, cursor, i)
        if pair == parser_layout.ACCEPTS_HERE:
            continue
        after = transition(h, lexer_state_of(h, pair & layout.LOW_32), byte)
        if after < 0 or after == lexer_layout.BEFORE:
            return np.int64(_DOUBTFUL)
        if after & lexer_layout.ENDS_BIT:
            accepted = accepted_of(h, after & lexer_layout.STATE_MASK)
            for k in range(length_of(h, accepted)):
                roles |= np.int64(1) << role_of(h, word_of(h, accepted, k))
    return roles


@kernel
def _mark(h, before, cursor):
    """Return the mark of a cursor after one with mark ``before``, if no doubtful lexeme ends between them.

    It is 0 until a shadow begins. In a shadow it is the row + 1, so that a second shadow, which begins in another row, is
    distinguished from the first. It is ``_DIRTY`` for good once a shadow has ended, or a second one begun.
    """
    if cursor >> 32:
        roles = roles_of(h, cursor & lexer_layout.STATE_MASK)
        if roles & _DOUBTFUL:
            return np.int64(_AHEAD if before == 0 and (roles >> layout.SHADOW) & 1 == 0 else _DIRTY)
        if (roles >> layout.SHADOW) & 1:
            return cursor >> 32 if before == 0 or before == cursor >> 32 else np.int64(_DIRTY)
        return np.int64(0 if before == 0 else _DIRTY)
    if before != 0:
        return np.int64(_DIRTY)
    mark = np.int64(0)
    for i in range(length_of(h, cursor)):
        pair = word_of(h, cursor, i)
        if pair != parser_layout.ACCEPTS_HERE:
            roles = roles_of(h, lexer_state_of(h, pair & layout.LOW_32))
            if (roles >> layout.SHADOW) & 1:
                return np.int64(_DIRTY)
            if roles & _DOUBTFUL:
                mark = np.int64(_AHEAD)
    return mark


@kernel
def _is_sure(h, cursor, mark):
    """Return 1 if a text can go on from a cursor whatever the values are, 0 if that is not known; or a status."""
    if mark == 0 or (mark == _BOTH and roles_of(h, cursor & lexer_layout.STATE_MASK) & 1 << layout.UNSURE == 0):
        return np.int64(1)
    if mark == _AHEAD:
        return np.int64(_surely_goes_on(h, cursor))
    return np.int64(0) if mark < 0 else _is_rich(h, cursor)


@kernel
def _surely_goes_on(h, cursor):
    """Return whether some lexeme of a cursor marked ``_AHEAD`` may come whatever the values are.

    That holds in two cases. At the boundary before a row, if none of its lexemes is UNSURE. And if the only doubtful lexemes
    are SIGNs: then one of the lexemes that start in the row surely may come, provided that all of them are still open (white
    space, with which some may begin, has not ruled any out).
    """
    for i in range(pairs_in(h, cursor)):
        pair = pair_of(h, cursor, i)
        if pair == parser_layout.ACCEPTS_HERE:
            continue
        state = lexer_state_of(h, pair & layout.LOW_32)
        start = exact_start_of(h, pair >> 32)
        if state == start:
            if roles_of(h, state) & 1 << layout.UNSURE == 0:
                return True
        elif start and roles_of(h, state) & _DOUBTFUL == 1 << layout.SIGN:
            if length_of(h, value_of(h, state)) == length_of(h, value_of(h, start)):
                return True
    return False


@kernel
def _is_rich(h, cursor):
    """Return 1 if a cursor is in a shadow that surely can be continued, 0 if that is not known; or a status.

    It can if any ``RICH`` plain characters may come, at once or after one byte that must come first (as after the backslash of
    an escape): these are more texts than there can be values to avoid, so at least one is new. It also can if a lexeme goes on
    beside the shadow that is offered whatever the value is.
    """
    if cursor >> 32 == 0:
        return np.int64(0)
    state = cursor & lexer_layout.STATE_MASK
    if roles_of(h, state) & 1 << layout.PLAIN:
        return np.int64(1)
    found = _takes_plain_text(h, state)
    return _leads_to_plain_text(h, state) if found == 0 else found


@kernel
def _takes_plain_text(h, state):
    """Return 1 if the only lexeme of a state goes on through any ``RICH`` plain characters, else 0; or a status."""
    state = saturated(h, state, header(h)[layout.MAX_DEPTH])
    if state < 0:
        return state
    if length_of(h, value_of(h, state)) != 1:
        return np.int64(0)
    chars = plain_chars(h, state)
    return np.int64(chars if chars < 0 else (1 if chars >> 1 >= RICH else 0))


@kernel
def _leads_to_plain_text(h, state):
    """Return 1 if the state has few heads and the first leads to where any ``RICH`` plain characters may come; else 0; or a
    status.

    Only what the structure of the expression tells counts (``plain_run_of``), no search.
    """
    if length_of(h, value_of(h, state)) != 1:
        return np.int64(0)
    row = row_of(h, state)
    if row < 0:
        return row
    byte = first_head(h, state)
    after = np.int64(0) if byte == 256 else transition(h, state, byte)
    if after <= 0 or after >= lexer_layout.ENDS_BIT:
        return min(after, np.int64(0))
    chars = plain_run_of(h, after)
    return np.int64(chars if chars < 0 else (1 if chars >> 1 >= RICH else 0))
