"""Time of mask + accept on Lark grammars beside llguidance, in turns in one run; compares the masks on the way.

    python perf/bench_lark.py [--only NAME] [--out FILE]

Times are CPU time of one thread (``time.thread_time_ns``), over the canonical tokens of each text in Llama 3's vocabulary.
*first*: from the text of the grammar to the first mask; *cold*: all masks of the texts with a fresh grammar; *warm*: the
same texts once more.

llguidance cannot express ``PYTHON``. It runs a smaller grammar there (``tests/data/python_flat.lark``), so the masks of
``PYTHON`` are not compared. Its texts include programs of HumanEval-X if ``../shared`` has them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import records
from mask_engines import Llguidance, Tokenizer

import cdplugin as cd

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

_QUICKSORT = """def quicksort(items):
    if len(items) <= 1:
        return items
    pivot = items[0]
    left = [x for x in items[1:] if x < pivot]
    right = [x for x in items[1:] if x >= pivot]
    return quicksort(left) + [pivot] + quicksort(right)

class Stack:
    def __init__(self, size=10):
        self.items = []
        self.size = size

    def push(self, item):
        if len(self.items) >= self.size:
            raise ValueError("the stack is full")
        self.items.append(item)

for name in sorted(names, key=lambda n: n.lower()):
    print("hello", name.title(), end="!")
