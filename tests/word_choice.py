"""A choice of six words over a vocabulary of bytes and a few pairs: small enough to read masks off the list of words."""

from __future__ import annotations

from collections.abc import Sequence

from engine_tools import vocabulary

WORDS = [b"abc", b"abd", b"ab", b"bca", b"cc", b"ccccc"]
TOKENS = [b"ab", b"bc", b"cd", b"cc", b"ccc", b"bca"]
VOCAB = vocabulary(TOKENS)
END = VOCAB.size - 1
CHOICE = '["abc", "abd", "ab", "bca", "cc", "ccccc"]'


def allowed(tokens: Sequence[int], stops: Sequence[int] = (END,)) -> set[int]:
    """The same from the list of words: tokens that go on towards a word, stop tokens after a whole one."""
    text = b"".join(VOCAB.tokens[t] or b"" for t in tokens)
    out = {t for t, b in enumerate(VOCAB.tokens) if b and t not in stops and any(word.startswith(text + b) for word in WORDS)}
    return out | set(stops) if text in WORDS else out
