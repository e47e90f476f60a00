"""The Earley parser: rows are values, and so are origins (DESIGN 4.1; `rows.py` of the sketches is the executable description).

A *row* is the set of kernel items ``(dot, origin)`` that the future can still reference; predicted items are a static
closure of the dots and completed ones are gone once completion has run, which is ZapFormat's pruning (Sun et al., ICML
2025) by construction. An *origin* is the map {S: the items that completing S gives} over the nonterminals S that a kernel
item of the predicting row waits for, restricted to those that have the item's own nonterminal as a left corner. Completing
a nonterminal at an origin is a worklist over static left recursion; where the rest of a waiting rule is nullable its own
completion is included, so right-recursive tails vanish (Leo, 1991).

Symbols after a dot: ``n >= 0`` a nonterminal, ``-1`` the end of the rule, ``-2 - t`` the lexeme ``t``. The end of the text
is the lexeme ``END_SYMBOL`` of the rule ``S' -> S END``, so acceptance is an ordinary kernel item.

Rules may come late: a nonterminal whose list of rules is ``NOT_EXPANDED`` is given its rules when it is first predicted.
Left corners are only taken over expanded nonterminals, so nothing that is memoised before can change by it.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.lexer import lexer_state
from cdplugin.kernels.parser.corners import END_OF_RULE, MANY, contains, first_at, left_corners, need_rules, restrict
from cdplugin.kernels.parser.skips import drop_marks, is_marked, only_after_marks, others_start, push_marks
from cdplugin.kernels.regex.expressions import push
from cdplugin.kernels.store.arena import (
    C_ADVANCES,
    CORNER_HEADS,
    CORNER_LISTS,
    DOT_LEFT,
    DOT_NULL_REST,
    DOT_SYMBOL,
    END_SYMBOL,
    GROW,
    GROW_TABLE,
    GROW_TO,
    K_ITEMS,
    K_ORIGIN,
    KEEPS,
    LEXEME_WORDS,
    LEXEMES,
    LIMIT_ROW,
    LIMIT_WORK,
    LOW_32,
    M_ADVANCE,
    M_COMPLETE,
    M_FIRST,
    M_REST,
    M_START,
    MARKS,
    MAX_ROW_ITEMS,
    N_ROWS,
    NEED_REST,
    NULLABLE,
    ROWS,
    STACK,
    STACK_TOP,
    STAMP,
    V_AUX,
    VALUE,
    VALUE_WORDS,
    VALUES,
    WORK_LEFT,
    X_EXPRESSION,
    X_IS_SKIP,
    X_KEPT,
    X_KIND,
    X_ROLE,
    X_SKIP,
    has_room,
    header,
    i64,
    intern,
    length_of,
    memo_get,
    memo_put,
    offset_of,
    pack,
    sort_unique,
    spend,
    word_of,
)
from cdplugin.kernels.store.arena import DATA as DATA_TABLE
from cdplugin.kernels.store.arena import EXACT as EXACT_KIND

# record of a row; R_START and R_LONGEST: the lexer states in which its EXACT, and its LONGEST and LAZY lexemes start (0: none)
R_ITEMS, R_ORIGIN, R_START, R_LONGEST, R_ACCEPTS = range(5)
ROW_WORDS = 5


@kernel
def _push_items(h, items):
    """Push all items of a ``K_ITEMS`` value."""
    head = header(h)
    count = length_of(h, items)
    top = head[STACK_TOP]
    if not has_room(h, STACK, top + count):
        return GROW
    head[WORK_LEFT] -= count
    words = i64(h, STACK)
    data = i64(h, DATA_TABLE)
    offset = offset_of(h, items)
    for i in range(count):
        words[top + i] = data[offset + i]
    head[STACK_TOP] = top + count
    return 0


@kernel
def complete(h, nonterminal, origin):
    """The kernel items that completing ``nonterminal`` at ``origin`` gives: a ``K_ITEMS`` value (maybe empty) or a status."""
    known = memo_get(h, M_COMPLETE, origin, nonterminal)
    if known >= 0:
        return known
    head = header(h)
    base = head[STACK_TOP]
    waiting = length_of(h, origin)
    # stack: the worklist of nonterminals [base, pending), then the items
    symbols = i64(h, DOT_SYMBOL)
    lefts = i64(h, DOT_LEFT)
    null_rest = i64(h, DOT_NULL_REST)
    corner_heads = i64(h, CORNER_HEADS)
    corner_lists = i64(h, CORNER_LISTS)
    head[STAMP] += 1
    stamp = head[STAMP]
    marks = i64(h, MARKS)
    marks[nonterminal] = stamp
    if push(h, nonterminal) < 0:
        return GROW
    at = base
    while at < head[STACK_TOP]:  # which nonterminals are complete
        done = i64(h, STACK)[at]
        at += 1
        entry = corner_heads[done]
        while entry >= 0:
            if not spend(h, 2):
                return LIMIT_WORK
            dot = corner_lists[2 * entry]
            entry = corner_lists[2 * entry + 1]
            left = lefts[dot]
            if null_rest[dot + 1] and marks[left] != stamp:
                inside = _is_predicted(h, origin, waiting, left)
                if inside < 0:
                    return inside
                stamp = _restamp(h, base, stamp)
                if inside:
                    marks[left] = stamp
                    if push(h, left) < 0:
                        return GROW
    end = head[STACK_TOP]
    for at in range(base, end):  # what each of them gives
        done = i64(h, STACK)[at]
        i = first_at(h, origin, done)
        if i < waiting:
            waits = word_of(h, origin, i)
            if waits >> 32 == done and _push_items(h, waits & LOW_32) < 0:
                return GROW
        entry = corner_heads[done]
        while entry >= 0:
            if not spend(h, 2):
                return LIMIT_WORK
            dot = corner_lists[2 * entry]
            entry = corner_lists[2 * entry + 1]
            if symbols[dot + 1] == END_OF_RULE:
                continue
            left = lefts[dot]
            inside = _is_predicted(h, origin, waiting, left)
            if inside < 0:
                return inside
            if inside:
                restricted = restrict(h, origin, left)
                if restricted < 0 or push(h, pack(dot + 1, restricted)) < 0:
                    return GROW
    count = sort_unique(i64(h, STACK), end, head[STACK_TOP] - end)
    items = intern(h, K_ITEMS, end, count)
    head[STACK_TOP] = base
    if items < 0:
        return items
    return memo_put(h, M_COMPLETE, origin, nonterminal, items)


@kernel
def _restamp(h, base, stamp):
    """Computing left corners takes stamps of its own: if it did, mark the worklist again under a fresh one."""
    head = header(h)
    if head[STAMP] == stamp:
        return stamp
    head[STAMP] += 1
    head[WORK_LEFT] -= head[STACK_TOP] - base
    marks = i64(h, MARKS)
    words = i64(h, STACK)
    for i in range(base, head[STACK_TOP]):
        marks[words[i]] = head[STAMP]
    return head[STAMP]


@kernel
def _is_predicted(h, origin, waiting, nonterminal):
    """1 if some entry of ``origin`` has ``nonterminal`` as a left corner, else 0; or a status."""
    if waiting >= MANY:
        restricted = restrict(h, origin, nonterminal)
        return restricted if restricted < 0 else np.int64(length_of(h, restricted) > 0)
    header(h)[WORK_LEFT] -= 4 * waiting
    for i in range(waiting):
        corners = left_corners(h, word_of(h, origin, i) >> 32)
        if corners < 0:
            return corners
        if contains(h, corners, nonterminal):
            return 1
    return 0


@kernel
def _push_after(h, dot, origin):
    """Push what moving over the symbol at ``dot`` gives: the item after it, and completions if the rest is nullable."""
    if i64(h, DOT_SYMBOL)[dot + 1] != END_OF_RULE and push(h, pack(dot + 1, origin)) < 0:
        return GROW
    if i64(h, DOT_NULL_REST)[dot + 1]:
        items = complete(h, i64(h, DOT_LEFT)[dot], origin)
        if items < 0:
            return items
        return _push_items(h, items)
    return 0


@kernel
def make_row(h, start, count):
    """Number of the row whose kernel items are ``STACK[start:start + count]`` (sorted here); or a status. Numbers start at
    1.
    """
    head = header(h)
    if count > head[MAX_ROW_ITEMS]:  # before repeated ones go: this is the work of an ambiguous grammar
        return LIMIT_ROW
    head[WORK_LEFT] -= 2 * count
    count = sort_unique(i64(h, STACK), start, count)
    items = intern(h, K_ITEMS, start, count)
    if items < 0:
        return items
    return row_of(h, items)


@kernel
def row_of(h, items):
    """Number of the row with these kernel items (a ``K_ITEMS`` value), built now if it is new; or a status."""
    number = i64(h, VALUES)[items * VALUE_WORDS + V_AUX]
    if number > 0:
        return number
    head = header(h)
    base = head[STACK_TOP]
    symbols = i64(h, DOT_SYMBOL)
    nullable = i64(h, NULLABLE)
    count = length_of(h, items)
    accepts = 0
    # 1. the nonterminals waited for, each with the items that wait for it
    for i in range(count):
        dot = word_of(h, items, i) >> 32
        while symbols[dot] >= 0:
            if push(h, pack(symbols[dot], i)) < 0:
                return GROW
            if not nullable[symbols[dot]]:
                break
            dot += 1
        if symbols[dot] == -2 - head[END_SYMBOL]:
            accepts = 1
    n_pairs = sort_unique(i64(h, STACK), base, head[STACK_TOP] - base)
    # 2. the origin of what this row predicts: one entry for each nonterminal waited for
    entries = base + n_pairs
    if not has_room(h, STACK, entries + n_pairs):
        return GROW
    head[STACK_TOP] = entries + n_pairs
    n_waited = 0
    pair = base
    while pair < entries:
        waited = i64(h, STACK)[pair] >> 32
        top = head[STACK_TOP]
        if not spend(h, 8):
            return LIMIT_WORK
        while pair < entries and i64(h, STACK)[pair] >> 32 == waited:
            item = word_of(h, items, i64(h, STACK)[pair] & LOW_32)
            dot = item >> 32
            while symbols[dot] >= 0:
                if symbols[dot] == waited:
                    status = _push_after(h, dot, item & LOW_32)
                    if status < 0:
                        return status
                if not nullable[symbols[dot]]:
                    break
                dot += 1
            pair += 1
        if head[STACK_TOP] - top > head[MAX_ROW_ITEMS]:
            return LIMIT_ROW
        head[WORK_LEFT] -= 2 * (head[STACK_TOP] - top)
        given = sort_unique(i64(h, STACK), top, head[STACK_TOP] - top)
        gives = intern(h, K_ITEMS, top, given)
        if gives < 0:
            return gives
        i64(h, STACK)[entries + n_waited] = pack(waited, gives)
        n_waited += 1
        head[STACK_TOP] = top
    origin = intern(h, K_ORIGIN, entries, n_waited)
    if origin < 0:
        return origin
    for w in range(n_waited):
        i64(h, STACK)[base + w] = i64(h, STACK)[entries + w] >> 32
    head[STACK_TOP] = base + n_waited
    status = need_rules(h, base, base + n_waited)  # of all at once: each request for rules begins this row anew
    if status < 0:
        return status
    # 3. the lexemes that may come next
    first_state = _start_state(h, items, base, n_waited, R_START)
    if first_state < 0:
        return first_state
    longest_state = _start_state(h, items, base, n_waited, R_LONGEST)
    if longest_state < 0:
        return longest_state
    head[STACK_TOP] = base
    number = head[N_ROWS]
    if not has_room(h, ROWS, (number + 1) * ROW_WORDS):
        return GROW
    records = i64(h, ROWS)
    record = number * ROW_WORDS
    records[record + R_ITEMS] = items
    records[record + R_ORIGIN] = origin
    records[record + R_START] = first_state
    records[record + R_LONGEST] = longest_state
    records[record + R_ACCEPTS] = accepts
    i64(h, VALUES)[items * VALUE_WORDS + V_AUX] = number
    head[N_ROWS] = number + 1
    return number


@kernel
def _start_state(h, items, waited, n_waited, group):
    """The lexer state in which every lexeme of a group (``R_START`` or ``R_LONGEST``) that the row allows starts; 0 if none.

    Where LONGEST lexemes have a skip, it starts with them, but not in the first row of a text.
    """
    head = header(h)
    end_symbol = head[END_SYMBOL]
    symbols = i64(h, DOT_SYMBOL)
    nullable = i64(h, NULLABLE)
    base = head[STACK_TOP]
    for i in range(length_of(h, items)):
        dot = word_of(h, items, i) >> 32
        while symbols[dot] >= 0 and nullable[symbols[dot]]:
            dot += 1
        if symbols[dot] < END_OF_RULE and -2 - symbols[dot] != end_symbol and push(h, -2 - symbols[dot]) < 0:
            return GROW
    marked = is_marked(h, items)
    only = np.int64(-1)
    if n_waited == 1 and head[STACK_TOP] == base and not marked:
        only = i64(h, STACK)[waited]
        known = memo_get(h, M_START, only, group)
        if known >= 0:
            return known
    for w in range(n_waited):
        nonterminal = i64(h, STACK)[waited + w]
        corners = left_corners(h, nonterminal)
        if corners < 0:
            return corners
        first = memo_get(h, M_FIRST, nonterminal, 0)
        count = length_of(h, first)
        if not spend(h, 4 + count):
            return LIMIT_WORK
        if not has_room(h, STACK, head[STACK_TOP] + count):
            return GROW
        words = i64(h, STACK)
        data = i64(h, DATA_TABLE)
        offset = offset_of(h, first)
        previous = np.int64(-1)
        for i in range(count):
            lexeme = data[offset + i] >> 32
            if lexeme != previous:
                words[head[STACK_TOP]] = lexeme
                head[STACK_TOP] += 1
                previous = lexeme
    count = sort_unique(i64(h, STACK), base, head[STACK_TOP] - base)
    if marked:
        count = only_after_marks(h, items, base, count)
    head[STACK_TOP] = base + count
    lexemes = i64(h, LEXEMES)
    first_row = word_of(h, items, 0) >> 32 == 0
    if group == R_LONGEST and not first_row:
        for i in range(base, base + count):
            skip = lexemes[i64(h, STACK)[i] * LEXEME_WORDS + X_SKIP]
            if skip >= 0 and push(h, skip) < 0:
                return GROW
        count = sort_unique(i64(h, STACK), base, head[STACK_TOP] - base)
    words = i64(h, STACK)
    kept = 0
    for i in range(base, base + count):
        record = words[i] * LEXEME_WORDS
        if (lexemes[record + X_KIND] == EXACT_KIND) == (group == R_START):
            words[base + kept] = pack(words[i], lexemes[record + X_EXPRESSION])
            kept += 1
    head[STACK_TOP] = base + kept
    state = lexer_state(h, base, kept)
    head[STACK_TOP] = base
    if state >= 0 and only >= 0 and not first_row:
        return memo_put(h, M_START, only, group, state)
    return state


@kernel
def _after_skip(h, row, accepted):
    """The row after what the skips of a ``K_ACCEPTED`` value matched: a number or a status."""
    record = row * ROW_WORDS
    records = i64(h, ROWS)
    if not others_start(h, records[record + R_START], accepted) and not others_start(h, records[record + R_LONGEST], accepted):
        return row
    head = header(h)
    base = head[STACK_TOP]
    if _push_items(h, records[record + R_ITEMS]) < 0:
        return GROW
    drop_marks(h, base)
    if push_marks(h, accepted) < 0:
        return GROW
    after = make_row(h, base, head[STACK_TOP] - base)
    head[STACK_TOP] = base
    return after


@kernel
def advance(h, row, accepted):
    """The row after scanning, from ``row``, every lexeme of the set ``accepted`` (a ``K_ACCEPTED`` value): a number or a
    status. If one of them is a skip, nothing is scanned.
    """
    known = memo_get(h, M_ADVANCE, row, accepted)
    if known >= 0:
        return known
    head = header(h)
    head[C_ADVANCES] += 1
    base = head[STACK_TOP]
    symbols = i64(h, DOT_SYMBOL)
    nullable = i64(h, NULLABLE)
    lefts = i64(h, DOT_LEFT)
    record = row * ROW_WORDS
    items = i64(h, ROWS)[record + R_ITEMS]
    origin = i64(h, ROWS)[record + R_ORIGIN]
    for a in range(length_of(h, accepted)):
        lexeme = word_of(h, accepted, a)
        if not spend(h, 4 + 2 * length_of(h, items) + 8 * length_of(h, origin)):
            return LIMIT_WORK
        if i64(h, LEXEMES)[lexeme * LEXEME_WORDS + X_IS_SKIP]:
            head[STACK_TOP] = base
            same = _after_skip(h, row, accepted)
            return same if same < 0 else memo_put(h, M_ADVANCE, row, accepted, same)
        role = i64(h, LEXEMES)[lexeme * LEXEME_WORDS + X_ROLE]
        if role == KEEPS or role == VALUE:
            status = _scan_kept(h, items, origin, lexeme)
            if status < 0:
                return status
            continue
        for i in range(length_of(h, items)):
            item = word_of(h, items, i)
            dot = item >> 32
            while symbols[dot] >= 0 and nullable[symbols[dot]]:
                dot += 1
            if symbols[dot] == -2 - lexeme and push(h, pack(dot, item & LOW_32)) < 0:
                return GROW
        for w in range(length_of(h, origin)):
            nonterminal = word_of(h, origin, w) >> 32
            corners = left_corners(h, nonterminal)
            if corners < 0:
                return corners
            first = memo_get(h, M_FIRST, nonterminal, 0)
            for f in range(first_at(h, first, lexeme), length_of(h, first)):
                entry = word_of(h, first, f)
                if entry >> 32 != lexeme:
                    break
                restricted = restrict(h, origin, lefts[entry & LOW_32])
                if restricted < 0:
                    return restricted
                if push(h, pack(entry & LOW_32, restricted)) < 0:
                    return GROW
    # what several nonterminals have as a left corner was pushed for each of them
    head[WORK_LEFT] -= 2 * (head[STACK_TOP] - base)
    moves = sort_unique(i64(h, STACK), base, head[STACK_TOP] - base)
    head[STACK_TOP] = base + moves
    for i in range(base, base + moves):
        if not spend(h, 4):
            return LIMIT_WORK
        move = i64(h, STACK)[i]
        status = _push_after(h, move >> 32, move & LOW_32)
        if status < 0:
            return status
    after = make_row(h, base + moves, head[STACK_TOP] - base - moves)
    head[STACK_TOP] = base
    if after < 0:
        return after
    return memo_put(h, M_ADVANCE, row, accepted, after)


@kernel
def _scan_kept(h, items, origin, ended):
    """Push the dots, with their origins, at which a lexeme that keeps its text is scanned: ``ended`` is its value, or its
    number, for any value; 0 or a status.
    """
    symbols = i64(h, DOT_SYMBOL)
    nullable = i64(h, NULLABLE)
    for i in range(length_of(h, items)):
        item = word_of(h, items, i)
        dot = item >> 32
        while symbols[dot] >= 0 and nullable[symbols[dot]]:
            dot += 1
        dot = _kept_dot(h, dot, -2 - symbols[dot], ended)
        if dot < 0:
            return dot
        if dot and push(h, pack(dot, item & LOW_32)) < 0:
            return GROW
    for w in range(length_of(h, origin)):
        nonterminal = word_of(h, origin, w) >> 32
        corners = left_corners(h, nonterminal)
        if corners < 0:
            return corners
        first = memo_get(h, M_FIRST, nonterminal, 0)
        for f in range(length_of(h, first)):
            if not spend(h, 4):
                return LIMIT_WORK
            entry = word_of(h, first, f)
            left = i64(h, DOT_LEFT)[entry & LOW_32]
            dot = _kept_dot(h, entry & LOW_32, entry >> 32, ended)
            if dot < 0:
                return dot
            if dot:
                restricted = restrict(h, origin, left)
                if restricted < 0:
                    return restricted
                if push(h, pack(dot, restricted)) < 0:
                    return GROW
    return np.int64(0)


@kernel
def _kept_dot(h, dot, lexeme, ended):
    """Where the rule goes on in which ``lexeme`` stands at ``dot``: a dot before the lexeme, 0 if it is another one, or has
    that value excluded; or a status. ``ended``: a value, or the number of the lexeme, for any value.
    """
    if lexeme < 0 or lexeme == header(h)[END_SYMBOL]:
        return np.int64(0)
    lexemes = i64(h, LEXEMES)
    if lexemes[lexeme * LEXEME_WORDS + X_ROLE] != KEEPS:
        return np.int64(0)
    if lexemes[lexeme * LEXEME_WORDS + X_KEPT] != lexemes[ended * LEXEME_WORDS + X_KEPT]:
        return np.int64(0)
    if lexemes[ended * LEXEME_WORDS + X_ROLE] != VALUE:
        return dot
    known = memo_get(h, M_REST, lexeme, ended)
    if known < 0:
        header(h)[GROW_TO] = lexeme
        header(h)[GROW_TABLE] = ended
        return np.int64(NEED_REST)
    return known


@kernel
def unite_rows(h, a, b):
    """The row that holds the kernel items of rows ``a`` and ``b``; a number or a status.

    Marks go where one of them has none: what either allows is allowed.
    """
    head = header(h)
    base = head[STACK_TOP]
    records = i64(h, ROWS)
    items_a = records[a * ROW_WORDS + R_ITEMS]
    items_b = records[b * ROW_WORDS + R_ITEMS]
    if _push_items(h, items_a) < 0 or _push_items(h, items_b) < 0:
        return GROW
    if is_marked(h, items_a) != is_marked(h, items_b):
        drop_marks(h, base)
    row = make_row(h, base, head[STACK_TOP] - base)
    head[STACK_TOP] = base
    return row
