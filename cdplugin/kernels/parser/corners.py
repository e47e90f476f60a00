"""Left corners: the nonterminals and lexemes with which a derivation of a nonterminal may begin.

``B`` is a left corner of ``A`` if ``A`` derives something that begins with ``B`` (``A`` itself included). Two uses: a row
predicts ``B`` exactly if a nonterminal that it waits for has ``B`` as a left corner; and an item's origin needs only the
entries of nonterminals that have the item's own one as a left corner (:func:`restrict`).

Left corners are computed only over nonterminals that have their rules. If one has none yet, the owner is asked for them
(``NEED_RULES``), so rules that come late cannot change anything memoised.
"""

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    aux_of,
    header,
    i64,
    intern,
    length_of,
    lower_bound,
    memo_get,
    memo_put,
    offset_of,
    pack,
    set_aux,
    sort_stack,
    spend,
    word_of,
)
from cdplugin.kernels.store.stack import intern_set, push

MANY = 24  # an origin of so many entries is restricted to all of their corners at once


@kernel
def left_corners(h, nonterminal):
    """Return the left corners of ``nonterminal`` as a ``K_CORNERS`` value (sorted, itself included), or a status.

    Also memoises its first ``(lexeme, dot)`` pairs (``K_FIRST``); both together, under ``M_CORNERS`` and ``M_FIRST``.
    Breadth-first search over the rules, taking the symbols of each up to the first that is not nullable. A nonterminal without
    rules ends the search with ``NEED_RULES``; when they are there, it starts over.

    For ``L: E | E "," L   E: w``: the corners of L are {L, E}, its first pairs {(w, E -> • w)}.
    """
    known = memo_get(h, layout.M_CORNERS, nonterminal, 0)
    if known >= 0:
        return known
    head = header(h)
    base = head[layout.STACK_TOP]
    marks = i64(h, layout.VISIT_STAMPS)
    head[layout.STAMP] += 1
    stamp = head[layout.STAMP]
    symbols = i64(h, layout.DOT_SYMBOL)
    rule_heads = i64(h, layout.RULE_HEADS)
    rule_lists = i64(h, layout.RULE_LISTS)
    nullable = i64(h, layout.NULLABLE)
    marks[nonterminal] = stamp
    if push(h, nonterminal) < 0:
        return statuses.GROW
    at = base
    while at < head[layout.STACK_TOP]:  # breadth first: the corners stay on the stack
        left = i64(h, layout.STACK)[at]
        at += 1
        if not spend(h, 2):
            return statuses.LIMIT_WORK
        entry = rule_heads[left]
        if entry == layout.NOT_EXPANDED:
            return need_rules(h, at - 1, at)
        while entry >= 0:
            dot = rule_lists[2 * entry]
            entry = rule_lists[2 * entry + 1]
            head[layout.WORK_LEFT] -= 2
            while symbols[dot] >= 0:
                symbol = symbols[dot]
                if marks[symbol] != stamp:
                    marks[symbol] = stamp
                    if push(h, symbol) < 0:
                        return statuses.GROW
                if not nullable[symbol]:
                    break
                dot += 1
    end = head[layout.STACK_TOP]
    for at in range(base, end):
        left = i64(h, layout.STACK)[at]
        entry = rule_heads[left]
        while entry >= 0:
            dot = rule_lists[2 * entry]
            entry = rule_lists[2 * entry + 1]
            dot = past_nullable(symbols, nullable, dot)
            if symbols[dot] < layout.END_OF_RULE and push(h, pack(-2 - symbols[dot], dot)) < 0:
                return statuses.GROW
    # sorted by lexeme, so first_at finds a lexeme's dots by bisection
    first = memo_put(h, layout.M_FIRST, nonterminal, 0, intern_set(h, layout.K_FIRST, end))
    if first < 0:
        return first
    corners = intern_set(h, layout.K_CORNERS, base)
    return memo_put(h, layout.M_CORNERS, nonterminal, 0, corners)


@kernel
def past_nullable(symbols, nullable, dot):
    """Return the dot past the nullable nonterminals after ``dot``. ``symbols``, ``nullable``: DOT_SYMBOL and NULLABLE."""
    while symbols[dot] >= 0 and nullable[symbols[dot]]:
        dot += 1
    return dot


@kernel
def first_lexemes(h, nonterminal):
    """Return the first ``(lexeme, dot)`` pairs of ``nonterminal``, sorted, as a ``K_FIRST`` value; or a status."""
    corners = left_corners(h, nonterminal)
    return corners if corners < 0 else memo_get(h, layout.M_FIRST, nonterminal, 0)


