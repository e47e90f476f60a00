"""Each limit raises and gives its name; hostile grammars stay small, by count; and what ran before changes no mask."""

from __future__ import annotations

import itertools
import random
import weakref
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from engine_tools import TINY, at_least, cases, check_walk, ir_of, mask, mask_bits, members, vocabulary
from grammar_tools import HUNGRY
from naive import Naive, random_grammar, random_tokens

import cdplugin as cd
from cdplugin import expr
from cdplugin.engine import arena as owner
from cdplugin.engine import pages
from cdplugin.ir import GrammarIR
from cdplugin.kernels.store import layout

VOCAB = vocabulary([b"ab", b"aaaa", b"aab", b'":', b'", "', b"12", b'{"', b"}}", b'"}'])
L = expr.literal


def compiled(spec: cd.Spec | GrammarIR, **limits: int) -> cd.Grammar:
    compiler = cd.Compiler(VOCAB, cd.Limits(**limits))
    return compiler.compile_ir(spec) if isinstance(spec, GrammarIR) else compiler.compile(spec)


def read(spec: cd.Spec | GrammarIR, text: bytes, **limits: int) -> dict[str, int]:
    """Read a text byte by byte, with all masks. Returns the grammar's counters."""
    grammar = compiled(spec, **limits)
    matcher = grammar.matcher()
    bitmask = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for i, byte in enumerate(text):
        matcher.fill_next_token_bitmask(bitmask)
        assert matcher.accept_token(byte), (i, matcher.explain(byte))
    matcher.fill_next_token_bitmask(bitmask)
    return grammar.counters()


# --- every limit says its name -----------------------------------------------------------------------

WIDE = cd.Regex(HUNGRY)
BOTH = ir_of(
    {"S": [[expr.both(expr.repeat(expr.cat(L(b"a"), L(b"a")), 50), expr.repeat(L(b"aaa"), 1), expr.complement(L(b"b")))]]}
)
ROWS = ir_of(
    {"S": [["S", "S", "S"], ["A"], ["B"]], "A": [[L(b"a")], ["A", L(b"a")]], "B": [[L(b"a"), "B"], [L(b"a")], ["S", L(b"a")]]}
)
PAIRS = ir_of({"S": [[expr.repeat(L(b"a"), 1), "S"], [expr.repeat(expr.byte_class(b"ab"), 2, 5), "S"], []]})
LIMITS: list[tuple[str, int, cd.Spec | GrammarIR, bytes]] = [
    ("max_spec_bytes", 7, cd.Regex("aaaaaaaaaa"), b""),
    ("max_spec_depth", 5, cd.Regex("((((((((((a))))))))))"), b""),
    ("max_rules", 8, ir_of({"S": [[L(b"%d" % i)] for i in range(9)]}), b""),
    ("max_lexemes", 8, ir_of({"S": [[L(b"%d" % i)] for i in range(9)]}), b""),
    ("max_lexemes", 3, cd.JsonObject(), b""),
    ("max_expr_nodes", 90, cd.JsonSchema({"type": "integer", "multipleOf": 7}), b""),
    ("max_expr_nodes", 9, cd.Lark("start: /a[b-d]+/ | /(e|[f-z]h|i)?jkl/"), b""),
    ("max_repeat", 99, ir_of({"S": [[expr.repeat(L(b"a"), 0, 100)]]}), b""),
    ("max_expr_width", 60, WIDE, b"a" * 150),
    ("emptiness_fuel", 20, BOTH, b"a" * 10),
    ("max_row_items", 3, ROWS, b"a" * 10),
    ("max_pairs", 2, PAIRS, b"a" * 10),
]


@pytest.mark.kernel
@pytest.mark.parametrize(("name", "value", "spec", "text"), LIMITS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(LIMITS)])
def test_each_limit(name: str, value: int, spec: cd.Spec | GrammarIR, text: bytes) -> None:
    with pytest.raises(cd.LimitExceeded, match=rf"{name}.*\b{value}\b"):
        read(spec, text, **{name: value})
    assert read(spec, text[:4])  # the defaults are enough


BIG_SCHEMA = {"type": "object", "properties": {f"p{i}": {"enum": [i, f"{i}"]} for i in range(30)}}


