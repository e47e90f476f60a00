"""The examples of docs/grammars.md: each grammar compiles, and takes and refuses the texts that are named below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import cdplugin as cd

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "grammars.md").read_text()
SPECS = {"lark": cd.Lark, "gbnf": cd.Gbnf, "ebnf": cd.Ebnf}
EXAMPLES = re.findall(r"^```(\w+)\n(.*?)^```\n(Accepts .*?)?$", PAGE, re.MULTILINE | re.DOTALL)
SPECIAL = ["<|call|>", "<|end|>"]
VOCAB = cd.Vocabulary.from_bytes(
    [bytes([b]) for b in range(256)] + [s.encode() for s in [*SPECIAL, "</s>"]], eos_token_ids=258, special_token_ids=[256, 257]
)
COMPILER = cd.Compiler(VOCAB)


def tokens_of(text: str) -> list[int]:
    out: list[int] = []
    for part in re.split("(" + "|".join(map(re.escape, SPECIAL)) + ")", text):
        out += [256 + SPECIAL.index(part)] if part in SPECIAL else part.encode()
    return out


@pytest.mark.parametrize(("language", "source", "claims"), [e for e in EXAMPLES if e[0] in SPECS])
def test_example(language: str, source: str, claims: str) -> None:
    grammar = COMPILER.compile(SPECS[language](source))
    assert claims.startswith("Accepts"), "an example says what it accepts"
    accepted, _, refused = claims.partition("Refuses")
    for texts, expected in ((accepted, True), (refused, False)):
        for text in re.findall("`([^`]+)`", texts):
            ids, matcher = tokens_of(text), grammar.matcher()
            assert (matcher.accept_tokens(ids) == len(ids) and matcher.is_accepting()) == expected, text


@pytest.mark.parametrize("source", [e[1] for e in EXAMPLES if e[0] == "python"])
def test_python(source: str) -> None:
    exec(compile(source, "docs/grammars.md", "exec"), {})


def test_there_are_examples() -> None:
    assert sum(e[0] == "lark" for e in EXAMPLES) >= 15
