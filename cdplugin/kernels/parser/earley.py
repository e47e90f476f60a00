"""The Earley parser: rows are values, and so are origins.

A *row* is the set of kernel items ``(dot, origin)`` that the future can still reference. Predicted items are a static closure
of the dots and are never stored; completed items are gone once completion has run. That is the pruning of ZapFormat (Sun et
al., ICML 2025) by construction.

An *origin* replaces the position in a textbook item (Earley, CACM 13(2), 1970). It is a map {S: the items that completing S
gives} over the nonterminals S that the kernel items of the predicting row wait for, restricted to those S that have the item's
own nonterminal as a left corner. Two texts after which the same things may be completed have one origin, so rows of different
positions coincide: ``S: "a" S | "a"`` has one row for any number of letters.

A row is made in four steps:

1. *Scan* (:func:`advance`): each item, kernel or predicted, whose next symbol is a lexeme that ended moves over it.
2. *Complete* (:func:`_push_after`, :mod:`cdplugin.kernels.parser.completing`): if the rest of a rule is nullable, its
   nonterminal is complete, and the items that the origin names for it are added. So right-recursive tails vanish (Leo, 1991).
3. *Intern* (:func:`make_row`): the kernel items are sorted and stored once.
4. *Predict* (:func:`row_of`): the nonterminals that the items wait for give the row's own origin, and the lexer states in which
   its lexemes start. Both are computed once per row.

For example, with ``S: "[" L "]"   L: E | E "," L   E: w`` (``•`` is the dot, ``{…}`` the origin)::

    read        row   kernel items                                 its own origin
    (nothing)   1     S' -> • S END {}                             {S: S' -> S • END}
    [           2     S -> "[" • L "]" {S: …}                      {L: S -> "[" L • "]"}
    [w          3     S -> "[" L • "]" {S: …}                      {}
                      L -> E • "," L {L: S -> "[" L • "]"}
    [w,         4     L -> E "," • L {L: S -> "[" L • "]"}         {L: S -> "[" L • "]"}
    [w,w        3     again, for any number of words
    [w]         5     S' -> S • END {}, accepts                    {}

In row 2, ``E -> • w`` is predicted but not stored: ``w`` is found as a first lexeme of ``L``. When ``w`` has ended, ``E`` is
complete, and so is ``L`` (``E`` may end it), so the item of row 2 moves over ``L``. All of that is one ``complete``, memoised
by (origin, nonterminal). In row 4 the new ``L`` has the same origin as the outer one: completing it completes the outer one as
well, so the chain of lists that a textbook parser climbs at ``]`` has length one.

Symbols after a dot: ``n >= 0`` a nonterminal, ``-1`` the end of the rule, ``-2 - t`` the lexeme ``t``. The end of the text is
the lexeme ``END_SYMBOL`` of the rule ``S' -> S END``, so acceptance is an ordinary kernel item.

A dot moves over nullable nonterminals where it meets them (Aycock and Horspool, 2002): every loop over ``symbols[dot]`` goes on
past nullable symbols, so no item for an empty derivation is ever made.

Rules may be made late: a nonterminal whose list of rules is ``NOT_EXPANDED`` gets its rules when it is first predicted. Left
corners are computed only over nonterminals that have their rules, so late rules change nothing that is memoised.

``tests/naive.py`` is a textbook Earley parser to compare with.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import ending_of, expression_of, is_skip, role_of, skip_of
from cdplugin.kernels.lexer.states import take_state
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser.completing import complete, push_items
from cdplugin.kernels.parser.corners import (
    first_at,
    first_lexemes,
    need_rules,
    past_nullable,
    restrict,
)
from cdplugin.kernels.parser.fields import exact_start_of, items_of, longest_start_of, origin_of
from cdplugin.kernels.parser.skips import drop_skip_items, has_skip_items, only_after_skips, others_start, push_skip_items
from cdplugin.kernels.parser.tracked_scan import scan_tracked
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    aux_of,
    has_room,
    header,
    i64,
    intern,
    length_of,
    memo_get,
    memo_put,
    pack,
    set_aux,
    sort_stack,
    spend,
    word_of,
)
from cdplugin.kernels.store.stack import intern_set, push


@kernel
def _push_after(h, dot, origin):
    """Push the items that moving over the symbol at ``dot`` gives: the item after it, and completions if the rest is nullable.
    0 or a status.

    If the rule ends there, the item itself is left out: nothing can reference it any more.
    """
    if i64(h, layout.DOT_SYMBOL)[dot + 1] != layout.END_OF_RULE and push(h, pack(dot + 1, origin)) < 0:
        return statuses.GROW
    if i64(h, layout.DOT_NULL_REST)[dot + 1]:
        items = complete(h, i64(h, layout.DOT_LEFT)[dot], origin)
        if items < 0:
            return items
        return push_items(h, items)
    return 0


@kernel
def make_row(h, start):
    """Return the number of the row with the kernel items ``STACK[start:top]``, which are popped; or a status. Rows count from
    1.

    ``MAX_ROW_ITEMS`` is checked before duplicates are dropped, since an ambiguous grammar costs the work of collecting them.
    """
    head = header(h)
    if head[layout.STACK_TOP] - start > head[layout.MAX_ROW_ITEMS]:
        return statuses.LIMIT_ROW
    items = intern_set(h, layout.K_ITEMS, start)
    return items if items < 0 else row_of(h, items)


@kernel
def row_of(h, items):
    """Return the number of the row with the kernel items ``items`` (``K_ITEMS``), making the row if it is new; or a status.

    The row's parts: the nonterminals waited for (:func:`_push_waited`); the origin, which maps each of them to the items that
    moving over it gives, completions included (:func:`_push_entries`); the start states of its lexemes. The text may end if an
    item waits for END.

    The number goes into the value's ``V_AUX``. Nothing is written before every part is computed, so a call that ran out of room
    or needs rules starts the row over. All rules that it needs are asked for at once.
    """
    number = aux_of(h, items)
    if number > 0:
        return number
    head = header(h)
    base = head[layout.STACK_TOP]
    accepts = _push_waited(h, items)
    if accepts < 0:
        return accepts
    # sorting brings the items that wait for one nonterminal together
    entries = base + sort_stack(h, base, head[layout.STACK_TOP] - base)
    n_waited = _push_entries(h, items, base, entries)
    if n_waited < 0:
        return n_waited
    origin = intern(h, layout.K_ORIGIN, entries, n_waited)
    if origin < 0:
        return origin
    for w in range(n_waited):
        i64(h, layout.STACK)[base + w] = i64(h, layout.STACK)[entries + w] >> 32
    head[layout.STACK_TOP] = base + n_waited
    status = need_rules(h, base, base + n_waited)  # all at once, since each request starts this row over
    if status < 0:
        return status
    first_state = _start_state(h, items, base, n_waited, parser_layout.R_START)
    if first_state < 0:
        return first_state
    longest_state = _start_state(h, items, base, n_waited, parser_layout.R_LONGEST)
    if longest_state < 0:
        return longest_state
    head[layout.STACK_TOP] = base
    number = head[layout.N_ROWS]
    if not has_room(h, layout.ROWS, (number + 1) * parser_layout.ROW_WORDS):
        return statuses.GROW
    records = i64(h, layout.ROWS)
    record = number * parser_layout.ROW_WORDS
    records[record + parser_layout.R_ITEMS] = items
    records[record + parser_layout.R_ORIGIN] = origin
    records[record + parser_layout.R_START] = first_state
    records[record + parser_layout.R_LONGEST] = longest_state
    records[record + parser_layout.R_ACCEPTS] = accepts
    # last of all: a row that has a number is complete
    set_aux(h, items, number)
    head[layout.N_ROWS] = number + 1
    return number


@kernel
def _push_waited(h, items):
    """Push ``nonterminal << 32 | index of an item`` for all nonterminals that items wait for, also behind nullable ones.

    Returns 1 if an item waits for the end of the text, else 0; or ``GROW``.
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    end = -2 - header(h)[layout.END_SYMBOL]
    accepts = np.int64(0)
    for i in range(length_of(h, items)):
        dot = word_of(h, items, i) >> 32
        while symbols[dot] >= 0:
            if push(h, pack(symbols[dot], i)) < 0:
                return np.int64(statuses.GROW)
            if not nullable[symbols[dot]]:
                break
            dot += 1
        if symbols[dot] == end:
            accepts = np.int64(1)
    return accepts