"""
FLAT = Path(__file__).resolve().parent.parent / "tests" / "data" / "python_flat.lark"
"""Python without `%indent`, which llguidance does not have: four levels of four spaces, and a part of the language."""
_HUMANEVAL = Path(__file__).resolve().parents[2] / "shared" / "humaneval-x" / "python-dev.jsonl.gz"
_SCHEMA = {"users": ["id", "name", "age"], "orders": ["id", "user_id", "total", "day"]}
_QUERIES = [
    "SELECT t1.name, count(*) FROM users AS t1 JOIN orders AS t2 ON t1.id = t2.user_id WHERE t2.total > 10.5 AND t1.age "
    "BETWEEN 18 AND 65 GROUP BY t1.name HAVING count(*) > 3 ORDER BY count(*) DESC LIMIT 10",
    "WITH t1 AS (SELECT user_id, sum(total) AS c1 FROM orders GROUP BY user_id) SELECT name FROM users WHERE id IN (SELECT "
    "user_id FROM t1 WHERE c1 > 100) AND name LIKE 'A%' OR age IS NOT NULL",
    "SELECT day, rank() OVER (PARTITION BY user_id ORDER BY total DESC), CASE WHEN total > 100 THEN 'large' ELSE 'small' END "
    "FROM orders WHERE NOT EXISTS (SELECT 1 FROM users WHERE users.id = orders.user_id)",
    "UPDATE orders SET total = total * 2, day = '2024-01-01' WHERE id = 7",
]
_SKIPPED = {"special_tokens", "substrings"}  # tokens that this vocabulary does not have; texts without a choice


def grammars() -> dict[str, tuple[str, list[str]]]:
    """Names, grammars and texts: first the two programming languages, then the cases of the tests."""
    from lark_cases import CASES
    from test_shipped_grammars import PYTHON_PROGRAM

    programs = sorted((Path(__file__).resolve().parent.parent / "tests" / "data" / "cpp").glob("*.cpp"))
    shipped = {
        "PYTHON": (cd.grammars.PYTHON.grammar, [PYTHON_PROGRAM, _QUICKSORT, *_flat_programs()]),
        "Python, flat": (FLAT.read_text(), [PYTHON_PROGRAM, _QUICKSORT]),
        "CPP": (cd.grammars.CPP.grammar, [path.read_text() for path in programs]),
        "SQL": (cd.grammars.SQL.grammar, _QUERIES),
        "SQL, restricted": (cd.grammars.sql(_SCHEMA).grammar, _QUERIES),
    }
    return shipped | {name: case for name, case in CASES.items() if name not in _SKIPPED}


def _flat_programs() -> list[str]:
    """The programs of HumanEval-X that :data:`FLAT` accepts."""
    if not _HUMANEVAL.exists():
        return []
    with gzip.open(_HUMANEVAL, "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256)
    matcher = cd.Compiler(vocab).compile(cd.Lark(FLAT.read_text())).matcher()
    out = []
    for text in texts:
        matcher.reset()
        data = list(text.encode())
        if matcher.accept_tokens(data) == len(data) and matcher.is_accepting():
            out.append(text)
    return out


def without_templates(text: str) -> str:
    """The grammar with its templates written out, for llguidance, which has none. Arguments must be names or empty."""
    definition = re.compile(r"^(\w+)\{([\w, ]+)\}: (.*(?:\n    \|.*)*)\n?", re.MULTILINE)
    templates = {m[1]: (m[2].split(", "), m[3]) for m in definition.finditer(text)}
    if not templates:
        return text
    use = re.compile(rf"\b({'|'.join(templates)})\{{([^{{}}]*)\}}")
    rules: dict[tuple[str, ...], str] = {}
    pending: list[tuple[str, ...]] = []

    def name_of(match: re.Match[str]) -> str:
        key = (match[1], *match[2].split(", "))
        if key not in rules:
            rules[key] = f"{match[1]}-{len(rules)}"
            pending.append(key)
        return rules[key]

    parts = [use.sub(name_of, definition.sub("", text))]
    while pending:
        key = pending.pop()
        parameters, body = templates[key[0]]
        given = {name: "" if value == '""' else value for name, value in zip(parameters, key[1:], strict=True)}
        body = re.sub(rf"\b({'|'.join(parameters)})\b", lambda m, given=given: given[m[1]], body)
        parts.append(f"{rules[key]}: {use.sub(name_of, body)}")
    return "\n".join(parts) + "\n"


class Peer(Llguidance):
    """llguidance with a Lark grammar. It forces no tokens, so that masks can be compared, and its budgets are lifted."""

    def compile(self, schema: Any) -> Any:
        text = '%llguidance {"no_forcing": true}\n' + without_templates(schema)
        most = 20_000_000
        limits = self.lib.LLParserLimits(
            step_max_items=most, max_items_in_row=most, step_lexer_fuel=most, initial_lexer_fuel=most, max_lexer_states=most
        )
        matcher = self.lib.LLMatcher(self.tokenizer, self.lib.LLMatcher.grammar_from_lark(text), log_level=0, limits=limits)
        self._check(matcher)
        return matcher


def run(name: str, text: str, texts: list[str], tokenizer: Tokenizer, compiler: cd.Compiler, peer: Peer) -> list[np.ndarray]:
    """Times in µs: ours and theirs cold, ours and theirs warm, and ``[first of ours, of theirs]``. Masks must be equal."""
    row = np.zeros((1, len(peer.bits)), np.int32)
    clock = time.thread_time_ns
    started = clock()
    beside = FLAT.read_text() if name == "PYTHON" else text
    grammar = compiler.compile(cd.Lark(text))
    grammar.matcher().fill_next_token_bitmask(row)
    first = [clock() - started]
    started = clock()
    compiled = peer.compile(beside)
    peer.fill(peer.matcher(compiled))
    first.append(clock() - started)
    out: list[np.ndarray] = []
    for _ in ("cold", "warm"):
        ours, theirs = [], []
        for program in texts:
            matcher, other = grammar.matcher(), peer.matcher(compiled)
            for token in tokenizer.encoding.encode(program):
                started = clock()
                matcher.fill_next_token_bitmask(row)
                ours.append(clock() - started)
                started = clock()
                peer.fill(other)
                theirs.append(clock() - started)
                assert beside != text or np.array_equal(row[0], peer.bits), f"{name}: masks differ after {matcher.tokens}"
                started = clock()
                taken = matcher.accept_token(token)
                ours[-1] += clock() - started
                if not taken:
                    break
                started = clock()
                peer.accept(other, token)
                theirs[-1] += clock() - started
        out += [np.array(ours) / 1e3, np.array(theirs) / 1e3]
    return [*out, np.array(first) / 1e3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="one grammar by name")
    parser.add_argument("--out", type=Path, help="write the rows of the table as JSON")
    given = parser.parse_args()
    tokenizer = Tokenizer("llama3")
    vocab = cd.Vocabulary.from_tiktoken(tokenizer.encoding, eos_token_ids=[tokenizer.eos])
    compiler, peer = cd.Compiler(vocab), Peer(tokenizer)
    compiler.compile(cd.Lark('start: "warm"')).matcher()
    print("| grammar | masks | cold, mean µs | llguidance | ratio | warm, mean µs | llguidance | first mask, ms | llguidance |")
    print("|---|---|---|---|---|---|---|---|---|")
    totals: list[list[np.ndarray]] = []
    rows: dict[str, dict[str, float]] = {}
    for name, (text, texts) in grammars().items():
        if given.only in (None, name):
            totals.append(run(name, text, texts, tokenizer, compiler, peer))
            rows[name] = show(name, totals[-1])
    parts = [np.concatenate(column) for column in zip(*(times[:4] for times in totals), strict=True)]
    rows["all"] = show("all", [*parts, np.mean([times[4] for times in totals], axis=0)])
    records.keep(given.out, ("cdplugin", "llguidance"), grammars=rows)


def show(name: str, times: list[np.ndarray]) -> dict[str, float]:
    """Print a row of the table; return it: means of masks + accepts in µs, first masks in ms, for both engines."""
    cold, peer_cold, warm, peer_warm = (float(part.mean()) for part in times[:4])
    first, peer_first = (times[4] / 1e3).tolist()
    print(
        f"| {name} | {len(times[0])} | {cold:.0f} | {peer_cold:.0f} | {cold / peer_cold:.2f}× | {warm:.1f} | {peer_warm:.0f} "
        f"| {first:.1f} | {peer_first:.1f} |"
    )
    found = {"cold": cold, "warm": warm, "first mask ms": first}
    theirs = {"cold": peer_cold, "warm": peer_warm, "first mask ms": peer_first}
    ratios = {f"{what} ÷ llguidance": round(value / theirs[what], 3) for what, value in found.items()}
    return {"masks": len(times[0])} | {what: round(value, 2) for what, value in found.items()} | ratios


if __name__ == "__main__":
    main()
