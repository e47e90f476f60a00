"""Batches on threads, matchers of one grammar on several threads, compiling on threads: each result is as if alone."""

from __future__ import annotations

import contextlib
import gc
import random
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_tools import cases, mask_bits, members, vocabulary
from grammar_tools import HUNGRY

import cdplugin as cd
from cdplugin.engine import pages
from cdplugin.kernels import entry as kernels

VOCAB = vocabulary([b"ab", b'":', b'", "', b"aaa", b"12", b"}}", b'{"a":', b'"a": ', b", ", b"tru", "é".encode()])
WORDS = (VOCAB.size + 31) // 32
SPECS: list[cd.Spec] = [
    cd.Regex("(a|b){0,40}c"),
    cd.Regex("[0-9]{3}-[a-z]*"),
    cd.JsonObject(),
    cd.JsonSchema({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]}),
    cd.JsonSchema({"type": "array", "items": {"enum": ["a", "ab", 1, None]}, "maxItems": 5}),
    cd.Choice([f"{n * n}" for n in range(300)]),
    cd.JsonSchema({"type": "string", "pattern": "^([a-z]+ ){0,5}[a-z]+$", "maxLength": 50}),
    cd.JsonSchema({"type": "number", "minimum": -3, "maximum": 1234}),
]


def walk(matcher: cd.Matcher, seed: int, steps: int) -> list[bytes]:
    """A random walk that depends only on the seed and the masks: the masks met."""
    rng, met = random.Random(seed), []
    for _ in range(steps):
        met.append(mask_bits(matcher))
        allowed = sorted(members(met[-1]) - set(VOCAB.eos_token_ids))
        if allowed and rng.random() < 0.93:
            assert matcher.accept_token(rng.choice(allowed))
        else:
            matcher.rollback(rng.randint(0, len(matcher.tokens)))
    return met


