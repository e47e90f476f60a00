"""Questions about expressions at compile time: whether a text matches, whether two patterns share a text, which names match.

:mod:`cdplugin.languages` answers them. This module adds quick tests, and decides what a missing answer means.
"""

from __future__ import annotations

import re
from collections import deque
from functools import cached_property

from cdplugin import expr
from cdplugin.errors import LimitExceeded
from cdplugin.expr import EMPTY, Expr, both
from cdplugin.frontends.json_schema.strings import Format, pattern_text, sizes
from cdplugin.languages import FUEL, MOST_BYTES, Languages
from cdplugin.memory import bounded_cache, register
from cdplugin.regex import pattern as regex
from cdplugin.regex.alphabet import UTF8


class Search:
    """Bounded questions about what expressions match. Expressions share subexpressions, whose derivatives are memoised."""

    def __init__(self) -> None:
        self._sizes: dict[Expr, tuple[int, int | None]] = {}

    @cached_property
    def _languages(self) -> Languages:
        return Languages()

    def is_endless(self, expression: Expr) -> bool:
        """Whether the length of its matches has no visible bound."""
        return sizes(expression, self._sizes)[1] is None

    def texts(self, expression: Expr, most: int) -> tuple[list[bytes] | None, int]:
        """All texts that match, or None if they are more than ``most`` or take too long; and the number of
        derivatives taken.
        """
        before = self._languages.taken
        try:
            found = self._languages.texts(expression, most)
        except LimitExceeded:
            return None, FUEL
        return found, self._languages.taken - before

    def matches_nothing(self, expression: Expr) -> tuple[bool, int]:
        """Whether an expression was found to match no text; and the number of derivatives taken."""
        before = self._languages.taken
        try:
            nothing = self._languages.is_empty(expression)
        except LimitExceeded:
            return False, FUEL
        return nothing, self._languages.taken - before

    def matches_something(self, expression: Expr) -> tuple[bool, int]:
        """Whether an expression was found to match a text; and the number of derivatives taken."""
        nothing, taken = self.matches_nothing(expression)
        return not nothing and taken < FUEL, taken


def _head(expression: Expr) -> bytes:
    """A visible common prefix of all texts of an expression."""
    head = b""
    pending = [expression]
    while pending:
        node = pending.pop()
        if node.op == expr.CAT_OP:
            pending += reversed(node.args)
        elif node.op == expr.LITERALS_OP and len(node.args) == 1:
            head += node.args[0]
        elif node.op == expr.BYTES_OP and node.args[0].bit_count() == 1:
            head += bytes(((node.args[0] & -node.args[0]).bit_length() - 1,))
        else:
            break
    return head


@bounded_cache
def only_text(pattern: str) -> str | None:
    """The one text in which a pattern has a match, if there visibly is only one."""
    expression = pattern_text(pattern, UTF8)
    head = _head(expression)
    return head.decode() if sizes(expression)[1] == len(head) and expression is not EMPTY else None


def _is_open(expression: Expr, side: int) -> bool:
    """Whether the language visibly stays the same with any text before it (``side`` 0) or after it (-1)."""
    branches = expression.args if expression.op == expr.ALT_OP else (expression,)
    edges = [branch.args[side] for branch in branches if branch.op == expr.CAT_OP]
    return any(edge.op == expr.REPEAT_OP and edge.args == (UTF8.any_char, 0, None) for edge in edges)


def share_no_text(first: str, second: str) -> tuple[bool, int]:
    """Whether the patterns were found to match no text in common; and the number of derivatives taken."""
    return _share_no_text(*sorted((first, second)))


@bounded_cache
def _share_no_text(first: str, second: str) -> tuple[bool, int]:
    parts = [pattern_text(pattern, UTF8) for pattern in (first, second)]
    # A match of one followed by a match of the other is in both: true of most patterns, which are words found anywhere.
    if EMPTY not in parts and any(_is_open(parts[i], -1) and _is_open(parts[1 - i], 0) for i in (0, 1)):
        return False, 1
    heads = [_head(part) for part in parts]
    n = min(map(len, heads))
    if heads[0][:n] != heads[1][:n]:
        return True, n
    return Search().matches_nothing(both(*parts))


_IDLE = 4
_idle: deque[Languages] = deque(maxlen=_IDLE)  # a thread takes one for a question, and puts it back
register("patterns matched against values", lambda: sum([languages.nbytes for languages in tuple(_idle)]), _IDLE * MOST_BYTES)


def finds(wanted: str | Format, text: str) -> bool:
    """Whether ``text`` has a format, or contains a match of a pattern (ECMA-262). Raises :class:`LimitExceeded`."""
    try:
        languages = _idle.pop()
    except IndexError:
        languages = Languages()
    expression = languages.named.get(wanted)
    if expression is None:
        if isinstance(wanted, str):
            expression = regex.parse(wanted, "ecma", "u").search_expr(UTF8)
        else:
            expression = wanted.text(UTF8)
        languages.named[wanted] = expression
    try:
        return languages.matches(expression, text.encode("utf-8", "surrogatepass"))
    except LimitExceeded:
        raise LimitExceeded("pattern too complex to match enumerated values against") from None
    finally:
        _idle.append(languages)


def has_format(form: Format, text: str) -> bool | None:
    """Whether ``text`` has the format; None where it may be valid text that the expression leaves out."""
    if finds(form, text):
        return True
    if form.portable and finds(form._replace(portable=False), text):
        return None
    return None if _may_be_left_out(form.name, text) else False


_NEVER_IN_LABELS = re.compile(r"[\x00-,/:-@\[-`{-\x7f]")
"""ASCII characters other than letters, digits, hyphens and dots (RFC 5891, section 4.2.2: no A-label has them)."""


def _may_be_left_out(name: str, text: str) -> bool:
    """Whether a text that does not match may still be valid: see the list in ``formats``."""
    if name in ("email", "idn-email") and "@" not in text:
        return False
    if name == "idn-hostname":
        return text != "" and not _NEVER_IN_LABELS.search(text)
    if name in ("regex", "idn-email") or "base" in name:
        return True
    if name == "hostname":
        return "--" in text
    if name == "email":
        return "[" in text or len(text) - text.rfind("@") > 189
    if name == "uri-template":
        return "{" in text
    return "0+" in text or "0-" in text if name == "relative-json-pointer" else len(text) > 100
