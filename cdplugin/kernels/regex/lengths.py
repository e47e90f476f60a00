"""Conjunctions with a length: does ``R{m,n} & P & ~Q & …`` match anything? Answered for all ``m`` and ``n`` at once.

A password policy is such an expression: 14 to 64 characters, a digit, a capital, no "password". A search derivative by
derivative would make each state of the patterns anew for each number of characters left. Instead, the patterns are followed
without the counted part, one word of ``R`` (a character) at a time. This gives a graph whose nodes are the rest ``P & ~Q & …``
after so many characters. A breadth-first search backwards, from the nodes that match the empty string, gives for each node:

- the least number of characters to an end;
- whether it is *loose*: some way of that length passes a node with a self-loop, so every larger number of characters will do;
- whether it is *endless*: some way to an end passes a cycle, so there are ways of unbounded length.

The answer for ``m`` and ``n`` is then a comparison. For example ``.{14,64} & P`` (``.`` a character), where
``P = .*[0-9].*[0-9].*`` asks for two digits::

    node         a digit leads to    anything else to    characters to an end    loose
    1: P         2                   1                   2                       yes
    2: P|Q       3                   2                   1                       yes      Q = .*[0-9].*
    3: P|Q|.*    3                   3                   0                       yes

    {14,64} at node 1: 2 <= 64, and loose, so any number from 2 on will do: matches something
    {0,1} at node 1: 2 > 1: matches nothing
    {14,} at node 1: endless, as every loose node is: matches something

An endless node need not be loose: in ``([a-z][0-9])*`` no node has a self-loop, and each match has an even number of
characters. Its cycle of two nodes answers {10000,} without 10,000 steps. Where it may decide, the length of a cycle on a
shortest way is computed: {1600,8000} over lines of 64 characters holds a number of whole lines (:func:`_cycle_of`). {3,3} over
that example does not, and is left to a search.

All numbers are memoised for every node of a graph, so a mask, which asks about hundreds of places and lengths, pays once.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.regex.absorb import derive_absorbed
from cdplugin.kernels.regex.derive import derive_class
from cdplugin.kernels.regex.expressions import EMPTY, EPSILON, IS_EMPTY, KNOWN_NONEMPTY, MEASURED, make_and, nullable
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    clear_flags,
    flags_of,
    has_room,
    header,
    i64,
    kind_of,
    length_of,
    lower_bound,
    memo_get,
    memo_put,
    pack,
    set_flags,
    sort_range,
    spend,
    word_of,
)
from cdplugin.kernels.store.byte_sets import has_byte
from cdplugin.kernels.store.stack import has_pair, intern_set, keep_firsts, push, push_pair

UNDECIDED = 2
FEW_NODES = 512  # nodes of a graph that is measured before a search is tried
_FEW_WORK = 1 << 19  # units of work that this may take: a node with many byte classes takes thousands
_FEW_OPEN = 16  # nodes of a graph that is measured for a count without a largest number
_LONG = 256  # such a count is measured if its least number is at least this: a search over shorter texts is short
MOST_NODES = 1 << 20  # nodes of a graph that is measured as a last resort; LIMIT_WORK comes earlier
_NO_END = 1 << 30  # number of characters to an end if there is no end
_LOOSE, _ENDLESS, _BITS = 1, 2, 2  # flags memoised beside the number of characters, and the bits that they take
_TOO_LARGE = 1 << 40  # memoised instead, if the graph has too many nodes


@kernel
def by_length(h, e, most_nodes):
    """Return 1 if ``e``, a conjunction with a counted repetition or what begins with one, matches something, 0 if nothing,
    ``UNDECIDED``, or a status.

    ``UNDECIDED``: ``e`` is no such expression, its graph has more than ``most_nodes`` nodes (0: use only what is memoised), or
    the only known end comes too early and cannot be delayed. With ``n`` characters to an end, nothing matches if there is no
    end, or if the count allows only fewer than ``n``. Something matches if ``n`` is within the bounds; or below them, and the
    node is loose, or turns of a cycle bring ``n`` within them; or if there is no upper bound and the node is endless.
    """
    joint = e
    if kind_of(h, e) == layout.K_CAT:
        joint = word_of(h, e, 0)
        if flags_of(h, word_of(h, e, 1)) & KNOWN_NONEMPTY == 0:
            return np.int64(UNDECIDED)
    if kind_of(h, joint) != layout.K_AND:
        return np.int64(UNDECIDED)
    place = _counted_part(h, joint)
    if place < 0:
        return np.int64(UNDECIDED)
    counted = word_of(h, joint, place)
    rest = _without(h, joint, place)
    if rest < 0:
        return rest
    is_open = word_of(h, counted, 2) < 0
    known = memo_get(h, layout.M_CHARS, rest, word_of(h, counted, 0))
    if most_nodes > 0 and (known < 0 or (known == _TOO_LARGE and most_nodes > FEW_NODES)):
        # without an upper bound, measure small graphs only: a search finds long texts, too, and visits less of a large graph
        known = _measure(h, rest, word_of(h, counted, 0), min(most_nodes, _FEW_OPEN) if is_open else most_nodes)
        if known < 0:
            return known
    if known < 0 or known == _TOO_LARGE:
        return np.int64(UNDECIDED)
    chars = known >> _BITS
    if chars == _NO_END or (chars > word_of(h, counted, 2) and not is_open):
        return np.int64(0)
    if known & _LOOSE or chars >= word_of(h, counted, 1) or (known & _ENDLESS and is_open):
        return np.int64(1)
    if known & _ENDLESS:
        cycle = _cycle_of(h, rest, word_of(h, counted, 0), most_nodes > 0)
        if cycle < 0:
            return cycle
        if cycle > 0:
            turns = (word_of(h, counted, 1) - chars + cycle - 1) // cycle
            if chars + turns * cycle <= word_of(h, counted, 2):
                return np.int64(1)
    return np.int64(UNDECIDED)  # the known end comes too early: a search has to find out whether a later one exists


@kernel
def _counted_part(h, joint):
    """Return the index of the part of an ``&`` that is used as the count, -1 if there is none.

    The first bounded repetition, since it may show that nothing matches; else the first unbounded one that asks for many. Its
    body must not be nullable, since each turn must take a character.
    """
    place = np.int64(-1)
    for i in range(length_of(h, joint)):
        part = word_of(h, joint, i)
        if kind_of(h, part) == layout.K_REPEAT and not nullable(h, word_of(h, part, 0)):
            if word_of(h, part, 2) >= 0:
                return i
            if place < 0 and word_of(h, part, 1) >= _LONG:
                place = i
    return place


@kernel
def _without(h, joint, place):
    """Return the ``&`` of all parts but the one at ``place``: an id or a status."""
    head = header(h)
    base = head[layout.STACK_TOP]
    for i in range(length_of(h, joint)):
        if i != place and push(h, word_of(h, joint, i)) < 0:
            return np.int64(statuses.GROW)
    count = head[layout.STACK_TOP] - base
    result = i64(h, layout.STACK)[base] if count == 1 else np.int64(make_and(h, base, count))
    head[layout.STACK_TOP] = base
    return result


@kernel
def _measure(h, start, body, most_nodes):
    """Memoise ``4 n + 2 endless + loose`` for each node of the graph of ``start``, ``n`` being the characters (words of
    ``body``) to an end.

    Returns the number for ``start``, ``_TOO_LARGE``, or a status. All nodes are memoised, because each becomes a ``start``
    itself once text has been read. If the graph is too large, that is memoised for all nodes that were met.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    status = _collect(h, start, body, most_nodes)
    if status == 0:
        status = _measure_nodes(h, base, head[layout.STACK_TOP] - base, body)
    elif status == _TOO_LARGE:  # the graphs of these nodes mostly are, too; to find that out for each would take long
        for i in range(base, head[layout.STACK_TOP]):
            if memo_put(h, layout.M_CHARS, i64(h, layout.STACK)[i], body, np.int64(_TOO_LARGE)) < 0:
                return np.int64(statuses.GROW)
    head[layout.STACK_TOP] = base
    return status if status < 0 else memo_get(h, layout.M_CHARS, start, body)


