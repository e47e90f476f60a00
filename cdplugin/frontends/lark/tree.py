"""The syntax tree of a Lark grammar: definitions whose bodies are trees of a few kinds of node, each with its position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cdplugin import walks

SEQ, ALT, AND, NOT, REPEAT, NAME, TEXT, RANGE, REGEX, TOKENS, JSON, LARK, SUBSTRING, REFERENCE, WHEN = range(15)

KINDS = {
    SEQ: "a sequence",
    ALT: "alternatives",
    AND: "'&'",
    NOT: "'~'",
    REPEAT: "a repetition",
    NAME: "a name",
    TEXT: "a string",
    RANGE: "a range",
    REGEX: "a regular expression",
    TOKENS: "a special token",
    JSON: "%json",
    LARK: "%lark",
    SUBSTRING: "%regex",
    REFERENCE: "a @grammar",
    WHEN: "%if",
}
"""The names of node kinds in messages."""


@dataclass(eq=False, slots=True)
class Node:
    """One node. Compared by identity.

    ``at``: its position; ``args`` by ``op``: SEQ, ALT, AND: nodes; NOT ``(node,)``; REPEAT ``(node, low, high or None)``;
    NAME ``(name, parameter or None, template arguments or None)``; TEXT ``(text, ignore_case)``; RANGE ``(first, last)``,
    code points; REGEX ``(pattern, flags)``; TOKENS ``(names, ranges, negated)``; JSON ``(schema,)``; LARK ``(Grammar,)``;
    SUBSTRING ``(chunks,)``; REFERENCE ``(name,)``; WHEN ``(node, condition)``.
    """

    op: int
    args: tuple[Any, ...]
    at: int


_LISTS = frozenset((SEQ, ALT, AND))
COMPOSITE = _LISTS | {NOT, REPEAT, WHEN, NAME}
"""The kinds of node that may have children."""


def children(node: Node) -> tuple[Node, ...]:
    """The child nodes."""
    op = node.op
    if op in _LISTS:
        return node.args
    if op == NAME:
        return node.args[2] or ()
    return node.args[:1] if op in COMPOSITE else ()


def walk(root: Node) -> Iterator[Node]:
    """All nodes in preorder, in the order of the text."""
    return walks.walk(root, children)


@dataclass
class Attributes:
    """The attributes in brackets after a rule's name; ``at``: the position of each."""

    lazy: bool = False
    glued: bool = False
    stop: Node | None = None
    is_suffix: bool = False
    stop_capture: str | None = None
    capture: str | None = None
    max_tokens: int | None = None
    max_chars: int | None = None
    temperature: float | None = None
    at: dict[str, int] = field(default_factory=dict)

    @property
    def stops_at_end(self) -> bool:
        """Whether it has ``stop=""``: the end token ends the rule."""
        return self.stop is not None and self.stop.op == TEXT and not self.stop.args[0] and not self.is_suffix


@dataclass
class Definition:
    """A rule or a terminal. ``parameters``: of a template, with their positions; ``parametric``: it is written ``name::_``;
    ``uses_templates``: a name in its body has arguments.
    """

    name: str
    at: int
    body: Node
    is_terminal: bool
    parameters: tuple[tuple[str, int], ...] | None = None
    parametric: bool = False
    attributes: Attributes = field(default_factory=Attributes)
    priority_at: int | None = None
    uses_templates: bool = False


@dataclass
class Import:
    """``%import common.INT -> NAME``: one terminal of a library."""

    path: str
    name: str
    alias: str
    at: int


@dataclass
class Grammar:
    """A grammar as written: definitions and statements in order. ``uses_templates``: a name in it has arguments."""

    at: int
    uses_templates: bool = False
    definitions: list[Definition] = field(default_factory=list)
    ignores: list[Node] = field(default_factory=list)
    imports: list[Import] = field(default_factory=list)
    declared: dict[str, int] = field(default_factory=dict)
    options: list[tuple[Any, int]] = field(default_factory=list)
    words: list[tuple[Node, list[tuple[str, int]], int]] = field(default_factory=list)
    indents: list[tuple[Any, int]] = field(default_factory=list)
