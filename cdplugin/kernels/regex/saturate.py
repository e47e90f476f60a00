"""Saturation: cut the counts of bounded repetitions that no token can tell apart, so that states and masks become few.

A mask looks at most as many bytes ahead as the longest token has. An upper bound farther away might as well not be there; a
lower bound farther away might as well never be reached. So ``{0,100000}`` has as many distinct masks as ``{0,128}``. Inside a
trie walk, only the bytes below the node matter, which are fewer (:func:`saturate` with that number).

With a longest token of 8 bytes::

    .{0,100000}"    ->  .{0,}"        no token reaches the bound
    .{50,60}"       ->  .{∞,}"        no token reaches either; all that shows is that 8 characters are not enough
    .{3,5}"         ->  .{3,5}"       both show
    (..){0,5}"      ->  (..){0,}"     a token has room for four turns

This is right for any count outside ``&`` and ``~``: a word of ``R{0,n} T`` without its last turns is still a word.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.regex.derive import derive, derive_class
from cdplugin.kernels.regex.expressions import (
    COUNTED,
    EMPTY,
    EPSILON,
    PURE,
    make_alt,
    make_cat,
    make_repeat,
    n_parts_of,
    nullable,
    part_of,
    split,
)
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import flags_of, header, i64, kind_of, length_of, memo_get, memo_put, spend, word_of
from cdplugin.kernels.store.byte_sets import has_byte
from cdplugin.kernels.store.stack import has_pair, push, push_pair

FAR = (1 << 20) - 1  # a length of so many bytes or more
_ENDLESS = 1 << 24  # the one number that replaces all lower bounds which no token reaches
_MOST_PAIRS = 64  # pairs of derivatives that one containment search may meet
_MOST_PARTS = 4  # first parts of a sequence whose counts are cut: later counts do not change while these are read
_MOST_ALTERNATIVES = 16  # alternatives of a union whose counts are cut
_TOO_LARGE = 2  # memoised for a part whose containment search meets more pairs: not found to be contained


@kernel
def saturate(h, e, longest):
    """Return ``e`` with the counts that it may come to soon cut to ``longest`` bytes; or a status.

    ``longest``: the bytes of the longest token, or of what is left of one. The result has the same words of at most ``longest``
    bytes as ``e``, and its words have the same prefixes of that length. Memoised by ``e`` and ``longest``.

    Inside ``&`` and ``~`` counts stay, with one exception. In ``(R{0,n} & P) T``, the count decides nothing if every word of
    ``P`` is a word of ``R*``, and if from any point of ``P`` an end is at most ``n - longest`` bytes away; then ``P T`` is
    left.
    """
    if flags_of(h, e) & COUNTED == 0:
        return np.int64(e)
    known = memo_get(h, layout.M_SATURATE, e, longest)
    if known >= 0:
        return known
    body, tail = split(h, e)
    result = np.int64(e)
    if kind_of(h, body) == layout.K_AND and length_of(h, body) == 2:
        for i in range(2):
            counted, other = word_of(h, body, i), word_of(h, body, 1 - i)
            left = _uncounted(h, counted, other, longest)
            if left != EMPTY:
                result = left if left < 0 else make_cat(h, left, tail)
                break
    elif kind_of(h, body) == layout.K_ALT:
        result = _choice_cut(h, body, longest)
        result = result if result < 0 else make_cat(h, result, tail)
    else:
        result = _sequence_cut(h, e, longest)
    return memo_put(h, layout.M_SATURATE, e, longest, result)


@kernel
def _choice_cut(h, e, longest):
    """Return ``e`` with the counts of each of its alternatives cut, if they are few; or a status."""
    n = n_parts_of(h, e, layout.K_ALT)
    if n > _MOST_ALTERNATIVES:
        return np.int64(e)
    head = header(h)
    base = head[layout.STACK_TOP]
    changed = False
    for i in range(n):
        alternative = part_of(h, e, layout.K_ALT, i)
        cut = _sequence_cut(h, alternative, longest)
        if cut < 0:
            return cut
        changed = changed or cut != alternative
        if push(h, cut) < 0:
            return np.int64(statuses.GROW)
    result = make_alt(h, base, n) if changed else np.int64(e)
    head[layout.STACK_TOP] = base
    return result


@kernel
def _sequence_cut(h, e, longest):
    """Return ``e`` with the counts of its first parts cut; or a status.

    The rest of a body that has begun stands before its count: ``(\\S+,){0,99}`` after a byte is ``\\S*,(\\S+,){0,98}``. A body
    of one byte has no such rest, so its count is cut only when it comes first: until then, states that differ in it do not
    multiply.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    rest = np.int64(e)
    changed = False
    while rest != EPSILON and head[layout.STACK_TOP] - base < _MOST_PARTS:
        is_first = rest == e
        part, rest = split(h, rest)
        cut = part
        if is_first or kind_of(h, part) != layout.K_REPEAT or kind_of(h, word_of(h, part, 0)) != layout.K_BYTES:
            cut = _count_cut(h, part, longest)
        if cut < 0:
            return cut
        changed = changed or cut != part
        if push(h, cut) < 0:
            return np.int64(statuses.GROW)
    result = rest if changed else np.int64(e)
    for i in range(head[layout.STACK_TOP] - 1, base - 1, -1):
        if changed and result >= 0:
            result = make_cat(h, i64(h, layout.STACK)[i], result)
    head[layout.STACK_TOP] = base
    return result


