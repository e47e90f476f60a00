"""Masks for a hole: which tokens may stand at the left edge of a gap, or in a slot.

What is right of the hole stays as it is while the hole fills, so the rows of ``REST`` and ``OUT`` say whether a parser state
right after a token can be completed. The token trie is walked once for each lexer state that is alive at the hole, beside the
column of items that wait for its lexemes; inside a token lexer and parser go on as in ordinary decoding
(:mod:`cdplugin.kernels.infill.columns`). What follows a token is looked up once per (column, lexer state). Only what holds a
token in doubt is walked (:mod:`cdplugin.kernels.infill.doubt`), and where all bytes below a node lead back to its lexer state,
one answer decides all tokens there.

Three questions are asked of a pair (column, lexer state), and all three are memoised in ``CHECKED``:

- what column comes of scanning a set of lexemes (:func:`_scanned`);
- can the text be completed if the token ends here (:func:`_completes`)? At a boundary: does an item lead out from a node right
  of the hole? Inside a lexeme: at which nodes may it end (:func:`cdplugin.kernels.infill.reach.ends_from`), and does an item
  that waits for it lead out from one of these?
- where lexemes do not compete: can it be completed if a class of token rests begins here (:func:`_class_completes`)?
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.columns import fits_at, forget_columns, n_starts, scan, start_at
from cdplugin.kernels.infill.doubt import (
    allow_listed,
    begin_doubt,
    is_wide,
    look_for_doubt,
    may_begin_at_node,
    may_go_on,
)
from cdplugin.kernels.infill.first_columns import column_at_nodes
from cdplugin.kernels.infill.profiles import add_tokens, profile_of, push_class
from cdplugin.kernels.infill.reach import ends_from, forget_reached
from cdplugin.kernels.infill.starts import start_set
from cdplugin.kernels.infill.state_sets import add_parts, end_set, fresh_stamp
from cdplugin.kernels.infill.ways import forget_ways, leads_out, some_leads_out
from cdplugin.kernels.infill.workspace import charge, cut_rows, end_node, has_bit, new_row, room, set_bit, tab, whead
from cdplugin.kernels.jit.decorators import kernel, low_bit
from cdplugin.kernels.jit.views import view_i32
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, is_skip, longest_of, rest_of, value_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.masks.walk import COPIED_BITS, loops_below
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import first_slot, header, i32, i64, length_of, mix, u8, word_of

BOUNDARY = 0  # in the place of a lexer state: a lexeme ended with the last byte, nothing has begun
PAIR_WORDS = 2  # column, lexer state


@kernel
def fill_hole(h, w, row_address):
    """Add the tokens that may stand at the hole to an int32 mask row; 0 or a status. Needs ``REST`` and ``ITEMS``.

    Two kinds of beginnings: what is under way at the hole (``SNAPSHOT``: lexer states, each with the nodes at which its
    lexemes began), those first in which most bytes change nothing, and what starts at the nodes of the hole itself. Tokens
    whose bit is set are not asked about, and bits are only ever set: a call that begins again goes on with what is left.
    """
    head = whead(w)
    out = view_i32(row_address, header(h)[layout.WORDS])
    status = _prepare(h, w)
    if status < 0:
        return status
    for wide in range(1, -1, -1):
        for i in range(head[ws.W_N_SNAPSHOT]):
            is_now = is_wide(h, tab(w, ws.SNAPSHOT)[2 * i])
            if is_now < 0:
                return is_now
            if is_now == wide:
                status = _add_mask_of_pair(h, w, i, out)
                if status < 0:
                    return status
    for node in range(tab(w, ws.NODE_BEFORE)[head[ws.W_HOLE]], tab(w, ws.NODE_LAST)[head[ws.W_HOLE]]):
        may = look_for_doubt(h, w, out)
        if may > 0:
            may = may_begin_at_node(h, w)
        if may <= 0:
            return may
        starts = new_row(w)
        if starts < 0:
            return starts
        set_bit(tab(w, ws.BITS), starts, np.int64(node))
        column = column_at_nodes(h, w, starts, np.int64(0))
        if column < 0:
            return column
        for i in range(n_starts(w, column) if column > 0 else 0):
            state = start_at(w, column, i)
            if state > 0:
                status = _add_mask(h, w, column, state, out)
                if status < 0:
                    return status
    return np.int64(0)


@kernel
def _add_mask_of_pair(h, w, i, out):
    """Add to ``out`` the tokens that pair ``i`` of ``SNAPSHOT`` can go on with; 0 or a status."""
    head = whead(w)
    state = tab(w, ws.SNAPSHOT)[2 * i]
    may = look_for_doubt(h, w, out)
    if may > 0:
        may = may_go_on(h, w, state)
    if may <= 0:
        return may
    width = head[ws.W_WIDTH]
    starts = new_row(w)
    if starts < 0:
        return starts
    bits = tab(w, ws.BITS)
    row = tab(w, ws.SNAPSHOT)[2 * i + 1]
    for j in range(width):
        bits[starts + j] = tab(w, ws.LIVE_BITS)[row + j]
    if head[ws.W_HOLE] == 0 or tab(w, ws.ELEMENTS)[head[ws.W_HOLE] - 1] != ws.GAP:
        # nothing was read since a node at the hole: that is walked by itself, with what the parser allows there
        for node in range(tab(w, ws.NODE_BEFORE)[head[ws.W_HOLE]], tab(w, ws.NODE_LAST)[head[ws.W_HOLE]]):
            set_ = start_set(h, w, np.int64(node))
            if set_ < 0:
                return set_
            for j in range(tab(w, ws.SET_HEADS)[set_], tab(w, ws.SET_HEADS)[set_ + 1]):
                if tab(w, ws.SET_STATES)[j] == state:
                    bits[starts + (node >> 6)] &= ~(np.int64(1) << (node & 63))
    some = False
    for j in range(width):
        some = some or bits[starts + j] != 0
    return _add_mask_of_starts(h, w, starts, state, out) if some else np.int64(0)


@kernel
def _add_mask_of_starts(h, w, starts, state, out):
    """Add to ``out`` the tokens that a lexer state can go on with which what began at the nodes of a row is in; 0 or a status.

    In the middle of a skip each of them is looked at by itself: what competes after the skip depends on it.
    """
    head = whead(w)
    apart = False
    if head[ws.W_SPLIT]:
        value = value_of(h, state)
        for i in range(length_of(h, value)):
            apart = apart or is_skip(h, word_of(h, value, i) >> 32) != 0
    if not apart:
        column = column_at_nodes(h, w, starts, state)
        return column if column <= 0 else _add_mask(h, w, column, state, out)
    for i in range(head[ws.W_WIDTH]):
        word = tab(w, ws.BITS)[starts + i]
        while word:
            node = np.int64(64 * i + low_bit(word))
            word &= word - 1
            one = new_row(w)
            if one < 0:
                return one
            set_bit(tab(w, ws.BITS), one, node)
            column = column_at_nodes(h, w, one, state)
            if column > 0:
                column = _add_mask(h, w, column, state, out)
            if column < 0:
                return column
    return np.int64(0)


@kernel
def _add_mask(h, w, column, state, out):
    """Add to ``out`` the tokens that the pair (column, lexer state) can go on with; 0 or a status.

    By a walk of the trie, or, where all lexemes are EXACT and every suffix has a class, by outcomes: each lexeme by itself.
    """
    if not whead(w)[ws.W_PROFILES]:
        return _walk(h, w, column, state, out)
    count = add_parts(h, w, np.int64(0), state, fresh_stamp(w))
    if count < 0:
        return count
    parts = end_set(w, count)
    if parts < 0:
        return parts
    for i in range(tab(w, ws.SET_HEADS)[parts], tab(w, ws.SET_HEADS)[parts + 1]):
        status = _add_outcomes(h, w, column, tab(w, ws.SET_STATES)[i], out)
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _add_outcomes(h, w, column, state, out):
    """:func:`_add_mask` for the state of one EXACT lexeme: each outcome of its profile is decided once, and its tokens are
    added together.

    INSIDE asks whether the lexeme can be gone on with; ENDS_WITH whether the text goes on at the boundary after it; CROSSES
    whether it does from the class of what is left, in the column after it.
    """
    profile = profile_of(h, w, state)
    if profile < 0:
        return profile
    for i in range(tab(w, ws.POOL)[profile]):
        at = profile + 1 + i * ws.OUTCOME_WORDS
        kind = tab(w, ws.POOL)[at + ws.P_KIND]
        what = tab(w, ws.POOL)[at + ws.P_WHAT]
        answer = np.int64(0)
        if kind == ws.INSIDE:
            answer = _completes(h, w, column, what)
        else:
            after = _scanned(h, w, column, what)
            if after < 0:
                return after
            if after > 0 and kind == ws.ENDS_WITH:
                answer = _completes(h, w, after, np.int64(BOUNDARY))
            elif after > 0:
                answer = _class_completes(h, w, after, tab(w, ws.POOL)[at + ws.P_CLASS])
        if answer < 0:
            return answer
        charge(w, 4)
        if answer:
            add_tokens(h, w, profile, i, out)
    return np.int64(0)


@kernel
def _scanned(h, w, column, accepted):
    """:func:`scan`, memoised by (column, accepted set): the column after it, 0, or a status."""
    key = (np.int64(1) << 62) | (column << 31) | accepted
    known = _known(w, key)
    if known != 0:
        return known - 1
    after = scan(h, w, column, accepted)
    return after if after < 0 else _remember(w, key, after)


@kernel
def _class_completes(h, w, column, token_class):
    """Whether the text can be completed where a class of rests of tokens begins at a column; 1, 0 or a status. Memoised."""
    key = (column << 32) | (np.int64(1) << 31) | token_class
    known = _known(w, key)
    if known != 0:
        return known - 1
    charge(w, 8)
    count = push_class(h, w, column, token_class, np.int64(0))
    if count < 0:
        return count
    answer = np.int64(0)
    for i in range(count):
        answer = _completes(h, w, tab(w, ws.OUTCOMES)[2 * i], tab(w, ws.OUTCOMES)[2 * i + 1])
        if answer != 0:
            break
    return answer if answer < 0 else _remember(w, key, answer)


@kernel
def _prepare(h, w):
    """Forget what was found for another hole; 0 or ``W_GROW``."""
    head = whead(w)
    cut_rows(w, ws.W_BITS_USED, ws.W_BITS_CLEAN, head[ws.W_BITS_ITEMS])
    if forget_columns(w) < 0 or forget_ways(w) < 0 or forget_reached(w) < 0 or not room(w, ws.CHECKED, 2048):
        return np.int64(statuses.W_GROW)
    checked = tab(w, ws.CHECKED)
    charge(w, checked.shape[0] >> 3)
    for i in range(checked.shape[0]):
        checked[i] = 0
    head[ws.W_N_CHECKED] = 0
    depth = header(h)[layout.MAX_DEPTH] + 2
    if not room(w, ws.WALK_AT, depth + 1):
        return np.int64(statuses.W_GROW)
    return begin_doubt(h, w)


@kernel
def _walk(h, w, column, state, out):
    """Add to ``out`` the tokens that the pair (column, lexer state) can go on with; 0 or a status.

    One walk of the trie with a list of pairs per depth: inside the lexeme, or in columns after lexemes that ended. A token is
    added if the text can be completed from one of its last pairs (:func:`_completes`, memoised by column and state). Subtrees
    without pairs, and those without a token in doubt, are skipped.

    Most nodes have the one pair that has stayed inside its lexeme since the root: that is handled without the lists'
    functions; where all bytes below lead back to its state, one answer decides the whole subtree. Tokens whose bit is set
    already are not asked about again.
    """
    if not room(w, ws.WALK, 64):
        return np.int64(statuses.W_GROW)
    some = look_for_doubt(h, w, out)
    if some <= 0:
        return some
    is_counted = whead(w)[ws.W_DECIDED] > 0
    in_doubt = tab(w, ws.IN_DOUBT)
    walk = tab(w, ws.WALK)
    at = tab(w, ws.WALK_AT)
    walk[0], walk[1] = column, state
    at[0] = 0
    at[1] = 1
    stamp = fresh_stamp(w)
    n_trie = header(h)[layout.N_NODES]
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    below = i32(h, layout.TRIE_BELOW)
    ranks = i32(h, layout.TRIE_RANK)
    node = np.int64(0)
    visited = 0
    while node < n_trie:
        visited += 1
        if visited & 255 == 0 and not charge(w, 256):
            return np.int64(statuses.W_GROW)
        if is_counted and in_doubt[ranks[node + skips[node]]] == in_doubt[ranks[node]]:
            node += skips[node]
            continue
        depth = np.int64(depths[node])
        first = at[depth - 1]
        bottom = at[depth]
        byte = np.int64(bytes_[node])
        token = tokens[node]
        # another state may have allowed the token already
        wanted = token >= 0 and (out[token >> 5] >> (token & 31)) & 1 == 0
        inside = np.int64(0)
        if bottom - first == 1 and walk[PAIR_WORDS * first] == column and walk[PAIR_WORDS * first + 1] != BOUNDARY:
            inside = transition(h, walk[PAIR_WORDS * first + 1], byte)
            if inside < 0:
                return inside
            # a lexeme ends: the pairs of both readings are listed below
            if inside & lexer_layout.ENDS_BIT:
                inside = np.int64(0)
            elif inside == 0:
                node += skips[node]
                continue
        if inside > 0:
            loops = loops_below(h, inside, skips[node]) if skips[node] > 1 else np.int64(0)
            if loops < 0:
                return loops
            if loops and below[node] & ~loops == 0:
                answer = _completes_inside(h, w, column, inside, stamp)
                if answer < 0:
                    return answer
                if answer:
                    allow_listed(h, out, ranks[node], ranks[node + skips[node]])
                    visited += (ranks[node + skips[node]] - ranks[node]) >> COPIED_BITS
                node += skips[node]
                continue
            if PAIR_WORDS * (bottom + 1) > walk.shape[0]:
                room(w, ws.WALK, PAIR_WORDS * (bottom + 1))
                return np.int64(statuses.W_GROW)
            walk[PAIR_WORDS * bottom] = column
            walk[PAIR_WORDS * bottom + 1] = inside
            at[depth + 1] = bottom + 1
            if wanted:
                answer = _completes_inside(h, w, column, inside, stamp)
                if answer < 0:
                    return answer
                if answer:
                    out[token >> 5] |= np.int32(1 << (token & 31))
            node += 1
            continue
        top = bottom
        for i in range(first, bottom):
            top = _follow(h, w, i, byte, bottom, top)
            if top < 0:
                return top
        if top == bottom:
            node += skips[node]
            continue
        at[depth + 1] = top
        if wanted:
            for i in range(bottom, top):
                answer = _completes(h, w, walk[PAIR_WORDS * i], walk[PAIR_WORDS * i + 1])
                if answer < 0:
                    return answer
                if answer:
                    out[token >> 5] |= np.int32(1 << (token & 31))
                    break
        node += 1
    whead(w)[ws.W_C_NODES] += visited
    return np.int64(0)


@kernel
def _completes_inside(h, w, column, state, stamp):
    """:func:`_completes` for the column of a walk, remembered by lexer state (``INSIDE_OF``): a look-up by index,
    without a hash.
    """
    if not room(w, ws.INSIDE_OF, state + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.INSIDE_OF)[state]
    if known >> 1 == stamp:
        return known & 1
    answer = _completes(h, w, column, state)
    if answer >= 0:
        tab(w, ws.INSIDE_OF)[state] = (stamp << 1) | answer
    return answer


@kernel
def _known(w, key):
    """1 + the answer kept under a key, or 0. ``CHECKED`` holds pairs (key, answer), probed linearly.

    Keys: ``column << 32 | state``; with bit 31, a class in the place of the state; with bit 62, ``column << 31 | accepted
    set``.
    """
    checked = tab(w, ws.CHECKED)
    size = checked.shape[0] // 2 - 1
    hash_ = mix(layout.HASH_SEED, key)
    slot = first_slot(hash_, size)
    while checked[2 * slot] != 0:
        if checked[2 * slot] == key:
            return checked[2 * slot + 1] + 1
        slot = (slot + 1) & size
    return np.int64(0)


@kernel
def _remember(w, key, answer):
    """Keep an answer; returns it, or ``W_GROW``."""
    head = whead(w)
    checked = tab(w, ws.CHECKED)
    if 4 * (head[ws.W_N_CHECKED] + 1) > checked.shape[0]:
        room(w, ws.CHECKED, 2 * checked.shape[0])
        return np.int64(statuses.W_GROW)
    size = checked.shape[0] // 2 - 1
    hash_ = mix(layout.HASH_SEED, key)
    slot = first_slot(hash_, size)
    while checked[2 * slot] != 0:
        slot = (slot + 1) & size
    checked[2 * slot] = key
    checked[2 * slot + 1] = answer
    head[ws.W_N_CHECKED] += 1
    return answer


@kernel
def _follow(h, w, entry, byte, bottom, top):
    """Append to ``WALK`` what a pair becomes by a byte; the new top, or a status.

    ``entry``: its place in ``WALK``; ``bottom``: where the pairs of this depth begin. At a boundary, and where a LONGEST
    lexeme ends before the byte, each start state of the column is stepped.
    """
    walk = tab(w, ws.WALK)
    column = walk[PAIR_WORDS * entry]
    state = walk[PAIR_WORDS * entry + 1]
    charge(w, 4)
    if state != BOUNDARY:
        after = transition(h, state, byte)
        if after < 0:
            return after
        if after != lexer_layout.BEFORE:
            return _land(h, w, column, after, bottom, top)
        column = _scanned(h, w, column, longest_of(h, state))
        if column <= 0:
            return column if column < 0 else top
    charge(w, 4 * n_starts(w, column))
    for i in range(n_starts(w, column)):
        state = start_at(w, column, i)
        if state > 0:
            after = transition(h, state, byte)
            if after < 0:
                return after
            top = _land(h, w, column, after, bottom, top)
            if top < 0:
                return top
    return top


@kernel
def _land(h, w, column, after, bottom, top):
    """Append the pairs of a transition's target; the new top, or a status."""
    if after == 0 or after == lexer_layout.BEFORE:
        return top
    if after & lexer_layout.ENDS_BIT:
        after &= lexer_layout.STATE_MASK
        ended = accepted_of(h, after)
        after = rest_of(h, after)
        following = _scanned(h, w, column, ended)
        if following < 0:
            return following
        if following > 0:
            top = _add(w, following, BOUNDARY, bottom, top)
            if top < 0:
                return top
    if after > 0:
        top = _add(w, column, after, bottom, top)
    return top