@kernel
def _collect(h, start, body, most_nodes):
    """Push the nodes of the graph of ``start``, breadth first; 0, ``_TOO_LARGE``, or a status."""
    head = header(h)
    base = head[layout.STACK_TOP]
    status = _push_nodes(h, start, body, most_nodes)
    words = i64(h, layout.STACK)
    for i in range(base, head[layout.STACK_TOP]):
        clear_flags(h, words[i], MEASURED)
    return status


@kernel
def _push_nodes(h, start, body, most_nodes):
    """Do :func:`_collect`, leaving the nodes marked (``MEASURED``). The stack is queue and list of nodes in one."""
    head = header(h)
    at = head[layout.STACK_TOP]
    if push(h, start) < 0:
        return np.int64(statuses.GROW)
    set_flags(h, start, MEASURED)
    first = at
    enough = head[layout.WORK_LEFT] - _FEW_WORK
    while at < head[layout.STACK_TOP]:
        if at - first >= most_nodes or (most_nodes <= FEW_NODES and head[layout.WORK_LEFT] < enough):
            return np.int64(_TOO_LARGE)
        following = _next(h, i64(h, layout.STACK)[at], body)
        at += 1
        if following < 0:
            return following
        if not spend(h, 4 + length_of(h, following)):
            return np.int64(statuses.LIMIT_WORK)
        for i in range(length_of(h, following)):
            node = word_of(h, following, i)
            if flags_of(h, node) & MEASURED == 0:
                if push(h, node) < 0:
                    return np.int64(statuses.GROW)
                set_flags(h, node, MEASURED)
    return np.int64(0)


