"""Watch a canvas fill under a grammar: in the terminal, and as a picture.

    python examples/diffusion.py [--png canvas.png] [--order confidence]

A small masked-diffusion transformer (examples/train_diffusion.py, trained at the first run) writes JSON under a schema.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from train_diffusion import EOS, LENGTH, MASK, SCHEMA, TOKENS, load, vocabulary

import cdplugin as cd
from cdplugin.adapters.diffusion import ORDERS, Canvas, diffuse


def cell(token: int | None) -> str:
    if token is None:
        return "▁"
    return "·" if token == EOS else TOKENS[token].replace(" ", "␣")


def show(console: Any, out: Canvas) -> None:
    """One line per step; what a step committed is bright."""
    before: list[int | None] = [None] * LENGTH
    for step, tokens in enumerate(out.history):
        parts = []
        for old, new in zip(before, tokens, strict=True):
            style = "dim" if new is None or new == EOS else "bold green" if old is None else "white"
            parts.append(f"[{style}]{cell(new).replace('[', chr(92) + '[')}[/]")
        console.print(f"{step + 1:3} " + "".join(parts), highlight=False, soft_wrap=True)
        before = tokens


def picture(out: Canvas, path: Path) -> None:
    """The canvas as a picture: a row per step, a column per slot; colour: when the token was committed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    steps = len(out.history)
    figure, axes = plt.subplots(figsize=(0.42 * LENGTH + 1, 0.24 * steps + 1.6))
    first = [next(s for s in range(steps) if out.history[s][p] is not None) for p in range(LENGTH)]
    for step, tokens in enumerate(out.history):
        for place, token in enumerate(tokens):
            colour = "#f2f2f2" if token is None else plt.cm.viridis(first[place] / max(steps - 1, 1))
            axes.add_patch(plt.Rectangle((place, step), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.5))
            if token is not None and (first[place] == step or step == steps - 1):
                axes.text(place + 0.5, step + 0.5, cell(token), ha="center", va="center", fontsize=6, color="white")
    axes.set_xlim(0, LENGTH)
    axes.set_ylim(steps, 0)
    axes.set_xlabel("slot")
    axes.set_ylabel("step")
    axes.set_title(out.text, fontsize=8, family="monospace")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--png", type=Path)
    parser.add_argument("--order", default="confidence", choices=ORDERS)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    from rich.console import Console

    console = Console()
    model = load()
    infill = cd.Infill(cd.Compiler(vocabulary()).compile(cd.JsonSchema(SCHEMA)))
    out = diffuse(
        model,
        infill,
        mask_token_id=MASK,
        length=LENGTH,
        steps=arguments.steps,
        order=arguments.order,
        temperature=arguments.temperature,
        seed=arguments.seed,
        history=True,
    )
    show(console, out)
    console.print(json.loads(out.text), f"[dim]{out.refused} tokens refused[/]")
    if arguments.png:
        picture(out, arguments.png)
        console.print(f"wrote {arguments.png}")


if __name__ == "__main__":
    main()
