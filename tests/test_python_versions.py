"""``cd.grammars.python(version=…)`` beside the parsers of CPython 3.12 and 3.13, where these are installed."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_python_grammar import BEGINNINGS, LEGAL, WALKER, mutated

import cdplugin as cd

VERSIONS = ("3.12", "3.13")
PARSE = """
import ast, json, sys, warnings
def parses(text):
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True
warnings.simplefilter("ignore")
print(json.dumps([parses(text) for text in json.load(sys.stdin)]))
"""


@functools.lru_cache(maxsize=2)
def interpreter(version: str) -> str | None:
    """A CPython of this version: this one, one on the path, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found = [sys.executable, shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    for path in filter(None, found):
        asked = subprocess.run([path, "-V"], capture_output=True, text=True)
        if asked.stdout.startswith(f"Python {version}."):
            return path
    return None


def judge(version: str, texts: list[str]) -> list[bool]:
    """Whether CPython of a version parses each text. Skips the test where there is none."""
    path = interpreter(version)
    if path is None:
        pytest.skip(f"no CPython {version} on this machine")
    done = subprocess.run([path, "-c", PARSE], input=json.dumps(texts), capture_output=True, text=True, check=True)
    verdicts: list[bool] = json.loads(done.stdout)
    return verdicts


def takes(version: str, text: str) -> bool:
    return WALKER.takes(cd.grammars.python(version=version), text)


NEW = [
    "def first[T](items: list[T]) -> T: return items[0]",
    "def f[T: (int, str), *Ts, **P,](x: T, *args: *Ts) -> None: pass",
    "async def f[T: int](x: T):\n  type Y = list[T]; return x",
    "class Stack[T](Base[T]):\n  def push(self, item: T) -> None: ...",
    "type Point[T] = tuple[T, T]",
    "type type = type",
    "type X = (yield)",
    'f"{names["first"]}"',
    'f"{"\\n".join(lines)} {"a" \'b\'}"',
    'f"{x  # what it is\n}"',
    "f\"{\n  # first\n  x\n}\" 'c'",
    'f"{f"{f"{f"{1 + 1}"}"}"}"',
    'f"{f"{x!r:>{width}}"!s:^{n}} {y=}"',
    "f'''{'''a\nb'''}'''",
    'rf"\\d{f"{{}}" r"\\."}"',
    'f"{ {"a": 1}["a"] }{{}}"',
    'f"{b"a" b\'b\'}"',
    "f'{[f'{y}' for y in x if y != '#']}'",
]
"""What 3.12 and 3.13 take, and 3.11 refuses."""
DEFAULTS = ["type X[T = int, *Ts = *tuple[int], **P = [int]] = T", "def f[T: int = bool](): pass", "class A[T=int,]: pass"]
"""What only 3.13 takes."""
OLD = ["type = 3", "type(x)", "type.x, type[0] = 1, 2", "print(type)", "type: int = 3", "f'{x!r:{y}}' f\"{'a'}\""]
"""What all versions take."""
ILLEGAL = [
    "type X",
    "type X[T]",
    "type X[] = int",
    "type X.y = int",
    "type X = yield",
    "type X = a := b",
    "type X[T := int] = int",
    "type X[*Ts: int] = int",
    "def f[](): pass",
    "def f[T.x](): pass",
    "class A[T, T2 U]: pass",
    "lambda[T]: 3",
    'f"{x # }"',
    'f"{lambda x: 1}"',
    'f"{x ! r}"',
    'f"{a["b"}"',
    'f"{"a}"',
    'f"{x:\n}"\'',
    'f"{}"',
    'f"{# nothing\n}"',
    'f"}"',
    "f'{'a' b'b'}'",
    'f"a\n{x}"',
]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_new(version: str) -> None:
    legal = [*NEW, *OLD, *(DEFAULTS if version == "3.13" else ())]
    illegal = [*ILLEGAL, *(DEFAULTS if version == "3.12" else ())]
    assert takes(version, LEGAL)
    assert [text for text in legal if not takes(version, text)] == []
    assert [text for text in illegal if takes(version, text)] == []
    assert [text for text in NEW + DEFAULTS if takes("3.11", text)] == []
    assert all(takes("3.11", text) for text in OLD)
    assert judge(version, legal) == [True] * len(legal) and judge(version, illegal) == [False] * len(illegal)


@pytest.mark.parametrize("version", ["3.10", "3", "", None, 3.12, (3, 12)])
def test_other_versions(version: object) -> None:
    with pytest.raises(ValueError, match=r"version: expected one of '3.11', '3.12', '3.13', found"):
        cd.grammars.python(version=version)  # type: ignore[arg-type]


def test_widths() -> None:
    spec = cd.grammars.python(max_width=2, version="3.12")
    assert WALKER.takes(spec, "if x:\n  type X = int") and not WALKER.takes(spec, "if x:\n   type X = int")


BEGUN = ["type X[", "type X = ", "def f[T: ", "class A[*T"]
BEGUN += ['f"{', 'f"{x:', "f'''{a[\"", 'f"{f"{', 'f"{#', 'rf"{', 'f"{(lambda', 'f"{ {']


@pytest.mark.parametrize("count", [60, pytest.param(2_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", VERSIONS)
def test_walks(version: str, count: int) -> None:
    """Each version parses what the grammars of it and of the versions before it make."""
    judge(version, [])
    texts = WALKER.walks(cd.grammars.python(version=version), BEGUN + BEGINNINGS, count)
    for parser in VERSIONS[VERSIONS.index(version) :]:
        assert [text for text, legal in zip(texts, judge(parser, texts), strict=True) if not legal] == []


@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("version", VERSIONS)
def test_mutants(version: str, count: int) -> None:
    """What CPython refuses is refused; what it takes is taken, but for what docs/languages.md says is left out."""
    seeds = NEW + OLD + (DEFAULTS if version == "3.13" else [])
    signs = [*"{}\"'#:!=\\[],*\n", 'f"', "type ", '"""', "{{", "}}"]
    texts = []
    for number in range(count):
        rng = random.Random(f"{version} {number}")
        text = "\n".join(rng.choices(seeds, k=rng.randint(1, 2)))
        for _ in range(rng.randint(1, 2)):
            text = mutated(text, rng) or "x"
        if rng.random() < 0.5:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(signs) + text[at:]
        texts.append(text)
    refused = legal = 0
    for text, parses in zip(texts, judge(version, texts), strict=True):
        taken = takes(version, text)
        assert parses or not taken, text
        legal += parses
        refused += parses and not taken
    assert legal > count // 10 and refused < legal // 20 + 1
