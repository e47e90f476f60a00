"""Known ends: texts that may end a canvas from a place on, tried at many cursors by one kernel call.

:mod:`cdplugin.kernels.parser.many_texts` is the kernel; :class:`cdplugin.infill.canvases.Canvas` makes the texts from its
guides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from cdplugin.engine.blocks import address_of
from cdplugin.infill.steps import MANY_WORK, joined
from cdplugin.kernels import entry as engine
from cdplugin.kernels.parser.many_texts import (
    A_AFTER,
    A_BYTE_WORK,
    A_BYTES,
    A_CURSORS,
    A_DONE,
    A_FROM,
    A_HEADS,
    A_TEXTS,
    A_WORK,
    F_PATHS,
    F_TAIL_BYTES,
    F_TAIL_HEADS,
    F_TAIL_OF,
    F_TAILS,
    F_VAIN,
    FIRST_WORDS,
    VAIN,
)

if TYPE_CHECKING:
    from cdplugin.infill.steps import Steps


class KnownEnds:
    """Texts that are tried in order.

    ``texts``: by (head, tail), whose concatenation is the text, the fillings of the places that it consists of.
    """

    def __init__(self, steps: Steps, texts: Mapping[tuple[bytes, bytes], list[bytes]]) -> None:
        self._arena = steps.arena
        self.fillings = list(texts.values())
        tails = {tail: number for number, tail in enumerate(dict.fromkeys(tail for _, tail in texts))}
        tail_of = np.array([tails[tail] for _, tail in texts], np.int64)
        heads, head_bytes = joined([head for head, _ in texts])
        tail_heads, tail_bytes = joined([*tails])
        paths, vain = np.zeros(len(tail_bytes) + len(tails), np.int64), np.zeros(VAIN * len(tails), np.int64)
        self._held = tail_of, heads, head_bytes, tail_heads, tail_bytes, paths, vain  # their addresses are the question's
        self._question = np.zeros(FIRST_WORDS, np.int64)
        self._question[[A_TEXTS, F_TAILS, A_WORK, A_BYTE_WORK]] = len(texts), len(tails), *MANY_WORK
        fields = F_TAIL_OF, A_HEADS, A_BYTES, F_TAIL_HEADS, F_TAIL_BYTES, F_PATHS, F_VAIN
        self._question[[*fields]] = [address_of(array) for array in self._held]

    def first(self, cursors: list[int]) -> list[int]:
        """Per cursor, the number of the first text with which the whole text is legal; -1 if there is none."""
        if not self.fillings:
            return [-1] * len(cursors)
        before, found = np.array(cursors, np.int64), np.empty(len(cursors), np.int64)
        self._question[[A_CURSORS, A_FROM, A_AFTER, A_DONE]] = len(cursors), address_of(before), address_of(found), 0
        self._arena.call(engine.OP_FIRST_ENDING, address_of(self._question))
        return found.tolist()
