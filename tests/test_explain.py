"""What ``explain`` says of lexemes that end, of tokens that a grammar names, and of where in the grammar a place is."""

from __future__ import annotations

import pytest
from engine_tools import mask, vocabulary

import cdplugin as cd
from cdplugin.queries import explain

VOCAB = vocabulary([b"ab!"])
AB = VOCAB.tokens.index(b"ab!")
SPECIAL = VOCAB.special_tokens["<special>"]
END = VOCAB.eos_token_ids[0]
CALL = r"""
start: call <special>
call: NAME "(" args ")"
args: (NUMBER ("," NUMBER)*)?
NAME: /[a-z]+/
NUMBER: /[0-9]+/
%ignore / +/
"""


@pytest.fixture
def matcher() -> cd.Matcher:
    return cd.Compiler(VOCAB).compile(cd.Lark(CALL)).matcher()


@pytest.mark.parametrize(
    ("text", "token", "says"),
    [
        (b"", ord("1"), "not allowed: byte 0 of token 49 ('1'), '1': expected one of 'a'-'z' (in NAME; rule `call`)"),
        (
            b"f",
            AB,
            f"not allowed: byte 2 of token {AB} ('ab!'), '!', before which NAME may end: "
            "expected one of ' ', '(', 'a'-'z' (in NAME, %ignore, \"(\"; rule `call`)",
        ),
        (
            b"f(",
            33,
            "not allowed: byte 0 of token 33 ('!'), '!': expected one of ' ', ')', '0'-'9' (in %ignore, \")\", NUMBER; rule ",
        ),
        (
            b"f(1,",
            33,
            "not allowed: byte 0 of token 33 ('!'), '!': expected one of ' ', '0'-'9' (in %ignore, NUMBER; rule `args`)",
        ),
        (
            b"f(1 )",
            33,
            "not allowed: byte 0 of token 33 ('!'), '!': expected one of ' ' (in %ignore; rule `start`) or the token <special>",
        ),
        (b"f()", SPECIAL, f"token {SPECIAL} (<special>) is allowed"),
        (
            b"f",
            SPECIAL,
            f"token {SPECIAL} (<special>) is a special token, which the grammar does not name here: expected one of ' ', '('",
        ),
        (
            b"f()",
            END,
            f"token {END} would end the text, which is not complete: expected one of ' ' (in %ignore; rule `start`) or the",
        ),
    ],
)
def test_text(matcher: cd.Matcher, text: bytes, token: int, says: str) -> None:
    assert matcher.accept_tokens(text) == len(text)
    assert matcher.explain(token).startswith(says), matcher.explain(token)


def test_it_says_allowed_exactly_for_what_is_allowed(matcher: cd.Matcher) -> None:
    for token in b"f(12 , 3)":
        allowed = mask(matcher)
        for other in range(VOCAB.size):
            says = matcher.explain(other)
            assert (("is allowed" in says) and "not allowed" not in says) == (other in allowed), says
        assert matcher.accept_token(token)


def test_bytes_that_are_no_text() -> None:
    """They are written with one backslash each; a backslash of the text stays two, whatever follows it."""
    assert explain.show("ä".encode() + b'\xff"') == "'ä\\xff\"'"
    assert explain.show(rb"\udcff") == repr(r"\udcff")
    assert explain.show_bytes([0x09, 0xC2, 0xC3, 0xC4]) == r"'\t', '\xc2'-'\xc4'"


def test_ranges_of_tokens() -> None:
    matcher = cd.Compiler(VOCAB).compile(cd.Lark('start: "a" <[3,10-20]> "b"')).matcher()
    assert matcher.accept_tokens(b"a") == 1
    assert matcher.explain(ord("b")).endswith("expected the token 3, 10 to 20")


def test_a_stop_token_that_the_grammar_names() -> None:
    matcher = cd.Compiler(VOCAB).compile(cd.Lark('start: "a" <special> "b"')).matcher(stop_token_ids=[SPECIAL])
    assert matcher.accept_tokens(b"a") == 1 and matcher.explain(SPECIAL) == f"token {SPECIAL} (<special>) is allowed"
    assert matcher.accept_token(SPECIAL) and "would end the text" in matcher.explain(SPECIAL)
