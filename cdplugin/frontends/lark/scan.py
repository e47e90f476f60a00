r"""Split the text of a Lark grammar into symbols. JSON after ``%json``, ``%regex``, ``%llguidance``, ``%indent`` is one symbol.

>>> from cdplugin.frontends.source import Source
>>> [(s.kind, s.value) for s in scan(Source('start: "a"+ # one or more'), Limits())]
[('RULE', 'start'), (':', ':'), ('STRING', ('a', False)), ('OP', '+'), ('END', '')]
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn

from cdplugin.errors import GrammarError, not_json
from cdplugin.frontends.source import Source
from cdplugin.limits import Limits, at_most


class Symbol(NamedTuple):
    """``kind``: RULE, TERMINAL, STRING, REGEX, NUMBER, OP, TOKENS, REFERENCE, NEWLINE, END, a keyword, or a
    punctuation mark.
    """

    kind: str
    value: Any
    at: int
    end: int


_WITH_JSON = ("%json", "%regex", "%llguidance", "%indent")
KEYWORDS = ("%ignore", "%import", "%declare", "%override", "%extend", "%lark", "%word", "%if", *_WITH_JSON)
_ALIASES = {"%grammar_options": "%llguidance"}
"""xgrammar's names of statements."""
_SYMBOLS = re.compile(
    r"""(?:[ \t\f\ufeff]+|\\[ \t]*\r?\n|(?:\#|//)[^\n]*)*  # blanks, a line that goes on, a comment
    (?:(?P<NAME>(?!(?<!^)\?_*[A-Z])[!?]*_*[A-Za-z][A-Za-z0-9_\-]*)  # "A?B" and "A ?B" are "A? B"
    |(?P<MARK>->|::|\.\.|[:,.()\[\]{}|&~=]|_(?!_))
    |(?P<NEWLINE>\r?\n)
    |(?P<STRING>"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"i?)
    |(?P<OP>[+*]|\?(?!\?{8}))  # each sign of a longer run would look for a name behind all of them
    |(?P<REGEX>/(?:[^/\\]|\\[^\n])+/[a-z]*)
    |(?P<NUMBER>0x[0-9a-fA-F]+|-?[0-9]+(?:\.(?!\.)[0-9]*)?(?:[eE][+-]?[0-9]+)?)
    |(?P<TOKENS><[^<>\s]+>)
    |(?P<REFERENCE>@[A-Za-z0-9_\-]+)
    |(?P<KEYWORD>%[A-Za-z_]*)
    |(?P<END>\Z)
    |(?P<OTHER>.))""",
    re.VERBOSE | re.MULTILINE,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "0": "\0"}
_SIMPLE |= {char: char for char in "\"\\/'"}
_REGEX_FLAGS = "imslux"
_RULE_OF_BNF = re.compile(r"^[ \t]*[\w.-]+\s*(::=)", re.MULTILINE)
_MOST_TOKEN = (1 << 31) - 1
_DECODER = json.JSONDecoder()


def scan(source: Source, limits: Limits) -> list[Symbol]:
    """All symbols; the last is END. Raises ``GrammarError`` with the position of text that is not a symbol."""
    text, match_at = source.text, _SYMBOLS.match
    out: list[Symbol] = []
    names: dict[str, tuple[str, str]] = {}
    after_newline = True
    end = 0
    while True:
        match = match_at(text, end)
        assert match is not None
        kind = match.lastgroup or ""
        at, end = match.span(kind)
        if kind == "NEWLINE":
            if not after_newline:
                out.append(Symbol("NEWLINE", "", at, end))
                after_newline = True
            continue
        after_newline = False
        if kind == "NAME":
            written = match[kind]
            known = names.get(written)
            if known is None:
                known = names[written] = _name(source, written, at)
            out.append(Symbol(*known, at, end))
        elif kind == "MARK":
            mark = match[kind]
            out.append(Symbol(mark, mark, at, end))
        elif kind == "END":
            out.append(Symbol("END", "", at, at))
            return out
        else:
            symbol = _symbol(source, kind, match[kind], at, end, limits)
            out.append(symbol)
            end = symbol.end


def _symbol(source: Source, kind: str, text: str, at: int, end: int, limits: Limits) -> Symbol:
    if kind == "STRING":
        return Symbol(kind, (unescape(source, text[1 : text.rindex('"')], at + 1), text[-1] == "i"), at, end)
    if kind == "REGEX":
        return Symbol(kind, _regex(source, text, at), at, end)
    if kind == "KEYWORD":
        return _keyword(source, text, at, limits)
    if kind == "OTHER":
        _no_symbol(source, at)
    return Symbol(kind, text, at, end)


def _name(source: Source, text: str, at: int) -> tuple[str, str]:
    """The kind of a name, and the name without marks."""
    name = text.lstrip("!?")
    if any(char.islower() for char in name) and any(char.isupper() for char in name):
        expected = "terminals in capitals only, rules in small letters only"
        source.fail("a name in mixed case", at, expected=expected, found=repr(name))
    is_terminal = name.lstrip("_")[0].isupper()
    if is_terminal and name != text:
        source.fail("a mark before the name of a terminal", at, expected="'!' and '?' before rules only", found=repr(text))
    return "TERMINAL" if is_terminal else "RULE", name


