"""Tokens that cut a character in two are ruled out where the text beside them shows it (:mod:`cdplugin.infill.characters`)."""

from __future__ import annotations

import itertools
import random

import pytest
from engine_tools import ALL_BYTES, cases, members

import cdplugin as cd
from cdplugin import expr
from cdplugin.infill.tables import InfillGrammar
from cdplugin.ir import GrammarIR

CUT = [
    b"\xc3",
    b"\xa9",
    b"\xe2\x82",
    b"\xac",
    b"\x82\xac",
    b"\xf0\x9f",
    b"\x98\x80",
    b"\xff",
    b"\xed",
    b"\xe0\x80",
    b"\xf4\x8f\xbf",
]
TOKENS = [b"a", "é".encode(), "€".encode(), b"a\xc3", b"\xa9a", b"\x80\x80", *CUT, b"</s>"]
VOCAB = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=len(TOKENS) - 1)
BYTES = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
LEFT = [b"", b"\xc2", b"\xe1", b"\xe0", b"\xed", b"\xf0", b"\xf1", b"\xf4", b"\xe1\x80", b"\xf1\x80", b"\xf1\x80\x80"]
RIGHT = [b"".join(some) for n in range(4) for some in itertools.product((b"\x80", b"\x90", b"\xa0"), repeat=n)]
"""Texts that end in the middle of every kind of character, and that go on with every kind."""


def is_text(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def tables_of(ir: GrammarIR) -> InfillGrammar:
    return cd.Infill(cd.Compiler(VOCAB).compile_ir(ir))._tables


def grammar(*lexemes: expr.Expr) -> GrammarIR:
    ir = GrammarIR()
    ir.start = ir.nonterminal("start")
    for i, lexeme in enumerate(lexemes):
        ir.rule(ir.start, [ir.lexeme(lexeme, f"L{i}"), ir.start])
    ir.rule(ir.start, [])
    return ir


def test_tokens_between_two_texts() -> None:
    """Compared with the decoder of Python, for what may stand further left and right."""
    tables = tables_of(grammar(expr.ANY_TEXT))
    rng = random.Random(0)
    n_out = 0
    with tables, tables.arena.one_budget(None):
        for _ in range(cases(600, 60)):
            before, after = (b"".join(rng.choices(TOKENS[:-1], k=rng.choice([0, 0, 1, 2]))) for _ in range(2))
            begins, ends = rng.random() < 0.3, rng.random() < 0.3
            found = members(tables.characters.possible(before, after, begins, ends))
            lefts, rights = [b""] if begins else LEFT, [b""] if ends else RIGHT
            sides = itertools.chain(itertools.product(lefts, [before], RIGHT), itertools.product(LEFT, [after], rights))
            if {text for left, text, right in sides if is_text(left + text + right)} != {before, after}:
                continue  # of a long text that is none, the end alone is looked at
            around = list(itertools.product(lefts, rights))
            expected = {
                token
                for token, text in enumerate(TOKENS[:-1])
                if any(is_text(left + before + text + after + right) for left, right in around)
            }
            assert found == expected, (before, after, begins, ends)
            n_out += len(TOKENS) - 1 - len(found)
    assert n_out > 500


CHARACTERS = [
    expr.ANY_CHAR,
    expr.ANY_TEXT,
    expr.literal("aé€😀".encode()),
    expr.literals([b"a", "é".encode()]),
    expr.both(expr.ANY_TEXT, expr.complement(expr.literal(b"a"))),
    expr.utf8_ranges(((0x80, 0x10FFFF),)),
    expr.cat(expr.byte_class(b"\xc3"), expr.byte_class(b"\xa9\xaa")),
    expr.EPSILON,
]
OTHERS = [
    expr.byte_class(b"\x80"),
    expr.complement(expr.literal(b"a")),
    expr.cat(expr.byte_class(b"\xc3"), expr.repeat(expr.byte_class(b"\xa9"), 0, 1)),
    expr.cat(expr.ANY_TEXT, expr.byte_class(b"\xff")),
    expr.literal(b"\xe0\x80\x80"),
    expr.repeat(expr.byte_class(b"\xa9\xc3")),
]


def test_lexemes_that_match_text_alone() -> None:
    """What one of many lexemes that are text matches besides lets all tokens come."""
    assert tables_of(grammar(*CHARACTERS)).characters._are_texts
    for other in OTHERS:
        tables = tables_of(grammar(*CHARACTERS[:3], other))
        assert not tables.characters._are_texts
        assert members(tables.characters.possible(b"a", b"a", True, True)) == set(range(len(TOKENS) - 1))


@pytest.mark.parametrize(
    "spec", [cd.grammars.python(max_width=4), cd.grammars.CPP, cd.grammars.SQL, cd.Regex(r"[^a\n]+|\p{L}*")]
)
def test_lexemes_of_grammars_are_text(spec: cd.grammars.Spec) -> None:
    tables = cd.Infill(cd.Compiler(BYTES).compile(spec))._tables
    with tables, tables.arena.one_budget(None):
        assert tables.characters._are_texts
        assert tables.nbytes > 0


def test_masks_of_a_canvas_leave_no_cut_character_undecided() -> None:
    """Beside whole characters; a slot beside another one may begin in the middle of one. Before, all were undecided."""
    infill = cd.Infill(cd.Compiler(BYTES).compile(cd.grammars.python(max_width=4)))
    session = infill.new(["x = f(", cd.Slots(1), "a", cd.Slots(1), "b", cd.Slots(2), ")\n"])
    for place, n_possible in enumerate((128, 128, 128 + 51, 128 + 64)):
        allowed = members(session.mask(place))
        assert len(allowed) + session.undecided <= n_possible
        cut = set(range(0x80, 0x100))
        assert (allowed & cut == set()) == (place < 2)
        for token in sorted(allowed & cut):
            assert session.set(place, token)
            assert infill.accepts(session.complete().encode())
            session.undo()