def on_threads(work: Callable[[int], Any], count: int) -> list[Any]:
    """Run ``work(0)``, ``work(1)``, … at once. Raises their errors here."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(i: int) -> None:
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def matchers_somewhere(compiler: cd.Compiler, rng: random.Random, count: int) -> list[cd.Matcher]:
    """Matchers of all grammars, some steps into a text, some at the end."""
    grammars = [compiler.compile(spec) for spec in SPECS]
    out = []
    for i in range(count):
        matcher = grammars[i % len(grammars)].matcher(None if i % 3 else [VOCAB.size - 2, ord("z")])
        for _ in range(rng.randrange(8)):
            allowed = sorted(members(mask_bits(matcher)))
            if allowed and not matcher.is_terminated():
                matcher.accept_token(rng.choice(allowed))
        out.append(matcher)
    return out


# --- fill_next_token_bitmasks -----------------------------------------------------------------------


@pytest.mark.kernel
@pytest.mark.parametrize("threads", [None, 1, 2, 7])
def test_a_batch_equals_single_fills(threads: int | None) -> None:
    """Each grammar of the batch is fresh, so that arenas grow inside the batch."""
    rng = random.Random(1)
    singly = matchers_somewhere(cd.Compiler(VOCAB), rng, cases(48, 9))
    fresh = cd.Compiler(VOCAB)
    batch: list[cd.Matcher | None] = []
    for i, matcher in enumerate(singly):
        other = fresh.compile(SPECS[i % len(SPECS)]).matcher(matcher.stop_token_ids)
        assert other.accept_tokens(matcher.tokens) == len(matcher.tokens)
        batch.append(None if i % 5 == 4 else other)
    rows = list(range(len(batch) + 3))
    rng.shuffle(rows)
    indices = rows[: len(batch)]
    bitmask = np.full((len(rows), WORDS), -7, np.int32)
    cd.fill_next_token_bitmasks(batch, bitmask, indices, threads=threads)
    untouched = np.full(WORDS, -7, np.int32).tobytes()
    for maybe, index, matcher in zip(batch, indices, singly, strict=True):
        assert bitmask[index].tobytes() == (untouched if maybe is None else mask_bits(matcher))
    assert (bitmask[rows[len(batch) :]] == -7).all()
    cd.fill_next_token_bitmasks(batch[:4], bitmask)
    assert all(bitmask[i].tobytes() == mask_bits(singly[i]) for i in range(4))


def test_indices_and_torch() -> None:
    torch = pytest.importorskip("torch")
    matchers = matchers_somewhere(cd.Compiler(VOCAB), random.Random(2), 6)
    bitmask = cd.allocate_token_bitmask(8, VOCAB.size)
    rows = [7, 0, 3, 1, 2, 6]
    kinds: list[Any] = [[7, 0, 3, 1, 2, -2], np.array(rows), torch.tensor(rows), tuple(rows)]
    for indices in kinds:
        bitmask.fill_(-1)
        cd.fill_next_token_bitmasks(matchers, bitmask, indices)
        for matcher, index in zip(matchers, rows, strict=True):
            assert bitmask[index].numpy().tobytes() == mask_bits(matcher)
        assert (bitmask[[4, 5]] == -1).all()
    same = matchers[0]
    cd.fill_next_token_bitmasks([same, same.fork(), same], bitmask, [0, 1, 2])
    assert (bitmask[0] == bitmask[1]).all() and (bitmask[0] == bitmask[2]).all()
    cd.fill_next_token_bitmasks([], bitmask)
    cd.fill_next_token_bitmasks([None, None], bitmask)
    assert (bitmask[0] == bitmask[2]).all()


def test_wrong_batches() -> None:
    matcher = cd.Compiler(VOCAB).compile(SPECS[0]).matcher()
    bitmask = np.zeros((2, WORDS), np.int32)
    with pytest.raises(ValueError, match="indices: expected 2 rows, found 1"):
        cd.fill_next_token_bitmasks([matcher, None], bitmask, [0])
    with pytest.raises(ValueError, match="bitmask row: expected 0 to 1, found 2"):
        cd.fill_next_token_bitmasks([matcher] * 3, bitmask)
    with pytest.raises(TypeError, match="bitmask row: expected an integer, found float"):
        cd.fill_next_token_bitmasks([matcher], bitmask, [0.0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="indices: expected each row of the bitmask once, found row -2 again"):
        cd.fill_next_token_bitmasks([matcher, None, matcher], bitmask, [0, 0, -2])


@pytest.mark.parametrize("threads", [1, 3])
def test_a_limit_in_one_row_leaves_the_others_right(threads: int) -> None:
    """The batch is finished before the error is raised. The row at fault can be left out, and the next batch is right."""
    tight = cd.Compiler(VOCAB, cd.Limits(max_expr_width=40))
    hostile = tight.compile(cd.Regex(HUNGRY)).matcher()
    assert hostile.accept_tokens(b"ab" * 8) == 16
    good = matchers_somewhere(cd.Compiler(VOCAB), random.Random(3), 12)
    expected = [mask_bits(matcher) for matcher in good]
    bitmask = np.zeros((len(good) + 1, WORDS), np.int32)
    try:
        while True:
            assert hostile.accept_tokens(b"aa") == 2
    except cd.LimitExceeded:
        pass
    place = hostile.tokens
    for at in (0, 5, len(good)):
        batch = [*good[:at], hostile, *good[at:]]
        bitmask[:] = 0
        with pytest.raises(cd.LimitExceeded, match=r"Limits.max_expr_width = 40"):
            cd.fill_next_token_bitmasks(batch, bitmask, threads=threads)
        rows = [i for i in range(len(batch)) if i != at]
        assert [bitmask[i].tobytes() for i in rows] == expected
    assert hostile.tokens == place
    hostile.reset()
    assert mask_bits(hostile) == mask_bits(tight.compile(cd.Regex(HUNGRY)).matcher())


# --- one grammar on several threads -----------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_matchers_of_one_grammar_in_turns(number: int) -> None:
    """In whatever order the states of an arena are met: a byte that a new row has no entry for wrote to the row before it."""
    for turn in range(cases(30, 20)):
        grammar, order = cd.Compiler(VOCAB).compile(SPECS[number]), random.Random(turn)
        walks = [(grammar.matcher(), random.Random(seed)) for seed in range(4)]
        met: dict[int, list[int]] = {}
        for _ in range(480):
            which = order.randrange(4)
            matcher, rng = walks[which]
            if which not in met:
                met[which] = sorted(members(mask_bits(matcher)) - set(VOCAB.eos_token_ids))
            elif (allowed := met.pop(which)) and rng.random() < 0.93:
                assert matcher.accept_token(rng.choice(allowed)), VOCAB.decode(matcher.tokens)
            else:
                matcher.rollback(rng.randint(0, len(matcher.tokens)))


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_matchers_of_one_grammar_on_several_threads(number: int) -> None:
    steps = 120
    alone = [walk(cd.Compiler(VOCAB).compile(SPECS[number]).matcher(), seed, steps) for seed in range(4)]
    shared = cd.Compiler(VOCAB).compile(SPECS[number])
    assert on_threads(lambda i: walk(shared.matcher(), i, steps), 4) == alone


def test_threads_share_a_grammar_whose_arena_is_replaced() -> None:
    """A budget that is crossed again and again: matchers replay their tokens in the fresh arena, whoever made it."""
    small = cd.Limits(max_arena_bytes=300_000)
    alone = [walk(cd.Compiler(VOCAB).compile(SPECS[2]).matcher(), seed, 150) for seed in range(4)]
    shared = cd.Compiler(VOCAB, small).compile(SPECS[2])
    first = shared._arena
    assert on_threads(lambda i: walk(shared.matcher(), i, 150), 4) == alone
    assert shared._arena is not first


def test_batches_from_several_threads() -> None:
    compiler = cd.Compiler(VOCAB)
    sets = [matchers_somewhere(compiler, random.Random(seed), 16) for seed in range(3)]
    expected = [[mask_bits(matcher) for matcher in matchers] for matchers in sets]

    def fill(i: int) -> list[list[bytes]]:
        out = []
        for _ in range(20):
            bitmask = np.zeros((16, WORDS), np.int32)
            cd.fill_next_token_bitmasks(sets[i], bitmask, threads=2)
            out.append([row.tobytes() for row in bitmask])
        return out

    for i, found in enumerate(on_threads(fill, 3)):
        assert all(rows == expected[i] for rows in found)


# --- compiling -----------------------------------------------------------------------


def test_compile_from_threads() -> None:
    """One compiler: the same specs at once give one grammar each, different ones are right."""
    alone = [mask_bits(cd.Compiler(VOCAB).compile(spec).matcher()) for spec in SPECS]
    compiler = cd.Compiler(VOCAB)

    def work(i: int) -> list[cd.Grammar]:
        order = SPECS[i:] + SPECS[:i]
        return [compiler.compile(spec) for spec in order][len(SPECS) - i :] + [compiler.compile(spec) for spec in order][
            : len(SPECS) - i
        ]

    found = on_threads(work, 4)
    for number in range(len(SPECS)):
        grammars = {id(grammars[number]) for grammars in found}
        assert len(grammars) == 1 and mask_bits(found[0][number].matcher()) == alone[number]


def test_compile_from_threads_for_a_new_vocabulary() -> None:
    """The template of a vocabulary is made once, by whoever comes first."""
    fresh = vocabulary([b"only here"])

    def work(i: int) -> bytes:
        return mask_bits(cd.Compiler(fresh).compile(SPECS[i % len(SPECS)]).matcher())

    found = on_threads(work, 8)
    assert found == [work(i) for i in range(8)]


def test_errors_in_one_thread_are_its_own() -> None:
    compiler = cd.Compiler(VOCAB)

    def work(i: int) -> Any:
        if i % 2:
            with pytest.raises(cd.GrammarError):
                compiler.compile(cd.Regex("(a"))
            return None
        return mask_bits(compiler.compile(cd.Regex(f"a{{{i}}}b")).matcher())

    found = on_threads(work, 6)
    assert found == [work(i) for i in range(6)]


def test_a_lock_of_llvm_that_is_never_free() -> None:
    """An interrupt can leave it with the thread that it hit. With kernels loaded, others compile grammars all the same,
    for vocabularies that are new, too.
    """
    ffi = pytest.importorskip("llvmlite.binding.ffi")
    spec = cd.Lark('start: x::0\nx::_ : "a" x::incr(_) %if lt(_, 3)\n   | "b"')

    def work(token: bytes) -> None:
        matcher = cd.Compiler(vocabulary([token])).compile(spec).matcher()
        done.append(len(matcher.shortest_completion()))

    done: list[int] = []
    work(b"aa")
    with ffi.lib._lock:
        thread = threading.Thread(target=work, args=(b"ab",), daemon=True)
        thread.start()
        thread.join(60)
    assert len(done) == 2


def test_who_has_a_weak_reference_does_not_find_an_arena_whose_memory_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread would step tables that are somebody else's: learning from a grammar, or working ahead in it."""
    compiler = cd.Compiler(vocabulary([b"ab"]), limits=cd.Limits(max_cache_bytes=1))
    found = []

    def release_room(*arguments: Any) -> None:
        found.append(arena())
        release(*arguments)

    matcher = compiler.compile(cd.Regex("[a-z]+")).matcher()
    mask_bits(matcher)
    arena = weakref.ref(matcher.grammar._arena)
    release = pages.release_room
    monkeypatch.setattr(pages, "release_room", release_room)
    del matcher
    gc.collect()
    assert found and not any(found)


