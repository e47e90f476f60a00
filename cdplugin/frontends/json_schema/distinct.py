"""``uniqueItems`` over scalars that are too many to list: strings, numbers, unions of them.

After an item, the next one is any text except all spellings of the values seen (:class:`cdplugin.ir.TrackedLexeme`). A value is
what Python reads: for strings the characters, however escaped; for numbers an exact integer or a double, so 1, 1.0 and 1e0
are one value, and all decimals that round to one double are. To keep the spellings of a number few, an exponent among distinct
items must follow a mantissa with one digit, not 0, before the point; and a number must not overflow to infinity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Sequence
from decimal import Decimal
from sys import getsizeof
from typing import Any
from weakref import WeakValueDictionary

from cdplugin.expr import (
    ALT_OP,
    CAT_OP,
    EPSILON,
    LITERALS_OP,
    REPEAT_OP,
    Expr,
    alt,
    both,
    byte_class,
    cat,
    complement,
    literal,
    literals,
    nbytes_of,
    optional,
    repeat,
)
from cdplugin.frontends.json_schema.bracketed import Bracketed, Frame
from cdplugin.frontends.json_schema.numbers import (
    BEYOND_DOUBLES,
    CONTEXT,
    DIGIT,
    MAX_DIGITS,
    MINUS,
    NONZERO,
    POINT,
    magnitudes_between,
)
from cdplugin.frontends.json_schema.strings import QUOTE
from cdplugin.ir import Part, Productive, Symbol, TrackedLexeme, ValueReader, Whole
from cdplugin.memory import bounded_cache
from cdplugin.regex.alphabet import JSON_CANONICAL, JSON_STRING

_FRACTION = cat(POINT, repeat(DIGIT, 1))
_UNUSUAL = cat(
    optional(MINUS),
    alt(
        cat(
            alt(cat(literal(b"0"), optional(_FRACTION)), cat(NONZERO, repeat(DIGIT, 1), optional(_FRACTION))),
            byte_class(b"eE"),
            repeat(byte_class(b"+-0123456789"), 1),
        ),
        cat(NONZERO, optional(_FRACTION), byte_class(b"eE"), MINUS, repeat(literal(b"0"), 1)),
        cat(NONZERO, optional(_FRACTION), byte_class(b"eE"), optional(byte_class(b"+-")), literal(b"00"), repeat(DIGIT, 1)),
    ),
)
"""Numbers with an exponent that is not in this normal form."""
_LEFT_OUT = alt(_UNUSUAL, BEYOND_DOUBLES)
_ENDS = cat(repeat(DIGIT, 0, 13), NONZERO)
_SIGNIFICANT = [
    *(cat(NONZERO, repeat(DIGIT, n - 1, n - 1), POINT, repeat(DIGIT, 0, 14 - n), NONZERO) for n in range(1, 15)),
    cat(literal(b"0."), repeat(literal(b"0")), NONZERO, optional(_ENDS)),
]
"""Non-integer decimals with at most 15 significant digits: no two of them round to the same double."""
_POWERS = alt(  # exponents of numbers without another spelling here that are doubles of full precision
    cat(MINUS, alt(cat(literal(b"4"), NONZERO), cat(byte_class(b"56789"), DIGIT))),
    cat(literal(b"6"), byte_class(b"56789")),
    cat(byte_class(b"789"), DIGIT),
    cat(optional(MINUS), alt(cat(byte_class(b"12"), DIGIT, DIGIT), cat(literal(b"30"), byte_class(b"01234567")))),
)
PLAIN_TEXTS = alt(
    cat(QUOTE, JSON_CANONICAL.any_text, QUOTE),
    literals((b"0", b"null", b"true", b"false")),
    cat(optional(MINUS), NONZERO, repeat(DIGIT, 0, MAX_DIGITS - 1)),
    cat(optional(MINUS), alt(*_SIGNIFICANT)),
    cat(optional(MINUS), NONZERO, optional(cat(POINT, _ENDS)), literal(b"e"), _POWERS),
)
"""Texts whose values are pairwise different."""


def distinct_item(scalar: Expr) -> Expr:
    """Restrict numbers in an expression for scalars to the normal form of distinct items; the same object if
    nothing changes.
    """
    parts = scalar.args if scalar.op == ALT_OP else (scalar,)
    if all(map(_has_no_exponents, parts)):
        return scalar
    return alt(*[part if _has_no_exponents(part) else both(part, complement(_LEFT_OUT)) for part in parts])


def _has_no_exponents(part: Expr) -> bool:
    """Whether an expression visibly has no number with an exponent, or is a set of fixed texts (whose spelling is normal)."""
    return part.op == LITERALS_OP or (part.op == CAT_OP and part.args[0] is QUOTE)


def is_any_string(item: Expr) -> bool:
    """Whether an expression visibly matches all JSON strings, or all that are not too short."""
    if item.op != CAT_OP or len(item.args) != 3 or item.args[0] is not QUOTE or item.args[2] is not QUOTE:
        return False
    text = item.args[1]
    return text.op == REPEAT_OP and text.args[0] is JSON_STRING.any_char and text.args[2] is None


def read_value(text: bytes) -> Hashable:
    """The value of a scalar's text: a str, a number, or the text itself for ``null``, ``true`` and ``false``."""
    return as_value(json.loads(text))


