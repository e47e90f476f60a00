"""Completions: shortest fillings of gaps, spelled from a cheapest derivation on the lattice.

Kernels find the derivation (:mod:`cdplugin.kernels.infill.derivation`). A lexeme costs its bytes that lie in gaps;
a kernel computes these costs, and :class:`_Speller` reads the bytes themselves from what it leaves. Called by
:class:`cdplugin.infill.answers.Answers`, for texts without open slots.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.infill.steps import PREFERRED_BYTES
from cdplugin.kernels import entry as engine
from cdplugin.kernels.infill import entry as kernels
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout

if TYPE_CHECKING:
    from cdplugin.infill.tables import InfillGrammar
    from cdplugin.infill.workspace import Workspace

_TEXT_END = -1  # in place of an element
_MEASURE_WORK = 30  # units of work of an end of a lexeme
_FACT_WORK = 300  # units of work of an edge, of a byte of a spelling, of a lexeme of a derivation
_NODE = (1 << ws.NODE_BITS) - 1
MOST_DERIVATIONS = 32  # spelled and put to the matcher

Edge = tuple[int, int, int]
_LexemeCost = tuple[int, tuple[int, int] | None]
"""The bytes of a lexeme in gaps, and the skip that comes first (or None), with the node where it ends."""

_Spelling = tuple[list[tuple[int, int]], int]
"""The bytes in gaps as (element, byte), and the lexer state in which the lexeme matched."""

_Step = tuple[tuple[int, int] | None, int | None, list[tuple[int, int]], int]
"""A step of a spelling: the next (element, lexer state), the byte in a gap that it takes, the lexemes that end,
with their nodes, and the state in which they matched."""


class Completions:
    """Completions of a text without open slots, from the facts of a workspace."""

    def __init__(self, grammar: InfillGrammar, work: Workspace) -> None:
        self._arena = grammar.arena
        self._work = work
        self._speller = speller = _Speller(grammar, work)
        self._separators = [(speller.byte_apart, False), (speller.byte_apart, True)]
        self._separators += [(speller.text_apart, True)] * bool(grammar.separators.texts)
        work.call(kernels.OP_COLLECT)
        edges = self._edges()
        self._arena.spend(_FACT_WORK * len(edges))
        edges[:, 1] = [speller.cost(*_edge(key)) for key in edges[:, 0].tolist()]

    def spelled(self, accept: Callable[[list[bytes]], int]) -> list[bytes] | None:
        """The texts of the gaps, from left to right, of a cheapest completion that is accepted; None if none was found.

        ``accept``: how many bytes of the whole text are right with these gaps, -1 for all. A derivation need not spell a legal
        text: it supposes that gaps have room for what separates lexemes, and in a loose workspace that lexemes do not compete.
        So each derivation is spelled with as few separators as seem necessary, then with one between any two lexemes: one byte,
        or longer (``/**/``). If all are refused, the lexeme in which the error shows is barred, or an earlier one that could
        not be separated from the one before, and another derivation is chosen; :data:`MOST_DERIVATIONS` times at most.
        """
        for _ in range(MOST_DERIVATIONS):
            if not self._work.call(kernels.OP_CHOOSE):
                return None
            numbers = self._leaves()
            leaves = [_edge(int(self._edges()[number, 0])) for number in numbers]
            furthest, refused = -1, 0
            for separator, always_apart in self._separators:
                fillings, ends, clash = self._speller.spell(leaves, separator, always_apart)
                right = accept(fillings)
                if right < 0:
                    return fillings
                if right > furthest:
                    furthest = right
                    refused = next((i for i, end in enumerate(ends) if end > right), len(ends) - 1)
                    refused = refused if clash is None else min(refused, clash)
            if not numbers:
                return None
            self._edges()[numbers[refused], 1] = -1
        return None

    def _edges(self) -> np.ndarray:
        """Key and cost of each edge, ``(n, 2)``: a view."""
        return self._work.tables[ws.EDGES][: ws.EDGE_WORDS * int(self._work.header[ws.W_N_EDGES])].reshape(-1, ws.EDGE_WORDS)

    def _leaves(self) -> list[int]:
        """The edges of the chosen derivation, from left to right.

        A derivation is a graph that names repeated parts once (``a{1000000}`` has twenty), so it is no larger than the facts;
        its leaves may be exponentially many. They are counted first, and the work is charged. Facts that derive the empty text
        are not followed.
        """
        lengths: dict[int, int] = {}
        stack = [0]
        while stack:  # postorder: a fact is counted after all that it needs
            edge, needs = self._inference_of(stack[-1])
            missing = [fact for fact in needs if fact not in lengths]
            if missing:
                stack += missing
            else:
                lengths[stack.pop()] = (edge is not None) + sum(lengths[fact] for fact in needs)
        self._arena.spend(_FACT_WORK * (len(lengths) + lengths[0]))
        out: list[int] = []
        stack = [0]  # facts, and edges as ``-1 - edge``
        while stack:
            item = stack.pop()
            if item < 0:
                out.append(-1 - item)
                continue
            edge, needs = self._inference_of(item)
            stack += [fact for fact in needs if lengths[fact]]
            if edge is not None:
                stack.append(-1 - edge)
        return out

    def _inference_of(self, fact: int) -> tuple[int | None, list[int]]:
        """The chosen inference of a fact: its edge (None for the end of the text), and the facts that it needs, the last one
        first.
        """
        at = int(self._work.tables[ws.FACTS][ws.FACT_WORDS * fact + ws.F_INFERENCE]) * ws.INFERENCE_WORDS
        need, other, edge = self._work.tables[ws.INFERENCES][at + ws.INF_NEED : at + ws.INF_EDGE + 1].tolist()
        is_text = edge >= 0 and _edge(int(self._edges()[edge, 0]))[0] != self._speller.end
        return edge if is_text else None, [part for part in (other, need) if part >= 0]


def _edge(key: int) -> Edge:
    """Start, lexeme and end of an edge, from its key."""
    return key >> ws.NODE_BITS & _NODE, key >> 2 * ws.NODE_BITS, key & _NODE


def _place(word: int) -> tuple[int, int]:
    """Element and lexer state, from ``PT_PLACE``."""
    return word >> 32, word & layout.LOW_32


class _Speller:
    """Spells lexemes through bytes and gaps by the points that :mod:`cdplugin.kernels.infill.measure` leaves."""

    def __init__(self, grammar: InfillGrammar, work: Workspace) -> None:
        self._grammar = grammar
        self._arena = grammar.arena
        self._work = work
        head = work.header
        self.end = int(64 * head[ws.W_WIDTH] - 2)
        count = int(head[ws.W_ELEMENTS])
        self._elements = self._work.tables[ws.ELEMENTS][:count].tolist()
        self._accepts = self._work.tables[ws.ACCEPTS][: count + 1].tolist()
        self._nodes = self._work.tables[ws.NODE_BEFORE][: count + 1].tolist()
        self._last = self._work.tables[ws.NODE_LAST][: count + 1].tolist()
        self._text_end = (grammar.n_lexemes - 1, self.end + 1)  # the end symbol
        self._place: dict[int, int] = {}
        for k, first in enumerate(self._nodes):
            for node in range(first, self._last[k]):
                inside = node == first and k > 0 and self._elements[k - 1] == ws.GAP
                self._place.setdefault(node, k - 1 if inside else k)
        self._gaps_before = [0, *itertools.accumulate(element < 0 for element in self._elements)]
        self._skips = frozenset(np.flatnonzero(self._arena.lexemes[:, layout.X_IS_SKIP]).tolist())
        self._bare: dict[int, dict[tuple[int, int], int]] = {}  # without skips before
        self._found: dict[int, dict[tuple[int, int], _LexemeCost]] = {}
        self._last_measured: int | None = None  # the node that MEASURES and POINTS are of
        self._spellings: dict[Edge, _Spelling] = {}
        self._targets_of: dict[int, list[tuple[int, int]]] = {}
        self._closed: set[int] = set()

    def cost(self, start: int, lexeme: int, end: int) -> int:
        """The cost of an edge: its lexeme's bytes in gaps, those of skips before it included; -1 if they are too many."""
        if not self._meets_gap(start, end):
            return 0
        way = self._from(start).get((lexeme, end))
        assert way is not None or self._work.header[ws.W_MOST_IN_GAP], "an end of a lexeme that was not measured"
        return -1 if way is None else ws.BYTE * way[0]

    def _from(self, start: int) -> dict[tuple[int, int], _LexemeCost]:
        """The edges from a node with their costs, by (lexeme, end), skips included."""
        pending = [] if start in self._found else [start]
        while pending:  # postorder: the node where a skip ends comes before the node where it begins
            node = pending[-1]
            if node not in self._bare:
                self._bare[node] = self._measured(node)
                pending += [middle for _, middle in self._skips_from(node) if middle not in self._found]
            else:
                self._found[node] = self._with_skips(node)
                pending.pop()
        return self._found[start]

    def _measured(self, start: int) -> dict[tuple[int, int], int]:
        """The lexemes that begin at a node, by (lexeme, end), each with its bytes in gaps."""
        if start == self.end:
            return {self._text_end: 0}
        measures = self._measure(start)
        keys, costs = measures[:, ws.MS_KEY], measures[:, ws.MS_COST] - 1
        ends = zip((keys >> ws.NODE_BITS).tolist(), (keys & _NODE).tolist(), strict=True)
        found = dict(zip(ends, costs.tolist(), strict=True))
        if start == 0 and self._accepts[0]:
            found[self._text_end] = 0
        return found

    def _measure(self, start: int) -> np.ndarray:
        """Where the lexemes end that begin at a node, ``(n, MEASURE_WORDS)``: a view."""
        if self._last_measured != start:
            self._last_measured = None
            self._work.call(kernels.OP_MEASURE, start, self._place[start])
            self._last_measured = start
        measures = self._work.tables[ws.MEASURES][: ws.MEASURE_WORDS * int(self._work.header[ws.W_N_MEASURES])]
        self._arena.spend(_MEASURE_WORK * len(measures))
        return measures.reshape(-1, ws.MEASURE_WORDS)

    def _skips_from(self, start: int) -> list[tuple[int, int]]:
        """The skips that begin at a node, as (skip, end), with ends further right (nodes are numbered from left to right)."""
        if start == 0:
            return []
        return [key for key in self._bare[start] if key[0] in self._skips and start < key[1] <= self.end]

    def _with_skips(self, start: int) -> dict[tuple[int, int], _LexemeCost]:
        """The edges from a node, by (lexeme, end): lexemes that begin there, and those (or the end of the text) behind a skip
        from there.
        """
        bare = self._bare[start]
        found: dict[tuple[int, int], _LexemeCost] = {key: (cost, None) for key, cost in bare.items()}
        for skip, middle in self._skips_from(start):
            skipped = self._set(ws.SKIPPED, skip)
            for (lexeme, end), (more, _) in self._found[middle].items():
                if not skipped >> lexeme & 1:
                    continue
                known = found.get((lexeme, end))
                if known is None or bare[skip, middle] + more < known[0]:
                    found[lexeme, end] = (bare[skip, middle] + more, (skip, middle))
        return found

    def _spelled(self, start: int, lexeme: int, end: int) -> _Spelling:
        """The bytes of a lexeme that lie in gaps, those of skips before it included."""
        written: list[tuple[int, int]] = []
        if not self._meets_gap(start, end):  # none of its bytes is in a gap, and no separator fits behind it
            return written, 0
        while (skip := self._from(start)[lexeme, end][1]) is not None:
            written += self._search(start, *skip)[0]
            start = skip[1]
        last, state = self._search(start, lexeme, end)
        return written + last, state

    def _search(self, start: int, lexeme: int, end: int) -> _Spelling:
        """:meth:`_spelled` without skips: a cheapest path through the elements."""
        if end == self.end + 1:
            return [], 0
        known = self._spellings.get((start, lexeme, end))
        if known is not None:
            return known
        if self._bare[start][lexeme, end] == 0 and not self._is_in_gap(end):  # as in `_spelled`
            return [], 0
        measures = self._measure(start)
        last, point = measures[measures[:, ws.MS_KEY] == lexeme << ws.NODE_BITS | end][0, [ws.MS_LAST, ws.MS_POINT]].tolist()
        places = self._places_up_to(point)
        path: list[tuple[int, int]] = []
        for before, after in itertools.pairwise(places):
            if after[0] == before[0]:  # in one gap: a byte lies between
                steps = self._steps(start, *before)
                path.append(next((before[0], byte) for reached, byte, _, _ in steps if reached == after and byte is not None))
        k, state = _place(last & ~ws.BY_TEXT)
        byte, matched = next(
            (byte, matched)
            for _, byte, ended, matched in self._steps(start, k, state)
            if (lexeme, end) in ended and (byte is None) == (last & ws.BY_TEXT != 0)
        )
        if byte is not None:
            path.append((k, byte))
        self._arena.spend(_FACT_WORK * len(places))
        self._spellings[start, lexeme, end] = path, matched
        return path, matched

    def _places_up_to(self, point: int) -> list[tuple[int, int]]:
        """Elements and states of the points in gaps on the way to a point (1 + its number, 0: none), itself last."""
        points = self._work.tables[ws.POINTS]
        places = []
        while point:
            at = ws.POINT_WORDS * (point - 1)
            places.append(_place(int(points[at + ws.PT_PLACE])))
            point = int(points[at + ws.PT_BEFORE])
        return places[::-1]

    def _meets_gap(self, start: int, end: int) -> bool:
        """Whether a gap lies between two nodes, or one of them lies in a gap."""
        first, last = (self._place.get(node, len(self._elements)) for node in (start, end))
        return self._gaps_before[last + self._is_in_gap(end)] > self._gaps_before[first]

    def _is_in_gap(self, node: int) -> bool:
        """Whether a node is that of a gap."""
        place = self._place.get(node, len(self._elements))
        return place < len(self._elements) and self._elements[place] == ws.GAP

    def _steps(self, start: int, k: int, state: int) -> Iterator[_Step]:
        """The steps from a lexer state before element ``k``. ``start``: where the lexemes began."""
        records = self._arena.tables[layout.LEXER_STATES]
        matched = int(records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LONGEST])
        if matched and self._accepts[k]:
            yield None, None, self._ends_at(_TEXT_END, start, matched), state
        if k == len(self._elements):
            return
        if self._elements[k] >= 0:
            after = self._transition(state, self._elements[k])
            if after == lexer_layout.BEFORE:
                yield None, None, self._ends_at(k, start, matched), state
            else:
                yield from self._arrivals(start, after, k + 1, k + 1, None)
            return
        if matched:
            yield None, None, self._ends_at(-2 - k, start, matched), state
        for after, byte in self._targets(state):
            yield from self._arrivals(start, after, k, -2 - k, byte)

    def _arrivals(self, start: int, after: int, k: int, at: int, byte: int | None) -> Iterator[_Step]:
        """The steps for a transition's target: lexemes that end, and the state inside lexemes that continue."""
        state = after & lexer_layout.STATE_MASK
        if after & lexer_layout.ENDS_BIT:
            records = self._arena.tables[layout.LEXER_STATES]
            ended = int(records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_ACCEPTED])
            yield None, byte, self._ends_at(at, start, ended), 0
            if self._accepts[k] if byte is None else self._accepts[k + 1]:
                yield None, byte, self._ends_at(_TEXT_END, start, ended), 0
            state = int(records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_REST])
        if state:
            yield (k, state), byte, [], 0

    def _ends_at(self, k: int, start: int, accepted: int) -> list[tuple[int, int]]:
        """The (lexeme, node) pairs of lexemes that end together before element ``k``, in the gap ``-2 - k``, or at the end of
        the text.

        The same rules as in :mod:`cdplugin.kernels.infill.boundaries`.
        """
        lexemes = self._arena.sequence(accepted)
        skips = [lexeme for lexeme in lexemes if lexeme in self._skips]
        lexemes = skips or lexemes
        if k == _TEXT_END:
            return [(lexeme, self.end) for lexeme in lexemes]
        if k <= -2:
            return [(lexeme, self._nodes[-1 - k]) for lexeme in lexemes]
        behind_gap = k > 0 and self._elements[k - 1] == ws.GAP
        nodes = list(range(self._nodes[k] + behind_gap, self._last[k]))
        if self._work.header[ws.W_SPLIT]:
            target = 0
            for lexeme in lexemes:
                target |= self._set(ws.SKIPPED if skips else ws.FOLLOWS, lexeme)
            if skips:
                target &= self._set(ws.ALLOWED, start)
            nodes = [node for node in nodes if self._set(ws.ALLOWED, node) == target][:1]
        return [(lexeme, node) for lexeme in lexemes for node in nodes]

    def _set(self, table: int, index: int) -> int:
        """A set of lexemes in a table, as bits."""
        words = int(self._work.header[ws.W_SET])
        return int.from_bytes(self._work.tables[table][index * words : (index + 1) * words].tobytes(), "little")

    def _transition(self, state: int, byte: int) -> int:
        after = self._arena.transition(state, byte)
        if after < 0:
            self._close(state)
            after = self._arena.transition(state, byte)
        return after

    def _close(self, state: int) -> None:
        """Compute the transitions of a lexer state, and of all states that some text leads to from it."""
        if state not in self._closed:
            self._closed.update(self._work.reached_from(state).tolist())

    def _targets(self, state: int) -> list[tuple[int, int]]:
        """The states that one byte leads to, each with the preferred byte."""
        known = self._targets_of.get(state)
        if known is None:
            self._close(state)
            row = self._arena.transitions(np.array([state]))[0, PREFERRED_BYTES]
            targets, first = np.unique(row, return_index=True)
            order = sorted(zip(first.tolist(), targets.tolist(), strict=True))
            known = [(target, int(PREFERRED_BYTES[i])) for i, target in order if target > 0 and target != lexer_layout.BEFORE]
            self._targets_of[state] = known
        return known

    def _first_byte(self, leaf: Edge) -> int | None:
        """The first byte of an edge that begins in a gap; None if the text ends."""
        start, lexeme, end = leaf
        k = self._place[start]
        for at, byte in self._spelled(start, lexeme, end)[0]:
            if at == k:
                return byte
            break
        return next((element for element in self._elements[k:] if element >= 0), None)

    def text_apart(self, state: int) -> bytes:
        """A text of skips that separates the LONGEST lexemes that matched in ``state`` from any that may follow; empty if there
        is none.
        """
        return next(
            (text for text in self._grammar.separators.texts if self._transition(state, text[0]) == lexer_layout.BEFORE), b""
        )

    def byte_apart(self, state: int) -> bytes:
        """A byte of a skip that ends the LONGEST lexemes that matched in ``state``; empty if there is none."""
        for lexeme in sorted(self._skips):
            for byte in b" \n\t":
                after = self._arena.call(engine.OP_DERIVE, self._arena.of_lexeme(lexeme, layout.X_EXPRESSION), byte)
                if (
                    self._arena.call(engine.OP_STATUS, after) & engine.MATCHES_EMPTY
                    and self._transition(state, byte) == lexer_layout.BEFORE
                ):
                    return bytes([byte])
        return b""

    def spell(
        self, leaves: list[Edge], separator: Callable[[int], bytes], always_apart: bool
    ) -> tuple[list[bytes], list[int], int | None]:
        """Spell a derivation: the gaps' texts; where in the whole text each lexeme ends; and the first lexeme that would
        continue the one before it, as no separator fits between (None: there is none).

        ``separator``: :meth:`byte_apart` or :meth:`text_apart`. ``always_apart``: put one after each lexeme that ends in a gap.
        """
        self._arena.spend(_FACT_WORK * len(leaves))
        texts = {k: bytearray() for k, element in enumerate(self._elements) if element == ws.GAP}
        ends = []
        clash = None
        for i, (start, lexeme, end) in enumerate(leaves):
            written, state = self._spelled(start, lexeme, end)
            for k, byte in written:
                texts[k].append(byte)
            place = self._place.get(end, len(self._elements))
            if i + 1 < len(leaves) and state and place in texts:
                following = self._first_byte(leaves[i + 1])
                goes_on = following is not None and self._transition(state, following) != lexer_layout.BEFORE
                between = separator(state) if goes_on or (always_apart and following is not None) else b""
                texts[place] += between
                if goes_on and not between and clash is None:
                    clash = i + 1
            ends.append((place, len(texts.get(place, b""))))
        before = np.cumsum([0, *(len(texts.get(k, b"?")) for k in range(len(self._elements)))]).tolist()
        return [bytes(texts[k]) for k in sorted(texts)], [before[place] + inside for place, inside in ends], clash
