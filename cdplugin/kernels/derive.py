"""Regular expressions as hash-consed values: constructors, derivatives, emptiness, and how long plain text keeps one alive.

An expression is a value of the arena (kinds ``K_EMPTY`` to ``K_REPEAT``) over bytes. The constructors simplify (units,
annihilators, sorted and flattened ``|`` and ``&``, right-nested concatenation), so that an expression has finitely many derivatives in
practice; derivatives follow Brzozowski (1964) and Owens, Reppy and Turon, "Regular-expression derivatives re-examined" (2009),
with counted repetition kept symbolic: d(R{m,n}) = d(R) R{m-1,n-1}, where R nullable has m = 0 by construction.

Sets of literals are one node ``(low, high, depth)``: the strings ``low .. high - 1`` of a sorted table, less their first ``depth`` bytes.

Nothing recurses: derivatives are taken in post-order on the arena's stack.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import (
    C_DERIVATIVES,
    FUEL,
    GROW,
    K_ALT,
    K_AND,
    K_BYTES,
    K_CAT,
    K_EMPTY,
    K_EPSILON,
    K_LITERALS,
    K_NOT,
    K_REPEAT,
    LIMIT_FUEL,
    LIMIT_WIDTH,
    LITERAL_BYTES,
    LITERAL_OFFSETS,
    M_DERIVATIVE,
    M_ONE_CHAR,
    M_SATURATE,
    M_STAY,
    MARKS,
    MAX_WIDTH,
    STACK,
    STACK_TOP,
    V_FLAGS,
    VALUE_WORDS,
    VALUES,
    flags_of,
    has_room,
    header,
    i64,
    intern,
    kind_of,
    length_of,
    memo_get,
    memo_put,
    sort_unique,
    u8,
    word_of,
)
from cdplugin.kernels.jit import kernel

EMPTY, EPSILON, ALL = 1, 2, 3  # ids, interned first in every arena

# flags of an expression
NULLABLE = 1  # matches the empty string
PURE = 2  # no & and no ~ inside: not EMPTY means not empty
FINITE = 4  # certainly a finite language
NONEMPTY = 8  # known not to be empty
IS_EMPTY = 16  # known to be empty
SEEN = 32  # on the list of the emptiness search that is running
KNOWN_NONEMPTY = NONEMPTY | PURE | NULLABLE  # any of these on an expression other than EMPTY

UNBOUNDED = 1 << 20  # "any number of characters" in stay()


@kernel
def _finish(h, value, flags):
    """Store the flags of a fresh expression."""
    if value >= 0:
        values = i64(h, VALUES)
        values[value * VALUE_WORDS + V_FLAGS] |= flags
    return value


@kernel
def nullable(h, e):
    return flags_of(h, e) & NULLABLE != 0


@kernel
def push(h, word):
    """Push a word on the stack: 0, or ``GROW``."""
    head = header(h)
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + 1):
        return GROW
    i64(h, STACK)[top] = word
    head[STACK_TOP] = top + 1
    return 0


# --- constructors: each returns an expression id or a status --------------------------------------------------------------


@kernel
def make_bytes(h, w0, w1, w2, w3):
    """One byte out of a set; bit ``b & 63`` of word ``b >> 6``."""
    if w0 == 0 and w1 == 0 and w2 == 0 and w3 == 0:
        return EMPTY
    head = header(h)
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + 4):
        return GROW
    words = i64(h, STACK)
    words[top] = w0
    words[top + 1] = w1
    words[top + 2] = w2
    words[top + 3] = w3
    return _finish(h, intern(h, K_BYTES, top, 4), PURE | FINITE)


@kernel
def make_literals(h, low, high, depth):
    """The literals ``low .. high - 1`` of the sorted table, less their first ``depth`` bytes."""
    if low >= high:
        return EMPTY
    offsets = i64(h, LITERAL_OFFSETS)
    nullable_ = offsets[low + 1] - offsets[low] == depth
    if nullable_ and high == low + 1:
        return EPSILON
    head = header(h)
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + 3):
        return GROW
    words = i64(h, STACK)
    words[top] = low
    words[top + 1] = high
    words[top + 2] = depth
    return _finish(h, intern(h, K_LITERALS, top, 3), PURE | FINITE | (NULLABLE if nullable_ else 0))


@kernel
def make_repeat(h, a, low, high):
    """``a`` at least ``low`` and at most ``high`` times; ``high`` = -1: no bound."""
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
    if kind_of(h, a) == K_REPEAT and word_of(h, a, 1) == 0 and word_of(h, a, 2) == -1:
        return a
    head = header(h)
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + 3):
        return GROW
    words = i64(h, STACK)
    words[top] = a
    words[top + 1] = low
    words[top + 2] = high
    out = flags & PURE
    if flags & KNOWN_NONEMPTY:
        out |= NONEMPTY
    if low == 0:
        out |= NULLABLE
    if high >= 0 and flags & FINITE:
        out |= FINITE
    return _finish(h, intern(h, K_REPEAT, top, 3), out)


@kernel
def _cat_pair(h, a, b):
    """``a b`` for an ``a`` that is no concatenation; joins neighbouring repetitions of one body."""
    if kind_of(h, a) == K_REPEAT or a == ALL:
        head_, tail = b, EPSILON
        if kind_of(h, b) == K_CAT:
            head_, tail = word_of(h, b, 0), word_of(h, b, 1)
        if a == ALL:
            if head_ == ALL:
                return b
        elif kind_of(h, head_) == K_REPEAT and word_of(h, head_, 0) == word_of(h, a, 0):
            low = word_of(h, a, 1) + word_of(h, head_, 1)
            high = np.int64(-1)
            if word_of(h, a, 2) >= 0 and word_of(h, head_, 2) >= 0:
                high = word_of(h, a, 2) + word_of(h, head_, 2)
            joined = make_repeat(h, word_of(h, a, 0), low, high)
            if joined < 0 or tail == EPSILON:
                return joined
            a, b = joined, tail
    head = header(h)
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + 2):
        return GROW
    words = i64(h, STACK)
    words[top] = a
    words[top + 1] = b
    flags = flags_of(h, a) & flags_of(h, b) & (NULLABLE | PURE | FINITE)
    if flags_of(h, a) & KNOWN_NONEMPTY and flags_of(h, b) & KNOWN_NONEMPTY:
        flags |= NONEMPTY
    return _finish(h, intern(h, K_CAT, top, 2), flags)


@kernel
def make_cat(h, a, b):
    """``a`` followed by ``b``, nested to the right."""
    if a == EMPTY or b == EMPTY:
        return EMPTY
    if a == EPSILON:
        return b
    if b == EPSILON:
        return a
    head = header(h)
    base = head[STACK_TOP]
    while kind_of(h, a) == K_CAT:
        if push(h, word_of(h, a, 0)) < 0:
            return GROW
        a = word_of(h, a, 1)
    result = _cat_pair(h, a, b)
    while result >= 0 and head[STACK_TOP] > base:
        head[STACK_TOP] -= 1
        result = _cat_pair(h, i64(h, STACK)[head[STACK_TOP]], result)
    head[STACK_TOP] = base
    return result


@kernel
def make_not(h, a):
    """All byte strings that ``a`` does not match."""
    if kind_of(h, a) == K_NOT:
        return word_of(h, a, 0)
    head = header(h)
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + 1):
        return GROW
    i64(h, STACK)[top] = a
    flags = flags_of(h, a)
    out = 0 if flags & NULLABLE else NULLABLE
    if flags & FINITE or a == EMPTY:
        out |= NONEMPTY
    return _finish(h, intern(h, K_NOT, top, 1), out)


@kernel
def make_alt(h, start, count):
    """The union of the expressions ``STACK[start:start + count]``; the stack is left as it was."""
    head = header(h)
    saved = head[STACK_TOP]
    base = max(saved, start + count)
    head[STACK_TOP] = base
    w0 = np.int64(0)
    w1 = np.int64(0)
    w2 = np.int64(0)
    w3 = np.int64(0)
    any_nullable = False
    epsilon = False
    for i in range(start, start + count):
        e = i64(h, STACK)[i]
        if e == EMPTY:
            continue
        if e == ALL:
            head[STACK_TOP] = saved
            return ALL
        n = length_of(h, e) if kind_of(h, e) == K_ALT else 1
        for j in range(n):
            part = word_of(h, e, j) if kind_of(h, e) == K_ALT else e
            kind = kind_of(h, part)
            if kind == K_BYTES:
                w0 |= word_of(h, part, 0)
                w1 |= word_of(h, part, 1)
                w2 |= word_of(h, part, 2)
                w3 |= word_of(h, part, 3)
            elif kind == K_EPSILON:
                epsilon = True
            else:
                any_nullable = any_nullable or nullable(h, part)
                if push(h, part) < 0:
                    return GROW
    bytes_ = make_bytes(h, w0, w1, w2, w3)
    if bytes_ < 0:
        return bytes_
    if bytes_ != EMPTY and push(h, bytes_) < 0:
        return GROW
    if epsilon and not any_nullable and push(h, EPSILON) < 0:
        return GROW
    n = sort_unique(i64(h, STACK), base, head[STACK_TOP] - base)
    result = np.int64(EMPTY)
    if n > head[MAX_WIDTH]:
        result = np.int64(LIMIT_WIDTH)
    elif n == 1:
        result = i64(h, STACK)[base]
    elif n > 1:
        words = i64(h, STACK)
        flags = PURE | FINITE
        gained = 0
        for i in range(base, base + n):
            part = flags_of(h, words[i])
            flags &= part
            gained |= part & (NULLABLE | NONEMPTY)
        result = _finish(h, intern(h, K_ALT, base, n), flags | gained)
    head[STACK_TOP] = saved
    return result


@kernel
def make_and(h, start, count):
    """The intersection of the expressions ``STACK[start:start + count]``; the stack is left as it was."""
    head = header(h)
    saved = head[STACK_TOP]
    base = max(saved, start + count)
    head[STACK_TOP] = base
    w0 = np.int64(-1)
    w1 = np.int64(-1)
    w2 = np.int64(-1)
    w3 = np.int64(-1)
    some_bytes = False
    epsilon = False
    all_nullable = True
    for i in range(start, start + count):
        e = i64(h, STACK)[i]
        if e == EMPTY:
            head[STACK_TOP] = saved
            return EMPTY
        n = length_of(h, e) if kind_of(h, e) == K_AND else 1
        for j in range(n):
            part = word_of(h, e, j) if kind_of(h, e) == K_AND else e
            if part == ALL:
                continue
            kind = kind_of(h, part)
            all_nullable = all_nullable and nullable(h, part)
            if kind == K_BYTES:
                some_bytes = True
                w0 &= word_of(h, part, 0)
                w1 &= word_of(h, part, 1)
                w2 &= word_of(h, part, 2)
                w3 &= word_of(h, part, 3)
            elif kind == K_EPSILON:
                epsilon = True
            elif push(h, part) < 0:
                return GROW
    if epsilon:
        head[STACK_TOP] = saved
        return EPSILON if all_nullable else EMPTY
    if some_bytes:
        bytes_ = make_bytes(h, w0, w1, w2, w3)
        if bytes_ == EMPTY:
            head[STACK_TOP] = saved
            return EMPTY
        if bytes_ < 0 or push(h, bytes_) < 0:
            return GROW
    n = sort_unique(i64(h, STACK), base, head[STACK_TOP] - base)
    result = np.int64(ALL)
    if n > head[MAX_WIDTH]:
        result = np.int64(LIMIT_WIDTH)
    elif n == 1:
        result = i64(h, STACK)[base]
    elif n > 1:
        words = i64(h, STACK)
        flags = NULLABLE
        positive = 0  # parts that are no complement of a finite language
        infinite = False  # such a part that is certainly infinite
        finite = 0
        for i in range(base, base + n):
            part = flags_of(h, words[i])
            flags &= part
            finite |= part & FINITE
            if kind_of(h, words[i]) == K_NOT and flags_of(h, word_of(h, words[i], 0)) & FINITE:
                continue
            positive += 1
            infinite = part & PURE != 0 and part & FINITE == 0
        if positive == 0 or (positive == 1 and infinite):
            flags |= NONEMPTY  # an infinite language less finitely many words
        result = _finish(h, intern(h, K_AND, base, n), flags | finite)
    head[STACK_TOP] = saved
    return result


# --- derivatives ----------------------------------------------------------------------------------------------------------


@kernel
def _literal_child(h, e, byte):
    """Range of the literals of ``e`` that go on with ``byte``: ``(low, high)``, empty if ``low == high``."""
    offsets = i64(h, LITERAL_OFFSETS)
    text = u8(h, LITERAL_BYTES)
    low = word_of(h, e, 0)
    high = word_of(h, e, 1)
    depth = word_of(h, e, 2)
    if offsets[low + 1] - offsets[low] == depth:
        low += 1  # sorted: only the first can end here
    start, end = low, high
    while start < end:  # first literal whose byte at depth is >= byte
        middle = (start + end) >> 1
        if text[offsets[middle] + depth] < byte:
            start = middle + 1
        else:
            end = middle
    low = start
    end = high
    while start < end:  # first literal whose byte at depth is > byte
        middle = (start + end) >> 1
        if text[offsets[middle] + depth] <= byte:
            start = middle + 1
        else:
            end = middle
    return low, start


@kernel
def _leaf_derivative(h, e, byte):
    """Derivative of a leaf, or -9 if ``e`` is no leaf."""
    kind = kind_of(h, e)
    if kind == K_BYTES:
        return EPSILON if (word_of(h, e, byte >> 6) >> (byte & 63)) & 1 else EMPTY
    if kind == K_LITERALS:
        low, high = _literal_child(h, e, byte)
        return make_literals(h, low, high, word_of(h, e, 2) + 1)
    if kind == K_EMPTY or kind == K_EPSILON:
        return EMPTY
    return -9


@kernel
def _known_derivative(h, e, byte):
    """Derivative if it is a leaf's or memoised; -9 if it has to be computed; or a status."""
    result = _leaf_derivative(h, e, byte)
    if result != -9:
        return result
    result = memo_get(h, M_DERIVATIVE, e, byte)
    return result if result >= 0 else -9


