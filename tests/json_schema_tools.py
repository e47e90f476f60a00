"""What the tests of the JSON Schema front end share: brute-force acceptance, the official suite, random schemas and values."""

from __future__ import annotations

import itertools
import json
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naive import Naive

from cdplugin.compiler import Compiler
from cdplugin.frontends.json_schema import Options, compile_schema, sharing
from cdplugin.ir import GrammarIR
from cdplugin.vocab.vocabulary import Vocabulary

SUITE = Path(__file__).parent / "data" / "json_schema_suite.tar.gz"
NAMES = ["a", "b", "c", "aa", 'q"']
PATTERNS = ["^a", "b$", "^[ab]*$", "a.b", "^.{2}$", "x|y", "^[a-z]+$"]
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
SCALARS = [None, True, False, 0, 1, -1, 2, 3.5, 1.0, 0.1, 10, -2.5, 1e-7, "", "a", "b", "ab", "aab", "xyz", "é", "😀x", 'q"']


class Followed:
    """The engine with the interface of :class:`Naive`, for rules that are made while a text is followed (``uniqueItems``)."""

    def __init__(self, ir: GrammarIR) -> None:
        self._grammar = Compiler(_BYTES).compile_ir(ir)

    def accepts(self, text: bytes) -> bool:
        matcher = self._grammar.matcher()
        return matcher.accept_tokens(text) == len(text) and matcher.is_accepting()


_BYTES = Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)


def grammar(schema: Any, **options: Any) -> Naive | Followed:
    """The brute-force matcher of a schema, or the engine if some rules depend on texts."""
    ir = compile_schema(schema, Options(**options))
    return Followed(ir) if ir.tracked else Naive(ir)


def only_attempt(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile all schemas at the second or last attempt only, as happens to schemas whose alternatives multiply."""
    monkeypatch.setattr(sharing, "_FIRST_ATTEMPT", 10**9)
    monkeypatch.setattr(sharing, "_WORK_PER_BYTE", 0)
    begin = sharing.MergeBudget.begin
    if number > 2:
        monkeypatch.setattr(sharing.MergeBudget, "begin", lambda budget, _: begin(budget, sharing.Attempt.LAST))


def dumps(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def suite_groups(below: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The groups of the official suite (json-schema.org), by the names of their files. ``below``: only those in a folder,
    such as ``draft7/optional/format/``.
    """
    with tarfile.open(SUITE) as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            path = member.name.removeprefix("tests/")
            if path.startswith(below) and path.endswith(".json"):
                stream = archive.extractfile(member)
                assert stream is not None
                for group in json.load(stream):
                    yield path, group


def orders(value: Any) -> Iterator[Any]:
    """The value with the keys of all its objects in every order."""
    if isinstance(value, dict):
        for pairs in itertools.permutations(value.items()):
            for members in itertools.product(*(list(orders(v)) for _, v in pairs)):
                yield dict(zip((k for k, _ in pairs), members, strict=True))
    elif isinstance(value, list):
        for items in itertools.product(*(list(orders(v)) for v in value)):
            yield list(items)
    else:
        yield value


def random_value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.random()
    if depth == 0 or kind < 0.5:
        return rng.choice(SCALARS)
    if kind < 0.72:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {name: random_value(rng, depth - 1) for name in rng.sample(NAMES, rng.randrange(4))}


def mutated(rng: random.Random, value: Any) -> Any:
    """The value with one part replaced."""
    if isinstance(value, list) and value and rng.random() < 0.6:
        i = rng.randrange(len(value))
        return [mutated(rng, v) if i == j else v for j, v in enumerate(value)]
    if isinstance(value, dict) and value and rng.random() < 0.6:
        name = rng.choice(list(value))
        return {k: mutated(rng, v) if k == name else v for k, v in value.items()}
    return random_value(rng, 1)


def random_schema(rng: random.Random, depth: int = 3) -> Any:
    """A schema of enforced keywords. It may be unsatisfiable, or loop."""
    if depth == 0:
        return rng.choice([True, {}, False, {"type": "string"}, {"type": "integer"}, {"type": ["null", "boolean"]}])
    schema: dict[str, Any] = {}

    def below() -> Any:
        return random_schema(rng, depth - 1)

    makers = {
        "type": lambda: rng.choice(TYPES) if rng.random() < 0.5 else rng.sample(TYPES, rng.randint(1, 4)),
        "properties": lambda: {name: below() for name in rng.sample(NAMES, rng.randint(1, 3))},
        "required": lambda: rng.sample(NAMES, rng.randint(0, 2)),
        "additionalProperties": lambda: below() if rng.random() < 0.5 else rng.random() < 0.3,
        "items": below,
        "prefixItems": lambda: [below() for _ in range(rng.randint(1, 2))],
        "minItems": lambda: rng.randrange(3),
        "maxItems": lambda: rng.randrange(4),
        "enum": lambda: [random_value(rng) for _ in range(rng.randint(1, 4))],
        "const": lambda: random_value(rng),
        "anyOf": lambda: [below() for _ in range(rng.randint(1, 3))],
        "allOf": lambda: [below() for _ in range(rng.randint(1, 3))],
        "oneOf": lambda: [below() for _ in range(rng.randint(1, 3))],
        "not": below,
        "if": below,
        "dependentRequired": lambda: {name: rng.sample(NAMES, rng.randint(0, 2)) for name in rng.sample(NAMES, 2)},
        "dependentSchemas": lambda: {name: below() for name in rng.sample(NAMES, rng.randint(1, 2))},
        "minLength": lambda: rng.randrange(3),
        "maxLength": lambda: rng.randrange(4),
        "pattern": lambda: rng.choice(PATTERNS),
        "minimum": lambda: rng.choice([0, 1, -1, 2.5, 0.1, 3, 1e-7]),
        "exclusiveMinimum": lambda: rng.choice([0, 1, -1, 2.5, 0.1, 3, 1e-7]),
        "maximum": lambda: rng.choice([0, 1, -1, 2.5, 0.1, 3, 1e-7]),
        "exclusiveMaximum": lambda: rng.choice([0, 1, -1, 2.5, 0.1, 3, 1e-7]),
        "$ref": lambda: rng.choice(["#/$defs/x", "#/$defs/y", "#"]),
    }
    keywords = [*makers, "properties", "properties", "type"]
    for keyword in rng.sample(keywords, rng.choice([1, 1, 2, 2, 3, 4])):
        schema[keyword] = makers[keyword]()
        if keyword == "if":
            schema.update({k: below() for k in ("then", "else") if rng.random() < 0.7})
    return schema
