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

Four things keep it fast:

- Only what is not empty is touched. Rows are made on demand, and sets of bits tell where there are any: ``REST_NODES`` by dot,
  ``USEFUL`` by node, ``ACTIVE`` the dots behind whose symbol something is known. Tables of rows are large and mostly empty, so
  reading an empty entry means waiting for memory: of the time of a check that was a tenth.
- What a long symbol reaches from a node further right is taken over whole (:mod:`cdplugin.kernels.infill.taken_over`).
- Only dots that may be under way at a node, going by the lexemes left of it, are followed (``ALIVE``).
- The node inside a gap, where nearly everything may come, has a way of its own (:mod:`cdplugin.kernels.infill.gap_facts`).

Cost: for each node, each of its spans and each dot before the symbol, a union of rows of ``nodes / 64`` words for each end.
Without the second of these things that is cubic in the number of nodes inside a long string.

What is known at a node depends on what lies right of it alone. So when a text changes, facts right of the change are kept
(:func:`_forget_stale`), and nodes are numbered from the right end.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.alive import find_alive, is_alive, last_unasked, take_alive
from cdplugin.kernels.infill.gap_facts import rests_in_gap
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
    forget_rows,
    has_bit,
    name_row,
    new_row,
    or_row,
    rest_row,
    room,
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
        or not room(w, ws.FACTS_AT, 2 * nodes)
    ):
        return np.int64(statuses.W_GROW)
    words = (n_nonterminals + 63) >> 6
    pending = words + ((words + 63) >> 6)
    if not room(w, ws.PENDING, pending) or not room(w, ws.DERIVED_HERE, words) or not room(w, ws.DONE, size_of_done(w)):
        return np.int64(statuses.W_GROW)
    if (
        not room(w, ws.REST_NODES, n_dots * head[ws.W_WIDTH])
        or not room(w, ws.USEFUL, head[ws.W_WIDTH])
        or not room(w, ws.ACTIVE, head[ws.W_DOT_SET])
        or find_alive(w) < 0
    ):
        return np.int64(statuses.W_GROW)
    last = _forget_stale(w)
    for i in range(pending):
        tab(w, ws.PENDING)[i] = 0
    find_done(w, last)
    head[ws.W_C_FACTS] += last - head[ws.W_FIRST] + 1
    element = head[ws.W_ELEMENTS] - 1
    # right to left: a node's facts refer to nodes right of it, or to itself
    for node in range(last, head[ws.W_FIRST] - 1, -1):
        if not charge(w, 8):
            return np.int64(statuses.W_GROW)
        # to forget this node's facts later: cut off what comes after here
        tab(w, ws.FACTS_AT)[2 * node] = head[ws.W_N_TOUCHED]
        tab(w, ws.FACTS_AT)[2 * node + 1] = head[ws.W_BITS_USED]
        if node == end_node(w) or node < head[ws.W_FIRST] + head[ws.W_NODES]:
            element = _gap_up_to(w, element, np.int64(node))
            status = np.int64(0)
            # without ALIVE (masks) nothing is left out anywhere, and the plan saves nothing
            if element >= 0 and head[ws.W_ALIVE] and _is_in(w, element, np.int64(node)) and n_dots <= MOST_DOTS_PLANNED:
                status = rests_in_gap(h, w, np.int64(node))
            if status == 0:
                status = _rests_of(h, w, np.int64(node))
            if status < 0:
                return status
        head[ws.W_FACTS_FIRST] = node
        head[ws.W_BITS_FACTS] = head[ws.W_BITS_USED]
        head[ws.W_TOUCHED_FACTS] = head[ws.W_N_TOUCHED]
    row = tab(w, ws.REST)[head[ws.W_FIRST] * n_dots]
    if not head[ws.W_REUSE]:
        head[ws.W_FACTS_FIRST] = end_node(w) + 1
    return np.int64(1 if row and has_bit(tab(w, ws.BITS), row, final_node(w)) else 0)


