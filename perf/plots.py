"""Makes all pictures of README and docs that show numbers, from perf/results/: ``make plots``.

    python perf/plots.py [--out docs/img]

Each picture is written twice, for light and for dark pages. It shows the newest file of each kind (the names begin with
their date). If that file is missing, the script leaves the picture out and says so. The same files always give the same
bytes.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "perf" / "results"
THEMES = {
    "light": {"ground": "#ffffff", "ink": "#1b1f24", "dim": "#59636e", "grid": "#d1d9e0", "bad": "#cf222e", "pale": "#d1d9e0"},
    "dark": {"ground": "#0d1117", "ink": "#e6edf3", "dim": "#9198a1", "grid": "#3d444d", "bad": "#ff7b72", "pale": "#3d444d"},
}
COLOURS = {"cdplugin": "#0969da", "llguidance": "#bf8700", "xgrammar": "#8250df", "guidance": "#bf8700", "none": "#8c959f"}
COLOURS |= {"formatron": "#1a7f37", "lm-format-enforcer": "#8c959f"}
DARK_COLOURS = {"cdplugin": "#4493f8", "llguidance": "#d4a72c", "xgrammar": "#ab7df8", "guidance": "#d4a72c", "none": "#9198a1"}
DARK_COLOURS |= {"formatron": "#3fb950", "lm-format-enforcer": "#9198a1"}
Theme = dict[str, str]


def newest(kind: str) -> tuple[str, Any] | None:
    """Name and content of the newest ``perf/results/DATE-KIND.json``; None if there is none."""
    found = sorted(RESULTS.glob(f"20??-??-??-{kind}.json"))
    return (found[-1].name, json.loads(found[-1].read_text())) if found else None


def colour(name: str, theme: Theme) -> str:
    """The colour of an engine or backend."""
    return (DARK_COLOURS if theme is THEMES["dark"] else COLOURS)[name]


def maskbench(record: Any, theme: Theme) -> Any:
    """Mask times and times to the first mask, by percentile."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), constrained_layout=True)
    percentiles = ("p50", "p90", "p99", "p99.9", "max")
    for axis, kind, title in zip(
        axes, ("mask_us", "first_mask_us"), ("mask + accept, one token", "time to first mask"), strict=True
    ):
        for name, engine in record["engines"].items():
            values = [engine[kind][percentile] for percentile in percentiles]
            axis.semilogy(percentiles, values, color=colour(name, theme), lw=2, marker="o", ms=4, label=name)
        axis.set_title(title, fontsize=10)
        axis.set_ylabel("microseconds")
        axis.grid(True, axis="y", which="major", color=theme["grid"], lw=0.5)
        axis.legend(frameon=False)
    return figure


def coverage(record: Any, theme: Theme) -> Any:
    """How many schemas of MaskBench pass, are refused, or have an invalid instance that is accepted."""
    figure, axis = plt.subplots(figsize=(9, 2.2), constrained_layout=True)
    names = list(record["engines"])[::-1]
    for at, name in enumerate(names):
        engine = record["engines"][name]
        total = engine["schemas"]
        wrong = _schemas(engine, "invalid_accepted")
        order = engine["passing_but_for_order"] - engine["passing"]
        rest = engine["refused"] + sum(engine["failed"].values())
        parts = [(engine["passing"], colour(name, theme), "passing"), (order, theme["dim"], "only for property order")]
        parts += [
            (rest, theme["pale"], "refused, timeout or crash"),
            (wrong, theme["bad"], "wrong: valid rejected or invalid accepted"),
        ]
        left = 0.0
        for count, paint, _ in parts:
            axis.barh(at, 100 * count / total, left=left, color=paint, height=0.6)
            left += 100 * count / total
        axis.text(1, at, f"{100 * engine['passing'] / total:.1f}%", va="center", color="#ffffff", fontsize=10)
        if wrong:
            axis.text(101, at, f"{wrong} accept invalid", va="center", color=theme["bad"], fontsize=9)
    axis.set_yticks(range(len(names)), names)
    axis.set_xlim(0, 118)
    axis.set_xlabel(f"% of {record['engines'][names[0]]['schemas']} schemas: passing; only order; refused; invalid accepted")
    return figure


def _schemas(engine: dict[str, Any], kind: str) -> int:
    """How many schemas have instances of a kind."""
    listed = engine.get(f"{kind}_schemas")
    return len(listed) if listed is not None else engine[f"{kind}_schema_count"]


