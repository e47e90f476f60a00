"""What servers count, in one process and over several, as Prometheus reads it; and the log's line about slow requests."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grammar_tools import HUNGRY
from word_choice import CHOICE, VOCAB

import cdplugin as cd
from cdplugin.adapters.serving import metrics
from cdplugin.adapters.serving.engine import Asked
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm.budget import FixedBudget
from cdplugin.adapters.vllm.grammar import Engine

ROOT = Path(__file__).resolve().parent.parent.parent


class Since:
    """How much the numbers of this process have grown."""

    def __init__(self) -> None:
        self.before = metrics.totals()

    def __call__(self, name: str, value: str = "") -> float:
        before, now = self.before[name][value], metrics.totals()[name][value]
        if isinstance(now, list):
            assert isinstance(before, list)
            return sum(now[:-1]) - sum(before[:-1])
        assert not isinstance(before, list)
        return now - before


def write_row(state: Any) -> None:
    state.fill_bitmask(np.zeros((1, (VOCAB.size + 31) // 32), np.int32), 0)


# --- what is counted ------------------------------------------------------------------------------------------------------


def test_checks_and_compilations() -> None:
    engine, since = Engine(VOCAB, ServerOptions()), Since()
    for _ in range(2):
        engine.check("CHOICE", CHOICE)
    with pytest.raises(cd.GrammarError):
        engine.check("REGEX", "(a")
    assert (since("cdplugin_checks", "admitted"), since("cdplugin_checks", "refused")) == (1, 1)
    assert since("cdplugin_check_seconds") == 2 and since("cdplugin_compilations") == 0
    held = [engine.state("CHOICE", CHOICE) for _ in range(3)]
    assert (since("cdplugin_compilations"), since("cdplugin_cache_hits")) == (1, 2) and held
    with pytest.raises(cd.GrammarError):
        engine.state("REGEX", "(a")
    assert since("cdplugin_compilation_failures") == 1
    assert metrics.totals()["cdplugin_grammar_cache_bytes"][""] == engine.compiler.cached_bytes > 0


def test_budgets_of_work() -> None:
    since = Since()
    small = Engine(VOCAB, ServerOptions(limits={"max_spec_bytes": 4}))
    for call in (small.check, small.state):
        with pytest.raises(cd.LimitExceeded):
            call("REGEX", "abcdef")
    state = Engine(VOCAB, ServerOptions(limits={"max_step_work": 5_000})).state("REGEX", HUNGRY)
    told: list[str] = []
    state.tell = told.append
    count = 0
    write_row(state)
    while state.accept_tokens("id", [97]):
        count += 1
        assert count < 200, "no budget was crossed"
        write_row(state)
    assert len(told) == 1 and f"after {count} tokens" in told[0] and "max_step_work" in told[0]
    state.rollback(1)
    assert not state.accept_tokens("id", [98 + 1]) and "budget" not in told[1]  # refused, and not for a budget
    assert [since("cdplugin_budgets_crossed", place) for place in ("check", "compile", "decode")] == [1, 1, 1]


def test_masks_and_endings() -> None:
    since = Since()
    engine = Engine(VOCAB, ServerOptions())
    for most, forced, missed in ((100, 0, 0), (2, 1, 0), (1, 0, 1)):
        state = engine.state("CHOICE", CHOICE)
        state.budget = FixedBudget(most, 1_000)
        before = since("cdplugin_endings_forced"), since("cdplugin_endings_missed")
        for _ in range(3):
            write_row(state)
        assert since("cdplugin_endings_forced") - before[0] == forced, most
        assert since("cdplugin_endings_missed") - before[1] == missed, most


# --- the log --------------------------------------------------------------------------------------------------------------


def test_slow_requests_are_named_once_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    secret = '["abc", "my password is 1234"]'
    engine = Engine(VOCAB, ServerOptions(slow_request_seconds=0, late_mask_seconds=0, log_characters=8))
    since = Since()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            state = engine.state("CHOICE", secret)
            for _ in range(2):
                write_row(state)
        engine.check("CHOICE", secret)
    lines = [record.getMessage() for record in caplog.records]
    name = f"CHOICE of 30 characters, sha256 {hashlib.sha256(secret.encode()).hexdigest()[:12]}, begins " + r'"[\"abc\", "'
    assert [line.partition(" took ")[0] for line in lines] == [
        f"cdplugin: slow request: {what}" for what in ("compiling", "a mask", "compiling and first steps")
    ]
    assert all(line.endswith(name) for line in lines) and "password" not in caplog.text
    assert since("cdplugin_masks_late") == since("cdplugin_late_mask_seconds") == 4
    assert "begins" not in Asked("CHOICE", secret).named(0)


def test_what_was_relaxed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Relaxed keywords are logged once for a request, in the process that checks it; without their names where the log may
    show none.
    """
    unique = {"type": "array", "prefixItems": [{"type": "integer"}], "contains": {"const": 1}, "uniqueItems": True}
    properties = {f"secret{i}": unique for i in range(10)}
    schema = json.dumps({"type": "object", "properties": properties, "x-cdplugin": {"on_unsupported": "relax"}})
    with caplog.at_level(logging.INFO):
        for characters in (60, 0):
            engine = Engine(VOCAB, ServerOptions(log_characters=characters))
            for _ in range(2):
                engine.check("JSON", schema)
            engine.check("JSON", '{"type": "integer"}')
    shown, hidden = (record.getMessage() for record in caplog.records)
    assert shown.startswith("cdplugin: not enforced: 'uniqueItems' at /properties/secret0/uniqueItems, 'uniqueItems' at ")
    assert "and 2 more: JSON of" in shown and "secret9" not in shown
    assert hidden.startswith("cdplugin: not enforced: 'uniqueItems', 'uniqueItems'") and "secret" not in hidden


