"""Where compiled kernels are kept: in a writable folder, one for each version and flags. And what a warm start imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WHERE = (
    "from cdplugin.kernels import entry; from cdplugin.kernels.jit import cache_files;"
    "print(cache_files.cache_root()); print(entry.engine.stats.cache_path)"
)


def run(code: str, **environment: str | None) -> list[str]:
    """The lines that a fresh interpreter prints. A variable of the environment with value None is unset."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "CDPLUGIN_", "XDG_"))}
    for name, value in environment.items():
        env.pop(name, None)
        if value is not None:
            env[name] = value
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_flags_are_part_of_the_key(tmp_path: Path) -> None:
    """``NUMBA_BOUNDSCHECK=1`` must not load unchecked machine code, nor the other way round."""
    folder = str(tmp_path)
    usual = run(WHERE, CDPLUGIN_CACHE_DIR=folder)
    assert usual == run(WHERE, CDPLUGIN_CACHE_DIR=folder) and usual[0] == folder
    found = [usual[1]]
    for flags in ({"NUMBA_BOUNDSCHECK": "1"}, {"NUMBA_OPT": "1"}, {"NUMBA_CPU_NAME": "generic"}):
        root, kernels = run(WHERE, CDPLUGIN_CACHE_DIR=folder, **flags)
        assert root == folder and Path(kernels).parent == Path(usual[1]).parent
        found.append(kernels)
    assert len(set(found)) == len(found)


def test_sources_are_part_of_the_key(tmp_path: Path) -> None:
    """An edit in any kernel file, also one that Numba does not look at, names another folder."""
    code = (
        "import pathlib; from cdplugin.kernels.jit import machine_code; real = pathlib.Path.read_bytes;"
        "key = machine_code.sources_hash.__wrapped__; before = key();"
        "pathlib.Path.read_bytes = lambda self: real(self) + (b'#' if self.name == 'saturate.py' else b'');"
        "print(before == key()); pathlib.Path.read_bytes = real; print(before == key())"
    )
    assert run(code, CDPLUGIN_CACHE_DIR=str(tmp_path)) == ["False", "True"]


def test_of_numpy_the_major_version_counts(tmp_path: Path) -> None:
    code = (
        "import numpy; from cdplugin.kernels.jit import machine_code; key = machine_code.source_key; own = key();"
        "real = numpy.__version__; major = real.partition('.')[0]; numpy.__version__ = major + '.999.1'; print(key() == own);"
        "numpy.__version__ = str(int(major) + 1) + '.0.0'; print(key() == own)"
    )
    assert run(code, CDPLUGIN_CACHE_DIR=str(tmp_path)) == ["True", "False"]


def test_the_order_of_folders(tmp_path: Path) -> None:
    own, xdg, home = tmp_path / "own" / "deep", tmp_path / "xdg", tmp_path / "home"
    home.mkdir()
    assert run(WHERE, CDPLUGIN_CACHE_DIR=str(own), XDG_CACHE_HOME=str(xdg), HOME=str(home))[0] == str(own)
    assert run(WHERE, XDG_CACHE_HOME=str(xdg), HOME=str(home))[0] == str(xdg / "cdplugin")
    assert run(WHERE, HOME=str(home))[0] == str(home / ".cache" / "cdplugin")
    assert run(WHERE, CDPLUGIN_CACHE_DIR="", XDG_CACHE_HOME="", HOME=str(home))[0] == str(home / ".cache" / "cdplugin")


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no user ids")
def test_unwritable_folders_are_passed_over(tmp_path: Path) -> None:
    """Read-only images, users without a home: the temporary folder is used, and the engine works."""
    blocked, temporary = tmp_path / "file", tmp_path / "tmp"
    blocked.write_text("a file where a folder is wanted")  # holds for root too, whom no permission stops
    temporary.mkdir()
    places = {
        "CDPLUGIN_CACHE_DIR": str(blocked / "a"),
        "XDG_CACHE_HOME": str(blocked),
        "HOME": str(blocked),
        "TMPDIR": str(temporary),
    }
    expected = str(temporary / f"cdplugin-{os.getuid()}")
    root, kernels = run(WHERE, **places)
    assert root == expected and Path(kernels).is_relative_to(expected)
    fallback = run(WHERE, CDPLUGIN_CACHE_DIR="/proc/nowhere", XDG_CACHE_HOME="/proc", HOME="/proc", TMPDIR=str(temporary))
    assert fallback[0] == expected


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes everywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    locked, temporary = tmp_path / "locked", tmp_path / "tmp"
    locked.mkdir(mode=0o500)
    temporary.mkdir()
    root, _ = run(WHERE, XDG_CACHE_HOME=str(locked), HOME=str(locked), TMPDIR=str(temporary))
    assert Path(root).parent == temporary


MATCH = (
    "import sys, cdplugin as cd; vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)], eos_token_ids=255);"
    "import numpy as np; m = cd.Compiler(vocab).compile(cd.Regex('a+')).matcher(); row = np.zeros((1, 8), np.int32);"
    "m.fill_next_token_bitmask(row); print(m.accept_token(97), row.any());"
)
HEAVY = (
    "print([m for m in ('torch', 'transformers', 'triton', 'jsonschema', 'rich', 'pydantic', 'scipy') if m in sys.modules]);"
)


def test_import_and_masks_need_no_heavy_library() -> None:
    """The kernels of this process's cache folder are used, where they are warm."""
    folder = os.environ.get("CDPLUGIN_CACHE_DIR")
    assert run("import sys, cdplugin;" + HEAVY, CDPLUGIN_CACHE_DIR=folder) == ["[]"]
    of_numba = run("import sys, numba;" + HEAVY)  # SciPy, where it is installed
    assert run(MATCH + HEAVY, NUMBA_DISABLE_JIT="1", CDPLUGIN_CACHE_DIR=folder) == ["True True", *of_numba]


def test_a_warm_process_compiles_nothing() -> None:
    """After one process has compiled, the next loads every kernel from the folder."""
    from cdplugin.kernels.jit.decorators import BOUNDSCHECK, DISABLED
    from cdplugin.warmup import warm_kernels

    if DISABLED:
        pytest.skip("nothing is compiled")
    warm_kernels()
    code = (
        MATCH
        + "from cdplugin.kernels.entry import engine as e; s = e.stats;"
        + "print(sum(s.cache_hits.values()), sum(s.cache_misses.values()))"
    )
    flags = {"NUMBA_BOUNDSCHECK": "1"} if BOUNDSCHECK else {}
    xdg = os.environ.get("XDG_CACHE_HOME")
    found = run(code, CDPLUGIN_CACHE_DIR=os.environ.get("CDPLUGIN_CACHE_DIR"), XDG_CACHE_HOME=xdg, **flags)
    assert found == ["True True", "1 0"]
