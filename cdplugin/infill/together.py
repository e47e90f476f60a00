"""Fillings of slots looked for from many cursors at once, by few tokens.

The tokens that may come in a slot lead to hundreds of cursors. A search from each by itself follows the same states again: what
they lead to is one cursor a few places on (behind ``(a`` and ``(b``, once ``)`` has come). So all are followed together, each
state once, and where the end is found, all that led to it are proven.

A state is followed by few tokens: short ones without letters and digits, and those of the canvas itself, which has the words
of the language. One call of a kernel (:mod:`cdplugin.infill.text_tree`) tells what they lead to, up to behind the text that
comes next; the classes of all tokens, and where each of them leads on, take fifty times as long.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.infill.openings import CLOSING_TOKENS, OPENING_TOKENS
from cdplugin.infill.text_tree import TextTree

if TYPE_CHECKING:
    from cdplugin.infill.canvases import Canvas
    from cdplugin.infill.tables import InfillGrammar
    from cdplugin.infill.witness import Witness

_MOST_BYTES = 3  # of the tokens without letters
_STATE_WORK, _MOVE_WORK = 20_000, 400
"""Units of work of a state, and of each cursor that it leads to, besides what kernels count."""
_WORK, _WORK_OF_A_TOKEN = 1 << 18, 1600  # of a search, and for each token in doubt
FEW_TOGETHER = 64  # in doubt: they are not searched for
_WORDS = (b" a", b"a", b" 0", b"0", b" A", b"A")


def work_for(n_tokens: int) -> int:
    """Units that a search for tokens in doubt may take."""
    return _WORK + _WORK_OF_A_TOKEN * n_tokens


def short_tokens(tables: InfillGrammar) -> list[bytes]:
    """The tokens of few bytes, none of them a letter, a digit or beyond ASCII."""
    vocab = tables.vocab
    beyond = np.ones(256, bool)
    beyond[[byte for byte in range(128) if not chr(byte).isalnum()]] = False
    n_beyond = np.concatenate((np.zeros(1, np.int64), np.cumsum(beyond[vocab.token_bytes])))
    are_short = (np.diff(n_beyond[vocab.token_offsets]) == 0) & (np.diff(vocab.token_offsets) <= _MOST_BYTES)
    texts = (vocab.tokens[token] for token in np.flatnonzero(are_short).tolist())
    return [text for text in texts if text]


class FewTokens:
    """Tokens by which states are followed. ``texts``: of those, the ones first that are taken first."""

    def __init__(self, tables: InfillGrammar, texts: Iterable[bytes]) -> None:
        ids, _ = tables.vocab.token_of
        ends = tables.vocab.eos_token_ids
        whole = dict.fromkeys([*_WORDS, *texts, *OPENING_TOKENS, *CLOSING_TOKENS, *tables.short_tokens])
        self._texts = [text for text in whole if text and ids.get(text, -1) >= 0 and ids[text] not in ends]
        self._tables = tables
        self.arena = tables.arena
        self._tree = TextTree(tables)
        self._ends = np.array([self._tree.path(text)[-1] for text in self._texts], np.int64)

    def moves(self, cursor: int, behind: bytes) -> list[tuple[bytes, int]]:
        """Where they lead from a cursor, up to behind a text that follows: the first token for each cursor."""
        ends = self._tree.cursors(cursor)[self._ends]
        hits = np.flatnonzero(ends)
        numbers = hits[np.sort(np.unique(ends[hits], return_index=True)[1])]  # the first token for each cursor
        after = self._tables.step_all(ends[numbers], [behind])
        found: dict[int, bytes] = {}
        for number, end in zip(numbers.tolist(), after[:, 0].tolist(), strict=True):
            found.setdefault(end, self._texts[number])
        found.pop(0, None)
        self._tables.arena.spend(_STATE_WORK + _MOVE_WORK * len(found))
        return [(text, end) for end, text in found.items()]


def filled_together(canvas: Canvas, few: FewTokens, most: int) -> Witness | None:
    """A text that the parts of a canvas can become; None if none was found when ``most`` states had been followed."""
    search = Together(canvas, few)
    for left, cursor in canvas.beginnings():
        search.add(len(left), cursor, left, n_tokens=1)
    search.run(most)
    found = ((left, canvas.rest_from(len(left), cursor)) for left, cursor in canvas.beginnings() if cursor)
    return next((canvas.as_witness(left + rest) for left, rest in found if rest is not None), None)


class Together:
    """A search from many cursors, all before the places from ``first`` on, to the end of the text or up to the place ``last``.

    ``few``: the tokens that are followed.
    """

    def __init__(self, canvas: Canvas, few: FewTokens, last: int | None = None) -> None:
        self._canvas = canvas
        self._few = few
        self._places = canvas.places
        self._is_whole = last is None
        self._last = len(canvas.places) if last is None else last
        self._waiting: defaultdict[int, list[tuple[float, int, int]]] = defaultdict(list)  # by place: rank, serial, cursor
        self._led: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
        """By place and cursor: the cursors before, each with the text between."""
        self._left: dict[tuple[int, int], list[bytes]] = {}  # of those from which the search begins: the texts before them
        self._sizes: dict[tuple[int, int], int] = {}  # of those that are not proven: how many tokens led there
        self._n_tokens = self._n_asked = 0  # of all of them, and of those that were proven, too
        self._put_off: set[tuple[int, int]] = set()  # not followed, since all that led there was proven
        self.reached: list[tuple[int, list[bytes]]] = []
        """Cursors before the last place, each with the texts of the places from the first one on that lead there."""

    def add(self, at: int, cursor: int, left: list[bytes] | None = None, n_tokens: int = 0) -> None:
        """Begin at a cursor before a place, too; those that were added before come first. ``left``: what the places before are
        filled with. ``n_tokens``: the tokens in doubt that lead there; when most of them are proven, the search ends.
        """
        if cursor and (at, cursor) not in self._led:
            self._left[at, cursor] = left or []
            self._sizes[at, cursor] = n_tokens
            self._n_tokens += n_tokens
            self._n_asked += n_tokens
            rest = self._canvas.known_rest(at, cursor) if self._is_whole else None
            self._enter(at, cursor, math.log2(len(self._left)), rest)

    def run(self, most: int) -> None:
        """Follow so many states, those of the earliest places and of least rank first, then twice as many of each place."""
        self._limit()
        width = 1
        while most > 0 and self._canvas.may_search:
            before = most
            for at in range(self._last):
                if self._waiting[at]:
                    most -= self._follow(at, min(width, most))
            if most == before:
                break
            width *= 2

    def _follow(self, at: int, most: int) -> int:
        """Follow states before a place; returns how many."""
        waiting = self._waiting[at]
        n_followed = 0
        while waiting and n_followed < most and self._canvas.may_search:
            rank, _, cursor = heapq.heappop(waiting)
            if self._is_whole and self._is_proven(at, cursor):
                self._put_off.add((at, cursor))
                continue
            n_followed += 1
            place = self._places[at]
            moves = self._few.moves(cursor, place.text) if place.is_slot else self._canvas.moves_of_gap(at, cursor)
            new = [after for _, after in moves if (at + 1, after) not in self._led]
            rests = self._canvas.known_rests(at + 1, new) if self._is_whole else {}
            for n, (text, after) in enumerate(moves):
                key = at + 1, after
                is_new = key not in self._led
                self._led.setdefault(key, []).append((cursor, text))
                rest = rests.get(after) if is_new or not self._is_whole else self._canvas.rest_from(*key)
                if rest is not None:
                    self._prove(*key, rest)
                    self._limit()
                elif is_new or key in self._put_off:
                    self._put_off.discard(key)
                    self._enter(*key, rank + math.log2(1 + n))
        return n_followed

    def _enter(self, at: int, cursor: int, rank: float, rest: list[bytes] | None = None) -> None:
        """Take in a state that is to be followed. ``rest``: what leads on from it, if that is known."""
        self._led.setdefault((at, cursor), [])
        if rest is not None:
            self._prove(at, cursor, rest)
        elif at < self._last:
            heapq.heappush(self._waiting[at], (rank, len(self._led), cursor))
        elif not self._is_whole:
            self.reached.append((cursor, self._texts(at, cursor)))

    def _is_proven(self, at: int, cursor: int) -> bool:
        """Whether all that led to a state is known to lead to the end."""
        before = self._led[at, cursor]
        if (at, cursor) in self._left:
            return self._canvas.rest_from(at, cursor) is not None
        return all(self._canvas.rest_from(at - 1, other) is not None for other, _ in before)

    def _prove(self, at: int, cursor: int, rest: list[bytes]) -> None:
        """Note what leads on from a state, and so from all before it."""
        pending = [(at, cursor, rest)]
        is_learned = False
        while pending:
            at, cursor, rest = pending.pop()
            self._canvas.note_rest(at, cursor, rest, not is_learned and (at, cursor) in self._left)
            is_learned = is_learned or (at, cursor) in self._left
            self._n_tokens -= self._sizes.pop((at, cursor), 0)
            for other, text in self._led[at, cursor]:
                if self._canvas.rest_from(at - 1, other) is None:
                    pending.append((at - 1, other, [text, *rest]))

    def _limit(self) -> None:
        """Once tokens are proven, let the search for the others take no more than they are worth."""
        if self._n_tokens < self._n_asked:
            self._canvas.limit(work_for(self._n_tokens) if self._n_tokens > FEW_TOGETHER else 0)

    def _texts(self, at: int, cursor: int) -> list[bytes]:
        """What the places before a state are filled with."""
        texts: list[bytes] = []
        while (at, cursor) not in self._left:
            cursor, text = self._led[at, cursor][0]
            at -= 1
            texts.append(text)
        return [*self._left[at, cursor], *reversed(texts)]
