r"""Expand back-references: ``(['"])x\1`` becomes ``'x'|"x"``.

A group that is referred to must have few texts. The pattern is expanded from left to right, carrying the texts of such groups
(``Env``). At the end of a group, the expansion continues once for each of its texts, up to the last reference to it. In
ECMA-262 (22.2.2.9) a reference to a group that did not participate matches the empty text, and each round of a repetition
begins with its groups unset. In Python such a reference matches nothing, and a group keeps its text in the next round; a
pattern for which that matters is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from cdplugin.regex.scanner import Scanner
from cdplugin.regex.tree import (
    ALT,
    BACK,
    CAT,
    CHARS,
    GROUP,
    LOOK,
    NOTHING,
    REPEAT,
    TEXT,
    Node,
    children_of,
    choice,
    repetition,
    sequence,
)
from cdplugin.walks import fold

Env = frozenset[tuple[int, str]]
"""Pairs of a group's number and its text."""
_MOST_TEXTS, _MOST_CHARS = 512, 16_384
_MOST_STEPS = 20_000
_MOST_DEPTH = 100
_NEVER = Node(CHARS, ((),))


def without_references(tree: Node, scanner: Scanner) -> tuple[Node, int]:
    """The tree without groups and back-references, and the copies made. Raises ``UnsupportedError``, ``LimitExceeded``."""
    references = _References(scanner)
    return references.run(tree), references.steps


class _Groups(NamedTuple):
    """The groups defined inside a node, those to which it refers, and its depth."""

    defined: frozenset[int]
    used: frozenset[int]
    depth: int


