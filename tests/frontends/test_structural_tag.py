"""Structural tags: free text, triggers and tags as xgrammar documents them; and special tokens, which it does not have."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from engine_tools import NO, OPEN, YES, mask, outcome, vocabulary
from xgrammar_peer import ASCII, Peer

import cdplugin as cd
from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError

TEXTS = [
    b"<tool",
    b"_call>",
    b"<tool_call>",
    b"</tool_call>",
    b"</",
    b"<",
    b"ab",
    b"call",
    b">\n",
    b"<think>",
    b"</think>",
    b"k>a",
]
VOCAB = vocabulary([*TEXTS, b"<function=f>", b"=g>n", b"ull", b'{"city": "', b"}</function>"])
SPECIAL = VOCAB.special_tokens["<special>"]
COMPILER = cd.Compiler(VOCAB)
END = VOCAB.eos_token_ids[0]
CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}


def tag(begin: Any, content: Any, end: Any) -> dict[str, Any]:
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def whole(fmt: Any) -> dict[str, Any]:
    return {"type": "structural_tag", "format": fmt}


ANY = {"type": "any_text"}
NULL = {"type": "json_schema", "json_schema": {"type": "null"}}
AB = {"type": "regex", "pattern": "(ab)+"}
CALLS = {
    "type": "triggered_tags",
    "triggers": ["<function="],
    "tags": [
        tag("<function=f>", {"type": "json_schema", "json_schema": CITY}, "</function>"),
        tag("<function=g>", NULL, "</function>"),
    ],
}
OLDER = {
    "structures": [
        {"begin": "<function=f>", "schema": CITY, "end": "</function>"},
        {"begin": "<function=g>", "schema": {"type": "null"}, "end": "</function>"},
    ],
    "triggers": ["<function="],
}


@pytest.mark.parametrize(
    ("fmt", "texts"),
    [
        (
            CALLS,
            {
                "": YES,
                "hello é": YES,
                "a <function=": OPEN,
                "a <functio": YES,
                "<function=h": NO,
                "<function=g>null</function>": YES,
            },
        ),
        (CALLS, {'x<function=f>{"city": "P"}</function>y<<function=g>null</function>': YES, "<function=g>1": NO}),
        (
            {**CALLS, "at_least_one": True},
            {"a": NO, "": OPEN, "<function=g>null</function>": YES, "<function=g>null</function>a": YES},
        ),
        (
            {**CALLS, "stop_after_first": True},
            {"a": YES, "a<function=g>null</function>": YES, "a<function=g>null</function>b": NO},
        ),
        (
            {**CALLS, "stop_after_first": True, "at_least_one": True},
            {"<function=g>null</function>": YES, "<function=g>null</function>b": NO, "b": NO},
        ),
        ({**CALLS, "excludes": ["no"]}, {"a n": YES, "a no": NO, "n<function=g>null</function>no": NO}),
        (
            tag("<think>", ANY, "</think>"),
            {"<think>a</thin": OPEN, "<think>a</think>": YES, "<think></think>": YES, "<think></think>a": NO},
        ),
        (tag("<a>", ANY, ["</a>", "</b>"]), {"<a>x</b>": YES, "<a>x</a>": YES, "<a></c>": OPEN, "<a></a></b>": NO}),
        (tag("<a>", {"type": "any_text", "max_chars": 2}, "!"), {"<a>éé!": YES, "<a>ééé": NO, "<a>!": YES}),
        (tag("<a>", {**CALLS}, "</a>"), {"<a>x<function=g>null</function>y</a>": YES, "<a>x</a>": YES, "<a>x</a>y": NO}),
        (
            tag("<a>", {"type": "sequence", "elements": [AB, ANY]}, "!"),
            {"<a>ababx!": YES, "<a>x": NO, "<a>ab!": YES, "<a>ab!!": NO},
        ),
        (
            {"type": "sequence", "elements": [{"type": "const_string", "value": "x"}, NULL]},
            {"xnull": YES, "x": OPEN, "null": NO},
        ),
        ({"type": "or", "elements": [AB, NULL]}, {"abab": YES, "null": YES, "nullab": NO, "": OPEN}),
        ({"type": "optional", "content": AB}, {"": YES, "ab": YES, "x": NO}),
        ({"type": "star", "content": NULL}, {"": YES, "nullnull": YES, "nul": OPEN}),
        ({"type": "plus", "content": NULL}, {"": OPEN, "nullnull": YES}),
        (
            {"type": "repeat", "min": 2, "max": 3, "content": NULL},
            {"null": OPEN, "nullnull": YES, "null" * 3: YES, "null" * 4: NO},
        ),
        ({"type": "repeat", "min": 1, "max": -1, "content": NULL}, {"": OPEN, "null" * 7: YES}),
        ({"type": "grammar", "grammar": 'root ::= "(" root ")" | "x"'}, {"((x))": YES, "((x)": OPEN, "x": YES, ")": NO}),
        (
            {"type": "grammar", "syntax": "lark", "grammar": 'start: "a" WORD\nWORD: /[b-d]+/\n%ignore " "'},
            {"a b": YES, "abc": YES, "a ": OPEN, "e": NO},
        ),
        ({"type": "any_text", "excludes": ["ab", "c"]}, {"ba": YES, "bab": NO, "c": NO, "a": YES}),
        (
            {"type": "tags_with_separator", "tags": [tag("<a>", AB, "</a>"), tag("<b>", NULL, "")], "separator": ", "},
            {"": YES, "<a>ab</a>": YES, "<a>ab</a>, <b>null": YES, "<a>ab</a>,": OPEN, "<a>ab</a><b>": NO},
        ),
        (
            {"type": "tags_with_separator", "tags": [tag("<a>", AB, "</a>")], "separator": "", "at_least_one": True},
            {"": OPEN, "<a>ab</a><a>ab</a>": YES},
        ),
        (
            {"type": "tags_with_separator", "tags": [tag("<a>", AB, "</a>")], "separator": ",", "stop_after_first": True},
            {"": YES, "<a>ab</a>": YES, "<a>ab</a>,": NO},
        ),
        (
            {"type": "dispatch", "rules": [["A", AB], ["B", NULL]], "excludes": ["!"]},
            {"": YES, "xAabx": YES, "xAx": NO, "Bnull": YES, "x!": NO, "AababBnull": YES, "Bnul": OPEN},
        ),
        ({"type": "dispatch", "rules": [["A", AB]], "loop": False}, {"x": YES, "xAab": YES, "xAabx": NO}),
    ],
    ids=range(26),
)
def test_formats(fmt: Any, texts: dict[str, tuple[bool, bool]]) -> None:
    for text, expected in texts.items():
        assert outcome(COMPILER, cd.StructuralTag(whole(fmt)), text) == expected, text


def test_older_shape_is_the_same() -> None:
    texts = [
        "",
        "hi",
        "<function=g>null</function>",
        '<function=f>{"city":"x","days":3}</function>.',
        "<function=x",
        "<function=f>[]",
    ]
    for older in (OLDER, json.dumps(OLDER)):
        assert [outcome(COMPILER, cd.StructuralTag(older), t) for t in texts] == [
            outcome(COMPILER, cd.StructuralTag(whole(CALLS)), t) for t in texts
        ]


def test_models_of_xgrammar() -> None:
    """What vLLM's tool parsers build: pydantic models."""
    module = pytest.importorskip("xgrammar.structural_tag")
    model = module.StructuralTag.model_validate(whole(CALLS))
    assert outcome(COMPILER, cd.StructuralTag(model), "a<function=g>null</function>") == YES
    assert outcome(COMPILER, cd.StructuralTag(model.model_dump_json()), "<function=x")[0] is False


