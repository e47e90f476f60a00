"""A real ``vllm serve`` and hostile requests: each gets an answer, and requests beside it notice nothing.

This is the only bound of time in the tests: ``/health`` and a good request each have two seconds. Where the machine is
slow, they have ten times what they take (in the median) while nothing else is asked. A request that seems to break this is
sent again in other words: three times in a row is no chance.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hostile_requests import GOOD, Answer, Beside, ask, beside, get, of_corpus, of_review, varied
from vllm_tools import needs_vllm

pytestmark = needs_vllm
SECONDS = 2.0
TRIES = 3
MOST_GROWTH = 1 << 30
"""Bytes by which the processes of a server may grow, all together: the caches' budgets and what one request may take."""


class Watched:
    """A server, how long its answers take when nothing else is asked, and how large it was then."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.url: str = server.url
        idle = [beside(self.url, lambda: Answer(200, 0.0, "")) for _ in range(5)]
        assert all(seen.health.status == seen.good.status == 200 for seen in idle), idle
        self.health = max(SECONDS, 10 * statistics.median(seen.health.seconds for seen in idle))
        self.good = max(SECONDS, 10 * statistics.median(seen.good.seconds for seen in idle))
        self.members = sorted(server.members())
        self.size = self.resident()

    def resident(self) -> int:
        """Resident bytes of all the server's processes."""
        pages = [Path(f"/proc/{process}/statm").read_text().split()[1] for process in self.server.members()]
        return 4096 * sum(map(int, pages))

    def wrong(self, seen: Beside) -> str:
        """What is wrong with what was seen beside a request; empty if nothing is."""
        if seen.answer.status not in (200, 400):
            return f"status {seen.answer.status}: {seen.answer.text[:300]}"
        if seen.health.status != 200 or seen.health.seconds > self.health:
            return f"/health: {seen.health}"
        if seen.good.status != 200 or seen.good.seconds > self.good:
            return f"a good request: {seen.good}"
        return ""

    def try_out(self, request: dict[str, Any]) -> str:
        """Send a request, again in other words if what is wrong may be chance. Returns what was wrong each time."""
        found = ""
        for number in range(TRIES):
            asked = varied(request, number) if number else request
            found = self.wrong(beside(self.url, partial(ask, self.url, asked)))
            if not found or found.startswith("status"):
                break
        return found


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    import vllm_serve
    from demo_model import model_folder

    with vllm_serve.Server(str(model_folder()), ["--dtype", "float32", "--enforce-eager"]) as server:
        found = Watched(server)
        began = time.monotonic()
        yield found
        print(f"{(found.resident() - found.size) / 1e6:.0f} MB more after {time.monotonic() - began:.0f} s")


def all_are_borne(watched: Watched, requests: dict[str, dict[str, Any]]) -> None:
    wrong = {}
    for name, request in requests.items():
        found = watched.try_out(request)
        if found:
            print(f"{name}: {found}", flush=True)  # all of it: the assertion's message is cut
            wrong[name] = found[:200]
    assert wrong == {}
    assert sorted(watched.server.members()) == watched.members  # the engine too is the one that it was
    assert watched.resident() - watched.size <= MOST_GROWTH
    assert "Traceback" not in watched.server.log.read_text()


def test_beside_what_was_once_too_much(watched: Watched) -> None:
    all_are_borne(watched, of_review())


def test_beside_eight_at_once(watched: Watched) -> None:
    """Large requests that are refused, at the same time: they wait for each other, nobody waits for them."""
    large = [varied(of_review()["none of 200"], number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(ask, watched.url, request) for request in large[1:]]
        seen = beside(watched.url, lambda: ask(watched.url, large[0]))
        answers = [other.result() for other in others]
    assert not watched.wrong(seen)
    assert {answer.status for answer in answers} == {seen.answer.status} == {400}


def test_what_was_refused_is_refused_at_once(watched: Watched) -> None:
    request = varied(of_review()["one of 200"], 100)
    first, second = ask(watched.url, request), ask(watched.url, request)
    assert first.status == second.status == 400 and first.text == second.text
    assert ask(watched.url, GOOD).status == get(watched.url).status == 200


@pytest.mark.slow
def test_beside_the_corpus(watched: Watched) -> None:
    requests = of_corpus()
    if not requests:
        pytest.skip("no hostile corpus here: tests/data/hostile.jsonl")
    all_are_borne(watched, requests)
