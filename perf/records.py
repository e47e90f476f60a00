"""Files of results: what was run, when, at which revision, on which machine with which versions, and what came out."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent


def command() -> str:
    """The command of this run. Absolute paths are written from the repository's root or, if they lie elsewhere, as names."""
    shown = []
    for argument in sys.argv:
        path = Path(argument)
        if path.is_absolute():
            argument = os.path.relpath(path, _ROOT) if path.is_relative_to(_ROOT.parent) else path.name
        shown.append(argument)
    return " ".join(shown)


def revision() -> str:
    """The commit of the checkout; "" outside one."""
    command = ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The machine, and the versions of Python, Numba, NumPy and the given packages."""
    out = {"python": platform.python_version(), "cpus": str(os.cpu_count()), "machine": platform.machine()}
    try:
        with open("/proc/cpuinfo") as f:
            out["cpu"] = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    for name in {"numba", "numpy", *packages}:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            out[name] = "from the source tree"
    return out


def stamp(packages: Iterable[str]) -> dict[str, Any]:
    """What every file of results begins with."""
    return {
        "command": command(),
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "load": round(os.getloadavg()[1], 1),
        "revision": revision(),
        "versions": versions(packages),
    }


def keep(path: Path | None, packages: Iterable[str], **results: Any) -> None:
    """Write a file of results, if a path was given. ``packages``: what was measured, besides Python, Numba and NumPy."""
    if path is not None:
        path.write_text(json.dumps(stamp(packages) | results, indent=1, ensure_ascii=False) + "\n")
