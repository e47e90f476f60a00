"""Bounds on how much of a text may be left after rules that it has yet to open; :mod:`cdplugin.queries.growth` explains their
use.

Rules are runs of symbols, each closed by ``END_OF_RULE``: ``n >= 0`` is a nonterminal, ``-2 - x`` lexeme ``x``.

Costs are counted in bytes, or in tokens. The endings that are found have the fewest bytes. So a cost in tokens means the tokens
of a text of the fewest bytes, and, among several such texts, of one with the most tokens. Such a cost is one number, *bytes*
``<< UNIT_BITS`` *minus tokens*: the least such number is wanted, costs add up, and :func:`in_units` extracts the tokens.

The edges of the graph of nonterminals::

    EDGES | source | target | price | between | kind        columns; between: a lexeme, or what no lexeme has (below)
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import count_bits, entry_kernel, kernel
from cdplugin.kernels.regex.measures import FAR, LONG
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.heap import heap_pop, heap_push

R_RULE, R_COST, R_WAY = range(3)
"""What a rule is used for: a rule of the grammar; only to end a nonterminal (its cost); only for what may be opened in it (its
edges).
"""
B_LEVEL, B_IS_BOUND, B_WORK, B_BYTES = range(4)
"""The result: by how much a level raises at most what is left; whether there is a bound; units of work (Limits) spent; 4 words,
a set of bytes one of which each level has.
"""
BOUND_WORDS = 7

_E_SOURCE, _E_TARGET, _E_PRICE, _E_BETWEEN, _E_KIND = range(5)
_EDGE_COLUMNS = 6  # the last one: edges sorted by source
_INSIDE, _COUNTED, _LEAVING = range(3)  # kinds of edges: inside a component, inside and counted, between components
_NOTHING, _ANY = -2, -1  # between: maybe no byte, or any byte
_NODE_ROWS, _RULE_ROWS, _SYMBOL_ROWS = 14, 2, 1
UNIT_BITS = 16
"""Bits below the bytes in a cost, for the tokens."""
_SHIFT = 22  # bits of the nonterminal below the cost in a heap entry


def scratch_size(n: int, n_rules: int, n_symbols: int) -> int:
    """Return the words of scratch that :func:`bound_rules` needs for so many nonterminals, rules and symbols."""
    return _NODE_ROWS * (n + 2) + _RULE_ROWS * n_rules + (_SYMBOL_ROWS + _EDGE_COLUMNS) * n_symbols + n + n_rules + 1


def in_units(cost, unit_bits):
    """Return the tokens of a cost, or its bytes if ``unit_bits`` is 0. :data:`FAR` stays what it is. Also called from
    Python.
    """
    if unit_bits == 0 or cost >= FAR:
        return cost
    return FAR if cost >= LONG else -cost & ((1 << unit_bits) - 1)


_in_units = kernel(in_units)


@entry_kernel
def bound_rules(rules, lexemes, unit_bits, scratch, found, out):
    """Compute what each nonterminal costs at least to end, and how much is left of it at most, from wherever in it a text may
    stand.

    ``rules``: ``(symbols, starts, lefts, uses, nullable, heads)``. ``starts``, ``lefts``, ``uses``: where each rule begins in
    ``symbols``, its left side, its use (``R_…``); rules of one left side are consecutive. ``nullable``, ``heads``: for each
    nonterminal, whether it may be empty (1: and then costs nothing), and its representative among nonterminals that are alike.

    ``lexemes``: ``(least, rest, needed)``. ``least``, ``rest``: for each lexeme, what a match costs, and how many bytes or
    tokens one that has begun may still need. ``needed``: 4 words for each, a set of bytes one of which every match has, all 0
    if none is known. ``unit_bits``: :data:`UNIT_BITS` for costs in tokens, 0 for bytes. ``scratch``: zeros
    (:func:`scratch_size`).

    Written are ``found``, that is ``(costs, reach, levels)``: for each nonterminal its cost, what is left of it at most, and by
    how much each level in it raises that, in bytes or tokens; and ``out``, of ``BOUND_WORDS``. All arrays are int64.

    Costs: Knuth's generalisation of Dijkstra's algorithm. Reach: longest paths through the graph of the strongly connected
    components (Tarjan, 1972).
    """
    _, starts, _, _, _, heads = rules
    least, _, needed = lexemes
    costs, reach, levels = found
    n = len(costs)
    n_rules = len(starts)
    wide = n + 2
    n_symbols = (len(scratch) - _NODE_ROWS * wide - _RULE_ROWS * n_rules - n - n_rules - 1) // (_SYMBOL_ROWS + _EDGE_COLUMNS)
    nodes = scratch[: _NODE_ROWS * wide].reshape((_NODE_ROWS, wide))
    at = _NODE_ROWS * wide
    of_rules = scratch[at : at + _RULE_ROWS * n_rules].reshape((_RULE_ROWS, n_rules))
    at += _RULE_ROWS * n_rules
    of_symbols = scratch[at : at + _SYMBOL_ROWS * n_symbols].reshape((_SYMBOL_ROWS, n_symbols))
    at += _SYMBOL_ROWS * n_symbols
    edges = scratch[at : at + _EDGE_COLUMNS * n_symbols].reshape((_EDGE_COLUMNS, n_symbols))
    heap = scratch[at + _EDGE_COLUMNS * n_symbols :]

    _settle(rules, least, nodes, of_rules, of_symbols, heap, costs)
    opened, component, order, free, free_order = nodes[0], nodes[1], nodes[2], nodes[3], nodes[4]
    best, own, most, first = nodes[5], nodes[6], nodes[7], nodes[8]
    opened[:] = 0
    rests = of_symbols[0]
    n_edges = _list_edges(rules, lexemes, unit_bits, costs, rests, nodes, edges)
    out[:] = 0
    out[B_WORK] = 10 * (n + n_rules) + 4 * n_symbols + 20 * max(n_edges, 0)
    if n_edges < 0:
        return
    edges[_E_KIND, :n_edges] = _INSIDE
    _components(n, edges, nodes, component, order)
    for e in range(n_edges):
        if component[edges[_E_SOURCE, e]] != component[edges[_E_TARGET, e]]:
            edges[_E_KIND, e] = _LEAVING
        elif edges[_E_BETWEEN, e] != _NOTHING and edges[_E_PRICE, e] > 0:
            edges[_E_KIND, e] = _COUNTED
    _components(n, edges, nodes, free, free_order)
    if _count_rounds(n_edges, edges, free, best):
        _components(n, edges, nodes, free, free_order)
    _price_free_ways(n, edges, nodes, free, free_order, component, best, own)
    most[:] = -1
    for e in range(n_edges):
        if edges[_E_KIND, e] == _COUNTED:
            c = component[edges[_E_SOURCE, e]]
            most[c] = max(most[c], edges[_E_PRICE, e])
            _unite(needed, edges[_E_BETWEEN, e], out)
    # the most expensive path to a lexeme in which a text may stand
    level = nodes[4]
    for c in range(n):
        level[c] = min(most[c] + own[c], FAR) if most[c] >= 0 else 0
    best[:] = 0
    for place in range(n):
        node = order[place]
        c = component[node]
        dearest = opened[node]
        for i in range(first[node], first[node + 1]):
            e = edges[_EDGE_COLUMNS - 1, i]
            if edges[_E_KIND, e] == _LEAVING:
                other = component[edges[_E_TARGET, e]]
                dearest = max(dearest, edges[_E_PRICE, e] + best[other])
                level[c] = max(level[c], level[other])
        best[c] = max(best[c], min(dearest + own[c], FAR))
    for node in range(n):
        c = component[heads[node]]
        reach[node], levels[node] = best[c], level[c]
        out[B_LEVEL] = max(out[B_LEVEL], level[c])
    out[B_IS_BOUND] = 1


@kernel
def _price_free_ways(n, edges, nodes, free, free_order, component, best, own):
    """Compute the greatest cost of a path without counted edges: from each part (``free``) into ``best``, inside each component
    into ``own``.

    If such a path has a cycle, all of it is at one position of the text. A nonterminal need not be opened twice at one
    position, so the path leaves each node of a part at most once.
    """
    first, round_ = nodes[8], nodes[9]
    best[:] = 0
    own[:] = 0
    round_[:] = 0
    place = 0
    while place < n:
        part = free[free_order[place]]
        last = place
        while last < n and free[free_order[last]] == part:
            node = free_order[last]
            most = np.int64(0)
            for i in range(first[node], first[node + 1]):
                e = edges[_EDGE_COLUMNS - 1, i]
                if edges[_E_KIND, e] == _INSIDE:
                    other = free[edges[_E_TARGET, e]]
                    if other == part:
                        most = max(most, edges[_E_PRICE, e])
                    else:
                        best[part] = max(best[part], min(edges[_E_PRICE, e] + best[other], FAR))
            round_[part] = min(round_[part] + most, FAR)
            last += 1
        best[part] = min(best[part] + round_[part], FAR)
        own[component[free_order[place]]] = max(own[component[free_order[place]]], best[part])
        place = last


@kernel
def _settle(rules, least, nodes, of_rules, of_symbols, heap, costs):
    """Compute the cost of each nonterminal, ``FAR`` if it never ends. Each rule enters the heap once, when its last part is
    settled.
    """
    symbols, starts, lefts, uses, nullable, heads = rules
    fixed, missing = of_rules[0], of_rules[1]
    first, mentions = nodes[0], of_symbols[0]
    n, n_rules = len(costs), len(starts)
    costs[:] = FAR
    for r in range(n_rules):
        if uses[r] == R_WAY:
            continue
        at = starts[r]
        while symbols[at] != layout.END_OF_RULE:
            if symbols[at] < 0:
                fixed[r] = _sum(fixed[r], least[-2 - symbols[at]])
            else:
                missing[r] += 1
                first[heads[symbols[at]] + 1] += 1
            at += 1
    for node in range(n):
        first[node + 1] += first[node]
    for r in range(n_rules):
        at = starts[r]
        while uses[r] != R_WAY and symbols[at] != layout.END_OF_RULE:
            if symbols[at] >= 0:
                node = heads[symbols[at]]
                mentions[first[node]] = r
                first[node] += 1
            at += 1
    for node in range(n, 0, -1):
        first[node] = first[node - 1]
    first[0] = 0
    size = np.int64(0)
    for node in range(n):
        if nullable[node] == 1 and heads[node] == node:
            size = heap_push(heap, size, node)
    for r in range(n_rules):
        if uses[r] != R_WAY and missing[r] == 0 and fixed[r] < FAR:
            size = heap_push(heap, size, fixed[r] << _SHIFT | heads[lefts[r]])
    while size:
        entry = heap_pop(heap, size)
        size -= 1
        node = entry & ((1 << _SHIFT) - 1)
        if costs[node] < FAR:
            continue
        costs[node] = entry >> _SHIFT
        for i in range(first[node], first[node + 1]):
            r = mentions[i]
            missing[r] -= 1
            if missing[r] or fixed[r] >= FAR or costs[heads[lefts[r]]] < FAR:
                continue
            cost = fixed[r]
            at = starts[r]
            while symbols[at] != layout.END_OF_RULE:
                if symbols[at] >= 0:
                    cost = _sum(cost, costs[heads[symbols[at]]])
                at += 1
            size = heap_push(heap, size, cost << _SHIFT | heads[lefts[r]])
    for node in range(n):
        costs[node] = costs[heads[node]]


@kernel
def _sum(one, two):
    """Return the sum of two costs: :data:`FAR` if one is, else at most :data:`LONG`."""
    return np.int64(FAR) if one >= FAR or two >= FAR else min(one + two, LONG)


@kernel
def _list_edges(rules, lexemes, unit_bits, costs, rests, nodes, edges):
    """List the edges, one from a rule's left side to each nonterminal in it; return how many, or -1 if the text of some rule
    never ends.

    An edge's price is what comes after the nonterminal in the rule. Also computes, by left side (``nodes[0]``), what is left of
    a rule whose lexeme a text stands in. At one position, a nonterminal that contains itself need not be opened twice; and of
    the rules that begin with one nonterminal, ending the cheapest is enough.
    """
    symbols, starts, lefts, uses, nullable, heads = rules
    least, rest, needed = lexemes
    opened, marks, corner, first = nodes[0], nodes[1], nodes[2], nodes[8]
    marks[:] = -1
    first[:] = 0
    count = np.int64(0)
    for r in range(len(starts)):
        if uses[r] == R_COST:
            continue
        left = heads[lefts[r]]
        end = starts[r]
        while symbols[end] != layout.END_OF_RULE:
            end += 1
        left_over = np.int64(0)
        for at in range(end - 1, starts[r] - 1, -1):
            rests[at - starts[r]] = left_over
            code = symbols[at]
            left_over = _sum(left_over, least[-2 - code] if code < 0 else costs[code])
        if left_over >= FAR:
            return np.int64(-1)
        between = np.int64(_NOTHING)
        for at in range(starts[r], end):
            code = symbols[at]
            price = rests[at - starts[r]]
            if code < 0:
                x = -2 - code
                opened[left] = max(opened[left], min(_in_units(price, unit_bits) + rest[x], FAR))
                if between == _NOTHING or _size(needed, x) < _size(needed, between):
                    between = x if _size(needed, x) < 256 else np.int64(_ANY)
                continue
            node = heads[code]
            is_first = at == starts[r]
            if is_first and uses[r] == R_RULE and marks[node] == left:
                edges[_E_PRICE, corner[node]] = min(edges[_E_PRICE, corner[node]], price)
            elif not (is_first and node == left):
                if is_first and uses[r] == R_RULE:
                    marks[node], corner[node] = left, count
                edges[_E_SOURCE, count], edges[_E_TARGET, count] = left, node
                edges[_E_PRICE, count] = price
                edges[_E_BETWEEN, count] = _ANY if between == _NOTHING and node == left else between
                first[left + 1] += 1
                count += 1
            if between == _NOTHING and not nullable[code]:
                between = np.int64(_ANY)
    for node in range(len(costs)):
        first[node + 1] += first[node]
    for e in range(count):
        edges[_E_PRICE, e] = _in_units(edges[_E_PRICE, e], unit_bits)
        source = edges[_E_SOURCE, e]
        edges[_EDGE_COLUMNS - 1, first[source]] = e
        first[source] += 1
    for node in range(len(costs), 0, -1):
        first[node] = first[node - 1]
    first[0] = 0
    return count


@kernel
def _size(needed, x):
    """Return the size of a lexeme's byte set; 256 if none is known, or if ``x`` is no lexeme."""
    if x < 0:
        return np.int64(256)
    size = np.int64(0)
    for word in range(4 * x, 4 * x + 4):
        size += count_bits(needed[word])
    return size if size else np.int64(256)


