"""Many members in any order: masks beside those of a grammar with a rule for each name; and what a member costs."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import cdplugin as cd
from cdplugin.frontends.json_schema import any_order

TEXTS = [
    b'":',
    b'": ',
    b',"',
    b', "',
    b'{"',
    b'"a',
    b'":1',
    b'1,"',
    b"1}",
    b'":1,"',
    b"name",
    b'name_1":',
    b'ab":',
    b'":"',
    b'true,"a',
    b'"}',
    b"\\u00",
]
TEXTS += ["é".encode(), b'{"name_', b'":2,"name_1', b'},"', b"12", b'b":true}']
TEXTS += [
    b'":1,"name_2":1,"name_3":1,"name_4":1',
    b'_5":1,"name_6":1,"name_7":1}',
    b'1,"name_8":1,"name_8"',
    b'":3,"aa":4,"ab":5}',
    b"aa",
]
TOKENS = [*(bytes([b]) for b in range(256)), *TEXTS, b"</s>"]
VOCAB = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=len(TOKENS) - 1)

INTEGER, BOOLEAN = {"type": "integer"}, {"type": "boolean"}
SCHEMAS: dict[str, dict[str, Any]] = {
    "required": {"properties": {f"name_{i}": INTEGER for i in range(12)}, "required": [f"name_{i}" for i in range(12)]},
    "that begin alike": {
        "properties": dict.fromkeys(["", "a", "aa", "aaa", "aaaa", "ab", "aab", "é", "éa", "éé", 'b"', 'b""', "b"], INTEGER),
        "required": ["aa", "ab", "é"],
    },
    "some required": {"properties": {"a": INTEGER, "ab": INTEGER, "b": INTEGER, "": INTEGER}, "required": ["ab", "b"]},
    "of two kinds": {"properties": {"a": INTEGER, "ab": BOOLEAN, "b": BOOLEAN, "aé": INTEGER}, "required": ["ab", "a"]},
    "at least": {"properties": {"a": INTEGER, "ab": INTEGER, "b": BOOLEAN}, "minProperties": 2},
    "at most": {"properties": {"a": INTEGER, "ab": INTEGER, "b": BOOLEAN, "c": INTEGER}, "maxProperties": 2, "required": ["c"]},
    "undeclared": {
        "properties": {"a": INTEGER, "ab": INTEGER, "b": BOOLEAN},
        "required": ["b"],
        "additionalProperties": {"const": 12},
    },
    "one name": {"properties": {"aé\"": INTEGER}, "required": ["aé\""]},
    "objects": {
        "properties": {n: {"type": "object", "properties": {"a": INTEGER}, "additionalProperties": False} for n in "abc"}
    },
}  # fmt: skip


def grammar_of(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fewest: int, whitespace: str) -> cd.Grammar:
    monkeypatch.setattr(any_order, "FEWEST", fewest)
    monkeypatch.setattr(any_order, "_PER_GROUP", 1)
    schema = {"type": "object", "additionalProperties": False, **schema}
    return cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any", whitespace=whitespace))


def mask_of(matcher: cd.Matcher) -> np.ndarray:
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    matcher.fill_next_token_bitmask(row)
    return np.unpackbits(row.view(np.uint8)[0], bitorder="little")[: VOCAB.size].astype(bool)


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_those_of_a_rule_for_each_name(name: str, whitespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grouped = grammar_of(SCHEMAS[name], monkeypatch, 1, whitespace)
    single = grammar_of(SCHEMAS[name], monkeypatch, 1_000, whitespace)
    rng = random.Random(name)
    for _ in range(12):
        ours, other = grouped.matcher(), single.matcher()
        for _ in range(60):
            mask = mask_of(ours)
            assert np.array_equal(mask, mask_of(other)), b"".join(TOKENS[t] for t in ours.tokens)
            allowed = [int(t) for t in np.flatnonzero(mask)]
            telling = [t for t in allowed if TOKENS[t] not in (b" ", b"\n", b"\r", b"\t") and not TOKENS[t].isdigit()]
            token = rng.choice(telling if telling and rng.random() < 0.95 else allowed)
            assert ours.accept_token(token) and other.accept_token(token)
            if ours.is_terminated():
                break
        ending = ours.shortest_completion()
        assert other.accept_tokens(ending) == len(ending) and (other.is_accepting() or other.is_terminated())


@pytest.mark.parametrize("name", SCHEMAS)
def test_texts_are_judged_as_by_jsonschema(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    grammar = grammar_of(SCHEMAS[name], monkeypatch, 1, "compact")
    schema = {"type": "object", "additionalProperties": False, **SCHEMAS[name]}
    validator = jsonschema.Draft202012Validator(schema)
    rng = random.Random(name)
    declared = list(SCHEMAS[name]["properties"])
    seen = set()
    for _ in range(300):
        names = rng.sample([*declared, "other"], rng.randint(0, min(len(declared) + 1, 12)))
        if rng.random() < 0.5:
            names = [*names, *(one for one in schema.get("required", ()) if one not in names)]
        value = {one: rng.choice([1, 12, True, {}, {"a": 1}]) for one in names}
        if rng.random() < 0.7:
            kinds = {"integer": 3, "boolean": True, "object": {"a": 2}}
            value = {n: kinds[SCHEMAS[name]["properties"][n]["type"]] if n in declared else 12 for n in names}
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=rng.random() < 0.5).encode()
        matcher = grammar.matcher()
        accepted = matcher.accept_tokens(list(text)) == len(text) and matcher.is_accepting()
        assert accepted == validator.is_valid(value), text
        seen.add(accepted)
    assert len(seen) == 2


def test_names_come_once_and_the_shortest_ending_has_all() -> None:
    names = [f"name_{i}" for i in range(60)]
    schema = {"type": "object", "properties": dict.fromkeys(names, INTEGER), "required": names, "additionalProperties": False}
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any", whitespace="compact")).matcher()
    begun = b'{"name_7":1,"name_59":2,'
    assert matcher.accept_tokens(list(begun)) == len(begun)
    assert matcher.fork().accept_tokens(list(b'"name_7"')) == len(b'"name_')
    text = b"".join(TOKENS[t] for t in [*matcher.tokens, *matcher.shortest_completion()] if t != len(TOKENS) - 1)
    assert sorted(json.loads(text)) == sorted(names)


@pytest.mark.parametrize("n", [40, 80])
@pytest.mark.parametrize("begun", [b"", b'{"further":[1],"inner":{"name_3":12,"more":[{}],'])
def test_an_ending_has_all_names_of_an_object_inside_others(begun: bytes, n: int) -> None:
    """What is left of an inner object is estimated by all names that are missing, or the search looks everywhere else first."""
    names = [f"name_{i}" for i in range(n)]
    schema: object = {"type": "object", "properties": dict.fromkeys(names, INTEGER), "required": names}
    for _ in range(2):
        schema = {"type": "object", "properties": {"inner": schema, "other": {"type": "boolean"}}, "required": ["inner"]}
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any"))
    matcher = grammar.matcher()
    for byte in begun:
        mask_of(matcher)
        assert matcher.accept_token(byte)
    text = b"".join(TOKENS[t] for t in [*matcher.tokens, *matcher.shortest_completion()] if t != len(TOKENS) - 1)
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    validator.validate(json.loads(text))


def test_names_that_are_left_are_what_was_not_written() -> None:
    """Every byte that may come next, at each place of names written in any order, of a hundred that share beginnings."""
    rng = random.Random(5)
    names = sorted({"".join(rng.choice('abé"') for _ in range(rng.randint(0, 7))) for _ in range(110)})
    rng.shuffle(names)
    schema = {"type": "object", "properties": dict.fromkeys(names, INTEGER), "required": names, "additionalProperties": False}
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any", whitespace="compact")).matcher()
    left = {spelt for name in names for spelt in (json.dumps(name).encode(), json.dumps(name, ensure_ascii=False).encode())}
    matcher.accept_token(ord("{"))
    for name in names:
        text = json.dumps(name, ensure_ascii=rng.random() < 0.5).encode()
        for i, byte in enumerate(text):
            allowed = set(np.flatnonzero(mask_of(matcher)[:256]).tolist())
            assert allowed == {one[i] for one in left if one.startswith(text[:i]) and len(one) > i}
            assert matcher.accept_token(byte)
        left -= {json.dumps(name).encode(), json.dumps(name, ensure_ascii=False).encode()}
        following = b":1," if left else b":1}"
        assert matcher.accept_tokens(list(following)) == len(following)
    assert matcher.is_accepting()


def test_rollback_gives_the_names_back() -> None:
    names = [f"name_{i}" for i in range(45)]
    schema = {"type": "object", "properties": dict.fromkeys(names, INTEGER), "required": names}
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any", whitespace="compact")).matcher()
    assert matcher.accept_tokens(list(b'{"name_7":1,"name_8')) == 19
    before = mask_of(matcher)
    assert matcher.accept_tokens(list(b'":1,"name_')) == 10
    matcher.rollback(10)
    assert np.array_equal(mask_of(matcher), before)
    assert matcher.accept_tokens(list(b'":1,"name_7')) == 11 and matcher.accept_token(ord('"')) is False


def test_what_is_kept_for_many_kinds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty kinds of ten names: almost no two places of a text have as many names left of each kind."""
    found: list[any_order.ManyMembers] = []
    start = any_order.ManyMembers.start
    monkeypatch.setattr(any_order.ManyMembers, "start", lambda self: (found.append(self), start(self))[1])
    names = [f"name_{i:03}" for i in range(500)]
    values = [{"const": i} for i in range(50)]
    properties = {name: values[i % 50] for i, name in enumerate(names)}
    schema = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any", whitespace="compact"))
    matcher = grammar.matcher()
    random.Random(2).shuffle(names)
    text = "{" + ",".join(f'"{name}":{properties[name]["const"]}' for name in names[:60]) + ","
    assert matcher.accept_tokens(list(text.encode())) == len(text)
    assert len(found) == 1 and 0 < 50 * len(found[0]._rests) <= any_order._MOST_KEPT
    assert matcher.fork().accept_tokens(list(f'"{names[60]}":'.encode())) == len(names[60]) + 3
    assert matcher.fork().accept_tokens(list(f'"{names[59]}":'.encode())) < len(names[59]) + 2


