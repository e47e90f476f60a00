"""Canvases: fillings of many slots, found by the matcher from left to right.

On a canvas of a diffusion model a slot may stand beside every other token. Stepping the lattices of a large grammar over forty
slots takes seconds; the matcher passes a slot in a millisecond. So this search goes from place to place. Before each place
there are *states*: a cursor with the texts that led there. A state leads on by each class of tokens with the same future, if
the text behind the place may follow. Texts with the same cursor have the same future, so one of them is kept.

``if x□ 1□``: ``x`` is followed by ``=``, a name, ``(`` …; of these, ``(`` leads to a state behind which ``):`` ends the line.

Nothing tells which states lead to the end, so this is a beam search (:mod:`cdplugin.infill.beam`). What it finds is legal; if
it finds nothing, nothing is known.

Mostly a legal text is known that differs in a few places, a *guide*: the last filling of the slots, or what a search found for
another token. From each new state the guide's further texts are tried, for microseconds a place, up to a cursor from which the
rest is known. So texts that depart from the guide in one place come first (limited discrepancy search, Harvey and Ginsberg,
1995): most classes of a mask need no more.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cdplugin.infill.beam import Beam, State, Ways
from cdplugin.infill.known_ends import KnownEnds
from cdplugin.infill.openings import CLOSING_TOKENS, REOPENING_TOKENS
from cdplugin.infill.parts import Part, laid_out
from cdplugin.infill.witness import Witness, filling_of

if TYPE_CHECKING:
    from cdplugin.infill.tables import InfillGrammar

MOST_WORK, FEW_WORK = 1 << 27, 1 << 26
"""Units of work of all searches on a canvas (a third of a second), and of the first one, before lattices are asked."""
_TOKEN_WORK = 2  # of each token that is classified, besides what kernels count
_LEFT_WORK = 4  # a search that keeps the places on the left gets this fraction of the work
_MOST_ROUNDS = 2  # in which texts learned at some cursors are tried at others
_MOST_GUIDES, _FEW_GUIDES = 8, 3  # kept, and of these tried with one place changed


class _OpenPlace(NamedTuple):
    """An open place: whether it takes a token, whether the text may end before it, and the text behind it."""

    is_slot: bool
    may_end: bool
    text: bytes


class Canvas:
    """The open places of some parts (those before the first end token), and the texts known for them. The caller holds the lock
    of ``tables``.
    """

    def __init__(self, tables: InfillGrammar, parts: Sequence[Part], padded: bool) -> None:
        self.tables = tables
        self._parts = parts
        self._open = [i for i, part in enumerate(parts) if part.is_open]
        before, elements, _ = laid_out(parts, padded)
        self._start = tables.step(tables.start, before)  # the cursor before the first place
        self._begun: tuple[list[bytes], int] = [], self._start  # kept texts of the first places, and the cursor behind them
        self._until = self.tables.work_left - MOST_WORK  # searches stop here (:meth:`grant`)
        self._is_followed = False  # whether the last search followed all states
        self._tokens: dict[int, Ways] = {}  # memo of :meth:`ways`
        self._paths: dict[tuple[bytes, ...], list[int]] = {}  # memo of :meth:`_path`
        self.places: list[_OpenPlace] = []
        for count, text in elements:
            if count is None:
                self.places.append(_OpenPlace(False, False, text))
            elif count < 0:
                self.places += [_OpenPlace(True, True, b"")] * (-1 - count)
            else:
                self.places += [_OpenPlace(True, False, b"")] * (count - 1) + [_OpenPlace(True, False, text)]
        # per place, by the cursor before it: texts of the places from there on that complete the text
        self._known: list[dict[int, list[bytes]]] = [{} for _ in self.places]
        self.guides: list[list[bytes]] = []
        """Legal texts that may differ from this one in a few parts: the texts of all places in each."""
        # memo of :meth:`_ends_of_guides`, with ``_n_guides`` at that time
        self._ends: dict[tuple[int, bool], tuple[int, KnownEnds]] = {}
        # (place, cursor, is_changed) -> ``_n_guides`` when guides failed there
        self._vain: dict[tuple[int, int, bool], int] = {}
        self._n_guides = 0  # guides there have been so far: a version number
        self.n_learned = 0
        """How many guides were learned from searches."""
        self.is_exhausted = False
        """Whether the last :meth:`witness` is None because every state was followed: then there is none."""

    def remember(self, parts: Sequence[Part], witness: Witness) -> None:
        """Learn a witness of ``parts``, which may differ from this canvas's parts in a few.

        Left of the first difference the search begins with its texts; right of the last one it ends when it meets one of its
        cursors.
        """
        if len(parts) < len(self._parts):
            return
        mine, n_parts = self._parts, len(self._parts)
        others = [] if parts is mine else [i for i, part in enumerate(mine) if part is not parts[i]]
        first, last = (others[0], others[-1]) if others else (n_parts, -1)
        ends = self.tables.vocab.eos_token_ids
        if any(
            part.text or found not in (None, b"", *ends)
            for part, found in zip(parts[n_parts:], witness[n_parts:], strict=False)
        ):
            last = n_parts  # the known text continues where this one has ended
        n_filled = next((i for i in range(n_parts) if isinstance(witness[i], int) and witness[i] in ends), n_parts)
        fillings = [b"" if found is None else filling_of(self.tables, found) for found in witness[:n_filled]]
        of_places = [fillings[i] if i < n_filled else b"" for i in self._open]
        if not self._may_stand(of_places):
            return  # the known parts are others, in which gaps side by side were not merged, say
        texts = [part.text + filling for part, filling in zip(parts, fillings, strict=False)]
        heads = [0, *itertools.accumulate(map(len, texts))]
        cursors = self.tables.trail(self.tables.start, b"".join(texts))
        for at, i in enumerate(self._open):
            if last < i < n_filled and (cursor := cursors[heads[i] + len(parts[i].text)]):
                self._known[at][cursor] = of_places[at:]
        self.guides.insert(0, of_places)
        self._n_guides += 1
        if n_filled >= first:
            n_left = sum(i < first for i in self._open)
            until = self._open[n_left] + 1 if n_left < len(self._open) else n_parts
            changed = b"".join(part.text for part in mine[first:until])
            same = cursors[heads[first]]
            self._begun = of_places[:n_left], self.tables.step(same, changed) if same else 0

    def recall(self, guides: Iterable[dict[int, bytes]]) -> None:
        """Take over guides of another canvas of the same parts, of which as many or more were open (by part,
        :meth:`guides_by_part`).
        """
        for guide in guides:
            if all(i in guide for i in self._open):
                of_places = [guide[i] for i in self._open]
                is_new = of_places not in self.guides and len(self.guides) < _MOST_GUIDES
                if is_new and self._may_stand(of_places):
                    self.guides.append(of_places)
                    self._n_guides += 1

    def _may_stand(self, texts: list[bytes]) -> bool:
        """Whether texts may stand in the places as far as their kinds go: in a slot at most one token."""
        ids, _ = self.tables.vocab.token_of
        return all(not place.is_slot or not text or text in ids for place, text in zip(self.places, texts, strict=True))

    def guides_by_part(self) -> list[dict[int, bytes]]:
        """The guides, for :meth:`recall`."""
        return [dict(zip(self._open, guide, strict=True)) for guide in self.guides]

    def beginnings(self) -> list[tuple[list[bytes], int]]:
        """Where a search may begin, as (texts of the first places, cursor behind them): what is kept on the left of a change,
        then none.
        """
        return [self._begun, ([], self._start)] if self._begun[0] else [([], self._start)]

    def witness(self, most: int) -> Witness | None:
        """A witness of the parts; None if none was found within ``most`` states."""
        left, cursor = self._begun
        until = self._until
        if left:  # what is kept on the left may be the very thing that does not fit
            self.grant((self.tables.work_left - until) // _LEFT_WORK)
        rest = self._search(len(left), cursor, most // 8 if left else most)
        self._until = until
        if rest is None and left:
            left = []
            rest = self._search(0, self._start, most)
        # of the texts that may stand in a gap, few are tried
        self.is_exhausted = rest is None and self._is_followed and all(place.is_slot for place in self.places)
        if rest is None:
            return None
        return self.as_witness(left + rest)

    def as_witness(self, texts: list[bytes], parts: Sequence[Part] | None = None) -> Witness | None:
        """The texts of the places as a witness; None if a slot's text is spelled like an end token.

        ``parts``: more parts than those of the canvas, if there are some behind the first end token.
        """
        parts = parts or self._parts
        ids, _ = self.tables.vocab.token_of
        ends = self.tables.vocab.eos_token_ids
        is_behind = [False] * len(self._parts) + [part.is_open for part in parts[len(self._parts) :]]
        out: Witness = [ends[0] if is_open else None for is_open in is_behind]
        for i, place, text in zip(self._open, self.places, texts, strict=True):
            out[i] = (ids[text] if text else ends[0]) if place.is_slot else text
            if place.is_slot and text and out[i] in ends:  # an end token that is spelled as this one
                return None
        return out

    def behind(self, part: int, cursor: int, most: int) -> list[bytes] | None:
        """Texts of the places behind an open part, from the cursor at its end; None if none were found.

        ``most``: how many states to follow; 0: only known texts are tried.
        """
        return self.behind_all(part, [cursor], most)[0]

    def behind_all(
        self, part: int, cursors: Sequence[int], most: int, n_searched: int | None = None
    ) -> list[list[bytes] | None]:
        """:meth:`behind` from each of some cursors.

        What one search finds is tried at the next cursors before they are searched from. ``n_searched``: search from the first
        so many only.
        """
        at = self._open.index(part)
        ends = self.tables.step_all(np.array(cursors, np.int64), [self.places[at].text])[:, 0].tolist()
        found = {end: None for end in ends if end} | self._guided(at + 1, ends, False)
        for _ in range(_MOST_ROUNDS if most else 0):  # what is found for one cursor may fit others
            left = [end for end, rest in found.items() if rest is None]
            n_guides = self._n_guides
            found.update(self._guided(at + 1, left, True))
            if self._n_guides == n_guides:
                break
            found.update(self._guided(at + 1, [end for end in left if found[end] is None], False))
        searched = dict.fromkeys(end for end in ends[:n_searched] if end and found[end] is None)
        for end in searched if most else ():
            known = self._guided(at + 1, [end], False) or self._guided(at + 1, [end], True)
            found[end] = known.get(end) or self._search(at + 1, end, most)
        return [found.get(end) for end in ends]

    def as_changed(self, part: int, cursors: Sequence[int]) -> list[list[bytes] | None]:
        """:meth:`behind` from each of some cursors, by guides with one place changed."""
        at = self.place_of(part)
        ends = self.tables.step_all(np.array(cursors, np.int64), [self.places[at].text])[:, 0].tolist()
        found = self._guided(at + 1, ends, True, False)
        return [found.get(end) for end in ends]

    def _guided(
        self, at: int, cursors: Iterable[int], is_changed: bool, is_learned: bool = True
    ) -> dict[int, list[bytes] | None]:
        """Texts of the places from ``at`` on, by the cursor before it, where they are known or a guide's texts fit.

        ``is_changed``: a guide's texts with one place changed; ``is_learned``: then the result becomes a guide itself.
        """
        found: dict[int, list[bytes] | None] = {}
        asked: list[int] = []
        n_guides = self._n_guides
        for cursor in dict.fromkeys(cursors):
            rest = self.rest_from(at, cursor) if cursor else None
            if rest is not None:
                found[cursor] = rest
            elif cursor and self._vain.get((at, cursor, is_changed)) != n_guides:
                asked.append(cursor)
        if not asked:
            return found
        ends = self._ends_of_guides(at, is_changed)
        numbers = ends.first(asked)
        for cursor, number in zip(asked, numbers, strict=True):
            if number < 0:
                self._vain[at, cursor, is_changed] = n_guides
            else:
                found[cursor] = self._known[at][cursor] = ends.fillings[number]
        if is_changed and is_learned and at and self.guides:
            for number in list(dict.fromkeys(number for number in numbers if number >= 0))[:_MOST_GUIDES]:
                self._learn([*self.guides[0][:at], *ends.fillings[number]])
        return found

    def _ends_of_guides(self, at: int, are_changed: bool) -> KnownEnds:
        """The guides' distinct texts of the places from ``at`` on.

        ``are_changed``: with another text in the first or second of these places: a text that ends a string or a comment, or
        the guide's own text of the place before ``at``.
        """
        known = self._ends.get((at, are_changed))
        if known is None or known[0] != self._n_guides:
            rests = list(dict.fromkeys(tuple(guide[at:]) for guide in self.guides))
            if are_changed:
                found = self._changed(at, rests[:_FEW_GUIDES])
            else:
                found = {(b"", self._text_from(at, rest)): list(rest) for rest in rests if self._may_be(at, rest)}
            known = self._ends[at, are_changed] = self._n_guides, KnownEnds(self.tables, found)
        return known[1]

    def _changed(self, at: int, rests: Sequence[Sequence[bytes]]) -> dict[tuple[bytes, bytes], list[bytes]]:
        """:meth:`_ends_of_guides` with one place changed. The texts on either side of it are joined once."""
        own = [guide[at - 1] for guide in self.guides[:_FEW_GUIDES] if at]
        closings = dict.fromkeys([*own, *CLOSING_TOKENS, *REOPENING_TOKENS])
        tokens = [closing for closing in closings if self._is_token(closing)]
        found: dict[tuple[bytes, bytes], list[bytes]] = {}
        for i in range(min(2, len(self.places) - at)):
            place = self.places[at + i]
            for rest in rests:
                if not self._are_filled(at, rest[:i]) or not self._may_be(at + i + 1, rest[i + 1 :]):
                    continue
                before = self._text_from(at, rest[:i])
                behind = place.text + self._text_from(at + i + 1, rest[i + 1 :])
                for closing in tokens if place.is_slot else closings:
                    found.setdefault((before + closing, behind), [*rest[:i], closing, *rest[i + 1 :]])
        return found

    def _text_from(self, at: int, texts: Sequence[bytes]) -> bytes:
        """The texts of some places from ``at`` on, each with the fixed text behind it."""
        return b"".join(text + place.text for text, place in zip(texts, self.places[at:], strict=False))

    def _are_filled(self, at: int, texts: Sequence[bytes]) -> bool:
        """Whether texts of places from ``at`` on have a token for each slot."""
        places = self.places[at : at + len(texts)]
        return all(self._is_token(text) for text, place in zip(texts, places, strict=True) if place.is_slot)

    def _is_token(self, text: bytes) -> bool:
        """Whether a text is that of a token other than an end token."""
        ids, _ = self.tables.vocab.token_of
        token = ids.get(text, -1)
        return token >= 0 and token not in self.tables.vocab.eos_token_ids

    def _may_be(self, at: int, rest: Sequence[bytes]) -> bool:
        """Whether ``rest`` has a token for each slot from a place on, up to the end or to where the text may end."""
        ended = next((i for i, place in enumerate(self.places[at:]) if place.is_slot and not rest[i]), len(rest))
        may_end = ended == len(rest) or (self.places[at + ended].may_end and not any(rest[ended:]))
        return may_end and self._are_filled(at, rest[:ended])

    def before(self, part: int, most: int) -> list[tuple[int, list[bytes]]]:
        """Cursors before an open part, each with texts of the places left of it that lead there."""
        last = self._open.index(part)
        beam = Beam(self, 0, last, self._start)
        beam.run(most)
        return [(state.cursor, beam.texts(state)) for state in beam.reached]

    def opened(self, part: int, openings: Iterable[bytes]) -> list[tuple[int, list[bytes]]]:
        """:meth:`before` by guides in which one of the two places before the part has another text, one of ``openings``."""
        last = self._open.index(part)
        behind: defaultdict[tuple[int, int], dict[bytes, list[bytes]]] = defaultdict(dict)
        for guide in self.guides:  # behind[place, cursor]: the guides that lead there, by their texts behind the place
            path = self._path(guide[:last])
            for at in range(max(last - 2, 0), last):
                if path[at] and self._are_filled(at + 1, guide[at + 1 : last]):
                    behind[at, path[at]].setdefault(self._text_from(at + 1, guide[at + 1 : last]), guide)
        found: dict[int, list[bytes]] = {}
        tokens = [opening for opening in openings if self._is_token(opening)]
        for (at, cursor), guides in behind.items():
            ends = self.tables.step_all(np.array([cursor]), [text + self.places[at].text for text in tokens])[0]
            after = self.tables.step_all(ends, [*guides])
            for i, guide in enumerate(guides.values()):
                for number in np.flatnonzero(after[:, i]).tolist():
                    found.setdefault(int(after[number, i]), [*guide[:at], tokens[number], *guide[at + 1 : last]])
        return list(found.items())

    def _path(self, guide: list[bytes]) -> list[int]:
        """The cursors before each place along a guide, and behind the last one; 0 from where a slot has no token, or nothing is
        legal.
        """
        known = self._paths.get(tuple(guide))
        if known is None:
            n_filled = next((i for i in range(len(guide)) if not self._are_filled(i, guide[i : i + 1])), len(guide))
            trail = self.tables.trail(self._start, self._text_from(0, guide[:n_filled]))
            ends = itertools.accumulate((len(guide[i] + self.places[i].text) for i in range(n_filled)), initial=0)
            path = [trail[end] for end in ends]
            known = self._paths[tuple(guide)] = path + [0] * (len(guide) + 1 - len(path))
        return known

    def _search(self, first: int, cursor: int, most: int) -> list[bytes] | None:
        """A beam search: texts of the places from ``first`` on, from the cursor before it, within ``most`` states."""
        beam = Beam(self, first, len(self.places), cursor)
        found = beam.run(most)
        self._is_followed = not beam.is_waiting()
        return found

    def grant(self, work: int) -> None:
        """Give searches a new budget of work."""
        self._until = self.tables.work_left - work

    def limit(self, work: int) -> None:
        """Cut the budget of searches to at most so much work."""
        self._until = max(self._until, self.tables.work_left - work)

    @property
    def may_search(self) -> bool:
        """Whether searches have work left."""
        return self.tables.work_left > self._until

    def rest_from(self, at: int, cursor: int) -> list[bytes] | None:
        """The known texts of the places from ``at`` on, from the cursor before it; empty texts if the text may end there."""
        if at == len(self.places):
            return [] if self.tables.accepts_at(cursor) else None
        rest = self._known[at].get(cursor)
        if rest is None and self.places[at].may_end and self.tables.accepts_at(cursor):
            rest = [b""] * (len(self.places) - at)
        return rest

    def first_rest(self, at: int, cursors: list[int]) -> tuple[int, list[bytes]] | None:
        """The first of some cursors before a place from which texts of the places are known, or a guide's texts fit; with these
        texts.
        """
        if at == len(self.places):
            end = next((cursor for cursor in cursors if self.tables.accepts_at(cursor)), 0)
            return (end, []) if end else None
        if not (self.guides or self._known[at] or self.places[at].may_end):
            return None
        rests = self._guided(at, cursors, False).items()
        return next(((cursor, rest) for cursor, rest in rests if rest is not None), None)

    def note_rest(self, at: int, cursor: int, rest: list[bytes], is_learned: bool) -> None:
        """Remember texts that complete the text from a cursor before a place. ``is_learned``: also as a guide."""
        if at < len(self.places):
            self._known[at][cursor] = rest
        if is_learned and self.guides:
            self._learn([*self.guides[0][:at], *rest])

    def known_rest(self, at: int, cursor: int) -> list[bytes] | None:
        """:meth:`rest_from`, or a guide's texts that fit."""
        return self.known_rests(at, [cursor]).get(cursor)

    def known_rests(self, at: int, cursors: Iterable[int]) -> dict[int, list[bytes] | None]:
        """:meth:`known_rest` of each of some cursors that has one."""
        return self._guided(at, cursors, False)

    def moves_of_gap(self, at: int, cursor: int) -> list[tuple[bytes, int]]:
        """Texts that ended other gaps, with the cursors to which they lead, over the text behind the gap."""
        ways = self.ways(at, cursor)
        return [(ways.text(number), after) for number, after in self.led_on(at, ways)]

    def led_on(self, at: int, ways: Ways) -> list[tuple[int, int]]:
        """The ways after which the text behind the place may follow: (number of the way, cursor behind that text)."""
        after = self.tables.step_all(ways.cursors, [self.places[at].text])[:, 0]
        numbers = np.flatnonzero(after)
        return list(zip(numbers.tolist(), after[numbers].tolist(), strict=True))

    def place_of(self, part: int) -> int:
        """The number of an open part among the places."""
        return self._open.index(part)

    def on_guides(self, first: int, last: int) -> list[tuple[int, int, list[bytes]]]:
        """Cursors on guides: (place, cursor before it, texts of the places up to there), from place ``first`` to before
        ``last``.
        """
        found: dict[tuple[int, int], list[bytes]] = {}
        for guide in self.guides:
            path = self._path(guide[:last])
            for at in range(first, last):
                if path[at]:
                    found.setdefault((at, path[at]), guide[:at])
        return [(at, cursor, left) for (at, cursor), left in found.items()]

    def note(self, state: State, at: int, rest: list[bytes]) -> list[bytes]:
        """Remember texts that complete the text from a state, and so from all states before it; the texts from the first place
        of these on.
        """
        here: State | None = state
        while here is not None:
            if at < len(self.places):
                self._known[at][here.cursor] = rest
            if here.before is not None:
                at -= 1
                rest = [here.text, *rest]
            here = here.before
        if at and self.guides:
            self._learn([*self.guides[0][:at], *rest])
        return rest

    def _learn(self, guide: list[bytes]) -> None:
        """Learn a guide, ranked behind that of :meth:`remember`."""
        if guide in self.guides:
            return
        self.guides[1:] = [guide, *self.guides[1 : _MOST_GUIDES - 1]]
        self._n_guides += 1
        self.n_learned += 1

    def prefer(self, guide: list[bytes]) -> None:
        """Rank a guide that proved much before all others but that of :meth:`remember`."""
        if guide in self.guides[:1]:
            return
        others = [other for other in self.guides[1:] if other != guide]
        self._n_guides += len(others) >= len(self.guides) - 1
        self.guides[1:] = [guide, *others[: _MOST_GUIDES - 2]]

    def ways(self, at: int, cursor: int) -> Ways:
        """What a place may be filled with from a cursor: classes of tokens, large ones first; in a gap, texts that ended other
        gaps.
        """
        if self.places[at].is_slot:
            known = self._tokens.get(cursor)
            if known is None:
                self.tables.arena.spend(_TOKEN_WORK * self.tables.vocab.size)
                found = self.tables.token_successors(cursor)
                order = np.argsort(-found.sizes, kind="stable")
                texts, size = self.tables.vocab.tokens, int(found.sizes.sum())
                known = self._tokens[cursor] = Ways(found.cursors[order], texts, found.firsts[order], size)
            return known
        endings = [b"", *self.tables.gap_texts.texts]
        after = self.tables.step_all(np.array([cursor], np.int64), endings)[0].tolist()
        first = dict(zip(reversed(after), reversed(endings), strict=True))  # per cursor: the first text that leads there
        first.pop(0, None)
        cursors = list(reversed(first))
        return Ways(np.array(cursors, np.int64), [first[end] for end in cursors], range(len(first)), len(first))
