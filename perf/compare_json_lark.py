"""Random Lark grammars with ``%json`` beside llguidance: ``jsonschema`` judges each token that only cdplugin allows.

    python perf/compare_json_lark.py [--grammars 300] [--seed 0] [--steps 40] [--out FILE]

Each mask is compared as in ``perf/compare_lark.py``. After a token that only cdplugin allows, the script adds a short
ending and looks at the JSON in the whole text. If ``jsonschema`` finds it valid under one of the grammar's schemas, the
token was rightly allowed, and the script counts it under the spelling that it belongs to. If not, it shows the token.
Values stand between control characters, which no JSON text holds. Of tokens that differ in one mask in the same way, six
are tried.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import records
from compare_lark import Pair

import cdplugin as cd

OPEN, CLOSE = "\x02", "\x03"
TRIED = 6
_ENUMS: list[Any] = [1, 2.5, "a", "ab", "é", 'q"', None, True, [1], {"a": 1}, [], {}, -3, "\n", 1000.0, 0]
_CONSTANTS: list[Any] = ["a b", 12, {"k": [1, None]}, "", False, [[], {}], 1.5]
_PATTERNS = ["^[a-z]+$", "a.c", r"^\d{2,4}$", "^(x|yy)*z", "[^q]$", r"^\s*\S"]
_LAYOUTS: list[Any] = [
    {"whitespace_flexible": False},
    {"whitespace_pattern": " ?"},
    {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False},
]
_KINDS = (
    (re.compile(r"\x7f\Z"), "DEL in a string (RFC 8259, 7)"),
    (re.compile(r"\\[^\"]{0,6}\Z"), "escapes (RFC 8259, 7)"),
    (re.compile(r"[-+0-9.eE]\Z"), "spellings of a number (JSON Schema, Core 4.2.3)"),
    (re.compile(r"[ \t\r\n]\Z"), "white space (RFC 8259, 2)"),
)


def some_schema(rng: random.Random, depth: int = 0) -> Any:
    """A small schema of keywords that both engines enforce."""
    small = ["integer", "number", "string", "enum", "const", "boolean", "null"]
    kind = rng.choice([*small, "any", "array", "object", "object", "anyOf", "oneOf"] if depth < 3 else small)
    below = depth + 1
    if kind == "enum":
        return {"enum": rng.sample(_ENUMS, rng.randint(1, 4))}
    if kind == "const":
        return {"const": rng.choice(_CONSTANTS)}
    if kind == "any":
        return {}
    if kind in ("anyOf", "oneOf"):
        return {kind: [some_schema(rng, below) for _ in range(rng.randint(1, 3))]}
    schema: dict[str, Any] = {"type": kind}
    if kind == "integer":
        schema |= rng.choice([{}, {"minimum": rng.randint(-20, 20)}, {"maximum": rng.randint(0, 300)}, {"multipleOf": 3}])
    elif kind == "number":
        schema |= rng.choice([{}, {"minimum": 0.25}, {"minimum": -1.5, "exclusiveMaximum": 3}, {"exclusiveMaximum": 1000.125}])
    elif kind == "string":
        format_ = {"format": rng.choice(["date", "date-time", "email", "ipv4", "uuid", "uri"])}
        schema |= rng.choice([{}, {"pattern": rng.choice(_PATTERNS)}, {"maxLength": 4}, {"minLength": 2}, format_])
    elif kind == "array":
        schema["items"] = some_schema(rng, below)
        schema |= rng.choice([{}, {}, {"minItems": 1}, {"maxItems": 3}, {"prefixItems": [some_schema(rng, below)]}])
    elif kind == "object":
        names = rng.sample(["a", "b", "ab", "name", "x y", "é", '"q'], rng.randint(0, 3))
        schema["properties"] = {name: some_schema(rng, below) for name in names}
        schema["required"] = rng.sample(names, rng.randint(0, len(names)))
        more = rng.choice([None, False, some_schema(rng, below)])
        schema |= {} if more is None else {"additionalProperties": more}
    return schema


def some_grammar(rng: random.Random) -> tuple[str, list[Any]]:
    """A grammar, and its schemas."""
    schemas = [some_schema(rng) for _ in range(rng.randint(1, 3))]
    values = [f"v{i}" for i in range(len(schemas))]
    cells = [rf'"\x02" {value} "\x03"' for value in values]
    start = rng.choice(
        [
            " ".join(cells),
            rf'"\x02" ({" | ".join(values)}) "\x03"',
            f"({' | '.join(cells)})*",
            " ".join(f"[{cell}]" for cell in cells) + ' "!"',
            f"WORD {' WORD '.join(cells)} WORD",
        ]
    )
    lines = [f"start: {start}"]
    for value, schema in zip(values, schemas, strict=True):
        layout = {"x-guidance": rng.choice(_LAYOUTS)} if rng.random() < 0.25 else {}
        lines.append(f"{value}: %json {json.dumps({**schema, **layout})}")
    lines += ["WORD: /[a-z ]+/"] * ("WORD" in start) + ["%ignore / +/"] * (rng.random() < 0.3)
    return "\n".join(lines) + "\n", schemas


def is_valid(text: str, schemas: list[Any]) -> bool:
    """Whether every value in a text is JSON, and valid under one of the schemas."""
    for cell in re.findall(f"{OPEN}(.*?){CLOSE}", text, re.DOTALL):
        try:
            value = json.loads(cell.strip(" "))
        except ValueError:
            return False
        if not any(
            jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).is_valid(
                value
            )
            for schema in schemas
        ):
            return False
    return True


class Judge:
    """Judges the tokens that only one engine allows, and counts what came of them."""

    def __init__(self) -> None:
        self.pair = Pair()
        self.counts: Counter[str] = Counter()

    def compare(self, seed: str, steps: int) -> None:
        """Compare the masks along three random walks through one grammar."""
        rng = random.Random(seed)
        text, schemas = some_grammar(rng)
        grammar, peer = self.pair.ours(text), self.pair.theirs(text)
        if isinstance(grammar, str) or isinstance(peer, str):
            self.counts["grammars refused by either"] += 1
            return
        self.counts["grammars"] += 1
        for _ in range(3):
            self._walk(grammar, self.pair.theirs(text), schemas, rng, steps)

    def _walk(self, grammar: cd.Grammar, peer: Any, schemas: list[Any], rng: random.Random, steps: int) -> None:
        matcher, tokens = grammar.matcher(), self.pair.tokens
        for _ in range(steps):
            ours, theirs = self.pair.masks(matcher, peer)
            self.counts["masks"] += 1
            self.counts["masks with tokens that are allowed here only"] += bool((ours & ~theirs).any())
            self._judge(matcher, np.flatnonzero(ours & ~theirs).tolist(), schemas, rng)
            both = [int(t) for t in np.flatnonzero(ours & theirs) if t != self.pair.end]
            plain = [t for t in both if tokens[t].isascii()] or both
            if not plain:
                return
            closing = [t for t in plain if tokens[t][:1] in b'"}],:']
            token = rng.choice(closing if closing and rng.random() < 0.3 else plain)
            if not (matcher.accept_token(token) and peer.consume_token(token)) or peer.is_stopped():
                return

    def _judge(self, matcher: cd.Matcher, tokens: list[int], schemas: list[Any], rng: random.Random) -> None:
        before = self.pair.compiler.vocab.decode(matcher.tokens)
        kinds: dict[str, list[int]] = {}
        for token in tokens:
            begun = (before + self.pair.tokens[token]).decode(errors="replace")
            kind = next((name for pattern, name in _KINDS if pattern.search(begun)), "others")
            kinds.setdefault(kind, []).append(token)
        for kind, some in kinds.items():
            for token in rng.sample(some, min(TRIED, len(some))):
                fork = matcher.fork()
                fork.accept_token(token)
                ending = [] if token == self.pair.end else fork.shortest_completion()
                text = self.pair.compiler.vocab.decode([*fork.tokens, *ending]).decode(errors="replace")
                valid = is_valid(text, schemas)
                self.counts[f"tokens that lead to {'valid' if valid else 'INVALID'} JSON: {kind}"] += 1
                if not valid:
                    print(f"after {before!r}, {self.pair.tokens[token]!r}: {text!r}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grammars", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--out", type=Path, help="write the counts as JSON")
    given = parser.parse_args()
    judge = Judge()
    for i in range(given.grammars):
        judge.compare(f"{given.seed} {i}", given.steps)
    print(*(f"{n} {name}" for name, n in sorted(judge.counts.items())), sep="\n")
    records.keep(given.out, ("cdplugin", "llguidance", "jsonschema"), counts=dict(sorted(judge.counts.items())))


if __name__ == "__main__":
    main()
