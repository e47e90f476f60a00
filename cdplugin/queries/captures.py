"""Captures: the texts that the named rules of a grammar derived.

The engine keeps no derivation, so the text is parsed again on demand: Earley's chart (CACM 13(2), 1970) over lexemes, with a
column for each place at which a lexeme ends. As in the engine, predicted items are a static closure and are not stored, and
right recursion costs the same at each item (Leo, Theoretical Computer Science 82, 1991). So for a grammar that is not
ambiguous, the time is proportional to the text's length. Nothing recurses on its depth.

Of several derivations, the one is taken that gives the earlier parts of a rule the longer text, and of two rules with the same
text the one that was written first, as far as that is decided where they end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import chain
from typing import Any, NamedTuple

from cdplugin import expr
from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import evaluate
from cdplugin.engine.expander import StaticTables
from cdplugin.engine.programs import Program
from cdplugin.errors import EngineError
from cdplugin.expr import Expr
from cdplugin.ir import Captured
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.store import layout
from cdplugin.queries.capture_lexing import Edge, Lexing, Units
from cdplugin.walks import reached

Waiting = tuple[int, int]
"""An item: a dot, and the place where its rule begins."""

_ITEM_STEPS = 8  # steps for storing an item, measured: 3.4 microseconds and 250 bytes; looking at one takes 0.4 microseconds

_LEXEME, _NULL, _PART = range(3)  # what a dot moved over: a lexeme, a nonterminal that is empty here, one that is not


class Back(NamedTuple):
    """A back pointer: the item came from the dot before it, in the column at ``place``, over a part of some kind.

    ``first``: where the part begins; for a lexeme, after what is ignored before it.
    """

    dot: int
    place: int
    kind: int
    symbol: int
    first: int


class Span(NamedTuple):
    """The units ``[start, end)`` that a nonterminal derived."""

    nonterminal: int
    start: int
    end: int


class Closure(NamedTuple):
    """What is predicted where some nonterminals are waited for: dots by the symbol after them, and lexemes."""

    dots: dict[int, tuple[int, ...]]
    lexemes: tuple[int, ...]


class Column:
    """The chart's column at one place."""

    def __init__(self) -> None:
        self.items: dict[Waiting, Back | None] = {}
        self.waits: dict[int, list[Waiting]] = {}
        self.complete: dict[Waiting, Waiting | None] = {}  # (nonterminal, origin) -> last item; None: by way of `below`
        self.below: dict[Waiting, Waiting] = {}  # top of a chain of last parts -> what was complete at its lower end
        self.predicted = Closure({}, ())
        self.top: dict[int, Waiting | None] = {}  # nonterminal -> the upper end of its chain


class Rules:
    """An arena's rules as lists. Late rules are made when they are met."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._closures: dict[frozenset[int], Closure] = {}
        self._empty: dict[int, list[int]] = {}
        self._read()

    def _read(self) -> None:
        tables = self._arena.tables
        self.symbols: list[int] = tables[layout.DOT_SYMBOL].tolist()
        self.lefts: list[int] = tables[layout.DOT_LEFT].tolist()
        self.nullable: list[int] = tables[layout.NULLABLE].tolist()
        self._heads: list[int] = tables[layout.RULE_HEADS].tolist()
        self._lists: list[int] = tables[layout.RULE_LISTS].tolist()

    def first_dots(self, nonterminal: int) -> list[int]:
        """Return the first dots of a nonterminal's rules."""
        if self._heads[nonterminal] == layout.NOT_EXPANDED:
            expand: Any = self._arena.expand
            expand(nonterminal)
            self._read()
        out = []
        entry = self._heads[nonterminal]
        while entry >= 0:
            out.append(self._lists[2 * entry])
            entry = self._lists[2 * entry + 1]
        return sorted(out)

    def closure(self, needed: frozenset[int]) -> Closure:
        """Return what waiting for these nonterminals predicts."""
        known = self._closures.get(needed)
        if known is not None:
            return known
        dots: dict[int, list[int]] = {}
        pending = sorted(needed)
        seen = set(pending)
        for nonterminal in pending:
            for dot in self.first_dots(nonterminal):
                while self.symbols[dot] != layout.END_OF_RULE:
                    symbol = self.symbols[dot]
                    dots.setdefault(symbol, []).append(dot)
                    if symbol >= 0 and symbol not in seen:
                        seen.add(symbol)
                        pending.append(symbol)
                    if symbol < 0 or not self.nullable[symbol]:
                        break
                    dot += 1
        lexemes = tuple(-2 - symbol for symbol in dots if symbol < 0)
        known = self._closures[needed] = Closure({s: tuple(d) for s, d in dots.items()}, lexemes)
        return known

    def empty(self, nonterminal: int) -> list[int]:
        """Return the parts of a nullable nonterminal where it is empty: of a rule whose parts do not need it."""
        known = self._empty
        if nonterminal not in known:
            order = reached([nonterminal], lambda one: chain(*self._empty_rules(one)))
            for _ in order:  # mostly once
                for one in reversed(order):
                    right = next((right for right in self._empty_rules(one) if known.keys() >= set(right)), None)
                    if one not in known and right is not None:
                        known[one] = right
                if nonterminal in known:
                    break
        return known.get(nonterminal, [])

    def _empty_rules(self, nonterminal: int) -> list[list[int]]:
        """Return the parts of the rules that may derive the empty text."""
        out = []
        for first in self.first_dots(nonterminal):
            right = self.symbols[first : self.symbols.index(layout.END_OF_RULE, first)]
            if all(symbol >= 0 and self.nullable[symbol] for symbol in right):
                out.append(right)
        return out

    def reaching(self, wanted: set[int]) -> set[int]:
        """Return the wanted nonterminals and those that may contain one."""
        mentions: dict[int, set[int]] = {}
        for dot, symbol in enumerate(self.symbols):
            if symbol >= 0:
                mentions.setdefault(symbol, set()).add(self.lefts[dot])
        return set(reached(wanted, lambda nonterminal: mentions.get(nonterminal, ())))


