"""The tokens that may come at a cursor, by what follows them: those that lead to one cursor have one future."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cdplugin.queries.successors import leave_out, successors

if TYPE_CHECKING:
    from cdplugin.engine.arena import Arena

_MOST_KEPT = 32  # cursors whose tokens are kept by classes, half a megabyte each
_FEW_NUMBERS = 1 << 15


class Classes(NamedTuple):
    """Tokens by their futures: ``tokens[heads[i] : heads[i + 1]]`` (int32, ascending) lead to ``cursors[i]``."""

    cursors: list[int]
    tokens: np.ndarray
    heads: np.ndarray


def classes_of(arena: Arena, cursor: int, row: np.ndarray) -> Classes:
    """The classes of the tokens of a mask row (int32), all of which may come at a cursor. The caller holds the arena's lock."""
    cursors, numbers = successors(arena, cursor, row)
    if len(cursors) < _FEW_NUMBERS:
        numbers = numbers.astype(np.int16)  # sorted by digits, in half the time
    order = np.argsort(numbers, kind="stable")
    heads = np.searchsorted(numbers[order], np.arange(len(cursors) + 1))
    return Classes(cursors, order[heads[0] :].astype(np.int32), heads - heads[0])


class KnownClasses:
    """The classes of all text tokens at the cursors that were asked for last: those of a canvas come again in all its masks.
    The caller holds the arena's lock.
    """

    def __init__(self, arena: Arena, ends: tuple[int, ...]) -> None:
        self._arena = arena
        self._ends = ends
        self._known: dict[int, Classes] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        return sum(classes.tokens.nbytes for classes in self._known.values())

    def at(self, cursor: int) -> Classes:
        """Those at a cursor, without end tokens."""
        known = self._known.pop(cursor, None)
        if known is None:
            row = self._arena.mask(cursor)
            leave_out(row, self._ends)
            known = classes_of(self._arena, cursor, row)
            while len(self._known) >= _MOST_KEPT:
                del self._known[next(iter(self._known))]
        self._known[cursor] = known
        return known
