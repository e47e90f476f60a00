"""``multipleOf`` together with bounds: an automaton over decimal digits, built as a shared expression.

A multiple of ``unit`` is judged by its exact decimal text (Validation, section 6.2.1). The automaton reads digits from the
left. Its state is the number of digits read, their residue modulo the unit, and how they compare with the leading digits of
either bound. Equal states are one object, so the engine's derivatives of the expression are just these states. Zeros in which
every multiple ends (100, 1000) are not part of the automaton, and equivalent residues form one class. If there are still too
many classes, there is an automaton for each prime power of ``unit``, and all of them must accept.

Choices of serialisation: no exponents; without an upper bound at most 64 digits before the point, fewer (but at least 16) if
there are more than 32 classes of residues; a point only where the whole text has at most 15 digits before the padding zeros, so
that the double that a reader makes of it denotes the same decimal. ``jsonschema`` itself divides doubles and finds that
19.99 is no multiple of 0.01; the specification and its test suite mean the decimal numbers.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from decimal import Context, Decimal
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
"""Bounds where several automata must agree: residues of the unit, and these times the residues of the unit and all excluded
units. So many may be searched for an end of a text, which must stay below ``Limits.emptiness_fuel``.
"""
_MOST_LISTED = 2_000
"""Up to this many multiples between two bounds are listed instead."""
_STATES, _MAX_STATES = 2_048, 5_000
"""States of an automaton without an upper bound, and of one whose lower bound is so large that it needs more digits."""
_MOST_DIGITS, _FEWEST_DIGITS, EXACT_DIGITS, _PADDING = 64, 16, 15, 20
CONTEXT = Context(prec=2_000)
_LESS, _EQUAL, _GREATER = range(3)

ZERO = literal(b"0")
POINT = literal(b".")

# States: none, not built yet. Tails (_tails), numbered from 1; 0 where a text may not end. Edges: a bit for each byte.
_NO_STATE, _UNKNOWN = -1, -2
_ENDS, _PADDED_TAIL, _PADDING_TAIL = 1, 2, 5
_DIGITS = [(digit, 1 << (0x30 + digit)) for digit in range(10)]
_POINT_BIT = 1 << ord(".")


class TooManyResiduesError(UnsupportedError):
    """The unit of ``multipleOf`` has too many residues; a caller adds the location."""

    def __init__(self) -> None:
        most = f"at most {MAX_CLASSES} states"
        super().__init__("multipleOf needs too large an automaton", keyword="multipleOf", expected=most)


def common_unit(units: Iterable[int | float]) -> Fraction:
    """The least common multiple of ``units``."""
    found = Fraction(0)
    for unit in units:
        other = Fraction(Decimal(repr(unit)))
        found = Fraction(math.lcm(found.numerator, other.numerator), math.gcd(found.denominator, other.denominator)) or other
    return found


def decimals(unit: Fraction) -> int:
    """The number of digits of ``unit`` after the point."""
    return _modulus(unit)[1]


def is_multiple(value: int | float, unit: int | float) -> bool:
    """Whether ``value`` is a multiple of ``unit``, both taken as the decimals that Python prints."""
    return Fraction(Decimal(repr(value))) % Fraction(Decimal(repr(unit))) == 0


@bounded_cache
def _classes(modulus: int, unit: int, others: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """The class of each residue, and a member of each class: Moore's partition refinement of the automaton that reads digits.

    A residue accepts if it is a multiple of ``unit`` and of none of ``others``. Raises :class:`TooManyResiduesError`.
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
    """``unit`` as ``modulus * 10 ** (zeros - scale)``: modulus, scale, zeros."""
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

    ``points``: whole numbers may be written as ``1.0``. ``exact``: no more digits than a double keeps exactly.
    Raises :class:`TooManyResiduesError`.
    """
    _, scale, zeros = _modulus(unit)
    if others:
        scale, zeros = max(_modulus(u)[1] for u in (unit, *others)), 0
    whole_unit, whole_others = int(unit * 10**scale) // 10**zeros, tuple(int(u * 10**scale) for u in others)
    step = Fraction(10**zeros, 10**scale)
    first = math.ceil(Fraction(low) / step)
    last = None if high is None else math.floor(Fraction(high) / step)
    if last is not None and first > last:
        return EMPTY
    try:
        layout = _Layout(whole_unit, whole_others, scale, zeros, first, last, points)
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
    """Multiples as an intersection of automata: one for each prime power of ``unit``, and the complement of one for each of
    ``others``. All numbers are in units of ``10 ** -scale``.

    All automata spell a number in the same ways, so the complement of one of ``others`` excludes exactly its multiples. The
    prime powers of ``others`` that divide ``unit`` are dropped: they decide nothing.
    """
    if any(unit % other == 0 for other in others):
        return EMPTY
    powers = _prime_powers(unit)
    others = tuple({math.prod(power for power in _prime_powers(other) if unit % power) for other in others})
    if unit * math.lcm(unit, *others) > _MOST_SEARCHED:
        raise TooManyResiduesError
    wanted = [_Layout(power, (), scale, 0, *bounds, points) for power in powers]
    unwanted = [_Layout(other, (), scale, 0, 0, None, points) for other in others]
    shortest = min(EXACT_DIGITS if exact else _MOST_DIGITS, *(layout.length for layout in (*wanted, *unwanted)))
    for layout in wanted:
        layout.length = min(layout.length, shortest)
    return both(*(layout.expr() for layout in wanted), *(complement(layout.expr()) for layout in unwanted))


def _prime_powers(number: int) -> list[int]:
    """The prime powers whose product is ``number``, [1] for 1. Raises :class:`TooManyResiduesError` for a large prime factor,
    and for a large ``number``, since so many residues may have to be searched.
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
    """Whole numbers one by one, in the spelling of :class:`_Layout`."""
    texts = [str(value).encode() for value in values]
    short = [text for text in texts if len(text) <= EXACT_DIGITS]
    long = [] if exact else [text for text in texts if len(text) > EXACT_DIGITS]
    zeros = optional(cat(POINT, repeat(ZERO, 1, _PADDING))) if points else EPSILON
    return alt(cat(literals(short), zeros), literals(long))


