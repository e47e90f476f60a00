"""Fixed values: the spellings of ``enum`` and ``const`` values, and whether a value is valid under a subschema.

:meth:`Evaluator.holds` follows the validation vocabulary for what the grammar enforces, so that an enumeration beside other
keywords is filtered exactly. Nothing recurses on the depth of a value or schema (:func:`cdplugin.walks.driven`), and a part
of a value is judged once under each subschema, however many references lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import product
from types import MappingProxyType
from typing import Any

from cdplugin import tally
from cdplugin.expr import ALT_OP, Expr, alt, cat, literal, literals
from cdplugin.frontends.json_schema.dialect import (
    ARRAY_BIT,
    FALSE_BIT,
    FRACTION_BIT,
    INTEGER_BIT,
    NULL_BIT,
    OBJECT_BIT,
    STRING_BIT,
    TRUE_BIT,
)
from cdplugin.frontends.json_schema.fixed_numbers import fixed_numbers
from cdplugin.frontends.json_schema.layout import Layout
from cdplugin.frontends.json_schema.matching import finds, has_format
from cdplugin.frontends.json_schema.multiples import is_multiple
from cdplugin.frontends.json_schema.names import children_of
from cdplugin.frontends.json_schema.numbers import EXACT_FLOAT
from cdplugin.frontends.json_schema.numbers import number_expr as number_between
from cdplugin.frontends.json_schema.schema import ArrayPart, ObjectPart, Subschema
from cdplugin.frontends.json_schema.strings import spellings
from cdplugin.frontends.json_schema.unevaluated import holding, mentions_of
from cdplugin.memory import bounded_cache
from cdplugin.walks import driven

_MOST_TYPED, _MOST_COPIED = 64, 4_096
WORDS = MappingProxyType({None: b"null", True: b"true", False: b"false"})


def typed(value: Any, integral_floats: bool) -> tuple[Any, ...]:
    """The instances that equal a value, the value first. In Draft 4 the spelling of a number is its type, so each whole number
    comes as an integer and as a float. An array or object with more than 64 such instances, or 4,096 parts in them, is returned
    alone.
    """
    if integral_floats or value is None or isinstance(value, (bool, str)):
        return (value,)
    ways: list[tuple[int | float, ...]] = []
    n_ways = 1
    for number in _numbers_in(value):
        ways.append(_ways(number))
        n_ways *= len(ways[-1])
        if n_ways > _MOST_TYPED:
            return (value,)
    if n_ways == 1 or n_ways * n_parts(value) > _MOST_COPIED:
        return (value,)
    return tuple(_with_numbers(value, iter(numbers)) for numbers in product(*ways))


def _ways(number: int | float) -> tuple[int | float, ...]:
    if isinstance(number, float):
        return (number, int(number)) if number.is_integer() else (number,)
    return (number, float(number)) if abs(number) <= EXACT_FLOAT else (number,)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _parts_of(value: Any) -> Iterator[Any]:
    stack = [value]
    while stack:
        item = stack.pop()
        yield item
        if isinstance(item, (list, dict)):
            stack += item.values() if isinstance(item, dict) else item


def n_parts(value: Any) -> int:
    """The number of values inside a value, itself included."""
    return sum(1 for _ in _parts_of(value))


def _numbers_in(value: Any) -> Iterator[int | float]:
    return filter(_is_number, _parts_of(value))


def is_typed(value: Any) -> bool:
    """Whether a value equals another one in which a number has another type."""
    return any(len(_ways(number)) > 1 for number in _numbers_in(value))


def _with_numbers(value: Any, numbers: Iterator[int | float]) -> Any:
    """A copy with other numbers, in the order of :func:`_numbers_in`."""
    whole = [value]
    stack: list[tuple[Any, Any]] = [(whole, 0)]
    while stack:
        holder, key = stack.pop()
        item = holder[key]
        if isinstance(item, (list, dict)):
            holder[key] = item.copy()
            stack += [(holder[key], inner) for inner in (item if isinstance(item, dict) else range(len(item)))]
        elif _is_number(item):
            holder[key] = next(numbers)
    return whole[0]


def integer_expr(value: int, integral_floats: bool) -> Expr:
    """An integer in the spellings of ``numbers``."""
    return number_between(INTEGER_BIT, (value, False), (value, False), integral_floats)


def number_expr(values: Iterable[int | float], integral_floats: bool) -> Expr:
    """Numbers in all their spellings. Without ``integral_floats`` only spellings of the type of each value (``1.0`` only if it
    is a float). The compilation is charged for the nodes, once for the same numbers.
    """
    listed = tuple(values)
    if integral_floats:
        found = _few_numbers(listed) if len(listed) <= _FEW else _numbers(listed)
    else:
        by_type = tuple(v for v in listed if isinstance(v, int)), tuple(v for v in listed if isinstance(v, float))
        found = _few_fixed(*by_type) if len(listed) <= _FEW else fixed_numbers(*by_type)
    here = tally.current()
    if here is None:
        return found
    question = (number_expr, listed) if integral_floats else (number_expr, *map(repr, listed))  # 1 equals 1.0
    # one node for each form, as an arena counts them: what follows the digits is shared
    return here.take(found, ((question, 1 + (len(found.args) if found.op == ALT_OP else 1)),))


def _numbers(values: tuple[int | float, ...]) -> Expr:
    return fixed_numbers([int(value) for value in values if isinstance(value, int) or value.is_integer()], values)


_FEW = 8
_few_numbers, _few_fixed = bounded_cache(_numbers), bounded_cache(fixed_numbers)


def _scalar(value: Any, integral_floats: bool, as_spelt: bool) -> Expr:
    if isinstance(value, str):
        return literals(spellings(value))
    if value is None or isinstance(value, bool):
        return literal(WORDS[value])
    return number_expr([value] if as_spelt or integral_floats else _ways(value), integral_floats)


class Scalars:
    """Collects the scalars of a place: expressions, fixed texts, and fixed numbers by ``integral_floats``."""

    __slots__ = ("numbers", "parts", "texts")

    def __init__(self) -> None:
        self.parts: dict[Expr, None] = {}
        self.texts: set[bytes] = set()
        self.numbers: dict[bool, list[int | float]] = {}

    def union(self, known: dict[frozenset[Expr], Expr]) -> Expr | None:
        """All of them as one expression, or None. ``known``: unions made before; it grows."""
        for integral_floats, listed in self.numbers.items():
            self.parts[number_expr(listed, integral_floats)] = None
        if self.texts:
            self.parts[literals(self.texts)] = None
        if len(self.parts) < 2:
            return next(iter(self.parts), None)
        key = frozenset(self.parts)
        if key not in known:
            known[key] = alt(*self.parts)
        return known[key]


def has_orders(value: list | dict) -> bool:
    """Whether a fixed value holds an object of several members, whose order may vary."""
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if len(item) > 1:
                return True
            stack += item.values()
        elif isinstance(item, list):
            stack += item
    return False


def compound_expr(value: list | dict, layout: Layout, integral_floats: bool = True, *, as_spelt: bool = False) -> Expr:
    """A fixed array or object as one lexeme, with the layout's white space inside. The compilation is charged for its parts.
    ``as_spelt``: integers and floats are different numbers, so each keeps its type.
    """
    parts: list[Expr] = []
    stack: list[Any] = [value]  # values, or (expression,) to emit as it is
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            parts.append(item[0])
        elif isinstance(item, list):
            stack.append((cat(layout.space, literal(b"]")),))
            for i in range(len(item) - 1, -1, -1):
                stack += [item[i], (layout.space,)]
                if i:
                    stack.append((layout.comma,))
            stack.append((literal(b"["),))
        elif isinstance(item, dict):
            stack.append((cat(layout.space, literal(b"}")),))
            for i, (name, member) in reversed(list(enumerate(item.items()))):
                stack += [member, (layout.space,), (layout.key(name),)]
                if i:
                    stack.append((layout.comma,))
            stack.append((literal(b"{"),))
        else:
            parts.append(_scalar(item, integral_floats, as_spelt))
    here = tally.current()
    if here is not None:
        here.add(len(parts))
    return cat(*parts)


def canonical(value: Any) -> str:
    """A text that two values share exactly if they are equal (Core, section 4.2.2): 1 and 1.0 are, true and 1 are not."""
    if isinstance(value, str):
        return repr(value) + ","
    out: list[str] = []
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            out.append(item[0])
        elif isinstance(item, list):
            out.append("[")
            stack.append(("]",))
            stack += reversed(item)
        elif isinstance(item, dict):
            out.append("{")
            stack.append(("}",))
            for name in sorted(item, reverse=True):
                stack += [item[name], (repr(name),)]
        elif isinstance(item, float) and item.is_integer():
            out.append(repr(int(item)))
        else:
            out.append(repr(item))
        out.append(",")
    return "".join(out)


def type_bit(value: Any, integral_floats: bool) -> int:
    """The type bit of a value."""
    if isinstance(value, str):
        return STRING_BIT
    if value is None:
        return NULL_BIT
    if isinstance(value, bool):
        return TRUE_BIT if value else FALSE_BIT
    if isinstance(value, int):
        return INTEGER_BIT
    if isinstance(value, float):
        return INTEGER_BIT if integral_floats and value.is_integer() else FRACTION_BIT
    return ARRAY_BIT if isinstance(value, list) else OBJECT_BIT


Verdict = Generator[tuple[Subschema, Any], bool, bool]


_JUDGED_FOR_A_STEP = 16


class Evaluator:
    """Validates fixed values against subschemas. It calls ``refuse(sub, keyword, why)`` for what it cannot judge, and ``count``
    with a step of work for each sixteen pairs of a subschema and a value.
    """

    def __init__(self, refuse: Callable[[Subschema, str, str], None], count: Callable[[int], None]) -> None:
        self._refuse = refuse
        self._count = count
        self._uncounted = 0
        self._sets: dict[int, tuple[Sequence[Any], frozenset[str]]] = {}
        self._last: tuple[Any, str] | None = None

    def holds(self, sub: Subschema, value: Any, *, itself: bool = False) -> bool:
        """Whether ``value`` is valid under ``sub``. ``itself``: ignore ``allOf``, ``$ref``, ``anyOf`` and other applicators."""
        return driven(self._judge, sub, value, itself, key=lambda below, part: (below, id(part)))

    def _count_judged(self) -> None:
        self._uncounted += 1
        if self._uncounted == _JUDGED_FOR_A_STEP:
            self._uncounted = 0
            self._count(1)

    def _judge(self, sub: Subschema, value: Any, itself: bool = False) -> Verdict:
        """:meth:`holds` as a generator for :func:`driven`: it yields ``(subschema, value)`` and is sent the answer."""
        self._count_judged()
        bit = type_bit(value, sub.resource.dialect.integral_floats)
        if not bit & sub.types:
            return False
        if sub.values is not None and not self._is_among(sub.values, value):
            return False
        if sub.excluded and self._is_among(sub.excluded, value):
            return False
        for keyword, types, why in sub.refused:
            if types & bit:
                self._refuse(sub, keyword, why)
        if bit & STRING_BIT:
            holds = self._string_holds(sub, value)
        elif bit & (INTEGER_BIT | FRACTION_BIT):
            holds = _number_holds(sub, value)
        elif bit & ARRAY_BIT:
            holds = sub.array is None or (yield from _array_holds(sub.array, value))
        elif bit & OBJECT_BIT:
            holds = sub.object is None or (yield from _object_holds(sub.object, value))
        else:
            holds = True
        if not holds or (sub.unevaluated != (None, None) and not (yield from self._unevaluated_holds(sub, value))):
            return False
        return itself or (yield from _applicators_hold(sub, value))

    def _string_holds(self, sub: Subschema, value: str) -> bool:
        """Lengths, patterns and formats, including negated ones."""
        low, high, patterns = sub.text or (0, None, ())
        if len(value) < low or (high is not None and len(value) > high) or not all(finds(p, value) for p in patterns):
            return False
        for unlike in sub.unlike:
            found = finds(unlike, value) if isinstance(unlike, str) else has_format(unlike, value)
            if found is None:
                self._refuse(sub, "format", f"for the fixed value {value!r}: whether it has the format is not known")
            if found is not False:
                return False
        for form in sub.formats:
            found = has_format(form, value)
            if found is None:
                self._refuse(sub, form.keyword, f"for the fixed value {value!r}: whether it has the format is not known")
            if not found:
                return False
        return True

    def _unevaluated_holds(self, sub: Subschema, value: Any) -> Verdict:
        """``unevaluatedProperties`` or ``unevaluatedItems``."""
        below = sub.unevaluated[isinstance(value, list)] if isinstance(value, (dict, list)) else None
        if below is None:
            return True
        evaluated = yield from self._evaluated(sub, value)
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            if key not in evaluated and not (yield below, member):
                return False
        return True

    def _evaluated(self, sub: Subschema, value: Any) -> Generator[tuple[Subschema, Any], bool, set[Any]]:
        """The names or indices that ``sub`` evaluates, without its own ``unevaluated*`` keywords."""
        out: set[Any] = set()
        judged: dict[Subschema, bool] = {}
        while True:  # until every branch that matters is judged
            asked: list[Subschema] = []

            def holds(branch: Subschema, asked: list[Subschema] = asked) -> bool:
                if branch not in judged:
                    asked.append(branch)
                return judged.get(branch, False)

            parts = list(holding(sub, holds))
            self._count(len(parts) // _JUDGED_FOR_A_STEP)
            if not asked:
                break
            for branch in asked:
                judged[branch] = yield branch, value
        for part in parts:
            found = mentions_of(part, part is not sub)
            if isinstance(value, list):
                out.update(range(len(value) if found.all_items else found.prefix))
                for i, member in enumerate(value):
                    for wanted in found.matching:
                        if i not in out and (yield wanted, member):
                            out.add(i)
            else:
                for name in value:
                    if found.all_properties or name in found.names or any(finds(p, name) for p in found.patterns):
                        out.add(name)
        return out

    def _is_among(self, values: Sequence[Any], value: Any) -> bool:
        """Whether ``value`` equals one of the values of a subschema."""
        _, known = self._sets.get(id(values), (None, None))
        if known is None:
            known = frozenset(map(canonical, values))
            self._sets[id(values)] = (values, known)  # the reference keeps the id unique
        if self._last is None or self._last[0] is not value:  # many subschemas in turn judge one value
            self._last = value, canonical(value)
        return self._last[1] in known


def _number_holds(sub: Subschema, value: float) -> bool:
    """Bounds and multiples, including negated ones."""
    if not all(is_multiple(value, unit) for unit in sub.multiples):
        return False
    if any(is_multiple(value, unit) for unit in sub.no_multiples):
        return False
    if sub.low and (value < sub.low[0] or (sub.low[1] and value == sub.low[0])):
        return False
    return not sub.high or not (value > sub.high[0] or (sub.high[1] and value == sub.high[0]))


def _array_holds(array: ArrayPart, value: list[Any]) -> Verdict:
    """Length, items, ``contains`` and ``uniqueItems``."""
    if len(value) < array.low or (array.high is not None and len(value) > array.high):
        return False
    for i, member in enumerate(value):
        below = array.item(i)
        if below is not None and not (yield below, member):
            return False
    for wanted, least, most in array.contains:
        count = 0
        for member in value:
            if (yield wanted, member):
                count += 1
        if count < least or (most is not None and count > most):
            return False
    return not array.unique or len({canonical(member) for member in value}) == len(value)


def _object_holds(part: ObjectPart, value: dict[str, Any]) -> Verdict:
    """Required names, number of members, values, names, and conditions that some member must meet."""
    if any(name not in value for name in part.required):
        return False
    if len(value) < part.low or (part.high is not None and len(value) > part.high):
        return False
    for name, member in value.items():
        for child in children_of(name, (part,)):
            if not (yield child, member):
                return False
        if part.names is not None and not (yield part.names, name):
            return False
    for some in part.some:
        own = dict(some.own)
        for name, member in value.items():
            wanted = own.get(name)
            if wanted is None and (yield some.names, name):
                wanted = some.values
            if wanted is not None and (yield wanted, member):
                break
        else:
            return False
    return True


def _applicators_hold(sub: Subschema, value: Any) -> Verdict:
    """The in-place applicators: ``allOf``, ``$ref``, ``anyOf``, ``oneOf``, ``not`` and ``if``."""
    for other in sub.before + sub.after:
        if not (yield other, value):
            return False
    for branches in sub.choices:
        for branch in branches:
            if (yield branch, value):
                break
        else:
            return False
    for item in sub.logic:
        if item.kind == "oneOf":
            count = 0
            for branch in item.members:
                if (yield branch, value):
                    count += 1
            if count != 1:
                return False
        elif item.kind == "not":
            if (yield item.members[0], value):
                return False
        elif item.kind == "if":
            condition, then, otherwise = item.members
            holds = yield condition, value
            if not (yield (then if holds else otherwise), value):
                return False
    return True
