"""Rules, cleaned and laid out, beside sets that grow until nothing changes."""

from __future__ import annotations

import random
from typing import Any

import pytest
from engine_tools import seeds
from grammar_tools import grown, random_rules

import cdplugin as cd
from cdplugin import compiler, expr
from cdplugin.compiler import _build
from cdplugin.engine.base_arena import base_arena_of
from cdplugin.engine.rules import prepare_rules
from cdplugin.errors import GrammarError
from cdplugin.ir import GrammarIR
from cdplugin.kernels.store import layout
from cdplugin.limits import Limits
from cdplugin.warmup import byte_vocabulary

VOCAB = byte_vocabulary()


def dots_of(arrays: dict[int, list[int]], heads: int, lists: int) -> list[list[int]]:
    """The lists of dots, one per nonterminal."""
    out = []
    for entry in arrays[heads]:
        found = []
        while entry >= 0:
            found.append(arrays[lists][2 * entry])
            entry = arrays[lists][2 * entry + 1]
        out.append(sorted(found))
    return out


@pytest.mark.parametrize("seed", seeds(12, 4))
def test_rules_are_cleaned_and_laid_out(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        rules, n, n_lexemes = random_rules(rng)
        ir = GrammarIR()
        for number in range(n_lexemes):  # some match nothing
            barren = rng.random() < 0.2
            ir.lexeme(
                expr.both(expr.literal(b"x"), expr.literal(b"y")) if barren else expr.literal(bytes([97 + number])),
                f"l{number}",
            )
        alive = {~t for t in range(n_lexemes) if ir.lexemes[t].op == expr.LITERALS_OP}
        for number in range(n):
            ir.nonterminal(f"n{number}")
        for left, right in rules:
            ir.rule(left, right)
        ir.start = 0
        template = base_arena_of(VOCAB, Limits(), ())
        productive = grown(rules, alive)
        if 0 not in productive:
            with pytest.raises(GrammarError, match="matches nothing"):
                _build(ir, template, template.arena.clone(), Limits())
            continue
        found = _build(ir, template, template.arena.clone(), Limits()).rules
        good = [rule for rule in dict.fromkeys(rules) if all(symbol in productive or symbol in alive for symbol in rule[1])]
        reached = {0}
        while more := {s for left, right in good if left in reached for s in right} - reached:
            reached |= more
        good = [rule for rule in good if rule[0] in reached]
        arrays = {table: found.block.table(table).tolist() for table in found.block.spans}
        symbols = arrays[layout.DOT_SYMBOL]
        names = found.names
        lexemes = sorted((s for s in reached if s < 0), reverse=True)
        assert found.n_lexemes == len(lexemes)
        assert sorted(names[1:]) == sorted(f"n{s}" for s in reached if s >= 0)

        def show(symbol: int, names: list[str] = names, lexemes: list[int] = lexemes) -> str:
            if symbol >= 0:
                return names[symbol]
            return f"l{~lexemes[-2 - symbol]}" if -2 - symbol < len(lexemes) else "END"

        laid = []
        firsts = dots_of(arrays, layout.RULE_HEADS, layout.RULE_LISTS)
        for left, dots in enumerate(firsts):
            for dot in dots:
                end = symbols.index(-1, dot)
                laid.append((names[left], tuple(show(s) for s in symbols[dot:end])))
                assert set(arrays[layout.DOT_LEFT][dot : end + 1]) == {left}
        named = [(f"n{left}", tuple(f"n{s}" if s >= 0 else f"l{~s}" for s in right)) for left, right in good]
        assert sorted(laid) == sorted([*named, ("", ("n0", "END"))])
        nullable = grown(good, set())
        assert [names[i] for i, is_null in enumerate(arrays[layout.NULLABLE]) if is_null] == [
            name for name in names if name and int(name[1:]) in nullable
        ]
        is_null = [bool(flag) for flag in arrays[layout.NULLABLE]]
        corners: list[list[int]] = [[] for _ in names]
        for dot, rest in enumerate(arrays[layout.DOT_NULL_REST]):
            end = symbols.index(-1, dot)
            assert rest == all(s >= 0 and is_null[s] for s in symbols[dot:end])
            begin = dot
            while begin and symbols[begin - 1] != -1:
                begin -= 1
            if symbols[dot] >= 0 and all(s >= 0 and is_null[s] for s in symbols[begin:dot]):
                corners[symbols[dot]].append(dot)
        assert dots_of(arrays, layout.CORNER_HEADS, layout.CORNER_LISTS) == corners


LARK = """
start: item ("," item)*
item: WORD | NUMBER | "(" start ")"
WORD: /[a-z]+/
NUMBER: /[0-9]+/
%ignore / +/
"""
SPECS = [
    cd.JsonSchema({"type": "object", "properties": {"a": {"type": "integer"}, "bc": {"enum": ["x", "y"]}}, "required": ["bc"]}),
    cd.JsonSchema(
        {"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string", "pattern": "^a", "not": {"const": "ab"}}]}}
    ),
    cd.JsonSchema({"patternProperties": {"^a": {"type": "null"}, "^b": False}}),
    cd.JsonSchema({"properties": {"a": {"type": "string", "pattern": "^ab*c$", "not": {"pattern": "b?c$"}}}}),
    cd.JsonObject(whitespace="compact"),
    cd.Lark(LARK),
    cd.Lark('start: "a" lazy "b"\nlazy[lazy]: /x*y/'),
    cd.Regex("[ab]{2,5}c"),
]