@pytest.mark.parametrize(
    ("name", "value", "spec"),
    [
        ("max_spec_bytes", 100, cd.JsonSchema(BIG_SCHEMA)),
        ("max_spec_bytes", 100, cd.Choice(["a" * 40, "b" * 40, "c" * 40])),
        ("max_spec_depth", 5, cd.JsonSchema({"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{"type": "null"}]}]}]}]})),
        ("max_rules", 20, cd.JsonSchema(BIG_SCHEMA)),
    ],
)
def test_limits_of_front_ends(name: str, value: int, spec: cd.Spec) -> None:
    """They are refused with the number. The message of a schema does not name the limit yet."""
    with pytest.raises(cd.LimitExceeded, match=rf"\b{value}\b"):
        compiled(spec, **{name: value})


@pytest.mark.parametrize(("name", "value"), [("max_spec_bytes", 100), ("max_rules", 20)])
def test_limits_of_schemas_say_their_name(name: str, value: int) -> None:
    with pytest.raises(cd.LimitExceeded, match=rf"{name}.*\b{value}\b"):
        compiled(cd.JsonSchema(BIG_SCHEMA), **{name: value})


@pytest.mark.parametrize(("name", "value"), [("max_repeat", 10), ("max_expr_width", 2)])
def test_a_grammar_within_its_limits_compiles(name: str, value: int) -> None:
    assert read(cd.Regex("ab"), b"ab", **{name: value})


@pytest.mark.parametrize("limit", ["max_step_work", "max_learned_bytes", "max_repeat", None])
def test_the_largest_limits(limit: str | None) -> None:
    """They are no limits: sums and multiples of them do not overflow, and nothing is allocated for them."""
    limits = cd.Limits(**{field.name: (1 << 62) - 1 for field in fields(cd.Limits) if limit in (field.name, None)})
    grammar = cd.Compiler(VOCAB, limits).compile(cd.Lark(r'start: "[" /[a-z]{0,9}/ "]"'))
    assert grammar.matcher().can_end_within(2)
    assert cd.Infill(grammar).new([b"[a", cd.GAP]).completable()


def test_counts_beyond_any_text() -> None:
    most = 10**18 - 1
    compiler = cd.Compiler(VOCAB, cd.Limits(max_repeat=(1 << 62) - 1))
    joined = compiler.compile(cd.Regex(f"a{{{most}}}" * 10 + "x")).matcher()  # together more than 64 bits hold
    assert joined.accept_tokens(b"aaa")
    assert ord("x") not in mask(joined)
    for count in (3 * 10**13, 10**15, most):
        nested = compiler.compile(cd.Regex(f"(((abc){{{count}}}d){{{count}}}e){{{count}}}x")).matcher()
        assert nested.accept_tokens(b"ab")
        assert mask(nested) == {ord("c")}


def test_after_a_limit_the_grammar_goes_on() -> None:
    """The matcher stays where it was, and other texts of the same grammar are as before."""
    tight, roomy = compiled(WIDE, max_expr_width=60), compiled(WIDE)
    matcher, other = tight.matcher(), roomy.matcher()
    with pytest.raises(cd.LimitExceeded, match="max_expr_width"):
        matcher.accept_tokens(b"a" * 150)
    place = matcher.tokens
    assert 80 < len(place) < 150
    with pytest.raises(cd.LimitExceeded, match="max_expr_width"):
        matcher.accept_token(ord("a"))
    assert matcher.tokens == place
    matcher.rollback(30)
    assert other.accept_tokens(matcher.tokens) == len(place) - 30 and mask_bits(matcher) == mask_bits(other)
    matcher.reset()
    other.reset()
    for byte in b"abbbbbabbb":
        assert mask_bits(matcher) == mask_bits(other) and matcher.accept_token(byte) and other.accept_token(byte)


# --- the arena's budget -----------------------------------------------------------------------


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("spec", "budget"),
    [(cd.JsonObject(), 1 << 30), (cd.Regex("((a|b)*a(a|b){9}[0-9]?)*"), 400_000), (ROWS, 1 << 30)],
    ids=["json", "regex", "rows"],
)
def test_a_fresh_arena_has_the_same_masks(spec: cd.Spec | GrammarIR, budget: int) -> None:
    """Over its budget again and again: matchers and forks replay their tokens."""
    small, roomy = compiled(spec, max_arena_bytes=budget), compiled(spec)
    rng = random.Random(5)
    replaced = 0
    pairs = [(small.matcher(), roomy.matcher())]
    for step in range(cases(400, 12)):
        a, b = pairs[rng.randrange(len(pairs))]
        bits = mask_bits(b)
        assert mask_bits(a) == bits
        if step % 5 == 4:
            small._arena.over_budget = True
        before = small._arena
        action = rng.random()
        allowed = sorted(members(bits) - set(VOCAB.eos_token_ids))
        if action < 0.1:
            n = rng.randint(0, len(a.tokens))
            a.rollback(n)
            b.rollback(n)
        elif action < 0.15 and len(pairs) < 5:
            pairs.append((a.fork(), b.fork()))
        elif allowed:
            token = rng.choice(allowed)
            assert a.accept_token(token) and b.accept_token(token)
        assert a.tokens == b.tokens and a.is_accepting() == b.is_accepting()
        replaced += small._arena is not before
    assert replaced > 1


def test_a_terminated_matcher_is_replayed_to_its_end() -> None:
    grammar = compiled(cd.Regex("[ab]*"))
    matcher = grammar.matcher()
    assert matcher.accept_tokens([*b"abab", VOCAB.size - 1]) == 5
    grammar._arena.over_budget = True
    assert matcher.is_terminated() and mask(matcher) == {VOCAB.size - 1}
    matcher.rollback(1)
    assert matcher.tokens == (*b"abab",) and matcher.accept_token(ord("a"))


@pytest.mark.parametrize("call", ["mask", "accept"])
def test_an_arena_that_is_replaced_is_gone_before_the_next_one_is_filled(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay may fill the next arena: with the ending of 100,000 tokens that a budget needs, 310 MB were alive, now 185."""
    grammar = compiled(cd.Regex("[ab]*"))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"ab") == 2
    replaced = weakref.ref(grammar._arena)
    alive: list[bool] = []
    replay = cd.Matcher._replay

    def watched(matcher: cd.Matcher, arena: owner.Arena, promised: list[int] | None) -> None:
        alive.append(replaced() is not None)
        replay(matcher, arena, promised)

    monkeypatch.setattr(cd.Matcher, "_replay", watched)
    grammar._arena.over_budget = True
    assert mask(matcher) if call == "mask" else matcher.accept_token(ord("a"))
    assert alive == [False]


def test_one_step_over_budget_is_refused_and_does_not_spoil_the_grammar() -> None:
    spec = cd.Regex("(a|b)*a(a|b){2000}")
    grammar = compiled(spec, max_arena_bytes=1_000_000)
    matcher, other = grammar.matcher(), compiled(spec).matcher()
    refused = 0
    for byte in b"aab" * 100:
        try:
            assert matcher.accept_token(byte)
        except cd.LimitExceeded as error:
            text = str(error)
            refused += 1
            break
        assert other.accept_token(byte)
    if refused:
        assert "one step takes too much memory: expected at most Limits.max_arena_bytes = 1000000" in text
    matcher.reset()
    other.reset()
    assert matcher.accept_tokens(b"ab") == other.accept_tokens(b"ab") == 2 and mask_bits(matcher) == mask_bits(other)


def _parameters_in_any_order(n: int) -> cd.StructuralTag:
    """Parameters of which each text leads to a set of its own, and each set to ``n`` more."""
    names = [f"p{i}" for i in range(n)]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}
    return cd.StructuralTag({"format": {"type": "json_schema", "json_schema": schema, "style": "glm_xml", "any_order": True}})


def test_members_of_families_have_no_more_room_than_a_step() -> None:
    """Their values grow beside the tables, which were all that was looked at."""
    most = 2 << 20
    grammar = compiled(_parameters_in_any_order(100), max_arena_bytes=most)
    with pytest.raises(cd.LimitExceeded, match="max_arena_bytes"):
        grammar.matcher().shortest_completion()
    assert grammar._arena.nbytes < most + (5 << 20)


def test_what_is_known_of_endings_takes_an_arenas_room() -> None:
    """Each question left more, and nothing ever went."""
    most = 32 << 20
    grammar = compiled(_parameters_in_any_order(40), max_arena_bytes=most)
    matcher = grammar.matcher()
    largest = 0
    for i in range(12):
        matcher.reset()
        text = b"".join(b"<arg_key>p%d</arg_key><arg_value>1</arg_value>" % k for k in (39 - i, i))
        assert matcher.accept_tokens(text) == len(text)
        matcher.shortest_completion()
        largest = max(largest, grammar.nbytes)
    assert largest < 70_000_000


def test_a_replay_that_is_refused_can_be_tried_again() -> None:
    """A limit that is crossed while tokens are replayed must not leave cursors of one arena in another."""
    spec = cd.Regex("(a|b)*a(a|b){200}")
    vocab = vocabulary([b"ab"])  # of its own: its template is changed below
    grammar, other = cd.Compiler(vocab).compile(spec), cd.Compiler(vocab, cd.Limits(max_rules=1_000)).compile(spec)
    matcher, same = grammar.matcher(), other.matcher()
    text = b"ab" * 25
    assert matcher.accept_tokens(text) == same.accept_tokens(text) == len(text)
    grammar._arena.over_budget = True
    grammar._base_arena.header[layout.MAX_WIDTH] = 10  # the next arena refuses what this one took
    for _ in range(2):
        with pytest.raises(cd.LimitExceeded, match="too many alternatives"):
            mask_bits(matcher)
    grammar._base_arena.header[layout.MAX_WIDTH] = 4096
    grammar._arena.over_budget = True
    assert mask_bits(matcher) == mask_bits(same) and matcher.tokens == same.tokens


# --- tables that grow in the middle of everything -----------------------------------------------------------------------


@pytest.mark.kernel
@pytest.mark.parametrize("seed", range(3))
def test_growing_from_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arenas whose tables start with room for hardly anything have the masks of naive; with one seed each table that grows has
    pages of its own, as large ones have, which earlier arenas have written to.
    """
    monkeypatch.setattr(owner, "INITIAL", TINY)
    monkeypatch.setattr(pages, "LARGE", 1 if seed == 1 else 1 << 40)
    rng = random.Random(300 + seed)
    compared = 0
    for _ in range(cases(25, 3)):
        alphabet = rng.choice([b"xy", b"ab!"])
        ir = random_grammar(rng, alphabet)
        vocab = vocabulary(random_tokens(rng, alphabet))
        naive = Naive(ir)
        if not naive.empty:
            compared += check_walk(cd.Compiler(vocab).compile_ir(ir), naive, rng, cases(15, 5))
    assert compared > at_least(50, 2)


# --- hostile grammars -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "states", "derivatives"),
    [
        ("(a+)+b", b"a" * 300 + b"b", 10, 100),
        ("((a*)*)*b", b"a" * 300 + b"b", 10, 100),
        ("(a|a|aa)*c", b"a" * 300 + b"c", 10, 100),
        (".*.*.*.*", b"ab" * 200, 20, 100),
        (".*a.*a.*a.*a", b"ab" * 200 + b"a", 100, 2_000),
        ("(a|b)*a(a|b){1000}", b"ab" * 200, 2_000, 400_000),
        ("(a{1000}){1000}", b"a" * 400, 1_000, 5_000),
        ("((a|b){1000}){1000}", b"ab" * 200, 1_000, 5_000),
        ("(a?){200}a{200}", b"a" * 390, 1_000, 40_000),
        ("(a{0,50}){0,50}b", b"a" * 100 + b"b", 500, 1_000),
        ("(.*a){30}", b"ab" * 60, 2_000, 500_000),
        ("((a{0,1000}){0,1000}){0,1000}b", b"a" * 100 + b"b", 300, 1_000),
        (r"(.{1,63}\.){1,127}[a-z0-9-]+", b"a.bc..de." * 20 + b"x", 500, 2_000),
        ("(.{0,5}x){0,9}(.{0,7}y){0,9}(.{0,9}z){0,9}", b"abxxyyzxxyyzz", 1_000, 5_000),
    ],
)
def test_hostile_patterns_stay_small(pattern: str, text: bytes, states: int, derivatives: int) -> None:
    counters = read(cd.Regex(pattern), text)
    assert counters["lexer_states"] <= states and counters["derivatives"] <= derivatives
    assert counters["nodes_walked"] <= len(VOCAB.trie) * (counters["lexer_states"] + 2)


def test_too_many_alternatives_are_refused() -> None:
    with pytest.raises(cd.LimitExceeded, match=r"too many alternatives: expected at most Limits.max_expr_width = 64"):
        read(cd.Regex("(a|b)*a(a|b){200}"), b"ab" * 100, max_expr_width=64)


Rules = dict[str, Sequence[Sequence[str | expr.Expr]]]
NESTED: Rules = {"S": [[L(b"("), "S", L(b")")], []]}
LISTS: Rules = {"S": [["S", L(b"("), "S", L(b")")], []]}
AMBIGUOUS: Rules = {"S": [["S", "S", "S"], [L(b"a")], []]}


@pytest.mark.parametrize("rules", [NESTED, LISTS], ids=["nested", "lists"])
def test_deep_text(rules: Rules) -> None:
    """30,000 open brackets: one row for each, and no recursion on them."""
    grammar = compiled(ir_of(rules))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"(" * 30_000) == 30_000 and not matcher.is_accepting()
    assert matcher.accept_tokens(b")" * 30_000) == 30_000 and matcher.is_accepting()
    assert ord(")") not in mask(matcher)
    counters = grammar.counters()
    assert counters["rows"] <= 61_000 and counters["bytes"] < 64 << 20
    matcher.rollback(30_000)
    assert ord(")") in mask(matcher) and not matcher.is_accepting()


def test_ambiguity() -> None:
    counters = read(ir_of(AMBIGUOUS), b"a" * 60)
    assert counters["rows"] <= 100 and counters["values"] <= 2_000


def test_cyclic_rules() -> None:
    rules: Rules = {"A": [["B"], [L(b"a")], ["A", "A"]], "B": [["C"], [], ["B", "C", "B"]], "C": [["A"], ["A", "B"], ["C"]]}
    ir = ir_of(rules)
    assert check_walk(compiled(ir), Naive(ir), random.Random(1), cases(60, 10)) > 3
    units: Rules = {**{f"A{i}": [[f"A{i + 1}"]] for i in range(3_000)}, "A3000": [[L(b"a"), "A0"], []]}
    assert read(ir_of(units), b"a" * 50)["rows"] <= 10


def test_five_thousand_alternatives() -> None:
    rules: Rules = {"S": [*([f"A{i}", "S"] for i in range(5_000)), []], **{f"A{i}": [[L(b"%d;" % i)]] for i in range(5_000)}}
    grammar = compiled(ir_of(rules))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"1;4999;17;0;") == 12 and matcher.is_accepting()
    assert matcher.validate_tokens(b"5000") == 3 and matcher.validate_tokens(b"00") == 1
    assert mask(matcher) == {*b"0123456789", VOCAB.tokens.index(b"12"), *VOCAB.eos_token_ids}
    assert grammar.counters()["rows"] <= 20


