"""Alive dots: which rules may be under way at a node. Facts are looked for only there.

A dot is *alive* at a node if a lexeme that may come right before it ends there, or if the text begins there. The parser's stack
is ignored: where a rule ends, all dots behind its nonterminal are alive (a FOLLOW set of dots). A dot that is not alive is
never needed; one that is alive need not be legal. In a program, after ``=`` only expressions are alive, after ``int`` names.
(Taking the lexeme before *that* one into account would rule out another 3 % of C++'s facts, and cost as much as they do.)

``AFTER`` memoises the alive dots of a lexeme when it first ends in some text: of the 500 lexemes of Python's grammar a text has
some dozens, and a set has a bit for each of 37,000 dots. Each set is closed under prediction and completion, and a union of
closed sets is closed, so the set of a node is the union of its lexemes' sets, in any order.

In ``[a □ ]``, after ``[`` at node 1, the dots ``S -> "[" • L "]"``, ``L -> • E …`` and ``E -> • w`` are alive, and no others.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, end_node, has_bit, room, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import any_words, copy_words, fill_words, i64

KNOWN_AT_ONCE = 8  # so many lexemes are memoised at once; where more end at a node, its own set is searched for


@kernel
def find_alive(h, w):
    """Fill ``NEXT_ALIVE`` for all nodes, from ``ENDS_SETS``; 0 or ``W_GROW``.

    Sets ``W_ALIVE`` to whether it was filled. It is not for a mask whose *no* counts, as its tokens may lead where no path of
    the lattice does (:func:`_is_whole`). Cost: a set of dots for each pair (lexeme, node at which it ends), plus
    :func:`_find_missing` where ``AFTER`` does not have a lexeme yet.
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
    if (
        not room(w, ws.ALIVE, nodes * words)
        or not room(w, ws.NEXT_ALIVE, nodes * words)
        or not room(w, ws.AFTER_MARK, 2 * head[ws.W_N_SYMBOLS_NT])
        or not room(w, ws.DOT_QUEUE, 3 * head[ws.W_N_DOTS])
        or not room(w, ws.MISSING, n_lexemes)
    ):
        return np.int64(statuses.W_GROW)
    head[ws.W_ALIVE] = 1
    charge(w, (nodes * words) >> 2)
    alive = tab(w, ws.NEXT_ALIVE)
    first = head[ws.W_FIRST]
    fill_words(alive, first * words, (nodes - first) * words, 0)
    if not _know_after(h, w, n_lexemes):
        return np.int64(statuses.W_GROW)
    copy_words(alive, first * words, after, n_lexemes * words, words)
    sets = tab(w, ws.ENDS_SETS)
    known = tab(w, ws.AFTER_KNOWN)
    missing = tab(w, ws.MISSING)
    n_missing = np.int64(0)
    for lexeme in range(n_lexemes):
        some = np.int64(0)
        for k in range(width):
            word = sets[lexeme * width + k]
            some |= word
            while word and known[lexeme]:
                node = _alive_node(w, 64 * k + low_bit(word))
                word &= word - 1
                if not charge(w, 2 + (words >> 1)):
                    return np.int64(statuses.W_GROW)
                for i in range(words):
                    alive[node * words + i] |= after[lexeme * words + i]
        if some and not known[lexeme]:
            missing[n_missing] = lexeme
            n_missing += 1
    if n_missing and not _find_missing(h, w, n_missing):
        return np.int64(statuses.W_GROW)
    return np.int64(0)


@kernel
def _alive_node(w, end):
    """The number that a node of the lattice has among the nodes of facts."""
    head = whead(w)
    if end >= end_node(w):
        return np.int64(end)
    return head[ws.W_FIRST] + (tab(w, ws.TWIN_OF)[end] if head[ws.W_HAS_TWINS] != 0 else end)


@kernel
def _find_missing(h, w, n_missing):
    """Add to ``NEXT_ALIVE`` the dots alive after the lexemes in ``MISSING``, which ``AFTER`` does not have; whether work
    sufficed.

    The first few lexemes, and those at nodes where few of them end, are searched for by themselves and memoised. Behind a gap
    many end at one node: their searches share the node's set, so each dot is followed once.
    """
    head = whead(w)
    words = head[ws.W_TURN_SET]
    width = head[ws.W_WIDTH]
    missing = tab(w, ws.MISSING)
    sets = tab(w, ws.ENDS_SETS)
    after = tab(w, ws.AFTER)
    alive = tab(w, ws.NEXT_ALIVE)
    for j in range(min(n_missing, KNOWN_AT_ONCE)):
        if not _know_after(h, w, missing[j]):
            return False
    for end in range(64 * width):
        count = np.int64(0)
        if not charge(w, n_missing):
            return False
        for j in range(n_missing):
            count += has_bit(sets, missing[j] * width, end)
        if count == 0:
            continue
        at = _alive_node(w, np.int64(end)) * words
        for j in range(n_missing):
            if not has_bit(sets, missing[j] * width, end):
                continue
            if count <= KNOWN_AT_ONCE and not _know_after(h, w, missing[j]):
                return False
            if tab(w, ws.AFTER_KNOWN)[missing[j]]:
                charge(w, words)
                for i in range(words):
                    alive[at + i] |= after[missing[j] * words + i]
            elif not _search(h, w, alive, at, missing[j]):
                return False
    return True


