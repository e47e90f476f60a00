"""Lark grammars: what they accept, beside references that share nothing with the front end."""

from __future__ import annotations

import gc
import itertools
import json
import random
import re
from collections.abc import Callable, Iterator

import bnf_tools
import pytest
from engine_tools import seeds
from naive import Naive

import cdplugin as cd
from cdplugin.collector import gc_paused
from cdplugin.frontends.lark import parameters, tree
from cdplugin.frontends.lark.definitions import library
from cdplugin.frontends.lark.draft import Rule
from cdplugin.frontends.lark.search import OutOfFuel, Search
from cdplugin.frontends.lark.substring import substring_expr, suffix_automaton, words
from cdplugin.frontends.productive import Productive
from cdplugin.ir import EXACT, LAZY, LONGEST, GrammarIR, TokenSet
from cdplugin.limits import Limits

VOCAB = cd.Vocabulary.from_bytes(
    [bytes([b]) for b in range(256)] + [b"<|call|>", b"<end>"], eos_token_ids=257, special_token_ids=[256]
)
COMPILER = cd.Compiler(VOCAB)


def ir_of(text: str, **grammars: cd.Spec) -> GrammarIR:
    return cd.Lark(text, grammars=grammars).to_ir(Limits())


def accepts(text: str, **grammars: cd.Spec) -> Callable[[str | bytes], bool]:
    """Whether the engine takes a text, token by token of one byte, as a word."""
    grammar = COMPILER.compile(cd.Lark(text, grammars=grammars))

    def accepted(word: str | bytes) -> bool:
        data = word.encode() if isinstance(word, str) else word
        matcher = grammar.matcher()
        return matcher.accept_tokens(list(data)) == len(data) and matcher.is_accepting()

    return accepted


def as_exact(ir: GrammarIR) -> GrammarIR:
    """The same rules read without longest match, for the plain reference."""
    ir.lexings = [EXACT] * len(ir.lexings)
    return ir


# --- rules --------------------------------------------------------------------------------------------------------------------


def lark_of(grammar: bnf_tools.Grammar) -> str:
    """A random grammar as Lark, with one terminal per character, so that longest match takes nothing away."""

    def show(tree: tuple) -> str:
        op = tree[0]
        if op == "text":
            return "(" + " ".join(json.dumps(char) for char in tree[1]) + ")" if tree[1] else '""'
        if op == "class":
            kept = [c for c in bnf_tools.LETTERS if (c in tree[1]) != tree[2]]
            return "(" + " | ".join(json.dumps(char, ensure_ascii=False) for char in kept) + ")"
        if op == "ref":
            return tree[1]
        if op in ("seq", "alt"):
            return "(" + (" " if op == "seq" else "\n | ").join(map(show, tree[1])) + ")"
        _, child, low, high = tree
        marks = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        braces = f"{{{low}}}" if high == low else f"{{{low},{'' if high is None else high}}}"
        return "(" + show(child) + ")" + marks.get((low, high), braces)

    return "start: root\n" + "\n".join(f"{name}: {show(body)}" for name, body in grammar.items())


@pytest.mark.parametrize("seed", seeds(60, 12))
def test_random_rules(seed: int) -> None:
    """The rules have left recursion, cycles and empty rules. The words up to length 4 are enumerated from the tree."""
    rng = random.Random(seed)
    grammar = bnf_tools.random_bnf(rng)
    expected = bnf_tools.words_of(grammar, 4)
    accepted = accepts(lark_of(grammar))
    for n in range(5):
        for letters in itertools.product(bnf_tools.LETTERS, repeat=n):
            word = "".join(letters)
            assert accepted(word) == (word in expected), word


@pytest.mark.parametrize(("low", "high"), [(m, n) for m in range(7) for n in [*range(m, 12), None]])
def test_counts(low: int, high: int | None) -> None:
    braces = f"{{{low},{'' if high is None else high}}}"
    for body in (f'start: "ab"{braces}', f'start: T\nT: "ab"{braces}'):
        naive = Naive(as_exact(ir_of(body)))
        for n in range(15):
            assert naive.accepts(b"ab" * n) == (low <= n and (high is None or n <= high)), (body, n)


