"""Continuous batching of transformers (``generate_batch``, ``ContinuousBatchingManager``): masks per request.

Here a processor does not see the token ids. Before each step ``prepare_tensor_args`` gets the requests that will receive a
token, in the order of the rows of the scores that ``__call__`` gets after the forward pass. So the first call advances the
matchers by the requests' generated tokens and fills the masks, and the second applies them.

An exception in either call ends all requests. So a request that cannot go on (its grammar exceeds a budget, or no grammar has
its number) has its token limit lowered to what it has generated; it ends after the step, with its error beside its tokens.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from transformers import LogitsProcessor
from transformers.generation.continuous_batching.cb_logits_processors import ContinuousBatchingLogitsProcessor

from cdplugin.adapters.hf.loops import dead_rows
from cdplugin.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from cdplugin.errors import CdpluginError, told
from cdplugin.matcher.batch import fill_each

logger = logging.getLogger("transformers.cdplugin")


def attach(grammars: Sequence[Any], manager: Any) -> RequestMasks:
    """Insert masks of the grammars before a manager's processors (see :meth:`cdplugin.GrammarLogitsProcessor.attach`)."""
    processors: Any = getattr(manager, "logit_processor", None)
    config = getattr(manager, "continuous_batching_config", None)
    if config is None or not hasattr(processors, "tensors_required"):
        raise CdpluginError(
            f"continuous batching: expected a transformers ContinuousBatchingManager, found {type(manager).__name__}"
        )
    if manager.is_running() or getattr(manager, "batch_processor", None) is not None:
        raise CdpluginError(
            "continuous batching: expected a manager that has not been started, found one with its buffers laid out"
        )
    graphs = config.use_cuda_graph
    for name, on, reason in (
        ("use_async_batching", config.use_async_batching, "starts a step before the tokens of the last one are known"),
        ("use_cuda_graph", any(graphs) if isinstance(graphs, tuple) else graphs, "records a step once, and its masks with it"),
        ("varlen_compile_config", config.varlen_compile_config is not None, "compiles the step, masks included"),
        ("decode_compile_config", config.decode_compile_config is not None, "compiles the step, masks included"),
    ):
        if on:
            raise CdpluginError(
                f"continuous batching: {name} {reason}; pass continuous_batching_config="
                "ContinuousBatchingConfig(use_async_batching=False, use_cuda_graph=False) without compile configurations"
            )
    masks = RequestMasks(grammars, manager)
    processors.logits_processor.insert(0, masks)  # before temperature and top-k, as in generate()
    processors.logits_processor.append(Remainder(masks))
    processors.tensors_required += 1
    processors._retrieve_processors_kwargs()
    processors.do_processing = True
    return masks