@kernel
def _add(w, column, state, bottom, top):
    """Append a pair to ``WALK`` if it is new since ``bottom``; the new top, or ``W_GROW``."""
    if not room(w, ws.WALK, PAIR_WORDS * (top + 1)):
        return np.int64(statuses.W_GROW)
    walk = tab(w, ws.WALK)
    for i in range(bottom, top):
        if walk[PAIR_WORDS * i] == column and walk[PAIR_WORDS * i + 1] == state:
            return np.int64(top)
    walk[PAIR_WORDS * top] = column
    walk[PAIR_WORDS * top + 1] = state
    return np.int64(top + 1)


@kernel
def _completes(h, w, column, state):
    """Whether the text can be completed where a token ends at a column, inside the lexemes of a state (``BOUNDARY``: at a
    lexeme boundary); memoised. 1, 0 or a status.
    """
    key = (column << 32) | state
    known = _known(w, key)
    if known != 0:
        return known - 1
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
    """Whether the text can be completed from a column at a node right of the hole: some kernel item leads from the node to an
    end of its nonterminal that leads on (``OUT`` of its origin).
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
    """Whether the text can be completed where a token ended inside lexemes: 1, 0 or a status.

    For each lexeme the nodes at which it may end (:func:`ends_from`); for each of these whether an item that waits for it
    leads out from there. The end of a skip is asked about apart, since no item waits for it.
    """
    head = whead(w)
    rows = ends_from(h, w, state)
    if rows < 0:
        return rows
    symbols = i64(h, layout.DOT_SYMBOL)
    lefts = i64(h, layout.DOT_LEFT)
    record = column * ws.COLUMN_WORDS
    first = tab(w, ws.COLUMNS)[record + ws.COL_ITEMS]
    n_items = tab(w, ws.COLUMNS)[record + ws.COL_N_ITEMS]
    charge(w, head[ws.W_N_LEXEMES])
    for lexeme in range(head[ws.W_N_LEXEMES]):
        row = tab(w, ws.ENDS_ROWS)[rows + lexeme]
        if row == 0:
            continue
        if not charge(w, n_items):
            return np.int64(statuses.W_GROW)
        if is_skip(h, lexeme):
            if _goes_on_after_skip(h, w, column, lexeme, row):
                return np.int64(1)
            continue
        for j in range(first, first + n_items):
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
    """Whether the text can be completed where a skip that began at a column ends at some node of the row ``ends``.

    The items that wait in the column for a lexeme that the skip may stand before wait at its end as well, if no more lexemes
    compete for the column there than the lattice let compete at the node.
    """
    head = whead(w)
    symbols = i64(h, layout.DOT_SYMBOL)
    lefts = i64(h, layout.DOT_LEFT)
    record = column * ws.COLUMN_WORDS
    first = tab(w, ws.COLUMNS)[record + ws.COL_ITEMS]
    for i in range(head[ws.W_WIDTH]):
        word = tab(w, ws.BITS)[ends + i]
        while word:
            node = np.int64(64 * i + low_bit(word))
            word &= word - 1
            charge(w, 2 + tab(w, ws.COLUMNS)[record + ws.COL_N_ITEMS])
            if not _competes_after_skip(w, column, skip, node):
                continue
            for j in range(first, first + tab(w, ws.COLUMNS)[record + ws.COL_N_ITEMS]):
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
    """Whether what competes after a skip in a column competes at a node of the lattice."""
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
