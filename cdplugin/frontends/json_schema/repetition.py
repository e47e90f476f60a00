"""Items that repeat: chains of rules for small counts, O(log n) rules for large ones."""

from __future__ import annotations

from cdplugin.frontends.repeats import CHAIN, SymbolRepeats
from cdplugin.ir import GrammarIR, Symbol


class Commas:
    """Writes repetitions of ``comma item`` before a closing bracket; rules for equal counts are shared."""

    def __init__(self, ir: GrammarIR, comma: Symbol) -> None:
        self.ir = ir
        self._comma = comma
        self._loops: dict[tuple[Symbol, Symbol], Symbol] = {}
        self._steps: dict[tuple[Symbol, int, Symbol], Symbol] = {}
        self._pairs: dict[Symbol, Symbol] = {}
        self._large = SymbolRepeats(ir, "items")

    def copy(self, ir: GrammarIR) -> Commas:
        """The same for an IR that has the loops written so far."""
        other = Commas(ir, self._comma)
        other._loops.update(self._loops)
        return other

    def many(self, item: Symbol, low: int, high: int | None, closing: Symbol) -> list[Symbol]:
        """``low`` to ``high`` times (None: any number of times) a comma and the item, then ``closing``."""
        must = [self._comma, item] * low if low <= CHAIN else self._large.exactly(self._pair(item), low)
        if high is None:
            return [*must, self._loop(item, closing)]
        free = high - low
        if free <= CHAIN:
            return [*must, self._at_most(item, free, closing)]
        return [*must, *self._large.fewer(self._pair(item), free + 1), closing]

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

    def _pair(self, item: Symbol) -> Symbol:
        """A comma and the item."""
        pair = self._pairs.get(item)
        if pair is None:
            pair = self._pairs[item] = self.ir.nonterminal("items")
            self.ir.rule(pair, [self._comma, item])
        return pair