@pytest.mark.parametrize(
    "wrong",
    ['{"late_mask_seconds": -1}', '{"slow_request_seconds": "1"}', '{"log_characters": 1.5}', '{"log_characters": true}'],
)
def test_options_of_operators(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIONS", wrong)
    with pytest.raises(ValueError, match=r"OPTIONS.*expected"):
        ServerOptions.from_environment("OPTIONS")
    monkeypatch.setenv("OPTIONS", '{"late_mask_seconds": 0.02, "slow_request_seconds": 3, "log_characters": 0}')
    options = ServerOptions.from_environment("OPTIONS")
    assert (options.late_mask_seconds, options.slow_request_seconds, options.log_characters) == (0.02, 3, 0)


# --- several processes ----------------------------------------------------------------------------------------------------

CHILD = """
import os, sys, time
from cdplugin.adapters.serving.metrics import NUMBERS
for _ in range(int(sys.argv[1])):
    NUMBERS.add("cdplugin_cache_hits")
NUMBERS.set("cdplugin_engines", 1)
NUMBERS.observe("cdplugin_grammar_wait_seconds", 0.3)
NUMBERS.observe("cdplugin_grammar_wait_seconds", 100.0)
print("ready", flush=True)
sys.stdin.read()
"""
PARENT = """
import os, subprocess, sys
from cdplugin.adapters.serving import metrics
metrics.NUMBERS.add("cdplugin_cache_hits", amount=5)  # before there is a folder
metrics.share()
metrics.share()
folder = os.environ[metrics.FOLDER_VARIABLE]
pipe = subprocess.PIPE
children = [subprocess.Popen([sys.executable, "-c", CHILD, n], stdin=pipe, stdout=pipe) for n in ("3", "40")]
for child in children:
    child.stdout.readline()
print(metrics.totals()["cdplugin_cache_hits"], metrics.totals()["cdplugin_engines"])
children[0].communicate()
open(os.path.join(folder, "1-other.numbers"), "wb").write(b"of another layout")
print(metrics.totals()["cdplugin_cache_hits"], metrics.totals()["cdplugin_engines"])
from prometheus_client import CollectorRegistry, generate_latest
registry = CollectorRegistry()
metrics.register(registry)
metrics.register(registry)
sys.stdout.write(generate_latest(registry).decode())
children[1].communicate()
pid = os.fork()
if pid == 0:
    metrics.NUMBERS.add("cdplugin_cache_hits")
    os._exit(0)
os.waitpid(pid, 0)
print("at last", metrics.totals()["cdplugin_cache_hits"], len(os.listdir(folder)), os.stat(folder).st_mode & 0o777 == 0o700)
print(folder)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_are_added_up() -> None:
    """The counters of processes that are gone stay, their gauges do not. A registry shows all processes, and a fork has its
    own file.
    """
    parser = pytest.importorskip("prometheus_client.parser")
    env = {name: value for name, value in os.environ.items() if name != metrics.FOLDER_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", f"CHILD = {CHILD!r}\n{PARENT}"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["{'': 48.0} {'': 2.0}", "{'': 48.0} {'': 1.0}"]
    assert lines[-2] == "at last {'': 49.0} 5 True"
    assert not Path(lines[-1]).exists()
    families = {f.name: f for f in parser.text_string_to_metric_families("\n".join(lines[2:-2]) + "\n")}
    assert {family.name for family in metrics.FAMILIES} == set(families)
    assert all(families[family.name].type == family.kind for family in metrics.FAMILIES)
    samples = {(s.name, *s.labels.values()): s.value for family in families.values() for s in family.samples}
    assert samples["cdplugin_cache_hits_total",] == 48
    assert samples["cdplugin_budgets_crossed_total", "decode"] == 0
    waits = {
        labels: value
        for (name, *labels_), value in samples.items()
        if name.endswith("wait_seconds_bucket")
        for labels in labels_
    }
    assert (waits["0.25"], waits["0.5"], waits["30.0"], waits["+Inf"]) == (0, 2, 2, 4)
    assert samples["cdplugin_grammar_wait_seconds_count",] == 4
    assert samples["cdplugin_grammar_wait_seconds_sum",] == pytest.approx(200.6)


ANOTHER = """
import multiprocessing, os, subprocess, sys
from cdplugin.adapters.serving import metrics

def folder(queue):
    metrics.share()
    queue.put(os.environ[metrics.FOLDER_VARIABLE])

if __name__ == "__main__":
    metrics.share()
    folders = [os.environ[metrics.FOLDER_VARIABLE]]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=folder, args=(queue,))
    child.start()
    folders.append(queue.get())
    child.join()
    program = "import os; from cdplugin.adapters.serving import metrics as m; m.share(); print(os.environ[m.FOLDER_VARIABLE])"
    folders.append(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip())
    named = {**os.environ, metrics.FOLDER_VARIABLE: sys.argv[1]}
    del named[metrics._OWNER_VARIABLE]
    done = subprocess.run([sys.executable, "-c", program], env=named, capture_output=True, text=True, check=True)
    print(folders[0] == folders[1], folders[0] != folders[2], done.stdout.strip() == sys.argv[1])
