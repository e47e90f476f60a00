"""Masks under a budget of tokens are exact beside brute force over tokens, and every text ends within its budget."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from engine_tools import EVERY_BYTE, at_least, cases, mask_bits, members, vocabulary
from naive import Naive, random_grammar, random_tokens
from test_completion import SCHEMAS
from test_completion import VOCAB as JSON_VOCAB
from test_lexing import random_lexing

import cdplugin as cd
from cdplugin.ir import EXACT, LAZY, LONGEST
from cdplugin.kernels.regex.measures import FAR
from cdplugin.queries import budgets
from cdplugin.queries.completion import Endings
from cdplugin.queries.growth import Growth

NEVER = 1 << 30


def fitting(matcher: cd.Matcher, budget: int | None) -> set[int]:
    """The mask under a budget; empty if nothing fits."""
    row = np.full((1, (matcher.grammar.vocab.size + 31) // 32), -1, np.int32)
    try:
        matcher.fill_next_token_bitmask(row, 0, budget)
    except cd.BudgetError:
        return set()
    return members(row.tobytes())


class TooManyPlacesError(Exception):
    """Too many for brute force."""


class Brute:
    """How many tokens an ending takes at least, breadth first over all tokens of the vocabulary."""

    def __init__(self, matcher: cd.Matcher, deepest: int) -> None:
        self.root = matcher
        self.deepest = deepest
        self.allowed: dict[int, list[int]] = {}  # cursor -> cursors
        self.known: dict[int, int] = {}

    def after(self, matcher: cd.Matcher) -> list[cd.Matcher]:
        out = []
        for token in sorted(members(mask_bits(matcher)) - set(matcher.stop_token_ids)):
            fork = matcher.fork()
            assert fork.accept_token(token)
            out.append(fork)
        return out

    def least(self, matcher: cd.Matcher) -> int:
        """The tokens of the shortest ending, without the stop token; NEVER if it takes more than ``deepest``."""
        start = matcher._cursors[-1]
        if start not in self.known:
            layer, seen = {start: matcher}, {start}
            self.known[start] = NEVER
            for depth in range(self.deepest + 1):
                if any(one.is_terminated() or one.is_accepting() for one in layer.values()):
                    self.known[start] = depth
                    assert Endings(matcher._place()[0]).tokens_at_least(start) <= depth
                    break
                fresh: dict[int, cd.Matcher] = {}
                for one in layer.values():
                    for other in self.after(one):
                        cursor = other._cursors[-1]
                        if cursor not in seen:
                            seen.add(cursor)
                            fresh[cursor] = other
                layer = fresh
                if len(seen) > 3_000:
                    raise TooManyPlacesError
        return self.known[start]

    def mask(self, matcher: cd.Matcher, budget: int) -> set[int]:
        out = set()
        last = 1 if matcher.stop_token_ids else 0
        for token in members(mask_bits(matcher)):
            fork = matcher.fork()
            assert fork.accept_token(token)
            if fork.is_terminated() or self.least(fork) + last <= budget - 1:
                out.add(token)
        return out


def walk(grammar: cd.Grammar, rng: random.Random, steps: int, deepest: int, stops: list[int] | None = None) -> tuple[int, int]:
    """Compare masks on a random walk. Returns how many budgets were asked, and how many masks lacked a token."""
    matcher = grammar.matcher(stops)
    brute = Brute(matcher, deepest)
    asked = missed = 0
    for _ in range(steps):
        try:
            for budget in range(1, deepest + 1):
                expected, found = brute.mask(matcher, budget), fitting(matcher, budget)
                assert found <= expected, (matcher.tokens, budget, found - expected)
                asked += 1
                missed += found != expected
            assert fitting(matcher, 10_000) == members(mask_bits(matcher)) or leads_nowhere(matcher)
        except TooManyPlacesError:
            break
        allowed = sorted(members(mask_bits(matcher)) - set(matcher.stop_token_ids))
        if not allowed:
            break
        assert matcher.accept_token(rng.choice(allowed))
    return asked, missed


def leads_nowhere(matcher: cd.Matcher) -> bool:
    """Whether some token leads to where nothing ends: longest match."""
    brute = Brute(matcher, 40)
    return any(brute.least(one) == NEVER for one in brute.after(matcher))


@pytest.mark.parametrize("all_bytes", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_exact_beside_brute_force(seed: int, all_bytes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no bound on the search for endings in fewer tokens, a mask is exactly what brute force finds."""
    monkeypatch.setattr(budgets, "SEARCH_GAP", 1 << 41)
    monkeypatch.setattr(budgets, "SEARCH_WORK", 1 << 40)
    rng = random.Random(seed)
    asked = 0
    for _ in range(cases(12, 2)):
        ir = random_grammar(rng)
        tokens = random_tokens(rng) + ([] if all_bytes else [b"x", b"y"])
        vocab = vocabulary(tokens, all_bytes=all_bytes)
        if not Naive(ir).empty:
            found = walk(cd.Compiler(vocab).compile_ir(ir), rng, 4, 6)
            asked += found[0]
            assert found[1] == 0
    assert asked > at_least(60, 5)


