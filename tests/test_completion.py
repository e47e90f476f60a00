"""Short endings are legal and short beside brute force, shrink as they are followed, and are found quickly from any place."""

from __future__ import annotations

import json
import random
import time
from itertools import product

import jsonschema
import pytest
from engine_tools import at_least, cases, ir_of, vocabulary
from naive import Naive, random_grammar, random_tokens
from naive_lexing import NaiveLexing
from test_lexing import random_lexing

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR, TokenSet
from cdplugin.queries import completion

JSON_TOKENS = [
    b'{"',
    b'":',
    b'", "',
    b'"}',
    b'"},',
    b"]}",
    b'":"',
    b'","',
    b"null",
    b"true",
    b"name",
    b"},{",
    b"[{",
    b" ",
    b"  ",
]
VOCAB = vocabulary(JSON_TOKENS)

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 3},
        "age": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2, "uniqueItems": True},
        "home": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "null"}}, "required": ["x"]},
    },
    "required": ["name", "tags", "home"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["v", "c"],
        }
    },
    "$ref": "#/$defs/node",
}
WORDS = {"type": "string", "pattern": "^[a-c]{2,5}-(x|yy)$"}
SCHEMAS = {"person": PERSON, "tree": TREE, "words": WORDS, "anything": {}, "email": {"type": "string", "format": "email"}}


def shortest_ending(naive: Naive, prefix: bytes, alphabet: bytes, most: int) -> int | None:
    """The bytes of the shortest ending, by a breadth-first search; None if it is longer than ``most``."""
    layer = [b""]
    for length in range(most + 1):
        if any(naive.accepts(prefix + ending) for ending in layer):
            return length
        layer = [
            ending + bytes([byte]) for ending in layer for byte in alphabet if naive.viable(prefix + ending + bytes([byte]))
        ]
    return None


@pytest.mark.parametrize("seed", range(4))
def test_endings_of_random_grammars(seed: int) -> None:
    """From every place on a random walk: a word by brute force, and hardly ever longer in bytes than the shortest ending."""
    rng = random.Random(seed)
    asked = longer = 0
    for _ in range(cases(24, 4)):
        ir = random_grammar(rng)
        naive = Naive(ir)
        if naive.empty:
            continue
        vocab = vocabulary(random_tokens(rng))
        grammar = cd.Compiler(vocab).compile_ir(ir)
        for _ in range(2):
            matcher = grammar.matcher()
            for _ in range(6):
                prefix = vocab.decode(matcher.tokens)
                ending = matcher.shortest_completion()
                assert naive.accepts(prefix + vocab.decode(ending)), (prefix, ending)
                assert (ending == []) == naive.accepts(prefix)
                enough = grammar.matcher()
                assert enough.accept_tokens(matcher.tokens) == len(matcher.tokens)
                assert len(ending) <= enough.enough_tokens() and enough.can_end_within(enough.enough_tokens())
                least = shortest_ending(naive, prefix, b"xy", 6)
                if least is not None:
                    asked += 1
                    longer += len(vocab.decode(ending)) > least
                allowed = sorted(naive.allowed_tokens(prefix, vocab.tokens) - set(vocab.eos_token_ids))
                if not allowed:
                    break
                assert matcher.accept_token(rng.choice(allowed))
    assert asked > at_least(100, 5)
    assert longer <= 0.02 * asked, f"{longer} of {asked} endings are longer than the shortest"


@pytest.mark.parametrize("kinds", [(LONGEST,), (LONGEST, LONGEST, LAZY), (EXACT, LONGEST)], ids=str)
def test_endings_with_other_lexing(kinds: tuple[str, ...]) -> None:
    """Longest and shortest match, skips, token terminals and counted tokens; where brute force finds an ending too."""
    found = 0
    for seed in range(cases(40, 4)):
        rng = random.Random(seed)
        ir, tokens, terminals = random_lexing(rng, kinds)
        naive = NaiveLexing(ir, terminals)
        if naive.empty:
            continue
        vocab = vocabulary(tokens, all_bytes=False)
        compiler = cd.Compiler(vocab, limits=cd.Limits(max_completion_steps=1_000))  # enough; dead ends cost all of it
        matcher, threads = compiler.compile_ir(ir).matcher(), naive.start()
        for _ in range(5):
            if not _ends_soon(naive, threads, vocab, 2) and _is_dead(matcher):
                break
            ending = matcher.shortest_completion()
            after = threads
            for token in ending:
                after = naive.accept(after, token, vocab.tokens[token])
            assert naive.accepting(after), (seed, matcher.tokens, ending)
            assert matcher.can_end_within(matcher.enough_tokens())
            found += 1
            allowed = sorted(naive.allowed(threads, vocab.tokens))
            if not allowed or len(threads) > 12:
                break
            token = rng.choice(allowed)
            assert matcher.accept_token(token)
            threads = naive.accept(threads, token, vocab.tokens[token])
    assert found > at_least(40, 4)


