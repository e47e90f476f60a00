"""Infilling takes no more work than its budget allows, and what crosses a budget changes no later answer."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_tools import FRESH, cases, vocabulary

import cdplugin as cd
from cdplugin.infill import answers as answers_module
from cdplugin.infill import session as sessions
from cdplugin.infill import usual_tokens
from cdplugin.infill import workspace as owner
from cdplugin.infill.answers import Answers
from cdplugin.infill.parts import Merged, Part
from cdplugin.infill.room import that_end_in_gaps
from cdplugin.infill.search import Search, _State
from cdplugin.infill.tables import InfillGrammar
from cdplugin.kernels.infill import entry as kernels
from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.store import layout

VOCAB = vocabulary([b"ab", b"abc", b'{"', b'":', b"  ", b"if", b"1+", b"(1", b"aa"])
EXACT = cd.JsonSchema({"type": "object", "properties": {"ab": {"enum": ["abc", 12, None]}}, "additionalProperties": False})
AMBIGUOUS = cd.Gbnf('root ::= s\ns ::= s s | "a" | "aa" | "(" s ")"')
COMPETING = cd.Lark('start: e\ne: e "+" e | "if" e | NAME | NUM\nNAME: /[a-z]+/\nNUM: /[0-9]+/\n%ignore /[ ]+/')
TEXTS: list[tuple[cd.Spec, list[Any]]] = [
    (EXACT, ['{"a', cd.GAP, "}"]),
    (EXACT, ["{", cd.Slots(3), cd.GAP]),
    (AMBIGUOUS, ["a", cd.GAP, "(", cd.Slots(2), "a", cd.GAP]),
    (COMPETING, ["if", cd.GAP, "+", cd.Slots(1), cd.GAP]),
]


def answers(session: cd.InfillSession) -> list[Any]:
    """Whether it is completable, a mask, and a completion."""
    return [session.completable(), session.mask(session.open_places()[0]).tolist(), session.complete()]


def limited(infill: cd.Infill, work: int) -> None:
    """Give the questions this small a budget."""
    arena = infill._tables.arena
    arena.set_limits(replace(arena.limits, max_step_work=work))


@pytest.mark.parametrize(("spec", "pieces"), TEXTS)
def test_answers_after_a_crossed_budget_are_a_fresh_sessions(
    spec: cd.Spec, pieces: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets end at every place in turn, in the tables of the grammar and in those of the text."""
    monkeypatch.setattr(sessions, "QUESTION_STEPS", 1)
    grammar = cd.Compiler(VOCAB, FRESH).compile(spec)
    expected = answers(cd.Infill(grammar).new(pieces))
    infill = cd.Infill(grammar)
    session = infill.new(pieces)
    enough = infill._tables.arena.limits.max_step_work
    crossed, work = 0, 20
    while crossed < cases(150, 12):
        limited(infill, work)
        try:
            assert answers(infill.new(pieces)) == expected
            break
        except cd.LimitExceeded:
            crossed += 1
        work += 1 + work // cases(16, 2)
    assert crossed > 3
    limited(infill, enough)
    assert answers(session) == expected == answers(infill.new(pieces))


