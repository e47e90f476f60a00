"""Limit the work of merging subschemas, and share equal parts of a schema whose alternatives multiply.

Merging counts its steps (:class:`MergeBudget`). A schema that takes too many is compiled again as a copy in which equal parts
are one object; a large schema with alternatives starts that way. The reader makes one subschema of one object at one base, so
the merger then sees, for instance, that a property cannot be valid under one branch of a ``oneOf`` and invalid under an equally
worded property of another branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
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
"""The role of a place in the document: a schema (or a list of them), a map of schemas by name, instance data."""


_Part = tuple[Any, int]
"""An object or a list, and its role."""


def share_equal_parts(document: dict | bool) -> Any:
    """A copy of a schema without its annotations, in which equal parts are one object. Linear in the size of the schema, where
    shared parts count once; it does not recurse. If a ``$ref`` may lead into an annotation, annotations are kept.
    """
    if isinstance(document, bool):
        return document
    dropped = _ANNOTATIONS
    order, leads_there = _inner_first(document, dropped)
    if leads_there:
        dropped = frozenset()
        order, _ = _inner_first(document, dropped)
    copies: dict[tuple, Any] = {}
    shared: tuple[dict[int, Any], ...] = ({}, {}, {})  # by role: the id of a part -> its copy
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
    """A key that equal scalars share if they are also spelled alike: ``0.0`` and ``-0.0`` are not."""
    kind = type(value)
    return kind, repr(value) if kind is float else value


def _inner_first(document: dict, dropped: frozenset[str]) -> tuple[list[_Part], bool]:
    """The relevant objects and lists in postorder, each once for each role; and whether a ``$ref`` may lead into an annotation.
    ``dropped``: names of keywords whose lists are skipped.
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
"""The fraction (1/16) of the steps after which a schema is read again with more care."""
_FOR_THE_SECOND = 3
"""The first attempt may take at most a third, so that the second has twice as much."""
_OF_A_PLACE = 8
"""The fraction (1/8) of the steps that the alternatives of one place may take before a ``oneOf`` there is relaxed."""
_WORK_PER_BYTE = 0.0625
"""Work in proportion to a schema's size is no sign that alternatives multiply."""


class MultipliesError(LimitExceeded):
    """An attempt took too much work, perhaps because alternatives overlap."""

    def plain(self) -> LimitExceeded:
        """The error for the caller, when no attempt is left."""
        return LimitExceeded(self.message, location=self.location, expected=self.expected)


def located(error: LimitExceeded, pointer: str) -> GrammarError:
    """The error, with ``pointer`` as its location unless it has one."""
    return error if error.location else error.amended(location=pointer)


Attempt = Enum("Attempt", "FIRST DISJOINT LAST RELAXED")
"""``FIRST``: cut short where alternatives multiply. ``DISJOINT``: alternatives do not overlap. ``LAST``, where complements
multiplied: fewer alternatives, whose objects remember more. ``RELAXED``: some ``oneOf`` become ``anyOf``.
"""


class MergeBudget:
    """The steps that merging may take: ``limits.max_rules``, six steps for a rule; as much again for ``LAST`` and ``RELAXED``.

    ``spent`` is shared by all schemas of a spec. The first attempt ends early, unless its work is in proportion to ``size``,
    the bytes of the schema; its work counts for the second. ``search``: answers questions about expressions, memoised for all
    attempts.
    """

    def __init__(self, limits: Limits, size: int, spent: Spent) -> None:
        self.attempt = Attempt.FIRST
        self.search = Search()
        self._spent = spent
        self._limits = limits
        self._most = limits.max_rules
        at_first = min(max(limits.max_rules // _FIRST_ATTEMPT, int(_WORK_PER_BYTE * size)), limits.max_rules // _FOR_THE_SECOND)
        self._most_at_first = spent.steps + at_first

    def begin(self, attempt: Attempt) -> MergeBudget:
        """Begin a later attempt; returns itself."""
        self.attempt = attempt
        if attempt is not Attempt.DISJOINT:
            self._most += self._limits.max_rules
        return self

    @contextmanager
    def part(self) -> Iterator[None]:
        """A context that limits the work inside it to the part for one place."""
        most = self._most
        self._most = min(most, self._spent.steps + self._limits.max_rules // _OF_A_PLACE)
        try:
            yield
        finally:
            self._most = most

    def count(self, steps: int) -> None:
        """Count steps. Raises :class:`MultipliesError`, a ``LimitExceeded``, when they are too many."""
        spent = self._spent
        spent.steps += steps * _STEP_COST
        if spent.steps > self._most:
            raise MultipliesError(
                "merging allOf, anyOf and $ref takes too much work",
                expected=f"at most {self._most // _STEP_COST} steps (Limits.max_rules = {self._most})",
            )
        if self.attempt is Attempt.FIRST and spent.steps > self._most_at_first:
            raise MultipliesError("merging allOf, anyOf and $ref takes too much work")
