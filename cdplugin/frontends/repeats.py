"""Counted repetition of a symbol as rules: a chain for small counts, O(log n) rules by doubling for large ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from cdplugin.ir import GrammarIR, Symbol

CHAIN = 32
"""Counts up to this become a chain of rules, larger ones are built by doubling."""
Item = TypeVar("Item", bound=Hashable)


class Repeats(Generic[Item]):
    """Writes repetitions; equal ones share their rules. ``new()``: a new nonterminal; ``rule(left, right)`` adds a rule."""

    def __init__(self, new: Callable[[], Item], rule: Callable[[Item, Sequence[Item]], None]) -> None:
        self._new = new
        self._rule = rule
        self._known: dict[tuple[str, Item, int], Item] = {}

    def parts(self, symbol: Item, low: int, high: int | None) -> list[Item]:
        """``symbol`` from ``low`` to ``high`` times (``None``: no bound), as a sequence."""
        parts = self.exactly(symbol, low)
        if high is None:
            parts.append(self.star(symbol))
        elif high > low:
            parts.append(self._at_most(symbol, high - low))
        return parts

    def star(self, symbol: Item) -> Item:
        """Any number of times, right-recursive: so the parser's states do not depend on the number."""
        loop, new = self._nonterminal("star", symbol, 0)
        if new:
            self._rule(loop, [])
            self._rule(loop, [symbol, loop])
        return loop

    def exactly(self, symbol: Item, count: int) -> list[Item]:
        """``count`` times, as a sequence."""
        if count <= CHAIN:
            return [symbol] * count
        return [self._power(symbol, n) for n in range(count.bit_length() - 1, -1, -1) if count >> n & 1]

    def _nonterminal(self, kind: str, symbol: Item, n: int) -> tuple[Item, bool]:
        found = self._known.get((kind, symbol, n))
        if found is not None:
            return found, False
        found = self._known[kind, symbol, n] = self._new()
        return found, True

    def _at_most(self, symbol: Item, count: int) -> Item:
        if count > CHAIN:
            (out,) = self.fewer(symbol, count + 1)
            return out
        rest: list[Item] = []
        for n in range(1, count + 1):
            longer, new = self._nonterminal("at most", symbol, n)
            if new:
                self._rule(longer, [])
                self._rule(longer, [symbol, *rest])
            rest = [longer]
        return rest[0]

    def _power(self, symbol: Item, exponent: int) -> Item:
        """Exactly 2**exponent times."""
        out = symbol
        for n in range(1, exponent + 1):
            double, new = self._nonterminal("power", symbol, n)
            if new:
                self._rule(double, [out, out])
            out = double
        return out

    def fewer(self, symbol: Item, count: int) -> list[Item]:
        """Fewer than ``count`` times, unambiguously: by the binary digits of ``count``, from the lowest.

        Fewer than ``2**n + rest`` is either fewer than ``2**n``, or ``2**n`` and then fewer than ``rest``.
        """
        smaller: list[Item] | None = None
        for n in range(count.bit_length()):
            if not count >> n & 1:
                continue
            below = self._below_power(symbol, n)
            if smaller is None:
                smaller = below
                continue
            both = self._new()
            self._rule(both, below)
            self._rule(both, [self._power(symbol, n), *smaller])
            smaller = [both]
        return smaller or []

    def _below_power(self, symbol: Item, exponent: int) -> list[Item]:
        """Fewer than 2**exponent times."""
        below: list[Item] = []
        for n in range(1, exponent + 1):
            found, new = self._nonterminal("below", symbol, n)
            if new:
                self._rule(found, below)
                self._rule(found, [self._power(symbol, n - 1), *below])
            below = [found]
        return below


def either(ir: GrammarIR, ways: Iterable[Sequence[Symbol]], name: str = "") -> Symbol:
    """Alternation: a nonterminal with one rule per sequence, or the symbol itself for one sequence of one
    symbol without name.
    """
    listed = list(ways)
    if not name and [len(way) for way in listed] == [1]:
        return listed[0][0]
    out = ir.nonterminal(name)
    for way in listed:
        ir.rule(out, way)
    return out


class SymbolRepeats(Repeats[Symbol]):
    """:class:`Repeats` that writes into ``ir``. ``name``: the name of its nonterminals in messages."""

    def __init__(self, ir: GrammarIR, name: str = "") -> None:
        super().__init__(lambda: ir.nonterminal(name), ir.rule)
        self._ir = ir

    def many(self, symbol: Symbol, low: int, high: int | None) -> Symbol:
        """:meth:`parts` as one symbol, a nonterminal."""
        parts = self.parts(symbol, low, high)
        if len(parts) == 1 and parts[0] >= 0:
            return parts[0]
        out = self._ir.nonterminal()
        self._ir.rule(out, parts)
        return out
