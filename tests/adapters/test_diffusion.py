"""The diffusion loop with random logits and with a small trained transformer; and gaps filled by a left-to-right model."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from engine_tools import vocabulary

import cdplugin as cd

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
from cdplugin.adapters.diffusion import ORDERS, diffuse, fill_in  # noqa: E402

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example() -> Any:
    """examples/train_diffusion.py as a module."""
    if "train_diffusion" not in sys.modules:
        spec = importlib.util.spec_from_file_location("train_diffusion", EXAMPLES / "train_diffusion.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules["train_diffusion"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["train_diffusion"]


class RandomModel:
    """Logits at random, the same for the same input."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self.seed = size, seed

    def __call__(self, input_ids: Any) -> Any:
        generator = torch.Generator().manual_seed(self.seed + int(input_ids.sum()))
        return SimpleNamespace(logits=torch.randn(*input_ids.shape, self.size, generator=generator))


class OneText:
    """A model that is sure of one text."""

    def __init__(self, size: int, tokens: list[int], before: int = 0) -> None:
        self.size, self.tokens, self.before = size, tokens, before

    def __call__(self, input_ids: Any) -> Any:
        logits = torch.zeros(*input_ids.shape, self.size)
        for i, token in enumerate(self.tokens):
            logits[0, self.before + i, token] = 9.0 + i % 3
        return SimpleNamespace(logits=logits)


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


def infill_for(spec: cd.specs.Spec) -> tuple[cd.Infill, int]:
    vocab = vocabulary([b'{"', b'": ', b"12", b"}}", b"(1", b"c1", b")C", b"CC", b" + "])
    return cd.Infill(cd.Compiler(vocab).compile(spec)), vocab.size - 2  # the special token is the mask


@pytest.mark.parametrize("order", ORDERS)
def test_random_logits(order: str) -> None:
    """Whatever the model says, every canvas is finished within its tokens, by a legal text."""
    infill, mask = infill_for(cd.JsonSchema(SCHEMA))
    for seed in range(2):
        model = RandomModel(infill.vocab.size, seed)
        out = diffuse(model, infill, [1, 2], mask_token_id=mask, length=14, steps=5, order=order, temperature=1.0, seed=seed)
        assert len(out.tokens) == 14
        assert json.loads(out.text)["a"] % 1 == 0


@pytest.mark.parametrize(
    ("spec", "length"),
    [(cd.grammars.ARITHMETIC, 8), (cd.grammars.SMILES, 9), (cd.Regex("[a-c]+(,[0-9]{2})*"), 7)],
    ids=["arithmetic", "smiles", "regex"],
)
def test_random_logits_other_grammars(spec: cd.specs.Spec, length: int) -> None:
    infill, mask = infill_for(spec)
    matcher = infill.grammar.matcher()
    for seed in range(2):
        model = RandomModel(infill.vocab.size, seed)
        out = diffuse(model, infill, mask_token_id=mask, length=length, temperature=1.0, seed=seed, block_length=4)
        ids = [t for t in out.tokens if t not in infill.vocab.eos_token_ids]
        matcher.reset()
        assert len(out.tokens) == length
        assert matcher.accept_tokens(ids) == len(ids) and matcher.is_accepting(), out.text


@pytest.mark.parametrize("shift", [False, True])
def test_a_legal_text_is_left_alone(shift: bool) -> None:
    """If what the model wants is legal, it is returned unchanged, and no mask is computed."""
    infill, mask = infill_for(cd.JsonSchema(SCHEMA))
    end = infill.vocab.eos_token_ids[0]
    wanted = [256, ord("a"), 257, 258, ord("7"), ord("}"), end, end]
    model = OneText(infill.vocab.size, wanted, 2 if shift else 3)
    out = diffuse(model, infill, [5, 6, 7], mask_token_id=mask, length=8, steps=4, shift=shift, history=True)
    assert out.text == '{"a": 127}' and out.tokens == wanted and out.refused == out.masks == 0
    assert [sum(t is not None for t in tokens) for tokens in out.history] == [2, 4, 6, 8]


