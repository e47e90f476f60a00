"""Longest match, shortest match, skips, token terminals and token counts, beside :mod:`naive_lexing`."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from engine_tools import TEXT_TOKENS, at_least, cases, mask, random_text_lexeme, vocabulary
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


def random_alone(rng: random.Random, kinds: tuple[str, ...]) -> tuple[GrammarIR, list[bytes], dict[int, set[int]]]:
    """The same without skips, where all lexemes but one are EXACT: with that one, none competes."""
    ir, tokens, terminals = random_lexing(rng, (EXACT,))
    ir.skips.clear()
    exact = [t for t, lexing in enumerate(ir.lexings) if lexing == EXACT and ~t not in terminals]
    ir.lexings[rng.choice(exact)] = rng.choice(kinds)
    return ir, tokens, terminals


def random_text(rng: random.Random, kinds: tuple[str, ...]) -> tuple[GrammarIR, list[bytes], dict[int, set[int]]]:
    """Lexemes of plain text, which slices answer, side by side; the last one ends in one of the given ways."""
    ir = GrammarIR()
    ir.start = ir.nonterminal("S")
    more = ir.nonterminal("T")
    skip = ir.lexeme(random_text_lexeme(rng), "SKIP", lexing=LONGEST) if rng.random() < 0.4 else None
    lexemes = [ir.lexeme(random_text_lexeme(rng), f"L{i}", lexing=LONGEST, skip=skip) for i in range(rng.randint(1, 2))]
    last = random_text_lexeme(rng)
    if rng.random() < 0.7:
        last = expr.cat(last, expr.literal(rng.choice([b"ab", b"!", b"c", b'"', "é".encode()])))
    lexemes.append(ir.lexeme(last, "LAST", lexing=rng.choice(kinds), skip=skip))
    for lexeme in lexemes:
        ir.rule(ir.start, [lexeme, more])
        ir.rule(more, [lexeme])
    ir.rule(more, [lexemes[0], more])
    return ir, [*(bytes([b]) for b in range(256)), *rng.sample([t for t in TEXT_TOKENS if len(t) > 1], 24)], {}


MAKERS = [
    *((random_lexing, kinds) for kinds in ((LONGEST,), (LONGEST, LONGEST, LAZY), (LAZY,), (EXACT, LONGEST))),
    (random_alone, (LONGEST, LAZY)),
    *((random_text, kinds) for kinds in ((LONGEST,), (LAZY,))),
]


@pytest.mark.parametrize(("make", "kinds"), MAKERS, ids=lambda made: getattr(made, "__name__", str(made)))
def test_masks_of_random_grammars(make: Callable[..., Any], kinds: tuple[str, ...]) -> None:
    """Every mask on random walks is what stepping every token by brute force gives."""
    compared = 0
    for seed in range(cases(60, 4)):
        rng = random.Random(seed)
        ir, tokens, terminals = make(rng, kinds)
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
                if not expected or len(threads) > 12:  # each is followed by itself
                    break
                token = rng.choice(sorted(expected))
                assert matcher.accept_token(token)
                threads = naive.accept(threads, token, vocab.tokens[token])
    assert compared > at_least(250, 4)


@pytest.mark.parametrize("beside", ["a | B", "B | a", "a B*"], ids=str)
@pytest.mark.parametrize("lazy", ["[lazy]: /.*ab/", '[suffix="ab"]: /.*/'], ids=str)
def test_a_lazy_lexeme_ends_text_beside_it(beside: str, lazy: str) -> None:
    """No token goes on with a text of any length where a LAZY lexeme has ended it, whichever lexeme is declared first."""
    vocab = vocabulary([bytes([b]) for b in range(256)] + [b"ab", b"abc", b"bc", b"xabx", b"aab"])
    for ignore in ("%ignore / +/", "%ignore /#.*/"):
        grammar = cd.Compiler(vocab).compile(cd.Lark(f'start: "x" ({beside})\na{lazy}\nB: /#[^\\n]*/\n{ignore}'))
        for text in (b"x#", b"x#a", b"x#xx"):
            matcher = grammar.matcher()
            assert matcher.accept_tokens(text) == len(text)
            ends = {t for t, token in enumerate(vocab.tokens) if token and matcher.fork().accept_tokens(token) == len(token)}
            assert {t for t in mask(matcher) if vocab.tokens[t] and t not in vocab.eos_token_ids} == ends, (ignore, text)


def test_readings_that_come_to_the_same_lexemes_stay_apart() -> None:
    """``aaab`` is ``a aab`` or ``aa ab``: the rest of ``a*b`` is the same, what follows is not. The ``c`` of one reading ends
    where it ends whatever the other has there, and whether a token holds both or bytes come one by one.
    """
    ir = GrammarIR()
    ir.start = ir.nonterminal("S")
    one, two = (ir.lexeme(expr.literal(text), lexing=EXACT) for text in (b"a", b"aa"))
    between = ir.lexeme(expr.cat(expr.repeat(expr.literal(b"a")), expr.literal(b"b")), lexing=LONGEST)
    c, cc, d, x = (ir.lexeme(expr.literal(text), lexing=LONGEST) for text in (b"c", b"cc", b"d", b"x"))
    ir.rule(ir.start, [one, between, c, c, x])
    ir.rule(ir.start, [two, between, cc, d])
    tokens = [b"a", b"b", b"c", b"d", b"x", b"aaabccx", b"aaabccd", b"abccx", b"ccx", b"ccd", b"aabccx", b"bccd"]
    vocab, naive = vocabulary(tokens, all_bytes=False), NaiveLexing(ir)
    grammar = cd.Compiler(vocab).compile_ir(ir)
    for text in (b"aaabccx", b"aaabccd"):
        matcher, threads = grammar.matcher(), naive.start()
        for byte in text:
            assert mask(matcher) == naive.allowed(threads, vocab.tokens)
            token = tokens.index(bytes([byte]))
            assert matcher.accept_token(token)
            threads = naive.accept(threads, token, vocab.tokens[token])
        assert matcher.is_accepting()


@pytest.mark.parametrize("lexing", [LONGEST, LAZY])
def test_readings_that_one_lexeme_alone_leaves_apart_are_one(lexing: str) -> None:
    """``a`` is a lexeme of its own, or ends where it cannot go on: texts of any length, cut in as many ways as there are."""
    ir = GrammarIR()
    ir.start, run = ir.nonterminal("S"), ir.nonterminal("RUN")
    exact, alone = ir.lexeme(expr.literal(b"a"), lexing=EXACT), ir.lexeme(expr.literal(b"a"), lexing=lexing)
    for right in ([run, ir.start, alone], [exact, alone], [alone, ir.start, alone]):
        ir.rule(ir.start, right)
    for right in ([exact], [exact, run], [exact, run, exact]):
        ir.rule(run, right)
    ir.lexeme(expr.literal(b"b"), lexing=LONGEST)  # which no rule uses
    vocab = vocabulary([b"a"], all_bytes=False)
    matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
    for length in range(60):
        assert mask(matcher) == ({0, *vocab.eos_token_ids} if length == 2 or length > 3 else {0}), length
        assert matcher.accept_token(0)


CUT_IN_MANY_WAYS = """{options}
start: (r | s)*
r: s s | T |
s: <[{bound}]>{{0,9}} T | <[0-5]> s
T: /[ab]*a?[ab]{{0,9}}/
%ignore {skip}
"""


@pytest.mark.parametrize(
    ("options", "skip"), [("", "/[ab]+/"), ('%llguidance {"ignore_once": true, "allow_initial_skip": true}', "T")]
)
@pytest.mark.parametrize("bound", ["0-1", "0-0", "4-4"])
def test_token_terminals_where_a_text_is_cut_in_many_ways(options: str, skip: str, bound: str) -> None:
    """Where terminals lead from many pairs is memoised by what stands for a token, and what its bytes add by that cursor."""
    ir = cd.Lark(CUT_IN_MANY_WAYS.format(options=options, skip=skip, bound=bound)).rules(cd.Limits())
    terminals = {
        symbol: {token for first, last in some.ranges for token in range(first, last + 1)}
        for symbol, some in ir.token_sets.items()
    }
    naive = NaiveLexing(ir, terminals)
    vocab = vocabulary([b"a", b"b", b"ab", b"ba", b"aab"], all_bytes=False)
    grammar = cd.Compiler(vocab).compile_ir(ir)
    most = 0
    for seed in range(cases(8, 1)):
        rng = random.Random(seed)
        matcher, threads = grammar.matcher(), naive.start()
        for _ in range(7):
            expected = naive.allowed(threads, vocab.tokens)
            accepting = naive.accepting(threads)
            assert mask(matcher) == expected | (set(vocab.eos_token_ids) if accepting else set())
            followed = {token for token in range(vocab.size) if matcher.validate_tokens([token])}
            assert followed - set(vocab.eos_token_ids) == expected
            most = max(most, len(list(grammar._current().pairs(matcher._place()[1]))))
            if len(threads) > 100:
                break
            token = rng.choice(sorted(expected))
            assert matcher.accept_token(token)
            threads = naive.accept(threads, token, vocab.tokens[token])
    assert most > 12
