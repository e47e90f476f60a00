"""What the tests with real hosts share: the small model's files, three schemas, and whether a text is valid under one."""

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
    """The small model as a folder; skips where it is not there."""
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


def check(texts: list[str]) -> None:
    """Each text is valid under its schema."""
    assert len(texts) == len(SCHEMAS)
    for schema, text in zip(SCHEMAS, texts, strict=True):
        assert is_valid(schema, text), text
