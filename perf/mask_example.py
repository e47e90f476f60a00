"""What the mask does at two steps of a real answer: the data of the README's picture.

    python perf/mask_example.py --out perf/results/DATE-mask-example.json

SmolLM2-135M answers a request under a JSON Schema, greedily. For each step the script records the likeliest tokens before
the mask, whether each is allowed, its probability after the mask, and what the mask removed. The result is deterministic,
up to the rounding of the machine's kernels.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples"), str(ROOT)]

import demo_model  # type: ignore[import-not-found]  # noqa: E402

import cdplugin as cd  # noqa: E402

PROMPT = "Describe Ada Lovelace as JSON with her name, her field and the year of her birth."
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "field": {"enum": ["mathematics", "physics", "poetry"]},
        "born": {"type": "integer", "minimum": 1000, "maximum": 2100},
    },
    "required": ["name", "field", "born"],
    "additionalProperties": False,
}
SHOWN = 7


def steps(model: Any, tokenizer: Any) -> list[dict[str, Any]]:
    """The steps of the greedy answer."""
    vocab = cd.Vocabulary.from_huggingface(tokenizer, model.config.vocab_size)
    matcher = cd.Compiler(vocab).compile(cd.JsonSchema(SCHEMA, whitespace="compact")).matcher()
    chat = tokenizer.apply_chat_template([{"role": "user", "content": PROMPT}], tokenize=False, add_generation_prompt=True)
    ids = tokenizer(chat, return_tensors="pt")["input_ids"]
    bitmask = cd.allocate_token_bitmask(1, vocab.size)
    out: list[dict[str, Any]] = []
    with torch.inference_mode():
        while not matcher.is_terminated() and len(out) < 60:
            logits = model(ids).logits[:, -1].float()
            before = logits.softmax(-1)[0]
            matcher.fill_next_token_bitmask(bitmask)
            cd.apply_token_bitmask_inplace(logits, bitmask)
            after = logits.softmax(-1)[0]
            allowed = logits[0] > -torch.inf
            shown = list(dict.fromkeys([*before.topk(SHOWN).indices.tolist(), *after.topk(SHOWN).indices.tolist()]))
            token = int(logits.argmax())
            trace = matcher.trace([token], limit=1)
            out.append(
                {
                    "text": vocab.decode(matcher.tokens).decode("utf-8", "replace"),
                    "allowed": int(allowed.sum()),
                    "removed": round(1 - float(before[allowed].sum()), 4),
                    "where": [place.address for place in trace.steps[0].places],
                    "taken": trace.label(token),
                    "tokens": [
                        {
                            "label": trace.label(one),
                            "allowed": bool(allowed[one]),
                            "before": round(float(before[one]), 5),
                            "after": round(float(after[one]), 5),
                        }
                        for one in shown
                    ],
                }
            )
            assert matcher.accept_token(token)
            ids = torch.cat([ids, torch.tensor([[token]])], dim=1)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = demo_model.model_folder()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with demo_model.quiet():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    record = {"script": "perf/mask_example.py", "model": demo_model.NAME, "prompt": PROMPT, "schema": SCHEMA}
    record["steps"] = steps(model, tokenizer)
    args.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print(record["steps"][-1]["text"])


if __name__ == "__main__":
    main()
