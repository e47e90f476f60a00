"""Fold regular rules into expressions: rules after those that they mention, and by Arden's lemma where a rule leads to itself
at one end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple, TypeVar

from cdplugin.expr import REPEAT_OP, Expr, alt, cat, repeat

Name = TypeVar("Name", bound=Hashable)
Part = TypeVar("Part")

_MOST_COUNT = 1 << 20
"""Largest product of counts."""
MOST_NODES = 2_000
"""Size, counted as a tree, of the largest expression into which a rule is folded."""


class Regular(NamedTuple):
    """An expression and its size, counted as a tree."""

    expr: Expr
    size: int


def leaves_first(mentioned: Mapping[Name, Set[Name]], solve: Callable[[Name], bool]) -> None:
    """Call ``solve(name)`` for each rule once it has returned True for all other rules that the rule mentions."""
    users: dict[Name, list[Name]] = {name: [] for name in mentioned}
    missing = {name: len(others - {name}) for name, others in mentioned.items()}
    for name, others in mentioned.items():
        for other in others - {name}:
            users[other].append(name)
    ready = [name for name, count in missing.items() if not count]
    while ready:
        name = ready.pop()
        if solve(name):
            for user in users[name]:
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)


def repeated(expression: Expr, low: int, high: int | None) -> Expr:
    """Repeat ``expression``. Nested repetitions are merged where no count gets lost: ``(x{1,3}){2}`` is ``x{2,6}``.

    ``k`` repetitions of ``x{a,b}`` cover the counts from ``k a`` to ``k b``. If these intervals leave no gap between the
    smallest ``k`` and the next one, they leave none later.
    """
    if expression.op != REPEAT_OP or high == 0:
        return repeat(expression, low, high)
    inner, a, b = expression.args
    gapless = high == low or a <= 1 or (low >= 1 and (b is None or low * (b - a) >= a - 1))
    if not gapless:
        return repeat(expression, low, high)
    most = None if high is None or b is None else high * b
    return repeat(inner, low * a, most) if max(low * a, most or 0) <= _MOST_COUNT else repeat(expression, low, high)


def solution(
    rights: Iterable[Sequence[Part]], is_itself: Callable[[Part], bool], value: Callable[[Part], Regular | None]
) -> Regular | None:
    """The least solution of a rule: ``a* b`` for ``x = a x | b``, ``b a*`` for ``x = x a | b`` (Arden's lemma; the least one
    also where ``a`` is nullable).

    ``is_itself``: whether a part of a right side is ``x``; ``value``: the expression of any other part. Returns None where a
    part has no expression, where ``x`` stands elsewhere or at both ends, where the rule never ends, and where the solution is
    too large.
    """
    loops: list[Expr] = []
    ends: list[Expr] = []
    sides: set[bool] = set()
    size = 1
    for right in rights:
        others = [part for part in right if not is_itself(part)]
        is_loop = len(others) < len(right)
        if is_loop and len(right) == 1:  # x = x adds nothing
            continue
        if is_loop:
            at_left = is_itself(right[0])
            if len(others) < len(right) - 1 or not (at_left or is_itself(right[-1])):
                return None
            sides.add(at_left)
        known = [found for part in others if (found := value(part)) is not None]
        size += sum(found.size for found in known)
        if len(known) < len(others) or size > MOST_NODES:
            return None
        (loops if is_loop else ends).append(cat(*(found.expr for found in known)))
    if len(sides) == 2 or not ends:
        return None
    loop, end = repeated(alt(*loops), 0, None), alt(*ends)
    return Regular(cat(end, loop) if True in sides else cat(loop, end), size)
