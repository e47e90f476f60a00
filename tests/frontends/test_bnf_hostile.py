"""Hostile grammars (exponentially ambiguous, cyclic, deep, huge): their work is bounded by count, or they are refused."""

from __future__ import annotations

import re

import pytest
from engine_tools import mask, vocabulary

import cdplugin as cd
from cdplugin.errors import LimitExceeded
from cdplugin.limits import Limits

VOCAB = vocabulary([b"aa", b"aaaa", b"ab", b"((", b"(((("])
COMPILER = cd.Compiler(VOCAB)


def accepted(grammar: str, text: str) -> bool:
    matcher = COMPILER.compile(cd.Gbnf(grammar)).matcher()
    data = list(text.encode())
    return matcher.accept_tokens(data) == len(data) and matcher.is_accepting()


N = 2_000


@pytest.mark.parametrize(
    ("grammar", "word", "other"),
    [
        ('root ::= (("a"+)+)+ "b"', "a" * N + "b", "a" * N + "c"),
        ('root ::= x "b"\nx ::= x x | "a" |', "a" * 60 + "b", "a" * 60),
        ('root ::= ("a" | "aa" | "aaa")* "b"', "a" * N + "b", "ba"),
        ('root ::= ("a"* "a"*)* "b"', "a" * N + "b", ""),
        ('root ::= a b c\na ::= b | "a"\nb ::= c | a\nc ::= a | "c"', "aac", "ab"),
        ('root ::= ((("")*)*)* "a"', "a", "aa"),
        ('root ::= e e e e e e e e "a"\ne ::= f f f f f f f f\nf ::= e | ""', "a", "b"),
        ('root ::= "(" root ")" | "x"', "(" * N + "x" + ")" * N, "(" * N + "x" + ")" * (N - 1)),
        ('root ::= root root "a" | "a"', "a" * 61, "a" * 60),
        ('root ::= "a"? "a"? "a"? "a"? "a"? "a"? "a"? "a"? "a"? "a"? "aaaaaaaaaa"', "a" * 20, "a" * 21),
        ('root ::= ("a" | "b")* "a" ("a" | "b"){40}', "ab" * 40 + "a", "b" * 41),
        ('root ::= ("a" root)? ("b" root)?', "abab" * 8, "c"),
        ('root ::= x{0,16000000}\nx ::= "(" x ")" | "y"', "y(y)" * 50, "y("),
        ('root ::= "a"{1,16000000}', "a" * N, ""),
        ('root ::= (((("a"?){0,9}){0,9}){0,9}){0,9}', "a" * 50, "b"),
    ],
    ids=range(15),
)
def test_bounded(grammar: str, word: str, other: str) -> None:
    assert accepted(grammar, word) and not accepted(grammar, other)


def test_work_does_not_grow_with_the_text() -> None:
    """``(a+)+ b``: after the first characters, nothing new is computed however long the text becomes."""
    grammar = COMPILER.compile(cd.Gbnf('root ::= (x+)+ "b"\nx ::= "a" | "(" x ")"'))
    counts = []
    matcher = grammar.matcher()
    for _ in range(4):
        assert matcher.accept_tokens(list(b"a" * 300)) == 300
        mask(matcher)
        counts.append((grammar.counters()["derivatives"], grammar.counters()["row_advances"], grammar.counters()["rows"]))
    assert counts[1] == counts[2] == counts[3]


def test_limits_are_named() -> None:
    """More rules than Limits.max_rules, noticed while they are written; a lexeme whose derivatives grow too wide."""
    text = "root ::= r0\n" + "\n".join(f'r{i} ::= r{i + 1} r0 | "{i}"' for i in range(2_000)) + '\nr2000 ::= ""'
    with pytest.raises(LimitExceeded, match="too many rules: expected at most Limits.max_rules = 1000"):
        cd.Gbnf(text).to_ir(Limits(max_rules=1_000))
    narrow = cd.Compiler(COMPILER.vocab, Limits(max_expr_width=64))
    wide = narrow.compile(cd.Gbnf('root ::= [ab]* "a" [ab]{200}')).matcher()
    with pytest.raises(LimitExceeded, match="Limits.max_expr_width = 64"):
        wide.accept_tokens(list(b"ab" * 100))  # counts that adjoin would be one range


@pytest.mark.parametrize("count", ["{0,3}", "{2}", "{1,2}", "{2,3}", "*", "+", "?", "{3,}", "{0,1}"])
def test_counts_of_counts(count: str) -> None:
    """``(x{a,b}){c,d}``, which may become one count: against ``re``."""
    for inner in ("{0,2}", "{2}", "{2,3}", "{3,5}", "*", "+", "?", "{2,}", "{4,4}", "{1,}"):
        matcher = COMPILER.compile(cd.Gbnf(f'root ::= (("a"{inner})){count}')).matcher()
        pattern = re.compile(f"(a{inner}){count}")
        for length in range(26):
            assert matcher.is_accepting() == bool(pattern.fullmatch("a" * length)), (inner, count, length)
            if not matcher.accept_token(ord("a")):
                assert not any(pattern.fullmatch("a" * n) for n in range(length + 1, 40))
                break


def test_doubling_is_not_written_out() -> None:
    """40 rules, each twice the one before: 2**40 characters long, and still small."""
    text = 'root ::= r40\nr0 ::= "ab"\n' + "\n".join(f"r{i + 1} ::= r{i} r{i}" for i in range(40))
    matcher = COMPILER.compile(cd.Gbnf(text)).matcher()
    assert matcher.accept_tokens(list(b"ab" * 500)) == 1000 and not matcher.is_accepting()


def test_thousands_of_rules_and_choices() -> None:
    names = [f"rule-{i}" for i in range(3_000)]
    text = "root ::= " + " | ".join(names) + "\n" + "\n".join(f'{name} ::= "<{i}>" (root | "")' for i, name in enumerate(names))
    assert accepted(text, "<2999><0><17>") and not accepted(text, "<3000>")
    literals = "root ::= " + " | ".join(f'"{i:05}"' for i in range(10_000))
    assert accepted(literals, "09999") and not accepted(literals, "10000")


@pytest.mark.parametrize("gap", [" " * 300, "#" * 300 + "\n", "\n" + " " * 300, "# # " * 100 + "\n" + "\t" * 200])
@pytest.mark.parametrize("syntax", ["xgrammar", "gbnf"])
def test_a_gap_behind_a_name_is_read_once(syntax: str, gap: str) -> None:
    """Whether a rule begins was asked of a pattern that backtracked over each split of the gap: twice the time a space."""
    spec = cd.Ebnf(f'root ::= (a{gap}"b"{gap})\n{gap}\na ::= "c"', syntax)
    matcher = COMPILER.compile(spec).matcher()
    assert matcher.accept_tokens(b"cb") == 2 and matcher.is_accepting()


def test_long_names_and_brackets_are_read_once() -> None:
    """Both took time quadratic in the text: hours for these."""
    with pytest.raises(cd.GrammarError, match="bad rule"):
        COMPILER.compile(cd.Ebnf("a" * 1_000_000, "auto"))
    with pytest.raises(cd.GrammarError, match="max_expr_nodes"):
        COMPILER.compile(cd.Ebnf('root ::= Regex("' + "[" * 1_000_000 + '")'))
