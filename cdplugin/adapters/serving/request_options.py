"""Options that a request brings along in its schema, under the keyword ``x-cdplugin`` at its root:

    {"type": "object", …, "x-cdplugin": {"whitespace": "compact", "property_order": "any", "on_unsupported": "relax"}}

For clients that reach a server over HTTP, whose requests have no fields for them. The schema's own meaning does not change: the
keyword is an annotation like any that begins with ``x-``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from cdplugin.errors import GrammarError

KEYWORD = "x-cdplugin"
Options = TypeVar("Options")


def with_request_options(options: Options, text: Any, known: Sequence[str]) -> Options:
    """``options``, a dataclass, with those that a schema asks for; ``text``: the schema, JSON text or a value.

    ``known``: names that a request may set. The values are checked by whoever takes them. Raises :class:`GrammarError` for
    anything but an object of known names.
    """
    if isinstance(text, str):
        if KEYWORD not in text:
            return options
        try:
            text = json.loads(text)
        except (ValueError, RecursionError):
            return options  # the front end says what is wrong with it
    given = text.get(KEYWORD) if isinstance(text, dict) else None
    if given is None:
        return options
    if not isinstance(given, dict):
        raise GrammarError("wrong type", expected="an object of options", found=type(given).__name__, location=f"/{KEYWORD}")
    for name in given:
        if name not in known:
            raise GrammarError(
                "unknown option", expected=f"one of {', '.join(known)}", found=repr(name)[:80], location=f"/{KEYWORD}"
            )
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    return replace(options, **values)  # type: ignore[type-var]
