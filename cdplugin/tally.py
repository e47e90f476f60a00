"""Charge one compilation for the expression nodes that front ends build for it.

A few bytes of a spec may ask for an automaton of 30,000 nodes (``multipleOf: 251``) or a character class of a thousand. So all
nodes of a compilation are counted against one budget, ``Limits.max_expr_nodes``: :func:`counting` opens it, and functions
decorated with :func:`cdplugin.expr.counted` charge it.

Caches of the process must not change what a request costs: no request's outcome may depend on what others asked before. So a
cached value is stored with its cost, and a compilation pays that cost once, at its first use of the value, whether or not the
cache had it. The cost lists nested cached values separately (:class:`Frame`), so a part that two values share is paid once too.

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
"""The cost of a value: pairs of a question (a function and its arguments) and nodes; its own pair first, then those of parts.

Questions are compared, not only hashed: -1 and -2 have the same hash."""


def too_many_nodes(most: int) -> LimitExceeded:
    """The error for expressions with more than ``most`` nodes."""
    return LimitExceeded(
        "the numbers, patterns and other expressions are too large", expected=f"at most Limits.max_expr_nodes = {most} nodes"
    )


class Tally:
    """What one compilation has paid: ``nodes`` in total, ``kept`` values by question, and ``paid`` nodes by question."""

    __slots__ = ("kept", "most", "nodes", "paid")

    def __init__(self, most: int) -> None:
        self.most = most
        self.nodes = 0
        self.kept: dict[Hashable, Any] = {}
        self.paid: dict[Hashable, int] = {}

    def add(self, nodes: int) -> None:
        """Charge nodes. Raises ``LimitExceeded`` when the total exceeds ``most``."""
        self.nodes += nodes
        if self.nodes > self.most:
            raise too_many_nodes(self.most)

    def clear(self) -> None:
        """Start again from 0: the caller discards what was built."""
        self.nodes = 0
        self.kept.clear()
        self.paid.clear()

    def take(self, value: Any, cost: Cost) -> Any:
        """Charge for a value, unless it is paid; returns the object that was first taken for the same question."""
        question = cost[0][0]
        if question not in self.kept:
            self.kept[question] = value
            for part, nodes in cost:
                if part not in self.paid:
                    self.paid[part] = nodes
                    self.add(nodes)
        return self.kept[question]


class Frame(Tally):
    """The tally of one value while a cached function builds it."""

    def cost(self, question: Hashable, nodes: int) -> Cost:
        """The value's cost: ``nodes`` of its own and what was charged here directly, then the cached parts it took."""
        loose = self.nodes - sum(self.paid.values())
        self.add(nodes)
        return ((question, nodes + loose), *self.paid.items())


class _Local(threading.local):
    tally: Tally | None = None
    most = Limits().max_expr_nodes


_local = _Local()


def current() -> Tally | None:
    """The tally that this thread's builders charge, or None."""
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
    """A context that counts what this thread builds; inside another such context, it charges the outer one."""
    tally = _local.tally or Tally(most)
    return _Context(tally, tally.most)


def framed() -> AbstractContextManager[Frame]:
    """A context that counts what is built for one cached value separately, against the same limit."""
    return _Context(Frame(_local.most), _local.most)


def apart() -> AbstractContextManager[None]:
    """A context that charges nobody, for values that a cache stores without a cost."""
    return _Context(None, _local.most)
