"""How much a token can add to what is left of a text, at most: where a budget is far away, no ending has to be found.

What is left from a place is bounded by what is left of the rules that are open there (:meth:`Growth.worst`). A text that goes
on opens further rules inside them. Follow the graph of nonterminals down, where a rule ``A → γ B δ`` costs the ending of
``δ``, to the rule in whose lexeme the text stands. Who leaves a strongly connected component does not come back, so a longest
path bounds the costs between components (``Growth.base``). Inside a component a path may go round. Then it passes an edge whose
``γ`` has at least one byte in the text, a *level*, so it costs at most ``Growth.level`` for every such byte that was written.
Where ``γ`` is empty a path never goes round: a nonterminal that holds itself at one place need not be opened twice. A kernel
computes this from the rules (:mod:`cdplugin.kernels.parser.growth`).

The unit is the byte at first, each one a token of its own, which is quickly known and enough where the budget is really far
away. Where it is not, costs are tokens of an ending, each lexeme spelled by itself. Both are exact for lexemes without ``&``
and ``~``. For others, and for what a lexeme that has begun may need, the bound is read off the expression.

The members of a family, whose rules are made late, are one nonterminal, if the family tells what is enough to end any of them
(:meth:`cdplugin.ir.Family.whole`): after whatever a member's rules open, no more than that is left of it.

There is no bound for other families, where tokens are counted, where a lexeme depends on the text of another, and where longest
match may forbid an ending.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.engine.expander import FamilyRules
from cdplugin.errors import LimitExceeded
from cdplugin.ir import Family
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser.growth import (
    B_BASE,
    B_BYTES,
    B_IS_BOUND,
    B_LEVEL,
    B_WORK,
    BOUND_WORDS,
    R_COST,
    R_RULE,
    R_WAY,
    bound_rules,
    most_bytes,
    scratch_size,
)
from cdplugin.kernels.regex import expressions
from cdplugin.kernels.regex.measures import FAR, M_BYTES, M_LEAST, M_REST
from cdplugin.kernels.store import layout
from cdplugin.queries.completion import Endings
from cdplugin.queries.costs import Budget, Costs
from cdplugin.queries.measures import Measures
from cdplugin.vocab.vocabulary import Vocabulary

_MOST_RULES = 100_000  # beyond which no bound is looked for
_MAY_BE_EMPTY = 2  # of a nonterminal that costs something all the same
_MOST_CURSORS = 200_000  # of which it is known what is left
GRANT = 10_000_000
"""Work (``Limits.max_step_work``) that what is found out at one place may take."""
_MOST_SETS = 1_000  # of bytes of which it is known how many a token has
_CODE_WORK = 20  # units of work (Limits.max_step_work) of a symbol of what is enough for a family

CostOf = Callable[[np.ndarray], np.ndarray]
"""What a shortest match of each of some expressions costs, at most: int64, as many."""
Seen = tuple["Growth", int, int]
"""What was known at an earlier place of a text: by which bound, how many tokens are before it, the most that is left there."""


class Growth(Costs):
    """Bounds for one arena. ``base`` is at least :data:`FAR` where there is none.

    The caller holds the arena's lock.
    """

    def __init__(self, arena: Arena, measures: Measures, cost_of: CostOf) -> None:
        super().__init__(arena, measures)
        self.base, self.level = FAR, 0
        self.each = 0  # by how much a token raises what is left, at most
        self._opened = b""
        self._has_terminals = False
        self._of_lexeme: list[int] = []
        self._of_family: dict[Family, int] = {}
        self._of_cursor: dict[int, int] = {}
        self._worst: dict[int, int] = {}  # of what is completed: the most that is left after it, whatever comes
        head = arena.header
        lexemes = arena.tables[layout.LEXEMES][: int(head[layout.END_SYMBOL]) * layout.LEXEME_WORDS]
        lexemes = lexemes.reshape(-1, layout.LEXEME_WORDS)
        late = head[layout.HAS_CLOCKS] or head[layout.HAS_TRACKED]
        exact = bool((lexemes[:, layout.X_KIND] == layout.EXACT).all())
        expander: Any = arena.expand
        n_rules = len(arena.tables[layout.RULE_LISTS]) // 2 if expander is None else expander.n_static_rules
        if not exact or late or n_rules > _MOST_RULES:
            return
        wholes: dict[Family, FamilyRules] | None = {} if expander is None else expander.wholes()
        if wholes is not None:
            self._bound(lexemes, n_rules, wholes, cost_of)

    def _bound(self, lexemes: np.ndarray, n_rules: int, wholes: dict[Family, FamilyRules], cost_of: CostOf) -> None:
        """Have the kernel find the bound. ``lexemes``: the records of those that the rules name."""
        arena = self._arena
        tables: Any = arena.tables
        starts = tables[layout.RULE_LISTS][: 2 * n_rules : 2].copy()
        lefts = tables[layout.DOT_LEFT][starts]
        expander: Any = arena.expand
        symbols, n = tables[layout.DOT_SYMBOL], len(tables[layout.NULLABLE])
        if expander is not None:
            symbols, n = symbols[: expander.n_static_dots], expander.n_nonterminals
        uses = np.full(n_rules, R_RULE)
        nullable, heads = tables[layout.NULLABLE][:n].copy(), np.arange(n)
        if wholes:
            late = [(of.head, R_COST, of.enough) for of in wholes.values()]
            late += [(of.head, R_WAY, [*way, of.head]) for of in wholes.values() for way in of.ways]
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
        least, rest, needed = self._measured(lexemes, symbols, cost_of)
        costs, out = np.empty(n, np.int64), np.empty(BOUND_WORDS, np.int64)
        scratch = np.zeros(scratch_size(n, len(starts), len(symbols)), np.int64)
        bound_rules(symbols, starts, lefts, uses, nullable, heads, least, rest, needed, scratch, costs, out)
        arena.spend(int(out[B_WORK]))
        self._cost, self._of_lexeme = costs.tolist(), least.tolist()
        self._of_family = {family: self._cost[of.head] for family, of in wholes.items()}
        if not out[B_IS_BOUND] or any(cost >= FAR for cost in self._of_family.values()):
            return
        self.base, self.level = int(out[B_BASE]), int(out[B_LEVEL])
        opened = np.flatnonzero(np.unpackbits(out[B_BYTES:].view(np.uint8), bitorder="little"))
        self._opened = bytes(opened.tolist())
        # a token that stands for itself may have no bytes
        self._has_terminals = bool(arena.header[layout.HAS_TERMINALS])
        most = _most_of(arena.vocab, self._opened) if self.level else 0
        self.each = self.level * max(most, int(self._has_terminals))

    def _measured(self, lexemes: np.ndarray, symbols: np.ndarray, cost_of: CostOf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the lexemes and the end of the text: what a match costs, what one that has begun may still need, and, 4 words
        each, a set of bytes of which every match has one.
        """
        n = len(lexemes)
        is_used = np.zeros(n + 1, bool)
        is_used[-2 - symbols[symbols < layout.END_OF_RULE]] = True
        is_used[n] = False
        terminals = lexemes[:, layout.X_N_RANGES] > 0
        is_used[:n] &= ~terminals
        used = np.flatnonzero(is_used)
        found = lexemes[used, layout.X_EXPRESSION]
        records = self.measures.of(found)
        least, rest, needed = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64), np.zeros((n + 1, 4), np.int64)
        least[used], rest[used], needed[used] = cost_of(found), records[:, M_REST], records[:, M_BYTES:]
        least[:n][terminals] = rest[:n][terminals] = 1
        return least, rest, needed.reshape(-1)

    # --- a place in a text ----------------------------------------------------------------------------------------------------

    def steps(self, cursor: int, budget: int, tokens: list[int], seen: Seen | None) -> tuple[int, Seen] | None:
        """For how many tokens a budget is far away, each of which takes one from it, and what was known for that; None if it is
        not, or that is not known.

        ``budget``: tokens without the stop token, the next one included; ``tokens``: the text, at whose end ``cursor`` is.
        """
        room = budget - 1 - self.base - self.each  # after the next token
        if room < 0:
            return None
        slack = -1
        if seen is not None and seen[0] is self and seen[1] <= len(tokens):
            slack = room - seen[2] - self._written(tokens[seen[1] :])
        if slack < (budget >> 2):  # look again where the text stands
            seen = (self, len(tokens), self._left_at(cursor))
            slack = room - seen[2]
        if slack < 0 or seen is None:
            return None
        return slack // (1 + self.each), seen

    def _written(self, tokens: list[int]) -> int:
        """By how much some tokens may have raised what is left."""
        if not self.level or not tokens:
            return 0
        known = self._arena.vocab.tokens
        texts = [known[token] or b"" for token in tokens]
        text = b"".join(texts)
        count = len(text) - len(text.translate(None, self._opened))
        if self._has_terminals:
            count += texts.count(b"")
        return self.level * count

    def _left_at(self, cursor: int) -> int:
        """:meth:`worst`, or :data:`FAR` where that takes too much work."""
        known = self._of_cursor.get(cursor)
        if known is not None:
            return known
        self.budget = Budget(self._arena, self._arena.limits.max_completion_steps)
        self.trim(_MOST_CURSORS)
        try:
            with self._arena.one_budget(GRANT):
                return self.worst(cursor)
        except LimitExceeded:
            return FAR

    def worst(self, cursor: int) -> int:
        """The most tokens that are left from a cursor on the way of any rule that is open there; nothing new is opened."""
        known = self._of_cursor.get(cursor)
        if known is not None:
            return known
        arena = self._arena
        lexemes = arena.tables[layout.LEXEMES]
        out = 0
        for row, state in arena.pairs(cursor):
            value = int(arena.tables[layout.LEXER_STATES][state * lexer_layout.LEXER_WORDS + lexer_layout.L_VALUE])
            for word in arena.sequence(value):
                record = (word >> 32) * layout.LEXEME_WORDS
                left = 1 if lexemes[record + layout.X_N_RANGES] else self.measures.rest(word & layout.LOW_32)
                after = row
                if not lexemes[record + layout.X_IS_SKIP]:
                    after = arena.call(kernels.OP_SCAN, row, int(lexemes[record + layout.X_SYMBOL]))
                out = max(out, min(left + self._worst_row(after), FAR))
        self._of_cursor[cursor] = out
        return out

    def _worst_row(self, row: int) -> int:
        items = int(self._arena.tables[layout.ROWS][row * parser_layout.ROW_WORDS + parser_layout.R_ITEMS])
        edges = self._edges(items)
        self._close([node for _, node in edges])
        return max((max(rest + self._of_end.get(node, FAR), self._worst_end(node)) for rest, node in edges), default=0)

    def _worst_end(self, root: int) -> int:
        """The most that is left after something was completed, on any way on from there."""
        known = self._worst.get(root)
        if known is not None:
            return known
        out, seen, pending = 0, {root}, [root]
        while pending:
            node = pending.pop()
            if not node >> 32:
                continue
            self.budget.take()
            edges = self._edges(self._arena.call(kernels.OP_COMPLETE, node >> 32, node & layout.LOW_32))
            self._close([child for _, child in edges])
            for rest, child in edges:
                out = max(out, rest + self._of_end.get(child, FAR))
                if child in self._worst:
                    out = max(out, self._worst[child])
                elif child not in seen:
                    seen.add(child)
                    pending.append(child)
        self._worst[root] = out
        return out

    # --- costs that are known -------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """The rules are known, and those that are made late say nothing new."""

    def _lexeme(self, lexeme: int) -> int:
        return self._of_lexeme[lexeme]

    def _nonterminal(self, nonterminal: int, left: int) -> int:
        if nonterminal < len(self._cost):
            return self._cost[nonterminal]
        expander: Any = self._arena.expand
        return self._of_family.get(expander.family(nonterminal), FAR)

    def _forget(self) -> None:
        super()._forget()
        self._worst.clear()
        self._of_cursor.clear()


