"""Merging of nodes by lookahead: lexemes that the next two bytes rule out do not tell nodes apart.

With longest match a place has a node for each set of lexemes that may come next (:mod:`cdplugin.kernels.infill.boundaries`).
Behind a gap nearly every lexeme may have ended, so these are many: 57 in C++ before a space. But only part of such a set
matters: the lexemes that can begin with the next two bytes, the skips among these, and the lexemes that can begin where such a
skip ends. Nodes that agree in this part lead by the same lexemes to the same nodes, so they become one. A set of which nothing
is left needs no node. Only checks do this: masks and completions need the whole sets.

Before ``if (``, the sets ``{"int", "if", ")", name}`` and ``{"if", ";", name}`` leave the same: ``{"if", name}``.

Why this is exact:

- A lexeme that accepts the first byte and dies with the second, without having matched, keeps no competitor from ending: with
  the first byte all live lexemes go on, and with the second it is gone itself.
- A skip competes with the lexemes that it may stand before. If a skip can begin here and all of these were dropped, the skip
  would no longer compete; so then they stay (:func:`_keep_skip`).
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, expression_of, is_skip, longest_of, rest_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.lexer.states import take_state
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, fill_words, header, pack
from cdplugin.kernels.store.stack import push

NO_BYTE = 256  # in place of the second byte: a gap, or the end of the text, follows
NOWHERE, ANYWHERE, AT = range(3)  # where a skip ends: nowhere; where is not known; or before element ``k``, as AT + k


@kernel
def begin_ahead(w):
    """Make room for a text and forget the lookahead of the last one; 0 or ``W_GROW``."""
    head = whead(w)
    count = head[ws.W_ELEMENTS]
    words = head[ws.W_SET]
    if (
        not room(w, ws.AHEAD_AT, 2 * count + 2)
        or not room(w, ws.AHEAD_SETS, (count + 1) * words)
        or not room(w, ws.FIRSTS_AT, 256 * (NO_BYTE + 1))
        or not room(w, ws.TARGET, 2 * words)
        or not room(w, ws.STARTS_ALONE, head[ws.W_N_LEXEMES])
    ):
        return np.int64(statuses.W_GROW)
    head[ws.W_STAMP] += 1
    head[ws.W_AHEAD_STAMP] = head[ws.W_STAMP]
    return np.int64(0)


@kernel
def narrow(h, w, k):
    """Reduce ``TARGET`` to what matters at the boundary before element ``k``: 1, 0 if nothing is left, or a status.

    Its second half keeps the whole set. Raises ``W_LOOKED`` to the last element read.
    """
    status = _find_ahead(h, w, k)
    if status < 0:
        return status
    head = whead(w)
    words = head[ws.W_SET]
    until = tab(w, ws.AHEAD_AT)[2 * k + 1]
    head[ws.W_LOOKED] = max(head[ws.W_LOOKED], until)
    target = tab(w, ws.TARGET)
    ahead = tab(w, ws.AHEAD_SETS)
    charge(w, 2 * words)
    some = np.int64(0)
    for i in range(words):
        target[words + i] = target[i]
        target[i] &= ahead[k * words + i]
        some |= target[i]
    if some == 0 or k == head[ws.W_ELEMENTS] or tab(w, ws.ELEMENTS)[k] < 0:
        return np.int64(some != 0)
    pair = tab(w, ws.FIRSTS_AT)[_pair_at(w, k)] - 1
    for i in range(words):
        set_ = tab(w, ws.FIRSTS)[pair + words + i]
        while set_:
            _keep_skip(w, np.int64(64 * i + low_bit(set_)))
            set_ &= set_ - 1
    return np.int64(1)


@kernel
def _keep_skip(w, skip):
    """Keep a skip that can begin here competing: if all lexemes that it may stand before were dropped, restore them."""
    head = whead(w)
    words = head[ws.W_SET]
    target = tab(w, ws.TARGET)
    skipped = tab(w, ws.SKIPPED)
    end = head[ws.W_N_LEXEMES] - 1
    charge(w, 2 * words)
    before = np.int64(0)
    after = np.int64(0)
    for i in range(words):
        of_skip = skipped[skip * words + i]
        if i == end >> 6:
            of_skip &= ~(np.int64(1) << (end & 63))
        before |= target[words + i] & of_skip
        after |= target[i] & of_skip
    if before != 0 and after == 0:
        for i in range(words):
            target[i] |= target[words + i] & skipped[skip * words + i]


@kernel
def _pair_at(w, k):
    """The index in ``FIRSTS_AT`` of the two elements from ``k`` on, the first of which is a byte."""
    elements = tab(w, ws.ELEMENTS)
    following = np.int64(NO_BYTE)
    if k + 1 < whead(w)[ws.W_ELEMENTS] and elements[k + 1] >= 0:
        following = elements[k + 1]
    return elements[k] * (NO_BYTE + 1) + following


@kernel
def _is_known(w, k):
    """Whether ``AHEAD_SETS`` has the entry of element ``k``."""
    return tab(w, ws.AHEAD_AT)[2 * k] == whead(w)[ws.W_AHEAD_STAMP]


@kernel
def _find_ahead(h, w, k):
    """Fill the entry of ``AHEAD_SETS`` before element ``k``; 0 or a status.

    An explicit stack of boundaries: what matters where a skip ends is found before what matters where it begins.
    """
    if _is_known(w, k):
        return np.int64(0)
    if not room(w, ws.AHEAD_STACK, whead(w)[ws.W_ELEMENTS] + 2):
        return np.int64(statuses.W_GROW)
    stack = tab(w, ws.AHEAD_STACK)
    stack[0] = k
    top = np.int64(1)
    while top:
        needs = _try_to_find(h, w, stack[top - 1])
        if needs < 0:
            return needs
        if needs > 0:
            stack[top] = needs
            top += 1
        else:
            top -= 1
    return np.int64(0)


@kernel
def _try_to_find(h, w, k):
    """Fill the entry of ``AHEAD_SETS`` before element ``k``: 0, or a boundary further right whose entry is needed first, or a
    status.

    Before a gap or slot, and where a skip's end is not known, all lexemes matter.
    """
    head = whead(w)
    words = head[ws.W_SET]
    ahead = tab(w, ws.AHEAD_SETS)
    charge(w, 4 + words)
    until = k
    whole = k == head[ws.W_ELEMENTS] or tab(w, ws.ELEMENTS)[k] < 0
    if not whole:
        until = k + 1
        pair = _firsts_of(h, w, k)
        if pair < 0:
            return pair
        copy_words(ahead, k * words, tab(w, ws.FIRSTS), pair, words)
        for i in range(words):
            set_ = tab(w, ws.FIRSTS)[pair + words + i]
            while set_:
                skip = np.int64(64 * i + low_bit(set_))
                set_ &= set_ - 1
                found = _end_of_skip(h, w, skip, k)
                if found < 0:
                    return found
                until = max(until, found & 0xFFFFFFFF)
                end = (found >> 32) - AT
                whole = whole or found >> 32 == ANYWHERE
                if end < 0:
                    continue
                if not _is_known(w, end):
                    return end
                until = max(until, tab(w, ws.AHEAD_AT)[2 * end + 1])
                for j in range(words):
                    ahead[k * words + j] |= ahead[end * words + j] & tab(w, ws.SKIPPED)[skip * words + j]
    if whole:
        fill_words(ahead, k * words, words, -1)
    tab(w, ws.AHEAD_AT)[2 * k] = head[ws.W_AHEAD_STAMP]
    tab(w, ws.AHEAD_AT)[2 * k + 1] = until
    return np.int64(0)


@kernel
def _end_of_skip(h, w, skip, k):
    """Where a skip that begins before element ``k`` ends, in the upper half of a word, and the last element read, in the lower;
    or a status.

    With longest match there is one such place: competitors of the skip end no later than with it, and it does not end before a
    byte that it accepts.
    """
    head = whead(w)
    elements = tab(w, ws.ELEMENTS)
    state = _alone(h, w, skip)
    if state < 0:
        return state
    if ending_of(h, skip) != layout.LONGEST:
        return (np.int64(ANYWHERE) << 32) | k
    at = np.int64(k)
    while True:
        charge(w, 4)
        if at == head[ws.W_ELEMENTS] or elements[at] < 0:
            return (np.int64(ANYWHERE) << 32) | at
        after = transition(h, state, elements[at])
        if after < 0:
            return after
        if after == 0:
            return (np.int64(NOWHERE) << 32) | at
        if after == lexer_layout.BEFORE:
            return ((at + AT) << 32) | at
        at += 1
        state = after
        if after & lexer_layout.ENDS_BIT:
            if rest_of(h, after & lexer_layout.STATE_MASK) != 0:
                return (np.int64(ANYWHERE) << 32) | at
            return ((at + AT) << 32) | at


@kernel
def _alone(h, w, lexeme):
    """The lexer state in which a lexeme starts by itself, memoised in ``STARTS_ALONE``; or a status."""
    known = tab(w, ws.STARTS_ALONE)[lexeme]
    if known > 0:
        return known
    base = header(h)[layout.STACK_TOP]
    if push(h, pack(lexeme, expression_of(h, lexeme))) < 0:
        return np.int64(statuses.GROW)
    state = take_state(h, base)
    if state >= 0:
        tab(w, ws.STARTS_ALONE)[lexeme] = state
    return state


@kernel
def _firsts_of(h, w, k):
    """Where in ``FIRSTS`` the lexemes are that can begin with the two elements from ``k`` on, followed by the skips among them.

    The first element is a byte. Memoised by the two bytes. Or a status.
    """
    pair = _pair_at(w, k)
    known = tab(w, ws.FIRSTS_AT)[pair]
    if known > 0:
        return known - 1
    head = whead(w)
    words = head[ws.W_SET]
    at = head[ws.W_FIRSTS_USED]
    if not charge(w, 16 * head[ws.W_N_LEXEMES]) or not room(w, ws.FIRSTS, at + 2 * words):
        return np.int64(statuses.W_GROW)
    firsts = tab(w, ws.FIRSTS)
    fill_words(firsts, at, 2 * words, 0)
    byte = pair // (NO_BYTE + 1)
    following = pair % (NO_BYTE + 1)
    for lexeme in range(head[ws.W_N_LEXEMES] - 1):
        state = _alone(h, w, np.int64(lexeme))
        if state < 0:
            return state
        after = transition(h, state, byte)
        if after < 0:
            return after
        if after == 0:
            continue
        begins = np.int64(1)
        if following != NO_BYTE and after & lexer_layout.ENDS_BIT == 0 and longest_of(h, after) == 0:
            begins = transition(h, after, following)
            if begins < 0:
                return begins
        if begins:
            bit = np.int64(1) << (lexeme & 63)
            firsts[at + (lexeme >> 6)] |= bit
            if is_skip(h, lexeme):
                firsts[at + words + (lexeme >> 6)] |= bit
    head[ws.W_FIRSTS_USED] = at + 2 * words
    tab(w, ws.FIRSTS_AT)[pair] = at + 1
    return at