def serving(record: Any, theme: Theme) -> Any:
    """Time per output token of a vLLM server by load, beside no grammar and vLLM's other backends."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), constrained_layout=True)
    rows = record["summary"]
    backends = list(dict.fromkeys(row["backend"] for row in rows))
    loads = sorted({row["load"] for row in rows})
    for axis, key, title in zip(
        axes, ("TPOT p50 ms", "TTFT p50 ms"), ("time per output token, p50", "time to first token, p50"), strict=True
    ):
        for at, backend in enumerate(backends):
            values = [
                next((row[key] for row in rows if row["load"] == load and row["backend"] == backend), 0) for load in loads
            ]
            width = 0.8 / len(backends)
            places = [i + (at - (len(backends) - 1) / 2) * width for i in range(len(loads))]
            axis.bar(places, values, width * 0.92, color=colour(backend, theme), label=backend)
        axis.set_xticks(range(len(loads)), loads)
        axis.set_xlabel("concurrent requests, distinct schemas")
        axis.set_ylabel("ms")
        axis.set_title(title, fontsize=10)
        axis.legend(frameon=False, fontsize=8)
    return figure


_FORMATRON_TASKS = {"json_schema": "JSON Schema", "json_grammar": "JSON grammar", "geoquery": "GeoQuery (FunQL)"}


def formatron(record: Any, theme: Theme) -> Any:
    """Tokens per second over 1 to 10 texts of a grammar, compiling included; then of other texts; then of the same again."""
    figure, axes = plt.subplots(1, len(_FORMATRON_TASKS), figsize=(9, 3.4), constrained_layout=True, sharey=True)
    for axis, (task, title) in zip(axes, _FORMATRON_TASKS.items(), strict=True):
        for name, engine in record["engines"].items():
            if " -" in name or "dropped" in engine[task]:
                continue
            speed = engine[task]["tokens_per_s"]
            axis.semilogy(list(speed), list(speed.values()), color=colour(name, theme), lw=2, marker="o", ms=4, label=name)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("texts of one grammar", fontsize=8)
        axis.grid(True, axis="y", which="major", color=theme["grid"], lw=0.5)
    axes[0].set_ylabel("tokens per second")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    return figure


def switches(record: Any, theme: Theme) -> Any:
    """The same for cdplugin and Formatron with something switched off: ten texts with compiling, and the same texts again."""
    figure, axes = plt.subplots(1, len(_FORMATRON_TASKS), figsize=(9, 3.2), constrained_layout=True, sharey=True)
    names = [name for name in record["engines"] if name.split(" -")[0] in ("cdplugin", "formatron")]
    names.sort(key=lambda name: (name.split(" -")[0] != "cdplugin", name))
    for axis, (task, title) in zip(axes, _FORMATRON_TASKS.items(), strict=True):
        for at, name in enumerate(names[::-1]):
            speed, paint = record["engines"][name][task]["tokens_per_s"], colour(name.split(" -")[0], theme)
            axis.barh(at - 0.18, speed["10"], 0.34, color=paint, alpha=0.45, label="10 texts, cold" if not at else None)
            axis.barh(at + 0.18, speed["warm"], 0.34, color=paint, label="warm" if not at else None)
        axis.set_xscale("log")
        axis.set_xlim(100, 1e6)
        axis.set_yticks(range(len(names)), names[::-1])
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("tokens per second", fontsize=8)
    axes[-1].legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def infilling(record: Any, theme: Theme) -> Any:
    """Checks and masks of a text with 1, 2 and 3 gaps, by grammar: medians of the runs, with Llama 3's vocabulary."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 3), constrained_layout=True)
    runs = record["after"]["llama3"]
    languages = [name for name in ("json", "arithmetic", "smiles", "cpp") if name in runs[0]]
    for axis, what in zip(axes, ("check", "mask"), strict=True):
        for gaps in (1, 2, 3):
            values = [statistics.median(run[name][f"{what}, {gaps} gaps"]["median_ms"] for run in runs) for name in languages]
            places = [i + (gaps - 2) * 0.25 for i in range(len(languages))]
            label = f"{gaps} gap{'s' if gaps > 1 else ''}"
            axis.bar(places, values, 0.23, color=colour("cdplugin", theme), alpha=(0.45, 0.7, 1.0)[gaps - 1], label=label)
        axis.set_xticks(range(len(languages)), languages)
        axis.set_ylabel("ms, median")
        axis.set_yscale("log")
        axis.set_title("is a completion left?" if what == "check" else "mask at the left edge of a gap", fontsize=10)
        axis.legend(frameon=False, fontsize=8)
    return figure


