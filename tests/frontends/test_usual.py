"""Usual schemas take a shortcut (``usual.py``), which gives what the general way gives, symbol by symbol."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from engine_tools import cases
from json_schema_tools import random_schema

from cdplugin.errors import GrammarError
from cdplugin.expr import Automaton, Expr, Names
from cdplugin.frontends.json_schema import USUAL, compile_schema
from cdplugin.frontends.json_schema import compile as compiling
from cdplugin.frontends.json_schema.usual import write_usual
from cdplugin.ir import GrammarIR
from cdplugin.limits import Limits
from cdplugin.tally import counting

SEED = 17
NAMES = ("id", "name", "a~b", "c/d", "größe", "x", "type", "if you like", "\ud800", '"')
FORMATS = ("date", "uuid", "email", "no such format")
TYPES = ("string", "integer", "number", "boolean", "null", "object", "array")
REFERENCES = ("#", "#/$defs/a", "#/$defs/b", "#/definitions/c", "#/definitions/c/definitions/d", "#/$defs/no", "#/properties/x")
ODD: tuple[dict[str, Any], ...] = (
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"minProperties": 1},
    {"anyOf": []},
    {"oneOf": {}},
    {"patternProperties": []},
    {"patternProperties": {"a": 1}},
    {"uniqueItems": True},
    {"uniqueItems": False},
    {"enum": [1, "a"]},
    {"enum": []},
    {"const": "a", "enum": ["a", "b"]},
    {"const": "a"},
    {"$id": "http://example.com/x"},
    {"id": "x"},
    {"type": "strin"},
    {"type": []},
    {"type": 3},
    {"type": None},
    {"type": {}},
    {"required": {}},
    {"required": ["id", 1]},
    {"additionalProperties": None},
    {"items": 0},
    {"enum": "a"},
    {"format": 1},
    {"required": "a"},
    {"properties": []},
    {"minItems": 3, "maxItems": 2, "type": "array"},
    {"items": False, "type": "array", "minItems": 1},
    {"items": [{"type": "string"}]},
    {"additionalItems": 7},
    {"minimum": "1"},
    {"multipleOf": 1},
    {"pattern": "("},
    {"maxLength": -1},
    {"$schema": "http://json-schema.org/draft-04/schema#"},
    {"$ref": "#", "type": "object"},
    {"description": "anything"},
)


def usual_schema(rng: random.Random, depth: int, oddness: float) -> Any:
    """A schema of the usual kind, now and then with something unusual in it."""
    kind = rng.choice(TYPES if depth else TYPES[:5])
    schema: dict[str, Any] = {"type": kind}
    if rng.random() < 0.05:
        return rng.choice([True, {}, {"title": "anything"}])
    if rng.random() < 0.15 and depth:
        return {"$ref": rng.choice(REFERENCES[:5] if rng.random() > oddness else REFERENCES), "title": "elsewhere"}
    if rng.random() < 0.1:
        schema["type"] = [kind, rng.choice(TYPES[:5])] if kind != "null" else ["null"]
    if rng.random() < 0.1:
        schema = {"enum": rng.sample(NAMES, 3)} if kind == "string" else {}
    if rng.random() < 0.1:
        return schema | {"enum": rng.sample([*NAMES, None, True, False, 0, 1, 7, 2.5, 3.0, []], 4)}
    if rng.random() < 0.15 and depth:
        keyword, n_branches = rng.choice(["anyOf", "oneOf"]), rng.choice([1, 2, 2, 3])
        return {keyword: [usual_schema(rng, depth - 1, oddness) for _ in range(n_branches)], "title": "one of them"}
    if kind == "object":
        names = rng.sample(NAMES, rng.randrange(4))
        schema["properties"] = {name: usual_schema(rng, depth - 1, oddness) for name in names}
        schema["required"] = rng.sample(NAMES if rng.random() < 0.2 else names, rng.randrange(len(names) + 1))
        others = rng.choice([None, False, False, True, {}, usual_schema(rng, depth - 1, oddness)])
        if others is not None:
            schema["additionalProperties"] = others
        if rng.random() < 0.2:
            patterns = rng.sample(["^x-", "[0-9]", "^c/d$", "("], 1 if rng.random() > oddness else 2)
            schema["patternProperties"] = {pattern: usual_schema(rng, depth - 1, oddness) for pattern in patterns}
    elif kind == "array":
        schema["items"] = usual_schema(rng, depth - 1, oddness)
        schema |= rng.choice([{}, {"minItems": 1}, {"maxItems": 3}, {"minItems": 2, "maxItems": 40}, {"maxItems": 0}])
    elif kind == "string":
        schema |= rng.choice([{}, {"maxLength": 9}, {"minLength": 1, "pattern": "^a+$"}, {"format": rng.choice(FORMATS)}])
    elif kind in ("integer", "number"):
        schema |= rng.choice([{}, {"minimum": 0}, {"exclusiveMaximum": 7}, {"minimum": 1, "maximum": 12.5}, {"multipleOf": 5}])
    if rng.random() < oddness:
        schema |= rng.choice(ODD)
    return schema


def document(rng: random.Random, oddness: float) -> Any:
    """A whole schema: the references of its parts lead to definitions."""
    schema = usual_schema(rng, 4, oddness)
    if isinstance(schema, dict):
        nested = usual_schema(rng, 2, oddness)
        if isinstance(nested, dict):
            nested["definitions"] = {"d": usual_schema(rng, 2, oddness)}
        schema["$defs"] = {name: usual_schema(rng, 2, oddness) for name in "ab"}
        schema["definitions"] = {"c": nested}
        if rng.random() < 0.3:
            draft = rng.choice(["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"])
            schema["$schema"] = draft
    return schema


def content(expression: Expr, known: dict[Expr, int], numbers: dict[Any, int]) -> int:
    """A number that only equal trees share. ``known`` keeps the nodes."""
    stack = [expression]
    while stack:
        node = stack[-1]
        parts = () if isinstance(node, (Names, Automaton)) else [arg for arg in node.args if isinstance(arg, Expr)]
        missing = [part for part in parts if part not in known]
        if missing:
            stack += missing
            continue
        stack.pop()
        if isinstance(node, Names):
            key: Any = ("names", node.words)
        elif isinstance(node, Automaton):
            key = ("automaton", node)  # numbers share theirs
        else:
            key = (node.op, *(("part", known[arg]) if isinstance(arg, Expr) else arg for arg in node.args))
        known[node] = numbers.setdefault(key, len(numbers))
    return known[expression]


def written(schema: Any, shortcut: bool, numbers: dict[Any, int], kept: list[GrammarIR]) -> Any:
    """The rules and all that belongs to them, or the error; and the number of expression nodes that were charged."""
    with pytest.MonkeyPatch.context() as patch, counting(10**6) as tally:
        patch.setattr(compiling, "WITH_SHORTCUT", shortcut)
        try:
            ir = compile_schema(schema, USUAL, Limits())
        except GrammarError as error:
            return type(error), str(error)
    kept.append(ir)
    known: dict[Expr, int] = {}
    lexemes = [content(expression, known, numbers) for expression in ir.lexemes]
    first_of = [ir.lexemes.index(expression) for expression in ir.lexemes]
    said = (ir.rules, ir.names, ir.lexeme_names, ir.lexings, ir.places, ir.start, ir.json_values, ir.relaxed)
    return said, lexemes, first_of, tally.nodes


@pytest.mark.parametrize("oddness", [0.0, 0.02, 0.2])
def test_the_shortcut_writes_the_same(oddness: float, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = {True: 0, False: 0}

    def spy(*args: Any) -> bool:
        found = write_usual(*args)
        taken[found] += 1
        return found

    monkeypatch.setattr(compiling, "write_usual", spy)
    rng = random.Random(SEED)
    numbers: dict[Any, int] = {}
    kept: list[GrammarIR] = []
    n_cases = cases(1_500, 60, 300)
    for _ in range(n_cases):
        schema = json.loads(json.dumps(document(rng, oddness) if rng.random() < 0.9 else random_schema(rng)))
        written(schema, False, numbers, kept)  # what is charged for a part may depend on whether it is met for the first time
        assert written(schema, True, numbers, kept) == written(schema, False, numbers, kept), json.dumps(schema)
    assert taken[True] > n_cases // 20 and (taken[False] > n_cases // 50)


def test_the_shortcut_takes_what_most_schemas_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_compile", None)  # raises where the shortcut gives up
    person = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/person.json",
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "born": {"type": ["string", "null"], "format": "date"},
            "kind": {"enum": ["a", "b"]},
            "friends": {"type": "array", "items": {"$ref": "#"}},
            "address": {"$ref": "#/definitions/address"},
            "also": {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/address"}]},
            "else": {"oneOf": [{"type": "null"}, {"type": "array", "items": {"enum": [1, None, "x"]}}]},
        },
        "required": ["name"],
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "definitions": {"address": {"type": "object", "properties": {"street": {"type": "string"}}}},
    }
    assert compile_schema(person).rules


def test_one_object_in_two_places_is_left_to_others() -> None:
    """It would have two pointers; the reader gives it the first one."""
    shared = {"type": "object", "properties": {"a": {"type": "string"}}}
    schema = {"type": "object", "properties": {"x": shared, "y": shared}}
    numbers: dict[Any, int] = {}
    assert written(schema, True, numbers, []) == written(schema, False, numbers, [])


def test_the_shortcut_crosses_the_same_limits() -> None:
    long = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(300)}}
    multiples = {"type": "array", "items": {"type": "number", "multipleOf": 0.07}}
    for limits in (Limits(max_rules=1_000), Limits(max_lexemes=1_000), Limits(max_expr_nodes=300)):
        for schema in (long, multiples, {"type": "array", "maxItems": 900}):
            found = []
            for shortcut in (True, False):
                with pytest.MonkeyPatch.context() as patch, counting(limits.max_expr_nodes):
                    patch.setattr(compiling, "WITH_SHORTCUT", shortcut)
                    try:
                        found.append(str(len(compile_schema(schema, USUAL, limits).rules)))
                    except GrammarError as error:
                        found.append(str(error))
            assert found[0] == found[1]
