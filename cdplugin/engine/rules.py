"""The rules of a grammar, prepared for the kernels: cleaned, numbered, laid out as dots. :mod:`.expander` makes the late ones.

A *dot* is a position in a rule. Dots lie one after the other, the end of each rule included. The symbol after a dot is
``n >= 0`` for a nonterminal, -1 at the end of the rule, ``-2 - t`` for lexeme ``t`` (:mod:`cdplugin.kernels.parser.earley`).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain
from sys import getsizeof
from typing import Any, NamedTuple

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.engine.blocks import Block
from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.expr import Expr
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR, Symbol, places_bytes, texts_bytes
from cdplugin.kernels.entry import OP_PREPARE
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser import rules as kernels
from cdplugin.kernels.store import layout

Rule = tuple[Symbol, tuple[Symbol, ...]]

STATIC_TABLES = (
    layout.DOT_SYMBOL,
    layout.DOT_LEFT,
    layout.DOT_NULL_REST,
    layout.RULE_LISTS,
    layout.CORNER_LISTS,
    layout.RULE_HEADS,
    layout.CORNER_HEADS,
    layout.NULLABLE,
)
"""In the order in which :func:`cdplugin.kernels.parser.rules.arrange` writes them."""

KINDS = {EXACT: layout.EXACT, LONGEST: layout.LONGEST, LAZY: layout.LAZY}
"""How lexemes end, as in their records."""
SEARCH_BYTES = 32 << 20
"""How many bytes an arena may grow while it is decided which lexemes match anything."""
_OBJECT_BYTES = 4096
"""Bytes of rules without their arrays: records, array headers."""
_REWRITTEN_BYTES = 300
"""Bytes of what is known of a lexeme."""


class Lexemes:
    """What is known of an IR's lexemes.

    ``expressions``: by number, each without the prefix that was split off. ``leads``: by number, the nonterminal that stands
    for that prefix and is inserted before the lexeme, or -1. ``is_led``: whether a lexeme is replaced in the rules by nothing
    else than its lead and itself. ``rules``: the rules of the nonterminals that this adds. ``barren``: the lexemes that match
    no text except the empty one. ``optional``: nonterminals that stand for a lexeme or nothing -> that lexeme.
    """

    def __init__(self, expressions: list[Expr], leads: list[int]) -> None:
        self.expressions = expressions
        self.leads = leads
        self.is_led = True
        self.rules: list[Rule] = []
        self.barren: set[Symbol] = set()
        self.optional: dict[Symbol, Symbol] = {}

    @cached_property
    def rewrite(self) -> dict[Symbol, tuple[Symbol, ...]]:
        """The symbols that replace a lexeme in the rules, where it was split or is nullable."""
        return {~t: (lead, ~t) for t, lead in enumerate(self.leads) if lead >= 0}

    def rewritten(self, right: Sequence[Any]) -> tuple[Any, ...]:
        """Return a right side with every lexeme replaced (:attr:`rewrite`)."""
        rewrite = self.rewrite
        if rewrite.keys().isdisjoint(right):
            return tuple(right)
        return tuple([part for symbol in right for part in rewrite.get(symbol, (symbol,))])

    def replace(self, lexeme: Symbol, by: tuple[Symbol, ...]) -> None:
        """Let ``by`` replace ``lexeme`` from now on, also inside earlier replacements."""
        for symbol, right in self.rewrite.items():
            if lexeme in right:
                self.rewrite[symbol] = tuple(t for s in right for t in (by if s == lexeme else (s,)))
        self.rules = [(left, tuple(t for s in right for t in (by if s == lexeme else (s,)))) for left, right in self.rules]
        self.rewrite.setdefault(lexeme, by)
        self.is_led = False


@dataclass(eq=False)
class RuleSet:
    """The rules of a grammar, numbered.

    Nonterminal 0 is ``S'``, the first rule ``S' -> S END``. ``numbers`` and ``lexeme_numbers`` map the IR's nonterminals (0:
    not reached) and lexemes (-1: not used), int64. ``known``: which of its nonterminals are productive, int64. ``block``: an
    arena's static tables. ``spec_names`` and ``spec_places``: the IR's. ``is_lazy``: whether some rules are made late.
    """

    ir: GrammarIR
    lexemes: Lexemes
    numbers: np.ndarray
    lexeme_numbers: np.ndarray
    known: np.ndarray
    block: Block
    spec_names: list[str]
    spec_places: dict[Symbol, tuple[str, ...]]
    n_nonterminals: int
    n_lexemes: int
    is_lazy: bool

    def compact(self) -> RuleSet:
        """Return the rules without what only making more of them needs: grammars are kept for long, and many are."""
        if self.is_lazy:
            return self
        ir = _NO_IR
        if self.ir.captures or self.ir.stops:
            ir = GrammarIR()
            ir.captures, ir.stops = self.ir.captures, self.ir.stops
        names, places, n, used = self.spec_names, self.spec_places, self.n_nonterminals, self.n_lexemes
        return RuleSet(ir, _NO_LEXEMES, self.numbers, _NONE, _NONE, self.block, names, places, n, used, is_lazy=False)

    @cached_property
    def names(self) -> list[str]:
        """The names of the nonterminals, by number."""
        names = [""] * self.n_nonterminals
        for name, number in zip(self.spec_names, self.numbers.tolist(), strict=False):
            names[number] = name
        names[0] = ""
        return names

    @cached_property
    def places(self) -> list[tuple[str, ...]]:
        """Where the spec has the nonterminals, by number."""
        places: list[tuple[str, ...]] = [()] * self.n_nonterminals
        numbers = self.numbers.tolist()
        for symbol, of_symbol in self.spec_places.items():
            if 0 <= symbol < len(numbers):
                places[numbers[symbol]] = of_symbol
        places[0] = ()
        return places

    @property
    def nbytes(self) -> int:
        """Bytes of the rules; if some come late, also of what they are made from, and of the arena's own copy of the others."""
        arrays = self.numbers.nbytes + self.lexeme_numbers.nbytes + self.known.nbytes + self.block.memory.nbytes
        names = 2 * getsizeof(self.spec_names) + getsizeof(self.spec_places)
        names += texts_bytes(self.spec_names) + places_bytes(self.spec_places.values())
        if not self.is_lazy:
            return arrays + names + _OBJECT_BYTES
        return arrays + names + self.block.memory.nbytes + self.ir.nbytes + _REWRITTEN_BYTES * len(self.lexemes.expressions)

    @property
    def end_symbol(self) -> int:
        """The number of the lexeme for the end of the text."""
        return self.n_lexemes

    @property
    def number(self) -> dict[Symbol, int]:
        """The numbers of the IR's nonterminals that are reached."""
        return {symbol: number for symbol, number in enumerate(self.numbers.tolist()) if number}

    @property
    def lexeme_number(self) -> dict[Symbol, int]:
        """The numbers of the IR's lexemes that are used, in ascending order."""
        return {~lexeme: number for lexeme, number in enumerate(self.lexeme_numbers.tolist()) if number >= 0}

    def productive(self, symbol: Symbol) -> bool:
        """Return whether a symbol of the IR derives any string."""
        return _is_productive(symbol, self.lexemes, self.known)


