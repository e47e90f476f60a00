"""The *heads* of a lexer state: the bytes that may come next (its first set), noted where they are few.

Inside a name or a number few bytes lead anywhere. With their heads known, a trie walk need not visit the hundreds of children
with other bytes (:mod:`cdplugin.kernels.masks.base_walk`), and a transition row can be short
(:mod:`cdplugin.kernels.lexer.rows`). Heads are a superset: a byte that is no head is certainly dead; a head may be.

For ``{w: [a-f]+, t: true}`` the heads are ``a b c d e f t``. For ``{s: [^"]*"}`` they would be all bytes: noted as ``MANY``.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import longest_of, value_of
from cdplugin.kernels.regex.expressions import add_set, nullable
from cdplugin.kernels.regex.literals import add_literal_heads
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import fill_words, header, i64, kind_of, length_of, spend, word_of
from cdplugin.kernels.store.byte_sets import count_bytes_of, fill_bytes
from cdplugin.kernels.store.stack import push, push_all

MOST_HEADS = 24  # the bytes of three words; with more, visiting all children is as fast
MANY = 256  # in L_N_HEADS: more than MOST_HEADS
_COUNT = 255  # bits of L_N_HEADS that count the bytes in L_HEADS
_MOST_PARTS = 64  # parts of expressions that are looked through; with more, visiting all children is no worse


@kernel
def n_heads_of(h, state):
    """Return the number of bytes in L_HEADS of a state that has a row."""
    return i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS] & _COUNT


@kernel
def head_at(h, state, place):
    """Return byte number ``place`` of a state's L_HEADS."""
    word = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_HEADS + (place >> 3)]
    return (word >> (8 * (place & 7))) & 255


@kernel
def head_from(h, state, byte):
    """Return the first head not below ``byte`` of a state with few heads; 256 if there is none.

    A linear search over at most ``MOST_HEADS`` bytes, packed eight to a word.
    """
    for i in range(n_heads_of(h, state)):
        head = head_at(h, state, i)
        if head >= byte:
            return head
    return np.int64(256)


@kernel
def head_place(h, state, byte):
    """Return the index of a byte in L_HEADS; -1 if it is not there."""
    for i in range(n_heads_of(h, state)):
        if head_at(h, state, i) == byte:
            return np.int64(i)
    return np.int64(-1)


@kernel
def find_heads(h, state):
    """Compute the heads of a state: return how many, ``MANY`` if they are many or hard to tell, or a status.

    If they are few, they are written to L_HEADS, ascending, eight to a word. A state that holds a match of a LONGEST lexeme has
    many heads: any byte that no lexeme goes on with ends that match.
    """
    if longest_of(h, state):
        return np.int64(MANY)
    value = value_of(h, state)
    base = header(h)[layout.STACK_TOP]
    for i in range(length_of(h, value)):
        if push(h, word_of(h, value, i) & layout.LOW_32) < 0:
            return np.int64(statuses.GROW)
    found = byte_set(0)
    is_few = add_first_bytes(h, base, found, MOST_HEADS, _MOST_PARTS)
    if is_few <= 0:
        return is_few if is_few < 0 else np.int64(MANY)
    return np.int64(note_heads(h, state, found, MOST_HEADS))


@kernel
def note_heads(h, state, found, most):
    """Write a set of bytes to a state's L_HEADS, ascending, eight to a word; return how many, or -1, writing nothing, if more
    than ``most``.
    """
    if count_bytes_of(found) > most:
        return np.int64(-1)
    records = i64(h, layout.LEXER_STATES)
    first = state * lexer_layout.LEXER_WORDS + lexer_layout.L_HEADS
    fill_words(records, first, 3, 0)
    count = 0
    for i in range(4):
        rest = found[i]
        while rest:
            bit = low_bit(rest)
            records[first + (count >> 3)] |= np.int64(64 * i + bit) << (8 * (count & 7))
            count += 1
            rest ^= np.int64(1) << bit
    return np.int64(count)


@kernel
def add_first_bytes(h, base, found, most_heads, most_parts):
    """Take the expressions ``STACK[base:top]`` off the stack and add a superset of their first bytes to the set ``found`` (4
    words).

    Returns 1; 0 if it gave up, at more than ``most_heads`` bytes or ``most_parts`` parts; or a status. It reads byte sets and
    literals at the front, and behind nullable parts. For a complement it adds all bytes. For an intersection it takes the first
    bytes of the first part, which every match matches.
    """
    head = header(h)
    parts = np.int64(0)
    is_few = True
    while head[layout.STACK_TOP] > base and is_few:
        head[layout.STACK_TOP] -= 1
        e = i64(h, layout.STACK)[head[layout.STACK_TOP]]
        if not spend(h, 1 + length_of(h, e)):
            return np.int64(statuses.LIMIT_WORK)
        kind = kind_of(h, e)
        parts += 1
        if kind == layout.K_BYTES:
            add_set(h, e, found)
        elif kind == layout.K_LITERALS:
            is_few = add_literal_heads(h, e, found, most_heads)
        elif kind == layout.K_NOT:
            fill_bytes(found, np.int64(-1))
        elif kind == layout.K_ALT:
            parts += length_of(h, e)
            if parts <= most_parts and push_all(h, e) < 0:
                return np.int64(statuses.GROW)
        elif kind == layout.K_CAT or kind == layout.K_REPEAT or kind == layout.K_AND:
            if push(h, word_of(h, e, 0)) < 0:
                return np.int64(statuses.GROW)
            if kind == layout.K_CAT and nullable(h, word_of(h, e, 0)) and push(h, word_of(h, e, 1)) < 0:
                return np.int64(statuses.GROW)
        is_few = is_few and parts <= most_parts and count_bytes_of(found) <= most_heads
    head[layout.STACK_TOP] = base
    return np.int64(is_few)