@kernel
def _forget_stale(w):
    """Forget the facts that may not hold for this text: the rightmost node whose facts have to be found.

    That is the rightmost node whose spans changed (``W_CHANGED``), or at which a dot is alive that was not
    (:func:`last_unasked`); or the one left of all facts. Rows of facts are made from right to left, so what is forgotten is
    what was made last.
    """
    head = whead(w)
    last = max(head[ws.W_CHANGED], max(head[ws.W_FACTS_FIRST], head[ws.W_FIRST]) - 1)
    if not head[ws.W_REUSE]:
        last = end_node(w)
    # facts are reused only where every dot that is alive now was asked about then
    last = last_unasked(w, last)
    take_alive(w, last)
    if last >= end_node(w):
        forget_rows(w, 0, (head[ws.W_SPAN_ROWS] + 1) * head[ws.W_WIDTH])
    elif last >= head[ws.W_FACTS_FIRST]:
        forget_rows(w, tab(w, ws.FACTS_AT)[2 * last], tab(w, ws.FACTS_AT)[2 * last + 1])
    else:
        forget_rows(w, head[ws.W_TOUCHED_FACTS], head[ws.W_BITS_FACTS])
    head[ws.W_CHANGED] = -1
    head[ws.W_FACTS_FIRST] = last + 1
    # where a table has to grow in the middle of the next node, that node is begun again: from here
    head[ws.W_BITS_FACTS] = head[ws.W_BITS_USED]
    head[ws.W_TOUCHED_FACTS] = head[ws.W_N_TOUCHED]
    _forget_nodes(w, last)
    return last


@kernel
def _forget_nodes(w, last):
    """Take the nodes up to ``last`` out of ``REST_NODES`` and ``USEFUL``, and the dots that no node is left for out of
    ``ACTIVE``. Only dots that are in it are looked at, unless rows have another width than before.
    """
    head = whead(w)
    nodes = tab(w, ws.REST_NODES)
    useful = tab(w, ws.USEFUL)
    active = tab(w, ws.ACTIVE)
    dots = tab(w, ws.SYMBOL_DOTS)
    width = head[ws.W_WIDTH]
    if head[ws.W_REST_WIDTH] != width:
        charge(w, (head[ws.W_N_DOTS] * width) >> 2)
        for i in range(head[ws.W_N_DOTS] * width):
            nodes[i] = 0
        for i in range(width):
            useful[i] = 0
        head[ws.W_REST_WIDTH] = width
    word = width if last >= end_node(w) else (last + 1) >> 6
    if word > 0 or last >= 0:
        _take_out(nodes, np.int64(0), width, word, last)  # no dot comes before the first one
        _take_out(useful, np.int64(0), width, word, last)
    useful[width - 1] |= np.int64(1) << (final_node(w) & 63)
    for k in range(head[ws.W_DOT_SET]):
        left = np.int64(0)
        set_ = active[k]
        charge(w, 1)
        while set_:
            bit = low_bit(set_)
            set_ &= set_ - 1
            dot = dots[64 * k + bit] + 1
            if _take_out(nodes, dot * width, width, word, last):
                left |= np.int64(1) << bit
        active[k] = left


