"""Answers under a budget of tokens: how many end within it and are valid, and what the masks cost.

    .venv-vllm/bin/python perf/bench_endings.py serve ../shared/maskbench/dev.jsonl.gz cdplugin --out FILE [--speculate]
    .venv-vllm/bin/python perf/bench_endings.py many ../shared/maskbench/dev.jsonl.gz --count 50 --out FILE [--speculate]
    .venv/bin/python perf/bench_endings.py walks ../shared/maskbench/dev.jsonl.gz --out FILE
    .venv/bin/python perf/bench_endings.py cost ../shared/maskbench/dev.jsonl.gz --out FILE
    .venv/bin/python perf/bench_endings.py languages --out FILE

*serve* runs a real vLLM offline, with the small model. It takes ``--count`` schemas of MaskBench that all three backends
accept, and asks for one answer each, of at most ``--tokens`` tokens. It counts the answers that end by themselves, and how
many of those ``jsonschema`` finds valid.

*many* runs the same engine with ``--texts`` answers for each schema. Each has its own budget (``max_tokens``) of 20 to 300
tokens; half are greedy and half sampled, in two batches. A request whose budget is less than its shortest ending, as the
matcher knows it, is sent alone, and the engine has to refuse it.

*walks* needs no model. It makes masks over the small model's vocabulary and draws tokens from random logits, for some
schemas and budgets of 20 to 300 tokens. If a shortest ending fits the budget, the text has to end and be valid; if not, the
first mask has to raise ``BudgetError``.

*cost* times the masks along such texts: without a budget and with one that is far away (in turns), and within the last 40
tokens of a budget. It reports medians, means and ratios of one run. *Cold* is the first text of a grammar, *warm* the same
text once more.

*languages* does the same with Lark grammars (those of ``bench_lark.py``) along their texts, over 128k tokens: without a
budget, and with budgets of 100,000, 2,000 and 300 tokens, each with a grammar of its own. Times are CPU time of the thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "perf")]


def is_valid(schema: Any, text: str) -> bool:
    """Whether ``jsonschema`` finds a text valid."""
    import jsonschema

    try:
        jsonschema.validators.validator_for(schema)(schema).validate(json.loads(text))
    except Exception:  # whatever is wrong with it
        return False
    return True


def rows_of(path: Path, count: int, seed: int, most_bytes: int) -> list[dict[str, Any]]:
    """Rows of MaskBench whose schemas cdplugin compiles, drawn at random."""
    import cdplugin as cd
    from cdplugin.limits import Limits

    with gzip.open(path, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    random.Random(seed).shuffle(rows)
    out: list[dict[str, Any]] = []
    for row in rows:
        if len(out) == count:
            break
        if len(json.dumps(row["schema"])) > most_bytes:
            continue
        try:
            cd.JsonSchema(row["schema"]).to_ir(Limits())
        except cd.GrammarError:
            continue
        out.append(row)
    return out


# ---- a real engine -----------------------------------------------------------------------------------------------------------


def engine(arguments: argparse.Namespace) -> Any:
    """vLLM's ``LLM`` on the small model."""
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    from demo_model import model_folder  # type: ignore[import-not-found]
    from vllm import LLM

    options: dict[str, Any] = {}
    if arguments.speculate:
        options["speculative_config"] = {
            "method": "ngram",
            "num_speculative_tokens": 3,
            "prompt_lookup_max": 3,
            "prompt_lookup_min": 1,
        }
    return LLM(
        str(model_folder()),
        structured_outputs_config={"backend": arguments.backend},
        dtype="bfloat16",
        max_model_len=1024,
        max_num_seqs=24,
        enforce_eager=True,
        **options,
    )


def prompt_of(row: dict[str, Any]) -> Any:
    return [{"role": "user", "content": f"Write a JSON document for {row['id'].replace('_', ' ')}."}]


