"""Earley columns inside a token: what a parser's state left of the hole becomes as the bytes of a token are read.

A *column* is an interned set of items ``(dot, origin)``; an origin is a node of the lattice, or a column (written as its
number after the nodes). Its items are kept with their static closure. ``OUT`` of a column says, as for a node, at which nodes
right of the hole a nonterminal that began in it may end so that the text can be completed.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill.boundaries import may_follow
from cdplugin.kernels.infill.intersect import END_OF_RULE
from cdplugin.kernels.infill.starts import SKIPS, set_of_starts
from cdplugin.kernels.infill.ways import ask, is_long, leads_out, way_of
from cdplugin.kernels.infill.workspace import (
    ALLOWED,
    BITS,
    COLUMN_HASH,
    COLUMN_ITEMS,
    COLUMNS,
    DOT_OUT,
    FIRST_DOTS,
    FIRST_HEADS,
    ITEMS,
    NODE_OPEN,
    NT_MARK,
    OUT,
    PUSHED,
    QUEUE,
    REST_NODES,
    SET_HEADS,
    SET_STATES,
    SKIPPED,
    SYMBOL_DOTS,
    SYMBOL_HEADS,
    TARGET,
    W_COLUMN_ITEMS_USED,
    W_GROW,
    W_LEFT,
    W_LOOSE,
    W_N_COLUMNS,
    W_N_DOTS,
    W_N_LEXEMES,
    W_N_SYMBOLS_NT,
    W_NODES,
    W_PUSH_STAMP,
    W_SET,
    W_SPLIT,
    W_STAMP,
    W_WIDTH,
    end_node,
    has_bit,
    new_row,
    or_row,
    room,
    row_in,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer.lexer import L_VALUE, LEXER_WORDS, lexer_state
from cdplugin.kernels.store.arena import (
    DOT_LEFT,
    DOT_NULL_REST,
    DOT_SYMBOL,
    LEXEME_WORDS,
    LEXEMES,
    LEXER_STATES,
    NULLABLE,
    STACK,
    STACK_TOP,
    X_EXPRESSION,
    X_IS_SKIP,
    X_KIND,
    X_SYMBOL,
    has_room,
    header,
    i64,
    length_of,
    mix,
    pack,
    sort_unique,
    word_of,
)
from cdplugin.kernels.store.arena import EXACT as EXACT_KIND
from cdplugin.kernels.store.arena import GROW as ARENA_GROW

# record of a column: its kernel, its items that wait for something, the lexer state in which EXACT lexemes start (0: none),
# whether it only scans, the set of lexer states in which the others start, and where in COLUMN_ITEMS the set of lexemes is that
# compete there (W_SPLIT)
K_START, K_COUNT, K_ITEMS, K_N_ITEMS, K_EXACT, K_SCANS, K_SET, K_TARGET = range(8)
COLUMN_WORDS = 8


@kernel
def forget_columns(w):
    """No columns. 0, or ``W_GROW``."""
    head = whead(w)
    head[W_N_COLUMNS] = 1
    head[W_COLUMN_ITEMS_USED] = 0
    if not room(w, COLUMN_HASH, 1024):
        return np.int64(W_GROW)
    index = tab(w, COLUMN_HASH)
    for i in range(index.shape[0]):
        index[i] = 0
    return np.int64(0)


@kernel
def column_origin(w, column):
    """A column as an origin."""
    return 64 * whead(w)[W_WIDTH] + column


@kernel
def make_column(h, w, start, count, scans, skips):
    """The column with the items ``QUEUE[start:start + count]`` (sorted here); 0 if there are none; or a status.

    ``scans``: the items are all there is; nothing is predicted. ``skips``: :data:`SKIPS` if a skip may come first.
    ``TARGET``: the lexemes that compete there (``W_SPLIT``).
    """
    if count == 0:
        return np.int64(0)
    head = whead(w)
    queue = tab(w, QUEUE)
    count = sort_unique(queue, start, count)
    hash_ = mix(2166136261, 2 * scans + skips)
    compete = head[W_SET] if head[W_SPLIT] else np.int64(0)
    for i in range(compete):
        hash_ = mix(hash_, tab(w, TARGET)[i])
    for i in range(start, start + count):
        hash_ = mix(hash_, queue[i])
    index = tab(w, COLUMN_HASH)
    size = index.shape[0] - 1
    slot = (hash_ ^ (hash_ >> 16)) & size
    items = tab(w, COLUMN_ITEMS)
    columns = tab(w, COLUMNS)
    while index[slot] != 0:
        record = index[slot] * COLUMN_WORDS
        if columns[record + K_COUNT] == count and columns[record + K_SCANS] == 2 * scans + skips:
            same = True
            for i in range(compete):
                if items[columns[record + K_TARGET] + i] != tab(w, TARGET)[i]:
                    same = False
            for i in range(count):
                if items[columns[record + K_START] + i] != queue[start + i]:
                    same = False
                    break
            if same:
                return index[slot]
        slot = (slot + 1) & size
    column = head[W_N_COLUMNS]
    if 2 * column > index.shape[0]:
        room(w, COLUMN_HASH, 2 * index.shape[0])
        return np.int64(W_GROW)
    used = head[W_COLUMN_ITEMS_USED]
    if not room(w, COLUMN_ITEMS, used + compete + count) or not room(w, COLUMNS, (column + 1) * COLUMN_WORDS):
        return np.int64(W_GROW)
    items = tab(w, COLUMN_ITEMS)
    target = used
    for i in range(compete):
        items[target + i] = tab(w, TARGET)[i]
    used += compete
    for i in range(count):
        items[used + i] = queue[start + i]
    n_items = np.int64(count)
    first = used
    if not scans:
        first = used + count
        n_items = _close(h, w, used, count, first, column)
        if n_items < 0:
            return n_items
    columns = tab(w, COLUMNS)
    record = column * COLUMN_WORDS
    columns[record + K_START] = used
    columns[record + K_COUNT] = count
    columns[record + K_ITEMS] = first
    columns[record + K_N_ITEMS] = n_items
    columns[record + K_SCANS] = 2 * scans + skips
    columns[record + K_TARGET] = target
    state = _exact_start(h, w, first, n_items)
    if state < 0:
        return state
    if head[W_LOOSE]:
        _await(h, w, first, n_items)
    set_ = np.int64(0)
    if head[W_LOOSE] or head[W_SPLIT]:
        set_ = set_of_starts(h, w, TARGET, np.int64(0), np.int64(skips))
        if set_ < 0:
            return set_
    tab(w, COLUMNS)[record + K_EXACT] = state
    tab(w, COLUMNS)[record + K_SET] = set_
    if not scans:
        status = _build_out(h, w, column, first, n_items)
        if status < 0:
            return status
    tab(w, COLUMN_HASH)[slot] = column
    head[W_N_COLUMNS] = column + 1
    head[W_COLUMN_ITEMS_USED] = first + n_items
    return column


@kernel
def _close(h, w, kernel_start, count, first, column):
    """Write the items of a column that wait for a symbol, predicted ones included, to ``COLUMN_ITEMS[first:]``; their number
    or ``W_GROW``.
    """
    head = whead(w)
    head[W_STAMP] += 1
    stamp = head[W_STAMP]
    symbols = i64(h, DOT_SYMBOL)
    nullable = i64(h, NULLABLE)
    marks = tab(w, NT_MARK)
    origin = column_origin(w, column)
    total = np.int64(0)
    for i in range(count):
        item = tab(w, COLUMN_ITEMS)[kernel_start + i]
        total = _skip_null(w, symbols, nullable, first, total, item >> 32, item & 0xFFFFFFFF)
        if total < 0:
            return total
    at = np.int64(0)
    while at < total:
        symbol = symbols[tab(w, COLUMN_ITEMS)[first + at] >> 32]
        at += 1
        if symbol >= 0 and marks[symbol] != stamp:
            marks[symbol] = stamp
            for i in range(tab(w, FIRST_HEADS)[symbol], tab(w, FIRST_HEADS)[symbol + 1]):
                total = _skip_null(w, symbols, nullable, first, total, tab(w, FIRST_DOTS)[i], origin)
                if total < 0:
                    return total
    return total


@kernel
def _skip_null(w, symbols, nullable, first, total, dot, origin):
    """Append ``(dot, origin)`` and what moving over empty nonterminals gives; the new number of items, or ``W_GROW``."""
    while symbols[dot] != END_OF_RULE:
        if not room(w, COLUMN_ITEMS, first + total + 1):
            return np.int64(W_GROW)
        tab(w, COLUMN_ITEMS)[first + total] = pack(dot, origin)
        total += 1
        if symbols[dot] < 0 or not nullable[symbols[dot]]:
            break
        dot += 1
    return np.int64(total)


@kernel
def _exact_start(h, w, first, n_items):
    """The lexer state in which the EXACT lexemes that some items wait for start; 0 if there are none; or a status."""
    symbols = i64(h, DOT_SYMBOL)
    end_lexeme = whead(w)[W_N_LEXEMES] - 1
    head = header(h)
    base = head[STACK_TOP]
    if not has_room(h, STACK, base + n_items + 1):
        return np.int64(ARENA_GROW)
    words = i64(h, STACK)
    lexemes = i64(h, LEXEMES)
    count = 0
    for i in range(n_items):
        lexeme = -2 - symbols[tab(w, COLUMN_ITEMS)[first + i] >> 32]
        if 0 <= lexeme < end_lexeme and lexemes[lexeme * LEXEME_WORDS + X_KIND] == EXACT_KIND:
            words[base + count] = lexeme
            count += 1
    count = sort_unique(words, base, count)
    for i in range(base, base + count):
        words[i] = pack(words[i], lexemes[words[i] * LEXEME_WORDS + X_EXPRESSION])
    head[STACK_TOP] = base + count
    state = lexer_state(h, base, count)
    head[STACK_TOP] = base
    return np.int64(state)


@kernel
def _await(h, w, first, n_items):
    """Write to ``TARGET`` the lexemes that some items wait for, and all skips if one waits for the end of the text."""
    words = whead(w)[W_SET]
    end_lexeme = whead(w)[W_N_LEXEMES] - 1
    symbols = i64(h, DOT_SYMBOL)
    target = tab(w, TARGET)
    for i in range(words):
        target[i] = 0
    for i in range(n_items):
        lexeme = -2 - symbols[tab(w, COLUMN_ITEMS)[first + i] >> 32]
        if lexeme >= 0:
            target[lexeme >> 6] |= np.int64(1) << (lexeme & 63)
    if has_bit(target, 0, end_lexeme):
        for skip in range(end_lexeme):
            if i64(h, LEXEMES)[skip * LEXEME_WORDS + X_IS_SKIP]:
                target[skip >> 6] |= np.int64(1) << (skip & 63)


@kernel
def _build_out(h, w, column, first, n_items):
    """Fill ``OUT`` of a column; 0 or ``W_GROW``. What comes from other origins is united by dots first; items that began here
    are a fixpoint, for left recursion.
    """
    head = whead(w)
    n_nonterminals = head[W_N_SYMBOLS_NT]
    origin = column_origin(w, column)
    symbols = i64(h, DOT_SYMBOL)
    lefts = i64(h, DOT_LEFT)
    if not room(w, OUT, (origin + 1) * n_nonterminals) or not room(w, DOT_OUT, 2 * head[W_N_DOTS]):
        return np.int64(W_GROW)
    out = tab(w, OUT)
    for i in range(origin * n_nonterminals, (origin + 1) * n_nonterminals):
        out[i] = 0
    head[W_STAMP] += 1
    stamp = head[W_STAMP]
    united = tab(w, DOT_OUT)
    for i in range(first, first + n_items):
        item = tab(w, COLUMN_ITEMS)[i]
        dot = item >> 32
        outer = tab(w, OUT)[(item & 0xFFFFFFFF) * n_nonterminals + lefts[dot]]
        if symbols[dot] < 0 or outer == 0:
            continue
        if united[2 * dot] != stamp:
            row = new_row(w)
            if row < 0:
                return row
            united[2 * dot] = stamp
            united[2 * dot + 1] = row
        or_row(tab(w, BITS), united[2 * dot + 1], outer, head[W_WIDTH])
    for i in range(first, first + n_items):
        dot = tab(w, COLUMN_ITEMS)[i] >> 32
        if united[2 * dot] == stamp:
            united[2 * dot] = 0
            if _add_outs(h, w, origin * n_nonterminals + symbols[dot], dot + 1, united[2 * dot + 1]) < 0:
                return np.int64(W_GROW)
    grown = True
    while grown:
        grown = False
        for i in range(first, first + n_items):
            item = tab(w, COLUMN_ITEMS)[i]
            dot = item >> 32
            outer = tab(w, OUT)[origin * n_nonterminals + lefts[dot]]
            if symbols[dot] < 0 or outer == 0 or item & 0xFFFFFFFF != origin:
                continue
            grew = _add_outs(h, w, origin * n_nonterminals + symbols[dot], dot + 1, outer)
            if grew < 0:
                return grew
            grown = grown or grew == 1
    return np.int64(0)


@kernel
def _add_outs(h, w, index, dot, outer):
    """Add to ``OUT[index]`` the nodes right of the hole at which ``dot`` leads out: 1 if some are new, 0, or ``W_GROW``."""
    head = whead(w)
    way = np.int64(0)
    if is_long(w):
        way = way_of(w, dot, outer)
        if way < 0:
            return way
    into = row_in(w, OUT, index)
    if into < 0:
        return into
    grew = np.int64(0)
    nodes = tab(w, REST_NODES)
    null_rest = i64(h, DOT_NULL_REST)[dot]
    width = head[W_WIDTH]
    for i in range(width):
        word = nodes[dot * width + i]
        if null_rest:
            word |= tab(w, BITS)[outer + i]
        word &= _nodes_right(w, i) & ~tab(w, BITS)[into + i]
        if way:
            word = ask(h, w, dot, outer, way, i, word)
        found = word
        while word and not way:
            bit = np.int64(1) << low_bit(word)
            word &= word - 1
            if not leads_out(h, w, 64 * i + low_bit(bit), dot, outer):
                found &= ~bit
        if found:
            tab(w, BITS)[into + i] |= found
            grew = np.int64(1)
    return grew


@kernel
def _nodes_right(w, i):
    """Word ``i`` of the row of all nodes right of the hole, and of the end."""
    head = whead(w)
    word = np.int64(0)
    low = max(head[W_LEFT] - 64 * i, 0)
    high = head[W_NODES] - 64 * i
    if low < 64 and high > low:
        word = np.int64(-1) << low
        if high < 64:
            word &= ~(np.int64(-1) << high)
    if i == end_node(w) >> 6:
        word |= np.int64(1) << (end_node(w) & 63)
    return word


@kernel
def scan(h, w, column, accepted):
    """The column after every lexeme of the set ``accepted``; 0 if none was waited for; or a status.

    If one of them is a skip, nothing is scanned.
    """
    symbols = i64(h, DOT_SYMBOL)
    lexemes = i64(h, LEXEMES)
    record = column * COLUMN_WORDS
    first = tab(w, COLUMNS)[record + K_ITEMS]
    n_items = tab(w, COLUMNS)[record + K_N_ITEMS]
    count = np.int64(0)
    for a in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, a)
        if lexemes[lexeme * LEXEME_WORDS + X_IS_SKIP]:
            return _after_skips(h, w, column, accepted)
        for i in range(first, first + n_items):
            item = tab(w, COLUMN_ITEMS)[i]
            if symbols[item >> 32] == -2 - lexeme:
                count = _push(w, count, item + (np.int64(1) << 32))
                if count < 0:
                    return count
    at = np.int64(0)
    while at < count:
        item = tab(w, QUEUE)[at]
        at += 1
        dot = item >> 32
        if not i64(h, DOT_NULL_REST)[dot]:
            continue
        count = _complete(h, w, count, i64(h, DOT_LEFT)[dot], item & 0xFFFFFFFF)
        if count < 0:
            return count
    kept = 0
    queue = tab(w, QUEUE)
    for i in range(count):
        if symbols[queue[i] >> 32] != END_OF_RULE:
            queue[kept] = queue[i]
            kept += 1
    may_follow(h, w, accepted)
    return make_column(h, w, 0, kept, 0, SKIPS)


@kernel
def _after_skips(h, w, column, accepted):
    """The column after the skips of a set: the items that wait for a lexeme that one of them may stand before; 0 if there are
    none, or a status.
    """
    head = whead(w)
    words = head[W_SET]
    symbols = i64(h, DOT_SYMBOL)
    lexemes = i64(h, LEXEMES)
    record = column * COLUMN_WORDS
    target = tab(w, TARGET)
    for i in range(words):
        target[i] = 0
    for j in range(length_of(h, accepted)):
        skip = word_of(h, accepted, j)
        if lexemes[skip * LEXEME_WORDS + X_IS_SKIP]:
            for i in range(words):
                target[i] |= tab(w, SKIPPED)[skip * words + i]
    count = np.int64(0)
    first = tab(w, COLUMNS)[record + K_ITEMS]
    for i in range(first, first + tab(w, COLUMNS)[record + K_N_ITEMS]):
        item = tab(w, COLUMN_ITEMS)[i]
        lexeme = -2 - symbols[item >> 32]
        if lexeme >= 0 and has_bit(target, 0, lexeme):
            count = _push(w, count, item)
            if count < 0:
                return count
    if head[W_SPLIT]:
        allowed = tab(w, COLUMNS)[record + K_TARGET]
        for i in range(words):
            target[i] &= tab(w, COLUMN_ITEMS)[allowed + i]
    return make_column(h, w, 0, count, 1, SKIPS)


@kernel
def _complete(h, w, count, nonterminal, origin):
    """Push the items that wait at ``origin`` for ``nonterminal``, moved over it; the new count, or ``W_GROW``."""
    head = whead(w)
    if origin >= 64 * head[W_WIDTH]:
        record = (origin - 64 * head[W_WIDTH]) * COLUMN_WORDS
        first = tab(w, COLUMNS)[record + K_ITEMS]
        for i in range(first, first + tab(w, COLUMNS)[record + K_N_ITEMS]):
            item = tab(w, COLUMN_ITEMS)[i]
            if i64(h, DOT_SYMBOL)[item >> 32] == nonterminal:
                count = _push(w, count, item + (np.int64(1) << 32))
                if count < 0:
                    return count
        return np.int64(count)
    heads = tab(w, SYMBOL_HEADS)
    for j in range(heads[nonterminal], heads[nonterminal + 1]):
        dot = tab(w, SYMBOL_DOTS)[j]
        row = tab(w, ITEMS)[origin * head[W_N_DOTS] + dot]
        if row == 0:
            continue
        for i in range(head[W_WIDTH]):
            word = tab(w, BITS)[row + i]
            while word:
                outer = 64 * i + low_bit(word)
                word &= word - 1
                count = _push(w, count, pack(np.int64(dot + 1), np.int64(outer)))
                if count < 0:
                    return count
    return np.int64(count)


@kernel
def _push(w, count, item):
    """Append an item to ``QUEUE`` if it is new there; the new count, or ``W_GROW``. A queue begins with its first item."""
    index = tab(w, PUSHED)
    if not room(w, QUEUE, count + 1) or not room(w, PUSHED, max(1024, 2 * (count + 1))):
        return np.int64(W_GROW)
    head = whead(w)
    if count == 0:
        head[W_STAMP] += 1
        head[W_PUSH_STAMP] = head[W_STAMP]
    stamp = head[W_PUSH_STAMP]
    queue = tab(w, QUEUE)
    size = index.shape[0] - 1
    hash_ = mix(2166136261, item)
    slot = (hash_ ^ (hash_ >> 16)) & size
    while index[slot] >> 32 == stamp:
        if queue[index[slot] & 0xFFFFFFFF] == item:
            return np.int64(count)
        slot = (slot + 1) & size
    index[slot] = (stamp << 32) | count
    queue[count] = item
    return np.int64(count + 1)


@kernel
def column_at_nodes(h, w, starts, state):
    """A column that holds the items that wait for the lexemes of a lexer state at the nodes of the row ``starts``.

    In the middle of a skip, the items that wait for any lexeme; at a node (``state`` 0), too. 0 if there are none; or a status.
    """
    head = whead(w)
    words = head[W_SET]
    target = tab(w, TARGET)
    for i in range(words):
        target[i] = 0
    for i in range(head[W_WIDTH]):
        word = tab(w, BITS)[starts + i]
        while word:
            node = 64 * i + low_bit(word)
            word &= word - 1
            for j in range(words):
                target[j] |= tab(w, ALLOWED)[node * words + j]
    n_lexemes = head[W_N_LEXEMES]
    lexemes = i64(h, LEXEMES)
    count = np.int64(0)
    everything = state == 0
    if state > 0:
        value = i64(h, LEXER_STATES)[state * LEXER_WORDS + L_VALUE]
        for i in range(length_of(h, value)):
            number = word_of(h, value, i) >> 32
            everything = everything or lexemes[number * LEXEME_WORDS + X_IS_SKIP] != 0
        if not everything:
            for i in range(length_of(h, value)):
                symbol = lexemes[(word_of(h, value, i) >> 32) * LEXEME_WORDS + X_SYMBOL]
                count = _waiting_at(w, starts, symbol, count)
                if count < 0:
                    return count
    if everything:
        for symbol in range(n_lexemes):
            count = _waiting_at(w, starts, np.int64(symbol), count)
            if count < 0:
                return count
    return make_column(h, w, 0, count, 1, 0 if state == 0 and has_bit(tab(w, BITS), starts, 0) else SKIPS)


@kernel
def n_starts(w, column):
    """How many lexer states what comes next in a column starts in, at most."""
    set_ = tab(w, COLUMNS)[column * COLUMN_WORDS + K_SET]
    return 1 + tab(w, SET_HEADS)[set_ + 1] - tab(w, SET_HEADS)[set_]


@kernel
def start_at(w, column, i):
    """One of these lexer states; 0: none."""
    record = column * COLUMN_WORDS
    if i == 0:
        return tab(w, COLUMNS)[record + K_EXACT]
    return tab(w, SET_STATES)[tab(w, SET_HEADS)[tab(w, COLUMNS)[record + K_SET]] + i - 1]


@kernel
def fits_at(w, column, node):
    """Whether all that competes in a column competes at a node of the lattice."""
    head = whead(w)
    if not head[W_SPLIT] or tab(w, NODE_OPEN)[node]:
        return True
    words = head[W_SET]
    allowed = tab(w, ALLOWED)
    first = tab(w, COLUMNS)[column * COLUMN_WORDS + K_TARGET]
    for i in range(words):
        if tab(w, COLUMN_ITEMS)[first + i] & ~allowed[node * words + i]:
            return False
    return True


@kernel
def _waiting_at(w, starts, lexeme, count):
    """Append to ``QUEUE`` the items that wait for ``lexeme`` at the nodes of a row, their origins united; the new count."""
    head = whead(w)
    width = head[W_WIDTH]
    heads = tab(w, SYMBOL_HEADS)
    symbol = head[W_N_SYMBOLS_NT] + lexeme
    for j in range(heads[symbol], heads[symbol + 1]):
        dot = tab(w, SYMBOL_DOTS)[j]
        united = np.int64(0)
        for i in range(width):
            word = tab(w, BITS)[starts + i]
            while word:
                node = 64 * i + low_bit(word)
                word &= word - 1
                if node >= head[W_LEFT]:
                    continue
                row = tab(w, ITEMS)[node * head[W_N_DOTS] + dot]
                if row:
                    if united == 0:
                        united = new_row(w)
                        if united < 0:
                            return united
                    or_row(tab(w, BITS), united, row, width)
        if united == 0:
            continue
        for i in range(width):
            word = tab(w, BITS)[united + i]
            while word:
                origin = 64 * i + low_bit(word)
                word &= word - 1
                count = _push(w, count, pack(np.int64(dot), np.int64(origin)))
                if count < 0:
                    return count
    return np.int64(count)
