"""The prompts and schemas of the examples for mlx-lm, llama-cpp-python and Outlines."""

from __future__ import annotations

from typing import Any

WORD = {"type": "string", "pattern": "^[A-Z][a-z]{1,9}$"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


PROMPTS = ["A person as JSON: ", "Some colours as JSON: ", "A point as JSON: "]
SCHEMAS: list[dict[str, Any]] = [
    _object(name=WORD, age={"type": "integer", "minimum": 0, "maximum": 120}),
    _object(colours={"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 3}),
    _object(x={"type": "integer", "minimum": -9, "maximum": 9}, y={"type": "integer", "minimum": -9, "maximum": 9}),
]
