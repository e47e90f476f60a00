"""Rules for arrays: ``prefixItems``, then further items; ``contains`` and ``uniqueItems`` need families with memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from cdplugin.errors import LimitExceeded
from cdplugin.frontends.json_schema.bracketed import Frame
from cdplugin.frontends.json_schema.closing import Wanted
from cdplugin.frontends.json_schema.distinct import Unique, distinct_item
from cdplugin.frontends.json_schema.distinct_items import DistinctItems
from cdplugin.frontends.json_schema.distinct_values import VALUE, frozen
from cdplugin.frontends.json_schema.members import Distinct, Items
from cdplugin.frontends.json_schema.schema import ArrayPart, Subschema, bounds_of
from cdplugin.frontends.json_schema.shapes import Alternative, Place
from cdplugin.frontends.json_schema.writing import Writing
from cdplugin.ir import Symbol

_MOST_WANTED = 6
"""``contains`` conditions on one array: each item is written once for each subset of them."""
_MOST_COUNTED = 3
"""The same where matching items are counted (above one): then reachable counts are searched."""
_MOST_STATES = 2_000
"""Combinations of the counts of several ``contains``."""
_Contains = tuple[Subschema, int, int | None]
"""A ``contains`` subschema, and the least and the most (None: no bound) number of items that must be valid under it."""
_SHOWN = 1 << 60  # larger numbers appear as "more" in messages

_NOT_BESIDE = "beside 'contains' with 'prefixItems', or beside several 'contains' of which one is counted"


def _items_at(i: int, parts: Iterable[ArrayPart]) -> list[Subschema]:
    """The subschemas of item ``i``."""
    return [child for part in parts if (child := part.item(i)) is not None]


class Arrays(Writing):
    """Writes what follows the opening brackets of arrays."""

    def _array(self, alternative: Alternative, pointer: str) -> Symbol | None:
        """The items and the closing bracket, or None if no array fits."""
        parts = [sub.array for sub in alternative if sub.array is not None]
        if any(part.contains or part.unique for part in parts):
            special = self._remembering(alternative, parts)
            if special is not None:
                return special
        low, high = bounds_of(parts)
        fixed, barred = self._fixed_items(parts, high)
        if barred is not None:
            high = len(fixed)
        rest = self._shaper.place([part.rest for part in parts if part.rest is not None])
        further = self._symbol(rest)
        if further is None and (high is None or high > len(fixed)):
            high, barred = len(fixed), rest
        if high is not None and low > high:
            if barred is not None:
                self._culprit.setdefault(pointer, barred.pointer)
            return None
        return self._items(fixed, further, (low, high), pointer)

    def _fixed_items(self, parts: list[ArrayPart], high: int | None) -> tuple[list[Symbol], Place | None]:
        """The items with a schema of their own, up to ``high``, ending before the first that has no value; and that one's
        place.
        """
        fixed: list[Symbol] = []
        for i in range(max((len(part.prefix) for part in parts), default=0)):
            if high is not None and i >= high:
                break
            there = self._shaper.place(_items_at(i, parts))
            item = self._symbol(there)
            if item is None:
                return fixed, there
            fixed.append(item)
        return fixed, None

    def _items(self, fixed: list[Symbol], further: Symbol | None, bounds: tuple[int, int | None], pointer: str) -> Symbol:
        """The body of an array of ``fixed`` items, then ``further`` ones. Some number of items must meet the bounds."""
        ir, (low, high) = self.ir, bounds
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
        """The body of an array with ``contains`` or ``uniqueItems``; None if these turn out to restrict nothing."""
        low, high = bounds_of(parts)
        if high is not None and low > high:
            return None
        n_fixed = max(len(part.prefix) for part in parts)
        wanted = list(dict.fromkeys(entry for part in parts for entry in part.contains))
        frame = Frame(self.ir, self._comma, (self._here.empty_bracket, self._here.close_bracket), low, high)
        location = self._where_distinct(alternative, n_fixed, wanted) if high is None or high > 1 else None
        if not wanted and location is None:
            return None
        if location is not None and not n_fixed and not wanted:
            alike = self._distinct_and_alike([part.rest for part in parts if part.rest is not None], frame, location)
            if alike is not None:
                return alike
        self._check_counts(wanted)
        self._shaper.count(len(wanted) * n_fixed << len(wanted))

        def choice(i: int, matched: int) -> Symbol | None:
            all_of = _items_at(i, parts)
            for k, (sub, _, most) in enumerate(wanted):
                if matched >> k & 1:
                    all_of.append(sub)
                elif most is not None:  # an item that is not counted must not match
                    all_of.append(self._shaper.complement(sub))
            return self._symbol(self._shaper.place(all_of))

        items = Items(frame, choice, n_fixed, [Wanted(least, most) for _, least, most in wanted])
        if location is None:
            return items.start()
        distinct = DistinctItems(self.ir, self._signs, items, location)
        self._distinct.append(distinct)
        return distinct.start()

    def _where_distinct(self, alternative: Alternative, n_fixed: int, wanted: Sequence[_Contains]) -> str | None:
        """The pointer of the ``uniqueItems`` that applies; None if none does, or it is refused beside ``contains``."""
        unique = [sub for sub in alternative if sub.array is not None and sub.array.unique]
        is_counted = any(least > 1 or most is not None for _, least, most in wanted)
        if unique and wanted and (n_fixed or (is_counted and len(wanted) > 1)):
            for sub in unique:
                self._shaper.refuse(sub, "uniqueItems", _NOT_BESIDE)
            return None
        return f"{unique[0].pointer}/uniqueItems" if unique else None

    def _distinct_and_alike(self, item: list[Subschema], frame: Frame, location: str) -> Symbol | None:
        """The body of an array of distinct items, each valid under all of ``item``, if these are few fixed
        values or scalars.
        """
        signs, layout = self._signs, self._inner.layout
        values = self._shaper.finite(item)
        if values is not None:
            symbols = [(value, self.ir.lexeme(layout.value(text), "value")) for value, text in values]
            return Distinct(frame, [signs.note(symbol, (VALUE, frozen(value))) for value, symbol in symbols]).start()
        place = self._shaper.place(item)
        if not place.split:
            self._shaper.split(place)
        if place.scalar is None or place.arrays or place.objects or place.constants:
            return None
        scalars = Unique(frame, distinct_item(place.scalar), signs.spaces(layout), location)
        signs.note_tracked(*scalars.lexemes, is_key=False)
        return scalars.start()

    @staticmethod
    def _check_counts(wanted: Sequence[_Contains]) -> None:
        """Raise LimitExceeded where several ``contains`` have too many combinations of counts."""
        most_wanted = _MOST_WANTED if all(most is None and least < 2 for _, least, most in wanted) else _MOST_COUNTED
        if len(wanted) > most_wanted:
            raise LimitExceeded(
                "too many contains apply to one array",
                location=wanted[most_wanted][0].pointer,
                keyword="contains",
                expected=f"at most {most_wanted}",
                found=str(len(wanted)),
            )
        states = prod(max(least, most or 0) + 1 for _, least, most in wanted) if len(wanted) > 1 else 1
        if states > _MOST_STATES:
            raise LimitExceeded(
                "the counts of several contains are too large",
                location=wanted[-1][0].pointer,
                keyword="contains",
                expected=f"at most {_MOST_STATES} combinations",
                found=str(states) if states < _SHOWN else "more",
            )
