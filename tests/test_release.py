"""The release's own checks notice what is wrong, and the files that describe the project agree."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check", ROOT / "release" / "check.py")
    assert spec is not None and spec.loader is not None
    out = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(out)
    return out


def test_version_changelog_and_citation_agree(check: ModuleType) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", check.version())


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("pyproject.toml", r'^version = ".*"$', 'version = "1.2"', "expected version = "),
        ("CHANGELOG.md", r"^## \[\d.*$", "## [9.9.9]", "expected a section"),
        ("CITATION.cff", r"^version: .*$", "version: 9.9.9", "CITATION.cff: expected version"),
    ],
)
def test_a_version_that_does_not_agree(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, says: str
) -> None:
    for one in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff"):
        text = (ROOT / one).read_text()
        changed = re.sub(old, new, text, flags=re.MULTILINE) if one == name else text
        assert (changed != text) == (one == name)
        (tmp_path / one).write_text(changed)
    monkeypatch.setattr(check, "ROOT", tmp_path)
    with pytest.raises(check.ReleaseError, match=re.escape(says)):
        check.version()


def files(folder: Path, names: set[str]) -> tuple[Path, Path]:
    wheel, sdist = folder / "w.whl", folder / "s.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/naive.py", "docs/index.md", "mkdocs.yml"):
            archive.add(ROOT / name, f"cdplugin-0/{name}")
    return wheel, sdist


def test_content(check: ModuleType, tmp_path: Path) -> None:
    whole = check.WANTED | {str(path.relative_to(ROOT)) for path in (ROOT / "cdplugin").rglob("*.py")}
    check.look_into(*files(tmp_path, whole))
    with pytest.raises(check.ReleaseError, match="playground.js"):
        check.look_into(*files(tmp_path, whole - {"cdplugin/playground/static/playground.js"}))
    with pytest.raises(check.ReleaseError, match="expected cdplugin/matcher/matcher.py"):
        check.look_into(*files(tmp_path, whole - {"cdplugin/matcher/matcher.py"}))
    with pytest.raises(check.ReleaseError, match="found tests/naive.py"):
        check.look_into(*files(tmp_path, whole | {"tests/naive.py"}))


def test_a_command_that_fails_is_told(check: ModuleType) -> None:
    with pytest.raises(check.ReleaseError, match=r"status 3\nwhat was wrong"):
        check.run("bash", "-c", "echo what was wrong; exit 3")


def test_workflows_name_the_supported_versions() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    tried = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", text).group(1))  # type: ignore[union-attr]
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert tried == named == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    targets = set(re.findall(r"make ([a-z ]+?)(?: EXTRAS|$| #)", text, re.MULTILINE))
    known = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert targets and {name for one in targets for name in one.split()} <= known


FORMS = {
    "vendor.github-workflows": [".github/workflows/ci.yml", ".github/workflows/release.yml"],
    "vendor.github-issue-forms": [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/unsupported.yml"],
    "vendor.github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "vendor.citation-file-format": ["CITATION.cff"],
}


def against(schema: str, files: list[Path]) -> subprocess.CompletedProcess[str]:
    """The schema store's schema, which comes with the package: nothing is fetched."""
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, "--default-filetype", "yaml"]
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, timeout=120)


def test_every_workflow_and_template_is_checked() -> None:
    there = {str(path.relative_to(ROOT)) for path in (ROOT / ".github").rglob("*.yml")}
    assert {name for names in FORMS.values() for name in names} - {"CITATION.cff"} == there


@pytest.mark.parametrize("schema", FORMS)
def test_workflows_templates_and_citation_are_valid(schema: str) -> None:
    done = against(schema, [ROOT / name for name in FORMS[schema]])
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_wrong_workflow_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "ci.yml"
    broken.write_text((ROOT / ".github/workflows/ci.yml").read_text().replace("runs-on", "runs_on", 1))
    done = against("vendor.github-workflows", [broken])
    assert done.returncode == 1 and "runs" in done.stdout + done.stderr
