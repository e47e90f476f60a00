"""Texts that llguidance and xgrammar write for schemas: cdplugin should read every valid one, and no invalid one.

    python perf/peer_texts.py ../shared/maskbench/dev.jsonl.gz ../shared/peer-cases --every 5 --texts 6 --json FILE

Each engine draws tokens from its own masks over a vocabulary of bytes and short pieces of JSON. It draws as
:mod:`random_walks` does: half of the time short tokens, and after ``--steer`` tokens those that close something. A text
that has not ended after ``--longest`` tokens is dropped. A text is valid if ``jsonschema`` says so (format checker on, dots
as ECMA-262 has them) and if each object has each declared name once. Properties come in any order. An engine works in a
process of its own, and has ``--timeout`` seconds for a schema. Valid texts that are not read because of a documented choice
of spelling (docs/json-schema.md) are counted by that choice.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mask_engines
from random_walks import CLOSING, CLOSING_TEXT, ENOUGH, Walker, fault

import cdplugin as cd

_PIECES = (
    *CLOSING_TEXT,
    *CLOSING,
    *ENOUGH,
    '{"',
    '": ',
    '", "',
    "ab",
    "xy",
    "10",
    "19",
    "20",
    "://",
    "@a",
    ".c",
    "-0",
    "e1",
    "the",
)


class Small(mask_engines.Tokenizer):
    """A vocabulary of all bytes and short pieces of JSON."""

    def __init__(self) -> None:
        import tiktoken

        pieces = sorted({piece.encode() for piece in _PIECES if len(piece) > 1})
        self.tokens = [*(bytes([b]) for b in range(256)), *pieces, None]
        self.name, self.size, self.eos = "small", len(self.tokens), len(self.tokens) - 1
        ranks = {token: i for i, token in enumerate(self.tokens) if token}
        self.encoding = tiktoken.Encoding(
            "small", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens={"<|end|>": self.eos}
        )


def write_texts(name: str, asked: Connection) -> None:
    """Answer ``(schema, seed, count, steer, longest)`` with the texts that an engine writes, or why it writes none."""
    tokenizer = Small()
    engine = mask_engines.make(name, tokenizer)
    while True:
        schema, seed, count, steer, longest = asked.recv()
        walker = Walker(tokenizer, random.Random(seed))
        texts: list[bytes] = []
        try:
            grammar = engine.compile(schema)
            for _ in range(count):
                text = one_text(walker, engine, grammar, steer, longest)
                if text is not None:
                    texts.append(text)
        except Exception as error:  # engines raise what they like
            asked.send((texts, mask_engines.reason(error)))
        else:
            asked.send((texts, ""))


def one_text(walker: Walker, engine: mask_engines.Engine, grammar: Any, steer: int, longest: int) -> bytes | None:
    """A text that an engine's masks allow; None if it does not end."""
    matcher, text, tokenizer = engine.matcher(grammar), b"", walker.tokenizer
    for step in range(longest):
        engine.fill(matcher)
        allowed = np.unpackbits(engine.bits.view(np.uint8), bitorder="little")[: tokenizer.size].astype(bool)
        if not allowed.any():
            return None
        token = walker.choose(allowed, step >= steer, text)
        if token == tokenizer.eos:
            return text
        if not engine.accept(matcher, token):
            return None
        text += tokenizer.tokens[token] or b""
    return None


class Writer:
    """An engine in a process of its own, which is started again if it takes too long or dies."""

    def __init__(self, name: str, timeout: float) -> None:
        self.name, self._timeout = name, timeout
        self._start()

    def _start(self) -> None:
        self._here, there = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=write_texts, args=(self.name, there), daemon=True)
        self._process.start()

    def texts(self, *question: Any) -> tuple[list[bytes], str]:
        """The answer of :func:`write_texts`."""
        self._here.send(question)
        try:
            if self._here.poll(self._timeout):
                return self._here.recv()
        except EOFError:
            pass
        self._process.kill()
        self._start()
        return [], "died or took too long"

    def stop(self) -> None:
        self._process.kill()


def schemas(files: list[Path], every: int) -> Iterator[tuple[str, Any]]:
    """Names and schemas: those of MaskBench's cases, and those of the recorded cases in a directory."""
    number = 0
    for path in files:
        for file in sorted(path.glob("*.jsonl.gz")) if path.is_dir() else [path]:
            seen: set[str] = set()
            with gzip.open(file, "rt", encoding="utf-8") as lines:
                for i, line in enumerate(lines):
                    case = json.loads(line)
                    schema = (
                        case.get("schema") if "tests" in case else case["spec"] if case.get("kind") == "json_schema" else None
                    )
                    if isinstance(schema, str):
                        schema = json.loads(schema)
                    text = json.dumps(schema)
                    if schema is None or text in seen:
                        continue
                    seen.add(text)
                    number += 1
                    if "tests" not in case or number % every == 0:
                        yield str(case.get("id") or f"{file.name.split('.')[0]}:{i + 1}"), schema


