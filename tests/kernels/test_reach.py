"""Counts cut to what the trie has below a node (:func:`cdplugin.kernels.lexer.lexer.saturated_within`).

Masks equal stepping each token, whatever the counts are, and a walk meets few states.
"""

from __future__ import annotations

import random

import pytest
from engine_tools import PLAIN, at_least, cases, compare_masks, ir_of, mask, vocabulary

import cdplugin as cd
from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.kernels.store import layout

LENGTHS = (3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 70)
"""On both sides of the reaches that counts are cut to."""
TOKENS = [
    *((text * size)[:size] for size in LENGTHS for text in (b"a", b"ab ", b"a-", "aé".encode(), b"1", b" ")),
    *((b"ab" * size)[: size - 1] + end for size in LENGTHS for end in (b'"', b",", b"-", b" ", b"\n")),
    *(b"ab", b"aa", b"a ", b" a", b'a"', b'","', b"-a", b"a-b-", b"12", b"a b a b c", "é".encode(), "ééé".encode()),
]
VOCAB = vocabulary(list(dict.fromkeys(TOKENS)))
COMPILER = cd.Compiler(VOCAB)
QUOTE = expr.literal(b'"')
WORD, SPACE = expr.byte_class(b"ab1-\xc3\xa9"), expr.byte_class(b" ")


def words(low: int, high: int) -> Expr:
    word = expr.repeat(WORD, 1)
    return expr.cat(expr.repeat(expr.cat(word, expr.repeat(SPACE, 1)), low, high), word)


def random_text(rng: random.Random) -> Expr:
    """Counts around the reaches: characters, words, parts with what separates them, some beside a length."""

    def count(most: int = 80) -> int:
        return max(1, min(most, rng.choice(LENGTHS) + rng.randrange(-1, 2)))

    some = rng.choice([PLAIN, WORD, expr.byte_class(b"ab"), expr.cat(WORD, WORD), expr.alt(WORD, expr.literal(b"ab "))])
    high = count()
    low = rng.choice([0, 0, 1, high // 2, high])
    shape = rng.randrange(7)
    if shape == 0:
        return expr.repeat(some, low, high)
    if shape == 1:
        return words(min(low, 3), count(20) + 3)
    if shape == 2:
        return expr.both(expr.repeat(PLAIN, 0, high), words(0, count(20)))
    if shape == 3:
        part = expr.repeat(WORD, rng.choice([1, 2, 8]), 8 + count(20))
        return expr.cat(part, expr.repeat(expr.cat(expr.literal(b"-"), part), low // 8, count()))
    if shape == 4:
        return expr.alt(expr.repeat(some, low, high), words(0, 2), expr.cat(expr.repeat(SPACE, 0, count()), WORD))
    if shape == 5:
        return expr.cat(expr.repeat(expr.byte_class(b"ab"), low, high), expr.literal(b"-"), expr.repeat(WORD, count()))
    return expr.both(expr.repeat(PLAIN, low, high), expr.cat(expr.repeat(PLAIN), expr.literal(b"ab"), expr.repeat(PLAIN)))


@pytest.mark.parametrize("seed", range(6))
def test_masks_are_what_stepping_says(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(cases(40, 2)):
        first, second = random_text(rng), random_text(rng)
        if rng.random() < 0.6:
            first = expr.cat(QUOTE, first, QUOTE)
        after = expr.literal(rng.choice([b",", b"\n", b"a", b'"']))
        rules = rng.choice([[[first, after, "S"], [first]], [[first, after], [second]]])
        compared += compare_masks(COMPILER.compile_ir(ir_of({"S": rules})), rng, cases(3, 1), cases(8, 4))
    assert compared > at_least(400, 5)


def states_after(text: Expr, read: bytes) -> int:
    """How many lexer states there are after a mask behind ``read``."""
    grammar = COMPILER.compile_ir(ir_of({"S": [[expr.cat(QUOTE, text, QUOTE)]]}))
    matcher = grammar.matcher()
    for byte in read:
        assert matcher.accept_token(byte)
    mask(matcher)
    return int(grammar._arena.header[layout.N_LEXER_STATES])


def test_words_beside_a_length_need_few_states() -> None:
    """Neither count is reached by most tokens, nor by the few characters of which it is asked whether any may come: a state for
    each number of words and of characters would be hundreds.
    """
    solid = expr.repeat(
        expr.utf8_ranges(expr.negate_ranges([(0, 0x20), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F), (0x2028, 0x2029)])), 1
    )
    blank = expr.repeat(SPACE, 1)
    text = expr.cat(expr.repeat(expr.cat(solid, blank), 0, 9), solid)
    assert states_after(expr.both(expr.repeat(PLAIN, 0, 66), text), b'"a') < 500