@pytest.mark.parametrize("seed", range(2))
def test_hardly_a_token_is_missed(seed: int) -> None:
    """Every token that is let through has an ending, and few tokens that have one are missed."""
    rng = random.Random(100 + seed)
    asked = missed = 0
    for _ in range(cases(15, 2)):
        ir = random_grammar(rng)
        if not Naive(ir).empty:
            found = walk(cd.Compiler(vocabulary(random_tokens(rng))).compile_ir(ir), rng, 4, 8)
            asked, missed = asked + found[0], missed + found[1]
    assert asked > at_least(60, 5)
    assert missed <= 0.01 * asked


@pytest.mark.parametrize("kinds", [(LONGEST,), (LONGEST, LONGEST, LAZY), (EXACT, LONGEST)], ids=str)
def test_other_lexing(kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Longest match, lazy lexemes, skips, token terminals, counted tokens: never a token without an ending."""
    monkeypatch.setattr(budgets, "SEARCH_GAP", 1 << 41)
    asked = missed = 0
    for seed in range(cases(25, 3)):
        rng = random.Random(seed)
        ir, tokens, _ = random_lexing(rng, kinds)
        vocab = vocabulary(tokens, all_bytes=False)
        try:
            grammar = cd.Compiler(vocab, limits=cd.Limits(max_completion_steps=1_000)).compile_ir(ir)
            found = walk(grammar, rng, 3, 5)
        except (cd.GrammarError, cd.EngineError):  # matches nothing, or a dead end
            continue
        asked, missed = asked + found[0], missed + found[1]
    assert asked > at_least(50, 5)
    assert missed <= 0.02 * asked


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_every_text_ends_in_time(name: str, order: str) -> None:
    """Following any tokens that are let through, from the smallest budget up, with a token that stops and without."""
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(SCHEMAS[name], property_order=order))
    for stops in (None, []):
        least = len(grammar.matcher().shortest_completion()) + (stops is None)
        for extra in (0, 1, 2, 7, 30):
            for seed in range(cases(3, 1)):
                rng = random.Random(1000 * extra + seed)
                matcher = grammar.matcher(stops)
                budget = max(least, 1) + extra
                for left in range(budget, 0, -1):
                    allowed = sorted(fitting(matcher, left))
                    if stops == [] and matcher.is_accepting():
                        break
                    assert allowed, (name, matcher.tokens, left)
                    assert matcher.accept_token(rng.choice(allowed))
                    if matcher.is_terminated():
                        break
                assert matcher.is_terminated() or (stops == [] and matcher.is_accepting())


LONG = {
    "regular expression": (cd.Regex("a{10000000}"), b"a", 5_000_000),
    "doubled": (
        cd.Gbnf('root ::= r30\nr0 ::= "ab"\n' + "".join(f"r{i + 1} ::= r{i} r{i}\n" for i in range(30))),
        b"a",
        1 << 30,
    ),
    "string": (cd.JsonSchema({"type": "string", "minLength": 3_000_000}), b'"a', 1_500_001),
    "property": (
        cd.JsonSchema({"type": "object", "properties": {"a": {"type": "string", "minLength": 3_000_000}}, "required": ["a"]}),
        b"{",
        1_500_004,
    ),
    "items": (cd.JsonSchema({"type": "array", "items": {"type": "integer"}, "minItems": 3_000_000}), b"[1", 3_000_001),
    "complement": (cd.Lark("start: A\nA: /(ab){2000000}/ & ~/x/"), b"ab", 2_000_000),
    "longest match": (cd.Lark('start: W{1500000}\nW: /[ab]+/\n%ignore " "'), b"ab", 750_000),
}


@pytest.mark.parametrize("name", LONG)
def test_endings_that_are_too_long_to_be_found_fit_no_budget(name: str) -> None:
    """That raised :class:`LimitExceeded`, although no budget of tokens holds so many bytes."""
    spec, text, least = LONG[name]
    matcher = cd.Compiler(vocabulary([b"aa", b"ab"])).compile(spec).matcher()
    row = np.zeros((1, (matcher.grammar.vocab.size + 31) // 32), np.int32)
    found = []
    for place in range(2):
        for budget in (1, 100_000):
            assert not matcher.can_end_within(budget) and matcher.validate_tokens(list(text), budget) == 0
            with pytest.raises(cd.BudgetError, match=f"a budget of {budget} tokens: expected at least [0-9]+, since") as error:
                matcher.fill_next_token_bitmask(row, 0, budget)
            assert row.tobytes() == mask_bits(matcher)
        found.append(error.value.least - 1)  # the stop token counts
        assert place or matcher.accept_tokens(list(text)) == len(text)
    assert found[0] == least


def test_rollback_and_forks_give_the_same_masks() -> None:
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(SCHEMAS["person"]))
    rng = random.Random(5)
    matcher = grammar.matcher()
    masks = []
    for left in range(60, 30, -1):
        masks.append(fitting(matcher, left))
        matcher.accept_token(rng.choice(sorted(masks[-1])))
    fork = matcher.fork()
    tokens = fork.tokens
    fork.rollback(len(tokens))
    for left, token, mask in zip(range(60, 30, -1), tokens, masks, strict=False):
        assert fitting(fork, left) == mask
        fork.accept_token(token)


def test_a_batch_with_budgets() -> None:
    """Rows with and without budgets, one of them too small: all others are filled, and the error says what would do."""
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.Choice(["a", "bcd"]))
    matchers = [grammar.matcher() for _ in range(4)]
    rows = np.zeros((4, (JSON_VOCAB.size + 31) // 32), np.int32)
    with pytest.raises(cd.BudgetError, match="a budget of 1 tokens: expected at least 2, .* with its stop token") as caught:
        cd.fill_next_token_bitmasks(matchers, rows, budgets=[None, 2, 1, 9])
    assert (caught.value.budget, caught.value.least) == (1, 2)
    a, b = ord("a"), ord("b")
    assert [members(row.tobytes()) for row in rows] == [{a, b}, {a}, {a, b}, {a, b}]
    with pytest.raises(ValueError, match="budgets: expected 4, found 1"):
        cd.fill_next_token_bitmasks(matchers, rows, budgets=[1])
    for wrong in (True, 2.5):
        with pytest.raises(TypeError, match="budget: expected an integer"):
            matchers[0].fill_next_token_bitmask(rows, 0, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("spec", [cd.JsonSchema(SCHEMAS["tree"]), cd.grammars.SQL], ids=["tree", "sql"])
def test_drafts_are_those_that_the_masks_leave(spec: cd.Spec) -> None:
    """Leading tokens under a budget: as many as one finds mask by mask."""
    grammar = cd.Compiler(JSON_VOCAB).compile(spec)
    cut = 0
    for seed in range(cases(30, 4)):
        rng = random.Random(seed)
        matcher = grammar.matcher()
        drafts: list[int] = []
        for _ in range(12):
            matcher.accept_token(rng.choice(sorted(members(mask_bits(matcher)))))
        drafts = list(matcher.tokens)
        matcher.reset()
        for budget in (5, 12, 16, 20, 30, 500):
            expected = 0
            for token in drafts:
                if token not in fitting(matcher, budget - expected):
                    break
                matcher.accept_token(token)
                expected += 1
            matcher.rollback(expected)
            assert grammar.matcher().validate_tokens(drafts, budget) == matcher.validate_tokens(drafts, budget) == expected
            cut += expected < len(drafts)
    assert cut > at_least(30, 4)


def test_drafts_of_a_known_ending_are_not_judged_one_by_one() -> None:
    """An ending of 936 tokens took 15 seconds (Llama 3's vocabulary): at each place all tokens were looked at."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(60):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    matcher = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(schema)).matcher()
    ending = matcher.shortest_completion()
    before = matcher.counters()["work"]
    assert matcher.validate_tokens(ending, len(ending) + 1) == len(ending) == 241
    assert matcher.counters()["work"] - before < 241 * 1_000  # it was 63,000 a token
    assert matcher.validate_tokens(ending, len(ending)) == 0


def test_after_the_end_a_budget_says_nothing() -> None:
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.Choice(["a"]))
    matcher = grammar.matcher()
    matcher.accept_tokens([ord("a"), JSON_VOCAB.eos_token_ids[0]])
    assert matcher.is_terminated()
    assert fitting(matcher, 0) == set(JSON_VOCAB.eos_token_ids)


@pytest.mark.parametrize("rule", ["<[257]>", "/[ab]{2}/ <[257]>", '"a" (<[257]> | "b" | "b" <[258]>)'])
def test_a_stop_token_that_the_rules_name(rule: str) -> None:
    """It is the last token of its text, and no other comes after it: every budget leaves just what can end in time."""
    vocab = cd.Vocabulary.from_bytes(
        [*(bytes([b]) for b in range(256)), b"ab", b"<x>", b"<y>"], eos_token_ids=[257, 258], special_token_ids=[257, 258]
    )
    grammar = cd.Compiler(vocab).compile(cd.Lark(f"start: {rule}"))

    def in_time(matcher: cd.Matcher, budget: int) -> set[int]:
        """By brute force: the tokens after which the text ends in ``budget`` tokens, the first of them included."""
        out = set()
        for token in members(mask_bits(matcher)) if budget else ():
            fork = matcher.fork()
            assert fork.accept_token(token)
            if fork.is_terminated() or in_time(fork, budget - 1):
                out.add(token)
        return out

    for budget in range(1, 6):
        matcher = grammar.matcher()
        for left in range(budget, 0, -1):
            expected = in_time(matcher, left)
            assert fitting(matcher, left) == expected, (budget, matcher.tokens)
            if not expected:
                break
            assert matcher.accept_token(max(expected))
            if matcher.is_terminated():
                break


def test_a_longer_text_in_fewer_tokens() -> None:
    """``sh`` takes two tokens, ``lengthy`` one."""
    vocab = vocabulary([b"lengthy"])
    grammar = cd.Compiler(vocab).compile(cd.Choice(["sh", "lengthy"]))
    assert fitting(grammar.matcher(), 2) == {256}
    inside = cd.Compiler(vocab).compile(cd.Regex("a(sh|lengthy)")).matcher()
    assert fitting(inside, 3) == {ord("a")}
    assert fitting(inside, 2) == set()


@pytest.mark.parametrize("token", [None, ord("a"), ord("b")])
def test_an_ending_that_was_enough_outlives_its_arena(token: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arena is replaced before a mask, or before a token, and in the next one only longer endings are found."""
    grammar = cd.Compiler(vocabulary([])).compile(cd.Regex("a{0,3}(b{5}|b{9})"))
    matcher = grammar.matcher()
    assert fitting(matcher, 7) == {ord("a"), ord("b")}
    before = grammar._arena
    before.over_budget = True

    def longest(self: budgets.Budgets, cursor: int) -> tuple[list[int], list[int]]:
        return next((path, [*b"b"] * n) for n in range(9, -1, -1) if (path := self._path(cursor, [*b"b"] * n)) is not None)

    monkeypatch.setattr(budgets.Budgets, "_ending", longest)
    assert token is None or matcher.accept_token(token)
    while not matcher.is_terminated():  # no letter but the one that is given is one too many
        allowed = fitting(matcher, 7 - len(matcher.tokens))
        assert allowed <= {ord("b"), *matcher.stop_token_ids}
        assert matcher.accept_token(allowed.pop())
    assert grammar._arena is not before


def test_an_ending_that_was_enough_outlives_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more cursors have endings than are kept."""
    monkeypatch.setattr(budgets, "_MOST_CURSORS", 0)
    grammar = cd.Compiler(vocabulary([])).compile(cd.Regex("a{0,9}(b|cccc)"))
    matcher = grammar.matcher()
    assert matcher.accept_token(ord("a"))
    assert fitting(matcher, 3) == {ord("a"), ord("b")}
    monkeypatch.setattr(budgets.Budgets, "_ending", lambda *_: pytest.fail("an ending was known"))
    known = grammar._endings_in(grammar._arena).budgets(matcher._stops)
    known._drop(matcher._cursors[-1])
    assert fitting(matcher, 3) == {ord("a"), ord("b")}


# --- far away ---------------------------------------------------------------------------------------------------------------


def bounds(matcher: cd.Matcher, seen: tuple[int, int] | None) -> tuple[int, tuple[int, int] | None]:
    """The smallest budget that need not be looked at here, from what was seen at an earlier place; -1 if there is none."""
    arena = matcher._place()[0]
    known = matcher.grammar._endings_in(arena).budgets(matcher._stops)
    low, high = 0, 1 << 20
    if known.quiet(matcher._place()[1], high, matcher._tokens, seen)[0] > high:
        return -1, None
    while high - low > 1:
        middle = (low + high) // 2
        enough, _, _ = known.quiet(matcher._place()[1], middle, matcher._tokens, seen)
        low, high = (low, middle) if enough <= middle else (middle, high)
    return high, known.quiet(matcher._place()[1], 1 << 20, matcher._tokens, seen)[2]


def check_bounds(grammar: cd.Grammar, rng: random.Random, steps: int) -> int:
    """Whatever the next token is, what is left after it is within the bound. Returns how many places had a bound."""
    matcher = grammar.matcher()
    found = 0
    seen = None
    for step in range(steps):
        with matcher._place()[0].lock:
            least, seen = bounds(matcher, seen if step % 3 else None)
            if least >= 0:
                found += 1
                known = grammar._endings_in(matcher._place()[0]).budgets(matcher._stops)
                profile = known.profile(matcher._cursors[-1], matcher._tokens)
                found_costs = [cost for cost in profile.costs if cost < FAR]  # others were not looked for: the work was done
                assert found_costs[-1] <= least - 1, (matcher.tokens, profile.costs, least)
        allowed = sorted(members(mask_bits(matcher)) - set(matcher.stop_token_ids))
        if not allowed:
            break
        matcher.accept_token(rng.choice(allowed))
    return found


@pytest.mark.parametrize("name", [*SCHEMAS, "nested", "optional"])
def test_what_is_far_away_fits(name: str) -> None:
    """Of JSON schemas, recursive ones and any JSON among them."""
    leaf = {"type": "object", "properties": {k: {"type": "string"} for k in ("first", "second", "third")}}
    more: dict[str, Any] = {
        "nested": {"type": "object", "properties": {"a": {**leaf, "required": ["first", "third"]}, "b": {"$ref": "#"}}},
        "optional": {"type": "array", "items": {"anyOf": [{"type": "null"}, {**leaf, "required": ["second"]}, {"$ref": "#"}]}},
    }
    schema = {**SCHEMAS, **more}[name]
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(schema))
    found = sum(check_bounds(grammar, random.Random(seed), 40) for seed in range(cases(8, 1)))
    assert found > 20 or name == "person"  # uniqueItems: its rules come late


@pytest.mark.parametrize("seed", range(3))
def test_what_is_far_away_fits_in_random_grammars(seed: int) -> None:
    rng = random.Random(seed)
    found = 0
    for _ in range(cases(40, 3)):
        ir = random_grammar(rng)
        if not Naive(ir).empty:
            found += check_bounds(cd.Compiler(vocabulary(random_tokens(rng))).compile_ir(ir), rng, 12)
    assert found > at_least(50, 1)


def test_a_budget_that_is_far_away_changes_nothing_and_costs_no_search() -> None:
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(SCHEMAS["tree"]))
    matcher = grammar.matcher()
    rng = random.Random(3)
    for left in range(2_000, 1_800, -1):
        mask = fitting(matcher, left)
        assert mask == members(mask_bits(matcher))
        matcher.accept_token(rng.choice(sorted(mask - set(matcher.stop_token_ids)) or sorted(mask)))
        if matcher.is_terminated():
            break
    known = grammar._endings_in(matcher._place()[0]).budgets(matcher._stops)
    assert not known._profiles and not known.found.left


