"""xgrammar's macros and options of rules: what cdplugin accepts beside xgrammar 0.2.8, captures, and what it refuses."""

from __future__ import annotations

import itertools
import json
import re

import pytest

import cdplugin as cd

COMPILER = cd.Compiler(cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"</s>"], eos_token_ids=256))


def takes(grammar: str, text: str) -> bool:
    data = list(text.encode())
    matcher = COMPILER.compile(cd.Ebnf(grammar)).matcher()
    return matcher.accept_tokens(data) == len(data) and matcher.is_accepting()


def peer_takes(grammar: str, text: str) -> bool:
    pytest.importorskip("xgrammar")
    from xgrammar import Grammar
    from xgrammar.testing import _is_grammar_accept_string

    return bool(_is_grammar_accept_string(Grammar.from_ebnf(grammar), text))


REGEXES = [
    "a.b",
    "(?i)a.b",
    "[^a]b?",
    "(?P<x>a)b",
    "a(b|)",
    r"\\s",
    r"\\S+",
    r"\\u{61}+",
    "a{2,3}",
    "^a|b$",
    "(?<n>a)+?",
    r"[\\d-b]",
]
WORDS = ["".join(word) for n in range(4) for word in itertools.product('aB\n"', repeat=n)] + [
    "ab",
    "a\\b",
    "a b",
    " ",
    "3",
    "é",
    "\t",
]


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("flags", ["", ', flags=""', ', flags="i"', ', flags="s"', ', flags="is"'])
@pytest.mark.parametrize("pattern", REGEXES)
def test_regex_accepts_what_xgrammar_does(pattern: str, flags: str, raw: bool) -> None:
    options = ", json_string=true" * raw + flags
    grammar = f'root ::= Regex("{pattern}"{options})'
    assert [word for word in WORDS if takes(grammar, word)] == [word for word in WORDS if peer_takes(grammar, word)]


@pytest.mark.parametrize("pattern", ["(?i)\u03a3", "(?i)[\u00e0-\u00f6k]", r"\\s", r"(?i)[^\\s]", "(?i)[^k]", r"\\S"])
def test_regexes_fold_ascii_letters_only(pattern: str) -> None:
    """As https://github.com/mlc-ai/xgrammar/pull/765 says."""
    grammar, words = f'root ::= Regex("{pattern}")', "\u03a3\u03c3\u03c2\u00c0\u00e0kK\u212a\u00a0 \n\ufeff"
    assert [word for word in words if takes(grammar, word)] == [word for word in words if peer_takes(grammar, word)]


def test_max_chars_beyond_any_text_is_no_bound() -> None:
    assert takes("root ::= r\nr[max_chars=2147483647] ::= [a-z]*", "a" * 50)
    matcher = COMPILER.compile(cd.Lark("start: r\nr[max_chars=2147483647]: /[a-z]*/")).matcher()
    assert matcher.accept_tokens(b"a" * 50) == 50


def test_regexes_among_other_elements() -> None:
    grammar = 'root ::= "<" (Regex("[0-9]+") | word){2} ">"\nword ::= Regex("[a-z]+") "."'
    for text in ("<12>", "<1ab.>", "<ab.cd.>", "<ab>", "<ab.1.>", "<>"):
        assert takes(grammar, text) == peer_takes(grammar, text)
    assert takes(grammar, "<ab.cd.>") and not takes(grammar, "<ab>")


def test_look_aheads_are_enforced() -> None:
    assert takes('root ::= Regex("a(?=b)[a-z]c")', "abc") and not takes('root ::= Regex("a(?=b)[a-z]c")', "axc")


@pytest.mark.parametrize("chunks", [["a", "b", "a"], ["ab", "", "a", "ab"], ["aa", "aa"], ["é", '"'], []])
def test_substring_is_any_run(chunks: list[str]) -> None:
    grammar = "root ::= Substring(" + ", ".join(json.dumps(one, ensure_ascii=False) for one in chunks) + ")"
    runs = {"".join(chunks[i:j]) for i in range(len(chunks) + 1) for j in range(i, len(chunks) + 1)}
    words = {"".join(word) for n in range(5) for word in itertools.product("ab", repeat=n)} | runs | {"é", '"é'}
    assert {word for word in words if takes(grammar, word)} == runs


OPTIONS = [
    'root ::= "<" r ">"\nr[lazy] ::= [a-z]+ "!"*',
    'root ::= r "z"\nr[lazy] ::= [a-b]* "b"',
    'root ::= r r\nr[lazy] ::= "a" [ab]* "b" | "b"',
    'root ::= r "b"\nr[max_chars=2] ::= [ab]*',
    'root ::= r?\nr[max_chars=2, lazy, temperature=0.5] ::= Substring("a", "b", "a")',
    'root ::= (r "a")*\nr[capture="x"] ::= "b" s | s\ns[max_chars=1] ::= [a-b]*',
]


