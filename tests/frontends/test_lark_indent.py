"""``%indent`` and ``%word`` beside Lark's own indenter, and beside a plain lexer and parser."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import lark
import numpy as np
import pytest
from engine_tools import cases
from lark.indenter import Indenter
from naive_lexing import NaiveLexing

import cdplugin as cd
from cdplugin.frontends.lark import compile as compile_module
from cdplugin.frontends.lark import corners, indent
from cdplugin.ir import GrammarIR, Member
from cdplugin.limits import Limits

RULES = """
start: stmt*
stmt: simple _NEWLINE | "?" NAME ":" block ("!" ":" block)?
block: simple _NEWLINE | _NEWLINE _INDENT stmt+ _DEDENT
simple: NAME "(" (NAME ("," NAME)*)? ")" | NAME
NAME: /[ab]+/
%ignore /[ \\t]+/
"""
COMMENT = "COMMENT: /#[^\\n]*/\n"
NEWLINE = "_NEWLINE: ( /\\r?\\n[\\t ]*/ | COMMENT )+\n"
PIECES = [
    "a",
    "b",
    "? a:",
    "?a:",
    "!:",
    "\n",
    "\n ",
    "\n  ",
    "\n    ",
    " ",
    "  ",
    "# c",
    "\n #\n",
    "(",
    ")",
    ",",
    "a(",
    "\t",
    "\r\n",
    "\n\t",
]
VOCAB = cd.Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b"</s>"], eos_token_ids=256)
COMPILER = cd.Compiler(VOCAB)


def takes(spec: str) -> Callable[[str], bool]:
    grammar = COMPILER.compile(cd.Lark(spec))

    def taken(text: str) -> bool:
        matcher = grammar.matcher()
        data = text.encode()
        return matcher.accept_tokens(list(data)) == len(data) and matcher.is_accepting()

    return taken


class Plain(Indenter):
    """Lark's indenter for :data:`RULES`."""

    NL_type, INDENT_type, DEDENT_type = "_NEWLINE", "_INDENT", "_DEDENT"
    OPEN_PAREN_types, CLOSE_PAREN_types = ["LPAR"], ["RPAR"]
    tab_len = 4


def lark_takes() -> Callable[[str], bool]:
    """What Lark takes, but for what docs/grammars.md says is different: blank lines at both ends, no tab_len=None."""
    grammar = RULES + COMMENT + NEWLINE + "%declare _INDENT _DEDENT\n"
    parser = lark.Lark(grammar, parser="lalr", postlex=Plain())

    def taken(text: str) -> bool:
        lines = text.split("\n")
        blank = re.compile(r"[ \t\r]*(#.*)?")
        while lines and blank.fullmatch(lines[0]):
            del lines[0]
        while lines and blank.fullmatch(lines[-1]):
            lines.pop()
        if not lines:
            return True
        if lines[0][0] in " \t":
            return False
        try:
            parser.parse("\n".join(lines) + "\n")
        except (lark.exceptions.LarkError, AssertionError):
            return False
        return True

    return taken


def random_text(rng: random.Random) -> str:
    """A program with a mistake or two, or none; or pieces in any order."""
    if rng.random() < 0.3:
        return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12)))
    text = "".join(rng.choice(["", "", "\n", "  # c\n"]) + line for line in block(rng, 0, rng.randint(0, 3)))
    for _ in range(rng.choice([0, 1, 1, 2])):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice([*PIECES, "", ""]) + text[at + rng.choice([0, 0, 1, 2]) :]
    return text if rng.random() < 0.5 else text.rstrip("\n")


def block(rng: random.Random, width: int, depth: int) -> list[str]:
    lead = " " * width
    out: list[str] = []
    for _ in range(rng.randint(1, 3)):
        end = rng.choice(["\n", " \n", "# c\n", "\r\n", "\n\n", "\n     \n", "\n   # c\n"])
        if depth and rng.random() < 0.6:
            out.append(f"{lead}? a:{end}")
            out += block(rng, width + rng.randint(1, 3), depth - 1)
            if rng.random() < 0.4:
                out.append(f"{lead}!:" + (rng.choice([" b", "a(b,\n a )"]) + end))
        else:
            out.append(lead + rng.choice(["a", "b( )", "a(b,a)", "a(\n  b # c\n , a)", "ab"]) + end)
    return out


FORMS = {
    "declared": '%indent {"comment": "COMMENT", "max_width": 12, "tab_len": 4, '
    '"OPEN_PAREN_types": ["("], "CLOSE_PAREN_types": ["RPAR"]}\n',
    "defined": '%indent {"OPEN_PAREN_types": ["LPAR"], "CLOSE_PAREN_types": [")"], "max_width": 12, "tab_len": 4}\n' + NEWLINE,
}


