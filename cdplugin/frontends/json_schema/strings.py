"""JSON strings (RFC 8259, section 7): free text, lengths, patterns, and keys other than given names.

Free text may be spelt with any legal escape; fixed texts (property names, enumerated strings) are spelt as
``json.dumps(text, ensure_ascii=False)`` and as ``json.dumps(text)`` do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from cdplugin import regex
from cdplugin.alphabet import JSON_STRING
from cdplugin.expr import EMPTY, EPSILON, Expr, alt, both, cat, complement, literal, repeat

QUOTE = literal(b'"')
STRING = cat(QUOTE, JSON_STRING.any_text, QUOTE)
"""Any JSON string."""


@lru_cache(maxsize=4096)
def pattern_text(pattern: str) -> Expr:
    """The text of strings in which ``pattern`` (ECMA-262, unanchored; Core, section 6.4) finds a match."""
    return regex.parse(pattern, "ecma", "u").search_expr(JSON_STRING)


@lru_cache(maxsize=4096)
def string_expr(low: int, high: int | None, patterns: tuple[str, ...]) -> Expr:
    """Strings of ``low`` to ``high`` code points in which every pattern finds a match."""
    parts = [pattern_text(pattern) for pattern in patterns]
    if low or high is not None or not parts:
        if not parts and not low and high is None:
            return STRING
        parts.append(repeat(JSON_STRING.any_char, low, high))
    return cat(QUOTE, both(*parts), QUOTE)


def spellings(text: str) -> tuple[bytes, ...]:
    """The canonical spellings of a fixed text, with its quotes."""
    plain = json.dumps(text, ensure_ascii=False)
    try:
        encoded = plain.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate can only be written as an escape
        return (json.dumps(text).encode("ascii"),)
    return (encoded,) if plain.isascii() else (encoded, json.dumps(text).encode("ascii"))


def other_text(names: Iterable[str]) -> Expr:
    """Key text (without quotes) that spells none of ``names``, in whatever way those might be escaped."""
    excluded = names_text(names)
    return both(JSON_STRING.any_text, complement(excluded))


def names_text(names: Iterable[str]) -> Expr:
    """All spellings of ``names``, as a tree that branches at each code point, so that a derivative of it stays small."""
    # A lone surrogate is in no JSON text that is UTF-8 throughout.
    words = sorted({name for name in names if not any("\ud800" <= c <= "\udfff" for c in name)})
    if not words:
        return EMPTY
    # Each frame: words[start:end] share their first `depth` code points.
    root: list[Expr] = []
    stack: list[tuple[int, int, int, list[Expr], Expr | None, list[Expr] | None]] = [(0, len(words), 0, root, None, None)]
    while stack:
        start, end, depth, out, head, branches = stack.pop()
        if branches is not None:  # all branches below `head` are built
            out.append(cat(head or EPSILON, alt(*branches)))
            continue
        prefix_end = depth
        first, last = words[start], words[end - 1]
        while prefix_end < len(first) and prefix_end < len(last) and first[prefix_end] == last[prefix_end]:
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
