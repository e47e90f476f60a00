"""Outputs that end inside a budget of tokens: what :class:`cdplugin.adapters.hf.GrammarLogitsProcessor` does with
``max_new_tokens``.

A text may always be ended legally: ``shortest_completion()`` gives an ending. A token is let through only if the text after it
can be ended in what is left of the budget then, so that the next step finds the same to be true; and if no token that the model
likes passes, the ending itself is taken, of which every token passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from cdplugin.errors import CdpluginError

if TYPE_CHECKING:
    from cdplugin.adapters.prefixes import Session
    from cdplugin.matcher import Matcher

CANDIDATES = 256
"""At most so many tokens of a row are looked at, the likeliest first."""
MASS = 0.999
"""Nor any more once those that pass have so much of the probability that the mask leaves."""


class BudgetError(CdpluginError, ValueError):
    """``max_new_tokens`` is too small for any legal output."""


class Closing:
    """Restricts masked scores to tokens after which the text still fits. ``max_new_tokens`` counts the stop token."""

    def __init__(self, max_new_tokens: int) -> None:
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected a positive integer, found {max_new_tokens!r}")
        self.max_new_tokens = max_new_tokens

    def restrict(self, scores: torch.Tensor, session: Session, rows: Iterable[int]) -> None:
        """Set the scores of tokens that do not fit to minus infinity, in place, in ``rows``, which are not ended.

        Raises :class:`BudgetError` if not even the shortest ending fits.
        """
        used = session.length - session.prompt_length
        for row in rows:
            self._restrict_row(scores[row], session.matchers[row], self.max_new_tokens - used, row)

    def _restrict_row(self, scores: torch.Tensor, matcher: Matcher, left: int, row: int) -> None:
        last = 1 if matcher.stop_token_ids else 0  # the stop token
        if left == self.max_new_tokens:
            least = len(matcher.shortest_completion()) + last
            if least > left:
                raise BudgetError(
                    f"row {row}: max_new_tokens={left}: expected at least {least}, which the shortest legal output that was "
                    f"found takes{' with its stop token' if last else ''}"
                )
        kept = self._passing(scores, matcher, left - 1 - last)
        if not kept:
            kept = matcher.shortest_completion()[:1] or list(matcher.stop_token_ids)
        ids = torch.tensor(kept, device=scores.device)
        values = scores[ids]
        if not torch.isfinite(values).any():  # another processor forbade the ending
            values = torch.zeros_like(values)
        scores.fill_(-torch.inf)
        scores[ids] = values

    def _passing(self, scores: torch.Tensor, matcher: Matcher, budget: int) -> list[int]:
        """The likeliest tokens after which at most ``budget`` tokens end the text, and the stop tokens where it may end."""
        stops = matcher.stop_token_ids if matcher.is_accepting() else ()
        top, ids = scores.float().topk(min(CANDIDATES, scores.shape[-1]))
        weights = (top - scores.float().logsumexp(-1)).exp()
        kept: list[int] = []
        mass = 0.0
        for token, score, weight in zip(ids.tolist(), top.tolist(), weights.tolist(), strict=True):
            if score == -torch.inf or mass >= MASS:
                break
            if token in stops or (budget >= 0 and matcher.can_end_within(budget, after=token)):
                kept.append(token)
                mass += weight
        return kept
