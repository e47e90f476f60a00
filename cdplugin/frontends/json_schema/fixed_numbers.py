"""Numbers that ``enum`` and ``const`` list, in their spellings: ``2``, ``2.0``, ``2e0``, ``2.00E+00``.

A number is written with digits alone; with a point, and at most 20 zeros more than it needs; and with an exponent, one digit
before the point that is not zero. What is alike in many numbers is shared, so that 10,000 of them are a few sets of texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from cdplugin.expr import Expr, alt, byte_class, cat, literal, literals, optional, repeat
from cdplugin.frontends.json_schema.numbers import CONTEXT, DIGIT, MAX_DIGITS, MAX_FRACTION, exponent_between

_ZERO = literal(b"0")
_MORE_ZEROS = repeat(_ZERO, 0, 20)
_POINT_ZEROS = cat(literal(b"."), repeat(_ZERO, 1, 20))
_ZERO_EXPONENT = cat(byte_class(b"eE"), optional(byte_class(b"+-")), repeat(DIGIT, 1, 2))


def fixed_numbers(whole: Iterable[int], real: Iterable[int | float]) -> Expr:
    """The spellings with digits alone of ``whole``, and those with a point or an exponent of ``real``.

    A text with a point or an exponent stands for a double, so of integers beyond those that doubles hold there is none.
    """
    digits = {text for value in whole for text in ([b"0", b"-0"] if value == 0 else [str(value).encode()])}
    forms = _Forms()
    for value in real:
        forms.add(value)
    shared = digits & forms.before_point
    parts = [literals(digits - shared), cat(literals(shared), optional(_POINT_ZEROS))]
    parts += [cat(literals(forms.before_point - shared), _POINT_ZEROS), cat(literals(forms.with_point), _MORE_ZEROS)]
    for power, (plain, pointed) in forms.mantissas.items():
        mantissa = alt(cat(literals(plain), optional(_POINT_ZEROS)), cat(literals(pointed), _MORE_ZEROS))
        parts.append(cat(mantissa, exponent_between(power, power)))
    if b"0" in forms.before_point:
        parts.append(cat(optional(literal(b"-")), _ZERO, optional(_POINT_ZEROS), _ZERO_EXPONENT))
    return alt(*parts)


class _Forms:
    """``before_point``: what stands before ``.0``; ``with_point``: texts with a point; ``mantissas``: by exponent, those
    without and with a point.
    """

    def __init__(self) -> None:
        self.before_point: set[bytes] = set()
        self.with_point: set[bytes] = set()
        self.mantissas: dict[int, tuple[set[bytes], set[bytes]]] = {}

    def add(self, value: int | float) -> None:
        if value == 0:
            self.before_point |= {b"0", b"-0"}
            return
        try:
            double = float(value)
        except OverflowError:
            return
        if double == value:
            self._add_decimal(Decimal(repr(double)).normalize(CONTEXT))
            if abs(double) >= 1 << 53 and abs(value) < 10**MAX_DIGITS and double.is_integer():
                self._add_decimal(Decimal(int(value)).normalize(CONTEXT))

    def _add_decimal(self, number: Decimal) -> None:
        sign = "-" if number.is_signed() else ""
        digits = "".join(map(str, number.as_tuple().digits))
        power = number.adjusted()
        if power < MAX_DIGITS and len(digits) - 1 - power <= MAX_FRACTION:
            text = f"{number:f}".encode()
            (self.with_point if b"." in text else self.before_point).add(text)
        plain, pointed = self.mantissas.setdefault(power, (set(), set()))
        if len(digits) == 1:
            plain.add((sign + digits).encode())
        else:
            pointed.add(f"{sign}{digits[0]}.{digits[1:]}".encode())
