"""Fillings of many slots, found by the matcher from left to right.

On a canvas of a diffusion model a slot may stand beside every other token. What forty slots do to the lattices of a large
grammar takes seconds to find; where the matcher gets by a slot takes a millisecond. So it goes from place to place: before each
are *states*, cursors with the texts that led there, and a state leads on by each class of tokens with the same future, if the
text behind the place may follow. Texts with the same cursor have the same future, so one of them is kept.

``if x□ 1□``: ``x`` goes on with ``=`` or a name or ``(`` …; of these, ``(`` leads to a state behind which ``):`` ends the line.

Nothing tells which states lead to the end, so this is a beam search that widens until one does (Zhang, 1998, "Complete anytime
beam search"): of each place one state is followed, then two, then four. States at which just as many tokens may come, say
in strings in whatever brackets, are mostly of one kind: no more of a kind are followed than the beam is wide. First come those
that were reached by the largest classes of tokens (a name, a space), which change least. What is found is right; that nothing
was found says nothing.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from cdplugin.infill.parts import Part, laid_out
from cdplugin.infill.witness import Witness

if TYPE_CHECKING:
    from cdplugin.infill.tables import InfillGrammar

_MOST_OF_A_KIND = 32  # states that are put off one after another, since others of their kind were followed
_DECAY = 0.9  # what was chosen at a place counts by so much at the next one
_MOST_WORK = 1 << 27  # units of work of all searches on a canvas: about a second
_TOKEN_WORK, _WAY_WORK = 2, 100  # of each token that is classed, and of each class, besides what kernels count


class _State(NamedTuple):
    """A state before a place: its cursor, the state before and what the place between was filled with. They are ordered by the
    choices that led there.
    """

    rank: float
    serial: int
    cursor: int
    before: _State | None
    text: bytes


class _Place(NamedTuple):
    """An open place: whether it takes a token, whether the text may end before it, and the text behind it."""

    is_slot: bool
    may_end: bool
    text: bytes


class Canvas:
    """The open places of a text, to be filled; of parts before the first end token. The caller holds the lock of ``tables``."""

    def __init__(self, tables: InfillGrammar, parts: Sequence[Part], padded: bool) -> None:
        self._tables = tables
        self._parts = parts
        self._open = [i for i, part in enumerate(parts) if part.is_open]
        before, elements, _ = laid_out(parts, padded)
        self._begun: tuple[list[bytes], int] = [], tables.step(tables.start, before)  # texts of places, and the cursor there
        self._until = tables.work_left - _MOST_WORK
        self._tokens: dict[int, list[tuple[bytes, int, int]]] = {}  # what is known for ``_ways``
        self._places: list[_Place] = []
        for count, text in elements:
            if count is None:
                self._places.append(_Place(False, False, text))
            elif count < 0:
                self._places += [_Place(True, True, b"")] * (-1 - count)
            else:
                self._places += [_Place(True, False, b"")] * (count - 1) + [_Place(True, False, text)]
        # by place and the cursor before it: texts of the places from there on
        self._known: list[dict[int, list[bytes]]] = [{} for _ in self._places]

    def remember(self, parts: Sequence[Part], witness: Witness) -> None:
        """Take in a text that parts could become which may differ in a few from these: where they are the same on the left, the
        search begins with it, and where they are on the right it has come to its end when it meets it.
        """
        if len(parts) < len(self._parts):
            return
        others = [i for i, part in enumerate(self._parts) if part is not parts[i]]
        first, last = (others[0], others[-1]) if others else (len(self._parts), -1)
        tokens, ends = self._tables.vocab.tokens, self._tables.vocab.eos_token_ids
        fillings: list[bytes] = []  # of all parts, up to the first end token
        for found in witness[: len(self._parts)]:
            if isinstance(found, int) and found in ends:
                break
            fillings.append(tokens[found] or b"" if isinstance(found, int) else found or b"")
        of_places = [fillings[i] if i < len(fillings) else b"" for i in self._open]
        cursor = self._tables.start
        for i, filling in enumerate(fillings):
            cursor = self._tables.step(cursor, parts[i].text)
            if cursor and i > last and self._parts[i].is_open:
                at = self._open.index(i)
                self._known[at][cursor] = of_places[at:]
            cursor = self._tables.step(cursor, filling)
        if len(fillings) >= first:
            n_left = sum(i < first for i in self._open)
            until = self._open[n_left] + 1 if n_left < len(self._open) else len(self._parts)
            same = b"".join(parts[i].text + fillings[i] for i in range(first))
            changed = b"".join(part.text for part in self._parts[first:until])
            self._begun = of_places[:n_left], self._tables.step(self._tables.start, same + changed)

    def witness(self, most: int) -> Witness | None:
        """A text that the parts can become; None if none was found when ``most`` states had been followed."""
        left, cursor = self._begun
        rest = self._search(len(left), cursor, most // 8 if left else most)
        if rest is None and left:
            left, cursor = [], self._tables.step(self._tables.start, laid_out(self._parts)[0])
            rest = self._search(0, cursor, most)
        if rest is None:
            return None
        ids, _ = self._tables.vocab.token_of
        ends = self._tables.vocab.eos_token_ids
        out: Witness = [None] * len(self._parts)
        for i, place, text in zip(self._open, self._places, left + rest, strict=True):
            out[i] = (ids[text] if text else ends[0]) if place.is_slot else text
            if place.is_slot and text and out[i] in ends:  # an end token that is spelled as this one
                return None
        return out

    def behind(self, part: int, cursor: int, most: int) -> list[bytes] | None:
        """Texts of the places behind an open part, from the cursor at its end; None if none were found."""
        at = self._open.index(part)
        return self._search(at + 1, self._tables.step(cursor, self._places[at].text), most)

    def _search(self, first: int, cursor: int, most: int) -> list[bytes] | None:
        """The texts of the places from one on, from the cursor before it, by following at most so many states."""
        n_places = len(self._places)
        if first == n_places:
            return [] if cursor and self._tables.accepts_at(cursor) else None
        layers: list[list[_State]] = [[] for _ in range(n_places + 1)]
        followed: list[Counter[int]] = [Counter() for _ in range(n_places)]
        seen = {(first, cursor)}
        layers[first].append(_State(0.0, 0, cursor, None, b""))
        width = 1
        until = self._until
        while most > 0 and cursor and self._tables.work_left > until:
            n_before = most
            for at in range(first, n_places):
                waiting = layers[at]
                put_off: list[_State] = []
                n_here = 0
                while (
                    waiting
                    and n_here < 2 * width
                    and len(put_off) < _MOST_OF_A_KIND
                    and most > 0
                    and self._tables.work_left > until
                ):
                    state = heapq.heappop(waiting)
                    known = self._known[at].get(state.cursor)
                    if known is None and self._places[at].may_end and self._tables.accepts_at(state.cursor):
                        known = [b""] * (n_places - at)
                    if known is not None:
                        return self._note(state, at, known)
                    ways = self._ways(at, state.cursor)
                    kind = sum(size for _, _, size in ways)
                    if followed[at][kind] == width:
                        put_off.append(state)
                        continue
                    followed[at][kind] += 1
                    n_here += 1
                    most -= 1
                    self._tables.arena.spend(_WAY_WORK * len(ways))
                    text = self._places[at].text
                    n_after = 0
                    for filling, end, _ in ways:
                        after = self._tables.step(end, text) if text else end
                        if after == 0 or (at + 1, after) in seen:
                            continue
                        seen.add((at + 1, after))
                        rank = _DECAY * state.rank + math.log2(1 + n_after)
                        n_after += 1
                        following = _State(rank, len(seen), after, state, filling)
                        if at + 1 == n_places:
                            if self._tables.accepts_at(after):
                                return self._note(following, at + 1, [])
                        elif after in self._known[at + 1]:
                            return self._note(following, at + 1, self._known[at + 1][after])
                        else:
                            heapq.heappush(layers[at + 1], following)
                for state in put_off:
                    heapq.heappush(waiting, state)
            if most == n_before:
                break
            width *= 2
        return None

    def _note(self, state: _State, at: int, rest: list[bytes]) -> list[bytes]:
        """Note what leads on from a state before a place, and so from all before it; returns it from the first one on."""
        here: _State | None = state
        while here is not None:
            if at < len(self._places):
                self._known[at][here.cursor] = rest
            at -= 1
            if here.before is not None:
                rest = [here.text, *rest]
            here = here.before
        return rest

    def _ways(self, at: int, cursor: int) -> list[tuple[bytes, int, int]]:
        """What a place may be filled with: for each cursor that this leads to, the text of one token before it, and how many
        tokens do behind it. The largest classes come first. A gap is ended by texts that ended others.
        """
        if self._places[at].is_slot:
            known = self._tokens.get(cursor)
            if known is None:
                self._tables.arena.spend(_TOKEN_WORK * self._tables.vocab.size)
                known = self._tokens[cursor] = sorted(self._tables.token_successors(cursor), key=lambda way: -way[2])
            return known
        found: dict[int, bytes] = {}
        for text in (b"", *self._tables.rests.texts):
            if after := self._tables.step(cursor, text):
                found.setdefault(after, text)
        return [(text, after, 1) for after, text in found.items()]
