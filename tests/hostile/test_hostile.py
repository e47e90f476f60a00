"""The hostile corpus: each entry ends, within the budgets, in an answer or a clear error (see :mod:`hostile.run`).

A sample runs in every test run, over a small vocabulary; all entries over Llama 3's where ``CDPLUGIN_FUZZ`` is above 1.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import Any

import pytest
from engine_tools import SLOW
from fuzz.turns import FACTOR
from hostile.run import Farm
from hostile.specs import entries
from hostile.verdict import problems

import cdplugin as cd

ALL = entries()
CHOSEN = ALL if FACTOR > 1 else [entry for number, entry in enumerate(ALL) if number % 14 == 0 or "finding" in entry]
KINDS = ("JsonSchema", "Lark", "Gbnf", "Ebnf", "Regex", "Choice", "StructuralTag", "Tools", "Template", "After")

pytestmark = pytest.mark.skipif(SLOW, reason="budgets are for compiled kernels")


@lru_cache(maxsize=1)
def farm() -> Farm:
    return Farm("llama3" if FACTOR > 1 else "small")


def test_the_corpus_is_large_and_mixed() -> None:
    counts = Counter(entry["kind"] for entry in ALL)
    assert len(ALL) >= 300 and counts.keys() == set(KINDS)
    assert len({entry["id"] for entry in ALL}) == len(ALL)
    assert all(entry["expect"] in ("ok", "refused", "either") for entry in ALL)
    assert all(issubclass(getattr(cd, kind), cd.Spec) for kind in KINDS)


@pytest.mark.parametrize("entry", CHOSEN, ids=[entry["id"] for entry in CHOSEN])
def test_an_answer_or_a_clear_error(entry: dict[str, Any]) -> None:
    report = farm().run(entry)
    assert not problems(entry, report), f"{entry['id']}: {'; '.join(problems(entry, report))}"
