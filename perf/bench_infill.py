"""Infilling: how long a completability check, a mask and an update of a canvas take. CPU time of one thread.

    python perf/bench_infill.py [--vocab llama3|bytes] [--quick]

Checks: legal texts with 1 to 3 spans cut out at random. Canvas: tokens are committed at random places in random order, each
taken from its slot's mask. Then the same tokens are committed once more without masks, so that each update is a check
alone. ``--walks FILE`` keeps these tokens, or reads them from there, so that two versions can run the same ones in turns.
The script prints medians and worst cases in ms; ``--json FILE`` keeps them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import cdplugin as cd
from cdplugin.infill.session import surely

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "email": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "[0-9]{5}"}},
            "required": ["street", "zip"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "age", "email", "tags", "address"],
    "additionalProperties": False,
}
JSON_TEXT = json.dumps(
    {
        "name": "Ada Lovelace",
        "age": 36,
        "email": "ada@example.org",
        "tags": ["mathematician", "countess", "first"],
        "address": {"street": "12 St James's Square", "zip": "10115"},
    }
)
CPP_TEXT = """#include <vector>
int sum(int limit) {
    int total = 0;
    for (int i = 0; i < limit; i++) {
        if (i > 0 && total < 100) {
            total += i * 2;
        }
    }
    return total;
}
"""
SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O"]


def specs() -> list[tuple[str, Any, list[str]]]:
    """Name, spec, legal texts."""
    return [
        ("json", cd.JsonSchema(SCHEMA), [JSON_TEXT]),
        ("arithmetic", cd.grammars.ARITHMETIC, ["(1 + 23) * 4 - 5 / (6 + 78)"]),
        ("smiles", cd.grammars.SMILES, SMILES),
        ("c subset", cd.Lark((ROOT / "tests" / "data" / "c_subset.lark").read_text()), [CPP_TEXT]),
        ("cpp", cd.grammars.CPP, [CPP_TEXT]),
        ("humaneval-x", cd.grammars.CPP, programs("cpp")),
        ("python", cd.grammars.PYTHON, programs("python")),
    ]


def programs(language: str) -> list[str]:
    """HumanEval-X's programs of the development half, without the one that g++ refuses; none if ../shared is missing."""
    path = ROOT.parent / "shared" / "humaneval-x" / f"{language}-dev.jsonl.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    return [text for text in texts if text.count("{") == text.count("}")]


def vocabulary(name: str) -> cd.Vocabulary:
    if name == "llama3":
        from tokenizers_data import llama3

        tokenizer = llama3()
        return cd.Vocabulary.from_tiktoken(tokenizer)
    tokens = [bytes([b]) for b in range(256)]
    return cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=256)


def cut(rng: random.Random, text: str, gaps: int) -> list[Any]:
    """The text with ``gaps`` spans cut out."""
    cuts = sorted(rng.sample(range(len(text)), 2 * gaps))
    pieces: list[Any] = []
    at = 0
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        pieces += [text[at:left], cd.GAP]
        at = min(right, left + 40)
    return [*pieces, text[at:]]


def timed(call: Any, *arguments: Any) -> tuple[float, Any]:
    began = time.thread_time()
    result = call(*arguments)
    return 1e3 * (time.thread_time() - began), result


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median_ms": round(statistics.median(ordered), 3),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 3),
        "max_ms": round(ordered[-1], 3),
        "n": len(ordered),
    }


