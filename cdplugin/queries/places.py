"""Where in its spec a text stands: the lexemes that are open, their rules, and the places that those were written at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdplugin.engine.arena import Arena
from cdplugin.engine.static_tables import StaticTables
from cdplugin.ir import PLACES_PER_LEXEME
from cdplugin.kernels.store import layout
from cdplugin.queries import explain
from cdplugin.queries.captures import Rules

MOST_PLACES = 8
"""Places that are told of one position of a text."""


@dataclass(frozen=True, slots=True)
class Place:
    """One way to read on: an open lexeme inside a rule.

    Attributes
    ----------
    lexeme : the name of the lexeme: a terminal, a literal, ``key`` or ``value`` of a JSON Schema.
    rule : the name of the rule that the lexeme stands in, ``""`` where it has none.
    where : where the spec says so: JSON Pointers into a schema (``""`` is its root), or ``line 3, column 1`` of a grammar.
        Several where one lexeme stands for several subschemas and the text does not tell which one it is in.
    """

    lexeme: str
    rule: str
    where: tuple[str, ...]

    @property
    def address(self) -> str:
        """``where`` for a person."""
        return " or ".join(f"#{place}" if not place.startswith("line ") else place for place in self.where)


class PlaceFinder:
    """Finds the places of a matcher's cursors. The rules that it has read are kept from one question to the next."""

    def __init__(self, tables: StaticTables) -> None:
        self._tables = tables
        self._rules: Rules | None = None
        self._known = (0, -1)

    def find(self, arena: Arena, cursor: int) -> tuple[Place, ...]:
        """The places at a cursor, at most :data:`MOST_PLACES`. The caller holds the arena's lock."""
        rules = self._current(arena)
        found: dict[Place, None] = {}
        for row, state in [*arena.pairs(cursor), *explain.after_longest(arena, cursor)]:
            dots, open_lexemes = explain.open_lexemes(arena, rules, row, state)
            for lexeme, at in open_lexemes:
                for place in self._of_lexeme(arena, rules, lexeme, at, dots):
                    found[place] = None
                    if len(found) == MOST_PLACES:
                        return tuple(found)
        return tuple(found)

    def _current(self, arena: Arena) -> Rules:
        """The arena's rules, read again if there are more."""
        expander: Any = arena.expand
        known = (id(arena), getattr(expander, "n_dots", 0))
        if self._rules is None or known != self._known:
            self._rules, self._known = Rules(arena), known
        return self._rules

    def _of_lexeme(self, arena: Arena, rules: Rules, lexeme: int, at: list[int], around: list[int]) -> list[Place]:
        """The places of an open lexeme that stands at some dots; where none is known, those of the rules ``around`` it."""
        name = explain.lexeme_name(arena, self._tables, lexeme)
        table = self._tables
        own = table.lexemes.places[lexeme] if lexeme < len(table.lexemes.places) else ()
        out = []
        for dot in at[:MOST_PLACES]:
            left = rules.lefts[dot]
            key = self._key_before(rules, dot)
            where = _narrowed(own or key, key, self._rule_places(left))
            where = where or self._rule_places(left) or self._around(rules, around)
            out.append(Place(name, explain.rule_name(arena, table, left), where))
        return out or [Place(name, "", own or self._around(rules, around))]

    def _key_before(self, rules: Rules, dot: int) -> tuple[str, ...]:
        """The places of the nearest lexeme before a dot in its rule that has any: a property's name, before its value."""
        places = self._tables.lexemes.places
        at = dot - 1
        while at >= 0 and rules.symbols[at] != layout.END_OF_RULE and dot - at <= 4:
            lexeme = -2 - rules.symbols[at]
            if 0 <= lexeme < len(places) and places[lexeme]:
                return places[lexeme]
            at -= 1
        return ()

    def _rule_places(self, left: int) -> tuple[str, ...]:
        places = self._tables.rules.places
        return places[left] if left < len(places) else ()

    def _around(self, rules: Rules, dots: list[int]) -> tuple[str, ...]:
        return next(filter(None, (self._rule_places(rules.lefts[dot]) for dot in dots)), ())


def _narrowed(places: tuple[str, ...], key: tuple[str, ...], rule: tuple[str, ...]) -> tuple[str, ...]:
    """Those of a lexeme's places that agree with the property's name before it, and that lie inside the rule's."""
    if len(places) > 1 and key:
        agreed = tuple(place for place in places if place in key)
        places = agreed or (key if len(places) == PLACES_PER_LEXEME else places)
    if len(places) > 1:
        places = tuple(place for place in places if any(place.startswith(f"{outer}/") for outer in rule)) or places
    return places
