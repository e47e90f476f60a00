"""Putting a compiled grammar into an arena, and making the late rules of families.

:class:`StaticTables` is what compiling gives. An :class:`Expander` makes the rules of a family's member
(:class:`cdplugin.ir.Family`) when the parser first predicts it.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from cdplugin import forking
from cdplugin.engine.arena import Arena
from cdplugin.engine.base_arena import evaluate
from cdplugin.engine.lexemes import LexemeTable
from cdplugin.engine.rules import RuleSet
from cdplugin.engine.tracked import ValueTracker
from cdplugin.errors import LimitExceeded
from cdplugin.ir import MOST_COUNTED, Family, GrammarIR, Member, Part, Symbol, enough_values
from cdplugin.kernels import entry
from cdplugin.kernels.parser import rules as kernels
from cdplugin.kernels.store import layout
from cdplugin.memory import size_of


class _Turn:
    """The lock for making rules from an IR. Its families are shared by all arenas of the grammar, and by nothing else."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        forking.renew(self, "lock")


_turns: WeakKeyDictionary[GrammarIR, _Turn] = WeakKeyDictionary()
_turns_lock = threading.Lock()
forking.renew(sys.modules[__name__], "_turns_lock")


def _turn_of(ir: GrammarIR) -> _Turn:
    with _turns_lock:
        turn = _turns.get(ir)
        if turn is None:
            turn = _turns[ir] = _Turn()
        return turn


_DOT_TABLES = layout.DOT_SYMBOL, layout.DOT_LEFT, layout.DOT_NULL_REST
_NUMBER_BYTES, _MEMBER_BYTES = 300, 400
"""Bytes of a nonterminal's number and of a family's member, with their table entries."""
_REPORTED = 1 << 16
"""Growth of an arena's late rules, in bytes, after which its account is told."""
_SYMBOL_WORK = 500  # units of work (Limits.max_step_work) for each symbol of a late rule


class FamilyRules(NamedTuple):
    """What is known of a family's members without making their rules, with symbols as they stand after dots
    (:class:`cdplugin.ir.Whole`).

    ``head``: one of the numbered ``members``, the representative of all.
    """

    head: int
    members: list[int]
    enough: list[int]
    ways: list[list[int]]
    n_excluded: int


