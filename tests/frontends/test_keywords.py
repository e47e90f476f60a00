"""Text up to the first of some words, computed by elimination of states, by complement, and by searching through the text."""

from __future__ import annotations

import random

import pytest
from engine_tools import vocabulary
from naive import Naive

import cdplugin as cd
from cdplugin import expr
from cdplugin.frontends import free_text
from cdplugin.frontends.keywords import up_to
from cdplugin.ir import GrammarIR

VOCAB = vocabulary()
WORDS = [
    ["a"],
    ["ab"],
    ["aa"],
    ["aab"],
    ["abab"],
    ["aé"],
    ["ab", "ba"],
    ["ab", "b"],
    ["a", "ab"],
    ["aab", "b"],
    ["abc", "bc", "c"],
    ["é", "ébé"],
]


def first_complete(text: str, words: list[str]) -> tuple[int, set[str]]:
    """Where the first word is complete, and the words that end there; ``(-1, …)`` if no word does."""
    for end in range(1, len(text) + 1):
        found = {word for word in words if text[:end].endswith(word)}
        if found:
            return end, found
    return -1, set()


def texts(letters: str, longest: int) -> list[str]:
    out = [""]
    for text in out:
        if len(text) < longest:
            out += [text + letter for letter in letters]
    return out


def matches(expression: expr.Expr, longest: int, letters: str) -> set[str]:
    """The texts that an expression matches, by stepping the engine."""
    ir = GrammarIR()
    ir.start = ir.nonterminal("s")
    ir.rule(ir.start, [ir.lexeme(expr.cat(expression, expr.literal(b"!")))])
    naive = Naive(ir)
    matcher = cd.Compiler(VOCAB).compile_ir(ir).matcher()
    out = set()
    for text in texts(letters, longest):
        matcher.reset()
        data = text.encode() + b"!"
        taken = matcher.accept_tokens(list(data)) == len(data)
        accepted = taken and matcher.is_accepting()
        assert accepted == naive.accepts(data)
        if accepted:
            out.add(text)
    return out


@pytest.mark.parametrize("number", range(len(WORDS)))
@pytest.mark.parametrize("plain", [True, False])
def test_first_word(number: int, plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to write it; a bound is what the plain way is for."""
    words = WORDS[number]
    letters = "abé" if number % 2 else "abc"
    if not plain:
        monkeypatch.setattr(free_text, "up_to", lambda words, ends: None)
    else:
        assert up_to(words, None) is not None
    every = texts(letters, 5)
    for bound in (4, 2) if plain else (None, 2):
        free = {t for t in every if first_complete(t, words)[0] < 0 and (bound is None or len(t) <= bound)}
        assert matches(free_text.without(words, bound), 5, letters) == free
        for word in words:
            ended = {t for t in every if first_complete(t, words)[0] == len(t) and word in first_complete(t, words)[1]}
            expected = {t for t in ended if t and (bound is None or len(t) - len(word) <= bound)}
            if expected or any(len(t) <= 4 for t in ended):
                assert matches(free_text.until(word, words, bound), 5, letters) == expected


def test_many_words_are_written_by_complement() -> None:
    rng = random.Random(0)
    words = ["".join(rng.choice("ab") for _ in range(9)) for _ in range(40)]
    assert up_to(words, None) is None
    assert "complement" in repr(free_text.without(words, 9))
    assert "complement" not in repr(free_text.without(["</think>", "<tool_call>"], 9))
