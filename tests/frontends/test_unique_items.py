"""``uniqueItems`` over infinite sets: equal values are refused in whatever spelling, and no text meets a dead end.

The references are jsonschema on all short texts, and stepping every token.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
import numpy as np
import pytest
from engine_tools import cases, mask, mask_bits, vocabulary

import cdplugin as cd
from cdplugin.errors import GrammarError
from cdplugin.frontends.json_schema.distinct import NOTHING_SEEN

TOKENS = [
    *(b'","', b'", "', b'"",""', b'"a","a"', b'"a","b"', b'["a"', b'["a","b"]', b'a","', b'a","a', b'b","a","', b'"],["'),
    *(
        b'a"',
        b'ab"',
        b'"a"',
        b"\\u0061",
        b'"]',
        b'",',
        b'", ',
        b"1]",
        b"0,1",
        b"1,1",
        b"1,",
        b",1",
        b".0",
        b"e0",
        b"0,",
        b"10,1",
    ),
    *(b', "', b',"a"', b"]]", b"],[1", b"],[1,1", b'"]}', b"true,", b'1,"', b'["', b'[""', b'["","', b'[["a","'),
]
VOCAB = vocabulary(TOKENS)
END = VOCAB.eos_token_ids[0]
COMPILER = cd.Compiler(VOCAB)


def array(items: Any, **more: Any) -> dict:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def matcher(schema: Any, whitespace: str = "compact", **options: Any) -> cd.Matcher:
    return COMPILER.compile(cd.JsonSchema(schema, whitespace=whitespace, **options)).matcher()


def is_valid(schema: Any, text: str | bytes) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))


ESCAPED = "\\u0061"


def size(text: str) -> int:
    """The length of a text, an escape and ``true`` counted as one."""
    return len(text) - 5 * text.count(ESCAPED) - 3 * text.count("true")


def words(pieces: Sequence[str], most: int, shape: str) -> list[str]:
    """All sequences of at most so many pieces that have a shape, shortest first."""
    out: list[str] = []
    level = [""]
    for _ in range(most):
        level = [word + piece for word in level for piece in pieces]
        out += [word for word in level if re.fullmatch(shape, word)]
    return out


def arrays(items: list[str], longest: int) -> Iterator[str]:
    """Arrays of these items of at most ``longest`` pieces."""
    pending = ["["]
    yield "[]"
    while pending:
        begun = pending.pop()
        for item in items:
            text = begun + item
            if size(text) < longest:
                yield text + "]"
                pending.append(text + ",")


def reached(m: cd.Matcher, pieces: Sequence[str], longest: int) -> tuple[set[str], set[str]]:
    """The prefixes of arrays that a matcher follows, made of pieces, up to a length; and those of them that may end."""
    alive, ended = set(), set()
    pending = [""]
    while pending:
        text = pending.pop()
        m.reset()
        assert m.accept_tokens(text.encode()) == len(text)
        alive.add(text)
        if m.is_accepting():
            ended.add(text)
        if size(text) < longest:
            for piece in [*pieces, *(() if text.count('"') % 2 else "[],")]:
                followed = m.accept_tokens(piece.encode())
                m.rollback(followed)
                if followed == len(piece):
                    pending.append(text + piece)
    return alive, ended


STRING = r'"[^"]*"'
NUMBER = r"-?(0|[1-9]\d*)(\.\d+)?|-?[1-9](\.\d+)?[eE](\+?0?(0|[1-9]\d*)|-0?[1-9]\d*)"
WHOLE = r"-?(0|[1-9]\d*)(\.0+)?"
MIXED = r'1|11|"[^"]*"|true'
BRUTE = [  # schema, pieces, shape of items, their most pieces, longest text, by how much it may have to grow to be complete
    (array({"type": "string"}), 'ab"', STRING, 9, 7, 4),
    (array({"type": "string"}, minItems=2, maxItems=2), 'ab"', STRING, 6, 6, 6),
    (array({"type": "string"}), (ESCAPED, "a", '"'), STRING, 10, 7, 5),
    (array({"type": "string", "pattern": "^(ab|a*)$"}), 'ab"', r'"(ab|a*)"', 10, 8, 5),
    (array({"type": "string", "pattern": "^[ab]$"}), 'ab"', r'"[ab]"', 3, 9, 4),
    (array({"type": "string", "pattern": "^[ab]$"}, minItems=2), 'ab"', r'"[ab]"', 3, 9, 8),
    (array({"type": "string", "maxLength": 1, "pattern": "^[ab]*$"}, minItems=1), 'ab"', r'"[ab]?"', 3, 10, 4),
    (array({"type": "number"}), "01.-e", NUMBER, 5, 5, 3),
    (array({"type": "integer", "minimum": -99, "maximum": 99}), "01.-", WHOLE, 5, 6, 4),
    (array({"type": ["string", "integer", "boolean"], "maximum": 99, "minimum": 0}), ("1", '"', "true"), MIXED, 6, 6, 4),
    (array({"enum": ["a", 0]}), '-."a0', r'"a"|-?0(\.0+)?', 6, 7, 4),
    (array({"anyOf": [{"const": "a"}, {"type": "number"}]}), '1.0"a', rf'"a"|{NUMBER}', 5, 5, 3),
]


@pytest.mark.parametrize("case", range(len(BRUTE)))
def test_every_short_text_is_followed_exactly_when_it_can_be_completed(case: int) -> None:
    schema, pieces, shape, most, longest, slack = BRUTE[case]
    longest -= cases(0, 2)
    items = words(pieces, most, shape)
    valid = {text for text in arrays(items, longest + slack) if is_valid(schema, text)}
    alive, ended = reached(matcher(schema), pieces, longest)
    assert ended == {text for text in valid if size(text) <= longest}
    completable = {text[:n] for text in valid for n in range(len(text) + 1)}
    assert alive == {text for text in completable if text in alive or is_whole(text, pieces, longest)}


def is_whole(text: str, pieces: Sequence[str], longest: int) -> bool:
    """Whether a prefix is a sequence of pieces, at most so many."""
    parts = "|".join(re.escape(piece) for piece in pieces)
    return size(text) <= longest and re.fullmatch(rf"({parts}|[\[\],])*", text) is not None


SCHEMAS = [
    array({"type": "string"}),
    array({"type": "string"}, minItems=2, maxItems=3),
    array({"type": "number"}),
    array({"type": "integer", "minimum": 0, "maximum": 10_000}),
    array({"type": ["string", "number", "boolean", "null"]}),
    array({"type": "string", "pattern": "^(ab|a*)$"}),
    array({"type": "string", "pattern": "^[ab]$"}),
    array({"type": "string", "maxLength": 2}),
    array({"type": "string", "format": "date"}, minItems=1),
    {"type": "array", "items": array({"type": "string"})},
    {"type": "object", "properties": {"a": array({"type": "string"}), "b": array({"type": "integer"})}},
    {"anyOf": [array({"type": "string"}), {"type": "array", "items": {"type": ["string", "number"]}, "maxItems": 2}]},
    {"anyOf": [array({"type": "string"}), array({"type": "number"}), {"type": "string"}]},
]


@pytest.mark.parametrize("whitespace", ["compact", "flexible", " ?"])
@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_masks_are_what_stepping_each_token_allows(number: int, whitespace: str) -> None:
    rng = random.Random(number)
    m = matcher(SCHEMAS[number], whitespace)
    for _ in range(cases(3, 1)):
        m.reset()
        for _ in range(cases(14, 6)):
            allowed = mask(m)
            stepped = set()
            for token in range(VOCAB.size):
                if m.accept_token(token):
                    stepped.add(token)
                    m.rollback(1)
            assert allowed == stepped, bytes(b for t in m.tokens for b in VOCAB.tokens[t] or b"")
            choices = sorted(stepped - {END})
            if not choices:
                break
            common = [t for t in choices if VOCAB.tokens[t] in (b'"', b"a", b",", b"1", b"[", b'","', b", ")]
            m.accept_token(rng.choice(common if common and rng.random() < 0.8 else choices))


@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_random_walks_end_in_valid_texts(number: int) -> None:
    rng = random.Random(100 + number)
    schema = SCHEMAS[number]
    m = matcher(schema, rng.choice(["compact", "flexible"]))
    common = {i for i, t in enumerate(VOCAB.tokens) if t and re.fullmatch(rb'[\[\]",a1. ]*', t)}
    for _ in range(cases(25, 2)):
        m.reset()
        masks = []
        for _ in range(rng.randrange(60)):
            allowed = mask(m) - {END}
            if not allowed:
                break
            masks.append(mask_bits(m))
            likely = sorted(allowed & common)
            assert m.accept_token(rng.choice(likely if likely and rng.random() < 0.9 else sorted(allowed)))
        for token in m.shortest_completion():
            assert m.accept_token(token)
        assert m.is_accepting()
        text = b"".join(VOCAB.tokens[t] or b"" for t in m.tokens)
        assert is_valid(schema, text), text
        tokens = list(m.tokens)
        back = rng.randrange(len(tokens) + 1)
        other = m.fork()
        m.rollback(back)
        for i in range(len(tokens) - back, len(tokens)):
            if i < len(masks):
                assert mask_bits(m) == masks[i]
            assert m.accept_token(tokens[i])
        assert other.tokens == m.tokens and mask_bits(other) == mask_bits(m)


@pytest.mark.parametrize(
    ("seen", "same", "other"),
    [
        ('"a"', ['"a"', '"\\u0061"'], ['"A"', '"aa"', '""']),
        ('"\\u00e9\\ud83d\\ude00"', ['"é😀"', '"\\u00E9😀"'], ['"é"', '"é😀x"', '"e😀"']),
        ('"\\/\\n"', ['"/\\n"', '"/\\u000a"', '"\\u002F\\u000A"'], ['"/n"', '"/"']),
        (
            "1",
            ["1", "1.0", "1e0", "1.00", "1.0e+0", "1E+00", "0.99999999999999999999"],
            ["10", "1.5", "-1", "true", '"1"', "1e1"],
        ),
        ("0", ["0", "-0", "0.0", "-0.00"], ["0.1", "1", "false"]),
        ("1e22", ["10000000000000000000000", "1e22", "1e+22", "10000000000000000000000.0"], ["1e23", "1e21"]),
        ("0.1", ["0.1", "0.10", "1e-1", "1.0e-01", "0.1000000000000000000001"], ["0.11", "0.01", "-0.1"]),
        ("9007199254740993", ["9007199254740993"], ["9007199254740992", "9007199254740992.0", "9007199254740993.0"]),
        ("9.5e307", ["9.5e307", "9.50e+307", "9.50000000000000001E307"], ["9.5e306", "9.500000000000002e307"]),
        ("1e-323", ["1e-323", "1.1e-323"], ["2e-323", "1e-322", "0"]),
        ("true", ["true"], ["false", "1", '"true"']),
        ("null", ["null"], ['"null"', "0"]),
    ],
)
def test_equal_values_are_one_however_they_are_spelt(seen: str, same: list[str], other: list[str]) -> None:
    m = matcher(array({"type": ["string", "number", "boolean", "null"]}))
    for second, expected in [*((text, False) for text in same), *((text, True) for text in other)]:
        m.reset()
        text = f"[{seen},{second}]".encode()
        assert m.accept_tokens(f"[{seen},".encode()) == len(seen.encode()) + 2
        m.reset()
        assert (m.accept_tokens(text) == len(text)) is expected, second
        assert is_valid(array({}), text) is expected


@pytest.mark.parametrize("begun", ["[", "[10,", "[1,0.1,"])
def test_masks_of_exponents_lead_nowhere_but_to_an_end(begun: str) -> None:
    """However an exponent begins, each byte that the mask allows is taken, and what follows it can be completed."""
    m = matcher(array({"type": "number"}))
    pending, seen = [begun], 0
    while pending:
        text = pending.pop()
        m.reset()
        assert m.accept_tokens(text.encode()) == len(text)
        allowed = {chr(t) for t in mask(m) if t < 256}
        for char in "01e+-":
            fork = m.fork()
            assert fork.accept_token(ord(char)) == (char in allowed), text + char
        if len(text) > len(begun) + 4:
            assert m.shortest_completion(), text
            seen += 1
        if len(text) < len(begun) + 6:
            pending += [text + char for char in "01e+-" if char in allowed]
    assert seen > 100


def test_a_long_array_and_a_long_text_cost_little() -> None:
    m = matcher(array({"type": "string"}))
    before = m.grammar.nbytes
    n = cases(300, 20)
    text = "[" + ",".join(f'"item number {i}"' for i in range(n)) + "]"
    assert m.accept_tokens(text.encode()) == len(text)
    assert m.grammar.nbytes - before < 60_000 * n + (4 << 20)
    m = matcher(array({"type": "string"}, minItems=1))
    text = '["' + "x" * cases(5000, 300)
    assert m.accept_tokens(text.encode()) == len(text)
    mask(m)
    assert m.grammar.nbytes < 8 << 20


def test_a_budget_that_is_crossed_starts_afresh() -> None:
    """The arena is replaced while arrays are followed. The matcher finds its place again from its tokens."""
    compiler = cd.Compiler(VOCAB, cd.Limits(max_arena_bytes=2 << 20))
    grammar = compiler.compile(cd.JsonSchema({"type": "array", "items": array({"type": "string"})}, whitespace="compact"))
    m, plain = grammar.matcher(), matcher({"type": "array", "items": array({"type": "string"})})
    arenas = set()
    for i in range(cases(60, 6)):
        piece = ("[" if i == 0 else ",") + f'["{i}","{i * i}x","{i}y"]'
        assert m.accept_tokens(piece.encode()) == plain.accept_tokens(piece.encode()) == len(piece)
        assert mask_bits(m) == mask_bits(plain)
        arenas.add(id(grammar._arena))
    assert m.accept_tokens(b',["1","1"]') == plain.accept_tokens(b',["1","1"]') == 8


def test_what_there_is_beside_masks() -> None:
    schema = {"type": "object", "properties": {"tags": array({"type": "string"}, minItems=3)}, "required": ["tags"]}
    m = matcher(schema)
    text = b'{"tags":["a","b'
    assert m.accept_tokens(text) == len(text)
    ending = m.shortest_completion()
    assert m.accept_tokens(ending) == len(ending)
    whole = text + b"".join(VOCAB.tokens[t] or b"" for t in ending)
    assert is_valid(schema, whole) and len(json.loads(whole)["tags"]) == 3
    assert m.captures() == {}
    m.reset()
    m.accept_tokens(b'{"tags":["","",')
    m.reset()
    m.accept_tokens(b'{"tags":["a"')
    assert "value" in m.explain(ord("x")) or "','" in m.explain(ord("x"))
    assert m.forced_tokens() == [ord(",")]
    m.accept_tokens(b',"')
    assert "allowed" in m.explain(ord("a"))
    m.accept_tokens(b"a")
    assert m.explain(ord('"')).startswith("not allowed")
    with pytest.raises(cd.UnsupportedError, match="infilling"):
        cd.Infill(m.grammar)


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        (array({"type": "string", "pattern": "^[ab]$"}, minItems=3), "few values"),
        (array({"type": ["object", "string"]}, contains={"type": "object"}, prefixItems=[{}]), "not supported"),
        (array({}, prefixItems=[{"const": 1}, {"const": 1}], minItems=2), "few values"),
    ],
)
def test_what_is_refused(schema: Any, found: str) -> None:
    with pytest.raises(cd.UnsupportedError, match=found) as caught:
        COMPILER.compile(cd.JsonSchema(schema))
    assert "/uniqueItems" in str(caught.value)


def test_many_sequences_share_a_grammar() -> None:
    """Masks of one sequence do not depend on what others have seen."""
    schema = array({"type": "string"})
    grammar = COMPILER.compile(cd.JsonSchema(schema, whitespace="compact"))
    rng = random.Random(5)
    matchers = [grammar.matcher() for _ in range(8)]
    texts = ["[" + ",".join(f'"{"".join(rng.choices("ab", k=rng.randrange(4)))}"' for _ in range(6)) for _ in matchers]
    followed = [m.accept_tokens(text.encode()) for m, text in zip(matchers, texts, strict=True)]
    rows = np.zeros((len(matchers), (VOCAB.size + 31) // 32), np.int32)
    cd.fill_next_token_bitmasks(matchers, rows, threads=2)
    for m, row, text, n in zip(matchers, rows, texts, followed, strict=True):
        alone = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, whitespace="compact")).matcher()
        assert alone.accept_tokens(text.encode()) == n
        assert mask_bits(alone) == row.tobytes()
        assert m.tokens == alone.tokens


# --- names that are not declared, told apart where minProperties counts them or an option asks for it -----------------------

OBJECTS = [
    {"type": "object", "minProperties": 2},
    {"type": "object", "minProperties": 3, "maxProperties": 3, "additionalProperties": {"const": 1}},
    {"type": "object", "properties": {"a": {}}, "required": ["a"], "minProperties": 3, "additionalProperties": {"const": 1}},
    {"type": "object", "propertyNames": {"pattern": "^[ab]{0,2}$"}, "minProperties": 2, "additionalProperties": {"const": 1}},
    {"type": "object", "patternProperties": {"^a": {"const": 1}}, "additionalProperties": {"const": 2}, "minProperties": 2},
]
UNIQUE_NAMES = [
    {"type": "object"},
    {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "object"}},
    {"type": "object", "propertyNames": {"pattern": "^[ab]?$"}, "maxProperties": 3, "additionalProperties": {"const": 1}},
    {"type": "object", "patternProperties": {"^a": {"const": 1}, "1$": {"const": 1}}, "required": ["1"]},
]


def names_of(text: str | bytes) -> list[list[str]]:
    """The names of each object in a JSON text, as often as they occur, the outermost object's last."""
    objects: list[list[str]] = []

    def note(pairs: list[tuple[str, Any]]) -> dict:
        objects.append([name for name, _ in pairs])
        return dict(pairs)

    json.loads(text, object_pairs_hook=note)
    return objects


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("number", range(len(OBJECTS) + len(UNIQUE_NAMES)))
def test_names_are_told_apart(number: int, order: Any) -> None:
    """Walks end in valid objects of different names, and masks are what stepping allows."""
    rng = random.Random(number)
    schema = [*OBJECTS, *UNIQUE_NAMES][number]
    is_asked = number >= len(OBJECTS)
    m = matcher(schema, rng.choice(["compact", "flexible"]), property_order=order, unique_names=is_asked)
    common = {i for i, t in enumerate(VOCAB.tokens) if t and re.fullmatch(rb'[{}\[\]",:a12 ]*', t)}
    for _ in range(cases(8, 2)):
        m.reset()
        for step in range(rng.randrange(40)):
            allowed = mask(m) - {END}
            if not allowed:
                break
            if step % 8 == 3:
                stepped = set()
                for token in range(VOCAB.size):
                    if m.accept_token(token):
                        stepped.add(token)
                        m.rollback(1)
                assert allowed == stepped - {END}
            likely = sorted(allowed & common)
            assert m.accept_token(rng.choice(likely if likely and rng.random() < 0.9 else sorted(allowed)))
        ending = m.shortest_completion()
        assert m.accept_tokens(ending) == len(ending) and m.is_accepting()
        text = b"".join(VOCAB.tokens[t] or b"" for t in m.tokens)
        assert is_valid(schema, text), text
        objects = names_of(text)
        assert len(set(objects[-1])) >= schema.get("minProperties", 0)
        if is_asked:
            assert all(len(set(names)) == len(names) for names in objects), text


