"""What expressions match, beside texts that are tried one by one."""

from __future__ import annotations

import itertools
import random

import pytest
from engine_tools import seeds

from cdplugin import expr
from cdplugin.errors import LimitExceeded
from cdplugin.expr import EMPTY, EPSILON, Expr, alt, both, byte_class, cat, complement, literals, repeat
from cdplugin.languages import Languages

LETTERS = b"ab"
TEXTS = [bytes(letters) for n in range(7) for letters in itertools.product(LETTERS, repeat=n)]
ALL = {text for text in TEXTS if len(text) <= 4}
A, B, ANY = byte_class(b"a"), byte_class(b"b"), byte_class(LETTERS)


def some(rng: random.Random, depth: int) -> tuple[Expr, set[bytes]]:
    """An expression, and those of the texts of up to four letters that it matches."""
    kind = rng.randrange(8 if depth else 3)
    if kind == 0:
        return rng.choice([(A, {b"a"}), (B, {b"b"}), (ANY, {b"a", b"b"}), (EPSILON, {b""}), (EMPTY, set())])
    if kind == 1:
        words = rng.sample(sorted(ALL), rng.randint(1, 4))
        return literals(words), set(words)
    if kind == 2:
        low, high = rng.choice([(0, None), (0, 2), (1, 3), (2, 2)])
        times = [
            b for n in range(low, (4 if high is None else high) + 1) for b in map(bytes, itertools.product(LETTERS, repeat=n))
        ]
        return repeat(ANY, low, high), ALL & set(times)
    one, ones = some(rng, depth - 1)
    other, others = some(rng, depth - 1)
    if kind == 3:
        return cat(one, other), {x + y for x in ones for y in others} & ALL
    if kind == 4:
        return alt(one, other), ones | others
    if kind in (5, 6):
        return both(one, other), ones & others
    return both(complement(one), repeat(ANY, 0, None)), ALL - ones


@pytest.mark.kernel
@pytest.mark.parametrize("seed", seeds(12, 2))
def test_intersections_of_sequences_that_begin_or_end_alike(seed: int) -> None:
    rng = random.Random(seed)
    languages = Languages()
    for _ in range(20):
        lead, tail = ([rng.choice((A, B, ANY)) for _ in range(rng.randrange(3))] for _ in range(2))
        sides = [
            cat(*lead, *rng.choices((A, ANY, repeat(ANY, 0, 1)), k=rng.randrange(3)), *tail) for _ in range(rng.choice((2, 3)))
        ]
        apart = [{text for text in ALL if languages.matches(side, text)} for side in sides]
        assert {text for text in ALL if languages.matches(both(*sides), text)} == set.intersection(*apart)


def test_an_intersection_of_long_sequences() -> None:
    """Without recursion, and in time that is linear in their length."""
    alike = [ANY] * 100_000
    one, other = repeat(A, 1, 2), repeat(B, 1, 2)
    found = both(cat(*alike, one, *alike), cat(*alike, other, *alike))
    assert found.args == (*alike, found.args[100_000], *alike)
    assert found.args[100_000].args == (one, other)


@pytest.mark.kernel
@pytest.mark.parametrize("seed", seeds(12, 2))
def test_short_texts(seed: int) -> None:
    """Expressions over two letters: texts of up to four of them are matched, listed, and known to be there."""
    rng = random.Random(seed)
    languages = Languages()
    short = repeat(ANY, 0, 4)
    for _ in range(40):
        expression, texts = some(rng, 3)
        assert {text for text in ALL if languages.matches(expression, text)} == texts
        bounded = both(expression, short)
        found = languages.texts(bounded, len(ALL))
        assert found is not None and sorted(found) == sorted(texts)
        assert languages.is_empty(bounded) == (not texts)
        assert (languages.texts(bounded, 3) is None) == (len(texts) > 3)


@pytest.mark.kernel
def test_many_texts_are_soon_seen() -> None:
    """Long texts of which there are many, also where most ways to begin one end nowhere."""
    languages = Languages()
    assert languages.texts(repeat(ANY, 200, 200), 64) is None
    assert languages.taken < 1_000
    dead_ends = both(repeat(ANY, 0, None), complement(cat(repeat(ANY, 0, None), A)), complement(cat(repeat(ANY, 0, None), B)))
    assert languages.texts(dead_ends, 3) == [b""]


def test_what_takes_too_long_leaves_nothing_behind() -> None:
    """A question over its budget raises. The next one is answered as by a fresh object."""
    languages = Languages()
    hard = both(
        *[cat(repeat(ANY, 0, None), A, repeat(ANY, n, n), B, repeat(ANY, 0, None)) for n in range(1, 40)], repeat(ANY, 0, 60)
    )
    with pytest.raises(LimitExceeded):
        languages.texts(hard, 100_000)
    taken = languages.taken
    assert taken > 0
    assert languages.matches(literals([b"ab"]), b"ab") and not languages.matches(literals([b"ab"]), b"a")
    assert languages.taken >= taken


def test_which_expressions_match_the_empty_text() -> None:
    """The kernels are the reference. Each of thousands of parts is looked at a few times, not once for each that follows it."""

    class Asked(dict):
        times = 0

        def get(self, *args: object) -> object:  # type: ignore[override]
            self.times += 1
            return super().get(*args)

    rng = random.Random(5)
    letter, languages = expr.byte_range(97, 98), Languages()
    trees = [letter, expr.EPSILON, expr.repeat(letter), expr.repeat(letter, 2, 5)]
    done: dict[expr.Expr, bool] = {}
    for _ in range(400):
        some = rng.sample(trees, rng.randint(2, 3))
        made = rng.choice([expr.alt, expr.cat, expr.both])(*some) if rng.random() < 0.8 else expr.complement(some[0])
        trees.append(made)
        known = done if rng.random() < 0.5 else None
        assert expr.nullable(made, known) == languages.matches(made, b"")
    asked = Asked()
    words = [expr.cat(expr.literals([b"word%d" % i]), expr.repeat(letter, 1)) for i in range(2_000)]
    assert not expr.nullable(expr.both(*words), asked) and asked.times < 20_000
    asked = Asked()
    assert not expr.nullable(expr.Expr(expr.ALT_OP, tuple(words)), asked) and asked.times < 20_000
