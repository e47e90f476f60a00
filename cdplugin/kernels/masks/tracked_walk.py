"""The walk of masks where tokens get into lexemes that depend on an earlier text (:mod:`cdplugin.kernels.lexer.tracked`).

Below the ends of a group the trie is walked with cursors that carry no text, so that any value stands for the lexemes that
ended. What they allow is never too little. A token is *sure* where it cannot be too much either: if it does not get past the
first byte of a shadow, or stays in one whose state is rich, in which so many plain characters may come that the values to
avoid cannot be all there is. The other tokens are doubts.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import roles_of, value_of
from cdplugin.kernels.lexer.lexer import saturated, transition
from cdplugin.kernels.lexer.plain_text import plain_chars
from cdplugin.kernels.lexer.tracked import lexer_state_of
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser.cursors import step, textless_start
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i32, i64, length_of, spend, u8, word_of

RICH = 3  # plain characters, any of which may come: these are more texts than there can be values to avoid
_DIRTY = -1  # the mark of a cursor that may depend on a text; 0: it does not; else the row, plus 1, in whose shadow it is


@kernel
def walk_tracked(h, row, ends, doubtful):
    """Append the sure (or the ``doubtful``) tokens that ``row`` allows below the ends of a group (``K_ENDS``); 0 or a status.

    The same walk is made twice, once for each kind, since a mask holds them in two lists.
    """
    cursor = textless_start(h, row)
    if cursor < 0:
        return cursor
    if cursor >> 32 and cursor & lexer_layout.STATE_MASK == 0:  # only the end may come
        return np.int64(0)
    for i in range(0, length_of(h, ends), 2):
        status = _walk(h, cursor, word_of(h, ends, i), word_of(h, ends, i + 1), doubtful)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _walk(h, cursor, top_node, begun, doubtful):
    """:func:`walk_tracked` below one node, from the cursor at it. ``begun``: 0, or a lexer state whose own bytes are left out
    at the first level.

    As :func:`cdplugin.kernels.masks.masks._walk_below`, with a mark beside each cursor: has the way here been through a
    shadow, and is it still in the first one?
    """
    head = header(h)
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    saved = head[layout.STACK_TOP]
    levels = head[layout.MAX_DEPTH] + 2
    if not has_room(h, layout.STACK, saved + 2 * levels):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)  # by depth: cursors from base on, then marks
    base = saved - depths[top_node] if top_node >= 0 else saved
    head[layout.STACK_TOP] = saved + 2 * levels
    words[saved] = cursor
    words[saved + levels] = _mark(h, np.int64(0), cursor)
    node = np.int64(top_node + 1)
    end = top_node + skips[top_node] if top_node >= 0 else head[layout.N_NODES]
    visited = 0
    while node < end:
        visited += 1
        depth = base + depths[node]
        byte = np.int64(bytes_[node])
        if begun and depth == saved + 1:
            own = transition(h, begun, byte)
            if own < 0:
                return own
            if own != lexer_layout.BEFORE:
                node += skips[node]
                continue
        after = step(h, words[depth - 1], byte)
        if after < 0:
            return after
        if after == 0:
            node += skips[node]
            continue
        mark = _mark(h, words[depth - 1 + levels], after)
        token = tokens[node]
        if token >= 0:
            sure = np.int64(1) if mark == 0 else _is_rich(h, after, mark)
            if sure < 0:
                return sure
            # sure tokens are wanted where doubtful is False, the others where it is True
            if (sure == 0) == doubtful:
                used = head[layout.TOKENS_USED]
                if not has_room(h, layout.TOKEN_LISTS, used + 1):
                    return np.int64(statuses.GROW)
                i32(h, layout.TOKEN_LISTS)[used] = token
                head[layout.TOKENS_USED] = used + 1
        words[depth] = after
        words[depth + levels] = mark
        node += 1
    head[layout.STACK_TOP] = saved
    head[layout.C_NODES] += visited
    head[layout.C_SUBWALKS] += 1
    return np.int64(0 if spend(h, 8 + (visited >> mask_layout.NODES_BITS)) else statuses.LIMIT_WORK)


@kernel
def _mark(h, before, cursor):
    """The mark of a cursor after one whose mark is ``before``.

    0 until a shadow has begun. In a shadow: the row + 1, so that a second shadow, which begins in another row, is told from
    the first. ``_DIRTY`` for good once the shadow has ended, a second one begun, or a lexeme without much room (UNSURE) was
    entered.
    """
    if cursor >> 32:
        roles = roles_of(h, cursor & lexer_layout.STATE_MASK)
        if (roles >> layout.UNSURE) & 1:
            return np.int64(_DIRTY)
        if (roles >> layout.SHADOW) & 1:
            return cursor >> 32 if before == 0 or before == cursor >> 32 else np.int64(_DIRTY)
        return np.int64(0 if before == 0 else _DIRTY)
    if before != 0:
        return np.int64(_DIRTY)
    for i in range(length_of(h, cursor)):
        pair = word_of(h, cursor, i)
        if pair != parser_layout.ACCEPTS_HERE and roles_of(h, lexer_state_of(h, pair & layout.LOW_32)) >> layout.SHADOW:
            return np.int64(_DIRTY)
    return np.int64(0)


@kernel
def _is_rich(h, cursor, mark):
    """1 if a cursor is in a shadow in which any plain characters may come, 0 if not; or a status.

    ``RICH`` plain characters are more texts than there can be values to avoid, so at least one of them is new: the token can
    be gone on with, whatever was seen.
    """
    if mark == _DIRTY or cursor >> 32 == 0:
        return np.int64(0)
    state = saturated(h, cursor & lexer_layout.STATE_MASK, header(h)[layout.MAX_DEPTH])
    if state < 0:
        return state
    if length_of(h, value_of(h, state)) != 1:
        return np.int64(0)
    chars = plain_chars(h, state)
    return np.int64(chars if chars < 0 else (1 if chars >> 1 >= RICH else 0))
