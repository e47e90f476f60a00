"""Fold regular rules into expressions: a lexeme is stepped faster than rules, and its masks are shared.

A rule counts as regular if it is not recursive, or refers to itself only at one end (``x ::= "a" x | "b"``, which is ``"a"*
"b"`` by Arden's lemma). Rules are folded bottom-up; those that would become too large stay rules. A rule's expression is one
object wherever it is used, but the engine expands concatenations, so the size that counts is that of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cdplugin.expr import alt, cat, literal, literals
from cdplugin.frontends.bnf.tree import ALT, CHARS, EXPR, REF, REPEAT, SEQ, TEXT, Grammar, Node
from cdplugin.frontends.regular import MOST_NODES, Regular, leaves_first, repeated, solution
from cdplugin.regex.alphabet import UTF8
from cdplugin.walks import fold


class Folded(NamedTuple):
    """The regular rules, by name. Rules in ``inline`` may become part of a larger lexeme, those in ``alone`` may not."""

    inline: dict[str, Regular]
    alone: dict[str, Regular]


def fold_rules(grammar: Grammar, mentioned: dict[str, set[str]]) -> Folded:
    """Find the rules that are regular and not too large; each is visited once.

    Raises ``UnsupportedError`` for a rule that is not regular but has an option that needs it to be.
    """
    folded: dict[str, Regular] = {}
    alone: dict[str, Regular] = {}

    def solve(name: str) -> bool:
        body, options = grammar.rules[name].body, grammar.rules[name].options
        found = _self_recursive(body, name, folded) if name in mentioned[name] else regular(body, folded)
        if found is None:
            return False
        if options.needs_regular:
            found = Regular(options.shaped(found.expr), 2 * found.size + 1)
        (alone if options.stands_alone else folded)[name] = found
        return not options.stands_alone

    leaves_first(mentioned, solve)
    for name in mentioned:
        if name not in folded and name not in alone:
            options = grammar.rules[name].options
            if option := options.needs_regular:
                without = "recursion, tokens, and rules that capture or have max_tokens"
                expected = f"a rule of at most {MOST_NODES} parts, without {without}"
                message = f"{option} of a rule that is not regular, {name!r}, is not supported"
                grammar.source.refuse(message, options.at[option], expected=expected)
    return Folded(folded, alone)


def regular(root: Node, folded: dict[str, Regular]) -> Regular | None:
    """A tree as one expression; None if a part of it is not regular, or it is too large."""

    def value(node: Node, parts: list[Regular | None]) -> Regular | None:
        known = [part for part in parts if part is not None]
        return combine(node, known, folded) if len(known) == len(parts) else None

    return fold(root, lambda node: node.children, value)


def combine(node: Node, parts: list[Regular], folded: dict[str, Regular]) -> Regular | None:
    """The expression of a node from those of its children."""
    op = node.op
    if op == TEXT:
        return Regular(literal(node.args[0].encode()), 1)
    if op == CHARS:
        return Regular(UTF8.chars(node.args[0]), 1)
    if op == EXPR:
        return Regular(*node.args)
    if op == REF:
        return folded.get(node.args[0])
    if op == SEQ:
        return _only(join_sequence(parts))
    if op == ALT:
        return _only(join_alternatives(zip(parts, node.children, strict=True)))
    if op == REPEAT:
        ((expression, size),) = parts
        return Regular(repeated(expression, node.args[1], node.args[2]), size + 1)
    return None


def _only(joined: list[Regular]) -> Regular | None:
    return joined[0] if len(joined) == 1 else None


def _grouped(parts: Iterable[Regular], size: int = 0) -> list[list[Regular]]:
    """Split parts into groups of at most :data:`MOST_NODES` nodes; the first group also holds ``size`` nodes. At least one."""
    groups: list[list[Regular]] = [[]]
    for part in parts:
        size += part.size
        if size > MOST_NODES and groups[-1]:
            groups.append([])
            size = part.size
        groups[-1].append(part)
    return groups


def join_sequence(parts: Iterable[Regular]) -> list[Regular]:
    """Concatenate parts into few expressions of at most :data:`MOST_NODES` nodes each; at least one."""
    return [Regular(cat(*(part.expr for part in run)), sum(part.size for part in run)) for run in _grouped(parts)]


def join_alternatives(parts: Iterable[tuple[Regular, Node]]) -> list[Regular]:
    """Unite alternatives, each with its node, into few expressions of at most :data:`MOST_NODES` nodes; fixed texts first."""
    listed = list(parts)
    texts = [node.args[0].encode() for _, node in listed if node.op == TEXT]
    groups = _grouped((part for part, node in listed if node.op != TEXT), 1)
    if texts:
        groups[0].insert(0, Regular(literals(texts), 1))
    return [Regular(alt(*(part.expr for part in group)), sum(part.size for part in group)) for group in groups if group]


def _self_recursive(body: Node, name: str, folded: dict[str, Regular]) -> Regular | None:
    """The least solution of a rule that refers to itself at one end."""
    rights = [branch.args if branch.op == SEQ else (branch,) for branch in (body.args if body.op == ALT else (body,))]
    return solution(rights, lambda node: node.op == REF and node.args[0] == name, lambda node: regular(node, folded))
