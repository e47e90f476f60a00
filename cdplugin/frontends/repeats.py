"""Counted repetition of a symbol as rules: a chain for small counts, O(log n) rules for large ones."""

from __future__ import annotations

from cdplugin.ir import GrammarIR, Symbol

CHAIN = 32
"""Counts up to this are a chain of rules, larger ones are written by doubling."""


class Repeats:
    """Writes repetitions into ``ir``; equal ones are written once. A repeated symbol may derive the empty text.

    ``name``: what its nonterminals are called in messages.
    """

    def __init__(self, ir: GrammarIR, name: str = "") -> None:
        self.ir = ir
        self._name = name
        self._known: dict[tuple[str, Symbol, int], Symbol] = {}

    def many(self, symbol: Symbol, low: int, high: int | None) -> Symbol:
        """``symbol`` at least ``low`` and at most ``high`` times (``None``: no bound)."""
        parts = self.exactly(symbol, low)
        if high is None:
            parts.append(self.star(symbol))
        elif high > low:
            parts.append(self._at_most(symbol, high - low))
        if len(parts) == 1 and parts[0] >= 0:
            return parts[0]
        out = self.ir.nonterminal()
        self.ir.rule(out, parts)
        return out

    def star(self, symbol: Symbol) -> Symbol:
        """Any number of times. Recursion on the right: the parser's states then do not depend on how many there were."""
        loop, new = self._nonterminal("star", symbol, 0)
        if new:
            self.ir.rule(loop, [])
            self.ir.rule(loop, [symbol, loop])
        return loop

    def exactly(self, symbol: Symbol, count: int) -> list[Symbol]:
        """``count`` times, as a sequence."""
        if count <= CHAIN:
            return [symbol] * count
        return [self._power(symbol, n) for n in range(count.bit_length() - 1, -1, -1) if count >> n & 1]

    def _nonterminal(self, kind: str, symbol: Symbol, n: int) -> tuple[Symbol, bool]:
        found = self._known.get((kind, symbol, n))
        if found is not None:
            return found, False
        found = self._known[kind, symbol, n] = self.ir.nonterminal(self._name)
        return found, True

    def _at_most(self, symbol: Symbol, count: int) -> Symbol:
        if count > CHAIN:
            (out,) = self.fewer(symbol, count + 1)
            return out
        rest: list[Symbol] = []
        for n in range(1, count + 1):
            longer, new = self._nonterminal("at most", symbol, n)
            if new:
                self.ir.rule(longer, [])
                self.ir.rule(longer, [symbol, *rest])
            rest = [longer]
        return rest[0]

    def _power(self, symbol: Symbol, exponent: int) -> Symbol:
        """Exactly 2**exponent times."""
        out = symbol
        for n in range(1, exponent + 1):
            double, new = self._nonterminal("power", symbol, n)
            if new:
                self.ir.rule(double, [out, out])
            out = double
        return out

    def fewer(self, symbol: Symbol, count: int) -> list[Symbol]:
        """Fewer than ``count`` times, one way for each number: the binary digits of ``count`` from the lowest.

        Fewer than ``2**n + rest``: fewer than ``2**n``, or ``2**n`` and then fewer than ``rest``.
        """
        smaller: list[Symbol] | None = None
        for n in range(count.bit_length()):
            if not count >> n & 1:
                continue
            below = self._below_power(symbol, n)
            if smaller is None:
                smaller = below
                continue
            both = self.ir.nonterminal(self._name)
            self.ir.rule(both, below)
            self.ir.rule(both, [self._power(symbol, n), *smaller])
            smaller = [both]
        return smaller or []

    def _below_power(self, symbol: Symbol, exponent: int) -> list[Symbol]:
        """Fewer than 2**exponent times."""
        below: list[Symbol] = []
        for n in range(1, exponent + 1):
            found, new = self._nonterminal("below", symbol, n)
            if new:
                self.ir.rule(found, below)
                self.ir.rule(found, [self._power(symbol, n - 1), *below])
            below = [found]
        return below
