"""The work of merging the subschemas of a place, counted; a schema whose first attempt takes too much is written once more."""

from __future__ import annotations

from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.ir import Spent
from cdplugin.limits import Limits

_STEP_COST = 6
_FIRST_ATTEMPT = 16
"""The part of the steps after which a schema is read again with more care."""
_FOR_THE_SECOND = 3
"""The first attempt leaves at least twice what it takes to the second."""
_WORK_PER_BYTE = 0.0625
"""What is in proportion to a schema's size: no sign that alternatives multiply."""


class MultipliesError(LimitExceeded):
    """A first attempt takes too much work: it may be because alternatives overlap."""


def located(error: LimitExceeded, pointer: str) -> GrammarError:
    """The error, with the place ``pointer`` unless it names one, or only ends a first attempt."""
    return error if error.location or isinstance(error, MultipliesError) else error.amended(location=pointer)


class Effort:
    """Steps of merging, counted against ``limits.max_rules``, six for a rule. ``spent``: where all schemas of a spec count.

    A first attempt ends early, unless the work is but in proportion to the ``size`` of the schema. What it took counts for the
    second one, which makes alternatives that do not overlap.
    """

    def __init__(self, limits: Limits, size: int, spent: Spent) -> None:
        self.is_first = True
        self._spent = spent
        self._most = limits.max_rules
        at_first = min(max(limits.max_rules // _FIRST_ATTEMPT, int(_WORK_PER_BYTE * size)), limits.max_rules // _FOR_THE_SECOND)
        self._most_at_first = spent.steps + at_first

    def again(self) -> Effort:
        """The same, for a second attempt."""
        self.is_first = False
        return self

    def count(self, steps: int) -> None:
        """Count steps; raises ``LimitExceeded`` when they are too many."""
        spent = self._spent
        spent.steps += steps * _STEP_COST
        if spent.steps > self._most:
            raise LimitExceeded(
                "merging allOf, anyOf and $ref takes too much work",
                expected=f"at most {self._most // _STEP_COST} steps (Limits.max_rules = {self._most})",
            )
        if self.is_first and spent.steps > self._most_at_first:
            raise MultipliesError("merging allOf, anyOf and $ref takes too much work")