def test_undeclared_names_may_repeat_unless_asked() -> None:
    schema = {"type": "object", "properties": {"b": {}}, "additionalProperties": {"type": ["integer", "object"]}}
    for text in ('{"a":1,"a":2}', '{"a":1,"\\u0061":2}', '{"c":{"a":1,"d":2,"a":3}}'):
        for unique_names in (False, True):
            m = matcher(schema, unique_names=unique_names)
            taken = m.accept_tokens(list(text.encode()))
            assert (taken == len(text) and m.is_accepting()) is not unique_names, text
    m = matcher(schema, unique_names=True)
    assert m.accept_tokens(list(b'{"a":1,"aa":{"a":1},"c":3}')) == 26 and m.is_accepting()
    with pytest.raises(GrammarError, match="unique_names"):
        matcher(schema, unique_names="yes")


def test_many_alternatives_are_asked_for_at_once() -> None:
    """The end of a name that many rules track: what follows it is made for all of them before the step begins again. The work
    grew with the square of the alternatives (20 to 80 of them: 51 times), and 150 crossed ``Limits.max_step_work``.
    """
    work = []
    for n in (20, 80):
        options = [{"required": [f"n{k}"], "additionalProperties": {"type": "string"}} for k in range(n)]
        schema = {"type": "object", "anyOf": options}
        grammar = COMPILER.compile(cd.JsonSchema(schema, unique_names=True, property_order="any", separators=(",", ":")))
        matcher = grammar.matcher()
        assert matcher.accept_tokens(b'{"zz') == 4
        before = grammar.counters()["work"]
        assert matcher.accept_token(ord('"'))
        work.append(grammar.counters()["work"] - before)
    assert 0 < work[1] < 8 * work[0]