@pytest.mark.parametrize("name", list(SCHEMAS))
def test_whether_a_mask_was_narrowed(name: str) -> None:
    """``was_narrowed()`` says whether some mask under the budget lacked a token so far. A fork says the same."""
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(SCHEMAS[name]))
    seen = set()
    for seed in range(cases(10, 2)):
        matcher, rng = grammar.matcher(), random.Random(seed)
        left = len(matcher.shortest_completion()) + 10
        expected = False
        while not matcher.is_terminated():
            mask = fitting(matcher, left)
            expected |= mask != members(mask_bits(matcher))
            assert matcher.was_narrowed() == matcher.fork().was_narrowed() == expected
            seen.add(expected)
            matcher.accept_token(rng.choice(sorted(mask)))
            left -= 1
        matcher.reset()
        assert not matcher.was_narrowed(), "no mask at an earlier place"
    assert seen == {True, False}


def test_what_other_grammars_found_out_changes_nothing() -> None:
    """The bounds of expressions that all grammars share are noted once; with them and without, the masks are the same."""

    def masks(compiler: cd.Compiler, schema: Any) -> list[set[int]]:
        matcher = compiler.compile(cd.JsonSchema(schema)).matcher()
        return [fitting(matcher, budget) for budget in (5_000, 40, 9, 4, 2)]

    shared = cd.Compiler(JSON_VOCAB, cd.Limits(max_row_items=3_999))
    for schema in SCHEMAS.values():
        masks(shared, schema)
    for number, schema in enumerate(SCHEMAS.values()):
        alone = cd.Compiler(JSON_VOCAB, cd.Limits(max_row_items=4_000 + number))  # limits of its own: nothing is shared
        assert masks(alone, schema) == masks(shared, schema)
    notes = shared.compile(cd.JsonSchema(SCHEMAS["person"]))._arena.notes
    assert notes.end and notes.measures is not None


