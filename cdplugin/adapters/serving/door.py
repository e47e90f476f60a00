"""Where a request is validated: in the process that received it, before the engine sees it.

The path of a request to its grammar, and which step may refuse it::

    front end of vLLM (an API server: one event loop; or ``LLM`` itself)
      plugin.py     AsyncLLM.add_request, changed: a request of ours waits here, off the loop, for its check (:class:`OffLoop`)
        compat.py     checked_request: vLLM's own conditions (empty, nested too deep, two kinds at once)
        engine.py     Engine.check: known already, or being found out for another request, or to be found out now
          admission     admit: the front end's errors, the compiler's, and the budgets of the first steps
      plugin.py     SamplingParams._validate_structured_outputs, changed: the same check again, now a look-up
      logits.py     validate_params, where the logits processor is used: Engine.check as well
    engine (the scheduler's process)
      backend.py    compile_grammar: Engine.grammar compiles, on vLLM's threads; what fails here is HTTP 500
        threads.py    where requests wait for that: apart by whether their grammars are known, small or large
        grammar.py    GrammarState: masks and tokens; a budget that is crossed ends this request, HTTP 400

Every refusal here returns HTTP 400 with the location of the error. Both processes compile alike, so the engine refuses nothing
that was admitted here.

Validating a large request takes a good part of a second of Python, a huge one up to a minute. A few dedicated threads do it, so
that large requests do not delay small ones, nor huge requests large ones; Python switches threads more often meanwhile
(:data:`taking_turns`).
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
"""Characters of a request from which on it is large."""
HUGE = 65536
"""Characters from which on it is huge: what people write is smaller, and what is larger may take a minute."""
_SWITCH_SECONDS = 0.0005
"""How long a thread keeps Python's lock, where others wait for it, while something is compiled."""


class Lane:
    """Threads that make calls in the order in which they came. They end with the process, whatever they are at."""

    def __init__(self, name: str, threads: int) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        for number in range(threads):
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True).start()

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """A future of what ``call()`` returns or raises; one that is cancelled before its turn is never called."""
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
            del future, call  # not kept until the next one comes


class _TakingTurns:
    """A context in which Python's threads take turns more often; any number of threads may be in it.

    While one of them compiles, an event loop or a scheduler beside it, which gives the lock away whenever it waits for
    something, gets it back within a fraction of a millisecond, and not 5.
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
        """In a forked child: nobody is inside."""
        if self._inside:
            sys.setswitchinterval(self._usual)
        self._lock = threading.Lock()
        self._inside = 0


taking_turns = _TakingTurns()


@lru_cache(maxsize=1)
def _lanes() -> dict[str, Lane]:
    """By the size of a request."""
    threads = {"small": 2, "large": 1, "huge": 1}
    return {size: Lane(f"cdplugin-check-{size}", number) for size, number in threads.items()}


def size_named(characters: int) -> str:
    """``"small"``, ``"large"`` or ``"huge"``, of a request of so many characters."""
    return "small" if characters < LARGE else "large" if characters < HUGE else "huge"


@forking.in_child
def _renew() -> None:
    """A forked process has none of its parent's threads."""
    _lanes.cache_clear()
    taking_turns.after_fork()


class OffLoop:
    """Calls on other threads while an event loop goes on: equal ones once, and none for which nobody waits any more."""

    def __init__(self) -> None:
        self._waited_for: dict[Hashable, tuple[Future[Any], list[None]]] = {}

    async def run(self, key: Hashable, size: int, call: Callable[[], Any]) -> Any:
        """What ``call()`` returns; it does not raise. ``size``: characters of the request, which ``key`` stands for."""
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
                future.cancel()  # if it has not begun
