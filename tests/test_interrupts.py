"""Ctrl-C at any moment leaves everything usable: no lock stays held, no thread goes on writing, no table is half changed."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_tools import FRESH, mask_bits, vocabulary

import cdplugin as cd
from cdplugin.collector import gc_paused
from cdplugin.engine.arena import Arena, OneBudget
from cdplugin.infill.tables import InfillGrammar
from cdplugin.infill.workspace import Workspace
from cdplugin.kernels.store import layout
from cdplugin.matcher import batch
from cdplugin.queries.costs import Costs

VOCAB = vocabulary([b"ab", b"aab", b'":'])
WORDS = (VOCAB.size + 31) // 32
SCHEMA = {"properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]}
SPECS: list[cd.Spec] = [
    cd.JsonSchema(SCHEMA),
    cd.JsonSchema(SCHEMA, property_order="any"),
    cd.Lark('start: "a" b\nb: /[a-c]+/'),
]


class Interrupt:
    """Makes the n-th call of a method raise KeyboardInterrupt, before or after its work."""

    def __init__(self, owner: type, name: str, n: int, after: bool = False) -> None:
        self.owner, self.name, self.real = owner, name, getattr(owner, name)
        self.left, self.after = n, after

    def __enter__(self) -> Interrupt:
        def call(this: Any, *arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise KeyboardInterrupt
            result = self.real(this, *arguments, **named)
            if self.left == 0:
                raise KeyboardInterrupt
            return result

        setattr(self.owner, self.name, call)
        return self

    def __exit__(self, *_: object) -> None:
        setattr(self.owner, self.name, self.real)


def every_place(owner: type, name: str, work: Callable[[], Any], check: Callable[[], None]) -> int:
    """Interrupt ``work`` at its first, second, … call of a method until it gets through. Returns how often it was
    interrupted.
    """
    n = 0
    while True:
        n += 1
        for after in (False, True):
            with Interrupt(owner, name, n, after) as interrupt:
                try:
                    work()
                except KeyboardInterrupt:
                    pass
                else:
                    assert interrupt.left > 0
                    return n - 1
            check()


@pytest.mark.parametrize("spec", SPECS, ids=["schema", "any order", "lark"])
def test_compiling(spec: cd.Spec) -> None:
    expected = mask_bits(cd.Compiler(VOCAB).compile(spec).matcher())
    compiler = cd.Compiler(VOCAB, cd.Limits(max_rules=12345))  # its template, too, is made under interrupts

    def check() -> None:
        assert gc.isenabled()
        assert mask_bits(cd.Compiler(VOCAB).compile(spec).matcher()) == expected

    assert every_place(Arena, "call", lambda: compiler.compile(spec), check) >= 2
    assert mask_bits(compiler.compile(spec).matcher()) == expected


def test_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is interrupted while the threads work: it returns when they no longer write into its bitmask."""
    matchers = [cd.Compiler(VOCAB).compile(spec).matcher() for spec in SPECS * 3]
    expected = [mask_bits(m) for m in matchers]
    real, began, ended = batch._fill_groups, threading.Event(), threading.Event()

    def fill(*arguments: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            began.wait()  # what has not begun is not done at all
            raise KeyboardInterrupt
        began.set()
        time.sleep(0.2)
        real(*arguments)
        ended.set()

    bitmask = np.zeros((len(matchers), WORDS), np.int32)
    with monkeypatch.context() as patch:
        patch.setattr(batch, "_fill_groups", fill)
        with pytest.raises(KeyboardInterrupt):
            cd.fill_next_token_bitmasks(matchers, bitmask, threads=2)
    assert ended.is_set()
    cd.fill_next_token_bitmasks(matchers, bitmask, threads=2)
    assert [row.tobytes() for row in bitmask] == expected


def test_infill_on_threads() -> None:
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.Regex("a*b")), threads=2)
    sessions = [infill.new([cd.GAP, "b"]) for _ in range(4)]
    ended = []

    def work(session: Any) -> str:
        if session is sessions[0]:
            raise KeyboardInterrupt
        time.sleep(0.1)
        ended.append(session)
        return session.complete()

    with pytest.raises(KeyboardInterrupt):
        infill.map(work, sessions)
    before = len(ended)
    time.sleep(0.3)
    assert len(ended) == before  # nothing goes on behind the caller's back
    assert infill.map(lambda session: session.complete(), sessions) == ["b"] * 4


@pytest.mark.parametrize("owner", [Workspace, Arena], ids=lambda owner: owner.__name__)
def test_a_session(owner: type) -> None:
    """An interrupted call changes nothing, and later answers are those of a fresh session."""
    grammar = cd.Compiler(VOCAB, FRESH).compile(cd.JsonSchema(SCHEMA))
    pieces = ['{"a"', cd.GAP, ', "b": ', cd.Slots(3), "}"]
    fresh = cd.Infill(grammar).new(pieces)
    expected = fresh.mask(0).tobytes(), fresh.mask(1).tobytes(), fresh.complete()
    token = VOCAB.tokens.index(b":")
    infill = cd.Infill(grammar)
    session = infill.new(pieces)

    def work() -> None:
        session.insert(0, token)
        session.mask(1)
        session.undo()

    def check() -> None:
        while session._history:
            session.undo()
        assert (session.mask(0).tobytes(), session.mask(1).tobytes(), session.complete()) == expected

    assert every_place(owner, "call", work, check) >= (2 if owner is Workspace else 0)
    check()


@pytest.mark.parametrize("owner", [InfillGrammar, OneBudget, gc_paused])
@pytest.mark.parametrize("at", ["the end of __enter__", "the beginning of __exit__"])
def test_contexts(owner: type, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt may come inside a context's own methods: tables stayed locked, the collector off, a step's work shared."""
    session = cd.Infill(cd.Compiler(VOCAB).compile(SPECS[0])).new(["{", cd.GAP])
    tables = session._tables
    name = at.rpartition(" ")[2]
    real = getattr(owner, name)

    def interrupted(this: Any, *arguments: Any) -> None:
        if name == "__enter__":
            real(this)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.completable()
    gc.collect()
    assert gc.isenabled() and not tables.lock.locked() and not tables.arena.header[layout.HOLDS_WORK]
    assert session.completable() and session.complete() == '{"a":0}'


def test_what_is_known_of_endings(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt between two of its tables that grow together: every later question was an IndexError."""
    grammar, fresh = (cd.Compiler(VOCAB).compile(SPECS[1]) for _ in range(2))
    real = Costs._add

    def interrupted(this: Any, *arguments: Any) -> None:
        real(this, *arguments)
        this._sums.pop()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Costs, "_add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            grammar.matcher().shortest_completion()
    matcher, expected = grammar.matcher(), fresh.matcher()
    assert matcher.shortest_completion() == expected.shortest_completion()
    assert matcher.enough_tokens() == expected.enough_tokens()


def test_a_budget_that_was_near_before_an_arena_was_broken() -> None:
    """The ending in hand was looked for in the arena that had been given up: every later token was an error."""
    matcher = cd.Compiler(VOCAB).compile(SPECS[0]).matcher()
    row = np.zeros((1, WORDS), np.int32)
    matcher.fill_next_token_bitmask(row, budget=3)
    matcher._present().abandon()
    assert matcher.accept_token(ord("1")) and matcher.shortest_completion() == []
