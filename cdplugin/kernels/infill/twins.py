"""Twins: nodes from which the same lexemes lead to the same nodes as from the node of a gap further right.

Where a skip may begin that runs into a gap, whatever may come in the gap may come. In ``□a□``, each node before the second gap
(one for each set of lexemes that may come next) is such a place if a comment may begin there and end in the gap. Such a node
would get all facts of the gap's node, one for nearly each rule. Instead it is merged with it: edges to the twin lead to the
gap's node, and none leave the twin. The two are equivalent states of the automaton (Hopcroft and Ullman, 1979).

Only lexemes of rules are compared. Skips need not be: spans already include the skips before a lexeme
(:mod:`cdplugin.kernels.infill.spans`).
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, has_bit, room, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import statuses


@kernel
def find_twins(w):
    """Fill ``TWINS`` and ``TWIN_OF`` from ``ENDS``, for a check; 0 or ``W_GROW``. Nodes have the lattice's numbers.

    Work: for each gap the rows of ends of its lexemes, until no candidate is left.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    head[ws.W_HAS_TWINS] = 0
    if head[ws.W_NARROW] == 0:
        return np.int64(0)
    if not room(w, ws.TWIN_OF, 64 * width) or not room(w, ws.TWINS, 3 * width) or not charge(w, 64 * width):
        return np.int64(statuses.W_GROW)
    twins = tab(w, ws.TWINS)
    twin_of = tab(w, ws.TWIN_OF)
    for i in range(width):
        twins[i] = 0
        twins[2 * width + i] = 0
    for node in range(head[ws.W_NODES]):
        twin_of[node] = node
    elements = tab(w, ws.ELEMENTS)
    set_bit(twins, 2 * width, 0)  # never a twin: at the beginning of a text no skip comes, and it must stay the first node
    for k in range(head[ws.W_ELEMENTS]):
        if elements[k] != ws.GAP:
            continue
        gap = tab(w, ws.NODE_BEFORE)[k + 1]
        if _find_twins_of(w, gap):
            head[ws.W_HAS_TWINS] = 1
            for i in range(width):
                word = twins[width + i]
                twins[i] |= word
                while word:
                    twin_of[64 * i + low_bit(word)] = gap
                    word &= word - 1
        set_bit(twins, 2 * width, gap)
    return np.int64(0)


@kernel
def _find_twins_of(w, gap):
    """Write the twins of a gap's node to the second set in ``TWINS``; whether there are any.

    Candidates are the nodes left of it; each row of ends removes those that disagree with the gap's node.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    twins = tab(w, ws.TWINS)
    bits = tab(w, ws.LIVE_BITS)
    sets = tab(w, ws.ENDS_SETS)
    ends = tab(w, ws.ENDS)
    heads = tab(w, ws.SYMBOL_HEADS)
    some = np.int64(0)
    for i in range(width):
        below = np.int64(-1) if i < gap >> 6 else np.int64(0)
        if i == gap >> 6:
            below = (np.int64(1) << (gap & 63)) - 1
        twins[width + i] = below & ~twins[i] & ~twins[2 * width + i]
        some |= twins[width + i]
    for lexeme in range(head[ws.W_N_LEXEMES]):
        if heads[n_nonterminals + lexeme] == heads[n_nonterminals + lexeme + 1]:
            continue
        for i in range(width):
            word = sets[lexeme * width + i]
            while word:
                row = ends[lexeme * 64 * width + 64 * i + low_bit(word)]
                word &= word - 1
                charge(w, width)
                begins = np.int64(0) if has_bit(bits, row, gap) else np.int64(-1)
                some = np.int64(0)
                for j in range((gap >> 6) + 1):
                    twins[width + j] &= bits[row + j] ^ begins
                    some |= twins[width + j]
                if some == 0:
                    return False
    return some != 0
