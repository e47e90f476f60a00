"""The workspace of one infilling problem: growing tables found through a header of their own, beside the arena's.

:mod:`cdplugin.kernels.infill.layout` describes header, tables and records. A kernel that runs out of room writes which table
must grow into ``W_TABLE`` and ``W_TO`` and returns ``W_GROW``; the owner (:mod:`cdplugin.infill.workspace`) grows it with
zeros and calls again. Every operation starts from tables that outlive it or from nothing, so that calling again is safe.

*Nodes* are the lexeme boundaries of the text with gaps, numbered from left to right as they are found: from 0 or, where facts
are kept for the next text, so that the last one comes just before :func:`end_node` (``W_FIRST``). Sets of nodes are rows of
``W_WIDTH`` words in the table ``BITS``; a row is named by its offset, 0 is none. The two highest bits of a row stand for ``text
may end here`` (:func:`end_node`) and for the end symbol after it (:func:`final_node`).
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i64
from cdplugin.kernels.store import statuses

AHEAD = 512  # words that are cleared before they are asked for


@kernel
def whead(w):
    """The workspace's header, as an int64 array: addresses and capacities of the tables, then the scalars ``W_…``."""
    return view_i64(w, ws.WORKSPACE_WORDS)


@kernel
def tab(w, table):
    """A table of the workspace, of its whole capacity: an int64 view that stays valid for the whole call."""
    head = view_i64(w, ws.WORKSPACE_WORDS)
    return view_i64(head[2 * table], head[2 * table + 1])


@kernel
def room(w, table, count):
    """Whether a table can hold ``count`` items; if not, the header says which must grow to what.

    There is no room either where the operation has used up its work, which the owner looks at first: what makes room in its
    loops has only to :func:`charge`.
    """
    head = view_i64(w, ws.WORKSPACE_WORDS)
    if head[2 * table + 1] >= count and head[ws.W_WORK_LEFT] >= 0:
        return True
    head[ws.W_TABLE] = table
    head[ws.W_TO] = count
    return False


@kernel
def charge(w, work):
    """Take ``work`` quarters of a unit off what the operation may still do; whether it may go on. A row of ``W_WIDTH`` words
    that is read or written is as many, another turn of a loop one or more.
    """
    head = view_i64(w, ws.WORKSPACE_WORDS)
    left = head[ws.W_WORK_LEFT] - work
    head[ws.W_WORK_LEFT] = left
    return left >= 0


@kernel
def charge_sort(w, count):
    """:func:`charge` for sorting so many words by heapsort: a unit of work for each comparison of a word."""
    turns = np.int64(1)
    while count >> turns:
        turns += 1
    return charge(w, 8 + 4 * count * turns)


@kernel
def _row_behind(w, table, word_of_used, word_of_clean):
    """The offset of a row of zeros behind what is used of a table of rows; or ``W_GROW``.

    A table is cleared some rows ahead: one by one that would be a call for each.
    """
    head = whead(w)
    row = head[word_of_used]
    until = row + head[ws.W_WIDTH]
    charge(w, 4 + head[ws.W_WIDTH])
    if not room(w, table, until):
        return np.int64(statuses.W_GROW)
    if until > head[word_of_clean]:
        bits = tab(w, table)
        clean = min(until + AHEAD, bits.shape[0])
        for i in range(head[word_of_clean], clean):
            bits[i] = 0
        head[word_of_clean] = clean
    head[word_of_used] = until
    return row


@kernel
def cut_rows(w, word_of_used, word_of_clean, used):
    """Let rows from offset ``used`` on be free, or, further on than they were, taken.

    ``word_of_used``, ``word_of_clean``: the header's words for ``BITS`` or for ``LIVE_BITS``. What is free may have been
    written to, so it is cleared again before it is handed out.
    """
    head = whead(w)
    head[word_of_used] = used
    head[word_of_clean] = used


@kernel
def new_row(w):
    """The offset of a fresh row of zeros in ``BITS``, or ``W_GROW``."""
    return _row_behind(w, ws.BITS, ws.W_BITS_USED, ws.W_BITS_CLEAN)


@kernel
def live_row(w):
    """The offset of a fresh row of zeros in ``LIVE_BITS``, or ``W_GROW``."""
    return _row_behind(w, ws.LIVE_BITS, ws.W_LIVE_USED, ws.W_LIVE_CLEAN)


@kernel
def name_row(w, table, index):
    """A fresh row, named by entry ``index`` of a table, which names none; or ``W_GROW``. The entry is not read: mostly it is in
    no cache yet, and a read would be waited for.
    """
    if not room(w, ws.TOUCHED, whead(w)[ws.W_N_TOUCHED] + 1):
        return np.int64(statuses.W_GROW)
    row = new_row(w)
    if row > 0:
        tab(w, table)[index] = row
        touch(w, table, index, 1)
    return row


@kernel
def touch(w, table, index, count):
    """Note that ``count`` entries of a table, from ``index`` on, may have come to name rows; ``TOUCHED`` has room."""
    head = whead(w)
    tab(w, ws.TOUCHED)[head[ws.W_N_TOUCHED]] = (np.int64(count) << 47) | (np.int64(table) << 40) | index
    head[ws.W_N_TOUCHED] += 1


