"""Two kinds of skips in one row: after a skip, only lexemes start that may have it before them."""

from __future__ import annotations

import pytest
from engine_tools import mask, vocabulary
from naive_lexing import NaiveLexing

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import LONGEST, GrammarIR

TOKENS = [b"a", b"b", b"c", b"x", b"y", b"xa", b"xb", b"ya", b"yb", b"xy", b"xxa", b"xc", b"axb", b"axa", b"byb", b"bya"]
VOCAB = vocabulary(TOKENS, all_bytes=False)


def grammar_of(followers: str) -> GrammarIR:
    """Words of ``a`` (after any ``x``), ``b`` (after any ``y``) and ``c``; after ``a`` those of ``followers``."""
    ir = GrammarIR()
    skips = {
        letter: ir.lexeme(expr.repeat(expr.byte_class(letter.encode()), 1), f"SKIP_{letter}", lexing=LONGEST) for letter in "xy"
    }
    before = {"a": skips["x"], "b": skips["y"], "c": None}
    words = {
        letter: ir.lexeme(expr.literal(letter.encode()), letter.upper(), lexing=LONGEST, skip=skip)
        for letter, skip in before.items()
    }
    start = ir.start = ir.nonterminal("start")
    after_a = ir.nonterminal("after_a")
    for letter in "bc":
        ir.rule(start, [words[letter]])
        ir.rule(start, [words[letter], start])
    ir.rule(start, [words["a"], after_a])
    for letter in followers:
        ir.rule(after_a, [words[letter]])
        ir.rule(after_a, [words[letter], start])
    return ir


@pytest.mark.parametrize("followers", ["a", "b", "ab", "bc", "abc"])
def test_a_skip_goes_before_its_own_lexemes(followers: str) -> None:
    ir = grammar_of(followers)
    grammar, naive = cd.Compiler(VOCAB).compile_ir(ir), NaiveLexing(ir)
    texts, compared = [b""], 0
    while texts:
        text = texts.pop()
        threads = naive.start()
        for byte in text:
            threads = naive.step(threads, byte)
        matcher = grammar.matcher()
        assert all(matcher.accept_token(TOKENS.index(bytes([byte]))) for byte in text), text
        allowed = {token for token in mask(matcher) if token < len(TOKENS)}
        assert allowed == {token for token in naive.allowed(threads, TOKENS) if token < len(TOKENS)}, text
        compared += 1
        if len(text) < 4:
            texts += [text + TOKENS[token] for token in allowed if len(TOKENS[token]) == 1]
    assert compared > 20
