"""``cd.grammars.PYTHON`` beside CPython's own parser: programs, modules, broken programs, random texts."""

from __future__ import annotations

import ast
import itertools
import random
import re
import string
import sys
import sysconfig
import unicodedata
import warnings
from pathlib import Path

import numpy as np
import pytest
from engine_tools import SLOW
from grammar_tools import Walker
from shared_data import PYTHON_PROGRAMS, programs
from test_real_vocabulary import compare
from tokenizers_data import llama3

import cdplugin as cd
from cdplugin.grammars._python import CHARACTER_NAMES

WORDS = (
    "def return if else elif while for in not and or is None True print range len self x y i n foo bar value class import from "
    "as with try except lambda pass break continue async await match case _ global nonlocal del yield raise assert finally int"
).split()
SIGNS = [
    "    ",
    "        ",
    ":\n    ",
    "\n",
    " = ",
    ", ",
    "()",
    "):",
    " == ",
    " + ",
    '"a"',
    "[0]",
    "1",
    "10",
    "(x",
    " < ",
    "# c",
]
SIGNS += [
    'f"',
    "{x",
    "}",
    "'''",
    '"""',
    "*",
    "**",
    "->",
    ":=",
    "@",
    "...",
    "1.5",
    "\\\n ",
    "\n\n",
    "\n  ",
    "\n      ",
    "b'",
    "rf'",
]
SIGNS += ["!r", "+=", "0x", "1j", ";"]
WALKER = Walker(WORDS, SIGNS)
BEGINNINGS = [
    *("if x:\n\tif y:\n\t\t", "class A:\n\n\tdef f():\n\t\t# c\n", "if x: # c\n\n\t"),
    *("", "def foo(x, y=1):\n    ", "class A:\n    def f(self):\n        if x:\n            ", "x = [", "for x in y:\n", "f'"),
    *("match x:\n  case ", 'f"{x:', "with ", "try:\n  pass\n", "def f(a, ", "lambda ", "print(", "x = {", "@a\n", "from . "),
    *("f'''{", "del ", "x = (yield", 'case = rf"\\', "async def f():\n\n   # c\n  async ", "if x: a\nelse"),
]


def takes(text: str) -> bool:
    return WALKER.takes(cd.grammars.PYTHON, text)


