"""Late rules: a grammar with families of nonterminals has the masks of the same grammar with all rules written out."""

from __future__ import annotations

import gc
import itertools
import random
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np
import pytest
from engine_tools import seeds
from naive import Naive

from cdplugin import expr
from cdplugin.compiler import Compiler
from cdplugin.errors import GrammarError
from cdplugin.ir import Family, GrammarIR, Symbol
from cdplugin.matcher import Grammar
from cdplugin.specs.base import JsonSchema
from cdplugin.vocab.vocabulary import Vocabulary

KEYS = b"abcd"
TEXTS = [bytes([b]) for b in range(256)] + [b"ab", b"a,", b"b,c", b"{a", b"d}", b",d}", b"x(", b"(x", b"))"]
VOCAB = Vocabulary.from_bytes([*TEXTS, b"</s>"], eos_token_ids=len(TEXTS))


class Members(Family):
    """``{a,b}``: distinct keys in any order, some of them required, at least ``low`` of them."""

    name = "members"

    def __init__(self, ir: GrammarIR, pairs: Sequence[Symbol], required: frozenset[int], low: int) -> None:
        self.ir, self.pairs, self.required, self.low = ir, pairs, required, low
        self.comma = ir.lexeme(expr.literal(b","), "comma")

    def uses(self) -> Iterable[Symbol]:
        return [self.comma, *self.pairs]

    def _done(self, seen: frozenset[int]) -> bool:
        return self.required <= seen and len(seen) >= self.low

    def nullable(self, value: Hashable) -> bool:
        assert isinstance(value, frozenset)
        return self._done(value)

    def satisfiable(self, value: Hashable, productive: Callable[[Symbol], bool]) -> bool:
        usable = {i for i, pair in enumerate(self.pairs) if productive(pair)}
        return self.required <= usable and len(usable) >= self.low

    def expand(self, value: Hashable, productive: Callable[[Symbol], bool]) -> Iterable[Sequence[Symbol]]:
        assert isinstance(value, frozenset)
        if self._done(value):
            yield ()
        for i, pair in enumerate(self.pairs):
            if i not in value and productive(pair):
                after = self.ir.instance(self, value | {i})
                yield (self.comma, pair, after) if value else (pair, after)


def objects(required: frozenset[int], low: int, values: Sequence[expr.Expr], nested: bool) -> GrammarIR:
    """An object whose pair ``i`` is the key ``KEYS[i]`` and a value, or an object in parentheses if ``nested``."""
    ir = GrammarIR()
    start = ir.start = ir.nonterminal("object")
    pairs = []
    for key, value in zip(KEYS, values, strict=False):
        pair = ir.nonterminal(chr(key))
        ir.rule(pair, [ir.lexeme(expr.literal(bytes([key]))), ir.lexeme(value)])
        pairs.append(pair)
    if nested:
        ir.rule(pairs[0], [ir.lexeme(expr.literal(b"x(")), start, ir.lexeme(expr.literal(b")"))])
    members = Members(ir, pairs, required, low)
    ir.rule(start, [ir.lexeme(expr.literal(b"{")), ir.instance(members, frozenset()), ir.lexeme(expr.literal(b"}"))])
    return ir


def written_out(ir: GrammarIR) -> GrammarIR:
    """The same grammar with every instance's rules as plain rules."""
    done: set[Symbol] = set()
    while pending := [s for s in ir.instances if s not in done]:
        for symbol in pending:
            family, value = ir.instances[symbol]
            for right in family.expand(value, lambda s: s not in (~t for t, e in enumerate(ir.lexemes) if e is expr.EMPTY)):
                ir.rule(symbol, right)
            done.add(symbol)
    return ir


def masks_equal(lazy: GrammarIR, plain: GrammarIR, rng: random.Random) -> int:
    naive = Naive(plain)
    grammar = Compiler(VOCAB).compile_ir(lazy)
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    ended = 0
    for _ in range(6):
        matcher, prefix = grammar.matcher(), b""
        for _ in range(10):
            matcher.fill_next_token_bitmask(row)
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: VOCAB.size]
            allowed = set(np.flatnonzero(bits).tolist())
            expected = naive.allowed_tokens(prefix, TEXTS) | ({len(TEXTS)} if naive.accepts(prefix) else set())
            assert allowed == expected, prefix
            choices = sorted(allowed - {len(TEXTS)})
            ended += len(TEXTS) in allowed
            if not choices:
                break
            token = rng.choice(choices)
            assert matcher.accept_token(token)
            prefix += TEXTS[token]
    return ended


