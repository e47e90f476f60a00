"""``unevaluatedProperties`` and ``unevaluatedItems``: the members and items that no other keyword at their place evaluates.

Which members are evaluated depends on which subschemas are valid (Core, section 11). An alternative of a place states that:
:meth:`Unevaluated.branching` turns ``anyOf`` into a choice between sets of its branches. For each alternative the evaluated
names are then known, and the keyword becomes a plain ``additionalProperties``. The other branches may be valid or not: what
they evaluate only allows more, and the alternative of a larger set covers that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import NamedTuple

from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.schema import ArrayPart, ObjectPart, Subschema
from cdplugin.walks import reached

MOST_BRANCHES = 10
"""Branches of one ``anyOf`` that evaluate members: each set of them becomes an alternative."""


class Mentions(NamedTuple):
    """What a schema evaluates: names and patterns, or all properties; a prefix and matching items, or all items."""

    all_properties: bool = False
    all_items: bool = False
    names: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    prefix: int = 0
    matching: tuple[Subschema, ...] = ()


_NOTHING = Mentions()


def mentions_of(sub: Subschema, finally_all: bool = True) -> Mentions:
    """What this schema's own keywords evaluate. ``finally_all``: include its ``unevaluated*`` keywords, which evaluate all."""
    schema = sub.schema if isinstance(sub.schema, dict) else {}
    properties, items = sub.unevaluated
    out = Mentions(finally_all and properties is not None, finally_all and items is not None)
    if sub.object is not None:
        part = sub.object
        all_properties = out.all_properties or part.additional is not None or "additionalProperties" in schema
        patterns = tuple(pattern for pattern, _ in part.patterns)
        out = out._replace(names=tuple(part.properties), patterns=patterns, all_properties=all_properties)
    if sub.array is not None:
        array, listed = sub.array, isinstance(schema.get("items"), list)
        all_items = out.all_items or array.rest is not None or ("additionalItems" if listed else "items") in schema
        out = out._replace(prefix=len(array.prefix), matching=array.matching, all_items=all_items)
    return out


def in_place(sub: Subschema) -> Iterable[Subschema]:
    """The in-place applicators of ``sub``: schemas that may add to what it evaluates."""
    yield from sub.before
    yield from sub.after
    for branches in sub.choices:
        yield from branches
    for item in sub.logic:
        if item.kind != "not":
            yield from item.members


class Unevaluated:
    """Rewrites the two keywords as others, for each alternative."""

    def __init__(
        self,
        reader: Reader,
        conjunction: Callable[..., Subschema],
        disjoint: Callable[[Subschema, Subschema], bool],
        count: Callable[[int], None],
    ) -> None:
        self._anything, self._nothing = reader.anything, reader.nothing
        self._conjunction, self._disjoint, self._count = conjunction, disjoint, count
        self._rests: dict[tuple, Subschema] = {}
        self._telling: dict[Subschema, bool] = {}
        self._under = reached([sub for sub in reader.subschemas if sub.unevaluated != (None, None)], in_place)

    def matters_to(self, sub: Subschema) -> bool:
        """Whether it matters which branches of ``sub`` are valid."""
        return sub in self._under

    def _tells(self, sub: Subschema) -> bool:
        """Whether ``sub``, with its applicators, evaluates members."""
        if sub not in self._telling:
            self._telling[sub] = any(mentions_of(part) != _NOTHING for part in reached([sub], in_place))
        return self._telling[sub]

    def branching(self, branches: tuple[Subschema, ...], optional: bool = False) -> tuple[Subschema, ...] | None:
        """``anyOf`` as a choice between sets of branches that evaluate members, each set as a conjunction; None: too many.

        ``optional``: the ``anyOf`` may also fail.
        """
        telling = [branch for branch in dict.fromkeys(branches) if self._tells(branch)]
        if not telling:
            return () if optional else branches
        if len(telling) > MOST_BRANCHES and not all(self._disjoint(a, b) for a, b in combinations(telling, 2)):
            return None
        others = (self._anything,) if optional else tuple(branch for branch in branches if branch not in telling)
        out: list[Subschema] = []
        stack: list[tuple[int, tuple[Subschema, ...]]] = [(0, ())]
        while stack:
            i, held = stack.pop()
            self._count(1)
            if i < len(telling):
                branch = telling[i]
                stack.append((i + 1, held))
                if not any(self._disjoint(branch, other) for other in held):
                    stack.append((i + 1, (*held, branch)))
            elif held:
                out.append(self._conjunction(*held))
            else:
                out += others
        return tuple(branch for branch in out if branch is not self._nothing)

    def applied(self, alternative: tuple[Subschema, ...]) -> tuple[Subschema, ...]:
        """The alternative, which lists all schemas known to be valid, with the rewritten keywords added."""
        rests = [rest for sub in alternative if sub.unevaluated != (None, None) for rest in self._rests_of(sub, alternative)]
        return (*alternative, *rests) if rests else alternative

    def _rests_of(self, sub: Subschema, alternative: tuple[Subschema, ...]) -> Iterable[Subschema]:
        held = frozenset(alternative)
        names: dict[str, None] = {}
        patterns: dict[str, None] = {}
        matching: dict[Subschema, None] = {}
        prefix, all_properties, all_items = 0, False, False
        for part in holding(sub, lambda branch: branch in held or branch is self._anything):
            found = mentions_of(part, part is not sub)
            names.update(dict.fromkeys(found.names))
            patterns.update(dict.fromkeys(found.patterns))
            matching.update(dict.fromkeys(found.matching))
            prefix = max(prefix, found.prefix)
            all_properties, all_items = all_properties or found.all_properties, all_items or found.all_items
        properties, items = sub.unevaluated
        if properties is not None and properties is not self._anything and not all_properties:
            yield self._properties(sub, properties, tuple(names), tuple(patterns))
        if items is not None and items is not self._anything and not all_items:
            yield self._items(sub, items, prefix, tuple(matching))

    def _properties(self, sub: Subschema, below: Subschema, names: tuple[str, ...], patterns: tuple[str, ...]) -> Subschema:
        key = (sub, names, patterns)
        if key not in self._rests:
            declared = dict.fromkeys(names, self._anything)
            described = tuple((pattern, self._anything) for pattern in patterns)
            self._rests[key] = sub.same_place(object=ObjectPart(declared, described, additional=below))
        return self._rests[key]

    def _items(self, sub: Subschema, below: Subschema, prefix: int, matching: tuple[Subschema, ...]) -> Subschema:
        key = (sub, prefix, matching)
        if key not in self._rests:
            rest = sub.same_place(choices=((*matching, below),)) if matching else below
            self._rests[key] = sub.same_place(array=ArrayPart((self._anything,) * prefix, rest))
        return self._rests[key]


def holding(sub: Subschema, holds: Callable[[Subschema], bool]) -> Iterable[Subschema]:
    """``sub`` and its applicators that are valid too, as ``holds`` says."""
    seen: set[Subschema] = set()
    stack = [sub]
    while stack:
        part = stack.pop()
        if part in seen:
            continue
        seen.add(part)
        yield part
        stack += part.before + part.after
        for branches in part.choices:
            stack += [branch for branch in branches if holds(branch)]
        for item in part.logic:
            if item.kind == "if":
                condition, then, otherwise = item.members
                stack += [condition, then] if holds(condition) else [otherwise]
            elif item.kind != "not":
                stack += [branch for branch in item.members if holds(branch)]
