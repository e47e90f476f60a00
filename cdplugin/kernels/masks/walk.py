"""What all trie walks share: their range of nodes, their arrays by depth, the self-loops that let them take a subtree whole.

A walk begins at a *top*, a trie node or -1 for the root, and visits the nodes below it in depth-first order. What it knows
of a node stands in arrays indexed by depth, side by side on the stack: the entry for depth ``d`` of array ``k`` is
``STACK[base + d + k * levels]``. The next node of that depth overwrites it, so nothing has to be undone on the way up.

The *loops* of a lexer state are the kinds of bytes (``BYTE_KIND``) all of whose bytes lead back to the state. In the middle of
a word or a URL most bytes do. If all bytes below a node are loops, all tokens of its subtree are allowed, and the subtree is
not walked. A character beyond ASCII is several bytes, which lead back only together. So the kind of bytes beyond ASCII is a
loop only in the slice trie, where characters are whole. In a counted text no byte leads back; but the state may be known to
take letters and digits in any order, as many as the subtree has (:func:`takes_all_below`).
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
_LARGE = 256  # least nodes of a subtree for which finding a state's loops pays
_SOME = 4  # least nodes of a subtree for which the search of takes_letters pays
_SEVERAL = 10  # least heads of a state that may take letters or digits in any order: there are ten digits
_LOWER_KINDS = 1 << int(BYTE_KIND[ord("a")]) | 1 << int(BYTE_KIND[ord("z")])
_UPPER_KINDS = 1 << int(BYTE_KIND[ord("A")]) | 1 << int(BYTE_KIND[ord("Z")])
_DIGIT_KINDS = 1 << int(BYTE_KIND[ord("0")])
_HIGH = int(BYTE_KIND[0x80])
_HIGH_KIND = 1 << _HIGH
_LETTER_KINDS = _LOWER_KINDS | _UPPER_KINDS | _DIGIT_KINDS
ANY_KIND = (1 << _N_KINDS) - 1
COPIED_BITS = 4  # 2 ** COPIED_BITS tokens of a subtree that is taken whole cost as much as one visited node


@kernel
def begin_walk(h, top, arrays):
    """Reserve ``arrays`` arrays by depth for a walk below ``top``, and return ``(place, base, levels, end)``.

    ``place``: the index of the top's own entry of the first array, and the value that STACK_TOP had; or ``GROW``. ``base`` and
    ``levels``: see above. ``end``: the first node that is not below the top.
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
    """Release the arrays of a walk and count its nodes; 0 or ``LIMIT_WORK``. ``work``: units of work besides the ``visited``
    nodes.
    """
    head = header(h)
    head[layout.STACK_TOP] = place
    head[layout.C_NODES] += visited
    return np.int64(0 if spend(h, work + (visited >> mask_layout.NODES_BITS)) else statuses.LIMIT_WORK)


@kernel
def ends_before(h, begun, byte):
    """Return 1 if the LONGEST lexemes of the state ``begun`` end before ``byte``, which none of them can continue with; else 0;
    or a status.
    """
    own = transition(h, begun, byte)
    return np.int64(own == lexer_layout.BEFORE) if own >= 0 else own


@kernel
def child_from(children, bytes_, low, high, byte):
    """Return the first index in ``children[low:high]`` whose node has a byte not below ``byte``; ``high`` if there is none.

    ``children`` (TRIE_CHILDREN) are those of one node; ``bytes_`` is TRIE_BYTE.
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
    """Return the loops of a state (bit k: kind k, ``BYTE_KIND``) for a subtree of ``nodes`` nodes; or a status.

    Finding the loops may take 256 transitions, so for a small subtree they are not computed: the result is 0 unless they are
    known.
    """
    loops = slice_loops_below(h, state, nodes)
    return loops if loops < 0 else loops & ~_HIGH_KIND


@kernel
def slice_loops_below(h, state, nodes):
    """Do :func:`loops_below` for a subtree of the slice trie, where characters are whole.

    So here the kind of bytes beyond ASCII is a loop if plain characters beyond ASCII lead back to the state with their last
    bytes.
    """
    known = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_LOOPS]
    if known >= 0:
        return known
    return np.int64(0) if nodes < _LARGE else _find_loops(h, state)


@kernel
def _find_loops(h, state):
    """Compute the loops of a state and note them in L_LOOPS; return them, or a status.

    An ASCII kind is a loop only if *all* of its bytes lead back to the very same state and no lexeme ends. Each kind is given
    up at its first byte that does not, so a state without loops costs one transition for each kind.
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
    """Return the kinds of a state's heads (bit k: kind k, ``BYTE_KIND``), ``ANY_KIND`` if the heads are many; or a status."""
    row = row_of(h, state)  # making the row also notes the heads
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
    """Return 1 if all tokens below a trie node are found to be allowed, else 0; or a status.

    ``before`` and ``after`` are the states before and after the node's byte. All tokens are allowed if all bytes below are
    loops of ``after``. In the slice trie, where characters are whole, :func:`_takes_characters` also tries subtrees of letters
    only, and subtrees below a byte beyond ASCII.
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
    """Do :func:`takes_all_below` for a node of the slice trie below which not all bytes are loops.

    If the node's byte is beyond ASCII, the whole character may lead back to ``before``. Otherwise what is below is letters
    (``_LETTER_KINDS``), and ``after`` may be found to take as many in any order.
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
    # a token below has at most as many characters as there are nodes, and as the longest token of the subtree has
    return takes_letters(h, after, np.int64(letters), np.int64(min(nodes, i32(h, layout.TRIE_CHARS)[at]) - 1))
