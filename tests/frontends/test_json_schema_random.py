"""Random schemas, instances and bounds of numbers, beside ``jsonschema`` and Python's own arithmetic."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from typing import Any

import jsonschema
import pytest
from engine_tools import cases
from json_schema_tools import dumps, grammar, mutated, only_attempt, orders, random_schema, random_value
from naive import Naive

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.frontends.json_schema import compile_schema, sharing
from cdplugin.frontends.json_schema.dialect import FRACTION_BIT, INTEGER_BIT
from cdplugin.frontends.json_schema.numbers import number_expr
from cdplugin.frontends.json_schema.sharing import share_equal_parts
from cdplugin.ir import GrammarIR, Spent
from cdplugin.limits import Limits


@pytest.mark.parametrize("seed", range(6))
def test_random_schemas(seed: int) -> None:
    """In whatever order of its keys a value is accepted, it is valid. A valid value is accepted in some order."""
    check_random_schemas(seed, cases(40, 10, 15))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("attempt", [2, 3])
def test_random_schemas_at_later_attempts(seed: int, attempt: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, as schemas are compiled whose alternatives multiply."""
    only_attempt(attempt, monkeypatch)
    check_random_schemas(100 * attempt + seed, cases(30, 10))


@pytest.mark.parametrize("size", [1, 10**7])
def test_a_first_attempt_leaves_most_of_the_work_to_the_second(size: int) -> None:
    budget = sharing.MergeBudget(Limits(max_rules=6_000), size, Spent())

    def steps_until(error: type[LimitExceeded]) -> int:
        for step in range(1_001):
            try:
                budget.count(1)
            except error:
                return step
        raise AssertionError("no end")

    first = steps_until(sharing.MultipliesError)
    budget.begin(sharing.Attempt.DISJOINT)
    second = steps_until(LimitExceeded)
    assert 25 < first <= second / 2 + 1 and first + second == 999
    for attempt in (sharing.Attempt.LAST, sharing.Attempt.RELAXED):
        budget.begin(attempt)
        assert steps_until(LimitExceeded) == 999


def check_random_schemas(seed: int, count: int) -> None:
    rng = random.Random(seed)
    compiled = 0
    while compiled < count:
        schema = random_schema(rng)
        if isinstance(schema, dict):
            schema["$defs"] = {"x": random_schema(rng, 2), "y": random_schema(rng, 2)}
        validator = jsonschema.Draft202012Validator(schema)
        values = [random_value(rng) for _ in range(12)]
        if isinstance(schema, dict):
            values += [
                mutated(rng, v)
                for part in (schema, *schema["$defs"].values())
                if isinstance(part, dict)
                for v in part.get("enum", [])
            ]
        try:
            ir = compile_schema(schema)
        except GrammarError as error:
            refusal = str(error)
        else:
            refusal = ""
        if "unsatisfiable" in refusal:
            assert not any(validator.is_valid(value) for value in values), schema
            continue
        if refusal:
            assert "loop" in refusal
            continue
        if ir.tracked:  # rules that depend on texts are not for brute force: test_some_members.py, test_unique_items.py
            continue
        matcher = Naive(ir)
        if matcher.empty:
            assert not any(validator.is_valid(value) for value in values), schema
            continue
        compiled += 1
        for value in values:
            if len(json.dumps(value)) > 60:
                continue
            accepted = [matcher.accepts(dumps(v)) for v in islice(orders(value), 6)]
            if validator.is_valid(value):
                assert any(accepted) or len(accepted) == 6, (schema, value)
            else:
                assert not any(accepted), (schema, value)


def test_equal_parts_are_shared() -> None:
    text = {"type": "string", "maxLength": 3}
    deep: dict = text
    for _ in range(60):
        deep = {"properties": {"a": deep, "b": dict(deep)}}
    schema = {
        "title": "x",
        "properties": {"title": {**text, "description": "1"}, "b": dict(text), "c": {"const": {"title": "x"}}},
        "items": {"const": {"title": "x"}},
        "not": {"minimum": 1},
        "anyOf": [{"minimum": 1.0}, {"minimum": True}, {"minimum": 1}],
        "deep": deep,
    }
    shared = share_equal_parts(schema)
    properties = shared["properties"]
    assert list(properties) == ["title", "b", "c"] and "title" not in shared
    assert properties["title"] is properties["b"] and properties["b"] == text
    assert properties["c"] is shared["items"] and shared["items"] == {"const": {"title": "x"}}
    assert shared["not"] is shared["anyOf"][2]
    assert [type(part["minimum"]) for part in shared["anyOf"]] == [float, bool, int]
    assert shared["deep"]["properties"]["a"] is shared["deep"]["properties"]["b"]
    assert share_equal_parts(True) is True
    spelt = share_equal_parts({"enum": [0.0, -0.0], "const": 0.0})
    assert list(map(str, [*spelt["enum"], spelt["const"]])) == ["0.0", "-0.0", "0.0"]


