"""The two walks of the token trie that make a base: of a lexer state alone, and of a state beside another one.

The trie is an array in depth-first order with the size of each subtree, so a dead node is skipped by one addition and there is
no stack but arrays by depth (:mod:`cdplugin.kernels.masks.walk`; llguidance's toktrie note derives the loop). Below a node in
whose state few bytes lead anywhere (:mod:`cdplugin.kernels.lexer.heads`), the children with these bytes are found by bisection;
a subtree all of whose bytes lead back to the state, or that has only letters where any of them may come, is taken whole. Plain
text is not walked at all: where a lexer state is known to live through ``n`` characters of a vocabulary's slices
(:mod:`cdplugin.kernels.lexer.plain_text`), the mask of the tokens of at most ``n`` such characters is taken as it is, and only
the rest of the trie is walked.

Why a slice mask is exact: its tokens are all the tokens that are plain text of at most ``n`` characters, and each of them
leaves the state alive, so all of them are allowed. None of them is lost, since the walk leaves out only those (``skip_chars``)
or, where plain text longer than ``n`` is dead anyway, the whole trie of plain text. Ends inside what is left out are not
needed: all tokens below them are allowed already. And a state in which a lexeme could end in plain text, and another go on, is
not given an odd bound (:mod:`cdplugin.kernels.regex.slices`).

Beside another state whose base is known (``other``), only the differences are wanted, and below a node after which both are in
the same state there are none. For the words ``if`` and ``in`` beside names, the walk goes along ``i``, ``if`` and ``in``, and
below these, and passes over all else.
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

_FEW, _LONG, _SHAPE_BITS = 1, 2, 2  # of a row in a walk: few bytes go on; it has an entry for each byte
_MANY = 1024  # tokens of a subtree that are added to a bitmask at once


@kernel
def walk_base(h, state, node, begun, first_node, skip_chars):
    """Append the tokens and ends of ``state`` below ``node``, from ``first_node`` on; 0, 1 if the tokens are a bitmask, or a
    status.

    ``node``: the top, -1 for the root, in whose state ``state`` the walk begins. ``begun``: 0, or the LONGEST state whose own
    bytes are left out at the first level. Subtrees of the slice trie whose tokens all have at most ``skip_chars`` characters
    are left out (-1: none is): the slice mask holds them.

    One turn of the loop is one node: find the state before it by its depth, look its byte up, and

    ==================  ==============================================================================
    transition          what is done
    ==================  ==============================================================================
    0                   skip the subtree
    ``BEFORE``          note an end at the *parent*, once, and skip the subtree
    ``ENDS_BIT + n``    take the node's token; note an end here if the trie goes on; go on with L_REST
    ``n``               take the node's token; take the subtree whole if all of it is allowed, else descend
    ==================  ==============================================================================

    Of the whole trie, tokens become a bitmask once they are many: ids that stand behind it are added where room runs out, and
    large subtrees at once. Work: a unit for every two nodes visited.
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
    # slice tokens come first in the trie, so a node's place tells whether the slice mask may hold its subtree
    slice_end = head[layout.SLICE_END] if skip_chars >= 0 else np.int64(0)
    top, base, levels, end = begin_walk(h, node, 4)
    row = _row_shape(h, state) if top >= 0 else top
    if row < 0:
        return row
    words = i64(h, layout.STACK)  # by depth: states, nodes, whether the node has its end, rows with their shapes
    nodes, noted, rows = levels, 2 * levels, 3 * levels
    words[top] = state
    words[nodes + top] = node
    words[noted + top] = 0
    words[rows + top] = row
    out = i32(h, layout.TOKEN_LISTS)
    used = start = head[layout.TOKENS_USED]
    # a list that may become a bitmask has room for one behind it; below ends (the root is one where a lexeme ended before the
    # token) other walks add to the list, so it stays ids
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
        # nearly every byte is known: a long row is read here, without the call
        row = words[rows + parent]
        if row & _LONG:
            after = np.int64(transitions[(row >> _SHAPE_BITS) + byte])
        else:
            after = known_transition(h, before, byte)
        if after == 0 and row & _FEW and head_place(h, before, byte) < 0:  # a head, too, may be dead
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
            # all bytes that end the lexeme stand below one node: one end for all of them
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
        out[used] = tokens[at]  # without a branch: one written where no token ends is written over
        used += tokens[at] >= 0
        if skips[at] == 1:  # nothing can follow an end here, and the token itself is in the base
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
    """Where the row of a state begins, and in the lowest bits whether its heads are few and its row is long; or a status."""
    row = row_of(h, state)
    if row < 0:
        return row
    n_heads = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS]
    return row << _SHAPE_BITS | (_FEW if n_heads <= MOST_HEADS else 0) | (_LONG if has_long_row(h, state) else 0)


