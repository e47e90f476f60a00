"""Which threads wait for which while vLLM's scheduler process compiles grammars."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import cdplugin as cd
from cdplugin.adapters.serving.engine import Engine
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm.threads import GrammarThreads

SECONDS = 60.0
"""Only a hang takes so long."""


def request(text: str, kind: str = "REGEX") -> Any:
    key = SimpleNamespace(name=kind), text
    return SimpleNamespace(structured_output_request=SimpleNamespace(structured_output_key=key))


def test_nobody_waits_for_large_grammars() -> None:
    engine = Engine(cd.Vocabulary.from_bytes([b"a", b"b", b"</s>"], eos_token_ids=2), ServerOptions())
    long_known = "a{1,9}" * 2_000
    engine.grammar("REGEX", long_known)
    assert engine.has_met("REGEX", long_known) and not engine.has_met("REGEX", "a")
    go_on, running = threading.Event(), threading.Semaphore(0)

    def wait(_: Any) -> str:
        running.release()
        assert go_on.wait(SECONDS)
        return "waited"

    threads = GrammarThreads(engine, workers=1)
    large = [threads.submit(wait, request("b" * 5_000 + str(i))) for i in range(3)]
    small = [threads.submit(wait, request(f"b{i}")) for i in range(2)]  # and still one thread for others
    unreadable = threads.submit(wait, None)
    huge = [threads.submit(wait, request("b" * 70_000 + str(i))) for i in range(2)]
    for _ in range(4):
        assert running.acquire(timeout=SECONDS)
    assert not running.acquire(blocking=False)  # one large one at a time, and one huge one
    for asked in ("ab", long_known):
        assert threads.submit(lambda r: r, request(asked)).result(SECONDS) is not None
    go_on.set()
    assert {future.result(SECONDS) for future in [*large, *huge, *small, unreadable]} == {"waited"}
    threads.shutdown()


def test_an_error_is_the_future_s() -> None:
    engine = Engine(cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1), ServerOptions())
    threads = GrammarThreads(engine, workers=1)
    assert isinstance(threads.submit(lambda r: 1 // 0, request("a")).exception(SECONDS), ZeroDivisionError)
    threads.shutdown(wait=True, cancel_futures=True)
