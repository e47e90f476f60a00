r"""Look-behinds, and look-aheads inside repetitions: decide them on the words beside them.

``x(?<!B)`` asserts that the text before a position does not end with a match of B. If no word of ``x`` is shorter than a match
of B, or if the text begins with ``x``, that is a condition on the words of ``x`` alone: they must not be in ``any B``. Such a
condition becomes a node of its own (``BOUND``). Likewise ``(?!B)x`` if no match of B is longer than a word of ``x``, whatever
follows. So a look-ahead inside a repetition becomes a part like any other: ``((?!-)[a-z-]{1,63}(?<!-)\.)+``.

The remaining look-behinds may reach back to the start of the text. Only in the outermost sequence is it known what is there:
nothing, or, in a search, any text, which is then prepended. A look-behind that reaches out of the repetition or the look-ahead
around it is refused. The remaining look-aheads are left to :mod:`cdplugin.regex.lookahead`.
"""

from __future__ import annotations

from typing import NoReturn

from cdplugin.errors import UnsupportedError
from cdplugin.regex.scanner import error_at
from cdplugin.regex.tree import (
    ALT,
    AT_START,
    BEHIND,
    BOUND,
    CAT,
    CHARS,
    END,
    LOOK,
    NOTHING,
    REPEAT,
    START,
    WORD,
    Node,
    Width,
    children_of,
    choice,
    sequence,
    width,
)
from cdplugin.regex.unicode import EVERYTHING
from cdplugin.walks import fold, walk

_ANY_TEXT = Node(REPEAT, (Node(CHARS, (EVERYTHING,)), 0, None))
_TOO_FAR = "look-behind that sees beyond the repetition or the look-ahead it is in"
_MOST_WAYS = 64  # alternatives into which the outermost sequence may be expanded


def settled(root: Node, source: str, search: bool) -> Node:
    """``root`` without look-behinds, and without the look-aheads inside repetitions that can be decided; for a match from end
    to end, or for a ``search``.

    Raises ``UnsupportedError`` where a look-behind reaches too far.
    """
    return _Settler(source).settled(root, search)


def _looks_behind(root: Node) -> bool:
    return root.looks and any(node.op == BEHIND for node in walk(root, children_of))


