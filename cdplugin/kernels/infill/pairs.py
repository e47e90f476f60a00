"""Questions about a pair (column, lexer state) that come up while a mask is made, with memo table ``CHECKED``.

- Which column comes after a set of lexemes (:func:`scanned`)?
- Can the text be completed if the token ends here (:func:`completes`)? At a boundary: does an item lead out from a node right
  after the hole? Inside a lexeme: at which nodes may it end (:func:`cdplugin.kernels.infill.reach.ends_from`), and does an item
  that waits for it lead out from one of these?
- If lexemes do not compete: can the text be completed if the token's rest, of some class, begins here
  (:func:`class_completes`)?

The text right of the hole is fixed while the hole fills, so an answer holds for all tokens that lead to the pair.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.columns import fits_at, items_of, scan
from cdplugin.kernels.infill.profiles import accepted_alone
from cdplugin.kernels.infill.reach import ends_from
from cdplugin.kernels.infill.ways import leads_out, some_leads_out
from cdplugin.kernels.infill.workspace import charge, end_node, has_bit, number_of, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.lexer.fields import is_skip
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import i64

FRAME_WORDS = 3  # column, class, and which entry of the class's record comes next
WAITS = 2  # besides 1 and 0: another answer is needed first
BOUNDARY = 0  # in place of a lexer state: a lexeme ended with the last byte, and no other has begun


@kernel
def scanned(h, w, column, accepted):
    """:func:`scan`, memoised by (column, accepted set): the column after the set, 0, or a status."""
    key = (np.int64(1) << 62) | (column << 31) | accepted
    known = _known(w, key)
    if known:
        return known - 1 if known > 0 else known
    after = scan(h, w, column, accepted)
    return after if after < 0 else _remember(w, key, after)


@kernel
def class_completes(h, w, column, suffix_class):
    """Whether the text can be completed if a token's rest of some class begins at a column: 1, 0 or a status. Memoised.

    The rest may end inside lexemes, or with one, or a lexeme may end inside it: then a rest of a lower class begins in the
    column after that lexeme. Lexemes that may end anywhere (``[a-z]+`` next to itself) split a rest of n bytes in ``2**n``
    ways, but into few pairs (column, class), so each pair is decided once. ``OUTCOMES`` is the stack of pairs under way, the
    lowest class on top.
    """
    root = _class_key(column, suffix_class)
    known = _known(w, root)
    if known:
        return known - 1 if known > 0 else known
    if not room(w, ws.OUTCOMES, FRAME_WORDS):
        return np.int64(statuses.W_GROW)
    frames = tab(w, ws.OUTCOMES)
    frames[0], frames[1], frames[2] = column, suffix_class, np.int64(0)
    answer = np.int64(0)
    top = np.int64(FRAME_WORDS)
    while top > 0:
        at = top - FRAME_WORDS
        answer = _class_goes_on(h, w, at)
        if answer < 0:
            return answer
        if answer == WAITS:
            top += FRAME_WORDS
            continue
        frames = tab(w, ws.OUTCOMES)
        answer = _remember(w, _class_key(frames[at], frames[at + 1]), answer)
        if answer < 0:
            return answer
        top = at
    return answer


@kernel
def _class_key(column, suffix_class):
    """The key in the memo table of a class at a column."""
    return (column << 32) | (np.int64(1) << 31) | suffix_class


@kernel
def _class_goes_on(h, w, at):
    """Continue with the pair of the frame at ``at`` in ``OUTCOMES``: whether the text can be completed, 1 or 0; or a status.

    :data:`WAITS` if another pair has to be decided first; that pair was pushed.
    """
    frames = tab(w, ws.OUTCOMES)
    column, suffix_class = frames[at], frames[at + 1]
    record = tab(w, ws.CLASS_RECORD)[suffix_class]
    pool = tab(w, ws.POOL)
    n_states = pool[record + ws.E_STATES]
    n_ends = pool[record + ws.E_ENDS]
    n_all = n_states + n_ends + pool[record + ws.E_CROSSINGS]
    if not charge(w, 8 + 2 * n_all):
        return np.int64(statuses.W_GROW)
    for i in range(frames[at + 2], n_all):
        what = tab(w, ws.POOL)[record + ws.E_FIRST + i]
        if i < n_states:
            answer = completes(h, w, column, what)
        else:
            ended = what if i < n_states + n_ends else accepted_alone(h, what >> 32)
            after = ended if ended < 0 else scanned(h, w, column, ended)
            if after <= 0:
                answer = after
            elif i < n_states + n_ends:
                answer = completes(h, w, after, np.int64(BOUNDARY))
            else:
                known = _known(w, _class_key(after, what & 0xFFFFFFFF))
                answer = known - 1 if known > 0 else known
                if known == 0:
                    if not room(w, ws.OUTCOMES, at + 2 * FRAME_WORDS):
                        return np.int64(statuses.W_GROW)
                    frames = tab(w, ws.OUTCOMES)
                    frames[at + 2] = i
                    frames[at + 3], frames[at + 4], frames[at + 5] = after, what & 0xFFFFFFFF, np.int64(0)
                    return np.int64(WAITS)
        if answer != 0:
            return answer
    return np.int64(0)


@kernel
def completes_inside(h, w, column, state, stamp):
    """:func:`completes` for the column of one walk, memoised by lexer state (``INSIDE_OF``): an index, not a hash."""
    if not room(w, ws.INSIDE_OF, state + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.INSIDE_OF)[state]
    if known >> 1 == stamp:
        return known & 1
    answer = completes(h, w, column, state)
    if answer >= 0:
        tab(w, ws.INSIDE_OF)[state] = (stamp << 1) | answer
    return answer


@kernel
def completes(h, w, column, state):
    """Whether the text can be completed if a token ends at a column inside the lexemes of a state: 1, 0 or a status. Memoised.

    ``state``: ``BOUNDARY`` at a lexeme boundary.
    """
    key = (column << 32) | state
    known = _known(w, key)
    if known:
        return known - 1 if known > 0 else known
    head = whead(w)
    head[ws.W_C_CHECKS] += 1
    if not charge(w, 16):
        return np.int64(statuses.W_GROW)
    after = head[ws.W_HOLE] + 1
    if state == BOUNDARY:
        answer = np.int64(0)
        for node in range(tab(w, ws.NODE_BEFORE)[after], tab(w, ws.NODE_LAST)[after]):
            charge(w, 4)
            if fits_at(w, column, node) and _goes_on(h, w, column, np.int64(node)):
                answer = np.int64(1)
                break
        if answer == 0 and tab(w, ws.ACCEPTS)[after] and _goes_on(h, w, column, end_node(w)):
            answer = np.int64(1)
    else:
        answer = _goes_on_inside(h, w, column, state)
        if answer < 0:
            return answer
    return _remember(w, key, answer)


@kernel
def _goes_on(h, w, column, node):
    """Whether the text can be completed from a column at a node right of the hole: whether a kernel item leads out from the
    node.
    """
    record = column * ws.COLUMN_WORDS
    start = tab(w, ws.COLUMNS)[record + ws.COL_START]
    lefts = i64(h, layout.DOT_LEFT)
    n_nonterminals = whead(w)[ws.W_N_SYMBOLS_NT]
    for i in range(start, start + tab(w, ws.COLUMNS)[record + ws.COL_COUNT]):
        item = tab(w, ws.COLUMN_ITEMS)[i]
        dot = item >> 32
        if leads_out(h, w, node, dot, tab(w, ws.OUT)[(item & 0xFFFFFFFF) * n_nonterminals + lefts[dot]]):
            return True
    return False


@kernel
def _goes_on_inside(h, w, column, state):
    """Whether the text can be completed if a token ended inside lexemes: 1, 0 or a status.

    For each lexeme the nodes at which it may end (:func:`ends_from`), and whether an item that waits for it leads out from one
    of them. Skips are handled apart, since no item waits for them.
    """
    head = whead(w)
    rows = ends_from(h, w, state)
    if rows < 0:
        return rows
    symbols = i64(h, layout.DOT_SYMBOL)
    lefts = i64(h, layout.DOT_LEFT)
    first, end = items_of(w, column)
    charge(w, head[ws.W_N_LEXEMES])
    for lexeme in range(head[ws.W_N_LEXEMES]):
        row = tab(w, ws.ENDS_ROWS)[rows + lexeme]
        if row == 0:
            continue
        if not charge(w, end - first):
            return np.int64(statuses.W_GROW)
        if is_skip(h, lexeme):
            if _goes_on_after_skip(h, w, column, lexeme, row):
                return np.int64(1)
            continue
        for j in range(first, end):
            item = tab(w, ws.COLUMN_ITEMS)[j]
            dot = item >> 32
            if symbols[dot] != -2 - lexeme:
                continue
            out = tab(w, ws.OUT)[(item & 0xFFFFFFFF) * head[ws.W_N_SYMBOLS_NT] + lefts[dot]]
            answer = some_leads_out(h, w, dot + 1, out, row)
            if answer != 0:
                return answer
    return np.int64(0)


@kernel
def _goes_on_after_skip(h, w, column, skip, ends):
    """Whether the text can be completed if a skip that began at a column ends at some node of the row ``ends``.

    The items that wait in the column for a lexeme before which the skip may stand wait at its end as well, provided that no
    more lexemes compete there for the column than the lattice let compete at the node.
    """
    head = whead(w)
    symbols = i64(h, layout.DOT_SYMBOL)
    lefts = i64(h, layout.DOT_LEFT)
    first, end = items_of(w, column)
    for i in range(head[ws.W_WIDTH]):
        word = tab(w, ws.BITS)[ends + i]
        while word:
            node = np.int64(64 * i + low_bit(word))
            word &= word - 1
            charge(w, 2 + end - first)
            if not _competes_after_skip(w, column, skip, node):
                continue
            for j in range(first, end):
                item = tab(w, ws.COLUMN_ITEMS)[j]
                dot = item >> 32
                lexeme = -2 - symbols[dot]
                if lexeme < 0 or not has_bit(tab(w, ws.SKIPPED), skip * head[ws.W_SET], lexeme):
                    continue
                if leads_out(h, w, node, dot, tab(w, ws.OUT)[(item & 0xFFFFFFFF) * head[ws.W_N_SYMBOLS_NT] + lefts[dot]]):
                    return True
    return False


@kernel
def _competes_after_skip(w, column, skip, node):
    """Whether the lexemes that compete after a skip in a column compete at a node of the lattice."""
    head = whead(w)
    if not head[ws.W_SPLIT] or node == end_node(w) or tab(w, ws.NODE_OPEN)[node]:
        return True
    words = head[ws.W_SET]
    first = tab(w, ws.COLUMNS)[column * ws.COLUMN_WORDS + ws.COL_TARGET]
    for i in range(words):
        competing = tab(w, ws.COLUMN_ITEMS)[first + i] & tab(w, ws.SKIPPED)[skip * words + i]
        if competing & ~tab(w, ws.ALLOWED)[node * words + i]:
            return False
    return True


@kernel
def _known(w, key):
    """1 + the memoised answer of a key, or 0; or ``W_GROW``.

    Keys: ``column << 32 | state``; with bit 31 set, a class in place of the state; with bit 62 set, ``column << 31 | accepted
    set``.
    """
    number = number_of(w, ws.CHECKED_INDEX, ws.CHECKED, ws.ANSWER_WORDS, ws.W_N_CHECKED, key)
    return number if number < 0 else tab(w, ws.CHECKED)[ws.ANSWER_WORDS * number + 1]


@kernel
def _remember(w, key, answer):
    """Memoise an answer; the answer, or ``W_GROW``."""
    number = number_of(w, ws.CHECKED_INDEX, ws.CHECKED, ws.ANSWER_WORDS, ws.W_N_CHECKED, key)
    if number < 0:
        return number
    tab(w, ws.CHECKED)[ws.ANSWER_WORDS * number + 1] = answer + 1
    return answer
