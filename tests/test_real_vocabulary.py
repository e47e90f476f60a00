"""JSON schemas over Llama 3's vocabulary: the whole mask equals stepping every one of its 128,256 tokens.

Stepping follows a token byte by byte, and uses no slices, bases, deltas or saturation.
"""

from __future__ import annotations

import json
import random
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from engine_tools import SLOW
from tokenizers_data import llama3

import cdplugin as cd
from cdplugin.bits import clear_bits
from cdplugin.kernels import entry as kernels
from cdplugin.queries.successors import successors

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SLOW, reason="128,256 tokens at each place are too many for interpreted or checked kernels"),
]

CASES: list[tuple[Any, Any]] = [  # a schema, and an instance of it in the order of its properties
    ({"type": "object"}, {"a": [1, {"b": None}], "ü🙂": "x\\y\n"}),
    ({"type": "string"}, 'a "quoted" line\n and é日本'),
    ({"type": "string", "maxLength": 12}, "hello world!"),
    ({"type": "string", "minLength": 3, "maxLength": 300}, "The quick brown fox jumps over the lazy dog."),
    ({"type": "string", "pattern": "^[A-Z][a-z]+( [a-z]+){0,6}$"}, "The quick brown fox"),
    ({"type": "string", "pattern": "[0-9]{3}-[a-z]+", "maxLength": 40}, "order 123-abc and more"),
    ({"type": "string", "pattern": "^(\\S+\\s+){0,9}\\S+$", "maxLength": 2000}, "some words in a row, ten at most"),
    ({"type": "integer"}, -1234),
    ({"type": "integer", "minimum": -17, "maximum": 123456}, 98765),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 2.5}, 1.375),
    ({"type": ["null", "boolean"]}, None),
    ({"enum": ["red", "green", "gray", 17, 1.5, None, {"a": [1]}, "é"]}, {"a": [1]}),
    ({"const": {"kind": "point", "at": [0, 0]}}, {"kind": "point", "at": [0, 0]}),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 5}, [1, 22, 333]),
    (
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": {"type": "boolean"}},
        ["x", -1.5e3, True],
    ),
    (
        {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"], "type": "object"},
        {"a": "1", "b": 2},
    ),
    (
        {"type": "object", "properties": {"name": {"type": "string"}, "name_2": {"const": 1}}, "additionalProperties": False},
        {"name": "n", "name_2": 1},
    ),
    (
        {"type": "object", "properties": {"id": {"type": "integer"}}, "additionalProperties": {"type": ["string", "null"]}},
        {"id": 7, "identity": "x", "other": None},
    ),
    (
        {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 5}, {"type": "array", "items": {"const": "a"}}]},
        ["a", "a"],
    ),
    (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"minimum": 3}}},
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            ]
        },
        {"a": 33, "z": 0},
    ),
    (
        {
            "$defs": {
                "tree": {
                    "type": "object",
                    "properties": {"value": {"type": "integer"}, "kids": {"$ref": "#/$defs/trees"}},
                    "required": ["value"],
                    "additionalProperties": False,
                },
                "trees": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "$ref": "#/$defs/tree",
        },
        {"value": 1, "kids": [{"value": 2, "kids": []}, {"value": 3}]},
    ),
    (
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 80},
                "email": {"type": "string", "pattern": "^[a-z0-9.]+@[a-z0-9]+\\.[a-z]{2,6}$"},
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "tags": {"type": "array", "items": {"enum": ["new", "newer", "old"]}, "maxItems": 3},
            },
            "required": ["name", "email"],
            "additionalProperties": False,
        },
        {"name": "Ada Lovelace", "email": "ada@example.org", "age": 36, "tags": ["new", "old"]},
    ),
    (
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}},
        [[0, 1], [2.5, -3]],
    ),
    (
        {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "string"}}},
        {"a": {"b": "c"}},
    ),
    ({"type": ["string", "integer", "object"], "enum": ["a", 5, "abc", {}]}, "abc"),
    (True, [{"a": 1.0e10}, "b", False]),
]


@lru_cache(maxsize=1)
def vocabulary() -> cd.Vocabulary:
    return cd.Vocabulary.from_tiktoken(llama3())


