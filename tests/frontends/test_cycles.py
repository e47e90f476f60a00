"""Nonterminals that derive each other are merged into one, and the language stays the same."""

from __future__ import annotations

import copy
import random

import pytest
from engine_tools import cases, check_walk, mask, vocabulary
from naive import Naive, random_grammar, random_tokens

import cdplugin as cd
from cdplugin.frontends.cycles import merge_cycles
from cdplugin.ir import GrammarIR

ROUNDS = 30


def of_sixty(nullable: bool = True) -> str:
    """60 rules, each of which mentions two others."""
    end = ' | ""' if nullable else ""
    rules = (f'r{i} ::= r{(7 * i + 1) % 60} r{(11 * i + 3) % 60} | "{"abcdefgh"[i % 8]}"{end}' for i in range(60))
    return "root ::= r0\n" + "\n".join(rules)


@pytest.mark.parametrize("seed", range(cases(6, 1, 2)))
def test_merged_rules_have_the_same_words(seed: int) -> None:
    """Masks of the merged rules along random walks are what the plain Earley of naive.py says of the rules before."""
    rng = random.Random(seed)
    merged = compared = 0
    for _ in range(ROUNDS):
        ir = random_grammar(rng)
        names = range(len(ir.names))
        for left in names:
            if rng.random() < 0.6:
                ir.rule(left, [rng.choice(names)] if rng.random() < 0.6 else [rng.choice(names), rng.choice(names)])
        before = copy.deepcopy(ir)
        merge_cycles(ir)
        if ir.rules == before.rules:
            continue
        merged += 1
        compiler = cd.Compiler(vocabulary(random_tokens(rng)))
        try:
            grammar = compiler.compile_ir(ir)
        except cd.GrammarError:  # it matches nothing
            assert not Naive(before).viable(b"")
            continue
        compared += check_walk(grammar, Naive(before), rng, 10)
    assert merged > 4
    assert compared > 15


def test_what_each_other_derive_is_one() -> None:
    ir = GrammarIR()
    a, b, c, d, e = (ir.nonterminal(name) for name in "abcde")
    ir.rules = [(a, (b,)), (b, (e, c)), (c, (a, e)), (d, (a, a)), (d, (d,)), (e, ()), (c, (c, d))]
    merge_cycles(ir)
    assert ir.rules == [(a, (e, a)), (a, (a, e)), (d, (a, a)), (e, ()), (a, (a, d)), (b, (a,)), (c, (a,))]


def test_captured_rules_stay() -> None:
    ir = GrammarIR()
    a, b = ir.nonterminal("a"), ir.nonterminal("b")
    rules = [(a, (b,)), (b, (a,)), (b, ())]
    ir.rules, ir.captures = list(rules), {b: "b"}
    merge_cycles(ir)
    assert ir.rules == rules


@pytest.mark.parametrize("notation", ["gbnf", "lark"])
def test_sixty_rules_that_derive_each_other(notation: str) -> None:
    """Within 128 bytes some step crossed ``Limits.max_step_work``, 50 million units."""
    text = of_sixty()
    spec: cd.Spec = cd.Gbnf(text)
    if notation == "lark":
        spec = cd.Lark(text.replace("root ::=", "start:").replace("::=", ":").replace('""', ""))
    grammar = cd.Compiler(vocabulary([b"ab", b"hgf", b"x"])).compile(spec)
    matcher = grammar.matcher()
    for byte in b"abcdefghhgfedcba" * 8:
        assert mask(matcher) == {*b"abcdefgh", 256, 257, *grammar.vocab.eos_token_ids}
        assert matcher.accept_token(byte)
    assert matcher.is_accepting()
    assert grammar.counters()["work"] < 8_000_000
