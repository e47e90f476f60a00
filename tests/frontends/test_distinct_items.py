"""``uniqueItems`` over items of any kind: exactly the valid arrays are accepted, masks are exact, and no walk gets stuck."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pytest
from engine_tools import cases

import cdplugin as cd
from cdplugin import languages
from cdplugin.expr import Expr
from cdplugin.frontends.json_schema import distinct_items
from cdplugin.frontends.json_schema.distinct_values import Chain, List

jsonschema = pytest.importorskip("jsonschema")
LONGER = (
    b'{"', b'":"', b'","', b'"},{"', b'a"},{"', b'","n":"a', b"1},{", b"[[", b"],[", b"1,1", b"]]", b"true}", b"],", b"[1,2],",
    b'{"a":1}', b'"a"],["a"', b'a","b', b'":1},{"',
)  # fmt: skip
TOKENS = [*(bytes([b]) for b in range(256)), *LONGER, b"</s>"]
VOCAB = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=len(TOKENS) - 1)
COMPILER = cd.Compiler(VOCAB)

TEXT, FEW, WORD, INTEGER = {"type": "string"}, {"enum": ["x", "y"]}, {"type": "boolean"}, {"type": "integer"}

SOME = {"enum": [1, 2, "a", [1], {"b": 1}]}


def array(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def members(properties: dict[str, Any], required: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False, **more}


TREE = members({"c": array({"$ref": "#/$defs/tree"}), "n": {"enum": [1, 2]}})
SCHEMAS: dict[str, dict[str, Any]] = {
    "anything": array({}),
    "one name": array(members({"n": TEXT}, "n")),
    "optional": array(members({"n": TEXT, "v": INTEGER})),
    "few values": array(members({"k": FEW, "n": TEXT}, "k")),
    "few values last": array(members({"n": TEXT, "k": FEW}, "nk"), minItems=2),
    "only few values": array(members({"k": FEW, "b": WORD})),
    "all of the few values": array(members({"k": FEW, "b": WORD}, "kb"), minItems=4),
    "undeclared": array({"type": "object", "additionalProperties": {"type": ["string", "integer"]}}),
    "few undeclared": array({"type": "object", "patternProperties": {"^[ab]$": FEW}, "additionalProperties": False}),
    "counts of members": array(members({"a": WORD, "b": WORD}, minProperties=1)),
    "names told apart": array({"type": "object", "minProperties": 2, "additionalProperties": INTEGER}),
    "bounds": array(members({"n": TEXT, "v": WORD}, "n"), minItems=1, maxItems=2),
    "arrays": array({"type": "array", "items": WORD}),
    "many at most inside": array({"type": "array", "items": WORD, "maxItems": 49}),
    "some at least inside": array({"type": "array", "items": WORD, "minItems": 1, "maxItems": 49}),
    "pairs": array({"type": "array", "items": WORD, "minItems": 2, "maxItems": 2}),
    "all pairs": array({"type": "array", "items": WORD, "minItems": 2, "maxItems": 2}, minItems=4),
    "texts or arrays": array({"type": ["string", "array"], "items": TEXT}),
    "kinds that begin alike": array({"anyOf": [members({"a": WORD, "k": {"enum": [k]}}, "k") for k in "xyz"]}),
    "kinds with few values": array(
        {"anyOf": [members({"k": FEW, "a": WORD}, "k"), members({"k": {"enum": ["y"]}, "b": WORD})]}
    ),
    "kinds told apart by values": array({"anyOf": [members({"a": WORD, "b": WORD}), members({"a": FEW, "b": TEXT})]}),
    "kinds that are arrays": array({"anyOf": [array(WORD, minItems=1), array({"enum": ["a", 2]}), TEXT]}, maxItems=4),
    "distinct items inside": array(array({"enum": [1, 2, "a"]})),
    "distinct texts inside": array(array(TEXT)),
    "two of distinct items": array(array({"enum": [1, 2, "a"]}), minItems=2),
    "two of distinct scalars": array(array({"type": ["integer", "boolean"]}, minItems=1), minItems=2),
    "two objects of distinct items": array(members({"d": array(TEXT, minItems=1)}, "d"), minItems=2),
    "distinct arrays inside": array(array({"type": "array", "items": WORD})),
    "one way of two is sure": array(members({"n": TEXT, "w": WORD, "t": TEXT}, "n")),
    "contains inside": array({"type": "array", "items": {"enum": [1, 2]}, "contains": {"const": 1}, "maxItems": 2}),
    "contains": array(SOME, contains={"enum": [2, "a"]}),
    "contains and bounds": array(SOME, contains={"const": 2}, minItems=2, maxItems=2),
    "contains at most": array(SOME, contains={"enum": [1, 2]}, maxContains=1, minItems=2),
    "contains at least": array(SOME, contains={"enum": [1, 2, "a", [1]]}, minContains=2),
    "contains such": array({"anyOf": [TEXT, members({"n": FEW})]}, contains={"type": "object"}),
    "contains several": array(
        SOME,
        allOf=[{"contains": {"enum": [1, 2]}}, {"contains": {"enum": [2, "a"]}}, {"contains": {"type": "array"}}],
        maxItems=3,
    ),
    "tuple": array({"enum": [1, "a", "b"]}, prefixItems=[{"enum": [1, "a"]}, {"enum": [1, "a", [1]]}], minItems=1),
    "tuple of many": array(False, prefixItems=[TEXT, members({"n": TEXT}), FEW], minItems=2),
    "contains among many": array({"type": ["string", "integer"]}, contains={"enum": ["a", 1]}),
    "listed": array({"enum": [[1, 2], {"a": 1, "b": 2}, 3, [1]]}),
    "listed inside": array({"type": "array", "items": {"enum": [[1], {"a": 1}, 3]}, "maxItems": 2}),
    "mixed": array({"anyOf": [TEXT, members({"n": TEXT}), {"type": "array", "items": INTEGER}]}),
    "recursion": {"$defs": {"tree": TREE}, **array({"$ref": "#/$defs/tree"})},
    "numbers": array(members({"v": {"type": "number"}}, "v")),
}


def random_value(rng: random.Random, schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Any:
    """Mostly valid, but that items repeat."""
    if not schema:
        deep = [array({}), members({"a": {}, "b": {}})] if depth < 2 else []
        schema = rng.choice([TEXT, WORD, INTEGER, {"enum": [None]}, *deep])
    if "$ref" in schema:
        schema = root["$defs"]["tree"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return random_value(rng, rng.choice(schema["anyOf"]), root, depth)
    kind = rng.choice(schema["type"]) if isinstance(schema["type"], list) else schema["type"]
    if kind == "array":
        most = min(schema.get("maxItems", 5), 5 if depth < 2 else 1)
        n = rng.randint(min(schema.get("minItems", 0), most), most)
        kinds = [*schema.get("prefixItems", ()), *[schema["items"] or TEXT] * most]
        return [random_value(rng, kind, root, depth + 1) for kind in kinds[:n]]
    if kind == "object":
        if "properties" in schema:
            below = schema["properties"]
            names = [name for name in below if name in schema["required"] or rng.random() < 0.6]
        else:
            inner = schema.get("additionalProperties") or next(iter(schema["patternProperties"].values()))
            below = dict.fromkeys("abc", inner)
            names = rng.sample("abc", rng.randint(0, 3))
        rng.shuffle(names)
        return {name: random_value(rng, below[name], root, depth + 1) for name in names}
    return {
        "string": rng.choice(["a", "b", "é"]),
        "integer": rng.choice([1, 2, 10]),
        "number": rng.choice([1, 1.0, 2.5]),
        "boolean": rng.random() < 0.5,
    }[kind]


def declared(data: Any, schema: dict[str, Any]) -> Any:
    """Objects with their members in the order of the schemas here, in which names are in no two places at once."""
    if isinstance(data, list):
        return [declared(item, schema) for item in data]
    if isinstance(data, dict):
        order = "cnv" if "n" in data and "c" in json.dumps(schema) else ""
        names = sorted(data, key=lambda name: (json.dumps(schema).find(f'"{name}": {{'), order.find(name)))
        return {name: declared(data[name], schema) for name in names}
    return data


def takes(grammar: cd.Grammar, text: bytes) -> bool:
    matcher = grammar.matcher()
    return matcher.accept_tokens(list(text)) == len(text) and matcher.is_accepting()


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_what_is_valid_is_accepted(name: str, order: str) -> None:
    """Exactly that; in declared order, what is in that order."""
    schema = SCHEMAS[name]
    grammar = COMPILER.compile(cd.JsonSchema(schema, property_order=order, whitespace="compact"))
    validator = jsonschema.Draft202012Validator(schema)
    rng = random.Random(name)
    counts = {True: 0, False: 0}
    for _ in range(cases(700, 40, 250)):
        data = random_value(rng, schema, schema)
        if data and rng.random() < 0.4:
            data.insert(rng.randint(0, len(data)), rng.choice(data))
        if order == "schema":
            data = declared(data, schema)
        valid = validator.is_valid(data)
        text = json.dumps(data, separators=(",", ":"), ensure_ascii=rng.random() < 0.5).encode()
        assert takes(grammar, text) == valid, text
        counts[valid] += 1
    assert min(counts.values()) >= 10


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_masks_are_what_is_accepted_and_lead_to_an_end(name: str, order: str) -> None:
    """Every token of a mask is accepted, no other is, and random walks by masks never get stuck."""
    schema = SCHEMAS[name]
    grammar = COMPILER.compile(cd.JsonSchema(schema, property_order=order, whitespace="compact"))
    validator = jsonschema.Draft202012Validator(schema)
    rng = random.Random(name)
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for _ in range(cases(12, 2, 4)):
        matcher = grammar.matcher()
        for step in range(60):
            matcher.fill_next_token_bitmask(row)
            mask = np.unpackbits(row.view(np.uint8)[0], bitorder="little")[: VOCAB.size].astype(bool)
            allowed = [int(t) for t in np.flatnonzero(mask)]
            assert allowed
            if step % 4 == 0:
                assert allowed == [t for t in range(VOCAB.size) if matcher.validate_tokens([t])]
            telling = [t for t in allowed if t >= 256 or TOKENS[t] in b'"abcnxv,:{}[]y12']
            assert matcher.accept_token(rng.choice(telling if telling and rng.random() < 0.9 else allowed))
            if matcher.is_terminated():
                break
        text = b"".join(TOKENS[t] for t in [*matcher.tokens, *matcher.shortest_completion()] if t < VOCAB.size - 1)
        validator.validate(json.loads(text))


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
@pytest.mark.parametrize(
    "items",
    [{}, {"type": "object", "required": ["aa"]}, array({}), {"type": "object", "properties": {"aa": array({})}}],
    ids=repr,
)
def test_numbers_behind_a_text_that_ends_inside_a_token(items: dict[str, Any], whitespace: str) -> None:
    """They are written as distinct items write them there, too: with a digit before an exponent that is not 0."""
    numbers = ["0.1e1", "1e1", "-0.5e2", "1.5E-3", "1e999", "10e1", "12"]
    starts = ['b":', '":', '", ', '{"a":', '{"aa":1,"b":', '["a",']
    texts = [(start + number + end).encode() for start in starts for number in numbers for end in ',}]"']
    texts += [b'["a",[t', b"[1,t", b"[true,f", b'"a",t', b'{"a":[t', b'[{"a":[t']
    tokens = [*(bytes([b]) for b in range(256)), *texts, b"</s>"]
    vocab = cd.Vocabulary.from_bytes(tokens, eos_token_ids=len(tokens) - 1)
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(array(items), whitespace=whitespace))
    row = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    for text in (b"", b"[", b'["', b'[["', b'[{"', b'[{"aa":1,"', b'[{"aa":1,"b"', b'[{"aa":1},{"', b'[{"aa":', b'[{"aa":['):
        matcher = grammar.matcher()
        if matcher.accept_tokens(text) == len(text):
            matcher.fill_next_token_bitmask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8)[0], bitorder="little")[: vocab.size]).tolist()
            followed = [t for t in range(vocab.size) if matcher.validate_tokens([t])]
            assert allowed == followed, (text, [tokens[t] for t in {*allowed} ^ {*followed}])


def test_numbers_are_equal_by_value_and_texts_however_they_are_escaped() -> None:
    schema = array(members({"n": TEXT, "v": {"type": "number"}}, "nv"))
    grammar = COMPILER.compile(cd.JsonSchema(schema, property_order="any", whitespace="flexible"))
    assert takes(grammar, b'[{"n": "a", "v": 1}, {"v": 2, "n": "a"}]')
    assert not takes(grammar, b'[{"n": "a", "v": 1}, {"v": 1.0, "n": "a"}]')
    assert not takes(grammar, b'[{"n": "a", "v": 1}, {"n" : "\\u0061", "v":1e0}]')
    assert takes(grammar, b'[{"n": "a", "v": 1}, {"n" : "\\u0062", "v":1e0}]')


def test_layouts() -> None:
    """Between the parts of an item stands what the layout says."""
    schema = array({"type": "array", "items": members({"n": FEW})})
    data = [[{"n": "x"}, {}], [{}], []]
    for layout in ({"whitespace": "flexible"}, {"separators": (", ", ": ")}, {"indent": 2}):
        grammar = COMPILER.compile(cd.JsonSchema(schema, **layout))
        written = {key: value for key, value in layout.items() if key != "whitespace"}
        assert takes(grammar, json.dumps(data, **written).encode())
        assert not takes(grammar, json.dumps([*data, data[1]], **written).encode())


@pytest.mark.parametrize("most", [33, 49, 64])
def test_counts_of_items_in_an_item(most: int) -> None:
    """As many as there may be, counted by O(log n) rules some of which are empty, and one more.

    Equal ones, and such that differ in their last item.
    """
    schema = array({"type": "array", "items": INTEGER, "maxItems": most}, minItems=2)
    grammar = COMPILER.compile(cd.JsonSchema(schema, whitespace="compact"))
    validator = jsonschema.Draft202012Validator(schema)
    for n in (0, 1, most - 1, most, most + 1):
        for other in ([], [7] * n, [7] * (n - 1) + [8], [7] * (n - 1)):
            data = [[7] * n, other]
            text = json.dumps(data, separators=(",", ":")).encode()
            assert takes(grammar, text) == validator.is_valid(data), text


def test_an_item_whose_items_are_none_of_many() -> None:
    """Not 50 items: any number below. The ending that was looked for was an ``AssertionError``."""
    schema = {"type": "array", "uniqueItems": True, "maxContains": 20, "contains": {"minItems": 50}}
    matcher = COMPILER.compile(cd.JsonSchema(schema)).matcher()
    ending = matcher.shortest_completion()
    jsonschema.Draft202012Validator(schema).validate(json.loads(VOCAB.decode(ending)))


def test_many_members_of_an_item() -> None:
    """Members that are one lexeme in any order, inside an item."""
    names = [f"name_{i:02d}" for i in range(45)]
    schema = array(members(dict.fromkeys(names, WORD)), maxItems=3)
    grammar = COMPILER.compile(cd.JsonSchema(schema, property_order="any", whitespace="compact"))
    first = '{"name_03":true,"name_44":false}'
    assert takes(grammar, f'[{first},{{"name_44":false}},{{"name_44":false,"name_03":false}}]'.encode())
    assert not takes(grammar, f'[{first},{{"name_44":false,"name_03":true}}]'.encode())
    assert not takes(grammar, b'[{"name_03":true,"name_03":true}]')


def test_undeclared_names_do_not_repeat_in_an_item() -> None:
    grammar = COMPILER.compile(cd.JsonSchema(array({"type": "object"}), whitespace="compact"))
    assert takes(grammar, b'[{"a":1,"b":1}]') and not takes(grammar, b'[{"a":1,"\\u0061":1}]')


@pytest.mark.parametrize("order", ["schema", "any"])
def test_what_no_text_can_be_is_left_out_of_items(order: Any) -> None:
    """To count the values, rules are made before it is settled what derives a text: no name that is not listed."""
    items = {"type": "object", "additionalProperties": FEW, "propertyNames": {"enum": ["a", "b", "c"]}}
    schema = array(items, contains={"type": "object", "minProperties": 2}, minContains=2)
    grammar = COMPILER.compile(cd.JsonSchema(schema, property_order=order))
    assert takes(grammar, b'[{},{"a":"x","b":"y"},{"a":"x","c":"y"}]')
    assert not takes(grammar, b'[{"a":"x","b":"y"},{"a":"x","b":"y"}]') and not takes(grammar, b'[{"a":"x","b":"y"},{"a":"x"}]')
    ending = grammar.matcher().shortest_completion()
    assert takes(grammar, b"".join(TOKENS[t] for t in ending if t != len(TOKENS) - 1))


@pytest.mark.parametrize(
    ("item", "texts"),
    [
        ({"type": "string", "pattern": '"'}, [r'"\""', r'"a\""']),
        ({"type": "string", "pattern": "\\n"}, [r'"\n"', r'"\n\n"']),
        ({"type": "string", "pattern": "^[à-ÿ]$"}, ['"é"', r'"\u00e8"']),
        ({"type": "number", "minimum": 1e-9, "maximum": 2e-9}, ["0.0000000015", "1.6e-9"]),
        ({"type": "number", "exclusiveMinimum": 123456789, "exclusiveMaximum": 123456790}, ["123456789.1", "123456789.12"]),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1e-50}, ["1e-51", "1.1E-51"]),
        ({"type": "number", "minimum": 1e70}, ["1e70", "1.1e70"]),
        ({"type": "integer", "minimum": 10**35, "maximum": 10**35 + 1}, [str(10**35), str(10**35 + 1)]),
    ],
)
def test_values_that_need_escapes_or_many_digits_are_values(item: Any, texts: list[str]) -> None:
    """They were not counted, so that such an item was never offered beside others."""
    some, other = (text.encode() for text in texts)
    beside = array(item, prefixItems=[{"type": "null"}])
    inside = array(members({"n": item}, "n"))
    grammar, nested = (COMPILER.compile(cd.JsonSchema(schema)) for schema in (beside, inside))
    assert takes(grammar, b"[null,%s,%s]" % (some, other)) and not takes(grammar, b"[null,%s,%s]" % (some, some))
    assert takes(nested, b'[{"n":%s},{"n":%s}]' % (some, other)) and not takes(nested, b'[{"n":%s},{"n":%s}]' % (other, other))


def test_names_that_need_escapes_are_counted() -> None:
    """So many as ``minProperties`` asks for were said not to be there."""
    for pattern, name in (("^é", "é"), ("\n", "\\n")):
        schema = {"patternProperties": {pattern: WORD}, "additionalProperties": False, "type": "object", "minProperties": 2}
        grammar = COMPILER.compile(cd.JsonSchema(schema))
        assert takes(grammar, f'{{"{name}":true,"{name}a":true}}'.encode())
        assert not takes(grammar, f'{{"{name}":true}}'.encode())


def test_more_items_than_there_are_values_are_refused() -> None:
    pair = {"type": "array", "items": WORD, "minItems": 2, "maxItems": 2}
    with pytest.raises(cd.UnsupportedError, match="few values may be left - at /uniqueItems"):
        COMPILER.compile(cd.JsonSchema(array(pair, minItems=5)))
    few = {"type": "array", "items": {"type": "string", "pattern": "^[a-d]{2}$"}, "minItems": 1, "maxItems": 1}
    assert COMPILER.compile(cd.JsonSchema(array(few, minItems=16)))
    with pytest.raises(cd.UnsupportedError, match="few values may be left - at /uniqueItems"):
        COMPILER.compile(cd.JsonSchema(array(few, minItems=17)))


@pytest.mark.parametrize("kinds", [["integer", "integer"], ["string", "integer"]])
def test_values_are_not_listed_for_long(kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers have many spellings that end nowhere and share their derivatives: a million places were looked at, in 10 s."""
    taken = []
    texts = languages.Languages.texts

    def counted(asked: languages.Languages, expression: Expr, most: int) -> list[bytes] | None:
        before = asked.taken
        found = texts(asked, expression, most)
        taken.append(asked.taken - before)
        return found

    monkeypatch.setattr(languages.Languages, "texts", counted)
    prefix = [{"type": kind} for kind in kinds]
    schema = {"type": "array", "prefixItems": prefix, "items": False, "minItems": 2, "uniqueItems": True}
    matcher = COMPILER.compile(cd.JsonSchema(schema, separators=(",", ":"))).matcher()
    assert matcher.accept_tokens(b"[") and 0 < sum(taken) < 10_000


