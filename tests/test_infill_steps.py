"""Following many texts at once, and tokens by class, gives what the matcher gives one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from engine_tools import at_least, cases, seeds
from test_infill_canvases import NAMES, SMALL, WORDS

import cdplugin as cd
from cdplugin.bits import bit_members, packed_bits
from cdplugin.infill.known_ends import KnownEnds
from cdplugin.infill.tables import InfillGrammar
from cdplugin.infill.token_classes import Doubt, OneClass, classes_of

pytestmark = pytest.mark.kernel


@pytest.fixture(scope="module")
def tables() -> InfillGrammar:
    return cd.Infill(cd.Compiler(SMALL).compile(NAMES))._tables


def some_text(rng: random.Random, most: int = 4) -> bytes:
    return b"".join(rng.choices(WORDS, k=rng.randint(0, most)))


def some_cursors(tables: InfillGrammar, rng: random.Random) -> list[int]:
    return [0, *(tables.step(tables.start, some_text(rng)) for _ in range(rng.randint(0, 12)))]


@pytest.mark.parametrize("seed", seeds(8, 1, 2))
def test_many_texts_lead_where_each_does(tables: InfillGrammar, seed: int) -> None:
    rng = random.Random(seed)
    n_legal = 0
    with tables, tables.arena.one_budget(10**8):
        for _ in range(cases(60, 6)):
            cursors = some_cursors(tables, rng)
            texts = [some_text(rng) for _ in range(rng.randint(0, 6))]
            found = tables.step_all(np.array(cursors, np.int64), texts)
            assert found.tolist() == [[tables.step(cursor, text) if cursor else 0 for text in texts] for cursor in cursors]
            n_legal += np.count_nonzero(found)
            text = some_text(rng, 8)
            expected = [tables.step(cursors[-1], text[:i]) if cursors[-1] else 0 for i in range(len(text) + 1)]
            assert tables.trail(cursors[-1], text) == expected
    assert n_legal > at_least(100, 5)


@pytest.mark.parametrize("seed", seeds(8, 1, 2))
def test_the_first_text_that_ends_is_found(tables: InfillGrammar, seed: int) -> None:
    """Also when it is asked again, by what was kept of tails; and after the work that was granted was used up in between."""
    rng = random.Random(seed)
    n_found = n_given_up = 0
    with tables, tables.arena.one_budget(10**8):
        for _ in range(cases(60, 6)):
            tails = [some_text(rng) + rng.choice([b"\n", b")\n", b"#\n", b""]) for _ in range(rng.randint(1, 3))]
            texts = {(some_text(rng, 2), rng.choice(tails)): [] for _ in range(rng.randint(0, 8))}
            ends = KnownEnds(tables, {key: [str(i).encode()] for i, key in enumerate(texts)})
            for _ in range(3):
                cursors = some_cursors(tables, rng)
                expected = []
                for cursor in cursors:
                    after = [tables.step(cursor, head + tail) if cursor else 0 for head, tail in texts]
                    expected.append(next((i for i, end in enumerate(after) if end and tables.accepts_at(end)), -1))
                left = tables.work_left
                try:
                    tables.arena.spend(max(left - rng.choice([50, 500, 10**7]), 0))
                    found = ends.first(cursors)
                except cd.LimitExceeded:
                    n_given_up += 1
                finally:
                    tables.arena.spend(tables.work_left - left)
                found = ends.first(cursors)
                assert found == expected
                n_found += sum(number >= 0 for number in found)
    assert n_found > at_least(60, 2)
    assert n_given_up > at_least(10, 1)


@pytest.mark.parametrize("seed", seeds(8, 1, 2))
def test_tokens_are_counted_and_taken_by_class(tables: InfillGrammar, seed: int) -> None:
    rng = random.Random(seed)
    n_taken = 0
    with tables, tables.arena.one_budget(10**8):
        for _ in range(cases(40, 4)):
            cursor = tables.step(tables.start, some_text(rng, 2)) or tables.start
            some = np.array([rng.random() < 0.7 for _ in range(32 * len(tables.texts_row))])
            cursors, tokens, heads = classes_of(tables.arena, cursor, tables.texts_row & packed_bits(some))
            after = {token: tables.step(cursor, SMALL.tokens[token] or b"") for token in bit_members(tables.texts_row).tolist()}
            for i, end in enumerate(cursors):
                assert tokens[heads[i] : heads[i + 1]].tolist() == [t for t, e in after.items() if e == end and some[t]]
            assert sorted(set(cursors)) == sorted({e for t, e in after.items() if e and some[t]})
            classes = tables.classes.at(cursor)
            for token, end in after.items():
                assert (classes.cursors[classes.numbers[token]] if end else 0) == end
            left = sorted(rng.sample(sorted(after), rng.randint(0, len(after))))
            doubt = Doubt(tables.arena, packed_bits(np.isin(np.arange(32 * len(tables.texts_row)), left)))
            ends = classes.cursors.tolist()
            counts = doubt.counts(classes).tolist()
            assert counts == [sum(after[token] == end for token in left) for end in ends]
            flags = np.array([rng.random() < 0.5 for _ in ends], np.uint8)
            doubt.take(classes, flags)
            taken = [token for token in left if after[token] and flags[ends.index(after[token])]]
            kept = [token for token in left if token not in taken]
            assert doubt.tokens.tolist() == kept and doubt.count == len(kept)
            assert bit_members(doubt.taken).tolist() == taken
            doubt.take_some(kept[:2])
            assert doubt.tokens.tolist() == kept[2:] and doubt.count == len(kept[2:])
            assert bit_members(doubt.taken).tolist() == sorted([*taken, *kept[:2]])
            for number, end in enumerate(ends):
                one = OneClass(classes, number)
                assert one[0] == next(token for token in after if after[token] == end)
                assert [token for token in after if token in one] == [token for token in after if after[token] == end]
            n_taken += len(taken)
    assert n_taken > at_least(10, 0)