@kernel
def _know_after(h, w, lexeme):
    """Fill the entry of ``AFTER`` for a lexeme (after the last: where a text begins) if need be; whether work sufficed."""
    known = tab(w, ws.AFTER_KNOWN)
    words = whead(w)[ws.W_TURN_SET]
    if known[lexeme]:
        return True
    after = tab(w, ws.AFTER)
    fill_words(after, lexeme * words, words, 0)
    if not _search(h, w, after, lexeme * words, lexeme):
        return False
    known[lexeme] = 1
    return True


@kernel
def _search(h, w, into, at, lexeme):
    """Add to the set by turn at ``into[at:]`` the dots alive after a lexeme; whether work sufficed.

    ``lexeme``: the number after the last stands for where a text begins. A breadth-first search over dots: before a nonterminal
    its rules begin; at the end of a rule all dots behind its nonterminal become alive. Dots that the set has already are not
    followed: it is closed, so what they lead to is there.
    """
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    lefts = i64(h, layout.DOT_LEFT)
    heads = tab(w, ws.SYMBOL_HEADS)
    dots = tab(w, ws.SYMBOL_DOTS)
    first_heads = tab(w, ws.FIRST_HEADS)
    first_dots = tab(w, ws.FIRST_DOTS)
    turn_of = tab(w, ws.TURN_OF)
    marks = tab(w, ws.AFTER_MARK)
    queue = tab(w, ws.DOT_QUEUE)
    head[ws.W_STAMP] += 1
    stamp = head[ws.W_STAMP]
    count = np.int64(0)
    if lexeme == head[ws.W_N_LEXEMES]:
        queue[0] = 0
        count += 1
    else:
        for j in range(heads[n_nonterminals + lexeme], heads[n_nonterminals + lexeme + 1]):
            queue[count] = dots[j] + 1
            count += 1
    begin = np.int64(0)
    while begin < count:
        dot = queue[begin]
        begin += 1
        while True:
            symbol = symbols[dot]
            if symbol == layout.END_OF_RULE:
                left = lefts[dot]
                if marks[n_nonterminals + left] != stamp:
                    marks[n_nonterminals + left] = stamp
                    for j in range(heads[left], heads[left + 1]):
                        queue[count] = dots[j] + 1
                        count += 1
                break
            if not set_bit(into, at, turn_of[dot]) or symbol < 0:
                break
            if marks[symbol] != stamp:
                marks[symbol] = stamp
                for j in range(first_heads[symbol], first_heads[symbol + 1]):
                    queue[count] = first_dots[j]
                    count += 1
            if not nullable[symbol]:
                break
            dot += 1
    return charge(w, 4 * count)


@kernel
def _is_whole(w):
    """Whether every path that matters leads through the lattice, so that dots that are not alive can be left out.

    That is so where no mask is asked for. It also holds for the mask of a gap in the strict lattice, of which only *yes*
    counts: it may leave out a token with which a lexeme ends that no gap ends, and what it leaves out is asked one by one
    (:mod:`cdplugin.infill.answers`).
    """
    head = whead(w)
    hole = head[ws.W_HOLE]
    return hole < 0 or (head[ws.W_SPLIT] != 0 and head[ws.W_LOOSE] == 0 and tab(w, ws.ELEMENTS)[hole] == ws.GAP)


@kernel
def last_unasked(w, beyond):
    """The rightmost node right of ``beyond`` with a dot that became alive since ``ALIVE`` was made; ``beyond`` if there is
    none.

    Reused facts were found for the dots alive then, so a dot that is new needs its facts found.
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
    """Copy ``NEXT_ALIVE`` to ``ALIVE`` at the nodes up to ``last``; right of it, where facts are reused, older sets stay."""
    head = whead(w)
    words = head[ws.W_TURN_SET]
    if head[ws.W_ALIVE]:
        alive = tab(w, ws.ALIVE)
        following = tab(w, ws.NEXT_ALIVE)
        first = head[ws.W_FIRST]
        copy_words(alive, first * words, following, first * words, (last + 1 - first) * words)


@kernel
def is_alive(w, node, dot):
    """Whether a dot is alive at a node."""
    head = whead(w)
    return head[ws.W_ALIVE] == 0 or has_bit(tab(w, ws.ALIVE), node * head[ws.W_TURN_SET], tab(w, ws.TURN_OF)[dot])


@kernel
def some_alive(w, node):
    """Whether any dot is alive at a node.

    None is behind a skip: spans of the lexemes that come after it begin before it.
    """
    head = whead(w)
    if head[ws.W_ALIVE] == 0:
        return True
    return any_words(tab(w, ws.ALIVE), node * head[ws.W_TURN_SET], head[ws.W_TURN_SET])
