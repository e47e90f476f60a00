"""Measures of expressions beside brute force over texts: the shortest match, what a match may still need, the bytes in it."""

from __future__ import annotations

import itertools
import random

import numpy as np
from engine_tools import at_least, cases, ids_of, status

from cdplugin import expr
from cdplugin.engine.arena import Arena, Notes
from cdplugin.expr import Expr
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.regex.expressions import EMPTY
from cdplugin.kernels.regex.measures import FAR
from cdplugin.kernels.store import layout
from cdplugin.queries.measures import Measures

BYTES = b"ab\xff"
LONGEST = 4


def random_tree(rng: random.Random, depth: int) -> Expr:
    kind = rng.randrange(7 if depth else 3)
    if kind == 0:
        return expr.literal(bytes(rng.choices(BYTES, k=rng.randint(0, 3))))
    if kind == 1:
        return expr.byte_class(bytes(rng.sample(list(BYTES), rng.randint(1, 3))))
    if kind == 2:
        return expr.literals([bytes(rng.choices(BYTES, k=rng.randint(0, 3))) for _ in range(rng.randint(1, 4))])
    parts = [random_tree(rng, depth - 1) for _ in range(rng.randint(2, 3))]
    if kind == 3:
        return expr.cat(*parts)
    if kind == 4:
        return expr.alt(*parts)
    if kind == 5:
        return expr.both(*parts) if rng.random() < 0.5 else expr.both(parts[0], expr.complement(parts[1]))
    low = rng.randint(0, 2)
    return expr.repeat(parts[0], low, rng.choice([None, low + 1]))


def derivatives(arena: Arena, e: int) -> dict[bytes, int]:
    """The derivatives by all texts of at most ``LONGEST`` bytes, the dead ones aside."""
    out = {b"": e}
    for length in range(1, LONGEST + 1):
        for text in map(bytes, itertools.product(BYTES, repeat=length)):
            if text[:-1] in out:
                after = arena.call(kernels.OP_DERIVE, out[text[:-1]], text[-1])
                if after != EMPTY and status(arena, after)[0]:
                    out[text] = after
    return out


def test_beside_brute_force() -> None:
    rng = random.Random(8)
    exact = longer = 0
    for _ in range(cases(500, 40)):
        tree = random_tree(rng, 3)
        arena, (e,) = ids_of(tree)
        measures = Measures(arena)
        least, rest, needed = measures.least(e), measures.rest(e), measures.needed(e)
        alive = derivatives(arena, e)
        matches = [text for text, after in alive.items() if status(arena, after)[1]]
        is_pure = "both" not in repr(tree) and "complement" not in repr(tree)
        shortest = min(map(len, matches), default=None)
        if shortest is not None:
            assert least <= shortest
            exact += least == shortest
            if needed:
                assert all(any(needed >> byte & 1 for byte in text) for text in matches), tree
            for text in alive:
                left = min((len(match) - len(text) for match in matches if match.startswith(text)), default=0)
                assert left <= rest, (tree, text)
                longer += left > 1
        elif is_pure:
            assert least > LONGEST
    assert exact > at_least(200, 10) and longer > at_least(100, 5)


def test_nothing_and_very_long_matches() -> None:
    long = expr.repeat(expr.repeat(expr.literal(b"ab"), 1 << 20, 1 << 20), 1 << 20, 1 << 20)
    arena, (nothing, empty, far) = ids_of(expr.EMPTY, expr.EPSILON, long)
    measures = Measures(arena)
    assert measures.least(nothing) == FAR and measures.least(empty) == measures.rest(empty) == 0
    assert measures.least(far) == FAR - 1 and measures.rest(far) == FAR


def test_what_clones_share_is_measured_once() -> None:
    """The records of the expressions that an arena was cloned with are another's; its own come after them."""
    tree = expr.cat(expr.literal(b"abc"), expr.repeat(expr.byte_class(b"xyz")))
    arena, (e,) = ids_of(tree)
    alone = Measures(arena)
    expected = [(alone.least(k), alone.rest(k), alone.needed(k)) for k in range(1, e + 1)]
    arena.notes = Notes(e)  # as if all before the last one were a template's
    first = Measures(arena)
    assert first.least(e) == expected[-1][0]
    noted = arena.notes.measures
    assert noted is not None
    second = Measures(arena)
    assert [(second.least(k), second.rest(k), second.needed(k)) for k in range(1, e + 1)] == expected
    assert arena.notes.measures is noted and np.array_equal(second._records[: len(noted)], noted)
    assert int(arena.header[layout.N_VALUES]) > e