def _is_dead(matcher: cd.Matcher) -> bool:
    """Whether the engine finds no ending, or none within its budget: longest match may lead where there is none."""
    try:
        matcher.shortest_completion()
    except (cd.EngineError, cd.LimitExceeded):
        return True
    return False


def _ends_soon(naive: NaiveLexing, threads: frozenset, vocab: cd.Vocabulary, most: int) -> bool:
    """Whether the text may end after at most ``most`` more tokens."""
    layer = [threads]
    for _ in range(most + 1):
        if any(naive.accepting(one) for one in layer):
            return True
        layer = [naive.accept(one, t, vocab.tokens[t]) for one in layer for t in naive.allowed(one, vocab.tokens)]
    return False


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("property_order", ["schema", "any"])
def test_following_the_ending_shortens_it(name: str, property_order: str) -> None:
    """From random places: each followed token makes the next answer shorter, and the text is an instance."""
    rng = random.Random(name)
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMAS[name], property_order=property_order))
    for _ in range(cases(4, 1)):
        matcher = grammar.matcher()
        for token in random_text(matcher, rng, rng.randrange(40)):
            assert matcher.accept_token(token)
        ending = matcher.shortest_completion()
        while ending:
            assert matcher.accept_token(ending[0])
            following = matcher.shortest_completion()
            assert len(following) <= len(ending) - 1
            ending = following
        assert matcher.is_accepting()
        jsonschema.validate(json.loads(VOCAB.decode(matcher.tokens)), SCHEMAS[name])


def random_text(matcher: cd.Matcher, rng: random.Random, count: int) -> list[int]:
    """Random legal tokens, half of them of one byte."""
    probe = matcher.fork()
    out: list[int] = []
    for _ in range(count):
        for _ in range(400):
            token = rng.randrange(VOCAB.size - 4)
            if probe.accept_token(token):
                out.append(token)
                break
    return out


@pytest.mark.parametrize("depth", [1_000])
def test_deep_nesting(depth: int) -> None:
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema({})).matcher()
    assert matcher.accept_tokens(b'{"a":[' * depth) == 6 * depth
    assert VOCAB.decode(matcher.shortest_completion()) == b"]}" * depth


def test_long_text_costs_no_more() -> None:
    """What an ending costs does not grow with the text before it, where the nesting is the same."""
    steps = []
    for count in (10, 10_000):
        matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema({"type": "array", "items": {"type": "integer"}})).matcher()
        assert matcher.accept_tokens(b"[" + b"1," * count) == 2 * count + 1
        start = time.thread_time()
        assert VOCAB.decode(matcher.shortest_completion()) == b"0]"
        steps.append(matcher.grammar._endings_in(matcher._place()[0]).shared.costs.budget.taken)
        assert time.thread_time() - start < 5
    assert steps[1] <= 2 * steps[0]


def test_many_items() -> None:
    """A chain of a family's members, each made from the one before."""
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 300, "contains": {"const": 7}, "minContains": 2}
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema)).matcher()
    value = json.loads(VOCAB.decode(matcher.shortest_completion()))
    jsonschema.validate(value, schema)
    assert len(value) == 300


def test_required_members_only() -> None:
    """Of 30 names in any order, half of them required: just those, though there are 2 ** 30 sets of names."""
    names = [f"p{i}" for i in range(30)]
    schema = {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": names[::2]}
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema, property_order="any")).matcher()
    assert set(json.loads(VOCAB.decode(matcher.shortest_completion()))) == set(names[::2])


def optional_names(depth: int) -> dict:
    """Objects of many properties in which something is required, down to a depth; none of their parts is short."""
    schema: dict = {"type": "string", "minLength": 2}
    for _ in range(depth):
        names = {f"optional {i}": {"type": "string"} for i in range(20)}
        schema = {"type": "object", "properties": {**names, "z": schema, "y": schema}, "required": ["z", "y"]}
    return schema