@kernel
def _push_entries(h, items, pairs, entries):
    """Write the origin's entries to ``STACK[entries:]``; return how many, or a status.

    An entry is ``nonterminal << 32 | K_ITEMS value of the items that moving over it gives``, for each nonterminal in
    ``STACK[pairs:entries]``, where :func:`_push_waited` has put them. The room is reserved first, above the pairs, so that both
    lists survive the calls in between.
    """
    head = header(h)
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    if not has_room(h, layout.STACK, 2 * entries - pairs):
        return np.int64(statuses.GROW)
    head[layout.STACK_TOP] = 2 * entries - pairs
    count = np.int64(0)
    pair = pairs
    while pair < entries:
        waited = i64(h, layout.STACK)[pair] >> 32
        top = head[layout.STACK_TOP]
        if not spend(h, 8):
            return np.int64(statuses.LIMIT_WORK)
        while pair < entries and i64(h, layout.STACK)[pair] >> 32 == waited:
            item = word_of(h, items, i64(h, layout.STACK)[pair] & layout.LOW_32)
            dot = item >> 32
            while symbols[dot] >= 0:
                if symbols[dot] == waited:
                    status = _push_after(h, dot, item & layout.LOW_32)
                    if status < 0:
                        return np.int64(status)
                if not nullable[symbols[dot]]:
                    break
                dot += 1
            pair += 1
        if head[layout.STACK_TOP] - top > head[layout.MAX_ROW_ITEMS]:
            return np.int64(statuses.LIMIT_ROW)
        gives = intern_set(h, layout.K_ITEMS, top)
        if gives < 0:
            return np.int64(gives)
        i64(h, layout.STACK)[entries + count] = pack(waited, gives)
        count += 1
    return count


