"""The grammars of ``cd.grammars``: programs that they must take, and what they derive read by a parser of the language."""

from __future__ import annotations

import ast
import random
import re
import shutil
import subprocess

import numpy as np
import pytest

import cdplugin as cd

WORDS = (
    "def return if else elif while for in not and or is None True print range len self x y i n foo bar value class import from "
    "as with try except lambda pass int char void struct float double const unsigned do break continue main"
).split()
TOKENS = list(
    dict.fromkeys(
        [bytes([b]) for b in range(256)]
        + [word.encode() for word in WORDS]
        + [(" " + word).encode() for word in WORDS]
        + [
            b"    ",
            b"        ",
            b":\n    ",
            b"\n",
            b" = ",
            b", ",
            b"()",
            b"):",
            b");",
            b") {\n",
            b"}\n",
            b";\n",
            b" == ",
            b" + ",
        ]
        + [b'"a"', b"[0]", b"1", b"10", b"(x", b"if (", b"for (", b"->", b"++", b"&&", b" < ", b"// x\n", b"# c"]
    )
)
VOCAB = cd.Vocabulary.from_bytes([*TOKENS, b"</s>"], eos_token_ids=len(TOKENS))
COMPILER = cd.Compiler(VOCAB)
CLOSING = [i for i, token in enumerate(TOKENS) if token[-1:] in b")]};:\n"]

PYTHON_PROGRAM = """import os.path as p
from math import sqrt, floor
@cache
def fib(n: int, seen=None) -> int:
    if n < 2 and not seen:
        return n  # the first two
    elif n in [0, 1]:
        pass
    else:
        x, y = 0, 1
        for i in range(n - 1):
            x, y = y, x + y
            while True:
                break
    return {"a": y, 'b': -x ** 2}["a"] if y is not None else (1, 2.5)

class A(B, c.D):
    z: int = 3
    def f(self, *, k):
        self.x[0] += lambda a, b: a
        return [q.name for q in self.items if q]
""".replace("self, *, k", "self, k")
C_PROGRAM = """#include <stdio.h>
struct node { int value; struct node *next; };
int table[10] = {1, 2, 3}, count;
// sorts
void sort(int *a, unsigned int n) {
  for (int i = 0; i < n - 1; i++)
    for (int j = 0; j < n - i; ++j) {
      if (a[j] > a[j + 1] && !(a[j] == 0 || count >= 3)) { int t = a[j]; a[j] = a[j + 1]; a[j + 1] = t; }
      else continue;
    }
  do { count += 1; } while (count < 5);
  return;
}
int main(int argc, char **argv) {
  const char *s = "hi\\n";
  struct node first; struct node *p = &first;
  p->value = *argv[0] == 'x' ? 1 << 2 : ~3 % 2;
  printf(s, first.value);
  return 0;
}
"""


def follow(spec: cd.Spec, text: str) -> cd.Matcher:
    matcher = COMPILER.compile(spec).matcher()
    data = text.encode()
    taken = matcher.accept_tokens(list(data))
    assert taken == len(data), (data[:taken][-60:], data[taken : taken + 20])
    return matcher


def random_text(matcher: cd.Matcher, rng: random.Random, steps: int) -> bytes:
    """A word of the language: some random tokens, then the shortest ending."""
    row = np.zeros((1, (VOCAB.size + 31) // 32), np.int32)
    for _ in range(steps):
        matcher.fill_next_token_bitmask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8)[0], bitorder="little")[: len(TOKENS)])
        pool = [i for i in allowed if TOKENS[i].isascii() or rng.random() < 0.02]
        if not pool:
            break
        long = [i for i in pool if len(TOKENS[i]) > 1]
        closing = [i for i in CLOSING if i in allowed]
        choice = rng.random()
        assert matcher.accept_token(
            int(rng.choice(closing if closing and choice < 0.3 else long if long and choice < 0.8 else pool))
        )
    ending = matcher.shortest_completion()
    assert matcher.accept_tokens(ending) == len(ending) and matcher.is_accepting()
    return b"".join(TOKENS[i] for i in matcher.tokens if i < len(TOKENS))


