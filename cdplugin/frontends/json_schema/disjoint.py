"""Find schemas that provably share no instance: by types, listed values, bounds, patterns, or required members.

The test is one-sided: False means only that no proof was found. The work is counted; searches over patterns have a budget of
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cdplugin.frontends.json_schema.dialect import ALL_TYPES, ARRAY_BIT, NUMBER_BITS, OBJECT_BIT, STRING_BIT
from cdplugin.frontends.json_schema.matching import share_no_text
from cdplugin.frontends.json_schema.names import Conjunction
from cdplugin.frontends.json_schema.schema import Subschema, shortest_values
from cdplugin.frontends.json_schema.values import canonical

_UNLIKE_FORMATS = frozenset(("date", "time", "date-time", "ipv4", "ipv6", "uuid", "email"))
"""Formats that are pairwise disjoint."""
_MOST_POSITIONS = 16
_MOST_SEARCH = 100_000
"""Derivatives taken in all to prove patterns disjoint."""
DEPTH = 4
"""Levels of properties and choices that are compared."""


class Apart:
    """Proves schemas disjoint. ``maybe(sub, value)``: whether a fixed value may be valid; ``count``: counts work."""

    def __init__(self, maybe: Callable[[Subschema, Any], bool], count: Callable[[int], None]) -> None:
        self._maybe = maybe
        self._count = count
        self._search_left = _MOST_SEARCH
        self._facts: dict[Subschema, _Facts] = {}
        self._disjoint: dict[tuple[Subschema, Subschema, int], bool] = {}

    def disjoint(self, a: Subschema, b: Subschema, depth: int = DEPTH) -> bool:
        """Whether it is proven that no instance is valid under both."""
        if a is b:
            return False
        key = (a, b, depth)
        found = self._disjoint.get(key)
        if found is None:
            self._count(1)
            found = self._disjoint[key] = self._disjoint[(b, a, depth)] = self._are_disjoint(a, b, depth)
        return found

    def _share_no_text(self, first: str, second: str) -> bool:
        if self._search_left <= 0:
            return False
        found, taken = share_no_text(first, second)
        self._search_left -= taken + 25
        return found

    def by_listed_values(self, schemas: list[Subschema]) -> bool:
        """Whether listed values (``enum``, ``const``) of the schemas, or of one property that all require, are pairwise
        disjoint.
        """
        facts = [self._facts_of(sub) for sub in schemas]
        if _all_differ([f.values for f in facts]):
            return True
        once = shared = 0
        for f in facts:
            shared |= once & f.types
            once |= f.types
        if shared & ~OBJECT_BIT:
            return False  # `required` restricts only objects
        names = [name for name in facts[0].conjunction.required if all(name in f.conjunction.required for f in facts)]
        return any(_all_differ([self._listed(f.children(name)) for f in facts]) for name in names)

    def free_in_two(self, schemas: Iterable[Subschema]) -> int:
        """Bits of the types of which every value is valid under at least two of ``schemas``."""
        once = twice = 0
        for sub in schemas:
            free = self._facts_of(sub).free
            twice |= once & free
            once |= free
        return twice

    def allowed(self, sub: Subschema) -> int:
        """Bits of the types that ``sub`` may accept."""
        return self._facts_of(sub).types

    def _facts_of(self, sub: Subschema) -> _Facts:
        found = self._facts.get(sub)
        if found is None:
            self._count(1)
            found = self._facts[sub] = _Facts(sub)
        return found

    def _are_disjoint(self, a: Subschema, b: Subschema, depth: int) -> bool:
        first, second = self._facts_of(a), self._facts_of(b)
        if not first.types & second.types or not self._share_listed([a, b]):
            return True
        if not first.denied.isdisjoint(second.members) or not second.denied.isdisjoint(first.members):
            return True
        if not self._shared_types(first, second, depth):
            return True
        return depth > 0 and any(
            all(self.disjoint(branch, other, depth - 1) for branch in branches)
            for facts, other in ((first, b), (second, a))
            for branches in facts.choices
        )

    def _shared_types(self, first: _Facts, second: _Facts, depth: int) -> int:
        """Bits of the types of which both may have an instance, as far as the keywords of each type show."""
        types = first.types & second.types
        both = first.basics + second.basics
        if types & NUMBER_BITS and _numbers_clash(both):
            types &= ~NUMBER_BITS
        if types & STRING_BIT and (
            _counts_clash([s.text[:2] for s in both if s.text])
            or len({form.name for s in both for form in s.formats} & _UNLIKE_FORMATS) > 1
        ):
            types &= ~STRING_BIT
        if types == STRING_BIT:
            patterns = [[p for s in f.basics if s.text for p in s.text[2]] for f in (first, second)]
            self._count(4 * len(patterns[0]) * len(patterns[1]))
            if any(self._share_no_text(x, y) for x in patterns[0] for y in patterns[1]):
                return 0
        if types & ARRAY_BIT and self._arrays_clash(first, second, depth):
            types &= ~ARRAY_BIT
        if types & OBJECT_BIT and self._objects_clash(first, second, depth):
            types &= ~OBJECT_BIT
        return types

    def _arrays_clash(self, first: _Facts, second: _Facts, depth: int) -> bool:
        parts = [s.array for s in first.basics + second.basics if s.array is not None]
        if _counts_clash([(part.low, part.high) for part in parts]):
            return True
        low = max((part.low for part in parts), default=0)
        for i in range(min(low, _MOST_POSITIONS)) if depth else ():
            left, right = first.items(i), second.items(i)
            if any(self.disjoint(x, y, depth - 1) for x in left for y in right):
                return True
        return False

    def _objects_clash(self, first: _Facts, second: _Facts, depth: int) -> bool:
        parts = [s.object for s in first.basics + second.basics if s.object is not None]
        if _counts_clash([(part.low, part.high) for part in parts]):
            return True
        for name in {**first.conjunction.required, **second.conjunction.required}:
            left, right = first.children(name), second.children(name)
            if any(child.types == 0 for child in left + right):
                return True
            if depth and any(self.disjoint(x, y, depth - 1) for x in left for y in right):
                return True
            if depth and left and right and not self._share_listed(left + right):
                return True
        return False

    def _listed(self, schemas: list[Subschema]) -> list[Any] | None:
        """The shortest list of values to which one of ``schemas`` restricts instances; None if none does."""
        return min((values for sub in schemas if (values := self._facts_of(sub).values) is not None), key=len, default=None)

    def _share_listed(self, schemas: list[Subschema]) -> bool:
        """Whether one of the values to which ``schemas`` restrict instances may be valid under all; True if
        there is no list.
        """
        values = self._listed(schemas)
        if values is None:
            return True
        self._count(len(values) // 16)
        return any(all(self._maybe(sub, value) for sub in schemas) for value in values)


class _Facts:
    """What follows for certain from a schema, with its ``allOf`` and ``$ref``.

    ``free``: bits of the types of which every value is valid.
    """

    __slots__ = ("_conjunction", "basics", "choices", "denied", "free", "members", "types", "values")

    def __init__(self, sub: Subschema) -> None:
        self.types = ALL_TYPES
        self.basics: list[Subschema] = []
        self.choices: list[tuple[Subschema, ...]] = []
        self.denied: set[Subschema] = set()
        members: dict[Subschema, None] = {}
        stack = [sub]
        while stack:
            part = stack.pop()
            if part in members:
                continue
            members[part] = None
            stack += part.before + part.after
            self.types &= part.types
            self.choices += part.choices
            for item in part.logic:
                if item.kind == "not":
                    self.denied.update(item.members)
                    for denied in item.members:
                        if denied.is_alone():
                            self.types &= ~(denied.types & ~denied.limited())
                elif item.kind == "oneOf":
                    self.choices.append(item.members)
            if part.constrains_itself():
                self.basics.append(part)
        self.members = members
        self.free = 0 if self.choices or any(part.logic for part in members) else self.types
        for part in self.basics:
            self.free &= ~part.limited()
        self.values = shortest_values(self.basics)
        self._conjunction: Conjunction | None = None

    @property
    def conjunction(self) -> Conjunction:
        """The object keywords of all ``basics``."""
        if self._conjunction is None:
            self._conjunction = Conjunction(self.basics)
        return self._conjunction

    def children(self, name: str) -> list[Subschema]:
        """The schemas for the member called ``name``."""
        return self.conjunction.children(name)

    def items(self, i: int) -> list[Subschema]:
        """The schemas for item ``i``."""
        found = [s.array.item(i) for s in self.basics if s.array is not None]
        return [child for child in found if child is not None]


def _all_differ(lists: list[list[Any] | None]) -> bool:
    """Whether all are lists, and pairwise disjoint."""
    seen: set[str] = set()
    for values in lists:
        if values is None:
            return False
        keys = {canonical(value) for value in values}
        if not keys.isdisjoint(seen):
            return False
        seen |= keys
    return True


def _counts_clash(bounds: list[tuple[int, int | None]]) -> bool:
    highs = [high for _, high in bounds if high is not None]
    return bool(highs) and max(low for low, _ in bounds) > min(highs)


def _numbers_clash(basics: list[Subschema]) -> bool:
    lows = [s.low for s in basics if s.low is not None]
    highs = [s.high for s in basics if s.high is not None]
    if not lows or not highs:
        return False
    low, high = max(lows, key=lambda b: (b[0], b[1])), min(highs, key=lambda b: (b[0], not b[1]))
    return low[0] > high[0] or (low[0] == high[0] and (low[1] or high[1]))
