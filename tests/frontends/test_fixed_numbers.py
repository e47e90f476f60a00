"""The numbers of ``enum`` and ``const`` are accepted in all spellings of the same value, and in no other."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import jsonschema
import pytest
from json_schema_tools import dumps, grammar

import cdplugin as cd

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def spelt(text: str) -> list[str]:
    """Ways to write the number that ``text``, digits with or without a point, stands for."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, fraction = digits.partition(".")
    out = [text, text + ("0" if fraction else ".0"), text + ("000" if fraction else ".000")]
    significant = (whole + fraction).lstrip("0")
    power = len(whole) - 1 - (len(whole + fraction) - len(significant)) if significant else 0
    significant = significant.rstrip("0") or "0"
    mantissas = [significant[0] + ("." + significant[1:] if significant[1:] else "")]
    mantissas.append(mantissas[0] + ("0" if "." in mantissas[0] else ".0"))
    for mantissa, e in itertools.product(mantissas, "eE"):
        out += [f"{sign}{mantissa}{e}{power}", f"{sign}{mantissa}{e}{'-' if power < 0 else '+'}{abs(power):02}"]
    if significant != "0":
        out += [f"{sign}{significant}e{power + 1 - len(significant)}", f"{sign}{significant}00e{power - 1 - len(significant)}"]
        out += [f"{sign}0.{significant}e{power + 1}", f"{sign}0.00{significant}0E{power + 3:+}"]
        out += [f"{sign}{significant[:2]}.{significant[2:]}e{power - 1}"] if significant[2:] else []
    else:
        out += [f"{sign}0e5", f"{sign}0.0E-3", f"{sign}0e+00"]
    return out


@pytest.mark.parametrize("text", ["2", "100", "-7", "0.1", "-1.5", "12.25", "1000000", "0.00001", "0", "123456789012"])
def test_all_spellings_and_no_others(text: str) -> None:
    value = json.loads(text)
    for schema in ({"const": value}, {"enum": [value, "x", None]}, {"enum": [value], "maximum": 10**15}):
        matcher = grammar(schema)
        for other in spelt(text):
            assert json.loads(other) == value
            assert matcher.accepts(other.encode()), (schema, other)
        for other in ("", "-", text + "1", "1" + text, text + "e1", text + ".", "0" + text, text.lstrip("-") + "e"):
            try:
                same = json.loads(other) == value
            except ValueError:
                same = False
            assert same or not matcher.accepts(other.encode()), (schema, other)


def test_random_texts_are_accepted_only_if_they_read_as_a_listed_number() -> None:
    rng = random.Random(5)
    values: list[Any] = [0, 3, -20, 2.5, 1e22, 2**60, 1e-7, 120]
    matcher = grammar({"enum": values})
    accepted = 0
    for _ in range(20_000):
        text = "".join(rng.choice("0125e-+.E6") for _ in range(rng.randrange(1, 7)))
        if matcher.accepts(text.encode()):
            assert json.loads(text) in values, text
            accepted += 1
    assert accepted > 10


def test_values_inside_others() -> None:
    matcher = grammar({"enum": [[1, {"a": 0.5}]]}, whitespace="compact")
    assert matcher.accepts(b'[1e0,{"a":5e-1}]') and matcher.accepts(b'[1.0,{"a":0.50}]') and not matcher.accepts(b'[1,{"a":5}]')


def test_spellings_of_equal_items_are_told_apart() -> None:
    matcher = grammar({"items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 2}, whitespace="compact")
    assert matcher.accepts(b"[1e0,2.0]") and not matcher.accepts(b"[1,1.0]") and not matcher.accepts(b"[2e0,2]")


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"type": "integer"}, ["100"], ["100.0", "1e2"]),  # the suite's optional zeroTerminatedFloats
        ({"type": "integer", "enum": [100.0]}, ["100"], ["100.0", "1e2"]),
        ({"type": "integer", "enum": [100, 100.5]}, ["100"], ["100.0", "1e2", "100.5"]),
        ({"enum": [100]}, ["100", "100.0", "1e2"], ["1000"]),
        ({"not": {"type": "integer"}, "enum": [100]}, ["100.0", "1e2"], ["100"]),
        ({"type": "array", "items": {"type": "integer"}, "enum": [[100.0], [100]]}, ["[100]"], ["[100.0]"]),
        ({"type": "array", "items": {"not": {"type": "integer"}}, "enum": [[100.0]]}, ["[100.0]"], ["[100]"]),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}, "enum": [{"a": 1.0}, {"a": 1}]},
            ['{"a":1}'],
            ['{"a":1.0}'],
        ),
        ({"type": "integer", "oneOf": [{"enum": [2.0]}, {}]}, ["1"], ["2", "2.0"]),  # both hold, whatever the spelling
        ({"oneOf": [{"enum": [2]}, {"not": {"type": "integer"}}]}, ["2", "1.0"], ["2.0", "1"]),
        ({"oneOf": [{"enum": [[1.0, 2]]}, {"items": {"type": "integer"}}]}, ["[1.0,2]", "[1]"], ["[1,2]", "[1.0]"]),
        ({"oneOf": [{"enum": [[1.0] * 7]}, {"items": {"type": "integer"}}]}, ["[1]"], ["[1,1,1,1,1,1,1]"]),
    ],
)
def test_draft_4_tells_floats_from_integers(schema: dict, yes: list[str], no: list[str]) -> None:
    matcher = grammar({"$schema": DRAFT_4, **schema}, whitespace="compact")
    assert [text for text in yes if not matcher.accepts(text.encode())] == []
    assert [text for text in no if matcher.accepts(text.encode())] == []


