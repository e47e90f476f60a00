"""The JSON Schema front end, keyword by keyword, beside the brute-force matcher."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import typing_extensions
from json_schema_tools import dumps, grammar

from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.frontends.json_schema import Options, compile_schema
from cdplugin.limits import Limits

DRAFT_4, DRAFT_7 = "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"

# schema, values that must be accepted as json.dumps writes them, values that must not
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (True, [None, 1, "x", [1, [2]], {"a": {"b": 1}}], []),
    ({"type": "integer"}, [0, -5, 10**30, 1.0], [1.5, "1", True, None]),
    ({"$schema": DRAFT_4, "type": "integer"}, [7], [1.0]),
    ({"type": ["null", "string"]}, [None, "", "é😀\n"], [1, []]),
    ({"type": "number"}, [1, -1.5, 1e-05, 1e16, 5e-324 * 3, 1.5e300], ["1"]),
    (
        {"minimum": 0.3, "exclusiveMaximum": 10, "type": "number"},
        [0.3, 9.999999999999998, 1e0],
        [0.29999999999999993, 10, 10.0],
    ),
    ({"type": "integer", "exclusiveMinimum": -3, "maximum": 12}, [-2, 0, 9, 10, 12], [-3, 13, 100]),
    ({"$schema": DRAFT_4, "type": "integer", "minimum": 3, "exclusiveMinimum": True}, [4], [3]),
    ({"type": "number", "exclusiveMinimum": 0}, [5e-323, 1e-10, 3], [0, 0.0, -1]),
    (
        {"uniqueItems": True, "items": {"type": "integer", "minimum": 400, "exclusiveMaximum": 406}, "type": "array"},
        [[], [400, 401], [405, 404.0], [402, 401, 400, 403, 405, 404]],
        [[400, 400], [400, 400.0], [406], [399], [400.5], [400, 401, 400.0]],
    ),
    (
        {"$schema": DRAFT_4, "uniqueItems": True, "items": {"type": "integer", "minimum": 1, "maximum": 3}, "type": "array"},
        [[1, 2, 3]],
        [[1, 1], [1.0], [0]],
    ),
    (
        {"uniqueItems": True, "items": {"type": ["integer", "null"], "minimum": 1, "maximum": 4, "multipleOf": 2}},
        [[2, None], [None, 4, 2]],
        [[1, 2], [6], [2, 2], [None, 2, None]],
    ),
    (
        {"type": "array", "allOf": [{"contains": {"multipleOf": k}} for k in (2, 3, 5, 7)], "maxItems": 3},
        [[210], [6, 35], [14, 3, 5], [0, "x", None]],
        [[6, 5], [2, 3, 5, 7], []],
    ),
    (
        {
            "type": "object",
            "properties": {name: {} for name in "abcde"},
            "additionalProperties": False,
            "allOf": [{"not": {"additionalProperties": {"not": {"const": k}}}} for k in range(4)],
        },
        [{"a": 3, "b": 0, "d": 2, "e": 1}, {"a": 1, "b": 0, "c": "x", "d": 2, "e": 3}],
        [{"a": 3, "b": 0, "d": 2, "e": 2}, {"a": 0, "b": 1, "c": 2}, {}],
    ),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "é😀x"], ["a", "abcd"]),
    ({"type": "string", "pattern": "^a+$", "maxLength": 2}, ["a", "aa"], ["aaa", "", "b"]),
    ({"type": "string", "pattern": "b"}, ["abc", "b"], ["ac"]),
    ({"enum": [1, "a", None, [1, {"b": 2}]]}, [1, 1.0, "a", None, [1, {"b": 2}]], [2, "b", [1]]),
    ({"enum": [1, "a", 2.5, "bcd"], "type": ["string", "number"], "minimum": 2, "pattern": "b"}, [2.5, "bcd"], [1, "a"]),
    ({"const": {"a": [1, "x"]}}, [{"a": [1, "x"]}], [{"a": [1]}, {}]),
    ({"const": 0, "enum": [0, 1]}, [0, -0.0], [1, False]),
    (
        {"properties": {"a": {"type": "null"}}, "required": ["a", "z"]},
        [{"a": None, "z": 3, "y": 1}, 5],
        [{"a": None}, {"a": 1, "z": 1}],
    ),
    ({"type": "object", "properties": {"a": False}}, [{}, {"b": 1}], [{"a": 1}]),
    (
        {"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": False},
        [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 2}],
        [{"c": 1}],
    ),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"x": 1, "y": 2}], [{"x": "s"}]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3], ["a"]]),
    ({"type": "array", "minItems": 40, "maxItems": 41, "items": {"const": 1}}, [[1] * 40, [1] * 41], [[1] * 39, [1] * 42]),
    ({"type": "array", "maxItems": 70, "items": {"const": 1}}, [[], [1], [1] * 64, [1] * 70], [[1] * 71]),
    (
        {"prefixItems": [{"type": "null"}, {"type": "integer"}], "items": False, "type": "array"},
        [[], [None], [None, 1]],
        [[1], [None, 1, 1]],
    ),
    (
        {"$schema": DRAFT_7, "items": [{"type": "null"}], "additionalItems": {"type": "integer"}},
        [[], [None, 1, 2]],
        [[None, "a"]],
    ),
    ({"items": [{"type": "null"}]}, [[None, "x"]], [[1]]),
    ({"anyOf": [{"type": "integer"}, {"minLength": 2}], "type": ["integer", "string"]}, [3, "ab"], ["a", None]),
    (
        {"allOf": [{"properties": {"a": {"minimum": 3}}}, {"properties": {"a": {"type": "integer"}}}], "type": "object"},
        [{"a": 3}],
        [{"a": 2}, {"a": 3.5}],
    ),
    (
        {
            "type": "object",
            "allOf": [
                {"properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
                {"properties": {"b": {"type": ["null", "integer"]}}, "additionalProperties": {"minimum": 5}},
            ],
        },
        [{"a": 5, "b": 1, "c": 7}, {"a": "s"}],
        [{"a": 4}, {"b": None}, {"c": 4}, {"c": "s"}],
    ),
    (
        {"allOf": [{"prefixItems": [{"type": "integer"}]}, {"items": {"minimum": 3}}], "type": "array"},
        [[3, 4.5]],
        [[2], [3.5], [3, 1]],
    ),
    ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}, "minimum": 3}, [3], [2, "x"]),
    ({"$schema": DRAFT_7, "$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}, "minimum": 3}, [2], ["x"]),
    (
        {"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False},
        [{}, {"next": {"next": {}}}],
        [{"next": 1}],
    ),
    (
        {"$ref": "#tree", "$defs": {"t": {"$anchor": "tree", "type": "array", "items": {"$ref": "#tree"}}}},
        [[], [[], [[]]]],
        [1, [1]],
    ),
    (
        {"$id": "http://x/root", "properties": {"a": {"$ref": "item"}}, "$defs": {"i": {"$id": "item", "type": "null"}}},
        [{"a": None}],
        [{"a": 1}],
    ),
    ({"properties": {"a/b": {"$ref": "#/properties/c~0d"}, "c~d": {"type": "null"}}}, [{"a/b": None}], [{"a/b": 1}]),
    ({"type": "integer", "minLength": 5, "uniqueItems": True, "patternProperties": {"x": False}}, [1], []),
    ({"type": "number", "multipleOf": 1}, [1, 2.0], [1.5]),
    ({"oneOf": [{"type": "integer"}]}, [1], ["a"]),
]


@pytest.mark.parametrize(("schema", "valid", "invalid"), CASES, ids=[json.dumps(case[0])[:60] for case in CASES])
def test_keyword(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    matcher = grammar(schema)
    for value in valid:
        assert matcher.accepts(dumps(value)), value
        assert matcher.accepts(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()), value
        assert matcher.accepts(json.dumps(value, ensure_ascii=False, indent=2).encode()), value
    for value in invalid:
        assert not matcher.accepts(dumps(value)), value


def test_a_hyper_schema_is_of_its_draft() -> None:
    said = {"minimum": 3, "exclusiveMinimum": True, "links": [{"rel": "self", "href": "{id}"}]}
    matcher = grammar({"$schema": "http://json-schema.org/draft-04/hyper-schema#", **said})
    assert matcher.accepts(b"4") and not matcher.accepts(b"3")


def test_whitespace() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array"}}, "additionalProperties": False}
    flexible, compact, one = grammar(schema), grammar(schema, whitespace="compact"), grammar(schema, whitespace="[ x]?")
    assert flexible.accepts(b'{ \n"a"\t:\r[ 1 , 2 ] }')
    assert flexible.accepts(b"{" + b" " * 40 + b"}")
    assert not flexible.viable(b"{" + b" " * 41)
    assert not flexible.viable(b" ") and not flexible.accepts(b"{} ")
    assert compact.accepts(b'{"a":[1,2]}') and not compact.viable(b"{ ") and not compact.accepts(b'{"a":[1, 2]}')
    assert one.accepts(b'{ "a": [1, 2 ] }') and not one.viable(b"{  ") and not one.viable(b"{x")


def test_enumerations_keep_whitespace_inside() -> None:
    matcher = grammar({"enum": [[1, {"a": "b c"}]]})
    assert matcher.accepts(b'[ 1 ,\n{"a" : "b c"} ]')
    assert not matcher.accepts(b'[1,{"a":"b  c"}]')


def test_spellings() -> None:
    text = grammar({"type": "string", "maxLength": 1})
    for spelling in (b'"a"', rb'"\u0061"', rb'"\/"', b'"/"', rb'"\ud83d\ude00"', "😀".join('""').encode()):
        assert text.accepts(spelling)
    for spelling in (rb'"\ud83d"', b'"\n"', b'"\xff"', rb'"\x"'):
        assert not text.accepts(spelling)
    for schema in (
        {"const": "é"},
        {"properties": {"é": {}}, "required": ["é"], "additionalProperties": False, "type": "object"},
    ):
        matcher = grammar(schema)
        value = "é" if "const" in schema else {"é": 1}
        assert matcher.accepts(json.dumps(value).encode()) and matcher.accepts(dumps(value))


def test_further_names_exclude_declared_ones_however_spelt() -> None:
    matcher = grammar({"type": "object", "properties": {"ab": {"type": "null"}, "a": {"type": "null"}}, "required": ["ab"]})
    assert matcher.accepts(b'{"ab":null,"abc":1}')
    for key in (rb'"\u0061b"', b'"ab"', rb'"a"', rb'"a\u0062"', rb'"\u0061"'):
        assert not matcher.accepts(b'{"ab":null,' + key + b":1}"), key


def test_property_order() -> None:
    matcher = grammar({"type": "object", "properties": {"b": {}, "a": {}}, "required": ["z", "a"]})
    assert matcher.accepts(b'{"b":1,"a":2,"z":3,"x":4}') and matcher.accepts(b'{"a":2,"z":3}')
    assert not matcher.accepts(b'{"a":2,"b":1,"z":3}') and not matcher.accepts(b'{"z":1,"a":2}')
    inherited = grammar({"allOf": [{"$ref": "#/$defs/p"}], "properties": {"b": {}}, "$defs": {"p": {"properties": {"a": {}}}}})
    assert inherited.accepts(b'{"a":1,"b":2}') and not inherited.accepts(b'{"b":2,"a":1}')
    own_first = grammar({"properties": {"b": {}}, "allOf": [{"properties": {"a": {}}}]})
    assert own_first.accepts(b'{"b":2,"a":1}') and not own_first.accepts(b'{"a":1,"b":2}')


def test_json_object() -> None:
    assert [t.accepts(b'{"a": [1]}') for t in [__import__("naive").Naive(compile_schema({"type": "object"}))]] == [True]


def test_text_and_models() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Inner(pydantic.BaseModel):
        x: int

    class Model(pydantic.BaseModel):
        name: str
        inner: Inner | None = None
        tags: list[str] = []  # noqa: RUF012 - pydantic copies it

    matcher = grammar(Model)
    for model in (Model(name="n"), Model(name="m", inner=Inner(x=3), tags=["a"])):
        assert matcher.accepts(model.model_dump_json().encode())
    assert not matcher.accepts(b'{"name": 1}')
    assert grammar('{"type": "null"}').accepts(b"null") and grammar(b'{"type": "null"}').accepts(b"null")


@dataclasses.dataclass
class Point:
    x: int
    label: str = ""


class Pair(typing_extensions.TypedDict):
    left: Point
    right: int


def test_classes() -> None:
    pydantic = pytest.importorskip("pydantic")

    matcher = grammar(Point)
    assert matcher.accepts(b'{"x": 1}') and matcher.accepts(b'{"x": 1, "label": "a"}') and not matcher.accepts(b'{"x": "1"}')
    assert grammar(Pair).accepts(b'{"left": {"x": 1}, "right": 2}') and not grammar(Pair).accepts(b'{"left": {"x": 1}}')
    assert pydantic.TypeAdapter(Point).validate_json('{"x": 1}') == Point(1)
    for kind, found in ((int, r"int \(a class\)"), (pydantic.TypeAdapter(list[Point]), "TypeAdapter")):
        with pytest.raises(GrammarError, match=rf"of other types pydantic.TypeAdapter\(…\).json_schema\(\)\), found {found}"):
            grammar(kind)


def test_numbers_end() -> None:
    matcher = grammar({"type": "number"})
    assert not matcher.viable(b"1" * 65) and not matcher.viable(b"0." + b"1" * 41)
    assert not matcher.viable(b"1e" + b"1" * 21) and not matcher.viable(b"1e-" + b"1" * 21)
    assert not grammar({"type": "integer"}).viable(b"1" * 65) and not grammar({"type": "integer"}).viable(b"1e309")


def test_registry() -> None:
    referencing = pytest.importorskip("referencing")
    from referencing.jsonschema import DRAFT202012

    remote = {"$defs": {"n": {"type": "integer", "minimum": 5}, "m": {"$ref": "#/$defs/n"}}}
    registry = referencing.Registry().with_resource("http://x/r", DRAFT202012.create_resource(remote))
    matcher = grammar({"$ref": "http://x/r#/$defs/m"}, registry=registry)
    assert matcher.accepts(b"5") and not matcher.accepts(b"4")
    with pytest.raises(GrammarError, match=r"'http://y/r' is another document; it is not in the registry.* - at /\$ref"):
        compile_schema({"$ref": "http://y/r"}, Options(registry=registry))
    with pytest.raises(GrammarError, match="never used"):
        compile_schema({"$ref": "http://y/r"})


def test_refusals_name_keyword_and_pointer() -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_schema({"properties": {"a/b": {"items": {"uniqueItems": True, "prefixItems": [{}], "contains": {}}}}})
    assert (caught.value.keyword, caught.value.location) == ("uniqueItems", "/properties/a~1b/items/uniqueItems")
    beside = {"uniqueItems": True, "prefixItems": [{"type": "object"}], "contains": {"type": "null"}}
    relaxed = compile_schema({"properties": {"a": beside}}, Options(on_unsupported="relax"))
    assert relaxed.relaxed == [("uniqueItems", "/properties/a/uniqueItems")]
    with pytest.raises(UnsupportedError, match="'multipleOf' is not supported for 86401: its automaton"):
        compile_schema({"type": "integer", "multipleOf": 86401})
    with pytest.raises(UnsupportedError, match="'format' is not supported for 'my-own': no such format"):
        compile_schema({"type": "string", "format": "my-own"}, Options(unknown_formats="error"))
    with pytest.raises(UnsupportedError, match=r"for 'datetime': no such format is known \(did you mean 'date-time'\?\)"):
        compile_schema({"type": "string", "format": "datetime"}, Options(unknown_formats="error"))
    compile_schema({"type": "string", "format": "my-own"})
    with pytest.raises(GrammarError, match="option property_order: expected 'schema' or 'any', found 'alphabetical'"):
        Options(property_order="alphabetical")


@pytest.mark.parametrize(
    ("schema", "keyword", "location"),
    [
        ({"properties": {"a~/": 5}}, "properties", "/properties/a~0~1"),
        ({"prefixItems": [{}, 5]}, "prefixItems", "/prefixItems/1"),
        (
            {"not": {"allOf": [True, {"patternProperties": {"a/b": "x"}}]}},
            "patternProperties",
            "/not/allOf/1/patternProperties/a~1b",
        ),
        ({"patternProperties": {"/(": {}}}, "patternProperties", "/patternProperties/~1("),
        ({"dependentRequired": {"a": [], "b/c": "d"}}, "dependentRequired", "/dependentRequired/b~1c"),
        ({"dependentSchemas": {"a": ["d"]}}, "dependentSchemas", "/dependentSchemas/a"),
        ({"items": {"dependencies": {"a": [1]}}}, "dependencies", "/items/dependencies/a"),
    ],
)
def test_what_is_no_schema_is_located(schema: Any, keyword: str, location: str) -> None:
    with pytest.raises(GrammarError) as caught:
        compile_schema(schema)
    assert (caught.value.keyword, caught.value.location) == (keyword, location)


@pytest.mark.parametrize(
    ("patterns", "expected", "location"),
    [
        ([f"^a{i}$" for i in range(65)], "at most 64, found 65", "^a64$"),
        ([f"a{i}" for i in range(9)], "at most 8 that share texts, found 9", "a8"),
    ],
)
def test_too_many_patterns(patterns: list[str], expected: str, location: str) -> None:
    properties = {pattern: {"type": "integer"} for pattern in patterns}
    with pytest.raises(LimitExceeded, match=f"patternProperties apply to one object: expected {expected}") as caught:
        compile_schema({"items": {"patternProperties": properties}})
    assert (caught.value.keyword, caught.value.location) == ("patternProperties", f"/items/patternProperties/{location}")
    compile_schema({"patternProperties": dict(list(properties.items())[:-1])})


@pytest.mark.parametrize(
    ("schema", "location", "found"),
    [
        (False, "", "false"),
        ({"type": "string", "const": 1}, "", ""),
        ({"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}, "/properties/a", "an empty enum"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "", "minimum 3 and maximum 2"),
        (
            {"items": {"exclusiveMinimum": 3, "maximum": 2, "type": "number"}, "minItems": 1, "type": "array"},
            "/items",
            "exclusiveMinimum 3 and maximum 2",
        ),
        ({"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 4}, "", ""),
        ({"type": "array", "items": False, "minItems": 1}, "/items", "false"),
        ({"type": "array", "minItems": 3, "maxItems": 2}, "", "minItems 3 and maxItems 2"),
        ({"type": "object", "minProperties": 3, "maxProperties": 2}, "", "minProperties 3 and maxProperties 2"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "", ""),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, "/additionalProperties", "false"),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, "", ""),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "", "minLength 3 and maxLength 2"),
    ],
)
def test_unsatisfiable(schema: Any, location: str, found: str) -> None:
    with pytest.raises(GrammarError, match="unsatisfiable schema") as caught:
        compile_schema(schema)
    assert (caught.value.location, caught.value.found) == (location, found)


@pytest.mark.parametrize(("wrong", "right"), [("strin", "string"), ("str", "string"), ("float", "number"), ("dict", "object")])
def test_names_of_types_that_are_nearly_right(wrong: str, right: str) -> None:
    with pytest.raises(GrammarError, match=rf"found string '{wrong}' \(did you mean '{right}'\?\) - at /items/type"):
        compile_schema({"items": {"type": wrong}})


def test_unsatisfiable_parts_are_left_out() -> None:
    matcher = grammar(
        {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/inf"}, "b": {}},
            "$defs": {"inf": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/inf"}}},
        }
    )
    assert matcher.accepts(b'{"b": 1}') and not matcher.viable(b'{"a"')
    assert grammar({"anyOf": [{"type": "string", "const": 1}, {"type": "null"}]}).accepts(b"null")


def test_shared_work_is_shared() -> None:
    rules = [len(compile_schema({"type": "array", "minItems": n, "items": {"type": "null"}}).rules) for n in (10**3, 10**6)]
    assert rules[1] < 60
    twice = compile_schema(
        {
            "$defs": {"p": {"type": "object", "properties": {"x": {}}}},
            "items": {"$ref": "#/$defs/p"},
            "prefixItems": [{"$ref": "#/$defs/p"}] * 50,
        }
    )
    assert len(twice.rules) < 200


def test_limits() -> None:
    with pytest.raises(LimitExceeded, match="at most Limits.max_spec_depth = 10"):
        compile_schema({"a": [[[[[[[[[[[]]]]]]]]]]]}, limits=Limits(max_spec_depth=10))
    with pytest.raises(
        LimitExceeded, match="the schema is too long: expected at most Limits.max_spec_bytes = 50, found 119 bytes"
    ):
        compile_schema('{"description": "' + "x" * 100 + '"}', limits=Limits(max_spec_bytes=50))
    with pytest.raises(LimitExceeded, match="schema too large"):
        compile_schema({"description": "x" * 100}, limits=Limits(max_spec_bytes=50))
    with pytest.raises(LimitExceeded, match="at most Limits.max_rules = 100"):
        compile_schema({"properties": {f"p{i}": {"type": "array"} for i in range(90)}}, limits=Limits(max_rules=100))


NAME = {"properties": {"type": {"enum": ["name"]}}}
LINK = {"properties": {"type": {"enum": ["link"]}}}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        # a required discriminator tells objects apart, nothing else
        (
            {"type": ["object", "null"], "required": ["type"], "oneOf": [NAME, LINK]},
            [{"type": "name"}, {"type": "link"}],
            [None, {}, {"type": "x"}],
        ),
        ({"required": ["type"], "oneOf": [NAME, LINK]}, [{"type": "name"}], [None, "x", [], 1, {}]),
        # "some member is such" is not implied by a schema that says nothing about members
        ({"type": "object", "not": {"patternProperties": {"^b": False}}}, [{"b": 1}, {"a": 1, "b": 2}], [{}, {"a": 1}]),
        (
            {"type": "object", "anyOf": [{"required": ["q"]}, {"not": {"additionalProperties": {"type": "string"}}}]},
            [{"q": "s"}, {"a": 1}],
            [{}, {"a": "s"}],
        ),
        (
            {"oneOf": [{"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}]},
            [{"a": 1}, {"b": 1}, {"b": "s", "a": 1}],
            [{}, {"a": "s", "b": "s"}, {"c": 1}, None, 1],
        ),
        ({"type": "object", "not": {"propertyNames": {"maxLength": 2}}}, [{"abc": 1}, {"a": 1, "abc": 2}], [{}, {"ab": 1}]),
        ({"type": "array", "contains": {"const": 1}, "maxContains": 1}, [[1], [2, 1], [1, 3]], [[], [1, 1], [2]]),
        # a name that the complement mentions may follow the member that it asks for
        (
            {"type": "object", "not": {"properties": {"a": {"maximum": 3}}, "additionalProperties": False}},
            [{"a": 1, "b": 2}, {"b": 2}, {"a": 4}],
            [{}, {"a": 1}],
        ),
    ],
)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_combinators(schema: dict, valid: list, invalid: list, order: str) -> None:
    matcher = grammar(schema, property_order=order)
    for value in valid:
        assert matcher.accepts(json.dumps(value).encode()), value
    for value in invalid:
        assert not matcher.accepts(json.dumps(value).encode()), value


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    "schema",
    [
        {"minProperties": 3, "maxProperties": 2},
        {"minProperties": 2, "maxProperties": 1, "properties": {"a": {}, "b": {}, "c": {}}},
        {"contains": {"type": "object"}, "maxContains": 0},
        {"allOf": [{"contains": {"const": 1}, "minContains": 3, "maxContains": 2}, {"contains": {"const": 2}}]},
        {"items": {"type": "string"}, "uniqueItems": True, "minItems": 3, "maxItems": 2},
        {"contains": {"const": 1}, "minItems": 3, "maxItems": 2},
    ],
)
def test_bounds_that_cross_leave_no_dead_end(schema: dict, order: str) -> None:
    """No array or object begins that could never end."""
    kind = "object" if "minProperties" in schema else "array"
    with pytest.raises(GrammarError, match="unsatisfiable"):
        compile_schema({"type": kind, **schema}, Options(property_order=order))
    matcher = grammar({"type": [kind, "null"], **schema}, property_order=order)
    assert matcher.accepts(b"null")
    with pytest.raises(GrammarError, match="unsatisfiable"):
        compile_schema(
            {"prefixItems": [{"type": kind, **schema}], "minItems": 1, "type": "array"}, Options(property_order=order)
        )


def test_counts_that_grow_for_long() -> None:
    """How many items it takes is reasoned about where the counts stay the same, not tried one by one."""
    twice = [{"contains": {"const": 1}, "maxContains": 2}, {"contains": {"const": 2}}]
    assert compile_schema({"type": "array", "minItems": 10**7, "allOf": twice}).instances
    both = [{"contains": {"const": 1}, "maxContains": 2}, {"contains": {"type": "integer"}}]
    with pytest.raises(GrammarError, match="unsatisfiable"):
        compile_schema({"type": "array", "minItems": 10**7, "allOf": both, "items": {"const": 1}})


def test_work_in_proportion_to_the_size() -> None:
    """Many branches that listed values tell apart are no alternatives that multiply."""
    branches = [{"const": f"{i}", "description": f"number {i}"} for i in range(4000)]
    assert compile_schema({"oneOf": branches}).rules
    tagged = [{"properties": {"k": branch}, "required": ["k"]} for branch in branches[:2000]]
    assert compile_schema({"type": "object", "oneOf": tagged}).rules


@pytest.mark.parametrize("draft", ["draft-06", "draft-07"])
def test_meta_schemas_come_with_the_package(draft: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = {"$ref": f"http://json-schema.org/{draft}/schema#"}
    judge = grammar(schema, property_order="any")
    values: list[Any] = [{"properties": {"a": {"minimum": 3}}}, {"type": "objct"}, True, {"minLength": -1}, {"items": [{}]}, 3]
    validator = {"draft-06": jsonschema.Draft6Validator, "draft-07": jsonschema.Draft7Validator}[draft](schema)
    for value in values:
        assert judge.accepts(dumps(value)) == validator.is_valid(value), value


def test_a_part_of_a_meta_schema() -> None:
    judge = grammar({"$ref": "http://json-schema.org/draft-04/schema#/definitions/positiveInteger"})
    assert judge.accepts(b"3") and not judge.accepts(b"-3") and not judge.accepts(b'"x"')
