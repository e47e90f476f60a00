"""One budget per operation: what crosses it fails only that request, and changes no mask of anybody."""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from engine_tools import TINY, cases, mask, vocabulary

import cdplugin as cd
from cdplugin.engine import arena as owner
from cdplugin.engine import owned_tables, pages
from cdplugin.engine.arena import Arena
from cdplugin.engine.blocks import address_of
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.store import layout

TOKENS = [b"ab", b"abc", b'{"', b'":', b"  ", b"foo", b"password"]
VOCAB = vocabulary(TOKENS)
MANY_PATTERNS = cd.JsonSchema({"type": "string", "allOf": [{"pattern": f"a.{{{i}}}b"} for i in range(1, 26)]})
SPECS = [
    cd.JsonSchema({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-f]{2,9}$"}}, "required": ["a"]}),
    cd.Lark('start: s\ns: s s | "ab" | "a" | "(" s ")"'),
    cd.JsonSchema({"type": "object", "properties": {c: {"type": "integer"} for c in "abcdef"}}, property_order="any"),
]


def walk(matcher: cd.Matcher, seed: int, steps: int) -> list[set[int]]:
    """The masks along a random text."""
    rng = np.random.default_rng(seed)
    masks = []
    for _ in range(steps):
        masks.append(mask(matcher))
        choices = sorted(masks[-1] - set(matcher.stop_token_ids))
        if not choices:
            break
        assert matcher.accept_token(int(rng.choice(choices)))
    return masks


def test_a_mask_that_takes_too_much_work_is_an_error_that_names_the_limit() -> None:
    limits = cd.Limits(max_step_work=100_000)
    matcher = cd.Compiler(VOCAB, limits).compile(MANY_PATTERNS).matcher()
    with pytest.raises(cd.LimitExceeded, match=r"one step takes too much work: expected at most 100000 units \(Limits.max_ste"):
        walk(matcher, 1, 50)
    before = matcher.tokens
    matcher.reset()  # the matcher is of use still
    assert matcher.tokens == () != before and matcher.is_accepting() is False


def test_deciding_what_matches_takes_one_budget_for_all_lexemes() -> None:
    patterns = [{"type": "string", "allOf": [{"pattern": f"{c}.{{{i}}}b"} for i in range(1, 9)]} for c in "acde"]
    with pytest.raises(cd.LimitExceeded, match=r"takes too much: expected at most 10000 units \(Limits.max_compile_work\)"):
        cd.Compiler(VOCAB, cd.Limits(max_compile_work=10_000)).compile(cd.JsonSchema({"anyOf": patterns}))


@pytest.mark.parametrize("spec", SPECS)
def test_masks_after_a_crossed_budget_are_a_fresh_engines(spec: cd.Spec) -> None:
    """A small budget is crossed at every place in turn. Whoever asks again with a sufficient budget gets the right answer."""
    expected = [walk(cd.Compiler(VOCAB).compile(spec).matcher(), seed, 12) for seed in range(3)]
    grammar = cd.Compiler(VOCAB).compile(spec)
    arena = grammar._arena
    limits, crossed = arena.limits, 0
    for seed in range(3):
        for work in range(50, cases(4000, 1000), 50):
            arena.set_limits(replace(limits, max_step_work=work))
            try:
                walk(grammar.matcher(), seed, 12)
            except cd.LimitExceeded:
                crossed += 1
        arena.set_limits(limits)
        assert walk(grammar.matcher(), seed, 12) == expected[seed]
    assert crossed > 10


def test_work_is_counted_alike_however_often_tables_had_to_grow() -> None:
    grammar = cd.Compiler(VOCAB).compile(SPECS[0])
    walk(grammar.matcher(), 1, 12)
    work = grammar.counters()["work"]
    assert work > 1000
    walk(grammar.matcher(), 1, 12)
    assert grammar.counters()["work"] - work < work / 4  # what is known is looked up


def interrupted(matcher: cd.Matcher, monkeypatch: pytest.MonkeyPatch, name: str, at: int, error: type[BaseException]) -> bool:
    """Walk while the ``at``-th call of a method of arenas (or of ``Room.of``) fails. Returns whether it came to that call."""
    holder = owned_tables.Room if name == "of" else Arena
    original, calls = getattr(holder, name), 0

    def failing(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == at:
            raise error
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(holder, name, failing)
        try:
            walk(matcher, 2, 12)
        except (error, cd.LimitExceeded):
            return True
    return False


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize(
    ("name", "error"),
    [("of", MemoryError), ("of", KeyboardInterrupt), ("set_table", KeyboardInterrupt), ("set_table", OSError)],
)
def test_masks_after_a_failed_growth_are_a_fresh_engines(
    spec: cd.Spec, name: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each allocation, and each change of a table, fails in turn. The same matcher then goes on as if nothing had happened."""
    monkeypatch.setattr(owner, "INITIAL", TINY)
    monkeypatch.setattr(owned_tables, "_GROWTH_SMALL", 1.2)
    compiler = cd.Compiler(vocabulary(TOKENS))  # arenas are cloned from one that belongs to the vocabulary
    expected = walk(cd.Compiler(VOCAB).compile(spec).matcher(), 2, 12)
    failed = 0
    for at in range(1, cases(40, 12)):
        grammar = compiler.compile_ir(spec.to_ir(compiler.limits))
        matcher = grammar.matcher()
        if not interrupted(matcher, monkeypatch, name, at, error):
            break
        failed += 1
        taken = len(matcher.tokens)
        assert mask(matcher) == expected[taken]
        matcher.reset()
        assert walk(matcher, 2, 12) == expected
    assert failed > 0


def test_a_broken_arena_says_so_and_is_not_used() -> None:
    grammar = cd.Compiler(VOCAB).compile(SPECS[1])
    matcher = grammar.matcher()
    before = mask(matcher)
    arena = grammar._arena
    arena.abandon()
    with pytest.raises(cd.CdpluginError, match="compile it again"):
        arena.call(kernels.OP_ACCEPTS, arena.start)
    assert mask(matcher) == before and grammar._arena is not arena


# --- what growth costs ----------------------------------------------------------------------------------------------------


def bytes_of_tables(arena: Arena, base_arena: Arena) -> int:
    """Bytes of the distinct memory that an arena's own tables lie in: not those of the vocabulary, which all arenas have."""
    assert arena._block is not None
    memory = {0: sum(end - start for start, end, _, _ in arena._block.spans.values())}  # what it has of its block's room
    for table in range(layout.N_TABLES):
        array = arena.tables[table]
        is_shared = array is base_arena.tables[table] or table in (layout.LITERAL_OFFSETS, layout.LITERAL_BYTES)
        if not is_shared and (array.base is None or table in arena._pages):
            base = array if array.base is None else array.base
            memory[id(base)] = base.nbytes
    return sum(memory.values())


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("large", [1 << 12, 1 << 17])
def test_an_arena_knows_its_bytes_without_counting_all_tables(
    spec: cd.Spec, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "INITIAL", TINY)
    monkeypatch.setattr(pages, "LARGE", large)
    compiler = cd.Compiler(vocabulary(TOKENS))
    for seed in range(3):
        grammar = compiler.compile_ir(spec.to_ir(compiler.limits))
        walk(grammar.matcher(), seed, 12)
        arena = grammar._arena
        late = 0 if arena.expand is None else arena.expand.nbytes
        besides = late + owned_tables._OBJECT_BYTES + arena.header.nbytes
        assert arena.nbytes == bytes_of_tables(arena, grammar._base_arena) + besides
        assert grammar.nbytes == grammar._tables.nbytes + arena.nbytes


def test_the_pages_of_a_table_that_grew_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LARGE", 1 << 12)
    monkeypatch.setattr(pages, "_free", OrderedDict())  # else there may be no room for more
    monkeypatch.setattr(pages, "_kept", 0)
    monkeypatch.setattr(Arena, "_extend", lambda *_: False)  # as where pages cannot be moved
    arena = cd.Compiler(VOCAB).compile(SPECS[0])._arena
    arena.reserve(layout.INDEX, len(arena.tables[layout.INDEX]) * owned_tables.ROOM[layout.INDEX])
    for _ in range(2):
        size = len(arena._pages[layout.INDEX])
        before = len(pages._free.get(size, ()))
        arena._grow(layout.INDEX, 2 * len(arena.tables[layout.INDEX]))
        assert len(pages._free.get(size, ())) == before + 1


def test_an_arena_that_goes_while_pages_are_asked_for_leaves_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1 << 16
    gone = [pages.fresh(size)]

    class Collecting(OrderedDict):  # garbage is collected in the middle of its changes
        def pop(self, *arguments):
            found = super().pop(*arguments)
            pages.release(gone)
            return found

        def move_to_end(self, *arguments):
            super().move_to_end(*arguments)
            pages.release(gone)

    monkeypatch.setattr(pages, "_free", Collecting())
    monkeypatch.setattr(pages, "_kept", 0)
    taken = pages.acquire(size)
    assert pages.kept() == sum(found.nbytes for waiting in pages._free.values() for found in waiting)
    pages.release([taken])
    assert pages.kept() <= 2 * size


def test_pages_that_nobody_asks_for_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rare, common = 3 << 16, 1 << 16
    monkeypatch.setattr(pages, "_free", OrderedDict())
    monkeypatch.setattr(pages, "_kept", 0)
    monkeypatch.setattr(pages, "_MOST_KEPT", 3 * rare)
    pages.release([pages.acquire(rare) for _ in range(4)])
    assert pages.kept() == 3 * rare
    pages.release([pages.acquire(common) for _ in range(2)])
    assert (len(pages._free[rare]), len(pages._free[common])) == (2, 2)
    waiting = {address_of(found.block) for found in pages._free[common]}
    again = [pages.acquire(common)]
    assert address_of(again[0]) in waiting  # handed on
    again.clear()
    pages.release([pages.acquire(rare) for _ in range(3)])  # asked for last: now the others make room
    assert (len(pages._free[rare]), len(pages._free[common])) == (3, 0)
    assert pages.kept() == 3 * rare


@pytest.mark.skipif(sys.platform != "linux", reason="pages of a table can be moved on Linux only")
def test_a_table_that_grows_is_never_there_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table gets more pages instead of a copy. If somebody refers to it, it is copied, and the reference keeps its
    content.
    """
    monkeypatch.setattr(pages, "LARGE", 1 << 12)
    arena = cd.Compiler(VOCAB).compile(SPECS[0])._arena
    arena.reserve(layout.TOKEN_LISTS, 1 << 19)  # more than it has room for in the block that it began in
    installed = []
    install = Arena._install
    monkeypatch.setattr(Arena, "_install", lambda self, *a: (installed.append(a[0]), install(self, *a))[1])
    arena.tables[layout.TOKEN_LISTS][: 1 << 19] = np.arange(1 << 19)
    arena.reserve(layout.TOKEN_LISTS, 1 << 20)
    assert not installed
    held = arena.tables[layout.TOKEN_LISTS]
    size = len(held)
    arena.reserve(layout.TOKEN_LISTS, size + 1)
    assert installed == [layout.TOKEN_LISTS]
    grown = arena.tables[layout.TOKEN_LISTS]
    assert len(held) == size < len(grown) and grown[: 1 << 19].tolist() == held[: 1 << 19].tolist() == [*range(1 << 19)]
    head = arena.header[2 * layout.TOKEN_LISTS : 2 * layout.TOKEN_LISTS + 2].tolist()
    assert head == [grown.ctypes.data, len(grown)]


def test_a_table_grows_where_it_is_while_it_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_free", OrderedDict())  # else its memory may have been another's, which had grown
    monkeypatch.setattr(pages, "_kept", 0)
    arena = cd.Compiler(VOCAB).compile(SPECS[0])._arena
    monkeypatch.setattr(Arena, "_install", lambda *_: pytest.fail("it was copied"))
    for table in owned_tables.ROOM:
        before, nbytes = arena.tables[table], arena.nbytes
        before[:] = 7
        arena.reserve(table, len(before) + 1)
        after = arena.tables[table]
        assert after.ctypes.data == before.ctypes.data and len(after) > len(before)
        assert arena.nbytes - nbytes == after.nbytes - before.nbytes
        assert (after[: len(before)] == 7).all()


def test_memory_that_tables_grew_in_is_handed_on_as_large_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is counted for the next arena, too."""
    monkeypatch.setattr(pages, "_free", OrderedDict())
    monkeypatch.setattr(pages, "_kept", 0)
    compiler = cd.Compiler(VOCAB)
    arena = compiler.compile_ir(SPECS[0].to_ir(compiler.limits))._arena
    for table in owned_tables.ROOM:
        if table != layout.TOKEN_LISTS:  # with these it would be more than is taken over
            arena.reserve(table, 2 * len(arena.tables[table]))
        arena.tables[table][-1] = 7
    sizes, address = {table: len(arena.tables[table]) for table in owned_tables.ROOM}, arena._block.memory.ctypes.data
    del arena
    taken = compiler.compile_ir(SPECS[0].to_ir(compiler.limits))._arena
    assert taken._block.memory.ctypes.data == address
    assert {table: len(taken.tables[table]) for table in owned_tables.ROOM} == sizes
    assert taken.nbytes == bytes_of_tables(taken, compiler._base.arena) + owned_tables._OBJECT_BYTES + taken.header.nbytes
    small = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=8 << 20))
    del taken
    assert small.compile_ir(SPECS[0].to_ir(small.limits))._arena.nbytes < 1 << 20, "a small cache takes no large memory over"


def test_an_arena_that_was_replaced_goes_at_once() -> None:
    """A fork that stands still does not keep the arena of its last step: there would be two beside each other."""
    grammar = cd.Compiler(VOCAB).compile(SPECS[0])
    matcher = grammar.matcher()
    walk(matcher, 1, 5)
    idle, before = matcher.fork(), mask(matcher)
    old = weakref.ref(grammar._arena)
    grammar._arena.over_budget = True
    assert mask(matcher) == before and old() is None
    assert mask(idle) == before and idle.tokens == matcher.tokens


def test_near_its_bound_a_table_still_grows_by_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is asked for one item more each time is not copied each time, and stays within the bound."""
    monkeypatch.setattr(owned_tables, "_LEAST_OVERDRAFT", 0)
    arena = cd.Compiler(VOCAB).compile(SPECS[0])._arena
    arena.max_bytes = arena.nbytes + (3 << 20)
    replaced = 0

    def count(self: Arena, *arguments: object) -> object:
        nonlocal replaced
        replaced += 1
        return install(self, *arguments)  # type: ignore[arg-type]

    install = Arena._replace
    monkeypatch.setattr(Arena, "_replace", count)

    def fill() -> None:
        while True:
            arena._grow(layout.TRANSITIONS, len(arena.tables[layout.TRANSITIONS]) + 256)
            assert arena.nbytes <= arena.max_bytes + arena.max_bytes // 4

    with pytest.raises(cd.LimitExceeded, match="one step takes too much memory"):
        fill()
    assert arena.nbytes > 0.75 * arena.max_bytes and replaced < 20


def test_pages_are_rounded_to_few_sizes_and_little_is_wasted() -> None:
    sizes = set()
    for nbytes in range(1 << 17, 1 << 21, 4001):
        size = pages.rounded(nbytes)
        assert nbytes <= size <= 1.26 * nbytes and pages.rounded(size) == size
        sizes.add(size)
    assert len(sizes) <= 20
    assert all(pages.rounded(1 << k) == 1 << k for k in range(12, 40))


def test_a_budget_that_is_crossed_while_something_is_made_breaks_no_arena() -> None:
    """What a lexeme's text means and late rules are made to their end, with work that is lent. Endings that were looked for
    within a small budget, and given up, left a broken arena behind: the next mask of a batch raised.
    """
    vocab = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
    items = {"type": "string", "pattern": "^[a-z]{1,4}$"}
    spec = cd.JsonSchema({"type": "array", "items": items, "uniqueItems": True, "minItems": 3})
    text = b'["ab", "cd", "ef", "abc"'
    n_crossed = 0
    for granted in np.linspace(500, 60_000, cases(240, 12, 60), dtype=int).tolist():
        grammar = cd.Compiler(vocab).compile(spec)
        matcher, arena = grammar.matcher(), grammar._arena
        for byte in text:
            try:
                with arena.lock, arena.one_budget(granted):
                    matcher._follow(arena, matcher._cursors[-1], byte)
            except cd.LimitExceeded:
                n_crossed += 1
            assert not arena.header[layout.IS_BROKEN]
            assert matcher.accept_token(byte)
        assert grammar._arena is arena
    assert n_crossed > 10
