"""Prepare expressions that many requests need: character classes, formats, Lark's common terminals.

These expressions are built once in a process and shared by all compilations (:func:`cdplugin.memory.bounded_cache`), and some
are large: ``\\w`` has 770 ranges of code points; for ``hostname``, an automaton checks the Punycode of A-labels. The front ends
write specs that use them; only the cached expressions are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from cdplugin.frontends.json_schema.formats import SINCE
from cdplugin.limits import Limits
from cdplugin.specs.base import JsonSchema, Spec
from cdplugin.specs.lark import Lark

_FORMATS = ("date", "date-time", "time", "email", "uri", "uuid")
_PATTERNS = (r"^\w+$", r"^\d+$", r"^\S+$", r"^[^\s]+$", "^[^/]*$", ".", "^[a-zA-Z0-9_-]+$")
_LARK = r"""
start: /\w+/ | /\d+/ | /\s+/ | /./ | /[^"\\\n]+/ | /[a-z]+/i | "select"i | WORD | NUMBER | ESCAPED_STRING
%import common (WORD, NUMBER, ESCAPED_STRING, WS)
%ignore WS
"""
_PROPERTIES = (r"\W", r"\p{L}", r"\p{Lu}", r"\p{Ll}", r"\p{N}", r"\p{P}")


@lru_cache(maxsize=1)
def meet() -> None:
    """Prepare the most frequent ones: 80 ms, once in a process."""
    _write(Lark(_LARK), JsonSchema({"properties": _strings("format", _FORMATS) | _strings("pattern", _PATTERNS)}))


@lru_cache(maxsize=1)
def meet_all() -> None:
    """Prepare all formats and the usual Unicode properties, too: 0.5 s, once in a process; for servers, as they start."""
    meet()
    classes = " | ".join([f"/{name}/" for name in _PROPERTIES])
    _write(Lark(f"start: {classes}"), JsonSchema({"properties": _strings("format", SINCE) | _strings("pattern", _PROPERTIES)}))


def _strings(keyword: str, values: Iterable[str]) -> dict[str, object]:
    """String properties, one for each value of a keyword."""
    return {value: {"type": "string", keyword: value} for value in values}


def _write(*specs: Spec) -> None:
    for spec in specs:
        spec.rules(Limits())
