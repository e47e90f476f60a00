"""Write a draft into the IR: plain rules directly, parametric rules as a family; and place ``%ignore``.

Ignored text may precede every lexeme except the first one of a text (as in LLGuidance). The first lexeme is expressed by rules:
beside a rule ``a`` there is, where needed, ``first(a)``: the non-empty texts of ``a`` with a bare first lexeme. ``first`` of
``x y z`` is ``first(x) y z``, and if ``x`` is nullable also ``first(y) z``, and so on.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from cdplugin import ir as grammar
from cdplugin.expr import Expr, nullable, repeat
from cdplugin.frontends.lark.draft import Draft, Part, Production, applies
from cdplugin.frontends.lark.indent import Layout
from cdplugin.frontends.lark.options import GrammarOptions
from cdplugin.frontends.lark.parameters import apply
from cdplugin.frontends.lark.search import OutOfFuel, Search, Sides
from cdplugin.frontends.lark.terminals import without_empty
from cdplugin.ir import LONGEST, Captured, Family, GrammarIR, Productive, Symbol, TokenSet

_FUEL = 100_000
_MOST_FUEL = 400_000
"""Members that are visited to decide one question about a member, and to decide all questions until the grammar is compiled."""
_MEMBER_WORK, _SIDE_WORK, _PART_WORK, _CONDITION_WORK = 450, 300, 150, 50
"""Units of work (``Limits.max_step_work``) to visit a member, each of its alternatives, and each part and condition of one."""
_MOST_WORK = 100_000_000
"""Units that the questions about one rule may take; all questions until the grammar is compiled may take twice as many."""


class RuleAt(NamedTuple):
    """A member: a rule and its parameter (None: it takes none). ``first``: its non-empty texts, with a bare first lexeme."""

    rule: int
    parameter: int | None
    first: bool


class Writer:
    """Writes the rules of one grammar into an IR."""

    def __init__(self, draft: Draft, ir: GrammarIR, options: GrammarOptions, layout: Layout | None = None) -> None:
        self._draft = draft
        self._ir = ir
        self._options = options
        self.work = 0  # units of work spent on right sides
        self.is_settled = False  # whether the grammar is compiled
        self._most = sys.maxsize  # the value of `work` at which the current question fails
        self._costs: dict[int, list[tuple[Production, int]]] = {}
        ignored = draft.ignored()
        self.skip: Symbol | None = None
        if ignored is not None:
            text = without_empty(ignored)
            # its own object: a lexeme of the rules that is spelled like ignored text must be another lexeme
            self.skip = ir.lexeme(Expr(text.op, text.args), "%ignore", lexing=LONGEST)
        if self.skip is not None or layout is not None:
            draft.cut_long()
        self._layout = layout
        self._inside = None if layout is None else ir.lexeme(layout.inside, "%ignore", lexing=LONGEST)
        self._maybe_empty = draft.may_be_empty
        self._rule_of: dict[Symbol, int] = {}
        self._empty = Search(_FUEL)
        self._symbols: dict[tuple[int, bool], Symbol] = {}
        self._pending: list[tuple[int, bool]] = []
        self._prepared: set[tuple[int, bool]] = set()
        self._once: dict[tuple[Symbol, Symbol], Symbol] = {}
        self._tokens: dict[tuple, TokenSet] = {}
        self._terminals: dict[tuple[int, bool], Symbol] = {}  # by the id of a part's value, which draft or layout keep alive
        self._nullable: dict[Expr, bool] = {}

    @cached_property
    def family(self) -> Parametric:
        """The parametric rules; created only if the grammar has any."""
        return Parametric(self)

    def write(self) -> Symbol:
        """Write all that ``start`` needs; returns the start symbol."""
        whole = RuleAt(0, None, False)
        if self.skip is None and self._inside is None:
            start = self.symbol(whole)
        elif self._options.initial_skip and self.skip is not None:
            start = self._ir.nonterminal("start")
            self._ir.rule(start, [self.symbol(whole)])
            if not self._options.skip_once:
                self._ir.rule(start, [self._ignored_ahead(), self.symbol(whole)])
        else:
            start = self._ir.nonterminal("start")
            self._ir.rule(start, [self.symbol(RuleAt(0, None, True))])
            if self.may_be_empty(whole):
                self._ir.rule(start, [])
        while self._pending:
            number, first = self._pending.pop()
            if self._draft.rules[number].takes_parameter:
                self._prepare(number, first)
                continue
            left = self._symbols[number, first]
            for production in self._draft.rules[number].productions:  # without a parameter there are no conditions
                for parts in self._sides_of(production, None, first):
                    self._ir.rule(left, [self.symbol(part) if isinstance(part, RuleAt) else part for part in parts])
        return start

    def _ignored_ahead(self) -> Symbol:
        """A lexeme for ignored text before the first lexeme of all, where the engine skips nothing; after it, it does. If the
        text may begin with something before which nothing is skipped, the lexeme covers all ignored text there.
        """
        assert self.skip is not None
        skipped = self._ir.lexemes[~self.skip]
        once = Expr(skipped.op, skipped.args)  # a copy: no rule may name the skip lexeme itself
        return self._ir.lexeme(repeat(skipped, 1) if self._may_begin_bare() else once, "%ignore", lexing=LONGEST)

    def _may_begin_bare(self) -> bool:
        """Whether a text may begin with something before which nothing is skipped. Conditions are taken to be true."""
        pending = [0]
        met = {0}
        for number in pending:
            for production in self._draft.rules[number].productions:
                for part in production.parts:
                    if part.kind == "rule":
                        if part.value not in met:
                            met.add(part.value)
                            pending.append(part.value)
                        if not self._maybe_empty[part.value]:
                            break
                    elif self._is_bare(part):
                        return True
                    elif part.kind != "lexeme" or not part.value.is_nullable:
                        break
        return False

    @staticmethod
    def _is_bare(part: Part) -> bool:
        if part.kind == "lexeme":
            return part.value.is_glued or part.value.is_inside
        return part.kind in ("symbol", "lead")

    @property
    def is_indented(self) -> bool:
        """Whether the grammar has ``%indent``: then block widths are parameters, of which there are many."""
        return self._layout is not None

    # --- symbols ----------------------------------------------------------------------------------------------------------

    def symbol(self, member: RuleAt) -> Symbol:
        """The nonterminal of a member; its rules are queued."""
        rule = self._draft.rules[member.rule]
        key = (member.rule, member.first)
        if member.parameter is not None:
            if key not in self._prepared:
                self._prepared.add(key)
                self._pending.append(key)
            symbol = self._ir.instance(self.family, member)
        else:
            found = self._symbols.get(key)
            if found is not None:
                return found
            name = rule.owner.name
            symbol = self._symbols[key] = self._ir.nonterminal(name)
            self._ir.locate(symbol, (self._draft.scope.source.where(rule.owner.at),))
            self._rule_of[symbol] = member.rule
            self._pending.append(key)
        captured = self.captured(member.rule)
        if captured.name is not None:
            self._ir.captures[symbol] = captured.name
        if captured.stop is not None:
            self._ir.stops[symbol] = captured.stop
        return symbol

    def captured(self, number: int) -> Captured:
        """How a rule's text is captured."""
        rule = self._draft.rules[number]
        stop = None if rule.stop is None else (rule.stop, rule.owner.attributes.stop_capture or "")
        return Captured(rule.capture, stop)

    def part(self, member: RuleAt) -> grammar.Part:
        """:meth:`symbol` for rules that are made late: members with a parameter are not stored in the IR."""
        return self.symbol(member) if member.parameter is None else self._ir.member(self.family, member)

    def _prepare(self, number: int, first: bool) -> None:
        """Make the symbols that members of a parametric rule may need, except members of the family."""
        for production in self._draft.rules[number].productions:
            for part in production.parts:
                for bare in (False, True) if first else (False,):
                    if part.kind == "lead":
                        assert self._layout is not None
                        for width in range(len(self._layout.leads)):
                            self.family.add_use(self._lead(width, bare))
                    elif part.kind != "rule":
                        self.family.add_use(self.terminal(part, bare))
                    elif part.function is None:
                        self.family.add_use(self.symbol(RuleAt(part.value, None, bare)))
                    elif (part.value, bare) not in self._prepared:
                        self._prepared.add((part.value, bare))
                        self._pending.append((part.value, bare))

    def terminal(self, part: Part, bare: bool) -> Symbol:
        """The symbol of a lexeme, a token set or an embedded grammar; ``bare``: nothing is ignored before it."""
        key = (id(part.value), bare)
        symbol = self._terminals.get(key)
        if symbol is None:
            symbol = self._terminals[key] = part.value if part.kind == "symbol" else self._terminal(part, bare)
        return symbol

    def _terminal(self, part: Part, bare: bool) -> Symbol:
        bare = bare or (part.kind == "lexeme" and part.value.is_glued)
        ignored = self._inside if part.kind == "lexeme" and part.value.is_inside else self.skip
        skip = None if bare or self._options.skip_once else ignored
        if part.kind == "lexeme":
            lexeme = part.value
            symbol = self._ir.lexeme(
                lexeme.expression,
                lexeme.name,
                lexing=lexeme.lexing,
                skip=skip,
                max_tokens=lexeme.max_tokens,
                fence=lexeme.fence,
            )
            definition = self._draft.scope.terminals.get(lexeme.name)
            if definition is not None:
                self._ir.locate(symbol, (self._draft.scope.source.where(definition.at),))
        else:
            tokens = part.value
            tokens = self._tokens.setdefault((tokens.names, tokens.ranges, tokens.negated), tokens)
            symbol = self._ir.token(tokens, "special token", skip=skip)
        if self._options.skip_once and ignored is not None and not bare:
            return self._after_one_skip(symbol, ignored)
        return symbol

    def _lead(self, width: int, bare: bool) -> Symbol:
        """The lead of a line in a block of a width."""
        assert self._layout is not None
        return self.terminal(self._layout.leads[width], bare)

    def _after_one_skip(self, symbol: Symbol, skip: Symbol) -> Symbol:
        wrapped = self._once.get((symbol, skip))
        if wrapped is None:
            wrapped = self._once[symbol, skip] = self._ir.nonterminal(self._ir.lexeme_names[~symbol])
            self._ir.rule(wrapped, [symbol])
            self._ir.rule(wrapped, [skip, symbol])
        return wrapped

    # --- right sides ------------------------------------------------------------------------------------------------------

    def sides(self, member: RuleAt) -> Iterator[list[Symbol | RuleAt]]:
        """The right sides of a member, as symbols of the IR and members."""
        for production in self._applying(member):
            yield from self._sides_of(production, member.parameter, member.first)

    def _sides_of(self, production: Production, parameter: int | None, first: bool) -> Iterator[list[Symbol | RuleAt]]:
        """:meth:`sides` for one production."""
        parts = production.parts
        if not first:
            yield [self._part(part, parameter, False) for part in parts]
            return
        for i, part in enumerate(parts):
            yield [self._part(part, parameter, True), *(self._part(later, parameter, False) for later in parts[i + 1 :])]
            if part.kind != "rule" or not self.may_be_empty(self._member(part, parameter, False)):
                break

    def _applying(self, member: RuleAt) -> Iterator[Production]:
        """The productions that apply for a member's parameter. Raises :class:`OutOfFuel` inside :meth:`decide`."""
        costs = self._costs.get(member.rule)
        if costs is None:
            productions = self._draft.rules[member.rule].productions
            costs = self._costs[member.rule] = [(production, _work_of(production)) for production in productions]
        self.work += _MEMBER_WORK
        for production, cost in costs:
            self.work += cost
            if self.work > self._most:
                raise OutOfFuel
            if applies(production, member.parameter):
                yield production

    def _part(self, part: Part, parameter: int | None, first: bool) -> Symbol | RuleAt:
        if part.kind == "rule":
            return self._member(part, parameter, first)
        return self._lead((parameter or 0) + part.value, first) if part.kind == "lead" else self.terminal(part, first)

    def _member(self, part: Part, parameter: int | None, first: bool) -> RuleAt:
        if part.function is None:
            return RuleAt(part.value, None, first)
        return RuleAt(part.value, apply(part.function, parameter or 0), first)

    # --- the empty text ---------------------------------------------------------------------------------------------------

    def may_be_empty(self, member: RuleAt) -> bool:
        """Whether a member derives the empty sequence of lexemes. (A lexeme that matches the empty text is a lexeme.)"""
        return self.decide(self._empty, self._empty_sides, member._replace(first=False))

    def decide(
        self, search: Search, sides: Sides, member: RuleAt, part: Symbol | RuleAt | None = None, begun: int | None = None
    ) -> bool:
        """Ask ``search`` about a member, or a part of it. Raises ``LimitExceeded`` with the rule's name.

        ``begun``: the value of ``work`` before the first of several related questions.
        """
        before = self._most
        most = (self.work if begun is None else begun) + _MOST_WORK
        self._most = min(before, most if self.is_settled else min(most, 2 * _MOST_WORK))
        try:
            return search.holds(member if part is None else part, sides)
        except OutOfFuel:
            owner = self._draft.rules[member.rule].owner
            message = f"the rule {owner.name!r}: too many parameter values to decide which alternatives can be completed"
            expected = f"at most {_FUEL} of them, and {_MOST_WORK} units of work"
            self._draft.scope.source.exceed(message, owner.at, expected=expected)
        finally:
            self._most = before

    def could_be_empty(self, part: Symbol | RuleAt) -> bool:
        """False only if a part is certainly not nullable: conditions are taken to be true."""
        if isinstance(part, RuleAt):
            return self._maybe_empty[part.rule]
        if part < 0:
            return part not in self._ir.token_sets and nullable(self._ir.lexemes[~part], self._nullable)
        number = self._rule_of.get(part)
        return number is None or self._maybe_empty[number]

    def _empty_sides(self, member: Hashable) -> Iterable[Sequence[Hashable]]:
        assert isinstance(member, RuleAt)
        for production in self._applying(member):
            if all(part.kind == "rule" and self._maybe_empty[part.value] for part in production.parts):
                yield [self._member(part, member.parameter, False) for part in production.parts]


