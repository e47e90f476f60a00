"""What new schemas cost sequences that are already decoding: a decode loop alone, and beside 20 new schemas a second.

    .venv/bin/python perf/neighbours.py ../shared/maskbench/dev.jsonl.gz --out neighbours.json

The loop does what an engine does for 16 sequences: a forward pass (8 ms of sleep, as a GPU computes), then each sequence
accepts its token and gets its mask, one after the other. The sequences follow valid instances of MaskBench that were
followed before, so a step's own work is always the same. Beside the loop, threads of the same process compile new schemas
and make their first masks, evenly spaced, as vLLM's scheduler process does it with cdplugin's adapter. This includes
``taking_turns``: Python's threads switch more often meanwhile.

Blocks of a few seconds take turns: the loop alone; beside cdplugin's compilations; beside cdplugin's with a budget of
tokens, whose first mask finds out more; beside cdplugin's with work ahead (:mod:`cdplugin.ahead`: one more thread visits
what may follow, in the new schemas and in the loop's own); and beside llguidance's. The script reports percentiles of a
step's time without the sleep, in milliseconds, and the CPU time that a new schema takes in its thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import cdplugin as cd
from cdplugin.adapters.serving.door import taking_turns
from cdplugin.ahead import Ahead

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mask_engines import Tokenizer, make

FORWARD = 0.008
SEQUENCES = 16
FAR = 4096  # tokens: a usual max_tokens
AHEAD = "cdplugin, ahead"
QUANTILES = (50, 90, 99, 99.9)


class Batch:
    """The sequences that are decoded; each starts again when its text is over."""

    def __init__(self, compiler: cd.Compiler, encode: Callable[[str], list[int]], rows: list[Any]) -> None:
        self.bitmask = np.zeros((SEQUENCES, (compiler.vocab.size + 31) // 32), np.int32)
        self.texts: list[list[int]] = []
        self.matchers: list[cd.Matcher] = []
        for row in rows:
            valid = [test["data"] for test in row["tests"] if test["valid"]]
            if len(self.texts) == SEQUENCES or not valid:
                continue
            text = encode(json.dumps(valid[0], ensure_ascii=False))
            try:
                matcher = compiler.compile(cd.JsonSchema(row["schema"])).matcher()
            except cd.GrammarError:
                continue
            if 20 <= len(text) <= 400 and self._is_followed(matcher, text):
                self.texts.append(text)
                self.matchers.append(matcher)

    def _is_followed(self, matcher: cd.Matcher, text: list[int]) -> bool:
        """Follow a text for the first time; whether it is legal to its end."""
        for token in text:
            matcher.fill_next_token_bitmask(self.bitmask)
            if not matcher.accept_token(token):
                return False
        return True

    def step(self, visitor: Ahead | None = None) -> None:
        """Accept a token and make a mask for each sequence."""
        if visitor is not None:
            visitor.touch()
        for number, (matcher, text) in enumerate(zip(self.matchers, self.texts, strict=True)):
            if len(matcher.tokens) == len(text):
                matcher.reset()
            matcher.accept_token(text[len(matcher.tokens)])
            matcher.fill_next_token_bitmask(self.bitmask, number)
            if visitor is not None:
                visitor.follow(matcher)


class Arrivals:
    """New schemas, so many a second, on threads of their own."""

    def __init__(self, meet: Callable[[Any], None], schemas: list[Any], rate: float, threads: int) -> None:
        self._meet, self._schemas, self._every = meet, schemas, 1 / rate
        self._pool = ThreadPoolExecutor(threads)
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._run)
        self.seconds: list[float] = []  # of processor time, per schema
        self.refused = 0

    def __enter__(self) -> Arrivals:
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._clock.join()
        self._pool.shutdown(cancel_futures=True)

    def _run(self) -> None:
        due = time.perf_counter()
        while not self._over.wait(max(0.0, due - time.perf_counter())):
            self._pool.submit(self._one, self._schemas.pop())
            due += self._every

    def _one(self, schema: Any) -> None:
        began = time.thread_time()
        try:
            self._meet(schema)
        except (cd.GrammarError, RuntimeError):  # llguidance's refusals are RuntimeErrors
            self.refused += 1
            return
        self.seconds.append(time.thread_time() - began)


def steps(batch: Batch, seconds: float, visitor: Ahead | None = None) -> list[float]:
    """Decode for so many seconds. Returns the milliseconds of each step, without its forward pass."""
    out = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        time.sleep(FORWARD)
        began = time.perf_counter()
        batch.step(visitor)
        out.append(1e3 * (time.perf_counter() - began))
    return out


def ways(compiler: cd.Compiler, tokenizer: Tokenizer, visitor: Ahead) -> dict[str, Callable[[Any], None] | None]:
    """By name: what is done with a new schema; None if no schemas come."""

    waiting: deque[cd.Matcher] = deque(maxlen=8)  # requests whose prompts are read

    def meet(schema: Any, budget: int | None = None, ahead: bool = False) -> None:
        with taking_turns:
            matcher = compiler.compile(cd.JsonSchema(schema)).matcher()
            matcher.fill_next_token_bitmask(np.zeros((1, (compiler.vocab.size + 31) // 32), np.int32), 0, budget)
        if ahead:
            waiting.append(matcher)
            visitor.follow(matcher)

    out: dict[str, Callable[[Any], None] | None] = {"alone": None, "cdplugin": meet}
    out["cdplugin, budget"] = lambda schema: meet(schema, FAR)
    out[AHEAD] = lambda schema: meet(schema, ahead=True)
    try:
        peer = make("llguidance", tokenizer)
    except ImportError as error:
        print(f"without llguidance: {error}", file=sys.stderr)
        return out

    def meet_there(schema: Any) -> None:  # without the GIL but for some microseconds
        peer.fill(peer.matcher(peer.compile(schema)))

    return out | {"llguidance": meet_there}


def summary(times: list[float]) -> dict[str, float]:
    values = {f"p{q:g}": float(np.percentile(times, q)) for q in QUANTILES}
    return {name: round(value, 3) for name, value in {**values, "max": max(times), "steps": len(times)}.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip")
    parser.add_argument("--rate", type=float, default=20.0, help="new schemas a second")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a block")
    parser.add_argument("--turns", type=int, default=8, help="blocks of each kind")
    parser.add_argument("--threads", type=int, default=2, help="that compile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tokenizer = Tokenizer("llama3")
    vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos)
    compiler = cd.Compiler(vocab)
    with gzip.open(given.data, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    random.Random(given.seed).shuffle(rows)
    batch = Batch(compiler, tokenizer.encode, rows[:400])
    schemas = [row["schema"] for row in rows[400:]]
    times: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    visitor = Ahead(1)
    kinds = ways(compiler, tokenizer, visitor)
    for turn in range(given.turns):
        names = [*kinds][turn % len(kinds) :] + [*kinds][: turn % len(kinds)]
        for name in names:
            meet = kinds[name]
            if meet is None:
                times.setdefault(name, []).extend(steps(batch, given.seconds))
                continue
            with Arrivals(meet, schemas, given.rate, given.threads) as arrivals:
                times.setdefault(name, []).extend(steps(batch, given.seconds, visitor if name == AHEAD else None))
            spent.setdefault(name, []).extend(arrivals.seconds)
    result: dict[str, Any] = {
        "arguments": {key: str(value) for key, value in vars(given).items()},
        "steps, ms": {name: summary(times[name]) for name in kinds},
        "ahead": visitor.counters(),
        "a new schema, ms of its thread": {
            name: {
                "schemas": len(each),
                "mean": round(1e3 * statistics.fmean(each), 2),
                "p50": round(1e3 * statistics.median(each), 2),
            }
            for name, each in spent.items()
        },
    }
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
