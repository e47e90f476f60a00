"""The lattice: where in a text with gaps and slots lexemes may begin and end.

:func:`build_lattice` is the first operation on each text (:mod:`cdplugin.kernels.infill.entry`). It reads the text once, from
left to right. Lexemes that begin at one node are tracked as one interned set of lexer states
(:mod:`cdplugin.kernels.infill.state_sets`); nodes with the same set are one row of bits. A byte, a gap or a slot maps each set
to another one (:mod:`cdplugin.kernels.infill.steps`). Where lexemes end there is a node, and ``ENDS`` records which lexemes
lead to it from which nodes (:mod:`cdplugin.kernels.infill.spans` transposes that). So lexemes that end in gaps, begin in them
or span them come out without any strings being tried. This is Bar-Hillel's construction on derivatives; the paper of Mündler et
al. builds an automaton for each pair of partial lexemes instead.

``[a □ ]`` (EXACT lexemes, one node per place; ``{…}`` a set of states, ``@`` the nodes at which its lexemes began)::

    element   alive before it                     result
    [         {"["} @ 0                           "[" ends: node 1
    a         {w: [a-z]+} @ 1                     w ends: node 2; {w: [a-z]*} @ 1 goes on
    □         {w: [a-z]*} @ 1, {"]" ","} @ 2,     node 3 in the gap: w from 1, "," and "]" from 2 end there,
              {w: [a-z]+, "]" ","} @ 3            and what starts inside ends there, too
    ]         {w: [a-z]*} @ 1 3, {"]" …} @ 2 3    "]" ends: node 4, and the end of the text

At a node every lexeme starts that may follow, anywhere in the grammar, a lexeme that ends there. For EXACT lexemes that is
exact: the parser uses what it needs. LONGEST lexemes compete with all of these (:mod:`cdplugin.kernels.infill.boundaries`),
also with those that the parser does not allow after this very text: so each boundary of the lattice is one for the matcher, but
not always vice versa. Inside an open slot they compete with all lexemes of the grammar.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.ahead import begin_ahead
from cdplugin.kernels.infill.boundaries import edge, end_at, end_inside, end_text, fresh_node
from cdplugin.kernels.infill.checkpoints import note_checkpoint, return_to, take_text
from cdplugin.kernels.infill.slots import pass_slot
from cdplugin.kernels.infill.spans import forget_ends, forget_spans, lay_spans
from cdplugin.kernels.infill.starts import allow, start_set
from cdplugin.kernels.infill.state_sets import add_live, fresh_stamp, reuse_sets, swap_live
from cdplugin.kernels.infill.steps import step_of
from cdplugin.kernels.infill.workspace import (
    charge,
    cut_rows,
    end_node,
    final_node,
    has_bit,
    live_row,
    room,
    set_bit,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import copy_words


@kernel
def build_lattice(h, w):
    """Fill ``SPANS``, ``NODE_BEFORE``, ``NODE_LAST`` and ``SNAPSHOT`` from ``ELEMENTS``; 0 or a status.

    One pass from left to right. Before each element: note a checkpoint, end the LONGEST lexemes that cannot continue with the
    element, start the lexemes that may start, and, at the hole, take the snapshot. Then step all live sets by the element;
    lexemes that end in it make nodes. The pass begins at the first element that differs from the last text
    (:mod:`cdplugin.kernels.infill.checkpoints`).

    Work: for each element the sets alive there, plus one step for each new pair (set, element).
    """
    head = whead(w)
    begin = _begin(w)
    if begin < 0:
        return begin
    first = return_to(w, begin) if begin > 0 else _begin_anew(w)
    if first < 0:
        return first
    elements = tab(w, ws.ELEMENTS)
    accepts = tab(w, ws.ACCEPTS)
    count = head[ws.W_ELEMENTS]
    head[ws.W_C_ELEMENTS] += count - begin
    for k in range(begin, count):
        if note_checkpoint(w, np.int64(k), first) < 0:
            return np.int64(statuses.W_GROW)
        element = elements[k]
        if element >= 0:
            # behind a gap, what the byte ends does not end at the gap's node, which is ``first``
            outside = head[ws.W_NODES] if k > 0 and elements[k - 1] == ws.GAP else first
            status = _end_matched(h, w, element, outside, np.int64(k))
            if status < 0:
                return status
        # the byte may have ended LONGEST lexemes before it, which made nodes: only now is the list complete
        tab(w, ws.NODE_BEFORE)[k] = first
        tab(w, ws.NODE_LAST)[k] = head[ws.W_NODES]
        status = _start(h, w, first, head[ws.W_NODES])
        if status < 0:
            return status
        if k == head[ws.W_HOLE]:
            status = _take_snapshot(w)
            if status < 0:
                return status
            head[ws.W_LEFT] = head[ws.W_NODES]
        if element >= 0:
            first = _pass_byte(h, w, element, accepts[k + 1], np.int64(k))
        elif element == ws.GAP:
            first = _pass_gap(h, w, accepts[k + 1])
        else:
            first = pass_slot(h, w, k, accepts[k + 1])
        if first < 0:
            return first
        if accepts[k + 1]:
            status = _end_matched(h, w, np.int64(ws.BY_END), first, np.int64(k))
            if status < 0:
                return status
    tab(w, ws.NODE_BEFORE)[count] = first
    tab(w, ws.NODE_LAST)[count] = head[ws.W_NODES]
    return lay_spans(h, w)


@kernel
def _begin(w):
    """Make room, and find the element from which the last text's lattice still holds: 0 if from none, or ``W_GROW``.

    All tables grow before anything changes, so a call that is repeated finds the last text intact. Rows of another width cannot
    be reused.
    """
    head = whead(w)
    count = head[ws.W_ELEMENTS]
    words = head[ws.W_SET]
    width = head[ws.W_WIDTH]
    head[ws.W_N_SNAPSHOT] = 0
    if (
        not room(w, ws.NODE_BEFORE, count + 1)
        or not room(w, ws.NODE_LAST, count + 1)
        or not room(w, ws.SLOT_CLASSES, 2 * count + 2)
    ):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.ALLOWED, 64 * width * words) or not room(w, ws.NODE_OPEN, 64 * width):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.ENDS, 64 * width * head[ws.W_N_LEXEMES]) or not room(w, ws.ENDS_SETS, width * head[ws.W_N_LEXEMES]):
        return np.int64(statuses.W_GROW)
    narrow = head[ws.W_REUSE] & head[ws.W_SPLIT] & (1 - head[ws.W_HAS_SLOTS])
    if narrow and begin_ahead(w) < 0:
        return np.int64(statuses.W_GROW)
    reused = reuse_sets(w)
    if reused < 0:
        return reused
    if head[ws.W_NARROW] != narrow or head[ws.W_WAS_CUT] != head[ws.W_CUT]:
        head[ws.W_N_CHECKPOINTS] = 0
        head[ws.W_NARROW] = narrow
        head[ws.W_WAS_CUT] = head[ws.W_CUT]
    if head[ws.W_REUSED_WIDTH] != width:
        reused = np.int64(0)
        if forget_spans(w) < 0:
            return np.int64(statuses.W_GROW)
    if not reused:
        head[ws.W_N_CHECKPOINTS] = 0
    return take_text(w)


@kernel
def _begin_anew(w):
    """Reset the lattice to its first node, the beginning of the text; the node's number, 0, or a status."""
    head = whead(w)
    words = head[ws.W_SET]
    n_lexemes = head[ws.W_N_LEXEMES]
    head[ws.W_NODES] = 0
    head[ws.W_LOOKED] = 0
    head[ws.W_CLASS_LIST_USED] = 0
    head[ws.W_N_LIVE] = 0
    cut_rows(w, ws.W_LIVE_USED, ws.W_LIVE_CLEAN, np.int64(0))
    head[ws.W_CHECKPOINTS_USED] = 0
    head[ws.W_N_CHECKPOINTS] = 0
    forget_ends(w, np.int64(0), np.int64(0))
    first = fresh_node(w, 0)
    if first < 0:
        return first
    copy_words(tab(w, ws.ALLOWED), first * words, tab(w, ws.FOLLOWS), n_lexemes * words, words)
    if tab(w, ws.ACCEPTS)[0]:
        status = edge(w, first, n_lexemes - 1, final_node(w))
        if status < 0:
            return status
    return first


