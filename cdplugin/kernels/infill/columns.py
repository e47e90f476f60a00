"""Earley columns inside a token: the parser's states as the bytes of a token at the hole are read.

The facts right of the hole (:mod:`cdplugin.kernels.infill.intersect`) and the items left of it (``ITEMS``) are fixed while a
mask is made. A token that ends several lexemes needs parser states in between: *columns*. A column is an interned set of kernel
items ``(dot, origin)``; an origin is a node of the lattice, or a column, whose number comes after the nodes. It is stored with
its closure, the items that wait for a symbol. As for nodes, ``OUT`` of a column has, for each nonterminal begun in it, the ends
right of the hole from which the text can be completed. A token is legal if its last column leads to such an end.

In ``[a □ ]``, at the left edge of the gap, with the token ``,b``::

    column 2    S -> "[" L • "]" {0}   L -> E • "," L {1}        the items that wait at node 2, with their origins
    by ","      column 3: L -> E "," • L {1}, and predicted, with column 3 as origin: L -> • E …, E -> • w
    by "b"      inside w, or column 4: S -> "[" L • "]" {0}, L -> E • "," L {column 3}
                the text continues with "]" from either, at nodes from which OUT leads to the end: the token is legal

Equal columns have one number, so results are memoised by it, and the columns of many tokens coincide.

Unlike a row of the engine (:mod:`cdplugin.kernels.parser.earley`), whose origins are values, a column has places as origins:
only a place knows where on the right its rules may end. A mask has few columns, so values would save nothing.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.boundaries import may_follow
from cdplugin.kernels.infill.starts import set_of_starts
from cdplugin.kernels.infill.ways import ask, is_long, leads_out, way_of
from cdplugin.kernels.infill.workspace import charge, end_node, has_bit, new_row, or_row, room, row_in, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer.fields import ending_of, expression_of, is_skip
from cdplugin.kernels.lexer.states import take_state
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    copy_words,
    equal_words,
    fill_words,
    first_slot,
    has_room,
    hash_words,
    header,
    i64,
    length_of,
    mix,
    pack,
    sort_unique,
    word_of,
)


@kernel
def forget_columns(w):
    """Forget all columns; 0 or ``W_GROW``. They refer to the nodes of one text and one mask. Number 0 is no column."""
    head = whead(w)
    head[ws.W_N_COLUMNS] = 1
    head[ws.W_COLUMN_ITEMS_USED] = 0
    if not room(w, ws.COLUMN_HASH, 1024):
        return np.int64(statuses.W_GROW)
    index = tab(w, ws.COLUMN_HASH)
    fill_words(index, 0, index.shape[0], 0)
    return np.int64(0)


@kernel
def column_origin(w, column):
    """A column as an origin: its number after the ``64 * W_WIDTH`` possible nodes."""
    return 64 * whead(w)[ws.W_WIDTH] + column


@kernel
def items_of(w, column):
    """Where in ``COLUMN_ITEMS`` a column's items begin, and end."""
    record = column * ws.COLUMN_WORDS
    first = tab(w, ws.COLUMNS)[record + ws.COL_ITEMS]
    return first, first + tab(w, ws.COLUMNS)[record + ws.COL_N_ITEMS]


