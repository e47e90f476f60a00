"""Tokens per second on the tasks of the Formatron paper (JSON Schema, JSON grammar, GeoQuery): five engines in turns.

    python perf/formatron_tasks.py [--engines cdplugin,formatron,…] [--repeats 3] [--out FILE]

The protocol follows Sun et al. (*Earley-Driven Dynamic Pruning for Efficient Structured Decoding*, ICML 2025), tables 1 to
3, as far as that is possible without a GPU. It measures the tokens per second of what an engine does (compiling, masks and
parsing) over 1, 3, 5 and 10 texts of one grammar (*runs*). The engines follow the canonical tokens of given texts
(:mod:`formatron_cases`), not a model's answers, so all do the same steps. *1 run* is cold: from the grammar's text to the
end of the first answer. After that nothing is compiled any more: *unseen* has five other texts, *warm* the ten texts once
more.

Times are CPU time of one thread. Each engine runs in a process of its own; the engines take turns session by session, in
another order each time. Texts of *unseen* and *warm* are timed as a whole, without a clock between tokens; percentiles and
runs, with one. Each engine has to accept all texts of a session and refuse its wrong ones; if one engine does not, the
session is left out for all. ``cdplugin -slices`` and the like are an engine with something switched off
(:data:`formatron_engines.SWITCHES`). Peers that are not installed are left out, and the script says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import formatron_engines
from formatron_cases import RUNS, SCHEMAS, TASKS, WARM_UP, Session, sessions
from mask_engines import Tokenizer

CUMULATIVE = (1, 3, 5, RUNS)
"""After how many runs throughput is told, as in the paper's table 2."""
KNOWN = ("unseen", "warm")
WARM_PASSES = 3
SLOW = ("lm-format-enforcer",)
"""Engines that take part in the first repetition only: their times are three orders of magnitude above the others'."""
DEFAULT = "cdplugin,formatron,llguidance,xgrammar,lm-format-enforcer"

# ------------------------------------------------------------------------------------------------------------ the worker


class Worker:
    """One engine, which runs one session at a time in a process of its own."""

    def __init__(self, name: str, vocab: str) -> None:
        self.tokenizer = Tokenizer(vocab)
        self.engine = formatron_engines.make(name, self.tokenizer)
        self.ids = {token: i for i, token in enumerate(self.tokenizer.tokens) if token}
        schema = {"type": "object", "properties": {"warm": {"type": "integer"}}, "required": ["warm"]}
        self.run(Session("json_schema", "warm up", schema | {"additionalProperties": False}, ('{"warm": 1}',), (), ()))
        self.run(Session("geoquery", "warm up", WARM_UP, ("warm('a', _)",), (), ()))
        gc.collect()
        gc.freeze()

    def follow(self, grammar: Any, text: str) -> list[int] | None:
        """The tokens by which the engine takes a text from beginning to end; None if it does not take it.

        These are the canonical tokens. Where the engine refuses one of them (lm-format-enforcer does not know tokens with a
        quote inside), it is the longest token that it allows.
        """
        engine, state = self.engine, self.engine.begin(grammar)
        rest, wanted, taken = text.encode(), self.tokenizer.encode(text), list[int]()
        while rest:
            if state.is_over():
                return None
            state.fill()
            allowed = [self.ids[rest[:n]] for n in range(len(rest), 0, -1) if rest[:n] in self.ids]
            allowed = [i for i in (wanted[:1] + allowed) if engine.bits[i >> 5] >> (i & 31) & 1]
            if not allowed:
                return None
            state.accept(allowed[0])
            taken.append(allowed[0])
            rest = rest[len(self.tokenizer.tokens[allowed[0]] or b"") :]
            is_canonical = bool(wanted) and allowed[0] == wanted[0]
            wanted = wanted[1:] if is_canonical else self.tokenizer.encode(rest.decode("utf-8", "replace"))
        if not state.is_over():
            state.fill()
        return taken if state.is_over() or state.ends() else None

    def timed(self, grammar: Any, tokens: Sequence[int]) -> list[int]:
        """Nanoseconds of each token, mask and accept. The first token includes the beginning of the text."""
        clock, out = time.thread_time_ns, list[int]()
        last = clock()
        fill, accept, *_ = self.engine.begin(grammar)
        for token in tokens:
            fill()
            accept(token)
            now = clock()
            out.append(now - last)
            last = now
        return out

    def whole(self, grammar: Any, tokens: Sequence[int]) -> int:
        """Nanoseconds of a whole text, without a clock between its tokens."""
        start = time.thread_time_ns()
        fill, accept, *_ = self.engine.begin(grammar)
        for token in tokens:
            fill()
            accept(token)
        return time.thread_time_ns() - start

    def tokens_of(self, session: Session) -> tuple[list[list[int]], list[str]]:
        """The tokens of all texts, and the texts that the engine refuses. Only a narrow engine is asked; it learns nothing
        by it.
        """
        texts = (*session.texts, *session.unseen)
        if not self.engine.is_narrow:
            return [self.tokenizer.encode(text) for text in texts], []
        scratch = self.engine.compile(session.task, session.spec)
        found = [self.follow(scratch, text) for text in texts]
        return [ids or [] for ids in found], [text for text, ids in zip(texts, found) if ids is None]

    def run(self, session: Session) -> dict[str, Any]:
        """The times of a session, and the texts that the engine judged wrongly."""
        engine, clock, compile_it = self.engine, time.thread_time_ns, self.engine.compile
        try:
            every, refused = self.tokens_of(session)
            tokens, unseen = every[:RUNS], every[RUNS:]
            gc.collect()
            start = clock()
            grammar = compile_it(session.task, session.spec)
            compiled = clock() - start
        except NotImplementedError as error:
            return {"dropped": str(error)}
        cold, runs, warm, again = list[int](), list[int](), list[int](), list[int]()

        def pass_over(texts: list[list[int]]) -> int:
            passed = 0
            for ids in texts:
                start = clock()
                known = compile_it(session.task, session.spec) if engine.forgets else grammar
                passed += clock() - start + self.whole(known, ids)
            return passed

        for number, ids in enumerate(tokens):
            asked = 0 if number else compiled
            if engine.forgets and number:
                start = clock()
                grammar = compile_it(session.task, session.spec)
                asked = clock() - start
            times = self.timed(grammar, ids)
            cold += times
            runs.append(sum(times) + asked)
        others = pass_over(unseen)
        for _ in range(WARM_PASSES):
            warm.append(pass_over(tokens))
        for ids in tokens:
            again += self.timed(grammar, ids)
        texts = (*session.texts, *session.unseen)
        canonical = [self.tokenizer.encode(text) for text in texts]
        if not engine.is_narrow:
            refused = [text for text, ids in zip(texts, every) if self.follow(grammar, text) != ids]
        return {
            "tokens": [len(ids) for ids in tokens],
            "unseen_tokens": sum(map(len, unseen)),
            "other_tokens": sum(ids not in canonical for ids in every),
            "compile_ns": compiled,
            "runs_ns": runs,
            "unseen_ns": others,
            "warm_ns": statistics.median(warm),
            "cold": cold,
            "warm": again,
            "refused": refused,
            "accepted": [text for text in session.wrong if self.follow(grammar, text) is not None],
        }


