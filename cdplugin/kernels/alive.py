"""Which rules may be under way at a node: facts are looked for only there.

A dot is *alive* at a node if some way through the lattice leads to it, going by what each rule allows next and not by which
rule it is in (the regular approximation of a grammar that takes a rule's end for the end of its nonterminal anywhere). What is
not alive is never asked for; what is need not be legal. In a program after ``=`` that leaves expressions, after ``int`` names.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit import kernel
from cdplugin.kernels.workspace import (
    AFTER,
    ALIVE,
    ALIVE_LAST,
    BITS,
    SPAN_SETS,
    SPANS,
    SYMBOL_DOTS,
    SYMBOL_HEADS,
    TARGET_DOTS,
    W_ALIVE,
    W_DOT_SET,
    W_GROW,
    W_HOLE,
    W_N_DOTS,
    W_N_LEXEMES,
    W_N_SYMBOLS_NT,
    W_NODES,
    W_SET,
    W_WIDTH,
    has_bit,
    low_bit,
    new_row,
    room,
    tab,
    whead,
)


@kernel
def find_alive(w):
    """Fill ``ALIVE`` for all nodes; 0 or ``W_GROW``. Needs ``SPANS``.

    Not where a mask is asked for, whose tokens may lead where no way through the lattice does; nor if there are many dots.
    """
    head = whead(w)
    words = head[W_DOT_SET]
    head[W_ALIVE] = 0
    if head[W_HOLE] >= 0 or tab(w, AFTER).shape[0] < head[W_N_DOTS] * words:
        return np.int64(0)
    nodes = 64 * head[W_WIDTH]
    if not room(w, ALIVE, nodes * words) or not room(w, TARGET_DOTS, words):
        return np.int64(W_GROW)
    if not room(w, ALIVE_LAST, head[W_N_LEXEMES] * (words + 1)):
        return np.int64(W_GROW)
    last = tab(w, ALIVE_LAST)
    for i in range(head[W_N_LEXEMES] * (words + 1)):
        last[i] = 0
    head[W_ALIVE] = 1
    alive = tab(w, ALIVE)
    for i in range(nodes * words):
        alive[i] = 0
    for i in range(words):
        alive[i] = tab(w, AFTER)[i]
    for node in range(head[W_NODES]):
        grown = np.int64(1)
        while grown:
            grown = _pass_on(w, np.int64(node))
            if grown < 0:
                return grown
    return np.int64(0)


@kernel
def _pass_on(w, node):
    """Let what is alive at a node move over its lexemes: 1 if anything became alive at the node itself (in a gap), 0, or
    ``W_GROW``.
    """
    head = whead(w)
    words = head[W_SET]
    n_lexemes = head[W_N_LEXEMES]
    grown = np.int64(0)
    for k in range(words):
        set_ = tab(w, SPAN_SETS)[node * words + k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            if not _after(w, node, lexeme):
                continue
            status = _make_alive(w, node, lexeme, tab(w, SPANS)[node * n_lexemes + lexeme])
            if status < 0:
                return status
            grown |= status
    return grown


@kernel
def _after(w, node, lexeme):
    """Write to ``TARGET_DOTS`` what may be under way after a lexeme from a node; whether there is anything."""
    head = whead(w)
    words = head[W_DOT_SET]
    target = tab(w, TARGET_DOTS)
    after = tab(w, AFTER)
    alive = tab(w, ALIVE)
    heads = tab(w, SYMBOL_HEADS)
    dots = tab(w, SYMBOL_DOTS)
    for i in range(words):
        target[i] = 0
    some = False
    symbol = head[W_N_SYMBOLS_NT] + lexeme
    for j in range(heads[symbol], heads[symbol + 1]):
        if has_bit(alive, node * words, dots[j]):
            some = True
            for i in range(words):
                target[i] |= after[(dots[j] + 1) * words + i]
    return some


@kernel
def _make_alive(w, node, lexeme, ends):
    """Add ``TARGET_DOTS`` at every node of a row: 1 if ``node`` is one of them and something was new there, 0, or ``W_GROW``.

    What a lexeme was last followed by, and to which nodes, is kept: from the next node it is mostly the same.
    """
    head = whead(w)
    words = head[W_DOT_SET]
    target = tab(w, TARGET_DOTS)
    alive = tab(w, ALIVE)
    last = tab(w, ALIVE_LAST)
    at = lexeme * (words + 1)  # the row of the nodes, then the dots
    if last[at] == 0:
        row = new_row(w)
        if row < 0:
            return row
        last[at] = row
    bits = tab(w, BITS)
    done = last[at]
    same = True
    for i in range(words):
        same = same and last[at + 1 + i] == target[i]
        last[at + 1 + i] = target[i]
    grown = np.int64(0)
    for k in range(node >> 6, head[W_WIDTH]):
        if not same:
            bits[done + k] = 0
        word = bits[ends + k] & ~bits[done + k]
        bits[done + k] |= word
        while word:
            end = 64 * k + low_bit(word)
            word &= word - 1
            for i in range(words):
                if end == node and target[i] & ~alive[end * words + i]:
                    grown = np.int64(1)
                alive[end * words + i] |= target[i]
    return grown


@kernel
def is_alive(w, node, dot):
    """Whether facts are wanted for a dot at a node."""
    head = whead(w)
    return head[W_ALIVE] == 0 or has_bit(tab(w, ALIVE), node * head[W_DOT_SET], dot)
