"""Token masks: *base + delta* for a pair (row, lexer state), cached by (row, base).

The base (:mod:`cdplugin.kernels.masks.bases`) holds the tokens that stay inside the state's lexemes or end one with their last
byte; it is the same for all rows. The delta holds the tokens in which a lexeme ends and another one goes on: it depends on the
row.

The delta is found without walking the trie. For each group of the base's ends, the row scans the lexemes that end there; the
next row's start states have bases below the group's nodes; their tokens belong to the delta, and their groups are treated in
the same way, until no pair (row, base) is new. So a token of several lexemes is found along a chain of bases. Rows share bases,
so a new row mostly follows known chains. Groups with few nodes below them (``SMALL``) are walked instead
(:mod:`cdplugin.kernels.masks.group_walk`)::

    (row 2, base of state 3)                    tokens of w: a, ab, …                 the base, not the delta
       └ group {w} at nodes N ──> row 3 = advance(row 2, {w}), which starts in state 5 = {"]", ","}
            (row 3, base of 5 below N)          tokens w "," and w "]": a, a] …       delta
               ├ group {","} at N' ──> row 4, state 3: (row 4, base of 3 below N')    a,b …
               └ group {"]"} at N" ──> row 5, where nothing starts

The chains end, because the nodes of each link lie strictly deeper in the trie than those of the link before.

Where a token reaches into a lexeme that depends on an earlier value (:mod:`cdplugin.kernels.lexer.tracked`), the trie is
walked. Each token is then either sure, or one of the mask's *doubts*, which are followed one by one from the cursor whose mask
is filled. Token terminals are in neither part; :func:`add_terminals` adds them last.

A mask that is written often is also cached as a whole row, so that writing it is one copy. An arena caches few of these
(``_MOST_ROWS``), since a row takes 16 KB with 128,000 tokens and most masks are written once or twice::

    written    1    …    7    8             9
               parts     parts, and cached  a copy of the cached row
    MASK_ROW   -8   …   -2   -1             1 + the row's index in TOKEN_LISTS

Cost: a known mask, a copy of ``WORDS`` words and, until it is cached as a row, the tokens of base and delta; a new row over
known bases, an Earley advance and a list union for each link; a new lexer state, a walk of the trie.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import is_skip, n_ranges_of, ranges_of, roles_of, symbol_of, value_of
from cdplugin.kernels.lexer.lexer import saturated
from cdplugin.kernels.lexer.tracked import has_role, lexer_state_of
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.masks.bases import base_of
from cdplugin.kernels.masks.doubts import add_doubts
from cdplugin.kernels.masks.far_words import without_far_words
from cdplugin.kernels.masks.fields import groups_of, n_groups_of, n_tokens_of, parent_of, tokens_of
from cdplugin.kernels.masks.group_walk import walk_group
from cdplugin.kernels.masks.token_lists import add_list, close_list, fold
from cdplugin.kernels.parser import layout as parser_layout
from cdplugin.kernels.parser.cursors import pair_of, pairs_in, past_longest, single, step_token
from cdplugin.kernels.parser.earley import advance
from cdplugin.kernels.parser.fields import exact_start_of
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, has_room, header, i32, i64, length_of, memo_get, memo_put, spend, word_of
from cdplugin.kernels.store.stack import intern_words, push_pair

_OFTEN = 8  # writes after which a mask is cached as a row, so that the next write is a copy
_MANY_BITS = 300  # ... if it sets more tokens one by one; fewer are as fast as a copy
_BITS_OF_ROW = 250  # tokens set one by one that take as long as ORing a bitmask
_MOST_ROWS = 32  # rows that an arena caches
_SET_BITS = 8  # 2 ** _SET_BITS tokens of a range that a token terminal allows cost one unit of work
_LOOKED_AT = 64  # last pairs among which _reach looks for a duplicate
SMALL = 48  # a group with at most so many trie nodes below it is walked for each row, instead of having bases


@kernel
def mask_of(h, row, state):
    """Return the record number of the mask of the pair ``(row, state)``, computing the mask if it is new; or a status.

    The state is first *saturated*: counts beyond the longest token are cut, so that states that no token tells apart share a
    mask. Then its far words are dropped (:func:`without_far_words`). Memoised by (row, base). A computation that fails releases
    what it wrote to ``TOKEN_LISTS``.
    """
    head = header(h)
    state = saturated(h, state, head[layout.MAX_DEPTH])
    if state < 0:
        return state
    near = without_far_words(h, state)
    base = base_of(h, near, np.int64(0)) if near > 0 else near
    if base < 0:
        return base
    known = memo_get(h, layout.M_MASK, row, base)
    if known >= 0:
        head[layout.C_MASK_HITS] += 1
        return known
    head[layout.C_MASK_MISSES] += 1
    number = head[layout.N_MASKS]
    if not has_room(h, layout.MASKS, (number + 1) * mask_layout.MASK_WORDS):
        return np.int64(statuses.GROW)
    # the pairs that _reach finds stay on the stack for _delta and _doubts
    bottom = head[layout.STACK_TOP]
    status = _reach(h, row, base)
    if status < 0:
        return status
    start = head[layout.TOKENS_USED]
    length = _delta(h, bottom, start)
    doubts = head[layout.TOKENS_USED]
    status = length if length < 0 else _doubts(h, bottom, row, state)
    head[layout.STACK_TOP] = bottom
    if status < 0:
        head[layout.TOKENS_USED] = start
        return status
    masks = i64(h, layout.MASKS)
    record = number * mask_layout.MASK_WORDS
    masks[record + mask_layout.MASK_BASE] = base
    masks[record + mask_layout.MASK_TOKENS] = start
    masks[record + mask_layout.MASK_LENGTH] = length
    masks[record + mask_layout.MASK_DOUBTS] = doubts
    # doubts are either open or decided, all of them: one of the two counts is 0
    is_open = has_role(h, state, layout.TRACKS)
    masks[record + mask_layout.MASK_N_DOUBTS] = head[layout.TOKENS_USED] - doubts if is_open else 0
    masks[record + mask_layout.MASK_N_DECIDED] = 0 if is_open else head[layout.TOKENS_USED] - doubts
    masks[record + mask_layout.MASK_ROW] = -_OFTEN if _n_bits(h, number) > _MANY_BITS else 0
    head[layout.N_MASKS] = number + 1
    return memo_put(h, layout.M_MASK, row, base, number)


@kernel
def _n_bits(h, number):
    """Return about how many tokens writing a mask sets one by one: those of its base, of the base's parent, and of its delta.

    A slice mask counts for nothing, since it is a copy.
    """
    record = number * mask_layout.MASK_WORDS
    base = i64(h, layout.MASKS)[record + mask_layout.MASK_BASE]
    parent = parent_of(h, base)
    count = _length(n_tokens_of(h, base)) + _length(i64(h, layout.MASKS)[record + mask_layout.MASK_LENGTH])
    return count + (_length(n_tokens_of(h, parent)) if parent >= 0 else 0)


@kernel
def _length(length):
    """Return the length of a token list of ids; for a bitmask, the number of ids that take as long to write."""
    return np.int64(_BITS_OF_ROW) if length == mask_layout.AS_BITMASK else length


@kernel
def _reach(h, row, base):
    """Push the pairs (row, base) along the chains of a mask, ``(row, base)`` first; 0 or a status.

    The stack is work list and result in one. The search ends because each base below ends lies deeper in the trie than those
    ends. A pair that several groups lead to is pushed once, unless more than ``_LOOKED_AT`` others were pushed in between;
    without this, every path would be followed. Groups of at most ``SMALL`` nodes are left to :func:`_delta`, and so are rows
    where a tracked value matters.
    """
    head = header(h)
    bottom = at = head[layout.STACK_TOP]
    if push_pair(h, row, base) < 0:
        return np.int64(statuses.GROW)
    while at < head[layout.STACK_TOP]:
        row = i64(h, layout.STACK)[at]
        base = i64(h, layout.STACK)[at + 1]
        at += 2
        if not spend(h, 4 + n_groups_of(h, base)):
            return np.int64(statuses.LIMIT_WORK)
        groups = groups_of(h, base)
        for group in range(groups, groups + mask_layout.GROUP_WORDS * n_groups_of(h, base), mask_layout.GROUP_WORDS):
            # read ENDS anew each time: advance and base_of may write to it
            if i64(h, layout.ENDS)[group + mask_layout.G_NODES] > SMALL:
                next_row = advance(h, row, i64(h, layout.ENDS)[group + mask_layout.G_SCANNED])
                ends = i64(h, layout.ENDS)[group + mask_layout.G_ENDS]
                walked = _is_walked(h, next_row) if next_row > 0 else next_row
                if walked < 0:
                    return walked
                if walked:
                    continue
                status = _push_after(h, bottom, next_row, ends)
                if status < 0:
                    return status
    return np.int64(0)


@kernel
def _delta(h, bottom, start):
    """Write the delta of the pairs ``STACK[bottom:top]`` as a token list from ``start`` on; return its length (ids, or
    ``AS_BITMASK``), or a status.

    The base of the first pair is no part of it. The list begins as ids. Once a bitmask would be shorter, the list becomes one
    (``dense``); later ids are appended behind the bitmask and folded in at the end. Small groups are walked here, with whole
    cursors.
    """
    head = header(h)
    dense = False
    for at in range(bottom, head[layout.STACK_TOP], 2):
        row = i64(h, layout.STACK)[at]
        base = i64(h, layout.STACK)[at + 1]
        # the first pair's tokens are the mask's base, which the record names
        if at > bottom:
            status = _add_base(h, base, start, dense)
            if status < 0:
                return status
            dense = status == 1
        status = _walk_groups(h, row, base, False)
        if status < 0:
            return status
    return np.int64(fold(h, start, True) if dense else close_list(h, start))


@kernel
def _walk_groups(h, row, base, doubtful):
    """Walk those groups of a base that are walked for each row, and append their sure tokens (or, if ``doubtful``, their
    doubts); 0 or a status.

    These are the groups of at most ``SMALL`` nodes, and those after which a shadow may come.
    """
    groups = groups_of(h, base)
    for group in range(groups, groups + mask_layout.GROUP_WORDS * n_groups_of(h, base), mask_layout.GROUP_WORDS):
        small = i64(h, layout.ENDS)[group + mask_layout.G_NODES] <= SMALL
        if small or header(h)[layout.HAS_TRACKED]:
            # rows are memoised, so asking for one that _reach has made costs a look-up
            next_row = advance(h, row, i64(h, layout.ENDS)[group + mask_layout.G_SCANNED])
            ends = i64(h, layout.ENDS)[group + mask_layout.G_ENDS]
            status = next_row if small or next_row <= 0 else _is_walked(h, next_row)
            if status > 0:
                status = walk_group(h, next_row, ends, doubtful)
            if status < 0:
                return np.int64(status)
    return np.int64(0)


@kernel
def _is_walked(h, row):
    """Return 1 if the trie must be walked below the ends of groups that lead to ``row``, however large they are, else 0; or a
    status.

    Bases are shared by all rows, but what a shadow allows depends on a text. So the trie is walked if a lexeme that depends on
    an earlier value may start in the row, and, where few values may be left, also one lexeme before an UNSURE one.
    """
    tracked = header(h)[layout.HAS_TRACKED]
    state = exact_start_of(h, row) if tracked else np.int64(0)
    if state == 0:
        return np.int64(0)
    if roles_of(h, state) >> layout.NEXT:
        return np.int64(1)
    for i in range(length_of(h, value_of(h, state)) if tracked == layout.FEW_VALUES else 0):
        lexeme = word_of(h, value_of(h, state), i) >> 32
        if is_skip(h, lexeme):
            continue
        ended = intern_words(h, layout.K_ACCEPTED, 1, symbol_of(h, lexeme), 0, 0, 0)
        after = ended if ended < 0 else advance(h, row, ended)
        if after < 0:
            return after
        if after > 0 and roles_of(h, exact_start_of(h, after)) & 1 << layout.UNSURE:
            return np.int64(1)
    return np.int64(0)


@kernel
def _doubts(h, bottom, row, state):
    """Write the doubts of the mask of ``(row, state)`` behind its tokens. 0 or a status. The mask's pairs are
    ``STACK[bottom:top]``.

    If no lexeme of ``state`` tracks its value, no text matters, and the doubts are decided here once for all cursors: those
    that can be followed stay, as decided tokens. Otherwise they stay open, and :func:`add_doubts` decides them with the
    cursor's text.
    """
    head = header(h)
    if not head[layout.HAS_TRACKED]:
        return np.int64(0)
    start = head[layout.TOKENS_USED]
    for at in range(bottom, head[layout.STACK_TOP], 2):
        status = _walk_groups(h, i64(h, layout.STACK)[at], i64(h, layout.STACK)[at + 1], True)
        if status < 0:
            return status
    if has_role(h, state, layout.TRACKS):
        return np.int64(0)
    # the pair carries no text: the answer is the same for every cursor of the pair
    cursor = single(row, state, np.int64(0))
    kept = start
    for i in range(start, head[layout.TOKENS_USED]):
        token = np.int64(i32(h, layout.TOKEN_LISTS)[i])
        after = step_token(h, cursor, token)
        if after < 0:
            return np.int64(after)
        if after > 0:
            i32(h, layout.TOKEN_LISTS)[kept] = token
            kept += 1
    head[layout.TOKENS_USED] = kept
    return np.int64(0)


@kernel
def _push_after(h, bottom, row, ends):
    """Push ``row`` with the base of each of its start states below ``ends``, if it is not among ``STACK[bottom:top]``; 0 or a
    status.

    A row has up to two start states: one of EXACT lexemes, one of LONGEST and LAZY ones.
    """
    for field in (parser_layout.R_START, parser_layout.R_LONGEST):
        state = i64(h, layout.ROWS)[row * parser_layout.ROW_WORDS + field]
        if state == 0:
            continue
        state = saturated(h, state, header(h)[layout.MAX_DEPTH])
        after = state if state < 0 else base_of(h, state, ends)
        if after < 0:
            return after
        if not _is_pushed(h, bottom, row, after) and push_pair(h, row, after) < 0:
            return np.int64(statuses.GROW)
    return np.int64(0)


@kernel
def _is_pushed(h, bottom, row, base):
    """Return whether the pair (row, base) is among the last ``_LOOKED_AT`` pairs of ``STACK[bottom:top]``."""
    words = i64(h, layout.STACK)
    top = header(h)[layout.STACK_TOP]
    for at in range(max(bottom, top - 2 * _LOOKED_AT), top, 2):
        if words[at + 1] == base and words[at] == row:
            return True
    return False


@kernel
def _add_base(h, base, start, dense):
    """Append the tokens of a base and of its parent to the list under construction at ``start``; return 1 if the list is a
    bitmask now, 0 if it is still ids; or ``GROW``.

    Union is enough: a base below ends has no slice mask, and it removes nothing from its parent, since there only LONGEST
    states have a parent, and the words that their simplified states drop only add tokens.
    """
    head = header(h)
    words = head[layout.WORDS]
    while base >= 0:
        record = base * mask_layout.BASE_WORDS
        first = i64(h, layout.BASES)[record + mask_layout.B_TOKENS]
        length = i64(h, layout.BASES)[record + mask_layout.B_LENGTH]
        base = i64(h, layout.BASES)[record + mask_layout.B_PARENT]
        if length == 0:
            continue
        used = head[layout.TOKENS_USED]
        # as ids, the list would be longer than a bitmask: turn it into one
        if not dense and (length == mask_layout.AS_BITMASK or used - start + length > words):
            if fold(h, start, False) < 0:
                return np.int64(statuses.GROW)
            dense = True
        head[layout.WORK_LEFT] -= (words if length == mask_layout.AS_BITMASK else length) >> 2
        if dense:
            add_list(h, first, length, i32(h, layout.TOKEN_LISTS)[start : start + words])
        else:
            if not has_room(h, layout.TOKEN_LISTS, used + length):
                return np.int64(statuses.GROW)
            tokens = i32(h, layout.TOKEN_LISTS)
            copy_words(tokens, used, tokens, first, length)
            head[layout.TOKENS_USED] = used + length
    return np.int64(1 if dense else 0)


@kernel
def _write_mask(h, number, out):
    """Write mask ``number`` to the mask row ``out``, every word of it. 0 or ``GROW``. Caches the row if the mask is written
    often.
    """
    record = number * mask_layout.MASK_WORDS
    row = i64(h, layout.MASKS)[record + mask_layout.MASK_ROW]
    if row > 0:
        copy_words(out, 0, i32(h, layout.TOKEN_LISTS), row - 1, header(h)[layout.WORDS])
        return np.int64(0)
    _compose_mask(h, number, out)
    if row == 0:
        return np.int64(0)
    if row == -1:
        return _keep_row(h, record, out)
    i64(h, layout.MASKS)[record + mask_layout.MASK_ROW] = row + 1
    return np.int64(0)


@kernel
def _keep_row(h, record, out):
    """Cache ``out`` as the row of a mask; if the arena caches ``_MOST_ROWS`` already, never try again. 0 or ``GROW``.

    The row does not include open doubts (:func:`add_doubts`): these depend on the text and are added after copying.
    """
    head = header(h)
    at = head[layout.TOKENS_USED]
    row = np.int64(0)
    if head[layout.N_MASK_ROWS] < _MOST_ROWS:
        if not has_room(h, layout.TOKEN_LISTS, at + head[layout.WORDS]):
            return np.int64(statuses.GROW)
        copy_words(i32(h, layout.TOKEN_LISTS), at, out, 0, head[layout.WORDS])
        head[layout.TOKENS_USED] = at + head[layout.WORDS]
        head[layout.N_MASK_ROWS] += 1
        row = at + 1
    i64(h, layout.MASKS)[record + mask_layout.MASK_ROW] = row
    return np.int64(0)


@kernel
def _compose_mask(h, number, out):
    """Write a mask from its parts (:func:`_write_mask`).

    In this order: the slice mask, or zeros; the tokens of the base or of its parent; the base's difference from its parent,
    first minus, then plus; the delta; the doubts that were decided when the mask was made.
    """
    masks = i64(h, layout.MASKS)
    record = number * mask_layout.MASK_WORDS
    bases = i64(h, layout.BASES)
    words = header(h)[layout.WORDS]
    base = masks[record + mask_layout.MASK_BASE]
    parent = parent_of(h, base)
    # slice and list of a base with a parent are the parent's; its own list only adds
    whole = base if parent < 0 else parent
    slice_row = bases[whole * mask_layout.BASE_WORDS + mask_layout.B_SLICE]
    if slice_row >= 0:
        copy_words(out, 0, i32(h, layout.SLICE_MASKS), slice_row * words, words)
    else:
        for i in range(words):
            out[i] = 0
    add_list(h, tokens_of(h, whole), n_tokens_of(h, whole), out)
    if parent >= 0:
        # first minus, then plus: a token in both lists is allowed
        tokens = i32(h, layout.TOKEN_LISTS)
        first = bases[base * mask_layout.BASE_WORDS + mask_layout.B_LESS]
        for i in range(first, first + bases[base * mask_layout.BASE_WORDS + mask_layout.B_N_LESS]):
            token = tokens[i]
            out[token >> 5] &= ~np.int32(1 << (token & 31))
        add_list(h, tokens_of(h, base), n_tokens_of(h, base), out)
    add_list(h, masks[record + mask_layout.MASK_TOKENS], masks[record + mask_layout.MASK_LENGTH], out)
    if masks[record + mask_layout.MASK_N_DECIDED]:
        add_list(h, masks[record + mask_layout.MASK_DOUBTS], masks[record + mask_layout.MASK_N_DECIDED], out)


@kernel
def fill(h, cursor, out):
    """Write the mask of ``cursor`` into ``out`` (int32 words). 0, or a status, and then ``out`` is garbage.

    Stop tokens and token terminals are left to the caller. The mask of a set of pairs is the union of their masks: the first is
    written to ``out``, each other one to a second row that is ORed in. The mask is empty at the dead cursor, and where only the
    end may come.
    """
    if cursor >> 32:
        state = cursor & lexer_layout.STATE_MASK
        if state > 0:
            number = mask_of(h, (cursor >> 32) - 1, state)
            if number < 0:
                return number
            return _write_mask(h, number, out)
    elif cursor > 0:
        count = _fill_pairs(h, cursor, out)
        if count != 0:
            return min(count, np.int64(0))
    for i in range(header(h)[layout.WORDS]):
        out[i] = 0
    return np.int64(0)


@kernel
def _fill_pairs(h, cursor, out):
    """Do :func:`fill` for a set of pairs; return how many of them have masks (0: ``out`` is unchanged), or a status."""
    count = np.int64(0)
    beside = out
    for i in range(length_of(h, cursor)):
        pair = word_of(h, cursor, i)
        if pair == parser_layout.ACCEPTS_HERE:
            continue
        number = mask_of(h, pair >> 32, lexer_state_of(h, pair & layout.LOW_32))
        if number < 0:
            return number
        if count == 1:  # writing a mask overwrites every word, so the second one needs a row of its own
            beside = np.empty(len(out), np.int32)
        status = _write_mask(h, number, beside)
        if status < 0:
            return status
        for k in range(header(h)[layout.WORDS] if count else 0):
            out[k] |= beside[k]
        count += 1
        if i64(h, layout.MASKS)[number * mask_layout.MASK_WORDS + mask_layout.MASK_N_DOUBTS]:
            status = add_doubts(h, number, pair, out)
            if status < 0:
                return status
    return count


@kernel
def add_terminals(h, cursor, out):
    """OR the tokens of the token terminals that may come at ``cursor`` into ``out``; 0 or a status."""
    for i in range(pairs_in(h, cursor)):
        pair = pair_of(h, cursor, i)
        if pair != parser_layout.ACCEPTS_HERE:
            status = _add_terminals_of(h, pair >> 32, lexer_state_of(h, pair & layout.LOW_32), out)
            if status < 0:
                return status
    return np.int64(0)


@kernel
def _add_terminals_of(h, row, state, out):
    """Do :func:`add_terminals` for one pair.

    Terminals match at lexeme boundaries only: their words stand in the start state of a row, and in the state after LONGEST
    lexemes that match here (:func:`past_longest`).
    """
    row, state = past_longest(h, row, state)
    if row < 0:
        return row
    if state == 0:
        return np.int64(0)
    value = value_of(h, state)
    ranges = i64(h, layout.TOKEN_RANGES)
    for i in range(length_of(h, value)):
        lexeme = word_of(h, value, i) >> 32
        for r in range(ranges_of(h, lexeme), ranges_of(h, lexeme) + n_ranges_of(h, lexeme)):
            first, last = ranges[2 * r], ranges[2 * r + 1]
            if not spend(h, 1 + ((last - first) >> _SET_BITS)):
                return np.int64(statuses.LIMIT_WORK)
            for word in range(first >> 5, (last >> 5) + 1):
                bits = np.int64(-1) << max(first - 32 * word, 0)
                if last < 32 * word + 31:
                    bits &= ~(np.int64(-2) << (last - 32 * word))
                out[word] |= np.int32(bits)
    return np.int64(0)
