"""Which tests ``make test`` leaves to ``make check``: those that took long when all were timed (``make tiers``).

``slow.json`` lists them: under ``quick`` what took more than :data:`QUICK_SECONDS`, under ``interpreted`` what took more than
:data:`INTERPRETED_SECONDS` with the kernels interpreted. A test that is in neither list runs in both tiers.

    python tests/tiers.py quick=quick.xml interpreted=interpreted.xml     # from the JUnit files of two runs
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "tests" / "slow.json"
QUICK_SECONDS = 0.7
INTERPRETED_SECONDS = 2.0
LIMITS = {"quick": QUICK_SECONDS, "interpreted": INTERPRETED_SECONDS}


_fewer: set[str] = set()


def counted(chosen: int, full: int) -> int:
    """Return ``chosen``, the number of cases that a test tries of ``full``. If these are fewer, note the test that runs now;
    while a file is imported or a test set up, note the file.
    """
    if chosen != full:
        node, _, phase = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")
        _fewer.add(node if phase == "(call)" else sys._getframe(2).f_code.co_filename)
    return chosen


def tried_fewer(node: str, path: Path) -> bool:
    """Whether a test that has run tried fewer cases than in ``make check``."""
    return node.replace("\x00", "(null)") in _fewer or str(path) in _fewer


def slow(tier: str) -> frozenset[str]:
    """The node ids of the tests that a tier leaves out."""
    return frozenset(json.loads(FILE.read_text(encoding="utf-8"))[tier])


def timed(report: Path) -> dict[str, float]:
    """The seconds of each test of a JUnit file, by node id."""
    seconds = {}
    for case in ElementTree.parse(report).iter("testcase"):
        parts = case.attrib["classname"].split(".")
        length = next((i for i in range(len(parts), 0, -1) if ROOT.joinpath(*parts[:i]).with_suffix(".py").is_file()), 0)
        if not length:  # a file that was skipped as a whole
            continue
        node = "::".join(["/".join(parts[:length]) + ".py", *parts[length:], case.attrib["name"]])
        seconds[node] = float(case.attrib["time"])
    return seconds


def main() -> None:
    lists = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for argument in sys.argv[1:]:
        tier, _, path = argument.partition("=")
        seconds = timed(Path(path))
        lists[tier] = sorted(node for node, taken in seconds.items() if taken > LIMITS[tier])
        left = sum(taken for taken in seconds.values() if taken <= LIMITS[tier])
        print(f"{tier}: {len(lists[tier])} of {len(seconds)} left out, {left:.0f} of {sum(seconds.values()):.0f} s kept")
    FILE.write_text(json.dumps(lists, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
