"""The reference itself, beside something simpler still: languages written out word by word up to a length."""

from __future__ import annotations

import itertools
import random

import pytest
from naive import Derivatives, Naive, random_expr, random_grammar, random_tokens

from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.ir import GrammarIR

ALPHABET = b"xyz"  # grammars mention x and y only; z stands for every other byte
SHORT, LONG = 4, 8  # words compared; words of a lexeme written out to see what a beginning can become


def strings(longest: int) -> list[bytes]:
    return [bytes(w) for n in range(longest + 1) for w in itertools.product(ALPHABET, repeat=n)]


ALL = frozenset(strings(LONG))


def concatenate(left: set[bytes] | frozenset[bytes], right: set[bytes] | frozenset[bytes], longest: int) -> set[bytes]:
    by_length: dict[int, list[bytes]] = {}
    for word in right:
        by_length.setdefault(len(word), []).append(word)
    return {u + v for u in left for n in range(longest - len(u) + 1) for v in by_length.get(n, ())}


def words(e: Expr) -> set[bytes]:
    """The words of ``e`` up to LONG bytes, by the definition of each operator."""
    if e.op == expr.EMPTY_OP:
        return set()
    if e.op == expr.EPSILON_OP:
        return {b""}
    if e.op == expr.BYTES_OP:
        return {bytes([b]) for b in ALPHABET if e.args[0] >> b & 1}
    if e.op == expr.LITERALS_OP:
        return set(e.args)
    if e.op == expr.ALT_OP:
        return set().union(*map(words, e.args))
    if e.op == expr.AND_OP:
        return set(ALL).intersection(*map(words, e.args))
    if e.op == expr.NOT_OP:
        return set(ALL - words(e.args[0]))
    if e.op == expr.CAT_OP:
        out = {b""}
        for part in e.args:
            out = concatenate(out, words(part), LONG)
        return out
    child, low, high = e.args
    part = words(child)
    power = {b""}
    for _ in range(low):
        power = concatenate(power, part, LONG)
    out = set(power)
    for _ in range(LONG + 1 if high is None else high - low):
        power = concatenate(power, part, LONG)
        out |= power
    return out


def language(ir: GrammarIR) -> tuple[set[bytes], set[bytes]]:
    """Words and beginnings of words up to SHORT bytes, by fixpoint over the rules."""
    lexemes = {~t: words(e) for t, e in enumerate(ir.lexemes)}
    good = {s for s, w in lexemes.items() if w}
    while True:
        more = {left for left, right in ir.rules if good.issuperset(right)} - good
        if not more:
            break
        good |= more
    rules = [(left, right) for left, right in ir.rules if good.issuperset(right)]
    if ir.start not in good:
        return set(), set()
    lang: dict[int, set[bytes]] = {s: {w for w in ws if len(w) <= SHORT} for s, ws in lexemes.items()}
    begin: dict[int, set[bytes]] = {s: {w[:n] for w in ws for n in range(SHORT + 1)} for s, ws in lexemes.items()}
    for left, _ in rules:
        lang[left], begin[left] = set(), {b""}
    changed = True
    while changed:
        changed = False
        for left, right in rules:
            head = {b""}
            for symbol in right:
                new = concatenate(head, begin[symbol], SHORT) - begin[left]
                changed = changed or bool(new)
                begin[left] |= new
                head = concatenate(head, lang[symbol], SHORT)
            changed = changed or bool(head - lang[left])
            lang[left] |= head
    return lang[ir.start], begin[ir.start]


@pytest.mark.parametrize("seed", range(4))
def test_derivatives_against_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        e = random_expr(rng, b"xy", 2)
        reference = words(e)
        lexer = Derivatives()
        root = lexer.convert(e)
        assert lexer.alive(root) == bool(reference), e
        for word in strings(SHORT):
            node = root
            for byte in word:
                node = lexer.step(node, byte)
            assert lexer.nullable(node) == (word in reference), (e, word)
            assert lexer.alive(node) == any(w.startswith(word) for w in reference), (e, word)


@pytest.mark.parametrize("seed", range(8))
def test_grammars_against_enumeration(seed: int) -> None:
    rng = random.Random(1000 + seed)
    nonempty = 0
    for _ in range(100):
        ir = random_grammar(rng, boolean=seed % 2 == 0, nullable=seed % 4 < 2)
        naive = Naive(ir)
        lang, begin = language(ir)
        assert naive.empty == (not begin)
        nonempty += not naive.empty
        for text in strings(SHORT):
            assert naive.accepts(text) == (text in lang), (ir.rules, ir.lexemes, text)
            assert naive.viable(text) == (text in begin), (ir.rules, ir.lexemes, text)
    assert nonempty > 40


def test_allowed_tokens_is_viable_token_by_token() -> None:
    rng = random.Random(3)
    seen = 0
    for _ in range(100):
        ir = random_grammar(rng)
        tokens: list[bytes | None] = [*random_tokens(rng), None, b""]
        naive, other = Naive(ir), Naive(ir)
        prefix = b""
        for _ in range(4):
            allowed = naive.allowed_tokens(prefix, tokens)
            assert allowed == {i for i, t in enumerate(tokens) if t and other.viable(prefix + t)}
            seen += len(allowed)
            if not allowed:
                break
            prefix += tokens[rng.choice(sorted(allowed))] or b""
    assert seen > 1000


def test_spellable_bytes_cut_lexemes() -> None:
    ir = GrammarIR()
    ir.start = ir.nonterminal("S")
    ir.rule(ir.start, [ir.lexeme(expr.literals([b"xq", b"xy"]))])
    ir.rule(ir.start, [ir.lexeme(expr.literal(b"yq"))])
    assert Naive(ir).viable(b"y") and Naive(ir).accepts(b"xq")
    cut = Naive(ir, spellable=b"xy")
    assert not cut.viable(b"y") and not cut.viable(b"xq") and cut.accepts(b"xy")


def test_cycles_and_hidden_left_recursion() -> None:
    ir = GrammarIR()
    s, a, n = ir.nonterminal("S"), ir.nonterminal("A"), ir.nonterminal("N")
    x, maybe_y = ir.lexeme(expr.literal(b"x")), ir.lexeme(expr.optional(expr.literal(b"y")))
    ir.start = s
    for left, right in [(s, [n, s, x]), (s, [a]), (a, [s]), (a, [maybe_y]), (n, []), (n, [n, n])]:
        ir.rule(left, right)
    naive = Naive(ir)
    assert [naive.accepts(w) for w in (b"", b"y", b"x", b"yxx", b"xx", b"xy")] == [True, True, True, True, True, False]
