"""Upper bounds on what is left of a text wherever its next tokens lead: with a budget above the bound, no ending has to be
found.

The rules that are open at a place bound what is left from there (:meth:`Growth.worst`). Later the text stands in one of
these rules, or in rules opened inside. Follow the graph of nonterminals down to the rule in whose lexeme the text stands; an
edge ``A → γ B δ`` costs the ending of ``δ``. A path that leaves a strongly connected component does not come back, so a longest
path bounds the costs between components: what a nonterminal *reaches*. Inside a component a path may have cycles. Each cycle
passes an edge whose ``γ`` has at least one byte in the text, a *level*, so the bound grows by a fixed cost for every such byte
written. If ``γ`` is empty there need be no cycle: a nonterminal that contains itself at one position need not be opened twice.
A kernel computes all this (:mod:`cdplugin.kernels.parser.growth`). A token opens rules only after the lexeme in which the text
stands has ended: in a string, bytes before a quote are no levels.

Costs are first counted in bytes, each a token: this is fast, and enough if the budget is very far away. If not, they are
counted in tokens: those of an ending of the fewest bytes, since such endings are found, with each lexeme spelled by itself.
Both are exact for lexemes without ``&`` and ``~``. For others, and for the rest of a lexeme that has begun, the bound is read
off the expression (:class:`cdplugin.queries.measures.Meetings`).

The members of a family, whose rules are made late, count as one nonterminal, if the family says what suffices to end any of
them (:meth:`cdplugin.ir.Family.whole`). A lexeme that must not have some values (``uniqueItems``) may take one more round in
its expression for each value (:meth:`Growth._exclude_values`); there are no more values than commas in the text.

Under longest match, each lexeme is followed by a separator (:mod:`cdplugin.queries.separators`), and a text may stand in a
skip. The search finds endings of at most twice the fewest bytes (:mod:`cdplugin.queries.completion`), so a bound counts twice,
and only bytes are counted. If a budget is not enough for whatever comes next, the places after the tokens that may open much
are looked at (:meth:`Growth.left`): they are few, and no ending is searched for. There is no bound for other families, if
tokens are counted, or if longest match may forbid an ending.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sized
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from cdplugin.bits import bit_members, bitmask_words, packed_bits
from cdplugin.engine.arena import Arena
from cdplugin.engine.expander import FamilyRules
from cdplugin.errors import LimitExceeded
from cdplugin.ir import Family
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.parser import growth as bounds
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.regex.measures import FAR, M_BYTES, M_LEAST, M_REST
from cdplugin.kernels.store import layout
from cdplugin.queries.completion import Endings
from cdplugin.queries.costs import Costs
from cdplugin.queries.measures import Measures, Meetings
from cdplugin.vocab.vocabulary import Vocabulary

_MOST_RULES = 100_000  # with more rules, no bound is computed
_MAY_BE_EMPTY = 2  # marks a nonterminal that may be empty but costs something all the same
_MOST_CURSORS = 200_000  # cursors whose bound is remembered
GRANT = 10_000_000
"""Work (``Limits.max_step_work``) for what is computed at one place."""
_MOST_SETS = 64  # byte sets for which the counts of all tokens are remembered
_AT_ONCE = 64  # tokens looked up in a mask row at once
_ANY = bytes(range(256))
_COMMA = b","
_OUT_OF_THE_WAY = 24  # bytes after which a number differs from other values: digits, and what begins them
_DELIMITERS = b"\"'`<>()[]{},;:|/#\n"  # other bytes would need too many sets (_MOST_SETS)
_PLACE_BYTES, _NODE_BYTES = 200, 150  # bytes of a table entry; of what is known of a nonterminal or a lexeme
_CODE_WORK = 20  # units of work (Limits.max_step_work) for a symbol of a family's rules (Whole)


class Unit(NamedTuple):
    """What is counted, bytes or tokens.

    ``cost_of``: the costs of shortest matches of some expressions, int64; ``bits``: 0 for bytes, ``UNIT_BITS`` for tokens
    (:mod:`cdplugin.kernels.parser.growth`); ``meetings``: what matches may still need where conditions meet; ``separators``:
    under longest match, the bytes that end each lexeme, else None.
    """

    bits: int
    cost_of: Callable[[np.ndarray], np.ndarray]
    meetings: Meetings
    separators: np.ndarray | None = None


class Worst(NamedTuple):
    """The most that is left from a place: ``now``, ``later`` wherever a text goes on to stand, and ``level`` more for each
    level.

    ``first``: bytes one of which a token contains if it leaves the lexeme in which the text stands.
    """

    now: int
    later: int
    level: int
    first: bytes


Seen = tuple[int, int, Worst]
"""What was known at an earlier place of a text: the bound's number (:attr:`Growth.number`; a matcher must not keep an arena
alive), the tokens before that place, and what is left there.
"""
_numbers = count()


class Growth(Costs):
    """Bounds for one arena, if they are there (``is_known``). The caller holds the arena's lock.

    Ways from a cursor to the end are followed as by :class:`Costs`; what nonterminals and lexemes cost is known ahead.
    """

    def __init__(self, arena: Arena, measures: Measures, unit: Unit) -> None:
        super().__init__(arena, measures)
        self._unit = unit
        self.separators = unit.separators
        self.number = next(_numbers)
        self.is_known = False
        self._opened = b""  # bytes one of which each level has
        self._most = 0  # the most levels of any token
        self._has_terminals = False
        self._tracked: dict[int, int] = {}  # tracking lexemes, by the number under which they end
        self._meeting: set[int] = set()  # lexemes in which conditions meet: their residuals are not measured
        self._skip = 0  # the most that is left of a skip in which a text stands
        self._round = 0  # the most that one more excluded value of a tracking lexeme adds to what is left
        self._row_type: Any = ctypes.c_int32 * bitmask_words(arena.vocab.size)
        self._of_lexeme: list[tuple[int, int]] = []  # what a match costs, and what one that has begun may need
        self._of_node: list[tuple[int, int]] = []  # the most that is left of a nonterminal, and for each level
        self._of_family: dict[Family, int] = {}  # the member that represents all
        self._of_reach: dict[int, tuple[int, int]] = {}  # as _of_node, for a rule from a dot on
        self._of_cursor: dict[int, Worst] = {}
        self._of_items: dict[int, tuple[int, int, int]] = {}  # :meth:`_worst_row`
        self._of_residual: dict[int, tuple[int, bytes]] = {}  # :meth:`_residual`
        self._worst: dict[int, tuple[int, int]] = {}  # :meth:`_worst_end`
        n_rules = len(arena.tables[layout.RULE_LISTS]) // 2 if self._expander is None else self._expander.n_static_rules
        if arena.header[layout.HAS_CLOCKS] or n_rules > _MOST_RULES:
            return
        wholes: dict[Family, FamilyRules] | None = {} if self._expander is None else self._expander.wholes()
        if wholes is not None:
            self._bound(n_rules, wholes)

    def _bound(self, n_rules: int, wholes: dict[Family, FamilyRules]) -> None:
        """Have the kernel compute the bound."""
        arena = self._arena
        lexemes = arena.lexemes
        tables: Any = arena.tables
        starts = tables[layout.RULE_LISTS][: 2 * n_rules : 2].copy()
        lefts = tables[layout.DOT_LEFT][starts]
        symbols, n = tables[layout.DOT_SYMBOL], len(tables[layout.NULLABLE])
        if self._expander is not None:
            symbols, n = symbols[: self._expander.n_static_dots], self._expander.n_nonterminals
        uses = np.full(n_rules, bounds.R_RULE)
        nullable, heads = tables[layout.NULLABLE][:n].copy(), np.arange(n)
        if wholes:
            late = [(of.head, bounds.R_COST, of.enough) for of in wholes.values()]
            late += [(of.head, bounds.R_WAY, [*way, of.head]) for of in wholes.values() for way in of.ways]
            words = [word for _, _, right in late for word in (*right, layout.END_OF_RULE)]
            arena.spend(_CODE_WORK * len(words))
            ends = np.cumsum([len(right) + 1 for _, _, right in late])
            starts = np.concatenate([starts, len(symbols) + np.concatenate([[0], ends[:-1]])])
            symbols = np.concatenate([symbols, np.array(words, np.int64)])
            lefts = np.concatenate([lefts, [head for head, _, _ in late]])
            uses = np.concatenate([uses, [use for _, use, _ in late]])
            for of in wholes.values():
                heads[of.members], nullable[of.members] = of.head, _MAY_BE_EMPTY
        order = np.argsort(heads[lefts], kind="stable")
        starts, lefts, uses = starts[order], lefts[order], uses[order]
        least, rest, needed = self._measured(lexemes, symbols)
        self._exclude_values(lexemes, least, rest, wholes)
        costs, reach, levels, out = (np.empty(size, np.int64) for size in (n, n, n, bounds.BOUND_WORDS))
        scratch = np.zeros(bounds.scratch_size(n, len(starts), len(symbols)), np.int64)
        rules, found = (symbols, starts, lefts, uses, nullable, heads), (costs, reach, levels)
        bounds.bound_rules(rules, (least, rest, needed), self._unit.bits, scratch, found, out)
        arena.spend(int(out[bounds.B_WORK]))
        self._cost, self._of_family = costs.tolist(), {family: of.head for family, of in wholes.items()}
        if not out[bounds.B_IS_BOUND] or any(self._count(self._cost[head]) >= FAR for head in self._of_family.values()):
            return
        self.is_known = True
        self._of_lexeme = list(zip(least.tolist(), rest.tolist(), strict=True))
        self._of_node = list(zip(reach.tolist(), levels.tolist(), strict=True))
        self._opened = bytes(bit_members(out[bounds.B_BYTES :]).tolist())
        self._has_terminals = bool(arena.header[layout.HAS_TERMINALS])
        self._most = self._levels_of(_ANY).most if out[bounds.B_LEVEL] else 0

    def _measured(self, lexemes: np.ndarray, symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return, for lexemes and the end, a match's cost, what one that has begun may need, and 4 words of bytes (each match
        has one).
        """
        n = len(lexemes)
        is_used = np.zeros(n + 1, bool)
        is_used[-2 - symbols[symbols < layout.END_OF_RULE]] = True
        is_used[n] = False
        terminals = lexemes[:, layout.X_N_RANGES] > 0
        is_used[:n] &= ~terminals
        skips = lexemes[:, layout.X_IS_SKIP] != 0
        is_used[:n] |= skips
        used = np.flatnonzero(is_used)
        found = lexemes[used, layout.X_EXPRESSION]
        records = self.measures.of(found)
        least, rest, needed = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros((n + 1, 4), np.int64)
        least[used], rest[used], needed[used] = self._unit.cost_of(found), records[:, M_REST], records[:, M_BYTES:]
        for place in np.flatnonzero(self._arena.flags(found) & expressions.PURE == 0).tolist():
            meeting = self._unit.meetings.rest(int(found[place]))
            if meeting is not None:
                self._meeting.add(int(used[place]))
                rest[used[place]] = max(meeting, rest[used[place]])
        if self.separators is not None:
            least[:n] += self.separators
            rest[:n] += self.separators
            self._skip = int(rest[:n][skips].max(initial=0))
        least[:n][terminals], rest[:n][terminals] = self._cost_of(1), 1
        return least, rest, needed.reshape(-1)

    def _exclude_values(
        self, lexemes: np.ndarray, least: np.ndarray, rest: np.ndarray, wholes: dict[Family, FamilyRules]
    ) -> None:
        """Let tracking lexemes cost what it takes to differ from the values that they must not have.

        A match goes round in the expression once for each such value, and each round takes no more than what a match may still
        need. If a tracking lexeme is needed to end a member, the family says how many values there are; if a text stands in
        one, there are no more than commas in the text (:meth:`steps`).
        """
        tracked = np.flatnonzero(lexemes[:, layout.X_ROLE] != layout.PLAIN)
        if not len(tracked):
            return
        self._tracked = {int(lexemes[x, layout.X_TRACKED]): x for x in tracked.tolist() if lexemes[x, layout.X_TRACKED] >= 0}
        n_excluded = np.zeros(len(least), np.int64)
        for of in wholes.values():
            for x in {-2 - code for way in of.ways for code in way if code < 0}:
                n_excluded[x] = max(n_excluded[x], of.n_excluded)
        rounds = rest[tracked] + 1
        self._round = int(rounds.max())
        least[tracked] = np.minimum(least[tracked] + self._cost_of(1) * rounds * n_excluded[tracked], FAR)
        rest[tracked] = np.minimum(3 * rest[tracked] + _OUT_OF_THE_WAY, FAR)

    @property
    def nbytes(self) -> int:
        """Bytes of what was computed, without the measures."""
        memos: tuple[Sized, ...] = (self._of_cursor, self._of_items, self._worst, self._of_end, self._of_rest, self._of_reach)
        places = sum(map(len, memos)) + len(self._of_residual)
        return _PLACE_BYTES * places + _NODE_BYTES * (len(self._of_node) + len(self._of_lexeme))

    # --- a place in a text ----------------------------------------------------------------------------------------------------

    def steps(self, cursor: int, budget: int, tokens: list[int], seen: Seen | None, row: int) -> tuple[int, Seen] | None:
        """Return for how many tokens a budget is far away, each of which takes one from it, and what was known; None if it is
        not, or unknown.

        ``budget``: tokens without the stop token, the next one included; ``tokens``: the text, at whose end ``cursor`` is;
        ``row``: the address of the mask there, 0 if none is at hand.
        """
        room = self._room(budget)
        each = 0
        if self._round:
            each = self._round * self._levels_of(_ANY, _COMMA).most
            room -= self._excluding(tokens) + each
        slack = -1
        if seen is not None and seen[0] == self.number and seen[1] <= len(tokens):
            worst = seen[2]
            slack = room - worst.later - worst.level * (self._written(tokens[seen[1] :]) + self._most)
        if slack < (budget >> 2):  # look again where the text stands
            worst = self._worst_at(cursor)
            seen = (self.number, len(tokens), worst)
            slack = room - worst.later
            if worst.level and slack >= 0:
                levels = self._levels_of(worst.first)
                most = levels.most
                if row and slack < worst.level * most:
                    most = levels.most_in(np.frombuffer(self._row_type.from_address(row), np.int32))
                slack -= worst.level * most
        if slack < 0 or seen is None:
            return None
        return slack // (1 + seen[2].level * self._most + each), seen

    def after_tokens(self, cursor: int, tokens: list[int]) -> np.ndarray | None:
        """Return an upper bound of the tokens left after each token of the vocabulary, int64, without the stop token; None if
        unknown.

        It holds for tokens that may come at ``cursor``, at the end of the text ``tokens``.
        """
        worst = self._worst_at(cursor)
        if worst.later >= FAR:
            return None
        out = np.full(self._arena.vocab.size, worst.later + self._excluding(tokens), np.int64)
        if worst.level:
            self._levels_of(worst.first).add_to(out, worst.level)
        if self._round:
            self._levels_of(_ANY, _COMMA).add_to(out, self._round)
        return out if self.separators is None else 2 * out

    def _excluding(self, tokens: list[int]) -> int:
        """Return the most that it takes to differ from the values in a text that a lexeme must not have."""
        if not self._round:
            return 0
        known = self._arena.vocab.tokens  # a comma stands between two values
        return self._round * (1 + b"".join([known[token] or b"" for token in tokens]).count(_COMMA))

    def _levels_of(self, first: bytes, wanted: bytes | None = None) -> _Levels:
        """Return how many levels tokens have after a first byte out of ``first``; or how many of the bytes ``wanted``."""
        return _levels_of(self._arena.vocab, first, self._opened if wanted is None else wanted, self._has_terminals)

    def _written(self, tokens: list[int]) -> int:
        """Return the most levels that some tokens have."""
        if not self._most or not tokens:
            return 0
        known = self._arena.vocab.tokens
        texts = [known[token] or b"" for token in tokens]
        text = b"".join(texts)
        count = len(text) - len(text.translate(None, self._opened))
        return count + texts.count(b"") if self._has_terminals else count

    def left(self, cursor: int) -> int:
        """Return the most bytes that a shortest ending has; :data:`FAR` if that is unknown. The caller grants the work."""
        self.budget.renew()
        self.trim(_MOST_CURSORS)
        return self.of_cursor(cursor, demand=False)

    def few_levels(self, cursor: int, budget: int) -> int:
        """Return how many levels a token may have for a budget to be enough after it: 0 or a power of two; -1 if it
        never is.
        """
        worst = self._worst_at(cursor)
        slack = self._room(budget) - worst.later
        if slack < 0 or not worst.level:
            return -1
        levels = slack // worst.level
        return 1 << levels.bit_length() - 1 if levels else 0

    def leave_deep(self, cursor: int, row: np.ndarray, levels: int) -> None:
        """Narrow a mask row (int32) to the tokens that have more than ``levels`` levels."""
        if levels >= 0:
            deep = self._levels_of(self._worst_at(cursor).first)
            left = np.zeros(32 * len(row), bool)
            left[deep.tokens[: int(np.count_nonzero(deep.counts > levels))]] = True
            row &= packed_bits(left)

    def _room(self, budget: int) -> int:
        """Return what may be left after the next one of so many tokens."""
        return budget - 1 if self.separators is None else (budget - 1) >> 1

    def _match(self, word: int) -> tuple[int, bool]:
        expression = word & layout.LOW_32
        if self._arena.is_pure(expression):
            left = self.matches.bound(expression)
        else:
            meeting = self._unit.meetings.rest(expression)
            left = max(self._residual(expression)[0], meeting or 0)
        return left + self._apart(word >> 32), False

    def _apart(self, lexeme: int) -> int:
        """Return the bytes of the separator that ends a lexeme."""
        if self.separators is None:
            return 0
        symbol = self._arena.of_lexeme(lexeme, layout.X_SYMBOL)
        return int(self.separators[symbol]) if symbol < len(self.separators) else 0

    def _worst_at(self, cursor: int) -> Worst:
        """Return :meth:`worst`, or :data:`FAR` if computing it takes too much work."""
        known = self._of_cursor.get(cursor)
        if known is not None:
            return known
        self.budget.renew()
        self.trim(_MOST_CURSORS)
        if len(self._of_cursor) > _MOST_CURSORS:
            self._forget()
        try:
            with self._arena.one_budget(GRANT):
                known = self._of_cursor[cursor] = self.worst(cursor)
        except LimitExceeded:
            return Worst(FAR, FAR, 0, _ANY)
        return known

    def worst(self, cursor: int) -> Worst:
        """Return the most that is left from a cursor."""
        arena = self._arena
        now = later = level = 0
        first: set[int] | None = set()
        for row, state in arena.pairs(cursor):
            for word in arena.open_words(state):
                first_word = (word >> 32) * layout.LEXEME_WORDS
                record = arena.tables[layout.LEXEMES][first_word : first_word + layout.LEXEME_WORDS].tolist()
                left, leaves = 1, b""
                if record[layout.X_ROLE] or record[layout.X_SYMBOL] in self._meeting:
                    left = self._of_lexeme[self._static(word >> 32)][1]
                elif not record[layout.X_N_RANGES]:
                    left, leaves = self._residual(word & layout.LOW_32)
                    left += self._apart(word >> 32)
                after = row
                if not record[layout.X_IS_SKIP]:
                    after = arena.call(kernels.OP_SCAN, row, record[layout.X_SYMBOL])
                rest, reach, more = self._worst_row(after)
                now, level = max(now, left + rest), max(level, more)
                later = max(later, left + rest, reach + self._skip)
                first = first | {*leaves} if first is not None and leaves else None
        return Worst(min(now, FAR), min(later, FAR), level, bytes(sorted(first)) if first else _ANY)

    def _residual(self, expression: int) -> tuple[int, bytes]:
        """Return what a match that has begun may still need, and a delimiter that it must then contain, if one is known."""
        known = self._of_residual.get(expression)
        if known is None:
            needed = self.measures.needed(expression)
            is_one = needed.bit_count() == 1 and needed.bit_length() - 1 in _DELIMITERS
            leaves = bytes([needed.bit_length() - 1]) if is_one else b""
            known = self._of_residual[expression] = self.measures.rest(expression), leaves
        return known

    def _worst_row(self, row: int) -> tuple[int, int, int]:
        """Return the most that is left: of the rules of a row's items; of all that is open wherever a text goes; and for each
        level.
        """
        items = self._arena.of_row(row, parser_layout.R_ITEMS)
        known = self._of_items.get(items)
        if known is not None:
            return known
        now = later = level = 0
        for rest, reach, more, node in self._open(items):
            end = self._count(self._of_end.get(node, FAR))
            beyond, further = self._worst_end(node)
            now = max(now, rest + end)
            later, level = max(later, reach + end, beyond), max(level, more, further)
        known = self._of_items[items] = now, max(later, now), level
        return known

    def _open(self, items: int) -> list[tuple[int, int, int, int]]:
        """Return for each kernel item: the cost of the rest of its rule, the most that is left of it, that for each level, what
        is completed.
        """
        edges = self._edges(items)
        self._close([node for _, node in edges])
        dots = [item >> 32 for item in self._arena.sequence(items) if item >> 32 != parser_layout.SKIP_ITEM_DOT]
        return [(self._count(rest), *self._reach(dot), node) for (rest, node), dot in zip(edges, dots, strict=True)]

    def _reach(self, dot: int) -> tuple[int, int]:
        """Return the most that is left of a rule from a dot on, wherever in it a text stands, and for each level."""
        known = self._of_reach.get(dot)
        if known is None:
            symbols = self._arena.tables[layout.DOT_SYMBOL]
            most = level = 0
            at = dot
            while symbols[at] != layout.END_OF_RULE:
                code = int(symbols[at])
                at += 1
                if code < 0:
                    reach, more = self._of_lexeme[self._static(-2 - code)][1], 0
                else:
                    reach, more = self._of_node[self._node(code)]
                most, level = max(most, reach + self._count(self._rest(at))), max(level, more)
            known = self._of_reach[dot] = most, level
        return known

    def _worst_end(self, root: int) -> tuple[int, int]:
        """Return the most that is left after something was completed, on any path from there, and for each level."""
        known = self._worst.get(root)
        if known is not None:
            return known
        out = level = 0
        seen, pending = {root}, [root]
        while pending:
            node = pending.pop()
            if not node >> 32:
                continue
            self.budget.take()
            for rest, reach, more, child in self._open(self._arena.call(kernels.OP_COMPLETE, node >> 32, node & layout.LOW_32)):
                out, level = max(out, max(rest, reach) + self._count(self._of_end.get(child, FAR))), max(level, more)
                if child in self._worst:
                    out, level = max(out, self._worst[child][0]), max(level, self._worst[child][1])
                elif child not in seen:
                    seen.add(child)
                    pending.append(child)
        self._worst[root] = out, level
        return out, level

    def _count(self, cost: int) -> int:
        """Return the bytes or tokens of a cost."""
        return int(bounds.in_units(cost, self._unit.bits))

    def _cost_of(self, count: int) -> int:
        """Return the cost of so many bytes, each a token."""
        return (count << self._unit.bits) - count if self._unit.bits else count

    # --- costs that are known -------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Do nothing: all rules are known, and late ones say nothing new."""

    def _lexeme(self, lexeme: int) -> int:
        return self._of_lexeme[self._static(lexeme)][0]

    def _static(self, lexeme: int) -> int:
        """Return the lexeme that the rules name; a tracking lexeme has further numbers."""
        if lexeme < len(self._of_lexeme):
            return lexeme
        tracked = self._arena.of_lexeme(lexeme, layout.X_TRACKED)
        if tracked not in self._tracked:
            raise _unknown("lexeme")
        return self._tracked[tracked]

    def _nonterminal(self, nonterminal: int, left: int) -> int:
        return self._cost[self._node(nonterminal)]

    def _node(self, nonterminal: int) -> int:
        """Return the nonterminal with known bounds that represents a nonterminal."""
        if nonterminal < len(self._of_node):
            return nonterminal
        family = None if self._expander is None else self._expander.family(nonterminal)
        if family is None or family not in self._of_family:
            raise _unknown("family")
        return self._of_family[family]

    def _forget(self) -> None:
        super()._forget()
        for memo in (self._worst, self._of_cursor, self._of_items, self._of_residual):
            memo.clear()


