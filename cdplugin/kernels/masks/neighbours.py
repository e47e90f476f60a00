"""Neighbours: recently walked states that a new state resembles, so that its base becomes a difference.

Consider a text that must not contain a word, or a comment up to the bytes that end it. From each of the states along such a
text, most bytes lead to a state that was met before (as in the automaton of Knuth, Morris and Pratt, 1977), yet each state
would cost a walk of the whole trie. Instead, the base of a new state is stored as the difference from that of a *neighbour*:
one of the last states whose base was walked whole, from which nearly all bytes lead to the same states::

    {t: [^<>]* & ~.*(foo|bar).*}         walked whole
    the same after "fo"                  differs by "o", which is dead; "f", "b" and all other bytes lead to the same states
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, value_of
from cdplugin.kernels.lexer.lexer import saturated_within, transition
from cdplugin.kernels.store import layout
from cdplugin.kernels.store.arena import header, i32, length_of, pack, u8, word_of

_KEPT = 4  # header words from WALKED on: the last states with large walks, packed with the nodes visited
_LARGE = 16  # a walk is large if it visits at least 1 / _LARGE of the trie
_FAR = 2  # a neighbour differs in at most 1 / _FAR as many nodes as its own walk visited


@kernel
def note_walked(h, state, visited):
    """Remember a state whose base was walked whole, as a possible neighbour of later ones, if the walk visited many nodes."""
    head = header(h)
    if visited < head[layout.N_NODES] // _LARGE:
        return
    for i in range(layout.WALKED + _KEPT - 1, layout.WALKED, -1):
        head[i] = head[i - 1]
    head[layout.WALKED] = pack(visited, state)


@kernel
def neighbour_of(h, state):
    """Return a neighbour of a state, one whose lexemes all end the same way as its own; ``state`` itself if there is none; or a
    status.
    """
    head = header(h)
    ending = _ending_of(h, state) if head[layout.WALKED] else np.int64(-1)
    for i in range(layout.WALKED, layout.WALKED + _KEPT):
        if ending < 0 or head[i] == 0:
            break
        other = head[i] & layout.LOW_32
        if _ending_of(h, other) == ending:
            near = _is_near(h, state, other, (head[i] >> 32) // _FAR)
            if near < 0:
                return near
            if near:
                return other
    return np.int64(state)


@kernel
def _ending_of(h, state):
    """Return how all lexemes of a state end, EXACT or LONGEST; -1 if they differ, or if any is LAZY."""
    value = value_of(h, state)
    ending = ending_of(h, word_of(h, value, 0) >> 32)
    for i in range(1, length_of(h, value)):
        if ending_of(h, word_of(h, value, i) >> 32) != ending:
            ending = np.int64(-1)
    return np.int64(ending if ending == layout.EXACT or ending == layout.LONGEST else -1)


@kernel
def _after_within(h, state, byte, reach):
    """Return a transition, with counts cut to ``reach`` bytes if no lexeme ends by it; or a status."""
    after = transition(h, state, byte)
    if after <= 0 or after >= lexer_layout.ENDS_BIT or reach == 0:
        return after
    return saturated_within(h, after, reach)


@kernel
def _is_near(h, state, other, most):
    """Return 1 if at most ``most`` trie nodes lie below bytes that lead the two states to different ones, else 0; or
    a status.
    """
    head = header(h)
    nodes = head[layout.N_NODES]
    starts = i32(h, layout.TRIE_FIRST_CHILD)
    left = most
    for i in range(starts[nodes], starts[nodes + 2]):  # the children of the root, in the slice tokens' trie and in the others'
        child = i32(h, layout.TRIE_CHILDREN)[i]
        byte = np.int64(u8(h, layout.TRIE_BYTE)[child])
        reach = np.int64(u8(h, layout.TRIE_REACH)[child])
        after, beside = _after_within(h, state, byte, reach), _after_within(h, other, byte, reach)
        if after < 0 or beside < 0:
            return min(after, beside)
        if after != beside:
            left -= i32(h, layout.TRIE_SKIP)[child]
            if left < 0:
                return np.int64(0)
    return np.int64(1)
