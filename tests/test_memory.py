"""The bytes that the process's caches hold are counted right and stay bounded, whatever requests ask for."""

from __future__ import annotations

import gc
import json
import random
import re
import string
import subprocess
import sys
import textwrap
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from engine_tools import cases, vocabulary

import cdplugin as cd
from cdplugin import expr, memory
from cdplugin.expr import alt, cat, literal, literals, repeat

VOCAB = vocabulary([b"ab", b'":', b'", "', b"12", b'{"', b'"}'])
PACKAGE = Path(cd.__file__).parent
SLACK = 1.2
"""How much more than counted may be there: of what is counted by estimates."""


def leaf(number: int) -> expr.Expr:
    return literals([b"%d-%d" % (number, i) for i in range(50)])


# --- the cache ------------------------------------------------------------------------------------------------------------


def test_what_was_not_asked_for_goes_first() -> None:
    cache: memory.ByteLru[str] = memory.ByteLru("test", 4_000, largest=4_000)
    for name in "abc":
        cache.put(name, name.upper(), 1_000)
    assert cache.get("a") == "A"
    cache.put("d", "D", 1_000)
    assert (cache.get("a"), cache.get("b", "gone"), cache.get("c"), cache.get("d")) == ("A", "gone", "C", "D")
    assert cache.nbytes <= cache.max_bytes and len(cache) == 3


def test_a_value_that_grows_displaces_others_and_then_itself() -> None:
    cache: memory.ByteLru[str] = memory.ByteLru("test", 4_000, largest=3_000)
    grown = memory.Account()
    cache.put("other", "O", 1_000)
    _, serial = cache.put("grown", "G", 100)
    grown.note("first", 100)
    grown.keep_in(cache, "grown", serial)
    grown.note("second", 2_500)
    assert cache.get("other") is None and cache.get("grown") == "G" and cache.nbytes >= grown.nbytes == 2_600
    grown.note("second", 3_500)
    assert len(cache) == cache.nbytes == 0
    cache.put("grown", "another", 100)
    grown.note("second", 3_600)  # it is not what the cache holds under this key now
    assert cache.get("grown") == "another" and cache.nbytes < 1_000


def test_a_value_too_large_is_given_but_not_kept() -> None:
    cache: memory.ByteLru[str] = memory.ByteLru("test", 4_000)
    cache.put("small", "S", 10)
    assert cache.put("large", "L", 3_000) == ("L", 0)
    assert cache.values() == ["S"]


def test_the_first_of_two_values_stays() -> None:
    cache: memory.ByteLru[list[int]] = memory.ByteLru("test", 10_000)
    first, serial = cache.put("key", [1], 10)
    assert cache.put("key", [1], 10) == (first, serial) and cache.put("key", [1], 10)[0] is first


def test_parts_of_trees_are_counted_once_as_long_as_anybody_has_them() -> None:
    cache: memory.ByteLru[expr.Expr] = memory.ByteLru("test", 1 << 20)
    rng = random.Random(1)
    pool = [leaf(i) for i in range(20)]
    trees: dict[int, expr.Expr] = {}
    for step in range(400):
        if rng.random() < 0.6 or not trees:
            tree = rng.choice([cat, alt])(*rng.sample(pool, 3))
            pool.append(tree if rng.random() < 0.3 else repeat(tree, 2))
            trees[step] = pool[-1]
            cache.put(step, pool[-1], 0, [pool[-1]])
        else:
            gone = rng.choice(list(trees))
            del trees[gone]
            with cache._lock:
                cache._remove(gone)
        assert cache.nbytes == expr.nbytes_of(trees.values()) + memory._ENTRY_BYTES * len(trees)
    cache.clear()
    assert cache.nbytes == 0 and all(node.holders == 0 for node in pool)


@pytest.mark.parametrize(
    "build",
    [
        lambda i: leaf(i),
        lambda i: cat(*[literal(b"%d" % (1000 * i + k)) for k in range(40)]),
        lambda i: alt(*[repeat(expr.byte_mask((i + 1) << k | 1 << 200), k, k + 3) for k in range(40)]),
    ],
)
def test_bytes_of_trees_are_those_that_python_takes(build: Callable[[int], expr.Expr]) -> None:
    n = cases(300, 50)
    build(-1)
    gc.collect()
    tracemalloc.start()
    trees = [build(i) for i in range(n)]
    gc.collect()
    real = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    counted = expr.nbytes_of(trees)
    assert real / SLACK <= counted <= 2 * real