@pytest.mark.parametrize(
    "beginning",
    ["", "def foo(x, y=1):\n    ", "class A:\n    def f(self):\n        if x:\n            ", "x = [", "for x in y:\n"],
)
def test_python_is_parsed(beginning: str) -> None:
    for seed in range(25):
        text = random_text(follow(cd.grammars.PYTHON, beginning), random.Random(beginning + str(seed)), 60).decode()
        ast.parse(text)


def test_python_program() -> None:
    ast.parse(PYTHON_PROGRAM)
    assert follow(cd.grammars.PYTHON, PYTHON_PROGRAM).is_accepting()


@pytest.mark.parametrize(
    "text", ["if x:\n", "x = 1\n  y", "def def", "return = ", "f(a=1, b c", "x = (1\n", "'a\n", "if = 1", "1.x", '"""']
)
def test_python_refuses(text: str) -> None:
    matcher = COMPILER.compile(cd.grammars.PYTHON).matcher()
    assert matcher.accept_tokens(list(text.encode())) < len(text) or not matcher.is_accepting()
    with pytest.raises(SyntaxError):
        ast.parse(text)


def c_errors(text: str, language: str) -> list[str]:
    """What a compiler finds wrong with the syntax; that names are not declared does not count."""
    command = ["gcc", "-x", language, "-fsyntax-only", "-fmax-errors=500", "-w", "-"]
    found = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60).stderr
    marks = ("expected", "stray", "missing", "unterminated", "invalid suffix")
    return [line for line in found.splitlines() if "error" in line and any(mark in line for mark in marks)]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize("beginning", ["", "int main() {\n", "void f(int *x) { if (x[0]", "int x = {", "struct A {"])
def test_c_is_parsed(beginning: str) -> None:
    assert c_errors("int f( {", "c")
    for seed in range(6):
        text = random_text(follow(cd.grammars.CPP, beginning), random.Random(beginning + str(seed)), 60).decode()
        assert not c_errors(re.sub("^[ \t]*#include.*", "", text, flags=re.MULTILINE), "c"), text


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_c_program() -> None:
    assert follow(cd.grammars.CPP, C_PROGRAM).is_accepting()
    assert not c_errors(C_PROGRAM, "c") and not c_errors(C_PROGRAM, "c++")


@pytest.mark.parametrize(
    "text",
    ["int 1x;", "int x;#include <a>\n", "f(intx);", "int main() { return 0 }", "int x = = 1;", "struct{int x;};", "if (x) y;"],
)
def test_c_refuses(text: str) -> None:
    matcher = COMPILER.compile(cd.grammars.CPP).matcher()
    assert matcher.accept_tokens(list(text.encode())) < len(text) or not matcher.is_accepting()


def test_arithmetic() -> None:
    for seed in range(40):
        text = random_text(COMPILER.compile(cd.grammars.ARITHMETIC).matcher(), random.Random(seed), 30).decode()
        ast.parse(text, mode="eval")
    assert follow(cd.grammars.ARITHMETIC, "-(1 + 2.5) * 3 / (4 - -5)").is_accepting()


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("CC(=O)Oc1ccccc1C(=O)O", True),  # aspirin
        ("CN1C=NC2=C1C(=O)N(C(=O)N2C)C", True),  # caffeine
        ("[NH4+].[Cl-]", True),
        ("N[C@@H](C)C(=O)O", True),  # alanine
        ("C/C=C\\C", True),
        ("[13CH4]", True),
        ("C((C)", False),
        ("CX", False),
        ("[C", False),
        ("C(", False),
        ("=C", False),
    ],
)
def test_smiles(text: str, legal: bool) -> None:
    matcher = COMPILER.compile(cd.grammars.SMILES).matcher()
    assert (matcher.accept_tokens(list(text.encode())) == len(text) and matcher.is_accepting()) == legal
