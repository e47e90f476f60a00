"""Objects with many declared members in any order, at a cost per step that does not grow with their number.

:class:`cdplugin.frontends.json_schema.members.Members` writes, for each set of names seen, one rule per name that may still
come. Here all names that are alike (same value schema, equally required or not) form a *group*, and a group is one tracked
lexeme (:class:`cdplugin.ir.TrackedLexeme`): what follows depends on the name that was typed, and the next lexeme of the group
excludes the names seen. The excluded names form a persistent trie: adding a name copies only its path, so a member costs as
much as its name is long.

Whichever name is typed, the number of names left in its group is the same. So whether the object may be closed, and whether a
comma may follow, is known without the name. Masks cannot know only which names are left; there the lexemes are shadows
(:mod:`cdplugin.engine.tracked`).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from functools import partial

from cdplugin.expr import EMPTY, Expr, cat, literal, literals
from cdplugin.frontends.json_schema.bracketed import Bracketed, Frame
from cdplugin.frontends.json_schema.distinct import common_length
from cdplugin.frontends.json_schema.distinct_values import Hashed
from cdplugin.frontends.json_schema.members import MEMBER_BYTES, BitSet, Entry, Undeclared
from cdplugin.frontends.json_schema.strings import spellings
from cdplugin.ir import GrammarIR, Part, Productive, Symbol, Texts, TrackedLexeme, ValueReader

FEWEST = 40
"""From this number of declared names on they are grouped."""
_PER_GROUP = 8
_PATH_WORK = 400
"""Units of work for each byte of a name that is put among those that were seen."""


def are_many(entries: Sequence[Entry], undeclared: Sequence[Undeclared]) -> bool:
    """Whether there are so many members, and so few groups, that groups pay off, and members differ in nothing else."""
    if len(entries) < FEWEST or any(more.marks or more.distinct is not None for more in undeclared):
        return False
    if any(len(entry.values) != 1 or entry.values[0][1] for entry in entries):
        return False
    return _PER_GROUP * len({(entry.values[0][0], entry.required) for entry in entries}) <= len(entries)


class _Names(Hashed):
    """A set of names of one group. Equal sets compare equal, whatever the order of insertion."""

    __slots__ = ("bits", "excluded")

    def __init__(self, bits: BitSet, excluded: Texts | None) -> None:
        self.bits = bits
        self.excluded = excluded
        super().__init__(hash(bits), _NAMES_BYTES + bits.bit_length() // 8)

    def content(self) -> object:
        return self.bits


class _State(Hashed):
    """The parameter of :class:`ManyMembers`. Its hash is computed once, since it holds long sets.

    ``seen``: the names seen of each group, None where they are not known. ``after``: None, or the group of the last name, in a
    state where ``left`` is rounded down (:func:`_rounded`) to a lower bound.
    """

    __slots__ = ("after", "count", "left", "seen", "started")

    def __init__(
        self,
        started: bool,
        seen: tuple[_Names | None, ...],
        left: tuple[int, ...],
        count: int,
        more: int = 0,
        after: int | None = None,
    ) -> None:
        self.started = started
        self.seen = seen
        self.left = left
        self.count = count
        self.after = after
        super().__init__(hash(self.content()), _STATE_BYTES + 40 * len(left) + more)

    def content(self) -> object:
        return self.started, self.left, self.count, self.after, self.seen


_STATE_BYTES = 200
_NAMES_BYTES = 350
_NONE = _Names(BitSet(0), None)


class _Group:
    """Names that are alike: the same ``value`` follows each. ``lead``: the lexeme for the white space before a name and the
    bytes that all names begin with.
    """

    def __init__(self, ir: GrammarIR, entries: Sequence[Entry], space: Expr) -> None:
        ((self.value, _),) = entries[0].values
        self.required = entries[0].required
        self.number = {entry.name: i for i, entry in enumerate(entries)}
        texts = sorted(text for entry in entries for text in spellings(entry.name))
        begun = texts[0][: min(common_length(texts[0], texts[-1]), min(map(len, texts)) - 1)]
        self._n_begun = len(begun)
        self.lead = ir.lexeme(cat(space, literal(begun)), "key")
        reader = ValueReader(lambda text: json.loads(begun + text), EMPTY)
        self._texts = tuple([text[len(begun) :] for text in texts])  # the closing quote makes these texts prefix-free
        self.lexeme, self.twin = ir.track(literals(self._texts), reader, "key")

    def adding(self, seen: _Names, name: str) -> _Names | None:
        """``seen`` with ``name`` added; None if it has that name already, or the name is of another group."""
        bit = 1 << self.number[name] if name in self.number else 0
        if bit == 0 or seen.bits & bit:
            return None
        added = tuple([text[self._n_begun :] for text in spellings(name)])
        return _Names(BitSet(seen.bits | bit), Texts(self._texts, seen.excluded, added))


_MOST_KEPT = 20_000
"""Numbers in the keys of :attr:`ManyMembers._rests`, which a grammar keeps for all its arenas."""
_EXACT = 8
"""Numbers below this are not rounded, and no other number is rounded to them."""


def _rounded(n: int) -> int:
    """``n`` with all but its three leading binary digits set to 0."""
    cut = max(n.bit_length() - 3, 0)
    return n >> cut << cut


class ManyMembers(Bracketed[_State, tuple[list[bool], list[Undeclared]]]):
    """The members of an object and its closing brace, in any order.

    A parameter is a :class:`_State`: for each group the names that were ``seen`` (None: not known) and how many are ``left``,
    and the number of members as far as the bounds need it. ``space``: what stands before a name.

    Masks are computed from what follows any name of a group. Tokens that reach into a second name are followed one by one, so
    the numbers left may be rounded there, and one rounded state serves many exact ones.
    """

    name = "members"

    def __init__(
        self, frame: Frame, entries: Sequence[Entry], undeclared: Sequence[Undeclared], space: Expr, colon: Symbol
    ) -> None:
        super().__init__(frame)
        kinds: dict[tuple[Symbol, bool], list[Entry]] = {}
        for entry in entries:
            kinds.setdefault((entry.values[0][0], entry.required), []).append(entry)
        self._groups = [_Group(frame.ir, some, space) for some in kinds.values()]
        self._undeclared = undeclared
        self._colon = colon
        self._unknown = (None,) * len(self._groups)
        self._rests: dict[tuple[int, tuple[int, ...], int, bool], tuple[Symbol, Symbol, Part]] = {}
        left = tuple(len(group.number) for group in self._groups)
        self.first = _State(False, (_NONE,) * len(left), left, 0)

    def lexemes(self) -> Iterable[tuple[Symbol, Symbol, Symbol]]:
        """For each group of names its lead, its lexeme and the lexeme's twin."""
        return ((group.lead, group.lexeme, group.twin) for group in self._groups)

    def uses(self) -> Iterable[Symbol]:
        yield from (*self._signs_between(), self._colon)
        for group in self._groups:
            yield from (group.lead, group.lexeme, group.twin, group.value)
        for more in self._undeclared:
            yield from (more.key, more.value)

    def _can_be_closed(self, value: _State, productive: Productive) -> bool:
        usable, undeclared = self._usable(productive)
        return self._can_close(value.left, value.count, usable, bool(undeclared))

    def expand(self, value: _State, productive: Productive) -> Iterable[Sequence[Part]]:
        started, seen, left, count = value.started, value.seen, value.left, value.count
        usable, undeclared = self._finally_usable(productive)
        lead = self._lead(started)
        if self._missing(left) == 0 and count >= self._low:
            yield (self._closings[started],)
        if self._is_full(count):
            return
        after_count = min(count + 1, self._most)
        is_simple = self._high is None and after_count >= self._low and all(usable)  # then the rest can always be closed
        for g, names in enumerate(seen):
            if left[g] and usable[g]:
                after = (*left[:g], left[g] - 1, *left[g + 1 :])
                if not is_simple and not self._can_close(after, after_count, usable, bool(undeclared)):
                    continue
                group = self._groups[g]
                if names is not None:
                    yield (*lead, group.lead, self._member(g, seen, names, after, after_count, is_simple))
                    continue
                is_rounded = value.after is not None
                for rest in (tuple(map(_rounded, after)), left) if is_rounded and left[g] >= _EXACT else (after,):
                    yield (*lead, group.lead, group.twin, *self._rest(g, rest, after_count, is_rounded))
        if undeclared and self._can_close(left, after_count, usable, True):
            following = self._ir.member(self, _State(True, seen, left, after_count, after=value.after))
            for more in undeclared:
                yield (*lead, more.key, more.value, following)

    def _rest(self, g: int, left: tuple[int, ...], count: int, is_rounded: bool) -> tuple[Symbol, Symbol, Part]:
        """What follows any name of a group."""
        key = (g, left, count, is_rounded)
        rest = self._rests.get(key)
        if rest is None:
            state = _State(True, self._unknown, left, count, after=g if is_rounded else None)
            rest = (self._colon, self._groups[g].value, self._ir.member(self, state))
            if is_rounded:  # few of these exist, unless there are many groups
                if len(self._rests) * len(left) >= _MOST_KEPT:
                    self._rests.clear()
                self._rests[key] = rest
        return rest

    def _member(
        self, g: int, seen: tuple[_Names | None, ...], names: _Names, left: tuple[int, ...], count: int, is_simple: bool
    ) -> TrackedLexeme:
        """A tracked name of a group whose names seen are known, its value, and the members after it."""
        group = self._groups[g]
        rest = self._rest(g, tuple(map(_rounded, left)) if is_simple else left, count, is_simple)
        return TrackedLexeme(group.lexeme, names.excluded, partial(self._after_name, g, seen, left, count), rest)

    def _after_name(
        self, g: int, seen: tuple[_Names | None, ...], left: tuple[int, ...], count: int, name: Hashable
    ) -> Sequence[Part] | None:
        """What follows the name ``name`` of group ``g``; None if it is among the names seen."""
        assert isinstance(name, str)
        group, names = self._groups[g], seen[g]
        assert names is not None
        now = group.adding(names, name)
        if now is None:
            return None
        self.work += _PATH_WORK * len(name)
        after = _State(True, (*seen[:g], now, *seen[g + 1 :]), left, count, now.nbytes)
        return (self._colon, group.value, self._ir.member(self, after))

    def representative(self, value: _State, of: _State | None = None) -> Part | None:
        left = value.left
        if value.after is not None and of is not None and of.after is None:
            g = value.after
            left = (*of.left[:g], of.left[g] - 1, *of.left[g + 1 :])
        return self._ir.member(self, _State(True, self._unknown, left, value.count)) if value.started else None

    def remaining(self, value: _State) -> int:
        return max(self._missing(value.left), self._low - value.count)

    def least_bytes(self, value: _State) -> int:
        return MEMBER_BYTES * self.remaining(value) + 1

    def _missing(self, left: tuple[int, ...]) -> int:
        """How many required names are still to come."""
        return sum(n for n, group in zip(left, self._groups, strict=True) if group.required)

    def _usable(self, productive: Productive) -> tuple[list[bool], list[Undeclared]]:
        """Whether names of each group can be written, and the undeclared members that can."""
        groups = [all(map(productive, (self._colon, group.lead, group.lexeme, group.value))) for group in self._groups]
        return groups, [more for more in self._undeclared if productive(more.key) and productive(more.value)]

    def _can_close(self, left: tuple[int, ...], count: int, usable: list[bool], has_undeclared: bool) -> bool:
        missing = self._missing(left)
        if any(n and group.required and not can for n, group, can in zip(left, self._groups, usable, strict=True)):
            return False
        if self._high is not None and max(count + missing, self._low) > self._high:
            return False
        return has_undeclared or count + sum(n for n, can in zip(left, usable, strict=True) if can) >= self._low
