"""Train a small masked-diffusion transformer on generated JSON: a minute on a CPU.

    python examples/train_diffusion.py [FOLDER] [--steps 600]

A BERT of two layers learns to predict masked tokens at all rates of masking, which is the training objective of masked
diffusion models (Nie et al., "Large Language Diffusion Models", 2025). :func:`load` gives model, vocabulary and token ids.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

LENGTH = 40
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "city": {"enum": ["Rome", "Oslo", "Lima"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
    },
    "required": ["name", "age", "city", "tags"],
    "additionalProperties": False,
}
_CHARACTERS = "".join(map(chr, range(32, 127)))
_WORDS = ['{"', '": ', '": "', '", "', ', "', '"}', '"]', '": [', '["', "]}", "name", "age", "city", "tags", "Rome", "Oslo"]
_WORDS += ["Lima", "an", "er"]
TOKENS = [*_CHARACTERS, *_WORDS]
EOS, MASK = len(TOKENS), len(TOKENS) + 1


def vocabulary() -> Any:
    import cdplugin as cd

    tokens = [*(t.encode() for t in TOKENS), b"</s>", b"[MASK]"]
    return cd.Vocabulary.from_bytes(tokens, eos_token_ids=EOS, special_token_ids=[MASK])


def encode(text: str) -> list[int]:
    """Token ids by longest match."""
    ids = {t: i for i, t in enumerate(TOKENS)}
    out, at = [], 0
    while at < len(text):
        length = next(n for n in range(5, 0, -1) if text[at : at + n] in ids)
        out.append(ids[text[at : at + length]])
        at += length
    return out


def sample(rng: random.Random) -> str:
    """A random JSON text under ``SCHEMA``."""
    name = "".join(rng.choice("abdeilmnorst") for _ in range(rng.randint(2, 6)))
    value = {
        "name": name.capitalize(),
        "age": rng.randint(0, 99),
        "city": rng.choice(["Rome", "Oslo", "Lima"]),
        "tags": [rng.choice(["red", "blue", "new", "old"]) for _ in range(rng.randint(0, 2))],
    }
    return json.dumps(value)


def make_model() -> Any:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=len(TOKENS) + 2,
        hidden_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        max_position_embeddings=128,
        pad_token_id=EOS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForMaskedLM(config)


def train(steps: int = 600, seconds: float = 60.0, seed: int = 0, report: Any = None) -> Any:
    """The trained model; stops after ``steps``, or ``seconds`` of this process's CPU time."""
    import torch

    torch.manual_seed(seed)
    rng = random.Random(seed)
    model = make_model().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    began = time.process_time()
    for step in range(steps):
        rows = []
        while len(rows) < 64:
            ids = encode(sample(rng))
            if len(ids) <= LENGTH:
                rows.append(ids + [EOS] * (LENGTH - len(ids)))
        clean = torch.tensor(rows)
        rate = torch.rand(len(rows), 1).clamp(0.05, 1.0)
        hidden = torch.rand(clean.shape) < rate
        noisy = torch.where(hidden, torch.tensor(MASK), clean)
        logits = model(input_ids=noisy).logits
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), clean, reduction="none")
        loss = (losses * hidden / rate).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if report is not None and step % 50 == 0:
            report(step, float(loss.detach()))
        if time.process_time() - began > seconds:
            break
    return model.eval()


def load(folder: Path | None = None) -> Any:
    """The trained model. If the folder has none, train it now and keep it there."""
    from transformers import BertForMaskedLM

    from cdplugin.kernels.jit.cache_files import cache_root

    folder = folder or (cache_root() or Path.cwd()) / "models" / "toy-diffusion-1"
    if not (folder / "config.json").exists():
        train().save_pretrained(folder)
    return BertForMaskedLM.from_pretrained(folder).eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    model = train(arguments.steps, report=lambda step, loss: print(f"step {step}: loss {loss:.3f}", file=sys.stderr))
    if arguments.folder:
        model.save_pretrained(arguments.folder)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")


if __name__ == "__main__":
    main()
