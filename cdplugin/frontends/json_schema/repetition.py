"""Members and items without a memory: declared names in order, then further ones; repeated items.

Small counts become chains of rules, large ones O(log n) rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.frontends.repeats import CHAIN, SymbolRepeats
from cdplugin.ir import GrammarIR, Symbol


class Commas:
    """Writes repetitions of ``comma item`` before a closing bracket. Equal counts share their rules."""

    def __init__(self, ir: GrammarIR, comma: Symbol) -> None:
        self.ir = ir
        self._comma = comma
        self._loops: dict[tuple[Symbol, Symbol], Symbol] = {}
        self._steps: dict[tuple[Symbol, int, Symbol], Symbol] = {}
        self._pairs: dict[Symbol, Symbol] = {}
        self._large = SymbolRepeats(ir, "items")

    def copy(self, ir: GrammarIR) -> Commas:
        """A copy that writes into ``ir``, which has the loops written so far."""
        other = Commas(ir, self._comma)
        other._loops.update(self._loops)
        return other

    def many(self, item: Symbol, low: int, high: int | None, closing: Symbol) -> list[Symbol]:
        """A comma and the item, ``low`` to ``high`` times (None: no bound), then ``closing``."""
        must = [self._comma, item] * low if low <= CHAIN else self._large.exactly(self._pair(item), low)
        if high is None:
            return [*must, self._loop(item, closing)]
        free = high - low
        if free <= CHAIN:
            return [*must, self._at_most(item, free, closing)]
        return [*must, *self._large.fewer(self._pair(item), free + 1), closing]

    def _loop(self, item: Symbol, closing: Symbol) -> Symbol:
        """Any number of further items, then the closing bracket: right-recursive."""
        loop = self._loops.get((item, closing))
        if loop is None:
            loop = self._loops[item, closing] = self.ir.nonterminal("items")
            self.ir.rule(loop, [closing])
            self.ir.rule(loop, [self._comma, item, loop])
        return loop

    def _at_most(self, item: Symbol, count: int, closing: Symbol) -> Symbol:
        """At most ``count`` further items, then the closing bracket: one rule more for each count, shared with larger ones."""
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
"""A declared or required name: its key, its value, and whether it is required."""


def sequence(
    ir: GrammarIR,
    entries: Sequence[Declared],
    further: Sequence[tuple[Symbol, Symbol]],
    comma: Symbol,
    closings: tuple[Symbol, Symbol],
    pointer: str,
) -> Symbol:
    """The symbol for what follows the opening brace. ``further``: pairs of key and value; ``closings``: for an empty object,
    and for a non-empty one.

    It is written from the end: ``after`` is what follows an earlier member, ``first`` what may follow the brace. Both are kept
    in reverse, since they grow at the front.
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
    # No entry after the first required one can come first.
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
