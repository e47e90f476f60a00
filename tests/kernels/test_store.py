"""The store finds values and memo entries, however often their hash tables are rebuilt."""

from __future__ import annotations

import numpy as np
import pytest
from engine_tools import TINY, vocabulary

from cdplugin import expr
from cdplugin.engine import arena as owner
from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import evaluate
from cdplugin.engine.owned_tables import HASHED
from cdplugin.engine.programs import Program
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits

pytestmark = pytest.mark.kernel

VOCAB = vocabulary([b"a", b"b"])
KIND = 7  # of memo entries


def slots_in_use(arena: Arena, table: int) -> np.ndarray:
    return arena.tables[table][: int(arena.header[HASHED[table]])]


def check(arena: Arena) -> None:
    """Each value and each entry stands in its hash table once, which is at most half full."""
    for table, count in (
        (layout.INDEX, arena.header[layout.N_VALUES] - 1),
        (layout.MEMO_INDEX, arena.header[layout.MEMO_USED]),
    ):
        slots = slots_in_use(arena, table)
        assert len(slots) & (len(slots) - 1) == 0 and 2 * count <= len(slots) <= len(arena.tables[table])
        assert sorted(slots[slots != 0].tolist()) == [*range(1, count + 1)]


@pytest.mark.parametrize("sizes", [owner.INITIAL, TINY], ids=["usual", "tiny"])
def test_memo_entries_are_found(monkeypatch: pytest.MonkeyPatch, sizes: dict[int, int]) -> None:
    monkeypatch.setattr(owner, "INITIAL", sizes)
    arena = Arena(VOCAB, Limits())
    before = int(arena.header[layout.MEMO_USED])
    keys = [(a, b) for a in range(1, 60) for b in range(60)]
    for n, (a, b) in enumerate(keys):
        assert arena.call(kernels.OP_NOTE, KIND, a << 32 | b, n) == n
        if n & (n - 1) == 0:
            check(arena)
    assert arena.header[layout.MEMO_USED] == before + len(keys)
    check(arena)
    entries = arena.tables[layout.MEMO][: 2 * (before + len(keys))].reshape(-1, 2)[before:]
    wanted = [[KIND << 2 * layout.ID_BITS | a << layout.ID_BITS | b, n] for n, (a, b) in enumerate(keys)]
    assert entries.tolist() == wanted
    for n, (a, b) in enumerate(keys):  # again: no second entry, and the last result counts
        assert arena.call(kernels.OP_NOTE, KIND, a << 32 | b, n + 1) == n + 1
    assert arena.header[layout.MEMO_USED] == before + len(keys)
    assert entries[:, 1].tolist() == [*range(1, len(keys) + 1)]


@pytest.mark.parametrize("sizes", [owner.INITIAL, TINY], ids=["usual", "tiny"])
def test_values_are_found(monkeypatch: pytest.MonkeyPatch, sizes: dict[int, int]) -> None:
    monkeypatch.setattr(owner, "INITIAL", sizes)
    arena = Arena(VOCAB, Limits())
    nodes = [expr.repeat(expr.byte_class(b"ab"), low, low + more) for low in range(2, 42) for more in range(40)]

    def intern() -> list[int]:
        program = Program(arena.limits, b"ab")
        results = [program.add(node) for node in nodes]
        evaluate(arena, program.code(), program.n_results, program.literal_tables())
        values = arena.tables[layout.VISIT_STAMPS]
        return [int(values[result]) for result in results]

    first = intern()
    assert len(set(first)) == len(nodes) < arena.header[layout.N_VALUES]
    check(arena)
    assert intern() == first
    check(arena)
