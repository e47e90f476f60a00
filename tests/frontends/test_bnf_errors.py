"""Malformed GBNF and EBNF: the message says what is wrong, where, what was expected and what was found.

A table maps each message to the grammars that must get it; ``line:column`` stands before each grammar.
"""

from __future__ import annotations

import re

import pytest

import cdplugin as cd
from cdplugin.errors import GrammarError, LimitExceeded, UnsupportedError
from cdplugin.frontends.bnf import compile_bnf
from cdplugin.limits import Limits

GBNF = {
    "expected the name of a rule": ["1:1 ::= 'a'", '1:1 "a"', "1:1 | x", '2:1 root ::= "a"\n]', "2:1 # nothing\n{"],
    "expected ::= after the name of a rule, found '='": ['1:6 root = "a"'],
    "bad rule: expected ::= after the name of a rule, found ':=": ['1:6 root := "a"'],
    "bad rule (name: … is written with cdplugin.Lark): expected ::= after the name of a rule, found ':'": ['1:6 root : "a"'],
    "expected ::= after the name of a rule, found ':": ['1:6 root : "a"', '1:6 root :: = "a"'],
    "expected ::= after the name of a rule, found the end": ["1:5 root", "1:5 root\n"],
    "expected ::= after the name of a rule, found 'x'": ["1:6 root x"],
    "a rule ends with its line": ['2:2 root ::= "a"\n "b"', '2:1 root ::= x\n(y)\nx ::= "x"\ny ::= "y"'],
    "rule 'a' is defined twice; the first is at line 2, column 1": ['3:1 root ::= a\na ::= "x"\na ::= "y"'],
    "the grammar has no rules: expected root ::= …, found no text": ["- "],
    "the grammar has no rules: expected root ::= …, found none": ["- # a comment", "- \n\n"],
    "no rule is named 'root': did you mean 'Root'?": ['- Root ::= "a"'],
    "no rule is named 'root': did you mean 'roots'?": ['- roots ::= "a"'],
    "no rule is named 'root': expected a rule 'root', or root=…, found start": ['- start ::= "a"'],
    "rule 'b' is not defined - at": ["1:10 root ::= b", "1:14 root ::= ( x b )\nx ::= [x]"],
    "rule 'vlaue' is not defined: did you mean 'value', which no rule uses?": ['1:10 root ::= vlaue\nvalue ::= "x"'],
    "rule 'my_rule' is not defined: did you mean 'my-rule', which no rule uses?": ['1:10 root ::= my_rule\nmy-rule ::= "x"'],
    "rule 'x' is not defined (and 2 more)": ["1:10 root ::= x y z"],
    "rule 'root' matches nothing: every derivation of it contains 'root' again: expected an alternative that ends": [
        '1:1 root ::= "a" root',
        "1:1 root ::= root",
        "1:1 root ::= (root)+",
        '1:1 root ::= root "a" | "b" root root{2}',
    ],
    "rule 'a' matches nothing: every derivation of it contains 'a' again (through 'b')": [
        '2:1 root ::= "x" | a\na ::= "x" b\nb ::= a "y" | b',
        '3:1 root ::= x\nx ::= "1" | "2" a\na ::= "x" b\nb ::= a "y"',
    ],
    "unclosed group: expected a closing ), found the end of the grammar": ['1:10 root ::= ("a"', "1:12 root ::= (a(b|\n"],
    "unclosed group: expected a closing ), found the next rule": ['1:10 root ::= ("a"\nb ::= "c"'],
    "unbalanced )": ['1:13 root ::= "a")', "1:10 root ::= )"],
    'unclosed literal: expected a closing ", found the end of the grammar': [
        '1:10 root ::= "a',
        '1:10 root ::= "',
        '1:10 root ::= "a\\"',
    ],
    "(the literal that begins at line 1, column 10 holds a line break)": ['2:11 root ::= "a\nfoo ::= "b"'],
    "unclosed class: expected a closing ], found the end of the grammar": [
        "1:10 root ::= [a",
        "1:10 root ::= [^",
        "1:10 root ::= [a-",
    ],
    "empty class: expected at least one character in brackets (] itself is \\]), found []": [
        "1:10 root ::= []",
        "1:10 root ::= []]",
    ],
    "empty class: expected at least one character in brackets (] itself is \\]), found [^]": ["1:10 root ::= [^]"],
    "range in a class runs backwards: expected the lower end first, found z-a": ["1:11 root ::= [z-a]"],
    "range in a class runs backwards: expected the lower end first, found \\x20-\\t": ["1:11 root ::= [\\x20-\\t]"],
    "the class matches no character": ["1:10 root ::= [^\\x00-\\U0010FFFF]"],
    "unknown escape: expected one of \\n \\r \\t": ['1:11 root ::= "\\q"', "1:11 root ::= [\\d]", '1:12 root ::= "a\\\'"'],
    "bad escape: expected 2 hexadecimal digits after \\x": ['1:11 root ::= "\\xg"', '1:11 root ::= "\\x4"'],
    "bad escape: expected 4 hexadecimal digits after \\u, found '12'": ['1:11 root ::= "\\u12"'],
    "bad escape: expected 8 hexadecimal digits after \\U": ['1:11 root ::= "\\U0001F60"'],
    "expected a code point up to 10FFFF, found 00110000": ['1:11 root ::= "\\U00110000"'],
    "surrogates are none": ['1:11 root ::= "\\ud83d\\ude00"', "1:11 root ::= [\\uDFFF]"],
    "nothing to repeat before *": ["1:10 root ::= *", '1:16 root ::= "a" | *'],
    "nothing to repeat before +": ["1:12 root ::= ( + )"],
    "nothing to repeat before ?": ['1:10 root ::= ? "a"'],
    "nothing to repeat before {: expected an element before it, found '{'": ["1:10 root ::= {2}"],
    "bad repetition count: expected a number": ['1:14 root ::= "a"{', '1:14 root ::= "a"{x}', '1:14 root ::= "a"{-1}'],
    "bad repetition: expected , or } after the count": ['1:15 root ::= "a"{2', '1:16 root ::= "a"{2 3}'],
    "bad repetition: expected }": ['1:17 root ::= "a"{2,3'],
    "repetition runs backwards: expected the smaller count first, found {3,2}": ['1:13 root ::= "a"{3,2}'],
    'bad element (literals stand in double quotes: "…")': ["1:10 root ::= 'a'"],
    "(write a class or a literal; there are no /…/ patterns here, and comments begin with #)": ["1:10 root ::= /a/"],
    "bad element (a rule always matches whole: anchors are not needed)": ["1:10 root ::= ^a", '1:14 root ::= "a" $'],
    "expected a literal \"…\", a class […], the name of a rule or a group (…), found '&'": ['1:14 root ::= "a" & "b"'],
    "found ':'": ['1:14 root ::= "a" : "b"'],
    "bad token: expected <[id]> or <name> after !": ['1:11 root ::= !"a"'],
    "bad token id: expected a number": ["1:12 root ::= <[x]>"],
    "bad token: expected ]> after the id, found '>'": ["1:13 root ::= <[1>"],
    "bad token: expected <[id]> or <name>, found '<>'": ["1:10 root ::= <>"],
    "unclosed token: expected a closing > in the same line": ["1:10 root ::= <think", '1:10 root ::= <think\nx ::= "a>"'],
}
XGRAMMAR = {
    "a rule must begin a line": ['1:14 root ::= "a" b ::= "c"'],
    'unclosed literal: expected a closing " in the same line': ['1:10 root ::= "a\n"'],
    "unclosed class: expected a closing ] in the same line": ["1:10 root ::= [a\n]"],
    "\\d in a class is not supported: write the ranges": ["1:11 root ::= [\\d]"],
    "empty alternative: expected an element, or \"\" for the empty text, found '|'": [
        '1:10 root ::= | "a"',
        '1:14 root ::= "a"|| "b"',
    ],
    'empty alternative: expected an element, or "" for the empty text, found the end': ['1:15 root ::= "a" |'],
    "two counts follow each other: expected parentheses around what the first repeats, found '+'": ['1:14 root ::= "a"++'],
    "two counts follow each other: expected parentheses around what the first repeats, found '{'": ['1:15 root ::= "a"* {2}'],
    "a look-ahead assertion (= is not supported": ['1:14 root ::= "a" (="b") "c"', '1:15 root ::= ("a" (="b"))'],
    "a look-ahead assertion (?= is not supported": ['1:14 root ::= "a" (?="b")'],
    "a group (?: of regular expressions is not supported": ['1:10 root ::= (?:"b")'],
    "bad element (elements follow each other without commas)": ["1:11 root ::= x, x"],
    "bad element (nothing closes a rule)": ["1:11 root ::= x;"],
    "bad element (names stand without < >)": ["1:10 root ::= <x>"],
    "bad rule (names stand without < >): expected the name of a rule, found '<'": ['1:1 <root> ::= "a"'],
    "rule '.' is not defined: any character is [^]": ['1:10 root ::= .* "a"'],
    "bad argument of TagDispatch: expected pairs: (tag, rule), found 'x'": ['1:10 root ::= TagDispatch("x")'],
    "bad tag: expected a literal": ["1:10 root ::= TagDispatch((1, root))", '1:10 root ::= TagDispatch(("", root))'],
    "rule 'b' is not defined": ['1:30 root ::= TagDispatch(("<t>", b))', "1:10 root ::= b"],
    "unknown option of TagDispatch: expected loop_after_dispatch or excludes, found 'loop'": [
        '1:10 root ::= TagDispatch(("x", a), loop=true)\na ::= "a"'
    ],
    "bad loop_after_dispatch of TagDispatch: expected true or false, found 1": [
        '1:10 root ::= TagDispatch(("x", a), loop_after_dispatch=1)\na ::= "a"'
    ],
    "TagDispatch: a tag is excluded: found 'x'": ['1:10 root ::= TagDispatch(("x", a), excludes=("x"))\na ::= "a"'],
    "stop_str of TagDispatch is not supported": ['1:10 root ::= TagDispatch(("x", a), stop_str=("y"))\na ::= "a"'],
    "Token matches nothing: expected at least one token id, found none": ["1:10 root ::= Token()"],
    "bad token id: expected a number, found 'x'": ['1:10 root ::= Token("x")'],
    "bad argument: expected a literal": ["1:16 root ::= Token(*)"],
    "bad argument: expected , or ), found '2'": ["1:18 root ::= Token(1 2)"],
    "expected hexadecimal digits after \\x": ['1:11 root ::= "\\xg"'],
}
TABLE = [("gbnf", m, g) for m, gs in GBNF.items() for g in gs] + [("xgrammar", m, g) for m, gs in XGRAMMAR.items() for g in gs]


