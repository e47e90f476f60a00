"""The command line: exit status and output, in this process; and the console script once, in another process."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdplugin.cli import main as cli
from cdplugin.compiler import Compiler
from cdplugin.kernels.jit.machine_code import host_targets
from cdplugin.limits import Limits

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "y"]}}, "required": ["a"]}
TEKKEN = "mistral_common/data/tekken_240911.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "named.json").write_text(json.dumps({"required": ["expected a"], "maxProperties": 1, "type": "object"}))
    (tmp_path / "hex.regex").write_text("[0-9a-f]{2,4}\n")
    (tmp_path / "colours.choice").write_text("red\ngreen\nbläulich\n")
    (tmp_path / "good.json").write_text('{"a": 1, "b": "x"}\n')
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = cli.main([str(a) for a in arguments])
    out = capsys.readouterr()
    return status, out.out, out.err


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "text"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_check_accepts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "check", folder / "s.json", folder / "good.json")
    assert (status, out) == (0, f"{folder / 'good.json'}: accepted (18 bytes)\n")
    for spec, text in (("hex.regex", "c0de"), ("hex.regex", "ab\r\n"), ("colours.choice", "bläulich")):
        assert run(capsys, "check", folder / spec, write(folder, text))[0] == 0
    (folder / "hex.regex").write_bytes(b"\xef\xbb\xbf[0-9a-f]{2,4}\n")  # so some editors begin a file
    assert run(capsys, "check", folder / "hex.regex", write(folder, "c0de"))[0] == 0


@pytest.mark.parametrize(
    ("spec", "text", "place", "caret"),
    [
        ("s.json", '{"a": 1,\n "b": "q"}', "refused at byte 16, line 2, column 8: expected one of 'x', 'y'", 11),
        ("s.json", '{"a": 1', "ends too early, after byte 7, line 1, column 8: expected", 11),
        ("hex.regex", "0g", "refused at byte 1, line 1, column 2: expected one of '0'-'9', 'a'-'f'", 5),
        ("colours.choice", "bläu!", "refused at byte 5, line 1, column 5: expected one of 'l'", 8),
        ("hex.regex", b"0\xff", "refused at byte 1, line 1, column 2: expected", 5),
        ("named.json", '{"x', "refused at byte 2, line 1, column 3: expected one of 'e' (in expected a", 6),
        ("named.json", '{"', "ends too early, after byte 2, line 1, column 3: expected one of 'e' (in expected a", 6),
    ],
)
def test_check_refuses(
    folder: Path, capsys: pytest.CaptureFixture[str], spec: str, text: str | bytes, place: str, caret: int
) -> None:
    status, out, _ = run(capsys, "check", folder / spec, folder / "good.json", write(folder, text))
    assert status == 1
    assert place in out
    assert out.rstrip("\n").splitlines()[-1] == " " * caret + "^"


def test_check_exact_keeps_the_line_break(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder, "ab\n")
    assert run(capsys, "check", folder / "hex.regex", path)[0] == 0
    assert run(capsys, "check", "--exact", folder / "hex.regex", path)[0] == 1


def test_check_reads_standard_input(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"beef")))
    assert run(capsys, "check", folder / "hex.regex", "-")[:2] == (0, "-: accepted (4 bytes)\n")


def test_errors_are_status_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = folder / "good.json"
    (folder / "bad.regex").write_text("a(b")
    (folder / "bad.json").write_text('{"type": "strin"}')
    (folder / "half.json").write_text('{"type": ')
    (folder / "latin1.json").write_bytes(b'"\xe4"')
    cases = [
        (("check", folder / "s.yaml", good), "--kind"),
        (("check", folder / "absent.json", good), "No such file"),
        (
            ("check", folder / "s.json", folder / "absent"),
            "No such file or directory; expected a file, or - for the standard input",
        ),
        (("check", folder / "bad.regex", good), "position"),
        (("check", folder / "bad.json", good), "strin"),
        (("check", folder / "half.json", good), "error"),
        (("check", folder / "latin1.json", good), "expected UTF-8, found byte 0xe4 at 1"),
        (("check", "--kind", "regex", "/dev/zero", good), "/dev/zero: expected at most 67108864 bytes, found more"),
        (("mask", folder / "s.json", "", "--tokenizer", "/no/such/folder"), "no such file or folder"),
        (("mask", folder / "s.json", "", "--tokenizer", folder / "s.json"), "a model folder"),
    ]
    for arguments, message in cases:
        status, out, err = run(capsys, *arguments)
        assert (status, out) == (2, ""), arguments
        assert message in err, (arguments, err)
        assert "Traceback" not in err
    assert run(capsys)[0] == 2
    with pytest.raises(SystemExit) as usage:
        cli.main(["check"])
    assert usage.value.code == 2


def test_files_that_are_no_tokenizers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The finding: tracebacks of the libraries that read them; five calls over the network for a file that is not there."""
    contents = {
        "a.json": '{"model": 5}',
        "b.json": '{"vocab": 5, "config": 3}',
        "c.json": b"\xff",
        "d.model": b"\xff\x00",
        "e.json": "[]",
    }
    for name, content in contents.items():
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        status, out, err = run(capsys, "mask", folder / "hex.regex", "", "--tokenizer", path)
        assert (status, out) == (2, "") and f"tokenizer {path}: " in err and "Traceback" not in err, name
    for name in ("absent.json", "absent.model", "./absent"):
        status, _, err = run(capsys, "mask", folder / "hex.regex", "", "--tokenizer", name)
        assert status == 2 and f"found no such file or folder: {name}" in err


