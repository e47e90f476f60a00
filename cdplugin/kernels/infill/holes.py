"""Masks for a hole: which tokens may stand at the left edge of a gap, or in a slot.

The text right of the hole is fixed while the hole fills. So ``REST`` and ``OUT`` decide whether a parser state right after a
token can be completed. For each lexer state alive at the hole the token trie is walked once, beside the column of items that
wait for the state's lexemes; inside a token, lexer and parser go on as in ordinary decoding
(:mod:`cdplugin.kernels.infill.columns`).

What keeps it fast: whether the text can be completed after a token is memoised per pair (column, lexer state)
(:mod:`cdplugin.kernels.infill.pairs`); only subtrees with a token in doubt are walked (:mod:`cdplugin.kernels.infill.doubt`);
where all bytes below a trie node leave its lexer state as it is, one answer decides the subtree.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.columns import forget_columns, n_starts, start_at
from cdplugin.kernels.infill.doubt import (
    allow_listed,
    begin_doubt,
    is_wide,
    look_for_doubt,
    may_begin_at_node,
    may_go_on,
)
from cdplugin.kernels.infill.first_columns import column_at_nodes
from cdplugin.kernels.infill.pairs import BOUNDARY, class_completes, completes, completes_inside, scanned
from cdplugin.kernels.infill.profiles import add_tokens, profile_of
from cdplugin.kernels.infill.reach import forget_reached
from cdplugin.kernels.infill.starts import start_set
from cdplugin.kernels.infill.state_sets import add_parts, end_set, fresh_stamp
from cdplugin.kernels.infill.ways import forget_ways
from cdplugin.kernels.infill.workspace import charge, clear_records, cut_rows, new_row, room, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.jit.views import view_i32
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, is_skip, longest_of, rest_of, value_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.masks.walk import COPIED_BITS, loops_below
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import any_words, copy_words, header, i32, length_of, u8, word_of

PAIR_WORDS = 2  # column, lexer state


@kernel
def fill_hole(h, w, row_address):
    """Add the tokens that may stand at the hole to an int32 mask row; 0 or a status. Needs ``REST`` and ``ITEMS``.

    A token continues what is alive at the hole (``SNAPSHOT``: lexer states, each with the nodes at which its lexemes began), or
    begins at a node of the hole itself. States in which most bytes change nothing come first, since they may decide most
    tokens. Tokens whose bit is set are not asked about, and bits are only ever set: a repeated call continues with what is
    left.
    """
    head = whead(w)
    out = view_i32(row_address, header(h)[layout.WORDS])
    status = _prepare(h, w)
    if status < 0:
        return status
    for wide in range(1, -1, -1):
        for i in range(head[ws.W_N_SNAPSHOT]):
            is_now = is_wide(h, tab(w, ws.SNAPSHOT)[2 * i])
            if is_now < 0:
                return is_now
            if is_now == wide:
                status = _add_mask_of_pair(h, w, i, out)
                if status < 0:
                    return status
    for node in range(tab(w, ws.NODE_BEFORE)[head[ws.W_HOLE]], tab(w, ws.NODE_LAST)[head[ws.W_HOLE]]):
        may = look_for_doubt(h, w, out)
        if may > 0:
            may = may_begin_at_node(h, w)
        if may <= 0:
            return may
        starts = new_row(w)
        if starts < 0:
            return starts
        set_bit(tab(w, ws.BITS), starts, np.int64(node))
        column = column_at_nodes(h, w, starts, np.int64(0))
        if column < 0:
            return column
        for i in range(n_starts(w, column) if column > 0 else 0):
            state = start_at(w, column, i)
            if state > 0:
                status = _add_mask(h, w, column, state, out)
                if status < 0:
                    return status
    return np.int64(0)


@kernel
def _add_mask_of_pair(h, w, i, out):
    """Add to ``out`` the tokens with which pair ``i`` of ``SNAPSHOT`` can continue; 0 or a status."""
    head = whead(w)
    state = tab(w, ws.SNAPSHOT)[2 * i]
    may = look_for_doubt(h, w, out)
    if may > 0:
        may = may_go_on(h, w, state)
    if may <= 0:
        return may
    width = head[ws.W_WIDTH]
    starts = new_row(w)
    if starts < 0:
        return starts
    bits = tab(w, ws.BITS)
    row = tab(w, ws.SNAPSHOT)[2 * i + 1]
    copy_words(bits, starts, tab(w, ws.LIVE_BITS), row, width)
    if head[ws.W_HOLE] == 0 or tab(w, ws.ELEMENTS)[head[ws.W_HOLE] - 1] != ws.GAP:
        # lexemes that start at a node of the hole itself are left to fill_hole, which starts only those that the parser allows
        for node in range(tab(w, ws.NODE_BEFORE)[head[ws.W_HOLE]], tab(w, ws.NODE_LAST)[head[ws.W_HOLE]]):
            set_ = start_set(h, w, np.int64(node))
            if set_ < 0:
                return set_
            for j in range(tab(w, ws.SET_HEADS)[set_], tab(w, ws.SET_HEADS)[set_ + 1]):
                if tab(w, ws.SET_STATES)[j] == state:
                    bits[starts + (node >> 6)] &= ~(np.int64(1) << (node & 63))
    return _add_mask_of_starts(h, w, starts, state, out) if any_words(bits, starts, width) else np.int64(0)


@kernel
def _add_mask_of_starts(h, w, starts, state, out):
    """Add to ``out`` the tokens with which a lexer state can continue whose lexemes began at the nodes of a row; 0 or a status.

    Inside a skip each start is walked by itself: the lexemes that compete after the skip depend on it.
    """
    head = whead(w)
    apart = False
    if head[ws.W_SPLIT]:
        value = value_of(h, state)
        for i in range(length_of(h, value)):
            apart = apart or is_skip(h, word_of(h, value, i) >> 32) != 0
    if not apart:
        column = column_at_nodes(h, w, starts, state)
        return column if column <= 0 else _add_mask(h, w, column, state, out)
    for i in range(head[ws.W_WIDTH]):
        word = tab(w, ws.BITS)[starts + i]
        while word:
            node = np.int64(64 * i + low_bit(word))
            word &= word - 1
            one = new_row(w)
            if one < 0:
                return one
            set_bit(tab(w, ws.BITS), one, node)
            column = column_at_nodes(h, w, one, state)
            if column > 0:
                column = _add_mask(h, w, column, state, out)
            if column < 0:
                return column
    return np.int64(0)


@kernel
def _add_mask(h, w, column, state, out):
    """Add to ``out`` the tokens with which the pair (column, lexer state) can continue; 0 or a status.

    By a walk of the trie; or, where all lexemes are EXACT and every suffix of a token has a class, by profiles, lexeme by
    lexeme.
    """
    if not whead(w)[ws.W_PROFILES]:
        return _walk(h, w, column, state, out)
    count = add_parts(h, w, np.int64(0), state, fresh_stamp(w))
    if count < 0:
        return count
    parts = end_set(w, count)
    if parts < 0:
        return parts
    for i in range(tab(w, ws.SET_HEADS)[parts], tab(w, ws.SET_HEADS)[parts + 1]):
        status = _add_outcomes(h, w, column, tab(w, ws.SET_STATES)[i], out)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _add_outcomes(h, w, column, state, out):
    """:func:`_add_mask` by the profile of one EXACT lexeme's state: each outcome is decided once, for all of its tokens.

    INSIDE asks whether the lexeme can continue; ENDS_WITH whether the text does at the boundary after it; CROSSES whether it
    does with the class of the token's rest, in the column after the lexeme.
    """
    profile = profile_of(h, w, state)
    if profile < 0:
        return profile
    for i in range(tab(w, ws.POOL)[profile]):
        at = profile + 1 + i * ws.OUTCOME_WORDS
        key = tab(w, ws.POOL)[at + ws.P_KEY]
        what = key >> (ws.KIND_BITS + ws.CLASS_BITS)
        kind = (key >> ws.CLASS_BITS) & ((1 << ws.KIND_BITS) - 1)
        answer = np.int64(0)
        if kind == ws.INSIDE:
            answer = completes(h, w, column, what)
        else:
            after = scanned(h, w, column, what)
            if after < 0:
                return after
            if after > 0 and kind == ws.ENDS_WITH:
                answer = completes(h, w, after, np.int64(BOUNDARY))
            elif after > 0:
                answer = class_completes(h, w, after, key & ((1 << ws.CLASS_BITS) - 1))
        if answer < 0:
            return answer
        charge(w, 4)
        if answer:
            add_tokens(w, profile, i, out)
    return np.int64(0)


@kernel
def _prepare(h, w):
    """Forget what was found for another hole, and make room; 0 or ``W_GROW``."""
    head = whead(w)
    cut_rows(w, ws.W_BITS_USED, ws.W_BITS_CLEAN, head[ws.W_BITS_ITEMS])
    if forget_columns(w) < 0 or forget_ways(w) < 0:
        return np.int64(statuses.W_GROW)
    forget_reached(w)
    clear_records(w, np.int64(ws.W_N_CHECKED))
    depth = header(h)[layout.MAX_DEPTH] + 2
    if not room(w, ws.WALK_AT, depth + 1):
        return np.int64(statuses.W_GROW)
    return begin_doubt(h, w)


@kernel
def _walk(h, w, column, state, out):
    """Add to ``out`` the tokens with which the pair (column, lexer state) can continue; 0 or a status.

    One walk of the trie with a list of pairs per depth: the pair inside its lexeme, and pairs in columns after lexemes that
    ended. A token is added if the text can be completed from one of its last pairs (:func:`completes`). Subtrees without pairs,
    or without a token in doubt, are skipped.

    Most nodes have one pair, which has been inside its lexeme since the root. It is handled without the lists' functions; where
    all bytes below leave its state as it is, one answer decides the subtree.
    """
    if not room(w, ws.WALK, 64):
        return np.int64(statuses.W_GROW)
    some = look_for_doubt(h, w, out)
    if some <= 0:
        return some
    is_counted = whead(w)[ws.W_DECIDED] > 0
    in_doubt = tab(w, ws.IN_DOUBT)
    walk = tab(w, ws.WALK)
    at = tab(w, ws.WALK_AT)
    walk[0], walk[1] = column, state
    at[0] = 0
    at[1] = 1
    stamp = fresh_stamp(w)
    n_trie = header(h)[layout.N_NODES]
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    below = i32(h, layout.TRIE_BELOW)
    ranks = i32(h, layout.TRIE_RANK)
    node = np.int64(0)
    visited = 0
    while node < n_trie:
        visited += 1
        if visited & 255 == 0 and not charge(w, 256 * ws.NODE_WORK):
            return np.int64(statuses.W_GROW)
        if is_counted and in_doubt[ranks[node + skips[node]]] == in_doubt[ranks[node]]:
            node += skips[node]
            continue
        depth = np.int64(depths[node])
        first = at[depth - 1]
        bottom = at[depth]
        byte = np.int64(bytes_[node])
        token = tokens[node]
        # another lexer state may have added the token already
        wanted = token >= 0 and (out[token >> 5] >> (token & 31)) & 1 == 0
        inside = np.int64(0)
        if bottom - first == 1 and walk[PAIR_WORDS * first] == column and walk[PAIR_WORDS * first + 1] != BOUNDARY:
            inside = transition(h, walk[PAIR_WORDS * first + 1], byte)
            if inside < 0:
                return inside
            # a lexeme ends: the general case below lists both pairs, after it and inside it
            if inside & lexer_layout.ENDS_BIT:
                inside = np.int64(0)
            elif inside == 0:
                node += skips[node]
                continue
        if inside > 0:
            loops = loops_below(h, inside, skips[node]) if skips[node] > 1 else np.int64(0)
            if loops < 0:
                return loops
            if loops and below[node] & ~loops == 0:
                answer = completes_inside(h, w, column, inside, stamp)
                if answer < 0:
                    return answer
                if answer:
                    allow_listed(h, out, ranks[node], ranks[node + skips[node]])
                    visited += (ranks[node + skips[node]] - ranks[node]) >> COPIED_BITS
                node += skips[node]
                continue
            if PAIR_WORDS * (bottom + 1) > walk.shape[0]:
                room(w, ws.WALK, PAIR_WORDS * (bottom + 1))
                return np.int64(statuses.W_GROW)
            walk[PAIR_WORDS * bottom] = column
            walk[PAIR_WORDS * bottom + 1] = inside
            at[depth + 1] = bottom + 1
            if wanted:
                answer = completes_inside(h, w, column, inside, stamp)
                if answer < 0:
                    return answer
                if answer:
                    out[token >> 5] |= np.int32(1 << (token & 31))
            node += 1
            continue
        top = bottom
        for i in range(first, bottom):
            top = _follow(h, w, i, byte, bottom, top)
            if top < 0:
                return top
        if top == bottom:
            node += skips[node]
            continue
        at[depth + 1] = top
        if wanted:
            for i in range(bottom, top):
                answer = completes(h, w, walk[PAIR_WORDS * i], walk[PAIR_WORDS * i + 1])
                if answer < 0:
                    return answer
                if answer:
                    out[token >> 5] |= np.int32(1 << (token & 31))
                    break
        node += 1
    whead(w)[ws.W_C_NODES] += visited
    return np.int64(0)


@kernel
def _follow(h, w, entry, byte, bottom, top):
    """Append to ``WALK`` the pairs that a pair leads to by a byte; the new top, or a status.

    ``entry``: the pair's index in ``WALK``; ``bottom``: where the pairs of this depth begin. At a boundary, and where a LONGEST
    lexeme ends before the byte, each start state of the column takes the byte.
    """
    walk = tab(w, ws.WALK)
    column = walk[PAIR_WORDS * entry]
    state = walk[PAIR_WORDS * entry + 1]
    charge(w, ws.NODE_WORK)
    if state != BOUNDARY:
        after = transition(h, state, byte)
        if after < 0:
            return after
        if after != lexer_layout.BEFORE:
            return _land(h, w, column, after, bottom, top)
        column = scanned(h, w, column, longest_of(h, state))
        if column <= 0:
            return column if column < 0 else top
    charge(w, ws.NODE_WORK * n_starts(w, column))
    for i in range(n_starts(w, column)):
        state = start_at(w, column, i)
        if state > 0:
            after = transition(h, state, byte)
            if after < 0:
                return after
            top = _land(h, w, column, after, bottom, top)
            if top < 0:
                return top
    return top


@kernel
def _land(h, w, column, after, bottom, top):
    """Append the pairs of a transition's target ``after``: behind the lexemes that end, and inside those that continue.

    The new top, or a status.
    """
    if after == 0 or after == lexer_layout.BEFORE:
        return top
    if after & lexer_layout.ENDS_BIT:
        after &= lexer_layout.STATE_MASK
        ended = accepted_of(h, after)
        after = rest_of(h, after)
        following = scanned(h, w, column, ended)
        if following < 0:
            return following
        if following > 0:
            top = _add(w, following, BOUNDARY, bottom, top)
            if top < 0:
                return top
    if after > 0:
        top = _add(w, column, after, bottom, top)
    return top


@kernel
def _add(w, column, state, bottom, top):
    """Append a pair to ``WALK`` if it is new since ``bottom``; the new top, or ``W_GROW``."""
    if not room(w, ws.WALK, PAIR_WORDS * (top + 1)):
        return np.int64(statuses.W_GROW)
    walk = tab(w, ws.WALK)
    for i in range(bottom, top):
        if walk[PAIR_WORDS * i] == column and walk[PAIR_WORDS * i + 1] == state:
            return np.int64(top)
    walk[PAIR_WORDS * top] = column
    walk[PAIR_WORDS * top + 1] = state
    return np.int64(top + 1)