def read(grammar: cd.Grammar, text: bytes) -> tuple[bool, int]:
    """Whether a text is read to its end, and how far it is read."""
    matcher = grammar.matcher()
    taken = matcher.accept_tokens(list(text))
    return taken == len(text) and matcher.is_accepting(), taken


def choice(schema: str, text: bytes, taken: int) -> str:
    """The documented choice (docs/json-schema.md) that keeps a valid text from being read further; ``""`` if there is none."""
    before, after = text[:taken], text[taken:]
    if repeats_names(text):
        return "an undeclared name is repeated where members are counted"
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "half of a surrogate pair"
    if '"dependencies"' in schema and '"$schema"' not in schema:
        return "dependencies are read where no draft is named"
    number = _NUMBER_BEFORE.search(before)
    part = (number[0] if number else b"") + (_NUMBER_AFTER.match(after) or [b""])[0]
    if re.search(rb"[eE]", part):
        return "spelling of exponents"
    digits = len(re.findall(rb"\d", part))
    if digits > (12 if '"multipleOf"' in schema else 40):
        return "digits of a number"
    if digits > 15 and re.search(r'"(?:enum|const)"', schema):
        return "a number that equals a listed one as a double only"
    if re.search(r'"(?:enum|const)"', schema) and re.search(rb"\\u?$", before):
        return "listed texts are spelt as json.dumps does"
    if '"email"' in schema:  # jsonschema's own check is that there is an @
        return "mail addresses as RFC 5321 has them, at most 64 octets before the @"
    if '"regex"' in schema:
        return "format regex: counts and classes"
    return "white space of more than 40 characters" if re.search(rb"[ \t\n\r]{40}$", before) else ""


_NUMBER_BEFORE, _NUMBER_AFTER = re.compile(rb"[-+.eE0-9]+$"), re.compile(rb"[-+.eE0-9]*")


def repeats_names(text: bytes) -> bool:
    """Whether some object has a name twice."""
    found: list[bool] = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found.append(len(dict(pairs)) < len(pairs))
        return dict(pairs)

    json.loads(text, object_pairs_hook=note)
    return any(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--engines", default="llguidance,xgrammar")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--texts", type=int, default=6)
    parser.add_argument("--steer", type=int, default=40)
    parser.add_argument("--longest", type=int, default=300)
    parser.add_argument("--timeout", type=float, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    compiler = cd.Compiler(cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256))
    counts: dict[str, Counter[str]] = {}
    unread: list[dict[str, str]] = []
    for engine in given.engines.split(","):
        writer, count = Writer(engine, given.timeout), counts.setdefault(engine, Counter())
        for seed, (name, schema) in enumerate(schemas(given.files, given.every)):
            try:
                grammar = compiler.compile(cd.JsonSchema(schema, property_order="any"))
            except (cd.GrammarError, TypeError):
                count["schemas refused here"] += 1
                continue
            texts, problem = writer.texts(schema, seed, given.texts, given.steer, given.longest)
            count["schemas refused there" if problem else "schemas"] += 1
            for text in dict.fromkeys(texts):
                count["texts"] += 1
                try:
                    why = fault(schema, text)
                    is_read, taken = read(grammar, text)
                except Exception as error:  # jsonschema cannot judge it, or a limit is crossed here
                    count[f"not judged: {type(error).__name__}"] += 1
                    continue
                known = "" if why or is_read else choice(json.dumps(schema), text, taken)
                if known:
                    count[f"valid, not read: {known}"] += 1
                    continue
                count[("in" if why else "") + "valid, " + ("read" if is_read else "not read")] += 1
                if is_read == bool(why):
                    entry = {
                        "engine": engine,
                        "name": name,
                        "text": text.decode("utf-8", "replace"),
                        "why": why or f"byte {taken}",
                    }
                    unread.append(entry)
                    print(
                        engine,
                        name,
                        why or f"{text[max(0, taken - 60) : taken]!r} then {text[taken : taken + 12]!r}",
                        flush=True,
                    )
        writer.stop()
        print(engine, dict(count), flush=True)
    if given.json:
        given.json.write_text(json.dumps({"counts": counts, "disagreements": unread}, indent=1) + "\n")


if __name__ == "__main__":
    main()
