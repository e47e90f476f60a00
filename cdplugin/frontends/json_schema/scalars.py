"""Merge the scalars of one alternative: one expression for the strings and numbers that are valid under several subschemas."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor
from typing import Any

from cdplugin.expr import EMPTY, Expr, alt, both, cat, complement, literals
from cdplugin.frontends.json_schema.dialect import (
    ALL_TYPES,
    BOOLEAN_BITS,
    FALSE_BIT,
    FRACTION_BIT,
    INTEGER_BIT,
    NULL_BIT,
    NUMBER_BITS,
    STRING_BIT,
    TRUE_BIT,
)
from cdplugin.frontends.json_schema.multiples import TooManyResiduesError
from cdplugin.frontends.json_schema.numbers import Bound, fractional, number_expr
from cdplugin.frontends.json_schema.schema import Subschema
from cdplugin.frontends.json_schema.strings import QUOTE, STRING, Format, other_text, pattern_text, string_expr
from cdplugin.memory import bounded_cache
from cdplugin.regex.alphabet import JSON_STRING

Alternative = tuple[Subschema, ...]
"""Subschemas without choices that apply to one instance location."""

LITERAL_WORDS = {
    bits: literals(text for bit, text in ((NULL_BIT, b"null"), (TRUE_BIT, b"true"), (FALSE_BIT, b"false")) if bits & bit)
    for bits in range(1, (NULL_BIT | BOOLEAN_BITS) + 1)
}
"""The expression for each set of ``null``, ``true`` and ``false``, by its type bits."""
MOST_DISTINCT = 2_000
"""Largest finite set of values whose items ``uniqueItems`` tells apart one by one."""


def types_of(subschemas: Iterable[Subschema]) -> int:
    """Type bits that all of ``subschemas`` allow."""
    types = ALL_TYPES
    for sub in subschemas:
        types &= sub.types
    return types


def few_values(alternative: Alternative, types: int) -> list[Any] | None:
    """A finite superset of the valid values, if ``types`` are only words and integers of a small range; else None."""
    if types & ~(NULL_BIT | BOOLEAN_BITS | INTEGER_BIT) or any(sub.refused for sub in alternative):
        return None
    out: list[Any] = [None, True, False]
    if types & INTEGER_BIT:
        low = max((ceil(sub.low[0]) for sub in alternative if sub.low), default=None)
        high = min((floor(sub.high[0]) for sub in alternative if sub.high), default=None)
        if low is None or high is None or high - low > MOST_DISTINCT:
            return None
        out += range(low, high + 1)
    return out


def _tighter(a: Bound | None, b: Bound | None, sign: int) -> Bound | None:
    if a is None or b is None:
        return a or b
    if a[0] == b[0]:
        return a if a[1] else b
    return a if (a[0] > b[0]) == (sign > 0) else b


def merged_number(alternative: Alternative, types: int) -> Expr:
    """The numbers of ``types`` that are valid under all of ``alternative``."""
    low: Bound | None = None
    high: Bound | None = None
    integral_floats = True
    for sub in alternative:
        low = _tighter(low, sub.low, 1)
        high = _tighter(high, sub.high, -1)
        integral_floats = integral_floats and sub.resource.dialect.integral_floats
    gaps = sorted({value for sub in alternative for value in sub.excluded if not isinstance(value, str)})
    pieces = []
    for value in gaps:
        pieces.append((low, _tighter(high, (value, True), -1)))
        low = _tighter(low, (value, True), 1)
    pieces.append((low, high))
    units = tuple(sorted({unit for sub in alternative for unit in sub.multiples}))
    no_units = tuple(sorted({unit for sub in alternative for unit in sub.no_multiples}))
    fractions = types == FRACTION_BIT
    kinds = NUMBER_BITS if fractions else types
    try:
        found = alt(*(number_expr(kinds, a, b, integral_floats, units, no_units) for a, b in pieces))
    except TooManyResiduesError as error:
        where = next(sub for sub in alternative if sub.multiples or sub.no_multiples).pointer
        raise error.amended(location=f"{where}/multipleOf") from None
    return both(found, fractional(integral_floats)) if fractions else found


def typed_scalar(types: int, integral_floats: bool) -> Expr | None:
    """The scalars of ``types``; None if there are none. All compilations share the object while it is cached."""
    parts = [STRING] if types & STRING_BIT else []
    numbers = types & NUMBER_BITS
    if numbers:
        found = number_expr(NUMBER_BITS if numbers == FRACTION_BIT else numbers, None, None, integral_floats, (), ())
        parts.append(both(found, fractional(integral_floats)) if numbers == FRACTION_BIT else found)
    words = types & (NULL_BIT | BOOLEAN_BITS)
    if words:
        parts.append(LITERAL_WORDS[words])
    return _any_of(*parts) if len(parts) > 1 else parts[0] if parts else None


_any_of = bounded_cache(alt)


def merged_scalars(alternative: Alternative, types: int) -> dict[Expr, None]:
    """The scalars of ``types`` that are valid under all of ``alternative``: strings, numbers, words."""
    parts: dict[Expr, None] = {}
    if types & STRING_BIT:
        parts[merged_string(alternative)] = None
    if types & NUMBER_BITS:
        parts[merged_number(alternative, types & NUMBER_BITS)] = None
    parts.pop(EMPTY, None)
    words = types & (NULL_BIT | BOOLEAN_BITS)
    if words:
        parts[LITERAL_WORDS[words]] = None
    return parts


def merged_string(alternative: Alternative) -> Expr:
    """The strings that are valid under all of ``alternative``."""
    if not any(sub.text or sub.formats or sub.unlike or sub.excluded for sub in alternative):
        return STRING
    low, high = 0, None
    patterns: dict[str, None] = {}
    formats: dict[Format, None] = {}
    unlike: dict[str | Format, None] = {}
    excluded: dict[str, None] = {}
    for sub in alternative:
        unlike.update(dict.fromkeys(sub.unlike))
        excluded.update((value, None) for value in sub.excluded if isinstance(value, str))
        if sub.text is not None:
            low = max(low, sub.text[0])
            if sub.text[1] is not None:
                high = sub.text[1] if high is None else min(high, sub.text[1])
            patterns.update(dict.fromkeys(sub.text[2]))
        formats.update(dict.fromkeys(sub.formats))
    found = string_expr(low, high, tuple(patterns), tuple(formats))
    if not unlike and not excluded:
        return found
    others = [other_text(excluded)] if excluded else []
    others += [complement(pattern_text(u)) if isinstance(u, str) else u.without() for u in unlike]
    return both(found, cat(QUOTE, both(JSON_STRING.any_text, *others), QUOTE))
