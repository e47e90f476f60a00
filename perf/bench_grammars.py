"""Time of mask + accept on GBNF grammars and structural tags beside xgrammar, with literals folded and without, in turns.

    python perf/bench_grammars.py [--only NAME] [--out FILE]

Times are CPU time of one thread (``time.thread_time_ns``), over the canonical tokens of each text in Llama 3's vocabulary.
*cold*: a freshly compiled grammar computes all masks; *warm*: the same texts once more.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import records
from mask_engines import Cdplugin, Tokenizer, Xgrammar

import cdplugin as cd
from cdplugin.frontends.bnf import compile_bnf

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

_CALL = '{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}'
_SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"const": "weather"},
        "arguments": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
    "required": ["name", "arguments"],
}
TAGS = {
    "tool calls in free text": (
        {
            "type": "triggered_tags",
            "triggers": ["<tool_call>"],
            "tags": [
                {
                    "type": "tag",
                    "begin": "<tool_call>\n",
                    "content": {"type": "json_schema", "json_schema": _SCHEMA},
                    "end": "\n</tool_call>",
                }
            ],
        },
        (
            "I shall look at the weather in Oslo, in < 3 days.\n\n<tool_call>\n"
            + _CALL
            + "\n</tool_call>\nThat is it: wait for it.",
        ),
    ),
    "reasoning": (
        {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"},
        ("<think>\nThe user asks for the weather, so I call the tool with a < b and </ nothing else.\n</think>",),
    ),
}


def run(engine: Any, grammar: Any, tokens: list[list[int]]) -> float:
    """Microseconds per token of mask + accept."""
    spent, count = 0, 0
    for ids in tokens:
        matcher = engine.matcher(grammar)
        for token in ids:
            start = time.thread_time_ns()
            engine.fill(matcher)
            taken = engine.accept(matcher, token)
            spent += time.thread_time_ns() - start
            count += 1
            if not taken:
                raise RuntimeError(f"token {token} is refused")
    return spent / count / 1e3


Job = tuple[str, dict[str, tuple[Any, Callable[[], Any]]], tuple[str, ...]]


def grammar_job(name: str, case: Any, ours: Cdplugin, peer: Xgrammar) -> Job:
    """A GBNF grammar of the tests, compiled three ways."""

    def compile_ours(fold: bool) -> Any:
        return ours.compiler.compile_ir(compile_bnf(case.grammar, "gbnf", fold=fold))

    engines: dict[str, tuple[Any, Callable[[], Any]]] = {
        "folded": (ours, lambda: compile_ours(True)),
        "unfolded": (ours, lambda: compile_ours(False)),
        "xgrammar": (peer, lambda: peer.compiler.compile_grammar(case.theirs or case.grammar)),
    }
    return name, engines, case.texts


def tag_job(name: str, fmt: Any, texts: tuple[str, ...], ours: Cdplugin, peer: Xgrammar) -> Job:
    """A structural tag, compiled twice."""
    whole = {"type": "structural_tag", "format": fmt}
    engines: dict[str, tuple[Any, Callable[[], Any]]] = {
        "cdplugin": (ours, lambda: ours.compiler.compile_ir(cd.StructuralTag(whole).to_ir(cd.Limits()))),
        "xgrammar": (peer, lambda: peer.compiler.compile_structural_tag(json.dumps(whole))),
    }
    return name, engines, texts


def main() -> None:
    from gbnf_grammars import CASES

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    given = parser.parse_args()
    tokenizer = Tokenizer("llama3")
    ours, peer = Cdplugin(tokenizer), Xgrammar(tokenizer)
    jobs = [grammar_job(name, case, ours, peer) for name, case in CASES.items()]
    jobs += [tag_job(name, fmt, texts, ours, peer) for name, (fmt, texts) in TAGS.items()]
    print("| grammar | engine | compile ms | cold µs/token | warm µs/token |\n|---|---|---:|---:|---:|")
    warm_up = ours.compiler.compile(cd.Regex("a*")).matcher()
    ours.fill(warm_up)
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name, engines, texts in jobs:
        if given.only and given.only not in name:
            continue
        tokens = [tokenizer.encode(text) for text in texts]
        for label, (engine, compile_it) in engines.items():
            start = time.thread_time_ns()
            grammar = compile_it()
            compiled = (time.thread_time_ns() - start) / 1e6
            cold = run(engine, grammar, tokens)
            warm = min(run(engine, grammar, tokens) for _ in range(3))
            print(f"| {name} | {label} | {compiled:.1f} | {cold:.1f} | {warm:.2f} |", flush=True)
            row = {"compile ms": round(compiled, 2), "cold us": round(cold, 2), "warm us": round(warm, 3)}
            rows.setdefault(name, {})[label] = row
    records.keep(given.out, ("cdplugin", "xgrammar"), grammars=rows)


if __name__ == "__main__":
    main()
