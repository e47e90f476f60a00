"""The threads on which vLLM's scheduler process compiles grammars.

vLLM has one queue for all requests, and half as many threads as processors. On two processors, a request whose grammar was
compiled long ago would wait for another request's large grammar. Here there are four queues::

    known    the grammar was compiled before: needs only a look-up and a first mask
    small    texts below ``door.LARGE`` characters
    large    other texts below ``door.HUGE``, as many at a time as vLLM would compile
    huge     the rest, half as many at a time

A wrong choice of queue (the cache has dropped the grammar meanwhile) costs only waiting time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from cdplugin.adapters.serving.door import size_named
from cdplugin.adapters.serving.engine import Engine

_MORE = 2
"""Threads for small grammars in addition to vLLM's own number, so that a few slow ones do not block the others."""


class GrammarThreads(Executor):
    """Replaces the ``ThreadPoolExecutor`` of vLLM's ``StructuredOutputManager``; ``workers``: its number of threads."""

    def __init__(self, engine: Engine, workers: int) -> None:
        self._engine = engine
        threads = {"known": _MORE, "small": workers + _MORE, "large": workers, "huge": (workers + 1) // 2}
        self._pools = {name: ThreadPoolExecutor(n, f"cdplugin-{name}") for name, n in threads.items()}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._pools[self._queue_of(args[0] if args else None)].submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def _queue_of(self, request: Any) -> str:
        """The queue for a vLLM ``Request``; one that cannot be read goes to ``large``, where its failure disturbs nobody."""
        try:
            kind, text = request.structured_output_request.structured_output_key
            if self._engine.has_met(kind.name, text):
                return "known"
            return size_named(len(text))
        except Exception:
            return "large"