@kernel
def _count_cut(h, e, longest):
    """Return a repetition with the counts cut that ``longest`` bytes do not reach, anything else as it is; or a status.

    ``longest`` bytes have room for ``turns`` turns, and the beginning of another one.
    """
    if kind_of(h, e) != layout.K_REPEAT or nullable(h, word_of(h, e, 0)):
        return np.int64(e)
    body, low, high = word_of(h, e, 0), word_of(h, e, 1), word_of(h, e, 2)
    turns = longest
    if (low > 1 or high > 1) and flags_of(h, body) & PURE:
        least = shortest(h, body)
        if least < 0:
            return least
        turns = longest // max(least >> 20, 1)
    if high <= turns and low <= turns:
        return np.int64(e)
    return make_repeat(h, body, low if low <= turns else _ENDLESS, -1)


@kernel
def _uncounted(h, counted, other, longest):
    """Return ``other`` with its counts cut, if ``counted`` is an ``R{0,n}`` that excludes no word of it within a token's reach;
    ``EMPTY`` if that is not found; or a status.

    The conditions: the words of ``other`` are sequences of words of ``R`` (:func:`is_contained`), and from every point of it,
    ``longest`` bytes further on, an end is still within the count (:func:`shortest`). Containment is decided for ``other`` with
    its counts cut: that has more words, so it implies containment of ``other``; and it stays the same while ``other`` is read,
    so one search serves all its derivatives.
    """
    if kind_of(h, counted) != layout.K_REPEAT or word_of(h, counted, 1) != 0 or flags_of(h, other) & PURE == 0:
        return np.int64(EMPTY)
    if nullable(h, word_of(h, counted, 0)):
        return np.int64(EMPTY)
    lengths = shortest(h, other)
    if lengths < 0:
        return lengths
    high = word_of(h, counted, 2)
    if 0 <= high < longest + (lengths & FAR) or lengths & FAR == FAR:
        return np.int64(EMPTY)
    cut = _choice_cut(h, other, longest)
    if cut < 0:
        return cut
    contained = is_contained(h, cut, word_of(h, counted, 0))
    return np.int64(contained) if contained < 0 else cut if contained else np.int64(EMPTY)


@kernel
def shortest(h, e):
    """Return ``minimum << 20 | residue`` for an expression without ``&`` and ``~``, in bytes, each at most ``FAR``; or a
    status.

    Minimum: the length of a shortest word. Residue: a bound on the shortest ending after any prefix of a word, the empty one
    included. Both are computed bottom up. For ``(ab|c){2,5}``: minimum 2 (``cc``), residue 3 (a bound: after ``a``, ``bc`` will
    do).
    """
    known = _known_shortest(h, e)
    if known >= 0:
        return known
    head = header(h)
    base = head[layout.STACK_TOP]
    if push(h, e) < 0:
        return statuses.GROW
    while head[layout.STACK_TOP] > base:
        e = i64(h, layout.STACK)[head[layout.STACK_TOP] - 1]
        if not spend(h, 4 + length_of(h, e)):
            return np.int64(statuses.LIMIT_WORK)
        kind = kind_of(h, e)
        count = length_of(h, e) if kind == layout.K_ALT else (2 if kind == layout.K_CAT else 1)
        missing = False
        for i in range(count):
            if _known_shortest(h, word_of(h, e, i)) < 0:
                missing = True
                if push(h, word_of(h, e, i)) < 0:
                    return statuses.GROW
        if missing:
            continue
        first = _known_shortest(h, word_of(h, e, 0))
        minimum = first >> 20
        residue = first & FAR
        if kind == layout.K_CAT:
            second = _known_shortest(h, word_of(h, e, 1))
            residue = max(residue + (second >> 20), second & FAR)
            minimum += second >> 20
        elif kind == layout.K_ALT:
            for i in range(1, count):
                other = _known_shortest(h, word_of(h, e, i))
                minimum = min(minimum, other >> 20)
                residue = max(residue, other & FAR)
        else:
            low = min(word_of(h, e, 1), FAR)  # products do not overflow
            residue = max(residue + minimum * max(low - 1, 0), minimum * low)
            minimum *= low
        if memo_put(h, layout.M_SHORTEST, e, 0, (min(minimum, FAR) << 20) | min(residue, FAR)) < 0:
            return statuses.GROW
        head[layout.STACK_TOP] -= 1
    return _known_shortest(h, i64(h, layout.STACK)[base])


