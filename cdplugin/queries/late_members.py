"""The order in which family members get rules, when the cost of a nonterminal depends on late rules
(:mod:`cdplugin.queries.costs`).

Members near an end come first. A member that occurs in a rule of its own family and is no nearer to an end comes last, with all
that stands in the rule beside it: such as the value of a name that need not come. An object with 20 properties in any order has
a million of these, and none tells what a required property may hold. Each member that gets rules moves the others of its family
back by one. Otherwise all subsets of an object's names would come before an inner object with more names.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappush
from itertools import count
from typing import Any


class LateMembers:
    """The members on which the cost of ``nonterminal`` depends.

    Attributes
    ----------
    pending : nonterminals whose rules are still to be looked at.
    waiting : a heap of members without rules: whether it is no nearer to an end, its distance, the latest first, the member.
    is_late : the members met so far, and whether they come last.
    wanted_by : for each of these, the nonterminals in whose rules it stands.
    """

    def __init__(self, expander: Any, nonterminal: int) -> None:
        self._expander = expander
        self._order = count()
        self._made: Counter[Any] = Counter()  # by family: how many members have got rules
        self.pending = [nonterminal]
        self.waiting: list[tuple[bool, int, int, int]] = []
        self.is_late = {nonterminal: False}
        self.wanted_by: dict[int, list[int]] = {}

    def distance(self, member: int) -> int:
        """Return how far a member is from an end, plus how far its family has been moved back."""
        return self._expander.remaining(member) + self._made[self._expander.family(member)]

    def put_off(self, member: int) -> None:
        """Let a member wait for its rules."""
        heappush(self.waiting, (self.is_late[member], self.distance(member), -next(self._order), member))

    def want(self, parts: list[int], symbol: int) -> None:
        """Note the parts that a rule of ``symbol`` waits for, and queue those that are new, or that come sooner than
        was known.
        """
        wanted = [part for part in parts if self.is_late.get(part, True)]
        late = bool(wanted) and (self.is_late[symbol] or self._is_no_nearer(parts, symbol))
        for part in parts:
            self.wanted_by.setdefault(part, []).append(symbol)
        for part in wanted:
            if part not in self.is_late or not late:
                self.is_late[part] = late
                self.pending.append(part)

    def _is_no_nearer(self, parts: list[int], symbol: int) -> bool:
        """Return whether a part of a rule of ``symbol`` is of the same family and no nearer to an end."""
        return self._expander is not None and any(self._expander.is_no_nearer(part, symbol) for part in parts)

    def forget(self, member: int) -> None:
        """Treat a member that nothing wants any more as if it had not been met."""
        del self.wanted_by[member], self.is_late[member]

    def make(self, member: int) -> None:
        """Make a member's rules."""
        self._made[self._expander.family(member)] += 1
        self._expander(member)
