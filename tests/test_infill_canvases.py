"""Texts with many slots, which the matcher fills from slot to slot (:mod:`cdplugin.infill.canvases`)."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from engine_tools import ALL_BYTES, at_least, cases, ir_of, members, seeds

import cdplugin as cd
from cdplugin import expr
from cdplugin.infill import answers, beam
from cdplugin.infill import session as session_module
from cdplugin.infill import steps as steps_module
from cdplugin.infill import tables as tables_module
from cdplugin.infill.canvases import Canvas
from cdplugin.infill.tables import InfillGrammar

WORDS = [b"x", b" ", b"\n", b"(", b")", b"if", b"ab", b"#", b"x)"]
SMALL = cd.Vocabulary.from_bytes([*WORDS, b"</s>"], eos_token_ids=len(WORDS))
NAMES = cd.Lark('start: (s "\\n")*\ns: "if" NAME | NAME ["(" s? ")"]\nNAME: /[abfix]+/\n%ignore " "\n%ignore /#[^\\n]*/')
BLOCKS = cd.Lark(r"""
%indent {"max_width": 4, "OPEN_PAREN_types": [], "CLOSE_PAREN_types": []}
start: s+
s: NAME "(" NAME? ")" _NEWLINE | "if" NAME _NEWLINE _INDENT s+ _DEDENT
NAME: /[abfix]+/
%ignore / +/
""")
TOKENS = [*ALL_BYTES, b"def ", b"    ", b"return ", b"):\n", b" = ", b"</s>"]
EOS, MASK = len(TOKENS) - 1, len(TOKENS)
PROGRAM = """def below_zero(operations, limit=0):
    \"\"\" Whether the balance falls below a limit.
    >>> below_zero([1, 2, -4])
    True
    \"\"\"
    balance = 0
    for op in operations:
        balance += op
        if balance < limit:
            return True
    return False