def test_numbers_and_folders_that_cannot_be(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The findings: ``--out`` was a traceback after all the work; ids and widths were dropped without a word."""
    for option in (("--vocab-size", 300), ("--end", 5)):
        status, out, err = run(capsys, "mask", folder / "hex.regex", "", *option)
        assert (status, out) == (2, "") and "expected neither --vocab-size nor --end" in err
    for command in (("learn", folder / "s.json"), ("warmup", "--target", (host_targets() or ["x86-64-v3"])[0])):
        status, _, err = run(capsys, *command, "--out", folder / "s.json")
        assert status == 2 and ("expected a folder to write to: File exists" in err or "this machine runs" in err)
    for wrong in (
        ("mask", folder / "hex.regex", "", "--samples", -1),
        ("learn", folder / "s.json", "--out", tmp_path / "l", "--texts", 0),
        ("mask", folder / "hex.regex", "", "--vocab-size", -5),
        ("mask", folder / "hex.regex", "", "--end", -5),
    ):
        with pytest.raises(SystemExit) as usage:
            run(capsys, *wrong)
        assert usage.value.code == 2 and "expected at least" in capsys.readouterr().err


def test_mask_groups_tokens(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "mask", folder / "s.json", '{"a": 1, "b": "')
    assert status == 0
    assert out.splitlines()[0] == "2 of 257 tokens are allowed; the text may end here: no"
    assert out.splitlines()[1].split() == ["words", "2", "'x'", "'y'"]
    assert "expected: one of 'x', 'y'" in out
    status, out, _ = run(capsys, "mask", "--samples", 3, folder / "hex.regex", "abc")
    assert out.splitlines()[0] == "17 of 257 tokens are allowed; the text may end here: yes"
    assert "'0' '1' '2' …" in out and "the end of the text" in out
    status, out, _ = run(capsys, "mask", folder / "hex.regex", "xyz")
    assert status == 1 and "refused at byte 0" in out


def test_mask_with_every_token_allowed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "all.regex").write_text("(?s).*")
    status, out, _ = run(capsys, "mask", folder / "all.regex", "")
    assert status == 0 and "the text may end here: yes" in out and "other scripts" not in out and "parts of characters" in out


def test_real_tokenizer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mistral_common")
    import mistral_common

    tekken = Path(mistral_common.__file__).parent.parent / TEKKEN
    status, out, _ = run(capsys, "mask", folder / "colours.choice", "gr", "--tokenizer", tekken)
    assert status == 0 and "'e' 'ee' 'een'" in out
    text = write(folder, '{"a": 17, "b": "yes"}')
    status, out, _ = run(capsys, "check", folder / "s.json", text, "--tokenizer", tekken)
    assert status == 1 and "refused at byte 17, line 1, column 18: expected one of '\"'" in out


def test_warmup_and_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "warmup")
    assert status == 0 and "cache folder: " in out
    status, out, _ = run(capsys, "doctor")
    assert status == 0 and "kernels: work" in out and "numba" in out and "self-check passed" in out
    status, out, _ = run(capsys, "doctor", "--tokenizer", "/no/such/folder")
    assert status == 1 and "tokenizer: FAILED" in out


def test_learn(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mistral_common")
    import mistral_common

    tekken = Path(mistral_common.__file__).parent.parent / TEKKEN
    status, out, _ = run(
        capsys, "learn", folder / "s.json", folder / "hex.regex", "--tokenizer", tekken, "--out", tmp_path / "l"
    )
    assert status == 0 and f"CDPLUGIN_LEARNED={tmp_path / 'l'}" in out
    assert len([*(tmp_path / "l").glob("learned-*.npz")]) == 1
    bad = tmp_path / "bad.regex"
    bad.write_text("(")
    status, out, _ = run(capsys, "learn", bad, "--out", tmp_path / "l")
    assert status == 1 and "bad.regex: left out: " in out


def test_learn_on_a_full_disk(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: the standard output was said to be full."""

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Compiler, "save_learned", full)
    status, _, error = run(capsys, "learn", folder / "hex.regex", "--texts", "1", "--out", folder / "l")
    assert status == 2 and error == f"cdplugin: error: {folder / 'l'}: No space left on device\n"