@kernel
def derive(h, e, byte):
    """The derivative of ``e`` by ``byte``: what ``e`` matches after it. An id or a status.

    Post-order over the parts whose derivatives are missing; each result is memoised under ``(e, byte)``.
    """
    result = _known_derivative(h, e, byte)
    if result != -9:
        return result
    head = header(h)
    base = head[STACK_TOP]
    if push(h, e) < 0:
        return GROW
    while head[STACK_TOP] > base:
        e = i64(h, STACK)[head[STACK_TOP] - 1]
        if memo_get(h, M_DERIVATIVE, e, byte) >= 0:
            head[STACK_TOP] -= 1
            continue
        kind = kind_of(h, e)
        n = length_of(h, e) if kind == K_ALT or kind == K_AND else 1
        if kind == K_CAT and nullable(h, word_of(h, e, 0)):
            n = 2
        missing = False
        for i in range(n):
            part = word_of(h, e, i)
            known = _known_derivative(h, part, byte)
            if known == -9:
                missing = True
                if push(h, part) < 0:
                    return GROW
            elif known < 0:
                return known
        if missing:
            continue
        head[C_DERIVATIVES] += 1
        top = head[STACK_TOP]
        if kind == K_CAT:
            result = make_cat(h, _known_derivative(h, word_of(h, e, 0), byte), word_of(h, e, 1))
            if result >= 0 and n == 2:
                if not has_room(h, STACK, top + 2):
                    return GROW
                words = i64(h, STACK)
                words[top] = result
                words[top + 1] = _known_derivative(h, word_of(h, e, 1), byte)
                result = make_alt(h, top, 2)
        elif kind == K_REPEAT:
            low = word_of(h, e, 1)
            high = word_of(h, e, 2)
            rest = make_repeat(h, word_of(h, e, 0), max(low - 1, 0), high - 1 if high > 0 else high)
            if rest < 0:
                return rest
            result = make_cat(h, _known_derivative(h, word_of(h, e, 0), byte), rest)
        elif kind == K_NOT:
            result = make_not(h, _known_derivative(h, word_of(h, e, 0), byte))
        else:
            if not has_room(h, STACK, top + n):
                return GROW
            words = i64(h, STACK)
            for i in range(n):
                words[top + i] = _known_derivative(h, word_of(h, e, i), byte)
            result = make_alt(h, top, n) if kind == K_ALT else make_and(h, top, n)
        if result < 0:
            return result
        if memo_put(h, M_DERIVATIVE, e, byte, result) < 0:
            return GROW
        head[STACK_TOP] -= 1
    return result