def checks(infill: cd.Infill, texts: list[str], count: int) -> dict[str, Any]:
    """Time the check of ``count`` problems one after another, then the mask of the first gap of each. Of problems with two
    gaps, time also the mask of the second gap while the first is open. Five problems before these are not counted.
    """
    out: dict[str, Any] = {}
    for gaps in (1, 2, 3):
        rng = random.Random(gaps)
        sessions = [infill.new(cut(rng, rng.choice(texts), gaps)) for _ in range(count + 5)]
        times, masks, legal, undecided = [], [], 0, 0
        later: list[float] = []
        later_undecided = 0
        for session in sessions:
            infill._tables.workspace.forget_texts()  # the problems are spans of one text: nothing is known from the last
            spent, answer = timed(session.completable)
            times.append(spent)
            legal += answer
        for session in sessions:
            if session.completable():
                masks.append(timed(session.mask, 0)[0])
                undecided += session.undecided > 0
                if gaps == 2:
                    later.append(timed(session.mask, 1)[0])
                    later_undecided += session.undecided > 0
        if gaps == 1:
            out["from a fresh Infill"] = {"check_ms": round(times[0], 1), "mask_ms": round(masks[0], 1)}
        out[f"check, {gaps} gaps"] = summary(times[5:]) | {"completable": legal}
        out[f"mask, {gaps} gaps"] = summary(masks[5:]) | {"undecided": undecided}
        if later:
            out["mask of the second gap"] = summary(later[5:]) | {"undecided": later_undecided}
    return out


def canvas(infill: cd.Infill, length: int, walks: list[list[list[int]]], runs: int) -> dict[str, Any]:
    """Fill canvases. ``walks`` has the (place, token) pairs of each canvas; without them, the masks choose the tokens."""
    masks, finished = [], 0
    mask_id = infill.vocab.eos_token_ids[0] + 1 if infill.vocab.eos_token_ids[0] + 1 < infill.vocab.size else -1
    for seed in range(runs if not walks else 0):
        rng = random.Random(seed)
        session = infill.canvas([mask_id] * length, mask_id)
        if not session.completable():
            continue
        walk = []
        for place in rng.sample(range(length), length):
            spent, row = timed(session.mask, place)
            masks.append(spent)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            token = int(rng.choice(allowed))
            while not surely(session.set, place, token):  # LONGEST lexemes: see docs/infilling.md
                token = int(rng.choice(allowed))
            walk.append([place, token])
        walks.append(walk)
    first, updates, quarters = [], [], [[], [], [], []]  # type: ignore[var-annotated]
    for walk in walks:
        session = infill.canvas([mask_id] * length, mask_id)
        first.append(timed(session.completable)[0])
        for i, (place, token) in enumerate(walk):
            spent, accepted = timed(session.set, place, token)
            assert accepted
            updates.append(spent)
            quarters[4 * i // length].append(spent)
        finished += session.text() is not None
    found = {f"update, canvas {length}": summary(updates), "first check": summary(first), "finished": [finished, len(walks)]}
    found |= {f"update, quarter {i + 1}": summary(times) for i, times in enumerate(quarters)}
    return found | ({f"mask, canvas {length}": summary(masks)} if masks else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocab", default="llama3", choices=["llama3", "bytes"])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--canvas", type=int, default=0, help="length of canvases to fill; 0: none")
    parser.add_argument("--runs", type=int, default=10, help="how many canvases")
    parser.add_argument("--walks", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    vocab = vocabulary(arguments.vocab)
    results: dict[str, Any] = {"vocab": arguments.vocab}
    walks: dict[str, Any] = {}
    if arguments.walks and arguments.walks.exists():
        walks = json.loads(arguments.walks.read_text())
    for name, spec, texts in specs():
        if (arguments.only and name not in arguments.only) or not texts:
            continue
        grammar = cd.Compiler(vocab).compile(spec)
        made, infill = timed(cd.Infill, grammar)
        found = {"make_ms": round(made, 1)} | checks(infill, texts, 20 if arguments.quick else 200)
        if arguments.canvas:
            found |= canvas(infill, arguments.canvas, walks.setdefault(name, []), 1 if arguments.quick else arguments.runs)
        results[name] = found
        for key, value in found.items():
            print(f"{name:12} {key:22} {value}", flush=True)
    if arguments.walks:
        arguments.walks.write_text(json.dumps(walks))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
