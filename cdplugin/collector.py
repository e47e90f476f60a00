"""Pause Python's cyclic garbage collector while a grammar is compiled, its tables grow, or rules are made late."""

from __future__ import annotations

import gc


class gc_paused:  # noqa: N801 - a context, as contextlib's are
    """A context in which the cyclic collector does not start by itself.

    A compilation makes thousands of small objects, and reference counting frees nearly all of them at its end. The collector
    would traverse them again and again meanwhile, and from time to time all objects of the process (a server's tokenizer alone
    has hundreds of thousands). On exit the collector is switched on again, unless it was off before.
    """

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        self._end()

    def __del__(self) -> None:
        self._end()  # an interrupt may have left `__enter__` or `__exit__` halfway

    def _end(self) -> None:
        if getattr(self, "_was_on", False):
            self._was_on = False
            gc.enable()
