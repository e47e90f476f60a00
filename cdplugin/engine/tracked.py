"""Tracked values, the owner's side: it reads the values of typed texts, and makes the lexemes and rules that depend on them.

:mod:`cdplugin.kernels.lexer.tracked` is the kernels' side. Everything here belongs to one arena and goes with it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Sequence
from sys import getsizeof
from typing import NamedTuple

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.engine.programs import Program, bytes_words, known_words
from cdplugin.expr import Expr
from cdplugin.ir import MOST_COUNTED, GrammarIR, Part, Texts, TrackedLexeme
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex.expressions import EMPTY, NULLABLE
from cdplugin.kernels.regex.programs import CONSTANT, KEEP
from cdplugin.kernels.store import layout

_MOST_LEVELS = 80  # most bytes of the texts that count_words counts
_MOST_STATES, _LEAST_STATES, _STATES_IN_ALL = 300, 24, 12_000  # its derivatives: most and least per lexeme, per grammar
_MOST_ON_PATHS = 1_000  # states that a search for one text may meet
_ID_SHIFT = 32
_VALUE_BYTES, _NODE_BYTES, _EDGE_BYTES = 700, 120, 150
"""Bytes of a value or a context; of an expression node; of an edge or a node of a tree of texts; each with what is
known of it.
"""


class _Context(NamedTuple):
    """Where a tracking lexeme stands: the nonterminal of its rule, and what follows it."""

    nonterminal: int
    tracked: TrackedLexeme


class ValueTracker:
    """The values of an arena's tracking lexemes, and what follows each value.

    ``go_on()(nonterminal, lexeme, parts)`` lays out a rule of ``nonterminal`` with ``lexeme`` and ``parts``, which is never
    predicted, and returns its first dot. It is a weak reference, since the method's owner holds this object.
    """

    def __init__(
        self,
        arena: Arena,
        ir: GrammarIR,
        lexeme_number: dict[int, int],
        go_on: Callable[[], Callable[[int, int, Sequence[Part]], int] | None],
    ) -> None:
        self._arena = arena
        self._go_on = go_on
        self._number = lexeme_number
        self._n_records = len(arena.tables[layout.LEXEMES]) // layout.LEXEME_WORDS
        self._build = Builder(arena)
        self._contexts: dict[int, _Context] = {}
        self._tracking: dict[int, np.ndarray] = {}  # by number, the records of tracking lexemes, with their last expression
        self._expressions: dict[int, int] = {}
        self._remaining: dict[int, Remaining] = {}
        self._value_lexeme: dict[tuple[int, Hashable], int] = {}
        self._value: dict[int, Hashable] = {}
        self._last: dict[int, tuple[Expr, int]] = {}
        self._reader = {
            int(self._record(lexeme_number[s])[layout.X_TRACKED]): ir.tracked[s] for s in ir.twins if s in lexeme_number
        }

    @property
    def nbytes(self) -> int:
        """Bytes of what is known of texts, besides the arena's tables."""
        remaining = sum(remaining.nbytes for remaining in self._remaining.values())
        return _VALUE_BYTES * (len(self._value) + len(self._contexts)) + self._build.nbytes + remaining

    def lexeme(self, tracked: TrackedLexeme, nonterminal: int) -> int | None:
        """Return the number of a lexeme for ``tracked`` in a rule of ``nonterminal``; None if all its texts are excluded.

        Raises :class:`LimitExceeded` if that cannot be decided.
        """
        number = self._number[tracked.lexeme]
        record = self._tracking.get(number)
        if record is None:
            record = self._record(number)
            record[layout.X_BEGUN] = record[layout.X_SYMBOL] = record[layout.X_TRACKED]
            record[layout.X_ROLE] = layout.TRACKS
            self._tracking[number] = record
            self._expressions[number] = int(record[layout.X_EXPRESSION])
        expression = self._expressions[number]
        if tracked.excluded is not None:
            excluded = tracked.excluded
            if isinstance(excluded, Texts):
                if number not in self._remaining:
                    self._remaining[number] = Remaining(self._arena, expression, excluded.among)
                expression = self._remaining[number].without(excluded)
            else:
                expression = self._without(number, expression, excluded)
            if expression == EMPTY:
                return None
        record[layout.X_EXPRESSION] = expression
        record[layout.X_ALIKE] = 0 if tracked.alike is None else 1 + tracked.alike
        lexeme = self._append(record)
        self._contexts[lexeme] = _Context(nonterminal, tracked)
        return lexeme

    def _without(self, number: int, expression: int, excluded: Expr) -> int:
        """Return the expression of a lexeme without what is excluded; :data:`EMPTY` if nothing is left."""
        last, result = self._last.get(number, (None, EMPTY))
        if last is not excluded:  # the same as last time if only another lexeme of the rule has changed
            result = self._build.without(expression, excluded)
            if not self._arena.is_nonempty(result):
                result = EMPTY
            self._last[number] = excluded, result
        return result

    def note_value(self, lexeme: int, text: int) -> None:
        """Memoise the value of a text (a ``K_TEXT`` value) with which a lexeme has ended; ``lexeme``: its number once begun."""
        value = self._reader[lexeme].read(self._text(text))
        number = self._value_lexeme.get((lexeme, value))
        if number is None:
            record = self._record(lexeme)
            record[layout.X_ROLE] = layout.VALUE
            record[layout.X_SYMBOL] = record[layout.X_BEGUN] = self._n_records
            number = self._value_lexeme[lexeme, value] = self._append(record)
            self._value[number] = value
        self._arena.call(kernels.OP_NOTE, layout.M_VALUE, lexeme << _ID_SHIFT | text, number)

    def note_rest(self, lexeme: int, value: int) -> None:
        """Memoise how the rule in which ``lexeme`` stands goes on after a value; 0 if the value is excluded there."""
        context = self._contexts[lexeme]
        parts = context.tracked.then(self._value[value])
        go_on = self._go_on()
        assert go_on is not None
        dot = 0 if parts is None else go_on(context.nonterminal, lexeme, parts)
        self._arena.call(kernels.OP_NOTE, layout.M_REST, lexeme << _ID_SHIFT | value, dot)

    def _record(self, number: int) -> np.ndarray:
        """Return a copy of a lexeme's record."""
        return self._arena.tables[layout.LEXEMES][number * layout.LEXEME_WORDS : (number + 1) * layout.LEXEME_WORDS].copy()

    def _append(self, record: np.ndarray) -> int:
        number = self._n_records
        start, end = number * layout.LEXEME_WORDS, (number + 1) * layout.LEXEME_WORDS
        self._arena.reserve(layout.LEXEMES, end)
        self._arena.tables[layout.LEXEMES][start:end] = record
        self._n_records = number + 1
        return number

    def _text(self, text: int) -> bytes:
        """Return the bytes of a ``K_TEXT`` value."""
        values, data = self._arena.tables[layout.VALUES], self._arena.tables[layout.DATA]
        out = bytearray()
        while True:
            at = values[text * layout.VALUE_WORDS + layout.V_OFFSET]
            text, last = data[at : at + 2].tolist()
            if not text:
                out.reverse()
                return bytes(out)
            out.append(last >> _ID_SHIFT)


