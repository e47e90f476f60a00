"""Which LONGEST lexemes may end in a gap of the strict lattice: those that a gap can separate from whatever follows.

The lattice lets a lexeme end in a gap wherever it matches, and the next one begin there or behind the gap. That is right if no
first byte of the next one continues the lexeme (or has its fence before it), or if a byte of a skip fits between. Both are
checked here once per grammar, in all states of the lexer and for all sets of lexemes that may compete
(:mod:`cdplugin.kernels.infill.boundaries`). Lexemes that fail end in no gap of the strict lattice.

If the skips have *separators* (:mod:`cdplugin.infill.separators`), they fit between all lexemes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import members
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout

if TYPE_CHECKING:
    from cdplugin.infill.tables import InfillGrammar


_STATE_WORK = 2000  # units of work of a state in which lexemes may end: some sets of bytes
_LEXEME_WORK = 200  # and of a lexeme that may start after it
MOST_SETS = 256  # sets of competing lexemes that are checked


def that_end_in_gaps(tables: InfillGrammar) -> np.ndarray:
    """Per lexeme, 1 if a gap can separate it from all that may follow it; with too many cases, 0 for all LONGEST ones."""
    if tables.separators.texts:
        return np.ones(tables.n_lexemes, np.int64)
    room = Room(tables)
    crowded = room.crowded()
    return np.array([not crowded >> lexeme & 1 for lexeme in range(tables.n_lexemes)], np.int64)


class Room:
    """The check of all sets of competing lexemes. Sets of lexemes, and of bytes, are the bits of integers."""

    def __init__(self, tables: InfillGrammar) -> None:
        self._tables = tables
        self._arena = tables.arena
        self._work = tables.workspace
        n = tables.n_lexemes
        words = int(self._work.header[ws.W_SET])
        self._follows = _sets(self._work.tables[ws.FOLLOWS][: (n + 1) * words], words)
        self._skipped = _sets(self._work.tables[ws.SKIPPED][: n * words], words)
        records = self._arena.lexemes
        self._all = (1 << (n - 1)) - 1  # but for the end symbol
        self._exact = sum(1 << i for i in np.flatnonzero(records[:, layout.X_KIND] == layout.EXACT).tolist())
        self._skips = sum(1 << i for i in np.flatnonzero(records[:, layout.X_IS_SKIP]).tolist())
        self._skip_of = records[:, layout.X_SKIP].tolist()
        self._firsts: dict[int, int] = {}
        self._rows: dict[int, np.ndarray] = {}
        self._closed: set[int] = set()
        self._separating: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        self._crowding: dict[tuple[int, int, int], tuple[bool, int]] = {}

    def begins_apart(self, separating: set[int]) -> bool:
        """Whether all that a text may begin with can be separated from what follows, by separators with these first bytes or
        otherwise.

        A state in which that fails is tolerated if the lexeme can be continued to another end where it holds.
        """
        first = self._follows[-1] & self._all
        separators = sum(1 << byte for byte in separating)
        for matched, states in self._reached(first).items():
            after = self._after(first, matched)
            following = (after | self._skips_before(after), after)
            crowded = [state for state in states if not separators & ~_ends_not_before(self._row(state))]
            crowded = [state for state in crowded if not self._are_apart(state, matched, *following)]
            apart = {self._row(state).tobytes() for state in states if state not in crowded}
            for state in crowded:
                reached = self._work.reached_from(state).tolist()
                if not any(self._row(s).tobytes() in apart and self._longest(s) == matched for s in reached):
                    return False
        return True

    def crowded(self) -> int:
        """The lexemes that cannot be separated from all that may follow them.

        It visits all pairs (starting, awaited) of sets of lexemes that may compete at some boundary, from the beginning of a
        text on.
        """
        found = 0
        first = self._follows[-1] & self._all
        sets = [(first, first)]  # (starting: with skips, except at the beginning; awaited: without skips)
        reached = []
        seen = set(sets)
        for starting, awaited in sets:  # grows; if there are too many, that is known before the slow checks below
            ended = self._reached(starting)
            reached.append(ended)
            self._arena.spend(_STATE_WORK * len(ended))
            for matched in ended:
                after = self._after(awaited, matched)
                following = (after | self._skips_before(after), after)
                if after and following not in seen:
                    seen.add(following)
                    sets.append(following)
            if len(seen) > MOST_SETS:
                return self._all & ~self._exact
        for (_, awaited), ended in zip(sets, reached, strict=True):
            for matched, states in ended.items():
                self._arena.spend(_STATE_WORK * len(states))
                after = self._after(awaited, matched)
                following = (after | self._skips_before(after), after)
                if not all(self._are_apart(state, matched, *following) for state in states):
                    found |= matched
        return found

    def _reached(self, starting: int) -> dict[int, list[int]]:
        """The sets of lexemes that may end together if ``starting`` start together; for each, the lexer states in which a byte
        has to end them, one per distinct row of transitions.
        """
        found: dict[int, dict[bytes, int]] = {}
        for group in (starting & self._exact, starting & ~self._exact):
            if not group:
                continue
            state = self._tables.start_state(np.array(members(group)))
            states = self._work.reached_from(state)
            rows = self._arena.transitions(states)
            records = self._arena.lexer_states
            for i in np.flatnonzero(records[states, lexer_layout.L_LONGEST] > 0).tolist():
                state, row = int(states[i]), rows[i]
                matched = self._set_of(int(records[state, lexer_layout.L_LONGEST]))
                found.setdefault(matched, {}).setdefault(row.tobytes(), state)
            ended = np.unique(
                rows[(rows != lexer_layout.BEFORE) & (rows & lexer_layout.ENDS_BIT != 0) & (rows > 0)] & lexer_layout.STATE_MASK
            )
            for accepted in np.unique(records[ended, lexer_layout.L_ACCEPTED]).tolist():
                found.setdefault(self._set_of(accepted), {})
        return {matched: list(states.values()) for matched, states in found.items()}

    def _set_of(self, accepted: int) -> int:
        """The lexemes of an accepted set (0: none); only its skips if it has any."""
        if accepted == 0:
            return 0
        found = sum(1 << lexeme for lexeme in self._arena.sequence(accepted))
        return found & self._skips or found

    def _longest(self, state: int) -> int:
        """The LONGEST lexemes that match in a lexer state (:meth:`_set_of`)."""
        return self._set_of(self._arena.of_state(state, lexer_layout.L_LONGEST))

    def _after(self, awaited: int, matched: int) -> int:
        """The lexemes that may come after a set that matched, where ``awaited`` were awaited."""
        found = 0
        for lexeme in members(matched):
            found |= self._skipped[lexeme] & awaited if matched & self._skips else self._follows[lexeme]
        return found & self._all

    def _skips_before(self, lexemes: int) -> int:
        return sum(1 << skip for skip in {self._skip_of[lexeme] for lexeme in members(lexemes)} if skip >= 0)

    def _are_apart(self, state: int, matched: int, starting: int, awaited: int) -> bool:
        """Whether all ``starting`` lexemes can be separated from those that matched in a state, or need not be.

        A skip need not be if the lexemes continue with it and end where it would.
        """
        row = self._row(state)
        longer = _ends_not_before(row)
        are_apart, skips = self._crowds(longer, starting, awaited)
        if not are_apart or not skips:
            return are_apart
        begun = self._row(self._tables.start_state(np.array(members(starting & ~self._exact))))
        firsts = _union(self._first_bytes(other) for other in members(starting & ~self._skips))
        conflict = _union(self._first_bytes(skip) for skip in members(skips)) & longer
        return all(self._absorbs(int(row[byte]), int(begun[byte]), matched, firsts) for byte in members(conflict))

    def _crowds(self, longer: int, starting: int, awaited: int) -> tuple[bool, int]:
        """Whether lexemes that continue with the bytes ``longer`` can be separated from all that may start after them; and the
        skips for which that holds only if the lexemes absorb them (:meth:`_absorbs`).

        Memoised by the bytes: there are fewer sets of bytes than states. (300 keywords beside names: 500,000 questions, 30 s.)
        """
        key = longer, starting, awaited
        if key in self._crowding:
            return self._crowding[key]
        self._arena.spend(_LEXEME_WORK * starting.bit_count())
        skips = 0
        are_apart = True
        for lexeme in members(starting):
            conflict = self._first_bytes(lexeme) & longer
            if conflict and not self._has_separator(longer, starting, awaited, lexeme, conflict):
                if not self._skips >> lexeme & 1 or awaited & ~self._skipped[lexeme]:
                    are_apart = False
                    break
                skips |= 1 << lexeme
        self._crowding[key] = are_apart, skips
        return are_apart, skips

    def _absorbs(self, longer: int, skip: int, matched: int, firsts: int) -> bool:
        """Whether lexemes that continue end wherever a skip after them would, with the same lexemes matching.

        ``longer``, ``skip``: the transitions of both by the skip's first byte; ``firsts``: the bytes that may come after the
        skip.
        """
        pending = [(longer, skip)]
        seen = set(pending)
        while pending:
            longer, skip = pending.pop()
            if (longer | skip) & lexer_layout.ENDS_BIT or not longer or not skip:
                return False
            if self._longest(skip) and self._longest(longer) != matched:
                return False
            row, of_skip = self._row(longer), self._row(skip)
            if _bits(of_skip == lexer_layout.BEFORE) & _ends_not_before(row) & firsts:
                return False
            for pair in set(zip(row.tolist(), of_skip.tolist(), strict=True)):
                if 0 < pair[1] != lexer_layout.BEFORE and pair not in seen:
                    seen.add(pair)
                    pending.append(pair)
            if len(seen) > MOST_SETS:
                return False
        return True

    def _row(self, state: int) -> np.ndarray:
        """The transitions of a lexer state, by byte."""
        row = self._rows.get(state)
        if row is None:
            if state not in self._closed:  # reaching states computes their transitions
                self._closed.update(self._work.reached_from(state).tolist())
            row = self._rows[state] = self._arena.transitions(np.array([state]))[0]
        return row

    def _has_separator(self, longer: int, starting: int, awaited: int, lexeme: int, firsts: int) -> bool:
        """Whether one byte is a skip that fits between lexemes that continue with ``longer`` and one that begins with
        ``firsts``.
        """
        return any(
            not longer >> byte & 1 and following >> lexeme & 1 and not further & firsts
            for byte, following, further in self._one_byte_skips(starting, awaited)
        )

    def _one_byte_skips(self, starting: int, awaited: int) -> list[tuple[int, int, int]]:
        """The bytes that are a skip by themselves where some lexemes may start: (byte, lexemes that may follow, bytes that
        continue it).
        """
        key = starting, awaited
        known = self._separating.get(key)
        if known is not None:
            return known
        found = self._separating[key] = []
        competing = starting & ~self._exact
        if not competing & self._skips:
            return found
        start = self._row(self._tables.start_state(np.array(members(competing))))
        of_target: dict[int, tuple[int, int]] = {}
        for byte, after in enumerate(start.tolist()):
            if after == lexer_layout.BEFORE or after <= 0:
                continue
            if after not in of_target:
                state = after & lexer_layout.STATE_MASK
                ends = after & lexer_layout.ENDS_BIT
                matched = self._set_of(self._arena.of_state(state, lexer_layout.L_ACCEPTED)) if ends else self._longest(state)
                following = self._after(awaited, matched) if matched & self._skips else 0
                further = 0 if ends or not following else _ends_not_before(self._row(state))
                of_target[after] = following | self._skips_before(following), further
            following, further = of_target[after]
            if following:
                found.append((byte, following, further))
        return found

    def _first_bytes(self, lexeme: int) -> int:
        known = self._firsts.get(lexeme)
        if known is None:
            known = self._firsts[lexeme] = _goes_on(self._row(self._tables.start_state(np.array([lexeme]))))
        return known


def _goes_on(row: np.ndarray) -> int:
    """The bytes with which a lexer state continues."""
    return _bits((row != 0) & (row != lexer_layout.BEFORE))


def _ends_not_before(row: np.ndarray) -> int:
    """The bytes before which what matches in a lexer state does not end: they continue it, or are its fence."""
    return _bits(row != lexer_layout.BEFORE)


def _bits(flags: np.ndarray) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _union(sets: Iterable[int]) -> int:
    return functools.reduce(operator.or_, sets, 0)


def _sets(rows: np.ndarray, words: int) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in rows.reshape(-1, words)]
