"""Members and items without a memory: declared names in their order, then further ones; items that repeat.

Small counts are chains of rules, large ones O(log n) rules.
"""

from __future__ import annotations

from collections.abc import Sequence

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
        """A copy that writes into an IR which has the loops written so far."""
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


Declared = tuple[Symbol, Symbol, bool]
"""A declared or required name: the symbols of its key and of its value, and whether it is required."""


def sequence(
    ir: GrammarIR,
    entries: Sequence[Declared],
    further: Sequence[tuple[Symbol, Symbol]],
    comma: Symbol,
    closings: tuple[Symbol, Symbol],
    pointer: str,
) -> Symbol:
    """What follows the opening brace. ``further``: keys and values; ``closings``: of an empty object, and of another.

    Written from the end: ``after`` is what follows once a member was written, ``first`` what may stand right after the
    brace. Both are kept reversed, as they grow at their front.
    """
    rule, nonterminal, where = ir.rules.append, ir.nonterminal, ir.at(pointer)
    after, first = [closings[1]], [closings[0]]
    if further:
        more, start = nonterminal("members", where), nonterminal("members", where)
        ir.rules += ((more, (closings[1],)), (start, (closings[0],)))
        for key, value in further:
            rule((more, (comma, key, value, more)))
            rule((start, (key, value, more)))
        after, first = [more], [start]
    # The last entry that may come first is the first required one.
    opening = len(entries)
    for i, entry in enumerate(entries):
        if entry[2]:
            opening = i
            break
    for i in range(len(entries) - 1, -1, -1):
        key, item, required = entries[i]
        if i <= opening:
            if required:
                first = [*after, item, key]
            else:
                choice = nonterminal(pointer, where)
                rule((choice, (key, item, *after[::-1])))
                rule((choice, (*first[::-1],)))
                first = [choice]
        if required:
            after += (item, key, comma)
        else:
            choice = nonterminal(pointer, where)
            rule((choice, (comma, key, item, *after[::-1])))
            rule((choice, (*after[::-1],)))
            after = [choice]
    body = nonterminal(pointer, where)
    rule((body, (*first[::-1],)))
    return body
