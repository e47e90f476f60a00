"""The heap of the best-first search, and arrays that grow."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cdplugin.kernels.jit.decorators import entry_of
from cdplugin.kernels.store import heap as kernels

pytestmark = pytest.mark.kernel

heap_push, heap_pop, with_room = map(entry_of, (kernels.heap_push, kernels.heap_pop, kernels.with_room))


def test_words_come_out_in_order() -> None:
    rng = random.Random(3)
    heap, count, expected = np.empty(1, np.int64), 0, list[int]()
    for _ in range(300):
        if expected and rng.random() < 0.4:
            expected.sort()
            assert heap_pop(heap, count) == expected.pop(0)
            count -= 1
        else:
            word = rng.randrange(-50, 50)
            heap = with_room(heap, count, count + 1)
            count = heap_push(heap, count, word)
            expected.append(word)
    assert sorted(heap[:count].tolist()) == sorted(expected)


def test_room_is_made_only_where_there_is_none() -> None:
    words = np.arange(4, dtype=np.int64)
    assert with_room(words, 3, 4).ctypes.data == words.ctypes.data
    longer = with_room(words, 3, 5)
    assert len(longer) == 10
    assert longer[:3].tolist() == [0, 1, 2]
