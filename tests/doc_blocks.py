"""The Python blocks of a Markdown page, and what the comment before each says it needs (tests/test_doc_blocks.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Block(NamedTuple):
    """A Python block: its source, its line on the page, what it needs, why it is not run."""

    source: str
    line: int
    needs: tuple[str, ...]
    not_run: str


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, those inside lists and tabs included."""
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(
        r"^(?:[ ]*<!-- (needs|not run): (.*?) -->\n)?([ ]*)```(?:python|py)\b[^\n]*\n(.*?)^\3```", text, re.M | re.S
    ):
        kind, what, indent, source = found.groups()
        lines = [line.removeprefix(indent) for line in source.splitlines()]
        line = text.count("\n", 0, found.start(4))
        needs = tuple(what.split()) if kind == "needs" else ()
        yield Block("\n".join(lines) + "\n", line, needs, what if kind == "not run" else "")
