r"""Formats and content encodings as expressions over the text of a string (Validation, sections 7 and 8).

>>> from cdplugin.regex.alphabet import UTF8
>>> format_expr("duration", UTF8) is format_expr("duration", UTF8), format_expr("colour", UTF8)
(True, None)

**Sound, not always complete.** All that an expression matches is valid: by the RFC, by the official suite's optional tests of
formats, and by ``jsonschema``'s format checkers. Some valid text is left out, so an expression must not be complemented
(``not``), nor serve as proof that two schemas exclude each other. Left out are:

- of every format, escaped spellings: a character is spelled as ``json.dumps(ensure_ascii=False)`` does, never as ``\u0061`` or
  ``\/``; runs of more than 100 digits;
- *date, date-time*: the year 0000 (*). *date-time, time*: leap seconds (*);
- *hostname*: labels that begin with ``xn--`` (the official suite asks for valid Punycode), except, among the first three
  labels, those with one non-ASCII letter from à to ÿ (:mod:`formats_data`); a fourth label of more than 19 characters, or a
  seventh label, unless all have at most 14 and there are at most 16; RFC 1123 allows 253 characters in all;
- *email, idn-email*: after the ``@`` similar restrictions (:data:`formats_data.DOMAIN_SIZES`), but ``xn--`` may stand there;
  general address literals; of non-ASCII domain names what idn-hostname leaves out (normalisation apart);
- *idn-hostname*: what hostname leaves out; non-ASCII labels that are long (the A-label might exceed 63 octets), hold code
  points newer than Unicode 3.2 or above U+D7FF, or two marks in a row; of RFC 5892's CONTEXTJ and CONTEXTO what
  ``formats_data`` does not name; non-ASCII names with more than four labels, or with right-to-left labels beside other
  non-ASCII labels;
- *uri, uri-reference, iri, iri-reference*: an upper-case ``V`` in ``[V1.x]`` (*); *iri, iri-reference*: code points beyond
  U+FFFF, and hosts in brackets (*);
- *uri-template*: operators reserved for the future, except the comma (``{=x}``), ``{%41}`` and ``{x:1000}`` (*);
- *relative-json-pointer*: prefixes with a digit after a zero, such as 100 (*); index manipulation (``0+1``), newer than the
  suite;
- *regex*: groups nested more than three deep; named groups, back-references, ``\p``, ``\0``, ``\u{…}``; look-behind, ``\c`` and
  empty classes (*); ranges that do not begin with a digit, ``a``, ``A``, a space or ``!``, or that end beyond ASCII; ``^`` and
  ``[`` in classes unless escaped; counts above 999, above 99 in ``{n,m}``; what ECMA-262 allows only without the ``u`` flag;
- *base64, base32* and their like: non-zero unused bits (RFC 4648, section 3.5: an encoder must not write them).

(*) ``portable=False`` matches it: the RFC and the suite have it, but ``jsonschema`` (or Python's ``re``) refuses it.
"""

from __future__ import annotations

from collections.abc import Callable

from cdplugin.expr import Expr, alt, both, cat, optional, repeat
from cdplugin.frontends.json_schema import formats_data, formats_uri
from cdplugin.frontends.json_schema.formats_uri import match
from cdplugin.memory import bounded_cache
from cdplugin.regex.alphabet import JSON_CANONICAL, JSON_STRING, Alphabet

DIGITS = 100
"""Longest run of digits where the RFC has no bound, so that a model that always wants one more digit comes to an end."""
GROUP_DEPTH = 3
"""Nesting depth of groups in a text of format ``regex``; without a bound the language is not regular."""
_DAYS = r"(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])"
_LEAP = r"(?:0[48]|[2468][048]|[13579][26])"  # two digits, a multiple of four, not 00
_HEX = "[0-9A-Fa-f]"

