"""Python's cyclic garbage collector, put off while a grammar is compiled."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """A context in which the collector does not start by itself.

    A compilation makes thousands of small objects, nearly all of which are gone at its end without the collector. It would look
    at them, and every so often at all objects of the process (a server's tokenizer alone has hundreds of thousands), again and
    again meanwhile. It goes on afterwards, and stays off where somebody else had it off before.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
