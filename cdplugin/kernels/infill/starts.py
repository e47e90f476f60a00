"""Lexemes that may start at a node: those that may follow the lexemes that end there, and their skips.

In a *strict* workspace all LONGEST lexemes that may follow start in one lexer state: they compete. What it finds is legal, but
it does not find all legal texts, since the parser may allow fewer competitors. A *loose* workspace (``W_LOOSE``) errs the other
way: each LONGEST lexeme starts in a state of its own, beside its skip, with which it competes wherever it is allowed. What it
does not find is not legal.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.state_sets import add_parts, end_set, fresh_stamp
from cdplugin.kernels.infill.workspace import charge, has_bit, or_row, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer.fields import ending_of, expression_of, is_skip, skip_of
from cdplugin.kernels.lexer.states import take_state
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    copy_words,
    equal_words,
    fill_words,
    first_slot,
    has_room,
    hash_words,
    header,
    i64,
    mix,
    pack,
)

MOST_START_SETS = 2048


@kernel
def allow(h, w, starts, lexeme, end):
    """Add to ``ALLOWED`` of node ``end`` the lexemes that may follow ``lexeme``.

    After a skip these are the lexemes that may start where it started: at the nodes of the row ``starts``.
    """
    words = whead(w)[ws.W_SET]
    allowed = tab(w, ws.ALLOWED)
    if not is_skip(h, lexeme):
        follows = tab(w, ws.FOLLOWS)
        for i in range(words):
            allowed[end * words + i] |= follows[lexeme * words + i]
        return
    bits = tab(w, ws.LIVE_BITS)
    charge(w, whead(w)[ws.W_WIDTH])
    for i in range(whead(w)[ws.W_WIDTH]):
        word = bits[starts + i]
        while word:
            node = 64 * i + low_bit(word)
            word &= word - 1
            charge(w, words)
            or_row(allowed, end * words, node * words, words)


@kernel
def start_set(h, w, node):
    """The set of lexer states in which lexemes may start at a node; or a status.

    At the beginning of a text (node 0) no skip comes, as in the matcher.
    """
    return set_of_starts(h, w, ws.ALLOWED, node * whead(w)[ws.W_SET], ws.WITH_EXACT | (ws.SKIPS if node > 0 else 0))


@kernel
def set_of_starts(h, w, table, first, which):
    """The set of lexer states in which the lexemes of a set (in ``table``, from word ``first`` on) start; or a status.

    ``which``: :data:`SKIPS` if their skips may come first, plus :data:`WITH_EXACT` if EXACT ones start, too. Memoised in
    ``START_SETS`` across texts, by content; after ``MOST_START_SETS`` sets the memo table is emptied.
    """
    head = whead(w)
    words = head[ws.W_SET]
    count = head[ws.W_N_START_SETS]
    if count >= MOST_START_SETS:
        count = np.int64(0)
    charge(w, 4 + words)
    if not room(w, ws.START_HASH, 4 * MOST_START_SETS) or not room(w, ws.START_SETS, (count + 1) * (words + 2)):
        return np.int64(statuses.W_GROW)
    index = tab(w, ws.START_HASH)
    if count == 0:
        head[ws.W_N_START_SETS] = 0
        fill_words(index, 0, index.shape[0], 0)
    sets = tab(w, ws.START_SETS)
    hash_ = mix(layout.HASH_SEED, which)
    hash_ = hash_words(hash_, tab(w, table), first, words)
    size = index.shape[0] - 1
    slot = first_slot(hash_, size)
    while index[slot] != 0:
        at = (index[slot] - 1) * (words + 2)
        if sets[at + words] == which and equal_words(sets, at, tab(w, table), first, words):
            return sets[at + words + 1]
        slot = (slot + 1) & size
    at = count * (words + 2)
    copy_words(sets, at, tab(w, table), first, words)
    sets[at + words] = which
    n_states = np.int64(0)
    stamp = fresh_stamp(w)
    if which & ws.WITH_EXACT:
        n_states = _add_starts(h, w, at, -1, True, False, n_states, stamp)
    if not head[ws.W_LOOSE]:
        if n_states >= 0:
            n_states = _add_starts(h, w, at, -1, False, which & ws.SKIPS != 0, n_states, stamp)
    else:
        # a skip may also come before the end of the text; which skips may is left to the parser
        before_end = which & ws.SKIPS != 0 and has_bit(tab(w, ws.START_SETS), at, head[ws.W_N_LEXEMES] - 1)
        for lexeme in range(head[ws.W_N_LEXEMES] - 1):
            starts = has_bit(tab(w, ws.START_SETS), at, lexeme) or (before_end and is_skip(h, lexeme))
            if n_states >= 0 and starts:
                n_states = _add_starts(h, w, at, lexeme, False, which & ws.SKIPS != 0, n_states, stamp)
    if n_states < 0:
        return n_states
    sets = tab(w, ws.START_SETS)
    found = end_set(w, n_states)
    if found < 0:
        return found
    sets[at + words + 1] = found
    index[slot] = count + 1
    head[ws.W_N_START_SETS] = count + 1
    return found


@kernel
def _add_starts(h, w, at, only, exact, skips, n_states, stamp):
    """Add to the set under construction the lexer state in which lexemes start together; the new number of states, or a status.

    ``at``: the set of lexemes in ``START_SETS``; ``only``: one lexeme instead of the set, -1: the set. ``exact``: take the
    EXACT lexemes, or else the others. ``skips``: whether the lexemes' skips start beside them. The end symbol starts nowhere.
    """
    head = whead(w)
    words = head[ws.W_SET]
    base = header(h)[layout.STACK_TOP]
    if not charge(w, 8 + 2 * words):
        return np.int64(statuses.W_GROW)
    if not has_room(h, layout.STACK, base + 2 * head[ws.W_N_LEXEMES] + 2):
        return np.int64(statuses.GROW)
    stack = i64(h, layout.STACK)
    count = 0
    for i in range(words):
        word = tab(w, ws.START_SETS)[at + i]
        if only >= 0:
            word = np.int64(1) << (only & 63) if only >> 6 == i else np.int64(0)
        while word:
            lexeme = 64 * i + low_bit(word)
            word &= word - 1
            if lexeme == head[ws.W_N_LEXEMES] - 1 or (ending_of(h, lexeme) == layout.EXACT) != exact:
                continue
            stack[base + count] = pack(lexeme, expression_of(h, lexeme))
            count += 1
            skip = skip_of(h, lexeme)
            if skips and skip >= 0:
                stack[base + count] = pack(skip, expression_of(h, skip))
                count += 1
    charge(w, 8 * count)
    header(h)[layout.STACK_TOP] = base + count
    state = take_state(h, base)
    return state if state < 0 else add_parts(h, w, n_states, state, stamp)
