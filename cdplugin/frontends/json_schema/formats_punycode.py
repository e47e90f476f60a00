"""A-labels of host names: those of which a regular expression can tell that they are valid."""

from __future__ import annotations

from cdplugin.expr import EMPTY, Expr, alt, cat
from cdplugin.memory import bounded_cache
from cdplugin.regex.alphabet import Alphabet

_PUNYCODE = "abcdefghijklmnopqrstuvwxyz0123456789"
_BASE = 35
_LATIN = ((0xE0, 0xF6), (0xF8, 0xFF))
"""Letters that IDNA2003 and IDNA2008 both have, and no form of normalisation changes."""
_MOST_BASIC = 20


@bounded_cache
def _digits(alphabet: Alphabet, low: int, high: int) -> Expr:
    return alphabet.chars(tuple((ord(c), ord(c)) for c in sorted(_PUNYCODE[low : high + 1])))


@bounded_cache
def _insertions(alphabet: Alphabet, n: int) -> Expr:
    """What RFC 3492 writes for one letter out of ``_LATIN`` anywhere in a label whose other ``n >= 1`` characters are ASCII.

    It is a number, (letter - 128)·(n + 1) + place, from 36 to 35³: three digits, of which the first is the lowest. With the
    bias of the first number (section 5) they count 1, 35 and 35², and the first two are at least 1 (section 3.3): 36 is
    ``bba``.
    """

    def upper(low: int, high: int) -> list[Expr]:
        """The second and the third digit."""
        out = []
        for third in range(low // _BASE, high // _BASE + 1):
            begin, end = max(low - _BASE * third, 0), min(high - _BASE * third, _BASE - 1)
            out.append(cat(_digits(alphabet, begin + 1, end + 1), _digits(alphabet, third, third)))
        return out

    parts: list[Expr] = []
    for first, last in _LATIN:
        low, high = (first - 128) * (n + 1) - 1 - _BASE, (last - 127) * (n + 1) - 2 - _BASE
        (above, begin), (below, end) = divmod(low, _BASE), divmod(high, _BASE)
        if above == below:
            parts.append(cat(_digits(alphabet, begin + 1, end + 1), *upper(above, above)))
            continue
        parts.append(cat(_digits(alphabet, begin + 1, _BASE), *upper(above, above)))
        parts.append(cat(_digits(alphabet, 1, end + 1), *upper(below, below)))
        if above + 1 < below:
            parts.append(cat(_digits(alphabet, 1, _BASE), alt(*upper(above + 1, below - 1))))
    return alt(*parts)


@bounded_cache
def a_label(alphabet: Alphabet) -> Expr:
    """A-labels (RFC 5890, section 2.3.2.1) of labels with one letter out of ``_LATIN`` among 1 to ``_MOST_BASIC`` lower-case
    ASCII letters, digits and single inner hyphens.

    Of more letters each number depends on all before it, so a regular expression would have to list the labels.
    """
    character, hyphen = alphabet.chars(((0x30, 0x39), (0x61, 0x7A))), alphabet.literal("-")
    after: list[Expr] = [EMPTY, EMPTY]  # what follows n + 1 and n + 2 basic characters, of which the last is no hyphen
    for n in range(_MOST_BASIC, 0, -1):
        following = alt(cat(character, after[0]), cat(hyphen, alt(cat(character, after[1]), _insertions(alphabet, n))))
        after = [following, after[0]]
    return cat(alphabet.literal("xn--"), character, after[0])
