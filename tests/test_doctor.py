"""``cdplugin doctor`` finds the problems that the test makes, and names a remedy for each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import cdplugin
from cdplugin.cli import doctor as cli_doctor
from cdplugin.cli import main as cli
from cdplugin.kernels.jit import cache_files, machine_code
from cdplugin.kernels.jit.cache_files import Folders


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and kernels that are said to be in it."""
    monkeypatch.setattr(cli_doctor, "is_warm", lambda: True)
    use(monkeypatch, Folders((tmp_path,), tmp_path, ()))
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, folders: Folders) -> None:
    monkeypatch.setattr(cache_files, "cache_folders", lambda: folders)
    monkeypatch.setattr(cli_doctor, "warm_kernels", lambda show: 0.5)
    monkeypatch.setattr(cli_doctor, "_self_check", lambda: None)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[tuple[str, str]], str]:
    """Status, findings with their remedies, and all that was printed."""
    status = cli.main(["doctor", *arguments])
    out = capsys.readouterr().out
    lines = out.splitlines()
    found = []
    for i, line in enumerate(lines):
        if line.startswith(("problem: ", "note: ")):
            assert lines[i + 1].startswith("  remedy: ") and len(lines[i + 1]) > 25, line
            found.append((line, lines[i + 1]))
    assert (status == 1) == any(line.startswith("problem") for line, _ in found)
    return status, found, out


def test_all_is_well(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found, out = run(capsys)
    assert (status, found) == (0, []) and f"cache folder: {cache}" in out and "kernels: work" in out
    assert out.splitlines()[0].endswith(f", {Path(cdplugin.__file__).parent}")


def test_folders(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use(monkeypatch, Folders((cache,), cache, ("/some/folder: it cannot be written",)))
    status, found, _ = run(capsys)
    assert status == 0 and "/some/folder: it cannot be written" in found[0][0] and "CDPLUGIN_CACHE_DIR" in found[0][1]
    use(monkeypatch, Folders((), None, ()))
    status, found, _ = run(capsys)
    assert status == 1 and "no cache folder can be written" in found[0][0] and "CDPLUGIN_CACHE_DIR" in found[0][1]


def test_a_folder_that_is_removed_at_exit(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache_files, "_own_folders", [cache])
    status, found, _ = run(capsys)
    assert status == 1 and "is removed at exit" in found[0][0] and "CDPLUGIN_CACHE_DIR" in found[0][1]


def test_a_full_disk(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Usage:
        free = 5_000_000

    monkeypatch.setattr(cli_doctor.shutil, "disk_usage", lambda _: Usage)
    status, found, _ = run(capsys)
    assert status == 1 and "only 5.0 MB are free" in found[0][0] and "free at least 32 MB" in found[0][1]


def test_files(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"kernels/{machine_code.source_key()}/a.code", "vocab/b.bin", "vocab/whole.bin"]
    for name in names:
        cache_files.write(name, [b"content"])
    (cache / names[0]).write_bytes(b"cut short")
    os.chmod(cache / names[1], 0o666)
    status, found, _ = run(capsys)
    assert status == 0 and [line.split()[1] for line, _ in found] == names[:2]
    assert not (cache / names[0]).exists() and (cache / names[1]).exists()


def test_kernels(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli_doctor, "is_warm", lambda: False)
    status, found, _ = run(capsys)
    assert status == 1 and "could not be kept" in found[0][0]

    def fail(_: Any) -> float:
        raise RuntimeError("no such intrinsic")

    monkeypatch.setattr(cli_doctor, "warm_kernels", fail)
    status, found, _ = run(capsys)
    assert status == 1 and "kernels: FAILED: RuntimeError: no such intrinsic" in found[0][0]
    assert f"remove {cache}" in found[0][1] and "reinstall" in found[0][1]


def test_tokenizers(cache: Path, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder) -> None:
    status, found, _ = run(capsys, "--tokenizer", "/no/such/folder")
    assert status == 1 and "tokenizer: FAILED" in found[0][0] and "model folder" in found[0][1]
    tokenizers = pytest.importorskip("tokenizers")
    path = cache / "tokenizer.json"
    words = tokenizers.models.WordLevel({"ab": 0, "c": 1}, unk_token="c")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.decoder = tokenizers.decoders.Fuse()
    tokenizer.save(str(path))
    status, found, out = run(capsys, "--tokenizer", str(path))
    if "FAILED" in out:
        pytest.fail(out)
    assert status == 0 and "no end token" in found[0][0] and "eos_token_ids" in found[0][1]
    assert "occur only inside longer tokens ('a', 'b')" in found[1][0] and "a token for each byte" in found[1][1]
    assert not recwarn.list  # told once


def test_the_self_check_is_the_real_one() -> None:
    cli_doctor._self_check()