@pytest.mark.parametrize("grammar", OPTIONS)
def test_options_constrain_as_in_xgrammar(grammar: str) -> None:
    words = ["".join(word) for n in range(5) for word in itertools.product("ab!z", repeat=n)]
    words += [f"<{word}>" for word in words[:80]]
    ours = [word for word in words if takes(grammar, word)]
    assert ours == [word for word in words if peer_takes(grammar, word)] and ours


EXCLUDES = {
    'root ::= "<" r ">"\nr[excludes=("ab")] ::= [ab]*': (r"<[ab]*>", ["ab"]),
    'root ::= r ("!" r)*\nr[excludes=("ab", "bb")] ::= [ab]+': (r"[ab]+(![ab]+)*", ["ab", "bb"]),
    'root[max_chars=3, excludes=("aa")] ::= [ab!]*': (r"[ab!]{0,3}", ["aa"]),
    'root ::= a "!" b\na[excludes=("a")] ::= [ab]*\nb[excludes=("bb")] ::= [ab]*': (r"b*!(?!.*bb)[ab]*", []),
    'root[excludes=("aa")] ::= in*\nin[excludes=("b")] ::= [ab!]': (r"[a!]*", ["aa"]),
    'root[excludes=("\\"", "é", "\\u0061b")] ::= [ab!"é]*': (r"[ab!\"é]*", ['"', "é", "ab"]),
}


@pytest.mark.parametrize("grammar", EXCLUDES)
def test_excluded_texts_do_not_occur_in_a_rule(grammar: str) -> None:
    """As later versions of xgrammar than 0.2.8 have it (their ``tests/python/test_rule_excludes.py``)."""
    pattern, texts = EXCLUDES[grammar]
    words = ["".join(word) for n in range(5) for word in itertools.product("ab!", repeat=n)] + ["é", 'a"', "bé"]
    words += [f"<{word}>" for word in words]
    expected = [word for word in words if re.fullmatch(pattern, word) and not any(text in word for text in texts)]
    assert [word for word in words if takes(grammar, word)] == expected and expected


def test_an_excluded_text_may_begin_in_a_rule_and_end_behind_it() -> None:
    grammar = 'root ::= "\\"" body "\\"" tail\nbody[excludes=("<|open|>", "ab")] ::= [^"]*\ntail ::= "<|open|>" | ""\n'
    assert takes(grammar, '"x<|ope"<|open|>') and takes(grammar, '"axb"')
    assert not takes(grammar, '"x<|open|>"') and not takes(grammar, '"xaby"')


def test_a_lazy_rule_ends_at_its_shortest_match() -> None:
    grammar = 'root ::= r [a-z!]*\nr[lazy, capture="r"] ::= [a-z]* "!"'
    matcher = COMPILER.compile(cd.Ebnf(grammar)).matcher()
    assert matcher.accept_tokens(b"ab!c!") == 5 and matcher.captures() == {"r": b"ab!"}


def test_captures_and_hidden_ends() -> None:
    grammar = """root[capture="outer"] ::= ((r "z"))
r[capture="inner", capture_hidden_suffix_bytes=1, lazy] ::= Regex("(\\?:[a-z]*)(\\?:!)")
"""
    matcher = COMPILER.compile(cd.Ebnf(grammar)).matcher()
    assert matcher.accept_tokens(b"ab!z") == 4 and matcher.captures() == {"inner": b"ab", "outer": b"ab!z"}
    marked = """root ::= r "z"
r[capture="inner", capture_hidden_marker_rule_id=2, stop_capture="marker", lazy] ::= Regex("[a-z]*!!+")
mark ::= "!!" "!"*
"""
    matcher = COMPILER.compile(cd.Ebnf(marked)).matcher()
    assert matcher.accept_tokens(b"ab!!z") == 5 and matcher.captures() == {"inner": b"ab", "marker": b"!!"}


