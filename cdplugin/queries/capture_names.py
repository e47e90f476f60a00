"""From a text that a matcher followed to its captures: the named rules' texts, less what only ends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cdplugin import expr
from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import evaluate
from cdplugin.engine.programs import Program
from cdplugin.engine.static_tables import StaticTables
from cdplugin.errors import EngineError
from cdplugin.expr import Expr
from cdplugin.ir import Captured
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.store import layout
from cdplugin.queries.capture_lexing import Lexing, Units
from cdplugin.queries.captures import Chart


def all_captures(template: Arena, tables: StaticTables, tokens: Sequence[int]) -> list[tuple[str, bytes]]:
    """The answer of :meth:`cdplugin.Matcher.all_captures` for ``tokens``, a complete text without what ended it.

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
    if not chart.is_complete:  # lexemes of several kinds that ended together: any way to cut the text that parses
        lexing = Lexing(arena, units, arena.limits.max_capture_steps, all_ends=True)
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
    """What is captured of which nonterminals, by their numbers in this arena; of families, those members that were met."""
    rules = tables.rules
    expander: Any = arena.expand
    numbers = rules.number if expander is None else expander.numbers
    out = {number: Captured(rules.ir.captures.get(symbol), rules.ir.stops.get(symbol)) for symbol, number in numbers.items()}
    if expander is not None:
        out |= {number: member.family.captured(member.value) for number, member in expander.members.items()}
    return out


class _Stops:
    """Finds where the end of a text begins that only ends it."""

    def __init__(self, arena: Arena, lexing: Lexing) -> None:
        self._arena = arena
        self._lexing = lexing
        self._known: dict[int, tuple[Arena, int]] = {}

    def begin(self, stop: Expr, text: bytes) -> int:
        """The first place from which ``stop`` matches the rest of ``text``; its length if there is none."""
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