STATES = ["NEW", "ON_APPROVAL", "ON_SIGNING", "ON_MODIFICATION", "EXECUTED", "DEPRECATED", "REJECTED"]
DOMAIN = r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$"


@pytest.mark.parametrize(
    ("schema", "legal", "refused"),
    [
        ({"type": "string", "oneOf": [{"pattern": word} for word in STATES]}, '"a NEW b"', '"NEW REJECTED'),
        ({"type": "string", "pattern": DOMAIN}, '"example.com"', '"example://'),
    ],
    ids=["exactly one of seven patterns", "a lookahead beside bounds"],
)
def test_parts_that_contradict_each_other(schema: dict, legal: str, refused: str) -> None:
    """Seen without taking derivatives of all parts at once, of which there are too many."""
    matcher = compiled(cd.JsonSchema(schema)).matcher()
    for byte in legal.encode():
        assert byte in mask(matcher) and matcher.accept_token(byte)
    assert matcher.is_accepting()
    matcher.reset()
    assert matcher.validate_tokens(refused.encode()) == len(refused) - 1
    assert matcher.accept_tokens(refused.encode()[:-1]) == len(refused) - 1 and ord(refused[-1]) not in mask(matcher)


def test_alternatives_that_begin_alike() -> None:
    """What several alternatives predict in the same way is one item, not one for each pair of them."""
    n = 700
    rules: Rules = {"S": [[L(b"{"), f"A{i}"] for i in range(n)], "W": [[L(b" "), "W"], []]}
    rules |= {f"A{i}": [["W", L(b"%d" % i), L(b"}")]] for i in range(n)}
    grammar = compiled(ir_of(rules))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"{   ") == 4 and mask(matcher) >= {*b" 0123456789"}
    assert matcher.accept_tokens(b"  69") == 4 and mask(matcher) >= {*b"0123456789}"}
    assert matcher.accept_tokens(b"9}") == 2 and matcher.is_accepting()


