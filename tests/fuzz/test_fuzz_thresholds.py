"""Specs of all kinds with random small internal thresholds, beside the engine as it is.

A walk through the masks of a grammar is followed again under other numbers (:mod:`fuzz.thresholds`). The masks must be the
same, bit for bit, unless one of these numbers is a documented limit, which may raise. Endings, and texts under a budget of
tokens, may differ; the tests check what these promise.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import gbnf_grammars
import json_schema_fuzz
import lark_cases
import numpy as np
import pytest
from engine_tools import ALL_BYTES, SLOW, describe, mask_bits, members
from fuzz.thresholds import AHEAD, ENGINE, FRONT, INFILL, LIMIT, QUERIES, Threshold, patched, some_of
from fuzz.turns import seeds

import cdplugin as cd

pytestmark = pytest.mark.skipif(SLOW, reason="the numbers are Python's")

_JSON = [
    '{"',
    '":',
    '": ',
    '",',
    '", "',
    '"}',
    "{}",
    "[]",
    "[1",
    ",1",
    ", ",
    "1,",
    "],[",
    "},{",
    "]]",
    "[[",
    '["',
    '"]',
    '"a"',
    '"a":',
    '"b":1',
    "ab",
    "aa",
]
_JSON += [
    "true",
    "null",
    "false",
    "1.0",
    "e0",
    "10",
    "1e1",
    "-0",
    "0.",
    '"a","b"',
    ',"a"',
    ',"aa',
    '[{"a',
    "a1",
    "x,y",
    "1]",
    "\\u006",
    '1,"',
    "2}",
]
TOKENS = [*dict.fromkeys([*ALL_BYTES, *(text.encode() for text in _JSON), *lark_cases.TOKENS[256::7]])]
END = len(TOKENS)
_USUAL = {TOKENS.index(text.encode()) for text in [*_JSON, *'"{}[]:,0123456789abcxyt. ']}


def vocabulary() -> cd.Vocabulary:
    return cd.Vocabulary.from_bytes([*TOKENS, b"<end>"], eos_token_ids=END)


# --- specs --------------------------------------------------------------------------------------------------------------------

_SCALARS: list[Any] = [
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "string", "maxLength": 2},
    {"enum": [1, 1.0, "a", "ab", None]},
]
_SCALARS += [
    {"type": "string", "pattern": "^[ab]{1,2}$"},
    {"type": "number"},
    {"enum": ["a", "b", "aa"]},
    {"minimum": 0, "maximum": 3},
]
_SCALARS += [
    {"type": "string", "format": "date"},
    {"type": ["string", "null"]},
    {"type": "integer", "multipleOf": 3},
    {"const": "a"},
    True,
]


def distinct(rng: random.Random, depth: int = 2) -> Any:
    """A schema whose items differ, or have values in which others differ."""
    if depth == 0:
        return rng.choice(_SCALARS)
    kind = rng.random()
    below = lambda: distinct(rng, depth - 1)  # noqa: E731
    if kind < 0.25:
        return rng.choice(_SCALARS)
    if kind < 0.6:
        array: dict[str, Any] = {"type": "array", "items": below(), "uniqueItems": rng.random() < 0.85}
        if rng.random() < 0.4:
            array["prefixItems"] = [below() for _ in range(rng.randint(1, 2))]
        if rng.random() < 0.4:
            array["minItems"] = rng.randint(1, 3)
        if rng.random() < 0.5:
            array["maxItems"] = rng.randint(2, 4)
        if rng.random() < 0.2:
            array |= {"contains": below(), **rng.choice([{}, {"minContains": 2}, {"maxContains": 1}])}
        return array
    if kind < 0.9:
        names = rng.sample(json_schema_fuzz.NAMES, rng.randint(1, 3))
        made: dict[str, Any] = {"type": "object", "properties": {name: below() for name in names}}
        made["additionalProperties"] = False if rng.random() < 0.6 else below()
        if rng.random() < 0.6:
            made["required"] = rng.sample(names, rng.randint(1, len(names)))
        if rng.random() < 0.2:
            made["patternProperties"] = {rng.choice(["^a", "b$", "^x"]): below()}
        if rng.random() < 0.2:
            made |= rng.choice([{"minProperties": 2}, {"maxProperties": 2}])
        return made
    return {rng.choice(["anyOf", "oneOf"]): [below(), below()]}


def _schema(rng: random.Random) -> cd.Spec:
    kind = rng.random()
    if kind < 0.4:
        schema = distinct(rng, rng.choice([1, 2, 2, 3]))
        if rng.random() < 0.8:
            schema = {"type": "array", "uniqueItems": True, "items": schema}
    elif kind < 0.9:
        schema = json_schema_fuzz.crowded(rng).schema
    else:
        schema = {
            "type": "string",
            "format": rng.choice(["date", "time", "uuid", "email", "hostname", "ipv6", "regex", "duration", "json-pointer"]),
        }
    options: dict[str, Any] = {}
    if rng.random() < 0.5:
        options["property_order"] = "any"
    if rng.random() < 0.15:
        options["unique_names"] = True
    if rng.random() < 0.7:
        options["whitespace"] = "compact"
    return cd.JsonSchema(schema, **options)


def pattern(rng: random.Random, depth: int = 3) -> str:
    if depth == 0:
        return rng.choice(["a", "b", "[ab]", "[^a]", "x", "\\d", "\\w", ".", "é", "ab", "aa", "\\b"])
    below = lambda: pattern(rng, depth - 1)  # noqa: E731
    kind = rng.randrange(9)
    if kind == 0:
        return f"(?:{below()}|{below()})"
    if kind == 1:
        return f"(?:{below()}){rng.choice(['*', '+', '?', '{2}', '{1,3}', '{0,40}', '{2,}'])}"
    if kind == 2:
        return f"(?={below()}){below()}"
    if kind == 3:
        return f"(?!{below()}){below()}"
    if kind == 4:
        return f"(a|b|ab){below()}\\1"
    if kind == 5:
        return below()
    return below() + below()


_PARAMETRIC = [
    'start: p::0\np::_: "a" p::incr(_) %if lt(_, 3) | "b" p::incr([0:8]) %if lt(_, 5) | "." %if ge(_, 2)',
    'start: s::0 "!"\ns::_: "" | "a" s::set_bit(0) %if bit_clear(0) | "b" s::set_bit(1) %if bit_clear(1)'
    ' | "x" s::set_bit(2) %if and(bit_clear(2), bit_clear(0))',
    'start: l::0\nl::_: "[" l::incr([0:3]) %if lt([0:3], 4) | x::_\n'
    'x::_: "]" x::decr([0:3]) %if gt([0:3], 0) | "" %if eq([0:3], 0)',
    'start: i::0\ni::_: W "," i::incr(_) %if lt(_, 6) | W %if ge(_, 1)\nW: /[ab]+/\n%ignore " "',
]
_LARK_MORE = [
    'start: (A|B|K)+\nA: "a"\nB: /b+/\nK: "key"\n%ignore /[ \\n]+/\n%ignore /#[^\\n]*\\n/',
    'start: NAME "=" V ";" start?\nNAME: /[a-z]+/ & ~("if" | "in" | "ab")\n'
    'V: /[0-9]+/ | "if" | "true" | "null" | "ab" | "aa" | "x"\n%ignore / +/',
    'start: item ("," item)*\nitem[capture]: /[ab]+/ | "x" | "y" | "xy" | "yx" | "xx"',
    'start: head (";" T)* \nhead[stop=";"]: /[^;]*/\nT: /[ab]{1,3}/',
    'start: b{2,5} c{3} ("x" | "y"){0,40}\nb: "a" | "b" c\nc: "1" | "12"',
]


def _lark(rng: random.Random) -> cd.Spec:
    kind = rng.random()
    if kind < 0.45:
        return cd.Lark(lark_cases.random_grammar(rng))
    if kind < 0.65:
        return cd.Lark(rng.choice(_PARAMETRIC + _LARK_MORE))
    some = [text for text, _ in lark_cases.CASES.values() if "<|" not in text and "<think>" not in text]
    return cd.Lark(rng.choice(some))


def _gbnf(rng: random.Random) -> cd.Spec:
    return cd.Gbnf(rng.choice([case.grammar for case in gbnf_grammars.CASES.values()]))


def spec_of(rng: random.Random) -> cd.Spec:
    kind = rng.random()
    if kind < 0.6:
        return _schema(rng)
    if kind < 0.8:
        return _lark(rng)
    return cd.Regex(pattern(rng)) if kind < 0.93 else _gbnf(rng)


# --- what is asked ------------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A place of a walk, and what the engine said there."""

    tokens: tuple[int, ...]
    bits: bytes
    is_accepting: bool
    forced: list[int] | None
    other: int
    explained: str | None