def test_many_numbers_are_a_few_expressions() -> None:
    from cdplugin.frontends.json_schema import compile_schema

    ir = compile_schema({"enum": [i / 8 for i in range(10_000)]})
    (lexeme,) = ir.lexemes[-1:]
    assert len(lexeme.args) < 60 and grammar({"enum": [i / 8 for i in range(10_000)]}).accepts(dumps(1249.875))


LISTED_IN_DRAFT_4: list[dict[str, Any]] = [
    {"enum": [[0], {"a": 1, "b": [2.5]}]},
    {"enum": [[0.0], {"a": 1.0, "b": [2]}]},
    {"enum": [[1, 2]], "items": {"type": "integer"}},
    {"enum": [[1, 2]], "items": [{"type": "integer"}]},
    {"enum": [{"a": 1, "b": 2}], "properties": {"a": {"type": "integer"}}},
    {"enum": [{"a": 1, "b": 2}, [1]], "anyOf": [{"properties": {"a": {"type": "integer"}}}, {"type": "array"}]},
    {"enum": [{"a": 1, "b": 2}], "oneOf": [{"properties": {name: {"type": "integer"}}} for name in "ab"]},
    {"enum": [[1, 2]], "not": {"items": {"type": "integer"}}},
    {"not": {"enum": [[1, 2]]}, "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2, "type": "array"},
    {"uniqueItems": True, "type": "array", "items": {"enum": [[1], [1.0], [2]]}},
]
VALUES_OF_DRAFT_4 = [
    *("[0]", "[0.0]", "[1, 2]", "[1.0, 2]", "[1, 2.0]", "[1.0, 2.0]", "[1]", "[1.0]", "[[1], [2.0]]", "[[1.0], [1]]"),
    *(f'{{"a": {a}, "b": {b}}}' for a in ("1", "1.0") for b in ("2", "2.0", "[2.5]", "[2]", "[2.0]")),
]


@pytest.mark.parametrize("schema", LISTED_IN_DRAFT_4, ids=repr)
@pytest.mark.parametrize("options", [{}, {"property_order": "any"}, {"indent": 1}], ids=repr)
def test_numbers_inside_listed_values_in_draft_4(schema: dict[str, Any], options: dict[str, Any]) -> None:
    """Each spelling is judged by its type; equal values are listed whatever their spelling."""
    matcher = grammar({"$schema": DRAFT_4, **schema}, **options)
    is_valid = jsonschema.Draft4Validator(schema).is_valid
    for text in VALUES_OF_DRAFT_4:
        data = json.dumps(json.loads(text), indent=options.get("indent")).encode()
        assert matcher.accepts(data) == is_valid(json.loads(text)), text


@pytest.mark.parametrize("options", [{}, {"property_order": "any"}, {"indent": 1}], ids=repr)
def test_many_numbers_inside_a_listed_value_in_draft_4(options: dict[str, Any]) -> None:
    """Nothing else restricts them: each is an integer or a float, in ever so many ways; beside ``items`` they are as listed."""
    many = [1] * 7
    for schema, yes in (({"enum": [many]}, True), ({"enum": [many], "items": {"type": "integer"}}, False)):
        matcher = grammar({"$schema": DRAFT_4, **schema}, **options)
        assert matcher.accepts(json.dumps(many, indent=options.get("indent")).encode())
        assert matcher.accepts(json.dumps([*many[1:], 1.0], indent=options.get("indent")).encode()) is yes
    choice = {"enum": [many, 0], "anyOf": [{"items": {"type": "integer"}}, {"items": {"minimum": 1}}]}
    matcher = grammar({"$schema": DRAFT_4, **choice}, **options)
    assert matcher.accepts(json.dumps(many, indent=options.get("indent")).encode())


def test_copies_of_listed_values_in_draft_4_are_counted() -> None:
    """There was a copy of a list of a hundred thousand texts for each way to write six numbers: a gigabyte."""
    from cdplugin.frontends.json_schema.values import is_typed, n_parts, typed

    assert len(typed([1, 2, 3, 4, 5, 6], False)) == 64 and n_parts([1, {"a": [2]}]) == 5
    for value in ([1, 2, 3, 4, 5, 6, *["a"] * 100], [1] * 7):
        assert typed(value, False) == (value,) and is_typed(value)
    listed = {"$schema": DRAFT_4, "enum": [[i, 1, 2, 3, 4, 5] for i in range(10, 2_000)]}
    assert grammar(listed).accepts(b"[10, 1.0, 2, 3, 4.0, 5]")
    with pytest.raises(cd.LimitExceeded, match="takes too much work"):
        grammar({**listed, "items": {"type": "integer"}})
