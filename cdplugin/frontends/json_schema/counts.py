"""Counts of characters, items and members: which of them no text reaches."""

from __future__ import annotations

from typing import Any

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.frontends.json_schema.schema import describe
from cdplugin.limits import BEYOND_TEXT, Limits


def count_bounds(schema: dict, low: str, high: str, at: str, limits: Limits) -> tuple[int, int | None]:
    """The values of two keywords as ``x{low,high}``: 0 and None where they are absent.

    An upper bound that no text reaches is none. Raises ``LimitExceeded`` for a count above ``limits.max_repeat`` that matters,
    and ``GrammarError`` for what is no count, with the keyword and a JSON Pointer.
    """
    least = _count(schema[low], low, at) if low in schema else 0
    most = _count(schema[high], high, at) if high in schema else None
    if most is not None and most > max(BEYOND_TEXT, limits.max_repeat):
        most = None
    for keyword, count in ((low, least), (high, most)):
        if count is not None and count > limits.max_repeat:
            expected = f"at most Limits.max_repeat = {limits.max_repeat}"
            found = describe(schema[keyword])
            raise LimitExceeded(
                f"{keyword} is too large", location=f"{at}/{keyword}", keyword=keyword, expected=expected, found=found
            )
    return least, most


def _count(value: Any, keyword: str, at: str) -> int:
    """A non-negative integer (Validation, section 6.3.1); 2.0 is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or value != int(value):
        location = f"{at}/{keyword}"
        expected, found = "a non-negative integer", describe(value)
        raise GrammarError(f"keyword {keyword!r}", location=location, keyword=keyword, expected=expected, found=found)
    return int(value)
