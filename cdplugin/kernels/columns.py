"""Earley columns inside a token: what a parser's state left of the hole becomes as the bytes of a token are read.

A *column* is an interned set of items ``(dot, origin)``; an origin is a node of the lattice, or a column (written as its
number after the nodes). Its items are kept with their static closure. ``OUT`` of a column says, as for a node, at which nodes
right of the hole a nonterminal that began in it may end so that the text can be completed.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import (
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
    X_SKIP,
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
from cdplugin.kernels.arena import EXACT as EXACT_KIND
from cdplugin.kernels.arena import GROW as ARENA_GROW
from cdplugin.kernels.intersect import END_OF_RULE
from cdplugin.kernels.jit import kernel, low_bit
from cdplugin.kernels.lexer import L_VALUE, LEXER_WORDS, lexer_state
from cdplugin.kernels.ways import ask, is_long, leads_out, way_of
from cdplugin.kernels.workspace import (
    BITS,
    COLUMN_HASH,
    COLUMN_ITEMS,
    COLUMNS,
    DOT_OUT,
    FIRST_DOTS,
    FIRST_HEADS,
    ITEMS,
    NT_MARK,
    OUT,
    PUSHED,
    QUEUE,
    REST_NODES,
    SKIPPED,
    SYMBOL_DOTS,
    SYMBOL_HEADS,
    W_COLUMN_ITEMS_USED,
    W_GROW,
    W_LEFT,
    W_N_COLUMNS,
    W_N_DOTS,
    W_N_LEXEMES,
    W_N_SYMBOLS_NT,
    W_NODES,
    W_PUSH_STAMP,
    W_SET,
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

# record of a column: its kernel, its items that wait for something, its lexer states (0: none), whether it only scans
K_START, K_COUNT, K_ITEMS, K_N_ITEMS, K_EXACT, K_LONGEST, K_SCANS = range(7)
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

    ``scans``: the items are all there is; nothing is predicted. ``skips``: whether a skip may come first.
    """
    if count == 0:
        return np.int64(0)
    head = whead(w)
    queue = tab(w, QUEUE)
    count = sort_unique(queue, start, count)
    hash_ = mix(2166136261, 2 * scans + skips)
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
    if not room(w, COLUMN_ITEMS, used + count) or not room(w, COLUMNS, (column + 1) * COLUMN_WORDS):
        return np.int64(W_GROW)
    items = tab(w, COLUMN_ITEMS)
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
    for group in (K_EXACT, K_LONGEST):
        state = _start_state(h, w, first, n_items, group == K_EXACT, skips)
        if state < 0:
            return state
        tab(w, COLUMNS)[record + group] = state
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
def _start_state(h, w, first, n_items, exact, skips):
    """The lexer state in which the EXACT, or the other, lexemes that some items wait for start; 0 if there are none; or a
    status.
    """
    symbols = i64(h, DOT_SYMBOL)
    end_lexeme = whead(w)[W_N_LEXEMES] - 1
    head = header(h)
    base = head[STACK_TOP]
    if not has_room(h, STACK, base + 2 * n_items + end_lexeme + 2):
        return np.int64(ARENA_GROW)
    words = i64(h, STACK)
    lexemes = i64(h, LEXEMES)
    count = 0
    for i in range(n_items):
        lexeme = -2 - symbols[tab(w, COLUMN_ITEMS)[first + i] >> 32]
        if lexeme < 0:
            continue
        if lexeme == end_lexeme:
            if not exact and skips:
                count = _skips_at_end(h, w, words, base, count)
            continue
        record = lexeme * LEXEME_WORDS
        if (lexemes[record + X_KIND] == EXACT_KIND) != exact:
            continue
        words[base + count] = lexeme
        count += 1
        if not exact and skips and lexemes[record + X_SKIP] >= 0:
            words[base + count] = lexemes[record + X_SKIP]
            count += 1
    count = sort_unique(words, base, count)
    for i in range(base, base + count):
        words[i] = pack(words[i], lexemes[words[i] * LEXEME_WORDS + X_EXPRESSION])
    head[STACK_TOP] = base + count
    state = lexer_state(h, base, count)
    head[STACK_TOP] = base
    return np.int64(state)


@kernel
def _skips_at_end(h, w, words, base, count):
    """Append the skips that may end every text (there are few skips, and items that wait for the end); how many words then."""
    lexemes = i64(h, LEXEMES)
    set_ = whead(w)[W_SET]
    end_lexeme = whead(w)[W_N_LEXEMES] - 1
    for skip in range(end_lexeme):
        if lexemes[skip * LEXEME_WORDS + X_IS_SKIP] and has_bit(tab(w, SKIPPED), skip * set_, end_lexeme):
            words[base + count] = skip
            count += 1
    return count


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

    If one of them is a skip, the column stays.
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
            return column_with_skips(h, w, column)
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
    return make_column(h, w, 0, kept, 0, 1)


@kernel
def column_with_skips(h, w, column):
    """The same column after a skip: from now on skips may come (at the beginning of a text none does)."""
    record = column * COLUMN_WORDS
    columns = tab(w, COLUMNS)
    if columns[record + K_SCANS] & 1:
        return np.int64(column)
    count = columns[record + K_COUNT]
    if not room(w, QUEUE, count + 1):
        return np.int64(W_GROW)
    for i in range(count):
        tab(w, QUEUE)[i] = tab(w, COLUMN_ITEMS)[columns[record + K_START] + i]
    return make_column(h, w, 0, count, columns[record + K_SCANS] >> 1, 1)


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

    In the middle of a skip, the items that wait for any lexeme. 0 if there are none; or a status.
    """
    head = whead(w)
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
    return make_column(h, w, 0, count, 1, 0 if has_bit(tab(w, BITS), starts, 0) else 1)


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