@pytest.mark.parametrize("keyword", ["examples", "default"])
def test_a_reference_may_lead_into_an_annotation(keyword: str) -> None:
    """Also in a large schema, whose equal parts are shared at once."""
    parts = {name: {"type": "null", keyword: [{"type": kind}]} for name, kind in (("x", "string"), ("y", "integer"))}
    for text in ("", "x" * 5_000):
        ir = compile_schema({"anyOf": [{"$ref": f"#/$defs/y/{keyword}/0"}], "$defs": parts, "description": text})
        assert Naive(ir).accepts(dumps(1)) and not Naive(ir).accepts(dumps("a"))


def test_branches_that_do_not_say_that_they_are_objects() -> None:
    """FHIR's resources: each is valid for what is no object, so that nothing else is valid under one of them alone."""
    names = [f"kind {n}" for n in range(100)]
    part = {f"p{n}": {"$ref": "#/$defs/part"} for n in range(20)}
    kinds = {name: {"properties": {"kind": {"const": name}, **part}, "required": ["kind"]} for name in names}
    schema = {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in names], "$defs": {**kinds, "part": {"properties": part}}}
    matcher = grammar(schema)
    assert matcher.accepts(b'{"kind": "kind 7", "p1": {"p2": 1}}') and matcher.accepts(b'{"kind": "kind 99"}')
    for other in (b"{}", b"1", b'"kind 7"', b"[]", b"null", b'{"kind": "kind"}'):
        assert not matcher.accepts(other)


@pytest.mark.parametrize("seed", range(3))
def test_branches_that_leave_types_free(seed: int) -> None:
    rng = random.Random(seed)
    says = [{"minLength": 2}, {"maximum": 3}, {"minItems": 1}, {"maxItems": 1}, {"enum": [1, "ab", []]}, {"not": {"const": 1}}]
    said_of_all = [{}, {"type": "object"}, {"type": ["object", "string", "number"]}, {"not": {"type": "string"}}]
    values = [None, True, 0, 1, 7, 2.5, "", "ab", [], [1], [1, 2], {}, {"k": 0}, {"k": 1}, {"k": 2}, {"k": "0"}, {"x": 1}]
    for _ in range(cases(60, 15, 20)):
        branches = []
        for k in range(rng.randrange(2, 5)):
            branch = {"properties": {"k": {"const": k}}, "required": ["k"]} if rng.random() < 0.8 else {}
            for more in rng.sample(says, rng.choice((0, 0, 1, 2))):
                branch |= more
            if rng.random() < 0.3:
                branch["type"] = rng.sample(["object", "string", "integer", "array", "null"], 2)
            branches.append(branch)
        schema = {"oneOf": branches, **rng.choice(said_of_all)}
        for judged in (schema, {"not": schema}):
            validator = jsonschema.Draft202012Validator(judged)
            try:
                matcher = grammar(judged)
            except GrammarError:  # unsatisfiable
                matcher = None
            for value in values:
                assert (matcher is not None and matcher.accepts(dumps(value))) == validator.is_valid(value), (judged, value)


def test_branches_that_repeat_each_other() -> None:
    """A ``oneOf`` whose branches are told apart by a tag that may be absent: compiled only if equal parts are seen as equal."""
    common = {f"p{i}": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"maxItems": i}}} for i in range(9)}
    branches = [
        {"type": "object", "properties": {"tag": {"enum": [f"t{k}"]}, **json.loads(json.dumps(common)), f"own{k}": {}}}
        | {"additionalProperties": False}
        for k in range(6)
    ]
    schema = {"oneOf": branches}
    validator = jsonschema.Draft202012Validator(schema)
    matcher = grammar(schema, property_order="any")
    for value in ({}, {"tag": "t1"}, {"p1": {}}, {"own2": 1}, {"tag": "t2", "own2": 1, "p3": {}}, {"tag": "t2", "own3": 1}):
        assert matcher.accepts(json.dumps(value).encode()) == validator.is_valid(value), value


