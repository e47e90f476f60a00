"""Arguments in Gemma 4's style, read by a parser of their own and judged by ``jsonschema``."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import numpy as np
import pytest

import cdplugin as cd

QUOTE = '<|"|>'
WORDS = [QUOTE, '<|"', "|>", "true", "null", ": ", ", ", "{}", "[]", "-1.5e3", "name", "kind", "circle", "square", "items"]
TOKENS = [*(bytes([b]) for b in range(256)), *(word.encode() for word in WORDS)]
COMPILER = cd.Compiler(cd.Vocabulary.from_bytes([*TOKENS, b"</s>"], eos_token_ids=len(TOKENS)))


def tag(schema: Any, **options: Any) -> cd.StructuralTag:
    return cd.StructuralTag(
        {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": schema, "style": "gemma", **options}}
    )


def quoted(text: str) -> str:
    """A text of the tests below: a grave accent there stands for a quote."""
    return text.replace("`", QUOTE)


def takes(spec: cd.Spec, text: str) -> bool:
    matcher = COMPILER.compile(spec).matcher()
    data = text.encode()
    return matcher.accept_tokens(data) == len(data) and matcher.is_accepting()


def written(value: Any) -> str:
    """A value as Gemma writes it."""
    if isinstance(value, str):
        return f"{QUOTE}{value}{QUOTE}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{written(member)}" for name, member in value.items()) + "}"
    return "[" + ",".join(map(written, value)) + "]" if isinstance(value, list) else json.dumps(value)


def read(text: str) -> Any:
    """The value of a text in Gemma's style."""
    at = 0

    def skip(sign: str) -> bool:
        nonlocal at
        while text[at : at + 1] in tuple(" \n\r\t"):
            at += 1
        if text.startswith(sign, at):
            at += len(sign)
            return True
        return False

    def value() -> Any:
        nonlocal at
        if skip(QUOTE):
            start, at = at, text.index(QUOTE, at) + len(QUOTE)
            return text[start : at - len(QUOTE)]
        if skip("["):
            items = []
            while not skip("]"):
                assert not items or skip(",")
                items.append(value())
            return items
        if skip("{"):
            members = {}
            while not skip("}"):
                assert not members or skip(",")
                skip("")
                name = text[at : text.index(":", at)]
                at += len(name)
                assert skip(":")
                members[name.rstrip()] = value()
            return members
        scalar = re.match(r"[-+.\w]+", text[at:])
        assert scalar is not None
        at += scalar.end()
        return json.loads(scalar[0])

    found = value()
    assert at == len(text)
    return found


