"""A forked child works, both after threads of its parent have worked and while they hold every lock.

Each case is a process of its own. Its child is ended by an alarm if it hangs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

SETUP = """
import gc, os, signal, threading, time
import numpy as np
import cdplugin as cd
from cdplugin import forking

VOCAB = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
COMPILER = cd.Compiler(VOCAB)
PATTERNS = ["a+b", "[0-9]{3}", "x|yz", "(ab)*", "[^q]+", "w?"]
GRAMMARS = [COMPILER.compile(cd.Regex(p)) for p in PATTERNS]
MATCHERS = [g.matcher() for g in GRAMMARS]
INFILL = cd.Infill(GRAMMARS[0], threads=2)

def fill(compiler=COMPILER):
    for _ in range(2):
        rows = np.zeros((len(MATCHERS), 9), np.int32)
        cd.fill_next_token_bitmasks(MATCHERS, rows, threads=2)
    return rows

def infill():
    sessions = [INFILL.new([cd.GAP, "b"]) for _ in range(4)]
    return INFILL.map(lambda s: (s.mask(0).tobytes(), s.complete()), sessions)

def everything():
    schema = {"properties": {"a": {}, "b": {}}, "minProperties": 2}
    new = COMPILER.compile(cd.JsonSchema(schema, property_order="any")).matcher()
    known = COMPILER.compile(cd.Regex("a+b")).matcher()
    followed = new.accept_tokens(b'{"b": 1, "a"'), new.shortest_completion(), known.accept_token(97)
    other = cd.Compiler(VOCAB, cd.Limits(max_rules=1000)).compile(cd.Regex("a")).matcher()
    return fill().tobytes(), infill(), followed, other.accept_token(97), VOCAB.is_inner_prefix(b"a"), len(VOCAB.token_of[0])

EXPECTED = everything()

def in_child(work=everything, expected=EXPECTED):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        status = 3
        try:
            status = 0 if work() == expected else 4
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]
"""


def run(code: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-X", "faulthandler", "-c", SETUP + code]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_child_after_batches_on_threads() -> None:
    """Once a child, and its own child, waited for the threads of its parent for ever."""
    code = """
print(in_child())
pid = os.fork()
if pid == 0:
    signal.alarm(120)
    os._exit(0 if everything() == EXPECTED and in_child() == 0 else 1)
print(os.waitpid(pid, 0)[1], everything() == EXPECTED)
"""
    assert run(code).split() == ["0", "0", "True"]


def test_a_child_of_a_process_whose_threads_hold_every_lock() -> None:
    """Whatever lock of ours a thread holds, the child does not wait for it. Found by looking at all objects, not by a list."""
    code = """
from cdplugin import matcher
from cdplugin.engine import base_arena, pages, rules
from cdplugin.infill import tables as infill_tables
from cdplugin.adapters.vllm import grammar as vllm_grammar

KINDS = (type(threading.Lock()), type(threading.RLock()))
def ours():
    for name, module in list(__import__("sys").modules.items()):
        if name.startswith("cdplugin"):
            yield from ((name, k, v) for k, v in vars(module).items() if isinstance(v, KINDS))
            for cls in [c for c in vars(module).values() if isinstance(c, type) and c.__module__ == name]:
                for k, v in vars(cls).items():
                    if isinstance(getattr(v, "lock", None), KINDS):
                        yield cls.__name__, k, v.lock
    for o in gc.get_objects():
        if str(type(o).__module__).startswith("cdplugin.") and hasattr(o, "__dict__"):
            yield from ((type(o).__name__, k, v) for k, v in vars(o).items() if isinstance(v, KINDS))

locks = list(ours())
print(sorted({f"{where}.{name}" for where, name, _ in locks}))
held, go_on = threading.Event(), threading.Event()
def hold():
    for _, _, lock in locks:
        lock.acquire()
    held.set()
    go_on.wait()
    for _, _, lock in locks:
        lock.release()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
status = in_child(), in_child(lambda: vllm_grammar._engines_lock.acquire(timeout=30), True)
go_on.set()
thread.join()
print(status, everything() == EXPECTED)
"""
    names, result = run(code).splitlines()
    assert result == "(0, 0) True"
    for name in ("Arena.lock", "ByteLru._lock", "InfillGrammar.lock", "Infill._turns", "Threads._lock", "_Turn.lock"):
        assert name in names
    for name in ("memory._nodes_lock", "engine.pages._lock", "engine.expander._turns_lock", "engine.base_arena._lock"):
        assert f"cdplugin.{name}" in names


def test_children_forked_in_the_middle_of_work() -> None:
    """Threads compile, fill and infill without a pause. Children that are forked meanwhile do the same work."""
    code = """
stop = threading.Event()
def work(i):
    compiler = cd.Compiler(VOCAB)
    n = 0
    while not stop.is_set():
        n += 1
        if i == 0:
            fill()
        elif i == 1:
            INFILL.map(lambda s: s.complete(), [INFILL.new([cd.GAP, "b"]) for _ in range(3)])
        else:
            COMPILER.compile(cd.Regex("[a-f]{%d,}x" % (n % 50 + 1))).matcher().shortest_completion()
threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
for thread in threads:
    thread.start()
statuses = []
for i in range(12):
    time.sleep(0.003 * i)
    statuses.append(in_child())
stop.set()
for thread in threads:
    thread.join()
print(set(statuses))
"""
    assert run(code).strip() == "{0}"


def test_an_arena_that_a_thread_was_stepping_is_replaced() -> None:
    """What the thread had half changed is not used again: matchers find their places from their tokens. Others stay."""
    code = """
held, go_on = threading.Event(), threading.Event()
def hold():
    with GRAMMARS[0]._arena.lock:
        held.set()
        go_on.wait()
moved = MATCHERS[0]
moved.accept_tokens(b"aa")
thread = threading.Thread(target=hold)
thread.start()
held.wait()
before = GRAMMARS[0]._arena, GRAMMARS[1]._arena
def look():
    row = np.zeros((1, 9), np.int32)
    moved.fill_next_token_bitmask(row)
    allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
    return allowed, GRAMMARS[0]._arena is before[0], GRAMMARS[1]._arena is before[1]
print(in_child(look, ([97, 98], False, True)))
go_on.set()
thread.join()
print(GRAMMARS[0]._arena is before[0])
"""
    assert run(code).split() == ["0", "True"]


def test_a_fork_waits_for_kernels_that_are_being_compiled(tmp_path: Path) -> None:
    """A child cannot wait for Numba's lock, which a thread of its parent holds, so the fork does."""
    (tmp_path / "slow.py").write_text(
        "from cdplugin.kernels.jit.decorators import DISABLED, entry_kernel\n@entry_kernel\ndef slow(x):\n    return x * x\n"
    )
    code = f"""
import os, sys
os.environ["CDPLUGIN_CACHE_DIR"] = {str(tmp_path / "cache")!r}  # a kernel that is cached is not compiled
from cdplugin.kernels.jit import cache_files
cache_files.cache_folders.cache_clear()
sys.path.insert(0, {str(tmp_path)!r})
from numba.core import event
import slow

began, order = threading.Event(), []
class Compiling(event.Listener):
    def on_start(self, _):
        began.set()
        time.sleep(1)
    def on_end(self, _):
        order.append("compiled")
if slow.DISABLED:
    print(0)
    raise SystemExit
event.register("numba:compile", Compiling())
thread = threading.Thread(target=lambda: slow.slow(3))
thread.start()
began.wait()
print(in_child(lambda: (slow.slow(4), slow.slow(2.0), "compiled" in order), (16, 4.0, True)))
thread.join()
"""
    assert run(code).strip() == "0"


def test_a_processor_whose_thread_was_busy() -> None:
    """With ``lookahead``: a child that goes on with a step of the parent's thread is refused, a new prompt is not."""
    pytest.importorskip("transformers")
    code = """
import torch
from cdplugin.adapters.hf.processor import GrammarLogitsProcessor
processor = GrammarLogitsProcessor([GRAMMARS[0]])
def allowed(*ids):
    try:
        scores = processor(torch.tensor([ids]), torch.zeros(1, 257))
    except cd.CdpluginError as error:
        return str(error)
    return torch.isfinite(scores[0]).nonzero().ravel().tolist()
print(allowed(1))
with GRAMMARS[0]._arena.lock:  # the thread waits for it
    processor.lookahead(torch.tensor([[1, 97]]), None)
    print(in_child(lambda: ("forked" in allowed(1, 97), allowed(2)), (True, [97])))
    print(in_child(lambda: (allowed(2), allowed(2, 97)), ([97], [97, 98])))
print(allowed(1, 97))
"""
    assert run(code).splitlines() == ["[97]", "0", "0", "[97, 98]"]


def test_children_forked_while_work_is_done_ahead() -> None:
    """The parent's threads visit its grammars all the time. A child has none of them, starts its own, and gives the same
    answers.
    """
    code = """
from cdplugin.ahead import Ahead
visitor = Ahead(2)
SCHEMAS = [{"properties": {f"name{i}": {"type": "string"}, "b": {"type": "number"}}} for i in range(40)]
def follow():
    out = []
    for schema in SCHEMAS:
        matcher = COMPILER.compile(cd.JsonSchema(schema)).matcher()
        for byte in b'{"name':
            visitor.follow(matcher)
            row = np.zeros((1, 9), np.int32)
            matcher.fill_next_token_bitmask(row)
            out.append((row.tobytes(), matcher.accept_token(byte)))
    return out
expected = follow()
names = lambda: [t.name for t in threading.enumerate() if t.name.startswith("cdplugin-ahead")]
def again():
    before = names()
    found = follow()
    fresh = cd.Compiler(VOCAB).compile(cd.JsonSchema(SCHEMAS[0])).matcher()
    visitor.follow(fresh)
    return found == expected, before, len(names())
found = []
for _ in range(6):
    COMPILER = cd.Compiler(VOCAB)
    follow()  # the threads have much to do
    found.append(in_child(again, (True, [], 2)))
print(found, visitor.counters()["failed"])
"""
    assert run(code).strip() == "[0, 0, 0, 0, 0, 0] 0"
