"""Hostile and broken schemas: each ends soon, by a grammar or an error with its place, what was expected and what was found."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import cdplugin as cd
from cdplugin import memory
from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.frontends.json_schema import Options, compile_schema, members
from cdplugin.limits import Limits
from cdplugin.playground.service import LIMITS

MOST_STEPS = 8_000_000
"""Calls and returns that a compilation may take: about a second, where nothing is traced."""


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
    ("dependentRequired", ["a"]), ("dependentSchemas", 3), ("unevaluatedProperties", 3),
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
    "deep list": (nest(20_000, lambda s: [s], 1), GrammarError, "json_schema()), found list"),
    "deep const": ({"const": nest(20_000, lambda s: [s], 1)}, LimitExceeded, "nested too deeply"),
    "deep text": ('{"items":' * 20_000 + "{}" + "}" * 20_000, LimitExceeded, "nested too deeply"),
    "open text": ("[" * 200_000, LimitExceeded, "nested too deeply"),
    "open string": ("[]" * 1001 + '"' + '\\"' * 50_000, GrammarError, "not JSON"),
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
    "self": ({"$ref": "#"}, GrammarError, "without end: found a way back to the root"),
    "two": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, GrammarError, "loop"),
    "anyOf self": ({"anyOf": [{"type": "string"}, {"$ref": "#"}]}, GrammarError, "loop"),
    "allOf self": ({"properties": {"a": {"allOf": [{"$ref": "#/properties/a"}]}}}, GrammarError, "loop"),
    "below not looped": ({"properties": {"a": {"$ref": "#"}}}, None, ""),
    "infinite instance": ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, GrammarError, "unsatisfiable"),
    "many items": ({"minItems": 10**6, "type": "array"}, None, ""),
    "very many items": ({"minItems": 10**7, "maxItems": 10**7 + 7, "items": {"type": "null"}, "type": "array"}, None, ""),
    "absurdly many items": ({"minItems": 10**300, "type": "array"}, LimitExceeded, "minItems"),
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
    "long integer": (
        {"const": 10**5000},
        LimitExceeded,
        "of too many digits: expected integers of at most 8192 bits, found one of 16610",
    ),
    "long integer as text": (
        '{"const":' + "1" * 5000 + "}",
        LimitExceeded,
        "a number that is too long: expected integers of at most 4300 digits",
    ),
    "multiples beyond doubles": ({"type": "number", "minimum": 10**400, "maximum": 10**400 + 5, "multipleOf": 7}, None, ""),
    "nan": ({"minimum": float("nan")}, GrammarError, "finite"),
    "infinity as text": ('{"maximum": Infinity}', GrammarError, "not JSON: expected finite numbers, found Infinity"),
    "tuple": ({"enum": (1, 2)}, GrammarError, "tuple"),
    "set": ({"required": {"a"}}, GrammarError, "set"),
    "bytes key": ({b"type": "string"}, GrammarError, "keys of type str"),
    "number": (3, GrammarError, "found int"),
    "number of a URI": ({"$id": 3}, GrammarError, "found number 3 - at /$id"),
    "reference to a number": ({"$defs": {"a": 3}, "$ref": "#/$defs/a"}, GrammarError, "found number 3 - at /$ref"),
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
    "meta-schema": ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, UnsupportedError, "meta-schema"),
    "pointer through a list": ({"$ref": "#/anyOf/99999999999999999999", "anyOf": [True]}, GrammarError, "unresolvable"),
    "pointer to a name that is alike": (
        {"$ref": "#/$defs/adress", "$defs": {"address": True, "street": True}},
        GrammarError,
        "unresolvable $ref '#/$defs/adress': found no 'adress' at /$defs (did you mean 'address'?) - at /$ref",
    ),
    "pointer to no definitions": (
        {"$ref": "#/definitions/a", "$defs": {"a": True}},
        GrammarError,
        "unresolvable $ref '#/definitions/a': found no 'definitions' at the root - at /$ref",
    ),
    "dynamic pointer to nothing": ({"$dynamicRef": "#x"}, GrammarError, "'#x': found no such anchor - at /$dynamicRef"),
    "no number, deep inside": (
        {"properties": {"a/b": {"enum": [1, float("nan")]}}},
        GrammarError,
        "the schema is not JSON: expected finite numbers, found nan - at /properties/a~1b/enum/1",
    ),
    "a set": ({"items": {"enum": {1}}}, GrammarError, "expected JSON values, found set {1} - at /items/enum"),
    "a name that is no text": (
        {"items": {"properties": {1: {}}}},
        GrammarError,
        "keys of type str, found 1 - at /items/properties",
    ),
    "recursive reference elsewhere": (
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "items": {"$recursiveRef": "b.json"}},
        GrammarError,
        "/items/$recursiveRef",
    ),
    "pointer to no schema": ({"$ref": "#/required", "required": []}, GrammarError, "expected a schema"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    schema, kind, text = HOSTILE[name]
    if kind is None:
        assert compile_schema(schema).rules
    else:
        with pytest.raises(kind) as caught:
            compile_schema(schema)
        assert text in str(caught.value)


# Many parts that multiply, in one table: name, schema; each must end in rules or in a clear error of a budget.
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def one_of(n: int, schema: Callable[[int], Any]) -> dict:
    return {"oneOf": [schema(i) for i in range(n)]}


def words(n: int) -> list[str]:
    return [f"{LETTERS[i % 26]}{LETTERS[i // 26 % 26]}x{i}" for i in range(n)]


MULTIPLYING: dict[str, Any] = {
    "oneOf nested": nest(7, lambda s: {"oneOf": [s, {"properties": {"a": s}}, {"items": s}]}, {"type": "string"}),
    "oneOf nested in itself": nest(40, lambda s: {"oneOf": [s, {"not": s}]}, {"minLength": 3}),
    "oneOf of overlapping objects": one_of(40, lambda i: {"properties": {f"p{i}": {"type": "integer"}}}),
    "oneOf of overlapping required": one_of(30, lambda i: {"required": [f"p{i}"]}),
    "oneOf of patterns": one_of(40, lambda i: {"type": "string", "pattern": f"{LETTERS[i % 26]}.*{i}"}),
    "oneOf of lengths": one_of(300, lambda i: {"minLength": i}),
    "oneOf of bounds": one_of(300, lambda i: {"minimum": i, "maximum": 600 - i}),
    "oneOf of tags that may be absent": one_of(
        12,
        lambda i: {
            "properties": {"tag": {"enum": [i]}, **{w: {"type": "object", "maxProperties": 3} for w in words(12)}, f"o{i}": {}},
            "additionalProperties": False,
        },
    ),
    "oneOf of equal branches": one_of(500, lambda i: {"type": "string"}),
    "oneOf of enums": one_of(60, lambda i: {"enum": words(60)[i:]}),
    "oneOf of consts": one_of(3000, lambda i: {"const": i}),
    "oneOf of arrays": one_of(25, lambda i: {"prefixItems": [{"minimum": i}] * 5}),
    "oneOf of multiples": one_of(12, lambda i: {"multipleOf": i + 2}),
    "oneOf of formats": one_of(7, lambda i: {"format": ["date", "time", "ipv4", "ipv6", "uuid", "email", "uri"][i]}),
    "references to what comes later": {
        "type": "object",
        "properties": {f"q{i}": {"$ref": f"#/$defs/p{i}"} for i in range(2_000)},
        "$defs": {
            "p2000": {"type": "string"},
            **{
                f"p{i}": {"type": "object", "properties": {"a": {"$ref": f"#/$defs/p{i + 1}"}}, "required": ["a"]}
                for i in range(2_000)
            },
        },
    },
    "oneOf times oneOf": {"allOf": [one_of(9, lambda i, k=k: {"required": [f"{k}{i}"]}) for k in "ab"]},
    "oneOf under not": {"not": one_of(12, lambda i: {"properties": {f"p{i}": {"minimum": i}}})},
    "not nested": nest(500, lambda s: {"not": s}, {"type": "object", "required": ["a"]}),
    "not below properties": nest(60, lambda s: {"not": {"properties": {"a": s}}}, {"type": "null"}),
    "not of many properties": {"not": {"properties": {f"p{i}": {"type": "string"} for i in range(2000)}}},
    "not of many required": {"type": "object", "not": {"required": words(2000)}},
    "not of a large enum": {"not": {"enum": words(5000)}},
    "not of large objects": {"not": {"enum": [{w: i for i, w in enumerate(words(200))}, list(range(300))]}},
    "not of prefixItems": {"not": {"prefixItems": [{"type": "string"}] * 300}},
    "not of items and count": {"not": {"items": {"type": "string"}, "maxItems": 10**9, "prefixItems": [{}]}},
    "nots together": {"allOf": [{"not": {"additionalProperties": {"minimum": i}}} for i in range(6)]},
    "too many nots together": {"allOf": [{"not": {"additionalProperties": {"minimum": i}}} for i in range(30)]},
    "nots of names": {"allOf": [{"not": {"propertyNames": {"minLength": i}}} for i in range(1, 7)]},
    "nots of patterns": {"allOf": [{"not": {"patternProperties": {f"{c}{c}": False}}} for c in "abcdef"]},
    "allOf of not of anyOf": {"allOf": [{"not": {"anyOf": [{"pattern": f"{a}{b}"} for a in "abcd"]}} for b in "abcdefgh"]},
    "if 20 times": {"allOf": [{"if": {"required": [f"a{i}"]}, "then": {"required": [f"b{i}"]}} for i in range(20)]},
    "if 20 times with values": {
        "allOf": [
            {"if": {"properties": {f"a{i}": {"const": i}}}, "then": {"required": [f"b{i}"]}, "else": {"maxProperties": 3}}
            for i in range(20)
        ]
    },
    "if nested": nest(40, lambda s: {"if": {"required": ["a"]}, "then": s, "else": {"not": s}}, {"minProperties": 1}),
    "if in if": nest(12, lambda s: {"if": s, "then": {"type": "string"}, "else": s}, {"minLength": 2}),
    "dependencies": {"dependentRequired": {w: words(40)[:i] for i, w in enumerate(words(40))}},
    "dependent schemas": {"dependentSchemas": {w: {"properties": {"x": {"minimum": i}}} for i, w in enumerate(words(30))}},
    "dependencies in a ring": {"dependencies": {w: [words(25)[(i + 1) % 25]] for i, w in enumerate(words(25))}},
    "anyOf 3**12 of properties": {
        "allOf": [{"anyOf": [{"properties": {f"{x}{i}": {"minimum": i}}} for x in "abc"]} for i in range(12)]
    },
    "anyOf 2**60 of types": {"allOf": [{"anyOf": [{"type": "string"}, {"minimum": i}]} for i in range(60)]},
    "anyOf 2**60 of required": {"allOf": [{"anyOf": [{"required": ["a"]}, {"required": [f"b{i}"]}]} for i in range(60)]},
    "anyOf of 5000 objects": {"anyOf": [{"properties": {"k": {"const": i}}, "required": ["k"]} for i in range(5000)]},
    "anyOf in properties of anyOf": nest(
        9, lambda s: {"anyOf": [{"properties": {"a": s, "b": s}}, {"items": s}, s]}, {"type": "integer"}
    ),
    "allOf of 3000 patterns": {"type": "string", "allOf": [{"pattern": w} for w in words(3000)]},
    "allOf of 3000 enums": {"allOf": [{"enum": words(40)[i % 7 :]} for i in range(3000)]},
    "allOf of 3000 bounds": {"type": "number", "allOf": [{"minimum": -i, "maximum": 10**6 + i} for i in range(3000)]},
    "allOf of large objects": {"allOf": [{"properties": {w: {"minLength": k} for w in words(150)}} for k in range(20)]},
    "allOf of prefixItems": {"allOf": [{"prefixItems": [{"minimum": k}] * 200} for k in range(20)]},
    "mutual references": {
        "$defs": {f"d{i}": {"anyOf": [{"items": {"$ref": f"#/$defs/d{j}"}} for j in range(12) if j != i]} for i in range(12)},
        "$ref": "#/$defs/d0",
    },
    "references that multiply": {
        "$defs": {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}, {"$ref": f"#/$defs/d{i + 1}"}]} for i in range(300)}
        | {"d300": {"type": "string"}},
        "$ref": "#/$defs/d0",
    },
    "products of references": {
        "$defs": {
            f"d{i}": {"properties": {"x": {"allOf": [{"$ref": f"#/$defs/d{(i * 7 + j) % 18}"} for j in range(3)]}}}
            for i in range(18)
        },
        "$ref": "#/$defs/d0",
    },
    "a fixed value below references that multiply": {
        "const": "aaa",
        **nest(18, lambda s: {"oneOf": [s, {"allOf": [s, {"minLength": 1}]}]}, {"pattern": "a"}),
    },
    "the parts of a fixed value below references that multiply": {
        "enum": [{"a": [1, 2]}],
        **nest(18, lambda s: {"if": s, "then": s, "else": {"not": s}}, {"properties": {"a": {"contains": {"minimum": 2}}}}),
    },
    "not of itself below": {"properties": {"a": {"not": {"$ref": "#"}}}, "required": ["b"]},
    "oneOf of itself below": {"oneOf": [{"properties": {"a": {"$ref": "#"}}}, {"items": {"$ref": "#"}}, {"minLength": 1}]},
    "many anchors": {"$defs": {f"d{i}": {"$anchor": f"a{i}", "items": {"$ref": f"#a{(i + 1) % 2000}"}} for i in range(2000)}},
    "dynamic anchors": {
        "$id": "http://x/0",
        "$dynamicAnchor": "n",
        "$defs": {f"d{i}": {"$id": f"http://x/d{i}", "$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}} for i in range(50)},
        "properties": {f"p{i}": {"$ref": f"d{i}"} for i in range(50)},
    },
    "unevaluated over anyOf": {
        "anyOf": [{"properties": {w: {"type": "string"}}} for w in words(12)],
        "unevaluatedProperties": False,
    },
    "unevaluated nested": nest(30, lambda s: {"allOf": [s], "unevaluatedProperties": {"type": "null"}}, {"required": ["a"]}),
    "unevaluated items over oneOf": {
        "oneOf": [{"prefixItems": [{"const": i}] * (i + 1)} for i in range(10)],
        "unevaluatedItems": False,
    },
    "patternProperties that overlap": {"patternProperties": {f"{c}": {"minLength": i} for i, c in enumerate("abcdefgh")}},
    "too many patternProperties": {"patternProperties": {w: {"type": "string"} for w in words(400)}},
    "patternProperties that do not overlap": {"patternProperties": {f"^{w}$": {"type": "string"} for w in words(60)}},
    "patternProperties that overlap in pairs": {"patternProperties": {f"^.*{w}": {"type": "string"} for w in words(60)}},
    "names of several complements": {
        "allOf": [{"not": {"patternProperties": {f"^{c}?{c}[a-e]?$": {"const": i}}}} for i, c in enumerate("abcde")],
        "minProperties": 4,
    },
    "patternProperties and names": {"patternProperties": {"^a": {}}, "properties": {w: {} for w in words(3000)}},
    "propertyNames with everything": {"propertyNames": {"minLength": 2, "pattern": "^[a-z]+$", "not": {"enum": words(500)}}},
    "counts of members": {"properties": {w: {} for w in words(60)}, "minProperties": 20, "maxProperties": 40},
    "counts of all orders": {"maxProperties": 10**9, "minProperties": 0, "additionalProperties": False},
    "contains 6 times": {"allOf": [{"contains": {"minimum": i}} for i in range(6)]},
    "contains 40 times": {"allOf": [{"contains": {"minimum": i}} for i in range(40)]},
    "contains with huge counts": {"contains": {"const": 1}, "minContains": 10**9, "maxContains": 10**9 + 5},
    "two contains with huge counts": {"allOf": [{"contains": {"const": i}, "minContains": 10**6} for i in range(2)]},
    "contains beside prefixItems": {"prefixItems": [{"minimum": 0}] * 2000, "contains": {"const": 3}},
    "uniqueItems of 2000": {"uniqueItems": True, "items": {"enum": list(range(2000))}},
    "uniqueItems of a range": {"uniqueItems": True, "items": {"type": "integer", "minimum": -(10**30), "maximum": 10**30}},
    "pattern of counts": {"pattern": "^((((a{1,9}){1,9}){1,9}){1,9}){1,9}$"},
    "pattern that explodes as an automaton": {"pattern": "^(a|b)*a(a|b){400}$"},
    "patterns that explode together": {"allOf": [{"pattern": f"a.{{{i}}}b"} for i in range(1, 40)], "type": "string"},
    "pattern of classes": {"pattern": "[" + "".join(chr(0x4E00 + 2 * i) for i in range(2000)) + "]+"},
    "pattern of alternatives": {"pattern": "^(" + "|".join(words(5000)) + ")$"},
    "pattern of look-aheads": {"pattern": "^" + "".join(f"(?!.*{w})" for w in words(40)) + ".*$"},
    "pattern of groups": {"pattern": "(a?" * 200 + ")" * 200},
    "pattern with a long count": {"pattern": "^[a-z]{1000000}$"},
    "pattern with a count beyond everything": {"pattern": "^a{99999999999999999999}$"},
    "patterns and lengths": {"pattern": "^(ab?)*$", "minLength": 10**6, "maxLength": 10**6 + 1},
    "format, pattern, length": {"format": "email", "pattern": "^[a-z]+@(x|y)+[.]z$", "maxLength": 40, "minLength": 20},
    "bounds of 4000 digits": {"type": "integer", "minimum": 10**2000, "maximum": 10**2000 + 1},
    "bounds beyond 64 digits": {"type": "number", "minimum": 1e-320, "maximum": 1.7e308, "multipleOf": 5},
    "multipleOf large": {"multipleOf": 10**9 + 7},
    "multipleOf small": {"multipleOf": 1e-300},
    "multipleOf many": {"allOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11, 13)]},
    "enum of deep values": {"enum": [nest(200, lambda v: [v], i) for i in range(50)]},
    "enum of large objects": {"enum": [{w: [i, {w: i}] for w in words(60)} for i in range(60)]},
    "enum beside choices": {"enum": words(3000), "anyOf": [{"pattern": f"x{i}$"} for i in range(30)]},
    "long names": {"properties": {"n" * 20_000 + str(i): {} for i in range(20)}},
    "names of surrogates": {"properties": {"\ud800" * 50: {}, "\U0010ffff" * 3000: {}, "\x00" * 3000: {}}},
    "escapes": {"enum": ['\\"/\b\f\n\r\t\u2028' * 2000], "pattern": "\\\\"},
    "wide and shallow": {"properties": {f"p{i}": {"properties": {"a": {"type": ["string", "null"]}}} for i in range(1500)}},
    "all at once": {
        "type": ["object", "array", "string", "number"],
        "properties": {"a": {}},
        "patternProperties": {"^b": False},
        "not": {"required": ["c"]},
        "if": {"minLength": 2},
        "then": {"pattern": "x"},
        "anyOf": [{"minimum": 1}, {"maximum": 9}],
        "oneOf": [{"minItems": 1}, {"minProperties": 2, "maxItems": 0}],
        "contains": {"type": "null"},
        "dependentRequired": {"a": ["d"]},
        "unevaluatedProperties": False,
    },
}


CLEAR = ("rules", "expected at most", "not supported", "more than", "unsatisfiable")


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", MULTIPLYING)
def test_what_multiplies_ends(name: str, order: str) -> None:
    """Schemas that multiply end in rules, or in an error that names a budget or a keyword."""
    try:
        outcome = f"{len(compile_schema(MULTIPLYING[name], Options(property_order=order)).rules)} rules"
    except GrammarError as error:
        outcome = str(error)
    assert any(text in outcome for text in CLEAR), outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", MULTIPLYING)
def test_work_is_counted(name: str) -> None:
    """However slow the machine is: calls and returns are counted, no time is taken. Nothing is remembered from other tests."""
    memory._shared.clear()
    steps = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        compile_schema(MULTIPLYING[name])
    except GrammarError:
        pass
    finally:
        sys.setprofile(None)
    assert steps < MOST_STEPS, f"{steps} calls and returns"


RNG = random.Random(1)
COSTLY: dict[str, Any] = {
    "a chain of references from many places": {
        "$defs": {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(1_500)} | {"a1500": {"type": "null"}},
        "allOf": [{}],
        "properties": {f"p{i}": {"$ref": "#/$defs/a0"} for i in range(1_500)},
    },
    "members that must meet conditions as a set cover": {
        "type": "object",
        "additionalProperties": {"type": "null"},
        "maxProperties": 12,
        "allOf": [
            {"not": {"propertyNames": {"not": {"enum": [f"n{x}" for x in RNG.sample(range(40), 3)]}}}} for _ in range(60)
        ],
    },
    "millions of distinct arrays": {"uniqueItems": True, "minItems": 10**7, "items": {"type": "array", "items": {"const": 1}}},
    "a long value beside many others": {"enum": [[1] * 4_000], "anyOf": [{"const": [i]} for i in range(1_000)]},
    "multiples from a bound of 2,400 digits": {"type": "integer", "minimum": 10**2400 + 5, "multipleOf": 2},
}


@pytest.mark.parametrize("name", COSTLY)
def test_python_work_is_bounded(name: str) -> None:
    """85 bytes took gigabytes; 3 kB took minutes."""
    steps = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == MOST_STEPS:
            raise AssertionError("too many calls and returns")

    sys.setprofile(count)
    try:
        compile_schema(COSTLY[name])
    except GrammarError:
        pass
    finally:
        sys.setprofile(None)


def test_listed_values_of_shared_parts_are_refused() -> None:
    """They were written out: exponential time and memory."""
    value = nest(40, lambda v: [v, v], 1)
    for keyword, schema in (("enum", {"enum": [value]}), ("const", {"const": value}), ("const", {"enum": [2], "const": value})):
        with pytest.raises(LimitExceeded, match="listed values are too large") as caught:
            compile_schema({"not": schema})
        assert (caught.value.location, caught.value.keyword) == (f"/not/{keyword}", keyword)


@pytest.mark.parametrize("usual", [True, False])
def test_a_long_name_above_many_schemas_is_refused(usual: bool) -> None:
    """It is part of the pointer of each: 68 kB of schema took 288 MB."""
    below = {"properties": {f"p{i}": {"minimum": i} for i in range(2_000)}}
    schema = {"properties": {"x" * 20_000: below}} | ({} if usual else {"allOf": [{}]})
    with pytest.raises(LimitExceeded, match="JSON Pointers of the subschemas are too long"):
        compile_schema(schema)


def test_rounds_over_what_is_evaluated_are_counted() -> None:
    """For each listed value, each level of ``anyOf`` is another round over all levels."""
    schema: dict[str, Any] = nest(200, lambda s: {"anyOf": [{"properties": {"b": {}}, **s}]}, {})
    with pytest.raises(LimitExceeded, match="takes too much work"):
        compile_schema(schema | {"enum": [{"b": i} for i in range(400)], "unevaluatedProperties": False})


def test_a_bound_of_many_digits_is_exact_beside_multiples() -> None:
    """It was rounded to 2,000 digits."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema({"type": "integer", "minimum": 10**2400 + 5, "multipleOf": 2}))
    zeros = b"0" * 2_399
    for last, expected in ((b"2", False), (b"4", False), (b"6", True), (b"7", False)):
        text = b"1" + zeros + last
        matcher = grammar.matcher()
        assert (matcher.accept_tokens(list(text)) == len(text) and matcher.is_accepting()) == expected


