"""Checks of parametric rules after they are written: are they few, and what do they begin with?

Of few members each is written out, one plain rule for each parameter that some text leads to (:func:`unfold`): a family's rules
are made while somebody waits for a mask, member by member, in Python. To make few with the others costs no more than to look
for what the family may need, and everything after that is kernels' work.

Members may begin with themselves, under another parameter each time: ``x::_ : "a" | x::incr(_)``. Where a rule is predicted, so
is all that its texts may begin with: its left corners (Rosenkrantz and Lewis, 1970). A parser writes all of them down before it
reads a byte, so they must be few. They are found here as the parser will find them, from the parameters that the grammar writes
as numbers. What follows after a text was read is looked at as well, but not to its end: a counter of 64 bits is legal. What is
not looked at here is left to the budget of the parser.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress

from cdplugin.errors import LimitExceeded
from cdplugin.frontends.lark.draft import Draft
from cdplugin.frontends.lark.indent import Layout
from cdplugin.frontends.lark.write import Parametric, RuleAt, Writer
from cdplugin.ir import GrammarIR, Symbol

MOST_CORNERS = 2_048
"""Rules, with their parameters, that may be predicted in one place because of one of them."""
_MOST_FOLLOWED = 256
"""Further rules that are looked at because some text leads to them."""


def check_corners(draft: Draft, family: Parametric, starts: Iterable[RuleAt]) -> None:
    """Raise ``LimitExceeded`` where more than :data:`MOST_CORNERS` rules with parameters are predicted in one place.

    ``starts``: those that rules without a parameter mention.
    """
    pending = deque(starts)
    left = len(pending) + _MOST_FOLLOWED
    done: set[RuleAt] = set()
    while pending and left:
        start = pending.popleft()
        if start in done:
            continue
        left -= 1
        closure = _closure(family, start, done, pending, is_checked=False)
        if len(closure) > MOST_CORNERS:  # is that so too if only what can be completed counts?
            with suppress(LimitExceeded):  # not decided: then it is not small either
                closure = _closure(family, start, done, pending, is_checked=True)
        if len(closure) > MOST_CORNERS:
            _refuse(draft, closure)
        done.update(closure)


def have_few_corners(draft: Draft, layout: Layout) -> bool:
    """Whether rules whose parameters are all widths of blocks surely pass :func:`check_corners`: before a text, a rule leads to
    others of its own width, and to blocks of any (:mod:`cdplugin.frontends.lark.indent`).
    """
    n_rules = sum(rule.takes_parameter for rule in draft.rules)
    return 2 * (n_rules + layout.n_blocks * len(layout.leads)) <= MOST_CORNERS  # twice: with the first lexeme bare, and without


def _closure(family: Parametric, start: RuleAt, done: set[RuleAt], following: deque[RuleAt], is_checked: bool) -> list[RuleAt]:
    """What is predicted with ``start``, but for what is ``done``, until it is too much; what texts lead to: ``following``."""
    found, queue = {start}, [start]
    for member in queue:  # grows while it is walked
        leading, others = family.corners(member, is_checked)
        fresh = [corner for corner in dict.fromkeys(leading) if corner not in found and corner not in done]
        found.update(fresh)
        queue += fresh
        following.extend(others)
        if len(queue) > MOST_CORNERS:
            break
    return queue


def _refuse(draft: Draft, found: list[RuleAt]) -> None:
    by_rule = Counter(member.rule for member in found if not draft.rules[member.rule].is_helper)
    number = by_rule.most_common(1)[0][0]
    owner = draft.rules[number].owner
    shown = " → ".join(f"{owner.name}::{member.parameter}" for member in found if member.rule == number)
    draft.scope.source.exceed(
        f"the rule {owner.name!r} begins with itself under ever more parameters before it matches any text",
        owner.at,
        expected=f"at most {MOST_CORNERS}: a condition (%if lt(_, 10)), a narrow range, or a terminal before the reference",
        found=shown[:80] + " → …",
    )


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
