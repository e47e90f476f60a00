"""A JSON value while it is written, compared with the values that it must not equal (``uniqueItems``).

A value is a str, a number (equal numbers are equal: 1 and 1.0), the bytes of ``null``, ``true`` or ``false``, a :class:`List`
or an :class:`Object`. A :class:`Typing` is the part of a value that is written so far. It is advanced by events, and keeps in
``others`` those parts of the other values that still agree with it, so an event takes time linear in their number.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from cdplugin.frontends.json_schema.distinct import NOTHING_SEEN, Seen, as_value
from cdplugin.ir import Member

Event = tuple[str, Hashable]
"""How a part of the text changes the value: one of the constants below, ``(KEY, name)`` or ``(VALUE, value)``."""
KEY, VALUE = "key", "value"
OPEN_LIST: Event = ("[", None)
OPEN_OBJECT: Event = ("{", None)
CLOSE: Event = ("close", None)
NOTHING: Event = ("", None)

_LIST_BYTES, _OBJECT_BYTES, _TYPING_BYTES, _VALUES_BYTES = 120, 300, 200, 160


class Hashed:
    """A value object with a precomputed hash. Two are equal if class, hash and :meth:`content` are equal."""

    __slots__ = ("_hash", "nbytes")

    def __init__(self, hashed: int, nbytes: int) -> None:
        self._hash = hashed
        self.nbytes = nbytes

    def content(self) -> object:
        """What equality compares, besides class and hash."""
        raise NotImplementedError

    def compared(self) -> tuple[object, ...]:
        """:meth:`content` as a tuple of parts, which are compared one after the other."""
        return (self.content(),)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and _are_equal(self, other)


class List(Hashed):
    """An array."""

    __slots__ = ("items",)

    def __init__(self, items: tuple[Hashable, ...]) -> None:
        self.items = items
        super().__init__(hash(items), _LIST_BYTES + 8 * len(items))

    def content(self) -> object:
        return self.items


class Object(Hashed):
    """An object; the order of its members does not matter."""

    __slots__ = ("members",)

    def __init__(self, members: dict[str, Hashable]) -> None:
        self.members = members
        super().__init__(hash(frozenset(members.items())), _OBJECT_BYTES + 100 * len(members))

    def content(self) -> object:
        return self.members


Container = (List, Object)


def read_any(text: bytes) -> Hashable:
    """The value of a JSON text."""
    return frozen(json.loads(text))


def frozen(data: Any) -> Hashable:
    """Convert a result of ``json.loads`` to a value. Recursive: only for constants of a schema, whose depth is bounded."""
    if isinstance(data, list):
        return List(tuple(map(frozen, data)))
    if isinstance(data, dict):
        return Object({name: frozen(member) for name, member in data.items()})
    return as_value(data)


def thawed(value: Hashable) -> Any:
    """The reverse of :func:`frozen`."""
    if isinstance(value, List):
        return [thawed(item) for item in value.items]
    if isinstance(value, Object):
        return {name: thawed(member) for name, member in value.members.items()}
    return json.loads(value) if isinstance(value, bytes) else value


def longest_string(value: Hashable) -> int:
    """UTF-8 bytes of the longest string in a value, names excluded; 0 if there is none."""
    longest = 0
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            longest = max(longest, len(one.encode("utf-8", "surrogatepass")))
        elif isinstance(one, List):
            pending += one.items
        elif isinstance(one, Object):
            pending += one.members.values()
    return longest


class Values(Hashed):
    """A persistent set of values. Sets are equal if the same values were added in the same order."""

    __slots__ = ("containers", "scalars")

    def __init__(self, scalars: Seen, containers: tuple[Hashable, ...], last: Hashable = None) -> None:
        self.scalars = scalars
        self.containers = containers
        nbytes = _VALUES_BYTES + scalars.nbytes + 8 * len(containers) + getattr(last, "nbytes", 0)
        super().__init__(hash((id(scalars), containers[-1:], len(containers))), nbytes)

    def content(self) -> object:
        return self.scalars, self.containers

    def __contains__(self, value: Hashable) -> bool:
        return value in (self.containers if isinstance(value, Container) else self.scalars)

    @property
    def count(self) -> int:
        """The number of values."""
        return self.scalars.count + len(self.containers)

    def adding(self, value: Hashable) -> Values:
        """This set with ``value``, which must not be in it."""
        if isinstance(value, Container):
            return Values(self.scalars, (*self.containers, value), value)
        return Values(self.scalars.adding(value), self.containers)


NO_VALUES = Values(NOTHING_SEEN, ())


class Chain:
    """A linked list that shares its tail (``below``). Equality compares the items, without recursion: lists may be long.

    ``merges``: whether lists found equal share their tails from then on, so that long lists are walked once. Only for lists
    whose ``top`` and ``below`` are all that they hold.
    """

    __slots__ = ("_hash", "below", "top")
    merges = False

    def __init__(self, top: Any, below: Any) -> None:
        self.top = top
        self.below = below
        self._hash = hash((top, below))

    def compared(self) -> tuple[object, ...]:
        """The parts that equality compares."""
        return self.below, self.top

    def __hash__(self) -> int:
        return self._hash

    def __iter__(self) -> Iterator[Any]:
        link: Chain | None = self
        while link is not None:
            yield link.top
            link = link.below

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is type(self) and _are_equal(self, other))


def _are_equal(first: object, second: object) -> bool:
    """Structural equality without recursion: arrays may be as deep as a text is long."""
    pending = [(first, second)]
    seen: set[tuple[int, int]] = set()  # compared pairs, by ids: parts are shared
    alike: list[tuple[Chain, Chain]] = []
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        if isinstance(a, (Hashed, Chain)):
            if type(a) is not type(b) or a._hash != b._hash:  # type: ignore[attr-defined]
                return False
            if (id(a), id(b)) not in seen:
                seen.add((id(a), id(b)))
                if isinstance(a, Chain) and a.merges:
                    alike.append((a, b))  # type: ignore[arg-type]
                pending += zip(a.compared(), b.compared(), strict=True)  # type: ignore[attr-defined]
        elif isinstance(a, Member) and isinstance(b, Member):
            if a.family is not b.family:
                return False
            pending.append((a.value, b.value))
        elif isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return False
            pending += [(x, y) for x, y in zip(a, b, strict=True) if x is not y]
        elif isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pending += [(one, b[name]) for name, one in a.items()]
        elif isinstance(b, (Hashed, Chain)) or a != b:
            return False
    for a, b in alike:
        b.below = a.below
    return True


class Typing(Chain):
    """A value as far as it is written: the last event, and the state before it.

    ``kind``: ``"["`` or ``"{"`` inside an array or object, ``""`` outside. ``count``: completed items or members; ``key``: the
    name whose value comes next. ``others``: the parts at this place of those other values that agree with all that is written.
    If none are left, the value differs from all of them whatever follows. Outside, ``others`` holds arrays and objects only.
    """

    __slots__ = ("count", "done", "key", "kind", "nbytes", "others", "outer")

    def __init__(
        self,
        before: Typing | None,
        event: Event,
        kind: str,
        outer: Typing | None,
        done: tuple[Any, Hashable] | None,
        count: int,
        key: str | None,
        others: Sequence[Hashable],
    ) -> None:
        super().__init__(event, before)
        self.kind = kind
        self.outer = outer
        self.done = done
        self.count = count
        self.key = key
        self.others = others
        self.nbytes = _TYPING_BYTES + 8 * len(others) + 2 * len(str(event[1]))

    @classmethod
    def first(cls, values: Values) -> Typing:
        """Nothing written yet, to be compared with ``values``."""
        return cls(None, NOTHING, "", None, None, 0, None, values.containers)

    def after(self, event: Event) -> Typing:
        """The state after one more event."""
        kind, what = event
        if not kind:
            return self
        if kind == KEY:
            assert isinstance(what, str)
            others: tuple[Hashable, ...] = tuple(one for one in self.others if isinstance(one, Object) and what in one.members)
            return Typing(self, event, self.kind, self.outer, self.done, self.count, what, others)
        if kind == VALUE:
            return self._with(self, event, what)
        if event is CLOSE:
            assert self.outer is not None
            return self.outer._with(self, event, self.complete())
        wanted: type = List if event is OPEN_LIST else Object
        others = tuple(one for one in self.expected() if isinstance(one, wanted))
        return Typing(self, event, kind, self, None, 0, None, others)

    def _with(self, before: Typing, event: Event, value: Hashable) -> Typing:
        """The state with one more value in this array or object, or outside."""
        if self.kind == "[":
            done: tuple[Any, Hashable] = (self.done, value)
        else:
            done = (self.done, (self.key, value))
        others = tuple(one for one, part in self._parts() if part == value)
        return Typing(before, event, self.kind, self.outer, done, self.count + 1, None, others)

    def _parts(self) -> Iterator[tuple[Hashable, Hashable]]:
        """The others that have a value at the place that comes next, each with that value."""
        for one in self.others:
            if self.kind == "":
                yield one, one
            elif self.kind == "[" and isinstance(one, List):
                if len(one.items) > self.count:
                    yield one, one.items[self.count]
            elif isinstance(one, Object) and self.key in one.members:
                yield one, one.members[self.key]

    def expected(self) -> Iterator[Hashable]:
        """The values that the others have at the place that comes next."""
        return (part for _, part in self._parts())

    def expected_names(self) -> Iterable[str]:
        """The names of the others' members, for a place where a name comes next."""
        objects = [one for one in self.others if isinstance(one, Object)]
        return dict.fromkeys(name for one in objects for name in one.members)

    def complete(self) -> Hashable:
        """The array or object that ends here, or outside the value that was written."""
        entries = self._entries()
        entries.reverse()
        if self.kind == "[":
            return List(tuple(entries))
        return Object(dict(entries)) if self.kind == "{" else entries[0][1]

    def names(self) -> list[str]:
        """The names of the object's members so far."""
        return [name for name, _ in self._entries()] if self.kind == "{" else []

    def _entries(self) -> list[Any]:
        """The items, or pairs of name and value, in reverse order."""
        entries: list[Any] = []
        done = self.done
        while done is not None:
            done, entry = done
            entries.append(entry)
        return entries
