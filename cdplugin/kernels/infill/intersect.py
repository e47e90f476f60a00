"""Facts: the grammar intersected with the lattice, right to left. Is there a word of the language on some path through it?

Bar-Hillel, Perles and Shamir (1961) decide whether a context-free and a regular language meet by facts "``A`` leads from node p
to node q". Here, at each node, ``REST[dot]`` is the row of the nodes at which the rest of the rule behind ``dot`` may end, and
``DERIVED[A]`` the row of those at which ``A`` may end, both begun at the node. :func:`build_rests` is called for each check.

In ``[a □ ]`` (nodes 0 to 4, 3 inside the gap, E the end of the text, F behind the end symbol)::

    node  REST                                                                       DERIVED
    E     S' -> S • END: F
    4     nothing: no lexeme starts there
    3     S -> "[" L • "]": 3 4 E    L -> E • "," L: 3   L -> E "," • L: 3  …         L: 3   E: 3       all inside the gap
    2     S -> "[" L • "]": 3 4 E    L -> E • "," L: 3
    1     S -> "[" • L "]": 3 4 E    L -> • E "," L: 3                               L: 2 3 E: 2 3
    0     S' -> • S END: F                                                           S: 3 4 E
    F is in REST of the first dot at node 0: the text can be completed

A row is a union: ``REST`` at node 1 unites ``REST`` of the next dot at 2 and at 3, since ``DERIVED[L]`` is ``{2, 3}`` at node
1. These ends lie right of the node, where all facts are known, but for empty rules, unit rules, and lexemes inside a gap (which
lead from its node to itself): so :func:`_rests_of` runs a fixpoint at each node. Its agenda holds the nonterminals with new
ends, what rules begin with before their left sides, so outside gaps each is followed once.

What keeps it fast: only dots that are alive are followed (``alive``), and only words of rows known not to be 0 are read
(``REST_NODES``, ``USEFUL``, ``ACTIVE``); a symbol with many ends takes over the facts of a node further right (``taken_over``);
the gap's node has a method of its own (``gap_facts``); a check follows unit rules at once (``chains``) and later dots on demand
(``asked``); facts right of a change are reused for the next text (``stale``).

Cost: for each node, span and dot before the symbol, a union of rows of ``nodes / 64`` words per end.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.alive import find_alive, is_alive, some_alive
from cdplugin.kernels.infill.asked import begin_node_facts, end_node_facts, first_rest, list_ends, may_lead_on
from cdplugin.kernels.infill.chains import chain_up, take_chained
from cdplugin.kernels.infill.gap_ends import ends_of_gap
from cdplugin.kernels.infill.gap_facts import rests_in_gap
from cdplugin.kernels.infill.gathering import derive, derive_asked, gather, promote, take_over
from cdplugin.kernels.infill.stale import forget_stale
from cdplugin.kernels.infill.taken_over import (
    LAST_NODES,
    are_many,
    ends_of,
    find_done,
    followed_before,
)
from cdplugin.kernels.infill.workspace import (
    charge,
    end_node,
    final_node,
    has_bit,
    new_row,
    room,
    set_bit,
    tab,
    whead,
    word_between,
)
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import fill_words, i64

MOST_DOTS_PLANNED = 1 << 12  # no plan for gaps in larger grammars: it visits each dot


@kernel
def build_rests(h, w):
    """Fill ``REST`` and ``DERIVED`` for all nodes; 1 if the text can be completed, 0 if not, or a status.

    Facts of the last text are kept at the nodes right of the last change. ``FACTS_AT`` records for each node how many rows
    there were before it, so the facts from any node leftwards can be forgotten by truncation.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    nodes = 64 * head[ws.W_WIDTH]
    if (
        not room(w, ws.REST, nodes * n_dots)
        or not room(w, ws.DERIVED, nodes * n_nonterminals)
        or not room(w, ws.FACTS_AT, 3 * nodes)
    ):
        return np.int64(statuses.W_GROW)
    words = (n_nonterminals + 63) >> 6
    pending = words + ((words + 63) >> 6)
    done = LAST_NODES * (n_nonterminals + head[ws.W_N_LEXEMES])
    if not room(w, ws.PENDING, pending) or not room(w, ws.DERIVED_HERE, words) or not room(w, ws.DONE, done):
        return np.int64(statuses.W_GROW)
    if (
        not room(w, ws.REST_NODES, n_dots * head[ws.W_WIDTH])
        or not room(w, ws.USEFUL, head[ws.W_WIDTH])
        or not room(w, ws.GAP_BY_END, head[ws.W_WIDTH])
        or not room(w, ws.GAPS_COVERED, head[ws.W_WIDTH])
        or not room(w, ws.GAP_END_SETS, nodes)
        or not room(w, ws.GAP_BEYOND_TAIL, nodes * head[ws.W_DOT_SET])
        or not room(w, ws.ASKED, head[ws.W_WIDTH])
        or not room(w, ws.MANY_HERE, words)
        or not room(w, ws.NEXT_HERE, nodes * head[ws.W_TURN_SET])
        or not room(w, ws.NEXT_ANY, head[ws.W_TURN_SET])
        or not room(w, ws.CHAINED_AT, 2 * nodes)
        or not room(w, ws.END_LIST, nodes)
        or not room(w, ws.ACTIVE, head[ws.W_DOT_SET])
        or find_alive(h, w) < 0
    ):
        return np.int64(statuses.W_GROW)
    # not where slots are open: there symbols have many ends, whose rows are taken over from node to node
    asked = head[ws.W_HAS_CHAINS] & head[ws.W_REUSE] & head[ws.W_ALIVE] & (1 - head[ws.W_HAS_SLOTS])
    if head[ws.W_ASKED] != asked:  # facts found the other way cannot be reused
        head[ws.W_CHANGED] = end_node(w)
        head[ws.W_ASKED] = asked
    last = forget_stale(w)
    fill_words(tab(w, ws.PENDING), 0, pending, 0)
    find_done(h, w, last)
    head[ws.W_C_FACTS] += last - head[ws.W_FIRST] + 1
    element = head[ws.W_ELEMENTS] - 1
    # right to left: a node's facts refer to nodes right of it, or to itself
    for node in range(last, head[ws.W_FIRST] - 1, -1):
        if not charge(w, 8):
            return np.int64(statuses.W_GROW)
        # forgetting this node's facts truncates the tables to these sizes
        tab(w, ws.FACTS_AT)[3 * node] = head[ws.W_N_TOUCHED]
        tab(w, ws.FACTS_AT)[3 * node + 1] = head[ws.W_BITS_USED]
        tab(w, ws.FACTS_AT)[3 * node + 2] = head[ws.W_N_CHAINED]
        in_text = node == end_node(w) or node < head[ws.W_FIRST] + head[ws.W_NODES]
        if in_text and some_alive(w, np.int64(node)):
            begin_node_facts(w, np.int64(node))
            element = _gap_up_to(w, element, np.int64(node))
            status = np.int64(0)
            # without ALIVE (masks) every dot is wanted, and the plan saves nothing
            if element >= 0 and head[ws.W_ALIVE] and _is_gap_node(w, element, np.int64(node)) and n_dots <= MOST_DOTS_PLANNED:
                status = ends_of_gap(h, w, np.int64(node)) if head[ws.W_ASKED] else rests_in_gap(h, w, np.int64(node))
            if status == 0:
                status = _rests_of(h, w, np.int64(node))
            if status < 0:
                return status
            end_node_facts(w, np.int64(node))
        head[ws.W_FACTS_FIRST] = node
        head[ws.W_BITS_FACTS] = head[ws.W_BITS_USED]
        head[ws.W_TOUCHED_FACTS] = head[ws.W_N_TOUCHED]
        head[ws.W_CHAINED_FACTS] = head[ws.W_N_CHAINED]
    if head[ws.W_ASKED]:
        row = first_rest(h, w, head[ws.W_FIRST])
        if row < 0:
            return row
    else:
        row = tab(w, ws.REST)[head[ws.W_FIRST] * n_dots]
    if not head[ws.W_REUSE]:
        head[ws.W_FACTS_FIRST] = end_node(w) + 1
    return np.int64(1 if row and has_bit(tab(w, ws.BITS), row, final_node(w)) else 0)


