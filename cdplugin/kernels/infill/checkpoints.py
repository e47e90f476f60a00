"""Where the lattice of the last text can be gone on with: at the first element that is another one.

Before each element the lattice notes what is alive. Rows of ``LIVE_BITS`` are only ever appended, and nodes numbered upwards,
so what comes after a checkpoint is cut off. One element more than need be is redone: the lexemes that a byte ends, and those
that start before it, are noted at nodes that were there before.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill.spans import clear_from, forget_ends
from cdplugin.kernels.infill.workspace import (
    ACCEPTS,
    CHECKPOINT_AT,
    CHECKPOINTS,
    ELEMENTS,
    KEPT_TEXT,
    LIVE,
    LIVE_BITS,
    W_CHECKPOINTS_USED,
    W_CLASS_LIST_USED,
    W_ELEMENTS,
    W_GROW,
    W_HOLE,
    W_KEPT_ELEMENTS,
    W_LIVE_USED,
    W_N_CHECKPOINTS,
    W_N_LIVE,
    W_NODES,
    W_WIDTH,
    room,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import kernel

# a checkpoint: the first node after the element before, nodes, used of CLASS_LIST and of LIVE_BITS, what is alive
P_FIRST, P_NODES, P_CLASSES, P_BITS, P_N_LIVE, P_LIVE = range(6)


@kernel
def keep_checkpoint(w, k, first):
    """Note what is known before element ``k``; 0 or ``W_GROW``."""
    head = whead(w)
    count = head[W_N_LIVE]
    at = head[W_CHECKPOINTS_USED]
    if not room(w, CHECKPOINTS, at + P_LIVE + 2 * count) or not room(w, CHECKPOINT_AT, k + 1):
        return np.int64(W_GROW)
    words = tab(w, CHECKPOINTS)
    words[at + P_FIRST] = first
    words[at + P_NODES] = head[W_NODES]
    words[at + P_CLASSES] = head[W_CLASS_LIST_USED]
    words[at + P_BITS] = head[W_LIVE_USED]
    words[at + P_N_LIVE] = count
    live = tab(w, LIVE)
    for i in range(2 * count):
        words[at + P_LIVE + i] = live[i]
    tab(w, CHECKPOINT_AT)[k] = at
    head[W_CHECKPOINTS_USED] = at + P_LIVE + 2 * count
    head[W_N_CHECKPOINTS] = k + 1
    return np.int64(0)


@kernel
def keep_text(w):
    """Compare the text with the one of the checkpoints, and take its place: the element to go on from, 0 if there is none, or
    ``W_GROW``.

    Where a text may end inside, lexemes that end there were noted at the end of the text: nothing after it can be kept.
    """
    head = whead(w)
    count = head[W_ELEMENTS]
    if not room(w, KEPT_TEXT, 2 * count + 2):
        return np.int64(W_GROW)
    elements = tab(w, ELEMENTS)
    accepts = tab(w, ACCEPTS)
    kept = tab(w, KEPT_TEXT)
    last = min(head[W_N_CHECKPOINTS] - 1, min(count, head[W_KEPT_ELEMENTS]))
    if head[W_HOLE] >= 0:
        last = min(last, head[W_HOLE])
    same = np.int64(0)
    while same < last and not accepts[same] and kept[2 * same] == elements[same] and kept[2 * same + 1] == accepts[same + 1]:
        same += 1
    for i in range(count):
        kept[2 * i] = elements[i]
        kept[2 * i + 1] = accepts[i + 1]
    head[W_KEPT_ELEMENTS] = count
    head[W_N_CHECKPOINTS] = max(same, 0)
    return max(same - 1, np.int64(0))


@kernel
def return_to(w, k):
    """Go back to the checkpoint before element ``k``; the first node after the element before, or ``W_GROW``."""
    head = whead(w)
    at = tab(w, CHECKPOINT_AT)[k]
    words = tab(w, CHECKPOINTS)
    count = words[at + P_N_LIVE]
    if not room(w, LIVE, 2 * count):
        return np.int64(W_GROW)
    live = tab(w, LIVE)
    for i in range(2 * count):
        live[i] = words[at + P_LIVE + i]
    head[W_NODES] = words[at + P_NODES]
    for i in range(count):
        clear_from(tab(w, LIVE_BITS), live[2 * i + 1], head[W_NODES], head[W_WIDTH])
    head[W_CLASS_LIST_USED] = words[at + P_CLASSES]
    head[W_LIVE_USED] = words[at + P_BITS]
    head[W_N_LIVE] = count
    head[W_CHECKPOINTS_USED] = at
    head[W_N_CHECKPOINTS] = k
    first = words[at + P_FIRST]
    forget_ends(w, first, head[W_NODES])
    return first
