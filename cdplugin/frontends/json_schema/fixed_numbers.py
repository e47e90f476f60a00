"""The numbers of ``enum`` and ``const`` in all their spellings: ``2``, ``2.0``, ``2e0``, ``2.00E+00``, ``20e-1``, ``0.2e1``.

A number is spelled with digits alone; with a point and at most 20 zeros more than necessary; and with an exponent, after one
non-zero digit before the point. Where at most 64 numbers are listed, the point before an exponent may also stand anywhere
among the digits, or up to 3 zeros away. Numbers share the parts of their spellings, so 10,000 of them are a few sets of texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from cdplugin.expr import Expr, alt, cat, literals, optional, repeat
from cdplugin.frontends.json_schema.numbers import (
    CONTEXT,
    EXACT_FLOAT,
    MAX_DIGITS,
    MAX_FRACTION,
    POINT_ZEROS,
    ZERO,
    ZERO_WITH_EXPONENT,
    exponent_between,
)
from cdplugin.memory import fixed_cache

_MORE_ZEROS = repeat(ZERO, 0, 20)
_OPTIONAL_ZEROS = optional(POINT_ZEROS)
_MOST_SHIFTED, _FURTHEST = 64, 3


def fixed_numbers(whole: Iterable[int], real: Iterable[int | float]) -> Expr:
    """The spellings with digits alone of ``whole``, and those with a point or an exponent of ``real``.

    A text with a point or an exponent denotes a double, so an integer that no double holds has none.
    """
    digits = {text for value in whole for text in ([b"0", b"-0"] if value == 0 else [str(value).encode()])}
    real = list(real)
    forms = _Forms(len(real) <= _MOST_SHIFTED)
    for value in real:
        forms.add(value)
    parts: list[Expr] = []
    if digits == forms.before_point:
        parts.append(cat(literals(digits), _OPTIONAL_ZEROS))
    else:
        parts += [literals(digits), cat(literals(forms.before_point), POINT_ZEROS)]
    if forms.with_point:
        parts.append(cat(literals(forms.with_point), _MORE_ZEROS))
    for power, (plain, pointed) in forms.mantissas.items():
        parts += [cat(literals(plain), _OPTIONAL_ZEROS, _exponent(power))] if plain else []
        parts += [cat(literals(pointed), _MORE_ZEROS, _exponent(power))] if pointed else []
    if b"0" in forms.before_point:
        parts.append(ZERO_WITH_EXPONENT)
    return alt(*parts)


@fixed_cache(1024, entry_bytes=4_000)
def _exponent(power: int) -> Expr:
    return exponent_between(power, power)


class _Forms:
    """Collects spellings. ``before_point``: texts before ``.0``; ``with_point``: texts with a point; ``mantissas``: by
    exponent, those without and with a point. ``shifted``: whether the point before an exponent may stand anywhere.
    """

    def __init__(self, shifted: bool) -> None:
        self._shifted = shifted
        self.before_point: set[bytes] = set()
        self.with_point: set[bytes] = set()
        self.mantissas: dict[int, tuple[set[bytes], set[bytes]]] = {}

    def add(self, value: int | float) -> None:
        if value == 0:
            self.before_point |= {b"0", b"-0"}
            return
        if -EXACT_FLOAT < value < EXACT_FLOAT and value == (whole := int(value)):
            text = str(abs(whole))
            self._note("-" if whole < 0 else "", text.rstrip("0"), len(text) - 1)
            self.before_point.add(str(whole).encode())
            return
        try:
            double = float(value)
        except OverflowError:
            return
        if double == value:
            self._add_decimal(Decimal(repr(double)).normalize(CONTEXT))
            if abs(double) >= EXACT_FLOAT and abs(value) < 10**MAX_DIGITS:
                self._add_decimal(Decimal(int(value)).normalize(CONTEXT))

    def _add_decimal(self, number: Decimal) -> None:
        sign = "-" if number.is_signed() else ""
        digits = "".join(map(str, number.as_tuple().digits))
        power = number.adjusted()
        if power < MAX_DIGITS and len(digits) - 1 - power <= MAX_FRACTION:
            text = f"{number:f}".encode()
            (self.with_point if b"." in text else self.before_point).add(text)
        self._note(sign, digits, power)

    def _note(self, sign: str, digits: str, power: int) -> None:
        """Add the spellings with an exponent of ``digits``, whose first digit counts units of ``10 ** power``."""
        for before in range(-_FURTHEST, len(digits) + _FURTHEST + 1) if self._shifted else (1,):
            plain, pointed = self.mantissas.setdefault(power + 1 - before, (set(), set()))
            if before >= len(digits):
                plain.add((sign + digits.ljust(before, "0")).encode())
            elif before > 0:
                pointed.add(f"{sign}{digits[:before]}.{digits[before:]}".encode())
            else:
                pointed.add(f"{sign}0.{'0' * -before}{digits}".encode())
