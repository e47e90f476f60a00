"""Nonterminals that derive each other, and so the same texts: one of them stands for all.

A rule ``a -> x b y`` whose ``x`` and ``y`` may be empty lets ``a`` derive all that ``b`` does. Where ``a`` leads to ``b``
so, and ``b`` to ``a``, neither has a text that the other has not. The parser would tell them apart at each place all the same,
and complete each of them wherever another one is: work by the cube of their number, where each derives each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cdplugin.expr import Expr, nullable
from cdplugin.frontends.productive import Productive
from cdplugin.ir import GrammarIR, Symbol


def merge_cycles(ir: GrammarIR) -> None:
    """Let one nonterminal stand for all that derive each other in the rules of ``ir``.

    The others keep a rule that leads to it, for whoever names them from outside. Nothing is changed where texts are captured:
    there it may show which rule derived one. Linear in the rules.
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
    """The nonterminals that each one leads to by a rule whose other symbols may be empty."""
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
    low: dict[Symbol, int] = {}  # of nodes that are open: the first one met of those that they lead back to
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
