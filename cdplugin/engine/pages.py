"""A free list of memory for large tables: arenas that go leave their pages to the next arenas.

The first access to a fresh page costs a page fault: 2.5 µs for 4 KiB in a virtual machine that was measured, and a grammar
takes some 400 pages. And growing large tables in malloc's heap would fragment it: a process through which thousands of grammars
pass would grow for a long time. So large tables have pages of their own (``mmap``), and a bounded amount of these is reused.
"""

from __future__ import annotations

import mmap
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from cdplugin import forking, memory

LARGE = 128 << 10
"""A table of so many bytes has pages of its own."""
_MOST_KEPT = 32 << 20
_HUGE = 4 << 20  # an allocation of so many bytes empties the free list first
_REFERENCES = 2  # in `release_room`: the caller's list, the argument of getrefcount


class Waiting(NamedTuple):
    """A free block: how many of its bytes have been in use, and what its last user noted."""

    block: np.ndarray
    nbytes: int
    note: Any


_lock = threading.RLock()  # reentrant: an arena may be finalized, and release, wherever Python collects garbage
_free: OrderedDict[Hashable, list[Waiting]] = OrderedDict()  # by size or kind, in the order in which these were last asked for
_kept = 0


@forking.in_child
def _after_fork() -> None:
    """In a forked child, forget the free list if another thread was just changing it."""
    global _lock, _kept
    if not forking.is_free(_lock):
        _lock = threading.RLock()
        _free.clear()
        _kept = 0


def rounded(nbytes: int) -> int:
    """Return the block size for so many bytes: one of four sizes between a power of two and the next.

    So blocks can be reused, and little of a large one is wasted.
    """
    step = max(1 << max((nbytes - 1).bit_length() - 3, 0), 4096)
    return -(-nbytes // step) * step


def acquire(nbytes: int) -> np.ndarray:
    """Return a block of :func:`rounded` ``nbytes``, uint8, with any content."""
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
    """Return a block of ``nbytes``, uint8, of which only a part may ever be used; and the note of its last user, None if it is
    fresh and zero.

    Reused is a block of this ``kind`` of which at most ``most`` bytes were in use.
    """
    found = _take(kind, most)
    return (fresh(nbytes), None) if found is None else (found.block, found.note)


def _take(key: Hashable, most: int = sys.maxsize) -> Waiting | None:
    global _kept
    with _lock:
        waiting = _free.setdefault(key, [])
        _free.move_to_end(key)
        if not waiting or waiting[-1].nbytes > most:
            return None
        found = waiting.pop()
        _kept -= found.nbytes
        return found


def fresh(size: int) -> np.ndarray:
    """Return uint8 zeros in pages of their own, which take no memory until they are used."""
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.zeros(size, np.uint8)
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), np.uint8)


def release(blocks: list[np.ndarray]) -> None:
    """Put blocks from :func:`acquire` on the free list, and empty ``blocks``. A block that something still refers to is left to
    Python.

    If too much memory waits, the sizes asked for least recently go. Otherwise, what large grammars left would stay for good,
    and every later grammar would take fresh pages.
    """
    while blocks:
        release_room(blocks, len(blocks[-1]), len(blocks[-1]), None)


def release_room(blocks: list[np.ndarray], kind: Hashable, nbytes: int, note: Any) -> None:
    """Do :func:`release` for the last block of the list, one from :func:`acquire_room` of which ``nbytes`` were in use."""
    global _kept
    with _lock:
        if sys.getrefcount(blocks[-1]) <= _REFERENCES and _has_room(kind, nbytes):
            _free.setdefault(kind, []).append(Waiting(blocks[-1], nbytes, note))
            _kept += nbytes
        blocks.pop()


def _has_room(key: Hashable, nbytes: int) -> bool:
    """Return whether a block of so many bytes may wait, after dropping blocks of sizes asked for less recently."""
    global _kept
    for other in list(_free):
        if _kept + nbytes <= _MOST_KEPT or other == key:
            break
        waiting = _free.get(other)
        while waiting and _kept + nbytes > _MOST_KEPT:
            _kept -= waiting.pop().nbytes
    return _kept + nbytes <= _MOST_KEPT


def extended(blocks: list[np.ndarray], nbytes: int) -> np.ndarray:
    """Extend the only block of the list to :func:`rounded` ``nbytes`` with zeros, without copying (its pages move); empty the
    list.

    Returns the block as it was if the system cannot do that (all but Linux) or if something refers to it.
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
    """Return the bytes on the free list."""
    return _kept


memory.register("pages for tables", kept, _MOST_KEPT)