SHAPE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8},
        "kind": {"enum": ["circle", "square", 7, None, ["a", 1, {"b": True}], {"c": [], "d": "e"}]},
        "items": {
            "type": "array",
            "items": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "boolean"}}, "required": ["x"]},
            "minItems": 1,
            "maxItems": 3,
        },
        "code": {"type": ["string", "integer"], "pattern": "^[a-c]+$", "minimum": 3, "maximum": 12},
        "date": {"type": "string", "format": "date"},
    },
    "required": ["name", "items"],
}
TUPLE = {
    "type": "object",
    "properties": {
        "at": {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": {"type": "null"},
            "minItems": 1,
        },
        "pair": {"type": "array", "prefixItems": [{"const": "a"}, {"const": [2]}], "items": False, "minItems": 2},
        "most": {"type": "array", "prefixItems": [{"type": "boolean"}] * 3, "maxItems": 2},
        "none": {"type": "array", "maxItems": 0},
        "many": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    },
}
UNION = {
    "type": "object",
    "properties": {
        "shape": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
                    "required": ["kind", "r"],
                },
                {
                    "type": "object",
                    "properties": {"kind": {"const": "square"}, "a": {"$ref": "#/$defs/side"}},
                    "required": ["kind"],
                },
                {"type": "string", "maxLength": 4},
            ]
        },
        "tree": {"$ref": "#/$defs/tree"},
        "any": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}]},
    },
    "additionalProperties": {"type": "integer"},
    "$defs": {
        "side": {"type": "integer", "minimum": 1},
        "tree": {
            "type": "object",
            "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}, "leaf": {"type": "string"}},
        },
    },
}
ANY = {"type": "object"}
SCHEMAS = {"shape": SHAPE, "tuple": TUPLE, "union": UNION, "any": ANY}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.slow)])
def test_walks(name: str, any_order: bool, count: int) -> None:
    """Random texts are valid, and their values are taken as they are usually written."""
    schema = SCHEMAS[name]
    spec = tag(schema, any_order=any_order)
    judge = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    row = np.zeros((1, (len(TOKENS) + 32) // 32), np.int32)
    orders = set()
    for seed in range(count):
        rng = random.Random(f"{name} {any_order} {seed}")
        matcher = COMPILER.compile(spec).matcher()
        for _ in range(rng.choice([5, 15, 40])):
            matcher.fill_next_token_bitmask(row)
            allowed = [
                t for t in np.flatnonzero(np.unpackbits(row.view(np.uint8)[0], bitorder="little")).tolist() if t < len(TOKENS)
            ]
            plain = [t for t in allowed if TOKENS[t].isascii() and TOKENS[t].isalnum()]
            longer = [t for t in allowed if t >= 256]
            if not allowed:
                break
            assert matcher.accept_token(rng.choice(rng.choice([plain, longer, allowed]) or allowed))
        ending = matcher.shortest_completion()
        assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting()
        value = read(b"".join(TOKENS[t] for t in matcher.tokens).decode())
        judge.validate(value)
        assert takes(spec, written(value)) or "Infinity" in written(value), value
        orders.add(tuple(value))
    assert len(orders) > 1


LEGAL = {
    "shape": [
        "{name:`a`,items:[{x:1}]}",
        '{ name : `"\\\n<|"|` , items : [ { x : 1.5e3 , y : true } , {x:0} ] }',
        "{name:`a`,kind:`square`,items:[{x:1}],code:12}",
        "{name:`a`,kind:[`a`, 1,{b:true}],items:[{x:1}],code:`abc`}",
        "{name:`a`,kind:{c:[ ],d:`e`},items:[{x:1}],date:`2024-02-29`}",
    ],
    "tuple": [
        "{}",
        "{ }",
        "{at:[1,`x`,null , null],pair:[`a`,[2]]}",
        "{most:[true,false],none:[],many:[1, 2 ,3]}",
        "{most:[]}",
    ],
    "union": [
        "{shape:{kind:`square`,a:3}}",
        "{shape:`abcd`,z:3,z2:4}",
        "{tree:{left:{right:{}},leaf:``},any:[`a`]}",
        "{any:[]}",
    ],
    "any": ["{}", "{a:{b:[1,`x`,{c:null}]},d_1:true}"],
}
ILLEGAL = {
    "shape": [
        "{items:[{x:1}]}",
        "{name:``,items:[{x:1}]}",
        "{name:`a`,items:[]}",
        "{name:`a`,items:[{x:1},{x:1},{x:1},{x:1}]}",
        "{name:`a`,items:[{y:true}]}",
        "{name:`a`,items:[{x:1}],code:2}",
        "{name:`a`,items:[{x:1}],date:`2023-02-29`}",
        "{name:`a`,items:[{x:1}],other:1}",
        "{name:`a`,kind:`triangle`,items:[{x:1}]}",
        "{name:`a`,kind:{d:`e`,c:[]},items:[{x:1}]}",
        '{"name":`a`,items:[{x:1}]}',
        '{name:"a",items:[{x:1}]}',
        "{name:`a`,items:[{x:1}],}",
        "{,name:`a`,items:[{x:1}]}",
        "{name:`a` items:[{x:1}]}",
    ],
    "tuple": [
        "{at:[]}",
        "{at:[1,2]}",
        "{pair:[`a`]}",
        "{pair:[`a`,[2],1]}",
        "{most:[true,true,true]}",
        "{none:[1]}",
        "{many:[1]}",
    ],
    "union": [
        "{shape:{kind:`circle`}}",
        "{shape:{kind:`square`,a:0}}",
        "{shape:`abcde`}",
        "{any:[1,`a`]}",
        "{z:`a`}",
        "{any:1}",
    ],
    "any": ["[]", "{a}", "{1a:1}", "{a:1 b:2}", "{a:`x}"],
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_texts(name: str) -> None:
    for any_order in (False, True):
        spec = tag(SCHEMAS[name], any_order=any_order)
        assert [text for text in LEGAL[name] if not takes(spec, quoted(text))] == []
        in_order = ["{name:`a`,kind:{d:`e`,c:[]},items:[{x:1}]}"] if any_order and name == "shape" else []
        assert [text for text in ILLEGAL[name] if takes(spec, quoted(text))] == in_order
    swapped = quoted("{items:[{x:1}],name:`a`}")
    assert takes(tag(SHAPE, any_order=True), swapped) and not takes(tag(SHAPE), swapped)
    assert not takes(tag(SHAPE, any_order=True), quoted("{items:[{x:1}],name:`a`,name:`b`}"))


def test_marks_as_special_tokens() -> None:
    """The quotes are written as the special token where the vocabulary has it, or spelled out."""
    vocab = cd.Vocabulary.from_bytes([*TOKENS[:256], QUOTE.encode(), b"</s>"], eos_token_ids=257, special_token_ids=[256])
    grammar = cd.Compiler(vocab).compile(
        tag({"type": "object", "properties": {"a": {"type": "string"}, "b": {"const": ["x"]}}})
    )
    for tokens in (
        [*b"{a:", 256, *b"x y", 256, *b",b:[", 256, *b"x", 256, *b"]}"],
        list(b'{a:<|"|>x<|"|>,b:[<|"|>x<|"|>]}'),
    ):
        matcher = grammar.matcher()
        assert matcher.accept_tokens(tokens) == len(tokens) and matcher.is_accepting()


def test_excludes() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "x<b>": {"const": 1}}, "additionalProperties": True}
    spec = tag(schema, excludes=["<b>", "end"])
    assert takes(spec, quoted("{a:`<b`,other:[`en`]}"))
    for text in ("{a:`<b>`}", "{x<b>:1}", "{other:[`the end`]}", "{end:1}", "{o:{bend:1}}"):
        assert not takes(spec, quoted(text)), text


def test_names_by_pattern() -> None:
    patterns = {"^x": {"type": "integer"}, "y$": {"minimum": 2, "type": "number"}}
    spec = tag({"type": "object", "patternProperties": patterns, "additionalProperties": False})
    assert all(takes(spec, text) for text in ("{}", "{x1:1,xy:3,y:2.5}", "{ay:2,ay:3}"))
    assert not any(takes(spec, text) for text in ("{x1:1.5}", "{xy:1}", "{xy:2.5}", "{a:1}", "{y:1}"))


def test_tools() -> None:
    tools = [{"type": "function", "function": {"name": "draw", "parameters": SHAPE}}]
    spec = cd.Tools(tools, format="gemma")
    call = quoted("<|tool_call>call:draw{name:`a`,items:[{x:1}]}<tool_call|>")
    assert takes(spec, f"I draw. {call}{call}") and takes(spec, "No.") and not takes(spec, call.replace("draw", "dram"))
    assert not takes(cd.Tools(tools, format="gemma", tool_choice="required"), "No.")


def refused(schema: dict[str, Any]) -> cd.GrammarError:
    with pytest.raises(cd.GrammarError) as caught:
        COMPILER.compile(tag({"type": "object", "properties": {"a": schema}}))
    return caught.value


def test_what_is_refused() -> None:
    at = "/format/json_schema/properties/a"
    overlapping = [{"type": "object", "properties": {"x": {"type": "integer"}}}, {"type": "object"}]
    many = [{"type": "object", "properties": {"x": {"const": i}}, "required": ["x"]} for i in range(9)]
    for schema, location in (
        ({"type": "array", "uniqueItems": True}, "/uniqueItems"),
        ({"type": "object", "minProperties": 1}, "/minProperties"),
        ({"oneOf": overlapping}, "/oneOf"),
        ({"oneOf": many}, "/oneOf"),
        ({"type": "array", "items": False, "minItems": 1}, ""),
        ({"type": "array", "minItems": 2, "maxItems": 1}, ""),
    ):
        error = refused(schema)
        assert error.location == at + location, (schema, error)
    assert takes(tag({"type": "object", "properties": {"a": {"oneOf": many[:8]}}}), "{a:{x:7}}")
    with pytest.raises(cd.GrammarError, match="bad schema of parameters"):
        COMPILER.compile(tag({"type": "array"}))
