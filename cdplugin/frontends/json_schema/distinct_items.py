"""``uniqueItems`` over items of any kind: an item is followed as its rules write it, and never becomes equal to an earlier one.

A member of :class:`DistinctItems` is the place between two items, or one inside an item: the symbols that are still to be
written (a stack, the schema's own rules unfolded from the left), the value as far as it is written, and the values of the
earlier items (:mod:`cdplugin.frontends.json_schema.distinct_values`). Scalars and names keep their text
(:class:`cdplugin.ir.TrackedLexeme`). So the rules of whatever an item may be (any order, counts, distinct items inside it) are
those that other places have; only bookkeeping is added. Undeclared names do not repeat inside such an item.

**No dead ends.** A step is offered only if some way to go on ends in a value that is not among the earlier ones. That is
searched along the earlier values that agree with what was written: the search ends at the first scalar or name of which there
are more than those, so it is short. A value is excluded from a lexeme exactly if no such way follows it.

**Masks.** Where values are not known (``rest``), a stack without a value stands for all of them. A symbol from which a lexeme
of any number of values is sure to be reached may always come; others are shadows. Where an item is no beginning of an earlier
one when a text begins (the first item; others, mostly after a member or two), it is sure to differ whatever the text is: what
follows may come but for a name, of which there may be none left.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import NamedTuple

from cdplugin.errors import LimitExceeded, UnsupportedError
from cdplugin.expr import EMPTY, Expr, alt, literals
from cdplugin.frontends.json_schema.distinct import NOTHING_SEEN
from cdplugin.frontends.json_schema.distinct_stacks import (
    PLACE_WORK,
    STACK_BYTES,
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
"""More items and names than one token holds."""
_MANY = 20_000
"""So many values of a lexeme are as good as any number, as long as there are fewer items by :data:`_SPARE`."""
_MOST_COMPARED = 100_000
"""Places that are looked at to find out whether a value can still differ from the earlier ones."""
_MOST_SEARCHED = 2_000
"""Places that are looked at for values that are still to come, and 20 more for each that is asked for."""
_MOST_SURE = 300
_STATE_BYTES = 160
_MOST_INSIDE = 8
"""Items inside each other, from the outermost on, that are represented: what is deeper represents itself."""


class _Between(NamedTuple):
    """Between items: how many there were and matched what (``place``, a parameter of :class:`members.Items`), and their values;
    where these are not known, whether there are so few of them that a lexeme with many values has others left.
    """

    place: ItemsPlace
    values: Values | bool

    @property
    def known(self) -> Values:
        """The values, where they are known."""
        assert isinstance(self.values, Values)
        return self.values

    def is_roomy(self) -> bool:
        """Whether a lexeme with many values has others left than the items have."""
        return self.values if isinstance(self.values, bool) else self.values.count + _SPARE < _MANY

    def unknown(self) -> _Between:
        """This state after an item whose value is not known."""
        return self._replace(values=self.is_roomy())


class _Inside(Hashed):
    """Inside an item: what is still to be written, what was written (None: it is not known), and what comes after it.

    ``differs``: where it is not known what was written, whether it is no beginning of an earlier item anyhow.
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


_Place = _Between | _Inside


class _Way(NamedTuple):
    """A way to go on inside an item: symbols, and what is to be written after them (``rest``). ``text``: the lexeme on top of
    that, if its value is to be followed.
    """

    lead: tuple[Part, ...]
    text: Part | None
    rest: Stack | None

    def beginning(self) -> Hashable:
        """Equal for ways that one rule can begin. A lexeme that tracks its value for others as well goes on in its own way."""
        following = self.rest if self.text is None or self.rest is None else self.rest.below
        return self.lead, id(self.text) if isinstance(self.text, TrackedLexeme) else self.text, following is None