_NO_IR, _NO_LEXEMES, _NONE = GrammarIR(), Lexemes([], []), np.empty(0, np.int64)


def _is_productive(symbol: Symbol, lexemes: Lexemes, known: np.ndarray) -> bool:
    return all(known[part] if part >= 0 else part not in lexemes.barren for part in lexemes.rewrite.get(symbol, (symbol,)))


def _fault(ir: GrammarIR, lexemes: Lexemes, known: np.ndarray) -> str:
    """Return where the spec has the symbol that the start symbol needs and that matches no text; ``""`` if the spec has no
    places.

    A symbol that all alternatives need comes first, else one that the first alternative needs. Of several places of one lexeme,
    the first is named.
    """
    rights: dict[Symbol, list[tuple[Symbol, ...]]] = {}
    for left, right in chain(lexemes.rules, ir.rules):
        rights.setdefault(left, []).append(lexemes.rewritten(right))
    symbol, seen = lexemes.rewritten((ir.start,))[0], set[Symbol]()
    places: tuple[str, ...] = ()
    while symbol not in seen:
        seen.add(symbol)
        places = ir.places.get(symbol, places)
        missing = [
            dict.fromkeys(part for part in right if part not in seen and not _is_productive(part, lexemes, known))
            for right in rights.get(symbol, [()])
        ]
        needed = set(missing[0]).intersection(*missing[1:])
        symbol = next(chain((part for part in missing[0] if part in needed), *missing), symbol)
    return places[0] if places else ""


