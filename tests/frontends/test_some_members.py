"""Objects in which a complement asks for *some* member of a kind: every small object in every order, beside jsonschema."""

from __future__ import annotations

import json
import random
from itertools import combinations, permutations, product
from typing import Any

import jsonschema
import pytest
from engine_tools import cases, mask, vocabulary

import cdplugin as cd
from cdplugin.errors import LimitExceeded, UnsupportedError
from cdplugin.frontends.json_schema import compile_schema

NAMES = ["a", "b", "ab", "1", "2", "5"]
VALUES = [1, 2]
VOCAB = vocabulary([b'"a"', b'{"a', b'","', b'":1', b'1,"', b'":2}', b'"b":', b"1}", b"2,", b'"1":1,"2"'])
COMPILER = cd.Compiler(VOCAB)


def some_name(*names: str) -> dict:
    """Says in its complement that some member has one of the names."""
    return {"propertyNames": {"not": {"enum": list(names)}}}


def none_of(*schemas: dict, **more: Any) -> dict:
    return {"type": "object", "not": {"anyOf": list(schemas)}, **more}


# Undeclared members that must be different ones are told apart by their names: whatever is valid is accepted, in any order.
EXACT = [
    none_of({"additionalProperties": {"const": 1}}, {"additionalProperties": {"const": 2}}),
    none_of({"additionalProperties": {"const": 1}}, {"additionalProperties": {"const": 2}}, minProperties=3, maxProperties=3),
    none_of({"additionalProperties": {"const": 1}}, {"additionalProperties": {"const": 2}}, required=["b"]),
    none_of({"patternProperties": {"^a": {"const": 1}}}, {"patternProperties": {"^[ab]": {"const": 2}}}),
    none_of({"propertyNames": {"pattern": "^a"}}, {"propertyNames": {"pattern": "b"}}),
    none_of(*({"patternProperties": {f"^{c}.{{0,8}}$": {"const": 1}}} for c in "a1")),  # no name is such as both ask for
    none_of(*({"patternProperties": {f"^[{c}]": {"const": 1}}} for c in ("ab", "b1", "a1", "125")), maxProperties=2),
    none_of(some_name("1", "2"), some_name("2", "5"), some_name("a", "1"), maxProperties=2),
    none_of(some_name("1", "2"), {"additionalProperties": {"const": 1}}, {"additionalProperties": {"const": 2}}),
    none_of(some_name("1", "3"), some_name("2", "3"), minProperties=3),
    none_of({"patternProperties": {"^(1|5)$": False}}, {"patternProperties": {"^(2|5)$": False}}, {"required": ["5"]}),
    none_of(
        some_name("1", "3"),
        some_name("2", "4", "5"),
        patternProperties={"^[0-9]$": {"const": 1}},
        additionalProperties=False,
        dependencies={"5": {"not": {"required": ["3"]}}},
    ),
    {"type": "object", "patternProperties": {"^[12ab]$": {"const": 1}}, "additionalProperties": False, "minProperties": 3},
    none_of(*(some_name("1", name) for name in NAMES), {"required": ["a", "b"]}, {"properties": {"1": {"const": 1}}}),
    none_of(*({"properties": {name: {"const": 1}}} for name in NAMES[:3]), *({"required": [name, "5"]} for name in NAMES)),
    # by its name a member meets a condition for good, even where a later one may have the same
    none_of({"propertyNames": {"pattern": "^[a1]$"}}),
    none_of({"propertyNames": {"pattern": "^[a1]$"}}, maxProperties=2, required=["1"]),
    none_of({"propertyNames": {"pattern": "^[^a]"}}, patternProperties={"b": {"const": 1}}),
]
# One condition on the values of undeclared members: these may repeat, and once one meets it those that follow do so as well.
IN_SOME_ORDER = [
    none_of({"additionalProperties": {"const": 1}}),
    none_of({"additionalProperties": {"const": 1}}, maxProperties=2, required=["1"]),
    none_of({"additionalProperties": {"const": 1}}, propertyNames={"pattern": "^[ab]{1,2}$"}),
    none_of({"patternProperties": {"^a": {"const": 1}}}),
    none_of({"patternProperties": {"^[a1].{0,8}$": {"const": 1}}}, maxProperties=2, required=["1"]),
    none_of({"patternProperties": {"^[a1].{0,8}$": {"const": 1}}}, patternProperties={"b": {"const": 2}}),
    none_of({"patternProperties": {"^a": {"const": 1}, "b": {"const": 2}}}),
]


