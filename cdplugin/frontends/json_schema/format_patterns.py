"""Formats (Validation, section 7.3) as patterns: a format that has one is enforced exactly like ``pattern``.

So a format is intersected with patterns and lengths, filters enumerations, and costs nothing of its own. A format without a
pattern here is refused by name.

``date-time``, ``time`` and ``date`` follow RFC 3339 with the calendar (days of the month, leap years). Leap seconds and the
year 0000 are left out: readers disagree about them, ``jsonschema``'s own checker refuses both.
"""

from __future__ import annotations

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})"
_BY_FOUR = r"(?:0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = rf"(?:[0-9]{{2}}{_BY_FOUR}|{_BY_FOUR}00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOUR_MINUTE = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_SECONDS = rf"{_HOUR_MINUTE}:[0-5][0-9](?:\.[0-9]+)?"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"

PATTERNS: dict[str, str] = {
    "date": f"^{_DATE}$",
    "time": rf"^{_SECONDS}(?:[Zz]|[+-]{_HOUR_MINUTE})$",
    "date-time": rf"^{_DATE}[Tt]{_SECONDS}(?:[Zz]|[+-]{_HOUR_MINUTE})$",
    "uuid": "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$",
    "ipv4": rf"^{_OCTET}(?:\.{_OCTET}){{3}}$",
}
"""Enforced formats, as ECMA-262 patterns."""

KNOWN_FORMATS = frozenset(
    "date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri iri-reference "
    "uri-template uuid json-pointer relative-json-pointer regex".split()
)
"""Formats of Draft 2020-12; any other is an annotation."""
