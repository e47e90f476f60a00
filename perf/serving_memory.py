"""Memory of a serving engine while thousands of distinct schemas go through it; and the first request beside the tenth.

    .venv-vllm/bin/python perf/serving_memory.py ../shared/maskbench/dev.jsonl.gz --schemas 2000
    … --engine          # without a server: the adapter's engine in this process, 30 tokens of a valid instance per schema

The script starts ``vllm serve`` with cdplugin on the small model and sends one short request per schema (``--tokens``),
``--load`` at a time. After every hundred schemas it prints the resident memory of the server's processes: the front end
validates, the engine compiles and keeps grammars (96 MiB of them by default), the worker does neither. It counts refused
schemas, and does not replace them.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from bench_serving import Run, machine, offer, show

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))


def resident(process: int) -> float:
    """MiB that a process holds for itself and shares."""
    text = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def title(process: int) -> str:
    name = Path(f"/proc/{process}/comm").read_text().strip()
    return name if name.startswith("VLLM") else "front end"


def in_process(rows: list[dict[str, Any]], step: int, tokens: int) -> list[dict[str, Any]]:
    """Put each schema through one engine object: resident memory and the size of the grammars' cache, every ``step``
    schemas.
    """
    import numpy as np
    from demo_model import model_folder  # type: ignore[import-not-found]
    from transformers import AutoTokenizer

    from cdplugin.adapters.vllm.grammar import engine_for
    from cdplugin.errors import GrammarError

    tokenizer = AutoTokenizer.from_pretrained(str(model_folder()))
    engine = engine_for(tokenizer, len(tokenizer))
    engine.warm()
    row = np.zeros((1, -(-len(tokenizer) // 32)), np.int32)
    asked = []
    for each in rows:
        data = next((json.dumps(test["data"], ensure_ascii=False) for test in each["tests"] if test["valid"]), "")
        asked.append((json.dumps(each["schema"]), tokenizer.encode(data)[:tokens]))
    table = [{"schemas": 0, "refused": 0, "MiB": round(resident(os.getpid()))}]
    refused = 0
    for number, (schema, ids) in enumerate(asked, 1):
        try:
            state = engine.state("JSON", schema)
        except GrammarError:
            refused += 1
        else:
            for token in ids:
                state.fill_bitmask(row, 0)
                if not state.accept_tokens("", [token]):
                    break
            del state
        if number % step == 0:
            table.append({"schemas": number, "refused": refused, "MiB": round(resident(os.getpid()))})
            print(table[-1], file=sys.stderr, flush=True)
    return table


def served(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> tuple[list[dict[str, Any]], list[float]]:
    """Send each schema as a request to a server: a row for every ``step`` of them, and the seconds of the first ten."""
    from demo_model import model_folder
    from vllm_serve import Server  # type: ignore[import-not-found]

    table: list[dict[str, Any]] = []
    with Server(str(model_folder()), ["--dtype", "float32", "--enforce-eager"], patience=600) as server:
        single = [asyncio.run(offer(server.url, "cdplugin", 1, [row], 16)).seconds for row in rows[-10:]]
        print("seconds of the first ten requests, one by one:", " ".join(f"{s:.2f}" for s in single), flush=True)
        refused, began = 0, time.monotonic()
        for start in range(0, arguments.schemas, arguments.step):
            run: Run = asyncio.run(
                offer(server.url, "cdplugin", arguments.load, rows[start : start + arguments.step], arguments.tokens)
            )
            refused += run.failed
            listed = sorted(server.members(), key=title)
            memory = {f"{title(p)} MiB": round(resident(p)) for p in listed if resident(p) > 100}
            seconds = round(time.monotonic() - began)
            table.append({"schemas": start + arguments.step, "refused": refused, "seconds": seconds, **memory})
            print(table[-1], file=sys.stderr, flush=True)
    return table, single


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--schemas", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=3)
    parser.add_argument("--load", type=int, default=16)
    parser.add_argument("--step", type=int, default=100)
    parser.add_argument("--engine", action="store_true", help="no server")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with gzip.open(arguments.data, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    random.Random(3).shuffle(rows)
    print(machine(), flush=True)
    result: dict[str, Any] = {"machine": machine()}
    if arguments.engine:
        table = in_process(rows[: arguments.schemas], arguments.step, 30)
    else:
        table, result["first requests"] = served(rows, arguments)
    show(table)
    if arguments.out:
        arguments.out.write_text(json.dumps({**result, "memory": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
