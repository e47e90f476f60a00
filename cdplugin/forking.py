"""Repair locks and thread pools in a forked child.

``os.fork`` copies the process but only the thread that calls it. A lock that another thread held stays locked in the child for
ever, what that thread was changing stays half changed, and a thread pool has no threads. So each owner of a lock or a pool
registers here what the child has to do: make a new lock (:func:`renew`), or run its own ``after_fork`` (:func:`watch`), which
also discards what a held lock was guarding.
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
        """Called in a forked child before anything else runs there. Must not raise, call a kernel, or wait."""


_owners: WeakSet[Any] = WeakSet()
_locks: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_functions: list[Callable[[], None]] = []


def watch(owner: Owner) -> None:
    """Call ``owner.after_fork()`` in every forked child, as long as the owner lives."""
    _owners.add(owner)


def renew(owner: object, lock: str) -> None:
    """Replace a lock, the attribute ``lock`` of an object or a module, by a new one in every forked child.

    Only for a lock whose data is valid at any time, even if another thread held it at the fork.
    """
    _locks[owner] = lock


def in_child(function: F) -> F:
    """Decorator: call this module-level function in every forked child."""
    _functions.append(function)
    return function


def is_free(lock: threading.Lock | threading.RLock) -> bool:  # type: ignore[valid-type]
    """Whether no thread holds a lock, or (of an ``RLock``) no other thread."""
    if not lock.acquire(blocking=False):  # type: ignore[attr-defined]
        return False
    lock.release()  # type: ignore[attr-defined]
    return True


def _renew_cached_properties() -> None:
    """Renew the locks that ``functools.cached_property`` has before Python 3.12."""
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
    """A thread pool that starts at its first use, and anew in a forked child."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        watch(self)

    def after_fork(self) -> None:
        """In a forked child: the pool's threads are gone, so forget it."""
        self._lock, self._pool = threading.Lock(), None

    def __reduce__(self) -> Any:
        return Threads, (self._most, self._name)  # a copy has threads of its own

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Call a function in a thread of the pool."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._most, thread_name_prefix=self._name)
            return self._pool.submit(function, *arguments)


def finish(futures: Iterable[Future[Any]]) -> None:
    """Cancel the calls that have not begun and wait for the others: for cleaning up after an exception."""
    wait([future for future in futures if not future.cancel()])
