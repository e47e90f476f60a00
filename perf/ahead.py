"""What work ahead (``cdplugin/ahead.py``) saves: masks of new schemas with it and without, beside a simulated model.

    python perf/ahead.py ../shared/maskbench/dev.jsonl.gz --every 40 --out FILE
    python perf/ahead.py ../shared/maskbench/dev.jsonl.gz --check --every 10     # the same masks, bit for bit

The script does what a server does with a request: it compiles the schema, reads the prompt (a sleep of ``--prefill``
milliseconds), and then, for each token of a valid instance, makes the mask, waits for the forward pass (a sleep of
``--forward`` milliseconds) and accepts the token. One real thread of :class:`cdplugin.ahead.Ahead` runs beside it. Each
schema is new and has one text. Runs with and without work ahead take turns.

Reported: the CPU time of mask + accept in the decoding thread, and the same on the clock, which includes all waiting for a
lock, for the GIL or for a processor; the time of the visiting thread; and the bytes of the grammars.

``--check`` compares masks instead: between tokens, the same thread visits places until a random budget is spent, and each
mask must equal the one without work ahead, bit for bit.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import cdplugin as cd
from cdplugin.ahead import Ahead

sys.path.insert(0, str(Path(__file__).resolve().parent))
from mask_engines import Tokenizer

QUANTILES = (50, 90, 99, 99.9)
FIRST = 8  # tokens: the first ones of a text


class Way:
    """One way to run, with work ahead or without: a compiler of its own, and what was measured."""

    def __init__(self, vocab: cd.Vocabulary, threads: int) -> None:
        self.compiler = cd.Compiler(vocab)
        self.visitor = Ahead(threads) if threads else None
        self.bitmask = np.zeros((1, (vocab.size + 31) // 32), np.int32)
        self.cpu: list[float] = []
        self.clock: list[float] = []
        self.first: list[float] = []
        self.nbytes: list[int] = []
        self.visited = 0.0

    def follow(self, schema: Any, text: list[int], prefill: float, forward: float) -> None:
        """Serve one request. As in vLLM, the thread that compiles the grammar also makes its first mask."""
        matcher = self.compiler.compile(cd.JsonSchema(schema)).matcher()
        matcher.fill_next_token_bitmask(self.bitmask)
        visitor = self.visitor
        others = time.process_time() - time.thread_time()
        if visitor is not None:
            visitor.follow(matcher)
        time.sleep(prefill)
        for place, token in enumerate(text):
            if visitor is not None:
                visitor.touch()
            began, began_cpu = time.perf_counter(), time.thread_time()
            matcher.fill_next_token_bitmask(self.bitmask)
            cpu, clock = time.thread_time() - began_cpu, time.perf_counter() - began
            if visitor is not None and place:
                visitor.follow(matcher)
            time.sleep(forward)
            if visitor is not None:
                visitor.touch()
            began, began_cpu = time.perf_counter(), time.thread_time()
            taken = matcher.accept_token(token)
            cpu, clock = cpu + time.thread_time() - began_cpu, clock + time.perf_counter() - began
            if not taken:
                break
            self.cpu.append(1e6 * cpu)
            self.clock.append(1e6 * clock)
            if place < FIRST:
                self.first.append(1e6 * cpu)
        self.visited += time.process_time() - time.thread_time() - others
        self.nbytes.append(matcher.grammar.nbytes)

    def summary(self) -> dict[str, Any]:
        return {
            "mask + accept, us of its thread": spread(self.cpu),
            "of the first tokens": spread(self.first),
            "on the clock": spread(self.clock),
            "grammars": {"bytes": int(np.sum(self.nbytes)), "p50": int(np.median(self.nbytes)), "schemas": len(self.nbytes)},
            "ahead": self.visitor.counters() | {"seconds of other threads": round(self.visited, 2)} if self.visitor else None,
        }


def spread(times: list[float]) -> dict[str, float]:
    found = {"mean": float(np.mean(times))} | {f"p{q:g}": float(np.percentile(times, q)) for q in QUANTILES}
    return {name: round(value, 1) for name, value in {**found, "max": max(times), "masks": len(times)}.items()}


def check(vocab: cd.Vocabulary, cases: list[tuple[Any, list[int]]]) -> int:
    """Compare all masks along the texts, and return how many there were."""
    rng, compared = random.Random(1), 0
    compilers = cd.Compiler(vocab), cd.Compiler(vocab)
    rows = np.zeros((2, (vocab.size + 31) // 32), np.int32)
    for schema, text in cases:
        visitor = Ahead(0)
        alone, ahead = (compiler.compile(cd.JsonSchema(schema)).matcher() for compiler in compilers)
        for token in [*text, None]:
            visitor.follow(ahead)
            visitor.run(rng.choice((1, 20_000, 400_000)))
            alone.fill_next_token_bitmask(rows, 0)
            ahead.fill_next_token_bitmask(rows, 1)
            assert (rows[0] == rows[1]).all(), (schema, ahead.tokens)
            compared += 1
            if token is None or not alone.accept_token(token):
                break
            assert ahead.accept_token(token)
        assert visitor.counters()["failed"] == 0, schema
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip")
    parser.add_argument("--every", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="the schemas from this one on")
    parser.add_argument("--prefill", type=float, default=30.0, help="milliseconds")
    parser.add_argument("--forward", type=float, default=8.0, help="milliseconds")
    parser.add_argument("--tokens", type=int, default=400, help="of a text, at most")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tokenizer = Tokenizer("llama3")
    vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos)
    with gzip.open(given.data, "rt") as lines:
        rows = [json.loads(line) for number, line in enumerate(lines) if number % given.every == given.first]
    cases = []
    for row in rows:
        valid = [test["data"] for test in row["tests"] if test["valid"]]
        if valid:
            cases.append((row["schema"], tokenizer.encode(json.dumps(valid[0], ensure_ascii=False))[: given.tokens]))
    compiler, compiled = cd.Compiler(vocab), []
    for case in cases:
        try:
            compiler.compile(cd.JsonSchema(case[0]))
            compiled.append(case)
        except cd.GrammarError:
            continue
    if given.check:
        print(f"{check(vocab, compiled)} masks of {len(compiled)} schemas are the same")
        return
    ways = {"without": Way(vocab, 0), "with": Way(vocab, given.threads)}
    warm = {"type": "object", "properties": {"warm": {"type": "string"}}}
    for way in ways.values():
        way.follow(warm, tokenizer.encode('{"warm": "up"}'), 0.1, 0.01)
        way.cpu, way.clock, way.first, way.nbytes = [], [], [], []
    for number, (schema, text) in enumerate(compiled):
        for name in list(ways)[:: 1 if number % 2 else -1]:
            ways[name].follow(schema, text, given.prefill / 1e3, given.forward / 1e3)
    result = {"arguments": {key: str(value) for key, value in vars(given).items()}}
    result |= {name: way.summary() for name, way in ways.items()}  # type: ignore[misc]
    print(json.dumps(result, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
