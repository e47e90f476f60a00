"""A logits processor for engines that cannot use the structured-output backend.

    LLM(MODEL, logits_processors=["cdplugin.adapters.vllm.logits:GrammarLogitsProcessor"])
    SamplingParams(extra_args={"cdplugin_regex": "[0-9]+"})

A request is constrained by one of ``cdplugin_json`` (a schema as text), ``cdplugin_json_object`` (true), ``cdplugin_regex``,
``cdplugin_choice`` (a list), ``cdplugin_grammar`` and ``cdplugin_structural_tag``; over HTTP they go into ``vllm_xargs``.
``cdplugin_budget`` may accompany it, as for the backend (:mod:`cdplugin.adapters.vllm.budget`).

Unlike a backend it works in each worker, after the forward pass, and cannot end a request with an error: after a failure it
allows only stop tokens, and logs why. vLLM has two interfaces for such classes, one per model runner, and this class inherits
both. It is not an entry point, because an entry point of one interface breaks the start of the other model runner.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import torch

from cdplugin.adapters.serving.requests import ServerOptions, spec_of
from cdplugin.adapters.vllm import budget, compat
from cdplugin.adapters.vllm.grammar import OPTIONS_VARIABLE, Engine, GrammarState, engine_for
from cdplugin.bitmask import allocate_token_bitmask, apply_token_bitmask_inplace
from cdplugin.bits import allow_only
from cdplugin.errors import GrammarError, shown

logger = logging.getLogger("vllm.cdplugin")

PREFIX = "cdplugin_"
KINDS = ("json", "json_object", "regex", "choice", "grammar", "structural_tag")

try:
    _BASES = compat.logits_processor_bases()
except compat.NotFoundError:  # without vLLM, for tests that do not need it
    _BASES = (object,)


def request_of(extra_args: dict[str, Any] | None) -> tuple[str, str] | None:
    """``(kind, text)`` of a request's extra arguments; None if unconstrained. Raises :class:`GrammarError` for wrong ones."""
    arguments = budget.arguments_of(extra_args).items()
    ours = {name: value for name, value in arguments if isinstance(name, str) and name.startswith(PREFIX)}
    given = {name: value for name, value in ours.items() if name != budget.ARGUMENT}
    unknown = [name for name in given if name.removeprefix(PREFIX) not in KINDS]
    if unknown or len(given) > 1:
        expected = "one of " + ", ".join(PREFIX + kind for kind in KINDS)
        raise GrammarError("extra arguments", expected=expected, found=", ".join(unknown or given))
    if not given:
        return None
    ((name, value),) = given.items()
    kind = name.removeprefix(PREFIX)
    if kind == "json_object":
        if not isinstance(value, (int, float)) or value != 1:
            raise GrammarError(name, expected="true", found=shown(value))
        return "JSON_OBJECT", ""
    if isinstance(value, str) and kind != "choice":
        return kind.upper(), value
    if kind in ("regex", "grammar"):
        raise GrammarError(name, expected="a text", found=type(value).__name__)
    try:
        return kind.upper(), json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise GrammarError(name, expected="a value that JSON can write", found=str(error)) from None


async def check_off_loop(params: Any) -> None:
    """Compute off the event loop what :meth:`GrammarLogitsProcessor.validate_params` looks up. Raises :class:`GrammarError`."""
    request = request_of(getattr(params, "extra_args", None))
    door = GrammarLogitsProcessor.door
    if request is not None and door is not None:
        await door.check_off_loop(*request, budget.of_params(params, door.options.endings))


@dataclass(eq=False)
class _Row:
    """A constrained request: its state, and how many of its tokens have been followed."""

    state: GrammarState | None
    stops: list[int]
    output: list[int] | None  # V1: vLLM's own list, which grows
    followed: int = 0

    def follow(self, tokens: list[int]) -> None:
        """Accept new tokens. After a token that was not allowed (something else forced it) only stop tokens are allowed."""
        if self.state is not None and tokens and not self.state.accept_tokens("", tokens):
            logger.warning("cdplugin: a token was chosen that was not allowed; only stop tokens are from here")
            self.state = None
        self.followed += len(tokens)

    def fill(self, bitmask: Any, row: int) -> None:
        if self.state is None:
            allow_only(bitmask[row].numpy(), self.stops)
        elif self.state.is_terminated():
            bitmask[row] = -1
        else:
            self.state.fill_bitmask(bitmask, row)


