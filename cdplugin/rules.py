"""Rules for the kernels: cleaned, numbered, laid out as dots; and the rules of families, made when one is first predicted.

A *dot* is a position in a rule. Dots lie one after the other, a rule's end included; a symbol after a dot is ``n >= 0`` for a
nonterminal, -1 at the end of the rule, ``-2 - t`` for lexeme ``t`` (:mod:`cdplugin.kernels.earley`). Nothing here recurses;
every pass is linear in the size of the rules.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cdplugin.arena import Arena
from cdplugin.errors import GrammarError
from cdplugin.grammar import GrammarIR, Symbol
from cdplugin.kernels import arena as layout
from cdplugin.kernels.earley import END_OF_RULE, NOT_EXPANDED

Rule = tuple[Symbol, tuple[Symbol, ...]]

DYNAMIC_TABLES = (
    layout.DOT_SYMBOL,
    layout.DOT_LEFT,
    layout.DOT_NULL_REST,
    layout.RULE_HEADS,
    layout.RULE_LISTS,
    layout.CORNER_HEADS,
    layout.CORNER_LISTS,
    layout.NULLABLE,
    layout.MARKS,
)


@dataclass
class Lexemes:
    """What is known of an IR's lexemes.

    ``rewrite``: what stands for a lexeme in the rules, where that is not the lexeme itself (it was split, or is nullable);
    ``rules``: the rules that come with that; ``productive``: whether a lexeme matches any text that is not empty.
    """

    rewrite: dict[Symbol, tuple[Symbol, ...]] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    productive: dict[Symbol, bool] = field(default_factory=dict)

    def rewritten(self, right: Sequence[Symbol]) -> tuple[Symbol, ...]:
        """A right side with every lexeme replaced by what stands for it."""
        rewrite = self.rewrite
        if rewrite.keys().isdisjoint(right):
            return tuple(right)
        out: list[Symbol] = []
        for symbol in right:
            if symbol in rewrite:
                out += rewrite[symbol]
            else:
                out.append(symbol)
        return tuple(out)

    def replace(self, lexeme: Symbol, by: tuple[Symbol, ...]) -> None:
        """Let ``by`` stand for ``lexeme`` from now on, also in what already stands for others."""
        for symbol, right in self.rewrite.items():
            if lexeme in right:
                self.rewrite[symbol] = tuple(t for s in right for t in (by if s == lexeme else (s,)))
        self.rules = [(left, tuple(t for s in right for t in (by if s == lexeme else (s,)))) for left, right in self.rules]
        self.rewrite[lexeme] = by


@dataclass(frozen=True)
class RuleSet:
    """The rules of a grammar, numbered.

    Nonterminal 0 is ``S'``, the first rule ``S' -> S END``. ``number`` and ``lexeme_number`` map the IR's symbols;
    ``known`` says which of its nonterminals are productive; ``tables`` are an arena's static tables; ``n_lexemes``: how many
    are used; ``is_lazy``: whether some rules are made only when they are needed; ``names``: of the nonterminals, by number.
    """

    ir: GrammarIR
    lexemes: Lexemes
    number: dict[Symbol, int]
    lexeme_number: dict[Symbol, int]
    known: list[bool]
    nullable: list[int]
    tables: dict[int, np.ndarray]
    n_lexemes: int
    is_lazy: bool
    names: list[str]

    def compact(self) -> RuleSet:
        """The rules without what only making more of them takes: a grammar keeps them for long, and many are kept."""
        if self.is_lazy:
            return self
        ir = GrammarIR()
        ir.captures, ir.stops = self.ir.captures, self.ir.stops
        number = {symbol: self.number[symbol] for symbol in {*ir.captures, *ir.stops} if symbol in self.number}
        return replace(self, ir=ir, lexemes=Lexemes(), number=number, lexeme_number={}, known=[])

    @property
    def end_symbol(self) -> int:
        """The number of the lexeme that stands for the end of the text."""
        return self.n_lexemes

    def productive(self, symbol: Symbol) -> bool:
        """Whether a symbol of the IR derives any string."""
        return _is_productive(symbol, self.lexemes, self.known)

    def encode(self, symbol: Symbol) -> int:
        """A (rewritten) symbol as it stands after a dot."""
        return self.number[symbol] if symbol >= 0 else -2 - self.lexeme_number[symbol]


def _is_productive(symbol: Symbol, lexemes: Lexemes, known: list[bool]) -> bool:
    return all(known[part] if part >= 0 else lexemes.productive[part] for part in lexemes.rewrite.get(symbol, (symbol,)))


def build_rules(ir: GrammarIR, lexemes: Lexemes) -> RuleSet:
    """Clean and number the rules of ``ir``. Raises :class:`GrammarError` if the grammar matches nothing.

    Useless rules are dropped (Hopcroft and Ullman, 7.1.1): first those that derive nothing, then those that are out of reach.
    """
    rules = list(dict.fromkeys([*lexemes.rules, *((left, lexemes.rewritten(right)) for left, right in ir.rules)]))
    known, alive = _productive(ir, rules, lexemes)
    start = lexemes.rewritten((ir.start,))[0]
    if not known[start]:
        raise GrammarError("the grammar matches nothing: it is unsatisfiable")
    kept, order, used = _reachable(ir, rules, alive, start, lexemes, known)
    number = {symbol: i for i, symbol in enumerate(order, 1)}
    used |= {lexemes.rewritten((ir.skips[symbol],))[0] for symbol in used if symbol in ir.skips}
    lexeme_number = {symbol: i for i, symbol in enumerate(sorted(used, reverse=True))}
    n = len(order) + 1
    code = number | {symbol: -2 - i for symbol, i in lexeme_number.items()}
    numbered: list[tuple[int, list[int]]] = [(0, [1, -2 - len(lexeme_number)])]
    numbered += [(number[left], [code[symbol] for symbol in right]) for left, right in kept]
    nullable = [0] * n
    for symbol, (family, value) in ir.instances.items():
        if symbol in number and family.nullable(value):
            nullable[number[symbol]] = 1
    _nullable_nonterminals(numbered, nullable)
    heads = [END_OF_RULE] * n
    for symbol in ir.instances:
        if symbol in number:
            heads[number[symbol]] = NOT_EXPANDED
    laid = _Layout(numbered, nullable, 0)
    rule_lists = _link(laid.starts, heads, 0)
    corner_heads = [-1] * n
    corner_lists = _link(laid.corners, corner_heads, 0)
    tables = {
        layout.DOT_SYMBOL: np.array(laid.symbols, np.int64),
        layout.DOT_LEFT: np.array(laid.lefts, np.int64),
        layout.DOT_NULL_REST: np.array(laid.null_rest, np.int64),
        layout.RULE_HEADS: np.array(heads, np.int64),
        layout.RULE_LISTS: np.array(rule_lists, np.int64),
        layout.CORNER_HEADS: np.array(corner_heads, np.int64),
        layout.CORNER_LISTS: np.array(corner_lists, np.int64),
        layout.NULLABLE: np.array(nullable, np.int64),
    }
    is_lazy = any(symbol in number for symbol in ir.instances)
    names = ["", *(ir.names[symbol] for symbol in order)]
    return RuleSet(ir, lexemes, number, lexeme_number, known, nullable, tables, len(lexeme_number), is_lazy, names)


def _productive(ir: GrammarIR, rules: list[Rule], lexemes: Lexemes) -> tuple[list[bool], list[bool]]:
    """Which nonterminals derive a string, and which rules do: by counting each rule's symbols that are not known to yet."""
    waiting: dict[Symbol, list[int]] = {}
    missing = [0] * len(rules)
    known = [False] * len(ir.names)
    done: list[Symbol] = []
    barren = {symbol for symbol, is_productive in lexemes.productive.items() if not is_productive}
    for r in range(len(rules) - 1, -1, -1):  # from the end: front ends tend to write what is used after what uses it
        left, right = rules[r]
        if barren and not barren.isdisjoint(right):
            missing[r] = len(right) + 1  # never becomes 0
            continue
        count = 0
        for symbol in right:
            if symbol >= 0 and not known[symbol]:
                count += 1
                if symbol in waiting:
                    waiting[symbol].append(r)
                else:
                    waiting[symbol] = [r]
        missing[r] = count
        if not count and not known[left]:
            known[left] = True
            if left in waiting:
                done.append(left)

    def productive(symbol: Symbol) -> bool:
        return _is_productive(symbol, lexemes, known)

    pending = dict(ir.instances)
    while True:
        while done:
            for r in waiting.get(done.pop(), ()):
                missing[r] -= 1
                left = rules[r][0]
                if missing[r] == 0 and not known[left]:
                    known[left] = True
                    if left in waiting:
                        done.append(left)
        for symbol, (family, value) in list(pending.items()):
            if family.satisfiable(value, productive):
                known[symbol] = True
                done.append(symbol)
                del pending[symbol]
        if not done:
            return known, [count == 0 for count in missing]


