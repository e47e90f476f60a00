"""Long infilling sessions in which slots, gaps and fixed tokens stand in any order, over grammars that people use.

No model of such a grammar exists to compare with, so the tests check what every session promises: a legal text with holes
is completable; a token of a mask can be set, and one that is not in it cannot (if the mask counts none as undecided);
changes can be undone; and what :meth:`InfillSession.complete` returns is legal. What a session does not find within its
limits is not an error.
"""

from __future__ import annotations

import contextlib
import functools
import random
from typing import Any

import numpy as np
import pytest
from engine_tools import ALL_BYTES
from fuzz.turns import seeds

import cdplugin as cd

WORDS = [
    b"def ",
    b"    ",
    b"return ",
    b"):\n",
    b" = ",
    b"int ",
    b"if",
    b" (",
    b";\n",
    b"SELECT",
    b" FROM ",
    b'": ',
    b'"}',
    b", ",
    b"#x\n",
]
TOKENS = [*ALL_BYTES, *WORDS, b"</s>"]
EOS, HOLE = len(TOKENS) - 1, len(TOKENS)
COMMENTS = cd.Lark('start: (A|B|K)+\nA: "a"\nB: /b+/\nK: "key"\n%ignore /[ \\n]+/\n%ignore /#[^\\n]*\\n/')
STATEMENTS = cd.Lark(r"""
start: s*
s: "if" N "{" s* "}" | N "=" e ";" | "return" e? ";"
e: e "+" e | N | NUM | STR
N: /[a-z_]\w*/
NUM: /[0-9]+/
STR: /"([^"\\\n]|\\.)*"/
%ignore /\s+/
%ignore /\/\/[^\n]*/
""")
ITEMS = {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{2,4}$"}, "minItems": 1}
OBJECT = {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.5}, "c": ITEMS}, "required": ["a", "c"]}
PROGRAMS: dict[str, tuple[cd.Spec, str]] = {
    "python": (cd.grammars.python(max_width=8), "def f(x, y=1):\n    # text\n    if x:\n        return [y, 'a']\n\nf(2)\n"),
    "cpp": (cd.grammars.CPP, "#include <map>\nint f(int x) {\n    // text\n    if (x > 1) return x * 2;\n    return 0;\n}\n"),
    "sql": (cd.grammars.SQL, "SELECT name, age FROM users WHERE age > 3 AND name LIKE 'a%' ORDER BY age DESC"),
    "comments": (COMMENTS, "a b #x\nkey a bbb\n"),
    "statements": (STATEMENTS, 'if a { b = 1 + "x"; return; } return iff + 2; // ok\n c = d;'),
    "smiles": (cd.grammars.SMILES, "CN1C=NC2=C1C(=O)N(C(=O)N2C)C"),
    "any order": (cd.JsonSchema(OBJECT, property_order="any"), '{"c": ["ab", "cc"], "zz": {"k": [1, null]}, "a": 1.5}'),
}


@functools.cache
def infill_of(name: str) -> cd.Infill:
    vocab = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=EOS)
    return cd.Infill(cd.Compiler(vocab).compile(PROGRAMS[name][0]))


def in_tokens(text: bytes, rng: random.Random) -> list[int]:
    """The text in tokens: whole words mostly, bytes sometimes."""
    ids: list[int] = []
    while text:
        word = next((t for t in range(256, EOS) if text.startswith(TOKENS[t]) and rng.random() < 0.8), text[0])
        ids.append(word)
        text = text[len(TOKENS[word]) :]
    return ids


def begun(infill: cd.Infill, ids: list[int], rng: random.Random) -> cd.InfillSession:
    """A session for the text with holes in it."""
    kind = rng.choice(["canvas", "open canvas", "pieces"])
    if kind != "pieces":
        share = rng.choice([0.05, 0.2, 0.5, 1])
        return infill.canvas([HOLE if rng.random() < share else token for token in ids], HOLE, end=kind == "canvas")
    pieces: list[Any] = []
    cuts = sorted(rng.sample(range(len(ids) + 1), 2 * rng.choice([1, 1, 2, 3])))
    at = 0
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        pieces += [ids[at:left], cd.GAP if rng.random() < 0.5 else cd.Slots(right - left)]
        at = right
    return infill.new([*pieces, ids[at:]])


def step(session: cd.InfillSession, rng: random.Random) -> None:
    """One change, of which the session has to keep its word."""
    place = rng.choice(session.open_places())
    is_gap = place in session.open_gaps()
    change = session.insert if is_gap else session.set
    if is_gap and rng.random() < 0.3:
        session.close(place)
        return
    row = session.mask(place)
    undecided = session.undecided
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    assert is_gap or undecided or bits.any()
    other = rng.randrange(EOS)
    if not (undecided or bits[other]):
        with contextlib.suppress(cd.LimitExceeded):
            assert not change(place, other), (place, TOKENS[other])
    if bits.any():
        token = int(rng.choice(np.flatnonzero(bits).tolist()))
        before = session.open_places()
        with contextlib.suppress(cd.LimitExceeded):
            assert change(place, token), (place, TOKENS[token])
            if rng.random() < 0.2:
                session.undo()
                assert session.open_places() == before and session.completable()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", seeds(2))
def test_sessions_keep_their_word(name: str, seed: int) -> None:
    infill = infill_of(name)
    rng = random.Random(seed)
    ids = in_tokens(PROGRAMS[name][1].encode(), rng)
    for _ in range(4):
        session = begun(infill, ids, rng)
        with contextlib.suppress(cd.LimitExceeded):
            assert session.completable(), session._parts
            for _ in range(rng.choice([2, 5, 12])):
                if session.open_places():
                    step(session, rng)
            text = session.complete(rng.choice([None, random.Random(seed)]))
            assert "\ufffd" in text or infill.accepts(text.encode()), text


def test_a_lattice_with_some_classes_for_each_slot_refuses_nothing() -> None:
    """Eight slots are too many for all 87 classes of tokens, so that what their lattice lacks may be legal. Whether the matcher
    finds a filling before it is asked depends on earlier questions.
    """
    vocab = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=EOS)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.grammars.CPP))
    ids = in_tokens(PROGRAMS["cpp"][1].encode(), random.Random(271134))

    def canvas(*holes: int) -> cd.InfillSession:
        return infill.canvas([HOLE if i in holes else token for i, token in enumerate(ids)], HOLE, end=False)

    assert canvas(0, 1, 2, 6, 11, 13, 14, 15, 22, 28, 37, 38, 39, 48, 51, 56).completable()
    session = canvas(5, 16, 25, 34, 37, 43, 51, 63)
    assert session.completable()
    row = session.mask(37)
    in_mask = bool(row[ord("a") >> 5] >> (ord("a") & 31) & 1)
    assert in_mask or session.undecided
    assert session.set(37, ord("a"))
