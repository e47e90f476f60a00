"""The counted work of looking for a short ending in large grammars; and a clear answer where no useful ending exists."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import re

import numpy as np
import pytest
from engine_tools import ir_of, seeds, vocabulary
from naive import Naive, random_grammar, random_tokens
from shared_data import MASKBENCH, needs

import cdplugin as cd
from cdplugin import expr
from cdplugin.kernels.regex.measures import FAR
from cdplugin.kernels.store import layout
from cdplugin.queries import completion, costs, measures, words
from cdplugin.queries.measures import total

VOCAB = vocabulary([b"ab", b'":', b'{"', b"<pa", b"meter"])


def ending(spec: cd.Spec, text: bytes, most_work: int = 100_000_000) -> list[int]:
    """The ending after a text, which is to take at most so much work."""
    grammar = cd.Compiler(VOCAB).compile(spec)
    matcher = grammar.matcher()
    assert matcher.accept_tokens(list(text)) == len(text)
    before = grammar.counters()["work"]
    found = matcher.shortest_completion()
    assert grammar.counters()["work"] - before <= most_work
    assert matcher.accept_tokens(found) == len(found) and matcher.is_accepting()
    return found


DOUBLING = "root ::= r60\nr0 ::= " + '"ab"\n' + "".join(f"r{i + 1} ::= r{i} r{i}\n" for i in range(60))


@pytest.mark.parametrize("n", [30, 41, 60])
def test_many_names_of_all_lengths_in_any_order(n: int) -> None:
    """Where names are one lexeme, the shortest was counted for each: a search went astray when the short ones were used up."""
    names = [f"{i:x}" * (1 + i % 13) for i in range(16, 16 + n)]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    found = ending(cd.JsonSchema(schema, property_order="any"), b"", 25_000_000)
    text = b"".join(VOCAB.tokens[token] or b"" for token in found)
    assert len(json.loads(text)) == n and len(text) == sum(map(len, names)) + 6 * n + 1


@pytest.mark.parametrize(
    "demanded", [[f"{c}.*{c}" for c in "abcdef"], [f"{a}.{{3}}{b}" for a, b in ("ab", "bc", "cd", "de", "ef", "fa")]]
)
def test_many_patterns_at_once(demanded: list[str]) -> None:
    """What a match needs was estimated as what the longest of the patterns needs: a search looked everywhere at once."""
    denied = [f"{a}.{{3}}{b}" for a, b in ("ac", "gh", "ij", "kl", "mn", "op")]
    every = [{"pattern": pattern} for pattern in demanded] + [{"not": {"pattern": pattern}} for pattern in denied]
    found = ending(cd.JsonSchema({"type": "string", "allOf": every}), b"", 40_000_000)
    text = json.loads(b"".join(VOCAB.tokens[token] or b"" for token in found))
    assert all(re.search(pattern, text) for pattern in demanded) and not any(re.search(pattern, text) for pattern in denied)


@pytest.mark.parametrize(("n", "kinds"), [(38, 1), (50, 10), (80, 30)])
def test_many_names_of_many_kinds_in_any_order(n: int, kinds: int) -> None:
    """At each place the rules of all other orders were made, to compare endings that are as long."""
    properties = {f"name_{7 * i}": {"type": ["string", "null"], "maxLength": 10 + i % kinds} for i in range(n)}
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    found = ending(cd.JsonSchema(schema, property_order="any"), b"", 40_000_000)
    text = b"".join(VOCAB.tokens[token] or b"" for token in found)
    assert json.loads(text) == dict.fromkeys(properties, "") and len(text) == sum(map(len, properties)) + 6 * n + 1


def test_what_is_not_known_to_end_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of each rule at a place is looked at, and most are not known to end: a mask under a budget took 20 seconds."""
    properties = {f"name_{i}": {"type": ["string", "null"], "maxLength": 10 + i % 5} for i in range(20)}
    spec = cd.JsonSchema({"type": "object", "properties": properties, "required": list(properties)}, property_order="any")
    rest, work, n_open = costs.Costs._rest, {}, 0

    def counted(self: costs.Costs, dot: int) -> int:
        nonlocal n_open
        found = rest(self, dot)
        n_open += found >= FAR
        return found

    monkeypatch.setattr(costs.Costs, "_rest", counted)
    for each in (0, 500):
        monkeypatch.setattr(costs, "_OPEN_WORK", each)
        n_open = 0
        grammar = cd.Compiler(VOCAB).compile(spec)
        grammar.matcher().shortest_completion()
        work[each] = grammar.counters()["work"]
    # what is learned of each other's lexemes changes the rest by a little
    assert n_open > 100 and abs((work[500] - work[0]) / (500 * n_open) - 1) < 0.01


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize(
    ("required", "found"), [((), b"}}}"), (("image", "name2"), b',"name2":{}}}}'), (("image", "name2", "name9"), None)]
)
def test_only_names_that_may_be_shortest_get_rules(required: tuple[str, ...], found: bytes | None, n: int) -> None:
    """Names of many kinds in any order: all of them, and what may follow each, had rules made to see which is the shortest."""
    kinds = {f"name{i}": {"type": "object", "properties": {f"x{i}": {"type": "integer"}}} for i in range(n)}
    service = {
        "type": "object",
        "properties": {**kinds, "image": {"type": "string"}},
        "patternProperties": {"^x-": {}},
        "required": list(required),
        "additionalProperties": False,
    }
    services = {"type": "object", "additionalProperties": service}
    schema = {"type": "object", "properties": {"services": services}}
    tokens = ending(cd.JsonSchema(schema, property_order="any"), b'{"services":{"a":{"image":"x"', 2_500_000)
    text = b"".join(VOCAB.tokens[token] or b"" for token in tokens)
    assert text == found or (found is None and len(text) == 2 * len(b',"name2":{}') + 3)


