"""``multipleOf`` together with bounds: an automaton over the digits, laid out by length, as a shared expression.

A multiple of ``unit`` is judged by its decimal text, exactly (Validation, section 6.2.1). Reading digits from the left, a state
is how many were read, the residue of what they spell, and how they compare with the digits of either bound; equal states are
one object, so that the engine's derivatives of the expression are these states and nothing grows. Zeros that every multiple
ends in (100, 1000) are no part of the automaton, and residues that no continuation tells apart are one class.
Where there are still too many, each prime power in ``unit`` has an automaton, and all must accept.

Serialisation choices: no exponents; without an upper bound at most 64 digits before the point, fewer (16 at least) where there
are more than 32 classes of residues; a point is written only where the whole text has at most 15 digits before the padding
zeros, so that the double a reader makes of it denotes the same decimal. ``jsonschema`` itself divides doubles and finds that
19.99 is no multiple of 0.01; the specification and its test suite mean the numbers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import chain

from cdplugin.errors import UnsupportedError
from cdplugin.expr import (
    EMPTY,
    EPSILON,
    Automaton,
    Expr,
    alt,
    both,
    cat,
    complement,
    counted,
    literal,
    literals,
    optional,
    repeat,
)
from cdplugin.memory import bounded_cache, fixed_cache

MAX_CLASSES = 256
"""Classes of residues of one automaton."""
_MAX_RESIDUES = 4_096
_MOST_WANTED, _MOST_SEARCHED = 10_000, 500_000_000
"""Residues of a unit where several automata must agree; the same times residues of it and of all that is excluded: how many
are looked through for a way to end a text must stay below ``Limits.emptiness_fuel``.
"""
_MOST_LISTED = 2_000
"""Multiples between two bounds that are listed instead."""
_STATES, _MAX_STATES = 2_048, 5_000
"""Of an automaton without an upper bound; of one with so large a lower bound that it needs more digits."""
_MOST_DIGITS, _FEWEST_DIGITS, EXACT_DIGITS, _PADDING = 64, 16, 15, 20
_CONTEXT = Context(prec=2_000)
_LESS, _EQUAL, _GREATER = range(3)

_ZERO = literal(b"0")
_POINT = literal(b".")

# of states: none, none found yet; tails (_tails), from 1, 0 where a text may not end; the bytes of edges
_NO_STATE, _UNKNOWN = -1, -2
_ENDS, _PADDED_TAIL, _PADDING_TAIL = 1, 2, 5
_DIGITS = [(digit, 1 << (0x30 + digit)) for digit in range(10)]
_POINT_BIT = 1 << ord(".")


class TooManyResiduesError(UnsupportedError):
    """The unit of ``multipleOf`` has too many residues; whoever knows where that is adds the place."""

    def __init__(self) -> None:
        most = f"at most {MAX_CLASSES} states"
        super().__init__("multipleOf needs too large an automaton", keyword="multipleOf", expected=most)


def common_unit(units: Iterable[int | float]) -> Fraction:
    """The least number of which every common multiple of ``units`` is a multiple."""
    found = Fraction(0)
    for unit in units:
        other = Fraction(Decimal(repr(unit)))
        found = Fraction(math.lcm(found.numerator, other.numerator), math.gcd(found.denominator, other.denominator)) or other
    return found


def decimals(unit: Fraction) -> int:
    """How many digits after the point ``unit`` has."""
    return _modulus(unit)[1]


def is_multiple(value: int | float, unit: int | float) -> bool:
    """Whether the decimals that two JSON numbers are written as divide without a remainder."""
    return Fraction(Decimal(repr(value))) % Fraction(Decimal(repr(unit))) == 0


@bounded_cache
def _classes(modulus: int, unit: int, others: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Class of each residue, and a member of each class: Moore's partition of the automaton that reads digits.

    What counts is whether the digits may end there: at a multiple of ``unit`` and of none of ``others``.
    """
    if modulus > _MAX_RESIDUES:
        raise TooManyResiduesError
    following = [[(10 * r + d) % modulus for d in range(10)] for r in range(modulus)]
    names: dict[tuple[int, ...], int] = {}
    classes = [names.setdefault((_fits(r, unit, others),), len(names)) for r in range(modulus)]
    while True:
        count, names = len(names), {}
        classes = [names.setdefault((classes[r], *(classes[n] for n in following[r])), len(names)) for r in range(modulus)]
        if len(names) > MAX_CLASSES:
            raise TooManyResiduesError
        if len(names) == count:
            members: dict[int, int] = {}
            for r in range(modulus):
                members.setdefault(classes[r], r)
            return classes, list(members.values())


