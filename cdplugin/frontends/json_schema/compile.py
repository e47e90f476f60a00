"""From a JSON Schema to rules over lexemes.

Serialisation choices, up to which the grammar is complete (:class:`Options` has those of the caller): properties in schema
order, then required names that are not declared, then further names; no whitespace before or after the whole value; numbers as
``numbers.py`` says; fixed texts as ``json.dumps`` spells them. Declared names occur at most once. *Further* names, which
``additionalProperties`` allows, may repeat: each value is then valid by itself, so that the one a reader keeps is valid too.
Under ``unique_names``, and where ``minProperties`` or a complement counts on it, they are told apart (``_told_apart``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.expr import EMPTY, Expr, both, cat
from cdplugin.frontends.json_schema.any_order import ManyMembers, are_many
from cdplugin.frontends.json_schema.distinct import PLAIN_TEXTS, Unique, distinct_item, read_value
from cdplugin.frontends.json_schema.distinct_items import DistinctItems
from cdplugin.frontends.json_schema.distinct_values import CLOSE, KEY, NOTHING, OPEN_LIST, OPEN_OBJECT, VALUE, frozen
from cdplugin.frontends.json_schema.layout import MOST_LEVELS, Layout, layout_of
from cdplugin.frontends.json_schema.matching import texts_of
from cdplugin.frontends.json_schema.members import Distinct, DistinctKey, Entry, Further, Items, Members, Wanted, are_several
from cdplugin.frontends.json_schema.names import allowed_by_names, children_of, classes_of
from cdplugin.frontends.json_schema.options import Options
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.repetition import Commas
from cdplugin.frontends.json_schema.schema import ArrayPart, ObjectPart, Subschema
from cdplugin.frontends.json_schema.shapes import Alternative, Effort, MultipliesError, Place, Shaper, check_loops, located
from cdplugin.frontends.json_schema.sharing import share_equal_parts
from cdplugin.frontends.json_schema.signs import Signs
from cdplugin.frontends.json_schema.source import load_schema
from cdplugin.frontends.json_schema.strings import QUOTE, STRING, other_text, sizes
from cdplugin.frontends.productive import Productive
from cdplugin.ir import MOST_COUNTED, GrammarIR, Symbol, ValueReader
from cdplugin.limits import Limits
from cdplugin.regex.alphabet import JSON_CANONICAL

_MOST_WANTED = 6
"""Conditions "some item is such" on one array: each item stands for one of their subsets."""
_MOST_MET, _MOST_LOOSE = 12, 6
"""Conditions "some member is such" that one member may meet: it stands for each of their subsets. Where an object has more of
them than the second, a member stands for one subset only."""
_MOST_LEFT = 0.8
"""The part of the rules that a round over all may leave, where it is looked for whether they derive a text: else it is found by
counting."""
_MOST_LISTED = 64
"""Names that are declared by a complement or a pattern, if these allow few, where it matters which ones there are."""
_MOST_COUNTED = 3
"""The same where items that match are counted (above one): which counts are still open is searched for."""
_MOST_STATES = 2_000
"""Combinations of counts of several ``contains``."""


def compile_schema(
    schema: Any, options: Options | None = None, limits: Limits | None = None, ir: GrammarIR | None = None
) -> GrammarIR:
    """Compile a JSON Schema (dict, bool, JSON text or pydantic model class), into ``ir`` if one is given.

    Raises ``GrammarError`` for a schema that is wrong or that nothing satisfies, ``UnsupportedError`` for a keyword that is not
    enforced, ``LimitExceeded`` for one that is too large or too deep; each with a JSON Pointer.
    """
    options = options or Options()
    limits = limits or Limits()
    document, size = load_schema(schema, limits)
    first = ir or GrammarIR()
    first.count_text(size, limits)
    effort = Effort(limits, size, first.spent)
    n_rules = len(first.rules)
    try:
        return _compile(document, options, limits, first, effort)
    except MultipliesError:
        if ir is None:
            ir = GrammarIR()
            ir.spent = first.spent
        else:
            del ir.rules[n_rules:]
        return _compile(share_equal_parts(document), options, limits, ir, effort.again())


def check_schema(schema: Any, limits: Limits) -> None:
    """Raise as :func:`compile_schema` does for keywords of the wrong form, wherever they are in ``schema``."""
    document, _ = load_schema(schema, limits)
    Reader(document, Options(), limits).read_all()


def _compile(document: dict | bool, options: Options, limits: Limits, ir: GrammarIR, effort: Effort) -> GrammarIR:
    """The rules of a document that is sound as a value."""
    reader = Reader(document, options, limits)
    root = reader.read_all()
    writer = _Writer(reader, options, limits, ir, effort)
    try:
        return writer.write(root)
    finally:
        writer.release()


def compile_json_object(options: Options | None = None, limits: Limits | None = None, ir: GrammarIR | None = None) -> GrammarIR:
    """Any JSON object."""
    return compile_schema({"type": "object"}, options, limits, ir)


Condition = tuple[Subschema, Subschema]
"""Some member's name is valid under the one, and its value under the other."""


