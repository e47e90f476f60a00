"""Short legal endings: a search from a cursor to a place where the text may end; then the bytes in as few tokens as possible.

The search is best first (weighted A*: Hart, Nilsson and Raphael, 1968; Pohl, 1970) over cursors; :mod:`cdplugin.queries.costs`
estimates the bytes to the end. Mostly the estimate is exact, and the search goes straight to a shortest ending in bytes. For
EXACT lexemes without ``&`` and ``~``, an edge is a shortest word of the lexeme; elsewhere edges are single bytes. All edges are
steps of the engine itself, so endings are legal whatever the lexing. Endings are remembered for every cursor that they pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple, TypeVar

import numpy as np

from cdplugin.bits import clear_bits
from cdplugin.engine.arena import Arena
from cdplugin.errors import EngineError, LimitExceeded
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.regex.measures import FAR, LONG
from cdplugin.kernels.store import layout
from cdplugin.queries.costs import Costs
from cdplugin.queries.measures import Measures
from cdplugin.queries.successors import successors
from cdplugin.queries.words import SpeltBytes, Words, bytes_of, first_token

_MOST_KEPT = 50_000  # cursors whose endings are remembered
_PLACE_BYTES = 460  # bytes for such a cursor: two table entries, and its length
_GREED = (2, 8)  # weights of the estimate: first for a short ending, then for any ending
# The share of the work for a short ending: 1 / _SHORT_PART if values have to differ, 1 / _SOUGHT_PART if much is to be
# matched at once.
_SHORT_PART, _SOUGHT_PART = 4, 8

_MANY_EDGES = 200  # with more edges at one place, what is left after each is estimated only when it is its turn
_FIRST_EDGES, _MORE_EDGES = 50, 4  # edges of a place that are opened at first, and the factor each time these are used up
_LONGEST = 1 << 21  # bytes of the longest ending that is looked for
_MOST_TEXT_BYTES = 16 << 20  # bytes of the words that are remembered

_EDGE_WORK = 100  # units of work (Limits.max_step_work) for looking at an edge
_TOKEN_WORK = 3  # units of work for sorting in a token

_ALL_BYTES = 256

_NO_TOKENS = "none is found that tokens spell: some bytes have no token of their own that is no stop token"
NOT_FOLLOWED = "the matcher does not follow the endings that were found"

T = TypeVar("T")
Edge = tuple[bytes | int, int]
"""A text, or ``~token`` for a token that is followed as a terminal; and the cursor after it."""


class _Word(NamedTuple):
    """A word after a cursor that has not been followed yet."""

    before: int
    text: bytes
    row: int
    symbol: int


class _Further(NamedTuple):
    """The edges of a cursor beyond the first ``shown``, which are open.

    This is partial expansion (Yoshizumi, Miura and Ishida, AAAI 2000): a place with a thousand edges, of which one is taken,
    does not fill the memory.
    """

    cursor: int
    shown: int


_Looked = tuple[bytes | int, "int | _Word", int, int, bool]
"""An edge during a search: text, where it leads, its bytes, the bytes left then, and whether these are not known yet."""


class _Frontier:
    """The open list of a search: the cheapest path first, and places from which no ending is known last.

    ``best``, ``came``: for a cursor, the bytes of the best path to it so far, and the last edge of that path.
    """

    def __init__(self, start: int, estimate: int, weight: int) -> None:
        self.best = {start: 0}
        self.came: dict[int, tuple[int, bytes | int]] = {}
        self.closed: set[int] = set()
        self._weight = weight
        self._order = count()
        self._open: list[tuple[int, bool, int, int, int, int | _Word | _Further]] = []
        self.push(0, estimate, False, start)

    def __bool__(self) -> bool:
        return bool(self._open)

    def push(self, taken: int, left: int, unknown: bool, place: int | _Word) -> None:
        """Open a place: the bytes of the path to it, the bytes left from it, and whether these are not known yet."""
        heappush(self._open, (taken + self._weight * left, unknown, left, next(self._order), taken, place))

    def pop(self) -> tuple[int, int, bool, int | _Word | _Further]:
        """Return the best place, as it was opened."""
        _, unknown, left, _, taken, place = heappop(self._open)
        return taken, left, unknown, place

    def follow(self, cursor: int, taken: int, left: int, edges: Sequence[_Looked], shown: int) -> None:
        """Open the best ``shown`` places that edges of ``cursor`` lead to, and the cursor once more for the others."""
        closed, best, weight = self.closed, self.best, self._weight
        ways = [
            (cost + weight * rest, unknown, number)
            for number, (_, after, cost, rest, unknown) in enumerate(edges)
            if isinstance(after, _Word) or (after not in closed and taken + cost < best.get(after, FAR))
        ]
        if len(ways) > shown:
            ways.sort()
            cost, unknown, _ = ways[shown]
            heappush(self._open, (taken + cost, unknown, left, next(self._order), taken, _Further(cursor, _MORE_EDGES * shown)))
        for _, _, number in ways[:shown]:
            text, after, cost, rest, unknown = edges[number]
            self.push(taken + cost, rest, unknown, after)
            if not isinstance(after, _Word):
                best[after] = taken + cost
                self.came[after] = (cursor, text)

    def put_off(self, cursor: int, taken: int, left: int) -> None:
        """Open a cursor again, for edges of one byte that are no better than one that was followed."""
        best = taken + 1 + self._weight * max(left - 1, 0)
        heappush(self._open, (best, True, left, next(self._order), taken, _Further(cursor, _FIRST_EDGES)))


class Endings:
    """Short endings in one arena. The caller holds the arena's lock.

    ``stops``: tokens that are not text, besides the vocabulary's end tokens (:func:`cdplugin.queries.words.narrowing`).
    """

    def __init__(self, arena: Arena, stops: frozenset[int] = frozenset()) -> None:
        self.arena = arena
        self.costs = Costs(arena, Measures(arena))  # estimates in bytes
        self._generous: Costs | None = None
        self._next: dict[int, Edge] = {}  # for a cursor on an ending found: the next edge
        self._length: dict[int, tuple[int, int]] = {}  # the bytes of that ending, and n_lowered of the costs at that time
        self._text_bytes = 0  # of the texts in ``_next``
        self._first_bytes = 0  # after the first question: what any arena of the grammar would know
        self._stops = stops.union(arena.vocab.eos_token_ids)
        self.is_shared = not stops
        self._spelt = SpeltBytes(arena.vocab, stops) if stops else bytes_of(arena.vocab)
        self.words = Words(arena, self.costs.matches, self._spelt)

    @property
    def nbytes(self) -> int:
        """Bytes of what is known."""
        of_costs = self.costs.nbytes
        if self._generous is not None:
            of_costs += self._generous.nbytes - self.costs.measures.nbytes
        return _PLACE_BYTES * len(self._next) + self.words.nbytes + self._text_bytes + of_costs

    def find(self, cursor: int, most: int | None = None) -> list[int]:
        """Return a short path from ``cursor`` to a place where the text may end: bytes (0 to 255), and ``~token`` for
        terminals.

        Raises :class:`LimitExceeded` if none is found within ``most`` steps (default: ``Limits.max_completion_steps``) and the
        work that the caller grants (:meth:`Arena.one_budget`).
        """
        if cursor in self._next:
            return _flat(self._follow(cursor))
        try:
            return _flat(self._find(cursor, self.arena.limits.max_completion_steps if most is None else most))
        finally:
            nbytes = self.nbytes
            self._first_bytes = self._first_bytes or nbytes
            self.arena.make_room(nbytes - self._first_bytes)
            if self.arena.account is not None and self.is_shared:
                self.arena.account.note("endings", nbytes)

    def followed(self, cursor: int, stops: np.ndarray, follow: Callable[[list[int]], T | None]) -> T | None:
        """Return the result of ``follow`` for an ending in the fewest tokens; if it is None, for one with a token for each
        byte.

        The second matters if the grammar counts tokens. ``stops``: int64, a count and the tokens that are never text.
        """
        edges = self.find(cursor)
        found = follow(_tokens(edges, lambda text: self._fewest(text, stops)))
        if found is None:
            banned = set(stops[1:].tolist())
            found = follow(_tokens(edges, lambda text: self._singly(text, banned)))
        return found

    def spelled(self, text: bytes, stops: np.ndarray) -> int:
        """Return how few tokens spell a text, leaving them on the stack; or ``NOT_SPELT`` plus a position."""
        data = np.frombuffer(text, np.uint8)
        return self.arena.call(kernels.OP_SPELL, data.ctypes.data, len(data), stops.ctypes.data)

    def _fewest(self, text: bytes, stops: np.ndarray) -> list[int]:
        """Return the fewest tokens that spell a text. Raises :class:`EngineError` if none do."""
        found = self.spelled(text, stops)
        if found >= mask_layout.NOT_SPELT:
            raise EngineError(f"no tokens spell {text[found - mask_layout.NOT_SPELT :][:40]!r}")
        return self.arena.tables[layout.STACK][:found].tolist()

    def _singly(self, text: bytes, banned: set[int]) -> list[int]:
        """Return one token for each byte of a text. Raises :class:`EngineError` if some byte has none."""
        single = {byte: first_token(self.arena.vocab, bytes([byte]), banned) for byte in set(text)}
        found = [token for byte in text if (token := single[byte]) is not None]
        if len(found) < len(text):
            raise EngineError(f"no tokens spell the bytes of {text[:40]!r}")
        return found

    @property
    def spells_bytes(self) -> bool:
        """Whether each byte that expressions may contain is a token of its own."""
        return len(self._spelt.tokens) >= _ALL_BYTES - self.arena.vocab.absent_bytes.bit_count()

    def bytes_left(self, cursor: int) -> int:
        """Return a lower bound of an ending's bytes by the rules made so far; :data:`FAR` if they say nothing."""
        left = self.costs.of_cursor(cursor, demand=False)
        if left < FAR and self.arena.header[layout.HAS_TRACKED]:
            return min(left, 1)  # costs count the longest of tracked names, which is no lower bound
        return left

    def estimate(self, cursor: int) -> int:
        """Return the bytes of an ending as a search estimates them; :data:`FAR` if nothing ends. Makes late rules."""
        self.costs.budget.renew()
        return self.costs.of_cursor(cursor)

    def tokens_at_most(self, cursor: int) -> int | None:
        """Return a number of tokens in which a text can surely end, one for each byte of a shortest ending; None if only a
        search can tell.

        The bytes are read off the rules, which takes less than a search, above all for long endings.
        """
        arena, head = self.arena, self.arena.header
        if arena.expand is not None or head[layout.HAS_CLOCKS] or head[layout.HAS_TRACKED] or not self.spells_bytes:
            return None
        if not arena.is_exact or arena.lexemes[:, layout.X_FENCE].any():
            return None
        self.costs.budget.renew()
        self.costs.look_for(cursor)
        left = self.costs.of_cursor(cursor)
        return None if self.costs.is_bound or self.costs.matches.gave_up or left >= LONG else left

    def tokens_at_least(self, cursor: int) -> int:
        """Return a lower bound of an ending's tokens, by the bytes of a shortest one; 0 if the rules do not tell."""
        arena, head = self.arena, self.arena.header
        if arena.expand is not None or head[layout.HAS_TRACKED]:
            return 0  # late rules may be shorter; and costs count the longest of tracked names
        self.costs.budget.renew()
        left = self.costs.of_cursor(cursor)
        if left >= FAR:
            return 0
        if arena.lexemes[:, layout.X_FENCE].any():
            left = left * 2 // 3  # costs count one byte more for a fenced lexeme of two bytes or more
        return -(-left // max(1, arena.vocab.max_token_bytes))

    def _find(self, cursor: int, most: int) -> list[bytes | int]:
        """Do :meth:`find`, returning edges."""
        self.costs.trim(_MOST_KEPT)
        self.words.trim(_MOST_KEPT)
        head = self.arena.header
        self.costs.budget.renew(most)
        part = _SHORT_PART if head[layout.HAS_TRACKED] else _SOUGHT_PART if self._is_far_below(cursor) else 1
        for by_tokens in (False, True):
            for weight in _GREED:
                costs = self.costs
                kept = 0  # work withheld for the searches after this one
                if not by_tokens and part > 1:
                    if weight != _GREED[-1]:
                        kept = int(head[layout.WORK_LEFT]) // part * (part - 1)
                    else:
                        costs = self._generous_costs()
                costs.budget.renew(most)
                head[layout.WORK_LEFT] -= kept
                try:
                    end = self._search(costs, cursor, weight, by_tokens)
                except LimitExceeded:
                    if by_tokens or weight == _GREED[-1]:
                        raise
                    continue
                finally:
                    head[layout.WORK_LEFT] += kept
                if end is not None:
                    return end
                break  # none exists with the bytes that have tokens of their own: search over whole tokens
        cause = "the grammar's longest match leads to a dead end" if self.spells_bytes else _NO_TOKENS
        raise EngineError(f"the text has no legal ending: {cause}")

    def _is_far_below(self, cursor: int) -> bool:
        """Return whether the estimate may be far too low, since no match of some ``&`` or ``~`` was found soon."""
        self.costs.look_for(cursor)
        self._estimate(self.costs, cursor)
        return self.costs.matches.gave_up

    def _generous_costs(self) -> Costs:
        """Return estimates that soon lead to an ending where texts have to differ, or to match much at once."""
        if self._generous is None:
            self._generous = Costs(self.arena, self.costs.measures, generous=True)
        self._generous.trim(_MOST_KEPT)
        return self._generous

    def _search(self, costs: Costs, start: int, weight: int, by_tokens: bool) -> list[bytes | int] | None:
        """Return the edges of a path from ``start`` to an end; None if there is none.

        ``weight``: of the estimate; with more, the search is faster and its endings are longer.
        """
        costs.look_for(start)
        estimate = self._estimate(costs, start)
        if _LONGEST < estimate < FAR:
            found = "more" if estimate >= LONG else str(estimate)
            raise LimitExceeded("the shortest ending is too long", expected=f"at most {_LONGEST} bytes", found=found)
        frontier = _Frontier(start, estimate, weight)
        best, came, closed = frontier.best, frontier.came, frontier.closed
        while frontier:
            taken, estimate, unknown, place = frontier.pop()
            shown = _FIRST_EDGES
            if isinstance(place, _Further):
                cursor, shown = place
            else:
                if isinstance(place, _Word):
                    cursor = self._after_word(place.row, place.symbol)
                    if taken >= best.get(cursor, FAR):
                        continue
                    best[cursor] = taken
                    came[cursor] = (place.before, place.text)
                else:  # an int, or NumPy's from interpreted kernels
                    cursor = place
                if cursor in closed:
                    continue
                if unknown:
                    left = self._estimate(costs, cursor)
                    if left > estimate:
                        frontier.push(taken, left, False, cursor)
                        continue
                closed.add(cursor)
                if cursor in self._next or (self._estimate(costs, cursor) == 0 and self.arena.call(kernels.OP_ACCEPTS, cursor)):
                    return self._remember(start, cursor, came, costs.n_lowered)
            costs.budget.take()
            edges, are_all = self._looked_at(costs, cursor, estimate, by_tokens, isinstance(place, _Further))
            self.arena.spend(_EDGE_WORK * len(edges))
            frontier.follow(cursor, taken, estimate, edges, shown)
            if not are_all:
                frontier.put_off(cursor, taken, estimate)
        return None

    def _looked_at(
        self, costs: Costs, cursor: int, estimate: int, by_tokens: bool, in_full: bool
    ) -> tuple[list[_Looked], bool]:
        """Return the edges of a cursor from which ``estimate`` bytes are left, and whether these are all.

        If some edge is known to be as near an end as the estimate says, edges that are not known come after it: following them
        would make late rules for an ending that is no shorter. Nor are the single bytes after it looked at, unless ``in_full``:
        each takes as long as a step of the search.
        """
        words = None if by_tokens else self._words_at(cursor)
        if not self.arena.header[layout.HAS_TERMINALS] and words is not None and len(words) > _MANY_EDGES:
            return [
                (text, _Word(cursor, text, row, symbol), len(text), max(estimate - len(text), 0), True)
                for text, row, symbol in words
            ], True
        found: list[_Looked] = []
        edges = self._token_edges(cursor) if by_tokens else self._edges(cursor, words)
        doubtful: list[tuple[int, int]] = []  # places in `found`, and their cursors
        nearest = 0
        stops = not in_full and words is None and not by_tokens
        for edge, after in edges:
            cost = len(self._text(edge)) if by_tokens or isinstance(edge, bytes) else 1
            left = FAR if len(edges) > _MANY_EDGES else self._estimate(costs, after, demand=False)
            unknown = left >= FAR
            if unknown:
                left = max(estimate - cost, costs.at_least(after) if len(edges) <= _MANY_EDGES else 0)
            elif costs.is_bound:
                left = max(left, estimate - cost)
            elif cost + left <= estimate:
                nearest = min(nearest or left, left)
            elif costs.may_be_less:
                doubtful.append((len(found), after))
            found.append((edge, after, cost, left, unknown))
            if nearest and stops:
                break
        for number, after in doubtful if not nearest else ():  # rules that are not made yet lead as near as the estimate says
            edge, _, cost, _, _ = found[number]
            found[number] = (edge, after, cost, max(estimate - cost, costs.at_least(after)), True)
        looked = [
            (text, after, cost, max(left, nearest) if unknown else left, unknown) for text, after, cost, left, unknown in found
        ]
        return looked, len(found) == len(edges)

    def _estimate(self, costs: Costs, cursor: int, demand: bool = True) -> int:
        """Return the bytes left from a cursor: those of a remembered ending, unless newer rules promise a shorter one.

        The search still takes the remembered ending when it gets there: looking for the shorter one might take all its work.
        """
        known, n_lowered = self._length.get(cursor, (FAR, 0))
        if known < FAR and n_lowered == costs.n_lowered:
            costs.is_bound = costs.may_be_less = False
            return known
        return min(known, costs.of_cursor(cursor, demand))

    def _text(self, edge: bytes | int) -> bytes:
        """Return the bytes that an edge stands for."""
        if isinstance(edge, bytes):
            return edge
        return self.arena.vocab.tokens[~edge] or b"?"

    def _remember(self, start: int, end: int, came: dict[int, tuple[int, bytes | int]], n_lowered: int) -> list[bytes | int]:
        """Remember the path to ``end`` for every cursor on it; return its edges, and those known from ``end`` on.

        ``n_lowered``: of the costs that led there.
        """
        tail = self._follow(end)
        if len(self._next) > _MOST_KEPT or self._text_bytes > _MOST_TEXT_BYTES:
            self._forget_but(end)
        length = sum(len(self._text(edge)) for edge in tail)
        edges: list[bytes | int] = []
        cursor = end
        while cursor != start:
            before, edge = came[cursor]
            edges.append(edge)
            length += len(self._text(edge))
            self._length[before] = length, n_lowered
            self._next[before] = (edge, cursor)
            self._text_bytes += len(edge) if isinstance(edge, bytes) else 0
            cursor = before
        edges.reverse()
        return edges + tail

    def _forget_but(self, cursor: int) -> None:
        """Forget all endings except that from a cursor on, to which another one is about to lead."""
        kept: dict[int, Edge] = {}
        while cursor in self._next:
            kept[cursor] = self._next[cursor]
            cursor = kept[cursor][1]
        self._next = kept
        self._length = {cursor: self._length[cursor] for cursor in kept}
        self._text_bytes = sum(len(edge) for edge, _ in kept.values() if isinstance(edge, bytes))

    def _follow(self, cursor: int) -> list[bytes | int]:
        out = []
        while cursor in self._next:
            edge, cursor = self._next[cursor]
            out.append(edge)
        return out

    # --- edges ----------------------------------------------------------------------------------------------------------------

    def _edges(self, cursor: int, words: list[tuple[bytes, int, int]] | None) -> list[Edge]:
        """Return the cursors that ``words`` (:meth:`_words_at`), or else single bytes, and token terminals lead to,
        each once.
        """
        arena = self.arena
        found = self._word_edges(words)
        if found is None:
            places = arena.call(kernels.OP_EDGES, cursor, self._spelt.table.ctypes.data, len(self._spelt.table))
            pairs = arena.tables[layout.STACK][: 2 * places].tolist()
            found = [(self._spelt.order[i], after) for i, after in zip(pairs[::2], pairs[1::2], strict=True)]
        if arena.header[layout.HAS_TERMINALS]:
            for token in self.terminals(cursor):
                after = arena.call(kernels.OP_ACCEPT, cursor, token, 0)
                if after:
                    found.append((~token, after))
        return found

    def _word_edges(self, words: list[tuple[bytes, int, int]] | None) -> list[Edge] | None:
        """Return the cursors after words, each with a shortest word that leads there; None if edges have to be bytes."""
        if words is None:
            return None
        out: dict[int, bytes] = {}
        for text, row, symbol in words:
            after = self._after_word(row, symbol)
            if after not in out or len(text) < len(out[after]):
                out[after] = text
        return [(text, after) for after, text in out.items()]

    def _after_word(self, row: int, symbol: int) -> int:
        """Return the cursor after scanning one lexeme alone. Others may end with it; what this cursor allows is legal."""
        return self.arena.call(kernels.OP_START_OF, self.arena.call(kernels.OP_SCAN, row, symbol))

    def _words_at(self, cursor: int) -> list[tuple[bytes, int, int]] | None:
        """Return a shortest word of each lexeme of a cursor, the row before it, and its symbol; None if edges have to
        be bytes.
        """
        arena = self.arena
        if arena.header[layout.HAS_CLOCKS] or arena.header[layout.HAS_TRACKED]:
            return None
        lexemes = arena.tables[layout.LEXEMES]
        found: list[tuple[int, int, int]] = []
        for row, state in self.arena.pairs(cursor):
            for word in arena.open_words(state):
                record = (word >> 32) * layout.LEXEME_WORDS
                if lexemes[record + layout.X_N_RANGES]:
                    continue
                # check all before spelling any: words may be long
                if lexemes[record + layout.X_KIND] != layout.EXACT or not self.words.may_be_spelt(word & layout.LOW_32):
                    return None
                found.append((word & layout.LOW_32, row, int(lexemes[record + layout.X_SYMBOL])))
        out: list[tuple[bytes, int, int]] = []
        for root, row, symbol in found:
            text = self.words.of(root)
            if text is None:
                return None
            if text:
                out.append((text, row, symbol))
        return out

    def only_byte(self, cursor: int) -> int | None:
        """Return the byte with which every legal continuation begins; None if there are several, or none."""
        found = self.arena.call(kernels.OP_ONLY_BYTE, cursor)
        return found - 1 if found else None

    def _token_edges(self, cursor: int) -> list[Edge]:
        """Return the cursors that allowed tokens lead to, each once."""
        row = self.arena.mask(cursor)
        clear_bits(row, self._stops)
        cursors, numbers = successors(self.arena, cursor, row)
        tokens = np.flatnonzero(numbers >= 0)
        self.arena.spend(_TOKEN_WORK * len(tokens))
        offsets = self.arena.vocab.token_offsets
        tokens = tokens[np.argsort(offsets[tokens + 1] - offsets[tokens], kind="stable")]  # the shortest first
        _, first = np.unique(numbers[tokens], return_index=True)
        return [(~token, after) for token, after in zip(tokens[first].tolist(), cursors, strict=True)]

    def terminals(self, cursor: int) -> dict[int, int]:
        """Return the token terminals that may come at a cursor: a token of each, and the terminal's number."""
        arena = self.arena
        out: dict[int, int] = {}
        for row, state in self.arena.pairs(cursor):
            states = [state]
            for lexeme in arena.longest(state):
                after = arena.call(kernels.OP_SCAN, row, lexeme)
                states.append(arena.of_row(after, parser_layout.R_START))
            for one in states:
                for word in arena.open_words(one):
                    token = self._token_of(word >> 32)
                    if token is not None:
                        out[token] = word >> 32
        return out

    def _token_of(self, lexeme: int) -> int | None:
        """Return a token that a terminal stands for, preferring one that does not end texts; None if the lexeme is no
        terminal.
        """
        record = lexeme * layout.LEXEME_WORDS
        lexemes, ranges = self.arena.tables[layout.LEXEMES], self.arena.tables[layout.TOKEN_RANGES]
        first, n = int(lexemes[record + layout.X_RANGES]), int(lexemes[record + layout.X_N_RANGES])
        for i in range(first, first + n):
            low, high = int(ranges[2 * i]), int(ranges[2 * i + 1])
            for token in range(low, min(high, low + len(self._stops)) + 1):
                if token not in self._stops:
                    return token
        return int(ranges[2 * first]) if n else None


def _flat(edges: list[bytes | int]) -> list[int]:
    """Return edges as bytes and ``~token``."""
    out: list[int] = []
    for edge in edges:
        if isinstance(edge, bytes):
            out += edge
        else:
            out.append(edge)
    return out


def _tokens(edges: list[int], spell: Callable[[bytes], list[int]]) -> list[int]:
    """Return edges as token ids: each run of bytes as ``spell`` spells it, terminals as they are."""
    out: list[int] = []
    run = bytearray()
    for edge in [*edges, None]:
        if edge is not None and edge >= 0:
            run.append(edge)
            continue
        if run:
            out += spell(bytes(run))
            run.clear()
        if edge is not None:
            out.append(~edge)
    return out