class _Settler:
    def __init__(self, source: str) -> None:
        self._source = source
        self._widths: dict[Node, Width] = {}
        self._repeated: set[Node] = set()

    def settled(self, root: Node, search: bool) -> Node:
        self._repeated = _inside_repetitions(root)
        root = fold(root, lambda node: children_of(node) if node.looks else (), self._rebuilt)
        if not _looks_behind(root):
            return root
        before = [AT_START, _ANY_TEXT] if search else [AT_START]
        ways = []
        for way in self._ways(root):
            items = self._behind(way if way[0].op == START else [*before, *way])
            for item in items:
                if _looks_behind(item):
                    self._refuse(item)
            ways.append(sequence(items))
        return choice(ways)

    def _rebuilt(self, node: Node, parts: list[Node]) -> Node:
        """A node with its look-arounds decided as far as possible; ``parts``: its rebuilt children."""
        if not node.looks or node.op == WORD:
            return node
        if node.op == CAT:
            items = [inner for part in parts for inner in (part.args if part.op == CAT and part.looks else (part,))]
            items = self._behind(items)
            return sequence(self._ahead(items) if node in self._repeated else items)
        if node.op == REPEAT:
            low, high = node.args[1:]
            if self._width(parts[0])[1] == 0:  # a repeated assertion equals a single one, an optional one asserts nothing
                return parts[0] if low else NOTHING
            if high == 1 and _looks_behind(parts[0]):
                return choice([NOTHING, parts[0]])
            return Node(REPEAT, (parts[0], low, high))
        if node.op == ALT:
            return choice(parts)
        if node.op == BEHIND and (parts[0].looks or any(inner.op == END for inner in walk(parts[0], children_of))):
            self._refuse(node, "look-around or $ inside a look-behind")
        return Node(node.op, (parts[0], *node.args[1:]))

    def _width(self, node: Node) -> Width:
        return width(node, self._widths)

    def _behind(self, items: list[Node]) -> list[Node]:
        """A sequence in which the look-behinds are decided that the parts before them decide."""
        done: list[Node] = []
        for item in items:
            if item.op != BEHIND:
                done.append(item)
                continue
            aside = []  # assertions at the same position
            while done and done[-1].op in (LOOK, WORD, END):
                aside.append(done.pop())
            first = self._seen_from(done, item.args[0])
            if first is None:
                done += [*aside[::-1], item]
            else:
                words = sequence(done[first:])
                done[first:] = [Node(BOUND, (words, *item.args[:2], True)), *aside[::-1]]
        return done

    def _seen_from(self, items: list[Node], look: Node) -> int | None:
        """The index from which ``items`` decide whether the text at their end ends with a match of ``look``; None if they
        don't.
        """
        most = None if look.anchored else self._width(look)[1]
        length, at = 0, len(items)
        while most is None or length < most:
            if at == 0 or items[at - 1].looks:
                break
            if items[at - 1].op == START:
                return at
            at -= 1
            length += self._width(items[at])[0]
        else:
            return at
        # the parts read are enough if only assertions stand between them and the start of the text
        first = at
        while at > 0 and items[at - 1].op != START and self._width(items[at - 1])[1] == 0:
            at -= 1
        return first if at > 0 and items[at - 1].op == START else None

    def _ahead(self, items: list[Node]) -> list[Node]:
        """A sequence in which the look-aheads are decided that the parts after them decide."""
        done: list[Node] = []  # from the last item to the first
        for item in reversed(items):
            taken = self._taken(done, item.args[0]) if item.op == LOOK else None
            if taken is None:
                done.append(item)
            else:
                words = sequence(done[: taken - 1 : -1] if taken else done[::-1])
                done[taken:] = [Node(BOUND, (words, *item.args[:2], False))]
        return done[::-1]

    def _taken(self, items: list[Node], look: Node) -> int | None:
        """The index from which ``items`` (in reverse order) decide whether ``look`` matches before them; None if they don't."""
        most = self._width(look)[1]
        if most is None or look.looks or look.anchored:
            return None
        length, at = 0, len(items)
        while length < most:
            if at == 0 or items[at - 1].looks or items[at - 1].anchored:
                return None
            at -= 1
            length += self._width(items[at])[0]
        return at

    def _ways(self, root: Node) -> list[list[Node]]:
        """Expand the alternatives of the outermost node that have look-behinds; returns the sequences."""
        ways: list[list[Node]] = []
        waiting: list[list[Node]] = [[root]]
        while waiting:
            items = waiting.pop()
            place = next((i for i, item in enumerate(items) if item.op in (CAT, ALT) and _looks_behind(item)), None)
            if place is None:
                ways.append(items)
                continue
            node = items[place]
            inner = [node.args] if node.op == CAT else [(child,) for child in node.args]
            waiting += [[*items[:place], *part, *items[place + 1 :]] for part in inner]
            if len(waiting) + len(ways) > _MOST_WAYS:
                self._refuse(node, f"look-behind that sees more than {_MOST_WAYS} alternatives")
        return ways

    def _refuse(self, node: Node, message: str = _TOO_FAR) -> NoReturn:
        position = next((inner.args[2] for inner in walk(node, children_of) if inner.op == BEHIND), 0)
        raise error_at(self._source, position, f"not supported: {message}", UnsupportedError)


def _inside_repetitions(root: Node) -> set[Node]:
    """The nodes below a repetition of more than one round."""
    inside: set[Node] = set()
    stack = [(root, False)]
    while stack:
        node, repeated = stack.pop()
        if not node.looks or node in inside:
            continue
        if repeated:
            inside.add(node)
        below = repeated or (node.op == REPEAT and node.args[2] != 1)
        stack += [(child, below) for child in children_of(node)]
    return inside