def _reachable(
    ir: GrammarIR, rules: list[Rule], alive: list[bool], start: Symbol, lexemes: Lexemes, known: list[bool]
) -> tuple[list[Rule], list[Symbol], set[Symbol]]:
    """The rules within reach of ``start``, the nonterminals in the order in which they are met, and the lexemes that are
    used.
    """
    by_left: dict[Symbol, list[Rule]] = {}
    for rule, is_alive in zip(rules, alive, strict=True):
        if is_alive:
            by_left.setdefault(rule[0], []).append(rule)
    reached = {start}
    order = [start]
    kept: list[Rule] = []
    used: set[Symbol] = set()
    families: set[int] = set()
    for left in order:
        of_left = by_left.get(left, ())
        kept += of_left
        met: list[Symbol] = [symbol for rule in of_left for symbol in rule[1]]
        if left in ir.instances:
            family = ir.instances[left][0]
            if id(family) not in families:
                families.add(id(family))
                for symbol in family.uses():
                    if _is_productive(symbol, lexemes, known):
                        met += lexemes.rewritten((symbol,))
        for symbol in met:
            if symbol < 0:
                used.add(symbol)
            elif symbol not in reached:
                reached.add(symbol)
                order.append(symbol)
    return kept, order, used


def _nullable_nonterminals(rules: list[tuple[int, list[int]]], nullable: list[int]) -> None:
    """Set to 1 each nonterminal that derives the empty string; those that are 1 already are known to."""
    waiting: dict[int, list[int]] = {}
    missing = [0] * len(rules)
    done = [n for n, is_nullable in enumerate(nullable) if is_nullable]
    for r, (left, right) in enumerate(rules):
        if right and min(right) < 0:
            continue
        missing[r] = len(right)
        for symbol in right:
            waiting.setdefault(symbol, []).append(r)
        if not right and not nullable[left]:
            nullable[left] = 1
            done.append(left)
    while done:
        for r in waiting.get(done.pop(), ()):
            missing[r] -= 1
            left = rules[r][0]
            if missing[r] == 0 and not nullable[left]:
                nullable[left] = 1
                done.append(left)