def test_a_mask_does_not_look_at_all_pairs_of_listed_items() -> None:
    """What follows an item is told without the items that are left: their rules are made behind the comma. With 300 numbers,
    each of them a token, the mask crossed ``Limits.max_step_work``.
    """
    values = range(300)
    compiler = cd.Compiler(vocabulary([str(i).encode() for i in values if i > 9]))
    grammar = compiler.compile(cd.JsonSchema(array({"enum": list(values)}), whitespace="compact"))
    matcher = grammar.matcher()
    assert matcher.accept_tokens([compiler.vocab.token_of[0][text] for text in (b"[", b"17", b",")]) == 3
    before = grammar.counters()["work"]
    allowed = mask(matcher)
    assert grammar.counters()["work"] - before < 2_000_000
    texts = {compiler.vocab.tokens[token] for token in allowed}
    assert {str(i).encode() for i in values} <= texts
    for i, may_end in ((b"170", True), (b"17", False)):
        assert matcher.accept_token(compiler.vocab.token_of[0][i])
        assert matcher.validate_tokens([ord("]")]) == may_end
        matcher.rollback(1)


def test_endings_of_many_listed_items() -> None:
    """One set of items stands for all as large where an ending is estimated: each had asked for rules of its own."""
    m = matcher(array({"type": "integer", "minimum": 0, "maximum": 60}, minItems=40))
    ending = m.shortest_completion()
    assert m.accept_tokens(ending) == len(ending) and m.is_accepting()
    text = VOCAB.decode(ending)
    assert len(set(json.loads(text))) == 40
    assert len(text) <= 1 + 10 * 2 + 30 * 3


