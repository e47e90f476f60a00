"""The values of ``enum`` beside other keywords: each keyword leaves exactly those that it allows."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import cdplugin as cd

COMPILER = cd.Compiler(cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256))
A, B = {"properties": {"a": True}}, {"properties": {"b": True}}
OBJECTS = [{}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 2, "c": 1}, {"c": "x"}]
ARRAYS = [[], [1], [1, 2], ["x"], [1, "x"], ["x", 1], [1, "x", 2], ["x", "x"], [1, 2, 3]]
TEXTS = ["", "a", "b", "ab", "ba", "abc", 1, None]


def left(schema: dict[str, Any], values: list[Any]) -> list[Any]:
    """The values that the grammar of ``schema`` with all of them listed accepts."""
    try:
        grammar = COMPILER.compile(cd.JsonSchema({"enum": values, **schema}))
    except cd.GrammarError as error:
        if "no JSON value is valid" not in str(error):
            raise
        return []

    def takes(value: Any) -> bool:
        text, matcher = json.dumps(value).encode(), grammar.matcher()
        return matcher.accept_tokens(text) == len(text) and matcher.is_accepting()

    return [value for value in values if takes(value)]


@pytest.mark.parametrize(
    ("schema", "values", "count"),
    [
        ({"unevaluatedProperties": False}, OBJECTS, 1),
        ({**A, "unevaluatedProperties": False}, OBJECTS, 2),
        ({**A, "unevaluatedProperties": {"type": "string"}}, OBJECTS, 3),
        ({"allOf": [A, B], "unevaluatedProperties": False}, OBJECTS, 4),
        ({"anyOf": [{**A, "required": ["a"]}, {**B, "required": ["b"]}], "unevaluatedProperties": False}, OBJECTS, 3),
        ({"oneOf": [{**A, "required": ["a"]}, {**B, "required": ["b"]}], "unevaluatedProperties": False}, OBJECTS, 2),
        ({"if": {**A, "required": ["a"]}, "then": B, "unevaluatedProperties": False}, OBJECTS, 3),
        ({"if": {**A, "required": ["a"]}, "else": B, "unevaluatedProperties": False}, OBJECTS, 3),
        ({"dependentSchemas": {"b": {"properties": {"a": True, "b": True}}}, "unevaluatedProperties": False}, OBJECTS, 3),
        ({"patternProperties": {"^[ab]$": {"const": 1}}, "unevaluatedProperties": False}, OBJECTS, 4),
        ({"additionalProperties": {"type": "integer"}, "unevaluatedProperties": False}, OBJECTS, 6),
        ({"$ref": "#/$defs/a", "$defs": {"a": A}, "unevaluatedProperties": False}, OBJECTS, 2),
        ({"not": A, "unevaluatedProperties": False}, OBJECTS, 0),
        ({"allOf": [{**A, "unevaluatedProperties": {"const": 1}}], "unevaluatedProperties": False}, OBJECTS, 6),
        ({"unevaluatedItems": False}, ARRAYS, 1),
        ({"prefixItems": [{"type": "integer"}], "unevaluatedItems": False}, ARRAYS, 2),
        ({"prefixItems": [True], "unevaluatedItems": {"type": "string"}}, ARRAYS, 5),
        ({"contains": {"type": "string"}, "unevaluatedItems": False}, ARRAYS, 2),
        ({"contains": {"type": "string"}, "unevaluatedItems": {"const": 1}}, ARRAYS, 4),
        ({"anyOf": [{"prefixItems": [True, True]}, True], "unevaluatedItems": False}, ARRAYS, 7),
        ({"items": {"type": "integer"}, "unevaluatedItems": False}, ARRAYS, 4),
        ({"if": {"prefixItems": [{"type": "string"}]}, "then": {"items": True}, "unevaluatedItems": False}, ARRAYS, 4),
        ({"not": {"not": {"type": "string", "pattern": "^a"}}}, TEXTS, 3),
        ({"not": {"type": "string", "not": {"pattern": "^a"}}}, TEXTS, 5),
        ({"oneOf": [{"type": "string", "not": {"pattern": "a"}}, {"type": "string", "minLength": 2}]}, TEXTS, 5),
        ({"not": {"anyOf": [{"not": {"pattern": "b$"}}, {"not": {"type": "string"}}]}}, TEXTS, 2),
        ({"propertyNames": {"not": {"pattern": "c"}}}, OBJECTS, 4),
        ({"not": {"propertyNames": {"not": {"pattern": "c"}}}}, OBJECTS, 3),
    ],
)
def test_which_values_are_left(schema: dict[str, Any], values: list[Any], count: int) -> None:
    """As many as counted by hand, and those that ``jsonschema`` finds valid."""
    found = left(schema, values)
    assert len(found) == count
    assert found == [value for value in values if jsonschema.Draft202012Validator(schema).is_valid(value)]


@pytest.mark.parametrize("text", ["\x7f", "a\x7fb", "é\x7f", "\x1f", "\u2028", "😀"])
def test_fixed_texts_are_spelt_as_python_writes_them(text: str) -> None:
    """DEL is ASCII, and ``json.dumps`` escapes it where it escapes what is not."""
    schema = {"type": "object", "properties": {text: {"enum": [text, "b"]}}, "required": [text]}
    for order in ("schema", "any"):
        grammar = COMPILER.compile(cd.JsonSchema(schema, property_order=order))
        for escaped in (True, False):
            written, matcher = json.dumps({text: text}, ensure_ascii=escaped).encode(), grammar.matcher()
            assert matcher.accept_tokens(written) == len(written) and matcher.is_accepting(), written
