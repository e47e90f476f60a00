"""Find the productive nonterminals, those that derive some text, in linear time (Hopcroft and Ullman, 7.1.1).

Each rule counts the nonterminals on its right side that are not known to be productive yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class Productive(Generic[Name]):
    """The productive nonterminals of rules that may be added one by one. Time and space are linear in the rules.

    ``rules``: pairs ``(left, nonterminals of the right side)``; the caller checks anything else that a rule needs. ``known``:
    nonterminals known to be productive before; it grows.

    Attributes: ``known``: the productive nonterminals; ``missing``: for each rule, how many it still waits for.

    >>> Productive([(0, {1}), (1, {0}), (2, ())]).known
    {2}
    """

    def __init__(self, rules: Iterable[tuple[Name, Iterable[Name]]], known: set[Name] | None = None) -> None:
        self.known: set[Name] = set() if known is None else known
        self.missing: list[int] = []
        self._lefts: list[Name] = []
        self._waiting: dict[Name, list[int]] = {}
        for left, needed in rules:
            self.rule(left, needed)

    def rule(self, left: Name, needed: Iterable[Name]) -> None:
        """Add a rule."""
        needs = {symbol for symbol in needed if symbol not in self.known}
        for symbol in needs:
            self._waiting.setdefault(symbol, []).append(len(self.missing))
        self._lefts.append(left)
        self.missing.append(len(needs))
        if not needs:
            self.add(left)

    def add(self, symbol: Name) -> None:
        """Record that a nonterminal is productive, and what follows from that."""
        if symbol in self.known:
            return
        self.known.add(symbol)
        ready = [symbol]
        while ready:
            for number in self._waiting.get(ready.pop(), ()):
                self.missing[number] -= 1
                left = self._lefts[number]
                if not self.missing[number] and left not in self.known:
                    self.known.add(left)
                    ready.append(left)