def mask(record: Any, theme: Theme) -> Any:
    """Three steps of a real answer: what the model wanted, and what the mask left."""
    chosen = [step for step in record["steps"] if step["text"].endswith(('"field":"', '"mathematics","', '"born":'))]
    figure, axes = plt.subplots(1, len(chosen), figsize=(9, 3.3), constrained_layout=True)
    for axis, step in zip(axes, chosen, strict=True):
        refused = [token for token in step["tokens"] if not token["allowed"]]
        allowed = sorted((token for token in step["tokens"] if token["allowed"]), key=lambda token: -token["after"])
        shown = (refused[:4] + allowed[:3])[::-1]
        for at, token in enumerate(shown):
            paint = theme["pale"] if not token["allowed"] else colour("cdplugin", theme)
            axis.barh(at + 0.19, 100 * token["before"], 0.34, color=theme["pale"])
            axis.barh(at - 0.19, 100 * token["after"], 0.34, color=paint)
            if not token["allowed"]:
                axis.text(100 * token["before"] + 2, at + 0.19, "refused", va="center", fontsize=8, color=theme["bad"])
            else:
                inside = token["after"] > 0.8
                place = 100 * token["after"] + (-2 if inside else 2)
                paint, side = ("#ffffff", "right") if inside else (theme["ink"], "left")
                axis.text(place, at - 0.19, f"{100 * token['after']:.0f}%", va="center", ha=side, fontsize=8, color=paint)
        axis.set_yticks(range(len(shown)), [_plain(token["label"]) for token in shown], family="monospace")
        for label, token in zip(axis.get_yticklabels(), shown, strict=True):
            if not token["allowed"]:
                label.set_color(theme["bad"])
        axis.set_xlim(0, 100)
        axis.set_title(f"…{step['text'][-18:].strip()}▁", fontsize=9, family="monospace", loc="left")
        axis.set_xlabel(f"probability, %; {step['allowed']:,} of 49,152 tokens allowed", fontsize=8)
    return figure


def _plain(label: str) -> str:
    return label[1:-1] if label[:1] in "'\"" else label


PLOTS: dict[str, tuple[str, Callable[[Any, Theme], Any]]] = {
    "mask": ("mask-example", mask),
    "maskbench": ("maskbench", maskbench),
    "coverage": ("maskbench", coverage),
    "serving": ("serving-loads", serving),
    "infilling": ("infill-kept", infilling),
    "formatron": ("formatron-tasks", formatron),
    "switches": ("formatron-tasks", switches),
}
"""Picture → kind of the results' file, and who draws it."""


def badges() -> dict[str, tuple[str, str]]:
    """The badges of README, from the package's metadata: name → its two texts."""
    text = (ROOT / "pyproject.toml").read_text()
    version, python, licence = (
        re.search(rf'^{name} = "(.*)"$', text, re.MULTILINE) for name in ("version", "requires-python", "license")
    )
    assert version is not None and python is not None and licence is not None
    wanted = python.group(1).replace(">=", "≥ ")
    return {"version": ("version", version.group(1)), "python": ("Python", wanted), "license": ("license", licence.group(1))}


def badge(left: str, right: str) -> str:
    """A badge as SVG."""
    widths = [7 * len(text) + 12 for text in (left, right)]
    total = sum(widths)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="20" role="img" aria-label="{left}: {right}">'
        f'<rect width="{widths[0]}" height="20" fill="#59636e"/>'
        f'<rect x="{widths[0]}" width="{widths[1]}" height="20" fill="#0969da"/>'
        '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="{widths[0] / 2}" y="14">{left}</text><text x="{widths[0] + widths[1] / 2}" y="14">{right}</text></g></svg>\n'
    )


def style(theme: Theme) -> dict[str, Any]:
    """Matplotlib's settings for a theme. Text stays text, and ids do not change from run to run."""
    dim = dict.fromkeys(("axes.edgecolor", "xtick.color"), theme["dim"])
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "ytick.color"), theme["ink"])
    ground = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), theme["ground"])
    off = dict.fromkeys(("axes.spines.top", "axes.spines.right"), False)
    fixed = {"svg.fonttype": "path", "svg.hashsalt": "cdplugin", "font.size": 9, "font.family": "DejaVu Sans"}
    return {**dim, **ink, **ground, **off, **fixed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "img")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, (kind, draw) in PLOTS.items():
        found = newest(kind)
        if found is None:
            print(f"{name}: left out: no perf/results/DATE-{kind}.json")
            continue
        for theme_name, theme in THEMES.items():
            with plt.rc_context(style(theme)):
                figure = draw(found[1], theme)
                figure.savefig(args.out / f"{name}-{theme_name}.svg", metadata={"Date": None, "Creator": None})
                plt.close(figure)
        print(f"{name}: from perf/results/{found[0]}")
    for name, texts in badges().items():
        (args.out / f"badge-{name}.svg").write_text(badge(*texts), encoding="utf-8")


if __name__ == "__main__":
    main()
