"""Outputs that end inside a budget of tokens: what :class:`cdplugin.adapters.hf.processor.GrammarLogitsProcessor` does with
``max_new_tokens``.

The masks do it (:meth:`cdplugin.Matcher.fill_next_token_bitmask` with a budget): a token is let through only if an ending was
found that fits after it, and the first token of that ending is let through at the next step. What is left to do here: to
say at the first step that a budget is too small; to end a row as soon as possible that cannot end in time, since others chose
its tokens (drafts, beams); and to give an ending back that another processor forbade.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cdplugin.bitmask import bitmask_view
from cdplugin.bits import allow_only, bit_flags
from cdplugin.errors import BudgetError
from cdplugin.matcher import Matcher, fill_next_token_bitmasks

if TYPE_CHECKING:
    from cdplugin.adapters.prefixes import RowTracker

__all__ = ["BudgetError", "Closing"]


class Closing:
    """Fills masks with the tokens after which the text still fits. ``max_new_tokens`` counts the stop token."""

    def __init__(self, max_new_tokens: int) -> None:
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected a positive integer, found {max_new_tokens!r}")
        self.max_new_tokens = max_new_tokens

    def fill(self, tracker: RowTracker, rows: Sequence[int], bitmask: Any) -> None:
        """Write the masks of some rows. Raises :class:`BudgetError` if an output cannot be so short."""
        left = self.max_new_tokens - (tracker.length - tracker.prompt_length)
        matchers = [tracker.matchers[row] for row in rows]
        try:
            fill_next_token_bitmasks(matchers, bitmask, rows, budgets=[left] * len(rows))
        except BudgetError:
            for row, matcher in zip(rows, matchers, strict=True):
                self._fill_row(matcher, left, bitmask, row)

    def _fill_row(self, matcher: Matcher, left: int, bitmask: Any, row: int) -> None:
        """Write one mask; where no ending fits, the first token of a short one."""
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

    def give_back(self, masked: torch.Tensor, rows: Sequence[int], bitmask: Any) -> None:
        """In place, set what the mask of a row allows to zero, where another processor has forbidden all of it."""
        listed = list(rows)
        if not listed:
            return
        dead = torch.isneginf(masked[listed]).all(-1).tolist()
        for row in (row for row, is_dead in zip(listed, dead, strict=True) if is_dead):
            bits = bit_flags(bitmask[row].numpy())
            ids = np.flatnonzero(bits[: masked.shape[1]])
            masked[row, torch.from_numpy(ids).to(masked.device)] = 0.0
