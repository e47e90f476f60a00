"""Matchers of one grammar and of several on many threads, in batches too: their masks are those that one thread alone finds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from engine_tools import mask_bits, members
from fuzz.faulty_walk import SPECS, VOCAB
from fuzz.turns import seeds
from test_threads import on_threads

import cdplugin as cd

pytestmark = pytest.mark.kernel

THREADS = 4
STEPS = 20


def grammars(compiler: cd.Compiler, seed: int) -> list[cd.Grammar]:
    """Some grammars, of which some are met twice."""
    rng = random.Random(seed)
    return [compiler.compile(spec) for spec in rng.choices(SPECS, k=6)]


def walk(matcher: cd.Matcher, seed: int) -> list[bytes]:
    """The masks of a walk that depends on nothing but the seed and the masks."""
    rng, met = random.Random(seed), []
    for _ in range(STEPS):
        met.append(mask_bits(matcher))
        allowed = sorted(members(met[-1]) - set(VOCAB.eos_token_ids))
        if allowed and rng.random() < 0.9:
            assert matcher.accept_token(rng.choice(allowed))
        else:
            matcher.rollback(rng.randint(0, len(matcher.tokens)))
        if rng.random() < 0.1:
            matcher = matcher.fork()
    return met


def walk_all(found: Sequence[cd.Grammar], seed: int) -> list[list[bytes]]:
    return [walk(grammar.matcher(), seed + at) for at, grammar in enumerate(found)]


@pytest.mark.parametrize("seed", seeds(3))
def test_walks(seed: int) -> None:
    alone = [walk_all(grammars(cd.Compiler(VOCAB), seed), 1000 * seed + thread) for thread in range(THREADS)]
    shared = cd.Compiler(VOCAB)
    assert on_threads(lambda thread: walk_all(grammars(shared, seed), 1000 * seed + thread), THREADS) == alone


@pytest.mark.parametrize("seed", seeds(3))
def test_batches_beside_walks(seed: int) -> None:
    """One thread fills batches again and again while others step the same grammars."""
    shared = cd.Compiler(VOCAB)
    rng = random.Random(seed)
    matchers = [grammar.matcher() for grammar in grammars(shared, seed)]
    for matcher in matchers:
        for _ in range(rng.randrange(6)):
            matcher.accept_token(rng.choice(sorted(members(mask_bits(matcher)))))
    expected = [mask_bits(matcher) for matcher in matchers]

    def work(thread: int) -> None:
        if thread:
            walk_all(grammars(shared, seed), thread)
            return
        for _ in range(STEPS):
            bitmask = np.zeros((len(matchers), (VOCAB.size + 31) // 32), np.int32)
            cd.fill_next_token_bitmasks(matchers, bitmask, threads=3)
            assert [row.tobytes() for row in bitmask] == expected

    on_threads(work, THREADS)
