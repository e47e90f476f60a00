"""How many tokens a request of vLLM may still have, for the state of its grammar.

vLLM gives a request at most ``max_tokens`` tokens, the stop token included, and ends it where the model's context ends. Its
grammar sees only the tokens that it constrains: those of reasoning before them count as well, so what is left is read from the
request itself. Drafts (speculative decoding) are followed and taken back between two steps, when the request has not heard of
them: they are counted on top.
"""

from __future__ import annotations

import weakref
from typing import Any

from cdplugin.errors import GrammarError

ARGUMENT = "cdplugin_budget"
"""The name in a request's extra arguments (HTTP: ``vllm_xargs``)."""


def asked(extra_args: dict[str, Any] | None, default: bool) -> int | None:
    """What a request asks for: 0 for no budget, None for ``max_tokens``, else a number of tokens that may be less.

    ``default``: whether requests that say nothing have one. Raises :class:`GrammarError` for anything but a boolean or a
    positive integer.
    """
    value = (extra_args or {}).get(ARGUMENT)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        value = value.strip().lower() == "true"
    if value is None:
        return None if default else 0
    if isinstance(value, bool):
        return None if value else 0
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or value < 1:
        raise GrammarError(ARGUMENT, expected="true, false or a positive number of tokens", found=repr(value))
    return value


class RequestBudget:
    """What is left to a request. ``most``: tokens that it may have, if that is less than vLLM gives it.

    ``request``: vLLM's ``Request``, kept by a weak reference, since it holds the grammar's state. ``drafts``: drafts of a step,
    which may hold the end of reasoning; until a token was constrained so many are set aside.
    """

    def __init__(self, request: Any, max_model_len: int, most: int | None = None, drafts: int = 0) -> None:
        self._request = weakref.ref(request)
        self._max_model_len = max_model_len
        self._most = most
        self._drafts = drafts
        self._written = -1  # tokens of the request when the last ones were constrained
        self._followed = 0  # and those of them that the grammar has followed

    def left(self, followed: int) -> int | None:
        """Tokens that may come, if the grammar has followed so many, drafts included; None where the request is gone."""
        request = self._request()
        if request is None:
            return None
        total = min(request.max_tokens, self._max_model_len - request.num_prompt_tokens)
        if self._most is not None:
            total = min(total, self._most)
        ahead = followed - self._followed
        reserve = self._drafts if self._written < 0 and ahead else 0
        return int(total - request.num_output_tokens - ahead - reserve)

    def note(self, followed: int) -> None:
        """Tokens were followed: for good, if the request has grown."""
        request = self._request()
        if request is not None and request.num_output_tokens != self._written:
            self._written = request.num_output_tokens
            self._followed = followed

    def has_drafts(self, followed: int) -> bool:
        """Whether some of the tokens that were followed are drafts."""
        return followed != self._followed
