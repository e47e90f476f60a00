"""A choice of six words over a vocabulary of bytes and a few longer tokens: so small that the list of words gives the masks."""

from __future__ import annotations

from collections.abc import Sequence

from engine_tools import vocabulary

WORDS = [b"abc", b"abd", b"ab", b"bca", b"cc", b"ccccc"]
TOKENS = [b"ab", b"bc", b"cd", b"cc", b"ccc", b"bca"]
VOCAB = vocabulary(TOKENS)
END = VOCAB.size - 1
CHOICE = '["abc", "abd", "ab", "bca", "cc", "ccccc"]'


def allowed(tokens: Sequence[int], stops: Sequence[int] = (END,)) -> set[int]:
    """The mask from the list of words: tokens that lead towards a word, and stop tokens after a whole word."""
    text = b"".join(VOCAB.tokens[t] or b"" for t in tokens)
    out = {t for t, b in enumerate(VOCAB.tokens) if b and t not in stops and any(word.startswith(text + b) for word in WORDS)}
    return out | set(stops) if text in WORDS else out
