"""Texts that ended gaps (:mod:`cdplugin.infill.gap_texts`): dropped when they become many, and no answer is wrong for it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from engine_tools import ALL_BYTES, FRESH, cases

import cdplugin as cd
from cdplugin.bits import bit_members
from cdplugin.infill import answers, gap_texts, proofs, workspace
from cdplugin.infill import steps as steps_module
from cdplugin.infill.parts import Part, laid_out, with_gaps
from cdplugin.infill.text_tree import Texts, pairs_of
from cdplugin.kernels import entry as engine
from cdplugin.kernels.infill import entry as kernels
from cdplugin.kernels.infill import layout as ws

VOCAB = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)


def answer_of(session: cd.InfillSession) -> bool | None:
    """Whether a text can be completed; None if the question was given up."""
    try:
        return session.completable()
    except cd.LimitExceeded:
        return None


def test_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps and slots answered in turns with next to no room: as with much room, but for slots that are given up."""
    rng = random.Random(0)
    text = "def f(x):\n  if x: return [x, (1)]\n  return 'a'\n"
    grammar = cd.Compiler(VOCAB).compile(cd.grammars.python(max_width=4))
    problems = []
    for _ in range(cases(60, 3, 8)):
        cuts = sorted(rng.sample(range(len(text)), 2 * rng.randint(1, 4)))
        pieces: list[object] = [text[: cuts[0]]]
        for i in range(0, len(cuts), 2):
            end = cuts[i + 2] if i + 2 < len(cuts) else len(text)
            pieces += [rng.choice([cd.GAP, cd.GAP, cd.Slots(cuts[i + 1] - cuts[i])]), text[cuts[i + 1] : end]]
        problems.append(pieces)
    plain, small = cd.Infill(grammar), cd.Infill(grammar)
    expected = [answer_of(plain.new(pieces)) for pieces in problems]
    monkeypatch.setattr(gap_texts, "_MOST_BEHIND", 2)
    monkeypatch.setattr(gap_texts, "_MOST_KNOWN", 3)
    monkeypatch.setattr(gap_texts, "_MOST_KNOWN_IN_ALL", 8)
    monkeypatch.setattr(gap_texts, "_MOST_TEXTS", 3)
    for pieces, answer in zip(problems, expected, strict=True):
        session = small.new(pieces)
        found = answer_of(session)
        assert found == answer or (session.open_slots() and None in (found, answer))
        if answer and not session.open_slots():
            assert small.accepts(session.complete().encode())


def test_how_places_are_laid_out() -> None:
    gap, slot = Part(gap=True), Part(slot=True)
    closed = Part(b"b", gap=True, closed=True)
    parts = [Part(b"a"), slot, slot, closed, gap, Part(b"c"), slot, slot, slot]
    assert laid_out(parts) == (b"a", [(2, b"b"), (None, b"c"), (3, b"")], -1)
    assert laid_out(parts, padded=True) == (b"a", [(2, b"b"), (None, b"c"), (-4, b"")], -1)
    assert laid_out(parts, hole=7) == (b"a", [(2, b"b"), (None, b"c"), (1, b""), (1, b""), (1, b"")], 3)
    assert laid_out(parts, True, 8) == (b"a", [(2, b"b"), (None, b"c"), (2, b""), (1, b"")], 3)
    assert laid_out([Part(b"a"), Part(b"b", slot=True, token=1)]) == (b"ab", [], -1)
    assert laid_out([Part(b"x", gap=True), slot]) == (b"x", [(None, b""), (1, b"")], -1)
    free, at = with_gaps(parts, 7)
    assert [part.is_open for part in free] == [False, True, False, True, False, True, True, True]
    assert (at, all(part.gap for part in free if part.is_open)) == (6, True)


def test_in_how_many_tokens_a_text_may_be_spelled() -> None:
    vocab = cd.Vocabulary.from_bytes([b"a", b"b", b"ab", b"aba", b"</s>"], eos_token_ids=4)
    tables = cd.Infill(cd.Compiler(vocab).compile(cd.Regex("[ab]*")))._tables
    assert tables.spelled_in(b"") == 1
    assert tables.spelled_in(b"abab") == 1 << 2 | 1 << 3 | 1 << 4
    assert tables.spelled_in(b"ac") == 0
    assert tables.bytes_are_tokens(b"abba") and not tables.bytes_are_tokens(b"abc")


