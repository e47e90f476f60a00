"""``oneOf`` over many objects that may overlap, as published schemas write it: what it compiles to, beside ``jsonschema``."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from typing import Any

import jsonschema
import pytest
from engine_tools import cases
from json_schema_tools import Followed, dumps, grammar, only_attempt

from cdplugin.errors import LimitExceeded
from cdplugin.frontends.json_schema import Options, compile_schema

KINDS = [f"kind{i}" for i in range(14)]
TYPES = ["string", "number", "object", "null"]
SHARED = ["path", "line", "end", "column", "last", "sha", "commit", "url"]


def locations(n: int) -> dict[str, Any]:
    """As GitHub's API says where a secret was found: open objects, most of which share a member with others."""
    said = {"type": "string", "description": "where", "example": "…"}
    branches: list[dict[str, Any]] = []
    for own in ("blob_url", "page_url"):
        part = {name: {**said, "example": f"{name} of {own}"} for name in [*SHARED, own]}
        branches.append({"type": "object", "properties": part, "required": list(part)})
    for i, name in enumerate(KINDS[:n]):
        part = {name: {**said}, **({"html": {**said, "example": name}} if i % 3 else {})}
        branches.append({"type": "object", "properties": part, "required": [name]})
    return {"oneOf": branches}


def states(n: int) -> dict[str, Any]:
    """As XState tells its nodes apart: by a pattern for a member whose values another schema lists."""
    base = {"type": "object", "properties": {"type": {"enum": KINDS[:n]}, "id": {"type": "string"}}, "required": ["type"]}
    more = {name: {"type": "array", "items": {"type": "object"}} for name in ("entry", "exit", "invoke", "transitions")}
    own = [
        {
            "properties": {"type": {"pattern": f"{name}$"}, "on": {"type": "object"}, "own": {}, **more},
            "required": ["on", "own"],
        }
        for name in KINDS[:n]
    ]
    return {"oneOf": [{"allOf": [{"$ref": "#/$defs/base"}, more]} for more in own], "$defs": {"base": base}}


def middleware(n: int) -> dict[str, Any]:
    """As Traefik lists its middleware: closed objects of one member, which may be absent."""
    return {
        "type": "object",
        "oneOf": [{"properties": {name: {"type": "integer"}}, "additionalProperties": False} for name in KINDS[:n]],
    }


def queues(n: int) -> dict[str, Any]:
    """As RoadRunner describes a queue: open objects, of which no member is required, and one member at most."""
    own = [[f"{name}{i}" for i in range(n)] for name in KINDS[:5]]
    others = [[name for name in KINDS[:5] if name != kind] for kind in KINDS[:5]]
    parts = [{name: {"type": "integer"} for name in [*some, *more]} for some, more in zip(own, others, strict=True)]
    return {"type": "object", "maxProperties": 1, "oneOf": [{"properties": part} for part in parts]}


def fields(n: int) -> dict[str, Any]:
    """As Atlas describes a field: members that may be there if another one has one of some values, or is absent."""
    groups = [KINDS[i : i + 2] for i in range(0, n, 2)]
    names = {"kind": {"enum": [*KINDS[:n]]}, **{f"p{name}": {"type": "integer"} for name in KINDS[:n]}}
    needs = {f"p{name}": {"properties": {"kind": {"enum": list(group)}}} for group in groups for name in group}
    closed = {"type": "object", "properties": names, "additionalProperties": False, "dependencies": needs}
    return {**closed, "$schema": "http://json-schema.org/draft-07/schema#"}


def tasks(n: int) -> dict[str, Any]:
    """As Azure describes a task: one list for each name, beside one pattern for each."""
    names = [f"Task{i}@1" for i in range(n)]
    own = [{"properties": {"task": {"pattern": f"^{name}$"}, "inputs": {"required": [name]}}} for name in names]
    listed = {"anyOf": [{"enum": [name], "description": name} for name in names]}
    return {"type": "object", "properties": {"task": listed, "inputs": {"type": "object"}}, "anyOf": own, "required": ["task"]}


def constraints(n: int) -> dict[str, Any]:
    """As opspec describes what depends on a parameter: closed objects of many members that may be absent, one kind or another,
    or a list. All kinds have an ``enum``, each of other values, and those beside each other a member that is the same.
    """
    said = {"title": {"type": "string"}, "write": {"type": "boolean"}, "kind": {"type": ["string", "array"]}}
    kinds: list[dict[str, Any]] = [{"properties": said}]
    for i in range(n):
        own = {f"own{i}-{k}": {"type": "number"} for k in range(9)}
        between = {f"shared{k}": {"type": "integer"} for k in (i, i + 1)}
        enum = {"type": "array", "items": {"type": TYPES[i % 4]}}
        part = {**own, **between, "enum": enum, "not": {"$ref": f"#/$defs/{i}"}}
        kinds.append({"type": "object", "properties": part, "additionalProperties": False})
    defs = {str(i): kind for i, kind in enumerate(kinds[1:])}
    return {"oneOf": [{"anyOf": kinds}, {"items": {"type": "string"}}], "$defs": defs}