@pytest.mark.parametrize("form", FORMS)
def test_beside_larks_indenter(form: str) -> None:
    ours, theirs = takes(FORMS[form] + RULES + COMMENT), lark_takes()
    rng, count = random.Random(form), cases(2500, 300)
    counts = {True: 0, False: 0}
    for _ in range(count):
        text = random_text(rng)
        widest = max((tabs.count("\t") for tabs in re.findall(r"\n([ \t]*)", text)), default=0)
        if text.strip(" \t\r") == "" or widest > 2 or re.search(r"\r(?!\n)", text):
            continue  # white space alone; wider than max_width; the end of a line without its end
        expected = theirs(text)
        counts[expected] += 1
        assert ours(text) == expected, text
    assert min(counts.values()) > 0.16 * count


def test_tabs_are_refused_unless_they_have_a_width() -> None:
    rules = RULES.replace("%ignore", "%indent {}\n%ignore")
    assert takes(rules)("? a:\n a\n\t \n a\t\n") and not takes(rules)("? a:\n\ta\n")
    assert takes(rules.replace("{}", '{"tab_len": 8}'))("? a:\n\ta\n        a\n  \t  a\n") is False
    assert takes(rules.replace("{}", '{"tab_len": 8}'))("? a:\n\ta\n        a\n")


def test_blocks_of_tabs_beside_cpython() -> None:
    """Blocks of tabs alone or of spaces alone: CPython takes the same, but for blocks of one kind in those of the other."""
    options = (
        '%indent {"comment": "COMMENT", "max_width": 6, "max_tabs": 3, "CLOSE_PAREN_types": [")"], "OPEN_PAREN_types": ["("]}\n'
    )
    ours = takes(options + 'start: line+\nline: "a" _NEWLINE | "if a:" _NEWLINE _INDENT line+ _DEDENT\nCOMMENT: /#[^\\n]*/\n')
    rng, counts = random.Random(3), {True: 0, False: 0}
    for _ in range(cases(2000, 300)):
        lines: list[str] = []
        for _ in range(rng.randint(1, 3)):
            unit, depth = rng.choice([" ", "  ", "\t", "\t"]), rng.randint(0, 3)
            lines += [unit * k + "if a:" for k in range(depth)]
            lines += [unit * k + "a" for k in range(depth, -1, -1) if k == depth or rng.random() < 0.7]
        for _ in range(rng.choice([0, 0, 1, 2])):
            at = rng.randrange(len(lines))
            lines[at] = rng.choice(["", " ", "\t", "\t\t", "  ", "    "]) + lines[at].lstrip()
        text = "\n".join([*lines, rng.choice(["", "\t", " # c"])])
        widths = [re.match(r"[ \t]*", line)[0] for line in lines]  # type: ignore[index]
        if any(" " in width and "\t" in width for width in widths) or "\t" * 4 in text:
            continue
        try:
            ast.parse(text)
            expected = not mixed(widths)
        except SyntaxError:
            expected = False
        counts[expected] += 1
        assert ours(text) == expected, text
    assert min(counts.values()) > 100


def mixed(widths: list[str]) -> bool:
    """Whether a block of one kind stands in one of the other; every line that is indented belongs to a legal program."""
    outer = ""
    for width in widths:
        if width and outer and width[0] != outer[0]:
            return True
        outer = width
    return False


# --- masks ---


def flat(ir: GrammarIR) -> GrammarIR:
    """The same rules with all members of families written out, for the plain reference."""
    symbol_of: dict[Member, int] = {}
    pending: list[Member] = []

    def symbol(part: object) -> int:
        if isinstance(part, int):
            if part not in ir.instances:
                return part
            part = Member(*ir.instances[part])
        assert isinstance(part, Member)
        if part not in symbol_of:
            symbol_of[part] = ir.nonterminal("member")
            pending.append(part)
        return symbol_of[part]

    rules = [(left, tuple(symbol(part) for part in right)) for left, right in ir.rules]
    while pending:
        member = pending.pop()
        for side in member.family.expand(member.value, lambda symbol: True):
            rules.append((symbol_of[member], tuple(symbol(part) for part in side)))
    ir.rules = rules
    return ir


