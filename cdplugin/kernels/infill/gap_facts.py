"""Facts at the node inside a gap, by a plan that is made once for a grammar.

In a gap nearly everything may come, so its node has a fact for each dot and each nonterminal: C++ has 1,182 and 541 of them,
more than the rest of a short text. Three things are known beforehand, given the lexemes that may lie in the gap:

- Which symbols may lie in the gap as a whole (*stay*). The rule's beginning up to a symbol may lie in the gap then, so it
  does not matter where in the rule the symbol is.
- Which nonterminals end where a symbol does (*up* from it): those with a rule that stays up to the symbol and may end with it.
- What the rest of a rule ends with: mostly one symbol, its *tail*, and then the row of the dot is that of the symbol.

So ends are passed up from symbol to symbol (semi-naive, what others end with first), and the rules between are looked at only
where the rest behind a symbol is known right of the gap (``ACTIVE``). In the end each dot is given the row of its tail.

In ``[a □ ]`` with ``S: "[" L "]"   L: E | E "," L   E: w`` (the gap is node 3, the text ends at E)::

    lexemes     w 3 -> 3     "," 3 -> 3     "]" 3 -> 3 4 E     and all of them may lie in the gap
    up          from w: E    from E: L      from "]": S        from L: nothing new (itself)
    tails       • w: w       • E: E         • E "," L: L       "," • L: L          "[" L • "]": "]"
    rest known  behind no symbol: at 4 and at E nothing of S or L is open
    rows        E, L: 3      S: 3 4 E       "[" L • "]": that of "]", 3 4 E

With ``[a □ , b ]`` the rest ``"," • L`` is known behind ``,``, at the node after it. So ``E • "," L`` leads from the gap to the
end of that rest, and so does ``L``, since E may lie in the gap.

What comes of it is what following symbol by symbol finds (:mod:`cdplugin.kernels.infill.intersect`), but for ends at which
nothing is known: these are left out, since nothing can be made of them.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.alive import is_alive
from cdplugin.kernels.infill.taken_over import note_done
from cdplugin.kernels.infill.workspace import (
    charge,
    cut_rows,
    has_bit,
    new_row,
    note_rest,
    or_row,
    room,
    set_bit,
    tab,
    touch,
    whead,
    word_between,
)
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64

MOST_OTHERS = 8  # gaps in which other lexemes may lie, one after another, before a plan is made for theirs
SEVERAL = -1  # in GAP_TAIL


@kernel
def rests_in_gap(h, w, node):
    """Fill ``REST`` and ``DERIVED`` of the node inside a gap, given those of all nodes right of it: 1; 0 if there is no plan
    for the lexemes that may lie in it, or a status.

    Work: a union of rows for each symbol and each nonterminal up from it, and for each end of a symbol behind which a rest is
    known; a word for each dot.
    """
    head = whead(w)
    status = _take_plan(h, w, node)
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
    for i in range(n_dots):
        rows[i] = 0
    bits = tab(w, ws.BITS)
    for i in range(base, base + size):
        bits[i] = 0
    cut_rows(w, ws.W_BITS_USED, ws.W_BITS_CLEAN, base + size)
    head[ws.W_N_GAP_LIST] = 0
    status = _begin_with_lexemes(h, w, node, base)
    if status >= 0:
        status = _go_up(h, w, node, base)
    if status >= 0:
        status = _name_rows(h, w, node, base)
    return status if status < 0 else np.int64(1)


# --- the plan --------------------------------------------------------------------------------------------------------------


@kernel
def _take_plan(h, w, node):
    """Whether there is a plan for the lexemes that lead from a node to itself; made now if there is none, or if the one there
    is has not fitted for some time. 1, 0 or ``W_GROW``.

    In a language whose programs nest, all lexemes may lie in all gaps, so one plan is enough. In a flat one (a JSON Schema
    without references) it is those that may still follow, and they differ from gap to gap: then symbol by symbol is as good.
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
    if head[ws.W_HAS_PLAN] and head[ws.W_GAP_OTHERS] < MOST_OTHERS:
        head[ws.W_GAP_OTHERS] += 1
        return np.int64(0)
    return _plan(h, w)


