"""Random walks through cdplugin's masks: jsonschema finds every text that ended valid, and no walk meets a dead end.

    python perf/random_walks.py ../shared/maskbench/dev.jsonl.gz --schemas 300 --walks 8 --seed 1

A walk draws one allowed token at a time, half of the time from short ones, so that strings end. After ``--steer`` tokens it
takes the end token if that is allowed, and otherwise prefers what closes (quotes, braces, brackets). A walk that has not
ended after ``--longest`` tokens is cut, and its matcher's shortest completion closes it. The script counts: walks that
ended; walks that were closed; texts of both that are not JSON, repeat a declared property or fail validation (format
checker on); dead ends (masks with no token before the end); walks for which no ending was found; and texts that are not
judged because Python's ``re`` cannot read a pattern (``\\p{L}``). The exit status is 1 if there are texts with faults, dead
ends, or walks without an ending.
"""

from __future__ import annotations

import argparse
import collections
import gzip
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import mask_engines

CLOSING_TEXT = ('"', '"}', '"]', '"}}', '"]}', '",', '":')
CLOSING = ("}", "]", "}}", "]}", "}]", "]]")
ENOUGH = ('"', "0", "1", "a", ":", '":', ",", ", ", "{", "[", "{}", "[]", "null", "true", "e", " ")


QUOTES = re.compile(rb'(?<!\\)(?:\\\\)*"')


def exact_number(text: str) -> Any:
    """A JSON number with a fraction or an exponent; an int if it is integral, as the specification counts it."""
    from decimal import Decimal, InvalidOperation

    try:
        value = Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        return float(text)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and abs(exponent) < 5000 and value == value.to_integral_value():
        return int(value)
    return float(text)


def declared_names(schema: Any) -> set[str]:
    """The names that a schema has anywhere in ``properties`` or ``required``."""
    names: set[str] = set()
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            for members in (part.get("properties"), part.get("required")):
                if isinstance(members, dict | list):
                    names |= {name for name in members if isinstance(name, str)}
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return names


def ecma_dots(pattern: str) -> str:
    """A pattern for Python's ``re`` whose dots match what ECMA-262's do: no carriage return, for instance."""
    out, in_class = [], False
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        in_class = part == "[" or (in_class and part != "]")
        out.append(r"[^\n\r\u2028\u2029]" if part == "." and not in_class else part)
    return "".join(out)


def with_ecma_dots(schema: Any) -> Any:
    """The schema with such dots, for a validator that uses Python's ``re``."""
    if isinstance(schema, list):
        return [with_ecma_dots(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: with_ecma_dots(member) for name, member in schema.items()}
    if isinstance(out.get("pattern"), str):
        out["pattern"] = ecma_dots(out["pattern"])
    if isinstance(out.get("patternProperties"), dict):
        out["patternProperties"] = {ecma_dots(pattern): member for pattern, member in out["patternProperties"].items()}
    return out


def fault(schema: Any, text: bytes) -> str | None:
    """Why ``text`` is no valid instance; empty if it is valid; None if Python's ``re`` cannot read one of the patterns."""
    import jsonschema

    declared = declared_names(schema)

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs) and len([name for name, _ in pairs if name in declared]) > len(declared & out.keys()):
            raise ValueError("a property is repeated")
        return out  # names that are not declared may repeat: each occurrence is valid, as is the last one, which is kept

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=once, parse_float=exact_number)
    except ValueError as error:
        return f"not JSON: {error}"
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = cls(with_ecma_dots(schema), format_checker=cls.FORMAT_CHECKER)
    try:
        worst = jsonschema.exceptions.best_match(validator.iter_errors(value))
    except re.error:
        return None
    return "" if worst is None else f"{worst.message[:200]} - at {worst.json_path}"


