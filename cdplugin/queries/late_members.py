"""Which members of families get rules next, where the cost of a nonterminal depends on rules that are made late.

Those near an end come first. Members that follow one of their own family and are no nearer to an end come last, with all that
stands in one rule with them: the value of a name that need not come. An object with 20 properties in any order has a million of
these, and none tells what a required property may hold. Each member that gets rules moves the others of its family back by one.
Otherwise all subsets of an object's names would come before an inner object with more names.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappush
from itertools import count
from typing import Any


class LateMembers:
    """The members that the cost of ``nonterminal`` asks for.

    Attributes
    ----------
    pending : nonterminals to look at: what stands in their rules?
    waiting : members without rules, a heap: whether no nearer to an end, how far from it and put off, the latest first, which.
    is_late : those that were met, and whether they come last.
    wanted_by : for each of these, the nonterminals in whose rules it stands.
    """

    def __init__(self, expander: Any, nonterminal: int) -> None:
        self._expander = expander
        self._order = count()
        self._made: Counter[Any] = Counter()  # members of each family
        self.pending = [nonterminal]
        self.waiting: list[tuple[bool, int, int, int]] = []
        self.is_late = {nonterminal: False}
        self.wanted_by: dict[int, list[int]] = {}

    def distance(self, member: int) -> int:
        """How far a member is from an end, and put off."""
        return self._expander.remaining(member) + self._made[self._expander.family(member)]

    def put_off(self, member: int) -> None:
        """Have a member wait for its rules."""
        heappush(self.waiting, (self.is_late[member], self.distance(member), -next(self._order), member))

    def want(self, parts: list[int], symbol: int) -> None:
        """Note what a rule of ``symbol`` waits for, and have it looked at where that is new, or comes sooner than was known."""
        wanted = [part for part in parts if self.is_late.get(part, True)]
        late = bool(wanted) and (self.is_late[symbol] or self._is_no_nearer(parts, symbol))
        for part in parts:
            self.wanted_by.setdefault(part, []).append(symbol)
        for part in wanted:
            if part not in self.is_late or not late:
                self.is_late[part] = late
                self.pending.append(part)

    def _is_no_nearer(self, parts: list[int], symbol: int) -> bool:
        """Whether one of some parts of a rule of ``symbol`` is of its family, and no nearer to an end."""
        return self._expander is not None and any(self._expander.is_no_nearer(part, symbol) for part in parts)

    def forget(self, member: int) -> None:
        """A member that nothing wants any more is as if it had not been met."""
        del self.wanted_by[member], self.is_late[member]

    def make(self, member: int) -> None:
        """Have a member's rules made."""
        self._made[self._expander.family(member)] += 1
        self._expander(member)
