"""Work ahead: idle threads meet what is likely to come next, while a model computes.

Nearly all that is slow in a mask is what a grammar meets for the first time. While a request waits for its prefill, and then
for each forward pass, an idle thread can meet it::

    adapter                     Ahead                                arena (its lock, its tables)
      │  follow(matcher) ──▶ a Visit waits in the queue
      │  (model computes)       │ a thread takes it
      │                         │   the place's mask ───────────────▶ OP_FILL
      │                         │   its likely tokens (queries.likely)
      │                         │   where they lead ────────────────▶ OP_EDGES
      │                         │   the masks there ────────────────▶ OP_FILL_MANY
      │  next mask: met         ▼ and so on from there, nearest places first

An arena only remembers functions of their arguments, so whatever is met ahead, in whatever order, no answer changes.

*Real work comes first.* A thread asks an arena for one *grant* at a time: the lock is tried, never waited for; the kernel call
ends after :data:`GRANT` units of work (0.5 ms at most for 99 of 100), and what does not fit is left to who needs it. An
adapter calls :meth:`Ahead.touch` when it begins to work itself: before each grant the thread waits until it was quiet for a
millisecond. So a matcher that wants a lock waits for one grant at most. Rules that are made late, which takes Python, are left
to matchers.

*Bounds.* A grammar has an account of work and one of bytes, which new places of its texts fill up; hashed tables that are
large already do not grow here. Nothing keeps a grammar alive: queue and visits refer to its arena weakly.

Nothing starts a thread but :meth:`Ahead.follow`, which only adapters call, and only where they are told to.
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
"""Units of work (``Limits.max_step_work``) of one kernel call, after which real work may have the arena; what does not fit gets
four times as much, once.
"""
FIRST_WORK, PLACE_WORK, MOST_WORK = 1_000_000, 200_000, 2_000_000
"""Units that a grammar has at first, those that a new place of a text adds, and the most that wait to be used."""
FURTHER = 8
"""Places that are looked at in a grammar although no text is there yet."""
FIRST_BYTES, PLACE_BYTES = 2 << 20, 64 << 10
"""Bytes by which an arena may grow in grants: at first, and for each new place of its texts."""

_PART = 3  # and an arena that has a third of Limits.max_arena_bytes is left alone
_LARGE_TABLE = 1 << 20  # bytes of a hashed table whose growth would take longer than a grant
_TRIES = (1, 4)  # grants that one thing gets, one after the other
_QUIET = 0.001  # seconds
_NEAR = 64  # places of texts that wait in a visit: the newest ones
_FURTHER = 256  # places beyond, which nobody has come to yet
_QUEUED = 4096  # visits
_ENTRY_BYTES = 100  # of a place that is remembered

_NO_STOPS = np.zeros(1, np.int64)
_STOPS_ADDRESS = address_of(_NO_STOPS)


class Busy(Exception):  # noqa: N818 - no error: somebody has the arena
    """An arena is in use."""


class Visit:
    """What was met in one arena, and where to go on. Matchers' threads add to ``places`` and ``near``, the thread that visits
    does the rest.

    ``places``: cursors where texts were; ``near``: those that wait to be looked at, the newest last; ``further``: cursors after
    the last one that was looked at; ``looked``: cursors whose next tokens were followed; ``met``: cursors whose masks were made
    here; ``work``: the units that are left.
    """

    __slots__ = ("arena", "further", "grown", "left_further", "looked", "met", "near", "noted", "places", "queue", "work")

    def __init__(self, reference: weakref.ref[Arena]) -> None:
        self.arena = reference
        self.grown = 0  # bytes by which the arena grew in grants
        self.noted = 0
        self.work = FIRST_WORK
        self.left_further = FURTHER  # places beyond texts' that may still be looked at
        self.near: deque[int] = deque(maxlen=_NEAR)
        self.further: deque[int] = deque(maxlen=_FURTHER)
        self.places: set[int] = set()
        self.looked: set[int] = set()
        self.met: set[int] = set()
        self.queue: object = None  # the queue in which it waits

    def next_place(self) -> int | None:
        """The cursor to look at next: where a text is now, else one beyond it; None if there is none, or no work is left."""
        while self.work > 0 and self.grown <= self.room:
            try:
                cursor = self.near.pop()
                if cursor not in self.looked:
                    self.further.clear()  # what might have come after another place
            except IndexError:
                if not self.further or self.left_further <= 0:
                    return None
                cursor = self.further.popleft()
                self.left_further -= 1
            if cursor not in self.looked:
                return cursor
        return None

    @property
    def room(self) -> int:
        """Bytes by which the arena may have grown."""
        return FIRST_BYTES + PLACE_BYTES * len(self.places) - self.noted

    def end(self) -> None:
        """Meet nothing more."""
        self.work = -(1 << 62)


class Ahead:
    """Threads that visit grammars; :func:`shared` is that of the process. With ``threads=0`` only :meth:`run` does anything."""

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
        """In a forked child: no threads, nothing waits. (A grammar whose lock a thread held starts a fresh arena.)"""
        self._begin()

    # --- what adapters call --------------------------------------------------------------------------------------------------

    def touch(self) -> None:
        """Real work begins: keep off for a moment."""
        self._touched = True

    def follow(self, matcher: Matcher) -> None:
        """Have what may come after a matcher's place be met ahead: a fraction of a microsecond where the place is known."""
        self._touched = True
        reference, cursor = matcher._arena_ref, matcher._cursors[-1]
        visit: Visit | None = matcher._grammar.visit
        if visit is None or visit.arena is not reference:
            visit = matcher._grammar.visit = Visit(reference)
        if cursor in visit.places or cursor <= 0:
            return
        visit.places.add(cursor)
        self._counts["places"] += 1
        self._counts["met"] += cursor in visit.met
        visit.work = min(visit.work + PLACE_WORK, MOST_WORK)
        if visit.work > 0:
            visit.near.append(cursor)
            self._put(visit)

    def counters(self) -> dict[str, int]:
        """Counts since the process began: ``places`` of texts that were new, and of how many of these the mask had been ``met``
        ahead; places that were ``looked`` at, ``masks`` made ahead, units of ``work``; how often an arena was ``busy``, and how
        often a visit ``failed``.
        """
        return self._counts.copy()

    def run(self, work: int) -> int:
        """Visit what waits on this thread, until so many units of work are done or nothing waits; the units that were done."""
        before = self._counts["work"]
        while not self._queue.empty() and self._counts["work"] - before < work:
            visit = self._queue.get()
            if visit is not None and not self._visit(visit):
                break
        return self._counts["work"] - before

    def close(self) -> None:
        """End the threads, after the grant that they are at. What waits is forgotten."""
        with self._lock:
            self._is_closed = True
            started, self._started = self._started, []
        for _ in started:
            self._queue.put(None)
        for thread in started:
            thread.join(1.0)

    # --- inside --------------------------------------------------------------------------------------------------------------

    def _put(self, visit: Visit) -> None:
        """Have a visit wait for its turn, once; not if too many do."""
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
            del visit  # while it waits for the next one

    def _visit(self, visit: Visit) -> bool:
        """Look at one place. False if somebody has the arena. Raises nothing."""
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
                visit.near.appendleft(cursor)
                self._put(visit)
                return False
            self._note(visit, arena)
            if visit.near or visit.further:
                self._put(visit)
        except Exception as error:
            self._counts["failed"] += 1
            visit.end()
            level = logging.DEBUG if isinstance(error, CdpluginError) else logging.WARNING
            logger.log(level, "cdplugin: a visit ahead ended: %s: %s", type(error).__name__, error)
        return True

    def _note(self, visit: Visit, arena: Arena) -> None:
        """Tell the grammar's account what the visit remembers."""
        nbytes = _ENTRY_BYTES * (len(visit.looked) + len(visit.met) + len(visit.places))
        if arena.account is not None and abs(nbytes - visit.noted) > 1 << 14:
            visit.noted = nbytes
            arena.account.note("ahead", nbytes)

    def _keep_off(self) -> None:
        """Wait while real work is done."""
        while self._touched and self._started:
            self._touched = False
            self._sleep(_QUIET)

    def _look(self, visit: Visit, arena: Arena, cursor: int) -> None:
        """Make the mask of a place, and those of the places that its likely tokens lead to. Raises :class:`Busy`."""
        row = np.zeros((arena.vocab.size + 31) // 32, np.int32)
        if self._ask(visit, arena, kernels.OP_FILL, cursor, address_of(row), _STOPS_ADDRESS) < 0:
            visit.looked.add(cursor)
            return
        tokens = likely_of(arena.vocab).among(row).tolist()
        found = self._granted(visit, arena, functools.partial(_places_after, visit, arena, cursor, tokens))
        self._fill(visit, arena, [after for after in found if after not in visit.met], row)
        visit.looked.add(cursor)
        visit.further.extend(after for after in found if after not in visit.looked)
        self._counts["looked"] += 1

    def _fill(self, visit: Visit, arena: Arena, cursors: list[int], row: np.ndarray) -> None:
        """Make the masks of some places, as many in each grant as fit it; ``row``: to write them into."""
        tries = 0
        while cursors and visit.work > 0:
            some = functools.partial(_fill_some, visit, arena, cursors, row)
            left = self._granted(visit, arena, some, _TRIES[tries])
            self._counts["masks"] += len(cursors) - len(left)
            tries = tries + 1 if len(left) == len(cursors) else 0
            if tries == len(_TRIES):  # the first one takes more each time
                left, tries = left[1:], 0
            cursors = left

    def _ask(self, visit: Visit, arena: Arena, op: int, a: int, b: int, c: int) -> int:
        """A kernel's result; negative if it needs more than it is granted, or what is not done here."""
        result = -1
        for grants in _TRIES:
            result = self._granted(visit, arena, functools.partial(_run, visit, arena, op, a, b, c), grants)
            if result >= 0 or arena.header[layout.WORK_LEFT] >= 0:
                break
        return result

    def _granted(self, visit: Visit, arena: Arena, call: Callable[[], T], grants: int = 1) -> T:
        """What ``call`` returns, with the arena's lock and one grant of work, or several at once. Raises :class:`Busy`."""
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


# --- with an arena's lock, within one grant -----------------------------------------------------------------------------------


def _run(visit: Visit, arena: Arena, op: int, a: int, b: int, c: int) -> int:
    """A kernel's result, or a status; tables grow as far as a visit may have them grow."""
    result = kernels.run(arena.address, op, a, b, c)
    while result == statuses.GROW and _may_grow(visit, arena):
        before = arena.nbytes
        arena.recover(result)
        visit.grown += arena.nbytes - before
        result = kernels.run(arena.address, op, a, b, c)
    return result


def _may_grow(visit: Visit, arena: Arena) -> bool:
    """Whether the table that a kernel asks for may grow now."""
    if arena.header[layout.WORK_LEFT] < 0:
        return False
    table = int(arena.header[layout.REQUEST_A])
    is_slow = table in HASHED and arena.tables[table].nbytes > _LARGE_TABLE
    if is_slow or visit.grown > visit.room or _PART * arena.nbytes > arena.max_bytes:
        visit.work = min(visit.work, 0)  # until a text has gone on
        return False
    return True


def _places_after(visit: Visit, arena: Arena, cursor: int, tokens: list[int]) -> list[int]:
    """The cursors that the words of a place and some allowed tokens lead to, each once; token by token where a kernel wants
    more than it gets for some of them.
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
    """Make masks, and return the places whose masks take more than is left of the grant. Those of which a kernel wants what is
    not done here are done with.
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
            visit.met.add(cursor)
        elif arena.header[layout.WORK_LEFT] < 0:
            left.append(cursor)
    return left


# --- of the process -----------------------------------------------------------------------------------------------------------

_all: weakref.WeakSet[Ahead] = weakref.WeakSet()
_shared: Ahead | None = None


def shared(threads: int) -> Ahead:
    """The one of this process, with so many threads, or more if somebody else asked for more."""
    global _shared
    if _shared is None:
        _shared = Ahead(0)
    _shared.threads = max(_shared.threads, threads)
    return _shared


def usual_threads() -> int:
    """How many threads pay, where nobody says: one on four processors or more, else none."""
    affinity = getattr(os, "sched_getaffinity", None)
    return int((len(affinity(0)) if affinity else os.cpu_count() or 1) >= 4)


@atexit.register
def _close_all() -> None:
    """No thread may be inside a kernel when Python ends."""
    for one in list(_all):
        one.close()