def test_counts_are_unambiguous_and_small() -> None:
    ir = ir_of('start: "a"{3,5000} "b"{4000}')
    assert len(ir.rules) < 120
    for text in ('start: "a"{2}', 'start: "a"~2', 'start: "a" ~ 2 .. 2', 'start: "a"{2,2}'):
        assert Naive(as_exact(ir_of(text))).accepts(b"aa") and not Naive(as_exact(ir_of(text))).accepts(b"a")
    assert Naive(as_exact(ir_of('start: "a"{,2}'))).accepts(b"")


def test_line_breaks_and_comments() -> None:
    accepted = accepts(
        """// a comment
        # another
        start: "a" // at the end
             # between alternatives

             | "b" ( "c"
                 "d" ) -> name

             | x
        x:
           "e"
        y: "unused"
        """
    )
    assert [word for word in ("a", "bcd", "e", "b") if accepted(word)] == ["a", "bcd", "e"]


def test_empty_rule_and_marks() -> None:
    accepted = accepts('?start: !x _y\n!x:\n_y: [ "a" -> alias ]\n')
    assert accepted("") and accepted("a") and not accepted("aa")


# --- terminals ----------------------------------------------------------------------------------------------------------------


def test_a_question_mark_may_stand_right_before_a_terminal() -> None:
    """As in Lark, where ``?`` marks a rule only: ``NUMBER: NOZERO?DIGIT+``."""
    accept = accepts('start: A?B "x" ?_C b?A\n?b: "b"\nA: "a"\nB: "b"\n_C: "c"')
    for word in map("".join, itertools.chain(*(itertools.product("abxc", repeat=n) for n in range(6)))):
        assert accept(word) == (re.fullmatch("a?bx?cb?a", word) is not None), word


def random_terminal(rng: random.Random, depth: int) -> tuple[str, Callable[[str], bool]]:
    """A terminal as text, and its language as a predicate on words, by brute force over ways to cut them."""
    kind = rng.choice(["text", "regex", "range"]) if depth == 0 else rng.choice(["cat", "alt", "and", "not", "rep", "text"])
    if kind == "text":
        text = "".join(rng.choice("ab") for _ in range(rng.randint(0, 2)))
        return json.dumps(text), lambda word: word == text
    if kind == "regex":
        pattern = rng.choice(["a", "[ab]", "ab?", "a*", "(?:b|aa)", "."])
        return f"/{pattern}/", lambda word: re.fullmatch(pattern, word) is not None
    if kind == "range":
        return '"a".."b"', lambda word: word in ("a", "b")
    left, in_left = random_terminal(rng, depth - 1)
    if kind == "not":
        return f"~({left})", lambda word: not in_left(word)
    if kind == "rep":
        low = rng.randint(0, 2)
        high = low + rng.randint(0, 2)

        def in_repeat(word: str, low: int = low, high: int = high) -> bool:
            reached = {0: {0}}
            for i in range(1, high + 1):
                reached[i] = {e for s in reached[i - 1] for e in range(s, len(word) + 1) if in_left(word[s:e])}
            return any(len(word) in reached[i] for i in range(low, high + 1))

        return f"({left}){{{low},{max(high, 1)}}}" if high else f"({left}){{0}}", in_repeat
    right, in_right = random_terminal(rng, depth - 1)
    if kind == "cat":
        return f"({left}) ({right})", lambda word: any(in_left(word[:i]) and in_right(word[i:]) for i in range(len(word) + 1))
    if kind == "alt":
        return f"({left}) | ({right})", lambda word: in_left(word) or in_right(word)
    return f"({left}) & ({right})", lambda word: in_left(word) and in_right(word)


@pytest.mark.parametrize("seed", seeds(80, 12))
def test_random_terminals(seed: int) -> None:
    text, is_in = random_terminal(random.Random(seed), 3)
    naive = Naive(as_exact(ir_of(f"start: A\nA: {text}")))
    for n in range(5):
        for letters in itertools.product("ab", repeat=n):
            word = "".join(letters)
            assert (not naive.empty and naive.accepts(word.encode())) == is_in(word), (text, word)


