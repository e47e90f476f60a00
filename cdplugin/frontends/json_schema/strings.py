"""JSON strings (RFC 8259, section 7): free text, lengths, patterns, and keys other than given names.

Free text may use any legal escape. Fixed texts (property names, enumerated strings) are spelled as ``json.dumps(text,
ensure_ascii=False)`` and as ``json.dumps(text)`` spell them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from functools import reduce
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import NamedTuple

from cdplugin import expr
from cdplugin.expr import EMPTY, EPSILON, Expr, Names, alt, both, byte_class, cat, complement, counted, literal, repeat
from cdplugin.frontends.json_schema.formats import content_encoding_expr, format_expr
from cdplugin.regex import pattern as regex
from cdplugin.regex.alphabet import JSON_CANONICAL, JSON_STRING, UTF8, Alphabet
from cdplugin.regex.unicode import Ranges, intersection
from cdplugin.walks import fold

QUOTE = literal(b'"')
STRING = cat(QUOTE, JSON_STRING.any_text, QUOTE)
"""Any JSON string."""


class Format(NamedTuple):
    """A ``format`` or ``contentEncoding``. ``portable``: without what only the RFCs allow."""

    keyword: str
    name: str
    portable: bool = True

    def text(self, alphabet: Alphabet) -> Expr:
        """The texts of this format."""
        if self.keyword == "contentEncoding":
            found = content_encoding_expr(self.name, alphabet)
        else:
            found = format_expr(self.name, alphabet, portable=self.portable)
        return alphabet.any_text if found is None else found

    def can_be_denied(self) -> bool:
        """Whether :meth:`without` is defined."""
        return self.keyword == "format" and (self.name in _EXACT_FORMATS or self.name in _WIDER)

    def without(self) -> Expr:
        """Texts that certainly do not have the format, in any reader's opinion; not always all such texts."""
        if self.name in _EXACT_FORMATS:  # these have one spelling
            return both(JSON_CANONICAL.any_text, complement(self._replace(portable=False).text(JSON_CANONICAL)))
        return both(JSON_STRING.any_text, complement(pattern_text(_WIDER[self.name])))


_EXACT_FORMATS = frozenset(("date", "ipv4", "ipv6"))
"""Formats whose expressions leave out no valid text, only spellings."""
_WIDER = {
    "date-time": "^.{4}-.{2}-.{2}.",
    "time": "^.{2}:.{2}:",
    "duration": "^P",
    "email": "@",
    "idn-email": "@",
    "hostname": r"^(?:[A-Za-z0-9._\-]|[^\x00-\x7f])*$",
    "uri": r"^[A-Za-z][A-Za-z0-9+.\-]*:",
    "iri": r"^[A-Za-z][A-Za-z0-9+.\-]*:",
    "uri-reference": r"^[!#-;=?-\[\]_a-z~]*$",
    "iri-reference": r'^[^\x00- "<>\\\^`{|}]*$',
    "uuid": "^.{8}-.{4}-.{4}-.{4}-",
    "json-pointer": r"^(?:\/|$)",
    "relative-json-pointer": r"^(?:[0-9]|[^\x00-\x7f])",
    "idn-hostname": r"^[^\x00- ]*$",
    "uri-template": r"^[^{}]*(?:\{[^{}]*\}[^{}]*)*$",  # braces come in pairs and are not nested
    "regex": r"^(?![*+?])",  # a quantifier has something to repeat
}
"""Patterns that match every text of the format (and some other texts)."""


def pattern_text(pattern: str, alphabet: Alphabet = JSON_STRING) -> Expr:
    """The text of strings that ``pattern`` matches (ECMA-262, unanchored; Core, section 6.4)."""
    return _pattern_text(pattern, alphabet)


@counted
def _pattern_text(pattern: str, alphabet: Alphabet) -> Expr:
    return regex.parse(pattern, "ecma", "u").search_expr(alphabet)


