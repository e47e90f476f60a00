"""Masks that are written often are kept as rows: they never change, and an arena keeps few of them."""

from __future__ import annotations

import itertools
import random
import string

import numpy as np
import pytest
from engine_tools import DISABLED

import cdplugin as cd
from cdplugin.kernels.masks import masks
from cdplugin.kernels.store import layout


@pytest.fixture(scope="module")
def vocab() -> cd.Vocabulary:
    words = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=3)]
    joints = [
        '":',
        '", "',
        '"}',
        "12",
        "\\u",
        "\\n",
        *("\\" + a + b for a in "nt" for b in words[::200]),
        *(f"{w}," for w in words[::50]),
        *(f'{w}"' for w in words[::60]),
    ]
    tokens = [bytes([b]) for b in range(256)] + [t.encode() for t in [*words, *joints]]
    return cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))


UNIQUE = {"type": "array", "items": {"type": "string", "maxLength": 9}, "uniqueItems": True, "minItems": 2}
OBJECT = {"type": "object", "properties": {"ab": {"type": "string"}, "cd": UNIQUE, "ef": {"type": "number"}}}


@pytest.mark.kernel
@pytest.mark.skipif(DISABLED, reason="thousands of masks, interpreted")
@pytest.mark.parametrize(
    "spec",
    [
        cd.JsonSchema(OBJECT),
        cd.JsonSchema(UNIQUE),
        cd.Lark('start: (A | B ",")+\nA: /[a-z]{1,30}/\nB: "if"\n%ignore / +/'),
        cd.Regex(r"(\w{1,8}[,;])*"),
    ],
    ids=["object", "unique", "lark", "regex"],
)
def test_masks_that_are_written_often(vocab: cd.Vocabulary, spec: cd.Spec) -> None:
    rng = random.Random(4)
    grammar, alone = cd.Compiler(vocab).compile(spec), cd.Compiler(vocab).compile_ir(spec.rules(cd.Limits()))
    bits = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    places: list[tuple[cd.Matcher, bytes]] = []
    for _ in range(12):
        matcher = grammar.matcher()
        for _ in range(12):
            once = alone.matcher()
            once.accept_tokens(matcher.tokens)
            once.fill_next_token_bitmask(bits, 0)
            places.append((matcher.fork(), bits.tobytes()))
            allowed = np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little")).tolist()
            if not matcher.accept_token(rng.choice(allowed)) or matcher.is_terminated():
                break
    for _ in range(2 * masks._OFTEN):
        rng.shuffle(places)
        for matcher, expected in places:
            matcher.fill_next_token_bitmask(bits, 0)
            assert bits.tobytes() == expected
    kept = grammar._arena.header[layout.N_MASK_ROWS]
    assert kept <= masks._MOST_ROWS and (kept > 0 or not isinstance(spec, cd.JsonSchema))