@pytest.mark.parametrize("spec", SPECS)
def test_rules_are_the_same_in_one_call_and_pass_by_pass(spec: cd.Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    template = base_arena_of(VOCAB, Limits(), (), tuple(cd.JsonObject.characters()))
    calls = []

    def prepare(*arguments: Any) -> Any:
        calls.append(prepare_rules(*arguments))
        return calls[-1]

    def built() -> list[Any]:
        tables = _build(spec.rules(Limits()), template, template.arena.clone(), Limits())
        rules, table = tables.rules, tables.lexemes
        arrays = (rules.block.memory, rules.numbers, table.records, table.ranges, tables.program)
        rest = (rules.names, rules.places, table.names, table.places, table.has_clocks, table.all_exact, tables.searched)
        return [*(array.tolist() for array in arrays), *rest, rules.n_nonterminals, rules.n_lexemes]

    monkeypatch.setattr(compiler, "prepare_rules", prepare)
    together = built()
    assert [found is not None for found in calls] == [True]
    monkeypatch.setattr(compiler, "prepare_rules", lambda *arguments: None)
    assert built() == together


def test_a_large_question_leaves_the_stack_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack that had held the rules of 2,000 objects stayed in the grammar's arena: 13 MB where 6 are enough."""
    template = base_arena_of(VOCAB, Limits(), (), tuple(cd.JsonObject.characters()))
    names = [f"name{i}" for i in range(400)]
    ir = cd.JsonSchema({"properties": {name: {"type": "object", "properties": {"a": {"type": "null"}}} for name in names}})
    together, apart = template.arena.clone(), template.arena.clone()
    _build(ir.rules(Limits()), template, together, Limits())
    monkeypatch.setattr(compiler, "prepare_rules", lambda *arguments: None)
    _build(ir.rules(Limits()), template, apart, Limits())
    # not all bytes: a clone may begin with the larger tables of an earlier arena in the same memory
    assert layout.STACK not in together._pages
    assert len(together.tables[layout.STACK]) == len(apart.tables[layout.STACK])


def test_who_has_no_room_for_the_question_asks_pass_by_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    template = base_arena_of(VOCAB, Limits(), (), tuple(cd.JsonObject.characters()))
    spec = cd.JsonSchema({"properties": {f"name{i}": {"type": "null"} for i in range(400)}})
    arena = template.arena.clone()
    reserve = type(arena).reserve

    def refuse(self: Any, table: int, size: int) -> None:
        if table == layout.STACK:
            self.over_budget = True
            raise cd.LimitExceeded("one step takes too much memory")
        reserve(self, table, size)

    monkeypatch.setattr(type(arena), "reserve", refuse)
    found = _build(spec.rules(Limits()), template, arena, Limits())
    monkeypatch.undo()
    assert not arena.over_budget
    expected = _build(spec.rules(Limits()), template, template.arena.clone(), Limits())
    assert found.rules.block.memory.tolist() == expected.rules.block.memory.tolist()
