"""Where the tokens of a mask lead (:mod:`cdplugin.kernels.masks.successors`), and where stop tokens do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.entry import TERMINATED
from cdplugin.kernels.masks.successors import (
    FULL,
    Q_COUNT,
    Q_IS_TEXT,
    Q_NUMBERS,
    Q_ROW,
    Q_SLOTS,
    QUESTION_WORDS,
    question_size,
)
from cdplugin.kernels.store import layout

_FIRST_SLOTS = 1 << 13


class Successors(NamedTuple):
    """The distinct cursors after some tokens, how many tokens lead to each, and the least of these; int64."""

    cursors: np.ndarray
    sizes: np.ndarray
    firsts: np.ndarray


def successors(arena: Arena, cursor: int, row: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Return the distinct cursors after a mask row's tokens, and each token's index among them (int32, -1 for none).

    The caller holds the arena's lock.
    """
    found = few_successors(arena, cursor, row, 32 * len(row))
    assert found is not None  # there are no more than tokens
    return found


def few_successors(arena: Arena, cursor: int, row: np.ndarray, most: int) -> tuple[list[int], np.ndarray] | None:
    """Return :func:`successors` if there are ``most`` cursors or not many more; else None."""
    numbers = np.empty(32 * len(row), np.int32)
    found = _found(arena, cursor, row, numbers, most, False)
    return None if found is None else (found.cursors.tolist(), numbers)


def text_successors(arena: Arena, cursor: int, row: np.ndarray, numbers: np.ndarray | None = None) -> Successors:
    """Return where those tokens of a row lead that may come, all of them text; ``numbers`` (int32): as of :func:`successors`.

    Only for grammars that count no tokens and name none. The caller holds the arena's lock.
    """
    found = _found(arena, cursor, row, numbers, 32 * len(row), True)
    assert found is not None
    return found


def _found(
    arena: Arena, cursor: int, row: np.ndarray, numbers: np.ndarray | None, most: int, is_text: bool
) -> Successors | None:
    slots = _FIRST_SLOTS
    while True:
        question = np.zeros(question_size(slots), np.int64)
        address = 0 if numbers is None else numbers.ctypes.data
        question[[Q_ROW, Q_NUMBERS, Q_SLOTS, Q_IS_TEXT]] = row.ctypes.data, address, slots, is_text
        found = arena.call(kernels.OP_SUCCESSORS, cursor, question.ctypes.data)
        if found < FULL:
            lists = question[QUESTION_WORDS + 2 * slots :].reshape(3, -1)
            return Successors(*lists[:, : int(question[Q_COUNT])].copy())
        if slots >> 1 >= most:
            return None
        slots <<= 3


def after_stop(arena: Arena, cursor: int, token: int) -> int:
    """Return the cursor after a stop token: the end of the text if it may come, else the cursor after a terminal that names the
    token.

    If the text may end after that terminal, it has ended. The caller holds the arena's lock.
    """
    if arena.call(kernels.OP_ACCEPTS, cursor):
        return TERMINATED
    after = arena.call(kernels.OP_ACCEPT, cursor, token, 0) if arena.header[layout.HAS_TERMINALS] else 0
    return TERMINATED if after and arena.call(kernels.OP_ACCEPTS, after) else after
