"""The parsed form of a schema: one :class:`Subschema` for each schema object, with its keywords as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cdplugin.errors import GrammarError, LimitExceeded, shown
from cdplugin.frontends.json_schema import strings
from cdplugin.frontends.json_schema.dialect import ALL_TYPES, ARRAY_BIT, NUMBER_BITS, OBJECT_BIT, STRING_BIT
from cdplugin.frontends.json_schema.numbers import Bound
from cdplugin.frontends.json_schema.refs import Resource
from cdplugin.frontends.json_schema.source import describe
from cdplugin.limits import BEYOND_TEXT, Limits, at_most

Scope = tuple[tuple[str, int], ...]
"""Dynamic anchors in scope, each with the number of its outermost resource; empty in documents without ``$dynamicRef``."""


@dataclass(eq=False, slots=True)
class ArrayPart:
    """The array keywords: ``prefixItems``, ``items``, ``minItems``, ``maxItems``, ``contains``, ``uniqueItems``.

    ``rest`` None: any items. ``contains``: ``(subschema, at least, at most or None)``. ``matching``: the ``contains`` schemas
    that evaluate items, whatever the counts.
    """

    prefix: tuple[Subschema, ...] = ()
    rest: Subschema | None = None
    low: int = 0
    high: int | None = None
    contains: tuple[tuple[Subschema, int, int | None], ...] = ()
    matching: tuple[Subschema, ...] = ()
    unique: bool = False

    def item(self, i: int) -> Subschema | None:
        """The subschema of item ``i``, None if it may be anything."""
        return self.prefix[i] if i < len(self.prefix) else self.rest


@dataclass(eq=False, slots=True)
class ObjectPart:
    """The object keywords: ``properties``, ``patternProperties``, ``propertyNames``, ``minProperties`` and so on.

    ``additional`` and ``names`` None: no restriction. ``patterns``: ``(pattern, subschema)``. ``some``: conditions.
    """

    properties: dict[str, Subschema] = field(default_factory=dict)
    patterns: tuple[tuple[str, Subschema], ...] = ()
    required: tuple[str, ...] = ()
    additional: Subschema | None = None
    names: Subschema | None = None
    some: tuple[Some, ...] = ()
    low: int = 0
    high: int | None = None


class Some(NamedTuple):
    """A condition, which only complements make: some member has a name valid under ``names`` and a value valid under
    ``values``; or its name is in ``own`` (names that ``names`` excludes, each with a subschema) and its value is valid there.
    """

    names: Subschema
    values: Subschema
    own: tuple[tuple[str, Subschema], ...] = ()


class Refused(NamedTuple):
    """A keyword that is not enforced. ``types``: bits of the types it restricts; ``why``: where or for what."""

    keyword: str
    types: int
    why: str


class Logic(NamedTuple):
    """A combinator other than a conjunction or a disjunction; it is expanded when a place needs it.

    ``kind`` is "not" (one member), "oneOf", "if" (condition, ``then``, ``else``), or "any": the branches of an ``anyOf`` that
    always holds and matters only to ``unevaluatedProperties`` and ``unevaluatedItems``.
    """

    kind: str
    members: tuple[Subschema, ...]


@dataclass(eq=False, slots=True, repr=False)
class Subschema:
    """One schema object at one place, read and checked.

    Attributes
    ----------
    schema, pointer, resource : the schema object, its JSON Pointer, and its resource.
    scope : the dynamic scope in which it was met.
    types : bits of the types that ``type`` allows.
    values : the values of ``enum`` (or the one of ``const``), or None.
    excluded : scalars that are forbidden (by ``not``).
    low, high : numeric bounds, or None.
    multiples, no_multiples : values of ``multipleOf``; those that are below ``not``.
    text : ``(minLength, maxLength, patterns)``, or None.
    formats : the ``format`` and ``contentEncoding`` of a string.
    unlike : patterns that must not match a string, and formats that it must not have.
    array, object : array and object keywords, or None.
    before, after : subschemas of the same instance location (``allOf``, ``$ref``), by whether they stand before or after this
        schema's own ``properties``; that fixes the order of members.
    choices : for each ``anyOf`` of the same location, its branches.
    logic : ``oneOf``, ``not`` and ``if`` of the same location.
    unevaluated : ``unevaluatedProperties`` and ``unevaluatedItems``, None where absent.
    refused : keywords that are not enforced.
    is_plain : whether it is known to have no keyword but ``type``.
    """

    schema: Any
    pointer: str
    resource: Resource
    scope: Scope = ()
    types: int = ALL_TYPES
    values: list[Any] | None = None
    excluded: tuple[Any, ...] = ()
    low: Bound | None = None
    high: Bound | None = None
    multiples: tuple[int | float, ...] = ()
    no_multiples: tuple[int | float, ...] = ()
    text: tuple[int, int | None, tuple[str, ...]] | None = None
    formats: tuple[strings.Format, ...] = ()
    unlike: tuple[str | strings.Format, ...] = ()
    array: ArrayPart | None = None
    object: ObjectPart | None = None
    before: tuple[Subschema, ...] = ()
    after: tuple[Subschema, ...] = ()
    choices: tuple[tuple[Subschema, ...], ...] = ()
    logic: tuple[Logic, ...] = ()
    unevaluated: tuple[Subschema | None, Subschema | None] = (None, None)
    refused: tuple[Refused, ...] = ()
    is_plain: bool = False

    def __repr__(self) -> str:
        return f"Subschema({self.pointer or '/'})"

    def same_place(self, **said: Any) -> Subschema:
        """A subschema of the same place that asserts only ``said``, by attribute."""
        return Subschema({}, self.pointer, self.resource, **said)

    def constrains_itself(self) -> bool:
        """Whether it asserts anything itself, apart from ``before``, ``after``, ``choices`` and ``logic``."""
        return self.types != ALL_TYPES or self.limited() != 0

    def limited(self) -> int:
        """Bits of the types of which it may itself reject some values, other than by ``type``."""
        return self.limited_unlisted() if self.values is None else ALL_TYPES

    def limited_unlisted(self) -> int:
        """:meth:`limited`, without the restriction by ``values``."""
        if self.excluded:
            return ALL_TYPES
        bits = 0
        for refused in self.refused:
            bits |= refused.types
        if self.low or self.high or self.multiples or self.no_multiples:
            bits |= NUMBER_BITS
        if self.text or self.formats or self.unlike:
            bits |= STRING_BIT
        if self.object or self.unevaluated[0]:
            bits |= OBJECT_BIT
        if self.array or self.unevaluated[1]:
            bits |= ARRAY_BIT
        return bits

    def is_alone(self) -> bool:
        """Whether it has no ``before``, ``after``, ``choices`` and ``logic``."""
        return not (self.before or self.after or self.choices or self.logic)

    def is_anything(self) -> bool:
        """Whether it accepts every instance, as far as this object's own keywords show."""
        return self.is_alone() and not self.constrains_itself()


