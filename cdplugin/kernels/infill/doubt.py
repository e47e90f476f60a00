"""Tokens in doubt: those that a mask does not have yet. Only trie subtrees that hold one are walked.

Behind a gap many lexer states are alive (C++: up to 160, Python: 235), and each would take a walk of the whole trie. But if the
gap may have opened a string or a comment, nearly all tokens are allowed at once, and some hundred are left, for instance those
that begin in the middle of a character. So now and then prefix sums of the tokens in doubt are computed in the order of the
trie: a subtree whose first and last sum are equal holds none. A lexer state that accepts none of their first bytes needs no
column and no walk.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, room, tab, whead
from cdplugin.kernels.jit.decorators import count_bits, kernel, low_bit
from cdplugin.kernels.jit.views import view_i32
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.masks.walk import loops_below
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import fill_words, header, i32, u8

_WIDE = 16  # so many kinds of bytes must leave a lexer state as it is
_COUNTED_BITS = 4  # log2 of how many tokens are counted for a quarter of a unit of work
_AGAIN_BITS = 3  # tokens are counted again when more than 1 / 2**3 of those in doubt were decided


@kernel
def begin_doubt(h, w):
    """Make room for a mask, and consider all tokens in doubt; 0 or ``W_GROW``."""
    if not room(w, ws.IN_DOUBT, i32(h, layout.TRIE_LISTED).shape[0] + 1):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.DOUBT_FIRSTS, 4) or not room(w, ws.BEGINNING, 256):
        return np.int64(statuses.W_GROW)
    whead(w)[ws.W_DECIDED] = 0
    fill_words(tab(w, ws.DOUBT_FIRSTS), 0, 4, -1)
    return np.int64(0)


@kernel
def look_for_doubt(h, w, out):
    """Fill ``IN_DOUBT`` and ``DOUBT_FIRSTS`` anew if many tokens were decided since: 1, 0 if none is left, or ``W_GROW``."""
    head = whead(w)
    decided = np.int64(0)
    for i in range(out.shape[0]):
        decided += count_bits(np.int64(out[i]) & layout.LOW_32)
    if not charge(w, 1 + (out.shape[0] >> 3)):
        return np.int64(statuses.W_GROW)
    in_doubt = tab(w, ws.IN_DOUBT)
    listed = i32(h, layout.TRIE_LISTED)
    n = listed.shape[0]
    known = head[ws.W_DECIDED]
    left = in_doubt[n] if known else np.int64(n)
    if (decided - known) << _AGAIN_BITS <= left:
        return np.int64(left > 0)
    charge(w, n >> _COUNTED_BITS)
    count = np.int64(0)
    in_doubt[0] = 0
    for i in range(n):
        token = listed[i]
        count += 1 - ((out[token >> 5] >> (token & 31)) & 1)
        in_doubt[i + 1] = count
    head[ws.W_DECIDED] = decided
    _note_firsts(h, w)
    return np.int64(count > 0)


@kernel
def _note_firsts(h, w):
    """Fill ``DOUBT_FIRSTS``, the set of first bytes, from ``IN_DOUBT``."""
    skips = i32(h, layout.TRIE_SKIP)
    ranks = i32(h, layout.TRIE_RANK)
    bytes_ = u8(h, layout.TRIE_BYTE)
    in_doubt = tab(w, ws.IN_DOUBT)
    firsts = tab(w, ws.DOUBT_FIRSTS)
    fill_words(firsts, 0, 4, 0)
    node = np.int64(0)
    while node < header(h)[layout.N_NODES]:
        charge(w, 1)
        end = node + skips[node]
        if in_doubt[ranks[end]] != in_doubt[ranks[node]]:
            byte = np.int64(bytes_[node])
            firsts[byte >> 6] |= np.int64(1) << (byte & 63)
        node = end


@kernel
def is_wide(h, state):
    """1 if most kinds of bytes leave a lexer state as it is, as in a comment, so that it may allow nearly all tokens; 0; or a
    status.
    """
    loops = loops_below(h, state, header(h)[layout.N_NODES])
    return loops if loops < 0 else np.int64(count_bits(loops) >= _WIDE)


@kernel
def may_go_on(h, w, state):
    """Whether a lexer state, or a lexeme after one that ends there, accepts the first byte of a token in doubt; 1, 0 or a
    status.
    """
    for i in range(4):
        word = tab(w, ws.DOUBT_FIRSTS)[i]
        while word:
            may = _goes_on_with(h, w, state, np.int64(64 * i + low_bit(word)))
            word &= word - 1
            if may != 0:
                return may
    return np.int64(0)


@kernel
def _goes_on_with(h, w, state, byte):
    """Whether a lexer state, or a lexeme after one that ends there, accepts a byte; 1, 0 or a status."""
    charge(w, ws.NODE_WORK)
    after = transition(h, state, byte)
    if after == lexer_layout.BEFORE:
        return _begins(h, w, byte)
    return after if after < 0 else np.int64(after != 0)


@kernel
def may_begin_at_node(h, w):
    """Whether some lexeme begins with the first byte of a token in doubt; 1, 0 or a status."""
    for i in range(4):
        word = tab(w, ws.DOUBT_FIRSTS)[i]
        while word:
            begins = _begins(h, w, np.int64(64 * i + low_bit(word)))
            word &= word - 1
            if begins != 0:
                return begins
    return np.int64(0)


@kernel
def _begins(h, w, byte):
    """Whether some lexeme of the grammar begins with a byte; 1, 0 or a status. Memoised in ``BEGINNING``."""
    known = tab(w, ws.BEGINNING)[byte]
    if known == 0:
        known = np.int64(1)
        for i in range(whead(w)[ws.W_N_STARTS]):
            charge(w, ws.NODE_WORK)
            after = transition(h, tab(w, ws.STARTS)[i], byte)
            if after < 0:
                return after
            if after != 0:
                known = np.int64(2)
                break
        tab(w, ws.BEGINNING)[byte] = known
    return known - 1


@kernel
def may_begin(h, w, row_address):
    """Whether a token that a mask row does not have may stand at the hole, by its first byte alone; 1, 0 or a status.

    Whatever the parser allows: only the lattice is needed. Leaves in ``DOUBT_FIRSTS`` the first bytes that may come.
    """
    head = whead(w)
    out = view_i32(row_address, header(h)[layout.WORDS])
    status = begin_doubt(h, w)
    if status == 0:
        status = look_for_doubt(h, w, out)
    if status <= 0:
        return status
    has_nodes = tab(w, ws.NODE_BEFORE)[head[ws.W_HOLE]] < tab(w, ws.NODE_LAST)[head[ws.W_HOLE]]
    firsts = tab(w, ws.DOUBT_FIRSTS)
    some = np.int64(0)
    for byte in range(256):
        bit = np.int64(1) << (byte & 63)
        if firsts[byte >> 6] & bit == 0:
            continue
        may = _begins(h, w, np.int64(byte)) if has_nodes else np.int64(0)
        for i in range(head[ws.W_N_SNAPSHOT]):
            if may == 0:
                may = _goes_on_with(h, w, tab(w, ws.SNAPSHOT)[2 * i], np.int64(byte))
        if may < 0:
            return may
        if may == 0:
            firsts[byte >> 6] &= ~bit
        some |= may
    return some


@kernel
def allow_listed(h, out, first, last):
    """Add the tokens of the ranks ``first .. last - 1`` to a mask row."""
    listed = i32(h, layout.TRIE_LISTED)
    for i in range(first, last):
        out[listed[i] >> 5] |= np.int32(1 << (listed[i] & 31))
