"""Sets of code points by name: general categories, scripts, binary properties, POSIX classes; simple case folding.

A set is a tuple of inclusive ``(low, high)`` pairs, sorted, disjoint, without surrogates (what
:func:`cdplugin.expr.normalise_ranges` returns). The tables (Unicode 17, ``unicode_data.json``) ship with the package instead of
coming from ``unicodedata``, so a schema means the same under every Python version, and ``\\p{L}`` costs 1 ms instead of a scan
of all code points. Names match loosely, as in UAX44-LM3: case, ``_``, ``-`` and spaces do not matter.

>>> property_ranges("Lu")[:2]
((65, 90), (192, 214))
>>> property_ranges("Script=Greek") == property_ranges("sc=Grek") == property_ranges("greek")
True
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from importlib import resources
from typing import Any

from cdplugin.expr import MAX_CODE_POINT, negate_ranges, normalise_ranges
from cdplugin.memory import bounded_cache

Ranges = tuple[tuple[int, int], ...]

EVERYTHING: Ranges = normalise_ranges([(0, MAX_CODE_POINT)])
ASCII_DIGIT: Ranges = ((48, 57),)
ASCII_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
ASCII_SPACE: Ranges = ((9, 13), (32, 32))
ECMA_SPACE: Ranges = normalise_ranges(
    [(9, 13), (0x2000, 0x200A), (0x2028, 0x2029)] + [(c, c) for c in (0x20, 0xA0, 0x1680, 0x202F, 0x205F, 0x3000, 0xFEFF)]
)
"""ECMA-262 WhiteSpace and LineTerminator (sections 12.2, 12.3): ``\\s``."""
ECMA_LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x2028, 0x2029))
PYTHON_SPACE: Ranges = normalise_ranges([*ECMA_SPACE[:-1], (0x1C, 0x1F), (0x85, 0x85)])  # all but U+FEFF
POSIX: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ASCII_DIGIT,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ASCII_SPACE,
    "upper": ((65, 90),),
    "word": ASCII_WORD,
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
"""The POSIX classes of Rust's ``[[:name:]]``, ASCII only."""


@lru_cache(maxsize=1)
def _tables() -> dict[str, Any]:
    return json.loads(resources.files("cdplugin").joinpath("unicode_data.json").read_text(encoding="utf-8"))


def ranges_of(text: str) -> Ranges:
    """Decode ranges that are written as ``gap-length`` pairs in base 32, as in ``unicode_data.json``."""
    out, end = [], 0
    for item in text.split():
        gap, _, length = item.partition("-")
        low = end + int(gap, 32)
        end = low + (int(length, 32) if length else 0) + 1
        out.append((low, end - 1))
    return tuple(out)


@bounded_cache
def _decoded(table: str, name: str) -> Ranges:
    """The set stored under ``name``, without surrogates."""
    return normalise_ranges(ranges_of(_tables()[table][name]))


@bounded_cache
def _category(key: str) -> Ranges | None:
    tables = _tables()
    key = tables["aliases"]["categories"].get(key, key)
    if key in tables["groups"]:
        return union(*(_decoded("categories", part) for part in tables["groups"][key].split()))
    return _decoded("categories", key) if key in tables["categories"] else None


@bounded_cache
def _script(key: str, extensions: bool) -> Ranges | None:
    tables = _tables()
    key = tables["aliases"]["scripts"].get(key, key)
    if extensions and key in tables["extensions"]:
        return _decoded("extensions", key)
    return _decoded("scripts", key) if key in tables["scripts"] else None


@bounded_cache
def _binary(key: str) -> Ranges | None:
    if key == "any":
        return EVERYTHING
    if key == "ascii":
        return ((0, 127),)
    if key == "assigned":
        return negate_ranges(_decoded("categories", "cn"))
    tables = _tables()
    key = tables["aliases"]["binary"].get(key, key)
    return _decoded("binary", key) if key in tables["binary"] else None


