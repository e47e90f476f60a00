"""The wheel: what it contains, and that it works in a fresh virtual environment (with this one's dependencies)."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
INSIDE = """
import cdplugin as cd, sys
from pathlib import Path
assert Path(cd.__file__).is_relative_to(sys.prefix), cd.__file__
assert "start:" in cd.grammars.CPP.grammar
vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
matcher = cd.Compiler(vocab).compile(cd.Regex("[0-9]{3}")).matcher()
print(matcher.accept_tokens(b"42"), matcher.accept_token(ord("x")), matcher.accept_token(ord("7")), matcher.is_accepting())
"""


def run(*command: object, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the sources, so that nothing is left in the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "cdplugin", source / "cdplugin", ignore=shutil.ignore_patterns("__pycache__"))
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *isolation, "--wheel-dir", folder, source]
    run(*command, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


def test_wheel_holds_everything(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(n for n in names if n.endswith("METADATA"))).decode()
    tracked = {str(p.relative_to(ROOT)) for p in (ROOT / "cdplugin").rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert tracked <= names, tracked - names
    assert not [n for n in names if n.split("/")[0] not in ("cdplugin", wheel.name.split("-py3")[0] + ".dist-info")]
    assert "License-Expression: Apache-2.0" in metadata
    assert any(n.endswith("licenses/LICENSE") for n in names)
    for extra in ("hf", "vllm", "demo", "test"):
        assert f"Provides-Extra: {extra}" in metadata


@pytest.mark.slow
def test_wheel_works_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """Interpreted kernels: machine code for another path would be compiled anew, which is not the point here."""
    fresh = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", fresh, cwd=tmp_path)
    python = fresh / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", wheel, cwd=tmp_path)
    (site,) = fresh.glob("lib/python*/site-packages")
    (site / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after the wheel's own folder on the path
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    assert run(python, "-c", INSIDE, cwd=tmp_path, env=env).strip() == "2 False True True"
    (tmp_path / "hex.regex").write_text("[0-9a-f]+")
    (tmp_path / "text").write_text("c0ffee")
    out = run(fresh / "bin" / "cdplugin", "check", "hex.regex", "text", cwd=tmp_path, env=env)
    assert out.strip() == "text: accepted (6 bytes)"
