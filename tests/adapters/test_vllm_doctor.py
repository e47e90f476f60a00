"""``cdplugin doctor --vllm`` finds what the test broke, and says how to mend it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_tools import ROOT, needs_vllm

from cdplugin.adapters.vllm import compat, doctor, plugin


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the check on an installation in which only what a test breaks is wrong. Returns notes and problems."""
    state = SimpleNamespace(version="0.32.0", missing=set(), accepts=True, groups=set(doctor._GROUPS))

    def version(name: str) -> str:
        if name == "vllm" and state.version:
            return str(state.version)
        raise importlib.metadata.PackageNotFoundError(name)

    def entry_points(group: str) -> list[Any]:
        return [SimpleNamespace(name="cdplugin")] if group in state.groups else []

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(doctor, "entry_points", entry_points)
    monkeypatch.setattr(plugin, "register", lambda: None)
    monkeypatch.setattr(doctor, "_is_changed", lambda name: name not in state.missing)
    monkeypatch.setattr(doctor, "_takes_our_name", lambda: state.accepts)
    for name in ("VLLM_PLUGINS", "VLLM_TARGET_DEVICE", "CDPLUGIN_VLLM_OPTIONS"):
        monkeypatch.delenv(name, raising=False)

    def run(**broken: Any) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        vars(state).update(broken)
        notes: list[tuple[str, str]] = []
        problems: list[tuple[str, str]] = []
        doctor.check(lambda *told: notes.append(told), lambda *told: problems.append(told))
        assert all(len(remedy) > 10 for _, remedy in notes + problems)
        return notes, problems

    return run


def test_all_is_well(found: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert found() == ([], [])
    out = capsys.readouterr().out
    assert "vLLM 0.32.0" in out and "takes --structured-outputs-config.backend cdplugin" in out and "each kind compiles" in out


def test_installations(found: Any) -> None:
    assert "not installed" in found(version="")[1][0][0]
    notes, problems = found(version="0.99.0")
    assert not problems and "0.99.0 has not been checked" in notes[0][0]
    _, problems = found(version="0.32.0", groups={"vllm.platform_plugins"})
    assert len(problems) == 1 and "vllm.general_plugins is not there" in problems[0][0]


def test_what_differs_in_vllm(found: Any) -> None:
    notes, problems = found(missing={compat.MANAGER})
    assert not notes and f"{compat.MANAGER} is not as expected: the backend cannot be used" in problems[0][0]
    notes, problems = found(missing={compat.ASYNC})
    assert not problems and "the backend works without it" in notes[0][0]
    _, problems = found(missing=set(), accepts=False)
    assert "refuses the backend's name" in problems[0][0]


def test_the_environment(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "lora, other")
    assert "leaves cdplugin out" in found()[1][0][0] and "lora, other,cdplugin" in found()[1][0][1]
    monkeypatch.setenv("VLLM_PLUGINS", "other, cdplugin")
    assert found() == ([], [])
    monkeypatch.setenv("VLLM_TARGET_DEVICE", "cpu")
    assert "skip platform plugins" in found()[0][0][0]
    monkeypatch.setenv("CDPLUGIN_VLLM_OPTIONS", '{"whitspace": "compact"}')
    assert "unknown: whitspace" in found()[1][0][0]
    monkeypatch.setenv("CDPLUGIN_VLLM_OPTIONS", '{"limits": {"max_spec_bytes": 3}}')
    assert "a small request is refused with these options" in found()[1][0][0]


@pytest.mark.vllm
@needs_vllm[1]
def test_with_a_real_vllm() -> None:
    code = "import sys; from cdplugin.cli.main import main; sys.exit(main(['doctor', '--vllm']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert "takes --structured-outputs-config.backend cdplugin" in done.stdout, done.stdout + done.stderr[-2000:]
    assert done.returncode == 0 and "problem" not in done.stdout
