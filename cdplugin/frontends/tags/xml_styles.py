"""How models write parameters as XML, and which white space and special tokens may stand there.

Source: xgrammar 0.2.8, ``JSONSchemaFormat.style`` and the grammars that it makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import NamedTuple

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


def ways_to_write(ir: GrammarIR, parts: Sequence[str | Expr], name: str) -> list[list[Symbol]]:
    """A sequence of texts and expressions: as one lexeme, and, where a text looks like a special token, with that token."""
    cut: list[tuple[Expr | str, bool]] = []
    text = ""
    for part in [*parts, None]:
        if isinstance(part, str):
            text += part
            continue
        cut += [(piece if is_token else literal(utf8(piece)), is_token) for piece, is_token in pieces(text)]
        text = ""
        if part is not None:
            cut.append((part, False))
    whole = [ir.lexeme(cat(*(_expression(piece) for piece, _ in cut)), name)]
    if not any(is_token for _, is_token in cut):
        return [whole]
    with_token: list[Symbol] = []
    run: list[Expr] = []
    first = True
    for piece, is_token in cut:
        if not is_token or not isinstance(piece, str):
            run.append(_expression(piece))
            continue
        if run:
            with_token.append(ir.lexeme(cat(*run), name))
            run = []
        if first:
            with_token.append(ir.token(TokenSet(names=(piece,), optional=True), piece))
            first = False
        else:
            with_token += spell(ir, piece)
    if run:
        with_token.append(ir.lexeme(cat(*run), name))
    return [whole, with_token]


def _expression(piece: Expr | str) -> Expr:
    return literal(utf8(piece)) if isinstance(piece, str) else piece
