"""Host names and mail addresses as expressions, with tables of the code points of internationalised labels.

A non-ASCII label is valid (RFC 5891, RFC 5893) if its code points are, it is in Normalisation Form C, its joiners stand in the
right context, its letters run in one direction, and its Punycode is short enough. The tables and patterns here cover a part for
which adjacent code points decide all of that:

- Code points are PVALID (RFC 5892), assigned since Unicode 3.2, at most U+D7FF, unchanged by NFC, and compose with nothing
  before them (``NFC_Quick_Check=Yes``). If at most one mark in a row has a combining class other than 0, any text of them is
  in NFC.
- Left-to-right labels hold no code point of the classes R, AL, AN. A right-to-left label holds letters of R and AL, marks,
  and hyphens inside; the labels beside it are ASCII and begin with a letter (RFC 5893, section 2).
- Contextual rules (RFC 5892, appendix A): U+00B7 between two l, U+0375 before a Greek letter, U+05F3 and U+05F4 right after a
  Hebrew one, U+30FB in a label with Hiragana, Katakana or Han, U+200C and U+200D right after a virama.
- Lengths: :data:`LABEL_SIZES`.
"""

from __future__ import annotations

from cdplugin.expr import ALL_BYTES, EMPTY, EPSILON, Expr, alt, both, byte_mask, byte_range, cat, optional, repeat
from cdplugin.frontends.json_schema.formats_uri import ipv4, ipv6, match
from cdplugin.memory import bounded_cache
from cdplugin.regex.alphabet import Alphabet
from cdplugin.regex.unicode import Ranges, intersection, ranges_of, union

LABEL_SIZES = ((11, 0xD7FF), (14, 0xFFF), (16, 0x2FF))
"""Labels may have ``(code points, highest code point)``; then the A-label has at most 62 octets.

RFC 3492: a label of n code points, k of them not ASCII, costs 4 octets (``xn--``), n - k basic characters and perhaps a hyphen,
and k numbers (deltas). Their sum is at most (highest - 128)·n + k·n. Whatever the bias, a number takes 2 digits from 1 on, 3
from 36, 4 from 1,261, 5 from 28,886, 6 from 288,886, 7 from 2,888,886 on. So at most sum / 36 of them have 3 digits, and so on.
"""
LABELS = 4
"""Labels of a name that is not all ASCII: four of 62 octets and three dots stay below 253."""
_ASCII: Ranges = ((0, 0x7F),)

