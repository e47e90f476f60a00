"""Masks of random grammars equal the brute-force reference, bit for bit, along walks with rollbacks, forks and resets."""

from __future__ import annotations

import random

import pytest
from engine_tools import (
    PLAIN,
    TEXT_TOKENS,
    at_least,
    cases,
    check_walk,
    describe,
    ir_of,
    mask,
    mask_bits,
    naive_mask,
    random_text_grammar,
    vocabulary,
    without_slices,
)
from naive import Naive, random_grammar, random_tokens

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import GrammarIR

pytestmark = pytest.mark.kernel


def compiled(vocab: cd.Vocabulary, ir: GrammarIR, naive: Naive) -> cd.Grammar | None:
    """The grammar; None if it has no word and the compiler says so."""
    if not naive.empty:
        return cd.Compiler(vocab).compile_ir(ir)
    with pytest.raises(cd.GrammarError, match="unsatisfiable"):
        cd.Compiler(vocab).compile_ir(ir)
    return None


@pytest.mark.parametrize("seed", range(6))
def test_random_grammars(seed: int) -> None:
    """Left, right, mutual and hidden left recursion, cycles, empty rules, overlapping lexemes, &, ~ and counts."""
    rng = random.Random(seed)
    compared = 0
    for _ in range(cases(50, 12)):
        alphabet = rng.choice([b"xy", b"ab!", b'a"\\'])
        ir = random_grammar(rng, alphabet)
        tokens = random_tokens(rng, alphabet)
        vocab = vocabulary([*tokens, tokens[0], tokens[-1]])  # two ids of the same bytes
        naive = Naive(ir)
        grammar = compiled(vocab, ir, naive)
        if grammar is not None:
            compared += check_walk(grammar, naive, rng, cases(25, 12))
    assert compared > at_least(300, 30)


@pytest.mark.parametrize("seed", range(3))
def test_vocabulary_without_all_bytes(seed: int) -> None:
    """Lexemes are cut to bytes that some token holds."""
    rng = random.Random(100 + seed)
    compared = 0
    for _ in range(cases(60, 10)):
        ir = random_grammar(rng, b"xyz")
        vocab = vocabulary([t for t in random_tokens(rng, b"xy", 12) if t != b"z"], all_bytes=False)
        spelt = {byte for token in vocab.tokens for byte in token or b""}
        naive = Naive(ir, spellable=spelt)
        grammar = compiled(vocab, ir, naive)
        if grammar is not None:
            compared += check_walk(grammar, naive, rng, cases(20, 8))
    assert compared > at_least(200, 10)


@pytest.mark.parametrize("seed", range(4))
def test_random_text_grammars(seed: int) -> None:
    """Lexemes of plain text, with slices on and off."""
    rng = random.Random(200 + seed)
    compared = 0
    for _ in range(cases(40, 8)):
        ir = random_text_grammar(rng)
        vocab = vocabulary(rng.sample(TEXT_TOKENS, 24))
        naive = Naive(ir)
        grammar = compiled(vocab, ir, naive)
        if grammar is not None:
            seen: dict[tuple[int, ...], bytes] = {}
            compared += check_walk(grammar, naive, rng, cases(20, 8), seen)
            other = without_slices(cd.Compiler(vocab).compile_ir(ir)).matcher()
            for tokens, bits in seen.items():
                other.reset()
                assert other.accept_tokens(tokens) == len(tokens)
                if not other.is_terminated():
                    assert mask(other) == naive_mask(naive, vocab, vocab.decode(tokens))
                    assert bits == mask_bits(other)
    assert compared > at_least(200, 10)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 3), (2, 2), (0, 4)])
@pytest.mark.parametrize("after", [b"!", b"a", b'"', b"\n"])
def test_bounded_text_then_another_lexeme(low: int, high: int, after: bytes) -> None:
    """A token may fill a bounded run of text and go on in the next lexeme, though it has more characters than the run."""
    ir = ir_of({"S": [[expr.repeat(PLAIN, low, high), expr.literal(after)]]})
    vocab = vocabulary(TEXT_TOKENS)
    naive = Naive(ir)
    matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
    for prefix in (b"", b"a", "é".encode()):
        matcher.reset()
        if matcher.accept_tokens(prefix) == len(prefix):
            expected = naive_mask(naive, vocab, prefix)
            assert mask(matcher) == expected, describe(vocab, prefix, mask(matcher), expected)