# --- keys -----------------------------------------------------------------------------------------------------------------


def test_keys_of_large_specs_are_small_and_differ() -> None:
    large = "x" * 100_000
    keys = [
        cd.Regex(large).key(),
        cd.Regex(large + "y").key(),
        cd.Regex(large, "python").key(),
        cd.Gbnf(large).key(),
        cd.Choice([large, large + "y"]).key(),
        cd.Choice([large + large, "y"]).key(),
        cd.Choice([str(i) for i in range(1000)]).key(),
        cd.Choice([str(i) for i in range(1001)]).key(),
        cd.Choice(["1,2", *map(str, range(999))]).key(),
        cd.JsonSchema({"enum": [large]}).key(),
        ("a", b"a" * 100),
        ("a", "a" * 100),
        tuple(range(100)),
        tuple(map(str, range(100))),
        (1, *[True] * 99),
        (True, *[True] * 99),
    ]
    short = [memory.short_key(key) for key in keys]
    assert len(set(short)) == len(keys)
    assert short == [memory.short_key(key) for key in keys]
    assert all(memory.size_of(key) < 3_000 for key in short)
    assert memory.short_key("x" * 10) == "x" * 10 and memory.short_key("é" * 100) != memory.short_key("e" * 100)


# --- every cache is one of these ------------------------------------------------------------------------------------------


def test_no_cache_counts_entries_of_any_size() -> None:
    """``lru_cache`` is used only for constants (``maxsize=1``, no arguments). Other caches are counted, or of fixed size."""
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        if path.name == "memory.py":
            continue
        assert not re.search(r"functools\.cache\b|import cache\b", text), path
        for size, arguments in re.findall(r"lru_cache\(([^)]*)\)\s*def \w+\(([^)]*)\)", text):
            assert (size, arguments) == ("maxsize=1", ""), path
        assert text.count("lru_cache(") == text.count("@lru_cache(maxsize=1)\n"), path
        assert "@lru_cache\n" not in text, path


def test_the_account_names_every_cache_and_its_budget() -> None:
    compiler = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=1 << 20))
    before, most = (of.get("compiled grammars", 0) for of in (memory.account(), memory.budgets()))
    grammar = compiler.compile(cd.Regex("[a-f]+"))
    assert memory.account()["compiled grammars"] - before >= grammar.nbytes
    assert set(memory.account()) == set(memory.budgets())
    assert {"compiled grammars", "shared by compilations", "of fixed size", "pages for tables"} <= set(memory.account())
    del compiler
    gc.collect()
    assert memory.budgets().get("compiled grammars", 0) == most - (1 << 20)


# --- grammars -------------------------------------------------------------------------------------------------------------


def walk(grammar: cd.Grammar, text: bytes) -> None:
    matcher = grammar.matcher()
    for byte in text:
        if not matcher.accept_token(byte):
            break


def test_a_grammar_that_grows_makes_room_at_once() -> None:
    """No later compilation and no hit has to come for the cache to notice."""
    compiler = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=4 << 20))
    grammars = [compiler.compile(cd.Regex(f"(a|b)*a(a|b){{7}}c{{{i + 1}}}")) for i in range(10)]
    assert len(compiler._cache) == 10
    rng = random.Random(0)
    for grammar in grammars:
        walk(grammar, bytes(rng.choices(b"ab", k=cases(600, 120, 600))))
        kept = compiler._cache.values()
        assert sum(g._arena.nbytes + g._tables.nbytes for g in kept) <= compiler._cache.nbytes <= 4 << 20
    assert len(compiler._cache) < 10 or cases(1, 0) == 0


def test_a_grammar_in_use_is_shared_though_it_was_let_go() -> None:
    compiler = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=1 << 20))
    grammar = compiler.compile(cd.Regex("[a-f]+x"))
    for i in range(20):
        compiler.compile(cd.Regex(f"[a-f]+{i}"))
    compiler._cache.clear()
    assert compiler.compile(cd.Regex("[a-f]+x")) is grammar
    del grammar
    compiler._cache.clear()
    assert not list(compiler._in_use)


UNSATISFIABLE = cd.JsonSchema({"type": "array", "minItems": 2, "maxItems": 1})