def test_long_strings_beside_many_brackets_take_little_memory() -> None:
    """The depth of a text was found by an expression that backtracked into strings: 100 bytes for each character."""
    text = json.dumps({"description": "a" * 300_000 + '\\"' * 50_000, "enum": [[]] * 1_001})
    tracemalloc.start()
    try:
        compile_schema(text)
        assert tracemalloc.get_traced_memory()[1] < 12 * len(text)
        with pytest.raises(GrammarError, match="Unterminated string"):
            compile_schema('{"' + "[]" * 1_001 + '\\"' * 5_000)
        with pytest.raises(LimitExceeded, match="nested too deeply"):
            compile_schema('{"a\\"]]":' + "[" * 1_001)
    finally:
        tracemalloc.stop()


def test_what_is_never_written_out_is_not_remembered() -> None:
    """Shared parts are walked once, though written out they would be exponentially many. Circles are refused."""
    assert cd.JsonSchema(MULTIPLYING["oneOf nested in itself"]).key() is None
    assert cd.JsonSchema(CYCLIC).key() is None
    assert cd.JsonSchema(nest(20_000, lambda s: {"items": s}, {})).key() is None
    part = {"type": "string"}
    assert cd.JsonSchema([part, part]).key() == cd.JsonSchema([{"type": "string"}] * 2).key() is not None


