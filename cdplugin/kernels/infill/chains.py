"""Rules of one symbol, followed all at once.

Where a language has operators by precedence, a name is a factor, a factor a term, a term a sum, and so on: fifteen rules of one
symbol, each of which leads to just the ends of the name. With few ends (so that nobody takes over what is known of them,
:mod:`cdplugin.kernels.infill.taken_over`) the dots before *all* of these nonterminals are followed at once. They are known
beforehand: ``CHAIN_DOTS`` has them as words of a set by turn, without those of the rules of one symbol themselves, and without
those further on in a rule, whose rests are found when they are asked for (:mod:`cdplugin.kernels.infill.asked`).

For ``S: "[" L "]"   L: E | E "," L   E: w``, from ``w`` at once: the chain is E, L (``CHAIN_UPS``), and the only dot is
``• E "," L``.

A nonterminal that comes to have other ends as well is followed for these, and its row in ``DERIVED`` is made whole before
(:func:`take_chained`): what is taken over goes by it.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, has_bit, new_row, or_row, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import statuses


@kernel
def chain_up(w, node, symbol, row):
    """Note that a symbol's ends are those of its chain: in ``CHAINED``, and in ``DERIVED`` of those that have a row there. 0 or
    ``W_GROW``.
    """
    head = whead(w)
    count = head[ws.W_N_CHAINED]
    width = head[ws.W_WIDTH]
    if not room(w, ws.CHAINED, 2 * count + 2):
        return np.int64(statuses.W_GROW)
    kept = new_row(w)
    if kept < 0:
        return kept
    bits = tab(w, ws.BITS)
    for i in range(node >> 6, width):
        bits[kept + i] = bits[row + i]
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
    """Add to the ends of a nonterminal at the node under way those that came by a chain, which are followed already.

    But where it has many ends (``MANY_HERE``), the rests that begin with it have rows, and a chain adds nothing to rows: then
    they are yet to be followed.
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
    """Let a nonterminal wait to be followed: its ends at the node have grown."""
    rank = tab(w, ws.RANKS)[nonterminal]
    words = (whead(w)[ws.W_N_SYMBOLS_NT] + 63) >> 6
    pending = tab(w, ws.PENDING)
    pending[rank >> 6] |= np.int64(1) << (rank & 63)
    pending[words + (rank >> 12)] |= np.int64(1) << ((rank >> 6) & 63)
