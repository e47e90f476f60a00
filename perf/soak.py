"""Does a process that serves all kinds of requests keep its size? Good, large and hostile requests go through one engine.

    .venv/bin/python perf/soak.py ../shared/maskbench/dev.jsonl.gz --requests 20000 --out perf/results/soak.json

Each request is checked, compiled, and followed for some tokens that its masks allow, as a server does it. A request that is
refused, or crosses a budget, counts as answered. Seven in ten are schemas of MaskBench (built-in ones if there is no file);
the others are large, or written to take much. At intervals the script writes resident memory, and the bytes of all caches
beside their budgets. The goal: from a tenth of the requests on, resident memory stays within 5%, and no cache exceeds its
budget.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cdplugin as cd
from cdplugin import memory
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm.grammar import Engine, GrammarState
from cdplugin.bitmask import allocate_token_bitmask

Request = tuple[str, str]
"""What vLLM calls its type (JSON, REGEX, GRAMMAR, CHOICE), and its text."""
_STEPS = 12
_SAMPLES = 40
_WARM = 0.1  # of the requests, after which memory is to stay as it is


def good_requests(path: Path | None) -> list[Request]:
    """The schemas of a MaskBench file, or some built-in ones."""
    if path is not None and path.exists():
        with gzip.open(path, "rt") as lines:
            return [("JSON", json.dumps(json.loads(line)["schema"])) for line in lines]
    print("no MaskBench file: built-in schemas", file=sys.stderr)
    names = ["id", "name", "email", "created", "tags", "count", "price", "parent"]
    kinds: list[dict[str, Any]] = [
        {"type": "string", "maxLength": 40},
        {"type": "integer", "minimum": 0},
        {"type": "string", "format": "date-time"},
        {"type": "array", "items": {"type": "string"}, "maxItems": 5},
        {"type": ["number", "null"]},
        {"enum": ["a", "b", "c"]},
    ]
    rng = random.Random(0)
    schemas = [{name: rng.choice(kinds) for name in rng.sample(names, rng.randint(1, 8))} for _ in range(500)]
    return [("JSON", json.dumps({"type": "object", "properties": each, "required": list(each)[:2]})) for each in schemas]


def large_request(rng: random.Random) -> Request:
    """A large spec that is meant well."""
    number = rng.randrange(10**9)
    kind = rng.randrange(4)
    if kind == 0:
        return "CHOICE", json.dumps([f"choice {number} {i}" for i in range(rng.randint(500, 5_000))])
    if kind == 1:
        properties = {f"name{number}_{i}": {"type": rng.choice(["string", "integer", "boolean"])} for i in range(300)}
        return "JSON", json.dumps({"type": "object", "properties": properties})
    if kind == 2:
        return "GRAMMAR", "root ::= " + " | ".join(f'"{number}-{i}" [a-z]+' for i in range(400))
    return "REGEX", "|".join(f"{number}{i}[a-z0-9]{{3,{5 + i % 7}}}" for i in range(200))


def hostile_request(rng: random.Random) -> Request:
    """A small spec that takes much work, or a large one that is refused."""
    number = rng.randrange(10**9)
    makers: list[Callable[[], Request]] = [
        lambda: ("JSON", json.dumps({"type": "integer", "multipleOf": 97, "minimum": number, "maximum": number * 1000})),
        lambda: ("JSON", json.dumps({"type": "number", "minimum": number / 7, "maximum": number / 3})),
        lambda: ("REGEX", f"(a|b)*a(a|b){{{8 + number % 6}}}c{number}"),
        lambda: ("REGEX", "[" + "".join(chr(0x100 + 3 * k + number % 3) for k in range(1_500)) + f"]+{number}"),
        lambda: (
            "JSON",
            json.dumps({"type": "string", "pattern": f"a.{{{number % 20}}}b", "allOf": [{"pattern": f"{number}"}]}),
        ),
        lambda: ("JSON", json.dumps({"properties": {f"p{number}{i}": {} for i in range(40)}, "minProperties": 3})),
        lambda: ("JSON", json.dumps({"type": "array", "uniqueItems": True, "items": {"enum": list(range(number % 50 + 2))}})),
        lambda: ("JSON", '{"enum": [' + f"{number}".ljust(1 << 20)),
        lambda: ("REGEX", f"{number}".ljust(1 << 19, "x") + "("),
        lambda: ("JSON", json.dumps({"enum": [f"{number}" * 2_000 + str(i) for i in range(20)]})),
        lambda: ("JSON", "[" * 100_000 + f"{number}"),
    ]
    return rng.choice(makers)()


def resident() -> int:
    """Bytes of the process that are resident now."""
    gc.collect()
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(statm.read_text().split()[1]) * resource.getpagesize()


def serve(engine: Engine, request: Request, rng: random.Random, bitmask: Any) -> str:
    """Answer one request. Returns how it ended."""
    try:
        engine.check(*request)
        state = engine.state(*request)
    except cd.LimitExceeded:
        return "over a budget"
    except cd.GrammarError:
        return "refused"
    follow(state, engine.vocab.size, rng, bitmask)
    return "served"


def follow(state: GrammarState, size: int, rng: random.Random, bitmask: Any) -> None:
    """Take some tokens that the masks allow."""
    for _ in range(_STEPS):
        if state.is_terminated():
            return
        state.fill_bitmask(bitmask, 0)
        bits = np.unpackbits(np.asarray(bitmask).view(np.uint8), bitorder="little")[:size]
        allowed = np.flatnonzero(bits)
        if not len(allowed) or not state.accept_tokens("soak", [int(rng.choice(allowed))]):
            return


def tokens() -> list[bytes]:
    """A vocabulary's tokens: bytes, and the pieces that JSON, numbers and words are made of."""
    pieces = [
        '{"',
        '":',
        '", "',
        '"}',
        "},",
        "[",
        "]",
        ": ",
        ", ",
        "true",
        "false",
        "null",
        "10",
        "12",
        "2024-",
        "the ",
        "name",
    ]
    rng = random.Random(1)
    words = {"".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 6))) for _ in range(3_000)}
    return [
        *(bytes([b]) for b in range(256)),
        *dict.fromkeys(piece.encode() for piece in [*pieces, *sorted(words)] if len(piece) > 1),
    ]


