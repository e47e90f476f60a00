"""Shortest words of expressions, in bytes that tokens can spell."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from cdplugin.engine.arena import Arena
from cdplugin.kernels.store import layout
from cdplugin.queries.measures import ShortestMatches
from cdplugin.vocab.vocabulary import Vocabulary, once_for_a_vocabulary

_LONGEST_WORD = 1 << 20
_MOST_WORD_BYTES = 8 << 20  # bytes of the words that are remembered
_SPELT_WORK, _SPELT_AT_ONCE = 300, 1_000  # units of work (Limits.max_step_work) for a part of a word, counted every so many
_PLAIN = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \"'_-.,:;()[]{}<>/*+=!?\n"


class SpeltBytes:
    """The bytes that are tokens by themselves, without end tokens and ``stops``. Without ``stops``, all grammars of a
    vocabulary share it.

    ``tokens``: byte -> its first token; ``order``: the bytes, readable ones first; ``table``: both in that order, int64.
    """

    def __init__(self, vocab: Vocabulary, stops: frozenset[int] = frozenset()) -> None:
        self.tokens: dict[int, int] = {}
        stops |= frozenset(vocab.eos_token_ids)
        for token in np.flatnonzero(np.diff(vocab.token_offsets) == 1).tolist():
            if token not in stops:
                self.tokens.setdefault((vocab.tokens[token] or b"")[0], token)
        order = [byte for byte in _PLAIN if byte in self.tokens]
        order += [byte for byte in range(256) if byte in self.tokens and byte not in _PLAIN]
        self.order = [bytes([byte]) for byte in order]
        self.table = np.array([(byte, self.tokens[byte]) for byte in order], np.int64)


@once_for_a_vocabulary
def bytes_of(vocab: Vocabulary) -> SpeltBytes:
    """Return the bytes of a vocabulary that are tokens by themselves."""
    return SpeltBytes(vocab)


def narrowing(vocab: Vocabulary, stops: frozenset[int]) -> frozenset[int]:
    """Return ``stops`` if some byte has no token except these; else an empty set: then endings are the same without them."""
    spelt = bytes_of(vocab).tokens
    is_narrower = not stops.isdisjoint(spelt.values()) and len(SpeltBytes(vocab, stops).tokens) < len(spelt)
    return stops if is_narrower else frozenset()


def first_token(vocab: Vocabulary, text: bytes, stops: Collection[int]) -> int | None:
    """Return the first token of a text that is none of ``stops``; None if there is none."""
    token = vocab.token_of[0].get(text)
    if token not in stops:
        return token
    return next((t for t, other in enumerate(vocab.tokens) if other == text and t not in stops), None)


class Words:
    """A shortest word of each of an arena's expressions. The caller holds the arena's lock."""

    def __init__(self, arena: Arena, matches: ShortestMatches, spelt: SpeltBytes) -> None:
        self._arena = arena
        self._matches = matches
        self._spelt = spelt
        self._known: dict[int, bytes | None] = {}
        self.nbytes = 0

    def trim(self, most: int) -> None:
        """Forget the words if they are more than ``most``."""
        if len(self._known) > most:
            self._forget()

    def _forget(self) -> None:
        self._known.clear()
        self.nbytes = 0

    def may_be_spelt(self, root: int) -> bool:
        """Return whether an expression has no ``&`` and ``~``, and a shortest word that is not very long."""
        if root in self._known:
            return self._known[root] is not None
        return self._arena.is_pure(root) and self._matches.of(root) <= _LONGEST_WORD

    def of(self, root: int) -> bytes | None:
        """Return a shortest word of an expression without ``&`` and ``~``; None for others, for long words, and for bytes
        without tokens.
        """
        if root not in self._known:
            text = self._spell(root) if self.may_be_spelt(root) else None
            if self.nbytes > _MOST_WORD_BYTES:
                self._forget()
            self._known[root] = text
            self.nbytes += len(text or b"")
        return self._known[root]

    def _spell(self, root: int) -> bytes | None:
        """Do :meth:`of`, from left to right. Pending are expressions, and ``(text so far, times)`` for a repetition."""
        arena = self._arena
        out = bytearray()
        pending: list[int | tuple[int, int]] = [root]
        written = 0
        while pending:
            written += 1
            if written % _SPELT_AT_ONCE == 0:
                arena.spend(_SPELT_AT_ONCE * _SPELT_WORK)
            e = pending.pop()
            if isinstance(e, tuple):
                start, times = e
                out += out[start:] * (times - 1)
                continue
            kind = arena.kind(e)
            words = arena.sequence(e)
            if kind == layout.K_BYTES:
                byte = next((b for b in self._spelt.order if words[b[0] >> 6] >> (b[0] & 63) & 1), None)
                if byte is None:
                    return None
                out += byte
            elif kind == layout.K_LITERALS:
                text, starts, ends = arena.literals(e)
                shortest = int((ends - starts).argmin())
                out += text[starts[shortest] : ends[shortest]].tobytes()
            elif kind == layout.K_CAT:
                pending += words[::-1]
            elif kind == layout.K_ALT:
                pending.append(min(words, key=self._matches.of))
            elif kind == layout.K_REPEAT and words[1]:
                pending += [(len(out), words[1]), words[0]]
        arena.spend(len(out))
        return bytes(out) if all(byte in self._spelt.tokens for byte in set(out)) else None
