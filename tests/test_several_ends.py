"""Texts that may be cut into lexemes in many ways: the end at a node of the trie is noted once, however it is reached."""

from __future__ import annotations

from itertools import product

import pytest
from engine_tools import mask

import cdplugin as cd

VOCAB = cd.Vocabulary.from_bytes(
    [b"<end>", *(bytes(text) for size in range(1, 9) for text in product(b"ab", repeat=size))], eos_token_ids=0
)
ANY = [{"type": "any_text"}]


def first_mask(n: int) -> tuple[set[int], int]:
    """The first mask of ``n`` free texts in a row, and how many nodes were walked for it."""
    tag = cd.StructuralTag({"type": "structural_tag", "format": {"type": "sequence", "elements": ANY * n}})
    matcher = cd.Compiler(VOCAB).compile(tag).matcher()
    return mask(matcher), matcher.grammar.counters()["nodes_walked"]


@pytest.mark.parametrize("n", [2, 5, 12])
def test_free_texts_in_a_row(n: int) -> None:
    """A token of eight characters is cut into five texts in 495 ways."""
    found, walked = first_mask(n)
    assert found == set(range(VOCAB.size))
    assert walked < 10 * n * VOCAB.size


def test_ends_below_which_nothing_leads_on() -> None:
    """Runs of spaces, below each of which a letter comes, and below one the brace: only that one is walked further."""
    runs = [b" " * n for n in range(1, 81)]
    tokens = [b"<end>", b"{", b"a", b" " * 7 + b"{", *runs, *(run + b"a" for run in runs)]
    matcher = cd.Compiler(cd.Vocabulary.from_bytes(tokens, eos_token_ids=0)).compile(cd.Lark('start: S "{"\nS: / +/')).matcher()
    assert mask(matcher) == {3, *range(4, 84)}
    assert matcher.grammar.counters()["nodes_walked"] < 2 * len(runs) + 20
