"""Texts that may be cut into lexemes in many ways: what ends at a node of the trie is noted once, however it is reached."""

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
