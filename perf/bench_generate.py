"""Tokens per second of generate(): unconstrained, constrained, and constrained with the lookahead, in turns in one run.

    .venv/bin/python perf/bench_generate.py [--model FOLDER] [--tokens 64] [--runs 5] [--threads N] [--out generate.json]

Each run samples exactly ``--tokens`` tokens per row. End tokens are suppressed until then, for all three ways alike, and
the schema, an array of objects without a bound, never has to end. The order rotates from run to run.

"ms/step" is the median over the runs. "added" is what constraining adds to a step: the median of the differences to the
unconstrained time of the same run. "adapter" is the time inside the processor's own call, including masks and waiting, in
the same runs.

A folder without weights (config.json and the tokenizer's files) gives a model with random weights: a step takes as long.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

import cdplugin as cd

SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 30},
            "email": {"type": "string", "pattern": "^[a-z.]{1,16}@[a-z]{1,12}\\.(com|org|net)$"},
            "age": {"type": "integer", "minimum": 0, "maximum": 130},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 4},
        },
        "required": ["name", "email", "age", "tags"],
        "additionalProperties": False,
    },
    "minItems": 1000,
}


class Timed(cd.GrammarLogitsProcessor):
    """Adds up the time that its calls take."""

    seconds = 0.0

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        start = time.perf_counter()
        out = super().__call__(input_ids, scores)
        self.seconds += time.perf_counter() - start
        return out


def demo_folder() -> str:
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    from demo_model import model_folder  # type: ignore[import-not-found]

    return str(model_folder())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="PyTorch's threads on the CPU (default: its own choice)")
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 8])
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    console = Console(width=120)
    name = arguments.model or demo_folder()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(name)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    is_random = Path(name).is_dir() and not any(Path(name).glob("*.safetensors"))
    if is_random:
        with torch.device(device):  # billions of random weights take minutes on a CPU
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), dtype=dtype).eval()
    else:
        model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype).to(device).eval()
    vocab = cd.Vocabulary.from_huggingface(tokenizer, vocab_size=model.config.get_text_config().vocab_size)
    grammar = cd.Compiler(vocab).compile(cd.JsonSchema(SCHEMA))
    card = f" ({torch.cuda.get_device_name()})" if device == "cuda" else ""
    what = Path(name).name + (", random weights," if is_random else "")
    where = f"{what} on {device}{card}, {torch.get_num_threads()} CPU threads, torch {torch.__version__}"
    what = f"{where}, vocabulary {vocab.size}, {arguments.tokens} tokens, {arguments.runs} runs"
    console.print(what)
    results: list[dict[str, Any]] = []
    for batch in arguments.batch:
        message = [{"role": "user", "content": "Make up people, as a JSON array."}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt", return_dict=True)
        inputs = {key: value.to(device).repeat(batch, 1) for key, value in prompt.items()}

        def run(mode: str, seed: int, tokens: int = arguments.tokens, inputs: dict[str, Any] = inputs) -> tuple[float, float]:
            """Seconds per step, and the seconds of these inside the processor."""
            options: dict[str, Any] = {}
            processor = Timed(grammar)
            if mode != "free":
                options["logits_processor"] = [processor]
            if mode == "lookahead":
                options["stopping_criteria"] = [processor.lookahead]
            torch.manual_seed(seed)
            start = time.perf_counter()
            out = model.generate(**inputs, min_new_tokens=tokens, max_new_tokens=tokens, do_sample=True, **options)
            seconds = time.perf_counter() - start
            steps = out.shape[1] - inputs["input_ids"].shape[1]
            return seconds / steps, processor.seconds / steps

        modes = ["free", "constrained", "lookahead"]
        for mode in modes:
            run(mode, 0, 8)  # warm-up
        times: dict[str, list[tuple[float, float]]] = {mode: [] for mode in modes}
        for turn in track(range(arguments.runs), f"batch {batch}", console=console, transient=True):
            for mode in modes[turn % 3 :] + modes[: turn % 3]:
                times[mode].append(run(mode, turn))
        free = [step for step, _ in times["free"]]
        for mode in modes:
            step = statistics.median(s for s, _ in times[mode])
            added = statistics.median(s - f for (s, _), f in zip(times[mode], free, strict=True))
            inside = statistics.median(a for _, a in times[mode])
            ratio = statistics.median(free) / step
            row: dict[str, Any] = {"batch": batch, "mode": mode, "tokens/s": round(batch / step, 1), "of free": round(ratio, 3)}
            row["ms/step"] = round(1000 * step, 3)
            if mode != "free":
                row |= {"added ms/step": round(1000 * added, 3), "adapter ms/step": round(1000 * inside, 3)}
            results.append(row)
    columns = ("batch", "mode", "tokens/s", "of free", "ms/step", "added ms/step", "adapter ms/step")
    table = Table(*columns)
    for row in results:
        table.add_row(*(str(row.get(column, "")) for column in columns))
    console.print(table)
    if arguments.out:
        result = {"script": "perf/bench_generate.py", "machine": what, "rows": results}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