def parses(text: str) -> bool:
    """Whether CPython's parser accepts a text, apart from its warnings about escapes and numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return False
    return True


def legal_programs() -> list[str]:
    texts = programs(PYTHON_PROGRAMS)
    legal = [text for text in texts if parses(text)]
    assert len(texts) - len(legal) <= 1  # a docstring has lost two of its quotes
    return legal


def modules(longest: int, step: int = 1) -> list[str]:
    """Modules of the standard library of at most so many lines that this Python takes."""
    out = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("**/*.py"))[::step]:
        if "site-packages" not in path.parts:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if 10 <= text.count("\n") <= longest and parses(text):
                out.append(text)
    return out


# --- what it takes ---

LEGAL = r'''
"""A module.

    Its docstring."""
from __future__ import annotations
from .a.b import (c as d, e,)
from ... import f
from .g import *
import os.path as p, sys

@decorator(1, *a, k=2, **b)
@x[0].y
class A(B, metaclass=C, *d):

    z: int = 3; w: "str"

    def f(self, a, b=1, /, c=2, *args: int, d, e=3, **kwargs: str) -> dict[str, tuple[int, ...]]:
        "One line."
        nonlocal_ = lambda x, /, y=1, *, z: (x, y)
        global g, h
        return a if b else not c

    async def g(self, *, k) -> None:
        async with a as b, c() as (d, e): await f(x for x in y)
        async for i, *j in k: yield i
        else:
            [await q async for q in r if q if not r]
        with (open(a) as b, c,): pass

	# a comment anywhere
  # and blank lines with any white space
␣␣␣␣
    def h(self): return
def first(): pass
x = y, *z = 1_000, 0xFF, 0b1, 0o17, 1.5e-3, .5, 1., 2j, ...
a[1:2, ::3, b:=4, *c] = -x ** -y // ~z @ m
a.b += (yield)
(a) = (b, [c, *d], (), []) = e
(a.b): int
x: (yield) = 5
print("a" 'b' u"c" r'\d' """d
e""" if 1 < x <= y != z is not None not in q else b"\x00" rb'\x')
del a, (b, [c.d]), e[0],
assert x, "y"
raise A(b) from None
{**a, 'b': c, **d}; {*a, b}; {a: b for c in d}; {a for b, in c}; (a for b in c); ()
while (n := f(n)) > 0:
 if a: break
 elif b:
         continue
 else: pass
else:
    pass
try:
    a
except A as b: b
except (C, D):
    c
except:
    d
else: e
finally: f
try: a
except* E as g: h
for x, in y: pass
if x and \
      y or (  # comment
   z
):
    pass
match x:
    case 0 | -1 | 1.5 + 2j | "a" "b" | None if y: pass
    case [a, *_, (b | c) as d] | (e, *f): pass
    case {"k": v, A.B: _, -1: [*x], **rest}: pass
    case A.B(c, d=[1, 2], e=_) | F(): pass
    case match, case, _: pass
    case _:
        match[x]; case(y); match = type = 1
        match -x:␣
          case a, *b: pass
f"a{x}{y!r:>{w}}{{}}{z = :.2f}" f'{a["b"] + c(d, e=1)[2:3]}' rf"\d{x:%Y-%m}" F"""{x}
"{'q' if a else (lambda: 1)}" {*a, b}"""
f"{', '.join(f'{a!r:>{b}}, {{}}' for a in b)}" f'{f"{x}"}' f"{rf'{x}' + fr'a'}" f"""{d['a']}{e["a'' b"]}{
  f'{x}' if a else f"{y, [z]}" }""" f"""{a["b''"]}{
b }{f'{1}{x=}' + "c"}"""
if x: y = 1; z = 2;
def é(): pass
x = [
  1, # one

    2,
]; y = (
)
if 1:
    if 2:
       x
    elif 3:
     y
class T:

	def f(self):
		"""Tabs,
	and a text."""
		while x:
				return (1,
  2)
    # a comment
		x = 1
	y = 2
'''.replace("␣", " ").lstrip("\n")


def test_everything_at_once() -> None:
    assert sys.version_info < (3, 11) or parses(LEGAL)
    assert takes(LEGAL) and takes(LEGAL.replace("\n", "\r\n")) and takes(LEGAL.rstrip("\n"))


def test_humaneval() -> None:
    assert all(takes(text) for text in legal_programs())


@pytest.mark.skipif(SLOW, reason="real vocabularies are too large for interpreted or checked kernels")
def test_humaneval_token_by_token() -> None:
    vocab = cd.Vocabulary.from_tiktoken(llama3())
    assert vocab.encode is not None
    grammar = cd.Compiler(vocab).compile(cd.grammars.PYTHON)
    row = np.zeros((1, (vocab.size + 31) // 32), np.int32)
    for text in legal_programs()[::6]:
        matcher = grammar.matcher()
        for token in vocab.encode(text):
            matcher.fill_next_token_bitmask(row)
            assert row[0, token >> 5] >> (token & 31) & 1 and matcher.accept_token(token), text
        assert matcher.is_accepting()


def test_prefixes_of_programs() -> None:
    """The grammar calls just those complete that CPython takes."""
    grammar = WALKER.compiler.compile(cd.grammars.PYTHON)
    for text in legal_programs()[::12]:
        matcher = grammar.matcher()
        data = text.encode()
        for at, byte in enumerate(data):
            assert matcher.accept_token(byte)
            assert matcher.is_accepting() == parses(data[: at + 1].decode(errors="surrogateescape")), data[: at + 1]


@pytest.mark.parametrize("step", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_standard_library(step: int) -> None:
    """Refused: other names of characters, and a backslash before a line that begins at its left edge where none is expected."""
    texts = modules(400, step)
    refused = [text for text in texts if not takes(text)]
    assert len(texts) >= 800 // step and len(refused) <= 0.01 * len(texts) + 1
    assert all("\\N{" in text or "\\\n" in text or not text.isascii() for text in refused)


JOINED = [
    "x = \\\n'a'",
    'x = \\\r\n"""a\nb""" % y',
    "x += 1 + \\\n-y and \\\nz == \\\n \\\nw",
    "x = 'a' \\\n'b' \\\n  'c' \\\nf'{d}'",
    "def f():\n  return \\\ng or \\\n(h)\n",
    "x = [1 + \\\n2]",
]


@pytest.mark.parametrize("text", JOINED)
def test_lines_that_go_on_at_the_left_edge(text: str) -> None:
    """A backslash there neither ends the text nor begins it."""
    assert parses(text) and takes(text)
    for end in range(len(text)):
        assert takes(text[:end]) <= parses(text[:end]), text[:end]


def test_names_of_characters() -> None:
    names = [
        "".join(parts)
        for form in re.split(r"\|(?![^()]*\))", CHARACTER_NAMES)
        for parts in itertools.product(*(choices(part) for part in re.findall(r"\([^)]*\)|\[[^]]*\]|[^([]+", form)))
    ]
    assert len(names) == len(set(names)) > 100 and all(re.fullmatch(CHARACTER_NAMES, name) for name in names)
    for name in names:
        unicodedata.lookup(name)
    text = "x = " + " ".join(f"'\\N{{{name}}}'" for name in names) + " f'\\N{BULLET}{x}'\ny = rb'\\N' b'\\N'"
    assert parses(text) and takes(text)
    for wrong in ("'\\N{BULLETS}'", "'\\N{}'", "'\\N'", "f'\\N{x}'", "'\\N{BULLET'"):
        assert not takes(wrong) and not parses(wrong)


def choices(part: str) -> list[str]:
    """The texts that a group, a class of letters or plain text stands for."""
    if part == "[A-Z]":
        return [*string.ascii_uppercase]
    return part[1:-1].split("|") if part[0] == "(" else [*part[1:-1]] if part[0] == "[" else [part]


# --- what it refuses ---

ILLEGAL = [
    *(
        "if x:\n",
        "if x:\npass",
        "x = 1\n  y",
        "  x",
        "\n x",
        "if x:\n  a\n b",
        "if x:\n    a\n  b\n",
        "if x:\n  if y:\n    a\n   b",
        "if x:\n\ta\n        b",
        "if x:\n        a\n\tb",
        "if x:\n\tif y:\n\t\ta\n\t b",
        "\tx",
    ),
    *(
        "if x:\n  a\n    b",
        "def f():\n# c\n",
        "class A:\n\n\nx",
        "else: x",
        "if x: if y: z",
        "if x: a\n  b",
        "for x in y: a; for",
    ),
    *(
        "def def",
        "return = ",
        "f(a=1, b c",
        "x = (1\n",
        "'a\n",
        "if = 1",
        "1.x",
        '"""',
        "(]",
        "x)",
        "{1: 2, 3}",
        "{**a, 1}",
        "a b",
    ),
    *(
        "f(a=1, b)",
        "f(**a, *b)",
        "f(x for x in y, z)",
        "f(1=2)",
        "def f(a=1, b): x",
        "def f(*): x",
        "def f(*, **k): x",
        "f() = 1",
    ),
    *(
        "def f(a, /, b, /): x",
        "def f(**k, a): x",
        "lambda *: x",
        "x + 1 = 2",
        "[a, b()] = c",
        "del f()",
        "del *a",
        "x: int = y = z",
    ),
    *(
        "(a, b) += 1",
        "a, b: int",
        "*a += 1",
        "(*a) = 1",
        "x = *",
        "a := 1",
        "x = a := 1",
        "f(a.b := 1)",
        "(*a)",
        "[*a for a in b]",
    ),
    *("{**a for a in b}", "not", "a not b", "a is is b", "a andb", "aand b", "x if y elsez", "x if yelse z", "for x iny: z"),
    *("from x importy", "from a import b as", "import a.b.", "from . import (a, b", "from x import *, y", "import a as b.c"),
    *("with x as y() : z", "try: x", "try: x\nelse: y", "try: x\nexcept: y\nexcept* z: a", "except x: y", "@x", "@x\ny = 1"),
    *(
        "match x:\n  pass",
        "match x:\n  case a.b() as c.d: pass",
        "match x:\n  case {**a, 'b': c}: pass",
    ),
    *("match x:\n  case a as _: pass", "match x:\n  case 1 + 2: pass", "match x:\n  case _.b: pass", "match x:\ncase a: pass"),
    *("x = 01", "x = 1__0", "x = 0x", "x = 1_", "x = 1e", "x = 0b2", "x = 1as y", "'\\x1'", "'\\u12'", "'\\U00110000'", "b'é'"),
    *(
        "f'{'",
        "f'{}'",
        "f'}'",
        "f'{x!z}'",
        "f'{x!r }'",
        "f'{lambda x: 1}'",
        "f'{x y}'",
        "f'{a b:c}'",
        "f'{x:{y:{z}}}'",
        "'a' b'c'",
    ),
    *(
        "f'{'a'}'",
        "f'{x\n}'",
        'f"{a["b"]}"',
        "f'{a\\\n}'",
        "f'''{x''' }'''",
        "f'{f'{1}'}'",
        "f'{f\"{'a'}\"}'",
        'f"{f\'{x["a"]}\'}"',
        "f'''{a[\"b'''\"]}'''",
        "f'''{f'{\n1}'}'''",
        "f'{*x}'",
        "x \\ \ny",
        "x = 1 \\\n",
        "a = $b",
        "a ? b",
        "\x00",
    ),
    *(
        "async x",
        "async def",
        "await",
        "x = await",
        "yield = 1",
        "print x",
        "a = yield from",
        "raise a from",
        "global x.y",
        "import *",
    ),
]