class RequestMasks(ContinuousBatchingLogitsProcessor):
    """Masks for the requests of a step. ``grammars``: one for all requests, or one for each from the manager's next one on."""

    supported_kwargs: dict[str, type] = {"grammar": int}  # noqa: RUF012 - the base class has it so
    ignored_kwargs: tuple[str, ...] = ()

    def __init__(self, grammars: Sequence[Any], manager: Any) -> None:
        self._grammars = list(grammars)
        self.begin(manager)
        self._matchers: dict[str, tuple[weakref.ref[Any], Any]] = {}  # request id -> (request state, matcher)
        vocabs = [grammar.vocab for grammar in grammars if grammar is not None]
        self._size = vocabs[0].size if vocabs else 0
        self._bitmask: Any = None
        self._states: list[Any] = []
        self._rows: list[int] = []

    def begin(self, manager: Any) -> None:
        """Count requests from the manager's next one."""
        self._first = getattr(manager, "_request_counter", 0)

    def fill_defaults(self, int32_tensor: torch.Tensor) -> None:
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: list[Any]) -> torch.Tensor:
        """Advance the requests' matchers and fill their masks. The returned tensor is a formality: the masks stay here."""
        states = self._states = [request.state for request in requests_with_new_token]
        matchers = [self._matcher_or_end(state) for state in states]
        self._rows = [row for row, matcher in enumerate(matchers) if matcher is not None]
        if self._rows:
            if self._bitmask is None or self._bitmask.shape[0] < len(matchers):
                self._bitmask = allocate_token_bitmask(len(matchers), self._size)
            failed = fill_each([matchers[row] for row in self._rows], self._bitmask, self._rows)
            for place, error in failed.items():
                _end(states[self._rows[place]], error)
            self._rows = [row for place, row in enumerate(self._rows) if place not in failed]
        return torch.zeros(len(matchers), dtype=torch.int32)

    def __call__(self, scores: torch.Tensor, tensor_arg: torch.Tensor) -> torch.Tensor:
        if self._rows:
            scores = scores.clone()
            # The copy is complete on return: the next step may refill the masks.
            apply_token_bitmask_inplace(scores, self._bitmask.to(scores.device), self._rows)
        return scores

    def end_dead(self, scores: torch.Tensor) -> torch.Tensor:
        """End the requests that have no token left, since sampling would fail, and with it all requests."""
        dead = dead_rows(self._rows, scores).nonzero().flatten().tolist()
        if dead:
            scores = scores.clone()
            scores[dead] = 0.0
        for row in dead:
            state = self._states[row]
            text = f"request {state.request_id}: no token is left: other processors forbid each that the grammar allows"
            _end(state, CdpluginError(text))
        return scores

    def _matcher_or_end(self, state: Any) -> Any:
        """:meth:`_matcher`; None for a request that cannot go on, which is made to end."""
        try:
            if state.error is None:
                return self._matcher(state)
            _end(state)
        except Exception as error:
            _end(state, error)
        return None

    def _matcher(self, state: Any) -> Any:
        """The request's matcher after its generated tokens; None for an unconstrained request."""
        known = self._matchers.get(state.request_id)
        tokens = state.generated_tokens
        if state._true_initial_tokens:  # the cache was full: the request restarted with its generated tokens in the prompt
            tokens = state.initial_tokens[state._true_initial_tokens :] + tokens
        if known is None or known[0]() is not state:  # an earlier request had that name, or this one restarted
            self._forget_finished()
            grammar = self._grammar(state)
            known = (weakref.ref(state), None if grammar is None else grammar.matcher())
            self._matchers[state.request_id] = known
        matcher = known[1]
        if matcher is None:
            return None
        followed = len(matcher.tokens)
        if followed > len(tokens):
            matcher.reset()
            followed = 0
        for token in tokens[followed:]:
            if not matcher.accept_token(token):
                if matcher.is_terminated():
                    break
                raise CdpluginError(
                    f"request {state.request_id}: token {token} was forbidden by the grammar's mask: {matcher.explain(token)}"
                )
        return matcher

    def _grammar(self, state: Any) -> Any:
        if "grammar" in state.logit_processor_kwargs:
            place = state.logit_processor_kwargs["grammar"]
        elif len(self._grammars) == 1:
            place = 0
        else:
            prefix, _, number = str(state.request_id).split("__child#")[0].partition("req_")
            if str(state.request_id).startswith("__warmup"):
                return None
            if prefix or not number.isdecimal():
                raise CdpluginError(
                    f"request {state.request_id!r}: expected add_request(..., grammar=i), as it has a name of its own"
                )
            place = int(number) - self._first
        if not 0 <= place < len(self._grammars):
            raise CdpluginError(
                f"request {state.request_id}: expected a grammar from 0 to {len(self._grammars) - 1}, found {place}"
            )
        return self._grammars[place]

    def _forget_finished(self) -> None:
        """Drop the matchers of requests that are over: finished (statuses from FINISHED on are final) or cancelled (gone)."""
        from transformers.generation.continuous_batching.requests import RequestStatus

        states = [(name, reference()) for name, (reference, _) in self._matchers.items()]
        for name, state in states:
            if state is None or state.status >= RequestStatus.FINISHED:
                del self._matchers[name]


class Remainder(LogitsProcessor):
    """The last processor: ends the requests for which the others have left no token."""

    supports_continuous_batching = True

    def __init__(self, masks: RequestMasks) -> None:
        self._masks = masks

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        return self._masks.end_dead(scores)  # type: ignore[return-value]


def _end(state: Any, error: Exception | None = None) -> None:
    """Make a request end with an error after this step, without the step's token.

    A request with further sequences is copied after this step, and only if it goes on. So it ends one step later, together with
    the copies, and the token in between is removed.
    """
    if state.error is None:
        assert error is not None
        state.error = told(error)
        if not isinstance(error, CdpluginError):
            logger.error("cdplugin: a request that cannot go on; please report this", exc_info=error)
        if state.num_children:
            return
    else:
        state.generated_tokens.clear()
        state.logprobs.clear()
    state.max_new_tokens = state._new_tokens_limit = len(state.generated_tokens)
    state._eos_token_ids = set()
