"""JSON numbers (RFC 8259, section 6) within exact bounds, as byte expressions.

What a text denotes is what Python reads: a text of digits alone is an exact integer, anything with a point or an exponent is
the nearest double. Bounds are therefore kept twice: exact integers for the first kind, and for the second the shortest decimal
of the smallest (largest) double inside the bound. Rounding to doubles is monotone, so a text at or above that decimal reads as
a double at or above the bound: no text that is accepted can be rounded out of its bounds, and every ``repr`` of a double
inside is accepted.

Serialisation choices, as promise 5 asks for an end: at most 64 digits before the point and 40 after it; exponents of at most
two digits, or up to -323...+307 with one digit before the point, so that no text overflows to infinity. Under a bound, exponent
forms are those with one non-zero digit before the point (as ``repr`` writes them). Integers have exponents from 16 on only, as
``repr`` writes large ones. ``multipleOf``: see ``multiples``.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from cdplugin.expr import (
    EMPTY,
    Expr,
    alt,
    both,
    byte_class,
    byte_range,
    cat,
    complement,
    literal,
    literals,
    optional,
    repeat,
)
from cdplugin.frontends.json_schema.dialect import FRACTION_BIT, INTEGER_BIT
from cdplugin.frontends.json_schema.multiples import common_unit, decimals, multiples
from cdplugin.memory import bounded_cache, fixed_cache

MAX_DIGITS, MAX_FRACTION = 64, 40
_EXACT_FLOAT = 1 << 53
_MIN_EXPONENT, _MAX_EXPONENT = -323, 307
CONTEXT = Context(prec=2_000)

DIGIT = byte_range(0x30, 0x39)
_NONZERO = byte_range(0x31, 0x39)
_MINUS = literal(b"-")
_POINT = literal(b".")
_ZERO = literal(b"0")
_EXPONENT_SIGN = byte_class(b"eE")
_ANY_FRACTION = repeat(DIGIT, 1, MAX_FRACTION)
_POINT_ZERO = literal(b".0")

Bound = tuple[int | float, bool]
"""A limit and whether it is exclusive."""


@fixed_cache(128, entry_bytes=600)
def _digits(low: int, high: int) -> Expr:
    return byte_range(0x30 + low, 0x30 + high) if low <= high else EMPTY


@fixed_cache(128, entry_bytes=600)
def _any_digits(count: int) -> Expr:
    return repeat(DIGIT, count, count)


def _at_least(digits: str) -> Expr:
    """Digit strings of the same length that are not below ``digits``."""
    significant = digits.rstrip("0")
    expr = _any_digits(len(digits) - len(significant))
    for i in range(len(significant) - 1, -1, -1):
        d, rest = int(digits[i]), len(digits) - 1 - i
        expr = alt(cat(_digits(d, d), expr), cat(_digits(d + 1, 9), _any_digits(rest)))
    return expr


def _at_most(digits: str) -> Expr:
    """Digit strings of the same length that are not above ``digits``."""
    significant = digits.rstrip("9")
    expr = _any_digits(len(digits) - len(significant))
    for i in range(len(significant) - 1, -1, -1):
        d, rest = int(digits[i]), len(digits) - 1 - i
        expr = alt(cat(_digits(d, d), expr), cat(_digits(0, d - 1), _any_digits(rest)))
    return expr


def _between(low: str, high: str) -> Expr:
    """Digit strings of the same length from ``low`` to ``high``."""
    split = 0
    while split < len(low) and low[split] == high[split]:
        split += 1
    prefix = literal(low[:split].encode())
    if split == len(low):
        return prefix
    a, b, rest = int(low[split]), int(high[split]), len(low) - split - 1
    return cat(
        prefix,
        alt(
            cat(_digits(a, a), _at_least(low[split + 1 :])),
            cat(_digits(a + 1, b - 1), _any_digits(rest)),
            cat(_digits(b, b), _at_most(high[split + 1 :])),
        ),
    )


@bounded_cache
def natural_range(low: int, high: int | None) -> Expr:
    """Integers from ``low >= 0`` to ``high`` (``None``: no bound) without leading zeros: O(digits) nodes.

    Without an upper bound, at most 64 digits (or as many as ``low`` has, if more).
    """
    if high is not None and low > high:
        return EMPTY
    if high is None:
        top = max(MAX_DIGITS, len(str(low)))
        if low <= 1:
            tail = cat(_NONZERO, repeat(DIGIT, 0, top - 1))
            return alt(literal(b"0"), tail) if low == 0 else tail
        high = 10**top - 1
    if low == 0:
        return alt(literal(b"0"), natural_range(1, high)) if high else literal(b"0")
    first, last = str(low), str(high)
    if len(first) == len(last):
        return _between(first, last)
    parts = [_at_least(first)]
    if high == 10 ** len(last) - 1:
        return alt(*parts, cat(_NONZERO, repeat(DIGIT, len(first), len(last) - 1)))
    if len(first) + 1 < len(last):
        parts.append(cat(_NONZERO, repeat(DIGIT, len(first), len(last) - 2)))
    parts.append(_between("1" + "0" * (len(last) - 1), last))
    return alt(*parts)


def integer_range(low: int | None, high: int | None) -> Expr:
    """Integers from ``low`` to ``high`` (either may be ``None``), "-0" included where 0 is."""
    parts = []
    if low is None or low <= 0:
        nearest = 0 if high is None or high >= 0 else -high
        parts.append(cat(_MINUS, natural_range(nearest, None if low is None else -low)))
    if high is None or high >= 0:
        parts.append(natural_range(0 if low is None else max(low, 0), high))
    return alt(*parts)


def _fraction_at_least(digits: str) -> Expr:
    """1 to 40 fraction digits that are not below 0.``digits`` (which has no trailing zero)."""
    return _after_at_least(digits, 0) if digits else _ANY_FRACTION


@bounded_cache
def _after_at_least(digits: str, done: int) -> Expr:
    """Fraction digits after ``done`` others that are not below ``digits``, at most 40. Fractions that end alike share it."""
    if not digits:
        return _further_digits(done)
    d = int(digits[0])
    return alt(cat(_digits(d, d), _after_at_least(digits[1:], done + 1)), cat(_digits(d + 1, 9), _further_digits(done + 1)))


@fixed_cache(128, entry_bytes=600)
def _further_digits(done: int) -> Expr:
    return repeat(DIGIT, 0, MAX_FRACTION - done)


def _fraction_at_most(digits: str) -> Expr:
    """1 to 40 fraction digits that are not above 0.``digits`` (which has no trailing zero)."""
    return _after_at_most(digits, 0) if digits else repeat(_ZERO, 1, MAX_FRACTION)


@bounded_cache
def _after_at_most(digits: str, done: int) -> Expr:
    """Fraction digits after ``done`` others that are not above ``digits``, at most 40."""
    if not digits:
        return repeat(_ZERO, 0, MAX_FRACTION - done)
    d = int(digits[0])
    tail = _after_at_most(digits[1:], done + 1)
    return alt(
        cat(_digits(d, d), optional(tail) if len(digits) > 1 else tail), cat(_digits(0, d - 1), _further_digits(done + 1))
    )


def _split_decimal(value: Decimal) -> tuple[int, str]:
    """Integer part and fraction digits without trailing zeros."""
    whole, _, fraction = f"{value:f}".partition(".")
    return int(whole), fraction.rstrip("0")


_STEP = Decimal((0, (1,), -MAX_FRACTION))


def _plain_decimals(low: Decimal, high: Decimal | None) -> Expr:
    """``digits.digits`` from ``low >= 0`` to ``high``."""
    low = low.quantize(_STEP, rounding=ROUND_CEILING, context=CONTEXT)
    first, low_fraction = _split_decimal(low)
    if high is None:
        above = natural_range(first + 1, None)
        return alt(
            cat(natural_range(first, first), _POINT, _fraction_at_least(low_fraction)), cat(above, _POINT, _ANY_FRACTION)
        )
    high = high.quantize(_STEP, rounding=ROUND_FLOOR, context=CONTEXT)
    if low > high:
        return EMPTY
    last, high_fraction = _split_decimal(high)
    if first == last:
        fraction = both(_fraction_at_least(low_fraction), _fraction_at_most(high_fraction))
        return cat(natural_range(first, first), _POINT, fraction)
    return alt(
        cat(natural_range(first, first), _POINT, _fraction_at_least(low_fraction)),
        cat(natural_range(first + 1, last - 1), _POINT, _ANY_FRACTION),
        cat(natural_range(last, last), _POINT, _fraction_at_most(high_fraction)),
    )


def exponent_between(low: int, high: int) -> Expr:
    """``e`` and an exponent from ``low`` to ``high``; a sign and one leading zero as JSON allows them."""
    if low > high:
        return EMPTY
    parts = []
    if high >= 0:
        parts.append(cat(optional(literal(b"+")), optional(literal(b"0")), natural_range(max(low, 0), high)))
    if low < 0:
        parts.append(cat(_MINUS, optional(literal(b"0")), natural_range(max(-high, 1), -low)))
    return cat(_EXPONENT_SIGN, alt(*parts))


_ONE, _BELOW_TEN = Decimal(1), Decimal(10) - _STEP


def _mantissa(low: Decimal, high: Decimal) -> Expr:
    """One digit 1 to 9 and an optional fraction, from ``low`` to ``high``."""
    whole = natural_range(math.ceil(low), math.floor(high))
    return alt(whole, _plain_decimals(low, high))


_ANY_MANTISSA = cat(_NONZERO, optional(cat(_POINT, _ANY_FRACTION)))


def _scientific(low: Decimal, high: Decimal | None) -> Expr:
    """Normalised exponent forms of positive numbers from ``low >= 0`` to ``high``."""
    if high is not None and (high < low or not high):
        return EMPTY
    bottom = low.adjusted() if low else _MIN_EXPONENT - 1
    top = high.adjusted() if high is not None else _MAX_EXPONENT + 1
    parts = [cat(_ANY_MANTISSA, exponent_between(max(bottom + 1, _MIN_EXPONENT), min(top - 1, _MAX_EXPONENT)))]
    low_mantissa = low.scaleb(-bottom, CONTEXT) if bottom >= _MIN_EXPONENT else _ONE
    high_mantissa = high.scaleb(-top, CONTEXT) if high is not None and top <= _MAX_EXPONENT else _BELOW_TEN
    if bottom == top:
        parts.append(cat(_mantissa(low_mantissa, high_mantissa), exponent_between(bottom, top)))
    else:
        if _MIN_EXPONENT <= bottom <= _MAX_EXPONENT:
            parts.append(cat(_mantissa(low_mantissa, _BELOW_TEN), exponent_between(bottom, bottom)))
        if _MIN_EXPONENT <= top <= _MAX_EXPONENT:
            parts.append(cat(_mantissa(_ONE, high_mantissa), exponent_between(top, top)))
    return alt(*parts)


_WIDE_EXPONENT = alt(
    cat(optional(byte_class(b"+-")), repeat(DIGIT, 1, 2)),
    cat(optional(literal(b"+")), alt(cat(byte_class(b"12"), repeat(DIGIT, 2, 2)), cat(literal(b"30"), byte_range(0x30, 0x37)))),
    cat(_MINUS, alt(cat(byte_class(b"12"), repeat(DIGIT, 2, 2)), cat(literal(b"3"), byte_class(b"01"), DIGIT))),
    cat(_MINUS, literal(b"32"), byte_range(0x30, 0x33)),
)
_NATURAL = natural_range(0, None)
MAGNITUDE = alt(
    cat(
        _NATURAL,
        optional(cat(_POINT, _ANY_FRACTION)),
        optional(cat(_EXPONENT_SIGN, optional(byte_class(b"+-")), repeat(DIGIT, 1, 2))),
    ),
    cat(DIGIT, optional(cat(_POINT, _ANY_FRACTION)), _EXPONENT_SIGN, _WIDE_EXPONENT),
)
"""A number without its sign; no text of it reads as infinity."""
NUMBER = cat(optional(_MINUS), MAGNITUDE)
INTEGER = cat(optional(_MINUS), _NATURAL)
_LARGE = alt(
    cat(
        _NONZERO,
        optional(cat(_POINT, repeat(DIGIT, 1, 16))),
        _EXPONENT_SIGN,
        optional(literal(b"+")),
        natural_range(16, _MAX_EXPONENT),
    ),
    cat(
        literal(b"1"),
        optional(cat(_POINT, _digits(0, 6), repeat(DIGIT, 0, 15))),
        literals((b"e308", b"e+308", b"E308", b"E+308")),
    ),
)
INTEGRAL = cat(optional(_MINUS), alt(cat(_NATURAL, optional(_POINT_ZERO)), _LARGE))


def _multiple_expr(
    unit: Fraction,
    low: Bound | None,
    high: Bound | None,
    fractions: bool,
    points: bool,
    others: tuple[Fraction, ...],
    exact: bool,
) -> Expr:
    first: Decimal | None = None
    last: Decimal | None = None
    if fractions:
        bottom = -math.inf if low is None else _double_from(low)
        top = math.inf if high is None else _double_to(high)
        if bottom > top or bottom == math.inf or top == -math.inf:
            return EMPTY
        first = None if bottom == -math.inf else Decimal(repr(bottom))
        last = None if top == math.inf else Decimal(repr(top))
    else:
        first = None if low is None else Decimal(_integer_from(low))
        last = None if high is None else Decimal(_integer_to(high))
    nothing = Decimal(0)
    parts = []
    if first is None or first <= 0:
        nearest = nothing if last is None or last >= 0 else last.copy_negate()
        lowest = None if first is None else first.copy_abs()
        parts.append(cat(_MINUS, multiples(unit, nearest, lowest, points, others, exact)))
    if last is None or last >= 0:
        parts.append(multiples(unit, nothing if first is None else max(first, nothing), last, points, others, exact))
    return alt(*parts)


def _double_from(bound: Bound) -> float:
    """The smallest double that satisfies the lower ``bound``; infinity if there is none."""
    value, is_open = bound
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return math.nextafter(nearest, math.inf) if nearest < value or (is_open and nearest == value) else nearest


def _double_to(bound: Bound) -> float:
    """The largest double that satisfies the upper ``bound``; minus infinity if there is none."""
    return -_double_from((-bound[0], bound[1]))


def _integer_from(bound: Bound) -> int:
    value, is_open = bound
    whole = math.ceil(value)
    return whole + 1 if is_open and whole == value else whole


def _integer_to(bound: Bound) -> int:
    value, is_open = bound
    whole = math.floor(value)
    return whole - 1 if is_open and whole == value else whole


def magnitudes_between(low: Decimal, high: Decimal) -> Expr:
    """Decimals with a point, and normalised exponent forms, without sign, from ``low >= 0`` to ``high``."""
    return alt(_plain_decimals(low, high), _scientific(low, high))


def _magnitudes(low: float, high: float) -> Expr:
    """Texts with a point or an exponent, without sign, that read as doubles in ``low >= 0`` to ``high``."""
    if low > high or math.isinf(low):
        return EMPTY
    first = Decimal(repr(low))
    last = None if math.isinf(high) else Decimal(repr(high))
    return alt(_plain_decimals(first, last), _scientific(first, last))


@bounded_cache
def fractional(integral_floats: bool) -> Expr:
    """Texts that are no integers: of any spelling but an integer's, or (``integral_floats``) of a value that is not whole.

    A fraction that is closer to a whole number than half the distance of doubles there reads as that number. Exponents, where
    the value counts, are negative ones.
    """
    if not integral_floats:
        return both(NUMBER, complement(INTEGER))
    sign = optional(_MINUS)
    parts = [cat(literal(b"0."), both(_ANY_FRACTION, complement(repeat(literal(b"0"))), _fraction_at_most("9" * 16)))]
    for power in range(52):
        gap = (Decimal(2) ** (power - 53)).quantize(Decimal((0, (1,), -18)), rounding=ROUND_CEILING, context=CONTEXT)
        low, high = _split_decimal(gap + Decimal((0, (1,), -18)))[1], _split_decimal(1 - gap - Decimal((0, (1,), -18)))[1]
        fraction = both(_fraction_at_least(low), _fraction_at_most(high))
        parts.append(cat(natural_range(1 << power, (2 << power) - 1), _POINT, fraction))
    small = cat(_NONZERO, optional(cat(_POINT, repeat(DIGIT, 1, 15))), exponent_between(-1, -1))
    tiny = cat(_ANY_MANTISSA, exponent_between(_MIN_EXPONENT, -2))
    return cat(sign, alt(*parts, small, tiny))


@bounded_cache
def number_expr(
    types: int,
    low: Bound | None,
    high: Bound | None,
    integral_floats: bool,
    units: tuple[int | float, ...] = (),
    no_units: tuple[int | float, ...] = (),
) -> Expr:
    """Numbers of the given type bits within the bounds; ``EMPTY`` when there are none.

    ``integral_floats``: ``1.0`` is an integer (Draft 6 and later). ``units``, ``no_units``: what the numbers are multiples
    of, and are not. Exact and complete up to the serialisation choices above and in ``multiples``.
    """
    whole_only = not types & FRACTION_BIT
    if units or no_units:
        unit = common_unit(units) if units else None
        others = tuple(common_unit((u,)) for u in no_units)
        if whole_only or unit == 1:
            unit, others = Fraction(unit.numerator if unit else 1), tuple(Fraction(u.numerator) for u in others)
            points = integral_floats or not whole_only
            if unit == 1 and not others:
                return number_expr(INTEGER_BIT, low, high, points)
        elif unit is None and all(u.denominator == 1 for u in others):
            whole = number_expr(INTEGER_BIT, low, high, True, (), no_units)
            return alt(whole, both(number_expr(types, low, high, True), fractional(True)))
        else:
            unit, points = unit or min(Fraction(1, 10 ** decimals(u)) for u in others), True
        exact = any(isinstance(u, float) for u in no_units)
        return _multiple_expr(unit, low, high, unit.denominator > 1, points, others, exact)
    if low is None and high is None and types & INTEGER_BIT:
        if whole_only:
            return INTEGRAL if integral_floats else INTEGER
        return NUMBER
    bottom = None if low is None else _integer_from(low)
    top = None if high is None else _integer_to(high)
    wholes = integer_range(bottom, top) if bottom is None or top is None or bottom <= top else EMPTY
    if whole_only:
        if not integral_floats:
            return wholes
        # With a point the text is read as a double: only where those are exact do the bounds hold.
        near = integer_range(
            -_EXACT_FLOAT if bottom is None else max(bottom, -_EXACT_FLOAT),
            _EXACT_FLOAT if top is None else min(top, _EXACT_FLOAT),
        )
        parts = [wholes, cat(near, _POINT_ZERO)]
        if high is None and bottom is not None and bottom <= 10**16:
            parts.append(_LARGE)
        if low is None and top is not None and top >= -(10**16):
            parts.append(cat(_MINUS, _LARGE))
        return alt(*parts)
    first = -math.inf if low is None else _double_from(low)
    last = math.inf if high is None else _double_to(high)
    parts = [wholes]
    if first <= 0:
        if first == -math.inf and last >= 0:
            parts.append(cat(_MINUS, MAGNITUDE))
        else:
            parts.append(cat(_MINUS, _magnitudes(max(-last, 0.0), -first)))
    if last >= 0:
        parts.append(MAGNITUDE if last == math.inf and first <= 0 else _magnitudes(max(first, 0.0), last))
    return alt(*parts)