def test_not_is_relative_to_valid_utf8() -> None:
    accepted = accepts('start: A\nA: ~"ab"')
    assert accepted("é🙂") and accepted("") and not accepted("ab")
    assert not accepted(b"\xff") and not accepted("é".encode()[:1])
    accepted = accepts("start: A\nA: /[a-z]+/ & ~/if|else/")
    assert accepted("iff") and not accepted("if") and not accepted("é")


def test_strings() -> None:
    word = 'a"b\\c/\n\té🙂\x01A'
    assert accepts(r'start: "a\"b\\c\/\n\té\ud83d\ude42\u0001\x41"')(word)
    accepted = accepts('start: "Straße.é"i')
    assert accepted("STRAßE.É") and accepted("straße.é") and not accepted("strasse.é") and not accepted("straßexé")


def test_regex_flags() -> None:
    assert accepts("start: /a b # c/x")("ab") and accepts("start: /a.b/s")("a\nb") and not accepts("start: /a.b/")("a\nb")
    assert accepts("start: /AB/i")("aB") and accepts(r"start: /a\/b/")("a/b")


# What Python's re says of the library's terminals; letters are ASCII here.
COMMON = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[0-9a-fA-F]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "_EXP": "[eE][+-]?[0-9]+",
    "FLOAT": r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+",
    "SIGNED_FLOAT": r"[+-]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)",
    "NUMBER": r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+(?:[eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+(?:[eE][+-]?[0-9]+)?)",
    "ESCAPED_STRING": r'"(?:[^"\\]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[_A-Za-z][_A-Za-z0-9]*",
    "WS_INLINE": "[ \t]+",
    "WS": "[ \t\f\r\n]+",
    "CR": "\r",
    "LF": "\n",
    "NEWLINE": "(?:\r?\n)+",
    "SH_COMMENT": "#[^\n]*",
    "CPP_COMMENT": "//[^\n]*",
    "C_COMMENT": r"/\*(?s:(?!\*/).)*\*/",
    "SQL_COMMENT": "--[^\n]*",
}


@pytest.mark.parametrize("name", COMMON)
def test_common(name: str) -> None:
    naive = Naive(as_exact(ir_of(f"%import common.{name} -> X\nstart: X")))
    rng = random.Random(name)
    alphabet = {"_COMMENT": "#/-*a\n", "STRING": '"\\a\n'}.get(name[name.rfind("_") :] if "_" in name else name, "0+.eE-")
    alphabet += "aA_" if name in ("LETTER", "WORD", "CNAME", "LCASE_LETTER", "UCASE_LETTER", "HEXDIGIT") else " \t\n\r"
    samples = [
        '"a"',
        '"\\""',
        "/**/",
        "/* a\n**/",
        "/* */ */",
        "#",
        "# a",
        "//",
        "-- a",
        "1.5e10",
        ".5",
        "1.",
        "+1",
        "\r\n\n",
        "Ab_1",
    ]
    samples += ["".join(rng.choice(alphabet) for _ in range(rng.randint(0, 5))) for _ in range(300)]
    for text in samples:
        assert naive.accepts(text.encode()) == (re.fullmatch(COMMON[name], text) is not None), text


# --- %ignore, lexemes ---------------------------------------------------------------------------------------------------------


def test_how_lexemes_are_written() -> None:
    ir = ir_of('start: "a" NAME x\nx[lazy]: /b*c/\nNAME: /[a-z]+/\n%ignore / /\n%ignore /_+/')
    by_name = {name: (~t, ir.lexings[t]) for t, name in enumerate(ir.lexeme_names)}
    assert {name: how for name, (_, how) in by_name.items()} == {
        "%ignore": LONGEST,
        '"a"': LONGEST,
        "NAME": LONGEST,
        "x": LAZY,
    }
    skip = by_name["%ignore"][0]
    assert ir.skips == {by_name["NAME"][0]: skip, by_name["x"][0]: skip}  # nothing before the first one


def test_equal_terminals_are_one_lexeme() -> None:
    ir = ir_of('start: A "-" B "-" /[a-z]+/ "-" C\nA: /[a-z]+/\nB: /[a-z]+/\nC: A')
    assert len(ir.lexemes) == 2