_most_counted: weakref.WeakKeyDictionary[Vocabulary, dict[bytes, int]] = weakref.WeakKeyDictionary()


def _most_of(vocab: Vocabulary, wanted: bytes) -> int:
    """How many of some bytes the token has that has most of them. All grammars of a vocabulary share the answers."""
    known = _most_counted.setdefault(vocab, {})
    found = known.get(wanted)
    if found is None:
        is_wanted = np.zeros(256, np.int64)
        is_wanted[list(wanted)] = 1
        if len(known) >= _MOST_SETS:
            known.clear()
        found = known[wanted] = int(most_bytes(vocab.token_bytes, vocab.token_offsets, is_wanted))
    return found


def byte_costs(arena: Arena, costs: Costs) -> CostOf:
    """What expressions cost in bytes."""

    def cost_of(found: np.ndarray) -> np.ndarray:
        out = np.maximum(costs.measures.of(found)[:, M_LEAST], 1)
        for place in np.flatnonzero(arena.flags(found) & expressions.PURE == 0).tolist():
            out[place] = max(1, costs.of_expression(int(found[place])))
        return out

    return cost_of


def token_costs(arena: Arena, endings: Endings, stops: np.ndarray) -> CostOf:
    """What expressions cost in tokens: those of a shortest match, or one for each of its bytes.

    ``stops``: int64, a count and the tokens that are never taken as text.
    """

    def spelled(expression: int) -> int:
        word = endings.word(expression)
        if word:
            data = np.frombuffer(word, np.uint8)
            found = arena.call(kernels.OP_SPELL, data.ctypes.data, len(data), stops.ctypes.data)
            return found if found < FAR else FAR
        return max(1, endings.costs.of_expression(expression))

    return lambda found: np.array([spelled(expression) for expression in found.tolist()], np.int64)
