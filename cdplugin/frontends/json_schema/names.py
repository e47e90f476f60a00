"""Which schemas apply to which property names of an object (Core, section 10.3.2).

``properties`` names names, ``patternProperties`` describes them, ``additionalProperties`` takes those that neither of its own
neighbours mentions, and ``propertyNames`` forbids the rest. Names that are not declared fall into *classes* by the patterns
that they match; each class is one lexeme, with the schemas that hold for its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cdplugin.alphabet import JSON_STRING
from cdplugin.errors import LimitExceeded
from cdplugin.expr import Expr, both, cat, complement
from cdplugin.frontends.json_schema.matching import finds
from cdplugin.frontends.json_schema.schema import ObjectPart, Subschema
from cdplugin.frontends.json_schema.strings import QUOTE, other_text, pattern_text

MOST_PATTERNS = 8
"""Distinct patterns of ``patternProperties`` that may apply to one object: the classes are their combinations."""


def children_of(name: str, parts: Sequence[ObjectPart]) -> list[Subschema]:
    """The schemas that hold for the member called ``name``."""
    out: list[Subschema] = []
    for part in parts:
        declared = part.properties.get(name)
        if declared is not None:
            out.append(declared)
        if part.patterns:
            found = [member for pattern, member in part.patterns if finds(pattern, name)]
            out += found
            if found:
                continue
        if declared is None and part.additional is not None:
            out.append(part.additional)
    return out


def allowed_by_names(name: str, parts: Sequence[ObjectPart], holds: Callable[[Subschema, str], bool]) -> bool:
    """Whether every ``propertyNames`` allows ``name``."""
    return all(part.names is None or holds(part.names, name) for part in parts)


def classes_of(
    names: Iterable[str], parts: Sequence[ObjectPart], language: Callable[[list[Subschema]], Expr]
) -> list[tuple[Expr | None, list[Subschema]]]:
    """The classes of names other than ``names``: the quoted key (None: any key at all) and the schemas of the value.

    ``language(subschemas)``: the JSON strings (with quotes) that are valid under all of them.
    """
    patterns = list(dict.fromkeys(pattern for part in parts for pattern, _ in part.patterns))
    if len(patterns) > MOST_PATTERNS:
        raise LimitExceeded(
            "too many patterns of patternProperties apply to one object",
            keyword="patternProperties",
            expected=f"at most {MOST_PATTERNS}",
            found=str(len(patterns)),
        )
    names = list(names)
    limits = [part.names for part in parts if part.names is not None]
    out: list[tuple[Expr | None, list[Subschema]]] = []
    for combination in range(1 << len(patterns)):
        matched = {pattern for i, pattern in enumerate(patterns) if combination >> i & 1}
        children: list[Subschema] = []
        for part in parts:
            found = [member for pattern, member in part.patterns if pattern in matched]
            if not found and part.additional is not None:
                found = [part.additional]
            children += found
        key = _key(names, patterns, matched)
        if limits:
            quoted = cat(QUOTE, JSON_STRING.any_text, QUOTE) if key is None else key
            key = both(quoted, language(limits))
        out.append((key, children))
    return out


def _key(names: list[str], patterns: list[str], matched: set[str]) -> Expr | None:
    if not names and not patterns:
        return None
    texts = [other_text(names)] if names else [JSON_STRING.any_text]
    texts += [pattern_text(p) if p in matched else complement(pattern_text(p)) for p in patterns]
    return cat(QUOTE, both(*texts), QUOTE)
