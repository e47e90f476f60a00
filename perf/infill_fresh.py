"""An Infill for each request: how long it takes to make, its first check and its first mask. CPU time of one thread.

    python perf/infill_fresh.py [--language python] [--count 60] [--json FILE]

The texts are programs of HumanEval-X (development half) in Llama 3's tokens, with 1 to 3 spans cut out at random. Each is
put to an Infill of its own twice, in turns: one of a grammar that leaves no tables (``Limits(max_infill_bytes=1)``), and
one that takes over the tables of the last Infill. The script prints percentiles in ms, and whether all masks are equal, bit
for bit.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

from bench_infill import cut, programs, timed, vocabulary

import cdplugin as cd


def percentiles(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
    found = {name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) for name, share in shares.items()}
    return found | {"max": round(ordered[-1], 2), "mean": round(sum(ordered) / len(ordered), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--language", choices=["python", "cpp"], nargs="*", default=["python", "cpp"])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    vocab = vocabulary("llama3")
    limits = {"new tables": cd.Limits(max_infill_bytes=1), "taken over": cd.Limits()}
    results: dict[str, Any] = {}
    for language in arguments.language:
        spec = {"python": cd.grammars.PYTHON, "cpp": cd.grammars.CPP}[language]
        grammars = {name: cd.Compiler(vocab, some).compile(spec) for name, some in limits.items()}
        texts = programs(language)
        times: dict[str, dict[str, list[float]]] = {name: {"make": [], "check": [], "mask": []} for name in grammars}
        different = undecided = refused = 0
        for seed in range(arguments.count):
            rng = random.Random(seed)
            pieces = cut(rng, rng.choice(texts), 1 + seed % 3)
            masks = []
            for name, grammar in grammars.items():
                spent, infill = timed(cd.Infill, grammar)
                times[name]["make"].append(spent)
                session = infill.new(pieces)
                spent, is_completable = timed(session.completable)
                times[name]["check"].append(spent)
                refused += not is_completable
                if is_completable:
                    spent, row = timed(session.mask, 0)
                    times[name]["mask"].append(spent)
                    masks.append(row.tobytes())
                    undecided += session.undecided
                del infill, session
            different += len(set(masks)) > 1
        found: dict[str, Any] = {
            "problems": arguments.count,
            "refused": refused,
            "undecided": undecided,
            "different masks": different,
        }
        for name, stages in times.items():
            found[name] = {stage: percentiles(spent) for stage, spent in stages.items()}
            found[name]["the very first"] = {stage: round(spent[0], 1) for stage, spent in stages.items()}
        results[language] = found
        for key, value in found.items():
            print(f"{language:8} {key:16} {value}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