@kernel
def refine_class(h, e, byte, byte_class):
    """Cut ``byte_class`` (4 words of a set that holds ``byte``) to bytes whose derivative of ``e`` is certainly the same as ``byte``'s.

    The classes of Owens, Reppy and Turon, for one byte: intersect, over the byte sets at the heads of ``e``, the side that ``byte`` is
    on. Gives up (leaves just ``byte``) where that would cost more than it saves.
    """
    head = header(h)
    base = head[STACK_TOP]
    if push(h, e) < 0:
        return GROW
    visits = 0
    while head[STACK_TOP] > base:
        head[STACK_TOP] -= 1
        e = i64(h, STACK)[head[STACK_TOP]]
        kind = kind_of(h, e)
        visits += 1
        give_up = visits > 200
        if kind == K_BYTES:
            inside = (word_of(h, e, byte >> 6) >> (byte & 63)) & 1
            for i in range(4):
                word = word_of(h, e, i)
                byte_class[i] &= word if inside else ~word
        elif kind == K_LITERALS:
            low, high = _literal_child(h, e, byte)
            if low < high:
                give_up = True
            else:
                give_up = give_up or not _drop_literal_heads(h, e, byte_class)
        elif kind == K_CAT:
            if push(h, word_of(h, e, 0)) < 0:
                return GROW
            if nullable(h, word_of(h, e, 0)) and push(h, word_of(h, e, 1)) < 0:
                return GROW
        elif kind == K_NOT or kind == K_REPEAT:
            if push(h, word_of(h, e, 0)) < 0:
                return GROW
        elif kind == K_ALT or kind == K_AND:
            for i in range(length_of(h, e)):
                if push(h, word_of(h, e, i)) < 0:
                    return GROW
        if give_up:
            for i in range(4):
                byte_class[i] = 0
            byte_class[byte >> 6] = np.int64(1) << (byte & 63)
            break
    head[STACK_TOP] = base
    return 0


