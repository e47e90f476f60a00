"""Time of mask + accept on objects with many required members: any order beside the declared order, in turns in one run.

    python perf/any_order.py [--members 50 500 2000] [--kinds 1 4] [--json FILE]

Times are CPU time of one thread (``time.thread_time``), with Llama 3's vocabulary. Each object has one text, followed in
its canonical tokens with a fresh grammar; for any order its members are shuffled. ``--kinds`` says how many types the
members' values have. As vLLM does, the script hides from Python's garbage collector (``gc.freeze``) what the process has at
its start: the tokenizer and the vocabulary.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from pathlib import Path
from typing import Any

from mask_engines import Tokenizer

import cdplugin as cd

VALUES: dict[str, Any] = {"integer": 7, "string": "some text", "boolean": True, "number": 1.5}


def measure(n: int, kinds: int, order: str, compiler: cd.Compiler, tokenizer: Tokenizer) -> dict[str, float]:
    """Milliseconds to the first mask, microseconds a token, the number of tokens, and MiB of the grammar."""
    types = list(VALUES)[:kinds]
    names = {f"name_{i:05d}_{i * 7919 % 10007}": types[i % kinds] for i in range(n)}
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in names.items()},
        "required": list(names),
        "additionalProperties": False,
    }
    row = cd.allocate_token_bitmask(1, compiler.vocab.size)
    started = time.thread_time()
    grammar = compiler.compile(cd.JsonSchema(schema, property_order=order))
    matcher = grammar.matcher()
    matcher.fill_next_token_bitmask(row)
    first = time.thread_time() - started
    shuffled = list(names)
    if order == "any":
        random.Random(1).shuffle(shuffled)
    ids = tokenizer.encoding.encode(json.dumps({name: VALUES[names[name]] for name in shuffled}))
    started = time.thread_time()
    for token in ids:
        matcher.fill_next_token_bitmask(row)
        assert matcher.accept_token(token)
    spent = time.thread_time() - started
    assert matcher.is_accepting()
    return {
        "first_ms": round(1e3 * first, 1),
        "token_us": round(1e6 * spent / len(ids), 1),
        "tokens": len(ids),
        "mib": round(grammar.counters()["bytes"] / 2**20, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, nargs="*", default=[50, 500, 2000])
    parser.add_argument("--kinds", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    tokenizer = Tokenizer("llama3")
    compiler = cd.Compiler(cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=[tokenizer.eos]))
    measure(51, 1, "schema", compiler, tokenizer)  # no schema that is measured: masks that were there before cost nothing
    gc.collect()
    gc.freeze()
    results = []
    print("| members | kinds | declared order, µs a token | any order | ratio | MiB | first mask, ms |")
    print("|---|---|---|---|---|---|---|")
    for n in given.members:
        for kinds in given.kinds:
            declared, free = (measure(n, kinds, order, compiler, tokenizer) for order in ("schema", "any"))
            results.append({"members": n, "kinds": kinds, "declared": declared, "any": free})
            ratio = free["token_us"] / declared["token_us"]
            cells = [n, kinds, declared["token_us"], free["token_us"], f"{ratio:.1f}×", f"{declared['mib']}, {free['mib']}"]
            print("|", *(f"{cell} |" for cell in cells), f"{declared['first_ms']}, {free['first_ms']} |", flush=True)
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
