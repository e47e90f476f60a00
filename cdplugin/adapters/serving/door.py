"""Where a request is validated: in the process that received it, before the engine sees it.

The path of a request to its grammar, and which step may refuse it::

    front end of vLLM (an API server: one event loop; or ``LLM`` itself)
      plugin.py     AsyncLLM.add_request, patched: our requests wait here, off the loop, for their check (:class:`OffLoop`)
        compat.py     checked_request: vLLM's own conditions (empty, nested too deep, two kinds at once)
        engine.py     Engine.check: the result is known, or another request is computing it, or it is computed now
          admission     admit: errors of the front end and the compiler, and the budgets of the first steps
      plugin.py     SamplingParams._validate_structured_outputs, patched: the same check again, now a look-up
      logits.py     validate_params, where the logits processor is used: Engine.check as well
    engine (the scheduler's process)
      backend.py    compile_grammar: Engine.grammar compiles, on vLLM's threads; a failure here is HTTP 500
        threads.py    where requests wait for that: separate queues for known, small and large grammars
        grammar.py    GrammarState: masks and tokens; exceeding a budget ends this request only, HTTP 400

Every refusal in the front end returns HTTP 400 with the location of the error. Both processes compile alike, so the engine
refuses nothing that the front end admitted.

Validating a large request takes a good part of a second of Python, a huge one up to a minute. A few dedicated threads do it, so
that large requests do not delay small ones, nor huge requests large ones. Meanwhile Python switches threads more often
(:data:`taking_turns`), so that the event loop stays responsive.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import lru_cache
from queue import SimpleQueue
from typing import Any

from cdplugin import forking

LARGE = 4096
"""A request of at least this many characters is large."""
HUGE = 65536
"""A request of at least this many characters is huge: people write smaller ones, and checking it may take a minute."""
_SWITCH_SECONDS = 0.0005
"""How long a thread may hold Python's lock while others wait for it, during compilations."""


class Lane:
    """Threads that make calls in order of arrival. They are daemons: they end with the process, even in the
    middle of a call.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        for number in range(threads):
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True).start()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """A future for the result or exception of ``call()``. If it is cancelled before its turn, ``call`` never runs."""
        future: Future[Any] = Future()
        self._waiting.put((future, call))
        return future

    def _work(self) -> None:
        while True:
            future, call = self._waiting.get()
            if future.set_running_or_notify_cancel():
                try:
                    with taking_turns:
                        result = call()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            del future, call  # do not keep them alive until the next call arrives


class _TakingTurns:
    """A context in which Python's threads switch more often; any number of threads may be in it at once.

    An event loop or scheduler releases Python's lock whenever it waits. While another thread compiles, it gets the lock back
    within a fraction of a millisecond, where the default switch interval would take 5 ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, _SWITCH_SECONDS))
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._usual)

    def after_fork(self) -> None:
        """In a forked child: no thread is in the context."""
        if self._inside:
            sys.setswitchinterval(self._usual)
        self._lock = threading.Lock()
        self._inside = 0


taking_turns = _TakingTurns()


@lru_cache(maxsize=1)
def _lanes() -> dict[str, Lane]:
    """The lanes, by size of request."""
    threads = {"small": 2, "large": 1, "huge": 1}
    return {size: Lane(f"cdplugin-check-{size}", number) for size, number in threads.items()}


def size_named(characters: int) -> str:
    """``"small"``, ``"large"`` or ``"huge"``: the size class of a request of that many characters."""
    return "small" if characters < LARGE else "large" if characters < HUGE else "huge"


@forking.in_child
def _renew() -> None:
    """Start new threads in a forked child: it has none of its parent's."""
    _lanes.cache_clear()
    taking_turns.after_fork()


class OffLoop:
    """Runs calls on other threads while an event loop goes on: equal calls once, and abandoned calls not at all."""

    def __init__(self) -> None:
        self._waited_for: dict[Hashable, tuple[Future[Any], list[None]]] = {}

    async def run(self, key: Hashable, size: int, call: Callable[[], Any]) -> Any:
        """The result of ``call()``, which must not raise. ``size``: characters of the request; ``key`` identifies it."""
        waited_for = self._waited_for.get(key)
        if waited_for is None:
            waited_for = self._waited_for[key] = (_lanes()[size_named(size)].submit(call), [])
        future, waiters = waited_for
        waiters.append(None)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        finally:
            waiters.pop()
            if not waiters and self._waited_for.get(key) is waited_for:
                del self._waited_for[key]
                future.cancel()  # has an effect only if the call has not begun
