"""Mutated specs of all kinds: each compiles and can be stepped, or is refused by name; nothing else is raised."""

from __future__ import annotations

import pytest
from engine_tools import SLOW
from fuzz.mutate import mutated
from fuzz.turns import FACTOR, SEED, turns
from hostile.run import Farm

PARTS = 4 if FACTOR == 1 else 40


@pytest.mark.skipif(SLOW, reason="front ends know nothing of kernels")
@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_specs(part: int) -> None:
    farm = Farm("small")
    count = turns(400) // PARTS
    first = SEED + part * count
    wrong = []
    for seed in range(first, first + count):
        report = farm.run(mutated(seed), steps=13)
        if report.outcome not in ("ok", "refused", "limit"):
            wrong.append(f"{report.entry}: {report.outcome}: {report.message}")
    assert not wrong, "\n".join(wrong)