def _modulus(unit: Fraction) -> tuple[int, int, int]:
    """``unit`` as ``modulus * 10 ** (zeros - scale)``; modulus, scale, zeros."""
    scale = 0
    while (unit * 10**scale).denominator > 1:
        scale += 1
    modulus, zeros = int(unit * 10**scale), 0
    while not scale and modulus % 10 == 0:
        modulus //= 10
        zeros += 1
    return modulus, scale, zeros


@bounded_cache
def is_supported(unit: int | float, fractions: bool) -> bool:
    """Whether :func:`multiples` has an automaton for ``unit``."""
    exact = common_unit((unit,))
    try:
        modulus = _modulus(exact if fractions else Fraction(exact.numerator))[0]
        for power in [modulus] if modulus <= MAX_CLASSES else _prime_powers(modulus):
            _classes(power, power, ())
    except TooManyResiduesError:
        return False
    return True


@counted
def multiples(
    unit: Fraction, low: Decimal, high: Decimal | None, points: bool, others: tuple[Fraction, ...] = (), exact: bool = False
) -> Expr:
    """Texts of the multiples of ``unit`` from ``low >= 0`` to ``high``, without sign, that are multiples of none of ``others``.

    ``points``: whole numbers may be written as ``1.0``. ``exact``: no more digits than a double keeps.
    Raises :class:`TooManyResiduesError`.
    """
    modulus, scale, zeros = _modulus(unit)
    if others:
        scale, zeros = max(_modulus(u)[1] for u in (unit, *others)), 0
    whole_unit, whole_others = int(unit * 10**scale) // 10**zeros, tuple(int(u * 10**scale) for u in others)
    modulus = math.lcm(whole_unit, *whole_others)
    step = Decimal(1).scaleb(zeros - scale, _CONTEXT)
    first = int(_CONTEXT.divide(low, step).to_integral_value(ROUND_CEILING, _CONTEXT))
    last = None if high is None else int(_CONTEXT.divide(high, step).to_integral_value(ROUND_FLOOR, _CONTEXT))
    if last is not None and first > last:
        return EMPTY
    try:
        layout = _Layout(modulus, scale, zeros, first, last, points, whole_unit, whole_others)
    except TooManyResiduesError:
        if scale or last is None or (last - first) // whole_unit > _MOST_LISTED:
            shift = 10**zeros
            scaled = (first * shift, None if last is None else last * shift)
            return _intersection(whole_unit * shift, whole_others, scale, scaled, points, exact)
        values = [
            v for v in range(-(-first // whole_unit) * whole_unit, last + 1, whole_unit) if all(v % u for u in whole_others)
        ]
        return _listed([v * 10**zeros for v in values], points, exact)
    if exact:
        layout.length = min(layout.length, EXACT_DIGITS)
    return layout.expr()


def _intersection(
    unit: int, others: tuple[int, ...], scale: int, bounds: tuple[int, int | None], points: bool, exact: bool
) -> Expr:
    """Multiples as an intersection: an automaton for each prime power in ``unit``, and for each of ``others``; all in units of
    10 ** -scale.

    All spell a number in the same ways, so that what one of ``others`` leaves out is no multiple of it. Of each, the prime
    powers that are in ``unit`` say nothing.
    """
    if any(unit % other == 0 for other in others):
        return EMPTY
    powers = _prime_powers(unit)
    others = tuple({math.prod(power for power in _prime_powers(other) if unit % power) for other in others})
    if unit * math.lcm(unit, *others) > _MOST_SEARCHED:
        raise TooManyResiduesError
    wanted = [_Layout(power, scale, 0, *bounds, points, power, ()) for power in powers]
    unwanted = [_Layout(other, scale, 0, 0, None, points, other, ()) for other in others]
    shortest = min(EXACT_DIGITS if exact else _MOST_DIGITS, *(layout.length for layout in (*wanted, *unwanted)))
    for layout in wanted:
        layout.length = min(layout.length, shortest)
    return both(*(layout.expr() for layout in wanted), *(complement(layout.expr()) for layout in unwanted))


def _prime_powers(number: int) -> list[int]:
    """The powers of primes whose product is ``number``, 1 for 1. Raises :class:`TooManyResiduesError` for a large prime, and
    for a large ``number``: how many residues are looked through for a way to end a text.
    """
    if number > _MOST_WANTED:
        raise TooManyResiduesError
    powers = []
    for prime in range(2, MAX_CLASSES + 1):
        power = 1
        while number % prime == 0:
            number //= prime
            power *= prime
        powers += [power] if power > 1 else []
    if number > 1:
        raise TooManyResiduesError
    return powers or [1]


def _listed(values: Iterable[int], points: bool, exact: bool) -> Expr:
    """Whole numbers one by one, as :class:`_Layout` spells them."""
    texts = [str(value).encode() for value in values]
    short = [text for text in texts if len(text) <= EXACT_DIGITS]
    long = [] if exact else [text for text in texts if len(text) > EXACT_DIGITS]
    zeros = optional(cat(_POINT, repeat(_ZERO, 1, _PADDING))) if points else EPSILON
    return alt(cat(literals(short), zeros), literals(long))


_Place = tuple[int, int, int, int]
"""Digits of the whole part, class of the residue, comparisons with the first digits of the lower and of the upper bound."""


class _Layout:
    """Builds the expression for ``first`` to ``last`` in units of 10 ** (zeros - scale)."""

    def __init__(
        self,
        modulus: int,
        scale: int,
        zeros: int,
        first: int,
        last: int | None,
        points: bool,
        unit: int,
        others: tuple[int, ...],
    ) -> None:
        self.classes, self.members = _classes(modulus, unit, others)
        self.unit, self.others = unit, others
        self.modulus, self.scale, self.zeros, self.points = modulus, scale, zeros, points
        shift = 10**scale
        self.low, self.low_fraction = str(first // shift), f"{first % shift:0{scale}}" if scale else ""
        self.high: str | None = None
        self.high_fraction = ""
        self.length = min(_MOST_DIGITS, max(_FEWEST_DIGITS, _STATES // len(self.members))) - zeros
        self.length = max(self.length, len(self.low) + 1)
        if len(self.low) > _FEWEST_DIGITS and self.length * len(self.members) > _MAX_STATES:
            raise TooManyResiduesError
        if last is not None and len(str(last // shift)) <= self.length:
            self.high, self.high_fraction = str(last // shift), f"{last % shift:0{scale}}" if scale else ""
            self.length = len(self.high)
        self.moves: list[tuple[tuple[int, ...], tuple[int, ...]]] = []  # by residue: sets of digits, where each leads to
        for member in self.members:
            masks: dict[int, int] = {}
            for digit in range(10):
                below = self.classes[(10 * member + digit) % modulus]
                masks[below] = masks.get(below, 0) | 1 << 0x30 + digit
            self.moves.append((tuple(masks.values()), tuple(masks)))
        self.known: dict[_Place, int] = {}
        self.fractions: dict[tuple[int, int, int, int], int] = {}
        self.free: list[list[int]] = []  # by number of digits: states by residue, where bounds say nothing any more
        self.numbers: dict[tuple[int, ...], int] = {}  # of states, by what they are

    def expr(self) -> Expr:
        # Zero, and what begins with another digit. Lengths are bounded (64, or a bound's digits), states made from the end.
        first = self.classes[0]
        places = [(1, *self._step(0, first, _EQUAL, _EQUAL, digit)) for digit, _ in _DIGITS]
        after = [self._whole_state(*places[0], [], is_zero=True), *map(self._whole, places[1:])]
        if self._state(0, _grouped(zip((bit for _, bit in _DIGITS), after, strict=True))) == _NO_STATE:
            return EMPTY
        states: list[int] = []
        for words in self.numbers:
            states += (words[0], len(words) >> 1)
            states += words[1:]
        return Automaton(_tails(self.zeros), array("q", states), len(self.numbers))

    def _state(self, tail: int, edges: Iterable[tuple[int, int]]) -> int:
        """The number of a state: the same for the same; ``_NO_STATE`` for one that matches nothing."""
        words = (tail, *chain.from_iterable(edges))
        if words == (0,):
            return _NO_STATE
        return self.numbers.setdefault(words, len(self.numbers))

    def _step(self, done: int, residue: int, low: int, high: int, digit: int) -> tuple[int, int, int]:
        """After one more digit of the whole part: class of the residue, comparisons with the bounds' first digits."""
        if low == _EQUAL:
            low = _compare(digit, self.low[done]) if done < len(self.low) else _GREATER
        if self.high is None:
            high = _LESS
        elif high == _EQUAL:
            high = _compare(digit, self.high[done]) if done < len(self.high) else _GREATER
        if done + 1 > len(self.low):
            low = _GREATER
        return self.classes[(10 * self.members[residue] + digit) % self.modulus], low, high

    def _whole(self, root: _Place) -> int:
        """The state at a place: after so many digits of the whole part, with that residue, and comparisons with the bounds.

        On a stack of its own, since a bound may have thousands of digits.
        """
        if self._found(root) != _UNKNOWN:
            return self._found(root)
        begun = self._following(root)
        pending = [(root, begun, iter(begun))]
        while pending:
            place, following, left = pending[-1]
            for after in left:
                if self._found(after) == _UNKNOWN:
                    begun = self._following(after)
                    pending.append((after, begun, iter(begun)))
                    break
            else:
                pending.pop()
                edges = _grouped((bit, self._found(after)) for after, (_, bit) in zip(following, _DIGITS, strict=False))
                self.known[place] = self._whole_state(*place, edges)
        return self._found(root)

    def _found(self, place: _Place) -> int:
        """The state at a place; ``_UNKNOWN`` where it is not made yet and the bounds still matter."""
        done, residue, low, high = place
        if low == _GREATER and high == _LESS:
            state = self.free[done][residue] if self.free else _UNKNOWN
            return self._fill(done, residue) if state == _UNKNOWN else state
        return self.known.get(place, _UNKNOWN)

    def _following(self, place: _Place) -> list[_Place]:
        """The places after each digit; none where no more digits may come."""
        return [(place[0] + 1, *self._step(*place, digit)) for digit, _ in _DIGITS] if place[0] < self.length else []

    def _fill(self, done: int, residue: int) -> int:
        """The state after ``done`` digits, and before it those after more, where the bounds say nothing of what follows."""
        moves = self.moves
        free = self.free = self.free or [[_UNKNOWN] * len(moves) for _ in range(self.length + 1)]
        rows = [{residue}]
        for row in free[done + 1 :]:
            rows.append({r for before in rows[-1] for r in moves[before][1] if row[r] == _UNKNOWN})
        for at in range(self.length, done - 1, -1):
            row, following = free[at], free[at + 1] if at < self.length else []
            for r in rows[at - done]:
                edges: list[tuple[int, int]] = []
                if following:
                    masks, belows = moves[r]
                    children = [following[below] for below in belows]
                    edges = [*zip(masks, children, strict=True)]
                    if _NO_STATE in children or len(set(children)) < len(children):
                        edges = _grouped(edges)
                row[r] = self._whole_state(at, r, _GREATER, _LESS, edges)
        return free[done][residue]

    def _whole_state(
        self, done: int, residue: int, low: int, high: int, edges: list[tuple[int, int]], is_zero: bool = False
    ) -> int:
        """The state after ``done`` digits of the whole part, ``edges`` for further ones."""
        tail = 0
        fits_low = low if done >= len(self.low) else _LESS
        fits_high = high if self.high is not None and done >= len(self.high) else _LESS
        if fits_low != _LESS and fits_high != _GREATER:
            ends = _fits(self.members[residue] * 10**self.scale, self.unit, self.others)
            ends = ends and (fits_low == _GREATER or not self.low_fraction.strip("0"))
            exact = done + self.zeros + self.scale <= EXACT_DIGITS
            if ends:
                padded = exact and self.points and not self.scale
                tail = (_PADDED_TAIL if padded else _ENDS) + (0 if is_zero else 2)
            if exact and self.scale:
                below = self._fraction(0, residue, fits_low, fits_high)
                if below != _NO_STATE:
                    edges.append((_POINT_BIT, below))
        return self._state(tail, edges)

    def _fraction(self, done: int, residue: int, low: int, high: int) -> int:
        """The state after ``done`` digits after the point."""
        key = (done, residue, low, high)
        found = self.fractions.get(key)
        if found is not None:
            return found
        left = self.scale - done
        ends = _fits(self.members[residue] * 10**left, self.unit, self.others)
        ends = ends and (low == _GREATER or not self.low_fraction[done:].strip("0"))

        def after(digit: int) -> int:
            new_low = _compare(digit, self.low_fraction[done]) if low == _EQUAL else low
            new_high = _compare(digit, self.high_fraction[done]) if high == _EQUAL else high
            if new_low == _LESS or new_high == _GREATER:
                return _NO_STATE
            below = self.classes[(10 * self.members[residue] + digit) % self.modulus]
            return self._fraction(done + 1, below, new_low, new_high)

        if left:
            result = self._state(_ENDS if ends and done else 0, _grouped((bit, after(digit)) for digit, bit in _DIGITS))
        else:
            result = self._state(_PADDING_TAIL if ends else 0, ())
        self.fractions[key] = result
        return result


@fixed_cache(64, entry_bytes=1200)
def _tails(zeros: int) -> tuple[Expr, ...]:
    """What may follow the digits that are read, by number from 1: after zero, after another number, which ``zeros`` zeros end,
    and after a fraction. ``_ENDS``: nothing more; ``_PADDED_TAIL``: a point and zeros, too. 2 is added where it is not zero.
    """
    more = literal(b"0" * zeros)
    point = optional(cat(_POINT, repeat(_ZERO, 1, _PADDING)))
    return EPSILON, point, more, cat(more, point), repeat(_ZERO, 0, _PADDING)


def _grouped(edges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Edges (bytes, a bit each, and the state that they lead to) with those that lead to the same state as one."""
    by_child: dict[int, int] = {}
    for mask, child in edges:
        if child != _NO_STATE:
            by_child[child] = by_child.get(child, 0) | mask
    return [(mask, child) for child, mask in by_child.items()]


def _fits(value: int, unit: int, others: tuple[int, ...]) -> bool:
    return value % unit == 0 and all(value % other for other in others)


def _compare(digit: int, other: str) -> int:
    own = ord(other) - 0x30
    return _EQUAL if digit == own else _LESS if digit < own else _GREATER