@kernel
def make_column(h, w, count, scans, skips):
    """The column with the items ``QUEUE[:count]`` (sorted here); 0 if there are none; or a status.

    ``scans``: 1 if nothing is predicted from the items. ``skips``: :data:`SKIPS` if a skip may come first, or 0. ``TARGET``:
    the lexemes that compete there (``W_SPLIT``).

    A new column gets its closure (:func:`_close`), the lexer states in which the lexemes that it waits for start, and ``OUT``
    (:func:`_build_out`). It enters the index last, so a call that fails leaves no column.
    """
    if count == 0:
        return np.int64(0)
    head = whead(w)
    queue = tab(w, ws.QUEUE)
    charge(w, 16 + 8 * count)
    count = sort_unique(queue, 0, count)
    hash_ = mix(layout.HASH_SEED, 2 * scans + skips)
    compete = head[ws.W_SET] if head[ws.W_SPLIT] else np.int64(0)
    hash_ = hash_words(hash_, tab(w, ws.TARGET), 0, compete)
    hash_ = hash_words(hash_, queue, 0, count)
    index = tab(w, ws.COLUMN_HASH)
    size = index.shape[0] - 1
    # the hash covers all that tells columns apart: flags, competitors, items
    slot = first_slot(hash_, size)
    items = tab(w, ws.COLUMN_ITEMS)
    columns = tab(w, ws.COLUMNS)
    while index[slot] != 0:
        record = index[slot] * ws.COLUMN_WORDS
        if columns[record + ws.COL_COUNT] == count and columns[record + ws.COL_SCANS] == 2 * scans + skips:
            same = equal_words(items, columns[record + ws.COL_TARGET], tab(w, ws.TARGET), 0, compete)
            if same and equal_words(items, columns[record + ws.COL_START], queue, 0, count):
                return index[slot]
        slot = (slot + 1) & size
    column = head[ws.W_N_COLUMNS]
    if 2 * column > index.shape[0]:
        room(w, ws.COLUMN_HASH, 2 * index.shape[0])
        return np.int64(statuses.W_GROW)
    used = head[ws.W_COLUMN_ITEMS_USED]
    if not room(w, ws.COLUMN_ITEMS, used + compete + count) or not room(w, ws.COLUMNS, (column + 1) * ws.COLUMN_WORDS):
        return np.int64(statuses.W_GROW)
    items = tab(w, ws.COLUMN_ITEMS)
    target = used
    copy_words(items, target, tab(w, ws.TARGET), 0, compete)
    used += compete
    copy_words(items, used, queue, 0, count)
    n_items = np.int64(count)
    first = used
    if not scans:
        first = used + count
        n_items = _close(h, w, used, count, first, column)
        if n_items < 0:
            return n_items
    columns = tab(w, ws.COLUMNS)
    record = column * ws.COLUMN_WORDS
    columns[record + ws.COL_START] = used
    columns[record + ws.COL_COUNT] = count
    columns[record + ws.COL_ITEMS] = first
    columns[record + ws.COL_N_ITEMS] = n_items
    columns[record + ws.COL_SCANS] = 2 * scans + skips
    columns[record + ws.COL_TARGET] = target
    state = _exact_start(h, w, first, n_items)
    if state < 0:
        return state
    if head[ws.W_LOOSE]:
        _await(h, w, first, n_items)
    set_ = np.int64(0)
    if head[ws.W_LOOSE] or head[ws.W_SPLIT]:
        set_ = set_of_starts(h, w, ws.TARGET, np.int64(0), np.int64(skips))
        if set_ < 0:
            return set_
    tab(w, ws.COLUMNS)[record + ws.COL_EXACT] = state
    tab(w, ws.COLUMNS)[record + ws.COL_SET] = set_
    if not scans:
        status = _build_out(h, w, column, first, n_items)
        if status < 0:
            return status
    tab(w, ws.COLUMN_HASH)[slot] = column
    head[ws.W_N_COLUMNS] = column + 1
    head[ws.W_COLUMN_ITEMS_USED] = first + n_items
    return column


@kernel
def _close(h, w, kernel_start, count, first, column):
    """Write the items of a column that wait for a symbol, predicted ones included, to ``COLUMN_ITEMS[first:]``; their number,
    or ``W_GROW``.

    A nonterminal is predicted once (``NT_MARK``); its items have the column itself as origin. The list is its own agenda.
    """
    head = whead(w)
    head[ws.W_STAMP] += 1
    stamp = head[ws.W_STAMP]
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    marks = tab(w, ws.NT_MARK)
    origin = column_origin(w, column)
    total = np.int64(0)
    for i in range(count):
        item = tab(w, ws.COLUMN_ITEMS)[kernel_start + i]
        total = _skip_null(w, symbols, nullable, first, total, item >> 32, item & 0xFFFFFFFF)
        if total < 0:
            return total
    at = np.int64(0)
    while at < total:
        symbol = symbols[tab(w, ws.COLUMN_ITEMS)[first + at] >> 32]
        at += 1
        if symbol >= 0 and marks[symbol] != stamp:
            marks[symbol] = stamp
            for i in range(tab(w, ws.FIRST_HEADS)[symbol], tab(w, ws.FIRST_HEADS)[symbol + 1]):
                total = _skip_null(w, symbols, nullable, first, total, tab(w, ws.FIRST_DOTS)[i], origin)
                if total < 0:
                    return total
    return total


@kernel
def _skip_null(w, symbols, nullable, first, total, dot, origin):
    """Append ``(dot, origin)`` and the items after it over empty nonterminals (Aycock and Horspool, 2002); the new number of
    items, or ``W_GROW``.
    """
    while symbols[dot] != layout.END_OF_RULE:
        charge(w, 2)
        if not room(w, ws.COLUMN_ITEMS, first + total + 1):
            return np.int64(statuses.W_GROW)
        tab(w, ws.COLUMN_ITEMS)[first + total] = pack(dot, origin)
        total += 1
        if symbols[dot] < 0 or not nullable[symbols[dot]]:
            break
        dot += 1
    return np.int64(total)


