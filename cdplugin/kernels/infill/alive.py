"""Which rules may be under way at a node: facts are looked for only there.

A dot is *alive* at a node if a lexeme that may come right before it ends there (or the text begins there), going by what each
rule allows next and not by which rule it is in: a rule's end is taken for the end of its nonterminal anywhere. What is not
alive is never asked for; what is need not be legal. In a program after ``=`` that leaves expressions, after ``int`` names.
(What may come before *that* lexeme rules out three facts in a hundred more, in C++, and takes as long as they do.)

In ``[a □ ]``, after ``[`` at node 1, the dots ``S -> "[" • L "]"``, ``L -> • E …`` and ``E -> • w`` are alive, and no other.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, end_node, has_bit, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import statuses


@kernel
def find_alive(w):
    """Fill ``NEXT_ALIVE`` for all nodes; 0 or ``W_GROW``. Needs ``ENDS_SETS``.

    ``W_ALIVE`` says afterwards whether it is there. It is not where a mask is asked for whose *no* counts, as its tokens may
    lead where no way through the lattice does (:func:`_is_whole`); nor if there are many dots. Cost: a set of dots for each
    pair (lexeme, node at which it ends).
    """
    head = whead(w)
    words = head[ws.W_TURN_SET]
    n_lexemes = head[ws.W_N_LEXEMES]
    width = head[ws.W_WIDTH]
    after = tab(w, ws.AFTER)
    head[ws.W_ALIVE] = 0
    if not _is_whole(w) or after.shape[0] < (n_lexemes + 1) * words:
        return np.int64(0)
    nodes = 64 * width
    if not room(w, ws.ALIVE, nodes * words) or not room(w, ws.NEXT_ALIVE, nodes * words):
        return np.int64(statuses.W_GROW)
    head[ws.W_ALIVE] = 1
    charge(w, (nodes * words) >> 2)
    alive = tab(w, ws.NEXT_ALIVE)
    first = head[ws.W_FIRST]
    last = end_node(w)
    for i in range(first * words, nodes * words):
        alive[i] = 0
    for i in range(words):
        alive[first * words + i] = after[n_lexemes * words + i]
    sets = tab(w, ws.ENDS_SETS)
    has_twins = head[ws.W_HAS_TWINS] != 0
    for lexeme in range(n_lexemes):
        for k in range(width):
            word = sets[lexeme * width + k]
            while word:
                end = 64 * k + low_bit(word)
                word &= word - 1
                if not charge(w, 2 + (words >> 1)):
                    return np.int64(statuses.W_GROW)
                if end < last:
                    end = first + (tab(w, ws.TWIN_OF)[end] if has_twins else end)
                for i in range(words):
                    alive[end * words + i] |= after[lexeme * words + i]
    return np.int64(0)


@kernel
def _is_whole(w):
    """Whether all that matters leads through the lattice.

    It does where no mask is asked for. The mask of a gap in the strict lattice may leave out a token with which a lexeme ends
    that no gap ends: it says *yes* only, and what it leaves out is asked one by one (:mod:`cdplugin.infill.answers`).
    """
    head = whead(w)
    hole = head[ws.W_HOLE]
    return hole < 0 or (head[ws.W_SPLIT] != 0 and head[ws.W_LOOSE] == 0 and tab(w, ws.ELEMENTS)[hole] == ws.GAP)


@kernel
def last_unasked(w, beyond):
    """The rightmost node, right of ``beyond``, at which facts are wanted that were not looked for when ``ALIVE`` was made; or
    ``beyond``. Facts that are reused were found for the dots that were alive in the last text; a dot that is new needs its
    facts.
    """
    head = whead(w)
    words = head[ws.W_TURN_SET]
    if head[ws.W_ALIVE] == 0:
        return beyond
    alive = tab(w, ws.ALIVE)
    following = tab(w, ws.NEXT_ALIVE)
    for node in range(end_node(w), beyond, -1):
        for i in range(node * words, (node + 1) * words):
            if following[i] & ~alive[i]:
                return np.int64(node)
    return beyond


@kernel
def take_alive(w, last):
    """Make ``NEXT_ALIVE`` what is alive at the nodes up to ``last``; right of it, where facts are reused, the older
    sets stay.
    """
    head = whead(w)
    words = head[ws.W_TURN_SET]
    if head[ws.W_ALIVE]:
        alive = tab(w, ws.ALIVE)
        following = tab(w, ws.NEXT_ALIVE)
        for i in range(head[ws.W_FIRST] * words, (last + 1) * words):
            alive[i] = following[i]


@kernel
def is_alive(w, node, dot):
    """Whether facts are looked for at a dot at a node."""
    head = whead(w)
    return head[ws.W_ALIVE] == 0 or has_bit(tab(w, ws.ALIVE), node * head[ws.W_TURN_SET], tab(w, ws.TURN_OF)[dot])


@kernel
def some_alive(w, node):
    """Whether facts are looked for at any dot at a node. (Behind a skip they are not: a span of what comes after it begins
    before it, too.)
    """
    head = whead(w)
    if head[ws.W_ALIVE] == 0:
        return True
    words = head[ws.W_TURN_SET]
    alive = tab(w, ws.ALIVE)
    some = np.int64(0)
    for i in range(node * words, (node + 1) * words):
        some |= alive[i]
    return some != 0