def builders(n: int) -> dict[str, Any]:
    """As Angular describes a target: a name, which may be absent, tells which of many options there may be."""
    parts = [{f"o{k}": {"type": "string"} for k in range(3 * i, 3 * i + 9)} for i in range(n)]
    options = [{"type": "object", "properties": part, "additionalProperties": False} for part in parts]
    branches: list[dict[str, Any]] = []
    for i in range(n):
        more = {"type": "object", "additionalProperties": {"$ref": f"#/$defs/{i}"}}
        own = {"builder": {"const": KINDS[i]}, "options": {"$ref": f"#/$defs/{i}"}, "configurations": more}
        branches.append({"type": "object", "properties": own, "additionalProperties": False})
    target = {"oneOf": branches}
    small = {"oneOf": [{"type": "integer"}, {"minimum": 3}]}
    properties = {"target": target, "small": small}
    return {"type": "object", "properties": properties, "$defs": {str(i): option for i, option in enumerate(options)}}


def agree(schema: dict[str, Any], values: Iterable[Any]) -> int:
    """Compare the grammar with ``jsonschema``. Returns how many of the values are valid."""
    matcher, validator = grammar(schema, property_order="any"), jsonschema.validators.validator_for(schema)(schema)
    valid = 0
    for value in values:
        expected = validator.is_valid(value)
        assert matcher.accepts(dumps(value)) == expected, (schema, value)
        valid += expected
    return valid


@pytest.mark.parametrize("n", [3, 11])
def test_objects_that_share_members(n: int) -> None:
    commit = dict.fromkeys(SHARED, "x")
    values: list[Any] = [commit, {**commit, "blob_url": "u"}, {**commit, "blob_url": "u", "page_url": "v"}, {}, "x"]
    values += [{**commit, "blob_url": 1, "page_url": "v"}, {**commit, "line": 1, "blob_url": "u", "page_url": "v"}]
    for a, b in itertools.combinations(KINDS[:n], 2):
        values += [{a: "x"}, {a: "x", b: "y"}, {a: "x", b: 1}, {a: "x", "html": 1}, {a: "x", "html": "h"}]
        values += [{a: "x", **commit, "page_url": "v"}, {a: "x", **commit}]
    assert agree(locations(n), values) > n


@pytest.mark.parametrize("n", [3, 14])
def test_a_member_that_one_schema_lists_and_another_describes(n: int) -> None:
    values = [
        {"type": kind, **more}
        for kind in KINDS
        for more in ({}, {"on": {}, "own": 1}, {"on": 1, "own": 1}, {"id": 1, "on": {}, "own": 1})
    ]
    assert agree(states(n), values) == n


@pytest.mark.parametrize("n", [3, 14])
def test_closed_objects_of_one_member(n: int) -> None:
    values: list[Any] = [{}, 1, {"other": 1}, *({name: value} for name in KINDS for value in (1, "x"))]
    values += [{a: 1, b: 2} for a, b in itertools.combinations(KINDS[:n], 2)]
    assert agree(middleware(n), values) == n


@pytest.mark.parametrize("n", [3, 14])
def test_one_member_at_most(n: int) -> None:
    values = [{}, *({name: value} for name in KINDS for value in (1, "x")), {KINDS[0]: "x", KINDS[1]: 1}, {"kind11": "x"}]
    assert agree(queues(n), values) == 5


@pytest.mark.parametrize("n", [4, 14])
def test_members_that_depend_on_the_value_of_another(n: int) -> None:
    values: list[Any] = [{}, {"kind": "other"}, 1]
    for a, b in itertools.combinations(KINDS[:n], 2):
        for more in ({}, {"kind": a}, {"kind": b}):
            values += [{f"p{a}": 1, **more}, {f"p{a}": 1, f"p{b}": 2, **more}]
    assert agree(fields(n), values) > n


@pytest.mark.parametrize("n", [3, 250])
def test_a_list_for_each_name_beside_a_pattern_for_each(n: int) -> None:
    values: list[Any] = [{"task": 1}, {"task": "Task"}, {}]
    for i in {*range(3), n - 1, n}:
        values += [
            {"task": f"Task{i}@1", **more} for more in ({}, {"inputs": {}}, {"inputs": {f"Task{i}@1": 1}}, {"inputs": 1})
        ]
        values += [{"task": f"Task{i}@10"}, {"task": f"Task{i}@1", "inputs": {f"Task{i + 1}@1": 1}}]
    assert agree(tasks(n), values) > 3