@pytest.mark.parametrize("n", [30, 90])
def test_no_question_takes_more_than_it_is_granted(n: int) -> None:
    """Whatever the text, kernels stop soon after their work is used up."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(AMBIGUOUS))
    infill.new(["a", cd.GAP]).mask(0)  # what is found once for the grammar
    arena = infill._tables.arena
    granted = 10_000
    limited(infill, granted // sessions.QUESTION_STEPS)
    session = infill.new([piece for _ in range(n) for piece in ("(", cd.GAP, cd.Slots(2), "a")])
    questions: list[Callable[[], Any]] = [session.completable, lambda: session.mask(0), session.complete]
    for ask in questions:
        with pytest.raises(cd.LimitExceeded, match="a question about a text takes too much work"):
            ask()
        assert int(arena.header[layout.WORK_GRANTED]) == granted
        assert -2 * granted < int(arena.header[layout.WORK_LEFT]) < 0


def test_a_completion_has_one_budget_for_all_its_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    infill = cd.Infill(cd.Compiler(VOCAB).compile(AMBIGUOUS))
    session = infill.new(["(", cd.Slots(9), "a", cd.GAP])
    expected = session.complete()
    monkeypatch.setattr(sessions, "COMPLETION_STEPS", 1)
    limited(infill, 2_000)  # enough for each question
    with pytest.raises(cd.LimitExceeded, match=r"a completion takes too much work: expected at most 2000 units \(Limits"):
        session.complete()
    assert session.completable() and session.text() is None
    monkeypatch.setattr(sessions, "COMPLETION_STEPS", 40)
    limited(infill, 50_000_000)
    assert session.complete() == expected


def test_a_text_that_takes_too_much_memory_is_refused_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    infill = cd.Infill(cd.Compiler(VOCAB).compile(AMBIGUOUS))
    small, large = ["a", cd.GAP], [piece for _ in range(60) for piece in ("(", cd.GAP, cd.Slots(2), "a")]
    expected = answers(infill.new(small))
    arena, used = infill._tables.arena, infill._tables.workspace.nbytes
    monkeypatch.setattr(owner, "_ARENAS", 1)
    arena.set_limits(replace(arena.limits, max_arena_bytes=used + (64 << 10)))
    with pytest.raises(
        cd.LimitExceeded, match=r"infilling: the text takes too much memory: expected at most \d+ bytes, 1 times"
    ):
        infill.new(large).completable()
    assert infill._tables.workspace.nbytes < used  # until the next question there are no tables
    assert answers(infill.new(small)) == expected
    assert infill._tables.arena is not arena  # everything was made anew, and is as small as it was
    workspace = infill._tables.workspace
    assert workspace.nbytes == workspace.header.nbytes + sum(table.nbytes for table in workspace.tables)


@pytest.mark.skipif(sys.platform != "linux", reason="only there are large tables in pages of their own")
def test_a_table_that_grows_does_not_take_its_memory_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canvas of 100,000 slots took 1.2 GB where 604 MB are the limit: the last table was there twice. The pages of the
    smaller one are given back while it is copied; they read as zeros then.
    """
    monkeypatch.setattr(owner, "_SPARSE", 1 << 14)
    monkeypatch.setattr(owner, "_MOVED_AT_ONCE", 1 << 9)
    old, grown = owner._zeros(5000), owner._zeros(9000)
    old[:] = expected = np.arange(5000)
    owner._move(old, grown)
    assert (grown[:5000] == expected).all() and not grown[5000:].any() and not old[: 5000 // 512 * 512].any()
    small = np.arange(9)
    owner._move(small, grown)
    assert (grown[:9] == small).all() and small[8] == 8


def test_a_table_near_the_limit_is_not_copied_again_and_again() -> None:
    """It took half of what was left, 22 times, and the operation began anew each time: 10 s, now 2."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(AMBIGUOUS))
    work = infill._tables.workspace
    limited(infill, work.arena.limits.max_step_work)  # limits of its own
    work.arena.set_limits(replace(work.arena.limits, max_arena_bytes=1 << 24))
    sizes = [len(work.tables[ws.LIVE_BITS])]

    def grow() -> None:
        while True:
            work.reserve(ws.LIVE_BITS, sizes[-1] + 1)
            sizes.append(len(work.tables[ws.LIVE_BITS]))

    with pytest.raises(cd.LimitExceeded, match="too much memory"):
        grow()
    assert 8 * sizes[-1] > 0.9 * owner._ARENAS * (1 << 24)
    assert all(larger >= smaller * 1.03 for smaller, larger in itertools.pairwise(sizes))


def test_more_lexemes_than_a_class_has_states_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loose workspace has a start state for each lexeme, a hundred here: all of them go on with one token."""
    words = " | ".join(f'"a{chr(97 + i // 10)}{i}"i' for i in range(100))
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.Lark(f"start: (w NAME)*\nw: {words}\nNAME: /[0-9]+/\n%ignore / +/")))
    session = infill.new([cd.Slots(1), cd.GAP, "7"])
    tables = infill._tables
    with tables:
        tables.classify(tables.loose)
        assert int(tables.loose.header[ws.W_N_STARTS]) > 64
        assert len(tables.loose.tables[ws.WORK_B]) >= 8 + int(tables.loose.header[ws.W_N_STARTS])
    assert session.completable()
    assert np.unpackbits(session.mask(0).view(np.uint8), bitorder="little")[ord("a")]