EDGES = [
    0,
    0.0,
    -0.0,
    1,
    0.1,
    0.3,
    1e-5,
    1e16,
    1e300,
    -1e300,
    5e-324,
    2**53,
    2**53 + 1,
    10**23,
    1e23,
    99,
    100,
    10**50,
    1e-3,
    1e-4,
    9.99e-5,
]
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
Limit = Any  # (value, exclusive) or None


def some_number(rng: random.Random) -> int | float:
    return rng.choice(
        [
            rng.randint(-20, 20),
            round(rng.uniform(-3, 3), rng.randint(0, 3)),
            rng.uniform(-1, 1) * 10 ** rng.randint(-30, 30),
            rng.choice(EDGES),
            rng.randint(-(10**18), 10**18),
            float(rng.randint(-1000, 1000)),
        ]
    )


def number_texts(rng: random.Random, low: Limit, high: Limit) -> set[str]:
    out = {"1e400", "-1e400", "1e-400", "0e5", "-0.0E-3", "1e308", "1.7976931348623157e+308", "1.7976931348623159e308", "2e308"}
    for value in [b[0] for b in (low, high) if b] + [some_number(rng) for _ in range(4)]:
        for v in (value, -value):
            out.add(json.dumps(v))
            for x in (float(v), math.nextafter(v, math.inf), math.nextafter(v, -math.inf)):
                out |= {
                    repr(x),
                    repr(x) + "0",
                    f"{x:.20e}",
                    f"{x:.3e}",
                    f"{x:.17g}",
                    str(int(x)),
                    str(int(x) + 1),
                    str(int(x) - 1),
                }
    return {text for text in out if NUMBER.fullmatch(text)}


def within(text: str, low: Limit, high: Limit, whole: bool, integral_floats: bool) -> bool:
    """Both as Python reads the text and by exact arithmetic."""
    exact = [bound and (Decimal(repr(bound[0])), bound[1]) for bound in (low, high)]
    whole_exactly = integral_floats or re.fullmatch("-?[0-9]+", text) is not None
    return inside(json.loads(text), low, high, whole, integral_floats) and inside(Decimal(text), *exact, whole, whole_exactly)


def is_whole(value: float | Decimal) -> bool:
    return value.is_integer() if isinstance(value, float) else value == value.to_integral_value()


def inside(value: int | float | Decimal, low: Limit, high: Limit, whole: bool, integral_floats: bool) -> bool:
    if whole and not (isinstance(value, int) or (integral_floats and is_whole(value))):
        return False
    if low and not (value > low[0] or (value == low[0] and not low[1])):
        return False
    return not high or value < high[0] or (value == high[0] and not high[1])


def left_out(text: str, whole: bool) -> bool:
    """Spellings that the front end documents as left out."""
    value = json.loads(text)
    if text != json.dumps(value) or len(text.lstrip("-")) > 64:
        return True
    return whole and isinstance(value, float) and 2**53 < abs(value) < 10**16


@pytest.fixture
def deep_recursion() -> Iterator[None]:
    """The brute-force reference recurses along a bound of 300 digits."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("deep_recursion")
def test_number_bounds(seed: int) -> None:
    """No text whose Python value is out of bounds is accepted. Every ``json.dumps`` of a number inside them is."""
    rng = random.Random(seed)
    for _ in range(cases(40, 8)):
        low: Limit = (some_number(rng), rng.random() < 0.5) if rng.random() < 0.7 else None
        high: Limit = (some_number(rng), rng.random() < 0.5) if rng.random() < 0.7 else None
        if low and high and low[0] > high[0]:
            low, high = high, low
        for types in (INTEGER_BIT, INTEGER_BIT | FRACTION_BIT):
            floats = rng.random() < 0.8
            ir = GrammarIR()
            ir.start = ir.nonterminal()
            ir.rule(ir.start, [ir.lexeme(number_expr(types, low, high, floats))])
            matcher = Naive(ir)
            for text in number_texts(rng, low, high):
                fits = within(text, low, high, types == INTEGER_BIT, floats)
                if matcher.accepts(text.encode()):
                    assert fits, (text, low, high, types)
                else:
                    assert not fits or left_out(text, types == INTEGER_BIT), (text, low, high, types)
