"""Which schemas apply to which property names of an object (Core, section 10.3.2).

``properties`` and ``patternProperties`` apply to names, ``additionalProperties`` to those that neither of these in the same
schema applies to, and ``propertyNames`` restricts all names. Undeclared names fall into *classes* by the patterns that they
match; each class is one lexeme, with the schemas that apply to its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from itertools import combinations

from cdplugin.errors import LimitExceeded
from cdplugin.expr import Expr, both, cat, complement
from cdplugin.frontends.json_schema.dialect import ALL_TYPES, OBJECT_BIT
from cdplugin.frontends.json_schema.matching import finds
from cdplugin.frontends.json_schema.schema import ObjectPart, Subschema
from cdplugin.frontends.json_schema.strings import QUOTE, other_text, pattern_text
from cdplugin.limits import BEYOND_TEXT
from cdplugin.memory import bounded_cache
from cdplugin.regex.alphabet import JSON_STRING

MOST_PATTERNS = 8
"""Patterns of ``patternProperties`` that may apply to one object: the classes are their combinations. There may be more if
pairwise disjoint patterns keep the number of combinations as low.
"""
_MOST_COMPARED = 64


_finds = bounded_cache(finds)
"""Memoised: names are short and recur."""


def children_of(name: str, parts: Sequence[ObjectPart]) -> list[Subschema]:
    """The schemas that apply to the member called ``name``."""
    out: list[Subschema] = []
    for part in parts:
        declared = part.properties.get(name, part.additional)
        if part.patterns:
            found = [member for pattern, member in part.patterns if _finds(pattern, name)]
            if found:
                declared = part.properties.get(name)
                out += found if declared is None else (declared, *found)
                continue
        if declared is not None:
            out.append(declared)
    return out


class Conjunction:
    """The conjunction of some schemas: the types left, the number of schemas, and their object keywords.

    ``objects``: their object keywords; ``required``: the names that one of them requires; ``high``: the most members;
    ``declared``: the names to which ``properties`` of one applies, None where others may restrict any name.
    """

    __slots__ = ("_children", "_declared", "high", "objects", "required", "size", "types")

    def __init__(self, schemas: Iterable[Subschema]) -> None:
        self.types = ALL_TYPES
        self.size = 0
        self.high = BEYOND_TEXT
        self.objects: list[ObjectPart] = []
        for sub in schemas:
            self.size += 1
            self.types &= sub.types
            if sub.object is not None:
                self.objects.append(sub.object)
                if sub.object.high is not None and sub.object.high < self.high:
                    self.high = sub.object.high
        self.required = dict.fromkeys([name for part in self.objects for name in part.required])
        self._children: dict[str, list[Subschema]] = {}
        self._declared: tuple[frozenset[str] | None] | None = None

    def requiring(self, name: str) -> Conjunction:
        """This conjunction with a required member called ``name``."""
        out = copy(self)
        out.types = self.types & OBJECT_BIT
        out.required = self.required | {name: None}
        return out

    @property
    def declared(self) -> frozenset[str] | None:
        if self._declared is None:
            is_open = any(part.patterns or part.additional is not None for part in self.objects)
            self._declared = (None if is_open else frozenset[str]().union(*(part.properties for part in self.objects)),)
        return self._declared[0]

    def children(self, name: str) -> list[Subschema]:
        """The schemas that apply to the member called ``name``."""
        found = self._children.get(name)
        if found is None:
            found = self._children[name] = children_of(name, self.objects)
        return found


def allowed_by_names(name: str, parts: Sequence[ObjectPart], holds: Callable[[Subschema, str], bool]) -> bool:
    """Whether every ``propertyNames`` allows ``name``."""
    return all(part.names is None or holds(part.names, name) for part in parts)


def _too_many(parts: Sequence[ObjectPart], patterns: Sequence[str], beyond: str, expected: str) -> LimitExceeded:
    """The error for ``beyond``, the first pattern that is one too many."""
    return LimitExceeded(
        "too many patterns of patternProperties apply to one object",
        location=next(member.pointer for part in parts for pattern, member in part.patterns if pattern == beyond),
        keyword="patternProperties",
        expected=expected,
        found=str(len(patterns)),
    )


def classes_of(
    names: Iterable[str],
    parts: Sequence[ObjectPart],
    language: Callable[[list[Subschema]], Expr],
    share_no_text: Callable[[str, str], bool],
) -> list[tuple[Expr | None, list[Subschema]]]:
    """The classes of names other than ``names``: the quoted key (None: any key) and the schemas of the value. Classes that
    visibly have no value are left out.

    ``language(subschemas)``: the JSON strings (with quotes) that are valid under all of them; ``share_no_text(pattern,
    pattern)``: whether they are found to be disjoint. Raises ``LimitExceeded`` for too many patterns.
    """
    patterns = list(dict.fromkeys(pattern for part in parts for pattern, _ in part.patterns))
    if len(patterns) > _MOST_COMPARED:
        raise _too_many(parts, patterns, patterns[_MOST_COMPARED], f"at most {_MOST_COMPARED}")
    apart: set[tuple[str, str]] = set()
    for pair in combinations(patterns, 2):
        if share_no_text(*pair):
            apart |= {pair, (pair[1], pair[0])}
    together: list[tuple[str, ...]] = [()]
    for pattern in patterns:
        together += [(*some, pattern) for some in together if all((pattern, other) not in apart for other in some)]
        if len(together) > 1 << MOST_PATTERNS:
            raise _too_many(parts, patterns, pattern, f"at most {MOST_PATTERNS} that share texts")
    names = list(names)
    limits = [part.names for part in parts if part.names is not None]
    out: list[tuple[Expr | None, list[Subschema]]] = []
    for matched in together:
        children: list[Subschema] = []
        for part in parts:
            found = [member for pattern, member in part.patterns if pattern in matched]
            if not found and part.additional is not None:
                found = [part.additional]
            children += found
        if any(child.types == 0 for child in children):
            continue
        others = [p for p in patterns if p not in matched and all((p, other) not in apart for other in matched)]
        key = key_text(names, matched, others)
        if limits:
            quoted = cat(QUOTE, JSON_STRING.any_text, QUOTE) if key is None else key
            key = both(quoted, language(limits))
        out.append((key, children))
    return out


def key_text(names: list[str], matched: Sequence[str], others: Sequence[str]) -> Expr | None:
    """A quoted key not in ``names`` that all patterns of ``matched`` and none of ``others`` match; None for any key."""
    if not names and not matched and not others:
        return None
    texts = [other_text(names)] if names else [JSON_STRING.any_text]
    texts += [pattern_text(pattern) for pattern in matched]
    texts += [complement(pattern_text(pattern)) for pattern in others]
    return cat(QUOTE, both(*texts), QUOTE)
