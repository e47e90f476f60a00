"""Sort tokens into groups by their text, for lists that people read: digits, words, punctuation, …"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.bits import bit_flags

if TYPE_CHECKING:
    from cdplugin.vocab.vocabulary import Vocabulary

_GROUPS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("whitespace", lambda t: t.isspace()),
    ("digits", lambda t: t.strip().isdigit() and t.isascii()),
    ("words", lambda t: t.strip().isalnum() and t.isascii()),
    ("punctuation", lambda t: t.isascii() and not any(c.isalnum() for c in t) and t.isprintable()),
    ("mixed", lambda t: t.isascii() and t.isprintable()),
    ("control characters", lambda t: t.isascii()),
    ("other scripts", lambda t: True),
)
PARTS, SPECIAL = "parts of characters", "special tokens"
NAMES = (*(name for name, _ in _GROUPS), PARTS, SPECIAL)
"""The groups, in the order in which they are listed."""


def group(token: bytes) -> str:
    """The group of a text token."""
    try:
        text = token.decode("utf-8")
    except UnicodeDecodeError:
        return PARTS
    return next(name for name, fits in _GROUPS if fits(text))


def show_token(token: bytes) -> str:
    """A token's text in quotes, for people."""
    try:
        return repr(token.decode("utf-8"))
    except UnicodeDecodeError:
        return repr(token)[1:]


@dataclass(frozen=True)
class Sample:
    """Allowed tokens of one group: their number, and the shortest ones."""

    name: str
    count: int
    tokens: tuple[int, ...]


class TokenGroups:
    """All tokens of a vocabulary by group, so that a mask is listed quickly. Takes about 10 bytes for each token."""

    def __init__(self, vocab: Vocabulary) -> None:
        named: list[list[int]] = [[] for _ in NAMES]
        places = {name: place for place, name in enumerate(NAMES)}
        special = frozenset(vocab.special_tokens.values())
        for token, text in enumerate(vocab.tokens):
            if token in special or not text:
                if token in special or token in vocab.eos_token_ids:
                    named[-1].append(token)
                continue
            named[places[group(text)]].append(token)
        tokens = vocab.tokens
        self._ids = [np.array(sorted(ids, key=lambda t: (len(tokens[t] or b""), tokens[t] or b"")), np.int64) for ids in named]

    def samples(self, mask: np.ndarray, most: int) -> list[Sample]:
        """The groups of a mask's tokens, each with at most ``most`` tokens. ``mask``: int32, a row of a bitmask."""
        bits = bit_flags(mask)
        out = []
        for name, ids in zip(NAMES, self._ids, strict=True):
            allowed = ids[bits[ids]]
            if len(allowed):
                out.append(Sample(name, len(allowed), tuple(allowed[:most].tolist())))
        return out
