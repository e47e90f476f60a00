"""Outputs end legally within a budget: random logits for several schemas, and generate() of a tiny model."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.0")

from host_tools import tiny_llama  # noqa: E402

import cdplugin as cd  # noqa: E402
from cdplugin.adapters.hf.budget import BudgetError  # noqa: E402
from cdplugin.adapters.hf.processor import GrammarLogitsProcessor  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

EOS, PAD = 256, 257
WORDS = [b'{"', b'":', b'", "', b'"}', b"},{", b"[[", b"]]", b'":"', b"name", b"true", b'":{"', b"abc", b"  "]
SIZE = 258 + len(WORDS)
VOCAB = cd.Vocabulary.from_bytes(
    [*(bytes([b]) for b in range(256)), b"</s>", b"<pad>", *WORDS], eos_token_ids=EOS, special_token_ids=[PAD]
)
COMPILER = cd.Compiler(VOCAB)

ADDRESS = {"type": "object", "properties": {"street": {"type": "string", "minLength": 8}, "no": {"type": "integer"}}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "record": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "home": {**ADDRESS, "required": ["street", "no"]},
            "ok": {"type": "boolean"},
        },
        "required": ["name"],
    },
    "tree": {
        "$defs": {
            "t": {"type": "object", "properties": {"c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["c"]}
        },
        "$ref": "#/$defs/t",
    },
    "distinct": {"type": "array", "items": {"enum": ["red", "green", "blue", 7]}, "uniqueItems": True, "minItems": 2},
    "counted": {"type": "array", "items": {"type": "string", "minLength": 3}, "minItems": 2, "contains": {"pattern": "z"}},
    "anything": {},
}


def text_of(ids: list[int], budget: int) -> bytes:
    """What was generated. Fails if the end token is not among the first ``budget`` tokens."""
    assert EOS in ids[:budget], f"no end within {budget} tokens: {VOCAB.decode(ids)!r}"
    return VOCAB.decode(ids[: ids.index(EOS)])


def walk(processor: GrammarLogitsProcessor, rows: int, budget: int, seed: int, sharpness: float) -> list[list[int]]:
    """Sample from random logits, as many tokens as the budget has."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((rows, 1), PAD)
    for _ in range(budget):
        logits = sharpness * torch.randn(rows, SIZE, generator=generator)
        logits[:, EOS] -= 5  # ends seldom of itself
        scores = processor(ids, logits)
        ids = torch.cat([ids, torch.multinomial(scores.softmax(-1), 1, generator=generator)], 1)
    return [row[1:].tolist() for row in ids]


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_random_logits(name: str, order: str) -> None:
    """From the smallest budget up, with flat and with peaked logits: all outputs are instances, and all end."""
    grammar = COMPILER.compile(cd.JsonSchema(SCHEMAS[name], property_order=order))
    least = len(grammar.matcher().shortest_completion()) + 1
    for extra in (0, 1, 5, 30):
        for sharpness in (1.0, 8.0):
            processor = GrammarLogitsProcessor(grammar, max_new_tokens=least + extra)
            for row in walk(processor, 4, least + extra, seed=extra, sharpness=sharpness):
                jsonschema.validate(json.loads(text_of(row, least + extra)), SCHEMAS[name])


def test_lark_with_longest_match() -> None:
    """Words need a space between them, brackets are closed."""
    spec = cd.Lark('start: expr\nexpr: WORD+ | "(" expr ")" | "let" WORD "=" expr "in" expr\nWORD: /[a-z]{2,6}/\n%ignore / +/')
    grammar = COMPILER.compile(spec)
    for budget in (3, 4, 12, 40):
        for row in walk(GrammarLogitsProcessor(grammar, max_new_tokens=budget), 6, budget, seed=budget, sharpness=2.0):
            text = text_of(row, budget)
            assert text.count(b"(") == text.count(b")")
            matcher = grammar.matcher()
            assert matcher.accept_tokens(text) == len(text) and matcher.is_accepting()


def test_a_budget_that_is_too_small() -> None:
    grammar = COMPILER.compile(cd.Choice(["yes", "maybe"]))
    processor = GrammarLogitsProcessor(grammar, max_new_tokens=3)
    with pytest.raises(BudgetError, match="row 0: max_new_tokens=3: expected at least 4, .* with its stop token"):
        processor(torch.tensor([[PAD]]), torch.zeros(1, SIZE))
    for wrong in (0, -1, True, 2.5):
        with pytest.raises(ValueError, match="max_new_tokens: expected a positive integer"):
            GrammarLogitsProcessor(grammar, max_new_tokens=wrong)  # type: ignore[arg-type]


def test_continuous_batching_has_budgets_of_its_own() -> None:
    processor = GrammarLogitsProcessor(COMPILER.compile(cd.Choice(["a"])), max_new_tokens=5)
    with pytest.raises(cd.CdpluginError, match="continuous batching: expected no max_new_tokens"):
        processor.attach(object())