@pytest.mark.parametrize("text", ILLEGAL)
def test_illegal(text: str) -> None:
    assert not takes(text)
    assert not parses(text) or sys.version_info >= (3, 12)


BRACKETS = "()[]{}"
PIECES = ["if", "else", "for", "in", "not", "and", "or", "is", "lambda", "None", "def", "class", "return", "yield", "await"]
PIECES += ["async", "import", "from", "as", "with", "try", "except", "finally", "match", "case", "_", "raise", "pass", "del"]
PIECES += [*":,()[]{}=.;'\"\\\n#1x", "==", ":=", "->", "*", "**", "@", "...", "f'", "{x}", "+=", "/", "//"]


def mutated(text: str, rng: random.Random) -> str:
    """A program with one thing changed, most often its indentation, a colon or a bracket."""
    lines = text.split("\n")
    line, at, how = rng.randrange(len(lines)), rng.randrange(len(text)), rng.randrange(11)
    if how == 0:
        lines[line] = " " * rng.randint(1, 4) + lines[line]
    elif how == 1 and lines[line].startswith(" "):
        lines[line] = lines[line][rng.choice([1, 2, 4]) :]
    elif how == 2:
        lines[line] = lines[line].replace(":", "", 1)
    elif how == 3:
        found = [i for i, char in enumerate(text) if char in BRACKETS] or [at]
        at = rng.choice(found)
        return text[:at] + text[at + 1 :]
    elif how == 4:
        return text[:at] + rng.choice(BRACKETS) + text[at:]
    elif how == 5:
        del lines[line]
    elif how == 6:
        lines.insert(line, lines[rng.randrange(len(lines))])
    elif how == 7:
        return text[:at] + text[at + 1 :]
    elif how == 8:
        return text[:at] + rng.choice(["", " "]) + rng.choice(PIECES) + rng.choice(["", " "]) + text[at:]
    elif how == 9:
        return text[:at]
    else:
        lines[line] = lines[line].rstrip() + rng.choice([" ", "\t", " # c", "\\", ";", "\x0c"])
    return "\n".join(lines)