@pytest.mark.parametrize(
    ("pieces", "n", "is_legal"),
    [
        ([", ", cd.GAP, cd.GAP, cd.GAP, "a" * 20], 1000, True),
        ([cd.GAP, "a" * 20, cd.GAP, "é", cd.GAP], 1000, True),
        (["a" * 11, cd.GAP, cd.GAP], 10, False),
        (["a" * 5, cd.GAP, "éa", cd.GAP, "bb"], 9, True),
        (["a" * 5, cd.GAP, "éa", cd.GAP, "bb"], 8, False),
    ],
)
def test_gaps_after_gaps_take_no_closure_of_each_state(pieces: list[Any], n: int, is_legal: bool) -> None:
    """A thousand counts are alive behind the first gap. Their closures, one in another, took 1,000 million units."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(cd.Regex(f".{{{n}}}")))
    limited(infill, 20_000_000 // sessions.QUESTION_STEPS)
    assert infill.new(pieces).completable() is is_legal


_BLOCKS = "[ab]{7}a|[ab]{11}b|[ab]{13}a|[ab]{17}b|[ab]{19}a|[ab]{23}b"


@pytest.mark.parametrize(
    ("spec", "n_states"),
    [(cd.Regex(f"({_BLOCKS})+c"), 900), (cd.Lark(f"start: X\nX: /({_BLOCKS}){{1,30}},/"), 1_100)],
)
def test_states_with_wide_expressions_are_paid_for(spec: cd.Spec, n_states: int) -> None:
    """A gap leads to thousands of states, each with a wide expression, and a second was counted as 70 million units: with what
    is granted here, 1,065 and 1,557 states are made where the lexer's work counts once, 698 and 777 where it counts eight
    times. Whether there is a text is not known then.
    """
    infill = cd.Infill(cd.Compiler(VOCAB).compile(spec))
    arena = infill._tables.arena
    before = int(arena.header[layout.N_LEXER_STATES])
    limited(infill, 150_000)
    with pytest.raises(cd.LimitExceeded, match="a question about a text takes too much work"):
        infill.new(["aab", cd.GAP, "b", cd.GAP, "c"]).completable()
    assert 0 < int(arena.header[layout.N_LEXER_STATES]) - before < n_states


def test_what_one_token_leads_to_is_found_by_one_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """As stepping by each token, in the order of the tokens; the search for slots steps by none of them."""
    infill = cd.Infill(cd.Compiler(VOCAB).compile(COMPETING))
    tables = infill._tables
    calls: list[bytes] = []

    def step(cursor: int, text: bytes) -> int:
        calls.append(text)
        return InfillGrammar.step(tables, cursor, text)

    with tables:
        for text in (b"", b"if", b"ab", b"if 1", b"1+", b"a "):
            cursor = tables.step(tables.start, text)
            expected: dict[int, list[int]] = {}
            for token, word in enumerate(VOCAB.tokens):
                after = tables.step(cursor, word) if word else 0
                if after:
                    expected.setdefault(after, []).append(token)
            found = zip(*(array.tolist() for array in tables.token_successors(cursor)), strict=True)
            assert list(found) == [(after, len(tokens), tokens[0]) for after, tokens in expected.items()]
            assert expected
    monkeypatch.setattr(tables, "step", step)
    with tables:
        state = _State(0, 0, 0, tables.start, b"", ())
        assert len(list(Search(Answers(tables, False))._moves([Part(slot=True)], state))) > 1
    assert not calls


def test_endings_that_classes_are_ordered_by_take_one_steps_work() -> None:
    """128 of them are looked for, each within its own budget: 24 s of long words, before the first question was answered."""
    limits = cd.Limits(max_step_work=6_000_000)
    parts = "".join(f"(?:{a}{b}|{b}{a}c)" for a in "abcdefgh" for b in "ijklmnop") * 200
    grammar = cd.Compiler(VOCAB, limits=limits).compile(cd.Regex(parts))
    tables = cd.Infill(grammar)._tables
    before = grammar.counters()["work"]
    tokens = tables._tokens_of_endings
    assert tokens and grammar.counters()["work"] - before < 4 * limits.max_step_work


SLOTTED = cd.Lark(
    'start: (STRING | NAME | "if" | COMMENT)+\nSTRING: /"[^"\\n]*"/\nNAME: /[a-z]+/\nCOMMENT: /#[^\\n]*/\n%ignore /[ \\n]+/'
)
LETTERS = b"abcdefghijklmnopqrst"
TOKENS = [
    *(bytes([byte]) for byte in range(256)),
    *(b"a" + bytes([x, y]) for x in LETTERS for y in LETTERS),  # below "a" are enough to ask which bytes lead back
    *(b'"a b', b"if a", b'x" y', b"#  x", b"  "),
    *(bytes([x, y]) for x in b"abc" for y in b'de "#\n'),
]


def naive_effect(tables: InfillGrammar, state: int) -> tuple[set[int], set[int], set[int], int]:
    """Of one token: the states that it leads to, the sets of lexemes that end with it, and the lexemes that end inside; and how
    many nodes the walk of the tokens' trie visits.
    """
    arena = tables.arena
    states: set[int] = set()
    ends: set[int] = set()
    inside: set[int] = set()
    visited: set[bytes] = set()
    rows: dict[int, list[int]] = {}

    def field(number: int, which: int) -> int:
        return int(arena.tables[layout.LEXER_STATES][number * lexer_layout.LEXER_WORDS + which])

    for token in TOKENS:
        here = state
        for i, byte in enumerate(token):
            visited.add(token[: i + 1])
            if here not in rows:
                rows[here] = arena.transitions(np.array([here]))[0].tolist()
            after = rows[here][byte]
            if after == lexer_layout.BEFORE:
                inside |= set(arena.sequence(field(here, lexer_layout.L_LONGEST)))
                after = 0
            if after & lexer_layout.ENDS_BIT:
                after &= lexer_layout.STATE_MASK
                ended = field(after, lexer_layout.L_ACCEPTED)
                if i == len(token) - 1:
                    ends.add(ended)
                else:
                    inside |= set(arena.sequence(ended))
                after = field(after, lexer_layout.L_REST)
            here = after
            if not here:
                break
        else:
            states.add(here)
    return states, ends, inside, len(visited)


@pytest.mark.parametrize(("spec", "has_loops"), [(SLOTTED, True), (EXACT, False), (cd.Regex("[a-z]{1,9}(a|b c)[^x]?"), False)])
def test_a_slots_walk_finds_what_each_token_does_and_is_paid_for_by_the_node(spec: cd.Spec, has_loops: bool) -> None:
    """A visited node was a quarter of a unit of work, whatever ended below it: six slots of a wide grammar took 20 s. Where all
    bytes below a node lead back, as in a comment, they are not visited.
    """
    vocab = cd.Vocabulary.from_bytes([*TOKENS, b"</s>"], eos_token_ids=len(TOKENS))
    grammar = cd.Compiler(vocab, FRESH).compile(spec)
    tables = cd.Infill(grammar)._tables
    compared = cheap = 0
    with tables:
        tables.classify()
        work = tables.workspace
        closure = work.call(kernels.OP_CLOSURE, int(work.tables[ws.STARTS][0]))
        first = closure + ws.C_FIRST
        for state in work.tables[ws.POOL][first : first + work.tables[ws.POOL][closure]][: cases(40, 4)].tolist():
            leads, ends, inside, visited = naive_effect(tables, state)
            before = tables.work_left
            record = work.call(kernels.OP_EFFECT, state)
            cheap += before - tables.work_left < visited
            pool = work.tables[ws.POOL]
            n_states, n_ends, n_pairs = pool[record : record + ws.E_FIRST].tolist()
            found = pool[record + ws.E_FIRST : record + ws.E_FIRST + n_states + n_ends + n_pairs].tolist()
            pairs = found[n_states + n_ends :]
            assert (set(found[:n_states]), set(found[n_states : n_states + n_ends])) == (leads, ends)
            assert {pair >> 32 for pair in pairs} <= inside and pairs == sorted(pairs, key=lambda pair: pair & 0xFFFFFFFF)
            compared += 1
    assert compared > 3 and (cheap > 0) == has_loops


def test_a_sets_states_are_sorted_as_by_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a gap sets have thousands of states; sorting them took 17 of 27 s of a mask, uncounted."""
    infill = cd.Infill(cd.Compiler(VOCAB, FRESH).compile(cd.Regex("([ab]{5}a|[ab]{7}b|[ab]{9}a)+c")))
    assert infill.new(["a", cd.GAP, cd.Slots(2), cd.GAP, "c"]).completable()
    work = infill._tables.workspace
    heads = work.tables[ws.SET_HEADS][1 : 1 + int(work.header[ws.W_N_SETS])].tolist()
    sets = [work.tables[ws.SET_STATES][first:end].tolist() for first, end in itertools.pairwise(heads)]
    assert all(states == sorted(set(states)) for states in sets)
    assert max(map(len, sets)) > 64 and len({tuple(states) for states in sets}) == len(sets)


