"""Outputs that end inside a budget of tokens: what :class:`cdplugin.adapters.hf.processor.GrammarLogitsProcessor` does with
``max_new_tokens``.

A text may always be ended legally: ``shortest_completion()`` gives an ending. A token is let through only if the text after it
can be ended in what is left of the budget then, so that the next step finds the same to be true; and if none passes, the ending
itself is taken, of which every token passes.

All tokens that the mask leaves are judged, the likeliest first, until those that are left have so little of the probability
that greedy decoding cannot differ, and sampling by a thousandth at most. "Can be ended" means that an ending is found
(:meth:`cdplugin.Matcher.can_end_within`): where one exists but is not found, a token is missed, never let through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import torch

from cdplugin.errors import CdpluginError

if TYPE_CHECKING:
    from cdplugin.adapters.prefixes import RowTracker
    from cdplugin.matcher import Matcher

AT_ONCE = 256
"""So many of the likeliest tokens are sorted out first; mostly they have all the probability."""
NEGLIGIBLE = 0.001
"""Tokens are looked at until those that are left have less of the probability than this share of what those that pass have."""


class BudgetError(CdpluginError, ValueError):
    """``max_new_tokens`` is too small for any legal output."""


class Closing:
    """Restricts masked scores to tokens after which the text still fits. ``max_new_tokens`` counts the stop token."""

    def __init__(self, max_new_tokens: int) -> None:
        if isinstance(max_new_tokens, bool) or not isinstance(max_new_tokens, int) or max_new_tokens < 1:
            raise ValueError(f"max_new_tokens: expected a positive integer, found {max_new_tokens!r}")
        self.max_new_tokens = max_new_tokens

    def restrict(self, scores: torch.Tensor, tracker: RowTracker, rows: Iterable[int]) -> None:
        """Set the scores of tokens that do not fit to minus infinity, in place, in ``rows``, which are not ended.

        Raises :class:`BudgetError` if not even the shortest ending fits.
        """
        used = tracker.length - tracker.prompt_length
        for row in rows:
            self._restrict_row(scores[row], tracker.matchers[row], self.max_new_tokens - used, row)

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
        """Tokens after which at most ``budget`` tokens end the text, and the stop tokens where it may end."""
        stops = frozenset(matcher.stop_token_ids if matcher.is_accepting() else ())
        if budget < 0:
            return [token for token in sorted(stops) if scores[token] > -torch.inf]
        fits = matcher.ends_within(budget)
        kept: list[int] = []
        passed, left = 0.0, 1.0
        for token, probability in _likeliest(scores):
            if kept and left <= NEGLIGIBLE * passed:
                break
            left -= probability
            if token in stops or fits(token):
                kept.append(token)
                passed += probability
        return kept


def _likeliest(scores: torch.Tensor) -> Iterator[tuple[int, float]]:
    """Tokens that are not masked with their probabilities, the likeliest first."""
    scores = scores.float()
    total = scores.logsumexp(-1)
    done = 0
    for count in (min(AT_ONCE, len(scores)), len(scores)):
        top, ids = scores.topk(count)
        probabilities = (top - total).exp().tolist()
        for token, score, probability in zip(ids[done:].tolist(), top[done:].tolist(), probabilities[done:], strict=True):
            if score == -torch.inf:
                return
            yield token, probability
        done = count