def test_as_a_program(folder: Path) -> None:
    command = [sys.executable, "-m", "cdplugin", "check", str(folder / "hex.regex"), "-"]
    done = subprocess.run(command, cwd=ROOT, input=b"c0ffee", capture_output=True, timeout=300)
    assert done.returncode == 1
    assert b"refused at byte 4, line 1, column 5: expected the end of the text" in done.stdout
    version = subprocess.run([sys.executable, "-m", "cdplugin", "--version"], cwd=ROOT, capture_output=True, timeout=60)
    assert version.stdout.decode().strip().count(".") == 2
    command = [sys.executable, "-m", "cdplugin.cli.main", "trace", str(folder / "hex.regex"), "c", "--html", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300)
    assert done.returncode == 2 and done.stderr.startswith(b"cdplugin: error: "), "once a traceback"


@pytest.mark.parametrize(
    ("suffix", "grammar"),
    [(".lark", 'start: "a" /[0-9]+/'), (".gbnf", 'root ::= "a" [0-9]+'), (".ebnf", 'root ::= "a" [0-9]+')],
)
def test_grammars_by_suffix(suffix: str, grammar: str, tmp_path: Path) -> None:
    path = tmp_path / f"grammar{suffix}"
    path.write_text(grammar)
    spec = cli.load_spec(str(path), None)
    assert type(spec).__name__.lower() == suffix[1:] and spec.to_ir(Limits()).rules


