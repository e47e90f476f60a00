"""How many bytes the shortest match of an expression has, searched for where there is ``&`` or ``~``.

Without these :class:`cdplugin.queries.measures.Measures` says it. With them it gives a lower bound, and a search over
derivatives finds the shortest match, or gives up where that is far.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from cdplugin.engine.arena import Arena
from cdplugin.errors import LimitExceeded
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.regex.measures import FAR, LONG
from cdplugin.kernels.store import layout
from cdplugin.queries.measures import Measures, total
from cdplugin.walks import fold

_PLACE_BYTES = 150  # measured: an entry of a table
_PRINTABLE = 0x20, 0x7F
_LIKELY = b'"0a1-'  # bytes of which a short match is looked for first
_MOST_DERIVED = 100  # expressions looked at to find the shortest match of one with & or ~

# Units of work (Limits.max_step_work), measured, of what is done in Python: one step of a search, looking at an expression's
# derivatives, at the derivative by a likely byte, at a node of an expression.
_STEP_WORK, _DERIVED_WORK, _LIKELY_WORK, _NODE_WORK = 5_000, 10_000, 100, 300


class Budget:
    """Steps that one question may take, besides the work that its arena has been granted."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.renew()

    def renew(self, most: int | None = None) -> None:
        """Begin another question, of at most ``most`` steps; default: ``Limits.max_completion_steps``."""
        self.most = self._arena.limits.max_completion_steps if most is None else most
        self.taken = 0

    def take(self, steps: int = 1, work: int = _STEP_WORK) -> None:
        """Count steps of so much work each. Raises :class:`LimitExceeded`."""
        self.taken += steps
        if self.taken > self.most:
            raise LimitExceeded(
                "no short ending was found in time", expected=f"at most Limits.max_completion_steps = {self.most} steps"
            )
        self._arena.spend(work * steps)


class ShortestMatches:
    """The shortest matches of an arena's expressions, in bytes; each is looked for once. The caller holds the arena's lock.

    ``budget``: what searches take steps from. ``gave_up``: whether some match was not found, so that a lower bound took its
    place.
    """

    def __init__(self, arena: Arena, measures: Measures, budget: Budget) -> None:
        self._arena = arena
        self._measures = measures
        self._budget = budget
        self._known: dict[int, int] = {}  # of expressions with & or ~, and of what holds these
        self._looked_for: set[int] = set()  # those whose shortest match was looked for
        self.gave_up = False

    @property
    def nbytes(self) -> int:
        """Bytes of what was computed."""
        return _PLACE_BYTES * len(self._known)

    def trim(self, most: int) -> None:
        """Forget what was computed, where that is more than ``most`` expressions."""
        if len(self._known) > most:
            self._known.clear()
            self._looked_for.clear()

    def is_only_bound(self, e: int) -> bool:
        """Whether :meth:`bound` may be less than the shortest match, since that has not been looked for."""
        return not self._arena.is_pure(e) and e not in self._looked_for

    def of(self, expression: int) -> int:
        """Length of the shortest match, looked for with ``&`` and ``~`` too."""
        if self.is_only_bound(expression):
            self._look_into(expression)
        return self.bound(expression)

    def _look_into(self, root: int) -> None:
        """Look for the shortest matches of the parts with ``&`` and ``~``, from which those of all other operations follow."""
        around: list[int] = []
        pending = [root]
        while pending:
            e = pending.pop()
            if not self.is_only_bound(e):
                continue
            self._looked_for.add(e)
            kind = self._arena.kind(e)
            if kind in (layout.K_CAT, layout.K_ALT, layout.K_REPEAT):
                around.append(e)
                self._known.pop(e, None)
                pending += self._parts(e)
            else:
                self._known[e] = self._derived(e, self.bound(e))
        for e in around:
            self._known.pop(e, None)

    def bound(self, root: int) -> int:
        """A lower bound, exact without ``&`` and ``~``: from the inside out, on a stack of its own."""
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
        """The parts that a bound is made of."""
        kind = self._arena.kind(e)
        if kind not in (layout.K_CAT, layout.K_ALT, layout.K_AND, layout.K_REPEAT):
            return []
        words = self._arena.sequence(e)
        return words[:1] if kind == layout.K_REPEAT else words

    def _joined(self, e: int, costs: list[int]) -> int:
        """The bound of an expression from those of its parts."""
        kind = self._arena.kind(e)
        if kind == layout.K_CAT:
            return total(costs)
        if kind == layout.K_ALT:
            return min(costs)
        if kind == layout.K_AND:
            return max(costs)
        if kind == layout.K_REPEAT:
            least = self._arena.sequence(e)[1]
            return min(costs[0] * least, LONG) if costs[0] < FAR or not least else FAR
        if kind == layout.K_NOT:
            return 0 if self._arena.has_flag(e, expressions.NULLABLE) else 1
        return 0 if kind == layout.K_EPSILON else FAR

    def _derived(self, root: int, bound: int) -> int:
        """The shortest match of an expression with ``&`` or ``~``: best-first over derivatives; a lower bound if it is far."""
        if bound < _MOST_DERIVED and self._is_matched_by(root, bound):
            return bound
        arena = self._arena
        order = count()
        pending = [(bound, next(order), 0, root)]
        came_from: dict[int, int] = {root: 0}
        depth = {root: 0}
        for _ in range(_MOST_DERIVED):
            if not pending:
                return FAR
            bound, _, taken, e = heappop(pending)
            exact = e in self._looked_for and e != root
            if exact or arena.has_flag(e, expressions.NULLABLE):
                found = taken + (self.bound(e) if exact else 0)
                while e != root:
                    self._known[e] = found - depth[e]
                    self._looked_for.add(e)
                    e = came_from[e]
                return found
            self._budget.take(work=_DERIVED_WORK)
            children = {child for _, child in arena.derivatives(e, *_PRINTABLE)}
            if children == {expressions.EMPTY}:
                children = {child for _, child in arena.derivatives(e)}
            for child in sorted(children):
                if child != expressions.EMPTY and taken + 1 < depth.get(child, FAR):
                    depth[child], came_from[child] = taken + 1, e
                    least = self.bound(child)
                    if least < FAR:
                        heappush(pending, (taken + 1 + least, next(order), taken + 1, child))
        self.gave_up = True
        return bound

    def _is_matched_by(self, e: int, length: int) -> bool:
        """Whether some likely bytes, so many, match an expression that has no shorter match: most names are any string."""
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
