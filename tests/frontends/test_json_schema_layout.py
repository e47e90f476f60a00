"""Separators and indentation beside ``json.dumps``. Samplers that always want whitespace, or digits, come to an end."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import numpy as np
import pytest

import cdplugin as cd
from cdplugin.errors import GrammarError

VOCAB = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
COMPILER = cd.Compiler(VOCAB)
LAYOUTS: list[dict[str, Any]] = [
    {"separators": (",", ":")},
    {"separators": (", ", ": ")},
    {"separators": [" , ", ":"]},
    {"indent": 2},
    {"indent": 0},
    {"indent": "\t"},
    {"indent": 1, "separators": (", ", " : ")},
]
# schema, valid instances
CASES: list[tuple[Any, list[Any]]] = [
    ({}, [[], {}, [[]], [{}], {"a": []}, {"a": {}}, [1, [2, {"x": [True, None]}], "a\nb"], {"é": {"b": [[1], [2]]}}, "x"]),
    (
        {"properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}}, "required": ["b"]},
        [{"b": []}, {"a": 1, "b": ["x", "y"]}, {"a": 1, "b": ["x"], "c": {"d": 1}, "e": []}],
    ),
    ({"prefixItems": [{"type": "null"}, {"type": "array"}], "minItems": 1, "type": "array"}, [[None], [None, [1], {"a": 0}]]),
    ({"enum": [{"a": [1, {"b": 2}], "c": {}}, [[], [3]], "s"]}, [{"a": [1, {"b": 2}], "c": {}}, [[], [3]], "s"]),
    ({"type": "array", "contains": {"const": 7}, "maxItems": 4}, [[7], [[1], 7, {"a": 7}]]),
    ({"minProperties": 2, "properties": {k: {} for k in "abc"}, "additionalProperties": False}, [{"a": 1, "c": [1]}]),
    ({"type": "array", "uniqueItems": True, "items": {"enum": [1, "x", None]}}, [[], ["x"], ["x", 1, None]]),
    ({"type": "array", "items": {"$ref": "#"}, "maxItems": 40, "minItems": 0}, [[[], [[]], [[], []]]]),
]  # fmt: skip


def accepts(grammar: cd.Grammar, text: str) -> bool:
    matcher = grammar.matcher()
    data = text.encode()
    return matcher.accept_tokens(data) == len(data) and matcher.is_accepting()


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_the_layout_is_that_of_json_dumps(layout: dict[str, Any], order: str) -> None:
    others = [other for other in (*LAYOUTS, {"separators": (",", ": ")}) if other != layout]
    for schema, instances in CASES:
        grammar = COMPILER.compile(cd.JsonSchema(schema, property_order=order, **layout))
        for data in instances:
            text = json.dumps(data, ensure_ascii=False, **layout)
            assert accepts(grammar, text), (schema, text)
            for other in others:
                changed = json.dumps(data, ensure_ascii=False, **other)
                assert accepts(grammar, changed) == (changed == text), (schema, changed)


def test_indentation_ends_at_a_depth() -> None:
    grammar = COMPILER.compile(cd.JsonSchema({}, indent=1))
    value: Any = []
    depths = []
    for depth in range(1, 40):
        if accepts(grammar, json.dumps(value, indent=1)):
            depths.append(depth)
        value = [value]
    assert depths == list(range(1, len(depths) + 1)) and 20 <= len(depths) < 39


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"indent": -1}, "option indent: expected 0 to 64"),
        ({"indent": True}, "option indent"),
        ({"indent": "x"}, "option indent"),
        ({"indent": 10**9}, "option indent"),
        ({"separators": ","}, "option separators"),
        ({"separators": (";", ":")}, "option separators: expected a comma and a colon"),
        ({"separators": (",", "::")}, "option separators"),
        ({"separators": (",", ":", "")}, "option separators"),
        ({"indent": 2, "whitespace": "compact"}, "option whitespace: expected 'flexible' beside"),
    ],
)
def test_wrong_layouts(option: dict[str, Any], text: str) -> None:
    with pytest.raises(GrammarError, match=text):
        COMPILER.compile(cd.JsonSchema({}, **option))


GREEDY: list[Any] = [
    {},
    {"type": "object"},
    {"type": "array"},
    {"type": "number"},
    {"type": "integer", "minimum": 3},
    {"type": "number", "multipleOf": 0.25},
    {"type": "number", "exclusiveMinimum": -1e-9, "maximum": 1e300},
    {"properties": {"a": {"type": "number"}, "b": {}}, "required": ["b"], "additionalProperties": False, "type": "object"},
    {"type": "array", "items": {"type": "number"}, "minItems": 3},
    {"type": "array", "contains": {"type": "number"}, "minContains": 2},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1},
    {"type": "string", "format": "date-time"},
    {"type": "string", "maxLength": 30},
    {"type": "string", "pattern": "^[0-9 ]{2,20}$"},
    {"anyOf": [{"type": "number"}, {"type": "array", "items": {"type": "integer"}, "maxItems": 2}]},
    {"not": {"type": "string"}},
    {"enum": [1, 100000, {"a": [1, 2]}]},
    {"type": "object", "properties": {"v": {"type": "number"}, "l": {"$ref": "#"}}},
]  # fmt: skip
WANTS = {
    "whitespace": (b" \t\r\n",),
    "digits": (b"0123456789", b".eE+-"),
    "whitespace, then digits": (b" \t\r\n", b"0123456789"),
}
FINISHING = b'}]0:,"[{tfn'
"""What the samplers take where nothing that they want is allowed, best first."""


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("wants", WANTS)
def test_greedy_samplers_finish(wants: str, order: str) -> None:
    """What they want is taken as long as it is allowed, so runs of it have to be bounded; else what closes comes first.

    Free text may be as long as it likes: within strings the closing quote comes first.
    """
    bits = cd.allocate_token_bitmask(1, VOCAB.size)
    rng = random.Random(wants)
    for schema in GREEDY:
        grammar = COMPILER.compile(cd.JsonSchema(schema, property_order=order))
        matcher = grammar.matcher()
        text = b""
        for _ in range(4000):
            matcher.fill_next_token_bitmask(bits)
            allowed = set(np.flatnonzero(np.unpackbits(bits.numpy().view(np.uint8), bitorder="little")).tolist())
            if not allowed - {256}:
                break
            wanted = next((sorted(allowed & set(group)) for group in WANTS[wants] if allowed & set(group)), None)
            if wanted is None and 256 in allowed:
                break
            if len(re.findall(rb'(?<!\\)"', text)) % 2:
                byte = 0x22 if 0x22 in allowed else rng.choice(wanted or sorted(allowed))
            elif wanted:
                byte = rng.choice(wanted)
            else:
                byte = next((byte for byte in FINISHING if byte in allowed), min(allowed - {256}))
            assert matcher.accept_token(byte)
            text += bytes([byte])
        assert matcher.is_accepting(), (schema, text[-60:])
        json.loads(text)
