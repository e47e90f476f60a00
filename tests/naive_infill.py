"""Brute-force infilling: enumerates fillings and lets :class:`naive.Naive` judge each text. Shares nothing with the engine.

A problem is a list of pieces: ``bytes``, ``("gap", 0)`` (any text) and ``("slots", k)`` (exactly k tokens). The fillings
are looked up among the short words of the language.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from naive import Naive

Piece = bytes | tuple[str, int]


def short_words(naive: Naive, alphabet: bytes, most: int) -> tuple[list[bytes], int]:
    """The words of the language up to some length, and that length: the largest at which words have at most ``most``
    prefixes.
    """
    steps = [bytes([byte]) for byte in alphabet]
    prefixes = [b""]
    words = [b""] if naive.accepts(b"") else []
    length = 0
    while prefixes and length < 12:
        prefixes = sorted(p + steps[i] for p in prefixes for i in naive.allowed_tokens(p, steps))
        if len(prefixes) > most:
            break
        length += 1
        words += [p for p in prefixes if naive.accepts(p)]
    return words, length


def fits(text: bytes, pieces: Sequence[Piece], tokens: Sequence[bytes]) -> bool:
    """Whether the pieces can become ``text``, legal or not."""
    places = {0}
    for piece in pieces:
        after: set[int] = set()
        if isinstance(piece, bytes):
            after = {i + len(piece) for i in places if text.startswith(piece, i)}
        elif piece[0] == "gap":
            after = set(range(min(places), len(text) + 1)) if places else set()
        else:
            after = places
            for _ in range(piece[1]):
                after = {i + len(t) for i in after for t in tokens if t and text.startswith(t, i)}
        places = after
    return len(text) in places


def random_pieces(rng: random.Random, words: Sequence[bytes], alphabet: bytes) -> list[Piece]:
    """One to three gaps or runs of slots between bytes. Most of the time the bytes come from a word of the language, else
    from nowhere.
    """
    text = rng.choice(words) if words and rng.random() < 0.7 else bytes(rng.choice(alphabet) for _ in range(rng.randint(0, 6)))
    cuts = sorted(rng.randint(0, len(text)) for _ in range(2 * rng.randint(1, 3)))
    pieces: list[Piece] = []
    at = 0
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        if text[at:left]:
            pieces.append(text[at:left])
        pieces.append(("gap", 0) if rng.random() < 0.6 else ("slots", rng.choice([0, 1, 1, 1, 2, 2, 3])))
        at = right
        if rng.random() < 0.15:  # nothing that was there is taken out
            at = left
    if text[at:]:
        pieces.append(text[at:])
    if rng.random() < 0.1:
        pieces.append(bytes([rng.choice(alphabet)]))
    return pieces
