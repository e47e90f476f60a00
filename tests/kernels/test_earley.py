"""The parser's rows beside the words of a grammar, which are grown until nothing changes."""

from __future__ import annotations

import random
from itertools import product

import pytest
from engine_tools import cases, seeds
from grammar_tools import Rules, grown, random_rules

import cdplugin as cd
from cdplugin import expr
from cdplugin.ir import GrammarIR
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.store import layout
from cdplugin.warmup import byte_vocabulary

COMPILER = cd.Compiler(byte_vocabulary())
LONGEST = 5


def words_of(rules: Rules) -> dict[int, set[bytes]]:
    """By nonterminal, its words of at most ``LONGEST`` bytes; lexeme ``~t`` is the byte ``a`` + t."""
    words: dict[int, set[bytes]] = {left: set() for left, right in rules for left in (left, *(s for s in right if s >= 0))}
    while True:
        before = sum(map(len, words.values()))
        for left, right in rules:
            parts = [words[s] if s >= 0 else {bytes([97 + ~s])} for s in right]
            texts = {b""}
            for part in parts:
                texts = {a + b for a in texts for b in part if len(a) + len(b) <= LONGEST}
            words[left] |= texts
        if sum(map(len, words.values())) == before:
            return words


def crowded(rules: Rules, n: int, n_lexemes: int, rng: random.Random) -> Rules:
    """The rules, with 40 more that may begin with nonterminals of theirs, behind another lexeme of a new start (the last)."""
    behind, start = n + 40, n + 41
    more: Rules = [(start, (0,)), (start, (~n_lexemes, behind))]
    for some in range(n, behind):
        shared = rng.randrange(min(n, 2))
        more += [(behind, (some,)), (some, (shared, ~rng.randrange(n_lexemes))), (some, (shared,))]
    return rules + more


@pytest.mark.parametrize("is_crowded", [False, True])
@pytest.mark.parametrize("seed", seeds(8, 2))
def test_words_and_prefixes(seed: int, is_crowded: bool) -> None:
    """Where a nonterminal may stand first in more rules than are predicted at a place, completing it asks the latter."""
    rng = random.Random(seed)
    compared = 0
    for _ in range(cases(20, 5)):
        rules, n, n_lexemes = random_rules(rng)
        if 0 not in grown(rules, {~t for t in range(n_lexemes)}):
            continue
        if is_crowded:
            rules, n, n_lexemes = crowded(rules, n, n_lexemes, rng), n + 42, n_lexemes + 1
        ir = GrammarIR()
        for t in range(n_lexemes):
            ir.lexeme(expr.literal(bytes([97 + t])), f"l{t}")
        for number in range(n):
            ir.nonterminal(f"n{number}")
        for left, right in rules:
            ir.rule(left, right)
        ir.start = n - 1 if is_crowded else 0
        words = words_of(rules)[ir.start]
        prefixes = {word[:end] for word in words for end in range(len(word) + 1)}
        arena = COMPILER.compile_ir(ir)._current()
        cursors = {b"": arena.start}
        for length in range(LONGEST + 1):
            for letters in product(range(97, 97 + n_lexemes), repeat=length):
                text = bytes(letters)
                if text and text[:-1] in cursors:
                    after = arena.call(kernels.OP_STEP, cursors[text[:-1]], text[-1])
                    if after:
                        cursors[text] = after
                accepted = text in cursors and bool(arena.call(kernels.OP_ACCEPTS, cursors[text]))
                assert accepted == (text in words), (rules, text)
                assert text in cursors or text not in prefixes, (rules, text)
                compared += 1
    assert compared > 20


def test_a_row_is_a_value() -> None:
    """``S: "a" S | "a"`` has one row for any number of letters, and each row's items are sorted and stored once."""
    ir = GrammarIR()
    a = ir.lexeme(expr.literal(b"a"), "a")
    ir.start = ir.nonterminal("s")
    ir.rule(ir.start, [a, ir.start])
    ir.rule(ir.start, [a])
    arena = COMPILER.compile_ir(ir)._current()
    cursor, seen = arena.start, set()
    for _ in range(50):
        cursor = arena.call(kernels.OP_STEP, cursor, ord("a"))
        seen.add(cursor)
    assert len(seen) == 1
    words = parser_layout.ROW_WORDS
    rows = arena.tables[layout.ROWS][words : words * int(arena.header[layout.N_ROWS])].reshape(-1, words)
    items = [arena.sequence(int(row[parser_layout.R_ITEMS])) for row in rows]
    assert all(row == sorted(set(row)) for row in items) and len({tuple(row) for row in items}) == len(items)


def test_what_large_grammars_share_is_completed_where_it_stands() -> None:
    """Whitespace may begin each of 600 objects' rules; in one object it is completed for its own, not for all of them."""
    one = {"type": "object", "properties": {"on": {"type": "boolean"}, "level": {"type": "integer"}}}
    work = []
    for count in (20, 600):
        objects = {f"rule{i}": {**one, "properties": {**one["properties"], f"own{i}": {"type": "null"}}} for i in range(count)}
        grammar = COMPILER.compile(cd.JsonSchema({"type": "object", "properties": objects}))
        matcher = grammar.matcher()
        before = 0
        for byte in b'{"rule1": {"on": true, "level": 1}, "rule2": ':
            before = grammar.counters()["work"]
            assert matcher.accept_token(byte)
        matcher.accept_token(ord("{"))
        before = grammar.counters()["work"]
        assert matcher.accept_tokens(b' "on": ') == 7
        work.append(grammar.counters()["work"] - before)
    assert work[1] < 2 * work[0], work