# --- one matcher on several threads: the calls come in some order, or one raises ------------------------------------


class SlowList(list[int]):
    """A list that other threads may see before it has grown."""

    def append(self, value: int) -> None:
        time.sleep(0.002)
        super().append(value)


def test_threads_that_share_a_matcher_lose_no_token() -> None:
    """The finding: two threads followed their tokens from one place, and a text of 41 letters was taken for one of 40."""
    matcher = cd.Compiler(VOCAB).compile(cd.Regex("a{0,40}")).matcher()
    matcher._cursors = SlowList(matcher._cursors)
    on_threads(lambda _: matcher.accept_tokens([ord("a")] * 10), 4)
    assert len(matcher.tokens) == 40
    assert members(mask_bits(matcher)) == set(matcher.stop_token_ids)


class MovedMeanwhile:
    """A lock before which another thread is first: it calls ``move``, once."""

    def __init__(self, lock: Any, move: Callable[[], Any]) -> None:
        self.lock, self.move = lock, [move]

    def __enter__(self) -> None:
        if self.move:
            on_threads(lambda _: self.move.pop()(), 1)
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


CALLS: list[Callable[[cd.Matcher], Any]] = [
    mask_bits,
    lambda matcher: matcher.accept_token(ord("b")),
    lambda matcher: matcher.is_accepting(),
    lambda matcher: matcher.fill_next_token_bitmask(np.zeros((1, WORDS), np.int32), budget=3),
]


