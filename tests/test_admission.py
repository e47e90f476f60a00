"""The door: what it admits compiles and takes its first steps; what it refuses gets the error that they would raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_tools import mask, vocabulary

import cdplugin as cd
from cdplugin import expr
from cdplugin.admission import admit, doubtful_parts
from cdplugin.ir import GrammarIR
from cdplugin.tally import current

VOCAB = vocabulary([b"ab" * 8, b"a" * 16, b'{"', b'":', b'"'])


def doubtful(schema: Any) -> int:
    return len(doubtful_parts(cd.JsonSchema(schema).to_ir(cd.Limits())))


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"enum": ["a", "b", 1, None]},
        {"type": "string", "pattern": "^[a-z]+$"},
        {"type": "array", "items": {"type": "number"}, "minItems": 2},
    ],
    ids=json.dumps,
)
def test_what_is_common_costs_no_second_look(schema: Any) -> None:
    assert doubtful(schema) == 0
    admit(cd.Compiler(VOCAB), cd.JsonSchema(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "allOf": [{"pattern": "[a-z]"}, {"pattern": "[0-9]"}]},
        {"type": "string", "not": {"pattern": "a"}},
        {"type": "object", "patternProperties": {"^a+$": {"type": "null"}}},
    ],
    ids=json.dumps,
)
def test_what_is_looked_at_twice(schema: Any) -> None:
    assert doubtful({"type": "object", "properties": {"deep": {"type": "array", "items": schema}}}) == doubtful(schema) > 0


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "multipleOf": 97, "minimum": 951319809, "maximum": 951319809000},
        {"type": "number", "minimum": 123456.7, "maximum": 987654.3},
        {"type": "object", "properties": {"name": {"type": "string"}, "names": {"type": "string"}}},
    ],
    ids=json.dumps,
)
def test_no_tree_is_built_of_what_has_none(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of thousands of nodes, once built, stays with its automaton, and caches do not count it: servers grew by it."""

    def refuse(node: expr.Expr, name: str) -> Any:
        raise AssertionError(f"{name} of {node!r}")

    for kind in (expr.Automaton, expr.Names):
        monkeypatch.setattr(kind, "__getattr__", refuse)
    admit(cd.Compiler(VOCAB), cd.JsonSchema(schema))


def lexeme(e: expr.Expr) -> GrammarIR:
    ir = GrammarIR()
    ir.start = ir.nonterminal()
    ir.rule(ir.start, (ir.lexeme(e, "it"),))
    return ir


def test_single_lexemes() -> None:
    """An endless set without a finite one is plain; the part that is not is what is found."""
    word = expr.repeat(expr.byte_class(b"abc"), 0)
    few, many = expr.literals([b"a", b"bc"]), expr.repeat(expr.byte_class(b"a"), 1)
    bounded = expr.repeat(expr.byte_class(b"abc"), 0, 2)
    hard, none = expr.both(word, expr.complement(many)), expr.complement(few)
    for e, parts in {
        word: [],
        expr.both(word, expr.complement(few)): [],
        expr.cat(expr.literal(b"x"), expr.both(word, expr.complement(bounded))): [],
        hard: [hard],
        expr.cat(expr.literal(b"x"), hard, expr.literal(b"y")): [hard],
        expr.repeat(expr.alt(few, hard), 1, 7): [hard],
        expr.alt(none, hard): [none, hard],
        expr.both(expr.repeat(expr.cat(few, hard), 0), expr.complement(few)): [hard],
    }.items():
        assert sorted(map(id, doubtful_parts(lexeme(e)))) == sorted(map(id, parts)), e


def test_parts_in_common_are_looked_at_once() -> None:
    node = expr.both(expr.repeat(expr.byte_class(b"ab"), 1, 3), expr.literals([b"a"]))
    for _ in range(200):  # a tree with 2**200 leaves, of which 200 are different
        node = expr.cat(node, expr.literal(b"x"), node)
    assert len(doubtful_parts(lexeme(node))) == 1
    ir = lexeme(node)
    for n in range(100):
        ir.rule(ir.start, (ir.lexeme(expr.both(expr.literals([b"a"]), expr.repeat(expr.byte_class(b"a"), n)), ""),))
    assert len(doubtful_parts(ir)) == 8


