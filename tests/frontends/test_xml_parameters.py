"""Parameters as XML: ``allOf``, ``patternProperties``, escaped names; and what a structural tag may omit."""

from __future__ import annotations

import json
from typing import Any

import pytest

import cdplugin as cd

TOKENS = [*(bytes([b]) for b in range(256)), b"<tool>", b"<|end|>", b"</s>"]
COMPILER = cd.Compiler(cd.Vocabulary.from_bytes(TOKENS, eos_token_ids=258, special_token_ids=[257]))


def takes(tag: Any, text: str | list[int]) -> bool:
    tokens = list(text.encode()) if isinstance(text, str) else text
    matcher = COMPILER.compile(cd.StructuralTag(tag)).matcher()
    return matcher.accept_tokens(tokens) == len(tokens) and matcher.is_accepting()


def styled(schema: Any, style: str) -> dict[str, Any]:
    return {"format": {"type": "json_schema", "json_schema": schema, "style": style}}


def kimi(name: str, kind: str, value: str) -> str:
    return f'<|open|>argument key="{name}" type="{kind}"<|sep|>{value}<|close|>argument<|sep|>'


def qwen(name: str, value: Any) -> str:
    return f"<parameter={name}>{value if isinstance(value, str) else json.dumps(value)}</parameter>"


def cohere(name: str, value: Any) -> str:
    kind = "raw" if isinstance(value, str) else "json"
    return f'<cofl:value name="{name}" type="{kind}">{value if kind == "raw" else json.dumps(value)}</cofl:value>'


def test_names_are_escaped_for_kimi_as_xgrammar_has_it() -> None:
    schema = {"type": "object", "properties": {'we"ird&key': {"type": "string"}}, "additionalProperties": True}
    tag = {"type": "structural_tag", **styled(schema, "kimi_k3_xml")}
    texts = {
        kimi("we&quot;ird&amp;key", "string", "x"): True,
        kimi('we"ird&key', "string", "x"): False,
        kimi("other", "string", "x"): True,
        kimi("other", "integer", "12"): True,
        kimi("other", "number", "1.5"): True,
        kimi("other", "array", "[1]"): True,
    }
    for text, expected in texts.items():
        assert takes(tag, text) == expected, text
    xgrammar = pytest.importorskip("xgrammar")
    peer = xgrammar.Grammar.from_structural_tag(xgrammar.StructuralTag.model_validate(tag))
    for text, expected in texts.items():
        assert xgrammar.testing._is_grammar_accept_string(peer, text) == expected, text


def test_integers_of_undeclared_keys() -> None:
    tag = styled({"type": "object", "additionalProperties": {"type": "number", "minimum": 3}}, "kimi_k3_xml")
    assert takes(tag, kimi("a", "integer", "3")) and takes(tag, kimi("a", "number", "3.5"))
    assert not takes(tag, kimi("a", "integer", "3.5")) and not takes(tag, kimi("a", "integer", "2"))
    declared = styled({"type": "object", "properties": {"a": {"type": "integer"}}}, "kimi_k3_xml")
    assert takes(declared, kimi("a", "number", "3")) and not takes(declared, kimi("a", "integer", "3"))