@kernel
def _next(h, node, body):
    """Return the nodes after ``node`` and one word of ``body``, as a ``K_NEXT`` value; or a status.

    Breadth-first search over pairs (what is left of the node, what is left of the word), up to the pairs whose word has ended.
    A character is at most four bytes, so there are few pairs. Memoised by (node, body).
    """
    known = memo_get(h, layout.M_NEXT, node, body)
    if known >= 0:
        return known
    head = header(h)
    base = head[layout.STACK_TOP]
    # the queue, from base on: pairs of what is left of the node and of the word (EPSILON: it has ended)
    if push_pair(h, node, body) < 0:
        return np.int64(statuses.GROW)
    at = base
    while at < head[layout.STACK_TOP]:
        left = i64(h, layout.STACK)[at]
        word = i64(h, layout.STACK)[at + 1]
        at += 2
        if word == EPSILON:
            continue
        covered = byte_set(0)
        for byte in range(256):
            if has_byte(covered, byte):
                continue
            word_after = derive_class(h, word, left, byte, covered)
            if word_after == EMPTY:
                continue
            left_after = derive_absorbed(h, left, byte)
            if word_after < 0 or left_after < 0:
                return min(word_after, left_after)
            if left_after == EMPTY or flags_of(h, left_after) & IS_EMPTY:
                continue
            status = np.int64(0)
            # the word may end here, and may also go on
            if nullable(h, word_after):
                status = _push_new_pair(h, base, left_after, np.int64(EPSILON))
            if status >= 0 and word_after != EPSILON:
                status = _push_new_pair(h, base, left_after, word_after)
            if status < 0:
                return status
    keep_firsts(h, base, np.int64(EPSILON))
    result = intern_set(h, layout.K_NEXT, base)
    return memo_put(h, layout.M_NEXT, node, body, result)


@kernel
def _push_new_pair(h, base, left, word):
    """Push a pair unless it is among those from ``base`` on; 0 or a status."""
    if not spend(h, 1 + ((header(h)[layout.STACK_TOP] - base) >> 3)):
        return np.int64(statuses.LIMIT_WORK)
    return np.int64(0 if has_pair(h, base, left, word) else push_pair(h, left, word))


@kernel
def _count_edges(h, nodes, count, body):
    """Return how many edges leave the nodes ``STACK[nodes:nodes + count]``."""
    n_edges = np.int64(0)
    for i in range(count):
        n_edges += length_of(h, _next(h, i64(h, layout.STACK)[nodes + i], body))
    return n_edges


