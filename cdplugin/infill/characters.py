r"""Tokens that cut a character beside given text: if every legal text is valid UTF-8, most of them are ruled out.

Some 1,300 of 128,000 tokens begin or end in the middle of a character. The text beside a slot mostly shows that the character
does not continue there; a search would have to follow all that the slots may become to find that out. If every lexeme matches
only valid UTF-8, so does every legal text, since it consists of lexemes. Then a token may stand between two bytes only if the
automaton of UTF-8 (RFC 3629, eight states) has a path from the one over the token to the other.

``é□x`` (``\xc3\xa9``, a slot, ``x``): the token ``\xa9`` continues no character; one that ends with ``\xc3`` begins one that
``x`` does not continue.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_flags, members, packed_bits
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.store import layout
from cdplugin.memory import bounded_cache
from cdplugin.walks import fold

if TYPE_CHECKING:
    from cdplugin.engine.arena import Arena
    from cdplugin.infill.tables import InfillGrammar

_WHOLE, _DEAD = 0, 8
_FROM_ALL = (1 << _DEAD) - 1
_NEAR = 4  # bytes beside a token that matter: a character has no more
_MOST_DERIVED = 1024  # pairs of a derivative of an expression and a state of the automaton
_EXPRESSION_WORK, _DERIVED_WORK = 300, 2000  # units of work of an expression, and of such a pair
_MOST_ROWS = 64


def _automaton() -> np.ndarray:
    """The automaton of UTF-8: uint8, ``(9, 256)``.

    States: 0 between characters; 1, 2, 3 with so many continuation bytes to come; 4 to 7 behind E0, ED, F0 and F4, which not
    all continuation bytes may follow; 8 dead.
    """
    out = np.full((_DEAD + 1, 256), _DEAD, np.uint8)
    for state, first, last, after in (
        *((0, 0x00, 0x7F, 0), (0, 0xC2, 0xDF, 1), (0, 0xE0, 0xEF, 2), (0, 0xE0, 0xE0, 4), (0, 0xED, 0xED, 5)),
        *((0, 0xF0, 0xF0, 6), (0, 0xF1, 0xF3, 3), (0, 0xF4, 0xF4, 7), (1, 0x80, 0xBF, 0), (2, 0x80, 0xBF, 1)),
        *((3, 0x80, 0xBF, 2), (4, 0xA0, 0xBF, 1), (5, 0x80, 0x9F, 1), (6, 0x90, 0xBF, 2), (7, 0x80, 0x8F, 2)),
    ):
        out[state, first : last + 1] = after
    return out


_AUTOMATON = _automaton()
_RANGES = (0x00, 0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xEE, 0xF0, 0xF1, 0xF4, 0xF5, 0x100)
"""Where ranges of bytes begin that all states treat alike."""


@bounded_cache
def _after(states: int, text: bytes) -> int:
    """The states, as bits, to which a text leads from some states."""
    for byte in text:
        states = functools.reduce(lambda found, state: found | 1 << int(_AUTOMATON[state, byte]), members(states), 0)
        states &= _FROM_ALL
    return states


class Characters:
    """Which tokens UTF-8 allows beside which bytes. The caller holds the lock of ``tables``."""

    def __init__(self, tables: InfillGrammar) -> None:
        self._texts_row = tables.texts_row
        self._are_texts = _are_texts(tables)
        self._rows: dict[tuple[int, int], np.ndarray] = {}
        self._cut: np.ndarray = np.zeros(0, np.int64)  # tokens that are not whole characters
        self._ends: np.ndarray = np.zeros((0, _DEAD), np.uint8)  # the states to which each leads from each state
        if self._are_texts:
            self._cut, self._ends = _cut_tokens(tables)

    @property
    def nbytes(self) -> int:
        """Bytes of the memo tables."""
        return len(self._rows) * self._texts_row.nbytes + self._cut.nbytes + self._ends.nbytes

    def possible(self, before: bytes, after: bytes, begins: bool, ends: bool) -> np.ndarray:
        """The mask row (int32) of the text tokens that UTF-8 allows between two texts; not to be changed.

        ``begins``: whether the whole text begins with ``before``, rather than with something open; ``ends``: the same for its
        end and ``after``.
        """
        if not self._are_texts:
            return self._texts_row
        left = _after(1 << _WHOLE if begins and len(before) <= _NEAR else _FROM_ALL, before[-_NEAR:])
        ends = ends and len(after) <= _NEAR
        right = 0
        for state in range(_DEAD):
            reached = _after(1 << state, after[:_NEAR])
            right |= bool(reached & 1 << _WHOLE if ends else reached) << state
        row = self._rows.get((left, right))
        if row is None:
            if len(self._rows) == _MOST_ROWS:
                self._rows.clear()
            row = self._rows[left, right] = self._between(left, right)
        return row

    def _between(self, left: int, right: int) -> np.ndarray:
        """The row of the tokens that lead from one of some states to one of others."""
        arrives = np.array([right >> state & 1 for state in range(_DEAD + 1)], bool)
        fits = arrives[self._ends[:, members(left)]].any(axis=1)
        flags = bit_flags(self._texts_row) if left & right & 1 << _WHOLE else np.zeros(32 * len(self._texts_row), bool)
        flags[self._cut] = fits
        return packed_bits(flags)


def _cut_tokens(tables: InfillGrammar) -> tuple[np.ndarray, np.ndarray]:
    """The tokens that are not whole characters, and the state to which each leads from each state: uint8, ``(n, 8)``."""
    tokens: list[int] = []
    ends: list[list[int]] = []
    vocab = tables.vocab
    beyond = np.concatenate((np.zeros(1, np.int64), np.cumsum(vocab.token_bytes >= 0x80)))  # bytes, before each
    is_ascii = np.zeros(32 * len(tables.texts_row), bool)
    is_ascii[: vocab.size] = np.diff(beyond[vocab.token_offsets]) == 0
    for token in np.flatnonzero(bit_flags(tables.texts_row) & ~is_ascii).tolist():
        text = vocab.tokens[token] or b""
        try:
            text.decode()
        except UnicodeDecodeError:
            reached = list(range(_DEAD))
            for byte in text:
                reached = _AUTOMATON[reached, byte].tolist()
            tokens.append(token)
            ends.append(reached)
    return np.array(tokens, np.int64), np.array(ends, np.uint8).reshape(-1, _DEAD)


def _are_texts(tables: InfillGrammar) -> bool:
    """Whether all lexemes match only valid UTF-8, as far as their expressions show."""
    arena = tables.arena
    known: dict[int, bool] = {}
    found = all(_is_text(arena, expression, known) for expression in arena.lexemes[:, layout.X_EXPRESSION].tolist())
    arena.spend(_EXPRESSION_WORK * len(known))
    return found


def _is_text(arena: Arena, root: int, known: dict[int, bool]) -> bool:
    """Whether an expression matches only valid UTF-8: if its parts do, or else if the automaton accepts all that its
    derivatives do.

    The second case is for characters that are spelled as bytes. ``known``: memo of the expressions that it is made of; grows.
    """

    def parts(e: int) -> list[int]:
        kind = arena.kind(e)
        if kind in (layout.K_CAT, layout.K_ALT, layout.K_AND):
            return arena.sequence(e)
        return arena.sequence(e)[:1] if kind == layout.K_REPEAT else []

    def joined(e: int, found: list[bool]) -> bool:
        kind = arena.kind(e)
        if kind in (layout.K_EMPTY, layout.K_EPSILON):
            return True
        if kind == layout.K_BYTES and arena.sequence(e)[2:] == [0, 0]:
            return True
        if kind == layout.K_LITERALS:
            text, starts, ends = arena.literals(e)
            if not (text[starts[0] : ends[-1]] & 0x80).any():
                return True
        is_made_so = any(found) if kind == layout.K_AND else bool(found) and all(found)
        return is_made_so or (kind != layout.K_NOT and _is_followed(arena, e))

    return fold(root, parts, joined, known)


def _is_followed(arena: Arena, root: int) -> bool:
    """Whether the automaton can follow all texts of an expression: a walk over pairs (derivative, state), which must be few."""
    pending = [(root, _WHOLE)]
    seen = set(pending)
    for expression, state in pending:  # grows
        if len(pending) > _MOST_DERIVED or (state != _WHOLE and arena.has_flag(expression, expressions.NULLABLE)):
            return False
        arena.spend(_DERIVED_WORK)
        for first, end in itertools.pairwise(_RANGES):
            after = int(_AUTOMATON[state, first])
            found = {derivative for _, derivative in arena.derivatives(expression, first, end)} - {expressions.EMPTY}
            if found and after == _DEAD:
                return False
            new = {(derivative, after) for derivative in found} - seen
            seen |= new
            pending += sorted(new)
    return True
