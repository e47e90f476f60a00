"""Grammars written to hurt: a result within bounded work or ``LimitExceeded``; no RecursionError, no walk without end."""

from __future__ import annotations

import sys

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


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("start: " + "_" * 20_000, "not part of a grammar"),
        ('start: "a" ' + "?" * 20_000, "not part of a grammar"),
        ('start: "a"?' + "?" * 7, "one repetition at a time"),
    ],
)
def test_runs_of_signs_are_no_names(grammar: str, message: str) -> None:
    with pytest.raises(cd.GrammarError, match=message):
        cd.Lark(grammar).to_ir(cd.Limits())


def test_the_parts_of_all_instances_of_a_template_are_counted() -> None:
    names = "abcdefg"
    turned = f"f{{{','.join('bacdefg')}}} | f{{{','.join('bcdefga')}}}"  # all orders of seven arguments
    grammar = f"start: f{{{','.join(names.upper())}}}\nf{{{','.join(names)}}}: {turned} | {'a b ' * 700}\n"
    grammar += "".join(f'{name.upper()}: "{name}"\n' for name in names)
    with pytest.raises(cd.LimitExceeded, match="instances, of 500000 parts in all"):
        cd.Lark(grammar).to_ir(cd.Limits())


def test_nullable_parts_before_the_first_lexeme_are_written_once() -> None:
    grammar = f'start: {"A? " * 1000}"b"\nA: "a"\n%ignore " "'
    ir = cd.Lark(grammar).to_ir(cd.Limits())
    assert sum(len(right) for _, right in ir.rules) < 20_000
    few = f'start: {"A? " * 100}"b"\nA: "a"\n%ignore " "'
    for count in (0, 15, 16, 17, 99, 100):
        assert taken(few, "a " * count + "b") == (2 * count + 1, True)
    assert taken(few, "a " * 101 + "b") == (200, False)
    assert taken(few, " b") == (0, False)  # nothing is ignored before the first lexeme


def test_a_grammar_in_an_argument_is_written_once() -> None:
    inner = '%lark {\nstart: g{"a"}\ng{y}: y y\n}'
    grammar = f"start: f{{{inner}}}\nf{{x}}: {'x ' * 100}\n"
    assert len(cd.Lark(grammar).to_ir(cd.Limits()).rules) < 10
    assert taken(grammar, "aa" * 100) == (200, True)
    assert taken(grammar, "aa" * 99 + "a") == (199, False)


def test_bounds_of_embedded_grammars_take_linear_steps() -> None:
    def steps(count: int) -> int:
        rules = "".join(f'a{i}[max_tokens=3]: %lark {{\nstart: "a" "{i}"\n}}\n' for i in range(count))
        grammar = cd.Lark("start: " + " | ".join(f"a{i}" for i in range(count)) + "\n" + rules)
        found = 0

        def count_one(*_: object) -> None:
            nonlocal found
            found += 1

        sys.setprofile(count_one)
        try:
            grammar.to_ir(cd.Limits())
        finally:
            sys.setprofile(None)
        return found

    steps(1)
    assert steps(400) < 5 * steps(100)
