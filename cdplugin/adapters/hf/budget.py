"""Outputs that end within a budget of tokens: the ``max_new_tokens`` of
:class:`cdplugin.adapters.hf.processor.GrammarLogitsProcessor`.

The masks do most of it (:meth:`cdplugin.Matcher.fill_next_token_bitmask` with a budget): a token is allowed only if some ending
is known to fit after it, and the next mask allows the first token of that ending. This module does the rest. It raises at the
first step if the budget is too small; it ends a row as soon as possible if others (drafts, beams) chose tokens after which it
cannot end in time; and it allows an ending again that another processor has forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from cdplugin.adapters.hf.loops import dead_rows
from cdplugin.bitmask import apply_token_bitmask_inplace, bitmask_view
from cdplugin.bits import allow_only
from cdplugin.errors import BudgetError
from cdplugin.matcher import Matcher, fill_next_token_bitmasks

if TYPE_CHECKING:
    from cdplugin.adapters.prefixes import RowTracker

__all__ = ["BudgetError", "Closing", "give_back"]


class Closing:
    """Fills masks with the tokens after which the text can still end in time. ``max_new_tokens`` counts the stop token."""

    def __init__(self, max_new_tokens: int) -> None:
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected a positive integer, found {max_new_tokens!r}")
        self.max_new_tokens = max_new_tokens

    def fill(self, tracker: RowTracker, rows: Sequence[int], bitmask: Any) -> None:
        """Fill the masks of some rows. Raises :class:`BudgetError` if no output is that short."""
        left = self.max_new_tokens - (tracker.length - tracker.prompt_length)
        matchers = [tracker.matchers[row] for row in rows]
        try:
            fill_next_token_bitmasks(matchers, bitmask, rows, budgets=[left] * len(rows))
        except BudgetError:
            for row, matcher in zip(rows, matchers, strict=True):
                self._fill_row(matcher, left, bitmask, row)

    def _fill_row(self, matcher: Matcher, left: int, bitmask: Any, row: int) -> None:
        """Fill one mask; where no ending fits, allow only the first token of a short one."""
        try:
            matcher.fill_next_token_bitmask(bitmask, row, left)
        except BudgetError as error:
            if left == self.max_new_tokens:
                last = " with its stop token" if matcher.stop_token_ids else ""
                raise BudgetError(
                    f"row {row}: max_new_tokens={left}: expected at least {error.least}, since no shorter legal output was "
                    f"found{last}",
                    left,
                    error.least,
                ) from None
            tokens = matcher.shortest_completion()[:1] or matcher.stop_token_ids
            allow_only(bitmask_view(bitmask, matcher.grammar.vocab.size)[row], tokens)


def give_back(masked: torch.Tensor, rows: Sequence[int], bitmask: torch.Tensor) -> None:
    """In place, set the logits that a row's mask allows to zero, where another processor has forbidden all of them.

    ``masked``: ``(rows, width)``, after the mask; ``bitmask``: on its device. Does not wait for a GPU.
    """
    dead = dead_rows(rows, masked)
    if masked.device.type == "cpu" and not dead.any():
        return
    allowed = torch.zeros_like(masked)
    apply_token_bitmask_inplace(allowed, bitmask)
    masked.copy_(torch.where(dead[:, None], allowed, masked))
