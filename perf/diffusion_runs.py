"""Diffusion under a grammar, many times: does every canvas become a legal text within its tokens?

    python perf/diffusion_runs.py [--runs 500] [--json FILE]

The models are the toy masked-diffusion transformer of ``examples/train_diffusion.py`` (trained at the first run), and
models with random logits. The grammars are two JSON Schemas, arithmetic, SMILES and C++. The ordinary matcher judges each
output, ``json`` and ``jsonschema`` also judge JSON. For the trained model each run is repeated without a grammar: if that
text is legal, the grammar must not have changed it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

from train_diffusion import EOS, LENGTH, MASK, SCHEMA, TOKENS, load, vocabulary  # type: ignore[import-not-found]

import cdplugin as cd
from cdplugin.adapters.diffusion import ORDERS, diffuse

NESTED = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "kind": {"enum": ["a", "b", "long name"]},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
    },
    "required": ["id", "parts"],
    "additionalProperties": False,
}
WORDS = [
    "int ",
    "for",
    "while",
    "if (",
    "return ",
    "else",
    "();\n",
    ");",
    " = ",
    " < ",
    "++",
    "{\n",
    "}\n",
    "->",
    "main",
    "std::",
]
WORDS += ["#include <", "vector", "C(", "=O", "c1", "[C@", "Cl", "Br", " + ", " * ", "((", "))", "12", "10"]


def words_vocabulary() -> cd.Vocabulary:
    """All characters and some words of C++, SMILES and arithmetic; the mask token comes last."""
    characters = [bytes([b]) for b in (9, 10, *range(32, 127))]
    tokens = [*characters, *(w.encode() for w in WORDS), b"</s>", b"[MASK]"]
    return cd.Vocabulary.from_bytes(tokens, eos_token_ids=len(tokens) - 2, special_token_ids=[len(tokens) - 1])


class RandomLogits:
    """A model whose logits are noise: new for every call, the same for the same seed."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, input_ids: torch.Tensor) -> Any:
        logits = 3 * torch.randn(1, input_ids.shape[1], self.size, generator=self.generator)
        return type("Out", (), {"logits": logits})


def problems() -> list[tuple[str, Any, cd.Vocabulary, int, dict[str, Any] | None, bool]]:
    """Name, spec, vocabulary, shortest canvas, JSON Schema, and whether the trained model writes it."""
    toy, words = vocabulary(), words_vocabulary()
    return [
        ("json, trained model", cd.JsonSchema(SCHEMA), toy, LENGTH, SCHEMA, True),
        ("json, random logits", cd.JsonSchema(SCHEMA), toy, 30, SCHEMA, False),
        ("nested json, random logits", cd.JsonSchema(NESTED), toy, 20, NESTED, False),
        ("arithmetic, random logits", cd.grammars.ARITHMETIC, words, 1, None, False),
        ("smiles, random logits", cd.grammars.SMILES, words, 1, None, False),
        ("c++, random logits", cd.grammars.CPP, words, 8, None, False),
    ]


def run(name: str, spec: Any, vocab: cd.Vocabulary, shortest: int, schema: Any, trained: bool, runs: int) -> dict[str, Any]:
    compiler = cd.Compiler(vocab)
    grammar = compiler.compile(spec)
    infill = cd.Infill(grammar)
    anything = cd.Infill(compiler.compile(cd.Regex(r"(.|\n)*"))) if trained else None
    matcher = grammar.matcher()
    mask = MASK if vocab.size == len(TOKENS) + 2 else vocab.size - 1
    eos = EOS if mask == MASK else vocab.size - 2
    found: dict[str, Any] = {
        "runs": 0,
        "legal": 0,
        "finished": 0,
        "refused": 0,
        "tokens": 0,
        "free_legal": 0,
        "free_unchanged": 0,
    }
    toy = load() if trained else None
    began = time.process_time()
    for seed in range(runs):
        rng = random.Random(seed)
        length = LENGTH if trained else rng.randint(shortest, shortest + 24)
        options: dict[str, Any] = {
            "mask_token_id": mask,
            "length": length,
            "steps": rng.choice([length, length, max(length // 2, 1), max(length // 4, 1)]),
            "block_length": rng.choice([None, None, 8]),
            "order": rng.choice(ORDERS),
            "temperature": rng.choice([0.0, 0.7, 1.5]),
            "seed": seed,
        }
        model = toy or RandomLogits(vocab.size, seed)
        if not infill.canvas([mask] * length, mask).completable():
            continue
        out = diffuse(model, infill, **options)
        found["runs"] += 1
        found["refused"] += out.refused
        found["tokens"] += length
        ids = out.tokens[: out.tokens.index(eos)] if eos in out.tokens else out.tokens
        found["finished"] += len(out.tokens) == length and all(t == eos for t in out.tokens[len(ids) :]) and mask not in ids
        matcher.reset()
        legal = matcher.accept_tokens(ids) == len(ids) and matcher.is_accepting()
        if schema is not None:
            jsonschema.validate(json.loads(out.text), schema)
        found["legal"] += legal
        if anything is not None:
            free = diffuse(model, anything, **options)
            ids = free.tokens[: free.tokens.index(eos)] if eos in free.tokens else free.tokens
            matcher.reset()
            if free.refused == 0 and matcher.accept_tokens(ids) == len(ids) and matcher.is_accepting():
                found["free_legal"] += 1
                found["free_unchanged"] += free.tokens == out.tokens
    found["seconds"] = round(time.process_time() - began, 1)
    print(f"{name:28} {found}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--only", default="", help="only problems whose name has this in it")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    results = {p[0]: run(*p, arguments.runs) for p in problems() if arguments.only in p[0]}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
