"""What a rule says, as a tree of small immutable nodes. Trees may be deep: whatever walks them keeps its own stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cdplugin.frontends.bnf.rule_options import RuleOptions
from cdplugin.frontends.source import Source
from cdplugin.walks import walk

TEXT, CHARS, REF, TOKENS, DISPATCH, SEQ, ALT, REPEAT, EXPR = range(9)


@dataclass(eq=False, slots=True)
class Node:
    """A node of a rule.

    ``args``: TEXT ``(str,)``; CHARS ``(ranges,)``; REF ``(rule name,)``; TOKENS ``(TokenSet,)``; DISPATCH ``(Dispatch,)``;
    EXPR ``(expression, its size)``; SEQ, ALT: tuple of nodes; REPEAT ``(child, low, high or None)``. ``at``: where it begins in
    the source.
    """

    op: int
    args: tuple[Any, ...]
    at: int

    @property
    def children(self) -> tuple[Node, ...]:
        """The nodes directly below."""
        if self.op in (SEQ, ALT):
            return self.args
        return self.args[:1] if self.op == REPEAT else ()


@dataclass(frozen=True)
class Dispatch:
    """``TagDispatch`` of xgrammar: free text until a tag, then the tag's rule.

    ``tags``: ``(text, rule name, place)``, or ``(token id, …)`` where ``by_token``; ``excludes``: what the free text must not
    hold; ``loop``: whether free text follows a tag.
    """

    tags: tuple[tuple[Any, str, int], ...]
    excludes: tuple[Any, ...] = ()
    loop: bool = True
    by_token: bool = False


@dataclass
class Rule:
    """A rule; ``at``: where its name stands."""

    name: str
    at: int
    body: Node
    options: RuleOptions = field(default_factory=RuleOptions)


@dataclass
class Grammar:
    """The rules of a grammar, by name, and the text that they were read from."""

    source: Source
    rules: dict[str, Rule] = field(default_factory=dict)


def references(root: Node) -> Iterator[tuple[str, int]]:
    """``(rule name, place)`` of every reference to a rule."""
    for node in walk(root, lambda node: node.children):
        if node.op == REF:
            yield node.args[0], node.at
        elif node.op == DISPATCH:
            for _, name, at in node.args[0].tags:
                yield name, at


def sequence(items: list[Node], at: int) -> Node:
    """``items`` one after the other."""
    return items[0] if len(items) == 1 else Node(SEQ, tuple(items), at)


def choice(items: list[Node], at: int) -> Node:
    """One of ``items``."""
    return items[0] if len(items) == 1 else Node(ALT, tuple(items), at)