def test_max_tokens_end_a_rule() -> None:
    vocab = cd.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b"ab", b"</s>"], eos_token_ids=257)
    matcher = cd.Compiler(vocab).compile(cd.Ebnf('root ::= r ">"\nr[max_tokens=2] ::= [a-z]*')).matcher()
    assert matcher.accept_tokens([256, 256]) == 2 and not matcher.validate_tokens([97]) and matcher.validate_tokens([62])


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("root ::= Regex()", 'bad arguments of Regex: expected one pattern "…", found none - at line 1, column 10'),
        ("root ::= Regex(abc)", "bad arguments of Regex: .*found a rule's name"),
        ('root ::= Regex("a", json_string="yes")', "bad json_string of Regex: expected true or false, found 'yes'"),
        ('root ::= Regex("a", flags=true)', "bad flags of Regex: expected letters"),
        ('root ::= Regex("a", flags="l")', "bad flags of Regex: expected letters of 'isu', found 'l'"),
        ('root ::= Regex("a", flag="i")', "unknown option of Regex: expected json_string or flags, found 'flag'"),
        ('root ::= "x" Regex("a(b")', r"position 1 of the pattern in line 1, column 14"),
        ('root ::= Regex("(a+)\\\\1")', "back-reference.*line 1, column 10"),
        ('root ::= Substring("a", 1)', "bad arguments of Substring: expected texts"),
        ('root ::= Substring("a", lazy=true)', "Substring has no options"),
        ('root[lasy] ::= "a"', r"bad option of a rule: expected one of .*found 'lasy' \(did you mean 'lazy'\?\) - at line 1"),
        ('root ::= a\na[max_chars] ::= "a"', "bad option of a rule: expected = after max_chars, .* line 2, column 12"),
        ('root ::= a\na[capture=x] ::= "a"', 'bad capture: expected a name "…", found \'x\' - at line 2, column 11'),
        ('root[lazy, lazy] ::= "a"', "an option twice: expected each option once, found 'lazy'"),
        ('root[lazy=1] ::= "a"', "expected lazy without a value"),
        ('root[temperature=-1] ::= "a"', "bad temperature: expected a number, not negative"),
        ('root[excludes="a"] ::= "a"', r'bad excludes: expected texts \("…", …\), found .* - at line 1, column 15'),
        ('root[excludes=("a", "")] ::= "b"', 'bad excludes: expected texts of at least one .*, column 21'),
        ('root[excludes=("a" "b")] ::= "b"', r"unclosed excludes: expected , or \)"),
        ('root[excludes=("b")] ::= "(" root ")" | "a"', "excludes of a rule that is not regular, 'root'"),
        ('root[lazy] ::= "(" root ")" | "a"', "lazy of a rule that is not regular, 'root', .* at line 1, column 6"),
        ('root[max_tokens=3] ::= a a\na[capture="a"] ::= "a"', "max_tokens of a rule that is not regular"),
        ('root[max_chars=3] ::= (Token(8) | "a")*', "max_chars of a rule that is not regular.*without recursion, tokens, and"),
        ('root[capture="a", capture_hidden_marker_rule_id=7] ::= "a"', "expected the number of a rule that is regular"),
    ],
)  # fmt: skip
def test_wrong_macros_and_options(grammar: str, message: str) -> None:
    with pytest.raises(cd.GrammarError, match=message):
        cd.Ebnf(grammar).to_ir(cd.Limits())


def test_a_capture_without_a_name_has_the_name_of_its_rule() -> None:
    grammar = COMPILER.compile(cd.Ebnf('root ::= item ("," item)*\nitem[capture] ::= [0-9]+'))
    matcher = grammar.matcher()
    assert matcher.accept_tokens(b"1,22") == 4 and matcher.all_captures() == [("item", b"1"), ("item", b"22")]


def test_options_do_not_hide_the_notation() -> None:
    assert cd.Ebnf("root[capture] ::= [a-z]*", syntax="auto").resolved_syntax() == "xgrammar"
    assert cd.Ebnf('root[capture="x", max_chars=3] ::= [a-z]*', syntax="auto").resolved_syntax() == "xgrammar"
    assert cd.Ebnf('root[excludes=("]", "a")] ::= [a-z]*', syntax="auto").resolved_syntax() == "xgrammar"
    assert cd.Ebnf('start[capture="x", max_tokens=3]: /[a-z]*/', syntax="auto").resolved_syntax() == "lark"


def test_options_of_a_later_rule_may_hold_brackets() -> None:
    """The rule was not seen to begin there: its options were read as a class."""
    grammar = 'root ::= a b # [\n  a[excludes=("]", "x")] ::= [a-z\\]]*\nb[capture="]\\"["] ::= "."'
    assert takes(grammar, "ab.") and not takes(grammar, "a].") and not takes(grammar, "x.")


def test_what_xgrammar_prints_is_read() -> None:
    xgr = pytest.importorskip("xgrammar")
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^a\\d+$"}}, "required": ["x"]}
    printed = str(xgr.Grammar.from_json_schema(json.dumps(schema), any_whitespace=False))
    assert "Regex(" in printed
    assert takes(printed, '{"x": "a12"}') and not takes(printed, '{"x": "b12"}')
    lark = str(xgr.Grammar.from_lark('start: a "x"\na[capture, stop="!", max_tokens=9]: /[a-z]+/'))
    assert takes(lark, "ab!x") and not takes(lark, "ab!!x")
