"""Rests on demand: the rest behind a dot that does not begin its rule is computed, and memoised, when somebody asks for it.

For checks. At a node some dozens of rules are alive, but mostly two or three are under way, and which ones is known only where
their beginnings are followed, further left. So at a node only the *first* dots of rules are followed, to find ``DERIVED``. The
rest behind a later dot is found when its rule is followed up to it from the left, and stored in ``REST``: a row, or
:data:`NONE`. In a C++ program one rest in five is ever asked for.

The next lexeme prunes the questions: ``NEXT_HERE`` has the dots behind whose symbol the rest of the rule may begin with a
lexeme that starts at the node and leads to a useful end.

In ``[a □ ]``, at node 1 only rules of E and L are followed, from ``w``. ``S -> "[" • L "]"`` at node 1 is asked for from node
0, and in turn asks for ``"]"`` at 2 and 3, the ends of L.

Three kinds of nodes keep their rests elsewhere: gaps (:mod:`cdplugin.kernels.infill.gap_rests`); nodes from which a lexeme
leads to itself; and nodes at which a symbol has many ends, whose rows are taken over. The last two have them in ``REST_NODES``.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.gap_rests import gap_rest
from cdplugin.kernels.infill.workspace import charge, has_bit, new_row, or_row, room, tab, touch, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import fill_words, i64

NONE = -1  # in REST: the rest leads nowhere
UNKNOWN = -1 << 40  # the rest has not been asked for yet


@kernel
def begin_node_facts(w, node):
    """Begin the facts of a node: reset ``NEXT_HERE`` there, and note where its pairs begin in ``CHAINED``."""
    head = whead(w)
    tab(w, ws.CHAINED_AT)[2 * node] = head[ws.W_N_CHAINED]
    if head[ws.W_ASKED]:
        words = head[ws.W_TURN_SET]
        fill_words(tab(w, ws.NEXT_HERE), node * words, words, 0)


@kernel
def end_node_facts(w, node):
    """End the facts of a node: note where its pairs end in ``CHAINED``, and add its ``NEXT_HERE`` to ``NEXT_ANY``."""
    head = whead(w)
    tab(w, ws.CHAINED_AT)[2 * node + 1] = head[ws.W_N_CHAINED]
    if head[ws.W_ASKED]:
        words = head[ws.W_TURN_SET]
        for i in range(words):
            tab(w, ws.NEXT_ANY)[i] |= tab(w, ws.NEXT_HERE)[node * words + i]


@kernel
def rest_behind(h, w, node, dot):
    """The row at a finished node of the rest behind the symbol after ``dot``; 0: none; or a status."""
    turn = tab(w, ws.TURN_OF)[dot]
    if not has_bit(tab(w, ws.NEXT_HERE), node * whead(w)[ws.W_TURN_SET], turn):
        return np.int64(0)
    known = _known_rest(h, w, node, dot + 1)
    return known if known != UNKNOWN else _find_rest(h, w, node, dot + 1)


@kernel
def first_rest(h, w, node):
    """The row of the whole first rule (dot 0) at the first node, once all nodes are finished; 0: none; or a status."""
    known = _known_rest(h, w, node, np.int64(0))
    return known if known != UNKNOWN else _find_rest(h, w, node, np.int64(0))


@kernel
def may_lead_on(w, n_ends, k):
    """Word ``k`` of the union of ``NEXT_HERE`` over the ends in ``END_LIST``."""
    found = np.int64(0)
    words = whead(w)[ws.W_TURN_SET]
    for i in range(n_ends):
        found |= tab(w, ws.NEXT_HERE)[tab(w, ws.END_LIST)[i] * words + k]
    return found


@kernel
def list_ends(w, node, row):
    """Write the useful nodes of a row to ``END_LIST``, which has room; how many there are."""
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
    """The row of the rest behind ``dot`` at a finished node; 0: none; ``UNKNOWN``: not found yet; or ``W_GROW``."""
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
    if not has_bit(tab(w, ws.GAP_BY_END), 0, node):
        return np.int64(0)
    return gap_rest(h, w, node, dot)


@kernel
def _only_source(w, node, symbol):
    """The one row that has all ends of a symbol at a node in ``ASKED``; 0: none; ``UNKNOWN``: there are several."""
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
    """How many rows may have ends of a symbol at a node: its own, and those of the chains followed there."""
    if symbol < 0:
        return np.int64(1)
    at = tab(w, ws.CHAINED_AT)
    return 1 + at[2 * node + 1] - at[2 * node]


@kernel
def _source(w, node, symbol, i):
    """The ``i``-th of these rows; 0 if the symbol has no ends in it."""
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
    """Compute and store the row of an unknown rest; 0: it leads nowhere; or a status.

    A stack instead of recursion: the rests that a rest needs, further on in the rule and further right, are found first; then
    the rest itself is tried again.
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
    """Unite in the row of the rest on top of the stack the known rests that it is made of, and push the unknown ones.

    The height of the stack then, or ``W_GROW``.
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
    """Add a rest to that of a frame of the stack if it is known, or else push it; the stack's height then, or ``W_GROW``."""
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
