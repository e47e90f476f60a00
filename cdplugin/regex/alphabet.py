r"""Alphabets: how text becomes bytes, as raw UTF-8 or as the inside of a JSON string.

An :class:`Alphabet` spells code points. ``UTF8`` has one spelling for each. ``JSON_STRING`` has every spelling that RFC 8259
section 7 allows between the quotes: raw (from U+0020 on, except ``"`` and ``\``), the short escapes, ``\uXXXX`` with hex digits
of either case, a surrogate pair above U+FFFF; never a lone surrogate. ``JSON_CANONICAL`` has one spelling: what
``json.dumps(ensure_ascii=False)`` writes.

>>> JSON_CANONICAL.chars(((10, 10),))
cat([\x5c], [n])
>>> JSON_STRING.literal('"').args
(b'\\"',)

Expressions are cached by their ranges, so equal classes are the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from cdplugin import expr
from cdplugin.expr import EMPTY, Expr, alt, cat, counted
from cdplugin.memory import fixed_cache
from cdplugin.regex.unicode import Ranges, intersection
from cdplugin.tally import apart

_ALL: Ranges = ((0, expr.MAX_CODE_POINT),)
_BACKSLASH = expr.byte_class(b"\\")
_U = expr.byte_class(b"u")
_SHORT = {0x22: b'"', 0x5C: b"\\", 0x2F: b"/", 8: b"b", 12: b"f", 10: b"n", 13: b"r", 9: b"t"}
_RAW: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, expr.MAX_CODE_POINT))
_ESCAPES = {c: "\\" + short.decode() for c, short in _SHORT.items() if c != 0x2F}
_CANONICAL = str.maketrans({c: _ESCAPES.get(c, f"\\u{c:04x}") for c in [*range(0x20), 0x22, 0x5C]})


class Alphabet:
    """A spelling of code points as bytes. Instances are shared constants; compare them by identity.

    ``chars(ranges)``: one code point in ``ranges`` (inclusive pairs; surrogates are cut out), in every spelling.
    ``spell(text)``: the bytes of ``text`` in its canonical spelling. ``one_spelling``: whether each code point has just one.
    """

    def __init__(self, name: str, chars: Callable[[Ranges], Expr], spell: Callable[[str], bytes], one_spelling: bool) -> None:
        self.name = name
        self.chars = chars
        self.spell = spell
        self.one_spelling = one_spelling
        self.any_char: Expr = self.chars(_ALL)
        self.any_text: Expr = expr.repeat(self.any_char)

    def __repr__(self) -> str:
        return f"Alphabet({self.name})"

    def literal(self, text: str) -> Expr:
        """``text`` in its canonical spelling only. Raises ``UnicodeEncodeError`` for a lone surrogate."""
        return expr.literal(self.spell(text))

    def literal_any(self, text: str) -> Expr:
        """``text`` in every spelling of this alphabet."""
        if self.one_spelling:
            return expr.literal(self.spell(text))
        text.encode()  # a lone surrogate has no spelling
        return cat(*[self._char(c) for c in text])

    @fixed_cache(4096, entry_bytes=1800)
    def _char(self, char: str) -> Expr:
        """One character in every spelling."""
        with apart():
            return self.chars(((ord(char), ord(char)),))


def _json_bytes(text: str) -> bytes:
    return text.translate(_CANONICAL).encode()


@counted
def _utf8_chars(ranges: Ranges) -> Expr:
    normal = expr.normalise_ranges(ranges)
    return expr.utf8_ranges(ranges) if normal == ranges else _utf8_chars(normal)


@counted
def _json_chars(ranges: Ranges) -> Expr:
    """Every spelling inside a JSON string (RFC 8259 section 7)."""
    ranges, given = expr.normalise_ranges(ranges), ranges
    if ranges != given:
        return _json_chars(ranges)
    if not ranges:
        return EMPTY
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1] <= 0xFFFF:
        return expr.literals(_spellings(ranges[0][0]))
    short = expr.byte_class(b"".join(s for c, s in _SHORT.items() if _holds(ranges, c)))
    escaped = alt(short, cat(_U, _utf16(ranges)))
    return alt(expr.utf8_ranges(intersection(ranges, _RAW)), cat(_BACKSLASH, escaped))


def _spellings(code_point: int) -> list[bytes]:
    """Every spelling of one code point below U+10000: raw, short escape, four hexadecimal digits of either case."""
    cases = ({digit.lower(), digit.upper()} for digit in f"{code_point:04x}")
    out = [("\\u" + "".join(digits)).encode() for digits in product(*cases)]
    if code_point in _SHORT:
        out.append(b"\\" + _SHORT[code_point])
    return [*out, chr(code_point).encode()] if _holds(_RAW, code_point) else out


@counted
def _canonical_chars(ranges: Ranges) -> Expr:
    """The one spelling that ``json.dumps(ensure_ascii=False)`` writes."""
    ranges, given = expr.normalise_ranges(ranges), ranges
    if ranges != given:
        return _canonical_chars(ranges)
    short = expr.byte_class(b"".join(s for c, s in _SHORT.items() if c != 0x2F and _holds(ranges, c)))
    long = [c for c in range(0x20) if c not in _SHORT and _holds(ranges, c)]
    by_high = [[c & 15 for c in long if c >> 4 == high] for high in (0, 1)]
    hexes = [
        cat(expr.literal(b"00%d" % high), expr.byte_class(b"".join(b"%x" % low for low in lows)))
        for high, lows in enumerate(by_high)
        if lows
    ]
    return alt(expr.utf8_ranges(intersection(ranges, _RAW)), cat(_BACKSLASH, alt(short, cat(_U, alt(*hexes)))))


def _holds(ranges: Ranges, code_point: int) -> bool:
    return any(low <= code_point <= high for low, high in ranges)


def _utf16(ranges: Ranges) -> Expr:
    r"""What follows ``\u`` for the code points of ``ranges``: four digits, or ``D83D\uDE00`` and the like."""
    plain = intersection(ranges, ((0, 0xFFFF),))
    highs_of: dict[Ranges, list[tuple[int, int]]] = {}  # set of low surrogates -> the high surrogates before them
    lows_at: dict[int, list[tuple[int, int]]] = {}  # high surrogates that only some low ones may follow
    for low, high in intersection(ranges, ((0x10000, expr.MAX_CODE_POINT),)):
        low, high = low - 0x10000, high - 0x10000
        first, last = low >> 10, high >> 10
        if first == last:
            lows_at.setdefault(first, []).append((low & 0x3FF, high & 0x3FF))
            continue
        if low & 0x3FF:
            lows_at.setdefault(first, []).append((low & 0x3FF, 0x3FF))
            first += 1
        if high & 0x3FF != 0x3FF:
            lows_at.setdefault(last, []).append((0, high & 0x3FF))
            last -= 1
        if first <= last:
            highs_of.setdefault(((0, 0x3FF),), []).append((first, last))
    for unit, lows in lows_at.items():
        highs_of.setdefault(tuple(lows), []).append((unit, unit))
    known: dict[tuple[int, Ranges], Expr] = {}
    pairs = [
        cat(_hex(4, _shift(sorted(highs), 0xD800), known), _BACKSLASH, _U, _hex(4, _shift(lows, 0xDC00), known))
        for lows, highs in highs_of.items()
    ]
    return alt(_hex(4, plain, known), *pairs)


def _shift(ranges: Ranges | list[tuple[int, int]], base: int) -> Ranges:
    """Add ``base`` to merged ranges."""
    out: list[tuple[int, int]] = []
    for low, high in ranges:
        if out and out[-1][1] + 1 == low + base:
            out[-1] = (out[-1][0], high + base)
        else:
            out.append((low + base, high + base))
    return tuple(out)


def _hex(digits: int, ranges: Ranges, known: dict[tuple[int, Ranges], Expr]) -> Expr:
    """A number in ``ranges`` with ``digits`` hexadecimal digits of either case: the minimal deterministic automaton as a DAG.

    Leading digits with the same set of remainders share one branch; equal remainders are one object (``known``).
    """
    if not ranges:
        return EMPTY
    if digits == 0:
        return expr.EPSILON
    found = known.get((digits, ranges))
    if found is not None:
        return found
    size = 1 << (4 * (digits - 1))
    branches: dict[Ranges, int] = {}
    for digit in range(16):
        base = digit * size
        top = base + size - 1
        rest = tuple((max(low, base) - base, min(high, top) - base) for low, high in ranges if low <= top and high >= base)
        if rest:
            branches[rest] = branches.get(rest, 0) | (1 << ord(f"{digit:x}")) | (1 << ord(f"{digit:X}"))
    found = known[digits, ranges] = alt(
        *(cat(expr.byte_mask(mask), _hex(digits - 1, rest, known)) for rest, mask in branches.items())
    )
    return found


UTF8 = Alphabet("UTF8", _utf8_chars, str.encode, True)
"""Raw text."""
JSON_STRING = Alphabet("JSON_STRING", _json_chars, _json_bytes, False)
"""The inside of a JSON string, in every legal spelling."""
JSON_CANONICAL = Alphabet("JSON_CANONICAL", _canonical_chars, _json_bytes, True)
"""The inside of a JSON string, in the canonical spelling only."""
