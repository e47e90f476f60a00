"""Separators, which end lexemes of longest match, and the bounds that they give.

A bound is never less than the shortest ending, by brute force, and texts that are led astray end in time.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from engine_tools import cases, vocabulary
from lark_cases import CASES, random_grammar
from test_budgets import fitting
from test_growth_bounds import end_in_time

import cdplugin as cd
from cdplugin.bits import members
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex.measures import FAR
from cdplugin.queries import separators as module
from cdplugin.queries.growth import Growth, byte_costs
from cdplugin.queries.separators import separators

ABC = cd.Vocabulary.from_bytes([b"a", b"b", b"c", b"ab", b"ba", b"ca", b"aab", b"</s>"], eos_token_ids=7)
WORDS = [
    b" int",
    b" = ",
    b"return",
    b"((((",
    b"{{",
    b"[[",
    b"/*",
    b"//",
    b" //",
    b'"',
    b"--",
    b"<<",
    b"if (",
    b"for",
    b"SELECT ",
    b"NOT ",
]
VOCAB = vocabulary(WORDS)


def bound_of(grammar: cd.Grammar) -> tuple[cd.Matcher, Growth | None]:
    """A matcher at the beginning, and the bound of its arena, if there is one."""
    matcher = grammar.matcher()
    arena = matcher._place()[0]
    with arena.lock, arena.one_budget(10**9):
        endings = grammar._endings_in(arena).shared
        apart = separators(arena, endings)
        if apart is None:
            return matcher, None
        growth = Growth(arena, endings.costs.measures, byte_costs(arena, endings.costs, apart))
    return matcher, growth if growth.is_known else None


def shortest(matcher: cd.Matcher, cursor: int, most: int) -> int:
    """The bytes of a shortest ending, by a breadth-first search; ``FAR`` if it takes more than ``most``."""
    arena = matcher._place()[0]
    level, seen = [cursor], {cursor}
    for length in range(most + 1):
        if any(arena.call(kernels.OP_ACCEPTS, one) for one in level):
            return length
        after = {arena.call(kernels.OP_STEP, one, byte) for one in level for byte in b"abc"}
        level = [one for one in after if one and one not in seen]
        seen.update(level)
    return FAR


def check_places(matcher: cd.Matcher, growth: Growth, length: int) -> int:
    """From every place that texts of so many letters lead to, an ending is no longer than the bound. Returns how many places
    there are.
    """
    arena = matcher._place()[0]
    with arena.lock, arena.one_budget(10**9):
        level, seen = [arena.start], {arena.start}
        for _ in range(length):
            for cursor in level:
                left = growth.left(cursor)
                assert shortest(matcher, cursor, left) <= left < FAR
            after = {arena.call(kernels.OP_STEP, one, byte) for one in level for byte in b"abc"}
            level = [one for one in after if one and one not in seen]
            seen.update(level)
    return len(seen)


@pytest.mark.kernel
@pytest.mark.parametrize("part", range(4))
def test_an_ending_is_no_longer_than_the_bound(part: int) -> None:
    """In random grammars, from every place that texts of a few letters lead to: so there is no dead end either."""
    compiler = cd.Compiler(ABC)
    n_bounds = n_places = 0
    for seed in range(part, cases(1200, 40, 200), 4):
        text = random_grammar(random.Random(seed))
        try:
            grammar = compiler.compile(cd.Lark(text))
        except cd.GrammarError:
            continue
        matcher, growth = bound_of(grammar)
        arena = matcher._place()[0]
        if growth is None or arena.is_exact:
            continue
        n_bounds += 1
        n_places += check_places(matcher, growth, 5)
    assert n_bounds > cases(60, 1, 5) and n_places > 4 * n_bounds


def test_a_lexeme_is_kept_from_ending_by_one_that_ended_with_it() -> None:
    """T1 and T2 never end before a letter, so nor does T0 where they match as well."""
    rules = "start: (T0? T2+ T1) (x T0+)? T2?\nx: T0* T2+ | T2 T1* | T0+ T0 T0+ | T2 T1 | T1 x\n"
    text = rules + 'T0: /ab?/\nT1: "ab"\nT2: "ab"\n%word /[ab]/ T0\n%ignore "c"'
    matcher, growth = bound_of(cd.Compiler(ABC).compile(cd.Lark(text)))
    assert growth is None or check_places(matcher, growth, 6)


@pytest.mark.parametrize(
    ("grammar", "expected"),
    [
        ("start: A B\nA: /[a-z]+/\nB: /[0-9]+/", 0),  # what comes next ends it
        ('start: A+\nA: /[a-z]+/\n%ignore " "', 1),
        ("start: A+\nA: /[a-z]+( [a-z]+)*/\n%ignore /[ \\n]+/", 1),  # not a blank, but a line feed
        ("start: A+\nA: /[a-z]+/ | /[a-z]+ [0-9]/\n%ignore /[ ]+/ \n%ignore /#[^#]*#/", 2),  # "##"
        ('start: "(" start ")" | A\nA: /[a-z]+/', 0),
    ],
)
def test_separators(grammar: str, expected: int) -> None:
    matcher = cd.Compiler(VOCAB).compile(cd.Lark(grammar)).matcher()
    arena = matcher._place()[0]
    with arena.lock, arena.one_budget(10**9):
        found = separators(arena, matcher.grammar._endings_in(arena).shared)
    assert found is not None and found.max() == expected


@pytest.mark.parametrize(
    "grammar",
    ["start: A+\nA: /a+/", "start: A B?\nA: /[a-z]/\nB: /[a-z]{2}/\nC: /x/", 'start: A+ "."\nA: /[a-z ]+/\n%ignore " "'],
)
def test_nothing_is_known_where_a_lexeme_may_not_end(grammar: str) -> None:
    """Two runs of one letter are one run; nothing is skipped that would part them."""
    matcher = cd.Compiler(VOCAB).compile(cd.Lark(grammar)).matcher()
    arena = matcher._place()[0]
    with arena.lock, arena.one_budget(10**9):
        found = separators(arena, matcher.grammar._endings_in(arena).shared)
    assert found is None or "A B?" in grammar


def test_many_lexemes_that_compete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with each: pairs of them are not looked at one by one."""
    n = 1_000
    looked_at = 0

    def counted(bits: int) -> list[int]:
        nonlocal looked_at
        looked_at += bits.bit_count()
        return members(bits)

    monkeypatch.setattr(module, "members", counted)
    names = [f"T{i}" for i in range(n)]
    text = f"start: ({'|'.join(names)})+\n" + "\n".join(f"{name}: /[a-z]+{i}x*/" for i, name in enumerate(names))
    fitting(cd.Compiler(VOCAB).compile(cd.Lark(text + '\n%ignore " "')).matcher(), 1_000)
    assert n < looked_at < 50 * n