def soak(requests: int, good: list[Request], limits: dict[str, int], seed: int) -> dict[str, Any]:
    """Send the requests. Returns the memory at intervals."""
    rng = random.Random(seed)
    listed = tokens()
    vocab = cd.Vocabulary.from_bytes([*listed, b"</s>"], eos_token_ids=len(listed))
    engine = Engine(vocab, ServerOptions(limits=limits))
    bitmask = allocate_token_bitmask(1, vocab.size)
    outcomes: Counter[str] = Counter()
    samples: list[dict[str, Any]] = []
    began = time.monotonic()
    every = max(requests // _SAMPLES, 1)
    for done in range(1, requests + 1):
        kind = rng.choices(("good", "large", "hostile"), (70, 10, 20))[0]
        request = rng.choice(good) if kind == "good" else large_request(rng) if kind == "large" else hostile_request(rng)
        outcomes[f"{kind}: {serve(engine, request, rng, bitmask)}"] += 1
        if done % every == 0:
            samples.append({"requests": done, "resident": resident(), "caches": memory.account()})
            print(f"{done:6} requests, {time.monotonic() - began:6.0f} s, {samples[-1]['resident'] >> 20} MiB", file=sys.stderr)
    later = [sample["resident"] for sample in samples if sample["requests"] >= _WARM * requests]
    budgets = memory.budgets()
    most = {name: max(sample["caches"].get(name, 0) for sample in samples) for name in budgets}
    return {
        "requests": requests,
        "seed": seed,
        "limits": limits,
        "outcomes": dict(sorted(outcomes.items())),
        "resident_after_warming": later[0],
        "resident_most": max(later),
        "growth": round(max(later) / later[0] - 1, 4),
        "caches": {name: {"most": most[name], "budget": budgets[name]} for name in budgets},
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="a MaskBench file")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--cache-mib", type=int, default=256, help="Limits.max_cache_bytes")
    parser.add_argument("--arena-mib", type=int, default=32, help="Limits.max_arena_bytes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    limits = {"max_cache_bytes": args.cache_mib << 20, "max_arena_bytes": args.arena_mib << 20}
    found = soak(args.requests, good_requests(args.data), limits, args.seed)
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    del found["samples"]
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