def stepped(matcher: cd.Matcher) -> np.ndarray:
    """The mask as booleans, each token tried on its own."""
    vocab = matcher.grammar.vocab
    arena, cursor = matcher._place()
    call = arena.call
    allowed = np.zeros(vocab.size, bool)
    for token in np.flatnonzero(np.diff(vocab.token_offsets)).tolist():
        allowed[token] = call(kernels.OP_ACCEPT, cursor, token, 1) != 0
    for token in matcher.stop_token_ids:
        allowed[token] = matcher.validate_tokens([token]) == 1
    return allowed


def compare(matcher: cd.Matcher) -> np.ndarray:
    vocab = matcher.grammar.vocab
    row = np.full((1, (vocab.size + 31) // 32), -1, np.int32)
    matcher.fill_next_token_bitmask(row)
    mask = np.unpackbits(row.view(np.uint8), bitorder="little")[: vocab.size].astype(bool)
    wrong = np.flatnonzero(mask != stepped(matcher)).tolist()
    text = vocab.decode(matcher.tokens)
    assert not wrong, f"after {text!r}: {[(vocab.tokens[t] or t, bool(mask[t])) for t in wrong[:8]]}"
    return np.flatnonzero(mask)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_masks_equal_stepping_every_token(number: int) -> None:
    """At three places inside an instance and at three along a walk through the masks, with a fresh matcher for each half."""
    schema, instance = CASES[number]
    vocab, rng = vocabulary(), random.Random(number)
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(schema))
    assert vocab.encode is not None
    ids = vocab.encode(json.dumps(instance, ensure_ascii=False))
    matcher = grammar.matcher()
    done = 0
    for at in [*sorted(rng.sample(range(len(ids) + 1), min(3, len(ids) + 1))), len(ids)]:
        followed = matcher.accept_tokens(ids[done:at])
        assert followed == at - done, matcher.explain(ids[done + followed])
        if done < at < len(ids) or done == 0:
            compare(matcher)
        done = at
    assert matcher.is_accepting()
    matcher.reset()
    for _ in range(3):
        allowed = [t for t in compare(matcher).tolist() if t not in vocab.eos_token_ids]
        for _ in range(rng.randint(1, 3)):
            if allowed:
                long = [t for t in rng.sample(allowed, min(40, len(allowed))) if len(vocab.tokens[t] or b"") > 3]
                matcher.accept_token(rng.choice(long or allowed))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_where_every_token_leads(number: int) -> None:
    """The cursors after the tokens of a mask (whole subtrees of the trie at once) are those after each token on its own."""
    schema, instance = CASES[number]
    vocab = vocabulary()
    matcher = cd.Compiler(vocab).compile(cd.JsonSchema(schema)).matcher()
    assert vocab.encode is not None
    ids = vocab.encode(json.dumps(instance, ensure_ascii=False))
    row = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    inside = len(ids) // 2
    for place, token in enumerate(ids):
        if place in (0, 1, inside, len(ids) - 1):
            matcher.fill_next_token_bitmask(row)
            allowed = row[0].copy()
            clear_bits(allowed, vocab.eos_token_ids)
            arena, cursor = matcher._place()
            with arena.lock:
                cursors, numbers = successors(arena, cursor, allowed)
                for other in np.flatnonzero(np.unpackbits(allowed.view(np.uint8), bitorder="little")).tolist():
                    assert cursors[numbers[other]] == arena.call(kernels.OP_ACCEPT, cursor, other, 1), vocab.tokens[other]
            assert ((numbers >= 0) == np.unpackbits(allowed.view(np.uint8), bitorder="little").astype(bool)).all()
        assert matcher.accept_token(token)


def test_masks_of_a_text_that_grows() -> None:
    """Every place of one text with a length, a pattern and counts, near and at their ends."""
    vocab = vocabulary()
    grammar = cd.Compiler(vocab).compile(
        cd.JsonSchema({"type": "string", "pattern": "^([a-z]+, ){0,3}[a-z]+$", "maxLength": 30})
    )
    assert vocab.encode is not None
    matcher = grammar.matcher()
    for token in vocab.encode('"one, two, three, fourteenandmo"'):
        compare(matcher)
        assert matcher.accept_token(token)
    compare(matcher)
    assert matcher.is_accepting()