class Chart:
    """The parse of a whole text. Raises :class:`LimitExceeded`."""

    def __init__(self, arena: Arena, units: Units, lexing: Lexing) -> None:
        self.rules = Rules(arena)
        self._lexing = lexing
        self.end = len(units.units)
        self.columns: dict[int, Column] = {}
        self._fresh: list[Waiting] = []  # complete in the present column, and not looked at yet
        self._arriving: dict[int, list[tuple[int, Edge]]] = {}
        self._kinds: dict[tuple[int, ...], Any] = {}
        self._last: int | None = None
        self._skipped = False  # whether something was ignored
        self._begins: dict[int, int] = {}  # place -> where the lexeme begins that was taken there
        self._parse()

    @property
    def is_complete(self) -> bool:
        """Whether the text is a word of the grammar."""
        return self._last is not None

    def _parse(self) -> None:
        first = self._column(0, [])
        self._add(first, 0, (0, 0), None)
        self._finish(first, 0)
        places = [0]
        again: dict[int, set[int]] = {0: {0}}  # place -> columns whose lexemes begin there: its own, those before a skip
        while places:
            place = heappop(places)
            arriving = self._arriving.pop(place, [])
            if arriving:
                column = self._column(place, arriving)
                self._finish(column, place)
                again.setdefault(place, set()).add(place)
            for start in sorted(again.get(place, ())):
                if place == self.end and (1, 0) in self.columns[start].items:
                    self._last = start  # the last column; what is ignored may follow
                for edge in self._lexing.edges(place, self._lexemes_from(start)):
                    if edge.end not in self._arriving and edge.end not in again:
                        heappush(places, edge.end)
                    if edge.skips:
                        self._skipped = True
                        again.setdefault(edge.end, set()).add(start)
                    else:
                        self._arriving.setdefault(edge.end, []).append((start, edge))
            again.pop(place, None)

    def _lexemes_from(self, place: int) -> Any:
        """Return the lexemes that a column allows, by how they end. No skip comes before the first lexeme of a text."""
        column = self.columns[place]
        own = tuple(sorted({-2 - symbol for symbol in column.waits if symbol < 0} | set(column.predicted.lexemes)))
        kinds = self._kinds.get(own)
        if kinds is None:
            kinds = self._kinds[own] = self._lexing.kinds(own)
        return kinds if place else (*kinds[:3], [])

    def _column(self, place: int, arriving: list[tuple[int, Edge]]) -> Column:
        column = self.columns[place] = Column()
        for start, edge in sorted(arriving, key=lambda one: (-one[1].start, one[1].lexeme)):
            symbol = -2 - edge.lexeme
            self._move_on(column, place, start, symbol, _LEXEME, edge.start)
        return column

    def _move_on(self, column: Column, place: int, start: int, symbol: int, kind: int, first: int) -> None:
        """Add the items after ``symbol`` for those that wait for it in the column at ``start``. Raises
        :class:`LimitExceeded`.
        """
        n_looked_at = 0
        for dot, origin in self._waiting(start, symbol):
            n_looked_at += 1
            if (dot + 1, origin) not in column.items:
                self._add(column, place, (dot + 1, origin), Back(dot, start, kind, symbol, first))
        self._lexing.take(n_looked_at)

    def _waiting(self, place: int, symbol: int) -> Iterator[Waiting]:
        """Yield the items of a finished column that have ``symbol`` after the dot."""
        column = self.columns[place]
        yield from column.waits.get(symbol, ())
        for dot in column.predicted.dots.get(symbol, ()):
            yield dot, place

    def _add(self, column: Column, place: int, item: Waiting, back: Back | None) -> None:
        """Add an item, and those after nullable nonterminals that follow; note what is complete then."""
        symbols, nullable = self.rules.symbols, self.rules.nullable
        while item not in column.items:
            self._lexing.take(_ITEM_STEPS)
            column.items[item] = back
            dot, origin = item
            symbol = symbols[dot]
            if symbol == layout.END_OF_RULE:
                whole = (self.rules.lefts[dot], origin)
                if whole not in column.complete:
                    column.complete[whole] = item
                    self._fresh.append(whole)
                return
            column.waits.setdefault(symbol, []).append(item)
            if symbol < 0 or not nullable[symbol]:
                return
            back = Back(dot, place, _NULL, symbol, place)
            item = (dot + 1, origin)

    def _finish(self, column: Column, place: int) -> None:
        """Complete in a column until nothing is new, what began last first; then predict."""
        pending: list[tuple[int, int]] = []
        while self._fresh or pending:
            while self._fresh:
                nonterminal, origin = self._fresh.pop()
                heappush(pending, (-origin, nonterminal))
            origin, nonterminal = heappop(pending)
            origin = -origin
            top = self._top(nonterminal, origin)
            if top is None:
                self._move_on(column, place, origin, nonterminal, _PART, origin)
            elif top not in column.complete:
                column.complete[top] = None
                column.below[top] = (nonterminal, origin)
                self._fresh.append(top)
        needed = frozenset(symbol for symbol in column.waits if symbol >= 0)
        column.predicted = self.rules.closure(needed)

    def _only(self, nonterminal: int, place: int) -> Waiting | None:
        """Return the only item of a column that waits for a nonterminal, if it does so as its last part; else None."""
        waiting = self._waiting(place, nonterminal)
        one = next(waiting, None)
        if one is None or next(waiting, None) is not None or self.rules.symbols[one[0] + 1] != layout.END_OF_RULE:
            return None
        return one

    def _top(self, nonterminal: int, place: int) -> Waiting | None:
        """Return what is complete as soon as a nonterminal that began at ``place`` is: Leo's topmost item. None if there is no
        chain.

        The chain leads up through rules of which each is the last part of the next and waited for by nothing else.
        """
        chain: list[Waiting] = []
        here: Waiting = (nonterminal, place)
        seen = {here}
        top: Waiting | None = None
        while True:
            known = self.columns[here[1]].top
            if here[0] in known:
                top = known[here[0]] or (here if chain else None)
                break
            one = self._only(*here)
            after = None if one is None else (self.rules.lefts[one[0]], one[1])
            if after is None or after in seen:
                known[here[0]] = None
                top = here if chain else None
                break
            chain.append(here)
            seen.add(after)
            here = after
        for one in chain:
            self.columns[one[1]].top[one[0]] = top
        return top

    # --- the derivation -------------------------------------------------------------------------------------------------------

    def spans(self, wanted: set[int]) -> list[Span]:
        """Return what the ``wanted`` nonterminals derived, without ignored text before it, in the order of ends, inner ones
        first.

        The derivation is walked from its right end, outer nonterminals first, and the list turned round.
        """
        reaching = self.rules.reaching(wanted)
        everything = self._skipped  # then all lexemes are looked at, for where they begin
        out: list[Span] = []
        assert self._last is not None
        pending = self._parts((1, 0), self._last)
        while pending:
            nonterminal, origin, end = span = pending.pop()
            self._lexing.take()
            if nonterminal in wanted:
                out.append(span)
            if nonterminal not in reaching and (origin == end or not everything):
                continue
            if origin == end:
                pending += [Span(part, end, end) for part in self.rules.empty(nonterminal)]
                continue
            column = self.columns[end]
            last = column.complete[nonterminal, origin]
            if last is not None:
                pending += self._parts(last, end)
                continue
            lowest = here = column.below[nonterminal, origin]
            levels: list[tuple[Span, list[Span]]] = []  # upwards: what ends with the part below, and the parts before that one
            while here != (nonterminal, origin):
                one = self._only(*here)
                assert one is not None
                before = self._parts(one, here[1])
                here = (self.rules.lefts[one[0]], one[1])
                levels.append((Span(*here, end), before))
            for upper, before in reversed(levels):
                if upper.nonterminal in wanted and upper != span:
                    out.append(upper)
                pending += before
            pending.append(Span(*lowest, end))
        out.reverse()
        return [one._replace(start=self._begins.get(one.start, one.start)) if one.start < one.end else one for one in out]

    def _parts(self, item: Waiting, place: int) -> list[Span]:
        """Return the nonterminals before an item's dot, from left to right, and note where lexemes begin."""
        parts = []
        for back, end in self._backs(item, place):
            if back.kind == _LEXEME:
                self._begins[back.place] = back.first
            else:
                parts.append(Span(back.symbol, back.first, end))
        parts.reverse()
        return parts

    def _backs(self, item: Waiting, place: int) -> Iterator[tuple[Back, int]]:
        """Yield the back pointers of an item, part by part from the last to the first, and where each part ends."""
        while True:
            back = self.columns[place].items.get(item)
            if back is None:  # predicted: only empty parts can stand before the dot
                dot = item[0] - 1
                symbols = self.rules.symbols
                while item[1] == place and dot >= 0 and symbols[dot] != layout.END_OF_RULE:
                    yield Back(dot, place, _NULL, symbols[dot], place), place
                    dot -= 1
                return
            yield back, place
            item, place = (back.dot, item[1]), back.place