@kernel
def _unite(needed, x, out):
    """Add a lexeme's byte set, or all bytes, to that of the result."""
    for word in range(4):
        out[B_BYTES + word] |= np.int64(-1) if _size(needed, x) == 256 else needed[4 * x + word]


@kernel
def _components(n, edges, nodes, component, order):
    """Compute the strongly connected component of each node, along ``_INSIDE`` edges, and the nodes in ``order``, targets
    first.
    """
    first, index, low, stack, work, following = nodes[8], nodes[9], nodes[10], nodes[11], nodes[12], nodes[13]
    component[:] = -1
    index[:] = 0
    seen = np.int64(0)
    placed = np.int64(0)
    n_components = np.int64(0)
    n_stack = np.int64(0)
    for root in range(n):
        if index[root]:
            continue
        work[0] = root
        depth = np.int64(1)
        while depth:
            node = work[depth - 1]
            if not index[node]:
                seen += 1
                index[node] = low[node] = seen
                stack[n_stack] = node
                n_stack += 1
                following[node] = first[node]
            if following[node] < first[node + 1]:
                e = edges[_EDGE_COLUMNS - 1, following[node]]
                child = edges[_E_TARGET, e]
                following[node] += 1
                if edges[_E_KIND, e] == _INSIDE and not index[child]:
                    work[depth] = child
                    depth += 1
                elif edges[_E_KIND, e] == _INSIDE and component[child] < 0:
                    low[node] = min(low[node], index[child])
                continue
            depth -= 1
            if depth:
                low[work[depth - 1]] = min(low[work[depth - 1]], low[node])
            if low[node] == index[node]:
                member = np.int64(-1)
                while member != node:
                    n_stack -= 1
                    member = stack[n_stack]
                    component[member] = n_components
                    order[placed] = member
                    placed += 1
                n_components += 1


