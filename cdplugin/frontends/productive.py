"""Which nonterminals derive anything: each rule counts what it still needs (Hopcroft and Ullman, 7.1.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


class Productive(Generic[Name]):
    """The nonterminals that derive something. Time and space are linear in the rules.

    ``rules``: ``(left, the nonterminals that the rule needs)``; what a rule needs besides is the caller's matter. ``known``:
    those of which it is known before; grows.

    Attributes: ``known``: the nonterminals that derive something; ``missing``: by rule, how many it still needs.

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
        """A further rule."""
        needs = {symbol for symbol in needed if symbol not in self.known}
        for symbol in needs:
            self._waiting.setdefault(symbol, []).append(len(self.missing))
        self._lefts.append(left)
        self.missing.append(len(needs))
        if not needs:
            self.add(left)

    def add(self, symbol: Name) -> None:
        """Learn that a nonterminal derives something, and what follows from it."""
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