def test_errors() -> None:
    infill, mask = infill_for(cd.JsonSchema(SCHEMA))
    model = RandomModel(infill.vocab.size)
    with pytest.raises(ValueError, match="no legal text fits a canvas of 3 tokens"):
        diffuse(model, infill, mask_token_id=mask, length=3)
    with pytest.raises(ValueError, match="order: expected one of confidence"):
        diffuse(model, infill, mask_token_id=mask, order="best")
    with pytest.raises(cd.LimitExceeded, match="too many slots: expected at most 131072, found 2147483648"):
        diffuse(model, infill, mask_token_id=mask, length=2**31)
    for options, expected in (
        ({"length": -1}, "length: expected 0 or more, found -1"),
        ({"steps": 0}, "steps: expected at least 1, found 0"),
        ({"block_length": -4}, "block_length: expected at least 1, found -4"),
    ):
        with pytest.raises(ValueError, match=expected):
            diffuse(model, infill, mask_token_id=mask, **options)
    with pytest.raises(TypeError, match="length: expected an integer, found str"):
        diffuse(model, infill, mask_token_id=mask, length="8")  # type: ignore[arg-type]


class Changed:
    """A random model whose logits are changed."""

    def __init__(self, size: int, change: Any) -> None:
        self.model, self.change = RandomModel(size), change

    def __call__(self, input_ids: Any) -> Any:
        return SimpleNamespace(logits=self.change(self.model(input_ids).logits))


