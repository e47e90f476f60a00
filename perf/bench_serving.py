"""vLLM's server under load with the small model: no constraint, cdplugin, guidance and xgrammar, in turns in one run.

    .venv-vllm/bin/python perf/bench_serving.py ../shared/maskbench/dev.jsonl.gz --out serving.json --plot serving.png
    … --loads 16 --runs 5 --tokens 32           # the comparison at 16 concurrent requests
    … --loads --valid 200                       # only whether finished outputs are valid
    … --loads --valid 0 --simulate              # only large batches, simulated from measured masks (large_batches.py)
    … arrays --loads 16 --tokens 150 --again --backends cdplugin     # long answers: nobody ends early
    … made --loads 1 8 32 128 --server=--max-num-seqs=128 --server=--gpu-memory-utilization=0.25  # made schemas

One server per backend stays up (for no constraint, that of the first backend). The runs take turns, so that whatever else
the machine does hits all alike. A run sends requests with distinct schemas that no earlier run used, the same ones to each
backend, ``load`` of them at a time. With ``--again`` it sends them a second time, when the servers know them. Each request
asks for exactly ``--tokens`` tokens (``ignore_eos``: after the end of its JSON the model goes on freely).

Reported per backend and load: output tokens per second (the median over the runs, and the median of the ratios to no
constraint in the same run); time to first token and time per output token, p50 and p99 over all requests; CPU time of the
front end and of the engine per request (without the model's own, in the worker); and failed requests. Schemas are drawn
from those of MaskBench that all three backends accept at the door. *Valid*: of requests that may end, the share of finished
outputs that ``jsonschema`` accepts.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import itertools
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

BACKENDS = ("none", "cdplugin", "guidance", "xgrammar")  # the first is no backend
PROMPT = "Write a JSON document for {}.\n"


@dataclass
class Run:
    """What one run of one backend gave."""

    backend: str
    load: int
    again: bool = False  # whether the same requests were sent before
    seconds: float = 0.0
    tokens: int = 0
    first: list[float] = field(default_factory=list)  # seconds to the first token, per request
    each: list[float] = field(default_factory=list)  # seconds per further token, per request
    failed: int = 0
    texts: list[tuple[str, str]] = field(default_factory=list)  # (how it finished, text), if wanted
    cpu: dict[str, float] = field(default_factory=dict)  # seconds of processor time, per kind of process


# ---- schemas --------------------------------------------------------------------------------------------------------------


def made_schemas(seed: int) -> Iterator[dict[str, Any]]:
    """Distinct schemas, without end, that every backend accepts: objects of a few properties with names of their own."""
    rng = random.Random(seed)
    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: {"type": "string", "maxLength": rng.randint(8, 40)},
        lambda: {"type": "integer"},
        lambda: {"type": "boolean"},
        lambda: {"enum": rng.sample(["red", "green", "blue", "black", "white", "grey"], 3)},
        lambda: {"type": "array", "items": {"type": "integer"}, "maxItems": rng.randint(2, 9)},
    ]
    for number in itertools.count():
        names = [f"{rng.choice(['name', 'size', 'place', 'state', 'item'])}_{number}_{i}" for i in range(rng.randint(3, 8))]
        properties = {name: rng.choice(kinds)() for name in names}
        inner = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
        yield {"id": f"made_{number}", "schema": inner}


def array_schemas(seed: int) -> Iterator[dict[str, Any]]:
    """Arrays of at least 400 objects of :func:`made_schemas`: such an answer still goes on after any usual number of tokens."""
    for row in made_schemas(seed):
        yield {"id": f"arrays_{row['id']}", "schema": {"type": "array", "minItems": 400, "items": row["schema"]}}


MADE = {"made": made_schemas, "arrays": array_schemas}


def load_schemas(path: Path, count: int, seed: int, most_bytes: int) -> list[dict[str, Any]]:
    """``count`` rows of MaskBench whose schemas all backends accept, drawn at random; or made ones (:data:`MADE`)."""
    if str(path) in MADE:
        return list(itertools.islice((row for row in MADE[str(path)](seed) if all_take(row["schema"])), count))
    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    random.Random(seed).shuffle(rows)
    out: list[dict[str, Any]] = []
    for row in rows:
        if len(out) == count:
            break
        if len(json.dumps(row["schema"])) <= most_bytes and all_take(row["schema"]):
            out.append(row)
    return out


def all_take(schema: Any) -> bool:
    """Whether a schema passes the validation at the door: vLLM's for its own backends, and cdplugin's."""
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams
    from vllm.v1.structured_output.backend_guidance import validate_guidance_grammar
    from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar

    import cdplugin as cd
    from cdplugin.limits import Limits

    try:
        cd.JsonSchema(json.dumps(schema)).to_ir(Limits())
        params = SamplingParams(structured_outputs=StructuredOutputsParams(json=schema))
        validate_guidance_grammar(params)
        validate_xgrammar_grammar(params)
    except (VLLMValidationError, ValueError, TypeError, KeyError, RecursionError):
        return False
    return True


# ---- load -----------------------------------------------------------------------------------------------------------------


async def request(session: aiohttp.ClientSession, url: str, row: dict[str, Any], tokens: int, run: Run, ends: bool) -> None:
    """One streamed completion."""
    import aiohttp

    body: dict[str, Any] = {
        "model": "small",
        "prompt": PROMPT.format(row["id"].replace("_", " ")),
        "max_tokens": tokens,
        "temperature": 0 if not ends else 1.0,
        "seed": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": not ends,
    }
    if run.backend != "none":
        body["structured_outputs"] = {"json": row["schema"]}
    if run.backend == "cdplugin" and not ends:
        body["vllm_xargs"] = {"cdplugin_budget": False}  # cut off after so many tokens, as the others' answers are
    began, first, last, count, text, finish = time.perf_counter(), 0.0, 0.0, 0, "", ""
    try:
        async with session.post(f"{url}/v1/completions", json=body) as response:
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}: {(await response.text())[:200]}")
            async for line in response.content:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if "error" in event:
                    raise ValueError(str(event["error"])[:200])
                if event.get("choices"):
                    last = time.perf_counter()
                    first = first or last
                    text += event["choices"][0]["text"]
                    finish = event["choices"][0].get("finish_reason") or finish
                if event.get("usage"):
                    count = event["usage"]["completion_tokens"]
        if not first or finish == "error":
            raise ValueError(f"finished by {finish or 'nothing'}")
    except (aiohttp.ClientError, asyncio.TimeoutError, ValueError) as error:
        run.failed += 1
        run.texts.append(("error", str(error)))
        return
    run.tokens += count
    run.first.append(first - began)
    if count > 1:
        run.each.append((last - first) / (count - 1))
    run.texts.append((finish, text))


async def offer(url: str, backend: str, load: int, rows: list[dict[str, Any]], tokens: int, ends: bool = False) -> Run:
    """Send the requests of ``rows``, ``load`` at a time."""
    import aiohttp

    run, room = Run(backend, load), asyncio.Semaphore(load)

    async def one(row: dict[str, Any]) -> None:
        async with room:
            await request(session, url, row, tokens, run, ends)

    limits = aiohttp.ClientTimeout(total=600)
    async with aiohttp.ClientSession(timeout=limits, connector=aiohttp.TCPConnector(limit=0)) as session:
        began = time.perf_counter()
        await asyncio.gather(*map(one, rows))
        run.seconds = time.perf_counter() - began
    return run


def processor_time(server: Any) -> dict[str, float]:
    """CPU seconds of a server's processes, by their kind: ``front end``, ``engine``, ``worker``."""
    out: dict[str, float] = {}
    for process in server.members():
        with contextlib.suppress(OSError):
            name, _, rest = Path(f"/proc/{process}/stat").read_text().partition("(")[2].rpartition(")")
            kind = next((kind for kind in ("engine", "worker") if kind in name.lower()), "front end")
            ticks = sum(map(int, rest.split()[11:13]))
            out[kind] = out.get(kind, 0.0) + ticks / os.sysconf("SC_CLK_TCK")
    return out