def build_rules(ir: GrammarIR, lexemes: Lexemes) -> RuleSet:
    """Clean and number the rules of ``ir``, pass by pass. Raises :class:`GrammarError` if the grammar matches nothing.

    The passes over the rules are kernels (:mod:`cdplugin.kernels.parser.rules`); families are asked here.
    """
    rules = _flat(ir, lexemes)
    known, missing = _productive(ir, rules, lexemes)
    start = lexemes.rewritten((ir.start,))[0]
    if not known[start]:
        raise GrammarError("the grammar matches nothing: it is unsatisfiable", location=_fault(ir, lexemes, known))
    family_of = np.full(len(ir.names), -1, np.int64)
    nullable = np.zeros(len(ir.names), np.int64)
    uses_at: list[int] = [0]
    uses: list[Symbol] = []
    families: dict[int, int] = {}
    for symbol, (family, value) in ir.instances.items():
        nullable[symbol] = family.nullable(value)
        if id(family) not in families:
            families[id(family)] = len(families)
            for used in family.uses():
                if _is_productive(used, lexemes, known):
                    uses += lexemes.rewritten((used,))
            uses_at.append(len(uses))
        family_of[symbol] = families[id(family)]
    skip_of = np.full(len(ir.lexemes), -1, np.int64)
    for symbol, skip in ir.skips.items():
        skip_of[~symbol] = ~lexemes.rewritten((skip,))[0]
    numbers, lexeme_numbers = np.empty(len(ir.names), np.int64), np.empty(len(ir.lexemes), np.int64)
    of_families = (family_of, np.array(uses_at, np.int64), np.array(uses, np.int64), nullable)
    out = kernels.arrange(rules, missing, start, of_families, skip_of, (numbers, lexeme_numbers))
    n, n_lexemes, n_dots, n_rules, n_corners = out[: parser_layout.OUT_WORDS].tolist()
    sizes = zip(STATIC_TABLES, (n_dots, n_dots, n_dots, 2 * n_rules, 2 * n_corners, n, n, n), strict=True)
    block = Block.around(out[parser_layout.OUT_WORDS :], sizes)
    is_lazy = bool(numbers[list(ir.instances)].any())
    return RuleSet(ir, lexemes, numbers, lexeme_numbers, known, block, ir.names, ir.places, n, n_lexemes, is_lazy)


class Prepared(NamedTuple):
    """The result of :func:`prepare_rules`. ``records``: of LEXEMES, int64; ``searched``: see :class:`StaticTables`."""

    rules: RuleSet
    records: np.ndarray
    searched: list[int]


