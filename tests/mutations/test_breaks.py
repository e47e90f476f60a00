"""Each line that ``make mutations`` breaks stands at one place of its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BREAKS = [json.loads(line) for line in (Path(__file__).parent / "breaks.jsonl").read_text().split("\n") if line]


@pytest.mark.parametrize("change", BREAKS, ids=[f"{number}-{change['file']}" for number, change in enumerate(BREAKS)])
def test_the_line_is_there_once(change: dict[str, str]) -> None:
    assert (ROOT / "cdplugin" / "kernels" / change["file"]).read_text().count(change["was"]) == 1
    assert change["was"] != change["now"]
    assert (ROOT / change["tests"].split(" ")[0].split("::")[0]).exists()
