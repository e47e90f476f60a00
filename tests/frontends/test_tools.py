"""Tool calls and deferred activation, end to end with a vocabulary of bytes."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import jsonschema
import pytest
from engine_tools import NO, OPEN, YES, mask, outcome

import cdplugin as cd
from cdplugin.errors import GrammarError, UnsupportedError

WORDS = [
    b"<tool_call>",
    b"</tool_call>",
    b'{"name": "',
    b'", "arguments": ',
    b'", "parameters": ',
    b"weather",
    b"add",
    b"<think>",
    b"</think>",
]
VOCAB = cd.Vocabulary.from_bytes(
    [*(bytes([b]) for b in range(256)), *WORDS, b"[TOOL_CALLS]", b"<|x|>", b"</s>"],
    eos_token_ids=256 + len(WORDS) + 2,
    special_token_ids=[256 + len(WORDS), 256 + len(WORDS) + 1],
)
COMPILER = cd.Compiler(VOCAB)
CALLS, X, END = (256 + len(WORDS) + i for i in range(3))
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
ADD = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "the weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "add", "parameters": ADD, "strict": True}},
]


def hermes(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


A, W = '{"a": 1, "b": 2}', '{"city": "Oslo"}'


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (
            {},
            {
                "": YES,
                "Hello <b>": YES,
                hermes("add", A): YES,
                "so " + hermes("weather", W) + " and " + hermes("add", A) + ".": YES,
            },
        ),
        ({}, {hermes("add", '{"a": "')[:-14]: NO, hermes("sub", A)[:32]: NO, "<tool_call>": OPEN, "<tool_call>x": NO}),
        ({"parallel": False}, {"a" + hermes("add", A): YES, hermes("add", A) + "x": NO}),
        ({"tool_choice": "none"}, {"hi": YES, "<tool_call>": NO}),
        (
            {"tool_choice": "required"},
            {"": OPEN, "h": NO, hermes("add", A): YES, hermes("add", A) + "\n" + hermes("weather", W): YES},
        ),
        ({"tool_choice": "required", "parallel": False}, {hermes("add", A): YES, hermes("add", A) + "\n": NO}),
        ({"tool_choice": "add"}, {hermes("add", A): YES, hermes("weather", W)[:32]: NO, hermes("add", A) + "\n": NO}),
        ({"tool_choice": {"type": "function", "function": {"name": "add"}}}, {hermes("add", A): YES, "x": NO}),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOLS[0]]}}},
            {"x": YES, hermes("weather", W): YES, hermes("add", A)[:32]: NO},
        ),
        (
            {"format": "llama3"},
            {'{"name": "add", "parameters": ' + A + "}": YES, "hello {": YES, '{"x": 1}': YES, '{"name": "x': NO, "": YES},
        ),
        (
            {"format": "llama3", "tool_choice": "required"},
            {'{"name": "add", "parameters": ' + A + '}; {"name": "weather", "parameters": ' + W + "}": YES, "h": NO},
        ),
        (
            {"format": "mistral"},
            {
                '[TOOL_CALLS][{"name": "add", "arguments": ' + A + '}, {"name": "weather", "arguments": ' + W + "}]": YES,
                "[TOOL": YES,
            },
        ),
        ({"format": "mistral"}, {'a[TOOL_CALLS][{"name": "add", "arguments": ' + A + "}]b": NO, "[TOOL_CALLS]x": NO}),
        ({"format": "mistral", "parallel": False}, {'[TOOL_CALLS][{"name": "add", "arguments": ' + A + "}]": YES}),
        ({"format": "mistral", "parallel": False}, {'[TOOL_CALLS][{"name": "add", "arguments": ' + A + "},": NO}),
        (
            {"format": "json", "tool_choice": "required"},
            {'[{"name": "add", "arguments": ' + A + "}]": YES, "[]": NO, '{"': NO},
        ),
        (
            {"format": "json", "parallel": False},
            {'{"name": "add", "arguments": ' + A + "}": YES, "see [1] {": YES, '{"name": "z': NO},
        ),
        (
            {"format": "qwen_xml"},
            {
                "ok\n<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>2</parameter>\n"
                "</function>\n</tool_call>": YES,
                "<tool_call>\n<function=add>\n<parameter=a>\nx": NO,
            },
        ),
        (
            {"format": cd.ToolFormat("<{name}>", "</>", "<"), "tool_choice": "auto"},
            {"a <add>" + A + "</> b": YES, "a <c": NO},
        ),
        (
            {"format": cd.ToolFormat("<{name}|{name}>", "</{name}>"), "tool_choice": "required"},
            {"<add|add>" + A + "</add>": YES, "<add|weather>": NO, "<add|add>" + A + "</w": NO},
        ),
    ],
    ids=range(20),
)
def test_choices_and_formats(options: dict[str, Any], texts: dict[str, tuple[bool, bool]]) -> None:
    for text, expected in texts.items():
        assert outcome(COMPILER, cd.Tools(TOOLS, **options), text) == expected, text


def test_calls_with_special_tokens() -> None:
    """``[TOOL_CALLS]`` is a special token of this vocabulary: the call may begin with it."""
    spec = cd.Tools(TOOLS, format="mistral")
    call = ('[{"name": "add", "arguments": ' + A + "}]").encode()
    assert outcome(COMPILER, spec, [*b"hi ", CALLS, *call]) == YES
    assert outcome(COMPILER, spec, [CALLS, *b"x"]) == NO
    assert outcome(COMPILER, spec, [*b"hi ", X]) == NO


@pytest.mark.parametrize("parameters", [None, {}, True, {"properties": {"x": {}}}, {"required": []}], ids=str)
def test_arguments_are_an_object(parameters: Any) -> None:
    spec = cd.Tools([{"name": "f", "parameters": parameters}], tool_choice="required")
    assert outcome(COMPILER, spec, hermes("f", '{"x": 3}')) == YES and outcome(COMPILER, spec, hermes("f", "3"))[0] is False


WORDS_END = 256 + WORDS.index(b"</tool_call>")


@pytest.mark.parametrize("seed", range(4))
def test_random_walks_make_valid_calls(seed: int) -> None:
    """Whatever is sampled under the mask: every call in the answer is valid under its tool's schema."""
    rng = random.Random(seed)
    spec = cd.Tools(TOOLS, tool_choice="required")
    grammar = COMPILER.compile(spec)
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    pattern = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
    found = 0
    for _ in range(15):
        matcher = grammar.matcher()
        for _ in range(1000):
            if matcher.is_terminated():
                break
            allowed = mask(matcher)
            closing = [t for t in (END, *b'"}]\n0e', WORDS_END) if t in allowed]
            is_long = len(matcher.tokens) > 60
            ids = closing[:1] if closing and (is_long or rng.random() < 0.2) else sorted(allowed - {END} or allowed)
            matcher.accept_token(rng.choice(ids))
        assert matcher.is_terminated()
        text = VOCAB.decode([t for t in matcher.tokens if t != END]).decode()
        for call in pattern.findall(text):
            value = json.loads(call)
            jsonschema.validate(value["arguments"], schemas[value["name"]])
            found += 1
    assert found >= 15


