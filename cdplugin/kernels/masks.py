"""Token masks: a cached base per lexer state, a cached delta per (row, lexer state), both found by walking the flat token trie.

The *base* of a lexer state is independent of the row: tokens that stay inside the lexemes, and tokens at whose last byte a
lexeme ends (what a row allows, it can always go on from). At nodes where a lexeme ends and the trie goes on, the rest
depends on the row: the base keeps them as a list of ``(node, accepted lexemes)``, and the *delta* of a row walks only the
subtrees below them. A node whose byte comes after the end of LONGEST lexemes is kept with ``INCLUSIVE`` added: it depends on
the row itself. Token terminals are in neither: few grammars have them, and :func:`add_terminals` adds them last.

Walk: the trie is an array in depth-first order with the size of each subtree, so a dead node is skipped by one addition and
there is no stack but an array of states by depth (llguidance's toktrie note derives the loop). Plain text is not walked at
all: where a lexer state is known to live through ``n`` characters of ``[^"\\\\\\x00-\\x1F\\x7F]``
(:func:`cdplugin.kernels.derive.stay`), the vocabulary's mask of the tokens of at most ``n`` such characters is taken as it
is, and only the rest of the trie is walked.

A token list is a block of TOKEN_LISTS: ids (``length >= 0``) or, where that is shorter, the words of a bitmask (``length ==
-1``).
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import (
    BASES,
    C_BASES,
    C_MASK_HITS,
    C_MASK_MISSES,
    C_NODES,
    C_SUBWALKS,
    ENDS,
    ENDS_USED,
    GROW,
    LEXEME_WORDS,
    LEXEMES,
    LEXER_STATES,
    LOW_32,
    M_MASK,
    MASKS,
    MAX_CHARS,
    MAX_DEPTH,
    N_BASES,
    N_MASKS,
    N_NODES,
    N_SLICES,
    ROWS,
    SLICE_END,
    SLICE_MASKS,
    STACK,
    STACK_TOP,
    TOKEN_LISTS,
    TOKEN_RANGES,
    TOKENS_USED,
    TRANSITIONS,
    TRIE_BYTE,
    TRIE_CHARS,
    TRIE_DEPTH,
    TRIE_SKIP,
    TRIE_TOKEN,
    USE_SLICES,
    WORDS,
    X_N_RANGES,
    X_RANGES,
    has_room,
    header,
    i32,
    i64,
    length_of,
    memo_get,
    memo_put,
    u8,
    word_of,
)
from cdplugin.kernels.earley import R_START, ROW_WORDS, advance
from cdplugin.kernels.jit import kernel
from cdplugin.kernels.lexer import (
    BEFORE,
    ENDS_BIT,
    L_ACCEPTED,
    L_BASE,
    L_LONGEST,
    L_REST,
    L_VALUE,
    LEXER_WORDS,
    STATE_MASK,
    lexer_step,
    saturated,
)
from cdplugin.kernels.plain import plain_chars
from cdplugin.kernels.states import ACCEPT_MARK, boundary_after, start_of, step

# record of a base: slice mask (row of SLICE_MASKS, -1: none), its tokens, its ends
B_SLICE, B_TOKENS, B_LENGTH, B_ENDS, B_N_ENDS = range(5)
BASE_WORDS = 5
# record of a mask: its base, and the tokens that the row adds
MASK_BASE, MASK_TOKENS, MASK_LENGTH = range(3)
MASK_WORDS = 3

INCLUSIVE = 1 << 32  # beside a node: the node itself depends on the row, not only what is below it


@kernel
def _close_list(h, start):
    """End the token list that begins at ``start``: as ids if that is shorter than a bitmask, else as a bitmask. Length, or
    ``GROW``.
    """
    head = header(h)
    count = head[TOKENS_USED] - start
    words = head[WORDS]
    if count <= words:
        return count
    if not has_room(h, TOKEN_LISTS, head[TOKENS_USED] + words):
        return -2
    tokens = i32(h, TOKEN_LISTS)
    end = head[TOKENS_USED]
    for i in range(end, end + words):
        tokens[i] = 0
    for i in range(start, end):
        token = tokens[i]
        tokens[end + (token >> 5)] |= np.int32(1 << (token & 31))
    for i in range(words):
        tokens[start + i] = tokens[end + i]
    head[TOKENS_USED] = start + words
    return -1


@kernel
def base_of(h, state):
    """Record number of the base of a (saturated) lexer state, walked now if it is new; or a status."""
    known = i64(h, LEXER_STATES)[state * LEXER_WORDS + L_BASE]
    if known >= 0:
        return known
    head = header(h)
    number = head[N_BASES]
    if not has_room(h, BASES, (number + 1) * BASE_WORDS) or not has_room(h, STACK, head[STACK_TOP] + head[MAX_DEPTH] + 2):
        return GROW
    slice_row = np.int64(-1)
    first_node = np.int64(0)
    if head[USE_SLICES]:
        plain = plain_chars(h, state)
        if plain < 0:
            return plain
        chars = plain >> 1
        if chars >= head[MAX_CHARS]:  # every slice token
            slice_row = head[N_SLICES] - 1
            first_node = head[SLICE_END]
        else:
            slice_row = min(chars, head[N_SLICES] - 2)
            if plain & 1 and slice_row == chars:  # and none of the longer ones
                first_node = head[SLICE_END]
    tokens_start = head[TOKENS_USED]
    ends_start = head[ENDS_USED]
    status = _walk_base(h, state, first_node, slice_row)
    if status < 0:
        head[TOKENS_USED] = tokens_start
        head[ENDS_USED] = ends_start
        return status
    length = _close_list(h, tokens_start)
    if length == -2:
        head[TOKENS_USED] = tokens_start
        head[ENDS_USED] = ends_start
        return GROW
    head[C_BASES] += 1
    bases = i64(h, BASES)
    record = number * BASE_WORDS
    bases[record + B_SLICE] = slice_row if slice_row > 0 else -1
    bases[record + B_TOKENS] = tokens_start
    bases[record + B_LENGTH] = length
    bases[record + B_ENDS] = ends_start
    bases[record + B_N_ENDS] = (head[ENDS_USED] - ends_start) // 2
    head[N_BASES] = number + 1
    i64(h, LEXER_STATES)[state * LEXER_WORDS + L_BASE] = number
    return number


@kernel
def _walk_base(h, state, first_node, skip_chars):
    """Append the tokens and ends of ``state`` found from ``first_node`` on; 0 or a status.

    Subtrees of the slice trie whose tokens all have at most ``skip_chars`` characters are left out: the slice mask holds them.
    """
    head = header(h)
    n_nodes = head[N_NODES]
    slice_end = head[SLICE_END]
    bytes_ = u8(h, TRIE_BYTE)
    depths = i32(h, TRIE_DEPTH)
    skips = i32(h, TRIE_SKIP)
    tokens = i32(h, TRIE_TOKEN)
    chars = i32(h, TRIE_CHARS)
    transitions = i32(h, TRANSITIONS)
    records = i64(h, LEXER_STATES)
    states = i64(h, STACK)
    base = head[STACK_TOP]
    out = i32(h, TOKEN_LISTS)
    room = out.shape[0]
    used = head[TOKENS_USED]
    ends = i64(h, ENDS)
    head[STACK_TOP] = base + head[MAX_DEPTH] + 2
    states[base] = state
    node = first_node
    visited = 0
    while node < n_nodes:
        visited += 1
        if node < slice_end and chars[node] <= skip_chars:
            node += skips[node]
            continue
        depth = base + depths[node]
        before = states[depth - 1]
        after = np.int64(transitions[before * 256 + bytes_[node]])
        if after < 0:
            after = lexer_step(h, before, np.int64(bytes_[node]))
            if after < 0:
                return after
        if after == 0:
            node += skips[node]
            continue
        if after == BEFORE:
            at = head[ENDS_USED]
            if not has_room(h, ENDS, at + 2):
                return GROW
            ends[at] = node | INCLUSIVE
            ends[at + 1] = records[before * LEXER_WORDS + L_LONGEST]
            head[ENDS_USED] = at + 2
            node += skips[node]
            continue
        token = tokens[node]
        if token >= 0:
            if used == room:
                has_room(h, TOKEN_LISTS, room + 1)
                return GROW
            out[used] = token
            used += 1
        if after & ENDS_BIT:
            after &= STATE_MASK
            if skips[node] > 1:
                at = head[ENDS_USED]
                if not has_room(h, ENDS, at + 2):
                    return GROW
                ends[at] = node
                ends[at + 1] = records[after * LEXER_WORDS + L_ACCEPTED]
                head[ENDS_USED] = at + 2
            after = records[after * LEXER_WORDS + L_REST]
            if after == 0:
                node += skips[node]
                continue
        states[depth] = after
        node += 1
    head[TOKENS_USED] = used
    head[STACK_TOP] = base
    head[C_NODES] += visited
    return 0


@kernel
def _walk_below(h, cursor, top_node):
    """Append the tokens strictly below ``top_node`` that ``cursor`` (the state at it) can go on with; 0 or a status."""
    head = header(h)
    bytes_ = u8(h, TRIE_BYTE)
    depths = i32(h, TRIE_DEPTH)
    skips = i32(h, TRIE_SKIP)
    tokens = i32(h, TRIE_TOKEN)
    transitions = i32(h, TRANSITIONS)
    cursors = i64(h, STACK)
    base = head[STACK_TOP] - depths[top_node]
    out = i32(h, TOKEN_LISTS)
    room = out.shape[0]
    used = head[TOKENS_USED]
    saved = head[STACK_TOP]
    head[STACK_TOP] = saved + head[MAX_DEPTH] + 2
    cursors[base + depths[top_node]] = cursor
    node = np.int64(top_node + 1)
    end = top_node + skips[top_node]
    visited = 0
    while node < end:
        visited += 1
        depth = base + depths[node]
        before = cursors[depth - 1]
        byte = np.int64(bytes_[node])
        after = np.int64(-1)
        if before >> 32:  # one pair: most bytes stay inside a lexeme or are dead
            after = np.int64(transitions[(before & STATE_MASK) * 256 + byte])
            if after > 0:
                after = np.int64(-1) if after & ENDS_BIT else ((before >> 32) << 32) | after
        if after < 0:
            after = step(h, before, byte)
            if after < 0:
                return after
        if after == 0:
            node += skips[node]
            continue
        token = tokens[node]
        if token >= 0:
            if used == room:
                has_room(h, TOKEN_LISTS, room + 1)
                return GROW
            out[used] = token
            used += 1
        cursors[depth] = after
        node += 1
    head[TOKENS_USED] = used
    head[STACK_TOP] = saved
    head[C_NODES] += visited
    head[C_SUBWALKS] += 1
    return 0


@kernel
def _walk_from(h, cursor, node):
    """Append the tokens at and below ``node`` that ``cursor`` (the state above it) can go on with; 0 or a status."""
    byte = np.int64(u8(h, TRIE_BYTE)[node])
    if cursor >> 32 and i32(h, TRANSITIONS)[(cursor & STATE_MASK) * 256 + byte] == 0:
        return np.int64(0)  # most bytes
    after = step(h, cursor, byte)
    if after <= 0:
        return after
    token = i32(h, TRIE_TOKEN)[node]
    if token >= 0:
        head = header(h)
        used = head[TOKENS_USED]
        if not has_room(h, TOKEN_LISTS, used + 1):
            return np.int64(GROW)
        i32(h, TOKEN_LISTS)[used] = token
        head[TOKENS_USED] = used + 1
    return np.int64(_walk_below(h, after, node))


@kernel
def mask_of(h, row, state):
    """Record number of the mask of the pair ``(row, state)``, computed now if it is new; or a status."""
    head = header(h)
    state = saturated(h, state, head[MAX_DEPTH])
    if state < 0:
        return state
    known = memo_get(h, M_MASK, row, state)
    if known >= 0:
        head[C_MASK_HITS] += 1
        return known
    head[C_MASK_MISSES] += 1
    base = base_of(h, state)
    if base < 0:
        return base
    number = head[N_MASKS]
    if not has_room(h, MASKS, (number + 1) * MASK_WORDS) or not has_room(h, STACK, head[STACK_TOP] + 2 * head[MAX_DEPTH] + 4):
        return GROW
    tokens_start = head[TOKENS_USED]
    ends_start = i64(h, BASES)[base * BASE_WORDS + B_ENDS]
    n_ends = i64(h, BASES)[base * BASE_WORDS + B_N_ENDS]
    accepted = np.int64(0)
    cursor = np.int64(0)
    status = np.int64(0)
    for i in range(n_ends):
        node = i64(h, ENDS)[ends_start + 2 * i]
        ended = i64(h, ENDS)[ends_start + 2 * i + 1]
        if ended != accepted:
            accepted = ended
            next_row = advance(h, row, ended)
            cursor = start_of(h, next_row) if next_row > 0 else next_row
            if cursor < 0:
                status = cursor
                break
            if cursor >> 32 and cursor & STATE_MASK == 0:  # only the end may come
                cursor = np.int64(0)
        if cursor == 0:
            continue
        if node & INCLUSIVE:
            status = _walk_from(h, cursor, node & LOW_32)
        else:
            status = np.int64(_walk_below(h, cursor, node))
        if status < 0:
            break
    length = np.int64(-2)
    if status >= 0:
        length = _close_list(h, tokens_start)
        status = np.int64(GROW if length == -2 else 0)
    if status < 0:
        head[TOKENS_USED] = tokens_start
        return status
    masks = i64(h, MASKS)
    masks[number * MASK_WORDS + MASK_BASE] = base
    masks[number * MASK_WORDS + MASK_TOKENS] = tokens_start
    masks[number * MASK_WORDS + MASK_LENGTH] = length
    head[N_MASKS] = number + 1
    return memo_put(h, M_MASK, row, state, number)


@kernel
def _add_list(h, start, length, out):
    """OR a token list into the mask row ``out``."""
    tokens = i32(h, TOKEN_LISTS)
    if length == -1:
        for i in range(header(h)[WORDS]):
            out[i] |= tokens[start + i]
        return
    for i in range(start, start + length):
        token = tokens[i]
        out[token >> 5] |= np.int32(1 << (token & 31))


@kernel
def _add_mask(h, number, out, fresh):
    """OR mask ``number`` into ``out``; if ``fresh``, ``out`` holds garbage and is written over."""
    masks = i64(h, MASKS)
    record = number * MASK_WORDS
    bases = i64(h, BASES)
    base = masks[record + MASK_BASE] * BASE_WORDS
    words = header(h)[WORDS]
    slice_row = bases[base + B_SLICE]
    if slice_row >= 0:
        slices = i32(h, SLICE_MASKS)
        offset = slice_row * words
        if fresh:
            for i in range(words):
                out[i] = slices[offset + i]
        else:
            for i in range(words):
                out[i] |= slices[offset + i]
    elif fresh:
        for i in range(words):
            out[i] = 0
    _add_list(h, bases[base + B_TOKENS], bases[base + B_LENGTH], out)
    _add_list(h, masks[record + MASK_TOKENS], masks[record + MASK_LENGTH], out)


@kernel
def fill(h, cursor, out):
    """Write the mask of ``cursor`` into ``out`` (int32 words); stop tokens and token terminals are the caller's. 0 or a status,
    then ``out`` is garbage.
    """
    head = header(h)
    if cursor >> 32:
        state = cursor & STATE_MASK
        if state > 0:
            number = mask_of(h, (cursor >> 32) - 1, state)
            if number < 0:
                return number
            _add_mask(h, number, out, True)
            return 0
    elif cursor > 0:
        fresh = True
        for i in range(length_of(h, cursor)):
            pair = word_of(h, cursor, i)
            if pair != ACCEPT_MARK:
                number = mask_of(h, pair >> 32, pair & LOW_32)
                if number < 0:
                    return number
                _add_mask(h, number, out, fresh)
                fresh = False
        if not fresh:
            return 0
    for i in range(head[WORDS]):
        out[i] = 0
    return 0


@kernel
def add_terminals(h, cursor, out):
    """OR the tokens of the token terminals that may come at ``cursor`` into ``out``; 0 or a status."""
    if cursor >> 32:
        return _add_terminals_of(h, (cursor >> 32) - 1, cursor & STATE_MASK, out)
    for i in range(length_of(h, cursor) if cursor > 0 else 0):
        pair = word_of(h, cursor, i)
        if pair != ACCEPT_MARK:
            status = _add_terminals_of(h, pair >> 32, pair & LOW_32, out)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _add_terminals_of(h, row, state, out):
    """:func:`add_terminals` for one pair."""
    if i64(h, LEXER_STATES)[state * LEXER_WORDS + L_LONGEST]:
        row = boundary_after(h, row, state)
        if row < 0:
            return row
        state = i64(h, ROWS)[row * ROW_WORDS + R_START]
    if state == 0:
        return np.int64(0)
    value = i64(h, LEXER_STATES)[state * LEXER_WORDS + L_VALUE]
    lexemes = i64(h, LEXEMES)
    ranges = i64(h, TOKEN_RANGES)
    for i in range(length_of(h, value)):
        record = (word_of(h, value, i) >> 32) * LEXEME_WORDS
        first = lexemes[record + X_RANGES]
        for r in range(first, first + lexemes[record + X_N_RANGES]):
            for token in range(ranges[2 * r], ranges[2 * r + 1] + 1):
                out[token >> 5] |= np.int32(1 << (token & 31))
    return np.int64(0)
