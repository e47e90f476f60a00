"""Templates, fixed text with holes: both ways to build them, what is captured, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from engine_tools import NO, OPEN, YES, mask, outcome, vocabulary

import cdplugin as cd
from cdplugin.errors import GrammarError
from cdplugin.limits import Limits

VOCAB = vocabulary([b"Name: ", b"Ada", b", likes ", b"tea", b"coffee"])
SPECIAL = VOCAB.special_tokens["<special>"]
COMPILER = cd.Compiler(VOCAB)
BUILT = cd.Template("Name: ").regex("name", "[A-Z][a-z]+").text(", likes {").choice("drink", ["tea", "coffee"]).text("}")
WRITTEN = cd.Template("Name: {name}, likes {{{drink}}}", name="[A-Z][a-z]+", drink=["tea", "coffee"])


@pytest.mark.parametrize("template", [BUILT, WRITTEN], ids=["built", "written"])
def test_fixed_text_and_holes(template: cd.Template) -> None:
    texts = {"Name: Ada, likes {tea}": YES, "Name: Ada, likes {": OPEN, "Name: ada": NO, "Name: Ada, likes {milk": NO, "": OPEN}
    assert {text: outcome(COMPILER, template, text) for text in texts} == texts


def test_both_ways_are_the_same() -> None:
    assert BUILT.key() == WRITTEN.key() is not None
    assert COMPILER.compile(BUILT) is COMPILER.compile(WRITTEN)


def test_holes_of_all_kinds() -> None:
    template = (
        cd.Template("{{")
        .json(
            "data",
            {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False},
        )
        .text("; ")
        .lark("sum", 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/')
        .text("; ")
        .free("why", "\n", max_chars=5)
        .hole("rest", cd.Gbnf('root ::= "(" root ")" | "x"'))
    )
    assert outcome(COMPILER, template, '{{"n": 12}; 1+22; so é.\n((x))') == YES
    assert outcome(COMPILER, template, '{{"n": 12}; 1+22; so lon\n') == NO  # more than five characters
    captured = {"data": b'{"n": 12}', "sum": b"1+22", "why": "so é.".encode(), "rest": b"((x))"}
    assert template.values(captured) == {"data": {"n": 12}, "sum": "1+22", "why": "so é.", "rest": "((x))"}


def test_captures_are_named() -> None:
    ir = BUILT.to_ir(Limits())
    assert sorted(ir.captures.values()) == ["drink", "name"]
    matcher = COMPILER.compile(BUILT).matcher()
    assert matcher.accept_tokens(list(b"Name: Ada, likes {coffee}")) == 25
    assert BUILT.values(matcher.captures()) == {"name": "Ada", "drink": "coffee"}


def test_values_of_any_object() -> None:
    template = cd.Template("{a}", a=cd.JsonObject())
    matcher = COMPILER.compile(template).matcher()
    matcher.accept_tokens(b'{"x": [1]}')
    assert template.values(matcher.captures()) == {"a": {"x": [1]}}


def test_values_of_templates_in_holes() -> None:
    template = cd.Template("{a}", a=cd.Template("<{b}>", b={"type": "integer"}))
    matcher = COMPILER.compile(template).matcher()
    matcher.accept_tokens(b"<12>")
    assert template.values(matcher.captures()) == {"a": "<12>", "b": 12}


def test_a_hole_may_have_any_name() -> None:
    """Also that of a parameter; the text may still be given by name."""
    assert outcome(COMPILER, cd.Template("{text}{self}", text="[0-9]", self="[a-z]"), "1a") == YES
    assert cd.Template(text="a").key() == cd.Template("a").key()


def test_free_text_ends_at_the_first_stop() -> None:
    """The newline before two others is no free text: the first two of them are the stop."""
    for bound in (None, 3):
        template = cd.Template("").free("a", "\n\n", max_chars=bound).text("\n!")
        assert outcome(COMPILER, template, "x\n\n\n!") == YES and outcome(COMPILER, template, "x\n\n\n\n")[0] is False
        assert COMPILER.compile_or_find(cd.Template("").free("a", "\n\n", max_chars=bound).text("\n!"))[1]  # cached


def test_short_forms() -> None:
    template = cd.Template("{a}{b}{c}{d}", a="[0-9]", b=["x", "y"], c={"type": "boolean"}, d=cd.Choice(["!"]))
    assert outcome(COMPILER, template, "7ytrue!") == YES
    assert outcome(COMPILER, cd.Template("just {{text}}"), "just {text}") == YES
    assert outcome(COMPILER, cd.Template(), "") == YES
    assert outcome(COMPILER, cd.Template("{a}{a}", a="[0-9]"), "12") == YES


def test_special_tokens_in_fixed_text() -> None:
    template = cd.Template("a<special>{x}", x="[0-9]")
    assert (
        outcome(COMPILER, template, [ord("a"), SPECIAL, ord("1")]) == YES and outcome(COMPILER, template, "a<special>1") == YES
    )
    assert SPECIAL not in mask(COMPILER.compile(template).matcher())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cd.Template("{a}"), "nothing is given for hole 'a': expected a=…, a spec, a regular expression, a list or a"),
        (lambda: cd.Template("x {a}", b="x"), "nothing is given for hole 'a': expected one of b - at position 2"),
        (lambda: cd.Template("x", b="x"), "the template has no hole 'b': expected {b} in the text"),
        (
            lambda: cd.Template("x { y"),
            "unbalanced brace in a template: expected {{ or }} for a brace, found { - at position 2",
        ),
        (lambda: cd.Template("x }"), "unbalanced brace in a template"),
        (lambda: cd.Template(3), "bad text of a template: expected str, found int"),  # type: ignore[arg-type]
        (
            lambda: cd.Template("\ud800"),
            "bad text of a template: expected Unicode text, found a lone surrogate - at position 0",
        ),
        (lambda: cd.Template("{a}", a=3), "bad content of hole 'a': expected a spec, a regular expression"),
        (lambda: cd.Template().hole("1", "x"), "bad name of a hole: expected letters, digits and _, found '1'"),
        (lambda: cd.Template().free("a", ""), "bad stop of a hole"),
        (lambda: COMPILER.compile(cd.Template("{a}", a="(")), "- at hole 'a', position 0"),
        (lambda: COMPILER.compile(cd.Template("{a}", a={"type": "x"})), "- at hole 'a', /type"),
    ],
    ids=range(12),
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(message)):
        make()
