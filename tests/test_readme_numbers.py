"""README's table beside the file of results that it shows; its pictures beside what their script makes."""

from __future__ import annotations

import importlib.util
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
NEWEST = sorted((ROOT / "perf" / "results").glob("20??-??-??-maskbench.json"))[-1]
RECORD: dict[str, Any] = json.loads(NEWEST.read_text())
ENGINES = ("cdplugin", "llguidance", "xgrammar")


def cells(label: str) -> list[str]:
    """The cells of a row of the table, one per engine."""
    (row,) = re.findall(rf"^\| \**{re.escape(label)}\** \| (.*) \|$", README, re.MULTILINE)
    return [cell.strip().replace("*", "") for cell in row.split(" | ")]


def microseconds(cell: str) -> tuple[float, float]:
    """A time in microseconds, and half a unit of its last digit."""
    number, unit = re.match(r"([\d.,]+) (µs|ms|s)\b", cell).groups()  # type: ignore[union-attr]
    scale = {"µs": 1, "ms": 1_000, "s": 1_000_000}[unit]
    digits = len(number.partition(".")[2])
    return float(number.replace(",", "")) * scale, 0.51 * scale / 10**digits


@pytest.mark.parametrize("what", ["mask + accept", "time to first mask"])
@pytest.mark.parametrize("quantile", ["mean", "p50", "p99"])
def test_times_and_ratios(what: str, quantile: str) -> None:
    if (what, quantile) == ("time to first mask", "mean"):
        assert "time to first mask, mean" not in README
        return
    kind = "mask" if what == "mask + accept" else "first_mask"
    for name, cell in zip(ENGINES, cells(f"{what}, {quantile}"), strict=True):
        engine = RECORD["engines"][name]
        value, slack = microseconds(cell)
        assert value == pytest.approx(engine[f"{kind}_us"][quantile], abs=slack), (name, cell)
        ratio = re.search(r"\(([\d.]+)×\)", cell)
        assert (ratio is None) == (name == "llguidance")
        if ratio is not None:
            digits = len(ratio.group(1).partition(".")[2])
            assert float(ratio.group(1)) == pytest.approx(engine[f"{kind}_ratio"][quantile], abs=0.51 / 10**digits), (
                name,
                cell,
            )


def test_counts() -> None:
    for label, key in (("schemas passing", "passing"), ("passing, property order aside", "passing_but_for_order")):
        for name, cell in zip(ENGINES, cells(label), strict=True):
            engine = RECORD["engines"][name]
            assert cell == f"{engine[key]} ({100 * engine[key] / engine['schemas']:.1f}%)"
    for name, cell in zip(ENGINES, cells("refused"), strict=True):
        engine = RECORD["engines"][name]
        assert cell == str(engine["refused"]) + "".join(f", and {n} {kind}" for kind, n in engine["failed"].items())
    for name, cell in zip(ENGINES, cells("invalid instances accepted"), strict=True):
        assert int(cell.split()[0]) == RECORD["engines"][name]["invalid_accepted_instances"]
    assert f"{RECORD['engines']['cdplugin']['schemas']} schemas" in README and f"revision {RECORD['revision']}" in README
    for name in ("llguidance", "xgrammar"):
        assert f"{name} {RECORD['versions'][name]}" in README


def test_the_playground_s_numbers() -> None:
    page = (ROOT / "docs" / "playground.md").read_text()
    (name,) = re.findall(r"`(perf/results/[\w-]+-playground\.json)`", page)
    record = json.loads((ROOT / name).read_text())
    typed, edited, hostile = record["typed"], record["edited"], record["hostile"]

    def whole(number: float) -> int:
        return int(number + 0.5)

    for text in (
        f"{whole(typed['p95'])} ms at p95 ({whole(typed['p50'])} ms at p50)",
        f"{edited['keystrokes']} random edits of text and schema in {whole(edited['p95'])} ms at p95",
        f"The {hostile['keystrokes']} specs of the hostile corpus",
        f"after {whole(hostile['p95'])} ms at p95 and {hostile['max'] / 1000:.1f} s at most",
    ):
        assert text in page, text
    assert max(typed["p95"], edited["p95"]) <= 100
    assert hostile["silent"] == hostile["errors of the page"] == []


def test_pictures_are_those_that_the_script_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    spec = importlib.util.spec_from_file_location("plots", ROOT / "perf" / "plots.py")
    assert spec is not None and spec.loader is not None
    plots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plots)
    monkeypatch.setattr(sys, "argv", ["plots.py", "--out", str(tmp_path)])
    plots.main()
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {f"{name}-{theme}.svg" for name in plots.PLOTS for theme in plots.THEMES} | {
        f"badge-{name}.svg" for name in plots.badges()
    }
    for name in made:
        text = (tmp_path / name).read_text()
        assert "<script" not in text and not re.search(r'(?:href|src)="(?!#)', text)
        assert (ROOT / "docs" / "img" / name).is_file(), f"make plots: {name} is missing"
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None and version.group(1) in (ROOT / "docs" / "img" / "badge-version.svg").read_text()


def test_the_kernel_on_a_card() -> None:
    """What is shipped, beside xgrammar's kernel."""
    source = (ROOT / "cdplugin" / "kernels" / "masks" / "bitmask_triton.py").read_text()
    assert "\nCHUNK_BYTES = 16\nCHUNKS = 512\nLANES = 256\n" in source
    rows = json.loads((ROOT / "perf" / "results" / "2026-11-27-gpu-chunks.json").read_text())["apply"]
    for dtype in ("bfloat16", "float32"):
        ratios = [row["kernel us"] / row["xgrammar kernel us"] for row in rows if row["dtype"] == dtype]
        assert len(ratios) == 36 and re.search(rf"{statistics.geometric_mean(ratios):.2f}× [^.]*in {dtype}", README)
