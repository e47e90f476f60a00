"""A lexer state leaves out alternatives that another one contains; what may follow a text stays the same."""

from __future__ import annotations

import random

import pytest
from engine_tools import PLAIN, at_least, cases, check_walk, ir_of, vocabulary
from naive import Naive

import cdplugin as cd
from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.kernels.store import layout

TOKENS = [
    b"ab",
    b"aa",
    b"ba",
    b"abb",
    b"aab",
    b"1",
    b"12",
    b"1a",
    b"a1b",
    b"\n",
    b"a\n",
    b"\xc3\xa9",
    b"\xc3",
    b"\xa9b",
    b'"',
    b'b"',
    b"abab",
]
VOCAB = vocabulary(TOKENS, all_bytes=False)
SPELLABLE = {byte for token in TOKENS for byte in token}
COMPILER = cd.Compiler(VOCAB)
BYTES = cd.Compiler(vocabulary())
ANY = expr.repeat(PLAIN)
QUOTE = expr.literal(b'"')
SMALL = expr.byte_class(b"ab1")
LINES = expr.byte_class(b"ab\n")  # not all of these are plain characters


def search(*parts: Expr, around: Expr = ANY) -> Expr:
    """``C* … C*``"""
    return expr.cat(around, *parts, around)


def parts_after(lexeme: Expr, text: bytes) -> list[int]:
    """How many alternatives are open after a text, of each expression of the lexer state, an ``&`` being one."""
    matcher = BYTES.compile_ir(ir_of({"S": [[lexeme]]})).matcher()
    assert matcher.accept_tokens(text) == len(text)
    arena, _, cursor = matcher._here()
    found = []
    for _, state in arena.pairs(cursor):
        for word in arena.open_words(state):
            e = word & layout.LOW_32
            if arena.kind(e) == layout.K_CAT:
                e = arena.sequence(e)[0]
            found.append(len(arena.sequence(e)) if arena.kind(e) == layout.K_ALT else 1)
    return found


def test_a_pattern_that_was_found_is_not_looked_for_again() -> None:
    lexeme = expr.cat(QUOTE, search(expr.literal(b"ab")), QUOTE)
    assert parts_after(lexeme, b'"1a') == [2]
    assert parts_after(lexeme, b'"1ab') == [1]
    assert parts_after(lexeme, b'"1ab a') == [1]


@pytest.mark.parametrize("count", [3, 40])
def test_of_a_run_the_longest_beginning_counts(count: int) -> None:
    lexeme = expr.cat(QUOTE, search(expr.repeat(SMALL, count, count + 2)), QUOTE)
    assert parts_after(lexeme, b'"' + b"a" * (count - 1)) == [2]
    assert parts_after(lexeme, b'"' + b"a" * count) == [1]


@pytest.mark.parametrize("count", [3, 40])
def test_a_run_that_may_have_begun_anywhere_is_one_range(count: int) -> None:
    lexeme = expr.cat(QUOTE, search(expr.repeat(SMALL, count), expr.literal(b"!")), QUOTE)
    assert parts_after(lexeme, b'"' + b"a" * (count - 1)) == [2]
    assert max(parts_after(lexeme, b'"' + b"a" * (count + 5))) <= 3
    assert parts_after(lexeme, b'"' + b"a" * count + b"!") == [1]


def test_below_and_and_not() -> None:
    bounded = expr.cat(QUOTE, expr.both(expr.repeat(PLAIN, 0, 9), search(expr.literal(b"ab"))), QUOTE)
    both = expr.cat(QUOTE, expr.both(search(expr.literal(b"ab")), expr.complement(search(expr.literal(b"ba")))), QUOTE)
    for lexeme in (bounded, both):
        matcher = BYTES.compile_ir(ir_of({"S": [[lexeme]]})).matcher()
        assert matcher.accept_tokens(b'"ab') == 3
        arena, _, cursor = matcher._here()
        ((_, state),) = arena.pairs(cursor)
        (word,) = arena.open_words(state)
        first = arena.sequence(word & layout.LOW_32)[0]
        if lexeme is bounded:  # nothing but the length is left
            assert arena.kind(first) == layout.K_REPEAT and arena.sequence(first)[1:] == [0, 7]
        else:  # "ab" was found; what is left is not to have "ba"
            assert layout.K_ALT not in map(arena.kind, arena.sequence(first))


def test_what_another_does_not_contain_stays() -> None:
    """Lines are no plain characters, other tails are no tails, and one that comes later counts more, not less."""
    lines = expr.cat(QUOTE, expr.alt(expr.cat(expr.repeat(LINES, 2), ANY), ANY), QUOTE)
    assert parts_after(lines, b'"a') == [2]
    tails = expr.alt(expr.cat(expr.literal(b"ab"), ANY, expr.literal(b"!")), expr.cat(ANY, QUOTE))
    assert parts_after(tails, b"a") == [2]


def random_part(rng: random.Random) -> Expr:
    some = rng.choice([SMALL, SMALL, LINES, PLAIN, expr.byte_class(b"a"), expr.utf8_ranges(((0xE9, 0xE9), (0x61, 0x61)))])
    low = rng.choice([1, 2, 3])
    shape = rng.randrange(4)
    if shape == 0:
        return expr.literal(rng.choice([b"ab", b"a", b"aba", "é".encode()]))
    if shape == 1:
        return expr.repeat(some, low, rng.choice([None, low, low + 1]))
    if shape == 2:
        return expr.cat(expr.repeat(some, low, low), expr.literal(b"b"))
    return expr.alt(expr.literal(b"ab"), expr.repeat(some, low, low))


def random_lexeme(rng: random.Random) -> Expr:
    around = rng.choice([ANY, ANY, ANY, expr.repeat(SMALL), expr.repeat(LINES)])
    one, two = (search(random_part(rng), around=around) for _ in range(2))
    shape = rng.randrange(6)
    if shape == 0:
        text = one
    elif shape == 1:
        text = expr.both(expr.repeat(PLAIN, 0, rng.choice([3, 5, 30])), one)
    elif shape == 2:
        text = expr.both(one, two)
    elif shape == 3:
        text = expr.both(one, expr.complement(two))
    elif shape == 4:
        text = expr.alt(one, expr.cat(random_part(rng), rng.choice([around, ANY]), rng.choice([expr.EPSILON, QUOTE])))
    else:  # exactly one of two
        text = expr.alt(expr.both(one, expr.complement(two)), expr.both(two, expr.complement(one)))
    return expr.cat(QUOTE, text, QUOTE) if rng.random() < 0.6 else text


@pytest.mark.parametrize("seed", range(6))
def test_masks_against_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(cases(60, 6)):
        ir = ir_of({"S": [[random_lexeme(rng)], [random_lexeme(rng), expr.literal(b"\n")]]})
        naive = Naive(ir, SPELLABLE)
        try:
            grammar = COMPILER.compile_ir(ir)
        except cd.GrammarError:
            assert naive.empty
            continue
        compared += check_walk(grammar, naive, rng, cases(40, 15))
    assert compared > at_least(600, 20)
