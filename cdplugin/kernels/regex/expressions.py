"""Regular expressions as hash-consed values: the constructors and their simplifications.

An expression is a value of the arena (kinds ``K_EMPTY`` to ``K_REPEAT``) over bytes. The constructors apply units and
annihilators, sort and flatten ``|`` and ``&``, and nest concatenation to the right, so that in practice an expression has
finitely many derivatives (Owens, Reppy and Turon, "Regular-expression derivatives re-examined", 2009). Counted repetition stays
symbolic; ``R{m,n}`` with a nullable ``R`` has ``m = 0`` by construction.

A set of literals is one node ``(low, high, depth)``: the strings ``low .. high - 1`` of a sorted table, without their first
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

A node's flags are computed from its parts' flags when the node is made, so each question that a flag answers costs one load:

- ``NULLABLE`` is exact. ``PURE``, ``FINITE``, ``THIN`` are certain if set, unknown if not; ``COUNTED`` is certain if not set.
- ``PURE``: no ``&`` and no ``~`` inside. Then the constructors leave no dead part, so anything but ``EMPTY`` matches something.
- ``NONEMPTY`` and ``IS_EMPTY`` are also results of searches, added later.
- ``SEEN`` and ``MEASURED`` are visit marks of a running search, which clears them before it returns.
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
COUNTED = 256  # it begins with a part whose count may be cut (cdplugin.kernels.regex.saturate)
COUNTED_LATER = 512  # a later part has such a count
KNOWN_NONEMPTY = NONEMPTY | PURE | NULLABLE  # any of these on an expression other than EMPTY

FEW = 8  # bytes of a THIN byte set
_MOST_COMPARISONS = 20_000  # between the parts of one "&" (_deny_one)
_MOST_COMPARED = 16  # other parts of a "|" with which _absorb compares each part
_MOST_STEPS = 8  # parts of two sequences that is_within compares
UNBOUNDED = 1 << 20  # "any number of characters" in plain_run_bound()


@kernel
def _finish(h, value, flags):
    """Add flags to the expression that :func:`intern` returned, and return it; hands a status on.

    The flags are ORed, since an expression that existed before has them already, and perhaps others.
    """
    if value >= 0:
        set_flags(h, value, flags)
    return value


@kernel
def nullable(h, e):
    """Return whether ``e`` matches the empty string. Exact, also under ``&`` and ``~``; one load."""
    return flags_of(h, e) & NULLABLE != 0


@kernel
def split(h, e):
    """Return ``(first, rest)`` of a concatenation, ``(e, EPSILON)`` of anything else."""
    if kind_of(h, e) == layout.K_CAT:
        return word_of(h, e, 0), word_of(h, e, 1)
    return np.int64(e), np.int64(EPSILON)


@kernel
def n_parts_of(h, e, kind):
    """Return how many parts ``e`` has as a ``K_ALT`` or ``K_AND`` (``kind``); anything else counts as one part, itself."""
    return length_of(h, e) if kind_of(h, e) == kind else np.int64(1)


@kernel
def part_of(h, e, kind, i):
    """Return part ``i`` of ``e`` (:func:`n_parts_of`)."""
    return word_of(h, e, i) if kind_of(h, e) == kind else np.int64(e)


@kernel
def add_set(h, e, found):
    """Add the bytes of a ``K_BYTES`` to a set (4 words)."""
    for i in range(4):
        found[i] |= word_of(h, e, i)


# --- constructors: each returns an expression id or a status --------------------------------------------------------------


@kernel
def make_bytes(h, w0, w1, w2, w3):
    """Make the expression of one byte out of a set; bit ``b & 63`` of word ``b >> 6``. An id, ``EMPTY`` for the empty set, or a
    status.

    The set is THIN if it has at most ``FEW`` bytes.
    """
    count = count_bits(w0) + count_bits(w1) + count_bits(w2) + count_bits(w3)
    if count == 0:
        return np.int64(EMPTY)
    flags = PURE | FINITE | (THIN if count <= FEW else 0)
    return _finish(h, intern_words(h, layout.K_BYTES, 4, w0, w1, w2, w3), flags)


@kernel
def make_literals(h, low, high, depth):
    """Make the expression of the literals ``low .. high - 1`` of the sorted table, without their first ``depth`` bytes; an id
    or a status.

    ``EMPTY`` for no literals, ``EPSILON`` for a single one that ends at ``depth``. They are sorted, so only the first can end
    there.
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
    """Make ``a`` at least ``low`` and at most ``high`` times; ``high`` = -1: no bound. An id or a status.

    Counts stay symbolic: ``{0,100000}`` is one value, and its derivative another one with smaller counts. Repetitions of the
    empty set, the empty string, ``ALL`` or ``R{0,}`` are simplified, so that equal languages are more often equal values. O(1).
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
        # saturation cuts the count of a single byte only while it comes first, so behind a part it is not COUNTED_LATER
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
    """Make ``a b`` for an ``a`` that is no concatenation, joining neighbouring repetitions of one body. An id or a status.

    ``R{a,b} R{c,d} T`` becomes ``R{a+c,b+d} T``: otherwise the derivative of a counted text in a counted list would grow a
    chain of repetitions. ``ALL ALL`` becomes ``ALL``.
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
    """Make ``a`` followed by ``b``, nested to the right: an id or a status.

    The normal form of a sequence is ``first (second (third …))``, so a derivative touches only the front. If ``a`` is a
    sequence, it is taken apart on the stack and rebuilt from its end: O(its length).
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
    """Make the complement of ``a``: an id or a status. ``~~a`` is ``a``; the complement of a finite language is marked
    ``NONEMPTY``.
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
    """Make the union of the expressions ``STACK[start:start + count]``, leaving the stack as it is. An id or a status.

    The parts are flattened, sorted and made unique, byte sets united, ``EMPTY`` dropped, and ``ALL`` absorbs the rest: these
    similarity rules keep the number of derivatives finite (Brzozowski, 1964). Two more rules (:func:`_absorb`) serve counts. Of
    parts that differ only in their counts, the one that allows more absorbs the others; otherwise derivatives of nested counts
    would have a part for each pair of counts. And ``R{2} T | R{3,5} T`` becomes ``R{2,5} T``; otherwise a count that may begin
    anywhere would have a part for each start. More than ``MAX_WIDTH`` parts are ``LIMIT_WIDTH``.
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
    # beside a nullable part, EPSILON adds nothing; without it, fewer languages have two values
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
    """Drop, from the sorted parts ``STACK[start:start + count]`` of a ``|``, those that another one plainly contains, and join
    those whose counts adjoin.

    Returns how many are left, sorted again, or a status. Each part is compared with the last ``_MOST_COMPARED`` parts kept so
    far.
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
    """Return ``R{a,d} T`` for ``R{a,b} T`` and ``R{c,d} T`` whose ranges of counts adjoin or overlap (one may be ``R T``);
    ``EMPTY`` for others; or a status.
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
    """Return the body of a repetition with its least and greatest number of turns (-1: any); anything else is one turn of
    itself.
    """
    if kind_of(h, e) == layout.K_REPEAT:
        return word_of(h, e, 0), word_of(h, e, 1), word_of(h, e, 2)
    return np.int64(e), np.int64(1), np.int64(1)


@kernel
def is_within(h, e, outer):
    """Return whether ``outer`` plainly matches all that ``e`` does, comparing part by part, without a search.

    Parts must be equal, or have counts of which the outer ones allow more, or be an optional repetition that ``e`` lacks. Both
    ``a{0,3} x b{0,4}`` and ``x b`` are within ``a{0,5} x b{0,9}``. False may be wrong.
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
    """Make the intersection of the expressions ``STACK[start:start + count]``, leaving the stack as it is. An id or a status.

    Like :func:`make_alt`, with ``EMPTY`` and ``ALL`` exchanged. Parts that plainly contradict each other (``a & ~a``) give
    ``EMPTY`` without a search. An infinite language minus finitely many words is marked ``NONEMPTY``: so
    ``[^"]* & ~(name | size)``, the shape of additional properties, seldom needs a search.
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
            # used only if there is one such part: two infinite languages may have nothing in common
            infinite = part & PURE != 0 and part & FINITE == 0
        if n == 2 and flags_of(h, words[base]) & flags_of(h, words[base + 1]) & PURE:
            # saturation may also drop a repetition of R beside an expression whose words are sequences of words of R
            for i in range(base, base + n):
                gained |= COUNTED if kind_of(h, words[i]) == layout.K_REPEAT else 0
        if positive == 0 or (positive == 1 and infinite):
            flags |= NONEMPTY  # an infinite language less finitely many words
        result = _finish(h, intern(h, layout.K_AND, base, n), flags | gained)
    head[layout.STACK_TOP] = saved
    return result


@kernel
def _deny_one(h, start, count):
    """Return whether two of the sorted parts ``STACK[start:start + count]`` of an ``&`` plainly contradict each other.

    Examples: ``a & ~a``, ``a & ~(a | b)``, ``x{2,9} & ~x*``. The denied parts are found by bisection; repetitions are compared
    with all others. After ``_MOST_COMPARISONS`` the answer is False, which may be wrong: a search decides later.
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
    """Return whether both are repetitions of one body, and ``outer`` allows each number of turns that ``e`` allows."""
    return repeats_within(h, e, outer) and word_of(h, e, 0) == word_of(h, outer, 0)


@kernel
def repeats_within(h, e, outer):
    """Return whether both are repetitions, and ``outer`` allows each number of turns that ``e`` allows. Their bodies are not
    compared.
    """
    if kind_of(h, e) != layout.K_REPEAT or kind_of(h, outer) != layout.K_REPEAT:
        return False
    high, outer_high = word_of(h, e, 2), word_of(h, outer, 2)
    return word_of(h, outer, 1) <= word_of(h, e, 1) and (outer_high < 0 or 0 <= high <= outer_high)
