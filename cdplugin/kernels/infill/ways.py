"""Ways: from which nodes the rest of a rule leads to one of some given nodes. Memoised where rows are long.

A *way* is a pair (dot, row of nodes). Its answer is the row of nodes from which the rest behind the dot leads to a node of the
given row. On long canvases the same few ways are asked for at thousands of nodes. So a way is interned, and its answer is
filled in word by word as it is asked for; short rows (:func:`is_long`) are not worth it.

The question itself, :func:`leads_out`, intersects two rows: ``REST`` of the dot at a node, and the given nodes.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, has_bit, meet, new_row, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, equal_words, first_slot, i64, mix

LONG = 8  # ways are memoised in rows of at least so many words


@kernel
def is_long(w):
    """Whether rows are so long that ways are memoised."""
    return whead(w)[ws.W_WIDTH] >= LONG


@kernel
def forget_ways(w):
    """Forget all ways; 0 or ``W_GROW``."""
    head = whead(w)
    head[ws.W_STAMP] += 1
    head[ws.W_WAY_STAMP] = head[ws.W_STAMP]
    head[ws.W_N_WAYS] = 0
    return np.int64(0 if room(w, ws.WAY_HASH, 1024) else statuses.W_GROW)


@kernel
def leads_out(h, w, end, dot, out):
    """Whether the rest behind ``dot`` leads from node ``end`` to a node of the row ``out`` (0: empty)."""
    bits = tab(w, ws.BITS)
    if out == 0:
        return False
    charge(w, 1 + (whead(w)[ws.W_WIDTH] >> 1))
    if i64(h, layout.DOT_NULL_REST)[dot] and has_bit(bits, out, end):
        return True
    rest = tab(w, ws.REST)[end * whead(w)[ws.W_N_DOTS] + dot]
    return rest != 0 and meet(bits, rest, out, whead(w)[ws.W_WIDTH])


@kernel
def way_of(w, dot, out):
    """The answer row of the way (dot, row ``out``), interned now if it is new; or ``W_GROW``. The row after it: the nodes asked
    about.

    Ways are hashed and compared by the words of ``out``: different items have equal rows.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    bits = tab(w, ws.BITS)
    hash_ = mix(layout.HASH_SEED, dot)
    charge(w, width)
    for i in range(out, out + width):
        if bits[i]:
            hash_ = mix(mix(hash_, i - out), bits[i])
    index = tab(w, ws.WAY_HASH)
    ways = tab(w, ws.WAYS)
    stamp = head[ws.W_WAY_STAMP]
    size = index.shape[0] - 1
    slot = first_slot(hash_, size)
    while index[slot] >> 32 == stamp:
        at = (index[slot] & 0xFFFFFFFF) * ws.WAY_WORDS
        if ways[at + ws.WAY_DOT] == dot:
            if equal_words(bits, ways[at + ws.WAY_OUT], bits, out, width):
                return ways[at + ws.WAY_ROW]
        slot = (slot + 1) & size
    number = head[ws.W_N_WAYS]
    if 2 * (number + 1) > index.shape[0]:
        room(w, ws.WAY_HASH, 2 * index.shape[0])
        return np.int64(statuses.W_GROW)
    if not room(w, ws.WAYS, (number + 1) * ws.WAY_WORDS):
        return np.int64(statuses.W_GROW)
    wanted = new_row(w)
    row = new_row(w)
    asked = new_row(w)
    if wanted < 0 or row < 0 or asked < 0:
        return np.int64(statuses.W_GROW)
    bits = tab(w, ws.BITS)
    copy_words(bits, wanted, bits, out, width)
    ways = tab(w, ws.WAYS)
    at = number * ws.WAY_WORDS
    ways[at + ws.WAY_DOT] = dot
    ways[at + ws.WAY_OUT] = wanted
    ways[at + ws.WAY_ROW] = row
    tab(w, ws.WAY_HASH)[slot] = (stamp << 32) | number
    head[ws.W_N_WAYS] = number + 1
    return row


@kernel
def ask(h, w, dot, out, way, i, word):
    """The nodes of ``word``, word ``i`` of a row, from which the way (dot, out) leads out. ``way``: the row of :func:`way_of`.

    Only nodes that were not asked about before are computed.
    """
    bits = tab(w, ws.BITS)
    width = whead(w)[ws.W_WIDTH]
    fresh = word & ~bits[way + width + i]
    if fresh:
        bits[way + width + i] |= fresh
        found = np.int64(0)
        while fresh:
            bit = low_bit(fresh)
            fresh &= fresh - 1
            if leads_out(h, w, 64 * i + bit, dot, out):
                found |= np.int64(1) << bit
        bits[way + i] |= found
    return word & bits[way + i]


@kernel
def some_leads_out(h, w, dot, out, ends):
    """Whether the rest behind ``dot`` leads from some node of the row ``ends`` to one of ``out``: 1, 0, or ``W_GROW``."""
    if out == 0:
        return np.int64(0)
    way = np.int64(0)
    if is_long(w):
        way = way_of(w, dot, out)
        if way < 0:
            return way
    for i in range(whead(w)[ws.W_WIDTH]):
        word = tab(w, ws.BITS)[ends + i]
        if way:
            if word and ask(h, w, dot, out, way, i, word):
                return np.int64(1)
            continue
        while word:
            node = 64 * i + low_bit(word)
            word &= word - 1
            if leads_out(h, w, node, dot, out):
                return np.int64(1)
    return np.int64(0)
