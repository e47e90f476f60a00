"""Bounded plain text with nothing computed yet: each token comes first once, then the mask is compared with brute force.

Where no transition is known, the lexer takes a token of plain characters at once (``kernels/lexer/plain_text.py``), and
slices decide the rest of a token (``kernels/masks/bases.py``). Bounds near the length of the longest token are where either
may be off by one.
"""

from __future__ import annotations

import pytest
from engine_tools import PLAIN, TEXT_TOKENS, describe, ir_of, mask, naive_mask, vocabulary
from naive import Naive

import cdplugin as cd
from cdplugin import expr

pytestmark = pytest.mark.kernel

VOCAB = vocabulary(TEXT_TOKENS)
LONGEST = max(len(token.decode(errors="ignore")) for token in TEXT_TOKENS)
"""Characters of the longest token."""


@pytest.mark.parametrize("high", [2, LONGEST])
@pytest.mark.parametrize("lexemes", [1, 2])
def test_each_token_first(lexemes: int, high: int) -> None:
    parts = [expr.repeat(PLAIN, 0, high), expr.literal(b'"')]
    ir = ir_of({"S": [parts if lexemes == 2 else [expr.cat(*parts)]]})
    naive = Naive(ir)
    for number, token in enumerate(VOCAB.tokens):
        if token and len(token) > 1:
            matcher = cd.Compiler(VOCAB).compile_ir(ir).matcher()
            assert matcher.accept_token(number) == naive.viable(token), token
            if matcher.tokens:
                found, expected = mask(matcher), naive_mask(naive, VOCAB, token)
                assert found == expected, describe(VOCAB, token, found, expected)


@pytest.mark.parametrize("high", [LONGEST - 1, LONGEST, LONGEST + 1])
def test_the_first_mask(high: int) -> None:
    ir = ir_of({"S": [[expr.repeat(PLAIN, 0, high), expr.literal(b"!")]]})
    found, expected = mask(cd.Compiler(VOCAB).compile_ir(ir).matcher()), naive_mask(Naive(ir), VOCAB, b"")
    assert found == expected, describe(VOCAB, b"", found, expected)
