"""The public names: docs/api.md agrees with the package, its version and the classes of its errors."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import cdplugin as cd

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "api.md").read_text()
INTERNAL = {
    "after_fork",
    "compile_ir",
    "compile_or_find",
    "cached_bytes",
    "key",
    "rules",
    "to_ir",
    "characters",
    "supports_continuous_batching",
    "dialect",
}
INTERNAL |= {"names", "token_of", "is_inner_prefix"}  # of Vocabulary
PLAIN = {"Limits", "ToolFormat", "Slots"}  # dataclasses: their fields are their arguments


def rows() -> dict[str, tuple[str, set[str]]]:
    """Name → its level and members, from the table of names."""
    out = {}
    for name, level, members in re.findall(r"^\| `(\w+)` \| (\w+) \| .* \| ?(.*?) ?\|$", PAGE, re.MULTILINE):
        assert name not in out, f"{name} stands twice"
        out[name] = (level, set(re.findall(r"`(\w+)`", members)))
    return out


def test_the_table_has_the_public_names() -> None:
    assert set(rows()) == set(cd.__all__)
    assert {name for name in dir(cd) if not name.startswith("_")} == set(cd.__all__)
    assert {level for level, _ in rows().values()} == {"stable", "provisional"}


@pytest.mark.parametrize("name", cd.__all__)
def test_members(name: str) -> None:
    value, listed = getattr(cd, name), rows()[name][1]
    if name == "grammars":
        assert listed == set(value.__all__)
    elif not inspect.isclass(value) or name in PLAIN:
        assert not listed
    else:
        found = {n for n in vars(value) if not n.startswith("_")} - INTERNAL
        assert listed - {"relaxed"} == found  # `relaxed`: set on each grammar


def test_dir_does_not_depend_on_what_was_imported() -> None:
    later = "cdplugin.Regex, cdplugin.grammars; import cdplugin.cli.main"
    code = f"import cdplugin; a = dir(cdplugin); {later}; print(a == dir(cdplugin))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "True", done.stderr


def test_version_is_that_of_the_distribution() -> None:
    assert cd.__version__ == metadata.version("cdplugin")
    declared = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared is not None and re.fullmatch(r"\d+\.\d+\.\d+", declared.group(1))
    assert f"## [{declared.group(1)}]" in (ROOT / "CHANGELOG.md").read_text()


def test_changelog_is_in_the_format_that_it_names() -> None:
    headings = re.findall(r"^(#+) (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == [("#", "Changelog"), ("##", "[Unreleased]")]
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert all(text in kinds if marks == "###" else re.match(r"\[", text) for marks, text in headings[1:])


def test_a_failure_at_run_time_is_no_grammar_error() -> None:
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    matcher = cd.Compiler(vocab).compile(cd.Lark('start: A "b"\nA: /p|qb*/')).matcher()
    assert matcher.accept_tokens(b"q") == 1
    with pytest.raises(cd.EngineError, match="longest match leads to a dead end") as caught:
        matcher.shortest_completion()
    assert isinstance(caught.value, RuntimeError) and not isinstance(caught.value, cd.GrammarError)
    assert matcher.tokens == (ord("q"),)
    assert issubclass(cd.LimitExceeded, cd.GrammarError), "callers that catch GrammarError catch budgets"
