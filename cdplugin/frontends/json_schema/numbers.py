"""JSON numbers (RFC 8259, section 6) within exact bounds, as byte expressions.

A text denotes its decimal value; Python reads an exact integer if it has digits alone, and otherwise (with a point or an
exponent) the nearest double. A bound must hold for both readings. So each bound has two forms: an exact integer for digits
alone, and for other texts a decimal, the shortest one of the smallest (largest) double inside the bound, or the bound itself
where that decimal lies outside. Rounding to doubles is monotone: a text at or above the decimal reads as a double at or above
the bound. So no accepted text rounds out of its bounds, and each ``repr`` inside them is accepted.

Choices of serialisation, so that each number has an end: at most 64 digits before the point and 40 after it; exponents of at
most 20 digits. Only a number without an upper (lower) bound may exceed the doubles (``1e400``, which Python reads as infinity).
Under a bound, an exponent follows one non-zero digit before the point (as ``repr`` writes it), or zero. Integers have exponent
forms too, with at most 16 digits after the point and no larger than doubles: under a bound only from ``10 ** 16`` on, where
``repr`` begins to write them; without a bound also with 17 digits and a non-negative exponent. ``multipleOf``: see
``multiples``.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

from cdplugin.expr import (
    EMPTY,
    EPSILON,
    Automaton,
    Expr,
    alt,
    both,
    byte_class,
    byte_range,
    cat,
    complement,
    counted,
    literal,
    optional,
    repeat,
)
from cdplugin.frontends.json_schema.dialect import FRACTION_BIT, INTEGER_BIT
from cdplugin.frontends.json_schema.multiples import CONTEXT, EXACT_DIGITS, POINT, ZERO, common_unit, decimals, multiples
from cdplugin.memory import bounded_cache, fixed_cache

MAX_DIGITS, MAX_FRACTION = 64, 40
EXACT_FLOAT = 1 << 53
_EXPONENT_DIGITS = 20
_MIN_EXPONENT, _MAX_EXPONENT = 1 - 10**_EXPONENT_DIGITS, 10**_EXPONENT_DIGITS - 1
_LARGEST_POWER, _SMALLEST_POWER = 308, -323
"""The power of ten of the largest double; and a power from which on no number is read as zero."""
_LARGE_POWER, _LARGE_FRACTION = 16, 16
"""The power from which on ``repr`` writes exponents, and the most digits that it then writes after the point."""

DIGIT = byte_range(0x30, 0x39)
NONZERO = byte_range(0x31, 0x39)
MINUS = literal(b"-")
_EXPONENT_SIGN = byte_class(b"eE")
_ANY_FRACTION = repeat(DIGIT, 1, MAX_FRACTION)
POINT_ZEROS = cat(POINT, repeat(ZERO, 1, 20))
_ANY_EXPONENT = cat(_EXPONENT_SIGN, optional(byte_class(b"+-")), repeat(DIGIT, 1, _EXPONENT_DIGITS))
ZERO_WITH_EXPONENT = cat(optional(MINUS), ZERO, optional(POINT_ZEROS), _ANY_EXPONENT)

Bound = tuple[int | float, bool]
"""A bound, and whether it is exclusive."""


@fixed_cache(128, entry_bytes=600)
def _digits(low: int, high: int) -> Expr:
    return byte_range(0x30 + low, 0x30 + high) if low <= high else EMPTY


@fixed_cache(128, entry_bytes=600)
def _any_digits(count: int) -> Expr:
    return repeat(DIGIT, count, count)


def _bounded(digits: str, from_below: bool) -> Expr:
    """Digit strings of the length of ``digits`` that are not less (``from_below``), or not greater, than it."""
    significant = digits.rstrip("0" if from_below else "9")
    expr = _any_digits(len(digits) - len(significant))
    for i in range(len(significant) - 1, -1, -1):
        d, rest = int(digits[i]), len(digits) - 1 - i
        others = _digits(d + 1, 9) if from_below else _digits(0, d - 1)
        expr = alt(cat(_digits(d, d), expr), cat(others, _any_digits(rest)))
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
            cat(_digits(a, a), _bounded(low[split + 1 :], from_below=True)),
            cat(_digits(a + 1, b - 1), _any_digits(rest)),
            cat(_digits(b, b), _bounded(high[split + 1 :], from_below=False)),
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
            tail = cat(NONZERO, repeat(DIGIT, 0, top - 1))
            return alt(literal(b"0"), tail) if low == 0 else tail
        high = 10**top - 1
    if low == 0:
        return alt(literal(b"0"), natural_range(1, high)) if high else literal(b"0")
    first, last = str(low), str(high)
    if len(first) == len(last):
        return _between(first, last)
    parts = [_bounded(first, from_below=True)]
    if high == 10 ** len(last) - 1:
        return alt(*parts, cat(NONZERO, repeat(DIGIT, len(first), len(last) - 1)))
    if len(first) + 1 < len(last):
        parts.append(cat(NONZERO, repeat(DIGIT, len(first), len(last) - 2)))
    parts.append(_between("1" + "0" * (len(last) - 1), last))
    return alt(*parts)


def integer_range(low: int | None, high: int | None) -> Expr:
    """Integers from ``low`` to ``high`` (``None``: no bound), including "-0" where 0 is."""
    parts = []
    if low is None or low <= 0:
        nearest = 0 if high is None or high >= 0 else -high
        parts.append(cat(MINUS, natural_range(nearest, None if low is None else -low)))
    if high is None or high >= 0:
        parts.append(natural_range(0 if low is None else max(low, 0), high))
    return alt(*parts)


def _fraction_at_least(digits: str) -> Expr:
    """1 to 40 fraction digits that are not less than 0.``digits`` (which has no trailing zero)."""
    return _after_at_least(digits, 0) if digits else _ANY_FRACTION


@bounded_cache
def _after_at_least(digits: str, done: int) -> Expr:
    """Fraction digits after ``done`` others, at most 40 in all, that are not less than ``digits``. Memoised to share tails."""
    if not digits:
        return _further_digits(done)
    d = int(digits[0])
    return alt(cat(_digits(d, d), _after_at_least(digits[1:], done + 1)), cat(_digits(d + 1, 9), _further_digits(done + 1)))


@fixed_cache(128, entry_bytes=600)
def _further_digits(done: int) -> Expr:
    return repeat(DIGIT, 0, MAX_FRACTION - done)


def _fraction_at_most(digits: str) -> Expr:
    """1 to 40 fraction digits that are not greater than 0.``digits`` (which has no trailing zero)."""
    return _after_at_most(digits, 0) if digits else repeat(ZERO, 1, MAX_FRACTION)


@bounded_cache
def _after_at_most(digits: str, done: int) -> Expr:
    """Fraction digits after ``done`` others, at most 40 in all, that are not greater than ``digits``."""
    if not digits:
        return repeat(ZERO, 0, MAX_FRACTION - done)
    d = int(digits[0])
    tail = _after_at_most(digits[1:], done + 1)
    return alt(
        cat(_digits(d, d), optional(tail) if len(digits) > 1 else tail), cat(_digits(0, d - 1), _further_digits(done + 1))
    )


def fraction_between(low: str, high: str) -> Expr:
    """Fraction digits from 0.``low`` to 0.``high``, whose first digits must differ. An automaton: it is built faster than a
    tree.
    """
    tails: dict[Expr, int] = {}
    words: list[int] = []
    n_states = 0

    def state(tail: Expr | None, *edges: tuple[int, int]) -> int:
        nonlocal n_states
        kept = [(digits, child) for digits, child in edges if digits]
        words.extend((0 if tail is None else tails.setdefault(tail, len(tails) + 1), len(kept)))
        for edge in kept:
            words.extend(edge)
        n_states += 1
        return n_states - 1

    free = {done: state(_further_digits(done)) for done in range(1, max(len(low), len(high)) + 1)}
    above, below = free[len(low)], state(repeat(ZERO, 0, MAX_FRACTION - len(high)))
    for i in range(len(low) - 1, 0, -1):
        d = int(low[i])
        above = state(None, (_digit_bits(d, d), above), (_digit_bits(d + 1, 9), free[i + 1]))
    for i in range(len(high) - 1, 0, -1):
        d = int(high[i])
        below = state(EPSILON, (_digit_bits(d, d), below), (_digit_bits(0, d - 1), free[i + 1]))
    a, b = int(low[0]), int(high[0])
    state(None, (_digit_bits(a, a), above), (_digit_bits(a + 1, b - 1), free[1]), (_digit_bits(b, b), below))
    return Automaton(tuple(tails), array("q", words), n_states)


def _digit_bits(low: int, high: int) -> int:
    return (2 << high) - (1 << low) << 0x30 if low <= high else 0


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
        return alt(cat(natural_range(first, first), POINT, _fraction_at_least(low_fraction)), cat(above, POINT, _ANY_FRACTION))
    high = high.quantize(_STEP, rounding=ROUND_FLOOR, context=CONTEXT)
    if low > high:
        return EMPTY
    last, high_fraction = _split_decimal(high)
    if first == last:
        fraction = both(_fraction_at_least(low_fraction), _fraction_at_most(high_fraction))
        return cat(natural_range(first, first), POINT, fraction)
    return alt(
        cat(natural_range(first, first), POINT, _fraction_at_least(low_fraction)),
        cat(natural_range(first + 1, last - 1), POINT, _ANY_FRACTION),
        cat(natural_range(last, last), POINT, _fraction_at_most(high_fraction)),
    )


def exponent_between(low: int, high: int) -> Expr:
    """``e`` and an exponent from ``low`` to ``high``, with the signs and one leading zero that JSON allows."""
    if low > high:
        return EMPTY
    parts = []
    if high >= 0:
        parts.append(cat(optional(literal(b"+")), optional(literal(b"0")), natural_range(max(low, 0), high)))
    if low < 0:
        parts.append(cat(MINUS, optional(literal(b"0")), natural_range(max(-high, 1), -low)))
    return cat(_EXPONENT_SIGN, alt(*parts))


_ONE, _BELOW_TEN = Decimal(1), Decimal(10) - _STEP


def _mantissa(low: Decimal, high: Decimal) -> Expr:
    """One digit 1 to 9 and an optional fraction, from ``low`` to ``high``."""
    whole = natural_range(math.ceil(low), math.floor(high))
    return alt(whole, _plain_decimals(low, high))


_ANY_MANTISSA = cat(NONZERO, optional(cat(POINT, _ANY_FRACTION)))


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


_NATURAL = natural_range(0, None)
MAGNITUDE = cat(_NATURAL, optional(cat(POINT, _ANY_FRACTION)), optional(_ANY_EXPONENT))
"""A number without its sign."""
NUMBER = cat(optional(MINUS), MAGNITUDE)
INTEGER = cat(optional(MINUS), _NATURAL)
_NOTHING = Decimal(0)
_MAX = Decimal(repr(sys.float_info.max))
_ROUNDED_TO_INFINITY = CONTEXT.add(Decimal(sys.float_info.max), Decimal(math.ulp(sys.float_info.max)) / 2)


def _whole_scientific(power: int) -> Expr:
    """Normalised exponent forms of naturals from ``10 ** power`` to the largest double. They have at most 16 digits after the
    point, and no more than the exponent moves before it.
    """
    following = EMPTY
    for done in range(_LARGE_FRACTION, 0, -1):
        exponent = exponent_between(max(done, power), _LARGEST_POWER - 1)
        following = cat(DIGIT, alt(exponent, following))
    fraction = both(_fraction_at_most(str(_MAX).partition("E")[0][2:]), repeat(DIGIT, 1, _LARGE_FRACTION))
    largest = cat(literal(b"1"), optional(cat(POINT, fraction)), exponent_between(_LARGEST_POWER, _LARGEST_POWER))
    return alt(cat(NONZERO, alt(exponent_between(power, _LARGEST_POWER - 1), cat(POINT, following))), largest)


_LARGE = _whole_scientific(_LARGE_POWER)
_WHOLE_WITH_EXPONENT = cat(
    NONZERO, repeat(DIGIT, 0, _LARGE_FRACTION), exponent_between(0, _LARGEST_POWER - _LARGE_FRACTION - 1)
)
INTEGRAL = alt(
    cat(optional(MINUS), alt(cat(_NATURAL, optional(POINT_ZEROS)), _whole_scientific(0), _WHOLE_WITH_EXPONENT)),
    ZERO_WITH_EXPONENT,
)


def _large_wholes(low: Bound | None, high: Bound | None) -> Expr:
    """Exponent forms of naturals from ``10 ** 16`` on, within the bounds."""
    if high is not None and high[0] < 10**_LARGE_POWER:
        return EMPTY
    if high is None and (low is None or low[0] < 10**_LARGE_POWER):
        return _LARGE
    first = _NOTHING if low is None or low[0] <= 0 else _decimal_from(low)
    last = None if high is None else _decimal_to(high)
    return EMPTY if first is None else both(_LARGE, _scientific(first, last))


BEYOND_DOUBLES = cat(optional(MINUS), _scientific(_ROUNDED_TO_INFINITY, None))
"""Normalised exponent forms that read as an infinity."""


def _multiple_expr(
    unit: Fraction, within: Sequence[Decimal | int | None], points: bool, others: tuple[Fraction, ...], exact: bool
) -> Expr:
    """Multiples of ``unit`` from the first to the last number ``within``; otherwise as :func:`multiples`."""
    first, last = (None if bound is None else Decimal(bound) for bound in within)
    if first is not None and last is not None and first > last:
        return EMPTY
    return alt(*_with_signs(lambda nearest, farthest: multiples(unit, nearest, farthest, points, others, exact), first, last))


def _with_signs(magnitudes: Callable[[Decimal, Decimal | None], Expr], low: Decimal | None, high: Decimal | None) -> list[Expr]:
    """Signed numbers from ``low`` to ``high``, where ``magnitudes(low, high)`` gives the unsigned ones for ``low >= 0``."""
    parts = []
    if low is None or low <= 0:
        nearest = _NOTHING if high is None or high >= 0 else high.copy_negate()
        parts.append(cat(MINUS, magnitudes(nearest, None if low is None else low.copy_abs())))
    if high is None or high >= 0:
        parts.append(magnitudes(_NOTHING if low is None else max(low, _NOTHING), high))
    return parts


def _negated(bound: Bound) -> Bound:
    return (-bound[0], bound[1])


def _double_from(bound: Bound) -> float:
    """The smallest double that satisfies the lower ``bound``; infinity if there is none."""
    value, is_open = bound
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return math.nextafter(nearest, math.inf) if nearest < value or (is_open and nearest == value) else nearest


def _decimal_from(bound: Bound) -> Decimal | None:
    """The least decimal for which both readings satisfy a lower ``bound``: the shortest of the smallest double inside, or the
    bound itself; None if there is none.
    """
    value, is_open = bound
    double = _double_from(bound)
    if double == math.inf:
        return None
    shortest, exact = Decimal(repr(double)), Decimal(repr(value) if isinstance(value, float) else value)
    if shortest > exact or (shortest == exact and not is_open):
        return shortest
    if not is_open:
        return exact
    above = math.nextafter(double, math.inf)
    return None if above == math.inf else Decimal(repr(above))


def _decimal_to(bound: Bound) -> Decimal | None:
    """The greatest decimal for which both readings satisfy an upper ``bound``, likewise."""
    least = _decimal_from(_negated(bound))
    return None if least is None else least.copy_negate()


def _decimals_within(low: Bound | None, high: Bound | None) -> tuple[Decimal | None, Decimal | None] | None:
    """The least and greatest decimals for which both readings satisfy the bounds; None if there are none."""
    first = None if low is None else _decimal_from(low)
    last = None if high is None else _decimal_to(high)
    has_none = (low is not None and first is None) or (high is not None and last is None)
    return None if has_none else (first, last)


def _integer_from(bound: Bound) -> int:
    """The least integer that satisfies a lower ``bound``, taken as the double and as the decimal that it is written as."""
    value, is_open = bound
    exact = int(Decimal(repr(value))) if isinstance(value, float) and abs(value) >= EXACT_FLOAT else value
    whole = max(math.ceil(value), math.ceil(exact))
    return whole + 1 if is_open and whole in (value, exact) else whole


def _integers_within(low: Bound | None, high: Bound | None) -> tuple[int | None, int | None]:
    """The least and greatest integers that satisfy the bounds; the first may be larger."""
    return None if low is None else _integer_from(low), None if high is None else -_integer_from(_negated(high))


def magnitudes_between(low: Decimal, high: Decimal | None) -> Expr:
    """Unsigned decimals with a point, and normalised exponent forms, from ``low >= 0`` to ``high``."""
    return alt(_plain_decimals(low, high), _scientific(low, high))


@bounded_cache
def fractional(integral_floats: bool) -> Expr:
    """Texts of numbers that are not integers: with any spelling but an integer's, or (``integral_floats``) with a value that
    is not whole.

    A fraction that is closer to a whole number than half the distance between doubles there reads as that number. Exponents,
    where the value counts, are negative.
    """
    if not integral_floats:
        return both(NUMBER, complement(INTEGER))
    sign = optional(MINUS)
    parts = [cat(literal(b"0."), both(_ANY_FRACTION, complement(repeat(literal(b"0"))), _fraction_at_most("9" * 16)))]
    for power in range(52):
        gap = (Decimal(2) ** (power - 53)).quantize(Decimal((0, (1,), -18)), rounding=ROUND_CEILING, context=CONTEXT)
        low, high = _split_decimal(gap + Decimal((0, (1,), -18)))[1], _split_decimal(1 - gap - Decimal((0, (1,), -18)))[1]
        parts.append(cat(natural_range(1 << power, (2 << power) - 1), POINT, fraction_between(low, high)))
    small = cat(NONZERO, optional(cat(POINT, repeat(DIGIT, 1, 15))), exponent_between(-1, -1))
    tiny = cat(_ANY_MANTISSA, exponent_between(_SMALLEST_POWER, -2))
    tiniest = cat(_mantissa(Decimal(3), _BELOW_TEN), exponent_between(_SMALLEST_POWER - 1, _SMALLEST_POWER - 1))
    return cat(sign, alt(*parts, small, tiny, tiniest))


@counted
def number_expr(
    types: int,
    low: Bound | None,
    high: Bound | None,
    integral_floats: bool,
    units: tuple[int | float, ...] = (),
    no_units: tuple[int | float, ...] = (),
) -> Expr:
    """Numbers of the given type bits within the bounds; ``EMPTY`` if there are none.

    ``integral_floats``: ``1.0`` is an integer (Draft 6 and later). ``units``, ``no_units``: the ``multipleOf`` values that must
    hold, and that must not. Exact, and complete up to the choices of serialisation above and in ``multiples``.
    """
    if units or no_units:
        return _multiples(types, low, high, integral_floats, units, no_units)
    whole_only = not types & FRACTION_BIT
    if low is None and high is None and types & INTEGER_BIT:
        if whole_only:
            return INTEGRAL if integral_floats else INTEGER
        return NUMBER
    bottom, top = _integers_within(low, high)
    wholes = integer_range(bottom, top) if bottom is None or top is None or bottom <= top else EMPTY
    if not whole_only:
        return _with_fractions(wholes, low, high)
    return _with_points(wholes, low, high, bottom, top) if integral_floats else wholes


def _multiples(
    types: int,
    low: Bound | None,
    high: Bound | None,
    integral_floats: bool,
    units: tuple[int | float, ...],
    no_units: tuple[int | float, ...],
) -> Expr:
    """:func:`number_expr` for multiples of all of ``units`` and none of ``no_units``."""
    unit = common_unit(units) if units else None
    others = tuple(common_unit((u,)) for u in no_units)
    whole_only = not types & FRACTION_BIT
    if whole_only or unit == 1:
        unit, others = Fraction(unit.numerator if unit else 1), tuple(Fraction(u.numerator) for u in others)
        points = integral_floats or not whole_only
        if unit == 1 and not others:
            return number_expr(INTEGER_BIT, low, high, points)
    elif unit is None and all(u.denominator == 1 for u in others):
        whole = number_expr(INTEGER_BIT, low, high, True, (), no_units)
        return alt(whole, both(number_expr(types, low, high, True), fractional(True)))
    else:
        points = True
    exact = any(isinstance(u, float) for u in no_units)
    if unit is not None and unit.denominator == 1:
        return _multiple_expr(unit, _integers_within(low, high), points, others, exact)
    if unit is not None:
        return _multiple_expr(unit, _multiples_within(low, high), points, others, exact)
    places = max(map(decimals, others))
    coarse = _multiple_expr(Fraction(1, 10**places), _multiples_within(low, high), points, others, exact)
    return alt(coarse, both(number_expr(types, low, high, True), _finer(places)))


def _multiples_within(low: Bound | None, high: Bound | None) -> tuple[Decimal | int | None, Decimal | int | None]:
    """The least and greatest numbers within the bounds. Multiples as large as ``EXACT_FLOAT`` are written with digits alone."""
    bottom, top = _integers_within(low, high)
    first = _decimal_from(low) if low is not None and abs(low[0]) < EXACT_FLOAT else bottom
    last = _decimal_to(high) if high is not None and abs(high[0]) < EXACT_FLOAT else top
    return first, last


@bounded_cache
def _finer(places: int) -> Expr:
    """Decimals without exponents that have a non-zero digit more than ``places`` after the point, so they are no multiples of a
    number with fewer places. They have as many digits as multiples have.
    """
    after = cat(_any_digits(places), repeat(DIGIT, 0, EXACT_DIGITS), NONZERO)
    digits = both(cat(natural_range(0, None), POINT, after), repeat(byte_class(b"0123456789."), 1, EXACT_DIGITS + 1))
    return cat(optional(MINUS), digits, repeat(ZERO, 0, 20))


def _with_points(wholes: Expr, low: Bound | None, high: Bound | None, bottom: int | None, top: int | None) -> Expr:
    """The whole numbers ``wholes``, from ``bottom`` to ``top``, and their spellings with a point or an exponent.

    A text with a point reads as a double, so these are written only where doubles are exact.
    """
    near = integer_range(
        -EXACT_FLOAT if bottom is None else max(bottom, -EXACT_FLOAT), EXACT_FLOAT if top is None else min(top, EXACT_FLOAT)
    )
    negative = cat(MINUS, _large_wholes(high and _negated(high), low and _negated(low)))
    parts = [wholes, cat(near, POINT_ZEROS), _large_wholes(low, high), negative]
    if (bottom is None or bottom <= 0) and (top is None or top >= 0):
        parts.append(ZERO_WITH_EXPONENT)
    return alt(*parts)


def _with_fractions(wholes: Expr, low: Bound | None, high: Bound | None) -> Expr:
    """All numbers within bounds; ``wholes`` are those without a point or an exponent."""
    within = _decimals_within(low, high)
    if within is None:
        return wholes
    parts = _with_signs(lambda low, high: magnitudes_between(low, high) if low or high is not None else MAGNITUDE, *within)
    return alt(wholes, *parts, ZERO_WITH_EXPONENT) if len(parts) == 2 else alt(wholes, *parts)