def test_what_is_beside_it_is_refused() -> None:
    several = {"allOf": [{"contains": {"type": "array"}, "maxContains": 2}, {"contains": {"type": "object"}}]}
    for beside in ({"prefixItems": [{"type": "array"}], "contains": {"type": "array"}}, several):
        with pytest.raises(cd.UnsupportedError, match=r"not supported beside 'contains' with .* - at /uniqueItems"):
            COMPILER.compile(cd.JsonSchema({**array({}), **beside}))


def test_one_of_two_kinds_of_distinct_items() -> None:
    """What is in one branch only contains an item that the other does not take, and neither can hold items that repeat."""
    some, others = array({"enum": [1, 2, [3]]}, minItems=1), array({"enum": [2, [3], "a"]}, minItems=1)
    grammar = COMPILER.compile(cd.JsonSchema({"oneOf": [some, others]}, whitespace="compact"))
    assert takes(grammar, b"[1]") and takes(grammar, b'[[3],"a",2]') and takes(grammar, b"[2,1]")
    assert not takes(grammar, b"[2]") and not takes(grammar, b"[[3],2]") and not takes(grammar, b'[1,"a"]')
    assert not takes(grammar, b"[1,1]")


def test_distinct_and_not_distinct_is_nothing() -> None:
    """`not` with `uniqueItems` is refused where it could hold; here only the other half of it can."""
    schema = {**array({}), "not": {"type": "array", "uniqueItems": True, "minItems": 2}}
    grammar = COMPILER.compile(cd.JsonSchema(schema, whitespace="compact"))
    assert takes(grammar, b"[[1]]") and not takes(grammar, b"[[1],[2]]") and not takes(grammar, b"[[1],[1]]")
    with pytest.raises(cd.UnsupportedError, match=r"not supported below 'not', .* - at /not/uniqueItems"):
        COMPILER.compile(cd.JsonSchema({"type": "array", "not": array({})}))


