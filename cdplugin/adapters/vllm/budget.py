"""How many tokens a request of vLLM may still have, for the state of its grammar.

vLLM gives a request at most ``max_tokens`` tokens, the stop token included, and ends it where the model's context ends. Its
grammar sees only the tokens that it constrains: those of reasoning before them count as well, so what is left is read from the
request itself. Drafts (speculative decoding) are followed and taken back between two steps, when the request has not heard of
them: they are counted on top.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

from cdplugin.errors import GrammarError, shown

ARGUMENT = "cdplugin_budget"
"""The name in a request's extra arguments (HTTP: ``vllm_xargs``)."""


def arguments_of(extra_args: Any) -> dict[str, Any]:
    """A request's extra arguments; empty if it has none. Raises :class:`GrammarError` for anything but an object."""
    if extra_args is None:
        return {}
    if not isinstance(extra_args, dict):
        raise GrammarError("extra arguments", expected="an object", found=type(extra_args).__name__)
    return extra_args


def asked(extra_args: dict[str, Any] | None, default: bool) -> int | None:
    """What a request asks for: 0 for no budget, None for ``max_tokens``, else a number of tokens that may be less.

    ``default``: whether requests that say nothing have one. Over HTTP vLLM makes 0 of ``false``, and 1 of ``true``, which is a
    budget of one token; so texts are taken, too. A request whose answer another instance decodes (``do_remote_decode``) asks
    for none: its one token is the other's to choose again. Raises :class:`GrammarError` for anything but a boolean, "true",
    "false" or an integer that is not negative.
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
    """The tokens in which the answer to ``SamplingParams`` has to end; None: any number. Raises as :func:`asked` does."""
    most = asked(getattr(params, "extra_args", None), default)
    if most == 0:
        return None
    listed = [n for n in (most, getattr(params, "max_tokens", None)) if n is not None]
    return min(listed) if listed else None


class RequestBudget:
    """What is left to a request. ``most``: tokens that it may have, if that is less than vLLM gives it.

    ``request``: vLLM's ``Request``, kept by a weak reference, since it holds the grammar's state. ``drafts``: how many tokens
    are drafted in a step. Where reasoning ends among them, so many are set aside, since those before its end are not told.
    """

    def __init__(self, request: Any, max_model_len: int, most: int | None = None, drafts: int = 0) -> None:
        self._request = weakref.ref(request)
        self._max_model_len = max_model_len
        self._most = most
        self._drafts = drafts
        self._written = -1  # tokens of the request in this step
        self._followed = 0  # and those that the grammar had followed when its first mask of the step was filled

    def left(self, followed: int) -> int | None:
        """Tokens that may come, the grammar having followed so many, drafts included. None where the request is gone."""
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
        """Whether some of the tokens that were followed are drafts."""
        return followed != self._followed


@dataclass(eq=False)
class FixedBudget:
    """What is left to a request that the grammar has followed from its first token.

    ``most``: tokens that it may have, if that was said; ``room``: what the prompt leaves of the model's context; ``is_ahead``:
    whether drafts are among the tokens that were followed.
    """

    most: int | None
    room: int
    is_ahead: bool = False

    def left(self, followed: int) -> int | None:
        """Tokens that may come."""
        return (self.room if self.most is None else min(self.most, self.room)) - followed

    def has_drafts(self, followed: int) -> bool:
        """Whether some of the tokens that were followed are drafts."""
        return self.is_ahead
