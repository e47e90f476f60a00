"""The nodes of one compilation's expressions, counted while front ends build them.

A few bytes of a spec may ask for an automaton of 30,000 nodes (``multipleOf: 251``), or for a class of a thousand. So there
is one budget for all that a compilation builds: :func:`counting` opens it, functions under :func:`cdplugin.expr.counted` charge
it. What they give is counted once in a compilation, however often they are asked. The charge is kept with the value, with that
of others of these functions apart (:class:`Frame`), so that what a cache of the process gives costs the same as what is made
anew: no request's outcome depends on what others asked for.

>>> with counting(10) as tally:
...     tally.add(10)
>>> tally.nodes
10
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from typing import Any

from cdplugin.errors import LimitExceeded
from cdplugin.limits import Limits

Cost = tuple[tuple[Hashable, int], ...]
"""What a value is charged: pairs of a question (a function and its arguments) and nodes. First its own, then those of parts.

A question is compared, not only hashed: -1 and -2 have one hash."""


def too_many_nodes(most: int) -> LimitExceeded:
    """The error where expressions have more nodes than ``most``."""
    return LimitExceeded(
        "the numbers, patterns and other expressions are too large", expected=f"at most Limits.max_expr_nodes = {most} nodes"
    )


class Tally:
    """What one compilation has built: how many nodes, and the values that it was charged for, by question."""

    __slots__ = ("kept", "most", "nodes", "paid")

    def __init__(self, most: int) -> None:
        self.most = most
        self.nodes = 0
        self.kept: dict[Hashable, Any] = {}
        self.paid: dict[Hashable, int] = {}

    def add(self, nodes: int) -> None:
        """Count nodes. Raises ``LimitExceeded`` when they are too many."""
        self.nodes += nodes
        if self.nodes > self.most:
            raise too_many_nodes(self.most)

    def clear(self) -> None:
        """Count from 0 again: what was built is given up."""
        self.nodes = 0
        self.kept.clear()
        self.paid.clear()

    def take(self, value: Any, cost: Cost) -> Any:
        """Charge for a value; returns the one that was taken first for the same question."""
        question = cost[0][0]
        if question not in self.kept:
            self.kept[question] = value
            for part, nodes in cost:
                if part not in self.paid:
                    self.paid[part] = nodes
                    self.add(nodes)
        return self.kept[question]


class Frame(Tally):
    """The tally of one value, while a cached function makes it."""

    def cost(self, question: Hashable, nodes: int) -> Cost:
        """What the value is charged: ``nodes`` of its own, besides those in parts that were taken."""
        loose = self.nodes - sum(self.paid.values())
        self.add(nodes)
        return ((question, nodes + loose), *self.paid.items())


class _Local(threading.local):
    tally: Tally | None = None
    most = Limits().max_expr_nodes


_local = _Local()


def current() -> Tally | None:
    """What this thread's builders charge."""
    return _local.tally


class _Context:
    """A context in which this thread's builders charge ``tally``."""

    __slots__ = ("_most", "_outer", "_outer_most", "_tally")

    def __init__(self, tally: Tally | None, most: int) -> None:
        self._tally, self._most = tally, most

    def __enter__(self) -> Any:
        self._outer, self._outer_most = _local.tally, _local.most
        _local.tally, _local.most = self._tally, self._most
        return self._tally

    def __exit__(self, *_: object) -> None:
        _local.tally, _local.most = self._outer, self._outer_most


def counting(most: int) -> AbstractContextManager[Tally]:
    """A context that counts what this thread builds. Inside another such block it is counted there."""
    tally = _local.tally or Tally(most)
    return _Context(tally, tally.most)


def framed() -> AbstractContextManager[Frame]:
    """A context that counts what is built for one value by itself, against the same limit."""
    return _Context(Frame(_local.most), _local.most)


def apart() -> AbstractContextManager[None]:
    """A context that charges nobody: for what a cache keeps without its cost."""
    return _Context(None, _local.most)