_DigitsRead = tuple[int, int, int, int]
"""Digits of the whole part read, the class of their residue, comparisons with the leading digits of both bounds."""


class _Layout:
    """Builds the automaton for the multiples of ``unit``, of none of ``others``, from ``first`` to ``last``; all these in units
    of ``10 ** (zeros - scale)``.
    """

    def __init__(
        self, unit: int, others: tuple[int, ...], scale: int, zeros: int, first: int, last: int | None, points: bool
    ) -> None:
        modulus = math.lcm(unit, *others)
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
        self.moves: list[tuple[tuple[int, ...], tuple[int, ...]]] = []  # by class of residue: sets of digits, their targets
        for member in self.members:
            masks: dict[int, int] = {}
            for digit in range(10):
                below = self.classes[(10 * member + digit) % modulus]
                masks[below] = masks.get(below, 0) | 1 << 0x30 + digit
            self.moves.append((tuple(masks.values()), tuple(masks)))
        self.known: dict[_DigitsRead, int] = {}
        self.fractions: dict[tuple[int, int, int, int], int] = {}
        self.free: list[list[int]] = []  # by number of digits and class: states where bounds no longer matter
        self.numbers: dict[tuple[int, ...], int] = {}  # the number of each state, by its tail and edges

    def expr(self) -> Expr:
        # Zero stands alone; other texts begin with another digit. Lengths are bounded, and states are built from the end.
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
        """The number of a state; equal states share one. ``_NO_STATE`` for one that matches nothing."""
        words = (tail, *chain.from_iterable(edges))
        if words == (0,):
            return _NO_STATE
        return self.numbers.setdefault(words, len(self.numbers))

    def _step(self, done: int, residue: int, low: int, high: int, digit: int) -> tuple[int, int, int]:
        """Read one more digit of the whole part: class of the residue, comparisons with the leading digits of the bounds."""
        if low == _EQUAL:
            low = _compare(digit, self.low[done]) if done < len(self.low) else _GREATER
        if self.high is None:
            high = _LESS
        elif high == _EQUAL:
            high = _compare(digit, self.high[done]) if done < len(self.high) else _GREATER
        if done + 1 > len(self.low):
            low = _GREATER
        return self.classes[(10 * self.members[residue] + digit) % self.modulus], low, high

    def _whole(self, root: _DigitsRead) -> int:
        """The number of the state after some digits of the whole part, built with all states after it.

        It keeps its own stack, since a bound may have thousands of digits.
        """
        if self._found(root) != _UNKNOWN:
            return self._found(root)
        begun = self._following(root)
        pending = [(root, begun, iter(begun))]
        while pending:
            read, following, left = pending[-1]
            for after in left:
                if self._found(after) == _UNKNOWN:
                    begun = self._following(after)
                    pending.append((after, begun, iter(begun)))
                    break
            else:
                pending.pop()
                edges = _grouped((bit, self._found(after)) for after, (_, bit) in zip(following, _DIGITS, strict=False))
                self.known[read] = self._whole_state(*read, edges)
        return self._found(root)

    def _found(self, read: _DigitsRead) -> int:
        """The state after some digits; ``_UNKNOWN`` where the bounds still matter and it is not built yet."""
        done, residue, low, high = read
        if low == _GREATER and high == _LESS:
            state = self.free[done][residue] if self.free else _UNKNOWN
            return self._fill(done, residue) if state == _UNKNOWN else state
        return self.known.get(read, _UNKNOWN)

    def _following(self, read: _DigitsRead) -> list[_DigitsRead]:
        """What is read after each further digit; none after the last possible one."""
        return [(read[0] + 1, *self._step(*read, digit)) for digit, _ in _DIGITS] if read[0] < self.length else []

    def _fill(self, done: int, residue: int) -> int:
        """Build the state after ``done`` digits where bounds no longer matter, after all states that follow it."""
        moves = self.moves
        free = self.free = self.free or [[_UNKNOWN] * len(moves) for _ in range(self.length + 1)]
        rows = [{residue}]
        for at in range(done + 1, self.length + 1):
            unknown = {r for before in rows[-1] for r in moves[before][1] if free[at][r] == _UNKNOWN}
            if not unknown:
                break
            rows.append(unknown)
        for at in range(done + len(rows) - 1, done - 1, -1):
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
        """The state after ``done`` digits of the whole part; ``edges``: its edges for further digits."""
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
        """The state after ``done`` digits of the fraction."""
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
    """What may follow the digits read, numbered from 1. For zero: ``_ENDS``, nothing; ``_PADDED_TAIL``, optionally a point and
    zeros. For other numbers, which end in ``zeros`` zeros, the same two, at numbers higher by 2. Last, after a fraction.
    """
    more = literal(b"0" * zeros)
    point = optional(cat(POINT, repeat(ZERO, 1, _PADDING)))
    return EPSILON, point, more, cat(more, point), repeat(ZERO, 0, _PADDING)


def _grouped(edges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Edges (a set of bytes and the target state), with those to the same target merged."""
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