@kernel
def _start_state(h, items, waited, n_waited, field):
    """Return the lexer state in which the EXACT lexemes (``field`` is ``R_START``) or the LONGEST and LAZY ones (``R_LONGEST``)
    of a row start; 0: none; or a status.

    These lexemes are those after a dot of the items, past nullable symbols, and the first lexemes of the nonterminals
    ``STACK[waited:waited + n_waited]``. LONGEST lexemes compete with their skips, which therefore start with them, except in
    the first row of a text. Most rows wait for a single nonterminal: then the state is memoised by that (``M_START``), and such
    rows share it without collecting the lexemes again.
    """
    head = header(h)
    end_symbol = head[layout.END_SYMBOL]
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    base = head[layout.STACK_TOP]
    for i in range(length_of(h, items)):
        dot = past_nullable(symbols, nullable, word_of(h, items, i) >> 32)
        if symbols[dot] < layout.END_OF_RULE and -2 - symbols[dot] != end_symbol and push(h, -2 - symbols[dot]) < 0:
            return statuses.GROW
    marked = has_skip_items(h, items)
    only = np.int64(-1)
    # the items have no lexemes of their own: the nonterminal alone decides
    if n_waited == 1 and head[layout.STACK_TOP] == base and not marked:
        only = i64(h, layout.STACK)[waited]
        known = memo_get(h, layout.M_START, only, field)
        if known >= 0:
            return known
    for w in range(n_waited):
        nonterminal = i64(h, layout.STACK)[waited + w]
        first = first_lexemes(h, nonterminal)
        if first < 0:
            return first
        if not spend(h, 4 + length_of(h, first)):
            return statuses.LIMIT_WORK
        # K_FIRST is sorted by lexeme, so duplicates are neighbours
        previous = np.int64(-1)
        for i in range(length_of(h, first)):
            lexeme = word_of(h, first, i) >> 32
            if lexeme != previous and push(h, lexeme) < 0:
                return statuses.GROW
            previous = lexeme
    count = sort_stack(h, base, head[layout.STACK_TOP] - base)
    if marked:
        count = only_after_skips(h, items, base, count)
    head[layout.STACK_TOP] = base + count
    # only row 1 has dot 0: before the text begins, nothing is skipped unless a rule says so
    first_row = word_of(h, items, 0) >> 32 == 0
    if field == parser_layout.R_LONGEST and not first_row:
        for i in range(base, base + count):
            skip = skip_of(h, i64(h, layout.STACK)[i])
            if skip >= 0 and push(h, skip) < 0:
                return statuses.GROW
        count = sort_stack(h, base, head[layout.STACK_TOP] - base)
    words = i64(h, layout.STACK)
    kept = 0
    for i in range(base, base + count):
        if (ending_of(h, words[i]) == layout.EXACT) == (field == parser_layout.R_START):
            words[base + kept] = pack(words[i], expression_of(h, words[i]))
            kept += 1
    head[layout.STACK_TOP] = base + kept
    state = take_state(h, base)
    # in row 1 no skip starts, so its state is not that of other rows which wait for the same nonterminal
    if state >= 0 and only >= 0 and not first_row:
        return memo_put(h, layout.M_START, only, field, state)
    return state


@kernel
def _after_skip(h, row, accepted):
    """Return the row after the skips of a ``K_ACCEPTED`` value: a number or a status.

    It is the same row, unless some lexeme that may start in it does not allow these skips before it. Then it is the row's items
    plus skip items (:mod:`cdplugin.kernels.parser.skips`), in which only the lexemes that allow them start.
    """
    if not others_start(h, exact_start_of(h, row), accepted) and not others_start(h, longest_start_of(h, row), accepted):
        return row
    head = header(h)
    base = head[layout.STACK_TOP]
    if push_items(h, items_of(h, row)) < 0:
        return statuses.GROW
    # after two skips, only the last one decides what may follow
    drop_skip_items(h, base)
    if push_skip_items(h, accepted) < 0:
        return statuses.GROW
    return make_row(h, base)