SMALL = """
%indent {"comment": "COMMENT", "OPEN_PAREN_types": ["("], "CLOSE_PAREN_types": [")"], "max_width": 3}
start: stmt+
stmt: simple (";" simple)* _NEWLINE | "if" NAME ":" block
block: simple _NEWLINE | _NEWLINE _INDENT stmt+ _DEDENT
simple: NAME ("and" NAME)* | "(" NAME* ")"
NAME: /[a-z]/ LETTER* & ~("if" | "and")
LETTER: /[a-z]/
COMMENT: /#a*/
%word LETTER
%ignore / +/
"""
TOKENS = [bytes([b]) for b in b"a bif:;()\n#nd"] + [
    b"\n ", b"\n  ", b"   ", b" a", b"a\n", b"if a:\n", b":\n  b", b"\n\n", b"\n #\n ", b" and ", b"and", b"a\n a", b"(a\n",
    b"\n)", b"a\n\n  if", b" \n", b")\n", b"  a\n b", b"; a", b"#a\n",
]  # fmt: skip


def test_masks_beside_a_plain_lexer_and_parser() -> None:
    vocab = cd.Vocabulary.from_bytes([*TOKENS, b"</s>"], eos_token_ids=len(TOKENS))
    grammar = cd.Compiler(vocab).compile(cd.Lark(SMALL))
    naive = NaiveLexing(flat(cd.Lark(SMALL).to_ir(Limits())))
    row = np.zeros((1, 2), np.int32)
    for seed in range(cases(60, 5)):
        rng = random.Random(seed)
        matcher, threads = grammar.matcher(), naive.start()
        for _ in range(rng.randint(4, 14)):
            matcher.fill_next_token_bitmask(row)
            bits = np.unpackbits(row.view(np.uint8)[0], bitorder="little")
            allowed = {i for i in range(len(TOKENS)) if bits[i]}
            text = b"".join(TOKENS[i] for i in matcher.tokens)
            assert allowed == naive.allowed(threads, TOKENS), text
            assert matcher.is_accepting() == bool(bits[len(TOKENS)]) == naive.accepting(threads), text
            if not allowed:
                break
            token = rng.choice(sorted(allowed))
            fork = matcher.fork()
            assert fork.accept_token(token) and fork.tokens[:-1] == matcher.tokens
            assert matcher.accept_token(token)
            threads = naive.accept(threads, token, TOKENS[token])


def test_rollback_fork_and_endings() -> None:
    vocab = cd.Vocabulary.from_bytes([*TOKENS, b"</s>"], eos_token_ids=len(TOKENS))
    spec = cd.Lark(SMALL.replace('"max_width": 3', '"max_width": 40'))
    grammar = cd.Compiler(vocab).compile(spec)
    row = np.zeros((1, 2), np.int32)
    for seed in range(20):
        rng = random.Random(seed)
        matcher = grammar.matcher()
        masks = []
        for _ in range(40):
            matcher.fill_next_token_bitmask(row)
            masks.append(row.copy())
            bits = np.unpackbits(row.view(np.uint8)[0], bitorder="little")
            matcher.accept_token(rng.choice([i for i in range(len(TOKENS)) if bits[i]]))
            if rng.random() < 0.3:
                back = rng.randint(1, len(matcher.tokens))
                again = matcher.tokens[-back:]
                matcher.rollback(back)
                matcher.fill_next_token_bitmask(row)
                assert np.array_equal(row, masks[-back])
                assert matcher.fork().accept_tokens(again) == back == matcher.accept_tokens(again)
        ending = matcher.shortest_completion()
        assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting()


# --- bounds ---


@pytest.mark.parametrize("depth", [30, 90])
def test_states_grow_with_the_depth_alone(depth: int) -> None:
    """Texts that differ in nothing to come have one state."""
    grammar = COMPILER.compile(cd.Lark('%indent {"max_width": 100}\n' + RULES))
    grammar.matcher()
    text = "".join(" " * d + "? a:\n" for d in range(depth)) + " " * depth + "a\n"
    matcher = grammar.matcher()
    assert matcher.accept_tokens(list(text.encode())) == len(text)
    rows = grammar.counters()["rows"]
    assert rows < 40 * depth
    again = text + "".join(" " * d + "b\n" for d in range(depth, -1, -1))
    matcher.reset()
    assert matcher.accept_tokens(list(again.encode())) == len(again) and matcher.is_accepting()
    assert grammar.counters()["rows"] < 2 * rows