@kernel
def _take_out(bits, row, width, word, last):
    """Take the nodes up to ``last``, in words up to ``word``, out of a row; whether any is left."""
    for i in range(row, row + word):
        bits[i] = 0
    some = np.int64(0)
    if word < width:
        bits[row + word] &= np.int64(-1) << ((last + 1) & 63)
    for i in range(row + word, row + width):
        some |= bits[i]
    return some != 0


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
    for i in range((n_nonterminals + 63) >> 6):
        tab(w, ws.DERIVED_HERE)[i] = 0
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
        many = are_many(w, entry, width)
        again = many and not are_many(w, entry + width, width)  # what few ends led to was not kept
        for i in range(node >> 6, width):  # the second row of an entry: what was followed already
            bits[fresh + i] = bits[entry + i] if again else bits[entry + i] & ~bits[entry + width + i]
            bits[entry + width + i] = bits[entry + i]
        status = _follow(h, w, node, nonterminal, fresh, many)
        if status < 0:
            return status


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
    followed one by one. A rule of one symbol needs no rest (:func:`_promote`), nor does one that begins with a symbol of few
    ends, if nobody reads it later (:func:`_derive`).
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    other = np.int64(-1)
    fresh = row
    charge(w, 4 + width - (node >> 6))
    if many and width > 1:
        charge(w, LAST_NODES * width)
        # a node further right whose ends are all ends here: what they lead to is known
        other = followed_before(h, w, node, symbol, row)
    if other >= 0:
        known = ends_of(w, other, symbol)
        ends = new_row(w)
        if ends < 0:
            return ends
        bits = tab(w, ws.BITS)
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
    for k in range(turn >> 6, (until + 63) >> 6):
        # where nothing is known of what comes after the symbol, and something has to come, nothing is led to
        set_ = word_between(tab(w, ws.ACTIVE), 0, k, turn, until) | word_between(tab(w, ws.PASSES), 0, k, turn, until)
        if head[ws.W_ALIVE]:
            set_ &= tab(w, ws.ALIVE)[node * head[ws.W_TURN_SET] + k]
        while set_:
            dot = dots[64 * k + low_bit(set_)]
            set_ &= set_ - 1
            # a rule of one symbol
            if reuse and first[dot] and symbols[dot + 1] == layout.END_OF_RULE:
                status = _promote(w, node, i64(h, layout.DOT_LEFT)[dot], row)
            elif other >= 0 and is_alive(w, other, dot):
                status = _take_over(h, w, node, dot, other)
                if status >= 0:
                    status = _gather(h, w, node, dot, fresh)
            # a rule that begins here with a symbol of few ends: its row would be read once (but the first rule's is the answer)
            elif reuse and not many and first[dot] and dot:
                status = _derive(h, w, node, dot, row)
            else:
                status = _gather(h, w, node, dot, row)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _take_over(h, w, node, dot, other):
    """Add ``REST[dot]`` of another node further right; 0 or a status. Right since all ends that it was made of are ends here,
    too.
    """
    n_dots = whead(w)[ws.W_N_DOTS]
    if not has_bit(tab(w, ws.REST_NODES), dot * whead(w)[ws.W_WIDTH], other):
        return np.int64(0)
    known = tab(w, ws.REST)[other * n_dots + dot]
    charge(w, whead(w)[ws.W_WIDTH])
    into = rest_row(w, node, dot)
    if into < 0:
        return into
    first = node >> 6
    if or_row(tab(w, ws.BITS), into + first, known + first, whead(w)[ws.W_WIDTH] - first):
        return _grown(h, w, node, dot)
    return np.int64(0)


