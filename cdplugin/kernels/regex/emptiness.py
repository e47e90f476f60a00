"""Emptiness of expressions with ``&`` and ``~``: a search over derivatives for one that matches the empty string.

A lexer state may only keep expressions that match something, so :func:`is_nonempty` is asked for each new derivative. Most
questions need a few steps of breadth-first search. For the others (many patterns at once, long texts), two ideas help. Two
parts of an ``&`` may contradict each other already; that shows soon, while all parts together have too many derivatives. And
the search becomes best first (Pearl, *Heuristics*, 1984), ordered by a rough count of the bytes that a match still needs. For
an ``&`` that count is the sum over its parts, so the search completes one pattern after the other. In any order, a search that
ends without a match has seen every derivative. If the fuel runs out, the owner raises: the search never guesses.

The attempts, in order; each only if those before have not decided:

1. flags: ``PURE``, ``NULLABLE``, or decided before (:func:`_decide`);
2. the length of a match, if it is memoised (:mod:`cdplugin.kernels.regex.lengths`);
3. one text that is likely to match (:mod:`cdplugin.kernels.regex.likely_text`), then ``_IN_BREADTH`` derivatives in breadth;
4. two contradicting parts (:func:`_is_refuted`), ``_FOR_A_PAIR`` derivatives for each of ``_MOST_PAIRS`` pairs;
5. one text that is chosen with care;
6. the length, on a graph of at most ``FEW_NODES`` nodes; else the search up to ``_IN_ALL`` derivatives, best first;
7. the length on a graph of any size, or the search with all of ``Limits.emptiness_fuel``.

With ``~``, emptiness is not even elementary (Stockmeyer and Meyer, 1973), so the last resort is ``LIMIT_FUEL``.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.regex.absorb import derive_absorbed
from cdplugin.kernels.regex.derive import MANY_VISITS, refine_class
from cdplugin.kernels.regex.expressions import (
    EMPTY,
    IS_EMPTY,
    KNOWN_NONEMPTY,
    NONEMPTY,
    SEEN,
    make_and,
    make_not,
    n_parts_of,
    part_of,
    repeats_within,
    split,
)
from cdplugin.kernels.regex.lengths import FEW_NODES, MOST_NODES, UNDECIDED, by_length
from cdplugin.kernels.regex.likely_text import bytes_needed, finds_text
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    clear_flags,
    flags_of,
    header,
    i64,
    kind_of,
    length_of,
    set_flags,
    spend,
    word_of,
)
from cdplugin.kernels.store.byte_sets import add_bytes, has_byte
from cdplugin.kernels.store.heap import heap_pop, heap_push, with_room
from cdplugin.kernels.store.stack import push_pair

_IN_BREADTH = 200  # derivatives taken breadth first, before the search becomes best first
_IN_ALL = 2_000  # fuel up to which parts are not compared in pairs
_FOR_A_PAIR = 500  # derivatives taken to refute one pair of parts
_MOST_PAIRS = 64  # pairs of parts that are compared
_VISITS_BITS = 6  # 2 ** _VISITS_BITS visited nodes take as much fuel as a derivative


@kernel
def is_nonempty(h, e):
    """Return 1 if ``e`` matches something, 0 if it matches nothing, or a status (``LIMIT_FUEL`` if the fuel ran out: never a
    guess).

    Without ``&`` and ``~``, the constructors have decided it. Results of earlier searches are used: an engine that has seen
    more may answer where a fresh one runs out of fuel; but two answers never differ. After a search, the path to a match, or
    everything seen, is marked, so that the question for the next lexer state is mostly answered already.
    """
    fuel = header(h)[layout.FUEL]
    status = _decide_soon(h, e, min(fuel, _IN_BREADTH))
    if status != statuses.LIMIT_FUEL:
        return status
    if fuel > _IN_ALL:
        status = _is_refuted(h, e)
        if status:
            return 0 if status > 0 else status
        status = finds_text(h, e, fuel, True)
        if status:
            return status
    status = _decide_by_length(h, e, FEW_NODES, min(fuel, _IN_ALL))
    if status != statuses.LIMIT_FUEL or fuel <= _IN_ALL:
        return status
    return _decide_by_length(h, e, MOST_NODES, fuel)


@kernel
def is_plainly_nonempty(h, e):
    """Return 1 if a short search finds that ``e`` matches something; 0 if it matches nothing or if that would take long to find
    out; or a status.

    For shortcuts only: the caller must be right with 0 in both cases.
    """
    status = _decide(h, e, min(header(h)[layout.FUEL], _IN_ALL))
    return 0 if status == statuses.LIMIT_FUEL else status


@kernel
def _decide(h, e, fuel):
    """Do :func:`is_nonempty` by what is known, a short search, the length on a small graph, or a search with ``fuel``. Marks
    the result.
    """
    status = _decide_soon(h, e, min(fuel, _IN_BREADTH))
    return _decide_by_length(h, e, FEW_NODES, fuel) if status == statuses.LIMIT_FUEL else status


@kernel
def _decide_soon(h, e, fuel):
    """Do steps 1 to 3 of :func:`is_nonempty`, with little fuel. Marks the result."""
    if e == EMPTY:
        return 0
    flags = flags_of(h, e)
    if flags & KNOWN_NONEMPTY:
        return 1
    if flags & IS_EMPTY:
        return 0
    # most_nodes = 0: only if another question has measured the graph
    status = by_length(h, e, 0)
    if status == UNDECIDED:
        status = finds_text(h, e, fuel, False)
        return status if status else _decide_by_search(h, e, fuel)
    if status >= 0:
        _mark(h, e, status)
    return status


@kernel
def _decide_by_length(h, e, most_nodes, fuel):
    """Do :func:`is_nonempty` by the length of the matches, on a graph of at most ``most_nodes`` nodes, or else by a search.
    Marks the result.
    """
    status = by_length(h, e, most_nodes)
    if status == UNDECIDED:
        return _decide_by_search(h, e, fuel)
    if status >= 0:
        _mark(h, e, status)
    return status


@kernel
def _decide_by_search(h, e, fuel):
    """Do :func:`is_nonempty` by a search with ``fuel``. Marks the result."""
    head = header(h)
    base = head[layout.STACK_TOP]
    status, found = _search(h, e, fuel)
    words = i64(h, layout.STACK)
    for i in range(base, head[layout.STACK_TOP], 2):
        clear_flags(h, words[i], SEEN)
        if status == 0:
            set_flags(h, words[i], IS_EMPTY)
    # back along the path that led to the match: each expression on it matches something
    while found >= 0:
        set_flags(h, words[found], NONEMPTY)
        found = words[found + 1]
    if status >= 0:
        _mark(h, e, status)
    head[layout.STACK_TOP] = base
    return status


@kernel
def _mark(h, e, matches):
    """Note on ``e`` whether it matches anything, so the next question about it is one load."""
    set_flags(h, e, NONEMPTY if matches else IS_EMPTY)


@kernel
def _is_refuted(h, e):
    """Return 1 if two parts of ``e``, one of them a complement, are soon found to have no match in common; 0 if not, or a
    status.

    ``e`` is an ``&``, or begins with one; of a union, each member must be refuted. ``A & ~B & C & …`` matches nothing if ``B``
    contains ``A``, whatever the other parts are; the search over the two has far fewer derivatives than the one over all.
    """
    pairs_left = _MOST_PAIRS
    for u in range(n_parts_of(h, e, layout.K_ALT)):
        whole = part_of(h, e, layout.K_ALT, u)
        flags = flags_of(h, whole)
        if flags & IS_EMPTY:
            continue
        joint, _ = split(h, whole)
        n_parts = length_of(h, joint) if kind_of(h, joint) == layout.K_AND and not flags & KNOWN_NONEMPTY else 0
        status = 0
        for i in range(n_parts):
            denied = word_of(h, joint, i)
            if kind_of(h, denied) != layout.K_NOT:
                continue
            for j in range(n_parts):
                part = word_of(h, joint, j)
                if status == 0 and pairs_left > 0 and kind_of(h, part) != layout.K_NOT:
                    pairs_left -= 1
                    status = _is_contained(h, part, word_of(h, denied, 0))
            if status or pairs_left == 0:
                break
        if status <= 0:
            return status
        set_flags(h, whole, IS_EMPTY)
    set_flags(h, e, IS_EMPTY)
    return 1


@kernel
def _is_contained(h, e, outer):
    """Return 1 if it is soon found that ``outer`` matches all that ``e`` does, 0 if not, or a status.

    By comparing bodies, if both are repetitions whose counts fit, else by a short search. If ``outer`` is a union, one of its
    members may contain ``e`` by its body, or all of it by search.
    """
    for i in range(n_parts_of(h, outer, layout.K_ALT)):
        member = part_of(h, outer, layout.K_ALT, i)
        if repeats_within(h, e, member):
            status = _are_disjoint(h, word_of(h, e, 0), word_of(h, member, 0))
            if status:
                return status
    return _are_disjoint(h, e, outer)


@kernel
def _are_disjoint(h, e, denied):
    """Return 1 if a short search shows that ``e & ~denied`` matches nothing (``denied`` matches all that ``e`` does), else 0;
    or a status.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    complement = make_not(h, denied)
    if complement < 0:
        return complement
    if push_pair(h, e, complement) < 0:
        return np.int64(statuses.GROW)
    both = make_and(h, base, 2)
    head[layout.STACK_TOP] = base
    if both < 0:
        return both
    status = _decide(h, both, _FOR_A_PAIR)
    return np.int64(1 - status if status >= 0 else 0 if status == statuses.LIMIT_FUEL else status)