def test_the_table_is_large() -> None:
    assert len(HOSTILE) + len(WRONG_TYPES) + len(MULTIPLYING) >= 200


@pytest.mark.parametrize(
    "option",
    [
        {"whitespace": "("},
        {"whitespace": 3},
        {"whitespace": "loose"},
        {"formats": "yes"},
        {"on_unsupported": 1},
        {"property_order": "x"},
    ],
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


@pytest.mark.parametrize(
    ("schema", "location", "expected", "found"),
    [
        (
            {"properties": {"a": {"allOf": [{"contains": {"const": i}} for i in range(7)]}}},
            "/properties/a/allOf/6/contains",
            "at most 6",
            "7",
        ),
        (
            {"contains": {"const": 1}, "minContains": 5000, "allOf": [{"contains": {"const": 2}, "minContains": 9}]},
            "/contains",
            "at most 2000 combinations",
            "50010",
        ),
        ({"items": {"type": "integer", "multipleOf": 65280}}, "/items/multipleOf", "at most 256 states", ""),
    ],
)
def test_what_is_too_much_says_where_and_how_much(schema: Any, location: str, expected: str, found: str) -> None:
    with pytest.raises(GrammarError) as raised:
        compile_schema(schema)
    assert (raised.value.location, raised.value.expected, raised.value.found) == (location, expected, found)


def test_a_limit_that_dynamic_references_lower_says_so() -> None:
    """It named an eighth of ``Limits.max_rules`` as that limit."""
    names = [f"s{i}" for i in range(12)]
    schema = {"$dynamicAnchor": "a", "$defs": {n: {"$id": n, "$dynamicAnchor": "a", "$dynamicRef": "#a"} for n in names}}
    nested = {"items": schema, "anyOf": [{"items": {"$ref": n}} for n in names], "$defs": {"x": {"$dynamicRef": "#a"}}}
    with pytest.raises(LimitExceeded) as raised:
        compile_schema({**schema, **nested}, limits=Limits(max_rules=40))
    assert raised.value.expected == "at most 5, 1 / 8 of Limits.max_rules with $dynamicRef"


NEVER: dict[str, Any] = {"type": "string", "pattern": "foo", "maxLength": 2}


@pytest.mark.parametrize(
    ("schema", "location"),
    [
        ({"type": "object", "properties": {"x": {}, "a": NEVER}, "required": ["a"]}, "/properties/a"),
        ({"type": "object", "properties": {"x": {**NEVER, "maxLength": 1}, "a": NEVER}, "required": ["a"]}, "/properties/a"),
        ({"type": "array", "items": NEVER, "minItems": 1}, "/items"),
        ({"type": "array", "prefixItems": [{}, NEVER], "minItems": 2}, "/prefixItems/1"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"], "$defs": {"x": NEVER}}, "/$defs/x"),
        ({"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1, "items": NEVER}}, "/items/items"),
        (NEVER, ""),
    ],
)
def test_what_the_engine_finds_out_to_be_unsatisfiable_is_located(schema: Any, location: str) -> None:
    """The message said nothing of where."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    with pytest.raises(GrammarError, match="unsatisfiable") as raised:
        cd.Compiler(vocab).compile(cd.JsonSchema(schema))
    assert raised.value.location == location


def test_the_work_does_not_depend_on_how_python_hashes() -> None:
    """Names that all branches of a ``oneOf`` require are looked at in the schema's order: every process takes as many steps."""
    names = [f"name {i}" for i in range(12)]
    branches = [
        {
            "properties": {name: {"const": value} if name == names[5] else {"type": "string"} for name in names},
            "required": names,
        }
        for value in ("a", "b", "c")
    ]
    code = (
        "import json, sys; from cdplugin.frontends.json_schema import compile_schema; "
        "print(compile_schema(json.loads(sys.argv[1])).spent.steps)"
    )
    steps = {
        subprocess.run(
            [sys.executable, "-c", code, json.dumps({"type": "object", "oneOf": branches})],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(3)
    }
    assert len(steps) == 1, steps


def test_patterns_of_names_that_share_no_text_are_told_apart() -> None:
    """Each of 512 objects had a class of names for each set of its patterns, most of which no name matches."""
    patterns: list[Any] = [{"patternProperties": {f"^{c}": {"type": "integer"}}} for c in "abcdefghi"]
    ir = compile_schema({"anyOf": patterns, "unevaluatedProperties": {"type": "string", "maxLength": 3}})
    assert len(ir.lexemes) < 5_000


def test_counting_the_names_of_many_classes_is_bounded() -> None:
    """255 lexemes of names that are told apart: how many texts each has was looked for among 600 derivatives."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    patterns = {f"{c}+": {"maxLength": i} for i, c in enumerate("abcdefgh")}
    named = {"propertyNames": {"format": "email"}, "additionalProperties": False, "minProperties": 3}
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema({"patternProperties": patterns, **named}))
    assert grammar.counters()["derivatives"] < 500_000
    matcher = grammar.matcher()
    for text, expected in (
        (b'{"b@x.y":"c","c@x.y":"","g@x.y":"1"}', True),
        (b'{"b@x.y":"c","c@x.y":"","b@x.y":"1"}', False),
        (b'{"b@x.y":"c","c@x.y":""}', False),
        (b'{"b@x.y":"cc","c@x.y":"","g@x.y":"1"}', False),
    ):
        matcher.reset()
        assert (matcher.accept_tokens(list(text)) == len(text) and matcher.is_accepting()) == expected


def test_what_multiplies_is_located() -> None:
    """Where alternatives multiply below what is being written, the message named the schema around them."""

    def branches(letters: str) -> dict[str, Any]:
        patterns: list[Any] = [{"patternProperties": {f"{c}+": {"type": "integer"}}} for c in letters]
        return {"anyOf": patterns, "unevaluatedProperties": {"type": "string"}}

    compile_schema(branches("abcdefgh"))
    schema = {"properties": {f"p{i}": branches("".join(chr(0x100 + 8 * i + k) for k in range(8))) for i in range(20)}}
    with pytest.raises(LimitExceeded, match="takes too much work: expected at most 66666 steps") as caught:
        compile_schema(schema)
    assert caught.value.location.startswith("/properties/p")


def test_names_of_forty_kinds_are_counted_in_full() -> None:
    """Each of 38 lexemes of names takes some 250 derivatives until enough of its texts are counted: with half of them, the
    schema was refused, as one where few values may be left.
    """

    def some_name(pattern: str) -> dict[str, Any]:
        return {"not": {"propertyNames": {"not": {"pattern": pattern}}}}

    def one(*schemas: dict[str, Any]) -> dict[str, Any]:
        return {"allOf": [*schemas, {"$ref": "#/definitions/digits"}, {"maxProperties": 1}]}

    pairs = {"propertyNames": {"pattern": r"^(\w\d)+$"}}
    four, six, eight = some_name("a4b"), some_name("(^[^4]*$)|6"), some_name("(^[^6]*$)|8")
    below = {"6": one(four, pairs), "8": one(six, pairs)}
    schema = one(four, six, eight, {"propertyNames": {"pattern": r"^(\w\w\d)+$"}}) | {"type": "object"}
    schema["definitions"] = {"digits": {"patternProperties": below}}
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(schema))
    for text, expected in ((b'{"aa6aa4bb8":{"a4b6":{"a4b4":{}}}}', True), (b'{"aa6aa4bb8":{"a4b4":{}}}', False)):
        matcher = grammar.matcher()
        assert (matcher.accept_tokens(list(text)) == len(text) and matcher.is_accepting()) == expected


def test_members_that_may_meet_a_condition_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All were looked at anew for each that may come next: for 2,000, six seconds of a step, which no budget counted."""
    calls, largest = [0], members._largest

    def counted(sets: set[int]) -> frozenset[int]:
        calls[0] += 1
        return largest(sets)

    monkeypatch.setattr(members, "_largest", counted)
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    strings = {"properties": {f"p{i}": {"type": "string"} for i in range(2_000)}}
    matcher = cd.Compiler(vocab, LIMITS).compile(cd.JsonSchema({"not": strings})).matcher()
    with pytest.raises(LimitExceeded, match="one step takes too much work"):
        matcher.accept_token(ord("{"))
    assert 0 < calls[0] < 20_000