def all_captures(template: Arena, tables: StaticTables, tokens: Sequence[int]) -> list[tuple[str, bytes]]:
    """Compute :meth:`cdplugin.Matcher.all_captures` for ``tokens``, a complete text without what ended it.

    ``template``: the arena that the grammar's arenas are cloned from.
    """
    ir = tables.rules.ir
    families = [family for family, _ in ir.instances.values()]
    if not (ir.captures or any(name for _, name in ir.stops.values()) or any(family.has_captures for family in families)):
        return []
    arena = template.clone()
    tables.evaluate(arena)
    tables.install(arena)
    units = Units(tokens, arena.vocab.tokens)
    lexing = Lexing(arena, units, arena.limits.max_capture_steps)
    chart = Chart(arena, units, lexing)
    if not chart.is_complete:  # lexemes of several kinds ended together: take any way to cut the text that parses
        del chart  # which may be large
        lexing = Lexing(arena, units, arena.limits.max_capture_steps, all_ends=True, steps=lexing.steps)
        chart = Chart(arena, units, lexing)
        if not chart.is_complete:
            raise EngineError("no captures of this text were found")
    captured = _captured(arena, tables)
    wanted = {number for number, (name, stop) in captured.items() if name is not None or (stop is not None and stop[1])}
    stops = _Stops(arena, lexing)
    out: list[tuple[str, bytes]] = []
    for span in chart.spans(wanted):
        name, stop = captured[span.nonterminal]
        text = units.text(span.start, span.end)
        ending = b""
        if stop is not None:
            at = stops.begin(stop[0], text)
            text, ending = text[:at], text[at:]
        if name is not None:
            out.append((name, text))
        if stop is not None and stop[1]:
            out.append((stop[1], ending))
    return out


