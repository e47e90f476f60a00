"""Measures of an arena's expressions: how short a match may be, and what a match that has begun may still need.

:mod:`cdplugin.kernels.regex.measures` computes them for expressions without ``&`` and ``~``. With these it gives a lower bound,
and :class:`ShortestMatches` searches over derivatives for the shortest match, or gives up if that is far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import count

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.errors import LimitExceeded
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.regex.measures import FAR, LONG, M_BYTES, M_LEAST, M_REST, MEASURE_WORDS, measure_values
from cdplugin.kernels.store import layout
from cdplugin.walks import fold


def total(costs: Iterable[int]) -> int:
    """Return the sum of costs: :data:`FAR` if one of them is, else at most :data:`LONG`."""
    out = 0
    for cost in costs:
        if cost >= FAR:
            return FAR
        out += cost
    return min(out, LONG)


class Measures:
    """The measures of an arena's expressions, each computed once and shared with its clones. The caller holds the
    arena's lock.
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
        """Return the bytes of a shortest match; with ``&`` or ``~`` a lower bound; ``FAR`` if nothing matches."""
        return self._word(e, M_LEAST)

    def rest(self, e: int) -> int:
        """Return the bytes that a match may still need, from wherever in it a text stands."""
        return self._word(e, M_REST)

    def needed(self, e: int) -> int:
        """Return a set of bytes, as a number, one of which every match has; 0 if a match may be empty, or nothing is known."""
        if e >= self._end:
            self._reach(e)
        words = self._records[e * MEASURE_WORDS + M_BYTES : (e + 1) * MEASURE_WORDS]
        return int.from_bytes(words.astype("<i8").tobytes(), "little")

    def of(self, expressions: np.ndarray) -> np.ndarray:
        """Return the records of expressions (int64): a row of ``MEASURE_WORDS`` for each."""
        self._reach(int(expressions.max(initial=0)))
        return self._records[: self._end * MEASURE_WORDS].reshape(-1, MEASURE_WORDS)[expressions]

    def _word(self, e: int, word: int) -> int:
        if e >= self._end:
            self._reach(e)
        return int(self._records[e * MEASURE_WORDS + word])

    def _reach(self, e: int) -> None:
        """Measure all expressions that there are, unless ``e`` is measured already."""
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
        """Return the records up to ``end``: in place, or in an array that is larger by a half, since each call adds a few."""
        out = known
        if len(known) < end * MEASURE_WORDS:
            out = np.zeros(max(end, first + (first >> 1)) * MEASURE_WORDS, np.int64)
            out[: first * MEASURE_WORDS] = known[: first * MEASURE_WORDS]
        out[first * MEASURE_WORDS : end * MEASURE_WORDS] = 0  # an earlier attempt may have been interrupted
        tables = self._arena.tables
        offsets, literals = tables[layout.LITERAL_OFFSETS], tables[layout.LITERAL_BYTES]
        self._arena.spend(int(measure_values(tables[layout.VALUES], tables[layout.DATA], offsets, literals, first, end, out)))
        return out


_MADE_OF_PARTS = (layout.K_CAT, layout.K_ALT, layout.K_AND, layout.K_NOT, layout.K_REPEAT)
_BESIDE = 4  # bytes that a text needs, roughly, to differ from what is forbidden, beyond the length of that


class Meetings:
    """What a match may still need where several conditions meet: where ``&`` joins expressions, or ``~`` forbids repetitions.

    The measures add up the parts of an ``&``. But patterns of periods 7 and 11 meet after 77 bytes, and a text that must not
    end within 30 bytes of a ``b`` needs 31 more. So here the needs of parts are multiplied, and what is forbidden counts in
    full.
    """

    def __init__(self, arena: Arena, measures: Measures, least: Callable[[int], int]) -> None:
        self._arena = arena
        self._measures = measures
        self._least = least
        self._rests: dict[int, tuple[int, bool]] = {}
        self._spans: dict[int, tuple[int, bool]] = {}
        self._of: dict[int, tuple[int, list[int]]] = {}

    def rest(self, root: int) -> int | None:
        """Return the bytes that a match may still need, from wherever in it a text stands; None if nothing meets: the measures
        tell it.
        """
        rest, meets = fold(root, self._allowing, self._joined, self._rests)
        return rest if meets else None

    def _allowing(self, e: int) -> list[int]:
        """Return the parts of an expression that forbid nothing; none if the measures tell all."""
        kind, parts = self._parts(e)
        return [] if kind == layout.K_NOT or self._arena.is_pure(e) else [part for part in parts if not self._is_not(part)]

    def _joined(self, e: int, inner: list[tuple[int, bool]]) -> tuple[int, bool]:
        """Return what an expression may need, given what its parts that forbid nothing may need."""
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
        """Return whether a part is ``~`` of something with repetitions."""
        return self._is_not(part) and self._span(self._arena.sequence(part)[0])[1]

    def _span(self, root: int) -> tuple[int, bool]:
        """Return the bytes of an expression, each bounded repetition in full and others once; and whether there is a
        repetition.
        """

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
        """Return the kind of an expression, and its parts."""
        known = self._of.get(e)
        if known is None:
            self._arena.spend(_NODE_WORK)
            kind = self._arena.kind(e)
            parts = self._arena.sequence(e) if kind in _MADE_OF_PARTS else []
            known = self._of[e] = kind, parts[:1] if kind == layout.K_REPEAT else parts
        return known


