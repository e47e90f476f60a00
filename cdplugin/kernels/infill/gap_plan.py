"""The plan for gaps: what the grammar says about a gap's node, given the set of lexemes that may lie in the gap.

It computes which symbols *stay*, their *ups*, and the *tails* of dots; :mod:`cdplugin.kernels.infill.gap_facts` defines these
and shows them for ``S: "[" L "]"   L: E | E "," L   E: w``. Made at the first gap, kept with the tables.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, has_bit, or_row, room, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import any_words, copy_words, fill_words, i64

MOST_OTHERS = 8  # after so many gaps in succession that the plan did not fit, another one is made
SEVERAL = -1  # in GAP_TAIL


@kernel
def take_plan(h, w, node):
    """Whether there is a plan for the lexemes that lead from a gap's node to itself: 1, 0 or ``W_GROW``.

    A plan is made now if there is none, or if the present one has not fitted for some time. In a language whose programs nest,
    all lexemes may lie in all gaps, so one plan is enough. In a flat one (a JSON Schema without references) they differ from
    gap to gap; there the fixpoint is as fast.
    """
    head = whead(w)
    words = head[ws.W_SET]
    if not room(w, ws.GAP_KEY, words) or not room(w, ws.GAP_LEXEMES, words):
        return np.int64(statuses.W_GROW)
    here = tab(w, ws.GAP_LEXEMES)
    spans = tab(w, ws.SPANS)
    same = head[ws.W_HAS_PLAN] != 0
    for k in range(words):
        set_ = tab(w, ws.SPAN_SETS)[node * words + k]
        found = np.int64(0)
        while set_:
            bit = low_bit(set_)
            set_ &= set_ - 1
            if has_bit(tab(w, ws.BITS), spans[node * head[ws.W_N_LEXEMES] + 64 * k + bit], node):
                found |= np.int64(1) << bit
        here[k] = found
        same = same and tab(w, ws.GAP_KEY)[k] == found
    charge(w, head[ws.W_N_LEXEMES])
    if same:
        head[ws.W_GAP_OTHERS] = 0
        return np.int64(1)
    # where some gap's rows are found by the plan, it stays
    if head[ws.W_HAS_PLAN] and (head[ws.W_GAP_OTHERS] < MOST_OTHERS or any_words(tab(w, ws.GAP_BY_END), 0, head[ws.W_WIDTH])):
        head[ws.W_GAP_OTHERS] += 1
        return np.int64(0)
    return _plan(h, w)


@kernel
def _plan(h, w):
    """Make the plan for the lexemes in ``GAP_LEXEMES``: fill ``GAP_STAYS``, ``GAP_PREFIX_STAYS``, ``GAP_TAIL``, ``GAP_UPS`` and
    sets of dots; 1, or ``W_GROW``.

    Work: some passes over all dots, as many as the nesting of nonterminals in shortest derivations is deep.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    head[ws.W_HAS_PLAN] = 0
    if (
        not room(w, ws.GAP_STAYS, (n_nonterminals + 63) >> 6)
        or not room(w, ws.GAP_PREFIX_STAYS, head[ws.W_DOT_SET])
        or not room(w, ws.GAP_TAIL, n_dots)
        or not room(w, ws.GAP_UP_HEADS, n_nonterminals + head[ws.W_N_LEXEMES] + 1)
        or not room(w, ws.GAP_UPS, n_dots)
        or not room(w, ws.GAP_ACTIVE, head[ws.W_TURN_SET])
        or not room(w, ws.GAP_TAILED, head[ws.W_TURN_SET])
        or not room(w, ws.GAP_STAYING, head[ws.W_TURN_SET])
        or not room(w, ws.GAP_REACH, (n_nonterminals + head[ws.W_N_LEXEMES]) * words_of_end(w))
    ):
        return np.int64(statuses.W_GROW)
    copy_words(tab(w, ws.GAP_KEY), 0, tab(w, ws.GAP_LEXEMES), 0, head[ws.W_SET])
    if not _find_staying(h, w) or not charge(w, 4 * n_dots):
        return np.int64(statuses.W_GROW)
    _find_tails(h, w)
    _find_sets(h, w)
    _find_ups(h, w)
    if head[ws.W_HAS_CHAINS] and not _find_reach(w):
        return np.int64(statuses.W_GROW)
    head[ws.W_GAP_OTHERS] = 0
    head[ws.W_HAS_PLAN] = 1
    return np.int64(1)


@kernel
def words_of_end(w):
    """The words of a set of symbols and a set by turn together, which is what a gap's end has."""
    head = whead(w)
    return ((head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES] + 63) >> 6) + head[ws.W_TURN_SET]


@kernel
def _find_reach(w):
    """Fill ``GAP_REACH``: for each symbol its transitive ups and the dots before these; whether work sufficed."""
    head = whead(w)
    n_symbols = head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES]
    words = (n_symbols + 63) >> 6
    size = words_of_end(w)
    reach = tab(w, ws.GAP_REACH)
    heads = tab(w, ws.GAP_UP_HEADS)
    ups = tab(w, ws.GAP_UPS)
    fill_words(reach, 0, n_symbols * size, 0)
    for symbol in range(n_symbols):
        set_bit(reach, symbol * size, symbol)
    grown = True
    while grown:
        grown = False
        for symbol in range(n_symbols - 1, -1, -1):
            if not charge(w, words * (1 + heads[symbol + 1] - heads[symbol])):
                return False
            for i in range(heads[symbol], heads[symbol + 1]):
                grown = or_row(reach, symbol * size, ups[i] * size, words) or grown
    starts = tab(w, ws.SYMBOL_HEADS)
    for symbol in range(n_symbols):
        if not charge(w, size):
            return False
        for k in range(words):
            set_ = reach[symbol * size + k]
            while set_:
                other = 64 * k + low_bit(set_)
                set_ &= set_ - 1
                for turn in range(starts[other], starts[other + 1]):
                    set_bit(reach, symbol * size + words, turn)
    return True