def test_an_arena_that_is_full_is_made_anew_before_the_next_question() -> None:
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.grammars.python(max_width=4)))
    session = infill.new(["x = [", cd.GAP, "\ny = 1\n"])
    rows = [session.mask(0)]
    for _ in range(2):
        arena = infill._tables.arena
        arena.over_budget = True
        session = infill.new(["x = [", cd.GAP, "\ny = 1\n"])
        rows.append(session.mask(0))
        assert infill._tables.arena is not arena
    assert (rows[0] == rows[1]).all() and (rows[0] == rows[2]).all()
    assert infill.accepts(session.complete().encode())


def test_a_table_near_the_limit_grows_by_half_of_what_is_left() -> None:
    """By as little as is asked for, an operation would begin again for each row (a mask of Python never ended)."""
    infill = cd.Infill(cd.Compiler(VOCAB, limits=cd.Limits(max_arena_bytes=4 << 20)).compile(cd.Regex("[ab]*")))
    work = infill._tables.workspace
    most = workspace._ARENAS * work.arena.limits.max_arena_bytes
    work.reserve(ws.BITS, int(0.7 * most) // 8)
    n_grown = 0

    def grow() -> None:
        nonlocal n_grown
        while n_grown < 100:
            work.reserve(ws.BITS, len(work.tables[ws.BITS]) + 1)
            n_grown += 1

    with pytest.raises(cd.LimitExceeded, match="too much memory"):
        grow()
    assert n_grown < 40
    assert work.nbytes <= most


def test_steps_that_are_kept_are_the_kernels_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any room for them, and again: the same cursors; and their work is taken off what a question is granted."""
    monkeypatch.setattr(steps_module, "_MOST_STEPS", 5)
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.grammars.python(max_width=4)))
    tables, rng = infill._tables, random.Random(0)
    texts = [b"", b"x", b"(", b"if x:\n  ", b'"""', b"x" * 100]
    with tables:
        for _ in range(cases(300, 30)):
            cursor = tables.start
            for text in rng.sample(texts, 3):
                after = cursor
                for byte in text:
                    after = tables.arena.call(engine.OP_STEP, after, byte) if after else 0
                assert tables.step(cursor, text) == tables.step(cursor, text) == after
                cursor = after or tables.start
    with tables, tables.arena.one_budget(10**6):
        for _ in range(1000):
            tables.step(tables.start, b"x")
        assert 10**6 - 1000 * 60 < tables.work_left < 10**6 - 1000 * 50


def test_what_leaves_a_later_gap_open() -> None:
    """Three quotes do, also behind what was learned to come before them; each cursor comes once, and it is the matcher's."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.grammars.python(max_width=4)))
    tables = infill._tables
    with tables, tables.gap_texts.trying(10_000):
        openings = tables.openings
        start = tables.step(tables.start, b"x = ")
        between = [(None, b" while y")]
        found = list(openings.cursors(start, between))
        assert b'"""' in [text for _, text in found]
        assert b'1\nif"""' not in [text for _, text in found]
        openings.learn(b"1\nif'''")
        found = list(openings.cursors(start, between))
        assert {b'1\nif"""', b"1\nif'''", b'1\nif b"""'} <= {text for _, text in found}
        assert len({cursor for cursor, _ in found}) == len(found)
        for cursor, text in found:
            assert cursor == tables.step(start, text + b" while y")
        others = list(openings.cursors(start, between, [b"z(", b"x["]))
        assert {b'z("""', b"x['''"} <= {text for _, text in others} - {text for _, text in found}
        assert others[0] == found[0]  # what did last comes first
        two = list(openings.cursors(start, [(None, b" while y"), (None, b"z")]))
        assert two and all(cursor for cursor, _ in two)
    with tables, tables.gap_texts.trying(3):
        assert len(list(openings.cursors(start, between))) <= 3


def test_a_text_behind_what_closes_a_string() -> None:
    """Where no text ends a gap from inside a string, one may behind its quotes, and it is kept."""
    grammar = cd.Compiler(VOCAB).compile(cd.grammars.python(max_width=4))
    for before, closing in ((b"x = '''a\n", b"'''"), (b'x = b"a', b'"')):
        tables = cd.Infill(grammar)._tables
        known = tables.gap_texts
        with tables, known.trying(10_000):
            behind = known.text_behind([(None, b"]\n")])
            known.texts[:] = [b"(y)+["]
            cursor = tables.step(tables.start, before)
            text = closing + b"(y)+["
            assert known.find(cursor, behind, False) is None
            assert known.find_closed(cursor, behind) == text
            assert tables.accepts(before + text + b"]\n")
            assert known.find(cursor, behind, False) == text
            assert known.find_closed(tables.step(tables.start, b"x = ((('a"), behind) is None


def test_a_string_is_opened_before_hundreds_of_classes_are_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask of a gap behind an open one: texts are tried at few cursors, and a lattice is asked of two tokens at most.
    Nothing is left undecided; what is in the mask can be completed, and what is not cannot.
    """
    printable = [bytes([byte]) for byte in range(32, 127)]
    pairs = [a + b for a in printable for b in printable]
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, *pairs, b"</s>"], eos_token_ids=256 + len(pairs))
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.grammars.python(max_width=8)))
    canvases = [
        ["def f(x, y):\n    if x ", cd.GAP, " y:\n        z = g(", cd.GAP, "1) or h\n    return z\n"],
        ["from a import ", cd.GAP, "def f(x):\n    for i in range(", cd.GAP, "len(x)):\n        y = x\n    return y\n"],
        ["def f(x):\n    y = x.spli", cd.GAP, "1]\n    return True if ", cd.GAP, "(y) else 1\n"],
        ["x = [", cd.GAP, "\nif x", cd.GAP, ":\n    y = 1\nelse:\n    y = 2\n"],
    ]
    counts = {"_first_of": 0, "completable": 0}

    def count(of: type, name: str) -> None:
        whole = getattr(of, name)

        def counted(*arguments: object) -> object:
            counts[name] += 1
            return whole(*arguments)

        monkeypatch.setattr(of, name, counted)

    count(gap_texts.GapTexts, "_first_of")
    count(answers.Answers, "completable")
    rng = random.Random(0)
    for pieces in canvases[: cases(4, 1)]:
        session = infill.new(pieces)
        assert session.completable()
        counts.update(_first_of=0, completable=0)
        allowed = bit_members(session.mask(1)).tolist()
        assert session.undecided == 0
        assert counts["_first_of"] < 150 and counts["completable"] <= 2  # 265 to 364 where all classes are gone through
        assert all(infill.new(pieces).insert(1, token) for token in rng.sample(allowed, 20))
        left_out = sorted({*range(256 + len(pairs))} - {*allowed})
        assert not any(session.insert(1, token) for token in rng.sample(left_out, 20))


def test_common_texts_are_known_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first check of a fresh :class:`Infill` asks no lattice where what often ends a gap ends this one."""
    grammar = cd.Compiler(VOCAB, FRESH).compile(cd.grammars.python(max_width=4))
    for pieces in (
        ["x = [", cd.GAP, " for y\nz = 1\n"],
        ["def f", cd.GAP, "this says what\n    x = 1\n"],
        ["def f(x):\n    '''What ", cd.GAP, " is\n  it?\n\nx = ", cd.GAP, " for\n"],
    ):
        session = cd.Infill(grammar).new(pieces)
        with monkeypatch.context() as patched:
            patched.setattr(answers.Answers, "build", None)
            assert session.completable()
        assert session._tables.accepts(session.complete().encode())


def test_lexemes_away_from_gaps_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a lexeme costs of which no byte lies in a gap is known: a long text takes no more measures than a short one."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.grammars.CPP))
    plain = workspace.Workspace.call
    measured: list[int] = []

    def call(work: workspace.Workspace, op: int, a: int = 0, b: int = 0) -> int:
        measured.append(op) if op == kernels.OP_MEASURE else None
        return plain(work, op, a, b)

    monkeypatch.setattr(workspace.Workspace, "call", call)
    counts = []
    for n in (2, 20):
        lines = "    total += i;\n" * n
        session = infill.new(
            ["int f(int i) {\n    int total = 0;\n" + lines + "    for (int k ", cd.GAP, ") {\n" + lines + "    }\n}\n"]
        )
        measured.clear()
        assert infill._tables.accepts(session.complete().encode())
        counts.append(len(measured))
    assert 0 < counts[1] <= counts[0] < 30


def test_fillings_without_long_keywords_come_first() -> None:
    """Without them there are fewer facts, and what needs one is found with them."""
    grammar = cd.Compiler(VOCAB).compile(cd.grammars.python(max_width=4))
    infill = cd.Infill(grammar)
    tables = infill._tables
    for pieces, needs_word in ((["x = (1", cd.GAP, "\ny = 1\n"], False), (["x = 1 if y", cd.GAP, "(2)\n"], True)):
        session = infill.new(pieces)
        parts = session._parts
        with tables:
            fillings, n_facts = [], []
            for with_words in (False, True):
                fillings.append(session._answers.spelled(parts, tables.brief(16, with_words)))
                n_facts.append(int(tables.brief(16, with_words).header[ws.W_N_FACTS]))
        assert (fillings[0] is None) is needs_word and fillings[1] is not None
        assert needs_word or n_facts[0] < n_facts[1]
        assert infill.accepts(session.complete().encode())
    assert 20 < tables.are_words.sum() < tables.n_lexemes // 2


def test_tables_of_rows_grow_with_what_is_in_them() -> None:
    """Only the entries that name rows are copied, also those that a gap names all at once."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.grammars.CPP))
    session = infill.new(["int f(int i) {\n    return i", cd.GAP, ";\n}\nint g() { ", cd.GAP, " }\n"])
    work = infill._tables.workspace
    with session._tables:
        assert session._answers.build(session._parts, keep=False)
    for table in (ws.REST, ws.DERIVED):
        before = work.tables[table].copy()
        assert before.any()
        work.reserve(table, len(before) + 1)
        grown = work.tables[table]
        assert len(grown) > len(before) and (grown[: len(before)] == before).all() and not grown[len(before) :].any()
        assert int(work.header[2 * table]) == grown.ctypes.data and int(work.header[2 * table + 1]) == len(grown)


@pytest.mark.parametrize(
    "pieces",
    [
        ["def f(s):", cd.GAP, ' the upper case vowels\n    """\n    return s\n'],
        ["def f(a: int", cd.GAP, " of a list, sorted\n    '''\n    return ", cd.GAP, "a[0])\n"],
        ["def f(a):\n    if a == 0", cd.GAP, "ns = a[0]\n    return a\n"],
        ["for a in b:\n    if a:\n", cd.GAP, "   print(a)\n"],
    ],
)
def test_more_texts_are_tried_before_a_lattice(pieces: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh Infill found these by a derivation, in 100 ms instead of 5."""
    infill = cd.Infill(cd.Compiler(VOCAB, FRESH).compile(cd.grammars.python(max_width=8)))
    calls: list[int] = []
    call = workspace.Workspace.call

    def noted(work: workspace.Workspace, op: int, a: int = 0, b: int = 0) -> int:
        calls.append(op)
        return call(work, op, a, b)

    monkeypatch.setattr(workspace.Workspace, "call", noted)
    session = infill.new(pieces)
    assert session.completable() and kernels.OP_FACTS not in calls
    with infill._tables:
        assert not infill._tables.gap_texts._more and infill._tables.gap_texts.stamp == 2 * infill._tables.gap_texts.version
    assert infill.accepts(session.complete().encode())


def test_texts_that_are_followed_together_lead_where_each_leads() -> None:
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.grammars.python(max_width=8)))
    tables = infill._tables
    rng = random.Random(0)
    few = [b"):", b"#", b'"""', b"\n", b"c", b" in ", b"if c:", b"\n    ", b"(", b"]"]
    texts = Texts([b"".join(rng.choices(few, k=rng.randint(0, 4))) for _ in range(40)])
    for i, before in enumerate((b"", b"x = [", b"def f(", b"if x", b'"""', b"y = (\n")):
        with tables, tables.arena.one_budget(None):
            cursor = tables.step(tables.start, before)
            tried, paths, cursors = texts.followed(tables, cursor, 2 * i, 30)
            assert tried == texts[2 * i : 2 * i + 30]
            for text, path in zip(tried, paths, strict=True):
                assert len(path) == len(text)
                for k, node in enumerate(path):
                    assert cursors[node] == tables.step(cursor, text[: k + 1])
            pairs = pairs_of(tables, [b")", b'"', b"\n"])
            reached = dict(zip(map(pairs.text, range(15)), pairs.follow(cursor), strict=True))
            assert len(reached) == 15 and reached == {text: tables.step(cursor, text) for text in reached}
            assert {b")", b'"\n', b'"""', b")))"} < {*reached}
            texts[5] = b"x" * i + b"y = 1"
    with pytest.raises(cd.LimitExceeded), tables, tables.arena.one_budget(100):
        texts.followed(tables, tables.start, 0, 40)


def test_a_loose_workspace_has_skips_of_its_own() -> None:
    spec = cd.Lark('start: A B\nA: "a"+\nB: "b"\n%ignore " "')  # nothing is skipped at the end
    infill = cd.Infill(cd.Compiler(VOCAB).compile(spec))
    tables = infill._tables
    with tables:
        before = tables.workspace.tables[ws.SKIPPED].copy()
        loose = tables.loose
        assert loose.tables[ws.AFTER] is tables.workspace.tables[ws.AFTER]
        assert (tables.workspace.tables[ws.SKIPPED] == before).all() and (loose.tables[ws.SKIPPED] != before).any()
    other = cd.Infill(infill.grammar)._tables.workspace
    assert other.tables[ws.AFTER] is not tables.workspace.tables[ws.AFTER]


@pytest.mark.parametrize(
    ("spec", "never"),
    [
        (cd.grammars.python(max_width=8), [(b"\xe2", b"x"), (b"x", b"\x80")]),
        (cd.Lark('start: (A B)+\nA: "a"+\nB: "bc"\n%ignore /#[^\\n]*\\n/'), [(b"x", b"\x80")]),
        (cd.Lark('start: (A B)+\nA: "a"+\nB: "bc"'), [(b"a", b"c"), (b"b", b"b"), (b"b", b"a")]),
        (cd.JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}}}), [(b"x", b"\x80"), (b"\xe2", b"x")]),
    ],
)
def test_what_comes_in_some_text_may_begin_a_token_behind_a_gap(spec: object, never: list[tuple[bytes, bytes]]) -> None:
    """A mask of a later gap asks nothing about tokens that may come nowhere behind the last byte of the text before it."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(spec))
    answer = answers.Answers(infill._tables, False)
    rng = random.Random(0)
    with infill._tables, infill._tables.arena.one_budget(None):
        for _ in range(cases(40, 10)):
            matcher = infill.grammar.matcher()
            row = np.zeros((1, 9), np.int32)
            last = b""
            for _ in range(40):
                matcher.fill_next_token_bitmask(row)
                allowed = [token for token in bit_members(row[0]).tolist() if token != 256]
                if not allowed:
                    break
                token = rng.choice([*allowed, *(t for t in allowed if t < 128)])
                assert token in bit_members(answer.may_begin(last)), (last, token)
                matcher.accept_token(token)
                last = bytes([token])
        for before, byte in never:
            assert byte[0] not in bit_members(answer.may_begin(before))


def test_a_completion_takes_tokens_that_one_lattice_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else a slot's mask may have is not searched for: C++ with six open slots took seconds."""
    spec = cd.Lark('start: "let" NAME "=" NAME ";"\nNAME: /[a-z]+/\n%ignore /[ \\n]+/\n%ignore /#[^\\n]*\\n/')
    pairs = [bytes([a, b]) for a in b"let x=;#\n" for b in b"let x=;#\n"]
    infill = cd.Infill(cd.Compiler(cd.Vocabulary.from_bytes([*ALL_BYTES, *pairs, b"</s>"], eos_token_ids=337)).compile(spec))
    session = infill.new([cd.Slots(4), "=", cd.Slots(2)])
    masks = [session.mask(place) for place in range(3)]
    searches = []
    decide = proofs.Proofs.decide

    def counted(self: proofs.Proofs, *arguments: Any) -> int:
        searches.append(self)
        return decide(self, *arguments)

    monkeypatch.setattr(proofs.Proofs, "decide", counted)
    for seed in range(cases(20, 5)):
        assert infill.accepts(session.complete(random.Random(seed)).encode())
        assert infill.accepts(session.complete().encode())
        assert len(searches) <= 2 * (seed + 1)  # of the last slot of each, of which the matcher tells all
    assert all((session.mask(place) == masks[place]).all() for place in (2, 0, 1))
