"""What an entry's report must show: an answer or a clear error, within the budgets, as the entry expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostile.walk import Report

import cdplugin as cd

MOST_MEGABYTES = 256
"""By which a process may grow for one entry."""
_OVER = 2.1
"""Looking for a short ending may take two budgets. Work is charged in pieces, so the last one may go beyond."""
_FINE = {"ok": {"ok"}, "refused": {"refused"}, "either": {"ok", "refused", "limit"}}


def problems(entry: Mapping[str, Any], report: Report) -> list[str]:
    """What is wrong, in words; empty if all is well."""
    fine = _FINE[entry["expect"]]
    if entry["kind"] == "Lark" and entry["expect"] == "either":
        fine = fine | {"dead end"}  # longest match, as documented
    out = []
    if report.outcome not in fine:
        out.append(f"expected {' or '.join(sorted(fine))}, found {report.outcome} ({report.message})")
    most = cd.Limits().max_step_work
    if report.work > most * _OVER:
        out.append(f"a step of {report.work:,} units of work: expected at most {most:,}")
    if report.megabytes > MOST_MEGABYTES:
        out.append(f"{report.megabytes:.0f} MB: expected at most {MOST_MEGABYTES}")
    return out