def test_many_texts_are_one_lexeme() -> None:
    """Also beside lexemes that overlap with them, and where one of them is used elsewhere."""
    names = [f"name{i}" for i in range(40)]
    grammar = 'start: (x | NAME "." | "name3" ";")+\nNAME: /[a-z0-9]+/\nx: ' + " | ".join(map(json.dumps, names)) + ' | "+" "r"'
    assert len(ir_of(grammar).lexemes) == 7
    accepted = accepts(grammar)
    for text in ("name39", "name3", "name4;", "name3;", "name44.", "+r", "name1name.", "name399.", "+"):
        parts = re.fullmatch(r"(?:(name[0-9]|name[123][0-9])(?![a-z0-9])|[a-z0-9]+\.|name3;|\+r(?![a-z0-9]))+", text)
        assert accepted(text) == (parts is not None), text


def test_first_lexeme_is_bare_in_every_alternative() -> None:
    accepted = accepts('start: a? b* ("c" | d)\na: "a"\nb: b "b" | "e"\nd: "d"?\n%ignore " "')
    for word in ("a b", "e b b c", "c", "", "d", "a e  b  d"):
        pieces = word.split()
        if word not in ("a b",):
            assert accepted(word), word
        assert not accepted(" " + word) or not pieces, word


def test_options() -> None:
    once = accepts('%llguidance {"ignore_once": true}\n%ignore / /\nstart: "a" "b"')
    assert once("a b") and once("ab") and not once("a  b")
    once = accepts('%llguidance {"skip_repetition": "once"}\n%ignore / {1,2}/\nstart: "a" "b"')
    assert once("a  b") and not once("a   b")
    initial = accepts('%llguidance {"allow_initial_skip": true}\n%ignore / /\nstart: "a" "b"')
    assert initial("  a b") and initial("ab") and not initial("a b ")
    assert accepts('%llguidance {"no_forcing": true}\n%llguidance {}\nstart: "a"')("a")


def test_what_is_ignored_at_the_beginning_ends_by_longest_match() -> None:
    """A comment of one line holds what would begin one of several lines."""
    comments = '%ignore /[ \\n]+/\n%ignore "--" /[^\\n]*/\n%ignore "/*" /[^*]*/ "*/"'
    accepted = accepts('%llguidance {"allow_initial_skip": true}\nstart: "a" "b"\n' + comments)
    assert accepted(b" --/*\na b") and accepted(b"/**/--x\n ab") and accepted(b"ab")
    assert not accepted(b"--/*\n*/ab")


def test_what_is_ignored_at_the_beginning_comes_before_what_nothing_is_skipped_before() -> None:
    options = '%llguidance {"allow_initial_skip": true}\n%ignore /[ ]/\n'
    glued = accepts(options + 'start: a? a ";"\na[glued]: "a"')
    assert glued("a;") and glued("   aa ;") and glued(" aa;") and not glued(" a a;")
    embedded = accepts(options + 'start: ("b" | x) ";"\nx: %json {"const": 1}')
    assert embedded("   1 ;") and embedded("  b ;") and embedded("1;")
    once = accepts('%llguidance {"allow_initial_skip": true, "skip_repetition": "once"}\n%ignore /[ ]/\nstart: "a" "b"')
    assert once(" a b") and once("ab") and not once("  ab")


@pytest.mark.parametrize("spec", [cd.grammars.CPP, cd.grammars.SQL, cd.grammars.PYTHON])
def test_what_is_ignored_at_the_beginning_is_one_lexeme_of_one_rule(spec: cd.Spec) -> None:
    """Rules that repeat it go beside the skip through every node of infilling: masks took 100 times as long."""
    ir = spec.rules(cd.Limits())
    ignored = {~number for number, name in enumerate(ir.lexeme_names) if name == "%ignore"}
    used = [(ir.names[left], at, right[at]) for left, right in ir.rules for at in range(len(right)) if right[at] in ignored]
    assert {(left, at) for left, at, _ in used} == {("start", 0)}  # PYTHON has two grammars, one in the other
    assert len({symbol for _, _, symbol in used}) == len(used)


# --- embedded grammars --------------------------------------------------------------------------------------------------------


