"""A search for fillings of slots from many cursors at once, with few tokens.

The tokens that may come in a slot lead to hundreds of cursors. Searches from each of them would follow the same states again,
since their paths soon meet (behind ``(a`` and ``(b``, once ``)`` has come). So all are followed in one search, each state once,
and when the end is found, all cursors that led to it are proven.

States are followed with few tokens: short ones without letters and digits, and those of the canvas itself, which has the words
of the language. One kernel call (:mod:`cdplugin.infill.text_tree`) finds where they lead, over the text that comes next;
classifying all tokens and following each class takes fifty times as long.
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

_MOST_BYTES = 3  # of the short tokens
_STATE_WORK, _MOVE_WORK = 20_000, 400
"""Units of work of a state, and of each cursor to which it leads, besides what kernels count."""
_WORK, _WORK_OF_A_TOKEN = 1 << 18, 1600  # of a search, and for each token in doubt
FEW_TOGETHER = 64  # so many tokens in doubt are not searched for
_WORDS = (b" a", b"a", b" 0", b"0", b" A", b"A")


def work_for(n_tokens: int) -> int:
    """The budget of work of a search for so many tokens in doubt."""
    return _WORK + _WORK_OF_A_TOKEN * n_tokens


def short_tokens(tables: InfillGrammar) -> list[bytes]:
    """The texts of the tokens of few bytes, all ASCII and none of them a letter or a digit."""
    vocab = tables.vocab
    beyond = np.ones(256, bool)
    beyond[[byte for byte in range(128) if not chr(byte).isalnum()]] = False
    n_beyond = np.concatenate((np.zeros(1, np.int64), np.cumsum(beyond[vocab.token_bytes])))
    are_short = (np.diff(n_beyond[vocab.token_offsets]) == 0) & (np.diff(vocab.token_offsets) <= _MOST_BYTES)
    texts = (vocab.tokens[token] for token in np.flatnonzero(are_short).tolist())
    return [text for text in texts if text]


class FewTokens:
    """The tokens with which states are followed, in the order in which they are tried. ``texts``: those of the canvas."""

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
        """The distinct cursors to which they lead from a cursor, over the text ``behind``, as (first such token, cursor)."""
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
    """A witness of a canvas's parts; None if none was found within ``most`` states."""
    search = Together(canvas, few)
    for left, cursor in canvas.beginnings():
        search.add(len(left), cursor, left, n_tokens=1)
    search.run(most)
    found = ((left, canvas.rest_from(len(left), cursor)) for left, cursor in canvas.beginnings() if cursor)
    return next((canvas.as_witness(left + rest) for left, rest in found if rest is not None), None)


class Together:
    """A search from many cursors, before any places, to the end of the text, or up to the place ``last``.

    ``few``: the tokens with which states are followed. :meth:`add` the cursors, then :meth:`run`.
    """

    def __init__(self, canvas: Canvas, few: FewTokens, last: int | None = None) -> None:
        self._canvas = canvas
        self._few = few
        self._places = canvas.places
        self._is_whole = last is None
        self._last = len(canvas.places) if last is None else last
        self._waiting: defaultdict[int, list[tuple[float, int, int]]] = defaultdict(list)  # by place: rank, serial, cursor
        self._led: dict[tuple[int, int], list[tuple[int, bytes]]] = {}
        """By place and cursor: the cursors at the place before that lead there, each with the text between."""
        self._left: dict[tuple[int, int], list[bytes]] = {}  # of the cursors that were added: the texts before them
        self._sizes: dict[tuple[int, int], int] = {}  # of the added cursors not proven yet: how many tokens led there
        self._n_tokens = self._n_asked = 0  # tokens not proven yet, and all tokens
        self._put_off: set[tuple[int, int]] = set()  # not followed, since all states that lead there were proven
        self.reached: list[tuple[int, list[bytes]]] = []
        """Cursors before the last place, each with the texts of the places from the first one on that lead there."""

    def add(self, at: int, cursor: int, left: list[bytes] | None = None, n_tokens: int = 0) -> None:
        """Add a cursor before a place to begin at; earlier ones come first.

        ``left``: texts of the places before. ``n_tokens``: how many tokens in doubt lead there; when most of all of these are
        proven, the search ends.
        """
        if cursor and (at, cursor) not in self._led:
            self._left[at, cursor] = left or []
            self._sizes[at, cursor] = n_tokens
            self._n_tokens += n_tokens
            self._n_asked += n_tokens
            rest = self._canvas.known_rest(at, cursor) if self._is_whole else None
            self._enter(at, cursor, math.log2(len(self._left)), rest)

    def run(self, most: int) -> None:
        """Follow at most ``most`` states: one of each place, then two, then four, each time those of least rank."""
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
        """Follow states before a place; how many."""
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
        """Enter a state to be followed. ``rest``: texts that complete the text from it, if they are known."""
        self._led.setdefault((at, cursor), [])
        if rest is not None:
            self._prove(at, cursor, rest)
        elif at < self._last:
            heapq.heappush(self._waiting[at], (rank, len(self._led), cursor))
        elif not self._is_whole:
            self.reached.append((cursor, self._texts(at, cursor)))

    def _is_proven(self, at: int, cursor: int) -> bool:
        """Whether all states that lead to a state are proven, so that following it proves nothing."""
        before = self._led[at, cursor]
        if (at, cursor) in self._left:
            return self._canvas.rest_from(at, cursor) is not None
        return all(self._canvas.rest_from(at - 1, other) is not None for other, _ in before)

    def _prove(self, at: int, cursor: int, rest: list[bytes]) -> None:
        """Remember texts that complete the text from a state, and so from all states that lead to it."""
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
        """Once some tokens are proven, cut the budget to what the others are worth."""
        if self._n_tokens < self._n_asked:
            self._canvas.limit(work_for(self._n_tokens) if self._n_tokens > FEW_TOGETHER else 0)

    def _texts(self, at: int, cursor: int) -> list[bytes]:
        """Texts of the places before a state that lead to it."""
        texts: list[bytes] = []
        while (at, cursor) not in self._left:
            cursor, text = self._led[at, cursor][0]
            at -= 1
            texts.append(text)
        return [*self._left[at, cursor], *reversed(texts)]