def unescape(source: Source, text: str, at: int) -> str:
    """The value of a string literal; ``at``: the position of ``text``."""
    if "\\" not in text:
        return text
    out: list[str] = []
    last = 0
    for match in _ESCAPE.finditer(text):
        out.append(text[last : match.start()])
        last = match.end()
        short, byte, long, simple = match.groups()
        if simple is None:
            code = int(short or byte or long, 16)
            if code > 0x10FFFF:
                source.fail("an escape beyond Unicode", at + match.start(), expected="at most 10ffff", found=match.group())
            out.append(chr(code))
        elif simple in _SIMPLE:
            out.append(_SIMPLE[simple])
        else:
            known = r"\n \r \t \b \f \v \a \0 \" \' \\ \/ \xHH \uHHHH \UHHHHHHHH"
            source.fail("unknown escape in a string", at + match.start(), expected=known, found=match.group())
    out.append(text[last:])
    joined = "".join(out)
    try:
        joined = joined.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        source.fail("half of a surrogate pair in a string", at, expected="both halves, or the character itself")
    return joined


def _regex(source: Source, text: str, at: int) -> tuple[str, str]:
    """The pattern and the flags. A pattern may span several lines (flag x); but if its last line has no valid flags, probably a
    closing slash is missing on the first line.
    """
    last = text.rindex("/")
    pattern, flags = text[1:last], text[last + 1 :]
    if "\n" in pattern and not set(flags) <= set(_REGEX_FLAGS):
        _no_symbol(source, at)
    for where, flag in enumerate(flags, at + last + 1):
        if flag not in _REGEX_FLAGS:
            source.fail("unknown flag of a regular expression", where, expected="some of i, m, s, u, x", found=repr(flag))
        if flag == "l":
            source.refuse("flag 'l' (locale) of a regular expression", where)
    return pattern, flags


def _keyword(source: Source, text: str, at: int, limits: Limits) -> Symbol:
    end = at + len(text)
    text = _ALIASES.get(text, text)
    if text not in KEYWORDS:
        source.unknown("unknown statement", at, text, KEYWORDS)
    if text in _WITH_JSON:
        value, end = _json(source, text, end, limits)
        return Symbol(text, value, at, end)
    return Symbol(text, text, at, end)


def _json(source: Source, keyword: str, at: int, limits: Limits) -> tuple[Any, int]:
    """A JSON value that begins at ``at`` or after white space there, and its end."""
    text = source.text
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        what = f"what follows {keyword} is not JSON ({error.msg})"
        source.fail(what, min(error.pos, len(text)), expected="a JSON value")
    except RecursionError:
        source.exceed(f"{keyword} nested too deeply", at, expected=at_most(limits, "max_spec_depth"))
    except GrammarError:
        raise
    except ValueError as error:
        problem = not_json(f"what follows {keyword}", error)
        source.fail(problem.message, at, expected=problem.expected, found=problem.found)


def token_set(source: Source, text: str, at: int) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...], bool]:
    """Parse a symbol in angle brackets into ``(names, ranges, negated)``: ``<|eot_id|>``, ``<[3,10-20]>``, ``<[^7]>``,
    ``<[*]>``.
    """
    if not (text.startswith("<[") and text.endswith("]>")):
        return (text,), (), False
    inner = text[2:-2]
    if inner == "*":
        return (), (), True
    negated = inner.startswith("^")
    ranges = []
    at += 2 + negated
    for part in inner[negated:].split(","):
        low, dash, high = part.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            source.fail("bad set of token ids", at, expected="ids and ranges, as <[3,10-20]>", found=repr(part))
        first, last = (int(digits.lstrip("0")[:12] or 0) for digits in (low, high if dash else low))
        if max(first, last) > _MOST_TOKEN:
            source.fail("a token id", at, expected=f"at most {_MOST_TOKEN}", found=part)
        if last < first:
            source.fail("a range of token ids", at, expected="the smaller one first", found=part)
        ranges.append((first, last))
        at += len(part) + 1
    return (), tuple(sorted(ranges)), negated


def fail_notation(source: Source, at: int, sign: str) -> NoReturn:
    """Raise for a grammar that has ``sign`` after the names of its rules."""
    expected = "name: … (name ::= … is written with cdplugin.Gbnf or cdplugin.Ebnf)"
    source.fail("a rule of another notation", at, expected=expected, found=repr(sign))


_BEGUN = {
    '"': ("a string that does not end on its line", 'a closing "'),
    "/": ("a regular expression that does not end on its line", "a closing /"),
    "'": ("a string in single quotes", 'double quotes: "…"'),
    "<": ("not a special token", "<name>, <[ids]> or <[*]>, without spaces"),
    "@": ("not a reference to a grammar", "@name"),
    ";": ("rules end with their line", "no ';'"),
}
"""For text that is not a symbol, by its first character: what was probably meant, and what was expected."""
_OTHER = ("not part of a grammar", "a name, a string, a regular expression, a special token or punctuation")


def _no_symbol(source: Source, at: int) -> NoReturn:
    other = _RULE_OF_BNF.search(source.text, 0, at)
    if other is not None:
        fail_notation(source, other.start(1), "::=")
    message, expected = _BEGUN.get(source.text[at], _OTHER)
    source.fail(message, at, expected=expected, found=_rest(source, at))


def _rest(source: Source, at: int) -> str:
    """The rest of a line, shortened."""
    line = source.text[at:].split("\n", 1)[0] if len(source.text) - at < 200 else source.text[at : at + 80].split("\n", 1)[0]
    return repr(line[:24])
