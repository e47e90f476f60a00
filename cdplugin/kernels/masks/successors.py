"""Successors: the distinct cursors to which the tokens of a mask lead, and which tokens lead to which.

Queries about endings and budgets ask this for every place of their search. The trie is walked with whole cursors. A dense mask
has a hundred thousand tokens but a handful of distinct successors, so these go into a small open-addressed table, and the last
successor is compared first. Where all bytes below a node lead back to its cursor (:mod:`cdplugin.kernels.masks.walk`), the
subtree is taken whole, as in the walk of a base.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import count_bits, kernel
from cdplugin.kernels.jit.views import view_i32, view_i64
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.masks.walk import COPIED_BITS, begin_walk, end_walk, loops_below
from cdplugin.kernels.parser.cursors import step, step_inside
from cdplugin.kernels.parser.tokens import accept
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import fill_words, header, i32, i64, spend, u8

# The words of a question: the address of the mask row (int32); the address of the numbers to write (int32, one for each bit of
# the row, -1: none; address 0: not wanted); the table's slots (a power of two); cursors found so far; tokens that the walk has
# numbered; 1 if the row may hold tokens that cannot come, all of them text. Then the table: the slots' cursors and numbers.
# Then the result: the cursors by number, how many tokens lead to each, and the least of these tokens.
Q_ROW, Q_NUMBERS, Q_SLOTS, Q_COUNT, Q_NUMBERED, Q_IS_TEXT = range(6)
QUESTION_WORDS = 6
G_TOKENS, G_NUMBERS, G_CLASSES, G_HEADS, G_GROUPED = range(5)  # words of a question of :func:`group`
GROUP_WORDS = 5
_STEP_WORK = 8  # units of work of a step that is more than a table look-up

FULL = 1 << 40
"""Result of :func:`successors`: more cursors than half of the slots. Ask again with more slots."""


def question_size(slots: int) -> int:
    """Return the length, in words, of a question with so many slots."""
    return QUESTION_WORDS + 2 * slots + 3 * (slots >> 1)


@kernel
def successors(h, cursor, address):
    """Number the cursors after the tokens of a mask row, and write each token's number; return how many cursors, ``FULL``, or a
    status.

    ``address``: a question of :func:`question_size` words (int64). The caller sets ``Q_ROW``, ``Q_NUMBERS``, ``Q_SLOTS`` and
    ``Q_IS_TEXT``. The results stand at its end, by number: the cursors, how many tokens lead to each, and the least of these
    tokens. A token that is not in the mask, or leads nowhere, has the number -1. If the grammar counts tokens or has token
    terminals, the trie says too little, and each token is accepted by itself.
    """
    head = header(h)
    question = view_i64(address, QUESTION_WORDS)
    slots = question[Q_SLOTS]
    table = view_i64(address, QUESTION_WORDS + 2 * slots + 3 * (slots >> 1))
    table[Q_COUNT] = 0
    table[Q_NUMBERED] = 0
    fill_words(table, QUESTION_WORDS, slots, 0)
    row = view_i32(table[Q_ROW], head[layout.WORDS])
    n_numbers = 32 * head[layout.WORDS] if table[Q_NUMBERS] else np.int64(0)
    numbers = view_i32(table[Q_NUMBERS], n_numbers)
    fill_words(numbers, 0, n_numbers, -1)
    if not head[layout.HAS_CLOCKS] and not head[layout.HAS_TERMINALS]:
        status = _walk(h, cursor, table, row, numbers)
        if status != 0:
            return status
        if table[Q_IS_TEXT]:
            return table[Q_COUNT]
        left = -table[Q_NUMBERED]
        for word in range(head[layout.WORDS]):
            left += count_bits(np.int64(row[word]) & layout.LOW_32)
        if left == 0:
            return table[Q_COUNT]
    for word in range(head[layout.WORDS]):
        bits = row[word]
        if bits == 0:
            continue
        for bit in range(32):
            token = np.int64(32 * word + bit)
            if not (bits >> np.int32(bit)) & 1 or numbers[token] >= 0:
                continue
            after = accept(h, cursor, token, True)
            if after < 0:
                return after
            if not spend(h, 8):
                return np.int64(statuses.LIMIT_WORK)
            if after:
                number = _number(table, after)
                if number < 0:
                    return np.int64(FULL)
                _note(table, numbers, token, number)
    return table[Q_COUNT]


@kernel
def _note(table, numbers, token, number):
    """Write that a token leads to cursor ``number``: its number, the count, and the least token."""
    if numbers.shape[0]:
        numbers[token] = number
    half = table[Q_SLOTS] >> 1
    at = QUESTION_WORDS + 5 * half + number
    table[at] += 1
    if table[at] == 1 or token < table[at + half]:
        table[at + half] = token


@kernel
def group(h, address):
    """Sort tokens by their numbers, ascending within each number, and write where each number's tokens begin; 0, or a status.

    ``address``: int64 words: how many tokens, the address of their numbers (int32), how many numbers, the address of the int64
    words where each number's tokens begin (one more for the end), and the address of the sorted tokens (int32).
    """
    question = view_i64(address, GROUP_WORDS)
    n_tokens, n_classes = question[G_TOKENS], question[G_CLASSES]
    numbers = view_i32(question[G_NUMBERS], n_tokens)
    heads = view_i64(question[G_HEADS], n_classes + 1)
    grouped = view_i32(question[G_GROUPED], n_tokens)
    for token in range(n_tokens):
        number = numbers[token]
        if number >= 0:
            grouped[heads[number]] = token
            heads[number] += 1
    for number in range(n_classes - 1, 0, -1):
        heads[number] = heads[number - 1]
    heads[0] = 0
    return np.int64(0) if spend(h, n_tokens >> 4) else np.int64(statuses.LIMIT_WORK)


@kernel
def _number(table, cursor):
    """Return the number of a cursor, adding it if it is new; -1 if the table is full (half of its slots are used)."""
    slots = table[Q_SLOTS]
    at = ((cursor >> 32) * 31 + (cursor & layout.LOW_32)) & (slots - 1)
    while table[QUESTION_WORDS + at]:
        if table[QUESTION_WORDS + at] == cursor:
            return table[QUESTION_WORDS + slots + at]
        at = (at + 1) & (slots - 1)
    count = table[Q_COUNT]
    if count == slots >> 1:
        return np.int64(-1)
    table[QUESTION_WORDS + at] = cursor
    table[QUESTION_WORDS + slots + at] = count
    at = QUESTION_WORDS + 2 * slots + count
    table[at] = cursor
    table[at + (slots >> 1)] = 0
    table[Q_COUNT] = count + 1
    return count


@kernel
def _walk(h, cursor, table, row, numbers):
    """Do :func:`successors` for the tokens that are text, by one walk of the trie with whole cursors; 0, ``FULL`` or a status.

    Neighbouring tokens mostly lead to the same cursor, so the last one (``last``) is compared first.
    """
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    below = i32(h, layout.TRIE_BELOW)
    ranks = i32(h, layout.TRIE_RANK)
    listed = i32(h, layout.TRIE_LISTED)
    place, base, _, end = begin_walk(h, np.int64(-1), 1)
    if place < 0:
        return place
    cursors = i64(h, layout.STACK)
    cursors[place] = cursor
    node = np.int64(0)
    visited = 0
    numbered = 0
    last, number = np.int64(0), np.int64(-1)
    while node < end:
        visited += 1
        depth = base + depths[node]
        before = cursors[depth - 1]
        byte = np.int64(bytes_[node])
        after = step_inside(h, before, byte)
        if after < 0:
            if not spend(h, _STEP_WORK):  # spent at once, since a walk that returns a status (FULL, GROW) starts over
                return np.int64(statuses.LIMIT_WORK)
            after = step(h, before, byte)
            if after < 0:
                return after
        if after == 0:
            node += skips[node]
            continue
        token = tokens[node]
        if token >= 0 and (row[token >> 5] >> np.int32(token & 31)) & 1:
            if after != last:
                last, number = after, _number(table, after)
                if number < 0:
                    return np.int64(FULL)
            _note(table, numbers, token, number)
            numbered += 1
        if skips[node] == 1:
            node += 1
            continue
        state = after & lexer_layout.STATE_MASK
        loops = loops_below(h, state, skips[node]) if after >> 32 else np.int64(0)
        if loops < 0:
            return loops
        if loops == 0 or below[node] & ~loops:
            cursors[depth] = after
            node += 1
            continue
        # all bytes below lead back to this cursor, inside the same lexemes
        inside = ((after >> 32) << 32) | state
        if inside != last:
            last, number = inside, _number(table, inside)
            if number < 0:
                return np.int64(FULL)
        first_rank, last_rank = ranks[node + 1], ranks[node + skips[node]]
        for i in range(first_rank, last_rank):
            token = listed[i]
            if (row[token >> 5] >> np.int32(token & 31)) & 1:
                _note(table, numbers, token, number)
                numbered += 1
        visited += (last_rank - first_rank) >> COPIED_BITS
        node += skips[node]
    table[Q_NUMBERED] = numbered
    header(h)[layout.C_SUBWALKS] += 1
    return end_walk(h, place, visited, 8)