"""
SHORT = 'def f(a, b=0):\n    """Text."""\n    return (a + b)\n'


@pytest.fixture(scope="module")
def names() -> cd.Infill:
    return cd.Infill(cd.Compiler(SMALL).compile(NAMES))


@pytest.fixture(scope="module")
def python() -> cd.Infill:
    vocab = cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=EOS)
    return cd.Infill(cd.Compiler(vocab).compile(cd.grammars.python(max_width=20)))


def problem(infill: cd.Infill, rng: random.Random) -> cd.InfillSession:
    """A canvas with up to four slots, anywhere."""
    ids = [rng.randrange(len(WORDS)) for _ in range(rng.randint(1, 8))]
    for place in rng.sample(range(len(ids)), min(len(ids), rng.randint(1, 4))):
        ids[place] = -1
    if rng.random() < 0.5:
        return infill.new([cd.Slots(1) if i < 0 else [i] for i in ids])
    return infill.canvas(ids, -1)


def all_fillings(infill: cd.Infill, session: cd.InfillSession) -> list[list[int]]:
    """The tokens of every legal text that a session's slots can become. Those of a canvas end with end tokens."""
    parts, end = session._parts, len(WORDS)
    found = []
    for filling in itertools.product(range(end + session._padded), repeat=sum(part.is_open for part in parts)):
        rest = iter(filling)
        tokens = [next(rest) if part.is_open else part.text for part in parts]
        n_text = next((i for i, token in enumerate(tokens) if token == end), len(tokens))
        if any(token != end for token in tokens[n_text:]):
            continue
        text = b"".join(token if isinstance(token, bytes) else WORDS[token] for token in tokens[:n_text])
        if infill.accepts(text):
            found.append(list(filling))
    return found


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_a_canvas_is_filled_where_it_can_be(names: cd.Infill, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with all fillings. A beam that may widen misses none; what a narrow one finds is right."""
    rng = random.Random(seed)
    n_fillable = 0
    for _ in range(25):
        session = problem(names, rng)
        legal = all_fillings(names, session)
        n_fillable += bool(legal)
        for most in (rng.randint(1, 5), 100_000):
            monkeypatch.setattr(beam, "_MOST_OF_A_KIND", rng.choice([1, 2, 32]))
            with session._asking():
                found = Canvas(names._tables, session._parts, session._padded).witness(most)
            if found is not None:
                assert [token for token, part in zip(found, session._parts, strict=True) if part.is_open] in legal
            assert found is not None or most <= 5 or not legal, session._parts
    assert n_fillable > 2


@pytest.mark.parametrize("spec", [NAMES, BLOCKS], ids=["names", "blocks"])
@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_slots_of_too_many_classes_are_filled_by_the_matcher(spec: cd.Lark, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with all fillings, as if two classes of tokens were too many for a lattice (with a large vocabulary and C++, one
    slot has thousands). What is found is right, what is refused cannot be filled, and what a mask lacks is counted.
    """
    monkeypatch.setattr(tables_module, "MOST_CLASSES", 2)
    infill = cd.Infill(cd.Compiler(SMALL).compile(spec))
    rng = random.Random(seed)
    answered: Counter[bool | None] = Counter()
    n_equal = 0
    for _ in range(cases(40, 8, 40)):
        session = problem(infill, rng)
        legal = all_fillings(infill, session)
        try:
            answer: bool | None = session.completable()
        except cd.LimitExceeded:
            answer = None
        answered[answer] += 1
        assert answer in (bool(legal), None), session._parts
        if not answer or not session.open_slots():
            continue
        at = rng.randrange(len(session.open_slots()))
        row = session.mask(session.open_slots()[at]).view(np.uint8)
        allowed = set(np.flatnonzero(np.unpackbits(row, bitorder="little")).tolist())
        right = {filling[at] for filling in legal}
        assert allowed and allowed <= right, session._parts
        assert len(right - allowed) <= session.undecided
        n_equal += allowed == right
        token = rng.choice(sorted(allowed))
        assert session.set(session.open_slots()[at], token), session._parts
    assert min(answered[True], answered[False], n_equal) > 0


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_end_tokens_where_the_matcher_fills_slots(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with all fillings. Known texts tell most, or a lattice of gaps; a search tells the others, or gives up."""
    monkeypatch.setattr(tables_module, "MOST_CLASSES", 2)
    infill = cd.Infill(cd.Compiler(SMALL).compile(NAMES))
    rng = random.Random(seed)
    end = len(WORDS)
    answered: Counter[tuple[bool, bool]] = Counter()
    n_searched = 0
    search = answers.Answers._is_filled_together

    def searched(self: answers.Answers, *arguments: Any) -> bool:
        nonlocal n_searched
        n_searched += 1
        return search(self, *arguments)

    monkeypatch.setattr(answers.Answers, "_is_filled_together", searched)
    for _ in range(cases(60, 8, 40)):
        ids = [rng.randrange(len(WORDS)) for _ in range(rng.randint(0, 6))]
        for place in rng.sample(range(len(ids)), min(len(ids), rng.randint(0, 2))):
            ids[place] = -1
        n_last = rng.randint(1, 2)
        session = infill.canvas(ids + [-1] * n_last, -1)
        legal = all_fillings(infill, session)
        if not legal or not session_module.surely(session.completable):
            continue
        slots = session.open_slots()
        at = len(slots) - rng.randint(1, n_last)
        may_end = bool(session.mask(slots[at])[end >> 5] >> (end & 31) & 1)
        is_right = any(filling[at] == end for filling in legal)
        answered[may_end, is_right] += 1
        assert may_end == is_right or (is_right and session.undecided), session._parts
        assert not may_end or session.set(slots[at], end)
    assert min(answered[True, True], answered[False, False], n_searched) > at_least(0, -1)


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_what_is_known_of_a_text_is_of_use_for_one_like_it(names: cd.Infill, seed: int) -> None:
    """One part differs, as after a token was set or taken back: what is found is a legal text of the new one."""
    rng = random.Random(seed)
    n_filled = 0
    for _ in range(25):
        session = problem(names, rng)
        with session._asking():
            known = Canvas(names._tables, session._parts, session._padded).witness(1000)
        if known is None:
            continue
        before = list(session._parts)
        part = rng.choice([i for i, part in enumerate(before) if part.slot])
        session._parts[part] = names.new([[rng.randrange(len(WORDS))]])._parts[0]
        canvas = Canvas(names._tables, session._parts, session._padded)
        with session._asking():
            canvas.remember(before, known)
            found = canvas.witness(1000)
        legal = all_fillings(names, session)
        assert (found is not None) == bool(legal)
        if found is not None:
            assert [token for token, part in zip(found, session._parts, strict=True) if part.is_open] in legal
            n_filled += 1
    assert n_filled


def test_what_is_known_of_other_parts_is_not_taken_over(names: cd.Infill) -> None:
    """As of a text whose gaps side by side were not merged: a slot would get the text of a gap, which is no token."""
    known, session = names.new([cd.GAP, cd.GAP, cd.Slots(1)]), names.new([cd.GAP, cd.Slots(1), cd.GAP])
    canvas = Canvas(names._tables, session._parts, session._padded)
    canvas.remember(known._parts, [b"", WORDS[0] * 20, 0])
    canvas.recall([{0: b"", 1: WORDS[0] * 20, 2: b""}])
    assert not canvas.guides
    canvas.recall([{0: b"", 1: WORDS[0], 2: b""}])
    assert len(canvas.guides) == 1


def test_a_known_text_is_found_without_a_search(python: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is what lies behind a slot whose token leads where the known one does."""
    session = python.canvas([MASK if i % 4 == 1 else i for i in b"x = [1, 2]\n"], MASK)
    with session._asking():
        known = Canvas(python._tables, session._parts, True).witness(500)
        assert known is not None
        monkeypatch.setattr(Canvas, "ways", None)
        canvas = Canvas(python._tables, session._parts, True)
        canvas.remember(session._parts, known)
        assert canvas.witness(500) == known
        slots = [i for i, part in enumerate(session._parts) if part.is_open]
        tables = python._tables
        left = b"".join(part.text or TOKENS[known[i]] for i, part in enumerate(session._parts[: slots[0] + 1]))
        rest = canvas.behind(slots[0], tables.step(tables.start, left), 500)
        assert rest == [TOKENS[known[i]] for i in slots[1:]]


def test_a_text_like_the_known_one_is_found_without_a_search(python: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a token that leads to another cursor than the known one; where the known text does not go on, a search is made."""
    tables = python._tables
    session = python.canvas([MASK if i in b"1a" else i for i in b"x = f(1 + a)\n"], MASK)
    slots = [i for i, part in enumerate(session._parts) if part.is_open]
    known = [None if not part.is_open else b"1a"[i > slots[0]] for i, part in enumerate(session._parts)]
    after = {text: tables.step(tables.start, b"x = f(" + text) for text in (b"1", b"a", b"(", b"'")}
    with session._asking():
        canvas = Canvas(tables, session._parts, True)
        canvas.remember(session._parts, known)
        assert len(set(after.values())) == 4
        assert all(canvas.behind(slots[0], after[text], 0) == [b"a"] for text in (b"1", b"a"))
        assert all(canvas.behind(slots[0], after[text], 0) is None for text in (b"(", b"'"))
        assert canvas.behind(slots[0], after[b"'"], 50) == [b"'"]
        monkeypatch.setattr(Canvas, "ways", None)
        assert canvas.behind(slots[0], after[b"a"], 0) == [b"a"]


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_cursors_before_a_slot(names: cd.Infill, seed: int) -> None:
    """Compared with all texts of the places on its left: a beam that may widen misses no cursor, and the texts lead there."""
    rng = random.Random(seed)
    tables = names._tables
    n_found = 0
    for _ in range(25):
        session = problem(names, rng)
        parts = session._parts
        part = rng.choice([i for i, part in enumerate(parts) if part.slot])
        with session._asking():
            canvas = Canvas(tables, parts, session._padded)
            known = canvas.witness(1000) if rng.random() < 0.5 else None
            if known is not None:
                canvas.remember(parts, known)
            found = canvas.before(part, 100_000)
        places = [i for i in range(part) if parts[i].is_open]

        def after(filling: Sequence[bytes], session: cd.InfillSession = session, part: int = part) -> int:
            texts = iter(filling)
            text = b"".join(next(texts) if some.is_open else some.text for some in session._parts[:part])
            return tables.step(tables.start, text)

        expected = {after(filling) for filling in itertools.product(WORDS, repeat=len(places))} - {0}
        assert {cursor for cursor, _ in found} == expected
        assert len(found) == len(expected)
        assert all(after(filling) == cursor for cursor, filling in found)
        n_found += len(found)
        with session._asking():
            opened = canvas.opened(part, [b"(", b"#", b"x", b"y", b"if"])
        assert all(after(filling) == cursor and set(filling) <= set(WORDS) for cursor, filling in opened)
        assert len({cursor for cursor, _ in opened} - {0}) == len(opened)
    assert n_found > 10


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_known_texts_with_another_token_lead_to_the_end(names: cd.Infill, seed: int) -> None:
    """Whatever texts of the places are tried, what is found is legal, and has a token for each slot."""
    rng = random.Random(seed)
    tables = names._tables
    n_found = 0
    for _ in range(300):
        session = problem(names, rng)
        parts = session._parts
        places = [i for i, part in enumerate(parts) if part.slot and part.is_open]
        part = rng.choice(places)
        left = b"".join(part.text or rng.choice(WORDS) for part in parts[: part + 1])
        with session._asking():
            canvas = Canvas(tables, parts, session._padded)
            for _ in range(3):
                n_text = rng.randint(0, len(places))
                canvas.recall([{i: rng.choice(WORDS) if n < n_text else b"" for n, i in enumerate(places)}])
            assert [dict(guide) for guide in canvas.guides_by_part()] == [
                dict(zip(places, guide, strict=True)) for guide in canvas.guides
            ]
            at = places.index(part)
            cursor = tables.step(tables.start, left + canvas.places[at].text)
            rest = canvas._guided(at + 1, [cursor], rng.random() < 0.5).get(cursor)
        if rest is None:
            continue
        n_found += 1
        texts = iter(rest)
        text = left + b"".join(next(texts) if some.is_open else some.text for some in parts[part + 1 :])
        assert names.accepts(text)
        n_text = next((i for i, filling in enumerate(rest) if not filling), len(rest))
        assert set(rest[:n_text]) <= set(WORDS)
        assert not any(rest[n_text:])
        assert n_text == len(rest) or session._padded
    assert n_found


def test_where_tokens_lead_is_kept(names: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside each token's own step; of so many cursors, and not longer than what texts taught."""
    tables = names._tables
    cursors = [tables.step(tables.start, text) for text in (b"", b"x", b"x(", b"if ab", b"x #")]
    tables._forget_gap_texts()
    monkeypatch.setattr(steps_module, "_MOST_TOKEN_SUCCESSORS", 12)
    with names.new([cd.GAP])._asking():
        for cursor in [*cursors, *cursors]:
            found = tables.token_successors(cursor)
            assert tables.token_successors(cursor) is found
            ends = Counter(tables.step(cursor, word) for word in WORDS)
            del ends[0]
            assert dict(zip(found.cursors.tolist(), found.sizes.tolist(), strict=True)) == ends
            texts = [tables.vocab.tokens[token] or b"" for token in found.firsts.tolist()]
            assert [tables.step(cursor, text) for text in texts] == found.cursors.tolist()
            n_kept = sum(len(one.cursors) for one in tables._token_successors.values())
            assert tables._n_token_successors == n_kept <= 12 + len(WORDS)
    assert tables._n_token_successors
    tables._forget_gap_texts()
    assert not tables._token_successors
    assert not tables._n_token_successors


def scattered(rng: random.Random, program: str = PROGRAM, n_places: int = 30) -> tuple[list[int], list[int]]:
    """A program in tokens, and some places."""
    ids: list[int] = []
    text = program.encode()
    while text:
        token = next((token for token in range(256, EOS) if text.startswith(TOKENS[token])), text[0])
        text = text[len(TOKENS[token]) :]
        ids.append(token)
    return ids, rng.sample(range(len(ids)), n_places)


@pytest.mark.parametrize("seed", range(2, 2 + cases(6, 1, 2)))
def test_thirty_slots_of_a_program_are_filled(python: cd.Infill, seed: int) -> None:
    """With the program's own tokens, in random order; before, the first question was mostly given up after seconds."""
    ids, places = scattered(random.Random(seed))
    session = python.canvas([MASK if i in places else token for i, token in enumerate(ids)], MASK)
    assert session.completable()
    for place in places:
        assert session.set(place, ids[place])
    assert session.text() == PROGRAM


@pytest.mark.parametrize("seed", range(2, 2 + cases(3, 1, 1)))
def test_masks_of_many_slots_have_tokens_that_can_be_set(python: cd.Infill, seed: int) -> None:
    """Also others than the one that stands in the known text; each leaves a text that is filled to a legal one."""
    rng = random.Random(seed)
    ids, places = scattered(rng, SHORT, 12)
    session = python.canvas([MASK if i in places else token for i, token in enumerate(ids)], MASK)
    n_tokens = []
    for place in places:
        allowed = np.flatnonzero(np.unpackbits(session.mask(place).view(np.uint8), bitorder="little"))
        n_tokens.append(len(allowed))
        assert session.set(place, int(rng.choice(allowed)))
    assert min(n_tokens) > 0
    assert sum(n_tokens) > 10 * len(places)
    text = session.text()
    assert text is not None
    assert python.accepts(text.encode())


@pytest.mark.parametrize("seed", range(2, 2 + cases(4, 1, 1)))
def test_masks_of_many_slots_try_few_texts(python: cd.Infill, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, up to 100,000 texts for each mask, a second of work and, over a large vocabulary, up to 30."""
    ids, places = scattered(random.Random(seed))
    session = python.canvas([MASK if i in places else token for i, token in enumerate(ids)], MASK)
    assert session.completable()
    n_steps, n_own = 0, 0
    step = InfillGrammar.step

    def counted(self: InfillGrammar, cursor: int, text: bytes) -> int:
        nonlocal n_steps
        n_steps += 1
        return step(self, cursor, text)

    monkeypatch.setattr(InfillGrammar, "step", counted)
    for place in places[:8]:
        n_steps = 0
        row = session.mask(place)
        assert n_steps < 20_000
        n_own += int(row[ids[place] >> 5] >> (ids[place] & 31) & 1)
        assert session.set(place, ids[place])
    assert n_own > 5


def test_most_masks_of_a_canvas_need_no_search(python: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was known of the last mask proves most tokens. Before, in one of 48 masks no state was followed, and in one fewer
    than seven tokens were undecided, 51 in most.
    """
    n_followed, counts = 0, []
    follow = beam.Beam._follow

    def counted(self: beam.Beam, *arguments: Any) -> Any:
        nonlocal n_followed
        n_followed += 1
        return follow(self, *arguments)

    monkeypatch.setattr(beam.Beam, "_follow", counted)
    for seed in range(2, 6):
        ids, places = scattered(random.Random(seed))
        session = python.canvas([MASK if i in places else token for i, token in enumerate(ids)], MASK)
        assert session.completable()
        for place in places[:12]:
            n_followed = 0
            session.mask(place)
            counts.append((n_followed == 0, session.undecided < 7))
            assert session.set(place, ids[place])
    assert all(sum(some) > len(counts) // 4 for some in zip(*counts, strict=True))


@pytest.mark.parametrize("seed", seeds(12, 1, 3))
def test_the_first_texts_of_a_grammar_are_filled_before_a_lattice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared with all fillings. Six slots of a wide grammar took the first check 2.5 s, to find what its tokens may end."""
    rng = random.Random(seed)
    n_filled = 0
    for _ in range(6):
        infill = cd.Infill(cd.Compiler(SMALL).compile(NAMES))
        session = problem(infill, rng)
        legal = all_fillings(infill, session)
        with monkeypatch.context() as patch:
            if legal:
                patch.setattr(answers.Answers, "build", None)
            assert session.completable() == bool(legal)
        n_filled += bool(legal)
        if legal:
            slot, tokens = session.open_slots()[0], {filling[0] for filling in legal}
            allowed = np.flatnonzero(np.unpackbits(session.mask(slot).view(np.uint8), bitorder="little"))
            assert set(allowed.tolist()) == tokens
    assert n_filled


def test_texts_with_many_slots_that_cannot_be_filled_are_refused(python: cd.Infill) -> None:
    """By a lattice of gaps, without a search; what is not found out says so."""
    ids, places = scattered(random.Random(0))
    session = python.canvas([MASK if i in places else token for i, token in enumerate(ids)], MASK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "MOST_STATES", 0)
        with pytest.raises(cd.LimitExceeded, match="was not found out"):
            session.completable()
    broken = [t for i in b"a b c d e f g h" for t in (i, MASK)] + list(b"\n\xff\n")
    assert not python.canvas(broken, MASK).completable()


def test_classes_are_not_counted_to_the_end_where_they_are_many(names: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of Python's slots with Llama 3's tokens, 4,044, took nearly all the work of the first question."""
    monkeypatch.setattr(tables_module, "_TOKENS_AT_ONCE", 1)
    monkeypatch.setattr(tables_module, "MOST_CLASSES", 2)
    tables = names._tables
    with tables:
        whole = tables.classify(tables.loose)
    other = cd.Infill(cd.Compiler(SMALL).compile(NAMES))
    tables = other._tables
    with tables, tables.arena.one_budget(1 << 30):
        assert tables.has_many_classes() and not tables.loose.classified
        assert tables.classify(tables.loose) == whole > 3
        assert tables.has_many_classes()


def test_a_known_text_completes_a_canvas_without_masks(python: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty slots took a mask each, of a tenth of a second and more."""
    ids, places = scattered(random.Random(2))
    session = python.canvas([MASK if i in places else token for i, token in enumerate(ids)], MASK)
    assert session.completable()
    before = session.open_slots()
    with monkeypatch.context() as patch:
        patch.setattr(cd.InfillSession, "mask", None)
        text = session.complete()
    assert python.accepts(text.encode()) and session.open_slots() == before
    assert session.complete() == text


def test_a_completion_that_takes_too_much_work_is_the_known_text(python: cd.Infill, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random tokens take masks; where these take too much, the text by which the canvas was found completable is left."""
    ids, places = scattered(random.Random(2))
    session = python.canvas([MASK if i in places else token for i, token in enumerate(ids)], MASK)
    known = session.complete()
    monkeypatch.setattr(session_module, "COMPLETION_STEPS", 0)
    assert session.complete(random.Random(0)) == known
    assert python.accepts(known.encode())


def test_where_the_text_may_end_a_known_text_is_not_gone_on_with(python: cd.Infill) -> None:
    """Without a generator the rest of a canvas is end tokens as soon as may be."""
    session = python.canvas([*b"x\n", *[MASK] * 5], MASK)
    assert session.completable() and session.complete() == "x\n"


def test_a_slot_whose_mask_was_asked_for_has_all_its_nodes_in_the_next_question() -> None:
    """The lattice of a mask has one node for all classes of its own slot, so it is not gone on with behind that slot. (Of the
    second mask, five tokens were legal in no text.)
    """
    x = expr.literal(b"x")
    some, more = expr.repeat(expr.byte_class(b"xy"), 1, 2), expr.repeat(x, 1)
    rules = {
        "s": [[more, x], ["c", "d", more], ["s", some], ["d", "s", more]],
        "c": [[some], [some, x], [x]],
        "d": [[some], ["c"]],
    }
    tokens = [b"y", b"x", b"yy", b"yyy", b"yxy"]
    infill = cd.Infill(cd.Compiler(cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=5)).compile_ir(ir_of(rules)))
    session = infill.canvas([4, 0, 3, -1, 1, -1], -1)
    legal = [
        {b for a in range(5) for b in range(5) if infill.accepts(b"".join(tokens[t] for t in (4, 0, 3, a, 1, b)))},
        {a for a in range(5) for b in range(5) if infill.accepts(b"".join(tokens[t] for t in (4, 0, 3, a, 1, b)))},
    ]
    for _ in range(2):
        assert members(session.mask(3)) == legal[1]
        assert members(session.mask(5)) == legal[0] == {1, 4}
    session = infill.canvas([4, 0, 3, -1, 1, -1], -1)
    assert session.mask(3).any() and not session.set(5, 0)


def test_what_a_mask_leaves_out_is_counted_when_it_is_asked_for_again() -> None:
    """A completion asks for other masks in between."""
    infill = cd.Infill(cd.Compiler(SMALL).compile(NAMES))
    session = infill.new([cd.Slots(2)])
    asked = session._answers.mask

    def mask(parts: Any, hole: int, *others: Any) -> int:
        return asked(parts, hole, *others) + 7 * (hole == 0)

    session._answers.mask = mask  # type: ignore[method-assign]
    session.mask(0)
    left_out = session.undecided
    assert left_out >= 7
    session.complete(random.Random(1))
    assert session.undecided == left_out
    session.mask(1)
    assert session.undecided != left_out
    session.mask(0)
    session.complete()
    session.mask(0)
    assert session.undecided == left_out


def test_no_end_token_stands_in_a_text_that_goes_on() -> None:
    infill = cd.Infill(cd.Compiler(SMALL).compile(NAMES))
    with pytest.raises(ValueError, match=r"token 9: expected a token with text, found .*</s>"):
        infill.canvas([0, 9, -1], -1, end=False)
