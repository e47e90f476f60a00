"""Warming up compiles every kernel and nothing more; and who is told that kernels are being compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdplugin import warmup
from cdplugin.kernels.jit import decorators as jit
from cdplugin.kernels.jit.decorators import FirstCall

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(jit.DISABLED, reason="nothing is compiled")

UNUSED = """
import importlib, pkgutil, sys
import cdplugin.kernels
from cdplugin.kernels.jit.machine_code import KernelCache
import cdplugin.cli.main
sys.stdout = sys.stderr
{work}
sys.stdout = sys.__stdout__
for found in pkgutil.walk_packages(cdplugin.kernels.__path__, "cdplugin.kernels."):
    if not found.name.endswith("_triton"):
        for name, value in vars(importlib.import_module(found.name)).items():
            if isinstance(getattr(value, "_cache", None), KernelCache) and not value.signatures:
                print(name)
"""


@pytest.mark.parametrize(
    ("work", "cold"),
    [
        ("cdplugin.cli.main.main(['warmup'])", []),
        ("from cdplugin.warmup import warm_kernels; warm_kernels()", ["infill_engine"]),
    ],
    ids=["command", "adapter"],
)
def test_what_is_warm(work: str, cold: list[str]) -> None:
    """The command ``warmup`` compiles everything. A server, which does not infill, waits only for what it needs."""
    command = [sys.executable, "-c", UNUSED.format(work=work)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stderr
    assert sorted(set(done.stdout.split())) == cold


def dispatcher(cached: bool, called: bool = False) -> Any:
    return SimpleNamespace(overloads={(): None} if called else {}, _cache=SimpleNamespace(has_any=lambda: cached))


def test_who_is_told() -> None:
    assert FirstCall(dispatcher(cached=False)).shown
    assert not FirstCall(dispatcher(cached=True)).shown
    assert not FirstCall(dispatcher(cached=False, called=True)).shown
    with FirstCall.silenced(), FirstCall.silenced():
        assert not FirstCall(dispatcher(cached=False)).shown
    assert FirstCall(dispatcher(cached=False)).shown


def test_warming_up_does_not_silence_what_is_compiled_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: after ``warm_kernels`` the first ``Infill`` compiled for a minute without a word. Nor does a failure."""
    warmup.warm_kernels()
    assert FirstCall(dispatcher(cached=False)).shown

    def fail(_: Any) -> None:
        assert not FirstCall(dispatcher(cached=False)).shown  # the caller's own line tells
        raise RuntimeError("no compiler")

    monkeypatch.setattr(warmup, "_warm_engine", fail)
    with pytest.raises(RuntimeError, match="no compiler"):
        warmup.warm_kernels()
    assert FirstCall(dispatcher(cached=False)).shown
