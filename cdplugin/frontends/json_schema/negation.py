"""Complements of subschemas, as subschemas again, by De Morgan's laws: for ``not``, ``oneOf`` and ``if``.

The complement of a schema is a disjunction of *atoms*: for each assertion of the schema, a subschema that asserts the opposite
and nothing else. Atoms of nested schemas are complements in turn. Nothing is copied: each schema has one complement object,
which is expanded only when a place needs it, so recursion through ``$ref`` ends as it does for schemas. An assertion without an
exact complement becomes an atom that refuses the keyword by name; that happens only if an instance could get there.

``oneOf`` is ``anyOf`` of "this branch and none of the others". Others that provably share no instance with the branch are left
out, which in most schemas are all of them. A type of which two branches allow any value has no valid value at all, so it is
excluded first. That way branches which restrict only objects, without requiring them (FHIR's resources), are compared as
objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, combinations
from typing import Any

from cdplugin.frontends.json_schema.dialect import (
    ALL_TYPES,
    ARRAY_BIT,
    FALSE_BIT,
    NULL_BIT,
    NUMBER_BITS,
    OBJECT_BIT,
    STRING_BIT,
    TRUE_BIT,
)
from cdplugin.frontends.json_schema.disjoint import Apart
from cdplugin.frontends.json_schema.names import Conjunction
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.schema import ArrayPart, Logic, ObjectPart, Refused, Some, Subschema
from cdplugin.frontends.json_schema.values import canonical, type_bit

Expansion = tuple[tuple[Subschema, ...], tuple[tuple[Subschema, ...], ...]]
"""Subschemas that also apply, and further choices, as in ``Subschema.after`` and ``Subschema.choices``."""

_MOST_POSITIONS = 16
_NO_COMPLEMENT = "below 'not', 'oneOf' or 'if': what it forbids has no exact complement"


class Logician:
    """Expands ``Subschema.logic``. ``maybe(sub, value)``: whether a fixed value may be valid; ``count``: counts work;
    ``together``: make one atom for "some optional property is wrong", not one atom for each.
    """

    def __init__(
        self, reader: Reader, maybe: Callable[[Subschema, Any], bool], count: Callable[[int], None], together: bool
    ) -> None:
        self._together = together
        self.matters_to: Callable[[Subschema], bool] = lambda sub: False
        self._anything = reader.anything
        self._nothing = reader.nothing
        self._count = count
        self._apart = Apart(maybe, count)
        self.disjoint = self._apart.disjoint
        self._complements: dict[Subschema, Subschema] = {}
        self._expansions: dict[Subschema, Expansion] = {}
        self._conjunctions: dict[tuple[Subschema, ...], Subschema] = {}
        self._ways: dict[Subschema, int] = {}
        self._loose: set[Subschema] = set()

    def expand(self, sub: Subschema) -> Expansion:
        """The ``logic`` of a subschema as conjuncts and choices."""
        found = self._expansions.get(sub)
        if found is None:
            after: list[Subschema] = []
            choices: list[tuple[Subschema, ...]] = []
            for item in sub.logic:
                if item.kind == "any":
                    continue
                if item.kind == "not":
                    branches = tuple(self._atoms(item.members[0]))
                elif item.kind == "oneOf":
                    branches = item.members if sub in self._loose else tuple(self._exactly_one(item.members, sub))
                else:
                    condition, then, otherwise = item.members
                    if then is otherwise is self._anything and not self.matters_to(sub):
                        continue
                    branches = self._either((condition, then), (self.complement(condition), otherwise))
                if self._anything in branches and not self.matters_to(sub):
                    continue
                if len(branches) > 1:
                    choices.append(branches)
                else:
                    after.append(branches[0] if branches else self._nothing)
            found = self._expansions[sub] = (tuple(after), tuple(choices))
        return found

    def loosen(self, parts: Iterable[Subschema]) -> list[Subschema]:
        """Treat ``oneOf`` as ``anyOf`` at ``parts`` where branches are not provably disjoint; returns the schemas changed."""
        loosened: list[Subschema] = []
        pending, seen = [*parts], set(self._loose)
        while pending:
            sub = pending.pop()
            if sub in seen:
                continue
            seen.add(sub)
            pending += (*sub.before, *sub.after, *chain(*sub.choices))
            for item in sub.logic:
                if item.kind in ("oneOf", "if"):
                    pending += item.members
                if item.kind == "oneOf" and not set(self._exactly_one(item.members, sub)) <= set(item.members):
                    loosened.append(sub)
        for sub in loosened:
            self._loose.add(sub)
            self._expansions.pop(sub, None)
        return loosened

    def complement(self, sub: Subschema) -> Subschema:
        """The subschema that is valid exactly where ``sub`` is not."""
        if sub.types == 0:
            return self._anything
        if sub.is_anything():
            return self._nothing
        found = self._complements.get(sub)
        if found is None:
            if len(sub.logic) == 1 and sub.logic[0].kind == "not" and _says_only_logic(sub):
                found = sub.logic[0].members[0]
            else:
                found = sub.same_place(logic=(Logic("not", (sub,)),))
                self._complements[found] = sub
            self._complements[sub] = found
        return found

    def denies(self, sub: Subschema) -> Subschema | None:
        """The subschema of which ``sub`` is the complement, if it is known."""
        return self._complements.get(sub)

    def conjunction(self, *parts: Subschema) -> Subschema:
        """The subschema that asserts all of ``parts``."""
        kept = tuple(dict.fromkeys(part for part in parts if part is not self._anything))
        if len(kept) < 2:
            return kept[0] if kept else self._anything
        if any(part.types == 0 for part in kept):
            return self._nothing
        found = self._conjunctions.get(kept)
        if found is None:
            self._count(len(kept))
            found = self._conjunctions[kept] = kept[0].same_place(after=kept)
        return found

    def _either(self, *conjunctions: tuple[Subschema, ...]) -> tuple[Subschema, ...]:
        branches = (self.conjunction(*parts) for parts in conjunctions)
        return tuple(branch for branch in branches if branch is not self._nothing)

    # Complements

    def _atom(self, sub: Subschema, types: int, **said: Any) -> Subschema:
        self._count(1)
        return sub.same_place(types=types, **said)

    def _refusal(self, sub: Subschema, keyword: str, types: int, why: str = _NO_COMPLEMENT) -> Subschema:
        return Subschema(sub.schema, sub.pointer, sub.resource, types=types, refused=(Refused(keyword, types, why),))

    def _atoms(self, sub: Subschema) -> list[Subschema]:
        """The disjuncts of ``not sub``: an instance that is invalid under ``sub`` is valid under one of them."""
        if sub.types == 0:
            return [self._anything]
        out: list[Subschema] = []
        types = sub.types
        if types != ALL_TYPES:
            out.append(self._atom(sub, ALL_TYPES & ~types))
        if sub.values is not None:
            out.append(self._none_of(sub, sub.values))
        out += [self._atom(sub, ALL_TYPES, values=[value]) for value in sub.excluded]
        if types & NUMBER_BITS:
            out += self._number_atoms(sub)
        if types & STRING_BIT:
            out += self._string_atoms(sub)
        if types & ARRAY_BIT and sub.array is not None:
            out += self._array_atoms(sub, sub.array)
        if types & OBJECT_BIT and sub.object is not None:
            out += self._object_atoms(sub, sub.object)
        for keyword, bits, why in sub.refused:
            if bits & types:
                out.append(self._refusal(sub, keyword, bits & types, why))
        for below, keyword, bit in zip(
            sub.unevaluated, ("unevaluatedProperties", "unevaluatedItems"), (OBJECT_BIT, ARRAY_BIT), strict=True
        ):
            if below is not None and bit & types:
                out.append(self._refusal(sub, keyword, bit))
        out += [self.complement(other) for other in sub.before + sub.after]
        out += [self.conjunction(*map(self.complement, branches)) for branches in sub.choices]
        for item in sub.logic:
            out += self._denied(item)
        return [atom for atom in out if atom.types]

    def _denied(self, item: Logic) -> Iterable[Subschema]:
        members = item.members
        if item.kind == "not":
            return members
        if item.kind == "any":
            return ()
        if item.kind == "if":
            condition, then, otherwise = members
            no = self.complement
            return self._either((condition, no(then)), (no(condition), no(otherwise)))
        twice = self._apart.free_in_two(members)
        within = self._but_for(members[0], twice)
        pairs = [(a, b) for a, b in combinations(members, 2) if not self._are_apart(a, b, within)]
        return self._either(
            tuple(map(self.complement, members)), *pairs, *([(self._atom(members[0], twice),)] if twice else ())
        )

    def _none_of(self, sub: Subschema, values: Iterable[Any]) -> Subschema:
        atom = self._atom(sub, ALL_TYPES)
        scalars = []
        for value in values:
            self._count(64 if isinstance(value, float) else 1)
            if value is None:
                atom.types &= ~NULL_BIT
            elif value is True or value is False:
                atom.types &= ~(TRUE_BIT if value else FALSE_BIT)
            elif isinstance(value, (list, dict)):
                atom.after += (self.complement(self.constant(sub, value)),)
            else:
                scalars.append(value)
        atom.excluded = tuple({canonical(value): value for value in scalars}.values())
        return atom

    def constant(self, sub: Subschema, value: Any, *, as_spelt: bool = False) -> Subschema:
        """A subschema equivalent to ``const: value`` that has a complement. ``as_spelt``: integers and floats are different
        numbers.
        """
        if not isinstance(value, (list, dict)):
            return self._atom(sub, type_bit(value, False) if as_spelt else ALL_TYPES, values=[value])
        root = self._atom(sub, ALL_TYPES)
        stack: list[tuple[Subschema, list | dict]] = [(root, value)]
        while stack:
            same, item = stack.pop()
            below: list[Subschema] = []
            for member in item.values() if isinstance(item, dict) else item:
                if isinstance(member, (list, dict)):
                    child = self._atom(sub, ALL_TYPES)
                    stack.append((child, member))
                else:
                    child = self.constant(sub, member, as_spelt=as_spelt)
                below.append(child)
            if isinstance(item, dict):
                declared = dict(zip(item, below, strict=True))
                same.types, same.object = OBJECT_BIT, ObjectPart(declared, required=tuple(item), additional=self._nothing)
            else:
                same.types, same.array = ARRAY_BIT, ArrayPart(tuple(below), low=len(item), high=len(item))
        return root

    def _number_atoms(self, sub: Subschema) -> list[Subschema]:
        out = []
        types = sub.types & NUMBER_BITS
        if sub.low is not None:
            out.append(self._atom(sub, types, high=(sub.low[0], not sub.low[1])))
        if sub.high is not None:
            out.append(self._atom(sub, types, low=(sub.high[0], not sub.high[1])))
        out += [self._atom(sub, types, no_multiples=(unit,)) for unit in sub.multiples]
        out += [self._atom(sub, types, multiples=(unit,)) for unit in sub.no_multiples]
        return out

    def _string_atoms(self, sub: Subschema) -> list[Subschema]:
        out = []
        low, high, patterns = sub.text or (0, None, ())
        if low:
            out.append(self._atom(sub, STRING_BIT, text=(0, low - 1, ())))
        if high is not None:
            out.append(self._atom(sub, STRING_BIT, text=(high + 1, None, ())))
        out += [self._atom(sub, STRING_BIT, unlike=(pattern,)) for pattern in patterns]
        for form in sub.formats:
            if form.can_be_denied():
                out.append(self._atom(sub, STRING_BIT, unlike=(form,)))
            else:
                out.append(self._refusal(sub, form.keyword, STRING_BIT))
        for unlike in sub.unlike:
            if isinstance(unlike, str):
                out.append(self._atom(sub, STRING_BIT, text=(0, None, (unlike,))))
            else:
                out.append(self._atom(sub, STRING_BIT, formats=(unlike,)))
        return out

    def _array_atoms(self, sub: Subschema, array: ArrayPart) -> list[Subschema]:
        out: list[Subschema] = []

        def add(**said: Any) -> None:
            out.append(self._atom(sub, ARRAY_BIT, array=ArrayPart(**said)))

        def wrong_at(i: int, child: Subschema) -> None:
            if not child.is_anything():
                self._count(i)
                add(prefix=(*(self._anything,) * i, self.complement(child)), low=i + 1)

        if array.low:
            add(high=array.low - 1)
        if array.high is not None:
            add(low=array.high + 1)
        for i, child in enumerate(array.prefix):
            wrong_at(i, child)
        rest, fixed = array.rest, len(array.prefix)
        if rest is not None and rest.types == 0:
            add(low=fixed + 1)
        elif rest is not None and not fixed:
            add(contains=((self.complement(rest), 1, None),))
        elif rest is not None and array.high is not None and array.high - fixed <= _MOST_POSITIONS:
            for i in range(fixed, array.high):
                wrong_at(i, rest)
        elif rest is not None:
            out.append(self._refusal(sub, "items", ARRAY_BIT))
        for wanted, least, most in array.contains:
            if least == 1:
                add(rest=self.complement(wanted))
            elif least:
                add(contains=((wanted, 0, least - 1),))
            if most is not None:
                add(contains=((wanted, most + 1, None),))
        if array.unique:
            out.append(self._refusal(sub, "uniqueItems", ARRAY_BIT))
        return out

    def _object_atoms(self, sub: Subschema, part: ObjectPart) -> list[Subschema]:
        out: list[Subschema] = []

        def add(**said: Any) -> None:
            out.append(self._atom(sub, OBJECT_BIT, object=ObjectPart(**said)))

        required = dict.fromkeys(part.required)
        for name in required:  # one atom: `name` is absent, or present with a wrong value
            add(properties={name: self.complement(part.properties.get(name, self._anything))})
        own = [
            (name, self.complement(c)) for name, c in part.properties.items() if name not in required and not c.is_anything()
        ]
        if not self._together:
            for name, wrong in own:
                add(properties={name: wrong}, required=(name,))
            own = []
        if part.low:
            add(high=part.low - 1)
        if part.high is not None:
            add(low=part.high + 1)
        for pattern, child in part.patterns:
            if not child.is_anything():
                named = self._atom(sub, STRING_BIT, text=(0, None, (pattern,)))
                add(some=(Some(named, self.complement(child)),))
        named, values = self._nothing, self._nothing
        if part.additional is not None:
            unlike = tuple(pattern for pattern, _ in part.patterns)
            named = self._atom(sub, STRING_BIT, excluded=tuple(part.properties), unlike=unlike)
            values = self.complement(part.additional)
        if part.additional is not None or own:
            add(some=(Some(named, values, tuple(own)),))
        if part.names is not None:
            add(some=(Some(self.complement(part.names), self._anything),))
        if part.some:  # only complements have conditions, and their complement is known without this
            out.append(self._refusal(sub, "additionalProperties", OBJECT_BIT))
        return out

    # oneOf

    def _exactly_one(self, branches: tuple[Subschema, ...], owner: Subschema) -> list[Subschema]:
        within = self._within(owner)
        twice = self._apart.free_in_two(branches) & self._apart.allowed(within)
        if not twice:
            return self._exactly_one_where(within, branches)
        rest = self._but_for(owner, twice)
        return list(
            self._either(*((rest, joint) for joint in self._exactly_one_where(self.conjunction(within, rest), branches)))
        )

    def _but_for(self, sub: Subschema, types: int) -> Subschema:
        """A subschema that allows all types but ``types``."""
        return self._atom(sub, ALL_TYPES & ~types) if types else self._anything

    def _exactly_one_where(self, within: Subschema, branches: tuple[Subschema, ...]) -> list[Subschema]:
        apart = self._apart.by_listed_values([self.conjunction(within, branch) for branch in branches])
        if apart:
            return [branch for branch in branches if branch.types]
        out = []
        for i, branch in enumerate(branches):
            if branch.types == 0:
                continue
            self._count(len(branches) // 64)
            others = [b for j, b in enumerate(branches) if j != i and b.types]
            if branch not in others:
                clashes = [self.complement(b) for b in others if not self._are_apart(branch, b, within)]
                joint = self.conjunction(branch, *clashes)
                if joint is not self._nothing:
                    out.append(joint)
        return out

    def _within(self, owner: Subschema) -> Subschema:
        """The assertions of the owner of a ``oneOf``, without its combinators."""
        if not owner.constrains_itself() and not owner.before and not owner.after:
            return self._anything
        names = ("types", "values", "low", "high", "text", "formats", "array", "object", "before", "after")
        return owner.same_place(**{name: getattr(owner, name) for name in names})

    def _are_apart(self, a: Subschema, b: Subschema, within: Subschema) -> bool:
        """Whether two branches are provably disjoint where ``within`` holds as well."""
        if self.disjoint(a, b):
            return True
        return within is not self._anything and a is not b and self.disjoint(self.conjunction(within, a), b)

    def implied(self, sub: Subschema, held: Conjunction) -> bool:
        """Whether ``sub``, a schema without combinators, provably follows from ``held``."""
        if held.types & ~sub.types:
            return False
        way = self._ways.get(sub)
        if way is None:
            way = self._ways[sub] = _way_to_imply(sub)
        if way != _BY_MEMBERS:
            return way == _BY_TYPES
        part = sub.object
        if held.types != OBJECT_BIT or part is None:
            return False
        for name in part.required:
            if name not in held.required:
                return False
        for name, child in part.properties.items():
            others = held.children(name)
            if not any(self.includes(child, other) for other in others) and not self._clash(others):
                return False
        return True

    def _clash(self, subs: list[Subschema]) -> bool:
        """Whether two of the schemas are provably disjoint."""
        return any(self.disjoint(a, b) for a, b in combinations(subs, 2))

    def includes(self, outer: Subschema, inner: Subschema) -> bool:
        """Whether all that is valid under ``inner`` is provably valid under ``outer``."""
        if inner is outer or outer is self._anything or inner.types == 0:
            return True
        denied = self._complements.get(outer)
        return denied is not None and self.disjoint(inner, denied)


_OTHERS = ("low", "high", "multiples", "no_multiples", "text", "formats", "array", "excluded", "unlike", "refused")
"""Assertions of a subschema other than on types, values and objects."""


_BY_TYPES, _BY_MEMBERS, _IN_NO_WAY = range(3)


def _way_to_imply(sub: Subschema) -> int:
    """How a schema without combinators may be proven to follow from others: by types, by members, or not at all."""
    part = sub.object
    if sub.values is not None or any(getattr(sub, name) for name in _OTHERS):
        return _IN_NO_WAY
    if part is None:
        return _BY_TYPES
    says_more = part.patterns or part.additional or part.names or part.some or part.low or part.high is not None
    return _IN_NO_WAY if says_more else _BY_MEMBERS


def _says_only_logic(sub: Subschema) -> bool:
    return not (sub.before or sub.after or sub.choices or sub.constrains_itself())


def says_one_thing(sub: Subschema) -> bool:
    """Whether a schema's complement is as simple as itself: it asserts something of one property, or of scalars."""
    part = sub.object
    if not sub.is_alone() or sub.array is not None or part is None:
        return sub.is_alone() and sub.array is None
    others = part.patterns or part.some or part.names or part.additional or part.low or part.high is not None
    return len(part.properties) < 2 and not others


def left_out(sub: Subschema) -> str | None:
    """The name of the property that a schema forbids, if it asserts nothing else."""
    part = sub.object
    if part is None or len(part.properties) != 1 or part.required or sub.types != ALL_TYPES or not says_one_thing(sub):
        return None
    ((name, child),) = part.properties.items()
    return None if child.types else name