@kernel
def _next_child(h, state, node, at):
    """The first child of ``node`` after its child ``at`` whose byte is a head of ``state``, or what follows its subtree.

    ``node`` is -1 for the root; ``at`` is a child of it whose byte is no head. Heads and children both ascend, so they are
    merged: the next head that is not below the child's byte, then by bisection the first child that is not below that head. A
    walk beside few heads so visits as many children as there are heads, however many the node has.
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
    # bisection goes on from where the last head was found: heads ascend, as children do
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
    """Make a bitmask of a list, from ``start`` on, that has reached the end of its room, or add the ids behind one to it; 1. Or
    ``GROW``, where it stays ids (``spare`` is 0) or that would give little room. ``left``: nodes to visit.
    """
    used = header(h)[layout.TOKENS_USED]
    if spare == 0 or used - start <= 2 * spare or room - start < 3 * spare:
        has_room(h, layout.TOKEN_LISTS, room + spare + min(left, 1 << 16))  # the walk starts again: not too often
        return np.int64(statuses.GROW)
    fold(h, start, folded != 0)
    return np.int64(1)


@kernel
def _take_all_below(h, at, start, room, spare, folded):
    """Add all tokens below the node ``at`` to the list that begins at ``start``; 1 if it is a bitmask then (``folded``: if it
    was one), else 0; or ``GROW``. A subtree of many tokens makes one of a list that may become one.
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
    """Append the differences between the bases of ``state`` and ``other`` below ``node``: ``t`` for a token that only the first
    has, ``~t`` for one that only the second has, and the ends at nodes by which they differ. 0 or a status.

    The walk steps both states side by side and descends only where they differ: from equal states, everything below is equal.
    An end at a node replaces the other base's end there, which may be missing: below a node of which the other has every token
    none are noted. An end that scans nothing removes it. A LONGEST match may turn out to end only below its node
    (``BEFORE``), so an end is noted at each node where either state has such a match, and completed when the ``BEFORE`` comes.
    Where the one state's row is beside the other's (:mod:`cdplugin.kernels.lexer.rows`), only children by its own bytes are
    looked at; elsewhere L_OWN makes nearly all siblings equal by one look-up.
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
    words = i64(h, layout.STACK)  # by depth: our states, the other's (0: dead), the place of the node's end (-1: none), nodes
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
        # one of the two may be dead already; below such a node all tokens of the other tell them apart
        after = transition(h, before, byte) if before else np.int64(0)
        beside = transition(h, other_before, byte) if other_before else np.int64(0)
        if after < 0 or beside < 0:
            return min(after, beside)
        if after == lexer_layout.BEFORE:
            _complete_end(h, words[places + parent], before)
            after = np.int64(0)
        # the other's end there is taken away by ours, so nothing of it counts below
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
        # where both end and go on alike, the other's end stays: one noted here would replace it
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
        row = row_of(h, after) if after else np.int64(0)  # its own bytes are known with its row
        if row < 0:
            return row
        at += 1
    return end_walk(h, top, visited, 0)


@kernel
def _complete_end(h, place, before):
    """Say of an end that was noted at ``place`` in ENDS that the LONGEST lexemes of the state ``before`` end there."""
    ends = i64(h, layout.ENDS)
    ends[place + mask_layout.E_SCANNED] = longest_of(h, before)
    ends[place + mask_layout.E_BEGUN] = before


@kernel
def _scanned_in(h, after):
    """What lexemes end in a transition's target, a ``K_ACCEPTED`` value, or 0."""
    return accepted_of(h, after & lexer_layout.STATE_MASK) if after & lexer_layout.ENDS_BIT else np.int64(0)


@kernel
def _rest_within(h, after, reach):
    """The state that goes on from a transition's target below a node where ``reach`` bytes may come (TRIE_REACH); 0 or a
    status.
    """
    if after & lexer_layout.ENDS_BIT:
        after = rest_of(h, after & lexer_layout.STATE_MASK)
    return saturated_within(h, after, reach) if after and reach > 0 else after
