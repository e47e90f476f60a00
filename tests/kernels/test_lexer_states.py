"""Lexer states of several lexemes, some of which end where others go on."""

from __future__ import annotations

import itertools

import pytest
from engine_tools import ir_of, mask, naive_mask, vocabulary
from naive import Naive

import cdplugin as cd
from cdplugin import expr

VOCAB = vocabulary([b"ab", b"acd", b"abx", b"b", b"cd"])
ENDED = [b"a", b"b"]
LONGER = [b"ab", b"acd", b"aed", b"bc"]


@pytest.mark.parametrize("chosen", [c for n in (2, 3, 4) for c in itertools.combinations(LONGER, n)])
def test_all_lexemes_that_may_go_on_do(chosen: tuple[bytes, ...]) -> None:
    """Lexemes that end after one byte and several that do not: none of the others is lost with what has ended."""
    ir = ir_of({"S": [*([expr.literal(text)] for text in (*ENDED, *chosen)), [expr.literal(b"a"), "S"]]})
    grammar, naive = cd.Compiler(VOCAB).compile_ir(ir), Naive(ir)
    for text in (b"", b"a", b"b", b"aa", b"ab"):
        matcher = grammar.matcher()
        followed = matcher.accept_tokens(text)
        assert mask(matcher) == naive_mask(naive, VOCAB, text[:followed])
    after_a = cd.Compiler(VOCAB).compile_ir(ir_of({"S": [[expr.literal(text)] for text in (*ENDED, *chosen)]})).matcher()
    assert after_a.accept_token(ord("a"))
    assert {text[1] for text in chosen if text[:1] == b"a"} == {t for t in mask(after_a) if t < 256}
