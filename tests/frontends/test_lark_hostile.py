"""Grammars written to hurt: a result within bounded work or ``LimitExceeded``; no RecursionError, no walk without end."""

from __future__ import annotations

import pytest

import cdplugin as cd
from cdplugin.frontends.lark import write

VOCAB = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"aaaa", b"((((", b"</s>"], eos_token_ids=258)


def taken(grammar: str, text: str, limits: cd.Limits | None = None) -> tuple[int, bool]:
    matcher = cd.Compiler(VOCAB, limits).compile(cd.Lark(grammar)).matcher()
    row = cd.allocate_token_bitmask(1, VOCAB.size)
    for n, byte in enumerate(text.encode()):
        if n % 50 == 0:
            matcher.fill_next_token_bitmask(row)
        if not matcher.accept_token(byte):
            return n, False
    return len(text), matcher.is_accepting()


@pytest.mark.parametrize(
    ("grammar", "text"),
    [
        ("start: /(a+)+b/", "a" * 2000 + "b"),
        ('start: (("a"+)+)+ "b"', "a" * 1000 + "b"),
        ('start: ((("a"*)*)*)* "b"', "a" * 500 + "b"),
        ('start: "(" start ")" | "x"', "(" * 3000 + "x" + ")" * 3000),
        ('start: "a" start |', "a" * 3000),
        ('start: start "a" |', "a" * 3000),
        ('start: a\na: b | "x" a\nb: c | a\nc: a | "y"', "x" * 500 + "y"),
        ('start: A\nA: ("a" | "b"){0,1000000}', "ab" * 500),
        ('start: ("a" | "b"){0,1000000} "c"', "ab" * 500 + "c"),
        ("start: (A | B | C)+\nA: /a/\nB: /aa/\nC: /a+/", "a" * 500),
        ('start: x+ "."\nx: %json {"type": "integer"} | %json {"type": "integer"}', "1" * 300 + "."),
        ('start: s\ns: "i" s | "i" s "e" s | "x"', "i" * 300 + "xexex"),
        ("start: A\nA: /[ab]*/ & ~(/[ab]*a[ab]{12}/)", "ab" * 5),
        ("start: " + " | ".join(f'"w{i}"' for i in range(20_000)), "w19999"),
        (
            "start: ("
            + " | ".join(f"T{i}" for i in range(500))
            + ")+\n"
            + "\n".join(f"T{i}: /k{i}[a-z]*;/" for i in range(500)),
            "k499a;k5;",
        ),
    ],
)
def test_a_result(grammar: str, text: str) -> None:
    assert taken(grammar, text) == (len(text), True)


@pytest.mark.parametrize(
    ("grammar", "text", "limit"),
    [
        ('start: s\ns: s s s | s s | "a" |', "a" * 300, "max_row_items"),
        ("start: A\nA: /[ab]*a[ab]{900}/", "ab" * 450, "max_expr_width"),
        ("start: A\nA: " + " & ".join(f"/([ab]{{{p}}})*/" for p in (2, 3, 5, 7, 11, 13, 17)), "ab", "emptiness_fuel"),
    ],
)
def test_a_limit(grammar: str, text: str, limit: str) -> None:
    with pytest.raises(cd.LimitExceeded, match=limit):
        taken(grammar, text, cd.Limits(max_expr_width=400))


@pytest.mark.parametrize(
    "alternatives",
    [
        "".join(f' | "a" p::incr([0:64]) %if lt([0:64], {10**12 + i})\n' for i in range(30)),
        "".join(f' | "a" p::set_bit({i})\n' for i in range(60)),
        ' | "a" ' + "p::incr([0:64]) " * 60 + "\n",
    ],
)
@pytest.mark.parametrize("where", ["start: p::0\n", 'start: "x" p::0 | "y"\n'])
def test_alternatives_count_where_values_are_looked_at(monkeypatch: pytest.MonkeyPatch, where: str, alternatives: str) -> None:
    """A question about parameters has a budget of work, however many alternatives each value has (before, 100,000 times 30)."""
    looked_at = 0

    def counted(production: write.Production, parameter: int | None) -> bool:
        nonlocal looked_at
        looked_at += len(production.parts)
        return applies(production, parameter)

    applies = write.applies
    monkeypatch.setattr(write, "applies", counted)
    grammar = where + 'p::_: "" %if eq([0:64], 18446744073709551614)\n' + alternatives
    with pytest.raises(cd.LimitExceeded, match="'p': too many parameter values"):
        taken(grammar, "x")
    assert looked_at < 1_000_000