@pytest.mark.parametrize("trigger", ["<f", "aab", "<<", "abab"])
def test_first_trigger_counts(trigger: str) -> None:
    """Free text up to its first trigger, against a search by hand, on all strings over the trigger's letters."""
    fmt = {
        "type": "triggered_tags",
        "triggers": [trigger],
        "tags": [tag(trigger + "!", {"type": "const_string", "value": "x"}, "")],
    }
    letters = sorted({*trigger, "!", "x"})
    matcher = cd.Compiler(VOCAB).compile(cd.StructuralTag(whole(fmt))).matcher()

    def expected(text: str) -> tuple[bool, bool]:
        at = text.find(trigger)
        if at < 0:
            return True, True
        rest, wanted = text[at + len(trigger) :], "!x"
        if len(rest) < len(wanted):
            return wanted.startswith(rest), False
        return expected(rest[len(wanted) :]) if rest.startswith(wanted) else (False, False)

    pending = [""]
    seen = 0
    while pending:
        text = pending.pop()
        matcher.reset()
        taken = matcher.accept_tokens(list(text.encode())) == len(text)
        assert (taken, taken and matcher.is_accepting()) == expected(text), text
        seen += 1
        if taken and len(text) < 7:
            pending += [text + letter for letter in letters]
    assert seen > 100


def test_tokens_may_cut_triggers_anywhere() -> None:
    """Masks at every byte of a text, reached by whatever tokens: those of stepping each token byte by byte."""
    grammar = cd.Compiler(VOCAB).compile(cd.StructuralTag(whole(CALLS)))
    text = b'call <<function=f>{"city": "ab<"}</function> ab <func'
    for end in range(len(text) + 1):
        matcher = grammar.matcher()
        assert matcher.accept_tokens(list(text[:end])) == end
        stepped = set()
        for token, data in enumerate(VOCAB.tokens):
            if data and token not in (SPECIAL, END) and matcher.validate_tokens(list(data)) == len(data):
                stepped.add(token)
        assert mask(matcher) - {END} == stepped
        assert (END in mask(matcher)) == matcher.is_accepting()


# --- special tokens -----------------------------------------------------------------------------------------------------------


