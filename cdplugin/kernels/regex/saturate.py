"""Which counts of bounded repetition no token can tell apart.

A mask looks at most as many bytes ahead as the longest token has. An upper bound that is farther away might as well not be
there, and a lower one that is farther away might as well never be reached: so ``{0,100000}`` has as many distinct masks
as ``{0,128}``. Inside a walk of the token trie only what is below a node is looked at, which is less (:func:`saturate` with
fewer bytes).

With a longest token of 8 bytes::

    .{0,100000}"    ->  .{0,}"        the bound cannot be met within a token
    .{50,60}"       ->  .{∞,}"        neither can: all that shows is that 8 characters are not enough
    .{3,5}"         ->  .{3,5}"       both show
    (..){0,5}"      ->  (..){0,}"     a token has room for four turns

That holds wherever a count stands outside ``&`` and ``~``: a word of ``R{0,n} T`` less its last turns is one, too.
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

FAR = (1 << 20) - 1  # a length of at least so many bytes
_ENDLESS = 1 << 24  # turns of which no token reaches the last: one number for all, whatever the least number was
_MOST_PAIRS = 64  # pairs of derivatives that one containment search may meet
_MOST_PARTS = 4  # of a sequence whose counts are cut: later ones do not change while these are read
_MOST_ALTERNATIVES = 16
_TOO_LARGE = 2  # what is memoised of a part that would take more pairs, and is not seen to be contained


@kernel
def saturate(h, e, longest):
    """``e`` with the counts that it may come to soon cut to ``longest`` bytes, those of the longest token or of what is left of
    one; or a status. It has the same words of at most ``longest`` bytes as ``e``, and they begin the same.

    ``(R{0,n} & P) T``: if every word of ``P`` is one of ``R*``, and whatever was read of ``P`` it can be ended within ``n -
    longest`` bytes, then the count decides nothing, and ``P T`` is left. Everywhere else inside ``&`` and ``~`` counts stay.
    Memoised by ``e`` and ``longest``.
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
    """``e`` with the counts of each of its alternatives cut, if they are few; or a status."""
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
    """``e`` with the counts of its first parts cut; or a status. What was begun of a repetition's body stands before its count:
    ``(\\S+,){0,99}`` after a byte is ``\\S*,(\\S+,){0,98}``. A body of one byte has no beginning, so its count stays until it
    comes first: states that differ in it later do not become more.
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
    """A repetition with the counts cut that ``longest`` bytes do not reach, which have room for so many turns and the beginning
    of another one; anything else as it is; or a status.
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
    """``other`` with its counts cut, if ``counted`` is an ``R{0,n}`` that takes no word of it away within a token's reach;
    ``EMPTY`` if it is not seen to be so, or a status.

    It is so if ``other`` is a sequence of words of ``R`` (:func:`is_contained`), and from every point of it, ``longest`` bytes
    further on, an end is still within the count (:func:`shortest`). With its counts cut it has more words, and if these are
    sequences of words of ``R``, so are its own; it is the same as ``other`` is read, so that is found out once.
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
    """``minimum << 20 | residue`` of an expression without ``&`` and ``~``, in bytes, each at most ``FAR``; or a status.

    Minimum: the length of a shortest word. Residue: a bound on the length of a shortest ending after anything that was read of
    ``e`` so far, nothing included. Both are read off the structure, children first. For ``(ab|c){2,5}``: minimum 2 (``cc``),
    residue 3 (a bound: after ``a``, ``bc`` will do).
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
            low = word_of(h, e, 1)
            residue = max(residue + minimum * max(low - 1, 0), minimum * low)
            minimum *= low
        if memo_put(h, layout.M_SHORTEST, e, 0, (min(minimum, FAR) << 20) | min(residue, FAR)) < 0:
            return statuses.GROW
        head[layout.STACK_TOP] -= 1
    return _known_shortest(h, i64(h, layout.STACK)[base])


@kernel
def _known_shortest(h, e):
    """:func:`shortest` of a leaf, or memoised; ``UNKNOWN`` if it has to be computed."""
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
    """1 if every word of ``e`` (no ``&``, no ``~``) is a sequence of words of ``r``, 0 if that is not seen, or a status.

    Sequences of ``r`` may be joined, chosen from and repeated, so an expression is one if all of its parts are. They are asked
    first, children before parents: of what is read, most is what was compared before. Where a part is none by itself (the first
    byte of a character), a search over pairs of derivatives compares the whole, if that is small. 0 may be wrong, 1 never is.
    Memoised by (part, r).
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
        if found == statuses.UNKNOWN:  # some of the parts are on the stack
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
    """Whether all parts of a sequence, a union or a repetition are known to be sequences of words of ``r``: 1, 0 (also for what
    has no parts); ``UNKNOWN``, with those on the stack that were not asked; or ``GROW``.
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
    """Whether ``e`` is contained in ``r``, by a search over pairs of derivatives: 1, 0, ``UNKNOWN`` if there are too many, or a
    status.

    A pair (e', r') after the same bytes refutes it where e' may end and r' may not, or where e' goes on and r' is dead.
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
