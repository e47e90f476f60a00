"""What a forked child finds: no lock that another thread of its parent held, no pool whose threads are gone.

``os.fork`` copies the memory of a process and only the thread that calls it. A lock that another thread held stays locked in
the child for ever, what that thread was changing stays half changed, and a pool of threads has none. So whatever owns a lock
or a pool says here what the child has to do: take a new lock, and, where the old one was held, give up what it guarded.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

F = TypeVar("F", bound=Callable[[], None])
T = TypeVar("T")


class Owner(Protocol):
    """An object with locks or pools."""

    def after_fork(self) -> None:
        """Called in a forked child, before anything else runs there. Raises nothing, calls no kernel, and waits for nothing."""


_owners: WeakSet[Any] = WeakSet()
_locks: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_functions: list[Callable[[], None]] = []


def watch(owner: Owner) -> None:
    """Have ``owner.after_fork()`` called in every forked child, as long as the owner lives."""
    _owners.add(owner)


def renew(owner: object, lock: str) -> None:
    """Have a lock, an attribute of an object or of a module, be a new one in every forked child. For one that guards what is
    sound there all the same.
    """
    _locks[owner] = lock


def in_child(function: F) -> F:
    """Decorator: have a module's function called in every forked child."""
    _functions.append(function)
    return function


def is_free(lock: threading.Lock | threading.RLock) -> bool:  # type: ignore[valid-type]
    """Whether nobody, or (of an ``RLock``) this thread, holds a lock."""
    if not lock.acquire(blocking=False):  # type: ignore[attr-defined]
        return False
    lock.release()  # type: ignore[attr-defined]
    return True


def _renew_cached_properties() -> None:
    """Before Python 3.12, ``functools.cached_property`` has a lock of its own."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == __package__:
            for owner in [value for value in vars(module).values() if isinstance(value, type)]:
                for value in vars(owner).values():
                    if isinstance(value, cached_property) and hasattr(value, "lock"):
                        value.lock = threading.RLock()


def _after_fork() -> None:
    if sys.version_info < (3, 12):
        _renew_cached_properties()
    for owner, lock in list(_locks.items()):
        setattr(owner, lock, threading.Lock())
    for function in _functions:
        function()
    for owner in list(_owners):
        owner.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Threads:
    """A pool of threads that starts at its first use; in a forked child it starts anew."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        watch(self)

    def after_fork(self) -> None:
        """In a forked child: there are no threads."""
        self._lock, self._pool = threading.Lock(), None

    def __reduce__(self) -> Any:
        return Threads, (self._most, self._name)  # a copy has threads of its own

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Have a thread call a function."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
            return self._pool.submit(function, *arguments)


def finish(futures: Iterable[Future[Any]]) -> None:
    """Wait until the calls that have begun are over, and cancel the others: for the way out of an exception."""
    wait([future for future in futures if not future.cancel()])