SINCE: dict[str, int] = (
    dict.fromkeys(("date-time", "email", "hostname", "ipv4", "ipv6", "uri"), 4)
    | dict.fromkeys(("uri-reference", "uri-template", "json-pointer"), 6)
    | dict.fromkeys(("date", "time", "regex", "idn-email", "idn-hostname", "iri", "iri-reference", "relative-json-pointer"), 7)
    | dict.fromkeys(("duration", "uuid"), 2019)
)
"""Format → the first draft (from 4 on) that defines it; 2019: draft 2019-09. In older drafts it is unknown,
so an annotation.
"""


def format_expr(name: str, alphabet: Alphabet, *, portable: bool = True) -> Expr | None:
    """The strings of format ``name``, spelled in ``alphabet``; None for an unknown format, which is an annotation.

    ``portable=False`` adds what the RFC and the official suite allow but ``jsonschema``'s checkers refuse (see above). Returns
    the same object at each call; ``JSON_STRING`` gives the expression of ``JSON_CANONICAL``. The first call takes 1 to 5 ms for
    most formats, and 35 ms for host names (:mod:`cdplugin.specs.popular`).
    """
    return _format(name, _plain(alphabet), portable) if name in SINCE else None


def content_encoding_expr(name: str, alphabet: Alphabet) -> Expr | None:
    """The texts of ``contentEncoding: name`` (RFC 4648, without line breaks; RFC 2045: names are case-insensitive).

    ``base64``, ``base64url`` (padded or not), ``base32``, ``base32hex``, ``base16`` (digits in either case); else None.
    """
    return _content_encoding(name.lower(), _plain(alphabet))


def _plain(alphabet: Alphabet) -> Alphabet:
    return JSON_CANONICAL if alphabet is JSON_STRING else alphabet


@bounded_cache
def _format(name: str, alphabet: Alphabet, portable: bool) -> Expr:
    build = _BUILDERS.get(name)
    if build is not None:
        return build(alphabet, portable)
    return formats_uri.reference(alphabet, name.startswith("iri"), name.endswith("-reference"), portable, DIGITS)


# --- dates, times, durations, identifiers -----------------------------------------------------------------------------------


def _date(alphabet: Alphabet, portable: bool) -> Expr:
    """RFC 3339 ``full-date``: the Gregorian calendar, with the leap years of all centuries."""
    year = r"(?:\d{3}[1-9]|\d\d[1-9]0|\d[1-9]00|[1-9]000)" if portable else r"\d{4}"
    leap = rf"(?:\d\d{_LEAP}|{_LEAP if portable else f'(?:00|{_LEAP})'}00)"
    return match(rf"{year}-(?:{_DAYS})|{leap}-02-29", alphabet)