@kernel
def _start(h, w, first, last):
    """Start the lexemes that may start at the nodes ``first .. last - 1``: add their sets to ``LIVE``; 0 or a status.

    The sets in ``LIVE`` are stamped anew, so a set that is alive already, say from an earlier word, only gets another start.
    """
    if first == last:
        return np.int64(0)
    head = whead(w)
    count = head[ws.W_N_LIVE]
    stamp = fresh_stamp(w)
    live = tab(w, ws.LIVE)
    for i in range(count):
        tab(w, ws.LIVE_SLOT)[live[2 * i]] = (stamp << 32) | i
    for node in range(first, last):
        row = live_row(w)
        if row < 0:
            return row
        set_bit(tab(w, ws.LIVE_BITS), row, node)
        set_ = start_set(h, w, node)
        if set_ < 0:
            return set_
        count = add_live(w, ws.LIVE, count, set_, row, stamp)
        if count < 0:
            return count
    head[ws.W_N_LIVE] = count
    return np.int64(0)


@kernel
def _take_snapshot(w):
    """Fill ``SNAPSHOT`` with the live lexer states, one by one, each with all of its starts; 0 or ``W_GROW``."""
    head = whead(w)
    stamp = fresh_stamp(w)
    count = np.int64(0)
    for i in range(head[ws.W_N_LIVE]):
        live = tab(w, ws.LIVE)
        set_ = live[2 * i]
        for j in range(tab(w, ws.SET_HEADS)[set_], tab(w, ws.SET_HEADS)[set_ + 1]):
            count = add_live(w, ws.SNAPSHOT, count, tab(w, ws.SET_STATES)[j], live[2 * i + 1], stamp)
            if count < 0:
                return count
    head[ws.W_N_SNAPSHOT] = count
    return np.int64(0)


