"""The grammar on the lattice: is there a word of the language among the ways through the text with gaps?

Bar-Hillel, Perles and Shamir (1961): whether a context-free language meets a regular one is decided by facts of the form
"``A`` leads from node p to node q". Here they are found from right to left. At a node, ``REST[dot]`` is the row of the nodes
at which a rule that stands at ``dot`` may end; ``DERIVED[A]`` that of the nodes at which ``A``, begun there, may end.

In ``[a □ ]`` (nodes 0 to 4, 3 inside the gap, E the end of the text, F behind the end symbol)::

    node  REST                                                                       DERIVED
    E     S' -> S • END: F
    4     nothing: no lexeme starts there
    3     S -> "[" L • "]": 3 4 E    L -> E • "," L: 3   L -> E "," • L: 3  …         L: 3   E: 3       all inside the gap
    2     S -> "[" L • "]": 3 4 E    L -> E • "," L: 3
    1     S -> "[" • L "]": 3 4 E    L -> • E "," L: 3                               L: 2 3 E: 2 3
    0     S' -> • S END: F                                                           S: 3 4 E
    F is in REST of the first dot at node 0: the text can be completed

``REST`` at node 1 comes of ``DERIVED[L] = {2, 3}`` there and of ``REST`` for the next dot at 2 and at 3: a union of rows.

Both are made of the ends of the symbol after the dot, which lie further right and are finished, except in three cases that
need a fixpoint inside one node: empty rules, lexemes inside a gap (they lead from its node to itself), and unit rules.
:func:`_rests_of` runs it with a queue of nonterminals that grew, in an order in which what others are made of comes first, so
outside gaps each is followed once.

Five things keep it fast:

- Only what is not empty is touched. Rows are made on demand, and sets of bits tell where there are any: ``REST_NODES`` by dot,
  ``USEFUL`` by node, ``ACTIVE`` the dots behind whose symbol something is known. Tables of rows are large and mostly empty, so
  reading an empty entry means waiting for memory: of the time of a check that was a tenth.
- What a long symbol reaches from a node further right is taken over whole (:mod:`cdplugin.kernels.infill.taken_over`).
- Only dots that may be under way at a node, going by the lexemes left of it, are followed (``ALIVE``).
- The node inside a gap, where nearly everything may come, has a way of its own (:mod:`cdplugin.kernels.infill.gap_facts`).
- For a check, rules of one symbol are followed all at once (:mod:`cdplugin.kernels.infill.chains`), and the rest behind a later
  symbol of a rule is found if it is asked for (:mod:`cdplugin.kernels.infill.asked`).

Cost: for each node, each of its spans and each dot before the symbol, a union of rows of ``nodes / 64`` words for each end.
Without the second of these things that is cubic in the number of nodes inside a long string.

What is known at a node depends on what lies right of it alone. So when a text changes, facts right of the change are kept
(:mod:`cdplugin.kernels.infill.stale`), and nodes are numbered from the right end.
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
    size_of_done,
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
from cdplugin.kernels.store.arena import i64

MOST_DOTS_PLANNED = 1 << 12  # the plan for gaps looks at each dot


@kernel
def build_rests(h, w):
    """Fill ``REST`` and ``DERIVED`` for all nodes; 1 if the text can be completed, 0 if not, or a status.

    What was found for the last text holds at the nodes right of the last change. ``FACTS_AT`` notes for each node how many
    rows there were before it, so facts up to any node can be forgotten by cutting off.
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
    if not room(w, ws.PENDING, pending) or not room(w, ws.DERIVED_HERE, words) or not room(w, ws.DONE, size_of_done(w)):
        return np.int64(statuses.W_GROW)
    if (
        not room(w, ws.REST_NODES, n_dots * head[ws.W_WIDTH])
        or not room(w, ws.USEFUL, head[ws.W_WIDTH])
        or not room(w, ws.UNNAMED, head[ws.W_WIDTH])
        or not room(w, ws.GAP_COVERED, head[ws.W_WIDTH])
        or not room(w, ws.GAP_BASES, nodes)
        or not room(w, ws.GAP_OWN, nodes * head[ws.W_DOT_SET])
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
    # where slots are open, symbols have many ends, and what is known is taken over from node to node
    asked = head[ws.W_HAS_CHAINS] & head[ws.W_REUSE] & head[ws.W_ALIVE] & (1 - head[ws.W_HAS_SLOTS])
    if head[ws.W_ASKED] != asked:  # facts of the other kind are of no use
        head[ws.W_CHANGED] = end_node(w)
        head[ws.W_ASKED] = asked
    last = forget_stale(w)
    for i in range(pending):
        tab(w, ws.PENDING)[i] = 0
    find_done(h, w, last)
    head[ws.W_C_FACTS] += last - head[ws.W_FIRST] + 1
    element = head[ws.W_ELEMENTS] - 1
    # right to left: a node's facts refer to nodes right of it, or to itself
    for node in range(last, head[ws.W_FIRST] - 1, -1):
        if not charge(w, 8):
            return np.int64(statuses.W_GROW)
        # to forget this node's facts later: cut off what comes after here
        tab(w, ws.FACTS_AT)[3 * node] = head[ws.W_N_TOUCHED]
        tab(w, ws.FACTS_AT)[3 * node + 1] = head[ws.W_BITS_USED]
        tab(w, ws.FACTS_AT)[3 * node + 2] = head[ws.W_N_CHAINED]
        in_text = node == end_node(w) or node < head[ws.W_FIRST] + head[ws.W_NODES]
        if in_text and some_alive(w, np.int64(node)):
            begin_node_facts(w, np.int64(node))
            element = _gap_up_to(w, element, np.int64(node))
            status = np.int64(0)
            # without ALIVE (masks) nothing is left out anywhere, and the plan saves nothing
            if element >= 0 and head[ws.W_ALIVE] and _is_in(w, element, np.int64(node)) and n_dots <= MOST_DOTS_PLANNED:
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
    """The last gap, at or before an element, whose node is not right of ``node``; -1 if there is none.

    Nodes are gone through from the right, and so are the gaps: all calls together pass the text once.
    """
    elements = tab(w, ws.ELEMENTS)
    before = tab(w, ws.NODE_BEFORE)
    first = whead(w)[ws.W_FIRST]
    while element >= 0 and (elements[element] != ws.GAP or before[element + 1] + first > node):
        element -= 1
    return element


@kernel
def _is_in(w, element, node):
    """Whether a node is that of a gap."""
    return tab(w, ws.NODE_BEFORE)[element + 1] + whead(w)[ws.W_FIRST] == node


@kernel
def _rests_of(h, w, node):
    """Fill a node's rows, given those of all nodes right of it; 0 or a status.

    First the lexemes that start at the node, then the nonterminals that so came to derive something, until none has new ends.
    An entry of ``DERIVED`` is two rows: the ends, and those of them that were followed already; only the difference is
    followed (semi-naive evaluation).
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
            # ends without facts matter where they are compared with those further right, and where facts are yet to come
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
        # since the last time ends may have come that the fixpoint has to follow; the rest is done
        entry = tab(w, ws.DERIVED)[node * n_nonterminals + nonterminal]
        take_chained(w, node, nonterminal, entry)
        many = are_many(w, entry, width)
        again = many and set_bit(many_here, 0, nonterminal)  # what few ends led to was not kept
        some = np.int64(0)
        for i in range(node >> 6, width):  # the second row of an entry: what was followed already
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
    """Let the rests at a node be found when they are asked for (:mod:`cdplugin.kernels.infill.asked`), if no lexeme leads from
    it to itself.
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
                for i in range(node * dots, (node + 1) * dots):
                    here[i] = 0
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
    """Take the first nonterminal that waits, by rank; -1 if there is none. Ranks put what a rule may begin with before its left
    side, so a nonterminal is followed when all that it begins with has grown, but for circles.
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
    """Follow a symbol (lexemes are numbered after the nonterminals) from ``node`` to the ends in ``row``; 0 or a status.

    ``many``: whether it has many ends at the node, of which those in ``row`` are new. For each dot before the symbol: add to
    ``REST[dot]`` what the rest of the rule leads to from these ends. A symbol with many ends (a string, a list) mostly shares
    them with a node further right at which it was followed: what is known there is taken over, and only the other ends are
    followed one by one. A rule of one symbol needs no rest (``promote``), nor does one that begins with a symbol of few ends,
    if nobody reads it later (``derive``).
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
        # a node further right whose ends are all ends here: what they lead to is known
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
    reuse = head[ws.W_REUSE] != 0  # without, completions are read off REST
    first = tab(w, ws.IS_FIRST)
    symbols = i64(h, layout.DOT_SYMBOL)
    dots = tab(w, ws.SYMBOL_DOTS)
    turn = tab(w, ws.SYMBOL_HEADS)[symbol]
    until = tab(w, ws.SYMBOL_HEADS)[symbol + 1]
    if not charge(w, until - turn):
        return np.int64(statuses.W_GROW)
    active = tab(w, ws.NEXT_ANY if head[ws.W_ASKED] else ws.ACTIVE)
    for k in range(turn >> 6, (until + 63) >> 6):
        # where nothing is known of what comes after the symbol, and something has to come, nothing is led to
        set_ = word_between(active, k, turn, until) | word_between(tab(w, ws.PASSES), k, turn, until)
        if head[ws.W_ALIVE]:
            set_ &= tab(w, ws.ALIVE)[node * head[ws.W_TURN_SET] + k]
        while set_:
            dot = dots[64 * k + low_bit(set_)]
            set_ &= set_ - 1
            # a rule of one symbol
            if reuse and first[dot] and symbols[dot + 1] == layout.END_OF_RULE:
                status = promote(w, node, i64(h, layout.DOT_LEFT)[dot], row)
            elif other >= 0 and is_alive(w, other, dot):
                status = take_over(h, w, node, dot, other)
                if status >= 0:
                    status = gather(h, w, node, dot, fresh)
            # a rule that begins here with a symbol of few ends: its row would be read once (but the first rule's is the answer)
            elif reuse and not many and first[dot] and dot:
                status = derive(h, w, node, dot, row)
            else:
                status = gather(h, w, node, dot, row)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _follow_chain(h, w, node, symbol, row):
    """:func:`_follow` at a node whose rests are found when they are asked for: only first dots are followed, also those of all
    nonterminals that rules of one symbol lead to from it (:mod:`cdplugin.kernels.infill.chains`); 0 or a status.
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
            if dot:  # the first of all is asked for in the end
                status = derive_asked(h, w, node, dot, row, n_ends)
                if status < 0:
                    return status
    return np.int64(0)
