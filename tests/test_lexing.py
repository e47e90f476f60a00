"""Longest match, shortest match, skips, token terminals and token counts, beside :mod:`naive_lexing`."""

from __future__ import annotations

import random

import pytest
from engine_tools import at_least, cases, mask, vocabulary
from naive import random_grammar, random_tokens
from naive_lexing import NaiveLexing

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR, TokenSet

pytestmark = pytest.mark.kernel


def random_lexing(rng: random.Random, kinds: tuple[str, ...]) -> tuple[GrammarIR, list[bytes], dict[int, set[int]]]:
    """A random grammar whose lexemes end in the given ways, with skips, a token terminal and counted tokens now and then."""
    plain = random_grammar(rng)
    tokens = random_tokens(rng)
    ir = GrammarIR()
    for name in plain.names:
        ir.nonterminal(name)
    skips: list[int | None] = [None]
    if rng.random() < 0.5:
        skips = [
            ir.lexeme(
                expr.repeat(expr.byte_class(rng.choice([b"x", b"y", b"xy"])), rng.choice([0, 1]), rng.choice([None, 1, 2])),
                f"SKIP{i}",
                lexing=LONGEST,
            )
            for i in range(rng.choice([1, 1, 2]))
        ]
        skips += [None] * rng.choice([0, 0, 1])
    named = {}
    for t, e in enumerate(plain.lexemes):
        lexing = rng.choice(kinds)
        clock = rng.choice([None, None, None, 1, 2, 3])
        named[~t] = ir.lexeme(e, f"L{t}", lexing=lexing, skip=None if lexing == EXACT else rng.choice(skips), max_tokens=clock)
    special = len(tokens) + 2  # in engine_tools.vocabulary: None, b"", b"<special>", b"<end>" come last
    terminals: dict[int, set[int]] = {}
    if rng.random() < 0.4:
        text = rng.randrange(len(tokens))
        terminals[ir.token(TokenSet(ranges=((special, special), (text, text))), "TOKEN", skip=skips[0])] = {special, text}
    for left, right in plain.rules:
        rule = [named[s] if s < 0 else s for s in right]
        ir.rule(left, rule)
        for terminal in terminals:
            if rng.random() < 0.3:
                ir.rule(left, [terminal, *rule])
    ir.start = plain.start
    return ir, tokens, terminals


@pytest.mark.parametrize("kinds", [(LONGEST,), (LONGEST, LONGEST, LAZY), (LAZY,), (EXACT, LONGEST)], ids=str)
def test_masks_of_random_grammars(kinds: tuple[str, ...]) -> None:
    """Every mask on random walks is what stepping every token by brute force gives."""
    compared = 0
    for seed in range(cases(60, 4)):
        rng = random.Random(seed)
        ir, tokens, terminals = random_lexing(rng, kinds)
        naive = NaiveLexing(ir, terminals)
        vocab = vocabulary(tokens, all_bytes=False)
        if naive.empty:
            with pytest.raises(cd.GrammarError, match="matches nothing"):
                cd.Compiler(vocab).compile_ir(ir)
            continue
        grammar = cd.Compiler(vocab).compile_ir(ir)
        for _ in range(2):
            matcher, threads = grammar.matcher(), naive.start()
            for _ in range(8):
                expected = naive.allowed(threads, vocab.tokens)
                accepting = naive.accepting(threads)
                found = mask(matcher)
                where = f"seed {seed} after {matcher.tokens}"
                assert found == expected | (set(vocab.eos_token_ids) if accepting else set()), where
                assert matcher.is_accepting() == accepting, where
                compared += 1
                if not expected or len(threads) > 12:  # brute force keeps apart what the engine unites
                    break
                token = rng.choice(sorted(expected))
                assert matcher.accept_token(token)
                threads = naive.accept(threads, token, vocab.tokens[token])
    assert compared > at_least(250, 4)
