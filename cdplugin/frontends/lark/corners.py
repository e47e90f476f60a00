"""Check parametric rules after they are written, and unfold them if they have few members.

*Unfolding.* If some text can lead to only a few members, each becomes a plain rule (:func:`unfold`). A family's rules would be
made in Python, member by member, while somebody waits for a mask; finding the members once costs no more than finding what the
family may use, and kernels do the rest.

*Left corners.* A member may begin with itself under another parameter each time: ``x::_ : "a" | x::incr(_)``. An Earley parser
predicts all left corners of a rule (Rosenkrantz and Lewis, 1970) before it reads a byte, so they must be few. They are found
here as the parser will find them, starting from the constant parameters in the grammar. Members that are reached only after
some text are followed too, but not exhaustively: a counter of 64 bits is legal. The parser's budget covers the rest.
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
"""Left corners, as rules with their parameters, of one rule."""
_MOST_FOLLOWED = 256
"""Further members, reached after some text, that are checked."""
_MOST_WORK = 100_000_000
"""Units of work after which no further member is checked."""


def check_corners(draft: Draft, family: Parametric, starts: Iterable[RuleAt]) -> None:
    """Raise ``LimitExceeded`` if a parametric rule has more than :data:`MOST_CORNERS` left corners.

    ``starts``: the members that rules without a parameter mention.
    """
    pending = deque(starts)
    left = len(pending) + _MOST_FOLLOWED
    done: set[RuleAt] = set()
    most = family.work + _MOST_WORK
    while pending and left and family.work < most:
        start = pending.popleft()
        if start in done:
            continue
        left -= 1
        closure = _closure(family, start, done, pending, most, is_checked=False)
        if len(closure) > MOST_CORNERS:  # perhaps fewer if only productive members count
            with suppress(LimitExceeded):  # undecided: treat it as large
                closure = _closure(family, start, done, pending, most, is_checked=True)
        if len(closure) > MOST_CORNERS:
            _refuse(draft, closure)
        done.update(closure)


def have_few_corners(draft: Draft, layout: Layout) -> bool:
    """Whether rules whose parameters are all widths of blocks certainly pass :func:`check_corners`: a rule's left corners have
    its own width, or are blocks of any width (:mod:`cdplugin.frontends.lark.indent`).
    """
    n_rules = sum(rule.takes_parameter for rule in draft.rules)
    return 2 * (n_rules + layout.n_blocks * len(layout.leads)) <= MOST_CORNERS  # twice: with and without a bare first lexeme


def _closure(
    family: Parametric, start: RuleAt, done: set[RuleAt], following: deque[RuleAt], most: int, is_checked: bool
) -> list[RuleAt]:
    """The left corners of ``start`` that are not ``done``, until they are too many; unchecked ones until the family's work is
    ``most``. Members after text go to ``following``.
    """
    found, queue = {start}, [start]
    for member in queue:  # grows while it is walked
        leading, others = family.corners(member, is_checked)
        fresh = [corner for corner in dict.fromkeys(leading) if corner not in found and corner not in done]
        found.update(fresh)
        queue += fresh
        following.extend(others)
        if len(queue) > MOST_CORNERS or (family.work >= most and not is_checked):
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
"""Largest number of members, of all parametric rules together, that are unfolded. 0: never."""


def unfold(ir: GrammarIR, writer: Writer, most_rules: int) -> None:
    """Write plain rules for all members of the writer's family if they are few, and remove the family. The language is the
    same.

    Not done where ``ir`` has another family, or captures something: which of several derivations is captured depends on the
    order in which rules were made.
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
