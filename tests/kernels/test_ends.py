"""Ends of lexemes in groups by what ends. Where few things end, passes sort them; Python's own sort is the reference."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cdplugin.kernels.jit.decorators import DISABLED
from cdplugin.kernels.masks import ends

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(not DISABLED, reason="an inner kernel is called")]


@pytest.mark.parametrize("seed", range(20))
def test_few_things_that_end_are_sorted_by_passes(seed: int) -> None:
    rng = random.Random(seed)
    count, kinds = rng.randrange(1, 200), rng.randrange(1, 14)
    things = rng.sample(range(1, 1000), kinds)
    words = [rng.choice(things) << 32 | i for i in range(count)]
    place = rng.randrange(5)
    memory = np.array([7] * place + words + [9] * (2 * count), np.int64)
    done = ends._sort_few(memory, place, count, place + count)
    expected = sorted(words) if done else words
    assert memory[:place].tolist() == [7] * place and memory[place : place + count].tolist() == expected
    different = len({word >> 32 for word in words})
    assert done == (count > ends._FEW_GROUPS >= different)
