"""The workspace of infilling: accessors of its tables, rows of bits, and the account of work.

The workspace is a second set of growing tables beside the arena's, with a header of its own
(:mod:`cdplugin.kernels.infill.layout`). A kernel that runs out of room writes the table and the wanted size to ``W_TABLE`` and
``W_TO`` and returns ``W_GROW``; the owner (:mod:`cdplugin.infill.workspace`) grows the table with zeros and repeats the call.
That is safe since every operation starts from nothing or from tables that outlive it.

*Nodes* are numbered from left to right: from 0, or, where facts are reused for the next text, so that the last one comes just
before :func:`end_node` (``W_FIRST``). Sets of nodes are rows of ``W_WIDTH`` words in ``BITS``, named by their offset; 0 is no
row. The two highest bits of a row stand for the end of the text (:func:`end_node`) and for the end symbol behind it
(:func:`final_node`).
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i64
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import fill_words, first_slot, mix

AHEAD = 512  # words of rows that are cleared in advance


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
    """Whether a table can hold ``count`` words; if not, the header says which must grow to what.

    False also if the operation has used up its work, which the owner checks first. So loops that make room need only
    :func:`charge` and ignore its result.
    """
    head = view_i64(w, ws.WORKSPACE_WORDS)
    if head[2 * table + 1] >= count and head[ws.W_WORK_LEFT] >= 0:
        return True
    head[ws.W_TABLE] = table
    head[ws.W_TO] = count
    return False


@kernel
def charge(w, work):
    """Charge ``work`` quarters of a unit to the operation; whether it may continue.

    Reading or writing a row of ``W_WIDTH`` words is ``W_WIDTH`` quarters, a turn of another loop one or more.
    """
    head = view_i64(w, ws.WORKSPACE_WORDS)
    left = head[ws.W_WORK_LEFT] - work
    head[ws.W_WORK_LEFT] = left
    return left >= 0


@kernel
def charge_sort(w, count):
    """:func:`charge` for a heapsort of ``count`` words: a unit of work for each comparison of a word."""
    turns = np.int64(1)
    while count >> turns:
        turns += 1
    return charge(w, 8 + 4 * count * turns)


@kernel
def clear_records(w, counter):
    """Forget the records of :func:`number_of` that ``counter`` counts: entries of their index with older stamps no longer
    count.
    """
    head = whead(w)
    head[ws.W_STAMP] += 1
    head[counter] = 0
    head[counter + ws.W_STAMPS - ws.W_COUNTERS] = head[ws.W_STAMP]


@kernel
def number_of(w, index_table, table, words, counter, key):
    """The number of the record with a key (its first word) in an indexed table, a new one if need be; or ``W_GROW``."""
    head = whead(w)
    index = tab(w, index_table)
    records = tab(w, table)
    stamp = head[counter + ws.W_STAMPS - ws.W_COUNTERS]
    size = index.shape[0] - 1
    slot = first_slot(mix(np.int64(layout.HASH_SEED), key), size)
    charge(w, 8)
    while index[slot] >> 32 == stamp:
        number = index[slot] & 0xFFFFFFFF
        if records[words * number] == key:
            return number
        slot = (slot + 1) & size
    count = head[counter]
    if 2 * (count + 1) > size:
        room(w, index_table, 2 * (size + 1))
        return np.int64(statuses.W_GROW)
    if not room(w, table, words * (count + 1)):
        return np.int64(statuses.W_GROW)
    records[words * count] = key
    fill_words(records, words * count + 1, words - 1, 0)
    index[slot] = (stamp << 32) | count
    head[counter] = count + 1
    return count


@kernel
def _row_behind(w, table, word_of_used, word_of_clean):
    """The offset of a new row of zeros at the end of a table of rows; or ``W_GROW``.

    The table is cleared some rows in advance: clearing them one by one would be a call for each.
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
        fill_words(bits, head[word_of_clean], clean - head[word_of_clean], 0)
        head[word_of_clean] = clean
    head[word_of_used] = until
    return row


@kernel
def cut_rows(w, word_of_used, word_of_clean, used):
    """Truncate a table of rows to ``used`` words, or extend it.

    ``word_of_used``, ``word_of_clean``: the header's words for ``BITS`` or for ``LIVE_BITS``. Freed words are cleared again
    before they are handed out.
    """
    head = whead(w)
    head[word_of_used] = used
    head[word_of_clean] = used


@kernel
def new_row(w):
    """The offset of a new row of zeros in ``BITS``, or ``W_GROW``."""
    return _row_behind(w, ws.BITS, ws.W_BITS_USED, ws.W_BITS_CLEAN)


@kernel
def live_row(w):
    """The offset of a new row of zeros in ``LIVE_BITS``, or ``W_GROW``."""
    return _row_behind(w, ws.LIVE_BITS, ws.W_LIVE_USED, ws.W_LIVE_CLEAN)


@kernel
def name_row(w, table, index):
    """A new row, entered at ``index`` of a table, where there was none; or ``W_GROW``.

    The entry is not read first: mostly it is in no cache yet, and reading it would stall.
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
    """Record in ``TOUCHED``, which has room, that ``count`` entries of a table from ``index`` on may name rows now."""
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
    """Reset to 0 every entry that came to name a row since ``W_N_TOUCHED`` was ``touched_before``; free the rows from
    ``bits_before``.

    So the tables, which have an entry for each node and symbol, are cleared where they were written, never as a whole.
    """
    head = whead(w)
    touched = tab(w, ws.TOUCHED)
    for i in range(touched_before, head[ws.W_N_TOUCHED]):
        count = touched[i] >> 47
        index = touched[i] & 0xFFFFFFFFFF
        entries = tab(w, (touched[i] >> 40) & 0x7F)
        charge(w, 1 + (count >> 2))
        fill_words(entries, index, count, 0)
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
    """Enter in the sets that there is a row of ``REST`` for a dot at a node, so that others are not read in vain.

    By dot in ``REST_NODES``, by node in ``USEFUL``, for the dot before it in ``ACTIVE``, and with ``W_ASKED`` in ``NEXT_HERE``.
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
    """The bit of a row for: the text may end here."""
    return 64 * whead(w)[ws.W_WIDTH] - 2


@kernel
def final_node(w):
    """The bit of a row for: the end symbol was read."""
    return 64 * whead(w)[ws.W_WIDTH] - 1


@kernel
def has_bit(bits, row, node):
    """Whether the row at ``row`` of ``bits`` has a node."""
    return (bits[row + (node >> 6)] >> (node & 63)) & 1 != 0


@kernel
def set_bit(bits, row, node):
    """Add a node to the row at ``row`` of ``bits``; whether it was new."""
    word = row + (node >> 6)
    bit = np.int64(1) << (node & 63)
    if bits[word] & bit:
        return False
    bits[word] |= bit
    return True


@kernel
def word_between(bits, k, first, until):
    """Word ``k`` of a set, cut to the numbers ``first .. until - 1``, some of which it has."""
    return cut_word(bits[k], k, first, until)


@kernel
def cut_word(word, k, first, until):
    """Word ``k`` of a set, given as ``word``, cut to the numbers ``first .. until - 1``."""
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
    """Whether two rows have a node in common."""
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
