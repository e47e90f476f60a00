"""A cheapest derivation on the lattice, by Knuth's algorithm ("A generalization of Dijkstra's algorithm", 1977).

For completions, called by :mod:`cdplugin.infill.complete`. A *fact* here is a triple ``(dot, node, end)``: the rest of the rule
behind the dot, begun at the node, may end at the end. An *inference* is one way to derive it from at most two other facts: none
at the end of a rule; the rest behind a lexeme (an *edge* of the lattice); or a nonterminal's rule and the rest behind the
nonterminal. :func:`collect` gathers, from the goal down, the facts that it can be made of. Then the caller sets the costs of
edges (their bytes in gaps), and :func:`choose` finds the cheapest inference of each fact.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, clear_records, final_node, has_bit, number_of, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64

_NODE = (1 << ws.NODE_BITS) - 1
_WORK = 40  # quarters of a unit of work for a fact, an inference, or an entry of the heap


@kernel
def collect(h, w):
    """Fill ``FACTS``, ``INFERENCES`` and ``EDGES`` with all that the goal can be made of; 0 or a status.

    The goal, fact 0, is the first rule from the beginning of the text to its end.
    """
    head = whead(w)
    head[ws.W_N_INFERENCES] = 0
    clear_records(w, np.int64(ws.W_N_FACTS))
    clear_records(w, np.int64(ws.W_N_EDGES))
    fact = _fact(w, np.int64(0), head[ws.W_FIRST], final_node(w))
    at = np.int64(0)
    while at < head[ws.W_N_FACTS]:
        if fact < 0 or not charge(w, _WORK):
            return np.int64(statuses.W_GROW)
        fact = _infer(h, w, at)
        at += 1
    return min(fact, np.int64(0))


@kernel
def _infer(h, w, fact):
    """Record the inferences of a fact; 0 or a status."""
    head = whead(w)
    key = tab(w, ws.FACTS)[ws.FACT_WORDS * fact]
    dot = key >> 2 * ws.NODE_BITS
    node = (key >> ws.NODE_BITS) & _NODE
    end = key & _NODE
    symbol = i64(h, layout.DOT_SYMBOL)[dot]
    if symbol == layout.END_OF_RULE:
        return _add_inference(w, fact, np.int64(-1), np.int64(-1), np.int64(-1)) if node == end else np.int64(0)
    bits = tab(w, ws.BITS)
    if symbol >= 0:
        row = tab(w, ws.DERIVED)[node * head[ws.W_N_SYMBOLS_NT] + symbol]
        is_null = i64(h, layout.NULLABLE)[symbol] != 0
    else:
        row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] - 2 - symbol]
        is_null = False
    for i in range(node >> 6, head[ws.W_WIDTH]):
        word = bits[row + i] if row else np.int64(0)
        if is_null and i == node >> 6:
            word |= np.int64(1) << (node & 63)
        charge(w, 1)
        while word:
            middle = np.int64(64 * i + low_bit(word))
            word &= word - 1
            charge(w, 4)
            if not _leads(h, w, dot + 1, middle, end):
                continue
            after = _fact(w, dot + 1, middle, end)
            if after < 0:
                return after
            status = _through(h, w, fact, symbol, node, middle, after)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _through(h, w, fact, symbol, node, middle, after):
    """Record the inferences by which a symbol leads from ``node`` to ``middle``, then the fact ``after``; 0 or a status."""
    if symbol < 0:
        edge = _edge(w, -2 - symbol, node, middle)
        return _add_inference(w, fact, after, np.int64(-1), edge) if edge >= 0 else edge
    firsts = tab(w, ws.FIRST_DOTS)
    heads = tab(w, ws.FIRST_HEADS)
    for i in range(heads[symbol], heads[symbol + 1]):
        charge(w, 4)
        if _leads(h, w, firsts[i], node, middle):
            inside = _fact(w, firsts[i], node, middle)
            status = _add_inference(w, fact, inside, after, np.int64(-1)) if inside >= 0 else inside
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _leads(h, w, dot, node, end):
    """Whether the rest behind ``dot``, begun at ``node``, may end at ``end``."""
    if node == end and i64(h, layout.DOT_NULL_REST)[dot]:
        return True
    row = tab(w, ws.REST)[node * whead(w)[ws.W_N_DOTS] + dot]
    return row != 0 and has_bit(tab(w, ws.BITS), row, end)


@kernel
def _fact(w, dot, node, end):
    """The number of a fact, a new one if need be; or ``W_GROW``."""
    key = (dot << 2 * ws.NODE_BITS) | (node << ws.NODE_BITS) | end
    return number_of(w, ws.FACT_INDEX, ws.FACTS, ws.FACT_WORDS, ws.W_N_FACTS, key)


@kernel
def _edge(w, lexeme, node, end):
    """The number of an edge, a new one if need be; or ``W_GROW``."""
    key = (lexeme << 2 * ws.NODE_BITS) | (node << ws.NODE_BITS) | end
    return number_of(w, ws.EDGE_INDEX, ws.EDGES, ws.EDGE_WORDS, ws.W_N_EDGES, key)


@kernel
def _add_inference(w, fact, need, other, edge):
    """Record an inference that needs up to two facts (-1: none); 0 or ``W_GROW``."""
    head = whead(w)
    number = head[ws.W_N_INFERENCES]
    charge(w, _WORK)
    if not room(w, ws.INFERENCES, ws.INFERENCE_WORDS * (number + 1)):
        return np.int64(statuses.W_GROW)
    at = ws.INFERENCE_WORDS * number
    inferences = tab(w, ws.INFERENCES)
    facts = tab(w, ws.FACTS)
    inferences[at + ws.INF_FACT] = fact
    inferences[at + ws.INF_NEED] = need
    inferences[at + ws.INF_OTHER] = other
    inferences[at + ws.INF_EDGE] = edge
    inferences[at + ws.INF_NEXT] = 0
    inferences[at + ws.INF_NEXT_OTHER] = 0
    if need >= 0:
        inferences[at + ws.INF_NEXT] = facts[ws.FACT_WORDS * need + ws.F_USERS]
        facts[ws.FACT_WORDS * need + ws.F_USERS] = 1 + 2 * number
    if other >= 0 and other != need:
        inferences[at + ws.INF_NEXT_OTHER] = facts[ws.FACT_WORDS * other + ws.F_USERS]
        facts[ws.FACT_WORDS * other + ws.F_USERS] = 2 + 2 * number
    head[ws.W_N_INFERENCES] = number + 1
    return np.int64(0)


@kernel
def choose(w):
    """Fill ``F_COST`` and ``F_INFERENCE`` of the facts that can be derived with edges that are not barred (cost -1): 1 if the
    goal is one of them, 0 if not, or ``W_GROW``.

    A byte costs more (:data:`~cdplugin.kernels.infill.layout.BYTE`) than all inferences of a derivation together, which cost 1
    each. So among the derivations with the fewest bytes, one with the fewest inferences is chosen.
    """
    head = whead(w)
    facts = tab(w, ws.FACTS)
    inferences = tab(w, ws.INFERENCES)
    for fact in range(head[ws.W_N_FACTS]):
        facts[ws.FACT_WORDS * fact + ws.F_INFERENCE] = -1
    charge(w, head[ws.W_N_FACTS])
    # an inference enters the heap once: when the last fact that it needs is done
    if not room(w, ws.HEAP, 2 * (head[ws.W_N_INFERENCES] + 1)):
        return np.int64(statuses.W_GROW)
    count = np.int64(0)
    for inference in range(head[ws.W_N_INFERENCES]):
        if inferences[ws.INFERENCE_WORDS * inference + ws.INF_NEED] < 0:
            count = push(w, count, np.int64(0), np.int64(inference))
    while count > 0:
        heap = tab(w, ws.HEAP)
        cost = heap[0]
        inference = heap[1]
        count = pop(w, count)
        fact = inferences[ws.INFERENCE_WORDS * inference + ws.INF_FACT]
        if facts[ws.FACT_WORDS * fact + ws.F_INFERENCE] >= 0:
            continue
        facts[ws.FACT_WORDS * fact + ws.F_INFERENCE] = inference
        facts[ws.FACT_WORDS * fact + ws.F_COST] = cost
        if fact == 0:
            return np.int64(1)
        user = facts[ws.FACT_WORDS * fact + ws.F_USERS]
        while user:
            if not charge(w, _WORK):
                return np.int64(statuses.W_GROW)
            other = (user - 1) >> 1
            at = ws.INFERENCE_WORDS * other
            user = inferences[at + (ws.INF_NEXT if (user - 1) & 1 == 0 else ws.INF_NEXT_OTHER)]
            total = _cost_of(w, np.int64(other))
            if total >= 0:
                count = push(w, count, total, np.int64(other))
    return np.int64(0)


@kernel
def _cost_of(w, inference):
    """The cost of an inference; -1 if a fact or edge that it needs is not done or barred, or if its own fact is done."""
    facts = tab(w, ws.FACTS)
    inferences = tab(w, ws.INFERENCES)
    at = ws.INFERENCE_WORDS * inference
    if facts[ws.FACT_WORDS * inferences[at + ws.INF_FACT] + ws.F_INFERENCE] >= 0:
        return np.int64(-1)
    total = np.int64(1)
    edge = inferences[at + ws.INF_EDGE]
    if edge >= 0:
        if tab(w, ws.EDGES)[ws.EDGE_WORDS * edge + 1] < 0:
            return np.int64(-1)
        total += tab(w, ws.EDGES)[ws.EDGE_WORDS * edge + 1]
    for i in (ws.INF_NEED, ws.INF_OTHER):
        need = inferences[at + i]
        if need >= 0:
            if facts[ws.FACT_WORDS * need + ws.F_INFERENCE] < 0:
                return np.int64(-1)
            total += facts[ws.FACT_WORDS * need + ws.F_COST]
    return min(total, np.int64(ws.MOST_COST))


@kernel
def push(w, count, cost, number):
    """Push an entry on the heap, which has room for it; the new count. The cheapest comes first; among equals, the lowest
    number.
    """
    heap = tab(w, ws.HEAP)
    at = count
    while at > 0:
        above = (at - 1) >> 1
        if heap[2 * above] < cost or (heap[2 * above] == cost and heap[2 * above + 1] < number):
            break
        heap[2 * at] = heap[2 * above]
        heap[2 * at + 1] = heap[2 * above + 1]
        at = above
    heap[2 * at] = cost
    heap[2 * at + 1] = number
    return count + 1


@kernel
def pop(w, count):
    """Remove the cheapest entry from the heap; the new count."""
    heap = tab(w, ws.HEAP)
    count -= 1
    cost = heap[2 * count]
    number = heap[2 * count + 1]
    at = np.int64(0)
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        if below + 1 < count and (
            heap[2 * below + 2] < heap[2 * below]
            or (heap[2 * below + 2] == heap[2 * below] and heap[2 * below + 3] < heap[2 * below + 1])
        ):
            below += 1
        if cost < heap[2 * below] or (cost == heap[2 * below] and number < heap[2 * below + 1]):
            break
        heap[2 * at] = heap[2 * below]
        heap[2 * at + 1] = heap[2 * below + 1]
        at = below
    heap[2 * at] = cost
    heap[2 * at + 1] = number
    return count
