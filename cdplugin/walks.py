"""Traversals of trees and graphs with an explicit stack, so that deep input cannot exhaust Python's recursion limit.

>>> fold(3, lambda n: range(n), lambda n, below: 1 + sum(below))
8
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

Node = TypeVar("Node", bound=Hashable)
Value = TypeVar("Value")
Item = TypeVar("Item", bound=Hashable)


def fold(
    root: Node,
    children: Callable[[Node], Sequence[Node]],
    value: Callable[[Node, list[Value]], Value],
    done: dict[Node, Value] | None = None,
) -> Value:
    """Evaluate a DAG bottom-up: ``value(node, values of its children)`` for ``root``. The last child is evaluated first.

    Each node is evaluated once, however many parents it has. ``done``: values known before; it grows. Linear in the edges.
    """
    done = {} if done is None else done
    stack = [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        below = children(node)
        waiting = [child for child in below if child not in done]
        if waiting:
            stack += waiting
        else:
            stack.pop()
            done[node] = value(node, [done[child] for child in below])
    return done[root]


def driven(
    begin: Callable[..., Generator[tuple[Any, ...], Any, Value]],
    *arguments: Any,
    key: Callable[..., Hashable] | None = None,
) -> Value:
    """Run a recursive function that is written as a generator, and return its result. The generator recurses by a ``yield`` of
    the argument tuple, and is sent the result of that call. ``key``: inner calls whose arguments have equal keys are run once.

    >>> def depth(n):
    ...     return 1 + (yield (n - 1,)) if n else 0
    >>> driven(depth, 10_000)
    10000
    """
    known: dict[Hashable, Value] = {}
    stack: list[tuple[Hashable, Generator[tuple[Any, ...], Any, Value]]] = [(None, begin(*arguments))]
    answer: Any = None
    while stack:
        try:
            asked = stack[-1][1].send(answer)
        except StopIteration as stop:
            answer = stop.value
            question, _ = stack.pop()
            if question is not None:
                known[question] = answer
        else:
            question = None if key is None else key(*asked)
            answer = None if question is None else known.get(question)
            if answer is None:
                stack.append((question, begin(*asked)))
    return answer


def walk(root: Node, children: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """All nodes of a tree in preorder, from left to right."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(children(node))


def reached(roots: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> dict[Node, None]:
    """All nodes reachable from ``roots`` in breadth-first order, the roots included."""
    found = dict.fromkeys(roots)
    pending = list(found)
    for node in pending:  # grows while it is walked
        for other in following(node):
            if other not in found:
                found[other] = None
                pending.append(other)
    return found


def trie(texts: Iterable[Iterable[Item]]) -> tuple[list[dict[Item, int]], list[int]]:
    """The trie of some texts: the children of each node by item, and the node at which each text ends.

    The root is node 0; children have higher numbers than their parents.
    """
    children: list[dict[Item, int]] = [{}]
    ends = []
    for text in texts:
        at = 0
        for item in text:
            child = children[at].get(item)
            if child is None:
                child = children[at][item] = len(children)
                children.append({})
            at = child
        ends.append(at)
    return children, ends