def masks_along(matcher: cd.Matcher, tokens: list[bytes]) -> None:
    for token in tokens:
        assert matcher.accept_token(VOCAB.tokens.index(token))
        mask(matcher)


GROWING = [{"pattern": "^(a|b)*a(a|b){40}$"}, {"pattern": "b"}]  # an alternative for each a that stands apart


@pytest.mark.parametrize("width", [4, 8])
def test_what_the_first_steps_cannot_do_is_refused_wherever_it_stands(width: int) -> None:
    """The string is three tokens away, and need not be written at all."""
    schema = {"type": "object", "properties": {"p": {"type": "string", "allOf": GROWING}}}
    compiler = cd.Compiler(VOCAB, cd.Limits(max_expr_width=width))
    matcher = compiler.compile(cd.JsonSchema(schema)).matcher()
    assert mask(matcher)
    with pytest.raises(cd.LimitExceeded, match=f"max_expr_width = {width}"):
        admit(compiler, cd.JsonSchema(schema))
    with pytest.raises(cd.LimitExceeded, match=f"max_expr_width = {width}"):  # it would have been given up there
        masks_along(matcher, [b'{"', b"p", b'":', b'"', b"ab" * 8])


def test_what_the_first_steps_can_do_is_admitted() -> None:
    schema = {"type": "object", "properties": {"p": {"type": "string", "allOf": GROWING}}}
    admit(cd.Compiler(VOCAB, cd.Limits(max_expr_width=64)), cd.JsonSchema(schema))


def test_the_first_steps_together_take_the_work_of_two_at_most() -> None:
    """Each of them is within the budget; all that the door looked at took six budgets."""
    most = 30_000
    spec = cd.Regex("([a-z]{1,200} ?){0,200}[a-z]{0,300}([a-z ]{2,5}){30}")
    grammar = admit(cd.Compiler(vocabulary([]), limits=cd.Limits(max_step_work=most)), spec)
    assert most < grammar.counters()["work"] <= 2 * most


def test_a_part_that_matches_nothing_is_no_reason_to_refuse() -> None:
    spec = cd.Lark('start: "x" A?\nA: /a+/ & /b+/ | "c"\n')
    compiler = cd.Compiler(VOCAB)
    compiler.compile(spec)
    admit(compiler, spec)


@pytest.mark.parametrize(
    "spec",
    [
        cd.JsonSchema({"type": "strin"}),
        cd.JsonSchema({"allOf": [{"type": "string"}, {"type": "null"}]}),
        cd.JsonSchema({"type": "object", "minProperties": 1_000_000}),
        cd.Regex("(a"),
        cd.Gbnf('root ::= "a" missing'),
        cd.Lark("start: <|no-such-token|>"),
    ],
    ids=lambda spec: type(spec).__name__,
)
def test_what_compiling_refuses_is_refused_alike(spec: cd.Spec) -> None:
    with pytest.raises(cd.GrammarError) as compiling:
        cd.Compiler(VOCAB).compile(spec)
    with pytest.raises(cd.GrammarError) as admitting:
        admit(cd.Compiler(VOCAB), spec)
    assert str(admitting.value) == str(compiling.value) and type(admitting.value) is type(compiling.value)


def test_what_expressions_hold_is_counted_at_the_door_too() -> None:
    """``multipleOf: 251`` with a thousand gaps was built for 77 seconds before it was refused, since nothing was counted until
    the end.
    """
    seen: list[int] = []

    class Asked(cd.Choice):
        def to_ir(self, limits: cd.Limits, ir: GrammarIR | None = None) -> GrammarIR:
            seen.append(current().most)
            return super().to_ir(limits, ir)

    compiler = cd.Compiler(vocabulary(), cd.Limits(max_expr_nodes=1234))
    spec = Asked(["a"])
    admit(compiler, spec)
    compiler.compile(spec)
    spec.rules(compiler.limits)
    assert seen == [1234] * 3