def test_json_lark_and_references() -> None:
    accepted = accepts(
        'start: %json {"enum": [1, "x"]} ";" @list ";" %lark {\nstart: "(" "b"+ ")"\n%ignore "_"\n}\n%ignore " "',
        list=cd.Lark('start: "l"+'),
    )
    assert accepted("1;ll;(b_b)") and accepted('"x" ;l ;(b)')
    assert not accepted("1; ll;(b)") and not accepted("1;l;(b b)") and not accepted("1;l;(b) ")


def test_what_is_ignored_belongs_to_one_grammar() -> None:
    accepted = accepts('start: @list ";"\n%ignore " "', list=cd.Lark('start: "l"+'))
    assert accepted("ll  ;") and not accepted("l l;")
    accepted = accepts('start: @list ";"\n%ignore " "', list=cd.Lark('start: "l"+\n%ignore "_"'))
    assert accepted("l_l__l  ;") and accepted("l;")
    assert not accepted("l l;") and not accepted("l_;") and not accepted("l _;") and not accepted("l_ ;")
    accepted = accepts('start: @list ";"\n%ignore /[ _]/', list=cd.Lark('start: "l"+\n%ignore "_"'))  # both may be meant
    assert accepted("l_l;") and accepted("l_;") and accepted("l__ ;") and not accepted("l_ l;") and not accepted("l _l;")
    accepted = accepts('start: "a" (%json {"const": 1} | "b" | <|call|>) ";"\n%ignore " "')
    assert accepted("a1 ;") and accepted("a b;") and not accepted("a 1;")


def test_json_alternatives_share_their_beginning() -> None:
    both = accepts('start: %json {"const": {"name": "f", "x": 1}} | %json {"const": {"name": "f", "y": 2}}')
    assert both('{"name": "f", "x": 1}') and both('{"name":"f","y":2}') and not both('{"name":"f","y":1}')


def test_x_guidance() -> None:
    schema = {"type": "array", "items": {"const": 1}, "x-guidance": {"whitespace_flexible": False}}
    assert accepts("start: %json " + json.dumps(schema))("[1,1]") and not accepts("start: %json " + json.dumps(schema))(
        "[1, 1]"
    )
    relaxed = {"uniqueItems": True, "prefixItems": [{}], "contains": {"type": "array"}, "x-guidance": {"lenient": True}}
    assert ir_of("start: %json " + json.dumps(relaxed)).relaxed
    spaced = schema | {"x-guidance": {"whitespace_flexible": False, "item_separator": ", "}}
    accepted = accepts("start: %json " + json.dumps(spaced))
    assert accepted("[1, 1]") and not accepted("[1,1]") and not accepted("[ 1]")
    with pytest.raises(cd.GrammarError, match="did you mean 'lenient'"):
        ir_of('start: %json {"x-guidance": {"lenien": true}}')


def test_priorities_of_terminals_may_be_left_out() -> None:
    """Both terminals stay where Lark takes the first: what it reads is read, and ``if`` is a name as well."""
    text = 'start: IF NAME | NAME "=" NAME\nIF.2: "if"\nNAME.-1: /[a-z]+/\n%ignore " "'
    grammar = COMPILER.compile(cd.Lark(text, on_unsupported="relax"))
    assert list(grammar.relaxed) == [("priority", "line 2, column 4"), ("priority", "line 3, column 6")]
    for accepted in ("if a", "a = b", "if = b"):
        matcher = grammar.matcher()
        assert matcher.accept_tokens(accepted.encode()) == len(accepted) and matcher.is_accepting()
    with pytest.raises(cd.UnsupportedError, match="priority of the terminal 'IF'.*on_unsupported='relax' leaves it out"):
        COMPILER.compile(cd.Lark(text))


def test_grammar_options_is_xgrammars_name() -> None:
    accepted = accepts('%grammar_options {"allow_initial_skip": true}\nstart: "a"\n%ignore " "')
    assert accepted(" a") and not accepts('start: "a"\n%ignore " "')(" a")


def test_declared_terminals() -> None:
    assert accepts("%declare NUMBER word\nstart: NUMBER word", NUMBER=cd.Regex("[0-9]+"), word=cd.Choice(["x"]))("12x")