@pytest.mark.parametrize("text", [b"{", b'{"undeclared"', b'{"optional 3":"","z":{"optional 7":""'])
def test_many_optional_names_in_any_order(text: bytes) -> None:
    """No search among the million subsets of names that may stand before those that have to come."""
    schema = optional_names(3)
    matcher = (
        cd.Compiler(VOCAB, cd.Limits(max_completion_steps=3_000)).compile(cd.JsonSchema(schema, property_order="any")).matcher()
    )
    assert matcher.accept_tokens(text) == len(text)
    ending = b"".join(VOCAB.tokens[token] or b"" for token in matcher.shortest_completion())
    jsonschema.validate(json.loads(text + ending), schema)


def test_fewest_tokens() -> None:
    """The tokens are the fewest that spell their bytes (dynamic programming from the front, here)."""
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema(PERSON))
    ending = grammar.matcher().shortest_completion()
    text = VOCAB.decode(ending)
    least = [0] + [len(text) + 1] * len(text)
    for end in range(1, len(text) + 1):
        for token in VOCAB.tokens:
            if token and text[:end].endswith(token):
                least[end] = min(least[end], least[end - len(token)] + 1)
    assert len(ending) == least[-1] < len(text)


def test_the_longest_of_equally_few_tokens_comes_first() -> None:
    vocab = vocabulary([b"ab", b"abc", b"cd", b"d!"])
    for text, tokens in ((b"abcd", [b"abc", b"d"]), (b"abcd!", [b"abc", b"d!"]), (b"xabcd", [b"x", b"abc", b"d"])):
        ending = cd.Compiler(vocab).compile_ir(ir_of({"S": [[expr.literal(text)]]})).matcher().shortest_completion()
        assert [vocab.tokens[token] for token in ending] == tokens


def test_only_tokens_that_spell_it() -> None:
    """No token is the single byte ``c``: the way through it is not taken, or is taken by a longer token."""
    vocab = vocabulary([b"a", b"b", b"bcd", b"x"], all_bytes=False)
    short, long = expr.literal(b"bcd"), expr.literal(b"bxxxxx")
    assert vocab.decode(cd.Compiler(vocab).compile_ir(ir_of({"S": [[short]]})).matcher().shortest_completion()) == b"bcd"
    both = cd.Compiler(vocab).compile_ir(ir_of({"S": [[short], [long]]})).matcher()
    assert vocab.decode(both.shortest_completion()) in (b"bcd", b"bxxxxx")


def test_token_terminals() -> None:
    """A special token that the grammar names is part of the ending."""
    vocab = vocabulary([])
    special = vocab.special_tokens["<special>"]
    ir = GrammarIR()
    ir.start = ir.nonterminal("S")
    ir.rule(ir.start, [ir.lexeme(expr.literal(b"ab")), ir.token(TokenSet(names=("<special>",))), ir.lexeme(expr.literal(b"c"))])
    matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
    assert matcher.shortest_completion() == [97, 98, special, 99]
    assert matcher.accept_tokens([97, 98, special]) == 3 and matcher.shortest_completion() == [99]


def test_a_stop_token_is_never_part_of_it() -> None:
    vocab = vocabulary([b"]}"])
    stop = vocab.tokens.index(b"]}")
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema({}))
    for stops, expected in (([stop], [93, 125]), (None, [stop])):
        matcher = grammar.matcher(stop_token_ids=stops)
        assert matcher.accept_tokens(b'{"a":[') == 6 and matcher.shortest_completion() == expected


def test_another_token_than_the_ending() -> None:
    """Leaving the ending, rolling back and forking: the answer belongs to the place."""
    grammar = cd.Compiler(VOCAB).compile(cd.JsonSchema({"type": "array", "items": {"type": "integer"}}))
    matcher = grammar.matcher()
    assert VOCAB.decode(matcher.shortest_completion()) == b"[]"
    assert matcher.accept_tokens(b"[[") == 1 and VOCAB.decode(matcher.shortest_completion()) == b"]"
    other = matcher.fork()
    assert matcher.accept_tokens(b"12,") == 3 and VOCAB.decode(matcher.shortest_completion()) == b"0]"
    assert VOCAB.decode(other.shortest_completion()) == b"]"
    matcher.rollback(1)
    assert VOCAB.decode(matcher.shortest_completion()) == b"]"
    assert matcher.accept_token(93) and matcher.shortest_completion() == []
    assert matcher.accept_token(VOCAB.eos_token_ids[0]) and matcher.shortest_completion() == []


