"""``GrammarLogitsProcessor(..., trace=True)``: what the model preferred at each step, and what the mask removed.

A step's key is a digest of the row in which its text started and of the tokens before it. So beams may be permuted, duplicated
and dropped, and the steps of a finished row are still found from its tokens. The key includes the row because two rows of equal
tokens may differ in an encoder's input or in embeddings passed in place of ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np
import torch

from cdplugin.queries.trace import Candidate, Preference

if TYPE_CHECKING:
    from cdplugin.adapters.prefixes import RowTracker

MOST_STEPS = 16_384
"""Most steps that are kept, of all rows together; the oldest are dropped first."""
CANDIDATES = 5
"""How many of a step's likeliest tokens are kept."""


class Recorder:
    """The recorded steps of a generation, by the tokens before them."""

    def __init__(self) -> None:
        self._steps: dict[bytes, Preference] = {}

    def clear(self) -> None:
        """Forget all steps."""
        self._steps.clear()

    def note(self, tracker: RowTracker, rows: Iterable[int], scores: torch.Tensor, masked: torch.Tensor) -> None:
        """Record what ``scores`` ``(rows, width)`` preferred before the mask, and what ``masked`` leaves, for some rows."""
        for row in rows:
            if len(self._steps) >= MOST_STEPS:
                del self._steps[next(iter(self._steps))]
            before = tracker.ids[row, tracker.prompt_length : tracker.length]
            self._steps[_digest(_begun(tracker, tracker.origin[row]), before)] = _preference(scores[row], masked[row])

    def preferences(self, tracker: RowTracker, row: int) -> Callable[[tuple[int, ...]], Preference | None]:
        """A function from a row's generated tokens to what the model preferred after them; None if not recorded."""
        first = row // tracker.rows_per_prompt * tracker.rows_per_prompt
        prompts = tracker.ids[:, : tracker.prompt_length]
        # a beam search may return a row that started in another row of the same prompt
        others = [r for r in range(first, first + tracker.rows_per_prompt) if np.array_equal(prompts[r], prompts[row])]
        begun = [_begun(tracker, origin) for origin in (tracker.origin[row], *others)]

        def preference(tokens: tuple[int, ...]) -> Preference | None:
            keys = (_digest(one, np.array(tokens, np.int64)) for one in begun)
            return next((self._steps[key] for key in keys if key in self._steps), None)

        return preference


def _begun(tracker: RowTracker, origin: int) -> bytes:
    """A digest of a row's number and prompt."""
    return _digest(origin.to_bytes(8, "little"), tracker.ids[origin, : tracker.prompt_length])


def _digest(begun: bytes, tokens: np.ndarray) -> bytes:
    return blake2b(begun + np.ascontiguousarray(tokens, np.int64).tobytes(), digest_size=16).digest()


def _preference(scores: torch.Tensor, masked: torch.Tensor) -> Preference:
    probabilities = torch.softmax(scores.float(), -1)
    allowed = masked > -torch.inf
    top, ids = probabilities.topk(min(CANDIDATES, len(probabilities)))
    kept = float(probabilities[allowed].sum()) if bool(allowed.any()) else 0.0
    candidates = tuple(
        Candidate(token, probability, passed)
        for token, probability, passed in zip(ids.tolist(), top.tolist(), allowed[ids].tolist(), strict=True)
    )
    return Preference(candidates, min(max(1.0 - kept, 0.0), 1.0))
