"""Time to the first mask of a schema nine tenths of which an earlier one had, beside llguidance and beside that earlier one.

    python perf/alike_schemas.py ../shared/maskbench/dev.jsonl.gz --every 10 [--out FILE]

The script takes each schema with at least ten names of properties and changes one name in ten, wherever it stands. It
compiles the original schema, then ten others, and then measures the changed one up to its first mask. Times are CPU time of
one thread, in one process.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import records
from mask_engines import Cdplugin, Llguidance, Tokenizer

_OTHERS = 10


def names_of(schema: Any) -> list[str]:
    """The names of all properties, in their order."""
    found: dict[str, None] = {}
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if isinstance(part.get("properties"), dict):
                found.update(dict.fromkeys(part["properties"]))
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return [*found]


def renamed(part: Any, names: set[str]) -> Any:
    """The schema with another name for each of ``names``, both as a key and in lists."""
    if isinstance(part, dict):
        return {name + "_2" if name in names else name: renamed(value, names) for name, value in part.items()}
    if isinstance(part, list):
        return [renamed(value, names) for value in part]
    return part + "_2" if isinstance(part, str) and part in names else part


def first_mask(engine: Any, schema: Any) -> float | None:
    """Microseconds from the schema to its first mask; None if the engine refuses the schema."""
    gc.collect(0)
    gc.disable()
    began = time.thread_time_ns()
    try:
        engine.fill(engine.matcher(engine.compile(schema)))
    except Exception:
        return None
    finally:
        spent = time.thread_time_ns() - began
        gc.enable()
    return spent / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip")
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--vocab", default="llama3")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    tokenizer = Tokenizer(given.vocab)
    engines = {"cdplugin": Cdplugin(tokenizer), "llguidance": Llguidance(tokenizer)}
    rows = [json.loads(line)["schema"] for line in gzip.decompress(given.data.read_bytes()).splitlines()]
    schemas = [schema for schema in rows[:: given.every] if len(names_of(schema)) >= 10]
    times: list[dict[str, dict[str, float]]] = []
    gc.collect()
    gc.freeze()
    for number, schema in enumerate(schemas):
        names = names_of(schema)
        changed = renamed(schema, set(names[number % 10 :: 10]))
        others = [rows[(given.every * number + 1 + i) % len(rows)] for i in range(_OTHERS)]
        taken: dict[str, dict[str, float]] = {}
        for name, engine in engines.items():
            first = first_mask(engine, schema)
            for other in others:
                first_mask(engine, other)
            then = first_mask(engine, changed)
            if first is not None and then is not None:
                taken[name] = {"first": first, "changed": then}
        if len(taken) == len(engines):
            times.append(taken)
    out: dict[str, Any] = {"schemas": len(times), "every": given.every}
    for name in engines:
        for which in ("first", "changed"):
            values = np.array([taken[name][which] for taken in times])
            out[f"{name}, {which}"] = {q: float(np.percentile(values, p)) for q, p in (("p50", 50), ("p90", 90), ("p99", 99))}
            out[f"{name}, {which}"]["mean"] = float(values.mean())
    for q in ("mean", "p50", "p90", "p99"):
        ours, theirs = out["cdplugin, changed"][q], out["llguidance, changed"][q]
        first = out["cdplugin, first"][q]
        print(
            f"{q:5} {ours:7.0f} us: {ours / theirs:.2f} of llguidance {theirs:.0f}, {ours / first:.2f} of the first {first:.0f}"
        )
        out[f"ratio {q}"] = {"to llguidance": ours / theirs, "to the first": ours / first}
    records.keep(given.out, ("cdplugin", "llguidance"), **out)


if __name__ == "__main__":
    main()
