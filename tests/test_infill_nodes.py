"""The strict lattice with few nodes beside the one with all of them: both give the same answer for every text.

In a check, the lattice tells nodes apart only by what the text ahead lets begin, and merges nodes that are like a gap's
with it (:mod:`cdplugin.kernels.infill.ahead`, :mod:`cdplugin.kernels.infill.twins`). A session's answers would not show a
missing node, because the matcher searches for what the strict lattice misses. So these tests ask the lattices themselves.
Each text is the one before it with something changed.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from engine_tools import ALL_BYTES, cases
from exhaustive_infill import GAP, Element, Fillings
from test_infill_cpp import BROKEN, PROGRAMS, cut
from test_infill_skips import LARK, Case, shown

import cdplugin as cd
from cdplugin.infill.answers import Answers
from cdplugin.infill.parts import Part
from cdplugin.infill.tables import InfillGrammar
from cdplugin.kernels.infill import layout as ws

pytestmark = pytest.mark.kernel


class Lattices:
    """The strict lattices of a grammar: the one of checks, which goes on from the last text, and one with all nodes."""

    def __init__(self, tables: InfillGrammar) -> None:
        self._tables = tables
        self._answers = Answers(tables, False)
        self._whole = tables.workspace.with_same_rules()
        self._whole.header[ws.W_SPLIT] = tables.workspace.header[ws.W_SPLIT]
        self._whole.set(ws.STARTS, tables.workspace.tables[ws.STARTS])
        self._whole.header[ws.W_N_STARTS] = tables.workspace.header[ws.W_N_STARTS]
        self.nodes, self.all_nodes = 0, 0

    def answers(self, parts: list[Part]) -> tuple[int, int]:
        """Whether a text can be completed: as in a check, and by all nodes."""
        with self._tables:
            found = self._answers.build(parts)
            expected = self._answers.build(parts, self._whole, keep=False)
        self.nodes += int(self._tables.workspace.header[ws.W_NODES])
        self.all_nodes += int(self._whole.header[ws.W_NODES])
        return found, expected


def parts_of(elements: list[Element]) -> list[Part]:
    return [Part(gap=True) if element == GAP else Part(bytes([element])) for element in elements]  # type: ignore[list-item]


def changed(rng: random.Random, elements: list[Element], case: Case) -> list[Element]:
    """A text with a byte or a gap inserted, removed or replaced. Now and then the rest is another one."""
    out = list(elements)
    at = rng.randint(0, len(out))
    some: Element = GAP if rng.random() < 0.2 else rng.choice(case.alphabet)
    kind = rng.random()
    if kind < 0.4:
        out.insert(at, some)
    elif kind < 0.6:
        out[at : at + 1] = [some]
    elif kind < 0.8:
        del out[at : at + 1]
    else:
        out[at:] = [e for e in case.problem(rng) if isinstance(e, int) or e == GAP]
    return out[:16]


@pytest.mark.parametrize("seed", range(4))
def test_fewer_nodes_and_the_same_answer(seed: int) -> None:
    rng = random.Random(seed)
    n_cases, n_texts = cases(150, 3, 30), cases(40, 8)
    fewer = 0
    found = set()
    for _ in range(-(-n_cases // 4)):
        case = Case(rng)
        lattices = Lattices(case.infill._tables)
        elements: list[Element] = []
        for i in range(n_texts):
            elements = changed(rng, elements, case)
            answer, expected = lattices.answers(parts_of(elements))
            where = (case.name, shown(elements), case.rules)
            assert answer == expected, where
            if answer and i % 4 == 0:  # a yes is right
                with contextlib.suppress(cd.LimitExceeded):  # a random grammar that is too ambiguous for the matcher
                    assert Fillings(case.grammar, elements, {}, case.alphabet).answer is not False, where
            found.add(answer)
        fewer += lattices.nodes < lattices.all_nodes
    assert found == {0, 1}
    assert fewer or n_cases < 10  # where kernels are slow there is one random grammar for a seed


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("signs, no skip", ["a-a□", "a--a□", "a-a□"]),  # behind "a", "--" competes in the second text alone
        ("words", ["a □a", "a# □a", "a#\n□a"]),
    ],
)
def test_what_was_ahead_is_forgotten_with_the_text(name: str, texts: list[str]) -> None:
    tokens = [bytes([b]) for b in LARK[name][1]]
    vocab = cd.Vocabulary.from_bytes([*tokens, b"</s>"], eos_token_ids=len(tokens))
    lattices = Lattices(cd.Infill(cd.Compiler(vocab).compile(cd.Lark(LARK[name][0])))._tables)
    for text in texts:
        answer, expected = lattices.answers(parts_of([GAP if char == "□" else ord(char) for char in text]))
        assert answer == expected, text


def test_fewer_nodes_of_cpp() -> None:
    """Programs with one to three cuts, each with something broken in it then."""
    vocab = cd.Vocabulary.from_bytes([*ALL_BYTES, b"</s>"], eos_token_ids=256)
    infill = cd.Infill(cd.Compiler(vocab).compile(cd.grammars.CPP))
    lattices = Lattices(infill._tables)
    rng = random.Random(6)
    for _ in range(cases(60, 1, 12)):
        pieces: list[Any] = cut(rng, rng.choice(PROGRAMS))
        for _ in range(3):
            answer, expected = lattices.answers(infill.new(pieces)._parts)
            assert answer == expected, pieces
            where = rng.choice([k for k, piece in enumerate(pieces) if isinstance(piece, str)])
            at = rng.randint(0, len(pieces[where]))
            pieces[where] = pieces[where][:at] + rng.choice(BROKEN) + pieces[where][at:]
    assert lattices.nodes < 0.7 * lattices.all_nodes
