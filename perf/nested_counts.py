"""Counts inside counts: how long the masks of a text take, token by token, when they are met for the first time.

    python perf/nested_counts.py [--vocab llama3|bytes] [--json FILE]

Each pattern is measured alone and, with ``maxLength``, as a JSON string. The derivatives of such a pattern have a part for
each pair of counts, unless a part that allows more absorbs the rest (``kernels/regex/expressions.py: _absorb``). For each
pattern the script prints the longest mask and all masks, in ms of the thread's CPU time, the number of values that were
made, and what was given up (``LimitExceeded``). To compare two versions in turns, run both with ``PYTHONPATH`` set to each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from mask_engines import Tokenizer

import cdplugin as cd

CASES = (
    (r"(.{1,63}\.){1,127}[a-z0-9-]+", "example.com.foo.bar.baz"),
    (r"(a{1,63}b?){1,127}", "aaaaaaaaabaaaab"),
    (r"((a|b){1,30}c?){1,30}z", "ababcabcbcbabcbabcaz"),
    (r"([a-z]{0,30}[a-z0-9]{0,30}){0,30}", "abc0123abcabcabc"),
    (r".*a.{0,200}", "hello a world aaaa"),
    (r"(.{1,20},?){5,50}", "ab,cd,ef,ab,foo bar,"),
    (r"((x{1,9}){1,9}){1,9}y", "xxxxxxxxxxxxxxxxy"),
    (r"(\w{2,8}[ -]?){3,40}", "hello world and foo bar"),
    (r"([a-c]{1,5}[b-d]{1,5}){2,30}", "abcdabcdabcbcbcdabc"),
    (r"(.*,){10}x", "a,b,c,d,e,f,g,"),
    (r"(?:.{1,4}|ab){3,60}", "ababababababababab"),
    (r"((\d{1,3}\.?){1,4},?){1,99}", "127.0.0.1,127.0.0.1"),
    (r"(.{0,5}x){0,9}(.{0,7}y){0,9}(.{0,9}z){0,9}", "abcxabyx..yzabz"),
)
MOST_CHARACTERS = 300


def measured(grammar: cd.Grammar, tokens: list[int], mask: Any) -> dict[str, Any]:
    """Time the masks of a text until it ends, leaves the grammar, or is given up."""
    matcher = grammar.matcher()
    times: list[float] = []
    given_up = False
    for token in tokens:
        start = time.thread_time_ns()
        try:
            matcher.fill_next_token_bitmask(mask)
            given_up = not matcher.accept_token(token)
        except cd.LimitExceeded:
            given_up = True
        times.append((time.thread_time_ns() - start) / 1e6)
        if given_up:
            break
    return {
        "longest_ms": round(max(times), 3),
        "all_ms": round(float(np.sum(times)), 3),
        "tokens": len(times),
        "values": grammar.counters()["values"],
        "given_up": given_up,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocab", default="llama3")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    tokenizer = Tokenizer(arguments.vocab)
    vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos)
    compiler = cd.Compiler(vocab)
    mask = cd.allocate_token_bitmask(1, vocab.size)
    compiler.compile(cd.JsonSchema({"type": "integer"})).matcher().fill_next_token_bitmask(mask)
    out: dict[str, Any] = {"command": " ".join(sys.argv), "patterns": {}}
    for pattern, text in CASES:
        schema = {"type": "string", "pattern": f"^({pattern})$", "maxLength": MOST_CHARACTERS}
        out["patterns"][pattern] = {
            "alone": measured(compiler.compile(cd.Regex(pattern)), tokenizer.encode(text), mask),
            "string": measured(compiler.compile(cd.JsonSchema(schema)), tokenizer.encode(json.dumps(text)[:-1]), mask),
        }
    print(json.dumps(out, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