def serve(arguments: argparse.Namespace) -> dict[str, Any]:
    """Ask for one answer for each schema."""
    from bench_serving import load_schemas
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    rows = load_schemas(arguments.schemas, arguments.count, arguments.seed, 4_000)
    llm = engine(arguments)
    params = [
        SamplingParams(
            temperature=0.0 if arguments.greedy else 1.0,
            seed=i,
            max_tokens=arguments.tokens,
            structured_outputs=StructuredOutputsParams(json=row["schema"]),
        )
        for i, row in enumerate(rows)
    ]
    prompts = [prompt_of(row) for row in rows]
    began = time.perf_counter()
    answers = [done.outputs[0] for done in llm.chat(prompts, params, use_tqdm=False)]
    seconds = time.perf_counter() - began
    finished = [answer.finish_reason == "stop" for answer in answers]
    valid = [is_valid(row["schema"], answer.text) for row, answer in zip(rows, answers, strict=True)]
    return {
        "backend": arguments.backend,
        "speculation": arguments.speculate,
        "sampling": "greedy" if arguments.greedy else "temperature 1",
        "tokens": arguments.tokens,
        "schemas": len(rows),
        "finished": sum(finished),
        "finished and valid": sum(a and b for a, b in zip(finished, valid, strict=True)),
        "at the last token": sum(len(answer.token_ids) == arguments.tokens for answer in answers),
        "seconds": round(seconds, 1),
        "unfinished": [row["id"] for row, done in zip(rows, finished, strict=True) if not done],
        "invalid": [row["id"] for row, a, b in zip(rows, finished, valid, strict=True) if a and not b],
    }


def many(arguments: argparse.Namespace) -> dict[str, Any]:
    """Ask for several answers for each schema, each with a budget of its own."""
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import StructuredOutputsParams

    import cdplugin as cd

    rows = rows_of(arguments.schemas, arguments.count, arguments.seed, 4_000)
    compiler = cd.Compiler(small_vocabulary())
    leasts = [len(compiler.compile(cd.JsonSchema(row["schema"])).matcher().shortest_completion()) + 1 for row in rows]
    llm = engine(arguments)
    rng = random.Random(arguments.seed)
    counts = {"requests": 0, "too small": 0, "refused": 0, "finished": 0, "valid": 0, "at the last token": 0}
    bad: list[str] = []
    began = time.perf_counter()
    tokens = 0
    for greedy in (True, False):
        asked = []
        for row, least in zip(rows, leasts, strict=True):
            for turn in range(arguments.texts // 2):
                most = rng.randint(20, 300)
                params = SamplingParams(
                    temperature=0.0 if greedy else 1.0,
                    seed=turn,
                    max_tokens=most,
                    structured_outputs=StructuredOutputsParams(json=row["schema"]),
                )
                if least <= most:
                    asked.append((row, most, params))
                    continue
                counts["too small"] += 1
                try:
                    llm.chat([prompt_of(row)], [params], use_tqdm=False)
                except VLLMValidationError as error:
                    counts["refused"] += f"max_tokens={most}: expected at least" in str(error)
        answers = llm.chat([prompt_of(row) for row, _, _ in asked], [params for _, _, params in asked], use_tqdm=False)
        for (row, most, _), done in zip(asked, answers, strict=True):
            answer = done.outputs[0]
            finished, valid = answer.finish_reason == "stop", is_valid(row["schema"], answer.text)
            tokens += len(answer.token_ids)
            counts["finished"] += finished
            counts["valid"] += finished and valid
            counts["at the last token"] += len(answer.token_ids) == most
            if not (finished and valid):
                bad.append(f"{row['id']}, budget {most}, {answer.finish_reason}: {answer.text[-80:]}")
    counts["requests"] = 2 * len(rows) * (arguments.texts // 2)
    seconds = round(time.perf_counter() - began, 1)
    return {
        "speculation": arguments.speculate,
        "schemas": len(rows),
        **counts,
        "tokens": tokens,
        "seconds": seconds,
        "bad": bad,
    }


# ---- without a model ---------------------------------------------------------------------------------------------------------


def small_vocabulary() -> Any:
    """The vocabulary of the small model."""
    from demo_model import model_folder
    from transformers import AutoTokenizer

    import cdplugin as cd

    return cd.Vocabulary.from_huggingface(AutoTokenizer.from_pretrained(model_folder()))


def members(row: np.ndarray) -> np.ndarray:
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))


