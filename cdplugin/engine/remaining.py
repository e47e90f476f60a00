"""A finite lexeme without some of its texts, in an arena: a tree that is copied along the path of each text taken away.

The lexeme is a set of literals in the kernels' table. A node of the tree is an alternation of bytes, each with what follows it.
A part that has lost nothing stays the table's. So taking a text away costs as many nodes as there are branches on its path, and
a derivative of what is left is one alternative.
"""

from __future__ import annotations

from bisect import bisect_left
from sys import getsizeof

from cdplugin.engine.arena import Arena
from cdplugin.engine.programs import bytes_words
from cdplugin.ir import Texts
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex.expressions import EMPTY
from cdplugin.kernels.regex.programs import CONSTANT, KEEP
from cdplugin.kernels.store import layout

_NODE_BYTES = 150


class _Node:
    """What is left after some bytes: ``count`` texts, of those from ``low`` to ``high``, of which nothing was taken as long as
    ``edges`` is None. ``edges``: byte -> (the expression of that byte and what is left after it, node after it).
    """

    __slots__ = ("count", "edges", "expression", "high", "low")

    def __init__(self, low: int, high: int, count: int, expression: int, edges: dict[int, tuple[int, _Node]] | None) -> None:
        self.low = low
        self.high = high
        self.count = count
        self.expression = expression
        self.edges = edges


class Remaining:
    """A lexeme of an arena, number ``expression`` there, without texts. ``among``: all that it has, and maybe more."""

    def __init__(self, arena: Arena, expression: int, among: tuple[bytes, ...]) -> None:
        self._arena = arena
        self._among = among
        self._root: _Node | None = _Node(0, len(among), len(among), expression, None)
        self._known: dict[Texts, _Node | None] = {}
        self.nbytes = 0

    def without(self, texts: Texts) -> int:
        """The lexeme's expression without ``texts``; :data:`EMPTY` if nothing is left."""
        pending: list[Texts] = []
        last: Texts | None = texts
        while last is not None and last not in self._known:
            pending.append(last)
            last = last.before
        root = self._root if last is None else self._known[last]
        while pending:
            texts = pending.pop()
            for text in texts.added:
                root = None if root is None else self._less(root, text)
            self._known[texts] = root
        return EMPTY if root is None else root.expression

    def _less(self, root: _Node, text: bytes) -> _Node | None:
        """The tree without one more text."""
        path: list[tuple[_Node, dict[int, tuple[int, _Node]]]] = []
        node = root
        while node.count > 1:
            edges = self._edges(node, text[: len(path)])
            edge = edges.get(text[len(path)])
            if edge is None:  # it was none of the lexeme's
                return root
            path.append((node, edges))
            node = edge[1]
        edges = {}
        while path and not edges:  # nothing is left of the lowest ones
            node, edges = path.pop()
            edges = {**edges}
            del edges[text[len(path)]]
        if not edges:
            return None
        depth = len(path)
        words = [word for byte in text[:depth] for word in bytes_words(1 << byte)]
        _alternatives([expression for expression, _ in edges.values()], 0, words)
        for above in range(depth - 1, -1, -1):
            words += (layout.K_CAT, 2, KEEP, above)
            _alternatives([expression for byte, (expression, _) in path[above][1].items() if byte != text[above]], 1, words)
        expression, kept = self._arena.evaluate(words, depth)
        new = _Node(node.low, node.high, node.count - 1, expression if not depth else EMPTY, edges)
        self.nbytes += _NODE_BYTES + getsizeof(edges)
        for above in range(depth - 1, -1, -1):
            node, edges = path[above]
            edges = {**edges, text[above]: (kept[above], new)}
            new = _Node(node.low, node.high, node.count - 1, EMPTY if above else expression, edges)
            self.nbytes += _NODE_BYTES + getsizeof(edges)
        return new

    def _edges(self, node: _Node, begun: bytes) -> dict[int, tuple[int, _Node]]:
        """The edges of a node after the bytes ``begun``."""
        if node.edges is not None:
            return node.edges
        edges: dict[int, tuple[int, _Node]] = {}
        words: list[int] = []
        low = node.low
        while low < node.high:
            byte = self._among[low][len(begun)]
            high = node.high if byte == 0xFF else bisect_left(self._among, begun + bytes([byte + 1]), low, node.high)
            after = self._arena.call(kernels.OP_DERIVE, node.expression, byte)
            if after != EMPTY:
                words += (*bytes_words(1 << byte), CONSTANT, after, layout.K_CAT, 2, KEEP, len(edges))
                edges[byte] = EMPTY, _Node(low, high, high - low, after, None)
            low = high
        if edges:
            _, kept = self._arena.evaluate([*words, layout.K_ALT, len(edges)], len(edges))
            edges = {byte: (expression, after) for expression, (byte, (_, after)) in zip(kept, edges.items(), strict=True)}
        node.edges = edges
        self.nbytes += getsizeof(edges) + 2 * _NODE_BYTES * len(edges)
        return edges


def _alternatives(expressions: list[int], n_before: int, words: list[int]) -> None:
    """Let a program go on with any of some expressions, or of ``n_before`` that it has made just before."""
    for expression in expressions:
        words += (CONSTANT, expression)
    if n_before + len(expressions) > 1:
        words += (layout.K_ALT, n_before + len(expressions))