def _subsets(conditions: Sequence[Condition], among: int) -> Iterable[tuple[int, list[Condition]]]:
    """The subsets, each with its bit set, of the conditions in the bit set ``among``."""
    numbers = [k for k in range(len(conditions)) if among >> k & 1]
    for chosen in range(1 << len(numbers)):
        some = [k for i, k in enumerate(numbers) if chosen >> i & 1]
        yield sum(1 << k for k in some), [conditions[k] for k in some]


def _is_about_all(named: Subschema, declared: Iterable[str]) -> bool:
    """Whether a condition is plainly about all names but declared ones."""
    says_more = named.values is not None or named.text is not None or named.unlike or not named.is_alone()
    return not says_more and set(named.excluded) <= set(declared)


class _Level:
    """The structural lexemes of arrays and objects at one depth; without indentation all are at the same."""

    def __init__(self, ir: GrammarIR, signs: Signs, layout: Layout, number: int) -> None:
        self.layout = layout
        self.number = number
        self.close_brace = signs.note(ir.lexeme(layout.close_brace, "}"), CLOSE)
        self.close_bracket = signs.note(ir.lexeme(layout.close_bracket, "]"), CLOSE)
        self.empty_brace = signs.note(ir.lexeme(layout.empty_brace, "}"), CLOSE)
        self.empty_bracket = signs.note(ir.lexeme(layout.empty_bracket, "]"), CLOSE)
        self.keys: dict[str, Symbol] = {}  # of declared names
        self.scalars: dict[tuple[Expr, bool], Symbol] = {}  # lexemes of values, by whether they are bare
        self.plain: dict[tuple[int, bool, bool], Symbol] = {}  # those of subschemas that say nothing but the types