class _Levels:
    """How many levels the tokens of a vocabulary have, those with most first. ``most``: of any token."""

    def __init__(self, counts: np.ndarray) -> None:
        self.tokens = np.flatnonzero(counts > 0)
        self.tokens = self.tokens[np.argsort(-counts[self.tokens], kind="stable")].astype(np.int32)
        self.counts = counts[self.tokens]
        self.most = int(self.counts.max(initial=0))

    def add_to(self, costs: np.ndarray, each: int) -> None:
        """Add ``each`` for every level to the costs (int64) of tokens."""
        costs[self.tokens] += np.int64(each) * self.counts

    def most_in(self, row: np.ndarray) -> int:
        """Return the most levels of a token in a mask row (int32)."""
        for first in range(0, len(self.tokens), _AT_ONCE):
            tokens = self.tokens[first : first + _AT_ONCE]
            found = np.flatnonzero(row[tokens >> 5] >> (tokens & 31) & 1)
            if len(found):
                return int(self.counts[first + int(found[0])])
        return 0


_levels: weakref.WeakKeyDictionary[Vocabulary, dict[tuple[bytes, bytes, bool], _Levels]] = weakref.WeakKeyDictionary()


def _levels_of(vocab: Vocabulary, first: bytes, wanted: bytes, has_terminals: bool) -> _Levels:
    """Return how many of the bytes ``wanted`` tokens have after the first one out of ``first``. Shared by all grammars of a
    vocabulary.

    ``has_terminals``: tokens may be terminals; those count as at least one, since they may have no bytes.
    """
    known = _levels.setdefault(vocab, {})
    key = first, wanted, has_terminals
    found = known.get(key)
    if found is None:
        is_first, is_wanted, counts = np.zeros(256, np.int64), np.zeros(256, np.int64), np.empty(vocab.size, np.int32)
        is_first[list(first)] = is_wanted[list(wanted)] = 1
        bounds.count_bytes(vocab.token_bytes, vocab.token_offsets, is_first, is_wanted, counts)
        if has_terminals:
            counts[np.diff(vocab.token_offsets) == 0] = 1
        if len(known) >= _MOST_SETS:
            known.clear()
        found = known[key] = _Levels(counts)
    return found


