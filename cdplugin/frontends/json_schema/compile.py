"""Compile a JSON Schema into rules over lexemes.

The grammar is complete up to these choices of serialisation (the caller's are in :class:`Options`): properties come in schema
order, then required names that are not declared, then further names; there is no white space around the whole value; numbers
are written as ``numbers.py`` says, fixed texts as ``json.dumps`` spells them, names as ``objects.py`` says.

:func:`compile_schema` tries the cheapest way first: the shortcut of ``usual``, then a plain compilation, then, where merging
multiplies subschemas, one that shares equal parts, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.frontends.json_schema.arrays import Arrays
from cdplugin.frontends.json_schema.barren import drop_barren
from cdplugin.frontends.json_schema.distinct_values import OPEN_LIST, OPEN_OBJECT
from cdplugin.frontends.json_schema.layout import layout_of
from cdplugin.frontends.json_schema.objects import Objects
from cdplugin.frontends.json_schema.options import USUAL, Options
from cdplugin.frontends.json_schema.reader import Reader, check_loops
from cdplugin.frontends.json_schema.schema import Subschema, contradiction
from cdplugin.frontends.json_schema.shapes import Alternative, Place
from cdplugin.frontends.json_schema.sharing import Attempt, MergeBudget, MultipliesError, located, share_equal_parts
from cdplugin.frontends.json_schema.source import load_schema
from cdplugin.frontends.json_schema.usual import write_usual
from cdplugin.frontends.json_schema.usual_reader import UNUSUAL
from cdplugin.frontends.json_schema.writing import Level
from cdplugin.ir import GrammarIR, Symbol
from cdplugin.limits import Limits
from cdplugin.memory import fixed_cache
from cdplugin.tally import apart

WITH_SHORTCUT = True
"""Whether :func:`write_usual` may write usual schemas. The rules are the same without it (a switch for tests)."""
_ALTERNATIVES, _COMPLEMENTS = frozenset(("oneOf", "anyOf")), frozenset(("oneOf", "not", "if"))
_SHARED_AT_ONCE = 4_000
"""A schema with alternatives of at least this many bytes skips the attempt without sharing: reading it twice
would take longer.
"""
_MOST_AT_FIRST = 1_000
"""An upper bound of the rules and of the lexemes that :func:`_first_writer` writes."""


_UNSATISFIABLE = "unsatisfiable schema: no JSON value is valid here"
_USUAL_LAYOUT = (USUAL.whitespace, USUAL.separators, USUAL.indent, USUAL.gaps)


def compile_schema(
    schema: Any, options: Options | None = None, limits: Limits | None = None, ir: GrammarIR | None = None
) -> GrammarIR:
    """Compile a JSON Schema (dict, bool, JSON text or pydantic model class), into ``ir`` if one is given.

    Raises ``GrammarError`` for a schema that is wrong or that nothing satisfies, ``UnsupportedError`` for a keyword that is not
    enforced, ``LimitExceeded`` for one that is too large or too deep; each with a JSON Pointer.
    """
    options = options or USUAL
    limits = limits or Limits()
    names: set[str] = set()
    document, size = load_schema(schema, limits, names)
    into = ir or GrammarIR()
    spent, n_rules = into.spent, len(into.rules)
    into.count_text(size, limits)

    def again() -> GrammarIR:
        """The IR for another attempt: as the first attempt found it, but with the work spent so far."""
        if ir is not None:
            del ir.rules[n_rules:]
            return ir
        new = GrammarIR()
        new.spent = spent
        return new

    if ir is None and WITH_SHORTCUT and options == USUAL and type(document) is dict and UNUSUAL.isdisjoint(names):
        is_small = max(_MOST_AT_FIRST, size) <= min(limits.max_rules, limits.max_lexemes)
        if is_small and write_usual(document, limits, into, _first_writer()):
            return into
        into = again()
    budget = MergeBudget(limits, size, spent)
    if size < _SHARED_AT_ONCE or _ALTERNATIVES.isdisjoint(names):
        try:
            return _compile(document, options, limits, into, budget)
        except MultipliesError:
            into = again()
    document = share_equal_parts(document)
    try:
        return _compile(document, options, limits, into, budget.begin(Attempt.DISJOINT))
    except MultipliesError as error:
        multiplied = error.plain()
    if "properties" in names and not _COMPLEMENTS.isdisjoint(names):  # only then this attempt differs
        with suppress(LimitExceeded):
            return _compile(document, options, limits, again(), budget.begin(Attempt.LAST))
    if options.on_unsupported == "relax" and "oneOf" in names:
        with suppress(LimitExceeded):
            return _compile(document, options, limits, again(), budget.begin(Attempt.RELAXED))
    raise multiplied


def allows_nothing(schema: Any, limits: Limits) -> bool:
    """Whether a schema provably has no instance. False where that was not found out."""
    try:
        compile_schema(schema, None, limits)
    except GrammarError as error:
        return error.message == _UNSATISFIABLE
    return False


def check_schema(schema: Any, limits: Limits) -> Reader:
    """Check all of ``schema``, reachable or not; returns its reader. Raises as :func:`compile_schema` for
    malformed keywords.
    """
    document, _ = load_schema(schema, limits)
    reader = Reader(document, Options(), limits)
    reader.read_all()
    return reader


def _compile(document: dict | bool, options: Options, limits: Limits, ir: GrammarIR, budget: MergeBudget) -> GrammarIR:
    """The rules of a document that :func:`load_schema` has checked."""
    reader = Reader(document, options, limits)
    root = reader.read_all()
    of_layout = (options.whitespace, options.separators, options.indent, options.gaps)
    is_usual = options.property_order == "schema" and not options.unique_names and of_layout == _USUAL_LAYOUT
    is_free = not ir.names and not ir.lexemes and ir.restriction is None
    is_alone = is_free and min(limits.max_rules, limits.max_lexemes) >= _MOST_AT_FIRST
    first = _first_writer() if is_usual and is_alone else None
    layout = layout_of(*of_layout) if first is None else first._layout
    writer = _Writer(reader, layout, ir, budget, first)
    try:
        return writer.write(root)
    finally:
        writer.release()


@fixed_cache(1, entry_bytes=50_000)
def _first_writer() -> _Writer:
    """A writer that has written any JSON value in the usual layout, and so has the lexemes that base arenas know."""
    limits, ir = Limits(), GrammarIR()
    with apart():
        reader = Reader(True, USUAL, limits)
        writer = _Writer(reader, layout_of(*_USUAL_LAYOUT), ir, MergeBudget(limits, 0, ir.spent), None)
        writer.write_place(())
    return writer


class _Writer(Objects, Arrays):
    """Writes the rules of all places reachable from the root, with a worklist in place of recursion."""

    def write(self, root: Subschema) -> GrammarIR:
        """Write everything and set the start symbol."""
        if self._reader.has_references:
            check_loops(self._reader.subschemas)
        start = self.write_place((root,), bare=True)
        if start is None:
            raise self._unsatisfiable(root.pointer)
        if start < 0:  # a single lexeme
            whole = self.ir.nonterminal("value")
            self.ir.rule(whole, [start])
            start = whole
        self.ir.start = start
        self.ir.json_values.add(start)
        if self._dead or self._reader.has_references or self.ir.instances:
            productive = drop_barren(self.ir)
            if productive is not None:
                raise self._unsatisfiable(self._blame(productive))
        if self._distinct:
            by_left: dict[Symbol, list[tuple[Symbol, ...]]] = {}
            for left, right in self.ir.rules:
                by_left.setdefault(left, []).append(right)
            for distinct in self._distinct:
                distinct.finish(by_left)
            for distinct in self._distinct:
                distinct.check_counts()
        self.ir.relaxed = [*self._reader.documents.relaxed, *self._shaper.relaxed]
        return self.ir

    def write_place(self, parts: Sequence[Subschema], bare: bool = False) -> Symbol | None:
        """The symbol of the place of ``parts``, after writing all rules that it leads to; None if nothing fits there."""
        symbol = self._symbol(self._shaper.place(parts), bare)
        pending, rules, limit = self._pending, self.ir.rules, self._reader.limits.max_rules
        while pending:
            place, is_bare, level = pending.pop()
            try:
                self._write_place(place, is_bare, level)
            except LimitExceeded as error:
                raise located(error, place.pointer) from None
            if len(rules) > limit:
                raise LimitExceeded("schema too large", expected=f"at most Limits.max_rules = {limit}", location=place.pointer)
        return symbol

    def release(self) -> None:
        """Drop all references. The writer's parts form reference cycles, so their memory would be freed only by the cyclic
        collector, and fresh memory is slow.
        """
        self._shaper.release()

    def _write_place(self, place: Place, bare: bool, level: Level) -> None:
        symbol, ir, layout = place.symbols[2 * level.number + bare], self.ir, level.layout
        self._here, self._inner = level, level if layout.indent is None else self._level(level.number + 1)
        if place.scalar is not None:
            scalar = self._scalar(place.scalar, bare, level, place.constants)
            if place.parts:
                ir.locate(scalar, ir.at(place.pointer))
            ir.rule(symbol, [scalar])
        if place.objects:
            opening = self._signs.note(ir.lexeme(layout.bare_brace if bare else layout.open_brace, "{"), OPEN_OBJECT)
            for alternative in place.objects:
                body = self._body("object", alternative, place.pointer)
                if body is not None:
                    ir.rule(symbol, [opening, body])
        if place.arrays:
            opening = self._signs.note(ir.lexeme(layout.bare_bracket if bare else layout.open_bracket, "["), OPEN_LIST)
            for alternative in place.arrays:
                body = self._body("array", alternative, place.pointer)
                if body is not None:
                    ir.rule(symbol, [opening, body])

    def _body(self, kind: str, alternative: Alternative, pointer: str) -> Symbol | None:
        """What follows the opening bracket, or None if nothing fits. Equal sets of subschemas share one symbol."""
        key = (kind, frozenset(alternative), self._here.number)
        if key not in self._bodies:
            write = self._object if kind == "object" else self._array
            body = self._bodies[key] = write(alternative, pointer)
            self._dead = self._dead or body is None
        return self._bodies[key]

    def _blame(self, productive: set[Symbol]) -> str:
        """The pointer of the innermost place that nothing satisfies, on the way from the start."""
        rules: dict[Symbol, tuple[Symbol, ...]] = {}
        for left, right in self.ir.rules:
            rules.setdefault(left, right)
        symbol, pointer = self.ir.start, ""
        seen: set[Symbol] = set()
        while symbol not in seen:
            seen.add(symbol)
            pointer = pointer if symbol in self.ir.instances else self.ir.names[symbol] or pointer
            for needed in rules.get(symbol, ()):
                if needed >= 0 and needed not in productive:
                    symbol = needed
                    break
        while pointer in self._culprit:
            pointer = self._culprit.pop(pointer)
        return pointer

    def _unsatisfiable(self, pointer: str) -> GrammarError:
        why = next((why for sub in self._reader.subschemas if sub.pointer == pointer and (why := contradiction(sub))), "")
        return GrammarError(_UNSATISFIABLE, location=pointer, found=why)