def as_value(value: Any) -> Hashable:
    """A result of ``json.loads`` for a scalar as a hashable value; these are equal exactly if the JSON values are."""
    if value is None or isinstance(value, bool):
        return json.dumps(value).encode()
    if isinstance(value, float) and value.is_integer():
        return int(value)
    assert isinstance(value, (str, int, float))
    return value


@bounded_cache
def spellings_of(value: Hashable) -> tuple[Expr, int]:
    """All spellings of a non-string value among distinct items, and the bytes of that expression. It is the same object at each
    call, so an arena that has met the value in one set knows it for all.
    """
    texts = literal(value) if isinstance(value, bytes) else _number_spellings(value)
    return texts, nbytes_of([texts])


def _number_spellings(value: Hashable) -> Expr:
    assert isinstance(value, (int, float))
    sign = optional(MINUS) if value == 0 else MINUS if value < 0 else EPSILON
    parts = [literal(str(abs(value)).encode())] if isinstance(value, int) else []
    try:
        double = abs(float(value))
    except OverflowError:
        double = math.inf
    if double == abs(value):
        below = math.nextafter(double, 0.0)
        low = CONTEXT.divide(CONTEXT.add(Decimal(below), Decimal(double)), Decimal(2))
        gap = math.ulp(double)  # to the next larger double, also where that is infinite
        high = CONTEXT.add(Decimal(double), CONTEXT.divide(Decimal(gap), Decimal(2)))
        parts.append(magnitudes_between(low, high))
    return cat(sign, alt(*parts))


# --- excluded texts: a persistent trie, of which each new string copies one path ----------------------------------------------


class _Node:
    """A node of a radix tree of strings. ``edges``: first character -> (label of the edge, node, expression of both)."""

    __slots__ = ("edges", "ends", "expression")

    @property
    def nbytes(self) -> int:
        """Bytes of the node itself."""
        return _NODE_BYTES + getsizeof(self.edges) + 8 * len(self.edges)

    def __init__(self, ends: bool, edges: dict[str, tuple[str, Any, Expr]]) -> None:
        self.ends = ends
        self.edges = edges
        below = [expression for _, _, expression in edges.values()]
        if ends:
            below.append(EPSILON)
        self.expression = Expr(ALT_OP, tuple(below)) if len(below) > 1 else alt(*below)

    def having(self, label: str, node: _Node) -> _Node:
        """This node with an edge added or replaced."""
        edge = (label, node, cat(JSON_STRING.literal_any(label), node.expression))
        return _Node(self.ends, {**self.edges, label[0]: edge})


_NODE_BYTES, _EDGE_BYTES = 250, 500


def common_length(a: Sequence[object], b: Sequence[object]) -> int:
    """The length of the longest common prefix."""
    n = 0
    while n < len(a) and n < len(b) and a[n] == b[n]:
        n += 1
    return n


def with_text(root: _Node, text: str) -> _Node:
    """The tree with one more string."""
    path: list[tuple[_Node, str]] = []
    node = root
    while text:
        edge = node.edges.get(text[0])
        if edge is None:
            path.append((node, text))
            node = _Node(False, {})
            break
        label, below, _ = edge
        common = common_length(label, text)
        path.append((node, label[:common]))
        node = below if common == len(label) else _Node(False, {}).having(label[common:], below)
        text = text[common:]
    node = _Node(True, node.edges)
    for parent, label in reversed(path):
        node = parent.having(label, node)
    return node


def _path_bytes(root: _Node, text: str) -> int:
    """Bytes of the nodes and edges on the path of ``text``, which must be in the tree."""
    node, total = root, root.nbytes
    while text:
        label, node, _ = node.edges[text[0]]
        total += _EDGE_BYTES + 24 * len(label) + node.nbytes
        text = text[len(label) :]
    return total


_SEEN_BYTES = 600
_MOST_TOLD = 20_000
"""Up to this many symbols, :meth:`Unique.whole` gives a bound."""