class _Writer:
    """Writes the rules of all places that the root reaches. A worklist; nothing recurses."""

    def __init__(self, reader: Reader, options: Options, limits: Limits, ir: GrammarIR, effort: Effort) -> None:
        self.ir = ir
        self._reader = reader
        self._layout = layout_of(options.whitespace, options.separators, options.indent, options.gaps)
        self._limits = limits
        self._any_order = options.property_order == "any"
        self._unique_names = options.unique_names
        self._shaper = Shaper(reader, self._layout, options.on_unsupported, effort)
        self._pending: list[tuple[Place, bool, _Level]] = []
        self._bodies: dict[tuple[str, frozenset[Subschema], int], Symbol | None] = {}
        self._dead = False
        self._culprit: dict[str, str] = {}
        self._signs = Signs(ir)
        self._distinct: list[DistinctItems] = []
        self._comma = self._signs.note(ir.lexeme(self._layout.comma, ","), NOTHING)
        self._repeats = Commas(ir, self._comma)
        self._levels = [_Level(ir, self._signs, self._layout, 0)]
        self._here = self._inner = self._levels[0]  # of the array or object that is being written, and of what is in it
        self._bare_members = self._layout.indent is not None
        self._listed: dict[Subschema, list[str] | None] = {}
        self._quoted: dict[Symbol, Expr] = {}  # lexemes of names that are not declared -> the name in its quotes

    def write(self, root: Subschema) -> GrammarIR:
        """Write everything and set the start symbol."""
        if self._reader.has_references:
            check_loops(self._reader.subschemas)
        start = self._symbol(self._shaper.place((root,)), bare=True)
        pending, rules, limit = self._pending, self.ir.rules, self._limits.max_rules
        while pending:
            place, bare, level = pending.pop()
            try:
                self._write_place(place, bare, level)
            except LimitExceeded as error:
                raise located(error, place.pointer) from None
            if len(rules) > limit:
                raise LimitExceeded("schema too large", expected=f"at most Limits.max_rules = {limit}", location=place.pointer)
        if start is None:
            raise self._unsatisfiable(root.pointer)
        if start < 0:  # a single lexeme
            whole = self.ir.nonterminal("value")
            self.ir.rule(whole, [start])
            start = whole
        self.ir.start = start
        self.ir.json_values.add(start)
        if self._dead or self._reader.has_references or self.ir.instances:
            self._drop_unproductive()
        if self._distinct:
            by_left: dict[Symbol, list[tuple[Symbol, ...]]] = {}
            for left, right in self.ir.rules:
                by_left.setdefault(left, []).append(right)
            for distinct in self._distinct:
                distinct.finish(by_left)
        self.ir.relaxed = [*self._reader.documents.relaxed, *self._shaper.relaxed]
        return self.ir

    def release(self) -> None:
        """Let go of everything. Its parts refer to each other in circles: what a schema took would be free only when Python's
        collector comes by, and fresh memory is slow.
        """
        self._shaper.release()

    # Values

    def _symbol(self, place: Place, bare: bool = False) -> Symbol | None:
        """The symbol of a place inside what is being written (with leading whitespace unless ``bare``); None when it is known
        that nothing fits there.
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
                self.ir.locate(found, place.pointer)
        else:
            pointer = place.pointer
            found = self.ir.nonterminal(pointer, pointer if place.parts else None)
            self._pending.append((place, bare, level))
        place.symbols[key] = found
        return found

    def _nonterminal(self, pointer: str, name: str | None = None) -> Symbol:
        """A nonterminal of the subschema at ``pointer``, after which it is named unless it has a name."""
        return self.ir.nonterminal(pointer if name is None else name, pointer)

    def _scalar(self, scalar: Expr, bare: bool, level: _Level, constants: Sequence[Any]) -> Symbol:
        """The lexeme of scalars, and of ``constants``, arrays and objects that are listed."""
        symbol = level.scalars.get((scalar, bare))
        if symbol is None:
            expression = scalar if bare else level.layout.value(scalar)
            symbol = level.scalars[scalar, bare] = self.ir.lexeme(expression, "value")
        elif not constants:
            return symbol
        self._signs.note_scalar(symbol, scalar, level.layout, bare, constants)
        return symbol

    def _level(self, number: int) -> _Level:
        if number == len(self._levels):
            self._levels.append(_Level(self.ir, self._signs, self._levels[-1].layout.deeper(), number))
        return self._levels[number]

    def _write_place(self, place: Place, bare: bool, level: _Level) -> None:
        symbol, ir, layout = place.symbols[2 * level.number + bare], self.ir, level.layout
        self._here, self._inner = level, level if layout.indent is None else self._level(level.number + 1)
        if place.scalar is not None:
            scalar = self._scalar(place.scalar, bare, level, place.constants)
            if place.parts:
                ir.locate(scalar, place.pointer)
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
        """What follows the opening bracket, or None if nothing fits; the same subschemas give the same symbol."""
        key = (kind, frozenset(alternative), self._here.number)
        if key not in self._bodies:
            write = self._object if kind == "object" else self._array
            body = self._bodies[key] = write(alternative, pointer)
            self._dead = self._dead or body is None
        return self._bodies[key]

    # Objects

    def _object(self, alternative: Alternative, pointer: str) -> Symbol | None:
        """The members and the closing brace, or None if no object fits."""
        only = alternative[0].object if len(alternative) == 1 else None
        if only is not None and only.is_usual() and not (self._any_order or self._unique_names):
            return self._usual_object(only, pointer)
        parts = [sub.object for sub in alternative if sub.object is not None]
        names: dict[str, bool] = {}  # declared or required names in order; whether required
        for part in parts:
            for name in part.properties:
                names.setdefault(name, False)
        for part in parts:
            for name in part.required:
                names[name] = True
        conditions = list(dict.fromkeys(some for part in parts for some in part.some))
        if len(alternative) > 1:
            self._shaper.count(8 + len(names))
        open_ = 0  # conditions that a member may meet whose name is not declared
        for k, (named, _) in enumerate(conditions):
            few = self._few_names(named)
            open_ |= (few is None) << k
            if few is None and len(named.excluded) <= _MOST_LISTED:
                few = [name for name in named.excluded if isinstance(name, str)]
            names.update((name, names.get(name, False)) for name in few or ())
        entries = self._entries(names, parts, conditions, pointer)
        if entries is None:
            return None
        low = max((part.low for part in parts), default=0)
        further = self._undeclared(names, parts, conditions, open_)
        if self._unique_names or low > max(1, sum(names.values())) or are_several(open_.bit_count(), further, self._is_endless):
            few = []
            if any(part.patterns or part.names for part in parts):
                few = [name for more in further if not more.marks for name in self._few(self._quoted[more.key]) or ()]
            if few:  # these are told apart as declared names are
                names.update(dict.fromkeys(few, False))
                entries = self._entries(names, parts, conditions, pointer) or []
                further = self._undeclared(names, parts, conditions, open_)
            location = next((s.pointer for s in alternative if s.object is not None and s.object.low == low), pointer)
            further = [self._told_apart(more, low, location, parts) for more in further]
        low, high = self._member_counts(parts, entries, further)
        is_told_apart = any(more.distinct is not None for more in further)
        if conditions or low or high is not None or is_told_apart or (self._any_order and len(entries) + len(further) > 1):
            closings = (self._here.empty_brace, self._here.close_brace)
            if self._any_order and not conditions and are_many(entries, further):
                space, colon = self._inner.layout.space, self._name_parts()[1]
                many = ManyMembers(self.ir, entries, further, space, colon, self._comma, closings, low=low, high=high)
                for lead, lexeme, twin in many.lexemes():
                    self._signs.note(lead, NOTHING)
                    self._signs.note_tracked(lexeme, twin, is_key=True)
                return many.start()
            members = Members(
                self.ir,
                entries,
                further,
                self._comma,
                closings,
                ordered=not self._any_order,
                low=low,
                high=high,
                n_conditions=len(conditions),
            )
            return members.start()
        return self._sequence(entries, further, pointer)

    def _usual_object(self, part: ObjectPart, pointer: str) -> Symbol | None:
        """:meth:`_object` in a layout where members have an order, for one subschema that says what most do."""
        names = dict.fromkeys(part.properties, False)
        for name in part.required:
            names[name] = True
        entries = self._plain_entries(names, part, pointer)
        if entries is None:
            return None
        further: list[Further] = []
        child = part.additional
        if child is None or child.types:
            layout = self._inner.layout
            value = self._symbol(self._shaper.place(() if child is None else (child,)), self._bare_members)
            if value is not None:
                quoted = cat(QUOTE, other_text(names), QUOTE) if names else STRING
                key = self.ir.lexeme(layout.quoted_key(quoted) if names else layout.any_key, "key")
                self._quoted[key] = quoted
                self._signs.note_key(key, quoted, layout)
                further.append(Further(key, value, 0, 0))
        return self._sequence(entries, further, pointer)

    def _entries(
        self, names: dict[str, bool], parts: list[ObjectPart], conditions: Sequence[Condition], pointer: str
    ) -> list[Entry] | None:
        """The declared and required names with what they may hold, or None if a required one may hold nothing."""
        if not conditions and len(parts) == 1 and not parts[0].patterns and parts[0].names is None:
            return self._plain_entries(names, parts[0], pointer)
        place, holds = self._shaper.place, self._shaper.holds
        bare = self._bare_members
        limited = any(part.names is not None for part in parts)
        entries: list[Entry] = []
        for name, required in names.items():
            children = children_of(name, parts)
            values: list[tuple[Symbol, int]] = []
            if not limited or allowed_by_names(name, parts, holds):
                may_meet = [holds(named, name) for named, _ in conditions]
                if conditions:
                    self._count_subsets(sum(may_meet), len(conditions), pointer)
                among = sum(may << k for k, may in enumerate(may_meet))
                for marks, met in _subsets(conditions, among):
                    unmet = self._not_met(conditions, among & ~marks)
                    value = self._symbol(place([*children, *(wanted for _, wanted in met), *unmet]), bare)
                    if value is not None:
                        values.append((value, marks))
            if values:
                symbol = self._key(name)
                if children:
                    self.ir.locate(symbol, place(children).pointer)
                entries.append(Entry(name, symbol, tuple(values), required))
            elif required:
                self._culprit.setdefault(pointer, place(children).pointer)
                return None
        return entries

    def _plain_entries(self, names: dict[str, bool], part: ObjectPart, pointer: str) -> list[Entry] | None:
        """:meth:`_entries` where one subschema says all, and each name has one schema at most."""
        properties, additional, bare = part.properties, part.additional, self._bare_members
        plain, locate = self._inner.plain, self.ir.locate
        entries: list[Entry] = []
        for name, required in names.items():
            child = properties.get(name, additional)
            value = None
            if child is not None and child.is_plain:
                value = plain.get((child.types, child.resource.dialect.integral_floats, bare))
                where = child.pointer
            if value is None:
                place = self._shaper.place(() if child is None else (child,))
                value = self._symbol(place, bare)
                where = place.pointer
                if value is None:
                    if required:
                        self._culprit.setdefault(pointer, where)
                        return None
                    continue
                if value < 0 and child is not None and child.is_plain:
                    plain[child.types, child.resource.dialect.integral_floats, bare] = value
            elif child is not None:
                locate(value, where)
            symbol = self._key(name)
            if child is not None:
                locate(symbol, where)
            entries.append(Entry(name, symbol, ((value, 0),), required))
        return entries

    def _key(self, name: str) -> Symbol:
        """The lexeme of a declared name and the colon."""
        keys = self._inner.keys
        symbol = keys.get(name)
        if symbol is None:
            symbol = self.ir.lexeme(self._inner.layout.key(name), name)
            keys[name] = self._signs.note(symbol, (KEY, name))
        return symbol

    def _not_met(self, conditions: Sequence[Condition], among: int) -> list[Subschema]:
        """What a member's value is also valid under that meets none of the conditions in ``among``, where these are many: else
        what met some of them could have met fewer, and there would be a state for each way to see it.
        """
        if len(conditions) <= _MOST_LOOSE:
            return []
        return [self._shaper.complement(wanted) for k, (_, wanted) in enumerate(conditions) if among >> k & 1]

    def _count_subsets(self, n_met: int, n_conditions: int, pointer: str) -> None:
        """Count the work for the subsets of ``n_met`` conditions out of ``n_conditions``."""
        if n_met > _MOST_MET:
            most = f"at most {_MOST_MET} that one member may meet"
            raise LimitExceeded("too many complements apply to one object", location=pointer, expected=most)
        self._shaper.count(n_conditions + (n_met << n_met))

    def _undeclared(
        self, names: dict[str, bool], parts: list[ObjectPart], conditions: Sequence[Condition], open_: int
    ) -> list[Further]:
        """The classes of names that are not declared, by the conditions that their members meet (of those in ``open_``)."""
        layout, place, bare = self._inner.layout, self._shaper.place, self._bare_members
        further: list[Further] = []
        every = sum(_is_about_all(named, names) << k for k, (named, _) in enumerate(conditions))
        for group, (text, children) in enumerate(classes_of(names, parts, self._shaper.strings, self._shaper.share_no_text)):
            if open_:
                self._count_subsets(open_.bit_count(), len(conditions), "")
            for marks, met in _subsets(conditions, open_):
                unmet = self._not_met(conditions, open_ & ~marks & every)
                wanted = [one for _, one in met]
                value = None if text is EMPTY else self._symbol(place([*children, *wanted, *unmet]), bare)
                if value is not None:
                    name_text = text
                    if met:
                        named_text = self._shaper.strings([named for named, _ in met])
                        name_text = named_text if text is None else both(text, named_text)
                    if name_text is not EMPTY:
                        lexeme = layout.any_key if name_text is None else layout.quoted_key(name_text)
                        key = self.ir.lexeme(lexeme, "key")
                        self._quoted[key] = STRING if name_text is None else name_text
                        self._signs.note_key(key, self._quoted[key], layout)
                        further.append(Further(key, value, marks, group))
        return further

    def _few_names(self, named: Subschema) -> list[str] | None:
        """The names that are valid under a subschema, if they are few."""
        if named.values is None and named.text is None and not named.unlike and named.is_alone():
            return None
        if named not in self._listed:
            self._listed[named] = self._few(self._shaper.strings([named]))
        return self._listed[named]

    def _few(self, quoted: Expr) -> list[str] | None:
        """The names that, with their quotes, match an expression, if they are few."""
        texts, taken = texts_of(both(quoted, cat(QUOTE, JSON_CANONICAL.any_text, QUOTE)), _MOST_LISTED)
        self._shaper.count(taken // 4)
        return None if texts is None else sorted(map(json.loads, texts))

    def _is_endless(self, key: Symbol) -> bool:
        """Whether no bound on the length of the names of an undeclared key is seen."""
        return sizes(self._quoted[key])[1] is None

    def _told_apart(self, more: Further, low: int, location: str, group: object) -> Further:
        """Members whose names are not declared, no two of which have the same name: else a count would say nothing, and the
        second one could undo what a complement asks of the first. That one must not run out of names.
        """
        ir = self.ir
        if more.marks:
            reader = ValueReader(read_value, PLAIN_TEXTS, MOST_COUNTED, "not", location)
        else:
            reader = ValueReader(read_value, PLAIN_TEXTS, low, "minProperties", f"{location}/minProperties", group)
        lexeme, twin = ir.track(self._quoted[more.key], reader, "key")
        self._signs.note_tracked(lexeme, twin, is_key=True)
        space, colon = self._name_parts()
        return replace(more, key=lexeme, distinct=DistinctKey(space, lexeme, twin, reader, colon))

    def _name_parts(self) -> tuple[tuple[Symbol, ...], Symbol]:
        """What stands before a name that is a lexeme of its own, and what follows it."""
        layout = self._inner.layout
        return self._signs.spaces(layout), self._signs.colon(layout)

    def _member_counts(self, parts: list[ObjectPart], entries: list[Entry], further: list[Further]) -> tuple[int, int | None]:
        """``minProperties`` and ``maxProperties`` as far as they say more than the entries do."""
        low = max((part.low for part in parts), default=0)
        high = min((part.high for part in parts if part.high is not None), default=None)
        if not further and high is not None and high >= len(entries):
            high = None
        return low if low > sum(entry.required for entry in entries) else 0, high

    def _sequence(self, entries: list[Entry], further: list[Further], pointer: str) -> Symbol:
        """Members in their order, without a memory.

        Written from the end: ``after`` is what follows once a member was written, ``first`` what may stand right after the
        brace. Both are kept reversed, as they grow at their front.
        """
        rule, nonterminal, comma = self.ir.rules.append, self.ir.nonterminal, self._comma
        after, first = self._further(further, pointer)
        # The last entry that may come first is the first required one.
        opening = next((i for i, entry in enumerate(entries) if entry.required), len(entries))
        for i in range(len(entries) - 1, -1, -1):
            _, key, ((item, _), *_), required = entries[i]
            if i <= opening:
                member = [*after, item, key]
                if required:
                    first = member
                else:
                    choice = nonterminal(pointer, pointer)
                    rule((choice, (*member[::-1],)))
                    rule((choice, (*first[::-1],)))
                    first = [choice]
            if required:
                after += (item, key, comma)
            else:
                choice = nonterminal(pointer, pointer)
                rule((choice, (comma, key, item, *after[::-1])))
                rule((choice, (*after[::-1],)))
                after = [choice]
        body = nonterminal(pointer, pointer)
        rule((body, (*first[::-1],)))
        return body

    def _further(self, further: list[Further], pointer: str) -> tuple[list[Symbol], list[Symbol]]:
        """What may follow the declared names: further members and the closing brace (after a member; at first)."""
        ir = self.ir
        closing, empty = [self._here.close_brace], [self._here.empty_brace]
        if not further:
            return closing, empty
        more = self._nonterminal(pointer, "members")
        ir.rule(more, closing)
        first = self._nonterminal(pointer, "members")
        ir.rule(first, empty)
        for other in further:
            ir.rule(more, [self._comma, other.key, other.value, more])
            ir.rule(first, [other.key, other.value, more])
        return [more], [first]

    # Arrays

    def _array(self, alternative: Alternative, pointer: str) -> Symbol | None:
        """The items and the closing bracket, or None if no array fits."""
        ir, place = self.ir, self._shaper.place
        parts = [sub.array for sub in alternative if sub.array is not None]
        if any(part.contains or part.unique for part in parts):
            special = self._remembering(alternative, parts)
            if special is not None:
                return special
        low = max((part.low for part in parts), default=0)
        highs = [part.high for part in parts if part.high is not None]
        high = min(highs) if highs else None
        fixed: list[Symbol] = []
        for i in range(max((len(part.prefix) for part in parts), default=0)):
            if high is not None and i >= high:
                break
            children = [part.prefix[i] if i < len(part.prefix) else part.rest for part in parts]
            item = self._symbol(place([child for child in children if child is not None]))
            if item is None:
                high = i
                break
            fixed.append(item)
        further = self._symbol(place([part.rest for part in parts if part.rest is not None]))
        if further is None and (high is None or high > len(fixed)):
            high = len(fixed)
        if high is not None and low > high:
            return None
        body = self._nonterminal(pointer)
        if low == 0:
            ir.rule(body, [self._here.empty_bracket])
        if high == 0:
            return body
        start = max(len(fixed), 1)
        closing = [self._here.close_bracket]
        if further is not None and (high is None or high > start):
            room = None if high is None else high - start
            after = self._repeats.many(further, max(low - start, 0), room, closing[0])[::-1]
        else:
            after = closing
        for i in range(len(fixed) - 1, 0, -1):  # the items after the first that have their own schema, from the end
            if i < low:
                after = [*after, fixed[i], self._comma]
            else:
                choice = self._nonterminal(pointer)
                ir.rule(choice, closing)
                ir.rule(choice, [self._comma, fixed[i], *reversed(after)])
                after = [choice]
        head = fixed[0] if fixed else further
        assert head is not None
        ir.rule(body, [head, *reversed(after)])
        return body

    def _remembering(self, alternative: Alternative, parts: list[ArrayPart]) -> Symbol | None:
        """The body of an array with ``contains`` or ``uniqueItems``; None if these turn out to say nothing."""
        place = self._shaper.place
        low = max((part.low for part in parts), default=0)
        highs = [part.high for part in parts if part.high is not None]
        high = min(highs) if highs else None
        if high is not None and low > high:
            return None
        n_fixed = max(len(part.prefix) for part in parts)
        wanted = list(dict.fromkeys(entry for part in parts for entry in part.contains))
        brackets = (self._here.empty_bracket, self._here.close_bracket)
        if any(part.unique for part in parts) and (high is None or high > 1):
            values = None
            if not n_fixed and not wanted:
                values = self._shaper.finite([part.rest for part in parts if part.rest is not None])
            if values is not None:
                symbols = []
                for value, text in values:
                    symbol = self.ir.lexeme(self._inner.layout.value(text), "value")
                    symbols.append(self._signs.note(symbol, (VALUE, frozen(value))))
                return Distinct(self.ir, symbols, self._comma, brackets, low=low, high=high).start()
            if not n_fixed and not wanted:
                family = self._unique(alternative, parts, brackets, low, high)
                if family is not None:
                    return family
            for sub in alternative:
                if sub.array is not None and sub.array.unique:
                    self._shaper.refuse(sub, "uniqueItems")
        if not wanted:
            return None
        most_wanted = _MOST_WANTED if all(most is None and least < 2 for _, least, most in wanted) else _MOST_COUNTED
        if len(wanted) > most_wanted:
            raise LimitExceeded("too many contains apply to one array", keyword="contains", expected=f"at most {most_wanted}")
        states = prod(max(least, most or 0) + 1 for _, least, most in wanted) if len(wanted) > 1 else 1
        if states > _MOST_STATES:
            most = f"at most {_MOST_STATES} combinations"
            raise LimitExceeded("the counts of several contains are too large", keyword="contains", expected=most)
        self._shaper.count(len(wanted) * n_fixed << len(wanted))

        def choice(i: int, matched: int) -> Symbol | None:
            children = [part.prefix[i] if i < len(part.prefix) else part.rest for part in parts]
            all_of = [child for child in children if child is not None]
            for k, (sub, _, most) in enumerate(wanted):
                if matched >> k & 1:
                    all_of.append(sub)
                elif most is not None:  # an item that is not counted must not match
                    all_of.append(self._shaper.complement(sub))
            return self._symbol(place(all_of))

        return Items(
            self.ir,
            choice,
            n_fixed,
            self._comma,
            brackets,
            low=low,
            high=high,
            wanted=[Wanted(least, most) for _, least, most in wanted],
        ).start()

    def _unique(
        self,
        alternative: Alternative,
        parts: list[ArrayPart],
        brackets: tuple[Symbol, Symbol],
        low: int,
        high: int | None,
    ) -> Symbol | None:
        """The body of an array of distinct items; None if nothing can be an item."""
        ir, signs = self.ir, self._signs
        item = self._shaper.place([part.rest for part in parts if part.rest is not None])
        if not item.split:
            self._shaper.split(item)
        location = next(f"{sub.pointer}/uniqueItems" for sub in alternative if sub.array is not None and sub.array.unique)
        bounds: dict[str, Any] = {"low": low, "high": high, "location": location}
        if item.arrays or item.objects or item.constants:
            symbol = self._symbol(item)
            if symbol is None:
                return None
            distinct = DistinctItems(ir, signs, symbol, self._comma, brackets, **bounds)
            self._distinct.append(distinct)
            return distinct.start()
        if item.scalar is None:
            return None
        scalars = Unique(ir, distinct_item(item.scalar), signs.spaces(self._inner.layout), self._comma, brackets, **bounds)
        signs.note_tracked(*scalars.lexemes, is_key=False)
        return scalars.start()

    # What nothing satisfies

    def _drop_unproductive(self) -> None:
        """Drop rules that derive no text: branches that nothing satisfies, or that would have to be infinitely deep.

        Without families it is only made sure that the start derives one, by which nothing else needs to be known: the compiler
        drops such rules as well.
        """
        ir = self.ir
        known, left = self._soon_productive()
        if ir.start in known and not (left and ir.instances):
            return
        rules = Productive((rule[0], (s for s in rule[1] if s not in known)) for rule in left)
        families = {symbol: member for symbol, member in ir.instances.items() if symbol not in known}
        grew = True
        while grew:
            grew = False
            for symbol, (family, start) in list(families.items()):
                if family.satisfiable(start, lambda s: s in known or s in rules.known):
                    del families[symbol]
                    rules.add(symbol)
                    grew = True
        if ir.start not in known and ir.start not in rules.known:
            raise self._unsatisfiable(self._blame(known | rules.known))
        barren = {rule for rule, lacks in zip(left, rules.missing, strict=True) if lacks}
        if barren:
            ir.rules = [rule for rule in ir.rules if rule not in barren]

    def _soon_productive(self) -> tuple[set[Symbol], list[tuple[Symbol, tuple[Symbol, ...]]]]:
        """Symbols of which it is soon found that they derive a text, and the rules of which it is not.

        In rounds over the rules that are left, forwards and backwards in turns: members are written from the last to the first,
        and what is inside later. The last round is one that leaves most of them, or, without families, finds out the start.
        """
        ir = self.ir
        known = set(range(-len(ir.lexemes), 0))
        left, families = ir.rules, ir.instances
        while True:
            n_before = len(left) + len(families)
            rules, left = left, []
            for rule in rules:
                if known.issuperset(rule[1]):
                    known.add(rule[0])
                else:
                    left.append(rule)
            waiting, families = families, {}
            for symbol, (family, value) in waiting.items():
                if family.satisfiable(value, known.__contains__):
                    known.add(symbol)
                else:
                    families[symbol] = (family, value)
            if len(left) + len(families) >= _MOST_LEFT * n_before or (ir.start in known and not ir.instances):
                return known, left
            left.reverse()

    def _blame(self, productive: set[Symbol]) -> str:
        """The pointer of the innermost place on the way from the start that nothing satisfies."""
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
        return GrammarError("unsatisfiable schema: no JSON value is valid here", location=pointer)