@kernel
def _drop_literal_heads(h, e, byte_class):
    """Remove the first bytes of a literal set from ``byte_class``; False if they are too many to be worth it."""
    offsets = i64(h, LITERAL_OFFSETS)
    text = u8(h, LITERAL_BYTES)
    low = word_of(h, e, 0)
    high = word_of(h, e, 1)
    depth = word_of(h, e, 2)
    if offsets[low + 1] - offsets[low] == depth:
        low += 1
    for _ in range(16):
        if low >= high:
            return True
        byte = np.int64(text[offsets[low] + depth])
        byte_class[byte >> 6] &= ~(np.int64(1) << (byte & 63))
        start, end = low + 1, high
        while start < end:
            middle = (start + end) >> 1
            if text[offsets[middle] + depth] <= byte:
                start = middle + 1
            else:
                end = middle
        low = start
    return low >= high


# --- emptiness ------------------------------------------------------------------------------------------------------------


@kernel
def is_nonempty(h, e):
    """1 if ``e`` matches something, 0 if nothing, or a status (``LIMIT_FUEL`` if the fuel ran out: never a guess).

    Without ``&`` and ``~`` the constructors have decided it. Otherwise a breadth-first search over derivatives, one byte of each
    class; the chain that led to a match, or all that was seen, is marked, so that the next state's question is mostly answered.
    """
    values = i64(h, VALUES)
    if e == EMPTY:
        return 0
    flags = values[e * VALUE_WORDS + V_FLAGS]
    if flags & KNOWN_NONEMPTY:
        return 1
    if flags & IS_EMPTY:
        return 0
    head = header(h)
    base = head[STACK_TOP]
    # entries of two words: an expression and the index of the entry that it was reached from
    if not has_room(h, STACK, base + 2):
        return GROW
    byte_class = np.empty(4, np.int64)
    covered = np.empty(4, np.int64)
    words = i64(h, STACK)
    words[base] = e
    words[base + 1] = -1
    head[STACK_TOP] = base + 2
    entry = base
    status = 0
    found = np.int64(-1)
    fuel = head[FUEL]
    values[e * VALUE_WORDS + V_FLAGS] |= SEEN
    while entry < head[STACK_TOP] and found < 0 and status == 0:
        e = i64(h, STACK)[entry]
        for i in range(4):
            covered[i] = 0
        for byte in range(256):
            if (covered[byte >> 6] >> (byte & 63)) & 1:
                continue
            for i in range(4):
                byte_class[i] = -1
            if refine_class(h, e, byte, byte_class) < 0:
                status = GROW
                break
            for i in range(4):
                covered[i] |= byte_class[i]
            child = derive(h, e, byte)
            if child < 0:
                status = child
                break
            fuel -= 1
            if fuel < 0:
                status = LIMIT_FUEL
                break
            values = i64(h, VALUES)
            flags = values[child * VALUE_WORDS + V_FLAGS]
            if child == EMPTY or flags & (IS_EMPTY | SEEN):
                continue
            if flags & KNOWN_NONEMPTY:
                found = entry
                break
            if not has_room(h, STACK, head[STACK_TOP] + 2):
                status = GROW
                break
            words = i64(h, STACK)
            words[head[STACK_TOP]] = child
            words[head[STACK_TOP] + 1] = entry
            head[STACK_TOP] += 2
            values[child * VALUE_WORDS + V_FLAGS] |= SEEN
        entry += 2
    values = i64(h, VALUES)
    words = i64(h, STACK)
    for i in range(base, head[STACK_TOP], 2):
        record = words[i] * VALUE_WORDS + V_FLAGS
        values[record] &= ~np.int64(SEEN)
        if status == 0 and found < 0:
            values[record] |= IS_EMPTY
    while found >= 0:
        values[words[found] * VALUE_WORDS + V_FLAGS] |= NONEMPTY
        found = words[found + 1]
    answer = values[words[base] * VALUE_WORDS + V_FLAGS] & NONEMPTY
    head[STACK_TOP] = base
    if status < 0:
        return status
    return 1 if answer else 0


