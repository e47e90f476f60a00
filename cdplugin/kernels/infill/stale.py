"""Stale facts: facts of the last text hold right of the last change; the others are forgotten.

A node's facts depend only on what lies right of it, and rows of facts are made from right to left, so forgetting is truncation.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.alive import last_unasked, take_alive
from cdplugin.kernels.infill.workspace import charge, end_node, final_node, forget_rows, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store.arena import any_words, fill_words


@kernel
def forget_stale(w):
    """Forget the facts that may not hold for this text; the rightmost node whose facts have to be found.

    That is the rightmost node whose spans changed (``W_CHANGED``) or where a dot became alive (:func:`last_unasked`), or else
    the node left of all facts.
    """
    head = whead(w)
    last = max(head[ws.W_CHANGED], max(head[ws.W_FACTS_FIRST], head[ws.W_FIRST]) - 1)
    if not head[ws.W_REUSE]:
        last = end_node(w)
    # facts are reused only where every dot that is alive now was alive then
    last = last_unasked(w, last)
    take_alive(w, last)
    if last >= end_node(w):
        forget_rows(w, 0, (head[ws.W_SPAN_ROWS] + 1) * head[ws.W_WIDTH])
        head[ws.W_N_CHAINED] = 0
        for i in range(head[ws.W_TURN_SET] if head[ws.W_ASKED] else 0):
            tab(w, ws.NEXT_ANY)[i] = 0
            tab(w, ws.NEXT_HERE)[final_node(w) * head[ws.W_TURN_SET] + i] = 0
    elif last >= head[ws.W_FACTS_FIRST]:
        forget_rows(w, tab(w, ws.FACTS_AT)[3 * last], tab(w, ws.FACTS_AT)[3 * last + 1])
        head[ws.W_N_CHAINED] = tab(w, ws.FACTS_AT)[3 * last + 2]
    else:
        forget_rows(w, head[ws.W_TOUCHED_FACTS], head[ws.W_BITS_FACTS])
        head[ws.W_N_CHAINED] = head[ws.W_CHAINED_FACTS]
    head[ws.W_CHANGED] = -1
    head[ws.W_FACTS_FIRST] = last + 1
    # if a table has to grow in the middle of the next node, the repeated call begins that node again: from here
    head[ws.W_BITS_FACTS] = head[ws.W_BITS_USED]
    head[ws.W_TOUCHED_FACTS] = head[ws.W_N_TOUCHED]
    head[ws.W_CHAINED_FACTS] = head[ws.W_N_CHAINED]
    _forget_nodes(w, last)
    return last


@kernel
def _forget_nodes(w, last):
    """Remove the nodes up to ``last`` from ``REST_NODES`` and the sets of nodes, and from ``ACTIVE`` the dots left without a
    node.

    Only dots in ``ACTIVE`` are visited, unless the width of rows changed.
    """
    head = whead(w)
    nodes = tab(w, ws.REST_NODES)
    useful = tab(w, ws.USEFUL)
    by_end = tab(w, ws.GAP_BY_END)
    asked = tab(w, ws.ASKED)
    active = tab(w, ws.ACTIVE)
    dots = tab(w, ws.SYMBOL_DOTS)
    width = head[ws.W_WIDTH]
    if head[ws.W_REST_WIDTH] != width:
        charge(w, (head[ws.W_N_DOTS] * width) >> 2)
        fill_words(nodes, 0, head[ws.W_N_DOTS] * width, 0)
        for i in range(width):
            useful[i] = 0
            by_end[i] = 0
            asked[i] = 0
        head[ws.W_REST_WIDTH] = width
    word = width if last >= end_node(w) else (last + 1) >> 6
    if word > 0 or last >= 0:
        _take_out(nodes, np.int64(0), width, word, last)  # no dot comes before the first one
        _take_out(useful, np.int64(0), width, word, last)
        _take_out(by_end, np.int64(0), width, word, last)
        _take_out(asked, np.int64(0), width, word, last)
    useful[width - 1] |= np.int64(1) << (final_node(w) & 63)
    for k in range(head[ws.W_DOT_SET]):
        left = np.int64(0)
        set_ = active[k]
        charge(w, 1)
        while set_:
            bit = low_bit(set_)
            set_ &= set_ - 1
            dot = dots[64 * k + bit] + 1
            if _take_out(nodes, dot * width, width, word, last):
                left |= np.int64(1) << bit
        active[k] = left


@kernel
def _take_out(bits, row, width, word, last):
    """Clear the bits of the nodes up to ``last``, whose word is ``word``, in a row; whether any bit is left."""
    fill_words(bits, row, word, 0)
    if word < width:
        bits[row + word] &= np.int64(-1) << ((last + 1) & 63)
    return any_words(bits, row + word, width - word)
