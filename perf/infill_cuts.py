"""Infilling on real programs: is each cut program completable, each completion legal, and each broken program refused?

    python perf/infill_cuts.py ../shared/humaneval-x/cpp-dev.jsonl.gz [--cuts 3] [--json FILE]
    python perf/infill_cuts.py ../shared/humaneval-x/python-dev.jsonl.gz --grammar python --first 60 --cuts 1

Each program that the matcher accepts is cut ``--cuts`` times, at one to three places anywhere (inside words, strings,
comments). Each cut program must be completable, and what ``complete()`` makes of it must be legal. Then the script breaks
it: it inserts one bracket, sign or word, or removes a character. If the broken text counts as completable, it must have a
legal completion; if not, the script tries fillings of its gaps by up to two bytes, 300 at most. It prints the counts, and
thread times.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cdplugin as cd

GRAMMARS: dict[str, Callable[[], cd.Lark]] = {
    "cpp": lambda: cd.grammars.CPP,
    "python": lambda: cd.grammars.python(max_width=20),
    "python-96": lambda: cd.grammars.PYTHON,
}
JUNK = [
    "]",
    ")",
    "}",
    "(",
    "{",
    "[",
    ";",
    ",",
    " int int ",
    " + ;",
    " 3 4 ",
    "'",
    '"',
    "#",
    "::",
    "return return ",
    "??",
    "@",
    "/*",
    "//",
    " 1x ",
]
FILLINGS = ["", " ", ";", "a", "0", "(", ")", "{", "}", "*/", '"', "\n", "a;", ");", "};", "(a", "a)"]


def cut(rng: random.Random, text: str) -> list[Any]:
    cuts = sorted(rng.sample(range(len(text) + 1), 2 * rng.randint(1, 3)))
    pieces: list[Any] = []
    at = 0
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        pieces += [text[at:left], cd.GAP]
        at = min(right, left + 60)
    return [*pieces, text[at:]]


def some_filling(infill: cd.Infill, pieces: list[Any]) -> str | None:
    """A legal text with few bytes in each gap; None if none of the first 300 fillings is legal."""
    gaps = sum(piece is cd.GAP for piece in pieces)
    for chosen in itertools.islice(itertools.product(FILLINGS, repeat=gaps), 300):
        rest = iter(chosen)
        text = "".join(next(rest) if piece is cd.GAP else piece for piece in pieces)
        if infill.accepts(text.encode()):
            return text
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=Path)
    parser.add_argument("--grammar", choices=GRAMMARS, default="cpp")
    parser.add_argument("--first", type=int, help="so many programs")
    parser.add_argument("--cuts", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    infill = cd.Infill(cd.Compiler(vocab).compile(GRAMMARS[arguments.grammar]()))
    with gzip.open(arguments.programs, "rt") as lines:
        programs = [json.loads(line)["text"] for line in lines][: arguments.first]
    counts: collections.Counter[str] = collections.Counter(programs=len(programs))
    wrong: list[Any] = []
    times: list[float] = []
    for number, program in enumerate(programs):
        if not infill.accepts(program.encode()):
            continue
        counts["accepted programs"] += 1
        rng = random.Random(number)
        for i in range(arguments.cuts):
            pieces = cut(rng, program)
            session = infill.new(pieces)
            began = time.thread_time()
            answer = judged(session)
            times.append(1e3 * (time.thread_time() - began))
            counts["cut"] += 1
            counts[f"cut: {answer}"] += 1
            if answer is not True:
                wrong.append(pieces)
            else:
                counts[f"completed: {completed(infill, session, rng if i == 1 else None)}"] += 1
            where = rng.choice([k for k, piece in enumerate(pieces) if isinstance(piece, str)])
            at = rng.randint(0, len(pieces[where]))
            junk = "" if rng.random() < 0.3 else rng.choice(JUNK)
            pieces[where] = pieces[where][:at] + junk + pieces[where][at + (junk == "") :]
            session = infill.new(pieces)
            answer = judged(session)
            counts["broken"] += 1
            counts[f"broken: {answer}"] += 1
            if answer is True:
                counts[f"broken, completed: {completed(infill, session, None)}"] += 1
            elif answer is False and some_filling(infill, pieces) is not None:
                wrong.append(pieces)
                counts["broken: wrongly refused"] += 1
    found = {**counts, "check_ms": {"median": round(statistics.median(times), 2), "max": round(max(times), 1)}, "wrong": wrong}
    print({key: value for key, value in found.items() if key != "wrong"})
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1, default=str) + "\n")


def judged(session: cd.InfillSession) -> bool | str:
    try:
        return session.completable()
    except cd.LimitExceeded:
        return "unknown"


def completed(infill: cd.Infill, session: cd.InfillSession, rng: random.Random | None) -> str:
    try:
        return "legal" if infill.accepts(session.complete(rng).encode()) else "illegal"
    except cd.LimitExceeded:
        return "given up"


if __name__ == "__main__":
    main()
