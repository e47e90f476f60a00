"""A text tried before a search: what it finds is right, and it takes a derivative for each byte, not for each byte class."""

from __future__ import annotations

import random

import pytest
from engine_tools import at_least, cases, ids_of, status
from naive import Derivatives

from cdplugin import expr
from cdplugin.engine.arena import Arena
from cdplugin.expr import Expr
from cdplugin.kernels.jit import decorators as jit
from cdplugin.kernels.regex.likely_text import finds_text
from cdplugin.kernels.store import layout

CHARACTER = expr.byte_range(32, 126)
TEXT = expr.repeat(CHARACTER)


def spelt(members: bytes) -> Expr:
    """Characters, each as it is or escaped."""
    return expr.alt(expr.byte_class(members), *(expr.literal(b"\\u%04x" % member) for member in members))


def derivatives(arena: Arena) -> int:
    return int(arena.header[layout.C_DERIVATIVES])


def random_part(rng: random.Random) -> Expr:
    word = bytes(rng.choices(b"abc", k=rng.randint(1, 4)))
    letters = expr.repeat(expr.byte_class(b"abc"))
    shape = rng.randrange(6)
    if shape == 0:
        return expr.repeat(expr.byte_class(b"abc"), rng.randint(0, 6), rng.choice([None, 7, 12]))
    if shape == 1:
        return expr.cat(expr.literals([word, b"c" + word, b"b"]), letters)
    if shape == 2:
        return expr.alt(expr.cat(letters, expr.literal(word)), expr.repeat(expr.literal(word), rng.randint(0, 3)))
    if shape == 3:
        return expr.repeat(expr.alt(expr.byte_class(b"ab"), expr.literal(b"ca")), rng.randint(0, 4))
    found = expr.cat(letters, expr.literal(word), letters)
    return found if shape == 4 else expr.complement(found)


@pytest.mark.skipif(not jit.DISABLED, reason="an inner kernel is called")
def test_what_is_found_is_there() -> None:
    rng = random.Random(7)
    n_found = n_alive = 0
    for _ in range(cases(600, 80)):
        parts = [expr.both(*(random_part(rng) for _ in range(rng.randint(1, 4)))) for _ in range(rng.randint(1, 2))]
        tree = expr.cat(expr.alt(*parts), expr.literal(rng.choice([b"", b"!"])))
        reference = Derivatives()
        alive = reference.alive(reference.convert(tree))
        arena, (e,) = ids_of(tree)
        for with_care in (rng.random() < 0.5, True):
            found = finds_text(arena.address, e, 64, with_care)
            while found < 0:
                arena.recover(found)
                found = finds_text(arena.address, e, 64, with_care)
            assert not found or alive, tree
        assert status(arena, e)[0] == alive, tree  # also with the marks that the text has left
        n_found += found
        n_alive += alive
    assert n_found > 0.8 * n_alive > at_least(300, 30)


def test_a_text_takes_a_derivative_for_each_byte() -> None:
    """24 digits of a kind, each of which may be escaped, are left to be written: 1,100 derivatives by classes of bytes."""
    digit, hexadecimal = spelt(b"0123456789"), spelt(b"0123456789ABCDEFabcdef")
    number = expr.cat(expr.repeat(digit, 1), expr.literal(b"-"), expr.repeat(hexadecimal), expr.literal(b"-"))
    arena, (e,) = ids_of(expr.both(expr.repeat(CHARACTER, 35), expr.cat(TEXT, number, expr.repeat(hexadecimal, 24, 24), TEXT)))
    before = derivatives(arena)
    assert status(arena, e)[0]
    assert derivatives(arena) - before < 300


@pytest.mark.parametrize("length", [13, 14, 16, 17])
def test_words_that_have_to_overlap(length: int) -> None:
    """One after the other they take 17 characters, and at least 14. In 14, a search by length takes 6,400 derivatives."""
    words = [expr.cat(TEXT, expr.literal(word), TEXT) for word in (b"ab1", b"b12", b"bc1", b"c12", b"ca1", b"a12", b"Zz")]
    arena, (e,) = ids_of(expr.both(*words, expr.repeat(CHARACTER, length, length)))
    before = derivatives(arena)
    assert status(arena, e)[0] == (length > 13)
    assert length == 13 or derivatives(arena) - before < 1_000


def test_parts_that_contradict_each_other_are_seen_before_all_parts_are_measured() -> None:
    """Texts with ``ab`` near their end that do not have ``ab``, beside labels of host names: all at once, 7,600 derivatives."""
    near = expr.cat(TEXT, expr.literal(b"ab"), expr.repeat(CHARACTER, 0, 3))
    label = expr.cat(expr.repeat(CHARACTER, 0, 60), expr.literal(b"."))
    host = expr.cat(expr.repeat(CHARACTER, 0, 60), expr.literal(b"c"), expr.repeat(label, 0, 126), CHARACTER)
    never = expr.complement(expr.cat(TEXT, expr.literal(b"ab"), TEXT))
    arena, (e,) = ids_of(expr.both(expr.repeat(CHARACTER, 5, 252), host, near, never))
    before = derivatives(arena)
    assert not status(arena, e)[0]
    assert derivatives(arena) - before < 1_500
