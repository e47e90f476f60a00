"""Families for members of objects and items of arrays that need a memory: the names seen, counts.

Writing rules for each value of such a memory would take a factorial or a huge number of them. A :class:`cdplugin.ir.Family`
makes only the rules of those values that a text leads to. A member is offered only if the object can still be closed after it:
room is kept for required names, and enough names are left for ``minProperties``.

A *condition* is a demand that some member of the object has a certain name and value. Complements of schemas make these: an
object is invalid under ``properties`` if some member has a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from operator import or_
from typing import NamedTuple

from cdplugin.errors import LimitExceeded
from cdplugin.frontends.json_schema.bracketed import BEFORE_ANY, BEFORE_COMMA, BEFORE_ITEM, Bracketed, Frame, steps_left
from cdplugin.frontends.json_schema.closing import Closing, Counts, Wanted, best_of, counted
from cdplugin.frontends.json_schema.distinct import NOTHING_SEEN, Seen
from cdplugin.ir import Part, Productive, Symbol, TrackedLexeme, ValueReader, Whole

_MOST_COUNTED = 20_000
"""Largest number of symbols for which ``whole`` gives a bound."""
_MOST_KINDS = 64
"""Sets of unmet conditions whose entries are remembered."""
_MOST_COVERED = 20_000
"""Choices made to find members that meet all conditions."""
_CHOICE_WORK = 500
"""Units of work for each of them."""
_MOST_TOLD_APART = 3
"""Up to this many conditions, undeclared members are distinguished by name even where that may be unnecessary."""


class Entry(NamedTuple):
    """A declared or required name, the symbol of its key, and its possible values.

    ``values``: pairs ``(symbol, marks)``; ``marks`` is the bit set of conditions that a member with this value meets.
    """

    name: str
    key: Symbol
    values: tuple[tuple[Symbol, int], ...]
    required: bool


@dataclass(frozen=True)
class DistinctKey:
    """The key of a member whose name must be new: the symbols before it, its tracked lexeme with twin and reader, the colon."""

    space: tuple[Symbol, ...]
    lexeme: Symbol
    twin: Symbol
    reader: ValueReader
    colon: Symbol


@dataclass(frozen=True)
class Undeclared:
    """A class of undeclared names: key, value, and the conditions (``marks``) that such a member meets.

    Two members of one ``group`` may have the same name, unless the key is ``distinct``; then a reader keeps the later one. So
    once a member has met a condition in ``by_value``, later members of its group must meet it as well, or have a name that the
    condition is not about (``exempt``). The other ``marks`` are met by the name alone, which no later member can undo.
    """

    key: Symbol
    value: Symbol
    marks: int
    group: int
    distinct: DistinctKey | None = None
    by_value: int = 0
    exempt: int = 0

    def parts_of_key(self) -> tuple[Symbol, ...]:
        """The symbols before the value."""
        return (self.key,) if self.distinct is None else (*self.distinct.space, self.key, self.distinct.colon)


def are_several(
    n_conditions: int,
    undeclared: Sequence[Undeclared],
    is_endless: Callable[[Symbol], bool],
    may_be: Callable[[Undeclared], bool],
) -> bool:
    """Whether undeclared members must be distinguished by name because of conditions on them. If there are many conditions, or
    some key visibly has few names (not ``is_endless``), then only if no single member of a group can (``may_be``) meet all
    conditions that members of the group can meet.
    """
    if n_conditions < 2:
        return False
    if n_conditions <= _MOST_TOLD_APART and all(is_endless(more.key) for more in undeclared if more.marks):
        return True
    groups: dict[int, dict[int, Undeclared]] = {}
    for more in undeclared:
        groups.setdefault(more.group, {})[more.marks] = more
    for some in groups.values():
        all_marks = reduce(or_, some)
        if all_marks not in some or (all_marks & (all_marks - 1) and not may_be(some[all_marks])):
            return True
    return False


@dataclass(frozen=True)
class _Usable:
    """The productive values of each entry, by the entry's number, and the bit set of entries that have any."""

    values: dict[int, list[tuple[Symbol, int]]]
    names: int
    kinds: dict[int, dict[tuple[bool, frozenset[int]], list[int]]] = field(default_factory=dict)
    """For unmet conditions: the entries that meet some, by whether they are required and the largest sets that they meet."""


