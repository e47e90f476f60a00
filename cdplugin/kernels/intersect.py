"""The grammar on the lattice: is there a word of the language among the ways through the text with gaps?

Bar-Hillel, Perles and Shamir (1961): the intersection of a context-free grammar with a finite automaton is empty or not
according to facts "``A`` leads from node p to node q". The facts are found from right to left: at a node, ``REST[dot]`` is the
row of the nodes at which a rule that stands at ``dot`` may end. It is made of the rows of its first symbol's ends, which lie
further right, so only a gap (lexemes that lead from a node to itself) and empty rules need a fixpoint, inside one node. Only
what is not empty is touched.

Left of a place whose tokens are asked for (the *hole*), :func:`build_items` adds the Earley items of each node: ``ITEMS[dot]``,
the row of their origins; and ``OUT[A]`` of a node: at which nodes an ``A`` that began there may end so that the text can be
ended. Items that lead nowhere are left out.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.arena import DOT_LEFT, DOT_NULL_REST, DOT_SYMBOL, NULLABLE, i64
from cdplugin.kernels.jit import kernel
from cdplugin.kernels.starts import follow_skips
from cdplugin.kernels.ways import ask, forget_ways, is_long, leads_out, way_of
from cdplugin.kernels.workspace import (
    BITS,
    DERIVED,
    DONE,
    FIRST_DOTS,
    FIRST_HEADS,
    IS_FIRST,
    ITEM_SETS,
    ITEMS,
    OUT,
    QUEUE,
    REST,
    SPAN_SETS,
    SPANS,
    SYMBOL_DOTS,
    SYMBOL_HEADS,
    W_BITS_FACTS,
    W_BITS_KEPT,
    W_BITS_USED,
    W_DOT_SET,
    W_GROW,
    W_LEFT,
    W_N_DOTS,
    W_N_LEXEMES,
    W_N_SYMBOLS_NT,
    W_N_TOUCHED,
    W_NODES,
    W_SET,
    W_TOUCHED_FACTS,
    W_WIDTH,
    WORK,
    end_node,
    final_node,
    forget_rows,
    has_bit,
    item_row,
    low_bit,
    new_row,
    or_row,
    room,
    row_in,
    set_bit,
    tab,
    whead,
)

END_OF_RULE = -1


@kernel
def build_rests(h, w):
    """Fill ``REST`` and ``DERIVED`` for all nodes; 1 if the text can be completed, 0 if not, or a status."""
    head = whead(w)
    n_dots = head[W_N_DOTS]
    n_nonterminals = head[W_N_SYMBOLS_NT]
    if not room(w, REST, 64 * head[W_WIDTH] * n_dots) or not room(w, DERIVED, 64 * head[W_WIDTH] * n_nonterminals):
        return np.int64(W_GROW)
    if not room(w, QUEUE, 2 * n_nonterminals + 2):
        return np.int64(W_GROW)
    if not room(w, DONE, n_lexemes_and_dots(w)):
        return np.int64(W_GROW)
    done = tab(w, DONE)
    for lexeme in range(head[W_N_LEXEMES]):
        done[lexeme] = -1
    status = _rests_of(h, w, end_node(w))
    if status < 0:
        return status
    for node in range(head[W_NODES] - 1, -1, -1):
        if node > 0:
            status = follow_skips(h, w, node)
        if status >= 0:
            status = _rests_of(h, w, node)
        if status < 0:
            return status
    head[W_BITS_FACTS] = head[W_BITS_USED]
    head[W_TOUCHED_FACTS] = head[W_N_TOUCHED]
    row = tab(w, REST)[0]
    return np.int64(1 if row and has_bit(tab(w, BITS), row, final_node(w)) else 0)


@kernel
def _rests_of(h, w, node):
    """Fill a node's rows, given those of all nodes right of it; 0 or a status."""
    head = whead(w)
    n_nonterminals = head[W_N_SYMBOLS_NT]
    width = head[W_WIDTH]
    heads = tab(w, SYMBOL_HEADS)
    dots = tab(w, SYMBOL_DOTS)
    waiting = np.int64(0)  # nonterminals with ends that were not followed: QUEUE
    fresh = new_row(w)
    if fresh < 0:
        return fresh
    bits = tab(w, BITS)
    words = head[W_SET]
    for k in range(words):
        set_ = tab(w, SPAN_SETS)[node * words + k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            waiting = _rests_by(h, w, node, lexeme, waiting)
            if waiting < 0:
                return waiting
    at = 0
    while at < waiting:
        nonterminal = tab(w, QUEUE)[at]
        at += 1
        entry = tab(w, DERIVED)[node * n_nonterminals + nonterminal]
        for i in range(width):  # the second row of an entry: what was followed already
            bits[fresh + i] = bits[entry + i] & ~bits[entry + width + i]
            bits[entry + width + i] = bits[entry + i]
        for i in range(heads[nonterminal], heads[nonterminal + 1]):
            waiting = _gather(h, w, node, dots[i], fresh, waiting)
            if waiting < 0:
                return waiting
        if at == waiting:
            at = 0
            waiting = np.int64(0)
    return np.int64(0)


@kernel
def _rests_by(h, w, node, lexeme, waiting):
    """Follow the lexeme from ``node`` to all of its ends; returns how many nonterminals wait in ``QUEUE``, or a status.

    Long lexemes end at many nodes, most of which are also ends from a node further right: what is known there is taken over.
    """
    head = whead(w)
    n_lexemes = head[W_N_LEXEMES]
    symbol = head[W_N_SYMBOLS_NT] + lexeme
    width = head[W_WIDTH]
    heads = tab(w, SYMBOL_HEADS)
    dots = tab(w, SYMBOL_DOTS)
    row = tab(w, SPANS)[node * n_lexemes + lexeme]
    other = np.int64(-1)
    if width > 1:
        other = tab(w, DONE)[lexeme]
        tab(w, DONE)[lexeme] = node
    if other >= 0:
        known = tab(w, SPANS)[other * n_lexemes + lexeme]
        if contains(tab(w, BITS), row, known, width):
            ends = new_row(w)
            if ends < 0:
                return ends
            bits = tab(w, BITS)
            for i in range(width):
                bits[ends + i] = bits[row + i] & ~bits[known + i]
            row = ends
        else:
            other = np.int64(-1)
    for i in range(heads[symbol], heads[symbol + 1]):
        if other >= 0:
            waiting = _take_over(h, w, node, dots[i], other, waiting)
            if waiting < 0:
                return waiting
        waiting = _gather(h, w, node, dots[i], row, waiting)
        if waiting < 0:
            return waiting
    return np.int64(waiting)


@kernel
def n_lexemes_and_dots(w):
    """The size of ``DONE``."""
    return max(whead(w)[W_N_LEXEMES], 2 * whead(w)[W_N_DOTS])


@kernel
def contains(bits, row, other, width):
    """Whether a row has all nodes of another."""
    for i in range(width):
        if bits[other + i] & ~bits[row + i]:
            return False
    return True


@kernel
def _take_over(h, w, node, dot, other, waiting):
    """Add ``REST[dot]`` of another node; returns how many nonterminals wait in ``QUEUE``, or a status."""
    n_dots = whead(w)[W_N_DOTS]
    known = tab(w, REST)[other * n_dots + dot]
    if known == 0:
        return np.int64(waiting)
    into = row_in(w, REST, node * n_dots + dot)
    if into < 0:
        return into
    if not or_row(tab(w, BITS), into, known, whead(w)[W_WIDTH]):
        return np.int64(waiting)
    return _grown(h, w, node, dot, waiting)


@kernel
def _gather(h, w, node, dot, ends, waiting):
    """The symbol after ``dot`` leads from ``node`` to the row ``ends``: add what the rest of the rule leads to from there.

    Returns how many nonterminals wait in ``QUEUE``, or a status.
    """
    head = whead(w)
    width = head[W_WIDTH]
    n_dots = head[W_N_DOTS]
    bits = tab(w, BITS)
    rest = tab(w, REST)
    null_rest = i64(h, DOT_NULL_REST)[dot + 1]
    goes_on = i64(h, DOT_SYMBOL)[dot + 1] != END_OF_RULE
    into = rest[node * n_dots + dot]
    grew = False
    for i in range(width):
        word = bits[ends + i]
        if word == 0:
            continue
        if null_rest:
            if into == 0:
                into = row_in(w, REST, node * n_dots + dot)
                if into < 0:
                    return into
            grew = grew or (word & ~bits[into + i]) != 0
            bits[into + i] |= word
        while goes_on and word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            after = rest[end * n_dots + dot + 1]
            if after == 0:
                continue
            if into == 0:
                into = row_in(w, REST, node * n_dots + dot)
                if into < 0:
                    return into
            if after != into and or_row(bits, into, after, width):
                grew = True
    return _grown(h, w, node, dot, waiting) if grew else waiting


@kernel
def _grown(h, w, node, dot, waiting):
    """``REST[dot]`` at ``node`` grew: pass it on to the rule's nonterminal, or to the dots before it that it can be reached
    from without moving. Returns how many nonterminals wait, or a status.
    """
    head = whead(w)
    n_dots = head[W_N_DOTS]
    n_nonterminals = head[W_N_SYMBOLS_NT]
    width = head[W_WIDTH]
    first = tab(w, IS_FIRST)
    symbols = i64(h, DOT_SYMBOL)
    while True:
        row = tab(w, REST)[node * n_dots + dot]
        if first[dot]:
            left = i64(h, DOT_LEFT)[dot]
            index = node * n_nonterminals + left
            entry = tab(w, DERIVED)[index]
            if entry == 0:
                entry = row_in(w, DERIVED, index)
                if entry < 0 or new_row(w) < 0:
                    return np.int64(W_GROW)
            bits = tab(w, BITS)
            pending = False
            for i in range(width):
                pending = pending or (bits[entry + i] & ~bits[entry + width + i]) != 0
            if or_row(bits, entry, row, width) and not pending:
                if not room(w, QUEUE, waiting + 1):
                    return np.int64(W_GROW)
                tab(w, QUEUE)[waiting] = left
                waiting += 1
            return waiting
        symbol = symbols[dot - 1]
        if not stays(h, w, node, symbol):
            return waiting
        into = row_in(w, REST, node * n_dots + dot - 1)
        if into < 0:
            return into
        if not or_row(tab(w, BITS), into, row, width):
            return waiting
        dot -= 1


@kernel
def stays(h, w, node, symbol):
    """Whether a symbol leads from a node to itself: it derives the empty string, or lies in a gap."""
    head = whead(w)
    if symbol >= 0:
        if i64(h, NULLABLE)[symbol]:
            return True
        row = tab(w, DERIVED)[node * head[W_N_SYMBOLS_NT] + symbol]
    else:
        row = tab(w, SPANS)[node * head[W_N_LEXEMES] - 2 - symbol]
    return row != 0 and has_bit(tab(w, BITS), row, node)


# --- the items left of the hole -----------------------------------------------------------------------------------------------


@kernel
def build_items(h, w):
    """Fill ``ITEMS`` and ``OUT`` for the nodes up to the hole; 0 or a status. Needs ``REST``."""
    head = whead(w)
    n_dots = head[W_N_DOTS]
    n_nonterminals = head[W_N_SYMBOLS_NT]
    nodes = head[W_LEFT]
    head[W_DOT_SET] = (n_dots + 63) >> 6
    if not room(w, ITEMS, nodes * n_dots) or not room(w, ITEM_SETS, nodes * head[W_DOT_SET]):
        return np.int64(W_GROW)
    if not room(w, OUT, (64 * head[W_WIDTH] + 1) * n_nonterminals):
        return np.int64(W_GROW)
    if not room(w, QUEUE, 2 * n_dots + 2) or not room(w, WORK, n_dots):
        return np.int64(W_GROW)
    forget_rows(w, head[W_TOUCHED_FACTS], head[W_BITS_FACTS])
    for dot in range(n_dots):
        tab(w, WORK)[dot] = 0
    sets = tab(w, ITEM_SETS)
    for i in range(nodes * head[W_DOT_SET]):
        sets[i] = 0
    if not room(w, DONE, n_lexemes_and_dots(w)) or forget_ways(w) < 0:
        return np.int64(W_GROW)
    done = tab(w, DONE)
    for dot in range(n_dots):
        done[2 * dot] = -1
    row = item_row(w, 0, np.int64(0))
    all_out = row_in(w, OUT, 0)
    if row < 0 or all_out < 0:
        return np.int64(W_GROW)
    set_bit(tab(w, BITS), row, 0)
    set_bit(tab(w, BITS), all_out, final_node(w))
    for node in range(nodes):
        status = _items_of(h, w, node)
        if status < 0:
            return status
    head[W_BITS_KEPT] = head[W_BITS_USED]
    return np.int64(0)


@kernel
def _items_of(h, w, node):
    """Follow a node's items until nothing is new; 0 or a status. ``WORK`` marks the dots that wait in ``QUEUE``."""
    head = whead(w)
    n_dots = head[W_N_DOTS]
    n_nonterminals = head[W_N_SYMBOLS_NT]
    lefts = i64(h, DOT_LEFT)
    symbols = i64(h, DOT_SYMBOL)
    queue = tab(w, QUEUE)
    marks = tab(w, WORK)
    count = np.int64(0)
    words = head[W_DOT_SET]
    for k in range(words):
        set_ = tab(w, ITEM_SETS)[node * words + k]
        while set_:
            dot = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            queue[count] = dot
            marks[dot] = 1
            count += 1
    while count > 0:
        count -= 1
        dot = queue[count]
        marks[dot] = 0
        symbol = symbols[dot]
        if symbol == END_OF_RULE:
            continue
        origins = tab(w, ITEMS)[node * n_dots + dot]
        if symbol >= 0:
            # the nonterminal is predicted here: where may it end?
            united = _united_out(w, origins, lefts[dot])
            if united < 0:
                return united
            grown = _predict(h, w, node, dot, symbol, united)
            if grown < 0:
                return grown
            if grown:
                for i in range(tab(w, FIRST_HEADS)[symbol], tab(w, FIRST_HEADS)[symbol + 1]):
                    first = tab(w, FIRST_DOTS)[i]
                    row = item_row(w, node, first)
                    if row < 0:
                        return row
                    set_bit(tab(w, BITS), row, node)
                    inner = first
                    while symbols[inner] != END_OF_RULE:  # items of this rule that began here may lead further now
                        row = tab(w, ITEMS)[node * n_dots + inner]
                        if row and has_bit(tab(w, BITS), row, node) and not marks[inner]:
                            marks[inner] = 1
                            queue[count] = inner
                            count += 1
                        inner += 1
            ends = tab(w, DERIVED)[node * n_nonterminals + symbol]
        else:
            ends = tab(w, SPANS)[node * head[W_N_LEXEMES] - 2 - symbol]
        moved = np.int64(0)
        if symbol >= 0 and i64(h, NULLABLE)[symbol]:
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
def _move_all(h, w, node, dot, ends, symbol):
    """Move the items at ``dot`` over ``symbol`` to the nodes of the row ``ends``: 1 if there are new ones at ``node``, 0, or
    ``W_GROW``.

    Where the node at which this dot was followed last had all of these ends, its origins have been moved there already.
    """
    head = whead(w)
    width = head[W_WIDTH]
    origins = tab(w, ITEMS)[node * head[W_N_DOTS] + dot]
    if width > 1:
        if tab(w, DONE)[2 * dot] < 0:
            fresh = new_row(w)
            if fresh < 0:
                return fresh
            tab(w, DONE)[2 * dot + 1] = fresh
        moving = new_row(w)
        if moving < 0:
            return moving
        last = tab(w, DONE)[2 * dot]
        covered = last == node
        if last >= 0 and last != node:
            table, index = SPANS, last * head[W_N_LEXEMES] - 2 - symbol
            if symbol >= 0:
                table, index = DERIVED, last * head[W_N_SYMBOLS_NT] + symbol
            known = tab(w, table)[index]
            covered = known != 0 and contains(tab(w, BITS), known, ends, width)
        tab(w, DONE)[2 * dot] = node
        done = tab(w, DONE)[2 * dot + 1]
        bits = tab(w, BITS)
        for i in range(width):
            if not covered:
                bits[done + i] = 0
            bits[moving + i] = bits[origins + i] & ~bits[done + i]
            bits[done + i] |= bits[moving + i]
        if has_bit(bits, origins, node):  # what may come of items that began here is still growing
            set_bit(bits, moving, node)
        origins = moving
        some = False
        for i in range(width):
            some = some or bits[moving + i] != 0
        if not some:
            return np.int64(0)
    moved = np.int64(0)
    for i in range((head[W_LEFT] + 63) >> 6):
        word = tab(w, BITS)[ends + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            if end >= head[W_LEFT]:
                break
            some_new = _move(h, w, node, dot, end, origins)
            if some_new < 0:
                return some_new
            if end == node:
                moved = some_new
    return moved


@kernel
def _united_out(w, origins, left):
    """A fresh row: where ``left`` may end, begun at any of the origins; or ``W_GROW``."""
    head = whead(w)
    width = head[W_WIDTH]
    united = new_row(w)
    if united < 0:
        return united
    bits = tab(w, BITS)
    for i in range(width):
        word = bits[origins + i]
        while word:
            origin = 64 * i + low_bit(word)
            word &= word - 1
            row = tab(w, OUT)[origin * head[W_N_SYMBOLS_NT] + left]
            if row:
                or_row(bits, united, row, width)
    return united


@kernel
def _predict(h, w, node, dot, nonterminal, out):
    """Add to ``OUT`` of ``nonterminal`` at ``node`` the ends from which the rule after ``dot`` leads out: 1 if new, 0, or
    ``W_GROW``. A nonterminal that is predicted for the first time is new.
    """
    head = whead(w)
    width = head[W_WIDTH]
    index = node * head[W_N_SYMBOLS_NT] + nonterminal
    grown = np.int64(0)
    if tab(w, OUT)[index] == 0:
        grown = np.int64(1)
    into = row_in(w, OUT, index)
    if into < 0:
        return into
    derived = tab(w, DERIVED)[index]
    null = i64(h, NULLABLE)[nonterminal] != 0
    way = np.int64(0)
    if is_long(w):
        way = way_of(w, dot + 1, out)
        if way < 0:
            return way
    for i in range(width):
        word = tab(w, BITS)[derived + i] if derived else np.int64(0)
        if null and node >> 6 == i:
            word |= np.int64(1) << (node & 63)
        if way:
            word = ask(h, w, dot + 1, out, way, i, word)
            if word & ~tab(w, BITS)[into + i]:
                tab(w, BITS)[into + i] |= word
                grown = np.int64(1)
            continue
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            if leads_out(h, w, end, dot + 1, out) and set_bit(tab(w, BITS), into, end):
                grown = np.int64(1)
    return grown


@kernel
def _move(h, w, node, dot, end, origins):
    """Move the items at ``dot`` with the given origins over their symbol to node ``end``, those that lead out from there: 1 if
    some are new, 0, or ``W_GROW``.
    """
    head = whead(w)
    n_dots = head[W_N_DOTS]
    left = i64(h, DOT_LEFT)[dot]
    into = tab(w, ITEMS)[end * n_dots + dot + 1]
    moved = np.int64(0)
    for i in range(head[W_WIDTH]):
        word = tab(w, BITS)[origins + i]
        if into:
            word &= ~tab(w, BITS)[into + i]
        while word:
            origin = 64 * i + low_bit(word)
            word &= word - 1
            out = tab(w, OUT)[origin * head[W_N_SYMBOLS_NT] + left]
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
                set_bit(tab(w, BITS), into, origin)
                moved = np.int64(1)
    return moved
