"""Spans: for each node and each lexeme that starts there, the row of its ends. The lattice's edges, transposed.

The lattice tracks all lexemes that began somewhere together, so ``ENDS`` has a row of *starts* for each lexeme and each node at
which it may end. The facts need the opposite: for each node and lexeme the row of *ends* (``SPANS``). Dense blocks of 64 × 64
bits are transposed at once (Warren, "Hacker's Delight", 7-3). On the way spans are extended to the left over skips
(:func:`_follow_skips`), so the grammar need not know of skips, and twins are merged.

``SPANS`` outlives its text. Its nodes are numbered from the right end, the last one just before :func:`end_node`: what lies
right of a change keeps its numbers, and only rows that differ are written. ``W_CHANGED`` is the rightmost node with such a row;
facts right of it still hold (:mod:`cdplugin.kernels.infill.intersect`).
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.twins import find_twins
from cdplugin.kernels.infill.workspace import (
    charge,
    cut_rows,
    end_node,
    final_node,
    forget_rows,
    has_bit,
    live_row,
    or_row,
    room,
    set_bit,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import count_bits, kernel, low_bit
from cdplugin.kernels.lexer.fields import is_skip
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import any_words, fill_words

DENSE = 128  # a block with more bits is transposed as a whole
FEWEST_SPAN_ROWS = 1 << 9


@kernel
def end_row(w, lexeme, end):
    """The row in ``LIVE_BITS`` of the nodes from which a lexeme leads to ``end``, made now if there is none; or ``W_GROW``."""
    width = whead(w)[ws.W_WIDTH]
    at = lexeme * 64 * width + end
    if has_bit(tab(w, ws.ENDS_SETS), lexeme * width, end):
        return tab(w, ws.ENDS)[at]
    row = live_row(w)
    if row >= 0:
        set_bit(tab(w, ws.ENDS_SETS), lexeme * width, end)
        tab(w, ws.ENDS)[at] = row
    return row


@kernel
def forget_ends(w, first, last):
    """Forget the ends at the nodes from ``last`` on and at the end of the text.

    At the nodes ``first .. last - 1``, only ends whose rows were freed (lie beyond ``W_LIVE_USED``) are forgotten.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    sets = tab(w, ws.ENDS_SETS)
    ends = tab(w, ws.ENDS)
    charge(w, head[ws.W_N_LEXEMES] * (1 + last - first + (width >> 2)))
    for lexeme in range(head[ws.W_N_LEXEMES]):
        clear_from(sets, lexeme * width, last, width)
        for node in range(first, last):
            if has_bit(sets, lexeme * width, node) and ends[lexeme * 64 * width + node] >= head[ws.W_LIVE_USED]:
                sets[lexeme * width + (node >> 6)] &= ~(np.int64(1) << (node & 63))


@kernel
def clear_from(bits, row, first, width):
    """Clear the bits of the nodes from ``first`` on in a row."""
    word = first >> 6
    if word < width:
        bits[row + word] &= (np.int64(1) << (first & 63)) - 1
    fill_words(bits, row + word + 1, width - word - 1, 0)


