"""Schemas whose alternatives multiply: merging is counted, and a schema that takes too much is compiled again, its equal parts
shared.

Then it is a schema in which equal parts are one object; a large one that has alternatives is so at once. The reader takes the
same object, at the same base, for the same subschema. Only then is it plain that a property cannot be valid under one branch of
a ``oneOf`` and invalid under what another branch says of it in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.frontends.json_schema.matching import Search
from cdplugin.frontends.json_schema.refs import SCHEMA_MAPS
from cdplugin.ir import Spent
from cdplugin.limits import Limits

_ANNOTATIONS = frozenset(
    ("title", "description", "example", "examples", "default", "$comment", "readOnly", "writeOnly", "deprecated")
)
_INTO_ANNOTATIONS = re.compile("/(?:" + "|".join(map(re.escape, sorted(_ANNOTATIONS))) + ")/")
_DATA = frozenset(("enum", "const"))
_SCHEMA, _MAP, _VALUE = range(3)
"""What stands in a place: a schema (or a list of them), schemas by name, instance data."""


_Part = tuple[Any, int]
"""An object or a list, and what it stands for."""


def share_equal_parts(document: dict | bool) -> Any:
    """A copy of a schema without its annotations, in which equal parts are the same object. Linear in the size of the schema,
    parts that are shared already counted once; nothing recurses. Annotations that a ``$ref`` may lead into are left.
    """
    if isinstance(document, bool):
        return document
    dropped = _ANNOTATIONS
    order, leads_there = _inner_first(document, dropped)
    if leads_there:
        dropped = frozenset()
        order, _ = _inner_first(document, dropped)
    copies: dict[tuple, Any] = {}
    shared: tuple[dict[int, Any], ...] = ({}, {}, {})  # by what a part stands for: its id -> its copy
    schemas, maps, values = shared
    share = copies.setdefault
    for part, place in order:
        if isinstance(part, list):
            below = shared[place]
            members = [below[id(m)] if isinstance(m, (dict, list)) else share(_scalar_key(m), m) for m in part]
            shared[place][id(part)] = share((list, *map(id, members)), members)
            continue
        copy: dict[str, Any] = {}
        below = schemas if place == _MAP else values
        for name, m in part.items():
            if place == _SCHEMA:
                if name in dropped and not isinstance(m, dict):
                    continue
                below = values if name in _DATA else maps if name in SCHEMA_MAPS else schemas
            copy[name] = below[id(m)] if isinstance(m, (dict, list)) else share(_scalar_key(m), m)
        shared[place][id(part)] = share((dict, *copy, *map(id, copy.values())), copy)
    return schemas[id(document)]


def _scalar_key(value: Any) -> tuple[type, Any]:
    """What equal values have in common that are spelt alike: ``0.0`` and ``-0.0`` are not."""
    kind = type(value)
    return kind, repr(value) if kind is float else value


def _inner_first(document: dict, dropped: frozenset[str]) -> tuple[list[_Part], bool]:
    """The objects and lists that matter, each once for what it stands for, those that it has before it; and whether a ``$ref``
    may lead into an annotation. ``dropped``: names of keywords whose lists do not matter.
    """
    order: list[_Part] = []
    leads_there = False
    done: tuple[set[int], ...] = (set(), set(), set())
    pending: list[tuple[Any, int, bool]] = [(document, _SCHEMA, False)]
    while pending:
        part, place, is_entered = pending.pop()
        if is_entered:
            order.append((part, place))
            continue
        if id(part) in done[place]:
            continue
        done[place].add(id(part))
        pending.append((part, place, True))
        if isinstance(part, list):
            pending += [(member, place, False) for member in part if isinstance(member, (dict, list))]
        elif place != _SCHEMA:
            below = _SCHEMA if place == _MAP else _VALUE
            pending += [(member, below, False) for member in part.values() if isinstance(member, (dict, list))]
        else:
            reference = part.get("$ref")
            leads_there |= isinstance(reference, str) and _INTO_ANNOTATIONS.search(unquote(reference)) is not None
            pending += [
                (member, _VALUE if name in _DATA else _MAP if name in SCHEMA_MAPS else _SCHEMA, False)
                for name, member in part.items()
                if isinstance(member, dict) or (isinstance(member, list) and name not in dropped)
            ]
    return order, leads_there


_STEP_COST = 6
_FIRST_ATTEMPT = 16
"""The part of the steps after which a schema is read again with more care."""
_FOR_THE_SECOND = 3
"""The first attempt leaves at least twice what it takes to the second."""
_OF_A_PLACE = 8
"""The part of the steps that the alternatives of one place may take, before a ``oneOf`` there is given up that may be."""
_WORK_PER_BYTE = 0.0625
"""What is in proportion to a schema's size: no sign that alternatives multiply."""


class MultipliesError(LimitExceeded):
    """An attempt takes too much work: it may be because alternatives overlap."""

    def plain(self) -> LimitExceeded:
        """This error as callers get it, when no attempt is left."""
        return LimitExceeded(self.message, location=self.location, expected=self.expected)


def located(error: LimitExceeded, pointer: str) -> GrammarError:
    """The error, with the place ``pointer`` unless it names one."""
    return error if error.location else error.amended(location=pointer)


class Effort:
    """Steps of merging, counted against ``limits.max_rules``, six for a rule. ``spent``: where all schemas of a spec count.

    A first attempt ends early, unless the work is but in proportion to the ``size`` of the schema. What it took counts for the
    second one, which makes alternatives that do not overlap. A last one, where complements multiplied, may take as much again:
    it has fewer alternatives, whose objects remember more. ``search``: what texts names may have, found for all.
    """

    def __init__(self, limits: Limits, size: int, spent: Spent) -> None:
        self.is_first, self.is_last, self.is_loose = True, False, False
        self.search = Search()
        self._spent = spent
        self._limits = limits
        self._most = limits.max_rules
        at_first = min(max(limits.max_rules // _FIRST_ATTEMPT, int(_WORK_PER_BYTE * size)), limits.max_rules // _FOR_THE_SECOND)
        self._most_at_first = spent.steps + at_first

    def again(self) -> Effort:
        """Begin the attempt after the first or the second; returns itself."""
        self.is_last = not self.is_first
        self.is_first = False
        if self.is_last:
            self._most += self._limits.max_rules
        return self

    def loosely(self) -> Effort:
        """Begin an attempt after the last one that gives up some ``oneOf`` and may take as much again; returns itself."""
        self.is_last, self.is_loose = False, True
        self._most += self._limits.max_rules
        return self

    @contextmanager
    def part(self) -> Iterator[None]:
        """A context in which a part of the steps may be taken."""
        most = self._most
        self._most = min(most, self._spent.steps + self._limits.max_rules // _OF_A_PLACE)
        try:
            yield
        finally:
            self._most = most

    def count(self, steps: int) -> None:
        """Count steps; raises ``LimitExceeded`` when they are too many."""
        spent = self._spent
        spent.steps += steps * _STEP_COST
        if spent.steps > self._most:
            raise MultipliesError(
                "merging allOf, anyOf and $ref takes too much work",
                expected=f"at most {self._most // _STEP_COST} steps (Limits.max_rules = {self._most})",
            )
        if self.is_first and spent.steps > self._most_at_first:
            raise MultipliesError("merging allOf, anyOf and $ref takes too much work")