@kernel
def advance(h, row, accepted):
    """Return the row after scanning every lexeme of ``accepted`` (a ``K_ACCEPTED`` value) from ``row``: a number or a status.

    The moves over each lexeme are collected (:func:`_push_moves`), then made (:func:`_push_after`); the items that they give
    are the row. If one of the lexemes is a skip, nothing is scanned. Memoised by (row, accepted). Work: proportional to the
    items and to the entries of the row's origin.
    """
    known = memo_get(h, layout.M_ADVANCE, row, accepted)
    if known >= 0:
        return known
    head = header(h)
    head[layout.C_ADVANCES] += 1
    base = head[layout.STACK_TOP]
    items = items_of(h, row)
    origin = origin_of(h, row)
    asked = np.int64(0)  # 1 + the stack index of the first pair that the owner has to answer (scan_tracked), 0: none
    for a in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, a)
        if not spend(h, 4 + 2 * length_of(h, items) + 8 * length_of(h, origin)):
            return statuses.LIMIT_WORK
        if is_skip(h, lexeme):
            head[layout.STACK_TOP] = base
            return memo_put(h, layout.M_ADVANCE, row, accepted, _after_skip(h, row, accepted))
        role = role_of(h, lexeme)
        if role == layout.TRACKS or role == layout.VALUE:
            asked = scan_tracked(h, items, origin, lexeme, asked)
            if asked < 0:
                return asked
            continue
        status = _push_moves(h, items, origin, lexeme)
        if status < 0:
            return status
    if asked > 0:
        head[layout.REQUEST_B] = asked - 1
        head[layout.REQUEST_A] = head[layout.STACK_TOP]
        return np.int64(statuses.NEED_REST)
    # a left corner of several nonterminals was pushed once for each of them
    moves = sort_stack(h, base, head[layout.STACK_TOP] - base)
    head[layout.STACK_TOP] = base + moves
    for i in range(base, base + moves):
        if not spend(h, 4):
            return statuses.LIMIT_WORK
        move = i64(h, layout.STACK)[i]
        # move over the lexeme, and complete what it completes
        status = _push_after(h, move >> 32, move & layout.LOW_32)
        if status < 0:
            return status
    # the moves below are the work list, not items
    after = make_row(h, base + moves)
    head[layout.STACK_TOP] = base
    return memo_put(h, layout.M_ADVANCE, row, accepted, after)


@kernel
def _push_moves(h, items, origin, lexeme):
    """Push the items of a row whose next symbol is ``lexeme``, as ``dot << 32 | origin`` with the dot before it; 0 or a status.

    Kernel items are among ``items``. Predicted items are found from the first lexemes of the nonterminals waited for
    (``K_FIRST``, sorted by lexeme), not by expanding rules. Their origin is the row's own, restricted to the entries that have
    their nonterminal as a left corner.
    """
    symbols = i64(h, layout.DOT_SYMBOL)
    nullable = i64(h, layout.NULLABLE)
    lefts = i64(h, layout.DOT_LEFT)
    for i in range(length_of(h, items)):
        item = word_of(h, items, i)
        dot = past_nullable(symbols, nullable, item >> 32)
        if symbols[dot] == -2 - lexeme and push(h, pack(dot, item & layout.LOW_32)) < 0:
            return np.int64(statuses.GROW)
    for w in range(length_of(h, origin)):
        first = first_lexemes(h, word_of(h, origin, w) >> 32)
        if first < 0:
            return first
        for f in range(first_at(h, first, lexeme), length_of(h, first)):
            entry = word_of(h, first, f)
            if entry >> 32 != lexeme:
                break
            restricted = restrict(h, origin, lefts[entry & layout.LOW_32])
            if restricted < 0:
                return restricted
            if push(h, pack(entry & layout.LOW_32, restricted)) < 0:
                return np.int64(statuses.GROW)
    return np.int64(0)


@kernel
def unite_rows(h, a, b):
    """Return the row with the kernel items of rows ``a`` and ``b``, in a grammar whose lexemes do not compete; a number or a
    status.

    Two pairs with equal lexer states become one pair: what either row allows is allowed. Otherwise ``S: a S | b S |`` with a =
    "x", b = "xx" would have as many pairs as there are ways to cut the text into lexemes.
    """
    base = header(h)[layout.STACK_TOP]
    if push_items(h, items_of(h, a)) < 0 or push_items(h, items_of(h, b)) < 0:
        return statuses.GROW
    return make_row(h, base)