def test_no_block_begins_at_the_greatest_width() -> None:
    grammar = COMPILER.compile(cd.Lark('%indent {"max_width": 2}\n' + RULES))
    text = "? a:\n ? a:\n  ? a:"
    matcher = grammar.matcher()
    assert matcher.accept_tokens(list(text.encode())) == len(text)
    assert matcher.accept_tokens(list(b"\n")) == 0 and matcher.accept_tokens(list(b" b\n")) == 3
    always = COMPILER.compile(cd.Lark('%indent {"max_width": 2}\n' + RULES.replace("block: simple _NEWLINE |", "block:")))
    matcher = always.matcher()
    assert matcher.accept_tokens(list(b"? a:\n  b\n  ? a")) == 11  # a block that could not be written is not begun


def test_captures() -> None:
    spec = '%indent {}\nstart: head _NEWLINE _INDENT body _NEWLINE _DEDENT\nhead: "a" ":"\nbody[capture]: /[a-z]+/\n'
    matcher = COMPILER.compile(cd.Lark(spec)).matcher()
    assert matcher.accept_tokens(list(b"a:\n   xyz\n")) == 10 and matcher.captures() == {"body": b"xyz"}


@pytest.mark.parametrize("bound", ["", "[max_tokens=9]", "[lazy]", "[capture]"])
def test_where_the_first_rule_ends_no_line(bound: str) -> None:
    accepts = takes(f"%indent {{}}\nstart: a (b)?\na{bound}: /xy/\nb: " + '"(" a ")"\n%ignore / +/')
    for text in ("xy", "xy(xy)", "xy( \n xy\n)", "\n\nxy"):  # blank lines before the first line, and between brackets
        assert accepts(text), text
    for text in ("", "xy\n", " xy", "xy(xy)\nxy"):
        assert not accepts(text), text


# --- words and glued rules ---


def test_words() -> None:
    rules = 'start: NAME ("in" NAME | "is" "not" NUMBER)*\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "\n'
    without, words = takes(rules), takes("%word /[a-z0-9]/ NUMBER\n" + rules)
    for text in ("a in b", "a is not 1", "ain b", "a isnot 1", "a is not 12 in b"):
        assert words(text) == (text not in ("ain b", "a isnot 1")), text
    for text in ("a inb", "a is not1", "a is not 1in b"):
        assert without(text) and not words(text), text


def test_glued_rules() -> None:
    accepts = takes('start: "<" text ">"\ntext[glued]: /[a-z]+/\n%ignore " "')
    assert accepts("<ab >") and not accepts("< ab>")


# --- messages ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%indent 3\nstart: /a/", "what follows %indent: expected an object, found int - at line 1, column 1"),
        ('%indent {"tablen": 3}\nstart: /a/', "unknown option in %indent: expected one of NL_type"),
        ('%indent {"tab_len": 0}\nstart: /a/', "option tab_len: expected a number from 1 to 64, found 0 - at line 1"),
        ('%indent {"max_tabs": 65}\nstart: /a/', "option max_tabs: expected a number from 1 to 64, found 65 - at line 1"),
        (
            '%indent {"max_tabs": 2, "tab_len": 8}\nstart: /a/',
            "option max_tabs: expected no tab_len beside it, found tab_len 8",
        ),
        ('%indent {"max_width": 5000}\nstart: /a/', "option max_width: expected a number from 1 to 256"),
        ('%indent {"NL_type": 3}\nstart: /a/', "option NL_type: expected the name of a terminal, found 3"),
        ('%indent {"NL_type": "X", "INDENT_type": "X"}\nstart: /a/', "%indent: expected three different names"),
        ('%indent {"OPEN_PAREN_types": "("}\nstart: /a/', "option OPEN_PAREN_types: expected a list of terminals"),
        ('%indent {"OPEN_PAREN_types": ["("], "CLOSE_PAREN_types": ["("]}\nstart: /a/', "expected each bracket once"),
        ('%indent {"comment": "C"}\nstart: /a/', "option comment of %indent: expected a terminal, found 'C'"),
        ('%indent {"comment": "C"}\nstart: "a" _NEWLINE\nC: /#/\n_NEWLINE: /\\n/', "expected comments as part of '_NEWLINE'"),
        ("%indent {}\n%indent {}\nstart: /a/", "%indent is written twice: found another one in line 1 - at line 2"),
        ("%indent {}\nstart: x\nx: _INDENT /a/", "the rule 'x': a block begins that does not end: expected the terminals"),
        ("%indent {}\nstart: x\nx: /a/ _DEDENT", "the rule 'x': a block ends that has not begun"),
        ('%indent {}\nstart: x\nx: "(" /a/', "the rule 'x': brackets of %indent: expected those that belong together in one"),
        (
            '%indent {}\nstart: x\nx: /a/ ")"',
            'expected those that belong together in one sequence, found ")" that closes nothing',
        ),
        ('%indent {}\nstart: "(" _NEWLINE _INDENT /a/ _NEWLINE _DEDENT ")"', "the rule 'start': an indented block between"),
        (
            "%indent {}\nstart: x\nx: _INDENT /a/ _NEWLINE _DEDENT",
            "the rule 'start': no text has its lines and blocks: expected",
        ),
        ("%indent {}\nstart: x::0\nx::_: /a/ _NEWLINE", "the rule 'x': a rule with a parameter where lines end or begin"),
        ('%indent {}\nstart: A\nA: "a" _INDENT', "'_INDENT' of %indent inside a terminal: expected it in rules only"),
        (
            '%indent {}\nstart: "a" _INDENT\n_INDENT: /b/',
            "'_INDENT' of %indent has a definition: expected a name that stands for",
        ),
        ("%word /a*/\nstart: /a/", "%word: expected the characters of words"),
        ("%word /a/\n%word /b/\nstart: /a/", "%word is written twice"),
        ("%word /a/ B\nstart: /a/", "no terminal 'B'"),
    ],
)
def test_messages(text: str, message: str) -> None:
    with pytest.raises(cd.GrammarError) as caught:
        cd.Lark(text).to_ir(Limits())
    assert message in str(caught.value), str(caught.value)