@kernel
def forget_spans(w):
    """Forget all that texts hand on to each other, and make room for rows of the present width; 0 or ``W_GROW``.

    The first ``W_SPAN_ROWS`` rows of ``BITS`` belong to ``SPANS``, which outlive the text; rows of facts and masks come after
    them.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_lexemes = head[ws.W_N_LEXEMES]
    nodes = 64 * width
    rows = max(head[ws.W_SPAN_ROWS], np.int64(FEWEST_SPAN_ROWS))
    base = (rows + 1) * width
    charge(w, (nodes * head[ws.W_SET]) >> 3)
    charge(w, head[ws.W_N_SPANS])
    if (
        not room(w, ws.SPANS, nodes * n_lexemes)
        or not room(w, ws.SPAN_SETS, nodes * head[ws.W_SET])
        or not room(w, ws.BITS, base)
        or not room(w, ws.SPAN_OWNERS, rows)
    ):
        return np.int64(statuses.W_GROW)
    if (
        not room(w, ws.NEXT_SPAN_SETS, nodes * head[ws.W_SET])
        or not room(w, ws.SPAN_BLOCK, 64 * width)
        or not room(w, ws.BLOCK, 64)
    ):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.SPAN_ENDS, 2 * nodes):
        return np.int64(statuses.W_GROW)
    forget_rows(w, 0, base)
    spans = tab(w, ws.SPANS)
    owners = tab(w, ws.SPAN_OWNERS)
    for i in range(head[ws.W_N_SPANS]):
        spans[owners[i]] = 0
    head[ws.W_N_SPANS] = 0
    sets = tab(w, ws.SPAN_SETS)
    fill_words(sets, 0, nodes * head[ws.W_SET], 0)
    head[ws.W_SPAN_ROWS] = rows
    cut_rows(w, ws.W_BITS_USED, ws.W_BITS_CLEAN, base)
    head[ws.W_REUSED_WIDTH] = width
    head[ws.W_FACTS_FIRST] = end_node(w) + 1
    head[ws.W_CHANGED] = end_node(w)
    return np.int64(0)


@kernel
def lay_spans(h, w):
    """Fill ``SPANS`` and ``SPAN_SETS`` from ``ENDS``, set ``W_FIRST`` and raise ``W_CHANGED``; 0 or ``W_GROW``.

    Lexeme by lexeme, 64 starts at a time (:func:`_lay_block`); then the end symbol, which leads from the end of the text to the
    final node; then the rows of lexemes that no longer start at their nodes are emptied.
    """
    if _follow_skips(h, w) < 0 or find_twins(w) < 0:
        return np.int64(statuses.W_GROW)
    head = whead(w)
    words = head[ws.W_SET]
    head[ws.W_FIRST] = end_node(w) - head[ws.W_NODES] if head[ws.W_REUSE] else 0
    first = head[ws.W_FIRST]
    following = tab(w, ws.NEXT_SPAN_SETS)
    fill_words(following, first * words, (end_node(w) + 1 - first) * words, 0)
    for lexeme in range(head[ws.W_N_LEXEMES]):
        if not any_words(tab(w, ws.ENDS_SETS), lexeme * head[ws.W_WIDTH], head[ws.W_WIDTH]):
            continue
        for block in range((head[ws.W_NODES] + 63) >> 6):
            if not charge(w, 8 + head[ws.W_WIDTH]) or _lay_block(w, np.int64(lexeme), np.int64(block)) < 0:
                return np.int64(statuses.W_GROW)
    at = tab(w, ws.SPAN_BLOCK)
    fill_words(at, 0, head[ws.W_WIDTH], 0)
    set_bit(at, 0, final_node(w))
    if _lay_row(w, end_node(w), head[ws.W_N_LEXEMES] - 1, 0) < 0:
        return np.int64(statuses.W_GROW)
    _drop_others(w)
    return np.int64(0)


@kernel
def _follow_skips(h, w):
    """Extend spans to the left over skips; 0 or ``W_GROW``.

    Where a skip ends and a lexeme starts that it may stand before, the lexeme also starts where the skip does. So the grammar
    need not know of skips: a lexeme's span may include the skips before it. With several skips, which may stand before each
    other, this is repeated until nothing grows.
    """
    head = whead(w)
    n_lexemes = head[ws.W_N_LEXEMES]
    for skip in range(n_lexemes - 1):
        if not is_skip(h, skip):
            continue
        skipped = skip * head[ws.W_SET]
        if has_bit(tab(w, ws.SKIPPED), skipped, n_lexemes - 1):  # the text may end after a skip
            if has_bit(tab(w, ws.ENDS_SETS), skip * head[ws.W_WIDTH], end_node(w)):
                into = end_row(w, n_lexemes - 1, final_node(w))
                if into < 0:
                    return into
                row = end_row(w, np.int64(skip), end_node(w))
                or_row(tab(w, ws.LIVE_BITS), into, row, head[ws.W_WIDTH])
    grown = True
    while grown:
        grown = False
        n_skips = 0
        for skip in range(n_lexemes - 1):
            if is_skip(h, skip):
                n_skips += 1
                if not charge(w, n_lexemes):
                    return np.int64(statuses.W_GROW)
                for lexeme in range(n_lexemes):
                    if has_bit(tab(w, ws.SKIPPED), skip * head[ws.W_SET], lexeme):
                        grown |= _follow_skip(w, np.int64(skip), np.int64(lexeme))
        grown = grown and n_skips > 1  # one skip may stand before another
    return np.int64(0)


@kernel
def _follow_skip(w, skip, lexeme):
    """:func:`_follow_skips` for one skip and one lexeme; whether anything was new.

    For each end of the lexeme: those starts that are ends of the skip bring in the skip's starts. Words are visited from the
    right, as a skip starts left of its end; the current word may gain bits while it is visited (``done``: those visited).
    """
    width = whead(w)[ws.W_WIDTH]
    sets = tab(w, ws.ENDS_SETS)
    ends = tab(w, ws.ENDS)
    bits = tab(w, ws.LIVE_BITS)
    grown = False
    for i in range(width):
        word = sets[lexeme * width + i]
        while word:
            row = ends[lexeme * 64 * width + 64 * i + low_bit(word)]
            word &= word - 1
            charge(w, width)
            for j in range((end_node(w) - 1) >> 6, -1, -1):
                done = np.int64(0)
                while True:  # a skip starts left of where it ends
                    fresh = bits[row + j] & sets[skip * width + j] & ~done
                    if not fresh:
                        break
                    bit = low_bit(fresh)
                    done |= np.int64(1) << bit
                    charge(w, j + 2)
                    grown |= or_row(bits, row, ends[skip * 64 * width + 64 * j + bit], j + 1)
    return grown


@kernel
def _lay_block(w, lexeme, block):
    """Lay out the ends of a lexeme that starts at the nodes ``64 * block .. 64 * block + 63``; 0 or ``W_GROW``.

    The ends are listed, each with the word of its starts. The ends in one word of a row (64 of them) form a block of 64 × 64
    bits, transposed as a whole if it is dense, or else bit by bit.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    listed = tab(w, ws.SPAN_ENDS)
    count = _list_ends(w, lexeme, block)
    rows = tab(w, ws.SPAN_BLOCK)
    started = np.int64(0)
    at = np.int64(0)
    while at < count:
        column = listed[2 * at] >> 6
        until = at
        some = np.int64(0)
        size = np.int64(0)
        while until < count and listed[2 * until] >> 6 == column:
            some |= listed[2 * until + 1]
            size += count_bits(listed[2 * until + 1])
            until += 1
        fresh = some & ~started
        started |= some
        while fresh:
            row = low_bit(fresh) * width
            fresh &= fresh - 1
            fill_words(rows, row, width, 0)
        charge(w, min(size, 256) + until - at)
        if size > DENSE:
            _transpose_ends(w, at, until, some)
        else:
            for k in range(at, until):
                word = listed[2 * k + 1]
                bit = np.int64(1) << (listed[2 * k] & 63)
                while word:
                    rows[low_bit(word) * width + column] |= bit
                    word &= word - 1
        at = until
    first = head[ws.W_FIRST] + 64 * block
    while started:
        start = low_bit(started)
        started &= started - 1
        if _lay_row(w, first + start, lexeme, start * width) < 0:
            return np.int64(statuses.W_GROW)
    return np.int64(0)


