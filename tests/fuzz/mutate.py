"""Broken, bent and spliced specs: mutations of entries in the form that :mod:`hostile.specs` reads."""

from __future__ import annotations

import copy
import json
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from gbnf_grammars import CASES as GBNF
from hostile.build import build
from hostile.specs import entries
from lark_cases import CASES as LARK

Entry = dict[str, Any]
TEXT_KINDS = ("Lark", "Gbnf", "Ebnf", "Regex")

PIECES = json.loads((Path(__file__).parent.parent / "data" / "fuzz_pieces.json").read_text())
"""What is put in: pieces of text by kind of spec; for the others ``keywords``, and ``values`` that are wrong in most places."""


_LARGE = ("nest", "circle", "text", "power")
"""Generators whose values are large, deep, or shared so that written out they would be."""


@lru_cache(maxsize=1)
def pool() -> list[Entry]:
    """The specs that are mutated: small entries of the corpus, and legal grammars."""
    out: list[Entry] = []
    for entry in entries():
        if entry["kind"] not in ("After", "Template") and not any(f'"~": "{name}"' in json.dumps(entry) for name in _LARGE):
            spec = build(entry["spec"])
            if _is_small(spec):
                out.append({"id": entry["id"], "kind": entry["kind"], "spec": spec, "options": entry.get("options", {})})
    out += [{"id": f"lark {name}", "kind": "Lark", "spec": grammar} for name, (grammar, _) in LARK.items()]
    out += [
        {"id": f"gbnf {name}", "kind": kind, "spec": case.grammar} for kind in ("Gbnf", "Ebnf") for name, case in GBNF.items()
    ]
    return out


def _is_small(value: Any) -> bool:
    text = json.dumps(value)
    return len(text) < 1500 and "[" * 40 not in text


def mutated(seed: int) -> Entry:
    """An entry of the pool with a few mutations."""
    rng = random.Random(seed)
    entry = copy.deepcopy(rng.choice(pool()))
    entry |= {"id": f"seed {seed}: {entry['id']}", "expect": "either", "made": True}
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if entry["kind"] in TEXT_KINDS and isinstance(entry["spec"], str):
            entry["spec"] = _mutate_text(entry["spec"], entry["kind"], rng)
        else:
            entry["spec"] = _mutate_value(entry["spec"], rng)
    return entry


def _mutate_text(text: str, kind: str, rng: random.Random) -> str:
    """Cut, double, insert or splice a slice of a text."""
    at = rng.randint(0, len(text))
    end = min(len(text), at + rng.choice([1, 1, 2, 5, 20, 200]))
    action = rng.randrange(6)
    if action == 0:
        return text[:at] + text[end:]
    if action == 1:
        return text[:end] + text[at:end] * rng.choice([1, 1, 2, 30]) + text[end:]
    if action == 2:
        others = [entry["spec"] for entry in pool() if entry["kind"] == kind and isinstance(entry["spec"], str)]
        other = rng.choice(others)
        cut = rng.randint(0, len(other))
        return text[:at] + other[cut : cut + rng.choice([5, 40, 400])] + text[end:]
    piece = rng.choice(PIECES[kind])
    if action == 3 and kind in ("Lark", "Gbnf", "Ebnf"):
        piece = f" {piece} "
    return text[:at] + piece + text[end if action == 4 else at :]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """``(container, key)`` of every value inside."""
    out: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(out) < 5000:
        item = waiting.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        out += [(item, key) for key in keys]
        waiting += [item[key] for key in keys]
    return out


def _mutate_value(value: Any, rng: random.Random) -> Any:
    """Replace, remove, wrap or add a part."""
    places = _places(value)
    if not places:
        return rng.choice(PIECES["values"])
    container, key = rng.choice(places)
    action = rng.randrange(6)
    if action == 0:
        container[key] = copy.deepcopy(rng.choice(PIECES["values"]))
    elif action == 1:
        other, there = rng.choice(places)
        container[key] = copy.deepcopy(other[there])
    elif action == 2:
        del container[key]
    elif action == 3:
        word = rng.choice(["allOf", "anyOf", "oneOf", "not", "items", "properties", "elements", "content"])
        inner = container[key]
        container[key] = {word: [inner, copy.deepcopy(inner)] if word.endswith("Of") or word == "elements" else inner}
    elif isinstance(container, dict):
        container[rng.choice(PIECES["keywords"])] = copy.deepcopy(rng.choice([rng.choice(PIECES["values"]), container[key]]))
    else:
        container.append(copy.deepcopy(rng.choice([rng.choice(PIECES["values"]), container[key]])))
    return value
