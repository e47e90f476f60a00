"""Profiles: the tokens of a place by how many tokens must follow each, and a mask row for each budget."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from cdplugin.bits import bit_flags, packed_bits

_PROFILE_BYTES = 600  # bytes of a profile without its arrays
_SAMPLED = 31  # one of so many tokens is sampled to find the most frequent cost
_NO_TOKENS = np.zeros(0, np.int32)


class Profile:
    """The tokens that may come at a place, by how many tokens must follow each at least: ``costs``, ascending.

    ``row``: all of them, as a mask row. If ``n`` more tokens may follow, the mask is the tokens of the costs up to ``n``.
    ``classes``: int16, for each token the index of its cost, -1 if the mask does not have it.
    """

    __slots__ = ("_implied", "_rows", "_tokens", "costs", "row")

    def __init__(self, row: np.ndarray, costs: list[int], classes: np.ndarray) -> None:
        self.row = row
        self.costs = costs
        self._rows: dict[int, tuple[np.ndarray, int]] = {}
        # the tokens of the most frequent cost are not listed: they are the rest of the row
        some = classes[::_SAMPLED]
        self._implied = int(np.bincount(some[some >= 0], minlength=1).argmax())
        listed = np.flatnonzero((classes >= 0) & (classes != self._implied)).astype(np.int32) if len(costs) > 1 else _NO_TOKENS
        theirs = classes[listed]
        self._tokens = [None if i == self._implied else listed[theirs == i] for i in range(len(costs))]

    @property
    def nbytes(self) -> int:
        lists = sum(t.nbytes for t in self._tokens if t is not None)
        return _PROFILE_BYTES + self.row.nbytes * (1 + len(self._rows)) + lists

    def fitting(self, most: int) -> int:
        """Return the address of the mask row of the tokens that at most ``most`` tokens must follow; 0 if these are all, or
        none.
        """
        number = bisect_right(self.costs, most)
        if number == 0 or number == len(self.costs):
            return 0
        found = self._rows.get(number)
        if found is None:
            row = self._first(number)
            found = self._rows[number] = (row, row.ctypes.data)
        return found[1]

    def row_of(self, most: int) -> np.ndarray:
        """Return the mask row of :meth:`fitting`, or the whole row. There must be such tokens."""
        return self._rows[bisect_right(self.costs, most)][0] if self.fitting(most) else self.row

    def _first(self, number: int) -> np.ndarray:
        """Return the tokens of the first ``number`` costs as a mask row."""
        whole = self._implied < number
        bits = bit_flags(self.row if whole else np.zeros_like(self.row))
        for tokens in self._tokens[number:] if whole else self._tokens[:number]:
            if tokens is not None:
                bits[tokens] = not whole
        return packed_bits(bits)
