"""Decide whether an array can still be closed: whether further items can meet every ``contains`` within the bounds.

The state is a tuple of counts, one for each ``contains``; counts only grow. Through the items with a schema of their own
(``prefixItems``) the states are followed place by place, each once. All items after them are alike: for them a table gives, for
each state, the numbers of items that lead to an end. It is computed once, from the largest counts back to the smallest.

>>> closing = Closing([Wanted(1, 2), Wanted(1, None)], 0, 3, [(0b00, 0b01, 0b10)])
>>> closing.can_close(0, (0, 0)), closing.can_close(2, (0, 0)), closing.can_close(2, (2, 0))
(True, False, True)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

Counts = tuple[int, ...]

_WAY_WORK = 100
"""Units of work (``Limits.max_step_work``) for one kind of item after one tuple of counts."""


@dataclass(frozen=True)
class Wanted:
    """One ``contains``: at least ``low`` items match, at most ``high`` (None: no bound)."""

    low: int
    high: int | None

    @property
    def most(self) -> int:
        """Counts stop here: more matches make no difference."""
        return max(self.low, 0 if self.high is None else self.high)


class _Numbers(NamedTuple):
    """A set of numbers of items: those in the bit set ``some``, and all from ``endless`` on (None: no others)."""

    some: int
    endless: int | None

    def any_within(self, least: int, most: int | None) -> bool:
        """Whether a number of the set is at least ``least`` and at most ``most``."""
        if self.endless is not None and (most is None or max(least, self.endless) <= most):
            return True
        found = self.some >> least
        return found != 0 and (most is None or least + (found & -found).bit_length() - 1 <= most)


def counted(counts: Counts, matched: int, wanted: Sequence[Wanted]) -> Counts | None:
    """The counts after an item that matches the ``contains`` in the bit set ``matched``; None if one exceeds its bound."""
    out = []
    for k, (count, one) in enumerate(zip(counts, wanted, strict=True)):
        if matched >> k & 1:
            if one.high is not None and count >= one.high:
                return None
            count = min(count + 1, one.most)
        out.append(count)
    return tuple(out)


def best_of(sets: Sequence[int], wanted: Sequence[Wanted]) -> list[int]:
    """The bit sets that are not dominated. A set is dominated by a superset that adds only ``contains`` without upper bound."""
    bounded = sum(1 << k for k, one in enumerate(wanted) if one.high is not None)
    return [m for m in sets if not any(m != o and m & ~o == 0 and (o ^ m) & bounded == 0 for o in sets)]


class Closing:
    """Answers :meth:`can_close` for one array of ``low`` to ``high`` items (None: no bound).

    ``rows``: for each place, the sets of ``contains`` that its item may match, as bit sets; the last row is for all further
    items. ``work``: units of work (``Limits.max_step_work``) spent so far.
    """

    def __init__(self, wanted: Sequence[Wanted], low: int, high: int | None, rows: Sequence[Sequence[int]]) -> None:
        self.work = 0
        self._wanted, self._low, self._high = wanted, low, high
        self._rows = [best_of(row, wanted) for row in rows]
        self._is_possible = all(one.high is None or one.low <= one.high for one in wanted)
        self._known: dict[tuple[int, Counts], bool] = {}
        self._ends: dict[Counts, _Numbers] | None = None

    def can_close(self, index: int, counts: Counts) -> bool:
        """Whether some further items close the array after ``index`` items that gave ``counts``."""
        if not self._is_possible:
            return False
        layers = [{counts: self._following(index, counts)}]
        while any(layers[-1].values()):
            at = index + len(layers)
            reached = dict.fromkeys(after for following in layers[-1].values() for after in following)
            layers.append({state: self._following(at, state) for state in reached})
        for at in range(index + len(layers) - 1, index - 1, -1):
            for state, following in layers[at - index].items():
                if (at, state) not in self._known:
                    self._known[at, state] = any(self._known[at + 1, after] for after in following)
        return self._known[index, counts]

    def _following(self, at: int, counts: Counts) -> list[Counts]:
        """The counts after the item at place ``at``; empty where the answer is known, or can be recorded without them."""
        if (at, counts) in self._known:
            return []
        if at >= self._low and self._is_enough(counts):
            self._known[at, counts] = True
        elif at >= len(self._rows) - 1:
            room = None if self._high is None else self._high - at
            self._known[at, counts] = self._can_end(counts, max(self._low - at, 0), room)
        elif self._high is None or at < self._high:
            return self._after(counts, self._rows[at])
        return []

    def _can_end(self, counts: Counts, least: int, room: int | None) -> bool:
        """Whether at least ``least`` and at most ``room`` further items, all alike, meet every ``contains``."""
        if len(counts) == 1:
            return self._can_end_one(counts[0], least, room)
        if self._ends is None:
            self._ends = self._numbers()
        return self._ends[counts].any_within(least, room)

    def _can_end_one(self, count: int, least: int, room: int | None) -> bool:
        """:meth:`_can_end` for a single ``contains``, whose numbers may be large."""
        one, usable = self._wanted[0], self._rows[-1]
        number = max(least, one.low - count)
        if room is not None and number > room:
            return False
        if count < one.low and 1 not in usable:
            return False
        if 0 in usable or not number:
            return True
        return 1 in usable and (one.high is None or count + number <= one.high)

    def _numbers(self) -> dict[Counts, _Numbers]:
        """For each tuple of counts, the numbers of further items before an end. Successors are computed first."""
        out: dict[Counts, _Numbers] = {}
        for counts in product(*(range(one.most, -1, -1) for one in self._wanted)):
            some, endless, stays = int(self._is_enough(counts)), list[int](), False
            for after in self._after(counts, self._rows[-1]):
                if after == counts:
                    stays = True
                    continue
                more = out[after]
                some |= more.some << 1
                if more.endless is not None:
                    endless.append(more.endless + 1)
            if stays and some:  # any number of items may come first that leave the counts as they are
                endless.append((some & -some).bit_length() - 1)
            out[counts] = _Numbers(some, min(endless, default=None))
        return out

    def _after(self, counts: Counts, row: Iterable[int]) -> list[Counts]:
        found = [counted(counts, matched, self._wanted) for matched in row]
        self.work += _WAY_WORK * len(found)
        return [after for after in dict.fromkeys(found) if after is not None]

    def _is_enough(self, counts: Counts) -> bool:
        return all(count >= one.low for count, one in zip(counts, self._wanted, strict=True))
