"""Where whitespace goes, and which lexemes the structure of JSON is made of (RFC 8259, section 2).

Whitespace is part of the lexeme that *follows* it, so that between two tokens there is one lexeme alive per possibility and no
choice of where the whitespace belongs; a key takes the colon with it. This is the one place to change for another layout.
At the top level there is no whitespace: a value starts at its first byte and ends with its last.

Expressions are compared by identity, so those that do not depend on a schema are made once per whitespace option and shared by
all grammars.
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
"""Depth down to which arrays and objects are written where lines are indented: each depth has rules of its own."""
_LAYOUT_BYTES = 4096
FLEXIBLE = repeat(_SPACE, 0, MAX_WHITESPACE)


class Layout(Node):
    """The structural lexemes for one choice of whitespace, at one depth of indentation.

    ``comma``, ``colon``: the separators as they are written, without what stands before a value or a name (``space``).
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
        """The layout of what is inside; the same one unless lines are indented."""
        if self.indent is None:
            return self
        if self._deeper is None:
            self._deeper = Layout(self.space, self.comma, self.colon, self.indent, self._depth + 1)
        return self._deeper

    def key(self, name: str) -> Expr:
        """The name of a member, as it is written before its value."""
        return led(self.space, literals(spellings(name)), self.colon)

    def value(self, expr: Expr) -> Expr:
        """A value that is spelt as ``expr`` says."""
        return led(self.space, expr)

    def weigh(self) -> tuple[int, Sequence[Expr]]:
        """Bytes of the layout itself, with those for further levels, and its expressions."""
        nbytes = _LAYOUT_BYTES if self.indent is None else MOST_LEVELS * _LAYOUT_BYTES
        return nbytes, (self.open_brace, self.close_brace, self.open_bracket, self.close_bracket, self.comma, self.any_key)

    def quoted_key(self, key: Expr) -> Expr:
        """A key that, with its quotes, matches ``key``, which is neither ``EMPTY`` nor ``EPSILON``."""
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
    """What a pattern of :class:`Gaps` matches that is white space around ``mark``."""
    blank = repeat(_SPACE)
    return both(regex.parse(pattern, "rust").match_expr(UTF8), cat(blank, literal(mark), blank) if mark else blank)
