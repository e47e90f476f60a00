"""``uniqueItems`` over objects: nothing invalid is accepted, and what is left out is what the documentation says."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import cdplugin as cd

jsonschema = pytest.importorskip("jsonschema")
TOKENS = [*(bytes([b]) for b in range(256)), b'{"', b'":"', b'","', b'"},{"', b'a"},{"', b'","n":"a', b"1},{", b"</s>"]
VOCAB = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=len(TOKENS) - 1)
COMPILER = cd.Compiler(VOCAB)

TEXT, FEW = {"type": "string"}, {"enum": ["x", "y"]}


def array(properties: dict[str, Any], required: list[str], **more: Any) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "array", "items": item, "uniqueItems": True, **more}


SCHEMAS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "one name": (array({"n": TEXT}, ["n"]), {"n"}),
    "two names": (array({"n": TEXT, "v": TEXT}, ["n", "v"]), {"n", "v"}),
    "optional": (array({"n": TEXT, "v": {"type": "integer"}}, []), {"n", "v"}),
    "few values": (array({"k": FEW, "n": TEXT}, ["k"]), {"k", "n"}),
    "few values last": (array({"n": TEXT, "k": FEW}, ["n", "k"], minItems=2), {"k", "n"}),
    "others are not told apart": (array({"n": TEXT, "o": {"type": "array", "items": FEW}}, []), {"n"}),
    "bounds": (array({"n": TEXT}, ["n"], minItems=1, maxItems=2), {"n"}),
    "undeclared": (
        {"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": {"n": TEXT}, "required": ["n"]}},
        {"n"},
    ),
    "texts or objects": (
        {"type": "array", "uniqueItems": True, "items": {"anyOf": [TEXT, array({"n": TEXT}, ["n"])["items"]]}},
        {"n"},
    ),
}


def random_value(rng: random.Random, schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return random_value(rng, rng.choice(schema["anyOf"]))
    kind = schema["type"]
    if kind == "string":
        return rng.choice(["a", "b", "é"])
    if kind == "integer":
        return rng.choice([1, 2])
    if kind == "array":
        return [random_value(rng, schema["items"]) for _ in range(rng.randint(0, 3))]
    names = [name for name in schema["properties"] if name in schema.get("required", ()) or rng.random() < 0.5]
    rng.shuffle(names)
    return {name: random_value(rng, schema["properties"][name]) for name in names}


def takes(grammar: cd.Grammar, text: bytes) -> bool:
    matcher = grammar.matcher()
    return matcher.accept_tokens(list(text)) == len(text) and matcher.is_accepting()


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_distinct_objects(name: str, order: str) -> None:
    """Accepted is what is valid, but for objects that differ only in members that are not told apart; or, where a name is not
    the last of them in the text, for one whose name is that of an object to which it could have become equal.
    """
    schema, told = SCHEMAS[name]
    spec = cd.JsonSchema(schema, property_order=order, whitespace="compact")
    if order == "schema" and "n" not in schema["items"].get("required", ["n"]):
        with pytest.raises(cd.GrammarError, match="uniqueItems"):
            COMPILER.compile(spec)
        return
    grammar = COMPILER.compile(spec)
    validator = jsonschema.Draft202012Validator(schema)
    rng = random.Random(name)
    declared = list(schema["items"].get("properties", {"n": 0}))
    counts = {True: 0, False: 0}
    for _ in range(700):
        data = random_value(rng, schema)
        if order == "schema":
            data = [{n: one[n] for n in declared if n in one} if isinstance(one, dict) else one for one in data]
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=rng.random() < 0.5).encode()
        accepted, valid = takes(grammar, text), validator.is_valid(data)
        counts[accepted] += 1
        if accepted:
            assert valid, text
            continue
        objects = [{n: one[n] for n in told if n in one} for one in data if isinstance(one, dict)]
        differ = all(a != b for i, a in enumerate(objects) for b in objects[:i])
        few_come_last = any(list(one)[-1:] == ["k"] for one in data if isinstance(one, dict))
        assert not valid or not differ or few_come_last, text
    assert min(counts.values()) > 20


def test_numbers_are_equal_by_value_and_texts_however_they_are_escaped() -> None:
    schema = array({"n": TEXT, "v": {"type": "number"}}, ["n", "v"])
    grammar = COMPILER.compile(cd.JsonSchema(schema, property_order="any", whitespace="flexible"))
    assert takes(grammar, b'[{"n": "a", "v": 1}, {"v": 2, "n": "a"}]')
    assert not takes(grammar, b'[{"n": "a", "v": 1}, {"v": 1.0, "n": "a"}]')
    assert not takes(grammar, b'[{"n": "a", "v": 1}, {"n" : "\\u0061", "v":1e0}]')
    assert takes(grammar, b'[{"n": "a", "v": 1}, {"n" : "\\u0062", "v":1e0}]')


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_what_is_accepted_and_lead_to_an_end(name: str, order: str) -> None:
    """Every token of a mask is accepted, no other is, and random walks by masks never get stuck."""
    schema, _ = SCHEMAS[name]
    if order == "schema" and "n" not in schema["items"].get("required", ["n"]):
        return
    grammar = COMPILER.compile(cd.JsonSchema(schema, property_order=order, whitespace="compact"))
    validator = jsonschema.Draft202012Validator(schema)
    rng = random.Random(name)
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for _ in range(6):
        matcher = grammar.matcher()
        for step in range(50):
            matcher.fill_next_token_bitmask(row)
            mask = np.unpackbits(row.view(np.uint8)[0], bitorder="little")[: VOCAB.size].astype(bool)
            allowed = [int(t) for t in np.flatnonzero(mask)]
            assert allowed
            if step % 7 == 0:
                assert allowed == [t for t in range(VOCAB.size) if matcher.validate_tokens([t])]
            telling = [t for t in allowed if t >= 256 or TOKENS[t] in b'"abx,{}nvk:']
            assert matcher.accept_token(rng.choice(telling if telling and rng.random() < 0.9 else allowed))
            if matcher.is_terminated():
                break
        text = b"".join(TOKENS[t] for t in [*matcher.tokens, *matcher.shortest_completion()] if t < VOCAB.size - 1)
        validator.validate(json.loads(text))


def test_what_no_member_tells_apart_is_refused() -> None:
    for items in ({"type": "object"}, {"type": ["object", "array"]}, array({"k": FEW}, ["k"])["items"]):
        with pytest.raises(cd.GrammarError, match="keyword 'uniqueItems' is not supported yet - at /uniqueItems"):
            COMPILER.compile(cd.JsonSchema({"type": "array", "uniqueItems": True, "items": items}))


def test_counts_of_members() -> None:
    item = array({"n": TEXT, "v": TEXT}, ["n"])["items"]
    grammar = COMPILER.compile(cd.JsonSchema({"type": "array", "uniqueItems": True, "items": {**item, "minProperties": 1}}))
    assert takes(grammar, b'[{"n": "a"}, {"n": "b"}]') and not takes(grammar, b'[{"n": "a"}, {"n": "a"}]')
    with pytest.raises(cd.GrammarError, match="'uniqueItems' is not supported yet"):
        COMPILER.compile(cd.JsonSchema({"type": "array", "uniqueItems": True, "items": {**item, "minProperties": 2}}))
