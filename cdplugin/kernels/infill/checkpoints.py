"""Checkpoints: where the lattice of the last text can be continued, namely at the first element that differs.

Before each element the lattice saves the live sets and how much of each table is used. Rows of ``LIVE_BITS`` are only appended
and nodes are numbered upwards, so everything after a checkpoint can be cut off. One element more than necessary is redone,
since the lexemes that a byte ends and those that start before it are recorded at nodes before it.

When the slots of a canvas are filled one by one, only the text right of the filled slot is read again.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.spans import clear_from, forget_ends
from cdplugin.kernels.infill.workspace import charge, cut_rows, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import copy_words


@kernel
def note_checkpoint(w, k, first):
    """Save the state before element ``k``: the live sets with their rows, and how much of each table is used; 0 or ``W_GROW``.

    ``first``: the first node after the element before.
    """
    head = whead(w)
    count = head[ws.W_N_LIVE]
    at = head[ws.W_CHECKPOINTS_USED]
    charge(w, 16 + count)
    if not room(w, ws.CHECKPOINTS, at + ws.CP_LIVE + 2 * count) or not room(w, ws.CHECKPOINT_AT, k + 1):
        return np.int64(statuses.W_GROW)
    words = tab(w, ws.CHECKPOINTS)
    words[at + ws.CP_FIRST] = first
    words[at + ws.CP_NODES] = head[ws.W_NODES]
    words[at + ws.CP_CLASSES] = head[ws.W_CLASS_LIST_USED]
    words[at + ws.CP_BITS] = head[ws.W_LIVE_USED]
    words[at + ws.CP_LOOKED] = head[ws.W_LOOKED]
    words[at + ws.CP_N_LIVE] = count
    live = tab(w, ws.LIVE)
    copy_words(words, at + ws.CP_LIVE, live, 0, 2 * count)
    tab(w, ws.CHECKPOINT_AT)[k] = at
    head[ws.W_CHECKPOINTS_USED] = at + ws.CP_LIVE + 2 * count
    head[ws.W_N_CHECKPOINTS] = k + 1
    return np.int64(0)


@kernel
def take_text(w):
    """Compare the text with the one of the checkpoints and replace it: the element to continue from, 0 if from none, or
    ``W_GROW``.

    Four restrictions. Behind a place where the text may end, nothing is reused: lexemes that end there were recorded at the end
    of the text. With a hole, the pass begins there at the latest, since it takes the snapshot. A slot that was the hole had one
    node for all classes, so it is stored as ``NO_ELEMENT``, which differs from any. Where nodes depend on the text ahead
    (``W_NARROW``), the pass begins at a checkpoint that had not read beyond the equal part.
    """
    head = whead(w)
    count = head[ws.W_ELEMENTS]
    charge(w, 2 * count)
    if not room(w, ws.LAST_TEXT, 2 * count + 2):
        return np.int64(statuses.W_GROW)
    elements = tab(w, ws.ELEMENTS)
    accepts = tab(w, ws.ACCEPTS)
    last_text = tab(w, ws.LAST_TEXT)
    last = min(head[ws.W_N_CHECKPOINTS] - 1, min(count, head[ws.W_LAST_ELEMENTS]))
    if head[ws.W_HOLE] >= 0:
        last = min(last, head[ws.W_HOLE])
    same = np.int64(0)
    while (
        same < last
        and not accepts[same]
        and last_text[2 * same] == elements[same]
        and last_text[2 * same + 1] == accepts[same + 1]
    ):
        same += 1
    for i in range(count):
        last_text[2 * i] = elements[i]
        last_text[2 * i + 1] = accepts[i + 1]
    if head[ws.W_HOLE] >= 0 and elements[head[ws.W_HOLE]] <= ws.SLOT:
        last_text[2 * head[ws.W_HOLE]] = ws.NO_ELEMENT
    head[ws.W_LAST_ELEMENTS] = count
    head[ws.W_N_CHECKPOINTS] = max(same, 0)
    begin = max(same - 1, np.int64(0))
    while begin > 0 and tab(w, ws.CHECKPOINTS)[tab(w, ws.CHECKPOINT_AT)[begin] + ws.CP_LOOKED] >= same:
        begin -= 1
    return begin


@kernel
def return_to(w, k):
    """Go back to the checkpoint before element ``k``; the first node after the element before, or ``W_GROW``.

    Later nodes, live rows and ends are forgotten. Rows still in use may have bits of later nodes; these are cleared.
    """
    head = whead(w)
    at = tab(w, ws.CHECKPOINT_AT)[k]
    words = tab(w, ws.CHECKPOINTS)
    count = words[at + ws.CP_N_LIVE]
    charge(w, 16 + count * (1 + head[ws.W_WIDTH]))
    if not room(w, ws.LIVE, 2 * count):
        return np.int64(statuses.W_GROW)
    live = tab(w, ws.LIVE)
    copy_words(live, 0, words, at + ws.CP_LIVE, 2 * count)
    head[ws.W_NODES] = words[at + ws.CP_NODES]
    head[ws.W_LOOKED] = words[at + ws.CP_LOOKED]
    for i in range(count):
        clear_from(tab(w, ws.LIVE_BITS), live[2 * i + 1], head[ws.W_NODES], head[ws.W_WIDTH])
    head[ws.W_CLASS_LIST_USED] = words[at + ws.CP_CLASSES]
    cut_rows(w, ws.W_LIVE_USED, ws.W_LIVE_CLEAN, words[at + ws.CP_BITS])
    head[ws.W_N_LIVE] = count
    head[ws.W_CHECKPOINTS_USED] = at
    head[ws.W_N_CHECKPOINTS] = k
    first = words[at + ws.CP_FIRST]
    forget_ends(w, first, head[ws.W_NODES])
    return first
