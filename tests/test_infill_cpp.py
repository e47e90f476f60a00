"""C++ programs with one to three random cuts: all completable, and every completion accepted by the matcher.

``CDPLUGIN_INFILL_CUTS=500 pytest tests/test_infill_cpp.py`` tries as many as it says.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from engine_tools import ALL_BYTES, cases

import cdplugin as cd

CUTS = int(os.environ.get("CDPLUGIN_INFILL_CUTS", "0")) or cases(40, 2)

PROGRAMS = [
    """#include <vector>
int sum(int limit) {
    int total = 0; // so far
    for (int i = 0; i < limit; i++) {
        if (i > 0 && total < 100) {
            total += i * 2;
        }
    }
    return total;
}
""",
    """int fib(int n) {
    int a = 0, b = 1; // the first two
    while (n-- > 0) {
        int c = a + b;
        a = b;
        b = c; // next
    }
    return a; // done
}
""",
    """struct Point { int x; int y; };
double area(struct Point *p, int n) {
    double s = 0.5;
    do {
        s = s + p[n].x * p[n].y / 2 - -n;
    } while (n-- > 0);
    return s < 0 ? -s : s;
}
""",
    """const char *name = "a // b";
char c = 'x';
int main() {
    unsigned int flags = 0;
    flags |= 1 << 3;
    flags = flags & ~7;
    print(name, flags, "end\\n");
    return 0;
} // end of main
""",
    """#include <stdio.h>
#include <string.h>
int count(char *s, char wanted) {
    int found = 0;
    for (; *s; ++s)
        if (*s == wanted) found++;
        else if (!wanted) break;
    return found;
}
int main() { return count("hello", 'l') == 2 ? 0 : 1; }
""",
]


@pytest.fixture(scope="module")
def cpp() -> cd.Infill:
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
    return cd.Infill(cd.Compiler(vocab).compile(cd.grammars.CPP))


def cut(rng: random.Random, text: str) -> list[Any]:
    """The text with one to three spans cut out, anywhere: in words, strings, comments and between them."""
    cuts = sorted(rng.sample(range(len(text) + 1), 2 * rng.randint(1, 3)))
    pieces: list[Any] = []
    at = 0
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        pieces += [text[at:left], cd.GAP]
        at = right
    return [*pieces, text[at:]]


def test_random_cuts(cpp: cd.Infill) -> None:
    rng = random.Random(0)
    for i in range(CUTS):
        pieces = cut(rng, rng.choice(PROGRAMS))
        session = cpp.new(pieces)
        assert session.completable(), pieces
        text = session.complete(random.Random(i) if i % 4 == 0 else None)
        assert cpp.accepts(text.encode()), (pieces, text)


def test_the_rest_of_the_line_becomes_a_comment(cpp: cd.Infill) -> None:
    """`0;}` fits nowhere after a declaration's name, so it must be commented out."""
    session = cpp.new(["int m", cd.GAP, " 0;}\n    "])
    assert session.completable() and cpp.accepts(session.complete().encode())
