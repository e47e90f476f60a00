"""Steps of the matcher: where texts lead from a cursor, and whether the text may end there. Memoised."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cdplugin.bits import bitmask_words
from cdplugin.engine.blocks import address_of
from cdplugin.infill.text_tree import TextTree
from cdplugin.kernels import entry as engine
from cdplugin.kernels.store import layout
from cdplugin.queries.successors import Successors, text_successors

if TYPE_CHECKING:
    from cdplugin.engine.arena import Arena

_STEP_WORK, _BYTE_WORK = 50, 5  # units of work of a text that is followed, and of each of its bytes, besides what kernels count
_OWED_WORK = 2000  # units that are charged together
_MOST_STEPS, _LONG_STEP = 1 << 14, 64  # memoised steps, and bytes from which on a step is not memoised
PREFERRED_BYTES = np.argsort(
    np.array(
        [
            0 if 97 <= b <= 122 else 1 if 48 <= b <= 57 else 2 if 65 <= b <= 90 else 3 if 32 < b < 127 else 4 if b == 32 else 5
            for b in range(256)
        ]
    ),
    kind="stable",
)
"""Bytes in the order in which fillings prefer them."""
_STEP_BYTES = 256  # memory of a memoised step, about
_MOST_TOKEN_SUCCESSORS, _SUCCESSOR_BYTES = 1 << 18, 24  # memoised for all cursors, and memory of each
MANY_WORK = 10, 4
"""Units of work of each of many texts in one kernel call, and of each byte, besides what steps count."""


def joined(texts: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Some texts as one array (uint8), and where each begins and the last one ends in it (int64)."""
    heads = np.array([0, *itertools.accumulate(map(len, texts))], np.int64)
    return heads, np.frombuffer(bytearray(b"".join(texts)), np.uint8)


