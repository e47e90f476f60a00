"""Tokenize a given text with the fewest tokens, for short endings (:mod:`cdplugin.queries.completion`).

A shortest path over the positions of the text, from its end: at each position the trie is followed along the text, and each
token on the way is an edge.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i64, view_u8
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import has_room, i32, i64, spend, u8


@kernel
def spell(h, text_address, n, banned_address):
    """Leave a shortest tokenization of ``n`` bytes on the stack; return how many tokens, ``NOT_SPELT`` plus a position, or a
    status.

    Among equally short ones it takes the longest tokens first. ``text_address``: uint8[n]. ``banned_address``: int64 words, a
    count and the tokens that must not be used. Dynamic programming from the end of the text; a distance of ``n + 1`` means
    "cannot be spelled". Work: bytes × longest token × children of a node.
    """
    if not has_room(h, layout.STACK, 3 * (n + 1)):
        return np.int64(statuses.GROW)
    text = view_u8(text_address, n)
    # by position: tokens to the end of the text; from n + 1 on, the token to take; from 2 n + 2 on, its bytes
    words = i64(h, layout.STACK)
    chosen, length = n + 1, 2 * n + 2
    words[n] = 0
    for start in range(n - 1, -1, -1):
        if not spend(h, 32):
            return np.int64(statuses.LIMIT_WORK)
        words[start] = n + 1
        words[chosen + start] = -1
        words[length + start] = 0
        _choose(h, text, start, n, banned_address)
    count = np.int64(0)
    at = np.int64(0)
    while at < n:
        if words[chosen + at] < 0:
            return mask_layout.NOT_SPELT + at
        words[count] = words[chosen + at]  # count <= at: only distances that are no longer needed are overwritten
        at += words[length + at]
        count += 1
    return count


@kernel
def _choose(h, text, start, n, banned_address):
    """Write, for the position ``start``, the token to take, its bytes, and the tokens to the end. All later positions are
    final.
    """
    trie_byte = u8(h, layout.TRIE_BYTE)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    words = i64(h, layout.STACK)
    chosen, length = n + 1, 2 * n + 2
    root = np.int64(0)
    # the root may have two children by one byte, in the slice trie and in the rest; below, the first one is enough
    while root < trie_byte.shape[0]:
        node, at = root, start
        end = root + skips[root]
        root = end
        if trie_byte[node] != text[at]:
            continue
        while at < n and node < end:
            if trie_byte[node] != text[at]:
                node += skips[node]
                continue
            at += 1
            found = words[at] + 1
            better = found < words[start] or (found == words[start] and at - start > words[length + start])
            if tokens[node] >= 0 and better and not _is_banned(banned_address, tokens[node]):
                words[start] = found
                words[chosen + start] = tokens[node]
                words[length + start] = at - start
            end = node + skips[node]
            node += 1


@kernel
def _is_banned(banned_address, token):
    """Return whether a token is in the list at ``banned_address``. A linear search: there are a few stop tokens."""
    count = view_i64(banned_address, 1)[0]
    banned = view_i64(banned_address, count + 1)
    for i in range(1, count + 1):
        if banned[i] == token:
            return True
    return False
