"""Brzozowski derivatives (1964), memoised, and the byte classes that share one.

The derivative of ``e`` by a byte matches what ``e`` matches after that byte. ``d(R{m,n}) = d(R) R{m-1,n-1}``,
``d(A & B) = d(A) & d(B)``, ``d(~A) = ~d(A)``. Nothing recurses: parts whose derivatives are missing are pushed on the arena's
stack and done first (post-order), and each result is memoised under (expression, byte).

For example, with ``R = [a-z]``: the derivative of ``R{1,3} "x"`` by ``x`` is ``R{0,2} "x"``. The derivative of that by ``x`` is
``R{0,1} "x" | ()``: now the head is nullable, so the ``x`` may also be the one behind it.

``d(R) R{m-1,n-1}`` is right for a nullable ``R`` as well, since then ``m`` is 0 by construction.

:func:`refine_class` finds bytes that certainly have the same derivative, so a transition row is filled class by class.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.regex.expressions import (
    EMPTY,
    EPSILON,
    make_alt,
    make_and,
    make_cat,
    make_literals,
    make_not,
    make_repeat,
    n_parts_of,
    nullable,
    split,
)
from cdplugin.kernels.regex.literals import add_literal_heads, literals_with
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import header, i64, intern, kind_of, length_of, memo_get, memo_put, offset_of, spend, word_of
from cdplugin.kernels.store.byte_sets import add_byte, add_bytes, fill_bytes, has_byte
from cdplugin.kernels.store.stack import push, push_all, push_pair

FEW_VISITS = 200  # nodes visited to find a byte class, where a class saves little
MANY_VISITS = 2_000  # the same where each further class costs a derivative and a state of a search
_MOST_HEADS = 16  # first bytes of a set of literals that are taken out of a class; more are not worth their bisections


@kernel
def _leaf_derivative(h, e, byte):
    """Return the derivative of a byte set or literals, or of a concatenation that begins with a byte set or with literals of
    which none starts with ``byte``; ``UNKNOWN`` for anything else.

    Computing these is as fast as a memo look-up, so they are not memoised. Most questions are about them.
    """
    kind = kind_of(h, e)
    if kind == layout.K_BYTES:
        return EPSILON if (word_of(h, e, byte >> 6) >> (byte & 63)) & 1 else EMPTY
    if kind == layout.K_LITERALS:
        low, high = literals_with(h, e, byte)
        return make_literals(h, low, high, word_of(h, e, 2) + 1)
    if kind == layout.K_EMPTY or kind == layout.K_EPSILON:
        return EMPTY
    if kind == layout.K_CAT:  # branches of character classes, and of names in all spellings, have these shapes
        first = word_of(h, e, 0)
        first_kind = kind_of(h, first)
        if first_kind == layout.K_BYTES:
            return word_of(h, e, 1) if (word_of(h, first, byte >> 6) >> (byte & 63)) & 1 else EMPTY
        if first_kind == layout.K_LITERALS and not nullable(h, first):
            low, high = literals_with(h, first, byte)
            if low == high:
                return EMPTY
    return statuses.UNKNOWN


@kernel
def _known_derivative(h, e, byte):
    """Return the derivative if it is a leaf's or memoised; ``UNKNOWN`` if it must be computed; or a status."""
    result = _leaf_derivative(h, e, byte)
    if result != statuses.UNKNOWN:
        return result
    # failures are not memoised, so this is never a status
    result = memo_get(h, layout.M_DERIVATIVE, e, byte)
    return result if result >= 0 else statuses.UNKNOWN


