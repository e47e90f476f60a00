"""The syntax tree of a rule: small immutable nodes. Trees may be deep, so traversals keep their own stack."""

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
    EXPR ``(expression, its size)``; SEQ, ALT: tuple of nodes; REPEAT ``(child, low, high or None)``. ``at``: its position in
    the source.
    """

    op: int
    args: tuple[Any, ...]
    at: int

    @property
    def children(self) -> tuple[Node, ...]:
        """The child nodes."""
        if self.op in (SEQ, ALT):
            return self.args
        return self.args[:1] if self.op == REPEAT else ()


@dataclass(frozen=True)
class Dispatch:
    """``TagDispatch`` of xgrammar: free text until a tag, then the tag's rule.

    ``tags``: ``(text, rule name, position)``, or ``(token id, …)`` if ``by_token``; ``excludes``: texts or tokens that must not
    occur in the free text; ``loop``: whether free text follows a tag's rule.
    """

    tags: tuple[tuple[Any, str, int], ...]
    excludes: tuple[Any, ...] = ()
    loop: bool = True
    by_token: bool = False


@dataclass
class Rule:
    """A rule; ``at``: the position of its name."""

    name: str
    at: int
    body: Node
    options: RuleOptions = field(default_factory=RuleOptions)


@dataclass
class Grammar:
    """The rules of a grammar, by name, and its source text."""

    source: Source
    rules: dict[str, Rule] = field(default_factory=dict)


def references(root: Node) -> Iterator[tuple[str, int]]:
    """``(rule name, position)`` of each reference to a rule."""
    for node in walk(root, lambda node: node.children):
        if node.op == REF:
            yield node.args[0], node.at
        elif node.op == DISPATCH:
            for _, name, at in node.args[0].tags:
                yield name, at


def sequence(items: list[Node], at: int) -> Node:
    """The concatenation of ``items``."""
    return items[0] if len(items) == 1 else Node(SEQ, tuple(items), at)


def choice(items: list[Node], at: int) -> Node:
    """The alternation of ``items``."""
    return items[0] if len(items) == 1 else Node(ALT, tuple(items), at)
