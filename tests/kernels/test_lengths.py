"""Conjunctions with a length: the numbers of :mod:`cdplugin.kernels.regex.lengths` beside a search by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
from engine_tools import at_least, cases, ids_of, status
from naive import Derivatives

import cdplugin as cd
from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.kernels.jit import decorators as jit
from cdplugin.kernels.regex.lengths import UNDECIDED, by_length

LETTER = expr.byte_class(b"abc")
CHARACTERS = [
    LETTER,
    expr.alt(expr.byte_class(b"ab"), expr.literal(b"ca")),  # of one and of two bytes
    expr.alt(expr.literal(b"a"), expr.literal(b"ab"), expr.literal(b"b"), expr.literal(b"c")),  # not uniquely decodable
]


def with_word(word: bytes) -> Expr:
    return expr.cat(expr.repeat(LETTER), expr.literal(word), expr.repeat(LETTER))


def random_conjunction(rng: random.Random) -> Expr:
    parts = [with_word(bytes(rng.choices(b"abc", k=rng.randint(1, 4)))) for _ in range(rng.randint(1, 3))]
    parts += [expr.complement(with_word(bytes(rng.choices(b"abc", k=rng.randint(1, 3))))) for _ in range(rng.randint(0, 2))]
    if rng.random() < 0.3:
        parts.append(expr.repeat(expr.cat(LETTER, LETTER, expr.byte_class(b"bc"))))
    low = rng.randint(0, 9)
    high = low + rng.randint(0, 9) if rng.random() < 0.7 else None
    if high is None and rng.random() < 0.5:  # few lengths at all
        parts.append(expr.repeat(LETTER, rng.randint(0, 4), rng.randint(4, 12)))
    joint = expr.both(*parts, expr.repeat(rng.choice(CHARACTERS), low, high))
    return expr.cat(joint, expr.literal(b"!")) if rng.random() < 0.3 else joint


@pytest.mark.skipif(not jit.DISABLED, reason="an inner kernel is called")
def test_what_the_numbers_say_is_so() -> None:
    rng = random.Random(5)
    decided = 0
    for _ in range(cases(400, 40)):
        tree = random_conjunction(rng)
        reference = Derivatives()
        alive = reference.alive(reference.convert(tree))
        arena, (e,) = ids_of(tree)
        for most_nodes in (3, 1 << 20, 0):
            answer = by_length(arena.address, e, most_nodes)
            while answer < 0:
                arena.recover(answer)
                answer = by_length(arena.address, e, most_nodes)
            assert answer in (UNDECIDED, alive), (tree, most_nodes)
        decided += answer != UNDECIDED
    assert decided > at_least(200, 20)


def least_length(words: list[bytes], denied: bytes) -> dict[int, bool]:
    """By number of letters up to 40: whether a text of so many has all the words and not the denied one. A search over texts'
    last letters and the words that they have had, by hand.
    """
    keep = max(map(len, [*words, denied])) - 1
    level = {(b"", frozenset[int]())}
    found = {}
    for length in range(41):
        found[length] = any(len(had) == len(words) for _, had in level)
        following = set()
        for last, had in level:
            for byte in b"abc":
                text = last + bytes([byte])
                if not text.endswith(denied):
                    now = had | {i for i, word in enumerate(words) if text.endswith(word)}
                    following.add((text[-keep:] if keep else b"", now))
        level = following
    return found


def test_policies_are_decided_for_every_length() -> None:
    rng = random.Random(6)
    for _ in range(cases(40, 4)):
        words = [bytes(rng.choices(b"abc", k=rng.randint(2, 5))) for _ in range(rng.randint(2, 5))]
        denied = bytes(rng.choices(b"abc", k=rng.randint(2, 4)))
        found = least_length(words, denied)
        parts = [*map(with_word, words), expr.complement(with_word(denied))]
        bounds = sorted((low, low + rng.randint(0, 3)) for low in rng.sample(range(37), 12))
        arena, ids = ids_of(*(expr.both(*parts, expr.repeat(LETTER, low, high)) for low, high in bounds))
        for (low, high), e in zip(bounds, ids, strict=True):
            assert status(arena, e)[0] == any(found[n] for n in range(low, high + 1)), (words, denied, low, high)


def test_texts_in_steps_of_several_characters_have_any_length_at_least() -> None:
    """No node has a loop of its own; whether the text may be as long as is asked for is seen from a cycle."""
    steps = expr.repeat(expr.cat(expr.byte_class(b"ab"), LETTER, expr.byte_class(b"c")), 1)
    ends = expr.cat(LETTER, LETTER, expr.repeat(expr.literal(b"a"), 0, 2))
    parts = {"steps": steps, "steps that end": expr.cat(steps, ends), "ends": ends}
    for low in (2, 5, 10_000):
        long = expr.repeat(LETTER, low)
        arena, ids = ids_of(*(expr.both(part, long) for part in parts.values()))
        found = dict(zip(parts, (status(arena, e)[0] for e in ids), strict=True))
        assert found == {"steps": True, "steps that end": True, "ends": low <= 4}, low
        assert arena.counters()["derivatives"] < 1_000


def test_texts_in_steps_come_to_a_length_within_bounds() -> None:
    """By turns of a cycle where the bounds hold one of those lengths, else by search."""
    rng = random.Random(7)
    for _ in range(cases(60, 6)):
        start, one, other = rng.randint(0, 3), rng.randint(1, 9), rng.randint(1, 9)
        steps = expr.alt(*(expr.literal(letter * n) for letter, n in ((b"a", one), (b"b", other))))
        text = expr.cat(expr.literal(b"c" * start), expr.repeat(steps), expr.literal(b"c"))
        lengths = {start + 1 + i * one + j * other for i in range(80) for j in range(80)}
        bounds = [(low, low + rng.randint(0, 3)) for low in rng.sample(range(70), 6)]
        arena, ids = ids_of(*(expr.both(text, expr.repeat(LETTER, low, high)) for low, high in bounds))
        for (low, high), e in zip(bounds, ids, strict=True):
            found = status(arena, e)[0]
            assert found == any(low <= n <= high for n in lengths), (start, one, other, low, high)
            assert status(arena, e)[0] == found


def test_lines_of_a_length_fill_thousands_of_characters() -> None:
    lines = expr.cat(expr.repeat(expr.cat(expr.repeat(LETTER, 64, 64), expr.literal(b"!"))), expr.repeat(LETTER, 1, 64))
    anything = expr.alt(LETTER, expr.literal(b"!"))
    arena, (many, none) = ids_of(
        expr.both(lines, expr.repeat(anything, 1600, 8000)), expr.both(lines, expr.repeat(anything, 8125, 8125))
    )
    assert status(arena, many)[0] and arena.counters()["derivatives"] < 5_000
    assert not status(arena, none)[0]


def accepted_somehow(text: str, schema: dict) -> bool:
    return len(text) <= schema["maxLength"] and all(any(c in group for c in text) for group in GROUPS) and "abba" not in text


GROUPS = ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "!#$%&*+-.")


def test_password_policies_work_to_the_last_character() -> None:
    """What is open at the last places is judged by hand: each text that is a prefix of a legal one is followed, no other."""
    schema = {
        "type": "string",
        "minLength": 8,
        "maxLength": 12,
        "allOf": [{"pattern": "[a-z]"}, {"pattern": "[A-Z]"}, {"pattern": "[0-9]"}, {"pattern": "[!#$%&*+.-]"}],
        "not": {"pattern": "abba"},
    }
    vocab = cd.Vocabulary.from_bytes([bytes([byte]) for byte in range(256)] + [b"</s>"], eos_token_ids=256)
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(schema, whitespace="compact"))
    bitmask = cd.allocate_token_bitmask(1, vocab.size)
    rng = random.Random(7)
    for _ in range(cases(40, 5)):
        matcher = grammar.matcher()
        matcher.accept_token(ord('"'))
        text = ""
        while len(text) < schema["maxLength"]:
            matcher.fill_next_token_bitmask(bitmask)
            allowed = np.flatnonzero(np.unpackbits(bitmask.numpy().view(np.uint8), bitorder="little"))
            for c in "aB3#":
                left = schema["maxLength"] - len(text) - 1
                missing = sum(not any(x in group for x in text + c) for group in GROUPS)
                assert (ord(c) in allowed) == (missing <= left and "abba" not in text + c), (text, c)
            legal = accepted_somehow(text, schema) and len(text) >= schema["minLength"]
            assert (ord('"') in allowed) == legal, text
            choices = [c for c in "aaaabbB3#" if ord(c) in allowed]
            text += rng.choice(choices)
            assert matcher.accept_token(ord(text[-1]))


@pytest.mark.skipif(not jit.DISABLED, reason="an inner kernel is called")
@pytest.mark.parametrize(("high", "alive"), [(321, 0), (322, 1)])
def test_a_cycle_beside_the_shortest_way_does_not_count_from_there(high: int, alive: int) -> None:
    """``a`` has one letter, ``b(c{64})*b`` two and any number of turns: 322 of 300 and more, not 321."""
    turns = expr.repeat(expr.repeat(expr.byte_class(b"c"), 64, 64))
    texts = expr.alt(expr.literal(b"a"), expr.cat(expr.literal(b"b"), turns, expr.literal(b"b")))
    arena, (e,) = ids_of(expr.both(texts, expr.repeat(LETTER, 300, high)))
    answer = by_length(arena.address, e, 1 << 20)
    while answer < 0:
        arena.recover(answer)
        answer = by_length(arena.address, e, 1 << 20)
    assert answer in (UNDECIDED, alive)