@needs(MASKBENCH)
def test_ways_that_are_kept_are_taken_where_shorter_ones_are_promised_later() -> None:
    """A way of 29 bytes was kept before rules came that promise 15 bytes: the search tried everything of less than 29 first."""
    with gzip.open(MASKBENCH, "rt") as lines:
        schema = next(json.loads(line)["schema"] for line in lines if line.startswith('{"id":"Github_hard---o83844"'))
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any"))
    rng = random.Random(3)
    bits = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for _ in range(7):
        matcher = grammar.matcher()
        for _ in range(25):
            before = grammar.counters()["work"]
            matcher.shortest_completion()
            assert grammar.counters()["work"] - before <= 25_000_000
            for _ in range(rng.randrange(1, 6)):
                matcher.fill_next_token_bitmask(bits)
                allowed = [byte for byte in range(256) if bits[0, byte >> 5] >> (byte & 31) & 1]
                usual = [byte for byte in allowed if chr(byte).isalnum() or chr(byte) in '{}[]",:_-']
                if not allowed:
                    break
                assert matcher.accept_token(rng.choice(usual or allowed))


def test_rules_that_come_while_an_ending_is_estimated_count() -> None:
    """A value with a pattern, and members in any order after it: the first estimate was that nothing ends."""
    path = {"type": "string", "pattern": "^s3://([^/]+)/([^/]+/)*([^/]+)$", "maxLength": 8192}
    properties = {"arn": {"type": "string"}, "path": path, "name": {"type": "string"}, "tags": {"type": "array"}}
    schema = {"type": "object", "properties": properties, "required": ["name", "path"], "additionalProperties": False}
    found = ending(
        cd.JsonSchema(schema, property_order="any"), b'{"arn":"]","name":"a","path":"s3:\\u002f\\u002fbb]', 10_000_000
    )
    assert b"".join(VOCAB.tokens[token] or b"" for token in found)[-2:] == b'"}' and len(found) == 4


def test_rules_not_made_yet_may_lead_to_the_end_that_was_estimated() -> None:
    """What was known behind the colon was longer than that, and was believed: a search tried all names instead."""
    item = {"type": "object", "minProperties": 2, "additionalProperties": {"type": "string"}}
    found = ending(cd.JsonSchema({"type": "array", "contains": item}), b"[1,", 2_000_000)
    text = b"[1," + b"".join(VOCAB.tokens[token] or b"" for token in found)
    assert [len(item) for item in json.loads(text)[1:]] == [2] and len(text) == len('[1,{"":"","0":""}]')


@pytest.mark.parametrize(("outer", "inner"), [(12, 3), (12, 12), (3, 12), (8, 16)])
def test_objects_in_any_order_inside_others(outer: int, inner: int) -> None:
    """An object with more names than the one around it: all subsets of the outer names that wait for it were looked at."""
    levels: dict[str, object] = {"type": "object", "required": [f"b{i}" for i in range(inner)]}
    for name in ("c", "d"):  # twice: what one waits for is known while the other is looked at
        properties = {"p": levels, "q": {**levels, "required": [f"{name}{i}" for i in range(inner)]}}
        levels = {"type": "object", "properties": properties, "required": ["p", "q", *(f"a{i}" for i in range(outer))]}
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(levels, property_order="any"))
    found = b"".join(VOCAB.tokens[token] or b"" for token in grammar.matcher().shortest_completion())
    assert found.count(b":") == 2 * (outer + 2) + 3 * inner and grammar.counters()["work"] < 20_000_000


