"""Caches that are bounded by bytes, and an account of what all caches of the process hold.

A cache that is bounded by its number of entries has no bound on memory: one entry may be a tree of 16 MB. So a cache whose
keys or values grow with what users send is a :class:`ByteLru`, or a function under :func:`bounded_cache`; these functions share
one cache. A function under :func:`fixed_cache` has keys and values of bounded size. :func:`account` and :func:`budgets` report
what all of them hold and may hold.

>>> @bounded_cache
... def doubled(text: str) -> str:
...     return text + text
>>> doubled("ab") is doubled("ab"), account()["shared by compilations"] > 0
(True, True)
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from hashlib import blake2b
from sys import getsizeof
from typing import Any, Generic, ParamSpec, TypeVar

from cdplugin import forking
from cdplugin.tally import apart

Value = TypeVar("Value")
Parameters = ParamSpec("Parameters")

SHARED_BYTES = 16 << 20
"""Bytes of expressions and other values that all compilations of the process share: enough for 2,500 schemas of MaskBench. With
four times as much, 5,555 new schemas had 3.5 % fewer misses.
"""
_ENTRY_BYTES = 256
"""Bytes that a cache itself spends on an entry: its place in the table, the record, the key's tuple."""
_LARGEST = 4
"""An entry larger than this fraction (1/4) of the budget is not stored: it would displace too many others."""
_LONG = 64  # a text of more characters, or a tuple of more members, is hashed as a key
_LONG_BYTES = 2048  # the same for bytes: only few large values have such keys, and hashing takes longer than storing them

_caches: weakref.WeakSet[ByteLru[Any]] = weakref.WeakSet()
_gauges: dict[str, tuple[Callable[[], int], int]] = {}


def account() -> dict[str, int]:
    """Bytes that each cache of the process holds, by name. Caches of the same name (grammars of each compiler) are added up."""
    out = {name: gauge() for name, (gauge, _) in _gauges.items()}
    for cache in list(_caches):
        out[cache.name] = out.get(cache.name, 0) + cache.nbytes
    return out


def budgets() -> dict[str, int]:
    """The upper bound of each entry of :func:`account`, by name."""
    out = {name: most for name, (_, most) in _gauges.items()}
    for cache in list(_caches):
        out[cache.name] = out.get(cache.name, 0) + cache.max_bytes
    return out


def register(name: str, gauge: Callable[[], int], max_bytes: int) -> None:
    """Add ``name`` to :func:`account`, with the bytes that ``gauge()`` returns."""
    _gauges[name] = (gauge, max_bytes)


class Node:
    """A node of trees that share subtrees (:class:`cdplugin.expr.Expr`). All caches together count a node once.

    ``holders``: a reference count, 0 at first: how many counted nodes and cache entries refer to it.
    """

    __slots__ = ("holders",)

    holders: int

    def weigh(self) -> tuple[int, Sequence[Node]]:
        """Bytes of the node itself, and its parts."""
        raise NotImplementedError


_nodes_lock = threading.Lock()
forking.renew(sys.modules[__name__], "_nodes_lock")


def _count_holders(roots: Sequence[Node], change: int) -> int:
    """Add a reference to trees (1) or drop one (-1); returns the bytes of the nodes that became referenced, or unreferenced."""
    if not roots:
        return 0
    total = 0
    pending = list(roots)
    with _nodes_lock:
        while pending:
            node = pending.pop()
            before = node.holders
            node.holders += change
            if before == 0 or node.holders == 0:
                nbytes, parts = node.weigh()
                total += nbytes
                pending += parts
    return total


@dataclass(eq=False, slots=True)
class _Entry:
    """A value, its bytes without ``nodes``, whether it was asked for since eviction last passed it, and a unique number."""

    value: Any
    nbytes: int
    nodes: Sequence[Node]
    serial: int
    used: bool = False


class ByteLru(Generic[Value]):
    """A map of values by key that holds at most ``max_bytes``; thread-safe.

    Eviction is "second chance" (Corbató, 1968), an approximation of LRU that needs no lock on a hit. Values may grow:
    :meth:`resize`. ``largest``: larger entries are not stored.
    """

    def __init__(self, name: str, max_bytes: int, largest: int | None = None) -> None:
        self.name = name
        self.max_bytes = max_bytes
        self.largest = max_bytes // _LARGEST if largest is None else largest
        self.nbytes = 0
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._serial = 0
        _caches.add(self)
        forking.renew(self, "_lock")

    def __len__(self) -> int:
        return len(self._entries)

    def values(self) -> list[Value]:
        """The values that are stored now."""
        with self._lock:
            return [entry.value for entry in self._entries.values()]

    def get(self, key: Hashable, default: Any = None) -> Any:
        """The value of ``key``, or ``default``."""
        entry = self._entries.get(key)
        if entry is None:
            return default
        entry.used = True
        return entry.value

    def put(self, key: Hashable, value: Value, nbytes: int, nodes: Sequence[Node] = ()) -> tuple[Value, int]:
        """Store ``value``; returns the value of ``key`` (the earlier one, if another thread was faster) and the number of its
        entry, 0 if it is too large to be stored.

        ``nbytes``: of value and key without ``nodes``; nodes are counted with all their parts.
        """
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                return entry.value, entry.serial
            self._serial += 1
            entry = _Entry(value, nbytes + _ENTRY_BYTES, nodes, self._serial)
            total = entry.nbytes + _count_holders(nodes, 1)
            if total > self.largest:
                _count_holders(nodes, -1)
                return value, 0
            self._entries[key] = entry
            self.nbytes += total
            gone = self._evict()
        del gone  # outside the lock: freeing it may take long
        return value, entry.serial

    def resize(self, key: Hashable, serial: int, nbytes: int) -> None:
        """Record that the entry with this number now takes ``nbytes``."""
        gone: list[_Entry] = []
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry.serial != serial:
                return
            nbytes += _ENTRY_BYTES
            self.nbytes += nbytes - entry.nbytes
            entry.nbytes = nbytes
            if nbytes > self.largest:
                gone.append(self._remove(key))
            gone += self._evict()
        del gone

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            gone = [self._remove(key) for key in list(self._entries)]
        del gone

    def _evict(self) -> list[_Entry]:
        """Remove entries until the rest fits; one that was used meanwhile gets a second chance."""
        gone = []
        while self.nbytes > self.max_bytes:
            key, entry = next(iter(self._entries.items()))
            if entry.used:
                entry.used = False
                self._entries.move_to_end(key)
            else:
                gone.append(self._remove(key))
        return gone

    def _remove(self, key: Hashable) -> _Entry:
        entry = self._entries.pop(key)
        self.nbytes -= entry.nbytes + _count_holders(entry.nodes, -1)
        return entry


