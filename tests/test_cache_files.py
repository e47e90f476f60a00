"""Cached files: who may own them, that damage is found, and that a full or read-only disk stops nobody."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cdplugin.kernels.jit import cache_files
from cdplugin.kernels.jit.cache_files import CacheWarning, Folders

ROOT = Path(__file__).resolve().parent.parent
NAME = "vocab/x.bin"
CONTENT = bytes(range(256)) * 3
is_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for this test alone."""
    root = tmp_path / "cache"
    root.mkdir()
    use(monkeypatch, Folders((root,), root, ()))
    return root


def use(monkeypatch: pytest.MonkeyPatch, folders: Folders) -> None:
    monkeypatch.setattr(cache_files, "cache_folders", lambda: folders)
    monkeypatch.setattr(cache_files, "_has_warned", False)


def found() -> bytes | None:
    content = cache_files.read(NAME)
    return None if content is None else bytes(content)


# ---- files -----------------------------------------------------------------------------------------------------------------


def test_what_is_written_is_read(folder: Path) -> None:
    assert found() is None
    assert cache_files.write(NAME, [CONTENT[:100], CONTENT[100:]])
    assert found() == CONTENT
    assert cache_files.names("vocab") == [NAME] and cache_files.names("vocab", "y") == []
    assert stat.S_IMODE((folder / NAME).stat().st_mode) & 0o022 == 0
    cache_files.write(NAME, [b"other"])
    assert found() == b"other" and os.listdir(folder / "vocab") == ["x.bin"]
    cache_files.remove(NAME)
    assert found() is None


@pytest.mark.parametrize("place", [0, 1, 500, len(CONTENT) - 1, len(CONTENT), -1])
def test_a_flipped_bit_is_found_and_the_file_removed(folder: Path, place: int) -> None:
    cache_files.write(NAME, [CONTENT])
    path = folder / NAME
    data = bytearray(path.read_bytes())
    data[place] ^= 4
    path.write_bytes(data)
    assert found() is None and not path.exists()


@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, len(CONTENT), len(CONTENT) + 31])
def test_a_file_that_is_cut_short_is_found(folder: Path, size: int) -> None:
    cache_files.write(NAME, [CONTENT])
    os.truncate(folder / NAME, size)
    assert found() is None
    assert cache_files.write(NAME, [CONTENT]) and found() == CONTENT


def test_a_file_counts_under_its_own_name_only(folder: Path) -> None:
    """A hard link to another file of ours, which others may be able to make, is none of this name."""
    cache_files.write("vocab/y.bin", [CONTENT])
    os.link(folder / "vocab" / "y.bin", folder / NAME)
    assert found() is None