class Expander:
    """Makes the rules of families' members when the parser first predicts them. One per arena.

    Members that the static tables do not have get numbers of this arena. ``n_static_rules``, ``n_static_dots``,
    ``n_static_nonterminals``: how many of each the static tables have; ``n_rules``, ``n_dots``: with those made since, which
    follow them in the arena's tables. ``numbers``: those of the IR's nonterminals, including members that the IR notes;
    ``members``: the other members, by number.
    """

    def __init__(self, rules: RuleSet, arena: Arena) -> None:
        self._rules = rules
        self._turn = _turn_of(rules.ir)
        self._arena: Arena = weakref.proxy(arena)  # the arena holds this: a cycle would keep both until garbage collection
        self.numbers = rules.number
        self._symbol = {number: symbol for symbol, number in self.numbers.items()}
        self._nullable = arena.tables[layout.NULLABLE].tolist()
        self.n_static_nonterminals = len(self._nullable)
        self.n_static_dots = self.n_dots = len(arena.tables[layout.DOT_SYMBOL])
        self.n_static_rules = self.n_rules = len(arena.tables[layout.RULE_LISTS]) // 2
        self._n_corners = len(arena.tables[layout.CORNER_LISTS]) // 2
        self.members: dict[int, Member] = {}
        self._member_number: dict[Member, int] = {}
        self._tracker: ValueTracker | None = None
        self._code: dict[Symbol, list[int]] = {}
        self._n_copied = 0  # dots of second versions of rules (_ways), which cost next to nothing
        self._optional = {
            self.numbers[symbol]: self._encode(lexeme)
            for symbol, lexeme in rules.lexemes.optional.items()
            if symbol in self.numbers and lexeme not in rules.lexemes.rewrite
        }
        self._nbytes = _NUMBER_BYTES * len(self.numbers)
        self._reported = 0
        if rules.ir.tracked:
            go_on = weakref.WeakMethod(self._go_on)
            self._tracker = arena.tracker = ValueTracker(self._arena, rules.ir, rules.lexeme_number, go_on)

    def __call__(self, nonterminal: int) -> None:
        """Make the rules of a nonterminal whose list is ``NOT_EXPANDED``."""
        with self._turn.lock:
            family, _ = self._family(nonterminal)
            work, n_dots = family.work, self.n_dots - self._n_copied
            self._expand(nonterminal)
            work = family.work - work + _SYMBOL_WORK * (self.n_dots - self._n_copied - n_dots)
            self._arena.header[layout.WORK_LEFT] -= work  # the arena checks it before it makes more rules

    @property
    def nbytes(self) -> int:
        """Bytes of what is known of members and of lexemes' texts, besides the arena's tables."""
        return self._nbytes + (0 if self._tracker is None else self._tracker.nbytes)

    @property
    def n_nonterminals(self) -> int:
        """The present number of nonterminals."""
        return len(self._nullable)

    def remaining(self, nonterminal: int) -> int:
        """Return how far a family's member is from an end, as its family says."""
        family, value = self._family(nonterminal)
        return family.remaining(value)

    def least_bytes(self, nonterminal: int) -> int:
        """Return a lower bound of the bytes of a nonterminal's texts, as its family says; 0 if it has no family."""
        if not self._is_member(nonterminal):
            return 0
        family, value = self._family(nonterminal)
        return family.least_bytes(value)

    def family(self, nonterminal: int) -> Family | None:
        """Return the family of which a nonterminal is a member, or None."""
        return self._family(nonterminal)[0] if self._is_member(nonterminal) else None

    def wholes(self) -> dict[Family, FamilyRules] | None:
        """Return what each family says of all its members without their rules; None if some family cannot say it."""
        out: dict[Family, FamilyRules] = {}
        known: set[Symbol] = set()
        with self._turn.lock:
            n_before = len(self._nullable)
            fresh = self.numbers.keys() & self._rules.ir.instances.keys()
            while fresh:  # the rules that one family names may mention members of others
                known |= fresh
                for symbol in sorted(fresh):
                    family, _ = self._rules.ir.instances[symbol]
                    if family in out:
                        out[family].members.append(self.numbers[symbol])
                        continue
                    whole = family.whole(self._rules.productive)
                    if whole is None:
                        return None
                    number = self.numbers[symbol]
                    listed = [
                        [c for one in some if self._is_productive(one) for c in self._codes(one)]
                        for some in (whole.enough, *whole.ways)
                    ]
                    enough, *ways = listed
                    out[family] = FamilyRules(number, [number], enough, ways, whole.n_excluded)
                fresh = (self.numbers.keys() & self._rules.ir.instances.keys()) - known
            self._number_new(n_before)
            for number, member in self.members.items():
                if member.family in out:
                    out[member.family].members.append(number)
        return out

    def is_no_nearer(self, part: int, nonterminal: int) -> bool:
        """Return whether two nonterminals are members of one family, and ``part`` is at least as far from an end as
        ``nonterminal``.
        """
        if not (self._is_member(part) and self._is_member(nonterminal)):
            return False
        (family, value), (other, before) = self._family(part), self._family(nonterminal)
        return family is other and family.remaining(value) >= family.remaining(before)

    def _is_member(self, nonterminal: int) -> bool:
        return nonterminal in self.members or self._symbol.get(nonterminal, -1) in self._rules.ir.instances

    def representative(self, nonterminal: int, left: int) -> int:
        """Return a nonterminal with about equally short texts, if ``nonterminal`` is one of any number of members; else itself.

        ``left``: the left side of the rule in which it stands.
        """
        if nonterminal not in self.members:
            return nonterminal
        with self._turn.lock:
            n_before = len(self._nullable)
            family, value = self._family(nonterminal)
            of = None
            if self._is_member(left):
                other, value_of = self._family(left)
                of = value_of if other is family else None
            part = family.representative(value, of)
            number = nonterminal if part is None else self._encode(part)
            self._number_new(n_before)
            return number

    def name(self, nonterminal: int) -> str:
        """Return the name of a nonterminal, for messages."""
        if nonterminal in self.members:
            return self.members[nonterminal].family.name
        return self._rules.ir.names[self._symbol[nonterminal]] if nonterminal in self._symbol else ""

    def _family(self, nonterminal: int) -> tuple[Family, Hashable]:
        member = self.members.get(nonterminal)
        return self._rules.ir.instances[self._symbol[nonterminal]] if member is None else (member.family, member.value)

    def _expand(self, nonterminal: int) -> None:
        family, value = self._family(nonterminal)
        n_before, begun = len(self._nullable), family.work
        codes = []
        try:
            for right in family.expand(value, self._rules.productive):
                if family.work - begun > self._arena.header[layout.WORK_LEFT]:
                    self._arena.spend(family.work - begun)  # raises
                codes.append(self._encoded(right, nonterminal))
        except RecursionError:
            text = "the text is nested too deeply for rules that depend on it"
            raise LimitExceeded(text, expected="fewer levels inside each other") from None
        finally:  # after an exception, some members are numbered and have no rules yet: these are made when asked for again
            self._number_new(n_before)
        rights = [way for code in codes if code is not None for way in self._ways(code)]
        offsets = np.array([0, *accumulate(map(len, rights))], np.int64)
        symbols = np.array([*chain.from_iterable(rights)], np.int64)
        tables = self._arena.tables
        tables[layout.RULE_HEADS][nonterminal] = layout.END_OF_RULE
        n_dots = len(symbols) + len(rights)
        n_words = 2 * len(rights)
        dots, words = np.empty((3, n_dots), np.int64), np.empty(n_words + 2 * len(symbols), np.int64)
        lists, corners = words[:n_words], words[n_words:]
        rules, first = (np.full(len(rights), nonterminal), offsets, symbols), (self.n_dots, self.n_rules, self._n_corners)
        heads = (tables[layout.RULE_HEADS], tables[layout.CORNER_HEADS])
        n_corners = kernels.lay_out(rules, tables[layout.NULLABLE], first, heads, dots.reshape(-1), lists, corners)
        self._append_dots(dots)
        self._append(layout.RULE_LISTS, 2 * self.n_rules, lists)
        self._append(layout.CORNER_LISTS, 2 * self._n_corners, corners[: 2 * n_corners])
        self.n_dots += n_dots
        self.n_rules += len(rights)
        self._n_corners += n_corners

    def _ways(self, code: list[int]) -> list[list[int]]:
        """Return a right side as one or more versions: with and without the optional white space that it begins with.

        Otherwise all rules ever made would be left corners' rules of the one nonterminal for that white space, and the parser
        would search all of them.
        """
        ways = []
        while len(code) > 1 and code[0] in self._optional:
            ways.append([self._optional[code[0]], *code[1:]])
            code = code[1:]
            self._n_copied += len(code) + 1
        return [*ways, code]

    def _number_new(self, n_before: int) -> None:
        """Make room for the nonterminals from ``n_before`` on, which have no rules yet."""
        n = len(self._nullable)
        if n == n_before:
            return
        for table, word in ((layout.RULE_HEADS, layout.NOT_EXPANDED), (layout.CORNER_HEADS, -1), (layout.VISIT_STAMPS, 0)):
            self._arena.reserve(table, n)
            self._arena.tables[table][n_before:n] = word
        self._append(layout.NULLABLE, n_before, np.array(self._nullable[n_before:], np.int64))
        self._report()

    def _report(self) -> None:
        """Tell the arena's account the size of late rules, if it has grown enough. Raises :class:`LimitExceeded` where the
        arena has no room for it.
        """
        nbytes = self.nbytes
        if nbytes > self._reported + _REPORTED:
            self._reported = nbytes
            self._arena.note_size()
            self._arena.check_size()

    def _go_on(self, nonterminal: int, lexeme: int, parts: Sequence[Part]) -> int:
        """Return the first dot of a new rule ``nonterminal -> lexeme parts`` that is never predicted (for
        :class:`ValueTracker`).
        """
        with self._turn.lock:
            n_before, first = len(self._nullable), self.n_dots
            try:
                code = self._encoded(parts, nonterminal)
            finally:
                self._number_new(n_before)
            assert code is not None
            symbols = [-2 - lexeme, *code, layout.END_OF_RULE]
            n = len(symbols)
            null_rest = [0] * n
            null_rest[-1] = 1
            for at in range(n - 2, 0, -1):
                null_rest[at] = int(symbols[at] >= 0 and self._nullable[symbols[at]] and null_rest[at + 1])
            self._append_dots(np.array([symbols, [nonterminal] * n, null_rest], np.int64))
            self.n_dots += n
            return first

    def _encoded(self, parts: Sequence[Part], nonterminal: int) -> list[int] | None:
        """Return a right side (of a rule of ``nonterminal``) in the kernels' encoding; None if it derives nothing.

        That is so if no text of a tracking lexeme is left, or if it needs what no token has, such as a comma.
        """
        code: list[int] = []
        pending = list(reversed(parts))
        while pending:
            part = pending.pop()
            if isinstance(part, int):
                known = self._code.get(part)
                if known is None:
                    if not self._is_productive(part):
                        return None
                    known = self._codes(part)
                code += known
            elif isinstance(part, Member):
                code.append(self._member_code(part))
            else:
                assert self._tracker is not None
                lexeme = self._tracker.lexeme(part, nonterminal)
                if lexeme is None:
                    return None
                code.append(-2 - lexeme)
                pending = list(reversed(part.rest))
        return code

    def _is_productive(self, symbol: Symbol) -> bool:
        """Return whether a symbol of the IR derives any string. Instances noted since the grammar was built do."""
        return symbol >= len(self._rules.known) or self._rules.productive(symbol)

    def _codes(self, symbol: Symbol) -> list[int]:
        """Return a symbol of the IR in the kernels' encoding."""
        code = self._code[symbol] = list(map(self._encode, self._rules.lexemes.rewrite.get(symbol, (symbol,))))
        return code

    def _member_code(self, member: Member) -> int:
        number = self._member_number.get(member)
        if number is None:
            number = self._member_number[member] = len(self._nullable)
            self.members[number] = member
            self._nbytes += _MEMBER_BYTES + size_of(member.value)
            self._nullable.append(1 if member.family.nullable(member.value) else 0)
        return number

    def _encode(self, symbol: Part) -> int:
        if isinstance(symbol, Member):
            return self._member_code(symbol)
        assert isinstance(symbol, int)
        if symbol < 0:
            return -2 - int(self._rules.lexeme_numbers[~symbol])
        number = self.numbers.get(symbol)
        if number is None:
            family, value = self._rules.ir.instances[symbol]
            number = self.numbers[symbol] = len(self._nullable)
            self._symbol[number] = symbol
            self._nbytes += _NUMBER_BYTES
            self._nullable.append(1 if family.nullable(value) else 0)
        return number

    def _append_dots(self, dots: np.ndarray) -> None:
        """Append dots to the arena's tables. ``dots``: their symbols, left sides, and whether the rest is nullable, int64."""
        for table, words in zip(_DOT_TABLES, dots, strict=True):
            self._append(table, self.n_dots, words)

    def _append(self, table: int, at: int, words: np.ndarray) -> None:
        self._arena.reserve(table, at + len(words))
        self._arena.tables[table][at : at + len(words)] = words