@kernel
def _gap_up_to(w, element, node):
    """The last gap, at or before ``element``, whose node is ``node`` or left of it; -1 if there is none.

    Nodes are visited from the right, and so are the gaps: all calls together read the text once.
    """
    elements = tab(w, ws.ELEMENTS)
    before = tab(w, ws.NODE_BEFORE)
    first = whead(w)[ws.W_FIRST]
    while element >= 0 and (elements[element] != ws.GAP or before[element + 1] + first > node):
        element -= 1
    return element


@kernel
def _is_gap_node(w, element, node):
    """Whether a node is that of a gap."""
    return tab(w, ws.NODE_BEFORE)[element + 1] + whead(w)[ws.W_FIRST] == node


@kernel
def _rests_of(h, w, node):
    """Fill a node's rows, given those of all nodes right of it; 0 or a status.

    First follow the lexemes that start at the node, then the nonterminals on the agenda, until none has new ends. An entry of
    ``DERIVED`` is two rows: the ends, and those already followed; only the difference is followed (semi-naive evaluation).
    """
    head = whead(w)
    n_nonterminals = head[ws.W_N_SYMBOLS_NT]
    width = head[ws.W_WIDTH]
    fresh = new_row(w)
    if fresh < 0:
        return fresh
    bits = tab(w, ws.BITS)
    useful = tab(w, ws.USEFUL)
    many_here = tab(w, ws.MANY_HERE)
    for i in range((n_nonterminals + 63) >> 6):
        tab(w, ws.DERIVED_HERE)[i] = 0
        many_here[i] = 0
    _begin_asked(w, node)
    words = head[ws.W_SET]
    for k in range(words):
        set_ = tab(w, ws.SPAN_SETS)[node * words + k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] + lexeme]
            some = np.int64(0)
            for i in range(node >> 6, width):
                kept = bits[row + i] & useful[i]
                bits[fresh + i] = kept
                some |= kept
            # ends without facts matter in two cases: in comparisons with a node further right (many ends), and if this very
            # node is an end, since its facts are still growing
            stays_here = has_bit(bits, row, node)
            many = (stays_here or some != 0) and are_many(w, row, width)
            if many or stays_here:
                status = _follow(h, w, node, n_nonterminals + lexeme, row, many)
            elif some:
                status = _follow(h, w, node, n_nonterminals + lexeme, fresh, False)
            else:
                charge(w, width)
                continue
            if status < 0:
                return status
    while True:
        nonterminal = _first_pending(w)
        if nonterminal < 0:
            return np.int64(0)
        # only ends that are new since this nonterminal was last followed are followed
        entry = tab(w, ws.DERIVED)[node * n_nonterminals + nonterminal]
        take_chained(w, node, nonterminal, entry)
        many = are_many(w, entry, width)
        again = many and set_bit(many_here, 0, nonterminal)  # with few ends no REST was made: follow all of them again
        some = np.int64(0)
        for i in range(node >> 6, width):  # the second row of an entry: the ends already followed
            new = bits[entry + i] if again else bits[entry + i] & ~bits[entry + width + i]
            bits[fresh + i] = new
            some |= new
            bits[entry + width + i] = bits[entry + i]
        if some:
            status = _follow(h, w, node, nonterminal, fresh, many)
            if status < 0:
                return status


