"""Tables that grow one item at a time: a kernel that runs out of room anywhere starts again and finds the same masks.

``GROW`` may come back from every call that allocates. If a kernel takes that status for a result, or for another status, it
shows here as another mask, or as a limit that nothing crossed.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest
from engine_tools import cases, followed, mask, seeds
from naive import random_grammar

import cdplugin as cd
from cdplugin.compiler import Compiler
from cdplugin.engine import arena, owned_tables
from cdplugin.ir import GrammarIR
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits

pytestmark = pytest.mark.kernel

TEXTS = [bytes([b]) for b in range(256)]
TEXTS += [b'",', b'":', b' "', b"ab", b"xy", b"xyx", b"abcdefgh", b"words here", b"123", b"}}", b"{}"]
VOCAB = cd.Vocabulary.from_bytes([*TEXTS, b"</s>"], eos_token_ids=len(TEXTS))
SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "number"}}, "required": ["b"]},
    {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "minProperties": 1},
    {"type": "array", "items": {"anyOf": [{"enum": ["ab", "abc", 1]}, {"type": "string", "pattern": "^(\\w+ ){0,5}\\w+$"}]}},
    {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 40},
]


def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on arenas start with next to nothing and grow by just what is asked for."""
    small = {table: 16 if table in owned_tables.HASHED else 1 for table in arena.INITIAL}
    monkeypatch.setattr(arena, "INITIAL", small)
    monkeypatch.setattr(owned_tables, "_GROWTH_SMALL", 1.0)
    monkeypatch.setattr(owned_tables, "_GROWTH_LARGE", 1.0)


def masks(make: Any, limits: Limits, seed: int) -> list[bytes]:
    """The masks along a few random walks through the grammar that ``make(compiler)`` compiles."""
    rng = random.Random(seed)
    try:
        grammar = make(Compiler(VOCAB, limits))
    except cd.GrammarError as error:
        return [str(error).encode()]
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    out = []
    for _ in range(cases(2, 1, 2)):
        matcher = grammar.matcher()
        for _ in range(cases(8, 5, 8)):
            matcher.fill_next_token_bitmask(row)
            out.append(row.tobytes())
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[: VOCAB.size]).tolist()
            if not allowed or not matcher.accept_token(rng.choice(allowed)):
                break
    return out


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_schemas(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(compiler: Compiler) -> cd.Grammar:
        return compiler.compile(cd.JsonSchema(SCHEMAS[number], property_order="any" if number % 2 else "schema"))

    roomy = masks(make, Limits(max_rules=400_000 + number), number)
    tight(monkeypatch)
    assert masks(make, Limits(max_rules=500_000 + number), number) == roomy  # other limits: no template in common


@pytest.mark.parametrize("seed", seeds(25, 2, 6))
def test_random_grammars(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def ir() -> GrammarIR:
        return random_grammar(random.Random(seed))

    roomy = masks(lambda compiler: compiler.compile_ir(ir()), Limits(max_rules=600_000), seed)
    tight(monkeypatch)
    assert masks(lambda compiler: compiler.compile_ir(ir()), Limits(max_rules=700_000 + seed), seed) == roomy


def test_lists_below_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens of two lexemes fill a list below the ends of the first one, in the middle of a walk."""
    words = [bytes(text) for size in (1, 2, 3) for text in product(b"abcdef", repeat=size)]
    tokens = [*(bytes([b]) for b in range(256)), *(b"-" + word for word in words), *(b"+" + word for word in words)]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    spec = cd.Lark('start: "-" W | "+" V\nW: /([a-e]|f[!a])*x?/\nV: /[b-f]*!/')
    tight(monkeypatch)
    monkeypatch.setattr(owned_tables, "FOR_WALKS", {layout.TOKEN_LISTS: 100})
    monkeypatch.setattr(owned_tables, "_LISTED", 0)
    matcher = Compiler(vocab, Limits(max_rules=800_000)).compile(spec).matcher()
    assert mask(matcher) == followed(matcher)


@pytest.mark.parametrize("words", ["/[a-z]+/", "(/a[a-z]*/ | /b[a-z]+/)"])
def test_a_lexeme_that_ended_before_the_token(words: str) -> None:
    """Below that end, which is the root, most of the trie is allowed: a list that other ends add to never becomes a bitmask."""
    texts = [bytes(text) for size in range(2, 12) for text in product(b"ab", repeat=size)]
    tokens = [*(bytes([b]) for b in range(256)), *texts, *(b"7" + text for text in texts[:40])]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    matcher = Compiler(vocab).compile(cd.Lark(f"start: (NUMBER {words})+\nNUMBER: /[0-9]+/")).matcher()
    assert matcher.accept_token(tokens.index(b"7"))
    allowed = mask(matcher)
    assert allowed == followed(matcher)
    assert len(allowed) > 2_000
