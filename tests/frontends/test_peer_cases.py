"""The peers' own tests: each case on which cdplugin disagrees is named here, with the row of the documents that decides it.

``tests/data/peer_disagreements.json`` lists the cases by the first cell of a row of docs/dialects.md (or by a reason
below), each by the beginning of the SHA-256 of its line. It does not list those of the other half of the recorded cases.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lark_cases import DIFFERENCES
from shared_data import PEER_CASES, needs
from test_dialects import LINES

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "perf"))

from peer_cases import verdict  # noqa: E402

FILES = sorted(PEER_CASES.glob("*.jsonl.gz"))
NAMED: dict[str, list[str]] = json.loads((ROOT / "tests" / "data" / "peer_disagreements.json").read_text())
REASONS = {case: reason for reason, cases in NAMED.items() for case in cases}
NO_DISAGREEMENT = {
    "not a disagreement: the test's text is the beginning of an answer",
    "not a disagreement: here the vocabulary has the special token",
    "not a disagreement: the trace begins with the prompt",
    "not a disagreement: the tokens that max_tokens= counts were not recorded",
}
N_PARTS = 4


def cases() -> Iterator[tuple[str, str]]:
    """``(where it is, its line)`` of every recorded case."""
    for path in FILES:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                yield f"{path.name}:{number}", line.rstrip("\n")


def test_every_reason_is_documented() -> None:
    documented = {*LINES, *DIFFERENCES, *NO_DISAGREEMENT}
    assert not NAMED.keys() - documented
    assert len(REASONS) == sum(map(len, NAMED.values())), "a case with two reasons"


@needs(PEER_CASES)
@pytest.mark.parametrize("part", range(N_PARTS))
def test_we_agree_or_say_why(part: int) -> None:
    wrong = []
    for number, (place, line) in enumerate(cases()):
        if number % N_PARTS != part:
            continue
        found, why = verdict(json.loads(line))
        reason = REASONS.get(hashlib.sha256(line.encode()).hexdigest()[:12])
        if found in ("differ", "refused") and reason is None:
            wrong.append(f"{place}: {found}, and nothing says why: {why[:2]}")
        elif found in ("agree", "skipped") and reason is not None:
            wrong.append(f"{place}: {found}, though the data say: {reason}")
    assert not wrong, "\n".join(wrong)
