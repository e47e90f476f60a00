"""Short endings of 28 Lark grammars: llguidance accepts them, and lets the text stop after them."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from lark_cases import CASES

sys.path.insert(0, str(Path(__file__).parent))
from test_lark_peers import engines, peer_of, tokens_of

import cdplugin as cd


@pytest.mark.parametrize("name", CASES)
def test_endings_beside_llguidance(name: str) -> None:
    grammar, texts = CASES[name][:2]
    rng = random.Random(name)
    _, compiler = engines()
    matcher = compiler.compile(cd.Lark(grammar)).matcher()
    for text in texts:
        given = list(tokens_of(text, rng))
        for cut in (0, rng.randint(0, len(given)), rng.randint(0, len(given))):
            matcher.reset()
            count = matcher.accept_tokens(given[:cut])
            ending = matcher.shortest_completion()
            peer = peer_of(grammar)
            taken = [*given[:count], *ending]
            assert not taken or peer.consume_tokens(taken), (given[:count], ending)
            assert peer.is_accepting(), (given[:count], ending)
