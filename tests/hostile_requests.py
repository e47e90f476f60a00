"""Hostile requests as a server gets them, and what its other clients notice meanwhile: for tests with a real vLLM.

A request is the value of ``structured_outputs`` in the body. :func:`of_review` has the first ones, which a review found;
:func:`of_corpus` those of the hostile corpus that HTTP can carry.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

CORPUS = Path(__file__).resolve().parent / "data" / "hostile.jsonl"
MOST_BYTES = 2 << 20
"""Larger bodies are left out: reading them is the server's own work."""
GOOD: dict[str, Any] = {"choice": ["yes", "no"]}


def _member(i: int) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {f"p{i}": {"type": "string"}, "k": {"type": "integer", "minimum": i}},
        "required": [f"p{i}"],
    }


def of_review() -> dict[str, dict[str, Any]]:
    """Requests that once took too much of the engine, or stopped the server's event loop while they were refused."""
    text: dict[str, Any] = {"type": "string"}
    parts: list[dict[str, Any]] = [_member(i) for i in range(200)]
    schemas: dict[str, Any] = {
        "a password": {
            **text,
            "allOf": [{"pattern": p} for p in ("[a-z]", "[A-Z]", "[0-9]", "[^a-zA-Z0-9]")],
            "not": {"pattern": "password"},
            "minLength": 14,
            "maxLength": 64,
        },
        "25 patterns": {**text, "allOf": [{"pattern": f"a.{{{i}}}b"} for i in range(1, 26)]},
        "25 patterns inside": {
            "type": "object",
            "properties": {"p": {"allOf": [{"pattern": f"a.{{{i}}}b"} for i in range(25)]}},
        },
        "8 patterns, one of": {**text, "oneOf": [{"pattern": f"a.{{{i}}}b"} for i in range(1, 9)]},
        "no pattern": {**text, "allOf": [{"not": {"pattern": f"a.{{{i}}}b"}} for i in range(28, 31)]},
        "longest": {**text, "maxLength": 2**31 - 1},
        "very long": {**text, "minLength": 10**300},
        "many members": {"type": "object", "minProperties": 1_000_000},
        "many items": {"type": "array", "minItems": 10**18},
        "multiple": {"type": "integer", "multipleOf": 251, "minimum": -1000, "maximum": 10**9},
        "multiples": {"oneOf": [{"multipleOf": 1_000_000}, {}]},
        "one of 200": {"oneOf": parts},
        "all of any": {"allOf": [{"anyOf": parts[i : i + 3]} for i in range(100)]},
        "none of 200": {"allOf": [{"not": part} for part in parts]},
        "300 properties": {"type": "object", "properties": {f"p{i}": {} for i in range(300)}, "additionalProperties": False},
        "deep": json.loads('{"items":' * 60 + "{}" + "}" * 60),
        "a wrong type": {"type": "strin"},
    }
    found: dict[str, dict[str, Any]] = {name: {"json": schema} for name, schema in schemas.items()}
    found |= {f"one of 200, the {n}th": {"json": {"oneOf": [*parts, {"const": n}]}} for n in range(8)}
    return found | {
        "broken JSON": {"json": '{"type": '},
        "an expression": {"regex": "(a|b)*a(a|b){20}"},
        "counts in counts": {"regex": "((a{1,100}){1,100}){1,100}"},
        "a wide class": {"regex": "[\\p{L}\\p{N}]{1,1000}"},
        "complements": {"grammar": "start: A\nA: " + " & ".join(f"~/(.|\\n)*{c}.{{30}}{c}(.|\\n)*/" for c in "abc") + "\n"},
        "ambiguous": {"grammar": 'root ::= root root root | root root | "a" | ""\n'},
        "free text": {"grammar": "start: x\nx[max_tokens=2000000]: /[a-w]*/\n"},
        "no rule": {"grammar": 'root ::= "a" missing\n'},
        "many choices": {"choice": [f"choice {i}" for i in range(20_000)]},
        "a tag": {"structural_tag": json.dumps({"format": {"type": "tag", "begin": "<a>", "content": {"type": "nothing"}}})},
    }