def deep(rng: random.Random, allowed: set[int]) -> int:
    """Mostly a token that opens something, now and then any other."""
    openers = [token for token in allowed if (token < 256 and bytes([token]) in b'([{<"/*') or 256 <= token < VOCAB.size - 1]
    return rng.choice(openers if openers and rng.random() < 0.7 else sorted(allowed))


SHIPPED = {"cpp": cd.grammars.CPP, "sql": cd.grammars.SQL}
LANGUAGES = [
    "cpp",
    "sql",
    "c_expressions",
    "json_by_hand",
    "arithmetic",
    "python_subset",
    "sql_case",
    "comments_ignored",
    "common",
]


@pytest.mark.slow
@pytest.mark.parametrize("name", LANGUAGES)
def test_texts_end_in_time(name: str) -> None:
    """Whatever is chosen of what the masks leave: things that nest, comments, strings, words that run together."""
    spec = SHIPPED.get(name) or cd.Lark(CASES[name.removesuffix("_case")][0])
    grammar = cd.Compiler(VOCAB).compile(spec)
    choices: list[Callable[[random.Random, set[int]], int]] = [deep, lambda rng, allowed: rng.choice(sorted(allowed))]
    for budget in (30, 70, 150, 400)[: cases(4, 1, 3)]:
        for choose in choices:
            assert end_in_time(grammar, budget, choose) <= budget


DISTINCT = {"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
UNBOUND: dict[str, cd.Lark | cd.JsonSchema] = {"python": cd.grammars.PYTHON, "distinct": cd.JsonSchema(DISTINCT)}


@pytest.mark.slow
@pytest.mark.parametrize("name", UNBOUND)
def test_texts_without_a_bound_end_in_time(name: str) -> None:
    grammar = cd.Compiler(VOCAB).compile(UNBOUND[name])
    for budget in (60, 150, 400)[: cases(3, 1, 2)]:
        for choose in (deep, lambda rng, allowed: rng.choice(sorted(allowed))):
            assert end_in_time(grammar, budget, choose) <= budget


@pytest.mark.parametrize("name", ["sql", "c_expressions", "json_by_hand", *UNBOUND])
def test_a_budget_that_is_far_away_looks_for_no_endings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The masks are those without a budget, and no profile of a place is made."""
    from cdplugin.queries.budgets import Budgets

    spec = SHIPPED.get(name) or UNBOUND.get(name) or cd.Lark(CASES[name][0])
    grammar = cd.Compiler(VOCAB).compile(spec)
    monkeypatch.setattr(Budgets, "profile", lambda *_: pytest.fail("an ending was looked for"))
    rng, matcher = random.Random(name), grammar.matcher()
    rows = np.zeros((2, (VOCAB.size + 31) // 32), np.int32)
    for _ in range(40):
        matcher.fill_next_token_bitmask(rows, 0)
        matcher.fill_next_token_bitmask(rows, 1, budget=100_000)
        assert (rows[0] == rows[1]).all()
        allowed = np.flatnonzero(np.unpackbits(rows[0].view(np.uint8), bitorder="little"))
        allowed = allowed[allowed < VOCAB.size - 1]
        if not len(allowed):
            break
        matcher.accept_token(int(rng.choice(allowed)))
    assert len(matcher.tokens) > 5