@kernel
def _plan(h, w):
    """Make the plan for the lexemes in ``GAP_LEXEMES``: ``GAP_STAYS``, ``GAP_FIRST``, ``GAP_TAIL`` and ``GAP_UPS``. 1, or
    ``W_GROW``.

    Work: some passes over all dots, as many as nonterminals are nested in each other to derive their shortest texts.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    head[ws.W_HAS_PLAN] = 0
    if (
        not room(w, ws.GAP_STAYS, (n_nonterminals + 63) >> 6)
        or not room(w, ws.GAP_FIRST, head[ws.W_DOT_SET])
        or not room(w, ws.GAP_TAIL, n_dots)
        or not room(w, ws.GAP_UP_HEADS, n_nonterminals + head[ws.W_N_LEXEMES] + 1)
        or not room(w, ws.GAP_UPS, n_dots)
    ):
        return np.int64(statuses.W_GROW)
    for i in range(head[ws.W_SET]):
        tab(w, ws.GAP_KEY)[i] = tab(w, ws.GAP_LEXEMES)[i]
    if not _find_staying(h, w) or not charge(w, 4 * n_dots):
        return np.int64(statuses.W_GROW)
    _find_tails(h, w)
    _find_ups(h, w)
    head[ws.W_GAP_OTHERS] = 0
    head[ws.W_HAS_PLAN] = 1
    return np.int64(1)


@kernel
def _find_staying(h, w):
    """Fill ``GAP_STAYS``: the nonterminals that derive a text of lexemes that may lie in the gap, or the empty one; and
    ``GAP_FIRST``: the dots of which all that comes before in the rule stays. Whether there was work left.
    """
    n_dots = whead(w)[ws.W_N_DOTS]
    symbols = i64(h, layout.DOT_SYMBOL)
    lefts = i64(h, layout.DOT_LEFT)
    first = tab(w, ws.IS_FIRST)
    stays = tab(w, ws.GAP_STAYS)
    behind = tab(w, ws.GAP_FIRST)
    for i in range((whead(w)[ws.W_N_SYMBOLS_NT] + 63) >> 6):
        stays[i] = 0
    for i in range(whead(w)[ws.W_DOT_SET]):
        behind[i] = 0
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
            set_bit(behind, 0, dot)
            if symbols[dot] == layout.END_OF_RULE:
                grown = set_bit(stays, 0, lefts[dot]) or grown
            else:
                whole = _stays(w, symbols[dot])
    return True


@kernel
def _stays(w, symbol):
    """Whether a symbol may lie in the gap."""
    if symbol >= 0:
        return has_bit(tab(w, ws.GAP_STAYS), 0, symbol)
    return has_bit(tab(w, ws.GAP_KEY), 0, -2 - symbol)


@kernel
def _number(w, symbol):
    """A symbol's number: lexemes come after the nonterminals."""
    return symbol if symbol >= 0 else whead(w)[ws.W_N_SYMBOLS_NT] - 2 - symbol


