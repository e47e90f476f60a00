"""Whether an array can be closed here, beside a search over all numbers of items."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

import cdplugin as cd
from cdplugin.frontends.json_schema.closing import Closing, Wanted

Counts = tuple[int, ...]
COMPILER = cd.Compiler(cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256))
MOST_CALLS = 2_000_000


def closes(wanted: list[Wanted], low: int, high: int | None, rows: list[list[int]], index: int, counts: Counts) -> bool:
    """The same by a search: counts are followed as they are, up to more items than any bound asks for."""
    enough = max([low, len(rows), index]) + sum(max(one.low, one.high or 0) for one in wanted) + 1
    states = {counts}
    for at in range(index, enough + 1):
        if high is not None and at > high:
            return False
        if at >= low and any(all(one.low <= n for n, one in zip(state, wanted, strict=True)) for state in states):
            return True
        row = rows[min(at, len(rows) - 1)]
        following = {tuple(n + (m >> k & 1) for k, n in enumerate(state)) for state in states for m in row}
        states = {s for s in following if all(one.high is None or n <= one.high for n, one in zip(s, wanted, strict=True))}
    return False


@pytest.mark.parametrize("seed", range(8))
def test_closing(seed: int) -> None:
    """Random bounds and items, and all counts that the items of some beginnings give."""
    rng = random.Random(seed)
    for _ in range(150):
        n = rng.randint(0, 3)
        wanted = [Wanted(rng.randint(0, 3), rng.choice([None, None, rng.randint(0, 4)])) for _ in range(n)]
        low = rng.randint(0, 5)
        high = rng.choice([None, low + rng.randint(0, 4)])
        rows = [sorted(m for m in range(1 << n) if rng.random() < rng.choice([0.3, 0.9])) for _ in range(rng.randint(1, 4))]
        closing = Closing(wanted, low, high, rows)
        for index in rng.sample(range(7), 4):
            if high is not None and index > high:
                continue
            counts = tuple(rng.randint(0, max(one.low, one.high or 0)) for one in wanted)
            if any(one.high is not None and count > one.high for one, count in zip(wanted, counts, strict=True)):
                continue
            expected = closes(wanted, low, high, rows, index, counts)
            assert closing.can_close(index, counts) == expected, (wanted, low, high, rows, index, counts)


def n_calls(call: Callable[[], Any]) -> int:
    """How many functions are called, Python's and built-in ones."""
    n = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal n
        n += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return n


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [{"contains": {"minimum": i}} for i in range(6)], "minItems": 6, "maxItems": 6},
        {"allOf": [{"contains": {"type": t}, "minContains": 6, "maxContains": 8} for t in ("null", "array", "object")]},
    ],
    ids=["six", "counts"],
)
def test_few_calls(schema: dict) -> None:
    """An ending is looked for without asking the same of the same counts again: that took 57,000,000 calls, and 7 s."""
    matcher = COMPILER.compile(cd.JsonSchema({"type": "array", **schema})).matcher()
    assert n_calls(matcher.shortest_completion) < MOST_CALLS
