"""One budget for all expressions of a compilation: work is counted before it is done, and always the same."""

from __future__ import annotations

from typing import Any

import pytest
from engine_tools import vocabulary

import cdplugin as cd
from cdplugin import expr, memory
from cdplugin.engine.programs import Program
from cdplugin.limits import Limits
from cdplugin.regex.alphabet import UTF8
from cdplugin.tally import apart, counting, current

VOCAB = vocabulary([b"ab", b'":', b"12"])
COMPILER = cd.Compiler(VOCAB)


def tree(roots: list[expr.Expr]) -> set[expr.Expr]:
    """All nodes below."""
    found: set[expr.Expr] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending += [part for part in node.args if isinstance(part, expr.Expr)]
    return found


def counted(spec: cd.Spec) -> int:
    """Nodes that a spec is charged for."""
    with counting(1 << 60) as tally:
        spec.to_ir(Limits())
    return tally.nodes


SPECS: list[cd.Spec] = [
    cd.JsonSchema({"type": "integer", "multipleOf": 37, "minimum": 5}),
    cd.JsonSchema({"type": "number", "multipleOf": 0.37, "not": {"enum": [0.37, 3.7, 37]}}),
    cd.JsonSchema({"type": "array", "items": {"type": "string", "pattern": r"^[\p{L}-]+$", "maxLength": 9, "format": "email"}}),
    cd.JsonSchema({"properties": {f"p{i}": {"type": "string", "pattern": rf"^\d[\w{chr(0x400 + i)}]$"} for i in range(9)}}),
    cd.JsonSchema({"anyOf": [{"const": [1, {"a": None}]}, {"type": "number", "exclusiveMaximum": -2.5}, {"minLength": 3}]}),
    cd.Regex(r"(?i)[\p{Greek}x]+\p{Lu}(straße|[^\x00-\u{1F600}])"),
    cd.Lark('start: WORD ("," WORD)*\nWORD: /[a-zé]+/ & ~/(and|or)/\n%ignore / +/'),
    cd.Gbnf(r"root ::= [^\x41-\U0001F600] | [а-я]+ root"),
    cd.StructuralTag({"type": "structural_tag", "format": {"type": "regex", "pattern": r"[\w.]+"}}),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_what_a_cache_gives_costs_the_same(spec: cd.Spec) -> None:
    before = counted(spec)
    memory._shared.clear()
    assert before == counted(spec) == counted(spec) > 0
    memory._shared.clear()
    for other in SPECS:
        counted(other)
    assert before == counted(spec)


def test_what_is_charged_is_what_is_built() -> None:
    spec = cd.JsonSchema({"properties": {f"p{i}": {"type": "integer", "multipleOf": 100 + 7 * i} for i in range(9)}})
    nodes = len(tree(spec.to_ir(Limits()).lexemes))
    assert 0.8 * nodes < counted(spec) < 1.2 * nodes


def test_questions_with_one_hash_are_two() -> None:
    """Python's hash of -1 is that of -2: what is kept for one bound is not given for the other."""
    assert hash((1, -1)) == hash((1, -2))
    properties = {"a": {"type": "integer", "minimum": -1}, "b": {"type": "integer", "minimum": -2}}
    for names in (["a", "b"], ["b", "a"]):
        schema = {"type": "object", "properties": {name: properties[name] for name in names}, "required": names}
        matcher = COMPILER.compile(cd.JsonSchema(schema, property_order="any", whitespace="compact")).matcher()
        for text, is_valid in ((b'{"a":-1,"b":-2}', True), (b'{"a":-2,"b":-2}', False)):
            matcher.reset()
            followed = matcher.accept_tokens(text)
            assert (followed == len(text) and matcher.is_accepting()) is is_valid


def test_numbers_of_many_residues_are_refused_where_they_stand() -> None:
    """Each of these 60 is an automaton of some 25,000 nodes: 1,032 MB and nine seconds, before they were counted."""
    properties = {f"m{i}": {"type": "integer", "multipleOf": 190 + i} for i in range(60)}
    with pytest.raises(cd.LimitExceeded, match=r"Limits.max_expr_nodes = 300000 nodes - at /properties/m\d+$") as refusal:
        COMPILER.compile(cd.JsonSchema({"properties": properties}))
    reached = int(refusal.value.location.rpartition("m")[2])
    first = cd.JsonSchema({"properties": dict(list(properties.items())[: reached - 1])})
    assert counted(first) <= 300_000  # all before it fit
    COMPILER.compile(cd.JsonSchema({"properties": {"one": properties["m59"]}}))


def test_equal_numbers_are_counted_once() -> None:
    of = lambda names: {"properties": {f"m{i}": {"type": "integer", "multipleOf": 190} for i in range(names)}}  # noqa: E731
    one, many = counted(cd.JsonSchema(of(1))), counted(cd.JsonSchema(of(500)))
    assert one > 10_000 and many < one + 500 * 60


PIECES: dict[str, Any] = {
    "numbers between excluded ones": {"multipleOf": 251, "not": {"enum": [10**15 + i * 10**14 for i in range(1000)]}},
    "bounds of many digits": {
        "properties": {
            f"p{i}": {"type": "integer", "minimum": -(10**1900 + i) // 7, "maximum": 10**1900 + i} for i in range(300)
        }
    },
    "classes that differ": {"properties": {f"p{i}": {"pattern": rf"[\p{{L}}{chr(0xF0000 + 9 * i)}]"} for i in range(600)}},
}


def test_fixed_values_are_counted_while_they_are_written() -> None:
    """Before any of them is in an arena: the expressions of tens of thousands take hundreds of megabytes."""

    def items(values: list[Any]) -> int:
        schema = {"prefixItems": [True, *({"const": value} for value in values)]}
        return counted(cd.JsonSchema(schema)) - counted(cd.JsonSchema({"prefixItems": [True]}))

    one, hundred, more = (items([1000 + i * 3 for i in range(n)]) for n in (1, 100, 200))
    assert more > 1.8 * hundred > 1.8 * 80 * one > 0
    assert items([1000] * 200) == one
    assert items([[1000 + i * 3] for i in range(200)]) >= more + 200
    with pytest.raises(cd.LimitExceeded, match="max_expr_nodes"), counting(hundred):
        cd.JsonSchema({"prefixItems": [{"const": 1000 + i * 3} for i in range(200)]}).to_ir(Limits())


@pytest.mark.parametrize("name", PIECES)
def test_many_pieces_are_one_budget(name: str) -> None:
    with pytest.raises(cd.LimitExceeded, match=r"Limits.max_expr_nodes = 300000 nodes"):
        COMPILER.compile(cd.JsonSchema({"type": ["integer", "string", "object"], **PIECES[name]}))


@pytest.mark.parametrize("text", ["(a|bc)" * 70_000, "".join(rf"[\p{{L}}\x{{{0xF0000 + 2 * i:x}}}]" for i in range(1_000))])
def test_one_pattern_of_many_parts(text: str) -> None:
    with pytest.raises(cd.LimitExceeded, match=r"max_expr_nodes \(300000\) - at position \d+"):
        COMPILER.compile(cd.Regex(text))
    with pytest.raises(cd.LimitExceeded, match=r"max_expr_nodes \(300000\).* - at /pattern"):
        COMPILER.compile(cd.JsonSchema({"type": "string", "pattern": text.replace("x{", "u{")}))


def test_a_tally_ends_with_its_compilation() -> None:
    with counting(3) as tally:
        with counting(100) as inner:
            assert inner is tally is current()
        with apart():
            assert current() is None
        with pytest.raises(cd.LimitExceeded):
            UTF8.chars(((97, 105), (0x3B1, 0x3C9), (0x10000, 0x10333)))
    assert current() is None and tally.nodes == 0


class Watched(tuple):
    """Children of a node; notes how many of them slices copied."""

    copied = 0

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        if isinstance(index, slice):
            Watched.copied += len(found)
        return found


def test_wide_nodes_are_evaluated_in_linear_time() -> None:
    """70,000 alternations in a row took 17 s: what was left of them was copied after each."""
    parts = Watched(expr.alt(expr.literal(b"a"), expr.literal(b"%db" % i)) for i in range(300))
    program = Program(Limits())
    program.add(expr.Expr(expr.CAT_OP, parts))
    assert Watched.copied <= len(parts) and program.n_results == len(parts) + 1