def _work_of(production: Production) -> int:
    """Units of work to visit an alternative with a parameter."""
    work, conditions = _SIDE_WORK + _PART_WORK * len(production.parts), [production.condition]
    for condition in conditions:  # grows
        if condition is not None:
            work += _CONDITION_WORK
            if condition[0] in ("and", "or", "not"):
                conditions += condition[1]
    return work


def _members_of(side: Sequence[Symbol | RuleAt]) -> list[RuleAt]:
    """The members with a parameter in a right side."""
    return [part for part in side if isinstance(part, RuleAt) and part.parameter is not None]


class Parametric(Family[RuleAt]):
    """The family of parametric rules; the parameter is a :class:`RuleAt`. Conditions filter a member's productions."""

    name = "rule with a parameter"

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._uses: dict[Symbol, None] = {}
        self._productive: Productive = lambda symbol: True
        self._satisfiable = Search(_FUEL, _MOST_FUEL)
        self._possible = Search(_FUEL)
        self._nullable = Search(_FUEL)
        self._plain: dict[Symbol, list[tuple[Symbol, ...]]] | None = None
        self.has_captures = any(rule.capture is not None or rule.stop is not None for rule in writer._draft.rules)

    @property
    def work(self) -> int:  # type: ignore[override]
        return self._writer.work

    def captured(self, value: RuleAt) -> Captured:
        return self._writer.captured(value.rule)

    def add_use(self, symbol: Symbol) -> None:
        """Record a symbol that some member may use."""
        self._uses[symbol] = None

    def uses(self) -> Iterable[Symbol]:
        return self._uses

    def satisfiable(self, value: RuleAt, productive: Productive) -> bool:
        self._productive = productive
        self._satisfiable.forget_failures()
        return self._writer.decide(self._satisfiable, self._satisfiable_sides, value)

    def expand(self, value: RuleAt, productive: Productive) -> Iterable[Sequence[grammar.Part]]:
        if not self._writer.is_settled:  # rules are made after it is settled which symbols are productive
            self._writer.is_settled = True
            self._productive = productive
            self._satisfiable.forget_failures()
            self._satisfiable.left = None
        begun = self._writer.work
        for side in self._writer.sides(value):
            can_end = all(self._can_end(self._satisfiable, one, begun) for one in _members_of(side))
            if can_end and all(map(productive, self._others(side))):
                yield [self._writer.part(part) if isinstance(part, RuleAt) else part for part in side]

    def _can_end(self, search: Search, member: RuleAt, begun: int) -> bool:
        """Whether a member is productive, according to ``search``; ``begun``: see :meth:`Writer.decide`."""
        return self._writer.decide(search, self._satisfiable_sides, member, begun=begun)

    def _satisfiable_sides(self, member: Hashable) -> Iterable[Sequence[Hashable]]:
        assert isinstance(member, RuleAt)
        for side in self._writer.sides(member):
            if all(map(self._productive, self._others(side))):
                yield _members_of(side)

    def _others(self, side: Sequence[Symbol | RuleAt]) -> Iterable[Symbol]:
        """The symbols of a right side other than members with a parameter."""
        for part in side:
            if not isinstance(part, RuleAt):
                yield part
            elif part.parameter is None:
                yield self._writer.symbol(part)

    def corners(self, member: RuleAt, is_checked: bool) -> tuple[list[RuleAt], list[RuleAt]]:
        """The left corners of a member, and the other members in its rules. ``is_checked``: only in productive right sides."""
        leading: list[RuleAt] = []
        following: list[RuleAt] = []
        begun = self._writer.work
        for side in self._writer.sides(member):
            if is_checked and not all(self._can_end(self._possible, one, begun) for one in _members_of(side)):
                continue
            at_start = True
            for part in side:
                if isinstance(part, RuleAt) and part.parameter is not None:
                    (leading if at_start else following).append(part)
                at_start = at_start and self._writer.could_be_empty(part)
                at_start = at_start and self._writer.decide(self._nullable, self._nullable_sides, member, part, begun)
        return leading, following

    # --- the empty text ---------------------------------------------------------------------------------------------------

    def nullable(self, value: RuleAt) -> bool:
        return self._writer.could_be_empty(value) and self._writer.decide(self._nullable, self._nullable_sides, value)

    def _nullable_sides(self, node: Hashable) -> Iterable[Sequence[Hashable]]:
        if isinstance(node, RuleAt):
            for side in self._writer.sides(node):
                if all(map(self._writer.could_be_empty, side)):
                    yield side
            return
        assert isinstance(node, int)
        ir = self._writer._ir
        if node < 0:
            if node not in ir.token_sets and nullable(ir.lexemes[~node], self._writer._nullable):
                yield ()
        elif node in ir.instances:
            family, value = ir.instances[node]
            if family is self:
                yield (value,)
            elif family.nullable(value):
                yield ()
        else:
            if self._plain is None:
                self._plain = {}
                for left, right in ir.rules:
                    self._plain.setdefault(left, []).append(right)
            yield from self._plain.get(node, ())
