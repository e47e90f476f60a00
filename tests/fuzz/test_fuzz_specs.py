"""Mutated specs of all kinds: each compiles and can be stepped, or is refused by name. Nothing else is raised."""

from __future__ import annotations

import pytest
from engine_tools import SLOW
from fuzz.mutate import mutated
from fuzz.turns import FACTOR, SEED, turns
from hostile.run import Farm
from hostile.verdict import problems

PARTS = 4 if FACTOR == 1 else 40


@pytest.mark.skipif(SLOW, reason="front ends know nothing of kernels")
@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_specs(part: int) -> None:
    farm = Farm("small")
    count = turns(80) // PARTS
    first = SEED + part * count
    wrong: list[str] = []
    for seed in range(first, first + count):
        entry = mutated(seed)
        wrong += [f"{entry['id']}: {problem}" for problem in problems(entry, farm.run(entry, steps=13))]
    assert not wrong, "\n".join(wrong)
