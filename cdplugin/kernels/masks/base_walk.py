"""The two trie walks that make a mask base: of one lexer state, or of the difference between two.

The trie is an array in depth-first order with the size of each subtree. So skipping a dead subtree is one addition, and the
walk needs no stack except arrays indexed by depth (:mod:`cdplugin.kernels.masks.walk`; llguidance's toktrie note derives this
loop). Three shortcuts avoid nodes:

- Below a node where the lexer state has few heads (:mod:`cdplugin.kernels.lexer.heads`), bisection finds the children with
  these bytes.
- A subtree is taken whole if all of its bytes are self-loops of the state, or if it holds only letters and the state takes that
  many letters in any order.
- Plain text is not walked. If a state survives any ``n`` plain characters (:mod:`cdplugin.kernels.lexer.plain_text`), the slice
  mask of the tokens of at most ``n`` such characters is used as it is, and only the rest of the trie is walked.

Why using a slice mask is exact. Its tokens are all tokens that are plain text of at most ``n`` characters; each leaves the
state alive, so each is allowed. The walk leaves out no other token: it skips just these (``skip_chars``), or, if longer plain
text is dead anyway, the whole slice trie. Lexeme ends inside the skipped part are not needed, since all tokens below them are
allowed already. A state in which a lexeme could end inside plain text while another goes on is never given an odd bound
(:mod:`cdplugin.kernels.regex.slices`), which is what would let the walk skip the whole slice trie.

:func:`walk_beside` steps a state and another one, ``other``, whose base is known, side by side, and collects the differences.
Below a node after which both are in the same state there are none. For the keywords ``if`` and ``in`` beside names, the walk
follows ``i``, ``if`` and ``in`` and what is below them, and skips all else.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, longest_of, rest_of
from cdplugin.kernels.lexer.heads import MOST_HEADS, head_from, head_place
from cdplugin.kernels.lexer.lexer import saturated_within, transition
from cdplugin.kernels.lexer.rows import has_long_row, is_beside, known_transition, row_of
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.masks.ends import add_end
from cdplugin.kernels.masks.token_lists import fold
from cdplugin.kernels.masks.walk import COPIED_BITS, begin_walk, child_from, end_walk, ends_before, takes_all_below
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, has_room, header, i32, i64, u8

_FEW, _LONG, _SHAPE_BITS = 1, 2, 2  # flags of _row_shape: the state has few heads; its row has an entry for each byte
_MANY = 1024  # a subtree with so many tokens turns the list into a bitmask


@kernel
def walk_base(h, state, node, begun, first_node, skip_chars):
    """Append the tokens and ends of ``state`` below ``node``; return 0, 1 if the token list has become a bitmask, or a status.

    ``node``: the top of the walk, -1 for the root; ``state`` is the lexer state at it. ``first_node``: where the walk starts;
    nodes before it are left out. ``begun``: 0, or a LONGEST state; at the first level the walk leaves out the bytes by which
    that state goes on. ``skip_chars``: subtrees of the slice trie whose tokens all have at most so many characters are left
    out, since the slice mask holds them (-1: none is).

    Each turn of the loop handles one node: it finds the state before the node by depth, and looks up the node's byte:

    ==================  ==============================================================================
    transition          what is done
    ==================  ==============================================================================
    0                   skip the subtree
    ``BEFORE``          note an end at the *parent*, once, and skip the subtree
    ``ENDS_BIT + n``    take the node's token; note an end here if the trie goes on; go on with L_REST
    ``n``               take the node's token; take the subtree whole if all of it is allowed, else descend
    ==================  ==============================================================================

    In a walk of the whole trie, a list of many tokens becomes a bitmask. Later ids are appended behind the bitmask and folded
    into it when room runs out; large subtrees are set in it directly. Work: one unit for every two nodes visited.
    """
    head = header(h)
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    chars = i32(h, layout.TRIE_CHARS)
    reaches = u8(h, layout.TRIE_REACH)
    ranks = i32(h, layout.TRIE_RANK)
    transitions = i32(h, layout.TRANSITIONS)
    # slice tokens come first in the trie, so a node's index tells whether the slice mask may hold its subtree
    slice_end = head[layout.SLICE_END] if skip_chars >= 0 else np.int64(0)
    top, base, levels, end = begin_walk(h, node, 4)
    row = _row_shape(h, state) if top >= 0 else top
    if row < 0:
        return row
    words = i64(h, layout.STACK)  # by depth: state, node, whether its end has been noted, row with its shape
    nodes, noted, rows = levels, 2 * levels, 3 * levels
    words[top] = state
    words[nodes + top] = node
    words[noted + top] = 0
    words[rows + top] = row
    out = i32(h, layout.TOKEN_LISTS)
    used = start = head[layout.TOKENS_USED]
    # a list that may become a bitmask keeps room for one behind it. Below ends (also at the root, if a lexeme ended before the
    # token) several walks append to one list, so there it stays ids
    spare = head[layout.WORDS] if node < 0 and begun == 0 else np.int64(0)
    room = out.shape[0] - spare
    folded = np.int64(0)
    visited = 0
    at = first_node
    while at < end:
        visited += 1
        if at < slice_end and chars[at] <= skip_chars:
            at += skips[at]
            continue
        depth = base + depths[at]
        parent = depth - 1
        before = words[parent]
        byte = np.int64(bytes_[at])
        # nearly every transition is cached: read a long row here, without a call
        row = words[rows + parent]
        if row & _LONG:
            after = np.int64(transitions[(row >> _SHAPE_BITS) + byte])
        else:
            after = known_transition(h, before, byte)
        if after == 0 and row & _FEW and head_place(h, before, byte) < 0:  # heads are a superset: a head may be dead, too
            at = _next_child(h, before, words[nodes + parent], at)
            continue
        if begun and after != 0 and depth == top + 1:
            ended = ends_before(h, begun, byte)
            if ended < 0:
                return ended
            if ended == 0:
                after = np.int64(0)
        if after < 0:
            after = transition(h, before, byte)
            if after < 0:
                return after
        if after == lexer_layout.BEFORE:
            # all bytes before which the lexeme ends are children of one node: one end for all of them
            if words[noted + parent] == 0:
                words[noted + parent] = 1
                if add_end(h, words[nodes + parent], longest_of(h, before), before) < 0:
                    return np.int64(statuses.GROW)
            after = np.int64(0)
        if after == 0:
            at += skips[at]
            continue
        if used >= room:
            head[layout.TOKENS_USED] = used
            folded = _fold_full(h, start, room, spare, folded, end - at)
            if folded < 0:
                return folded
            used = head[layout.TOKENS_USED]
        out[used] = tokens[at]  # branch-free: where no token ends, the next write overwrites this one
        used += tokens[at] >= 0
        if skips[at] == 1:  # a leaf needs no end: its token is in the base already
            at += 1
            continue
        if after & lexer_layout.ENDS_BIT:
            after &= lexer_layout.STATE_MASK
            if add_end(h, at, accepted_of(h, after), 0) < 0:
                return np.int64(statuses.GROW)
            after = rest_of(h, after)
            if after == 0:
                at += skips[at]
                continue
        after = saturated_within(h, after, reaches[at])
        row = _row_shape(h, after) if after > 0 else after
        if row < 0:
            return row
        whole = takes_all_below(h, before, after, at)
        if whole < 0:
            return whole
        if whole:
            head[layout.TOKENS_USED] = used
            folded = _take_all_below(h, at, start, room, spare, folded)
            if folded < 0:
                return folded
            used = head[layout.TOKENS_USED]
            visited += (ranks[at + skips[at]] - ranks[at + 1]) >> COPIED_BITS
            at += skips[at]
            continue
        words[depth] = after
        words[nodes + depth] = at
        words[noted + depth] = 0
        words[rows + depth] = row
        at += 1
    head[layout.TOKENS_USED] = used
    if folded:
        fold(h, start, True)
    status = end_walk(h, top, visited, 0)
    return status if status < 0 else folded


@kernel
def _row_shape(h, state):
    """Return the index of a state's transition row, shifted left by ``_SHAPE_BITS``, with the flags ``_FEW`` and ``_LONG``; or
    a status.
    """
    row = row_of(h, state)
    if row < 0:
        return row
    n_heads = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS]
    return row << _SHAPE_BITS | (_FEW if n_heads <= MOST_HEADS else 0) | (_LONG if has_long_row(h, state) else 0)


@kernel
def _next_child(h, state, node, at):
    """Return the first child of ``node`` after its child ``at`` whose byte is a head of ``state``, or the node after ``node``'s
    subtree.

    ``node`` is -1 for the root; the byte of ``at`` is no head. Heads and children both ascend, so this is a merge: take the
    next head not below the child's byte, then bisect for the first child not below that head. So a walk beside few heads visits
    only as many children as there are heads, however many the node has.
    """
    head = header(h)
    bytes_ = u8(h, layout.TRIE_BYTE)
    starts = i32(h, layout.TRIE_FIRST_CHILD)
    children = i32(h, layout.TRIE_CHILDREN)
    nodes = head[layout.N_NODES]
    after = node + i32(h, layout.TRIE_SKIP)[node] if node >= 0 else nodes
    if node < 0:  # the root, of the slice tokens' trie or of the others'
        node = nodes + 1
        if at < head[layout.SLICE_END]:
            node = nodes
            after = head[layout.SLICE_END]
    # each bisection starts where the last one ended: heads ascend, as children do
    low = np.int64(starts[node])
    end = np.int64(starts[node + 1])
    byte = head_from(h, state, np.int64(bytes_[at]))
    while byte < 256:
        low = child_from(children, bytes_, low, end, byte)
        if low == end:
            break
        if bytes_[children[low]] == byte:
            return np.int64(children[low])
        byte = head_from(h, state, np.int64(bytes_[children[low]]))
    return after


@kernel
def _fold_full(h, start, room, spare, folded, left):
    """Make room in a list that is full, by turning its ids into a bitmask or folding the ids behind a bitmask into it; return
    1.

    Return ``GROW`` if the list must stay ids (``spare`` is 0) or if folding would free little room. ``left``: nodes still to
    visit.
    """
    used = header(h)[layout.TOKENS_USED]
    if spare == 0 or used - start <= 2 * spare or room - start < 3 * spare:
        has_room(h, layout.TOKEN_LISTS, room + spare + min(left, 1 << 16))  # ask for much: the walk starts over after GROW
        return np.int64(statuses.GROW)
    fold(h, start, folded != 0)
    return np.int64(1)


@kernel
def _take_all_below(h, at, start, room, spare, folded):
    """Add all tokens below the node ``at`` to the list that begins at ``start``; return 1 if the list is a bitmask then, else
    0; or ``GROW``.

    ``folded``: whether it is a bitmask now. A subtree of many tokens turns a list that may become a bitmask into one.
    """
    head = header(h)
    tokens = i32(h, layout.TOKEN_LISTS)
    listed = i32(h, layout.TRIE_LISTED)
    ranks = i32(h, layout.TRIE_RANK)
    first, last = ranks[at + 1], ranks[at + i32(h, layout.TRIE_SKIP)[at]]
    if spare and last - first >= _MANY and not folded and head[layout.TOKENS_USED] < room:
        fold(h, start, False)
        folded = np.int64(1)
    if folded:
        for i in range(first, last):
            tokens[start + (listed[i] >> 5)] |= np.int32(1 << (listed[i] & 31))
        return folded
    used = head[layout.TOKENS_USED]
    if used + last - first > room:
        has_room(h, layout.TOKEN_LISTS, used + last - first + spare)
        return np.int64(statuses.GROW)
    copy_words(tokens, used, listed, first, last - first)
    head[layout.TOKENS_USED] = used + last - first
    return folded


@kernel
def walk_beside(h, state, other, node, begun):
    """Append the difference between the bases of ``state`` and ``other`` below ``node``; 0 or a status.

    Written are ``t`` for a token that only ``state`` allows, ``~t`` for one that only ``other`` allows, and the ends of
    ``state`` at nodes where the two differ. The walk steps both states and descends only where they differ: below equal states,
    everything is equal.

    An end at a node replaces the other base's end at that node, if it has one there (it has none below a node whose tokens it
    all allows). An end that scans nothing removes it. Whether a LONGEST match ends at a node shows only at the next byte
    (``BEFORE``). So an end is noted, empty, at each node where either state has such a match, and completed when ``BEFORE``
    comes. If our row is stored beside the other's (:mod:`cdplugin.kernels.lexer.rows`), only children by its own bytes are
    visited; elsewhere L_OWN makes nearly all siblings equal by one look-up.
    """
    head = header(h)
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    reaches = u8(h, layout.TRIE_REACH)
    top, base, levels, end = begin_walk(h, node, 4)
    row = row_of(h, state) if top >= 0 else top
    if row < 0:
        return row
    words = i64(h, layout.STACK)  # by depth: our state, the other's (0: dead), where the node's end was noted (-1: not), node
    others, places, nodes = levels, 2 * levels, 3 * levels
    words[top] = state
    words[others + top] = other
    words[places + top] = -1
    words[nodes + top] = node
    # at the top itself a LONGEST lexeme may end before the first byte
    if longest_of(h, state) or longest_of(h, other):
        place = add_end(h, node, 0, 0)
        if place < 0:
            return place
        words[places + top] = place
    visited = 0
    at = node + 1
    while at < end:
        visited += 1
        depth = base + depths[at]
        parent = depth - 1
        before = words[parent]
        other_before = words[others + parent]
        byte = np.int64(bytes_[at])
        if before and is_beside(h, before, other_before) and head_place(h, before, byte) < 0:
            at = _next_child(h, before, words[nodes + parent], at)
            continue
        if begun and depth == top + 1:
            ended = ends_before(h, begun, byte)
            if ended < 0:
                return ended
            if ended == 0:
                at += skips[at]
                continue
        # one of the two may be dead already; then every token of the other is a difference
        after = transition(h, before, byte) if before else np.int64(0)
        beside = transition(h, other_before, byte) if other_before else np.int64(0)
        if after < 0 or beside < 0:
            return min(after, beside)
        if after == lexer_layout.BEFORE:
            _complete_end(h, words[places + parent], before)
            after = np.int64(0)
        # our end at that node replaces the other's, so nothing that follows the other's counts
        if beside == lexer_layout.BEFORE:
            beside = np.int64(0)
        if after == beside:
            at += skips[at]
            continue
        token = np.int64(tokens[at])
        if token >= 0 and (after == 0 or beside == 0):
            used = head[layout.TOKENS_USED]
            if not has_room(h, layout.TOKEN_LISTS, used + 1):
                return np.int64(statuses.GROW)
            # ~t is negative for every token, 0 included, which -t would not be
            i32(h, layout.TOKEN_LISTS)[used] = token if after else ~token
            head[layout.TOKENS_USED] = used + 1
        scanned, beside_scanned = _scanned_in(h, after), _scanned_in(h, beside)
        after, beside = _rest_within(h, after, reaches[at]), _rest_within(h, beside, reaches[at])
        if after < 0 or beside < 0:
            return min(after, beside)
        place = np.int64(-1)
        # where both end alike and go on alike, note no end: it would replace the other's, which is right
        if skips[at] > 1 and (after != beside or scanned != beside_scanned):
            if scanned or beside_scanned or longest_of(h, after) or longest_of(h, beside):
                place = add_end(h, at, scanned, 0)
                if place < 0:
                    return place
        if after == beside:
            at += skips[at]
            continue
        words[depth] = after
        words[others + depth] = beside
        words[places + depth] = place
        words[nodes + depth] = at
        row = row_of(h, after) if after else np.int64(0)  # making the row also notes the state's own bytes (L_HEADS)
        if row < 0:
            return row
        at += 1
    return end_walk(h, top, visited, 0)


@kernel
def _complete_end(h, place, before):
    """Complete the end noted at ``place`` in ENDS: the LONGEST lexemes of the state ``before`` end there."""
    ends = i64(h, layout.ENDS)
    ends[place + mask_layout.E_SCANNED] = longest_of(h, before)
    ends[place + mask_layout.E_BEGUN] = before


@kernel
def _scanned_in(h, after):
    """Return the lexemes that end with a transition, as a ``K_ACCEPTED`` value, or 0. ``after``: the transition."""
    return accepted_of(h, after & lexer_layout.STATE_MASK) if after & lexer_layout.ENDS_BIT else np.int64(0)


@kernel
def _rest_within(h, after, reach):
    """Return the state that goes on after a transition, with counts cut for ``reach`` bytes (TRIE_REACH of the node); 0: none;
    or a status.
    """
    if after & lexer_layout.ENDS_BIT:
        after = rest_of(h, after & lexer_layout.STATE_MASK)
    return saturated_within(h, after, reach) if after and reach > 0 else after
