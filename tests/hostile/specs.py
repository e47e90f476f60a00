"""Entries of the hostile corpus, and the specs that they describe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostile.build import build

import cdplugin as cd

CORPUS = Path(__file__).resolve().parent.parent / "data" / "hostile.jsonl"
"""An entry a line. ``id``. ``kind``: a spec's class; ``spec``, ``options``, for some ``grammars`` or ``holes`` (entries
inside): its arguments, written as :mod:`hostile.build` says (``made``: as they are). ``expect``: "ok" (it compiles, and every
step has an answer), "refused" (by a ``GrammarError`` while it is compiled), or "either" (one of these, or a ``LimitExceeded``
at any step). ``finding``: of issue 14, that this was. ``text``: legal, and complete unless ``whole`` is false. ``infill``:
pieces for ``Infill.new`` (null: a gap; a number: so many slots).
"""
_PASTED = {
    "JsonSchema": "json-schema",
    "Regex": "regex",
    "Lark": "lark",
    "Gbnf": "gbnf",
    "Ebnf": "ebnf",
    "Choice": "choice",
}
_WRITTEN = {"spec", "options", "grammars", "holes"}


def entries() -> list[dict[str, Any]]:
    """The entries of the corpus, as they are written."""
    return [json.loads(line) for line in CORPUS.read_text().splitlines()]


def pasted(entry: Mapping[str, Any], most: int) -> tuple[str, str, str] | None:
    """An entry as somebody would paste it into the playground or a file: kind of spec, spec and text, without the options.

    None if it has no text of at most ``most`` bytes: its kind has none, JSON cannot write its value, or its shared parts
    would be written out without end.
    """
    kind = _PASTED.get(entry["kind"])
    if kind is None or entry.get("grammars"):
        return None
    spec = entry["spec"] if entry.get("made") else build(entry["spec"])
    if kind == "choice" and isinstance(spec, list):
        spec = "\n".join(map(str, spec))
    parts, size = [], 0
    try:
        for part in [spec] if isinstance(spec, str) else json.JSONEncoder(ensure_ascii=False).iterencode(spec):
            parts.append(part)
            size += len(part.encode())
            if size > most:
                return None
    except (RecursionError, TypeError, ValueError):  # circles, deep values, lone surrogates
        return None
    return kind, "".join(parts), str(build(entry.get("text", "")))[:200]


def spec_of(entry: Mapping[str, Any]) -> cd.Spec:
    """The spec of an entry. Raises what the spec's class raises."""
    built = entry if entry.get("made") else {**entry, **{name: build(entry[name]) for name in _WRITTEN & entry.keys()}}
    parts = [_Part(built)]
    for part in parts:  # grows
        parts += part.inner.values()
    for part in reversed(parts):
        part.make()
    return parts[0].made


class _Part:
    """A spec and the specs inside it, which are made first: some are nested too deeply for recursion."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.entry = entry
        inside = {**entry.get("grammars", {}), **entry.get("holes", {})}
        if entry["kind"] == "After":
            inside["spec"] = entry["spec"]
        self.inner = {name: _Part(part) for name, part in inside.items()}
        self.made: Any = None

    def make(self) -> None:
        made = {name: part.made for name, part in self.inner.items()}
        kind, spec, options = getattr(cd, self.entry["kind"]), self.entry["spec"], dict(self.entry.get("options", {}))
        if kind is cd.After:
            self.made = kind(options.pop("trigger"), made["spec"], **options)
        elif kind is cd.Lark and made:
            self.made = kind(spec, grammars=made)
        else:
            self.made = kind(spec, **made, **options)
