"""Fillings looked for with the matcher, where the lattice does not know (lexemes that compete).

A *place* is a cursor of the matcher, after some filling of what lies left of it, before an open part. Fillings that lead to the
same cursor have the same future, so the search goes through cursors, the shortest fillings first. The loose lattice says where
nothing can come of it, and the strict one where something surely can. The search ends where the grammar has few cursors; with
nesting they are without number, so at most :data:`MOST_PLACES` are looked at, and for at most :data:`MOST_WORK`: what was not
found by then is not known.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cdplugin.errors import LimitExceeded
from cdplugin.infill.parts import Part

if TYPE_CHECKING:
    from cdplugin.infill.answers import Answers

MOST_PLACES = 400  # that a search for one answer looks at
MOST_WORK = 1 << 17  # of its lattices (:attr:`Answers.work`): half a second or so
_PLACE_WORK = 5000  # units of work of a place, besides what is counted elsewhere
MOST_TOKENS = 256  # cursors that one slot is followed to


class SearchGivenUp(LimitExceeded):
    """Whether there is a filling is not known."""


class _Place(NamedTuple):
    """A place on the agenda; they are ordered by the bytes and tokens that were filled in."""

    cost: int
    serial: int
    at: int  # the part that comes next
    cursor: int
    text: bytes
    fillings: tuple[bytes, ...]  # of the gaps so far; the last one's may go on


class Search:
    """One search, or several that share a budget of work. Each raises :class:`SearchGivenUp` where it crosses a limit.

    ``until``: where :attr:`Answers.work` ends them all.
    """

    def __init__(self, answers: Answers, most_work: int = MOST_WORK) -> None:
        self._answers = answers
        self._tables = answers.tables
        self.until = answers.work + most_work
        # of the last answer: some ways to fill a slot were left out, or may have been; a text was spelled
        self._is_cut = self._is_spelled = False
        self.filled: list[bytes] | None = None
        """What the open gaps were filled with to find the last answer, if they were."""

    def finds(self, parts: Sequence[Part]) -> bool:
        """Whether there is some filling."""
        found = self._run(parts, False)
        self.filled = found if self._is_spelled else None
        return found is not None

    def fillings(self, parts: Sequence[Part]) -> list[bytes] | None:
        """A filling of each open gap of parts without open slots; None if none is found."""
        return self._run(parts, True)

    def _run(self, parts: Sequence[Part], in_full: bool) -> list[bytes] | None:
        self._is_cut = self._is_spelled = False
        last = self._answers.length(parts)
        if last is None:
            return None
        parts = _apart(parts[:last])
        serial = itertools.count()
        seen: set[tuple[int, int]] = set()
        agenda: list[_Place] = []
        following = [_Place(0, 0, 0, self._tables.start, b"", ())]
        until = min(self.until, self._answers.work + MOST_WORK)
        for n_places in itertools.count():
            for place in following:
                place = self._pass_fixed(parts, place)
                if place.cursor == 0 or (place.at, place.cursor) in seen:
                    continue
                if self._may_end(parts, place.at) and self._tables.accepts_at(place.cursor):
                    return [*place.fillings, *(b"" for part in parts[place.at + 1 :] if part.gap)]
                seen.add((place.at, place.cursor))
                if place.at < len(parts):
                    heapq.heappush(agenda, place._replace(serial=next(serial)))
            if not agenda:
                break
            if n_places >= MOST_PLACES or self._answers.work >= until:
                raise unknown(f"at most {MOST_PLACES} places, and {MOST_WORK} for lattices")
            self._tables.arena.spend(_PLACE_WORK)
            place = heapq.heappop(agenda)
            rest = [Part(place.text), *parts[place.at :]]
            following = []
            if self._answers.build(rest, loose=True):
                found = self._by_lattice(rest, in_full, n_places)
                if found is not None:
                    if parts[place.at].gap and found:
                        found[0] = place.fillings[-1] + found[0]
                        return [*place.fillings[:-1], *found]
                    return [*place.fillings, *found]
                following = list(self._moves(parts, place))
            elif self._answers.is_planned_short(rest):
                self._is_cut = True
        if self._is_cut:
            raise unknown(f"at most {MOST_TOKENS} ways to fill a slot, and slots that are planned with all classes of tokens")
        return None

    def _pass_fixed(self, parts: Sequence[Part], place: _Place) -> _Place:
        """Go on to the next open part."""
        _, _, at, cursor, text, fillings = place
        while at < len(parts) and not parts[at].is_open and cursor:
            text += parts[at].text
            cursor = self._tables.step(cursor, parts[at].text)
            at += 1
        if at < len(parts) and parts[at].gap and len(fillings) <= sum(part.gap for part in parts[:at]):
            fillings = (*fillings, b"")  # the gap is new
        return place._replace(at=at, cursor=cursor, text=text, fillings=fillings)

    def _by_lattice(self, parts: Sequence[Part], in_full: bool, n_places: int) -> list[bytes] | None:
        """What the lattices know of: fillings, if there are no open slots and the matcher accepts them; or, if they are not
        wanted in full, nothing in particular.

        What the loose lattice spells is put to the matcher before the first place, and each time that twice as many were
        looked at.
        """
        has_slots = any(part.slot and part.is_open for part in parts)
        if not in_full or has_slots:
            if self._answers.build(parts, keep=False):
                return None if in_full else []
        elif (found := self._answers.spelled(parts)) is not None:
            return found
        if has_slots or n_places & (n_places - 1):
            return None
        found = self._answers.spelled(parts, self._tables.loose)
        self._is_spelled = found is not None
        return found

    def _may_end(self, parts: Sequence[Part], at: int) -> bool:
        """Whether the text may end before an open part: behind it come only gaps or, where end tokens fill the rest, slots."""
        return all(part.is_open and (part.gap or self._answers.padded) for part in parts[at:])

    def _moves(self, parts: Sequence[Part], place: _Place) -> Iterator[_Place]:
        """What the next part, an open one, may become."""
        cost, serial, at, cursor, text, fillings = place
        if parts[at].gap:
            yield place._replace(at=at + 1)
            for byte, after in self._tables.successors(cursor):
                longer = (*fillings[:-1], fillings[-1] + bytes([byte]))
                yield _Place(cost + 1, serial, at, after, text + bytes([byte]), longer)
            return
        ways = self._tables.token_successors(cursor)
        self._is_cut = self._is_cut or len(ways.firsts) > MOST_TOKENS
        for token, after in zip(ways.firsts[:MOST_TOKENS].tolist(), ways.cursors[:MOST_TOKENS].tolist(), strict=True):
            filling = self._tables.vocab.tokens[token] or b""
            yield _Place(cost + 1, serial, at + 1, after, text + filling, fillings)


def unknown(expected: str) -> SearchGivenUp:
    """The error where a limit is crossed."""
    return SearchGivenUp("infilling: lexemes compete, and whether a legal filling exists was not found out", expected=expected)


def _apart(parts: Sequence[Part]) -> list[Part]:
    """The same, with what was inserted in gaps apart."""
    out: list[Part] = []
    for part in parts:
        if part.is_open and part.text:
            out += [Part(part.text), Part(gap=True)]
        elif part.gap and part.closed:
            out.append(Part(part.text))
        else:
            out.append(part)
    return out
