"""Rests that are found when they are asked for: most of them never are.

At a node some dozens of rules may be under way, going by the lexeme left of it (``ALIVE``), and mostly two or three are. Which
ones is known where the rule's beginning is followed, further left. So at a node only the *first* dots of rules are followed, to
find what is derived there. The rest behind a later dot is found when a rule is followed up to it from the left, and kept in
``REST``: a row, or :data:`NONE`. In a C++ program one rest in five is ever asked for.

What is asked for at all is known by the next lexeme: ``NEXT_HERE`` has the dots behind whose symbol the rest of the rule may
begin with a lexeme that starts at the node and leads somewhere.

In ``[a □ ]`` only the rules of E and L are followed at node 1, from ``w``. ``S -> "[" • L "]"`` at node 1 is asked for from
node 0, and asks for ``"]"`` at the ends 2 and 3 of L.

Three kinds of nodes have their rests elsewhere: in a gap (:mod:`cdplugin.kernels.infill.gap_rests`), where a lexeme leads from
a node to itself, and where a symbol has many ends (rows that are taken over): the last two have them in ``REST_NODES``.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.gap_rests import gap_rest
from cdplugin.kernels.infill.workspace import charge, has_bit, new_row, or_row, room, tab, touch, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64

NONE = -1  # in REST: nothing is led to
UNKNOWN = -1 << 40


@kernel
def begin_node_facts(w, node):
    """Begin to find what is known at a node."""
    head = whead(w)
    tab(w, ws.CHAINED_AT)[2 * node] = head[ws.W_N_CHAINED]
    if head[ws.W_ASKED]:
        words = head[ws.W_TURN_SET]
        for i in range(node * words, (node + 1) * words):
            tab(w, ws.NEXT_HERE)[i] = 0


@kernel
def end_node_facts(w, node):
    """End it."""
    head = whead(w)
    tab(w, ws.CHAINED_AT)[2 * node + 1] = head[ws.W_N_CHAINED]
    if head[ws.W_ASKED]:
        words = head[ws.W_TURN_SET]
        for i in range(words):
            tab(w, ws.NEXT_ANY)[i] |= tab(w, ws.NEXT_HERE)[node * words + i]


@kernel
def rest_behind(h, w, node, dot):
    """The row of ``REST`` at a finished node for the dot behind ``dot``; 0: none, or a status."""
    turn = tab(w, ws.TURN_OF)[dot]
    if not has_bit(tab(w, ws.NEXT_HERE), node * whead(w)[ws.W_TURN_SET], turn):
        return np.int64(0)
    known = _known_rest(h, w, node, dot + 1)
    return known if known != UNKNOWN else _find_rest(h, w, node, dot + 1)


@kernel
def first_rest(h, w, node):
    """The row of ``REST`` for the first dot of all, at the first node, all being known; 0: none, or a status."""
    known = _known_rest(h, w, node, np.int64(0))
    return known if known != UNKNOWN else _find_rest(h, w, node, np.int64(0))


@kernel
def may_lead_on(w, n_ends, k):
    """Word ``k`` of the set by turn of the dots behind whose symbol something leads on from one of the ends in ``END_LIST``."""
    found = np.int64(0)
    words = whead(w)[ws.W_TURN_SET]
    for i in range(n_ends):
        found |= tab(w, ws.NEXT_HERE)[tab(w, ws.END_LIST)[i] * words + k]
    return found


@kernel
def list_ends(w, node, row):
    """Write the nodes of a row at which something is known to ``END_LIST``, which has room; how many there are."""
    bits = tab(w, ws.BITS)
    useful = tab(w, ws.USEFUL)
    listed = tab(w, ws.END_LIST)
    count = np.int64(0)
    for i in range(node >> 6, whead(w)[ws.W_WIDTH]):
        word = bits[row + i] & useful[i]
        while word:
            listed[count] = 64 * i + low_bit(word)
            word &= word - 1
            count += 1
    return count


@kernel
def _known_rest(h, w, node, dot):
    """The row of ``REST`` for a dot at a finished node, 0: none, ``UNKNOWN``: it has to be found; or ``W_GROW``."""
    head = whead(w)
    at = node * head[ws.W_N_DOTS] + dot
    if has_bit(tab(w, ws.ASKED), 0, node):
        if i64(h, layout.DOT_SYMBOL)[dot + 1] == layout.END_OF_RULE:
            row = _only_source(w, node, i64(h, layout.DOT_SYMBOL)[dot])
            if row != UNKNOWN:
                return row
        row = tab(w, ws.REST)[at]
        if row == 0:
            return np.int64(UNKNOWN)
        return row if row > 0 else np.int64(0)
    if has_bit(tab(w, ws.REST_NODES), dot * head[ws.W_WIDTH], node):
        return tab(w, ws.REST)[at]
    if not has_bit(tab(w, ws.UNNAMED), 0, node):
        return np.int64(0)
    return gap_rest(h, w, node, dot)


@kernel
def _only_source(w, node, symbol):
    """The row of the ends of a symbol at a node whose rests are asked for, if it is one row; 0: none, ``UNKNOWN``: several."""
    row = _source(w, node, symbol, np.int64(0))
    for i in range(1, _n_sources(w, node, symbol)):
        other = _source(w, node, symbol, np.int64(i))
        if other:
            if row:
                return np.int64(UNKNOWN)
            row = other
    return row


@kernel
def _n_sources(w, node, symbol):
    """How many rows may have ends of a symbol at a node: one of its own, and those of chains."""
    if symbol < 0:
        return np.int64(1)
    at = tab(w, ws.CHAINED_AT)
    return 1 + at[2 * node + 1] - at[2 * node]


@kernel
def _source(w, node, symbol, i):
    """The ``i``-th of these rows; 0 if it is none."""
    head = whead(w)
    if symbol < 0:
        lexeme = -2 - symbol
        if not has_bit(tab(w, ws.SPAN_SETS), node * head[ws.W_SET], lexeme):
            return np.int64(0)
        return tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] + lexeme]
    if i == 0:
        return tab(w, ws.DERIVED)[node * head[ws.W_N_SYMBOLS_NT] + symbol]
    pair = 2 * (tab(w, ws.CHAINED_AT)[2 * node] + i - 1)
    words = (head[ws.W_N_SYMBOLS_NT] + 63) >> 6
    if not has_bit(tab(w, ws.CHAIN_UPS), tab(w, ws.CHAINED)[pair] * words, symbol):
        return np.int64(0)
    return tab(w, ws.CHAINED)[pair + 1]


@kernel
def _find_rest(h, w, node, dot):
    """The row of a rest that is not known yet; 0: it leads nowhere; or a status.

    A stack instead of a recursion: what a rest asks for, further on in the rule and further right, is found first, and then the
    rest is gone through again.
    """
    top = np.int64(1)
    if not room(w, ws.REST_STACK, 4):
        return np.int64(statuses.W_GROW)
    tab(w, ws.REST_STACK)[0] = node
    tab(w, ws.REST_STACK)[1] = dot
    tab(w, ws.REST_STACK)[2] = 0
    row = np.int64(0)
    while top:
        higher = _unite(h, w, top)
        if higher < 0:
            return higher
        if higher > top:
            top = higher
            continue
        top -= 1
        stack = tab(w, ws.REST_STACK)
        row = stack[4 * top + 2]
        at = stack[4 * top] * whead(w)[ws.W_N_DOTS] + stack[4 * top + 1]
        if not room(w, ws.TOUCHED, whead(w)[ws.W_N_TOUCHED] + 1):
            return np.int64(statuses.W_GROW)
        tab(w, ws.REST)[at] = row if row else np.int64(NONE)
        touch(w, ws.REST, at, 1)
    return row


@kernel
def _unite(h, w, top):
    """Unite, in the row of the rest on top of the stack, what it is made of and is known; what is not is put on the stack. How
    high that is then, or ``W_GROW``.
    """
    head = whead(w)
    frame = 4 * (top - 1)
    node = tab(w, ws.REST_STACK)[frame]
    dot = tab(w, ws.REST_STACK)[frame + 1]
    symbol = i64(h, layout.DOT_SYMBOL)[dot]
    null_rest = i64(h, layout.DOT_NULL_REST)[dot + 1]
    goes_on = i64(h, layout.DOT_SYMBOL)[dot + 1] != layout.END_OF_RULE
    turn = tab(w, ws.TURN_OF)[dot]
    bits = tab(w, ws.BITS)
    useful = tab(w, ws.USEFUL)
    words = head[ws.W_TURN_SET]
    if goes_on and symbol >= 0 and i64(h, layout.NULLABLE)[symbol] and has_bit(tab(w, ws.NEXT_HERE), node * words, turn):
        top = _add(h, w, frame, node, dot + 1, top)
    for j in range(_n_sources(w, node, symbol)):
        row = _source(w, node, symbol, np.int64(j))
        if row == 0:
            continue
        charge(w, 2 + head[ws.W_WIDTH])
        for i in range(node >> 6, head[ws.W_WIDTH]):
            word = bits[row + i] & useful[i]
            if word and null_rest:
                into = _row_of(w, frame)
                if into < 0:
                    return into
                bits[into + i] |= word
            while word and goes_on:
                end = 64 * i + low_bit(word)
                word &= word - 1
                if has_bit(tab(w, ws.NEXT_HERE), end * words, turn):
                    top = _add(h, w, frame, end, dot + 1, top)
                    if top < 0:
                        return top
    return top


@kernel
def _row_of(w, frame):
    """The row of a rest on the stack, made now if there is none; or ``W_GROW``."""
    row = tab(w, ws.REST_STACK)[frame + 2]
    if row == 0:
        row = new_row(w)
        tab(w, ws.REST_STACK)[frame + 2] = row
    return row


@kernel
def _add(h, w, frame, node, dot, top):
    """Add a rest to that of a frame of the stack, or put it on the stack; how high that is then, or ``W_GROW``."""
    if top < 0:
        return top
    known = _known_rest(h, w, node, dot)
    if known == UNKNOWN:
        if not room(w, ws.REST_STACK, 4 * top + 4):
            return np.int64(statuses.W_GROW)
        stack = tab(w, ws.REST_STACK)
        stack[4 * top] = node
        stack[4 * top + 1] = dot
        stack[4 * top + 2] = 0
        return top + 1
    if known > 0:
        into = _row_of(w, frame)
        if into < 0:
            return into
        word = node >> 6
        or_row(tab(w, ws.BITS), into + word, known + word, whead(w)[ws.W_WIDTH] - word)
    return top if known >= 0 else known
