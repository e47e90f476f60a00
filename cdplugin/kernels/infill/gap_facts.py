"""All facts at the node of a gap, from a plan made once for the grammar (:mod:`cdplugin.kernels.infill.gap_plan`).

For completions and masks, which need all facts; a check needs few (:mod:`cdplugin.kernels.infill.gap_ends`). Called by
:mod:`cdplugin.kernels.infill.intersect` instead of its fixpoint. In a gap nearly everything may come, so its node has a fact
for nearly each dot and nonterminal: C++ has 1,182 and 541, more than the rest of a short text. The plan knows, given the
lexemes that may lie in the gap:

- which symbols *stay*: may lie in the gap as a whole. If all of a rule before a symbol stays, the symbol may as well come
  first;
- the *ups* of a symbol: the nonterminals that end where it does, with a rule that stays up to the symbol and may end with it;
- the *tail* of a dot: the symbol that the rest of the rule ends with. Mostly there is one, and the dot's row is the tail's.

So ends are passed from each symbol to its ups (semi-naive), and a rule is looked at only where the rest behind its symbol has
facts right of the gap (``ACTIVE``). At last each dot gets the row of its tail.

In ``[a □ ]`` with ``S: "[" L "]"   L: E | E "," L   E: w`` (the gap is node 3, the text ends at E)::

    lexemes     w 3 -> 3     "," 3 -> 3     "]" 3 -> 3 4 E     and all of them may lie in the gap
    ups         w: E    E: L      "]": S        L: nothing new (itself)
    tails       • w: w       • E: E         • E "," L: L       "," • L: L          "[" L • "]": "]"
    rests       behind no symbol: at 4 and at E nothing of S or L is open
    rows        E, L: 3      S: 3 4 E       "[" L • "]": that of "]", 3 4 E

In ``[a □ , b ]`` the rest ``"," • L`` has a fact behind ``,``, at the node after it. So ``E • "," L`` leads from the gap to the
end of that rest, and so does ``L``, since E stays.

The result is that of the fixpoint, without ends that have no facts: nothing can be made of these.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.alive import is_alive
from cdplugin.kernels.infill.gap_plan import number_of_symbol, stays_in_gap, take_plan
from cdplugin.kernels.infill.taken_over import note_done
from cdplugin.kernels.infill.workspace import (
    charge,
    cut_rows,
    has_bit,
    new_row,
    note_rest,
    or_row,
    room,
    tab,
    touch,
    whead,
    word_between,
)
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import any_words, fill_words, i64


@kernel
def rests_in_gap(h, w, node):
    """Fill ``REST`` and ``DERIVED`` of a gap's node, given all nodes right of it: 1; 0 if no plan fits; or a status.

    Work: a union of rows for each pair (symbol, up) and for each end of a symbol behind which a rest has facts; a word for each
    dot.
    """
    head = whead(w)
    status = take_plan(h, w, node)
    if status <= 0:
        return status
    n_dots = head[ws.W_N_DOTS]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    n_symbols = n_nonterminals + head[ws.W_N_LEXEMES]
    width = head[ws.W_WIDTH]
    base = head[ws.W_BITS_USED]
    size = 2 * (n_symbols + 1) * width
    if (
        not room(w, ws.GAP_ROWS, n_dots)
        or not room(w, ws.GAP_LIST, n_dots)
        or not room(w, ws.TOUCHED, head[ws.W_N_TOUCHED] + 2)
        or not room(w, ws.BITS, base + size)
        or not charge(w, n_dots + size)
    ):
        return np.int64(statuses.W_GROW)
    rows = tab(w, ws.GAP_ROWS)
    fill_words(rows, 0, n_dots, 0)
    bits = tab(w, ws.BITS)
    fill_words(bits, base, size, 0)
    cut_rows(w, ws.W_BITS_USED, ws.W_BITS_CLEAN, base + size)
    head[ws.W_N_GAP_LIST] = 0
    status = _begin_with_lexemes(h, w, node, base)
    if status >= 0:
        status = _go_up(h, w, node, base)
    if status >= 0:
        status = _name_rows(h, w, node, base)
    return status if status < 0 else np.int64(1)


@kernel
def _row_of(w, base, symbol):
    """The row of a symbol's ends right of the gap; the row after it has the ends already passed on.

    The rows of all symbols are made at once and lie side by side from ``base`` on. The last pair is scratch, for new ends.
    """
    return base + 2 * symbol * whead(w)[ws.W_WIDTH]


@kernel
def _begin_with_lexemes(h, w, node, base):
    """Pass on the useful ends of the lexemes; 0 or ``W_GROW``.

    Ends without facts lead nowhere. A gap leaves many of them: a node for each set of lexemes that may come next.
    """
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    width = head[ws.W_WIDTH]
    bits = tab(w, ws.BITS)
    useful = tab(w, ws.USEFUL)
    for k in range(head[ws.W_SET]):
        set_ = tab(w, ws.SPAN_SETS)[node * head[ws.W_SET] + k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] + lexeme]
            ends = _row_of(w, base, n_nonterminals + lexeme)
            some = np.int64(0)
            for i in range(node >> 6, width):
                kept = bits[row + i] & useful[i]
                bits[ends + i] = kept
                some |= kept
            charge(w, width)
            note_done(w, node, n_nonterminals + lexeme, row)
            if some and _pass_on(h, w, node, base, n_nonterminals + lexeme, ends) < 0:
                return np.int64(statuses.W_GROW)
    return np.int64(0)


@kernel
def _go_up(h, w, node, base):
    """Pass on the ends of nonterminals until none has new ones; 0 or ``W_GROW``.

    A fixpoint, since the rest behind a symbol may lead to new ends of a nonterminal that the symbol contains. Ranks
    (``LAST_RANKS``) put what a rule may end with before its left side, so most nonterminals are passed on once or twice.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    words = (n_nonterminals + 63) >> 6
    bits = tab(w, ws.BITS)
    pending = tab(w, ws.PENDING)
    ranks = tab(w, ws.LAST_RANKS)
    fresh = _row_of(w, base, n_nonterminals + head[ws.W_N_LEXEMES])
    k = np.int64(0)
    while k < words:
        word = pending[k]
        if word == 0:
            k += 1
            continue
        pending[k] = word & (word - 1)
        symbol = ranks[n_nonterminals + 64 * k + low_bit(word)]
        ends = _row_of(w, base, symbol)
        for i in range(node >> 6, width):
            bits[fresh + i] = bits[ends + i] & ~bits[ends + width + i]
            bits[ends + width + i] = bits[ends + i]
        lowest = _pass_on(h, w, node, base, symbol, fresh)
        if lowest < 0:
            return np.int64(statuses.W_GROW)
        k = min(k, lowest)
    return np.int64(0)


