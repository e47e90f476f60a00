"""Expressions in the kernels: values, derivatives, nullability and emptiness, beside Python's ``re`` and brute force."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from engine_tools import TINY, cases, ids_of, status
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import Derivatives
from naive_regex import accepts

import cdplugin as cd
from cdplugin import expr
from cdplugin.engine import arena as owner
from cdplugin.engine.arena import Arena
from cdplugin.expr import Expr
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.jit import decorators as jit
from cdplugin.kernels.regex import emptiness, likely_text
from cdplugin.kernels.regex.expressions import ALL, EMPTY, EPSILON, FINITE, PURE
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits

VOCAB = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)])
BYTES = b"ab\x80\xff"
TEXTS = [bytes(t) for n in range(4) for t in itertools.product(BYTES, repeat=n)]


def derivative(arena: Arena, e: int, text: bytes) -> int:
    for byte in text:
        e = arena.call(kernels.OP_DERIVE, e, byte)
    return e


# --- random trees ----------------------------------------------------------------------------------


def char_class(members: bytes) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % byte for byte in members) + b"]"


def leaves() -> st.SearchStrategy[tuple[Expr, bytes]]:
    text = st.lists(st.sampled_from(BYTES), max_size=3).map(bytes)
    some = st.lists(st.sampled_from(BYTES), min_size=1, max_size=3, unique=True).map(bytes)
    return st.one_of(
        text.map(lambda t: (expr.literal(t), re.escape(t))),
        some.map(lambda t: (expr.byte_class(t), char_class(t))),
        st.lists(text, min_size=1, max_size=4).map(
            lambda ts: (expr.literals(ts), b"(?:" + b"|".join(map(re.escape, ts)) + b")")
        ),
        st.just((expr.EPSILON, b"")),
        st.just((expr.EMPTY, b"(?!)")),
    )


def repeated(part: tuple[Expr, bytes], low: int, more: int | None) -> tuple[Expr, bytes]:
    high = None if more is None else low + more
    return expr.repeat(part[0], low, high), b"(?:%s){%d,%s}" % (part[1], low, b"" if high is None else b"%d" % high)


def joined(parts: list[tuple[Expr, bytes]], choice: bool) -> tuple[Expr, bytes]:
    trees, patterns = [tree for tree, _ in parts], [pattern for _, pattern in parts]
    if choice:
        return expr.alt(*trees), b"(?:" + b"|".join(patterns) + b")"
    return expr.cat(*trees), b"".join(patterns)


def pure_trees() -> st.SearchStrategy[tuple[Expr, bytes]]:
    """Trees without ``&`` and ``~``, each with the same as a pattern of ``re``."""
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.builds(joined, st.lists(inner, min_size=2, max_size=3), st.booleans()),
            st.builds(repeated, inner, st.integers(0, 3), st.sampled_from([None, 0, 1, 2])),
        ),
        max_leaves=6,
    )


def boolean_trees() -> st.SearchStrategy[Expr]:
    """Trees of all operators, which may share nodes."""
    return st.recursive(
        leaves().map(lambda pair: pair[0]),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: expr.cat(*parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: expr.alt(*parts)),
            st.lists(inner, min_size=2, max_size=3).map(lambda parts: expr.both(*parts)),
            inner.map(expr.complement),
            inner.map(lambda part: expr.cat(part, part)),
            st.builds(lambda a, b: expr.both(a, expr.complement(b)), inner, inner),
            st.builds(
                lambda a, low, more: expr.repeat(a, low, None if more is None else low + more),
                inner,
                st.integers(0, 2),
                st.sampled_from([None, 0, 1]),
            ),
        ),
        max_leaves=6,
    )


TEXT = st.lists(st.sampled_from(BYTES), max_size=6).map(bytes)


# --- against re and brute force ----------------------------------------------------------------------------------


@given(pure_trees())
@settings(max_examples=cases(400, 60))
def test_matches_what_re_matches(pair: tuple[Expr, bytes]) -> None:
    tree, pattern = pair
    arena, (e,) = ids_of(tree)
    compiled = re.compile(pattern, re.DOTALL)
    alive = False
    for text in TEXTS:
        matches = compiled.fullmatch(text) is not None
        alive = alive or matches
        assert status(arena, derivative(arena, e, text))[1] == matches == accepts(tree, text), (pattern, text)
    assert not alive or status(arena, e)[0]
    assert arena.flags(np.array([e]))[0] & PURE


@given(boolean_trees(), st.lists(TEXT, max_size=8))
@settings(max_examples=cases(500, 60))
def test_matches_what_brute_force_matches(tree: Expr, texts: list[bytes]) -> None:
    arena, (e,) = ids_of(tree)
    for text in [*TEXTS[:: cases(1, 4)], *texts]:
        assert status(arena, derivative(arena, e, text))[1] == accepts(tree, text), (tree, text)


@given(boolean_trees(), st.lists(TEXT, max_size=4))
@settings(max_examples=cases(400, 50))
def test_emptiness_of_derivatives(tree: Expr, texts: list[bytes]) -> None:
    """Exact, in any order of asking: what was found before is remembered in the arena."""
    arena, (e,) = ids_of(tree)
    reference = Derivatives()
    root = reference.convert(tree)
    for text in [*texts, b"", b"a", b"ab", b"ba\x80"]:
        node = root
        for byte in text:
            node = reference.step(node, byte)
        after = derivative(arena, e, text)
        assert status(arena, after) == (reference.alive(node), reference.nullable(node)), (tree, text)


@pytest.mark.skipif(not jit.DISABLED, reason="a constant of a kernel is changed")
@given(tree=boolean_trees(), fuel=st.integers(2, 60))
@settings(max_examples=cases(100, 100))
def test_emptiness_best_first(tree: Expr, fuel: int) -> None:
    """The order of the search changes no answer, nor does looking at two parts of an ``&`` at once."""
    reference = Derivatives()
    alive = reference.alive(reference.convert(tree))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(likely_text, "_LONGEST", 0)
        patch.setattr(emptiness, "_IN_BREADTH", 1)
        patch.setattr(emptiness, "_IN_ALL", fuel // 8)
        arena, (e,) = ids_of(tree)
        assert status(arena, e)[0] == alive
        limited, (e,) = ids_of(tree, arena=Arena(VOCAB, Limits(emptiness_fuel=fuel)))
        with contextlib.suppress(cd.LimitExceeded):
            assert status(limited, e)[0] == alive


def test_long_texts_and_many_patterns_are_found() -> None:
    """What a search in breadth does not find within the fuel; that ``re`` agrees is seen from the patterns."""
    size, pairs = cases(3000, 100), ("xy", "yz", "zx", "xz", "zy", "yx")[: cases(6, 2)]
    letters = expr.repeat(expr.cat(expr.byte_range(97, 122), expr.byte_range(48, 57)), 0, None)
    anything = expr.repeat(expr.byte_range(32, 126))
    words = [expr.cat(anything, expr.literal(f"{a}{b}{a}".encode()), anything) for a, b in pairs]
    byte = expr.byte_range(32, 126)
    for tree, found in (
        (expr.both(letters, expr.repeat(byte, size)), True),
        (expr.both(letters, expr.repeat(byte, size + 1, size + 1)), False),
        (expr.both(*words, expr.repeat(byte, 14, 40)), True),
        (expr.both(*words, expr.repeat(byte, 0, 4)), False),
    ):
        arena, (e,) = ids_of(tree)
        assert status(arena, e)[0] == found


@given(boolean_trees(), st.integers(1, 12))
@settings(max_examples=cases(300, 40))
def test_too_little_fuel_raises_and_never_guesses(tree: Expr, fuel: int) -> None:
    arena, (e,) = ids_of(tree, arena=Arena(VOCAB, Limits(emptiness_fuel=fuel)))
    reference = Derivatives()
    alive = reference.alive(reference.convert(tree))
    for _ in range(2):
        text = ""
        try:
            found = status(arena, e)[0]
        except cd.LimitExceeded as error:
            found, text = alive, str(error)
        assert found == alive, tree
        assert not text or f"Limits.emptiness_fuel = {fuel}" in text
    generous, (same,) = ids_of(tree)
    assert status(generous, same)[0] == alive


@given(boolean_trees(), TEXT)
@settings(max_examples=cases(250, 40))
def test_finite_languages(tree: Expr, text: bytes) -> None:
    """``FINITE`` is never claimed of an expression that matches a text longer than all its derivatives could."""
    arena, (e,) = ids_of(tree)
    for byte in text:
        if arena.flags(np.array([e]))[0] & FINITE:
            after = arena.call(kernels.OP_DERIVE, e, byte)
            assert arena.flags(np.array([after]))[0] & FINITE or not status(arena, after)[0], (tree, text)
        e = arena.call(kernels.OP_DERIVE, e, byte)
    if arena.flags(np.array([e]))[0] & FINITE:
        long = [derivative(arena, e, bytes([byte]) * 40) for byte in BYTES]
        assert not any(status(arena, after)[0] for after in long), tree


@given(boolean_trees(), st.sampled_from([(0, 256), (0x20, 0x7F), (0x61, 0x81)]))
@settings(max_examples=cases(200, 30))
def test_derivatives_of_all_bytes(tree: Expr, span: tuple[int, int]) -> None:
    """By class of bytes, as many bytes lead to each derivative as one by one."""
    arena, (e,) = ids_of(tree)
    counts: Counter[int] = Counter()
    for count, after in arena.derivatives(e, *span):
        counts[after] += count
    assert counts == Counter(arena.call(kernels.OP_DERIVE, e, byte) for byte in range(*span))


@given(boolean_trees(), st.lists(TEXT, min_size=1, max_size=4))
@settings(max_examples=cases(200, 30))
def test_tables_that_start_tiny(tree: Expr, texts: list[bytes]) -> None:
    """Every table grows in the middle of something. The ids do not depend on it."""
    roomy, (expected,) = ids_of(tree)
    tiny, (e,) = ids_of(tree, arena=tiny_arena())
    assert e == expected
    for text in texts:
        assert derivative(tiny, e, text) == derivative(roomy, e, text)
        assert status(tiny, derivative(tiny, e, text)) == status(roomy, derivative(roomy, e, text))


def tiny_arena() -> Arena:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, "INITIAL", TINY)
        return Arena(VOCAB, Limits())


# --- values ----------------------------------------------------------------------------------


def test_constants() -> None:
    arena, ids = ids_of(expr.EMPTY, expr.EPSILON, expr.complement(expr.EMPTY), expr.repeat(expr.byte_mask(expr.ALL_BYTES)))
    assert ids[:3] == [EMPTY, EPSILON, ALL]
    assert [status(arena, e) for e in ids] == [(False, False), (True, True), (True, True), (True, True)]
    for byte in (0, 97, 255):
        assert [arena.call(kernels.OP_DERIVE, e, byte) for e in (EMPTY, EPSILON, ALL)] == [EMPTY, EMPTY, ALL]


def equal_pairs() -> Iterator[tuple[Expr, Expr]]:
    a, b, c = (expr.byte_class(bytes([byte])) for byte in b"abc")
    many = expr.repeat(a)
    word = expr.cat(expr.repeat(b, 2), c)  # literals would not do: each place that has a set has it as table entries of its own
    yield expr.alt(a, word), expr.alt(word, a)
    yield expr.alt(a, expr.alt(b, many)), expr.alt(expr.alt(a, b), many)
    yield expr.Expr(expr.ALT_OP, (word, word)), word
    yield expr.alt(a, b), expr.byte_class(b"ab")
    yield expr.both(many, word), expr.both(word, many)
    yield expr.both(many, expr.complement(expr.EMPTY)), many
    yield expr.both(expr.byte_class(b"ab"), expr.byte_class(b"bc")), b
    yield expr.both(a, b), expr.EMPTY
    yield expr.alt(many, expr.complement(expr.EMPTY)), expr.complement(expr.EMPTY)
    yield expr.Expr(expr.NOT_OP, (expr.Expr(expr.NOT_OP, (word,)),)), word
    yield expr.cat(expr.cat(word, b), many), expr.cat(word, expr.cat(b, many))
    yield expr.cat(word, expr.Expr(expr.EPSILON_OP, ()), b), expr.cat(word, b)
    yield expr.Expr(expr.CAT_OP, (word, expr.EMPTY)), expr.EMPTY
    yield expr.cat(expr.repeat(c, 1, 2), expr.repeat(c, 3, 4)), expr.repeat(c, 4, 6)
    yield expr.cat(expr.repeat(c), expr.repeat(c, 3, 4), b), expr.cat(expr.repeat(c, 3), b)
    yield expr.repeat(many, 5, 7), many
    yield expr.Expr(expr.REPEAT_OP, (a, 1, 1)), a
    yield expr.repeat(expr.optional(word), 2, 3), expr.repeat(expr.optional(word), 0, 3)
    few, more = expr.repeat(c, 2, 3), expr.repeat(c, 1, 9)
    yield expr.alt(few, more), more
    yield expr.alt(expr.cat(a, few, b), expr.cat(a, more, b)), expr.cat(a, more, b)
    yield expr.alt(expr.cat(few, a, few), expr.cat(more, a, more), word), expr.alt(word, expr.cat(more, a, more))
    yield expr.alt(word, expr.cat(many, word)), expr.cat(many, word)
    yield expr.alt(expr.EPSILON, a, expr.repeat(a, 0, 2)), expr.alt(a, expr.repeat(a, 0, 2))


@pytest.mark.parametrize(("left", "right"), list(equal_pairs()))
def test_equal_expressions_are_one_value(left: Expr, right: Expr) -> None:
    _, (a, b) = ids_of(left, right)
    assert a == b


def unequal_pairs() -> Iterator[tuple[Expr, Expr]]:
    """Unions, and what is too much or too little to stand for them."""
    a, b, c = (expr.byte_class(bytes([byte])) for byte in b"abc")
    few, more = expr.repeat(c, 2, 3), expr.repeat(c, 1, 9)
    parts = (
        (few, expr.repeat(c, 3, 4)),
        (few, expr.repeat(b, 1, 9)),
        (expr.cat(few, a, more), expr.cat(more, a, few)),
        (expr.cat(few, a), expr.cat(more, b)),
        (expr.cat(few, a), more),
        (few, expr.cat(more, a)),
        (expr.cat(a, few), expr.cat(more, few)),
        (expr.repeat(c, 0, 2), expr.repeat(c, 1)),
    )
    for left, right in parts:
        union = expr.alt(left, right)
        yield union, left
        yield union, right


@pytest.mark.parametrize(("union", "part"), list(unequal_pairs()))
def test_a_union_is_more_than_a_part(union: Expr, part: Expr) -> None:
    _, (a, b) = ids_of(union, part)
    assert a != b


def counted() -> st.SearchStrategy[Expr]:
    """Sequences of a few bodies that differ in their counts."""
    one, two = expr.byte_class(b"a"), expr.byte_class(b"ab")
    bodies = (one, two, expr.cat(expr.repeat(two, 0, 2), one))
    part = st.builds(
        lambda body, low, more: expr.repeat(body, low, None if more is None else low + more),
        st.sampled_from(bodies),
        st.integers(0, 2),
        st.sampled_from([None, 0, 1, 3]),
    )
    return st.lists(st.one_of(part, st.sampled_from(bodies)), min_size=1, max_size=4).map(lambda parts: expr.cat(*parts))


@given(st.lists(counted(), min_size=2, max_size=5))
@settings(max_examples=cases(1_000, 100))
def test_unions_of_counts(parts: list[Expr]) -> None:
    tree = expr.alt(*parts)
    arena, (e,) = ids_of(tree)
    for text in (bytes(t) for n in range(6) for t in itertools.product(b"ab", repeat=n)):
        assert status(arena, derivative(arena, e, text))[1] == any(accepts(part, text) for part in parts), (tree, text)


def test_a_tree_evaluated_again_is_the_same_value() -> None:
    tree = expr.cat(expr.byte_class(b"xy"), expr.repeat(expr.alt(expr.byte_class(b"z"), expr.byte_range(0x80, 0xFF)), 2, 9))
    arena, (first,) = ids_of(tree)
    before = int(arena.header[layout.N_VALUES])
    _, (again,) = ids_of(tree, arena=arena)
    assert again == first and int(arena.header[layout.N_VALUES]) == before


@given(boolean_trees(), st.lists(TEXT, min_size=1, max_size=4))
@settings(max_examples=cases(80, 8))
def test_bytes_that_no_token_brings(tree: Expr, texts: list[bytes]) -> None:
    """Lexemes are cut to what the vocabulary can spell: no derivative by another byte, and emptiness knows it."""
    spelt = b"ab\x80"
    arena, (e,) = ids_of(tree, allowed=sum(1 << byte for byte in spelt))
    reference = Derivatives(spelt)
    root = reference.convert(tree)
    for text in texts:
        node, after = root, e
        for byte in text:
            node, after = reference.step(node, byte), arena.call(kernels.OP_DERIVE, after, byte)
        assert status(arena, after) == (reference.alive(node), reference.nullable(node)), (tree, text)


# --- cost ----------------------------------------------------------------------------------


def test_counts_stay_symbolic() -> None:
    arena, (small, large) = ids_of(expr.repeat(expr.byte_class(b"a"), 0, 3), expr.repeat(expr.byte_class(b"a"), 0, 100_000))
    before = int(arena.header[layout.N_VALUES])
    after = derivative(arena, large, b"a" * 50)
    assert int(arena.header[layout.N_VALUES]) - before <= 50 and status(arena, after) == (True, True)
    assert arena.sequence(after)[1:] == [0, 99_950] and status(arena, derivative(arena, small, b"aaaa")) == (False, False)


def test_deep_trees() -> None:
    """No recursion on the depth of a tree."""
    depth = cases(30_000, 300)
    tree = expr.byte_class(b"a")
    for i in range(depth):
        tree = (
            expr.Expr(expr.CAT_OP, (expr.byte_class(b"a"), tree))
            if i % 2
            else expr.Expr(expr.ALT_OP, (expr.literal(b"bb"), tree))
        )
    arena, (e,) = ids_of(tree)
    assert status(arena, e) == (True, False)
    assert status(arena, derivative(arena, e, b"bb" if depth % 2 else b"abb")) == (True, True)
    assert status(arena, derivative(arena, e, b"ab\x80")) == (False, False)


def test_many_literals() -> None:
    words = [b"%d" % (i * i) for i in range(cases(10_000, 500))]
    arena, (e,) = ids_of(expr.literals(words))
    members = set(words)
    prefixes = {w[:n] for w in members for n in range(len(w) + 1)}
    for text in [*words[:: max(1, len(words) // 50)], b"", b"2", b"11", b"99999999999", b"16x"]:
        assert status(arena, derivative(arena, e, text)) == (text in prefixes, text in members), text


def test_exponential_alternatives_are_refused() -> None:
    a, either = expr.byte_class(b"a"), expr.byte_class(b"ab")
    arena, (e,) = ids_of(
        expr.cat(expr.repeat(either), a, expr.repeat(either, 60, 60)), arena=Arena(VOCAB, Limits(max_expr_width=20))
    )
    with pytest.raises(cd.LimitExceeded, match=r"too many alternatives: expected at most Limits.max_expr_width = 20"):
        derivative(arena, e, b"ab" * 30)  # of counts that adjoin there would be one range
    assert status(arena, derivative(arena, e, b"ab")) == (True, False)  # the arena is as good as before
