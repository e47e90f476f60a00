"""Where the lattice of the last text can be gone on with: at the first element that is another one.

Before each element the lattice notes what is alive. Rows of ``LIVE_BITS`` are only ever appended, and nodes numbered upwards,
so what comes after a checkpoint is cut off. One element more than need be is redone: the lexemes that a byte ends, and those
that start before it, are noted at nodes that were there before.

On a canvas whose slots are filled one by one, so, only what is right of the filled slot is run through again.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.spans import clear_from, forget_ends
from cdplugin.kernels.infill.workspace import charge, cut_rows, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.store import statuses


@kernel
def note_checkpoint(w, k, first):
    """Note what is known before element ``k``: the sets that are alive with their rows, and how much of each table is used. 0
    or ``W_GROW``. ``first``: the first node after the element before.
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
    for i in range(2 * count):
        words[at + ws.CP_LIVE + i] = live[i]
    tab(w, ws.CHECKPOINT_AT)[k] = at
    head[ws.W_CHECKPOINTS_USED] = at + ws.CP_LIVE + 2 * count
    head[ws.W_N_CHECKPOINTS] = k + 1
    return np.int64(0)


@kernel
def take_text(w):
    """Compare the text with the one of the checkpoints, and take its place: the element to go on from, 0 if there is none, or
    ``W_GROW``.

    Where a text may end inside, lexemes that end there were noted at the end of the text: nothing after it can be reused.
    Where there is a hole, the pass begins there at the latest, since what is alive there is asked for; and a slot that was one
    has one node, so that the next text is another one there. Where nodes depend on the text ahead (``W_NARROW``), it begins
    where none had looked so far ahead.
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

    Nodes, live rows and ends from there on are forgotten. Rows that are still in use may have got bits for later nodes; these
    are taken out.
    """
    head = whead(w)
    at = tab(w, ws.CHECKPOINT_AT)[k]
    words = tab(w, ws.CHECKPOINTS)
    count = words[at + ws.CP_N_LIVE]
    charge(w, 16 + count * (1 + head[ws.W_WIDTH]))
    if not room(w, ws.LIVE, 2 * count):
        return np.int64(statuses.W_GROW)
    live = tab(w, ws.LIVE)
    for i in range(2 * count):
        live[i] = words[at + ws.CP_LIVE + i]
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
