"""Facts at a gap's node for a check: stored by end, and expanded on demand.

As in :mod:`cdplugin.kernels.infill.gap_facts`, nearly every symbol leads somewhere from the gap, and all lead to the same few
ends. So facts are stored by end: the *set of symbols* that lead from the gap to the end, and the set of the dots before these.
If a symbol leads to an end, so do its transitive ups, which the plan has (``GAP_REACH``). Ends are visited from left to right:
at each, the dots before its symbols behind which something leads on from there (``NEXT_HERE``) may add symbols to ends further
right.

In ``[a □ ]``, node 3 in the gap::

    at 3      w "," "]" L E        (all that may lie in the gap, by the plan)
    at 4, E   "]", and so S        nothing leads on from there

A dot's row is mostly that of its tail. If the rest behind its symbol, or behind a later symbol of the rule, has a fact right of
the gap (``GAP_BEYOND_TAIL``), the dot leads to where that rest leads as well. The gap's node is entered in ``GAP_BY_END``, and
rows are made on demand (:mod:`cdplugin.kernels.infill.gap_rests`): some dozens of a thousand.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.asked import rest_behind
from cdplugin.kernels.infill.gap_plan import stays_in_gap, take_plan, words_of_end
from cdplugin.kernels.infill.gap_rests import at_end
from cdplugin.kernels.infill.taken_over import note_done, note_many
from cdplugin.kernels.infill.workspace import charge, cut_rows, has_bit, new_row, or_row, room, set_bit, tab, touch, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, fill_words, i64


@kernel
def ends_of_gap(h, w, node):
    """Find the facts at a gap's node, given all nodes right of it: 1; 0 if no plan fits; or a status.

    Work: a set for each end, a row for each rest behind it, and a set for each new symbol at an end.
    """
    head = whead(w)
    status = take_plan(h, w, node)
    if status <= 0:
        return status
    n_dots = head[ws.W_N_DOTS]
    width = head[ws.W_WIDTH]
    base = head[ws.W_BITS_USED]
    size = width + (64 * width - node) * words_of_end(w)
    if (
        not room(w, ws.GAP_ROWS, n_dots)
        or not room(w, ws.GAP_LIST, n_dots)
        or not room(w, ws.BITS, base + size)
        or not charge(w, 4 * words_of_end(w))
    ):
        return np.int64(statuses.W_GROW)
    rows = tab(w, ws.GAP_ROWS)
    for i in range(head[ws.W_N_GAP_LIST]):
        rows[tab(w, ws.GAP_LIST)[i]] = 0
    head[ws.W_N_GAP_LIST] = 0
    fill_words(tab(w, ws.BITS), base, width, 0)
    cut_rows(w, ws.W_BITS_USED, ws.W_BITS_CLEAN, base + size)
    tab(w, ws.GAP_END_SETS)[node] = base
    _let_stay(w, node)
    _begin_with_lexemes(w, node)
    _find_covered(w, node)
    status = _go_on(h, w, node)
    if status >= 0:
        status = _name_rests(h, w, node)
    return status if status < 0 else np.int64(1)


@kernel
def _take_end(w, gap, end):
    """Where the sets of an end are, emptied if the end is new."""
    bits = tab(w, ws.BITS)
    at = at_end(w, gap, end)
    if set_bit(bits, tab(w, ws.GAP_END_SETS)[gap], end):
        fill_words(bits, at, words_of_end(w), 0)
    return at


@kernel
def _lead_to(w, gap, symbol, end):
    """Let a symbol and its transitive ups lead from the gap to an end; whether that is new."""
    bits = tab(w, ws.BITS)
    at = _take_end(w, gap, end)
    if has_bit(bits, at, symbol):
        return False
    size = words_of_end(w)
    charge(w, size >> 2)
    reach = tab(w, ws.GAP_REACH)
    for i in range(size):
        bits[at + i] |= reach[symbol * size + i]
    return True


@kernel
def _is_in_rules(w, lexeme):
    """Whether a lexeme occurs in rules, and is not only a skip."""
    heads = tab(w, ws.SYMBOL_HEADS)
    symbol = whead(w)[ws.W_N_SYMBOLS_NT] + lexeme
    return heads[symbol] != heads[symbol + 1]


@kernel
def _let_stay(w, gap):
    """Let all symbols that stay end at the gap's node."""
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    bits = tab(w, ws.BITS)
    at = _take_end(w, gap, gap)
    copy_words(bits, at, tab(w, ws.GAP_STAYS), 0, (n_nonterminals + 63) >> 6)
    for k in range(head[ws.W_SET]):
        set_ = tab(w, ws.GAP_KEY)[k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            if _is_in_rules(w, lexeme):
                set_bit(bits, at, n_nonterminals + lexeme)


@kernel
def _begin_with_lexemes(w, gap):
    """Enter the useful ends of the lexemes, in the gap and right of it.

    Ends without facts lead nowhere. A gap leaves many of them: a node for each set of lexemes that may come next.
    """
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    bits = tab(w, ws.BITS)
    useful = tab(w, ws.USEFUL)
    charge(w, head[ws.W_N_LEXEMES] * head[ws.W_WIDTH])
    for k in range(head[ws.W_SET]):
        set_ = tab(w, ws.SPAN_SETS)[gap * head[ws.W_SET] + k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            if not _is_in_rules(w, lexeme):
                continue
            row = tab(w, ws.SPANS)[gap * head[ws.W_N_LEXEMES] + lexeme]
            note_done(w, gap, n_nonterminals + lexeme, row)
            for i in range(gap >> 6, head[ws.W_WIDTH]):
                word = bits[row + i] & useful[i]
                while word:
                    _lead_to(w, gap, n_nonterminals + lexeme, 64 * i + low_bit(word))
                    word &= word - 1


@kernel
def _find_covered(w, gap):
    """Fill ``GAPS_COVERED``: the gaps further right from which each lexeme leads only to where it leads from this gap.

    If a comment may begin in this gap and end in the other one, that holds for all lexemes. What can be made of them from the
    other gap can then be made of them from this one.
    """
    for k in range(whead(w)[ws.W_WIDTH]):
        set_ = tab(w, ws.GAP_BY_END)[k]
        tab(w, ws.GAPS_COVERED)[k] = 0
        while set_:
            bit = low_bit(set_)
            set_ &= set_ - 1
            if _covers(w, gap, 64 * k + bit):
                tab(w, ws.GAPS_COVERED)[k] |= np.int64(1) << bit


@kernel
def _covers(w, gap, other):
    """Whether each lexeme that leads from the gap ``other`` to an end leads there from ``gap``, too."""
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    bits = tab(w, ws.BITS)
    ends = tab(w, ws.GAP_END_SETS)[gap]
    others = tab(w, ws.GAP_END_SETS)[other]
    for i in range(other >> 6, head[ws.W_WIDTH]):
        word = bits[others + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            charge(w, 4)
            known = has_bit(bits, ends, end)
            at = at_end(w, gap, end)
            theirs = at_end(w, other, end)
            for j in range(n_nonterminals >> 6, (n_nonterminals + head[ws.W_N_LEXEMES] + 63) >> 6):
                more = bits[theirs + j] & ~(bits[at + j] if known else np.int64(0))
                if j == n_nonterminals >> 6:
                    more &= np.int64(-1) << (n_nonterminals & 63)
                if more:
                    return False
    return True


@kernel
def _go_on(h, w, gap):
    """Visit the ends from left to right, and let the rests behind their symbols lead on to further ends; 0 or a status."""
    head = whead(w)
    bits = tab(w, ws.BITS)
    base = tab(w, ws.GAP_END_SETS)[gap]
    words = (head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES] + 63) >> 6
    turns = head[ws.W_TURN_SET]
    dots = tab(w, ws.SYMBOL_DOTS)
    for i in range(gap >> 6, head[ws.W_WIDTH]):
        done = np.int64(0)
        if i == gap >> 6:
            done = (np.int64(2) << (gap & 63)) - 1 if gap & 63 != 63 else np.int64(-1)
        while True:
            word = bits[base + i] & ~done
            if word == 0:
                break
            bit = low_bit(word)
            done |= np.int64(1) << bit
            end = np.int64(64 * i + bit)
            covered = has_bit(tab(w, ws.GAPS_COVERED), 0, end)
            leading = at_end(w, gap, end) + words
            following = tab(w, ws.NEXT_HERE)
            again = True
            while again:
                again = False
                if not charge(w, 4 + turns):
                    return np.int64(statuses.W_GROW)
                for k in range(turns):
                    set_ = bits[leading + k] & following[end * turns + k]
                    # a symbol that stays need not lead into a covered gap: it may lie in this one instead
                    if covered:
                        set_ &= ~tab(w, ws.GAP_STAYING)[k]
                    while set_:
                        dot = dots[64 * k + low_bit(set_)]
                        set_ &= set_ - 1
                        status = _lead_on(h, w, gap, dot, end)
                        if status < 0:
                            return status
                        again = again or status > 0
    return np.int64(0)


@kernel
def _lead_on(h, w, gap, dot, end):
    """Add where the rest behind the symbol after ``dot`` leads from ``end``, an end of the symbol, to the dot's row.

    If all before the symbol stays, the rule's nonterminal leads there, too. 1 if that is new at ``end`` itself, 0, or a status.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    after = rest_behind(h, w, end, dot)
    if after <= 0:
        return after
    into = tab(w, ws.GAP_ROWS)[dot]
    if into == 0:
        into = new_row(w)
        if into < 0:
            return into
        tab(w, ws.GAP_ROWS)[dot] = into
        tab(w, ws.GAP_LIST)[head[ws.W_N_GAP_LIST]] = dot
        head[ws.W_N_GAP_LIST] += 1
    bits = tab(w, ws.BITS)
    charge(w, width)
    if not or_row(bits, into, after, width) or not has_bit(tab(w, ws.GAP_PREFIX_STAYS), 0, dot):
        return np.int64(0)
    left = i64(h, layout.DOT_LEFT)[dot]
    at_itself = np.int64(0)
    for i in range(end >> 6, width):
        word = bits[after + i] & tab(w, ws.USEFUL)[i]
        while word:
            other = 64 * i + low_bit(word)
            word &= word - 1
            if _lead_to(w, gap, left, other) and other == end:
                at_itself = np.int64(1)
    return at_itself


@kernel
def _name_rests(h, w, gap):
    """Enter the gap's node in ``GAP_BY_END``, its symbols with many ends in ``DONE``, and its dots' rows in ``REST``; 0 or
    ``W_GROW``.

    Rows of dots behind whose symbol a rest has facts are entered as negative numbers: they lack their tails (:func:`gap_rest`).
    ``GAP_BEYOND_TAIL`` gets these dots and those before them in the rule that reach them by symbols that stay.
    """
    head = whead(w)
    set_bit(tab(w, ws.GAP_BY_END), 0, gap)
    words = head[ws.W_TURN_SET]
    following = tab(w, ws.NEXT_HERE)
    some = np.int64(0)
    for i in range(words):
        some |= tab(w, ws.ALIVE)[gap * words + i] & tab(w, ws.GAP_TAILED)[i]
        following[gap * words + i] |= tab(w, ws.GAP_ACTIVE)[i]
    if some or head[ws.W_N_GAP_LIST]:
        set_bit(tab(w, ws.USEFUL), 0, gap)
    note_many(w, gap)
    beyond = tab(w, ws.GAP_BEYOND_TAIL)
    first = gap * head[ws.W_DOT_SET]
    fill_words(beyond, first, head[ws.W_DOT_SET], 0)
    if not room(w, ws.TOUCHED, head[ws.W_N_TOUCHED] + head[ws.W_N_GAP_LIST]):
        return np.int64(statuses.W_GROW)
    charge(w, head[ws.W_DOT_SET] + 4 * head[ws.W_N_GAP_LIST])
    for i in range(head[ws.W_N_GAP_LIST]):
        dot = tab(w, ws.GAP_LIST)[i]
        index = gap * head[ws.W_N_DOTS] + dot
        tab(w, ws.REST)[index] = -tab(w, ws.GAP_ROWS)[dot]
        touch(w, ws.REST, index, 1)
        # a dot that is in the set already was added with all dots before it
        while set_bit(beyond, first, dot) and tab(w, ws.IS_FIRST)[dot] == 0:
            turn = tab(w, ws.TURN_OF)[dot - 1]
            following[gap * words + (turn >> 6)] |= np.int64(1) << (turn & 63)
            if not stays_in_gap(w, i64(h, layout.DOT_SYMBOL)[dot - 1]):
                break
            dot -= 1
    return np.int64(0)
