"""Time between tokens of running requests in a real vLLM, beside requests whose schemas are new.

    .venv-vllm/bin/python perf/serving_neighbours.py ../shared/maskbench/dev.jsonl.gz [--rate 2] [--out FILE]

The script starts vLLM's server with the small model. Four requests run on and on, each with an array of objects as its
schema, and stream their tokens. Measured is the time between two tokens of a request. Beside them arrive short requests of
two tokens each, at the same times and of the same length in each block: either all with one known schema, or each with a
new schema. The blocks take turns. So they differ only in compiling, in vLLM's front end and in its engine, and in first
masks.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
RUNNING = 4
KINDS = ("known", "new")
QUANTILES = {"p50": 50, "p90": 90, "p99": 99, "largest": 100}


async def stream(
    session: Any, url: str, schema: Any, tokens: int, gaps: list[float] | None = None, ends: asyncio.Event | None = None
) -> None:
    """One streamed completion; the seconds between its tokens are added to ``gaps``. Leaves when ``ends`` is set."""
    body = {
        "model": "small",
        "prompt": "JSON:",
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "structured_outputs": {"json": schema},
        "vllm_xargs": {"cdplugin_budget": False},
    }
    async with session.post(f"{url}/v1/completions", json=body) as response:
        if response.status != 200:
            raise ValueError(f"HTTP {response.status}: {(await response.text())[:200]}")
        last = 0.0
        async for line in response.content:
            if line.startswith(b"data: {"):
                now = time.perf_counter()
                if last and gaps is not None:
                    gaps.append(now - last)
                last = now
            if ends is not None and ends.is_set():
                return


async def block(url: str, running: list[Any], beside: list[Any], rate: float) -> list[float]:
    """The gaps of the running requests while requests with the schemas ``beside`` arrive."""
    import aiohttp

    gaps: list[float] = []
    ends = asyncio.Event()
    limits = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0)) as session:
        own = [asyncio.create_task(stream(session, url, schema, 1500, gaps, ends)) for schema in running]
        await asyncio.sleep(3)
        gaps.clear()
        others = []
        for schema in beside:
            others.append(asyncio.create_task(stream(session, url, schema, 2)))
            await asyncio.sleep(1 / rate)
        found = list(gaps)
        refused = [error for error in await asyncio.gather(*others, return_exceptions=True) if error is not None]
        ends.set()
        await asyncio.gather(*own)
    if len(refused) > len(beside) // 4:
        raise SystemExit(f"{len(refused)} of {len(beside)} requests were refused: {refused[0]}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip")
    parser.add_argument("--rate", type=float, default=2.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a block")
    parser.add_argument("--turns", type=int, default=5, help="blocks of each kind")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--backend", default="cdplugin")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    from bench_serving import array_schemas, load_schemas, machine
    from demo_model import model_folder  # type: ignore[import-not-found]
    from vllm_serve import Server  # type: ignore[import-not-found]

    each = int(given.rate * given.seconds)
    rows = iter(load_schemas(given.data, (given.turns + 1) * each + 10, given.seed, 20_000))
    running = [row["schema"] for row in itertools.islice(array_schemas(given.seed), RUNNING)]
    known = next(rows)["schema"]
    gaps: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with Server(str(model_folder()), ["--dtype", "float32", "--enforce-eager"], backend=given.backend, patience=600) as server:
        asyncio.run(block(server.url, running, [known, *(row["schema"] for row in itertools.islice(rows, 6))], 1.0))
        for turn in range(given.turns):
            for kind in KINDS if turn % 2 else KINDS[::-1]:
                new = [row["schema"] for row in itertools.islice(rows, each)] if kind == "new" else [known] * each
                gaps[kind].append(asyncio.run(block(server.url, running, new, given.rate)))
                values = np.array(gaps[kind][-1]) * 1000
                print(
                    f"{kind:6} {len(values)} gaps, p50 {np.median(values):.1f} ms, p99 {np.percentile(values, 99):.1f}",
                    flush=True,
                )
    out: dict[str, Any] = {"machine": machine(), "backend": given.backend, "rate": given.rate, "running": RUNNING}
    for kind in KINDS:
        values = np.concatenate([np.array(one) for one in gaps[kind]]) * 1000
        out[kind] = {"gaps": len(values)} | {name: round(float(np.percentile(values, q)), 2) for name, q in QUANTILES.items()}
    out["ratio"] = {name: round(out["new"][name] / out["known"][name], 3) for name in QUANTILES}
    print(json.dumps(out, indent=1))
    if given.out:
        given.out.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