ALL_OF: list[dict[str, Any]] = [
    {"allOf": [{"type": "integer"}]},
    {"allOf": [{"$ref": "#/$defs/short"}], "description": "a name"},
    {"allOf": [{"type": "integer"}, {"minimum": 3}]},
    {"type": "integer", "minimum": 1, "allOf": [{"minimum": 3}, {"maximum": 5}]},
    {"allOf": [{"$ref": "#/$defs/short"}, {"type": "string", "minLength": 2}, {"pattern": "^a"}]},
    {"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]},
    {"allOf": [{"enum": ["a", "abc", 7]}, {"type": ["string", "integer"], "maxLength": 2}]},
    {"allOf": [{"allOf": [{"type": "string"}]}, {"maxLength": 1}]},
    {"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"anyOf": [{"type": "null"}, {"type": "integer"}]}]},
]
VALUES: list[Any] = ["", "a", "b", "ab", "ac", "abc", "ba", 0, 3, 4, 7, None, True]


@pytest.mark.parametrize("schema", ALL_OF, ids=repr)
@pytest.mark.parametrize("write", [qwen, cohere])
def test_all_of_is_what_jsonschema_says(schema: dict[str, Any], write: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    whole = {
        "type": "object",
        "properties": {"p": schema},
        "required": ["p"],
        "$defs": {"short": {"type": "string", "maxLength": 2}},
    }
    tag = styled(whole, f"{write.__name__}_xml")
    valid = jsonschema.Draft202012Validator(whole).is_valid
    for value in VALUES:
        text = write("p", value)
        readings = [value]  # Qwen's strings look like JSON
        if write is qwen:
            readings = [json.dumps(value) if not isinstance(value, str) else value, value]
        assert takes(tag, text) == any(valid({"p": one}) for one in readings), (value, schema)


def test_all_of_of_objects() -> None:
    base = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    schema = {"allOf": [base, {"properties": {"b": {"type": "string"}}, "required": ["b"]}]}
    assert takes(styled(schema, "cohere_xml"), cohere("a", 1) + cohere("b", "x"))
    assert not takes(styled(schema, "cohere_xml"), cohere("a", 1))
    nested = {"type": "object", "properties": {"o": schema}, "required": ["o"]}
    inner = f'<cofl:value name="o" type="dict">{cohere("a", 1) + cohere("b", "x")}</cofl:value>'
    assert takes(styled(nested, "cohere_xml"), inner)
    closed = {"allOf": [base, {"type": "object", "properties": {"b": {}}, "additionalProperties": False}]}
    with pytest.raises(cd.UnsupportedError, match="allOf is not supported here.*/allOf"):
        cd.StructuralTag(styled({"type": "object", "properties": {"o": closed}}, "cohere_xml")).to_ir(cd.Limits())


def test_all_of_that_leads_back_to_itself_is_refused() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"allOf": [{"$ref": "#/$defs/x"}]}}}
    with pytest.raises(cd.GrammarError):
        cd.StructuralTag(styled(schema, "qwen_xml")).to_ir(cd.Limits())
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(300):
        deep = {"allOf": [deep, {"minLength": 1}]}
    tag = styled({"type": "object", "properties": {"a": deep}, "required": ["a"]}, "qwen_xml")
    assert takes(tag, qwen("a", "x")) and not takes(tag, qwen("a", ""))