# --- slices: how many plain characters keep an expression alive -----------------------------------------------------------


@kernel
def _slice_step(state, byte):
    """One step of the automaton of ``[^"\\\\\\x00-\\x1F\\x7F]`` in UTF-8 (RFC 3629): next state, 0 = a whole character, -1 = no."""
    if state == 0:
        if byte < 0x80:
            return 0 if byte >= 0x20 and byte != 0x22 and byte != 0x5C and byte != 0x7F else -1
        if 0xC2 <= byte <= 0xDF:
            return 1
        if byte == 0xE0:
            return 2
        if byte == 0xED:
            return 3
        if 0xE1 <= byte <= 0xEF:
            return 4
        if byte == 0xF0:
            return 5
        if 0xF1 <= byte <= 0xF3:
            return 6
        return 7 if byte == 0xF4 else -1
    low, high = 0x80, 0xBF
    if state == 2:
        low = 0xA0
    elif state == 3:
        high = 0x9F
    elif state == 5:
        low = 0x90
    elif state == 7:
        high = 0x8F
    if byte < low or byte > high:
        return -1
    if state == 1:
        return 0
    return 4 if state >= 5 else 1


@kernel
def one_char(h, e):
    """How ``e`` meets one character of the slice class: 0 does not match each of them, 1 does, 2 does and matches nothing longer
    that starts with one. Or a status.
    """
    known = memo_get(h, M_ONE_CHAR, e, 0)
    if known >= 0:
        return known
    head = header(h)
    base = head[STACK_TOP]
    if not has_room(h, STACK, base + 2):
        return GROW
    words = i64(h, STACK)
    words[base] = e
    words[base + 1] = 0
    head[STACK_TOP] = base + 2
    byte_class = np.empty(4, np.int64)
    answer = np.int64(2)
    status = np.int64(0)
    steps = 0
    while head[STACK_TOP] > base and answer > 0 and status == 0:
        head[STACK_TOP] -= 2
        part = i64(h, STACK)[head[STACK_TOP]]
        state = i64(h, STACK)[head[STACK_TOP] + 1]
        covered = np.zeros(4, np.int64)
        for byte in range(0x20, 0xF5):
            if (covered[byte >> 6] >> (byte & 63)) & 1:
                continue
            after = _slice_step(state, byte)
            if after < 0:
                continue
            for i in range(4):
                byte_class[i] = -1
            if refine_class(h, part, byte, byte_class) < 0:
                status = np.int64(GROW)
                break
            for other in range(0x20, 0xF5):  # same derivative and same step of the slice automaton
                if (byte_class[other >> 6] >> (other & 63)) & 1 and _slice_step(state, other) == after:
                    covered[other >> 6] |= np.int64(1) << (other & 63)
            steps += 1
            child = derive(h, part, byte)
            if child < 0:
                status = child
                break
            if child == EMPTY or steps > 400:
                answer = np.int64(0)
                break
            if after == 0:
                if child != EPSILON:
                    answer = min(answer, np.int64(1)) if nullable(h, child) else np.int64(0)
                    if answer == 0:
                        break
            else:
                if not has_room(h, STACK, head[STACK_TOP] + 2):
                    status = np.int64(GROW)
                    break
                words = i64(h, STACK)
                words[head[STACK_TOP]] = child
                words[head[STACK_TOP] + 1] = after
                head[STACK_TOP] += 2
    head[STACK_TOP] = base
    if status < 0:
        return status
    return memo_put(h, M_ONE_CHAR, e, 0, answer)