@kernel
def row_in(w, table, index):
    """The row named by entry ``index`` of a table, made now if there is none; or ``W_GROW``."""
    row = tab(w, table)[index]
    return row if row != 0 else name_row(w, table, index)


@kernel
def forget_rows(w, touched_before, bits_before):
    """Every entry that came to name a row since then is 0 again.

    ``touched_before``, ``bits_before``: ``W_N_TOUCHED`` and ``W_BITS_USED`` at that time. So the tables, which have an entry
    for each node and symbol, are cleared by what was written and never as a whole.
    """
    head = whead(w)
    touched = tab(w, ws.TOUCHED)
    for i in range(touched_before, head[ws.W_N_TOUCHED]):
        count = touched[i] >> 47
        index = touched[i] & 0xFFFFFFFFFF
        entries = tab(w, (touched[i] >> 40) & 0x7F)
        charge(w, 1 + (count >> 2))
        for j in range(index, index + count):
            entries[j] = 0
    head[ws.W_N_TOUCHED] = touched_before
    cut_rows(w, ws.W_BITS_USED, ws.W_BITS_CLEAN, bits_before)


@kernel
def rest_row(w, node, dot):
    """The row of ``REST`` for a dot at a node, made now if there is none; or ``W_GROW``."""
    head = whead(w)
    index = node * head[ws.W_N_DOTS] + dot
    if has_bit(tab(w, ws.REST_NODES), dot * head[ws.W_WIDTH], node):
        return tab(w, ws.REST)[index]
    row = name_row(w, ws.REST, index)
    if row > 0:
        note_rest(w, node, dot)
    return row


@kernel
def note_rest(w, node, dot):
    """Note that there is a row of ``REST`` for a dot at a node: by dot (``REST_NODES``), by node (``USEFUL``) and for the
    symbol before it (``ACTIVE``), so that nobody looks for rows where there are none.
    """
    word = node >> 6
    bit = np.int64(1) << (node & 63)
    tab(w, ws.REST_NODES)[dot * whead(w)[ws.W_WIDTH] + word] |= bit
    tab(w, ws.USEFUL)[word] |= bit
    if dot:
        turn = tab(w, ws.TURN_OF)[dot - 1]
        tab(w, ws.ACTIVE)[turn >> 6] |= np.int64(1) << (turn & 63)
        if whead(w)[ws.W_ASKED]:
            tab(w, ws.NEXT_HERE)[node * whead(w)[ws.W_TURN_SET] + (turn >> 6)] |= np.int64(1) << (turn & 63)


@kernel
def item_row(w, node, dot):
    """The row of ``ITEMS`` for a dot at a node, made now if there is none; or ``W_GROW``."""
    head = whead(w)
    tab(w, ws.ITEM_SETS)[node * head[ws.W_DOT_SET] + (dot >> 6)] |= np.int64(1) << (dot & 63)
    return row_in(w, ws.ITEMS, node * head[ws.W_N_DOTS] + dot)


@kernel
def end_node(w):
    """The bit for: the text may end here."""
    return 64 * whead(w)[ws.W_WIDTH] - 2


@kernel
def final_node(w):
    """The bit for: and the end symbol was read."""
    return 64 * whead(w)[ws.W_WIDTH] - 1


@kernel
def has_bit(bits, row, node):
    """Whether the row at ``row`` of ``bits`` has a node."""
    return (bits[row + (node >> 6)] >> (node & 63)) & 1 != 0


@kernel
def set_bit(bits, row, node):
    """Set a bit; whether it was new."""
    word = row + (node >> 6)
    bit = np.int64(1) << (node & 63)
    if bits[word] & bit:
        return False
    bits[word] |= bit
    return True


@kernel
def word_between(bits, k, first, until):
    """Word ``k`` of a set, of what lies between the numbers ``first`` and ``until - 1``: it has some of them."""
    return cut_word(bits[k], k, first, until)


@kernel
def cut_word(word, k, first, until):
    """:func:`word_between` of a word."""
    if first > 64 * k:
        word &= np.int64(-1) << (first - 64 * k)
    if until < 64 * k + 64:
        word &= ~(np.int64(-1) << (until - 64 * k))
    return word


@kernel
def or_row(bits, into, row, width):
    """``into |= row``; whether anything was new."""
    grew = np.int64(0)
    for i in range(width):
        old = bits[into + i]
        new = old | bits[row + i]
        grew |= old ^ new
        bits[into + i] = new
    return grew != 0


@kernel
def meet(bits, a, b, width):
    """Whether two rows have a node in common. Stops at the first word that says so."""
    for i in range(width):
        if bits[a + i] & bits[b + i]:
            return True
    return False


@kernel
def contains(bits, row, other, width):
    """Whether a row has all nodes of another."""
    for i in range(width):
        if bits[other + i] & ~bits[row + i]:
            return False
    return True