def test_lexemes_are_kept_apart_by_the_bytes_that_go_on_with_them() -> None:
    """Each state in which names and keywords match was put beside each keyword: 525,000 questions, 30 s, for 300 keywords."""

    def questions(n: int) -> int:
        rng = random.Random(1)
        words = ["".join(rng.choices("abcdefgh", k=rng.randint(2, 6))) for _ in range(n)]
        rules = " | ".join(f'W{i} ";" | NAME "+" W{i}' for i in range(n))
        text = "\n".join(f'W{i}: "{word}"' for i, word in enumerate(words))
        grammar = cd.Compiler(VOCAB, FRESH).compile(
            cd.Lark(f"start: x+\nx: {rules}\nNAME: /[a-z]+/\n{text}\n%ignore /[ \\n]+/")
        )
        tables = cd.Infill(grammar)._tables
        count = 0
        call = tables.workspace.call

        def counted(*arguments: int) -> int:
            nonlocal count
            count += 1
            return call(*arguments)

        tables.workspace.call = counted  # type: ignore[method-assign]
        with tables:
            assert that_end_in_gaps(tables).all()
        return count

    few, many = questions(20), questions(80)
    assert many < 6 * few


@pytest.mark.parametrize("spec", [EXACT, AMBIGUOUS, COMPETING])
def test_gaps_side_by_side_are_one(spec: cd.Spec) -> None:
    """2,000 gaps were 2,000 places of a lattice: ``LimitExceeded`` after four to ten seconds."""
    infill = cd.Infill(cd.Compiler(VOCAB, FRESH).compile(spec))
    one, many = infill.new([cd.GAP]), infill.new(["", *[cd.GAP, b""] * 2_000])
    assert one.completable() and many.completable()
    assert (many.mask(0) == one.mask(0)).all()
    assert (many.mask(1_000) == infill.new([cd.GAP, cd.GAP]).mask(1)).all()
    assert infill._tables.workspace.header[ws.W_NODES] < 100
    assert many.complete() == one.complete()
    assert infill.accepts(many.complete(random.Random(0)).encode())


