"""Where the time from a schema to its first mask goes, stage by stage, for schemas about the median and about p90.

    python perf/first_mask_stages.py ../shared/maskbench/dev.jsonl.gz --every 30 [--thrash]

Times are CPU time of one thread; each stage includes one call of the clock (0.3 µs). Of each schema the fastest of four
passes counts, each with an empty compiler. With ``--thrash`` the script reads 32 MB before each schema, so that code and
tables have left the processor's caches, as between requests. The stages follow :meth:`cdplugin.Compiler.compile`, whose
steps the script calls one by one.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mask_engines import Tokenizer

import cdplugin as cd
from cdplugin.compiler import _build
from cdplugin.memory import short_key, size_of

QUANTILES = {"about the median": (0.4, 0.6), "about p90": (0.85, 0.95)}


def follow(compiler: cd.Compiler, schema: Any, mask: Any, lap: Callable[[str], None]) -> None:
    """Compile a schema that is not known, and fill its first mask. Tell ``lap`` after each stage which one it was."""
    spec = cd.JsonSchema(schema)
    key = short_key(spec.key())
    compiler._cache.get(key)
    compiler._in_use.get(key)
    lap("key")
    gc.disable()
    ir = spec.rules(compiler.limits)
    lap("front end: schema to rules")
    template = compiler._base
    assert template is not None
    arena = template.arena.clone()
    lap("arena: a clone of the template")
    with arena.one_budget(compiler.limits.max_compile_work, "max_compile_work"):
        tables = _build(ir, template, arena, compiler.limits)
        lap("lexemes evaluated, rules laid out")
        grammar = cd.Grammar(tables, template.arena, arena, ir.relaxed)
    lap("grammar: tables installed, start cursor, bytes counted")
    del ir
    gc.enable()
    lap("rules freed")
    grammar.account.note("key", size_of(key))
    grammar, serial = compiler._cache.put(key, grammar, grammar.nbytes)
    grammar.account.keep_in(compiler._cache, key, serial)
    compiler._in_use[key] = grammar
    lap("kept in the cache")
    matcher = grammar.matcher()
    lap("matcher")
    matcher.fill_next_token_bitmask(mask, 0)
    lap("first mask")


def measure(compiler: cd.Compiler, schema: Any, mask: Any) -> dict[str, int] | None:
    """Nanoseconds by stage; None if the schema is refused."""
    clock, stages, last = time.thread_time_ns, dict[str, int](), 0

    def lap(stage: str) -> None:
        nonlocal last
        stages[stage] = clock() - last
        last = clock()

    try:
        last = clock()
        follow(compiler, schema, mask, lap)
    except cd.GrammarError:
        return None
    finally:
        gc.enable()
    return stages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="MaskBench: lines of JSON, gzip")
    parser.add_argument("--every", type=int, default=30)
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--vocab", default="llama3")
    parser.add_argument("--thrash", action="store_true")
    given = parser.parse_args()
    tokenizer = Tokenizer(given.vocab)
    vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos)
    mask = cd.allocate_token_bitmask(1, vocab.size)
    schemas = [json.loads(line)["schema"] for line in gzip.decompress(given.data.read_bytes()).splitlines()[:: given.every]]
    others = np.ones((32 << 20) // 8)
    best: dict[int, dict[str, int]] = {}
    for _ in range(given.passes):
        compiler = cd.Compiler(vocab)
        compiler.compile(cd.JsonSchema({"type": "integer"}))  # makes the template
        for number, schema in enumerate(schemas):
            if given.thrash:
                others.sum()
            found = measure(compiler, schema, mask)
            if found and (number not in best or sum(found.values()) < sum(best[number].values())):
                best[number] = found
    ranked = sorted(best.values(), key=lambda stages: sum(stages.values()))
    parts = [ranked[int(low * len(ranked)) : int(high * len(ranked))] for low, high in QUANTILES.values()]
    print(f"{'µs, ' + str(len(ranked)) + ' schemas':56}" + "".join(f"{name:>18}" for name in QUANTILES))
    for stage in ranked[0]:
        print(f"{stage:56}" + "".join(f"{np.mean([row[stage] for row in part]) / 1000:18.1f}" for part in parts))
    print(f"{'all':56}" + "".join(f"{np.mean([sum(row.values()) for row in part]) / 1000:18.1f}" for part in parts))


if __name__ == "__main__":
    main()