@kernel
def _begin_asked(w, node):
    """Let the rests at a node be found on demand (:mod:`cdplugin.kernels.infill.asked`) unless a lexeme leads from it to
    itself.

    Fills ``NEXT_HERE`` from the lexemes that lead from the node to a useful one.
    """
    head = whead(w)
    if head[ws.W_ASKED] == 0:
        return
    words = head[ws.W_SET]
    dots = head[ws.W_TURN_SET]
    bits = tab(w, ws.BITS)
    useful = tab(w, ws.USEFUL)
    next_of = tab(w, ws.NEXT_OF)
    here = tab(w, ws.NEXT_HERE)
    found = False
    for k in range(words):
        set_ = tab(w, ws.SPAN_SETS)[node * words + k]
        while set_:
            lexeme = 64 * k + low_bit(set_)
            set_ &= set_ - 1
            row = tab(w, ws.SPANS)[node * head[ws.W_N_LEXEMES] + lexeme]
            if has_bit(bits, row, node):
                fill_words(here, node * dots, dots, 0)
                return
            some = np.int64(0)
            for i in range(node >> 6, head[ws.W_WIDTH]):
                some |= bits[row + i] & useful[i]
            if some:
                found = True
                charge(w, dots >> 2)
                for i in range(dots):
                    here[node * dots + i] |= next_of[lexeme * dots + i]
    set_bit(tab(w, ws.ASKED), 0, node)
    if found:
        set_bit(useful, 0, node)


@kernel
def _first_pending(w):
    """Take the nonterminal of the lowest rank off the agenda; -1 if it is empty.

    Ranks put what a rule may begin with before its left side. So, but for cycles, a nonterminal is followed when all that it
    begins with has its final ends.
    """
    pending = tab(w, ws.PENDING)
    n_nonterminals = whead(w)[ws.W_N_SYMBOLS_NT]
    words = (n_nonterminals + 63) >> 6
    for k in range((words + 63) >> 6):
        some = pending[words + k]
        if some:
            i = 64 * k + low_bit(some)
            word = pending[i]
            pending[i] = word & (word - 1)
            if pending[i] == 0:
                pending[words + k] = some & (some - 1)
            return tab(w, ws.RANKS)[n_nonterminals + 64 * i + low_bit(word)]
    return np.int64(-1)