@kernel
def _end_matched(h, w, column, first, k):
    """End the LONGEST lexemes that match before a byte and cannot continue with it, or at the end of the text; 0 or a status.

    ``column``: the byte, which is element ``k``, or ``BY_END``. ``first``: where the nodes before the byte begin. The step's
    record lists the sets of lexemes that end.
    """
    for i in range(whead(w)[ws.W_N_LIVE]):
        live = tab(w, ws.LIVE)
        record = step_of(h, w, live[2 * i], column, np.int64(0))
        if record < 0:
            return record
        charge(w, 4)
        for j in range(record + ws.S_FIRST, record + ws.S_FIRST + tab(w, ws.STEPS)[record + ws.S_BEFORE]):
            matched = tab(w, ws.STEPS)[j]
            if column == ws.BY_END:
                status = end_text(h, w, live[2 * i + 1], matched)
            else:
                status = end_at(h, w, live[2 * i + 1], matched, first, k)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _pass_byte(h, w, byte, accepts, k):
    """Step all live sets by a byte, element ``k``: the first node after it (there may be none), or a status.

    ``accepts``: 1 if the text may end behind the byte; then lexemes that end with the byte also end the text.
    """
    stamp = fresh_stamp(w)
    first = whead(w)[ws.W_NODES]
    count = np.int64(0)
    for i in range(whead(w)[ws.W_N_LIVE]):  # steps take stamps, but none of LIVE_SLOT
        live = tab(w, ws.LIVE)
        starts = live[2 * i + 1]
        record = step_of(h, w, live[2 * i], byte, np.int64(0))
        if record < 0:
            return record
        steps = tab(w, ws.STEPS)
        begin = record + ws.S_FIRST + steps[record + ws.S_BEFORE]
        for j in range(begin, begin + steps[record + ws.S_ENDS]):
            status = end_at(h, w, starts, steps[j], first, k + 1)
            if status >= 0 and accepts:
                status = end_text(h, w, starts, steps[j])
            if status < 0:
                return status
        count = add_live(w, ws.LIVE_NEXT, count, steps[record + ws.S_NEXT], starts, stamp)
        if count < 0:
            return count
    swap_live(w, count)
    return first


