"""Regular expressions as hash-consed values: the constructors and their simplifications.

An expression is a value of the arena (kinds ``K_EMPTY`` to ``K_REPEAT``) over bytes. The constructors apply units and
annihilators, sort and flatten ``|`` and ``&``, and nest concatenation to the right, so that an expression has finitely many
derivatives in practice (Owens, Reppy and Turon, "Regular-expression derivatives re-examined", 2009). Counted repetition
stays symbolic; ``R{m,n}`` with a nullable ``R`` has ``m = 0`` by construction.

Sets of literals are one node ``(low, high, depth)``: the strings ``low .. high - 1`` of a sorted table, less their first
``depth`` bytes.

==============  ======================  ====================================================================
kind            words                   matches
==============  ======================  ====================================================================
``K_EMPTY``     none                    nothing (id 1, ``EMPTY``)
``K_EPSILON``   none                    the empty string (id 2, ``EPSILON``)
``K_BYTES``     4: a set of bytes       one byte; bit ``b & 63`` of word ``b >> 6`` is byte ``b``
``K_LITERALS``  low, high, depth        the literals, from their byte ``depth`` on
``K_CAT``       first, rest             ``first`` is no ``K_CAT``
``K_ALT``       parts, ascending        at least two, none of them ``K_ALT``, at most one ``K_BYTES``
``K_AND``       parts, ascending        at least two, none of them ``K_AND``, at most one ``K_BYTES``
``K_NOT``       part                    all byte strings that the part does not; of ``EMPTY``: id 3, ``ALL``
``K_REPEAT``    part, least, most       -1: any number
==============  ======================  ====================================================================

Flags are computed from the parts' flags when a node is made, so each question that they answer costs one load:

- ``NULLABLE`` is exact. ``PURE``, ``FINITE``, ``THIN`` are certain where set, unknown where not; ``COUNTED`` is the other way
  round.
- ``PURE``: without ``&`` and ``~`` the constructors leave no dead part, so what is not ``EMPTY`` matches something.
- ``NONEMPTY`` and ``IS_EMPTY`` are what searches have found out, and are added later.
- ``SEEN`` and ``MEASURED`` are marks of a search under way, and are taken off before it returns.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import count_bits, kernel
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    flags_of,
    header,
    i64,
    intern,
    kind_of,
    length_of,
    set_flags,
    sort_unique,
    word_of,
)
from cdplugin.kernels.store.stack import intern_words, push

EMPTY, EPSILON, ALL = 1, 2, 3  # ids, interned first in every arena

# flags of an expression
NULLABLE = 1  # matches the empty string
PURE = 2  # no & and no ~ inside: not EMPTY means not empty
FINITE = 4  # certainly a finite language
NONEMPTY = 8  # known not to be empty
IS_EMPTY = 16  # known to be empty
SEEN = 32  # on the list of the emptiness search that is running
THIN = 64  # spelled out: at most FEW bytes go on from anywhere, but for where literals branch
MEASURED = 128  # a node of the graph that is being measured (cdplugin.kernels.regex.lengths)
COUNTED = 256  # it begins with what has a count that may be cut (cdplugin.kernels.regex.saturate)
COUNTED_LATER = 512  # or a later part of it has one
KNOWN_NONEMPTY = NONEMPTY | PURE | NULLABLE  # any of these on an expression other than EMPTY

FEW = 8
_MOST_COMPARISONS = 20_000  # of the parts of one "&" with each other
_MOST_COMPARED = 16  # parts of one "|" that each of them is compared with
_MOST_STEPS = 8  # parts of two sequences that are compared
UNBOUNDED = 1 << 20  # "any number of characters" in plain_run_bound()


@kernel
def _finish(h, value, flags):
    """Add the flags of a fresh expression to what :func:`intern` gave; hands a status on. An expression that is not fresh has
    them already, and perhaps others, so they are ORed.
    """
    if value >= 0:
        set_flags(h, value, flags)
    return value


@kernel
def nullable(h, e):
    """Whether ``e`` matches the empty string. Exact, also under ``&`` and ``~``: one load."""
    return flags_of(h, e) & NULLABLE != 0


@kernel
def split(h, e):
    """``(first, rest)`` of a concatenation; ``(e, EPSILON)`` of anything else."""
    if kind_of(h, e) == layout.K_CAT:
        return word_of(h, e, 0), word_of(h, e, 1)
    return np.int64(e), np.int64(EPSILON)


@kernel
def n_parts_of(h, e, kind):
    """How many parts ``e`` has as a ``K_ALT`` or ``K_AND`` (``kind``): anything else is one part, itself (:func:`part_of`)."""
    return length_of(h, e) if kind_of(h, e) == kind else np.int64(1)


@kernel
def part_of(h, e, kind, i):
    """Part ``i`` of :func:`n_parts_of`."""
    return word_of(h, e, i) if kind_of(h, e) == kind else np.int64(e)


@kernel
def add_set(h, e, found):
    """Add the bytes of a ``K_BYTES`` to a set (4 words)."""
    for i in range(4):
        found[i] |= word_of(h, e, i)


# --- constructors: each returns an expression id or a status --------------------------------------------------------------


@kernel
def make_bytes(h, w0, w1, w2, w3):
    """One byte out of a set; bit ``b & 63`` of word ``b >> 6``. An id, ``EMPTY`` for the empty set, or a status.

    The set is thin if it has at most ``FEW`` bytes.
    """
    count = count_bits(w0) + count_bits(w1) + count_bits(w2) + count_bits(w3)
    if count == 0:
        return np.int64(EMPTY)
    flags = PURE | FINITE | (THIN if count <= FEW else 0)
    return _finish(h, intern_words(h, layout.K_BYTES, 4, w0, w1, w2, w3), flags)


@kernel
def make_literals(h, low, high, depth):
    """The literals ``low .. high - 1`` of the sorted table, less their first ``depth`` bytes; an id or a status.

    ``EMPTY`` for no literals, ``EPSILON`` for one that ends at ``depth``. They are sorted, so only the first can end there.
    """
    if low >= high:
        return EMPTY
    offsets = i64(h, layout.LITERAL_OFFSETS)
    nullable_ = offsets[low + 1] - offsets[low] == depth
    if nullable_ and high == low + 1:
        return EPSILON
    flags = PURE | FINITE | THIN | (NULLABLE if nullable_ else 0)
    return _finish(h, intern_words(h, layout.K_LITERALS, 3, low, high, depth, 0), flags)


@kernel
def make_repeat(h, a, low, high):
    """``a`` at least ``low`` and at most ``high`` times; ``high`` = -1: no bound. An id or a status.

    Counts stay symbolic: ``{0,100000}`` is one value, and its derivative another one with smaller counts. What repeats
    nothing, everything, or ``R{0,}`` is simplified, so that equal languages more often are equal values. O(1).
    """
    if a == EPSILON or high == 0:
        return EPSILON
    if a == EMPTY:
        return EPSILON if low == 0 else EMPTY
    flags = flags_of(h, a)
    if flags & NULLABLE:
        low = 0
    if low == 1 and high == 1:
        return a
    if a == ALL:
        return ALL
    if kind_of(h, a) == layout.K_REPEAT and word_of(h, a, 1) == 0 and word_of(h, a, 2) == -1:
        return a
    out = flags & (PURE | THIN)
    if low > 1 or high > 1:
        # behind something else the count of a single byte stays
        out |= COUNTED if kind_of(h, a) == layout.K_BYTES else COUNTED | COUNTED_LATER
    if flags & KNOWN_NONEMPTY:
        out |= NONEMPTY
    if low == 0:
        out |= NULLABLE
    if high >= 0 and flags & FINITE:
        out |= FINITE
    return _finish(h, intern_words(h, layout.K_REPEAT, 3, a, low, high, 0), out)


@kernel
def _cat_pair(h, a, b):
    """``a b`` for an ``a`` that is no concatenation; joins neighbouring repetitions of one body. An id or a status.

    ``R{a,b} R{c,d} T`` becomes ``R{a+c,b+d} T``: without it, the derivative of a counted text in a counted list would grow a
    chain of repetitions. ``ALL ALL`` is ``ALL``.
    """
    if kind_of(h, a) == layout.K_REPEAT or a == ALL:
        head_, tail = split(h, b)
        if a == ALL:
            if head_ == ALL:
                return b
        elif kind_of(h, head_) == layout.K_REPEAT and word_of(h, head_, 0) == word_of(h, a, 0):
            low = word_of(h, a, 1) + word_of(h, head_, 1)
            high = np.int64(-1)
            if word_of(h, a, 2) >= 0 and word_of(h, head_, 2) >= 0:
                high = word_of(h, a, 2) + word_of(h, head_, 2)
            joined = make_repeat(h, word_of(h, a, 0), low, high)
            if joined < 0 or tail == EPSILON:
                return joined
            a, b = joined, tail
    flags = flags_of(h, a) & flags_of(h, b) & (NULLABLE | PURE | FINITE | THIN)
    flags |= flags_of(h, a) & (COUNTED | COUNTED_LATER)
    if flags_of(h, b) & COUNTED_LATER:
        flags |= COUNTED | COUNTED_LATER
    if flags_of(h, a) & KNOWN_NONEMPTY and flags_of(h, b) & KNOWN_NONEMPTY:
        flags |= NONEMPTY
    return _finish(h, intern_words(h, layout.K_CAT, 2, a, b, 0, 0), flags)


@kernel
def make_cat(h, a, b):
    """``a`` followed by ``b``, nested to the right: an id or a status.

    The normal form of a sequence is ``first (second (third …))``, so the derivative touches its first part only. A left
    operand that is a sequence itself is taken apart on the stack and put together again from its end: O(its length).
    """
    if a == EMPTY or b == EMPTY:
        return EMPTY
    if a == EPSILON:
        return b
    if b == EPSILON:
        return a
    head = header(h)
    base = head[layout.STACK_TOP]
    while kind_of(h, a) == layout.K_CAT:
        if push(h, word_of(h, a, 0)) < 0:
            return statuses.GROW
        a = word_of(h, a, 1)
    result = _cat_pair(h, a, b)
    while result >= 0 and head[layout.STACK_TOP] > base:
        head[layout.STACK_TOP] -= 1
        result = _cat_pair(h, i64(h, layout.STACK)[head[layout.STACK_TOP]], result)
    head[layout.STACK_TOP] = base
    return result


@kernel
def make_not(h, a):
    """All byte strings that ``a`` does not match: an id or a status. ``~~a`` is ``a``; the complement of a finite language is
    known to match something.
    """
    if kind_of(h, a) == layout.K_NOT:
        return word_of(h, a, 0)
    flags = flags_of(h, a)
    out = 0 if flags & NULLABLE else NULLABLE
    if flags & FINITE or a == EMPTY:
        out |= NONEMPTY
    return _finish(h, intern_words(h, layout.K_NOT, 1, a, 0, 0, 0), out)


@kernel
def make_alt(h, start, count):
    """The union of the expressions ``STACK[start:start + count]``; the stack is left as it was. An id or a status.

    Parts are flattened, sorted and made unique, byte sets united, ``EMPTY`` dropped, and ``ALL`` absorbs the rest: these
    similarity rules keep the number of derivatives finite (Brzozowski, 1964). Parts that differ in their counts only are
    absorbed by the one that allows more, or the derivatives of nested counts would have a part for each pair of counts; and
    ``R{2} T | R{3,5} T`` is ``R{2,5} T``, or a count that may begin anywhere would have a part for each place
    (:func:`_absorb`). More than ``MAX_WIDTH`` parts are ``LIMIT_WIDTH``.
    """
    head = header(h)
    saved = head[layout.STACK_TOP]
    base = max(saved, start + count)
    head[layout.STACK_TOP] = base
    united = byte_set(0)
    any_nullable = False
    epsilon = False
    for i in range(start, start + count):
        e = i64(h, layout.STACK)[i]
        if e == EMPTY:
            continue
        if e == ALL:
            head[layout.STACK_TOP] = saved
            return ALL
        for j in range(n_parts_of(h, e, layout.K_ALT)):
            part = part_of(h, e, layout.K_ALT, j)
            kind = kind_of(h, part)
            if kind == layout.K_BYTES:
                add_set(h, part, united)
            elif kind == layout.K_EPSILON:
                epsilon = True
            else:
                any_nullable = any_nullable or nullable(h, part)
                if push(h, part) < 0:
                    return statuses.GROW
    head[layout.WORK_LEFT] -= 2 * (head[layout.STACK_TOP] - base)
    bytes_ = make_bytes(h, united[0], united[1], united[2], united[3])
    if bytes_ < 0:
        return bytes_
    if bytes_ != EMPTY and push(h, bytes_) < 0:
        return statuses.GROW
    # beside a nullable part EPSILON adds nothing: one language less with two values
    if epsilon and not any_nullable and push(h, EPSILON) < 0:
        return statuses.GROW
    n = sort_unique(i64(h, layout.STACK), base, head[layout.STACK_TOP] - base)
    if n > 1:
        n = _absorb(h, base, n)
        if n < 0:
            return np.int64(n)
    result = np.int64(EMPTY)
    if n > head[layout.MAX_WIDTH]:
        result = np.int64(statuses.LIMIT_WIDTH)
    elif n == 1:
        result = i64(h, layout.STACK)[base]
    elif n > 1:
        words = i64(h, layout.STACK)
        flags = PURE | FINITE | THIN
        gained = 0
        for i in range(base, base + n):
            part = flags_of(h, words[i])
            flags &= part
            gained |= part & (NULLABLE | NONEMPTY | COUNTED)
        result = _finish(h, intern(h, layout.K_ALT, base, n), flags | gained)
    head[layout.STACK_TOP] = saved
    return result


@kernel
def _absorb(h, start, count):
    """Leave out of the sorted parts ``STACK[start:start + count]`` of a ``|`` those that another one plainly contains, and join
    those whose counts adjoin; how many are left, sorted again, or a status. Each part is compared with the last
    ``_MOST_COMPARED`` of those kept so far.
    """
    words = i64(h, layout.STACK)
    end = start
    are_joined = False
    for i in range(start, start + count):
        part = words[i]
        is_needed = True
        first = max(start, end - _MOST_COMPARED)
        header(h)[layout.WORK_LEFT] -= end - first
        to = first
        for j in range(first, end):
            other = words[j]
            joined = _joined(h, part, other) if is_needed else EMPTY
            if joined < 0:
                return joined
            if joined != EMPTY:
                part = joined
                are_joined = True
                continue
            is_needed = is_needed and not is_within(h, part, other)
            if not is_needed or not is_within(h, other, part):
                words[to] = other
                to += 1
        if is_needed:
            words[to] = part
            to += 1
        end = to
    return sort_unique(words, start, end - start) if are_joined else end - start


@kernel
def _joined(h, e, other):
    """``R{a,d} T`` for ``R{a,b} T`` and ``R{c,d} T`` whose numbers of turns adjoin or overlap; one of the two may be ``R T``.
    ``EMPTY`` for any others; or a status.
    """
    first, rest = split(h, e)
    other_first, other_rest = split(h, other)
    if rest != other_rest or first == other_first:
        return np.int64(EMPTY)
    body, low, high = turns_of(h, first)
    other_body, other_low, other_high = turns_of(h, other_first)
    if body != other_body:
        return np.int64(EMPTY)
    if (0 <= high < other_low - 1) or (0 <= other_high < low - 1):
        return np.int64(EMPTY)
    most = np.int64(-1) if high < 0 or other_high < 0 else max(high, other_high)
    turns = np.int64(make_repeat(h, body, min(low, other_low), most))
    return turns if turns < 0 or rest == EPSILON else np.int64(_cat_pair(h, turns, rest))


@kernel
def turns_of(h, e):
    """The body of a repetition, and its least and greatest number of turns (-1: any); anything else is one turn of itself."""
    if kind_of(h, e) == layout.K_REPEAT:
        return word_of(h, e, 0), word_of(h, e, 1), word_of(h, e, 2)
    return np.int64(e), np.int64(1), np.int64(1)


@kernel
def is_within(h, e, outer):
    """Whether it is plain, part by part, that ``outer`` matches all that ``e`` does: equal parts, or counts that allow more,
    or an optional repetition that ``e`` does not have. ``a{0,3} x b{0,4}`` is within ``a{0,5} x b{0,9}``, and so is ``x b``.
    """
    for _ in range(_MOST_STEPS):
        if e == outer:
            return True
        first, rest = split(h, e)
        outer_first, outer_rest = split(h, outer)
        if kind_of(h, outer_first) != layout.K_REPEAT:
            if first != outer_first:
                return False
            e = rest
        elif first == outer_first or _repeats_more(h, outer_first, first):
            e = rest
        elif word_of(h, outer_first, 1) != 0:
            return False
        outer = outer_rest
    return False


@kernel
def make_and(h, start, count):
    """The intersection of the expressions ``STACK[start:start + count]``; the stack is left as it was. An id or a status.

    As :func:`make_alt`, with the roles of ``EMPTY`` and ``ALL`` exchanged. Parts that plainly deny one another (``a & ~a``)
    are ``EMPTY`` at once, without a search. An infinite language less finitely many words is known not to be empty: that is
    ``[^"]* & ~(name | size)``, so additional properties seldom take a search.
    """
    head = header(h)
    saved = head[layout.STACK_TOP]
    base = max(saved, start + count)
    head[layout.STACK_TOP] = base
    common = byte_set(-1)
    some_bytes = False
    epsilon = False
    all_nullable = True
    for i in range(start, start + count):
        e = i64(h, layout.STACK)[i]
        if e == EMPTY:
            head[layout.STACK_TOP] = saved
            return EMPTY
        for j in range(n_parts_of(h, e, layout.K_AND)):
            part = part_of(h, e, layout.K_AND, j)
            if part == ALL:
                continue
            kind = kind_of(h, part)
            all_nullable = all_nullable and nullable(h, part)
            if kind == layout.K_BYTES:
                some_bytes = True
                for k in range(4):
                    common[k] &= word_of(h, part, k)
            elif kind == layout.K_EPSILON:
                epsilon = True
            elif push(h, part) < 0:
                return statuses.GROW
    head[layout.WORK_LEFT] -= 2 * (head[layout.STACK_TOP] - base)
    if epsilon:
        head[layout.STACK_TOP] = saved
        return EPSILON if all_nullable else EMPTY
    if some_bytes:
        bytes_ = make_bytes(h, common[0], common[1], common[2], common[3])
        if bytes_ == EMPTY:
            head[layout.STACK_TOP] = saved
            return EMPTY
        if bytes_ < 0 or push(h, bytes_) < 0:
            return statuses.GROW
    n = sort_unique(i64(h, layout.STACK), base, head[layout.STACK_TOP] - base)
    result = np.int64(ALL)
    if n > head[layout.MAX_WIDTH]:
        result = np.int64(statuses.LIMIT_WIDTH)
    elif n == 1:
        result = i64(h, layout.STACK)[base]
    elif n > 1 and _deny_one(h, base, n):
        result = np.int64(EMPTY)
    elif n > 1:
        words = i64(h, layout.STACK)
        flags = NULLABLE
        positive = 0  # parts that are no complement of a finite language
        infinite = False  # such a part that is certainly infinite
        gained = 0
        for i in range(base, base + n):
            part = flags_of(h, words[i])
            flags &= part
            gained |= part & (FINITE | COUNTED)
            if kind_of(h, words[i]) == layout.K_NOT and flags_of(h, word_of(h, words[i], 0)) & FINITE:
                continue
            positive += 1
            # only where there is one such part: two infinite languages may still have nothing in common
            infinite = part & PURE != 0 and part & FINITE == 0
        if n == 2 and flags_of(h, words[base]) & flags_of(h, words[base + 1]) & PURE:
            # saturation also drops R{0,} beside what consists of words of R
            for i in range(base, base + n):
                gained |= COUNTED if kind_of(h, words[i]) == layout.K_REPEAT else 0
        if positive == 0 or (positive == 1 and infinite):
            flags |= NONEMPTY  # an infinite language less finitely many words
        result = _finish(h, intern(h, layout.K_AND, base, n), flags | gained)
    head[layout.STACK_TOP] = saved
    return result


@kernel
def _deny_one(h, start, count):
    """Whether one of the sorted parts ``STACK[start:start + count]`` of an ``&`` is plainly denied by another: ``a & ~a``,
    ``a & ~(a | b)``, ``x{2,9} & ~x*``. Says no where there is too much to compare: others find out.

    The parts are sorted, so each denied part is found by bisection; repetitions are compared with all others. At most
    ``_MOST_COMPARISONS``.
    """
    words = i64(h, layout.STACK)
    comparisons_left = _MOST_COMPARISONS
    some_repeat = False
    for i in range(start, start + count):
        some_repeat = some_repeat or kind_of(h, words[i]) == layout.K_REPEAT
    for i in range(start, start + count):
        if kind_of(h, words[i]) != layout.K_NOT:
            continue
        denied = word_of(h, words[i], 0)
        for j in range(n_parts_of(h, denied, layout.K_ALT)):
            part = part_of(h, denied, layout.K_ALT, j)
            comparisons_left -= count if some_repeat else 1
            if comparisons_left < 0:
                return False
            at = start + np.searchsorted(words[start : start + count], part)
            if at < start + count and words[at] == part:
                return True
            if not some_repeat or kind_of(h, part) != layout.K_REPEAT:
                continue
            for k in range(start, start + count):
                if _repeats_more(h, part, words[k]):
                    return True
    return False


@kernel
def _repeats_more(h, outer, e):
    """Whether both are repetitions of one body, and ``outer`` allows each number of times that ``e`` allows."""
    return repeats_within(h, e, outer) and word_of(h, e, 0) == word_of(h, outer, 0)


@kernel
def repeats_within(h, e, outer):
    """Whether both are repetitions, and each number of times that ``e`` allows is one that ``outer`` allows. Their bodies are
    not compared.
    """
    if kind_of(h, e) != layout.K_REPEAT or kind_of(h, outer) != layout.K_REPEAT:
        return False
    high, outer_high = word_of(h, e, 2), word_of(h, outer, 2)
    return word_of(h, outer, 1) <= word_of(h, e, 1) and (outer_high < 0 or 0 <= high <= outer_high)