class NoWeights(torch.nn.Module):  # type: ignore[misc]
    """A module without a parameter whose device could be asked."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.inner = RandomModel(size)

    def forward(self, input_ids: Any) -> Any:
        return self.inner(input_ids)


WRONG_LOGITS = {
    "a nan": (lambda logits: logits * torch.nan, "model: expected logits below infinity, found inf or nan"),
    "no batch": (lambda logits: logits[0], r"model: expected logits of shape \(1, \d+, vocabulary\), found \(\d+, 269\)"),
    "two rows": (lambda logits: torch.cat([logits, logits]), r"model: expected logits of shape .*, found \(2, \d+, 269\)"),
}


@pytest.mark.parametrize("name", WRONG_LOGITS)
def test_logits_that_are_not_what_was_said(name: str) -> None:
    change, expected = WRONG_LOGITS[name]
    infill, mask = infill_for(cd.JsonSchema(SCHEMA))
    model = Changed(infill.vocab.size, change)
    with pytest.raises(ValueError, match=expected):
        diffuse(model, infill, mask_token_id=mask, length=14)
    with pytest.raises(ValueError, match=expected):
        fill_in(model, infill, ['{"a":', cd.GAP], lambda before, after: [1, *before])


def test_models_of_fewer_tokens() -> None:
    """If a model has fewer tokens than its tokenizer, the last ones are never chosen; also with other shapes of a call."""
    infill, mask = infill_for(cd.JsonSchema(SCHEMA))
    size = infill.vocab.size
    assert infill.vocab.eos_token_ids[0] > 258
    for change in (
        lambda logits: logits[..., :259],
        lambda logits: logits.bfloat16(),
        lambda logits: torch.cat([logits] * 2, -1),
    ):
        model = Changed(size, change)
        canvas = [ord("{"), *[mask] * 9, infill.vocab.eos_token_ids[0]]
        out = diffuse(model, infill, torch.tensor([[1, 2]]), mask_token_id=mask, canvas=torch.tensor([canvas]), temperature=1.0)
        assert json.loads(out.text)["a"] % 1 == 0
        text = fill_in(model, infill, ['{"a":', cd.GAP], lambda before, after: torch.tensor([[1, *before]]), max_new_tokens=5)
        assert json.loads(text)["a"] % 1 == 0
    with pytest.raises(ValueError, match="place 0: the model has no token that is legal there"):
        diffuse(Changed(size, lambda logits: logits[..., :9]), infill, mask_token_id=mask, length=14)
    assert json.loads(diffuse(NoWeights(size), infill, mask_token_id=mask, length=14).text)["a"] % 1 == 0


def test_arguments_of_the_wrong_kind() -> None:
    infill, mask = infill_for(cd.JsonSchema(SCHEMA))
    model = RandomModel(infill.vocab.size)
    calls: dict[str, Any] = {
        "prompt_ids: expected token ids, found str": lambda: diffuse(model, infill, "ab", mask_token_id=mask),
        "prompt_ids: expected an integer, found float": lambda: diffuse(model, infill, [1.5], mask_token_id=mask),
        "canvas: expected an integer, found float": lambda: diffuse(model, infill, mask_token_id=mask, canvas=[97.9]),
        "temperature: expected a number, found str": lambda: diffuse(model, infill, mask_token_id=mask, temperature="1"),
        "temperature: expected a number, found nan": lambda: diffuse(
            model, infill, mask_token_id=mask, temperature=float("nan")
        ),
        "seed: expected an integer, found str": lambda: diffuse(model, infill, mask_token_id=mask, seed="1"),
        "infill: expected a cdplugin.Infill, found Grammar": lambda: diffuse(model, infill.grammar, mask_token_id=mask),
        "expected a canvas that stays as it was filled": lambda: diffuse(
            model, infill, mask_token_id=mask, length=14, on_step=lambda session: session.undo(1)
        ),
        r"prompt: expected a function \(text before, text after\) -> token ids, found str": lambda: fill_in(
            model, infill, [cd.GAP], "a person: "
        ),
        "end_token_ids: expected 0 to 268, found -1": lambda: fill_in(model, infill, [cd.GAP], bytes, end_token_ids=[-1]),
        "max_new_tokens: expected 0 or more, found -3": lambda: fill_in(model, infill, [cd.GAP], bytes, max_new_tokens=-3),
        "max_new_tokens: expected an integer, found str": lambda: fill_in(
            model, infill, ['{"a":', cd.GAP], lambda before, after: [1], max_new_tokens="3"
        ),
        "prompt: expected at least one token id, found none": lambda: fill_in(
            model, infill, ['{"a":', cd.GAP], lambda before, after: []
        ),
    }
    for expected, call in calls.items():
        with pytest.raises((TypeError, ValueError), match=expected):
            call()


@pytest.mark.slow
def test_trained_model() -> None:
    """A transformer trained in a minute: legal under the schema at every seed."""
    jsonschema = pytest.importorskip("jsonschema")
    toy = example()
    model = toy.load()
    infill = cd.Infill(cd.Compiler(toy.vocabulary()).compile(cd.JsonSchema(toy.SCHEMA)))
    for seed in range(3):
        out = diffuse(model, infill, mask_token_id=toy.MASK, length=toy.LENGTH, steps=12, temperature=0.8, seed=seed)
        jsonschema.validate(json.loads(out.text), toy.SCHEMA)
        assert len(out.tokens) == toy.LENGTH


def test_fill_in_the_middle() -> None:
    """Two gaps, one after the other. The model's end token is taken where the gap may end, and the rest is completed."""
    infill, _ = infill_for(cd.JsonSchema(SCHEMA))
    seen: list[tuple[bytes, bytes]] = []

    def prompt(before: bytes, after: bytes) -> list[int]:
        seen.append((before, after))
        return [*before, *after]

    text = fill_in(RandomModel(infill.vocab.size), infill, ['{"', cd.GAP, '": ', cd.GAP, "}"], prompt, max_new_tokens=3)
    assert json.loads(text)["a"] % 1 == 0
    assert seen[0] == (b'{"', b'": }')
    beside_slots = fill_in(
        RandomModel(infill.vocab.size), infill, ['{"', cd.Slots(1), '": ', cd.GAP, "}"], prompt, max_new_tokens=3
    )
    assert json.loads(beside_slots)["a"] % 1 == 0, "slots are filled by complete()"