@pytest.mark.parametrize(
    ("items", "n"),
    [
        ({"type": "number", "minimum": 0, "maximum": 1}, 8),
        ({"type": "string", "pattern": "^(a|b){0,6}$"}, 120),
        (array({"type": "boolean"}), 5),
    ],
    ids=["numbers", "texts", "arrays"],
)
def test_endings_whose_shortest_items_are_used_up(items: dict, n: int) -> None:
    """The search goes on behind an item that was written, and does not try all others that are as long: that took more than
    ``Limits.max_step_work`` allows.
    """
    schema = array(items, minItems=n)
    m = matcher(schema)
    ending = m.shortest_completion()
    assert m.accept_tokens(ending) == len(ending) and m.is_accepting()
    assert is_valid(schema, VOCAB.decode(ending))


@pytest.mark.parametrize(
    ("items", "begin", "tokens"),
    [
        ({"type": "string", "minLength": 1}, b'["ab","', [b'","\\', b'","']),  # after the backslash of an escape
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
            b'[{"a":"',
            [b'","'],
        ),  # "b" is beside
        ({"type": "string"}, b'["ab","xyz', [b'","",', b'","","']),  # texts that are longer than the one in the token
        ({}, b'["ab","xyz', [b'","",', b'","","', b'",-']),
        ({"anyOf": [{"type": "string"}, {"enum": [["abcdefgh"], 1]}]}, b'["abcdefghi', [b'","",']),
        (
            {"type": "object", "properties": {"a": {"type": "string"}}},
            b'[{"a":"b"},{"a":"cdefghijklm',
            [b'"},{"a":"",', b'"},{}', b'"},{},'],
        ),
    ],
)
def test_tokens_that_reach_a_shadow_are_decided_for_all_texts(items: Any, begin: bytes, tokens: list[bytes]) -> None:
    """A token that ends a value and gets into the next one is sure where anything may come there, or a lexeme that depends on
    no value. Otherwise it is followed from each text, whose rules are made for it: a millisecond for each mask in a string.
    """
    vocab = vocabulary(tokens)
    m = cd.Compiler(vocab).compile(cd.JsonSchema(array(items), whitespace="compact")).matcher()
    assert m.accept_tokens(begin) == len(begin)
    rows = []
    for _ in range(10):
        assert m.accept_token(ord("x"))
        assert {*range(256, 256 + len(tokens))} <= mask(m)
        rows.append(m.grammar.counters()["rows"])
    assert rows[-1] == rows[0]