class Walker:
    """Draws tokens from masks."""

    def __init__(self, tokenizer: mask_engines.Tokenizer, rng: random.Random) -> None:
        self.tokenizer, self.rng = tokenizer, rng
        ids = {token: i for i, token in enumerate(tokenizer.tokens) if token}
        self.closing_text = [ids[t.encode()] for t in CLOSING_TEXT if t.encode() in ids]
        self.closing = [ids[t.encode()] for t in CLOSING if t.encode() in ids]
        self.enough = [ids[t.encode()] for t in ENOUGH if t.encode() in ids]
        self.single = [i for t, i in ids.items() if len(t) == 1 and t.isascii() and not t.isspace()]
        self.short = np.array([i for t, i in ids.items() if len(t) <= 2 and t.isascii()])

    def choose(self, allowed: np.ndarray, steer: bool, text: bytes) -> int:
        """Draw one of the allowed tokens (a bool per token, at least one set)."""
        rng = self.rng
        if allowed[self.tokenizer.eos] and (steer or rng.random() < 0.2):
            return self.tokenizer.eos
        if steer:
            is_text = len(QUOTES.findall(text)) % 2 == 1
            groups = [(self.closing_text, 0.97)] if is_text else [(self.closing, 0.97), (self.enough, 0.9)]
            for group, often in [*groups, (self.single, 0.8)]:
                options = [t for t in group if allowed[t]]
                if options and rng.random() < often:
                    return rng.choice(options)
        if rng.random() < 0.5:
            short = self.short[allowed[self.short]]
            if len(short):
                return int(short[rng.randrange(len(short))])
        every = np.flatnonzero(allowed)
        return int(every[rng.randrange(len(every))])

    def walk(self, engine: mask_engines.Engine, grammar: Any, steer: int, longest: int) -> tuple[str, bytes]:
        """Walk once: ``("ended" | "closed" | "dead end", text)``."""
        matcher, text, eos = engine.matcher(grammar), b"", self.tokenizer.eos
        for step in range(longest):
            engine.fill(matcher)
            allowed = np.unpackbits(engine.bits.view(np.uint8), bitorder="little")[: self.tokenizer.size].astype(bool)
            if not allowed.any():
                return "dead end", text
            if bool(allowed[eos]) != matcher.is_accepting():
                raise AssertionError(f"the end token's bit is not is_accepting() after {text!r}")
            token = self.choose(allowed, step >= steer, text)
            if not matcher.accept_token(token):
                raise AssertionError(f"token {token} is in the mask but was not accepted after {text!r}")
            if token == eos:
                return "ended", text
            text += self.tokenizer.tokens[token] or b""
        return self.close(matcher, text)

    def close(self, matcher: Any, text: bytes) -> tuple[str, bytes]:
        """The same for a walk that was cut, after it has taken its shortest completion."""
        for token in matcher.shortest_completion():
            if not matcher.accept_token(token):
                raise AssertionError(f"token {token} of a completion was not accepted after {text!r}")
            text += self.tokenizer.tokens[token] or b""
        if not matcher.accept_token(self.tokenizer.eos):
            raise AssertionError(f"the text may not end after a completion: {text!r}")
        return "closed", text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="jsonl or jsonl.gz with a member schema per line")
    parser.add_argument("--schemas", type=int, default=300, metavar="N", help="walk on N schemas that compile")
    parser.add_argument("--walks", type=int, default=8, help="walks per schema")
    parser.add_argument("--only", default="", metavar="REGEX", help="only schemas whose id this finds a match in")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steer", type=int, default=60, help="tokens after which a walk looks for its end")
    parser.add_argument("--longest", type=int, default=600, help="tokens after which a walk is cut")
    parser.add_argument("--vocab", default="llama3", choices=["llama3", "tekken"])
    parser.add_argument("--out", type=Path, help="write faults and counts as JSON")
    args = parser.parse_args()
    if not args.data.exists():
        print(f"skipped: no such file: {args.data}", file=sys.stderr)
        return 0
    from cdplugin.errors import CdpluginError, GrammarError

    sys.set_int_max_str_digits(0)
    with gzip.open(args.data) if args.data.suffix == ".gz" else open(args.data, "rb") as f:
        lines = f.readlines()
    rng = random.Random(args.seed)
    rng.shuffle(lines)
    only = re.compile(args.only)
    tokenizer = mask_engines.Tokenizer(args.vocab)
    engine = mask_engines.make("cdplugin", tokenizer)
    walker = Walker(tokenizer, rng)
    counts: collections.Counter[str] = collections.Counter()
    faults: list[dict[str, str]] = []
    closed: dict[str, list[str]] = collections.defaultdict(list)
    began = time.monotonic()
    for line in lines:
        if counts["schemas"] == args.schemas:
            break
        case = json.loads(line)
        if not only.search(case["id"]):
            continue
        try:
            grammar = engine.compile(case["schema"])
        except GrammarError:
            counts["schemas refused"] += 1
            continue
        counts["schemas"] += 1
        for _ in range(args.walks):
            try:
                outcome, text = walker.walk(engine, grammar, args.steer, args.longest)
            except CdpluginError as error:  # a budget, a dead end
                outcome, text = "gave up", b""
                faults.append({"id": case["id"], "why": str(error), "text": ""})
            counts[outcome] += 1
            counts["bytes"] += len(text)
            if outcome == "closed":
                closed[case["id"]].append(text[-300:].decode("utf-8", "backslashreplace"))
            why = outcome if outcome == "dead end" else fault(case["schema"], text) if outcome in ("ended", "closed") else ""
            counts["not judged"] += why is None
            if why and outcome != "dead end":
                counts["invalid"] += 1
            if why:
                faults.append({"id": case["id"], "why": why, "text": text.decode("utf-8", "backslashreplace")[:2000]})
        if sys.stderr.isatty():
            print(f"{counts['schemas']}/{args.schemas} schemas", end="\r", file=sys.stderr, flush=True)
    counts["seconds"] = round(time.monotonic() - began)
    for name in ("ended", "closed", "invalid", "dead end", "gave up"):
        counts[name] += 0
    print(", ".join(f"{name}: {n}" for name, n in sorted(counts.items())))
    for entry in faults[:20]:
        print(f"  {entry['id']}: {entry['why']}\n    {entry['text'][:300]}")
    if args.out:
        found = {"counts": counts, "faults": faults, "closed": closed}
        args.out.write_text(json.dumps(found, indent=1, ensure_ascii=False))
    return 1 if counts["invalid"] or counts["dead end"] or counts["gave up"] else 0


if __name__ == "__main__":
    sys.exit(main())