@kernel
def _exact_start(h, w, first, n_items):
    """The lexer state in which the EXACT lexemes start that some items wait for; 0 if there are none; or a status."""
    symbols = i64(h, layout.DOT_SYMBOL)
    end_lexeme = whead(w)[ws.W_N_LEXEMES] - 1
    head = header(h)
    base = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, base + n_items + 1):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    count = 0
    for i in range(n_items):
        lexeme = -2 - symbols[tab(w, ws.COLUMN_ITEMS)[first + i] >> 32]
        if 0 <= lexeme < end_lexeme and ending_of(h, lexeme) == layout.EXACT:
            words[base + count] = pack(lexeme, expression_of(h, lexeme))
            count += 1
    head[layout.STACK_TOP] = base + count
    return take_state(h, base)


@kernel
def _await(h, w, first, n_items):
    """Write to ``TARGET`` the lexemes that some items wait for. In a loose workspace each competes with its skip alone."""
    words = whead(w)[ws.W_SET]
    symbols = i64(h, layout.DOT_SYMBOL)
    target = tab(w, ws.TARGET)
    fill_words(target, 0, words, 0)
    for i in range(n_items):
        lexeme = -2 - symbols[tab(w, ws.COLUMN_ITEMS)[first + i] >> 32]
        if lexeme >= 0:
            target[lexeme >> 6] |= np.int64(1) << (lexeme & 63)


@kernel
def _build_out(h, w, column, first, n_items):
    """Fill ``OUT`` of a column; 0 or ``W_GROW``.

    For each nonterminal that an item waits for: the nodes from which the rest of the item's rule leads out. ``OUT`` over
    foreign origins is united per dot first. Items that began in this column depend on its own ``OUT``, so they are repeated
    until nothing grows: a fixpoint, as rows only grow.
    """
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    origin = column_origin(w, column)
    symbols = i64(h, layout.DOT_SYMBOL)
    lefts = i64(h, layout.DOT_LEFT)
    if not room(w, ws.OUT, (origin + 1) * n_nonterminals) or not room(w, ws.DOT_OUT, 2 * head[ws.W_N_DOTS]):
        return np.int64(statuses.W_GROW)
    out = tab(w, ws.OUT)
    charge(w, (n_nonterminals >> 2) + 2 * n_items)
    fill_words(out, origin * n_nonterminals, n_nonterminals, 0)
    head[ws.W_STAMP] += 1
    stamp = head[ws.W_STAMP]
    united = tab(w, ws.DOT_OUT)
    for i in range(first, first + n_items):
        item = tab(w, ws.COLUMN_ITEMS)[i]
        dot = item >> 32
        outer = tab(w, ws.OUT)[(item & 0xFFFFFFFF) * n_nonterminals + lefts[dot]]
        if symbols[dot] < 0 or outer == 0:
            continue
        if united[2 * dot] != stamp:
            row = new_row(w)
            if row < 0:
                return row
            united[2 * dot] = stamp
            united[2 * dot + 1] = row
        charge(w, head[ws.W_WIDTH])
        or_row(tab(w, ws.BITS), united[2 * dot + 1], outer, head[ws.W_WIDTH])
    for i in range(first, first + n_items):
        dot = tab(w, ws.COLUMN_ITEMS)[i] >> 32
        if united[2 * dot] == stamp:
            # several items have this dot, but its united row is followed once
            united[2 * dot] = 0
            if _add_outs(h, w, origin * n_nonterminals + symbols[dot], dot + 1, united[2 * dot + 1]) < 0:
                return np.int64(statuses.W_GROW)
    grown = True
    while grown:
        grown = False
        if not charge(w, n_items):
            return np.int64(statuses.W_GROW)
        for i in range(first, first + n_items):
            item = tab(w, ws.COLUMN_ITEMS)[i]
            dot = item >> 32
            outer = tab(w, ws.OUT)[origin * n_nonterminals + lefts[dot]]
            if symbols[dot] < 0 or outer == 0 or item & 0xFFFFFFFF != origin:
                continue
            grew = _add_outs(h, w, origin * n_nonterminals + symbols[dot], dot + 1, outer)
            if grew < 0:
                return grew
            grown = grown or grew == 1
    return np.int64(0)