@kernel
def _count_rounds(n_edges, edges, free, is_endless):
    """Return whether some cycle costs something and passes no counted edge; and mark all edges on such cycles that have a byte
    as counted.

    Cycles without such an edge stay at one position of the text.
    """
    is_endless[:] = 0
    found = False
    for e in range(n_edges):
        part = free[edges[_E_SOURCE, e]]
        if edges[_E_KIND, e] == _INSIDE and edges[_E_PRICE, e] > 0 and free[edges[_E_TARGET, e]] == part:
            is_endless[part] = 1
            found = True
    for e in range(n_edges):
        part = free[edges[_E_SOURCE, e]]
        if edges[_E_KIND, e] == _INSIDE and free[edges[_E_TARGET, e]] == part and is_endless[part]:
            if edges[_E_BETWEEN, e] != _NOTHING:
                edges[_E_KIND, e] = _COUNTED
    return found


@entry_kernel
def count_bytes(token_bytes, offsets, is_first, is_wanted, counts):
    """Count each token's wanted bytes, after the first of its bytes that may come first; -1 if it has none of these.

    ``is_first``, ``is_wanted``: 256 of 0 and 1, int64; if all bytes may come first, a token's first byte counts, too.
    ``counts``: int32, written.
    """
    any_is_first = is_first.sum() == 256
    for token in range(len(offsets) - 1):
        count = np.int64(0 if any_is_first else -1)
        for at in range(offsets[token], offsets[token + 1]):
            if count >= 0:
                count += is_wanted[token_bytes[at]]
            elif is_first[token_bytes[at]]:
                count = 0
        counts[token] = count