@pytest.mark.parametrize("command", ["check", "mask", "trace", "learn"])
def test_help_names_each_suffix(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    assert {suffix for suffix in cli._BY_SUFFIX if suffix != ".re"} <= set(words)


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """``python -m cdplugin`` with buffered output, as from a shell."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment |= options.pop("environment", {})
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 300, **options}
    command = [sys.executable, "-m", "cdplugin", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, **options)


@pytest.mark.parametrize("arguments", [("--version",), ("keywords",)])
def test_a_reader_that_is_gone(arguments: tuple[str, ...]) -> None:
    """The findings: a traceback, and status 0, which means accepted."""
    read, write_end = os.pipe()
    os.close(read)
    done = program(*arguments, stdout=write_end)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("arguments", [("--version",), ("keywords",)])
def test_an_output_that_cannot_be_written(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = program(*arguments, stdout=full)
    assert (done.returncode, done.stderr) == (2, b"cdplugin: error: standard output: No space left on device\n")


def test_a_standard_input_that_is_closed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    status, _, err = run(capsys, "check", folder / "hex.regex", "-")
    assert (status, err) == (2, "cdplugin: error: -: expected a standard input, found it closed\n")


@pytest.mark.parametrize("names", [("-", "-", "--kind", "regex"), ("hex.regex", "-", "-")])
def test_the_standard_input_is_read_once(
    names: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding: the second reader got nothing, and its text was called too short."""
    monkeypatch.chdir(folder)
    status, _, err = run(capsys, "check", *names)
    assert status == 2 and "expected the standard input once" in err


def test_what_the_output_cannot_encode(folder: Path) -> None:
    """The finding: UnicodeEncodeError, for a name of a file or a schema."""
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = program("check", folder / "colours.choice", write(folder, "blä"), environment=ascii_only, encoding="ascii")
    assert done.returncode == 1 and "bl\\xe4\n" in done.stdout, done.stderr
    name = folder / "a\udcff"
    try:
        name.write_text("red")
    except OSError:
        pytest.skip("a file's name has to be Unicode here")
    done = program("check", folder / "colours.choice", name, environment={"PYTHONIOENCODING": "utf-8:strict"}, encoding="utf-8")
    assert done.returncode == 0 and "a\\udcff: accepted" in done.stdout, done.stderr


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_spec", interrupted)
    assert run(capsys, "mask", "a.lark", "") == (130, "", "")


@pytest.mark.parametrize("broken", [{}, {"tokenizer_config.json": "[]"}, {"tokenizer.json": '{"model":{"type":"BPE"}}'}])
def test_folders_that_are_no_models(broken: dict[str, str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The findings: a message that ended before its reasons, and tracebacks of transformers."""
    pytest.importorskip("transformers")
    model = folder / "model"
    model.mkdir()
    for name, text in broken.items():
        (model / name).write_text(text)
    for arguments in (("mask", folder / "hex.regex", "", "--tokenizer"), ("playground", "--model")):
        status, _, err = run(capsys, *arguments, model)
        assert status == 2 and len(err.partition(f"{model}: ")[2]) > 20 and not err.endswith(": \n"), err


@pytest.mark.parametrize(
    ("name", "library"), [("tokenizer.json", "tokenizers"), ("tekken.json", "mistral_common"), ("t.model", "mistral_common")]
)
def test_tokenizer_files_whose_library_is_not_installed(
    name: str, library: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding: tracebacks."""
    for loaded in [library, *(module for module in sys.modules if module.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, loaded, None)
    (folder / name).write_text('{"model": {}, "vocab": {}}' if library == "tokenizers" else '{"vocab": [], "config": {}}')
    status, _, err = run(capsys, "mask", folder / "hex.regex", "", "--tokenizer", folder / name)
    assert status == 2 and f"{name}: {library} is not installed" in err and "pip install" in err


def test_a_tokenizer_file_that_is_nested_too_deeply(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "t.json"
    path.write_text("[" * 200_000)
    status, _, err = run(capsys, "mask", folder / "hex.regex", "", "--tokenizer", path)
    assert status == 2 and "not JSON: maximum recursion depth" in err


@pytest.mark.filterwarnings("ignore::cdplugin.vocab.vocabulary.VocabularyWarning")
def test_a_tokenizer_without_an_end_token(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The findings: tracebacks for a text that ends too early, and for one that `learn` could not end."""
    tokenizers = pytest.importorskip("tokenizers")
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    made.pre_tokenizer, made.decoder = tokenizers.pre_tokenizers.ByteLevel(False), tokenizers.decoders.ByteLevel()
    made.save(str(folder / "tokenizer.json"))
    named = ("--tokenizer", folder / "tokenizer.json")
    status, out, _ = run(capsys, "check", folder / "hex.regex", write(folder, "a"), *named)
    assert status == 1 and "ends too early, after byte 1, line 1, column 2: expected one of '0'-'9', 'a'-'f'" in out
    assert run(capsys, "learn", folder / "hex.regex", *named, "--out", folder / "learned")[0] == 0