@kernel
def derive(h, e, byte):
    """Return the derivative of ``e`` by ``byte``: an id or a status.

    Post-order over the parts whose derivatives are missing: an entry stays on the stack until its parts are known, and is
    computed when it comes up again. Memoised under ``(e, byte)``. Cost: one constructor call for each unmemoised node between
    the root and the leaves at the front.
    """
    result = _known_derivative(h, e, byte)
    if result != statuses.UNKNOWN:
        return result
    head = header(h)
    base = head[layout.STACK_TOP]
    if push(h, e) < 0:
        return statuses.GROW
    while head[layout.STACK_TOP] > base:
        if not spend(h, 4):
            return statuses.LIMIT_WORK
        e = i64(h, layout.STACK)[head[layout.STACK_TOP] - 1]
        if memo_get(h, layout.M_DERIVATIVE, e, byte) >= 0:
            head[layout.STACK_TOP] -= 1
            continue
        kind = kind_of(h, e)
        n = length_of(h, e) if kind == layout.K_ALT or kind == layout.K_AND else 1
        # d(A B) = d(A) B | d(B) where A may be empty
        if kind == layout.K_CAT and nullable(h, word_of(h, e, 0)):
            n = 2
        head[layout.WORK_LEFT] -= 2 * n
        missing = False
        for i in range(n):
            part = word_of(h, e, i)
            known = _known_derivative(h, part, byte)
            if known == statuses.UNKNOWN:
                missing = True
                if push(h, part) < 0:
                    return statuses.GROW
            elif known < 0:
                return known
        if missing:
            continue
        head[layout.C_DERIVATIVES] += 1
        top = head[layout.STACK_TOP]
        if kind == layout.K_CAT:
            result = make_cat(h, _known_derivative(h, word_of(h, e, 0), byte), word_of(h, e, 1))
            if result >= 0 and n == 2:
                if push_pair(h, result, _known_derivative(h, word_of(h, e, 1), byte)) < 0:
                    return statuses.GROW
                result = make_alt(h, top, 2)
                head[layout.STACK_TOP] = top
        elif kind == layout.K_REPEAT:
            low = word_of(h, e, 1)
            high = word_of(h, e, 2)
            # high is -1 or at least 1: R{0,0} is EPSILON and never stored
            rest = make_repeat(h, word_of(h, e, 0), max(low - 1, 0), high - 1 if high > 0 else high)
            if rest < 0:
                return rest
            result = make_cat(h, _known_derivative(h, word_of(h, e, 0), byte), rest)
        elif kind == layout.K_NOT:
            result = make_not(h, _known_derivative(h, word_of(h, e, 0), byte))
        else:
            for i in range(n):
                if push(h, _known_derivative(h, word_of(h, e, i), byte)) < 0:
                    return statuses.GROW
            result = make_alt(h, top, n) if kind == layout.K_ALT else make_and(h, top, n)
            head[layout.STACK_TOP] = top
        if result < 0:
            return result
        if memo_put(h, layout.M_DERIVATIVE, e, byte, result) < 0:
            return statuses.GROW
        head[layout.STACK_TOP] -= 1
    return result


@kernel
def derivatives(h, e, first, end):
    """Push the derivatives by the bytes ``first`` to ``end - 1``, as pairs (number of bytes, derivative); return how many
    pairs, or a status.

    There is one pair for each class of bytes that certainly share a derivative.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    covered = byte_set(0)
    for byte in range(first, end):
        if has_byte(covered, byte):
            continue
        byte_class = byte_set(-1)
        if refine_class(h, e, byte, byte_class, FEW_VISITS) < 0:
            return np.int64(statuses.GROW)
        count = np.int64(0)
        for other in range(byte, end):
            count += has_byte(byte_class, other) and not has_byte(covered, other)
        add_bytes(covered, byte_class)
        result = derive(h, e, byte)
        if result < 0:
            return np.int64(result)
        if push_pair(h, count, result) < 0:
            return np.int64(statuses.GROW)
    return (head[layout.STACK_TOP] - base) >> 1


@kernel
def derive_class(h, e, other, byte, covered):
    """Return the derivative of ``e`` by a byte, or a status, and add the byte's class to the set ``covered``.

    The class holds bytes that certainly give ``e`` the same derivative and, unless that is ``EMPTY``, also ``other``. When two
    expressions are followed side by side, most bytes kill the first: they are one class, whatever ``other`` does.
    """
    byte_class = byte_set(-1)
    if refine_class(h, e, byte, byte_class, MANY_VISITS) < 0:
        return np.int64(statuses.GROW)
    after = derive(h, e, byte)
    if after != EMPTY and after >= 0 and refine_class(h, other, byte, byte_class, MANY_VISITS) < 0:
        return np.int64(statuses.GROW)
    add_bytes(covered, byte_class)
    return np.int64(after)


@kernel
def note_classes(h, e):
    """Memoise the byte classes of an expression, as sets of 4 words, for :func:`refine_class`. 0 or a status.

    Used for the characters of texts, which are the bodies of most counts.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    covered = byte_set(0)
    for byte in range(256):
        if has_byte(covered, byte):
            continue
        byte_class = byte_set(-1)
        status = refine_class(h, e, byte, byte_class, FEW_VISITS)
        if status < 0:
            return np.int64(status)
        add_bytes(covered, byte_class)
        for i in range(4):
            if push(h, byte_class[i]) < 0:
                return np.int64(statuses.GROW)
    classes = intern(h, layout.K_CLASSES, base, head[layout.STACK_TOP] - base)
    head[layout.STACK_TOP] = base
    return np.int64(memo_put(h, layout.M_CLASSES, e, 0, classes))


