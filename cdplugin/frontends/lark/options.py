"""Options of a grammar: ``%llguidance {…}``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from cdplugin.errors import shown
from cdplugin.frontends.lark.source import Source


@dataclass(frozen=True)
class GrammarOptions:
    """``skip_once``: what is ignored may stand between two lexemes once; ``initial_skip``: also before the first one."""

    skip_once: bool = False
    initial_skip: bool = False


_BOOLEANS = ("no_forcing", "allow_initial_skip", "ignore_once", "allow_invalid_utf8")
_KNOWN = (*_BOOLEANS, "skip_repetition")


def grammar_options(source: Source, given: list[tuple[Any, int]]) -> GrammarOptions:
    """The options of all ``%llguidance`` statements; later ones win. What cannot be enforced is refused by name."""
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
