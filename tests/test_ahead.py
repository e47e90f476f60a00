"""Work ahead changes no answer, whatever it visits. Real work comes first, bounds hold, and errors and forks stay inside.

``Ahead(0)`` visits places on the test's own thread, when the test tells it to, so nothing here depends on a clock.
"""

from __future__ import annotations

import gc
import random
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from engine_tools import cases, mask_bits, members, naive_mask, vocabulary
from naive import Naive, random_grammar, random_tokens

import cdplugin as cd
from cdplugin import ahead
from cdplugin.ahead import Ahead, Visit
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.store import layout
from cdplugin.queries import likely

VOCAB = vocabulary(
    [b"ab", b'":', b'": "', b'", "', b"aaa", b"12", b"}}", b'{"a":', b'{"', b'"name', b"name", b"size", b"tru", "é".encode()]
)
OBJECT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "size": {"type": "integer"},
        "tags": {"enum": ["red", "rose", 7]},
    },
    "required": ["name", "size"],
}
SPECS: dict[str, cd.Spec] = {
    "regex": cd.Regex("(a|b){0,40}c"),
    "object": cd.JsonSchema(OBJECT),
    "any order": cd.JsonSchema(OBJECT, property_order="any"),
    "pattern": cd.JsonSchema({"type": "string", "pattern": "^([a-z]+ ){0,5}[a-z]+$", "maxLength": 50}),
    "distinct": cd.JsonSchema({"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
    "number": cd.JsonSchema({"type": "number", "minimum": -3, "maximum": 1234}),
    "lark": cd.Lark('start: (WORD | NUMBER | "let" WORD)+\nWORD: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "'),
    "clock": cd.Lark('start: word ";" start | ";"\nword[max_tokens=3]: /[a-z]+/'),
    "terminal": cd.Lark("start: /[a-z]*/ <special> /[0-9]*/"),
    "tags": cd.JsonSchema({"anyOf": [OBJECT, {"type": "array", "items": OBJECT, "maxItems": 3}]}),
}


def compiled(spec: cd.Spec, limits: cd.Limits | None = None) -> cd.Grammar:
    return cd.Compiler(VOCAB, limits).compile(spec)


def walk(matcher: cd.Matcher, seed: int, steps: int, visitor: Ahead | None) -> list[bytes]:
    """The masks of a random walk that depends only on the seed and the masks."""
    rng, met = random.Random(seed), []
    for step in range(steps):
        if visitor is not None:
            visitor.follow(matcher)
            visitor.run((1, 5_000, 100_000)[(seed + step) % 3])
        met.append(mask_bits(matcher))
        allowed = sorted(members(met[-1]) - set(matcher.grammar.vocab.eos_token_ids))
        if allowed and rng.random() < 0.93:
            assert matcher.accept_token(rng.choice(allowed))
        else:
            matcher.rollback(rng.randint(0, len(matcher.tokens)))
    return met


@pytest.mark.kernel
@pytest.mark.parametrize("name", SPECS)
def test_masks_are_those_without_it(name: str) -> None:
    visitor = Ahead(0)
    for seed in range(cases(20, 1)):
        assert walk(compiled(SPECS[name]).matcher(), seed, 60, visitor) == walk(compiled(SPECS[name]).matcher(), seed, 60, None)
    found = visitor.counters()
    assert found["failed"] == 0 and found["met"] > 0 and found["masks"] > 0 and found["looked"] > 0


@pytest.mark.kernel
def test_masks_are_those_of_the_reference() -> None:
    """Random grammars: what is met ahead, and what is not, as brute force says."""
    visitor, compared = Ahead(0), 0
    for seed in range(cases(300, 6)):
        rng = random.Random(seed)
        ir, tokens = random_grammar(rng), random_tokens(rng)
        naive = Naive(ir)
        if naive.empty:
            continue
        vocab = vocabulary([t for t in tokens if t is not None])
        matcher = cd.Compiler(vocab).compile_ir(ir).matcher()
        for _ in range(4):
            visitor.follow(matcher)
            visitor.run(1 << 40)
            allowed = members(mask_bits(matcher))
            assert allowed == naive_mask(naive, vocab, vocab.decode(matcher.tokens)), (seed, matcher.tokens)
            compared += 1
            following = sorted(allowed - set(vocab.eos_token_ids))
            if not following:
                break
            assert matcher.accept_token(rng.choice(following))
    assert compared > cases(300, 6) and visitor.counters()["failed"] == 0


def test_what_follows_is_met() -> None:
    """After the place where a text is, the masks of the names, separators and values that may come are there already."""
    grammar = compiled(SPECS["object"])
    matcher, visitor = grammar.matcher(), Ahead(0)
    mask_bits(matcher)
    for text in ('{"', "name", '": "', "ab", "ab", '", "', "size", '":', "12", "}"):
        visitor.follow(matcher)
        visitor.run(1 << 40)
        assert matcher.accept_token(VOCAB.tokens.index(text.encode()))
        before = grammar.counters()["mask_misses"]
        mask_bits(matcher)
        assert grammar.counters()["mask_misses"] == before, text
    found = visitor.counters()
    assert (found["places"], found["met"], found["busy"]) == (10, 9, 0)


class Kernels:
    """Counts the calls of kernels on grammars, and does something in one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[int] = []
        self.then: Any = None
        run, engine = kernels.run, kernels.engine

        def counted(original: Any) -> Any:
            def call(h: int, op: int, *arguments: int) -> int:
                self.calls.append(op)
                result = original(h, op, *arguments)
                if self.then is not None:
                    self.then()
                return result

            return call

        monkeypatch.setattr(kernels, "run", counted(run))
        monkeypatch.setattr(kernels, "engine", counted(engine))


def test_a_lock_is_never_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = compiled(SPECS["object"])
    matcher, visitor = grammar.matcher(), Ahead(0)
    visitor.follow(matcher)
    seen = Kernels(monkeypatch)
    with grammar._arena.lock:
        assert visitor.run(1 << 40) == 0
    assert seen.calls == [] and visitor.counters()["busy"] == 1
    assert visitor.run(1 << 40) > 0  # the place waited
    assert visitor.counters()["looked"] > 0


def test_the_lock_is_free_between_two_kernel_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matcher that comes during a call gets the arena after it: the next call finds it taken, and gives up."""
    grammar = compiled(SPECS["object"])
    matcher, visitor = grammar.matcher(), Ahead(0)
    visitor.follow(matcher)
    lock, held = grammar._arena.lock, []

    class Fair:
        """The lock as the operating system hands it on: whoever waits has it next."""

        def acquire(self, blocking: bool = True) -> bool:
            return not held and lock.acquire(blocking)

        def release(self) -> None:
            lock.release()
            if seen.calls:
                held.append(True)  # somebody waited

    grammar._arena.lock = Fair()  # type: ignore[assignment]
    seen = Kernels(monkeypatch)
    visitor.run(1 << 40)
    assert len(seen.calls) == 1 and visitor.counters()["busy"] == 1


def test_real_work_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """While adapters say that they work, a thread waits before each grant."""
    grammar, visitor = compiled(SPECS["object"]), Ahead(1)
    slept: list[int] = []
    seen = Kernels(monkeypatch)

    def sleep(_: float) -> None:
        slept.append(len(seen.calls))
        if len(slept) % 5:
            visitor.touch()  # real work goes on

    visitor._sleep = sleep
    visitor._started = [threading.current_thread()]  # this one plays it
    visitor.follow(grammar.matcher())
    seen.then = visitor.touch  # each kernel call is interrupted
    visitor.run(1)
    assert len(slept) >= 15 and slept[:5] == [0] * 5
    assert all(slept[i] == slept[i - i % 5] for i in range(len(slept))), "a kernel call while real work was done"
    visitor._started = []


@pytest.mark.parametrize("work", [1, 3_000, 60_000])
def test_work_is_bounded(work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "FIRST_WORK", work)
    monkeypatch.setattr(ahead, "PLACE_WORK", 0)
    monkeypatch.setattr(ahead, "GRANT", 2_000)
    matcher, visitor = compiled(SPECS["tags"]).matcher(), Ahead(0)
    visitor.follow(matcher)
    visitor.run(1 << 40)
    assert visitor.counters()["work"] <= work + 4 * 2_000 + 20_000  # a grant may end late, by one turn of a loop
    assert visitor.counters()["failed"] == 0


def test_nothing_is_met_for_ever() -> None:
    """From one place so many further ones at most; a place is looked at once."""
    matcher, visitor = compiled(SPECS["tags"]).matcher(), Ahead(0)
    for _ in range(3):
        visitor.follow(matcher)
        visitor.run(1 << 40)
    assert 1 < visitor.counters()["looked"] <= 1 + ahead.FURTHER
    assert visitor.run(1 << 40) == 0


def test_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "PLACE_BYTES", 0)
    monkeypatch.setattr(ahead, "FURTHER", 1 << 20)
    grown = []
    for room in (1 << 16, 1 << 30):
        monkeypatch.setattr(ahead, "FIRST_BYTES", room)
        grammar, visitor = compiled(SPECS["tags"]), Ahead(0)
        before = grammar.nbytes
        visitor.follow(grammar.matcher())
        visitor.run(1 << 40)
        grown.append(grammar.nbytes - before)
    assert 0 < grown[0] <= (1 << 16) + (3 << 19) and grown[1] > 2 * grown[0], "and the table that grew last"


def test_an_arena_stays_within_its_budget() -> None:
    """Where the grammar's own budget is small, visits end long before it: they never make it start afresh."""
    limits = cd.Limits(max_arena_bytes=6 << 20)
    grammar = compiled(
        cd.JsonSchema({"type": "array", "items": {"anyOf": [OBJECT, {"type": "string", "format": "email"}]}}), limits
    )
    arena, visitor, rng = grammar._arena, Ahead(0), random.Random(1)
    for _ in range(30):
        matcher = grammar.matcher()
        for _ in range(12):
            visitor.follow(matcher)
            visitor.run(1 << 40)
            assert matcher._arena_ref() is arena and not arena.over_budget
            allowed = sorted(members(mask_bits(matcher)) - set(VOCAB.eos_token_ids))
            if 3 * arena.nbytes > limits.max_arena_bytes or not allowed:
                break
            matcher.accept_token(rng.choice(allowed))
    assert visitor.counters()["failed"] == 0


def test_a_grammar_is_collected_while_it_waits() -> None:
    visitor = Ahead(0)
    grammar = compiled(SPECS["object"])
    visitor.follow(grammar.matcher())
    arena, visit = weakref.ref(grammar._arena), grammar.visit
    del grammar
    gc.collect()
    assert arena() is None and isinstance(visit, Visit)
    assert visitor.run(1 << 40) == 0 and visitor.counters()["failed"] == 0


def test_an_arena_that_is_replaced_is_visited_anew() -> None:
    grammar = compiled(SPECS["object"])
    matcher, visitor = grammar.matcher(), Ahead(0)
    visitor.follow(matcher)
    visitor.run(1 << 40)
    first = grammar.visit
    grammar._arena.abandon()
    visitor.follow(matcher)  # whose cursors are the old arena's still
    assert grammar.visit is first and visitor.run(1 << 40) == 0
    expected = mask_bits(compiled(SPECS["object"]).matcher())
    assert mask_bits(matcher) == expected
    visitor.follow(matcher)
    assert grammar.visit is not first and visitor.run(1 << 40) > 0
    assert mask_bits(matcher) == expected


def test_errors_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = compiled(SPECS["object"])
    matcher, visitor = grammar.matcher(), Ahead(0)
    monkeypatch.setattr(ahead, "likely_of", lambda _: 1 / 0)
    visitor.follow(matcher)
    assert visitor.run(1 << 40) > 0  # the mask of the place
    assert visitor.counters()["failed"] == 1
    monkeypatch.undo()
    assert matcher.accept_token(VOCAB.tokens.index(b'{"'))
    visitor.follow(matcher)
    assert visitor.run(1 << 40) == 0  # that grammar is left alone
    assert walk(grammar.matcher(), 1, 40, None) == walk(compiled(SPECS["object"]).matcher(), 1, 40, None)


def test_an_interrupted_change_costs_the_arena_only(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = compiled(SPECS["object"])
    matcher, visitor = grammar.matcher(), Ahead(0)
    arena = grammar._arena

    def no_memory(*_: Any) -> None:
        with arena._changing():
            raise MemoryError

    monkeypatch.setattr(arena, "_grow", no_memory, raising=True)
    arena.header[2 * layout.ROWS + 1] = arena.header[layout.N_ROWS] * 16  # full
    visitor.follow(matcher)
    visitor.run(1 << 40)
    assert visitor.counters()["failed"] <= 1
    assert walk(grammar.matcher(), 2, 40, None) == walk(compiled(SPECS["object"]).matcher(), 2, 40, None)


def test_threads_start_when_something_is_followed_and_end() -> None:
    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("cdplugin-ahead")]

    done = threading.Event()

    class Told(Ahead):
        def _visit(self, visit: Visit) -> bool:
            found = super()._visit(visit)
            if self._queue.empty():
                done.set()
            return found

    before = threads()
    visitor = Told(2)
    grammar = compiled(SPECS["object"])
    matcher = grammar.matcher()
    cd.fill_next_token_bitmasks([matcher] * 8, np.zeros((8, (VOCAB.size + 31) // 32), np.int32))
    assert threads() == before
    visitor.follow(matcher)
    assert len(threads()) == len(before) + 2 and done.wait(60)
    visitor.close()
    assert threads() == before
    visitor.follow(grammar.matcher())
    assert threads() == before
    assert walk(matcher, 3, 40, None) == walk(compiled(SPECS["object"]).matcher(), 3, 40, None)


def test_with_matchers_on_other_threads() -> None:
    """Two threads visit while four walk, all in two grammars: the masks are those of one thread alone."""
    visitor = Ahead(2)
    grammars = {name: compiled(SPECS[name]) for name in ("tags", "lark")}
    results: dict[int, list[bytes]] = {}

    def work(i: int) -> None:
        rng, met = random.Random(i), []
        matcher = grammars[("tags", "lark")[i % 2]].matcher()
        for _ in range(cases(300, 20)):
            visitor.follow(matcher)
            met.append(mask_bits(matcher))
            allowed = sorted(members(met[-1]) - set(VOCAB.eos_token_ids))
            if not allowed or rng.random() < 0.05 or not matcher.accept_token(rng.choice(allowed)):
                matcher.reset()
        results[i] = met

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    visitor.close()
    together = dict(results)
    grammars = {name: compiled(SPECS[name]) for name in ("tags", "lark")}
    visitor = Ahead(0)
    for i in range(4):
        work(i)
        assert results[i] == together[i]
    assert visitor.counters()["failed"] == 0


# ---- likely tokens -----------------------------------------------------------------------------------------------------------


def test_words_that_the_grammar_spells_are_likely() -> None:
    grammar = compiled(cd.JsonSchema({"properties": {"name": {}, "size": {}}, "type": "object"}))
    matcher = grammar.matcher()
    assert matcher.accept_token(VOCAB.tokens.index(b'{"'))
    arena = grammar._arena
    with arena.lock, arena.one_budget(100_000):
        found = {VOCAB.tokens[t] for t in likely.first_tokens(arena, matcher._cursors[-1])}
    assert {b"name", b"size"} <= found


@pytest.mark.parametrize("name", SPECS)
def test_likely_tokens_are_text_that_the_mask_allows(name: str) -> None:
    matcher, rng = compiled(SPECS[name]).matcher(), random.Random(5)
    for _ in range(cases(40, 5)):
        bits = mask_bits(matcher)
        found = likely.likely_of(VOCAB).among(np.frombuffer(bits, np.int32)).tolist()
        allowed = members(bits) - set(VOCAB.eos_token_ids)
        assert len(set(found)) == len(found) and set(found) <= {t for t in allowed if VOCAB.tokens[t]}
        if not allowed:
            break
        matcher.accept_token(rng.choice(sorted(allowed)))


def test_the_example() -> None:
    import doctest

    assert doctest.testmod(likely).failed == 0