def test_a_broken_tool_names_itself_and_spares_the_others() -> None:
    tools = [
        *TOOLS,
        {
            "type": "function",
            "function": {"name": "bad", "parameters": {"type": "object", "properties": {"x": {"type": "strin"}}}},
        },
    ]
    with pytest.raises(GrammarError, match=re.escape("tool 'bad': ")) as caught:
        COMPILER.compile(cd.Tools(tools))
    assert caught.value.location == "/2/function/parameters/properties/x/type"
    spec = cd.Tools(tools, on_broken="skip")
    ((name, problem),) = spec.broken_tools().items()
    assert (name, problem.location) == ("bad", "/2/function/parameters/properties/x/type")
    assert outcome(COMPILER, spec, hermes("add", A)) == YES and outcome(COMPILER, spec, hermes("bad", "{}")[:33]) == NO
    spec = cd.Tools(tools, on_broken="any")
    assert outcome(COMPILER, spec, hermes("bad", '{"x": [1]}')) == YES and list(spec.broken_tools()) == ["bad"]
    assert cd.Tools(TOOLS).broken_tools() == {}


def test_unsupported_is_broken_too() -> None:
    parameters = {"type": "array", "uniqueItems": True, "prefixItems": [{}], "contains": {"type": "object"}}
    tools = [*TOOLS, {"name": "u", "parameters": parameters}]
    spec = cd.Tools(tools, on_broken="skip")
    assert isinstance(spec.broken_tools()["u"], UnsupportedError) and "uniqueItems" in str(spec.broken_tools()["u"])
    with pytest.raises(UnsupportedError, match="tool 'u': "):
        COMPILER.compile(cd.Tools(tools))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cd.Tools("x"), "bad tools: expected a list of tools, found str"),
        (lambda: cd.Tools([1]), "bad tool: expected an object, found int - at /0"),
        (
            lambda: cd.Tools([len]),
            "an object (transformers.utils.get_json_schema makes one of a function), found builtin_function_or_method - at /0",
        ),
        (lambda: cd.Tools([{"type": "web_search"}]), "bad tool: expected"),
        (
            lambda: cd.Tools([{"type": "function", "function": {}}]),
            "bad tool: expected a name, found None - at /0/function/name",
        ),
        (
            lambda: cd.Tools([{"name": "f", "input_schema": {"type": "object"}}]),
            "bad tool: expected the schema of its arguments as 'parameters', found 'input_schema' - at /0/input_schema",
        ),
        (lambda: cd.Tools([TOOLS[0], TOOLS[0]]), "two tools have the same name: found 'weather' - at /1/function/name"),
        (
            lambda: cd.Tools(TOOLS, tool_choice="sub"),
            "tool_choice names no tool: expected auto, none, required or one of 'weather', 'add', found 'sub'",
        ),
        (
            lambda: cd.Tools(TOOLS, tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "named", "tools": []}}),
            "bad mode of allowed_tools: expected auto or required, found 'named' - at /tool_choice",
        ),
        (lambda: cd.Tools(TOOLS, format="gpt"), "unknown format of tool calls: expected one of hermes, llama3"),
        (lambda: cd.Tools(TOOLS, format=cd.ToolFormat("x", "y")), "expected {name} in begin"),
        (lambda: cd.Tools(TOOLS, format=cd.ToolFormat("{name}", None)), "bad format of tool calls: expected texts, found Tool"),  # type: ignore[arg-type]
        (lambda: cd.Tools(TOOLS, on_broken="x"), "bad value of on_broken: expected error, skip or any, found 'x'"),
        (lambda: COMPILER.compile(cd.Tools([], tool_choice="required")), "no tool can be called, but a call is required"),
        (lambda: cd.After("x", "y"), "wrong type of spec: expected a cdplugin.Spec, found str"),
        (lambda: COMPILER.compile(cd.After([], cd.Choice(["a"]))), "bad trigger: expected a text or a token id, found none"),
        (lambda: COMPILER.compile(cd.After("", cd.Choice(["a"]))), "bad trigger: expected a text that is not empty"),
        (
            lambda: COMPILER.compile(cd.After("x", cd.Choice(["a"]), then="x")),
            "bad value of then: expected one of end, free, repeat",
        ),
        (lambda: COMPILER.compile(cd.After("x", cd.Choice(["a"]), max_chars=-1)), "bad max_chars: expected a number from 0"),
        (lambda: COMPILER.compile(cd.After("x", cd.Regex("("))), "position 0"),
    ],
    ids=range(20),
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(message)):
        make()