@kernel
def stay(h, e):
    """``2 n + x``: any text of at most ``n`` slice characters keeps ``e`` alive; ``x`` = 1: and none of more than ``n`` does.

    A sound under-approximation read off the structure; 0 = unknown. By induction: after k <= n characters, each matched by one
    turn of ``R``, ``R{m,n} T`` still has ``R{m-k,n-k} T`` to offer. ``UNBOUNDED`` characters leave an infinite language, from which
    taking away a finite one (``& ~F``) leaves something.
    """
    known = memo_get(h, M_STAY, e, 0)
    if known >= 0:
        return known
    kind = kind_of(h, e)
    answer = np.int64(0)
    body, tail = e, np.int64(EPSILON)
    if kind == K_CAT:
        body, tail = word_of(h, e, 0), word_of(h, e, 1)
    if kind_of(h, body) == K_REPEAT:
        alive = is_nonempty(h, tail)
        if alive < 0:
            return alive
        matches = one_char(h, word_of(h, body, 0)) if alive else np.int64(0)
        if matches < 0:
            return matches
        if matches > 0:
            high = word_of(h, body, 2)
            if high < 0 or high >= UNBOUNDED:
                answer = np.int64(2 * UNBOUNDED)
            else:
                exact = matches == 2 and (tail == EPSILON or _never_starts_plain(h, tail))
                answer = 2 * high + (1 if exact else 0)
    elif kind == K_ALT:
        for i in range(length_of(h, e)):
            part = memo_get(h, M_STAY, word_of(h, e, i), 0)
            if part < 0:
                part = _stay_simple(h, word_of(h, e, i))
            if part < 0:
                return part
            answer = max(answer, part & ~np.int64(1))
    elif kind == K_AND:
        positive = np.int64(0)
        for i in range(length_of(h, e)):
            part = word_of(h, e, i)
            if kind_of(h, part) == K_NOT and flags_of(h, word_of(h, part, 0)) & FINITE:
                continue
            positive = part if positive == 0 else np.int64(-1)
        if positive > 0:
            part = _stay_simple(h, positive)
            if part < 0:
                return part
            if part >= 2 * UNBOUNDED and flags_of(h, positive) & PURE:
                answer = np.int64(2 * UNBOUNDED)
    return memo_put(h, M_STAY, e, 0, answer)