class DistinctItems(Family[_Place]):
    """The items of an array and its closing bracket. ``items``: what each may be. :meth:`finish` once all rules are made."""

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

    def start(self) -> Symbol:
        """The items right after the opening bracket."""
        return self._ir.instance(self, _Between(self._items.first, NO_VALUES))

    def finish(self, rules: dict[Symbol, list[tuple[Symbol, ...]]]) -> None:
        """Get to know all rules, and make the lexemes that keep their text."""
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
                if isinstance(family, DistinctItems):  # its rules hold lexemes that keep their text, as they are written
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
        """Raise ``UnsupportedError`` if more items are asked for than there are seen to be values; once all is finished that
        items may hold.
        """
        for item, least in self._items.counted():
            if least > 1:
                self._check_count(item, least)

    def uses(self) -> Iterable[Symbol]:
        return self._used

    def satisfiable(self, value: _Place, productive: Productive) -> bool:
        between = value.after if isinstance(value, _Inside) else value
        return self._items.satisfiable(between.place, productive)

    def expand(self, value: _Place, productive: Productive) -> Iterable[Sequence[Part]]:
        if productive != self._productive:  # settled when rules are made; what was found out before may lead nowhere
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
        """The rules of a place. Ways that begin alike are one rule, after which any of them goes on: most kinds of an object
        have some names in common, and each would be followed in rules of its own.
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
        """The symbols up to the next text whose value is followed, or to the next choice, and what is to be written then."""
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
        """Whether a name is next, and the object has all that it may be."""
        text = self._signs.texts.get(stack.top) if isinstance(stack.top, int) else None
        if text is None or not text.is_key or text.reader.enough > typing.count:
            return False
        listed = text.listed()
        return listed is not None and listed.keys() <= set(typing.names())

    def _after(
        self, rests: Sequence[Stack | None], typing: Typing | None, after: _Between, differs: bool = False
    ) -> Part | None:
        """What follows: any of some stacks, or what comes after the item; None if that would become an earlier value.
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
        """A lexeme that keeps its text, and what follows; it is on top of each of the stacks."""
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
        """The parts that :meth:`_text` gives, without what follows, where the items' values are not known."""
        text = self._unfolding.text_of(stack.top)
        is_endless = self._is_endless(text) and after.values is True
        if text.plain is None:
            return (text.lexeme if is_endless and stack.top != text.twin else text.twin,)
        if not text.is_key and self._is_sure(stack.below) and after.values is True:
            return (text.plain,)
        return (*text.lead, text.lexeme if is_endless else text.twin, *text.tail)

    def _alike_beyond(self, text: Text, typing: Typing) -> int | None:
        """:attr:`TrackedLexeme.alike` of a lexeme: a longer string is equal to none that an earlier item has there, nor to
        any that a lexeme lists.
        """
        listed = None if text.is_key or not text.takes_any_string else self._longest_listed
        return None if listed is None else max([listed, *(longest_string(v) for v in typing.expected() if isinstance(v, str))])

    @cached_property
    def _longest_listed(self) -> int | None:
        """How many bytes the longest string has that a lexeme of the items lists; None if one has strings that are neither
        listed nor any.
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

    # What must not be written

    def _avoided(self, stack: Stack, typing: Typing, after: _Between) -> set[Hashable]:
        """The values of the lexeme on top after which the item could not differ from all earlier ones, and the names that the
        object has. Scalars that are earlier items are none of them.
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
        """What the earlier values have where a text comes next."""
        return set(typing.expected_names() if text.is_key else typing.expected())

    def _may_follow(self, stack: Stack | None, typing: Typing, after: _Between) -> bool:
        if stack is not None:
            return self._can_differ(stack, typing, after)
        return typing.complete() not in after.known

    def _excluded(self, text: Text, typing: Typing, after: _Between, avoided: set[Hashable]) -> Expr | None:
        """The texts of what is avoided; of scalars that are items themselves those of all earlier ones."""
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
        """Whether what was written can go on to a value that is none of the earlier ones."""
        if not after.known.count or (not typing.others and typing.kind):
            return True
        return remembered(self._differs, (stack, typing, after), lambda: self._finds_another(stack, typing, after))

    def _finds_another(self, stack: Stack, typing: Typing, after: _Between) -> bool:
        """:meth:`_can_differ`, by trying what comes next. Raises :class:`LimitExceeded` where that takes too long to tell."""
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
        """Whether the lexeme on top has a value that the earlier ones do not have here; else its values are to be looked at."""
        text = self._unfolding.text_of(stack.top)
        expected = self._expected(text, typing)
        taken = set(typing.names()) if text.is_key else set()
        n_scalars = 0 if typing.kind else after.known.scalars.count
        if text.reader.enough > len(expected) + typing.count + n_scalars:
            return True
        listed = text.listed()
        if listed is None:  # many, however few were counted
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
        """Whether a lexeme with any number of values can be reached, whatever the values of those before it."""
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

    def _certain(self, value: _Place, below: Stack | None, productive: Productive) -> list[Stack | None]:
        """What is sure to be possible from a member on, if it leads to a lexeme of any number of values."""
        if isinstance(value, _Inside):
            return [value.stack]
        ways = self._items.ways(value.place, productive)
        return [below if place is None else Stack(signs[-1], None) for signs, place in ways]

    def _is_forced(self, stack: Stack | None) -> bool:
        """Whether there is but one way to go on: what led to it was offered for its sake."""
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

    # Hints, and what is known before anything is written

    def representative(self, value: _Place, of: _Place | None = None) -> Part | None:
        if isinstance(value, _Inside):
            return self._represented(value, _MOST_INSIDE)
        return None if value.place == self._items.first else self._ir.member(self, value.unknown())

    def _represented(self, value: _Inside, deep: int) -> Part:
        """:meth:`representative` inside an item. Those on its stack that are inside an item, too, are as many as the text is
        deep: of them so many.
        """
        parts: list[Part] = []
        stack: Stack | None = alternatives(value.stack)[0]
        while stack is not None:
            top, other = stack.top, None
            if isinstance(top, Member):
                family, inner = top.family, top.value
                if not isinstance(inner, _Inside):
                    other = family.representative(inner)
                elif deep and isinstance(family, DistinctItems):
                    other = family._represented(inner, deep - 1)
            parts += top.rest if isinstance(top, TrackedLexeme) else (top if other is None else other,)
            stack = stack.below
        below = pushed(parts, None)
        assert below is not None
        return self._ir.member(self, _Inside(below, None, value.after.unknown(), differs=True))

    def remaining(self, value: _Place) -> int:
        if isinstance(value, _Inside):
            return self._items.remaining(value.after.place) + 1
        return self._items.remaining(value.place)

    def _check_count(self, item: Symbol | None, least: int) -> None:
        """Look for as many values as items are asked for; of lexemes with many values the compiler counts them."""
        found: set[Hashable] = set()
        first = None if item is None else pushed((item,), None)
        pending: list[tuple[Stack | None, Typing]] = [] if first is None else [(first, Typing.first(NO_VALUES))]
        for _ in range(_MOST_SEARCHED + 20 * least):
            if not pending or len(found) >= least:
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
                taken = set(typing.names()) if text.is_key else set()
                for value in listed:
                    more = None if value in taken else after_value(stack, value)
                    if more is not None:
                        pending.append((more[0], typing.after((text.kind, value))))
            elif isinstance(symbol, int) and symbol in self._signs.events:
                pending.append((stack.below, typing.after(self._signs.events[symbol])))
            else:
                pending += [(head, typing) for head in reversed(self._unfolding.heads(stack))]
        if len(found) < least:
            raise UnsupportedError(
                "keyword 'uniqueItems' is not supported where so few values may be left",
                location=self._location,
                keyword="uniqueItems",
            )
