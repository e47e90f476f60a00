"""How many tokens a vLLM request may still have, for the state of its grammar.

vLLM gives a request at most ``max_tokens`` tokens, the stop token included, and ends it where the model's context ends. The
grammar sees only the tokens that it constrains, but the reasoning tokens before them count too; so the remaining number is
read from the request itself. Drafts (speculative decoding) are accepted and rolled back between two steps, while the request
does not yet count them; they are subtracted here.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from cdplugin.errors import GrammarError, shown

ARGUMENT = "cdplugin_budget"
"""The name of the budget in a request's extra arguments (HTTP: ``vllm_xargs``)."""


def arguments_of(extra_args: Any) -> dict[str, Any]:
    """A request's extra arguments; empty if it has none. Raises :class:`GrammarError` for anything but an object."""
    if extra_args is None:
        return {}
    if not isinstance(extra_args, dict):
        raise GrammarError("extra arguments", expected="an object", found=type(extra_args).__name__)
    return extra_args


def asked(extra_args: dict[str, Any] | None, default: bool) -> int | None:
    """The budget that a request asks for: 0 for none, None for ``max_tokens``, else a number of tokens, perhaps a smaller one.

    ``default``: whether requests that do not say have one. Over HTTP vLLM turns ``false`` into 0 and ``true`` into 1, which is
    a budget of one token; so the strings "true" and "false" are accepted, too. A request whose answer another instance decodes
    (``do_remote_decode``) has no budget: its one token is chosen again by the other instance. Raises :class:`GrammarError` for
    anything but a boolean, "true", "false" or a non-negative integer.
    """
    arguments = arguments_of(extra_args)
    value, transfer = arguments.get(ARGUMENT), arguments.get("kv_transfer_params")
    if isinstance(transfer, dict) and transfer.get("do_remote_decode"):
        return 0
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        value = value.strip().lower() == "true"
    if value is None:
        return None if default else 0
    if isinstance(value, bool):
        return None if value else 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or value < 0:
        raise GrammarError(ARGUMENT, expected="true, false or a positive number of tokens", found=shown(value))
    return value


def of_params(params: Any, default: bool) -> int | None:
    """The number of tokens within which the answer to ``SamplingParams`` must end; None: any. Raises as :func:`asked`."""
    most = asked(getattr(params, "extra_args", None), default)
    if most == 0:
        return None
    listed = [n for n in (most, getattr(params, "max_tokens", None)) if n is not None]
    return min(listed) if listed else None


class RequestBudget:
    """The tokens left to a request. ``most``: a limit of its own, if it is below vLLM's.

    ``request``: vLLM's ``Request``, held by a weak reference because it holds the grammar's state. ``drafts``: draft tokens per
    step. While reasoning has not ended, that many tokens are reserved: it may end among a step's drafts, and the grammar does
    not see the ones before its end.
    """

    def __init__(self, request: Any, max_model_len: int, most: int | None = None, drafts: int = 0) -> None:
        self._request = weakref.ref(request)
        self._max_model_len = max_model_len
        self._most = most
        self._drafts = drafts
        self._written = -1  # tokens of the request at this step
        self._followed = 0  # tokens that the grammar had accepted when its first mask of the step was filled

    def left(self, followed: int) -> int | None:
        """The tokens that may still come, after ``followed`` accepted ones, drafts included. None if the request is gone."""
        request = self._request()
        if request is None:
            return None
        written = request.num_output_tokens
        if written != self._written:
            self._written, self._followed = written, followed
        total = min(request.max_tokens, self._max_model_len - request.num_prompt_tokens)
        if self._most is not None:
            total = min(total, self._most)
        structured = getattr(request, "structured_output_request", None)
        reserve = self._drafts if getattr(structured, "reasoning_ended", None) is False else 0
        return int(total - written - (followed - self._followed) - reserve)

    def has_drafts(self, followed: int) -> bool:
        """Whether drafts are among the accepted tokens."""
        return followed != self._followed


@dataclass(eq=False)
class FixedBudget:
    """The tokens left to a request whose grammar sees all its tokens.

    ``most``: the request's limit, if any; ``room``: what the prompt leaves of the model's context; ``is_ahead``: whether drafts
    are among the accepted tokens.
    """

    most: int | None
    room: int
    is_ahead: bool = False

    def left(self, followed: int) -> int | None:
        """The tokens that may still come."""
        return (self.room if self.most is None else min(self.most, self.room)) - followed

    def has_drafts(self, followed: int) -> bool:
        """Whether drafts are among the accepted tokens."""
        return self.is_ahead
