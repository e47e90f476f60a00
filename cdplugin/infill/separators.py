"""Texts of skips that nothing continues, like ``/**/``, and what a skip may cover.

One pass over the lexer of all lexemes together is enough: a text that ends all of them ends any set of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_members
from cdplugin.infill.room import Room
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout

if TYPE_CHECKING:
    from cdplugin.infill.tables import InfillGrammar

_MOST_OPENINGS = 4  # states in which a cover may begin
_PREFERRED = np.array(sorted(range(256), key=lambda byte: (byte != 32, byte != 10, byte < 32, byte)))
"""Bytes in the order in which separators prefer them."""


@dataclass(frozen=True)
class Separators:
    """What a grammar's skips are good for in gaps.

    ``texts``: one of them fits between any two lexemes that may follow each other; none if there are no such texts. ``cover``:
    what may lie inside of one, if there are any and the grammar has one skip.
    """

    texts: list[bytes]
    cover: Cover | None = None

    @classmethod
    def of(cls, tables: InfillGrammar) -> Separators:
        """Those of a grammar. All lexemes compete in one lexer, whose states are visited. A skip is a separator if no byte
        continues it, or if every byte that does can be kept away by a separator after it.
        """
        work = tables.workspace
        lexemes = tables.arena.lexemes
        skips = np.flatnonzero(lexemes[:, layout.X_IS_SKIP])
        words = int(work.header[ws.W_SET])
        follows = np.bitwise_or.reduce(work.tables[ws.FOLLOWS][: len(lexemes) * words].reshape(-1, words), axis=0)
        later = bit_members(follows, len(lexemes))
        if (lexemes[:, layout.X_KIND] == layout.EXACT).any() or len(skips) == 0 or (lexemes[later, layout.X_SKIP] < 0).any():
            return cls([])
        lexer = _Lexer(tables, tables.start_state(np.union1d(later, skips)), skips)
        lacking = lexer.matched.copy()
        chosen = []
        for byte, text in sorted(lexer.separators.items(), key=lambda item: (len(item[1]), item[0])):
            if (lacking & ~lexer.goes[:, byte]).any():
                chosen.append(text)
                lacking &= lexer.goes[:, byte]
        if lacking.any() or not Room(tables).begins_apart({text[0] for text in chosen}):
            return cls([])
        return cls(chosen, lexer.cover() if len(skips) == 1 else None)


class Cover:
    """Tells whether a separator may contain a text, as ``/* x = 1; */`` contains C++. It may say no where one does.

    ``after``: int64 ``(states, 256)``, the states of the lexer inside a skip: the state after a byte, -1 where the skip does
    not go on. ``ends``: whether a separator can end from a state.
    """

    def __init__(self, after: np.ndarray, ends: np.ndarray) -> None:
        stays = after == np.arange(len(after))[:, None]
        self._openings = sorted(np.flatnonzero(ends).tolist(), key=lambda state: -int(stays[state].sum()))[:_MOST_OPENINGS]
        self._after = after.tolist()
        self._ends = ends.tolist()
        self._runs = [_run_of(np.flatnonzero(row).tolist()) for row in stays]  # of bytes that keep a state

    def takes(self, text: bytes) -> bool:
        """Whether some separator contains the text."""
        return any(self._takes_from(state, text) for state in self._openings)

    def _takes_from(self, state: int, text: bytes) -> bool:
        at = 0
        while (found := self._runs[state].match(text, at)) and (at := found.end()) < len(text):
            state = self._after[state][text[at]]
            at += 1
            if state < 0:
                return False
        return bool(self._ends[state])


def _run_of(members: list[int]) -> re.Pattern[bytes]:
    return re.compile(b"[" + b"".join(b"\\x%02x" % byte for byte in members) + b"]*" if members else b"")


class _Lexer:
    """All states that some text leads to from a lexer state, numbered from that one, 0.

    ``goes[i, byte]``: whether a byte does not end what matches in state i: it continues it, or is its fence. ``matched[i]``,
    ``skipped[i]``: whether lexemes match, and skips among them. ``separators``: per first byte, a shortest one.
    """

    def __init__(self, tables: InfillGrammar, start: int, skips: np.ndarray) -> None:
        arena = tables.arena
        states = tables.workspace.reached_from(start)
        records = arena.lexer_states
        rows = arena.transitions(states)
        self.goes = rows != lexer_layout.BEFORE
        longest = records[states, lexer_layout.L_LONGEST]
        self.matched = longest > 0
        wanted = set(skips.tolist())

        known = {0: False}

        def has_skip(accepted: int) -> bool:
            if accepted not in known:
                known[accepted] = accepted > 0 and not wanted.isdisjoint(arena.sequence(accepted))
            return known[accepted]

        self.skipped = np.array([has_skip(accepted) for accepted in longest.tolist()], bool)
        self._rows = rows
        self._number = number = {state: i for i, state in enumerate(states.tolist())}
        values = records[states, lexer_layout.L_VALUE].tolist()
        self._after: dict[int, dict[int, int]] = {}  # states inside a skip: target (-1: the skip ended) -> preferred byte
        for i, value in enumerate(values):
            if wanted.isdisjoint(word >> 32 for word in arena.sequence(value)):
                continue
            targets, first = np.unique(rows[i, _PREFERRED], return_index=True)
            after = self._after[i] = {}
            for target, byte in zip(targets.tolist(), _PREFERRED[first].tolist(), strict=True):
                if target <= 0 or target == lexer_layout.BEFORE:
                    continue
                state = target & lexer_layout.STATE_MASK
                if target & lexer_layout.ENDS_BIT:
                    ended, state = int(records[state, lexer_layout.L_ACCEPTED]), int(records[state, lexer_layout.L_REST])
                    if state == 0 and has_skip(ended):
                        after[-1] = byte
                if state > 0:
                    after.setdefault(number[state], byte)

        self.separators, self._endings = self._found()

    def _found(self) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """The separators by first byte; and by state inside a skip, -1 behind it, a shortest text to the end of a separator."""
        into: dict[int, list[tuple[int, int]]] = {}
        for i, after in self._after.items():
            for target, byte in after.items():
                into.setdefault(target, []).append((i, byte))
        best = {-1: b""}  # state -> a shortest text from there to the end of a separator
        fresh = [-1]
        for i in np.flatnonzero(self.skipped & ~self.goes.any(axis=1)).tolist():
            best[i] = b""
            fresh.append(i)
        found: dict[int, bytes] = {}
        while fresh:
            for i in fresh:
                for before, byte in into.get(i, []):
                    if before not in best:
                        best[before] = bytes([byte]) + best[i]
                        fresh.append(before)
            for target, byte in self._after.get(0, {}).items():
                if target in best:
                    found.setdefault(byte, bytes([byte]) + best[target])
            fresh = []
            for i in np.flatnonzero(self.skipped).tolist():  # a skip followed by a separator that ends it is one, too
                text = next((text for byte, text in found.items() if not self.goes[i, byte]), None)
                if i not in best and text is not None:
                    best[i] = text
                    fresh.append(i)
        return found, best

    def cover(self) -> Cover:
        """What the separators may contain."""
        inside = np.array(sorted(self._after))
        place = np.full(len(self._rows) + 1, -1)
        place[inside] = np.arange(len(inside))
        rows = self._rows[inside]
        goes_on = (rows > 0) & (rows != lexer_layout.BEFORE) & (rows & lexer_layout.ENDS_BIT == 0)
        number = np.full(int(max(self._number)) + 1, -1)
        number[list(self._number)] = list(self._number.values())
        after = place[number[np.where(goes_on, rows, 0)]]
        return Cover(np.where(goes_on, after, -1), np.isin(inside, list(self._endings)))