ANY_ORDER: list[Any] = [
    {"properties": {n: {"type": "integer"} for n in "abcd"}, "required": ["b", "d"], "additionalProperties": False},
    {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"v": {"enum": ["xyz", "zzzzzz"]}, "l": {"$ref": "#/$defs/node"}, "r": {"$ref": "#/$defs/node"}},
                "required": ["v"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/node",
    },
    {"properties": {n: {"const": 9 * n} for n in "abcde"}, "additionalProperties": False, "minProperties": 3},
    {"type": "object", "patternProperties": {"^x": {"enum": [[1, 2, 3]]}}, "properties": {"q": {}}, "required": ["q"]},
    {
        "type": "object",
        "properties": {n: {"type": "array", "items": {"$ref": "#"}, "minItems": 2} for n in "pq"},
        "dependentRequired": {"p": ["q"]},
        "additionalProperties": {"const": "further"},
    },
    {"anyOf": [{"required": ["aa"]}, {"required": ["bb"]}], "properties": {"aa": {"const": "aaaaaaaa"}, "bb": {"const": 1}}},
]


class NoGrowth(Growth):
    """Nothing is known of what a token may add."""

    def __init__(self, *_: Any) -> None:
        raise cd.LimitExceeded("no bound")


@pytest.mark.parametrize("order", ["any", "schema"])
@pytest.mark.parametrize("number", range(len(ANY_ORDER)))
def test_bounds_of_members_leave_no_token_in_that_does_not_fit(
    number: int, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the bound says that every token fits, an engine that looks at every token agrees; and every text ends in time."""
    spec = cd.JsonSchema(ANY_ORDER[number], property_order=order, whitespace="compact")
    bounded = cd.Compiler(JSON_VOCAB).compile(spec)
    unbounded = cd.Compiler(JSON_VOCAB, cd.Limits(max_row_items=4_001)).compile(spec)
    rng = random.Random(number)
    quiet = 0
    for turn in range(cases(40, 2, 8)):
        least = len(bounded.matcher().shortest_completion()) + 1
        budget = least + (rng.choice([1, 10, 30, 60]) if turn else 1_000)
        one, two = bounded.matcher(), unbounded.matcher()
        for left in range(budget, max(budget - 80, 0), -1):
            found = fitting(one, left)
            assert found, "the text does not end in time"
            if one._enough <= left:
                quiet += 1
                with monkeypatch.context() as patch:
                    patch.setattr(budgets, "Growth", NoGrowth)
                    assert found == fitting(two, left), (order, number, left, one.tokens)
            stops = set(one.stop_token_ids)
            if not found - stops or (found & stops and rng.random() < 0.1):
                break
            token = rng.choice(sorted(found - stops))
            assert one.accept_token(token) and two.accept_token(token)
    assert quiet > 0


DISTINCT: dict[str, dict[str, Any]] = {
    "strings": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2},
    "integers": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    "names": {"type": "object", "minProperties": 2, "additionalProperties": {"type": "string"}},
    "objects": {
        "type": "array",
        "items": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}}, "required": ["a"]},
        "uniqueItems": True,
    },
}


@pytest.mark.parametrize("schema", DISTINCT.values(), ids=DISTINCT)
def test_texts_that_are_kept_end_in_time_where_few_tokens_are_looked_at(
    schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where tokens are let through by the bound: what a mask leaves has an ending that fits."""
    for name, value in (("MOST_PLACES", 3), ("LOOKED_AT", 8), ("_SOME", 8)):
        monkeypatch.setattr(budgets, name, value)
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(schema))
    some = 0
    for seed in range(cases(12, 2)):
        rng = random.Random(seed)
        matcher = grammar.matcher()
        left = rng.randrange(len(matcher.shortest_completion()) + 4, 120)
        while not matcher.is_terminated():
            mask = fitting(matcher, left)
            assert mask and mask <= members(mask_bits(matcher)), (matcher.tokens, left)
            known = grammar._endings_in(matcher._place()[0]).budgets(matcher._stops)
            some += known._last_places is not None and not known._last_places.is_whole
            matcher.accept_token(rng.choice(sorted(mask)))
            left -= 1
    assert some > at_least(50, 5)


