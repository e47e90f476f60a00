"""perf/README.md beside the files of results: its commands exist, its headline numbers are theirs, and it names every file."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "perf" / "results"
TEXT = (ROOT / "perf" / "README.md").read_text()
LOGBOOK = (ROOT / "perf" / "logbook.md").read_text()


def record(name: str) -> Any:
    """A file of results, which perf/README.md has to link to."""
    assert f"(results/{name}.json)" in TEXT, f"perf/README.md does not link to {name}"
    return json.loads((RESULTS / f"{name}.json").read_text())


def row(label: str, number: int = 0) -> list[str]:
    """The cells of a row of a table, after its label. ``number``: which of several rows with that label."""
    rows = re.findall(rf"^\| {re.escape(label)} \|(.*)\|$", TEXT, re.MULTILINE)
    return [cell.strip() for cell in rows[number].split("|")]


def shows(cell: str, value: float) -> bool:
    """Whether the first number of a cell is a value, rounded to the digits that the cell has."""
    found = re.search(r"\d[\d,]*(?:\.(\d+))?", cell)
    assert found is not None, cell
    digits = len(found.group(1) or "")
    return abs(float(found.group().replace(",", "")) - value) <= 0.501 / 10**digits


def commands() -> list[str]:
    code = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    lines = [line for block in code for line in block.splitlines()] + re.findall(r"`(?:\S*python )[^`]*`", TEXT)
    return [line.strip("`").partition("  #")[0] for line in lines]


def test_commands_exist() -> None:
    """Each script is there and knows each option."""
    count = 0
    for command in commands():
        for script, options in re.findall(r"((?:perf|tests)/[\w/]+\.(?:py|sh))([^&]*)", command):
            path = ROOT / script
            assert path.is_file(), command
            if script.endswith(".sh") or (script.startswith("tests/") and "pytest" in command):
                continue
            for option in re.findall(r"(?<=\s)--[\w-]+", options):
                assert f'"{option}"' in path.read_text(), f"{script} has no {option}"
                count += 1
    assert count > 60


def test_every_file_of_results_is_named() -> None:
    for path in RESULTS.iterdir():
        assert path.name in TEXT + LOGBOOK, f"neither perf/README.md nor perf/logbook.md says what {path.name} is"


def test_anchors_of_the_summary() -> None:
    summary = TEXT.partition("## Summary")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| .*\(#", summary, re.MULTILINE)) > 20
    for line in summary.splitlines()[4:]:
        cells = line.strip("| ").split(" | ")
        assert not line.startswith("|") or len(cells) >= 4, line


def test_what_is_said_in_short_stands_in_the_summary() -> None:
    short, _, rest = TEXT.partition("## In short")[2].partition("## Summary")
    numbers = re.findall(r"\d[\d.,]*\d", short)
    assert len(numbers) > 8 and not [number for number in numbers if number not in rest.partition("\n## ")[0]]


def test_maskbench() -> None:
    name = "2026-11-28-maskbench-all"
    assert name == max(path.stem for path in RESULTS.glob("*-maskbench-all*.json") if path.stem[:10] == name[:10])
    assert name[:10] == max(path.stem[:10] for path in RESULTS.glob("*-maskbench-all*.json"))
    run = record(name)
    ours, theirs = run["engines"]["cdplugin"], run["engines"]["llguidance"]
    assert f"revision {run['revision']}" in TEXT
    first = TEXT.index("**All 5,555 schemas**")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in TEXT[first:].splitlines() if line.startswith("| ")
    ]
    labels = [cells[0] for cells in rows]
    for what, kind, scale, quantiles in (
        ("mask + accept, mean, µs", "mask", 1, ("mean", "p50", "p99", "p99.9", "max")),
        ("time to first mask, mean, ms", "first_mask", 1000, ("mean", "p50", "p90", "p99", "max")),
    ):
        at = labels.index(what)
        for quantile, cells in zip(quantiles, rows[at:], strict=False):
            assert shows(cells[1], ours[f"{kind}_us"][quantile] / scale), cells
            assert shows(cells[2], theirs[f"{kind}_us"][quantile] / scale), cells
            assert shows(cells[3], ours[f"{kind}_ratio"][quantile]), cells
    assert row("schemas passing (order aside)")[:2] == [
        f"{engine['passing']:,} ({engine['passing_but_for_order']:,})" for engine in (ours, theirs)
    ]
    assert row("refused")[:2] == [str(ours["refused"]), str(theirs["refused"])]
    assert ours["invalid_accepted_instances"] == ours["valid_rejected_instances"] == 0
    summary = re.findall(r"^\| \[mask \+ accept\].*$|^\| … p99 \|.*same \|$|^\| \[time to first mask\].*$", TEXT, re.MULTILINE)
    for line, (kind, quantile) in zip(
        summary, (("mask", "mean"), ("mask", "p99"), ("first_mask", "p50"), ("first_mask", "p99")), strict=True
    ):
        assert shows(line.split(" | ")[1], ours[f"{kind}_ratio"][quantile]), line
    readme = (ROOT / "README.md").read_text()
    for kind, quantile in (("mask", "mean"), ("mask", "p50"), ("mask", "p99"), ("first_mask", "p50"), ("first_mask", "p99")):
        assert f"{ours[f'{kind}_ratio'][quantile]:.2f}×" in readme.partition("All 5,555 schemas")[2][:300]
    assert f"revision {run['revision']}" in readme


def test_formatron_s_tasks() -> None:
    run = record("2026-11-27-formatron-929c02d")
    for label, task in (("JSON Schema", "json_schema"), ("JSON grammar", "json_grammar"), ("GeoQuery", "geoquery")):
        cells = row(label)
        for i, kind in enumerate(("1", "unseen", "warm")):
            assert shows(cells[i], run["engines"]["cdplugin"][task]["tokens_per_s"][kind]), cells
            best = run["against_the_best"][task][kind]
            assert cells[3 + i] == f"{best['ratio']:.2f} ({best['best']})"


def test_infilling() -> None:
    run = record("2026-11-28-infill-noon")
    for label, grammar in (
        ("JSON Schema", "json"),
        ("SMILES", "smiles"),
        ("C++", "cpp"),
        ("C++ of HumanEval-X", "humaneval-x"),
        ("`PYTHON`", "python"),
    ):
        cells = row(label, 1 if label in ("JSON Schema", "`PYTHON`") else 0)
        for cell, kind in zip(cells, ("check", "mask"), strict=False):
            shown = re.findall(r"[\d.]+", cell)
            asked = [run[grammar][f"{kind}, {gaps} gaps"]["median_ms"] for gaps in (1, 2, 3)]
            assert all(shows(*pair) for pair in zip(shown, asked, strict=True)), cell
    many_texts = record("2026-11-28-infill-many-texts")
    quiet = record("2026-11-28-infill-quiet-canvases")
    for label, (check, update, mask) in {
        "Python, 40 slots anywhere, 4 programs, quiet": [
            quiet["python, 4 programs"][kind] for kind in ("check", "set", "mask")
        ],
        "C++, the same, 4 programs, quiet": [quiet["cpp, 4 programs"][kind] for kind in ("check", "set", "mask")],
        "C++, the same, 12 programs, quiet": [quiet["cpp, 12 programs"][kind] for kind in ("check", "set", "mask")],
        "Python, 40 slots anywhere, 4 programs": [
            many_texts["python, after, turn 2"][kind] for kind in ("check", "set", "mask")
        ],
        "C++, the same, 4 programs": [many_texts["cpp, after, turn 2"][kind] for kind in ("check", "set", "mask")],
        "C++, the same, 8 programs": [
            record("2026-11-27-infill-canvases-cpp")["after, first 8"][kind] for kind in ("check", "set", "mask")
        ],
    }.items():
        cells = row(label)
        for cell, numbers in zip(cells, (check, update, mask), strict=False):
            shown = re.findall(r"[\d.,]*\d", cell)
            assert shows(shown[0], numbers["median_ms"]) and shows(shown[1], numbers["max_ms"]), (label, cell)


def test_serving_and_neighbours() -> None:
    steps = record("2026-11-28-neighbours")["steps, ms"]
    for label, name in (
        ("nothing", "alone"),
        ("cdplugin's", "cdplugin"),
        ("cdplugin's, work ahead", "cdplugin, ahead"),
        ("cdplugin's, a budget of tokens", "cdplugin, budget"),
        ("llguidance's", "llguidance"),
    ):
        for cell, quantile in zip(row(label), ("p50", "p90", "p99", "p99.9", "max"), strict=True):
            assert shows(cell, steps[name][quantile]), (label, cell)
    more = steps["cdplugin"]["p99"] - steps["alone"]["p99"]
    assert f"{more:+.2f} ms" in TEXT
    ratio = record("2026-11-25-serving-neighbours")["ratio"]["p99"]
    assert f"+{100 * (ratio - 1):.1f} %" in TEXT
    new, known = (row["of none"] for row in record("2026-11-23-serving-arrays")["summary"] if row["backend"] == "cdplugin")
    assert f"{new} new, {known} known" in TEXT
    for line in record("2026-11-21-serving-16")["summary"]:
        assert shows(row(line["backend"])[0], line["of none"])


@pytest.mark.parametrize("name", ["2026-11-23-soak", "2026-11-24-soak", "2026-11-26-soak"])
def test_soak(name: str) -> None:
    run = record(name)
    (cells,) = re.findall(rf"^\| {name[:10]}, \w+ \|(.*)\({re.escape(f'results/{name}.json')}\) \|$", TEXT, re.MULTILINE)
    requests, warm, most, growth, met, _ = (cell.strip() for cell in cells.split("|"))
    assert int(requests.replace(",", "")) == run["requests"] and growth == f"+{100 * run['growth']:.1f} %"
    assert shows(warm, run["resident_after_warming"] / 2**20) and float(most) <= run["resident_most"] / 2**20 + 0.5
    assert met == ("yes" if run["growth"] <= 0.05 else "**no**")
    assert all(cache["most"] <= cache["budget"] for cache in run["caches"].values())


def test_other_headlines() -> None:
    rows = record("2026-11-27-gpu-chunks")["apply"]
    for dtype in ("bfloat16", "float32"):
        for measured, name in (("kernel us", "xgrammar kernel us"), ("p50 us", "xgrammar p50 us")):
            ratios = [line[measured] / line[name] for line in rows if line["dtype"] == dtype]
            assert f"{statistics.geometric_mean(ratios):.2f}" in TEXT.partition("Over 36 shapes")[2][:300]
    endings = record("2026-11-23-endings")
    assert endings["many"]["valid"] == endings["many"]["finished"] == 498 and "| 498 of 498 |" in TEXT
    assert f"{endings['cost']['far / none, warm']['p50 µs']:.3f}" in TEXT
    hostile = record("2026-11-23-hostile")
    assert (
        f"{hostile['entries']} entries" in TEXT and f"{max(line['work'] for line in hostile['rows'].values()):,} units" in TEXT
    )
    for kind in ("without", "with"):
        assert f"{record('2026-11-25-ahead')[kind]['grammars']['p50']:,}" in TEXT
    counts = record("2026-11-28-maskbench-any")["counts"]
    assert f"{counts['pass']:,}; {counts['refused']} refused" in TEXT
    carried = [start["seconds"] for start in record("2026-11-22-carried-start")["starts"]]
    assert f"{max(carried[:3])} s; {max(carried[3:])} s" in TEXT
    for cells in ("12.2 → 28.8 with 50", "12.8 → 28.8 with 500", "12.3 → 30.4 with 2,000"):
        assert cells in TEXT