def test_special_tokens() -> None:
    ir = ir_of("start: <|call|> <[1-3,9]> <[^7]> <[*]> <|call|>")
    assert list(ir.token_sets.values()) == [
        TokenSet(("<|call|>",), (), False, "line 1, column 8"),
        TokenSet((), ((1, 3), (9, 9)), False, "line 1, column 17"),
        TokenSet((), ((7, 7),), True, "line 1, column 27"),
        TokenSet((), (), True, "line 1, column 34"),
    ]
    assert next(iter(ir_of(f"start: <[{97:016}-00098]>").token_sets.values())).ranges == ((97, 98),)
    matcher = COMPILER.compile(cd.Lark('start: "a" <|call|> "b"')).matcher()
    assert matcher.accept_tokens([97, 256, 98]) == 3 and matcher.is_accepting()


def test_templates() -> None:
    accepted = accepts(
        'start: sep{INT, ","} ";" sep{(x | "z"), "-"}\nsep{item, by}: item (by item)*\nx: "x"\n%import common.INT'
    )
    assert accepted("1,22,3;x-z") and not accepted("1-2;x")
    assert accepts('start: T{"a"}\nT{C}: C C')("aa")
    nested = accepts('start: p{p{"a"}}\np{x}: "(" x ")"')
    assert nested("((a))") and not nested("(a)")


def test_attributes() -> None:
    ir = ir_of('start: x y z\nx[capture]: "a"\ny[capture="why", suffix=";"]: /b*/\nz[max_tokens=5, temperature=0.5]: "c" "d"')
    assert sorted(ir.captures.values()) == ["why", "x"]
    assert {ir.lexeme_names[~t]: n for t, n in ir.max_tokens.items()} == {"z": 5}
    assert [(repr(stop), name) for stop, name in ir.stops.values()] == [('";"', "")]
    accepted = accepts('start: x "!"\nx[suffix=END]: /(.|\\n)*/\nEND: "</" /[a-z]/ ">"')
    assert accepted("ab\n</a>!") and not accepted("ab</a></b>!")


# --- %regex -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(20, 12))
def test_substrings(seed: int) -> None:
    rng = random.Random(seed)
    chunks = [rng.choice(["a", "b", "ab", "aa", "é"]) for _ in range(rng.randint(0, 9))]
    expected = {"".join(chunks[i:j]) for i in range(len(chunks) + 1) for j in range(i, len(chunks) + 1)}
    ir = GrammarIR()
    ir.start = ir.nonterminal()
    ir.rule(ir.start, [ir.lexeme(substring_expr(chunks))])
    naive = Naive(ir)
    for text in expected | {"".join(rng.choice("abé") for _ in range(rng.randint(0, 6))) for _ in range(200)}:
        assert naive.accepts(text.encode()) == (text in expected), (chunks, text)


def test_substring_automaton_is_linear() -> None:
    rng = random.Random(0)
    for n in (100, 1000, 5000):
        following, order = suffix_automaton([rng.choice("ab") for _ in range(n)])
        assert len(order) == len(following) <= 2 * n and sum(map(len, following)) <= 3 * n


def test_words() -> None:
    assert words("foo bar. baz") == ["foo", " ", "bar", ".", " ", "baz"]
    assert words("a_1--  é\n") == ["a_1", "--", "  ", "é", "\n"]


def test_long_text() -> None:
    rng = random.Random(1)
    text = " ".join(f"w{rng.randrange(3000)}" for _ in range(5000))
    accepted = accepts("start: Q\nQ: " + '"<" %regex ' + json.dumps({"substring_words": text}) + ' ">"')
    middle = text[text.index(" ", 9000) : text.index(" ", 12000)]
    assert accepted(f"<{middle}>") and not accepted(f"<{middle}{middle}>") and not accepted("<w>")


# --- parameters ---------------------------------------------------------------------------------------------------------------


