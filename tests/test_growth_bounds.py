"""The bounds from the rules never say less than what a text still needs.

They are compared with brute force over the ways down through random rules, and with the endings that are found in random
texts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_tools import cases, ir_of, seeds, vocabulary
from naive import Naive
from test_budgets import JSON_VOCAB, check_bounds, fitting

import cdplugin as cd
from cdplugin import expr
from cdplugin.kernels.parser import growth
from cdplugin.kernels.regex.measures import FAR
from cdplugin.kernels.store import layout
from cdplugin.queries.growth import _Levels

pytestmark = pytest.mark.kernel


class RandomRules:
    """Rules over lexemes of random costs, as the kernel is given them; each nonterminal ends somehow. ``bits``: 0 for costs in
    bytes, ``UNIT_BITS`` for those in tokens, of which a lexeme has any number.
    """

    def __init__(self, rng: random.Random, bits: int) -> None:
        self.rng = rng
        self.bits = bits
        self.n = rng.randint(1, 6)
        self.n_lexemes = rng.randint(2, 5)
        sizes = [rng.randint(1, 9) for _ in range(self.n_lexemes)]
        self.least = [(size << bits) - rng.randint(1, size) if bits else size for size in sizes]
        self.rest = [size + rng.randint(0, 3) for size in sizes]
        self.bytes = [rng.choice([0, 1 << lexeme, 3 << lexeme, 1]) for lexeme in range(self.n_lexemes)]
        self.rules: list[tuple[int, list[int]]] = []
        for left in range(self.n):
            self.rules.append((left, [self.lexeme() for _ in range(rng.randint(0, 2))]))
            for _ in range(rng.randint(0, 2)):
                self.rules.append((left, [rng.choice([self.lexeme, self.nonterminal])() for _ in range(rng.randint(1, 4))]))
        self.costs = self.least_costs()

    def lexeme(self) -> int:
        return -2 - self.rng.randrange(self.n_lexemes)

    def nonterminal(self) -> int:
        return self.rng.randrange(self.n)

    def cost_of(self, right: list[int]) -> int:
        return sum(self.least[-2 - code] if code < 0 else self.costs[code] for code in right)

    def least_costs(self) -> list[int]:
        """By going over the rules until nothing changes."""
        self.costs = [FAR] * self.n
        while True:
            found = [min(self.cost_of(right) for left, right in self.rules if left == one) for one in range(self.n)]
            if found == self.costs:
                return found
            self.costs = found

    def count(self, cost: int) -> int:
        """The bytes or tokens of a cost."""
        return -cost % (1 << self.bits) if self.bits else cost

    def can_be_empty(self, code: int) -> bool:
        return code >= 0 and self.costs[code] == 0

    def bound(self) -> tuple[list[int], list[int], list[int], np.ndarray]:
        """What the kernel finds for each nonterminal (costs, reaches, levels) and for the rules."""
        symbols, starts = [], []
        for _, right in self.rules:
            starts.append(len(symbols))
            symbols += [*right, layout.END_OF_RULE]
        n_rules = len(self.rules)
        costs, reach, levels = np.zeros((3, self.n), np.int64)
        out = np.zeros(growth.BOUND_WORDS, np.int64)
        needed = np.array([word for bits in self.bytes for word in (bits, 0, 0, 0)], np.int64)
        rules = (
            np.array(symbols, np.int64),
            np.array(starts, np.int64),
            np.array([left for left, _ in self.rules], np.int64),
            np.full(n_rules, growth.R_RULE, np.int64),
            np.array([int(self.costs[one] == 0) for one in range(self.n)], np.int64),
            np.arange(self.n),
        )
        lexemes = (np.array(self.least, np.int64), np.array(self.rest, np.int64), needed)
        scratch = np.zeros(growth.scratch_size(self.n, n_rules, len(symbols)), np.int64)
        growth.bound_rules(rules, lexemes, self.bits, scratch, (costs, reach, levels), out)
        return costs.tolist(), reach.tolist(), levels.tolist(), out

    def way_down(self, node: int, opened: int) -> tuple[int, int]:
        """A way down from ``node`` to a lexeme in which a text stands: what is left on it, and how many levels it has at
        least: lexemes, each with a byte of ``opened``.
        """
        rng = self.rng
        left = levels = 0
        here = {node}  # what was opened at this place
        for _ in range(rng.randint(0, 25)):
            right = rng.choice([right for one, right in self.rules if one == node])
            places = [at for at, code in enumerate(right) if code >= 0]
            if not places:
                break
            at = rng.choice(places)
            price = self.cost_of(right[at + 1 :])
            if at == 0:  # the cheapest rule that begins with it may be taken
                price = min(self.cost_of(r[1:]) for one, r in self.rules if one == node and r[:1] == [right[0]])
            moved = 0
            for code in right[:at]:
                if code < 0:
                    bits = self.bytes[-2 - code] or (1 << 256) - 1
                    moved += 1
                    levels += bits & ~opened == 0
                elif not self.can_be_empty(code):
                    moved += 1
                    levels += opened == (1 << 256) - 1
            if moved:
                here = set()
            if right[at] in here:
                break
            node = right[at]
            here.add(node)
            left += self.count(price)
        right = rng.choice([right for one, right in self.rules if one == node])
        places = [at for at, code in enumerate(right) if code < 0]
        if places:
            at = rng.choice(places)
            left += self.rest[-2 - right[at]] + self.count(self.cost_of(right[at + 1 :]))
        return left, levels


@pytest.mark.parametrize("bits", [0, growth.UNIT_BITS])
@pytest.mark.parametrize("seed", seeds(400, 20, 60))
def test_no_way_down_leaves_more_than_the_bound(seed: int, bits: int) -> None:
    rules = RandomRules(random.Random(seed), bits)
    costs, reach, level, out = rules.bound()
    assert costs == rules.costs
    if not out[growth.B_IS_BOUND]:
        return
    opened = int.from_bytes(out[growth.B_BYTES :].astype("<i8").tobytes(), "little")
    assert max(level) == out[growth.B_LEVEL]
    for _ in range(300):
        node = rules.nonterminal()
        left, levels = rules.way_down(node, opened)
        assert left <= reach[node] + level[node] * levels, (rules.rules, node, left, levels)


def test_most_random_rules_have_a_bound() -> None:
    found = [RandomRules(random.Random(seed), 0).bound()[3] for seed in range(cases(400, 20, 60))]
    bounds = [out for out in found if out[growth.B_IS_BOUND]]
    assert len(bounds) > 0.8 * len(found)
    assert any(out[growth.B_LEVEL] for out in bounds) and any(not out[growth.B_LEVEL] for out in bounds)


def end_in_time(grammar: cd.Grammar, budget: int, choose: Callable[[random.Random, set[int]], int]) -> int:
    """Follow allowed tokens that ``choose`` picks until the text ends, within so many. Returns how many it took."""
    matcher, rng = grammar.matcher(), random.Random(budget)
    for left in range(budget, 0, -1):
        allowed = fitting(matcher, left)
        assert allowed, (budget, matcher.tokens)
        assert matcher.accept_token(choose(rng, allowed))
        if matcher.is_terminated():
            break
    assert matcher.is_terminated()
    return len(matcher.tokens)


def test_the_rest_of_a_rule_that_is_opened_counts() -> None:
    """``d`` ends in one token. After ``a`` it takes 99 more, in a rule without nonterminals."""
    parts = [expr.literal(part) for part in (b"a", b"b" * 33, b"c" * 33, b"e" * 33)]
    ir = ir_of({"S": [[expr.literal(b"x"), "D"]], "D": [parts, [expr.literal(b"d")]]})
    grammar = cd.Compiler(vocabulary([b"ab"])).compile_ir(ir)
    assert end_in_time(grammar, 120, lambda _, allowed: max(allowed & {ord("a"), ord("b")} or allowed)) < 120


def test_endings_are_counted_that_are_found() -> None:
    """``sh`` is the shorter text, ``lengthy`` takes fewer tokens: of eight of them, the short ones take eight tokens more, for
    which no others are looked for.
    """
    ir = ir_of({"S": [[expr.literal(b"x"), *8 * ["T"]]], "T": [[expr.literal(b"sh")], [expr.literal(b"lengthy")]]})
    grammar = cd.Compiler(vocabulary([b"lengthy"])).compile_ir(ir)
    for budget in range(18, 40):
        end_in_time(grammar, budget, lambda rng, allowed: rng.choice(sorted(allowed)))


@pytest.mark.parametrize("seed", seeds(40, 4))
def test_bounds_of_long_lexemes(seed: int) -> None:
    """Random grammars whose rules have several long lexemes, right and left recursion, and parts that may be empty."""
    rng = random.Random(seed)
    names = ["S", "A", "B", "C"]
    found = 0
    for _ in range(cases(30, 2, 10)):
        symbols = [*2 * names, *(expr.literal(bytes([byte]) * length) for byte in b"abc" for length in (1, 2, 5, 9))]
        rules = {name: [rng.choices(symbols, k=rng.randint(0, 4)) for _ in range(rng.randint(1, 3))] for name in names}
        rules["S"].append([expr.literal(b"x")])
        ir = ir_of(rules)
        if not Naive(ir).empty:
            grammar = cd.Compiler(vocabulary([b"aa", b"bb", b"aab", b"ccc"])).compile_ir(ir)
            found += check_bounds(grammar, rng, 15)
    assert found > 0


DISTINCT: dict[str, Any] = {
    "strings": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "two at least": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2, "maxItems": 9},
    "few": {"type": "array", "items": {"type": "integer", "minimum": 8, "maximum": 103}, "uniqueItems": True, "minItems": 1},
    "one letter": {"type": "array", "items": {"type": "string", "pattern": "^a+$"}, "uniqueItems": True},
    "pairs": {"type": "array", "items": {"type": "string", "pattern": "^(ab|ba)*$"}, "uniqueItems": True},
    "finite": {"type": "array", "items": {"enum": ["a", "ab", "abbbbbb", 1, 12]}, "uniqueItems": True, "minItems": 3},
    "unions": {"type": "array", "items": {"type": ["number", "null", "string"]}, "uniqueItems": True},
    "names": {"patternProperties": {"^a+$": {"type": "integer"}}, "additionalProperties": False, "minProperties": 3},
    "names that must be": {"propertyNames": {"pattern": "^(ab|b)+$"}, "minProperties": 2, "properties": {"ab": {"const": 1}}},
    "inside": {
        "type": "object",
        "properties": {"tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True}, "n": {}},
        "required": ["tags", "n"],
    },
    "contained": {
        "type": "array",
        "contains": {"const": 7},
        "minContains": 2,
        "items": {"enum": [7, 1, "longer"]},
        "minItems": 4,
    },
    "at places": {
        "type": "array",
        "prefixItems": [{"const": "abc"}, {"enum": [1, 1000]}],
        "items": {"type": "null"},
        "minItems": 4,
    },
}


WITH_OBJECTS = ("names", "names that must be", "inside")
"""Those of :data:`DISTINCT` to which the order of properties makes a difference."""


@pytest.mark.parametrize(("name", "order"), [*((n, "schema") for n in DISTINCT), *((n, "any") for n in WITH_OBJECTS)])
def test_bounds_of_values_that_differ(name: str, order: str) -> None:
    """Items and names that must differ, and items that are counted: what is left after any token is within the bound."""
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(DISTINCT[name], property_order=order, whitespace="compact"))
    found = sum(check_bounds(grammar, random.Random(seed), 12) for seed in range(cases(20, 1, 2)))
    assert found


@pytest.mark.parametrize("name", DISTINCT)
def test_texts_of_values_that_differ_end_in_time(name: str) -> None:
    """Where the bound says no more, after any tokens that it let through, an ending still fits."""
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(DISTINCT[name], whitespace="compact"))
    quiet = 0
    for seed in range(cases(40, 1, 8)):
        rng = random.Random(seed)
        matcher = grammar.matcher()
        for left in range(rng.choice([400, 2_000]), 0, -1):
            allowed = fitting(matcher, left)
            if matcher._enough > left:
                assert len(matcher.shortest_completion()) < left
                break
            quiet += 1
            stops = set(matcher.stop_token_ids)
            assert matcher.accept_token(rng.choice(sorted(allowed - stops) or sorted(allowed)))
            if matcher.is_terminated():
                break
    assert quiet


MEETING: dict[str, Any] = {
    "periods": {"type": "string", "allOf": [{"pattern": "^(a{7})*$"}, {"pattern": "^(a{11})*$"}]},
    "a length": {"type": "string", "pattern": "^(ab|c{5})*$", "minLength": 20},
    "an end": {"type": "string", "pattern": "^[ab]*$", "not": {"pattern": "ba{0,30}$"}},
    "a name": {
        "type": "object",
        "propertyNames": {"pattern": "^(a{4})*$", "not": {"pattern": "^(a{6})*$"}},
        "minProperties": 1,
    },
}


@pytest.mark.parametrize("name", MEETING)
def test_texts_in_which_conditions_meet_end_in_time(name: str) -> None:
    """A text ends in time although its conditions are met together only after many bytes, more than each of them needs."""
    grammar = cd.Compiler(JSON_VOCAB).compile(cd.JsonSchema(MEETING[name], whitespace="compact"))
    least = len(grammar.matcher().shortest_completion()) + 1
    last = {JSON_VOCAB.token_of[0][b'"'], *grammar.matcher().stop_token_ids}
    for budget in range(least, least + 120, cases(1, 40, 7)):
        end_in_time(grammar, budget, lambda rng, allowed: rng.choice(sorted(allowed - last) or sorted(allowed)))


def test_a_repetition_of_what_is_not_something() -> None:
    """A part that only forbids is repeated: it has no rest of its own."""
    forbids = expr.complement(expr.repeat(expr.literal(b"ab"), 1, 3))
    ir = ir_of({"S": [[expr.cat(expr.repeat(forbids, 2, 3), expr.literal(b"c"))]]})
    grammar = cd.Compiler(vocabulary([b"a", b"b", b"ab", b"c"])).compile_ir(ir)
    for budget in range(2, 16):
        end_in_time(grammar, budget, lambda rng, allowed: rng.choice(sorted(allowed)))


@pytest.mark.parametrize("each", [1 << 30, 1 << 32])
def test_levels_that_cost_more_than_32_bits_hold(each: int) -> None:
    """The product wrapped around, or raised an ``OverflowError`` under a budget of tokens."""
    costs = np.zeros(3, np.int64)
    _Levels(np.array([0, 3, 1], np.int32)).add_to(costs, each)
    assert costs.tolist() == [0, 3 * each, each]