@kernel
def _gather(h, w, node, dot, ends):
    """Add to ``REST[dot]`` at ``node`` what the rest of the rule leads to from the nodes in ``ends``, where the symbol after
    ``dot`` ends. 0 or a status.

    If the rest may be empty, the ends themselves count. ``REST_NODES`` tells at which nodes there is a row for the next dot,
    so nodes without one are skipped a word at a time.
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_dots = head[ws.W_N_DOTS]
    bits = tab(w, ws.BITS)
    rest = tab(w, ws.REST)
    nodes = tab(w, ws.REST_NODES)
    null_rest = i64(h, layout.DOT_NULL_REST)[dot + 1]
    goes_on = i64(h, layout.DOT_SYMBOL)[dot + 1] != layout.END_OF_RULE
    into = rest[node * n_dots + dot] if has_bit(nodes, dot * width, node) else np.int64(0)
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
        # only ends at which the next dot has a row, a word of them at a time
        word &= nodes[(dot + 1) * width + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            after = rest[end * n_dots + dot + 1]
            work += width - i
            if into == 0:
                into = rest_row(w, node, dot)
                if into < 0:
                    return into
            # a rest ends right of where it begins, so words left of the end's are 0
            if after != into and or_row(bits, into + i, after + i, width - i):
                grew = True
    charge(w, work)
    return _grown(h, w, node, dot) if grew else np.int64(0)


@kernel
def _promote(w, node, left, row):
    """:func:`_gather` for a rule of one symbol: what it derives from a node leads to where the symbol does. 0 or ``W_GROW``.
    The row goes straight into ``DERIVED``.
    """
    into = derived_row(w, node, left)
    if into < 0:
        return into
    word = node >> 6
    charge(w, whead(w)[ws.W_WIDTH] - word)
    if or_row(tab(w, ws.BITS), into + word, row + word, whead(w)[ws.W_WIDTH] - word):
        _wait(w, left)
    return np.int64(0)


@kernel
def _derive(h, w, node, dot, ends):
    """:func:`_gather` for a rule that begins at ``dot``, with a symbol that ends at few nodes: nobody will take its ``REST``
    over, nor read a completion off it, so it is not made, and ``DERIVED`` of the rule's nonterminal grows at once. 0 or
    ``W_GROW``. (If more ends come, all are followed again, and ``REST`` is made.)
    """
    head = whead(w)
    width = head[ws.W_WIDTH]
    n_dots = head[ws.W_N_DOTS]
    left = i64(h, layout.DOT_LEFT)[dot]
    into = derived_row(w, node, left)
    if into < 0:
        return into
    bits = tab(w, ws.BITS)
    rest = tab(w, ws.REST)
    nodes = tab(w, ws.REST_NODES)
    null_rest = i64(h, layout.DOT_NULL_REST)[dot + 1]
    goes_on = i64(h, layout.DOT_SYMBOL)[dot + 1] != layout.END_OF_RULE
    grew = False
    work = width - (node >> 6)
    for i in range(node >> 6, width):
        word = bits[ends + i]
        # the rule may end with the symbol
        if null_rest:
            grew = grew or (word & ~bits[into + i]) != 0
            bits[into + i] |= word
        if not goes_on:
            continue
        word &= nodes[(dot + 1) * width + i]
        while word:
            end = 64 * i + low_bit(word)
            word &= word - 1
            work += width - i
            if or_row(bits, into + i, rest[end * n_dots + dot + 1] + i, width - i):
                grew = True
    charge(w, work)
    if grew:
        _wait(w, left)
    return np.int64(0)


@kernel
def derived_row(w, node, nonterminal):
    """The row of ``DERIVED`` for a nonterminal at the node under way, made now (with the one after it) if there is none; or
    ``W_GROW``.

    The row after it, ``W_WIDTH`` further on, holds the ends that were followed already.
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
def _wait(w, nonterminal):
    """Let a nonterminal wait to be followed: its ends at the node have grown."""
    rank = tab(w, ws.RANKS)[nonterminal]
    words = (whead(w)[ws.W_N_SYMBOLS_NT] + 63) >> 6
    pending = tab(w, ws.PENDING)
    pending[rank >> 6] |= np.int64(1) << (rank & 63)
    pending[words + (rank >> 12)] |= np.int64(1) << ((rank >> 6) & 63)


@kernel
def _grown(h, w, node, dot):
    """``REST[dot]`` at ``node`` grew: pass that on, until nothing more grows. 0 or a status.

    At the beginning of a rule it is passed to the rule's nonterminal. Elsewhere to the dot before, if the symbol between them
    leads from the node to itself: it is empty, or lies in a gap.
    """
    head = whead(w)
    n_dots = head[ws.W_N_DOTS]
    word = node >> 6
    width = head[ws.W_WIDTH] - word
    first = tab(w, ws.IS_FIRST)
    symbols = i64(h, layout.DOT_SYMBOL)
    while True:
        row = tab(w, ws.REST)[node * n_dots + dot]
        charge(w, 1 + width)
        if first[dot]:
            # the rule's beginning has new ends, so its nonterminal does
            left = i64(h, layout.DOT_LEFT)[dot]
            entry = derived_row(w, node, left)
            if entry < 0:
                return entry
            if or_row(tab(w, ws.BITS), entry + word, row + word, width):
                _wait(w, left)
            return np.int64(0)
        # the symbol before cannot lead from this node to itself, so the dot before it is not concerned
        if not stays(h, w, node, symbols[dot - 1]) or not is_alive(w, node, dot - 1):
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
