"""The check of requests says what the compiler says, checks equal requests once, and keeps off the event loop."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections import Counter
from typing import Any

import pytest
from door_fuzz import MAKERS, said, verdict
from engine_tools import cases
from word_choice import CHOICE, VOCAB

import cdplugin as cd
from cdplugin.adapters.serving import door
from cdplugin.adapters.serving import engine as serving
from cdplugin.adapters.serving.door import Lane, OffLoop
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm.grammar import Engine

BYTES = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)

# --- the same decisions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MAKERS)
def test_the_door_says_what_the_compiler_says(kind: str) -> None:
    """On random requests, right, changed and hostile. ``tests/door_fuzz.py`` runs more."""
    door, engine = Engine(BYTES, ServerOptions()), Engine(BYTES, ServerOptions())
    counts: Counter[str] = Counter()
    for case in range(cases(250, 10)):
        rng = random.Random(f"{kind} {case}")
        asked = MAKERS[kind][1](rng)
        found = verdict(door, engine, asked, rng)
        counts[found.what] += 1
        assert found.what in ("admitted", "refused", "foreseen"), (case, asked, found)
    assert kind == "JSON_OBJECT" or min(counts["admitted"], counts["refused"]) >= cases(25, 0), counts


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("JSON", '{"type": "string", "maxLength": 2147483647}'),
        ("JSON", '{"type": "string", "minLength": 1e300}'),
        ("JSON", '{"type": "object", "minProperties": 1000000}'),
        ("JSON", '{"type": "array", "uniqueItems": true, "items": {"enum": [1, 2]}, "minItems": 3}'),
        ("GRAMMAR", "start: <|no-such-token|>"),
    ],
)
def test_what_the_door_once_let_in_and_the_compiler_refused(kind: str, text: str) -> None:
    assert said(Engine(BYTES, ServerOptions()).check, kind, text) == said(Engine(BYTES, ServerOptions()).state, kind, text)


def test_a_mistake_of_ours_refuses_one_request(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(VOCAB, ServerOptions())

    def broken(*_: object) -> None:
        raise KeyError("nobody knows")

    monkeypatch.setattr(serving, "admit", broken)
    with pytest.raises(cd.GrammarError, match="this request cannot be checked: found KeyError"):
        engine.check("CHOICE", CHOICE)
    assert "please report" in caplog.text and "nobody knows" in caplog.text
    monkeypatch.undo()
    engine.check("CHOICE", CHOICE)  # the finding: memory that was full for a moment refused a request for good


# --- once -----------------------------------------------------------------------------------------------------------------


def test_equal_requests_at_the_same_time_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, calls = Engine(VOCAB, ServerOptions()), []

    def slow(*_: object) -> None:
        calls.append(1)
        time.sleep(0.1)
        raise cd.GrammarError("refused")

    async def several() -> list[Any]:
        asked = [engine.check_off_loop("JSON", "{}") for _ in range(3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    monkeypatch.setattr(serving, "admit", slow)
    errors = asyncio.run(several())
    assert [str(error) for error in errors] == ["refused"] * 3 and len(set(map(id, errors))) == 3
    assert len(calls) == 1


def test_equal_requests_take_one_thread() -> None:
    """However many wait for the first of them, another one has its turn."""
    off_loop = OffLoop()
    go = threading.Event()

    async def mixed() -> Any:
        equal = [asyncio.ensure_future(off_loop.run("key", 10, lambda: go.wait(30))) for _ in range(5)]
        other = await asyncio.wait_for(off_loop.run("another key", 10, lambda: "other"), 30)
        go.set()
        assert all(await asyncio.gather(*equal))
        return other, await off_loop.run("key", 10, lambda: "again")  # nothing is kept

    assert asyncio.run(mixed()) == ("other", "again")


def test_a_client_that_gives_up_is_not_waited_for() -> None:
    """Its call is made only if it has begun already, or others wait for it."""
    off_loop = OffLoop()
    go, calls = threading.Event(), []

    async def several() -> None:
        first = asyncio.ensure_future(off_loop.run("first", door.LARGE, lambda: go.wait(30)))
        given_up, shared, last = (
            asyncio.ensure_future(off_loop.run(name, door.LARGE, lambda name=name: calls.append(name)))
            for name in ("given up", "shared", "last")
        )
        sharing = asyncio.ensure_future(off_loop.run("shared", door.LARGE, lambda: None))
        await asyncio.sleep(0)
        for one in (given_up, sharing):
            one.cancel()
        await asyncio.wait([given_up, sharing])
        go.set()
        assert await first
        await asyncio.gather(shared, last)

    asyncio.run(several())
    assert calls == ["shared", "last"]


# --- off the loop ---------------------------------------------------------------------------------------------------------


def test_the_loop_goes_on_while_a_request_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check ends when the loop has done something else: on the loop it would never."""
    engine, go, admit = Engine(VOCAB, ServerOptions()), threading.Event(), serving.admit

    def waiting(*given: Any) -> Any:
        return admit(*given) if go.wait(30) else pytest.fail("the loop stood still")

    monkeypatch.setattr(serving, "admit", waiting)

    async def both() -> None:
        checking = asyncio.ensure_future(engine.check_off_loop("JSON", "{}"))
        await asyncio.sleep(0.01)
        go.set()
        await checking

    asyncio.run(both())


def test_what_is_known_needs_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(VOCAB, ServerOptions())
    asyncio.run(engine.check_off_loop("CHOICE", CHOICE))
    with pytest.raises(cd.GrammarError, match="position 0"):
        asyncio.run(engine.check_off_loop("REGEX", "(a"))
    monkeypatch.setattr(engine, "_off_loop", None)
    asyncio.run(engine.check_off_loop("CHOICE", CHOICE))
    with pytest.raises(cd.GrammarError, match="position 0"):
        asyncio.run(engine.check_off_loop("REGEX", "(a"))


@pytest.mark.parametrize(("others", "size"), [(door.LARGE, 10), (door.HUGE, 10), (door.HUGE, door.HUGE - 1)])
def test_larger_requests_do_not_stand_in_the_way_of_smaller_ones(others: int, size: int) -> None:
    """The finding for huge ones: while a grammar of 800,000 characters was checked, schemas of five thousand waited."""
    off_loop = OffLoop()
    go = threading.Event()

    async def mixed() -> str:
        larger = [asyncio.ensure_future(off_loop.run(i, others, lambda: go.wait(30))) for i in range(5)]
        smaller = await asyncio.wait_for(off_loop.run("smaller", size, lambda: "smaller"), 20)
        go.set()
        assert all(await asyncio.gather(*larger))
        return smaller

    assert asyncio.run(mixed()) == "smaller"


def test_a_lane_survives_what_it_is_given() -> None:
    lane = Lane("test", 1)
    with pytest.raises(SystemExit):
        lane.submit(sys.exit).result(30)
    assert lane.submit(lambda: 1).result(30) == 1


def test_pythons_lock_goes_round_more_often_meanwhile() -> None:
    usual = sys.getswitchinterval()
    seen = Lane("test", 1).submit(sys.getswitchinterval).result(30)
    assert seen <= 0.0005 < usual and sys.getswitchinterval() == usual


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_lanes_of_its_own() -> None:
    off_loop = OffLoop()
    asyncio.run(off_loop.run(1, 1, lambda: 7))
    child = os.fork()
    if child == 0:
        os._exit(asyncio.run(off_loop.run(2, 1, lambda: 7)) - 7)
    until = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, 9)
    assert ended == (child, 0)
