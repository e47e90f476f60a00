"""How short a match of an expression may be, and what one that has begun may still need.

The measuring is done by :mod:`cdplugin.kernels.regex.measures`.
"""

from __future__ import annotations

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.kernels.regex.measures import M_BYTES, M_LEAST, M_REST, MEASURE_WORDS, measure_values
from cdplugin.kernels.store import layout


class Measures:
    """The measures of an arena's expressions, each computed once; those of the expressions that it was cloned with are shared.

    The caller holds the arena's lock.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._end = 0
        self._records = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of what was computed."""
        return self._records.nbytes

    def least(self, e: int) -> int:
        """Bytes of a shortest match; a lower bound where there is ``&`` or ``~``; ``FAR`` where nothing matches."""
        return self._word(e, M_LEAST)

    def rest(self, e: int) -> int:
        """Bytes that a match may still need, wherever in it a text stands."""
        return self._word(e, M_REST)

    def needed(self, e: int) -> int:
        """A set of bytes, as a number, of which every match has one; 0 where it may be empty, or nothing is known."""
        if e >= self._end:
            self._reach(e)
        words = self._records[e * MEASURE_WORDS + M_BYTES : (e + 1) * MEASURE_WORDS]
        return int.from_bytes(words.astype("<i8").tobytes(), "little")

    def of(self, expressions: np.ndarray) -> np.ndarray:
        """The records of expressions (int64): a row for each, of ``MEASURE_WORDS``."""
        self._reach(int(expressions.max(initial=0)))
        return self._records[: self._end * MEASURE_WORDS].reshape(-1, MEASURE_WORDS)[expressions]

    def _word(self, e: int, word: int) -> int:
        if e >= self._end:
            self._reach(e)
        return int(self._records[e * MEASURE_WORDS + word])

    def _reach(self, e: int) -> None:
        """Measure all expressions that there are, where ``e`` is not measured."""
        if e < self._end:
            return
        arena, notes = self._arena, self._arena.notes
        if self._end < notes.end:
            if notes.measures is None:
                notes.measures = self._measured(np.zeros(0, np.int64), 0, notes.end)
            self._records, self._end = notes.measures, notes.end
        end = int(arena.header[layout.N_VALUES])
        self._records = self._measured(self._records, self._end, end)
        self._end = end

    def _measured(self, known: np.ndarray, first: int, end: int) -> np.ndarray:
        """The records up to ``end``, in place or, where there is no room, in a larger array: by a half, as few are asked for at
        a time.
        """
        out = known
        if len(known) < end * MEASURE_WORDS:
            out = np.zeros(max(end, first + (first >> 1)) * MEASURE_WORDS, np.int64)
            out[: first * MEASURE_WORDS] = known[: first * MEASURE_WORDS]
        out[first * MEASURE_WORDS : end * MEASURE_WORDS] = 0  # a measuring may have been given up
        tables = self._arena.tables
        offsets, literals = tables[layout.LITERAL_OFFSETS], tables[layout.LITERAL_BYTES]
        self._arena.spend(int(measure_values(tables[layout.VALUES], tables[layout.DATA], offsets, literals, first, end, out)))
        return out
