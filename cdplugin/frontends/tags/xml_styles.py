"""How models write parameters as XML, and which white space and special tokens may stand there.

Source: xgrammar 0.2.8, ``JSONSchemaFormat.style`` and the grammars that it makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from cdplugin.expr import Expr, cat, literal
from cdplugin.frontends.spelling import pieces, spell, utf8
from cdplugin.ir import GrammarIR, Symbol, TokenSet

NAME, KIND = "{name}", "{kind}"
NO_KINDS: MappingProxyType[str, str] = MappingProxyType({})


class Style(NamedTuple):
    """What stands around a value; a line break in it is any white space.

    ``kinds``: what ``{kind}`` is for each type of JSON; with ``integer``, integers of parameters that are not declared may be
    called so too. ``item``: what opens an element of a list, where lists and objects are
    written in the style too; without it they are JSON. ``until``: what a string must not hold, if that is less than the whole
    closing. ``spaced``: whether there may be white space around what is no string. ``escape``: of names.
    """

    opening: str
    closing: str
    kinds: MappingProxyType[str, str] = NO_KINDS
    item: str = ""
    until: str = ""
    spaced: bool = True
    escape: Callable[[str], str] = str


def _xml_escape(name: str) -> str:
    return name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


_TYPES = ("number", "boolean", "null", "array", "object")
_MARKED = MappingProxyType({"string": "true"} | dict.fromkeys(_TYPES, "false"))
_NAMED = MappingProxyType({one: one for one in ("string", "integer", *_TYPES)})
_COHERE = MappingProxyType({"string": "raw", "array": "list", "object": "dict"} | dict.fromkeys(_TYPES[:3], "json"))
_MINIMAX = "]<]minimax[>["
STYLES = {
    "qwen_xml": Style("<parameter={name}>", "</parameter>"),
    "minimax_xml": Style('<parameter name="{name}">', "</parameter>"),
    "deepseek_xml": Style('<｜DSML｜parameter name="{name}" string="{kind}">', "</｜DSML｜parameter>", _MARKED),
    "deepseek_v4_1_xml": Style('<｜DSML｜ parameter name="{name}" string="{kind}">', "</｜DSML｜ parameter>", _MARKED),
    "glm_xml": Style("<arg_key>{name}</arg_key>\n<arg_value>", "</arg_value>"),
    "kimi_k3_xml": Style(
        '<|open|>argument key="{name}" type="{kind}"<|sep|>', "<|close|>argument<|sep|>", _NAMED, escape=_xml_escape
    ),
    "cohere_xml": Style(
        '<cofl:value name="{name}" type="{kind}">',
        "</cofl:value>",
        _COHERE,
        item='<cofl:value type="{kind}">',
        escape=_xml_escape,
    ),
    "minimax_m3_xml": Style(
        _MINIMAX + "<{name}>", _MINIMAX + "</{name}>", item=_MINIMAX + "<item>", until=_MINIMAX, spaced=False
    ),
}


def fill(template: str, name: str | Expr, kind: str, space: Expr) -> list[str | Expr]:
    """A template of :class:`Style` with its holes filled: texts and expressions."""
    out: list[str | Expr] = []
    for i, part in enumerate(template.replace(KIND, kind).split(NAME)):
        if i:
            out.append(name)
        for j, line in enumerate(part.split("\n")):
            if j:
                out.append(space)
            out.append(line)
    return out


def ways_to_write(ir: GrammarIR, parts: Iterable[Any], name: str) -> list[list[Symbol]]:
    """A sequence of texts and expressions: as one lexeme, and, where a text looks like a special token, with that token."""
    cut: list[tuple[Expr, str]] = []  # each with its text, if that looks like a special token
    for is_text, run in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            cut += [(literal(utf8(piece)), piece if is_token else "") for piece, is_token in pieces("".join(run))]
        else:
            cut += [(part, "") for part in run]
    whole = [ir.lexeme(cat(*(piece for piece, _ in cut)), name)]
    with_token: list[Symbol] = []
    first = True
    for token, same in groupby(cut, itemgetter(1)):
        if not token:
            with_token.append(ir.lexeme(cat(*(piece for piece, _ in same)), name))
            continue
        for _ in same:
            with_token += [ir.token(TokenSet(names=(token,), optional=True), token)] if first else spell(ir, token)
            first = False
    return [whole] if first else [whole, with_token]