def test_ten_thousand_literals() -> None:
    words = [b"%d," % (i * i) for i in range(10_000)]
    grammar = compiled(ir_of({"S": [[expr.literals(words), "S"], []]}))
    matcher = grammar.matcher()
    for word in words[::500]:
        assert matcher.accept_tokens(word) == len(word) and matcher.is_accepting()
    assert matcher.validate_tokens(b"17,") == 2 and matcher.validate_tokens(b"16,") == 3
    assert grammar.counters()["derivatives"] < 1_000 and grammar.counters()["values"] < 2_000


# --- determinism -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        cd.JsonObject(),
        cd.JsonSchema({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "number"}}}),
        cd.Regex("((a|b)*a(a|b){3}|12|é)*"),
        ROWS,
        PAIRS,
    ],
    ids=["object", "schema", "regex", "rows", "pairs"],
)
def test_masks_do_not_depend_on_what_ran_before(spec: cd.Spec | GrammarIR) -> None:
    """The same texts in a grammar of their own, in one that has read others, in another order, with masks or without."""
    rng = random.Random(11)
    grammar = compiled(spec)
    texts: dict[tuple[int, ...], bytes] = {}
    for _ in range(6):
        matcher = grammar.matcher()
        for _ in range(12):
            bits = texts.setdefault(matcher.tokens, mask_bits(matcher))
            allowed = sorted(members(bits) - set(VOCAB.eos_token_ids))
            if not allowed:
                break
            assert matcher.accept_token(rng.choice(allowed))
    orders = [list(texts), list(reversed(texts)), rng.sample(list(texts), len(texts))]
    for order in orders:
        other = compiled(spec)
        for tokens in order:
            matcher = other.matcher()
            assert matcher.accept_tokens(tokens) == len(tokens)
            if rng.random() < 0.5:
                matcher.validate_tokens(rng.sample(range(256), 50))
                matcher.explain(rng.randrange(256))
            assert mask_bits(matcher) == texts[tokens]
    for tokens in itertools.islice(texts, 0, None, 9):  # alone
        matcher = compiled(spec).matcher()
        assert matcher.accept_tokens(tokens) == len(tokens) and mask_bits(matcher) == texts[tokens]


