"""Any calls in any order: matchers of a random grammar beside a model that knows only texts and :mod:`naive`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from engine_tools import describe, mask, members, naive_mask, vocabulary
from fuzz.turns import SEED, turns
from naive import Naive, random_grammar, random_tokens

import cdplugin as cd
from cdplugin import expr

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import settings, strategies  # noqa: E402
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule  # noqa: E402

pytestmark = pytest.mark.kernel

NUMBERS = strategies.integers(0, 1 << 16)
MOST_MATCHERS = 4
MOST_TOKENS = 12


class Calls(RuleBasedStateMachine):
    """Calls of up to four matchers of one grammar. The model of each matcher is its list of tokens."""

    @initialize(seed=NUMBERS)
    def grammar_of(self, seed: int) -> None:
        rng = random.Random(seed + SEED)
        alphabet = rng.choice([b"xy", b"ab!", b'a"\\'])
        while True:
            ir = random_grammar(rng, alphabet)
            self.naive = Naive(ir)
            if not self.naive.empty:
                break
        self.vocab = vocabulary(random_tokens(rng, alphabet))
        self.grammar = cd.Compiler(self.vocab).compile_ir(ir)
        self.end = self.vocab.eos_token_ids[0]
        self.matchers = [self.grammar.matcher()]
        self.models: list[list[int]] = [[]]

    def teardown(self) -> None:
        self.matchers = []

    # --- what the model says ------------------------------------------------------------------------------------------------

    def text(self, model: list[int]) -> bytes:
        return self.vocab.decode([token for token in model if token != self.end])

    def allowed(self, model: list[int]) -> set[int]:
        """What may be accepted: nothing after an end token."""
        return set() if self.end in model else naive_mask(self.naive, self.vocab, self.text(model))

    def shown(self, model: list[int]) -> set[int]:
        """What the mask holds."""
        return {self.end} if self.end in model else self.allowed(model)

    def pick(self, number: int) -> tuple[cd.Matcher, list[int]]:
        at = number % len(self.matchers)
        return self.matchers[at], self.models[at]

    def some_tokens(self, number: int, model: list[int], count: int) -> list[int]:
        """Tokens of which most are allowed, one after the other."""
        rng, out, tokens = random.Random(number), list(model), []
        for _ in range(count):
            allowed = sorted(self.allowed(out))
            tokens.append(rng.choice(allowed) if allowed and rng.random() < 0.85 else rng.randrange(self.vocab.size))
            out.append(tokens[-1])
            if tokens[-1] not in allowed:
                break
        return tokens

    def legal(self, model: list[int], tokens: list[int]) -> int:
        """How many leading tokens are."""
        out = list(model)
        for count, token in enumerate(tokens):
            if token not in self.allowed(out):
                return count
            out.append(token)
        return len(tokens)

    # --- the calls ----------------------------------------------------------------------------------------------------------

    @rule(which=NUMBERS)
    def fill(self, which: int) -> None:
        matcher, model = self.pick(which)
        found, expected = mask(matcher), self.shown(model)
        assert found == expected, describe(self.vocab, self.text(model), found, expected)

    @rule(which=NUMBERS, seed=NUMBERS)
    def accept(self, which: int, seed: int) -> None:
        matcher, model = self.pick(which)
        if len(model) < MOST_TOKENS:
            (token,) = self.some_tokens(seed, model, 1)
            legal = token in self.allowed(model)
            assert matcher.accept_token(token) == legal
            model += [token] if legal else []

    @rule(which=NUMBERS, seed=NUMBERS)
    def accept_several(self, which: int, seed: int) -> None:
        matcher, model = self.pick(which)
        if len(model) < MOST_TOKENS:
            tokens = self.some_tokens(seed, model, 4)
            legal = self.legal(model, tokens)
            assert matcher.accept_tokens(tokens) == legal
            model += tokens[:legal]

    @rule(which=NUMBERS, seed=NUMBERS)
    def validate(self, which: int, seed: int) -> None:
        matcher, model = self.pick(which)
        tokens = self.some_tokens(seed, model, 4)
        assert matcher.validate_tokens(tokens) == self.legal(model, tokens)

    @rule(which=NUMBERS, count=NUMBERS)
    def rollback(self, which: int, count: int) -> None:
        matcher, model = self.pick(which)
        count %= len(model) + 1
        matcher.rollback(count)
        del model[len(model) - count :]

    @rule(which=NUMBERS, more=NUMBERS)
    def rollback_too_far(self, which: int, more: int) -> None:
        matcher, model = self.pick(which)
        with pytest.raises(ValueError, match="rollback: expected"):
            matcher.rollback(len(model) + 1 + more)

    @rule(which=NUMBERS)
    def reset(self, which: int) -> None:
        matcher, model = self.pick(which)
        matcher.reset()
        model.clear()

    @rule(which=NUMBERS)
    def fork(self, which: int) -> None:
        matcher, model = self.pick(which)
        self.matchers.append(matcher.fork())
        self.models.append(list(model))
        if len(self.matchers) > MOST_MATCHERS:
            del self.matchers[0], self.models[0]

    @rule(which=NUMBERS)
    def ending(self, which: int) -> None:
        matcher, model = self.pick(which)
        if not self.spellable():
            return
        ending = matcher.shortest_completion()
        if self.end in model or self.naive.accepts(self.text(model)):
            assert ending == []
        else:
            assert self.legal(model, ending) == len(ending) and self.naive.accepts(self.text([*model, *ending]))
            assert matcher.can_end_within(len(ending))

    @rule(which=NUMBERS)
    def forced(self, which: int) -> None:
        matcher, model = self.pick(which)
        out = list(model)
        for token in matcher.forced_tokens(limit=5):
            assert self.shown(out) == {token}
            out.append(token)

    @rule(which=NUMBERS, token=NUMBERS)
    def explain(self, which: int, token: int) -> None:
        matcher, _ = self.pick(which)
        token %= self.vocab.size
        assert matcher.explain(token)
        with pytest.raises(ValueError, match="token id"):
            matcher.explain(self.vocab.size + token)

    @rule(seed=NUMBERS)
    def fill_all(self, seed: int) -> None:
        rows = random.Random(seed).sample(range(2 * MOST_MATCHERS), len(self.matchers))
        bitmask = np.zeros((2 * MOST_MATCHERS, (self.vocab.size + 31) // 32), np.int32)
        cd.fill_next_token_bitmasks(self.matchers, bitmask, rows)
        for row, model in zip(rows, self.models, strict=True):
            assert members(bitmask[row].tobytes()) == self.shown(model)

    @precondition(lambda self: hasattr(self, "grammar"))
    @rule()
    def replace_the_arena(self) -> None:
        """As when it has outgrown its budget."""
        self.grammar._arena.over_budget = True

    def spellable(self) -> bool:
        return bool(self.vocab.byte_tokens | self.vocab.absent_bytes == expr.ALL_BYTES)

    @invariant()
    def agree(self) -> None:
        for matcher, model in zip(getattr(self, "matchers", []), getattr(self, "models", []), strict=True):
            assert matcher.tokens == tuple(model)
            assert matcher.is_terminated() == (self.end in model)
            assert matcher.is_accepting() == (self.end in model or self.naive.accepts(self.text(model)))


Calls.TestCase.settings = settings(max_examples=turns(30), stateful_step_count=25, deadline=None, derandomize=True)
TestCalls: Any = Calls.TestCase
