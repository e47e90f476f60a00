"""Memory for large tables that arenas have done with, kept for the next ones.

A fresh page costs its first user a fault: 2.5 µs for 4 KiB in a virtual machine that was measured, and a grammar takes some
400 pages. From malloc, large tables would leave holes where they grew: a process through which thousands of grammars pass would
grow for a long time. So they have pages of their own, and a bounded amount of these is handed on.
"""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Hashable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from cdplugin import forking, memory

LARGE = 128 << 10
"""Bytes from which a table has pages of its own."""
_MOST_KEPT = 32 << 20
_HUGE = 4 << 20  # bytes: while somebody needs so many at once, none wait for others
_REFERENCES = 2  # in `release_room`: the caller's list, the argument of getrefcount


class Waiting(NamedTuple):
    """A block that waits for a user: how many of its bytes have been in use, and what its last user noted."""

    block: np.ndarray
    nbytes: int
    note: Any


_lock = threading.RLock()  # an arena may die, and release, wherever Python collects garbage
_free: dict[Hashable, list[Waiting]] = {}  # by size, or by kind; what was asked for last is at the end
_kept = 0


@forking.in_child
def _after_fork() -> None:
    """Forget the pages that wait, if another thread was just changing them."""
    global _lock, _kept
    if not forking.is_free(_lock):
        _lock = threading.RLock()
        _free.clear()
        _kept = 0


def rounded(nbytes: int) -> int:
    """The size of a block for so many bytes: one of four between a power of two and the next, so that blocks can be handed on
    and little of a large one is wasted.
    """
    step = max(1 << max((nbytes - 1).bit_length() - 3, 0), 4096)
    return -(-nbytes // step) * step


def acquire(nbytes: int) -> np.ndarray:
    """uint8, :func:`rounded` ``nbytes``; their content is anything."""
    global _kept
    size = rounded(nbytes)
    found = _take(size)
    if found is not None:
        return found.block
    if size >= _HUGE:
        with _lock:
            _free.clear()
            _kept = 0
    return fresh(size)


def acquire_room(nbytes: int, kind: Hashable, most: int) -> tuple[np.ndarray, Any]:
    """uint8, ``nbytes``, of which only a part may ever be used, and what was noted when a block of this ``kind`` was released,
    of which at most ``most`` bytes had been in use; None: it is fresh, and zeros.
    """
    found = _take(kind, most)
    return (fresh(nbytes), None) if found is None else (found.block, found.note)


def _take(key: Hashable, most: int = sys.maxsize) -> Waiting | None:
    global _kept
    with _lock:
        waiting = _free[key] = _free.pop(key, [])
        if not waiting or waiting[-1].nbytes > most:
            return None
        found = waiting.pop()
        _kept -= found.nbytes
        return found


def fresh(size: int) -> np.ndarray:
    """uint8 zeros in pages of their own, which take no memory until they are used."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(size, np.uint8)
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)


def release(blocks: list[np.ndarray]) -> None:
    """Keep blocks from :func:`acquire` for the next user; empties the list. A block that something still refers to is left to
    Python.

    Where too many wait, those go whose size was asked for least recently. Otherwise what large grammars left would stay for
    good, and every later grammar would take fresh pages.
    """
    while blocks:
        release_room(blocks, len(blocks[-1]), len(blocks[-1]), None)


def release_room(blocks: list[np.ndarray], kind: Hashable, nbytes: int, note: Any) -> None:
    """:func:`release` for the last block of the list, from :func:`acquire_room`: ``nbytes`` of it have been in use."""
    global _kept
    with _lock:
        if sys.getrefcount(blocks[-1]) <= _REFERENCES and _has_room(kind, nbytes):
            _free.setdefault(kind, []).append(Waiting(blocks[-1], nbytes, note))
            _kept += nbytes
        blocks.pop()


def _has_room(key: Hashable, nbytes: int) -> bool:
    """Whether a block of so many bytes may wait, after others have made room for it: those of sizes asked for less recently."""
    global _kept
    for other in list(_free):
        if _kept + nbytes <= _MOST_KEPT or other == key:
            break
        waiting = _free.get(other)
        while waiting and _kept + nbytes > _MOST_KEPT:
            _kept -= waiting.pop().nbytes
    return _kept + nbytes <= _MOST_KEPT


def extended(blocks: list[np.ndarray], nbytes: int) -> np.ndarray:
    """The only block of the list, :func:`rounded` up to ``nbytes`` with zeros: its pages move, nothing is copied. As it was,
    where the system cannot do that (all but Linux) or somebody refers to it. The list is emptied.
    """
    block = blocks.pop()
    owner = getattr(block.base, "obj", None)
    if not isinstance(owner, mmap.mmap):
        return block
    del block
    with suppress(BufferError, OSError, SystemError, ValueError):
        owner.resize(rounded(nbytes))
    return np.frombuffer(owner, np.uint8)


def kept() -> int:
    """Bytes that wait for a user."""
    return _kept


memory.register("pages for tables", kept, _MOST_KEPT)