KINDS = {
    "anyOf": [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "properties": {"b": {"enum": ["abcdef"]}}, "required": ["b"], "additionalProperties": False},
        {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"], "additionalProperties": False},
    ]
}
ONE = {
    "anyOf": [
        {"type": "object", "properties": {"c": {"const": 1}, "k": {"type": "string"}}, "required": ["k"]},
        {"type": "object", "properties": {"c": {"const": 1}, "k": {"enum": ["abcdef", "uvwxyz"]}}, "required": ["c"]},
    ]
}


@pytest.mark.parametrize(
    ("items", "token", "texts"),
    [
        (
            {"type": "string"},
            b'","",',
            [b'["abcdef', b'["","abcdef', b'["a', b'["', b'["\\u0061', b'["abc\\', b'["abcdef","', b'["abcdef","ghijk'],
        ),
        ({"type": "string"}, b'","ab"', [b'["abcdef', b'["ab', b'["\\u0061b', b'["ab","abcdef', b'["ba","abcdef']),
        ({"type": "string", "pattern": "^(xy|b*)$"}, b'","x', [b'["bbbbbbbb', b'["xy', b'["xy","bbbbb', b'["b']),
        ({"type": "string", "pattern": "^([ab]x{20}|c*)$"}, b'","a', [b'["b' + b"x" * 20, b'["a' + b"x" * 20]),
        ({}, b'","",', [b'["abcdef', b'["","abcdef', b'["a', b'["', b"[1000000", b'["abc\\', b'[["abcdef', b'[{"":"abcdef']),
        ({}, b'",-', [b'["abcdef', b'["","abcdef', b'[-1,"abc', b'[["abcdef', b'[[-1,"abcdef']),
        ({}, b",1,", [b"[2.00000000", b"[1.00000000", b"[100000000"]),  # long, but no strings
        (KINDS, b'"},{"b":"abcd', [b'[{"a":"abcdef', b'[{"b":"abcdef', b'[{"a":"ghijklmn', b'[{"b":"abcdef"},{"a":"ghijkl']),
        (KINDS, b'"},{"a":""}', [b'[{"a":"abcdef', b'[{"a":"', b'[{"a":""},{"a":"abcdef', b'[{"a":"abcdef"},{"a":"abcdef']),
        (ONE, b'","c":1},{"c":1,', [b'[{"k":"abcdef', b'[{"k":"uvwxyz', b'[{"c":1,"k":"abcdef', b'[{"c":1,"k":"uvwxyzuvwxyz']),
    ],
)
def test_a_token_is_in_the_mask_exactly_if_it_is_followed(items: Any, token: bytes, texts: list[bytes]) -> None:
    """Whatever was found out after another text."""
    grammar = cd.Compiler(vocabulary([token])).compile(cd.JsonSchema(array(items), whitespace="compact"))
    for begin in texts + texts[::-1]:
        m = grammar.matcher()
        assert m.accept_tokens(begin) == len(begin), begin
        assert (256 in mask(m)) is m.accept_token(256), begin


