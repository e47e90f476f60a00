"""Costs: estimates of the bytes to the end, for nonterminals, rows and cursors.

They guide the search of :mod:`cdplugin.queries.completion`, whose endings are legal whatever the estimates say. They are exact
for lexemes without ``&`` and ``~`` and rules that are all known. If a family's rules are made late, they follow from the rules
made so far, and rules are made until something ends.

Two parts, neither recursive. Nonterminals: Knuth's generalisation of Dijkstra's algorithm (Information Processing Letters 6(1),
1977), updated as rules come. Rows: the shortest path from each kernel item, over what completing its rule gives, to the end of
the text.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.engine.blocks import address_of
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.regex.measures import FAR, LONG
from cdplugin.kernels.store import layout
from cdplugin.queries.late_members import LateMembers
from cdplugin.queries.measures import Budget, Measures, ShortestMatches, total

_PLACE_BYTES, _RULE_BYTES = 150, 450  # measured: an entry of a table; a rule or a nonterminal with its lists

# Units of work (Limits.max_step_work), measured, for things done in Python: looking at what follows a nonterminal; at an item
# there; at a lexeme of a lexer state; adding a rule; reading an item's place; and the rest of a rule that is not known to end.
_CLOSING_WORK, _ITEM_WORK, _LEXEME_WORK, _RULE_WORK, _PLACE_WORK, _OPEN_WORK = 1_500, 200, 80, 400, 40, 500
_ENDLESS = 1 << 61  # cost of a rule with a lexeme that nothing matches: more than any sum of others
_SLACK = 8  # bytes by which texts that have to differ are taken to be longer than the shortest
_FEW_RULES = 50  # up to so many rules are added one by one
_MOST_SWEEPS = 64  # sweeps of OP_SETTLE over all rules


class Costs:
    """Estimates for one arena, in bytes, each computed once. The caller holds the arena's lock.

    ``generous``: assume that texts which have to differ are longer than the shortest (which is soon used up), and that the
    parts of an ``&`` are matched one after the other; then a search continues where it has begun. ``n_lowered``: how often new
    rules have made something cheaper.
    """

    def __init__(self, arena: Arena, measures: Measures, *, generous: bool = False) -> None:
        self._arena = arena
        self._expander = arena.expand
        self._slack = _SLACK if generous else 0
        self.measures = measures
        self.budget = Budget(arena)
        self.matches = ShortestMatches(arena, measures, self.budget, summed=generous)
        self._of_pair: dict[int, int] = {}
        self._of_state: dict[int, tuple[list[tuple[int, int]], bool]] = {}
        self._of_row: dict[int, int] = {}
        self._of_end: dict[int, int] = {}  # nonterminal << 32 | origin: what is left after completing the one at the other
        self._of_rest: dict[int, int] = {}
        self._cost: list[int] = []  # by nonterminal
        self._rules: list[tuple[int, list[int]]] = []  # (left, right)
        self._missing: list[int] = []  # by rule: how many of its symbols are not known to end
        self._sums: list[int] = []  # by rule: bytes of its lexemes, and of its symbols that are known to end
        self._uses: list[list[int]] = []  # by nonterminal: the rules that mention it, once for each mention
        self._rules_of: list[list[int]] = []
        self._n_entries = 0
        self._unlisted = np.zeros(0, np.int64)  # first dots of rules that ``_cost`` includes, and the lists above do not
        self._stale = False  # whether some cost has become lower after others were computed from it
        self._demand = True
        self.n_lowered = 0
        self.is_bound = False  # whether the last answer is only a lower bound, because of some & or ~
        self.may_be_less = False  # whether rules that are not made yet may make the last answer less
        self._bounds: set[int] = set()  # the pairs (row, lexer state) with such answers
        self._unsure = False  # whether something was computed from a nonterminal that is not known to end

    # --- cursors --------------------------------------------------------------------------------------------------------------

    def of_cursor(self, cursor: int, demand: bool = True) -> int:
        """Return the bytes from a cursor to the end of the text; 0 if the text may end.

        ``demand``: make late rules if nothing known ends; otherwise the result is :data:`FAR`.
        """
        self._demand = demand
        found = self._of_cursor_once(cursor)
        return self._of_cursor_once(cursor) if found >= FAR and demand else found  # with the rules that came meanwhile

    def _of_cursor_once(self, cursor: int) -> int:
        """Do :meth:`of_cursor` with the rules there are at the beginning, and those that it makes where it needs them."""
        self.is_bound = self.may_be_less = False
        self._load()
        if self._stale:
            self.n_lowered += 1
            self._forget()
            self._stale = self._unsure = False
        if cursor >> 32:
            return 0 if cursor & parser_layout.ACCEPT_BIT else self._pair((cursor >> 32) - 1, cursor & lexer_layout.STATE_MASK)
        best = FAR
        unknown: list[tuple[int, int]] = []
        for pair in self._arena.sequence(cursor):
            if pair == parser_layout.ACCEPTS_HERE:
                best = 0
                continue
            row, state = pair >> 32, self._arena.lexer_state(pair & layout.LOW_32)
            found = self._pair(row, state)
            best = min(best, found)
            if found >= FAR and not self._demand:
                unknown.append((row, state))
        self.may_be_less = best < FAR and any(self._pair_at_least(row, state) < best for row, state in unknown)
        return best

    def at_least(self, cursor: int) -> int:
        """Return a lower bound of :meth:`of_cursor`, by what is known of the rows after the lexemes of a cursor. Makes no
        rules.
        """
        return min((self._pair_at_least(row, state) for row, state in self._arena.pairs(cursor)), default=0)

    def _pair_at_least(self, row: int, state: int) -> int:
        if state == self._arena.of_row(row, parser_layout.R_START):
            return self._row_at_least(row)
        least = FAR
        for bytes_left, record in self._ways(state)[0]:
            if bytes_left >= least:
                break
            lexemes = self._arena.tables[layout.LEXEMES]
            is_skip, symbol = bool(lexemes[record + layout.X_IS_SKIP]), int(lexemes[record + layout.X_SYMBOL])
            del lexemes
            after = row if is_skip else self._arena.call_known(kernels.OP_SCAN, row, symbol)
            least = min(least, total((bytes_left, 0 if after is None else self._row_at_least(after))))
        return least

    def _row_at_least(self, row: int) -> int:
        """Return a lower bound of :meth:`of_row`. Makes no rules."""
        places = self._places(self._arena.of_row(row, parser_layout.R_ITEMS))
        return min((total((self._at_least(dot), self._of_end.get(node, 0))) for dot, node in places), default=0)

    @property
    def nbytes(self) -> int:
        """Bytes of what was computed."""
        places = 2 * len(self._of_state) + len(self._of_pair) + len(self._of_row) + len(self._of_end) + len(self._of_rest)
        of_rules = _PLACE_BYTES * places + _RULE_BYTES * (len(self._rules) + len(self._uses))
        return of_rules + self._unlisted.nbytes + self.matches.nbytes + self.measures.nbytes

    def trim(self, most: int) -> None:
        """Forget what was computed if it concerns more than ``most`` places."""
        if len(self._of_pair) + len(self._of_row) + len(self._of_end) > most:
            self._forget()
        if len(self._of_state) > most:
            self._of_state.clear()
        self.matches.trim(most)

    def _forget(self) -> None:
        for memo in (self._of_rest, self._of_end, self._of_row, self._of_pair):
            memo.clear()
        self._bounds.clear()

    def look_for(self, cursor: int) -> None:
        """Look for the shortest matches of the lexemes that are open at a cursor."""
        for _, state in self._arena.pairs(cursor):
            for word in self._arena.open_words(state):
                self.matches.of(word & layout.LOW_32)

    def _pair(self, row: int, state: int) -> int:
        key = row << 32 | state
        known = self._of_pair.get(key)
        if known is None:
            known = FAR
            ways, is_bound = self._ways(state)
            if is_bound:
                self._bounds.add(key)
            for bytes_left, record in ways:  # ascending: of many thousands, most are longer than the first one that ends
                if bytes_left >= known:
                    break
                after = row
                lexemes = self._arena.tables[layout.LEXEMES]  # read anew: rules made meanwhile may have grown the table
                if not lexemes[record + layout.X_IS_SKIP]:
                    symbol = int(lexemes[record + layout.X_SYMBOL])
                    del lexemes
                    scan = self._arena.call if self._demand else self._arena.call_known
                    found = scan(kernels.OP_SCAN, row, symbol)
                    if found is None:
                        self._unsure = True
                        return FAR
                    after = found
                known = min(known, total((bytes_left, self.of_row(after))))
            if known < FAR:
                self._of_pair[key] = known
        self.is_bound = self.is_bound or key in self._bounds
        return known

    def _ways(self, state: int) -> tuple[list[tuple[int, int]], bool]:
        """Return the lexemes of a lexer state, the shortest first, as (bytes left, record); and whether some bytes are only a
        lower bound.
        """
        found = self._of_state.get(state)
        if found is None:
            lexemes = self._arena.tables[layout.LEXEMES]
            ways = []
            some_bound = False
            is_known = True  # and stays so
            words = self._arena.open_words(state)
            self._arena.spend(_LEXEME_WORK * len(words))
            for word in words:
                record = (word >> 32) * layout.LEXEME_WORDS
                bytes_left, is_bound = (1, False) if lexemes[record + layout.X_N_RANGES] else self._match(word)
                some_bound = some_bound or is_bound
                is_known = is_known and self._arena.is_pure(word & layout.LOW_32)
                ways.append((bytes_left, record))
            found = sorted(ways), some_bound
            if is_known:
                self._of_state[state] = found
        return found

    def _match(self, word: int) -> tuple[int, bool]:
        """Return the bytes that an open lexeme (``lexeme << 32 | expression``) still needs, and whether they are only a lower
        bound.
        """
        expression = word & layout.LOW_32
        return self.matches.bound(expression), self.matches.is_only_bound(expression)

    # --- lexemes --------------------------------------------------------------------------------------------------------------

    def _lexeme(self, lexeme: int) -> int:
        """Return the length of a lexeme's shortest match that is not empty; 0 for the end of the text, 1 for a token terminal.

        A lexeme with a fence counts one more, as it mostly needs a space beside it; otherwise a search would look at many paths
        that are too short. Of names that may come once each, the longest counts: the short ones are soon used up.
        """
        if lexeme == self._arena.header[layout.END_SYMBOL]:
            return 0
        record = lexeme * layout.LEXEME_WORDS
        lexemes = self._arena.tables[layout.LEXEMES]
        if lexemes[record + layout.X_N_RANGES]:
            return 1
        expression = int(lexemes[record + layout.X_EXPRESSION])
        least = max(1, self._longest(expression) if lexemes[record + layout.X_ROLE] else self.matches.of(expression))
        return least + 1 if least > 1 and lexemes[record + layout.X_FENCE] else least

    def _longest(self, expression: int) -> int:
        """Return the length of the longest of some literals; for other expressions, of the shortest match, plus the slack."""
        if self._arena.kind(expression) != layout.K_LITERALS:
            return total((self.matches.of(expression), self._slack))
        _, starts, ends = self._arena.literals(expression)
        self._arena.spend(len(starts))
        return int((ends - starts).max())

    # --- nonterminals ---------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        """Add the rules that came since the last time, and lower the costs that they make cheaper."""
        tables = self._arena.tables
        n = len(tables[layout.RULE_LISTS]) // 2 if self._expander is None else self._expander.n_rules
        if n == self._n_entries:
            return
        symbols, lefts = tables[layout.DOT_SYMBOL], tables[layout.DOT_LEFT]
        fresh: list[tuple[int, int]] = []
        self._arena.spend(_RULE_WORK * (n - self._n_entries))
        dots = tables[layout.RULE_LISTS][2 * self._n_entries : 2 * n : 2]
        n_static = n if self._expander is None else self._expander.n_static_rules
        if n_static > _FEW_RULES and self._n_entries == 0 and self._settle(dots[:n_static]):
            self._unlisted, self._n_entries = dots[:n_static].copy(), n_static
            dots = dots[n_static:]
            if not len(dots):
                return
        self._list_rules()
        if len(dots) > _FEW_RULES:
            fresh, dots = self._take_in(dots), dots[:0]
            heapify(fresh)
        rules: list[tuple[int, list[int], int]] = []
        for dot in dots.tolist():
            left, right = int(lefts[dot]), symbols[dot : _end_of(symbols, dot)].tolist()
            right = [self._representative(symbol, left) for symbol in right]
            rules.append((left, right, total(self._lexeme(-2 - symbol) for symbol in right if symbol < 0)))
        self._n_entries = n  # nothing raises from here on: rules are added completely
        self._add(rules, fresh)

    def _add(self, rules: list[tuple[int, list[int], int]], fresh: list[tuple[int, int]]) -> None:
        """Add rules ``(left, right, cost of its lexemes)``; lower the costs that they and ``fresh`` (cost, left side) make
        cheaper.
        """
        for left, right, fixed in rules:
            self._grow(max([left, *right]) + 1)
            self._grow_lists()
            number = len(self._rules)
            self._rules.append((left, right))
            self._rules_of[left].append(number)
            known = [self._cost[symbol] for symbol in right if symbol >= 0]
            self._missing.append(sum(cost >= FAR for cost in known))
            self._sums.append((_ENDLESS if fixed >= FAR else fixed) + sum(cost for cost in known if cost < FAR))
            for symbol in right:
                if symbol >= 0:
                    self._uses[symbol].append(number)
            if not self._missing[number] and self._sums[number] < _ENDLESS:
                heappush(fresh, (min(self._sums[number], LONG), left))
        self._lower(fresh)

    def _settle(self, dots: np.ndarray) -> bool:
        """Compute the costs of all nonterminals by the first rules, which begin at ``dots``; return whether these are the
        least.
        """
        symbols, lefts = self._arena.tables[layout.DOT_SYMBOL], self._arena.tables[layout.DOT_LEFT][dots]
        codes = symbols[: _end_of(symbols, int(dots.max()))]
        lexemes = np.unique(codes[codes < layout.END_OF_RULE])
        of_lexemes = np.zeros(max(-1 - int(lexemes.min(initial=-1)), 1), np.int64)
        of_lexemes[-2 - lexemes] = [self._lexeme(-2 - symbol) for symbol in lexemes.tolist()]
        self._grow(1 + int(max(lefts.max(), codes.max())))
        costs = np.array(self._cost, np.int64)
        dots = np.ascontiguousarray(dots)
        question = [len(dots), address_of(dots), len(of_lexemes), address_of(of_lexemes), len(costs), address_of(costs)]
        words = np.array([*question, _MOST_SWEEPS], np.int64)
        is_least = self._arena.call(kernels.OP_SETTLE, address_of(words))
        self._cost = costs.tolist()
        return is_least == 1

    def _list_rules(self) -> None:
        """List the rules that were settled, since new rules may make them cheaper, or members without rules occur in them."""
        if len(self._unlisted):
            dots = self._unlisted
            self._take_in(dots)
            self._unlisted = dots[:0]

    def _take_in(self, dots: np.ndarray) -> list[tuple[int, int]]:
        """List the rules that begin at ``dots``; return the costs and left sides of those that are known to end."""
        tables = self._arena.tables
        symbols = tables[layout.DOT_SYMBOL]
        ends = np.flatnonzero(symbols[: _end_of(symbols, int(dots.max())) + 1] == layout.END_OF_RULE)
        lengths = ends[np.searchsorted(ends, dots)] - dots
        rule_of = np.repeat(np.arange(len(dots)), lengths)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        flat = symbols[np.repeat(dots - offsets[:-1], lengths) + np.arange(offsets[-1])]
        lefts = tables[layout.DOT_LEFT][dots]
        for at in np.flatnonzero(flat >= self._expander.n_static_nonterminals).tolist() if self._expander is not None else ():
            flat[at] = self._representative(int(flat[at]), int(lefts[rule_of[at]]))
        is_lexeme = flat < 0
        lexemes, which = np.unique(flat[is_lexeme], return_inverse=True)
        lexeme_costs = np.array([self._lexeme(-2 - symbol) for symbol in lexemes.tolist()], np.int64)
        first = len(self._rules)  # nothing raises from here on: rules are added completely
        self._grow(int(max(lefts.max(initial=-1), flat.max(initial=-1))) + 1)
        self._grow_lists()
        right, cuts = flat.tolist(), offsets.tolist()
        self._rules += zip(lefts.tolist(), [right[a:b] for a, b in pairwise(cuts)], strict=True)
        for number, left in enumerate(lefts.tolist(), first):
            self._rules_of[left].append(number)
        sums = np.zeros(len(dots), np.int64)
        np.add.at(sums, rule_of[is_lexeme], np.where(lexeme_costs >= FAR, _ENDLESS, lexeme_costs)[which.reshape(-1)])
        sums = np.minimum(sums, np.where(sums < _ENDLESS, LONG, _ENDLESS))
        nonterminals, rules = flat[~is_lexeme], rule_of[~is_lexeme]
        costs = np.array(self._cost, np.int64)[nonterminals]
        missing = np.bincount(rules[costs >= FAR], minlength=len(dots))
        self._missing += missing.tolist()
        for symbol, rule in zip(nonterminals.tolist(), (rules + first).tolist(), strict=True):
            self._uses[symbol].append(rule)
        np.add.at(sums, rules, np.where(costs < FAR, costs, 0))
        self._sums += sums.tolist()
        fresh = (missing == 0) & (sums < _ENDLESS)
        return list(zip(np.minimum(sums, LONG)[fresh].tolist(), lefts[fresh].tolist(), strict=True))

    def _representative(self, symbol: int, left: int) -> int:
        """Return the symbol whose cost counts for ``symbol`` in a rule of ``left``.

        For a family member that stands for any number of members, it is one whose texts are about as long
        (:meth:`cdplugin.ir.Family.representative`).
        """
        if self._expander is None or symbol < self._expander.n_static_nonterminals:
            return symbol
        self._arena.spend(_ITEM_WORK)
        return int(self._expander.representative(symbol, left))

    def _grow(self, n: int) -> None:
        """Include nonterminals up to ``n``; nullable ones cost nothing."""
        first = len(self._cost)
        if n > first:
            self._cost += np.where(self._arena.tables[layout.NULLABLE][first:n], 0, FAR).tolist()

    def _grow_lists(self) -> None:
        """Have lists of rules for all nonterminals that are included."""
        for lists in (self._uses, self._rules_of):
            lists += [[] for _ in range(len(self._cost) - len(lists))]

    def _lower(self, pending: list[tuple[int, int]]) -> None:
        """Lower nonterminals' costs, the cheapest first, and propagate."""
        cost, missing, sums, rules = self._cost, self._missing, self._sums, self._rules
        stale = False
        while pending:
            found, left = heappop(pending)
            if found >= cost[left]:
                continue
            first_time = cost[left] >= FAR
            stale = stale or not first_time or self._unsure
            change = found if first_time else found - cost[left]
            cost[left] = found
            for rule in self._uses[left]:
                sums[rule] += change
                missing[rule] -= first_time
                if not missing[rule] and sums[rule] < _ENDLESS:
                    found, user = min(sums[rule], LONG), rules[rule][0]
                    if found < cost[user]:
                        heappush(pending, (found, user))
        self._stale = self._stale or stale

    def _nonterminal(self, nonterminal: int, left: int) -> int:
        """Return the cost of a nonterminal in a rule of ``left``.

        Makes late rules, those near an end first, until some derivation ends
        (:class:`~cdplugin.queries.late_members.LateMembers`).
        """
        nonterminal = self._representative(nonterminal, left)
        self._grow(nonterminal + 1)
        if self._cost[nonterminal] < FAR or not self._demand:
            self._unsure = self._unsure or self._cost[nonterminal] >= FAR
            return self._cost[nonterminal]
        self._list_rules()
        members = LateMembers(self._expander, nonterminal)
        while self._cost[nonterminal] >= FAR:
            while members.pending:
                self._look_at(members.pending.pop(), members)
            if not members.waiting:
                return FAR
            self._make_rules_of_next(members, nonterminal)
        return self._cost[nonterminal]

    def _look_at(self, symbol: int, members: LateMembers) -> None:
        """Queue the parts of a nonterminal's rules that do not end yet; if it has no rules, let it wait for them."""
        self._grow(symbol + 1)
        self._grow_lists()
        if self._arena.tables[layout.RULE_HEADS][symbol] == layout.NOT_EXPANDED:
            members.put_off(symbol)
            return
        for rule in self._rules_of[symbol] if self._cost[symbol] >= FAR else ():
            members.want([part for part in self._rules[rule][1] if part >= 0 and self._cost[part] >= FAR], symbol)

    def _make_rules_of_next(self, members: LateMembers, nonterminal: int) -> None:
        """Make the rules of the first waiting member and queue it, unless it has to wait longer or nothing wants it
        any more.
        """
        late, known, age, member = heappop(members.waiting)
        if self._arena.tables[layout.RULE_HEADS][member] == layout.NOT_EXPANDED:
            if known < members.distance(member):
                self._arena.spend(_ITEM_WORK)
                heappush(members.waiting, (late, members.distance(member), age, member))
                return
            if member != nonterminal and all(self._cost[symbol] < FAR for symbol in members.wanted_by[member]):
                members.forget(member)  # until something wants it again
                return
            self.budget.take()
            members.make(member)
            self._load()
        members.is_late[member] = False
        members.pending.append(member)

    def _rest(self, dot: int) -> int:
        """Return the cost of the symbols from a dot to the end of its rule."""
        rest = self._of_rest
        known = rest.get(dot)
        if known is None:
            symbols, left = self._arena.tables[layout.DOT_SYMBOL], int(self._arena.tables[layout.DOT_LEFT][dot])
            at = dot
            while at not in rest and symbols[at] != layout.END_OF_RULE:
                at += 1
            known = rest.get(at, 0)
            codes = symbols[dot:at].tolist()
            del symbols  # making rules may replace the table
            while at > dot:  # backwards, so that each dot on the way is memoised
                at -= 1
                symbol = codes[at - dot]
                known = total((known, self._nonterminal(symbol, left) if symbol >= 0 else self._lexeme(-2 - symbol)))
                if known < FAR:
                    rest[at] = known
            if known >= FAR:  # not memoised: something may end soon
                self._arena.spend(_OPEN_WORK)
        return known

    # --- rows -----------------------------------------------------------------------------------------------------------------

    def of_row(self, row: int) -> int:
        """Return the bytes from the boundary before a row to the end of the text."""
        known = self._of_row.get(row)
        if known is None:
            items = self._arena.of_row(row, parser_layout.R_ITEMS)
            known = self._least_of(items) if self._demand and self._expander is not None else self._of_all(items)
            if known < FAR:
                self._of_row[row] = known
        return known

    def _of_all(self, items: int) -> int:
        """Return the least cost of kernel items (a ``K_ITEMS`` value) to the end of the text."""
        edges = self._edges(items)
        self._close([node for _, node in edges])
        return min((total((rest, self._of_end.get(node, FAR))) for rest, node in edges), default=FAR)

    def _least_of(self, items: int) -> int:
        """Do :meth:`_of_all` where it makes rules: only for items that may cost the least."""
        found = FAR
        for least, dot, node in sorted((self._at_least(dot), dot, node) for dot, node in self._places(items)):
            if least >= found:
                break
            if total((least, self._of_end.get(node, 0))) >= found:
                continue
            rest = self._rest(dot)
            if rest < found:
                self._close([node])
                found = min(found, total((rest, self._of_end.get(node, FAR))))
        return found

    def _edges(self, items: int) -> list[tuple[int, int]]:
        """Return, for each kernel item (of a ``K_ITEMS`` value), the cost of the rest of its rule, and what is
        completed then.
        """
        return [(self._rest(dot), node) for dot, node in self._places(items)]

    def _places(self, items: int) -> list[tuple[int, int]]:
        """Return, for each kernel item (of a ``K_ITEMS`` value), its dot, and what is completed at the end of its rule."""
        lefts = self._arena.tables[layout.DOT_LEFT]
        places = [(item >> 32, item & layout.LOW_32) for item in self._arena.sequence(items)]
        self._arena.spend(_PLACE_WORK * len(places))
        return [(dot, int(lefts[dot]) << 32 | origin) for dot, origin in places if dot != parser_layout.SKIP_ITEM_DOT]

    def _at_least(self, dot: int) -> int:
        """Return a lower bound of :meth:`_rest`. Makes no rules: for unknown symbols, it takes what their families say."""
        known = self._of_rest.get(dot)
        if known is not None:
            return known
        symbols = self._arena.tables[layout.DOT_SYMBOL]
        least = 0
        for symbol in symbols[dot : _end_of(symbols, dot)].tolist():
            if symbol < 0:
                least += self._lexeme(-2 - symbol)
            elif symbol < len(self._cost) and self._cost[symbol] < FAR:
                least += self._cost[symbol]
            else:
                least += 0 if self._expander is None else self._expander.least_bytes(symbol)
        return min(least, FAR)

    def _close(self, roots: list[int]) -> None:
        """Compute the cost after completing each of ``roots`` (nonterminal, origin).

        Everything that they lead to is visited once; then the shortest paths are found from the end of the text backwards
        (Dijkstra, 1959).
        """
        ends = self._of_end
        fresh: dict[int, list[tuple[int, int]]] = {}
        pending = [node for node in roots if node not in ends]
        while pending:
            node = pending.pop()
            if node in fresh:
                continue
            self.budget.take(work=_CLOSING_WORK)
            edges = []
            if node >> 32:
                edges = self._edges(self._arena.call(kernels.OP_COMPLETE, node >> 32, node & layout.LOW_32))
                self._arena.spend(_ITEM_WORK * len(edges))
                pending += [child for _, child in edges if child not in ends and child not in fresh]
            fresh[node] = edges
        parents: dict[int, list[tuple[int, int]]] = {}
        heap: list[tuple[int, int]] = []
        for node, edges in fresh.items():
            if not node >> 32:
                heap.append((0, node))  # S' is complete: the end of the text
            known = [total((rest, ends[child])) for rest, child in edges if child in ends]
            if known:
                heap.append((min(known), node))
            for rest, child in edges:
                if child not in ends:
                    parents.setdefault(child, []).append((rest, node))
        heap.sort()
        settled: set[int] = set()
        while heap:
            cost, node = heappop(heap)
            if node in settled:
                continue
            settled.add(node)
            ends[node] = cost
            for rest, parent in parents.get(node, ()):
                if parent not in settled:
                    heappush(heap, (total((cost, rest)), parent))


def _end_of(symbols: np.ndarray, dot: int) -> int:
    """Return the dot at the end of a rule."""
    while symbols[dot] != layout.END_OF_RULE:
        dot += 1
    return dot
