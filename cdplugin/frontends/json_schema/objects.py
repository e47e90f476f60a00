"""Rules for objects: declared names, then names that are only required, then undeclared ones.

Declared names occur at most once. Undeclared names, which ``additionalProperties`` allows, may repeat: each of their values is
valid, so the one that a reader keeps is valid too. Where names must not repeat (under ``unique_names``, or because
``minProperties`` or a complement counts members), they are tracked values (:meth:`Objects._told_apart`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from cdplugin.bits import members
from cdplugin.errors import LimitExceeded
from cdplugin.expr import EMPTY, Expr, both, cat
from cdplugin.frontends.json_schema.any_order import ManyMembers, are_many
from cdplugin.frontends.json_schema.bracketed import Frame
from cdplugin.frontends.json_schema.distinct import PLAIN_TEXTS, read_value
from cdplugin.frontends.json_schema.distinct_values import KEY, NOTHING
from cdplugin.frontends.json_schema.members import DistinctKey, Entry, Members, Undeclared, are_several
from cdplugin.frontends.json_schema.names import allowed_by_names, children_of, classes_of
from cdplugin.frontends.json_schema.repetition import sequence
from cdplugin.frontends.json_schema.schema import ObjectPart, Some, Subschema, bounds_of
from cdplugin.frontends.json_schema.shapes import Alternative
from cdplugin.frontends.json_schema.strings import QUOTE, STRING
from cdplugin.frontends.json_schema.writing import Writing
from cdplugin.ir import MOST_COUNTED, Symbol, ValueReader
from cdplugin.languages import FUEL
from cdplugin.regex.alphabet import JSON_CANONICAL

_MOST_MET, _MOST_LOOSE = 12, 6
"""Conditions that one member may meet, since a member is written once for each subset of them; and the number of conditions of
an object above which the subsets are disjoint (:meth:`Objects._not_met`)."""
_MOST_LISTED = 64
"""A complement or pattern that allows at most this many names declares them, where it matters which names occur."""


def _subsets(among: int, sure: int) -> Iterable[int]:
    """The subsets of the bit set ``among`` that include ``sure``."""
    numbers = members(among & ~sure)
    for chosen in range(1 << len(numbers)):
        yield sum(1 << k for i, k in enumerate(numbers) if chosen >> i & 1) | among & sure


def _by_name(conditions: Sequence[Some]) -> int:
    """Bit set of the conditions that any value meets, so that the name of an undeclared member decides."""
    return sum(some.values.is_anything() << k for k, some in enumerate(conditions))


def _is_about_all(named: Subschema, declared: Iterable[str]) -> bool:
    """Whether a condition visibly applies to all names except declared ones."""
    says_more = named.values is not None or named.text is not None or named.unlike or not named.is_alone()
    return not says_more and set(named.excluded) <= set(declared)


class Objects(Writing):
    """Writes what follows the opening braces of objects."""

    def _object(self, alternative: Alternative, pointer: str) -> Symbol | None:
        """The members and the closing brace, or None if no object fits."""
        parts = [sub.object for sub in alternative if sub.object is not None]
        conditions = list(dict.fromkeys(some for part in parts for some in part.some))
        names, open_ = self._names_of(parts, conditions)
        if len(alternative) > 1:
            self._shaper.count(8 + len(names))
        entries = self._entries(names, parts, conditions, pointer)
        if entries is None:
            return None
        low, high = bounds_of(parts)
        undeclared = self._undeclared(names, parts, conditions, open_)
        counted = self._unique_names or low > max(1, sum(names.values()))
        if counted or are_several(open_.bit_count(), undeclared, self._is_endless, self._may_be):
            few: list[str] = []
            if conditions or any(part.patterns or part.names for part in parts):
                few = [name for more in undeclared for name in self._few_of(more)]
            if few:  # treat these like declared names
                names.update(dict.fromkeys(few, False))
                entries = self._entries(names, parts, conditions, pointer) or []
                undeclared = self._undeclared(names, parts, conditions, open_)
            location = next((s.pointer for s in alternative if s.object is not None and s.object.low == low), pointer)
            most = MOST_COUNTED if high is None else high
            undeclared = [self._told_apart(more, low, most, location, parts) for more in undeclared]
        elif any(more.by_value for more in undeclared):
            undeclared += self._beside(names, parts, conditions, undeclared)
        low, high = self._member_counts(parts, entries, undeclared)
        is_told_apart = any(more.distinct is not None for more in undeclared)
        if conditions or low or high is not None or is_told_apart or (self._any_order and len(entries) + len(undeclared) > 1):
            return self._members(entries, undeclared, (low, high), len(conditions), pointer)
        return self._sequence(entries, undeclared, pointer)

    def _names_of(self, parts: list[ObjectPart], conditions: Sequence[Some]) -> tuple[dict[str, bool], int]:
        """The names to declare, in order, each with whether it is required; names that only conditions mention come last. And
        the bit set of conditions that an undeclared member may meet.
        """
        names: dict[str, bool] = {}
        for part in parts:
            for name in part.properties:
                names.setdefault(name, False)
        for part in parts:
            for name in part.required:
                names[name] = True
        open_ = 0
        for k, (named, _, own) in enumerate(conditions):
            few = self._few_names(named)
            open_ |= (few is None) << k
            if few is None and len(named.excluded) <= _MOST_LISTED:
                few = [name for name in named.excluded if isinstance(name, str)]
            names.update((name, names.get(name, False)) for name in (*(few or ()), *(name for name, _ in own)))
        return names, open_

    def _members(
        self,
        entries: list[Entry],
        undeclared: list[Undeclared],
        bounds: tuple[int, int | None],
        n_conditions: int,
        pointer: str,
    ) -> Symbol | None:
        """Members with a memory: the names seen, their number, the conditions met."""
        frame = Frame(self.ir, self._comma, (self._here.empty_brace, self._here.close_brace), *bounds)
        if self._any_order and not n_conditions and are_many(entries, undeclared):
            many = ManyMembers(frame, entries, undeclared, self._inner.layout.space, self._name_parts()[1])
            for lead, lexeme, twin in many.lexemes():
                self._signs.note(lead, NOTHING)
                self._signs.note_tracked(lexeme, twin, is_key=True)
            return many.start()
        ordered = not self._any_order
        return Members(frame, entries, undeclared, ordered=ordered, n_conditions=n_conditions, location=pointer).start()

    def _sequence(self, entries: list[Entry], undeclared: list[Undeclared], pointer: str) -> Symbol:
        """Members in order, without a memory."""
        declared = [(key, values[0][0], required) for _, key, values, required in entries]
        closings = (self._here.empty_brace, self._here.close_brace)
        return sequence(self.ir, declared, [(more.key, more.value) for more in undeclared], self._comma, closings, pointer)

    def _entries(
        self, names: dict[str, bool], parts: list[ObjectPart], conditions: Sequence[Some], pointer: str
    ) -> list[Entry] | None:
        """Declared and required names with their values, or None if a required one has no value."""
        limited = any(part.names is not None for part in parts)
        bare, keys, locate, at = self._bare_members, self._inner.keys, self.ir.locate, self.ir.at
        entries: list[Entry] = []
        owns = [dict(some.own) for some in conditions]
        for name, required in names.items():
            children = children_of(name, parts)
            place = self._shaper.place(children)
            values: tuple[tuple[Symbol, int], ...] = ()
            if not limited or allowed_by_names(name, parts, self._shaper.holds):
                if conditions:
                    values = self._conditional(name, children, conditions, owns, pointer)
                elif (value := self._symbol(place, bare)) is not None:
                    values = ((value, 0),)
            if values:
                symbol = keys.get(name) or self._key(name)
                if children:
                    locate(symbol, at(place.pointer))
                entries.append(Entry(name, symbol, values, required))
            elif required:
                self._culprit.setdefault(pointer, place.pointer)
                return None
        return entries

    def _conditional(
        self,
        name: str,
        children: list[Subschema],
        conditions: Sequence[Some],
        owns: Sequence[dict[str, Subschema]],
        pointer: str,
    ) -> tuple[tuple[Symbol, int], ...]:
        """The values of a member, each with the conditions that it meets. ``owns``: what conditions ask of
        names of their own.
        """
        place, holds, meets = self._shaper.place, self._shaper.holds, self._shaper.meets
        values: list[tuple[Symbol, int]] = []
        asked: list[Subschema] = []  # what each condition asks of the value
        among = sure = 0
        for k, ((named, others, _), own) in enumerate(zip(conditions, owns, strict=True)):
            below = own.get(name)
            asked.append(others if below is None else below)
            if below is not None or holds(named, name):
                is_met = meets(asked[k], children) if own else asked[k].is_anything() or None
                among |= (is_met is not False) << k
                sure |= (is_met is True) << k
        self._count_subsets(among & ~sure, len(conditions), pointer)
        for marks in _subsets(among, sure):
            met, unmet = [asked[k] for k in members(marks)], self._not_met(asked, among & ~marks)
            value = self._symbol(place([*children, *met, *unmet]), self._bare_members)
            if value is not None:
                values.append((value, marks))
        return tuple(values)

    def _key(self, name: str) -> Symbol:
        """The lexeme of a declared name with its colon."""
        inner = self._inner
        symbol = inner.keys.get(name)
        if symbol is None:
            symbol = inner.keys[name] = self.ir.lexeme(inner.layout.key(name), name)
            self._signs.events[symbol] = (KEY, name)
        return symbol

    def _not_met(self, asked: Sequence[Subschema], among: int) -> list[Subschema]:
        """Where there are many conditions: the complements of those in ``among``, to be added to a value that meets none of
        them. Otherwise a value could be counted as meeting fewer conditions than it does, with a state for each such choice.
        ``asked``: what each condition asks of the value.
        """
        if len(asked) <= _MOST_LOOSE:
            return []
        return [self._shaper.complement(wanted) for k, wanted in enumerate(asked) if among >> k & 1]

    def _count_subsets(self, among: int, n_conditions: int, pointer: str) -> None:
        """Count the work for all subsets of the conditions in the bit set ``among``, out of ``n_conditions``."""
        n_met = among.bit_count()
        if n_met > _MOST_MET:
            most = f"at most {_MOST_MET} that one member may meet"
            raise LimitExceeded("too many complements apply to one object", location=pointer, expected=most)
        self._shaper.count(n_conditions + (n_met << n_met))

    def _undeclared(
        self, names: dict[str, bool], parts: list[ObjectPart], conditions: Sequence[Some], open_: int
    ) -> list[Undeclared]:
        """The classes of undeclared names, each split by the conditions (of those in ``open_``) that its members meet."""
        place, bare = self._shaper.place, self._bare_members
        undeclared: list[Undeclared] = []
        every = sum(_is_about_all(some.names, names) << k for k, some in enumerate(conditions))
        by_name, asked = _by_name(conditions), [some.values for some in conditions]
        sure = every & by_name
        apart = self._apart(conditions, open_)
        for group, (text, children) in enumerate(classes_of(names, parts, self._shaper.strings, self._shaper.share_no_text)):
            if open_:
                self._count_subsets(open_ & ~sure, len(conditions), "")
            for marks in _subsets(open_, sure):
                if any(pair & marks == pair for pair in apart):
                    continue
                met, unmet = [conditions[k] for k in members(marks)], self._not_met(asked, open_ & ~marks & every)
                found = place([*children, *(some.values for some in met), *unmet])
                value = None if text is EMPTY else self._symbol(found, bare)
                if value is not None:
                    self._scalars[value] = found.scalar
                    name_text = text
                    if met:
                        named_text = self._shaper.strings([some.names for some in met])
                        name_text = named_text if text is None else both(text, named_text)
                    if name_text is not EMPTY:
                        key = self._undeclared_key(name_text)
                        undeclared.append(Undeclared(key, value, marks, group, by_value=marks & ~by_name))
        return undeclared

    def _beside(
        self, names: dict[str, bool], parts: list[ObjectPart], conditions: Sequence[Some], undeclared: Sequence[Undeclared]
    ) -> list[Undeclared]:
        """For each class of undeclared names, those names to which no condition applies that some member of the class meets by
        its value. Such a name is not that member's name, so it may follow it.
        """
        by_value = [0] * (1 + max(more.group for more in undeclared))
        for more in undeclared:
            by_value[more.group] |= more.by_value
        every = sum(_is_about_all(some.names, names) << k for k, some in enumerate(conditions))
        unmet = self._not_met([some.values for some in conditions], every)
        out: list[Undeclared] = []
        for group, (text, children) in enumerate(classes_of(names, parts, self._shaper.strings, self._shaper.share_no_text)):
            exempt = by_value[group] & ~every if group < len(by_value) else 0
            if not exempt or text is EMPTY:
                continue
            self._shaper.count(exempt.bit_count())
            others = self._shaper.strings([self._shaper.complement(conditions[k].names) for k in members(exempt)])
            name_text = others if text is None else both(text, others)
            nothing, taken = self._shaper.search.matches_nothing(name_text)
            self._shaper.count(taken // 4)
            if nothing or taken >= FUEL:
                continue
            value = self._symbol(self._shaper.place([*children, *unmet]), self._bare_members)
            if value is not None:
                out.append(Undeclared(self._undeclared_key(name_text), value, 0, group, exempt=exempt))
        return out

    def _undeclared_key(self, text: Expr | None) -> Symbol:
        """The lexeme of undeclared names (with quotes; None: any name) and the colon."""
        layout = self._inner.layout
        key = self.ir.lexeme(layout.any_key if text is None else layout.quoted_key(text), "key")
        self._quoted[key] = STRING if text is None else text
        self._signs.note_key(key, self._quoted[key], layout)
        return key

    def _few_of(self, more: Undeclared) -> list[str]:
        """The names of an undeclared member, if visibly few. Where names are unboundedly long and conditions met: none."""
        if self._is_endless(more.key) and more.marks:
            return []
        return self._few(self._quoted[more.key]) or []

    def _apart(self, conditions: Sequence[Some], among: int) -> list[int]:
        """Pairs of conditions, as bit sets, whose patterns are found to share no name."""
        patterns = [
            (k, named.text[2]) for k, (named, _, _) in enumerate(conditions) if among >> k & 1 and named.text is not None
        ]
        return [
            1 << i | 1 << k
            for (i, some), (k, others) in combinations(patterns, 2)
            if any(self._shaper.share_no_text(one, other) for one in some for other in others)
        ]

    def _few_names(self, named: Subschema) -> list[str] | None:
        """The names that are valid under a subschema, if there are few; else None."""
        if named.types == 0:
            return []
        if named.values is None and named.text is None and not named.unlike and named.is_alone():
            return None
        if named not in self._listed:
            self._listed[named] = self._few(self._shaper.strings([named]))
        return self._listed[named]

    def _few(self, quoted: Expr) -> list[str] | None:
        """The names that match an expression with their quotes, if there are few; else None."""
        canonical = both(quoted, cat(QUOTE, JSON_CANONICAL.any_text, QUOTE))
        texts, taken = self._shaper.search.texts(canonical, _MOST_LISTED)
        self._shaper.count(taken // 4)
        return None if texts is None else sorted(map(json.loads, texts))

    def _is_endless(self, key: Symbol) -> bool:
        """Whether the names of an undeclared key have no visible bound on their length."""
        return self._shaper.search.is_endless(self._quoted[key])

    def _may_be(self, more: Undeclared) -> bool:
        """Whether an undeclared member with such a name and value may exist: it was not found that none does."""
        scalar = self._scalars[more.value]
        if scalar is None:  # what arrays and objects allow is not known yet
            return False
        for text in (self._quoted[more.key], scalar):
            nothing, taken = self._shaper.search.matches_nothing(text)
            self._shaper.count(taken // 2)
            if nothing:
                return False
        return True

    def _told_apart(self, more: Undeclared, low: int, most: int, location: str, group: object) -> Undeclared:
        """Make the names of undeclared members distinct. Otherwise a count would mean nothing, and a second member of the same
        name could undo what a complement asks of the first. ``most``: the most members, which must not run out of names where a
        complement asks for one.
        """
        ir = self.ir
        if more.marks:
            reader = ValueReader(read_value, PLAIN_TEXTS, min(most, MOST_COUNTED), "not", location)
        else:
            reader = ValueReader(read_value, PLAIN_TEXTS, low, "minProperties", f"{location}/minProperties", group)
        lexeme, twin = ir.track(self._quoted[more.key], reader, "key")
        self._signs.note_tracked(lexeme, twin, is_key=True)
        space, colon = self._name_parts()
        return replace(more, key=lexeme, distinct=DistinctKey(space, lexeme, twin, reader, colon))

    def _name_parts(self) -> tuple[tuple[Symbol, ...], Symbol]:
        """The symbols before a name that is a lexeme of its own, and the colon after it."""
        layout = self._inner.layout
        return self._signs.spaces(layout), self._signs.colon(layout)

    def _member_counts(
        self, parts: list[ObjectPart], entries: list[Entry], undeclared: list[Undeclared]
    ) -> tuple[int, int | None]:
        """``minProperties`` and ``maxProperties``, dropped where the entries imply them."""
        low, high = bounds_of(parts)
        if not undeclared and high is not None and high >= len(entries):
            high = None
        return low if low > sum(entry.required for entry in entries) else 0, high
