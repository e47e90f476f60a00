"""The syntax tree of a regular expression, and constructors that simplify it."""

from __future__ import annotations

from cdplugin.expr import normalise_ranges
from cdplugin.walks import fold

CHARS, TEXT, CAT, ALT, REPEAT, START, END, LOOK, BEHIND, WORD, BOUND, GROUP, BACK = range(13)
_OP_NAMES = ("CHARS", "TEXT", "CAT", "ALT", "REPEAT", "START", "END", "LOOK", "BEHIND", "WORD", "BOUND", "GROUP", "BACK")


class Node:
    """An immutable node.

    ``args``: CHARS ``(ranges,)``; TEXT ``(str,)``; CAT, ALT: tuple of nodes; REPEAT ``(child, low, high or None)``; START, END
    ``()``; LOOK and BEHIND ``(child, negated, position)``: look-ahead and look-behind; WORD ``(ranges, negated, position)``:
    a boundary between such characters and others; BOUND ``(child, look, negated, is_behind)``: the words of ``child`` that end
    (``is_behind``) or begin with a match of ``look``, or do not (``negated``). Only while a pattern is parsed: GROUP
    ``(child, number)``; BACK ``(number, position, whether case is ignored)``.
    ``anchored``: it contains an anchor; ``looks``: it contains a look-around or a word boundary.
    """

    __slots__ = ("anchored", "args", "looks", "op")
    op: int
    args: tuple
    anchored: bool
    looks: bool

    def __init__(self, op: int, args: tuple) -> None:
        self.op = op
        self.args = args
        if op in (CHARS, TEXT):
            self.anchored = self.looks = False
            return
        children = children_of(self)
        self.anchored = op in (START, END) or any(c.anchored for c in children)
        self.looks = op in (LOOK, BEHIND, WORD) or any(c.looks for c in children)

    def __repr__(self) -> str:
        return f"<{_OP_NAMES[self.op]} of {len(self.args)}>"  # shallow: a tree may be deep


def children_of(node: Node) -> tuple[Node, ...]:
    """The child nodes."""
    if node.op in (CAT, ALT):
        return node.args
    if node.op == BOUND:
        return node.args[:2]
    return node.args[:1] if node.op in (REPEAT, LOOK, BEHIND, GROUP) else ()


Width = tuple[int, "int | None"]
"""The lengths of the shortest and the longest word in characters; None: unbounded."""


def width(root: Node, done: dict[Node, Width] | None = None) -> Width:
    """Bounds on the length of ``root``'s words; look-arounds count as empty. ``done``: results known before; it grows."""

    def of(node: Node, parts: list[Width]) -> Width:
        if node.op == CHARS:
            return 1, 1
        if node.op == TEXT:
            return len(node.args[0]), len(node.args[0])
        if node.op in (CAT, ALT):
            lows, highs = [low for low, _ in parts], [high for _, high in parts if high is not None]
            is_endless = len(highs) < len(parts)
            if node.op == CAT:
                return sum(lows), None if is_endless else sum(highs)
            return min(lows), None if is_endless else max(highs)
        if node.op == REPEAT:
            low, high = parts[0]
            is_endless = high != 0 and (high is None or node.args[2] is None)
            return low * node.args[1], None if is_endless else (high or 0) * (node.args[2] or 0)
        return parts[0] if node.op in (BOUND, GROUP) else (0, 0)

    return fold(root, children_of, of, done)


NOTHING = Node(TEXT, ("",))
"""The empty text."""
AT_START, AT_END = Node(START, ()), Node(END, ())
"""The anchors."""


def sequence(items: list[Node]) -> Node:
    """Concatenation; adjacent texts are joined, and repeated anchors merged."""
    merged: list[Node] = []
    texts: list[str] = []
    for item in items:
        if item.op == TEXT:
            texts.append(item.args[0])
            continue
        if any(texts):
            merged.append(Node(TEXT, ("".join(texts),)))
        texts = []
        if not (merged and item.op in (START, END) and merged[-1].op == item.op):
            merged.append(item)
    if any(texts):
        merged.append(Node(TEXT, ("".join(texts),)))
    if not merged:
        return NOTHING
    return merged[0] if len(merged) == 1 else Node(CAT, tuple(merged))


def choice(items: list[Node]) -> Node:
    """Alternation; alternatives of one character are merged into one class."""
    if len(items) == 1:
        return items[0]
    chars: list[tuple[int, int]] = []
    rest: list[Node] = []
    for item in items:
        if item.op == CHARS:
            chars += item.args[0]
        elif item.op == TEXT and len(item.args[0]) == 1:
            chars.append((ord(item.args[0]), ord(item.args[0])))
        else:
            rest.append(item)
    if chars:
        rest.insert(0, Node(CHARS, (normalise_ranges(chars),)))
    return rest[0] if len(rest) == 1 else Node(ALT, tuple(rest))


def repetition(child: Node, low: int, high: int | None) -> Node:
    """Counted repetition; nested stars, pluses and options become one repetition."""
    if high == 0:
        return NOTHING
    if (low, high) == (1, 1):
        return child
    if child.op == REPEAT and low <= 1 and child.args[1] <= 1 and {high, child.args[2]} <= {1, None}:
        unbounded = None in (high, child.args[2])
        return Node(REPEAT, (child.args[0], min(low, child.args[1]), None if unbounded else 1))
    return Node(REPEAT, (child, low, high))