def timed(server: Any, *arguments: Any) -> Run:
    """Call :func:`offer`, and add the CPU time that the server took for it."""
    before = processor_time(server)
    run = asyncio.run(offer(server.url, *arguments))
    run.cpu = {kind: seconds - before.get(kind, 0.0) for kind, seconds in processor_time(server).items()}
    return run


# ---- results --------------------------------------------------------------------------------------------------------------


def percentile(values: list[float], q: float) -> float:
    listed = sorted(values)
    return listed[min(len(listed) - 1, int(q * len(listed)))] if listed else float("nan")


def summary(runs: list[list[Run]]) -> list[dict[str, Any]]:
    """A row per load and backend. ``runs``: for each turn the runs of all backends at one load."""
    out = []
    for load, again in dict.fromkeys((turn[0].load, turn[0].again) for turn in runs):
        turns = [{run.backend: run for run in turn} for turn in runs if (turn[0].load, turn[0].again) == (load, again)]
        for backend in turns[0]:
            mine = [turn[backend] for turn in turns]
            rates = [run.tokens / run.seconds for run in mine]
            ratios = [
                rate * turn["none"].seconds / turn["none"].tokens
                for rate, turn in zip(rates, turns, strict=True)
                if "none" in turn
            ]
            first, each = ([t for run in mine for t in getattr(run, name)] for name in ("first", "each"))
            out.append(
                {
                    "load": load,
                    "schemas": "met before" if again else "new",
                    "backend": backend,
                    "tokens/s": round(statistics.median(rates), 1),
                    "of none": round(statistics.median(ratios), 3) if ratios else None,
                    "TTFT p50 ms": round(1000 * percentile(first, 0.5), 1),
                    "TTFT p99 ms": round(1000 * percentile(first, 0.99), 1),
                    "TPOT p50 ms": round(1000 * percentile(each, 0.5), 1),
                    "TPOT p99 ms": round(1000 * percentile(each, 0.99), 1),
                    **{
                        f"{kind} ms": round(1000 * statistics.mean(run.cpu.get(kind, 0.0) / len(run.texts) for run in mine), 1)
                        for kind in ("front end", "engine")
                    },
                    "requests": sum(len(run.texts) for run in mine),
                    "failed": sum(run.failed for run in mine),
                }
            )
    return out