def test_masks_of_distinct_strings_under_a_budget_take_no_work_for_each_token() -> None:
    """Nearly every token of a large vocabulary leads to a text of its own: looking for an ending after each of 6,000 crossed
    the limit of a step.
    """
    words = [f"w{i:x}{quote}".encode() for i in range(3_000) for quote in ("", '"')]
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + words + [b"</s>"], eos_token_ids=256 + len(words))
    grammar = cd.Compiler(vocab, limits=cd.Limits(max_step_work=10_000_000)).compile(cd.JsonSchema(DISTINCT["strings"]))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b'["ab') == 4
    whole = members(mask_bits(matcher))
    assert len(whole) > 6_000
    near = fitting(matcher, len(matcher.shortest_completion()) + 2)
    assert near < whole and set(b'abc"') <= near
    assert fitting(matcher, 200) == whole


def test_a_search_for_fewer_tokens_that_takes_too_much_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one that need not be: where an expression took ten million units to measure, the mask was a limit."""
    asked = []

    def too_much(self: budgets.Budgets, cursor: int) -> int:
        asked.append(cursor)
        raise cd.LimitExceeded("one step takes too much work")

    monkeypatch.setattr(budgets.Budgets, "_least", too_much)
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}}, "required": ["a"]}
    matcher = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(schema)).matcher()
    left = len(matcher.shortest_completion()) + 6
    rng = random.Random(0)
    while not matcher.is_terminated():
        assert matcher.accept_token(rng.choice(sorted(fitting(matcher, left))))
        left -= 1
    assert asked and left >= 0


@pytest.mark.parametrize("spec", [cd.Regex("ab"), cd.Lark('start: "ab"')])
def test_a_complete_text_without_a_stop_token(spec: cd.Spec) -> None:
    """Nothing has to come: the row is empty, and no budget is too small."""
    matcher = cd.Compiler(EVERY_BYTE).compile(spec).matcher()
    assert matcher.accept_tokens(b"ab") == 2
    row = np.full((1, 8), -1, np.int32)
    for budget in (0, 1, 2):
        matcher.fill_next_token_bitmask(row, 0, budget)
        assert not row.any()
