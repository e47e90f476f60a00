"""Forced tokens beside masks of one token by brute force; forced text as real tokenizers write it, whatever follows."""

from __future__ import annotations

import random
from typing import Any

import pytest
from engine_tools import at_least, cases, ir_of, mask, naive_mask, vocabulary
from naive import Naive, random_grammar, random_tokens
from tokenizers_data import llama2_like, llama3, smollm2

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import LONGEST, GrammarIR, TokenSet

KEYS = {
    "type": "object",
    "properties": {"customer_name": {"type": "string"}, "order_number": {"type": "integer"}, "état": {"enum": ["payé", "dû"]}},
    "required": ["customer_name", "order_number", "état"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("seed", range(2))
def test_singletons(seed: int) -> None:
    """Each forced token is the only one that brute force allows, and after the last there are others, or the text may end."""
    rng = random.Random(seed)
    forced = 0
    for _ in range(cases(60, 6)):
        alphabet = b"xy"
        ir = random_grammar(rng, alphabet)
        naive = Naive(ir)
        if naive.empty:
            continue
        vocab = vocabulary([t for t in random_tokens(rng, alphabet, 4) if b"z" not in t], all_bytes=False)
        matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
        for _ in range(4):
            prefix = vocab.decode(matcher.tokens)
            tokens = matcher.forced_tokens()
            for token in tokens:
                assert naive_mask(naive, vocab, prefix) == {token}
                prefix += vocab.tokens[token] or b""
            forced += len(tokens)
            after = naive_mask(naive, vocab, prefix)
            assert len(after) != 1 or after == set(vocab.eos_token_ids)
            allowed = sorted(mask(matcher) - set(vocab.eos_token_ids))
            if not allowed or not matcher.accept_token(rng.choice(allowed)):
                break
    assert forced > at_least(10, 0)


def test_state_stays() -> None:
    vocab = vocabulary([])
    matcher = cd.Compiler(vocab).compile(cd.Choice(["yes please", "yes, thanks"])).matcher()
    before = mask(matcher)
    assert matcher.forced_tokens() == list(b"yes") == matcher.forced_tokens(canonical=True)
    assert matcher.forced_tokens(limit=2) == list(b"ye") == matcher.forced_tokens(canonical=True, limit=2)
    assert matcher.tokens == () and mask(matcher) == before
    assert matcher.accept_tokens(b"yes ") == 4 and matcher.forced_tokens() == list(b"please")
    assert matcher.accept_tokens(b"please") == 6 and matcher.forced_tokens() == [] == matcher.forced_tokens(canonical=True)
    assert matcher.accept_token(vocab.eos_token_ids[0]) and matcher.forced_tokens() == [] == matcher.forced_tokens(
        canonical=True
    )


def test_text_that_tokens_spell_in_several_ways() -> None:
    """Not one token is forced, but the text is."""
    vocab = vocabulary([b"ye", b"es"])
    matcher = cd.Compiler(vocab).compile(cd.Choice(["yes"])).matcher()
    assert matcher.forced_tokens() == []
    assert matcher.forced_tokens(canonical=True) == [vocab.tokens.index(b"ye"), ord("s")]


def test_longest_tokens_do_not_reach_beyond() -> None:
    """``"b"`` may be the beginning of ``"bx"``, so it is left to what follows."""
    vocab = vocabulary([b"ab", b"bx"])
    matcher = cd.Compiler(vocab).compile(cd.Choice(["aabx", "aaby"])).matcher()
    assert matcher.forced_tokens(canonical=True) == [97]


def test_token_terminals_are_not_text() -> None:
    """Where a named token may stand instead, nothing is forced; where it alone may, it is."""
    vocab = vocabulary([])
    special = vocab.special_tokens["<special>"]
    ir = GrammarIR()
    ir.start = ir.nonterminal("S")
    a, b, named = ir.lexeme(expr.literal(b"a")), ir.lexeme(expr.literal(b"b")), ir.token(TokenSet(names=("<special>",)))
    ir.rule(ir.start, [a, named, b])
    ir.rule(ir.start, [a, named, a, named, b])
    matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
    assert matcher.forced_tokens() == [97, special]
    assert matcher.forced_tokens(canonical=True) == [97]
    ir.rule(ir.start, [a, b])
    matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
    assert matcher.forced_tokens() == [97] == matcher.forced_tokens(canonical=True)


def test_counted_tokens() -> None:
    """The letter may end after one token: what follows depends on where tokens end, and is not forced beyond the first."""
    vocab = vocabulary([b"ab"])
    ir = GrammarIR()
    ir.start = ir.nonterminal("S")
    letters = ir.lexeme(expr.alt(expr.literal(b"a"), expr.literal(b"aby")), lexing=LONGEST, max_tokens=1)
    ir.rule(ir.start, [letters, ir.lexeme(expr.literal(b"x"), lexing=LONGEST)])
    matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
    forced = matcher.forced_tokens(canonical=True)
    for token in forced:
        assert {vocab.tokens[t][:1] for t in mask(matcher)} == {(vocab.tokens[token] or b"")[:1]}  # type: ignore[index]
        assert matcher.accept_token(token)


def test_a_long_literal_is_cut() -> None:
    vocab = vocabulary([])
    grammar = cd.Compiler(vocab).compile_ir(ir_of({"S": [[expr.literal(b"ab" * 5_000)]]}))
    assert len(grammar.matcher().forced_tokens()) == 256 == len(grammar.matcher().forced_tokens(canonical=True))


@pytest.fixture(scope="module", params=["smollm2", "llama3", "llama2_like"])
def real(request: pytest.FixtureRequest) -> cd.Vocabulary:
    """Byte-level BPE of Hugging Face, tiktoken, and SentencePiece with a space in front."""
    if request.param == "llama3":
        tokenizer: Any = llama3()
        return cd.Vocabulary.from_tiktoken(tokenizer.model, eos_token_ids=[tokenizer.eos_id])
    tokenizer = smollm2() if request.param == "smollm2" else llama2_like()
    return cd.Vocabulary.from_huggingface(tokenizer)


@pytest.mark.slow
def test_canonical_with_real_tokenizers(real: cd.Vocabulary) -> None:
    """The forced tokens are the first that the tokenizer itself writes for the whole text, for many texts."""
    rng = random.Random(0)
    grammar = cd.Compiler(real).compile(cd.JsonSchema(KEYS, whitespace="compact"))
    assert real.encode is not None
    total = 0
    for _ in range(12):
        name = rng.choice(["Ann", " x", "naïve", "日本", "", "0 1", "the", "_a", "\\n"])
        number, state = rng.choice([0, 12345, -7]), rng.choice(["payé", "dû"])
        text = f'{{"customer_name":"{name}","order_number":{number},"état":"{state}"}}'
        whole = real.encode(text)
        first = grammar.matcher().forced_tokens(canonical=True)
        lead = 1 if real.decode(whole)[:1] == b" " else 0  # a space in front, which the grammar does not have
        if not lead:
            assert whole[: len(first)] == first
        assert text.encode().startswith(real.decode(first))
        matcher = grammar.matcher()
        for token in whole if not lead else []:  # in the middle too
            forced = matcher.forced_tokens(canonical=True)
            done = len(matcher.tokens)
            if forced:
                total += len(forced)
                assert whole[done : done + len(forced)] == forced
            assert matcher.accept_token(token)
        total += len(first)
    assert total > 12
