"""The grammar on the lattice: is there a word of the language among the ways through the text with gaps?

Bar-Hillel, Perles and Shamir (1961): the intersection of a context-free grammar with a finite automaton is empty or not
according to facts "``A`` leads from node p to node q". The facts are found from right to left: at a node, ``REST[dot]`` is the
row of the nodes at which a rule that stands at ``dot`` may end. It is made of the rows of its first symbol's ends, which lie
further right, so only a gap (lexemes that lead from a node to itself) and empty rules need a fixpoint, inside one node. Only
what is not empty is touched.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import DOT_LEFT, DOT_NULL_REST, DOT_SYMBOL, NULLABLE, i64
from cdplugin.kernels.jit import kernel
from cdplugin.kernels.starts import follow_skips
from cdplugin.kernels.workspace import (
    BITS,
    DERIVED,
    DONE,
    IS_FIRST,
    QUEUE,
    REST,
    SPAN_SETS,
    SPANS,
    SYMBOL_DOTS,
    SYMBOL_HEADS,
    W_BITS_FACTS,
    W_BITS_USED,
    W_GROW,
    W_N_DOTS,
    W_N_LEXEMES,
    W_N_SYMBOLS_NT,
    W_N_TOUCHED,
    W_NODES,
    W_SET,
    W_TOUCHED_FACTS,
    W_WIDTH,
    end_node,
    final_node,
    has_bit,
    low_bit,
    new_row,
    or_row,
    room,
    row_in,
    tab,
    whead,
)

END_OF_RULE = -1


@kernel
def build_rests(h, w):
    """Fill ``REST`` and ``DERIVED`` for all nodes; 1 if the text can be completed, 0 if not, or a status."""
    head = whead(w)
    n_dots = head[W_N_DOTS]
    n_nonterminals = head[W_N_SYMBOLS_NT]
    if not room(w, REST, 64 * head[W_WIDTH] * n_dots) or not room(w, DERIVED, 64 * head[W_WIDTH] * n_nonterminals):
        return np.int64(W_GROW)
    if not room(w, QUEUE, 2 * n_nonterminals + 2):
        return np.int64(W_GROW)
    if not room(w, DONE, n_lexemes_and_dots(w)):
        return np.int64(W_GROW)
    done = tab(w, DONE)
    for lexeme in range(head[W_N_LEXEMES]):
        done[lexeme] = -1
    status = _rests_of(h, w, end_node(w))
    if status < 0:
        return status
    for node in range(head[W_NODES] - 1, -1, -1):
        if node > 0:
            status = follow_skips(h, w, node)
        if status >= 0:
            status = _rests_of(h, w, node)
        if status < 0:
            return status
    head[W_BITS_FACTS] = head[W_BITS_USED]
    head[W_TOUCHED_FACTS] = head[W_N_TOUCHED]
    row = tab(w, REST)[0]
    return np.int64(1 if row and has_bit(tab(w, BITS), row, final_node(w)) else 0)


@kernel
def _rests_of(h, w, node):
    """Fill a node's rows, given those of all nodes right of it; 0 or a status."""
    head = whead(w)
    n_nonterminals = head[W_N_SYMBOLS_NT]
    width = head[W_WIDTH]
    heads = tab(w, SYMBOL_HEADS)
    dots = tab(w, SYMBOL_DOTS)
    waiting = np.int64(0)  # nonterminals with ends that were not followed: QUEUE
    fresh = new_row(w)
    if fresh < 0:
        return fresh
    bits = tab(w, BITS)
    words = head[W_SET]
    for k in range(words):
        set_ = tab(w, SPAN_SETS)[node * words + k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            waiting = _rests_by(h, w, node, lexeme, waiting)
            if waiting < 0:
                return waiting
    at = 0
    while at < waiting:
        nonterminal = tab(w, QUEUE)[at]
        at += 1
        entry = tab(w, DERIVED)[node * n_nonterminals + nonterminal]
        for i in range(width):  # the second row of an entry: what was followed already
            bits[fresh + i] = bits[entry + i] & ~bits[entry + width + i]
            bits[entry + width + i] = bits[entry + i]
        for i in range(heads[nonterminal], heads[nonterminal + 1]):
            waiting = _gather(h, w, node, dots[i], fresh, waiting)
            if waiting < 0:
                return waiting
        if at == waiting:
            at = 0
            waiting = np.int64(0)
    return np.int64(0)


@kernel
def _rests_by(h, w, node, lexeme, waiting):
    """Follow the lexeme from ``node`` to all of its ends; returns how many nonterminals wait in ``QUEUE``, or a status.

    Long lexemes end at many nodes, most of which are also ends from a node further right: what is known there is taken over.
    """
    head = whead(w)
    n_lexemes = head[W_N_LEXEMES]
    symbol = head[W_N_SYMBOLS_NT] + lexeme
    width = head[W_WIDTH]
    heads = tab(w, SYMBOL_HEADS)
    dots = tab(w, SYMBOL_DOTS)
    row = tab(w, SPANS)[node * n_lexemes + lexeme]
    other = np.int64(-1)
    if width > 1:
        other = tab(w, DONE)[lexeme]
        tab(w, DONE)[lexeme] = node
    if other >= 0:
        known = tab(w, SPANS)[other * n_lexemes + lexeme]
        if contains(tab(w, BITS), row, known, width):
            ends = new_row(w)
            if ends < 0:
                return ends
            bits = tab(w, BITS)
            for i in range(width):
                bits[ends + i] = bits[row + i] & ~bits[known + i]
            row = ends
        else:
            other = np.int64(-1)
    for i in range(heads[symbol], heads[symbol + 1]):
        if other >= 0:
            waiting = _take_over(h, w, node, dots[i], other, waiting)
            if waiting < 0:
                return waiting
        waiting = _gather(h, w, node, dots[i], row, waiting)
        if waiting < 0:
            return waiting
    return np.int64(waiting)


@kernel
def n_lexemes_and_dots(w):
    """The size of ``DONE``."""
    return max(whead(w)[W_N_LEXEMES], 2 * whead(w)[W_N_DOTS])


@kernel
def contains(bits, row, other, width):
    """Whether a row has all nodes of another."""
    for i in range(width):
        if bits[other + i] & ~bits[row + i]:
            return False
    return True


@kernel
def _take_over(h, w, node, dot, other, waiting):
    """Add ``REST[dot]`` of another node; returns how many nonterminals wait in ``QUEUE``, or a status."""
    n_dots = whead(w)[W_N_DOTS]
    known = tab(w, REST)[other * n_dots + dot]
    if known == 0:
        return np.int64(waiting)
    into = row_in(w, REST, node * n_dots + dot)
    if into < 0:
        return into
    if not or_row(tab(w, BITS), into, known, whead(w)[W_WIDTH]):
        return np.int64(waiting)
    return _grown(h, w, node, dot, waiting)


@kernel
def _gather(h, w, node, dot, ends, waiting):
    """The symbol after ``dot`` leads from ``node`` to the row ``ends``: add what the rest of the rule leads to from there.

    Returns how many nonterminals wait in ``QUEUE``, or a status.
    """
    head = whead(w)
    width = head[W_WIDTH]
    n_dots = head[W_N_DOTS]
    bits = tab(w, BITS)
    rest = tab(w, REST)
    null_rest = i64(h, DOT_NULL_REST)[dot + 1]
    goes_on = i64(h, DOT_SYMBOL)[dot + 1] != END_OF_RULE
    into = rest[node * n_dots + dot]
    grew = False
    for i in range(width):
        word = bits[ends + i]
        if word == 0:
            continue
        if null_rest:
            if into == 0:
                into = row_in(w, REST, node * n_dots + dot)
                if into < 0:
                    return into
            grew = grew or (word & ~bits[into + i]) != 0
            bits[into + i] |= word
        while goes_on and word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            after = rest[end * n_dots + dot + 1]
            if after == 0:
                continue
            if into == 0:
                into = row_in(w, REST, node * n_dots + dot)
                if into < 0:
                    return into
            if after != into and or_row(bits, into, after, width):
                grew = True
    return _grown(h, w, node, dot, waiting) if grew else waiting


@kernel
def _grown(h, w, node, dot, waiting):
    """``REST[dot]`` at ``node`` grew: pass it on to the rule's nonterminal, or to the dots before it that it can be reached
    from without moving. Returns how many nonterminals wait, or a status.
    """
    head = whead(w)
    n_dots = head[W_N_DOTS]
    n_nonterminals = head[W_N_SYMBOLS_NT]
    width = head[W_WIDTH]
    first = tab(w, IS_FIRST)
    symbols = i64(h, DOT_SYMBOL)
    while True:
        row = tab(w, REST)[node * n_dots + dot]
        if first[dot]:
            left = i64(h, DOT_LEFT)[dot]
            index = node * n_nonterminals + left
            entry = tab(w, DERIVED)[index]
            if entry == 0:
                entry = row_in(w, DERIVED, index)
                if entry < 0 or new_row(w) < 0:
                    return np.int64(W_GROW)
            bits = tab(w, BITS)
            pending = False
            for i in range(width):
                pending = pending or (bits[entry + i] & ~bits[entry + width + i]) != 0
            if or_row(bits, entry, row, width) and not pending:
                if not room(w, QUEUE, waiting + 1):
                    return np.int64(W_GROW)
                tab(w, QUEUE)[waiting] = left
                waiting += 1
            return waiting
        symbol = symbols[dot - 1]
        if not stays(h, w, node, symbol):
            return waiting
        into = row_in(w, REST, node * n_dots + dot - 1)
        if into < 0:
            return into
        if not or_row(tab(w, BITS), into, row, width):
            return waiting
        dot -= 1


@kernel
def stays(h, w, node, symbol):
    """Whether a symbol leads from a node to itself: it derives the empty string, or lies in a gap."""
    head = whead(w)
    if symbol >= 0:
        if i64(h, NULLABLE)[symbol]:
            return True
        row = tab(w, DERIVED)[node * head[W_N_SYMBOLS_NT] + symbol]
    else:
        row = tab(w, SPANS)[node * head[W_N_LEXEMES] - 2 - symbol]
    return row != 0 and has_bit(tab(w, BITS), row, node)
