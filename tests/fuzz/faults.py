"""Faults at a chosen place inside an operation: memory that runs out, a budget that is crossed, Ctrl+C.

Arm a :class:`Fault` around one operation. It goes off once, at the ``after``-th opportunity. An operation with fewer
opportunities ends as it would without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

import cdplugin as cd
from cdplugin.engine import arena, blocks, owned_tables, pages, rules
from cdplugin.engine import base_arena as template
from cdplugin.engine import tracked as keeping
from cdplugin.engine.arena import Arena
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.parser import layout as parser_layout

OWNERS = (arena, blocks, keeping, owned_tables, pages, rules, template)
"""Modules that allocate and grow what the kernels read."""
KINDS = ("memory", "pages", "limit", "interrupt")

_ALLOCATING = frozenset("array arange concatenate cumsum empty empty_like frombuffer full ones zeros zeros_like".split())


class Fault:
    """What goes wrong, and when. ``fired``: whether it went off.

    ``memory``: an allocation by NumPy raises ``MemoryError``. ``pages``: an allocation of pages does. ``limit``: growth
    raises :class:`LimitExceeded`, as if a budget were crossed. ``interrupt``: ``KeyboardInterrupt`` at a line of the
    modules that own tables, where Python would run a signal's handler.
    """

    def __init__(self, kind: str, after: int) -> None:
        self.kind = kind
        self.left = after
        self.fired = False

    def error(self) -> BaseException:
        if self.kind == "limit":
            return cd.LimitExceeded("injected")
        return KeyboardInterrupt("injected") if self.kind == "interrupt" else MemoryError("injected")

    def opportunity(self) -> None:
        """Raise if this is the chosen opportunity."""
        if not self.fired:
            self.left -= 1
            if self.left <= 0:
                self.fired = True
                raise self.error()

    @contextmanager
    def armed(self) -> Iterator[None]:
        """Inside this context, the fault may go off."""
        with {"memory": self._memory, "pages": self._pages, "limit": self._limit, "interrupt": self._interrupt}[self.kind]():
            yield

    @contextmanager
    def _memory(self) -> Iterator[None]:
        proxy: Any = _Faulty(self)
        for module in OWNERS:
            if hasattr(module, "np"):
                module.np = proxy  # type: ignore[attr-defined]
        try:
            yield
        finally:
            for module in OWNERS:
                if hasattr(module, "np"):
                    module.np = np  # type: ignore[attr-defined]

    @contextmanager
    def _pages(self) -> Iterator[None]:
        with (
            _replaced(pages, "acquire", self._before(pages.acquire)),
            _replaced(pages, "extended", self._before(pages.extended)),
        ):
            yield

    @contextmanager
    def _limit(self) -> Iterator[None]:
        with _replaced(Arena, "recover", self._before(Arena.recover)):
            yield

    @contextmanager
    def _interrupt(self) -> Iterator[None]:
        files = {module.__file__ for module in OWNERS}

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            if frame.f_code.co_filename not in files or frame.f_code.co_name == "__del__":
                return None
            if event == "line":
                self.opportunity()
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            self.opportunity()
            return function(*arguments, **keywords)

        return wrapped


class _Faulty:
    """NumPy, with each allocation an opportunity."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        return self._fault._before(value) if name in _ALLOCATING else value


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def tight_tables() -> Iterator[None]:
    """Make new arenas begin with next to nothing, use pages of their own early, and grow often, by little."""
    hashed = owned_tables.HASHED
    small = {table: 16 if table in hashed else 1 for table in arena.INITIAL}
    small[arena.layout.VALUES] = arena.layout.VALUE_WORDS  # record 0 is of nothing, and zeros: kernels read it
    small[arena.layout.LEXER_STATES] = lexer_layout.LEXER_WORDS
    small[arena.layout.ROWS] = parser_layout.ROW_WORDS
    small[arena.layout.TRANSITIONS] = 256
    with (
        _replaced(arena, "INITIAL", small),
        _replaced(arena, "ROOM", dict.fromkeys(arena.ROOM, 2)),  # else most would never be allocated anew
        _replaced(arena, "AT_ONCE", {}),
        _replaced(owned_tables, "_GROWTH_SMALL", 1.02),
        _replaced(owned_tables, "_GROWTH_LARGE", 1.01),
        _replaced(pages, "LARGE", 1 << 12),
    ):
        yield