@pytest.mark.parametrize("items", [{"type": "string", "maxLength": 0}, {"type": "string", "pattern": "^[ab]$"}])
def test_no_comma_after_the_last_value_in_a_large_vocabulary(items: Any) -> None:
    """Tokens such as `",` end just before a lexeme for which no value may be left. Below a quote there is more of the trie here
    than is walked for each row.
    """
    vocab = vocabulary([b'",', b'" ,', *(b'"' + bytes([byte]) + b"-" for byte in range(0x21, 0x7F) if byte != 0x2C)])
    m = cd.Compiler(vocab).compile(cd.JsonSchema(array(items))).matcher()
    for byte in b'["a","b' if "pattern" in items else b'["':
        assert m.accept_token(byte)
        stepped = set()
        for token in range(vocab.size):
            if m.accept_token(token):
                stepped.add(token)
                m.rollback(1)
        assert mask(m) == stepped


def test_spellings_of_a_value_are_one_expression_in_all_sets() -> None:
    """An arena knows expressions by their objects: what it worked out for one set of values serves all others."""
    one, other = NOTHING_SEEN.adding(1.5).adding(200), NOTHING_SEEN.adding(200).adding(b"null").adding(1.5)
    assert one._others[1.5] is other._others[1.5] and one._others[200] is other._others[200]


