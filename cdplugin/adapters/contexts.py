"""Masks for hosts that pass the whole context at each call: mlx-lm, llama-cpp-python, TensorRT-LLM.

Such a host calls ``processor(ids, logits)`` with all ids of a row, prompt included, and tells nothing else: not that the prompt
is new, nor that rows were permuted or draft tokens taken back. :class:`ContextMasks` recovers each row's state from its ids
(:mod:`cdplugin.adapters.prefixes`) and fills its mask; the host's own adapter converts the mask to its kind of array.

========================  ======================================================  ==========================================
host                      when it calls the processor                             what happens to an exception
========================  ======================================================  ==========================================
mlx-lm, one sequence      each step, one ahead of the token that it yields        reaches the caller
mlx-lm, a batch           each step, one processor per sequence                   ends the batch, all sequences
llama-cpp-python          each step, within a callback from C                     is printed and **lost**: no mask is applied
TensorRT-LLM              each step, one row per beam                             ends the engine's loop, all requests
========================  ======================================================  ==========================================

So ``on_error`` has two values. ``"raise"`` raises. ``"end"`` allows only end tokens from then on and stores the error in
:attr:`ContextMasks.error`, where the caller of the generation finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from cdplugin.adapters.prefixes import DEAD, ENDED, RowTracker, RowTrackers, checked_grammars
from cdplugin.bits import allow_only, bitmask_words
from cdplugin.errors import CdpluginError, EngineError
from cdplugin.matcher import fill_next_token_bitmasks

logger = logging.getLogger("cdplugin")


class ContextMasks:
    """The masks of the rows of one generation; after :meth:`reset`, of the next one.

    Rows that do not continue what was seen raise an error; they do not start a new prompt. Otherwise a processor that several
    sequences share would restart the grammar in the middle of a text. :mod:`cdplugin.adapters.prefixes` defines what continues
    a generation; the same prompt again does.

    ``grammars``: one per prompt, None for an unconstrained prompt; row r belongs to prompt ``r // (rows / prompts)``.
    ``beams``: the rows of a prompt are beams. A beam that holds a forbidden token is taken for one about to be dropped; without
    ``beams`` it is an error.
    ``max_new_tokens``: the text ends legally within that many tokens, its stop token included. If no text is that short, the
    first call raises :class:`cdplugin.BudgetError`. ``error``: what failed under ``on_error="end"``, until :meth:`reset`.
    """

    def __init__(
        self, grammars: Sequence[Any], *, max_new_tokens: int | None = None, on_error: str = "raise", beams: bool = False
    ) -> None:
        if max_new_tokens is not None and (type(max_new_tokens) is not int or max_new_tokens < 1):
            raise ValueError(f"max_new_tokens: expected a positive integer, found {max_new_tokens!r}")
        if on_error not in ("raise", "end"):
            raise ValueError(f"on_error: expected 'raise' or 'end', found {on_error!r}")
        self.grammars = checked_grammars(list(grammars))
        first = next((grammar for grammar in self.grammars if grammar is not None), None)
        self.size: int = first.vocab.size if first is not None else 0
        self._ends = tuple(first.vocab.eos_token_ids) if first is not None else ()
        self._raises, self._beams, self._most = on_error == "raise", beams, max_new_tokens
        self._trackers = RowTrackers(self.grammars)
        self._bitmask = np.zeros((0, bitmask_words(self.size)), np.int32)
        self.error: Exception | None = None

    def reset(self) -> None:
        """Forget the prompt and the error: the next call starts a new prompt, even if it looks like a continuation."""
        self._trackers.forget()
        self.error = None

    def masks(self, ids: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """The bitmask for rows of ids, and the list of the rows it applies to; all other rows are unconstrained.

        ``ids``: integers, ``(rows, length)``. The bitmask is int32, ``(rows, ceil(size / 32))``; the next call overwrites it.
        Under ``"raise"``, raises :class:`cdplugin.LimitExceeded`, and :class:`cdplugin.EngineError` if a row holds a token that
        the mask had forbidden: something after the processor chose it.
        """
        rows = len(ids)
        if len(self._bitmask) != rows:
            self._bitmask = np.zeros((rows, bitmask_words(self.size)), np.int32)
        if not self.size:
            return self._bitmask, []
        if self.error is None:
            try:
                return self._bitmask, self._fill(np.asarray(ids, np.int64))
            except Exception as error:
                if self._raises:
                    self._trackers.forget()
                    raise
                self.error = error
                level = logging.WARNING if isinstance(error, CdpluginError) else logging.ERROR
                logger.log(level, "cdplugin: the text ends here: %s", error, exc_info=level == logging.ERROR)
        for row in self._bitmask:
            allow_only(row, self._ends)
        return self._bitmask, [row for row in range(rows) if self.grammars[row * len(self.grammars) // rows] is not None]

    def _fill(self, ids: np.ndarray) -> list[int]:
        if self._trackers.current is not None and self._trackers.continued(ids) is None:
            raise EngineError(
                f"expected the context of the last call, {self._trackers.current.length} tokens, with at most a token added to "
                f"a prefix that was seen, found another of {ids.shape[1]}: make a processor for each text, or call reset()"
            )
        tracker = self._trackers.advance(ids)
        for row in tracker.refused():
            self._judge(tracker, row)
        rows = tracker.masked()
        matchers, budgets = [tracker.matchers[row] for row in rows], None
        if self._most is not None:
            left = max(1, self._most - (tracker.length - tracker.prompt_length))
            budgets = [None if tracker.status[row] == ENDED else left for row in rows]
        fill_next_token_bitmasks(matchers, self._bitmask, rows, budgets=budgets)
        return rows

    def _judge(self, tracker: RowTracker, row: int) -> None:
        """Handle a token that the mask had forbidden: a dying beam, or an error."""
        if self._beams and tracker.rows > 1:
            tracker.status[row] = DEAD
            return
        matcher, token = tracker.matchers[row], tracker.token_refused(row)
        known = 0 <= token < self.size
        raise EngineError(
            f"row {row}: token {token} at generated position {tracker.accepted[row]} was forbidden by the grammar's mask"
            f"{': ' + matcher.explain(token) if known else ''}. Something behind the grammar's processor chose it; if this is "
            "a new prompt, call reset() before it"
        )


class OneText:
    """What the hosts' processors share: the masks of one text at a time."""

    def __init__(self, grammar: Any, max_new_tokens: int | None, on_error: str) -> None:
        self._masks = ContextMasks([grammar], max_new_tokens=max_new_tokens, on_error=on_error)

    @property
    def error(self) -> Exception | None:
        """What went wrong under ``on_error="end"``, after which the text could only end."""
        return self._masks.error

    def reset(self) -> None:
        """Expect a new prompt."""
        self._masks.reset()