def test_a_text_that_takes_more_than_the_budget_alone_is_followed_once() -> None:
    """It found its place anew at every step: each arena was over the budget when the text had been followed."""
    spec = cd.Choice([bytes(random.Random(1).choices(b"abcdefgh", k=8_000)).decode()])
    grammar = compiled(spec, max_arena_bytes=4_000_000)
    matcher = grammar.matcher()
    text, arenas = spec.choices[0].encode(), []
    for i in range(4_000):
        assert matcher.accept_token(text[i])
        if grammar._arena not in arenas:
            arenas.append(grammar._arena)
    assert grammar._arena.nbytes > 4_000_000
    assert len(arenas) == 2, "replaced once, when the budget was crossed"
    other = grammar.matcher()
    assert other.accept_tokens(text[:100]) == 100 and text[100] in mask(other)


def test_a_text_that_takes_more_than_a_step_may_is_refused() -> None:
    spec = cd.Choice([bytes(random.Random(1).choices(b"abcdefgh", k=20_000)).decode()])
    grammar = compiled(spec, max_arena_bytes=4_000_000)
    matcher = grammar.matcher()
    with pytest.raises(cd.LimitExceeded, match="too much memory: expected at most Limits.max_arena_bytes = 4000000"):
        matcher.accept_tokens(spec.choices[0].encode())
    place = len(matcher.tokens)
    assert place > 4_000 and grammar._arena.nbytes <= 4_000_000 + (4 << 20)
    matcher.rollback(place - 100)
    assert matcher.accept_token(spec.choices[0].encode()[100])