@counted
def string_expr(low: int, high: int | None, patterns: tuple[str, ...], formats: tuple[Format, ...] = ()) -> Expr:
    """Strings of ``low`` to ``high`` code points that match every pattern and have every format."""
    if not formats and not patterns and not low and high is None:
        return STRING
    plain = any(form.name in _PLAIN_FORMATS for form in formats)
    alphabet = _PLAIN if plain else JSON_CANONICAL if formats else JSON_STRING  # formats have one spelling
    if not plain and any(form.name == "email" for form in formats):
        alphabet = _ASCII
    for form in formats:
        shortest, longest = sizes(form.text(UTF8))
        low = 0 if low <= -(-shortest // 4) or (low <= shortest and form.name in _ASCII_FORMATS) else low
        high = None if high is not None and longest is not None and longest <= high else high
    parts = [form.text(JSON_CANONICAL) for form in formats]
    texts = [pattern_text(pattern, alphabet) for pattern in patterns]
    if texts and parts:  # restrict patterns to the formats' bytes: one that needs a slash matches no host name, found at once
        allowed = reduce(operator.and_, map(bytes_in, parts))
        texts = [within(text, allowed) for text in texts]
    parts += texts
    if low or high is not None or not parts:
        parts.append(repeat(alphabet.any_char, low, high))
    return cat(QUOTE, both(*parts), QUOTE)


@counted
def _plain_chars(ranges: Ranges) -> Expr:
    return byte_class(bytes(b for low, high in ranges for b in range(low, min(high, 0x7E) + 1) if b > 0x20 and b not in b'"\\'))


@counted
def _ascii_chars(ranges: Ranges) -> Expr:
    return JSON_CANONICAL.chars(intersection(ranges, ((0x20, 0x7E),)))


_ASCII = Alphabet("ASCII", _ascii_chars, JSON_CANONICAL.spell, True)
_PLAIN = Alphabet("PLAIN", _plain_chars, str.encode, True)
"""Alphabets for patterns beside a format: printable ASCII, all of it or the part without escapes."""
_PLAIN_FORMATS = frozenset(
    "date-time date time duration hostname ipv4 ipv6 uri uri-reference uuid base64 base64url base32 base32hex base16".split()
)
"""Formats whose characters have no escapes, so that a code point is a byte."""
_ASCII_FORMATS = _PLAIN_FORMATS | {"email"}


_MADE = {expr.CAT_OP: cat, expr.ALT_OP: alt, expr.AND_OP: both}
_OF_PARTS = frozenset((*_MADE, expr.REPEAT_OP))


def _parts_of(node: Expr) -> list[Expr]:
    """The parts of which matches consist; none for a complement."""
    return [part for part in node.args if isinstance(part, Expr)] if node.op in _OF_PARTS else []


def bytes_in(expression: Expr) -> int:
    """A superset of the bytes that matches may contain, as a 256-bit integer (bit b: byte b)."""

    def bytes_of(node: Expr, below: list[int]) -> int:
        if node.op == expr.LITERALS_OP:
            return reduce(operator.or_, (1 << byte for byte in frozenset(b"".join(node.args))), 0)
        if node.op == expr.BYTES_OP or node.op == expr.NOT_OP:
            return node.args[0] if node.op == expr.BYTES_OP else expr.ALL_BYTES
        return reduce(operator.and_, below) if node.op == expr.AND_OP else reduce(operator.or_, below, 0)

    return fold(expression, _parts_of, bytes_of)


def within(expression: Expr, allowed: int) -> Expr:
    """An expression with the same matches over the bytes ``allowed`` (bit b: byte b); other matches may be lost."""

    def made(node: Expr, below: list[Expr]) -> Expr:
        op, args = node.op, node.args
        if op == expr.BYTES_OP:
            return node if not args[0] & ~allowed else expr.byte_mask(args[0] & allowed)
        if op == expr.LITERALS_OP:
            texts = tuple(text for text in args if all(allowed >> byte & 1 for byte in text))
            return node if len(texts) == len(args) else expr.literals(texts)
        if all(map(operator.is_, below, _parts_of(node))):
            return node
        return repeat(below[0], args[1], args[2]) if op == expr.REPEAT_OP else _MADE[op](*below)

    return fold(expression, _parts_of, made)


def sizes(expression: Expr, known: dict[Expr, tuple[int, int | None]] | None = None) -> tuple[int, int | None]:
    """Bounds on the length of matches in bytes; ``EMPTY`` counts as one byte. ``known``: results known before; it grows."""
    return fold(expression, _parts_of, _sizes_of, known)


def _sizes_of(node: Expr, below: list[tuple[int, int | None]]) -> tuple[int, int | None]:
    """:func:`sizes` of a node, from those of its parts."""
    op, args = node.op, node.args
    if op == expr.LITERALS_OP:
        return min(map(len, args)), max(map(len, args))
    if op == expr.REPEAT_OP:
        ((low, high),), (_, at_least, at_most) = below, args
        return low * at_least, None if high is None or at_most is None else high * at_most
    if op not in _OF_PARTS:
        return (0, 0) if op == expr.EPSILON_OP else (0, None) if op == expr.NOT_OP else (1, 1)
    lows, bounded = [low for low, _ in below], [high for _, high in below if high is not None]
    if op == expr.AND_OP:
        return max(lows), min(bounded, default=None)
    is_bounded = len(bounded) == len(below)
    if op == expr.CAT_OP:
        return sum(lows), sum(bounded) if is_bounded else None
    return min(lows), max(bounded) if is_bounded else None


def spellings(text: str) -> tuple[bytes, ...]:
    """The spellings of a fixed text as ``json.dumps`` writes them, with quotes."""
    plain = encode_basestring(text)
    if text.isascii() and "\x7f" not in text:  # U+007F is ASCII, but `encode_basestring_ascii` escapes it
        return (plain.encode(),)
    try:
        encoded = plain.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return (encode_basestring_ascii(text).encode("ascii"),)
    return (encoded, encode_basestring_ascii(text).encode("ascii"))


def characters() -> list[Expr]:
    """The printable ASCII characters, each in every spelling: the usual parts of :func:`names_text`."""
    return [JSON_STRING.literal_any(chr(c)) for c in range(0x20, 0x7F)]


def other_text(names: Iterable[str]) -> Expr:
    """Key text (without quotes) that is none of ``names``, in any spelling."""
    return Expr(expr.AND_OP, (JSON_STRING.any_text, complement(names_text(names))))


def names_text(names: Iterable[str]) -> Expr:
    """All spellings of ``names``, as a trie over code points, so that derivatives stay small."""
    # A lone surrogate is in no JSON text that is UTF-8 throughout.
    words = sorted(set(names))
    letters = "".join(words)
    if not (letters.isascii() and letters.isprintable()):
        words = [word for word in words if not any("\ud800" <= c <= "\udfff" for c in word)]
        return _names_tree(words) if words else EMPTY
    return Names(tuple(words), _names_tree) if words else EMPTY


def _names_tree(words: Sequence[str]) -> Expr:
    """:func:`names_text` of sorted, distinct names."""
    # Each frame: words[start:end] share their first `depth` code points.
    root: list[Expr] = []
    stack: list[tuple[int, int, int, list[Expr], Expr | None, list[Expr] | None]] = [(0, len(words), 0, root, None, None)]
    while stack:
        start, end, depth, out, head, branches = stack.pop()
        if branches is not None:  # all branches below `head` are built
            out.append(cat(head or EPSILON, alt(*branches)))
            continue
        first, last = words[start], words[end - 1]
        if end == start + 1:
            out.append(JSON_STRING.literal_any(first[depth:]))
            continue
        prefix_end = depth
        while prefix_end < len(first) and first[prefix_end] == last[prefix_end]:  # the words are sorted and distinct
            prefix_end += 1
        lead = JSON_STRING.literal_any(first[depth:prefix_end])
        below: list[Expr] = []
        stack.append((0, 0, 0, out, lead, below))
        i = start
        if len(first) == prefix_end:
            below.append(EPSILON)
            i += 1
        while i < end:
            j = i + 1
            while j < end and words[j][prefix_end] == words[i][prefix_end]:
                j += 1
            stack.append((i, j, prefix_end, below, None, None))
            i = j
    return root[0]
