"""Facts taken over from a node further right, where a symbol has ends that are all ends here: they hold here, too.

``DONE`` records for each symbol the last nodes at which it was followed to many ends. ``REST`` is complete there; for a symbol
with few ends it is not (:func:`cdplugin.kernels.infill.gathering.derive`). Without this, the facts inside a long string would
cost time cubic in the number of its nodes.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.gap_rests import at_end, gap_row
from cdplugin.kernels.infill.workspace import charge, end_node, has_bit, tab, whead
from cdplugin.kernels.jit.decorators import count_bits, kernel, low_bit
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import fill_words, i64

LAST_NODES = 3  # remembered per symbol in DONE
NEAR = 12  # how many nodes of reused facts are searched to fill DONE
FEW_ENDS = 3  # more ends than these are many


@kernel
def find_done(h, w, last):
    """Fill ``DONE`` as if the nodes right of ``last``, whose facts are reused, had just been followed; -1 for none.

    At most ``NEAR`` nodes are searched for those at which a symbol has many ends. Nullable symbols are left out where rests are
    found on demand.
    """
    head = whead(w)
    done = tab(w, ws.DONE)
    until = min(last + 1 + NEAR, end_node(w))
    for symbol in range(head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES]):
        at = symbol * LAST_NODES
        charge(w, 4)
        skipped = head[ws.W_ASKED] != 0 and symbol < head[ws.W_N_SYMBOLS_NT] and i64(h, layout.NULLABLE)[symbol] != 0
        for node in range(last + 1, last + 1 if skipped else until):
            # few ends are not worth taking over
            if at < (symbol + 1) * LAST_NODES and _has_many(w, np.int64(node), np.int64(symbol)):
                done[at] = node
                at += 1
        fill_words(done, at, (symbol + 1) * LAST_NODES - at, -1)


@kernel
def _has_many(w, node, symbol):
    """Whether a symbol has many ends at a node."""
    row = ends_of(w, node, symbol)
    return row > 0 and are_many(w, row, whead(w)[ws.W_WIDTH])


@kernel
def note_many(w, gap):
    """:func:`note_done` at a gap's node in ``GAP_BY_END``, for the nonterminals in the sets of more than ``FEW_ENDS`` ends."""
    head = whead(w)
    bits = tab(w, ws.BITS)
    base = tab(w, ws.GAP_END_SETS)[gap]
    for k in range((head[ws.W_N_SYMBOLS_NT] + 63) >> 6):
        one = np.int64(0)  # the symbols in at least one set, in two, in three, in four
        two = np.int64(0)
        three = np.int64(0)
        four = np.int64(0)
        for i in range(gap >> 6, head[ws.W_WIDTH]):
            word = bits[base + i]
            while word:
                set_ = bits[at_end(w, gap, 64 * i + low_bit(word)) + k]
                word &= word - 1
                four |= three & set_
                three |= two & set_
                two |= one & set_
                one |= set_
                charge(w, 1)
        while four:
            symbol = 64 * k + low_bit(four)
            four &= four - 1
            if symbol < head[ws.W_N_SYMBOLS_NT]:
                _put_first(tab(w, ws.DONE), symbol * LAST_NODES, gap)


@kernel
def note_done(w, node, symbol, row):
    """Record in ``DONE`` that a symbol leads from a gap's node to the ends in ``row``, if they are many.

    A gap's facts are not found symbol by symbol; without this, strings and lists left of it could not take them over.
    """
    if are_many(w, row, whead(w)[ws.W_WIDTH]):
        _put_first(tab(w, ws.DONE), symbol * LAST_NODES, node)


@kernel
def followed_before(h, w, node, symbol, row):
    """The node in ``DONE`` of a symbol with the most ends, all of which are in ``row``; -1 if none. Records ``node`` as the
    latest one.

    What the symbol leads to from the node found holds from ``node`` as well. If the symbol may be empty, that is so only if it
    leads from ``node`` to the node found. (One remembered node would not do: long lexemes begin at boundaries and inside slots
    in turn.)
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    bits = tab(w, ws.BITS)
    done = tab(w, ws.DONE)
    first = symbol * LAST_NODES
    null = symbol < n_nonterminals and i64(h, layout.NULLABLE)[symbol] != 0
    found = np.int64(-1)
    most = np.int64(0)
    for i in range(first, first + LAST_NODES):
        other = done[i]
        if other < 0 or other == node or (null and not has_bit(bits, row, other)):
            continue
        known = ends_of(w, other, symbol)
        if known <= 0:
            continue
        size = np.int64(0)
        for j in range(node >> 6, width):
            word = bits[known + j]
            if word & ~bits[row + j]:
                size = np.int64(-1)
                break
            size += count_bits(word)
        if size > most:
            most = size
            found = other
    _put_first(done, first, node)  # the node itself is the latest one now
    return found


@kernel
def are_many(w, row, width):
    """Whether a row has more than ``FEW_ENDS`` nodes, so that looking for facts to take over pays."""
    bits = tab(w, ws.BITS)
    count = np.int64(0)
    for i in range(row, row + width):
        if bits[i]:
            count += count_bits(bits[i])
            if count > FEW_ENDS:
                return True
    return False


@kernel
def ends_of(w, node, symbol):
    """The row of a symbol's ends at a node; 0 if it has none; or ``W_GROW``."""
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    if symbol < n_nonterminals:
        if has_bit(tab(w, ws.GAP_BY_END), 0, node):
            return gap_row(w, node, symbol)
        return tab(w, ws.DERIVED)[node * n_nonterminals + symbol]
    return tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] + symbol - n_nonterminals]


@kernel
def _put_first(done, first, node):
    """Make a node the latest one of a symbol."""
    if done[first] != node:
        for i in range(first + LAST_NODES - 1, first, -1):
            done[i] = done[i - 1]
        done[first] = node