_LETTERS = (
    "6v-n 1-7 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 3 1-1 1 1 1 3 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "
    "1 1 1 2 1 1 1 2 1 2 3-1 4 2 3-2 2 2 1 1 2 1-1 1 2 3 1 2-2 1-6 a 1 1 1 1 1 1 1-1 1 1 1 1 1 1 1 1 1-1 4 3 1 1 1 1 1 1 1 "
    "1 1 1 1 1 1 1 1 1 1 1 1 3 1 1 1 1 1 1 1 1 s-2t b-8 4-b q 1 51 r-12 8 1 1 1 1 1 1 1 1 1 1 1 1 3 1s-1f 1 1 1 1 1 1 1 1 1 "
    "1 1 1 1 1 1 1 1 9 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 1 1 1 1 1 1 2 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "
    "1 1 3 7 1 1 1 1 1 1 1 29 7-15 ru-1k 3 i f-1 4-9 l-7 2-1 2-l 1-6 1 3-3 16-1 4-b j-5 4-1 2-l 1-6 1 2 2-1 12 9-9 2-2 g-6 "
    "1 1-2 1-l 1-6 1-1 1-4 3 i f 5-9 l-7 2-1 2-l 1-6 1-1 2-3 3 11-2 4-9 j 1-5 3-2 1-3 3-1 1 1-1 3-1 3-2 3-7 1-2 1d-8 l-7 "
    "1-2 1-m 1-9 1-4 16-1 4-9 l-7 1-2 1-m 1-9 1-4 14 1-1 4-9 l-7 1-2 1-m 1-f 16-1 4-9 l-h 3-n 1-8 1 2-6 1q-1f 1 d-6 9-9 "
    "17-1 1 2-1 1 2 6-3 1-6 1-2 1 1 2-1 1-3 1 a 2-4 1 9-9 16 a k-9 m-2 1-3 1-3 1-3 1-3 1-3 1-b 1 t-3 3k-11 1-4 1-1 l-9 6-5 "
    "3q-18 87-6 1-1u 1 1-3 2-6 1 1-3 2-16 1 1-3 2-u 1 1-3 2-6 1 1-3 2-6 1-6 1-m 1-u 1 1-3 2-6 1-16 1-i 25-2k c-jb 2-7 a-p "
    "5-2a l-c 1-3 e-h e-h e-c 1-2 f-1j 13 4 3-9 16-9 6-2n 8-4 2-11 1ao 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 "
    "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1-4 7 1 1 1 1 1 1 1 1 1 "
    "1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 6-7 8-5 a-7 8-7 8-5 a-7 8-7 8 1 1 1 1 1 1 1j-1 4 "
    "f 9-2 3-1 8-2 1-3 e 40e-2 1k 4-2l 6-1 2-2p 1-2 6-17 3j-n 1o-f g0-6dl 2a-kd5 2q-14c 1rj-at3"
)
"""Left-to-right letters, digits and the like, which may begin a label."""
_SPACING = (
    "1t6-a ag-2 1q-e l-1 t-2 1r-5 2-1 2-1 l-1 u 1r-4 4-1 2-1 13-1 f-2 1q-7 1-2 1-1 1k-2 1r-4 3-1 2-1 1l 1s-3 3-2 1-2 1k-2 "
    "1q-6 1-2 1-2 1l-1 1q-3 1-1 1-2 1-2 1l-1 1r-4 2-2 1-2 1l-1 2c-4 1 1-6 j-1 1t 2-3 f 4-2 32 2-3 3-1 f-1 3g-1 1u-1 g-2 1-3 "
    "1-3 1-3 1-3 1-3 1-7 1 1 1-2 3f-1 1-3 3 1 t-3 1lo-1 u-1 u-1 u-1 22-r 1 5h-1"
)
"""Marks of combining class 0: vowel signs of Indic and South-East Asian scripts."""
_MARKS = (
    "o5 7-1 1 1 2-5 1-6 6-3 2 2-5 1-6 6-8 h-f 8j-3 8a-g 1-g 1-1 4 1 6 46-7 t 35-6 2-5 2-1 1-3 13 u-q g2 3-3 3o 3v 3e g 3v "
    "3v 3v 7 3n 3v 7a-2 d-3 3c-1 e-3 2c-1 r 1 1 1n 8-3 4-2 1-1 1u 3g 1 1mq 5t 6m 5s0-3"
)
"""Marks of other combining classes that do not compose."""
_VIRAMAS: Ranges = tuple(
    (c, c) for c in (0x94D, 0x9CD, 0xA4D, 0xACD, 0xB4D, 0xBCD, 0xC4D, 0xCCD, 0xD4D, 0xDCA, 0xE3A, 0xF84, 0x1039)
)
"""Combining class 9; after them the joiners may stand (RFC 5892, appendices A.1 and A.2)."""
_JOINERS: Ranges = ((0x200C, 0x200D),)
_GREEK: Ranges = ((0x3AC, 0x3CE),)
_HEBREW: Ranges = ((0x5D0, 0x5EA),)
_KANA_OR_HAN: Ranges = ((0x3041, 0x3094), (0x30A1, 0x30FA), (0x4E00, 0x9FA5))
_RIGHT_TO_LEFT = "1eg-q 5-2 1e-p 6-9 13-1 1-3 4-2q 1 f-1 j-4 h 1-q 2j-15 b"
"""Letters of the classes R and AL."""


table = bounded_cache(ranges_of)
NAME_SIZES = ((63, 63, 63, 19, 19, 19), (14,) * 16)
"""Longest labels of a name, first to last: 251 or 239 characters. Counting all characters beside those of labels (``&``) would
be exact (253), but it squares the states, so that a name beside another pattern takes too long to decide.
"""
DOMAIN_SIZES = ((63, 61, 19, 19, 19), (14,) * 12)
"""Longest labels after an ``@``: 185 or 179 characters, so that a path has at most 254 octets (RFC 5321, section 4.5.3.1.3)."""


