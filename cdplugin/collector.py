"""Python's cyclic garbage collector, put off while a grammar is compiled, its tables grow or rules of it are made late."""

from __future__ import annotations

import gc


class gc_paused:  # noqa: N801 - a context, as contextlib's are
    """A context in which the collector does not start by itself.

    A compilation makes thousands of small objects, nearly all of which are gone at its end without the collector. It would look
    at them, and every so often at all objects of the process (a server's tokenizer alone has hundreds of thousands), again and
    again meanwhile. It goes on afterwards, and stays off where somebody else had it off before.
    """

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        self._end()

    def __del__(self) -> None:
        self._end()  # an interrupt may come inside `__enter__` and `__exit__`

    def _end(self) -> None:
        if getattr(self, "_was_on", False):
            self._was_on = False
            gc.enable()