_PLACE_BYTES = 150  # bytes of a table entry, measured
_PRINTABLE: tuple[tuple[int, int], ...] = ((0x20, 0x7F),)
_OTHERS = (0, 0x20), (0x7F, 256)
_LIKELY = b'"0a1-'  # bytes of which a short match is tried first
_MOST_DERIVED = 100  # expressions visited to find the shortest match of one with & or ~
_MOST_SOUGHT = 2_000  # of them in one question: the rest of its work is for the search that they guide

# Units of work (Limits.max_step_work), measured, for things done in Python: a step of a search; an expression's derivatives;
# the derivative by a likely byte; a node of an expression.
_STEP_WORK, _DERIVED_WORK, _LIKELY_WORK, _NODE_WORK = 5_000, 10_000, 100, 300


class Budget:
    """The steps that one question may take, besides the work that its arena has been granted."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.renew()

    def renew(self, most: int | None = None) -> None:
        """Begin another question, of at most ``most`` steps; default: ``Limits.max_completion_steps``."""
        self.most = self._arena.limits.max_completion_steps if most is None else most
        self.taken = 0
        self.sought = 0  # expressions looked at for shortest matches

    def take(self, steps: int = 1, work: int = _STEP_WORK) -> None:
        """Count steps of ``work`` units each. Raises :class:`LimitExceeded`."""
        self.taken += steps
        if self.taken > self.most:
            raise LimitExceeded(
                "no short ending was found in time", expected=f"at most Limits.max_completion_steps = {self.most} steps"
            )
        self._arena.spend(work * steps)


class ShortestMatches:
    """The shortest matches of an arena's expressions, in bytes; each is searched for once. The caller holds the arena's lock.

    ``budget``: the steps of the searches. ``gave_up``: whether some search failed, and a lower bound replaces its match.
    ``summed``: assume that the parts of an ``&`` are matched one after the other. That is no bound, and the matches found may
    not be the shortest; but a search in the direction in which all parts together miss less does find some.
    """

    def __init__(self, arena: Arena, measures: Measures, budget: Budget, *, summed: bool = False) -> None:
        self._arena = arena
        self._measures = measures
        self._budget = budget
        self._summed = summed
        self._known: dict[int, int] = {}  # of expressions with & or ~, and of what holds these
        self._looked_for: set[int] = set()  # those whose shortest match was looked for
        self.gave_up = False

    @property
    def nbytes(self) -> int:
        """Bytes of what was computed."""
        return _PLACE_BYTES * len(self._known)

    def trim(self, most: int) -> None:
        """Forget what was computed if it concerns more than ``most`` expressions."""
        if len(self._known) > most:
            self._known.clear()
            self._looked_for.clear()

    def is_only_bound(self, e: int) -> bool:
        """Return whether :meth:`bound` may be below the shortest match, since that has not been searched for."""
        return not self._arena.is_pure(e) and e not in self._looked_for

    def of(self, expression: int) -> int:
        """Return the length of the shortest match, searching for it if there is ``&`` or ``~``."""
        if self.is_only_bound(expression):
            self._look_into(expression)
        return self.bound(expression)

    def _look_into(self, root: int) -> None:
        """Search for the shortest matches of the parts with ``&`` and ``~``, from which those of all other operations follow.

        Parts that are left when the question has visited enough expressions keep their bounds.
        """
        around: list[int] = []
        pending = [root]
        while pending:
            e = pending.pop()
            if not self.is_only_bound(e):
                continue
            kind = self._arena.kind(e)
            if self._budget.sought >= _MOST_SOUGHT:
                self.gave_up = True
                self._looked_for.difference_update(around)
                break
            self._looked_for.add(e)
            if kind in (layout.K_CAT, layout.K_ALT, layout.K_REPEAT):
                around.append(e)
                self._known.pop(e, None)
                pending += self._parts(e)
            else:
                self._known[e] = self._derived(e, self.bound(e))
        for e in around:
            self._known.pop(e, None)

    def bound(self, root: int) -> int:
        """Return a lower bound, exact without ``&`` and ``~``; bottom up, without recursion."""
        arena, known = self._arena, self._known
        if root in known:
            return known[root]
        if arena.is_pure(root):
            return self._measures.least(root)
        bounds: dict[int, int] = {}

        def waiting(e: int) -> list[int]:
            return [part for part in self._parts(e) if part not in known and not arena.is_pure(part)]

        def cost(part: int) -> int:
            return known[part] if part in known else bounds[part] if part in bounds else self._measures.least(part)

        fold(root, waiting, lambda e, _: self._joined(e, [cost(part) for part in self._parts(e)]), bounds)
        known.update(bounds)
        arena.spend(_NODE_WORK * len(bounds))
        return bounds[root]

    def _parts(self, e: int) -> list[int]:
        """Return the parts from which a bound is computed."""
        kind = self._arena.kind(e)
        if kind not in (layout.K_CAT, layout.K_ALT, layout.K_AND, layout.K_REPEAT):
            return []
        words = self._arena.sequence(e)
        return words[:1] if kind == layout.K_REPEAT else words

    def _joined(self, e: int, costs: list[int]) -> int:
        """Return the bound of an expression from those of its parts."""
        kind = self._arena.kind(e)
        if kind == layout.K_CAT:
            return total(costs)
        if kind == layout.K_ALT:
            return min(costs)
        if kind == layout.K_AND:
            return total(costs) if self._summed else max(costs)
        if kind == layout.K_REPEAT:
            least = self._arena.sequence(e)[1]
            return min(costs[0] * least, LONG) if costs[0] < FAR or not least else FAR
        if kind == layout.K_NOT:
            return 0 if self._arena.has_flag(e, expressions.NULLABLE) else 1
        return 0 if kind == layout.K_EPSILON else FAR

    def _derived(self, root: int, bound: int) -> int:
        """Return the shortest match of an expression with ``&`` or ``~``, best first over derivatives; a lower bound if it is
        far.

        Bytes that are not printable are tried only if no printable one is as near an end as the bound says.
        """
        if bound < _MOST_DERIVED and self._is_matched_by(root, bound):
            return bound
        arena = self._arena
        order = count()
        pending = [(bound, next(order), 0, root, _PRINTABLE)]
        came_from: dict[int, int] = {root: 0}
        depth = {root: 0}
        for _ in range(_MOST_DERIVED):
            if not pending:
                return FAR
            bound, _, taken, e, ranges = heappop(pending)
            if ranges is _PRINTABLE:
                exact = e in self._looked_for and e != root
                if exact or arena.has_flag(e, expressions.NULLABLE):
                    found = taken + (self.bound(e) if exact else 0)
                    while e != root:
                        self._known[e] = found - depth[e]
                        self._looked_for.add(e)
                        e = came_from[e]
                    return found
            self._budget.take(work=_DERIVED_WORK)
            self._budget.sought += 1
            for child in sorted({child for first, end in ranges for _, child in arena.derivatives(e, first, end)}):
                if child != expressions.EMPTY and taken + 1 < depth.get(child, FAR):
                    depth[child], came_from[child] = taken + 1, e
                    least = self.bound(child)
                    if least < FAR:
                        heappush(pending, (taken + 1 + least, next(order), taken + 1, child, _PRINTABLE))
            if ranges is _PRINTABLE:
                heappush(pending, (bound, next(order), taken, e, _OTHERS))
        self.gave_up = True
        return bound

    def _is_matched_by(self, e: int, length: int) -> bool:
        """Return whether ``length`` likely bytes match an expression without shorter matches: most names are any string."""
        for left in range(length - 1, -1, -1):
            for byte in _LIKELY:
                self._arena.spend(_LIKELY_WORK)
                child = self._arena.call(kernels.OP_DERIVE, e, byte)
                if child != expressions.EMPTY and self.bound(child) <= left:
                    e = child
                    break
            else:
                return False
        return self._arena.has_flag(e, expressions.NULLABLE)