FORMATS = {
    "email": ["me@example.com", '"a b"@example.com', "me"],
    "date-time": ["2024-02-29T12:00:00Z", "2023-02-29T12:00:00Z", "today"],
    "uri": ["https://example.com/a?b=c", "a b"],
    "ipv4": ["127.0.0.1", "127.0.0.256"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123e4567"],
    "json-pointer": ['/a"b', "a"],
    "colour": ["red", ""],
}


@pytest.mark.parametrize("write", [qwen, cohere])
@pytest.mark.parametrize("form", FORMATS)
def test_formats_are_what_jsonschema_says(form: str, write: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = {"type": "object", "properties": {"p": {"type": ["string", "null"], "format": form}}, "required": ["p"]}
    tag = styled(schema, f"{write.__name__}_xml")
    for value in FORMATS[form]:
        expected = jsonschema.Draft202012Validator.FORMAT_CHECKER.conforms(value, form)
        assert takes(tag, write("p", value)) == expected, value
    assert takes(tag, write("p", None))


ROOTS: list[dict[str, Any]] = [
    {"const": {"a": 1, "b": "x"}},
    {"enum": [{"a": 1}, {"b": "x"}, {}, 7, {"a": None, "b": [1, "x"]}]},
    {"type": "object", "properties": {"a": {}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"anyOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {"const": "x"}}, "additionalProperties": False}, False]},
    {"anyOf": [{"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}, {"enum": [{"b": "x"}]}], "title": "either"},
]
ARGUMENTS = [{}, {"a": 1}, {"b": "x"}, {"a": 1, "b": "x"}, {"a": None, "b": [1, "x"]}, {"a": 2}, {"b": "y"}]


@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize("schema", ROOTS, ids=repr)
def test_choices_of_whole_lists_are_what_jsonschema_says(schema: dict[str, Any], any_order: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    closed = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    schema = {**schema, "$defs": {"a": closed}}
    fmt = {**styled(schema, "kimi_k3_xml")["format"], "any_order": any_order}
    kinds = {int: "number", str: "string", list: "array", type(None): "null"}
    for value in ARGUMENTS:
        text = "".join(kimi(k, kinds[type(v)], v if isinstance(v, str) else json.dumps(v)) for k, v in value.items())
        assert takes({"format": fmt}, text) == jsonschema.Draft202012Validator(schema).is_valid(value), value


def test_choices_of_whole_lists_that_are_refused() -> None:
    for schema, message in (
        ({"properties": {"a": {}}, "anyOf": [{"properties": {"a": {"type": "null"}}}]}, "anyOf that shares keywords .*/anyOf$"),
        ({"anyOf": [{"$ref": "#"}]}, r"\$ref loop: .*/anyOf/0$"),
        ({"enum": [1, "a"]}, "nothing satisfies the schema of a parameter - at /format/json_schema$"),
        ({"const": {}, "enum": [{}]}, "const is not supported here"),
        ({"oneOf": [{"type": "object"}]}, "oneOf is not supported here"),
    ):
        with pytest.raises(cd.GrammarError, match=message):
            cd.StructuralTag(styled(schema, "qwen_xml")).to_ir(cd.Limits())


def test_declared_names_that_hold_an_excluded_text() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"x<b>y": {"type": "integer"}, "c": {"type": "integer"}}}
    for any_order in (False, True):
        fmt = {**styled(schema, "qwen_xml")["format"], "excludes": ["<b>"], "any_order": any_order}
        assert takes({"format": fmt}, qwen("c", 1)) and not takes({"format": fmt}, qwen("x<b>y", 1) + qwen("c", 1))
        fmt["json_schema"] = {**schema, "required": ["c"]}
        assert takes({"format": fmt}, qwen("c", 1)) and not takes({"format": fmt}, "")
        fmt["json_schema"] = {**schema, "required": ["x<b>y"]}
        with pytest.raises(cd.GrammarError, match="nothing satisfies .* /format/json_schema/properties/x<b>y"):
            cd.StructuralTag({"format": fmt}).to_ir(cd.Limits())


def test_references_lead_where_those_of_any_schema_do() -> None:
    definitions = {"a": {"$anchor": "here", "type": "integer"}, "b": [{"type": "integer"}], "c d": {"type": "integer"}}
    for reference in ("#here", "#/$defs/a", "#/$defs/b/0", "#/$defs/c%20d", "root#here"):
        schema = {"$id": "http://x/root", "$defs": definitions, "type": "object", "properties": {"n": {"$ref": reference}}}
        tag = styled(schema | {"required": ["n"]}, "qwen_xml")
        assert takes(tag, qwen("n", 1)) and not takes(tag, qwen("n", "x")), reference


def test_references_in_a_schema_with_an_identifier_of_its_own_are_refused() -> None:
    """They were read as if they stood in the document: the string at its ``#/$defs/z``."""
    inner = {"$id": "http://x/inner", "$ref": "#/$defs/z", "$defs": {"z": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"n": {"$ref": "#/$defs/a"}}, "$defs": {"a": inner, "z": {"type": "string"}}}
    with pytest.raises(cd.UnsupportedError, match=r"\$id inside a schema of parameters that has references is not supported"):
        cd.StructuralTag(styled(schema, "qwen_xml")).to_ir(cd.Limits())


PATTERNED = {
    "type": "object",
    "properties": {"x1": {"maximum": 9}},
    "patternProperties": {"^x": {"type": "integer"}, "1$": {"type": "integer", "minimum": 3}},
    "additionalProperties": {"type": "boolean"},
}


@pytest.mark.parametrize("write", [qwen, cohere])
def test_pattern_properties_are_what_jsonschema_says(write: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    tag = styled(PATTERNED, f"{write.__name__}_xml")
    valid = jsonschema.Draft202012Validator(PATTERNED).is_valid
    for name in ("x1", "x2", "y1", "y", "x21"):
        for value in (1, 3, 12, True):
            assert takes(tag, write(name, value)) == valid({name: value}), (name, value)


def test_pattern_properties_without_others() -> None:
    tag = styled({"type": "object", "patternProperties": {"^a": {"type": "integer"}, "^ab": False}}, "kimi_k3_xml")
    assert takes(tag, kimi("a", "number", "1") + kimi("ac", "integer", "2"))
    assert not takes(tag, kimi("ab", "number", "1")) and not takes(tag, kimi("b", "number", "1"))
    with pytest.raises(cd.UnsupportedError, match="patternProperties with elements that bear their names"):
        cd.StructuralTag(styled({"patternProperties": {"a": {}}}, "minimax_m3_xml")).to_ir(cd.Limits())
    many = {"patternProperties": {f"^{letter}": {} for letter in "abcde"}}
    with pytest.raises(cd.UnsupportedError, match="expected at most 4, found 5"):
        cd.StructuralTag(styled(many, "qwen_xml")).to_ir(cd.Limits())


def test_tags_need_no_type_where_nothing_else_can_be() -> None:
    tag = {"begin": "<a>", "content": {"type": "regex", "pattern": "[0-9]"}, "end": "</a>"}
    for fmt in (
        {"type": "triggered_tags", "triggers": ["<a"], "tags": [tag]},
        {"type": "tags_with_separator", "tags": [tag], "separator": ","},
    ):
        assert takes({"format": fmt}, "<a>7</a>") and takes({"type": "structural_tag", "format": fmt}, "<a>7</a>")
        assert not takes({"format": fmt}, "<a>x")
    with pytest.raises(cd.GrammarError, match='bad structural tag: expected "structural_tag", found .*/type'):
        cd.StructuralTag({"type": "tag", "format": {}}).to_ir(cd.Limits())
    with pytest.raises(cd.GrammarError, match="unknown type of format: .*found none - at /format/elements/0/type"):
        cd.StructuralTag({"format": {"type": "or", "elements": [tag]}}).to_ir(cd.Limits())


def test_tokens_by_the_text_of_an_ordinary_one() -> None:
    begin: dict[str, Any] = {"token": "<tool>"}
    tag = {"begin": begin, "content": {"type": "const_string", "value": "x"}, "end": {"type": "token", "token": "<|end|>"}}
    fmt = {"type": "token_triggered_tags", "trigger_tokens": ["<tool>"], "tags": [tag], "exclude_tokens": ["a"]}
    assert takes({"format": fmt}, [98, 256, *b"x", 257]) and not takes({"format": fmt}, [97])
    assert not takes({"format": {"type": "sequence", "elements": [{"type": "tag", **tag}]}}, [*b"<tool>", *b"x", 257])
    with pytest.raises(cd.GrammarError, match="the vocabulary has no token '<none>'"):
        COMPILER.compile(cd.StructuralTag({"format": {"type": "token", "token": "<none>"}}))


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"$ref": "#"}]},
        {"type": "object", "anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"$ref": "#"}]},
        {"properties": {"a": {"oneOf": [{"type": "integer"}, {"$ref": "#/properties/a"}]}}},
        {"properties": {"a": {"allOf": [{"anyOf": [{"$ref": "#/properties/a"}, {"type": "string"}]}]}}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
    ],
)
def test_a_loop_is_named_where_it_closes(schema: Any) -> None:
    """``anyOf`` was followed around and around: ``LimitExceeded`` at a location of thousands of parts."""
    with pytest.raises(cd.GrammarError, match=r"\$ref loop") as error:
        COMPILER.compile(cd.StructuralTag(styled(schema, "qwen_xml")))
    assert not isinstance(error.value, cd.LimitExceeded) and len(error.value.location) < 100


IN_ANY_ORDER = {
    "glm_xml": "<arg_key>p3</arg_key><arg_value>12</arg_value><arg_key>p1</arg_key><arg_value>abc</arg_value><arg_key>",
    "gemma": '{p3:12,p1:<|"|>abc<|"|>,p2:1',
}


def any_order(style: str, n: int, n_required: int) -> cd.StructuralTag:
    names = [f"p{i}" for i in range(n)]
    schema = {"type": "object", "properties": {name: {"type": ["string", "integer"]} for name in names}}
    fmt = styled({**schema, "required": names[:n_required]}, style)["format"]
    return cd.StructuralTag({"format": {**fmt, "any_order": True}})


@pytest.mark.parametrize(("style", "text"), IN_ANY_ORDER.items())
def test_a_far_budget_of_parameters_in_any_order_takes_no_search(style: str, text: str) -> None:
    """The family says what is left of any of its members: 30 and 54 million units of work before."""
    grammar = COMPILER.compile(any_order(style, 40, 5))
    matcher = grammar.matcher()
    row = cd.allocate_token_bitmask(1, grammar.vocab.size)
    before = grammar.counters()["work"]
    for byte in text.encode():
        matcher.fill_next_token_bitmask(row, budget=3_000 - len(matcher.tokens))
        assert not matcher.was_narrowed()
        assert matcher.accept_token(byte)
    assert grammar.counters()["work"] - before < 8_000_000


@pytest.mark.parametrize("style", IN_ANY_ORDER)
def test_a_set_of_parameters_takes_a_bit_each(style: str) -> None:
    grammar = COMPILER.compile(any_order(style, 200, 67))
    with pytest.raises(cd.LimitExceeded):
        grammar.matcher().shortest_completion()
    expander = grammar._arena.expand
    assert expander is not None
    assert expander.nbytes < 600 * len(expander.members)
