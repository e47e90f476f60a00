"""``uniqueItems`` over objects: no two of them have the same values of those members that are told apart.

Told apart are the declared members with scalar values. Objects that differ in one of them, or in which of them they have, are
different objects, in whatever order their members come. The converse does not hold: objects that differ in other members only
are left out, which docs/json-schema.md says. The values of members that are told apart are
tracked (:class:`cdplugin.ir.TrackedLexeme`).
Some can have any number of values. What is typed as the last of these that may still come is any value but those of earlier
objects to which the object could otherwise become equal, and before that it cannot be closed where it would be equal: so there
is always a way to go on, also where the other members have few values. In declared order those with any number of values must
be required, as they cannot come later. Where values are not known, a brace that may have to wait is a shadow. Scalars among the
items are told apart as in :mod:`cdplugin.frontends.json_schema.distinct`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from cdplugin.expr import EMPTY, Expr
from cdplugin.frontends.json_schema.distinct import NOTHING_SEEN, PLAIN_TEXTS, Seen, distinct_item, read_value
from cdplugin.frontends.json_schema.members import BitSet, Entry, Further
from cdplugin.ir import Family, GrammarIR, Part, Symbol, TrackedLexeme, ValueReader

Productive = Callable[[Symbol], bool]
Values = tuple[Hashable, ...]
"""Of each member that is told apart its value, or :data:`_MISSING`."""

_SPARE = 600
"""Values that are left over when the last object begins: more objects than one token holds."""
_MISSING = ("missing",)
_ROW_WORK = 40
"""Units of work for each value of each earlier object, where a member is made."""
_ROWS_BYTES, _VALUE_BYTES = 200, 120


class Form(NamedTuple):
    """One kind of objects: its members, and which of them are told apart (their places among ``entries``), with expressions
    of their values, and which of these can have any number. All forms tell the same names apart, in the same order.
    """

    entries: Sequence[Entry]
    further: Sequence[Further]
    telling: tuple[int, ...]
    values: tuple[Expr, ...]
    endless: tuple[bool, ...]


class _Kind:
    """A form with the lexemes of the members that are told apart. ``may_be_closed_early``: whether an object could lack some of
    those that have any number of values.
    """

    def __init__(self, ir: GrammarIR, form: Form, low: int, location: str) -> None:
        self.entries, self.further, self.telling, values, self.endless = form
        self.required = sum(1 << i for i, entry in enumerate(self.entries) if entry.required)
        told = zip(self.telling, self.endless, strict=True)
        self.may_be_closed_early = any(endless and not self.entries[i].required for i, endless in told)
        needs = [low + 2 * _SPARE if endless else 0 for endless in self.endless]
        self.readers = [ValueReader(read_value, PLAIN_TEXTS, least, "uniqueItems", location) for least in needs]
        self.lexemes = [
            ir.track(distinct_item(text), reader, "value") for text, reader in zip(values, self.readers, strict=True)
        ]


class _Rows:
    """The values of the objects that came before. ``nbytes``: of the last one, and of the list."""

    __slots__ = ("_hash", "nbytes", "rows")

    def __init__(self, rows: tuple[Values, ...]) -> None:
        self.rows = rows
        self.nbytes = _ROWS_BYTES + 8 * len(rows) + sum(_VALUE_BYTES + len(str(value)) for value in rows[-1:])
        self._hash = hash(rows)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rows) and self._hash == other._hash and self.rows == other.rows


class _Array(NamedTuple):
    """Between items: how many there were (``place``) as far as the bounds ask for it, and the values of objects and scalars;
    where these are not known, whether many others are sure to be left.
    """

    started: bool
    place: int
    objects: _Rows | bool
    scalars: Seen | bool


class _Object(NamedTuple):
    """Inside an object of some kind: the members that were there (a bit set; in declared order, the next one's index), and the
    values of those that are told apart.
    """

    kind: int
    started: bool
    members: int
    values: Values
    array: _Array


class DistinctObjects(Family):
    """The items of an array and its closing bracket. ``space``: what stands before a value that is a lexeme of its own."""

    name = "distinct objects"

    def __init__(
        self,
        ir: GrammarIR,
        forms: Sequence[Form],
        scalars: Expr | None,
        space: Sequence[Symbol],
        comma: Symbol,
        braces: tuple[Symbol, Symbol],
        closings: tuple[Symbol, Symbol],
        *,
        ordered: bool,
        low: int,
        high: int | None,
        location: str,
    ) -> None:
        self._ir = ir
        self._kinds = [_Kind(ir, form, low, location) for form in forms]
        self._space = tuple(space)
        self._comma = comma
        self._open, self._close = braces
        _, self._unsure_close = ir.track(ir.lexemes[~self._close], ValueReader(bytes, EMPTY), "}")
        self._closings = closings
        self._ordered = ordered
        self._low = low
        self._high = high
        self._last = max(low, 0 if high is None else high)
        self._scalars: tuple[ValueReader, Symbol, Symbol] | None = None
        if scalars is not None:
            reader = ValueReader(read_value, PLAIN_TEXTS)
            self._scalars = (reader, *ir.track(distinct_item(scalars), reader, "value"))

    def start(self) -> Symbol:
        """The items right after the opening bracket."""
        return self._ir.instance(self, _Array(False, 0, _Rows(()), NOTHING_SEEN))

    def uses(self) -> Iterable[Symbol]:
        yield from (self._comma, self._open, self._close, self._unsure_close, *self._closings, *self._space)
        if self._scalars is not None:
            yield from self._scalars[1:]
        for kind in self._kinds:
            for lexeme, twin in kind.lexemes:
                yield from (lexeme, twin)
            for entry in kind.entries:
                yield entry.key
                yield entry.values[0][0]
            for more in kind.further:
                yield from (more.key, more.value)

    def nullable(self, value: Hashable) -> bool:
        return False

    def satisfiable(self, value: Hashable, productive: Productive) -> bool:
        if isinstance(value, _Object):
            return self._is_usable(self._kinds[value.kind], productive)
        assert isinstance(value, _Array)
        return value.place >= self._low or any(self._is_usable(kind, productive) for kind in self._kinds)

    def expand(self, value: Hashable, productive: Productive) -> Iterable[Sequence[Part]]:
        if isinstance(value, _Object):
            return self._members(value, productive)
        assert isinstance(value, _Array)
        return self._items(value, productive)

    def _items(self, now: _Array, productive: Productive) -> Iterator[Sequence[Part]]:
        if now.place >= self._low:
            yield (self._closings[now.started],)
        if self._high is not None and now.place >= self._high:
            return
        lead = (self._comma,) if now.started else ()
        after = now._replace(started=True, place=min(now.place + 1, self._last))
        for number, kind in enumerate(self._kinds):
            if self._has_room(now.objects, kind, _SPARE) and self._is_usable(kind, productive):
                values = (_MISSING,) * len(kind.telling)
                yield (*lead, self._open, self._ir.member(self, _Object(number, False, 0, values, after)))
        if self._scalars is not None and productive(self._scalars[1]):
            reader, lexeme, twin = self._scalars
            if isinstance(now.scalars, bool):
                rest = self._ir.member(self, after)
                yield (*lead, *self._space, lexeme if now.scalars else twin, rest)
                return
            seen = now.scalars

            def then(item: Hashable) -> Sequence[Part] | None:
                return None if item in seen else (self._ir.member(self, after._replace(scalars=seen.adding(item))),)

            rest = self._ir.member(self, self._unknown(after)._replace(scalars=seen.count + 1 < reader.enough))
            yield (*lead, *self._space, TrackedLexeme(lexeme, seen.expression, then, (rest,)))

    def _members(self, now: _Object, productive: Productive) -> Iterator[Sequence[Part]]:
        kind = self._kinds[now.kind]
        if isinstance(now.array.objects, _Rows):
            self.work += _ROW_WORK * len(now.array.objects.rows) * len(kind.telling)
        missing = kind.required >> now.members << now.members if self._ordered else kind.required & ~now.members
        if not missing and not self._is_equal(now.array.objects, now.values):
            is_unsure = kind.may_be_closed_early and isinstance(now.array.objects, bool)
            yield (self._unsure_close if is_unsure else self._close, self._ir.member(self, self._closed(now)))
        lead = (self._comma,) if now.started else ()
        for i, entry in enumerate(kind.entries):
            if self._is_past(now.members, i):
                continue
            after = now._replace(started=True, members=i + 1 if self._ordered else BitSet(now.members | 1 << i))
            if i in kind.telling:
                if productive(kind.lexemes[kind.telling.index(i)][0]):
                    yield from self._told_apart((*lead, entry.key), kind, kind.telling.index(i), after)
            elif productive(entry.values[0][0]):
                yield (*lead, entry.key, entry.values[0][0], self._ir.member(self, after))
            if self._ordered and entry.required:
                return
        following = now._replace(started=True, members=len(kind.entries) if self._ordered else now.members)
        for more in kind.further:
            if productive(more.key) and productive(more.value):
                yield (*lead, more.key, more.value, self._ir.member(self, following))

    def _told_apart(self, lead: Sequence[Part], kind: _Kind, number: int, after: _Object) -> Iterator[Sequence[Part]]:
        """A member that is told apart, and what follows."""
        rows, (lexeme, twin), entry = after.array.objects, kind.lexemes[number], kind.entries[kind.telling[number]]
        if isinstance(rows, bool):
            known = (*self._space, lexeme if rows else twin) if kind.endless[number] else (entry.values[0][0],)
            yield (*lead, *known, self._ir.member(self, after))
            return
        seen = NOTHING_SEEN
        if kind.endless[number] and not self._may_tell(kind, after.members):  # this is the last one
            for row in rows.rows:
                value = row[number]
                values = (*after.values[:number], value, *after.values[number + 1 :])
                if value != _MISSING and value not in seen and self._may_be(kind, row, values, after.members):
                    seen = seen.adding(value)

        def then(item: Hashable) -> Sequence[Part] | None:
            if item in seen:
                return None
            values = (*after.values[:number], item, *after.values[number + 1 :])
            return (self._ir.member(self, after._replace(values=values)),)

        rest = after._replace(array=self._unknown(after.array), values=(_MISSING,) * len(after.values))
        yield (*lead, *self._space, TrackedLexeme(lexeme, seen.expression, then, (self._ir.member(self, rest),)))

    def _may_be(self, kind: _Kind, row: Values, values: Values, members: int) -> bool:
        """Whether an object with some values so far can become one with those of ``row``."""
        pairs = zip(row, values, kind.telling, strict=True)
        return all(a == b or (b == _MISSING and not self._is_past(members, i)) for a, b, i in pairs)

    def _is_past(self, members: int, i: int) -> bool:
        return i < members if self._ordered else bool(members >> i & 1)

    def _may_tell(self, kind: _Kind, members: int) -> bool:
        """Whether a member with any number of values that is told apart may still come."""
        return any(endless and not self._is_past(members, i) for i, endless in zip(kind.telling, kind.endless, strict=True))

    @staticmethod
    def _is_equal(objects: _Rows | bool, values: Values) -> bool:
        """Whether an object with these values has come before, as far as that is known."""
        return isinstance(objects, _Rows) and values in objects.rows

    @staticmethod
    def _closed(now: _Object) -> _Array:
        """What follows an object."""
        rows = now.array.objects
        return now.array if isinstance(rows, bool) else now.array._replace(objects=_Rows((*rows.rows, now.values)))

    @staticmethod
    def _has_room(objects: _Rows | bool, kind: _Kind, spare: int) -> bool:
        """Whether a further object finds values that are left."""
        if isinstance(objects, bool):
            return objects
        enough = [reader.enough for reader, endless in zip(kind.readers, kind.endless, strict=True) if endless]
        return len(objects.rows) + spare < min(enough)

    def _unknown(self, array: _Array) -> _Array:
        """The same after values that are not known."""
        objects, scalars = array.objects, array.scalars
        objects = all(self._has_room(objects, kind, 2 * _SPARE) for kind in self._kinds)
        if isinstance(scalars, Seen):
            scalars = self._scalars is None or scalars.count + 1 < self._scalars[0].enough
        return array._replace(objects=objects, scalars=scalars)

    def representative(self, value: Hashable) -> Part | None:
        if isinstance(value, _Object):
            values = (_MISSING,) * len(value.values)
            return self._ir.member(self, value._replace(array=self._unknown(value.array), values=values))
        assert isinstance(value, _Array)
        return self._ir.member(self, self._unknown(value)) if value.started else None

    def remaining(self, value: Hashable) -> int:
        if isinstance(value, _Object):
            return max(self._low - value.array.place, 0) + 1
        assert isinstance(value, _Array)
        return max(self._low - value.place, 0)

    def _is_usable(self, kind: _Kind, productive: Productive) -> bool:
        """Whether there are objects of a kind."""
        required = (entry for i, entry in enumerate(kind.entries) if entry.required and i not in kind.telling)
        return all(productive(entry.values[0][0]) for entry in required) and all(productive(one) for one, _ in kind.lexemes)