class Seen:
    """A persistent set of values; adding one makes a new set that shares most of the old one.

    Sets are compared by identity. Adding the same value again returns the same set while that is in use, so a text that can be
    parsed in several ways leads to one set. ``nbytes``: the bytes it takes besides the set from which it was made.
    """

    __slots__ = ("__weakref__", "_others", "_texts", "_with", "count", "expression", "nbytes")

    def __init__(self, texts: _Node, others: dict[Hashable, Expr], count: int, nbytes: int = 0) -> None:
        self._texts = texts
        self._others = others
        self.count = count
        self.nbytes = _SEEN_BYTES + nbytes + 8 * len(others)
        self._with: WeakValueDictionary[Hashable, Seen] = WeakValueDictionary()
        parts = [cat(QUOTE, texts.expression, QUOTE)] if count > len(others) else []
        self.expression: Expr | None = alt(*parts, *others.values()) if count else None

    def __contains__(self, value: Hashable) -> bool:
        if not isinstance(value, str):
            return value in self._others
        node = self._texts
        while value:
            edge = node.edges.get(value[0])
            if edge is None or not value.startswith(edge[0]):
                return False
            value, node = value[len(edge[0]) :], edge[1]
        return node.ends

    def adding(self, value: Hashable) -> Seen:
        """This set with ``value``, which must not be in it."""
        found = self._with.get(value)
        if found is None:
            if isinstance(value, str):
                texts = with_text(self._texts, value)
                found = Seen(texts, self._others, self.count + 1, _path_bytes(texts, value))
            else:
                spellings, nbytes = spellings_of(value)
                others = {**self._others, value: spellings}
                found = Seen(self._texts, others, self.count + 1, getsizeof(others) + nbytes)
            return self._with.setdefault(value, found)  # or another thread's, if that was faster
        return found


NOTHING_SEEN = Seen(_Node(False, {}), {}, 0)


# --- rules --------------------------------------------------------------------------------------------------------------------


_Progress = tuple[bool, int, Seen | bool]


class Unique(Bracketed[_Progress, None]):
    """Distinct items and the closing bracket. A parameter is ``(started, index, seen)``; ``index`` counts as far as the bounds
    need it. Where the values are not known, ``seen`` is whether enough values are certainly left.

    ``item``: an expression for the items; ``space``: the symbols before each; ``location``: the array's, for messages.
    """

    name = "distinct items"
    first = (False, 0, NOTHING_SEEN)

    def __init__(self, frame: Frame, item: Expr, space: Sequence[Symbol], location: str) -> None:
        super().__init__(frame)
        self._alike = 0 if is_any_string(item) and frame.ir.restriction is None else None
        self._reader = ValueReader(read_value, PLAIN_TEXTS, frame.low, "uniqueItems", location)
        self.lexemes = self._lexeme, self._twin = frame.ir.track(item, self._reader, "value")
        self._space = tuple(space)

    def uses(self) -> Iterable[Symbol]:
        return [*self._signs_between(), *self._space, *self.lexemes]

    def _can_be_closed(self, value: _Progress, productive: Productive) -> bool:
        if self._high is not None and self._high < self._low:
            return False
        return value[1] >= self._low or (productive(self._lexeme) and all(map(productive, self._space)))

    def expand(self, value: _Progress, productive: Productive) -> Iterable[Sequence[Part]]:
        started, index, seen = value
        if index >= self._low:
            yield (self._closings[started],)
        if self._is_full(index) or not productive(self._lexeme):
            return
        following = min(index + 1, self._most)
        lead = (*self._lead(started), *self._space)
        if isinstance(seen, bool):
            yield (*lead, self._lexeme if seen else self._twin, self._ir.member(self, (True, following, seen)))
            return

        def then(item: Hashable) -> Sequence[Part] | None:
            return None if item in seen else (self._ir.member(self, (True, following, seen.adding(item))),)

        rest = self._ir.member(self, (True, following, seen.count + 1 < self._reader.enough))
        yield (*lead, TrackedLexeme(self._lexeme, seen.expression, then, (rest,), self._alike))

    def whole(self, productive: Productive) -> Whole | None:
        """As many items as ``low``, with fewer values excluded than that; on the way, an item may come, or a bracket."""
        item = (self._comma, *self._space, self._lexeme)
        if self._low * len(item) > _MOST_TOLD:
            return None
        ways = self._closing_ways()
        return Whole([*self._closings, *item * self._low], [*ways, item] if productive(self._lexeme) else ways, self._low)

    def representative(self, value: _Progress, of: _Progress | None = None) -> Part | None:
        started, index, seen = value
        return self._ir.member(self, (True, index, True)) if started and isinstance(seen, Seen) else None

    def remaining(self, value: _Progress) -> int:
        return max(self._low - value[1], 0)