def test_a_link_is_no_file_of_ours(folder: Path, tmp_path: Path) -> None:
    cache_files.write(NAME, [CONTENT])
    os.rename(folder / NAME, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", folder / NAME)
    assert found() is None
    assert cache_files.write(NAME, [b"new"]) and found() == b"new"
    assert not (folder / NAME).is_symlink() and (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_ignored(folder: Path, mode: int) -> None:
    cache_files.write(NAME, [CONTENT])
    os.chmod(folder / NAME, mode)
    assert found() is None


@is_root
def test_a_planted_file_is_ignored(folder: Path) -> None:
    """Right in every byte, but somebody else's: the finding."""
    cache_files.write(NAME, [CONTENT])
    os.chown(folder / NAME, 12345, 12345)
    assert found() is None
    assert cache_files.write(NAME, [CONTENT]) and found() == CONTENT


def test_a_pipe_does_not_block(folder: Path) -> None:
    (folder / "vocab").mkdir()
    os.mkfifo(folder / NAME, 0o600)
    assert found() is None


def test_a_folder_in_the_way(folder: Path) -> None:
    (folder / NAME).mkdir(parents=True)
    assert found() is None
    with pytest.warns(CacheWarning, match="directory"):
        assert not cache_files.write(NAME, [CONTENT])
    assert os.listdir(folder / "vocab") == ["x.bin"]


@pytest.mark.parametrize("step", ["open", "write", "replace"])
def test_a_full_disk(folder: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """ENOSPC wherever it comes: nothing is raised or left, it is told once, and what was there before is still there."""
    cache_files.write(NAME, [b"before"])

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if step == "write":
        parts = (fail() for _ in range(1))
    else:
        parts = iter([CONTENT])
        real = os.open
        patched = fail if step == "replace" else lambda path, flags, *rest: fail() if flags & os.O_CREAT else real(path, flags)
        monkeypatch.setattr(cache_files.os, step, patched)
    with pytest.warns(CacheWarning, match=r"No space left on device.*cdplugin doctor") as told:
        kept = [cache_files.write(NAME, parts), cache_files.write("vocab/z.bin", (fail() for _ in range(1)))]
    assert kept == [False, False] and len(told) == 1
    monkeypatch.undo()
    assert sorted(os.listdir(folder / "vocab")) == ["x.bin"]
    assert (folder / NAME).read_bytes().startswith(b"before")


def test_an_interrupt_leaves_nothing(folder: Path) -> None:
    def parts() -> Any:
        yield CONTENT
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache_files.write(NAME, parts())
    assert os.listdir(folder / "vocab") == []


def test_a_read_only_folder_is_read_and_another_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image made by root: its files count, damaged ones too are made again, elsewhere."""
    image, own = tmp_path / "image", tmp_path / "own"
    use(monkeypatch, Folders((image,), image, ()))
    cache_files.write(NAME, [CONTENT])
    use(monkeypatch, Folders((image, own), own, ()))
    assert found() == CONTENT
    real = os.unlink
    monkeypatch.setattr(cache_files.os, "unlink", lambda p: real(p) if Path(p).is_relative_to(own) else os.close(-1))
    (image / NAME).write_bytes(b"damaged" * 10)
    assert found() is None and cache_files.write(NAME, [b"new"])
    assert found() == b"new" and (image / NAME).exists()


def test_nowhere_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Folders((), None, ("all",)))
    with pytest.warns(CacheWarning, match="no folder can be written"):
        assert not cache_files.write(NAME, [CONTENT])
    assert cache_files.cache_root() is None and found() is None


def test_what_killed_writers_left_is_removed(folder: Path) -> None:
    cache_files.write(NAME, [CONTENT])
    old, new = folder / "vocab" / ".writing-old", folder / "vocab" / ".writing-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache_files.write(NAME, [CONTENT])
    assert not old.exists() and new.exists()
    assert cache_files.names("vocab") == [NAME]


WRITER = """
import sys
from pathlib import Path
from cdplugin.kernels.jit import cache_files
root = Path(sys.argv[1])
cache_files.cache_folders = lambda: cache_files.Folders((root,), root, ())
content = sys.argv[2].encode() * 100_000
for _ in range(60):
    assert cache_files.write("vocab/x.bin", [content])
    seen = cache_files.read("vocab/x.bin")
    assert seen is not None and bytes(seen) in (b"a" * 100_000, b"b" * 100_000)
"""


def test_writers_at_once(folder: Path) -> None:
    """Readers find the one or the other, never a mixture, never nothing."""
    started = [subprocess.Popen([sys.executable, "-c", WRITER, str(folder), letter], cwd=ROOT) for letter in "ab"]
    assert [process.wait(120) for process in started] == [0, 0]
    assert os.listdir(folder / "vocab") == ["x.bin"]


# ---- folders ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing but a temporary folder is there: no home, no XDG folder, none named."""
    (tmp_path / "file").write_text("a file where a folder is wanted")  # holds for root too, whom no permission stops
    (tmp_path / "tmp").mkdir()
    for name in ("CDPLUGIN_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr(cache_files.tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(cache_files, "_has_warned", False)
    monkeypatch.setattr(cache_files.atexit, "register", lambda *_: None)
    return tmp_path


def folders() -> Folders:
    return cache_files.cache_folders.__wrapped__()  # not the remembered ones


def own(places: Path) -> Path:
    return places / "tmp" / f"cdplugin-{os.geteuid()}"


def test_the_temporary_folder_is_private(places: Path) -> None:
    assert folders().writable == own(places)
    assert stat.S_IMODE(own(places).stat().st_mode) == 0o700
    assert folders().writable == own(places) and not cache_files.is_removed_at_exit(own(places))


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_temporary_folder_that_others_may_write_is_not_used(places: Path, mode: int) -> None:
    own(places).mkdir()
    own(places).chmod(mode)
    assert_fresh(places)


def test_a_link_in_the_temporary_folder_is_not_followed(places: Path) -> None:
    (places / "bait").mkdir(mode=0o700)
    own(places).symlink_to(places / "bait")
    assert_fresh(places)
    assert os.listdir(places / "bait") == []


@is_root
def test_a_temporary_folder_of_somebody_else_is_not_used(places: Path) -> None:
    """The finding: root took ``/tmp/cdplugin-0`` whoever had made it."""
    own(places).mkdir(mode=0o700)
    os.chown(own(places), 12345, 12345)
    assert_fresh(places)


def assert_fresh(places: Path) -> None:
    """The folder is a new one that nobody else can enter, and is removed at exit."""
    found = folders()
    assert found.writable is not None and found.writable != own(places)
    assert found.writable.parent == places / "tmp" and stat.S_IMODE(found.writable.stat().st_mode) == 0o700
    assert cache_files.is_removed_at_exit(found.writable)
    assert own(places) not in found.readable and any(str(own(places)) in why for why in found.refused)


def test_a_fresh_folder_is_removed_at_exit_but_not_by_a_child(tmp_path: Path) -> None:
    code = (
        "import os, sys; from cdplugin.kernels.jit import cache_files as c; f = c.cache_root();"
        "pid = os.fork();\nif pid == 0: sys.exit()\nos.waitpid(pid, 0); print(f, f.is_dir())"
    )
    (tmp_path / f"cdplugin-{os.geteuid()}").write_text("in the way")
    env = {**os.environ, "HOME": "/proc", "XDG_CACHE_HOME": "/proc", "TMPDIR": str(tmp_path)}
    env.pop("CDPLUGIN_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    folder, was_there = done.stdout.split()
    assert was_there == "True" and Path(folder).parent == tmp_path and not Path(folder).exists(), done.stderr


@is_root
@pytest.mark.parametrize("variable", ["CDPLUGIN_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_named_folder_of_somebody_else_is_not_used(
    places: Path, monkeypatch: pytest.MonkeyPatch, variable: str, recwarn: pytest.WarningsRecorder
) -> None:
    named = places / "named" / "cdplugin"
    named.mkdir(parents=True)
    os.chown(named, 12345, 12345)
    monkeypatch.setenv(variable, str(named if variable == "CDPLUGIN_CACHE_DIR" else named.parent))
    assert folders().writable == own(places)
    assert any("found one of user 12345" in why for why in folders().refused)
    told = [str(w.message) for w in recwarn if w.category is CacheWarning]
    assert len(told) == (variable == "CDPLUGIN_CACHE_DIR")  # whoever names a folder is told that it is not used


def test_a_named_folder_that_everybody_may_write(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only with the sticky bit, as the temporary folder has it."""
    named = places / "named"
    named.mkdir()
    monkeypatch.setenv("CDPLUGIN_CACHE_DIR", str(named))
    for mode, used in ((0o1777, True), (0o775, True), (0o755, True)):
        named.chmod(mode)
        assert (folders().writable == named) == used
    named.chmod(0o777)
    with pytest.warns(CacheWarning, match="expected a folder that not everybody can write, found mode 0777"):
        assert folders().writable == own(places)


def test_a_folder_that_can_only_be_read_comes_first(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = places / "named"
    named.mkdir()
    monkeypatch.setenv("CDPLUGIN_CACHE_DIR", str(named))
    real = cache_files._is_writable
    monkeypatch.setattr(cache_files, "_is_writable", lambda folder: folder != named and real(folder))
    with pytest.warns(CacheWarning, match="it cannot be written"):
        found = folders()
    assert found.readable == (named, own(places)) and found.writable == own(places)


def test_no_folder_at_all(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_files.tempfile, "tempdir", str(places / "file" / "nowhere"))
    found = folders()
    assert found.writable is None and found.readable == () and len(found.refused) == 2


# ---- folders of earlier versions -------------------------------------------------------------------------------------------


def versions(folder: Path, ages: dict[str, float]) -> None:
    """Folders of machine code, last used so many days ago."""
    for name, days in ages.items():
        assert cache_files.write(f"kernels/{name}/kernel.code", [CONTENT])
        os.utime(folder / "kernels" / name, (time.time() - 86400 * days,) * 2)


def left(folder: Path) -> list[str]:
    return sorted(os.listdir(folder / "kernels"))


def test_old_versions_go_when_a_new_one_is_made(folder: Path) -> None:
    """They were never removed: 27 of 8 MB each on the machine where this was found."""
    versions(folder, {f"v{days:02}": days for days in range(4, 16)} | {"mine": 30})
    gone = cache_files.prune("kernels", "mine")
    assert left(folder) == ["mine", "v04", "v05", "v06", "v07"] and sorted(gone) == [f"v{days:02}" for days in range(8, 16)]
    assert cache_files.prune("kernels", "mine") == []


def test_what_was_used_lately_stays(folder: Path) -> None:
    versions(folder, {f"v{number:02}": number / 10 for number in range(20)} | {"old": 9, "used": 9})
    cache_files.note_use("kernels/used")
    assert cache_files.prune("kernels", "v00") == ["old"] and "used" in left(folder)
    versions(folder, {f"w{number:02}": number / 100 for number in range(20)})
    assert len(cache_files.prune("kernels", "w00")) == 41 - 1 - 24  # but not any number


def test_pruning_touches_only_what_was_made_here(folder: Path, tmp_path: Path) -> None:
    versions(folder, {f"v{days:02}": days for days in range(10, 20)})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious.code").write_bytes(b"x")
    (folder / "kernels" / "link").symlink_to(elsewhere)
    os.utime(folder / "kernels" / "link", (0, 0), follow_symlinks=False)
    (folder / "kernels" / "v19" / "notes.txt").write_text("mine")
    (folder / "kernels" / "v18" / "inner.code").mkdir()
    for name in ("v18", "v19"):
        os.utime(folder / "kernels" / name, (0, 0))
    gone = cache_files.prune("kernels", "")
    assert gone == ["v14", "v15", "v16", "v17"]
    assert (elsewhere / "precious.code").exists() and (folder / "kernels" / "link").is_symlink()
    assert os.listdir(folder / "kernels" / "v19") == ["notes.txt"] and (folder / "kernels" / "v18" / "inner.code").exists()


def test_pruning_beside_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders that another process removes, and fills, in the middle."""
    versions(folder, {f"v{days:02}": days for days in range(10, 20)})
    listed, written = os.scandir, []

    def meanwhile(path: Any) -> Any:
        entries = list(listed(path))
        if str(path).endswith("v19"):
            (folder / "kernels/v19/kernel.code").unlink()
            (folder / "kernels/v19").rmdir()
        if str(path).endswith("v18") and not written:
            written.append(path)
            cache_files.write("kernels/v18/other.code", [CONTENT])
        return iter(entries)

    monkeypatch.setattr(os, "scandir", meanwhile)
    gone = cache_files.prune("kernels", "")
    assert "v19" in gone and "v18" not in gone and "v17" in gone
    monkeypatch.undo()
    assert os.listdir(folder / "kernels" / "v18") == ["other.code"]
