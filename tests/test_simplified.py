"""Masks beside words that are spelled out (simplified states): each token of each mask is followed by itself."""

from __future__ import annotations

import random

import pytest
from engine_tools import mask, seeds, vocabulary

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import GrammarIR
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout

LETTERS = b"ab"
PIECES = [
    b"a",
    b"b",
    b"ab",
    b"ba",
    b"aab",
    b"a:",
    b"b:",
    b":",
    b":1",
    b"ab:1",
    b"a:1;",
    b";a",
    b"1;b",
    b"b:1;ab",
    b" ",
    b"  ",
    b" :",
    b"a :",
]
VOCAB = vocabulary([piece for piece in PIECES if len(piece) > 1])


def random_members(rng: random.Random) -> GrammarIR:
    """Members ``name: value;`` with some names of their own, and others that must be none of these."""
    ir = GrammarIR()
    letter = expr.byte_class(LETTERS)
    space = expr.repeat(expr.byte_class(b" "), 0, 3)
    colon = expr.cat(space, expr.literal(b":"))
    words = {
        bytes(rng.choice(LETTERS) for _ in range(rng.randint(0 if rng.random() < 0.2 else 1, 4)))
        for _ in range(rng.randint(1, 4))
    }
    longest = rng.choice((None, None, 4))
    text = expr.repeat(letter, rng.choice((0, 1)), longest)
    exceptions = expr.literals(words)
    if rng.random() < 0.3:  # spelled with a head that may be empty
        exceptions = expr.cat(expr.repeat(expr.literal(b"b"), 0, 2), exceptions)
    other = expr.both(text, expr.complement(exceptions))
    quote = rng.choice((expr.EPSILON, expr.literal(b'"')))
    value = {word: ir.lexeme(expr.literal(bytes([49 + i % 3, 59])), f"value{i}") for i, word in enumerate(sorted(words))}
    members, member = ir.nonterminal("members"), ir.nonterminal("member")
    for word in sorted(words):
        name = ir.lexeme(expr.cat(quote, expr.literal(word), quote, colon), "name")
        ir.rule(member, [name, value[word]])
    ir.rule(member, [ir.lexeme(expr.cat(quote, other, quote, colon), "other"), ir.lexeme(expr.literal(b"9;"), "nine")])
    ir.rule(members, [])
    ir.rule(members, [members, member])
    ir.start = members
    return ir


@pytest.mark.parametrize("seed", seeds(100, 12))
def test_masks_beside_words(seed: int) -> None:
    rng = random.Random(seed)
    ir = random_members(rng)
    matcher = cd.Compiler(VOCAB).compile_ir(ir).matcher()
    stepper = cd.Compiler(VOCAB).compile_ir(ir).matcher()  # asked for no mask, it knows of no simplified state
    for _ in range(25):
        allowed = mask(matcher)
        followed = {token for token in range(VOCAB.size) if stepper.fork().accept_token(token)}
        assert allowed == followed, (seed, matcher.tokens)
        going_on = sorted(allowed - set(VOCAB.eos_token_ids))
        if not going_on:
            break
        token = rng.choice(going_on)
        assert matcher.accept_token(token) and stepper.accept_token(token)


def test_a_base_is_made_from_that_of_a_plainer_state() -> None:
    """Otherwise the test above would test nothing."""
    properties = {"name": {"type": "string"}, "size": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "additionalProperties": {"type": "null"}}
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema))
    matcher = grammar.matcher()
    for byte in b'{"na':
        mask(matcher)
        matcher.accept_token(byte)
    mask(matcher)
    header = grammar._arena.header
    records = grammar._arena.tables[layout.BASES][: int(header[layout.N_BASES]) * mask_layout.BASE_WORDS].reshape(
        -1, mask_layout.BASE_WORDS
    )
    assert (records[:, mask_layout.B_PARENT] >= 0).any()
