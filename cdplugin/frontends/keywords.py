"""Text up to the first of some words, as an expression without complement.

The automaton of Aho and Corasick (CACM 18(6), 1975) over characters is turned into an expression by state elimination
(Brzozowski and McCluskey, 1963). A state that only its parent in the trie leads to is inlined into it. The rest, the targets of
failure links, are few (for ``</think>``: the root and the state after ``<``). Without ``&`` and ``~`` the engine sees that a
bound on the number of characters cannot be reached within a token, so its masks do not depend on the count.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.expr import EPSILON, Expr, alt, cat, negate_ranges, repeat
from cdplugin.regex.alphabet import UTF8
from cdplugin.regex.unicode import EVERYTHING
from cdplugin.walks import trie

_MOST_TARGETS = 4
_MOST_NODES = 600

Row = dict[int, list[tuple[Expr, int]]]
"""Transitions of a state: for each target state, and for ``_DONE``, the expressions that lead there, each with its size."""
_DONE = -1


class _Automaton:
    """Aho-Corasick: ``step(state, char)``; ``outputs[state]``: the words that end there; ``chars``: all characters of words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.children, ends = trie(words)
        self.parent = [0] * len(self.children)
        self.outputs: list[set[str]] = [set() for _ in self.children]
        for at, word in zip(ends, words, strict=True):
            self.outputs[at].add(word)
        self.chars = sorted(set("".join(words)))
        self.fail = [0] * len(self.children)
        order = [0]
        for state in order:
            for char, child in self.children[state].items():
                order.append(child)
                self.parent[child] = state
                if state:
                    self.fail[child] = self.step(self.fail[state], char)
                self.outputs[child] |= self.outputs[self.fail[child]]

    def step(self, state: int, char: str) -> int:
        while state and char not in self.children[state]:
            state = self.fail[state]
        return self.children[state].get(char, 0)


def up_to(words: Sequence[str], ends: Sequence[str] | None) -> Expr | None:
    """Text that ends with one of ``ends`` at the place where the first of ``words`` (which include ``ends``) is complete.

    ``ends=None``: text in which no word is complete. Returns None where the expression would become too large.
    """
    automaton = _Automaton(words)
    if len(automaton.children) > _MOST_NODES:
        return None
    rows, targets = _rows(automaton, ends)
    if len(targets) > _MOST_TARGETS:
        return None
    for state in sorted(rows, reverse=True):  # children have higher numbers than their parents
        if state not in targets:
            _replace(rows, state, [automaton.parent[state]])
    for state in sorted(targets, reverse=True):
        loops = rows[state].pop(state, None)
        if loops is not None:
            loop, size = _either(loops)
            for expressions in rows[state].values():
                expressions[:] = [(cat(repeat(loop), e), size + 1 + n) for e, n in expressions]
        if state:
            _replace(rows, state, [other for other in targets if other in rows and other != state])
        if any(sum(n for _, n in expressions) > _MOST_NODES for row in rows.values() for expressions in row.values()):
            return None
    return _either(rows[0].get(_DONE, []))[0]


def _rows(automaton: _Automaton, ends: Sequence[str] | None) -> tuple[dict[int, Row], set[int]]:
    """The transitions of each state in which no word is complete, and those states that not only their parents lead to."""
    rows: dict[int, Row] = {}
    targets = {0}
    for state in range(len(automaton.children)):
        if automaton.outputs[state]:
            continue
        by_target: dict[int, list[str]] = {}
        for char in automaton.chars:
            following = automaton.step(state, char)
            by_target.setdefault(following, []).append(char)
            if automaton.children[state].get(char) != following:
                targets.add(following)
        row: Row = {}
        for following, chars in by_target.items():
            if automaton.outputs[following]:
                if ends is not None and not automaton.outputs[following].isdisjoint(ends):
                    row.setdefault(_DONE, []).append((_chars(chars), 1))
            elif following:
                row.setdefault(following, []).append((_chars(chars), 1))
        away = [c for c in automaton.chars if c not in by_target.get(0, ())]
        others = negate_ranges((ord(c), ord(c)) for c in away) if away else EVERYTHING
        row.setdefault(0, []).append((UTF8.chars(others), 1))
        if ends is None:
            row.setdefault(_DONE, []).append((EPSILON, 1))
        rows[state] = row
    return rows, targets & rows.keys()


def _replace(rows: dict[int, Row], state: int, users: Sequence[int]) -> None:
    """Inline the transitions of ``state`` into the rows of ``users``."""
    inner = rows.pop(state)
    for user in users:
        heads = rows[user].pop(state, None) if user in rows else None  # states with a complete word have no row
        if heads is None:
            continue
        head, size = _either(heads)
        for target, expressions in inner.items():
            tail, more = _either(expressions)
            rows[user].setdefault(target, []).append((cat(head, tail), size + more))


def _either(expressions: Sequence[tuple[Expr, int]]) -> tuple[Expr, int]:
    return alt(*(e for e, _ in expressions)), sum(n for _, n in expressions)


def _chars(chars: Sequence[str]) -> Expr:
    return UTF8.chars(tuple((ord(c), ord(c)) for c in sorted(chars)))