# --- After --------------------------------------------------------------------------------------------------------------------

AB = cd.Choice(["yes", "no"])


@pytest.mark.parametrize(
    ("spec", "texts"),
    [
        (cd.After("=>", AB), {"": YES, "a = b": YES, "a =>": OPEN, "a =>yes": YES, "a =>x": NO, "a =>yesx": NO, "é=": YES}),
        (cd.After("=>", AB, required=True), {"": OPEN, "a": OPEN, "=>no": YES}),
        (cd.After("=>", AB, then="free"), {"=>no, and => x": YES, "=>nox": YES, "=>n": OPEN}),
        (cd.After("=>", AB, then="repeat"), {"=>no a =>yes b": YES, "=>no a =>z": NO}),
        (  # the trigger must come once, not without end
            cd.After("=>", AB, required=True, then="repeat"),
            {"": OPEN, "a": OPEN, "=>no": YES, "=>no a": YES, "a=>no=>yes": YES, "=>no=>": OPEN, "=>no=>z": NO},
        ),
        # the first trigger counts, where tokens before it are counted too
        (cd.After("aa", cd.Regex("b"), max_tokens=9), {"xaab": YES, "aaab": NO, "xaa": OPEN, "xaxaab": YES}),
        (cd.After("\n\n", cd.Regex("b"), max_tokens=9, max_chars=8), {"x\n\nb": YES, "x\n\n\nb": NO, "\n": YES}),
        (cd.After(["ab", "abc"], cd.Regex("c?d"), max_tokens=9), {"abd": YES, "abcd": YES, "abccd": NO}),
        (
            cd.After(["aba", "bb"], cd.Regex("c"), max_tokens=9),
            {"abac": YES, "bbc": YES, "ababac": NO, "babac": YES, "bbac": NO},
        ),
        (cd.After(["=>", "::"], AB), {"a::yes": YES, "a=>no": YES, "a::x": NO}),
        (cd.After("</think>", AB, begin="<think>", required=True), {"<think>a</think>no": YES, "a": NO, "<think></thin": OPEN}),
        (cd.After("!", AB, required=True, max_chars=2), {"éé!no": YES, "ééé": NO, "!no": YES, "ab": OPEN}),
        (cd.After("!", AB, required=True, max_tokens=2), {"ab!no": YES, "abc": NO, "!no": YES}),
        (cd.After("!", AB, max_tokens=0), {"!no": YES, "a": NO, "": YES}),
    ],
    ids=range(14),
)
def test_after(spec: cd.Spec, texts: dict[str, tuple[bool, bool]]) -> None:
    for text, expected in texts.items():
        assert outcome(COMPILER, spec, text) == expected, text


