"""Members in any order of objects that declare many names: what a step takes does not grow with how many there are.

:class:`cdplugin.frontends.json_schema.members.Members` makes a rule for each name that may still come, after each set of names
that came before. Here names that are alike (same values, required or not) are one lexeme, which keeps its text
(:class:`cdplugin.ir.TrackedLexeme`): what follows depends on the name
that was typed, and the next lexeme is any of the names but those that were seen. These are a tree that is copied along the path
of one name, so that a member costs as much as its name is long.

Whatever the name is, as many names are left of its kind: whether the object may be closed and whether a comma may follow is
known without the name, and what masks cannot know is which names are left. Those are shadows (:mod:`cdplugin.engine.tracked`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence

from cdplugin.expr import EMPTY, Expr, cat, literal, literals
from cdplugin.frontends.json_schema.bracketed import Bracketed
from cdplugin.frontends.json_schema.distinct import ByteNode, with_text
from cdplugin.frontends.json_schema.members import BitSet, Entry, Further
from cdplugin.frontends.json_schema.strings import spellings
from cdplugin.ir import GrammarIR, Part, Symbol, TrackedLexeme, ValueReader

Productive = Callable[[Symbol], bool]

FEWEST = 40
"""Declared names from which on they are grouped."""
_PER_GROUP = 8
_PATH_WORK = 400
"""Units of work for each byte of a name that is put among those that were seen."""


def are_many(entries: Sequence[Entry], further: Sequence[Further]) -> bool:
    """Whether members are so many, and so few kinds of them, that groups are worth while, and nothing else tells them apart."""
    if len(entries) < FEWEST or any(more.marks or more.distinct is not None for more in further):
        return False
    if any(len(entry.values) != 1 or entry.values[0][1] for entry in entries):
        return False
    return _PER_GROUP * len({(entry.values[0][0], entry.required) for entry in entries}) <= len(entries)


class _Names:
    """Some names of a group. Sets of the same names are equal, in whatever order these came."""

    __slots__ = ("bits", "excluded", "nbytes")

    def __init__(self, bits: BitSet, excluded: ByteNode, nbytes: int) -> None:
        self.bits = bits
        self.excluded = excluded
        self.nbytes = nbytes

    def __hash__(self) -> int:
        return hash(self.bits)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Names) and self.bits == other.bits


class _State:
    """What came before: the parameter of :class:`ManyMembers`. Its hash is computed once, as it holds long sets."""

    __slots__ = ("_hash", "count", "left", "nbytes", "seen", "started")

    def __init__(
        self, started: bool, seen: tuple[_Names | None, ...], left: tuple[int, ...], count: int, more: int = 0
    ) -> None:
        self.started = started
        self.seen = seen
        self.left = left
        self.count = count
        self.nbytes = _STATE_BYTES + 40 * len(left) + more
        self._hash = hash((started, seen, left, count))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _State) and (
            self._hash == other._hash
            and (self.started, self.left, self.count, self.seen) == (other.started, other.left, other.count, other.seen)
        )


_STATE_BYTES = 200
_NONE = _Names(BitSet(0), ByteNode(False, {}), 0)
_NAMES_BYTES, _NODE_BYTES = 150, 700


class _Group:
    """Names that are alike: ``value`` follows each of them. ``lead``: a lexeme for what stands before a name and the bytes with
    which all of them begin.
    """

    def __init__(self, ir: GrammarIR, entries: Sequence[Entry], space: Expr) -> None:
        ((self.value, _),) = entries[0].values
        self.required = entries[0].required
        self.number = {entry.name: i for i, entry in enumerate(entries)}
        texts = [text for entry in entries for text in spellings(entry.name)]
        begun = _common(min(texts), max(texts))[: min(map(len, texts)) - 1]
        self._n_begun = len(begun)
        self.lead = ir.lexeme(cat(space, literal(begun)), "key")
        reader = ValueReader(lambda text: json.loads(begun + text), EMPTY)
        self.lexeme, self.twin = ir.track(literals(text[len(begun) :] for text in texts), reader, "key")

    def adding(self, seen: _Names, name: str) -> _Names | None:
        """``seen`` and ``name``; None if that is among them."""
        bit = 1 << self.number[name]
        if seen.bits & bit:
            return None
        tree, length = seen.excluded, 0
        for text in spellings(name):
            rest = text[self._n_begun :]
            tree = with_text(tree, rest.decode("latin-1"))
            length += len(rest)
        return _Names(BitSet(seen.bits | bit), tree, _NAMES_BYTES + seen.bits.bit_length() // 8 + _NODE_BYTES * length)


def _common(a: bytes, b: bytes) -> bytes:
    """The bytes with which two texts begin."""
    n = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return a[:n]


class ManyMembers(Bracketed):
    """The members of an object and its closing brace, in any order.

    A parameter is a :class:`_State`: for each group the names that were ``seen`` (None: they are not known) and how many are
    ``left``, and the number of members as far as the bounds ask for it. ``space``: what stands before a name.
    """

    name = "members"

    def __init__(
        self,
        ir: GrammarIR,
        entries: Sequence[Entry],
        further: Sequence[Further],
        space: Expr,
        colon: Symbol,
        comma: Symbol,
        closings: tuple[Symbol, Symbol],
        *,
        low: int,
        high: int | None,
    ) -> None:
        super().__init__(ir, comma, closings, low=low, high=high)
        kinds: dict[tuple[Symbol, bool], list[Entry]] = {}
        for entry in entries:
            kinds.setdefault((entry.values[0][0], entry.required), []).append(entry)
        self._groups = [_Group(ir, some, space) for some in kinds.values()]
        self._further = further
        self._colon = colon
        self._final: tuple[list[bool], list[Further]] | None = None

    def lexemes(self) -> Iterable[tuple[Symbol, Symbol, Symbol]]:
        """Of each group of names its lead, its lexeme and that one's twin."""
        return ((group.lead, group.lexeme, group.twin) for group in self._groups)

    def start(self) -> Symbol:
        """The members right after the opening brace."""
        left = tuple(len(group.number) for group in self._groups)
        return self._ir.instance(self, _State(False, (_NONE,) * len(left), left, 0))

    def uses(self) -> Iterable[Symbol]:
        yield from (*self._signs_between(), self._colon)
        for group in self._groups:
            yield from (group.lead, group.lexeme, group.twin, group.value)
        for more in self._further:
            yield from (more.key, more.value)

    def satisfiable(self, value: Hashable, productive: Productive) -> bool:
        assert isinstance(value, _State)
        return self._can_close(value.left, value.count, self._usable(productive), any(self._usable_further(productive)))

    def expand(self, value: Hashable, productive: Productive) -> Iterable[Sequence[Part]]:
        assert isinstance(value, _State)
        started, seen, left, count = value.started, value.seen, value.left, value.count
        if self._final is None:  # rules are made when it is settled what is productive
            self._final = self._usable(productive), list(self._usable_further(productive))
        usable, further = self._final
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
                if is_simple or self._can_close(after, after_count, usable, bool(further)):
                    yield (*lead, self._groups[g].lead, *self._member(g, seen, names, after, after_count))
        if further and self._can_close(left, after_count, usable, True):
            following = self._ir.member(self, _State(True, seen, left, after_count))
            for more in further:
                yield (*lead, more.key, more.value, following)

    def _member(
        self, g: int, seen: tuple[_Names | None, ...], names: _Names | None, left: tuple[int, ...], count: int
    ) -> Sequence[Part]:
        """A member of a group, and those after it."""
        group = self._groups[g]
        rest = (self._colon, group.value, self._ir.member(self, _State(True, (None,) * len(seen), left, count)))
        if names is None:
            return (group.twin, *rest)

        def then(name: Hashable) -> Sequence[Part] | None:
            assert isinstance(name, str)
            now = group.adding(names, name)
            if now is None:
                return None
            self.work += _PATH_WORK * len(name)
            after = _State(True, (*seen[:g], now, *seen[g + 1 :]), left, count, now.nbytes)
            return (self._colon, group.value, self._ir.member(self, after))

        return (TrackedLexeme(group.lexeme, self._excluded(names), then, rest),)

    @staticmethod
    def _excluded(names: _Names) -> Expr | None:
        return names.excluded.expression if names.bits else None

    def representative(self, value: Hashable) -> Part | None:
        assert isinstance(value, _State)
        unknown = (None,) * len(value.seen)
        return self._ir.member(self, _State(True, unknown, value.left, value.count)) if value.started else None

    def remaining(self, value: Hashable) -> int:
        assert isinstance(value, _State)
        return max(self._missing(value.left), self._low - value.count)

    def _missing(self, left: tuple[int, ...]) -> int:
        """How many required names are still to come."""
        return sum(n for n, group in zip(left, self._groups, strict=True) if group.required)

    def _usable(self, productive: Productive) -> list[bool]:
        return [productive(group.value) for group in self._groups]

    def _usable_further(self, productive: Productive) -> Iterable[Further]:
        return (more for more in self._further if productive(more.key) and productive(more.value))

    def _can_close(self, left: tuple[int, ...], count: int, usable: list[bool], has_further: bool) -> bool:
        missing = self._missing(left)
        if any(n and group.required and not can for n, group, can in zip(left, self._groups, usable, strict=True)):
            return False
        if self._high is not None and max(count + missing, self._low) > self._high:
            return False
        return has_further or count + sum(n for n, can in zip(left, usable, strict=True) if can) >= self._low
