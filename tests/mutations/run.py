"""Breaks one line of a kernel at a time, in a copy of the sources, and checks that the tests notice.

``python tests/mutations/run.py [--only lexer.py] [--compiled]``. The kernels run interpreted, except for breaks that only
many cases find. A test that fails or does not end has noticed. The exit status is 1 if a break went unnoticed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Break(NamedTuple):
    """A line of ``breaks.jsonl``: ``was``, which stands at one place in ``file``, becomes ``now``.

    ``tests``: arguments for pytest, whose tests have to notice. ``what``: the mistake, in words. ``compiled``: whether so
    many cases are needed that the kernels have to be compiled.
    """

    file: str
    was: str
    now: str
    tests: str
    what: str
    compiled: bool = False


BREAKS = [Break(**json.loads(line)) for line in Path(__file__).with_name("breaks.jsonl").read_text().splitlines()]
PATIENCE = 900
"""Seconds for the tests of one break."""
_FAILED = 1  # pytest's exit status; 2 and above: the tests were not run


def copy_sources(into: Path) -> None:
    """Copy what the tests need, without caches."""
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("cdplugin", "tests", "docs", "examples", "perf"):
        shutil.copytree(ROOT / name, into / name, ignore=ignore)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, into / name)


def outcome(tests: str, folder: Path, environment: Mapping[str, str]) -> str:
    """How pytest ended: "passed", "failed", "no end", or why it could not run the tests."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests.split(" ")]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode in (0, _FAILED):
        return "failed" if done.returncode else "passed"
    if done.returncode < 0:
        return "failed"  # the process died
    return f"not run: {done.stdout[-400:]}{done.stderr[-400:]}"


def try_break(change: Break, folder: Path, environment: Mapping[str, str]) -> str:
    """Run the tests with one line broken. Returns the outcome."""
    path = folder / "cdplugin" / "kernels" / change.file
    source = path.read_text()
    if source.count(change.was) != 1:
        return f"not run: the line is there {source.count(change.was)} times"
    path.write_text(source.replace(change.was, change.now))
    try:
        return outcome(change.tests, folder, environment)
    finally:
        path.write_text(source)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="files of kernels, with * and ?")
    parser.add_argument("--compiled", action="store_true", help="compile the kernels for every break (a minute each)")
    parser.add_argument("--sound", action="store_true", help="first run the tests with nothing broken")
    arguments = parser.parse_args()
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="cdplugin-mutations-") as name:
        folder = Path(name)
        copy_sources(folder)
        environment = {
            **os.environ,
            "PYTHONPATH": name,
            "PYTHONDONTWRITEBYTECODE": "1",
            "CDPLUGIN_CACHE_DIR": str(folder / "cache"),
        }
        chosen = [change for change in BREAKS if fnmatch.fnmatch(change.file, arguments.only)]
        if arguments.sound:
            for tests in sorted({change.tests for change in chosen}):
                print(f"{outcome(tests, folder, environment):8} sound: {tests}", flush=True)
        for change in chosen:
            began = time.monotonic()
            jit = {"NUMBA_DISABLE_JIT": str(int(not (change.compiled or arguments.compiled)))}
            found = try_break(change, folder, environment | jit)
            unnoticed += found not in ("failed", "no end")
            print(f"{found:8} {time.monotonic() - began:4.0f} s  {change.file}: {change.what}", flush=True)
    print(f"{len(chosen) - unnoticed} of {len(chosen)} noticed")
    sys.exit(bool(unnoticed))


if __name__ == "__main__":
    main()
