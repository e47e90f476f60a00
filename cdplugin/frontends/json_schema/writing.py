"""The common base of the writers for arrays and objects: places, levels of indentation, and the worklist.

A *place* is a set of subschemas that apply to one value (:class:`cdplugin.frontends.json_schema.shapes.Place`). Its scalars
become one lexeme. Arrays and objects become a nonterminal that is written later, from a worklist, so nothing recurses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdplugin.expr import Expr
from cdplugin.frontends.json_schema.distinct_items import DistinctItems
from cdplugin.frontends.json_schema.distinct_values import CLOSE, NOTHING
from cdplugin.frontends.json_schema.layout import MOST_LEVELS, Layout
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.repetition import Commas
from cdplugin.frontends.json_schema.schema import Subschema
from cdplugin.frontends.json_schema.shapes import Place, Shaper
from cdplugin.frontends.json_schema.sharing import MergeBudget
from cdplugin.frontends.json_schema.signs import Signs
from cdplugin.ir import GrammarIR, Symbol


class Level:
    """The structural lexemes of one depth; without indentation there is a single level."""

    def __init__(self, ir: GrammarIR, signs: Signs, layout: Layout, number: int) -> None:
        self.layout = layout
        self.number = number
        self.close_brace = signs.note(ir.lexeme(layout.close_brace, "}"), CLOSE)
        self.close_bracket = signs.note(ir.lexeme(layout.close_bracket, "]"), CLOSE)
        self.empty_brace = signs.note(ir.lexeme(layout.empty_brace, "}"), CLOSE)
        self.empty_bracket = signs.note(ir.lexeme(layout.empty_bracket, "]"), CLOSE)
        self.keys: dict[str, Symbol] = {}  # of declared names
        self.scalars: dict[tuple[Expr, bool], Symbol] = {}  # lexemes by expression and whether they lack leading white space

    def copy(self) -> Level:
        """A copy to which keys and scalars may be added."""
        other = object.__new__(Level)
        vars(other).update(vars(self), keys=self.keys.copy(), scalars=self.scalars.copy())
        return other


class Writing:
    """The state of writing, and the symbols of the places."""

    def __init__(
        self,
        reader: Reader,
        layout: Layout,
        ir: GrammarIR,
        budget: MergeBudget,
        first: Writing | None,
    ) -> None:
        self.ir = ir
        self._reader = reader
        self._layout = layout
        self._any_order = reader.options.property_order == "any"
        self._unique_names = reader.options.unique_names
        self._shaper = Shaper(reader, layout, budget)
        self._pending: list[tuple[Place, bool, Level]] = []
        self._bodies: dict[tuple[str, frozenset[Subschema], int], Symbol | None] = {}
        self._dead = False
        self._culprit: dict[str, str] = {}
        self._signs = Signs(ir)
        self._distinct: list[DistinctItems] = []
        self._quoted: dict[Symbol, Expr] = {}  # lexemes of undeclared names -> the name with its quotes
        self._scalars: dict[Symbol, Expr | None] = {}  # values of such names -> their scalars
        if first is None:
            self._comma = self._signs.note(ir.lexeme(layout.comma, ","), NOTHING)
            self._repeats = Commas(ir, self._comma)
            self._levels = [Level(ir, self._signs, layout, 0)]
        else:
            self._go_on(first)
        self._here = self._inner = self._levels[0]  # of the array or object that is being written, and of its content
        self._bare_members = layout.indent is not None
        self._listed: dict[Subschema, list[str] | None] = {}

    def _go_on(self, first: Writing) -> None:
        """Copy what ``first`` has written: any JSON value."""
        self.ir.begin(first.ir)
        self._signs.begin(first._signs)
        self._quoted.update(first._quoted)
        self._comma = first._comma
        self._repeats = first._repeats.copy(self.ir)
        self._levels = [first._levels[0].copy()]
        self._bodies.update(first._bodies)
        self._shaper.begin(first._shaper.place(()))

    def _symbol(self, place: Place, bare: bool = False) -> Symbol | None:
        """The symbol of a place inside the current array or object, with leading white space unless ``bare``; None if it is
        known that nothing fits there.
        """
        level = self._inner
        key = 2 * level.number + bare
        found = place.symbols.get(key)
        if found is not None:
            return found
        if not place.split:
            self._shaper.split(place)
        if (not place.arrays and not place.objects) or level.number > MOST_LEVELS:
            if place.scalar is None:
                return None
            found = self._scalar(place.scalar, bare, level, place.constants)
            if place.parts:
                self.ir.locate(found, self.ir.at(place.pointer))
        else:
            pointer = place.pointer
            found = self.ir.nonterminal(pointer, self.ir.at(pointer) if place.parts else ())
            self._pending.append((place, bare, level))
        place.symbols[key] = found
        return found

    def _nonterminal(self, pointer: str, name: str | None = None) -> Symbol:
        """A nonterminal of the subschema at ``pointer``; the pointer is its name unless it has one."""
        return self.ir.nonterminal(pointer if name is None else name, self.ir.at(pointer))

    def _scalar(self, scalar: Expr, bare: bool, level: Level, constants: Sequence[Any]) -> Symbol:
        """The lexeme of scalars, and of the listed arrays and objects ``constants``."""
        symbol = level.scalars.get((scalar, bare))
        if symbol is None:
            expression = scalar if bare else level.layout.value(scalar)
            symbol = level.scalars[scalar, bare] = self.ir.lexeme(expression, "value")
        elif not constants:
            return symbol
        self._signs.note_scalar(symbol, scalar, level.layout, bare, constants)
        return symbol

    def _level(self, number: int) -> Level:
        if number == len(self._levels):
            self._levels.append(Level(self.ir, self._signs, self._levels[-1].layout.deeper(), number))
        return self._levels[number]
