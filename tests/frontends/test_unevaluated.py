"""``unevaluatedProperties`` and ``unevaluatedItems`` with branches that overlap, beside jsonschema."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from engine_tools import cases, vocabulary

import cdplugin as cd

COMPILER = cd.Compiler(vocabulary())
NAMES = "abcdefgh"
VALUES = (0, 1, "x")


def accepts(schema: Any, value: Any) -> bool:
    matcher = COMPILER.compile(cd.JsonSchema(schema, property_order="any")).matcher()
    text = json.dumps(value).encode()
    return matcher.accept_tokens(list(text)) == len(text) and matcher.is_accepting()


def some_value(rng: random.Random) -> dict:
    return rng.choice([{"const": 0}, {"type": "integer"}, {"type": "string"}, {"enum": [0, "x"]}])


def some_branch(rng: random.Random) -> Any:
    names = rng.sample(NAMES, rng.randint(1, 2))
    branch: dict[str, Any] = {"properties": {name: some_value(rng) for name in names}}
    kind = rng.random()
    if kind < 0.3:
        branch["required"] = names[:1]
    elif kind < 0.4:
        branch["patternProperties"] = {"^[gh]": {"type": "integer"}}
    elif kind < 0.45:
        branch["not"] = {"required": names[:1]}
    elif kind < 0.5:
        branch["unevaluatedProperties"] = some_value(rng)
    elif kind < 0.6:
        branch = {"maxProperties": 3}
    return branch if kind < 0.95 else True


def some_row(rng: random.Random) -> Any:
    row = {"prefixItems": [some_value(rng) for _ in range(rng.randint(1, 4))]}
    return row | rng.choice([{}, {"minItems": 1}, {"contains": {"const": "x"}}])


@pytest.mark.parametrize("seed", range(4))
def test_members(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(cases(full=12, slow=1)):
        branches = [some_branch(rng) for _ in range(rng.randint(2, 7))]
        schema = {"type": "object", "anyOf": branches, "unevaluatedProperties": rng.choice([False, False, {"const": 1}])}
        reference = jsonschema.Draft202012Validator(schema)
        for _ in range(40):
            value = {name: rng.choice(VALUES) for name in rng.sample(NAMES, rng.randint(0, 4))}
            assert accepts(schema, value) == reference.is_valid(value), (schema, value)


@pytest.mark.parametrize("seed", range(4))
def test_items(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(cases(full=12, slow=1)):
        schema = {"type": "array", "anyOf": [some_row(rng) for _ in range(rng.randint(2, 6))], "unevaluatedItems": False}
        reference = jsonschema.Draft202012Validator(schema)
        for _ in range(40):
            value = [rng.choice(VALUES) for _ in range(rng.randint(0, 5))]
            assert accepts(schema, value) == reference.is_valid(value), (schema, value)


def test_ten_branches() -> None:
    """More than five were refused."""
    names = [f"n{i}" for i in range(10)]
    schema = {"anyOf": [{"properties": {name: {"const": i}}} for i, name in enumerate(names)], "unevaluatedProperties": False}
    assert accepts(schema, {"n1": 1, "n7": 7, "n9": 9}) and accepts(schema, {})
    assert not accepts(schema, {"n1": 2}) and not accepts(schema, {"n1": 1, "n7": 1}) and not accepts(schema, {"m": 1})