_WORD_BYTES, _LITERAL_BYTES = 40, 60
"""Bytes of expression trees for each word and each literal of the program that builds them (a set of bytes takes 6 words)."""


@dataclass(eq=False)
class StaticTables:
    """The part of a compiled grammar that never changes: its rules, and the program that builds its lexemes' expressions.

    ``searched``: ids of the expressions that needed a search to tell whether they match anything. Each clone of the same base
    arena gives the expressions the same ids, so ``lexemes`` may name them.
    """

    program: np.ndarray
    n_results: int
    literals: tuple[np.ndarray, np.ndarray]
    lexemes: LexemeTable
    rules: RuleSet
    searched: list[int]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays and of the rules, and of the arena's own copies of them if it changes them."""
        offsets, text = self.literals
        tables = self.program.nbytes + offsets.nbytes + text.nbytes + self.lexemes.nbytes + self.rules.nbytes
        if not self.rules.is_lazy:
            return tables
        return tables + _WORD_BYTES * len(self.program) + _LITERAL_BYTES * len(offsets) + text.nbytes

    def evaluate(self, arena: Arena) -> None:
        """Build the lexemes' expressions in a clone of the base arena."""
        evaluate(arena, self.program, self.n_results, self.literals)
        for expression in self.searched:  # decide these now instead of in the first masks
            arena.call(entry.OP_STATUS, expression)

    def install(self, arena: Arena) -> None:
        """Put the rules into an arena that has the expressions. Raises :class:`LimitExceeded` if its budget is too small."""
        records = self.lexemes.records.reshape(-1)
        arena.set_table(layout.LEXEMES, records.copy() if self.rules.is_lazy and self.rules.ir.tracked else records)
        if len(self.lexemes.ranges):
            arena.set_table(layout.TOKEN_RANGES, self.lexemes.ranges.reshape(-1))
            arena.header[layout.HAS_TERMINALS] = 1
        tracked = self.rules.ir.tracked.values()
        unbounded = enough_values(MOST_COUNTED, arena.vocab.max_token_bytes)
        has_few = any(not reader.is_sign and reader.enough < unbounded for reader in tracked)
        arena.header[layout.HAS_TRACKED] = layout.FEW_VALUES if has_few else bool(tracked)
        arena.header[layout.HAS_CLOCKS] = self.lexemes.has_clocks
        arena.header[layout.COMPETE] = self.lexemes.compete
        arena.set_block(self.rules.block.copy() if self.rules.is_lazy else self.rules.block)
        arena.set_table(layout.VISIT_STAMPS, np.zeros(self.rules.n_nonterminals, np.int64))
        arena.header[layout.END_SYMBOL] = self.rules.end_symbol
        if not self.lexemes.all_exact:
            arena.reserve_for_walks()
        if self.rules.is_lazy:
            arena.expand = Expander(self.rules, arena)
        arena.start = arena.call(entry.OP_START_CURSOR)
        if arena.over_budget and arena.nbytes > arena.max_bytes:
            raise LimitExceeded(
                "the grammar's rules and lexemes take too much memory",
                expected=f"at most Limits.max_arena_bytes = {arena.max_bytes}",
                found=f"{arena.nbytes} bytes",
            )