@pytest.mark.parametrize("more", [{}, {"maxLength": 2048}, {"minLength": 15, "maxLength": 300}])
def test_values_whose_shortest_texts_are_long_are_many(more: Any) -> None:
    """They are too many states for a count by length; the texts along one path are enough."""
    pattern = "^arn:aws(-[^:]+)?:bedrock:[a-z0-9-]{1,20}:[0-9]{12}:automated-reasoning-policy/[a-z0-9]{12}(:[1-9][0-9]{0,11})?$"
    items = {"type": "string", "pattern": pattern, **more}
    m = cd.Compiler(vocabulary([])).compile(cd.JsonSchema(array(items, minItems=2))).matcher()
    one = b'"arn:aws:bedrock:eu-west-1:012345678901:automated-reasoning-policy/abcdefghijkl"'
    assert m.accept_tokens(b"[" + one + b"," + one[:-1]) == 2 * len(one) + 1
    assert not m.accept_token(ord('"'))
    assert m.accept_tokens(b':1"]') == 4 and m.is_accepting()


def test_few_values_of_long_texts_are_few() -> None:
    items = {"type": "string", "pattern": "^" + "a" * 300 + "[bc]$"}
    with pytest.raises(cd.UnsupportedError, match="few values"):
        cd.Compiler(vocabulary([])).compile(cd.JsonSchema(array(items, minItems=3)))


@pytest.mark.parametrize(
    ("text", "accepted"), [("[[1],[2]]", True), ("[[1],[1]]", False), ("[[1]]", False), ('[[""],["",1]]', True)]
)
def test_distinct_items_of_which_some_are_asked_for_inside_such(text: str, accepted: bool) -> None:
    m = cd.Compiler(vocabulary([])).compile(cd.JsonSchema(array(array({}, minItems=1), minItems=2))).matcher()
    assert (m.accept_tokens(text.encode()) == len(text) and m.is_accepting()) is accepted
