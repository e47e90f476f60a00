"""Earley items left of the hole, for a mask: only those whose rules can still be ended so that the text can be completed.

``ITEMS[dot]`` at a node is the row of origins of the items at that dot. ``OUT[A]`` at a node is the row of those ends of an
``A`` begun there from which the text can be completed. Needs the facts of :mod:`cdplugin.kernels.infill.intersect`.

In ``[a □ ]``, with the gap as the hole (E: the end of the text)::

    node 0    S' -> • S END {0}    S -> • "[" L "]" {0}                                  OUT: S: E
    node 1    S -> "[" • L "]" {0}    L -> • E {1}   L -> • E "," L {1}   E -> • w {1}   OUT: L: 2 3    E: 2 3
    node 2    S -> "[" L • "]" {0}    L -> E • "," L {1}    (and complete items)

This is Earley's algorithm (1970) with a filter: an item is added only if its rule can still end at a node in ``OUT`` of its
nonterminal at its origin. ``OUT`` of a nonterminal grows while a node's items are followed, as more rules come to wait for it;
then the items that began at the node are followed again.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.ways import ask, forget_ways, is_long, leads_out, way_of
from cdplugin.kernels.infill.workspace import (
    charge,
    contains,
    final_node,
    forget_rows,
    has_bit,
    item_row,
    new_row,
    or_row,
    room,
    row_in,
    set_bit,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import count_bits, kernel, low_bit
from cdplugin.kernels.lexer.fields import is_skip
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import any_words, fill_words, i64


@kernel
def build_items(h, w):
    """Fill ``ITEMS`` and ``OUT`` for the nodes up to the hole; 0 or a status. Needs ``REST``.

    Nodes are done from left to right; at a gap's node items are followed until nothing is new. Nodes are numbered from 0 here:
    masks reuse no facts.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    nodes = head[ws.W_LEFT]
    head[ws.W_DOT_SET] = (n_dots + 63) >> 6
    if not room(w, ws.ITEMS, nodes * n_dots) or not room(w, ws.ITEM_SETS, nodes * head[ws.W_DOT_SET]):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.OUT, (64 * head[ws.W_WIDTH] + 1) * n_nonterminals):
        return np.int64(statuses.W_GROW)
    if not room(w, ws.QUEUE, 2 * n_dots + 2) or not room(w, ws.WORK, n_dots) or not room(w, ws.MOVED, ws.MOVED_WORDS * n_dots):
        return np.int64(statuses.W_GROW)
    forget_rows(w, head[ws.W_TOUCHED_FACTS], head[ws.W_BITS_FACTS])
    fill_words(tab(w, ws.WORK), 0, n_dots, 0)
    sets = tab(w, ws.ITEM_SETS)
    charge(w, nodes * head[ws.W_DOT_SET])
    fill_words(sets, 0, nodes * head[ws.W_DOT_SET], 0)
    if forget_ways(w) < 0:
        return np.int64(statuses.W_GROW)
    moved = tab(w, ws.MOVED)
    for dot in range(n_dots):
        moved[ws.MOVED_WORDS * dot + ws.MV_NODE] = -1
    row = item_row(w, 0, np.int64(0))
    all_out = row_in(w, ws.OUT, 0)
    if row < 0 or all_out < 0:
        return np.int64(statuses.W_GROW)
    set_bit(tab(w, ws.BITS), row, 0)
    set_bit(tab(w, ws.BITS), all_out, final_node(w))
    for node in range(nodes):
        status = _items_of(h, w, node)
        if status >= 0:
            status = _items_after_skips(h, w, node)
        if status < 0:
            return status
    head[ws.W_BITS_ITEMS] = head[ws.W_BITS_USED]
    return np.int64(0)


