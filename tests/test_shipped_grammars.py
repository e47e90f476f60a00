"""The grammars of ``cd.grammars`` accept the programs that they must; a parser of the language reads what they derive."""

from __future__ import annotations

import ast
import random

import pytest
from grammar_tools import Walker

import cdplugin as cd

WALKER = Walker(
    (
        "def return if else elif while for in not and or is None True print range len self x y i n foo bar value class import "
        "from as with try except lambda pass break continue"
    ).split(),
    ["    ", "        ", ":\n    ", "\n", " = ", ", ", "()", "):", " == ", " + ", '"a"', "[0]", "1", "10", "(x", " < ", "# c"],
)
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


@pytest.mark.parametrize(
    "beginning",
    ["", "def foo(x, y=1):\n    ", "class A:\n    def f(self):\n        if x:\n            ", "x = [", "for x in y:\n"],
)
def test_python_is_parsed(beginning: str) -> None:
    for seed in range(25):
        text = WALKER.walk(WALKER.follow(cd.grammars.PYTHON, beginning), random.Random(beginning + str(seed)), 60)
        ast.parse(text)


def test_python_program() -> None:
    ast.parse(PYTHON_PROGRAM)
    assert WALKER.follow(cd.grammars.PYTHON, PYTHON_PROGRAM).is_accepting()


@pytest.mark.parametrize(
    "text", ["if x:\n", "x = 1\n  y", "def def", "return = ", "f(a=1, b c", "x = (1\n", "'a\n", "if = 1", "1.x", '"""']
)
def test_python_refuses(text: str) -> None:
    assert not WALKER.takes(cd.grammars.PYTHON, text)
    with pytest.raises(SyntaxError):
        ast.parse(text)


def test_arithmetic() -> None:
    for seed in range(40):
        text = WALKER.walk(WALKER.follow(cd.grammars.ARITHMETIC, ""), random.Random(seed), 30)
        ast.parse(text, mode="eval")
    assert WALKER.follow(cd.grammars.ARITHMETIC, "-(1 + 2.5) * 3 / (4 - -5)").is_accepting()


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("CC(=O)Oc1ccccc1C(=O)O", True),  # aspirin
        ("CN1C=NC2=C1C(=O)N(C(=O)N2C)C", True),  # caffeine
        ("[NH4+].[Cl-]", True),
        ("N[C@@H](C)C(=O)O", True),  # alanine
        ("C/C=C\\C", True),
        ("[13CH4]", True),
        ("[Zn++].[W--].[238U].[Ti+4]", True),
        ("F[Po@SP1](Cl)(Br)I.C[As@TB15](F)(Cl)(Br)S.[Rh]=[Og]", True),
        ("[CH3:1001][nH+]", True),
        ("[Xy]", False),
        ("[C+++]", False),
        ("[C@TH3]", False),
        ("C((C)", False),
        ("CX", False),
        ("[C", False),
        ("C(", False),
        ("=C", False),
    ],
)
def test_smiles(text: str, legal: bool) -> None:
    assert WALKER.takes(cd.grammars.SMILES, text) == legal


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("answer(smallest(state(all)))", True),
        ("answer(highest(place(loc_2(stateid('hawaii')))))", True),
        ("answer(loc_1(major(river(all))))", True),
        ("answer(intersection(state(next_to_2(stateid('texas'))), loc_1(major(river(all)))))", True),
        ("answer(count(exclude(river(all), traverse_2(state(loc_1(capital(cityid('albany', _))))))))", True),
        ("answer(population_1(cityid('washington','dc')))", True),
        ("answer(most(state(loc_1(major(city(all))))))", True),
        ("answer(largest_one(population_1(city(loc_2(stateid('ohio'))))))", True),
        ("answer(elevation_1(highest(mountain(loc_2(countryid('usa'))))))", True),
        ("answer(sum(area_1(state(all))))", True),
        ("answer(len(longest(river(traverse_2(stateid('utah'))))))", True),
        ("answer(high_point_1(state(next_to_2(stateid('mississippi')))))", True),
        ("answer(capital_1(stateid('new york')))", True),
        ("highest(place(loc_2(stateid('kansas'))))", False),
        ("answer(major(city(loc_2(countryid('xx')))))", False),
        ("answer(population_2(stateid('hawaii')))", False),
        ("answer(highest(place(loc_2())))", False),
        ("answer(longest(state(all)))", False),
        ("answer(stateid('bavaria'))", False),
        ("answer(intersection(state(next_to_2(stateid('texas'))), )", False),
    ],
)
def test_funql(text: str, legal: bool) -> None:
    assert WALKER.takes(cd.grammars.FUNQL, text) == legal


def test_funql_walks() -> None:
    """They read as nested calls of a known number of arguments, which Python's parser can tell."""
    for seed in range(40):
        text = WALKER.walk(WALKER.follow(cd.grammars.FUNQL, "answer("), random.Random(seed), 30)
        assert text.startswith("answer(") and text.count("(") == text.count(")") and text.endswith(")")
        ast.parse(text.replace("_)", "None)"), mode="eval")
