"""The steps of perf/gpu.sh: commands with a time limit each, independent of each other; then one table of all results.

    python perf/gpu_run.py [--dry-run] [--steps tests apply generate serving] [--model FOLDER] [--out perf/results]

========  =============================================================================================================
tests     the tests marked ``gpu``
apply     ``bench_bitmask.py``: apply_token_bitmask_inplace beside xgrammar's; 1 to 512 rows, 32k to 256k columns; bandwidth
generate  ``bench_generate.py``: generate() unconstrained, constrained, and with the masks computed beside the forward pass
serving   ``bench_serving.py``: vLLM at 1, 8, 32 and 128 requests, a schema each, beside none, guidance and xgrammar
========  =============================================================================================================

A step ends as ``done``, ``failed``, ``out of time``, or ``skipped`` with the reason. The exit status is 1 if a step failed
or ran out of time. ``--dry-run`` runs tiny sizes on the CPU, with Triton's kernel interpreted; its numbers mean nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MASKBENCH = ROOT.parent / "shared" / "maskbench" / "dev.jsonl.gz"
LIBRARIES = ("cdplugin", "torch", "triton", "transformers", "vllm", "xgrammar", "llguidance", "numba", "numpy")


class Step(NamedTuple):
    """A command, its limit in seconds, the modules that it needs, and the file that it writes its results to."""

    command: list[str]
    seconds: float
    needs: tuple[str, ...] = ()
    out: Path | None = None


def steps(args: argparse.Namespace, folder: Path) -> dict[str, Step]:
    """The steps, by name. ``folder``: where their results go."""
    dry = args.dry_run
    python = sys.executable

    def script(name: str, *options: Any) -> list[str]:
        return [python, str(ROOT / "perf" / name), *map(str, options), "--out", str(folder / f"{name}.json")]

    def step(name: str, seconds: float, needs: tuple[str, ...], *options: Any) -> Step:
        return Step(script(name, *options), seconds, needs, folder / f"{name}.json")

    tests = ["tests/test_bitmask.py", "tests/adapters/test_hf_gpu.py", "tests/kernels/test_bitmask_kernel.py"]
    chosen = ["-k", "cuda or triton or cpu-greedy"] if dry else ["-m", "gpu"]
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *tests]
    model = ["--model", args.model] if args.model else []
    if dry:
        sizes = ["--device", "interpreted", "--vocab", 1000, "--rows", 1, 2, "--allowed", 0.5, "--dtype", "float32"]
        apply = [*sizes, "--repeat", 2]
        generate = [*model, "--tokens", 4, "--runs", 1, "--batch", 1, "--threads", 1]
        serving = ["made", "--loads", 1, "--runs", 1, "--least", 1, "--tokens", 4, "--backends", "cdplugin"]
    else:
        sizes = ["--device", "cuda", "--vocab", 32768, 65536, 131072, 262144, "--rows", 1, 8, 64, 512]
        apply = [*sizes, "--allowed", 0.001, 0.5, 0.999, "--repeat", 100]
        generate = [*model, "--tokens", 128, "--runs", 5, "--batch", 1, 8, 32]
        data = MASKBENCH if MASKBENCH.exists() else "made"
        server = ["--server=--gpu-memory-utilization=0.25", "--server=--max-num-seqs=128"]
        serving = [data, "--loads", 1, 8, 32, 128, "--runs", 3, "--tokens", 64, "--dtype", "bfloat16", "--graphs", *server]
    return {
        "tests": Step(pytest, 120, ("torch", "pytest", "hypothesis")),
        "apply": step("bench_bitmask.py", 200, ("torch", "triton"), *apply),
        "generate": step("bench_generate.py", 240, ("torch", "transformers"), *generate),
        "serving": step("bench_serving.py", 600, ("vllm", "aiohttp"), *serving),
    }


def _hear_interrupts() -> None:
    """Let the step hear SIGINT, by which it is stopped: a shell makes its background jobs, and their children, ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(step: Step, seconds: float, environment: dict[str, str]) -> dict[str, Any]:
    """Run a step for at most so many seconds: its status, time and results, and the end of its output if it failed."""
    missing = [name for name in step.needs if importlib.util.find_spec(name) is None]
    if missing:
        return {"status": f"skipped: {', '.join(missing)} not installed"}
    if seconds < 10:
        return {"status": "skipped: no time is left"}
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            step.command,
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_hear_interrupts,
        )
        try:
            status = "done" if process.wait(min(seconds, step.seconds)) == 0 else "failed"
        except subprocess.TimeoutExpired:
            status = "out of time"
            stop(process)
        except BaseException:
            stop(process)
            raise
        log.seek(0)
        text = log.read()
    out: dict[str, Any] = {"status": status, "seconds": round(time.monotonic() - began, 1)}
    counted = re.search(r"^.*\b\d+ (?:passed|failed|skipped|error).* in [\d.]+s.*$", text, re.MULTILINE)
    if counted:
        out["tests"] = counted.group(0).strip("= ")
    if step.out is not None and step.out.exists():
        out["result"] = json.loads(step.out.read_text())
    if status != "done":
        out["output"] = text[-4000:]
    return out


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a step and all that it started. An interrupt comes first: a step that unwinds stops servers in groups of their
    own.
    """
    for which, patience in ((signal.SIGINT, 45), (signal.SIGTERM, 15), (signal.SIGKILL, 15)):
        try:
            os.killpg(process.pid, which)
            process.wait(patience)
        except (ProcessLookupError, PermissionError):
            return
        except subprocess.TimeoutExpired:
            continue


def machine() -> dict[str, Any]:
    """GPU, processor and versions."""
    out: dict[str, Any] = {"python": platform.python_version(), "system": platform.platform(), "processors": os.cpu_count()}
    for name in LIBRARIES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    out["card"] = card()
    return out


def card() -> str:
    """The GPU's name, memory and driver; "" if there is none."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=60, check=True).stdout.strip().split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return ""