@kernel
def _pass_gap(h, w, accepts):
    """Step all live sets by a gap: the gap's node, or a status. Lexemes that lie in the gap lead from this node to itself.

    Inside the gap start all lexemes that may follow lexemes that end there, those that start there included. One node stands
    for all places in the gap: a string of any length fits between any two places, so they are equivalent. In a cut text
    (``W_CUT``) only lexemes that start there go on behind the gap, so that every derivation comes through its node.
    """
    # make the node first: ALLOWED there depends on the lexemes that end there, which come next
    here = fresh_node(w, 0)
    if here < 0:
        return here
    status = _allow_in_gap(h, w, here)
    if status >= 0:
        status = _start(h, w, here, here + 1)
    if status < 0:
        return status
    is_cut = whead(w)[ws.W_CUT] != 0
    inside = live_row(w) if is_cut else np.int64(0)
    if inside < 0:
        return inside
    if is_cut:
        set_bit(tab(w, ws.LIVE_BITS), inside, here)
    count = np.int64(0)
    stamp = fresh_stamp(w)
    for i in range(whead(w)[ws.W_N_LIVE]):
        live = tab(w, ws.LIVE)
        starts = live[2 * i + 1]
        record = step_of(h, w, live[2 * i], np.int64(ws.BY_GAP), np.int64(0))
        if record < 0:
            return record
        steps = tab(w, ws.STEPS)
        going_on = inside if is_cut else starts
        goes_on = not is_cut or has_bit(tab(w, ws.LIVE_BITS), starts, here)
        for j in range(record + ws.S_FIRST, record + ws.S_FIRST + steps[record + ws.S_ENDS]):
            status = end_inside(h, w, starts, steps[j], here)
            if status >= 0 and accepts and goes_on:
                status = end_inside(h, w, going_on, steps[j], end_node(w))
            if status < 0:
                return status
        if not goes_on:
            continue
        count = add_live(w, ws.LIVE_NEXT, count, steps[record + ws.S_NEXT], going_on, stamp)
        if count < 0:
            return count
    swap_live(w, count)
    return here


@kernel
def _allow_in_gap(h, w, here):
    """Fill ``ALLOWED`` of a gap's node, a closure under ``FOLLOWS``; 0 or a status.

    It begins with what may follow the lexemes that end in the gap, then adds what may follow those, until nothing is new.
    Lexemes that are too long to begin in a gap (``W_MOST_IN_GAP``) are left out.
    """
    head = whead(w)
    words = head[ws.W_SET]
    n_lexemes = head[ws.W_N_LEXEMES]
    for i in range(head[ws.W_N_LIVE]):
        live = tab(w, ws.LIVE)
        record = step_of(h, w, live[2 * i], np.int64(ws.BY_GAP), np.int64(0))
        if record < 0:
            return record
        steps = tab(w, ws.STEPS)
        for j in range(record + ws.S_FIRST, record + ws.S_FIRST + steps[record + ws.S_ENDS]):
            allow(h, w, live[2 * i + 1], steps[j], here)
    allowed = tab(w, ws.ALLOWED)
    follows = tab(w, ws.FOLLOWS)
    grown = True
    while grown:
        grown = False
        if not charge(w, n_lexemes):
            return np.int64(statuses.W_GROW)
        for lexeme in range(n_lexemes - 1):
            if not has_bit(allowed, here * words, lexeme):
                continue
            if head[ws.W_MOST_IN_GAP] and tab(w, ws.LEAST)[lexeme] > head[ws.W_MOST_IN_GAP]:
                continue
            charge(w, words)
            for i in range(words):
                more = follows[lexeme * words + i] & ~allowed[here * words + i]
                if more:
                    allowed[here * words + i] |= more
                    grown = True
    if head[ws.W_MOST_IN_GAP]:
        for lexeme in range(n_lexemes - 1):
            if tab(w, ws.LEAST)[lexeme] > head[ws.W_MOST_IN_GAP]:
                allowed[here * words + (lexeme >> 6)] &= ~(np.int64(1) << (lexeme & 63))
    return np.int64(0)
