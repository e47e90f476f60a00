"""Rules, cleaned and laid out, beside sets that grow until nothing changes."""

from __future__ import annotations

import random

import pytest
from engine_tools import cases
from grammar_tools import grown, random_rules

from cdplugin import expr
from cdplugin.compiler import _build
from cdplugin.engine.base_arena import base_arena_of
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


@pytest.mark.parametrize("seed", range(cases(12, 4)))
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
