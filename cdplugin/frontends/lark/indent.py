"""Rewrite the rules of a grammar with ``%indent``: lines and blocks become plain and parametric rules.

``lark.indenter.Indenter`` replaces the lexeme at the end of a line by NEWLINE and, depending on the indentation of the next
line, INDENT or any number of DEDENTs. Here one lexeme, a *lead*, covers all of it: the end of a line, blank lines and
comments, and the ``w`` columns before the next statement. Blank lines may be indented in any way, so by longest match a lead
never ends before white space: what follows is a statement in column ``w``. What is left is which leads the rules allow:

- NEWLINE is written as nothing, and makes a lead *due*: the next symbol begins with it. A rule is written once for each pair of
  flags: whether a lead is due before it, and after it.
- Rules that hold a lead take the width ``w`` of their block as a parameter, and their leads have just that width.
- ``INDENT … DEDENT`` is a rule ``fresh``: a lead of width ``w + 1`` and the block with that width as its parameter; or
  ``fresh`` itself, one column further. After it a lead is due in the outer block. So a line may close several blocks at once,
  but only blocks that are open.
- Blocks that are indented by tabs alone have the widths above those of spaces, one for each tab; only the unindented block
  holds blocks of both kinds.
- Between brackets, rules are written a second time, with lexemes before which line ends are ignored.

A row then holds the open blocks like any nested rules, and two places with the same future are one row. Rules are made only
for the widths that a text leads to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, NoReturn

from cdplugin import expr
from cdplugin.expr import Expr
from cdplugin.frontends.lark.draft import Draft, Lexeme, Part, Production, Rule
from cdplugin.frontends.lark.options import Indentation
from cdplugin.frontends.lark.parameters import BITS, SELF, Condition, Function, constant, needs_parameter
from cdplugin.frontends.lark.terminals import without_empty
from cdplugin.ir import LONGEST
from cdplugin.walks import reached

_SPACES = expr.repeat(expr.byte_class(b" \t\f"))
_LINE_FEED = expr.cat(expr.optional(expr.literal(b"\r")), expr.literal(b"\n"))

_TEXT = 0b0101  # relations of flags, bit `2 * before + after`; a lexeme: no lead is due after it
_NEWLINE = 0b0010
_REGION = 0b1000  # INDENT … DEDENT: a lead is due before and after it
_EMPTY = 0b1001
_BOTH = (0b0011, 0b1100)
"""Both flags after the part, for one flag before it."""
_MOST_UNSURE = 3
"""Parts of one production after which a lead may be due or not."""


_ALL = (0, BITS)
_NEXT: Function = ("incr", (_ALL,))


@dataclass(frozen=True)
class Layout:
    """The lexemes of ``%indent``.

    ``leads``: by width, those of tabs after those of spaces, with one in between that no block has; ``start``: blank lines
    before the first line; ``end``: what may follow the last line; ``blank``: a text without any line; ``inside``: what is
    ignored between brackets; ``n_blocks``: the number of ``fresh`` rules.
    """

    leads: list[Part]
    start: Part
    end: Part
    blank: Part
    inside: Expr
    n_blocks: int = 0


def layout_of(draft: Draft, options: Indentation) -> Layout:
    """The lexemes of a grammar with ``%indent``."""
    name = next(name for name, kind in options.names.items() if kind == "newline")
    named = draft.named
    newline = named.get(name)
    comment = None if options.comment is None else named.get(options.comment)
    source = draft.scope.source
    if options.comment is not None and comment is None:
        source.fail("option comment of %indent", options.at, expected="a terminal", found=repr(options.comment))
    if comment is not None and newline is not None:
        found = f"a definition of {name!r} as well"
        source.fail("option comment of %indent", options.at, expected=f"comments as part of {name!r}", found=found)
    widths = _widths(options)
    if newline is None:
        line = expr.cat(_SPACES, expr.EPSILON if comment is None else expr.optional(comment), _LINE_FEED)
        lines = start = expr.repeat(line, 1)
        leads = [expr.cat(lines, width) for width in widths]
        end = expr.cat(lines, _SPACES, expr.EPSILON if comment is None else expr.optional(comment))
        if comment is not None:
            end = expr.alt(end, expr.cat(_SPACES, without_empty(comment)))
        blank = end
    else:
        lines = end = without_empty(newline)
        ending = expr.cat(expr.repeat(expr.ANY_CHAR), expr.literal(b"\n"))
        leads = [expr.both(lines, expr.cat(ending, width)) for width in widths]
        start, blank = expr.cat(_SPACES, leads[0]), expr.cat(_SPACES, lines)
    ignored = draft.ignored()
    between = lines if newline is not None else expr.cat(lines, _SPACES)
    inside = between if ignored is None else expr.alt(without_empty(ignored), between)
    return Layout(
        [_part(lead, f"{name} and {width} columns" if width else name) for width, lead in enumerate(leads)],
        _part(start, name),
        _part(end, name),
        _part(blank, name),
        inside,
    )


def _part(expression: Expr, name: str) -> Part:
    return Part("lexeme", Lexeme(expr.Expr(expression.op, expression.args), name, LONGEST, False))


def _widths(options: Indentation) -> list[Expr]:
    """White space of each width up to the largest."""
    if options.tab_len is None:
        spaces = [
            expr.repeat(expr.literal(b" "), width, width) if width else expr.EPSILON for width in range(options.max_width + 1)
        ]
        tabs = [expr.literal(b"\t" * width) for width in range(1, options.max_tabs + 1)]
        return [*spaces, *tabs[:1], *tabs]
    out = [expr.EPSILON]
    for width in range(1, options.max_width + 1):
        ways = [expr.cat(expr.literal(b" "), out[width - 1])]
        if width >= options.tab_len:
            ways.append(expr.cat(expr.literal(b"\t"), out[width - options.tab_len]))
        out.append(expr.alt(*ways))
    return out


class _Item(NamedTuple):
    """A part of a production; ``inside``: whether it is between brackets. A block is a part of kind ``"region"``."""

    part: Part
    inside: bool


class _Version(NamedTuple):
    """A version of a rule; ``way``: ``"out"``, ``"in"`` (between brackets), ``"fresh"``, or the two flags."""

    rule: int
    way: str | tuple[int, int]


def rewrite_indentation(draft: Draft, options: Indentation, max_rules: int) -> Layout:
    """Rewrite a draft without line ends and blocks. Raises ``GrammarError`` with the rule's position."""
    layout = layout_of(draft, options)
    return replace(layout, n_blocks=_Rewriter(draft, options, layout, max_rules).rewrite())