@pytest.mark.parametrize("spec", [cd.JsonObject(), cd.Regex("a&("), UNSATISFIABLE])
def test_a_compilation_that_fails_keeps_nothing(spec: cd.Spec) -> None:
    compiler = cd.Compiler(VOCAB, cd.Limits(max_lexemes=3))
    with pytest.raises(cd.GrammarError):
        compiler.compile(spec)
    assert len(compiler._cache) == compiler._cache.nbytes == len(compiler._in_use) == 0


def test_templates_go_with_their_compilers() -> None:
    from cdplugin.engine import base_arena as template

    before = set(template._base_arenas)
    compiler = cd.Compiler(VOCAB, cd.Limits(max_pairs=77))
    compiler.compile(cd.Regex("a"))
    assert len(set(template._base_arenas) - before) == 1
    del compiler
    gc.collect()
    assert set(template._base_arenas) <= before


def any_order(n: int) -> cd.JsonSchema:
    names = [letter * 3 for letter in string.ascii_letters[:n]]
    properties = {name: {"type": "integer"} for name in names}
    return cd.JsonSchema({"type": "object", "properties": properties, "additionalProperties": False}, property_order="any")


@pytest.mark.parametrize(
    "spec", [any_order(24), cd.JsonSchema({"type": "array", "items": {"type": "string"}, "uniqueItems": True})]
)
def test_what_a_text_leads_to_is_counted_and_replaced_with_the_arena(spec: cd.JsonSchema) -> None:
    """Members of families are the arena's: counted with it, and let go with it."""
    grammar = cd.Compiler(VOCAB, cd.Limits(max_arena_bytes=8 << 20)).compile(spec)
    names = [letter * 3 for letter in string.ascii_letters[:24]]
    rng = random.Random(2)

    def text() -> bytes:
        if spec.options.property_order == "schema":
            return json.dumps(["".join(rng.choices("abc", k=8)) for _ in range(30)], separators=(",", ":")).encode()
        return json.dumps(dict.fromkeys(rng.sample(names, 24), 1), separators=(",", ":")).encode()

    def read() -> None:
        matcher = grammar.matcher()
        one = text()
        followed = matcher.accept_tokens(one)
        assert followed == len(one) or len(set(json.loads(one))) < 30

    read()
    gc.collect()
    tracemalloc.start()
    counted, arena = grammar.nbytes, grammar._arena
    replaced = 0
    for _ in range(cases(400, 10, 30)):
        read()
        replaced += arena is not grammar._arena
        arena = grammar._arena
    gc.collect()
    real = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(grammar._tables.rules.ir.instances) <= 2
    tables = sum(page.nbytes for page in arena._pages.values())  # not malloc's
    if replaced:
        assert grammar.nbytes < (16 << 20) + counted
        counted = 0
    assert real + tables <= SLACK * (grammar.nbytes - counted) + (1 << 20)


# --- a process ------------------------------------------------------------------------------------------------------------

