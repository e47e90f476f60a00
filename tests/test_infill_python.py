"""Python programs with one to three random cuts: all are completable, and the matcher accepts every completion.

Indentation makes blocks, keywords stand beside names, and f-strings have lexemes of their own, so the strict lattice knows
little of Python (:mod:`cdplugin.infill.answers`). What the loose lattice spells is put to the matcher.
``CDPLUGIN_INFILL_CUTS=500 pytest tests/test_infill_python.py`` tries that many cuts.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_tools import ALL_BYTES, cases, seeds
from shared_data import PYTHON_PROGRAMS, programs
from test_infill_cpp import cut
from tokenizers_data import llama3

import cdplugin as cd

PROGRAMS = [path.read_text() for path in sorted((Path(__file__).parent / "data" / "python").glob("*.txt"))]


@pytest.fixture(scope="module")
def python() -> cd.Infill:
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
    return cd.Infill(cd.Compiler(vocab).compile(cd.grammars.python(max_width=20)))


def cuts_to_try() -> int:
    """How many cut texts a test tries."""
    return int(os.environ.get("CDPLUGIN_INFILL_CUTS", "0")) or cases(30, 2)


def is_completed(infill: cd.Infill, pieces: list[Any]) -> bool:
    """Completed legally, or given up."""
    session = infill.new(pieces)
    try:
        assert session.completable(), pieces
        text = session.complete()
    except cd.LimitExceeded:
        return False
    assert infill.accepts(text.encode()), (pieces, text)
    return True


def test_random_cuts(python: cd.Infill) -> None:
    rng = random.Random(0)
    assert PROGRAMS and all(python.accepts(program.encode()) for program in PROGRAMS)
    completed = [is_completed(python, cut(rng, rng.choice(PROGRAMS))) for _ in range(cuts_to_try())]
    assert sum(completed) >= 0.95 * len(completed)


def test_cuts_of_programs_that_others_wrote(python: cd.Infill) -> None:
    rng = random.Random(1)
    legal = [text for text in programs(PYTHON_PROGRAMS) if python.accepts(text.encode())]
    completed = [is_completed(python, cut(rng, rng.choice(legal))) for _ in range(cuts_to_try())]
    assert sum(completed) >= 0.95 * len(completed)


@pytest.mark.parametrize(
    "pieces",
    [
        ["if x:\n", cd.GAP, "y = 1\nelse:\n  z\n"],  # a block's first line
        ["def f():\n    return 1", cd.GAP, " g()\n"],  # what follows begins with a space
        ["x = f'{a", cd.GAP, "}'\n"],  # a field of an f-string
        ["for i in ", cd.GAP, ":\n    pass\n  # done\n", cd.GAP, "while i:\n  break\n"],
        [cd.GAP, '"""\nif a:\n      b = "c\n"""\n', cd.GAP, "  return\n"],  # opened by the gap
        ["def f(x: li", cd.GAP, "      if x:\n            return\n    return\n"],  # the last line is in a block of four columns
        ["class A", cd.GAP, "(self): pass\n    x = 1\n"],  # a method's name, a block of its own
    ],
)
def test_what_blocks_and_strings_ask_for(python: cd.Infill, pieces: list[Any]) -> None:
    session = python.new(pieces)
    assert session.completable()
    assert python.accepts(session.complete().encode())


@pytest.mark.parametrize(
    "pieces",
    [
        ["if x:\n    y\n  z = 1", cd.GAP],  # back to a block that is not open
        ["return return ", cd.GAP],
        ["x = 3 4 ", cd.GAP],
        ["def f(:", cd.GAP, "\n"],
    ],
)
def test_what_nothing_can_complete(python: cd.Infill, pieces: list[Any]) -> None:
    session = python.new(pieces)
    assert not session.completable()