@kernel
def _list_ends(w, lexeme, block):
    """Write to ``SPAN_ENDS`` the ends of a lexeme, numbered as in ``SPANS``, each with its starts in a block; how many there
    are.

    A twin is no start, and as an end it is replaced by the node that it is merged with.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    sets = tab(w, ws.ENDS_SETS)
    ends = tab(w, ws.ENDS)
    bits = tab(w, ws.LIVE_BITS)
    listed = tab(w, ws.SPAN_ENDS)
    last = end_node(w)
    has_twins = head[ws.W_HAS_TWINS] != 0
    starting = ~tab(w, ws.TWINS)[block] if has_twins else np.int64(-1)
    count = np.int64(0)
    for i in range(block, width):
        word = sets[lexeme * width + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            starts = bits[ends[lexeme * 64 * width + end] + block] & starting
            if starts:
                if has_twins and end < last:
                    end = tab(w, ws.TWIN_OF)[end]
                listed[2 * count] = end if end >= last else end + head[ws.W_FIRST]
                listed[2 * count + 1] = starts
                count += 1
    return count


@kernel
def _transpose_ends(w, at, until, some):
    """Transpose the ends ``at .. until - 1`` of ``SPAN_ENDS``, all in one word, into the rows of their starts (``some``)."""
    width = whead(w)[ws.W_WIDTH]
    listed = tab(w, ws.SPAN_ENDS)
    rows = tab(w, ws.SPAN_BLOCK)
    block = tab(w, ws.BLOCK)
    fill_words(block, 0, 64, 0)
    for k in range(at, until):
        block[listed[2 * k] & 63] |= listed[2 * k + 1]
    _transpose(block)
    column = listed[2 * at] >> 6
    while some:
        start = low_bit(some)
        some &= some - 1
        rows[start * width + column] |= block[start]


@kernel
def _transpose(block):
    """Transpose a block of 64 words in place: bit j of word i becomes bit i of word j.

    In six rounds squares of 32, 16, … 1 bits swap places (Warren, "Hacker's Delight", 7-3): 6 × 32 exchanges instead of 4,096
    bits.
    """
    mask = np.int64(0xFFFFFFFF)
    step = np.int64(32)
    while step:
        i = np.int64(0)
        while i < 64:
            moved = (((block[i] >> step) & mask) ^ block[i + step]) & mask
            block[i + step] ^= moved
            block[i] ^= moved << step
            i = (i + step + 1) & ~step
        step >>= 1
        mask ^= mask << step


@kernel
def _lay_row(w, node, lexeme, at):
    """Write the row at ``at`` of ``SPAN_BLOCK`` to ``SPANS`` of a lexeme at a node; 0 or ``W_GROW``.

    Only words from the node's on are compared and written, since a lexeme ends at its start or right of it. A row that differs
    raises ``W_CHANGED``.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    index = node * head[ws.W_N_LEXEMES] + lexeme
    row = tab(w, ws.SPANS)[index]
    charge(w, 4 + width)
    if row == 0:
        number = head[ws.W_N_SPANS]
        if number >= head[ws.W_SPAN_ROWS]:
            head[ws.W_SPAN_ROWS] *= 2
            head[ws.W_REUSED_WIDTH] = 0  # rows of facts lie where these grow to: start anew
            head[ws.W_TABLE] = ws.BITS
            head[ws.W_TO] = (head[ws.W_SPAN_ROWS] + 1) * width
            return np.int64(statuses.W_GROW)
        row = (number + 1) * width  # row 0 is none
        tab(w, ws.SPANS)[index] = row
        tab(w, ws.SPAN_OWNERS)[number] = index
        head[ws.W_N_SPANS] = number + 1
        fill_words(tab(w, ws.BITS), row, width, 0)
    bits = tab(w, ws.BITS)
    rows = tab(w, ws.SPAN_BLOCK)
    differs = np.int64(0)
    for i in range(node >> 6, width):
        differs |= bits[row + i] ^ rows[at + i]
        bits[row + i] = rows[at + i]
    if differs:
        head[ws.W_CHANGED] = max(head[ws.W_CHANGED], node)
    tab(w, ws.NEXT_SPAN_SETS)[node * head[ws.W_SET] + (lexeme >> 6)] |= np.int64(1) << (lexeme & 63)
    return np.int64(0)


@kernel
def _drop_others(w):
    """Empty the rows of the lexemes that no longer start at their nodes, and make ``NEXT_SPAN_SETS`` the ``SPAN_SETS``."""
    head = whead(w)
    words = head[ws.W_SET]
    width = head[ws.W_WIDTH]
    sets = tab(w, ws.SPAN_SETS)
    following = tab(w, ws.NEXT_SPAN_SETS)
    charge(w, (end_node(w) + 1 - head[ws.W_FIRST]) * words)
    for node in range(head[ws.W_FIRST], end_node(w) + 1):
        for k in range(words):
            gone = sets[node * words + k] & ~following[node * words + k]
            sets[node * words + k] = following[node * words + k]
            if gone:
                head[ws.W_CHANGED] = max(head[ws.W_CHANGED], node)
            while gone:
                row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] + 64 * k + low_bit(gone)]
                gone &= gone - 1
                fill_words(tab(w, ws.BITS), row, width, 0)