def test_exactly_the_tokens_that_fit() -> None:
    """Of few tokens all are looked at: what is left open is what brute force over the words says."""
    words = ["a", "bb", "bbbb", "cc", "dddddd"]
    grammar = COMPILER.compile(cd.Choice(words))
    for budget in range(2, 8):
        scores = GrammarLogitsProcessor(grammar, max_new_tokens=budget)(torch.tensor([[PAD]]), torch.zeros(1, SIZE))
        expected = {ord(word[0]) for word in words if len(word) + 1 <= budget}
        assert set(torch.isfinite(scores[0]).nonzero().flatten().tolist()) == expected


def test_unlikely_tokens_that_fit() -> None:
    """Behind hundreds of likelier tokens that do not fit, those that do are found, likely or not."""
    likely = [b"%c%02d" % (first, second) for first in b"pqrst" for second in range(100)]
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), *likely, b"</s>"], eos_token_ids=256 + len(likely))
    grammar = cd.Compiler(vocab).compile(cd.Choice([*(f"{t.decode()}{'x' * 50}" for t in likely), "zz", "yyy"]))
    logits = torch.zeros(1, vocab.size)
    logits[0, 256:] = 4.0
    scores = GrammarLogitsProcessor(grammar, max_new_tokens=5)(torch.tensor([[PAD]]), logits)
    assert set(torch.isfinite(scores[0]).nonzero().flatten().tolist()) == {ord("z"), ord("y")}
    logits[0, ord("z")] = 20.0  # has all the probability
    scores = GrammarLogitsProcessor(grammar, max_new_tokens=5)(torch.tensor([[PAD]]), logits)
    assert set(torch.isfinite(scores[0]).nonzero().flatten().tolist()) == {ord("z"), ord("y")}


def test_an_ending_that_another_processor_forbade() -> None:
    """Everything that fits is at minus infinity already: the ending comes all the same."""
    grammar = COMPILER.compile(cd.Regex("a+b"))
    logits = torch.zeros(1, SIZE)
    logits[0, ord("b")] = -torch.inf
    scores = GrammarLogitsProcessor(grammar, max_new_tokens=3)(torch.tensor([[PAD]]), logits)
    assert set(torch.isfinite(scores[0]).nonzero().flatten().tolist()) == {ord("a")}
    processor = GrammarLogitsProcessor(grammar, max_new_tokens=3)
    processor(torch.tensor([[PAD]]), logits)
    scores = processor(torch.tensor([[PAD, ord("a")]]), logits)
    assert set(torch.isfinite(scores[0]).nonzero().flatten().tolist()) == {ord("b")}


def test_rows_that_are_free_and_rows_that_have_ended() -> None:
    grammar = COMPILER.compile(cd.Choice(["ab"]))
    processor = GrammarLogitsProcessor([grammar, None], max_new_tokens=5)
    ids = torch.tensor([[PAD], [PAD]])
    for tokens in ([97, 5], [98, 6], [EOS, 7]):
        scores = processor(ids, torch.zeros(2, SIZE))
        assert torch.isfinite(scores[0]).nonzero().flatten().tolist() == [tokens[0]]
        assert torch.isfinite(scores[1]).all()
        ids = torch.cat([ids, torch.tensor(tokens)[:, None]], 1)
    assert torch.isfinite(processor(ids, torch.zeros(2, SIZE))[0, EOS])


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny_llama(SIZE, EOS, PAD)


MODES: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampling": {"do_sample": True, "num_return_sequences": 4},
    "warped": {"do_sample": True, "temperature": 1.5, "top_p": 0.9, "num_return_sequences": 4},
    "beams": {"do_sample": False, "num_beams": 3},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["record", "tree"])
def test_generate(model: Any, mode: str, name: str) -> None:
    grammar = COMPILER.compile(cd.JsonSchema(SCHEMAS[name]))
    for budget in (24, 50):
        processor = GrammarLogitsProcessor(grammar, max_new_tokens=budget)
        prompt = torch.tensor([[65, 66, 67]])
        torch.manual_seed(1)
        out = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), logits_processor=[processor], max_new_tokens=budget, **MODES[mode]
        )
        for row in out[:, 3:].tolist():
            jsonschema.validate(json.loads(text_of(row, budget)), SCHEMAS[name])


def test_greedy_is_left_alone_where_it_fits(model: Any) -> None:
    """Where the output without a budget is short enough, the budget changes nothing."""
    grammar = COMPILER.compile(cd.Regex(r"[a-c]{1,30}(!|\?)"))
    seen = 0
    for start in range(60, 72):
        prompt = torch.tensor([[start]])
        options = {"attention_mask": torch.ones_like(prompt), "do_sample": False, "max_new_tokens": 40}
        plain = model.generate(prompt, logits_processor=[GrammarLogitsProcessor(grammar)], **options)
        bounded = model.generate(prompt, logits_processor=[GrammarLogitsProcessor(grammar, max_new_tokens=20)], **options)
        text = text_of(bounded[0, 1:].tolist(), 20).decode()
        assert re.fullmatch(r"[a-c]{1,30}(!|\?)", text)
        if plain.shape[1] - 1 <= 20:
            seen += 1
            assert torch.equal(plain, bounded)
    assert seen