class _Layout:
    """Numbered rules as dots.

    ``starts``: ``(nonterminal, first dot)`` of each rule; ``corners``: ``(nonterminal, dot before it)`` where only nullable
    symbols stand before that dot.
    """

    def __init__(self, rules: Sequence[tuple[int, Sequence[int]]], nullable: Sequence[int], first_dot: int) -> None:
        self.symbols: list[int] = []
        self.lefts: list[int] = []
        self.null_rest: list[int] = []
        self.starts: list[tuple[int, int]] = []
        self.corners: list[tuple[int, int]] = []
        symbols, corners = self.symbols, self.corners
        for left, right in rules:
            first = first_dot + len(symbols)
            size = len(right)
            self.starts.append((left, first))
            symbols += right
            symbols.append(END_OF_RULE)
            self.lefts += [left] * (size + 1)
            at = size  # from here on, all symbols are nullable
            while at and right[at - 1] >= 0 and nullable[right[at - 1]]:
                at -= 1
            self.null_rest += [0] * at + [1] * (size + 1 - at)
            for i, symbol in enumerate(right):
                if symbol < 0:
                    break
                corners.append((symbol, first + i))
                if not nullable[symbol]:
                    break


def _link(pairs: list[tuple[int, int]], heads: list[int], first_entry: int) -> list[int]:
    """Linked lists of dots, one per nonterminal: flat ``(dot, next entry)`` words; ``heads`` is updated."""
    out: list[int] = []
    for entry, (nonterminal, dot) in enumerate(pairs, first_entry):
        out += (dot, max(heads[nonterminal], -1))
        heads[nonterminal] = entry
    return out


