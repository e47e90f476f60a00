"""Which nonterminals derive anything: each rule counts what it still needs (Hopcroft and Ullman, 7.1.1); and rules in an order
in which those that they mention come first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Set
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


class Productive:
    """The nonterminals that derive something. Time and space are linear in the rules.

    ``rules``: ``(left, the nonterminals that the rule needs)``; what a rule needs besides is the caller's matter.

    Attributes: ``known``: the nonterminals that derive something; ``missing``: by rule, how many it still needs.

    >>> Productive([(0, {1}), (1, {0}), (2, ())]).known
    {2}
    """

    def __init__(self, rules: Iterable[tuple[int, Iterable[int]]]) -> None:
        self.known: set[int] = set()
        self.missing: list[int] = []
        self._lefts: list[int] = []
        self._waiting: dict[int, list[int]] = {}
        ready = []
        for number, (left, needed) in enumerate(rules):
            needs = set(needed)
            self._lefts.append(left)
            self.missing.append(len(needs))
            for symbol in needs:
                self._waiting.setdefault(symbol, []).append(number)
            if not needs:
                ready.append(left)
        for left in ready:
            self.add(left)

    def add(self, symbol: int) -> None:
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


def leaves_first(mentioned: Mapping[Name, Set[Name]], solve: Callable[[Name], bool]) -> None:
    """Call ``solve`` with each rule once it was true of all others that the rule mentions."""
    users: dict[Name, list[Name]] = {name: [] for name in mentioned}
    missing = {name: len(others - {name}) for name, others in mentioned.items()}
    for name, others in mentioned.items():
        for other in others - {name}:
            users[other].append(name)
    ready = [name for name, count in missing.items() if not count]
    while ready:
        name = ready.pop()
        if solve(name):
            for user in users[name]:
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)