def bounds_of(parts: Sequence[ArrayPart] | Sequence[ObjectPart]) -> tuple[int, int | None]:
    """The least and the most items or members that all of ``parts`` allow; ``None``: no bound."""
    high = min((part.high for part in parts if part.high is not None), default=None)
    return max((part.low for part in parts), default=0), high


def shortest_values(subschemas: Iterable[Subschema]) -> list[Any] | None:
    """The shortest ``values`` list of the subschemas; None if none has one."""
    shortest: list[Any] | None = None
    for sub in subschemas:
        if sub.values is not None and (shortest is None or len(sub.values) < len(shortest)):
            shortest = sub.values
    return shortest


def contradiction(sub: Subschema) -> str:
    """The keywords of a schema that visibly contradict each other, for messages; empty if there are none."""
    if sub.types == 0:
        return "false"
    if sub.values == []:
        return "an empty enum"
    text, array, members = sub.text or (0, None, ()), sub.array or ArrayPart(), sub.object or ObjectPart()
    above, below = ("exclusiveM" if bound and bound[1] else "m" for bound in (sub.low, sub.high))
    for least, low, most, high in (
        ("minLength", text[0], "maxLength", text[1]),
        ("minItems", array.low, "maxItems", array.high),
        ("minProperties", members.low, "maxProperties", members.high),
        (f"{above}inimum", sub.low and sub.low[0], f"{below}aximum", sub.high and sub.high[0]),
    ):
        if low is not None and high is not None and low > high:
            return f"{least} {shown(low)} and {most} {shown(high)}"
    return ""


def ref_loop(at: str, found: str = "") -> GrammarError:
    """The error for a schema that applies itself to the same value (Core, 9.4.1); ``found``: the way back."""
    message = "$ref loop: the schema applies itself to the same value without end"
    return GrammarError(message, location=at, keyword="$ref", found=found)


def count_bounds(schema: dict, low: str, high: str, at: str, limits: Limits) -> tuple[int, int | None]:
    """The values of two keywords as the bounds of ``x{low,high}``: 0 and None where they are absent.

    An upper bound that no text reaches counts as none. Raises ``LimitExceeded`` for a relevant count above
    ``limits.max_repeat``, and ``GrammarError`` for a value that is not a count, with keyword and JSON Pointer.
    """
    least = _count(schema[low], low, at) if low in schema else 0
    most = _count(schema[high], high, at) if high in schema else None
    if most is not None and most > max(BEYOND_TEXT, limits.max_repeat):
        most = None
    for keyword, count in ((low, least), (high, most)):
        if count is not None and count > limits.max_repeat:
            expected, found = at_most(limits, "max_repeat"), describe(schema[keyword])
            raise LimitExceeded(
                f"{keyword} is too large", location=f"{at}/{keyword}", keyword=keyword, expected=expected, found=found
            )
    return least, most


def _count(value: Any, keyword: str, at: str) -> int:
    """A non-negative integer (Validation, section 6.3.1); 2.0 counts as one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or value != int(value):
        location = f"{at}/{keyword}"
        expected, found = "a non-negative integer", describe(value)
        raise GrammarError(f"keyword {keyword!r}", location=location, keyword=keyword, expected=expected, found=found)
    return int(value)