@kernel
def _add_outs(h, w, index, dot, outer):
    """Add to ``OUT[index]`` the nodes right of the hole from which the rest behind ``dot`` leads out: 1 if some are new, 0, or
    ``W_GROW``.

    ``outer``: the row of the nodes at which the rule's nonterminal may end. Only nodes with facts for the dot (``REST_NODES``)
    are asked about, and, where the rest of the rule may be empty, those of ``outer`` itself.
    """
    head = whead(w)
    charge(w, head[ws.W_WIDTH])
    way = np.int64(0)
    if is_long(w):
        way = way_of(w, dot, outer)
        if way < 0:
            return way
    into = row_in(w, ws.OUT, index)
    if into < 0:
        return into
    grew = np.int64(0)
    nodes = tab(w, ws.REST_NODES)
    null_rest = i64(h, layout.DOT_NULL_REST)[dot]
    width = head[ws.W_WIDTH]
    for i in range(width):
        word = nodes[dot * width + i]
        if null_rest:
            word |= tab(w, ws.BITS)[outer + i]
        # what begins in the hole cannot end left of it
        word &= _nodes_right(w, i) & ~tab(w, ws.BITS)[into + i]
        if way:
            word = ask(h, w, dot, outer, way, i, word)
        found = word
        while word and not way:
            bit = np.int64(1) << low_bit(word)
            word &= word - 1
            if not leads_out(h, w, 64 * i + low_bit(bit), dot, outer):
                found &= ~bit
        if found:
            tab(w, ws.BITS)[into + i] |= found
            grew = np.int64(1)
    return grew


@kernel
def _nodes_right(w, i):
    """Word ``i`` of the row of all nodes right of the hole and the end of the text."""
    head = whead(w)
    word = np.int64(0)
    low = max(head[ws.W_LEFT] - 64 * i, 0)
    high = head[ws.W_NODES] - 64 * i
    if low < 64 and high > low:
        word = np.int64(-1) << low
        if high < 64:
            word &= ~(np.int64(-1) << high)
    if i == end_node(w) >> 6:
        word |= np.int64(1) << (end_node(w) & 63)
    return word


