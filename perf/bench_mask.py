"""MaskBench: compile each schema; then, for each token of each instance, compute the mask, look at the token's bit, accept.

    python perf/bench_mask.py ../shared/maskbench/dev.jsonl.gz --every 10 --out results.json --plot masks.png

The protocol is that of guidance-ai/jsonschemabench: an instance is ``json.dumps(data, ensure_ascii=False)`` in the
tokenizer's canonical tokens. This script is stricter at the end: a valid instance must leave the end token allowed, and an
invalid one must be refused at some token or at the end. A schema *passes* if it compiles and every instance is judged
right.

Each engine runs in a process of its own, on one thread. The engines take turns schema by schema, in rotating order, so that
noise hits all alike. If a process crashes, hangs or grows too large, this counts against the schema, and a new process
takes over.
"""

from __future__ import annotations

import argparse
import base64
import collections
import gc
import gzip
import json
import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import mask_engines
import records
from schema_order import reorderings

QUANTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9))

# ------------------------------------------------------------------------------------------------------------ the worker


class Worker:
    """One engine, which runs one schema at a time in a process of its own."""

    def __init__(self, name: str, vocab: str, cpu: bool) -> None:
        self.clock = time.thread_time_ns if cpu else time.perf_counter_ns
        self.tokenizer = mask_engines.Tokenizer(vocab)
        self.engine = mask_engines.make(name, self.tokenizer)
        self.run({"schema": {"type": "object"}, "tests": [{"data": {"a": [1, "b"]}, "valid": True}]})  # warm up
        gc.collect()
        gc.freeze()

    def walk(self, matcher: Any, data: Any, times: list[float]) -> bool:
        """Whether the engine accepts ``data`` up to its end. Appends microseconds of mask + accept per token."""
        engine, bits, clock = self.engine, self.engine.bits, self.clock
        for token in self.tokenizer.encode(json.dumps(data, ensure_ascii=False)):
            start = clock()
            engine.fill(matcher)
            filled = clock()
            if not bits[token >> 5] >> (token & 31) & 1:
                times.append((filled - start) / 1000)
                return False
            resumed = clock()
            ok = engine.accept(matcher, token)
            times.append((clock() - resumed + filled - start) / 1000)
            if not ok:
                raise RuntimeError(f"token {token} is in the mask but was not accepted")
        engine.fill(matcher)
        end = self.tokenizer.eos
        return bool(bits[end >> 5] >> (end & 31) & 1)

    def run(self, case: dict) -> dict:
        """The outcome of one schema with its instances."""
        engine, clock = self.engine, self.clock
        out: dict[str, Any] = {"status": "ok"}
        start = clock()
        try:
            grammar = engine.compile(case["schema"])
            compiled = clock()
            first = engine.matcher(grammar)
            engine.fill(first)
        except Exception as error:
            out.update(status="refused", reason=mask_engines.reason(error), message=str(error)[:300])
            out["refused_us"] = (clock() - start) / 1000
            return out
        out["first_us"] = (clock() - start) / 1000
        out["compile_us"] = (compiled - start) / 1000
        times: list[float] = []
        matchers = [first]
        bad: dict[str, list[int]] = {"valid_rejected": [], "order_only": [], "invalid_accepted": [], "errors": []}
        for number, test in enumerate(case["tests"]):
            try:
                matchers.append(engine.matcher(grammar))
                accepted = self.walk(matchers[-1], test["data"], times)
            except Exception as error:
                bad["errors"].append(number)
                out["error"] = str(error)[:300]
                continue
            if test["valid"] and not accepted:
                bad["order_only" if self.order_only(grammar, case["schema"], test["data"]) else "valid_rejected"].append(number)
            elif accepted and not test["valid"]:
                bad["invalid_accepted"].append(number)
        out.update(bad)
        out["counters"] = engine.counters(grammar, matchers)
        out["times"] = base64.b64encode(np.array(times, np.float32).tobytes()).decode()
        return out

    def order_only(self, grammar: Any, schema: Any, data: Any) -> bool:
        """Whether the instance would pass with its properties in the order in which the schema declares them."""
        for other in reorderings(schema, data):
            try:
                if self.walk(self.engine.matcher(grammar), other, []):
                    return True
            except Exception:
                return False
        return False


