"""The errors of malformed Lark grammars: a table from each message to the grammars that get it, the place, and the hint."""

from __future__ import annotations

import pytest
from engine_tools import cases

import cdplugin as cd
from cdplugin.limits import Limits

# message: (grammar, place, what else the text of the error holds)
CASES: dict[str, list[tuple[str, str, str]]] = {
    "a string that does not end on its line": [
        ('start: "abc', "line 1, column 8", 'a closing "'),
        ('start: "a" "b\n', "line 1, column 12", 'a closing "'),
        ('start: "\\"', "line 1, column 8", 'a closing "'),
        ('start: "a".."b', "line 1, column 13", 'a closing "'),
    ],
    "a regular expression that does not end on its line": [
        ("start: /abc", "line 1, column 8", "a closing /"),
        ("start: /a\nA: /b/", "line 1, column 8", "a closing /"),
        ("start: /a\\\nb/", "line 1, column 8", "a closing /"),
    ],
    "a string in single quotes": [("start: 'a'", "line 1, column 8", "double quotes")],
    "unknown escape in a string": [(r'start: "a\qb"', "line 1, column 10", r"found \q")],
    "an escape beyond Unicode": [(r'start: "\U00110000"', "line 1, column 9", "10ffff")],
    "half of a surrogate pair in a string": [(r'start: "\ud83d"', "line 1, column 9", "both halves")],
    "unknown flag of a regular expression": [("start: /a/ig", "line 1, column 12", "found 'g'")],
    "flag 'l' (locale) of a regular expression": [("start: /a/l", "line 1, column 11", "")],
    "a name in mixed case": [
        ("start: Foo\nFoo: 'a'", "line 1, column 8", "found 'Foo'"),
        ('start: fooBar\nfooBar: "x"', "line 1, column 8", "found 'fooBar'"),
    ],
    "a mark before the name of a terminal": [('start: A\n!A: "x"', "line 2, column 1", "before rules only")],
    "'?' before a rule that is used": [
        ('start: a?b\na: "x"\nb: "y"', "line 1, column 9", "found '?b'"),
        ('start: "x" ?t{"y"}\nt{p}: p', "line 1, column 12", "found '?t'"),
        ('start: (!?a | "x")\na: "y"', "line 1, column 9", "before definitions only"),
    ],
    "unknown statement": [('%ignor " "\nstart: "a"', "line 1, column 1", "did you mean '%ignore'?")],
    "rules end with their line": [('start: "a";', "line 1, column 11", "no ';'")],
    "not part of a grammar": [('start: "a" $ "b"', "line 1, column 12", "a name, a string")],
    "not a special token": [("start: <a b>", "line 1, column 8", "<name>")],
    "not a reference to a grammar": [("start: @ x", "line 1, column 8", "@name")],
    "what follows %json is not JSON": [
        ('start: %json {"a": }', "line 1, column 20", "is not JSON (Expecting value)"),
        ("start: %json", "line 1, column 13", "a JSON value"),
    ],
    "what follows %json holds a number that is too long": [
        (f"start: %json {'9' * 5_000}", "line 1, column 14", "expected integers of at most 4300 digits, found more"),
    ],
    "what follows %json": [('start: %json "x"', "line 1, column 8", "an object, true or false, found str")],
    "what follows %llguidance is not JSON": [('%llguidance\nstart: "a"', "line 2, column 1", "a JSON value")],
    "what follows %llguidance": [('%llguidance 3\nstart: "a"', "line 1, column 1", "an object, found int")],
    "unknown option in %llguidance": [
        ('%llguidance {"ignore_onc": true}\nstart: "a"', "line 1, column 1", "did you mean 'ignore_once'?"),
    ],
    "option ignore_once": [('%llguidance {"ignore_once": 1}\nstart: "a"', "line 1, column 1", "true or false, found 1")],
    "option allow_invalid_utf8": [('%llguidance {"allow_invalid_utf8": true}\nstart: "a"', "line 1, column 1", "UTF-8")],
    "what follows %regex": [("start: %regex [1]", "line 1, column 8", "an object with one of substring_chunks")],
    "unknown key in %regex": [
        ('start: %regex {"substring_char": "a"}', "line 1, column 8", "did you mean 'substring_chars'?"),
    ],
    "keys of %regex": [
        ("start: %regex {}", "line 1, column 8", "exactly one of"),
        ('start: %regex {"substring_chars": "a", "substring_words": "a"}', "line 1, column 8", "exactly one of"),
    ],
    "substring_chunks": [('start: %regex {"substring_chunks": "ab"}', "line 1, column 8", "a list of strings")],
    "unexpected symbol": [
        ('start "a"', "line 1, column 7", "expected ':'"),
        ('start: ("a" ]', "line 1, column 13", "or ')', found ']'"),
        ('start: "a")', "line 1, column 11", "found ')'"),
        ('start: "a"\n  "b"', "line 2, column 3", "only with '|' or inside brackets"),
        ('start: "a" = "b"', "line 1, column 12", "found '='"),
        ('start: "a"+?', "line 1, column 12", "one repetition at a time"),
        ('start: "a"{1', "line 1, column 13", "expected ',' or '}'"),
        ('start: "a"{}', "line 1, column 12", "a count"),
        ('start: "a" "b"{x}', "line 1, column 16", "a count"),
        ('start: A ~\nA: "x"', "line 1, column 11", "what '~' negates"),
        ('start: "a" -> B\nB: "x"', "line 1, column 15", "the name of an alias"),
        ('start: "a" -> b "c"', "line 1, column 17", "'|' or the end of the alternative"),
        ('start: "a" -> b -> c', "line 1, column 17", "'|' or the end of the alternative"),
        ('start: x::0\nx::_: "a" %if true %if bit_set(1)', "line 2, column 20", "'|' or the end of the alternative"),
        ('start[lazy: "a"', "line 1, column 11", "',' or ']'"),
        ("%declare\nstart: A", "line 1, column 9", "a name after %declare"),
        ('%import common (INT WORD)\nstart: "a"', "line 1, column 21", "',' or ')'"),
        ("start: %lark start: 'a'".replace("'", '"'), "line 1, column 14", "'{' after %lark"),
        ('x::3: "a"\nstart: x::3', "line 1, column 4", "name::_"),
        ('start: x::"a"\nx::_: "a"', "line 1, column 11", "'_', a number, or one of set_bit"),
        ('start: x::0\nx::_: "a" %if 3', "line 2, column 15", "a condition: true"),
        ('start: x::0\nx::_: "a" %if lt(_)', "line 2, column 19", "lt takes 2 arguments"),
        ('start: x::0\nx::_: "a" %if is_ones(3)', "line 2, column 23", "a range of bits"),
        ('= "a"', "line 1, column 1", "a rule, a terminal or a statement"),
    ],
    "a repetition of nothing": [("start: *", "line 1, column 8", "found '*'"), ('start: ("a" | +)', "line 1, column 15", "")],
    "a rule of another notation": [
        (
            'start ::= "a"',
            "line 1, column 7",
            "expected name: … (name ::= … is written with cdplugin.Gbnf or cdplugin.Ebnf), found '::='",
        ),
        ('start = "a"', "line 1, column 7", "found '='"),
        ('start := "a"', "line 1, column 7", "found ':='"),
        ('A ::= "a"', "line 1, column 3", "found '::='"),
        ("root ::= [^\\n]+ x\nx ::= 'y'", "line 1, column 6", "expected name: … (name ::= … is written with cdplugin.Gbnf"),
    ],
    "'(' that is not closed": [
        ('start: ("a" | "b"', "line 1, column 8", "expected ')'"),
        ('start: x ("a" | "b"\n\nx: "c"', "line 1, column 10", "expected ')', found the next definition in line 3"),
    ],
    "'[' that is not closed": [('start: ["a"', "line 1, column 8", "expected ']'")],
    "%lark that is not closed": [('start: %lark {\nstart: "a"\n', "line 1, column 8", "expected '}'")],
    "%ignore without a terminal": [('%ignore\nstart: "a"', "line 1, column 8", "what to ignore")],
    "a repetition with its bounds exchanged": [('start: "a"{3,2}', "line 1, column 11", "at least 3, found 2")],
    "a count": [('start: "a"~1.5', "line 1, column 12", "a whole number")],
    "a range of characters": [
        ('start: "ab".."c"', "line 1, column 8", "one character on each side, found 'ab'"),
        ('start: "z".."a"', "line 1, column 8", "the smaller one first"),
    ],
    "a range of characters with a flag": [('start: "a".."z"i', "line 1, column 13", "without i")],
    "bad set of token ids": [("start: <[a]>", "line 1, column 10", "found 'a'"), ("start: <[]>", "line 1, column 10", "")],
    "a range of token ids": [("start: <[1,9-3]>", "line 1, column 12", "the smaller one first, found 9-3")],
    "a token id outside the vocabulary": [
        ('start: "a" | <[5,99999]>', "line 1, column 14", "found 99999"),
        ("start: <[^0-99999]>", "line 1, column 8", "expected ids below"),
    ],
    "the vocabulary has no token '<|nope|>'": [("start: <|nope|>", "line 1, column 8", "expected")],
    "no rule 'start'": [('strat: "a"', "line 1, column 1", "did you mean 'strat'?"), ("", "line 1, column 1", "start: …")],
    "the rule 'start' takes no parameter": [('start::_: "a"', "line 1, column 1", "")],
    "'start' is defined twice": [('start: "a"\nstart: "b"', "line 2, column 1", "another definition in line 1")],
    "'INT' is defined twice": [('%import common.INT\nINT: "a"\nstart: INT', "line 2, column 1", "line 1")],
    "no rule 'expr'": [
        ('start: expr\nexpx: "a"', "line 1, column 8", "did you mean 'expx', which line 2 defines and nothing uses?"),
        ('start: expr term\nterm: "x"', "line 1, column 8", "a rule that is defined"),
    ],
    "no rule 'terms'": [('start: terms term\nterm: "x"', "line 1, column 8", "did you mean 'term'?")],
    "no terminal 'INT'": [("start: INT", "line 1, column 8", "%import common.INT?")],
    "no terminal 'B'": [('start: A\nA: B "x"', "line 2, column 4", "a terminal that is defined")],
    "'A' is declared but stands for nothing": [("%declare A\nstart: A", "line 2, column 8", "grammars={'A': …}")],
    "'_DEDENT' is declared but stands for nothing": [
        ("%declare _DEDENT\nstart: _DEDENT", "line 2, column 8", "expected %indent, for blocks by indentation, or a grammar")
    ],
    "a declared terminal inside another": [("%declare A\nstart: B\nB: A /x/", "line 3, column 4", "'A' in the terminal 'B'")],
    "no grammar '@foo'": [("start: @foo", "line 1, column 8", "grammars={…}")],
    "the terminal 'A' contains itself": [('start: A\nA: B "x"\nB: "y" | A', "line 2, column 1", "A → B → A")],
    "a rule in the terminal 'A'": [('start: A\nA: b\nb: "x"', "line 2, column 4", "found 'b'")],
    "a rule in %ignore": [('%ignore ws\nstart: "a"\nws: " "', "line 1, column 9", "found 'ws'")],
    "a rule in the rule 'x', which lazy makes a terminal": [('start: x\nx[lazy]: y\ny: "b"', "line 2, column 10", "found 'y'")],
    "a rule in suffix=": [('start: x\nx[suffix=y]: /a*/\ny: "b"', "line 2, column 10", "found 'y'")],
    "special tokens match no text and cannot be part of a terminal": [("start: A\nA: <[1]>", "line 2, column 4", "'A'")],
    "%json cannot be part of a terminal": [("start: A\nA: %json {}", "line 2, column 4", "%json in the terminal 'A'")],
    "'&' in a rule": [("start: A & B\nA: /a/\nB: /b/", "line 1, column 8", "in terminals only")],
    "a priority of the terminal 'A'": [('start: A\nA.2: "a"', "line 2, column 3", "expected none, since all")],
    "attributes of a terminal": [('start: A\nA[lazy]: "a"', "line 2, column 2", "rules only")],
    "a template with a parameter": [('start: x{"a"}\nx{y}::_: y', "line 2, column 5", "rules only")],
    "a terminal with a parameter": [('start: A::0\nA::_: "a"', "line 2, column 2", "rules only")],
    "unknown attribute": [('start[lasy]: "a"', "line 1, column 7", "did you mean 'lazy'?")],
    "an attribute twice": [('start[lazy, lazy]: "a"', "line 1, column 13", "found 'lazy'")],
    "stop= and suffix= together": [('start[stop="a", suffix="b"]: /x*/', "line 1, column 17", "one of them")],
    "stop_capture= without stop= or suffix=": [('start[stop_capture="x"]: "a"', "line 1, column 7", "")],
    'stop_capture= of stop=""': [('start: x "a"\nx[stop="", stop_capture="e"]: /b*/', "line 2, column 12", "that is text")],
    "the rule 'b' captures what it begins with": [
        ('start: a b\na[stop="x"]: /y*/\nb[capture]: "xz"', "line 3, column 1", "suffix=")
    ],
    "suffix= that may be empty": [('start: x "a"\nx[suffix=/c*/]: /b*/', "line 2, column 3", "at least one character")],
    "a lazy rule that the empty text matches": [('start: x "a"\nx[lazy]: /b*/', "line 2, column 1", "always empty")],
    "max_tokens=": [('start[max_tokens=0]: "a"', "line 1, column 18", "at least 1, found 0")],
    "lazy of a rule with a parameter": [('start: x::0\nx::_[lazy]: "a"', "line 2, column 1", "without '::_'")],
    "the rule 'x' without its parameter": [('start: x\nx::_: "a"', "line 1, column 8", "x::…")],
    "a parameter for the rule 'x'": [('start: x::0\nx: "a"', "line 1, column 8", "a rule defined as x::_")],
    "a parameter for 'A'": [('start: A::0\nA: "a"', "line 1, column 8", "of rules only")],
    "the rule 'start' has no parameter to pass on": [('start: x::set_bit(1)\nx::_: "a"', "line 1, column 8", "a number")],
    "%if in a rule without a parameter": [('start: "a" %if true', "line 1, column 12", "start::_")],
    "unknown function": [("start: x::0\nx::_: x::set_bits(1)", "line 2, column 10", "did you mean 'set_bit'?")],
    "unknown condition": [('start: x::0\nx::_: "a" %if bit_sett(1)', "line 2, column 15", "did you mean 'bit_set'?")],
    "a range of bits": [('start: x::0\nx::_: "a" %if is_ones([3:1])', "line 2, column 23", "an end above 3")],
    "a number": [
        ('start: x::0\nx::_: "a" %if bit_set(64)', "line 2, column 23", "from 0 to 63"),
        ('start: x::18446744073709551616\nx::_: "a"', "line 1, column 11", "from 0 to 18446744073709551615"),
    ],
    "no template 'sep'": [('start: sep{A}\nA: "a"', "line 1, column 8", "a template")],
    "'x' is not a template": [('start: x{A}\nA: "a"\nx: "b"', "line 1, column 8", "without arguments")],
    "arguments of the template 'sep'": [('start: sep{"a"}\nsep{x, y}: x y', "line 1, column 8", "2 arguments, found 1")],
    "the template 'sep' without arguments": [("start: sep\nsep{x}: x", "line 1, column 8", "sep{…}")],
    "a parameter twice": [("start: sep{A, A}\nsep{x, x}: x", "line 2, column 8", "found 'x'")],
    "the template 'x' is used with too many different arguments": [
        ('start: x{"a"}\nx{y}: "b" x{(y "c")}', "line 2", "instances"),
    ],
    "%import of a library that is not built in": [("%import python.NAME\nstart: NAME", "line 1, column 16", "'python'")],
    "%import of a file": [("%import .foo.NAME\nstart: NAME", "line 1, column 1", "%import common.NAME")],
    "no such terminal in common": [("%import common.INTT\nstart: INTT", "line 1, column 16", "did you mean 'INT'?")],
    "unfinished %import": [("%import common\nstart: INT", "line 1, column 15", "the name of a terminal")],
    "%override (rules are never loaded from other files)": [('%override start: "a"', "line 1, column 1", "")],
    "the rule 'start' derives no text: it stands for itself alone, so it is empty without end": [
        ("start: start", "line 1, column 1", "start → start"),
        ("start: a\na: b\nb: a", "line 1, column 1", "start → a → b → a"),
    ],
    "the rule 'start' derives no text: it never ends": [('start: "a" start', "line 1, column 1", "start → start")],
    "the rule 'b' derives no text: it never ends": [('start: "a" | b\nb: "(" b ")" | b "x"', "line 2, column 1", "b → b")],
    "the rule 'start' needs /[a&&b]/, which matches nothing": [("start: /[a&&b]/", "line 1, column 1", "")],
    "look-behind": [("start: /(?<=a)b/", "line 1, column 8 (position", "of the regular expression")],
    "word boundary": [('start: /a\\b/ "c"', "line 1, column 8 (position 1", "of the regular expression")],
    "keyword 'type'": [('start: "x" %json {"type": "foo"}', "%json in line 1, column 12", "")],
}
VOCAB = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"<end>"], eos_token_ids=256)


