"""Forced tokens: singleton masks, and forced text in the tokenizer's own tokens."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cdplugin.bits import bit_members, bitmask_words
from cdplugin.engine.arena import Arena
from cdplugin.engine.expander import StaticTables
from cdplugin.kernels import entry as kernels
from cdplugin.kernels.entry import TERMINATED
from cdplugin.kernels.store import layout
from cdplugin.queries.completion import Endings
from cdplugin.queries.words import first_token


class Followed(Protocol):
    """What a query may ask of a matcher (:class:`cdplugin.Matcher`): queries are below matchers in the layers, so they see this
    protocol.
    """

    @property
    def tokens(self) -> tuple[int, ...]: ...
    @property
    def stop_token_ids(self) -> tuple[int, ...]: ...
    def fork(self) -> Followed: ...
    def is_accepting(self) -> bool: ...
    def is_terminated(self) -> bool: ...
    def accept_token(self, token_id: int) -> bool: ...
    def fill_next_token_bitmask(self, bitmask: Any, index: int = 0) -> None: ...
    def forced_tokens(self, canonical: bool = False, *, limit: int = 256) -> list[int]: ...
    def shortest_completion(self) -> list[int]: ...
    def explain(self, token_id: int) -> str: ...
    def _here(self) -> tuple[Arena, StaticTables, int]: ...


CONTEXT = 8  # tokens before the place that the tokenizer gets as context
_MOST_LOOKED_AT = 2_000  # allowed tokens from which continuations are chosen
_PROBES = 48  # continuations that the tokenizer is asked about
_MOST_BYTES = 4_096


def single_tokens(probe: Followed, size: int, stop_token_ids: Collection[int], limit: int) -> list[int]:
    """Compute ``forced_tokens()``: ``probe``, a fork, follows the tokens whose masks are singletons."""
    row = np.zeros((1, bitmask_words(size)), np.int32)
    out: list[int] = []
    while len(out) < limit and not probe.is_accepting():
        probe.fill_next_token_bitmask(row)
        words = np.flatnonzero(row[0])
        if len(words) != 1:
            break
        word = int(row[0, words[0]]) & 0xFFFFFFFF
        token = 32 * int(words[0]) + word.bit_length() - 1
        if word & (word - 1) or token in stop_token_ids or not probe.accept_token(token):
            break
        out.append(token)
    return out


@dataclass(frozen=True)
class Position:
    """A matcher's place. ``tokens``: the last :data:`CONTEXT` before it; ``stops``: int64, a count and the stop tokens;
    ``step``: the cursor after a token, 0 if it is not allowed; ``endings``: those of the arena.
    """

    arena: Arena
    cursor: int
    tokens: Sequence[int]
    stops: np.ndarray
    step: Callable[[int, int], int]
    endings: Endings

    def canonical_tokens(self, limit: int) -> list[int]:
        """Compute ``forced_tokens(canonical=True)``."""
        text, cursor = self._forced_text(self.cursor, min(_MOST_BYTES, limit * self.arena.vocab.max_token_bytes))
        if not text:
            return []
        tokens = self._stable(text, cursor)[:limit]
        return tokens[: self._still_forced(tokens)]

    def _forced_text(self, cursor: int, most: int) -> tuple[bytes, int]:
        """Return the bytes that must come at a cursor, and the cursor after them."""
        arena = self.arena
        out = bytearray()
        with arena.lock, arena.one_budget(arena.limits.max_step_work):
            if cursor == TERMINATED:
                return b"", cursor
            endings = self.endings
            while len(out) < most and not arena.call(kernels.OP_ACCEPTS, cursor):
                if arena.header[layout.HAS_TERMINALS] and endings.terminals(cursor):
                    break
                byte = endings.only_byte(cursor)
                if byte is None:
                    break
                out.append(byte)
                cursor = arena.call(kernels.OP_STEP, cursor, byte)
        return bytes(out), cursor

    def _stable(self, text: bytes, cursor: int) -> list[int]:
        """Return the first tokens of ``text`` that are the same whatever follows.

        Drops tokens from the first place on where some token of the vocabulary could begin and reach beyond the text, and
        tokens that change when one of the legal continuations is tokenized with the text.
        """
        vocab = self.arena.vocab
        text = text[: _whole_characters(text)]
        before = self._context()
        tokens = self._encode(before, text)
        if tokens is None:
            return self._longest(text)
        kept = 0
        at = 0
        first_open = self._first_open(text)
        while kept < len(tokens) and at + len(vocab.tokens[tokens[kept]] or b"") <= first_open:
            at += len(vocab.tokens[tokens[kept]] or b"")
            kept += 1
        for more in self._continuations(cursor) if kept else ():
            other = self._encode(before, text + more) or []
            same = 0
            while same < min(kept, len(other)) and other[same] == tokens[same]:
                same += 1
            kept = same
        return tokens[:kept]

    def _context(self) -> bytes:
        """Return the text of the last tokens: with it, the tokenizer may split what follows differently."""
        vocab = self.arena.vocab
        text = b""
        for token in reversed(self.tokens):
            part = vocab.tokens[token]
            if part is None:
                break
            text = part + text
        while text and text[0] & 0xC0 == 0x80:
            text = text[1:]
        return text

    def _encode(self, before: bytes, text: bytes) -> list[int] | None:
        """Return ``text`` as the tokenizer splits it after ``before``; None if there is no tokenizer, or no token boundary
        there.
        """
        vocab = self.arena.vocab
        if vocab.encode is None:
            return None
        for context in (before, b""):
            try:
                ids = vocab.encode((context + text).decode())
            except UnicodeDecodeError:
                continue
            at = len(ids)
            length = 0
            while at and length < len(text):  # from the end: a tokenizer may put a space in front
                at -= 1
                length += len(vocab.tokens[ids[at]] or b"")
            if vocab.decode(ids[at:]) == text:
                return ids[at:]
        return None

    def _first_open(self, text: bytes) -> int:
        """Return the first place in ``text`` from which a longer token of the vocabulary could reach beyond its end."""
        vocab = self.arena.vocab
        for at in range(max(0, len(text) - vocab.max_token_bytes + 1), len(text)):
            if vocab.is_inner_prefix(text[at:]):
                return at
        return len(text)

    def _continuations(self, cursor: int) -> list[bytes]:
        """Return some texts that may follow at a cursor: allowed tokens, the longest for each first byte."""
        vocab, arena = self.arena.vocab, self.arena
        with arena.lock:
            row = arena.mask(cursor)
        longest: dict[int, bytes] = {}
        allowed = bit_members(row)
        for token in allowed[:: max(1, len(allowed) // _MOST_LOOKED_AT)].tolist():
            text = (vocab.tokens[token] or b"")[:16]
            if text and len(text) > len(longest.get(text[0], b"")):
                longest[text[0]] = text
        out = [text[: _whole_characters(text)] for text in longest.values()]
        return [text for text in out if text][:_PROBES]

    def _longest(self, text: bytes) -> list[int]:
        """Return ``text`` in the longest tokens, up to where a longer token could reach beyond it."""
        vocab = self.arena.vocab
        stops = set(self.stops[1:].tolist())
        end = self._first_open(text)
        out = []
        at = 0
        while at < end:
            found = ((n, first_token(vocab, text[at : at + n], stops)) for n in vocab.token_of[1] if n <= len(text) - at)
            length, token = next(((n, t) for n, t in found if t is not None), (0, None))
            if token is None or at + length > end:
                break
            out.append(token)
            at += length
        return out

    def _still_forced(self, tokens: list[int]) -> int:
        """Return how many leading tokens the matcher follows; if tokens are counted, only while the text stays forced."""
        cursor = self.cursor
        for i, token in enumerate(tokens):
            if self.arena.header[layout.HAS_CLOCKS]:
                text = self.arena.vocab.tokens[token] or b""
                if self._forced_text(cursor, len(text))[0] != text:
                    return i
            cursor = self.step(cursor, token)
            if cursor == 0:
                return i
        return len(tokens)


def _whole_characters(text: bytes) -> int:
    """Return where the last complete character ends."""
    return codecs.utf_8_decode(text, "ignore", False)[1]