class BitSet(int):
    """A set of small numbers as a dictionary key.

    Python hashes an ``int`` to its residue modulo 2**61 - 1, so all one-element sets would share 61 hashes.
    """

    def __hash__(self) -> int:
        return hash(self.to_bytes((self.bit_length() + 7) // 8, "little"))

    __eq__ = int.__eq__


_Progress = tuple[bool, int, int, int, tuple[int, ...], Seen | bool]


MEMBER_BYTES = 4
"""The least bytes of a member besides its name: two quotes, a colon, a value."""


class Members(Bracketed[_Progress, _Usable]):
    """The members of an object and its closing brace.

    A parameter is ``(started, seen, count, met, by_value, names)``: ``seen`` is the bit set of declared names seen, or, if
    ``ordered``, where declared names come in order before others, the index of the first that may still come. ``count``: the
    number of members, as far as the bounds need it; ``met``: the bit set of the ``n_conditions`` conditions that are met;
    ``by_value``: those that undeclared members of each group have met; ``names``: the set of undeclared names, where they are
    told apart, or, where they are not known, whether enough are certainly left.
    """

    name = "members"

    def __init__(
        self,
        frame: Frame,
        entries: Sequence[Entry],
        undeclared: Sequence[Undeclared],
        *,
        ordered: bool,
        n_conditions: int,
        location: str = "",
    ) -> None:
        super().__init__(frame)
        self._entries = entries
        self._undeclared = undeclared
        self._ordered = ordered
        self._location = location
        self._required_bytes = {1 << i: MEMBER_BYTES + len(entry.name) for i, entry in enumerate(entries) if entry.required}
        self._required = sum(self._required_bytes)
        self._conditions = (1 << n_conditions) - 1
        self._n_groups = max((more.group for more in undeclared), default=-1) + 1
        self.first = (False, 0, 0, 0, (0,) * self._n_groups, NOTHING_SEEN)

    def uses(self) -> Iterable[Symbol]:
        yield from self._signs_between()
        for entry in self._entries:
            yield entry.key
            for symbol, _ in entry.values:
                yield symbol
        for more in self._undeclared:
            yield more.key
            yield more.value
            if more.distinct is not None:
                yield from (*more.distinct.space, more.distinct.twin, more.distinct.colon)

    def _can_be_closed(self, value: _Progress, productive: Productive) -> bool:
        _, seen, count, met, by_value, _ = value
        return self._can_close(seen, count, met, self._usable(productive), self._usable_undeclared(productive, by_value))

    def expand(self, value: _Progress, productive: Productive) -> Iterable[Sequence[Part]]:
        started, seen, count, met, by_value, names = value
        usable, undeclared = self._finally_usable(productive), self._usable_undeclared(productive, by_value)
        lead = self._lead(started)
        if self._missing(seen) == 0 and count >= self._low and met == self._conditions:
            yield (self._closings[started],)
        after_count = min(count + 1, self._most)
        if self._is_full(count):
            return
        for i, entry in enumerate(self._entries):
            if self._is_past(seen, i) or not usable.names >> i & 1:
                continue
            after = i + 1 if self._ordered else BitSet(seen | 1 << i)
            for symbol, marks in usable.values[i]:
                if self._can_close(after, after_count, met | marks, usable, undeclared):
                    following = (True, after, after_count, met | marks, by_value)
                    yield (*lead, entry.key, symbol, self._member(following, names))
            if self._ordered and entry.required:
                return
        after = len(self._entries) if self._ordered else seen
        for more in undeclared:
            after_by_value, left = by_value, undeclared
            if more.by_value and more.distinct is None:
                after_by_value = (*by_value[: more.group], by_value[more.group] | more.by_value, *by_value[more.group + 1 :])
                left = self._usable_undeclared(productive, after_by_value)
            if self._can_close(after, after_count, met | more.marks, usable, left):
                following = (True, after, after_count, met | more.marks, after_by_value)
                if more.distinct is None:
                    yield (*lead, more.key, more.value, self._member(following, names))
                else:
                    yield (*lead, *self._distinct(more.distinct, more.value, following, names))

    def _member(self, following: tuple, names: Seen | bool) -> Part:
        """The members that follow."""
        return self._ir.member(self, (*following, names))

    def _distinct(self, key: DistinctKey, value: Symbol, following: tuple, names: Seen | bool) -> Sequence[Part]:
        """A member whose name is not in ``names``, and those after it."""
        if isinstance(names, bool):
            lexeme = key.lexeme if names else key.twin
            return (*key.space, lexeme, key.colon, value, self._member(following, names))

        def then(name: Hashable) -> Sequence[Part] | None:
            return None if name in names else (key.colon, value, self._member(following, names.adding(name)))

        rest = (key.colon, value, self._member(following, names.count + 1 < key.reader.enough))
        return (*key.space, TrackedLexeme(key.lexeme, names.expression, then, rest))

    def representative(self, value: _Progress, of: _Progress | None = None) -> Part | None:
        names = value[-1]
        return self._ir.member(self, (*value[:-1], True)) if isinstance(names, Seen) and names.count else None

    def remaining(self, value: _Progress) -> int:
        _, seen, count, met, _, _ = value
        return max(self._missing(seen).bit_count() + (self._conditions & ~met).bit_count(), self._low - count)

    def least_bytes(self, value: _Progress) -> int:
        missing = self._missing(value[1])
        others = self._low - value[2] - missing.bit_count()
        least = 1 + MEMBER_BYTES * max(others, 0)
        while missing:
            lowest = missing & -missing
            least += self._required_bytes[lowest]
            missing ^= lowest
        return least

    def whole(self, productive: Productive) -> Whole | None:
        """Each required member once, and for every count and condition one member of each other kind."""
        more_needed = self._low + self._conditions.bit_count()
        most = 3 * more_needed * (len(self._undeclared) + sum(len(entry.values) for entry in self._entries))
        if most > _MOST_COUNTED:
            return None
        enough, others = [*self._closings], list[Symbol]()
        ways = self._closing_ways()
        for i, values in self._usable(productive).values.items():
            entry = self._entries[i]
            symbols = [symbol for symbol, _ in values]
            (enough if entry.required else others).extend((self._comma, entry.key, *symbols))
            ways += [(self._comma, entry.key, symbol) for symbol in symbols]
        for more in self._usable_undeclared(productive, (0,) * self._n_groups):
            others += (self._comma, *more.parts_of_key(), more.value)
            ways.append((self._comma, *more.parts_of_key(), more.value))
        return Whole(enough + others * more_needed, ways, more_needed)

    def _usable(self, productive: Productive) -> _Usable:
        """The productive values of each entry that has any."""
        out = {}
        for i, entry in enumerate(self._entries):
            values = [(symbol, marks) for symbol, marks in entry.values if productive(symbol)]
            if values and productive(entry.key):
                out[i] = values
        return _Usable(out, sum(1 << i for i in out))

    def _usable_undeclared(self, productive: Productive, by_value: tuple[int, ...]) -> list[Undeclared]:
        """The undeclared members that may still come."""
        kept = [more for more in self._undeclared if by_value[more.group] & ~(more.marks | more.exempt) == 0]
        return [more for more in kept if productive(more.value) and all(map(productive, more.parts_of_key()))]

    def _is_past(self, seen: int, i: int) -> bool:
        return i < seen if self._ordered else bool(seen >> i & 1)

    def _missing(self, seen: int) -> int:
        """Bit set of the required names that have not been seen."""
        return self._required >> seen << seen if self._ordered else self._required & ~seen

    def _can_close(self, seen: int, count: int, met: int, usable: _Usable, undeclared: list[Undeclared]) -> bool:
        missing = self._missing(seen)
        if missing & ~usable.names:
            return False
        room = None
        if self._high is not None:
            room = self._high - count - missing.bit_count()
            if room < 0 or self._low > self._high:
                return False
        unmet = self._conditions & ~met
        if unmet and not self._can_meet(unmet, room, seen, usable, undeclared):
            return False
        if undeclared or count >= self._low:
            return True
        left = usable.names >> seen if self._ordered else usable.names & ~seen
        return count + left.bit_count() >= self._low

    def _can_meet(self, unmet: int, room: int | None, seen: int, usable: _Usable, undeclared: list[Undeclared]) -> bool:
        """Whether at most ``room`` members (None: any number), besides the missing required ones, meet all of ``unmet``.

        This is a set cover, solved by depth-first search. Entries with equal marks are one kind, of which at most as many are
        considered as there are conditions. Undeclared members of a group, where names may repeat: the last one meets all that
        earlier ones met other than by name. So one of them is as good as several, besides any number of those that meet
        conditions by name only. Raises ``LimitExceeded`` where the search takes too long.
        """
        kinds: dict[tuple[bool, frozenset[int]], int] = {}
        for kind, entries in self._kinds(unmet, usable).items():
            coming = (i for i in reversed(entries) if not self._is_past(seen, i))
            if number := sum(1 for _ in islice(coming, unmet.bit_count())):
                kinds[kind] = number
        groups: dict[tuple[int, bool], set[int]] = {}
        for more in undeclared:
            if more.marks & unmet:
                groups.setdefault((more.group, more.distinct is not None or not more.by_value), set()).add(more.marks & unmet)
        for (_, any_number), some in groups.items():
            kind = (False, _largest(some))
            kinds[kind] = min(kinds.get(kind, 0) + (unmet.bit_count() if any_number else 1), unmet.bit_count())
        pending = [(unmet, 0, tuple(kinds.items()))]
        for _ in range(_MOST_COVERED):
            if not pending:
                return False
            self.work += _CHOICE_WORK
            open_, cost, left = pending.pop()
            if room is not None and cost > room:
                continue
            if not open_:
                return True
            lowest = open_ & -open_
            for n, ((is_required, options), number) in enumerate(left):
                rest = (*left[:n], *(((is_required, options), number - 1),) * (number > 1), *left[n + 1 :])
                for met in options:
                    if met & lowest:
                        pending.append((open_ & ~met, cost + (not is_required), rest))
        raise LimitExceeded(
            "whether members can meet all that complements ask of an object takes too much work",
            location=self._location,
            expected=f"at most {_MOST_COVERED} choices",
        )

    def _kinds(self, unmet: int, usable: _Usable) -> dict[tuple[bool, frozenset[int]], list[int]]:
        """The entries that meet some of ``unmet``, by kind. A required one is missing as long as it is not past."""
        known = usable.kinds.get(unmet)
        if known is None:
            known = {}
            for i, values in usable.values.items():
                marks = _largest({m & unmet for _, m in values if m & unmet})
                if marks:
                    known.setdefault((bool(self._required >> i & 1), marks), []).append(i)
            if len(usable.kinds) >= _MOST_KINDS:
                usable.kinds.clear()
            usable.kinds[unmet] = known
        return known


def _largest(sets: set[int]) -> frozenset[int]:
    """The bit sets without those that are subsets of others."""
    out: list[int] = []
    for one in sorted(sets, key=int.bit_count, reverse=True):
        if all(one & ~other for other in out):
            out.append(one)
    return frozenset(out)


ItemsPlace = tuple[int, int, Counts]


class Items(Bracketed[ItemsPlace, tuple[list[dict[int, Symbol]], Closing]]):
    """The items of an array and its closing bracket.

    A parameter is ``(begun, index, counts)``: the number of items, and how many of them matched each ``contains``, both only as
    far as they matter. The rules of an item are made only after its comma; after the item before, there are just two rules, for
    bracket and comma (:data:`BEFORE_COMMA`). ``choices(i, matched)`` is the symbol of item ``i`` (from ``n_fixed`` on all are
    alike) that matches the ``contains`` in the bit set ``matched``; None if there is no such item.
    """

    name = "items"

    def __init__(
        self, frame: Frame, choices: Callable[[int, int], Symbol | None], n_fixed: int, wanted: Sequence[Wanted]
    ) -> None:
        super().__init__(frame)
        self._n_fixed = n_fixed
        self._wanted = wanted
        self._last = max(n_fixed, self._most)  # larger indices make no difference
        self._symbols = [[choices(i, matched) for matched in range(1 << len(wanted))] for i in range(n_fixed + 1)]
        self.first = (BEFORE_ANY, 0, (0,) * len(wanted))

    def counted(self) -> Iterator[tuple[Symbol | None, int]]:
        """Symbols of items, each with how many values are enough so that distinct items never run out of them.

        Items that match a ``contains`` with an upper bound do not count: the others alone have to make up ``minItems``.
        """
        for i in range(min(self._n_fixed, self._low)):
            yield self._symbols[i][0], i + 1
        row = self._symbols[self._n_fixed]
        if self._low > self._n_fixed:
            yield row[0], self._low
        for k, wanted in enumerate(self._wanted):
            yield row[1 << k], wanted.low

    def uses(self) -> Iterable[Symbol]:
        yield from self._signs_between()
        for row in self._symbols:
            for symbol in row:
                if symbol is not None:
                    yield symbol

    def _can_be_closed(self, value: ItemsPlace, productive: Productive) -> bool:
        _, index, counts = value
        return self._usable(productive)[1].can_close(index, counts)

    def expand(self, value: ItemsPlace, productive: Productive) -> Iterable[Sequence[Part]]:
        begun, index, counts = value
        for signs, following in self.ways(value, productive):
            if following is None:
                yield signs
            elif begun == BEFORE_COMMA:
                yield (self._comma, self._ir.member(self, (BEFORE_ITEM, index, counts)))
                return
            else:
                yield (*signs, self._ir.member(self, following))

    def ways(self, value: ItemsPlace, productive: Productive) -> Iterator[tuple[tuple[Symbol, ...], ItemsPlace | None]]:
        """Continuations: the closing bracket and None; or an item, with the comma before it, and the parameter after it."""
        begun, index, counts = value
        rows, closing = self._finally_usable(productive)
        if begun != BEFORE_ITEM and index >= self._low and self._enough(counts):
            yield (self._closings[begun],), None
        if self._is_full(index):
            return
        lead = self._lead(begun == BEFORE_COMMA)
        following, work = min(index + 1, self._last), closing.work
        for matched, symbol in rows[min(index, self._n_fixed)].items():
            after = counted(counts, matched, self._wanted)
            if after is not None and closing.can_close(following, after):
                self.work, work = self.work + closing.work - work, closing.work
                yield (*lead, symbol), (BEFORE_COMMA, following, after)
        self.work += closing.work - work

    def remaining(self, value: ItemsPlace) -> int:
        begun, index, counts = value
        needed = sum(max(wanted.low - count, 0) for count, wanted in zip(counts, self._wanted, strict=True))
        return steps_left(begun, max(self._low - index, needed))

    def whole(self, productive: Productive) -> Whole | None:
        """For each fixed place, and for each item that a bound asks for, one item of every kind. That is enough: an ending can
        do without an item that neither reaches a fixed place nor is missing for a bound.
        """
        rows = [list(dict.fromkeys(row.values())) for row in self._usable(productive)[0]]
        further = max(self._low - self._n_fixed, 0) + sum(wanted.low for wanted in self._wanted)
        if 2 * sum(map(len, rows)) + 2 * further * len(rows[-1]) > _MOST_COUNTED:
            return None
        enough = [*self._closings]
        for row in [*rows[:-1], *[rows[-1]] * further]:
            enough += [symbol for item in row for symbol in (self._comma, item)]
        items = {symbol for row in rows for symbol in row}
        return Whole(enough, [*self._closing_ways(), (self._comma,), *((item,) for item in sorted(items))])

    def _enough(self, counts: Counts) -> bool:
        return all(count >= wanted.low for count, wanted in zip(counts, self._wanted, strict=True))

    def _usable(self, productive: Productive) -> tuple[list[dict[int, Symbol]], Closing]:
        """The productive items of each place: what they match, and their symbols. Of items with the same symbol only those that
        match most. And the table that tells whether they can close the array.
        """
        rows = []
        for row in self._symbols:
            alike: dict[Symbol, list[int]] = {}
            for matched, symbol in enumerate(row):
                if symbol is not None and productive(symbol):
                    alike.setdefault(symbol, []).append(matched)
            rows.append({m: symbol for symbol, some in alike.items() for m in best_of(some, self._wanted)})
        return rows, Closing(self._wanted, self._low, self._high, [list(row) for row in rows])


class Distinct(Bracketed[tuple[int, int], int]):
    """Distinct items out of a finite set, and the closing bracket. A parameter is ``(begun, seen)``, ``seen`` a bit set.

    The rules of the items left are made only after a comma. After an item, where a mask looks at all continuations, there are
    just two rules, for bracket and comma (:data:`BEFORE_COMMA`).
    """

    name = "distinct items"
    first = (BEFORE_ANY, 0)

    def __init__(self, frame: Frame, values: Sequence[Symbol]) -> None:
        super().__init__(frame)
        self._values = values

    def uses(self) -> Iterable[Symbol]:
        return [*self._signs_between(), *self._values]

    def _can_be_closed(self, value: tuple[int, int], productive: Productive) -> bool:
        return self._can_close(value[1], self._usable(productive))

    def expand(self, value: tuple[int, int], productive: Productive) -> Iterable[Sequence[Part]]:
        begun, seen = value
        usable = self._finally_usable(productive)
        if begun != BEFORE_ITEM and seen.bit_count() >= self._low:
            yield (self._closings[begun],)
        left = usable & ~seen
        if not left or self._is_full(seen.bit_count()) or not self._can_close(seen, usable):
            return
        if begun == BEFORE_COMMA:
            yield (self._comma, self._ir.member(self, (BEFORE_ITEM, seen)))
            return
        for i, symbol in enumerate(self._values):
            if left >> i & 1:
                yield (symbol, self._ir.member(self, (BEFORE_COMMA, BitSet(seen | 1 << i))))

    def representative(self, value: tuple[int, int], of: tuple[int, int] | None = None) -> Part | None:
        """The first items, as many as were seen: one representative for each number of items, not for each set."""
        if self._final is None:
            return None
        begun, seen = value
        left, first = self._final[1], 0
        for _ in range(seen.bit_count()):
            first |= left & -left
            left &= left - 1
        return self._ir.member(self, (begun, BitSet(first)))

    def whole(self, productive: Productive) -> Whole | None:
        """Each value once, if there must be any: the missing ones are among them."""
        if len(self._values) > _MOST_COUNTED:
            return None
        items = [(self._comma, symbol) for symbol in self._values if productive(symbol)]
        needed = [symbol for item in items for symbol in item] if self._low else []
        ways = [(symbol,) for _, symbol in items]
        return Whole([*self._closings, *needed], [*self._closing_ways(), (self._comma,), *ways])

    def remaining(self, value: tuple[int, int]) -> int:
        return steps_left(value[0], self._low - value[1].bit_count())

    def _usable(self, productive: Productive) -> int:
        return sum(1 << i for i, symbol in enumerate(self._values) if productive(symbol))

    def _can_close(self, seen: int, usable: int) -> bool:
        count = (seen | usable).bit_count()
        return (count if self._high is None else min(count, self._high)) >= self._low