def validity(run: Run, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many outputs finished, and how many of these are valid."""
    import jsonschema

    finished = valid = 0
    for (finish, text), row in zip(run.texts, rows, strict=True):
        if finish == "stop":
            finished += 1
            with contextlib.suppress(ValueError, jsonschema.ValidationError):
                jsonschema.validate(json.loads(text), row["schema"], format_checker=jsonschema.FormatChecker())
                valid += 1
    return {"backend": run.backend, "requests": len(rows), "failed": run.failed, "finished": finished, "valid": valid}


def show(rows: list[dict[str, Any]]) -> None:
    """The summary as Markdown."""
    if rows:
        print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
        for row in rows:
            print("| " + " | ".join("" if v is None else str(v) for v in row.values()) + " |")
        print(flush=True)


def plot(rows: list[dict[str, Any]], path: Path, title: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    for axis, (name, label) in zip(
        axes,
        {
            "tokens/s": "output tokens/s",
            "TTFT p50 ms": "time to first token, p50, ms",
            "TPOT p50 ms": "time per token, p50, ms",
        }.items(),
    ):
        for backend in dict.fromkeys(row["backend"] for row in rows):
            mine = [row for row in rows if row["backend"] == backend]
            axis.plot([row["load"] for row in mine], [row[name] for row in mine], marker="o", label=backend)
        axis.set_xscale("log", base=2)
        axis.set_xlabel("concurrent requests")
        axis.set_title(label)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    axes[0].legend()
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def machine() -> str:
    import numba
    import vllm

    name = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""
    )
    versions = f"Python {platform.python_version()}, vLLM {vllm.__version__}, Numba {numba.__version__}"
    return f"{time.strftime('%Y-%m-%d')}, {name}, {versions}"


def measure(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Start the servers, and let them take turns."""
    from demo_model import model_folder  # type: ignore[import-not-found]
    from vllm_serve import Server  # type: ignore[import-not-found]

    pool = iter(rows)
    runs: list[list[Run]] = []
    valid: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        eager = [] if arguments.graphs else ["--enforce-eager"]
        options = ["--dtype", arguments.dtype, *eager, *arguments.server]
        servers: dict[str, Any] = {}
        for backend in arguments.backends:
            print(f"starting vllm serve with {backend}", file=sys.stderr, flush=True)
            servers[backend] = stack.enter_context(Server(str(model_folder()), options, backend=backend, patience=600))
        servers = {"none": next(iter(servers.values())), **servers}
        warm = [next(pool) for _ in range(2)]
        for backend, server in servers.items():
            asyncio.run(offer(server.url, backend, 2, warm, arguments.tokens))
        for turn in range(arguments.runs):
            for load in arguments.loads:
                mine = [next(pool) for _ in range(max(load * arguments.rounds, arguments.least))]
                order = [*servers][turn % len(servers) :] + [*servers][: turn % len(servers)]
                for again in (False, True)[: 1 + arguments.again]:
                    done = {name: timed(servers[name], name, load, mine, arguments.tokens) for name in order}
                    for run in done.values():
                        run.again = again
                    runs.append([done[name] for name in servers])
                    told = ", ".join(f"{name} {run.tokens / run.seconds:.1f}" for name, run in done.items())
                    print(f"run {turn + 1}, load {load}{', again' if again else ''}: {told}", file=sys.stderr)
        if arguments.valid:
            mine = [next(pool) for _ in range(min(arguments.valid, 40))] * max(1, arguments.valid // 40)
            for name, server in servers.items():
                run = asyncio.run(ordered(server.url, name, mine, arguments.valid_tokens))
                valid.append(validity(run, mine))
    return {"runs": [[asdict(run) for run in turn] for turn in runs], "summary": summary(runs), "valid": valid}


async def ordered(url: str, backend: str, rows: list[dict[str, Any]], tokens: int) -> Run:
    """Requests that may end, sixteen at a time; texts in the order of ``rows``."""
    parts = []
    for start in range(0, len(rows), 16):
        jobs = [offer(url, backend, 1, [row], tokens, ends=True) for row in rows[start : start + 16]]
        parts += await asyncio.gather(*jobs)
    run = Run(backend, 16, texts=[part.texts[0] for part in parts], failed=sum(part.failed for part in parts))
    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip; `made`, `arrays`: made here")
    parser.add_argument("--server", action="append", default=[], metavar="--OPTION=VALUE", help="for `vllm serve`, repeatable")
    parser.add_argument("--loads", type=int, nargs="*", default=[1, 4, 16, 64])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--again", action="store_true", help="send each run's requests a second time")
    parser.add_argument("--rounds", type=int, default=1, help="requests of a run, in multiples of its load")
    parser.add_argument("--least", type=int, default=4, help="requests of a run at a small load")
    parser.add_argument("--valid", type=int, default=0, help="requests that may end, to be validated")
    parser.add_argument("--valid-tokens", type=int, default=200)
    parser.add_argument("--most-bytes", type=int, default=20_000, help="leave out larger schemas")
    parser.add_argument("--backends", nargs="*", default=BACKENDS[1:], choices=BACKENDS[1:])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--graphs", action="store_true", help="let vLLM compile the model and capture CUDA graphs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--simulate", action="store_true", help="large batches, simulated")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    print(machine(), flush=True)
    result: dict[str, Any] = {
        "machine": machine(),
        "arguments": {k: getattr(v, "name", str(v)) for k, v in vars(arguments).items()},
    }
    if arguments.simulate:
        import large_batches

        result["large batches"] = large_batches.simulate(arguments.data, seed=arguments.seed)
        show(result["large batches"])
    if arguments.loads or arguments.valid:
        each = sum(max(load * arguments.rounds, arguments.least) for load in arguments.loads)
        count = 2 + arguments.runs * each + min(arguments.valid, 40)
        result |= measure(arguments, load_schemas(arguments.data, count, arguments.seed, arguments.most_bytes))
        show(result["summary"])
        show(result["valid"])
        for turn in result["runs"]:
            for run in turn:
                run["texts"] = [text for finish, text in run["texts"] if finish == "error"]  # what failed
        if arguments.plot and result["summary"]:
            plot(result["summary"], arguments.plot, f"SmolLM2-135M, {arguments.dtype}, distinct MaskBench schemas; {machine()}")
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
