"""How many plain characters keep an expression alive, read off its structure.

*Plain text* is the class ``[^"\\\\\\x00-\\x1F\\x7F\\u2028\\u2029]`` in UTF-8: what ``.`` matches in JSON strings. The
vocabulary keeps the tokens that consist of it as slice masks, cumulative by their number of characters (llguidance's slicer;
here containment is read off the expression's structure instead of searched for).

Answers have the form ``2 n + x``: any plain text of at most ``n`` characters keeps the expression alive, and, if ``x`` is 1, no
longer one does. For example:

=============================  ====================  ======================================================================
expression                     2 n + x               why
=============================  ====================  ======================================================================
``[^"]{0,20} "``               2 · 20 + 1            20 turns, and then only the quotation mark
``[^"]* "``                    2 · ``UNBOUNDED``     never ends; the bit does not matter
``([^"]* & ~(name|size)) "``   2 · ``UNBOUNDED``     a finite language taken away leaves something after any text
``[a-z]*``                     0, unknown            not each plain character is a turn
=============================  ====================  ======================================================================
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import byte_set
from cdplugin.kernels.regex.derive import FEW_VISITS, derive, refine_class
from cdplugin.kernels.regex.emptiness import is_plainly_nonempty
from cdplugin.kernels.regex.expressions import EMPTY, EPSILON, FINITE, PURE, UNBOUNDED, nullable, split
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import flags_of, header, i64, kind_of, length_of, memo_get, memo_put, word_of
from cdplugin.kernels.store.byte_sets import add_byte, has_byte
from cdplugin.kernels.store.stack import push_pair

PLAIN_STATES = 10
"""States of :func:`slice_step`: 0 between characters, 1 before the last byte, 2 to 7 after E0, ED, E1 to EF (others), F0, F1 to
F3 and F4, 8 after E2, 9 after E2 80."""


@kernel
def slice_step(state, byte):
    """Step the automaton of plain text in UTF-8 (RFC 3629); return the next state (``PLAIN_STATES``), 0 = a whole character, -1
    = not plain.

    ``E2 80 A8`` and ``E2 80 A9`` (U+2028, U+2029) need states of their own, 8 and 9, since ``.`` does not match them. The
    bounds of the second byte exclude overlong forms, surrogates, and what is above U+10FFFF.
    """
    if state == 0:
        if byte < 0x80:
            return 0 if byte >= 0x20 and byte != 0x22 and byte != 0x5C and byte != 0x7F else -1
        if 0xC2 <= byte <= 0xDF:
            return 1
        if byte == 0xE0:
            return 2
        if byte == 0xE2:
            return 8
        if byte == 0xED:
            return 3
        if 0xE1 <= byte <= 0xEF:
            return 4
        if byte == 0xF0:
            return 5
        if 0xF1 <= byte <= 0xF3:
            return 6
        return 7 if byte == 0xF4 else -1
    if state == 8 and byte == 0x80:
        return 9
    if state == 9 and (byte == 0xA8 or byte == 0xA9):
        return -1
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
    if state == 1 or state == 9:
        return 0
    return 4 if 5 <= state <= 7 else 1


@kernel
def one_char(h, e):
    """Return how ``e`` matches single plain characters: 0, not each of them; 1, each; 2, each, and nothing longer that starts
    with one. Or a status.

    A walk over pairs (derivative, state of :func:`slice_step`), with a byte of each class; after 400 steps it gives up with 0.
    Memoised.
    """
    known = memo_get(h, layout.M_ONE_CHAR, e, 0)
    if known >= 0:
        return known
    head = header(h)
    base = head[layout.STACK_TOP]
    if push_pair(h, e, 0) < 0:
        return statuses.GROW
    answer = np.int64(2)
    steps = 0
    while head[layout.STACK_TOP] > base and answer > 0:
        head[layout.STACK_TOP] -= 2
        part = i64(h, layout.STACK)[head[layout.STACK_TOP]]
        state = i64(h, layout.STACK)[head[layout.STACK_TOP] + 1]
        covered = byte_set(0)
        for byte in range(0x20, 0xF5):
            if has_byte(covered, byte):
                continue
            after = slice_step(state, byte)
            if after < 0:
                continue
            byte_class = byte_set(-1)
            if refine_class(h, part, byte, byte_class, FEW_VISITS) < 0:
                return statuses.GROW
            for other in range(0x20, 0xF5):  # bytes with the same derivative and the same step of the automaton
                if has_byte(byte_class, other) and slice_step(state, other) == after:
                    add_byte(covered, other)
            steps += 1
            child = derive(h, part, byte)
            if child < 0:
                return child
            if child == EMPTY or steps > 400:
                answer = np.int64(0)
                break
            if after == 0:
                if child != EPSILON:
                    answer = min(answer, np.int64(1)) if nullable(h, child) else np.int64(0)
                    if answer == 0:
                        break
            elif push_pair(h, child, after) < 0:
                return statuses.GROW
    head[layout.STACK_TOP] = base
    return memo_put(h, layout.M_ONE_CHAR, e, 0, answer)


@kernel
def plain_run_bound(h, e):
    """Return ``2 n + x``: any text of at most ``n`` plain characters keeps ``e`` alive, and (``x`` = 1) no longer one does; or
    a status.

    A sound under-approximation; 0 = unknown. Why it is sound: after ``k <= n`` characters, each matched by one turn of ``R``,
    what is left of ``R{m,n} T`` contains ``R{m-k,n-k} T``. If any number of characters will do, the language left is infinite,
    and excluding a finite one (``& ~F``) leaves something. What keeps ``A`` alive keeps ``A T`` alive, if ``T`` matches
    anything. For a union, the best member counts, without its ``x``.
    """
    known = memo_get(h, layout.M_PLAIN_RUN, e, 0)
    if known >= 0:
        return known
    body, tail = split(h, e)
    # if the tail is not plainly found to match something, nothing is known
    alive = is_plainly_nonempty(h, tail)
    if alive < 0:
        return np.int64(alive)
    answer = np.int64(0)
    kind = kind_of(h, body) if alive else np.int64(layout.K_EMPTY)
    if kind == layout.K_REPEAT:
        answer = _plain_run_of_repeat(h, body)
        if answer > 0 and answer & 1 and (tail == EPSILON or not never_starts_plain(h, tail)):
            answer -= 1  # the lexeme may end inside plain text, and a longer token may go on in the next lexeme
    elif kind == layout.K_ALT:
        for i in range(length_of(h, body)):
            part = _plain_run_headed(h, word_of(h, body, i))
            if part < 0:
                return part
            answer = max(answer, part & ~np.int64(1))
    elif kind == layout.K_AND:
        answer = _plain_run_less_finite(h, body)
    return memo_put(h, layout.M_PLAIN_RUN, e, 0, answer)


@kernel
def _plain_run_of_repeat(h, e):
    """Compute :func:`plain_run_bound` of ``R{m,n}``: ``n`` turns, if each plain character is one; ``x`` = 1 if ``R`` has no
    longer match.
    """
    matches = one_char(h, word_of(h, e, 0))
    if matches <= 0:
        return np.int64(matches)
    high = word_of(h, e, 2)
    if high < 0 or high >= UNBOUNDED:
        return np.int64(2 * UNBOUNDED)
    return 2 * high + (1 if matches == 2 else 0)


@kernel
def _plain_run_headed(h, e):
    """Compute :func:`plain_run_bound` of ``R{m,n}``, ``R{m,n} T`` or ``(A & ~F) T``; 0 for other shapes."""
    body, tail = split(h, e)
    kind = kind_of(h, body)
    if kind != layout.K_REPEAT and kind != layout.K_AND:
        return np.int64(0)
    alive = is_plainly_nonempty(h, tail)
    if alive <= 0:
        return np.int64(alive)
    return _plain_run_of_repeat(h, body) if kind == layout.K_REPEAT else _plain_run_less_finite(h, body)


@kernel
def _plain_run_less_finite(h, e):
    """Compute :func:`plain_run_bound` of ``R{m,} T & ~F & ...`` with every ``F`` finite; 0 for other shapes.

    0 also for a bounded ``R{m,n}``: the words excluded may be all of its words.
    """
    positive = np.int64(0)
    for i in range(length_of(h, e)):
        part = word_of(h, e, i)
        if kind_of(h, part) == layout.K_NOT and flags_of(h, word_of(h, part, 0)) & FINITE:
            continue
        if positive > 0:
            return np.int64(0)
        positive = part
    if positive == 0 or flags_of(h, positive) & PURE == 0:
        return np.int64(0)
    body, _ = split(h, positive)
    if kind_of(h, body) != layout.K_REPEAT:
        return np.int64(0)
    inside = _plain_run_of_repeat(h, body)
    return inside if inside < 0 or inside >= 2 * UNBOUNDED else np.int64(0)


@kernel
def never_starts_plain(h, e):
    """Return whether ``e`` plainly starts with no plain character: its head is a byte set disjoint from their first bytes."""
    e, _ = split(h, e)
    if kind_of(h, e) != layout.K_BYTES:
        return False
    for byte in range(0x20, 0xF5):
        if slice_step(0, byte) >= 0 and (word_of(h, e, byte >> 6) >> (byte & 63)) & 1:
            return False
    return True
