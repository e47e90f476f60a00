"""What the tests with real hosts share: the small model's files, a random model, three schemas, and a check of texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from vllm_tools import is_valid, obj

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

WORD = {"type": "string", "pattern": "^[A-Za-z]{1,9}$"}
SCHEMAS: list[Any] = [
    obj(name=WORD, age={"type": "integer", "minimum": 0, "maximum": 120}),
    obj(
        tags={"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3},
        ok={"type": "boolean"},
    ),
    {"anyOf": [obj(kind={"const": "point"}, x={"type": "integer", "minimum": -9, "maximum": 9}), obj(kind={"const": "none"})]},
]
PROMPT = "A JSON object: "


def model_folder() -> str:
    """The small model as a folder. Skips the test if it is not there."""
    pytest.importorskip("transformers")
    from demo_model import model_folder as folder

    try:
        return str(folder())
    except FileNotFoundError as error:
        pytest.skip(str(error))


def gguf_file() -> str:
    from demo_model import gguf_file as file

    try:
        return str(file())
    except FileNotFoundError as error:
        pytest.skip(str(error))


def tiny_llama(size: int, eos: int, pad: int, *, seed: int = 0, hidden: int = 16) -> Any:
    """A random model of ``size`` tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        bos_token_id=None,
        eos_token_id=eos,
        pad_token_id=pad,
        initializer_range=1.0,  # peaked, and different after each prefix
    )
    return LlamaForCausalLM(config).eval()


def check(texts: list[str]) -> None:
    """Assert that each text is valid under its schema."""
    assert len(texts) == len(SCHEMAS)
    for schema, text in zip(SCHEMAS, texts, strict=True):
        assert is_valid(schema, text), text