def test_a_closed_gap_between_open_ones_takes_none_of_a_witness() -> None:
    """What the gap behind it has goes to the one before it, which is open: a text at a closed gap is in no completion."""
    parts = [Part(gap=True), Part(gap=True, closed=True), Part(gap=True), Part(slot=True)]
    assert Merged(parts, 3).of_left([b"a", None, b"b", 7]) == [b"ab", None, 7]


def test_gaps_side_by_side_with_slots_between_are_answered_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Whole(Merged):
        """Leaves every gap."""

        def __init__(self, parts: Sequence[Part], hole: int = -1) -> None:
            super().__init__([], hole=-1)
            self.parts, self.hole = parts, hole

    pieces: list[list[Any]] = [['{"', ":", '"abc"', "}"], ["a", "(", ")", "aa"], ["if", "a", "+", "1", " "]]
    infills = [cd.Infill(cd.Compiler(VOCAB).compile(spec)) for spec in (EXACT, AMBIGUOUS, COMPETING)]
    compared = merged = 0
    for case in range(cases(150, 30)):
        rng = random.Random(case)
        number = rng.randrange(3)
        text = [rng.choice([cd.GAP, cd.GAP, "", rng.choice(pieces[number]), cd.Slots(1)]) for _ in range(rng.randint(2, 6))]
        found = []
        for kind in (Whole, Merged):
            monkeypatch.setattr(answers_module, "Merged", kind)
            session = infills[number].new(text)
            merged += not kind(session._parts).is_whole
            found.append(_played(session, random.Random(case)))
        assert found[0] == found[1], text
        compared += len(found[0])
    assert compared > 3 * cases(150, 30) and merged > cases(50, 10)