@pytest.mark.kernel
@pytest.mark.parametrize("call", CALLS, ids=["mask", "accept", "accepting", "budget"])
def test_another_thread_moves_a_matcher_to_another_arena(
    call: Callable[[cd.Matcher], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding: the place in the new arena was looked up in the old one, and kernels check no index."""
    grammar = cd.Compiler(VOCAB).compile(cd.Regex("(a|b){0,40}c|[x-z]{30}"))
    matcher, other = grammar.matcher(), grammar.matcher()
    for one in (matcher, other):
        assert one.accept_tokens(b"abab") == 4
    arena, places = grammar._arena, set(matcher._cursors)

    def move() -> None:
        arena.abandon()
        assert grammar.matcher().accept_tokens(b"xyz" * 10) == 30  # so that places have other numbers there
        assert matcher.validate_tokens(b"b") == 1
        assert matcher._arena_ref() is not arena

    arena.lock = MovedMeanwhile(arena.lock, move)  # type: ignore[assignment]
    run, asked = kernels.run, []
    monkeypatch.setattr(kernels, "run", lambda *given: (asked.append(given), run(*given))[1])
    with contextlib.suppress(cd.CdpluginError):  # the arena that the call had begun with is given up
        call(matcher)
    monkeypatch.undo()
    assert not [given for given in asked if given[0] == arena.address and given[2] not in places]
    assert other.accept_tokens(matcher.tokens[4:]) == len(matcher.tokens) - 4
    assert mask_bits(matcher) == mask_bits(other)


def test_a_rollback_after_a_replay_that_crossed_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding: with more tokens taken back than had been followed again, every later call was an IndexError."""
    matcher = cd.Compiler(VOCAB).compile(cd.Regex("(a|b){0,40}c")).matcher()
    assert matcher.accept_tokens(b"abababab") == 8
    matcher.grammar._arena.abandon()
    follow, left = cd.Matcher._follow, [3]

    def crossing(*arguments: Any) -> int:
        left[0] -= 1
        if not left[0]:
            raise cd.LimitExceeded("one step takes too much work")
        return follow(*arguments)

    monkeypatch.setattr(cd.Matcher, "_follow", crossing)
    with pytest.raises(cd.LimitExceeded):
        matcher.is_accepting()
    matcher.rollback(6)
    assert matcher.tokens == tuple(b"ab")
    other = matcher.grammar.matcher()
    assert other.accept_tokens(b"ab") == 2 and mask_bits(matcher) == mask_bits(other)