def test_a_shared_expression_is_shown_in_few_words() -> None:
    """Found by ``perf/soak.py``: 20 levels that each name the level below twice were spelled out a million times."""
    shared = expr.byte_class(b"ab")
    for byte in b"abcd" * 16:
        shared = expr.alt(expr.cat(shared, expr.byte_class(bytes([byte]))), expr.cat(expr.literal(b"x"), shared))
    assert len(repr(shared)) < 4_000
    assert len(repr(expr.literal(b"x" * 10**6))) < 1_000
    letter = expr.byte_class(b"ab")
    wide = expr.alt(*(expr.cat(expr.byte_class(bytes([i % 256])), expr.repeat(letter, i)) for i in range(5_000)))
    assert len(repr(wide)) < 4_000


SEARCHES = "NEW ON_APPROVAL ON_SIGNING EXECUTED REJECTED DELETED CLOSED".split()


@pytest.mark.parametrize(
    ("schema", "text", "most"),
    [
        # bytes that share a transition are looked for where a derivative is dear: 1.4 million units else
        ({"oneOf": [{"pattern": p} for p in SEARCHES]}, '"NEW', 500_000),
        # what is too large for one containment search is remembered: 3.1 million else
        ({"format": "regex", "minLength": 1}, '"^(a', 1_200_000),
        # a graph of characters is given up where its nodes have many classes: 12.6 million else
        ({"format": "idn-hostname", "minLength": 3, "maxLength": 60}, '"ww', 1_500_000),
    ],
)
def test_the_work_of_a_mask_is_in_proportion_to_its_lexeme(schema: dict[str, Any], text: str, most: int) -> None:
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema({"type": "string", **schema})).matcher()
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for byte in text.encode():
        before = matcher.grammar.counters()["work"]
        matcher.fill_next_token_bitmask(row)
        assert matcher.grammar.counters()["work"] - before <= most
        assert matcher.accept_token(byte)