def test_after_a_token() -> None:
    spec = cd.After(X, AB)
    assert outcome(COMPILER, spec, [*b"hi", X, *b"yes"]) == YES and outcome(COMPILER, spec, [*b"hi", X, *b"h"]) == NO
    by_name = cd.After("<|x|>", AB)  # spelled out, or as the token
    assert outcome(COMPILER, by_name, [*b"hi", X, *b"yes"]) == YES and outcome(COMPILER, by_name, "hi<|x|>yes") == YES
    assert outcome(COMPILER, by_name, [*b"hi", CALLS]) == NO
    for bound in (None, 9):  # `</a>` has the form of a special token, but is none
        later = cd.After(["</a><|x|>", "b<|x|>", "ab"], AB, required=True, max_tokens=bound)
        for start in ("hi</a>", "hi</a><|x|>", "cb", "cb<|x|>"):
            token = [] if start.endswith("|>") else [X]
            assert outcome(COMPILER, later, [*start.encode(), *token, *b"yes"]) == YES, start
    both = cd.After("<|x|>", AB, special_tokens=["[TOOL_CALLS]"])
    assert outcome(COMPILER, both, [*b"hi", CALLS, *b"<|", CALLS, X, *b"no"]) == YES
    assert outcome(COMPILER, both, [*b"<|", CALLS, *b"x|>"]) == YES  # a token in between: no trigger
    for one in ("<|x|>", X):  # a trigger even if it is listed as a token of the free text
        listed = cd.After(one, AB, then="free", special_tokens=[one])
        assert outcome(COMPILER, listed, [*b"hi", X, *b"h"]) == NO and outcome(COMPILER, listed, [X, *b"no", X]) == YES
    assert outcome(COMPILER, cd.After(X, AB, then="free", special_tokens=[CALLS]), [X, *b"no", CALLS, *b"z"]) == YES


def test_the_trigger_may_be_cut_anywhere() -> None:
    """All ways to cut a text into tokens lead to the same mask."""
    matcher = COMPILER.compile(cd.After("</think>", AB, begin="<think>", required=True)).matcher()
    text = b"<think>so </think>"
    think, unthink = VOCAB.tokens.index(b"<think>"), VOCAB.tokens.index(b"</think>")
    seen = set()
    for cut in ([*text], [think, *b"so ", unthink], [*b"<think>so ", unthink], [think, *b"so </think>"]):
        matcher.reset()
        assert matcher.accept_tokens(cut) == len(cut)
        seen.add(frozenset(mask(matcher)))
    assert seen == {frozenset({ord("y"), ord("n")})}


def test_reasoning_then_a_schema() -> None:
    """Bounded thinking, then JSON: at the bound the end of the thinking is forced."""
    spec = cd.After("</think>\n", cd.JsonSchema(WEATHER), begin="<think>", required=True, max_chars=50)
    matcher = COMPILER.compile(spec).matcher()
    assert matcher.accept_tokens(list(b"<think>" + b"a" * 50)) == 57
    assert {VOCAB.tokens[t][:1] for t in mask(matcher)} == {b"<"}
    assert matcher.accept_tokens(list(b'</think>\n{"city": "x"}')) == 22 and matcher.is_accepting()
    counted = cd.After("</think>", cd.JsonSchema(WEATHER), begin="<think>", required=True, max_tokens=5)
    matcher = COMPILER.compile(counted).matcher()
    assert matcher.accept_tokens(list(b"<think>abcd")) == 11 and ord("e") in mask(matcher)
    assert matcher.accept_token(ord("e")) and {VOCAB.tokens[t][:1] for t in mask(matcher)} == {b"<"}


def test_triggers_that_begin_within_each_other_are_bounded() -> None:
    words = [f"a{'ab' * (i % 40)}a{i}" for i in range(400)]
    with pytest.raises(cd.LimitExceeded, match="triggers that begin within each other"):
        cd.Compiler(VOCAB).compile(cd.After(words, cd.Regex("b"), max_tokens=9))
    assert (
        cd.Compiler(VOCAB).compile(cd.After("ab" * 20_000, cd.Regex("c"), max_tokens=9)).matcher().accept_tokens(b"abab") == 4
    )
