"""Rows of ``REST`` and ``DERIVED`` at a gap's node, made on demand from what :mod:`cdplugin.kernels.infill.gap_ends` found.

In ``[a □ ]``, the dot ``S -> "[" L • "]"`` at node 3 leads to where ``"]"`` leads, 3 4 E. Nobody asks for it before ``L`` is
followed from node 1 to node 3.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.gap_plan import number_of_symbol, stays_in_gap, words_of_end
from cdplugin.kernels.infill.workspace import charge, has_bit, name_row, or_row, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64


@kernel
def at_end(w, gap, end):
    """Where in ``BITS`` the two sets of a gap's end are: symbols, and dots by turn. The row of all ends comes before them."""
    return tab(w, ws.GAP_END_SETS)[gap] + whead(w)[ws.W_WIDTH] + (end - gap) * words_of_end(w)


@kernel
def gap_row(w, gap, symbol):
    """The row of a symbol's ends (the symbol by number) at a gap's node; 0: none; or ``W_GROW``.

    For a nonterminal it is made on demand and kept in ``DERIVED``.
    """
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    if symbol >= n_nonterminals:
        if not has_bit(tab(w, ws.SPAN_SETS), gap * head[ws.W_SET], symbol - n_nonterminals):
            return np.int64(0)
        return tab(w, ws.SPANS)[gap * head[ws.W_N_LEXEMES] + symbol - n_nonterminals]
    index = gap * n_nonterminals + symbol
    row = tab(w, ws.DERIVED)[index]
    if row == 0:
        row = name_row(w, ws.DERIVED, index)
        if row < 0:
            return row
        bits = tab(w, ws.BITS)
        base = tab(w, ws.GAP_END_SETS)[gap]
        first = at_end(w, gap, gap) + (symbol >> 6)
        size = words_of_end(w)
        for i in range(gap >> 6, head[ws.W_WIDTH]):
            word = bits[base + i]
            found = np.int64(0)
            while word:
                bit = low_bit(word)
                word &= word - 1
                found |= ((bits[first + (64 * i + bit - gap) * size] >> (symbol & 63)) & 1) << bit
            charge(w, 8)
            bits[row + i] = found
    return row


@kernel
def gap_rest(h, w, gap, dot):
    """The row of the rest behind ``dot`` at a gap's node; 0: none; or ``W_GROW``.

    If the dot has one tail and no rest right of the gap counts (``GAP_BEYOND_TAIL``), it is the row of the tail. Otherwise it
    is made on demand and kept in ``REST``. A negative entry of ``REST`` is the row of what a rest right of the gap leads to
    (:mod:`cdplugin.kernels.infill.gap_ends`), not united with the tails yet.
    """
    head = whead(w)
    tail = tab(w, ws.GAP_TAIL)[dot]
    if tail >= 0 and not has_bit(tab(w, ws.GAP_BEYOND_TAIL), gap * head[ws.W_DOT_SET], dot):
        return gap_row(w, gap, tail - 1) if tail else np.int64(0)
    index = gap * head[ws.W_N_DOTS] + dot
    known = tab(w, ws.REST)[index]
    if known > 0:
        return known
    symbols = i64(h, layout.DOT_SYMBOL)
    into = -known
    at = np.int64(dot)
    while symbols[at] != layout.END_OF_RULE:
        led = tab(w, ws.REST)[gap * head[ws.W_N_DOTS] + at] if at != dot else np.int64(0)
        row = np.int64(0)
        if led <= 0 and i64(h, layout.DOT_NULL_REST)[at + 1]:
            row = gap_row(w, gap, number_of_symbol(w, symbols[at]))
        if (row > 0 or led != 0) and into == 0:
            into = name_row(w, ws.REST, index)
        if row < 0 or into < 0:
            return np.int64(statuses.W_GROW)
        charge(w, 2)
        if row:
            or_row(tab(w, ws.BITS), into, row, head[ws.W_WIDTH])
        if led:
            or_row(tab(w, ws.BITS), into, abs(led), head[ws.W_WIDTH])
        # a positive row is complete: it includes what later dots lead to
        if led > 0 or not stays_in_gap(w, symbols[at]):
            break
        at += 1
    if known < 0:
        tab(w, ws.REST)[index] = into  # name_row is not needed: the entry is in TOUCHED since it became negative
    return into
