"""Beam: a search on a canvas from a cursor before one place to the end of the text, from place to place.

Nothing tells which states lead to the end, so the beam widens until one does (Zhang, 1998, "Complete anytime beam search"): one
state of each place is followed, then two, then four. States that allow equally many tokens, say strings inside different
brackets, are mostly of one kind, so of each kind no more are followed than the beam is wide. States reached by the largest
classes of tokens (a name, a space) come first, since these change least.

``x□□ 1``: from the state behind ``x`` some hundred cursors are reached, the one behind a space first. Only the first becomes a
state; the others wait in a list, and when a state is followed, the next cursor of its list becomes one.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from cdplugin.infill.canvases import Canvas

_MOST_OF_A_KIND = 32  # states put off in one round, since enough of their kind were followed
_DECAY = 0.9  # how much of a state's rank its successors inherit
_WAY_WORK, _LED_WORK = 500, 600
"""Units of work of each class, and of each place that is passed along a guide, besides what kernels count."""


class Ways(NamedTuple):
    """Ways to fill a place: the cursors to which they lead (int64), and per cursor the index in ``texts`` of a text that leads
    there (``numbers``); ``size``: how many tokens they are in all.
    """

    cursors: np.ndarray
    texts: Sequence[bytes | None]
    numbers: Sequence[int] | np.ndarray
    size: int

    def text(self, number: int) -> bytes:
        """The text of a way."""
        return self.texts[self.numbers[number]] or b""


class State(NamedTuple):
    """A state before a place: its cursor, the state before it, and the text of the place between. Ordered by ``rank``.

    ``others``: the further cursors to which the state before leads.
    """

    rank: float
    serial: int
    cursor: int
    before: State | None
    text: bytes
    others: _More | None = None


class _More(NamedTuple):
    """Cursors to which ways lead from a state, as (number of the way, cursor); ``n_taken`` of them became states."""

    ways: Ways
    cursors: list[tuple[int, int]]
    serial: int
    n_taken: int


class Beam:
    """A search from the cursor before place ``first`` to the end of the text, or for states before the place ``last``.

    ``reached``: the states before ``last``, with distinct cursors.
    """

    def __init__(self, canvas: Canvas, first: int, last: int, cursor: int) -> None:
        self._canvas = canvas
        self._tables = canvas.tables
        self._places = canvas.places
        self._first = first
        self._last = last
        self._is_whole = last == len(canvas.places)
        self._layers: defaultdict[int, list[State]] = defaultdict(list)
        self._followed: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._seen: defaultdict[int, set[int]] = defaultdict(set)  # by place
        self._seen[first].add(cursor)
        self._n_met = 0
        self._start = State(0.0, 0, cursor, None, b"")
        self.reached: list[State] = []

    def run(self, most: int) -> list[bytes] | None:
        """The texts of the places from the first one on, if the end is found within ``most`` states."""
        if not self._start.cursor:
            return None
        found = self._noted(self._start, self._first)
        for guide in self._canvas.guides if found is None else ():
            found = found or self._led(self._start, self._first, guide)
        width = 1
        while found is None and most > 0 and self._canvas.may_search:
            n_followed = 0
            for at in range(self._first, self._last):
                if not self._layers[at]:
                    continue
                n_here, found = self._follow(at, width, most - n_followed)
                n_followed += n_here
                if found is not None:
                    break
            if not n_followed:
                break
            most -= n_followed
            width *= 2
        return found

    def is_waiting(self) -> bool:
        """Whether some states were not followed."""
        return any(self._layers.values())

    def texts(self, state: State) -> list[bytes]:
        """The texts of the places from the first one up to a state."""
        texts: list[bytes] = []
        here: State | None = state
        while here is not None and here.before is not None:
            texts.append(here.text)
            here = here.before
        return texts[::-1]

    def _follow(self, at: int, width: int, most: int) -> tuple[int, list[bytes] | None]:
        """Follow states before a place, at most twice the width of the beam: how many were followed, and what was found."""
        waiting, followed = self._layers[at], self._followed[at]
        put_off: list[State] = []
        found = None
        n_here = 0
        while found is None and waiting and n_here < min(2 * width, most) and len(put_off) < _MOST_OF_A_KIND:
            if not self._canvas.may_search:
                break
            state = heapq.heappop(waiting)
            if state.others is not None and state.before is not None:  # the next cursor of its list becomes a state
                found = self._claim(at, state.before, state.others)
                state = state._replace(others=None)
            ways = self._canvas.ways(at, state.cursor)
            kind = ways.size
            if followed[kind] == width:
                put_off.append(state)
                continue
            followed[kind] += 1
            n_here += 1
            self._tables.arena.spend(_WAY_WORK * len(ways.cursors))
            found = found or self._entered(state, at + 1, ways, self._canvas.led_on(at, ways))
        for state in put_off:
            heapq.heappush(waiting, state)
        return n_here, found

    def _entered(self, state: State, at: int, ways: Ways, led: list[tuple[int, int]]) -> list[bytes] | None:
        """Enter the cursors to which a state leads before a place; if one of them completes the text, the texts from the first
        place on.

        Only the first new cursor becomes a state now, since most of the hundreds never need to.
        """
        if self._is_whole:
            known = self._canvas.first_rest(at, [after for _, after in led])
            if known is not None:
                after, rest = known
                number = next(number for number, cursor in led if cursor == after)
                return self._canvas.note(State(0.0, 0, after, state, ways.text(number)), at, rest)
            if at == self._last:
                return None
        seen = self._seen[at]
        new: list[tuple[int, int]] = []
        for number, after in led:
            if after not in seen:
                seen.add(after)
                new.append((number, after))
        serial = self._n_met
        self._n_met += len(new)
        if at == self._last:
            self.reached += [State(0.0, 0, after, state, ways.text(number)) for number, after in new]
            return None
        return self._claim(at, state, _More(ways, new, serial, 0))

    def _claim(self, at: int, before: State, others: _More) -> list[bytes] | None:
        """Make the next cursor of a list a state; the texts from the first place on if a guide completes the text from it."""
        ways, new, serial, n = others
        if n == len(new):
            return None
        number, cursor = new[n]
        rank = _DECAY * before.rank + math.log2(1 + n)
        more = _More(ways, new, serial, n + 1)
        state = State(rank, serial + n, cursor, before, ways.text(number), more)
        heapq.heappush(self._layers[at], state)
        guides = self._canvas.guides
        return self._led(state, at, guides[0]) if guides else None

    def _noted(self, state: State, at: int) -> list[bytes] | None:
        """Enter one state before a place; the texts from the first place on if the rest of the text is known from there."""
        if at == self._last and not self._is_whole:
            self.reached.append(state)
            return None
        rest = self._canvas.rest_from(at, state.cursor) if self._is_whole else None
        if rest is None:
            if at < self._last:
                heapq.heappush(self._layers[at], state)
            return None
        return self._canvas.note(state, at, rest)

    def _led(self, state: State, at: int, guide: Sequence[bytes]) -> list[bytes] | None:
        """Follow a guide's texts from a state; the texts from the first place on if that completes the text."""
        n_places = 0
        found = None
        while found is None and at < self._last:
            place = self._places[at]
            if place.is_slot and not guide[at]:
                break
            n_places += 1
            after = self._tables.step(state.cursor, guide[at] + place.text)
            if after == 0 or after in self._seen[at + 1]:
                break
            self._seen[at + 1].add(after)
            at += 1
            self._n_met += 1
            state = State(_DECAY * state.rank, self._n_met, after, state, guide[at - 1])
            found = self._noted(state, at)
        self._tables.arena.spend(_LED_WORK * n_places)
        return found