@kernel
def _measure_nodes(h, nodes, count, body):
    """Memoise the numbers of the nodes ``STACK[nodes:nodes + count]``, a closed graph; 0 or a status.

    The edges are reversed by counting sort; then one breadth-first search runs from all nodes that match the empty string. A
    node is loose if it has a self-loop, or if a node one character nearer to an end, on some shortest way, is loose. A node is
    endless if it survives repeatedly removing the nodes that lead to no node with an end (Kahn, 1962). Work: nodes + edges,
    with a bisection for each edge.
    """
    head = header(h)
    words = i64(h, layout.STACK)
    n_edges = _count_edges(h, nodes, count, body)
    # arrays behind the nodes: numbers of nodes, sorted by id; characters to an end; looseness; where each node's predecessors
    # begin; the predecessors; a queue; how many successors with an end each node has
    by_id = nodes + count
    chars = by_id + count
    loose = chars + count
    starts = loose + count
    sources = starts + count + 1
    queue = sources + n_edges
    ahead = queue + count
    if not has_room(h, layout.STACK, ahead + count):
        return np.int64(statuses.GROW)
    if not spend(h, 5 * (count + n_edges)):
        return np.int64(statuses.LIMIT_WORK)
    for i in range(count):
        words[by_id + i] = pack(words[nodes + i], i)
        words[chars + i] = _NO_END
        words[loose + i] = 0
        words[starts + i] = 0
        words[ahead + i] = 0
    words[starts + count] = 0
    sort_range(words, by_id, count)
    for i in range(count):  # count each node's predecessors, stored one place further on
        following = _next(h, words[nodes + i], body)
        for j in range(length_of(h, following)):
            target = _number_of(words, by_id, count, word_of(h, following, j))
            words[starts + target + 1] += 1
            if target == i:
                words[loose + i] = 1
    for i in range(count):
        words[starts + i + 1] += words[starts + i]
    for i in range(count - 1, -1, -1):  # fill from the back; afterwards starts[t + 1] is where the predecessors of t begin
        following = _next(h, words[nodes + i], body)
        for j in range(length_of(h, following)):
            target = _number_of(words, by_id, count, word_of(h, following, j))
            words[starts + target + 1] -= 1
            words[sources + words[starts + target + 1]] = i
    end = queue
    for i in range(count):
        if nullable(h, words[nodes + i]):
            words[chars + i] = 0
            words[end] = i
            end += 1
    at = queue
    while at < end:  # nodes come in order of distance, so a node's own looseness is final at its turn
        target = words[at]
        at += 1
        for s in range(words[starts + target + 1], _end_of_sources(words, starts, target, count, n_edges)):
            source = words[sources + s]
            words[ahead + source] += 1
            if words[chars + source] == _NO_END:
                words[chars + source] = words[chars + target] + 1
                words[end] = source
                end += 1
            if words[chars + source] == words[chars + target] + 1:
                words[loose + source] |= words[loose + target]
    head[layout.WORK_LEFT] -= 5 * (end - queue)
    end = queue
    for i in range(count):
        if words[chars + i] < _NO_END and words[ahead + i] == 0:
            words[end] = i
            end += 1
    at = queue
    while at < end:
        target = words[at]
        at += 1
        for s in range(words[starts + target + 1], _end_of_sources(words, starts, target, count, n_edges)):
            source = words[sources + s]
            words[ahead + source] -= 1
            if words[ahead + source] == 0:
                words[end] = source
                end += 1
    for i in range(count):
        bits = words[loose + i] * _LOOSE + (_ENDLESS if words[ahead + i] > 0 else 0)
        if memo_put(h, layout.M_CHARS, words[nodes + i], body, (words[chars + i] << _BITS) + bits) < 0:
            return np.int64(statuses.GROW)
    return np.int64(0)


@kernel
def _end_of_sources(words, starts, target, count, n_edges):
    """Return where the predecessors of node ``target`` end, counted from ``sources``: where those of the next node begin.

    ``starts``: index of the ``count + 1`` words that :func:`_measure_nodes` has filled.
    """
    return words[starts + target + 2] if target + 1 < count else n_edges


@kernel
def _number_of(words, by_id, count, node):
    """Return the number of a node, bisecting the pairs ``node << 32 | number`` in ``words[by_id:by_id + count]``. It
    is there.
    """
    return words[lower_bound(words, by_id, by_id + count, pack(node, 0))] & 0xFFFFFFFF


