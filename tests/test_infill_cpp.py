"""C++ programs with one to three random cuts: all are completable, and the matcher accepts every completion.

``CDPLUGIN_INFILL_CUTS=500 pytest tests/test_infill_cpp.py`` tries that many cuts.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_tools import ALL_BYTES, FRESH, cases
from shared_data import CPP_PROGRAMS, programs
from tokenizers_data import llama3

import cdplugin as cd
from cdplugin.engine.values import Values
from cdplugin.infill.answers import Answers
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.lexer.layout import LEXER_WORDS
from cdplugin.kernels.store import layout

PROGRAMS = [path.read_text() for path in sorted((Path(__file__).parent / "data" / "cpp").glob("*.cpp"))]
BROKEN = ["]", ")", "}", "; int int ", " + ;", " 3 4 ", "::", "return return ", "??", "@", ",,", "else else ", " 1x "]


@pytest.fixture(scope="module")
def cpp() -> cd.Infill:
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
    return cd.Infill(cd.Compiler(vocab, FRESH).compile(cd.grammars.CPP))


def cuts_to_try() -> int:
    """How many cut texts a test tries."""
    return int(os.environ.get("CDPLUGIN_INFILL_CUTS", "0")) or cases(40, 2)


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
    for i in range(cuts_to_try()):
        pieces = cut(rng, rng.choice(PROGRAMS))
        session = cpp.new(pieces)
        assert session.completable(), pieces
        text = session.complete(random.Random(i) if i % 4 == 0 else None)
        assert cpp.accepts(text.encode()), (pieces, text)


def test_facts_that_are_asked_for_change_nothing(cpp: cd.Infill) -> None:
    """A check finds facts as they are asked for, and follows rules of one symbol all at once: answers of both lattices, with
    what is kept of the last text, are those of all facts, found anew.
    """
    plain = cd.Infill(cpp.grammar)
    plain._tables.workspace.header[ws.W_HAS_CHAINS] = 0  # the loose workspace takes it over
    rng = random.Random(5)
    found = set()
    for _ in range(cuts_to_try()):
        pieces = cut(rng, rng.choice(PROGRAMS))
        for _ in range(3):
            session = cpp.new(pieces)
            for loose in (False, True):
                answers = []
                for infill in (cpp, plain):
                    tables = infill._tables
                    plain._tables.workspace.forget_texts()
                    plain._tables.loose.forget_texts()
                    with tables:
                        answers.append(Answers(tables, False).build(session._parts, tables.loose if loose else None))
                assert answers[0] == answers[1], (pieces, loose)
                found.add(answers[0])
            where = rng.choice([k for k, piece in enumerate(pieces) if isinstance(piece, str)])
            at = rng.randint(0, len(pieces[where]))
            pieces[where] = pieces[where][:at] + rng.choice(BROKEN) + pieces[where][at:]
    assert int(cpp._tables.workspace.header[ws.W_ASKED]) and not int(plain._tables.workspace.header[ws.W_ASKED])
    assert found == {0, 1} or cases(1, 0) == 0


def test_a_plan_for_gaps_serves_checks_whoever_made_it(cpp: cd.Infill) -> None:
    """The first text of all is completed, for which all facts are found; a check then asks for some by the same plan."""
    infill = cd.Infill(cpp.grammar)
    session = infill.new(["int f() {\n    int x = ", cd.GAP, ";\n    return x;\n}\n"])
    with session._tables:
        assert session._answers.build(session._parts, keep=False) == 1
        assert session._answers.build(session._parts) == 1
    assert infill._tables.workspace.header[ws.W_ASKED]


def test_cuts_of_programs_that_others_wrote(cpp: cd.Infill) -> None:
    """HumanEval-X: completable, never a limit; some are completed, and a cut program with something broken in it is not.

    A mutant that has a filling is completed, which the matcher judges.
    """
    rng = random.Random(1)
    legal = [text for text in programs(CPP_PROGRAMS) if cpp.accepts(text.encode())]
    refused, most = 0, cuts_to_try()
    for i in range(max(most // 2, 1)):
        pieces = cut(rng, rng.choice(legal))
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
    assert refused > most // 10


def test_the_rest_of_the_line_becomes_a_comment(cpp: cd.Infill) -> None:
    """`0;}` fits nowhere after a declaration's name, so the completion must comment it out."""
    session = cpp.new(["int m", cd.GAP, " 0;}\n    "])
    assert session.completable() and cpp.accepts(session.complete().encode())


def test_records_of_a_table_that_ends_within_one() -> None:
    """Tables grow by their own sizes, not by whole records."""
    arena = Values()
    arena.tables = {layout.LEXER_STATES: np.arange(2 * LEXER_WORDS + 2)}
    assert arena.lexer_states.tolist() == np.arange(2 * LEXER_WORDS).reshape(2, -1).tolist()


def test_a_slot_takes_the_tokens_of_its_mask_also_where_no_mask_was_asked_for() -> None:
    """Six other slots over 128,000 tokens are planned with some of 3,158 classes, which say no. What a mask
    has is right: before, ``set`` refused all these tokens.
    """
    vocab = cd.Vocabulary.from_tiktoken(llama3())
    grammar = cd.Compiler(vocab).compile(cd.Lark((Path(__file__).parent / "data" / "c_subset.lark").read_text()))
    infill, rng = cd.Infill(grammar), random.Random(0)
    pieces = ['struct a b["@', cd.Slots(2), "_bindings", cd.Slots(2), "x-pane(iv", cd.Slots(1), " nue", cd.Slots(2), "_pe!\n"]
    flags = np.unpackbits(infill.new(pieces).mask(0).view(np.uint8), bitorder="little")[: vocab.size]
    session = infill.new(pieces)
    for token in rng.sample(np.flatnonzero(flags).tolist(), 4) + rng.sample(np.flatnonzero(flags == 0).tolist(), 2):
        assert session.set(0, token) == bool(flags[token]), vocab.tokens[token]
        session.undo(int(flags[token]))