def test_a_limit_names_itself() -> None:
    limits = cd.Limits(max_completion_steps=20)
    matcher = cd.Compiler(VOCAB, limits).compile(cd.JsonSchema(PERSON)).matcher()
    with pytest.raises(cd.LimitExceeded, match="at most Limits.max_completion_steps = 20"):
        matcher.shortest_completion()
    assert matcher.accept_token(123)  # still usable


@pytest.mark.parametrize("condition", ["~/x/", r"/(ab){400}|\n/"])
@pytest.mark.parametrize("n", [400, 3_000_000])
def test_a_match_that_no_printable_byte_begins(n: int, condition: str) -> None:
    """Only printable bytes were looked at: the ending had 800 bytes, or was too long to be looked for."""
    matcher = cd.Compiler(VOCAB).compile(cd.Lark(f"start: A\nA: /(ab){{{n}}}|\\n/ & {condition}")).matcher()
    assert matcher.can_end_within(1)
    assert matcher.shortest_completion() == [ord("\n")]


MANY = {"type": "array", "items": {"enum": ["ab"]}, "minItems": 90}


def test_enough_tokens_are_counted_without_a_search() -> None:
    """Where an ending is long, the rules tell how many tokens are enough. A search would take more steps than allowed."""
    limits = cd.Limits(max_completion_steps=20)
    matcher = cd.Compiler(VOCAB, limits).compile(cd.JsonSchema(MANY)).matcher()
    with pytest.raises(cd.LimitExceeded):
        matcher.shortest_completion()
    assert matcher.enough_tokens() == len("[" + ",".join(['"ab"'] * 90) + "]")
    assert matcher.accept_tokens(b'["ab') == 4 and matcher.enough_tokens() == len('",' + ",".join(['"ab"'] * 89) + "]")


def test_enough_tokens_where_some_bytes_are_in_no_token() -> None:
    """Expressions have no bytes that no token brings, so each byte of an ending is a token all the same."""
    tokens = [bytes([b]) for b in range(128)] + [b"</s>"]
    vocab = cd.Vocabulary.from_bytes(tokens, eos_token_ids=128)
    matcher = cd.Compiler(vocab, cd.Limits(max_completion_steps=20)).compile(cd.JsonSchema(MANY)).matcher()
    assert matcher.enough_tokens() == len("[" + ",".join(['"ab"'] * 90) + "]")
    with_pair = cd.Vocabulary.from_bytes([*tokens[:128], "é".encode(), b"</s>"], eos_token_ids=129)
    matcher = cd.Compiler(with_pair, cd.Limits(max_completion_steps=20)).compile(cd.JsonSchema(MANY)).matcher()
    with pytest.raises(cd.LimitExceeded):  # a byte may be there that no token of its own spells: it is searched for
        matcher.enough_tokens()


def test_which_tokens_leave_an_ending_within_a_budget() -> None:
    """Beside all sequences of tokens, tried one after the other."""
    tokens = [b"a", b"b", b";", b"ab", b"x", b"abab"]  # of the shortest endings all take as many tokens
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    words = [w for n in (2, 3, 4) for w in (bytes(p) + b";" for p in product(b"ab", repeat=n))]

    def fewest(text: bytes) -> int:
        """The fewest tokens from a text to a word; a large number if none lead there."""
        if text in words:
            return 0
        going_on = [text + t for t in tokens if any(w.startswith(text + t) for w in words)]
        return min((1 + fewest(longer) for longer in going_on), default=99)

    matcher = cd.Compiler(vocab).compile(cd.Regex("[ab]{2,4};")).matcher()
    for prefix in ([], [0], [3], [0, 1], [5]):
        matcher.reset()
        assert matcher.accept_tokens(prefix) == len(prefix)
        text = b"".join(tokens[t] for t in prefix)
        for budget in range(5):
            ends = matcher.ends_within(budget)
            for token, piece in enumerate(tokens):
                expected = fewest(text + piece) <= budget
                assert ends(token) == matcher.can_end_within(budget, after=token) == expected, (text, budget, piece)


