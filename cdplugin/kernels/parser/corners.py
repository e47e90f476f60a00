"""Left corners: what may stand first in what a nonterminal derives.

``A`` has ``B`` as a left corner if ``A`` derives something that begins with ``B`` (itself included). The relation is used in
two ways: a row predicts ``B`` exactly if a nonterminal that it waits for has ``B`` as a left corner; and an origin only needs
the entries for nonterminals that have the item's own one as a left corner (:func:`restrict`).

Left corners are only taken over nonterminals that have their rules: where one has not, the owner is asked for them
(``NEED_RULES``), so nothing that is memoised can change by rules that come late.
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

MANY = 24  # entries of an origin from which on it is restricted to each of their corners at once


@kernel
def left_corners(h, nonterminal):
    """Intern what can start ``nonterminal``: its left corners (sorted, itself included) and its first ``(lexeme, dot)`` pairs.

    Both are memoised by the nonterminal (``M_CORNERS``, ``M_FIRST``); returns the id of the corners or a status. Breadth first
    over the rules: of each rule the symbols count up to the first that may not be empty. A nonterminal without rules yet ends
    the search with ``NEED_RULES``; it begins again when they are there.

    For ``L: E | E "," L   E: w``: the corners of L are {L, E}, its first pairs {(w, E -> • w)}. Whoever has the corners has
    the first pairs: both are stored together.
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
    # sorted by lexeme, so that a lexeme's dots are found by bisection (first_at)
    first = memo_put(h, layout.M_FIRST, nonterminal, 0, intern_set(h, layout.K_FIRST, end))
    if first < 0:
        return first
    corners = intern_set(h, layout.K_CORNERS, base)
    return memo_put(h, layout.M_CORNERS, nonterminal, 0, corners)


@kernel
def past_nullable(symbols, nullable, dot):
    """The dot past the nonterminals after ``dot`` that may be empty. ``symbols``, ``nullable``: DOT_SYMBOL and NULLABLE."""
    while symbols[dot] >= 0 and nullable[symbols[dot]]:
        dot += 1
    return dot


@kernel
def first_lexemes(h, nonterminal):
    """The first ``(lexeme, dot)`` pairs of ``nonterminal``, sorted (``K_FIRST``); an id or a status."""
    corners = left_corners(h, nonterminal)
    return corners if corners < 0 else memo_get(h, layout.M_FIRST, nonterminal, 0)


@kernel
def need_rules(h, start, end):
    """Ask for the rules of those of the nonterminals ``STACK[start:end]`` that have none yet; 0 if all of them have theirs.

    Otherwise ``NEED_RULES``, with the missing ones moved to the front: ``STACK[REQUEST_B:REQUEST_A]``. The owner reads them
    there.
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
    """Whether the sorted sequence of ``value`` holds ``word``, by bisection."""
    data = i64(h, layout.DATA)
    first = offset_of(h, value)
    end = first + length_of(h, value)
    at = lower_bound(data, first, end, word)
    return at < end and data[at] == word


@kernel
def first_at(h, value, high_word):
    """Position in a sorted sequence of pairs of the first one whose first word is ``high_word`` (or of what follows it):
    of a lexeme in a ``K_FIRST``, of a nonterminal in a ``K_ORIGIN``.
    """
    offset = offset_of(h, value)
    return lower_bound(i64(h, layout.DATA), offset, offset + length_of(h, value), pack(high_word, 0)) - offset


@kernel
def restrict(h, origin, nonterminal):
    """The origin without the entries that do not have ``nonterminal`` as a left corner; an id or a status.

    An item of ``nonterminal`` can only be needed by what has it as a left corner. Dropping the other entries makes origins of
    different rows equal, and so their items and rows. Otherwise an item would carry all that its row waits for, and rows would
    hardly ever repeat.

    Memoised by (origin, nonterminal). An origin of ``MANY`` entries is restricted to all of its corners in one pass, as each
    of them would look at all entries.
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
    # nothing was dropped: the same id, without a look-up
    if head[layout.STACK_TOP] - base < count:
        result = intern(h, layout.K_ORIGIN, base, head[layout.STACK_TOP] - base)
    head[layout.STACK_TOP] = base
    return memo_put(h, layout.M_RESTRICT, origin, nonterminal, result)


@kernel
def _restrict_to_each(h, origin):
    """Memoise :func:`restrict` of an origin of many entries for each of their left corners, in one pass; 0 or a status.

    The pairs (corner, entry) are sorted, so that the entries of one corner stand together. Done once per origin (``V_AUX``).
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
