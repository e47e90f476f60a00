"""Tool calls, triggers, templates and grammars end to end, with SmolLM2's vocabulary (49,152 ids).

Texts are followed by their canonical tokens. At each place some hundred tokens are compared with a second grammar over
single bytes, which steps through each token's bytes.
"""

from __future__ import annotations

import random
from functools import lru_cache

import pytest
from engine_tools import SLOW, mask
from tokenizers_data import smollm2

import cdplugin as cd

pytestmark = [pytest.mark.slow, pytest.mark.skipif(SLOW, reason="too much for interpreted or checked kernels")]

CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": CITY}}]
CALL = '{"name": "weather", "arguments": {"city": "São Paulo", "days": 3}}'
TAG = {
    "structures": [{"begin": "<function=weather>", "schema": CITY, "end": "</function>"}],
    "triggers": ["<function="],
}
CASES: list[tuple[cd.Spec, str]] = [
    (cd.Tools(TOOLS), f"I look at the weather, if a < b.\n<tool_call>\n{CALL}\n</tool_call>\nThat is it."),
    (cd.Tools(TOOLS, tool_choice="required"), f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>"),
    (cd.Tools(TOOLS, format="mistral"), f"Well, [TOOL_CALLS][{CALL}, {CALL}]"),
    (
        cd.Tools(TOOLS, format="qwen_xml"),
        "<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>",
    ),
    (cd.StructuralTag(TAG), 'é <function=weather>{"city": "日本"}</function> and <functional> is'),
    (
        cd.After("</think>", cd.JsonSchema(CITY), begin="<think>", required=True, max_chars=99),
        '<think>hm </ ok</think>{"city": ""}',
    ),
    (cd.After("=>", cd.Choice(["yes", "no"]), then="repeat"), "so =>yes and now =>no."),
    (cd.Template("Name: {name}\nAge: {age}\n", name="[A-Z][a-zé]+", age="[0-9]{1,3}"), "Name: André\nAge: 42\n"),
    (cd.Template("x = ").free("x", ";", max_chars=30).json("data", CITY), 'x = anything at all;{"city": "a"}'),
    (cd.Gbnf('root ::= root "+" term | term\nterm ::= [0-9]+ | "(" root ")"'), "1+(22+333)+4"),
]


@lru_cache(maxsize=1)
def vocabularies() -> tuple[cd.Vocabulary, cd.Vocabulary]:
    """SmolLM2's, and one of single bytes."""
    single = [*(bytes([b]) for b in range(256)), b"</s>"]
    return cd.Vocabulary.from_huggingface(smollm2()), cd.Vocabulary.from_bytes(single, eos_token_ids=256)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_end_to_end(number: int) -> None:
    spec, text = CASES[number]
    vocab, single = vocabularies()
    matcher, stepper = cd.Compiler(vocab).compile(spec).matcher(), cd.Compiler(single).compile(spec).matcher()
    ids = smollm2().encode(text, add_special_tokens=False)
    rng = random.Random(number)
    ends = set(vocab.eos_token_ids)
    special = set(vocab.special_tokens.values())
    for token in ids:
        allowed = mask(matcher)
        assert token in allowed, (vocab.tokens[token], matcher.tokens)
        some = {token, *rng.sample(range(vocab.size), 150), *rng.sample(sorted(allowed), min(len(allowed), 50))} - ends
        for other in some:
            data = vocab.tokens[other]
            stepped = bool(data) and other not in special and stepper.validate_tokens(list(data or b"")) == len(data or b"")
            assert (other in allowed) == stepped, (data, matcher.tokens)
        assert bool(allowed & ends) == stepper.is_accepting()
        assert matcher.accept_token(token)
        assert stepper.accept_tokens(list(vocab.tokens[token] or b"")) == len(vocab.tokens[token] or b"")
    assert matcher.is_accepting() and stepper.is_accepting()


def test_captures_of_a_template() -> None:
    template = cd.Template("Name: {name}\nAge: {age}\n", name="[A-Z][a-zé]+", age="[0-9]{1,3}")
    vocab, _ = vocabularies()
    matcher = cd.Compiler(vocab).compile(template).matcher()
    matcher.accept_tokens(smollm2().encode("Name: André\nAge: 42\n", add_special_tokens=False))
    assert template.values(matcher.captures()) == {"name": "André", "age": "42"}
