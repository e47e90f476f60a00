"""Read the options of a grammar's statements ``%llguidance {…}`` and ``%indent {…}``.

The keys of ``%indent`` are the attributes of ``lark.indenter.Indenter``, and our own ``comment``, ``max_width``, ``max_tabs``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cdplugin.errors import shown
from cdplugin.frontends.source import Source

_BOOLEANS = ("no_forcing", "allow_initial_skip", "ignore_once", "allow_invalid_utf8")
_KNOWN = (*_BOOLEANS, "skip_repetition")
MOST_WIDTH = 256
_MOST_TAB = 64
_MOST_TABS = 64
_PLAIN_NAMES = dict(zip("LPAR RPAR LSQB RSQB LBRACE RBRACE LESSTHAN MORETHAN".split(), "()[]{}<>", strict=True))
"""Lark's names for strings that have no name of their own."""
_NAMES = {"NL_type": "newline", "INDENT_type": "indent", "DEDENT_type": "dedent"}
_DEFAULTS: dict[str, Any] = {
    "NL_type": "_NEWLINE",
    "INDENT_type": "_INDENT",
    "DEDENT_type": "_DEDENT",
    "OPEN_PAREN_types": ["(", "[", "{"],
    "CLOSE_PAREN_types": [")", "]", "}"],
    "tab_len": None,
    "comment": None,
    "max_width": 100,
    "max_tabs": None,
}


@dataclass(frozen=True)
class GrammarOptions:
    """``skip_once``: ignored text may stand between two lexemes only once; ``initial_skip``: also before the first lexeme."""

    skip_once: bool = False
    initial_skip: bool = False


def grammar_options(source: Source, given: list[tuple[Any, int]]) -> GrammarOptions:
    """The options of all ``%llguidance`` statements; later ones win. Raises ``UnsupportedError`` for what is not enforced."""
    out = GrammarOptions()
    for value, at in given:
        for key, setting in source.options("what follows %llguidance", at, value, _KNOWN, "%llguidance").items():
            if key in _BOOLEANS and not isinstance(setting, bool):
                source.fail(f"option {key}", at, expected="true or false", found=shown(setting))
            if key == "allow_invalid_utf8" and setting:
                source.refuse("option allow_invalid_utf8 (output is always valid UTF-8)", at)
            elif key == "allow_initial_skip":
                out = replace(out, initial_skip=setting)
            elif key == "ignore_once":
                out = replace(out, skip_once=setting)
            elif key == "skip_repetition":
                if setting not in ("once", "unlimited", "repeat"):
                    source.fail("option skip_repetition", at, expected="'once' or 'repeat'", found=shown(setting))
                out = replace(out, skip_once=setting == "once")
    return out


@dataclass(frozen=True)
class Indentation:
    """The ``%indent`` statement.

    ``names``: terminal -> ``"newline"``, ``"indent"`` or ``"dedent"``; ``brackets``: terminal, as messages show it (``"("``
    with its quotes, or a name) -> 1 if it opens, -1 if it closes; ``tab_len``: the spaces that a tab counts for, or None;
    ``comment``: the terminal of comments with which lines may end, or None; ``max_width``: the columns by which a block may be
    indented; ``max_tabs``: the tabs by which it may be indented instead; ``at``: the position of the statement.
    """

    names: dict[str, str]
    brackets: dict[str, int]
    tab_len: int | None
    comment: str | None
    max_width: int
    max_tabs: int
    at: int


def indentation(source: Source, given: list[tuple[Any, int]]) -> Indentation | None:
    """The ``%indent`` statement of a grammar, None if there is none. Raises ``GrammarError``."""
    if not given:
        return None
    if len(given) > 1:
        source.fail("%indent is written twice", given[1][1], found=f"another one in line {source.line(given[0][1])}")
    value, at = given[0]
    options = _DEFAULTS | source.options("what follows %indent", at, value, _DEFAULTS, "%indent")
    names = {_text(source, at, key, options[key]): kind for key, kind in _NAMES.items()}
    if len(names) < len(_NAMES):
        source.fail("%indent", at, expected="three different names", found=", ".join(options[key] for key in _NAMES))
    brackets: dict[str, int] = {}
    for key, sign in (("OPEN_PAREN_types", 1), ("CLOSE_PAREN_types", -1)):
        if not isinstance(options[key], list):
            source.fail(f"option {key}", at, expected="a list of terminals", found=shown(options[key]))
        for one in options[key]:
            bracket = _bracket(_text(source, at, key, one))
            if bracket in brackets:
                source.fail(f"option {key}", at, expected="each bracket once", found=shown(one))
            brackets[bracket] = sign
    comment = options["comment"]
    if options["tab_len"] is not None and options["max_tabs"] is not None:
        source.fail("option max_tabs", at, expected="no tab_len beside it", found=f"tab_len {shown(options['tab_len'])}")
    return Indentation(
        names,
        brackets,
        None if options["tab_len"] is None else _number(source, at, "tab_len", options["tab_len"], _MOST_TAB),
        None if comment is None else _text(source, at, "comment", comment),
        _number(source, at, "max_width", options["max_width"], MOST_WIDTH),
        0 if options["max_tabs"] is None else _number(source, at, "max_tabs", options["max_tabs"], _MOST_TABS),
        at,
    )


def _bracket(name: str) -> str:
    """A bracket as messages show it: terminals by name, strings in quotes."""
    name = _PLAIN_NAMES.get(name, name)
    return name if name[:1].isalpha() or name[:1] == "_" else f'"{name}"'


def _text(source: Source, at: int, key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        source.fail(f"option {key}", at, expected="the name of a terminal", found=shown(value))
    return value


def _number(source: Source, at: int, key: str, value: object, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        source.fail(f"option {key}", at, expected=f"a number from 1 to {most}", found=shown(value))
    return value