@pytest.mark.parametrize("count", [1500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_mutants(count: int) -> None:
    """What CPython refuses is refused. What it accepts is accepted, except for what docs/languages.md says is left out."""
    if sys.version_info >= (3, 12):
        pytest.skip("from CPython 3.12 on, ast.parse takes f-strings that 3.11, and so the grammar, refuses")
    texts = legal_programs()
    counts = {(a, b): 0 for a in (True, False) for b in (True, False)}
    for seed in range(count):
        rng = random.Random(f"{count} {seed}")
        text = mutated(rng.choice(texts), rng)
        legal, taken = parses(text), takes(text)
        counts[legal, taken] += 1
        assert legal or not taken, text
    assert counts[True, True] > count // 5 and counts[False, False] > count // 5
    assert counts[True, False] < count // 200


# --- what it makes ---


@pytest.mark.parametrize("count", [110, pytest.param(2_000, marks=pytest.mark.slow)])
def test_walks(count: int) -> None:
    for text in WALKER.walks(cd.grammars.PYTHON, BEGINNINGS, count):
        assert parses(text), text


def test_deep_walk() -> None:
    """Thirty blocks inside each other, of widths that differ, and out again to each of them."""
    rng = random.Random(30)
    widths = [0]
    text = ""
    for _ in range(30):
        text += " " * widths[-1] + rng.choice(["if x:\n", "while x:  # c\n\n", "def f(x):\n", "for x in y:\n"])
        widths.append(widths[-1] + rng.randint(1, 3))
    for width in reversed(widths):
        text += " " * width + "x = (1,\n 2)\n"
    matcher = WALKER.follow(cd.grammars.PYTHON, text)
    assert matcher.is_accepting() and parses(text)
    again = WALKER.walk(WALKER.follow(cd.grammars.PYTHON, text[: text.index("x = (1")]), rng, 60)
    assert parses(again), again


@pytest.mark.slow
@pytest.mark.parametrize("grammar", [cd.grammars.python(max_width=8), cd.grammars.PYTHON], ids=["8 columns", "96 columns"])
def test_infilling(grammar: cd.Lark) -> None:
    """A filling of several lines is legal."""
    infill = cd.Infill(WALKER.compiler.compile(grammar))
    gap = cd.GAP
    for parts in (
        ["def f(x):\n  if x:\n", gap, "\n    return y\n  return x"],
        ["def f(x):\n", gap, " = y\n  return x"],
        ["def f(x):\n  while x", gap, "x = 1\n  return x"],
        ["if x:\n   a\n", gap, "\n b"],
    ):
        session = infill.new(parts)
        assert session.completable(), parts
        text = session.complete()
        assert parses(text) and text.startswith(parts[0]) and text.endswith(parts[2]), text
        assert WALKER.takes(cd.grammars.PYTHON, text)


@pytest.mark.slow
@pytest.mark.skipif(SLOW, reason="128,256 tokens at each place are too many for interpreted or checked kernels")
def test_masks_of_a_real_vocabulary() -> None:
    """The whole mask equals stepping every one of 128,256 tokens byte by byte."""
    vocab = cd.Vocabulary.from_tiktoken(llama3())
    assert vocab.encode is not None
    matcher = cd.Compiler(vocab).compile(cd.grammars.PYTHON).matcher()
    text = 'def f(a, b=(1,\n   2)):\n    """A\n  b"""\n    if a: # c\n\n          return f"x{a!r}" if b else [\n 1]\n    x'
    for token in vocab.encode(text):
        compare(matcher)
        assert matcher.accept_token(token)
    compare(matcher)
    assert matcher.is_accepting()
