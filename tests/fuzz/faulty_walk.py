"""Walks through grammars while faults are injected; compares each mask with that of an engine that never meets a fault.

``python tests/fuzz/faulty_walk.py --tokens 1000000`` (with ``NUMBA_BOUNDSCHECK=1``) walks so many tokens, in forked
processes, since a damaged table may end a process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.path.append(str(Path(__file__).resolve().parents[2]))  # unless another cdplugin comes first (PYTHONPATH)

from fuzz.faults import KINDS, Fault, tight_tables

import cdplugin as cd

TEXTS = [
    b'"a',
    b'":',
    b'", "',
    b'"}',
    b"ab",
    b"abc",
    b"aaaa",
    b"xy",
    b"12",
    b", ",
    b"]]",
    b"{}",
    b"true",
    b"the ",
    b"<t>",
    b"</t>",
]
VOCAB = cd.Vocabulary.from_bytes(
    [*(bytes([b]) for b in range(256)), *TEXTS, "é".encode(), "日本".encode(), b"<|x|>", b"</s>"],
    eos_token_ids=256 + len(TEXTS) + 3,
    special_token_ids=[256 + len(TEXTS) + 2],
)
SPECS: list[cd.Spec] = [
    cd.JsonObject(),
    cd.JsonSchema(
        {"type": "object", "properties": {name: {"type": "integer"} for name in "abcdef"}, "required": ["a", "f"]},
        property_order="any",
    ),
    cd.JsonSchema({"type": "array", "items": {"type": "string", "pattern": "^[ab]{1,4}$"}, "uniqueItems": True, "maxItems": 9}),
    cd.JsonSchema({"type": "array", "items": {"enum": ["a", "ab", 1, 2, None, "é"]}, "uniqueItems": True}),
    cd.JsonSchema({"type": "string", "allOf": [{"pattern": "[a-c]x?[0-9]"}, {"not": {"pattern": "ab"}}], "minLength": 4}),
    cd.JsonSchema({"type": "object", "patternProperties": {"^x": {"type": "number"}}, "minProperties": 2, "maxProperties": 6}),
    cd.JsonSchema(
        {"type": "array", "contains": {"const": 12}, "minContains": 2, "maxContains": 5, "items": {"type": "integer"}}
    ),
    cd.JsonSchema({"type": "number", "minimum": -12.5, "maximum": 12345, "multipleOf": 0.5}),
    cd.Regex("(a|ab|abc|[a-c]{2,9}x)*y"),
    cd.Regex(".{0,300}a.{9}b"),
    cd.Gbnf('root ::= e\ne ::= e "+" e | e e | "(" e ")" | [a-c]+ | ""'),
    cd.Lark('start: (A | B | "ab" c)* ";"\nA: /[a-b]+/\nB: /[a-z]{1,3}[0-9]*/\nc: "(" start ")"\n%ignore /[ ]+/'),
    cd.Lark('start: a b*\na[max_tokens=4]: /[a-z]+/\nb[suffix=";"]: /[^;]*/\n'),
    cd.Lark('start: x::0\nx::_ : "a" x::incr([0:8]) %if lt([0:8], 200) | "b" x::set_bit(9) %if bit_clear(9) | "." '),
    cd.StructuralTag({"structures": [{"begin": "<t>", "schema": {"type": "object"}, "end": "</t>"}], "triggers": ["<t"]}),
]


@dataclass
class Tally:
    """What was walked. ``wrong``: what must not happen; empty if all is well."""

    tokens: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    wrong: str = ""


def masks_of(matcher: cd.Matcher) -> bytes:
    row = np.full((1, (VOCAB.size + 31) // 32), -1, np.int32)
    matcher.fill_next_token_bitmask(row)
    return row.tobytes()


class Pair:
    """A matcher that meets faults, and one of an engine that does not."""

    def __init__(self, number: int, rng: random.Random) -> None:
        self.rng = rng
        self.tally = Tally()
        spec = SPECS[number % len(SPECS)]
        small = rng.choice([1 << 30, 1 << 30, 1 << 22])  # the last: arenas are replaced all the time
        with tight_tables():
            compiler = cd.Compiler(VOCAB, cd.Limits(max_arena_bytes=small, max_rules=300_000))
            self._attempt(lambda: compiler.compile(spec))
            self.subject = compiler.compile(spec).matcher()
        self.oracle = cd.Compiler(VOCAB, cd.Limits(max_rules=300_001)).compile(spec).matcher()

    def walk(self, tokens: int) -> Tally:
        """Walk until so many tokens are accepted, or something is wrong."""
        while self.tally.tokens < tokens and not self.tally.wrong:
            self._step()
        return self.tally

    def _step(self) -> None:
        rng, subject, oracle = self.rng, self.subject, self.oracle
        expected = masks_of(oracle)
        found = self._attempt(lambda: masks_of(subject))
        if found is not None and found != expected:
            self.tally.wrong = f"another mask after {VOCAB.decode(oracle.tokens)!r}"
            return
        allowed = np.flatnonzero(np.unpackbits(np.frombuffer(expected, np.uint8), bitorder="little"))
        if not len(allowed) or subject.is_terminated() or len(subject.tokens) > 60 or rng.random() < 0.03:
            back = rng.randint(len(subject.tokens) // 2, len(subject.tokens))
            subject.rollback(back)
            oracle.rollback(back)
            return
        token = int(rng.choice(allowed))
        if self._attempt(lambda: subject.accept_token(token)) is not True and not subject.accept_token(token):
            self.tally.wrong = f"token {token} is refused after {VOCAB.decode(oracle.tokens)!r}"
            return
        if not oracle.accept_token(token) or subject.tokens != oracle.tokens:
            self.tally.wrong = f"the matchers went apart after {VOCAB.decode(oracle.tokens)!r}"
        self.tally.tokens += 1

    def _attempt(self, call):  # type: ignore[no-untyped-def]
        """Call it with tables that grow by little, perhaps with a fault. None if the fault went off."""
        with tight_tables():
            return self._tightly(call)

    def _tightly(self, call):  # type: ignore[no-untyped-def]
        if self.rng.random() < 0.5:
            return call()
        fault = Fault(self.rng.choice(KINDS), int(self.rng.choice([1, 1, 1, 2, 3, 5, 9, 30])))
        try:
            with fault.armed():
                result = call()
        except (MemoryError, KeyboardInterrupt, cd.LimitExceeded):
            if not fault.fired:
                raise
            self.tally.injected[fault.kind] += 1
            return None
        if fault.fired:
            self.tally.injected[f"{fault.kind}, survived"] += 1
        return result


def walk_in_fork(number: int, seed: int, tokens: int) -> Tally:
    """A walk in a process of its own, which may die."""
    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if child == 0:
            try:
                tally = Tally()
                try:
                    pair = Pair(number, random.Random(seed))
                    tally = pair.tally
                    pair.walk(tokens)
                except BaseException as error:
                    place = traceback.extract_tb(error.__traceback__)[-1]
                    tally.wrong = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
                os.write(file.fileno(), json.dumps([tally.tokens, tally.injected, tally.wrong]).encode())
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        file.seek(0)
        told = file.read()
    if not told:
        return Tally(wrong=f"the process died, status {status}")
    walked, injected, wrong = json.loads(told)
    return Tally(walked, Counter(injected), wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=20_000, help="to walk in all")
    parser.add_argument("--walk", type=int, default=100, help="tokens of one walk, in an engine and a process of its own")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    total, number = Tally(), arguments.seed
    while total.tokens < arguments.tokens:
        tally = walk_in_fork(number, number, arguments.walk)
        total.tokens += tally.tokens
        total.injected += tally.injected
        if tally.wrong:
            print(
                f"walk {number}, {type(SPECS[number % len(SPECS)]).__name__} {number % len(SPECS)}: {tally.wrong}", flush=True
            )
            total.wrong = tally.wrong
            total.tokens += arguments.walk - tally.tokens  # or it would go on for ever
        number += 1
    print(f"{total.tokens:,} tokens; injected: {dict(total.injected)}")
    sys.exit(bool(total.wrong))


if __name__ == "__main__":
    main()
