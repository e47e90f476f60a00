"""Drafts of JSON Schema: the keywords of each, and where a keyword's meaning changed.

A schema without ``$schema`` is read as Draft 2020-12, extended by older forms that cannot be confused with it (``items`` as an
array, boolean ``exclusiveMinimum``): to refuse them would be useless, to ignore them would silently drop a constraint. For the
same reason ``dependencies`` counts as a keyword in every draft.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Groups of keywords. One bit each: reading a schema ORs the bits of its keywords, so that absent groups cost nothing.
ANNOTATION, TYPE, VALUES, NUMBER, STRING, ARRAY, OBJECT, IN_PLACE, IDENTITY = (0, *(1 << i for i in range(8)))

NULL_BIT, TRUE_BIT, FALSE_BIT, INTEGER_BIT, FRACTION_BIT, STRING_BIT, ARRAY_BIT, OBJECT_BIT = (1 << i for i in range(8))
BOOLEAN_BITS = TRUE_BIT | FALSE_BIT
NUMBER_BITS = INTEGER_BIT | FRACTION_BIT
ALL_TYPES = 255
TYPE_BITS = {
    "null": NULL_BIT,
    "boolean": BOOLEAN_BITS,
    "integer": INTEGER_BIT,
    "number": NUMBER_BITS,
    "string": STRING_BIT,
    "array": ARRAY_BIT,
    "object": OBJECT_BIT,
}

_GROUPS = {
    keyword: group
    for group, keywords in {
        TYPE: "type",
        VALUES: "enum const",
        NUMBER: "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
        STRING: "minLength maxLength pattern format contentEncoding",
        ARRAY: "items prefixItems additionalItems minItems maxItems contains uniqueItems",
        OBJECT: "properties required additionalProperties patternProperties propertyNames minProperties maxProperties",
        IN_PLACE: "allOf anyOf oneOf not if $ref $dynamicRef $recursiveRef unevaluatedItems unevaluatedProperties"
        " dependentRequired dependentSchemas dependencies",
        IDENTITY: "$id",
    }.items()
    for keyword in keywords.split()
}

_SINCE_6 = ("const", "contains", "propertyNames", "$id")
_SINCE_7 = ("if", "contentEncoding")
_SINCE_2019 = ("dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties")
_SINCE_2020 = ("prefixItems", "$dynamicRef")


@dataclass(frozen=True, eq=False)
class Dialect:
    """How one draft reads a schema.

    ``groups`` maps its keywords to group bits; ``array_items``: ``items`` may be an array; ``boolean_bounds`` and
    ``number_bounds``: forms of ``exclusiveMinimum``; ``ref_alone``: siblings of ``$ref`` are ignored; ``integral_floats``:
    1.0 is an integer (since Draft 6).
    """

    name: str
    groups: dict[str, int] = field(repr=False)
    id_keyword: str = "$id"
    array_items: bool = True
    boolean_bounds: bool = False
    number_bounds: bool = True
    ref_alone: bool = False
    integral_floats: bool = True
    contains_counts: bool = True


def _without(*names: str) -> dict[str, int]:
    return {k: v for k, v in _GROUPS.items() if k not in names}


LENIENT = Dialect("2020-12 (no $schema)", _without("$recursiveRef"), boolean_bounds=True)
DRAFT_2020 = Dialect("2020-12", _without("$recursiveRef", "additionalItems", "contentEncoding"), array_items=False)
DRAFT_2019 = Dialect("2019-09", _without(*_SINCE_2020, "contentEncoding"))
DRAFT_7 = Dialect("7", _without(*_SINCE_2020, *_SINCE_2019, "$recursiveRef"), ref_alone=True, contains_counts=False)
DRAFT_6 = Dialect("6", _without(*_SINCE_2020, *_SINCE_2019, *_SINCE_7, "$recursiveRef"), ref_alone=True, contains_counts=False)
DRAFT_4 = Dialect(
    "4",
    {**_without(*_SINCE_2020, *_SINCE_2019, *_SINCE_7, *_SINCE_6, "$recursiveRef"), "id": IDENTITY},
    id_keyword="id",
    boolean_bounds=True,
    number_bounds=False,
    ref_alone=True,
    integral_floats=False,
)

_BY_URI = {
    "json-schema.org/draft/2020-12/schema": DRAFT_2020,
    "json-schema.org/draft/2019-09/schema": DRAFT_2019,
    "json-schema.org/draft-07/schema": DRAFT_7,
    "json-schema.org/draft-06/schema": DRAFT_6,
    "json-schema.org/draft-04/schema": DRAFT_4,
    "json-schema.org/schema": LENIENT,
}


def dialect_of(uri: str) -> Dialect | None:
    """The dialect of a ``$schema`` URI, or None if unknown. The additional keywords of hyper-schemas are annotations."""
    return _BY_URI.get(uri.partition("://")[2].rstrip("#").rstrip("/").replace("/hyper-schema", "/schema"))
