"""Large batches, simulated: how long the masks of a step take on many threads, beside a forward pass of 20 ms.

    .venv/bin/python perf/large_batches.py ../shared/maskbench/dev.jsonl.gz

Measured, on one thread: the time of every mask and of every accepted token along valid MaskBench instances, first visits
and visits of known states mixed as they come; and how much of a call is Python, which holds the GIL (that of a cached mask:
an upper bound). The vocabulary is Llama 3's if ``llama-models`` is installed, else SmolLM2's.

Simulated: a batch of sequences at places drawn from these times. Masks are filled as vLLM does it: one after the other up
to 128 sequences, above that in chunks of 16 on a pool of threads. The Python part of each call needs the GIL, the rest does
not. The masks run beside the forward pass; accepting tokens comes after it, on one thread. *Masks* is the time until the
last mask is ready, *late* the part of it that the forward pass does not hide, *accept* the time of all accepts. Percentiles
are over steps.

With ``--ahead MS``, an idle thread spends so many milliseconds on work ahead (:mod:`cdplugin.ahead`) between a sequence's
mask and its next token, and before its first mask. A forward pass leaves 20 ms × threads ÷ sequences to each (0.625 for 256
on 8 or 512 on 16), less what masks take. Rows whose share is smaller than MS are left out.

With ``--again``, the texts are followed once before, and only the times of the second pass count: every place is known.
"""

from __future__ import annotations

import argparse
import gzip
import heapq
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import records

import cdplugin as cd
from cdplugin.ahead import Ahead

FORWARD = 0.020
CHUNK, SERIAL = 16, 128
BATCHES = (1, 8, 32, 64, 128, 256, 512)
THREADS = (2, 4, 8, 16)


def vocabulary() -> tuple[cd.Vocabulary, Any]:
    """A vocabulary, and the function that encodes a text."""
    try:
        from mask_engines import Tokenizer

        tokenizer = Tokenizer("llama3")
        return cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos), tokenizer.encode
    except (ImportError, SystemExit):
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
        from demo_model import model_folder  # type: ignore[import-not-found]
        from transformers import AutoTokenizer

        smol = AutoTokenizer.from_pretrained(model_folder())
        return cd.Vocabulary.from_huggingface(smol), lambda text: smol.encode(text, add_special_tokens=False)


def measure(
    path: Path, every: int, ahead: float = 0.0, again: bool = False
) -> tuple[cd.Vocabulary, np.ndarray, np.ndarray, float]:
    """``(vocabulary, seconds of each mask, of each accept, of the Python part of a call)``."""
    vocab, encode = vocabulary()
    compiler = cd.Compiler(vocab)
    bitmask = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    masks, accepts = [], []
    clock = time.thread_time  # other programs on the machine are not counted

    def wait(visitor: Ahead, matcher: cd.Matcher) -> None:
        """What an idle thread does meanwhile."""
        end = clock() + ahead
        if ahead:
            visitor.follow(matcher)
        while ahead and clock() < end and visitor.run(1):
            pass

    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for i, line in enumerate(lines) if i % every == 0]
    for row in rows:
        try:
            grammar = compiler.compile(cd.JsonSchema(row["schema"]))
        except cd.GrammarError:
            continue
        texts = [encode(json.dumps(test["data"], ensure_ascii=False)) for test in row["tests"] if test["valid"]]
        if again:
            for text in texts:
                follow(grammar.matcher(), text, bitmask)
        for text in texts:
            matcher, visitor = grammar.matcher(), Ahead(0)
            wait(visitor, matcher)
            for token in text:
                start = clock()
                matcher.fill_next_token_bitmask(bitmask)
                masks.append(clock() - start)
                if matcher.tokens:
                    wait(visitor, matcher)
                middle = clock()
                if not matcher.accept_token(token):
                    masks.pop()
                    break
                accepts.append(clock() - middle)
    matcher = compiler.compile(cd.Choice(["a", "b"])).matcher()
    matcher.fill_next_token_bitmask(bitmask)
    cached = []
    for _ in range(2000):
        start = clock()
        matcher.fill_next_token_bitmask(bitmask)
        cached.append(clock() - start)
    return vocab, np.array(masks), np.array(accepts), float(np.median(cached))


def follow(matcher: cd.Matcher, tokens: list[int], bitmask: np.ndarray) -> None:
    """Make every mask along a text."""
    for token in tokens:
        matcher.fill_next_token_bitmask(bitmask)
        if not matcher.accept_token(token):
            return


def finish_time(masks: list[float], threads: int, python: float) -> float:
    """When the last mask of a step is ready: a thread that becomes free takes the next chunk, and the threads share the GIL."""
    if len(masks) <= SERIAL:
        return float(sum(masks))
    chunks = [masks[i : i + CHUNK] for i in range(0, len(masks), CHUNK)]
    waiting = chunks[::-1]
    free = [(0.0, thread) for thread in range(threads)]
    work: dict[int, list[float]] = {}
    gil = end = 0.0
    while free:
        now, thread = heapq.heappop(free)
        if not work.get(thread):
            if not waiting:
                continue
            work[thread] = waiting.pop()[::-1]
        mask = work[thread].pop()
        start = max(now, gil)
        gil = start + min(python, mask)
        done = start + mask
        end = max(end, done)
        heapq.heappush(free, (done, thread))
    return end


def simulate(
    path: Path, *, seed: int = 1, every: int = 20, steps: int = 300, ahead: float = 0.0, again: bool = False
) -> list[dict[str, Any]]:
    """Simulate each batch size and number of threads: a row for each."""
    vocab, masks, accepts, python = measure(path, every, ahead, again)
    spread = ", ".join(f"p{q} {1e6 * np.percentile(masks, q):.1f}" for q in (50, 90, 99, 99.9))
    print(f"{vocab.size} tokens; {len(masks)} masks, µs: mean {1e6 * masks.mean():.1f}, {spread}; cached {1e6 * python:.2f}")
    rng = random.Random(seed)
    pool = masks.tolist()
    out = []
    for batch in BATCHES:
        accept = sorted(float(np.sum(rng.choices(accepts.tolist(), k=batch))) for _ in range(steps))
        for threads in THREADS if batch > SERIAL else (1,):
            if FORWARD * threads / batch < ahead:
                continue
            ends = sorted(finish_time(rng.choices(pool, k=batch), threads, python) for _ in range(steps))
            late = [max(0.0, end - FORWARD) for end in ends]
            out.append(
                {
                    "batch": batch,
                    "threads": threads,
                    "masks p50 ms": round(1e3 * ends[steps // 2], 2),
                    "masks p99 ms": round(1e3 * ends[steps * 99 // 100], 2),
                    "late p99 ms": round(1e3 * late[steps * 99 // 100], 2),
                    "accept p50 ms": round(1e3 * accept[steps // 2], 2),
                    "of 20 ms, p50": f"{100 * ends[steps // 2] / FORWARD:.1f} %",
                }
            )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ahead", type=float, default=0.0, help="milliseconds of an idle thread per token; 0: no work ahead")
    parser.add_argument("--again", action="store_true", help="count only places that were visited before")
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    given = parser.parse_args()
    from bench_serving import show

    rows = simulate(
        given.data, seed=given.seed, every=given.every, steps=given.steps, ahead=given.ahead / 1e3, again=given.again
    )
    show(rows)
    records.keep(given.out, ("cdplugin",), rows=rows)


if __name__ == "__main__":
    main()