@kernel
def _stay_simple(h, e):
    """:func:`stay` for ``R{m,n} T`` only, unbounded part: what ``|`` and ``&`` look at inside."""
    body, tail = e, np.int64(EPSILON)
    if kind_of(h, e) == K_CAT:
        body, tail = word_of(h, e, 0), word_of(h, e, 1)
    if kind_of(h, body) != K_REPEAT:
        return np.int64(0)
    alive = is_nonempty(h, tail)
    if alive <= 0:
        return np.int64(alive)
    matches = one_char(h, word_of(h, body, 0))
    if matches <= 0:
        return np.int64(matches)
    high = word_of(h, body, 2)
    if high < 0 or high >= UNBOUNDED:
        return np.int64(2 * UNBOUNDED)
    return 2 * high


@kernel
def _never_starts_plain(h, e):
    """Whether ``e`` is seen at once not to start with a slice character (its head is a byte set disjoint from them)."""
    if kind_of(h, e) == K_CAT:
        e = word_of(h, e, 0)
    if kind_of(h, e) != K_BYTES:
        return False
    for byte in range(0x20, 0xF5):
        if _slice_step(0, byte) >= 0 and (word_of(h, e, byte >> 6) >> (byte & 63)) & 1:
            return False
    return True


@kernel
def saturate(h, e, longest):
    """``e`` with the counts of a leading repetition cut to ``longest`` (bytes of the longest token): no token can tell them apart.

    ``R{m,n} T`` with ``m > longest`` stays alive, and open, through any token that ``R``s spell; so it becomes ``R{longest+1,} T`` when
    both bounds are out of reach and ``R{m,} T`` when only the upper one is. Only used where every turn of R takes at least a byte.
    """
    known = memo_get(h, M_SATURATE, e, 0)
    if known >= 0:
        return known
    body, tail = e, np.int64(EPSILON)
    if kind_of(h, e) == K_CAT:
        body, tail = word_of(h, e, 0), word_of(h, e, 1)
    result = e
    if kind_of(h, body) == K_REPEAT and not nullable(h, word_of(h, body, 0)):
        low = word_of(h, body, 1)
        high = word_of(h, body, 2)
        if high > longest or low > longest + 1:
            if high > longest:
                high = np.int64(-1)
            repeated = make_repeat(h, word_of(h, body, 0), min(low, longest + 1), high)
            if repeated < 0:
                return repeated
            result = make_cat(h, repeated, tail)
            if result < 0:
                return result
    return memo_put(h, M_SATURATE, e, 0, result)