def test_special_tokens_in_fixed_texts() -> None:
    """A trigger, a begin and an end may be written with a special token of that name, or spelled out."""
    calls = {"type": "triggered_tags", "triggers": ["<special>"], "tags": [tag("<special>x", ANY, "<special>")]}
    spec = cd.StructuralTag(whole(calls))
    assert outcome(COMPILER, spec, [*b"hi", SPECIAL, *b"xyz", SPECIAL, *b"hi"]) == YES
    assert outcome(COMPILER, spec, [*b"hi<special>x", SPECIAL]) == YES
    assert outcome(COMPILER, spec, "hi<special>x<special>") == YES
    assert outcome(COMPILER, spec, [*b"hi", SPECIAL, *b"y"])[0] is False
    assert outcome(COMPILER, cd.StructuralTag(whole(ANY)), [*b"hi", SPECIAL])[0] is False  # never as text
    several = {"type": "const_string", "value": "a<special><special>b<other>"}
    assert outcome(COMPILER, cd.StructuralTag(whole(several)), [*b"a", SPECIAL, *b"<special>b<other>"]) == YES


@pytest.mark.parametrize(
    ("fmt", "texts"),
    [
        (tag("<x>", ANY, "</x><special>"), {"<x>hi</x>§": YES, "<x>hi</x><special>": YES, "<x>hi§": NO}),
        (
            {"type": "triggered_tags", "triggers": ["<x><spe"], "tags": [tag("<x><special>", AB, "!")]},
            {"hi<x>§ab!": YES, "hi<x><special>ab!": YES, "hi<x>§<": NO, "hi§": NO},
        ),
        (
            {"type": "dispatch", "rules": [["<x><special>", AB], ["c<special>", NULL], ["bc", NULL]], "excludes": ["!<x>"]},
            {"hi<x>§ab": YES, "c§null": YES, "bcnull": YES, "bc§": NO, "bbc§": NO, "!<x": YES, "!<x>§": NO},
        ),
    ],
    ids=["end", "trigger", "dispatch"],
)
def test_a_special_token_after_what_only_looks_like_one(fmt: Any, texts: dict[str, tuple[bool, bool]]) -> None:
    """``<x>`` is no token of this vocabulary; ``§`` stands for the token ``<special>``, which no text can spell."""
    spec = cd.StructuralTag(whole(fmt))
    for text, expected in texts.items():
        tokens = [SPECIAL if char == "§" else ord(char) for char in text]
        assert outcome(COMPILER, spec, tokens) == expected, text


TOKEN = {"type": "token", "token": "<special>"}


@pytest.mark.parametrize(
    ("fmt", "texts"),
    [
        (TOKEN, {(SPECIAL,): YES, (97,): NO}),
        ({"type": "token", "token": 97}, {(97,): YES, (98,): NO}),
        ({"type": "exclude_token", "exclude_tokens": [97, "<special>"]}, {(97,): NO, (98,): YES, (SPECIAL,): NO, (98, 98): NO}),
        ({"type": "any_tokens", "max_tokens": 2}, {(): YES, (97, SPECIAL): YES, (97, 97, 97): NO}),
        ({"type": "any_tokens", "max_tokens": 0}, {(): YES, (97,): NO}),
        (tag(TOKEN, {"type": "any_tokens"}, TOKEN), {(SPECIAL, 97, SPECIAL): YES, (SPECIAL, SPECIAL, SPECIAL): NO}),
        (tag(TOKEN, NULL, TOKEN), {(SPECIAL, *b"null", SPECIAL): YES, (SPECIAL, *b"null"): OPEN, (*b"null",): NO}),
        (
            {
                "type": "token_triggered_tags",
                "trigger_tokens": ["<special>"],
                "tags": [tag(TOKEN, NULL, "")],
                "exclude_tokens": [33],
            },
            {(): YES, (97, SPECIAL, *b"null", 98): YES, (97, SPECIAL, 98): NO, (33,): NO},
        ),
        (
            {"type": "token_triggered_tags", "trigger_tokens": [33], "tags": [tag({"type": "token", "token": 33}, NULL, "")]}
            | {"at_least_one": True, "stop_after_first": True},
            {(): OPEN, (97,): NO, (*b"!null",): YES, (*b"!null!",): NO},
        ),
        ({"type": "token_dispatch", "rules": [[33, NULL]], "loop": False}, {(): YES, (*b"a!null",): YES, (*b"a!nulla",): NO}),
        (
            {"type": "sequence", "elements": [{"type": "any_text", "max_tokens": 2}, {"type": "const_string", "value": "!"}]},
            {(*b"!",): YES, (*b"ab!",): YES, (*b"abc",): NO},
        ),
    ],
    ids=range(11),
)
def test_token_formats(fmt: Any, texts: dict[tuple[int, ...], tuple[bool, bool]]) -> None:
    for tokens, expected in texts.items():
        assert outcome(COMPILER, cd.StructuralTag(whole(fmt)), list(tokens)) == expected, tokens


def test_bodies_may_be_specs() -> None:
    fmt = tag("<n>", cd.Regex("[0-9]{2}"), "</n>")
    assert outcome(COMPILER, cd.StructuralTag(whole(fmt)), "<n>42</n>") == YES
    either = {"type": "or", "elements": [cd.Gbnf('root ::= "x" root | "y"'), fmt]}
    assert outcome(COMPILER, cd.StructuralTag(whole(either)), "xxy") == YES


