"""A kernel that is not on disk is compiled by another process, or by this one if that is not possible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdplugin.kernels.jit import elsewhere
from cdplugin.kernels.jit.decorators import DISABLED

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.kernel, pytest.mark.skipif(DISABLED, reason="nothing is compiled")]

KERNEL = """
from cdplugin.kernels.jit.decorators import entry_kernel, kernel


@kernel
def inner(x):
    return x * x


@entry_kernel
def squares(a, b):
    return inner(a) + inner(b)
"""

PROGRAM = """
import sys
{before}
from numba.core import event
from cdplugin.kernels.jit.decorators import FirstCall
from squares import squares

here = []


class Listener(event.Listener):
    def on_start(self, found):
        here.append(found)

    def on_end(self, found):
        pass


with event.install_listener("numba:compile", Listener()):
    with FirstCall(squares):
        print(squares(3, 4), len(here))
"""


def run(folder: Path, before: str = "", *flags: str) -> tuple[list[str], str]:
    """What a program prints that calls a kernel, and what it tells."""
    (folder / "squares.py").write_text(KERNEL)
    # the kernel's module is found by a path that only the program has
    program = PROGRAM.format(before=f"sys.path[:0] = [{str(ROOT)!r}, {str(folder)!r}]\n{before}")
    environment = os.environ | {"CDPLUGIN_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run([sys.executable, *flags, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


def test_this_process_compiles_nothing(tmp_path: Path) -> None:
    printed, told = run(tmp_path)
    assert printed == ["25", "0"]
    assert "compiling kernels" in told
    assert len(list(tmp_path.rglob("*.code"))) == 1
    assert run(tmp_path) == (["25", "0"], "")
    assert run(tmp_path, "", "-OO")[0] == ["25", "0"]


@pytest.mark.parametrize(
    "before",
    [
        "sys.executable = None",
        "sys.executable = '/usr/sbin/uwsgi'",  # it has Python inside
        "sys.executable = '/nowhere/python3'",
        "import numba; numba.config.BOUNDSCHECK = int(not numba.config.BOUNDSCHECK)",
        "from cdplugin.kernels.jit import elsewhere; elsewhere._CHILD = 'raise SystemExit(1)'",
        "from cdplugin.kernels.jit import elsewhere; elsewhere._MOST_SECONDS = 0.01",
    ],
    ids=["none", "host", "absent", "flags", "failure", "time"],
)
def test_else_it_is_compiled_here(tmp_path: Path, before: str) -> None:
    printed, _ = run(tmp_path, before)
    assert printed == ["25", "2"]


def test_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elsewhere.cache_files, "cache_root", lambda: None)
    monkeypatch.setattr(elsewhere.subprocess, "run", lambda *_, **__: pytest.fail("another process"))
    elsewhere.compile_elsewhere(None)
