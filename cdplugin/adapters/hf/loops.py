"""What kind of loop calls the processor, as far as its calls tell: sampling, beam search, the verification of drafts.

``generate()`` takes token 0 where no token is left, and returns it if that was its last step; beam search returns an empty
text. So a row without a token is an error, unless the loop drops the row: a beam beside others, a draft behind a refused one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch

from cdplugin.adapters.hf.host_copy import HostCopy
from cdplugin.adapters.prefixes import DEAD, LIVE, RowTracker
from cdplugin.errors import CdpluginError

_VERIFYING, _SAMPLING, _SEARCHING = "_assisted_decoding", "_sample", "_beam_search"
_LOOPS = (_VERIFYING, _SAMPLING, _SEARCHING)
"""Names of transformers' loops."""


def draft_position(scores: torch.Tensor) -> Literal["", "inside", "last"]:
    """Whether these scores belong to one position of several that are verified together (assisted generation).

    There the prefix may hold a candidate that the grammar refuses (drafts from a model with another tokenizer); the position's
    scores are computed all the same, and thrown away. Such scores are a slice of a larger tensor: ``"inside"`` it, or the
    ``"last"`` part of it. The scores of a sampling loop own their storage (``""``), but a caller's own loop may pass a
    ``"last"`` slice too; so a refused token that is let pass there must not be built on.
    """
    total = scores.untyped_storage().nbytes() // scores.element_size()
    if scores.shape[0] != 1 or total == scores.numel():
        return ""
    return "last" if scores.storage_offset() + scores.numel() == total else "inside"


def verified_length() -> int | None:
    """The length of the text that is verified, where transformers' verification of drafts calls; elsewhere None.

    :func:`draft_position` cannot tell that where a processor before the grammar's has copied the scores. The draft model's own
    loop runs inside the verification.
    """
    frame = _innermost_loop()
    length = frame.f_locals.get("cur_len") if frame.f_code.co_name == _VERIFYING else None
    return length if isinstance(length, int) else None


def _innermost_loop() -> FrameType:
    """The frame of the loop of transformers that calls; the outermost frame if none does."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_name not in _LOOPS:
        frame = frame.f_back
    return frame


def dead_rows(rows: Sequence[int], masked: torch.Tensor) -> torch.Tensor:
    """Which rows are among those listed and have no token left: bool ``(rows,)``. Does not wait for a GPU."""
    dead = torch.isneginf(masked.amax(-1))
    if len(rows) < len(masked):
        listed = torch.zeros(len(masked), dtype=torch.bool)
        listed[list(rows)] = True
        dead &= listed.to(masked.device, non_blocking=True)
    return dead


class Loop:
    """What the calls of one generation have told so far. transformers' beam search knows how many beams a prompt has: prompts
    may be equal, and behind an encoder they always are. In another loop, unless transformers samples, beams are rows with one
    prompt, whose scores, log probabilities, are at most 0; and only beams continue other rows.
    """

    def __init__(self, tracker: RowTracker) -> None:
        self._tracker = tracker
        frame = _innermost_loop()
        beams: Any = frame.f_locals.get("num_beams") if frame.f_code.co_name == _SEARCHING else None
        is_known = isinstance(beams, int) and beams > 1 and tracker.rows % beams == 0
        self._groups = np.arange(tracker.rows) // beams if is_known else tracker.groups
        is_sampling = frame.f_code.co_name == _SAMPLING
        self._may_be_beams = tracker.rows > 1 and not is_sampling and bool((np.bincount(self._groups) > 1).all())
        self._may_have_ended: Any = None  # of beams, by row: whether a stop token was left in any step
        self._looks_ahead = False
        self._unsettled: tuple[HostCopy, int] | None = None  # the dead rows, and the place that the text had reached

    def note(self, scores: torch.Tensor) -> None:
        """Note the scores of a call, before the mask."""
        if self._may_be_beams and not self._tracker.permuted and bool(scores.max() > 0):
            self._may_be_beams = False

    def _are_beams(self) -> bool:
        return self._tracker.permuted or self._may_be_beams

    def is_dead_beam(self, row: int) -> bool:
        """Whether a row may be a beam of probability zero that continues because no legal token was left for it.

        Right after the prompt some beam has a legal token, unless the text may end there.
        """
        tracker = self._tracker
        if not self._are_beams():
            return False
        return LIVE in tracker.status or tracker.length > tracker.prompt_length + 1 or tracker.matchers[row].is_accepting()

    def forced_beams(self, refused: list[int]) -> list[int]:
        """Those of the beams with refused tokens that are no dead ones: none of their prompt has gone on with a token that the
        last masks allowed, and none may have ended.
        """
        return self._without_any_beam(refused) if self._may_have_ended is not None else []

    def look_ahead(self) -> None:
        """Note that the loop calls the lookahead after each step, and :meth:`settle` the last one."""
        self.settle()
        self._looks_ahead = True

    def refuse_dead(self, rows: list[int], scores: torch.Tensor, masked: torch.Tensor) -> None:
        """Raise an error for a row all of whose allowed tokens other processors have forbidden, if the loop would go on with
        it. ``rows``: those whose matchers have accepted all tokens; ``scores`` and ``masked``: before and after the mask.

        Where the lookahead is called, it raises the error, so that a GPU is given the sampling before it is waited for. Such a
        row is unmasked in place: sampling from nothing would stop the device.
        """
        if not rows or draft_position(scores):
            return
        dead, place = dead_rows(rows, masked), self._tracker.length - self._tracker.prompt_length
        if self._are_beams():
            _refuse(self._without_any_beam(_listed(dead)), place)
        elif self._looks_ahead:
            masked.masked_fill_(dead[:, None], 0.0)
            self._unsettled = HostCopy(dead), place
        else:
            _refuse(_listed(dead), place)

    def settle(self) -> None:
        """Raise the error that :meth:`refuse_dead` has left for later, if any."""
        if self._unsettled is not None:
            (dead, place), self._unsettled = self._unsettled, None
            _refuse(_listed(dead.wait()), place)

    def note_ends(self, rows: list[int], masked: torch.Tensor) -> None:
        """Note in which beams, after the mask, a stop token is left. A beam that ends is no row any more."""
        if not rows or not self._are_beams():
            return
        if self._may_have_ended is None:
            self._may_have_ended = torch.zeros(len(masked), dtype=torch.bool, device=masked.device)
        stops = [token for token in self._tracker.matchers[rows[0]].stop_token_ids if token < masked.shape[1]]
        self._may_have_ended[rows] |= (masked[:, stops][rows] > float("-inf")).any(-1)

    def _without_any_beam(self, dead: list[int]) -> list[int]:
        """Those of some dead rows whose prompt has no beam that lives or may have ended."""
        groups, ended = self._groups, self._may_have_ended.tolist() if dead else []
        out = []
        for row in dead:
            beams = np.flatnonzero(groups == groups[row]).tolist()
            if all((beam in dead or self._tracker.status[beam] == DEAD) and not ended[beam] for beam in beams):
                out.append(row)
        return out


def _listed(dead: torch.Tensor) -> list[int]:
    return [row for row, is_dead in enumerate(dead.tolist()) if is_dead]


def _refuse(dead: list[int], place: int) -> None:
    if dead:
        raise CdpluginError(
            f"row {dead[0]}: no token is left at generated position {place}: a processor before the grammar's "
            "forbids each token that the grammar allows (min_new_tokens, suppress_tokens, no_repeat_ngram_size). "
            "GrammarLogitsProcessor(grammar, max_new_tokens=n) allows an ending again."
        )
