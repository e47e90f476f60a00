"""The *loops* of a lexer state: the kinds of bytes all of which lead back to it.

In the middle of a word or of a URL most bytes change nothing. Where all bytes below a node of the trie are such, all tokens
of its subtree are allowed, and nothing of it is walked (:func:`cdplugin.kernels.masks.bases._walk`).
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.masks.trie import BYTE_KIND
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import i64

_BY_KIND = np.argsort(BYTE_KIND, kind="stable")  # the bytes, kind after kind
_STARTS = np.searchsorted(BYTE_KIND[_BY_KIND], np.arange(BYTE_KIND.max() + 2))
_N_KINDS = int(BYTE_KIND.max()) + 1
_LARGE = 256  # nodes of a subtree for which it is worth while to find the loops of a state
COPIED_BITS = 4  # tokens of a subtree that is taken whole at the cost of a node, as a power of two


@kernel
def loops_below(h, state, nodes):
    """The loops of a state (bit k: kind k, ``BYTE_KIND``), for a subtree of so many nodes; or a status.

    To find them may take 256 transitions, so a small subtree does not ask: 0 where they are not known.
    """
    known = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LOOPS]
    if known >= 0:
        return known
    return np.int64(0) if nodes < _LARGE else _find_loops(h, state)


@kernel
def _find_loops(h, state):
    """Find the loops of a state, and note them in L_LOOPS; or a status.

    A kind counts only if *all* of its bytes lead to the very same state, with no lexeme ending. A kind is left at its first
    byte that does not, so a state without loops costs one transition a kind.
    """
    loops = np.int64(0)
    for kind in range(_N_KINDS):
        loops |= np.int64(1) << kind
        for i in range(_STARTS[kind], _STARTS[kind + 1]):
            after = transition(h, state, np.int64(_BY_KIND[i]))
            if after < 0:
                return after
            if after != state:
                loops &= ~(np.int64(1) << kind)
                break
    i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LOOPS] = loops
    return loops