def test_rules_that_are_many_at_once_keep_to_the_budget() -> None:
    """What distinct numbers inside a distinct item may go on with: work of a nonterminal's rules is looked at while they are
    made. One step took four times ``Limits.max_step_work`` (of numbers up to 90, nine times, and a mask under a budget 25 s).
    """
    inner = {"type": "array", "uniqueItems": True, "items": {"type": "integer", "minimum": -45, "maximum": 45}}
    grammar = COMPILER.compile(cd.JsonSchema({"type": "array", "uniqueItems": True, "items": inner}))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"[[1,2") == 5
    for question in (matcher.shortest_completion, lambda: matcher.can_end_within(6)):
        before = grammar.counters()["work"]
        with suppress(cd.LimitExceeded):
            question()
        assert grammar.counters()["work"] - before < 2.2 * cd.Limits().max_step_work
    assert matcher.accept_tokens(b",3],[3,1,2,4]]") == 14 and matcher.is_accepting()


def test_kinds_that_begin_alike_are_followed_in_one_rule() -> None:
    def work(n_kinds: int) -> int:
        kinds = [members({"a": TEXT, "b": INTEGER, "c": WORD, "k": {"const": f"k{i}"}}, "k") for i in range(n_kinds)]
        grammar = COMPILER.compile(cd.JsonSchema(array({"anyOf": kinds})))
        before = grammar.counters()["work"]
        item = {"a": "x", "b": 1, "c": True, "k": "k0"}
        text = json.dumps([item, {**item, "k": "k1"}, {**item, "b": 2}]).encode()
        assert grammar.matcher().accept_tokens(list(text)) == len(text)
        return grammar.counters()["work"] - before

    assert work(32) < 8 * work(2)