def work_of_a_member(n: int) -> float:
    """Units of work that a member takes, and the declared order beside it."""
    names = [f"name_{i * 7919 % 100_003:05}" for i in range(n)]
    schema = {"type": "object", "properties": dict.fromkeys(names, INTEGER), "required": names, "additionalProperties": False}
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any", whitespace="compact"))
    matcher = grammar.matcher()
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    random.Random(1).shuffle(names)
    text = b"{" + b"".join(f'"{name}":1,'.encode() for name in names[:40])
    before = grammar.counters()["work"]
    for byte in text:
        matcher.fill_next_token_bitmask(row)
        assert matcher.accept_token(byte)
    return (grammar.counters()["work"] - before) / 40


def test_work_does_not_grow_with_the_number_of_names() -> None:
    few, many = work_of_a_member(100), work_of_a_member(3_000)
    assert many < 2 * few


def test_where_names_are_all_different_they_are_rules() -> None:
    different = [any_order.Entry(f"n{i}", i, ((i, 0),), True) for i in range(100)]
    alike = [any_order.Entry(f"n{i}", i, ((1, 0),), True) for i in range(100)]
    assert any_order.are_many(alike, []) and not any_order.are_many(different, [])
    assert not any_order.are_many(alike, [any_order.Undeclared(1, 2, marks=1, group=0)])


def test_infilling_refuses_them_by_name() -> None:
    names = [f"name_{i}" for i in range(45)]
    schema = {"type": "object", "properties": dict.fromkeys(names, INTEGER), "required": names, "additionalProperties": False}
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any", whitespace="compact"))
    with pytest.raises(cd.UnsupportedError, match="fewer than 40 names where they come in any order"):
        cd.Infill(grammar).new(["{", cd.GAP, "}"])
