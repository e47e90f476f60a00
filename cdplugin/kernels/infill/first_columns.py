"""First columns of a mask: the items that wait at the nodes where the lexemes alive at the hole began.

:mod:`cdplugin.kernels.infill.holes` begins each walk of the trie with a lexer state and such a column.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.columns import make_column, push_item
from cdplugin.kernels.infill.workspace import charge, has_bit, new_row, or_row, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer.fields import is_skip, symbol_of, value_of
from cdplugin.kernels.store import statuses
from cdplugin.kernels.store.arena import fill_words, length_of, pack, word_of


@kernel
def column_at_nodes(h, w, starts, state):
    """The column of the items that wait, at the nodes of the row ``starts``, for the lexemes of a lexer state; 0 if none; or a
    status.

    Inside a skip, and at a node itself (``state`` 0), it has the items that wait for any lexeme.
    """
    head = whead(w)
    words = head[ws.W_SET]
    target = tab(w, ws.TARGET)
    fill_words(target, 0, words, 0)
    for i in range(head[ws.W_WIDTH]):
        word = tab(w, ws.BITS)[starts + i]
        while word:
            node = 64 * i + low_bit(word)
            word &= word - 1
            for j in range(words):
                target[j] |= tab(w, ws.ALLOWED)[node * words + j]
    n_lexemes = head[ws.W_N_LEXEMES]
    count = np.int64(0)
    # after a skip all items may continue that wait where it began; at a node no lexeme has begun
    everything = state == 0
    if state > 0:
        value = value_of(h, state)
        for i in range(length_of(h, value)):
            number = word_of(h, value, i) >> 32
            everything = everything or is_skip(h, number) != 0
        if not everything:
            for i in range(length_of(h, value)):
                symbol = symbol_of(h, word_of(h, value, i) >> 32)
                count = _waiting_at(w, starts, symbol, count)
                if count < 0:
                    return count
    if everything:
        for symbol in range(n_lexemes):
            count = _waiting_at(w, starts, np.int64(symbol), count)
            if count < 0:
                return count
    # node 0 is where the text begins: no skip comes before it
    return make_column(h, w, count, 1, 0 if state == 0 and has_bit(tab(w, ws.BITS), starts, 0) else ws.SKIPS)


@kernel
def _waiting_at(w, starts, lexeme, count):
    """Append to ``QUEUE`` the items that wait for ``lexeme`` at the nodes of a row; the new count, or ``W_GROW``.

    For each dot before the lexeme the origins at all nodes are united first, so each item is pushed once. Nodes right of the
    hole have no items.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    heads = tab(w, ws.SYMBOL_HEADS)
    symbol = head[ws.W_N_SYMBOLS_NT] + lexeme
    for j in range(heads[symbol], heads[symbol + 1]):
        if not charge(w, 1 + width):
            return np.int64(statuses.W_GROW)
        dot = tab(w, ws.SYMBOL_DOTS)[j]
        united = np.int64(0)
        for i in range(width):
            word = tab(w, ws.BITS)[starts + i]
            while word:
                node = 64 * i + low_bit(word)
                word &= word - 1
                if node >= head[ws.W_LEFT]:
                    continue
                charge(w, 1 + (width >> 1))
                row = tab(w, ws.ITEMS)[node * head[ws.W_N_DOTS] + dot]
                if row:
                    if united == 0:
                        united = new_row(w)
                        if united < 0:
                            return united
                    or_row(tab(w, ws.BITS), united, row, width)
        if united == 0:
            continue
        for i in range(width):
            word = tab(w, ws.BITS)[united + i]
            while word:
                origin = 64 * i + low_bit(word)
                word &= word - 1
                count = push_item(w, count, pack(np.int64(dot), np.int64(origin)))
                if count < 0:
                    return count
    return np.int64(count)
