"""Lexeme boundaries: the nodes of the lattice, and the edges between them.

LONGEST lexemes that may start at one place compete, and which ones compete depends on what ended there. Therefore a place in
the text has a node for each *set of lexemes that may come next* (``ALLOWED``): the union of what may follow the lexemes that
matched together (``FOLLOWS``), or, after a skip, the ``ALLOWED`` of the node where it began, cut to what the skip may stand
before. So each path through the lattice determines who competes along it, whatever other paths pass through the same places::

    int x = 5 □ ...      after "5": {+ - * / ; ...}      node 7
                         after "x": {= [ ; ...}          node 4

A fixed text never has more competitors than the open slot that it fills had, so filling a slot keeps completions. EXACT lexemes
do not compete: without LONGEST lexemes, and in a loose workspace, a place has one node (``W_SPLIT`` is 0).

Nodes inside a slot (one for each class of token rests) and in a gap are *open*: inside a slot all lexemes of the grammar
compete, in a gap all that may come up there.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.ahead import narrow
from cdplugin.kernels.infill.spans import end_row
from cdplugin.kernels.infill.starts import allow
from cdplugin.kernels.infill.workspace import charge, end_node, or_row, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer.fields import is_skip
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import copy_words, equal_words, fill_words, length_of, word_of


@kernel
def clear_node(w, node, is_open):
    """Reset a node: nothing may start there yet. ``is_open``: 1 inside a slot, where all lexemes compete."""
    words = whead(w)[ws.W_SET]
    allowed = tab(w, ws.ALLOWED)
    fill_words(allowed, node * words, words, 0)
    tab(w, ws.NODE_OPEN)[node] = is_open


@kernel
def fresh_node(w, is_open):
    """A new node at which nothing may start yet; ``WIDEN`` if rows have no bit left for it (two bits belong to the end)."""
    head = whead(w)
    node = head[ws.W_NODES]
    if node >= end_node(w):
        return np.int64(statuses.WIDEN)
    head[ws.W_NODES] = node + 1
    clear_node(w, node, is_open)
    return node


@kernel
def edge(w, start, lexeme, end):
    """Record that ``lexeme`` may lead from node ``start`` to node ``end``; 0 or ``W_GROW``."""
    row = end_row(w, lexeme, end)
    if row < 0:
        return row
    set_bit(tab(w, ws.LIVE_BITS), row, start)
    return np.int64(0)


@kernel
def _edges(w, starts, lexeme, end):
    """:func:`edge` from every node of the row ``starts``; 0 or ``W_GROW``."""
    row = end_row(w, lexeme, end)
    if row < 0 or not charge(w, 4 + whead(w)[ws.W_WIDTH]):
        return np.int64(statuses.W_GROW)
    or_row(tab(w, ws.LIVE_BITS), row, starts, whead(w)[ws.W_WIDTH])
    return np.int64(0)


@kernel
def end_inside(h, w, starts, lexeme, end):
    """End a lexeme that began at the nodes ``starts`` at an open node, in a gap or slot; 0 or a status."""
    allow(h, w, starts, lexeme, end)
    return _edges(w, starts, lexeme, end)


@kernel
def has_skip(h, accepted):
    """Whether a skip is among the lexemes that match together: then the skip is read and the others are not."""
    for i in range(length_of(h, accepted)):
        if is_skip(h, word_of(h, accepted, i)):
            return True
    return False


@kernel
def end_text(h, w, starts, accepted):
    """End the lexemes of a set where the text may end (:func:`end_node`), from each node of ``starts``; 0 or a status."""
    skips = has_skip(h, accepted)
    for i in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, i)
        if skips and not is_skip(h, lexeme):
            continue
        status = _edges(w, starts, lexeme, end_node(w))
        if status < 0:
            return status
    return np.int64(0)


@kernel
def end_at(h, w, starts, accepted, first, k):
    """End the lexemes of a set together at the boundary before element ``k``, whose nodes begin at ``first``; 0 or a status.

    ``accepted``: a ``K_ACCEPTED`` value; ``starts``: the row of ``LIVE_BITS`` of the nodes at which the lexemes began. Without
    LONGEST lexemes the boundary has one node, whose ``ALLOWED`` grows. With them (``W_SPLIT``) it is the node for exactly what
    may follow these lexemes, made now if it is new; its ``ALLOWED`` never changes.
    """
    head = whead(w)
    skips = has_skip(h, accepted)
    if skips and head[ws.W_SPLIT]:
        return _end_skips(h, w, starts, accepted, first, k)
    if head[ws.W_SPLIT]:
        may_follow(h, w, accepted)
        if head[ws.W_NARROW]:
            matters = narrow(h, w, k)
            if matters <= 0:
                return matters
        end = _node_of_target(w, first)
    elif first < head[ws.W_NODES]:
        end = np.int64(first)
    else:
        end = fresh_node(w, 0)
    if end < 0:
        return end
    for i in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, i)
        if skips and not is_skip(h, lexeme):
            continue
        if not head[ws.W_SPLIT]:
            allow(h, w, starts, lexeme, end)
        status = _edges(w, starts, lexeme, end)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _end_skips(h, w, starts, accepted, first, k):
    """:func:`end_at` for a set with skips in it: what may follow depends on where the skips began, so each start has its own
    end.
    """
    for i in range(whead(w)[ws.W_WIDTH]):
        word = tab(w, ws.LIVE_BITS)[starts + i]
        while word:
            node = 64 * i + low_bit(word)
            word &= word - 1
            if not charge(w, 4 + whead(w)[ws.W_SET] * (1 + length_of(h, accepted))):
                return np.int64(statuses.W_GROW)
            after_skips(h, w, accepted, node)
            if whead(w)[ws.W_NARROW]:
                matters = narrow(h, w, k)
                if matters < 0:
                    return matters
                if matters == 0:
                    continue
            end = _node_of_target(w, first)
            if end < 0:
                return end
            for j in range(length_of(h, accepted)):
                skip = word_of(h, accepted, j)
                if is_skip(h, skip):
                    status = edge(w, node, skip, end)
                    if status < 0:
                        return status
    return np.int64(0)


@kernel
def may_follow(h, w, accepted):
    """Write to ``TARGET`` the lexemes that may follow one of a set (``FOLLOWS``), anywhere in the grammar."""
    words = whead(w)[ws.W_SET]
    target = tab(w, ws.TARGET)
    follows = tab(w, ws.FOLLOWS)
    fill_words(target, 0, words, 0)
    charge(w, words * (1 + length_of(h, accepted)))
    for j in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, j)
        for i in range(words):
            target[i] |= follows[lexeme * words + i]


@kernel
def after_skips(h, w, accepted, node):
    """Write to ``TARGET`` the lexemes before which one of the skips in a set may stand and that may start at ``node``, where
    the skip began. Inside a slot all lexemes may.
    """
    words = whead(w)[ws.W_SET]
    target = tab(w, ws.TARGET)
    skipped = tab(w, ws.SKIPPED)
    allowed = tab(w, ws.ALLOWED)
    fill_words(target, 0, words, 0)
    for j in range(length_of(h, accepted)):
        skip = word_of(h, accepted, j)
        for i in range(words):
            target[i] |= skipped[skip * words + i]
    if not tab(w, ws.NODE_OPEN)[node]:
        for i in range(words):
            target[i] &= allowed[node * words + i]


@kernel
def _node_of_target(w, first):
    """The node of the current boundary (from ``first`` on) whose ``ALLOWED`` is ``TARGET``, made now if it is new; or
    ``WIDEN``.

    A linear search: a boundary has few nodes.
    """
    words = whead(w)[ws.W_SET]
    target = tab(w, ws.TARGET)
    allowed = tab(w, ws.ALLOWED)
    for node in range(first, whead(w)[ws.W_NODES]):
        charge(w, 2)
        if equal_words(allowed, node * words, target, 0, words):
            return np.int64(node)
    node = fresh_node(w, 0)
    if node >= 0:
        copy_words(allowed, node * words, target, 0, words)
    return node


@kernel
def takes(w, node):
    """Whether all of ``TARGET`` may start at a node."""
    words = whead(w)[ws.W_SET]
    target = tab(w, ws.TARGET)
    allowed = tab(w, ws.ALLOWED)
    for i in range(words):
        if target[i] & ~allowed[node * words + i]:
            return False
    return True
