"""White space and the structural lexemes of JSON (RFC 8259, section 2).

White space belongs to the lexeme that *follows* it, so between two tokens each possibility is one lexeme, and there is no
ambiguity about which lexeme owns the white space. A key includes its colon. There is no white space around the top-level value.
Another layout needs changes only in this module.

Expressions are compared by identity, so those that do not depend on a schema are built once per layout and shared by all
grammars.
"""

from __future__ import annotations

from collections.abc import Sequence

from cdplugin.errors import GrammarError, shown
from cdplugin.expr import EPSILON, Expr, both, byte_class, cat, led, literal, literals, repeat
from cdplugin.frontends.json_schema.matching import Search
from cdplugin.frontends.json_schema.options import Gaps
from cdplugin.frontends.json_schema.strings import QUOTE, spellings
from cdplugin.memory import Node, bounded_cache
from cdplugin.regex import pattern as regex
from cdplugin.regex.alphabet import JSON_STRING, UTF8

MAX_WHITESPACE = 40
_SPACE = byte_class(b" \t\n\r")
MOST_LEVELS = 24
"""Depth to which arrays and objects are written where lines are indented: each depth has rules of its own."""
_LAYOUT_BYTES = 4096
FLEXIBLE = repeat(_SPACE, 0, MAX_WHITESPACE)


class Layout(Node):
    """The structural lexemes of one layout, at one depth of indentation.

    ``comma``, ``colon``: the separators, without the white space before a value or a name (``space``).
    """

    def __init__(self, space: Expr, comma: Expr, colon: Expr, indent: bytes | None = None, depth: int = 0) -> None:
        self.holders = 0
        self.indent = indent
        self._depth = depth
        self.space = space if indent is None else literal(b"\n" + indent * depth)
        self.colon = colon
        self.comma = comma
        self.open_brace = cat(self.space, literal(b"{"))
        self.close_brace = cat(self.space, literal(b"}"))
        self.open_bracket = cat(self.space, literal(b"["))
        self.close_bracket = cat(self.space, literal(b"]"))
        self.bare_brace = literal(b"{")
        self.bare_bracket = literal(b"[")
        self.empty_brace = self.close_brace if indent is None else literal(b"}")
        self.empty_bracket = self.close_bracket if indent is None else literal(b"]")
        self.any_key = self.quoted_key(cat(QUOTE, JSON_STRING.any_text, QUOTE))
        self._deeper: Layout | None = None

    def deeper(self) -> Layout:
        """The layout of nested values; the same object unless lines are indented."""
        if self.indent is None:
            return self
        if self._deeper is None:
            self._deeper = Layout(self.space, self.comma, self.colon, self.indent, self._depth + 1)
        return self._deeper

    def key(self, name: str) -> Expr:
        """The name of a member and the colon."""
        return led(self.space, literals(spellings(name)), self.colon)

    def value(self, expr: Expr) -> Expr:
        """A value with the spelling ``expr``."""
        return led(self.space, expr)

    def weigh(self) -> tuple[int, Sequence[Expr]]:
        """Bytes of the layout itself, including deeper levels, and its expressions."""
        nbytes = _LAYOUT_BYTES if self.indent is None else MOST_LEVELS * _LAYOUT_BYTES
        return nbytes, (self.open_brace, self.close_brace, self.open_bracket, self.close_bracket, self.comma, self.any_key)

    def quoted_key(self, key: Expr) -> Expr:
        """A key whose spelling with quotes is ``key``, which must be neither ``EMPTY`` nor ``EPSILON``."""
        return led(self.space, key, self.colon)


@bounded_cache
def layout_of(
    whitespace: str, separators: tuple[str, str] | None = None, indent: int | str | None = None, gaps: Gaps | None = None
) -> Layout:
    """The layout for the options ``whitespace``, ``separators``, ``indent`` and ``gaps``."""
    if gaps is not None:
        space = repeat(gap(gaps.space), 0, 1) if gaps.space else EPSILON
        return Layout(space, cat(space, gap(gaps.item, b",")), cat(space, gap(gaps.key, b":")))
    if separators is not None or indent is not None:
        item, name = separators or ((", " if indent is None else ","), ": ")
        step = indent if isinstance(indent, str) else None if indent is None else " " * indent
        return Layout(EPSILON, literal(item.encode()), literal(name.encode()), None if step is None else step.encode())
    if whitespace in ("flexible", "compact"):
        space = FLEXIBLE if whitespace == "flexible" else EPSILON
    else:
        try:
            space = regex.parse(whitespace, "ecma", "u").match_expr(UTF8)
        except GrammarError as error:
            raise GrammarError(f"option whitespace: {error.message}", location=error.location, context=error.context) from None
        space = both(space, repeat(_SPACE))
        if Search().matches_nothing(space)[0]:
            expected = "'flexible', 'compact' or a regular expression that matches spaces, tabs or line breaks, or nothing"
            raise GrammarError("option whitespace", expected=expected, found=shown(whitespace))
    return Layout(space, cat(space, literal(b",")), cat(space, literal(b":")))


def gap(pattern: str, mark: bytes = b"") -> Expr:
    """The matches of a :class:`Gaps` pattern that are white space around ``mark``."""
    blank = repeat(_SPACE)
    return both(regex.parse(pattern, "rust").match_expr(UTF8), cat(blank, literal(mark), blank) if mark else blank)