def prepare_rules(ir: GrammarIR, lexemes: Lexemes, arena: Arena, results: Sequence[int]) -> Prepared | None:
    """Do :func:`build_rules` in one kernel call, and make the records of the lexemes; None if the grammar needs more than that.

    Only for rules without families, and for lexemes of which only their ending and their skip matter. ``results``: for each
    lexeme, where the program that the arena has just run has left its expression, or ``~id``.
    """
    lefts, rights = zip(*lexemes.rules, *ir.rules, strict=True)
    symbols = [*chain.from_iterable(rights)]
    n, n_lexemes = len(ir.names), len(ir.lexemes)
    skip_of = [-1] * n_lexemes
    for symbol, skip in ir.skips.items():
        skip_of[~symbol] = ~skip
    kinds = [layout.EXACT] * n_lexemes if ir.is_exact() else [KINDS[lexing] for lexing in ir.lexings]
    counts = (len(lefts), len(symbols), n, n_lexemes, ir.start, len(lexemes.rules))
    packed = [*counts, *lefts, *map(len, rights), *symbols, *lexemes.leads, *skip_of, *kinds, *results]
    try:
        out = arena.ask(OP_PREPARE, packed, SEARCH_BYTES)
    except LimitExceeded:  # running pass by pass tells which limit
        return None
    if len(out) in (kernels.UNUSUAL, kernels.NO_TEXT):  # for NO_TEXT, running pass by pass tells where
        return None
    n_reached, n_used, n_dots, n_rules, n_corners = out[: parser_layout.OUT_WORDS].tolist()
    sizes = (n_dots, n_dots, n_dots, 2 * n_rules, 2 * n_corners, n_reached, n_reached, n_reached)
    end = parser_layout.OUT_WORDS + sum(sizes)
    block = Block.around(out[parser_layout.OUT_WORDS : end], zip(STATIC_TABLES, sizes, strict=True))
    numbers, lexeme_numbers = out[end : end + n], out[end + n : end + n + n_lexemes]
    end += n + n_lexemes
    after = end + (n_used + 1) * layout.LEXEME_WORDS
    known = RuleSet(ir, lexemes, numbers, lexeme_numbers, _NONE, block, ir.names, ir.places, n_reached, n_used, is_lazy=False)
    return Prepared(known, out[end:after].reshape(-1, layout.LEXEME_WORDS), out[after:].tolist())


def _flat(ir: GrammarIR, lexemes: Lexemes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct rules for :mod:`cdplugin.kernels.parser.rules`, with every lexeme replaced
    (:attr:`Lexemes.rewrite`).
    """
    own = [*dict.fromkeys(lexemes.rules)]
    rules = [*own, *dict.fromkeys(ir.rules)]
    lefts = _words([left for left, _ in rules])
    symbols = _words(chain.from_iterable([right for _, right in rules]))
    offsets = _words(accumulate([len(right) for _, right in rules], initial=0))
    # the replacements of all lexemes, one after the other, and where each begins
    parts: list[Symbol] = []
    begins = [0]
    for t in range(len(ir.lexemes)):
        parts += lexemes.rewrite.get(~t, (~t,))
        begins.append(len(parts))
    begin = _words(begins)
    at = np.flatnonzero(symbols < 0)
    at = at[at >= offsets[len(own)]]
    counts = np.ones(len(symbols), np.int64)
    counts[at] = np.diff(begin)[~symbols[at]]
    ends = np.concatenate((_words([0]), np.cumsum(counts)))
    first = np.zeros(len(symbols), np.int64)  # of its parts, for each symbol that is replaced
    first[at] = begin[~symbols[at]]
    out = np.repeat(symbols, counts)
    replaced = np.zeros(len(symbols), bool)
    replaced[at] = True
    where = np.flatnonzero(np.repeat(replaced, counts))
    out[where] = _words(parts)[where + np.repeat(first - ends[:-1], counts)[where]]
    return lefts, ends[offsets], out


def _words(values: Iterable[int]) -> np.ndarray:
    """Return the values as int64, in a third of the time of ``np.array``."""
    return np.array(array("q", values))


def _productive(
    ir: GrammarIR, rules: tuple[np.ndarray, np.ndarray, np.ndarray], lexemes: Lexemes
) -> tuple[np.ndarray, np.ndarray]:
    """Return which nonterminals derive a string (1), and which rules (of :func:`_flat`) do (0)."""
    lefts, _, symbols = rules
    barren = np.zeros(len(ir.lexemes), np.int64)
    barren[[~symbol for symbol in lexemes.barren]] = 1
    known = np.zeros(len(ir.names), np.int64)
    work = np.empty(len(lefts) + 2 * len(symbols) + 2 * len(known), np.int64)
    pending = dict(ir.instances)
    seeds: list[Symbol] = []
    while True:
        kernels.find_productive(rules, barren, known, work, np.array(seeds, np.int64))
        seeds = [
            symbol
            for symbol, (family, value) in pending.items()
            if family.satisfiable(value, lambda symbol: _is_productive(symbol, lexemes, known))
        ]
        if not seeds:
            return known, work[: len(lefts)]
        for symbol in seeds:
            del pending[symbol]
