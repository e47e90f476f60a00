"""The documentation site: the reference has every public name, the navigation every page; it builds without warnings."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import cdplugin as cd

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    out = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(out)
    return out


def test_the_reference_has_every_public_name() -> None:
    listed = re.findall(
        r"^::: ([\w.]+)$", "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md")), re.MULTILINE
    )
    names = [name.rpartition(".")[2] for name in listed]
    assert set(cd.__all__) <= set(names) and len(set(listed)) == len(listed)
    for name in listed:
        home, _, last = name.rpartition(".")
        found = getattr(importlib.import_module(home), last)
        assert found is not None
        if last in cd.__all__:
            assert found is getattr(cd, last) or last in ("GAP", "TOOL_FORMATS")


def test_every_page_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text()
    listed = set(re.findall(r"[\w/.-]+\.md", config))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    made = {"benchmarks.md", "logbook.md", "changelog.md", "security.md", "contributing.md"}
    assert {page for page in pages if not page.startswith("hosts/")} == listed - made


def test_pictures_are_there() -> None:
    for page in [ROOT / "README.md", *DOCS.rglob("*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r'(?:!\[[^\]]*\]\(|src="|srcset=")([^)"\s]+)', text):
            assert "://" not in target or page.name == "README.md", f"{page}: loads {target}"
            assert "://" in target or (page.parent / target).is_file(), f"{page}: no picture {target}"


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub links to them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", found) for found in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", found.strip().lower())) for found in headings}


def test_links_between_documents_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "perf").glob("*.md")]
    count = 0
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in target or target.startswith("mailto:"):
                continue
            path, _, heading = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            assert there.exists(), f"{page}: no file {target}"
            if heading and there.suffix == ".md":
                assert heading in anchors(there), f"{page}: no heading {target}"
                count += 1
    assert count > 20


OTHERS = {"tensorrt_llm/sampling_params.py", "json_schema_to_grammar.py"}
"""Files of other projects that documents name."""


def test_files_that_documents_name_are_there() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    files = [f"/{file}" for file in listed.stdout.split()]
    count = 0
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "perf").glob("*.md")]:
        for name in set(re.findall(r"`([\w./-]+\.(?:py|lark|sh))`", page.read_text())) - OTHERS:
            assert any(file.endswith(f"/{name}") for file in files), f"{page}: no file {name}"
            count += 1
    assert count > 100


def test_the_checker_sees_what_is_wrong(tmp_path: Path) -> None:
    check = module(DOCS / "_site" / "check.py")
    (tmp_path / "a.html").write_text(
        '<h1 id="top">x</h1><a href="b.html#here">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><img src="p.png">'
        '<script src="https://cdn.example/x.js"></script><a href="https://example.org/">fine</a><a href="#top">fine</a>'
        '<a href="../beside.html">4</a>'
    )
    (tmp_path.parent / "beside.html").write_text("not published")
    (tmp_path / "b.html").write_text('<p id="here">')
    assert check.problems(tmp_path) == [
        "a.html: no such place: b.html#gone",
        "a.html: no such file: c.html",
        "a.html: no such file: p.png",
        "a.html: loads https://cdn.example/x.js",
        "a.html: no such file: ../beside.html",
    ]
    assert check.problems(tmp_path / "none") == [f"{tmp_path / 'none'}: expected pages, found none"]


def test_docstrings_become_markdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object, Object=object))  # only its base class is used
    as_markdown = module(DOCS / "_site" / "docstrings.py").as_markdown
    text = "What :class:`cdplugin.Matcher` does with ``x``.\n\nParameters\n----------\na, b : what they are\n    and more.\n"
    text += "\n>>> 1\n1\n\nEnd."
    out = as_markdown(text)
    assert "`Matcher`" in out and "`x`" in out and "**Parameters**" in out and "- `a`, `b`: what they are" in out
    assert "```pycon\n>>> 1\n1\n```" in out


@pytest.mark.slow
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    mkdocs = shutil.which("mkdocs", path=f"{Path(sys.executable).parent}:{ROOT / '.venv-docs' / 'bin'}:{os.environ['PATH']}")
    if mkdocs is None:
        pytest.skip("mkdocs is not installed: make docs makes an environment for it")
    site = tmp_path / "site"
    command = [mkdocs, "build", "--strict", "--site-dir", str(site), "--config-file", str(ROOT / "mkdocs.yml")]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not module(DOCS / "_site" / "check.py").problems(site)
