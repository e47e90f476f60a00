"""How much a token can add to what is left of a text, at most: where a budget is far away, no ending has to be found.

What is left from a place is bounded by what is left of the rules that are open there. A text that goes on opens further rules
inside them. Follow the graph of nonterminals down, where a rule ``A → γ B δ`` costs the ending of ``δ``. Who leaves a strongly
connected component does not come back, so a longest path bounds the costs between components (:attr:`Growth.base`). Inside a
component a path may go round. Then it passes an edge whose ``γ`` has at least one byte in the text, a *level*, so it costs at
most :attr:`Growth.level` for every such byte that was written; each token of the vocabulary has its number of them. Where
``γ`` may be empty a path never goes round: a nonterminal that holds itself at one place need not be opened twice.

All costs are tokens of an ending, each lexeme spelled by itself. That is exact for lexemes without ``&`` and ``~``. For
others, and for what a lexeme that has begun may need, the bound is read off the expression.

The members of a family, whose rules are made late, are one node, if the family tells what is enough to end any of them
(:meth:`cdplugin.ir.Family.whole`): after whatever a member's rules open, no more than that is left of it.

There is no bound for other families, where tokens are counted, where a lexeme depends on the text of another, and where longest
match may forbid an ending.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.ir import Family
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.regex.measures import FAR
from cdplugin.kernels.store import layout
from cdplugin.queries.costs import Costs, total
from cdplugin.queries.measures import Measures
from cdplugin.vocab.vocabulary import Vocabulary

ALL_BYTES = (1 << 256) - 1
_CODE_WORK = 20  # units of work (Limits.max_step_work) of a symbol of what is enough for a family
_MOST_RULES = 100_000  # beyond which no bound is looked for

Edge = tuple[int, int, int]
"""From a nonterminal, to one, and what comes after that in tokens."""


class TokenCosts(Costs):
    """:class:`Costs` in tokens: lexemes by a spelling each. Upper bounds, where those of expressions are."""

    def __init__(self, arena: Arena, measures: Measures, spelled: Callable[[int], int]) -> None:
        super().__init__(arena, measures)
        self._spelled = spelled
        self._tokens: dict[int, int] = {}
        self._of_cursor: dict[int, int] = {}
        self._worst: dict[int, int] = {}  # of what is completed: the most that is left after it, whatever comes
        self.of_family: dict[Family, int] = {}  # what is enough to end any of its members
        self.opened: dict[Family, list[tuple[int, int]]] = {}

    def _lexeme(self, lexeme: int) -> int:
        if lexeme == self._arena.header[layout.END_SYMBOL]:
            return 0
        known = self._tokens.get(lexeme)
        if known is None:
            record = lexeme * layout.LEXEME_WORDS
            lexemes = self._arena.tables[layout.LEXEMES]
            token = bool(lexemes[record + layout.X_N_RANGES])
            known = self._tokens[lexeme] = 1 if token else self._spelled(int(lexemes[record + layout.X_EXPRESSION]))
        return known

    def load_families(self) -> bool:
        """Take in what is enough to end members of families; False where that is not known of all."""
        self._load()
        expander: Any = self._arena.expand
        wholes = expander.wholes()
        if wholes is None:
            return False
        rules = []
        for symbol in list(expander.numbers.values()):
            family = expander.family(symbol)
            if family in wholes:
                enough = wholes[family][0]
                rules.append((symbol, enough, total(self._lexeme(-2 - code) for code in enough if code < 0)))
        self._arena.spend(_CODE_WORK * sum(len(right) for _, right, _ in rules))
        self._add(rules, [])
        for family, (enough, opened) in wholes.items():
            costs = (self._cost[code] if code >= 0 else self._lexeme(-2 - code) for code in enough)
            self.of_family[family] = total(costs)
            self.opened[family] = opened
        return all(cost < FAR for cost in self.of_family.values())

    def _nonterminal(self, nonterminal: int, left: int) -> int:
        """A member of a family that is known by :meth:`load_families` needs no rules of its own."""
        if self.of_family:
            expander: Any = self._arena.expand
            enough = self.of_family.get(expander.family(nonterminal), FAR)
            if enough < FAR:
                self._grow(nonterminal + 1)
                return min(self._cost[nonterminal], enough)
        return super()._nonterminal(nonterminal, left)

    def worst(self, cursor: int, residual: Callable[[int], int]) -> int:
        """The most tokens that are left from a cursor on the way of any rule that is open there; nothing new is opened."""
        known = self._of_cursor.get(cursor)
        if known is not None:
            return known
        self._load()
        arena = self._arena
        lexemes = arena.tables[layout.LEXEMES]
        out = 0
        for row, state in arena.pairs(cursor):
            value = int(arena.tables[layout.LEXER_STATES][state * lexer_layout.LEXER_WORDS + lexer_layout.L_VALUE])
            for word in arena.sequence(value):
                record = (word >> 32) * layout.LEXEME_WORDS
                left = 1 if lexemes[record + layout.X_N_RANGES] else residual(word & layout.LOW_32)
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

    def _forget(self) -> None:
        super()._forget()
        self._worst.clear()
        self._of_cursor.clear()


class Growth:
    """Bounds for one arena whose rules are all known. ``base`` is at least :data:`FAR` where there is none."""

    def __init__(self, arena: Arena, costs: TokenCosts) -> None:
        self._arena = arena
        self._costs = costs
        self.base, self.level = FAR, 0
        self.levels = np.zeros(arena.vocab.size, np.int64)
        head, lexemes = arena.header, arena.tables[layout.LEXEMES]
        self._used = range(int(head[layout.END_SYMBOL]))
        late = head[layout.HAS_CLOCKS] or head[layout.HAS_TRACKED]
        exact = all(int(lexemes[x * layout.LEXEME_WORDS + layout.X_KIND]) == layout.EXACT for x in self._used)
        if exact and not late and len(arena.tables[layout.RULE_LISTS]) // 2 <= _MOST_RULES:
            self._bound()
        self.most_levels = int(self.levels.max(initial=0))

    @classmethod
    def none(cls, arena: Arena) -> Growth:
        """No bound."""
        out = object.__new__(cls)
        out._arena, out.base, out.level, out.most_levels = arena, FAR, 0, 0
        return out

    def residual(self, root: int) -> int:
        """Bytes that a match of an expression may still need, wherever in it a text stands."""
        return self._costs.measures.rest(root)

    def _bound(self) -> None:
        costs = self._costs
        if self._arena.expand is None:
            costs._load()
        elif not costs.load_families():
            return
        edges, between = self._rules()
        n = len(costs._cost)
        component = _components(n, [(a, b) for a, b, _ in edges])
        inside: dict[int, list[int]] = {}
        for number, (a, b, _) in enumerate(edges):
            if component[a] == component[b]:
                inside.setdefault(component[a], []).append(number)
        own: dict[int, int] = {}
        openers = 0
        for which, numbers in inside.items():
            found = _round_trip(n, [edges[i] for i in numbers], [between[i] for i in numbers])
            if found is None:
                return
            own[which], level, opened = found
            self.level = max(self.level, level)
            openers |= opened
        down = [(component[a], component[b], cost) for a, b, cost in edges if component[a] != component[b]]
        longest = _longest_path(down, own)
        table = self._arena.tables[layout.LEXEMES]  # it may have grown to where the last record is not whole
        lexemes = table[: len(table) // layout.LEXEME_WORDS * layout.LEXEME_WORDS].reshape(-1, layout.LEXEME_WORDS)
        matched = [x for x in self._used if not lexemes[x, layout.X_N_RANGES]]
        inner = max((self.residual(int(lexemes[x, layout.X_EXPRESSION])) for x in matched), default=0)
        self.base = min(longest + inner, FAR)
        self.levels = _count_bytes(self._arena, openers)

    def _rules(self) -> tuple[list[Edge], list[int | None]]:
        """The edges of the nonterminals' graph; and for each the bytes of which its text between has one: None where that may
        be empty.
        """
        costs, nullable = self._costs, self._arena.tables[layout.NULLABLE]
        corner: dict[tuple[int, int], int] = {}
        edges: list[Edge] = []
        between: list[int | None] = []
        expander: Any = self._arena.expand
        of_member: dict[int, int] = {}  # a family's nonterminal, its first one -> that
        first_of: dict[Family, int] = {}
        for symbol in range(len(costs._cost) if costs.of_family else 0):
            family = expander.family(symbol)
            if family is not None:
                of_member[symbol] = first_of.setdefault(family, symbol)
        for family, number in first_of.items():
            for before, symbol in set(costs.opened[family]):
                edges.append((number, of_member.get(symbol, symbol), costs.of_family[family]))
                between.append(ALL_BYTES if before >= 0 else self.mandatory_of_lexeme(-2 - before))
        for left, right in costs._rules:
            if left in of_member:
                continue
            rest = [0]
            for symbol in reversed(right):
                rest.append(min(rest[-1] + (costs._cost[symbol] if symbol >= 0 else costs._lexeme(-2 - symbol)), FAR))
            rest.reverse()
            if rest[0] >= FAR:
                continue  # its text never ends
            seen: int | None = None
            for at, part in enumerate(right):
                symbol = of_member.get(part, part)
                if symbol < 0:
                    seen = _fewer(seen, self.mandatory_of_lexeme(-2 - symbol))
                    continue
                if seen is not None:
                    edges.append((left, symbol, rest[at + 1]))
                    between.append(seen)
                elif symbol != left:
                    corner[left, symbol] = min(rest[at + 1], corner.get((left, symbol), FAR))
                if not nullable[symbol]:
                    seen = _fewer(seen, ALL_BYTES)
        for (left, symbol), cost in corner.items():
            edges.append((left, symbol, cost))
            between.append(None)
        return edges, between

    def mandatory_of_lexeme(self, lexeme: int) -> int:
        """A set of bytes of which every match of a lexeme has one."""
        record = lexeme * layout.LEXEME_WORDS
        lexemes = self._arena.tables[layout.LEXEMES]
        if lexeme == self._arena.header[layout.END_SYMBOL] or lexemes[record + layout.X_N_RANGES]:
            return ALL_BYTES
        return self._costs.measures.needed_bytes(int(lexemes[record + layout.X_EXPRESSION])) or ALL_BYTES


def _fewer(one: int | None, two: int) -> int:
    """The smaller of two sets of bytes."""
    return two if one is None or two.bit_count() < one.bit_count() else one


_counted: weakref.WeakKeyDictionary[Vocabulary, dict[int, np.ndarray]] = weakref.WeakKeyDictionary()
_MOST_COUNTED = 8


def _count_bytes(arena: Arena, wanted: int) -> np.ndarray:
    """How many of a token's bytes are in a set: int64, one for each token, not to be changed. The last sets are remembered."""
    vocab = arena.vocab
    known = _counted.setdefault(vocab, {})
    found = known.get(wanted)
    if found is None:
        is_wanted = np.array([wanted >> byte & 1 for byte in range(256)], np.int64)
        total = np.concatenate([[0], np.cumsum(is_wanted[vocab.token_bytes])])
        found = np.asarray(total[vocab.token_offsets[1:]] - total[vocab.token_offsets[:-1]])
        if len(known) >= _MOST_COUNTED:
            known.clear()
        known[wanted] = found
    return found