@pytest.mark.parametrize("draft", ["draft-04", "draft-07"])
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize("outer", ["", "not"])
def test_lists_beside_each_other(keyword: str, draft: str, outer: str) -> None:
    """Some texts in two lists, in one list twice, beside a type, and lists of other things."""
    lists: list[dict[str, Any]] = [
        {"enum": ["a", "b", "a"]},
        {"enum": ["b", "c"], "type": "string"},
        {"enum": ["d"], "type": ["string", "null"]},
    ]
    others: list[dict[str, Any]] = [{}, {"enum": [1, "a"]}, {"enum": ["e"], "type": "number"}, {"enum": ["c"], "minLength": 2}]
    for other, beside in itertools.product(others, ({}, {"pattern": "^b$"}, {"pattern": "a|c"}, {"maxLength": 0})):
        schema: dict[str, Any] = {keyword: [*lists, *([other] if other else [])], **beside}
        if outer:
            schema = {outer: schema}
        schema = {"$schema": f"http://json-schema.org/{draft}/schema#", "properties": {"x": schema}, "type": "object"}
        agree(schema, [{"x": value} for value in ("a", "b", "c", "d", "e", "f", "", 1, None, [])])


@pytest.mark.parametrize("n", [2, 4])
def test_members_any_of_which_may_be_wrong(n: int) -> None:
    """What is no object of a kind was one alternative for each of its members: of four kinds, more than 20,000."""
    parts: list[dict[str, Any]] = [{}, {"title": 1}, {"title": "x"}, {"write": 1}, {"kind": 1, "title": 2}, {"other": 1}]
    parts += [{"enum": [value]} for value in ("x", 1, {}, None)]
    parts += [{f"own{i}-0": 1} for i in range(n)] + [{"own0-0": "x"}, {"shared1": 1}, {"shared1": 1.5}, {"shared9": 1}]
    parts += [{"not": part} for part in parts[6:]]
    values = [{**a, **b} for a, b in itertools.product(parts, parts)]
    assert agree(constraints(n), [*values, [], ["x"], [1], 1, "x"]) > n


def test_a_one_of_that_is_given_up() -> None:
    """Only where the caller asked for it, only one whose alternatives are too many, and by name."""
    schema = builders(14)
    with pytest.raises(LimitExceeded, match=r"merging .* at /properties/target$") as error:
        compile_schema(schema)
    assert type(error.value) is LimitExceeded
    ir = compile_schema(schema, Options(on_unsupported="relax", property_order="any"))
    assert ir.relaxed == [("oneOf", "/properties/target/oneOf")]
    loose = {**schema, "properties": {**schema["properties"], "target": {"anyOf": schema["properties"]["target"]["oneOf"]}}}
    matcher, validator = Followed(ir), jsonschema.Draft202012Validator(loose)
    options: list[dict[str, Any]] = [{}, {"o1": "x"}, {"o40": "x"}, {"o1": 1}, {"o1": "x", "o40": "x"}]
    parts = [{}, *({"builder": kind} for kind in (*KINDS[:3], "x")), *({"options": some} for some in options)]
    targets = [
        *itertools.starmap(lambda a, b: {**a, **b}, itertools.product(parts, parts)),
        {"configurations": {"x": options[1]}},
    ]
    values = [{"target": target} for target in targets] + [{"small": small} for small in (1, 3, 3.5, 2.5, "x")]
    found = [validator.is_valid(value) for value in values]
    assert [matcher.accepts(dumps(value)) for value in values] == found and any(found) and not all(found)


def test_a_one_of_is_kept_where_it_is_no_matter() -> None:
    for schema in (builders(3), constraints(4), locations(11)):
        assert compile_schema(schema, Options(on_unsupported="relax")).relaxed == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_random_objects(seed: int, attempt: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small objects of all kinds, at each attempt."""
    if attempt > 1:
        only_attempt(attempt, monkeypatch)
    rng = random.Random(seed)
    members = [
        {"type": "integer"},
        {"enum": [1, "x"]},
        {"const": 2},
        {"not": {"type": "string"}},
        {"pattern": "x"},
        False,
        True,
    ]
    values = [dict(zip(names, held, strict=True)) for n in range(3) for names in itertools.permutations("abc", n)
              for held in itertools.product([1, 2, "x", "y"], repeat=n)]  # fmt: skip
    for _ in range(cases(30, 6, 10)):
        branches = []
        for _ in range(rng.randrange(2, 5)):
            branch: dict[str, Any] = {"properties": {name: rng.choice(members) for name in "abc" if rng.random() < 0.5}}
            for more, share in (
                ({"required": rng.sample("abc", rng.choice((1, 1, 2)))}, 0.4),
                ({"additionalProperties": rng.choice([False, {"type": "string"}])}, 0.4),
                ({"maxProperties": rng.choice((1, 2))}, 0.2),
                ({"dependentSchemas": {rng.choice("abc"): {"properties": {rng.choice("abc"): rng.choice(members)}}}}, 0.3),
                ({"allOf": [{"properties": {rng.choice("abc"): {"enum": [1, 2, "x"]}}}]}, 0.3),
            ):
                branch |= more if rng.random() < share else {}
            branches.append(branch)
        schema = {"type": "object", rng.choice(["oneOf", "oneOf", "allOf"]): branches}
        if not any(jsonschema.Draft202012Validator(schema).is_valid(value) for value in values):
            continue  # perhaps none is valid, and it is refused
        agree(schema, values)
