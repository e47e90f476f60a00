"""Rules with a parameter: written out in full or made late, they give the same masks and endings."""

from __future__ import annotations

import random
import re
from unittest.mock import patch

import pytest
from engine_tools import cases, mask_bits, vocabulary
from lark_cases import CASES

import cdplugin as cd
from cdplugin.frontends.lark import corners
from cdplugin.ir import GrammarIR

COMPILER = cd.Compiler(vocabulary([b"ab", b"ba", b"abc", b"cc", b"!!", b";;", b"a;", b" a", b"a b"]))
FUNCTIONS = ["_", "incr([0:2])", "decr([0:2])", "set_bit(0)", "set_bit(1)", "clear_bit(1)", "bit_and(2)", "bit_or(1)", "3", "0"]
CONDITIONS = ["", "", "", "%if lt(_, 3)", "%if bit_clear(0)", "%if bit_set(1)", "%if ne([0:2], 1)", "%if bit_count_le(_, 1)"]


def random_grammar(rng: random.Random) -> str:
    """Two rules with a parameter that refer to each other, behind a character or not, and one without."""

    def side() -> str:
        parts = [rng.choice(['"a"', '"b"', '"c"', "word", "T"]) for _ in range(rng.randint(0, 2))]
        for _ in range(rng.choice([0, 1, 1, 2])):
            parts.insert(rng.randint(len(parts) > 0, len(parts)), f"{rng.choice('xy')}::{rng.choice(FUNCTIONS)}")
        return " ".join([*(parts or ['""']), rng.choice(CONDITIONS)])

    rules = [f'{name}::_: {" | ".join(side() for _ in range(3))} | "b"' for name in "xy"]
    ignored = rng.choice(["", '%ignore " "'])
    start = 'start: x::0 ";" y::1\nword: "c" | "(" x::2 ")"\nT: /[ab]+!/'
    return "\n".join((start, *rules, ignored))


def both_ways(text: str) -> tuple[cd.Grammar, cd.Grammar]:
    """The grammar with its members written out, and with rules that are made late."""
    out = COMPILER.compile_ir(ir_of(text))
    with patch.object(corners, "MOST_MEMBERS", 0):
        return out, COMPILER.compile_ir(ir_of(text))


def ir_of(text: str) -> GrammarIR:
    return cd.Lark(text).to_ir(cd.Limits())


def walk(text: str, rng: random.Random) -> int:
    """How many masks of a random walk were compared."""
    matchers = [grammar.matcher() for grammar in both_ways(text)]
    n_masks = 0
    for _ in range(25):
        bits = mask_bits(matchers[0])
        assert bits == mask_bits(matchers[1]), (text, matchers[0].tokens)
        assert matchers[0].is_accepting() == matchers[1].is_accepting()
        allowed = [token for token in range(len(bits) * 8) if bits[token // 8] >> token % 8 & 1]
        n_masks += 1
        token = rng.choice(allowed)
        if not all(matcher.accept_token(token) for matcher in matchers) or matchers[0].is_terminated():
            break
    return n_masks


def test_random_grammars_give_the_same_masks() -> None:
    rng = random.Random(3)
    n_masks = n_written = 0
    for _ in range(cases(300, 10, 60)):
        text = random_grammar(rng)
        try:
            n_written += not ir_of(text).instances
            n_masks += sum(walk(text, rng) for _ in range(3))
        except cd.GrammarError as error:  # no text can end; both ways say so alike
            with patch.object(corners, "MOST_MEMBERS", 0), pytest.raises(type(error), match=re.escape(str(error))):
                COMPILER.compile_ir(ir_of(text))
    assert n_written > 0 and n_masks > 20


@pytest.mark.parametrize("name", ["counts", "permutation"])
def test_cases_of_the_peer(name: str) -> None:
    text, words = CASES[name]
    grammars = both_ways(text)
    assert not ir_of(text).instances
    for word in words:
        matchers = [grammar.matcher() for grammar in grammars]
        for byte in word.encode():
            assert mask_bits(matchers[0]) == mask_bits(matchers[1])
            assert all(matcher.accept_token(byte) for matcher in matchers)
        assert all(matcher.is_accepting() for matcher in matchers)


def test_many_members_are_left_to_be_made_late() -> None:
    most = corners.MOST_MEMBERS
    for n, is_written in ((most - 1, True), (most, False)):
        ir = ir_of(f'start: x::0\nx::_: "a" x::incr(_) %if lt(_, {n}) | "!"')
        assert (not ir.instances) == is_written
    assert ir_of('start: x::0\nx::_: "a" x::incr(_) | "!"').instances


def test_other_families_and_captures_are_left_alone() -> None:
    small = 'x::_: "a" x::incr([0:1]) %if lt(_, 1) | "!"'
    unique = '%json {"type": "array", "items": {"type": "integer"}, "uniqueItems": true}'
    assert not ir_of(f"start: x::0\n{small}").instances
    assert ir_of(f'start: x::0 end\nend[capture]: "?"\n{small}').instances
    assert ir_of(f"start: x::0 {unique}\n{small}").instances
    assert ir_of(f"start: x::0 inner\ninner: %lark {{ start: x::0\n{small} }}\n{small}").instances