class GrammarLogitsProcessor(*_BASES):  # type: ignore[misc]
    """Masks the logits of the tokens that the grammar forbids, for both of vLLM's model runners."""

    def __init__(self, vllm_config: Any, device_or_states: Any, is_pin_memory: bool | None = None) -> None:
        """V1: ``(vllm_config, device, is_pin_memory)``; V2: ``(vllm_config, req_states)``."""
        model_config = vllm_config.model_config
        compact = vllm_config.structured_outputs_config.disable_any_whitespace
        self._engine: Engine = engine_for(compat.tokenizer_of(model_config), model_config.get_vocab_size(), compact)
        self._engine.warm()
        self._max_model_len = int(model_config.max_model_len)
        self._states = device_or_states if is_pin_memory is None else None
        self._rows: dict[int, _Row] = {}  # V1: by position in the batch; V2: by slot
        self._bitmask: torch.Tensor = allocate_token_bitmask(1, self._engine.vocab.size)

    door: Engine | None = None
    """The front end's engine, which checks requests; None without a known front end."""

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raise ``ValueError`` (HTTP 400) for a request that cannot be read or compiled."""
        request = request_of(sampling_params.extra_args)
        if request is None:
            return
        if cls.door is not None:
            cls.door.check(*request, budget.of_params(sampling_params, cls.door.options.endings))
        else:  # no vocabulary to compile for: check what can be checked without one
            options = ServerOptions.from_environment(OPTIONS_VARIABLE)
            budget.of_params(sampling_params, options.endings)
            spec_of(*request, options).rules(options.budgets)

    def is_argmax_invariant(self) -> bool:
        return False

    def _row(self, params: Any, output: list[int] | None, prompt: int = 0) -> _Row | None:
        """The row of a new request with so many prompt tokens; None if unconstrained. Does not raise: that ends the engine."""
        stops = {int(t) for t in getattr(params, "all_stop_token_ids", None) or ()}
        listed = sorted(t for t in stops if 0 <= t < self._engine.vocab.size) or list(self._engine.vocab.eos_token_ids)
        try:
            request = request_of(params.extra_args)
            if request is None:
                return None
            state = self._engine.state(*request, listed)
            if budget.asked(params.extra_args, self._engine.options.endings) != 0:
                state.budget = budget.FixedBudget(budget.of_params(params, True), self._max_model_len - prompt)
            return _Row(state, listed, output)
        except Exception as error:
            logger.error("cdplugin: request refused, only stop tokens are allowed: %s", error)
            return _Row(None, listed, output)

    def apply(self, logits: torch.Tensor, ctx: Any = None) -> torch.Tensor:
        """Mask the rows of constrained requests, in place."""
        if not self._rows:
            return logits
        if self._bitmask.shape[0] < logits.shape[0]:
            self._bitmask = allocate_token_bitmask(logits.shape[0], self._engine.vocab.size)
        filled = self._fill_v1(logits.shape[0]) if ctx is None else self._fill_v2(ctx)
        if filled:
            apply_token_bitmask_inplace(logits, self._bitmask, filled)
        return logits

    # --- V1 -----------------------------------------------------------------------------------------------------------------

    def update_state(self, batch_update: Any) -> None:
        """Apply the changes of the batch, in vLLM's order: removed, added, moved."""
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._rows.pop(index, None)
        for index, params, prompt, output in batch_update.added:
            self._put(index, self._row(params, output, len(prompt or ())))
        for source, target, direction in batch_update.moved:
            moved, replaced = self._rows.pop(source, None), self._rows.pop(target, None)
            self._put(target, moved)
            if direction.name == "SWAP":
                self._put(source, replaced)

    def _put(self, index: int, row: _Row | None) -> None:
        if row is None:
            self._rows.pop(index, None)
        else:
            self._rows[index] = row

    def _fill_v1(self, rows: int) -> list[int]:
        filled = []
        for index, row in self._rows.items():
            if index < rows and row.output is not None:
                row.follow([t for t in row.output[row.followed :] if t >= 0])  # -1: not known yet
                row.fill(self._bitmask, index)
                filled.append(index)
        return filled

    # --- V2 -----------------------------------------------------------------------------------------------------------------

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Add a request to the batch; it may have output already, if it was preempted."""
        self._put(req_idx, self._row(sampling_params, None))
        return req_idx in self._rows

    def apply_staged_writes(self) -> None:
        """Nothing to do: this processor writes nothing to the device."""

    def _fill_v2(self, ctx: Any) -> list[int]:
        """Fill each request's rows: one for its next token, and one more after each of its drafts."""
        rows_of: dict[int, list[int]] = {}
        for logits_row, slot in enumerate(ctx.expanded_idx_mapping.tolist()):
            if slot in self._rows:
                rows_of.setdefault(slot, []).append(logits_row)
        if not rows_of:
            return []
        position, fed = ctx.expanded_local_pos.tolist(), ctx.input_ids.tolist()
        filled = []
        for slot, prompt, tokens in compat.request_tokens(self._states, rows_of):
            row = self._rows[slot]
            row.follow(tokens[row.followed :])
            drafts = 0
            left = row.state.budget if row.state is not None else None
            if isinstance(left, budget.FixedBudget):
                left.room = self._max_model_len - prompt
            for logits_row in sorted(rows_of[slot], key=position.__getitem__):
                if position[logits_row] > 0 and row.state is not None and not row.state.is_terminated():
                    if not row.state.accept_tokens("", [fed[logits_row]]):
                        break  # the row before masks this draft, so what follows it is never accepted
                    drafts += 1
                if isinstance(left, budget.FixedBudget):
                    left.is_ahead = drafts > 0
                row.fill(self._bitmask, logits_row)
                filled.append(logits_row)
            if row.state is not None:
                row.state.rollback(drafts)
        return filled
