"""SECURITY.md names every limit with its default, and says how to report."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from cdplugin import Limits

TEXT = (Path(__file__).resolve().parent.parent / "SECURITY.md").read_text()


def test_the_table_of_limits() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", TEXT, re.MULTILINE)
    assert {name: int(number.replace(",", "")) for name, number in rows} == {
        field.name: getattr(Limits(), field.name) for field in fields(Limits)
    }


def test_reports_go_through_the_repository() -> None:
    assert "private vulnerability reporting" in TEXT and "@" not in TEXT
