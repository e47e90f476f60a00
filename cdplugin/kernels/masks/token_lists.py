"""Lists of tokens in TOKEN_LISTS: as ids, or, where that is shorter, as a bitmask (``AS_BITMASK`` in the place of a length).

A list is made at the end of what is in use. It begins as ids; one that has become a bitmask may have further ids behind it,
until these are added to it::

    ids        start | 17 | 4 | 4096 | …                         TOKENS_USED
    folded     start | a bitmask of WORDS items | 9 | 512 | …    TOKENS_USED
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, has_room, header, i32


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
    """End the token list that begins at ``start`` and reaches to TOKENS_USED: as ids if that is shorter than a bitmask, else
    as a bitmask. Its length, ``AS_BITMASK``, or ``GROW``. Order is lost.
    """
    head = header(h)
    count = head[layout.TOKENS_USED] - start
    # an id takes as much room as 32 tokens of a bitmask
    return count if count <= head[layout.WORDS] else np.int64(fold(h, start, False))


@kernel
def fold(h, start, folded):
    """Make a bitmask of the ids from ``start`` to TOKENS_USED, or, if they stand behind one (``folded``), add them to it:
    ``AS_BITMASK``, or ``GROW``.

    The first bitmask is made behind the ids and moved over them, so it needs ``WORDS`` more items for a moment.
    """
    head = header(h)
    words = head[layout.WORDS]
    end = head[layout.TOKENS_USED]
    first, mask = (start + words, start) if folded else (start, end)
    if not folded and not has_room(h, layout.TOKEN_LISTS, end + words):
        return statuses.GROW
    tokens = i32(h, layout.TOKEN_LISTS)
    if not folded:
        for i in range(end, end + words):
            tokens[i] = 0
    add_list(h, first, end - first, tokens[mask : mask + words])
    if not folded:
        copy_words(tokens, start, tokens, end, words)
    head[layout.TOKENS_USED] = start + words
    return mask_layout.AS_BITMASK