@pytest.mark.parametrize(
    "spec",
    [
        cd.Gbnf(DOUBLING),
        cd.Lark('start: a{100000}\na: b{100000}\nb: c{100000}\nc: "ab"'),
        cd.Lark('start: a{100000}\na: b{100000}\nb: "ab"{1000000}'),
    ],
)
def test_an_ending_that_nobody_can_wait_for_is_refused_at_once(spec: cd.Spec) -> None:
    """Its length is more than an estimate holds: it was taken for unknown, and looked for until the budget was gone."""
    grammar = cd.Compiler(VOCAB).compile(spec)
    matcher = grammar.matcher()
    with pytest.raises(cd.LimitExceeded, match=r"the shortest ending is too long: expected at most 2097152 bytes, found more"):
        matcher.shortest_completion()
    assert grammar.counters()["work"] < 2_000_000


def test_words_beside_text_are_not_spelt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one lexeme is free text, edges are bytes: the other's words, each as long as what is left, were spelt at every byte
    and kept, 640 MB of them for an ending of 100,000.
    """
    spelt = []
    spell = words.Words._spell

    def noted(self: words.Words, root: int) -> bytes | None:
        spelt.append(spell(self, root))
        return spelt[-1]

    monkeypatch.setattr(words.Words, "_spell", noted)
    found = ending(cd.Ebnf('root ::= y " " [a-z]{500}\ny ::= TagDispatch(("<a>", root))'), b"")
    assert len(found) >= 100 and sum(len(word or b"") for word in spelt) < 5_000


def test_sums_of_what_ends_stay_below_what_does_not() -> None:
    assert measures.total((measures.LONG, measures.LONG, 1)) == measures.LONG == measures.FAR - 1
    assert measures.total((1, measures.FAR, 1)) == measures.FAR
    assert measures.total((2, 3)) == 5


def test_a_grammar_of_many_rules() -> None:
    """Of 20,000, taking in the rules was counted as more than a question may take, and every word was followed."""
    count = 6_000
    rules = "".join(f'r{i} ::= "<{i}>" (root | "")\n' for i in range(count))
    spec = cd.Gbnf("root ::= " + " | ".join(f"r{i}" for i in range(count)) + "\n" + rules)
    assert bytes(ending(spec, b"<2258><4", 15_000_000)) == b">"
    assert len(ending(spec, b"", 15_000_000)) == 3


def test_parts_that_many_lexemes_share_are_looked_into_once() -> None:
    """Parameters of any text without its end: the endings of each were looked for alone, derivative by derivative."""
    names = [f"p{i}" for i in range(300)]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names[:30]}
    tag = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}}
    assert ending(cd.StructuralTag(tag), b"<parameter=", 12_000_000)


def test_fixed_numbers_of_many_branches_are_one_set() -> None:
    """3,000 alternatives with a number each were refused: one derivative of them had more than 4,096 parts."""
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema({"oneOf": [{"const": i} for i in range(3_000)]})).matcher()
    assert matcher.accept_tokens(list(b"2999")) == 4 and matcher.is_accepting()
    matcher.reset()
    assert matcher.accept_tokens(list(b"3000")) == 3


@pytest.mark.parametrize("seed", seeds(60, slow=6, quick=15))
def test_rules_taken_in_at_once_cost_what_they_cost_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    rules = random_grammar(rng)
    while not Naive(rules).viable(b""):
        rules = random_grammar(rng)
    vocab = cd.Vocabulary.from_bytes([*random_tokens(rng), b"</s>"], eos_token_ids=0)
    found = []
    for few, sweeps in ((0, 64), (0, 1), (0, 0), (1 << 30, 0)):
        monkeypatch.setattr(costs, "_FEW_RULES", few)
        monkeypatch.setattr(costs, "_MOST_SWEEPS", sweeps)
        matcher = cd.Compiler(vocab).compile_ir(rules).matcher()
        estimates = completion.Endings(matcher._place()[0]).costs
        estimates.of_cursor(matcher._place()[1])
        estimates._list_rules()
        found.append(
            (estimates._rules, estimates._cost, estimates._sums, estimates._uses, estimates._rules_of, estimates._missing)
        )
        least = [0 if estimates._arena.tables[layout.NULLABLE][i] else FAR for i in range(len(estimates._cost))]
        for left, right in len(least) * estimates._rules:
            parts = [least[symbol] if symbol >= 0 else estimates._lexeme(-2 - symbol) for symbol in right]
            least[left] = min(least[left], total(parts))
        assert estimates._cost == least
    assert found[0] == found[1] == found[2] == found[3] and found[0][0]


@pytest.mark.parametrize("seed", seeds(60, slow=6, quick=15))
def test_words_that_wait_lead_to_endings_as_short(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a place has many words, each is followed only when it is the best that is left."""
    rng = random.Random(seed)
    texts = [bytes(rng.choices(b"abc", k=rng.randint(1, 6))) for _ in range(8)]
    symbols = [[expr.literal(text), *rng.choice([[], ["S"], [expr.literal(b"x" * rng.randint(1, 9))]])] for text in texts]
    rules = ir_of({"S": symbols})
    lengths = []
    for many in (0, 1 << 30):
        monkeypatch.setattr(completion, "_MANY_EDGES", many)
        matcher = cd.Compiler(VOCAB).compile_ir(rules).matcher()
        arena = matcher._place()[0]
        with arena.lock:
            lengths.append(len(completion.Endings(arena).find(arena.start)))
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("many", [0, 1 << 30])
@pytest.mark.parametrize("seed", seeds(40, slow=6, quick=15))
def test_places_opened_in_parts_lead_to_endings_as_short(seed: int, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a place of many edges the best few are open; the others follow when these are used up."""
    rng = random.Random(seed)
    texts = {bytes(rng.choices(b"abcdefgh", k=rng.randint(1, 6))) for _ in range(30)}
    symbols = [
        [expr.literal(text), *rng.choice([[], ["S"], [expr.literal(b"x" * rng.randint(1, 9))]])] for text in sorted(texts)
    ]
    symbols = [s for s in symbols if len(s) > 1] + [[expr.literal(b"h" * 9)]]
    rules = ir_of({"S": symbols})
    monkeypatch.setattr(completion, "_MANY_EDGES", many)
    monkeypatch.setattr(completion, "_GREED", (1,))  # else the shortest ending is not promised
    endings = []
    for first in (1, 1 << 30):
        monkeypatch.setattr(completion, "_FIRST_EDGES", first)
        monkeypatch.setattr(completion, "_MORE_EDGES", 2)
        arena = cd.Compiler(VOCAB).compile_ir(rules).matcher()._place()[0]
        with arena.lock:
            endings.append(len(completion.Endings(arena).find(arena.start)))
    assert endings[0] == endings[1]


def test_a_place_of_many_edges_does_not_fill_the_memory() -> None:
    """500 places of a thousand edges were 150 MB of open ways."""
    frontier = completion._Frontier(1, 10, 2)
    for cursor in range(1, 500):
        taken, left, _, _ = frontier.pop()
        edges = [(b"ab", 1000 * cursor + i, 2, left, False) for i in range(1000)]
        frontier.follow(cursor, taken, left, edges, completion._FIRST_EDGES)
    assert len(frontier._open) < 60 * 500


def test_endings_beside_names_under_many_patterns() -> None:
    """Eight patterns on names make 256 kinds of names, whose shortest ones took more than all the work to find."""
    names = {"type": "object", "patternProperties": {letter: {"type": "integer"} for letter in "abcdefgh"}}
    for schema in (names, {**names, "properties": {"x": {"format": "email"}}}):
        assert VOCAB.decode(ending(cd.JsonSchema(schema), b"")) == b"{}"
        found = VOCAB.decode(ending(cd.JsonSchema(schema), b'{"ab":1,"h'))
        assert isinstance(json.loads(b'{"ab":1,"h' + found), dict)


def test_token_terminals_are_followed_once_for_all_tokens_that_they_stand_for() -> None:
    """Each of 128,000 tokens was followed from each of 365 pairs, and compared with those before it: 25 s for a mask."""
    tokens = ["".join(letters).encode() for letters in itertools.product("abcdefghijklmno", repeat=3)]
    vocab = vocabulary([*(bytes([b]) for b in b"abcdefghijklmno"), *tokens], all_bytes=False)
    options = '%llguidance {"ignore_once": true, "allow_initial_skip": true}'
    rules = "start: (r | s)*\nr: s s | T |\ns: <[*]>{0,100} T | <[3-200]> s"
    grammar = cd.Compiler(vocab).compile(cd.Lark(f"{options}\n{rules}\nT: /[a-o]*(b|c)?[a-o]{{0,40}}/\n%ignore T"))
    matcher = grammar.matcher()
    row = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    work = 0
    for token in tokens[700:709]:
        assert matcher.accept_token(vocab.tokens.index(token))
        before = grammar.counters()["work"]
        matcher.fill_next_token_bitmask(row, budget=6)
        work = grammar.counters()["work"] - before
    assert work < 200 * len(tokens)