def say(grammar: cd.Grammar, tokens: tuple[int, ...], other: int, in_full: bool) -> Place:
    matcher = grammar.matcher()
    assert matcher.accept_tokens(tokens) == len(tokens), ("refused", tokens)
    return said(matcher, other, in_full)


def said(matcher: cd.Matcher, other: int, in_full: bool) -> Place:
    bits = mask_bits(matcher)
    forced = explained = None
    if in_full:
        forced = matcher.forced_tokens(limit=6)
        explained = matcher.explain(other)
        assert ("allowed" in explained and "not allowed" not in explained) == (other in members(bits)), explained
    return Place(matcher.tokens, bits, matcher.is_accepting(), forced, other, explained)


def walk(grammar: cd.Grammar, rng: random.Random, steps: int) -> list[Place]:
    """The places along a random walk, which ends where a limit is raised."""
    matcher, out = grammar.matcher(), []
    with contextlib.suppress(cd.LimitExceeded):
        for _ in range(steps):
            out.append(said(matcher, rng.randrange(END), rng.random() < 0.2))
            allowed = members(out[-1].bits)
            usual = sorted(allowed & _USUAL)
            long = [token for token in usual if len(TOKENS[token]) > 1] if rng.random() < 0.5 else []
            choices = long or (usual if usual and rng.random() < 0.85 else sorted(allowed - {END}))
            if not choices or not matcher.accept_token(rng.choice(choices)):
                break
    return out


