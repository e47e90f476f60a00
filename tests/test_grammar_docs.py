"""The examples of docs/grammars.md: each grammar compiles, and accepts and refuses the texts that are named below it."""

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


FEATURES = r"""
\{2\} ~\d\.\.\d \[tail\] "0"\.\."9" \w&|&\x20 ~KEYWORD "SELECT"i //.*or ^%ignore %import\x20common\. %import\x20common\x20\(
%declare \[suffix= \[lazy\] \[max_tokens= \[capture\] capture=" <\|call\|> %json %lark @value substring_words
substring_chars substring_chunks set_bit incr\( %if separated\{ ignore_once \[α-ω\] TagDispatch syntax="auto" triggered_tags
"structures" "grammar" cd\.Tools\( on_broken cd\.After\( then="repeat" then="free" max_chars cd\.Template\( \.choice\(
%indent %word \[glued\] cd\.Regex\( cd\.Choice\( cd\.JsonObject\(
"""


@pytest.mark.parametrize("feature", FEATURES.split())
def test_every_feature_has_an_example(feature: str) -> None:
    assert any(re.search(feature, source, re.MULTILINE) for _, source, _ in EXAMPLES)
