"""An Infill that takes over the tables of one that is gone gives the answers that one with new tables gives."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import pytest
from engine_tools import FRESH, cases, vocabulary

import cdplugin as cd
from cdplugin import memory
from cdplugin.infill import at_rest
from cdplugin.infill.tables import InfillGrammar

VOCAB = vocabulary([b"ab", b"abc", b'{"', b'":', b"  ", b"if", b"1+", b"(1", b"aa", b"\n    ", b"a:"])
EXACT = cd.JsonSchema({"type": "object", "properties": {"ab": {"enum": ["abc", 12, None]}}, "additionalProperties": False})
AMBIGUOUS = cd.Gbnf('root ::= s\ns ::= s s | "a" | "aa" | "(" s ")"')
COMPETING = cd.Lark('start: e\ne: e "+" e | "if" e | NAME | NUM\nNAME: /[a-z]+/\nNUM: /[0-9]+/\n%ignore /[ ]+/')
TEXTS: dict[str, tuple[cd.Spec, list[str]]] = {
    "exact": (EXACT, ['{"ab": "abc"}', '{"ab": 12}', "{}"]),
    "ambiguous": (AMBIGUOUS, ["aa(a(aa))a", "((a))", "a"]),
    "competing": (COMPETING, ["if a + 12", "if if ab+1", "a"]),
}


@pytest.fixture(autouse=True)
def nothing_rests() -> None:
    """Drop first what other tests left."""
    gc.collect()
    at_rest._tables.clear()


def problems(name: str, count: int) -> list[list[Any]]:
    """Texts of which one to three pieces are gaps, or as many slots as they have bytes. Some cannot be completed."""
    rng = random.Random(name)
    found: list[list[Any]] = []
    for _ in range(count):
        text = rng.choice(TEXTS[name][1])
        cuts = sorted(rng.choices(range(len(text) + 1), k=2 * rng.randint(1, 3)))
        pieces: list[Any] = []
        at = 0
        for left, right in zip(cuts[::2], cuts[1::2], strict=True):
            pieces += [text[at:left], cd.Slots(right - left) if rng.random() < 0.3 else cd.GAP]
            at = right
        found.append([*pieces, rng.choice(["", "", "", "+", "}"]) + text[at:]])
    return found


def answers(infill: cd.Infill, pieces: list[Any]) -> list[Any]:
    """Whether it is completable, the masks of its places, and a completion."""
    session = infill.new(pieces)
    if not session.completable():
        return [False]
    places = session.open_places()
    return [*(session.mask(place).tobytes() for place in places), session.undecided, session.complete()]


@pytest.mark.parametrize("name", TEXTS)
def test_answers_are_those_of_new_tables(name: str) -> None:
    """Each problem is put to an Infill of its own, which has the tables of all before it, and to new tables."""
    spec = TEXTS[name][0]
    lent, alone = cd.Compiler(VOCAB).compile(spec), cd.Compiler(VOCAB, FRESH).compile(spec)
    used, kinds = set(), set()
    for pieces in problems(name, cases(60, 15, 15)):
        infill = cd.Infill(lent)
        used.add(id(infill._tables))
        found = answers(infill, pieces)
        kinds.add(found[0] is False)
        del infill
        assert found == answers(cd.Infill(alone), pieces), pieces
    assert len(used) == 1 and kinds == {False, True}


def test_texts_of_other_requests_do_not_show() -> None:
    """A completion takes the shortest text that fits, whatever ended other gaps before."""
    grammar = cd.Compiler(VOCAB).compile(COMPETING)
    expected = cd.Infill(grammar).new(["if ", cd.GAP]).complete()
    infill = cd.Infill(grammar)
    infill._tables.gap_texts.learn([b"secret"])
    del infill
    infill = cd.Infill(grammar)
    assert b"secret" not in infill._tables.gap_texts.texts
    assert infill.new(["if ", cd.GAP]).complete() == expected


def test_tables_have_one_owner() -> None:
    grammar = cd.Compiler(VOCAB).compile(COMPETING)
    first, second = cd.Infill(grammar), cd.Infill(grammar)
    assert first._tables is not second._tables
    session = first.new(["if ", cd.GAP])
    tables = first._tables
    del first
    assert cd.Infill(grammar)._tables is not tables  # a session has them
    del session
    assert cd.Infill(grammar)._tables is tables
    other = cd.Compiler(VOCAB).compile(AMBIGUOUS)
    assert cd.Infill(other)._tables not in (tables, second._tables)


def test_what_rests_is_bounded_and_accounted_for() -> None:
    spec = TEXTS["competing"][0]
    grammar = cd.Compiler(VOCAB).compile(spec)
    infills = [cd.Infill(grammar) for _ in range(3)]
    size = infills[0]._tables.nbytes
    expected = sum(infill._tables.nbytes for infill in infills)
    assert at_rest.nbytes() == 0
    infills.clear()
    assert memory.account()["infilling at rest"] == at_rest.nbytes() == expected
    limits = cd.Limits(max_infill_bytes=5 * size // 2)
    small = cd.Compiler(VOCAB, limits).compile(spec)
    infills = [cd.Infill(small) for _ in range(4)]
    tables = {id(infill._tables) for infill in infills}
    infills.clear()
    assert 0 < at_rest.nbytes() <= limits.max_infill_bytes
    infills = [cd.Infill(small) for _ in range(3)]
    assert 1 <= len(tables & {id(infill._tables) for infill in infills}) <= 2
    alone = cd.Compiler(VOCAB, FRESH).compile(spec)
    infills.clear()
    left = at_rest.nbytes()
    assert left > 0
    cd.Infill(alone)
    assert at_rest.nbytes() == left


def test_tables_that_gave_back_their_memory_answer_alike() -> None:
    """Where room is short, those that have rested longest give back the memory of their largest tables first."""
    grammar = cd.Compiler(VOCAB).compile(COMPETING)
    todo = problems("competing", cases(20, 8, 8))
    infill = cd.Infill(grammar)
    expected = [answers(infill, pieces) for pieces in todo]
    tables, size = infill._tables, infill._tables.nbytes
    del infill
    for one in list(at_rest._tables):
        one.grow_lean()
    assert tables.is_lean and 0 < tables.nbytes < size
    infill = cd.Infill(grammar)
    assert infill._tables is tables and [answers(infill, pieces) for pieces in todo] == expected
    del infill
    assert not tables.is_lean
    short = cd.Compiler(VOCAB, cd.Limits(max_infill_bytes=at_rest.nbytes() + size // 2)).compile(COMPETING)
    other = cd.Infill(short)
    assert [answers(other, pieces) for pieces in todo] == expected
    last = other._tables
    del other
    assert last in at_rest._tables and tables.is_lean


@pytest.mark.parametrize("spec", [COMPETING, EXACT, cd.grammars.python(max_width=2)], ids=["competing", "exact", "families"])
def test_what_depends_on_the_rules_is_worked_out_once(spec: cd.Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables that live beside others take it over from them, as they would have found it."""
    alone = InfillGrammar(cd.Compiler(VOCAB, FRESH).compile(spec))
    grammar = cd.Compiler(VOCAB).compile(spec)
    first = cd.Infill(grammar)
    todo = [["if ", cd.GAP, "+", cd.GAP], ['{"', cd.GAP, "}"], ["a", cd.GAP, "b\n"], [cd.GAP, "1"]]
    expected = [answers(first, pieces) for pieces in todo]
    assert any(answer != [False] for answer in expected)
    with monkeypatch.context() as patched:
        for name in ("_set_rules", "_set_follows"):
            patched.setattr(InfillGrammar, name, None)
        patched.setattr("cdplugin.infill.tables.that_end_in_gaps", None)
        second = cd.Infill(grammar)
        assert second._tables is not first._tables and [answers(second, pieces) for pieces in todo] == expected
    found, fresh = second._tables.rules, alone.rules
    assert found is first._tables.rules and fresh is not None and found is not None
    assert found.sizes == fresh.sizes and found.words == fresh.words and found.tables.keys() == fresh.tables.keys()
    assert all((found.tables[table] == fresh.tables[table]).all() for table in fresh.tables)
    assert grammar.account.nbytes >= found.nbytes