def small_objects(rng: random.Random) -> list[dict]:
    """Objects of at most two members, some of three, in all orders."""
    members = [
        list(zip(names, values, strict=True))
        for size in range(4)
        for names in combinations(NAMES, size)
        for values in product(VALUES, repeat=size)
    ]
    large = [some for some in members if len(some) == 3]
    chosen = [some for some in members if len(some) < 3] + rng.sample(large, cases(20, 4))
    return [dict(some) for chosen_one in chosen for some in permutations(chosen_one)]


def matcher(schema: dict, **options: Any) -> cd.Matcher:
    return COMPILER.compile(cd.JsonSchema(schema, whitespace="compact", **options)).matcher()


def accepts(m: cd.Matcher, value: dict) -> bool:
    text = json.dumps(value, separators=(",", ":")).encode()
    m.reset()
    return m.accept_tokens(list(text)) == len(text) and m.is_accepting()


@pytest.mark.parametrize("number", range(len(EXACT) + len(IN_SOME_ORDER)))
def test_small_objects(number: int) -> None:
    schema = [*EXACT, *IN_SOME_ORDER][number]
    validator = jsonschema.Draft202012Validator(schema)
    in_order, in_any = (matcher(schema, property_order=order) for order in ("schema", "any"))
    taken: dict[Any, bool] = {}
    objects = small_objects(random.Random(number))
    for value in objects:
        valid = validator.is_valid(value)
        found = accepts(in_any, value)
        if number < len(EXACT):
            assert found == valid, value
        elif found:
            assert valid, value
        key = frozenset(value.items())
        taken[key] = taken.get(key, False) or found
        ordered = accepts(in_order, value)
        assert not ordered or valid, value
        taken[key, "in order"] = taken.get((key, "in order"), False) or ordered
        taken[key, "valid"] = valid
    for value in objects:
        key = frozenset(value.items())
        assert taken[key] == taken[key, "in order"] == taken[key, "valid"], value


@pytest.mark.parametrize("order", ["schema", "any"])
def test_members_beside_the_one_that_is_asked_for(order: Any) -> None:
    """Members follow it whose names the complement is not about, whatever they hold; none with its own name may undo it."""
    m = matcher(none_of({"patternProperties": {"^a": {"const": 1}}}), property_order=order)
    for text, found in (
        ('{"ab":2,"b":1}', True),
        ('{"b":1,"ab":2}', True),
        ('{"b":1,"ab":2,"b":1,"ac":3,"b":2}', True),
        ('{"ab":2,"ab":1}', False),
        ('{"ab":2,"\\u0061b":1}', False),
        ('{"ab":2,"b":1,"ac":1}', False),
        ('{"b":2,"ab":1}', False),
    ):
        m.reset()
        assert (m.accept_tokens(list(text.encode())) == len(text) and m.is_accepting()) is found, text


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("number", range(len(EXACT)))
def test_walks_end(number: int, order: Any) -> None:
    """However members are drawn, the object can still be closed, and masks are what stepping allows."""
    rng = random.Random(number)
    m = matcher(EXACT[number], property_order=order)
    validator = jsonschema.Draft202012Validator(EXACT[number])
    common = {i for i, t in enumerate(VOCAB.tokens) if t and set(t) <= set(b'{}",:ab125')}
    for walk in range(cases(12, 3)):
        m.reset()
        for step in range(rng.randrange(30)):
            allowed = mask(m) - {VOCAB.eos_token_ids[0]}
            if not allowed:
                break
            if step % 8 == 3 and walk < 3:
                stepped = set()
                for token in range(VOCAB.size):
                    if m.accept_token(token):
                        stepped.add(token)
                        m.rollback(1)
                assert allowed == stepped - {VOCAB.eos_token_ids[0]}
            likely = sorted(allowed & common)
            assert m.accept_token(rng.choice(likely if likely and rng.random() < 0.9 else sorted(allowed)))
        ending = m.shortest_completion()
        assert m.accept_tokens(ending) == len(ending) and m.is_accepting()
        text = b"".join(VOCAB.tokens[t] or b"" for t in m.tokens)
        assert validator.is_valid(json.loads(text)), text


