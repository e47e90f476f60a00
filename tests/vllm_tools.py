"""What the tests with a real vLLM share: the small model, schemas, and checks that do not use cdplugin."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))

needs_vllm = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed here: make vllm"),
]


def obj(**properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties, all required, in this order."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def schemas() -> list[dict[str, Any]]:
    """Forty schemas of small values: each of ten forms with four sets of bounds."""
    out = []
    for n in range(1, 5):
        number = {"type": "integer", "minimum": n, "maximum": 10**n}
        word = {"type": "string", "pattern": f"^[a-z]{{{n},{n + 4}}}$"}
        out += [
            obj(name=word, age=number),
            obj(values={"type": "array", "items": number, "minItems": n, "maxItems": n + 1}),
            obj(kind={"enum": ["a", "b", n, None]}, ok={"type": "boolean"}),
            {"anyOf": [number, obj(x=number, y=number)]},
            {"$defs": {"leaf": number}, "type": "array", "items": {"$ref": "#/$defs/leaf"}, "minItems": 1, "maxItems": n},
            obj(inner=obj(inner=obj(value=word))),
            {"type": "string", "format": "date" if n % 2 else "ipv4"},
            {"oneOf": [{"const": n}, {"const": str(n)}, obj(n={"const": n})]},
            {"type": "array", "prefixItems": [word, number, {"type": "null"}], "items": False, "minItems": 3},
            {"type": "object", "patternProperties": {f"^k[0-{n}]$": number}, "additionalProperties": False, "minProperties": 1},
        ]
    return out


def is_valid(schema: Any, text: str) -> bool:
    """Whether a text is JSON that ``jsonschema`` finds valid, formats included."""
    import jsonschema

    try:
        jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def validator(schema: Any) -> Callable[[str], bool]:
    return lambda text: is_valid(schema, text)


def brackets(text: str) -> bool:
    """Whether a text is balanced brackets around one ``x``."""
    depth = text.count("(")
    return depth <= 5 and text == "(" * depth + "x" + ")" * depth


# (kind, its text, a check)
LARK = 'start: nested\nnested: "(" nested ")" | "x"\n'
GBNF = 'root ::= "(" root ")" | "x"\n'
PHONE = r"\+[0-9]{1,3} [0-9]{6,8}"
TAG = {"type": "json_schema", "json_schema": obj(city={"enum": ["Rome", "Paris"]})}
STRUCTURAL = {"format": {"type": "tag", "begin": "<call>", "content": TAG, "end": "</call>"}}
LEGACY = {
    "structures": [{"begin": "<call>", "schema": TAG["json_schema"], "end": "</call>"}],
    "triggers": ["<call>"],
}


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def is_tagged(text: str) -> bool:
    """Whether a text is one call of the form that :data:`STRUCTURAL` asks for."""
    inside = text.removeprefix("<call>").removesuffix("</call>")
    return len(text) == len(inside) + len("<call></call>") and is_valid(TAG["json_schema"], inside)


def calls_are_valid(text: str) -> bool:
    """Whether each call within free text has the form that :data:`LEGACY` asks for."""
    return all(is_valid(TAG["json_schema"], inside) for inside in re.findall("<call>(.*?)</call>", text, re.DOTALL))


@dataclass
class Written:
    """What an engine wrote: its text, its tokens, and the largest log-probabilities at each token."""

    text: str
    tokens: list[Any]
    scores: list[list[float]]


def differences(one: list[Written], two: list[Written]) -> list[str]:
    """Where two runs wrote different tokens. Prints, instead of returning, those at which the first run had nearly equal
    logits.
    """
    out = []
    for i, (a, b) in enumerate(zip(one, two, strict=True)):
        if a.tokens != b.tokens:
            at = next(k for k, (s, t) in enumerate(zip([*a.tokens, None], [*b.tokens, None], strict=False)) if s != t)
            scores = sorted(a.scores[at], reverse=True) if at < len(a.scores) else []
            if len(scores) < 2 or scores[0] - scores[1] > 1e-3:
                out.append(f"request {i}, token {at}: {a.text!r} and {b.text!r}")
            else:
                print(f"near tie in request {i} at token {at}: {scores[:2]}")
    return out


Asked = tuple[dict[str, Any], Callable[[str], Any]]


def two_hundred() -> list[Asked]:
    """Two hundred requests of every kind, each with a check: four for each of the forty schemas, one of them with the schema
    as text; and forty requests of other kinds.
    """
    others: list[Asked] = [
        ({"json_object": True}, is_object),
        ({"regex": PHONE}, re.compile(PHONE).fullmatch),
        ({"choice": ["Rome", "Paris", "Berlin"]}, {"Rome", "Paris", "Berlin"}.__contains__),
        ({"grammar": LARK}, brackets),
        ({"grammar": GBNF}, brackets),
        ({"structural_tag": json.dumps(STRUCTURAL)}, is_tagged),
        ({"structural_tag": json.dumps(LEGACY)}, calls_are_valid),
        ({"regex": "(yes|no)!?"}, re.compile("(yes|no)!?").fullmatch),
    ]
    listed = schemas()
    out: list[Asked] = [
        ({"json": schema if i else json.dumps(schema)}, validator(schema)) for i in range(4) for schema in listed
    ]
    return out + others * 5