def test_tables_go_with_their_grammar() -> None:
    grammar = cd.Compiler(VOCAB).compile(COMPETING)
    gc.collect()
    before = at_rest.nbytes()
    cd.Infill(grammar)
    assert at_rest.nbytes() > before
    del grammar
    gc.collect()
    assert at_rest.nbytes() == before


def test_what_is_half_changed_is_not_taken_over() -> None:
    grammar = cd.Compiler(VOCAB).compile(COMPETING)
    infill = cd.Infill(grammar)
    tables = infill._tables
    with pytest.raises(KeyboardInterrupt), tables:
        raise KeyboardInterrupt
    del infill
    assert cd.Infill(grammar)._tables is not tables


def test_nobody_waits_to_leave_tables() -> None:
    """An Infill may go in the middle of this module's own work, wherever the collector runs."""
    grammar = cd.Compiler(VOCAB).compile(COMPETING)
    infill = cd.Infill(grammar)
    tables = infill._tables
    with at_rest._lock:
        del infill
    assert cd.Infill(grammar)._tables is not tables


def test_threads_that_come_and_go() -> None:
    """Each has tables that no other one has at that time, and the answers of one alone."""
    grammar = cd.Compiler(VOCAB).compile(COMPETING)
    pieces = [["if ", cd.GAP, "+", cd.GAP], [cd.GAP, "1"], ["a+", cd.Slots(2)]]
    expected = [answers(cd.Infill(grammar), one) for one in pieces]
    in_use: set[int] = set()
    wrong: list[str] = []

    def run(seed: int) -> None:
        for i in range(seed, seed + cases(30, 10, 8)):
            infill = cd.Infill(grammar)
            key = id(infill._tables)
            if key in in_use:
                wrong.append("shared")
            in_use.add(key)
            if answers(infill, pieces[i % 3]) != expected[i % 3]:
                wrong.append(f"answer {i % 3}")
            in_use.remove(key)
            del infill

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and isinstance(cd.Infill(grammar)._tables, InfillGrammar)
