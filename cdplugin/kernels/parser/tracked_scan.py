"""Scanning lexemes that track their values (:mod:`cdplugin.kernels.lexer.tracked`): how a rule goes on depends on the value.

A rule ``A → key rest`` stands for one rule for each value of ``key``: the dots of the others are made by the owner when the
value is first met (``NEED_REST``), and memoised by lexeme and value.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import role_of, tracked_of
from cdplugin.kernels.parser.corners import first_lexemes, past_nullable, restrict
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import header, i64, length_of, memo_get, pack, spend, word_of
from cdplugin.kernels.store.stack import push


@kernel
def scan_tracked(h, items, origin, ended):
    """Push the dots, with their origins, at which a lexeme that tracks its value is scanned; 0 or a status.

    ``ended``: the lexeme that stands for its value, or, in masks, the lexeme's number, for any value. The rule goes on at a
    dot that the owner made for that value (:func:`_tracked_dot`).
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    for i in range(length_of(h, items)):
        item = word_of(h, items, i)
        dot = past_nullable(symbols, nullable, item >> 32)
        dot = _tracked_dot(h, dot, -2 - symbols[dot], ended)
        if dot < 0:
            return dot
        if dot and push(h, pack(dot, item & layout.LOW_32)) < 0:
            return statuses.GROW
    for w in range(length_of(h, origin)):
        nonterminal = word_of(h, origin, w) >> 32
        first = first_lexemes(h, nonterminal)
        if first < 0:
            return first
        for f in range(length_of(h, first)):
            if not spend(h, 4):
                return statuses.LIMIT_WORK
            entry = word_of(h, first, f)
            left = i64(h, layout.DOT_LEFT)[entry & layout.LOW_32]
            dot = _tracked_dot(h, entry & layout.LOW_32, entry >> 32, ended)
            if dot < 0:
                return dot
            if dot:
                restricted = restrict(h, origin, left)
                if restricted < 0:
                    return restricted
                if push(h, pack(dot, restricted)) < 0:
                    return statuses.GROW
    return np.int64(0)


@kernel
def _tracked_dot(h, dot, lexeme, ended):
    """Where the rule goes on in which ``lexeme`` stands at ``dot``: a dot before the lexeme, 0 if it is another one, or has
    that value excluded; or a status. ``ended``: a value, or the number of the lexeme, for any value.
    """
    if lexeme < 0 or lexeme == header(h)[layout.END_SYMBOL]:
        return np.int64(0)
    if role_of(h, lexeme) != layout.TRACKS:
        return np.int64(0)
    if tracked_of(h, lexeme) != tracked_of(h, ended):
        return np.int64(0)
    # in masks no value is known, and the rule's own rest, for any value, follows
    if role_of(h, ended) != layout.VALUE:
        return dot
    known = memo_get(h, layout.M_REST, lexeme, ended)
    if known < 0:
        header(h)[layout.REQUEST_B] = lexeme
        header(h)[layout.REQUEST_A] = ended
        return np.int64(statuses.NEED_REST)
    return known