class Steps:
    """The matcher's steps for the text that is infilled. The caller holds the lock of the tables."""

    arena: Arena
    start: int
    vocab: Any

    def _begin_steps(self) -> None:
        """Empty the memo tables."""
        self._successors: dict[int, list[tuple[int, int]]] = {}
        self._steps: dict[tuple[int, bytes], int] = {}
        self._owed = 0
        self._forget_successors()

    def _forget_successors(self) -> None:
        self._token_successors: dict[int, Successors] = {}
        self._n_token_successors = 0

    @property
    def nbytes_of_steps(self) -> int:
        """Bytes of the memo tables."""
        return _STEP_BYTES * len(self._steps) + _SUCCESSOR_BYTES * self._n_token_successors

    @property
    def work_left(self) -> int:
        """What is left of the current question's budget of work."""
        return int(self.arena.header[layout.WORK_LEFT])

    def step(self, cursor: int, text: bytes) -> int:
        """The matcher's cursor after a text; 0 if no legal text begins so.

        The same few texts are tried at recurring cursors, so short steps are memoised; a kernel call takes ten times as long.
        Their work is counted as well, some steps at a time.
        """
        n_bytes = len(text)
        owed = self._owed = self._owed + _STEP_WORK + _BYTE_WORK * n_bytes
        after = self._steps.get((cursor, text)) if n_bytes < _LONG_STEP else None
        if after is not None and owed < _OWED_WORK:
            return after
        self._owed = 0
        self.arena.spend(owed)
        if after is not None:
            return after
        if n_bytes == 1:
            after = self.arena.call(engine.OP_STEP, cursor, text[0])
        elif n_bytes:
            data = np.frombuffer(text, np.uint8)
            after = self.arena.call(engine.OP_RUN, cursor, address_of(data), n_bytes)
        else:
            after = cursor
        if n_bytes < _LONG_STEP:
            if len(self._steps) == _MOST_STEPS:
                self._steps.clear()
            self._steps[cursor, text] = after
        return after

    def step_all(self, cursors: np.ndarray, texts: Sequence[bytes]) -> np.ndarray:
        """:meth:`step` from each cursor (int64) by each text; int64, ``(cursors, texts)``."""
        after = np.zeros((len(cursors), len(texts)), np.int64)
        if not after.size:
            return after
        if len(texts) == 1 and not texts[0]:
            return cursors[:, None]
        heads, data = joined(texts)
        where = address_of(data), address_of(heads), address_of(after)
        question = np.array([len(cursors), address_of(cursors), len(texts), *where, 0, *MANY_WORK], np.int64)
        self.arena.call(engine.OP_STEP_ALL, address_of(question))
        return after

    def trail(self, cursor: int, text: bytes) -> list[int]:
        """The cursors before each byte of a text, and after it; 0 from where it is not legal."""
        nodes = np.arange(len(text), dtype=np.int64) << 8 | np.frombuffer(text, np.uint8)
        return [cursor, *(TextTree(self, nodes).follow(cursor) if text else ())]

    def accepts_at(self, cursor: int) -> bool:
        """Whether the text may end at a cursor."""
        return bool(self.arena.call(engine.OP_ACCEPTS, cursor))

    def accepts(self, text: bytes) -> bool:
        """Whether the ordinary matcher accepts a text."""
        cursor = self.step(self.start, text)
        return cursor != 0 and self.accepts_at(cursor)

    def right_until(self, text: bytes) -> int:
        """How many bytes of a text the matcher reads; -1 if it accepts the whole text. By bisection."""
        cursor = self.step(self.start, text)
        if cursor:
            return -1 if self.accepts_at(cursor) else len(text)
        right, wrong = 0, len(text)  # bytes that are read, and that are not
        cursor = self.start
        while wrong - right > 1:
            middle = (right + wrong) // 2
            further = self.step(cursor, text[right:middle])
            if further:
                cursor, right = further, middle
            else:
                wrong = middle
        return right

    def spelled_in(self, text: bytes) -> int:
        """The numbers of tokens that may spell a text: bit n is set for n."""
        tokens, _ = self.vocab.token_of
        ways = [1, *(0 for _ in text)]
        for i, way in enumerate(ways):
            for j in range(i + 1, min(len(text), i + self.vocab.max_token_bytes) + 1) if way else ():
                if tokens.get(text[i:j], -1) >= 0 and tokens[text[i:j]] not in self.vocab.eos_token_ids:
                    ways[j] |= way << 1
        return ways[-1]

    def bytes_are_tokens(self, text: bytes) -> bool:
        """Whether each byte of a text is a token."""
        tokens, _ = self.vocab.token_of
        found = {tokens.get(bytes([byte]), -1) for byte in set(text)}
        return -1 not in found and found.isdisjoint(self.vocab.eos_token_ids)

    def successors(self, cursor: int) -> list[tuple[int, int]]:
        """The distinct cursors to which one byte leads, each as (preferred byte, cursor)."""
        known = self._successors.get(cursor)
        if known is None:
            self.arena.spend(256 * _STEP_WORK)
            found: dict[int, int] = {}
            for byte in PREFERRED_BYTES.tolist():
                after = self.arena.call(engine.OP_STEP, cursor, byte)
                if after:
                    found.setdefault(after, byte)
            known = self._successors[cursor] = [(byte, after) for after, byte in found.items()]
        return known

    def mask_at(self, cursor: int) -> np.ndarray:
        """The matcher's mask row at a cursor, without end tokens."""
        return self.arena.mask(cursor)

    def token_successors(self, cursor: int) -> Successors:
        """The distinct cursors to which one token leads, in the order of their first tokens. Memoised: cursors recur in all
        masks of a canvas.
        """
        known = self._token_successors.get(cursor)
        if known is not None:
            return known
        found = text_successors(self.arena, cursor, self.texts_row)
        order = found.firsts.argsort()
        known = Successors(*(array[order] for array in found))
        self._n_token_successors += len(order)
        if self._n_token_successors > _MOST_TOKEN_SUCCESSORS:
            self._token_successors.clear()
            self._n_token_successors = len(order)
        self._token_successors[cursor] = known
        return known

    @functools.cached_property
    def texts_row(self) -> np.ndarray:
        """The mask row of all tokens that are text, without end tokens; int32."""
        flags = np.zeros(32 * bitmask_words(self.vocab.size), bool)
        flags[self.arena.tables[layout.TRIE_LISTED]] = True
        flags[list(self.vocab.eos_token_ids)] = False
        return np.packbits(flags, bitorder="little").view(np.int32)