def test_a_mask_of_many_token_terminals_spends_work() -> None:
    n, most = 2_000, 20_000
    vocab = cd.Vocabulary.from_bytes([b"%d" % i for i in range(n)], n - 1)
    spec = cd.Lark("start: (" + " | ".join(f"<[^{i}]>" for i in range(n - 1)) + ")*")
    grammar = cd.Compiler(vocab).compile(spec)
    before = grammar.counters()["work"]
    assert mask(grammar.matcher()) == set(range(n))
    work = grammar.counters()["work"] - before
    assert work > n * (n >> 9)
    matcher = cd.Compiler(vocab, cd.Limits(max_step_work=most)).compile(spec).matcher()
    assert work > most
    with pytest.raises(cd.LimitExceeded, match="one step takes too much work"):
        mask(matcher)


@pytest.mark.parametrize("seed", range(cases(20, 5)))
def test_the_ranges_of_token_terminals(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice((31, 32, 33, 64, 100, 300))
    pairs = [(low, min(low + rng.randrange(size // 6), size - 1)) for low in rng.sample(range(size), 4)]
    chosen = {i for low, high in pairs for i in range(low, high + 1)}
    ranges = ",".join(f"{low}-{high}" for low, high in pairs)
    vocab = cd.Vocabulary.from_bytes([b"%d" % i for i in range(size)] + [b"</s>"], size)
    negated = rng.random() < 0.5
    matcher = cd.Compiler(vocab).compile(cd.Lark(f"start: <[{'^' * negated}{ranges}]>")).matcher()
    expected = {i for i in range(size) if (i in chosen) != negated}
    assert mask(matcher) - {size} == expected
    assert {i for i in range(size) if matcher.validate_tokens([i])} == expected