def _unknown(what: str) -> LimitExceeded:
    """Return the exception for a part of which nothing is known; callers treat it like a search that took too long."""
    return LimitExceeded(f"nothing is known of a {what}", expected=f"a {what} that the rules name")


def byte_costs(arena: Arena, costs: Costs, apart: np.ndarray | None) -> Unit:
    """Return the unit of costs in bytes. ``apart``: the bytes that end each lexeme (:mod:`cdplugin.queries.separators`), None:
    not needed.
    """

    def cost_of(found: np.ndarray) -> np.ndarray:
        out = np.maximum(costs.measures.of(found)[:, M_LEAST], 1)
        for place in np.flatnonzero(arena.flags(found) & expressions.PURE == 0).tolist():
            out[place] = max(1, costs.matches.of(int(found[place])))
        if costs.matches.gave_up:
            raise _unknown("lexeme")
        return out

    return Unit(0, cost_of, Meetings(arena, costs.measures, costs.matches.of), apart)


def token_costs(arena: Arena, endings: Endings, stops: np.ndarray) -> Unit:
    """Return the unit of costs in tokens: of a shortest match, or one per byte. ``stops``: int64, a count and the tokens never
    text.
    """

    def spelled(expression: int) -> int:
        word = endings.words.of(expression)
        if word:
            found = endings.spelled(word, stops)
            return (len(word) << bounds.UNIT_BITS) - found if max(found, len(word)) < 1 << bounds.UNIT_BITS else FAR
        length = max(1, endings.costs.matches.of(expression))
        return (length << bounds.UNIT_BITS) - length if length < 1 << bounds.UNIT_BITS else FAR

    def cost_of(found: np.ndarray) -> np.ndarray:
        out = np.array([spelled(expression) for expression in found.tolist()], np.int64)
        if endings.costs.matches.gave_up:
            raise _unknown("lexeme")
        return out

    return Unit(bounds.UNIT_BITS, cost_of, Meetings(arena, endings.costs.measures, endings.costs.matches.of))
