"""After any failure inside an engine (memory, budget, Ctrl+C, unwritable files), its answers are those of a fresh one."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from fuzz.faults import KINDS, Fault
from fuzz.faulty_walk import SPECS, walk_in_fork
from fuzz.turns import SEED, turns

import cdplugin as cd
from cdplugin.engine.arena import Arena
from cdplugin.kernels.jit import cache_files

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_masks_after_faults(number: int) -> None:
    injected = 0
    for turn in range(turns(2) + 5):
        if turn >= turns(2) and injected:  # a short walk of a small grammar may offer no opportunity: then one more
            break
        tally = walk_in_fork(number, SEED + number + len(SPECS) * turn, 60)
        assert not tally.wrong, f"seed {SEED + number + len(SPECS) * turn}: {tally.wrong}"
        injected += sum(tally.injected.values())
    assert injected


@pytest.mark.parametrize("kind", KINDS)
def test_faults_go_off(kind: str) -> None:
    """The injection itself: the third opportunity, once, and nothing is left behind."""
    before = (np.zeros, Arena.recover)
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    spec = cd.JsonSchema({"type": "array", "items": {"enum": [f"v{i}" for i in range(2000)]}, "uniqueItems": True})
    matcher = cd.Compiler(vocab, cd.Limits(max_rules=300_002)).compile(spec).matcher()
    fault = Fault(kind, 3 if kind != "pages" else 1)

    def walk() -> None:
        for _ in range(50):
            for token in b'["v1", "v2", "v3"]':
                matcher.accept_token(token)
                matcher.fill_next_token_bitmask(np.zeros((1, 9), np.int32))
            matcher.grammar._arena.over_budget = True

    with pytest.raises((MemoryError, KeyboardInterrupt, cd.LimitExceeded), match="injected|no memory is left"), fault.armed():
        walk()
    assert fault.fired and (np.zeros, Arena.recover) == before


@pytest.mark.parametrize("most", [0, 1, 4096, 200_000])
def test_files_that_cannot_be_written(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full after so many bytes: the vocabulary is the same, and so is the one built when there is room again."""
    texts = [bytes([b]) for b in range(256)] + [b"token %d" % i for i in range(9000)]
    monkeypatch.setattr(cache_files, "cache_folders", lambda: cache_files.Folders((tmp_path,), tmp_path, ()))
    expected = cd.Vocabulary.from_bytes(texts, eos_token_ids=0, cache=False)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing more raises OSError
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        status = 1
        try:
            status = int(not _equal(cd.Vocabulary.from_bytes(texts, eos_token_ids=0), expected))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert _equal(cd.Vocabulary.from_bytes(texts, eos_token_ids=0), expected)
    assert _equal(cd.Vocabulary.from_bytes(texts, eos_token_ids=0), expected)


def _equal(one: cd.Vocabulary, other: cd.Vocabulary) -> bool:
    return one.tokens == other.tokens and all(
        np.array_equal(getattr(one.trie, name), getattr(other.trie, name)) for name in ("byte", "depth", "skip", "token")
    )
