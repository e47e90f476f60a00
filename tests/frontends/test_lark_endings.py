"""Grammars that longest match never lets end are refused; by brute force, no grammar that has a word is."""

from __future__ import annotations

import random

import pytest
from engine_tools import mask
from lark_cases import random_grammar
from naive_lexing import NaiveLexing

import cdplugin as cd
from cdplugin.frontends.lark import compile as lark_compile
from cdplugin.limits import Limits


def places(naive: NaiveLexing, start: frozenset, length: int) -> list[frozenset]:
    """All places that texts of at most ``length`` letters lead to."""
    out, last = [start], [start]
    for _ in range(length):
        last = list({after for place in last for byte in b"abc" if (after := naive.step(place, byte))})
        out += last
    return out


def has_word(naive: NaiveLexing, start: frozenset, length: int) -> bool:
    return any(naive.accepting(place) for place in places(naive, start, length))


def test_no_false_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused has a place from which no text of up to 5 letters leads to an end (or no place at all)."""
    refused = 0
    for seed in range(700):
        text = random_grammar(random.Random(seed))
        try:
            cd.Lark(text).to_ir(Limits())
        except cd.GrammarError as error:
            if "never ends" not in error.message or "'start'" not in error.message:
                continue
            refused += 1
            with monkeypatch.context() as patch:
                patch.setattr(lark_compile, "check_endings", lambda draft, ignored: None)
                naive = NaiveLexing(cd.Lark(text).to_ir(Limits()))
            if not naive.empty:
                assert any(not has_word(naive, place, 5) for place in places(naive, naive.start(), 3)), text
    assert refused >= 30


@pytest.mark.parametrize(
    ("grammar", "rule", "byte"),
    [
        ('start: /[a-z]+/ "x"', "start", "'x'"),
        ('start: TEXT "<tag>"\nTEXT: /(.|\\n)*/', "start", "'<'"),
        ('start: "a" b?\nb: c "end"\nc: "(" NAME\nNAME: /[a-z]+/', "c", "'e'"),
        ('start: NAME NAME\nNAME: /[a-z]+/\n%ignore "x"', "start", "'a'"),
        ('start: NAME "x" | "5"\nNAME: /[a-z]+/', "start", "'x'"),
        ('start: "q" | x\nx: y\ny: A ("x" | "y" A)\nA: "." /[a-z]/*', "y", "'x', 'y'"),
        ("start: T U\nT: /[ぁ-ん]+/\nU: /[ぁ-ん]+/", "start", "byte 0xe3 of UTF-8"),
    ],
)
def test_refused(grammar: str, rule: str, byte: str) -> None:
    with pytest.raises(cd.GrammarError, match=f"rule '{rule}' never ends") as caught:
        cd.Lark(grammar).to_ir(Limits())
    assert byte in str(caught.value)
    assert "suffix=" in caught.value.expected


@pytest.mark.parametrize("grammar", ['start: "a" "a"', 'start: "1" | x\nx: "x" "in" NAME\nNAME: /[a-z]+/', 'start: "é1" "ü"'])
def test_words_that_nothing_parts_are_refused(grammar: str) -> None:
    """What may follow begins with a character (by its first byte) before which, by ``%word``, none of them ends."""
    words = "%word /[a-zé1]/\n"
    with pytest.raises(cd.GrammarError, match="never ends before what may follow it"):
        cd.Lark(words + grammar).to_ir(Limits())
    assert cd.Lark(words + grammar + '\n%ignore " "').to_ir(Limits()).rules


@pytest.mark.parametrize(
    "grammar",
    [
        "start: TEXT <|end|>\nTEXT: /(.|\\n)*/",
        "start: TEXT %json {}\nTEXT: /(.|\\n)*/",
        'start: NAME NAME\nNAME: /[a-z]+/\n%ignore " "',
        'start: NAME "x"?\nNAME: /[a-z]+/',
        'start: /[a-z]{1,9}/ "x"',
        'start: x "end"\nx[max_tokens=3]: /[a-z]+/',
        'start: x "end"\nx[suffix=";"]: /[a-z]+/',
        'start: a* "."\na: NAME "-"\nNAME: /[a-z]+/ | "x"',
    ],
)
def test_not_refused(grammar: str) -> None:
    assert cd.Lark(grammar).to_ir(Limits()).rules


def test_the_reference_finds_words() -> None:
    naive = NaiveLexing(cd.Lark('start: /a+/ "b"').to_ir(Limits()))
    assert has_word(naive, naive.start(), 2) and not has_word(naive, naive.start(), 1)


def test_what_may_come_no_times_blocks_nothing() -> None:
    """Nothing follows a rule that ``start`` does not lead to: that is no reason to say that it never ends."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)
    matcher = cd.Compiler(vocab).compile(cd.Lark('start: ("a" b){0} "c"\nb: "x" b | "y"')).matcher()
    assert matcher.accept_tokens(b"c") == 1 and matcher.is_accepting()


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ('start: "x" (" " T)?\nT: /a/ & /b/', b"x"),
        ('start: r "y"\nr: "x" | "z" T\nT: /a/ & /b/', b"xy"),
    ],
)
def test_an_alternative_that_matches_nothing_blocks_nothing(grammar: str, text: bytes) -> None:
    """Longest match has no part in it that nothing follows what comes before an empty terminal."""
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)
    matcher = cd.Compiler(vocab).compile(cd.Lark(grammar)).matcher()
    for token in [*text, 256]:
        assert mask(matcher) == {token}
        assert matcher.accept_token(token)


@pytest.mark.parametrize("grammar", ['start: " " T\nT: /a/ & /b/', 'start: [" "] T\nT: /a/ & /b/'])
def test_a_grammar_that_needs_an_empty_terminal(grammar: str) -> None:
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"<end>"], eos_token_ids=256)
    with pytest.raises(cd.GrammarError, match="the grammar matches nothing"):
        cd.Compiler(vocab).compile(cd.Lark(grammar))
