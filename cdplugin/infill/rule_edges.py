"""Left edges of rules: which symbols and lexemes a nonterminal may begin with. With right sides reversed: may end with.

Symbols: nonterminals from 0 on, lexeme ``x`` as ``-2 - x``; ``nullable``: per nonterminal, whether it matches the empty string.
"""

from __future__ import annotations

import numpy as np

from cdplugin.infill.going_on import Rules


def ranks(rules: Rules, nullable: list[int]) -> np.ndarray:
    """The nonterminals' ranks, then the nonterminals by rank (int64): what a rule may begin with comes before its left side,
    but for cycles.
    """
    n = len(nullable)
    begins: list[list[int]] = [[] for _ in range(n)]
    for left, right in rules:
        for symbol in right:
            if symbol >= 0:
                begins[left].append(symbol)
            if symbol < 0 or not nullable[symbol]:
                break
    order = _needed_first(begins)
    out = np.zeros(2 * n, np.int64)
    out[order] = np.arange(n)
    out[n:] = order
    return out


def edge_lexemes(rules: Rules, nullable: list[int]) -> list[int]:
    """The lexemes that each nonterminal may begin with (FIRST sets), as bits."""
    found = [0] * len(nullable)
    users: list[list[int]] = [[] for _ in nullable]
    for left, right in rules:
        for symbol in right:
            if symbol < 0:
                found[left] |= 1 << (-2 - symbol)
                break
            users[symbol].append(left)
            if not nullable[symbol]:
                break
    pending = list(range(len(nullable)))
    while pending:
        symbol = pending.pop()
        for user in users[symbol]:
            if found[symbol] & ~found[user]:
                found[user] |= found[symbol]
                pending.append(user)
    return found


def _needed_first(needs: list[list[int]]) -> list[int]:
    """All numbers, each after those that it needs, but for cycles: the postorder of a depth-first search."""
    order: list[int] = []
    seen = [False] * len(needs)
    todo = [(number, False) for number in range(len(needs))]
    while todo:
        number, done = todo.pop()
        if done:
            order.append(number)
        elif not seen[number]:
            seen[number] = True
            todo.append((number, True))
            todo += [(other, False) for other in needs[number]]
    return order