@pytest.mark.parametrize(
    ("message", "grammar", "place", "more"), [(message, *case) for message, cases in CASES.items() for case in cases]
)
def test_message(message: str, grammar: str, place: str, more: str) -> None:
    with pytest.raises(cd.GrammarError) as caught:
        cd.Compiler(VOCAB).compile(cd.Lark(grammar))
    error = caught.value
    assert message in error.message, error
    assert place in error.location, error
    assert more in str(error), error
    assert not isinstance(error, cd.LimitExceeded) or "different arguments" in message


def test_there_are_enough() -> None:
    assert sum(map(len, CASES.values())) >= 60


def test_the_caret_is_under_the_fault() -> None:
    with pytest.raises(cd.GrammarError) as caught:
        cd.Lark('start: "a"\nlist: item ("," itme)*\nitem: "x"\n').to_ir(Limits())
    assert str(caught.value) == (
        "no rule 'itme': expected a rule that is defined (did you mean 'item'?) - at line 2, column 17\n"
        '    list: item ("," itme)*\n'
        "                    ^"
    )


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        ("start: " + "(" * 30_000 + '"a"' + ")" * 30_000, "max_spec_depth"),
        ("start: " + "(" * 30_000, "max_spec_depth"),
        ("start: " + "[" * 30_000 + '"a"' + "]" * 30_000, "max_spec_depth"),
        ('start: "a"' + "{2}" * 1, ""),
        ('start: A\nA: "a"{99999999999}', "max_repeat"),
        ("start: x" + "%lark {\nstart: " * 100, "levels of %lark"),
        ('start: x::0\nx::_: "a" %if ' + "not(" * 1000 + "true" + ")" * 1000, "levels"),
        ("start: %json " + "[" * 100_000, ""),
        ('start: "' + "a" * (9 << 20) + '"', "max_spec_bytes"),
    ],
)
def test_hostile_grammars_end_soon(grammar: str, said: str) -> None:
    """Hostile grammars give a result or a clear error, never a RecursionError."""
    outcome = ""
    try:
        cd.Lark(grammar).to_ir(Limits())
    except cd.LimitExceeded as error:
        outcome = str(error)
    except cd.GrammarError:
        pass
    assert said in outcome


def test_chains_are_not_recursive() -> None:
    n = cases(30_000, 3_000, 3_000)
    chain = "\n".join(f"A{i}: A{i + 1}" for i in range(n)) + f'\nA{n}: "x"\nstart: A0\n'
    assert cd.Lark(chain).to_ir(Limits()).lexeme_names == ["A0"]
    rules = "\n".join(f"a{i}: a{i + 1}" for i in range(n)) + f'\na{n}: "x"\nstart: a0\n'
    assert len(cd.Lark(rules).to_ir(Limits()).rules) == n + 2
    wide = "start: " + " | ".join(f"/{i}/" for i in range(2000))
    assert len(cd.Lark(wide).to_ir(Limits()).rules) == 2000
    texts = "start: " + " | ".join(f'"{i}"' for i in range(n))
    assert len(cd.Lark(texts).to_ir(Limits()).rules) == 1
