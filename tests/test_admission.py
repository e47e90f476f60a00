"""What is admitted compiles, and what only the engine can tell is left to it."""

from __future__ import annotations

from typing import Any

import pytest
from word_choice import VOCAB

import cdplugin as cd
from cdplugin import expr
from cdplugin.admission import is_admitted
from cdplugin.grammar import GrammarIR

BYTES = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
ADMITTED: dict[str, Any] = {
    "anything": True,
    "any property": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "some strings": {"enum": ["a", "b", 1, None]},
    "a pattern": {"type": "string", "pattern": "^[a-z]+$"},
    "a list": {"type": "array", "items": {"type": "number"}, "minItems": 2},
}
LEFT: dict[str, Any] = {
    "a format and a length": {"type": "string", "pattern": "^a+b+$", "maxLength": 2000, "format": "hostname"},
    "without a pattern": {"type": "object", "patternProperties": {"^a+$": {"type": "null"}}},
}


@pytest.mark.parametrize("name", ADMITTED)
def test_what_is_common_is_admitted_and_compiles(name: str) -> None:
    ir = cd.JsonSchema(ADMITTED[name]).to_ir(cd.Limits())
    assert is_admitted(ir, cd.Limits())
    matcher = cd.Compiler(BYTES).compile_ir(ir).matcher()
    assert matcher.shortest_completion()


@pytest.mark.parametrize("name", LEFT)
def test_what_only_the_engine_can_tell_is_left_to_it(name: str) -> None:
    assert not is_admitted(cd.JsonSchema(LEFT[name]).to_ir(cd.Limits()), cd.Limits())


def lexeme(e: expr.Expr) -> GrammarIR:
    ir = GrammarIR()
    ir.start = ir.nonterminal()
    ir.rule(ir.start, (ir.lexeme(e, "it"),))
    return ir


def test_single_lexemes() -> None:
    """An endless set without a finite one surely has members; of others that is not known by their look."""
    word = expr.repeat(expr.byte_class(b"abc"), 0)
    few, many = expr.literals([b"a", b"bc"]), expr.repeat(expr.byte_class(b"a"), 1)
    bounded = expr.repeat(expr.byte_class(b"abc"), 0, 2)
    for e, admitted in {
        word: True,
        expr.both(word, expr.complement(few)): True,
        expr.cat(expr.literal(b"x"), expr.both(word, expr.complement(bounded))): True,
        expr.both(word, expr.complement(many)): False,
        expr.both(bounded, expr.complement(few)): False,
        expr.both(word, expr.cat(many, many)): False,
        expr.complement(few): False,
        expr.EMPTY: False,
        expr.both(expr.repeat(expr.both(few, bounded), 0), expr.complement(few)): False,
    }.items():
        ir = lexeme(e)
        assert is_admitted(ir, cd.Limits()) is admitted, e
        if admitted:
            assert cd.Compiler(VOCAB).compile_ir(ir).matcher().shortest_completion() is not None


def test_budgets_and_shared_parts() -> None:
    node = expr.repeat(expr.byte_class(b"ab"), 1, 3)
    for _ in range(200):  # a tree with 2**200 leaves, of which 200 are different
        node = expr.cat(node, expr.literal(b"x"), node)
    ir = lexeme(node)
    assert is_admitted(ir, cd.Limits())
    ir.rule(ir.start, [ir.lexeme(expr.literal(b"y"))])
    assert not is_admitted(ir, cd.Limits(max_lexemes=1)) and not is_admitted(ir, cd.Limits(max_rules=1))