@pytest.mark.parametrize(("syntax", "message", "case"), TABLE, ids=range(len(TABLE)))
def test_message(syntax: str, message: str, case: str) -> None:
    place, _, text = case.partition(" ")
    with pytest.raises(GrammarError) as caught:
        compile_bnf(text, syntax)
    problem = caught.value
    assert message in str(problem)
    if place == "-":
        assert not problem.location
        return
    line, column = map(int, place.split(":"))
    assert problem.location == f"line {line}, column {column}", str(problem)
    shown, caret = problem.context.split("\n")
    assert shown.strip() == text.split("\n")[line - 1].strip() and caret.index("^") == 4 + column - 1


def test_the_table_is_long() -> None:
    assert len(TABLE) >= 60 and len(GBNF) + len(XGRAMMAR) >= 60


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "root ::= " + "(" * 30_000 + '"a"' + ")" * 30_000,
            LimitExceeded,
            "groups are nested too deeply: expected at most Limits.max_spec_depth",
        ),
        ('root ::= "a"{1,1000000000}', LimitExceeded, "repetition count of 1000000000: expected at most Limits.max_repeat"),
        ('root ::= "a"{' + "9" * 5000 + "}", LimitExceeded, "repetition count of 99999999999999999999: expected at most"),
        (
            'root ::= "' + "a" * (9 << 20) + '"',
            LimitExceeded,
            "the grammar is too long: expected at most Limits.max_spec_bytes = 8388608, found 9437195 bytes",
        ),
        ("root ::= <[99999999999]>", GrammarError, "token id is too large"),
        ('root ::= "\ud800"', GrammarError, "bad text: expected Unicode text, found a lone surrogate - at line 1, column 11"),
        (b'root ::= "a"', GrammarError, "wrong type of grammar: expected str, found bytes"),
    ],
    ids=range(7),
)
def test_limits_and_types(text: str, kind: type[GrammarError], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        compile_bnf(text, "gbnf")


def test_depth_is_a_limit_and_no_more() -> None:
    ir = compile_bnf("root ::= " + "(" * 30_000 + '"a"' + ")?" * 30_000, "gbnf", limits=Limits(max_spec_depth=100_000))
    assert len(ir.rules) >= 1


@pytest.mark.parametrize("syntax", ["gbnf", "xgrammar"])
def test_refusals_are_unsupported(syntax: str) -> None:
    with pytest.raises(UnsupportedError):
        compile_bnf('root ::= (?="a") "b"', syntax)


def test_syntaxes() -> None:
    taken = {
        'root ::= "a" . "b"': "gbnf",
        'root ::= | "a"': "gbnf",
        'root ::= <think> "a"': "gbnf",
        'root ::= "a"\n  b\nb ::= [^]': "xgrammar",
        'root ::= "a"': "xgrammar",
        "# a comment: x\nroot ::= Token(1)": "xgrammar",
        'start: "a"': "lark",
        "?start: /a/ | b\nb: X\nX: /x/": "lark",
        '%ignore " "\nstart{x}: "a"': "lark",
    }
    assert {text: cd.Ebnf(text, "auto").resolved_syntax() for text in taken} == taken
    assert cd.Ebnf("x", "ebnf").resolved_syntax() == "xgrammar"
    spec = cd.Ebnf('root ::= "a"', "auto")
    key = spec.key()
    assert spec.resolved_syntax() and spec.key() == key  # what was compiled is found again
    with pytest.raises(
        UnsupportedError, match=re.escape("expected name ::= … (GBNF, xgrammar) or name: … (Lark), found root =")
    ):
        cd.Ebnf('root = "a" , "b" ;', "auto").to_ir(Limits())
    with pytest.raises(GrammarError, match="expected one of gbnf, xgrammar, ebnf, lark, auto, found 'w3c'"):
        cd.Ebnf("x", "w3c")
    with pytest.raises(GrammarError, match="line 2, column 7"):  # wrong in both: the syntax in which it goes wrong last
        cd.Ebnf("root ::= . a\na ::= &", "auto").to_ir(Limits())


def test_a_lark_grammar_begins_with_any_rule() -> None:
    for spec in (cd.Ebnf('start: "a" x\nx: "b"', "lark", root="x"), cd.Lark('start: "a" x\nx: "b"', start="x")):
        assert spec.to_ir(Limits()).lexeme_names == ['"b"']
    assert cd.Ebnf('start: "a"', "lark").to_ir(Limits()).rules
    with pytest.raises(GrammarError, match="no rule 'modul': expected modul: …, found module .did you mean 'module'"):
        cd.Lark('module: "a"', start="modul").to_ir(Limits())
    with pytest.raises(GrammarError, match="the rule 'm' takes no parameter: expected m: …, found m::_"):
        cd.Lark('m::_: "a"', start="m").to_ir(Limits())
    with pytest.raises(GrammarError, match="wrong type of start: expected the name of a rule, found list"):
        cd.Lark('m: "a"', start=["m"])  # type: ignore[arg-type]
    assert cd.Lark('m: "a"', start="m").key() != cd.Lark('m: "a"').key()
    with pytest.raises(GrammarError, match="no rule 'start'"):  # a nested grammar has its own
        cd.Lark('m: %lark { m: "a" }', start="m").to_ir(Limits())


def test_a_rule_that_is_not_start_means_what_start_does() -> None:
    text = 'start: item ("," item)*\nitem: "[" list? "]" | NAME\nlist: item (";" item)*\nNAME: /[a-z]+/\n%ignore " "'
    renamed = re.sub(r"^start\b", "begin", text)
    first, second = (spec.to_ir(Limits()) for spec in (cd.Lark(text), cd.Lark(renamed, start="begin")))
    assert (first.rules, first.lexeme_names, first.lexings) == (second.rules, second.lexeme_names, second.lexings)


def test_the_notation_is_told_under_the_limits_of_the_compilation() -> None:
    """The defaults were asked: a legal GBNF text beyond them was read as xgrammar's."""
    nested = "(" * 1_500 + '"a" . "b"' + ")" * 1_500
    spec = cd.Ebnf(f"root ::= {nested}", "auto")
    spec.to_ir(Limits(max_spec_depth=2_000))
    assert spec.resolved_syntax() == "gbnf"