@kernel
def _find_staying(h, w):
    """Fill ``GAP_STAYS``, the nonterminals that derive a text of lexemes that may lie in the gap, or the empty text, and
    ``GAP_PREFIX_STAYS``.

    Whether work sufficed.
    """
    n_dots = whead(w)[ws.W_N_DOTS]
    symbols = i64(h, layout.DOT_SYMBOL)
    lefts = i64(h, layout.DOT_LEFT)
    first = tab(w, ws.IS_FIRST)
    stays = tab(w, ws.GAP_STAYS)
    prefix_stays = tab(w, ws.GAP_PREFIX_STAYS)
    fill_words(stays, 0, (whead(w)[ws.W_N_SYMBOLS_NT] + 63) >> 6, 0)
    fill_words(prefix_stays, 0, whead(w)[ws.W_DOT_SET], 0)
    grown = True
    while grown:
        grown = False
        if not charge(w, n_dots):
            return False
        whole = True
        for dot in range(n_dots):
            whole = whole or first[dot] != 0
            if not whole:
                continue
            set_bit(prefix_stays, 0, dot)
            if symbols[dot] == layout.END_OF_RULE:
                grown = set_bit(stays, 0, lefts[dot]) or grown
            else:
                whole = stays_in_gap(w, symbols[dot])
    return True


@kernel
def stays_in_gap(w, symbol):
    """Whether a symbol stays: may lie in the gap as a whole."""
    if symbol >= 0:
        return has_bit(tab(w, ws.GAP_STAYS), 0, symbol)
    return has_bit(tab(w, ws.GAP_KEY), 0, -2 - symbol)


@kernel
def number_of_symbol(w, symbol):
    """A symbol's number: lexemes come after the nonterminals."""
    return symbol if symbol >= 0 else whead(w)[ws.W_N_SYMBOLS_NT] - 2 - symbol


@kernel
def _find_tails(h, w):
    """Fill ``GAP_TAIL``: what the rest of a rule ends with if all before that stays: 1 + the symbol, 0: nothing, or
    ``SEVERAL``.

    Several if the end of the rule may be empty: ``"x" A? B?`` ends with "x", A or B. Nothing if a symbol that does not stay has
    to be followed by more: then the rule continues only where that symbol leads.
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    null_rest = i64(h, layout.DOT_NULL_REST)
    tails = tab(w, ws.GAP_TAIL)
    for dot in range(whead(w)[ws.W_N_DOTS] - 1, -1, -1):
        tails[dot] = 0
        symbol = symbols[dot]
        if symbol == layout.END_OF_RULE:
            continue
        if stays_in_gap(w, symbol):
            tails[dot] = tails[dot + 1]
        if null_rest[dot + 1]:
            tail = number_of_symbol(w, symbol) + 1
            tails[dot] = tail if tails[dot] == 0 or tails[dot] == tail else SEVERAL


@kernel
def _find_sets(h, w):
    """Fill ``GAP_ACTIVE``, ``GAP_TAILED`` and ``GAP_STAYING``."""
    active = tab(w, ws.GAP_ACTIVE)
    tailed = tab(w, ws.GAP_TAILED)
    staying = tab(w, ws.GAP_STAYING)
    tails = tab(w, ws.GAP_TAIL)
    for i in range(whead(w)[ws.W_TURN_SET]):
        active[i] = 0
        tailed[i] = 0
        staying[i] = 0
    for dot in range(whead(w)[ws.W_N_DOTS]):
        if i64(h, layout.DOT_SYMBOL)[dot] == layout.END_OF_RULE:
            continue
        if stays_in_gap(w, i64(h, layout.DOT_SYMBOL)[dot]):
            set_bit(staying, 0, tab(w, ws.TURN_OF)[dot])
        if tails[dot] != 0:
            set_bit(tailed, 0, tab(w, ws.TURN_OF)[dot])
        if tails[dot + 1] != 0:
            set_bit(active, 0, tab(w, ws.TURN_OF)[dot])


@kernel
def _find_ups(h, w):
    """Fill ``GAP_UPS`` and ``GAP_UP_HEADS``: the ups of each symbol, each once.

    An up is a nonterminal with a rule in which all before the symbol stays and the rest behind it may be empty. The symbol
    itself, as in ``L: E "," L``, is left out.
    """
    head = whead(w)
    lefts = i64(h, layout.DOT_LEFT)
    null_rest = i64(h, layout.DOT_NULL_REST)
    heads = tab(w, ws.SYMBOL_HEADS)
    dots = tab(w, ws.SYMBOL_DOTS)
    prefix_stays = tab(w, ws.GAP_PREFIX_STAYS)
    ups = tab(w, ws.GAP_UPS)
    mark = tab(w, ws.NT_MARK)
    count = np.int64(0)
    for symbol in range(head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES]):
        tab(w, ws.GAP_UP_HEADS)[symbol] = count
        head[ws.W_STAMP] += 1
        stamp = head[ws.W_STAMP]
        for i in range(heads[symbol], heads[symbol + 1]):
            dot = dots[i]
            left = lefts[dot]
            if null_rest[dot + 1] and has_bit(prefix_stays, 0, dot) and mark[left] != stamp and left != symbol:
                mark[left] = stamp
                ups[count] = left
                count += 1
    tab(w, ws.GAP_UP_HEADS)[head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES]] = count