def test_functions_and_conditions() -> None:
    """Beside the formulas of LLGuidance's documentation."""
    rng = random.Random(0)
    for _ in range(2000):
        p, v, k = rng.getrandbits(64) & rng.getrandbits(64), rng.getrandbits(64), rng.randrange(64)
        x = rng.randrange(64)
        y = rng.randint(x + 1, 64)
        if rng.random() < 0.3:
            p |= (1 << y) - (1 << x)
        field = (p >> x) % (1 << (y - x))
        ones = 2 ** (y - x) - 1
        apply, holds = parameters.apply, parameters.holds
        assert apply(("set_bit", (k,)), p) == p | (1 << k) and apply(("clear_bit", (k,)), p) == p & ~(1 << k)
        assert apply(("bit_and", (v,)), p) == p & v and apply(("bit_or", (v,)), p) == p | v and apply(("_", ()), p) == p
        assert apply(("incr", ((x, y),)), p) == (p if field == ones else p + (1 << x))
        assert apply(("decr", ((x, y),)), p) == (p if field == 0 else p - (1 << x))
        assert holds(("bit_set", (k,)), p) == (f"{p:064b}"[63 - k] == "1") == (not holds(("bit_clear", (k,)), p))
        assert holds(("is_ones", ((x, y),)), p) == (field == ones) and holds(("is_zeros", ((x, y),)), p) == (field == 0)
        small = v % (ones + 1) if rng.random() < 0.5 else field
        for name, value in {"eq": field == small, "ne": field != small, "lt": field < small, "ge": field >= small}.items():
            assert holds((name, ((x, y), small)), p) == value
        count = bin(field).count("1")
        assert holds(("bit_count_le", ((x, y), k)), p) == (count <= k) and holds(("bit_count_gt", ((x, y), k)), p) == (
            count > k
        )
        a, b = ("bit_set", (k,)), ("lt", ((x, y), small))
        assert holds(("and", (a, ("not", (b,)))), p) == (holds(a, p) and not field < small)
        assert holds(("or", (a, b)), p) == (holds(a, p) or field < small)


PERMUTATION = 'start: perm::0\nperm::_: "" %if is_ones([0:5])\n' + "".join(
    f'  | "{letter}" perm::set_bit({i}) %if bit_clear({i})\n' for i, letter in enumerate("abcde")
)


def test_permutations() -> None:
    accepted = accepts(PERMUTATION)
    for letters in itertools.product("abcde", repeat=5):
        assert accepted("".join(letters)) == (len(set(letters)) == 5)
    naive = Naive(as_exact(ir_of(PERMUTATION)))
    assert naive.accepts(b"cabed") and not naive.viable(b"cac") and not naive.accepts(b"cabe")


def test_no_dead_ends() -> None:
    """``"a"`` leads nowhere: after it, the bit that the end needs can no longer be set."""
    grammar = """
start: x::0
x::_: "a" x::set_bit(0) %if bit_clear(0)
  | "b" x::set_bit(1) %if bit_clear(0)
  | "c" y::_ %if bit_set(1)
y::_: "!" %if eq([0:2], 2) | "?" y::_
"""
    naive = Naive(as_exact(ir_of(grammar)))
    assert not naive.viable(b"a") and naive.accepts(b"bbc?!")
    matcher = COMPILER.compile(cd.Lark(grammar)).matcher()
    assert not matcher.accept_token(ord("a")) and matcher.accept_tokens(list(b"bc!")) == 3 and matcher.is_accepting()


def test_parameters_in_groups_and_repetitions() -> None:
    accepted = accepts('start: x::2\nx::_: ("a" | y::_){2,3} "!"\ny::_: "b" %if eq(_, 2) | "c" %if ne(_, 2)')
    assert accepted("ab!") and accepted("bbb!") and not accepted("ac!") and not accepted("b!")
    empty = accepts('start: "(" x::3 ")"\nx::_: "" %if is_zeros(_) | x::decr(_) %if gt(_, 0)')
    assert empty("()")


def test_many_bits() -> None:
    n = 40
    grammar = 'start: p::0\np::_: "" %if bit_count_ge(_, 38)\n' + "".join(
        f'  | "{i};" p::set_bit({i}) %if bit_clear({i})\n' for i in range(n)
    )
    accepted = accepts(grammar)
    order = random.Random(0).sample(range(n), n)
    assert accepted("".join(f"{i};" for i in order)) and accepted("".join(f"{i};" for i in order[:38]))
    assert not accepted("".join(f"{i};" for i in order[:37])) and not accepted("3;3;")


def test_too_many_parameters_to_decide() -> None:
    with pytest.raises(cd.LimitExceeded, match="the rule 'x'.*line 2"):
        COMPILER.compile(cd.Lark('start: x::0\nx::_: "a" x::incr(_) | "" %if eq(_, 9999999)'))