def written(grammar: cd.Grammar, rng: random.Random, steps: int, hurry: bytes = b"") -> str:
    """A text of the language: random ASCII tokens, those of the bytes ``hurry`` rather, then a short ending."""
    matcher = grammar.matcher()
    for _ in range(steps):
        ids = [t for t in mask(matcher) if t != END and (VOCAB.tokens[t] or b"\x80").isascii() and VOCAB.tokens[t] != b"\0"]
        liked = [t for t in ids if set(VOCAB.tokens[t] or b"") <= set(hurry)]
        if not ids:
            break
        assert matcher.accept_token(rng.choice(sorted(liked if liked and rng.random() < 0.5 else ids)))
    ending = [t for t in matcher.shortest_completion() if t != END]
    assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting()
    return VOCAB.decode(matcher.tokens).decode()


# --- parameters as XML --------------------------------------------------------------------------------------------------------

ARGUMENTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "mode": {"enum": ["a", "b", 1]},
        "code": {"type": ["string", "null"], "description": "free"},
        "tags": {"$ref": "#/$defs/tags"},
    },
    "required": ["name"],
    "$defs": {"tags": {"type": "array", "items": {"type": "string"}}},
}


@pytest.mark.parametrize(
    ("style", "texts"),
    [
        (
            "qwen_xml",
            {
                "<parameter=name>Bob\n<b></parameter>": YES,
                "\n<parameter=name>\nBob\n</parameter>\n<parameter=age>\n12\n</parameter>\n": YES,
                "<parameter=age>12</parameter>": NO,
                "<parameter=name>x</parameter><parameter=age>x": NO,
                "<parameter=name>x</parameter><parameter=mode>b</parameter><parameter=code>null</parameter>": YES,
                "<parameter=name>x</parameter><parameter=mode> 1</parameter>": YES,
                "<parameter=name>x</parameter><parameter=mode>c": NO,
                '<parameter=name>x</parameter><parameter=tags>["a"]</parameter>': YES,
                "<parameter=name>x</parameter><parameter=other>": NO,
            },
        ),
        ("minimax_xml", {'<parameter name="name">x</parameter><parameter name="age">3</parameter>': YES}),
        ("glm_xml", {"<arg_key>name</arg_key>\n<arg_value>x</arg_value>\n<arg_key>age</arg_key><arg_value>3</arg_value>": YES}),
        (
            "deepseek_xml",
            {
                '<｜DSML｜parameter name="name" string="true">x</｜DSML｜parameter>'
                '<｜DSML｜parameter name="age" string="false">3</｜DSML｜parameter>': YES,
                '<｜DSML｜parameter name="name" string="f': NO,
            },
        ),
        (
            "kimi_k3_xml",
            {
                '<|open|>argument key="name" type="string"<|sep|>x <b><|close|>argument<|sep|>': YES,
                '<|open|>argument key="name" type="string"<|sep|>x<|close|>argument<|sep|>'
                '<|open|>argument key="age" type="number"<|sep|> 3<|close|>argument<|sep|>': YES,
                '<|open|>argument key="name" type="number': NO,
                '<|open|>argument key="name" type="string"<|sep|>x<|close|>argument<|sep|>'
                '<|open|>argument key="tags" type="array"<|sep|>["a"]<|close|>argument<|sep|>': YES,
            },
        ),
        (
            "cohere_xml",
            {
                '<cofl:value name="name" type="raw">x</cofl:value>': YES,
                '<cofl:value name="name" type="raw">x</cofl:value> <cofl:value name="age" type="json">3</cofl:value>': YES,
                '<cofl:value name="name" type="raw">x</cofl:value><cofl:value name="code" type="json">null</cofl:value>': YES,
                '<cofl:value name="name" type="raw">x</cofl:value><cofl:value name="tags" type="list">'
                '<cofl:value type="raw">a</cofl:value><cofl:value type="raw"></cofl:value></cofl:value>': YES,
                '<cofl:value name="name" type="raw">x</cofl:value><cofl:value name="tags" type="j': NO,
            },
        ),
        (
            "minimax_m3_xml",
            {
                "]<]minimax[>[<name>x]<]minimax[>[</name>": YES,
                "]<]minimax[>[<name>x]<]minimax[>[</name>]<]minimax[>[<age>3]<]minimax[>[</age>": YES,
                "]<]minimax[>[<name>x]<]minimax[>[</name>\n]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>"
                "]<]minimax[>[</tags>\n": YES,
                "]<]minimax[>[<name>x]<]minimax[>[</age": NO,
                "]<]minimax[>[<name>x]<]minimax[>[</name>]<]minimax[>[<age> ": NO,
            },
        ),
    ],
)
def test_xml_styles(style: str, texts: dict[str, tuple[bool, bool]]) -> None:
    formats = [{"type": "json_schema", "json_schema": ARGUMENTS, "style": style}]
    formats += [{"type": "qwen_xml_parameter", "json_schema": ARGUMENTS}] if style == "qwen_xml" else []
    xgrammar = pytest.importorskip("xgrammar")
    for fmt in formats:
        theirs = xgrammar.testing._is_grammar_accept_string
        peer = xgrammar.Grammar.from_structural_tag(whole(fmt))
        for text, expected in texts.items():
            taken, accepting = outcome(COMPILER, cd.StructuralTag(whole(fmt)), text)
            assert (taken, accepting) == expected, text
            if "mode> 1" not in text:  # xgrammar writes all of a mixed enum as text, without white space
                assert theirs(peer, text) == (expected == YES), text


