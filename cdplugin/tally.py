"""The nodes that the expressions of one compilation have, counted while front ends build them.

A few bytes of a spec may ask for an automaton of 30,000 nodes (``multipleOf: 251``), or for a class of a thousand. So there
is one budget for all that a compilation builds: :func:`counting` opens it, :func:`cdplugin.expr.count_nodes` charges it, and
crossing it raises before the tree is added to the others. A node that several expressions share counts once. What a cache of
the process gives costs the same as what is made anew (:func:`apart`): no request's outcome depends on what others asked for.

>>> with counting(10) as tally:
...     tally.add(10)
>>> tally.nodes
10
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from cdplugin.errors import LimitExceeded


class _Local(threading.local):
    tally: Tally | None = None


_local = _Local()


class Tally:
    """What one compilation has built. ``seen``: its nodes; ``kept``: the values of functions under
    :func:`cdplugin.expr.counted`, each of which it has once.
    """

    __slots__ = ("kept", "most", "nodes", "seen")

    def __init__(self, most: int) -> None:
        self.most = most
        self.nodes = 0
        self.seen: set[Any] = set()
        self.kept: dict[Hashable, Any] = {}

    def add(self, nodes: int) -> None:
        """Count nodes. Raises ``LimitExceeded`` when they are too many."""
        self.nodes += nodes
        if self.nodes > self.most:
            raise LimitExceeded(
                "the numbers, patterns and other expressions are too large",
                expected=f"at most Limits.max_expr_nodes = {self.most} nodes",
            )


def current() -> Tally | None:
    """The tally of the compilation that this thread is at, if it counts."""
    return _local.tally


@contextmanager
def counting(most: int) -> Iterator[Tally]:
    """Count what this thread builds. Inside another such block it is counted there."""
    outer = _local.tally
    tally = outer or Tally(most)
    _local.tally = tally
    try:
        yield tally
    finally:
        _local.tally = outer


@contextmanager
def apart() -> Iterator[None]:
    """Count nothing: what is built is counted as a whole, by whoever asked for it."""
    outer = _local.tally
    _local.tally = None
    try:
        yield
    finally:
        _local.tally = outer
