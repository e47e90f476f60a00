"""Short legal endings: from a cursor to a place where the text may end, then the bytes as few tokens.

The search is best-first (weighted A*: Hart, Nilsson and Raphael, 1968; Pohl, 1970) over cursors, byte by byte, with the
engine's own steps, so that what it finds is legal whatever the lexing; :mod:`cdplugin.costs` estimates what is left from a
cursor. Where the estimate is exact, which it mostly is, it goes straight to a shortest ending in bytes. Endings that were found
are kept for every cursor that they pass.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.arena import Arena
from cdplugin.costs import FAR, Budget, Costs
from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.kernels import arena as layout
from cdplugin.kernels import engine as kernels
from cdplugin.kernels.earley import R_START, ROW_WORDS
from cdplugin.kernels.lexer import BEFORE, L_LONGEST, L_VALUE, LEXER_WORDS, STATE_MASK
from cdplugin.kernels.states import ACCEPT_MARK

if TYPE_CHECKING:
    from cdplugin.vocab import Vocabulary

_MOST_KEPT = 50_000  # cursors whose endings are kept
_PLACE_BYTES = 400  # of such a cursor: two places in tables
_GREED = (2, 8)  # weights of the estimate: a short ending, else any ending

_PLAIN = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \"'_-.,:;()[]{}<>/*+=!?\n"

Edge = tuple[int, int]
"""A byte (0 to 255) or ``~token`` for a token that is followed as a terminal, and the cursor after it."""


class Endings:
    """Short endings in one arena. The caller holds the arena's lock."""

    def __init__(self, arena: Arena) -> None:
        self.arena = self._arena = arena
        self._costs = Costs(arena)
        self._next: dict[int, Edge] = {}  # on a way that was found
        self._length: dict[int, int] = {}  # in edges, to the end of that way
        tokens = arena.vocab.tokens
        self._single: dict[int, int] = {}  # byte -> token
        stops = set(arena.vocab.eos_token_ids)
        for token in np.flatnonzero(np.diff(arena.vocab.token_offsets) == 1).tolist():
            if token not in stops:
                self._single.setdefault((tokens[token] or b"")[0], token)
        order = [byte for byte in _PLAIN if byte in self._single]
        order += [byte for byte in range(256) if byte in self._single and byte not in _PLAIN]
        self._order = np.array(order, np.int64)  # the bytes that a token spells, the readable ones first
        self._stops = stops

    @property
    def nbytes(self) -> int:
        """Bytes of what is known."""
        return _PLACE_BYTES * len(self._next) + self._costs.nbytes

    def find(self, cursor: int) -> list[int]:
        """The edges of a short way from ``cursor`` to a place where the text may end: bytes, and ``~token`` for terminals.

        Raises :class:`LimitExceeded` if none is found within ``Limits.max_completion_steps``.
        """
        if cursor in self._next:
            return self._follow(cursor)
        try:
            return self._find(cursor)
        finally:
            if self._arena.account is not None:
                self._arena.account.note("endings", self.nbytes)

    def _find(self, cursor: int) -> list[int]:
        self._costs.trim(_MOST_KEPT)
        most = self._arena.limits.max_completion_steps
        for by_tokens in (False, True):
            for weight in _GREED:
                self._costs.budget = Budget(most if by_tokens or weight > 1 else most // 4)
                try:
                    end = self._search(cursor, weight, by_tokens)
                except LimitExceeded:
                    if by_tokens or weight == _GREED[-1]:
                        raise
                    continue
                if end is not None:
                    return end
                break  # there is none with the bytes that have tokens of their own: take whole tokens
        raise GrammarError("the text has no legal ending: the grammar's longest match leads to a dead end")

    def _search(self, start: int, weight: int, by_tokens: bool) -> list[int] | None:
        """The edges of a way from ``start``; None if there is none. ``weight``: of the estimate, more is faster and longer."""
        budget = self._costs.budget
        order = count()
        self._costs.look_for(start)
        estimate = self._estimate(start)
        # entries: what the way costs, whether that is not known yet, what is left, …: a place from which nothing is known to
        # end is looked at when nothing better is left
        pending = [(weight * estimate, False, estimate, next(order), 0, start)]
        best = {start: 0}
        came: dict[int, tuple[int, int]] = {}
        closed: set[int] = set()
        while pending:
            _, unknown, estimate, _, taken, cursor = heappop(pending)
            if cursor in closed:
                continue
            if unknown:
                left = self._estimate(cursor)
                if left > estimate:
                    heappush(pending, (taken + weight * left, False, left, next(order), taken, cursor))
                    continue
            closed.add(cursor)
            if cursor in self._next or (self._estimate(cursor) == 0 and self._arena.call(kernels.OP_ACCEPTS, cursor)):
                return self._remember(start, cursor, came)
            budget.take()
            edges = self._token_edges(cursor) if by_tokens else self.edges(cursor)
            for edge, after in edges:
                cost = taken + (len(self._text(edge)) if by_tokens else 1)
                if after in closed or cost >= best.get(after, FAR):
                    continue
                best[after] = cost
                came[after] = (cursor, edge)
                left = self._estimate(after, demand=False)
                unknown = left >= FAR
                if unknown or self._costs.is_bound:
                    left = max(0 if unknown else left, estimate - cost + taken, 0)
                heappush(pending, (cost + weight * left, unknown, left, next(order), cost, after))
        return None

    def _estimate(self, cursor: int, demand: bool = True) -> int:
        known = self._length.get(cursor)
        if known is None:
            return self._costs.of_cursor(cursor, demand)
        self._costs.is_bound = False
        return known

    def _text(self, edge: int) -> bytes:
        """The bytes that an edge of :meth:`_token_edges` stands for."""
        return (self._arena.vocab.tokens[~edge] if edge < 0 else None) or b"?"

    def _remember(self, start: int, end: int, came: dict[int, tuple[int, int]]) -> list[int]:
        """Note the way to ``end`` for every cursor on it; returns its edges, with those that were known from ``end`` on."""
        tail = self._follow(end)
        keep = len(self._next) <= _MOST_KEPT
        if not keep:
            self._next.clear()
            self._length.clear()
        edges: list[int] = []
        cursor = end
        while cursor != start:
            before, edge = came[cursor]
            edges.append(edge)
            if keep:
                self._length[before] = len(tail) + len(edges)
                self._next[before] = (edge, cursor)
            cursor = before
        edges.reverse()
        return edges + tail

    def _follow(self, cursor: int) -> list[int]:
        out = []
        while cursor in self._next:
            edge, cursor = self._next[cursor]
            out.append(edge)
        return out

    # --- edges ----------------------------------------------------------------------------------------------------------------

    def edges(self, cursor: int) -> list[Edge]:
        """The cursors that single bytes and token terminals lead to, each once, with the most readable byte.

        Bytes that the lexer does not tell apart are stepped once.
        """
        arena = self._arena
        states = [state for _, state in self.pairs(cursor)]
        found: dict[int, int] = {}
        for byte in self._different(cursor, states) if states else ():
            after = self._step(cursor, byte)
            if after:
                found.setdefault(after, byte)
        out = [(byte, after) for after, byte in found.items()]
        if arena.header[layout.HAS_TERMINALS]:
            for token in self.terminals(cursor):
                after = arena.call(kernels.OP_ACCEPT, cursor, token, 0)
                if after:
                    out.append((~token, after))
        return out

    def _different(self, cursor: int, states: list[int]) -> list[int]:
        """Bytes that lead on from some of these lexer states (a cursor's), one of each class that they do not tell apart.

        Where the lexeme ends before the byte, it is the next one's to tell: there all are given.
        """
        arena, order = self._arena, self._order
        places = (np.array(states, np.int64) * 256)[:, None] + order
        if not len(order):
            return []
        for _ in range(257):
            targets = arena.tables[layout.TRANSITIONS][places]
            unknown = targets.min(axis=0).argmin()
            if targets[:, unknown].min() >= 0:
                break
            arena.call(kernels.OP_STEP, cursor, int(order[unknown]))  # computes the transitions of the byte's whole class
        if len(states) == 1:
            _, firsts = np.unique(targets[0], return_index=True)
        elif len(states) == 2:
            _, firsts = np.unique(targets[0].astype(np.int64) << 32 | targets[1], return_index=True)
        else:
            _, firsts = np.unique(targets, axis=1, return_index=True)
        ended = np.flatnonzero((targets == BEFORE).any(axis=0))
        chosen = np.unique(np.concatenate((firsts, ended)))
        return [int(order[i]) for i in chosen if targets[:, i].any()]

    def only_byte(self, cursor: int) -> int | None:
        """The byte that every legal continuation begins with; None if there are several."""
        arena = self._arena
        states = [state for _, state in self.pairs(cursor)]
        found = None
        before = [s for s in states if arena.tables[layout.LEXER_STATES][s * LEXER_WORDS + L_LONGEST]]
        for byte in range(256):
            if not before and all(arena.tables[layout.TRANSITIONS][state * 256 + byte] == 0 for state in states):
                continue
            if arena.call(kernels.OP_STEP, cursor, byte):
                if found is not None:
                    return None
                found = byte
        return found

    def _step(self, cursor: int, byte: int) -> int:
        """The cursor after a byte; after its token, where tokens are counted."""
        if self._arena.header[layout.HAS_CLOCKS]:
            return self._arena.call(kernels.OP_ACCEPT, cursor, self._single[byte], 1)
        return self._arena.call(kernels.OP_STEP, cursor, byte)

    def _token_edges(self, cursor: int) -> list[Edge]:
        """The cursors that allowed tokens lead to, each once."""
        arena = self._arena
        row = np.zeros((arena.vocab.size + 31) // 32, np.int32)
        stops = np.zeros(1, np.int64)
        arena.call(kernels.OP_FILL, cursor, row.ctypes.data, stops.ctypes.data)
        found: dict[int, int] = {}
        tokens = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        for token in tokens:
            if token not in self._stops:
                after = arena.call(kernels.OP_ACCEPT, cursor, token, 1)
                if after and (after not in found or len(self._text(~token)) < len(self._text(~found[after]))):
                    found[after] = token
        return [(~token, after) for after, token in found.items()]

    def pairs(self, cursor: int) -> list[tuple[int, int]]:
        """The (row, lexer state) pairs of a cursor that have a lexer state."""
        if cursor >> 32:
            pairs = [((cursor >> 32) - 1, cursor & STATE_MASK)]
        else:
            state = self._arena.lexer_state
            pairs = [(p >> 32, state(p & layout.LOW_32)) for p in self._arena.sequence(cursor) if p != ACCEPT_MARK]
        return [pair for pair in pairs if pair[1]]

    def terminals(self, cursor: int) -> dict[int, int]:
        """Token terminals that may come at a cursor: a token of each, and the terminal's number."""
        arena = self._arena
        out: dict[int, int] = {}
        for row, state in self.pairs(cursor):
            states = [state]
            ended = int(arena.tables[layout.LEXER_STATES][state * LEXER_WORDS + L_LONGEST])
            for lexeme in arena.sequence(ended) if ended else ():
                after = arena.call(kernels.OP_SCAN, row, lexeme)
                states.append(int(arena.tables[layout.ROWS][after * ROW_WORDS + R_START]))
            for one in states:
                value = int(arena.tables[layout.LEXER_STATES][one * LEXER_WORDS + L_VALUE]) if one else 0
                for word in arena.sequence(value) if value else ():
                    token = self._token_of(word >> 32)
                    if token is not None:
                        out[token] = word >> 32
        return out

    def _token_of(self, lexeme: int) -> int | None:
        """A token that a terminal stands for, rather one that does not end texts; None if the lexeme is no terminal."""
        record = lexeme * layout.LEXEME_WORDS
        lexemes, ranges = self._arena.tables[layout.LEXEMES], self._arena.tables[layout.TOKEN_RANGES]
        first, n = int(lexemes[record + layout.X_RANGES]), int(lexemes[record + layout.X_N_RANGES])
        for i in range(first, first + n):
            low, high = int(ranges[2 * i]), int(ranges[2 * i + 1])
            for token in range(low, min(high, low + len(self._stops)) + 1):
                if token not in self._stops:
                    return token
        return int(ranges[2 * first]) if n else None


def fewest_tokens(vocab: Vocabulary, edges: list[int], stops: frozenset[int]) -> list[int]:
    """Edges as token ids: each run of bytes as the fewest tokens that spell it, terminals as they are.

    ``stops`` are never taken as text. Raises :class:`GrammarError` where nothing else spells a run.
    """
    return _tokens(vocab, edges, stops, vocab.token_of[1])


def single_tokens(vocab: Vocabulary, edges: list[int], stops: frozenset[int]) -> list[int]:
    """The same with one token for each byte."""
    return _tokens(vocab, edges, stops, (1,))


def _tokens(vocab: Vocabulary, edges: list[int], stops: frozenset[int], lengths: tuple[int, ...]) -> list[int]:
    out: list[int] = []
    run = bytearray()
    for edge in [*edges, None]:
        if edge is not None and edge >= 0:
            run.append(edge)
            continue
        out += _spelled(vocab, bytes(run), stops, lengths)
        run.clear()
        if edge is not None:
            out.append(~edge)
    return out


def _spelled(vocab: Vocabulary, text: bytes, stops: frozenset[int], lengths: tuple[int, ...]) -> list[int]:
    """The fewest tokens of these lengths that spell ``text``, the longer ones first."""
    tokens = vocab.token_of[0]
    n = len(text)
    fewest = [0] * n + [0]
    chosen = [-1] * n
    for i in range(n - 1, -1, -1):
        least = FAR
        for length in lengths:
            if i + length > n:
                continue
            token = tokens.get(text[i : i + length])
            if token is not None and fewest[i + length] + 1 < least and token not in stops:
                least, chosen[i] = fewest[i + length] + 1, token
        fewest[i] = least
    out = []
    at = 0
    while at < n:
        token = chosen[at]
        if token < 0:
            raise GrammarError(f"no tokens spell {text!r}")
        out.append(token)
        at += len(vocab.tokens[token] or b"")
    return out