def test_search() -> None:
    graph = {"a": [["b", "c"], ["d"]], "b": [[]], "c": [["a"]], "d": [["e"]], "e": [["b", "b"]], "f": [["f"], ["g"]], "g": []}
    search = Search(100)
    assert [node for node in "abcdefg" if search.holds(node, graph.__getitem__)] == list("abcde")
    with pytest.raises(OutOfFuel):
        Search(100).holds(0, lambda n: [[n + 1]])


def test_a_search_that_goes_off_looks_around() -> None:
    """A counter may go up for ever, and down to its end: the walk that goes up first was never over."""
    for first in (0, 40, 1_000):
        assert Search(5_000).holds(first, lambda n: [[n + 1], [n - 1]] if n else [[n + 1], []])
    with pytest.raises(OutOfFuel):
        Search(5_000).holds(10_000, lambda n: [[n + 1], [n - 1]] if n else [[n + 1], []])
    counter = 'start: p::0\np::_: "(" p::incr([0:40]) | ")" p::decr([0:40]) %if gt([0:40], 0) | "" %if eq([0:40], 0)'
    accepted = accepts(counter)
    assert [accepted(text) for text in ("", "(())()", "(()", "())")] == [True, True, False, False]


def test_a_search_beside_all_nodes_of_a_graph() -> None:
    """What is found while it looks around counts, also where it holds for all nodes on the way: a chain that ends was said to
    fail, so grammars with texts were refused as unsatisfiable."""
    assert all(Search(1_000).holds(0, lambda n, last=last: [[n + 1]] if n < last else [[]]) for last in (62, 63, 64, 80, 500))
    rng = random.Random(5)
    for _ in range(300):
        n = rng.choice([5, 70, 200])
        graph = [[[rng.randrange(n) for _ in range(rng.randint(1, 2))] for _ in range(rng.randint(0, 3))] for _ in range(n)]
        for _ in range(rng.randint(0, 4)):
            graph[rng.randrange(n)].append([])
        known = Productive([(left, side) for left, sides in enumerate(graph) for side in sides]).known
        search = Search(10_000)
        assert all(search.holds(node, graph.__getitem__) == (node in known) for node in rng.sample(range(n), n))


def test_a_counter_far_from_its_end() -> None:
    """Two rules that count together up to the only value that ends."""
    text = 'start: p::0\np::_: "a" q::incr([0:12]) | "." %if ge([0:12], 40)\nq::_: "b" p::_'
    accepted = accepts(text)
    assert accepted("ab" * 40 + ".") and accepted("ab" * 43 + ".") and not accepted("ab" * 39 + ".")


def test_a_search_makes_no_side_that_it_does_not_need() -> None:
    """Of 2**14 sets of letters those that one ending meets; each with the sides up to the first that ends."""
    made = []

    def sides(letters: int) -> Iterator[list[int]]:
        for bit in range(14):
            made.append(letters)
            if not letters >> bit & 1:
                yield [letters | 1 << bit]
        yield from [[]] * (letters == 2**14 - 1)

    assert Search(100).holds(0, sides)
    assert len(made) < 300


_NESTED = r"""
start: pair{WORD, "-"} | %lark { start: a+
  a: "x" start | /[0-9]/
  %ignore " " } | %json {"type": "object", "required": ["a"]}
pair{a, b}: a b a | told b
told[suffix=".", capture]: WORD
WORD: /[a-z]+/ & ~"if"
%ignore /[ \n]+/
"""


def test_trees_are_gone_without_the_garbage_collector() -> None:
    """Nothing that is made of a grammar's text is in a cycle, if no rules are left to be made later: no collection has to look
    at thousands of nodes.
    """
    specs = cd.Lark(_NESTED), cd.grammars.SQL
    library()  # its trees stay
    gc.collect()
    with gc_paused():
        before = _trees()
        grammars = [COMPILER.compile(spec) for spec in specs]
        assert _trees() == before
    assert grammars[0].matcher().accept_tokens(list(b"ab - cd")) == 7


def _trees() -> int:
    return sum(type(one) in (tree.Node, Rule) for one in gc.get_objects())