def _loose(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def property_ranges(name: str) -> Ranges | None:
    """The set for the text between the braces of ``\\p{…}``; None if the name is not known.

    ``L``, ``Letter``, ``gc=Lu``, ``Script=Greek``, ``sc=Grek``, ``scx=Grek``, ``Alphabetic``; also a bare script name
    (``Greek``), as in Rust and Perl. A general category takes precedence over a binary property, and that over a script.
    """
    left, equals, right = name.partition("=")
    if not equals:
        key = _loose(name)
        for found in (_category(key), _binary(key)):
            if found is not None:
                return found
        return _script(key, False)
    left, right = _loose(left), _loose(right)
    if left in ("gc", "generalcategory", "category"):
        return _category(right)
    if left in ("sc", "script"):
        return _script(right, False)
    if left in ("scx", "scriptextensions"):
        return _script(right, True)
    return None


@bounded_cache
def perl_class(letter: str, dialect: str, ascii_only: bool) -> Ranges:
    """The set of ``\\d``, ``\\w`` or ``\\s``; ``letter`` is lower-case.

    ECMA-262 22.2.2.9 (ASCII apart from ``\\s``); Rust regex syntax, "Perl character classes (Unicode friendly)", as UTS #18
    Annex C; Python ``str.isdecimal``, ``str.isalnum`` and ``str.isspace``.
    """
    if letter == "s" and dialect == "ecma" and not ascii_only:
        return ECMA_SPACE
    if dialect == "ecma" or ascii_only:
        return {"d": ASCII_DIGIT, "w": ASCII_WORD, "s": ASCII_SPACE}[letter]
    if letter == "d":
        return _decoded("categories", "nd")
    if dialect == "python":
        if letter == "s":
            return PYTHON_SPACE
        numeric = [(c, c) for low, high in union(_named("N"), _named("Lo")) for c in range(low, high + 1) if chr(c).isalnum()]
        return union(_named("L"), _named("Nd"), ((95, 95),), tuple(numeric))
    if letter == "s":
        return _named("White_Space")
    return union(_named("Alphabetic"), _named("M"), _named("Nd"), _named("Pc"), _named("Join_Control"))


def _named(name: str) -> Ranges:
    found = property_ranges(name)
    assert found is not None, name
    return found


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """Code points in any of the sets."""
    return normalise_ranges([pair for members in sets for pair in members])


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """Code points in both sets."""
    out, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low <= high:
            out.append((low, high))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return normalise_ranges(out)


def difference(left: Ranges, right: Ranges) -> Ranges:
    """Code points of ``left`` that are not in ``right``."""
    return intersection(left, negate_ranges(right))


@lru_cache(maxsize=1)
def _orbits() -> tuple[dict[int, tuple[int, ...]], Ranges]:
    """Code point -> all code points that match it under simple case folding (itself included); and the set of its keys."""
    sets = [tuple(map(ord, orbit)) for orbit in _tables()["orbits"].split()]
    orbits = {member: orbit for orbit in sets for member in orbit}
    return orbits, normalise_ranges([(c, c) for c in orbits])


def fold_ascii(ranges: Ranges) -> Ranges:
    """Close a set under the case of the 26 letters."""
    upper, lower = intersection(ranges, ((65, 90),)), intersection(ranges, ((97, 122),))
    return union(ranges, [(a + 32, b + 32) for a, b in upper], [(a - 32, b - 32) for a, b in lower])


def fold_case(ranges: Ranges) -> Ranges:
    """Close a set under simple case folding (CaseFolding.txt, statuses C and S; ECMA-262 22.2.2.7.3 with ``u``).

    >>> fold_case(((107, 107),))
    ((75, 75), (107, 107), (8490, 8490))
    """
    orbits, cased = _orbits()
    members = {c for low, high in intersection(ranges, cased) for c in range(low, high + 1)}
    extra = set[int]().union(*[orbits[c] for c in members]) - members
    return normalise_ranges([*ranges, *((c, c) for c in extra)]) if extra else ranges
