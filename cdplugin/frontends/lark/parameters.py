"""Functions and conditions on the 64-bit parameter of parametric rules: ``set_bit(0)``, ``%if lt([0:3], 5)``.

Names and meanings are LLGuidance's (docs/parametric.md): numbers are unsigned, ``[x:y]`` are the bits from ``x`` to ``y``,
``y`` excluded, and ``_`` is all bits.

>>> apply(("set_bit", (3,)), 1), apply(("incr", ((0, 2),)), 3), holds(("bit_count_ge", ((0, 64), 2)), 5)
(9, 3, True)
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

BITS = 64
MASK = (1 << BITS) - 1

BIT, VALUE, RANGE_ARGUMENT, COUNT, CONDITION = range(5)
MOST = {BIT: BITS - 1, VALUE: MASK, COUNT: BITS}
"""The greatest value of each kind of argument."""

FUNCTIONS: dict[str, tuple[int, ...]] = {
    "set_bit": (BIT,),
    "clear_bit": (BIT,),
    "bit_and": (VALUE,),
    "bit_or": (VALUE,),
    "incr": (RANGE_ARGUMENT,),
    "decr": (RANGE_ARGUMENT,),
}
"""The functions that may follow ``name::`` (besides ``_`` and a number), with the kinds of their arguments."""

_COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
CONDITIONS: dict[str, tuple[int, ...]] = {
    "true": (),
    "bit_clear": (BIT,),
    "bit_set": (BIT,),
    "is_ones": (RANGE_ARGUMENT,),
    "is_zeros": (RANGE_ARGUMENT,),
    **dict.fromkeys(_COMPARISONS, (RANGE_ARGUMENT, VALUE)),
    **{f"bit_count_{name}": (RANGE_ARGUMENT, COUNT) for name in _COMPARISONS},
    "and": (CONDITION, CONDITION),
    "or": (CONDITION, CONDITION),
    "not": (CONDITION,),
}
"""The conditions that may follow ``%if``, with the kinds of their arguments."""

Function = tuple[str, tuple[Any, ...]]
Condition = tuple[str, tuple[Any, ...]]

SELF: Function = ("_", ())


def constant(value: int) -> Function:
    """The constant function."""
    return ("constant", (value,))


def needs_parameter(function: Function) -> bool:
    """Whether the result depends on the parameter."""
    return function[0] != "constant"


def _field(parameter: int, bits: tuple[int, int]) -> int:
    return parameter >> bits[0] & _ones(bits)


def _ones(bits: tuple[int, int]) -> int:
    return (1 << bits[1] - bits[0]) - 1


_APPLY: dict[str, Callable[..., int]] = {
    "_": lambda parameter: parameter,
    "constant": lambda _, value: value,
    "set_bit": lambda parameter, bit: parameter | 1 << bit,
    "clear_bit": lambda parameter, bit: parameter & ~(1 << bit),
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "incr": lambda parameter, bits: parameter + (0 if _field(parameter, bits) == _ones(bits) else 1 << bits[0]),
    "decr": lambda parameter, bits: parameter - (0 if _field(parameter, bits) == 0 else 1 << bits[0]),
}


def apply(function: Function, parameter: int) -> int:
    """The parameter that a reference passes on."""
    return _APPLY[function[0]](parameter, *function[1])


def holds(condition: Condition, parameter: int) -> bool:
    """Whether a condition holds. It recurses; the parser bounds the nesting."""
    name, args = condition
    if name == "and":
        return holds(args[0], parameter) and holds(args[1], parameter)
    if name == "or":
        return holds(args[0], parameter) or holds(args[1], parameter)
    if name == "not":
        return not holds(args[0], parameter)
    if name == "true":
        return True
    if name in ("bit_set", "bit_clear"):
        return bool(parameter >> args[0] & 1) == (name == "bit_set")
    value = _field(parameter, args[0])
    if name == "is_zeros":
        return value == 0
    if name == "is_ones":
        return value == _ones(args[0])
    if name.startswith("bit_count_"):
        return _COMPARISONS[name.removeprefix("bit_count_")](value.bit_count(), args[1])
    return _COMPARISONS[name](value, args[1])
