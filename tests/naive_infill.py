"""Brute-force infilling: enumerate fillings, and let :class:`naive.Naive` judge the text. Shares nothing with the engine.

A problem is a list of pieces: ``bytes``, ``("gap", most)`` (any text of at most ``most`` bytes of the alphabet) and
``("slots", k)`` (exactly k tokens). Prefixes that begin no word are not followed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from naive import Naive

Piece = bytes | tuple[str, int]


def fillings(
    naive: Naive, pieces: Sequence[Piece], tokens: Sequence[bytes], alphabet: bytes, most: int = 200_000
) -> set[bytes]:
    """All legal texts that the pieces can become, with gaps of bounded length. OverflowError beyond ``most`` prefixes."""
    prefixes = {b""}
    seen = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            prefixes = {prefix + piece for prefix in prefixes if naive.viable(prefix + piece)}
            continue
        kind, count = piece
        every = set(prefixes) if kind == "gap" else set()
        steps = [bytes([byte]) for byte in alphabet] if kind == "gap" else [t for t in tokens if t]
        for _ in range(count):
            prefixes = {p + steps[i] for p in sorted(prefixes) for i in naive.allowed_tokens(p, steps)}
            seen += len(prefixes)
            if seen > most:
                raise OverflowError("too many prefixes")
            if kind == "gap":
                every |= prefixes
        prefixes = every if kind == "gap" else prefixes
    return {text for text in prefixes if naive.accepts(text)}


def fits(text: bytes, pieces: Sequence[Piece], tokens: Sequence[bytes]) -> bool:
    """Whether ``text`` is one of the texts that the pieces can become, legal or not."""
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


def random_pieces(rng: random.Random, words: Sequence[bytes], alphabet: bytes, gap: int) -> list[Piece]:
    """One to three gaps or runs of slots between bytes: of a word of the language, most of the time, or of nothing."""
    text = rng.choice(words) if words and rng.random() < 0.7 else bytes(rng.choice(alphabet) for _ in range(rng.randint(0, 6)))
    cuts = sorted(rng.randint(0, len(text)) for _ in range(2 * rng.randint(1, 3)))
    pieces: list[Piece] = []
    at = 0
    for left, right in zip(cuts[::2], cuts[1::2], strict=True):
        if text[at:left]:
            pieces.append(text[at:left])
        pieces.append(("gap", gap) if rng.random() < 0.6 else ("slots", rng.choice([0, 1, 1, 1, 2, 2, 3])))
        at = right
        if rng.random() < 0.15:  # nothing that was there is taken out
            at = left
    if text[at:]:
        pieces.append(text[at:])
    if rng.random() < 0.1:
        pieces.append(bytes([rng.choice(alphabet)]))
    return pieces
