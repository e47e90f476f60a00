"""The lexemes of a complete text, for :mod:`cdplugin.queries.captures`: where those that may begin at a place end.

A text is a list of *units*: the bytes of its text tokens, and one unit for each token without bytes. Lexemes end as
:mod:`cdplugin.kernels.lexer.states` describes; here this is done with plain dicts and the arena's derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cdplugin.engine.arena import Arena
from cdplugin.errors import LimitExceeded
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.store import layout

NO_BYTE = 256
"""The unit of a token without bytes."""


class Edge(NamedTuple):
    """A lexeme from unit ``start`` to ``end``; ``skips``: it is ignored text."""

    lexeme: int
    start: int
    end: int
    skips: bool = False


class Units:
    """A text. ``units``; ``token_at``: for a unit, the token that begins there and where it ends; ``ends``: where
    tokens end.
    """

    def __init__(self, token_ids: Iterable[int], texts: Sequence[bytes | None]) -> None:
        self.units: list[int] = []
        self.token_at: dict[int, tuple[int, int]] = {}
        for token in token_ids:
            start = len(self.units)
            self.units += texts[token] or [NO_BYTE]
            self.token_at[start] = (token, len(self.units))
        self.ends = {end for _, end in self.token_at.values()}

    def text(self, start: int, end: int) -> bytes:
        """The bytes between two places."""
        return bytes(unit for unit in self.units[start:end] if unit != NO_BYTE)


class Lexing:
    """Finds lexemes in ``units``. ``all_ends``: treat LONGEST and LAZY lexemes as EXACT, and keep whatever parses. ``steps``:
    taken before.
    """

    def __init__(self, arena: Arena, units: Units, most: int, all_ends: bool = False, steps: int = 0) -> None:
        self._arena = arena
        self._units = units
        self._most = most
        self._all_ends = all_ends
        self.steps = steps
        self._records = _records(arena)
        self._ranges = arena.tables[layout.TOKEN_RANGES].reshape(-1, 2).tolist()
        self._after: dict[int, tuple[int, bool]] = {}  # expression << 9 | byte -> its derivative (0: dead), whether it matches

    def take(self, steps: int = 1) -> None:
        """Count steps. Raises :class:`LimitExceeded`."""
        self.steps += steps
        if self.steps > self._most:
            raise LimitExceeded(
                "finding the captures takes too many steps", expected=f"at most Limits.max_capture_steps = {self._most} steps"
            )

    def kinds(self, lexemes: Iterable[int]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Return the lexemes by how they end: EXACT ones, LONGEST and LAZY ones, token terminals; and the skips that may come
        before.
        """
        exact, longest, terminals, skips = [], [], [], set()
        end = self._arena.header[layout.END_SYMBOL]
        for lexeme in lexemes:
            if lexeme >= len(self._records):  # made since
                self._records = _records(self._arena)
            record = self._records[lexeme]
            if lexeme == end:
                continue
            if record[layout.X_N_RANGES]:
                terminals.append(lexeme)
            elif record[layout.X_KIND] == layout.EXACT or self._all_ends:
                exact.append(lexeme)
            else:
                longest.append(lexeme)
            if record[layout.X_SKIP] >= 0:
                skips.add(record[layout.X_SKIP])
        return exact, longest, terminals, sorted(skips)

    def edges(self, start: int, kinds: tuple[list[int], list[int], list[int], list[int]]) -> list[Edge]:
        """Return the lexemes, out of :meth:`kinds`, that begin at ``start``."""
        exact, longest, terminals, skips = kinds
        out: list[Edge] = []
        if self._all_ends:
            exact, skips = [*exact, *skips], []
        for lexeme in exact:
            out += self._exact(lexeme, start)
        if longest or skips:
            out += self._longest([*longest, *skips], start)
        if terminals and start in self._units.token_at:
            token, end = self._units.token_at[start]
            for lexeme in terminals:
                first, n = self._records[lexeme][layout.X_RANGES], self._records[lexeme][layout.X_N_RANGES]
                if any(low <= token <= high for low, high in self._ranges[first : first + n]):
                    out.append(Edge(lexeme, start, end))
        return out

    def _is_named(self, at: int) -> bool:
        """Return whether some token terminal stands for the token that begins at a unit."""
        if not self._ranges or at not in self._units.token_at:
            return False
        token, _ = self._units.token_at[at]
        return any(low <= token <= high for low, high in self._ranges)

    def _step(self, expression: int, unit: int) -> tuple[int, bool]:
        """Return the derivative of an expression by a unit (0: nothing can match), and whether it is nullable."""
        if unit == NO_BYTE:
            return 0, False
        key = expression << 9 | unit
        known = self._after.get(key)
        if known is None:
            after = self._arena.call(kernels.OP_DERIVE, expression, unit)
            status = self._arena.call(kernels.OP_STATUS, after)
            known = self._after[key] = (
                after if status & kernels.MATCHES_SOMETHING else 0,
                bool(status & kernels.MATCHES_EMPTY),
            )
        return known

    def _clock(self, lexeme: int) -> int:
        """Return after how many tokens a lexeme ends; 0: it does not count them."""
        record = self._records[lexeme]
        begun = record[layout.X_BEGUN]
        if self._records[begun][layout.X_TICK] < 0:
            return 0
        last = begun
        while self._records[last][layout.X_TICK] != last:
            last = self._records[last][layout.X_TICK]
        return last - begun

    def _exact(self, lexeme: int, start: int) -> list[Edge]:
        """Return all ends of one EXACT lexeme."""
        record = self._records[lexeme]
        clock = self._clock(lexeme)
        skips = bool(record[layout.X_IS_SKIP])
        units, ends = self._units.units, self._units.ends
        expression, at, used = record[layout.X_EXPRESSION], start, 0
        out = []
        while at < len(units):
            expression, matches = self._step(expression, units[at])
            if not expression:
                break
            at += 1
            if matches:
                out.append(Edge(lexeme, start, at, skips))
            if expression == expressions.EPSILON:
                break
            if clock and at in ends:
                used += 1
                if used >= clock and matches:
                    break
        self.take(at - start + 1)
        return out

    def _longest(self, lexemes: list[int], start: int) -> list[Edge]:
        """Return the ends of lexemes that compete. They also end before a token that the grammar names."""
        units, ends = self._units.units, self._units.ends
        records = self._records
        clocks = {lexeme: clock for lexeme in lexemes if (clock := self._clock(lexeme))}
        open_ = {lexeme: records[lexeme][layout.X_EXPRESSION] for lexeme in lexemes}
        matching: list[int] = []
        out: list[Edge] = []
        at, used = start, 0
        while True:
            after: dict[int, int] = {}
            now: list[int] = []
            for lexeme, expression in open_.items() if at < len(units) else ():
                left, matches = self._step(expression, units[at])
                if left:
                    after[lexeme] = left
                    if matches:
                        now.append(lexeme)
            self.take(len(open_))
            if not after:
                return out + self._scanned(matching, start, at)
            at += 1
            open_, matching = after, now
            lazy = [lexeme for lexeme in matching if records[lexeme][layout.X_KIND] == layout.LAZY]
            if lazy or (matching and all(left == expressions.EPSILON for left in open_.values())):
                return out + self._scanned(lazy or matching, start, at)
            if at in ends:
                used += 1
                done = [lexeme for lexeme in matching if lexeme in clocks and used >= clocks[lexeme]]
                if done:
                    out += self._scanned(done, start, at)
                    open_ = {lexeme: left for lexeme, left in open_.items() if lexeme not in done}
                    matching = [lexeme for lexeme in matching if lexeme not in done]
                elif matching and self._is_named(at):
                    out += self._scanned(matching, start, at)

    def _scanned(self, lexemes: list[int], start: int, end: int) -> list[Edge]:
        """Return the edges of lexemes that end together; if one of them is a skip, only that."""
        for lexeme in lexemes:
            if self._records[lexeme][layout.X_IS_SKIP]:
                return [Edge(lexeme, start, end, True)]
        return [Edge(lexeme, start, end) for lexeme in lexemes]


def _records(arena: Arena) -> list[list[int]]:
    """Return the records of all lexemes. (The table may have room for a part of a further one.)"""
    table = arena.tables[layout.LEXEMES]
    return table[: len(table) // layout.LEXEME_WORDS * layout.LEXEME_WORDS].reshape(-1, layout.LEXEME_WORDS).tolist()
