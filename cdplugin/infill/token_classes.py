"""Token classes of the matcher: the tokens that may come at a cursor, grouped by the cursor to which they lead.

Tokens that lead to one cursor have the same future. (The suffix classes of the lattice are something
else: :mod:`cdplugin.kernels.infill.effects`.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_flags, bit_members
from cdplugin.engine.blocks import address_of
from cdplugin.kernels import entry as engine
from cdplugin.kernels.masks.classes import (
    C_CLASSES,
    C_COUNTS,
    C_DOUBT,
    C_FLAGS,
    C_NUMBERS,
    C_TAKEN,
    C_WORDS,
    CLASSES_WORDS,
)
from cdplugin.kernels.masks.successors import G_CLASSES, G_GROUPED, G_HEADS, G_NUMBERS, G_TOKENS, GROUP_WORDS
from cdplugin.queries.successors import text_successors

if TYPE_CHECKING:
    from cdplugin.engine.arena import Arena

_MOST_KEPT = 32  # cursors whose classes are memoised, half a megabyte each


@dataclass(frozen=True, eq=False, slots=True)
class Classes:
    """The classes at a cursor: tokens whose entry in ``numbers`` (int32; -1: may not come) is i lead to ``cursors[i]``; the
    first of them is ``firsts[i]``.
    """

    cursors: np.ndarray
    firsts: np.ndarray
    numbers: np.ndarray


@dataclass(frozen=True, eq=False, slots=True)
class OneClass:
    """One of the classes at a cursor, as a container of tokens."""

    classes: Classes
    number: int

    def __contains__(self, token: object) -> bool:
        return isinstance(token, int) and self.classes.numbers[token] == self.number

    def __getitem__(self, at: int) -> int:
        """Its first token, at 0."""
        return int(self.classes.firsts[self.number])


class Doubt:
    """Tokens in doubt, a row of bits (int32 words), and those taken out of it."""

    def __init__(self, arena: Arena, row: np.ndarray) -> None:
        self._arena = arena
        self._row = np.zeros((len(row) + 1) // 2, np.int64)
        self._row.view(np.int32)[: len(row)] = row
        self.taken = np.zeros_like(self._row)
        self.count = int(np.count_nonzero(bit_flags(self._row)))
        self._tokens: np.ndarray | None = None

    @property
    def tokens(self) -> np.ndarray:
        """The tokens in doubt, ascending."""
        if self._tokens is None:
            self._tokens = bit_members(self._row)
        return self._tokens

    def counts(self, classes: Classes) -> np.ndarray:
        """Per class, how many of its tokens are in doubt."""
        counts = np.zeros(len(classes.cursors), np.int64)
        self._ask(engine.OP_TALLY, classes, counts=counts)
        return counts

    def take(self, classes: Classes, flags: np.ndarray) -> None:
        """Take out the classes that have a flag (uint8)."""
        self.count -= self._ask(engine.OP_TAKE, classes, flags=flags)
        self._tokens = None

    def take_some(self, tokens: list[int]) -> None:
        """Take out some tokens that are in doubt."""
        some = np.array(tokens, np.int64)
        bits = np.int64(1) << (some & 63)
        np.bitwise_or.at(self.taken, some >> 6, bits)
        np.bitwise_and.at(self._row, some >> 6, ~bits)
        self.count -= len(tokens)
        self._tokens = None

    def _ask(self, op: int, classes: Classes, counts: np.ndarray | None = None, flags: np.ndarray | None = None) -> int:
        if not len(classes.cursors):
            return 0
        question = np.zeros(CLASSES_WORDS, np.int64)
        question[[C_WORDS, C_CLASSES]] = len(self._row), len(classes.cursors)
        question[[C_DOUBT, C_TAKEN, C_NUMBERS]] = address_of(self._row), address_of(self.taken), address_of(classes.numbers)
        question[C_COUNTS if flags is None else C_FLAGS] = address_of(counts if flags is None else flags)  # type: ignore[arg-type]
        return self._arena.call(op, address_of(question))


def grouped(arena: Arena, numbers: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The tokens (int32) of all classes, class by class and ascending in each, and where those of each class begin.

    ``numbers``: per token its class (int32); ``sizes``: of the classes.
    """
    heads = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=heads[1:])
    tokens = np.empty(int(heads[-1]), np.int32)
    question = np.zeros(GROUP_WORDS, np.int64)
    question[[G_TOKENS, G_CLASSES]] = len(numbers), len(sizes)
    question[[G_NUMBERS, G_HEADS, G_GROUPED]] = address_of(numbers), address_of(heads), address_of(tokens)
    arena.call(engine.OP_GROUP, address_of(question))
    return tokens, heads


def classes_of(arena: Arena, cursor: int, row: np.ndarray) -> tuple[list[int], np.ndarray, np.ndarray]:
    """The classes at a cursor of the tokens of a row (int32), all of them text: ``tokens[heads[i] : heads[i + 1]]`` lead to
    ``cursors[i]``.

    The caller holds the arena's lock.
    """
    numbers = np.empty(32 * len(row), np.int32)
    found = text_successors(arena, cursor, row, numbers)
    return found.cursors.tolist(), *grouped(arena, numbers, found.sizes)


class KnownClasses:
    """A memo of the classes of all text tokens (``row``) at the last few cursors, which recur in all masks of a canvas.

    The caller holds the arena's lock.
    """

    def __init__(self, arena: Arena, row: np.ndarray) -> None:
        self._arena = arena
        self._row = row
        self._known: dict[int, Classes] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the memo table."""
        return sum(classes.numbers.nbytes for classes in self._known.values())

    def at(self, cursor: int) -> Classes:
        """The classes at a cursor."""
        known = self._known.pop(cursor, None)
        if known is None:
            numbers = np.empty(32 * len(self._row), np.int32)
            found = text_successors(self._arena, cursor, self._row, numbers)
            known = Classes(found.cursors, found.firsts, numbers)
            while len(self._known) >= _MOST_KEPT:
                del self._known[next(iter(self._known))]
        self._known[cursor] = known
        return known
