"""Whether the compiler will surely take the rules of a JSON schema, told by their look: for a process that checks requests and
leaves compiling to another one.

The front end itself decides what nothing satisfies. What only the engine can tell is whether a lexeme with ``&`` or ``~``
matches anything, searched for within budgets, unless it is the common one: any string but some names, an endless set without a
finite one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.grammar import GrammarIR
from cdplugin.limits import Limits


def is_admitted(ir: GrammarIR, limits: Limits) -> bool:
    """True: compiling ``ir`` (of a JSON schema) succeeds. False: compile it to find out. Linear in the size of ``ir``.

    That the vocabulary can spell JSON is taken for granted.
    """
    if len(ir.rules) > limits.max_rules or len(ir.lexemes) > limits.max_lexemes:
        return False
    return _all(ir.lexemes, set(), _parts)


def _parts(node: Expr, finite: set[int]) -> tuple[Expr, ...] | None:
    """The nodes that have to match something so that this one surely does; None: that is not enough."""
    if node.op == expr.AND_OP:
        endless = [part for part in node.args if part.op != expr.NOT_OP]
        if len(endless) != 1 or endless[0].op != expr.REPEAT_OP or endless[0].args[2] is not None:
            return None
        excluded = [part.args[0] for part in node.args if part.op == expr.NOT_OP]
        return tuple(endless) if _all(excluded, finite, _parts_of_finite) else None
    return _children(node)


def _parts_of_finite(node: Expr, _: set[int]) -> tuple[Expr, ...] | None:
    """The nodes that have to match finitely many texts so that this one does; None: that is not enough."""
    if node.op == expr.AND_OP or (node.op == expr.REPEAT_OP and node.args[2] is None):
        return None
    return _children(node)


def _children(node: Expr) -> tuple[Expr, ...] | None:
    if node.op in (expr.EMPTY_OP, expr.NOT_OP):
        return None
    if node.op == expr.REPEAT_OP:
        return (node.args[0],)
    return node.args if node.op in (expr.CAT_OP, expr.ALT_OP) else ()


def _all(nodes: Iterable[Expr], seen: set[int], parts: Callable[[Expr, set[int]], tuple[Expr, ...] | None]) -> bool:
    """Whether ``parts`` never says None, from ``nodes`` downwards. ``seen``: ids of nodes that need no second look; grows."""
    finite: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            below = parts(node, finite)
            if below is None:
                return False
            waiting += below
    return True