@kernel
def _pass_on(h, w, node, base, symbol, fresh):
    """Pass new ends of a symbol to its ups and through the rests behind it.

    The first word of ``PENDING`` that changed (1 << 32: none), or ``W_GROW``.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    bits = tab(w, ws.BITS)
    ups = tab(w, ws.GAP_UPS)
    lowest = np.int64(1) << 32
    word = node >> 6
    first = tab(w, ws.GAP_UP_HEADS)[symbol]
    last = tab(w, ws.GAP_UP_HEADS)[symbol + 1]
    if not charge(w, 4 + (last - first) * (width - word)):
        return np.int64(statuses.W_GROW)
    for i in range(first, last):
        if or_row(bits, _row_of(w, base, ups[i]) + word, fresh + word, width - word):
            lowest = min(lowest, _wait(w, ups[i]))
    active = tab(w, ws.ACTIVE)
    dots = tab(w, ws.SYMBOL_DOTS)
    turn = tab(w, ws.SYMBOL_HEADS)[symbol]
    until = tab(w, ws.SYMBOL_HEADS)[symbol + 1]
    for k in range(turn >> 6, (until + 63) >> 6):
        set_ = word_between(active, k, turn, until)
        while set_:
            changed = _lead_on(h, w, node, base, dots[64 * k + low_bit(set_)], fresh)
            set_ &= set_ - 1
            if changed < 0:
                return changed
            lowest = min(lowest, changed)
    return lowest


@kernel
def _wait(w, nonterminal):
    """Put a nonterminal on the agenda; its word in ``PENDING``."""
    rank = tab(w, ws.LAST_RANKS)[nonterminal]
    tab(w, ws.PENDING)[rank >> 6] |= np.int64(1) << (rank & 63)
    return rank >> 6


@kernel
def _lead_on(h, w, node, base, dot, ends):
    """Add to the row of ``dot`` where the rest behind its symbol leads from the useful nodes of ``ends``; as :func:`_pass_on`.

    If all before the symbol stays, the rule's nonterminal leads there, too.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_dots = head[ws.W_N_DOTS]
    bits = tab(w, ws.BITS)
    nodes = tab(w, ws.REST_NODES)
    rest = tab(w, ws.REST)
    into = tab(w, ws.GAP_ROWS)[dot]
    grew = False
    work = width - (node >> 6)
    for i in range(node >> 6, width):
        word = bits[ends + i] & nodes[(dot + 1) * width + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            work += width - i
            if into == 0:
                into = new_row(w)
                if into < 0:
                    return into
                tab(w, ws.GAP_ROWS)[dot] = into
                tab(w, ws.GAP_LIST)[head[ws.W_N_GAP_LIST]] = dot
                head[ws.W_N_GAP_LIST] += 1
            if or_row(bits, into + i, rest[end * n_dots + dot + 1] + i, width - i):
                grew = True
    charge(w, work)
    if grew and has_bit(tab(w, ws.GAP_PREFIX_STAYS), 0, dot):
        left = i64(h, layout.DOT_LEFT)[dot]
        if or_row(bits, _row_of(w, base, left), into, width):
            return _wait(w, left)
    return np.int64(1) << 32


@kernel
def _name_rows(h, w, node, base):
    """Enter the rows in ``REST`` and ``DERIVED``; 0 or ``W_GROW``.

    A dot shares the row of its tail (finished rows are only read). It has a row of its own if it has several tails, or if a
    rest behind its symbol or a later one leads right of the gap. Symbols that stay also end at the gap's node; that bit is
    added here, since it is known without being passed on. Dots that are not alive are left out.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    n_symbols = n_nonterminals + head[ws.W_N_LEXEMES]
    width = head[ws.W_WIDTH]
    symbols = i64(h, layout.DOT_SYMBOL)
    null_rest = i64(h, layout.DOT_NULL_REST)
    bits = tab(w, ws.BITS)
    tails = tab(w, ws.GAP_TAIL)
    rest = tab(w, ws.REST)
    charge(w, n_dots + n_symbols)
    for symbol in range(n_symbols):
        row = _row_of(w, base, symbol)
        if stays_in_gap(w, symbol if symbol < n_nonterminals else n_nonterminals - 2 - symbol):
            bits[row + (node >> 6)] |= np.int64(1) << (node & 63)
        some = any_words(bits, row + (node >> 6), width - (node >> 6))
        # the second row is no longer needed: its first word now says whether the first one has any ends
        bits[row + width] = np.int64(some)
        if some and symbol < n_nonterminals:
            tab(w, ws.DERIVED)[node * n_nonterminals + symbol] = row
            note_done(w, node, np.int64(symbol), row)
    touch(w, ws.DERIVED, node * n_nonterminals, n_nonterminals)
    touch(w, ws.REST, node * n_dots, n_dots)
    for dot in range(n_dots):
        tail = tails[dot]
        if tail == 0 or not is_alive(w, node, dot):
            continue
        if tail > 0:
            row = base + 2 * (tail - 1) * width
            if bits[row + width] == 0:
                continue
        else:
            row = new_row(w)
            if row < 0:
                return row
            at = np.int64(dot)
            while symbols[at] != layout.END_OF_RULE:
                if null_rest[at + 1]:
                    or_row(bits, row, _row_of(w, base, number_of_symbol(w, symbols[at])), width)
                if not stays_in_gap(w, symbols[at]):
                    break
                at += 1
        rest[node * n_dots + dot] = row
        note_rest(w, node, np.int64(dot))
    for i in range(head[ws.W_N_GAP_LIST]):
        dot = tab(w, ws.GAP_LIST)[i]
        led = tab(w, ws.GAP_ROWS)[dot]
        while True:
            row = rest[node * n_dots + dot]
            if row == 0 or (tails[dot] > 0 and row == _row_of(w, base, tails[dot] - 1)):
                shared = row
                row = new_row(w)
                if row < 0:
                    return row
                if shared:
                    or_row(bits, row, shared, width)
                rest[node * n_dots + dot] = row
                note_rest(w, node, dot)
            or_row(bits, row, led, width)
            charge(w, width)
            if tab(w, ws.IS_FIRST)[dot] or not stays_in_gap(w, symbols[dot - 1]):
                break
            dot -= 1
    return np.int64(0)