_expanding = threading.Lock()


class Expander:
    """Gives an arena the rules of families' members when the parser first predicts them.

    One per arena: numbers of members that the static tables do not have are the arena's own.
    """

    def __init__(self, rules: RuleSet, arena: Arena) -> None:
        self._rules = rules
        self._arena = arena
        self._number = dict(rules.number)
        self._symbol = {number: symbol for symbol, number in rules.number.items()}
        self._nullable = list(rules.nullable)
        self._n_dots = len(rules.tables[layout.DOT_SYMBOL])
        self._n_rules = len(rules.tables[layout.RULE_LISTS]) // 2
        self._n_corners = len(rules.tables[layout.CORNER_LISTS]) // 2

    def __call__(self, nonterminal: int) -> None:
        """Make the rules of a nonterminal whose list is ``NOT_EXPANDED``."""
        with _expanding:  # the IR that notes the instances is shared by all arenas of a grammar
            self._expand(nonterminal)

    @property
    def n_rules(self) -> int:
        """How many rules there are now; they are the first entries of the table of rule lists."""
        return self._n_rules

    @property
    def numbers(self) -> dict[Symbol, int]:
        """The numbers of the IR's nonterminals, those of members that were met included."""
        return self._number

    def remaining(self, nonterminal: int) -> int:
        """How far a family's member is from an end, as its family puts it."""
        family, value = self._rules.ir.instances[self._symbol[nonterminal]]
        return family.remaining(value)

    def _expand(self, nonterminal: int) -> None:
        rules = self._rules
        family, value = rules.ir.instances[self._symbol[nonterminal]]
        n_before = len(self._nullable)
        numbered = []
        for right in family.expand(value, rules.productive):
            numbered.append((nonterminal, [self._encode(symbol) for symbol in rules.lexemes.rewritten(right)]))
        laid = _Layout(numbered, self._nullable, self._n_dots)
        n = len(self._nullable)
        arena = self._arena
        for table in (layout.RULE_HEADS, layout.CORNER_HEADS, layout.NULLABLE, layout.MARKS):
            arena.reserve(table, n)
        arena.tables[layout.RULE_HEADS][n_before:n] = NOT_EXPANDED
        arena.tables[layout.CORNER_HEADS][n_before:n] = -1
        arena.tables[layout.NULLABLE][n_before:n] = self._nullable[n_before:]
        arena.tables[layout.MARKS][n_before:n] = 0
        self._append(layout.DOT_SYMBOL, self._n_dots, laid.symbols)
        self._append(layout.DOT_LEFT, self._n_dots, laid.lefts)
        self._append(layout.DOT_NULL_REST, self._n_dots, laid.null_rest)
        self._n_dots += len(laid.symbols)
        arena.tables[layout.RULE_HEADS][nonterminal] = END_OF_RULE
        self._n_rules += self._append_lists(layout.RULE_HEADS, layout.RULE_LISTS, laid.starts, self._n_rules)
        self._n_corners += self._append_lists(layout.CORNER_HEADS, layout.CORNER_LISTS, laid.corners, self._n_corners)

    def _encode(self, symbol: Symbol) -> int:
        if symbol < 0:
            return -2 - self._rules.lexeme_number[symbol]
        number = self._number.get(symbol)
        if number is None:
            family, value = self._rules.ir.instances[symbol]
            number = self._number[symbol] = len(self._nullable)
            self._symbol[number] = symbol
            self._nullable.append(1 if family.nullable(value) else 0)
        return number

    def _append(self, table: int, at: int, words: list[int]) -> None:
        self._arena.reserve(table, at + len(words))
        self._arena.tables[table][at : at + len(words)] = words

    def _append_lists(self, heads: int, lists: int, pairs: list[tuple[int, int]], first_entry: int) -> int:
        array = self._arena.tables[heads]
        touched = {nonterminal: int(array[nonterminal]) for nonterminal, _ in pairs}
        words: list[int] = []
        for entry, (nonterminal, dot) in enumerate(pairs, first_entry):
            words += (dot, touched[nonterminal])
            touched[nonterminal] = entry
        self._append(lists, 2 * first_entry, words)
        for nonterminal, entry in touched.items():
            array[nonterminal] = entry
        return len(pairs)
