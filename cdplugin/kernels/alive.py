"""Which rules may be under way at a node: facts are looked for only there.

A dot is *alive* at a node if some way through the lattice leads to it, going by what each rule allows next and not by which
rule it is in (the regular approximation of a grammar that takes a rule's end for the end of its nonterminal anywhere). What is
not alive is never asked for; what is need not be legal. In a program after ``=`` that leaves expressions, after ``int`` names.

Sets of dots are numbered, and what a lexeme makes of a set is found once (``AFTER_SETS``): few come up.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import mix
from cdplugin.kernels.jit import kernel, low_bit
from cdplugin.kernels.workspace import (
    AFTER,
    AFTER_SETS,
    ALIVE,
    ALIVE_LAST,
    BITS,
    DOT_SET_HASH,
    DOT_SETS,
    DOT_UNIONS,
    NEXT_ALIVE,
    SPAN_SETS,
    SPANS,
    SYMBOL_DOTS,
    SYMBOL_HEADS,
    W_ALIVE,
    W_CHANGED,
    W_DOT_SET,
    W_FIRST,
    W_GROW,
    W_HOLE,
    W_N_DOT_SETS,
    W_N_DOTS,
    W_N_LEXEMES,
    W_N_SYMBOLS_NT,
    W_NODES,
    W_SET,
    W_WIDTH,
    end_node,
    has_bit,
    new_row,
    room,
    tab,
    whead,
)

MOST_DOT_SETS = 1 << 12
UNIONS = 1 << 12


@kernel
def find_alive(w):
    """Fill ``NEXT_ALIVE`` for all nodes; 0 or ``W_GROW``. Needs ``SPANS``.

    Not where a mask is asked for, whose tokens may lead where no way through the lattice does; nor if there are many dots.
    """
    head = whead(w)
    words = head[W_DOT_SET]
    n_lexemes = head[W_N_LEXEMES]
    head[W_ALIVE] = 0
    if head[W_HOLE] >= 0 or tab(w, AFTER).shape[0] < head[W_N_DOTS] * words:
        return np.int64(0)
    nodes = 64 * head[W_WIDTH]
    if not room(w, ALIVE, nodes) or not room(w, NEXT_ALIVE, nodes) or not room(w, ALIVE_LAST, 2 * n_lexemes):
        return np.int64(W_GROW)
    if _keep_sets(w) < 0:
        return np.int64(W_GROW)
    last = tab(w, ALIVE_LAST)
    for i in range(2 * n_lexemes):
        last[i] = 0
    head[W_ALIVE] = 1
    alive = tab(w, NEXT_ALIVE)
    first = head[W_FIRST]
    for i in range(first, nodes):
        alive[i] = 0
    made = head[W_N_DOT_SETS] * words
    for i in range(words):
        tab(w, DOT_SETS)[made + i] = tab(w, AFTER)[i]
    begin = _number_of(w)
    if begin < 0:
        return begin
    alive[first] = begin
    for node in range(first, first + head[W_NODES]):
        grown = np.int64(1)
        while grown:
            grown = _pass_on(w, np.int64(node))
            if grown < 0:
                return grown
    return np.int64(0)


@kernel
def _keep_sets(w):
    """Forget the sets of dots, and with them the facts, if they have become many; 0 or ``W_GROW``. Set 0 is empty."""
    head = whead(w)
    if (
        not room(w, DOT_SET_HASH, 4 * MOST_DOT_SETS)
        or not room(w, DOT_SETS, 2 * head[W_DOT_SET])
        or not room(w, DOT_UNIONS, 2 * UNIONS)
    ):
        return np.int64(W_GROW)
    if head[W_N_DOT_SETS] == 0 or head[W_N_DOT_SETS] > MOST_DOT_SETS:
        index = tab(w, DOT_SET_HASH)
        for i in range(index.shape[0]):
            index[i] = 0
        for i in range(head[W_DOT_SET]):
            tab(w, DOT_SETS)[i] = 0
        for i in range(2 * UNIONS):
            tab(w, DOT_UNIONS)[i] = 0
        head[W_N_DOT_SETS] = 1
        head[W_CHANGED] = end_node(w)
    return np.int64(0)


@kernel
def _number_of(w):
    """The number of the set of dots that was written behind the last one; or ``W_GROW``."""
    head = whead(w)
    words = head[W_DOT_SET]
    count = head[W_N_DOT_SETS]
    n_lexemes = head[W_N_LEXEMES]
    sets = tab(w, DOT_SETS)
    made = count * words
    some = np.int64(0)
    hash_ = np.int64(2166136261)
    for i in range(words):
        some |= sets[made + i]
        hash_ = mix(hash_, sets[made + i])
    if some == 0:
        return np.int64(0)
    index = tab(w, DOT_SET_HASH)
    size = index.shape[0] - 1
    slot = (hash_ ^ (hash_ >> 16)) & size
    while index[slot] != 0:
        other = index[slot] * words
        same = True
        for i in range(words):
            if sets[other + i] != sets[made + i]:
                same = False
                break
        if same:
            return index[slot]
        slot = (slot + 1) & size
    if not room(w, DOT_SETS, (count + 2) * words) or not room(w, AFTER_SETS, (count + 1) * n_lexemes):
        return np.int64(W_GROW)
    if 2 * (count + 1) > index.shape[0]:  # one text with many
        room(w, DOT_SET_HASH, 2 * index.shape[0])
        head[W_N_DOT_SETS] = 0
        return np.int64(W_GROW)
    after = tab(w, AFTER_SETS)
    for i in range(count * n_lexemes, (count + 1) * n_lexemes):
        after[i] = 0
    index[slot] = count
    head[W_N_DOT_SETS] = count + 1
    return count


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
            target = _after(w, tab(w, NEXT_ALIVE)[node], lexeme)
            status = target
            if target > 0:
                status = _make_alive(w, node, lexeme, target, tab(w, SPANS)[node * n_lexemes + lexeme])
            if status < 0:
                return status
            grown |= status
    return grown


@kernel
def _after(w, alive, lexeme):
    """The set of what may be under way after a lexeme, given what is before it; or ``W_GROW``."""
    head = whead(w)
    at = alive * head[W_N_LEXEMES] + lexeme
    known = tab(w, AFTER_SETS)[at]
    if known > 0:
        return known - 1
    words = head[W_DOT_SET]
    sets = tab(w, DOT_SETS)
    after = tab(w, AFTER)
    made = head[W_N_DOT_SETS] * words
    for i in range(words):
        sets[made + i] = 0
    symbol = head[W_N_SYMBOLS_NT] + lexeme
    for j in range(tab(w, SYMBOL_HEADS)[symbol], tab(w, SYMBOL_HEADS)[symbol + 1]):
        dot = tab(w, SYMBOL_DOTS)[j]
        if has_bit(sets, alive * words, dot):
            for i in range(words):
                sets[made + i] |= after[(dot + 1) * words + i]
    found = _number_of(w)
    if found >= 0:
        tab(w, AFTER_SETS)[at] = found + 1
    return found


@kernel
def _make_alive(w, node, lexeme, target, ends):
    """Add a set of dots at every node of a row: 1 if ``node`` is one of them and something was new there, 0, or ``W_GROW``.

    What a lexeme was last followed by, and to which nodes, is kept: from the next node it is mostly the same.
    """
    head = whead(w)
    alive = tab(w, NEXT_ALIVE)
    last = tab(w, ALIVE_LAST)  # by lexeme: the row of the nodes, the set
    if last[2 * lexeme] == 0:
        row = new_row(w)
        if row < 0:
            return row
        last[2 * lexeme] = row
    bits = tab(w, BITS)
    done = last[2 * lexeme]
    same = last[2 * lexeme + 1] == target
    last[2 * lexeme + 1] = target
    grown = np.int64(0)
    for k in range(node >> 6, head[W_WIDTH]):
        if not same:
            bits[done + k] = 0
        word = bits[ends + k] & ~bits[done + k]
        bits[done + k] |= word
        while word:
            end = 64 * k + low_bit(word)
            word &= word - 1
            if alive[end] == target:
                continue
            united = _unite(w, alive[end], target)
            if united < 0:
                return united
            if end == node and united != alive[end]:
                grown = np.int64(1)
            alive[end] = united
    return grown


@kernel
def _unite(w, one, other):
    """The union of two sets of dots; or ``W_GROW``."""
    if one == 0:
        return other
    head = whead(w)
    key = (one << 32) | other
    united = tab(w, DOT_UNIONS)
    at = 2 * ((one * 31 + other) & (UNIONS - 1))
    if united[at] == key:
        return united[at + 1]
    words = head[W_DOT_SET]
    sets = tab(w, DOT_SETS)
    made = head[W_N_DOT_SETS] * words
    for i in range(words):
        sets[made + i] = sets[one * words + i] | sets[other * words + i]
    found = _number_of(w)
    if found >= 0:
        united[at] = key
        united[at + 1] = found
    return found


@kernel
def last_unasked(w, beyond):
    """The rightmost node, right of ``beyond``, at which facts are wanted that were not looked for when ``ALIVE`` was made; or
    ``beyond``.
    """
    head = whead(w)
    words = head[W_DOT_SET]
    if head[W_ALIVE] == 0:
        return beyond
    sets = tab(w, DOT_SETS)
    for node in range(end_node(w), beyond, -1):
        before = tab(w, ALIVE)[node] * words
        now = tab(w, NEXT_ALIVE)[node] * words
        for i in range(words):
            if sets[now + i] & ~sets[before + i]:
                return np.int64(node)
    return beyond


@kernel
def take_alive(w, last):
    """Make ``NEXT_ALIVE`` what is alive at the nodes up to ``last``."""
    head = whead(w)
    if head[W_ALIVE]:
        for node in range(head[W_FIRST], last + 1):
            tab(w, ALIVE)[node] = tab(w, NEXT_ALIVE)[node]