def _round_trip(n: int, edges: list[Edge], between: list[int | None]) -> tuple[int, int, int] | None:
    """For the edges inside a strongly connected component: what a way may cost that goes round nowhere, what another round
    costs, and the bytes of which each round has one. None if a round may have no bytes.
    """
    counted = [seen is not None and cost > 0 for (_, _, cost), seen in zip(edges, between, strict=True)]
    for _ in range(2):
        free = [edge for edge, is_counted in zip(edges, counted, strict=True) if not is_counted]
        component = _components(n, [(a, b) for a, b, _ in free])
        bad = {component[a] for a, b, cost in free if cost and component[a] == component[b]}
        if not bad:
            outside = [(component[a], component[b], cost) for a, b, cost in free if component[a] != component[b]]
            once = _longest_path(outside, {})
            opened = 0
            most = 0
            for (_, _, cost), seen, is_counted in zip(edges, between, counted, strict=True):
                if is_counted:
                    opened |= seen or 0
                    most = max(most, cost)
            return once, most + once if any(counted) else 0, opened
        for i, ((a, b, _), seen) in enumerate(zip(edges, between, strict=True)):
            if seen is not None and component[a] == component[b] and component[a] in bad:
                counted[i] = True
    return None


def _components(n: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """The strongly connected component of each of ``n`` nodes (Tarjan, 1972), without recursion."""
    after: dict[int, list[int]] = {}
    for a, b in edges:
        after.setdefault(a, []).append(b)
    component = list(range(n))
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in after:
        if root in index:
            continue
        work: list[tuple[int, Any]] = [(root, iter(after[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, children = work[-1]
            child = next(children, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component[member] = node
                        if member == node:
                            break
            elif child not in index:
                index[child] = low[child] = len(index)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(after.get(child, ()))))
            elif child in on_stack:
                low[node] = min(low[node], index[child])
    return component


def _longest_path(edges: list[Edge], own: dict[int, int]) -> int:
    """The dearest way in a graph without cycles, whose nodes cost ``own``."""
    after: dict[int, list[tuple[int, int]]] = {}
    missing: dict[int, int] = {}
    for a, b, cost in edges:
        after.setdefault(a, []).append((b, cost))
        missing[b] = missing.get(b, 0) + 1
        missing.setdefault(a, 0)
    best = {node: own.get(node, 0) for node in missing}
    out = max(own.values(), default=0)
    ready = [node for node, n in missing.items() if not n]
    while ready:
        node = ready.pop()
        out = max(out, best[node])
        for child, cost in after.get(node, ()):
            best[child] = max(best[child], best[node] + cost + own.get(child, 0))
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    return min(out, FAR)


def spelled_by(arena: Arena, word_of: Callable[[int], bytes | None], length_of: Callable[[int], int], stops: np.ndarray) -> Any:
    """A function: the tokens of a shortest match of an expression."""

    def spelled(expression: int) -> int:
        word = word_of(expression)
        if word:
            data = np.frombuffer(word, np.uint8)
            found = arena.call(kernels.OP_SPELL, data.ctypes.data, len(data), stops.ctypes.data)
            return int(found) if found < FAR else FAR
        return max(1, length_of(expression))

    return spelled