@pytest.mark.parametrize("work", [1000, 100, 10])
def test_tokens_that_cross_a_budget_do_not_end_in_time(work: int) -> None:
    """A step's budget, which the token itself crosses: it cannot be taken, and so no ending is known after it."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"a" * 200, b"</s>"], eos_token_ids=257)
    spec = cd.Lark('start: x\nx: "a" x "b" | "a" x "c" |')
    matcher = cd.Compiler(vocab, cd.Limits(max_step_work=work)).compile(spec).matcher()
    with pytest.raises(cd.LimitExceeded):
        matcher.fork().accept_token(256)
    assert not matcher.ends_within(300)(256)


@pytest.mark.parametrize(
    ("spec", "stops"),
    [
        (cd.Choice(["b", "12345"]), [ord("b")]),
        (cd.JsonSchema({"enum": ["b", "cd"]}, whitespace="compact"), [ord("b"), 257]),
        (cd.Regex("(b|xyz)+"), [ord("b")]),
        (cd.JsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 2}), [ord("0")]),
        (cd.Lark("start: (A | B)+ C\nA: /b+/\nB: /xx/\nC: /[by]!/"), [ord("b"), 257]),
    ],
)
def test_stop_tokens_that_are_the_only_spelling_of_a_byte(spec: cd.Spec, stops: list[int]) -> None:
    """A matcher's own stop tokens are no text: what has to be spelled with them is no ending, and another one is found."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"12", b"</s>"], eos_token_ids=257)
    grammar = cd.Compiler(vocab).compile(spec)
    grammar.matcher().shortest_completion()  # what other matchers know is not taken over
    matcher = grammar.matcher(stop_token_ids=stops)
    found = matcher.shortest_completion()
    assert found and not set(found) & set(stops)
    fork = matcher.fork()
    assert fork.accept_tokens(found) == len(found) and fork.is_accepting()
    assert matcher.enough_tokens() >= len(found) and matcher.can_end_within(len(found) + 1)
    assert set(grammar.matcher().shortest_completion()) & set(stops)


def test_bytes_without_tokens_are_named_as_the_cause() -> None:
    """Where tokens cannot spell what a text needs, that is said, not that longest match misled it."""
    with pytest.warns(UserWarning, match="occur only inside longer tokens"):
        vocab = cd.Vocabulary.from_bytes([b"[", b"1", b"ab]", b"</s>"], eos_token_ids=3)
    matcher = cd.Compiler(vocab).compile(cd.Regex(r"\[1*\]")).matcher()
    with pytest.raises(cd.EngineError, match="some bytes have no token of their own"):
        matcher.shortest_completion()


def test_a_way_is_kept_whole_when_others_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new way that leads into a known one, at the moment when there are too many: what it leads to was forgotten with the
    others, and later endings stopped there."""
    monkeypatch.setattr(completion, "_MOST_KEPT", 1)
    matcher = cd.Compiler(VOCAB).compile(cd.Gbnf('root ::= "ab"{2,4} "\\""* | [ -~] root "\\n"')).matcher()
    rng = random.Random(1)
    for _ in range(cases(60, 20)):
        matcher.reset()
        for token in rng.choices([b"a", b"b", b'"', b"\n", b"z"], k=rng.randrange(7)):
            matcher.accept_token(VOCAB.tokens.index(token))
        for _ in range(2):
            found = matcher.fork().shortest_completion()
            fork = matcher.fork()
            assert fork.accept_tokens(found) == len(found) and fork.is_accepting()
            assert matcher.can_end_within(len(found) + 1)


@pytest.mark.parametrize("stops", [[97, 258], [97, 256, 258]])
def test_stop_tokens_beside_tokens_of_equal_bytes(stops: list[int]) -> None:
    """A byte is spelled by another token that has it, unless all of them are stop tokens."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"a", b"aa", b"</s>"], eos_token_ids=258)
    matcher = cd.Compiler(vocab).compile(cd.Regex("(a|bcd)x")).matcher(stop_token_ids=stops)
    assert matcher.shortest_completion() == ([256, 120] if 256 not in stops else [*b"bcdx"])
    assert matcher.enough_tokens() == len(matcher.shortest_completion())
    if 256 not in stops:
        for spec, found in ((cd.Regex("ax"), [256, 120]), (cd.Lark('start: b "a"\nb[max_tokens=1]: /a+/'), [256, 256])):
            matcher = cd.Compiler(vocab).compile(spec).matcher(stop_token_ids=stops)
            assert matcher.shortest_completion() == found
        matcher = cd.Compiler(vocab).compile(cd.Regex("ax")).matcher(stop_token_ids=stops)
        assert matcher.forced_tokens() == matcher.forced_tokens(canonical=True) == [256, 120]