@bounded_cache
def ascii_hostname(alphabet: Alphabet, sizes: tuple[tuple[int, ...], ...], without: str = "") -> Expr:
    """RFC 1123, section 2.1: labels of letters, digits and inner hyphens, with the lengths of one row of ``sizes``.

    ``without``: ``"xn--"`` excludes labels that begin so, ``"??--"`` those with hyphens as third and fourth character; but
    labels of :func:`a_label` are included where a label may have 63 octets (elsewhere they would take too long to decide).
    """
    dot = alphabet.literal(".")
    labels: dict[int, Expr] = {}
    for longest in {longest for row in sizes for longest in row}:
        label = match(_ascii_label(longest, without), alphabet)
        labels[longest] = alt(label, a_label(alphabet)) if without and longest == 63 else label
    names = []
    for row in sizes:
        name = EPSILON
        for longest in reversed(row):
            label = labels[longest]
            name = cat(label, optional(cat(dot, name))) if name is not EPSILON else label
        names.append(name)
    return alt(*names)


def _ascii_label(longest: int, without: str) -> str:
    end, inner = "[A-Za-z0-9]", r"[A-Za-z0-9\-]"

    def after(n: int) -> str:
        """What may follow n characters of a label, the last of which is not a hyphen."""
        return f"(?:{inner}{{0,{longest - 1 - n}}}{end})?"

    fourth = f"(?:{end}{after(3)}|-{end}{after(4)})"  # the third character and what follows
    if without == "xn--":
        by_second = f"[A-MO-Za-mo-z0-9]{after(2)}|-{inner}{{0,{longest - 3}}}{end}|[Nn]{fourth}?"
        return f"[A-WYZa-wyz0-9]{after(1)}|[Xx](?:{by_second})?"
    return f"{end}(?:{end}|{inner}{fourth})?" if without else end + after(1)


def hostname(alphabet: Alphabet, international: bool) -> Expr:
    """``hostname`` (RFC 1123) or ``idn-hostname`` (RFC 5890): with those A-labels whose Punycode can be checked."""
    if not international:
        return ascii_hostname(alphabet, NAME_SIZES, "xn--")
    dot = match("[.\u3002\uff0e\uff61]", alphabet)
    return alt(ascii_hostname(alphabet, NAME_SIZES, "??--"), international_name(alphabet, dot, LABELS))


def international_name(alphabet: Alphabet, dot: Expr, labels: int, composed: bool = True) -> Expr:
    """Names of up to ``labels`` labels, either in left-to-right scripts and ASCII, or in right-to-left scripts and ASCII.

    Without ``composed``, combining marks that NFC might compose are allowed.
    """
    letters, marks = table(_LETTERS), table(_MARKS)
    ascii_lower: Ranges = ((0x30, 0x39), (0x61, 0x7A))
    joined = cat(alphabet.chars(_VIRAMAS), alphabet.chars(_JOINERS))
    single = alphabet.chars(marks if composed else union(marks, ((0x300, 0x36F),)))
    mark, rtl_mark = optional(alt(single, joined)), optional(single)
    catalan = cat(alphabet.literal("l"), repeat(alphabet.literal("\u00b7l"), 1))
    greek = cat(alphabet.literal("\u0375"), alphabet.chars(intersection(letters, _GREEK)))
    hebrew = cat(alphabet.chars(_HEBREW), alphabet.chars(((0x5F3, 0x5F4),)))
    first = alt(alphabet.chars(union(ascii_lower, letters)), catalan, greek)
    following = alt(alphabet.chars(union(ascii_lower, letters, table(_SPACING))), catalan, greek)
    rtl, hyphen = alt(alphabet.chars(table(_RIGHT_TO_LEFT)), hebrew), alphabet.literal("-")
    ltr_label = cat(first, mark, repeat(cat(optional(hyphen), following, mark)))
    japanese = alphabet.chars(union(ascii_lower, intersection(letters, _KANA_OR_HAN), ((0x30FB, 0x30FB),)))
    any_japanese = repeat(alt(japanese, hyphen))
    ltr_label = alt(
        ltr_label,
        both(
            cat(japanese, repeat(cat(optional(hyphen), japanese))),
            cat(any_japanese, alphabet.chars(intersection(letters, _KANA_OR_HAN)), any_japanese),
        ),
    )
    rtl_label = cat(rtl, rtl_mark, repeat(cat(optional(hyphen), rtl, rtl_mark)))
    size = alt(*(repeat(alphabet.chars(((0, top),)), 1, longest) for longest, top in LABEL_SIZES))
    ascii_size = repeat(alphabet.chars(_ASCII), 1, 62)
    names = []
    for label, plain in ((ltr_label, "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"), (rtl_label, "[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")):
        either = alt(both(label, size), both(match(plain, alphabet), ascii_size))
        names.append(cat(either, repeat(cat(dot, either), 0, labels - 1)))
    return alt(*names)


