"""Machine code on disk: made anew if damaged, kept where it can be, and shared by all installations of a version."""

from __future__ import annotations

import errno
import importlib.util
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding

from cdplugin.kernels.jit import cache_files, machine_code
from cdplugin.kernels.jit import decorators as jit
from cdplugin.kernels.jit.cache_files import CacheWarning, Folders
from cdplugin.kernels.jit.machine_code import TARGETS, host_targets

ROOT = Path(__file__).resolve().parent.parent
SOURCE = """
from cdplugin.kernels.jit.decorators import entry_kernel, kernel

@kernel
def inner(x):
    return x * x

@entry_kernel
def entry(x):
    return inner(x) + 1
"""
pytestmark = pytest.mark.skipif(jit.DISABLED, reason="nothing is compiled")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "cache"
    root.mkdir()
    monkeypatch.setattr(cache_files, "cache_folders", lambda: Folders((root,), root, ()))
    monkeypatch.setattr(cache_files, "_has_warned", False)
    (tmp_path / "tiny.py").write_text(SOURCE)
    return tmp_path


def start(folder: Path) -> Any:
    """The kernel as a process that has just begun sees it: nothing is compiled or loaded yet."""
    spec = importlib.util.spec_from_file_location("tiny", folder / "tiny.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny"] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules["tiny"]
    return module.entry


def run(folder: Path) -> str:
    """What the first call did: "loaded" or "compiled"."""
    entry = start(folder)
    assert entry(5) == 26
    hits, misses = sum(entry.stats.cache_hits.values()), sum(entry.stats.cache_misses.values())
    assert hits + misses == 1
    return "loaded" if hits else "compiled"


def the_file(folder: Path) -> Path:
    (path,) = (folder / "cache").rglob("*.code")
    return path


def test_it_is_compiled_once(folder: Path) -> None:
    assert not jit.is_cached(start(folder))
    assert [run(folder), run(folder)] == ["compiled", "loaded"]
    assert jit.is_cached(start(folder))


def test_no_bitcode_is_kept(folder: Path) -> None:
    """What is read with the machine code has no bodies, only the names of what Python calls."""
    run(folder)
    content = cache_files.read(the_file(folder).relative_to(folder / "cache").as_posix())
    (name, kind, (_, bitcode)), *_ = pickle.loads(content or b"")
    functions = [f for f in binding.parse_bitcode(bitcode).functions if not f.is_declaration]
    assert name == "entry" and kind == "object" and any("entry" in f.name for f in functions)
    assert all(len(list(block.instructions)) == 1 for f in functions for block in f.blocks)


