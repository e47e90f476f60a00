"""A JSON value while it is typed, beside the values that it must not become equal to (``uniqueItems``).

A value is a str, a number (equal numbers are equal: 1 and 1.0), the text of ``null``, ``true`` or ``false`` as bytes, a
:class:`List` or an :class:`Object`. A :class:`Typing` is what has been written of one, an event at a time; it keeps those of
the other values, part by part, that still agree with all of it (``others``): an event costs as much as there are of them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from cdplugin.frontends.json_schema.distinct import NOTHING_SEEN, Seen, as_value
from cdplugin.ir import Member

Event = tuple[str, Hashable]
"""What a part of a text does to a value: one of the constants here, or ``(KEY, name)`` or ``(VALUE, value)``."""
KEY, VALUE = "key", "value"
OPEN_LIST: Event = ("[", None)
OPEN_OBJECT: Event = ("{", None)
CLOSE: Event = ("close", None)
NOTHING: Event = ("", None)

_LIST_BYTES, _OBJECT_BYTES, _TYPING_BYTES, _VALUES_BYTES = 120, 300, 200, 160


class Hashed:
    """What has its hash computed once. Equal are objects of one class whose hashes and :meth:`content` are equal."""

    __slots__ = ("_hash", "nbytes")

    def __init__(self, hashed: int, nbytes: int) -> None:
        self._hash = hashed
        self.nbytes = nbytes

    def content(self) -> object:
        """What tells two of them apart."""
        raise NotImplementedError

    def compared(self) -> tuple[object, ...]:
        """:meth:`content`, as parts that are compared one after the other."""
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
    """An object, whatever the order of its members."""

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
    """What ``json.loads`` gives as a value. The depth is that of constants in a schema, which is bounded."""
    if isinstance(data, list):
        return List(tuple(map(frozen, data)))
    if isinstance(data, dict):
        return Object({name: frozen(member) for name, member in data.items()})
    return as_value(data)


def thawed(value: Hashable) -> Any:
    """What ``json.loads`` would have given for a value."""
    if isinstance(value, List):
        return [thawed(item) for item in value.items]
    if isinstance(value, Object):
        return {name: thawed(member) for name, member in value.members.items()}
    return json.loads(value) if isinstance(value, bytes) else value


def longest_string(value: Hashable) -> int:
    """Bytes of the longest string in a value, names left out; 0: there is none."""
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
    """A set of values; adding makes another one. Equal ones are equal however they came to be, if in the same order."""

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
        """How many there are."""
        return self.scalars.count + len(self.containers)

    def adding(self, value: Hashable) -> Values:
        """These values and ``value``, which is not among them."""
        if isinstance(value, Container):
            return Values(self.scalars, (*self.containers, value), value)
        return Values(self.scalars.adding(value), self.containers)


NO_VALUES = Values(NOTHING_SEEN, ())


class Chain:
    """A list that shares what is below its top. Equal ones hold equal items; they may be too long to compare by recursion."""

    __slots__ = ("_hash", "below", "top")

    def __init__(self, top: Any, below: Any) -> None:
        self.top = top
        self.below = below
        self._hash = hash((top, below))

    def compared(self) -> tuple[object, ...]:
        """What is compared to tell whether two of them are equal."""
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
    """Whether two values, states or lists are equal. Arrays may be as deep as a text is long, so they are not compared by
    recursion.
    """
    pending = [(first, second)]
    seen: set[tuple[int, int]] = set()  # pairs, by ids: parts are shared
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        if isinstance(a, (Hashed, Chain)):
            if type(a) is not type(b) or a._hash != b._hash:  # type: ignore[attr-defined]
                return False
            if (id(a), id(b)) not in seen:
                seen.add((id(a), id(b)))
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
    return True


class Typing(Chain):
    """A value as far as it is written: an event and what was there before it.

    ``kind``: ``"["`` or ``"{"`` inside an array or an object, ``""`` outside. ``count``: of items or members that are complete;
    ``key``: the name whose value comes next. ``others``: parts of the other values at this place, of those that agree with all
    that was written; with none left, the value differs from them whatever comes. Outside, they are arrays and objects only.
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
        """Nothing yet, beside ``values``."""
        return cls(None, NOTHING, "", None, None, 0, None, values.containers)

    def after(self, event: Event) -> Typing:
        """With one event more."""
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
        """With a value more in this array or object, or outside."""
        if self.kind == "[":
            done: tuple[Any, Hashable] = (self.done, value)
        else:
            done = (self.done, (self.key, value))
        others = tuple(one for one, part in self._parts() if part == value)
        return Typing(before, event, self.kind, self.outer, done, self.count + 1, None, others)

    def _parts(self) -> Iterator[tuple[Hashable, Hashable]]:
        """The others that have a value at the place that comes next, with that value."""
        for one in self.others:
            if self.kind == "":
                yield one, one
            elif self.kind == "[" and isinstance(one, List):
                if len(one.items) > self.count:
                    yield one, one.items[self.count]
            elif isinstance(one, Object) and self.key in one.members:
                yield one, one.members[self.key]

    def expected(self) -> Iterator[Hashable]:
        """What the others have where a value comes next."""
        return (part for _, part in self._parts())

    def expected_names(self) -> Iterable[str]:
        """The names of the others' members, where a name comes next."""
        objects = [one for one in self.others if isinstance(one, Object)]
        return dict.fromkeys(name for one in objects for name in one.members)

    def complete(self) -> Hashable:
        """The array or object that ends here, or the value that was written."""
        entries = self._entries()
        entries.reverse()
        if self.kind == "[":
            return List(tuple(entries))
        return Object(dict(entries)) if self.kind == "{" else entries[0][1]

    def names(self) -> list[str]:
        """The names of the members that are there."""
        return [name for name, _ in self._entries()] if self.kind == "{" else []

    def _entries(self) -> list[Any]:
        """The items, or names with values; the last one first."""
        entries: list[Any] = []
        done = self.done
        while done is not None:
            done, entry = done
            entries.append(entry)
        return entries