def _played(session: cd.InfillSession, rng: random.Random) -> list[Any]:
    """The masks on a walk of a session, and whether its completions are legal."""
    found: list[Any] = [session.completable()]
    for _ in range(3):
        places = session.open_places()
        if not places or not session.completable():
            break
        place = rng.choice(places)
        mask = session.mask(place)
        tokens = [token for token in range(VOCAB.size) if mask[token // 32] >> (token % 32) & 1]
        found += [mask.tolist(), session._infill.accepts(session.complete().encode())]
        if place in session.open_slots():
            assert session.set(place, rng.choice(tokens))
        elif tokens and rng.random() < 0.6:
            assert session.insert(place, rng.choice(tokens))
        else:
            found.append(session.close(place))
    return found


def test_random_beginnings_of_gaps_leave_work_to_end_them() -> None:
    """A text with many gaps can be completed, and ``complete(rng)`` took all its work for a few random tokens in each."""
    infill = cd.Infill(cd.Compiler(VOCAB, FRESH).compile(AMBIGUOUS))
    session = infill.new([piece for _ in range(30) for piece in ("(", cd.GAP, "a", cd.GAP)])
    before = _work_of(infill, session.complete)
    limited(infill, -(-16 * before // sessions.COMPLETION_STEPS))
    text = session.complete(random.Random(0))
    assert infill.accepts(text.encode())


def _work_of(infill: cd.Infill, call: Callable[[], Any]) -> int:
    """The work of the last question of a call."""
    call()
    header = infill._tables.arena.header
    return int(header[layout.WORK_GRANTED]) - int(header[layout.WORK_LEFT])


@pytest.mark.parametrize(
    ("pattern", "pieces", "length"),
    [
        ('[^"]{100,400}', [cd.GAP, "abcd", cd.GAP], 100),  # 108 million units before: transitions were computed for each state
        ("a{300}[ab]", [cd.GAP, "a" * 100], 301),  # 8 million: a gap was left at each place, however few bytes were to come
        ("a{300}[ab]", [cd.GAP, "a" * 100, cd.GAP], 301),  # 7 million: each place was searched again in Python
    ],
)
def test_a_gap_in_a_counted_lexeme_is_spelled_state_by_state(pattern: str, pieces: list[Any], length: int) -> None:
    infill = cd.Infill(cd.Compiler(VOCAB, FRESH).compile(cd.Regex(pattern)))
    session = infill.new(pieces)
    assert session.completable()
    before = infill._tables.arena.counters()["work"]
    text = session.complete()
    assert len(text) == length and infill.accepts(text.encode())
    assert infill._tables.arena.counters()["work"] - before <= 2_000_000


def test_a_text_without_open_gaps_needs_no_derivation() -> None:
    """24 million units before: when its slots were filled, all derivations of the text were compared, to spell nothing."""
    infill = cd.Infill(cd.Compiler(VOCAB, FRESH).compile(cd.Gbnf('root ::= s\ns ::= s s s | s s | "a" | ""')))
    session = infill.new([cd.Slots(60)])
    assert session.completable()
    before = infill._tables.arena.counters()["work"]
    assert infill.accepts(session.complete().encode())
    assert infill._tables.arena.counters()["work"] - before <= 12_000_000


def test_room_for_separators_is_checked_state_by_state() -> None:
    """24 million units before, 92 with twice the count: for each state, all states behind it were looked at again."""
    infill = cd.Infill(cd.Compiler(VOCAB, FRESH).compile(cd.Lark('start: (A | "if")+\nA: /[a-z]{1,1000}/\n%ignore " "')))
    session = infill.new(["a", cd.GAP, "if", cd.GAP])
    before = infill._tables.arena.counters()["work"]
    assert session.completable()
    assert infill._tables.arena.counters()["work"] - before <= 5_000_000


def test_endings_are_counted_within_the_work_of_a_step() -> None:
    """128 endings of 300,000 bytes each were copied and counted before the tokens of a grammar were classified: 5 s."""
    grammar = cd.Compiler(VOCAB, cd.Limits(max_step_work=5_000_000)).compile(cd.Regex("c{20000}"))
    counted = sum(len(ending) for ending in usual_tokens._endings(grammar))
    assert 0 < counted <= 500_000
    assert usual_tokens.usual_tokens(grammar) == [ord("c")]