def worker_main(name: str, vocab: str, cpu: bool) -> None:
    """Read schemas as lines, and answer each by a line. What libraries print goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(name, vocab, cpu)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(worker.run(json.loads(line))) + "\n")
        answers.flush()


# ------------------------------------------------------------------------------------------------------------ the parent


class Process:
    """A worker seen from outside: asks it with a time and a memory limit, and replaces it at the next question if it fails."""

    def __init__(self, name: str, args: argparse.Namespace) -> None:
        self.name, self.args = name, args
        self.child: subprocess.Popen[bytes] | None = None
        self.buffer = b""

    def start(self) -> None:
        one = {f"{k}_NUM_THREADS": "1" for k in ("OMP", "NUMBA", "RAYON", "MKL", "OPENBLAS")}
        command = [sys.executable, __file__, "--worker", self.name, "--vocab", self.args.vocab, *["--cpu"] * self.args.cpu]
        log = open(self.args.log, "ab") if self.args.log else subprocess.DEVNULL  # noqa: SIM115 - the child keeps it
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | one | {"TOKENIZERS_PARALLELISM": "0"},
        )
        self.buffer = b""
        answer = self.line(600.0)
        if answer != b"ready":
            self.stop()
            raise SystemExit(f"the {self.name} worker did not start ({answer.decode()}); run with --log FILE to see why")

    def resident(self) -> int:
        assert self.child is not None
        try:
            with open(f"/proc/{self.child.pid}/statm") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0

    def line(self, seconds: float) -> bytes:
        """The next line, or ``timeout``, ``memory`` or ``crash``."""
        assert self.child is not None and self.child.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer:
            if time.monotonic() > end:
                return b"timeout"
            if self.resident() > self.args.memory << 30:
                return b"memory"
            if select.select([self.child.stdout], [], [], 0.5)[0]:
                more = os.read(self.child.stdout.fileno(), 1 << 20)
                if not more:
                    return b"crash"
                self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def ask(self, line: bytes) -> dict:
        if self.child is None:
            self.start()
        assert self.child is not None and self.child.stdin is not None
        try:
            self.child.stdin.write(line.strip() + b"\n")
            self.child.stdin.flush()
            answer = self.line(self.args.timeout)
        except BrokenPipeError:
            answer = b"crash"
        if answer in (b"timeout", b"memory", b"crash"):
            code = self.child.poll()
            self.stop()
            return {"status": answer.decode(), "reason": f"{answer.decode()} {code if code is not None else ''}".strip()}
        return json.loads(answer)

    def stop(self) -> None:
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None


def load(path: Path, args: argparse.Namespace) -> list[bytes]:
    """The chosen schemas, one JSON line each."""
    with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as f:
        lines = [line for line in f if line.strip()]
    if args.seed is not None:
        random.Random(args.seed).shuffle(lines)
    lines = lines[:: args.every]
    return lines[: args.limit] if args.limit else lines


def measure(lines: list[bytes], names: list[str], args: argparse.Namespace) -> dict[str, list[dict]]:
    """Put every schema to every engine, in turns."""
    processes = {name: Process(name, args) for name in names}
    results: dict[str, list[dict]] = {name: [] for name in names}
    try:
        for name in names:
            processes[name].start()
        began = time.monotonic()
        for number, line in enumerate(lines):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                answer = processes[name].ask(line)
                answer["times"] = np.frombuffer(base64.b64decode(answer.get("times", "")), np.float32)
                results[name].append(answer)
            if sys.stderr.isatty() or number % 200 == 199:
                rate = (time.monotonic() - began) / (number + 1)
                left = rate * (len(lines) - number - 1)
                end = "\r" if sys.stderr.isatty() else "\n"
                print(f"{number + 1}/{len(lines)} schemas, {left / 60:.1f} min left   ", end=end, file=sys.stderr, flush=True)
    finally:
        for process in processes.values():
            process.stop()
    return results


def passing(answer: dict) -> bool:
    """Whether the schema compiled and every instance was judged right."""
    return answer["status"] == "ok" and not any(
        answer[k] for k in ("valid_rejected", "order_only", "invalid_accepted", "errors")
    )


def spread(values: np.ndarray) -> dict[str, float]:
    """Mean, percentiles and maximum."""
    if not len(values):
        return {}
    out = {"mean": float(values.mean(dtype=np.float64))}
    out |= {label: float(np.percentile(values, q)) for label, q in QUANTILES}
    return out | {"max": float(values.max()), "count": len(values)}


def summary(results: dict[str, list[dict]], lines: list[bytes]) -> dict[str, dict]:
    """Counts and times per engine: times over all that it compiled, and over what llguidance compiles too."""
    cases = [json.loads(line) for line in lines]
    peer = results.get("llguidance")
    out = {}
    for name, answers in results.items():
        ok = [a for a in answers if a["status"] == "ok"]
        row: dict[str, Any] = {
            "schemas": len(answers),
            "passing": sum(map(passing, answers)),
            "passing_but_for_order": sum(
                a["status"] == "ok" and not (a["valid_rejected"] or a["invalid_accepted"] or a["errors"]) for a in answers
            ),
            "refused": sum(a["status"] == "refused" for a in answers),
            "failed": dict(collections.Counter(a["status"] for a in answers if a["status"] not in ("ok", "refused"))),
            "schemas_with_engine_errors": sum(bool(a["errors"]) for a in ok),
        }
        for kind in ("valid_rejected", "order_only", "invalid_accepted"):
            row[f"{kind}_instances"] = sum(len(a[kind]) for a in ok)
            row[f"{kind}_schemas"] = [c["id"] for c, a in zip(cases, answers, strict=True) if a["status"] == "ok" and a[kind]]
        row["reasons"] = dict(collections.Counter(a["reason"] for a in answers if a["status"] != "ok").most_common(40))
        row["first_mask_us"] = spread(np.array([a["first_us"] for a in ok]))
        row["compile_us"] = spread(np.array([a["compile_us"] for a in ok]))
        row["mask_us"] = spread(np.concatenate([a["times"] for a in ok]) if ok else np.zeros(0))
        row["curves"] = {
            "mask_us": curve(np.concatenate([a["times"] for a in ok]) if ok else np.zeros(0)),
            "first_mask_us": curve(np.array([a["first_us"] for a in ok])),
        }
        if peer is not None and name != "llguidance":
            both = [(a, b) for a, b in zip(answers, peer, strict=True) if a["status"] == b["status"] == "ok"]
            row["schemas_in_common"] = len(both)
            if both:
                mine, theirs = (spread(np.concatenate([pair[i]["times"] for pair in both])) for i in (0, 1))
                row["mask_ratio"] = {k: mine[k] / theirs[k] for k in mine if k != "count"}
                mine, theirs = (spread(np.array([pair[i]["first_us"] for pair in both])) for i in (0, 1))
                row["first_mask_ratio"] = {k: mine[k] / theirs[k] for k in mine if k != "count"}
        counters: dict[str, float] = collections.defaultdict(float)
        for a in ok:
            for key, value in a.get("counters", {}).items():
                if isinstance(value, int | float):
                    counters[key] += value
        row["counters"] = dict(counters)
        out[name] = row
    return out


def curve(values: np.ndarray, points: int = 120) -> list[list[float]]:
    """``[share that takes longer, microseconds]`` at shares from 1 to one of all, evenly spaced on a logarithmic axis."""
    if not len(values):
        return []
    shares = np.geomspace(1, 1 / len(values), points)
    return [[float(f"{s:.4g}"), round(float(v), 2)] for s, v in zip(shares, np.quantile(values, 1 - shares), strict=True)]


def table(rows: dict[str, dict]) -> str:
    """The summary as Markdown."""
    names = list(rows)
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]

    def add(label: str, *values: object) -> None:
        lines.append(f"| {label} | " + " | ".join(map(str, values)) + " |")

    def per(label: str, show: Any) -> None:
        add(label, *(show(rows[name]) for name in names))

    per("schemas", lambda r: r["schemas"])
    per("passing", lambda r: f"{r['passing']} ({r['passing'] / max(1, r['schemas']):.1%})")
    per("passing, property order aside", lambda r: r["passing_but_for_order"])
    per("refused at compile time", lambda r: r["refused"])
    per("crash, timeout, memory", lambda r: ", ".join(f"{k} {v}" for k, v in r["failed"].items()) or 0)
    per("gave up on an instance (schemas)", lambda r: r["schemas_with_engine_errors"])
    per(
        "valid rejected (instances / schemas)",
        lambda r: f"{r['valid_rejected_instances']} / {len(r['valid_rejected_schemas'])}",
    )
    per("… only for property order", lambda r: f"{r['order_only_instances']} / {len(r['order_only_schemas'])}")
    per("**invalid accepted**", lambda r: f"{r['invalid_accepted_instances']} / {len(r['invalid_accepted_schemas'])}")
    for title, key in (("time to first mask", "first_mask"), ("mask + accept", "mask")):
        for label in ("mean", *(q for q, _ in QUANTILES), "max"):
            per(f"{title}, {label} (µs)", lambda r, k=key, s=label: f"{r[k + '_us'].get(s, float('nan')):,.1f}")
    per("masks computed", lambda r: f"{int(r['mask_us'].get('count', 0)):,}")
    for title, key in (("time to first mask", "first_mask_ratio"), ("mask + accept", "mask_ratio")):
        for label in ("mean", "p50", "p99", "max"):
            per(f"{title} ÷ llguidance, {label}", lambda r, k=key, s=label: f"{r[k][s]:.2f}×" if r.get(k) else "")
    per("schemas in common with llguidance", lambda r: r.get("schemas_in_common", ""))
    text = "\n".join(lines)
    for name in names:
        if rows[name]["reasons"]:
            top = [f"{n} × {reason}" for reason, n in list(rows[name]["reasons"].items())[:12]]
            text += f"\n\n**{name}** refused: " + "; ".join(top)
        if rows[name]["counters"]:
            text += f"\n\n**{name}** counters: " + ", ".join(f"{k} {v:,.0f}" for k, v in rows[name]["counters"].items())
    return text


def plot(results: dict[str, list[dict]], path: str, title: str) -> None:
    """Plot how often a mask, and a time to the first mask, takes longer than so many microseconds (both axes logarithmic)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), constrained_layout=True)
    for name, answers in results.items():
        ok = [a for a in answers if a["status"] == "ok"]
        if not ok:
            continue
        for axis, values in zip(
            axes, (np.concatenate([a["times"] for a in ok]), np.array([a["first_us"] for a in ok])), strict=True
        ):
            values = np.sort(values)
            share = 1 - np.arange(len(values)) / max(1, len(values))
            keep = np.unique(np.geomspace(1, max(1, len(values)), 4000).astype(int))[: len(values)]
            axis.loglog(values[len(values) - keep], share[len(values) - keep], label=name)
    for axis, label in zip(axes, ("mask + accept (µs)", "time to first mask (µs)"), strict=True):
        axis.set_xlabel(label)
        axis.set_ylabel("share that takes longer")
        axis.grid(True, which="major", alpha=0.3)
        axis.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path, help="jsonl or jsonl.gz: {id, schema, tests: [{data, valid}]}")
    parser.add_argument("--engines", default="cdplugin,llguidance,xgrammar", help="also: xgrammar-strict")
    parser.add_argument("--vocab", default="llama3", choices=["llama3", "tekken"])
    parser.add_argument("--every", type=int, default=1, metavar="K", help="every K-th schema")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N schemas")
    parser.add_argument("--seed", type=int, help="shuffle the schemas first")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds per schema and engine")
    parser.add_argument("--memory", type=int, default=6, help="GiB resident per engine")
    parser.add_argument("--cpu", action="store_true", help="the engine's thread's CPU time instead of wall time")
    parser.add_argument("--out", type=Path, help="write everything but the single times as JSON")
    parser.add_argument("--plot", help="write a PNG")
    parser.add_argument("--log", help="append what the engines print to this file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker_main(args.worker, args.vocab, args.cpu)
        return
    if args.data is None or not args.data.exists():
        where = args.data or "no file given"
        print(f"skipped: the MaskBench data is not here ({where}); see perf/README.md", file=sys.stderr)
        return
    names = args.engines.split(",")
    lines = load(args.data, args)
    results = measure(lines, names, args)
    rows = summary(results, lines)
    print(table(rows))
    if args.out:
        single = {
            json.loads(line)["id"]: {
                name: {k: v for k, v in results[name][i].items() if k != "times"}
                | {"mask_us": {k: round(v, 2) for k, v in spread(results[name][i]["times"]).items()}}
                for name in names
            }
            for i, line in enumerate(lines)
        }
        records.keep(args.out, {name.split("-")[0] for name in names}, engines=rows, schemas=single)
    if args.plot:
        plot(results, args.plot, f"MaskBench, {len(lines)} schemas, {args.vocab}, one thread")


if __name__ == "__main__":
    main()