@kernel
def _known_shortest(h, e):
    """Return :func:`shortest` of a leaf, or memoised; ``UNKNOWN`` if it must be computed."""
    kind = kind_of(h, e)
    if kind == layout.K_EPSILON or e == EMPTY:
        return np.int64(0)
    if kind == layout.K_BYTES:
        return np.int64((1 << 20) | 1)
    if kind == layout.K_LITERALS:
        offsets = i64(h, layout.LITERAL_OFFSETS)
        depth = word_of(h, e, 2)
        least = np.int64(FAR)
        most = np.int64(0)
        header(h)[layout.WORK_LEFT] -= word_of(h, e, 1) - word_of(h, e, 0)
        for i in range(word_of(h, e, 0), word_of(h, e, 1)):
            length = offsets[i + 1] - offsets[i] - depth
            least = min(least, length)
            most = max(most, length)
        return (least << 20) | min(most, FAR)
    known = memo_get(h, layout.M_SHORTEST, e, 0)
    return known if known >= 0 else np.int64(statuses.UNKNOWN)


@kernel
def is_contained(h, e, r):
    """Return 1 if every word of ``e`` (no ``&``, no ``~``) is a sequence of words of ``r``, 0 if that is not found; or a
    status.

    Sequences of words of ``r`` may be concatenated, united and repeated, so the property holds for an expression if it holds
    for all its parts. The parts are asked first; of a derivative, most were asked before. If it does not hold for some part
    alone (the first byte of a character), a search over pairs of derivatives compares the whole, if that is small. 0 may be
    wrong, 1 never is. Memoised by (part, r).
    """
    known = memo_get(h, layout.M_CONTAINED, e, r)
    if known >= 0:
        return np.int64(known == 1)
    many = make_repeat(h, r, 0, -1)
    if many < 0:
        return np.int64(many)
    head = header(h)
    base = head[layout.STACK_TOP]
    if push(h, e) < 0:
        return np.int64(statuses.GROW)
    while head[layout.STACK_TOP] > base:
        part = i64(h, layout.STACK)[head[layout.STACK_TOP] - 1]
        if not spend(h, 4):
            return np.int64(statuses.LIMIT_WORK)
        found = np.int64(part == r or part == many)
        if not found:
            found = _parts_contained(h, part, r)
        if found == statuses.UNKNOWN:  # _parts_contained has pushed parts to ask first
            continue
        if found == 0:
            found = _is_contained_small(h, part, many)
            if found == statuses.UNKNOWN:
                found = np.int64(_TOO_LARGE)
        if found < 0 or memo_put(h, layout.M_CONTAINED, part, r, found) < 0:
            return min(found, np.int64(statuses.GROW))
        head[layout.STACK_TOP] -= 1
    return np.int64(memo_get(h, layout.M_CONTAINED, e, r) == 1)


@kernel
def _parts_contained(h, e, r):
    """Return 1 if all parts of a sequence, a union or a repetition are known to be sequences of words of ``r``, 0 if not (also
    for anything without parts).

    Or ``UNKNOWN``, having pushed the parts that were not asked yet; or ``GROW``.
    """
    kind = kind_of(h, e)
    if kind != layout.K_CAT and kind != layout.K_ALT and kind != layout.K_REPEAT:
        return np.int64(0)
    answer = np.int64(1)
    for i in range(1 if kind == layout.K_REPEAT else length_of(h, e)):
        found = memo_get(h, layout.M_CONTAINED, word_of(h, e, i), r)
        if found < 0:
            answer = np.int64(statuses.UNKNOWN)
            if push(h, word_of(h, e, i)) < 0:
                return np.int64(statuses.GROW)
        elif found != 1 and answer == 1:
            answer = np.int64(0)
    return answer


@kernel
def _is_contained_small(h, e, r):
    """Return 1 if ``r`` contains ``e``, by a search over pairs of derivatives, else 0; ``UNKNOWN`` if the pairs are too many;
    or a status.

    A pair (e', r') of derivatives by the same bytes refutes it if e' is nullable and r' is not, or if e' goes on and r' is
    dead.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    if push_pair(h, e, r) < 0:
        return statuses.GROW
    at = base
    answer = np.int64(1)
    while at < head[layout.STACK_TOP] and answer == 1:
        left = i64(h, layout.STACK)[at]
        right = i64(h, layout.STACK)[at + 1]
        at += 2
        if nullable(h, left) and not nullable(h, right):
            answer = np.int64(0)
            break
        covered = byte_set(0)
        for byte in range(256):
            if has_byte(covered, byte):
                continue
            left_after = derive_class(h, left, right, byte, covered)
            if left_after == EMPTY:
                continue
            right_after = derive(h, right, byte)
            if left_after < 0 or right_after < 0:
                return min(left_after, right_after)
            if right_after == EMPTY:
                answer = np.int64(0)
                break
            if has_pair(h, base, left_after, right_after):
                continue
            if head[layout.STACK_TOP] - base >= 2 * _MOST_PAIRS:
                answer = np.int64(statuses.UNKNOWN)
                break
            if push_pair(h, left_after, right_after) < 0:
                return statuses.GROW
    head[layout.STACK_TOP] = base
    return answer
