"""The common base of the families of members and of items: brackets, comma, and bounds on the number of members or items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from cdplugin.ir import Family, GrammarIR, Productive, Symbol, Value

BEFORE_ANY, BEFORE_COMMA, BEFORE_ITEM = range(3)
"""Where a parameter stands: right after the opening bracket; after an item; after the comma that follows it."""


def steps_left(begun: int, items: int) -> int:
    """A lower estimate of the members of a family that follow where ``items`` more items must come: two for each."""
    return 2 * max(items, 1) - 1 if begun == BEFORE_ITEM else 2 * max(items, 0)


class Frame(NamedTuple):
    """The signs around members or items, and the bounds on their number.

    ``closings``: the closing bracket of an empty object or array, and of a non-empty one. ``high`` None: no bound.
    """

    ir: GrammarIR
    comma: Symbol
    closings: tuple[Symbol, Symbol]
    low: int
    high: int | None


Usable = TypeVar("Usable")


class Bracketed(Family[Value], Generic[Value, Usable]):
    """The members of an object or the items of an array, and the closing bracket after them.

    Counts stop at ``most``, above which they make no difference. ``first``, which subclasses set: the parameter right after the
    opening bracket. A vocabulary may lack tokens for a bracket or for the comma; without a comma there is at most one item.
    """

    first: Value

    def __init__(self, frame: Frame) -> None:
        self._ir, self._comma, self._closings, self._low, self._high = frame
        self._bound = frame.high
        self._most = max(self._low, 0 if self._high is None else self._high, 1)
        self._final: tuple[Productive, Usable] | None = None

    def start(self) -> Symbol:
        """The nonterminal for what follows the opening bracket."""
        return self._ir.instance(self, self.first)

    def satisfiable(self, value: Value, productive: Productive) -> bool:
        if not all(map(productive, self._closings)):
            return False
        has_comma = productive(self._comma)
        self._high = self._bound if has_comma else 1 if self._bound is None else min(self._bound, 1)
        return self._can_be_closed(value, productive)

    def _can_be_closed(self, value: Value, productive: Productive) -> bool:
        """:meth:`satisfiable`, given that the brackets are productive."""
        raise NotImplementedError

    def _usable(self, productive: Productive) -> Usable:
        """The items or members that are productive."""
        raise NotImplementedError

    def _finally_usable(self, productive: Productive) -> Usable:
        """:meth:`_usable`, computed once: when rules are made, ``productive`` no longer changes."""
        if self._final is None or self._final[0] != productive:
            self._final = productive, self._usable(productive)
        return self._final[1]

    def _signs_between(self) -> tuple[Symbol, ...]:
        """The comma and both closing brackets."""
        return (self._comma, *self._closings)

    def _closing_ways(self) -> list[Sequence[Symbol]]:
        """Either closing bracket alone, for :class:`cdplugin.ir.Whole`."""
        return [(sign,) for sign in self._closings]

    def _lead(self, started: bool) -> tuple[Symbol, ...]:
        """The symbols before the next member: a comma, unless it is the first."""
        return (self._comma,) if started else ()

    def _is_full(self, count: int) -> bool:
        return self._high is not None and count >= self._high
