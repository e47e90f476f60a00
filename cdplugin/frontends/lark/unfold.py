"""Rules with a parameter of which there are few: written out, one plain rule for each parameter that some text leads to.

A family's rules are made while somebody waits for a mask, member by member, in Python. Where all members are few, to make them
with the others costs no more than to look for what the family may need, and everything after that is kernels' work.
"""

from __future__ import annotations

from cdplugin.frontends.lark.write import Parametric, RuleAt, Writer
from cdplugin.ir import GrammarIR, Symbol

MOST_MEMBERS = 64
"""Members, all rules with a parameter together, up to which they are written out. 0: never."""


def unfold(ir: GrammarIR, writer: Writer, most_rules: int) -> None:
    """Write the rules of all members of the writer's family, if they are few and ``ir`` knows of no other family; then it knows
    of none. The texts are the same. Left alone are grammars that capture something: of several derivations, which one is
    taken depends on the order in which rules were made.
    """
    family: Parametric = writer.family
    if writer.is_indented or ir.captures or ir.stops:
        return
    pending = [value for of, value in ir.instances.values() if of is family and isinstance(value, RuleAt)]
    if len(pending) < len(ir.instances) or len(pending) > MOST_MEMBERS:
        return
    met = set(pending)
    rules: list[tuple[RuleAt, list[Symbol | RuleAt]]] = []
    for member in pending:  # grows while it is walked
        for side in writer.sides(member):
            rules.append((member, side))
            for part in side:
                if isinstance(part, RuleAt) and part.parameter is not None and part not in met:
                    met.add(part)
                    pending.append(part)
        if len(pending) > MOST_MEMBERS or len(ir.rules) + len(rules) > most_rules:
            return
    for member, side in rules:
        ir.rule(writer.symbol(member), [writer.symbol(part) if isinstance(part, RuleAt) else part for part in side])
    ir.instances.clear()