@kernel
def scan(h, w, column, accepted):
    """The column after every lexeme of the set ``accepted``; 0 if no item waits for one; or a status.

    As in the engine's rows: the items that wait for one of them move over it, and completions follow at their origins. Items at
    the end of their rule are dropped after that. A skip leaves the items as they are, but for those before which it may not
    stand.
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    first, end = items_of(w, column)
    count = np.int64(0)
    for a in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, a)
        if is_skip(h, lexeme):
            return _after_skips(h, w, column, accepted)
        if not charge(w, end - first):
            return np.int64(statuses.W_GROW)
        for i in range(first, end):
            item = tab(w, ws.COLUMN_ITEMS)[i]
            if symbols[item >> 32] == -2 - lexeme:
                count = push_item(w, count, item + (np.int64(1) << 32))
                if count < 0:
                    return count
    at = np.int64(0)
    while at < count:
        item = tab(w, ws.QUEUE)[at]
        at += 1
        dot = item >> 32
        charge(w, 2)
        if not i64(h, layout.DOT_NULL_REST)[dot]:
            continue
        count = _complete(h, w, count, i64(h, layout.DOT_LEFT)[dot], item & 0xFFFFFFFF)
        if count < 0:
            return count
    # complete items are no longer needed: only items that wait are stored
    kept = 0
    queue = tab(w, ws.QUEUE)
    for i in range(count):
        if symbols[queue[i] >> 32] != layout.END_OF_RULE:
            queue[kept] = queue[i]
            kept += 1
    may_follow(h, w, accepted)
    return make_column(h, w, kept, 0, ws.SKIPS)


@kernel
def _after_skips(h, w, column, accepted):
    """The column after the skips of a set: the items that wait for a lexeme before which one of them may stand; 0 if none, or a
    status.

    It only scans: the items come from a closure, so nothing is to be predicted. Where lexemes compete, those before which no
    skip of the set may stand no longer do.
    """
    head = whead(w)
    words = head[ws.W_SET]
    symbols = i64(h, layout.DOT_SYMBOL)
    target = tab(w, ws.TARGET)
    fill_words(target, 0, words, 0)
    for j in range(length_of(h, accepted)):
        skip = word_of(h, accepted, j)
        if is_skip(h, skip):
            for i in range(words):
                target[i] |= tab(w, ws.SKIPPED)[skip * words + i]
    count = np.int64(0)
    first, end = items_of(w, column)
    for i in range(first, end):
        item = tab(w, ws.COLUMN_ITEMS)[i]
        lexeme = -2 - symbols[item >> 32]
        if lexeme >= 0 and has_bit(target, 0, lexeme):
            count = push_item(w, count, item)
            if count < 0:
                return count
    if head[ws.W_SPLIT]:
        allowed = tab(w, ws.COLUMNS)[column * ws.COLUMN_WORDS + ws.COL_TARGET]
        for i in range(words):
            target[i] &= tab(w, ws.COLUMN_ITEMS)[allowed + i]
    return make_column(h, w, count, 1, ws.SKIPS)


@kernel
def _complete(h, w, count, nonterminal, origin):
    """Push the items that wait at ``origin`` for ``nonterminal``, moved over it; the new count, or ``W_GROW``.

    At a column, its items are searched; at a node, ``ITEMS`` has a row of origins for each dot before the nonterminal.
    """
    head = whead(w)
    # an origin above all nodes is a column
    if origin >= 64 * head[ws.W_WIDTH]:
        first, end = items_of(w, origin - 64 * head[ws.W_WIDTH])
        if not charge(w, end - first):
            return np.int64(statuses.W_GROW)
        for i in range(first, end):
            item = tab(w, ws.COLUMN_ITEMS)[i]
            if i64(h, layout.DOT_SYMBOL)[item >> 32] == nonterminal:
                count = push_item(w, count, item + (np.int64(1) << 32))
                if count < 0:
                    return count
        return np.int64(count)
    heads = tab(w, ws.SYMBOL_HEADS)
    if not charge(w, heads[nonterminal + 1] - heads[nonterminal]):
        return np.int64(statuses.W_GROW)
    for j in range(heads[nonterminal], heads[nonterminal + 1]):
        dot = tab(w, ws.SYMBOL_DOTS)[j]
        row = tab(w, ws.ITEMS)[origin * head[ws.W_N_DOTS] + dot]
        if row == 0:
            continue
        charge(w, head[ws.W_WIDTH])
        for i in range(head[ws.W_WIDTH]):
            word = tab(w, ws.BITS)[row + i]
            while word:
                outer = 64 * i + low_bit(word)
                word &= word - 1
                count = push_item(w, count, pack(np.int64(dot + 1), np.int64(outer)))
                if count < 0:
                    return count
    return np.int64(count)


@kernel
def push_item(w, count, item):
    """Append an item to ``QUEUE`` if it is new there; the new count, or ``W_GROW``. A ``count`` of 0 begins a new queue."""
    index = tab(w, ws.PUSHED)
    charge(w, 4)
    if not room(w, ws.QUEUE, count + 1) or not room(w, ws.PUSHED, max(1024, 2 * (count + 1))):
        return np.int64(statuses.W_GROW)
    head = whead(w)
    if count == 0:
        head[ws.W_STAMP] += 1
        head[ws.W_PUSH_STAMP] = head[ws.W_STAMP]
    stamp = head[ws.W_PUSH_STAMP]
    queue = tab(w, ws.QUEUE)
    size = index.shape[0] - 1
    hash_ = mix(layout.HASH_SEED, item)
    slot = first_slot(hash_, size)
    while index[slot] >> 32 == stamp:
        if queue[index[slot] & 0xFFFFFFFF] == item:
            return np.int64(count)
        slot = (slot + 1) & size
    index[slot] = (stamp << 32) | count
    queue[count] = item
    return np.int64(count + 1)


@kernel
def n_starts(w, column):
    """How many entries :func:`start_at` has for a column: its EXACT start and the states of ``COL_SET``."""
    set_ = tab(w, ws.COLUMNS)[column * ws.COLUMN_WORDS + ws.COL_SET]
    return 1 + tab(w, ws.SET_HEADS)[set_ + 1] - tab(w, ws.SET_HEADS)[set_]


@kernel
def start_at(w, column, i):
    """The ``i``-th lexer state in which lexemes start that a column waits for; 0: none."""
    record = column * ws.COLUMN_WORDS
    if i == 0:
        return tab(w, ws.COLUMNS)[record + ws.COL_EXACT]
    return tab(w, ws.SET_STATES)[tab(w, ws.SET_HEADS)[tab(w, ws.COLUMNS)[record + ws.COL_SET]] + i - 1]


@kernel
def fits_at(w, column, node):
    """Whether all lexemes that compete in a column compete at a node of the lattice, so that the facts of the node hold for the
    column.
    """
    head = whead(w)
    if not head[ws.W_SPLIT] or tab(w, ws.NODE_OPEN)[node]:
        return True
    words = head[ws.W_SET]
    allowed = tab(w, ws.ALLOWED)
    first = tab(w, ws.COLUMNS)[column * ws.COLUMN_WORDS + ws.COL_TARGET]
    for i in range(words):
        if tab(w, ws.COLUMN_ITEMS)[first + i] & ~allowed[node * words + i]:
            return False
    return True
