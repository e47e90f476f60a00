"""Merge nonterminals that derive each other: they derive the same texts, so one of them stands for all.

A rule ``a -> x b y`` whose ``x`` and ``y`` are nullable lets ``a`` derive all that ``b`` does. If ``a`` leads to ``b`` so, and
``b`` to ``a``, both derive the same language. The parser would still keep them apart: it would predict each, and complete each
wherever another one is complete, which takes cubic time if each leads to each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cdplugin.expr import Expr, nullable
from cdplugin.frontends.productive import Productive
from cdplugin.ir import GrammarIR, Symbol


def merge_cycles(ir: GrammarIR) -> None:
    """Replace all nonterminals of a cycle of ``ir``'s rules by one of them.

    The others keep one rule, which leads to it, since symbols from outside may name them. Nothing changes where texts are
    captured: a capture may show which rule derived it. Linear in the rules.
    """
    if ir.captures or ir.stops:
        return
    of = {symbol: cycle[0] for cycle in _cycles(_leading(ir)) for symbol in cycle}
    if not of:
        return
    rules: dict[tuple[Symbol, tuple[Symbol, ...]], None] = {}
    for left, right in ir.rules:
        one = of.get(left, left), tuple([of.get(symbol, symbol) for symbol in right])
        if one[1] != one[:1]:
            rules[one] = None
    ir.rules[:] = [*rules, *((symbol, (one,)) for symbol, one in of.items() if symbol != one)]


def _leading(ir: GrammarIR) -> dict[Symbol, list[Symbol]]:
    """For each nonterminal those that it leads to: by a rule whose other symbols are all nullable."""
    known: dict[Expr, bool] = {}
    lexemes = {symbol for _, right in ir.rules for symbol in right if symbol < 0}
    solid = {symbol for symbol in lexemes if not nullable(ir.lexemes[~symbol], known)}
    soft = [rule for rule in ir.rules if solid.isdisjoint(rule[1])]
    empty = Productive((left, [symbol for symbol in right if symbol >= 0]) for left, right in soft).known
    out: dict[Symbol, list[Symbol]] = {}
    for left, right in soft:
        whole = [symbol for symbol in right if symbol >= 0 and symbol not in empty]
        if len(whole) < 2:
            out.setdefault(left, []).extend(whole or [symbol for symbol in right if symbol >= 0])
    return out


def _cycles(edges: Mapping[Symbol, Sequence[Symbol]]) -> Iterator[list[Symbol]]:
    """The strongly connected components of more than one node, each with its least node first (Tarjan, 1972)."""
    met: dict[Symbol, int] = {}
    low: dict[Symbol, int] = {}  # of open nodes: the lowest visit number of the nodes that they lead back to
    open_: list[Symbol] = []
    walk: list[tuple[Symbol, Iterator[Symbol]]] = []

    def enter(node: Symbol) -> None:
        met[node] = low[node] = len(met)
        open_.append(node)
        walk.append((node, iter(edges.get(node, ()))))

    for root in edges:
        if root not in met:
            enter(root)
        while walk:
            node, following = walk[-1]
            other = next(following, None)
            if other is None:
                walk.pop()
                if low[node] < met[node]:
                    before = walk[-1][0]
                    low[before] = min(low[before], low[node])
                    continue
                component = [open_.pop()]
                while component[-1] != node:
                    component.append(open_.pop())
                for done in component:
                    del low[done]
                if len(component) > 1:
                    yield sorted(component)
            elif other not in met:
                enter(other)
            elif other in low:
                low[node] = min(low[node], met[other])