def of_corpus() -> dict[str, dict[str, Any]]:
    """The entries of the hostile corpus of kinds that vLLM has; none if there is no corpus."""
    if not CORPUS.exists():
        return {}
    from hostile.build import build

    keys = {"JsonSchema": "json", "Regex": "regex", "Choice": "choice", "StructuralTag": "structural_tag"}
    keys |= dict.fromkeys(("Lark", "Gbnf", "Ebnf"), "grammar")
    found = {}
    for line in CORPUS.read_text().splitlines():
        entry = json.loads(line)
        if entry["kind"] in keys and not entry.get("options") and not entry.get("grammars"):
            value = entry["spec"] if entry.get("made") else build(entry["spec"])
            if not _is_small(value):
                continue
            try:
                text = json.dumps(value)
            except (TypeError, ValueError, RecursionError):
                continue  # no JSON: it has not come over HTTP
            if len(text) <= MOST_BYTES:
                found[entry["id"]] = {keys[entry["kind"]]: text if entry["kind"] == "StructuralTag" else value}
    return found


def _is_small(value: Any) -> bool:
    """Whether a value has few parts when it is written out. A value whose parts are shared may have exponentially many, or
    no end.
    """
    waiting, count = [value], 0
    while waiting and count < MOST_BYTES:
        part = waiting.pop()
        count += 1
        waiting += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return not waiting


def varied(request: dict[str, Any], number: int) -> dict[str, Any]:
    """The same request in other words, so that the server does not know its outcome."""
    ((kind, value),) = request.items()
    if isinstance(value, dict):
        return {kind: {**value, "$comment": str(number)}}
    if isinstance(value, list):
        return {kind: [*value, str(number)]}
    return {kind: f"(?:{value}){{1}}" if kind == "regex" else value + " " * number}


# ---- beside a server ---------------------------------------------------------------------------------------------------------


@dataclass
class Answer:
    """An HTTP status, the seconds until it came, and the beginning of the body."""

    status: int
    seconds: float
    text: str


def get(url: str, path: str = "/health", body: Any = None, timeout: float = 60.0) -> Answer:
    """Ask a server, on a connection of its own. Status 0 means that no answer came in time."""
    place = urlsplit(url)
    began = time.perf_counter()
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        connection.request("GET" if data is None else "POST", path, data, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, time.perf_counter() - began, response.read(2000).decode("utf-8", "replace"))
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, time.perf_counter() - began, type(error).__name__)
    finally:
        connection.close()


def ask(url: str, request: dict[str, Any], max_tokens: int = 8) -> Answer:
    """Ask for a completion under a constraint."""
    body = {"model": "small", "prompt": "Answer: ", "max_tokens": max_tokens, "temperature": 1.0, "seed": 1}
    return get(url, "/v1/completions", {**body, "structured_outputs": request})


@dataclass
class Beside:
    """What was seen beside a request: its own answer, the slowest ``/health`` and the slowest good request."""

    answer: Answer
    health: Answer
    good: Answer


def beside(url: str, call: Callable[[], Answer]) -> Beside:
    """Make a call. Meanwhile ask for ``/health`` and for a good answer again and again, three times at least."""
    with ThreadPoolExecutor(3) as pool:
        under_way = pool.submit(call)

        def again(one: Callable[[], Answer], pause: float) -> Answer:
            answers = []
            while len(answers) < 3 or not under_way.done():
                answers.append(one())
                time.sleep(pause)
            return max(answers, key=lambda answer: (answer.status != 200, answer.seconds))

        health = pool.submit(again, lambda: get(url), 0.02)
        good = pool.submit(again, lambda: ask(url, GOOD, 4), 0.05)
        return Beside(under_way.result(), health.result(), good.result())