class Ending(NamedTuple):
    """Tokens, and an ending after them that was promised to be legal."""

    tokens: tuple[int, ...]
    ending: list[int]


class Fit(NamedTuple):
    """The tokens that may come under a budget."""

    tokens: tuple[int, ...]
    budget: int
    bits: bytes
    was_narrowed: bool


def endings(matcher: cd.Matcher, rng: random.Random) -> Iterator[Ending | Fit]:
    """An ending and a text under a budget, that hold what is promised of them."""
    arena = matcher.grammar._arena
    ending = matcher.shortest_completion()
    yield Ending(matcher.tokens, ending)
    can_end = matcher.can_end_within(len(ending))
    assert can_end or arena is not matcher.grammar._arena, ("can_end_within", ending)
    budget = len(ending) + 1 + rng.choice([0, 0, 1, 2, 5, 30])
    row = np.zeros((1, END // 32 + 1), np.int32)
    while not matcher.is_terminated() and budget < 80:
        matcher.fill_next_token_bitmask(row, budget=budget)
        allowed = members(row.tobytes())
        yield Fit(matcher.tokens, budget, row.tobytes(), matcher.was_narrowed())
        assert allowed, ("dead end under a budget", matcher.tokens, budget)
        some = sorted(allowed - {END} if rng.random() < 0.8 else allowed) or [END]
        token = rng.choice(sorted(set(some) & _USUAL) or some)
        assert matcher.accept_token(token), ("in the mask, and refused", matcher.tokens, token)
        budget -= 1
    if matcher.is_terminated():
        assert budget >= 0, "more tokens than the budget"


def judge(grammar: cd.Grammar, said: list[Ending | Fit]) -> None:
    """Whether what was said of endings is so."""
    for each in said:
        matcher = grammar.matcher()
        assert matcher.accept_tokens(each.tokens) == len(each.tokens)
        if isinstance(each, Ending):
            assert matcher.accept_tokens(each.ending) == len(each.ending) and matcher.is_accepting(), ("not an ending", each)
        else:
            plain, found = members(mask_bits(matcher)), members(each.bits)
            assert found <= plain, ("under a budget, but not without", each.tokens, found - plain)
            assert each.was_narrowed or found == plain, ("was_narrowed", each.tokens)


# --- the comparison -----------------------------------------------------------------------------------------------------------


def compiled(spec: cd.Spec) -> cd.Grammar | cd.CdpluginError:
    """The grammar, or why there is none."""
    try:
        return cd.Compiler(vocabulary()).compile(spec)
    except cd.CdpluginError as error:
        return error


class DifferenceError(AssertionError):
    """Something is said that was not said with the engine as it is."""


def compare(seed: int, values: dict[Threshold, Any] | None = None, spec: cd.Spec | None = None) -> str:
    """Raise :class:`DifferenceError` if answers differ. Returns what became of the spec."""
    rng = random.Random(seed)
    spec = spec or spec_of(rng)
    values = some_of(rng, rng.choice([FRONT, FRONT, ENGINE, QUERIES, FRONT + ENGINE + QUERIES])) if values is None else values
    may_limit = any(threshold.kind == LIMIT for threshold in values)
    before = compiled(spec)
    places: list[Place] = []
    if isinstance(before, cd.Grammar):
        places = [place for _ in range(2) for place in walk(before, rng, rng.choice([5, 12, 25]))]
    asked: list[Ending | Fit] = []
    with patched(values):
        after = compiled(spec)
        if isinstance(after, (cd.LimitExceeded, cd.UnsupportedError)) and may_limit:
            return "limit"
        if isinstance(before, cd.CdpluginError) or isinstance(after, cd.CdpluginError):
            if type(before) is not type(after):
                raise DifferenceError(f"before: {before!r}\nafter: {after!r}")
            return "refused"
        try:
            for place in places:
                _compare_place(after, place, front=any(t in values for t in FRONT))
                if rng.random() < 0.2:
                    matcher = after.matcher()
                    matcher.accept_tokens(place.tokens)
                    with contextlib.suppress(cd.EngineError, cd.LimitExceeded):  # where there is none, or it is far
                        asked.extend(endings(matcher, rng))
        except cd.LimitExceeded as error:
            if not may_limit:
                raise DifferenceError(f"a limit: {error}") from error
            return "limit, later"
    judge(before, asked)
    return "compared"


def _compare_place(grammar: cd.Grammar, place: Place, front: bool) -> None:
    found = say(grammar, place.tokens, place.other, place.forced is not None)
    if found.bits != place.bits:
        text = describe(grammar.vocab, grammar.vocab.decode(place.tokens), members(found.bits), members(place.bits))
        raise DifferenceError(text)
    for name in ("is_accepting", "forced"):
        if getattr(found, name) != getattr(place, name):
            raise DifferenceError(f"{name}: {getattr(place, name)!r} became {getattr(found, name)!r} after {place.tokens}")
    told = [each.explained if each.explained is None else each.explained.partition(" (in ")[0] for each in (place, found)]
    if told[0] != told[1] and not front:  # in which lexemes comes in any order
        raise DifferenceError(f"explained: {told[0]!r} became {told[1]!r} after {place.tokens}")


FOUND = [282675]  # a completion of 9 tokens, for which a budget of 10 was not enough
"""Seeds that found something with the numbers that are listed now."""


@pytest.mark.parametrize("seed", [*seeds(20), *FOUND])
def test_other_numbers_give_the_same_answers(seed: int) -> None:
    compare(seed)


def test_each_number_is_there_once_and_is_made_small() -> None:
    every = [*FRONT, *ENGINE, *QUERIES, *AHEAD, *INFILL]
    assert len({str(threshold) for threshold in every}) == len(every)
    for threshold in every:
        assert getattr(import_module(threshold.module), threshold.name) not in threshold.values, threshold
