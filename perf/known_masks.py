"""Masks that were computed before: the time of one call, beside llguidance, at every place of MaskBench's valid instances.

    python perf/known_masks.py ../shared/maskbench/dev.jsonl.gz --every 50 [--out FILE]

The script follows each instance twice. On the second way, each engine makes the mask of a place ``--calls`` times, engine
by engine in turns. The time of a call is their mean: CPU time of one thread, Python's call included. *In strings* are the
places where the text so far ends inside a JSON string.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import records
from mask_engines import Cdplugin, Llguidance, Tokenizer

_CLOSED = re.compile(r'(?:[^"\\]|"(?:[^"\\]|\\.)*")*')
"""JSON text that does not end inside a string."""


def call_time(engine: Any, matcher: Any, calls: int) -> float:
    """Microseconds of one call that makes the mask of a place."""
    fill = engine.fill
    began = time.thread_time_ns()
    for _ in range(calls):
        fill(matcher)
    return (time.thread_time_ns() - began) / calls / 1e3


def follow(engines: list[Any], matchers: list[Any], tokens: list[int], calls: int) -> list[list[float]]:
    """The times of each engine, place by place, as long as all accept the tokens."""
    times = []
    for token in tokens:
        times.append([call_time(engine, matcher, calls) for engine, matcher in zip(engines, matchers, strict=True)])
        taken = [engine.accept(matcher, token) for engine, matcher in zip(engines, matchers, strict=True)]
        if not all(taken):
            break
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip")
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tokenizer = Tokenizer("llama3")
    engines: list[Any] = [Cdplugin(tokenizer), Llguidance(tokenizer)]
    rows = [json.loads(line) for line in gzip.decompress(given.data.read_bytes()).splitlines()[:: given.every]]
    times: list[list[float]] = []
    in_string: list[bool] = []
    gc.disable()
    n_schemas = 0
    for row in rows:
        try:
            grammars = [engine.compile(row["schema"]) for engine in engines]
        except Exception:
            continue
        n_schemas += 1
        for test in (test for test in row["tests"] if test["valid"]):
            tokens = tokenizer.encode(json.dumps(test["data"], ensure_ascii=False))
            for calls in (1, given.calls):
                matchers = [engine.matcher(grammar) for engine, grammar in zip(engines, grammars, strict=True)]
                found = follow(engines, matchers, tokens, calls)
            times += found
            for place in range(len(found)):
                text = b"".join(tokenizer.tokens[token] or b"" for token in tokens[:place]).decode(errors="replace")
                in_string.append(_CLOSED.fullmatch(text) is None)
    result: dict[str, Any] = {"schemas": n_schemas}
    every = np.array(times)
    for name, chosen in (("all places", every), ("in strings", every[np.array(in_string)])):
        result[name] = {"places": len(chosen)}
        for q in (50, 90, 99):
            ours, theirs = (float(np.percentile(chosen[:, column], q)) for column in (0, 1))
            row = {"cdplugin": round(ours, 3), "llguidance": round(theirs, 3), "ratio": round(ours / theirs, 3)}
            result[name][f"p{q} us"] = row
            print(f"{name}, p{q}: {ours:.2f} us, llguidance {theirs:.2f}: {ours / theirs:.2f}")
    records.keep(given.out, ("cdplugin", "llguidance"), **result)


if __name__ == "__main__":
    main()
