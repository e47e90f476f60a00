"""Vocabularies in which no token has a comma, a colon, a quote or a bracket: a schema keeps the values that they can write.

The late rules of objects' members and arrays' items once assumed that these signs can be written. Masks led into dead ends,
or raised ``KeyError``.
"""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest

import cdplugin as cd

_NUMBERED = {f"p{i}": {"type": "integer"} for i in range(30)}
_ANY_ORDER = {"property_order": "any"}
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "array", "items": {"enum": ["a", "b", 1, 2]}, "uniqueItems": True}, {}),
    ({"type": "array", "items": {"enum": ["a", "b", 1, 2]}, "uniqueItems": True, "minItems": 2}, {}),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, {}),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2, "maxItems": 3}, {}),
    ({"type": "array", "items": {"type": ["integer", "array"]}, "uniqueItems": True}, {}),
    ({"type": "array", "contains": {"type": "integer"}}, {}),
    ({"type": "array", "contains": {"type": "integer"}, "minContains": 2, "maxContains": 3}, {}),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "minProperties": 1, "maxProperties": 2}, {}),
    ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a", "b"]}, _ANY_ORDER),
    ({"type": "object", "properties": _NUMBERED}, _ANY_ORDER),
    ({"type": "object", "properties": _NUMBERED, "required": ["p1", "p2"]}, _ANY_ORDER),
    ({"type": "object", "minProperties": 2}, {"unique_names": True}),
    ({"type": "object"}, {"unique_names": True}),
]
_INSTANCES = [[], ["a"], [1], [1, 2], ["a", 1], ["a", "b", 2], [[]], [[1], 1], [1, 1], {}, {"a": 1}, {"a": 1, "b": 2}]
_INSTANCES += [{"p1": 1}, {"p1": 1, "p2": 2}, {"b": "a"}, {"p1": 1, "p2": 2, "a": []}]


@pytest.mark.parametrize("absent", [*'{}[],:"1', ",:", '",', "]}"])
def test_what_cannot_be_written_is_left_out(absent: str) -> None:
    tokens = [bytes([b]) for b in range(256) if chr(b) not in absent]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    ids = {token: i for i, token in enumerate(tokens)}
    compiler = cd.Compiler(vocab)
    for schema, options in CASES:
        validator = jsonschema.Draft202012Validator(schema)
        texts = [(one, json.dumps(one).encode()) for one in _INSTANCES]
        written = [(one, text) for one, text in texts if not set(absent) & set(text.decode())]
        legal = [text for one, text in written if validator.is_valid(one)]
        try:
            grammar = compiler.compile(cd.JsonSchema(schema, **options))
        except cd.GrammarError:
            assert not legal, (schema, legal)
            continue
        for one, text in written:
            matcher = grammar.matcher()
            whole = matcher.accept_tokens(ids[bytes([b])] for b in text) == len(text) and matcher.is_accepting()
            assert whole == validator.is_valid(one), (schema, text)
        for seed in range(2):
            _walk(grammar, random.Random(seed), validator)


def _walk(grammar: cd.Grammar, rng: random.Random, validator: Any) -> None:
    matcher, row = grammar.matcher(), np.zeros((1, (grammar.vocab.size + 31) // 32), np.int32)
    (end,) = matcher.stop_token_ids
    for _ in range(12):
        matcher.fill_next_token_bitmask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        assert allowed, grammar.vocab.decode(matcher.tokens)
        going_on = [token for token in allowed if token != end]
        if not going_on:
            break
        signs = [token for token in going_on if grammar.vocab.tokens[token] in (*(bytes([b]) for b in b'{}[],:"ab12'),)]
        assert matcher.accept_token(rng.choice(signs or going_on))
    ending = matcher.shortest_completion()
    assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting()
    assert validator.is_valid(json.loads(grammar.vocab.decode(matcher.tokens)))
