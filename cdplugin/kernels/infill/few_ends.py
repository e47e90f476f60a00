"""Symbols with few ends: what they lead to is found in one step, however many rules of one symbol lie between.

A name in a program is a primary, a factor, a term, a sum, … by some twenty rules of one symbol. Followed one by one, each has
rows of its own, and is looked up wherever it is expected; mostly nothing comes of it. ``UP_DOTS`` has for each symbol, made
once for a grammar, the dots before it and before all that such rules make of it. At a node few of these matter: those that are
alive there, and of which the next dot has a row in ``REST`` at one of the ends (``GOES_ON``), or may be passed over. That is
one intersection of sets, word by word.

In ``[a,b]`` with ``L: E | E "," L   E: w``, the text's ``a`` (from node 1 to 2) is w; the dots before w, E and L, but for those
of ``L -> • E`` and ``E -> • w``, are ``L -> • E "," L``, ``L -> E "," • L`` and ``S -> "[" • L "]"``. After ``[``, the last of
these is alive and would go on at a node with ``]``, and the first goes on at node 2: there ``L -> E • "," L`` is known.

What nonterminals between derive is noted only where a row of ``REST`` comes of it: whoever takes that row over
(:mod:`cdplugin.kernels.infill.taken_over`) must have all the ends that it was made of.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.growing import derived_row, grown, wait_for
from cdplugin.kernels.infill.taken_over import are_many
from cdplugin.kernels.infill.workspace import charge, final_node, has_bit, or_row, rest_row, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64


@kernel
def prepare_few(w):
    """Set ``W_FEW`` for this text: 0 or ``W_GROW``. Completions and masks are read off rows that are not made here."""
    head = whead(w)
    words = head[ws.W_TURN_SET] + 1
    n_symbols = head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES]
    head[ws.W_FEW] = 0
    if not head[ws.W_REUSE] or not head[ws.W_ALIVE] or tab(w, ws.UP_DOTS).shape[0] < n_symbols * words:
        return np.int64(0)
    if not room(w, ws.GOES_ON, 64 * head[ws.W_WIDTH] * words):
        return np.int64(statuses.W_GROW)
    head[ws.W_FEW] = 1
    forget_going_on(w, final_node(w))
    return np.int64(0)


@kernel
def forget_going_on(w, node):
    """Nothing is known at a node."""
    head = whead(w)
    if head[ws.W_FEW]:
        words = head[ws.W_TURN_SET] + 1
        for i in range(node * words, (node + 1) * words):
            tab(w, ws.GOES_ON)[i] = 0


@kernel
def words_alive(w, node):
    """Which words of a node's set in ``ALIVE`` are not 0, as bits."""
    words = whead(w)[ws.W_TURN_SET]
    alive = tab(w, ws.ALIVE)
    found = np.int64(0)
    for k in range(words):
        if alive[node * words + k]:
            found |= np.int64(1) << k
    return found


@kernel
def none_stays(w, node):
    """Whether no lexeme leads from a node to itself, as they do inside a gap."""
    words = whead(w)[ws.W_SET]
    n_lexemes = whead(w)[ws.W_N_LEXEMES]
    spans = tab(w, ws.SPANS)
    bits = tab(w, ws.BITS)
    for k in range(words):
        set_ = tab(w, ws.SPAN_SETS)[node * words + k]
        while set_:
            row = spans[node * n_lexemes + 64 * k + low_bit(set_)]
            set_ &= set_ - 1
            if has_bit(bits, row, node):
                return False
    return True


