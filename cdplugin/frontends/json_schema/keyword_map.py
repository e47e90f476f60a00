"""The keyword map: for every keyword of JSON Schema (Drafts 4 to 2020-12), where it is read and enforced, and what is refused.

Start here to find where a keyword is enforced; ``cdplugin keywords`` prints the map. It is data: compiling a schema calls
nothing here. ``tests/frontends/test_keyword_map.py`` compares it with the code: every keyword that is read is listed, each
function exists, and for each keyword and draft a schema is compiled and violated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

DRAFTS = ("4", "6", "7", "2019-09", "2020-12", "none")
"""The drafts, oldest first; "none": a schema without ``$schema`` (2020-12 that also understands older forms)."""
NO_DRAFT = DRAFTS[-1]

ENFORCED, ANNOTATION = "enforced", "annotation"


class Refusal(NamedTuple):
    """A use of a keyword that raises ``UnsupportedError`` or ``LimitExceeded``.

    ``why`` : what is refused. ``example`` : a schema that shows it; None if it takes an option or another document.
    """

    why: str
    example: Any = None


@dataclass(frozen=True, eq=False)
class Keyword:
    """One keyword.

    Attributes
    ----------
    name : as in a schema.
    reader : the function that reads it, relative to ``cdplugin.frontends.json_schema``; empty for an annotation.
    enforcers : the functions that turn it into rules or expressions, in the order of their calls.
    since, until : the first and the last draft that define it.
    beyond : drafts that do not define it, but where it is enforced.
    ignored : drafts that define it, but where it is an annotation.
    refusals : uses of it that are refused.
    note : what else a caller should know.
    """

    name: str
    reader: str = ""
    enforcers: tuple[str, ...] = ()
    since: str = "4"
    until: str = "2020-12"
    beyond: tuple[str, ...] = (NO_DRAFT,)
    ignored: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    note: str = ""

    def is_defined(self, draft: str) -> bool:
        """Whether ``draft`` defines it. "none" is read as 2020-12."""
        at = DRAFTS.index("2020-12" if draft == NO_DRAFT else draft)
        return DRAFTS.index(self.since) <= at <= DRAFTS.index(self.until)

    def status(self, draft: str) -> str | None:
        """``"enforced"``, ``"annotation"``, or None where ``draft`` has no such keyword: unknown ones are annotations."""
        if draft not in DRAFTS:
            raise ValueError(f"draft: expected one of {', '.join(DRAFTS)}, found {draft!r}")
        if draft in self.beyond and self.reader:
            return ENFORCED
        if not self.is_defined(draft):
            return None
        return ENFORCED if self.reader and draft not in self.ignored else ANNOTATION


def _too_large(name: str) -> Refusal:
    return Refusal("a lower bound above Limits.max_repeat", {name: 10**9})


_NUMBERS = ("scalars.merged_number", "numbers.number_expr")
_STRINGS = ("scalars.merged_string", "strings.string_expr")
_ARRAYS = ("arrays.Arrays._array",)
_COUNTED = ("arrays.Arrays._remembering", "members.Items")
_NAMES = ("objects.Objects._undeclared", "names.classes_of")
_RESOLVED = ("refs.Documents.resolve", "shapes.Shaper._flatten")
_IN_PLACE = ("shapes.Shaper._alternatives",)
_NEGATED = "where something below has no exact complement: "


def _applicators() -> Iterator[Keyword]:
    """In-place applicators: keywords that apply subschemas to the same instance location."""
    yield Keyword("allOf", "reader.Reader._read_in_place", ("shapes.Shaper._flatten",))
    siblings: list[Any] = [{"properties": {f"{c}": {}}} for c in "abcdefghijk"]
    overlapping = Refusal(
        "more than 10 overlapping branches beside unevaluatedProperties or unevaluatedItems",
        {"type": "object", "anyOf": siblings, "unevaluatedProperties": False},
    )
    yield Keyword("anyOf", "reader.Reader._read_any_of", _IN_PLACE, refusals=(overlapping,))
    yield Keyword(
        "oneOf",
        "reader.Reader._read_one_of",
        ("negation.Logician._exactly_one",),
        note="refused " + _NEGATED + "see the keyword that the error names",
    )
    yield Keyword(
        "not",
        "reader.Reader._read_not",
        ("negation.Logician._atoms",),
        refusals=(
            Refusal(
                "complements that apply to one object, where one member may meet more than 12 of what they ask for",
                {"type": "object", "allOf": [{"not": {"additionalProperties": {"const": i}}} for i in range(14)]},
            ),
        ),
        note="refused " + _NEGATED + "see the keyword that the error names",
    )
    for name in ("if", "then", "else"):
        yield Keyword(
            name,
            "reader.Reader._read_if",
            ("negation.Logician.expand",),
            since="7",
            note="`if` is refused " + _NEGATED + "see the keyword that the error names",
        )
    for name, since, until, beyond in (
        ("dependentRequired", "2019-09", "2020-12", (NO_DRAFT,)),
        ("dependentSchemas", "2019-09", "2020-12", (NO_DRAFT,)),
        ("dependencies", "4", "7", ("2019-09", "2020-12", NO_DRAFT)),
    ):
        yield Keyword(name, "reader.Reader._read_dependent", _IN_PLACE, since, until, beyond)
    for name, kind in (("unevaluatedProperties", "object"), ("unevaluatedItems", "array")):
        yield Keyword(
            name,
            "reader.Reader._read_unevaluated",
            ("unevaluated.Unevaluated.applied",),
            since="2019-09",
            refusals=(Refusal("below `not`, `oneOf` or `if`", {"type": kind, "not": {name: False}}),),
        )


def _references() -> Iterator[Keyword]:
    """References, identifiers, anchors, and definitions."""
    old = "http://json-schema.org/draft-03/schema#"
    unknown = Refusal("a meta-schema other than those of drafts 4 to 2020-12", {"$schema": old})
    yield Keyword("$schema", "refs.Documents._declared", ("dialect.dialect_of",), refusals=(unknown,))
    yield Keyword(
        "$ref",
        "reader.Reader._reference",
        _RESOLVED,
        refusals=(
            Refusal(
                "a meta-schema later than draft 7, unless registry= holds it",
                {"$ref": "https://json-schema.org/draft/2020-12/schema"},
            ),
            Refusal("another document, unless registry= holds it: the network is never used"),
        ),
        note="up to draft 7, keywords beside it are ignored",
    )
    dynamic = ("refs.Documents.dynamic", "shapes.Shaper._flatten")
    yield Keyword("$dynamicRef", "reader.Reader._read_in_place", dynamic, since="2020-12")
    yield Keyword("$recursiveRef", "reader.Reader._read_in_place", dynamic, "2019-09", "2019-09", beyond=())
    anchors = "refs.Documents._add_anchors"
    yield Keyword("$anchor", anchors, _RESOLVED, since="2019-09")
    yield Keyword("$dynamicAnchor", anchors, _RESOLVED, since="2020-12", beyond=("2019-09", NO_DRAFT))
    yield Keyword("$recursiveAnchor", anchors, dynamic, "2019-09", "2019-09", beyond=())
    yield Keyword("$id", "refs.Documents.enter", _RESOLVED, since="6")
    yield Keyword("id", "refs.Documents.enter", _RESOLVED, until="4", beyond=())
    pointed = "schemas to refer to; a reference may point anywhere in the document, in every draft"
    yield Keyword("$defs", "refs.Documents._walk", _RESOLVED, since="2019-09", beyond=DRAFTS, note=pointed)
    yield Keyword("definitions", "refs.Documents._walk", _RESOLVED, until="7", beyond=DRAFTS, note=pointed)


def _scalars() -> Iterator[Keyword]:
    """Types, values, numbers, strings."""
    yield Keyword("type", "reader.Reader._types", ("shapes.Shaper._split_types",))
    yield Keyword("enum", "reader.Reader._read_values", ("shapes.Shaper._split_values",))
    yield Keyword("const", "reader.Reader._read_values", ("shapes.Shaper._split_values",), since="6")
    for name in ("minimum", "maximum"):
        yield Keyword(name, "reader.Reader._read_number", _NUMBERS)
    for name in ("exclusiveMinimum", "exclusiveMaximum"):
        yield Keyword(name, "reader.Reader._read_number", _NUMBERS, note="a boolean in draft 4, either without $schema")
    residues = Refusal(
        "a unit whose automaton over the digits is too large (a prime above 256, say)",
        {"type": "number", "multipleOf": 1.2345678},
    )
    yield Keyword("multipleOf", "reader.Reader._read_multiple", (*_NUMBERS, "multiples.multiples"), refusals=(residues,))
    yield Keyword("minLength", "reader.Reader._read_string", _STRINGS, refusals=(_too_large("minLength"),))
    unbounded = "an upper bound above 2^24 is no bound"
    yield Keyword("maxLength", "reader.Reader._read_string", _STRINGS, note=unbounded)
    yield Keyword(
        "pattern",
        "reader.Reader._read_string",
        (*_STRINGS, "strings.pattern_text"),
        refusals=(
            Refusal("a look-behind that sees beyond the repetition it is in", {"pattern": "^((?<!a)b)+$"}),
            Refusal("back-references to groups of more than 512 texts", {"pattern": r"(a+)\1"}),
            Refusal(r"\b, \B and look-ahead inside an unbounded repetition", {"pattern": r"^(\bx)+$"}),
        ),
    )
    yield Keyword(
        "format",
        "reader.Reader._read_string",
        (*_STRINGS, "formats.format_expr"),
        refusals=(Refusal("an unknown format with unknown_formats='error'"),),
        note="an annotation with formats='annotation', and where no draft defines the format",
    )
    yield Keyword(
        "contentEncoding",
        "reader.Reader._read_string",
        (*_STRINGS, "formats.content_encoding_expr"),
        since="7",
        ignored=("2019-09", "2020-12"),
        refusals=(Refusal("below `not`, `oneOf` or `if`", {"not": {"contentEncoding": "base64"}}),),
        note="an annotation with formats='annotation'",
    )


def _arrays() -> Iterator[Keyword]:
    """Items, their number, and conditions on some of them."""
    yield Keyword(
        "items",
        "reader.Reader._read_array",
        _ARRAYS,
        refusals=(
            Refusal(
                "after prefixItems and without a small maxItems, below `not`, `oneOf` or `if`",
                {"type": "array", "not": {"prefixItems": [{}], "items": {"type": "string"}}},
            ),
        ),
        note="may be an array up to 2019-09 and without $schema",
    )
    yield Keyword("prefixItems", "reader.Reader._read_array", _ARRAYS, since="2020-12")
    yield Keyword("additionalItems", "reader.Reader._read_array", _ARRAYS, until="2019-09")
    repeated = (*_ARRAYS, "repetition.Commas.many")
    yield Keyword("minItems", "reader.Reader._read_array", repeated, refusals=(_too_large("minItems"),))
    yield Keyword("maxItems", "reader.Reader._read_array", repeated)
    several = [{"contains": {"const": i}} for i in range(7)]
    yield Keyword(
        "contains",
        "reader.Reader._read_array",
        _COUNTED,
        since="6",
        refusals=(
            Refusal("more than 6 for one array, 3 where one is counted above one", {"type": "array", "allOf": several}),
            Refusal(
                "counts of several that multiply to more than 2,000",
                {"type": "array", "allOf": [{"contains": {"const": i}, "minContains": 99} for i in range(2)]},
            ),
        ),
    )
    few = Refusal("a lower bound above Limits.max_repeat", {"contains": {"const": 1}, "minContains": 10**9})
    yield Keyword("minContains", "reader.Reader._read_array", _COUNTED, since="2019-09", refusals=(few,))
    yield Keyword("maxContains", "reader.Reader._read_array", _COUNTED, since="2019-09")
    scalars = {"type": "array", "uniqueItems": True, "items": {"type": "integer"}}
    yield Keyword(
        "uniqueItems",
        "reader.Reader._read_array",
        (
            "arrays.Arrays._remembering",
            "arrays.Arrays._distinct_and_alike",
            "members.Distinct",
            "distinct.Unique",
            "distinct_items.DistinctItems",
        ),
        refusals=(
            Refusal("beside prefixItems and contains", {**scalars, "prefixItems": [{}], "contains": {"const": 1}}),
            Refusal(
                "beside several contains, one of them with a count above one",
                {**scalars, "contains": {"const": 1}, "allOf": [{"contains": {"minimum": 9}, "minContains": 2}]},
            ),
            Refusal("below `not`, `oneOf` or `if`", {"type": "array", "not": {"uniqueItems": True}}),
            Refusal("more items asked for (minItems) than there are seen to be values"),
        ),
    )


def _objects() -> Iterator[Keyword]:
    """Members, their names and their number."""
    read = "reader.Reader._read_object"
    yield Keyword("properties", read, ("objects.Objects._object", "objects.Objects._entries"))
    yield Keyword("required", read, ("objects.Objects._object",))
    guard = Refusal("a complement of several complements that each ask for some member")
    yield Keyword("additionalProperties", read, _NAMES, refusals=(guard,))
    overlapping = {"type": "object", "patternProperties": {f"[{c}x]": {"type": "null"} for c in "abcdefghi"}}
    yield Keyword(
        "patternProperties",
        read,
        (*_NAMES, "strings.pattern_text"),
        refusals=(
            Refusal("more than 8 patterns for one object that share texts, or more than 64", overlapping),
            Refusal("what `pattern` refuses", {"patternProperties": {r"^((?<!a)b)+$": {}}}),
        ),
    )
    yield Keyword("propertyNames", read, (*_NAMES, "names.allowed_by_names"), since="6")
    counted = ("objects.Objects._member_counts", "members.Members")
    yield Keyword(
        "minProperties",
        read,
        counted,
        refusals=(
            _too_large("minProperties"),
            Refusal("above 100,000 where undeclared names are told apart", {"type": "object", "minProperties": 200_000}),
            Refusal("more names asked for than there are seen to be"),
        ),
    )
    yield Keyword("maxProperties", read, counted)


def _annotations() -> Iterator[Keyword]:
    for name, since in (
        ("title", "4"),
        ("description", "4"),
        ("default", "4"),
        ("examples", "6"),
        ("$comment", "7"),
        ("readOnly", "7"),
        ("writeOnly", "7"),
        ("contentMediaType", "7"),
        ("contentSchema", "2019-09"),
        ("deprecated", "2019-09"),
    ):
        yield Keyword(name, since=since)
    yield Keyword("$vocabulary", since="2019-09", note="says something in meta-schemas only; $schema refuses those of your own")


KEYWORDS: dict[str, Keyword] = {
    keyword.name: keyword
    for group in (_scalars, _arrays, _objects, _applicators, _references, _annotations)
    for keyword in group()
}
"""Every keyword by name, grouped by topic."""


def of_draft(draft: str) -> dict[Keyword, str]:
    """The keywords that a draft defines, or that are enforced in it anyway, with their status."""
    found = ((keyword, keyword.status(draft)) for keyword in KEYWORDS.values())
    return {keyword: status for keyword, status in found if status is not None}


def as_json(drafts: Iterable[str]) -> list[dict[str, Any]]:
    """The map as JSON values: one object for each keyword of each draft."""
    return [
        {
            "draft": draft,
            "keyword": keyword.name,
            "status": status,
            "refused": [refusal.why for refusal in keyword.refusals if status == ENFORCED],
            "note": keyword.note,
            "reader": keyword.reader,
            "enforcers": list(keyword.enforcers),
        }
        for draft in drafts
        for keyword, status in of_draft(draft).items()
    ]
