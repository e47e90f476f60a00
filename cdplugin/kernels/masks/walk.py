"""What all walks of the trie share: which nodes they visit, their arrays by depth, and how their work is counted.

A walk begins at a *top*, a node of the trie or -1 for the root, and visits the nodes below it in depth-first order. What it
knows of a node stands in arrays by depth, side by side on the stack: the entry by depth ``d`` of array ``k`` is
``STACK[base + d + k * levels]``. The next node of that depth overwrites it, so nothing is undone on the way up.

The *loops* of a lexer state are the kinds of bytes all of which lead back to it. In the middle of a word or of a URL most bytes
change nothing. Where all bytes below a node are such, all tokens of its subtree are allowed, and nothing of it is walked. A
character beyond ASCII is several bytes, which lead back together: the kind of these bytes is a loop where whole characters are,
which holds in the slice trie only. And where a text is counted nothing leads back, but letters and digits may be known to come
in any order, as many as a subtree has (:func:`takes_all_below`).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.heads import MOST_HEADS, head_at
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.lexer.plain_text import DIGITS, HIGH, LOWER, UPPER, is_loop, takes_letters
from cdplugin.kernels.lexer.rows import row_of
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.masks.trie import BYTE_KIND
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, header, i32, i64, spend, u8

_BY_KIND = np.argsort(BYTE_KIND, kind="stable")  # the bytes, kind after kind
_STARTS = np.searchsorted(BYTE_KIND[_BY_KIND], np.arange(BYTE_KIND.max() + 2))
_N_KINDS = int(BYTE_KIND.max()) + 1
_LARGE = 256  # nodes of a subtree for which it is worth while to find the loops of a state
_SOME = 4  # and for which it is asked what else a state takes
_SEVERAL = 10  # bytes that a state goes on with, as many as there are digits: fewer are no letters that may come as they like
_LOWER_KINDS = 1 << int(BYTE_KIND[ord("a")]) | 1 << int(BYTE_KIND[ord("z")])
_UPPER_KINDS = 1 << int(BYTE_KIND[ord("A")]) | 1 << int(BYTE_KIND[ord("Z")])
_DIGIT_KINDS = 1 << int(BYTE_KIND[ord("0")])
_HIGH = int(BYTE_KIND[0x80])
_HIGH_KIND = 1 << _HIGH
_LETTER_KINDS = _LOWER_KINDS | _UPPER_KINDS | _DIGIT_KINDS
ANY_KIND = (1 << _N_KINDS) - 1
COPIED_BITS = 4  # tokens of a subtree that is taken whole at the cost of a node, as a power of two


@kernel
def begin_walk(h, top, arrays):
    """Reserve ``arrays`` arrays by depth for a walk below ``top``: ``(place, base, levels, end)``.

    ``place``: where the top's own entries are, and what STACK_TOP was; or ``GROW``. ``end``: the first node that is not below
    the top.
    """
    head = header(h)
    place = head[layout.STACK_TOP]
    levels = head[layout.MAX_DEPTH] + 2
    if not has_room(h, layout.STACK, place + arrays * levels):
        return np.int64(statuses.GROW), place, levels, levels
    head[layout.STACK_TOP] = place + arrays * levels
    if top < 0:
        return place, place, levels, head[layout.N_NODES]
    return place, place - i32(h, layout.TRIE_DEPTH)[top], levels, np.int64(top + i32(h, layout.TRIE_SKIP)[top])


@kernel
def end_walk(h, place, visited, work):
    """Give the arrays back, and count the nodes that were visited, and units of work besides; 0 or ``LIMIT_WORK``."""
    head = header(h)
    head[layout.STACK_TOP] = place
    head[layout.C_NODES] += visited
    return np.int64(0 if spend(h, work + (visited >> mask_layout.NODES_BITS)) else statuses.LIMIT_WORK)


@kernel
def ends_before(h, begun, byte):
    """Whether the LONGEST lexemes of the state ``begun`` end before ``byte``, with which none of them goes on: 1, 0, or a
    status.
    """
    own = transition(h, begun, byte)
    return np.int64(own == lexer_layout.BEFORE) if own >= 0 else own


@kernel
def child_from(children, bytes_, low, high, byte):
    """The first place in ``children[low:high]``, children of one node (TRIE_CHILDREN), whose byte (TRIE_BYTE) is not below
    ``byte``; ``high`` if there is none.
    """
    while low < high:
        middle = (low + high) >> 1
        if bytes_[children[middle]] < byte:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def loops_below(h, state, nodes):
    """The loops of a state (bit k: kind k, ``BYTE_KIND``), for a subtree of so many nodes; or a status.

    To find them may take 256 transitions, so a small subtree does not ask: 0 where they are not known.
    """
    loops = slice_loops_below(h, state, nodes)
    return loops if loops < 0 else loops & ~_HIGH_KIND


@kernel
def slice_loops_below(h, state, nodes):
    """:func:`loops_below` for a subtree of the slice trie, where characters are whole: the kind of bytes beyond ASCII is among
    the loops if plain characters beyond ASCII lead back with their last bytes.
    """
    known = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LOOPS]
    if known >= 0:
        return known
    return np.int64(0) if nodes < _LARGE else _find_loops(h, state)


@kernel
def _find_loops(h, state):
    """Find the loops of a state, and note them in L_LOOPS; or a status.

    A kind of ASCII counts only if *all* of its bytes lead to the very same state, with no lexeme ending. A kind is left at its
    first byte that does not, so a state without loops costs one transition a kind.
    """
    loops = np.int64(0)
    for kind in range(_N_KINDS):
        if kind == _HIGH:
            continue
        loops |= np.int64(1) << kind
        for i in range(_STARTS[kind], _STARTS[kind + 1]):
            after = transition(h, state, np.int64(_BY_KIND[i]))
            if after < 0:
                return after
            if after != state:
                loops &= ~(np.int64(1) << kind)
                break
    if loops:
        high = is_loop(h, state, np.int64(HIGH))
        if high < 0:
            return high
        loops |= high << _HIGH
    i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LOOPS] = loops
    return loops


@kernel
def head_kinds(h, state):
    """The kinds of the bytes by which a state may go on (bit k: kind k, ``BYTE_KIND``), ``ANY_KIND`` where they are many; or a
    status.
    """
    row = row_of(h, state)  # its heads are noted with its row
    if row < 0:
        return row
    n_heads = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS]
    if n_heads > MOST_HEADS:
        return np.int64(ANY_KIND)
    kinds = np.int64(0)
    for i in range(n_heads):
        kinds |= np.int64(1) << BYTE_KIND[head_at(h, state, i)]
    return kinds


@kernel
def takes_all_below(h, before, after, at):
    """Whether all tokens below a node of the trie are found to be allowed: 1, 0, or a status. ``before``, ``after``: the states
    before the node's byte and after it.

    So it is where all bytes below lead back to ``after``. Among the slice tokens, whose characters are whole, it is asked of
    letters, and of what is below a byte beyond ASCII, besides (:func:`_takes_characters`).
    """
    nodes = i32(h, layout.TRIE_SKIP)[at]
    below = i32(h, layout.TRIE_BELOW)[at]
    in_slice = at < header(h)[layout.SLICE_END]
    loops = slice_loops_below(h, after, nodes) if in_slice else loops_below(h, after, nodes)
    if loops < 0:
        return loops
    if below & ~loops == 0:
        return np.int64(1)
    if not in_slice or nodes < _SOME or (below & ~_LETTER_KINDS and u8(h, layout.TRIE_BYTE)[at] < 0x80):
        return np.int64(0)
    return _takes_characters(h, before, after, at)


@kernel
def _takes_characters(h, before, after, at):
    """:func:`takes_all_below` for a node of the slice trie where not all bytes below lead back.

    A character beyond ASCII may lead back as a whole, to ``before`` if its first byte is the node's. Else, what is below is
    letters (``_LETTER_KINDS``), perhaps no more than ``after`` is found to take.
    """
    below = i32(h, layout.TRIE_BELOW)[at]
    nodes = i32(h, layout.TRIE_SKIP)[at]
    if u8(h, layout.TRIE_BYTE)[at] >= 0x80:
        loops = slice_loops_below(h, before, nodes)
        return loops if loops < 0 else np.int64(loops & _HIGH_KIND != 0 and below & ~loops == 0)
    heads = i64(h, layout.LEXER_STATES)[after * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS]
    if heads < _SEVERAL:
        return np.int64(0)
    letters = LOWER if below & _LOWER_KINDS else 0
    letters |= UPPER if below & _UPPER_KINDS else 0
    letters |= DIGITS if below & _DIGIT_KINDS else 0
    # as many characters come as there are nodes, or as the longest token has, at most
    return takes_letters(h, after, np.int64(letters), np.int64(min(nodes, i32(h, layout.TRIE_CHARS)[at]) - 1))
