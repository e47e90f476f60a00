"""Build the byte expressions of terminals.

Equal terminals, and equal literals, become the same :class:`Expr` object, because lexemes are compared by identity. ``~`` is
relative to valid UTF-8: ``~A`` is every text that ``A`` does not match.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cdplugin import expr
from cdplugin.errors import relocated
from cdplugin.expr import ANY_TEXT, EPSILON, Expr, counted, nullable
from cdplugin.frontends.lark import tree
from cdplugin.frontends.lark.definitions import Scope, library
from cdplugin.frontends.lark.substring import substring_expr
from cdplugin.frontends.lark.tree import Definition, Node, children, walk
from cdplugin.frontends.source import Source
from cdplugin.limits import BEYOND_TEXT, Limits, at_most
from cdplugin.memory import fixed_cache
from cdplugin.regex.alphabet import UTF8
from cdplugin.regex.pattern import parse as parse_regex
from cdplugin.regex.unicode import fold_case
from cdplugin.walks import fold

_MOST_NODES = 500_000
"""Nodes of a terminal as a tree: a terminal that refers to another one twice counts it twice."""


class Terminals:
    """Lowers terminals to expressions. Nested grammars share one instance, so equal terminals are one object in all of them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._made: dict[tuple, Expr] = {}
        self._alive: list[tuple] = []
        self._nullable: dict[Expr, bool] = {}
        self._sizes: dict[Expr, int] = {}

    def of_scope(self, scope: Scope) -> dict[str, Expr]:
        """The expressions of all terminals of a grammar, imported ones included."""
        named = {alias: common()[name] for alias, name in scope.imported.items()}
        for name in scope.order:
            named[name] = self.lower(scope.source, scope.terminals[name].body, named)
        return named

    def lower(self, source: Source, root: Node, named: dict[str, Expr]) -> Expr:
        """The expression of a body; ``named``: those of the names in it. Raises ``LimitExceeded`` if the tree is too large."""
        if root.op in (tree.TEXT, tree.NAME):
            return self._node(source, root, [], named)
        size = sum(self._size(node, named) for node in walk(root))
        if size > _MOST_NODES:
            message, most = "a terminal, with all that it names, is too large", f"at most {_MOST_NODES} parts"
            source.exceed(message, root.at, expected=most, found=str(size))
        made = self._text(fold(root, children, lambda node, below: self._node(source, node, below, named)))
        self._sizes[made] = size
        return made

    def _size(self, node: Node, named: dict[str, Expr]) -> int:
        """About the number of expression nodes that a node itself becomes."""
        if node.op == tree.NAME:
            return self._sizes.get(named[node.args[0]], 1)
        return len(node.args[0]) if node.op == tree.REGEX else 1

    def _node(self, source: Source, node: Node, below: list[Expr], named: dict[str, Expr]) -> Expr:
        op = node.op
        if op == tree.NAME:
            return named[node.args[0]]
        if op == tree.TEXT:
            text, ignore_case = node.args
            if ignore_case:
                return self._caseless(source, text, node.at)
            return self._shared(("literal", text), expr.literal, text.encode())
        if op == tree.REGEX:
            pattern, flags = node.args
            return self._regex(source, pattern, flags, node.at)
        if op == tree.RANGE:
            return UTF8.chars((node.args,))
        if op == tree.SUBSTRING:
            return self._shared(("substring", node.args[0]), substring_expr, node.args[0])
        if op == tree.NOT:
            (part,) = below
            return self._shared((expr.NOT_OP, id(part)), expr.complement, part)
        if op == tree.AND:
            positive = [part for part in below if part.op != expr.NOT_OP]
            parts = below if positive else [ANY_TEXT, *below]
            return self._shared((expr.AND_OP, *map(id, parts)), expr.both, *parts)
        parts = [self._text(part) for part in below]
        if op == tree.ALT:
            return self._shared((expr.ALT_OP, *map(id, parts)), expr.alt, *parts)
        if op == tree.SEQ:
            return self.cat(*parts)
        _, low, high = node.args
        if max(low, high or 0) > self.limits.max_repeat:
            source.exceed("a repetition", node.at, expected=at_most(self.limits, "max_repeat"), found=str(high or low))
        return self._shared((expr.REPEAT_OP, id(parts[0]), low, high), expr.repeat, parts[0], low, high)

    def nullable(self, part: Expr) -> bool:
        """Whether an expression matches the empty text."""
        return nullable(part, self._nullable)

    def cat(self, *parts: Expr) -> Expr:
        """Concatenation; the same object for the same parts."""
        return self._shared((expr.CAT_OP, *map(id, parts)), expr.cat, *parts)

    def short(self, source: Source, part: Expr, most: int, at: int) -> Expr:
        """The texts of ``part`` with at most ``most`` characters; above ``BEYOND_TEXT`` no bound. Raises ``LimitExceeded``."""
        if most > max(BEYOND_TEXT, self.limits.max_repeat):
            return part
        if most > self.limits.max_repeat:
            source.exceed("max_chars=", at, expected=at_most(self.limits, "max_repeat"), found=str(most))
        free = self._shared(("characters", most), expr.repeat, expr.ANY_CHAR, 0, most)
        return self._shared((expr.AND_OP, id(part), id(free)), expr.both, part, free)

    def alt(self, *parts: Expr) -> Expr:
        """Alternation; the same object for the same parts."""
        return self._shared((expr.ALT_OP, *map(id, parts)), expr.alt, *parts)

    def any_text_of(self, texts: Sequence[str]) -> Expr:
        """Any one of some texts; the same object for the same texts."""
        spelt = tuple(text.encode() for text in texts)
        return self._shared(("literals", spelt), expr.literals, spelt)

    def _shared(self, key: tuple, make, *args) -> Expr:  # type: ignore[no-untyped-def]
        """``make(*args)``, called once for each key."""
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = make(*args)
            self._alive.append(args)  # keeps the objects alive whose ids are in keys
        return made

    def _text(self, part: Expr) -> Expr:
        """A bare complement, restricted to valid UTF-8."""
        if part.op != expr.NOT_OP:
            return part
        return self._shared((expr.AND_OP, id(ANY_TEXT), id(part)), expr.both, ANY_TEXT, part)

    def _caseless(self, source: Source, text: str, at: int) -> Expr:
        if text.isascii():
            return self._shared(("caseless", text), expr.cat, *map(_caseless_char, text))
        escaped = "".join(char if char.isalnum() or ord(char) > 127 else f"\\x{ord(char):02x}" for char in text)
        return self._regex(source, escaped, "i", at)

    def _regex(self, source: Source, pattern: str, flags: str, at: int) -> Expr:
        made = self._made.get(("regex", pattern, flags))
        if made is None:
            where = source.where(at)
            with relocated(lambda inner: f"{where} ({inner} of the regular expression)" if inner else where):
                made = self._made["regex", pattern, flags] = _regex_expr(pattern, flags.replace("u", ""), self.limits)
        return made