NESTED = {
    "type": "object",
    "properties": {
        "a&b": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"$ref": "#/$defs/list"}}, "required": ["x"]},
        "n": {"anyOf": [{"type": "integer"}, {"type": "null"}, {"$ref": "#/$defs/list"}]},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["a&b"],
    "$defs": {
        "list": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 2},
        "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}},
    },
}


def read_cohere(text: str, at: int = 0) -> tuple[list[tuple[str | None, Any]], int]:
    """The values of Cohere's XML, read with ``re``, and where the list ends."""
    out: list[tuple[str | None, Any]] = []
    opening = re.compile(r'\s*<cofl:value(?: name="([^"]*)")? type="(raw|json|dict|list)">')
    while (found := opening.match(text, at)) is not None:
        name, kind = found[1], found[2]
        if kind in ("raw", "json"):
            end = text.index("</cofl:value>", found.end())
            value: Any = text[found.end() : end]
            value = json.loads(value) if kind == "json" else value
        else:
            inner, end = read_cohere(text, found.end())
            value = dict(inner) if kind == "dict" else [value for _, value in inner]
            if kind == "dict":
                assert len(value) == len(inner), "a name twice"
        at = re.compile(r"\s*").match(text, end).end()  # type: ignore[union-attr]
        assert text.startswith("</cofl:value>", at), text[at:]
        at += len("</cofl:value>")
        out.append((None if name is None else name.replace("&amp;", "&"), value))
    return out, at


@pytest.mark.parametrize("any_order", [False, True])
def test_values_inside_each_other(any_order: bool) -> None:
    """Random texts of a style with nested elements, read by hand, are instances under jsonschema."""
    jsonschema = pytest.importorskip("jsonschema")
    fmt = {"type": "json_schema", "json_schema": NESTED, "style": "cohere_xml", "any_order": any_order}
    grammar = cd.Compiler(VOCAB).compile(cd.StructuralTag(whole(fmt)))
    rng = random.Random(any_order)
    orders = set()
    for _ in range(25):
        text = written(grammar, rng, 60).strip()
        pairs, end = read_cohere(text)
        assert not text[end:].strip() and len({name for name, _ in pairs}) == len(pairs)
        jsonschema.validate(dict(pairs), NESTED)
        orders.add(tuple(name for name, _ in pairs))
    backwards = [names for names in orders if list(names) != sorted(names, key=list(NESTED["properties"]).index)]
    assert bool(backwards) == any_order


def test_special_tokens_in_xml() -> None:
    """Where the vocabulary has the marks as special tokens, they are written as those, or spelled out."""
    marks = ["<|open|>", "<|close|>", "<|sep|>", "｜DSML｜", "]<]minimax[>["]
    size = 256 + len(marks)
    vocab = cd.Vocabulary.from_bytes(
        [*(bytes([b]) for b in range(256)), *(m.encode() for m in marks), b"</s>"],
        eos_token_ids=size,
        special_token_ids=list(range(256, size)),
    )
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
    texts = {
        "kimi_k3_xml": '<|open|>argument key="a" type="string"<|sep|>x<|close|>argument<|sep|>'
        '<|open|>argument key="b" type="number"<|sep|>3<|close|>argument<|sep|>',
        "deepseek_xml": '<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter>'
        '<｜DSML｜parameter name="b" string="false">3</｜DSML｜parameter>',
        "minimax_m3_xml": "]<]minimax[>[<a>x]<]minimax[>[</a>]<]minimax[>[<b>3]<]minimax[>[</b>",
    }
    for style, text in texts.items():
        grammar = cd.Compiler(vocab).compile(
            cd.StructuralTag(whole({"type": "json_schema", "json_schema": schema, "style": style}))
        )
        parts = re.split("(" + "|".join(map(re.escape, marks)) + ")", text)
        by_token = [t for part in parts for t in ([256 + marks.index(part)] if part in marks else part.encode())]
        for tokens in (by_token, list(text.encode())):
            matcher = grammar.matcher()
            assert matcher.accept_tokens(tokens) == len(tokens) and matcher.is_accepting(), style