@pytest.mark.parametrize("seed", seeds(12, 12))
def test_masks_are_those_of_the_grammar_written_out(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randint(1, 4)
    required = frozenset(rng.sample(range(n), rng.randint(0, n)))
    low = rng.randint(0, n)
    values = [rng.choice([expr.literal(b""), expr.literal(b"1"), expr.repeat(expr.literal(b"1"), 0, 2)]) for _ in range(n)]
    nested = rng.random() < 0.5
    lazy, plain = objects(required, low, values, nested), written_out(objects(required, low, values, nested))
    masks_equal(lazy, plain, rng)


def test_members_that_match_nothing_are_left_out() -> None:
    values = [expr.literal(b"1"), expr.EMPTY, expr.literal(b"2")]
    plain = written_out(objects(frozenset(), 2, values, False))
    assert masks_equal(objects(frozenset(), 2, values, False), plain, random.Random(1))
    with pytest.raises(GrammarError, match="unsatisfiable"):
        Compiler(VOCAB).compile_ir(objects(frozenset({1}), 0, values, False))
    with pytest.raises(GrammarError, match="unsatisfiable"):
        Compiler(VOCAB).compile_ir(objects(frozenset(), 3, values, False))


def test_only_values_that_a_text_leads_to_cost_anything() -> None:
    values = [expr.literal(b"1")] * 4
    ir = objects(frozenset(), 0, values, False)
    grammar = Compiler(VOCAB).compile_ir(ir)
    assert len(ir.instances) == 1
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"{a1,b1") == 6
    assert len(ir.instances) < 12


def test_every_order_is_accepted_and_repeats_are_not() -> None:
    grammar = Compiler(VOCAB).compile_ir(objects(frozenset({0, 1}), 0, [expr.literal(b"1")] * 3, False))
    for order in itertools.permutations("abc"):
        text = ("{" + ",".join(k + "1" for k in order) + "}").encode()
        matcher = grammar.matcher()
        assert matcher.accept_tokens(text) == len(text) and matcher.is_accepting()
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"{a1,a1}") == 4
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"{a1,c1}") == 6


def test_a_fresh_arena_makes_the_rules_again() -> None:
    values = [expr.literal(b"1")] * 4
    grammar = Compiler(VOCAB).compile_ir(objects(frozenset(), 0, values, False))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"{a1,b1") == 6
    grammar._arena.over_budget = True
    assert matcher.accept_tokens(b",a") == 1
    assert matcher.accept_tokens(b"c1}") == 3 and matcher.is_accepting()


def test_a_grammar_that_nobody_holds_is_gone() -> None:
    """At once, without the garbage collector: a server lets go of grammars as fast as it compiles them."""
    schema = {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}}
    compiler = Compiler(VOCAB)
    gc.collect()
    gc.disable()
    try:
        grammar = compiler.compile_ir(JsonSchema(schema, property_order="any").to_ir(compiler.limits))
        matcher = grammar.matcher()
        assert matcher.accept_tokens(b'{"b":null') == 9 and grammar._arena.expand is not None
        arena = weakref.ref(grammar._arena)
        del grammar, matcher
        assert arena() is None
    finally:
        gc.enable()


def test_rules_are_made_late_without_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over all objects of the process, in the middle of a mask, took 100 ms."""
    schema = {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}}
    compiler = Compiler(VOCAB)
    grammar = compiler.compile_ir(JsonSchema(schema, property_order="any").to_ir(compiler.limits))
    expand, was_on = grammar._arena.expand, []

    def noted(nonterminal: int) -> None:
        was_on.append(gc.isenabled())
        expand(nonterminal)

    monkeypatch.setattr(grammar._arena, "expand", noted)
    monkeypatch.setattr(noted, "nbytes", 0, raising=False)
    assert grammar.matcher().accept_tokens(b'{"b":null,"a":null}') == 19
    assert was_on and not any(was_on) and gc.isenabled()


class Slow(Family):
    """A family whose rules take until somebody says so."""

    name = "slow"

    def __init__(self, then: int) -> None:
        self.then = then
        self.began, self.go_on = threading.Event(), threading.Event()

    def uses(self) -> Iterable[Symbol]:
        return (self.then,)

    def nullable(self, value: Hashable) -> bool:
        return False

    def satisfiable(self, value: Hashable, productive: Callable[[Symbol], bool]) -> bool:
        return productive(self.then)

    def expand(self, value: Hashable, productive: Callable[[Symbol], bool]) -> Iterable[Sequence[Symbol]]:
        self.began.set()
        assert self.go_on.wait(60)
        return [(self.then,)]


def test_rules_of_one_grammar_do_not_wait_for_those_of_another() -> None:
    """One lock for the process: while a spec's rules were made, every other request that needed rules stood still."""
    compiler = Compiler(VOCAB)

    def grammar() -> tuple[Grammar, Slow]:
        ir = GrammarIR()
        family = Slow(ir.lexeme(expr.literal(b"b"), "b"))
        ir.start = ir.nonterminal("start")
        ir.rule(ir.start, [ir.lexeme(expr.literal(b"a"), "a"), ir.instance(family, 0)])
        return compiler.compile_ir(ir), family

    (slow, waits), (quick, goes) = grammar(), grammar()
    goes.go_on.set()
    answers: list[int] = []
    held = threading.Thread(target=lambda: answers.append(slow.matcher().accept_tokens(b"ab")))
    held.start()
    assert waits.began.wait(60)
    other = threading.Thread(target=lambda: answers.append(quick.matcher().accept_tokens(b"ab")), daemon=True)
    other.start()
    other.join(30)
    assert answers == [2], "the other grammar's rules waited"
    waits.go_on.set()
    held.join(60)
    assert answers == [2, 2]
