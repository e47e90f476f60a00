"""What grows at the node under way: rows of ``DERIVED``, the nonterminals that wait to be followed, and what a row of ``REST``
passes on when it has grown.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.alive import is_alive
from cdplugin.kernels.infill.workspace import charge, has_bit, name_row, new_row, or_row, rest_row, tab, whead
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64


@kernel
def derived_row(w, node, nonterminal):
    """The row of ``DERIVED`` for a nonterminal at the node under way, made now (with the one after it) if there is none; or
    ``W_GROW``.

    The row after it, ``W_WIDTH`` further on, holds the ends that were followed already.
    """
    index = node * whead(w)[ws.W_N_SYMBOLS_NT] + nonterminal
    here = tab(w, ws.DERIVED_HERE)
    bit = np.int64(1) << (nonterminal & 63)
    if here[nonterminal >> 6] & bit:
        return tab(w, ws.DERIVED)[index]
    entry = name_row(w, ws.DERIVED, index)
    if entry < 0 or new_row(w) < 0:
        return np.int64(statuses.W_GROW)
    here[nonterminal >> 6] |= bit
    return entry


@kernel
def wait_for(w, nonterminal):
    """Let a nonterminal wait to be followed: its ends at the node have grown."""
    rank = tab(w, ws.RANKS)[nonterminal]
    words = (whead(w)[ws.W_N_SYMBOLS_NT] + 63) >> 6
    pending = tab(w, ws.PENDING)
    pending[rank >> 6] |= np.int64(1) << (rank & 63)
    pending[words + (rank >> 12)] |= np.int64(1) << ((rank >> 6) & 63)


@kernel
def grown(h, w, node, dot):
    """``REST[dot]`` at ``node`` grew: pass that on, until nothing more grows. 0 or a status.

    At the beginning of a rule it is passed to the rule's nonterminal. Elsewhere to the dot before, if the symbol between them
    leads from the node to itself: it is empty, or lies in a gap.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    word = node >> 6
    width = head[ws.W_WIDTH] - word
    first = tab(w, ws.IS_FIRST)
    symbols = i64(h, layout.DOT_SYMBOL)
    while True:
        row = tab(w, ws.REST)[node * n_dots + dot]
        charge(w, 1 + width)
        if first[dot]:
            # the rule's beginning has new ends, so its nonterminal does
            left = i64(h, layout.DOT_LEFT)[dot]
            entry = derived_row(w, node, left)
            if entry < 0:
                return entry
            if or_row(tab(w, ws.BITS), entry + word, row + word, width):
                wait_for(w, left)
            return np.int64(0)
        # the symbol before cannot lead from this node to itself, so the dot before it is not concerned
        if not stays(h, w, node, symbols[dot - 1]) or not is_alive(w, node, dot - 1):
            return np.int64(0)
        into = rest_row(w, node, dot - 1)
        if into < 0:
            return into
        if not or_row(tab(w, ws.BITS), into + word, row + word, width):
            return np.int64(0)
        dot -= 1


@kernel
def stays(h, w, node, symbol):
    """Whether a symbol leads from a node to itself: it derives the empty string, or lies in a gap."""
    head = whead(w)
    if symbol >= 0:
        if i64(h, layout.NULLABLE)[symbol]:
            return True
        if not has_bit(tab(w, ws.DERIVED_HERE), 0, symbol):
            return False
        row = tab(w, ws.DERIVED)[node * head[ws.W_N_SYMBOLS_NT] + symbol]
    else:
        row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] - 2 - symbol]
    return row != 0 and has_bit(tab(w, ws.BITS), row, node)