class _Rewriter:
    def __init__(self, draft: Draft, options: Indentation, layout: Layout, max_rules: int) -> None:
        self._draft = draft
        self._options = options
        self._layout = layout
        self._max_rules = max_rules
        self._may_be_empty = list(draft.may_be_empty)
        self._rules = list(draft.rules)
        self._items: list[list[list[_Item]]] = []
        number = 0
        while number < len(self._rules):  # regions are added on the way
            self._items.append([self._items_of(self._rules[number], p.parts) for p in self._rules[number].productions])
            number += 1
        self._may_be_empty += [False] * (len(self._rules) - len(self._may_be_empty))
        self._holds_lines = self._leading_to_lines()
        self._relation = self._relations()
        self._cut_long()
        self._new: list[Rule] = []
        self._number: dict[_Version, int] = {}
        self._queue: list[_Version] = []
        self._count = 0

    # --- writing ------------------------------------------------------------------------------------------------------------

    def rewrite(self) -> int:
        """Write all rules; returns the number of ``fresh`` rules."""
        start = replace(self._rules[0], productions=[], takes_parameter=False)
        self._new.append(start)
        end = len(self._new)
        self._new.append(Rule(start.owner, False))
        self._produce(end, [])
        self._produce(end, [self._layout.end])
        ways = [after for after in (0, 1) if self._relation[0] >> after & 1]
        if not ways:
            self._refuse_unending()
        for after in ways:
            number = self._version(0, (0, after))
            whole = Part("rule", number, constant(0) if self._new[number].takes_parameter else None)
            for ahead in ([], [self._layout.start]):
                self._produce(0, [*ahead, whole, *([Part("rule", end)] if after else [])])
        if self._may_be_empty[0]:
            for blank in (self._layout.start, self._layout.blank):
                self._produce(0, [blank])
        while self._queue:
            self._fill(self._queue.pop())
        self._settle_parameters()
        self._draft.replace_rules(self._new)
        return sum(version.way == "fresh" for version in self._number)

    def _fill(self, version: _Version) -> None:
        rule, way = version
        number = self._number[version]
        if way == "fresh":
            body = self._version(rule, (0, 1))
            self._produce(number, [Part("lead", 1), Part("rule", body, _NEXT)], self._has_next(1))
            self._produce(number, [Part("rule", number, _NEXT)], self._has_next(2))
            if self._options.max_tabs:
                self._produce(number, [Part("rule", number, constant(self._options.max_width + 1))], ("eq", (_ALL, 0)))
            return
        for production, items in zip(self._rules[rule].productions, self._items[rule], strict=True):
            if way in ("out", "in"):
                inline = [self._inline(item, way == "in") for item in items]
                if None not in inline:
                    self._produce(number, [part for part in inline if part is not None], production.condition)
            else:
                assert isinstance(way, tuple)
                for parts in self._ways(items, *way):
                    self._produce(number, parts, production.condition)

    def _has_next(self, count: int) -> Condition:
        """The condition that there is a width ``count`` columns, or tabs, further in."""
        spaces = self._options.max_width
        last = spaces + 1 + self._options.max_tabs
        below: Condition = ("lt", (_ALL, spaces + 1 - count))
        if not self._options.max_tabs:
            return below
        return "or", (below, ("and", (("gt", (_ALL, spaces)), ("lt", (_ALL, last + 1 - count)))))

    def _inline(self, item: _Item, inside: bool) -> Part | None:
        """A part inside a line; None for one that ends a line."""
        part, inside = item.part, inside or item.inside
        if part.kind in ("layout", "region"):
            return None
        if part.kind == "lexeme" and inside:
            return part._replace(value=part.value._replace(is_inside=True))
        if part.kind == "rule":
            return part._replace(value=self._version(part.value, "in" if inside else "out"))
        return part

    def _ways(self, items: Sequence[_Item], before: int, after: int) -> Iterator[list[Part]]:
        """The right sides of a production, given the flags before and after it."""
        to_end = self._to_end(items)
        pending: list[tuple[int, int, list[Part]]] = [(0, before, [])] if to_end[0] >> 2 * before + after & 1 else []
        while pending:
            at, flag, parts = pending.pop()
            if at == len(items):
                yield parts
                continue
            for out, more in self._steps(items[at], flag):
                if to_end[at + 1] >> 2 * out + after & 1:
                    pending.append((at + 1, out, [*parts, *more]))

    def _to_end(self, items: Sequence[_Item]) -> list[int]:
        """For each position, the relation between the flag there and the flag at the end of the production."""
        out = [_EMPTY]
        for item in reversed(items):
            out.append(_COMPOSED[self._relation_of(item)][out[-1]])
        return out[::-1]

    def _steps(self, item: _Item, flag: int) -> Iterator[tuple[int, list[Part]]]:
        """The ways to write an item, given whether a lead is due; each with the flag after it."""
        part = item.part
        if part.kind == "layout":
            if flag == 0:
                yield 1, []
        elif part.kind == "region":
            if flag == 1:
                yield 1, [Part("rule", self._version(part.value, "fresh"), SELF)]
        elif part.kind == "rule" and not item.inside and (self._holds_lines[part.value] or flag):
            is_line = not self._holds_lines[part.value]
            if is_line and not self._may_be_empty[part.value]:
                yield 0, [Part("lead", 0), self._known(self._inline(item, False))]
                return
            if self._rules[part.value].takes_parameter:
                self._refuse_parameter(part.value)
            for out in (0, 1):
                if self._relation[part.value] >> 2 * flag + out & 1:
                    yield out, [Part("rule", self._version(part.value, (flag, out)), SELF)]
        else:
            yield 0, [*([Part("lead", 0)] if flag else []), self._known(self._inline(item, False))]

    @staticmethod
    def _known(part: Part | None) -> Part:
        assert part is not None
        return part

    def _version(self, rule: int, way: str | tuple[int, int]) -> int:
        """The number of a version of a rule; it is queued at its first use."""
        if way == (0, 0) and not self._holds_lines[rule]:
            way = "out"
        version = _Version(rule, way)
        number = self._number.get(version)
        if number is None:
            number = self._number[version] = len(self._new)
            takes = self._rules[rule].takes_parameter if way in ("out", "in") else True
            if not isinstance(way, str) and self._rules[rule].takes_parameter:
                self._refuse_parameter(rule)
            is_helper = self._rules[rule].is_helper or way == "fresh"
            self._new.append(replace(self._rules[rule], productions=[], takes_parameter=takes, is_helper=is_helper))
            self._queue.append(version)
        return number

    def _produce(self, number: int, parts: Sequence[Part], condition: Condition | None = None) -> None:
        self._count += 1 + len(parts) // 4
        if self._count > self._max_rules:
            most = f"at most Limits.max_rules = {self._max_rules}"
            self._draft.scope.source.exceed("too many rules", self._new[number].owner.at, expected=most)
        self._new[number].productions.append(Production(tuple(parts), condition))

    def _settle_parameters(self) -> None:
        """Remove the width parameter from rules that do not depend on it."""
        mine = [number for version, number in self._number.items() if version.way not in ("out", "in")]
        users: dict[int, list[int]] = {}
        depends = {number for version, number in self._number.items() if version.way == "fresh"}
        for number in mine:
            for production in self._new[number].productions:
                for part in production.parts:
                    if part.kind == "lead":
                        depends.add(number)
                    elif part.kind == "rule" and part.function == SELF:
                        users.setdefault(part.value, []).append(number)
        free = set(mine) - reached(depends, lambda number: users.get(number, ())).keys()
        for number in free:
            self._new[number].takes_parameter = False
        for rule in self._new:
            for i, production in enumerate(rule.productions):
                if any(part.kind == "rule" and part.value in free for part in production.parts):
                    parts = (p._replace(function=None) if p.kind == "rule" and p.value in free else p for p in production.parts)
                    rule.productions[i] = replace(production, parts=tuple(parts))

    # --- analysis -----------------------------------------------------------------------------------------------------------

    def _items_of(self, rule: Rule, parts: Sequence[Part]) -> list[_Item]:
        """The parts of a production, marked if between brackets; blocks become parts of kind ``"region"``."""
        stack: list[list[_Item]] = [[]]
        depth = 0
        for part in parts:
            if part.kind == "layout" and part.value != "newline":
                if depth:
                    self._refuse(rule, "an indented block between brackets")
                if part.value == "indent":
                    stack.append([])
                elif len(stack) == 1:
                    self._refuse(rule, "a block ends that has not begun", "the terminals for INDENT and DEDENT in one sequence")
                else:
                    stack[-2].append(_Item(Part("region", self._add_region(rule, stack.pop())), False))
                continue
            sign = self._options.brackets.get(part.value.name, 0) if part.kind == "lexeme" else 0
            if sign < 0 and depth == 0:
                found = f"{part.value.name} that closes nothing"
                self._refuse(rule, "brackets of %indent", "those that belong together in one sequence", found)
            stack[-1].append(_Item(part, depth > 0))
            depth += sign
        if depth:
            self._refuse(rule, "brackets of %indent", "those that belong together in one sequence", "one that is not closed")
        if len(stack) > 1:
            self._refuse(rule, "a block begins that does not end", "the terminals for INDENT and DEDENT in one sequence")
        return stack[0]

    def _add_region(self, rule: Rule, items: list[_Item]) -> int:
        """Add a rule for a run of parts, as between INDENT and DEDENT; returns its number."""
        parts = tuple(item.part for item in items)
        takes = any(part.function is not None and needs_parameter(part.function) for part in parts)
        self._rules.append(Rule(rule.owner, takes, [Production(parts)]))
        return len(self._rules) - 1

    def _leading_to_lines(self) -> list[bool]:
        """Which rules lead to a line end or a block."""
        users: list[list[int]] = [[] for _ in self._rules]
        lines = []
        for number, item in self._all_items():
            if item.part.kind == "rule" and not item.inside:
                users[item.part.value].append(number)
            elif item.part.kind in ("layout", "region"):
                lines.append(number)
        leading = reached(lines, users.__getitem__)
        return [number in leading for number in range(len(self._rules))]

    def _all_items(self) -> Iterator[tuple[int, _Item]]:
        """The parts of all productions, each with the number of its rule."""
        return ((number, item) for number, productions in enumerate(self._items) for items in productions for item in items)

    def _relations(self) -> list[int]:
        """The relation between the flags before and after each rule: a least fixed point."""
        self._relation = [0] * len(self._rules)
        users: list[set[int]] = [set() for _ in self._rules]
        for number, item in self._all_items():
            if item.part.kind in ("rule", "region"):
                users[item.part.value].add(number)
        pending = list(range(len(self._rules)))
        while pending:
            number = pending.pop()
            found = 0
            for items in self._items[number]:
                found |= self._to_end(items)[0]
            if found != self._relation[number]:
                self._relation[number] = found
                pending += users[number]
        return self._relation

    def _cut_long(self) -> None:
        """Cut productions with many parts after which a lead may be due or not: each doubles the ways through a production."""
        for number, items in [(number, items) for number, productions in enumerate(self._items) for items in productions]:
            unsure = [at for at, item in enumerate(items) if any(self._relation_of(item) & both == both for both in _BOTH)]
            for at in reversed(unsure[_MOST_UNSURE::_MOST_UNSURE]):
                rest = self._add_region(self._rules[number], items[at:])
                function = SELF if self._rules[rest].takes_parameter else None
                self._items.append([items[at:]])
                self._relation.append(self._to_end(items[at:])[0])
                self._holds_lines.append(True)
                self._may_be_empty.append(False)
                items[at:] = [_Item(Part("rule", rest, function), False)]

    def _relation_of(self, item: _Item) -> int:
        part = item.part
        if part.kind == "layout":
            return _NEWLINE
        if part.kind == "region":
            return _REGION if self._relation[part.value] >> 1 & 1 else 0
        if part.kind == "rule" and not item.inside:
            return self._relation[part.value]
        return _TEXT

    # --- messages -----------------------------------------------------------------------------------------------------------

    def _refuse(self, rule: Rule, message: str, expected: str = "", found: str = "") -> NoReturn:
        self._draft.scope.source.fail(f"the rule {rule.owner.name!r}: {message}", rule.owner.at, expected=expected, found=found)

    def _refuse_parameter(self, number: int) -> NoReturn:
        self._refuse(self._rules[number], "a rule with a parameter where lines end or begin", "a rule without '::_'")

    def _refuse_unending(self) -> NoReturn:
        """Raise because no text leads from the start's beginning to its end; name the first rule for which that is so."""
        names = {kind: name for name, kind in self._options.names.items()}
        expected = f"{names['newline']}, then {names['indent']}, lines that end with {names['newline']}, then {names['dedent']}"
        for number, rule in enumerate(self._rules):
            if not self._relation[number] and not any(
                part.kind == "rule" and not self._relation[part.value] for p in rule.productions for part in p.parts
            ):
                self._refuse(rule, "no text has its lines and blocks", expected)
        self._refuse(self._rules[0], "no text has its lines and blocks", expected)


def _compose(first: int, then: int) -> int:
    """The composition of two relations."""
    out = 0
    for before in (0, 1):
        for after in (0, 1):
            if any(first >> 2 * before + flag & 1 and then >> 2 * flag + after & 1 for flag in (0, 1)):
                out |= 1 << 2 * before + after
    return out


_COMPOSED = [[_compose(first, then) for then in range(16)] for first in range(16)]
""":func:`_compose` for all pairs of relations."""