class Account:
    """The bytes of one growing object, part by part. It resizes the object's entry in a :class:`ByteLru`, if there is one.

    It keeps neither the object nor the cache alive. Different accounts may be used by different threads without a lock; one
    account by one thread at a time.
    """

    __slots__ = ("_home", "_parts", "nbytes")

    def __init__(self) -> None:
        self.nbytes = 0
        self._parts: dict[str, int] = {}
        self._home: tuple[weakref.ref[ByteLru[Any]], Hashable, int] | None = None

    def note(self, part: str, nbytes: int) -> None:
        """Record that ``part`` now takes ``nbytes``."""
        self.nbytes += nbytes - self._parts.get(part, 0)
        self._parts[part] = nbytes
        self._tell()

    def keep_in(self, cache: ByteLru[Any], key: Hashable, serial: int, noted: int = -1) -> None:
        """Resize the entry of ``cache`` with this key and number from now on; ``noted``: the bytes that the entry has now."""
        self._home = (weakref.ref(cache), key, serial)
        if self.nbytes != noted:
            self._tell()

    def _tell(self) -> None:
        if self._home is not None:
            reference, key, serial = self._home
            cache = reference()
            if cache is not None:
                cache.resize(key, serial, self.nbytes)


def size_of(*values: Any, nodes: list[Node] | None = None) -> int:
    """Bytes of values and their members. What has ``nbytes`` reports itself. Trees are appended to ``nodes``, not counted."""
    total = 0
    level: Sequence[Any] = values
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is tuple or kind is list:
                below += item
            elif kind not in _WITHOUT_NBYTES:
                if isinstance(item, Node):
                    total -= getsizeof(item)
                    if nodes is not None:
                        nodes.append(item)
                    continue
                nbytes = getattr(item, "nbytes", None)
                if nbytes is not None:
                    total += nbytes - getsizeof(item)
                if isinstance(item, (tuple, list)):
                    below += item
        total += sum(map(getsizeof, level))
        level = below
    return total


_WITHOUT_NBYTES = frozenset((tuple, list, str, bytes, int, float, bool, type(None)))
"""Types whose values have no ``nbytes``."""


def short_key(key: Hashable) -> Hashable:
    """A small key that stands for ``key``: long texts, and long tuples of plain values, are replaced by their hashes."""
    if isinstance(key, (str, bytes)):
        if len(key) <= (_LONG if isinstance(key, str) else _LONG_BYTES):
            return key
        return _digest(key if isinstance(key, bytes) else key.encode("utf-8", "surrogatepass"), key)
    if type(key) is not tuple:
        return key
    parts = tuple([short_key(part) for part in key])
    if len(parts) > _LONG and all(type(part) in (str, bytes, int, bool, _Digest) for part in parts):
        return _digest(repr(parts).encode(), key)
    return parts


class _Digest(bytes):
    """The hash of a key; never equal to a plain ``bytes``."""

    def __eq__(self, other: object) -> bool:
        return type(other) is _Digest and bytes.__eq__(self, other)

    __hash__ = bytes.__hash__


def _digest(content: bytes, key: Hashable) -> _Digest:
    return _Digest(blake2b(content, digest_size=32, person=type(key).__name__.encode()).digest())


_shared: ByteLru[Any] = ByteLru("shared by compilations", SHARED_BYTES, SHARED_BYTES // 2)


def bounded_cache(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Decorator: memoise a function of positional, hashable arguments in the cache that all such functions share."""
    entries, put = _shared._entries, _shared.put

    @wraps(function)
    def cached(*args: Any) -> Value:
        key = (function, *args)
        entry = entries.get(key)
        if entry is not None:
            entry.used = True
            return entry.value
        with apart():
            value = function(*args)  # type: ignore[call-arg]
        nodes: list[Node] = []
        nbytes = size_of(value, *args, nodes=nodes)
        return put(key, value, nbytes, nodes)[0]

    return cached  # type: ignore[return-value]


_fixed: list[tuple[Any, int]] = []
register("of fixed size", lambda: sum(cache.cache_info().currsize * size for cache, size in _fixed), 0)


def fixed_cache(maxsize: int, entry_bytes: int) -> Callable[[Callable[Parameters, Value]], Callable[Parameters, Value]]:
    """``lru_cache`` for functions whose entries take at most ``entry_bytes``, whatever users send."""

    def decorate(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
        cached = lru_cache(maxsize)(function)
        _fixed.append((cached, entry_bytes))
        gauge, most = _gauges["of fixed size"]
        _gauges["of fixed size"] = (gauge, most + maxsize * entry_bytes)
        return cached  # type: ignore[return-value]

    return decorate
