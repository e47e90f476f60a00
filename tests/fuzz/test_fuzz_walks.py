"""Any calls along random texts over Llama 3's vocabulary, beside a matcher that has only followed the same tokens.

One matcher is asked for masks, endings, forced tokens, budgets and explanations, goes back, is forked and copied, and has
its arena replaced. After each of these, its mask must equal, bit for bit, that of a matcher of another compilation that has
followed the same tokens and was asked for nothing. Some tokens are also tried one by one, which takes no mask at all.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import pickle
import random
from functools import lru_cache
from typing import Any

import json_schema_fuzz
import lark_cases
import numpy as np
import pytest
from engine_tools import SLOW, mask_bits, members
from fuzz.turns import seeds
from shared_data import MASKBENCH
from tokenizers_data import llama3

import cdplugin as cd

pytestmark = pytest.mark.skipif(SLOW, reason="128,256 tokens at each place are too many for interpreted or checked kernels")

STEPS = 25
ALONE = cd.Limits(max_learned_bytes=1)
SHIPPED = ["ARITHMETIC", "CPP", "FUNQL", "PYTHON", "SMILES", "SQL"]


@lru_cache(maxsize=1)
def compiler() -> cd.Compiler:
    return cd.Compiler(cd.Vocabulary.from_tiktoken(llama3()))


@lru_cache(maxsize=1)
def schemas() -> list[Any]:
    """Some schemas as people write them, where they are at hand."""
    if not MASKBENCH.exists():
        return []
    with gzip.open(MASKBENCH, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["schema"] for line in list(lines)[::29]]


def spec_of(rng: random.Random) -> cd.Spec:
    kind = rng.random()
    if kind < 0.35 and schemas():
        return cd.JsonSchema(rng.choice(schemas()), on_unsupported="relax", property_order=rng.choice(["any", "schema"]))
    if kind < 0.6:
        return cd.JsonSchema(json_schema_fuzz.crowded(rng).schema, whitespace=rng.choice(["compact", "flexible"]))
    if kind < 0.85:
        return cd.Lark(lark_cases.random_grammar(rng))
    spec: cd.Spec = getattr(cd.grammars, rng.choice(SHIPPED))
    return spec


class Walk:
    """A matcher that much is asked of, and the same tokens followed elsewhere."""

    def __init__(self, spec: cd.Spec, rng: random.Random) -> None:
        self.rng = rng
        self.matcher = compiler().compile(spec).matcher()
        self.vocab = self.matcher.grammar.vocab
        self.end = self.matcher.stop_token_ids[0]
        self.spec = spec
        self.other = self.compiled_anew()

    def compiled_anew(self) -> cd.Grammar:
        return cd.Compiler(self.vocab, ALONE).compile_ir(self.spec.rules(ALONE))

    def check(self) -> list[int]:
        """Compare the mask with the model's. Returns the tokens in it."""
        tokens, bits = self.matcher.tokens, mask_bits(self.matcher)
        if self.rng.random() < 0.1:
            self.other = self.compiled_anew()
        fresh = self.other.matcher()
        assert fresh.accept_tokens(tokens) == len(tokens), self.text()
        allowed = members(bits)
        assert mask_bits(fresh) == bits, (self.text(), [self.vocab.tokens[t] for t in allowed ^ members(mask_bits(fresh))][:9])
        if self.matcher.is_terminated():
            assert allowed == set(self.matcher.stop_token_ids)
            return []
        listed = sorted(allowed)
        some = [*self.rng.sample(listed, min(25, len(listed))), *self.rng.sample(range(self.vocab.size), 25)]
        probe = self.compiled_anew().matcher() if self.rng.random() < 0.05 else fresh
        probe.accept_tokens(tokens[len(probe.tokens) :])
        for token in some:
            assert bool(probe.validate_tokens([token])) == (token in allowed), (self.text(), token, self.vocab.tokens[token])
        assert self.matcher.is_accepting() == (self.end in allowed) == fresh.is_accepting()
        assert allowed or isinstance(self.spec, cd.Lark), f"dead end after {self.text()!r}"  # longest match may lead there
        return listed

    def text(self) -> bytes:
        return self.vocab.decode(self.matcher.tokens)

    # --- what is asked --------------------------------------------------------------------------------------------------------

    def go_on(self, allowed: list[int]) -> None:
        texts = [token for token in allowed if token != self.end]
        if texts:
            some = self.rng.sample(texts, min(40, len(texts)))
            plain = [token for token in some if (self.vocab.tokens[token] or b"\xff").isascii()]
            assert self.matcher.accept_token(self.rng.choice(plain or some))

    def refused(self, allowed: list[int]) -> None:
        token = self.rng.randrange(self.vocab.size)
        if token not in allowed and self.vocab.tokens[token]:
            before = self.matcher.tokens
            assert not self.matcher.accept_token(token) and self.matcher.tokens == before
            assert "not allowed" in self.matcher.explain(token)

    def back(self, _: list[int]) -> None:
        most = len(self.matcher.tokens)
        self.matcher.rollback(min(most, self.rng.choice([1, 1, 2, 5, most])))

    def forked(self, allowed: list[int]) -> None:
        fork = self.rng.choice([copy.copy, copy.deepcopy, cd.Matcher.fork])
        before, self.matcher = self.matcher, fork(self.matcher)
        self.go_on(allowed)
        if self.rng.random() < 0.5:
            self.matcher = before

    def forced(self, allowed: list[int]) -> None:
        probe = self.matcher.fork()
        for token in self.matcher.forced_tokens(limit=8):
            assert members(mask_bits(probe)) == {token} and probe.accept_token(token)
        canonical = self.matcher.forced_tokens(True, limit=8)
        assert self.matcher.accept_tokens(canonical) == len(canonical)

    def ended(self, _: list[int]) -> None:
        ending = self.matcher.shortest_completion()
        assert self.matcher.fork().accept_tokens([*ending, self.end]) == len(ending) + 1
        assert len(ending) > 12 or self.matcher.can_end_within(len(ending))
        if self.rng.random() < 0.3:
            self.matcher.accept_tokens(ending[: self.rng.randint(0, len(ending))])

    def within_budget(self, _: list[int]) -> None:
        budget = len(self.matcher.shortest_completion()) + 1 + self.rng.choice([0, 1, 5])
        row = np.zeros((1, (self.vocab.size + 31) // 32), np.int32)
        probe = self.matcher.fork()
        while budget < 40 and not probe.is_terminated():
            assert budget, "more tokens than the budget"
            probe.fill_next_token_bitmask(row, 0, budget)
            allowed = members(row.tobytes())
            assert allowed and allowed <= members(mask_bits(probe)), self.text()
            assert probe.accept_token(self.rng.choice(sorted(allowed)))
            budget -= 1

    def replaced(self, _: list[int]) -> None:
        self.matcher.grammar._arena.over_budget = True

    def pickled(self, _: list[int]) -> None:
        tokens = self.matcher.tokens
        self.matcher = compiler().compile(pickle.loads(pickle.dumps(self.spec))).matcher()
        assert self.matcher.accept_tokens(tokens) == len(tokens)

    def walk(self, steps: int) -> None:
        asked = [self.refused, self.back, self.forked, self.forced, self.ended, self.within_budget, self.replaced, self.pickled]
        for _ in range(steps):
            allowed = self.check()
            if self.matcher.is_terminated():
                self.matcher.rollback(1)
            elif self.rng.random() < 0.5:
                self.go_on(allowed)
            else:
                with contextlib.suppress(cd.EngineError):  # no ending is found
                    self.rng.choice(asked)(allowed)


@pytest.mark.parametrize("seed", seeds(4))
def test_walks(seed: int) -> None:
    rng = random.Random(seed)
    spec = spec_of(rng)
    with contextlib.suppress(cd.GrammarError):  # refused, or a limit
        Walk(spec, rng).walk(STEPS)
