"""How short a match of an expression may be, and what one that has begun may still need.

The measuring is done by :mod:`cdplugin.kernels.regex.measures`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.kernels.regex.measures import FAR, LONG, M_BYTES, M_LEAST, M_REST, MEASURE_WORDS, measure_values
from cdplugin.kernels.store import layout
from cdplugin.walks import fold


def total(costs: Iterable[int]) -> int:
    """The cost of all of some: :data:`FAR` if one of them is, else at most :data:`LONG`."""
    out = 0
    for cost in costs:
        if cost >= FAR:
            return FAR
        out += cost
    return min(out, LONG)


class Measures:
    """The measures of an arena's expressions, each computed once, shared with its clones. The caller holds the arena's lock."""

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
        """The records up to ``end``: in place, or in an array that is larger by a half, since each call adds a few."""
        out = known
        if len(known) < end * MEASURE_WORDS:
            out = np.zeros(max(end, first + (first >> 1)) * MEASURE_WORDS, np.int64)
            out[: first * MEASURE_WORDS] = known[: first * MEASURE_WORDS]
        out[first * MEASURE_WORDS : end * MEASURE_WORDS] = 0  # a measuring may have been given up
        tables = self._arena.tables
        offsets, literals = tables[layout.LITERAL_OFFSETS], tables[layout.LITERAL_BYTES]
        self._arena.spend(int(measure_values(tables[layout.VALUES], tables[layout.DATA], offsets, literals, first, end, out)))
        return out


_MADE_OF_PARTS = (layout.K_CAT, layout.K_ALT, layout.K_AND, layout.K_NOT, layout.K_REPEAT)
_NODE_WORK = 300  # units of work (Limits.max_step_work) of a node of an expression
_BESIDE = 4  # bytes by which a text gets out of the way of what is forbidden, once that is over


class Meetings:
    """What a match of an expression may still need where several conditions meet in it: where ``&`` joins expressions, or ``~``
    forbids what has repetitions.

    The measures add up the parts of ``&``; but patterns of periods 7 and 11 meet after 77 bytes, and who must not end
    within 30 bytes of a ``b`` needs 31 more. Here what parts may need is multiplied, and what is forbidden counts in full.
    """

    def __init__(self, arena: Arena, measures: Measures, least: Callable[[int], int]) -> None:
        self._arena = arena
        self._measures = measures
        self._least = least
        self._rests: dict[int, tuple[int, bool]] = {}
        self._spans: dict[int, tuple[int, bool]] = {}
        self._of: dict[int, tuple[int, list[int]]] = {}

    def rest(self, root: int) -> int | None:
        """Bytes that a match may still need, wherever in it a text stands; None where nothing meets: the measures say it."""
        rest, meets = fold(root, self._allowing, self._joined, self._rests)
        return rest if meets else None

    def _allowing(self, e: int) -> list[int]:
        """The parts of an expression that forbid nothing; none where the measures say all."""
        kind, parts = self._parts(e)
        return [] if kind == layout.K_NOT or self._arena.is_pure(e) else [part for part in parts if not self._is_not(part)]

    def _joined(self, e: int, inner: list[tuple[int, bool]]) -> tuple[int, bool]:
        """What an expression may need, of what those of its parts may need that forbid nothing."""
        if self._arena.is_pure(e):
            return self._measures.rest(e), False
        kind, parts = self._parts(e)
        meets = any(meeting for _, meeting in inner)
        rests = [rest for rest, _ in inner]
        if kind == layout.K_CAT:
            after, rest = 0, 0
            for part, one in zip(reversed(parts), reversed(self._all_rests(parts)), strict=True):
                rest, after = max(rest, one + after), after + self._least(part)
            return min(rest, FAR), meets or any(map(self._forbids, parts))
        if kind == layout.K_ALT:
            return min(max(self._all_rests(parts)), FAR), meets or any(map(self._forbids, parts))
        if kind == layout.K_REPEAT:
            (one,) = self._all_rests(parts)
            others = max(self._arena.sequence(e)[1] - 1, 0)
            return min(one + self._least(parts[0]) * others, FAR), meets or self._forbids(parts[0])
        forbidden = [self._span(self._arena.sequence(part)[0]) for part in parts if self._is_not(part)]
        if kind == layout.K_NOT:
            forbidden = [self._span(parts[0])]
        rest = 0
        for one in rests:
            rest = min((rest + 1) * (one + 1) - 1, FAR)
        rest += sum(span + _BESIDE for span, _ in forbidden)
        return min(rest, FAR), meets or len(rests) > 1 or any(repeats for _, repeats in forbidden)

    def _all_rests(self, parts: list[int]) -> list[int]:
        return [self._span(self._arena.sequence(p)[0])[0] + _BESIDE if self._is_not(p) else self._rests[p][0] for p in parts]

    def _forbids(self, part: int) -> bool:
        """Whether a part is ``~`` of what has repetitions."""
        return self._is_not(part) and self._span(self._arena.sequence(part)[0])[1]

    def _span(self, root: int) -> tuple[int, bool]:
        """Bytes of an expression with each bounded repetition in full, others once; and whether there is a repetition."""

        def span_of(e: int, parts: list[tuple[int, bool]]) -> tuple[int, bool]:
            kind = self._parts(e)[0]
            if not parts:
                return (1 if kind == layout.K_BYTES else self._measures.rest(e)), False
            span = (max if kind == layout.K_ALT else sum)(one for one, _ in parts)
            if kind == layout.K_REPEAT:
                _, low, high = self._arena.sequence(e)
                span *= max(high, low, 1)
            return min(span, FAR), kind == layout.K_REPEAT or any(repeats for _, repeats in parts)

        return fold(root, lambda e: self._parts(e)[1], span_of, self._spans)

    def _is_not(self, e: int) -> bool:
        return self._parts(e)[0] == layout.K_NOT

    def _parts(self, e: int) -> tuple[int, list[int]]:
        """The kind of an expression, and those that it is made of."""
        known = self._of.get(e)
        if known is None:
            self._arena.spend(_NODE_WORK)
            kind = self._arena.kind(e)
            parts = self._arena.sequence(e) if kind in _MADE_OF_PARTS else []
            known = self._of[e] = kind, parts[:1] if kind == layout.K_REPEAT else parts
        return known
