"""Hostile and broken schemas: each ends soon, in a grammar or in an error that says where, what was expected and found."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.frontends.json_schema import Options, compile_schema


def nest(count: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(count):
        inner = wrap(inner)
    return inner


# keyword, wrong value: the error must name the pointer of the keyword
WRONG_TYPES: list[tuple[str, Any]] = [
    ("type", "strin"), ("type", 3), ("type", []), ("type", ["string", "nul"]), ("type", [3]), ("type", None), ("type", {}),
    ("type", "any"), ("properties", 3), ("properties", []), ("properties", None), ("required", "a"), ("required", [1]),
    ("required", True), ("required", {}), ("additionalProperties", 3), ("additionalProperties", "no"),
    ("additionalProperties", []), ("items", 3), ("items", "x"), ("items", None), ("prefixItems", {}), ("prefixItems", []),
    ("prefixItems", "x"), ("minItems", -1), ("minItems", 2.5), ("minItems", "1"), ("minItems", True), ("maxItems", -1),
    ("maxItems", None), ("maxItems", [1]), ("minLength", -1), ("minLength", 2.5), ("minLength", "x"), ("maxLength", {}),
    ("maxLength", True), ("pattern", 3), ("pattern", "("), ("pattern", "[z-a]"), ("pattern", "a{2,1}"), ("pattern", None),
    ("pattern", "*a"), ("format", 3), ("enum", 3), ("enum", "abc"), ("enum", {}), ("anyOf", []), ("anyOf", {}),
    ("allOf", 3), ("allOf", []), ("oneOf", {}), ("oneOf", []), ("not", 3), ("if", "x"), ("minimum", "1"), ("minimum", True),
    ("minimum", None), ("maximum", []), ("exclusiveMinimum", "x"), ("exclusiveMaximum", {}), ("multipleOf", 0),
    ("multipleOf", -1), ("multipleOf", "2"), ("uniqueItems", 1), ("contains", 3), ("minProperties", -1),
    ("maxProperties", 1.5), ("patternProperties", []), ("propertyNames", 3), ("dependencies", 3),
    ("dependentRequired", {"a": "b"}), ("dependentSchemas", {"a": 3}), ("unevaluatedProperties", 3),
    ("unevaluatedItems", "x"), ("$ref", 3), ("$ref", "#/nowhere"), ("$ref", "#nowhere"), ("$ref", "other.json"),
    ("$ref", "#/type"), ("$ref", "http://[x"), ("$dynamicRef", 3), ("$ref", "http://example.com/schema"), ("$schema", 3),
    ("$schema", "http://json-schema.org/draft-03/schema#"), ("$id", 3),
]  # fmt: skip


@pytest.mark.parametrize(("keyword", "value"), WRONG_TYPES, ids=[json.dumps(c) for c in WRONG_TYPES])
def test_wrong_types(keyword: str, value: Any) -> None:
    with pytest.raises(GrammarError) as caught:
        compile_schema({keyword: value})
    assert caught.value.location == f"/{keyword}", str(caught.value)
    if keyword == "$schema":
        return  # means something at the root of a document only
    with pytest.raises(GrammarError) as caught:  # below, in a place that no instance reaches
        compile_schema({"type": "integer", "properties": {"a~/": {"type": "string", keyword: value}}})
    assert caught.value.location == f"/properties/a~0~1/{keyword}", str(caught.value)


CYCLIC: dict = {}
CYCLIC["items"] = CYCLIC
HOSTILE: dict[str, tuple[Any, type | None, str]] = {
    "deep dict": (nest(20_000, lambda s: {"items": s}, {}), LimitExceeded, "nested too deeply"),
    "deep list": (nest(20_000, lambda s: [s], 1), GrammarError, "a dataclass or a TypedDict, found list"),
    "deep const": ({"const": nest(20_000, lambda s: [s], 1)}, LimitExceeded, "nested too deeply"),
    "deep text": ('{"items":' * 20_000 + "{}" + "}" * 20_000, LimitExceeded, "nested too deeply"),
    "open text": ("[" * 200_000, LimitExceeded, "nested too deeply"),
    "just inside": (nest(900, lambda s: {"items": s}, {}), None, ""),
    "just inside as text": (json.dumps(nest(400, lambda s: {"properties": {"a": s}}, {})), None, ""),
    "deep const inside": ({"const": nest(900, lambda s: [s], 1), "type": "array", "items": {"type": "array"}}, None, ""),
    "cyclic dict": (CYCLIC, LimitExceeded, "nested too deeply"),
    "shared 2**60": (nest(60, lambda s: {"properties": {"a": s, "b": s}}, {"type": "string"}), None, ""),
    "allOf 2**400": (nest(400, lambda s: {"allOf": [s, s]}, {"type": "string"}), None, ""),
    "anyOf 2**400": (nest(400, lambda s: {"anyOf": [s, s]}, {"type": "string"}), None, ""),
    "allOf of anyOf 2**30": (
        {"allOf": [{"anyOf": [{"properties": {f"{x}{i}": {"type": "null"}}} for x in "ab"]} for i in range(30)]},
        LimitExceeded,
        "too much work",
    ),
    "allOf of equal anyOf": ({"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}] * 30}, None, ""),
    "subsets": (
        {
            "$defs": {
                f"d{i}": {
                    "properties": {
                        "x": {
                            "allOf": [
                                {"$ref": f"#/$defs/d{(i + 1) % 24}"},
                                {"$ref": f"#/$defs/d{0 if i % 3 == 0 else (i + 1) % 24}"},
                            ]
                        },
                        "y": {"$ref": f"#/$defs/d{(i + 2) % 24}"},
                    }
                }
                for i in range(24)
            },
            "$ref": "#/$defs/d0",
        },
        LimitExceeded,
        "too much work",
    ),
    "self": ({"$ref": "#"}, GrammarError, "loop"),
    "two": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, GrammarError, "loop"),
    "anyOf self": ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, GrammarError, "loop"),
    "allOf self": ({"properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}}, GrammarError, "loop"),
    "below not looped": ({"properties": {"a": {"$ref": "#"}}}, None, ""),
    "infinite instance": ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, GrammarError, "unsatisfiable"),
    "many items": ({"minItems": 10**6, "type": "array"}, None, ""),
    "very many items": ({"minItems": 10**9, "maxItems": 10**9 + 7, "items": {"type": "null"}, "type": "array"}, None, ""),
    "absurdly many items": ({"minItems": 10**300, "type": "array"}, None, ""),
    "maxLength": ({"maxLength": 10**18, "type": "string"}, None, ""),
    "long prefix": ({"prefixItems": [{"type": "string"}] * 5000}, None, ""),
    "many properties": ({"properties": {f"p{i}": {"type": "string"} for i in range(5000)}}, None, ""),
    "many required": ({"required": [f"p{i}" for i in range(5000)], "type": "object"}, None, ""),
    "enum": ({"enum": [f"value {i}" for i in range(10_000)]}, None, ""),
    "enum and pattern": ({"enum": [f"value {i}" for i in range(10_000)], "pattern": "^value \\d+$"}, None, ""),
    "enum of nothing": ({"enum": []}, GrammarError, "unsatisfiable"),
    "exponential pattern": ({"enum": ["a" * 60 + "b"], "pattern": "^(a|a|aa)*$"}, GrammarError, "unsatisfiable"),
    "deep pattern": ({"pattern": "(" * 5000 + ")" * 5000}, LimitExceeded, "/pattern"),
    "pattern count": ({"pattern": "((a{1000}){1000}){1000}"}, None, ""),
    "long integer": ({"const": 10**5000}, LimitExceeded, "too many digits"),
    "long integer as text": ('{"const":' + "1" * 5000 + "}", LimitExceeded, "too long"),
    "nan": ({"minimum": float("nan")}, GrammarError, "finite"),
    "infinity as text": ('{"maximum": Infinity}', GrammarError, "not JSON"),
    "tuple": ({"enum": (1, 2)}, GrammarError, "tuple"),
    "set": ({"required": {"a"}}, GrammarError, "set"),
    "bytes key": ({b"type": "string"}, GrammarError, "keys of type str"),
    "number": (3, GrammarError, "found int"),
    "none": (None, GrammarError, "found NoneType"),
    "class": (dict, GrammarError, "found dict (a class)"),
    "not json": ("{", GrammarError, "line 1, column 2"),
    "empty text": ("", GrammarError, "not JSON"),
    "not utf-8": (b"\xff", GrammarError, "not UTF-8"),
    "text of a list": ("[]", GrammarError, "found list"),
    "ordered dict": (OrderedDict(type="object", properties=OrderedDict(a=OrderedDict(type="null"))), None, ""),
    "lone surrogate": ({"enum": ["\ud800"], "properties": {"\udfff": {}}}, None, ""),
    "empty names": (
        {"properties": {"": {"type": "null"}}, "required": [""], "additionalProperties": {"type": "string"}},
        None,
        "",
    ),
    "huge exponents": ({"type": "number", "minimum": -1e308, "maximum": 1e308}, None, ""),
    "tiny bounds": ({"type": "number", "exclusiveMinimum": 5e-324, "maximum": 1e-323}, None, ""),
    "integers beyond doubles": ({"type": "number", "minimum": 10**400}, None, ""),
    "unknown keywords": ({"x-order": 3, "nullable": True, "foo": {"type": "strin"}}, None, ""),
    "unreachable": ({"$defs": {"a": {"type": "strin"}}, "definitions": {"b": {"pattern": "("}}}, None, ""),
    "not refused where it cannot apply": ({"type": "string", "minProperties": 3, "contains": {}}, None, ""),
    "remote": ({"$ref": "https://example.com/a.json#/x"}, GrammarError, "network is never used"),
    "meta-schema": ({"$ref": "http://json-schema.org/draft-07/schema#"}, UnsupportedError, "meta-schema"),
    "pointer through a list": ({"$ref": "#/anyOf/99999999999999999999", "anyOf": [True]}, GrammarError, "unresolvable"),
    "pointer to no schema": ({"$ref": "#/required", "required": []}, GrammarError, "expected a schema"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    schema, kind, text = HOSTILE[name]
    start = time.perf_counter()
    if kind is None:
        assert compile_schema(schema).rules
    else:
        with pytest.raises(kind) as caught:
            compile_schema(schema)
        assert text in str(caught.value)
    assert time.perf_counter() - start < 5  # under a second alone; the machine may be busy


def test_the_table_is_large() -> None:
    assert len(HOSTILE) + len(WRONG_TYPES) >= 140


@pytest.mark.parametrize(
    "option", [{"whitespace": "("}, {"whitespace": 3}, {"formats": "yes"}, {"on_unsupported": 1}, {"property_order": "x"}]
)
def test_bad_options(option: dict) -> None:
    with pytest.raises(GrammarError, match="option"):
        compile_schema({"type": "array"}, Options(**option))


def test_model_failure() -> None:
    class Broken:
        @staticmethod
        def model_json_schema() -> dict:
            raise RuntimeError("no schema for you")

    with pytest.raises(GrammarError, match="no schema for you"):
        compile_schema(Broken)
