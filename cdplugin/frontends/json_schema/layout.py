"""Where whitespace goes, and which lexemes the structure of JSON is made of (RFC 8259, section 2).

Whitespace is part of the lexeme that *follows* it, so that between two tokens there is one lexeme alive per possibility and no
choice of where the whitespace belongs; a key takes the colon with it. This is the one place to change for another layout.
At the top level there is no whitespace: a value starts at its first byte and ends with its last.

Expressions are compared by identity, so those that do not depend on a schema are made once per whitespace option and shared by
all grammars.
"""

from __future__ import annotations

from functools import lru_cache

from cdplugin import regex
from cdplugin.alphabet import JSON_STRING, UTF8
from cdplugin.errors import GrammarError
from cdplugin.expr import EPSILON, Expr, both, byte_class, cat, literal, literals, repeat
from cdplugin.frontends.json_schema.strings import QUOTE, spellings

MAX_WHITESPACE = 40
_SPACE = byte_class(b" \t\n\r")
FLEXIBLE = repeat(_SPACE, 0, MAX_WHITESPACE)


class Layout:
    """The structural lexemes for one choice of whitespace.

    ``value(expr)`` and ``key(...)`` are memoised: the same expression gives the same object.
    """

    def __init__(self, whitespace: Expr) -> None:
        self.space = whitespace
        self.colon = cat(whitespace, literal(b":"))
        self.comma = cat(whitespace, literal(b","))
        self.open_brace = cat(whitespace, literal(b"{"))
        self.close_brace = cat(whitespace, literal(b"}"))
        self.open_bracket = cat(whitespace, literal(b"["))
        self.close_bracket = cat(whitespace, literal(b"]"))
        self.bare_brace = literal(b"{")
        self.bare_bracket = literal(b"[")
        self.any_key = self.text_key(JSON_STRING.any_text)
        self.key = lru_cache(maxsize=8192)(self._key)
        self.value = lru_cache(maxsize=8192)(self._value)

    def _key(self, name: str) -> Expr:
        return cat(self.space, literals(spellings(name)), self.colon)

    def _value(self, expr: Expr) -> Expr:
        return cat(self.space, expr)

    def text_key(self, text: Expr) -> Expr:
        """A key whose text (without quotes) matches ``text``."""
        return self.quoted_key(cat(QUOTE, text, QUOTE))

    def quoted_key(self, key: Expr) -> Expr:
        """A key that, with its quotes, matches ``key``."""
        return cat(self.space, key, self.colon)


@lru_cache(maxsize=64)
def layout_of(whitespace: str) -> Layout:
    """The layout for a ``whitespace`` option."""
    if whitespace == "flexible":
        return Layout(FLEXIBLE)
    if whitespace == "compact":
        return Layout(EPSILON)
    try:
        expr = regex.parse(whitespace, "ecma", "u").match_expr(UTF8)
    except GrammarError as error:
        raise GrammarError(f"option whitespace: {error.message}", location=error.location, context=error.context) from None
    return Layout(both(expr, repeat(_SPACE)))