class Builder:
    """Makes expressions in an arena that is in use. A node that was met before costs nothing."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._known: dict[int, tuple[int, ...]] = {}  # :func:`known_words`
        self._alive: list[Expr] = []  # keeps nodes alive, so that their ids stay unique

    @property
    def nbytes(self) -> int:
        """Bytes of what is known of nodes. The nodes themselves belong to what they were made for."""
        return _NODE_BYTES * len(self._known)

    def without(self, expression: int, excluded: Expr) -> int:
        """Return ``expression & ~excluded``."""
        self._alive.append(excluded)
        program = _Further(self._arena.limits, known=self._known)
        program.add(excluded)
        words = [CONSTANT, expression, *program.words, layout.K_NOT, layout.K_AND, 2]
        result, made = self._arena.evaluate(words, program.n_results)
        self._known |= known_words({node: made[number] for node, number in program.results().items()})
        return result


class _Further(Program):
    """A program for an arena that is in use: without literals, since its table of literals does not grow any more."""

    def _literals_words(self, texts: tuple[bytes, ...], positive: bool) -> tuple[int, ...]:
        words: list[int] = []
        for text in texts:
            parts = [word for byte in text for word in bytes_words(1 << byte)]
            words += (*parts, layout.K_CAT, len(text)) if text else (layout.K_EPSILON,)
        return (*words, layout.K_ALT, len(texts))


def states_for_each(n_expressions: int) -> int:
    """Return how many derivatives :func:`count_words` may take for each of so many expressions."""
    return min(max(_STATES_IN_ALL // max(n_expressions, 1), _LEAST_STATES), _MOST_STATES)


def count_words(arena: Arena, expression: int, most_states: int) -> int:
    """Return a lower bound on how many texts an expression has, at most :data:`MOST_COUNTED`.

    Texts of printable ASCII are counted first: mostly they are enough, and take few derivatives. If these exceed
    ``most_states``, texts of all bytes would, too.
    """
    found, in_full = _count_words(arena, expression, 0x20, 0x7F, most_states)
    if found == MOST_COUNTED or not in_full:
        return found
    return max(found, _count_words(arena, expression, 0, 256, most_states)[0])


def _count_words(arena: Arena, expression: int, first: int, end: int, most_states: int) -> tuple[int, bool]:
    """Do :func:`count_words` over the bytes ``first`` to ``end - 1``; return also whether ``most_states`` were enough."""
    total = 0
    level = {expression: 1}
    after: dict[int, list[tuple[int, int]]] = {}
    ends: dict[int, bool] = {EMPTY: False}
    for _ in range(_MOST_LEVELS):
        following: dict[int, int] = {}
        for state, ways in level.items():
            if state not in after:
                if len(after) >= most_states:
                    return min(total, MOST_COUNTED), False
                after[state] = arena.derivatives(state, first, end)
            for times, child in after[state]:
                following[child] = min(following.get(child, 0) + ways * times, MOST_COUNTED)
        for state in following.keys() - ends.keys():
            ends[state] = arena.has_flag(state, NULLABLE)
        following.pop(EMPTY, None)
        level = following
        total += sum(ways for state, ways in level.items() if ends[state])
        if total >= MOST_COUNTED or not level:
            break
    return min(total, MOST_COUNTED), True


def count_along_path(arena: Arena, expression: int) -> int:
    """Return another lower bound, at most :data:`MOST_COUNTED`, for expressions whose shortest texts are long or have many
    states.

    It counts the texts that pass through the same states as one text: ``[a-z]{2}:[0-9]{12}`` has 26² 10¹² on its only path. Two
    paths are tried: one that leaves each state by the fewest bytes first, and one by the most.
    """
    found = _count_along(arena, expression, 1)
    return found if found == MOST_COUNTED else max(found, _count_along(arena, expression, -1))


def _count_along(arena: Arena, expression: int, order: int) -> int:
    """Do :func:`count_along_path` by a depth-first search that meets at most ``_MOST_ON_PATHS`` states."""

    def onward(state: int) -> Iterator[tuple[int, int]]:
        ways: dict[int, int] = {}
        for times, child in arena.derivatives(state):
            ways[child] = ways.get(child, 0) + times
        return iter(sorted(((times, child) for child, times in ways.items()), key=lambda way: order * way[0]))

    best = 0
    met = {EMPTY, expression}
    path = [(1, onward(expression))]
    while path and best < MOST_COUNTED and len(met) < _MOST_ON_PATHS:
        texts, ways = path[-1]
        following = next(((times, child) for times, child in ways if child not in met and arena.is_nonempty(child)), None)
        if following is None:
            path.pop()
            continue
        texts, child = min(texts * following[0], MOST_COUNTED), following[1]
        met.add(child)
        path.append((texts, onward(child)))
        if arena.has_flag(child, NULLABLE):
            best = max(best, texts)
    return best


class _Node:
    """A node of the tree of texts that are left.

    ``count``: texts left below it, of those from ``low`` to ``high``; as long as ``edges`` is None, all of them are. ``edges``:
    byte -> (the expression of that byte and what is left after it, the node after it).
    """

    __slots__ = ("count", "edges", "expression", "high", "low")

    def __init__(self, low: int, high: int, count: int, expression: int, edges: dict[int, tuple[int, _Node]] | None) -> None:
        self.low = low
        self.high = high
        self.count = count
        self.expression = expression
        self.edges = edges


class Remaining:
    """A lexeme of an arena minus texts. ``expression``: the lexeme's id; ``among``: all of its texts, sorted, and
    maybe more.
    """

    def __init__(self, arena: Arena, expression: int, among: tuple[bytes, ...]) -> None:
        self._arena = arena
        self._among = among
        self._root: _Node | None = _Node(0, len(among), len(among), expression, None)
        self._known: dict[Texts, _Node | None] = {}
        self.nbytes = 0

    def without(self, texts: Texts) -> int:
        """Return the lexeme's expression without ``texts``; :data:`EMPTY` if nothing is left."""
        pending: list[Texts] = []
        last: Texts | None = texts
        while last is not None and last not in self._known:
            pending.append(last)
            last = last.before
        root = self._root if last is None else self._known[last]
        while pending:
            texts = pending.pop()
            for text in texts.added:
                root = None if root is None else self._less(root, text)
            self._known[texts] = root
        return EMPTY if root is None else root.expression

    def _less(self, root: _Node, text: bytes) -> _Node | None:
        """Return the tree without one more text."""
        path: list[tuple[_Node, dict[int, tuple[int, _Node]]]] = []
        node = root
        while node.count > 1:
            edges = self._edges(node, text[: len(path)])
            edge = edges.get(text[len(path)])
            if edge is None:  # the lexeme does not have this text
                return root
            path.append((node, edges))
            node = edge[1]
        edges = {}
        while path and not edges:  # remove nodes that become empty, from below
            node, edges = path.pop()
            edges = {**edges}
            del edges[text[len(path)]]
        if not edges:
            return None
        depth = len(path)
        words = [word for byte in text[:depth] for word in bytes_words(1 << byte)]
        _alternatives([expression for expression, _ in edges.values()], 0, words)
        for above in range(depth - 1, -1, -1):
            words += (layout.K_CAT, 2, KEEP, above)
            _alternatives([expression for byte, (expression, _) in path[above][1].items() if byte != text[above]], 1, words)
        expression, kept = self._arena.evaluate(words, depth)
        new = _Node(node.low, node.high, node.count - 1, expression if not depth else EMPTY, edges)
        self.nbytes += _EDGE_BYTES + getsizeof(edges)
        for above in range(depth - 1, -1, -1):
            node, edges = path[above]
            edges = {**edges, text[above]: (kept[above], new)}
            new = _Node(node.low, node.high, node.count - 1, EMPTY if above else expression, edges)
            self.nbytes += _EDGE_BYTES + getsizeof(edges)
        return new

    def _edges(self, node: _Node, begun: bytes) -> dict[int, tuple[int, _Node]]:
        """Return the edges of a node after the bytes ``begun``."""
        if node.edges is not None:
            return node.edges
        edges: dict[int, tuple[int, _Node]] = {}
        words: list[int] = []
        low = node.low
        while low < node.high:
            byte = self._among[low][len(begun)]
            high = node.high if byte == 0xFF else bisect_left(self._among, begun + bytes([byte + 1]), low, node.high)
            after = self._arena.call(kernels.OP_DERIVE, node.expression, byte)
            if after != EMPTY:
                words += (*bytes_words(1 << byte), CONSTANT, after, layout.K_CAT, 2, KEEP, len(edges))
                edges[byte] = EMPTY, _Node(low, high, high - low, after, None)
            low = high
        if edges:
            _, kept = self._arena.evaluate([*words, layout.K_ALT, len(edges)], len(edges))
            edges = {byte: (expression, after) for expression, (byte, (_, after)) in zip(kept, edges.items(), strict=True)}
        node.edges = edges
        self.nbytes += getsizeof(edges) + 2 * _EDGE_BYTES * len(edges)
        return edges


def _alternatives(expressions: list[int], n_before: int, words: list[int]) -> None:
    """Append words that unite some expressions, and the last ``n_before`` that the program has just made."""
    for expression in expressions:
        words += (CONSTANT, expression)
    if n_before + len(expressions) > 1:
        words += (layout.K_ALT, n_before + len(expressions))
