"""C++ programs with one to three random cuts: all completable, and every completion accepted by the matcher.

``CDPLUGIN_INFILL_CUTS=500 pytest tests/test_infill_cpp.py`` tries as many as it says.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_tools import ALL_BYTES, cases

import cdplugin as cd
from cdplugin.infill.parts import records_of

CUTS = int(os.environ.get("CDPLUGIN_INFILL_CUTS", "0")) or cases(40, 2)

PROGRAMS = [path.read_text() for path in sorted((Path(__file__).parent / "data" / "cpp").glob("*.cpp"))]
HUMANEVAL = Path(__file__).parents[2] / "shared" / "humaneval-x" / "cpp-dev.jsonl.gz"
BROKEN = ["]", ")", "}", "; int int ", " + ;", " 3 4 ", "::", "return return ", "??", "@", ",,", "else else ", " 1x "]


@pytest.fixture(scope="module")
def cpp() -> cd.Infill:
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
    return cd.Infill(cd.Compiler(vocab).compile(cd.grammars.CPP))


def cut(rng: random.Random, text: str) -> list[Any]:
    """The text with one to three spans cut out, anywhere: in words, strings, comments and between them."""
    cuts = sorted(rng.sample(range(len(text) + 1), 2 * rng.randint(1, 3)))
    pieces: list[Any] = []
    at = 0
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        pieces += [text[at:left], cd.GAP]
        at = right
    return [*pieces, text[at:]]


def test_random_cuts(cpp: cd.Infill) -> None:
    rng = random.Random(0)
    for i in range(CUTS):
        pieces = cut(rng, rng.choice(PROGRAMS))
        session = cpp.new(pieces)
        assert session.completable(), pieces
        text = session.complete(random.Random(i) if i % 4 == 0 else None)
        assert cpp.accepts(text.encode()), (pieces, text)


@pytest.mark.skipif(not HUMANEVAL.exists(), reason="needs ../shared/humaneval-x")
def test_cuts_of_programs_that_others_wrote(cpp: cd.Infill) -> None:
    """HumanEval-X: completable, never a limit; some are completed, and a cut program with something broken in it is not.

    A mutant that has a filling is completed, which the matcher judges.
    """
    rng = random.Random(1)
    with gzip.open(HUMANEVAL, "rt") as lines:
        programs = [text for text in (json.loads(line)["text"] for line in lines) if cpp.accepts(text.encode())]
    refused = 0
    for i in range(max(CUTS // 2, 1)):
        pieces = cut(rng, rng.choice(programs))
        session = cpp.new(pieces)
        assert session.completable(), pieces
        if i % 4 == 0:
            text = session.complete()
            assert cpp.accepts(text.encode()), (pieces, text)
        where = rng.choice([k for k, piece in enumerate(pieces) if isinstance(piece, str)])
        at = rng.randint(0, len(pieces[where]))
        pieces[where] = pieces[where][:at] + rng.choice(BROKEN) + pieces[where][at:]
        session = cpp.new(pieces)
        if not session.completable():
            refused += 1
        elif i % 4 == 1:
            assert cpp.accepts(session.complete().encode()), pieces
    assert refused > CUTS // 10


def test_the_rest_of_the_line_becomes_a_comment(cpp: cd.Infill) -> None:
    """`0;}` fits nowhere after a declaration's name, so it must be commented out."""
    session = cpp.new(["int m", cd.GAP, " 0;}\n    "])
    assert session.completable() and cpp.accepts(session.complete().encode())


def test_records_of_a_table_that_ends_within_one() -> None:
    """Tables grow by their own sizes, not by whole records."""
    assert records_of(np.arange(8), 3).tolist() == [[0, 1, 2], [3, 4, 5]]