@pytest.mark.parametrize("style", ["json", "qwen_xml", "kimi_k3_xml"])
def test_excludes_of_json_schema(style: str) -> None:
    """No string holds an excluded text, and nothing else changes: beside the same grammar without ``excludes``."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "o": {
                "type": "object",
                "properties": {"s": {"type": "string", "maxLength": 9}},
                "additionalProperties": {"enum": ["<x>", "<y"]},
            },
            "l": {"type": "array", "items": {"type": ["string", "integer"]}},
        },
        "required": ["a", "o"],
    }
    fmt: dict[str, Any] = {"type": "json_schema", "json_schema": schema, "style": style}
    plain = cd.Compiler(VOCAB).compile(cd.StructuralTag(whole(fmt)))
    strict = cd.Compiler(VOCAB).compile(cd.StructuralTag(whole({**fmt, "excludes": ["<x", "k>"]})))
    rng = random.Random(style)
    free = held = 0
    for _ in range(60):
        text = written(plain, rng, 50, hurry=b"<xk>")
        matcher = strict.matcher()
        data = text.encode()
        legal = matcher.accept_tokens(data) == len(data) and matcher.is_accepting()
        assert legal == ("<x" not in text and "k>" not in text), text
        held += not legal
        free += legal
    assert free > 5 and held > 5
    for text in ('a"b', "1.5", "true"):
        with pytest.raises(UnsupportedError, match="excludes that could match outside strings"):
            cd.Compiler(VOCAB).compile(cd.StructuralTag(whole({**fmt, "excludes": [text]})))


@pytest.mark.parametrize("schema", [True, {}, {"type": "object"}, {"type": "array"}, {"properties": {"a": {}}}], ids=repr)
def test_excludes_inside_any_value(schema: Any) -> None:
    fmt: dict[str, Any] = {"type": "json_schema", "json_schema": schema, "excludes": ["<|x|>"]}
    grammar = cd.Compiler(VOCAB).compile(cd.StructuralTag(whole(fmt)))
    for text in ('{"a": "%s"}', '{"%s": 1}', '["%s"]', '{"a": {"b": ["%s"]}}', '[["a", "%s"]]'):
        for inside in ("<|x|", "<|x|>"):
            data = (text % inside).encode()
            matcher = grammar.matcher()
            legal = matcher.accept_tokens(data) == len(data) and matcher.is_accepting()
            is_of_type = not isinstance(schema, dict) or schema.get("type") != {"{": "array", "[": "object"}[text[0]]
            assert legal == (is_of_type and inside != "<|x|>"), data


def test_white_space_of_xml() -> None:
    fmt = {"type": "json_schema", "json_schema": ARGUMENTS, "style": "qwen_xml", "max_whitespace_cnt": 1}
    spec = cd.StructuralTag(whole(fmt))
    assert outcome(COMPILER, spec, " <parameter=name>x</parameter>\n<parameter=age> 3 </parameter> ") == YES
    assert (
        outcome(COMPILER, spec, "  <")[0] is False and outcome(COMPILER, spec, "<parameter=name>x</parameter>\n\n")[0] is False
    )
    assert outcome(COMPILER, spec, '<parameter=name>x</parameter><parameter=tags>[ "a" , ') == OPEN
    assert outcome(COMPILER, spec, "<parameter=name>x</parameter><parameter=tags>[  ")[0] is False


def test_xml_without_properties_takes_any() -> None:
    for schema in (
        True,
        {},
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
    ):
        spec = cd.StructuralTag(whole({"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}))
        assert (
            outcome(COMPILER, spec, "") == YES
            and outcome(COMPILER, spec, "<parameter=x_1>1</parameter><parameter=y>2</parameter>") == YES
        )
    assert (
        outcome(COMPILER, spec, "<parameter=x_1>x")[0] is False and outcome(COMPILER, spec, "<parameter=a>x</parameter>") == YES
    )


# --- refusals -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (3, GrammarError, "bad structural tag: expected an object, found int - at /"),
        (
            "{",
            GrammarError,
            "the structural tag is not JSON (Expecting property name enclosed in double quotes) - at line 1, column 2",
        ),
        ("9" * 5_000, LimitExceeded, "a number that is too long: expected integers of at most 4300 digits"),
        ({"type": "x"}, GrammarError, 'bad structural tag: expected "structural_tag", found x - at /type'),
        ({"type": "structural_tag"}, GrammarError, "bad structural tag: expected a format, found none"),
        (
            {"type": "structural_tag", "format": ANY, "x": 1},
            GrammarError,
            "unknown field of a structural tag: expected type and format",
        ),
        (whole({"type": "any"}), GrammarError, "unknown type of format: expected one of const_string, json_schema"),
        (whole([]), GrammarError, "bad format: expected an object with a type, found list - at /format"),
        (whole({"type": "any_text", "exclude": []}), GrammarError, "unknown field of any_text: expected one of excludes"),
        (whole({"type": "any_text", "a/b": 1}), GrammarError, "found 'a/b' - at /format/a~1b"),
        (whole({"type": "any_text", "excludes": [""]}), GrammarError, "- at /format/excludes/0"),
        (whole({"type": "any_text", "max_chars": -1}), GrammarError, "bad value: expected a whole number from 0"),
        (whole({"type": "const_string"}), GrammarError, "bad const_string: expected a field 'value', found none - at /format"),
        (whole({"type": "or", "elements": []}), GrammarError, "bad or: expected at least one format"),
        (whole({"type": "repeat", "min": 3, "max": 2, "content": ANY}), GrammarError, "repetition runs backwards"),
        (whole(tag("a", ANY, [])), GrammarError, "bad end: expected a text"),
        (whole(tag(3, ANY, "x")), GrammarError, "expected a string or a format of type token, found int - at /format/begin"),
        (
            whole(tag(ANY, ANY, "x")),
            GrammarError,
            "bad delimiter of a tag: expected a string or a format of type token, found any_text",
        ),
        (
            whole({**CALLS, "triggers": []}),
            GrammarError,
            "bad triggers: expected at least one, found none - at /format/triggers",
        ),
        (
            whole({**CALLS, "triggers": ["<fun", "<function"]}),
            GrammarError,
            "exactly one of the triggers: expected '<fun', '<function'",
        ),
        (whole({**CALLS, "triggers": ["<x"]}), GrammarError, "found no trigger - at /format/tags/0/begin"),
        (whole({**CALLS, "triggers": ["<function=", "<y"]}), GrammarError, "no tag begins with the trigger: found '<y'"),
        (whole({"type": "json_schema", "json_schema": {"type": "strin"}}), GrammarError, "- at /format/json_schema/type"),
        (whole(tag("a", {"type": "regex", "pattern": "("}, "b")), GrammarError, "- at /format/content/pattern, position 0"),
        (whole({"type": "grammar", "grammar": "root ::= x"}), GrammarError, "- at /format/grammar, line 1, column 10"),
        (
            whole({"type": "grammar", "syntax": "lark", "grammar": "start: x"}),
            GrammarError,
            "- at /format/grammar, line 1, column 8",
        ),
        (
            whole({"type": "grammar", "syntax": "gbnf", "grammar": 'root ::= "a"'}),
            GrammarError,
            "unknown syntax of a grammar: expected 'ebnf' or 'lark', found gbnf - at /format/syntax",
        ),
        (whole({"type": "json_schema", "json_schema": {}, "style": "kimi_xml"}), UnsupportedError, "style of json_schema"),
        (whole({"type": "json_schema", "json_schema": {}, "excludes": ["1"]}), UnsupportedError, "excludes that could match"),
        (
            whole({"type": "qwen_xml_parameter", "json_schema": {"type": "object", "minProperties": 1}}),
            UnsupportedError,
            "minProperties is not supported here - at /format/json_schema/minProperties",
        ),
        (whole({"type": "qwen_xml_parameter", "json_schema": {"type": "array"}}), GrammarError, "bad schema of parameters"),
        (whole({"type": "token", "token": "<nope>"}), GrammarError, "the vocabulary has no token '<nope>'"),
        (whole({"type": "token", "token": "\ud800"}), GrammarError, "the vocabulary has no token '\\ud800'"),
        ({"structures": [{"begin": "a"}], "triggers": ["a"]}, GrammarError, "bad structure: expected begin, schema and end"),
        ({**OLDER, "triggers": ["<x"]}, GrammarError, "found no trigger - at /structures/0/begin"),
        ({**OLDER, "structures": []}, GrammarError, "bad structures: expected at least one, found none - at /structures"),
        (
            {"structures": [{"begin": "a", "schema": {"items": {"type": "x"}}, "end": "b"}], "triggers": ["a"]},
            GrammarError,
            "- at /structures/0/schema/items/type",
        ),
    ],
    ids=range(37),
)
def test_refusals(given: Any, kind: type[GrammarError], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        cd.Compiler(VOCAB).compile(cd.StructuralTag(given))


def test_a_class_is_no_spec() -> None:
    with pytest.raises(GrammarError, match="bad format: expected an object with a type, found type - at /format"):
        COMPILER.compile(cd.StructuralTag(whole(cd.Regex)))


def test_nesting_is_bounded() -> None:
    fmt: Any = ANY
    for _ in range(3000):
        fmt = {"type": "optional", "content": fmt}
    with pytest.raises(LimitExceeded, match="nested too deeply"):
        cd.Compiler(VOCAB).compile(cd.StructuralTag(whole(fmt)))
    deep = '{"type": "optional", "content": ' * 50_000
    with pytest.raises(GrammarError):
        cd.Compiler(VOCAB).compile(cd.StructuralTag(deep))


# --- beside xgrammar ----------------------------------------------------------------------------------------------------------

XML = {"type": "json_schema", "json_schema": ARGUMENTS, "style": "qwen_xml"}
PEERS: list[tuple[Any, list[bytes]]] = [
    (
        {**CALLS, "tags": [tag("<function=f>", AB, "</function>"), tag("<function=gg>", AB, "</f>")]},
        [b"a <function=f>abab</function> <function=gg>ab</f>"],
    ),
    (
        {"type": "triggered_tags", "triggers": ["<t"], "tags": [tag("<t>", AB, "</t>")], "at_least_one": True},
        [b"<t>ab</t> x <t>"],
    ),
    (
        {"type": "triggered_tags", "triggers": ["<t"], "tags": [tag("<t>", AB, "</t>")], "stop_after_first": True},
        [b"x <t>abab</t>"],
    ),
    (
        {"type": "triggered_tags", "triggers": ["aab"], "tags": [tag("aabx", AB, "!")], "excludes": ["bb", "ccc"]},
        [b"aaaabxab!aabxab!c"],
    ),
    (
        {"type": "triggered_tags", "triggers": ["<a", "<b"], "tags": [tag("<a>", AB, "</a>"), tag("<b>", ANY, "</b>")]},
        [b"<b>x<a>y</b><a>ab</a>"],
    ),
    (tag("<think>", ANY, "</think>"), [b"<think>so </ it </thin </think>"]),
    ({"type": "sequence", "elements": [tag("<think>", ANY, "</think>"), AB]}, [b"<think>so</think>abab"]),
    (
        {"type": "tags_with_separator", "tags": [tag("<a>", AB, "</a>"), tag("<b>", AB, "</b>")], "separator": ","},
        [b"<a>ab</a>,<b>abab</b>,"],
    ),
    ({"type": "dispatch", "rules": [["<a>", AB], ["<b>", AB]], "loop": True, "excludes": ["<c>"]}, [b"x<a>abx<b>ababx"]),
    ({"type": "dispatch", "rules": [["<a>", AB]], "loop": False}, [b"x<a>ab"]),
    (tag("<o>", {"type": "dispatch", "rules": [["<a>", AB]], "excludes": ["</o>"]}, "</o>"), [b"<o>x<a>ab</o>"]),
    ({"type": "repeat", "min": 1, "max": 3, "content": tag("<", AB, ">")}, [b"<ab><abab><ab>"]),
    (  # triggers that are complete at once: the longer one counts
        {"type": "triggered_tags", "triggers": ["a", "<a"], "tags": [tag("ax", AB, "!"), tag("<a>", AB, "!")]},
        [b"xaxab!<a>ab!<ax"],
    ),
    (  # what is excluded, and complete together with a trigger, comes first
        {"type": "triggered_tags", "triggers": ["b", "c>"], "tags": [tag("bx", AB, "!"), tag("c>", AB, "!")]}
        | {"excludes": ["ab", ">"]},
        [b"a bxab!c", b"ab"],
    ),
    ({"type": "dispatch", "rules": [["<a>", AB], ["b", AB]], "excludes": ["b"]}, [b"x<a>abx", b"xb"]),
    # the free text of a dispatch ends where its excludes say, not at the end of the tag around
    (tag("<o>", {"type": "dispatch", "rules": [["<a>", AB]]}, "</o>"), [b"<o>x</o>y<a>ab</o>"]),
    (tag("<o>", {"type": "dispatch", "rules": [["<a>", ANY]], "loop": False}, "</o>"), [b"<o>x</o>y<a>ab</o>"]),
]


@pytest.mark.parametrize("number", range(len(PEERS)))
def test_masks_beside_xgrammar(number: int) -> None:
    fmt, texts = PEERS[number]
    peer = Peer([*ASCII, *TEXTS, b"<t>a", b"b</t", b"abab", b"<a>a", b"b</a>", b"aab", b"xab", b"</func"])
    theirs = peer.compiler.compile_structural_tag(json.dumps(whole(fmt)))
    rng = random.Random(number)
    assert peer.compare(cd.StructuralTag(whole(fmt)), theirs, rng, walks=30, steps=14, texts=texts) > 100


# --- what vLLM asks for: xgrammar's tags of whole model families -------------------------------------------------------------

MODELS = (
    "llama kimi kimi_k3 deepseek_r1 deepseek_v3_1 deepseek_v3_2 deepseek_v4 deepseek_v4_1 qwen_3 qwen_3_5 qwen_3_coder mimo"
    " harmony minimax minimax_m3 glm_4_7 cohere exaone"
).split()
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
    "additionalProperties": False,
}
NAMED = {"type": "function", "function": {"name": "weather"}}


def model_tag(model: str, choice: Any, **options: Any) -> Any:
    """The tag that xgrammar builds for a model, as vLLM asks for it."""
    module = pytest.importorskip("xgrammar.builtin_structural_tag")
    tools = [{"type": "function", "function": {"name": name, "parameters": WEATHER}} for name in ("weather", "forecast")]
    try:
        return module.get_model_structural_tag(model, tools=tools, tool_choice=choice, reasoning=True, **options)
    except ValueError as problem:
        if "Unknown format type" not in str(problem):
            raise
        pytest.skip(f"this xgrammar does not have it: {problem}")


@pytest.mark.parametrize("choice", ["auto", "required", "named"])
@pytest.mark.parametrize("model", MODELS)
def test_what_is_written_under_a_models_tag_is_xgrammars(model: str, choice: str) -> None:
    """Texts sampled under our masks, brought to their end, are accepted by xgrammar's grammar of the same tag."""
    tag = model_tag(model, NAMED if choice == "named" else choice)
    xgrammar = pytest.importorskip("xgrammar")
    peer = xgrammar.Grammar.from_structural_tag(tag)
    grammar = cd.Compiler(VOCAB).compile(cd.StructuralTag(tag))
    rng = random.Random(model + choice)
    for _ in range(4):
        text = written(grammar, rng, rng.randint(0, 40))
        assert xgrammar.testing._is_grammar_accept_string(peer, text), text


@pytest.mark.parametrize("options", [{"any_order": True}, {"max_whitespace_cnt": 2}], ids=["any order", "white space"])
@pytest.mark.parametrize("model", ["qwen_3_coder", "deepseek_v4", "kimi_k3", "cohere", "minimax_m3", "glm_4_7"])
def test_options_of_a_models_tag(model: str, options: dict[str, Any]) -> None:
    """The same with the options that a caller may pass on."""
    xgrammar = pytest.importorskip("xgrammar")
    tag = model_tag(model, "required", **options)
    peer = xgrammar.Grammar.from_structural_tag(tag)
    grammar = cd.Compiler(VOCAB).compile(cd.StructuralTag(tag))
    for seed in range(4):
        text = written(grammar, random.Random(seed), 60)
        assert xgrammar.testing._is_grammar_accept_string(peer, text), text
