"""Chains: unit rules, followed all at once.

With operators by precedence a name is a factor, a factor a term, a term a sum, and so on: some fifteen unit rules, and each
left side has just the ends of the name. If these are few (so nobody takes over their facts,
:mod:`cdplugin.kernels.infill.taken_over`), the dots before *all* nonterminals of the chain are followed at once. ``CHAIN_DOTS``
lists them per symbol, as words of a set by turn. It leaves out the dots of the unit rules themselves, and dots that are not at
the beginning of their rule, whose rests are found on demand (:mod:`cdplugin.kernels.infill.asked`).

For ``S: "[" L "]"   L: E | E "," L   E: w``: the chain of ``w`` is E, L (``CHAIN_UPS``), and its only dot is ``• E "," L``.

A nonterminal may get other ends besides those by a chain. Before it is followed for these, its row in ``DERIVED`` is completed
(:func:`take_chained`), since taking facts over relies on whole rows.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, has_bit, new_row, or_row, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import copy_words


@kernel
def chain_up(w, node, symbol, row):
    """Record a symbol's ends as those of its chain: in ``CHAINED``, and in existing rows of ``DERIVED``; 0 or ``W_GROW``."""
    head = whead(w)
    count = head[ws.W_N_CHAINED]
    width = head[ws.W_WIDTH]
    if not room(w, ws.CHAINED, 2 * count + 2):
        return np.int64(statuses.W_GROW)
    kept = new_row(w)
    if kept < 0:
        return kept
    bits = tab(w, ws.BITS)
    copy_words(bits, kept + (node >> 6), bits, row + (node >> 6), width - (node >> 6))
    tab(w, ws.CHAINED)[2 * count] = symbol
    tab(w, ws.CHAINED)[2 * count + 1] = kept
    head[ws.W_N_CHAINED] = count + 1
    words = (head[ws.W_N_SYMBOLS_NT] + 63) >> 6
    charge(w, words)
    for k in range(words):
        set_ = tab(w, ws.CHAIN_UPS)[symbol * words + k] & tab(w, ws.DERIVED_HERE)[k]
        while set_:
            nonterminal = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            entry = tab(w, ws.DERIVED)[node * head[ws.W_N_SYMBOLS_NT] + nonterminal]
            if or_row(bits, entry, row, width):
                wait(w, nonterminal)
    return np.int64(0)


@kernel
def take_chained(w, node, nonterminal, entry):
    """Add to a nonterminal's entry in ``DERIVED`` at the current node the ends that came by chains; they count as followed.

    They do not where the nonterminal has many ends (``MANY_HERE``): then the rests that begin with it have rows in ``REST``, to
    which a chain adds nothing, so these ends are still to be followed.
    """
    head = whead(w)
    has_rests = has_bit(tab(w, ws.MANY_HERE), 0, nonterminal)
    words = (head[ws.W_N_SYMBOLS_NT] + 63) >> 6
    width = head[ws.W_WIDTH]
    bits = tab(w, ws.BITS)
    for i in range(tab(w, ws.CHAINED_AT)[2 * node], head[ws.W_N_CHAINED]):
        if has_bit(tab(w, ws.CHAIN_UPS), tab(w, ws.CHAINED)[2 * i] * words, nonterminal):
            row = tab(w, ws.CHAINED)[2 * i + 1]
            or_row(bits, entry, row, width)
            if not has_rests:
                or_row(bits, entry + width, row, width)


@kernel
def wait(w, nonterminal):
    """Put a nonterminal on the agenda (``PENDING``): its ends at the current node have grown."""
    rank = tab(w, ws.RANKS)[nonterminal]
    words = (whead(w)[ws.W_N_SYMBOLS_NT] + 63) >> 6
    pending = tab(w, ws.PENDING)
    pending[rank >> 6] |= np.int64(1) << (rank & 63)
    pending[words + (rank >> 12)] |= np.int64(1) << ((rank >> 6) & 63)
