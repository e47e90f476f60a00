"""The search for fillings of slots from many cursors at once, by few tokens (:mod:`cdplugin.infill.together`)."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from engine_tools import at_least, cases, members, seeds
from test_infill_canvases import NAMES, SMALL, WORDS, all_fillings, problem

import cdplugin as cd
from cdplugin.infill import answers, canvases
from cdplugin.infill import tables as tables_module
from cdplugin.infill.canvases import Canvas
from cdplugin.infill.together import FewTokens, Together, short_tokens


@pytest.fixture(scope="module")
def names() -> cd.Infill:
    return cd.Infill(cd.Compiler(SMALL).compile(NAMES))


def test_short_tokens_have_no_letters() -> None:
    texts = [b"a", b"(", b"();", b"(a", b"()()", b"\n  ", b"0", b"\xc3", b"_", b"</s>", b""]
    vocab = cd.Vocabulary.from_bytes(texts, eos_token_ids=9)
    assert short_tokens(cd.Infill(cd.Compiler(vocab).compile(cd.Lark('start: "("')))._tables) == [b"(", b"();", b"\n  ", b"_"]


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_where_few_tokens_lead(names: cd.Infill, seed: int) -> None:
    """As one by one, up to behind a text of any length: each cursor once, with the first token that leads there."""
    rng = random.Random(seed)
    tables = names._tables
    n_found = 0
    for _ in range(cases(40, 5)):
        texts = rng.sample(WORDS, rng.randint(1, len(WORDS)))
        session = names.new([cd.GAP])
        with session._asking():
            few = FewTokens(tables, [*texts, b"</s>", b"not a token"])
            for _ in range(5):
                cursor = tables.step(tables.start, b"".join(rng.choices(WORDS, k=rng.randint(0, 4))))
                behind = rng.choice([b" " * rng.randint(0, 20), b"".join(rng.choices(WORDS, k=rng.choice([1, 2, 8])))])
                if not cursor:
                    continue
                found = few.moves(cursor, behind)
                # the short tokens of the vocabulary are always among them
                assert set(few._texts) >= {*texts, b" ", b"\n", b"(", b")", b"#"} and set(few._texts) <= set(WORDS)
                expected = {tables.step(cursor, text + behind) for text in few._texts} - {0}
                assert {end for _, end in found} == expected
                assert len(found) == len(expected)
                assert all(tables.step(cursor, text + behind) == end for text, end in found)
                n_found += len(found)
    assert n_found > at_least(40, 1)


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_what_is_proven_together_is_all_that_can_be(names: cd.Infill, seed: int) -> None:
    """Compared with all fillings of the places behind one, from the cursors that all texts before it lead to. What few states
    prove is right; with as many as there are, nothing is missed.
    """
    rng = random.Random(seed)
    tables = names._tables
    n_proven = n_refused = 0
    for _ in range(cases(25, 4)):
        session = problem(names, rng)
        parts = session._parts
        n_open = sum(part.is_open for part in parts)
        with session._asking():
            canvas = Canvas(tables, parts, session._padded)
            few = FewTokens(tables, WORDS)
            first = rng.randint(0, n_open)
            before = Together(canvas, few, first)
            before.add(0, canvas._begun[1])
            before.run(10_000)
            for most in (rng.randint(1, 3), 10_000):
                search = Together(canvas, few)
                for cursor, _ in before.reached:
                    search.add(first, cursor)
                search.run(most)
                for cursor, _ in before.reached:
                    rest = canvas.rest_from(first, cursor)
                    places = canvas.places[first:]
                    fillings = itertools.product(*([*WORDS, b""] if place.may_end else WORDS for place in places))
                    legal = [list(filling) for filling in fillings if is_legal(canvas, first, cursor, filling)]
                    assert rest is None or list(rest) in legal
                    assert most < 10 or (rest is not None) == bool(legal), parts
                    n_proven += rest is not None
                    n_refused += most > 10 and not legal
    assert min(n_proven, n_refused) > at_least(5, -1)


def is_legal(canvas: Canvas, first: int, cursor: int, filling: tuple[bytes, ...]) -> bool:
    """Whether some places are filled so that the text is legal: with tokens, and nothing from where the text may end."""
    places = canvas.places[first:]
    n_text = next((i for i, text in enumerate(filling) if not text), len(filling))
    if any(filling[n_text:]):
        return False
    text = b"".join(text + place.text for text, place in zip(filling, places, strict=True))
    end = canvas.tables.step(cursor, text)
    return end != 0 and canvas.tables.accepts_at(end)


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_cursors_before_a_place_are_reached(names: cd.Infill, seed: int) -> None:
    """Compared with all texts of the places before it; the text that is told leads there."""
    rng = random.Random(seed)
    tables = names._tables
    n_reached = 0
    for _ in range(cases(25, 4)):
        session = problem(names, rng)
        with session._asking():
            canvas = Canvas(tables, session._parts, session._padded)
            last = rng.randint(0, len(canvas.places))
            search = Together(canvas, FewTokens(tables, WORDS), last)
            start = canvas._begun[1]
            search.add(0, start)
            search.run(10_000)
            fillings = itertools.product(WORDS, repeat=last)

            def after(filling: tuple[bytes, ...] | list[bytes], canvas: Canvas = canvas, start: int = start) -> int:
                text = b"".join(text + place.text for text, place in zip(filling, canvas.places, strict=False))
                return tables.step(start, text) if start else 0

            expected = {after(filling) for filling in fillings} - {0}
            assert {cursor for cursor, _ in search.reached} == expected
            assert len(search.reached) == len(expected)
            assert all(after(left) == cursor and len(left) == last for cursor, left in search.reached)
        n_reached += len(expected)
    assert n_reached > at_least(20, 1)


def test_what_stays_on_the_left_takes_a_part_of_the_work(names: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that began with what was known of the left took all of it where that did not fit: then a text was not found any
    more, and the masks after it took seconds.
    """
    tables = names._tables
    session = names.canvas([9 if text == b"?" else WORDS.index(text) for text in [b"?", b"(", b"?", b")", b"?", b"\n"]], 9)
    granted = []

    def searched(self: Canvas, first: int, cursor: int, most: int) -> None:
        granted.append((first, tables.work_left - self._until))

    with session._asking():
        known = Canvas(tables, session._parts, True).witness(1000)
        assert known is not None
        monkeypatch.setattr(Canvas, "_search", searched)
        others = list(session._parts)
        at = session._places[2]
        others[at] = names.new([cd.Slots(1)])._parts[0]
        canvas = Canvas(tables, others, True)
        canvas.remember(session._parts, known)
        canvas.grant(1 << 20)
        assert canvas.witness(1000) is None
    (first, left), (start, whole) = granted
    assert first > start == 0
    assert left <= (1 << 20) // canvases._LEFT_WORK < whole <= 1 << 20


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_masks_of_a_text_that_only_a_lattice_knows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The matcher goes from slot to slot for its masks, too, and a legal text is known from then on."""
    monkeypatch.setattr(tables_module, "MOST_CLASSES", 2)
    infill = cd.Infill(cd.Compiler(SMALL).compile(NAMES))
    rng = random.Random(seed)
    n_known = 0
    for _ in range(20):
        session = problem(infill, rng)
        if sum(part.is_open for part in session._parts) < 2:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(answers.Answers, "_is_filled", lambda *arguments: False)
            try:
                if not session.completable():
                    continue
            except cd.LimitExceeded:
                continue
        legal = all_fillings(infill, session)
        session._witness = None
        at = rng.randrange(len(session.open_slots()))
        row = session.mask(session.open_slots()[at])
        assert set(members(row)) <= {filling[at] for filling in legal}
        assert np.any(row)
        if session._witness is not None:
            n_known += 1
            assert [token for token, part in zip(session._witness, session._parts, strict=True) if part.is_open] in legal
    assert n_known