_BLOCKS = """start: line+
line: "a" _NEWLINE | "b" ":" _NEWLINE _INDENT line+ _DEDENT{more}
%indent {{"NL_type": "_NEWLINE", "max_width": {width}, "tab_len": 8}}
"""


@pytest.mark.parametrize(
    ("text", "is_looked_at"),
    [
        (_BLOCKS.format(more="", width=96), False),
        (
            _BLOCKS.format(more=' | "c" counted::0 _NEWLINE\ncounted::_: "x" | counted::incr(_) "y" %if lt(_, 9)', width=96),
            True,
        ),
        (_BLOCKS.format(more="".join(f' | "c{i}:" _NEWLINE _INDENT line+ _DEDENT' for i in range(4)), width=256), True),
    ],
    ids=["widths", "other parameters", "many blocks"],
)
def test_where_widths_are_few_corners_are_not_looked_at(text: str, is_looked_at: bool) -> None:
    """Nothing is refused that would not be refused if they were; they are no more than is said."""
    asked: list[int] = []
    closure = corners._closure

    def counted(*args: Any, **named: Any) -> list[Any]:
        found = closure(*args, **named)
        asked.append(len(found))
        return found

    with patch.object(corners, "_closure", counted):
        cd.Lark(text).to_ir(Limits(), GrammarIR())
        assert bool(asked) == is_looked_at
        with patch.object(compile_module, "have_few_corners", lambda *_: False):
            cd.Lark(text).to_ir(Limits(), GrammarIR())
    assert 0 < max(asked) <= corners.MOST_CORNERS


def test_parts_that_may_end_lines_double_nothing() -> None:
    spec = "%indent {}\nstart: " + "x " * 16 + '\nx: "a" | "a" _NEWLINE\n'
    assert len(cd.Lark(spec).to_ir(Limits()).rules) < 100
    taken = takes(spec)
    rng = random.Random(16)
    for count in (15, 16, 16, 16, 16, 17):
        assert taken("".join("a" + rng.choice(["", "\n"]) for _ in range(count))) == (count == 16)
    assert taken("a" * 16) and taken("a\n" * 16)


def test_cut_productions_match_the_same() -> None:
    spec = """
        %indent {"max_width": 4}
        start: x y x "(" x z ")" y x _INDENT x y x _DEDENT x y
        x: "a" | "a" _NEWLINE
        y: x? | "b"
        z: "c"? "a"
    """
    with patch.object(indent, "_MOST_UNSURE", 100):
        whole = takes(spec)
    with patch.object(indent, "_MOST_UNSURE", 1):
        cut = takes(spec)
    rng = random.Random(7)
    found = 0
    for _ in range(cases(3000, 600, 600)):
        ends = [rng.choice(["", "\n", "\n"]) for _ in range(4)]
        ys = [rng.choice(["", "b", "a", "a\n"]) for _ in range(4)]
        width = rng.choice([" ", "  "])
        text = f"a{ends[0]}{ys[0]}a{ends[1]}(aca){ys[1]}a\n{width}a{ends[2]}{ys[2]}a\na{ends[3]}{ys[3]}"
        if rng.random() < 0.3:
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(["", "a", "\n", " ", "b"]) + text[at + 1 :]
        assert whole(text) == cut(text), text
        found += whole(text)
    assert found > 50