class Model:
    """Random logits that disfavour end tokens, so that texts go on until they must end: 64 rows, and noise to draw by."""

    def __init__(self, vocab: Any, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.logits = 3 * self.rng.standard_normal((64, vocab.size))
        self.logits[:, list(vocab.eos_token_ids)] -= 4
        self.noise = self.rng.gumbel(size=(64, vocab.size))

    def pick(self, row: np.ndarray, greedy: bool = False) -> int:
        """A token of a mask: the likeliest one, or one that is drawn."""
        tokens = members(row)
        one, two = self.rng.integers(64, size=2)
        scores = self.logits[one][tokens] + (0 if greedy else self.noise[two][tokens])
        return int(tokens[int(np.argmax(scores))])


def walks(arguments: argparse.Namespace) -> dict[str, Any]:
    """Walk random texts under budgets, and check how each ends."""
    import cdplugin as cd

    vocab = small_vocabulary()
    compiler = cd.Compiler(vocab)
    rows = rows_of(arguments.schemas, arguments.count, arguments.seed, 4_000)
    model = Model(vocab, arguments.seed)
    counts = {"texts": 0, "too small": 0, "finished": 0, "valid": 0, "at the last token": 0}
    bad: list[str] = []
    mask = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    for number, row in enumerate(rows):
        grammar = compiler.compile(cd.JsonSchema(row["schema"]))
        for turn in range(arguments.texts):
            budget = int(model.rng.integers(20, 301))
            matcher, greedy = grammar.matcher(), turn % 2 == 0
            counts["texts"] += 1
            least = len(matcher.shortest_completion()) + 1
            for left in range(budget, 0, -1):
                try:
                    matcher.fill_next_token_bitmask(mask, 0, left)
                except cd.BudgetError:
                    break
                matcher.accept_token(model.pick(mask[0], greedy))
                if matcher.is_terminated():
                    break
            if not matcher.tokens and least > budget:
                counts["too small"] += 1
                continue
            counts["finished"] += matcher.is_terminated()
            counts["at the last token"] += len(matcher.tokens) == budget
            text = vocab.decode(matcher.tokens[:-1]).decode(errors="replace")
            counts["valid"] += matcher.is_terminated() and is_valid(row["schema"], text)
            if not matcher.is_terminated() or not is_valid(row["schema"], text):
                bad.append(f"{row['id']}, budget {budget}: {text[-80:]}")
        print(f"{number + 1}/{len(rows)} {counts}", file=sys.stderr)
    return {"schemas": len(rows), **counts, "bad": bad}


def cost(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time masks with and without a budget."""
    import cdplugin as cd

    vocab = small_vocabulary()
    first = cd.Compiler(vocab)  # what all grammars of a vocabulary share lives as long as one compiler does: a server's
    first.compile(cd.JsonObject()).matcher().fill_next_token_bitmask(np.zeros((1, (vocab.size + 31) // 32), np.int32), 0, 99)
    rows = rows_of(arguments.schemas, arguments.count, arguments.seed, 4_000)
    model = Model(vocab, arguments.seed)
    mask = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    times: dict[str, list[float]] = {}
    firsts: list[float] = []

    def follow(grammar: Any, tokens: list[int], budget: int | None, name: str, last: int = 0) -> None:
        """Time each mask along a text, or along its last tokens."""
        matcher = grammar.matcher()
        out = times.setdefault(name, [])
        for place, token in enumerate(tokens):
            left = None if budget is None else budget - place
            began = time.perf_counter_ns()
            matcher.fill_next_token_bitmask(mask, 0, left)
            if not last or place >= len(tokens) - last:
                out.append((time.perf_counter_ns() - began) / 1e3)
            matcher.accept_token(token)

    for row in rows:
        spec = cd.JsonSchema(row["schema"])
        grammar = cd.Compiler(vocab).compile(spec)
        matcher = grammar.matcher()
        try:
            for left in range(arguments.tokens, 0, -1):
                matcher.fill_next_token_bitmask(mask, 0, left)
                matcher.accept_token(model.pick(mask[0]))
                if matcher.is_terminated():
                    break
        except cd.BudgetError:
            continue
        tokens = list(matcher.tokens)
        ends = len(tokens)
        for turn in range(2):  # each first half the time
            order = [("none", None), ("far", arguments.far)]
            for name, budget in order[:: 1 if turn else -1]:
                fresh = cd.Compiler(vocab).compile(spec)
                follow(fresh, tokens, budget, f"{name}, cold")
                for _ in range(3):
                    follow(fresh, tokens, budget, f"{name}, warm")
        fresh = cd.Compiler(vocab).compile(spec)
        follow(fresh, tokens, ends, "near, cold", 40)
        follow(fresh, tokens, ends, "near, warm", 40)
        fresh = cd.Compiler(vocab).compile(spec)
        follow(fresh, tokens, None, "last 40 without, cold", 40)
        follow(fresh, tokens, None, "last 40 without, warm", 40)
        began = time.perf_counter()
        fresh.matcher().fill_next_token_bitmask(mask, 0, arguments.far)
        firsts.append(1e3 * (time.perf_counter() - began))
    summary = {
        name: {"masks": len(t), "mean µs": round(statistics.fmean(t), 2), "p50 µs": round(statistics.median(t), 2)}
        for name, t in times.items()
    }

    def ratio(one: str, two: str) -> dict[str, float]:
        return {key: round(summary[one][key] / summary[two][key], 3) for key in ("mean µs", "p50 µs")}

    return {
        "schemas": len(rows),
        "far budget": arguments.far,
        "times": summary,
        "far / none, warm": ratio("far, warm", "none, warm"),
        "far / none, cold": ratio("far, cold", "none, cold"),
        "near / none, warm": ratio("near, warm", "last 40 without, warm"),
        "near / none, cold": ratio("near, cold", "last 40 without, cold"),
        "first mask with a far budget, ms, p50": round(statistics.median(firsts), 2),
    }


_LANGUAGES = ("CPP", "SQL", "PYTHON", "arithmetic", "json_by_hand", "python_subset", "c_expressions", "common")
_BUDGETS = (None, 100_000, 2_000, 300)


def languages(arguments: argparse.Namespace) -> dict[str, Any]:
    """Time masks of Lark grammars, which have longest match, under budgets."""
    sys.path.append(str(ROOT / "tests"))
    from bench_lark import grammars
    from mask_engines import Tokenizer

    import cdplugin as cd

    tokenizer = Tokenizer("llama3")
    vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=[tokenizer.eos])
    compiler = cd.Compiler(vocab)
    mask = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    out: dict[str, Any] = {}
    known = grammars()
    for name in _LANGUAGES:
        text, texts = known[name]
        times: dict[str, list[float]] = {}
        for number, budget in enumerate(_BUDGETS):
            grammar = compiler.compile(cd.Lark(text + "\n" * (number + 1)))  # another text: a grammar of its own
            for turn in ("cold", "warm"):
                found = times.setdefault(f"{budget or 'none'}, {turn}", [])
                for one in texts[:2]:
                    matcher = grammar.matcher()
                    for place, token in enumerate(tokenizer.encode(one)[: min(300, (budget or 300) - 100)]):
                        began = time.thread_time_ns()
                        matcher.fill_next_token_bitmask(mask, 0, budget and budget - place)
                        found.append((time.thread_time_ns() - began) / 1e3)
                        if not matcher.accept_token(token):
                            break
        out[name] = {
            key: {
                "masks": len(t),
                "mean µs": round(statistics.fmean(t), 1),
                "p50 µs": round(statistics.median(t), 1),
                "largest µs": round(max(t)),
            }
            for key, t in times.items()
        }
        print(name, {key: (row["p50 µs"], row["mean µs"]) for key, row in out[name].items()}, file=sys.stderr)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["serve", "many", "walks", "cost", "languages"])
    parser.add_argument("schemas", type=Path, nargs="?")
    parser.add_argument("backend", nargs="?", default="cdplugin")
    parser.add_argument("--count", type=int, default=24, help="schemas")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--texts", type=int, default=10, help="texts for each schema (walks)")
    parser.add_argument("--far", type=int, default=100_000, help="the far budget (cost)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speculate", action="store_true")
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    result = {"serve": serve, "many": many, "walks": walks, "cost": cost, "languages": languages}[arguments.what](arguments)
    result["machine"] = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(json.dumps(result, indent=1, ensure_ascii=False))
    if arguments.out:
        known = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
        name = arguments.what if arguments.what != "serve" else f"serve {arguments.backend}"
        name += " with speculation" * arguments.speculate + " greedy" * arguments.greedy
        arguments.out.write_text(json.dumps({**known, name: result}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
