"""The option ``strict_tools``: tools are strict unless their clients say otherwise (vllm-project/vllm#49661).

vLLM constrains tool calls by structural tags that it makes from the tools. By default it enforces the arguments only of tools
with ``"strict": true``, and with ``tool_choice: "auto"`` it enforces nothing unless some tool has that. From 0.31 vLLM has its
own ``--tool-strict-level``, which also overrules clients that say ``"strict": false``. This option respects those, and works
with 0.30 too. It patches the function that vLLM asks, and does not change the request, which chat templates see.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from cdplugin.adapters.vllm import compat
from cdplugin.memory import fixed_cache


def patch(module: ModuleType) -> None:
    """Patch vLLM's registry of structural tags. A module without the functions (it has moved) is left alone."""
    if hasattr(module, "_tool_is_strict"):  # 0.31 and later
        each = "_tool_is_strict"
        compat.wrap(module, each, lambda original, tool: original(tool) or (_is_unsaid(tool) and _wished()), "")
    else:
        compat.wrap(module, "_any_tool_strict", _any_is_strict, "the option strict_tools does nothing there")


def _any_is_strict(original: Callable[[Iterable[Any]], bool], tools: Iterable[Any]) -> bool:
    """For 0.30: there a tag is made if any tool is strict, and then a tool is strict unless it says otherwise."""
    listed = list(tools)
    return original(listed) or (any(map(_is_unsaid, listed)) and _wished())


def _is_unsaid(tool: Any) -> bool:
    """Whether a tool is a function whose client does not say whether it is strict. Others (web search, …) have no arguments."""
    is_function = getattr(tool, "type", None) == "function"
    return is_function and getattr(getattr(tool, "function", tool), "strict", None) is None


def _wished() -> bool:
    """Whether the server's options ask for strict tools. Options that cannot be read stop the server elsewhere."""
    from cdplugin.adapters.vllm.grammar import OPTIONS_VARIABLE

    return _wished_by(os.environ.get(OPTIONS_VARIABLE, ""))


@fixed_cache(4, entry_bytes=4000)
def _wished_by(text: str) -> bool:
    from cdplugin.adapters.serving.requests import ServerOptions
    from cdplugin.adapters.vllm.grammar import OPTIONS_VARIABLE

    try:
        return bool(text) and ServerOptions.from_environment(OPTIONS_VARIABLE).strict_tools
    except ValueError:
        return False
