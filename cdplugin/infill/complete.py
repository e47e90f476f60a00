"""Shortest fillings of gaps: a cheapest derivation on the lattice, spelt.

Facts "nonterminal A leads from node p to node q" that the text's completion can be made of are collected from the goal down;
Knuth's algorithm ("A generalization of Dijkstra's algorithm", 1977) then finds the cheapest derivation, where a lexeme costs
the bytes of it that lie in gaps. Slots must have been filled before.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_members
from cdplugin.infill.parts import members, records_of
from cdplugin.infill.tables import PREFERRED_BYTES
from cdplugin.kernels import entry as engine
from cdplugin.kernels.infill import entry as kernels
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout

if TYPE_CHECKING:
    from cdplugin.infill.tables import InfillGrammar
    from cdplugin.infill.workspace import Workspace

_TEXT_END = -1  # in the place of an element
_FACT_WORK = 300  # units of work of a fact, a way to it, or a place that a lexeme is spelt through

Edge = tuple[int, int, int]
Ends = dict[tuple[int, int], tuple[int, list[tuple[int, int]], int]]
"""By lexeme and node: the bytes in gaps, these as (element, byte), and the lexer state in which the lexeme matched."""

Fact = tuple[int, int, int]


class _Chart:
    """The facts of a workspace as Python integers: bit q of a row is node q."""

    def __init__(self, grammar: InfillGrammar, work: Workspace) -> None:
        self.grammar = grammar
        self.work = work
        self.arena = grammar.arena
        head = self.work.header
        self.width = int(head[ws.W_WIDTH])
        self.final = 64 * self.width - 1
        self.end = self.final - 1
        self.bits = self.work.tables[ws.BITS]
        self.symbols = self.arena.tables[layout.DOT_SYMBOL]
        self.nullable = self.arena.tables[layout.NULLABLE]
        self.null_rest = self.arena.tables[layout.DOT_NULL_REST]
        self._rows: dict[int, int] = {}

    def row(self, table: int, index: int) -> int:
        at = int(self.work.tables[table][index])
        if at == 0:
            return 0
        if at not in self._rows:
            self._rows[at] = int.from_bytes(self.bits[at : at + self.width].tobytes(), "little")
        return self._rows[at]

    def ends(self, symbol: int, node: int) -> int:
        """Where a symbol may end that begins at a node."""
        if symbol >= 0:
            found = self.row(ws.DERIVED, node * self.grammar.n_nonterminals + symbol)
            return found | (1 << node if self.nullable[symbol] else 0)
        return self.row(ws.SPANS, node * self.grammar.n_lexemes - 2 - symbol)

    def rest(self, dot: int, node: int) -> int:
        """Where a rule may end that stands at a dot at a node."""
        return self.row(ws.REST, node * self.grammar.n_dots + dot) | (1 << node if self.null_rest[dot] else 0)


def spell_gaps(grammar: InfillGrammar, work: Workspace) -> Iterator[list[bytes]]:
    """The texts of the gaps, from left to right, of a cheapest completion: with as few separators as seem necessary, then with
    one between any two lexemes, of one byte or (``/**/``) longer. The workspace holds the facts of a completable text without
    open slots.

    What is spelled need not be legal: that a gap has room for what keeps lexemes apart is taken for granted.
    """
    chart = _Chart(grammar, work)
    speller = _Speller(grammar, chart)
    leaves = _cheapest(chart, speller)
    yield speller.spell(leaves, speller.byte_apart, False)
    yield speller.spell(leaves, speller.byte_apart, True)
    if grammar.separators:
        yield speller.spell(leaves, speller.text_apart, True)


def _cheapest(chart: _Chart, speller: _Speller) -> list[Edge]:
    """The lexemes ``(start, lexeme, end)`` of a cheapest derivation, from left to right."""
    symbols = chart.symbols
    firsts = chart.work.tables[ws.FIRST_DOTS]
    heads = chart.work.tables[ws.FIRST_HEADS]
    goal: Fact = (0, 0, chart.final)  # a fact: (dot, node, end): what is left of a rule there leads to the end
    ways: dict[Fact, list[tuple[tuple[Fact, ...], Edge | None, int]]] = {}
    users: dict[Fact, list[tuple[Fact, int]]] = {}
    pending = [goal]
    own: float
    best: dict[Fact, float] = {}
    heap: list[tuple[float, int, Fact, int]] = []
    serial = 0
    while pending:
        fact = pending.pop()
        if fact in ways:
            continue
        dot, node, end = fact
        symbol = int(symbols[dot])
        found: list[tuple[tuple[Fact, ...], Edge | None, int]] = []
        if symbol == -1:
            if node == end:
                found.append(((), None, 0))
        else:
            for middle in members(chart.ends(symbol, node)):
                if not chart.rest(dot + 1, middle) >> end & 1:
                    continue
                after = (dot + 1, middle, end)
                if symbol < 0:
                    lexeme = -2 - symbol
                    found.append(((after,), (node, lexeme, middle), speller.cost(node, lexeme, middle)))
                else:
                    for i in range(int(heads[symbol]), int(heads[symbol + 1])):
                        first = int(firsts[i])
                        if chart.rest(first, node) >> middle & 1:
                            found.append((((first, node, middle), after), None, 0))
        ways[fact] = found
        chart.arena.spend(_FACT_WORK * (1 + len(found)))
        for number, (needs, _, cost) in enumerate(found):
            if not needs:
                heapq.heappush(heap, (cost, serial, fact, number))
                serial += 1
            for need in set(needs):
                users.setdefault(need, []).append((fact, number))
                pending.append(need)
    chosen: dict[Fact, int] = {}
    while heap:
        reached, _, fact, number = heapq.heappop(heap)
        if fact in best:
            continue
        best[fact] = reached
        chosen[fact] = number
        for user, way in users.get(fact, ()):
            if user in best:
                continue
            needs, _, own = ways[user][way]
            if all(need in best for need in needs):
                total = own + sum(best[need] for need in needs) + 0.001
                heapq.heappush(heap, (total, serial, user, way))
                serial += 1
    out: list[Edge] = []
    stack: list[Fact | Edge] = [goal]
    edges: set[int] = set()
    while stack:
        fact = stack.pop()
        if id(fact) in edges:
            out.append(fact)
            continue
        needs, edge, _ = ways[fact][chosen[fact]]
        stack += reversed(needs)
        if edge is not None and edge[0] != chart.end:
            stack.append(edge)
            edges.add(id(edge))
    return out


class _Speller:
    """Spells lexemes through bytes and gaps: Dijkstra over (element, lexer state), where a byte in a gap costs 1."""

    def __init__(self, grammar: InfillGrammar, chart: _Chart) -> None:
        self._grammar = grammar
        self._arena = grammar.arena
        self._work = chart.work
        self._chart = chart
        head = self._work.header
        count = int(head[ws.W_ELEMENTS])
        self._elements = self._work.tables[ws.ELEMENTS][:count].tolist()
        self._accepts = self._work.tables[ws.ACCEPTS][: count + 1].tolist()
        self._nodes = self._work.tables[ws.NODE_BEFORE][: count + 1].tolist()
        self._last = self._work.tables[ws.NODE_LAST][: count + 1].tolist()
        self._text_end = (grammar.n_lexemes - 1, chart.final)  # the end symbol
        self._place: dict[int, int] = {}
        for k, first in enumerate(self._nodes):
            for node in range(first, self._last[k]):
                inside = node == first and k > 0 and self._elements[k - 1] == ws.GAP
                self._place.setdefault(node, k - 1 if inside else k)
        self._bare: dict[int, Ends] = {}  # without skips before
        self._found: dict[int, Ends] = {}
        self._targets_of: dict[int, list[tuple[int, int]]] = {}

    def cost(self, start: int, lexeme: int, end: int) -> int:
        """How many bytes of the lexeme, and of what is skipped before it, lie in gaps."""
        return self._from(start)[lexeme, end][0]

    def _from(self, start: int) -> Ends:
        """What begins at a node."""
        pending = [] if start in self._found else [start]
        while pending:  # what a skip leads to is found before what it leads on from
            node = pending[-1]
            if node not in self._bare:
                self._bare[node] = self._search(node)
                pending += [middle for _, middle in self._skips_from(node) if middle not in self._found]
            else:
                self._found[node] = self._with_skips(node)
                pending.pop()
        return self._found[start]

    def _search(self, start: int) -> Ends:
        found: Ends = {}
        if start == self._chart.end:
            return {self._text_end: (0, [], 0)}
        place = self._place[start]
        before: dict[tuple[int, int], tuple[tuple[int, int], int | None]] = {}
        distance: dict[tuple[int, int], int] = {}
        heap: list[tuple[int, int, int]] = []
        for state in self._start_states(start):
            distance[place, state] = 0
            heapq.heappush(heap, (0, place, state))
        done = set()

        def note(here: tuple[int, int], accepted: int, k: int, cost: int, last: int | None, state: int) -> None:
            for key in self._ends_at(k, start, accepted) if accepted else ():
                if key not in found:
                    found[key] = (cost, [(here[0], last)] if last is not None else [], state)
                    origin[key] = here

        origin: dict[tuple[int, int], tuple[int, int]] = {}
        while heap:
            cost, k, state = heapq.heappop(heap)
            if (k, state) in done:
                continue
            self._arena.spend(_FACT_WORK)
            done.add((k, state))
            here = (k, state)
            records = self._arena.tables[layout.LEXER_STATES]
            matched = int(records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LONGEST])
            if matched and self._accepts[k]:
                note(here, matched, _TEXT_END, cost, None, state)
            if k == len(self._elements):
                continue
            element = self._elements[k]
            if element >= 0:
                after = self._transition(state, element)
                if after == lexer_layout.BEFORE:
                    note(here, matched, k, cost, None, state)
                    continue
                if after == 0:
                    continue
                self._arrive(here, after, k + 1, k + 1, cost, None, note, distance, before, heap)
            else:
                inside = -2 - k
                if matched:
                    note(here, matched, inside, cost, None, state)
                if cost < distance.get((k + 1, state), 1 << 30):
                    distance[k + 1, state] = cost
                    before[k + 1, state] = (here, None)
                    heapq.heappush(heap, (cost, k + 1, state))
                for after, byte in self._targets(state):
                    self._arrive(here, after, k, inside, cost + 1, byte, note, distance, before, heap)
        for key, (cost, last, state) in found.items():
            path = list(last)
            at = origin[key]
            while at in before:
                at, taken = before[at]
                if taken is not None:
                    path.append((at[0], taken))
            found[key] = (cost, path[::-1], state)
        if start == 0 and self._accepts[0]:
            found[self._text_end] = (0, [], 0)
        return found

    def _skips_from(self, start: int) -> list[tuple[int, int]]:
        """The skips that begin at a node, and where they end, further right (nodes are numbered from left to right)."""
        if start == 0:
            return []
        records = records_of(self._arena.tables[layout.LEXEMES], layout.LEXEME_WORDS)
        return [key for key in self._bare[start] if start < key[1] <= self._chart.end and records[key[0], layout.X_IS_SKIP]]

    def _with_skips(self, start: int) -> Ends:
        """What begins at a node, and what a skip from there stands before: lexemes, and the end of the text."""
        found = dict(self._bare[start])
        for skip, middle in self._skips_from(start):
            cost, written, _ = self._bare[start][skip, middle]
            skipped = self._set(ws.SKIPPED, skip)
            for (lexeme, end), (more, rest, state) in self._found[middle].items():
                if not skipped >> lexeme & 1:
                    continue
                known = found.get((lexeme, end))
                if known is None or cost + more < known[0]:
                    found[lexeme, end] = (cost + more, written + rest, state)
        return found

    def _start_states(self, node: int) -> list[int]:
        """The lexer states in which lexemes that may start at a node start (:mod:`cdplugin.kernels.infill.starts`)."""
        words = int(self._work.header[ws.W_SET])
        row = self._work.tables[ws.ALLOWED][node * words : (node + 1) * words]
        numbers = bit_members(row)
        records = records_of(self._arena.tables[layout.LEXEMES], layout.LEXEME_WORDS)
        numbers = numbers[numbers < self._grammar.n_lexemes - 1]
        is_exact = records[numbers, layout.X_KIND] == layout.EXACT
        groups = [numbers[is_exact]]
        if self._work.header[ws.W_SPLIT]:  # what may follow is told apart by which of them ended
            groups = list(numbers[is_exact][:, None])
        others = numbers[~is_exact]
        if self._work.header[ws.W_LOOSE]:
            return [self._grammar.start_state(group) for group in self._loose_groups(node, groups, others) if len(group)]
        if node > 0:
            skips = records[others, layout.X_SKIP]
            others = np.union1d(others, skips[skips >= 0])
        return [self._grammar.start_state(group) for group in (*groups, others) if len(group)]

    def _loose_groups(self, node: int, groups: list[np.ndarray], others: np.ndarray) -> list[np.ndarray]:
        """Each lexeme starts in a state of its own, beside its skip."""
        records = records_of(self._arena.tables[layout.LEXEMES], layout.LEXEME_WORDS)
        for lexeme in others.tolist():
            skip = int(records[lexeme, layout.X_SKIP])
            groups.append(np.array(sorted({lexeme, skip} if skip >= 0 and node > 0 else {lexeme})))
        return groups

    def _ends_at(self, k: int, start: int, accepted: int) -> list[tuple[int, int]]:
        """The (lexeme, node) pairs of lexemes that end together before element ``k``, in the gap ``-2 - k``, or where the text
        may end; :mod:`cdplugin.kernels.infill.boundaries` has the same.
        """
        lexemes = self._arena.sequence(accepted)
        records = records_of(self._arena.tables[layout.LEXEMES], layout.LEXEME_WORDS)
        skips = [lexeme for lexeme in lexemes if records[lexeme, layout.X_IS_SKIP]]
        lexemes = skips or list(lexemes)
        if k == _TEXT_END:
            return [(lexeme, self._chart.end) for lexeme in lexemes]
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
        """A set of lexemes as bits."""
        words = int(self._work.header[ws.W_SET])
        return int.from_bytes(self._work.tables[table][index * words : (index + 1) * words].tobytes(), "little")

    def _arrive(self, here, after, k, at, cost, byte, note, distance, before, heap):  # type: ignore[no-untyped-def]
        """Take a transition's target: note the lexemes that end, go on with the rest."""
        state = after & lexer_layout.STATE_MASK
        if after & lexer_layout.ENDS_BIT:
            records = self._arena.tables[layout.LEXER_STATES]
            ended = int(records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_ACCEPTED])
            note(here, ended, at, cost, byte, 0)
            if self._accepts[k] if byte is None else self._accepts[k + 1]:
                note(here, ended, _TEXT_END, cost, byte, 0)
            state = int(records[state * lexer_layout.LEXER_WORDS + lexer_layout.L_REST])
        if state and cost < distance.get((k, state), 1 << 30):
            distance[k, state] = cost
            before[k, state] = (here, byte)
            heapq.heappush(heap, (cost, k, state))

    def _transition(self, state: int, byte: int) -> int:
        after = int(self._arena.tables[layout.TRANSITIONS][state * 256 + byte])
        if after < 0:
            self._work.call(kernels.OP_CLOSURE, state)
            after = int(self._arena.tables[layout.TRANSITIONS][state * 256 + byte])
        return after

    def _targets(self, state: int) -> list[tuple[int, int]]:
        """The states that one byte leads to, each with the byte that is liked best."""
        known = self._targets_of.get(state)
        if known is None:
            self._work.call(kernels.OP_CLOSURE, state)
            row = self._arena.tables[layout.TRANSITIONS][state * 256 : state * 256 + 256][PREFERRED_BYTES]
            targets, first = np.unique(row, return_index=True)
            order = sorted(zip(first.tolist(), targets.tolist(), strict=True))
            known = [(target, int(PREFERRED_BYTES[i])) for i, target in order if target > 0 and target != lexer_layout.BEFORE]
            self._targets_of[state] = known
        return known

    def _first_byte(self, leaf: Edge) -> int | None:
        """The first byte of a lexeme that begins in a gap."""
        start, lexeme, end = leaf
        k = self._place[start]
        for at, byte in self._from(start)[lexeme, end][1]:
            if at == k:
                return byte
            break
        return next((element for element in self._elements[k:] if element >= 0), None)

    def text_apart(self, state: int) -> bytes:
        """A text of skips that keeps LONGEST lexemes apart from any that may follow."""
        return next((text for text in self._grammar.separators if self._transition(state, text[0]) == lexer_layout.BEFORE), b"")

    def byte_apart(self, state: int) -> bytes:
        """A byte of a skip that ends LONGEST lexemes."""
        records = records_of(self._arena.tables[layout.LEXEMES], layout.LEXEME_WORDS)
        for lexeme in np.flatnonzero(records[:, layout.X_IS_SKIP]).tolist():
            for byte in b" \n\t":
                after = self._arena.call(engine.OP_DERIVE, int(records[lexeme, layout.X_EXPRESSION]), byte)
                if (
                    self._arena.call(engine.OP_STATUS, after) & engine.MATCHES_EMPTY
                    and self._transition(state, byte) == lexer_layout.BEFORE
                ):
                    return bytes([byte])
        return b""

    def spell(self, leaves: list[Edge], separator: Callable[[int], bytes], always_apart: bool) -> list[bytes]:
        """The gaps' texts, given the lexemes. ``always_apart``: with a separator after each that ends in a gap."""
        texts = {k: bytearray() for k, element in enumerate(self._elements) if element == ws.GAP}
        for i, (start, lexeme, end) in enumerate(leaves):
            _, written, state = self._from(start)[lexeme, end]
            for k, byte in written:
                texts[k].append(byte)
            if i + 1 < len(leaves) and state and self._place.get(end, 0) in texts:
                following = self._first_byte(leaves[i + 1])
                if following is not None and (always_apart or self._transition(state, following) != lexer_layout.BEFORE):
                    texts[self._place[end]] += separator(state)
        return [bytes(texts[k]) for k in sorted(texts)]