@kernel
def _items_of(h, w, node):
    """Follow a node's items until nothing is new; 0 or a status. ``QUEUE`` is the agenda; ``WORK`` marks the dots in it.

    An item before a nonterminal predicts its rules and moves over it to all its ends, which ``DERIVED`` has from the right; so
    completion does not look for waiting items. An item before a lexeme moves to the ends of the lexeme's span.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    lefts = i64(h, layout.DOT_LEFT)
    symbols = i64(h, layout.DOT_SYMBOL)
    queue = tab(w, ws.QUEUE)
    marks = tab(w, ws.WORK)
    count = np.int64(0)
    words = head[ws.W_DOT_SET]
    for k in range(words):
        set_ = tab(w, ws.ITEM_SETS)[node * words + k]
        while set_:
            dot = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            queue[count] = dot
            marks[dot] = 1
            count += 1
    while count > 0:
        if not charge(w, 4):
            return np.int64(statuses.W_GROW)
        count -= 1
        dot = queue[count]
        marks[dot] = 0
        symbol = symbols[dot]
        if symbol == layout.END_OF_RULE:
            continue
        origins = tab(w, ws.ITEMS)[node * n_dots + dot]
        if symbol >= 0:
            # predict the nonterminal: at which of its ends can the text be completed?
            united = _united_out(w, origins, lefts[dot])
            if united < 0:
                return united
            grown = _predict(h, w, node, dot, symbol, united)
            if grown < 0:
                return grown
            if grown:
                for i in range(tab(w, ws.FIRST_HEADS)[symbol], tab(w, ws.FIRST_HEADS)[symbol + 1]):
                    charge(w, 8)
                    first = tab(w, ws.FIRST_DOTS)[i]
                    row = item_row(w, node, first)
                    if row < 0:
                        return row
                    set_bit(tab(w, ws.BITS), row, node)
                    inner = first
                    while symbols[inner] != layout.END_OF_RULE:  # more items of this rule that began here may pass the filter
                        row = tab(w, ws.ITEMS)[node * n_dots + inner]
                        if row and has_bit(tab(w, ws.BITS), row, node) and not marks[inner]:
                            marks[inner] = 1
                            queue[count] = inner
                            count += 1
                        inner += 1
            ends = tab(w, ws.DERIVED)[node * n_nonterminals + symbol]
        else:
            ends = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] - 2 - symbol]
        moved = np.int64(0)
        # over an empty nonterminal the item stays at its node
        if symbol >= 0 and i64(h, layout.NULLABLE)[symbol]:
            moved = _move(h, w, node, dot, node, origins)
        if moved >= 0 and ends:
            to_itself = _move_all(h, w, node, dot, ends, symbol)
            moved = to_itself if to_itself < 0 else moved | to_itself
        if moved < 0:
            return moved
        if moved and not marks[dot + 1]:
            marks[dot + 1] = 1
            queue[count] = dot + 1
            count += 1
    return np.int64(0)


@kernel
def _items_after_skips(h, w, node):
    """Copy the items at a node that wait for a lexeme to where a skip from the node ends, as the hole may be there; 0 or a
    status.

    Nothing else needs these copies: ``SPANS`` lead over skips.
    """
    head = whead(w)
    words = head[ws.W_SET]
    for k in range(words):
        set_ = tab(w, ws.SPAN_SETS)[node * words + k]
        while set_:
            skip = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            if not is_skip(h, skip):
                continue
            row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] + skip]
            if not charge(w, head[ws.W_LEFT] - node):
                return np.int64(statuses.W_GROW)
            for end in range(node + 1, head[ws.W_LEFT]):
                if has_bit(tab(w, ws.BITS), row, end):
                    status = _wait_at(h, w, node, skip, end)
                    if status < 0:
                        return status
    return np.int64(0)


@kernel
def _wait_at(h, w, node, skip, end):
    """Copy to node ``end`` the items at ``node`` that wait for a lexeme before which ``skip`` may stand; 0 or ``W_GROW``."""
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    words = head[ws.W_DOT_SET]
    symbols = i64(h, layout.DOT_SYMBOL)
    if not charge(w, words):
        return np.int64(statuses.W_GROW)
    for k in range(words):
        set_ = tab(w, ws.ITEM_SETS)[node * words + k]
        while set_:
            dot = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            charge(w, 2)
            lexeme = -2 - symbols[dot]
            if lexeme < 0 or not has_bit(tab(w, ws.SKIPPED), skip * head[ws.W_SET], lexeme):
                continue
            into = item_row(w, end, dot)
            if into < 0:
                return into
            or_row(tab(w, ws.BITS), into, tab(w, ws.ITEMS)[node * n_dots + dot], head[ws.W_WIDTH])
    return np.int64(0)


@kernel
def _move_all(h, w, node, dot, ends, symbol):
    """Move the items at ``dot`` over ``symbol`` to the nodes of the row ``ends``: 1 if there are new ones at ``node``, 0, or
    ``W_GROW``.

    In rows of several words, origins are left out that were moved before (``MOVED``): the last node where this dot was followed
    had all of these ends, so they are there already.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    origins = tab(w, ws.ITEMS)[node * head[ws.W_N_DOTS] + dot]
    if width > 1:
        moved_before = tab(w, ws.MOVED)
        at = ws.MOVED_WORDS * dot
        if moved_before[at + ws.MV_NODE] < 0:
            fresh = new_row(w)
            if fresh < 0:
                return fresh
            moved_before[at + ws.MV_ORIGINS] = fresh
        moving = new_row(w)
        if moving < 0:
            return moving
        last = moved_before[at + ws.MV_NODE]
        covered = last == node
        if last >= 0 and last != node:
            table, index = ws.SPANS, last * head[ws.W_N_LEXEMES] - 2 - symbol
            if symbol >= 0:
                table, index = ws.DERIVED, last * head[ws.W_N_SYMBOLS_NT] + symbol
            known = tab(w, table)[index]
            covered = known != 0 and contains(tab(w, ws.BITS), known, ends, width)
        moved_before[at + ws.MV_NODE] = node
        before = moved_before[at + ws.MV_ORIGINS]
        bits = tab(w, ws.BITS)
        for i in range(width):
            if not covered:
                bits[before + i] = 0
            bits[moving + i] = bits[origins + i] & ~bits[before + i]
            bits[before + i] |= bits[moving + i]
        if has_bit(bits, origins, node):  # OUT of this node is still growing, so items that began here are moved again
            set_bit(bits, moving, node)
        origins = moving
        if not any_words(bits, moving, width):
            return np.int64(0)
    moved = np.int64(0)
    for i in range((head[ws.W_LEFT] + 63) >> 6):
        word = tab(w, ws.BITS)[ends + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            if end >= head[ws.W_LEFT]:
                break
            some_new = _move(h, w, node, dot, end, origins)
            if some_new < 0:
                return some_new
            if end == node:
                moved = some_new
    return moved


@kernel
def _united_out(w, origins, left):
    """A new row: the union of ``OUT`` of the nonterminal ``left`` over the nodes of the row ``origins``; or ``W_GROW``."""
    head = whead(w)
    width = head[ws.W_WIDTH]
    united = new_row(w)
    if united < 0:
        return united
    bits = tab(w, ws.BITS)
    for i in range(width):
        word = bits[origins + i]
        charge(w, 1 + width * count_bits(word) if word else 1)
        while word:
            origin = 64 * i + low_bit(word)
            word &= word - 1
            row = tab(w, ws.OUT)[origin * head[ws.W_N_SYMBOLS_NT] + left]
            if row:
                or_row(bits, united, row, width)
    return united


@kernel
def _predict(h, w, node, dot, nonterminal, out):
    """Add to ``OUT`` of ``nonterminal`` at ``node`` its ends from which the rule behind it leads out: 1 if new, 0, or
    ``W_GROW``.

    ``dot``: before the nonterminal; ``out``: the row of the nodes at which that rule may end. Those ends count (``DERIVED``,
    and the node itself if the nonterminal may be empty) from which the rest of the rule leads to a node in ``out``. A
    nonterminal predicted for the first time counts as new.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    index = node * head[ws.W_N_SYMBOLS_NT] + nonterminal
    grown = np.int64(0)
    if tab(w, ws.OUT)[index] == 0:
        grown = np.int64(1)
    into = row_in(w, ws.OUT, index)
    if into < 0:
        return into
    derived = tab(w, ws.DERIVED)[index]
    null = i64(h, layout.NULLABLE)[nonterminal] != 0
    charge(w, width)
    way = np.int64(0)
    if is_long(w):
        way = way_of(w, dot + 1, out)
        if way < 0:
            return way
    for i in range(width):
        word = tab(w, ws.BITS)[derived + i] if derived else np.int64(0)
        if null and node >> 6 == i:
            word |= np.int64(1) << (node & 63)
        if way:
            word = ask(h, w, dot + 1, out, way, i, word)
            if word & ~tab(w, ws.BITS)[into + i]:
                tab(w, ws.BITS)[into + i] |= word
                grown = np.int64(1)
            continue
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            if leads_out(h, w, end, dot + 1, out) and set_bit(tab(w, ws.BITS), into, end):
                grown = np.int64(1)
    return grown


@kernel
def _move(h, w, node, dot, end, origins):
    """Move the items at ``dot`` with the given origins to node ``end`` if they lead out from there: 1 if some are new, 0, or
    ``W_GROW``.

    Origins that are there already are masked out first, a word at a time.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    left = i64(h, layout.DOT_LEFT)[dot]
    into = tab(w, ws.ITEMS)[end * n_dots + dot + 1]
    moved = np.int64(0)
    charge(w, 2 + head[ws.W_WIDTH])
    for i in range(head[ws.W_WIDTH]):
        word = tab(w, ws.BITS)[origins + i]
        if into:
            word &= ~tab(w, ws.BITS)[into + i]
        while word:
            origin = 64 * i + low_bit(word)
            word &= word - 1
            out = tab(w, ws.OUT)[origin * head[ws.W_N_SYMBOLS_NT] + left]
            leads = False
            if is_long(w) and out:
                way = way_of(w, dot + 1, out)
                if way < 0:
                    return way
                bit = np.int64(1) << (end & 63)
                leads = ask(h, w, dot + 1, out, way, end >> 6, bit) != 0
            else:
                leads = leads_out(h, w, end, dot + 1, out)
            if leads:
                into = item_row(w, end, dot + 1)
                if into < 0:
                    return into
                set_bit(tab(w, ws.BITS), into, origin)
                moved = np.int64(1)
    return moved