@kernel
def _cut_to_class(h, e, byte, byte_class):
    """Narrow ``byte_class`` to the class of ``e`` that holds ``byte``, and return 1; or 0 if :func:`note_classes` has not noted
    its classes.
    """
    if kind_of(h, e) != layout.K_ALT:
        return 0
    classes = memo_get(h, layout.M_CLASSES, e, 0)
    if classes < 0:
        return 0
    words = i64(h, layout.DATA)
    at = offset_of(h, classes)
    while not (words[at + (byte >> 6)] >> (byte & 63)) & 1:
        at += 4
    for i in range(4):
        byte_class[i] &= words[at + i]
    return 1


@kernel
def refine_class(h, e, byte, byte_class, most_visits):
    """Narrow ``byte_class``, a set of 4 words that holds ``byte``, to bytes that certainly give ``e`` the same derivative.

    The classes of Owens, Reppy and Turon, for one byte: intersect, over the byte sets at the front of ``e``, the side that
    ``byte`` is on. Gives up, leaving just ``byte``, after ``most_visits`` nodes (for each part, if ``e`` begins with an ``&``),
    and if some literal goes on with ``byte``. Returns how many nodes it visited, or ``GROW``.

    For ``[a-z]+ | "if"`` and the byte ``k``: ``k`` is inside ``[a-z]``, and no literal begins with it, so the class is
    ``[a-z]`` without ``i``.
    """
    joint, _ = split(h, e)
    most_visits *= n_parts_of(h, joint, layout.K_AND)
    head = header(h)
    base = head[layout.STACK_TOP]
    if push(h, e) < 0:
        return statuses.GROW
    visits = 0
    while head[layout.STACK_TOP] > base:
        head[layout.STACK_TOP] -= 1
        e = i64(h, layout.STACK)[head[layout.STACK_TOP]]
        kind = kind_of(h, e)
        visits += 1
        give_up = visits > most_visits
        if kind == layout.K_BYTES:
            inside = (word_of(h, e, byte >> 6) >> (byte & 63)) & 1
            for i in range(4):
                word = word_of(h, e, i)
                byte_class[i] &= word if inside else ~word
        elif kind == layout.K_LITERALS:
            low, high = literals_with(h, e, byte)
            heads = byte_set(0)
            # a byte that some literal goes on with gets a class of its own; all bytes with which none goes on share one
            give_up = give_up or low < high or not add_literal_heads(h, e, heads, _MOST_HEADS)
            for i in range(4):
                byte_class[i] &= ~heads[i]
        elif kind == layout.K_CAT:
            if push(h, word_of(h, e, 0)) < 0:
                return statuses.GROW
            if nullable(h, word_of(h, e, 0)) and push(h, word_of(h, e, 1)) < 0:
                return statuses.GROW
        elif kind == layout.K_NOT or kind == layout.K_REPEAT:
            if _cut_to_class(h, word_of(h, e, 0), byte, byte_class) == 0 and push(h, word_of(h, e, 0)) < 0:
                return statuses.GROW
        elif kind == layout.K_ALT or kind == layout.K_AND:
            if push_all(h, e) < 0:
                return statuses.GROW
        if give_up:
            fill_bytes(byte_class, np.int64(0))
            add_byte(byte_class, byte)
            break
    head[layout.STACK_TOP] = base
    head[layout.WORK_LEFT] -= visits
    return visits