@kernel
def _search(h, e, fuel):
    """Search for a derivative of ``e`` that matches something, with ``fuel``.

    Returns ``(1, entry)``, where ``entry`` is the entry that the match was found from (-1: ``e`` itself); ``(0, -1)`` if there
    is none; or a status.

    An entry is two words on the stack: an expression, and the entry that it was reached from. Entries are never popped, so they
    are the breadth-first queue, the list of what was seen, and the path back from a match. After ``_IN_BREADTH`` derivatives
    the rest of the queue goes into a binary heap, and the search is best first from there on. One byte of each class is tried
    (:func:`refine_class`). A derivative takes a unit of fuel, and so do 64 nodes visited for a class.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    nowhere = np.int64(-1)
    heap = np.empty(0, np.int64)
    n_heap = nowhere  # negative: still breadth first
    next_in_breadth = base
    best_first_below = fuel - _IN_BREADTH
    most_nodes = np.int64(0 if fuel <= _IN_ALL else MOST_NODES)
    status = _enter(h, e, nowhere, np.int64(0))
    if status:
        return status, nowhere
    while True:
        if n_heap < 0 and fuel < best_first_below:
            n_heap = (head[layout.STACK_TOP] - next_in_breadth) >> 1
            heap = np.empty(2 * n_heap + 64, np.int64)
            if _push_entries(h, heap, 0, next_in_breadth, head[layout.STACK_TOP]) < 0:
                return statuses.GROW, nowhere
        # every derivative was seen, and none matches the empty string
        if n_heap == 0 or (n_heap < 0 and next_in_breadth == head[layout.STACK_TOP]):
            return 0, nowhere
        entry = next_in_breadth
        if n_heap < 0:
            next_in_breadth += 2
        else:
            n_heap -= 1
            # the low half of a heap word is minus the entry (_push_entries)
            entry = -heap_pop(heap, n_heap + 1) & 0xFFFFFFFF
        first_new = head[layout.STACK_TOP]
        e = i64(h, layout.STACK)[entry]
        covered = byte_set(0)
        for byte in range(256):  # one byte of each class
            if has_byte(covered, byte):
                continue
            byte_class = byte_set(-1)
            visits = refine_class(h, e, byte, byte_class, MANY_VISITS)
            if visits < 0:
                return statuses.GROW, nowhere
            add_bytes(covered, byte_class)
            child = derive_absorbed(h, e, byte)
            if child < 0:
                return child, nowhere
            fuel -= 1 + (visits >> _VISITS_BITS)
            if not spend(h, 8):
                return statuses.LIMIT_WORK, nowhere
            if fuel < 0:
                return statuses.LIMIT_FUEL, nowhere
            status = _enter(h, child, entry, most_nodes)
            if status:
                return status, (entry if status > 0 else nowhere)
        if n_heap >= 0:
            count = n_heap + ((head[layout.STACK_TOP] - first_new) >> 1)
            heap = with_room(heap, n_heap, count)
            if _push_entries(h, heap, n_heap, first_new, head[layout.STACK_TOP]) < 0:
                return statuses.GROW, nowhere
            n_heap = count


@kernel
def _enter(h, e, origin, most_nodes):
    """Append entries for ``e``, reached from entry ``origin``; return 1 if it is known to match something, else 0; or a status.

    A union is entered as its members, which stay small where the union would grow. Members that are known to match nothing, or
    were entered before (``SEEN``), are left out. ``most_nodes``: see :func:`by_length`.
    """
    for i in range(n_parts_of(h, e, layout.K_ALT)):
        part = part_of(h, e, layout.K_ALT, i)
        flags = flags_of(h, part)
        if part == EMPTY or flags & (IS_EMPTY | SEEN):
            continue
        if flags & KNOWN_NONEMPTY:
            return 1
        # a member whose lengths are measured needs no search below it
        status = by_length(h, part, most_nodes)
        if status < 0:
            return status
        if status != UNDECIDED:
            _mark(h, part, status)
            if status:
                return 1
            continue
        if push_pair(h, part, origin) < 0:
            return statuses.GROW
        set_flags(h, part, SEEN)
    return 0


@kernel
def _push_entries(h, heap, count, first, last):
    """Add the entries ``first`` to ``last`` of the stack to the binary heap ``heap[:count]``. 0, or ``GROW`` if the stack is
    too short.

    A heap word is ``bytes needed << 32`` minus the entry, so that of equally near ones the latest comes first: this depth-first
    tendency finishes one match before it begins others.
    """
    for entry in range(first, last, 2):
        needs = bytes_needed(h, i64(h, layout.STACK)[entry])
        if needs < 0:
            return needs
        count = heap_push(heap, count, (needs << 32) - entry)
    return 0
