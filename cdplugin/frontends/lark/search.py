"""Least fixed points over a graph that is made while it is walked: which nodes hold.

A node holds if, of one of its sides, all nodes hold (a side without nodes holds at once). Rules with a parameter have far too
many members to look at all; the walk goes depth-first and stops as soon as its question is answered. Where that is not soon, it
may have gone off: the nodes that are nearest are looked at before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from cdplugin.frontends.productive import Productive

_FEW = 64
"""Nodes whose sides are made one at a time. From then on all sides of a node are looked at before the walk goes below one of
them: below that it might go on for ever, where another one holds."""
_FARTHER, _AROUND = 16, 8
"""How much longer a walk is each time that it stops to look around, and how many times as many nodes it then looks at."""


Sides = Callable[[Hashable], Iterable[Sequence[Hashable]]]
"""The sides of a node, as sequences of nodes."""


class OutOfFuel(Exception):  # noqa: N818 - turned into LimitExceeded by the caller, who knows the rule's name
    """More nodes than the caller wants to pay for."""


class Search:
    """Decides nodes one at a time; what was found out is kept.

    Time is linear in the nodes and sides that are looked at, at most ``fuel`` nodes for one question. ``left``: nodes that may
    still be looked at for all questions; None: any number.
    """

    def __init__(self, fuel: int, left: int | None = None) -> None:
        self._fuel = fuel
        self.left = left
        self._holds: set[Hashable] = set()
        self._fails: set[Hashable] = set()

    def forget_failures(self) -> None:
        """More may hold from now on than before."""
        self._fails.clear()

    def holds(self, root: Hashable, sides_of: Sides) -> bool:
        """Whether ``root`` holds. Raises :class:`OutOfFuel`. ``sides_of``: the same for each question.

        It is not an attribute: the writer of a grammar, who asks, would be part of a cycle, and its trees wait for the garbage
        collector.
        """
        if root in self._holds:
            return True
        if root in self._fails:
            return False
        found = Productive[Hashable]((), self._holds)
        seen: set[Hashable] = {root}
        most = _FEW
        stack: list[tuple[Hashable, Iterator[Sequence[Hashable]] | None]] = [(root, None)]
        while stack and root not in self._holds:
            if len(seen) > most:
                self._look_around(root, sides_of, found, _AROUND * most)
                most *= _FARTHER
                continue
            node, sides = stack.pop()
            if node in self._holds:
                continue
            if sides is None:
                sides = self._begin(node, sides_of, len(seen))
            for side in sides:  # one at a time: what is found below it may make the others needless
                parts = dict.fromkeys(part for part in side if part not in self._holds)
                if not parts:
                    found.add(node)
                    break
                if self._fails.isdisjoint(parts):
                    found.rule(node, parts)
                    fresh = [part for part in parts if part not in seen]
                    if fresh:
                        seen.update(fresh)
                        stack.append((node, sides))
                        stack += [(part, None) for part in reversed(fresh)]
                        break
        if root in self._holds:
            return True
        self._fails |= seen - self._holds
        return False

    def _begin(self, node: Hashable, sides_of: Sides, n_seen: int) -> Iterator[Sequence[Hashable]]:
        """The sides of a node that is looked at for the first time. Raises :class:`OutOfFuel`."""
        if n_seen > self._fuel or self.left == 0:
            raise OutOfFuel
        if self.left is not None:
            self.left -= 1
        if n_seen > _FEW:  # sides that hold at once come first
            return iter(sorted(sides_of(node), key=self._holds.issuperset, reverse=True))
        return iter(sides_of(node))

    def _look_around(self, root: Hashable, sides_of: Sides, found: Productive[Hashable], most: int) -> None:
        """Note in ``found`` what the ``most`` nodes nearest to ``root`` say, breadth first: a counter that may go up and down
        holds because it goes down, and a walk that goes up first comes to no end.
        """
        nodes = [root]
        seen = {root}
        for node in nodes:  # grows
            if root in self._holds or len(seen) > most:
                return
            for side in sides_of(node):
                parts = dict.fromkeys(part for part in side if part not in self._holds)
                if self._fails.isdisjoint(parts):
                    found.rule(node, parts)
                    fresh = [part for part in parts if part not in seen]
                    seen.update(fresh)
                    nodes += fresh
