"""``uniqueItems`` over items of any kind: follow each item by its own rules, and exclude the values of earlier items.

A member of :class:`DistinctItems` is a place between two items, or inside one. Inside, its parameter holds the sentential form
that is still to be written (a stack of symbols, expanded from the left by the schema's own rules), the value as far as it is
written, and the values of the earlier items (:mod:`cdplugin.frontends.json_schema.distinct_values`). Scalars and names are
tracked lexemes (:class:`cdplugin.ir.TrackedLexeme`). So an item may be whatever the schema's rules allow (any order, counts,
distinct items inside it). Undeclared names do not repeat inside such an item.

**No dead ends.** A step is offered only if some continuation ends in a value that no earlier item has. The search for one
follows only earlier values that agree with what is written, and it ends at the first scalar or name that has more values than
they do; so it is short. A lexeme excludes a value exactly if no such continuation follows it.

**Masks.** Masks are computed from ``rest``, where values are not known: there a stack without a value stands for all values. A
symbol from which a lexeme with unboundedly many values is certainly reached may always come; other symbols are shadows. If,
when a text begins, what is written of the item is no prefix of an earlier item (the first item, and others mostly after a
member or two), the item differs whatever that text is. Then all that follows may come, except a name: perhaps none is left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property, partial, reduce
from typing import NamedTuple

from cdplugin.errors import LimitExceeded, UnsupportedError
from cdplugin.expr import EMPTY, Expr, alt, literals
from cdplugin.frontends.json_schema.distinct import NOTHING_SEEN
from cdplugin.frontends.json_schema.distinct_stacks import (
    PLACE_WORK,
    STACK_BYTES,
    Rewriter,
    Stack,
    Unfolding,
    after_value,
    alternatives,
    any_of,
    below_top,
    pushed,
    remembered,
)
from cdplugin.frontends.json_schema.distinct_values import (
    NO_VALUES,
    VALUE,
    Container,
    Hashed,
    Typing,
    Values,
    longest_string,
    read_any,
    thawed,
)
from cdplugin.frontends.json_schema.members import Items, ItemsPlace
from cdplugin.frontends.json_schema.signs import Signs, Text
from cdplugin.frontends.json_schema.values import compound_expr
from cdplugin.ir import Family, GrammarIR, Member, Part, Productive, Symbol, Texts, TrackedLexeme

_SPARE = 600
"""More items and names than one token can hold."""
_MANY = 20_000
"""A lexeme with this many values counts as unbounded, as long as there are fewer items than this less :data:`_SPARE`."""
_MOST_COMPARED = 100_000
"""Places visited to decide whether a value can still differ from the earlier ones."""
_MOST_SEARCHED, _MOST_PLACES, _MOST_HELD = 2_000, 50_000, 200_000
"""To find as many values as there must be items: places visited, besides 20 for each; in all; states and values held."""
_ENTRIES = 16
"""Entries of an array or object that count as one value that is held."""
_MOST_SURE = 300
_STATE_BYTES = 160
_MOST_INSIDE = 8
"""Levels of items inside items that :meth:`DistinctItems.representative` replaces, from the outermost; deeper ones stay."""


class _Between(NamedTuple):
    """A parameter between two items: ``place``, the state of :class:`members.Items` (counts), and the ``values`` of the items.
    Where these are not known, whether there are so few that a lexeme with many values certainly has others left.
    """

    place: ItemsPlace
    values: Values | bool

    @property
    def known(self) -> Values:
        """The values, which must be known."""
        assert isinstance(self.values, Values)
        return self.values

    def is_roomy(self) -> bool:
        """Whether a lexeme with many values certainly has one that no item has."""
        return self.values if isinstance(self.values, bool) else self.values.count + _SPARE < _MANY

    def unknown(self) -> _Between:
        """This state after an item whose value is not known."""
        return self._replace(values=self.is_roomy())


class _Inside(Hashed):
    """A parameter inside an item: the symbols still to be derived, the value so far (None: unknown), the state after the item.

    ``differs``: if the value so far is unknown, whether it certainly is no prefix of an earlier item.
    """

    __slots__ = ("after", "differs", "stack", "typing")

    def __init__(self, stack: Stack, typing: Typing | None, after: _Between, differs: bool = False) -> None:
        self.stack = stack
        self.typing = typing
        self.after = after
        self.differs = differs
        nbytes = _STATE_BYTES + STACK_BYTES + (0 if typing is None else typing.nbytes)
        super().__init__(hash(self.content()), nbytes)

    def content(self) -> object:
        return self.stack, self.typing, self.after, self.differs


_Progress = _Between | _Inside


class _Way(NamedTuple):
    """One continuation inside an item: the symbols ``lead``, then ``rest``, which is still to be written. ``text``: the tracked
    lexeme on top of ``rest``, if its value is to be followed.
    """

    lead: tuple[Part, ...]
    text: Part | None
    rest: Stack | None

    def beginning(self) -> Hashable:
        """Equal for continuations that one rule can begin. A :class:`TrackedLexeme` of another family needs a
        rule of its own.
        """
        following = self.rest if self.text is None or self.rest is None else self.rest.below
        return self.lead, id(self.text) if isinstance(self.text, TrackedLexeme) else self.text, following is None


class DistinctItems(Family[_Progress]):
    """The items of an array and its closing bracket. ``items``: the rules of an item. Call :meth:`finish` after all rules
    exist.
    """

    name = "distinct items"

    def __init__(self, ir: GrammarIR, signs: Signs, items: Items, location: str) -> None:
        self._ir = ir
        self._signs = signs
        self._items = items
        self._location = location
        self._used: list[Symbol] = []
        self._productive: Productive = lambda symbol: True
        self._sure: dict[Stack, bool] = {}
        self._unfolding = Unfolding(ir, signs, self)
        self._differs: dict[tuple[Stack, Typing, _Between], bool] = {}
        self._rewriters = [Rewriter(partial(self._representing, deep)) for deep in range(_MOST_INSIDE + 1)]

    def start(self) -> Symbol:
        """The nonterminal right after the opening bracket."""
        return self._ir.instance(self, _Between(self._items.first, NO_VALUES))

    def finish(self, rules: dict[Symbol, list[tuple[Symbol, ...]]]) -> None:
        """Take the schema's rules, and make tracked lexemes of the scalars and names in them."""
        self._unfolding.rules = rules
        used: dict[Symbol, None] = {}
        seen: set[Symbol] = set()
        families: set[int] = set()
        pending = list(self._items.uses())
        holds_rewritten = False
        while pending:
            symbol = pending.pop()
            if symbol in seen:
                continue
            seen.add(symbol)
            if symbol < 0:
                used.update(dict.fromkeys(self._signs.prepare(symbol)))
            elif symbol in self._ir.instances:
                family, _ = self._ir.instances[symbol]
                if id(family) in families:
                    continue
                families.add(id(family))
                if isinstance(family, DistinctItems):  # when it is expanded, its rules hold tracked lexemes
                    holds_rewritten = True
                    pending += family._items.uses()
                else:
                    pending += family.uses()
            else:
                for rule in rules.get(symbol, ()):
                    pending += rule
        if holds_rewritten:
            used.update(dict.fromkeys(self._signs.unsure(symbol) for symbol in used if symbol in self._signs.events))
        self._used = [*used, *self._items.uses()]

    def check_counts(self) -> None:
        """Raise ``UnsupportedError`` if a bound asks for more items than there are values. Call it after :meth:`finish` of all
        arrays that items may hold.
        """
        for item, least in self._items.counted():
            if least > 1:
                self._check_count(item, least)

    def uses(self) -> Iterable[Symbol]:
        return self._used

    def satisfiable(self, value: _Progress, productive: Productive) -> bool:
        between = value.after if isinstance(value, _Inside) else value
        return self._items.satisfiable(between.place, productive)

    def expand(self, value: _Progress, productive: Productive) -> Iterable[Sequence[Part]]:
        if productive != self._productive:  # it no longer changes once rules are made; earlier results may be too optimistic
            self._productive = productive
            self._unfolding.begin(productive)
            self._sure.clear()
            self._differs.clear()
        if isinstance(value, _Inside):
            is_known = value.typing is not None
            ways = []
            for one in alternatives(value.stack):
                forced = not is_known and self._is_forced(one)
                heads = self._unfolding.heads(one)
                ways += [self._way(head, is_known, value.after, forced, value.differs) for head in heads]
            yield from self._steps(ways, value.typing, value.after, value.differs)
            return
        typing = Typing.first(value.values) if isinstance(value.values, Values) else None
        for signs, place in self._items.ways(value.place, productive):
            if place is None:
                yield signs
                continue
            stack = pushed(signs, None)
            assert stack is not None
            after = value._replace(place=place)
            ways = [self._way(head, typing is not None, after) for head in self._unfolding.heads(stack)]
            yield from self._steps(ways, typing, after, differs=False)

    # Steps

    def _steps(self, ways: Iterable[_Way], typing: Typing | None, after: _Between, differs: bool) -> Iterator[Sequence[Part]]:
        """The rules of a place. Continuations that begin alike share one rule, after which any of them goes on: most kinds of
        an object have some names in common, and without sharing each would be followed in rules of its own.
        """
        alike: dict[Hashable, list[_Way]] = {}
        for way in ways:
            alike.setdefault(way.beginning(), []).append(way)
        for one in alike.values():
            lead, text, _ = one[0]
            rests = [way.rest for way in one]
            now = typing
            if now is not None:
                now = reduce(Typing.after, [self._signs.events[sign] for sign in lead if isinstance(sign, int)], now)
            if now is not None and text is not None:
                parts = self._text(list(dict.fromkeys(filter(None, rests))), now, after)
            else:
                following = self._after(rests, now, after, differs)
                parts = None if following is None else (following,)
            if parts is not None:
                yield (*lead, *parts)

    def _way(self, stack: Stack, is_known: bool, after: _Between, forced: bool = False, differs: bool = False) -> _Way:
        """The symbols up to the next tracked text, or to the next choice, and what is then still to be written."""
        lead: list[Part] = []
        rest: Stack | None = stack
        while rest is not None:
            top = rest.top
            if self._unfolding.is_text(top):
                if not lead or isinstance(top, TrackedLexeme):
                    if is_known:
                        return _Way(tuple(lead), top, rest)
                    lead += self._unknown_text(rest, after)
                    rest = below_top(rest)
                break
            if isinstance(top, Member) or top not in self._signs.events:
                break
            rest = rest.below
            if is_known or forced or (after.values is True and self._is_sure(rest)):
                lead.append(top)
            else:
                is_sure = differs and not self._asks_for_names(rest)
                lead.append(top if is_sure else self._signs.unsure(top))
        return _Way(tuple(lead), None, rest)

    def _asks_for_names(self, stack: Stack | None) -> bool:
        """Whether a name may come next."""
        tops = () if stack is None else [head.top for head in self._unfolding.heads(stack)]
        return any(self._unfolding.is_text(top) and self._unfolding.text_of(top).is_key for top in tops)

    def _is_used_up(self, stack: Stack, typing: Typing) -> bool:
        """Whether a name comes next, and the object has all the names that may come."""
        text = self._signs.texts.get(stack.top) if isinstance(stack.top, int) else None
        if text is None or not text.is_key or text.reader.enough > typing.count:
            return False
        listed = text.listed()
        return listed is not None and listed.keys() <= set(typing.names())

    def _after(
        self, rests: Sequence[Stack | None], typing: Typing | None, after: _Between, differs: bool = False
    ) -> Part | None:
        """What follows: any of some stacks, or the state after the item; None if that would make it equal to an earlier one.
        ``differs``: see :class:`_Inside`.
        """
        if rests[0] is not None:
            stacks = [one for one in rests if one is not None]
            if typing is not None:
                stacks = [one for one in stacks if not self._is_used_up(one, typing) and self._can_differ(one, typing, after)]
            return self._ir.member(self, _Inside(any_of(stacks), typing, after, differs)) if stacks else None
        if typing is None:
            return self._ir.member(self, after.unknown())
        value = typing.complete()
        return None if value in after.known else self._ir.member(self, after._replace(values=after.known.adding(value)))

    def _text(self, stacks: Sequence[Stack], typing: Typing, after: _Between) -> Sequence[Part] | None:
        """The tracked lexeme on top of all the stacks, and what follows it."""
        top = stacks[0].top
        text = self._unfolding.text_of(top)
        avoided_of = [(stack, self._avoided(stack, typing, after)) for stack in stacks]

        def then(value: Hashable) -> Sequence[Part] | None:
            found = [after_value(stack, value) for stack, avoided in avoided_of if value not in avoided]
            rests = [more[0] for more in found if more is not None]
            if not rests:
                return None
            now = typing.after((text.kind, value))
            if rests[0] is not None:
                more_stacks = any_of([rest for rest in rests if rest is not None])
                return (*text.tail, self._ir.member(self, _Inside(more_stacks, now, after)))
            following = self._after((None,), now, after)
            return None if following is None else (*text.tail, following)

        excluded = self._excluded(text, typing, after, set.intersection(*(avoided for _, avoided in avoided_of)))
        if isinstance(top, TrackedLexeme) and top.excluded is not None:
            besides = top.excluded.expression if isinstance(top.excluded, Texts) else top.excluded
            excluded = besides if excluded is None else alt(besides, excluded)
        differs = bool(typing.kind) and not typing.others
        unknown = self._after([below_top(stack) for stack in stacks], None, after.unknown(), differs)
        assert unknown is not None
        alike = None if isinstance(top, TrackedLexeme) else self._alike_beyond(text, typing)
        return (*text.lead, TrackedLexeme(text.lexeme, excluded, then, (*text.tail, unknown), alike))

    def _unknown_text(self, stack: Stack, after: _Between) -> Sequence[Part]:
        """The parts that :meth:`_text` gives, without what follows, for items whose values are not known."""
        text = self._unfolding.text_of(stack.top)
        is_endless = self._is_endless(text) and after.values is True
        if text.plain is None:
            return (text.lexeme if is_endless and stack.top != text.twin else text.twin,)
        if not text.is_key and self._is_sure(stack.below) and after.values is True:
            return (text.plain,)
        return (*text.lead, text.lexeme if is_endless else text.twin, *text.tail)

    def _alike_beyond(self, text: Text, typing: Typing) -> int | None:
        """:attr:`TrackedLexeme.alike` of a lexeme: a longer string equals none that an earlier item has there, and none that a
        lexeme lists.
        """
        listed = None if text.is_key or not text.takes_any_string else self._longest_listed
        return None if listed is None else max([listed, *(longest_string(v) for v in typing.expected() if isinstance(v, str))])

    @cached_property
    def _longest_listed(self) -> int | None:
        """Bytes of the longest string that a lexeme of the items lists; None if one has strings that are neither listed nor
        arbitrary.
        """
        if self._ir.restriction is not None:
            return None
        constants = [self._signs.events[symbol] for symbol in self._used if symbol in self._signs.events]
        listed = [longest_string(value) for kind, value in constants if kind == VALUE]
        for text in [self._signs.texts[symbol] for symbol in self._used if symbol in self._signs.texts]:
            values = () if text.is_key or text.takes_any_string else text.strings()
            if values is None:
                return None
            listed += map(longest_string, (*values, *text.constants))
        return max(listed, default=0)

    # Excluded values

    def _avoided(self, stack: Stack, typing: Typing, after: _Between) -> set[Hashable]:
        """The values of the lexeme on top after which the item could no longer differ from all earlier ones; for a name, also
        the names that the object has. For an item that is a scalar, :meth:`_excluded` adds the earlier scalars.
        """
        text = self._unfolding.text_of(stack.top)
        out: set[Hashable] = set(typing.names()) if text.is_key else set()
        if not typing.others or (after.is_roomy() and self._is_sure(below_top(stack))):
            return out
        for value in self._expected(text, typing) - out:
            if isinstance(value, Container) and value not in text.constants:
                continue
            more = after_value(stack, value)
            if more is not None and not self._may_follow(more[0], typing.after((text.kind, value)), after):
                out.add(value)
        return out

    @staticmethod
    def _expected(text: Text, typing: Typing) -> set[Hashable]:
        """The values that earlier items have where this text comes next."""
        return set(typing.expected_names() if text.is_key else typing.expected())

    def _may_follow(self, stack: Stack | None, typing: Typing, after: _Between) -> bool:
        if stack is not None:
            return self._can_differ(stack, typing, after)
        return typing.complete() not in after.known

    def _excluded(self, text: Text, typing: Typing, after: _Between, avoided: set[Hashable]) -> Expr | None:
        """The texts of the values to avoid; for an item that is a scalar, also those of all earlier scalars."""
        parts: list[Expr] = []
        seen = NOTHING_SEEN
        if not typing.kind:
            seen = after.known.scalars
        if text.reader.read is not read_any and text.plain is None and text.is_key and text.reader.plain is EMPTY:
            listed = text.listed() or {}
            texts = [spelling for value in avoided for spelling in listed.get(value, ())]
            return literals(texts) if texts else None
        for value in sorted(avoided, key=repr):
            if isinstance(value, Container):
                assert text.layout is not None
                parts.append(compound_expr(thawed(value), text.layout))
            else:
                seen = seen.adding(value)
        if seen.expression is not None:
            parts.append(seen.expression)
        return alt(*parts) if parts else None

    def _can_differ(self, stack: Stack, typing: Typing, after: _Between) -> bool:
        """Whether what is written can be completed to a value that no earlier item has."""
        if not after.known.count or (not typing.others and typing.kind):
            return True
        return remembered(self._differs, (stack, typing, after), lambda: self._finds_another(stack, typing, after))

    def _finds_another(self, stack: Stack, typing: Typing, after: _Between) -> bool:
        """:meth:`_can_differ` by depth-first search. Raises :class:`LimitExceeded` where that takes too long."""
        pending: list[tuple[Stack | None, Typing]] = [(stack, typing)]
        for _ in range(_MOST_COMPARED):
            if not pending:
                return False
            self.work += PLACE_WORK
            one, written = pending.pop()
            if one is None:
                if written.complete() not in after.known:
                    return True
                continue
            if self._is_used_up(one, written):
                continue
            if not written.others and written.kind:
                return True
            top = one.top
            if self._unfolding.is_text(top):
                if self._differs_here(one, written, after, pending):
                    return True
            elif isinstance(top, int) and top in self._signs.events:
                pending.append((one.below, written.after(self._signs.events[top])))
            else:
                pending += [(head, written) for head in reversed(self._unfolding.heads(one))]
        raise self._too_much()

    def _differs_here(self, stack: Stack, typing: Typing, after: _Between, pending: list[tuple[Stack | None, Typing]]) -> bool:
        """Whether the lexeme on top has a value that no earlier item has here. If not, its values are added to ``pending``."""
        text = self._unfolding.text_of(stack.top)
        expected = self._expected(text, typing)
        taken = set(typing.names()) if text.is_key else set()
        n_scalars = 0 if typing.kind else after.known.scalars.count
        if text.reader.enough > len(expected) + typing.count + n_scalars:
            return True
        listed = text.listed()
        if listed is None:  # many values, but too few were counted
            has_another, work = text.has_another(expected | taken, NOTHING_SEEN if typing.kind else after.known.scalars)
            self.work += PLACE_WORK * (1 + work)
            if has_another:
                return True
            raise self._too_much()
        for value in listed:
            if value in taken or (not typing.kind and value in after.known):
                continue
            more = after_value(stack, value)
            if more is None:
                continue
            if value not in expected:
                return True
            pending.append((more[0], typing.after((text.kind, value))))
        return False

    def _too_much(self) -> LimitExceeded:
        return LimitExceeded(
            "keyword 'uniqueItems': whether an item can still differ from those before it takes too much work",
            location=self._location,
            expected=f"at most {_MOST_COMPARED} places to look at",
        )

    def _is_endless(self, text: Text) -> bool:
        return text.reader.enough >= _MANY

    def _is_sure(self, stack: Stack | None) -> bool:
        """Whether a lexeme with unboundedly many values can be reached, whatever values come before it."""
        return stack is not None and remembered(self._sure, stack, lambda: self._reaches_many(stack))

    def _reaches_many(self, stack: Stack) -> bool:
        pending: list[Stack | None] = [stack]
        for _ in range(_MOST_SURE):
            if not pending:
                return False
            self.work += PLACE_WORK
            one = pending.pop()
            if one is None:
                continue
            top = one.top
            if self._unfolding.is_text(top):
                text = self._unfolding.text_of(top)
                if self._is_endless(text) and top != text.twin:
                    return True
                if text.plain is not None and not text.is_key:
                    pending.append(one.below)
            elif isinstance(top, int) and top in self._signs.events:
                pending.append(one.below)
            elif isinstance(inner := self._unfolding.member_on(one), tuple) and isinstance(inner[0], DistinctItems):
                pending += inner[0]._certain(inner[1], one.below, self._productive)
            else:
                pending += reversed(self._unfolding.heads(one))
        return False

    def _certain(self, value: _Progress, below: Stack | None, productive: Productive) -> list[Stack | None]:
        """The stacks after a member from which a lexeme with unboundedly many values must be searched."""
        if isinstance(value, _Inside):
            return [value.stack]
        ways = self._items.ways(value.place, productive)
        return [below if place is None else Stack(signs[-1], None) for signs, place in ways]

    def _is_forced(self, stack: Stack | None) -> bool:
        """Whether there is only one continuation, so whatever led here was offered for its sake."""
        for _ in range(_MOST_SURE):
            if stack is None:
                return True
            if isinstance(stack.top, int) and stack.top in self._signs.events:
                stack = stack.below
                continue
            if self._unfolding.is_text(stack.top):
                return False
            heads = self._unfolding.heads(stack)
            if len(heads) != 1:
                return False
            stack = heads[0]
        return False

    # Hints for queries, and counts

    def representative(self, value: _Progress, of: _Progress | None = None) -> Part | None:
        if isinstance(value, _Inside):
            return self._represented(value, _MOST_INSIDE)
        return None if value.place == self._items.first else self._ir.member(self, value.unknown())

    def _represented(self, value: _Inside, deep: int) -> Part:
        """:meth:`representative` inside an item. The stack holds an inner state for each level of nesting; the outermost
        ``deep`` levels are replaced, too.
        """
        below = self._rewriters[deep](alternatives(value.stack)[0])
        assert below is not None
        return self._ir.member(self, _Inside(below, None, value.after.unknown(), differs=True))

    @staticmethod
    def _representing(deep: int, top: Part) -> Sequence[Part]:
        other = None
        if isinstance(top, Member):
            family, inner = top.family, top.value
            if not isinstance(inner, _Inside):
                other = family.representative(inner)
            elif deep and isinstance(family, DistinctItems):
                other = family._represented(inner, deep - 1)
        return top.rest if isinstance(top, TrackedLexeme) else (top if other is None else other,)

    def remaining(self, value: _Progress) -> int:
        if isinstance(value, _Inside):
            return self._items.remaining(value.after.place) + 1
        return self._items.remaining(value.place)

    def _check_count(self, item: Symbol | None, least: int) -> None:
        """Search as many values as there must be items. Where a lexeme has many values, let the compiler count them."""
        found, n_held = set[Hashable](), 0
        first = None if item is None else pushed((item,), None)
        pending: list[tuple[Stack | None, Typing]] = [] if first is None else [(first, Typing.first(NO_VALUES))]
        for _ in range(min(_MOST_SEARCHED + 20 * least, _MOST_PLACES)):
            if not pending or len(found) >= least or n_held > _MOST_HELD:
                break
            stack, typing = pending.pop()
            if stack is None:
                found.add(typing.complete())
                continue
            symbol = stack.top
            if self._unfolding.is_text(symbol):
                text = self._unfolding.text_of(symbol)
                listed = text.listed()
                if listed is None:
                    reader = text.reader
                    reader.needs = max(reader.needs, least + 2 * _SPARE)
                    reader.keyword, reader.location = reader.keyword or "uniqueItems", reader.location or self._location
                    return
                n_held += len(listed)
                taken = set(typing.names()) if text.is_key else set()
                for value in listed:
                    if value not in taken and (more := after_value(stack, value)) is not None:
                        pending.append((more[0], typing.after((text.kind, value))))
            elif isinstance(symbol, int) and symbol in self._signs.events:
                n_held += 1 + typing.count // _ENTRIES
                pending.append((stack.below, typing.after(self._signs.events[symbol])))
            else:
                pending += [(head, typing) for head in reversed(self._unfolding.heads(stack))]
        if len(found) < least:
            message = "keyword 'uniqueItems' is not supported where so few values may be left"
            raise UnsupportedError(message, location=self._location, keyword="uniqueItems")