@pytest.mark.parametrize("damage", ["first", "middle", "digest", "cut", "empty", "other"])
def test_a_damaged_file_is_made_again(folder: Path, damage: str) -> None:
    """The finding: it failed every start."""
    run(folder)
    path = the_file(folder)
    good = path.read_bytes()
    place = {"first": 0, "middle": len(good) // 2, "digest": len(good) - 1}.get(damage)
    if place is not None:
        path.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
    else:
        path.write_bytes({"cut": good[: len(good) // 2], "empty": b"", "other": b"not machine code" * 9}[damage])
    assert not jit.is_cached(start(folder))
    assert run(folder) == "compiled"
    assert the_file(folder) == path and run(folder) == "loaded"


@pytest.mark.parametrize("content", [pickle.dumps("whole"), b"no pickle", pickle.dumps((1, 2, 3))])
def test_a_whole_file_that_numba_cannot_use_is_made_again(folder: Path, content: bytes) -> None:
    run(folder)
    name = the_file(folder).relative_to(folder / "cache").as_posix()
    cache_files.write(name, [content])
    assert [run(folder), run(folder)] == ["compiled", "loaded"]


class Trap:
    """What a planted file does when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (str(Path(os.environ["TRAP"])),)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_planted_code_does_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: what somebody else had put into the cache folder ran as root."""
    monkeypatch.setenv("TRAP", str(folder / "sprung"))
    run(folder)
    path = the_file(folder)
    cache_files.write(path.relative_to(folder / "cache").as_posix(), [pickle.dumps(Trap())])
    os.chown(path, 12345, 12345)
    assert run(folder) == "compiled" and not (folder / "sprung").exists()
    assert run(folder) == "loaded"  # ours has taken its place
    cache_files.write(path.relative_to(folder / "cache").as_posix(), [pickle.dumps(Trap())])
    run(folder)
    assert (folder / "sprung").exists()  # the trap works: it is the owner that counts


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_what_cannot_be_kept_is_used_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """The finding: a full disk was an OSError after the compilation."""

    def fail(*_: Any) -> Any:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patch:
        patch.setattr(cache_files.os, "replace", fail)
        with pytest.warns(CacheWarning, match=os.strerror(error)) as told:
            assert [run(folder), run(folder)] == ["compiled", "compiled"]
    assert len(told) == 1
    assert not [path for path in (folder / "cache").rglob("*") if path.is_file()]
    assert [run(folder), run(folder)] == ["compiled", "loaded"]


def test_no_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_files, "cache_folders", lambda: Folders((), None, ()))
    with pytest.warns(CacheWarning):
        assert [run(folder), run(folder)] == ["compiled", "compiled"]
    assert start(folder).stats.cache_path == ""


def test_an_edit_is_noticed(folder: Path) -> None:
    """Also in what the entry kernel only calls."""
    run(folder)
    (folder / "tiny.py").write_text(SOURCE.replace("x * x", "x + 21 - 1"))
    entry = start(folder)
    assert entry(5) == 26 and sum(entry.stats.cache_hits.values()) == 0


def test_an_interrupt_while_compiling(folder: Path) -> None:
    """Ctrl-C comes while the n-th function is compiled. The next call compiles, and is right."""
    from numba.core import event

    class Interrupt(event.Listener):  # type: ignore[misc]
        def __init__(self, at: int) -> None:
            self.at = at

        def on_start(self, event: Any) -> None:
            self.at -= 1
            if self.at == 0:
                raise KeyboardInterrupt

        def on_end(self, event: Any) -> None:
            pass

    for kind in ("numba:compile", "numba:llvm_lock", "numba:run_pass"):
        for at in (1, 2):
            entry = start(folder)
            listener = Interrupt(at)
            event.register(kind, listener)
            try:
                with pytest.raises(KeyboardInterrupt):
                    entry(5)
            finally:
                event.unregister(kind, listener)
            assert entry(5) == 26
            shutil.rmtree(folder / "cache" / "kernels")


CALL = (
    "import sys, numpy as np, cdplugin; from cdplugin.kernels.masks.bitmask import MINUS_INFINITY, mask_rows;"
    "fill = MINUS_INFINITY['float32'];"
    "mask_rows(np.zeros(32, fill.dtype), 32, 1, 32, np.zeros(1, np.int32), 1, 1, np.empty(0, np.int64), 1, fill);"
    "print(cdplugin.__file__, sum(mask_rows.stats.cache_hits.values()))"
)


def test_installations_of_one_version_share_it(tmp_path: Path) -> None:
    """A wheel in a second virtual environment does not compile again, wherever the first one was, or is no more."""
    answers = []
    for name in ("one", "two"):
        shutil.copytree(ROOT / "cdplugin", tmp_path / name / "cdplugin", ignore=shutil.ignore_patterns("__pycache__"))
        env = {**os.environ, "CDPLUGIN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path / name)}
        done = subprocess.run([sys.executable, "-c", CALL], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        answers.append(done.stdout.split())
        shutil.rmtree(tmp_path / name)
    assert [Path(where).parent.parent.name for where, _ in answers] == ["one", "two"]
    assert [hits for _, hits in answers] == ["0", "1"]


def test_nothing_is_kept_of_a_process_whose_sources_change(tmp_path: Path) -> None:
    """An upgrade while a process starts: kernels of two versions under the name of one crashed whoever loaded them."""
    shutil.copytree(ROOT / "cdplugin", tmp_path / "cdplugin", ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "CDPLUGIN_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    upgrade = (
        "import os, cdplugin.kernels.jit.machine_code as machine_code;"
        "os.utime(os.path.dirname(machine_code.__file__) + '/../store/layout.py', (1, 1));"
    )
    kept = []
    for code in (upgrade + CALL, CALL, upgrade.replace("(1, 1)", "(2, 2)") + CALL):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert ("sources have changed" in done.stderr) == ("utime" in code)
        hits = int(done.stdout.split()[-1])
        kept.append((hits, len([*(tmp_path / "cache").rglob("*.code")])))
    assert kept == [(0, 0), (0, 1), (0, 1)]


def test_the_key_covers_folders_of_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels may lie in folders: a file's place is part of the key, the place of the installation is not."""

    def key(files: dict[str, str], root: str) -> bytes:
        for name, text in files.items():
            path = tmp_path / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        monkeypatch.setattr(machine_code, "__file__", str(tmp_path / root / "jit" / "machine_code.py"))
        return machine_code.sources_hash.__wrapped__()

    files = {"a.py": "1", "deep/er/b.py": "2"}
    base = key(files, "one")
    assert key(files, "another/place") == base
    assert key({**files, "deep/er/b.py": "3"}, "three") != base
    assert key({"a.py": "1", "deep/b.py": "2"}, "four") != base


CARRIED = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("tiny", sys.argv[1])
module = sys.modules["tiny"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
assert module.entry(5) == 26
print(sum(module.entry.stats.cache_hits.values()), sum(module.entry.stats.cache_misses.values()))
"""


def carried_run(folder: Path, cache: str, **environment: str) -> list[int]:
    """Hits and misses of the first call in a fresh process, with an empty cache folder of its own."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_CPU", "CDPLUGIN_"))}
    env |= {"CDPLUGIN_CACHE_DIR": str(folder / cache), "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "-c", CARRIED, str(folder / "tiny.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [int(n) for n in done.stdout.split()]


@pytest.mark.skipif(not host_targets(), reason="LLVM knows no level of this machine's instruction set")
def test_code_for_a_level_is_carried(folder: Path) -> None:
    """Compiled in one process for a level, loaded in another with an empty cache."""
    cpu = TARGETS[host_targets()[-1]].cpu
    assert carried_run(folder, "out", NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES="") == [0, 1]
    carried = str(folder / "out")
    assert carried_run(folder, "a") == [0, 1]  # nothing is carried
    assert carried_run(folder, "b", CDPLUGIN_CARRIED=carried) == [1, 0]
    assert not list((folder / "b").rglob("*.code"))


@pytest.mark.skipif(not host_targets(), reason="LLVM knows no level of this machine's instruction set")
def test_carried_code_is_not_used_if_damaged_or_under_other_flags(folder: Path) -> None:
    cpu = TARGETS[host_targets()[-1]].cpu
    assert carried_run(folder, "out", NUMBA_CPU_NAME=cpu, NUMBA_CPU_FEATURES="") == [0, 1]
    carried = str(folder / "out")
    assert carried_run(folder, "c", CDPLUGIN_CARRIED=carried, NUMBA_OPT="1") == [0, 1]
    assert carried_run(folder, "d", CDPLUGIN_CARRIED=carried, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="") == [0, 1]
    (path,) = (folder / "out").rglob("*.code")
    whole = path.read_bytes()
    path.write_bytes(whole[:-40] + bytes(8) + whole[-32:])
    assert carried_run(folder, "e", CDPLUGIN_CARRIED=carried) == [0, 1] and path.exists()
    path.write_bytes(whole)
    path.chmod(0o666)
    assert carried_run(folder, "f", CDPLUGIN_CARRIED=carried) == [0, 1]  # anybody could have written it