@counted
def _regex_expr(pattern: str, flags: str, limits: Limits) -> Expr:
    """The texts that a regular expression matches. All grammars share the object while it is cached."""
    parsed = parse_regex(pattern, "rust", flags, limits)
    parsed.refuse_looks()  # a terminal does not know the text beside it
    return parsed.match_expr(UTF8)


@fixed_cache(128, entry_bytes=1800)
def _caseless_char(char: str) -> Expr:
    """An ASCII character in either case, and other characters that fold to it (CaseFolding.txt)."""
    return UTF8.chars(fold_case(((ord(char), ord(char)),)))


@lru_cache(maxsize=1)
def common() -> dict[str, Expr]:
    """The expressions of the library's terminals; the same objects in every grammar."""
    terminals = Terminals(Limits())
    named: dict[str, Expr] = {}
    source = Source("", "common")
    pending: list[Definition] = list(library().values())
    while pending:  # a definition may precede those to which it refers
        definition = pending.pop(0)
        try:
            named[definition.name] = terminals.lower(source, definition.body, named)
        except KeyError:
            pending.append(definition)
    return named


def without_empty(part: Expr) -> Expr:
    """``part`` without the empty text."""
    if not nullable(part):
        return part
    if part.op == expr.REPEAT_OP and not nullable(part.args[0]):
        return expr.repeat(part.args[0], 1, part.args[2])
    return expr.both(part, expr.complement(EPSILON))
