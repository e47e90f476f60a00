"""Which nonterminals derive anything: each rule counts what it still needs (Hopcroft and Ullman, 7.1.1); and rules in an order
in which those that they mention come first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Part = TypeVar("Part")


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


def arden(
    rights: Iterable[Sequence[Part]], is_itself: Callable[[Part], bool]
) -> tuple[list[list[Part]], list[list[Part]], bool] | None:
    """What ``x = a x | b`` loops over and ends with: ``x`` is ``a* b``; and whether it is ``x = x a | b``: ``b a*`` (Arden's
    lemma). None where ``x`` stands elsewhere, or never ends.
    """
    loops: list[list[Part]] = []
    ends: list[list[Part]] = []
    sides: set[bool] = set()
    for right in rights:
        others = [part for part in right if not is_itself(part)]
        if len(others) == len(right):
            ends.append(others)
        elif len(right) > 1:  # x = x says nothing
            if len(others) < len(right) - 1 or not (is_itself(right[0]) or is_itself(right[-1])):
                return None
            sides.add(is_itself(right[0]))
            loops.append(others)
    return (loops, ends, True in sides) if len(sides) < 2 and ends else None


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
