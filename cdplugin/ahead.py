"""Work ahead: idle threads compute the masks that are likely to be needed next, while the model computes.

Nearly all slow masks are those that a grammar computes for the first time. While a request waits for its prefill, and then
during each forward pass, an idle thread can compute some of them::

    adapter                     Ahead                                arena (its lock, its tables)
      │  follow(matcher) ──▶ a Visit waits in the queue
      │  (model computes)       │ a thread takes it
      │                         │   the place's mask ───────────────▶ OP_FILL
      │                         │   its likely tokens (queries.likely)
      │                         │   where they lead ────────────────▶ OP_EDGES
      │                         │   the masks there ────────────────▶ OP_FILL_MANY
      │  next mask: met         ▼ and so on from there, nearest places first

An arena only memoises functions of their arguments, so no work ahead, in whatever order, changes an answer.

*Real work comes first.* A thread asks an arena for one *grant* at a time. It tries the lock and never waits for it. The kernel
call ends after :data:`GRANT` units of work (at most 0.5 ms for 99 of 100 calls); what does not fit is left to the matcher that
needs it. An adapter calls :meth:`Ahead.touch` when it begins to work itself, and before each grant the thread waits until there
was no touch for a millisecond. So a matcher that wants the lock waits for at most one grant. Rules that are made late need
Python, so they are left to matchers.

*Bounds.* A grammar has an account of work and one of bytes; each new place of its texts adds to both. Hashed tables that are
already large do not grow here. Queue and visits refer to an arena weakly, so they keep no grammar alive.

Only :meth:`Ahead.follow` starts threads. Only adapters call it, and only where they are configured to.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

import numpy as np

from cdplugin import forking
from cdplugin.bits import bitmask_words
from cdplugin.engine.arena import Arena
from cdplugin.engine.blocks import address_of
from cdplugin.engine.owned_tables import HASHED
from cdplugin.errors import CdpluginError
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.entry import JOB_WORDS
from cdplugin.kernels.store import layout, statuses
from cdplugin.matcher import Matcher
from cdplugin.queries.likely import first_tokens, likely_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

GRANT = 25_000
"""Units of work (``Limits.max_step_work``) of one kernel call, after which real work may take the arena. A call that does not
fit is repeated once with four times as much.
"""
FIRST_WORK, PLACE_WORK, MOST_WORK = 1_000_000, 200_000, 2_000_000
"""Units that a grammar gets at first, that each new place of a text adds, and the most that may accumulate."""
FURTHER = 8
"""Places that are visited in a grammar although no text has reached them."""
FIRST_BYTES, PLACE_BYTES = 2 << 20, 64 << 10
"""Bytes by which an arena may grow in grants: at first, and for each new place of its texts."""

_PART = 3  # an arena that exceeds a third of Limits.max_arena_bytes does not grow here
_LARGE_TABLE = 1 << 20  # bytes; a larger hashed table would take longer to grow than a grant
_TRIES = (1, 4)  # grants for the first and the second try of one call
_QUIET = 0.001  # seconds
_NEAR = 64  # places of texts that wait in a visit: the newest ones
_FURTHER = 256  # places that no text has reached, waiting in a visit
_QUEUED = 4096  # visits
_ENTRY_BYTES = 100  # of a remembered place

_NO_STOPS = np.zeros(1, np.int64)
_STOPS_ADDRESS = address_of(_NO_STOPS)


class Busy(Exception):  # noqa: N818 - no error: another thread holds the arena
    """An arena is in use."""


class Visit:
    """The work ahead in one arena: what was done, and where to go on. Matchers' threads add to ``places`` and ``pending``; the
    visiting thread does the rest.

    ``places``: cursors that texts have reached; ``pending``: those of them still to be visited, the newest last;
    ``speculative``: cursors that no text has reached, found after the last visited one; ``visited``: cursors that
    need no further visit; ``masked``: cursors whose masks were made here; ``work``: units left.
    """

    __slots__ = (
        "accounted",
        "arena",
        "grown",
        "masked",
        "pending",
        "places",
        "queue",
        "speculations_left",
        "speculative",
        "visited",
        "work",
    )

    def __init__(self, reference: weakref.ref[Arena]) -> None:
        self.arena = reference
        self.grown = 0  # bytes by which the arena grew in grants
        self.accounted = 0  # bytes of this visit in the grammar's account
        self.work = FIRST_WORK
        self.speculations_left = FURTHER  # how many speculative places may still be visited
        self.pending: deque[int] = deque(maxlen=_NEAR)
        self.speculative: deque[int] = deque(maxlen=_FURTHER)
        self.places: set[int] = set()
        self.visited: set[int] = set()
        self.masked: set[int] = set()
        self.queue: object = None  # the queue in which it waits

    def next_place(self) -> int | None:
        """The cursor to visit next: one that a text has reached, else a speculative one. None if there is none, or no work
        left.
        """
        while self.work > 0 and self.grown <= self.room:
            try:
                cursor = self.pending.pop()
                if cursor not in self.visited:
                    self.speculative.clear()  # they follow another place
            except IndexError:
                if not self.speculative or self.speculations_left <= 0:
                    return None
                cursor = self.speculative.popleft()
                self.speculations_left -= 1
            if cursor not in self.visited:
                return cursor
        return None

    @property
    def room(self) -> int:
        """Bytes by which the arena may grow in grants, from the beginning."""
        return FIRST_BYTES + PLACE_BYTES * len(self.places) - self.accounted

    def end(self) -> None:
        """Visit nothing more."""
        self.work = -(1 << 62)


class Ahead:
    """Threads that visit arenas; :func:`shared` returns that of the process. With ``threads=0`` only :meth:`run` visits."""

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._touched = False
        self._sleep: Callable[[float], object] = time.sleep
        self._begin()
        self._counts = dict.fromkeys(("places", "met", "looked", "masks", "work", "busy", "failed"), 0)
        forking.watch(self)
        _all.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Visit | None] = SimpleQueue()
        self._started: list[threading.Thread] = []
        self._is_closed = False

    def after_fork(self) -> None:
        """In a forked child: no threads, an empty queue. (A grammar whose lock a thread held starts a fresh arena.)"""
        self._begin()

    # --- what adapters call --------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Tell the threads that real work begins: they pause for a moment."""
        self._touched = True

    def follow(self, matcher: Matcher) -> None:
        """Queue a matcher's place for work ahead. Takes a fraction of a microsecond where the place is known."""
        self._touched = True
        reference, cursor = matcher._arena_ref, matcher._cursors[-1]
        visit: Visit | None = matcher._grammar.visit
        if visit is None or visit.arena is not reference:
            visit = matcher._grammar.visit = Visit(reference)
        if cursor in visit.places or cursor <= 0:
            return
        visit.places.add(cursor)
        self._counts["places"] += 1
        self._counts["met"] += cursor in visit.masked
        visit.work = min(visit.work + PLACE_WORK, MOST_WORK)
        if visit.work > 0:
            visit.pending.append(cursor)
            self._put(visit)

    def counters(self) -> dict[str, int]:
        """Counts since the process began: new ``places`` of texts, and for how many of them the mask had been ``met`` (made
        ahead); places ``looked`` at (visited), ``masks`` made ahead, units of ``work``; how often an arena was ``busy``, and
        how often a visit ``failed``.
        """
        return self._counts.copy()

    def run(self, work: int) -> int:
        """Visit queued places on this thread until ``work`` units are done or the queue is empty; returns the units done."""
        before = self._counts["work"]
        while not self._queue.empty() and self._counts["work"] - before < work:
            visit = self._queue.get()
            if visit is not None and not self._visit(visit):
                break
        return self._counts["work"] - before

    def close(self) -> None:
        """End the threads, each after its current grant. What is queued is dropped."""
        with self._lock:
            self._is_closed = True
            started, self._started = self._started, []
        for _ in started:
            self._queue.put(None)
        for thread in started:
            thread.join(1.0)

    # --- inside --------------------------------------------------------------------------------------------------------------

    def _put(self, visit: Visit) -> None:
        """Queue a visit, once; drop it if the queue is full."""
        queue = self._queue
        if visit.queue is not queue and queue.qsize() < _QUEUED:
            visit.queue = queue
            queue.put(visit)
        if len(self._started) < self.threads:
            self._start()

    def _start(self) -> None:
        with self._lock:
            while len(self._started) < self.threads and not self._is_closed:
                name = f"cdplugin-ahead-{len(self._started)}"
                thread = threading.Thread(target=self._work, args=(self._queue,), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system has no more
                    logger.warning("cdplugin: nothing is met ahead: %s", error)
                    self.threads = 0
                    return
                self._started.append(thread)

    def _work(self, queue: SimpleQueue[Visit | None]) -> None:
        while True:
            visit = queue.get()
            if visit is None or self._is_closed:
                return
            if not self._visit(visit):
                self._sleep(_QUIET)
            del visit  # hold nothing while waiting for the next one

    def _visit(self, visit: Visit) -> bool:
        """Visit one place. False if another thread holds the arena. Raises nothing."""
        visit.queue = None
        try:
            self._keep_off()
            arena = visit.arena()
            if arena is None or arena.over_budget:
                return True
            cursor = visit.next_place()
            if cursor is None:
                return True
            try:
                self._look(visit, arena, cursor)
            except Busy:
                self._counts["busy"] += 1
                visit.pending.appendleft(cursor)
                self._put(visit)
                return False
            self._note(visit, arena)
            if visit.pending or visit.speculative:
                self._put(visit)
        except Exception as error:
            self._counts["failed"] += 1
            visit.end()
            level = logging.DEBUG if isinstance(error, CdpluginError) else logging.WARNING
            logger.log(level, "cdplugin: a visit ahead ended: %s: %s", type(error).__name__, error)
        return True

    def _note(self, visit: Visit, arena: Arena) -> None:
        """Add what the visit remembers to the grammar's account of bytes."""
        nbytes = _ENTRY_BYTES * (len(visit.visited) + len(visit.masked) + len(visit.places))
        if arena.account is not None and abs(nbytes - visit.accounted) > 1 << 14:
            visit.accounted = nbytes
            arena.account.note("ahead", nbytes)

    def _keep_off(self) -> None:
        """Wait until real work has paused."""
        while self._touched and self._started:
            self._touched = False
            self._sleep(_QUIET)

    def _look(self, visit: Visit, arena: Arena, cursor: int) -> None:
        """Make the mask of a place, and those of the places that its likely tokens lead to. Raises :class:`Busy`."""
        row = np.zeros(bitmask_words(arena.vocab.size), np.int32)
        if self._ask(visit, arena, kernels.OP_FILL, cursor, address_of(row), _STOPS_ADDRESS) < 0:
            visit.visited.add(cursor)
            return
        tokens = likely_of(arena.vocab).among(row).tolist()
        found = self._granted(visit, arena, functools.partial(_places_after, visit, arena, cursor, tokens))
        self._fill(visit, arena, [after for after in found if after not in visit.masked], row)
        visit.visited.add(cursor)
        visit.speculative.extend(after for after in found if after not in visit.visited)
        self._counts["looked"] += 1

    def _fill(self, visit: Visit, arena: Arena, cursors: list[int], row: np.ndarray) -> None:
        """Make the masks of some places, as many in each grant as fit. ``row``: where kernels write them; nobody reads it."""
        tries = 0
        while cursors and visit.work > 0:
            some = functools.partial(_fill_some, visit, arena, cursors, row)
            left = self._granted(visit, arena, some, _TRIES[tries])
            self._counts["masks"] += len(cursors) - len(left)
            tries = tries + 1 if len(left) == len(cursors) else 0
            if tries == len(_TRIES):  # even alone in a large grant the first mask does not fit: leave it
                left, tries = left[1:], 0
            cursors = left

    def _ask(self, visit: Visit, arena: Arena, op: int, a: int, b: int, c: int) -> int:
        """A kernel's result; negative if it needs more than its grants, or rules that are made late."""
        result = -1
        for grants in _TRIES:
            result = self._granted(visit, arena, functools.partial(_run, visit, arena, op, a, b, c), grants)
            if result >= 0 or arena.header[layout.WORK_LEFT] >= 0:
                break
        return result

    def _granted(self, visit: Visit, arena: Arena, call: Callable[[], T], grants: int = 1) -> T:
        """Call ``call`` with the arena's lock and that many grants of work; returns its result. Raises :class:`Busy`."""
        self._keep_off()
        if not arena.lock.acquire(blocking=False):
            raise Busy
        try:
            with arena.one_budget(grants * GRANT):
                result = call()
                done = grants * GRANT - int(arena.header[layout.WORK_LEFT])
        finally:
            arena.lock.release()
        visit.work -= done
        self._counts["work"] += done
        return result


# --- with the arena's lock held, within one grant -----------------------------------------------------------------------------


def _run(visit: Visit, arena: Arena, op: int, a: int, b: int, c: int) -> int:
    """A kernel's result, or a status. Tables grow as far as :func:`_may_grow` allows."""
    result = kernels.run(arena.address, op, a, b, c)
    while result == statuses.GROW and _may_grow(visit, arena):
        before = arena.nbytes
        arena.recover(result)
        visit.grown += arena.nbytes - before
        result = kernels.run(arena.address, op, a, b, c)
    return result


def _may_grow(visit: Visit, arena: Arena) -> bool:
    """Whether the table that a kernel asks for may grow here."""
    if arena.header[layout.WORK_LEFT] < 0:
        return False
    table = int(arena.header[layout.REQUEST_A])
    is_slow = table in HASHED and arena.tables[table].nbytes > _LARGE_TABLE
    if is_slow or visit.grown > visit.room or _PART * arena.nbytes > arena.max_bytes:
        visit.work = min(visit.work, 0)  # stop until a text has reached a new place
        return False
    return True


def _places_after(visit: Visit, arena: Arena, cursor: int, tokens: list[int]) -> list[int]:
    """The distinct cursors that the first tokens of a place's words and some allowed tokens lead to. Where one kernel call for
    all fails, each token is tried on its own.
    """
    listed = list(dict.fromkeys([*first_tokens(arena, cursor), *tokens]))
    pairs = np.full((len(listed), 2), -1, np.int64)
    pairs[:, 1] = listed
    count = _run(visit, arena, kernels.OP_EDGES, cursor, address_of(pairs), len(listed))
    if count >= 0:
        return arena.tables[layout.STACK][1 : 2 * count : 2].tolist()
    found: dict[int, None] = {}
    for token in listed:
        after = _run(visit, arena, kernels.OP_ACCEPT, cursor, token, 1)
        if after > 0:
            found[int(after)] = None
    return list(found)


def _fill_some(visit: Visit, arena: Arena, cursors: list[int], row: np.ndarray) -> list[int]:
    """Make masks; returns the places whose masks need more than is left of the grant. Places that need something that is not
    done here are dropped.
    """
    target = address_of(row)
    jobs = np.zeros((len(cursors), JOB_WORDS), np.int64)
    jobs[:, 0], jobs[:, 1], jobs[:, 2], jobs[:, 3] = arena.address, cursors, target, _STOPS_ADDRESS
    kernels.engine(0, kernels.OP_FILL_MANY, address_of(jobs), len(cursors), 0)
    left = []
    for cursor, status in zip(cursors, jobs[:, JOB_WORDS - 1].tolist(), strict=True):
        if status < 0 <= arena.header[layout.WORK_LEFT]:
            status = _run(visit, arena, kernels.OP_FILL, cursor, target, _STOPS_ADDRESS)
        if status >= 0:
            visit.masked.add(cursor)
        elif arena.header[layout.WORK_LEFT] < 0:
            left.append(cursor)
    return left


# --- for the whole process ----------------------------------------------------------------------------------------------------

_all: weakref.WeakSet[Ahead] = weakref.WeakSet()
_shared: Ahead | None = None


def shared(threads: int) -> Ahead:
    """The instance of this process, with at least this many threads."""
    global _shared
    if _shared is None:
        _shared = Ahead(0)
    _shared.threads = max(_shared.threads, threads)
    return _shared


def usual_threads() -> int:
    """The number of threads that pays off by default: one on four processors or more, else none."""
    affinity = getattr(os, "sched_getaffinity", None)
    return int((len(affinity(0)) if affinity else os.cpu_count() or 1) >= 4)


@atexit.register
def _close_all() -> None:
    """Stop all threads: none may be inside a kernel when Python ends."""
    for one in list(_all):
        one.close()
