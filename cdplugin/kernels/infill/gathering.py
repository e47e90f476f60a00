"""Inference steps of the fixpoint at a node (:mod:`cdplugin.kernels.infill.intersect` decides their order).

From the ends of a symbol follows where the rest of its rule leads, and from that where the rule's nonterminal ends.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.alive import is_alive
from cdplugin.kernels.infill.asked import rest_behind
from cdplugin.kernels.infill.chains import wait
from cdplugin.kernels.infill.gap_rests import gap_rest
from cdplugin.kernels.infill.workspace import charge, has_bit, name_row, new_row, or_row, rest_row, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64


@kernel
def take_over(h, w, node, dot, other):
    """Add ``REST[dot]`` of a node ``other`` further right to that of ``node``; 0 or a status.

    Sound because all ends of the symbol at ``other`` are ends at ``node``, too.
    """
    n_dots = whead(w)[ws.W_N_DOTS]
    if has_bit(tab(w, ws.REST_NODES), dot * whead(w)[ws.W_WIDTH], other):
        known = tab(w, ws.REST)[other * n_dots + dot]
    elif has_bit(tab(w, ws.GAP_BY_END), 0, other):
        known = gap_rest(h, w, other, dot)
    else:
        known = np.int64(0)
    if known <= 0:
        return known
    charge(w, whead(w)[ws.W_WIDTH])
    into = rest_row(w, node, dot)
    if into < 0:
        return into
    first = node >> 6
    if or_row(tab(w, ws.BITS), into + first, known + first, whead(w)[ws.W_WIDTH] - first):
        return _grown(h, w, node, dot)
    return np.int64(0)


@kernel
def gather(h, w, node, dot, ends):
    """Add to ``REST[dot]`` at ``node`` where the rest of the rule leads from ``ends``, the ends of the symbol after ``dot``; 0
    or a status.
    """
    has_row = has_bit(tab(w, ws.REST_NODES), dot * whead(w)[ws.W_WIDTH], node)
    into = tab(w, ws.REST)[node * whead(w)[ws.W_N_DOTS] + dot] if has_row else np.int64(0)
    grew = _lead_on(h, w, node, dot, ends, into)
    return _grown(h, w, node, dot) if grew > 0 else grew


@kernel
def derive(h, w, node, dot, ends):
    """:func:`gather` for a rule that begins at ``dot`` with a symbol of few ends; 0 or a status.

    Nobody takes over its ``REST`` or reads a completion off it, so no row is made: ``DERIVED`` of the rule's nonterminal grows
    at once. If the symbol later comes to have many ends, all of them are followed again, and ``REST`` is made then.
    """
    left = i64(h, layout.DOT_LEFT)[dot]
    into = derived_row(w, node, left)
    grew = _lead_on(h, w, node, dot, ends, into) if into > 0 else into
    if grew > 0:
        wait(w, left)
    return min(grew, np.int64(0))


@kernel
def _lead_on(h, w, node, dot, ends, into):
    """Add to a row where the rest of a rule leads from ``ends``, the ends of the symbol after ``dot``: 1 if it grew, 0, or a
    status. ``into``: the row; 0: that of ``REST[dot]`` at ``node``, made here if there is anything for it.

    If the rest may be empty, the ends themselves count. ``REST_NODES`` tells which nodes have a row for the next dot, so the
    others are skipped a word at a time.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_dots = head[ws.W_N_DOTS]
    bits = tab(w, ws.BITS)
    rest = tab(w, ws.REST)
    nodes = tab(w, ws.REST_NODES)
    useful = tab(w, ws.USEFUL)
    asked = head[ws.W_ASKED] != 0
    null_rest = i64(h, layout.DOT_NULL_REST)[dot + 1]
    goes_on = i64(h, layout.DOT_SYMBOL)[dot + 1] != layout.END_OF_RULE
    grew = False
    work = width - (node >> 6)
    for i in range(node >> 6, width):
        word = bits[ends + i]
        if word == 0:
            continue
        if null_rest:
            if into == 0:
                into = rest_row(w, node, dot)
                if into < 0:
                    return into
            grew = grew or (word & ~bits[into + i]) != 0
            bits[into + i] |= word
        if not goes_on:
            continue
        # only ends at which the next dot may have a row, a word of them at a time
        word &= useful[i] if asked else nodes[(dot + 1) * width + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            after = rest_behind(h, w, end, dot) if asked else rest[end * n_dots + dot + 1]
            if after <= 0:
                if after < 0:
                    return after
                continue
            work += width - i
            if into == 0:
                into = rest_row(w, node, dot)
                if into < 0:
                    return into
            # a rest ends at its beginning or right of it, so words left of the end's are 0
            if after != into and or_row(bits, into + i, after + i, width - i):
                grew = True
    charge(w, work)
    return np.int64(grew)


@kernel
def promote(w, node, left, row):
    """:func:`gather` for a unit rule: add the symbol's ends straight to ``DERIVED[left]``; 0 or ``W_GROW``."""
    into = derived_row(w, node, left)
    if into < 0:
        return into
    word = node >> 6
    charge(w, whead(w)[ws.W_WIDTH] - word)
    if or_row(tab(w, ws.BITS), into + word, row + word, whead(w)[ws.W_WIDTH] - word):
        wait(w, left)
    return np.int64(0)


@kernel
def derive_asked(h, w, node, dot, row, n_ends):
    """:func:`derive` at a node whose rests are found on demand; 0 or a status.

    ``END_LIST``: the useful ends of ``row``. ``DERIVED`` gets a row only if the rule leads anywhere.
    """
    width = whead(w)[ws.W_WIDTH]
    left = i64(h, layout.DOT_LEFT)[dot]
    bits = tab(w, ws.BITS)
    into = np.int64(0)
    grew = False
    if i64(h, layout.DOT_NULL_REST)[dot + 1]:
        into = derived_row(w, node, left)
        if into < 0:
            return into
        grew = or_row(bits, into, row, width)
    if i64(h, layout.DOT_SYMBOL)[dot + 1] != layout.END_OF_RULE:
        for i in range(n_ends):
            end = tab(w, ws.END_LIST)[i]
            after = rest_behind(h, w, end, dot)
            if after == 0:
                continue
            if into == 0 and after > 0:
                into = derived_row(w, node, left)
            if after < 0 or into < 0:
                return min(after, into)
            word = end >> 6
            grew = or_row(bits, into + word, after + word, width - word) or grew
            charge(w, width)
    if grew:
        wait(w, left)
    return np.int64(0)


@kernel
def derived_row(w, node, nonterminal):
    """The row in ``DERIVED`` of a nonterminal at the current node, made now if there is none; or ``W_GROW``.

    It is made with the row after it, ``W_WIDTH`` further on, which holds the ends already followed.
    """
    index = node * whead(w)[ws.W_N_SYMBOLS_NT] + nonterminal
    here = tab(w, ws.DERIVED_HERE)
    bit = np.int64(1) << (nonterminal & 63)
    if here[nonterminal >> 6] & bit:
        return tab(w, ws.DERIVED)[index]
    entry = name_row(w, ws.DERIVED, index)
    if entry < 0 or new_row(w) < 0:
        return np.int64(statuses.W_GROW)
    here[nonterminal >> 6] |= bit
    return entry


@kernel
def _grown(h, w, node, dot):
    """Pass on that ``REST[dot]`` at ``node`` grew, until nothing more grows; 0 or a status.

    At the beginning of a rule it is passed to the rule's nonterminal. Elsewhere it is passed to the dot before, if the symbol
    between leads from the node to itself: if it is empty, or lies in a gap.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    word = node >> 6
    width = head[ws.W_WIDTH] - word
    first = tab(w, ws.IS_FIRST)
    near_first = tab(w, ws.NEAR_FIRST)
    is_asked = has_bit(tab(w, ws.ASKED), 0, node)
    symbols = i64(h, layout.DOT_SYMBOL)
    while True:
        row = tab(w, ws.REST)[node * n_dots + dot]
        charge(w, 1 + width)
        if first[dot] or (is_asked and near_first[dot]):
            # the whole rule has new ends, so its nonterminal has
            left = i64(h, layout.DOT_LEFT)[dot]
            entry = derived_row(w, node, left)
            if entry < 0:
                return entry
            if or_row(tab(w, ws.BITS), entry + word, row + word, width):
                wait(w, left)
            return np.int64(0)
        # if the symbol before cannot lead from this node to itself, the dot before it does not grow
        if is_asked or not stays(h, w, node, symbols[dot - 1]) or not is_alive(w, node, dot - 1):
            return np.int64(0)
        into = rest_row(w, node, dot - 1)
        if into < 0:
            return into
        if not or_row(tab(w, ws.BITS), into + word, row + word, width):
            return np.int64(0)
        dot -= 1


@kernel
def stays(h, w, node, symbol):
    """Whether a symbol leads from a node to itself: it derives the empty string, or lies in a gap."""
    head = whead(w)
    if symbol >= 0:
        if i64(h, layout.NULLABLE)[symbol]:
            return True
        if not has_bit(tab(w, ws.DERIVED_HERE), 0, symbol):
            return False
        row = tab(w, ws.DERIVED)[node * head[ws.W_N_SYMBOLS_NT] + symbol]
    else:
        row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] - 2 - symbol]
    return row != 0 and has_bit(tab(w, ws.BITS), row, node)