@kernel
def _follow(h, w, node, symbol, row, many):
    """Follow a symbol (by number) from ``node`` to the ends in ``row``; 0 or a status.

    ``many``: whether the symbol has many ends at the node; those in ``row`` are the new ones. For each dot before the symbol,
    add to ``REST[dot]`` where the rest of the rule leads from these ends. A symbol with many ends (a string, a list) mostly
    shares them with a node further right at which it was followed: the facts there are taken over, and only the other ends are
    followed one by one. ``REST[dot]`` is not made for unit rules (:func:`promote`), nor for a rule that begins with a symbol of
    few ends, as nobody reads it later (:func:`derive`).
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    if has_bit(tab(w, ws.ASKED), 0, node):
        null = symbol < head[ws.W_N_SYMBOLS_NT] and i64(h, layout.NULLABLE)[symbol] != 0
        if null or not many:
            return _follow_chain(h, w, node, symbol, row)
    other = np.int64(-1)
    fresh = row
    charge(w, 4 + width - (node >> 6))
    if many and width > 1:
        charge(w, LAST_NODES * width)
        # a node further right whose ends are all ends here: its facts hold here
        other = followed_before(h, w, node, symbol, row)
    if other >= 0:
        ends = new_row(w)
        if ends < 0:
            return ends
        bits = tab(w, ws.BITS)
        known = ends_of(w, other, symbol)
        for i in range(node >> 6, width):
            bits[ends + i] = bits[row + i] & ~bits[known + i]
        fresh = ends
    reuse = head[ws.W_REUSE] != 0  # if not, completions are read off REST, so all of it is made
    first = tab(w, ws.IS_FIRST)
    symbols = i64(h, layout.DOT_SYMBOL)
    dots = tab(w, ws.SYMBOL_DOTS)
    turn = tab(w, ws.SYMBOL_HEADS)[symbol]
    until = tab(w, ws.SYMBOL_HEADS)[symbol + 1]
    if not charge(w, until - turn):
        return np.int64(statuses.W_GROW)
    active = tab(w, ws.NEXT_ANY if head[ws.W_ASKED] else ws.ACTIVE)
    for k in range(turn >> 6, (until + 63) >> 6):
        # other dots lead nowhere: a symbol must follow, and the rest behind it has no facts at any node
        set_ = word_between(active, k, turn, until) | word_between(tab(w, ws.PASSES), k, turn, until)
        if head[ws.W_ALIVE]:
            set_ &= tab(w, ws.ALIVE)[node * head[ws.W_TURN_SET] + k]
        while set_:
            dot = dots[64 * k + low_bit(set_)]
            set_ &= set_ - 1
            # a unit rule
            if reuse and first[dot] and symbols[dot + 1] == layout.END_OF_RULE:
                status = promote(w, node, i64(h, layout.DOT_LEFT)[dot], row)
            elif other >= 0 and is_alive(w, other, dot):
                status = take_over(h, w, node, dot, other)
                if status >= 0:
                    status = gather(h, w, node, dot, fresh)
            # the rule begins here with a symbol of few ends: its row would be read once. (Dot 0's row is the answer.)
            elif reuse and not many and first[dot] and dot:
                status = derive(h, w, node, dot, row)
            else:
                status = gather(h, w, node, dot, row)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _follow_chain(h, w, node, symbol, row):
    """:func:`_follow` at a node whose rests are found on demand; 0 or a status.

    Only first dots are followed, those before the symbol and those before all nonterminals of its chain
    (:mod:`cdplugin.kernels.infill.chains`).
    """
    head = whead(w)
    at = tab(w, ws.CHAIN_HEADS)[symbol]
    if at & 1:
        status = chain_up(w, node, symbol, row)
        if status < 0:
            return status
    until = tab(w, ws.CHAIN_HEADS)[symbol + 1] >> 1
    at >>= 1
    n_ends = list_ends(w, node, row)
    if not charge(w, 4 + (until - at) * (1 + n_ends)):
        return np.int64(statuses.W_GROW)
    dots = tab(w, ws.SYMBOL_DOTS)
    words = tab(w, ws.CHAIN_DOTS)
    alive = node * head[ws.W_TURN_SET]
    for i in range(at, until):
        k = words[2 * i]
        set_ = words[2 * i + 1] & tab(w, ws.ALIVE)[alive + k]
        if set_ == 0:
            continue
        set_ &= may_lead_on(w, n_ends, k) | tab(w, ws.PASSES)[k]
        while set_:
            dot = dots[64 * k + low_bit(set_)]
            set_ &= set_ - 1
            if dot:  # dot 0 is asked for at the end (first_rest)
                status = derive_asked(h, w, node, dot, row, n_ends)
                if status < 0:
                    return status
    return np.int64(0)