def worker_main(name: str, vocab: str) -> None:
    """Read sessions as lines, and answer each by a line. What libraries print goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(name, vocab)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(worker.run(Session(**json.loads(line)))) + "\n")
        answers.flush()


# ------------------------------------------------------------------------------------------------------------ the parent


class Process:
    """A worker seen from outside."""

    def __init__(self, name: str, vocab: str) -> None:
        one = {f"{k}_NUM_THREADS": "1" for k in ("OMP", "NUMBA", "RAYON", "MKL", "OPENBLAS")}
        command = [sys.executable, __file__, "--worker", name, "--vocab", vocab]
        env = os.environ | one | {"TOKENIZERS_PARALLELISM": "0"}
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True)
        assert self.child.stdout is not None
        if self.child.stdout.readline() != "ready\n":
            raise SystemExit(f"the {name} worker did not start: see above")

    def ask(self, session: Session) -> dict[str, Any]:
        """The worker's answer."""
        assert self.child.stdin is not None and self.child.stdout is not None
        self.child.stdin.write(session.to_json() + "\n")
        self.child.stdin.flush()
        line = self.child.stdout.readline()
        if not line:
            raise SystemExit(f"a worker died in {session.task}, {session.name}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def _percentiles(times: list[int]) -> dict[str, float]:
    """Microseconds."""
    values = np.array(times) / 1e3
    quantiles = {f"p{q:g}": round(float(np.percentile(values, q)), 2) for q in (50, 90, 99, 99.9)}
    return {"mean": round(float(values.mean()), 2), **quantiles, "max": round(float(values.max()), 2)}


def summary(answers: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """What one engine did in one task. ``answers``: by session and repetition."""
    firsts = [repeats[0] for repeats in answers]
    if any("dropped" in answer for answer in firsts):
        return {"dropped": firsts[0]["dropped"]}
    speed: dict[str, float] = {}
    for runs in CUMULATIVE:
        spent = sum(statistics.median(sum(a["runs_ns"][:runs]) for a in repeats) for repeats in answers)
        speed[str(runs)] = round(sum(sum(a["tokens"][:runs]) for a in firsts) / spent * 1e9, 1)
    spent = sum(statistics.median(a["unseen_ns"] for a in repeats) for repeats in answers)
    speed["unseen"] = round(sum(a["unseen_tokens"] for a in firsts) / spent * 1e9, 1)
    spent = sum(statistics.median(a["warm_ns"] for a in repeats) for repeats in answers)
    speed["warm"] = round(sum(sum(a["tokens"]) for a in firsts) / spent * 1e9, 1)
    every = [answer for repeats in answers for answer in repeats]
    return {
        "tokens_per_s": speed,
        "compile_us": _percentiles([a["compile_ns"] for a in every]),
        "first_text_us": _percentiles([a["runs_ns"][0] for a in every]),
        "cold_us": _percentiles([t for a in every for t in a["cold"]]),
        "warm_us": _percentiles([t for a in every for t in a["warm"]]),
        "tokens": sum(sum(a["tokens"]) + a["unseen_tokens"] for a in firsts),
        "texts_in_other_tokens": sum(a["other_tokens"] for a in firsts),
    }


def compare(results: dict[str, dict[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """cdplugin's throughput over that of the best peer: task → runs → ``best`` and ``ratio``."""
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for task in TASKS:
        whole = {name: engine.get(task, {}).get("tokens_per_s") for name, engine in results.items() if " -" not in name}
        peers = {name: speed for name, speed in whole.items() if speed}
        ours = peers.pop("cdplugin", None)
        for runs in (*map(str, CUMULATIVE), *KNOWN) if ours and peers else ():
            best = max(peers, key=lambda n: float(peers[n][runs]))
            ratios = {name: round(ours[runs] / speed[runs], 2) for name, speed in peers.items()}
            out.setdefault(task, {})[runs] = {"best": best, "ratio": ratios[best], "ratios": ratios}
    return out


def show(results: dict[str, dict[str, Any]], ratios: dict[str, dict[str, dict[str, Any]]]) -> None:
    """The table for perf/logbook.md."""
    columns = [*(f"{runs} run{'s' * (runs > 1)}" for runs in CUMULATIVE), *KNOWN]
    print(f"| task | engine | {' | '.join(columns)} | compile, p50 | warm µs: p50 | p99 | cold µs: p50 | p99 |")
    print("|---|---|" + "---:|" * (len(columns) + 5))
    for task in TASKS:
        for name, engine in results.items():
            found = engine.get(task, {"dropped": "not asked"})
            if "dropped" in found:
                print(f"| {task} | {name} | {found['dropped']} |" + " |" * (len(columns) + 4))
                continue
            speeds = " | ".join(f"{value:,.0f}" for value in found["tokens_per_s"].values())
            cold, warm = found["cold_us"], found["warm_us"]
            numbers = f"{warm['p50']:,.1f} | {warm['p99']:,.1f} | {cold['p50']:,.1f} | {cold['p99']:,.1f}"
            print(f"| {task} | {name} | {speeds} | {found['compile_us']['p50'] / 1e3:,.1f} ms | {numbers} |")
        for runs, against in ratios.get(task, {}).items():
            print(f"{task}, {runs}: {against['ratio']:.2f}x {against['best']}; {against['ratios']}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=DEFAULT, help="names, comma-separated; what is off after each: 'cdplugin -slices'")
    parser.add_argument("--vocab", default="llama3", help="llama3 or tekken")
    parser.add_argument("--schemas", type=int, default=len(SCHEMAS), help="how many JSON Schemas")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker_main(args.worker, args.vocab)
        return
    named: list[str] = args.engines.split(",")
    names = [name for name in named if formatron_engines.is_installed(name)]
    for name in sorted(set(named) - set(names)):
        print(f"left out: {name} is not installed", file=sys.stderr)
    workers = {name: Process(name, args.vocab) for name in names}
    asked = sessions(args.schemas)
    answers: dict[str, dict[int, list[dict[str, Any]]]] = {name: {i: [] for i in range(len(asked))} for name in names}
    for repeat in range(args.repeats):
        for i, session in enumerate(asked):
            for name in random.Random(f"{repeat}, {i}").sample(names, len(names)):  # nobody always follows the same engine
                if repeat == 0 or name not in SLOW:
                    answers[name][i].append(workers[name].ask(session))
            print(f"{repeat + 1}/{args.repeats}: {session.task}, {session.name}", file=sys.stderr, flush=True)
    wrong = [
        {"engine": name, "task": asked[i].task, "session": asked[i].name, "refused": a["refused"], "accepted": a["accepted"]}
        for name in names
        for i, (a, *_) in answers[name].items()
        if a.get("refused") or a.get("accepted")
    ]
    left_out = {(w["task"], w["session"]) for w in wrong}
    kept = [i for i, session in enumerate(asked) if (session.task, session.name) not in left_out]
    of_task = {task: [i for i in kept if asked[i].task == task] for task in TASKS}
    results = {
        name: {task: summary([answers[name][i] for i in those]) for task, those in of_task.items() if those} for name in names
    }
    ratios = compare(results)
    show(results, ratios)
    for fault in wrong:
        print("left out:", json.dumps(fault, ensure_ascii=False)[:400], file=sys.stderr)
    if args.out:
        record = {
            "vocab": args.vocab,
            "repeats": args.repeats,
            "versions": formatron_engines.versions(names),
            "sessions": {task: len(those) for task, those in of_task.items()},
            "left_out": wrong,
            "engines": results,
            "against_the_best": ratios,
        }
        args.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
