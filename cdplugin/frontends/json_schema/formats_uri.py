"""Addresses and references as expressions: IPv4, IPv6 (RFC 4291), URI (RFC 3986), IRI (RFC 3987)."""

from __future__ import annotations

from cdplugin.expr import EPSILON, Expr, alt, cat, optional, repeat
from cdplugin.memory import bounded_cache
from cdplugin.regex import pattern as regex
from cdplugin.regex.alphabet import Alphabet
from cdplugin.regex.unicode import Ranges

UCSCHAR: Ranges = (
    (0xA0, 0xD7FF),
    (0xF900, 0xFDCF),
    (0xFDF0, 0xFFEF),
    *((plane << 16, plane << 16 | 0xFFFD) for plane in range(1, 14)),
    (0xE1000, 0xEFFFD),
)
"""RFC 3987, ``ucschar``: what an IRI may hold beyond ASCII."""
IPRIVATE: Ranges = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""RFC 3987, ``iprivate``: in the query of an IRI only."""
_UNRESERVED: Ranges = ((0x2D, 0x2E), (0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A), (0x7E, 0x7E))
_SUB_DELIMS: Ranges = ((0x21, 0x21), (0x24, 0x24), (0x26, 0x2C), (0x3B, 0x3B), (0x3D, 0x3D))
_COLON, _AT, _SLASH, _QUESTION = (((ord(c), ord(c)),) for c in ":@/?")


def match(pattern: str, alphabet: Alphabet) -> Expr:
    """The texts that a pattern of ECMA-262 matches from end to end."""
    return regex.parse(pattern, "ecma", "u").match_expr(alphabet)


@bounded_cache
def ipv4(alphabet: Alphabet) -> Expr:
    """Four decimal octets without leading zeros (RFC 2673, section 3.2; RFC 3986, ``IPv4address``)."""
    octet = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
    return match(rf"(?:{octet}\.){{3}}{octet}", alphabet)


@bounded_cache
def ipv6(alphabet: Alphabet, beside: int) -> Expr:
    """RFC 4291, section 2.2, without a zone. ``beside``: how many groups may stand beside a ``::`` (an IPv4 tail is two)."""
    group, dotted = match("[0-9A-Fa-f]{1,4}", alphabet), ipv4(alphabet)
    colon = alphabet.literal(":")
    upto: list[Expr] = [EPSILON]  # upto[n]: one to n groups (nothing for n = 0)
    for n in range(1, beside + 1):
        more = cat(group, optional(cat(colon, upto[n - 1]))) if n > 1 else group
        upto.append(alt(more, dotted) if n >= 2 else more)
    # After `done` groups: "::" and what may follow it, or ":" and one more group.
    rest = group
    for done in range(7, 0, -1):
        following = (
            cat(colon, rest) if done == 7 else cat(colon, alt(cat(group, rest), dotted) if done == 6 else cat(group, rest))
        )
        if done <= beside:
            following = alt(cat(colon, colon, optional(upto[beside - done]) if done < beside else EPSILON), following)
        rest = following
    return alt(cat(group, rest), cat(colon, colon, optional(upto[beside])))


def reference(alphabet: Alphabet, international: bool, relative: bool, portable: bool, digits: int) -> Expr:
    """``URI``, ``IRI`` or, with ``relative``, a reference (which may be empty). ``digits``: at most this many in a port.

    ``portable`` keeps IRIs to the Basic Multilingual Plane and to hosts without brackets: ``rfc3987_syntax``, one of the
    two checkers that ``jsonschema`` uses, refuses the rest.
    """
    extra, private = (UCSCHAR, IPRIVATE) if international else ((), ())
    if portable:
        extra, private = (tuple(pair for pair in pairs if pair[1] <= 0xFFFF) for pairs in (extra, private))
    triplet = match("%[0-9A-Fa-f]{2}", alphabet)

    def chars(*sets: Ranges) -> Expr:
        return alt(alphabet.chars(_UNRESERVED + _SUB_DELIMS + extra + tuple(pair for pairs in sets for pair in pairs)), triplet)

    segment, in_path = chars(_COLON, _AT), chars(_COLON, _AT, _SLASH)
    future = match(rf"{'v' if portable else '[vV]'}[0-9A-Fa-f]+\.[A-Za-z0-9._~!$&'()*+,;=:\-]+", alphabet)
    bracketed = cat(alphabet.literal("["), alt(ipv6(alphabet, 7), future), alphabet.literal("]"))
    host = repeat(chars()) if portable and international else alt(bracketed, repeat(chars()))
    port = optional(match(rf":[0-9]{{0,{digits}}}", alphabet))
    authority = cat(alphabet.literal("//"), optional(cat(repeat(chars(_COLON)), alphabet.literal("@"))), host, port)
    slash = alphabet.literal("/")
    rooted = cat(slash, optional(cat(segment, repeat(in_path))))
    after_authority = optional(cat(slash, repeat(in_path)))
    in_query = chars(_COLON, _AT, _SLASH, _QUESTION, private)
    query = optional(cat(alphabet.literal("?"), repeat(in_query)))
    fragment = optional(cat(alphabet.literal("#"), repeat(chars(_COLON, _AT, _SLASH, _QUESTION))))
    scheme = match(r"[A-Za-z][A-Za-z0-9+.\-]*:", alphabet)
    from_root = alt(cat(authority, after_authority), rooted)
    absolute = cat(scheme, optional(alt(from_root, cat(segment, repeat(in_path)))))
    if not relative:
        return cat(absolute, query, fragment)
    no_colon = cat(repeat(chars(_AT), 1), after_authority)
    return cat(optional(alt(absolute, from_root, no_colon)), query, fragment)
