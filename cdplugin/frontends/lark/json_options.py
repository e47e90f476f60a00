"""Read ``x-guidance``, LLGuidance's options in a schema after ``%json``.

Source: llguidance 1.9, ``docs/json_schema.md``; where that is not specific, the behaviour of llguidance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from cdplugin.errors import relocated, shown
from cdplugin.expr import ALL_BYTES, Expr, alt, byte_class, byte_mask, cat, literal, repeat
from cdplugin.frontends.json_schema.layout import gap
from cdplugin.frontends.json_schema.options import Gaps, Options
from cdplugin.frontends.lark.byte_sets import Bytes
from cdplugin.frontends.source import Source
from cdplugin.memory import bounded_cache

_BOOLEANS = ("whitespace_flexible", "coerce_one_of", "lenient", "json_allow_general_unicode_escapes")
_PATTERNS = ("whitespace_pattern", "item_separator", "key_separator")
_TEXTS = (*_PATTERNS, "json_allowed_escapes")
_KEYS = (*_BOOLEANS, *_TEXTS)
_OR_NULL = ("whitespace_pattern", "json_allowed_escapes")
_ANY_SPACE = r"[\x20\x0A\x0D\x09]{1,40}"
_ESCAPES = 'nrbtf\\"u'
_HEX = byte_class(b"0123456789abcdefABCDEF")
_DELETE = [literal(b"007f"), literal(b"007F")]


class Guided(NamedTuple):
    """A schema without ``x-guidance``, the options that it sets, and an expression that all of the JSON must
    match (or None).
    """

    schema: Any
    options: Options
    restriction: Expr | None = None


def json_options(source: Source, schema: dict, at: int) -> Guided:
    """Read ``x-guidance``. Raises ``GrammarError`` with line and column."""
    given = schema.get("x-guidance")
    if given is None:
        return Guided(schema, Options())
    settings: dict[str, Any] = {}
    for key, setting in source.options("x-guidance", at, given, _KEYS, "x-guidance").items():
        if setting is None and key in _OR_NULL:
            continue
        if not isinstance(setting, bool if key in _BOOLEANS else str):
            expected = "true or false" if key in _BOOLEANS else "a regular expression" if key in _PATTERNS else "a string"
            source.fail(f"x-guidance option {key}", at, expected=expected, found=shown(setting))
        settings[key] = setting
    # coerce_one_of has no effect: oneOf is enforced exactly, which is never less strict
    relaxes = "relax" if settings.get("lenient") else "error"
    out = replace(_laid_out(source, settings, at), on_unsupported=relaxes, formats="rfc")  # LLGuidance's formats are the RFCs'
    rest = {name: member for name, member in schema.items() if name != "x-guidance"}
    return Guided(rest, out, _escapes(source, settings, at))


def _laid_out(source: Source, settings: dict[str, Any], at: int) -> Options:
    """White space and separators. The defaults and compact JSON are those of the JSON Schema front end."""
    if {"whitespace_pattern", "item_separator", "key_separator"}.isdisjoint(settings):
        return Options() if settings.get("whitespace_flexible", True) else Options(whitespace="compact")
    space = settings.get("whitespace_pattern", _ANY_SPACE if settings.get("whitespace_flexible", True) else "")
    gaps = Gaps(settings.get("item_separator", ","), settings.get("key_separator", ":"), space)
    marks = {"item_separator": (gaps.item, b","), "key_separator": (gaps.key, b":"), "whitespace_pattern": (gaps.space, b"")}
    for key, (pattern, mark) in marks.items():
        _check_pattern(source, key, pattern, mark, at)
    return Options(gaps=gaps)


def _check_pattern(source: Source, key: str, pattern: str, mark: bytes, at: int) -> None:
    with relocated(lambda inner: f"{source.where(at)} ({inner} of the option {key})"):
        matched = gap(pattern, mark)
    if mark and not Bytes(generous=True).first(matched):
        expected = f"what may match {mark.decode()!r}, white space around it or not (else the text is no JSON)"
        source.refuse(f"x-guidance option {key}", at, expected=expected, found=shown(pattern))


def _escapes(source: Source, settings: dict[str, Any], at: int) -> Expr | None:
    """A restriction on the text after backslashes, which JSON has only in strings; None if all of JSON's
    escapes are allowed.
    """
    general = settings.get("json_allow_general_unicode_escapes")
    letters = settings.get("json_allowed_escapes", _ESCAPES + "/")
    for letter in letters:
        if letter not in _ESCAPES + "/":
            expected = f"letters of {_ESCAPES!r}"
            source.fail("x-guidance option json_allowed_escapes", at, expected=expected, found=shown(letter))
    if "json_allowed_escapes" not in settings and general is not False:
        return None
    return _with_escapes("".join(sorted(set(letters))), general is not False)


@bounded_cache
def _with_escapes(letters: str, general: bool) -> Expr:
    r"""Text whose escapes are those of ``letters``. ``general``: ``\uXXXX`` may be any character, not only a control one."""
    after = [byte_class(letters.replace("u", "").encode())] if letters.replace("u", "") else []
    if "u" in letters:
        digits = repeat(_HEX, 4, 4) if general else alt(cat(literal(b"00"), byte_class(b"01"), _HEX), *_DELETE)
        after.append(cat(literal(b"u"), digits))
    plain = byte_mask(ALL_BYTES & ~(1 << ord("\\")))
    return repeat(alt(plain, cat(literal(b"\\"), alt(*after))) if after else plain)
