"""Runs the hostile corpus: each entry in a forked process of its own, whose memory and time are watched.

``python tests/hostile/run.py --vocabulary llama3 --only 'lark/*'`` prints a JSON line for each entry. ``--summarise LINES…
--out FILE`` makes one table of such lines (``perf/results/*-hostile.json``), and runs nothing.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[2]))  # unless another cdplugin comes first (PYTHONPATH)

from hostile.specs import entries
from hostile.verdict import problems
from hostile.walk import STEPS, Report, run_entry

import cdplugin as cd

ALARM = 120
"""Seconds of the processor for an entry: generous, since machines differ; work is what is counted."""
_PATIENCE = 10
"""On a machine that is busy with other things, so many times as long."""
STOP_MEGABYTES = 1536
"""An entry is stopped when its process has grown by so much, far above what it may."""
_PAGE = os.sysconf("SC_PAGE_SIZE")


def vocabulary(name: str) -> cd.Vocabulary:
    """``small``: the bytes and some words; ``llama3``: Llama 3's 128,256 tokens."""
    if name == "small":
        words = [
            b"ab",
            b"aaaa",
            b"the ",
            b'{"',
            b'":',
            b'", "',
            b"value ",
            b"  ",
            b"\n\n",
            "é".encode(),
            "日本".encode(),
            b"12",
            b"<t",
        ]
        return cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + words + [b"</s>"], eos_token_ids=256 + len(words))
    from tokenizers_data import llama3

    tokenizer = llama3()
    return cd.Vocabulary.from_tiktoken(tokenizer.model, eos_token_ids=[128001, 128009])


class Farm:
    """A process that has everything loaded, and forks a process for each entry."""

    def __init__(self, vocab: str) -> None:
        self.compiler = cd.Compiler(vocabulary(vocab))
        matcher = self.compiler.compile(cd.JsonObject()).matcher()
        matcher.shortest_completion()
        matcher.fill_next_token_bitmask(cd.allocate_token_bitmask(1, self.compiler.vocab.size))
        self._infills = False

    def _load_infilling(self) -> None:
        """Load or compile the kernels of infilling, which otherwise happens at their first use."""
        cd.Infill(self.compiler.compile(cd.Choice(["ab"]))).new(["a", cd.GAP]).completable()
        self._infills = True

    def run(self, entry: Mapping[str, Any], steps: int = STEPS, alarm: float = ALARM) -> Report:
        """Run one entry and watch it."""
        if "infill" in entry and not self._infills:
            self._load_infilling()
        with tempfile.TemporaryFile() as last_report:
            child = os.fork()
            if child == 0:
                _child(entry, self.compiler, last_report.fileno(), steps, int(alarm))
            outcome, grown = _watch(child, alarm)
            last_report.seek(0)
            told = last_report.readline()
        report = Report(**json.loads(told)) if told else Report(entry["id"])
        report.megabytes = round(grown, 1)
        if outcome:
            report.outcome = outcome
            report.message = f"{report.message}, step {report.steps}"
        return report


def _child(entry: Mapping[str, Any], compiler: cd.Compiler, file: int, steps: int, seconds: int) -> None:
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))  # then SIGXCPU, also if the parent is gone
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.nice(5)
        tell = lambda report: os.pwrite(file, (json.dumps(asdict(report)) + "\n").encode(), 0)  # noqa: E731
        tell(run_entry(entry, compiler, tell, steps))
    finally:
        os._exit(0)


def _watch(child: int, alarm: float) -> tuple[str, float]:
    """Wait for a process. Returns how it went wrong, if it did, and by how many MB it grew."""
    began = time.monotonic()
    at_first = _megabytes(child)
    most = at_first
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return _end(status), most - at_first
        most = max(most, _megabytes(child))
        too_large, too_late = most - at_first > STOP_MEGABYTES, time.monotonic() - began > alarm * _PATIENCE
        if too_large or too_late:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "memory" if too_large else "timeout", most - at_first
        time.sleep(0.01)


def _end(status: int) -> str:
    """How a process went wrong, from the status that ``waitpid`` returns."""
    if not os.WIFSIGNALED(status):
        return ""
    return "timeout" if os.WTERMSIG(status) == signal.SIGXCPU else f"crash: signal {os.WTERMSIG(status)}"


def _megabytes(process: int) -> float:
    try:
        with open(f"/proc/{process}/statm") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0.0
    return (int(resident) - int(shared)) * _PAGE / 1e6


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """A table of reports. For each entry: its outcome, the work of its costliest step, MB, the CPU seconds of its slowest
    call and that call's name; and what questions of several parts took and crossed, if that is more than nothing.
    """
    rows = {}
    for line in sorted(lines, key=lambda line: line["entry"]):
        slowest = max(line["seconds"], key=line["seconds"].get, default="")
        row = {"outcome": line["outcome"], "work": line["work"], "mb": line["megabytes"]}
        row |= {"seconds": line["seconds"].get(slowest, 0.0), "in": slowest}
        row |= {"asked": max(line["asked"].values())} if any(line["asked"].values()) else {}
        row |= {"crossed": line["crossed"]} if line["crossed"] else {}
        rows[line["entry"]] = row | ({"problems": line["problems"]} if line["problems"] else {})
    outcomes = Counter(row["outcome"] for row in rows.values())
    return {"entries": len(rows), "outcomes": dict(sorted(outcomes.items())), "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", default="llama3", choices=["small", "llama3"])
    parser.add_argument("--only", default="*", help="ids, with * and ?")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--alarm", type=float, default=ALARM, help="seconds for an entry")
    parser.add_argument("--part", default="0/1", help="2/3: the third third")
    parser.add_argument("--summarise", nargs="+", type=Path, help="files of lines that this has printed")
    parser.add_argument("--out", type=Path, help="where to write their table")
    arguments = parser.parse_args()
    if arguments.summarise:
        lines = [json.loads(line) for path in arguments.summarise for line in path.read_text().splitlines()]
        table = {"vocabulary": arguments.vocabulary, **summary(lines)}
        arguments.out.write_text(json.dumps(table, indent=1).replace("\n   ", " ").replace("\n  }", "}") + "\n")
        return
    number, of = map(int, arguments.part.split("/"))
    farm = Farm(arguments.vocabulary)
    chosen = [entry for entry in entries() if fnmatch.fnmatch(entry["id"], arguments.only)]
    for entry in chosen[number % of :: of]:
        report = farm.run(entry, arguments.steps, arguments.alarm)
        print(json.dumps({**asdict(report), "problems": problems(entry, report)}), flush=True)


if __name__ == "__main__":
    main()