HEAD = """
import gc, random, resource
import cdplugin as cd
from cdplugin import memory
from engine_tools import vocabulary
VOCAB = vocabulary([b"ab", b'":', b"12"])
def resident():
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()
def check(before):
    account, budgets = memory.account(), memory.budgets()
    over = {name: (account[name], most) for name, most in budgets.items() if account[name] > most}
    assert not over, over
    grown = resident() - before
    assert grown <= 1.2 * sum(account.values()) + (8 << 20), (grown, account)
    print(grown >> 20, account)
"""
PROGRAMS = {
    "multiples": """
for i in range(N + 2):
    if i == 2:
        before = resident()
    compiler = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=16 << 20))
    compiler.compile(cd.JsonSchema({"type": "integer", "multipleOf": 251, "minimum": 17 + i, "maximum": 10**12 + i}))
check(before)
""",
    "regexes": """
compiler = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=64 << 20, max_arena_bytes=16 << 20))
rng = random.Random(0)
for i in range(N + 1):
    if i == 1:
        before = resident()
    try:
        matcher = compiler.compile(cd.Regex(f"(a|b)*a(a|b){{{9 + i % 5}}}c{{{i + 1}}}|[{chr(97 + i % 20)}-z]+x{i}")).matcher()
        for byte in rng.choices(b"ab", k=1200):
            matcher.accept_token(byte)
    except cd.LimitExceeded:
        pass
    matcher = None
check(before)
""",
    "schemas": """
compiler = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=32 << 20))
for i in range(N + 20):
    if i == 20:
        before = resident()
    schema = {"type": "object", "properties": {
        f"name{i}": {"type": "string", "pattern": f"^[a-{chr(98 + i % 20)}é{chr(0x400 + i)}]{{{i % 9}}}$"},
        f"age{i}": {"type": "number", "minimum": i / 7, "maximum": 3 * i},
        f"tags{i}": {"enum": [f"{i}-{k}" for k in range(20)]}}, "required": [f"name{i}"]}
    compiler.compile(cd.JsonSchema(schema)).matcher().accept_tokens(b'{"name')
check(before)
""",
    "any order": """
names = [letter * 3 for letter in "abcdefghijklmnopqrstuvwx"]
properties = {name: {"type": "integer"} for name in names}
schema = {"type": "object", "properties": properties, "additionalProperties": False}
compiler = cd.Compiler(VOCAB, cd.Limits(max_cache_bytes=64 << 20, max_arena_bytes=24 << 20))
grammar = compiler.compile(cd.JsonSchema(schema, property_order="any"))
rng = random.Random(0)
before = resident()
for i in range(N):
    text = "{" + ",".join(f'"{name}":1' for name in rng.sample(names, 24)) + "}"
    assert grammar.matcher().accept_tokens(text.encode()) == len(text)
assert grammar.nbytes <= 48 << 20, grammar.nbytes
check(before)
""",
    "refused texts": """
from cdplugin.adapters.serving.requests import ServerOptions
from cdplugin.adapters.vllm.grammar import Engine
engine = Engine(VOCAB, ServerOptions())
before = None
for i in range(N + 3):
    if i == 3:
        before = resident()
    text = ("%d" % i).ljust(1 << 20, "x") + "("
    for kind in ("REGEX", "JSON"):
        try:
            engine.check(kind, text)
        except cd.GrammarError:
            continue
        raise AssertionError
check(before)
""",
}
NUMBERS = {
    "multiples": (40, 8),
    "regexes": (60, 4),
    "schemas": (2_000, 60),
    "any order": (1_500, 20),
    "refused texts": (200, 10),
}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from Linux's /proc")
@pytest.mark.parametrize("name", PROGRAMS)
def test_resident_memory_is_what_the_account_says(name: str) -> None:
    program = f"N = {cases(*NUMBERS[name])}\n" + textwrap.dedent(HEAD) + PROGRAMS[name]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


def test_tables_of_an_arena_that_crossed_its_budget_are_free_at_once() -> None:
    """The error that crossed it was kept with its traceback, whose frames hold the arena: 338 MB where 122 are enough."""
    from cdplugin.engine.arena import Arena

    member = {"a": {"enum": [1, 2, 3]}, "b": {"enum": ["x", "y"]}}
    items = {"type": "object", "properties": member, "additionalProperties": False, "required": ["a"]}
    spec = cd.JsonSchema({"type": "array", "uniqueItems": True, "items": items, "minItems": 9})
    grammar = cd.Compiler(VOCAB, cd.Limits(max_arena_bytes=6 << 20)).compile(spec)

    def arenas() -> int:  # of this grammar: a thread that an earlier test left may make others
        return sum(type(thing) is Arena and thing.max_bytes == 6 << 20 for thing in gc.get_objects())

    gc.collect()
    before = arenas()
    gc.disable()
    try:
        for _ in range(3):
            with pytest.raises(cd.LimitExceeded):
                grammar.matcher().shortest_completion()
            assert arenas() <= before
    finally:
        gc.enable()


@pytest.mark.parametrize("more", [1, 8, 10_000])
def test_a_matcher_that_was_asked_everything_is_gone_at_once(more: int) -> None:
    """Without the garbage collector: its arena may hold a hundred megabytes, and the next one is filled beside it."""
    from cdplugin.queries.budgets import Budgets

    def of_test() -> int:
        return sum(type(thing) is Budgets for thing in gc.get_objects())

    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["b"]}
    matcher = cd.Compiler(VOCAB).compile(cd.JsonSchema(schema)).matcher()
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    gc.collect()
    gc.disable()
    before = of_test()
    try:
        for byte in b'{"a": "x':
            assert matcher.accept_token(byte)
        matcher.fill_next_token_bitmask(row, budget=len(matcher.shortest_completion()) + more)
        matcher.forced_tokens(canonical=True)
        matcher.explain(0)
        matcher.partial()
        probe = matcher.fork()
        probe.rollback(1)
        probe.trace(matcher.tokens[-1:], limit=1).text()
        assert of_test() > before
        del matcher, probe
        assert of_test() == before
    finally:
        gc.enable()