def _time(alphabet: Alphabet, portable: bool) -> Expr:
    """RFC 3339 ``full-time``."""
    fraction = match(rf"(?:\.\d{{1,{DIGITS}}})?", alphabet)
    offset = match(r"[zZ]|[+\-](?:[01]\d|2[0-3]):[0-5]\d", alphabet)
    time = cat(match(r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d", alphabet), fraction, offset)
    return time if portable else alt(time, _leap_second(alphabet, fraction))


def _leap_second(alphabet: Alphabet, fraction: Expr) -> Expr:
    """23:59:60 UTC, written with any offset. In ``HH:MM:60±hh:mm`` the hours must fit each other, and the minutes too.

    West of Greenwich ``hh = 23 - HH`` and ``mm = 59 - MM``; east of it the offset is one minute more than the local time.
    """
    hour, minute = match(r"\d\d", alphabet), match(r"[0-5]\d", alphabet)

    def two(number: int) -> Expr:
        return alphabet.literal(f"{number:02}")

    def written(local_hour: Expr, local_minute: Expr, sign: str, hours: Expr, minutes: Expr) -> Expr:
        colon = alphabet.literal(":")
        second = alphabet.literal(":60")
        return cat(local_hour, colon, local_minute, second, fraction, alphabet.literal(sign), hours, colon, minutes)

    west = both(
        alt(*(written(two(h), minute, "-", two(23 - h), minute) for h in range(24))),
        alt(*(written(hour, two(m), "-", hour, two(59 - m)) for m in range(60))),
    )
    east = both(
        alt(*(written(two(h), minute, "+", two(h), minute) for h in range(24))),
        alt(*(written(hour, two(m), "+", hour, two(m + 1)) for m in range(59))),
    )
    east_carry = [written(two(h), two(59), "+", two((h + 1) % 24), two(0)) for h in range(24)]
    return alt(cat(alphabet.literal("23:59:60"), fraction, match("[zZ]", alphabet)), west, east, *east_carry)


def _date_time(alphabet: Alphabet, portable: bool) -> Expr:
    """RFC 3339 ``date-time``."""
    return cat(_format("date", alphabet, portable), match("[tT]", alphabet), _format("time", alphabet, portable))


# --- pointers, templates, patterns ------------------------------------------------------------------------------------------


def _relative_json_pointer(alphabet: Alphabet, portable: bool) -> Expr:
    """draft-handrews-relative-json-pointer-01."""
    prefix = rf"0|[1-9]{{1,{DIGITS - 1}}}0?" if portable else rf"0|[1-9]\d{{0,{DIGITS - 1}}}"
    return cat(match(prefix, alphabet), alt(alphabet.literal("#"), _format("json-pointer", alphabet, portable)))


def _uri_template(alphabet: Alphabet, portable: bool) -> Expr:
    """RFC 6570, with erratum 6937 (an apostrophe is a literal)."""
    plain = ((0x21, 0x21), (0x23, 0x24), (0x26, 0x3B), (0x3D, 0x3D), (0x3F, 0x5B), (0x5D, 0x5D), (0x5F, 0x5F), (0x61, 0x7A))
    literals = alphabet.chars((*plain, (0x7E, 0x7E), *formats_uri.UCSCHAR, *formats_uri.IPRIVATE))
    triplet = f"%{_HEX}{{2}}"
    first = r"\w" if portable else rf"(?:\w|{triplet})"
    length = r"[1-9]\d{0,2}" if portable else r"[1-9]\d{0,3}"
    variable = rf"{first}(?:\.?(?:\w|{triplet}))*(?::{length}|\*)?"
    operator = r"[+#.\/;?&,]?" if portable else r"[+#.\/;?&=,!@|]?"
    expression = match(rf"\{{{operator}{variable}(?:,{variable})*\}}", alphabet)
    return repeat(alt(literals, match(triplet, alphabet), expression))


def _regex(alphabet: Alphabet, portable: bool) -> Expr:
    """Patterns of ECMA-262 with the ``u`` flag that are patterns of Python, too; a subset."""

    def of(pattern: str) -> Expr:
        return match(pattern, alphabet)

    control = "" if portable else "|c[A-Za-z]"
    hexes = r"x[0-9A-Fa-f]{2}|u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]{3}|[dD][0-7][0-9A-Fa-f]{2})"
    escaped = rf"[dDwWsSfnrtv\^$\\.*+?()\[\]{{}}|\/]|{hexes}{control}"
    ends = [c for c in range(0x20, 0x7F) if chr(c) not in '"\\[]^-']
    starts = [c for c in ends if chr(c) in " !0123456789Aa"]  # each costs a state
    dash, close = alphabet.literal("-"), alphabet.literal(")")
    between = (cat(alphabet.chars(((c, c),)), dash, alphabet.chars(tuple((d, d) for d in ends if d >= c))) for c in starts)
    item = alt(of(rf"[^\\\[\]\^\-]|\\(?:{escaped}|b|-)"), *between)
    members = cat(optional(dash), repeat(item, 1), optional(dash))
    klass = cat(of(r"\[\^?"), members if portable else optional(members), alphabet.literal("]"))
    atom = alt(of(rf"[^\^$\\.*+?()\[\]{{}}|]|\.|\\(?:{escaped})"), klass)
    quantifier = optional(of(rf"(?:[*+?]|\{{(?:(?:0|[1-9]\d?\d?),?|{_ascending()})\}})\??"))
    other = of(r"[\^$|]|\\[bB]")
    open_group, open_look = of(r"\((?:\?:)?"), of(r"\(\?[=!]" if portable else r"\(\?<?[=!]")
    body = repeat(alt(cat(atom, quantifier), other))
    for _ in range(GROUP_DEPTH):
        rest = cat(body, close)
        body = repeat(alt(cat(alt(atom, cat(open_group, rest)), quantifier), other, cat(open_look, rest)))
    return body


def _ascending() -> str:
    """A pattern for ``n,m`` with n ≤ m ≤ 99."""
    parts = [rf"{n},[{n}-9]" for n in range(10)] + [r"\d,[1-9]\d"]
    for tens in range(1, 10):
        more = f"|[{tens + 1}-9]\\d" if tens < 9 else ""
        parts.append(f"{tens}(?:" + "|".join(f"{ones},(?:{tens}[{ones}-9]{more})" for ones in range(10)) + ")")
    return "|".join(parts)


_COUNT = rf"\d{{1,{DIGITS}}}"
_FROM_HOURS = f"T{_COUNT}(?:H(?:{_COUNT}M(?:{_COUNT}S)?)?|M(?:{_COUNT}S)?|S)"
_FROM_DAYS = f"(?:Y(?:{_COUNT}M(?:{_COUNT}D)?)?|M(?:{_COUNT}D)?|D)"
_BUILDERS: dict[str, Callable[[Alphabet, bool], Expr]] = {
    "date": _date,
    "time": _time,
    "date-time": _date_time,
    # RFC 3339, appendix A: no fractions, no signs, no gaps between units, weeks alone
    "duration": lambda alphabet, _: match(f"P(?:{_COUNT}(?:W|{_FROM_DAYS}(?:{_FROM_HOURS})?)|{_FROM_HOURS})", alphabet),
    "ipv4": lambda alphabet, _: formats_uri.ipv4(alphabet),
    "ipv6": lambda alphabet, _: formats_uri.ipv6(alphabet, 7),
    # RFC 4122: any version and variant, digits in either case
    "uuid": lambda alphabet, _: match(f"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}", alphabet),
    "json-pointer": lambda alphabet, _: match("(?:/(?:[^/~]|~[01])*)*", alphabet),  # RFC 6901
    "relative-json-pointer": _relative_json_pointer,
    "uri-template": _uri_template,
    "regex": _regex,
    "hostname": lambda alphabet, _: formats_data.hostname(alphabet, international=False),
    "idn-hostname": lambda alphabet, _: formats_data.hostname(alphabet, international=True),
    "email": lambda alphabet, _: formats_data.email(alphabet, international=False),
    "idn-email": lambda alphabet, _: formats_data.email(alphabet, international=True),
}
"""The builders of all formats except URI and IRI references, which share one builder."""


# --- content encodings ------------------------------------------------------------------------------------------------------


@bounded_cache
def _content_encoding(name: str, alphabet: Alphabet) -> Expr | None:
    """Whole blocks, then a shorter one with zeros in the unused bits of its last digit, and padding."""
    if name in ("base64", "base64url"):
        digit = r"[A-Za-z0-9+\/]" if name == "base64" else r"[A-Za-z0-9_\-]"
        one, two = ("==", "=") if name == "base64" else ("(?:==)?", "=?")
        return match(f"(?:{digit}{{4}})*(?:{digit}(?:[AQgw]{one}|{digit}[AEIMQUYcgkosw048]{two}))?", alphabet)
    if name in ("base32", "base32hex"):
        # One to four bytes take 2, 4, 5, 7 digits and leave 2, 4, 1, 3 bits of the last digit unused.
        if name == "base32":
            digit, last = "[A-Z2-7]", ("[AEIMQUY4]", "[AQ]", "[ACEGIKMOQSUWY246]", "[AIQY]")
        else:
            digit, last = "[0-9A-V]", ("[048CGKOS]", "[0G]", "[02468ACEGIKMOQSU]", "[08GO]")
        tails = "|".join(f"{digit}{{{n}}}{end}={{{7 - n}}}" for n, end in zip((1, 3, 4, 6), last, strict=True))
        return match(f"(?:{digit}{{8}})*(?:{tails})?", alphabet)
    if name == "base16":
        return match(f"(?:{_HEX}{{2}})*", alphabet)
    return None