@kernel
def _find_tails(h, w):
    """Fill ``GAP_TAIL``: what the rest of a rule may end with where all before that stays: 1 + the symbol, 0: nothing, or
    ``SEVERAL``.

    Several where the end of a rule may be empty (``"x" A? B?`` ends with "x", A or B), nothing where a symbol cannot lie in the
    gap and more comes after it: then the rule is only gone on with where that symbol leads.
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    null_rest = i64(h, layout.DOT_NULL_REST)
    tails = tab(w, ws.GAP_TAIL)
    for dot in range(whead(w)[ws.W_N_DOTS] - 1, -1, -1):
        tails[dot] = 0
        symbol = symbols[dot]
        if symbol == layout.END_OF_RULE:
            continue
        if _stays(w, symbol):
            tails[dot] = tails[dot + 1]
        if null_rest[dot + 1]:
            tail = _number(w, symbol) + 1
            tails[dot] = tail if tails[dot] == 0 or tails[dot] == tail else SEVERAL


@kernel
def _find_ups(h, w):
    """Fill ``GAP_UPS``: by symbol, from ``GAP_UP_HEADS`` on, the nonterminals up from it, each once.

    A nonterminal with a rule whose beginning stays, up to the symbol, and behind which the rest may be empty; itself left out,
    as in ``L: E "," L``.
    """
    head = whead(w)
    lefts = i64(h, layout.DOT_LEFT)
    null_rest = i64(h, layout.DOT_NULL_REST)
    heads = tab(w, ws.SYMBOL_HEADS)
    dots = tab(w, ws.SYMBOL_DOTS)
    behind = tab(w, ws.GAP_FIRST)
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
            if null_rest[dot + 1] and has_bit(behind, 0, dot) and mark[left] != stamp and left != symbol:
                mark[left] = stamp
                ups[count] = left
                count += 1
    tab(w, ws.GAP_UP_HEADS)[head[ws.W_N_SYMBOLS_NT] + head[ws.W_N_LEXEMES]] = count


# --- a gap -----------------------------------------------------------------------------------------------------------------


@kernel
def _row_of(w, base, symbol):
    """The row of a symbol's ends right of the gap; the one after it: the ends that were passed on.

    All these rows are made at once, and lie side by side from ``base`` on. The last pair is for ends under way.
    """
    return base + 2 * symbol * whead(w)[ws.W_WIDTH]


@kernel
def _begin_with_lexemes(h, w, node, base):
    """Take the ends of the lexemes at which something is known, and pass them on; 0 or ``W_GROW``.

    Ends without any facts, of which a gap leaves many (a node for each set of lexemes that may come next), lead nowhere.
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
    """Pass the ends of nonterminals on until none has new ones, by rank: what others end with comes first. 0 or ``W_GROW``.

    A fixpoint, since the rest behind a symbol may lead to where a nonterminal inside the symbol does. Ranks (``LAST_RANKS``)
    put the last symbols of rules before their left sides, so most nonterminals are passed on once or twice.
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
    """Pass new ends of a symbol on: to the nonterminals up from it, and to where the rests behind it lead from these ends. The
    first word of ``PENDING`` that has changed since, or ``W_GROW``.
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
        set_ = word_between(active, 0, k, turn, until)
        while set_:
            changed = _lead_on(h, w, node, base, dots[64 * k + low_bit(set_)], fresh)
            set_ &= set_ - 1
            if changed < 0:
                return changed
            lowest = min(lowest, changed)
    return lowest


@kernel
def _wait(w, nonterminal):
    """Let a nonterminal wait to be passed on: the word of ``PENDING`` that has it."""
    rank = tab(w, ws.LAST_RANKS)[nonterminal]
    tab(w, ws.PENDING)[rank >> 6] |= np.int64(1) << (rank & 63)
    return rank >> 6


@kernel
def _lead_on(h, w, node, base, dot, ends):
    """Add what the rest of a rule behind the symbol after ``dot`` leads to from those nodes of ``ends`` at which it is known.
    If all before the symbol stays, the rule's nonterminal leads there. As :func:`_pass_on`.
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
    if grew and has_bit(tab(w, ws.GAP_FIRST), 0, dot):
        left = i64(h, layout.DOT_LEFT)[dot]
        if or_row(bits, _row_of(w, base, left), into, width):
            return _wait(w, left)
    return np.int64(1) << 32


@kernel
def _name_rows(h, w, node, base):
    """Name the rows in ``REST`` and ``DERIVED``. A dot has the row of its tail, or one of its own if it has several, or if a
    rest behind a later symbol of the rule is known. 0 or ``W_GROW``.

    Rows of finished nodes are only read, so many dots may share one. What may lie in the gap ends at its node as well; that bit
    is added now, since passing it on from symbol to symbol would be all for nothing: it is known where it comes to. Dots that
    are not alive are left out, as elsewhere.
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
        if _stays(w, symbol if symbol < n_nonterminals else n_nonterminals - 2 - symbol):
            bits[row + (node >> 6)] |= np.int64(1) << (node & 63)
        some = np.int64(0)
        for i in range(row + (node >> 6), row + width):
            some |= bits[i]
        # the second row has done its duty: whether there is a first one
        bits[row + width] = some
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
                    or_row(bits, row, _row_of(w, base, _number(w, symbols[at])), width)
                if not _stays(w, symbols[at]):
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
            if tab(w, ws.IS_FIRST)[dot] or not _stays(w, symbols[dot - 1]):
                break
            dot -= 1
    return np.int64(0)