class _References:
    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._is_python = scanner.dialect == "python"
        self.steps = 0
        self._known: dict[Node, _Groups] = {}
        self._position = 0

    def run(self, tree: Node) -> Node:
        self._note(tree)
        return _union(list(self._ways(tree, frozenset(), frozenset(), frozenset()).values()))

    def _note(self, root: Node) -> None:
        """Compute the groups of each node, and check that the tree is not too deep for recursion."""

        def groups(node: Node, below: list[_Groups]) -> _Groups:
            defined = frozenset[int]().union(*(one.defined for one in below), node.args[1:] if node.op == GROUP else ())
            used = frozenset[int]().union(*(one.used for one in below), node.args[:1] if node.op == BACK else ())
            if node.op == BACK:
                self._position = node.args[1]
            return _Groups(defined, used, 1 + max((one.depth for one in below), default=0))

        if fold(root, children_of, groups, self._known).depth > _MOST_DEPTH:
            self._scanner.exceed(f"back-reference in a pattern of more than {_MOST_DEPTH} levels", self._position)

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > _MOST_STEPS:
            self._scanner.exceed(f"back-references need more than {_MOST_STEPS} copies", self._position)

    def _ways(self, node: Node, env: Env, live: frozenset[int], rounds: frozenset[int]) -> dict[Env, Node]:
        """What ``node`` matches if groups have the texts in ``env``; a tree for each result of the groups in ``live``.

        ``live``: groups to which something after the node refers; ``rounds``: groups inside the repetitions around the node.
        """
        self._count(1)
        if not self._known[node].defined and not self._known[node].used:
            return {_only(env, live): node}
        if node.op == BACK:
            return self._referred(node, env, live, rounds)
        if node.op == GROUP:
            return self._group(node, env, live, rounds)
        if node.op == CAT:
            return self._cat(node, env, live, rounds)
        if node.op == ALT:
            return _united(way for branch in node.args for way in self._ways(branch, env, live, rounds).items())
        if node.op == LOOK:
            if self._known[node].defined & live:
                self._refuse("back-reference to a group in a look-ahead")
            inside = _union(list(self._ways(node.args[0], env, frozenset(), rounds).values()))
            return {_only(env, live): Node(LOOK, (inside, *node.args[1:]))}
        assert node.op == REPEAT
        return self._repeat(node, env, live, rounds)

    def _referred(self, node: Node, env: Env, live: frozenset[int], rounds: frozenset[int]) -> dict[Env, Node]:
        number, position, ignores_case = node.args
        text = dict(env).get(number)
        if text is None and self._is_python:
            if number in rounds:
                self._refuse("back-reference to a group of an earlier round of a repetition", position)
            return {}
        if text and ignores_case:
            self._refuse("back-reference with the flag i", position)
        return {_only(env, live): Node(TEXT, (text or "",))}

    def _group(self, node: Node, env: Env, live: frozenset[int], rounds: frozenset[int]) -> dict[Env, Node]:
        child, number = node.args
        before = frozenset(entry for entry in env if entry[0] != number)
        ways = self._ways(child, before, live - {number}, rounds)
        if number not in live:
            return ways
        return _united(
            (after | {(number, text)}, Node(TEXT, (text,))) for after, tree in ways.items() for text in self._texts(tree)
        )

    def _cat(self, node: Node, env: Env, live: frozenset[int], rounds: frozenset[int]) -> dict[Env, Node]:
        needed = [live]  # the groups referred to after each item, from the last item on
        for item in reversed(node.args[1:]):
            needed.append(needed[-1] | self._known[item].used)
        ways: dict[Env, Node] = {env: NOTHING}
        for item, wanted in zip(node.args, reversed(needed), strict=True):
            found: list[tuple[Env, Node]] = []
            for before, so_far in ways.items():
                for after, tree in self._ways(item, before, wanted, rounds).items():
                    self._count(len(so_far.args))
                    found.append((after, sequence([*_items(so_far), *_items(tree)])))
            ways = _united(found)
        return ways

    def _repeat(self, node: Node, env: Env, live: frozenset[int], rounds: frozenset[int]) -> dict[Env, Node]:
        child, low, high = node.args
        groups = self._known[node].defined
        fresh = frozenset(entry for entry in env if entry[0] not in groups)
        some_round = _union(list(self._ways(child, fresh, frozenset(), rounds | groups).values()))
        if not groups & live:
            return {_only(fresh, live): repetition(some_round, low, high)}
        if self._is_python and fresh != env:
            self._refuse("back-reference to a group of an earlier round of a repetition")
        # the last round is a required one, or a further one, which must not be empty (ECMA-262, 22.2.2.3.1)
        out: list[tuple[Env, Node]] = [(_only(fresh, live), NOTHING)] if low == 0 else []
        for after, tree in self._ways(child, fresh, live, rounds | groups).items():
            empty, some = self._parted(tree)
            unset = not (groups & live) <= {number for number, _ in after}
            if self._is_python and (high is None or high > 1) and (unset or empty is not _NEVER):
                self._refuse("back-reference to a group of an earlier round of a repetition")
            if low:
                out.append((after, sequence([*_items(repetition(some_round, low - 1, low - 1)), *_items(tree)])))
            further = tree if self._is_python else some
            if further is not _NEVER and (high is None or high > low):
                earlier = repetition(some_round, low, None if high is None else high - 1)
                out.append((after, sequence([*_items(earlier), *_items(further)])))
        return _united(out)

    def _parted(self, node: Node) -> tuple[Node, Node]:
        """Split a tree: what it matches as the empty text (with assertions), and its non-empty matches."""
        self._count(1)
        if node.op in (TEXT, CHARS):
            return (NOTHING, _NEVER) if node.args == ("",) else (_NEVER, node)
        if node.op not in (CAT, ALT, REPEAT):
            return node, _NEVER
        if node.op == ALT:
            pairs = [self._parted(branch) for branch in node.args]
            return _union([e for e, _ in pairs if e is not _NEVER]), _union([n for _, n in pairs if n is not _NEVER])
        if node.op == CAT:
            so_far, parts = NOTHING, list[Node]()  # the empty part of the items so far; ways in which one of them is non-empty
            for i, item in enumerate(node.args):
                empty, some = self._parted(item)
                if so_far is not _NEVER and some is not _NEVER:
                    parts.append(sequence([*_items(so_far), *_items(some), *node.args[i + 1 :]]))
                so_far = _NEVER if _NEVER in (so_far, empty) else sequence([*_items(so_far), *_items(empty)])
            return so_far, _union(parts)
        child, low, high = node.args
        empty, some = self._parted(child)
        if empty is _NEVER:
            return (NOTHING if low == 0 else _NEVER), repetition(child, max(low, 1), high)
        if empty is not NOTHING and low:
            self._refuse("back-reference beside a repeated anchor")
        return NOTHING, repetition(some, 1, high) if some is not _NEVER else _NEVER

    def _texts(self, root: Node) -> list[str]:
        """The texts that a tree without anchors matches."""
        self._count(1)
        if root.op == TEXT:
            return [root.args[0]]
        if root.op == CHARS:
            if sum(high - low + 1 for low, high in root.args[0]) > _MOST_TEXTS:
                self._refuse_many()
            return [chr(c) for low, high in root.args[0] for c in range(low, high + 1)]
        found: dict[str, None] = {}
        if root.op == ALT:
            for child in root.args:
                found.update(dict.fromkeys(self._texts(child)))
        elif root.op == CAT:
            found[""] = None
            for child in root.args:
                found = self._products(found, self._texts(child))
        elif root.op == REPEAT and root.args[2] is not None and root.args[2] <= _MOST_TEXTS:
            child, low, high = root.args
            once = self._texts(child)
            texts: dict[str, None] = {"": None}
            for n in range(high + 1):
                if n >= low:
                    found.update(texts)
                texts = self._products(texts, once) if n < high else texts
        else:
            self._refuse_many()
        self._check(found)
        return list(found)

    def _products(self, left: dict[str, None], right: list[str]) -> dict[str, None]:
        if len(left) * len(right) > _MOST_TEXTS:
            self._refuse_many()
        out = {a + b: None for a in left for b in right}
        self._check(out)
        return out

    def _check(self, texts: dict[str, None]) -> None:
        self._count(len(texts))
        if len(texts) > _MOST_TEXTS or sum(map(len, texts)) > _MOST_CHARS:
            self._refuse_many()

    def _refuse_many(self) -> NoReturn:
        self._refuse(f"back-reference to a group that has anchors or more than {_MOST_TEXTS} texts")

    def _refuse(self, message: str, position: int | None = None) -> NoReturn:
        self._scanner.refuse(message, self._position if position is None else position)


def _only(env: Env, live: frozenset[int]) -> Env:
    return frozenset(entry for entry in env if entry[0] in live)


def _items(node: Node) -> list[Node]:
    return list(node.args) if node.op == CAT else [node]


def _united(ways: Iterable[tuple[Env, Node]]) -> dict[Env, Node]:
    """Unite the trees of each outcome."""
    out: dict[Env, list[Node]] = {}
    for after, tree in ways:
        out.setdefault(after, []).append(tree)
    return {after: _union(trees) for after, trees in out.items()}


def _union(trees: list[Node]) -> Node:
    return choice(trees) if trees else _NEVER