@kernel
def need_rules(h, start, end):
    """Return 0 if all of the nonterminals ``STACK[start:end]`` have their rules; otherwise ask for the missing ones.

    Asking is ``NEED_RULES``, with the missing nonterminals moved to the front, ``STACK[REQUEST_B:REQUEST_A]``, for the owner.
    """
    words = i64(h, layout.STACK)
    heads = i64(h, layout.RULE_HEADS)
    missing = start
    for i in range(start, end):
        if heads[words[i]] == layout.NOT_EXPANDED:
            words[missing] = words[i]
            missing += 1
    if missing == start:
        return 0
    header(h)[layout.REQUEST_B] = start
    header(h)[layout.REQUEST_A] = missing
    return statuses.NEED_RULES


@kernel
def contains(h, value, word):
    """Return whether the sorted words of ``value`` include ``word``, by bisection."""
    data = i64(h, layout.DATA)
    first = offset_of(h, value)
    end = first + length_of(h, value)
    at = lower_bound(data, first, end, word)
    return at < end and data[at] == word


@kernel
def first_at(h, value, high_word):
    """Return the position of the first word of ``value`` whose high half is not below ``high_word``.

    ``value`` is sorted; the high half is a lexeme in a ``K_FIRST``, a nonterminal in a ``K_ORIGIN``.
    """
    offset = offset_of(h, value)
    return lower_bound(i64(h, layout.DATA), offset, offset + length_of(h, value), pack(high_word, 0)) - offset


@kernel
def restrict(h, origin, nonterminal):
    """Return the origin without the entries that do not have ``nonterminal`` as a left corner; an id or a status.

    Completing ``nonterminal`` can matter only to entries that have it as a left corner. Dropping the others makes the origins
    of different rows equal, and so their items and rows. Otherwise each item would carry all that its row waits for, and rows
    would hardly ever repeat. Memoised by (origin, nonterminal). An origin of ``MANY`` entries is restricted to all of its
    corners in one pass, since each single restriction would look at all entries.
    """
    count = length_of(h, origin)
    if count == 0:
        return origin
    known = memo_get(h, layout.M_RESTRICT, origin, nonterminal)
    if known >= 0:
        return known
    head = header(h)
    base = head[layout.STACK_TOP]
    if count >= MANY:
        status = _restrict_to_each(h, origin)
        if status < 0:
            return status
        known = memo_get(h, layout.M_RESTRICT, origin, nonterminal)
        if known >= 0:
            return known
    else:
        for i in range(count):
            entry = word_of(h, origin, i)
            corners = left_corners(h, entry >> 32)
            if corners < 0:
                return corners
            head[layout.WORK_LEFT] -= 4
            if contains(h, corners, nonterminal) and push(h, entry) < 0:
                return statuses.GROW
    result = origin
    # if nothing was dropped, the id is the same: no look-up
    if head[layout.STACK_TOP] - base < count:
        result = intern(h, layout.K_ORIGIN, base, head[layout.STACK_TOP] - base)
    head[layout.STACK_TOP] = base
    return memo_put(h, layout.M_RESTRICT, origin, nonterminal, result)


@kernel
def _restrict_to_each(h, origin):
    """Memoise :func:`restrict` of an origin for each left corner of its entries, in one pass; 0 or a status.

    The pairs (corner, entry) are sorted, which brings the entries of one corner together. Done once per origin (``V_AUX``).
    Cost: the sum of the entries' corners, times its logarithm, instead of entries × nonterminals.
    """
    if aux_of(h, origin):  # done before
        return 0
    head = header(h)
    base = head[layout.STACK_TOP]
    for i in range(length_of(h, origin)):
        corners = left_corners(h, word_of(h, origin, i) >> 32)
        if corners < 0:
            return corners
        if not spend(h, 2 * length_of(h, corners)):
            return statuses.LIMIT_WORK
        for c in range(length_of(h, corners)):
            if push(h, pack(word_of(h, corners, c), i)) < 0:
                return statuses.GROW
    end = base + sort_stack(h, base, head[layout.STACK_TOP] - base)
    head[layout.STACK_TOP] = end
    pair = base
    while pair < end:
        corner = i64(h, layout.STACK)[pair] >> 32
        while pair < end and i64(h, layout.STACK)[pair] >> 32 == corner:
            if push(h, word_of(h, origin, i64(h, layout.STACK)[pair] & layout.LOW_32)) < 0:
                return statuses.GROW
            pair += 1
        result = intern(h, layout.K_ORIGIN, end, head[layout.STACK_TOP] - end)
        head[layout.STACK_TOP] = end
        status = memo_put(h, layout.M_RESTRICT, origin, corner, result)
        if status < 0:
            return status
    head[layout.STACK_TOP] = base
    set_aux(h, origin, 1)
    return 0
