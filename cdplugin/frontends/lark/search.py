"""Decide a least fixed point over a graph that is generated while it is searched: which nodes hold.

A node holds if all nodes of one of its sides hold (an empty side holds at once). For a grammar: a member of a parametric rule
is productive if all symbols of one right side are. There are far too many members to visit all, so the search goes depth-first
and stops as soon as its question is answered. If that takes long, it may have gone astray; then the nearest nodes are visited
breadth-first before it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from cdplugin.frontends.productive import Productive

_FEW = 64
"""Up to this many nodes, sides are visited one at a time. After that, all sides of a node are examined before the search
descends into one of them: below it the search might never end, while another side holds at once.
"""
_FARTHER, _AROUND = 16, 8
"""How many times longer the search gets between two breadth-first rounds, and how many times as many nodes a round visits."""


Sides = Callable[[Hashable], Iterable[Sequence[Hashable]]]
"""Returns the sides of a node, as sequences of nodes."""


class OutOfFuel(Exception):  # noqa: N818 - turned into LimitExceeded by the caller, who knows the rule's name
    """The search took more nodes than the caller allows."""


class Search:
    """Decides nodes one at a time, and remembers the results.

    Time is linear in the nodes and sides visited, at most ``fuel`` nodes for one question. ``left``: the nodes that may still
    be visited for all questions; None: no bound.
    """

    def __init__(self, fuel: int, left: int | None = None) -> None:
        self._fuel = fuel
        self.left = left
        self._holds: set[Hashable] = set()
        self._fails: set[Hashable] = set()

    def forget_failures(self) -> None:
        """Forget negative results, because more nodes may hold now."""
        self._fails.clear()

    def holds(self, root: Hashable, sides_of: Sides) -> bool:
        """Whether ``root`` holds. Raises :class:`OutOfFuel`. ``sides_of`` must be the same for each question.

        It is an argument, not an attribute: the writer of the grammar, who asks, would else be part of a reference cycle, and
        its trees would wait for the garbage collector.
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
            for side in sides:  # one at a time: what is found below it may make the others unnecessary
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
        """The sides of a node that is visited for the first time. Raises :class:`OutOfFuel`."""
        if n_seen > self._fuel or self.left == 0:
            raise OutOfFuel
        if self.left is not None:
            self.left -= 1
        if n_seen > _FEW:  # first the sides that hold at once
            return iter(sorted(sides_of(node), key=self._holds.issuperset, reverse=True))
        return iter(sides_of(node))

    def _look_around(self, root: Hashable, sides_of: Sides, found: Productive[Hashable], most: int) -> None:
        """Add the sides of the ``most`` nodes nearest to ``root`` to ``found``, breadth-first. For instance, a counter that may
        go up and down holds because it goes down; a search that goes up first finds no end.
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