def email(alphabet: Alphabet, international: bool) -> Expr:
    """RFC 5321, ``Mailbox``; ``international``: RFC 6531. At most 64 octets before the ``@``, 254 in all."""
    more = "\\u0080-\\u{10FFFF}" if international else ""
    atom = f"[A-Za-z0-9!#$%&'*+\\-/=?^_`{{|}}~{more}]+"
    quoted = f'"(?:[ !#-\\[\\]-~{more}]|\\\\[ -~])*"'
    octet = alt(byte_mask(ALL_BYTES & ~(1 << 0x5C)), cat(byte_range(0x5C, 0x5C), byte_mask(ALL_BYTES)))
    if alphabet.spell("\\") == b"\\":
        octet = byte_mask(ALL_BYTES)
    local = both(match(f"{atom}(?:\\.{atom})*|{quoted}", alphabet), repeat(octet, 1, 64))
    domain = ascii_hostname(alphabet, DOMAIN_SIZES)
    if international:
        # Three labels of 62 octets. The official suite has a domain that is not in Normalisation Form C.
        domain = alt(domain, international_name(alphabet, alphabet.literal("."), 3, composed=False))
    literal = cat(
        alphabet.literal("["), alt(ipv4(alphabet), cat(alphabet.literal("IPv6:"), ipv6(alphabet, 6))), alphabet.literal("]")
    )
    return cat(local, alphabet.literal("@"), alt(domain, literal))


_PUNYCODE = "abcdefghijklmnopqrstuvwxyz0123456789"
_BASE = 35
_LATIN = ((0xE0, 0xF6), (0xF8, 0xFF))
"""Letters that both IDNA2003 and IDNA2008 allow, and no normalisation form changes."""
_MOST_BASIC = 20


@bounded_cache
def _digits(alphabet: Alphabet, low: int, high: int) -> Expr:
    return alphabet.chars(tuple((ord(c), ord(c)) for c in sorted(_PUNYCODE[low : high + 1])))


@bounded_cache
def _insertions(alphabet: Alphabet, n: int) -> Expr:
    """The Punycode of one letter of ``_LATIN`` anywhere in a label whose other ``n >= 1`` characters are ASCII (RFC 3492).

    It is a number, (letter - 128)·(n + 1) + position, from 36 to 35³: three digits, the lowest first. With the bias of the
    first number (section 5) they have the weights 1, 35 and 35², and the first two are at least 1 (section 3.3): 36 is ``bba``.
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
    """A-labels (RFC 5890, section 2.3.2.1) of labels with one letter of ``_LATIN`` among 1 to ``_MOST_BASIC`` lower-case ASCII
    letters, digits and single inner hyphens.

    With more letters, each number depends on all before it, so an expression would have to list the labels.
    """
    character, hyphen = alphabet.chars(((0x30, 0x39), (0x61, 0x7A))), alphabet.literal("-")
    after: list[Expr] = [EMPTY, EMPTY]  # what follows n + 1 and n + 2 basic characters that do not end with a hyphen
    for n in range(_MOST_BASIC, 0, -1):
        following = alt(cat(character, after[0]), cat(hyphen, alt(cat(character, after[1]), _insertions(alphabet, n))))
        after = [following, after[0]]
    return cat(alphabet.literal("xn--"), character, after[0])
