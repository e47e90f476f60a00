"""Tokens that are legal in a slot of a canvas, before which other slots are open: proven at cursors that these may lead to.

The slots before one may become much, and what they become decides what may come in it: most of it where one of them opens a
string or a comment. So tokens are looked at by cursors before the slot, those first to which known legal texts lead: what the
last mask was proven by mostly proves this one, too. A token is proven at one by what comes behind it in such a text. What these
leave in doubt is looked for where one of the places before the slot opens a string or a comment, and one behind it ends it;
then, by so much work as there are tokens in doubt, by a search from all their cursors at once
(:mod:`cdplugin.infill.together`); and at last, class by class, with that of :mod:`cdplugin.infill.canvases`.

``x□ = f(□, 1)``: with ``=`` and ``)`` known, ``"`` in the first slot lets nearly all tokens come in the second, which ``"``
behind none of them ends; but ``#`` does not, as no new line follows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_flags, set_bits
from cdplugin.infill.openings import OPENING_TOKENS
from cdplugin.infill.together import FewTokens, Together
from cdplugin.infill.witness import Witness

if TYPE_CHECKING:
    from cdplugin.infill.canvases import Canvas
    from cdplugin.infill.tables import InfillGrammar

MOST_WORK = 1 << 25
"""Units, of going from slot to slot, for one mask: half a second or so."""
STATES_OF_A_CLASS = 8
"""States that are followed behind a slot, for one class."""
_WORK, _WORK_OF_A_TOKEN = 1 << 18, 1600  # of searches for a mask, and for each token that known texts leave in doubt
_FEW_TOKENS = 48  # in doubt: they are followed one by one, and classes not searched for
_FEW_TOGETHER = 64  # in doubt: they are not searched for together
_STATES_BEFORE = 16  # that are followed before the slot, by all tokens
_NEAR, _NEAR_STATES = 3, 24  # places before the slot in which few tokens open something, and states that are followed there
_STATES_TOGETHER = 64  # that are followed behind the slot, from all classes at a cursor
_MOST_TOGETHER = 4  # cursors before the slot for which that is done, of those that are known, and of others
_MOST_BEFORE, _MOST_SPREADS_BEFORE = 128, 8  # cursors before a slot that are compared, and at which classes are proven
_SAMPLE, _MOST_ALIKE = 16, 2  # tokens by which they are compared, and those at which the same ones may come
_MOST_SPREADS = 4  # at one cursor

Class = tuple[int, np.ndarray]
"""A cursor, and the tokens that lead to it."""
Proof = tuple[np.ndarray, tuple[list[bytes], list[bytes]] | Witness]
"""Tokens, and what the places before the slot, and those behind it, were filled with when they were proven."""
Before = tuple[int, list[bytes]]
"""A cursor before the slot, and what the places before it are filled with."""


class SlotProofs:
    """The tokens in doubt of the mask of a slot, the open part ``hole``. What is proven is added to ``row`` and ``found``.

    ``few``: makes the tokens by which states are followed first.
    """

    def __init__(
        self,
        tables: InfillGrammar,
        canvas: Canvas,
        few: Callable[[], FewTokens],
        hole: int,
        row: np.ndarray,
        found: list[Proof],
    ) -> None:
        self._tables = tables
        self._few = few
        self._canvas = canvas
        self._hole = hole
        self._row = row
        self._seen: Counter[int] = Counter()  # how often the tokens at a cursor were looked at
        self._most_states = 0
        self._found = found
        self._largest: list[bytes] | None = None  # the text by which most tokens were proven at the last cursor

    def decide(self, doubtful: np.ndarray) -> np.ndarray:
        """Prove tokens; returns those that are still in doubt then.

        Where rules are made on demand (Python), each class is searched for by itself: a search from all of them found more in
        the masks of three programs, and so much less in those of a fourth that it was less in all.
        """
        canvas = self._canvas
        until = self._tables.work_left - MOST_WORK
        known = canvas.before(self._hole, 0)
        self._most_states = 0
        doubtful = self._spread_at_all(known, doubtful)
        if len(doubtful):
            doubtful = self._spread_at_best(canvas.opened(self._hole, OPENING_TOKENS), doubtful)
        if self._tables.has_families:
            return self._search(known, doubtful, until) if len(doubtful) > _FEW_TOKENS else doubtful
        if len(doubtful) > _FEW_TOGETHER:
            self._grant(until, doubtful)
            doubtful = self._search_together(known, doubtful)
        if len(doubtful) > _FEW_TOGETHER:
            self._grant(until, doubtful)
            self._most_states = STATES_OF_A_CLASS
            doubtful = self._spread_at_all(known, doubtful)
        return doubtful

    def _grant(self, until: int, doubtful: np.ndarray) -> None:
        """Let searches take as much work as tokens are in doubt, and none from where so much is left in all."""
        self._canvas.grant(min(self._tables.work_left - until, _WORK + _WORK_OF_A_TOKEN * len(doubtful)))

    def _search(self, known: list[Before], doubtful: np.ndarray, until: int) -> np.ndarray:
        """Prove classes by searches from each of them, at known cursors and at others; returns the tokens in doubt then."""
        self._grant(until, doubtful)
        self._most_states = STATES_OF_A_CLASS
        doubtful = self._spread_at_all(known, doubtful)
        if len(doubtful) and self._canvas.may_search:
            doubtful = self._search_before(doubtful)
        return doubtful

    def _spread_at_all(self, found: list[Before], doubtful: np.ndarray) -> np.ndarray:
        """Prove classes at some cursors before the slot; returns the tokens in doubt then. A text by which most of them were is
        tried first for the next mask.
        """
        for cursor, left in found:
            if not len(doubtful):
                break
            before = len(doubtful)
            doubtful = self._spread_at(cursor, left, doubtful)
            if 2 * len(doubtful) < before and self._largest is not None:
                self._canvas.prefer(self._largest)
        return doubtful

    def _spread_at_best(self, found: list[Before], doubtful: np.ndarray) -> np.ndarray:
        """The same, each time at that at which most tokens of a sample are proven, of a few."""
        alike: Counter[tuple[bytes, bytes]] = Counter()
        for _ in range(_MOST_SPREADS_BEFORE):
            best = self._best_of(found, doubtful, alike, True) if len(doubtful) else -1
            if best < 0:
                break
            doubtful = self._spread_at_all([found.pop(best)], doubtful)
        return doubtful

    def _search_together(self, known: list[Before], doubtful: np.ndarray) -> np.ndarray:
        """Prove classes by a search from all their cursors, at known cursors before the slot and at others that few tokens in
        the places before it lead to; returns the tokens in doubt then.
        """
        canvas = self._canvas
        at = canvas.place_of(self._hole)
        for cursor, left in known[:_MOST_TOGETHER]:
            doubtful = self._spread_together(cursor, left, doubtful)
        before = Together(canvas, self._few(), at)
        for some in canvas.on_guides(max(at - _NEAR, 0), at):
            before.add(*some)
        before.run(_NEAR_STATES)
        found = before.reached
        alike: Counter[tuple[bytes, bytes]] = Counter()
        for _ in range(_MOST_TOGETHER):
            best = self._best_of(found[:_MOST_BEFORE], doubtful, alike) if len(doubtful) > _FEW_TOGETHER else -1
            if best < 0:
                break
            doubtful = self._spread_together(*found.pop(best), doubtful)
        return doubtful

    def _spread_together(self, cursor: int, left: list[bytes], doubtful: np.ndarray) -> np.ndarray:
        """Prove classes at a cursor before the slot, by a search from all of them; returns the tokens still in doubt then."""
        at = self._canvas.place_of(self._hole)
        search = Together(self._canvas, self._few())
        are_doubtful = np.zeros(32 * len(self._row), bool)
        are_doubtful[doubtful] = True
        for after, _ in self._classes_of(cursor, doubtful, are_doubtful):
            search.add(at + 1, self._tables.step(after, self._canvas.places[at].text))
        search.run(_STATES_TOGETHER)
        return self._spread_at(cursor, left, doubtful)

    def _search_before(self, doubtful: np.ndarray) -> np.ndarray:
        """Prove classes at cursors that are searched for; returns the tokens in doubt then.

        Known texts are tried first: at the cursor of the known text, then each time at that at which most tokens of a sample
        are proven by one, or else may come: inside a string or a comment that a place on the left opens, nearly all. Of those
        at which the same ones are, few are looked at. Then these cursors are searched from, those first at which most tokens
        may come, since they have few classes. What that teaches is tried once more.
        """
        found = self._canvas.before(self._hole, _STATES_BEFORE)[:_MOST_BEFORE]
        best = 0 if found else -1
        for _ in range(2):
            n_guides = self._canvas.n_learned
            chosen: list[Before] = []
            alike: Counter[tuple[bytes, bytes]] = Counter()
            self._most_states = 0
            while best >= 0 and len(chosen) < _MOST_SPREADS_BEFORE:
                chosen.append(found.pop(best))
                doubtful = self._spread_at(*chosen[-1], doubtful)
                best = self._best_of(found, doubtful, alike)
            self._most_states = STATES_OF_A_CLASS
            sizes = {cursor: self._n_taken(cursor, doubtful) for cursor, _ in chosen}
            doubtful = self._spread_at_all(sorted(chosen, key=lambda one: -sizes[one[0]]), doubtful)
            if self._canvas.n_learned == n_guides:
                break
            best = self._best_of(found, doubtful, Counter())
        return doubtful

    def _best_of(
        self, found: list[Before], doubtful: np.ndarray, alike: Counter[tuple[bytes, bytes]], is_proven: bool = False
    ) -> int:
        """Which of some cursors before a slot to look at next; -1 for none. ``alike``: how many of a kind were. ``is_proven``:
        only those at which some are proven.
        """
        if not self._canvas.may_search:
            return -1
        sample = [self._tables.vocab.tokens[token] or b"" for token in doubtful[:: len(doubtful) // _SAMPLE + 1].tolist()]
        best, most, kind_of_best = -1, (0, 0), (b"", b"")
        for i, (cursor, _) in enumerate(found):
            kind = proven, may = self._taken_of(sample, cursor)
            size = sum(proven), sum(may)
            if size > most and alike[kind] < _MOST_ALIKE and (size[0] or not is_proven):
                best, most, kind_of_best = i, size, kind
        alike[kind_of_best] += 1
        return best

    def _taken_of(self, sample: list[bytes], cursor: int) -> tuple[bytes, bytes]:
        """Of a sample's tokens at a cursor before a slot: whether a known text proves each, and whether each may come there."""
        ends = [self._tables.step(cursor, text) for text in sample]
        proven = {end: end != 0 and self._canvas.behind(self._hole, end, 0) is not None for end in set(ends)}
        return bytes(proven[end] for end in ends), bytes(end != 0 for end in ends)

    def _n_taken(self, cursor: int, tokens: np.ndarray) -> int:
        """How many of some tokens may come at a cursor."""
        return int(bit_flags(self._tables.mask_at(cursor))[tokens].sum())

    def _spread_at(self, cursor: int, left: list[bytes], doubtful: np.ndarray) -> np.ndarray:
        """Prove classes at a cursor before the slot; returns the tokens still in doubt then."""
        if self._seen[cursor] == _MOST_SPREADS:
            return doubtful
        self._seen[cursor] += 1
        are_doubtful = np.zeros(32 * len(self._row), bool)
        are_doubtful[doubtful] = True
        self._largest = None
        for after, tokens in self._classes_of(cursor, doubtful, are_doubtful):
            rest = self._canvas.behind(self._hole, after, self._most_states)
            if rest is not None:
                are_doubtful[tokens] = False
                set_bits(self._row, tokens)
                self._found.append((tokens, (left, rest)))
                self._largest = self._largest or [*left, self._tables.vocab.tokens[tokens[0]] or b"", *rest]
        return doubtful[are_doubtful[doubtful]]

    def _classes_of(self, cursor: int, doubtful: np.ndarray, are_doubtful: np.ndarray) -> list[Class]:
        """The classes of tokens in doubt at a cursor, large ones first. ``are_doubtful``: by token, whether it is in doubt."""
        if len(doubtful) <= _FEW_TOKENS:
            found: defaultdict[int, list[int]] = defaultdict(list)
            for token in doubtful.tolist():
                found[self._tables.step(cursor, self._tables.vocab.tokens[token] or b"")].append(token)
            found.pop(0, None)
            return sorted(((after, np.array(tokens)) for after, tokens in found.items()), key=lambda one: -len(one[1]))
        classes = self._tables.classes.at(cursor)
        are_in = are_doubtful[classes.tokens]
        sizes = np.diff(np.concatenate((np.zeros(1, np.int64), np.cumsum(are_in)))[classes.heads])
        out = []
        for number in np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)].tolist():
            first, end = classes.heads[number : number + 2]
            out.append((classes.cursors[number], classes.tokens[first:end][are_in[first:end]]))
        return out
