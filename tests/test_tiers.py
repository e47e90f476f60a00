"""The tests that ``make test`` leaves to ``make check`` (``slow.json``) exist; JUnit files are read as pytest names tests."""

from __future__ import annotations

import re
from pathlib import Path

import engine_tools
import pytest
import tiers

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("tier", tiers.LIMITS)
def test_what_is_left_out_exists(tier: str) -> None:
    left_out = tiers.slow(tier)
    assert left_out
    for node in left_out:
        path, name = node.partition("[")[0].split("::")[:2]
        source = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"\b{name}\b", source), f"{node}: make tiers lists it again"


def test_node_ids_are_those_of_pytest(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_tiers" name="test_a[x]" time="2.5"/>'
        '<testcase classname="tests.fuzz.test_fuzz_calls.TestCalls" name="runTest" time="0.25"/></testsuite></testsuites>'
    )
    assert tiers.timed(report) == {
        "tests/test_tiers.py::test_a[x]": 2.5,
        "tests/fuzz/test_fuzz_calls.py::TestCalls::runTest": 0.25,
    }


def test_what_tries_fewer_cases_is_noted(request: pytest.FixtureRequest) -> None:
    """The second time, ``.ci/run`` leaves out what has tried all cases."""
    node = request.node
    assert tiers.counted(5, 5) == 5 and not tiers.tried_fewer(node.nodeid, node.path)
    assert tiers.counted(1, 5) == 1 and tiers.tried_fewer(node.nodeid, node.path)
    assert not tiers.tried_fewer(node.nodeid + "[x]", node.path)


def test_what_tries_fewer_cases_when_it_is_imported_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_fewer", set())
    for phase in ("", "tests/test_a.py::test_b (setup)"):
        monkeypatch.setenv("PYTEST_CURRENT_TEST", phase)
        tiers._fewer.clear()
        (lambda: tiers.counted(1, 5))()
        assert tiers.tried_fewer("tests/test_tiers.py::test_c", Path(__file__))


def test_a_seed_that_is_a_test_by_itself_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer seeds are fewer tests, each of which has tried what it tries in ``make check``."""
    monkeypatch.setattr(tiers, "_fewer", set())
    monkeypatch.setattr(engine_tools, "QUICK", True)
    monkeypatch.setattr(engine_tools, "SLOW", False)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert engine_tools.seeds(60, 4) == range(12) and engine_tools.seeds(60, 4, 7) == range(7)
    assert not tiers.tried_fewer("tests/test_tiers.py::test_x[3]", Path(__file__))
    assert engine_tools.cases(60, 4) == 12 and tiers.tried_fewer("tests/test_tiers.py::test_x[3]", Path(__file__))
