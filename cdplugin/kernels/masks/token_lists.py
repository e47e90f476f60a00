"""Token lists in TOKEN_LISTS: token ids, or, where that is shorter, a bitmask (``AS_BITMASK`` stored instead of a length).

A list under construction is the end of the used part of the table. It begins as ids. Once it is a bitmask, further ids are
appended behind the bitmask, until they are folded into it::

    ids        start | 17 | 4 | 4096 | …                         TOKENS_USED
    folded     start | a bitmask of WORDS items | 9 | 512 | …    TOKENS_USED
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, fill_words, has_room, header, i32


@kernel
def add_list(h, start, length, out):
    """OR a token list (``length`` ids from ``start`` on, or a bitmask) into the mask row ``out``."""
    tokens = i32(h, layout.TOKEN_LISTS)
    if length == mask_layout.AS_BITMASK:
        for i in range(header(h)[layout.WORDS]):
            out[i] |= tokens[start + i]
        return
    for i in range(start, start + length):
        token = tokens[i]
        out[token >> 5] |= np.int32(1 << (token & 31))


@kernel
def close_list(h, start):
    """End the token list that reaches from ``start`` to TOKENS_USED, as ids or as a bitmask, whichever is shorter.

    Return its length, ``AS_BITMASK``, or ``GROW``. As a bitmask, the list loses its order.
    """
    head = header(h)
    count = head[layout.TOKENS_USED] - start
    # an id takes an item, as do 32 bits of a bitmask
    return count if count <= head[layout.WORDS] else np.int64(fold(h, start, False))


@kernel
def fold(h, start, folded):
    """Turn the ids from ``start`` to TOKENS_USED into a bitmask; return ``AS_BITMASK``, or ``GROW``.

    ``folded``: a bitmask stands at ``start`` already, and the ids behind it are added to it. Else the bitmask is built behind
    the ids and moved over them, so this needs ``WORDS`` more items for a moment.
    """
    head = header(h)
    words = head[layout.WORDS]
    end = head[layout.TOKENS_USED]
    first, mask = (start + words, start) if folded else (start, end)
    if not folded and not has_room(h, layout.TOKEN_LISTS, end + words):
        return statuses.GROW
    tokens = i32(h, layout.TOKEN_LISTS)
    if not folded:
        fill_words(tokens, end, words, 0)
    add_list(h, first, end - first, tokens[mask : mask + words])
    if not folded:
        copy_words(tokens, start, tokens, end, words)
    head[layout.TOKENS_USED] = start + words
    return mask_layout.AS_BITMASK