@kernel
def _cycle_of(h, start, body, may_measure):
    """Return the length, in characters, of the shortest cycle on some shortest way from ``start`` to an end; 0 if there is none
    or it is not known; or a status.

    If an end comes after ``n`` characters, one comes after any ``n + k * cycle``, too. Memoised for all nodes of a graph of at
    most ``FEW_NODES``, whose characters to an end are memoised already.
    """
    known = memo_get(h, layout.M_CYCLE, start, body)
    if known >= 0 or not may_measure:
        return max(known, np.int64(0))
    head = header(h)
    base = head[layout.STACK_TOP]
    status = _collect(h, start, body, FEW_NODES)
    if status == 0:
        status = _measure_cycles(h, base, head[layout.STACK_TOP] - base, body)
    elif status == _TOO_LARGE:
        status = memo_put(h, layout.M_CYCLE, start, body, np.int64(0))
    head[layout.STACK_TOP] = base
    return status if status < 0 else memo_get(h, layout.M_CYCLE, start, body)


@kernel
def _measure_cycles(h, nodes, count, body):
    """Memoise :func:`_cycle_of` for the nodes ``STACK[nodes:nodes + count]``, a closed graph; 0 or a status.

    A breadth-first search from each node finds its shortest cycle. Then each node takes the shortest cycle of the next nodes on
    its shortest ways, if that is shorter. Work: at most nodes * edges, a quarter of a unit each.
    """
    words = i64(h, layout.STACK)
    n_edges = _count_edges(h, nodes, count, body)
    # arrays behind the nodes: their numbers by id, later their order; their cycles; where their edges begin; the edges, as
    # numbers of nodes; a queue, later the characters to an end; the last search that has met each node
    order = nodes + count
    cycles = order + count
    starts = cycles + count
    targets = starts + count + 1
    queue = targets + n_edges
    met_by = queue + count
    if not has_room(h, layout.STACK, met_by + count):
        return np.int64(statuses.GROW)
    if not spend(h, 5 * (count + n_edges)):
        return np.int64(statuses.LIMIT_WORK)
    for i in range(count):
        words[order + i] = pack(words[nodes + i], i)
        words[met_by + i] = -1
    sort_range(words, order, count)
    end = targets
    for i in range(count):
        words[starts + i] = end
        following = _next(h, words[nodes + i], body)
        for j in range(length_of(h, following)):
            words[end] = _number_of(words, order, count, word_of(h, following, j))
            end += 1
    words[starts + count] = end
    for i in range(count):
        words[cycles + i], visits = _shortest_cycle(words, i, starts, queue, met_by)
        if not spend(h, 1 + (visits >> 2)):
            return np.int64(statuses.LIMIT_WORK)
    for i in range(count):
        known = memo_get(h, layout.M_CHARS, words[nodes + i], body)
        words[queue + i] = _NO_END if known < 0 or known == _TOO_LARGE else known >> _BITS
        words[order + i] = pack(words[queue + i], i)
    sort_range(words, order, count)
    for n in range(count):  # nodes nearer to an end come first
        i = words[order + n] & 0xFFFFFFFF
        for edge in range(words[starts + i], words[starts + i + 1]):
            target = words[edge]
            cycle = words[cycles + target]
            if words[queue + target] + 1 == words[queue + i] and cycle > 0:
                words[cycles + i] = min(words[cycles + i], cycle) if words[cycles + i] else cycle
        if memo_put(h, layout.M_CYCLE, words[nodes + i], body, words[cycles + i]) < 0:
            return np.int64(statuses.GROW)
    return np.int64(0)


@kernel
def _shortest_cycle(words, first, starts, queue, met_by):
    """Return the length of the shortest cycle through node number ``first``, 0 if there is none, and how many edges were
    visited.

    ``starts``: index of the words that say where each node's edges begin. ``queue``, ``met_by``: scratch, a word for each node;
    the latter holds the numbers of earlier searches.
    """
    words[queue] = first
    begin, end = queue, queue + 1
    length = np.int64(0)
    visits = np.int64(0)
    while begin < end:
        length += 1
        level_end = end
        while begin < level_end:
            node = words[begin]
            begin += 1
            for edge in range(words[starts + node], words[starts + node + 1]):
                target = words[edge]
                visits += 1
                if target == first:
                    return length, visits
                if words[met_by + target] != first:
                    words[met_by + target] = first
                    words[end] = target
                    end += 1
    return np.int64(0), visits
