"""Options: ``%llguidance {…}`` of a grammar, and ``x-guidance`` of a schema after ``%json``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cdplugin.errors import shown
from cdplugin.frontends.json_schema.options import Options as JsonOptions
from cdplugin.frontends.lark.source import Source, suggestion


@dataclass(frozen=True)
class GrammarOptions:
    """``skip_once``: what ``%ignore`` names may stand between two lexemes once, not repeatedly; ``initial_skip``: also before
    the first one.
    """

    skip_once: bool = False
    initial_skip: bool = False


_BOOLEANS = ("no_forcing", "allow_initial_skip", "ignore_once", "allow_invalid_utf8")
_KNOWN = (*_BOOLEANS, "skip_repetition")


def grammar_options(source: Source, given: list[tuple[Any, int]]) -> GrammarOptions:
    """The options of all ``%llguidance`` statements; later ones win. What cannot be enforced is refused by name."""
    out = GrammarOptions()
    for value, at in given:
        if not isinstance(value, dict):
            source.fail("what follows %llguidance", at, expected="an object", found=type(value).__name__)
        for key, setting in value.items():
            if key not in _KNOWN:
                found = shown(key) + suggestion(key, _KNOWN)
                source.fail("unknown option in %llguidance", at, expected="one of " + ", ".join(_KNOWN), found=found)
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


_JSON_KEYS = (
    "whitespace_flexible",
    "whitespace_pattern",
    "item_separator",
    "key_separator",
    "coerce_one_of",
    "lenient",
    "json_allowed_escapes",
    "json_allow_general_unicode_escapes",
)


def json_options(source: Source, schema: dict, at: int) -> tuple[dict, JsonOptions]:
    """A schema without ``x-guidance``, and what that asks for."""
    given = schema.get("x-guidance")
    if given is None:
        return schema, JsonOptions()
    if not isinstance(given, dict):
        source.fail("x-guidance", at, expected="an object", found=type(given).__name__)
    out = JsonOptions()
    for key, setting in given.items():
        if key not in _JSON_KEYS:
            found = shown(key) + suggestion(key, _JSON_KEYS)
            source.fail("unknown option in x-guidance", at, expected="one of " + ", ".join(_JSON_KEYS), found=found)
        if key in ("whitespace_flexible", "coerce_one_of", "lenient") and not isinstance(setting, bool):
            source.fail(f"x-guidance option {key}", at, expected="true or false", found=shown(setting))
        if key == "whitespace_pattern":
            if not isinstance(setting, str):
                source.fail(f"x-guidance option {key}", at, expected="a regular expression", found=shown(setting))
            out = replace(out, whitespace=setting)
        elif key == "lenient":
            out = replace(out, on_unsupported="relax" if setting else "error")
        elif key in ("json_allowed_escapes", "json_allow_general_unicode_escapes"):
            source.refuse(f"x-guidance option {key}", at)
        # coerce_one_of: oneOf is enforced exactly, which is never less strict; the others come below
    if "whitespace_pattern" not in given or not {"item_separator", "key_separator"}.isdisjoint(given):
        out = _with_separators(source, given, out, at)
    return {name: member for name, member in schema.items() if name != "x-guidance"}, out


def _with_separators(source: Source, given: dict, out: JsonOptions, at: int) -> JsonOptions:
    """Separators, with no white space beside them (``whitespace_flexible: false``); else only the default ones."""
    pair = (given.get("item_separator", ","), given.get("key_separator", ":"))
    for key, setting, mark in zip(("item_separator", "key_separator"), pair, ",:", strict=True):
        fixed = given.get("whitespace_flexible") is False and "whitespace_pattern" not in given
        if setting != mark and not (fixed and isinstance(setting, str) and setting.strip(" ") == mark):
            expected = f"{mark!r}, or that and spaces with whitespace_flexible: false"
            source.refuse(f"x-guidance option {key}", at, expected=expected, found=shown(setting))
    if pair != (",", ":"):
        return replace(out, separators=pair)
    is_compact = given.get("whitespace_flexible") is False and "whitespace_pattern" not in given
    return replace(out, whitespace="compact") if is_compact else out
