"""Absorption: drop the alternatives of a derivative that another alternative contains, so that fewer lexer states arise.

Once a pattern that may stand anywhere in a text has been found, any text may follow. ``C`` is a character::

    C* abc C* "        by abc      C* abc C* " | C* "                it was matched, and may match again
                       absorbed    C* "                              a state whose mask is mostly known already
    C* [0-9]{5} C* "   by 12       C* [0-9]{5} C* " | [0-9]{4} C* " | [0-9]{3} C* "
                       absorbed    C* [0-9]{5} C* " | [0-9]{3} C* "  the longest run of digits so far

Two rules. Let ``T`` be ``C* U``, and let every word of ``X`` and of ``R`` be a sequence of words of ``C``
(:func:`cdplugin.kernels.regex.saturate.is_contained`). Then ``X T`` is contained in ``T``; and ``R{n,…} T`` equals ``R{n} T``,
which is contained in ``R{m} T`` for ``m <= n``. The rules also apply to the parts of an ``&`` and below a ``~`` in it. There,
``C*`` is dropped beside a part whose words are sequences of words of ``C``.

The constructors (:mod:`cdplugin.kernels.regex.expressions`) cannot do this, since containment is a search over derivatives. So
it is done where a text is followed: by lexer states, and by the searches for matches of these, so that both meet the same
expressions. Later derivatives are taken of what is left.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.regex.derive import derive
from cdplugin.kernels.regex.expressions import (
    EMPTY,
    PURE,
    is_within,
    make_alt,
    make_and,
    make_cat,
    make_not,
    make_repeat,
    split,
    turns_of,
)
from cdplugin.kernels.regex.saturate import is_contained
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import flags_of, header, i64, kind_of, length_of, memo_get, memo_put, spend, word_of
from cdplugin.kernels.store.stack import push

_MOST_ALTERNATIVES = 256  # of a union that are compared
_MOST_PARTS = 32  # of a sequence that are compared


@kernel
def derive_absorbed(h, e, byte):
    """Return the derivative of ``e`` by a byte without absorbed alternatives; or a status."""
    child = np.int64(derive(h, e, byte))
    return absorbed(h, child) if child > EMPTY else child


@kernel
def absorbed(h, e):
    """Return an expression that matches the same texts as ``e``, without alternatives that others contain; or a status.

    Looks at the union that ``e`` begins with, or at the unions in an ``&`` that it begins with, also below a ``~``. Memoised if
    there is something to compare.
    """
    body, tail = split(h, e)
    kind = kind_of(h, body)
    if kind == layout.K_ALT:
        if not _is_worth_it(h, body):
            return np.int64(e)
    elif kind != layout.K_AND or not _has_choices(h, body):
        return _trimmed(h, e)
    known = memo_get(h, layout.M_ABSORBED, e, 0)
    if known >= 0:
        return known
    left = _choice(h, body) if kind == layout.K_ALT else _all_of(h, body)
    if left >= 0:
        left = np.int64(e) if left == body else np.int64(make_cat(h, left, tail))
    return left if left < 0 else np.int64(memo_put(h, layout.M_ABSORBED, e, 0, left))


@kernel
def _is_worth_it(h, e):
    """Return whether ``e`` is a ``K_ALT`` of which one alternative may contain others."""
    if kind_of(h, e) != layout.K_ALT or length_of(h, e) > _MOST_ALTERNATIVES:
        return False
    for i in range(length_of(h, e)):
        if _is_open(h, word_of(h, e, i)):
            return True
    return False


@kernel
def _is_open(h, e):
    """Return whether ``e`` has the shape ``C* U`` or ``R{n,…} C* U``."""
    first, rest = split(h, e)
    if _is_any_number(h, first):
        return True
    after, _ = split(h, rest)
    return _is_any_number(h, after)


@kernel
def _has_choices(h, e):
    """Return whether :func:`_is_worth_it` holds for a part of a ``K_AND``, or for what such a part denies."""
    for i in range(length_of(h, e)):
        part = word_of(h, e, i)
        if _is_worth_it(h, word_of(h, part, 0) if kind_of(h, part) == layout.K_NOT else part):
            return True
    return False


@kernel
def _choice(h, e):
    """Return a ``K_ALT`` without the alternatives that others contain, anything else as it is; or a status."""
    if not _is_worth_it(h, e):
        return np.int64(e)
    head = header(h)
    base = head[layout.STACK_TOP]
    n = length_of(h, e)
    kept = n
    changed = False
    for i in range(n):
        part = _trimmed(h, word_of(h, e, i))
        if part < 0:
            return part
        changed = changed or part != word_of(h, e, i)
        if push(h, part) < 0:
            return np.int64(statuses.GROW)
    for i in range(n):
        outer = i64(h, layout.STACK)[base + i]
        if outer == EMPTY or not _is_open(h, outer):
            continue
        for j in range(n):
            part = i64(h, layout.STACK)[base + j]
            if part == EMPTY or j == i:
                continue
            inside = _goes_on(h, part, outer)
            if inside < 0:
                return inside
            if inside:
                i64(h, layout.STACK)[base + j] = EMPTY
                kept -= 1
    result = np.int64(make_alt(h, base, n)) if changed or kept < n else np.int64(e)
    head[layout.STACK_TOP] = base
    return result


@kernel
def _trimmed(h, e):
    """Return ``R{n} C* U`` for ``R{n,…} C* U`` where words of ``R`` are sequences of words of ``C``; anything else as it is; or
    a status.
    """
    first, rest = split(h, e)
    if kind_of(h, first) != layout.K_REPEAT or word_of(h, first, 1) == word_of(h, first, 2):
        return np.int64(e)
    after, _ = split(h, rest)
    if not _is_any_number(h, after):
        return np.int64(e)
    body, least = word_of(h, first, 0), word_of(h, first, 1)
    answer = _is_made_of(h, body, word_of(h, after, 0))
    if answer != 1:
        return np.int64(e) if answer == 0 else answer
    turns = np.int64(make_repeat(h, body, least, least))
    return turns if turns < 0 else np.int64(make_cat(h, turns, rest))


@kernel
def _goes_on(h, e, outer):
    """Return 1 if one of the two rules above shows that ``outer`` contains ``e``, else 0; or a status."""
    if not spend(h, 2):
        return np.int64(statuses.LIMIT_WORK)
    first, rest = split(h, outer)
    if _is_any_number(h, first):
        return _leads_to(h, e, outer, word_of(h, first, 0))
    after, _ = split(h, rest)
    if not _is_any_number(h, after):
        return np.int64(0)
    body, least, _ = turns_of(h, first)
    mine, my_rest = split(h, e)
    my_body, my_least, _ = turns_of(h, mine)
    if body != my_body or least > my_least or rest != my_rest:
        return np.int64(0)
    return _is_made_of(h, body, word_of(h, after, 0))


@kernel
def _leads_to(h, e, outer, body):
    """Return 1 if ``e`` is found to be ``X`` followed by ``outer`` or something within it, else 0; or a status.

    Words of ``X`` must be sequences of words of ``body``.
    """
    rest = np.int64(e)
    for _ in range(_MOST_PARTS):
        first, rest = split(h, rest)
        answer = _is_made_of(h, first, body)
        if answer != 1 or is_within(h, rest, outer):
            return answer
        if not spend(h, 2):
            return np.int64(statuses.LIMIT_WORK)
        if kind_of(h, rest) != layout.K_CAT:
            break
    return np.int64(0)


@kernel
def _is_made_of(h, e, body):
    """Return :func:`is_contained` for PURE expressions, else 0; or a status. Of a repetition ``e``, one turn is asked about."""
    if kind_of(h, e) == layout.K_REPEAT:
        e = word_of(h, e, 0)
    if e == body:
        return np.int64(1)
    return np.int64(is_contained(h, e, body)) if flags_of(h, e) & flags_of(h, body) & PURE else np.int64(0)


@kernel
def _is_any_number(h, e):
    """Return whether ``e`` has the shape ``C*``."""
    return kind_of(h, e) == layout.K_REPEAT and word_of(h, e, 1) == 0 and word_of(h, e, 2) < 0


@kernel
def _all_of(h, e):
    """Return a ``K_AND`` with absorbed alternatives dropped from its parts, and ``C*`` dropped beside words of ``C``; or a
    status.
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    n = length_of(h, e)
    changed = False
    for i in range(n):
        part = word_of(h, e, i)
        is_denied = kind_of(h, part) == layout.K_NOT
        choice = word_of(h, part, 0) if is_denied else part
        left = _choice(h, choice)
        if left >= 0 and left != choice:
            changed = True
            part = np.int64(make_not(h, left)) if is_denied else left
        if left < 0 or part < 0:
            return min(left, part)
        if push(h, part) < 0:
            return np.int64(statuses.GROW)
    result = np.int64(make_and(h, base, n)) if changed else np.int64(e)
    head[layout.STACK_TOP] = base
    if not changed or result < 0 or kind_of(h, result) != layout.K_AND or length_of(h, result) != 2:
        return result
    for i in range(2):
        part, other = word_of(h, result, i), word_of(h, result, 1 - i)
        if _is_any_number(h, part):
            answer = _is_made_of(h, other, word_of(h, part, 0))
            if answer != 0:
                return answer if answer < 0 else other
    return result