def test_unique_names_beside_a_complement() -> None:
    m = matcher(none_of({"additionalProperties": {"const": 1}}), unique_names=True)
    for text, found in (
        ('{"a":1,"b":2}', True),
        ('{"b":2,"a":1}', True),
        ('{"b":2,"b":2}', False),
        ('{"b":2,"b":1}', False),
        ('{"b":1}', False),
    ):
        m.reset()
        assert (m.accept_tokens(list(text.encode())) == len(text) and m.is_accepting()) is found, text


def test_many_complements() -> None:
    """What they cost is counted, not how many they are."""
    names = [f"n{i}" for i in range(30)]
    m = matcher(none_of(*({"properties": {name: {"const": 1}}} for name in names)), property_order="any")
    assert accepts(m, dict.fromkeys(names, 2)) and not accepts(m, dict.fromkeys(names[1:], 2))
    assert not accepts(m, dict.fromkeys(names, 2) | {"n7": 1})
    # each undeclared member may meet any of nine conditions
    m = matcher(none_of(*({"additionalProperties": {"const": i}} for i in range(9))), property_order="any")
    assert accepts(m, {"a": 10}) and accepts(m, {"a": 10, "b": 11}) and not accepts(m, {"a": 0}) and not accepts(m, {})
    with pytest.raises(LimitExceeded, match="too many complements apply to one object: expected at most 12 that one member"):
        matcher(none_of(*({"additionalProperties": {"const": i}} for i in range(14))))


def test_names_that_might_run_out_are_refused_by_name() -> None:
    """More names than are declared one by one, but too few to draw from without end, which is not seen at once."""
    schema = none_of({"additionalProperties": {"const": 1}}, {"additionalProperties": {"const": 2}})
    schema["propertyNames"] = {"pattern": "^[a-z]{2}", "not": {"pattern": "[^]{3}"}}
    assert compile_schema(schema).rules
    with pytest.raises(UnsupportedError, match="'not' is not supported where so few values may be left") as caught:
        matcher(schema)
    assert caught.value.keyword == "not"
    schema["propertyNames"]["not"] = {"pattern": "..."}  # which has no line feeds: "ab\ncd\nef" and so on are names
    assert accepts(matcher(schema), {"ab": 1, "ab\ncd": 2})


@pytest.mark.parametrize("n", [2, 5])
def test_no_member_meets_all_conditions(n: int) -> None:
    """That no name or value is such as several conditions ask for may be found only when they are put together."""
    letters = "abcde"[:n]
    names = [{"patternProperties": {f"^{c}.{{0,8}}$": {"const": 1}}} for c in letters]
    assert accepts(matcher(none_of(*names)), dict.fromkeys(letters, 2))
    branches = [{"type": "object", **one, "minProperties": 1} for one in names]
    assert accepts(matcher({"oneOf": branches}), {"a": 1, **dict.fromkeys(letters[1:], 2)})
    inner = {"type": "object", "properties": {"x": {"enum": list(range(n))}}, "required": ["x"], "additionalProperties": False}
    nots = [{"additionalProperties": {"properties": {"x": {"const": i}}}} for i in range(n)]
    assert accepts(matcher(none_of(*nots, additionalProperties=inner)), {c: {"x": i} for i, c in enumerate(letters)})


def test_few_names_meet_several_conditions() -> None:
    """Two of four letters in a name of two: these names are listed, since two members could use them up."""
    schema = none_of(*({"propertyNames": {"not": {"pattern": c}}} for c in "abcd"), maxProperties=2)
    schema["propertyNames"] = {"pattern": "^..$"}
    m = matcher(schema)
    assert accepts(m, {"ab": 1, "cd": 1}) and accepts(m, {"ca": 1, "bd": 1})
    assert not accepts(m, {"ab": 1, "cc": 1}) and not accepts(m, {"ab": 1})


def test_texts_that_can_be_read_in_several_ways() -> None:
    """A member that may or may not be the one that a complement asks for: the names seen are one set, not one for each way."""
    schema = {
        "type": "object",
        "not": {"anyOf": [{"patternProperties": {"c": {"type": "number"}}}, {"propertyNames": {"maxLength": 1}}]},
    }
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)
    matcher = cd.Compiler(vocab).compile(cd.JsonSchema(schema, property_order="any")).matcher()
    value = {f"name {i}": None for i in range(40)}
    text = json.dumps(value).encode()
    assert matcher.accept_tokens(text[:-1]) == len(text) - 1
    assert not matcher.accept_token(ord("}"))
    assert matcher.accept_tokens(b', "c": ""}') == 10
    assert matcher.is_accepting()