@kernel
def evaluate(h, start, count):
    """Run a postfix program ``STACK[start:start + count]`` that builds expressions; returns the id of the last one, or a status.

    Instructions: ``K_EMPTY``; ``K_EPSILON``; ``K_BYTES w0 w1 w2 w3``; ``K_LITERALS low high depth``; ``K_CAT n``; ``K_ALT n``; ``K_AND n``
    (over the top ``n`` operands); ``K_NOT``; ``K_REPEAT low high``; ``-1 slot``: load a result; ``-2 slot``: keep the top as result
    ``slot``. Results lie in MARKS, which the owner has made large enough.
    """
    head = header(h)
    saved = head[STACK_TOP]
    head[STACK_TOP] = max(saved, start + count)
    results = i64(h, MARKS)
    at = start
    end = start + count
    result = np.int64(EMPTY)
    while at < end:
        words = i64(h, STACK)
        code = words[at]
        at += 1
        if code == -2:
            results[words[at]] = words[head[STACK_TOP] - 1]
            at += 1
            continue
        if code == -1:
            result = results[words[at]]
            at += 1
        elif code == K_EMPTY:
            result = np.int64(EMPTY)
        elif code == K_EPSILON:
            result = np.int64(EPSILON)
        elif code == K_BYTES:
            result = make_bytes(h, words[at], words[at + 1], words[at + 2], words[at + 3])
            at += 4
        elif code == K_LITERALS:
            result = make_literals(h, words[at], words[at + 1], words[at + 2])
            at += 3
        elif code == K_NOT:
            head[STACK_TOP] -= 1
            result = make_not(h, words[head[STACK_TOP]])
        elif code == K_REPEAT:
            head[STACK_TOP] -= 1
            result = make_repeat(h, words[head[STACK_TOP]], words[at], words[at + 1])
            at += 2
        else:
            n = words[at]
            at += 1
            base = head[STACK_TOP] - n
            if code == K_CAT:
                result = words[head[STACK_TOP] - 1]
                for i in range(head[STACK_TOP] - 2, base - 1, -1):
                    result = make_cat(h, i64(h, STACK)[i], result)
                    if result < 0:
                        return result
            elif code == K_ALT:
                result = make_alt(h, base, n)
            else:
                result = make_and(h, base, n)
            head[STACK_TOP] = base
        if result < 0:
            return result
        if push(h, result) < 0:
            return GROW
    head[STACK_TOP] = saved
    return result
