"""``%word /[a-z]/ NUMBER``: strings that end with such a character, and the terminals that are named, never end before another.

Longest match keeps a keyword and a name apart wherever the rules allow both: ``android`` is a name and not ``and``. Where they
allow the keyword alone, as after an operand, nothing goes on with ``a androi``, and ``and`` would end there. Programming
languages cut a text into words without asking the parser, so there it must not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from cdplugin.expr import Expr
from cdplugin.frontends.lark import tree
from cdplugin.frontends.lark.byte_sets import Bytes
from cdplugin.frontends.lark.definitions import Scope
from cdplugin.frontends.lark.terminals import Terminals


class Words(NamedTuple):
    """``fence``: the characters of words; ``first``: the bytes that they begin with, as a bit set; ``names``: terminals."""

    fence: Expr
    first: int
    names: frozenset[str]

    def holds(self, node: tree.Node) -> bool:
        """Whether a string or the name of a terminal never ends before a character of words."""
        if node.op == tree.NAME:
            return node.args[0] in self.names
        return node.op == tree.TEXT and bool(node.args[0]) and bool(self.first >> node.args[0][-1].encode()[0] & 1)


def words_of(scope: Scope, terminals: Terminals, named: Mapping[str, Expr]) -> Words | None:
    """What the ``%word`` statement of a grammar says, None if there is none. Raises ``GrammarError``."""
    if not scope.grammar.words:
        return None
    if len(scope.grammar.words) > 1:
        _, _, first = scope.grammar.words[0]
        at = scope.grammar.words[1][2]
        scope.source.fail("%word is written twice", at, found=f"another one in line {scope.source.line(first)}")
    characters, names, at = scope.grammar.words[0]
    fence = terminals.lower(scope.source, characters, dict(named))
    if terminals.nullable(fence):
        scope.source.fail("%word", at, expected="the characters of words, as /[A-Za-z0-9_]/", found="the empty text")
    for name, place in names:
        if name in scope.layout or name in scope.declared:
            scope.source.fail("%word", place, expected="a terminal with a definition", found=repr(name))
    return Words(fence, Bytes(generous=True).first(fence), frozenset(name for name, _ in names))