@pytest.mark.parametrize("most", [100, distinct_items._MOST_COMPARED])
def test_items_that_come_in_order(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all that is looked at first was there before, the next item is found later: no legal item is masked instead, and
    what takes too long to tell is a limit. It was taken for a no."""
    monkeypatch.setattr(distinct_items, "_MOST_COMPARED", most)
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    schema = array({"type": "array", "items": {"enum": [0, 1]}, "minItems": 6, "maxItems": 6}, minItems=64)
    matcher = cd.Compiler(vocab).compile(cd.JsonSchema(schema, whitespace="compact")).matcher()
    items = [",".join(bits) for bits in product("01", repeat=6)]
    text = "[" + ",".join(f"[{item}]" for item in items) + "]"
    if most == 100:
        with pytest.raises(cd.LimitExceeded, match="'uniqueItems': whether an item can still differ from those before it"):
            matcher.accept_tokens(list(text.encode()))
    else:
        assert matcher.accept_tokens(list(text.encode())) == len(text) and matcher.is_accepting()


def test_endings_of_items_whose_lexemes_keep_their_text_inside_a_choice() -> None:
    """What is still to be written may begin with such a lexeme, which was taken for several ways to go on."""
    schema = array(array({"enum": [1, "a", None]}, prefixItems=[FEW, WORD]))
    matcher = COMPILER.compile(cd.JsonSchema(schema, property_order="any")).matcher()
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    matcher.fill_next_token_bitmask(row, budget=3)
    assert [TOKENS[t] for t in range(VOCAB.size) if row[0, t // 32] >> t % 32 & 1] == [b"[", b"[["]


@pytest.mark.parametrize("text", ["^[0-9a-f]{70}$", "^[0-9a-f]{128}$", "^[ab]{200}$"])
def test_values_too_long_to_be_counted_still_differ(text: str) -> None:
    """Values are counted in texts of 80 bytes. Where there are none, but too many to be listed, the next item was refused."""
    length = int(text[text.index("{") + 1 : text.index("}")])
    grammar = COMPILER.compile(
        cd.JsonSchema(array(members({"k": {"type": "string", "pattern": text}}, "k")), whitespace="compact")
    )
    first, other = '{"k":"' + length * "a" + '"}', '{"k":"' + (length - 1) * "a" + 'b"}'
    assert takes(grammar, f"[{first},{other}]".encode())
    assert not takes(grammar, f"[{first},{other},{first}]".encode())


def test_names_of_another_group() -> None:
    """An item may begin like an earlier one that goes on with a name of another group, which raised ``KeyError``."""
    some = {f"a{i}": WORD for i in range(30)} | {f"b{i}": FEW for i in range(30)}
    grammar = COMPILER.compile(cd.JsonSchema(array(members(some)), property_order="any", whitespace="compact"))
    assert takes(grammar, b'[{"a1":true,"b2":"x"},{"b2":"x","a1":false},{"b2":"x"}]')
    assert not takes(grammar, b'[{"a1":true,"b2":"x"},{"b2":"x","a1":true}]')


def test_values_as_deep_as_a_text() -> None:
    """Deep arrays that may be equal, and those of a schema that refers to itself, once raised ``RecursionError``."""
    deep = [List((leaf,)) for leaf in (1, 1, 2)]
    for _ in range(3_000):
        deep = [List((0, one)) for one in deep]
    assert deep[0] == deep[1] != deep[2]
    own = cd.JsonSchema({"type": "array", "items": {"$ref": "#"}, "uniqueItems": True})
    matcher = cd.Compiler(VOCAB).compile(own).matcher()
    text = b"[" + b",".join(b"[" * i + b"]" * i for i in range(1, 40))
    assert matcher.accept_tokens(list(text)) == len(text)
    assert matcher.shortest_completion() == [ord("]")]
    matcher.reset()
    assert matcher.accept_tokens(b"[" * 600) == 600
    try:
        ending = matcher.shortest_completion()
    except cd.LimitExceeded:
        return
    assert matcher.accept_tokens(ending) == len(ending)


def test_deep_items_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hints for queries were stacks made anew, each compared with an equal one to the end: time grew with the depth."""
    compared = 0
    original = Chain.compared

    def counted(chain: Chain) -> tuple[object, ...]:
        nonlocal compared
        compared += 1
        return original(chain)

    monkeypatch.setattr(Chain, "compared", counted)
    deep = {"anyOf": [{"type": "integer"}, {"type": "array", "minItems": 2, "items": {"$ref": "#/$defs/deep"}}]}
    schema = {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/deep"}, "$defs": {"deep": deep}}
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema)).matcher()
    assert matcher.accept_tokens(b"[" * 40) == 40
    ending = matcher.shortest_completion()
    assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting()
    assert compared < 100_000, compared
