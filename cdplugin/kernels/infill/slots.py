"""Slots in the lattice: exactly one token comes, and lexemes may end inside it.

Where a lexeme ends inside a token, only the class of the token's rest matters (:mod:`cdplugin.kernels.infill.effects`). So each
class that may come up in the slot gets a node. Equal ways to end are united over all live sets first, so each is recorded
once.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.boundaries import end_at, end_inside, end_text, fresh_node
from cdplugin.kernels.infill.starts import allow
from cdplugin.kernels.infill.state_sets import add_live, fresh_stamp, swap_live
from cdplugin.kernels.infill.steps import set_of_class, step_of
from cdplugin.kernels.infill.workspace import charge, live_row, or_row, room, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import count_bits, kernel
from cdplugin.kernels.lexer.fields import is_skip
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import sort_range

CROSSES = 1 << 62


@kernel
def pass_slot(h, w, k, accepts):
    """Step all live sets by a slot, element ``k``: the first node after it (there may be none), or a status.

    ``accepts``: 1 if the text may end behind the slot. Crossings lead to lower classes, so the classes' nodes are numbered from
    the highest class down.
    """
    head = whead(w)
    n_live = head[ws.W_N_LIVE]
    cap = np.int64(ws.SLOT) - tab(w, ws.ELEMENTS)[k]
    head[ws.W_CLASS_CAP] = cap
    for i in range(n_live):
        record = step_of(h, w, tab(w, ws.LIVE)[2 * i], np.int64(ws.BY_SLOT), cap)
        if record < 0:
            return record
    # steps take stamps: make all of them before the slot takes its own
    stamp = fresh_stamp(w)
    n_classes = _classes_in_slot(h, w, cap, stamp)
    if n_classes < 0:
        return n_classes
    used = head[ws.W_CLASS_LIST_USED]
    status = _nodes_in_slot(w, k, n_classes, stamp)
    if status < 0:
        return status
    first = head[ws.W_NODES]
    # how lexemes end in the token: noted first, so that equal ways are recorded once
    head[ws.W_N_SLOT_ENDS] = 0
    count = np.int64(0)
    for i in range(n_live):
        live = tab(w, ws.LIVE)
        record = step_of(h, w, live[2 * i], np.int64(ws.BY_SLOT), cap)
        steps = tab(w, ws.STEPS)
        count = add_live(w, ws.LIVE_NEXT, count, steps[record + ws.S_NEXT], live[2 * i + 1], stamp)
        if count < 0:
            return count
        begin = record + ws.S_FIRST
        status = _note_slot_ends(
            w, steps, begin, steps[record + ws.S_ENDS], steps[record + ws.S_CROSSINGS], live[2 * i + 1], stamp
        )
        if status < 0:
            return status
    for i in range(used, used + n_classes):
        suffix_class = tab(w, ws.CLASS_LIST)[2 * i]
        set_ = set_of_class(h, w, suffix_class)
        # the token's rest began at the class's node
        row = live_row(w)
        if row < 0 or set_ < 0:
            return min(row, set_)
        set_bit(tab(w, ws.LIVE_BITS), row, tab(w, ws.CLASS_LIST)[2 * i + 1])
        count = add_live(w, ws.LIVE_NEXT, count, set_, row, stamp)
        if count < 0:
            return count
        pool = tab(w, ws.POOL)
        record = tab(w, ws.CLASS_RECORD)[suffix_class]
        begin = record + ws.E_FIRST + pool[record + ws.E_STATES]
        if _note_slot_ends(w, pool, begin, pool[record + ws.E_ENDS], pool[record + ws.E_CROSSINGS], row, stamp) < 0:
            return np.int64(statuses.W_GROW)
    status = _record_slot_ends(h, w, first, accepts)
    if status < 0:
        return status
    swap_live(w, count)
    return first


@kernel
def _classes_in_slot(h, w, cap, stamp):
    """Write the classes that come up in a slot to ``QUEUE``, from the highest down: how many there are, or ``W_GROW``.

    These are the classes in crossings of the live sets, then those in crossings of these classes, and so on. None is above
    ``cap``, the number of classes that the slot is planned with.
    """
    n_classes = np.int64(0)
    if cap == 0:
        return n_classes
    for i in range(whead(w)[ws.W_N_LIVE]):
        record = step_of(h, w, tab(w, ws.LIVE)[2 * i], np.int64(ws.BY_SLOT), cap)
        steps = tab(w, ws.STEPS)
        begin = record + ws.S_FIRST + steps[record + ws.S_ENDS]
        n_classes = _note_classes(w, steps, begin, steps[record + ws.S_CROSSINGS], n_classes, stamp, cap)
        if n_classes < 0:
            return n_classes
    at = 0
    while at < n_classes:
        pool = tab(w, ws.POOL)
        record = tab(w, ws.CLASS_RECORD)[tab(w, ws.QUEUE)[at]]
        at += 1
        begin = record + ws.E_FIRST + pool[record + ws.E_STATES] + pool[record + ws.E_ENDS]
        n_classes = _note_classes(w, pool, begin, pool[record + ws.E_CROSSINGS], n_classes, stamp, cap)
        if n_classes < 0:
            return n_classes
    classes = tab(w, ws.QUEUE)
    charge(w, 8 * n_classes)
    sort_range(classes, 0, n_classes)
    for i in range(n_classes // 2):
        saved = classes[i]
        classes[i] = classes[n_classes - 1 - i]
        classes[n_classes - 1 - i] = saved
    return n_classes


@kernel
def _nodes_in_slot(w, k, n_classes, stamp):
    """Make a node for each class in ``QUEUE``, and list them for element ``k``; 0 or a status.

    At the hole all classes share one node: the mask itself finds where lexemes end inside its tokens. ``CLASS_NODE`` finds a
    class's node while the slot is passed, ``CLASS_LIST`` afterwards.
    """
    head = whead(w)
    used = head[ws.W_CLASS_LIST_USED]
    if not room(w, ws.CLASS_LIST, 2 * (used + n_classes)):
        return np.int64(statuses.W_GROW)
    classes = tab(w, ws.QUEUE)
    listed = tab(w, ws.CLASS_LIST)
    node = np.int64(-1)
    for i in range(n_classes):
        if node < 0 or k != head[ws.W_HOLE]:
            node = fresh_node(w, 1)
        if node < 0:
            return node
        tab(w, ws.CLASS_NODE)[classes[i]] = (stamp << 32) | node
        listed[2 * (used + i)] = classes[i]
        listed[2 * (used + i) + 1] = node
    tab(w, ws.SLOT_CLASSES)[2 * k] = used
    tab(w, ws.SLOT_CLASSES)[2 * k + 1] = n_classes
    head[ws.W_CLASS_LIST_USED] = used + n_classes
    return np.int64(0)


@kernel
def _note_classes(w, pairs, begin, n_pairs, count, stamp, cap):
    """Append the unmarked classes of some crossings to ``QUEUE``; the new count, or ``W_GROW``.

    Crossings ascend by class, so the first one above ``cap`` ends the loop.
    """
    for i in range(begin, begin + n_pairs):
        suffix_class = pairs[i] & 0xFFFFFFFF
        if suffix_class > cap:
            break
        charge(w, 2)
        if not room(w, ws.CLASS_NODE, suffix_class + 1) or not room(w, ws.QUEUE, count + 1):
            return np.int64(statuses.W_GROW)
        nodes = tab(w, ws.CLASS_NODE)
        if nodes[suffix_class] >> 32 != stamp:
            nodes[suffix_class] = stamp << 32
            tab(w, ws.QUEUE)[count] = suffix_class
            count += 1
    return np.int64(count)


@kernel
def _note_slot_ends(w, lists, begin, n_ends, n_crossings, starts, stamp):
    """Note how lexemes end from a row of starts: sets with the token, crossings inside it; 0 or ``W_GROW``."""
    cap = whead(w)[ws.W_CLASS_CAP]
    n_lexemes = whead(w)[ws.W_N_LEXEMES]
    for i in range(begin, begin + n_ends):
        if _note_slot_end(w, ws.SET_MARK, lists[i], lists[i], starts, stamp) < 0:
            return np.int64(statuses.W_GROW)
    for i in range(begin + n_ends, begin + n_ends + n_crossings):
        suffix_class = lists[i] & 0xFFFFFFFF
        if suffix_class > cap:
            break
        if _note_slot_end(w, ws.CROSS_MARK, suffix_class * n_lexemes + (lists[i] >> 32), CROSSES | lists[i], starts, stamp) < 0:
            return np.int64(statuses.W_GROW)
    return np.int64(0)


@kernel
def _note_slot_end(w, marks, key, what, starts, stamp):
    """Add a row of starts to those of an equal way to end in ``SLOT_ENDS``; 0 or ``W_GROW``.

    ``what``: a set of lexemes that ends with the token, or a crossing with the flag ``CROSSES``. ``key``: its entry in
    ``marks``, which is ``SET_MARK`` or ``CROSS_MARK``; the mark finds the entry of ``SLOT_ENDS``.
    """
    head = whead(w)
    count = head[ws.W_N_SLOT_ENDS]
    charge(w, 4 + head[ws.W_WIDTH])
    if not room(w, marks, key + 1) or not room(w, ws.SLOT_ENDS, 2 * count + 2):
        return np.int64(statuses.W_GROW)
    mark = tab(w, marks)
    ends = tab(w, ws.SLOT_ENDS)
    if mark[key] >> 32 == stamp:
        or_row(tab(w, ws.LIVE_BITS), ends[2 * (mark[key] & 0xFFFFFFFF) + 1], starts, head[ws.W_WIDTH])
        return np.int64(0)
    row = live_row(w)
    if row < 0:
        return row
    or_row(tab(w, ws.LIVE_BITS), row, starts, head[ws.W_WIDTH])
    ends[2 * count] = what
    ends[2 * count + 1] = row
    mark[key] = (stamp << 32) | count
    head[ws.W_N_SLOT_ENDS] = count + 1
    return np.int64(0)


@kernel
def _record_slot_ends(h, w, first, accepts):
    """Record where the noted lexemes end: inside the token, or after it (nodes from ``first`` on); 0 or a status.

    The nodes inside the token come first: what may start where a skip ends is what may start where it began.
    """
    head = whead(w)
    for i in range(head[ws.W_N_SLOT_ENDS]):
        what = tab(w, ws.SLOT_ENDS)[2 * i]
        if what & CROSSES:
            status = end_inside(h, w, tab(w, ws.SLOT_ENDS)[2 * i + 1], (what & ~CROSSES) >> 32, _node_inside(w, what))
            if status < 0:
                return status
    if not head[ws.W_SPLIT]:
        _allow_after_skips(h, w)
    for i in range(head[ws.W_N_SLOT_ENDS]):
        what = tab(w, ws.SLOT_ENDS)[2 * i]
        starts = tab(w, ws.SLOT_ENDS)[2 * i + 1]
        if what & CROSSES:
            continue
        status = end_at(h, w, starts, what, first, np.int64(0))  # nodes of slots are not narrowed
        if status >= 0 and accepts:
            status = end_text(h, w, starts, what)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _node_inside(w, what):
    """The node of the class of a noted crossing."""
    return tab(w, ws.CLASS_NODE)[what & 0xFFFFFFFF] & 0xFFFFFFFF


@kernel
def _allow_after_skips(h, w):
    """Let lexemes start where skips end inside the token if they may start where the skips began; until nothing is new."""
    words = whead(w)[ws.W_SET]
    is_new = True
    while is_new:
        is_new = False
        for i in range(whead(w)[ws.W_N_SLOT_ENDS]):
            what = tab(w, ws.SLOT_ENDS)[2 * i]
            lexeme = (what & ~CROSSES) >> 32
            if what & CROSSES == 0 or not is_skip(h, lexeme):
                continue
            node = _node_inside(w, what)
            allowed = tab(w, ws.ALLOWED)
            before = np.int64(0)
            after = np.int64(0)
            for j in range(node * words, (node + 1) * words):
                before += count_bits(allowed[j])
            allow(h, w, tab(w, ws.SLOT_ENDS)[2 * i + 1], lexeme, node)
            for j in range(node * words, (node + 1) * words):
                after += count_bits(allowed[j])
            charge(w, 4 + 2 * words)
            is_new = is_new or after != before
