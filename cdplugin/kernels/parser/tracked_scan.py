"""Scanning lexemes that track their values (:mod:`cdplugin.kernels.lexer.tracked`): the value decides how a rule goes on.

A rule ``A → key rest`` stands for one rule for each value of ``key``. The owner makes the dots of each when its value is first
met (``NEED_REST``), memoised by lexeme and value. All that a row needs are asked for at once, since the operation then starts
over.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import alike_of, role_of, tracked_of
from cdplugin.kernels.parser.corners import first_lexemes, past_nullable, restrict
from cdplugin.kernels.parser.fields import items_of, origin_of
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import header, i64, length_of, memo_get, memo_put, pack, spend, word_of
from cdplugin.kernels.store.stack import push, push_pair


@kernel
def scan_tracked(h, items, origin, ended, asked):
    """Push the dots, with their origins, at which a tracking lexeme is scanned; return ``asked``, or a status.

    Or, if some of these dots have to be made first, push pairs (lexeme, value) to ask the owner for; ``asked`` is then 1 + the
    stack index of the first pair, else 0. ``ended``: the value that was typed, or, in masks, the number under which the lexeme
    ends, for any value.
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    for i in range(length_of(h, items)):
        item = word_of(h, items, i)
        dot = past_nullable(symbols, nullable, item >> 32)
        lexeme = np.int64(-2 - symbols[dot])
        asked = _push_dot(h, _tracked_dot(h, dot, lexeme, ended), item & layout.LOW_32, lexeme, ended, asked)
        if asked < 0:
            return asked
    for w in range(length_of(h, origin)):
        nonterminal = word_of(h, origin, w) >> 32
        first = first_lexemes(h, nonterminal)
        if first < 0:
            return np.int64(first)
        for f in range(length_of(h, first)):
            if not spend(h, 4):
                return np.int64(statuses.LIMIT_WORK)
            entry = word_of(h, first, f)
            left = i64(h, layout.DOT_LEFT)[entry & layout.LOW_32]
            dot = _tracked_dot(h, entry & layout.LOW_32, entry >> 32, ended)
            if dot == 0:
                continue
            restricted = restrict(h, origin, left) if dot > 0 and asked == 0 else np.int64(0)
            if restricted < 0:
                return np.int64(restricted)
            asked = _push_dot(h, dot, restricted, entry >> 32, ended, asked)
            if asked < 0:
                return asked
    return np.int64(asked)


@kernel
def _push_dot(h, dot, origin, lexeme, ended, asked):
    """Push a result of :func:`_tracked_dot` with its origin, or the pair to ask for; return ``asked``, or ``GROW``.

    A dot of 0 is left out, and so is every dot once anything is asked for.
    """
    if dot > 0 and asked == 0 and push(h, pack(dot, origin)) < 0:
        return np.int64(statuses.GROW)
    if dot == statuses.NEED_REST:
        if asked == 0:
            asked = header(h)[layout.STACK_TOP] + 1
        if push_pair(h, lexeme, ended) < 0:
            return np.int64(statuses.GROW)
    return np.int64(asked)


@kernel
def _tracked_dot(h, dot, lexeme, ended):
    """Return the dot at which the rule with ``lexeme`` at ``dot`` goes on after ``ended`` (a dot before the lexeme), 0, or
    ``NEED_REST``.

    0: it is another lexeme, or it excludes that value. ``NEED_REST``: the owner has not made the dot yet. ``ended``: see
    :func:`scan_tracked`.
    """
    if lexeme < 0 or lexeme == header(h)[layout.END_SYMBOL]:
        return np.int64(0)
    if role_of(h, lexeme) != layout.TRACKS:
        return np.int64(0)
    if tracked_of(h, lexeme) != tracked_of(h, ended):
        return np.int64(0)
    # in masks the value is not known: the rule's own rest, which is for any value, follows
    if role_of(h, ended) != layout.VALUE:
        return np.int64(dot)
    known = memo_get(h, layout.M_REST, lexeme, ended)
    return np.int64(known if known >= 0 else statuses.NEED_REST)


@kernel
def alike_in(h, row, number):
    """Return from how many bytes on strings that end as the lexeme ``number`` are alike in a row (``X_ALIKE``); 0: they are
    not; or a status.

    The greatest number of all lexemes that the row expects. If lexemes that end under other numbers are alike, too, the answer
    is 0, so that what is memoised for a row concerns one kind of text. Memoised.
    """
    known = memo_get(h, layout.M_ALIKE, row, number)
    if known >= 0:
        return known
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    items, origin = items_of(h, row), origin_of(h, row)
    if not spend(h, 4 + 2 * length_of(h, items) + 8 * length_of(h, origin)):
        return np.int64(statuses.LIMIT_WORK)
    alike = np.int64(-1)  # no such lexeme yet
    for i in range(length_of(h, items)):
        dot = past_nullable(symbols, nullable, word_of(h, items, i) >> 32)
        alike = _alike_beside(h, alike, np.int64(-2 - symbols[dot]), number)
    for w in range(length_of(h, origin)):
        first = first_lexemes(h, word_of(h, origin, w) >> 32)
        if first < 0:
            return np.int64(first)
        if not spend(h, 4 * length_of(h, first)):
            return np.int64(statuses.LIMIT_WORK)
        for f in range(length_of(h, first)):
            alike = _alike_beside(h, alike, word_of(h, first, f) >> 32, number)
    return memo_put(h, layout.M_ALIKE, row, number, max(alike, np.int64(0)))


@kernel
def _alike_beside(h, alike, lexeme, number):
    """Return the result of :func:`alike_in` so far, updated with one more lexeme that the row expects."""
    if alike == 0 or lexeme < 0 or lexeme == header(h)[layout.END_SYMBOL] or role_of(h, lexeme) != layout.TRACKS:
        return alike
    here = alike_of(h, lexeme)
    if tracked_of(h, lexeme) != number:
        return np.int64(0 if here else alike)
    return np.int64(max(alike, here) if here else 0)
