r"""The terminals of ``%import common.…``, written in the syntax of this front end itself.

Names and meaning are those of Lark's ``common`` library. Letters are ASCII; a number needs no sign, a ``SIGNED_…`` one may
have it.
"""

from __future__ import annotations

from functools import lru_cache

from cdplugin.frontends.lark.parse import parse
from cdplugin.frontends.lark.tree import Definition
from cdplugin.frontends.source import Source
from cdplugin.limits import Limits

_TEXT = r"""
DIGIT: "0".."9"
HEXDIGIT: DIGIT | "a".."f" | "A".."F"
INT: DIGIT+
SIGNED_INT: ("+" | "-")? INT
DECIMAL: INT "." INT? | "." INT
_EXP: "e"i SIGNED_INT
FLOAT: INT _EXP | DECIMAL _EXP?
SIGNED_FLOAT: ("+" | "-")? FLOAT
NUMBER: FLOAT | INT
SIGNED_NUMBER: ("+" | "-")? NUMBER

_STRING_INNER: /[^"\\]/ | /\\./
ESCAPED_STRING: "\"" _STRING_INNER* "\""

LCASE_LETTER: "a".."z"
UCASE_LETTER: "A".."Z"
LETTER: LCASE_LETTER | UCASE_LETTER
WORD: LETTER+
CNAME: ("_" | LETTER) ("_" | LETTER | DIGIT)*

WS_INLINE: (" " | "\t")+
WS: /[ \t\f\r\n]/+
CR: "\r"
LF: "\n"
NEWLINE: (CR? LF)+

SH_COMMENT: "#" /[^\n]/*
CPP_COMMENT: "//" /[^\n]/*
SQL_COMMENT: "--" /[^\n]/*
C_COMMENT: "/*" (/[^*]/ | "*"+ /[^*\/]/)* "*"+ "/"
"""


@lru_cache(maxsize=1)
def library() -> dict[str, Definition]:
    """The terminals by name."""
    source = Source(_TEXT, "common")
    return {definition.name: definition for definition in parse(source, Limits()).definitions}


PRIVATE = ("_STRING_INNER",)
"""Helpers that cannot be imported."""
