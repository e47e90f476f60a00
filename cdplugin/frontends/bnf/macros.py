"""Parse xgrammar's macros: ``TagDispatch(…)``, ``TokenTagDispatch(…)``, ``Token(…)``, ``ExcludeToken(…)``, ``Regex(…)``,
``Substring(…)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cdplugin.errors import relocated, shown
from cdplugin.expr import EMPTY, both, negate_ranges, repeat
from cdplugin.frontends.bnf.scan import Scanner
from cdplugin.frontends.bnf.tree import DISPATCH, EXPR, TOKENS, Dispatch, Node
from cdplugin.frontends.lark.substring import substring_expr
from cdplugin.ir import TokenSet
from cdplugin.regex.alphabet import UTF8
from cdplugin.regex.pattern import parse

_MACROS = ("TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken", "Regex", "Substring")
_REGEX_FLAGS = "isu"
_LEADING_FLAGS = re.compile(r"\(\?([a-z]+)\)")
_PYTHON_GROUP = re.compile(r"(\\.|\[(?:\\.|[^\]\\])*\]?)|\(\?P<", re.DOTALL)
_RAW_IN_JSON = repeat(UTF8.chars(negate_ranges([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)])))
"""Text that JSON strings hold without escapes."""
_EARLIER = {"excluded_str": "excludes"}
_REFUSED = {
    "stop_eos": "the text may always end outside of a tag",
    "stop_str": "write excludes=(…) and the text after the macro",
}
_DEPTH = 3


class _Name(str):
    """A rule's name among a macro's arguments; ``at``: its position."""

    __slots__ = ("at",)
    at: int


def parse_macro(name: str, scanner: Scanner, at: int) -> Node | None:
    """The node of a macro; None if ``name`` is not one. The scanner stands on the parenthesis after it."""
    if name not in _MACROS:
        return None
    values, options = _arguments(scanner)
    if name == "Regex":
        return _regex(values, options, scanner, at)
    if name == "Substring":
        return _substring(values, options, scanner, at)
    if name in ("Token", "ExcludeToken"):
        if options:
            scanner.fail(f"{name} has no options", at)
        ids = [_token_id(scanner, value, at) for value in values]
        if not ids and name == "Token":
            scanner.fail("Token matches nothing", at, expected="at least one token id", found="none")
        ranges = tuple((i, i) for i in dict.fromkeys(ids))
        others = name == "ExcludeToken"
        return Node(TOKENS, (TokenSet(ranges=ranges, negated=others, where=scanner.source.where(at), ends=False),), at)
    return Node(DISPATCH, (_dispatch(name, values, options, scanner, at),), at)


def _regex(values: list[Any], options: dict[str, Any], scanner: Scanner, at: int) -> Node:
    """``Regex("…", json_string=true, flags="i")`` in ECMA-262; ``.`` matches any character unless ``flags`` lacks ``s``.

    ``json_string``: only text that JSON strings hold without escapes. ``i`` folds ASCII letters, and ``\\s`` is ASCII white
    space, as in https://github.com/mlc-ai/xgrammar/pull/765.
    """
    if len(values) != 1 or not _is_text(values[0]):
        found = ", ".join(map(_show, values)) or "none"
        scanner.fail("bad arguments of Regex", at, expected='one pattern "…"', found=found)
    raw, flags = options.pop("json_string", False), options.pop("flags", "s")
    if options:
        found = shown(next(iter(options)))
        scanner.fail("unknown option of Regex", at, expected="json_string or flags", found=found)
    if not isinstance(raw, bool):
        scanner.fail("bad json_string of Regex", at, expected="true or false", found=_show(raw))
    if not _is_text(flags):
        scanner.fail("bad flags of Regex", at, expected='letters "…"', found=_show(flags))
    leading = _LEADING_FLAGS.match(values[0])
    pattern = values[0][leading.end() :] if leading else values[0]
    flags += leading[1] if leading else ""
    for flag in flags:
        if flag not in _REGEX_FLAGS:
            scanner.fail("bad flags of Regex", at, expected=f"letters of {_REGEX_FLAGS!r}", found=repr(flag))
    pattern = _PYTHON_GROUP.sub(lambda match: match[1] or "(?<", pattern)
    with relocated(lambda inner: (f"{inner} of the pattern in " if inner else "") + scanner.source.where(at)):
        expression = parse(pattern, "ecma", "".join({*flags, "u", "a"}), scanner.limits).match_expr(UTF8)
    if raw:
        expression = both(expression, _RAW_IN_JSON)
    if expression is EMPTY:
        scanner.fail("the pattern matches nothing", at, found=shown(pattern[:60]))
    return Node(EXPR, (expression, len(pattern) + 1), at)


def _substring(values: list[Any], options: dict[str, Any], scanner: Scanner, at: int) -> Node:
    """``Substring("a", "b", "c")``: any run of consecutive texts, or none."""
    if options:
        scanner.fail("Substring has no options", at, expected='texts "…" only', found=shown(next(iter(options))))
    for value in values:
        if not _is_text(value):
            scanner.fail("bad arguments of Substring", at, expected='texts "…"', found=_show(value))
    return Node(EXPR, (substring_expr([value for value in values if value]), 1 + sum(map(len, values))), at)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, _Name)


def _dispatch(name: str, values: list[Any], options: dict[str, Any], scanner: Scanner, at: int) -> Dispatch:
    by_token = name == "TokenTagDispatch"
    tags: list[tuple[Any, str, int]] = []
    for value in values:
        if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], _Name):
            scanner.fail(f"bad argument of {name}", at, expected="pairs: (tag, rule)", found=_show(value))
        tag = _token_id(scanner, value[0], at) if by_token else _text(scanner, value[0], at)
        tags.append((tag, str(value[1]), value[1].at))
    for option, why in _REFUSED.items():
        if option in options and options[option] not in (True, ()):
            scanner.refuse(f"{option} of {name}", at, why)
        options.pop(option, None)
    for earlier, now in _EARLIER.items():
        if earlier in options:
            options.setdefault(now, options.pop(earlier))
    excludes = options.pop("excludes", ())
    loop = options.pop("loop_after_dispatch", True)
    if options:
        scanner.fail(
            f"unknown option of {name}", at, expected="loop_after_dispatch or excludes", found=shown(next(iter(options)))
        )
    if not isinstance(excludes, tuple):
        scanner.fail(f"bad excludes of {name}", at, expected="a tuple: (…, …)", found=_show(excludes))
    if not isinstance(loop, bool):
        scanner.fail(f"bad loop_after_dispatch of {name}", at, expected="true or false", found=_show(loop))
    kept = tuple((_token_id if by_token else _text)(scanner, value, at) for value in excludes)
    for tag, _, _ in tags:
        if tag in kept:
            scanner.fail(f"{name}: a tag is excluded", at, found=_show(tag))
    return Dispatch(tuple(tags), kept, loop, by_token)


def _show(value: Any) -> str:
    return "a rule's name" if isinstance(value, _Name) else shown(value)


def _token_id(scanner: Scanner, value: Any, at: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        scanner.fail("bad token id", at, expected="a number", found=_show(value))
    return int(value)


def _text(scanner: Scanner, value: Any, at: int) -> str:
    if not isinstance(value, str) or isinstance(value, _Name) or not value:
        scanner.fail("bad tag", at, expected='a literal "…" that is not empty', found=_show(value))
    return str(value)


def _arguments(scanner: Scanner) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a macro: positional values, and named ones."""
    values: list[Any] = []
    options: dict[str, Any] = {}
    for value in _listed(scanner, 0):
        scanner.skip(newlines=True)
        if isinstance(value, _Name) and scanner.peek() == "=":
            scanner.pos += 1
            scanner.skip(newlines=True)
            options[str(value)] = _value(scanner, 0)
        else:
            values.append(value)
    return values, options


def _listed(scanner: Scanner, depth: int) -> Iterator[Any]:
    """The values between the parenthesis on which the scanner stands and its closing one."""
    scanner.pos += 1
    scanner.skip(newlines=True)
    while scanner.peek() != ")":
        yield _value(scanner, depth)
        _separator(scanner)
        scanner.skip(newlines=True)
    scanner.pos += 1


def _value(scanner: Scanner, depth: int) -> Any:
    """A literal, a number, true or false, a name, or a tuple of these."""
    at, char = scanner.pos, scanner.peek()
    if char == '"':
        return scanner.literal()
    if char.isdigit():
        return scanner.number("token id")
    if char == "(" and depth < _DEPTH:
        return tuple(_listed(scanner, depth + 1))
    name = scanner.name()
    if name is None:
        scanner.fail("bad argument", expected="a literal, a number, true, false, the name of a rule or a tuple (…)")
    if name in ("true", "false"):
        return name == "true"
    out = _Name(name)
    out.at = at
    return out


def _separator(scanner: Scanner) -> None:
    scanner.skip(newlines=True)
    if scanner.peek() == ",":
        scanner.pos += 1
    elif scanner.peek() != ")":
        scanner.fail("bad argument", expected=", or )")
