"""Drop unproductive rules: branches that nothing satisfies, or whose values would be infinitely deep."""

from __future__ import annotations

from cdplugin.frontends.productive import Productive
from cdplugin.ir import GrammarIR, Symbol

_MOST_LEFT = 0.8
"""Simple rounds over all rules stop when one leaves more than this part of them; the rest is found by counting."""


def drop_barren(ir: GrammarIR) -> set[Symbol] | None:
    """Drop the rules that derive no text. If the start is among them, drop nothing and return the productive symbols.

    Without families it is enough to find that the start is productive: the compiler drops unproductive rules as well.
    """
    known, left = _soon_productive(ir)
    if ir.start in known and not (left and ir.instances):
        return None
    rules = Productive((rule[0], (s for s in rule[1] if s not in known)) for rule in left)
    families = {symbol: member for symbol, member in ir.instances.items() if symbol not in known}
    grew = True
    while grew:
        grew = False
        for symbol, (family, start) in list(families.items()):
            if family.satisfiable(start, lambda s: s in known or s in rules.known):
                del families[symbol]
                rules.add(symbol)
                grew = True
    if ir.start not in known and ir.start not in rules.known:
        return known | rules.known
    barren = {rule for rule, lacks in zip(left, rules.missing, strict=True) if lacks}
    if barren:
        ir.rules = [rule for rule in ir.rules if rule not in barren]
    return None


def _soon_productive(ir: GrammarIR) -> tuple[set[Symbol], list[tuple[Symbol, tuple[Symbol, ...]]]]:
    """Find most productive symbols in simple rounds over the rules; returns them, and the rules that are left.

    Rounds go forwards and backwards in turn, because members are written from the last to the first, and their values
    later. The last round is one that leaves most rules, or, without families, finds the start to be productive.
    """
    known = set(range(-len(ir.lexemes), 0))
    left, families = ir.rules, ir.instances
    while True:
        n_before = len(left) + len(families)
        rules, left = left, []
        for rule in rules:
            if known.issuperset(rule[1]):
                known.add(rule[0])
            else:
                left.append(rule)
        waiting, families = families, {}
        for symbol, (family, value) in waiting.items():
            if family.satisfiable(value, known.__contains__):
                known.add(symbol)
            else:
                families[symbol] = (family, value)
        if len(left) + len(families) >= _MOST_LEFT * n_before or (ir.start in known and not ir.instances):
            return known, left
        left.reverse()
