"""Slot proofs: tokens that are legal in a slot of a canvas before which other slots are open, proven at cursors before it.

What the slots before it become decides which tokens may come: most of them if one opens a string or a comment. So tokens are
tried at cursors before the slot, and proven by the texts behind the slot in a guide (:mod:`cdplugin.infill.canvases`). In
order:

- at the cursors of guides: what proved the last mask mostly proves this one, too;
- where one of the two places before the slot opens a string or a comment, and a place behind ends it;
- where few tokens before it lead, and then, with work in proportion to the tokens in doubt, by a search from all their cursors
  at once (:mod:`cdplugin.infill.together`), which ends when few are left;
- at last, large classes one by one, by a beam search.

``f(□□□)``: with ``"`` in the first slot, nearly all tokens may come in the second one, since ``"`` in the third ends the
string.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_flags
from cdplugin.errors import LimitExceeded
from cdplugin.infill.openings import OPENING_TOKENS
from cdplugin.infill.together import FEW_TOGETHER, FewTokens, Together, work_for
from cdplugin.infill.token_classes import Doubt, OneClass
from cdplugin.infill.witness import Witness

if TYPE_CHECKING:
    from cdplugin.infill.canvases import Canvas
    from cdplugin.infill.tables import InfillGrammar

MOST_WORK = 1 << 25
"""Units of work for the searches of one mask: about half a second."""
STATES_OF_A_CLASS = 8
"""States followed behind a slot for one class."""
_FEW_TOKENS = 48  # so many in doubt are not searched for
_FEW_STEPS = 512  # so many in doubt are stepped one by one, which is faster than classifying all tokens
_STATES_BEFORE = 16  # followed before the slot, with all tokens
_NEAR, _NEAR_STATES = 3, 24  # places before the slot in which few tokens are tried, and states followed there
_STATES_TOGETHER = 64  # followed behind the slot, from all classes at a cursor
_MOST_TOGETHER = 4  # cursors before the slot for which that is done
_MOST_BEFORE, _MOST_PROVEN_AT = 128, 8  # cursors before a slot that are compared, and at which classes are proven
_SAMPLE, _MOST_ALIKE = 16, 2  # tokens by which cursors are compared, and cursors chosen of those that compare equal
_MOST_ROUNDS = 4  # rounds of proofs at one cursor
_MOST_CHANGED = 24  # classes at one cursor, large ones first, that are tried with guides changed in one place

Tokens = Callable[[int], "OneClass | list[int]"]
"""The tokens of a class, by its index."""
Proof = tuple["np.ndarray | OneClass | list[int]", tuple[list[bytes], list[bytes]] | Witness]
"""Proven tokens, with the texts of the places before the slot and of those behind it that proved them, or a witness."""
Before = tuple[int, list[bytes]]
"""A cursor before the slot, and texts of the places before it that lead there."""


class SlotProofs:
    """The tokens in doubt of the mask of a slot, the open part ``hole``. Proven ones are added to ``row`` and ``found``.

    ``few``: makes the tokens with which states are followed first.
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
        self._seen: Counter[int] = Counter()  # how many rounds of proofs a cursor has had
        self._most_states = 0
        self._fewest = 0  # only larger classes are searched for
        self._found = found
        self._largest: list[bytes] | None = None  # the text that proved the largest class at the last cursor

    def decide(self, doubtful: np.ndarray) -> int:
        """Prove tokens of a row (int32 words); how many are still in doubt then.

        With families (Python) each class is searched for by itself: in a measurement, a search from all classes at once found
        more for the masks of three programs, but so much less for a fourth that it found less in all.
        """
        self._doubt = Doubt(self._tables.arena, doubtful)
        try:
            self._decide()
        except LimitExceeded:
            pass
        finally:
            self._row |= self._doubt.taken.view(np.int32)[: len(self._row)]
        return self._doubt.count

    def _decide(self) -> None:
        canvas, doubt = self._canvas, self._doubt
        until = self._tables.work_left - MOST_WORK
        known = canvas.before(self._hole, 0)
        self._most_states = 0
        self._prove_at_all(known)
        if doubt.count:
            self._prove_at_best(canvas.opened(self._hole, OPENING_TOKENS))
        if self._tables.has_families:
            if doubt.count > _FEW_TOKENS:
                self._search(known, until)
            return
        if doubt.count > FEW_TOGETHER:
            self._grant(until)
            self._search_together(known, until)
        # at the first place there is one cursor: every class has to be proven there
        self._fewest = FEW_TOGETHER if canvas.place_of(self._hole) else 0
        if doubt.count > self._fewest:
            self._grant(until)
            self._most_states = STATES_OF_A_CLASS
            self._prove_at_all(known)

    def _grant(self, until: int) -> None:
        """Give searches work in proportion to the tokens in doubt, within what is left for the mask."""
        self._canvas.grant(min(self._tables.work_left - until, work_for(self._doubt.count)))

    def _search(self, known: list[Before], until: int) -> None:
        """Prove classes by a search from each of them, at known cursors and at others."""
        self._grant(until)
        self._most_states = STATES_OF_A_CLASS
        self._prove_at_all(known)
        if self._doubt.count and self._canvas.may_search:
            self._search_before()

    def _prove_at_all(self, found: list[Before]) -> None:
        """Prove classes at some cursors before the slot. A text that proved most of the tokens becomes the first guide for the
        next mask.
        """
        for cursor, left in found:
            if not self._doubt.count:
                break
            before = self._doubt.count
            self._prove_at(cursor, left)
            if 2 * self._doubt.count < before and self._largest is not None:
                self._canvas.prefer(self._largest)

    def _prove_at_best(self, found: list[Before]) -> None:
        """:meth:`_prove_at_all` at a few of some cursors, each time at that where most of a sample of tokens are proven."""
        alike: Counter[tuple[bytes, bytes]] = Counter()
        for _ in range(_MOST_PROVEN_AT):
            best = self._best_of(found, alike, True) if self._doubt.count else -1
            if best < 0:
                break
            self._prove_at_all([found.pop(best)])

    def _search_together(self, known: list[Before], until: int) -> None:
        """Prove classes at cursors to which few tokens in the places before the slot lead: by guides, which is cheap, then at
        these and at known cursors by a search from all classes.
        """
        canvas = self._canvas
        at = canvas.place_of(self._hole)
        before = Together(canvas, self._few(), at)
        for some in canvas.on_guides(max(at - _NEAR, 0), at):
            before.add(*some)
        before.run(_NEAR_STATES)
        found = before.reached[:_MOST_BEFORE]
        self._prove_at_best(found)
        found = known + found
        alike: Counter[tuple[bytes, bytes]] = Counter()
        for _ in range(_MOST_TOGETHER):
            self._grant(until)
            best = self._best_of(found, alike) if self._doubt.count > FEW_TOGETHER else -1
            if best < 0:
                break
            self._prove_together(*found.pop(best))

    def _prove_together(self, cursor: int, left: list[bytes]) -> None:
        """Prove classes at a cursor before the slot by one search from all of them."""
        canvas = self._canvas
        at = canvas.place_of(self._hole)
        search = Together(canvas, self._few())
        cursors, numbers_in_doubt, _ = self._classes_of(cursor)
        ends = self._tables.step_all(np.array(cursors, np.int64), [canvas.places[at].text])[:, 0].tolist()
        sizes: Counter[int] = Counter()
        for end, size in zip(ends, numbers_in_doubt.tolist(), strict=True):
            sizes[end] += size
        canvas.known_rests(at + 1, sizes)
        for end, size in sizes.items():
            search.add(at + 1, end, n_tokens=size)
        search.run(_STATES_TOGETHER)
        self._prove_at(cursor, left)

    def _search_before(self) -> None:
        """Prove classes at cursors before the slot that a beam search finds.

        First by guides: at the first cursor, then each time at that where most of a sample of tokens are proven, or else where
        most may come (inside a string or a comment that a place on the left opens, nearly all). Of cursors that agree on the
        sample few are visited. Then by searches from these cursors, those first that allow most tokens, since they have few
        classes. If that learned guides, it is done once more.
        """
        found = self._canvas.before(self._hole, _STATES_BEFORE)[:_MOST_BEFORE]
        best = 0 if found else -1
        for _ in range(2):
            n_guides = self._canvas.n_learned
            chosen: list[Before] = []
            alike: Counter[tuple[bytes, bytes]] = Counter()
            self._most_states = 0
            while best >= 0 and len(chosen) < _MOST_PROVEN_AT:
                chosen.append(found.pop(best))
                self._prove_at(*chosen[-1])
                best = self._best_of(found, alike)
            self._most_states = STATES_OF_A_CLASS
            sizes = {cursor: self._n_taken(cursor) for cursor, _ in chosen}
            self._prove_at_all(sorted(chosen, key=lambda one: -sizes[one[0]]))
            if self._canvas.n_learned == n_guides:
                break
            best = self._best_of(found, Counter())

    def _best_of(self, found: list[Before], alike: Counter[tuple[bytes, bytes]], is_proven: bool = False) -> int:
        """The index of the cursor before the slot to visit next; -1 for none. ``alike``: how many of each kind were visited.

        A sample of the tokens in doubt decides: for each, whether a guide proves it and whether it may come there.
        ``is_proven``: only cursors at which a guide proves some.
        """
        if not self._canvas.may_search or not found:
            return -1
        doubtful = self._doubt.tokens
        sample = [self._tables.vocab.tokens[token] or b"" for token in doubtful[:: len(doubtful) // _SAMPLE + 1].tolist()]
        ends = self._tables.step_all(np.array([cursor for cursor, _ in found], np.int64), sample)
        may_come = ends != 0
        distinct = np.unique(ends[may_come])
        are_known = [rest is not None for rest in self._canvas.behind_all(self._hole, distinct.tolist(), 0)]
        proven = distinct[np.array(are_known, bool)]
        if is_proven:  # inside a string or a comment there are few cursors, and a closing token may prove them
            of_wide = np.unique(ends[2 * may_come.sum(axis=1) > len(sample)])
            left = of_wide[(of_wide != 0) & ~np.isin(of_wide, proven)][:_MOST_CHANGED]
            are_changed = [rest is not None for rest in self._canvas.as_changed(self._hole, left.tolist())]
            proven = np.append(proven, left[np.array(are_changed, bool)])
        are_proven = np.isin(ends, proven)
        best, most, kind_of_best = -1, (0, 0), (b"", b"")
        sizes = zip(are_proven.sum(axis=1).tolist(), may_come.sum(axis=1).tolist(), strict=True)
        for i, size in enumerate(sizes):
            if size > most and (size[0] or not is_proven):
                kind = are_proven[i].tobytes(), may_come[i].tobytes()
                if alike[kind] < _MOST_ALIKE:
                    best, most, kind_of_best = i, size, kind
        alike[kind_of_best] += 1
        return best

    def _n_taken(self, cursor: int) -> int:
        """How many of the tokens in doubt a cursor allows."""
        return int(bit_flags(self._tables.mask_at(cursor))[self._doubt.tokens].sum())

    def _prove_at(self, cursor: int, left: list[bytes]) -> None:
        """Prove classes at a cursor before the slot. ``left``: texts of the places before it that lead there."""
        if self._seen[cursor] == _MOST_ROUNDS:
            return
        self._seen[cursor] += 1
        self._largest = None
        cursors, sizes, tokens_of = self._classes_of(cursor)
        n_large = int(np.count_nonzero(sizes > self._fewest))
        rests = self._canvas.behind_all(self._hole, cursors, self._most_states, n_large)
        self._take(left, rests, tokens_of)
        if not self._most_states and self._doubt.count > FEW_TOGETHER:
            others = [i for i, rest in enumerate(rests) if rest is None][:_MOST_CHANGED]
            found = dict(zip(others, self._canvas.as_changed(self._hole, [cursors[i] for i in others]), strict=True))
            self._take(left, [found.get(i) for i in range(len(cursors))], tokens_of)

    def _take(self, left: list[bytes], rests: list[list[bytes] | None], tokens_of: Tokens) -> None:
        """Take the classes with a rest, which proves them, out of doubt. ``left``: the texts of the places before the slot."""
        proven = [(tokens_of(i), rest) for i, rest in enumerate(rests) if rest is not None]
        for tokens, rest in proven:
            self._found.append((tokens, (left, rest)))
            self._largest = self._largest or [*left, self._tables.vocab.tokens[tokens[0]] or b"", *rest]
        some = [token for tokens, _ in proven if isinstance(tokens, list) for token in tokens]
        if some:
            self._doubt.take_some(some)
        classes = [tokens for tokens, _ in proven if isinstance(tokens, OneClass)]
        if classes:
            flags = np.zeros(len(classes[0].classes.cursors), np.uint8)
            flags[[one.number for one in classes]] = 1
            self._doubt.take(classes[0].classes, flags)

    def _classes_of(self, cursor: int) -> tuple[list[int], np.ndarray, Tokens]:
        """The classes of tokens in doubt at a cursor, large ones first: the cursors to which they lead, their sizes, and their
        tokens.
        """
        if self._doubt.count <= _FEW_STEPS:
            tokens = self._doubt.tokens.tolist()
            ends = self._tables.step_all(np.array([cursor]), [self._tables.vocab.tokens[token] or b"" for token in tokens])
            found: defaultdict[int, list[int]] = defaultdict(list)
            for token, end in zip(tokens, ends[0].tolist(), strict=True):
                found[end].append(token)
            found.pop(0, None)
            cursors = sorted(found, key=lambda end: -len(found[end]))
            return cursors, np.array([len(found[end]) for end in cursors], np.int64), lambda i: found[cursors[i]]
        classes = self._tables.classes.at(cursor)
        sizes = self._doubt.counts(classes)
        numbers = np.argsort(-sizes, kind="stable")[: np.count_nonzero(sizes)]
        return classes.cursors[numbers].tolist(), sizes[numbers], lambda i: OneClass(classes, int(numbers[i]))
