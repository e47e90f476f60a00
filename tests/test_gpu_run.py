"""perf/gpu.sh: its dry run on the CPU, and what it reports of steps that fail, take too long, or lack a module."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "perf"))

import gpu_run  # noqa: E402
from gpu_run import Step, report, rows_of, run, steps, table  # noqa: E402


def args(**changes: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"dry_run": False, "model": None, **changes})


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.slow
def test_the_dry_run(model_folder: str, tmp_path: Path) -> None:
    for package in ("triton", "transformers", "rich"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "GPU_PYTHON": sys.executable, "PYTHONPATH": path}
    command = ["bash", "perf/gpu.sh", "--dry-run", "--model", model_folder, "--out", str(tmp_path)]
    command += ["--steps", "tests", "apply", "generate"]  # a server takes minutes to start on a CPU
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = tmp_path.glob("*-gpu-dry-run.json")
    record = json.loads(written.read_text())
    assert {name: step["status"] for name, step in record["steps"].items()} == dict.fromkeys(
        ("tests", "apply", "generate"), "done"
    )
    assert "passed" in record["steps"]["tests"]["tests"]
    apply = rows_of(record["steps"]["apply"]["result"])
    assert [(row["device"], row["rows"], row["vocabulary"]) for row in apply] == [("interpreted", n, 1000) for n in (1, 2)]
    assert all(row["p50 us"] > 0 for row in apply)
    generated = rows_of(record["steps"]["generate"]["result"])
    assert [row["mode"] for row in generated] == ["free", "constrained", "lookahead"]
    page = written.with_suffix(".md").read_text()
    assert page in done.stdout and "numbers mean nothing" in page and "| interpreted | float32 | 1000 |" in page


@pytest.mark.slow
def test_a_folder_without_weights(model_folder: str, tmp_path: Path) -> None:
    pytest.importorskip("rich")
    for path in Path(model_folder).iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    command = [
        sys.executable,
        "perf/bench_generate.py",
        "--model",
        str(tmp_path),
        "--tokens",
        "2",
        "--runs",
        "1",
        "--batch",
        "1",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "random weights" in done.stdout and "lookahead" in done.stdout


def test_without_a_card_nothing_is_measured(tmp_path: Path) -> None:
    if gpu_run.card():
        pytest.skip("there is a card")
    environment = {**os.environ, "GPU_PYTHON": sys.executable}
    command = ["bash", "perf/gpu.sh", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "--dry-run" in done.stderr and not list(tmp_path.iterdir())


def test_a_step(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    code = f"open({str(out)!r}, 'w').write('{{\"rows\": [1]}}'); print('== 3 passed, 1 skipped in 0.5s ==')"
    good = Step(python(code), 60, (), out)
    found = run(good, 60, dict(os.environ))
    assert found["status"] == "done" and found["result"] == {"rows": [1]} and found["tests"] == "3 passed, 1 skipped in 0.5s"
    bad = run(Step(python("print('why'); raise SystemExit(3)"), 60), 60, dict(os.environ))
    assert bad["status"] == "failed" and bad["output"].strip() == "why" and "result" not in bad
    absent = Step(python("raise SystemExit(1)"), 60, ("json", "no_such_module"))
    assert run(absent, 60, {}) == {"status": "skipped: no_such_module not installed"}
    assert run(good, 5, {}) == {"status": "skipped: no time is left"}


@pytest.mark.parametrize("heard", [signal.default_int_handler, signal.SIG_IGN], ids=["foreground", "background"])
def test_a_step_out_of_time_is_ended_with_what_it_started(tmp_path: Path, heard: Any) -> None:
    """It is interrupted, so that it can end what runs in groups of its own; even if a shell makes this process ignore
    interrupts.
    """
    told = tmp_path / "told"
    code = (
        "import pathlib, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "try:\n    time.sleep(600)\n"
        f"finally:\n    child.kill(); child.wait(); pathlib.Path({str(told)!r}).write_text('ended')\n"
    )
    before = signal.signal(signal.SIGINT, heard)
    try:
        found = run(Step(python(code), 3), 60, dict(os.environ))
    finally:
        signal.signal(signal.SIGINT, before)
    assert found["status"] == "out of time" and told.read_text() == "ended"


def test_all_steps_end_within_twenty_minutes() -> None:
    for dry in (False, True):
        listed = steps(args(dry_run=dry), Path("x"))
        assert list(listed) == ["tests", "apply", "generate", "serving"]
        assert all(Path(step.command[1]).is_file() for step in listed.values() if step.out)
        assert sum(step.seconds for step in listed.values()) <= 1200


def test_the_report() -> None:
    rows = [{"a": 1, "b": None}, {"a": 2, "c": 0.5}]
    assert table(rows) == "| a | b | c |\n|---|---|---|\n| 1 |  |  |\n| 2 |  | 0.5 |"
    record: dict[str, Any] = {"date": "2026-01-01", "dry run": False, "seconds": 12.0}
    record["machine"] = {"card": "X100", "torch": "2.0"}
    record["steps"] = {
        "tests": {"status": "done", "seconds": 3.0, "tests": "9 passed in 2s"},
        "apply": {"status": "done", "seconds": 4.0, "result": {"machine": "m", "rows": rows}},
        "serving": {"status": "failed", "seconds": 5.0, "output": "boom"},
        "generate": {"status": "skipped: transformers not installed"},
    }
    page = report(record)
    assert (
        page.startswith("# GPU, 2026-01-01: X100\n")
        and "torch 2.0" in page
        and "## tests: done, 9 passed in 2s (3.0 s)" in page
    )
    assert table(rows) in page and "boom" in page and "## generate: skipped: transformers not installed" in page


def test_made_schemas_are_distinct_and_valid() -> None:
    import itertools

    jsonschema = pytest.importorskip("jsonschema")
    from bench_serving import made_schemas

    listed = [row["schema"] for row in itertools.islice(made_schemas(1), 200)]
    assert len({json.dumps(schema) for schema in listed}) == 200
    for schema in listed[:20]:
        jsonschema.Draft202012Validator.check_schema(schema)
    assert listed == [row["schema"] for row in itertools.islice(made_schemas(1), 200)]
