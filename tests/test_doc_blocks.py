"""Every Python block of README and docs runs: those of a page one after the other, with the same names.

A comment on the line before a block says what it needs, or why it is not run:

    <!-- needs: torch transformers model -->      modules, and `model`: a small random model in the folder `name`
    <!-- not run: starts a server -->

docs/grammars.md has examples that stand for themselves (tests/test_grammar_docs.py).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import Block, blocks

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / "docs" / "grammars.md"})
"""All but one, whose examples run in ``tests/test_grammar_docs.py``."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run(page: Path, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    missing = ""
    for block in blocks(page):
        absent = [need for need in block.needs if need != "model" and importlib.util.find_spec(need) is None]
        missing = missing or ", ".join(absent)
        if block.not_run or missing:
            continue
        if "model" in block.needs:
            names["name"] = request.getfixturevalue("model_folder")
        source = "\n" * block.line + block.source  # so that a traceback has the page's lines
        exec(compile(source, str(page), "exec"), names)
    if missing:
        pytest.skip(f"{missing} is not installed: the blocks that need it, and those after them, were not run")


def test_the_collector_sees_what_is_there(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\na = 1\n```\n\n<!-- needs: torch model -->\n```python\nb\n```\n"
        "<!-- not run: a server -->\n```python\nc\n```\n"
        '=== "tab"\n\n    <!-- needs: x -->\n    ```python title="f.py"\n    if a:\n        d\n    ```\n\n```json\n{}\n```\n'
    )
    assert list(blocks(page)) == [
        Block("a = 1\n", 1, (), ""),
        Block("b\n", 6, ("torch", "model"), ""),
        Block("c\n", 10, (), "a server"),
        Block("if a:\n    d\n", 16, ("x",), ""),
    ]


def test_most_blocks_are_run() -> None:
    found = [block for page in PAGES for block in blocks(page)]
    assert sum(1 for block in found if not block.not_run) >= 0.8 * len(found) >= 20
