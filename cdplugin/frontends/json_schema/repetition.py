"""Items that repeat: chains of rules for small counts, O(log n) rules for large ones."""

from __future__ import annotations

from cdplugin.grammar import GrammarIR, Symbol

_CHAIN = 32
"""Counts up to this are written as a chain of rules; larger ones by doubling."""


class Repeats:
    """Writes repetitions of ``comma item``; rules for equal counts are shared."""

    def __init__(self, ir: GrammarIR, comma: Symbol) -> None:
        self.ir = ir
        self._comma = comma
        self._loops: dict[tuple[Symbol, Symbol], Symbol] = {}
        self._steps: dict[tuple[Symbol, int, Symbol], Symbol] = {}
        self._counts: dict[tuple[str, Symbol, int], Symbol] = {}

    def many(self, item: Symbol, low: int, high: int | None, closing: Symbol) -> list[Symbol]:
        """``low`` to ``high`` times (None: any number of times) a comma and the item, then ``closing``."""
        must = [self._comma, item] * low if low <= _CHAIN else self._exactly(item, low)
        if high is None:
            return [*must, self._loop(item, closing)]
        free = high - low
        if free <= _CHAIN:
            return [*must, self._at_most(item, free, closing)]
        return [*must, *self._fewer(item, free + 1), closing]

    def _loop(self, item: Symbol, closing: Symbol) -> Symbol:
        """Any number of further items, then the closing bracket."""
        loop = self._loops.get((item, closing))
        if loop is None:
            loop = self._loops[item, closing] = self.ir.nonterminal("items")
            self.ir.rule(loop, [closing])
            self.ir.rule(loop, [self._comma, item, loop])
        return loop

    def _at_most(self, item: Symbol, count: int, closing: Symbol) -> Symbol:
        """At most ``count`` further items, then the closing bracket: one rule more per count, shared by all counts."""
        symbol = closing
        for n in range(1, count + 1):
            longer = self._steps.get((item, n, closing))
            if longer is None:
                longer = self._steps[item, n, closing] = self.ir.nonterminal("items")
                self.ir.rule(longer, [closing])
                self.ir.rule(longer, [self._comma, item, symbol])
            symbol = longer
        return symbol

    def _power(self, item: Symbol, exponent: int) -> Symbol:
        """Exactly 2**exponent further items."""
        symbol: Symbol | None = None
        for n in range(exponent + 1):
            found = self._counts.get(("power", item, n))
            if found is None:
                found = self._counts[("power", item, n)] = self.ir.nonterminal("items")
                self.ir.rule(found, [self._comma, item] if symbol is None else [symbol, symbol])
            symbol = found
        assert symbol is not None
        return symbol

    def _exactly(self, item: Symbol, count: int) -> list[Symbol]:
        return [self._power(item, n) for n in range(count.bit_length() - 1, -1, -1) if count >> n & 1]

    def _fewer(self, item: Symbol, count: int) -> list[Symbol]:
        """Fewer than ``count`` further items, without ambiguity: the binary digits of ``count`` from the top.

        ``below(2**k)`` is ``below(2**(k-1)) | power(k-1) below(2**(k-1))``.
        """
        ir = self.ir
        smaller: list[Symbol] | None = None
        for n in range(count.bit_length()):
            if not count >> n & 1:
                continue
            below = self._below_power(item, n)
            if smaller is None:
                smaller = below
                continue
            both = ir.nonterminal("items")
            ir.rule(both, below)
            ir.rule(both, [self._power(item, n), *smaller])
            smaller = [both]
        return smaller or []

    def _below_power(self, item: Symbol, exponent: int) -> list[Symbol]:
        """Fewer than 2**exponent further items."""
        below: list[Symbol] = []
        for n in range(1, exponent + 1):
            found = self._counts.get(("below", item, n))
            if found is None:
                found = self._counts[("below", item, n)] = self.ir.nonterminal("items")
                self.ir.rule(found, below)
                self.ir.rule(found, [self._power(item, n - 1), *below])
            below = [found]
        return below