def _captured(arena: Arena, tables: StaticTables) -> dict[int, Captured]:
    """Return what is captured of which nonterminals, by their numbers in this arena; of families, the members that were met."""
    rules = tables.rules
    expander = arena.expand
    numbers = rules.number if expander is None else expander.numbers
    out = {number: Captured(rules.ir.captures.get(symbol), rules.ir.stops.get(symbol)) for symbol, number in numbers.items()}
    if expander is not None:
        out |= {number: member.family.captured(member.value) for number, member in expander.members.items()}
    return out


class _Stops:
    """Finds where the part of a text begins that only ends it."""

    def __init__(self, arena: Arena, lexing: Lexing) -> None:
        self._arena = arena
        self._lexing = lexing
        self._known: dict[int, tuple[Arena, int]] = {}

    def begin(self, stop: Expr, text: bytes) -> int:
        """Return the first place from which ``stop`` matches the rest of ``text``; the text's length if there is none."""
        if stop.op == expr.LITERALS_OP:
            return min((len(text) - len(one) for one in stop.args if text.endswith(one)), default=len(text))
        arena, root = self._evaluated(stop)
        for at in range(len(text)):
            expression = root
            for byte in text[at:]:
                self._lexing.take()
                expression = arena.call(kernels.OP_DERIVE, expression, byte)
                status = arena.call(kernels.OP_STATUS, expression)
                if not status & kernels.MATCHES_SOMETHING:
                    break
            else:
                if status & kernels.MATCHES_EMPTY:
                    return at
        return len(text)

    def _evaluated(self, stop: Expr) -> tuple[Arena, int]:
        known = self._known.get(id(stop))
        if known is None:
            limits = self._arena.limits
            program = Program(limits)
            result = program.add(stop)
            arena = Arena(self._arena.vocab, limits)
            evaluate(arena, program.code(), program.n_results, program.literal_tables())
            known = self._known[id(stop)] = (arena, int(arena.tables[layout.VISIT_STAMPS][result]))
        return known
