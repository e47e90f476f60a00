"""Places: what an instance location may hold, as the conjunction of several subschemas, split into alternatives.

A *place* is a set of subschemas that all apply to one instance location. Its children are again such sets, made on demand. So
``allOf``, ``$ref`` with siblings, and properties declared in several subschemas are intersected exactly, without copying a
schema. Equal sets are one place (and later one nonterminal), which is why recursion ends.

Within a place, ``anyOf`` is multiplied out (disjunctive normal form) into *alternatives*: tuples of subschemas without choices.
Each alternative is split by type. Scalars of all types and alternatives become one expression; arrays and objects become one
rule for each alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

from cdplugin.errors import LimitExceeded, UnsupportedError
from cdplugin.expr import EMPTY, Expr, alt, literals
from cdplugin.frontends.json_schema.dialect import (
    ALL_TYPES,
    ARRAY_BIT,
    OBJECT_BIT,
    STRING_BIT,
)
from cdplugin.frontends.json_schema.layout import Layout
from cdplugin.frontends.json_schema.matching import only_text, share_no_text
from cdplugin.frontends.json_schema.names import Conjunction
from cdplugin.frontends.json_schema.negation import Logician, left_out, says_one_thing
from cdplugin.frontends.json_schema.reader import Reader
from cdplugin.frontends.json_schema.scalars import (
    MOST_DISTINCT,
    Alternative,
    few_values,
    merged_scalars,
    typed_scalar,
    types_of,
)
from cdplugin.frontends.json_schema.schema import Subschema, shortest_values
from cdplugin.frontends.json_schema.sharing import Attempt, MergeBudget, MultipliesError, located
from cdplugin.frontends.json_schema.strings import spellings
from cdplugin.frontends.json_schema.unevaluated import Unevaluated
from cdplugin.frontends.json_schema.values import (
    WORDS,
    Evaluator,
    Scalars,
    canonical,
    compound_expr,
    has_orders,
    integer_expr,
    is_typed,
    n_parts,
    number_expr,
    type_bit,
    typed,
)
from cdplugin.ir import Symbol

_Choices = tuple[tuple[Subschema, ...], ...]
_State = tuple[list[Subschema], _Choices]
"""The subschemas that apply at a place, and the choices that are still open."""

_MAX_ALTERNATIVES = 20_000


class Place:
    """A set of subschemas for one instance location, and what it was split into.

    ``scalar``: one expression for all that fits one lexeme, or None; ``constants``: the listed arrays and objects in it;
    ``arrays`` and ``objects``: the alternatives that allow those types. ``symbols``: the grammar symbols, once they exist, by
    twice the depth of indentation, plus 1 for the form without leading white space.
    """

    __slots__ = ("arrays", "constants", "objects", "parts", "scalar", "split", "symbols")

    def __init__(self, parts: Alternative) -> None:  # not a dataclass, which takes 1.5 times as long; there are many places
        self.parts = parts
        self.split = False
        self.scalar: Expr | None = None
        self.constants: list[Any] = []
        self.arrays: list[Alternative] = []
        self.objects: list[Alternative] = []
        self.symbols: dict[int, Symbol] = {}

    @property
    def pointer(self) -> str:
        """The pointer of the (first) subschema of this place."""
        return self.parts[0].pointer if self.parts else ""


class Shaper:
    """Makes places and splits them. ``budget``: the work that this may take, and the attempt."""

    def __init__(self, reader: Reader, layout: Layout, budget: MergeBudget) -> None:
        self.relaxed: dict[tuple[str, str], None] = {}
        self._reader = reader
        self._layout = layout
        self._relax = reader.options.on_unsupported == "relax"
        self._any_order = reader.options.property_order == "any"
        self.count = budget.count
        self._budget = budget
        self.search = budget.search
        self._places: dict[Any, Place] = {}
        self._ends: dict[Subschema, Subschema | None] = {}
        self._unions: dict[frozenset[Expr], Expr] = {}
        self._evaluator = Evaluator(self.refuse, self.count)
        self._guesser = Evaluator(_give_up, self.count)
        self._logician = Logician(reader, self._maybe, self.count, budget.attempt is Attempt.LAST)
        self._flattened: dict[Subschema, _State] = {}
        self._conjunctions: dict[Subschema, Conjunction] = {}
        self._unevaluated: Unevaluated | None = None
        if reader.has_unevaluated:
            logician = self._logician
            self._unevaluated = Unevaluated(reader, logician.conjunction, logician.disjoint, self.count)
            logician.matters_to = self._unevaluated.matters_to

    def release(self) -> None:
        """Drop all references, so that reference counting can free the cycles. The object is unusable afterwards."""
        vars(self._logician).clear()
        vars(self).clear()

    # Places

    def place(self, parts: Sequence[Subschema]) -> Place:
        """The place to which all ``parts`` apply."""
        if len(parts) == 1:
            part = self._resolved(parts[0])
            found = self._places.get(part)
            if found is None:
                found = self._places[part] = Place((part,) if part is not None else ())
            return found
        kept = tuple(dict.fromkeys(p for p in map(self._resolved, parts) if p is not None))
        key: Any = frozenset(kept) if len(kept) > 1 else kept[0] if kept else None
        found = self._places.get(key)
        if found is None:
            self.count(len(kept))
            found = self._places[key] = Place(kept)
        return found

    def begin(self, anything: Place) -> None:
        """Take over the place without any assertion from another writer."""
        found = self._places[None] = Place(())
        found.split, found.scalar, found.arrays, found.objects = True, anything.scalar, anything.arrays, anything.objects
        found.symbols.update(anything.symbols)

    def _resolved(self, part: Subschema) -> Subschema | None:
        """The subschema, or the one that it only refers to; None if it allows everything."""
        followed: list[Subschema] = []
        end: Subschema | None = part
        while end is not None and not (end.constrains_itself() or end.choices or end.logic):
            if end in self._ends:
                end = self._ends[end]
                break
            others = end.before + end.after
            if len(others) > 1:
                break
            followed.append(end)
            end = others[0] if others else None
        for sub in followed:
            self._ends[sub] = end
        return end

    def refuse(self, sub: Subschema, keyword: str, why: str) -> None:
        """Raise for a keyword that is not enforced, or list it under ``relax``. ``why``: "below …", "for …"."""
        pointer = f"{sub.pointer}/{keyword}"
        if self._relax:
            self.relaxed[(keyword, pointer)] = None
            return
        raise UnsupportedError(f"keyword {keyword!r} is not supported {why}", location=pointer, keyword=keyword)

    def holds(self, sub: Subschema, value: Any) -> bool:
        """Whether a fixed value is valid under ``sub``."""
        return self._evaluator.holds(sub, value)

    def _maybe(self, sub: Subschema, value: Any) -> bool:
        """Whether a listed value may be valid under ``sub`` in some spelling."""
        integral_floats = sub.resource.dialect.integral_floats
        spelt = (value,) if integral_floats else self._typed(value, integral_floats)
        try:
            if any(self._guesser.holds(sub, one) for one in spelt):
                return True
        except _UnknownError:
            return True
        return not integral_floats and len(spelt) == 1 and is_typed(value)  # too many spellings to try

    def share_no_text(self, first: str, second: str) -> bool:
        """Whether two patterns were found to match no text in common."""
        found, taken = share_no_text(first, second)
        self.count(1 + taken // 2)
        return found

    def complement(self, sub: Subschema) -> Subschema:
        """The subschema that is valid exactly where ``sub`` is not."""
        return self._logician.complement(sub)

    def meets(self, wanted: Subschema, children: Iterable[Subschema]) -> bool | None:
        """True if ``wanted`` provably holds where all ``children`` hold, False if it provably fails, else None."""
        if wanted.is_anything() or any(self._logician.includes(wanted, child) for child in children):
            return True
        return False if any(self._logician.disjoint(wanted, child) for child in children) else None

    def strings(self, parts: list[Subschema]) -> Expr:
        """The JSON strings, with their quotes, that are valid under all ``parts``."""
        found = self.place([*parts, self._reader.string])
        if not found.split:
            self.split(found)
        return EMPTY if found.scalar is None else found.scalar

    def finite(self, parts: list[Subschema]) -> list[tuple[Any, Expr]] | None:
        """The values that are valid under all ``parts``, each with an expression, if they are few: listed values, words, or
        integers of a small range. Else None.
        """
        values: dict[str, tuple[Any, Expr]] = {}
        for alternative in self._alternatives(parts):
            listed = shortest_values(alternative)
            is_range = listed is None
            if listed is None:
                listed = few_values(alternative, types_of(alternative))
                if listed is None:
                    return None
            integral_floats = all(sub.resource.dialect.integral_floats for sub in alternative)
            for value in listed:
                if canonical(value) in values:
                    continue
                instances = [
                    one
                    for one in self._typed(value, integral_floats)
                    if all(self._evaluator.holds(sub, one, itself=True) for sub in alternative)
                ]
                if instances:
                    values[canonical(value)] = (value, self._fixed(instances, integral_floats, is_range))
        if len(values) > MOST_DISTINCT:
            return None
        if self._layout.indent is not None and any(isinstance(value, (list, dict)) for value, _ in values.values()):
            return None
        return list(values.values())

    def _typed(self, value: Any, integral_floats: bool) -> tuple[Any, ...]:
        """:func:`typed`, with its work counted."""
        spelt = typed(value, integral_floats)
        self.count(1 if len(spelt) < 3 else len(spelt) * n_parts(value) // 8)
        return spelt

    def _fixed(self, instances: list[Any], integral_floats: bool, is_range: bool) -> Expr:
        """An expression for equal instances. ``is_range``: integers are spelled as those of a range are."""
        value = instances[0]
        if isinstance(value, (list, dict)):
            return alt(*(compound_expr(one, self._layout, integral_floats, as_spelt=True) for one in instances))
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return integer_expr(int(value), integral_floats) if is_range else number_expr(instances, integral_floats)
        return literals(spellings(value) if isinstance(value, str) else (WORDS[value],))

    # Splitting

    def split(self, place: Place) -> Place:
        """Fill in ``scalar``, ``arrays`` and ``objects`` of a place."""
        place.split = True
        first = place.parts[0] if len(place.parts) == 1 else None
        if self._unevaluated is None and (not place.parts or (first is not None and first.is_plain)):
            types = ALL_TYPES if first is None else first.types
            place.scalar = typed_scalar(types, first is None or first.resource.dialect.integral_floats)
            place.arrays = [()] if types & ARRAY_BIT else []
            place.objects = [()] if types & OBJECT_BIT else []
            return place
        is_alone = first is not None and first.is_alone() and first.unevaluated == (None, None)
        if first is not None and is_alone and first.values is None and not first.refused:
            if first.types == OBJECT_BIT:
                place.objects = [place.parts if first.object is not None else ()]
                return place
            if first.types == ARRAY_BIT:
                place.arrays = [place.parts if first.array is not None else ()]
                return place
        scalars = Scalars()
        try:
            for alternative in [place.parts] if is_alone else self._alternatives(place.parts):
                self._split_types(place, alternative, scalars)
        except LimitExceeded as error:
            raise located(error, place.pointer) from None
        place.scalar = scalars.union(self._unions)
        return place

    def _split_types(self, place: Place, alternative: Alternative, scalars: Scalars) -> None:
        """Add the scalars, arrays and objects of an alternative to a place."""
        types, finite = types_of(alternative), shortest_values(alternative)
        if finite is not None:
            self._split_values(place, alternative, finite, scalars)
            return
        if not types:
            return
        is_distinct = types & ARRAY_BIT and any(sub.array is not None and sub.array.unique for sub in alternative)
        if is_distinct and any(item.keyword == "uniqueItems" for sub in alternative for item in sub.refused):
            types &= ~ARRAY_BIT  # both "distinct" and "not distinct" apply: only complements refuse the keyword
        for sub in alternative:
            for keyword, needed, why in sub.refused:
                if needed & types:
                    self.refuse(sub, keyword, why)
        scalars.parts.update(merged_scalars(alternative, types))
        if types & ARRAY_BIT:
            place.arrays.append(tuple(s for s in alternative if s.array is not None))
        if types & OBJECT_BIT:
            place.objects.append(tuple(s for s in alternative if s.object is not None))

    def _split_values(self, place: Place, alternative: Alternative, values: list[Any], scalars: Scalars) -> None:
        """Add those of the listed values that an alternative allows, in the spellings that are valid under all of it."""
        only_types = all((s.values is None or s.values is values) and not s.limited_unlisted() for s in alternative)
        types = types_of(alternative)
        if only_types and types & STRING_BIT and all(type(v) is str for v in values):
            scalars.texts.update(spelling for value in values for spelling in spellings(value))
            return
        integral_floats = all(s.resource.dialect.integral_floats for s in alternative)
        for only in (only_text(pattern) for s in alternative if s.text for pattern in s.text[2]):
            if only is not None:
                self.count(len(values) // 16)
                values = [value for value in values if value == only or not isinstance(value, str)]
        if integral_floats or only_types:
            values = _distinct_compounds(values)

        def fits(value: Any) -> bool:
            if only_types and not isinstance(value, float):
                return bool(type_bit(value, integral_floats) & types)
            # An alternative has no choices left, and its allOf and $ref targets are members of it.
            return all(self._evaluator.holds(sub, value, itself=True) for sub in alternative)

        for value in values:
            is_compound = isinstance(value, (list, dict))
            as_spelt = not integral_floats and is_compound and not only_types
            spelt = self._typed(value, integral_floats or (is_compound and only_types))
            fitting = [one for one in spelt if fits(one)]
            if not fitting:
                continue
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                scalars.numbers.setdefault(integral_floats, []).extend(fitting)
            elif not is_compound:
                scalars.texts.update(spellings(value) if isinstance(value, str) else (WORDS[value],))
            elif self._layout.indent is not None or (self._any_order and has_orders(value)):  # needs rules, not one lexeme
                some = as_spelt and (len(spelt) == 1 or len(fitting) < len(spelt))
                bodies = place.objects if isinstance(value, dict) else place.arrays
                for one in fitting if some else [value]:
                    bodies.append((self._logician.constant(alternative[0], one, as_spelt=some),))
            else:
                for one in fitting:
                    scalars.parts[compound_expr(one, self._layout, integral_floats, as_spelt=as_spelt)] = None
                place.constants.append(value)

    # Alternatives

    def _alternatives(self, parts: Sequence[Subschema]) -> list[Alternative]:
        """:meth:`_multiplied`. Where ``oneOf`` may be relaxed and this takes too long, again with the costly ones as
        ``anyOf``.
        """
        if self._budget.attempt is not Attempt.RELAXED:
            return self._multiplied(parts)
        try:
            with self._budget.part():
                return self._multiplied(parts)
        except MultipliesError:
            loosened = self._logician.loosen(parts)
        self.relaxed.update(dict.fromkeys(("oneOf", f"{sub.pointer}/oneOf") for sub in loosened))
        if loosened:
            self._flattened.clear()
            self._conjunctions.clear()
        return self._multiplied(parts)

    def _multiplied(self, parts: Iterable[Subschema]) -> list[Alternative]:
        """Multiply out the choices of a place; alternatives that provably allow nothing are left out.

        A search for models (Davis, Logemann, Loveland 1962): branches that contradict what holds already are dropped, and the
        choice with the fewest branches left is made first.
        """
        out: dict[frozenset[Subschema], Alternative] = {}
        pending = [self._flatten(parts)]
        seen: set[tuple[frozenset[Subschema], frozenset[tuple[Subschema, ...]]]] = set()
        while pending:
            basics, choices = pending.pop()
            members = frozenset(basics)
            key = (members, frozenset(choices))
            if key in seen:
                continue
            seen.add(key)
            if choices and any(sub.values is not None for sub in basics):
                out.update((frozenset((listed,)), (listed,)) for listed in self._filtered(basics, choices))
                continue
            if not choices:
                out.setdefault(members, tuple(basics))
                if len(out) > _MAX_ALTERNATIVES:
                    raise MultipliesError("too many alternatives of anyOf", expected=f"at most {_MAX_ALTERNATIVES}")
                continue
            held = Conjunction(basics)
            if len(choices) > 1 or basics:
                choices = self._viable(held, members, choices)
                if not choices:
                    pending.append((basics, ()))
                    continue
            if len(choices[0]) == 1:  # no longer a choice: take all choices of one branch at once
                sure = [branches[0] for branches in choices if len(branches) == 1]
                pending += self._joined(basics, held, sure, tuple(branches for branches in choices if len(branches) > 1))
                continue
            following: list[_State] = []
            denied: list[Subschema] = []  # complements of earlier branches, so that alternatives do not overlap
            for branch in choices[0]:
                state_after = self._joined(basics, held, [branch, *denied], choices[1:])
                following += state_after
                if state_after and self._budget.attempt is not Attempt.FIRST and len(choices) > 1 and says_one_thing(branch):
                    denied.append(self._logician.complement(branch))
            pending += reversed(following)  # popped in the order of the branches
        if self._unevaluated is not None:
            return [self._unevaluated.applied(alternative) for alternative in out.values()]
        return list(out.values())

    def _joined(self, basics: list[Subschema], held: Conjunction, branches: list[Subschema], choices: _Choices) -> list[_State]:
        """The state after ``branches`` are added to ``basics`` (``held``), in a list; empty if they provably contradict each
        other.
        """
        merged = dict.fromkeys(basics)
        for i, branch in enumerate(branches):
            more, more_choices = self._flat(branch)
            if not self._compatible(Conjunction(merged) if i else held, branch):
                return []
            merged.update(dict.fromkeys(more))
            choices += more_choices
        return [(list(merged), tuple(dict.fromkeys(choices)))]

    def _viable(self, held: Conjunction, members: frozenset[Subschema], choices: _Choices) -> _Choices:
        """The choices that are still open, without contradicting branches; a smallest one first."""
        out: list[tuple[Subschema, ...]] = []
        denies = self._logician.denies
        for branches in choices:
            kept = []
            name = left_out(branches[0]) if branches and self._budget.attempt is not Attempt.FIRST else None
            others = held if name is None else held.requiring(name)  # what holds where the first branch fails
            for branch in branches:
                if denies(branch) in members:
                    continue
                more, more_choices = self._flat(branch)
                if not more_choices and self._hold_anyway(more, held if branch is branches[0] else others, members):
                    break
                if self._compatible(held, branch):
                    kept.append(branch)
            else:
                out.append(tuple(kept))
                if not kept:
                    return ((),)
        smallest = min(range(len(out)), key=lambda i: len(out[i]), default=0)
        return tuple(dict.fromkeys([*out[smallest : smallest + 1], *out]))

    def _hold_anyway(self, subs: list[Subschema], held: Conjunction, members: frozenset[Subschema]) -> bool:
        for sub in subs:
            if sub not in members and (self._unevaluated is not None or not self._logician.implied(sub, held)):
                return False
        return True

    def _compatible(self, held: Conjunction, branch: Subschema) -> bool:
        """False if provably nothing is valid under both."""
        self.count(2 + held.size // 16)
        more = self._conjunctions.get(branch)
        if more is None:
            more = self._conjunctions[branch] = Conjunction(self._flat(branch)[0])
        types = held.types & more.types
        return bool(types) and (types != OBJECT_BIT or not more.objects or not self._objects_clash(held, more))

    def _objects_clash(self, held: Conjunction, more: Conjunction) -> bool:
        """Whether a property that either requires provably has no valid value under both, or they require too many members."""
        disjoint, declared = self._logician.disjoint, more.declared
        most = min(held.high, more.high)
        if len(held.required) + len(more.required) > most and len(held.required | more.required) > most:
            return True
        names: Iterable[str] = more.required
        if held.required:
            others = held.required if declared is None else [name for name in held.required if name in declared]
            names = {**more.required, **dict.fromkeys(others)} if others else names
        for name in names:
            fresh = more.children(name)
            is_new = name in more.required
            if not is_new and not fresh:
                continue
            children = held.children(name) + fresh
            if len(children) < 2:
                if children and children[0].types == 0:
                    return True
                continue
            self.count(len(children) // 2)
            for child in children:
                if child.types == 0:
                    return True
            for a, b in combinations(children, 2) if is_new else product(fresh, children):
                if a is not b and disjoint(a, b, 2):
                    return True
        return False

    def _flat(self, branch: Subschema) -> _State:
        found = self._flattened.get(branch)
        if found is None:
            found = self._flattened[branch] = self._flatten((branch,))
        return found

    def _filtered(self, basics: list[Subschema], choices: _Choices) -> list[Subschema]:
        """Where values are listed, judge each value instead of multiplying out choices. Returns subschemas that list the valid
        ones: one, and more where the spelling of a number is its type and a value is valid in one spelling only.
        """
        shortest = min((sub for sub in basics if sub.values is not None), key=lambda sub: len(sub.values or ()))
        strict = next((sub for sub in basics if not sub.resource.dialect.integral_floats), shortest)
        integral_floats = strict.resource.dialect.integral_floats
        holds = self._evaluator.holds
        fitting: dict[int, list[Any]] = {ALL_TYPES: []}  # by the types of the valid spellings
        apart: list[Subschema] = []
        for value in shortest.values or ():
            spelt = self._typed(value, integral_floats)
            valid = [
                one
                for one in spelt
                if all(holds(sub, one, itself=True) for sub in basics)
                and all(any(holds(branch, one) for branch in branches) for branches in choices)
            ]
            is_all = len(valid) == len(spelt) and (integral_floats or len(spelt) > 1 or not is_typed(value))
            if valid and not is_all and isinstance(value, (list, dict)):
                apart += [self._logician.constant(strict, one, as_spelt=True) for one in valid]
            elif valid:
                types = ALL_TYPES if len(valid) == len(spelt) else type_bit(valid[0], integral_floats)
                fitting.setdefault(types, []).append(value)
        listed = [(types, values) for types, values in fitting.items() if values or types == ALL_TYPES]
        found = [Subschema({}, shortest.pointer, strict.resource, types=types, values=values) for types, values in listed]
        return found + apart

    def _told_apart(self, sub: Subschema) -> Iterable[tuple[Subschema, ...]]:
        """The choices of a subschema, with branches that state what they evaluate where that matters."""
        unevaluated = self._unevaluated
        assert unevaluated is not None
        if not unevaluated.matters_to(sub):
            yield from sub.choices
            return
        optional = [item.members for item in sub.logic if item.kind == "any"]
        for branches, may_fail in [*((b, False) for b in sub.choices), *((b, True) for b in optional)]:
            found = unevaluated.branching(branches, may_fail)
            if found is None:
                self.refuse(sub, "anyOf", "beside 'unevaluatedProperties' or 'unevaluatedItems' with branches so much alike")
                found = branches
            if found or not may_fail:
                yield found

    def _flatten(self, parts: Iterable[Subschema]) -> _State:
        """Follow ``allOf`` and ``$ref``: the subschemas with assertions of their own, in document order, and
        the open choices.
        """
        basics: dict[Subschema, None] = {}
        choices: dict[tuple[Subschema, ...], None] = {}
        seen: set[Subschema] = set()
        stack: list[Subschema | None] = [*parts]
        stack.reverse()
        unevaluated = self._unevaluated
        while stack:
            sub = stack.pop()
            if sub is None:  # all that precedes the next one is done
                sub = stack.pop()
                assert sub is not None
            else:
                if sub in seen:
                    continue
                seen.add(sub)
                self.count(1)
                if sub.after:
                    stack += reversed(sub.after)
                found = sub.choices if unevaluated is None else self._told_apart(sub)
                if sub.before or sub.logic:
                    stack += (sub, None, *reversed(sub.before))
                    choices.update(dict.fromkeys(found))
                    if sub.logic:
                        more, more_choices = self._logician.expand(sub)
                        stack += reversed(more)
                        choices.update(dict.fromkeys(more_choices))
                    continue
                if found:
                    choices.update(dict.fromkeys(found))
            if unevaluated is not None or sub.constrains_itself():
                basics[sub] = None
        return list(basics), tuple(choices)


class _UnknownError(Exception):
    """The guessing evaluator met a keyword that is not enforced."""


def _distinct_compounds(values: list[Any]) -> list[Any]:
    """The values without repetitions of equal arrays and objects."""
    if len(values) < 2:
        return values
    found: dict[Any, Any] = {}
    for i, value in enumerate(values):
        found.setdefault(canonical(value) if isinstance(value, (list, dict)) else i, value)
    return list(found.values())


def _give_up(sub: Subschema, keyword: str, why: str) -> None:
    raise _UnknownError