def test_blocks_of_any_width() -> None:
    """The grammar as it ships. Short lexemes are tried first in gaps; wide blocks are found, too."""
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.grammars.PYTHON))
    wide = 40 * " "
    for pieces in (
        ["def f(x):\n    if x:", cd.GAP, "  return 1\n    else:\n        ", cd.GAP, "2\n"],
        [f"if a:\n{wide}b\n", cd.GAP, f"\n{wide}d\nelse:\n c", cd.GAP],
        ["if a:", cd.GAP, f"\n{wide}  b\n{wide}c\n"],
    ):
        session = infill.new(pieces)
        assert session.completable()
        assert infill.accepts(session.complete().encode())
    assert not infill.new([f"if a:\n{wide}b\n{wide} c", cd.GAP]).completable()


@pytest.mark.parametrize(
    "pieces",
    [
        ["def f(x):\n    for i in x", cd.GAP, " print(i)\n    else:\n        ", cd.GAP, "2\n"],
        [cd.GAP, "f'{x", cd.GAP, "}'\n"],
    ],
)
def test_a_mask_allows_what_can_be_inserted(python: cd.Infill, pieces: list[Any]) -> None:
    """Each byte put to the answer: what is decided agrees, and everything is decided."""
    session = python.new(pieces)
    for gap in session.open_gaps():
        row = session.mask(gap)
        assert session.undecided == 0
        for byte in random.Random(gap).sample(range(256), cases(40, 2)):
            allowed = bool(row[byte >> 5] >> (byte & 31) & 1)
            assert session.insert(gap, byte) == allowed, byte
            session.undo(int(allowed))


@pytest.fixture(scope="module")
def python_over_tokens() -> cd.Infill:
    """Over the 128,256 tokens of Llama 3."""
    return cd.Infill(cd.Compiler(cd.Vocabulary.from_tiktoken(llama3())).compile(cd.grammars.python(max_width=20)))


@pytest.mark.parametrize(
    "pieces",
    [
        [
            "def f(x):\n    for i in len(x",
            cd.GAP,
            " print(i)\n    else:\n        2\n",
        ],  # brackets; the rest begins with a space
        ['def f(x):\n    """ What', cd.GAP, 'does."""\n    return x\n'],  # in a string
        ["if x:\n", cd.GAP, "y = 1\nelse:\n  z\n"],  # the first line of a block, whose width is not known yet
        ["x = [", cd.GAP, "\n\ndef f(a", cd.GAP, "):\n  pass\n"],  # another gap behind it
    ],
)
def test_masks_over_a_hundred_thousand_tokens(python_over_tokens: cd.Infill, pieces: list[Any]) -> None:
    """Every token is decided. Some are also tried one by one, and agree."""
    infill, rng = python_over_tokens, random.Random(2)
    other = infill.new(pieces)  # asks for no mask
    session = infill.new(pieces)
    for gap in session.open_gaps():
        flags = np.unpackbits(session.mask(gap).view(np.uint8), bitorder="little")[: infill.vocab.size]
        assert session.undecided == 0
        assert flags.sum() > 500
        some = [token for allowed in (0, 1) for token in rng.sample(np.flatnonzero(flags == allowed).tolist(), cases(30, 2, 4))]
        for token in some:
            assert other.insert(gap, token) == bool(flags[token]), (gap, infill.vocab.tokens[token])
            other.undo(int(flags[token]))


def test_what_is_written_token_by_token(python_over_tokens: cd.Infill) -> None:
    """A gap filled with random tokens of its masks, which know more and more of what may end it: always completable."""
    infill, rng = python_over_tokens, random.Random(3)
    for pieces in (["def f(x):\n    return ", cd.GAP, "\n\nf(1)\n"], ["x = {", cd.GAP, "}\n"]):
        session = infill.new(pieces)
        for _ in range(cases(12, 2, 3)):
            tokens = np.flatnonzero(np.unpackbits(session.mask(0).view(np.uint8), bitorder="little"))
            assert session.undecided == 0
            assert session.insert(0, int(rng.choice(tokens)))
        assert infill.accepts(session.complete().encode())


SMALL = [b"x", b" ", b"\n", b"(", b")", b":", b"if ", b"=", b"\n  ", b'"']