"""


def test_another_program_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """A server that a process with an engine starts is another server. What multiprocessing starts belongs to the same
    server, and so does what is given one folder by name.
    """
    script = tmp_path / "another.py"
    script.write_text(ANOTHER)
    env = {name: value for name, value in os.environ.items() if not name.startswith("CDPLUGIN_METRICS")}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        cwd=ROOT,
        env={**env, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "True True True\n", done.stderr


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path / "gone"))
    numbers = metrics.Numbers()
    numbers.add("cdplugin_masks_late")
    assert numbers.path is None and numbers.numbers()[metrics._PLACES["cdplugin_masks_late", ""]] == 1


def test_a_file_has_no_holes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its pages are taken while it is made: a hole that a full disk cannot fill would end the process at its first number."""
    monkeypatch.setenv(metrics.FOLDER_VARIABLE, str(tmp_path))
    numbers = metrics.Numbers()
    numbers.add("cdplugin_masks_late")
    assert numbers.path is not None
    status = numbers.path.stat()
    assert status.st_blocks * 512 >= status.st_size == 8 * metrics._COUNT
    monkeypatch.setattr(metrics.os, "write", lambda handle, content: 16)  # so much was left
    numbers = metrics.Numbers()
    numbers.add("cdplugin_masks_late")
    assert numbers.path is None and numbers.numbers()[metrics._PLACES["cdplugin_masks_late", ""]] == 1


def test_where_prometheus_adds_up_processes_itself(tmp_path: Path) -> None:
    """Several API servers: a registry that is made for one answer shows our numbers once, beside the others'."""
    pytest.importorskip("prometheus_client")
    code = """
from cdplugin.adapters.serving import metrics
from prometheus_client import CollectorRegistry, Counter, generate_latest, multiprocess
Counter("theirs", "help").inc(3)
metrics.NUMBERS.set("cdplugin_engines", 2)
def answer():
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    return registry
for _ in range(2):
    metrics.register(answer())
lines = generate_latest(answer()).decode().splitlines()
print([line for line in lines if line.startswith(("theirs_total", "cdplugin_engines"))])
"""
    env = os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "['theirs_total 3.0', 'cdplugin_engines 2.0']", done.stderr