@kernel
def follow_few(h, w, node, symbol, row, alive_words):
    """Follow a symbol (lexemes are numbered after the nonterminals) with at most ``FEW_ENDS`` ends from ``node`` to those in
    ``row``; 0 or a status. No lexeme leads from the node to itself (:func:`none_stays`).

    ``alive_words``: :func:`words_alive`. A rule that begins at the node makes ``DERIVED`` of its left side grow, one under way
    has a row of ``REST``.
    """
    head = whead(w)
    words = head[ws.W_TURN_SET]
    bits = tab(w, ws.BITS)
    one = two = three = final_node(w)  # at which nothing is known
    for i in range(node >> 6, head[ws.W_WIDTH]):
        word = bits[row + i]
        while word:
            three = two
            two = one
            one = np.int64(64 * i + low_bit(word))
            word &= word - 1
    known = tab(w, ws.GOES_ON)
    first, second, third = one * (words + 1), two * (words + 1), three * (words + 1)
    ups = tab(w, ws.UP_DOTS)
    up = symbol * (words + 1)
    passes = tab(w, ws.PASSES)
    alive = tab(w, ws.ALIVE)
    some = ups[up] & alive_words
    if not charge(w, 16):
        return np.int64(statuses.W_GROW)
    while some:
        k = low_bit(some)
        some &= some - 1
        goes_on = known[first + 1 + k] | known[second + 1 + k] | known[third + 1 + k] | passes[k]
        set_ = ups[up + 1 + k] & alive[node * words + k] & goes_on
        while set_:
            turn = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            status = _lead_on(h, w, node, symbol, np.int64(turn), row, one, two, three)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _lead_on(h, w, node, symbol, turn, row, one, two, three):
    """Follow the symbol after one dot to its ends, of which there are up to three; 0 or a status. Arguments as of
    :func:`follow_few`.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    record = tab(w, ws.UP_RECORDS)[turn]
    dot = record & ((np.int64(1) << ws.UP_LEFT) - 1)
    left = (record >> ws.UP_LEFT) & ((np.int64(1) << (ws.UP_BEGINS - ws.UP_LEFT)) - 1)
    begins = (record >> ws.UP_BEGINS) & 1 != 0
    if begins:
        into = derived_row(w, node, left)
    else:
        into = rest_row(w, node, dot)
    if into < 0 or not charge(w, 4 + 3 * width):
        return np.int64(statuses.W_GROW)
    word = node >> 6
    bits = tab(w, ws.BITS)
    grew = False
    if (record >> ws.UP_PASSES) & 1:
        grew = or_row(bits, into + word, row + word, width - word)
    if _rest_leads(w, turn, dot, one, into):
        grew = True
    if _rest_leads(w, turn, dot, two, into):
        grew = True
    if _rest_leads(w, turn, dot, three, into):
        grew = True
    if begins:
        if grew:
            wait_for(w, left)
        return np.int64(0)
    expected = i64(h, layout.DOT_SYMBOL)[dot]
    if expected >= 0 and expected != symbol and _note_derived(w, node, expected, row) < 0:
        return np.int64(statuses.W_GROW)
    if grew and (record >> ws.UP_GROWS) & 1:
        return grown(h, w, node, dot)
    return np.int64(0)


@kernel
def _rest_leads(w, turn, dot, end, into):
    """Add to the row ``into`` what the rest behind the symbol after a dot leads to from an end; whether anything was new."""
    head = whead(w)
    words = head[ws.W_TURN_SET] + 1
    if (tab(w, ws.GOES_ON)[end * words + 1 + (turn >> 6)] >> (turn & 63)) & 1 == 0:
        return False
    word = end >> 6  # a rest ends right of where it begins
    after = tab(w, ws.REST)[end * head[ws.W_N_DOTS] + dot + 1]
    return or_row(tab(w, ws.BITS), into + word, after + word, head[ws.W_WIDTH] - word)


@kernel
def _note_derived(w, node, nonterminal, row):
    """Note the ends of a nonterminal that were followed without it; 0 or ``W_GROW``. If it has many by now, its rows of
    ``REST`` have to be whole, so it waits to be followed itself.
    """
    width = whead(w)[ws.W_WIDTH]
    entry = derived_row(w, node, nonterminal)
    if entry < 0:
        return entry
    bits = tab(w, ws.BITS)
    word = node >> 6
    if or_row(bits, entry + word, row + word, width - word):
        if are_many(w, entry, width):
            wait_for(w, nonterminal)
        else:
            or_row(bits, entry + width + word, row + word, width - word)
    return np.int64(0)