@pytest.fixture(scope="module")
def python_over_few_tokens() -> cd.Infill:
    tokens = [*SMALL, *(byte for byte in ALL_BYTES if byte not in SMALL), b"</s>"]
    vocab = cd.Vocabulary.from_bytes(tokens, eos_token_ids=len(tokens) - 1)
    return cd.Infill(cd.Compiler(vocab).compile(cd.grammars.python(max_width=4)))


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_slots_beside_all_fillings(python_over_few_tokens: cd.Infill, seed: int) -> None:
    """Up to three slots, side by side or apart. All of a few tokens are tried in them, and the matcher says what is legal."""
    infill, rng = python_over_few_tokens, random.Random(seed)
    decided = 0
    for _ in range(cases(10, 1, 4)):
        text = rng.choice(["if x:\n  x\nx\n", "x = (x)\n", 'x("")\n', "if x: x\n", "x=x\n"])
        counts = rng.choice([(1,), (2,), (3,), (1, 1), (2, 1)])
        cuts = sorted(rng.sample(range(len(text) + 1), 2 * len(counts)))
        pieces: list[Any] = [text[: cuts[0]]]
        for i, count in enumerate(counts):
            pieces += [cd.Slots(count), text[cuts[2 * i + 1] : cuts[2 * i + 2] if i + 1 < len(counts) else len(text)]]
        legal = []
        for chosen in itertools.product(range(len(SMALL)), repeat=sum(counts)):
            rest = iter(chosen)
            parts = [[SMALL[next(rest)] for _ in range(p.count)] if isinstance(p, cd.Slots) else [p.encode()] for p in pieces]
            if infill.accepts(b"".join(itertools.chain(*parts))):
                legal.append(chosen)
        session = infill.new(pieces)
        try:
            answer = session.completable()
        except cd.LimitExceeded:
            continue
        assert answer or not legal, pieces  # other tokens may do, too
        if not answer:
            continue
        for place in rng.sample(range(sum(counts)), min(2, sum(counts))):
            row = session.mask(place)
            for token in range(len(SMALL)):
                is_set = bool(row[token >> 5] >> (token & 31) & 1)
                if any(chosen[place] == token for chosen in legal):
                    assert is_set or session.undecided, (pieces, place, SMALL[token])
                    decided += is_set
                if is_set:  # what is set can be gone on with, until the text is legal
                    assert session.set(place, token), (pieces, place, SMALL[token])
                    if sum(counts) == 1:
                        assert (token,) in legal
                    session.undo()
    assert decided or not legal


@pytest.mark.parametrize(
    "pieces",
    [
        ["def f(x):\n    ", cd.Slots(6), " x\n"],
        ["x = [", cd.Slots(3), "]\n"],
        ["def f(", cd.Slots(2), "):\n    return ", cd.Slots(4), "\n"],
        ['def f():\n    """', cd.Slots(8), '"""\n    return 1\n', cd.GAP],
    ],
)
def test_slots_over_a_hundred_thousand_tokens(python_over_tokens: cd.Infill, pieces: list[Any]) -> None:
    """Filled in any order with tokens of the masks: the text is legal, and as long as it should be."""
    infill, rng = python_over_tokens, random.Random(4)
    session = infill.new(pieces)
    assert session.completable()
    for place in rng.sample(session.open_slots(), len(session.open_slots())):
        tokens = np.flatnonzero(np.unpackbits(session.mask(place).view(np.uint8), bitorder="little"))
        assert len(tokens) > 0
        assert session.set(place, int(rng.choice(tokens)))
    assert infill.accepts(session.complete().encode())


@pytest.mark.parametrize("seed", seeds(4, 1, 2))
def test_canvases_over_a_hundred_thousand_tokens(python_over_tokens: cd.Infill, seed: int) -> None:
    """Slots filled in random order, some with end tokens, with what follows them: never stuck, and a legal text."""
    infill, rng = python_over_tokens, random.Random(seed)
    eos = infill.vocab.eos_token_ids
    length = 12
    session = infill.canvas([eos[0] + 1] * length, eos[0] + 1)
    for place in rng.sample(range(length), length):
        tokens = np.flatnonzero(np.unpackbits(session.mask(place).view(np.uint8), bitorder="little"))
        ends = [token for token in eos if token in tokens]
        token = ends[0] if ends and rng.random() < 0.3 else int(rng.choice(tokens))
        assert session.set(place, token)
    assert infill.accepts(session._bytes())
