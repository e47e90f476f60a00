"""Small specs of all kinds that once took too much: each ends within counted work, by an answer or an error that says where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cdplugin as cd
from cdplugin.errors import GrammarError, LimitExceeded
from cdplugin.frontends.lark.corners import MOST_CORNERS
from cdplugin.ir import MOST_COUNTED, MOST_TICKS, GrammarIR
from cdplugin.limits import BEYOND_TEXT
from cdplugin.vocab.sources import MOST_TOKENS

VOCAB = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)


def accepts(spec: cd.Spec, text: str) -> bool:
    matcher = cd.Compiler(VOCAB).compile(spec).matcher()
    return matcher.accept_tokens(text.encode()) == len(text.encode()) and matcher.is_accepting()


def rules(spec: cd.Spec, **limits: int) -> GrammarIR:
    return spec.to_ir(cd.Limits(**limits))


# --- Lark: rules that begin with themselves ---------------------------------------------------------------------------------

FAN = "start: x0::0\n" + "".join(f"x{i}::_ : x{i + 1}::set_bit({i}) | x{i + 1}::_\n" for i in range(40)) + 'x40::_ : "a"'
ENDLESS = {
    "at the start": 'start: x::0\nx::_ : "a" | x::incr(_)',
    "after a token": 'start: "x" y\ny: x::0\nx::_ : x::incr(_) | "b"',
    "downwards": 'start: x::0x7fffffffffff\nx::_ : "a" | x::decr(_)',
    "behind what may be empty": 'start: x::0\nx::_ : (n n) x::incr(_) | "a"\nn: "a"?',
    "behind an empty terminal": 'start: x::0\nx::_ : N x::incr(_) | "a"\nN: /n?/',
    "through another rule": 'start: x::0\nx::_ : y::_ | "a"\ny::_ : ("b"?) x::incr(_) "c"',
    "without a cycle": FAN,
    "all sets of bits": "start: x::0\nx::_ : " + " | ".join(f"x::set_bit({i})" for i in range(64)) + ' | "a"',
    "a bound that is far away": 'start: x::0\nx::_ : "a" | x::incr(_) %if lt(_, 60000)',
    "only after some text": 'start: x::0\nx::_ : "a" x::incr(_) %if lt(_, 9) | y::_ %if ge(_, 5)\ny::_: y::incr(_) | "b"',
    "with %ignore": 'start: x::0\nx::_ : "a" | x::incr(_)\n%ignore " "',
}


@pytest.mark.parametrize("name", ENDLESS)
def test_rules_that_begin_with_themselves_for_ever_are_refused(name: str) -> None:
    with pytest.raises(LimitExceeded, match="begins with itself under ever more parameters") as caught:
        rules(cd.Lark(ENDLESS[name]))
    assert "the rule '" in str(caught.value) and "line " in caught.value.location and "::" in caught.value.found


BOUNDED = [
    ('start: x::0\nx::_ : "a" | x::incr(_) %if lt(_, 10)', "a", "b"),
    ('start: x::0\nx::_ : "a" x::incr(_) | x::incr([0:3]) | "b"', "aab", "ba"),
    ('start: x::0\nx::_ : "a" | x::set_bit(0) | x::set_bit(1) | "b" %if is_ones([0:2])', "b", "c"),
    ('start: x::0\nx::_ : x::_ "a" | "b"', "baaa", "a"),
    ('start: x::0\nx::_ : "a" x::incr(_) | "b"', "a" * 400 + "b", "c"),
    ('start: x::0\nx::_ : "a" x::incr(_) %if lt(_, 100) | "b" %if ge(_, 50)', "a" * 50 + "b", "ab"),
    ('start: x::0\nx::_ : x::incr(_) y::_ | "a"\ny::_ : "b" %if lt(_, 3)', "abb", "abbbb"),  # ends, since y does
    (f'start: x::0\nx::_ : "a" | x::incr(_) %if lt(_, {MOST_CORNERS - 2})', "a", "b"),
]


@pytest.mark.parametrize(("grammar", "yes", "no"), BOUNDED)
def test_rules_that_begin_with_themselves_a_few_times_work(grammar: str, yes: str, no: str) -> None:
    assert accepts(cd.Lark(grammar), yes) and not accepts(cd.Lark(grammar), no)


def test_left_corners_are_looked_for_within_counted_work() -> None:
    starts = " | ".join(f"x::{4096 * i}" for i in range(300))
    many = " | ".join(f"x::set_bit({i})" for i in range(11)) + 400 * " | x::_"
    for grammar in (
        f'start: {starts}\nx::_ : "a" | x::incr([0:11]) %if lt([0:11], 2000)',
        f'start: x::0 | x::4096\nx::_ : "a" | {many}',
    ):
        ir = rules(cd.Lark(grammar))
        assert {family.work < 110_000_000 for family, _ in ir.instances.values()} == {True}


def test_questions_about_many_parameters_share_what_was_found() -> None:
    """300 members, each of which needs thousands of others to be completed."""
    starts = " | ".join(f"x::{i}" for i in range(300))
    grammar = cd.Lark(f'start: {starts}\nx::_ : "a" x::incr(_) %if lt(_, 20000) | "b" %if eq(_, 20000)')
    assert cd.Compiler(VOCAB).compile(grammar).matcher().accept_tokens(b"aaa") == 3


@pytest.mark.parametrize("body", ["T{0} T{0}", 'T{0} "x" | T{0} "y"', "/a/ & ~T{0} & T{0}"])
def test_terminals_that_double(body: str) -> None:
    def grammar(times: int) -> cd.Lark:
        terminals = "".join(f"T{i}: {body.format(i + 1)}\n" for i in range(times))
        return cd.Lark(f'start: T0\n{terminals}T{times}: "a"')

    with pytest.raises(LimitExceeded, match="a terminal, with all that it names, is too large"):
        rules(grammar(60))
    with pytest.raises(LimitExceeded, match="a terminal, with all that it names, is too large"):
        rules(
            cd.Lark(
                "start: a\na[lazy]: " + "T0 " * 600 + "".join(f"\nT{i}: T{i + 1} T{i + 1}" for i in range(10)) + '\nT10: "b"'
            )
        )
    assert rules(grammar(10)).lexemes


# --- structural tags --------------------------------------------------------------------------------------------------------

STYLES = ["qwen_xml", "minimax_xml", "deepseek_xml", "glm_xml", "kimi_k3_xml", "cohere_xml", "minimax_m3_xml", "gemma"]


def parameters(schema: Any, style: str = "cohere_xml") -> cd.StructuralTag:
    return cd.StructuralTag(
        {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema, "style": style}}
    )


OPEN: list[dict] = [
    {},
    {"type": "array"},
    {"type": "object"},
    {"type": ["array", "object"]},
    {"items": {"type": "array"}, "type": "array"},
]


@pytest.mark.parametrize("style", STYLES)
def test_parameters_of_any_kind_end(style: str) -> None:
    for schema in [{"type": "object", "properties": {}}, *({"type": "object", "properties": {"a": part}} for part in OPEN)]:
        try:
            ir = rules(parameters(schema, style))
        except cd.UnsupportedError:
            assert style == "minimax_m3_xml"  # elements bear names there
        else:
            assert len(ir.rules) < 400


def test_any_value_in_elements() -> None:
    spec = parameters({"type": "object", "properties": {"a": {}}})
    inner = '<cofl:value type="json">1</cofl:value>'
    nested = f'<cofl:value name="a" type="list"><cofl:value type="list">{inner}{inner}</cofl:value></cofl:value>'
    assert accepts(spec, nested) and not accepts(spec, nested.replace("1", "?"))


@pytest.mark.parametrize("style", STYLES)
def test_unions_of_parameters_are_counted(style: str) -> None:
    chain = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)} | {"a40": {"type": "string"}}
    loop = {"a0": {"anyOf": [{"$ref": "#/$defs/a0"}, {"type": "string"}]}}
    for definitions, error, message in ((chain, LimitExceeded, "anyOf"), (loop, GrammarError, r"\$ref loop")):
        with pytest.raises(error, match=message):
            rules(parameters({"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": definitions}, style))


@pytest.mark.parametrize(
    "part", [{"type": {}}, {"type": "string", "minLength": "x"}, {"type": "string", "pattern": 3}, {"enum": 3}]
)
def test_parameters_of_the_wrong_form(part: dict) -> None:
    for spec in (
        parameters({"type": "object", "properties": {"a": part}}),
        parameters({"properties": {"a": part}}, "qwen_xml"),
    ):
        with pytest.raises(GrammarError, match="/format/json_schema/properties/a/"):
            rules(spec)


# --- counts -----------------------------------------------------------------------------------------------------------------

COUNTS = [("minLength", "string"), ("minItems", "array"), ("minProperties", "object")]


@pytest.mark.parametrize(("keyword", "kind"), COUNTS)
@pytest.mark.parametrize("count", [1e300, 10**18, BEYOND_TEXT + 1])
def test_least_counts_that_no_text_has(keyword: str, kind: str, count: float) -> None:
    for schema in ({keyword: count}, {"type": kind, keyword: count}, {"properties": {"a": {"type": kind, keyword: count}}}):
        with pytest.raises(LimitExceeded, match=f"{keyword} is too large.*/{keyword}") as caught:
            rules(cd.JsonSchema(schema))
        assert caught.value.keyword == keyword


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"type": "string", "maxLength": 2147483647}, '"abc"', "3"),
        ({"type": "string", "minLength": 2, "maxLength": 1e300}, '"abc"', '"a"'),
        ({"type": "array", "maxItems": 2147483647}, "[1]", "{}"),
        ({"type": "object", "maxProperties": 2147483647, "minProperties": 1}, '{"a":1}', "{}"),
        ({"contains": {"const": 1}, "maxContains": 2147483647, "type": "array"}, "[1,1]", "[2]"),
    ],
)
def test_most_counts_that_no_text_reaches_are_no_bounds(schema: dict, yes: str, no: str) -> None:
    assert accepts(cd.JsonSchema(schema), yes) and not accepts(cd.JsonSchema(schema), no)


def test_counts_between_are_kept_to() -> None:
    with pytest.raises(LimitExceeded, match="maxLength is too large: expected at most Limits.max_repeat = 10, found number 11"):
        rules(cd.JsonSchema({"type": "string", "maxLength": 11}), max_repeat=10)
    with pytest.raises(LimitExceeded, match="minProperties is too large where values are told apart"):
        rules(cd.JsonSchema({"type": "object", "minProperties": MOST_COUNTED + 1}))
    assert len(rules(cd.JsonSchema({"type": "array", "minItems": BEYOND_TEXT})).rules) < 100


def max_tokens(count: int) -> list[cd.Spec]:
    tag: dict[str, Any] = {"type": "structural_tag", "format": {"type": "any_text", "max_tokens": count}}
    return [cd.Lark(f"start: a\na[max_tokens={count}]: /[a-w]*/"), cd.StructuralTag(tag)]


def test_max_tokens_beyond_any_text_is_no_bound() -> None:
    for count in (BEYOND_TEXT + 1, 2**31 - 1):
        for spec in max_tokens(count):
            assert not rules(spec).max_tokens
            assert accepts(spec, "abc")


def test_max_tokens_add_up() -> None:
    for spec in max_tokens(MOST_TICKS + 1):
        with pytest.raises(LimitExceeded, match=f"max_tokens is too large: expected at most {MOST_TICKS}"):
            rules(spec)
    many = (
        "start: "
        + " ".join(f"a{i}" for i in range(9))
        + "".join(f"\na{i}[max_tokens={MOST_TICKS // 8}]: /{i}*/" for i in range(9))
    )
    with pytest.raises(LimitExceeded, match="max_tokens is too large"):
        rules(cd.Lark(many))
    for spec in max_tokens(MOST_TICKS):
        assert rules(spec).max_tokens


# --- specs inside each other ------------------------------------------------------------------------------------------------


def chain(step: Callable[[cd.Spec], cd.Spec], times: int) -> cd.Spec:
    spec: cd.Spec = cd.Choice(["a"])
    for _ in range(times):
        spec = step(spec)
    return spec


def tag_of(content: Any, formats: int = 1) -> cd.StructuralTag:
    for _ in range(formats):
        content = {"type": "sequence", "elements": [content]}
    return cd.StructuralTag({"type": "structural_tag", "format": content})


NESTED: list[Callable[[cd.Spec], cd.Spec]] = [
    lambda spec: cd.Lark('start: "a" (@x)', grammars={"x": spec}),
    lambda spec: cd.Template("a{x}", x=spec),
    lambda spec: cd.After("t", spec),
    tag_of,
    lambda spec: tag_of(spec, 60),
    lambda spec: cd.Lark("start: @x @y", grammars={"x": spec, "y": spec}),
    lambda spec: cd.Template("{x}{y}", x=spec, y=spec),
    lambda spec: cd.StructuralTag({"type": "structural_tag", "format": {"type": "sequence", "elements": [spec, spec]}}),
]


@pytest.mark.parametrize("number", range(len(NESTED)))
def test_specs_nested_too_deeply(number: int) -> None:
    with pytest.raises(LimitExceeded, match="nested too deeply|too many"):
        cd.Compiler(VOCAB).compile(chain(NESTED[number], 100))


@pytest.mark.parametrize("number", range(4))
def test_specs_nested_deeply(number: int) -> None:
    assert rules(chain(NESTED[number], 20)).rules


def test_large_specs_inside_each_other_count_together() -> None:
    large = cd.Choice(["x" * 1_000_000])
    with pytest.raises(LimitExceeded, match="the spec is too long, nested specs included"):
        rules(cd.Template("".join(f"{{x{i}}}" for i in range(9)), **{f"x{i}": large for i in range(9)}))


def test_work_of_all_schemas_counts_together() -> None:
    """One schema that takes a fifth of the work is fine, ten of them are not."""
    part = {
        "allOf": [
            {"anyOf": [{"properties": {f"{c}{i}": {"type": "string"}}, "required": [f"{c}{i}"]} for c in "ab"]}
            for i in range(9)
        ]
    }
    alone = rules(cd.JsonSchema(part)).spent.steps
    assert alone > 10_000
    schemas = [{"type": "json_schema", "json_schema": {**part, "title": f"{i}"}} for i in range(400_000 // alone + 2)]
    with pytest.raises(LimitExceeded, match="too much work"):
        rules(cd.StructuralTag({"type": "structural_tag", "format": {"type": "or", "elements": schemas}}))


# --- what is no spec at all -------------------------------------------------------------------------------------------------

JUNK: list[Callable[[], cd.Spec]] = [
    lambda: cd.JsonSchema({"oneOf": [{"multipleOf": 1000000}, {}]}),
    lambda: cd.Tools([{"name": "f", "parameters": {"properties": {"a": {"oneOf": [{"multipleOf": 1000000}, {}]}}}}]),
    lambda: cd.Tools([{"name": "f\ud800"}]),
    lambda: cd.Tools(
        [{"name": "f"}], tool_choice={"type": "allowed_tools", "allowed_tools": {"tools": [{"function": "f"}, [3]]}}
    ),
    lambda: cd.Tools([{"name": "f"}], tool_choice=[]),
    lambda: cd.Lark('start: "\ud800"'),
    lambda: cd.Lark('start: "a"', grammars=[1]),  # type: ignore[arg-type]
    lambda: cd.Regex("\ud800"),
    lambda: cd.Regex([1]),  # type: ignore[arg-type]
    lambda: cd.Regex("a", {}),  # type: ignore[arg-type]
    lambda: cd.Gbnf('root ::= "\ud800"'),
    lambda: cd.Gbnf('root ::= "a"', root=[]),  # type: ignore[arg-type]
    lambda: cd.Ebnf('root ::= "a"', root="\ud800"),
    lambda: cd.Ebnf('root ::= "a"', 10**5000),  # type: ignore[arg-type]
    lambda: cd.Choice([{}]),  # type: ignore[list-item]
    lambda: cd.Choice(["\ud800"]),
    lambda: cd.After("\ud800", cd.Choice(["a"])),
    lambda: cd.After([{}], cd.Choice(["a"])),  # type: ignore[list-item]
    lambda: cd.After(None, cd.Choice(["a"])),  # type: ignore[arg-type]
    lambda: cd.After("a", cd.Choice(["a"]), special_tokens=3),  # type: ignore[arg-type]
    lambda: cd.After("a", cd.Choice(["a"]), then=10**5000),  # type: ignore[arg-type]
    lambda: cd.Template("").free("x", "\ud800"),
    lambda: cd.Template("").free("x", "a", max_chars="3"),  # type: ignore[arg-type]
    lambda: cd.JsonSchema({}, registry=3),
    lambda: cd.JsonSchema({}, formats=[]),  # type: ignore[arg-type]
    lambda: cd.StructuralTag({"type": "structural_tag", "format": {"type": "qwen_xml_parameter", "json_schema": {"type": {}}}}),
    lambda: cd.StructuralTag({"type": "structural_tag", "format": {"type": "token", "token": 1, 10**5000: 2}}),
]


@pytest.mark.parametrize("number", range(len(JUNK)))
def test_errors_are_ours(number: int) -> None:
    with pytest.raises(GrammarError) as caught:
        cd.Compiler(VOCAB).compile(JUNK[number]())
    str(caught.value).encode()


def test_an_error_says_which_keyword() -> None:
    with pytest.raises(cd.UnsupportedError, match="/oneOf/0/multipleOf"):
        rules(cd.JsonSchema({"oneOf": [{"multipleOf": 1000000}, {}]}))


def test_values_that_are_no_json_are_not_taken_for_some_that_are() -> None:
    compiler = cd.Compiler(VOCAB)
    for good, bad in (
        ({"properties": {"1": {}}}, {"properties": {1: {}}}),
        ({"enum": ["a"]}, {"enum": ("a",)}),
    ):
        compiler.compile(cd.JsonSchema(good))
        with pytest.raises(GrammarError):
            compiler.compile(cd.JsonSchema(bad))
        elements = [{"type": "json_schema", "json_schema": schema} for schema in (good, bad)]
        with pytest.raises(GrammarError):
            rules(cd.StructuralTag({"type": "structural_tag", "format": {"type": "or", "elements": elements}}))


@pytest.mark.parametrize("value", [2**70, -1, 0, 1 << 20_000], ids=["2**70", "-1", "0", "2**20000"])
def test_limits_are_in_a_range(value: int) -> None:
    with pytest.raises(ValueError, match="Limits.max_repeat: expected 1 to"):
        cd.Limits(max_repeat=value)
    with pytest.raises(TypeError, match="Limits.max_rules: expected an integer, found str"):
        cd.Limits(max_rules="3")  # type: ignore[arg-type]


def test_a_vocabulary_is_no_wider_than_any_model() -> None:
    with pytest.raises(cd.VocabularyError, match=f"at most {MOST_TOKENS}"):
        cd.Vocabulary.from_bytes([b"a", b"</s>"], eos_token_ids=1, vocab_size=2**40)
