"""How many schemas of MaskBench compile, and whether every instance is judged right: without masks, with bytes as tokens.

    python perf/schema_counts.py CASES.jsonl.gz [--order any] [--every N] [--json FILE]

A schema passes if it compiles, every valid instance is accepted and no invalid one is. The script prints what does not
pass.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import cdplugin as cd


def judge(compiler: cd.Compiler, case: dict[str, Any], order: str) -> tuple[str, str]:
    """``pass``, ``refused``, ``invalid accepted``, ``valid rejected`` or ``gave up``, and a reason."""
    try:
        grammar = compiler.compile(cd.JsonSchema(case["schema"], property_order=order))
    except cd.GrammarError as error:
        return "refused", str(error).splitlines()[0]
    found = "pass", ""
    for test in case["tests"]:
        data = json.dumps(test["data"], ensure_ascii=False).encode()
        matcher = grammar.matcher()
        try:
            taken = matcher.accept_tokens(list(data))
            accepted = taken == len(data) and matcher.is_accepting()
        except cd.CdpluginError as error:
            return "gave up", str(error).splitlines()[0]
        if accepted and not test["valid"]:
            return "invalid accepted", json.dumps(test["data"])[:200]
        if test["valid"] and not accepted:
            found = "valid rejected", f"after {data[max(0, taken - 60) : taken]!r}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--order", default="any", choices=["any", "schema"])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    compiler = cd.Compiler(cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256))
    counts: Counter[str] = Counter()
    others: list[dict[str, str]] = []
    with gzip.open(given.cases, "rt", encoding="utf-8") as lines:
        for i, line in enumerate(lines):
            if i % given.every:
                continue
            case = json.loads(line)
            verdict, why = judge(compiler, case, given.order)
            counts[verdict] += 1
            if verdict != "pass":
                others.append({"id": case["id"], "verdict": verdict, "why": why})
                print(verdict, case["id"], why, sep=": ", flush=True)
    print(sum(counts.values()), dict(counts))
    if given.json:
        given.json.write_text(json.dumps({"order": given.order, "counts": counts, "others": others}, indent=1) + "\n")


if __name__ == "__main__":
    main()