def rows_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the table of a script's results."""
    return list(result.get("rows") or result.get("summary") or [])


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown, with the columns of all rows in the order of their first appearance."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join("" if row.get(c) is None else str(row[c]) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def report(record: dict[str, Any]) -> str:
    """The record as a Markdown page."""
    what = "dry run on the CPU, numbers mean nothing" if record["dry run"] else record["machine"]["card"]
    versions = ", ".join(f"{name} {record['machine'][name]}" for name in LIBRARIES if name in record["machine"])
    parts = [f"# GPU, {record['date']}: {what}", f"`perf/gpu.sh`, {record['seconds']:.0f} s. {versions}."]
    for name, step in record["steps"].items():
        told = ", ".join(str(step[key]) for key in ("status", "tests") if key in step)
        parts.append(f"## {name}: {told}" + (f" ({step['seconds']} s)" if "seconds" in step else ""))
        rows = rows_of(step.get("result", {}))
        if rows:
            parts += [str(step["result"].get("machine", "")), table(rows)]
        if "output" in step:
            parts.append("```\n" + step["output"][-1500:].strip() + "\n```")
    return "\n\n".join(parts) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--steps", nargs="+", choices=["tests", "apply", "generate", "serving"])
    parser.add_argument("--model", help="for generate(); default: the demo's model")
    parser.add_argument("--seconds", type=float, default=1200, help="for all steps together")
    parser.add_argument("--out", type=Path, help="default: perf/results; a dry run writes nothing")
    args = parser.parse_args()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    if args.dry_run:
        environment |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    elif not card():
        print("no card here (nvidia-smi finds none): --dry-run tries the steps on the CPU", file=sys.stderr)
        return 1
    began = time.monotonic()
    record: dict[str, Any] = {
        "script": "perf/gpu.sh",
        "date": time.strftime("%Y-%m-%d"),
        "dry run": args.dry_run,
        "machine": machine(),
        "seconds": 0.0,
        "steps": {},
    }
    folder = args.out or (None if args.dry_run else ROOT / "perf" / "results")
    with tempfile.TemporaryDirectory() as scratch:
        for name, step in steps(args, Path(scratch)).items():
            if args.steps is None or name in args.steps:
                record["steps"][name] = run(step, args.seconds - (time.monotonic() - began), environment)
                record["seconds"] = round(time.monotonic() - began, 1)
                print(f"{name}: {record['steps'][name]['status']}", file=sys.stderr, flush=True)
                keep(record, folder)  # after each step, so that a machine that is taken away has left what it did
    print(report(record))
    return int(any(step["status"] in ("failed", "out of time") for step in record["steps"].values()))


def keep(record: dict[str, Any], folder: Path | None) -> None:
    """Write the record as JSON and as a page."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{record['date']}-gpu{'-dry-run' if record['dry run'] else ''}"
    (folder / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    (folder / f"{stem}.md").write_text(report(record))


if __name__ == "__main__":
    sys.exit(main())
