"""Sets of literals: a range of a sorted table, from some depth on, instead of a node for each byte.

``K_LITERALS`` holds ``(low, high, depth)``: the literals ``low..high``, whose first ``depth`` bytes are equal and have been
read. They are sorted. So the literals that go on with a byte are neighbours, found by bisection, and only the first can end at
``depth``::

    literals     0 do   1 done   2 for   3 form        by "d": (0, 2, 1)     by "f": (2, 4, 1)
    (0, 2, 1)    do, done after "d"                    by "o": (0, 2, 2), nullable: "do" ends; "done" goes on

The sorted array replaces a trie (Aho and Corasick's goto function, 1975, without its nodes): ten thousand enum members take one
node, and a step costs two bisections.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import i64, u8, word_of
from cdplugin.kernels.store.byte_sets import add_byte


@kernel
def _first_above(h, low, high, depth, byte):
    """Return the first of the literals ``low..high`` whose byte at ``depth`` is above ``byte``; ``high`` if there is none."""
    offsets = i64(h, layout.LITERAL_OFFSETS)
    text = u8(h, layout.LITERAL_BYTES)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(text[offsets[middle] + depth]) <= byte:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _longer_ones(h, e):
    """Return ``(low, high, depth)`` of the literals of ``e`` that do not end at ``depth``."""
    offsets = i64(h, layout.LITERAL_OFFSETS)
    low = word_of(h, e, 0)
    depth = word_of(h, e, 2)
    if offsets[low + 1] - offsets[low] == depth:
        low += 1
    return low, word_of(h, e, 1), depth


@kernel
def literals_with(h, e, byte):
    """Return the range ``(low, high)`` of the literals of ``e`` that go on with ``byte``; empty if ``low == high``."""
    low, high, depth = _longer_ones(h, e)
    low = _first_above(h, low, high, depth, byte - 1)
    return low, _first_above(h, low, high, depth, byte)


@kernel
def literals_after(h, e, text, start, end):
    """Return ``(low, high, ended)``: the range of the literals of ``e`` that begin with the bytes ``text[start:end]``, and
    whether one ends before the last of these.
    """
    low, high, depth = word_of(h, e, 0), word_of(h, e, 1), word_of(h, e, 2)
    offsets = i64(h, layout.LITERAL_OFFSETS)
    ended = False
    for i in range(start, end):
        if low < high and offsets[low + 1] - offsets[low] == depth:  # they are sorted: only the first can end here
            ended = True
            low += 1
        byte = np.int64(text[i])
        low = _first_above(h, low, high, depth, byte - 1)
        high = _first_above(h, low, high, depth, byte)
        depth += 1
    return low, high, ended


@kernel
def add_literal_heads(h, e, found, most):
    """Add the first bytes of the literals of ``e`` to the set ``found`` (4 words), at most ``most``; return whether those are
    all.

    Each byte is found by a bisection from the one before it.
    """
    low, high, depth = _longer_ones(h, e)
    offsets = i64(h, layout.LITERAL_OFFSETS)
    text = u8(h, layout.LITERAL_BYTES)
    for _ in range(most):
        if low == high:
            break
        byte = np.int64(text[offsets[low] + depth])
        add_byte(found, byte)
        low = _first_above(h, low + 1, high, depth, byte)
    return low == high
