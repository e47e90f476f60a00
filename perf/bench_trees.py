"""Two source trees beside each other on MaskBench: compiling, first mask, and mask + accept, cold and warm.

    git worktree add /tmp/before a343fe6
    python perf/bench_trees.py /tmp/before . --every 60 --passes 6 --out perf/results/…json

Each tree's engine runs in a process of its own. The two take turns schema by schema, and the order changes from pass to
pass, so that a busy machine is as busy for both. Times are CPU time of the thread. A pass makes each schema's rules
(``to_ir``), compiles them anew, and follows the schema's instances, once cold and once warm. The first pass warms the
caches of the process; of the others, the least time of each event counts.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import pickle
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

MEASURED = {
    "rules": "front end (µs)",
    "compile": "compiling rules (µs)",
    "first": "first mask, with that (µs)",
    "cold": "mask + accept (µs)",
    "warm": "again (µs)",
}


class Worker:
    """One tree's engine; runs in a process whose ``PYTHONPATH`` names the tree."""

    def __init__(self, vocab: str) -> None:
        import mask_engines

        import cdplugin as cd

        class Ready(cd.Spec):
            """A spec whose rules are already made."""

            def __init__(self, ir: Any) -> None:
                self.ir = ir

            def key(self) -> None:
                return None

            def to_ir(self, limits: Any, ir: Any = None) -> Any:
                return self.ir

        self.cd, self.ready = cd, Ready
        tokenizer = mask_engines.Tokenizer(vocab)
        self.encode = tokenizer.encode
        self.compiler = cd.Compiler(cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=tokenizer.eos))
        self.mask = cd.allocate_token_bitmask(1, self.compiler.vocab.size)
        for schema, data in (({"type": "object"}, {"a": [1, "b"]}), ({"type": "integer"}, 1)):
            self.run(schema, [self.encode(json.dumps(data))])
        gc.collect()
        gc.freeze()

    def walk(self, grammar: Any, tokens: list[int]) -> list[int]:
        """Nanoseconds of mask + accept per token, until one is refused."""
        matcher, mask, clock = grammar.matcher(), self.mask, time.thread_time_ns
        times = []
        for token in tokens:
            start = clock()
            matcher.fill_next_token_bitmask(mask, 0)
            accepted = matcher.accept_token(token)
            times.append(clock() - start)
            if not accepted:
                break
        return times

    def run(self, schema: Any, texts: list[list[int]]) -> dict[str, list[int]]:
        """Nanoseconds by what was measured; empty if the schema is refused."""
        clock = time.thread_time_ns
        try:
            gc.collect()
            gc.disable()  # as `compile` does
            start = clock()
            spec = self.ready(self.cd.JsonSchema(schema).to_ir(self.compiler.limits))
            rules = clock() - start
            gc.enable()
            gc.collect()
            start = clock()
            grammar = self.compiler.compile(spec)
            compiled = clock()
            grammar.matcher().fill_next_token_bitmask(self.mask, 0)
            first = clock()
            cold = [time for text in texts for time in self.walk(grammar, text)]
            warm = [time for text in texts for time in self.walk(grammar, text)]
        except self.cd.GrammarError:
            gc.enable()
            return {}
        return {"rules": [rules], "compile": [compiled - start], "first": [first - start], "cold": cold, "warm": warm}


def serve(vocab: str) -> None:
    """Answer schemas by times until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker(vocab)
    pickle.dump("ready", answers)
    answers.flush()
    for line in sys.stdin.buffer:
        case = json.loads(line)
        texts = [worker.encode(json.dumps(test["data"], ensure_ascii=False)) for test in case["tests"]]
        pickle.dump(worker.run(case["schema"], texts), answers)
        answers.flush()


class Tree:
    """A tree's process, from outside. ``passes``: what each pass measured, schema by schema."""

    def __init__(self, root: Path, vocab: str) -> None:
        one = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "NUMBA", "RAYON", "MKL", "OPENBLAS")}
        paths = os.pathsep.join((str(root), str(Path(__file__).resolve().parent)))
        self.child = subprocess.Popen(
            [sys.executable, __file__, "--serve", "--vocab", vocab],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | one | {"PYTHONPATH": paths, "TOKENIZERS_PARALLELISM": "0"},
            cwd=root,
        )
        self.passes: list[list[dict[str, list[int]]]] = []
        assert self.child.stdout is not None
        assert pickle.load(self.child.stdout) == "ready"

    def ask(self, line: bytes) -> dict[str, list[int]]:
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(line.strip() + b"\n")
        self.child.stdin.flush()
        return pickle.load(self.child.stdout)

    def best(self, what: str, schemas: list[int]) -> np.ndarray:
        """The least time of each event, in microseconds, over all passes but the first."""
        kept = self.passes[1:] or self.passes
        rows = [np.concatenate([np.array(one[s][what], float) for s in schemas if one[s]]) for one in kept]
        return np.min(rows, axis=0) / 1000


def summary(times: np.ndarray) -> dict[str, float]:
    found = {"mean": times.mean()} | {f"p{q}": np.percentile(times, q) for q in (50, 90, 99)}
    return {name: round(float(value), 2) for name, value in found.items()} | {"n": len(times)}


def revision(root: Path) -> str:
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs="*", type=Path, help="roots of two source trees: the earlier one, the later one")
    parser.add_argument("--data", type=Path, default=Path("../shared/maskbench/dev.jsonl.gz"))
    parser.add_argument("--every", type=int, default=60)
    parser.add_argument("--passes", type=int, default=6)
    parser.add_argument("--vocab", default="llama3")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.vocab)
        return
    lines = gzip.decompress(arguments.data.read_bytes()).splitlines()[:: arguments.every]
    trees = [Tree(root.resolve(), arguments.vocab) for root in arguments.trees]
    for number in range(arguments.passes):
        for tree in trees:
            tree.passes.append([])
        for place, line in enumerate(lines):
            for tree in trees if (number + place) % 2 == 0 else trees[::-1]:
                tree.passes[-1].append(tree.ask(line))
        print(f"pass {number + 1} of {arguments.passes}", file=sys.stderr, flush=True)

    def lengths(tree: Tree, schema: int) -> list[int]:
        return [len(times) for times in tree.passes[-1][schema].values()]

    alike = [s for s in range(len(lines)) if lengths(trees[0], s) and len({tuple(lengths(tree, s)) for tree in trees}) == 1]
    result: dict[str, Any] = {
        "command": "python perf/bench_trees.py " + " ".join(sys.argv[1:]),
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}",
        "revisions": [revision(tree) for tree in arguments.trees],
        "schemas": len(lines),
        "compared": len(alike),
    }
    for what, name in MEASURED.items():
        rows = [summary(tree.best(what, alike)) for tree in trees]
        ratios = {key: round(rows[-1][key] / rows[0][key], 3) for key in rows[0]}
        result[name] = {"trees": rows, "ratio": ratios}
        print(f"{name:34}" + "  ".join(f"{key} {rows[0][key]:g} → {rows[-1][key]:g} ({ratios[key]:.3f})" for key in ratios))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
