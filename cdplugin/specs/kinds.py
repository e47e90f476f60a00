"""Make specs from the name of their kind and a text, for command lines and forms."""

from __future__ import annotations

from collections.abc import Callable

from cdplugin.errors import GrammarError
from cdplugin.specs.base import Choice, JsonObject, JsonSchema, Regex, Spec
from cdplugin.specs.lark import Lark
from cdplugin.specs.text import Ebnf, Gbnf

KINDS = ("json-schema", "regex", "choice", "json", "lark", "gbnf", "ebnf")


def spec_of(kind: str, text: str) -> Spec:
    """The spec of one of :data:`KINDS`. A choice has one text per line, ``json`` needs none. Raises what its class raises."""
    if kind == "json":
        return JsonObject()
    if kind == "regex":
        return Regex(text.removesuffix("\n").removesuffix("\r"))
    if kind == "choice":
        return Choice([line for line in text.splitlines() if line])
    makers: dict[str, Callable[[str], Spec]] = {"json-schema": JsonSchema, "lark": Lark, "gbnf": Gbnf, "ebnf": Ebnf}
    if kind in makers:
        return makers[kind](text)
    raise GrammarError("no such kind of spec", expected=f"one of {', '.join(KINDS)}", found=repr(kind)[:60])
