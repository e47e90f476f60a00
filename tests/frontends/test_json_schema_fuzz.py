"""Random and mutated schemas against ``jsonschema``: nothing invalid, nothing valid refused, no dead end, no other exception.

A longer campaign, from other seeds and over other schemas:

    CDPLUGIN_FUZZ_SECONDS=600 CDPLUGIN_FUZZ_SEED=7 CDPLUGIN_FUZZ_SCHEMAS=../shared/maskbench/dev.jsonl.gz \\
        pytest -s tests/frontends/test_json_schema_fuzz.py -k campaign
"""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from json_schema_fuzz import Case, Mutator, crowded, judge, line_cases, suite_cases

SECONDS = float(os.environ.get("CDPLUGIN_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("CDPLUGIN_FUZZ_SEED", "0"))
SCHEMAS = os.environ.get("CDPLUGIN_FUZZ_SCHEMAS", "")


def check(rng: random.Random, case: Case) -> str:
    try:
        return judge(rng, case)
    except Exception as error:
        raise AssertionError(f"{json.dumps(case.schema)}: {error!r}") from error


@pytest.mark.parametrize("seed", range(3))
def test_crowded_schemas(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = collections.Counter(check(rng, crowded(rng)) for _ in range(80))
    assert outcomes["compiled"] > 40, outcomes


@pytest.mark.parametrize("seed", range(3))
def test_mutated_schemas(seed: int) -> None:
    rng = random.Random(seed)
    mutator = Mutator(list(suite_cases()))
    outcomes = collections.Counter(check(rng, mutator.case(rng)) for _ in range(80))
    assert outcomes["compiled"] > 40, outcomes


@pytest.mark.skipif(not SECONDS, reason="CDPLUGIN_FUZZ_SECONDS is not set")
def test_campaign() -> None:
    """Runs as long as the environment asks for, and lists every fault."""
    rng = random.Random(SEED)
    mutator = Mutator([*suite_cases(), *(line_cases(Path(SCHEMAS)) if SCHEMAS else ())])
    outcomes: collections.Counter[str] = collections.Counter()
    faults = []
    end = time.monotonic() + SECONDS

    def give_up(*_: Any) -> None:
        raise TimeoutError  # most often in a pattern, which Python's `re` may search for ever; the reference then does not know

    signal.signal(signal.SIGALRM, give_up)
    while time.monotonic() < end:
        signal.alarm(60)
        case = mutator.case(rng) if rng.random() < 0.6 else crowded(rng)
        try:
            outcomes[check(rng, case)] += 1
        except AssertionError as error:
            faults.append(str(error))
    signal.alarm(0)
    print(dict(outcomes), *faults, sep="\n")
    assert not faults
