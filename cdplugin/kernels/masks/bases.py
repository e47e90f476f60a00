"""Bases of masks: what a lexer state allows below some nodes of the token trie, whatever the row.

The base of a lexer state holds the tokens that stay inside the state's lexemes, and those at whose last byte a lexeme ends
(what a row allows, it can always go on from). At nodes where a lexeme ends and the trie goes on, the rest depends on the row:
the base lists them as *ends* ``(node, begun)``, in *groups* by the lexemes that end there. ``begun`` is 0, or the state of
LONGEST lexemes that end at the node: then only bytes that do not belong to them (whose transition is ``BEFORE``) go on.

For example, take ``S: "[" L "]"   L: w | w "," L   w: /[a-z]+/`` and as tokens the bytes, ``ab``, ``a,``, ``a]``, ``a,b]``::

    state 3 = {w: [a-z]+}     base: "a" "b" … "z" "ab"     one group: {w} ends at the node "a", with 6 nodes below
    state 5 = {"]", ","}      base: "]" ","                two groups: {","} ends at ",", {"]"} ends at "]"
    row 2, after "[", in state 3: mask = base + delta;     delta: "a," "a]" "a,b]", what row 3 (after w) allows below "a"

What comes next at a group's ends depends on the row only through the lexer states that the next row starts in. So the base of
*such a start state below the ends of such a group* is recorded too (:func:`base_of`), and has groups of its own: a token of
several lexemes is found by a chain of bases, and a new row only has to follow the chains
(:mod:`cdplugin.kernels.masks.masks`).

Walk: the trie is an array in depth-first order with the size of each subtree, so a dead node is skipped by one addition and
there is no stack but arrays by depth (llguidance's toktrie note derives the loop). Below a node in whose state few bytes lead
anywhere (:mod:`cdplugin.kernels.lexer.heads`), the children with these bytes are found by bisection; a subtree all of whose
bytes lead back to the state, or that has only letters where any of them may come, is taken whole
(:mod:`cdplugin.kernels.masks.walk`). Plain text is not walked at all: where a
lexer state is known to live through ``n`` characters of a vocabulary's slices (:mod:`cdplugin.kernels.lexer.plain_text`), the
mask of the tokens of at most ``n`` such characters is taken as it is, and only the rest of the trie is walked.

Why a slice mask is exact: its tokens are all the tokens that are plain text of at most ``n`` characters, and each of them
leaves the state alive, so all of them are allowed. None of them is lost, since the walk leaves out only those (``skip_chars``)
or, where plain text longer than ``n`` is dead anyway, the whole trie of plain text. Ends inside what is left out are not
needed: all tokens below them are allowed already. And a state in which a lexeme could end in plain text, and another go on, is
not given an odd bound (:mod:`cdplugin.kernels.regex.slices`).

Many states differ only in keywords that are open beside a name or a comment, or in the property names that are open beside a
text that must be none of them. Such a state takes over the base of a simplified one (its *parent*), without the keywords and
without the exceptions, and is walked only where it differs from that, which is along the spellings of its words. So does one
that most bytes lead on from as from a state that was walked before (:mod:`cdplugin.kernels.masks.neighbours`).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, ending_of, longest_of, mask_base_of, rest_of, value_of
from cdplugin.kernels.lexer.heads import MOST_HEADS, head_from, head_place
from cdplugin.kernels.lexer.lexer import saturated_within, transition
from cdplugin.kernels.lexer.plain_text import plain_chars
from cdplugin.kernels.lexer.rows import has_long_row, is_beside, known_transition, row_of
from cdplugin.kernels.lexer.simplified import simplified_state
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.masks.ends import PASSED_BITS, add_end, group_ends, overlap
from cdplugin.kernels.masks.far_words import is_spelled, spell_far_words
from cdplugin.kernels.masks.fields import groups_of, n_groups_of, parent_of, record_base
from cdplugin.kernels.masks.neighbours import neighbour_of, note_walked
from cdplugin.kernels.masks.shared import LEAST_NODES, is_shareable, shared_base
from cdplugin.kernels.masks.token_lists import close_list, fold
from cdplugin.kernels.masks.walk import ANY_KIND, COPIED_BITS, begin_walk, child_from, end_walk, head_kinds, takes_all_below
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import aux_of, copy_words, has_room, header, i32, i64, length_of, set_aux, u8, word_of
from cdplugin.kernels.store.stack import intern_words, push

_FEW, _LONG, _SHAPE_BITS = 1, 2, 2  # of a row in a walk: few bytes go on; it has an entry for each byte
_MANY = 1024  # tokens of a subtree that are added to a bitmask at once


@kernel
def base_of(h, state, ends):
    """Record number of the base of a (saturated) lexer state, in the whole trie (``ends`` = 0) or below the ends of a group
    (their ``K_ENDS`` value), walked now if it is new; or a status.

    A base is made from that of the *simplified* state if there is one, which is walked first, or from a neighbour's. Bases are
    nested one level deep only: that one has no parent, so a mask is written from two lists at most. Below ends, a base of
    EXACT lexemes has no parent: it might have tokens to take away from it (B_LESS), and the lists of a delta are only united.
    Nor has one below ends that :func:`~cdplugin.kernels.masks.ends.overlap`: an end of its own replaces the parent's at its
    node (:func:`~cdplugin.kernels.masks.ends.group_ends`), which may be that of a walk from another of the nodes.

    Cost of a new base: a walk of the trie (300,000 nodes for 128,000 tokens, most of them skipped or taken whole); beside a
    parent, a walk along its own words.
    """
    known = _known_base(h, state, ends)
    if known != statuses.UNKNOWN:
        return known
    parent = np.int64(-1)
    other = state
    if ends == 0 or (ending_of(h, word_of(h, value_of(h, state), 0) >> 32) != layout.EXACT and not overlap(h, ends)):
        other = simplified_state(h, state)
        if other < 0:
            return other
    if other != state:
        parent = _known_base(h, other, ends)
        if parent == statuses.UNKNOWN:
            parent = _whole_base(h, other, ends)
        if parent < 0:
            return parent
        # its base was made while it was a state like any other; two levels are not written
        if parent_of(h, parent) >= 0:
            other, parent = state, np.int64(-1)
    if parent < 0 and ends == 0 and not is_spelled(h, state):
        shared = shared_base(h, state)
        if shared != statuses.UNKNOWN:
            return shared
        other = neighbour_of(h, state)
        if other < 0:
            return other
        parent = mask_base_of(h, other)
    return _new_base(h, state, ends, other, parent)


@kernel
def _known_base(h, state, ends):
    """:func:`base_of` if it was walked, else ``UNKNOWN``; or a status.

    In the whole trie it stands in L_BASE. Below ends it is keyed by (ends, state), not by row, so all rows that start in a
    state share it; the key is a value like any other, and its ``V_AUX`` holds 1 + the number.
    """
    if ends == 0:
        number = mask_base_of(h, state)
    else:
        key = intern_words(h, layout.K_BASE, 2, ends, state, 0, 0)
        if key < 0:
            return key
        number = aux_of(h, key) - 1
    return number if number >= 0 else np.int64(statuses.UNKNOWN)


@kernel
def _whole_base(h, state, ends):
    """Record number of a new base without a parent: taken over from what grammars have in common, or walked; or a status."""
    shared = shared_base(h, state) if ends == 0 else np.int64(statuses.UNKNOWN)
    return _new_base(h, state, ends, state, np.int64(-1)) if shared == statuses.UNKNOWN else shared


@kernel
def _new_base(h, state, ends, other, parent):
    """Walk and record a new base of ``state`` (:func:`base_of`).

    ``parent``: -1, or the base, for the same nodes, of the state ``other``. Returns the number of the record, or a
    status; a walk that fails gives back what it wrote to TOKEN_LISTS and ENDS. The walk appends tokens and ends behind what is
    in use; then the ends are turned into groups in place (:func:`group_ends`), and the tokens into a closed list
    (:func:`~cdplugin.kernels.masks.token_lists.close_list`).
    """
    head = header(h)
    number = head[layout.N_BASES]
    # room for the record first: a walk that could not be recorded would have to be made again
    if not has_room(h, layout.BASES, (number + 1) * mask_layout.BASE_WORDS):
        return np.int64(statuses.GROW)
    tokens_start = head[layout.TOKENS_USED]
    ends_start = head[layout.ENDS_USED]
    visited = head[layout.C_NODES]
    slice_row = np.int64(-1)
    folded = np.int64(0)
    if ends == 0 and parent < 0:
        status = _walk_root(h, state)
        slice_row, folded = status >> 1, status & 1
    else:
        status = _walk_below(h, state, ends, other, parent)
    groups = np.int64(0)
    if status >= 0:
        if parent >= 0:
            groups = group_ends(h, ends_start, groups_of(h, parent), n_groups_of(h, parent))
        else:
            groups = group_ends(h, ends_start, 0, 0)
        status = min(groups, np.int64(0))
    length = np.int64(0)
    saved = head[layout.STACK_TOP]
    n_less = np.int64(0)
    if status >= 0 and parent >= 0:
        # the list must hold nothing but ids before it is closed; what is taken away waits on the stack
        n_less = _set_apart(h, tokens_start)
        status = min(n_less, np.int64(0))
    if status >= 0:
        length = np.int64(mask_layout.AS_BITMASK if folded else close_list(h, tokens_start))
        if length < 0 or not has_room(h, layout.TOKEN_LISTS, head[layout.TOKENS_USED] + n_less):
            status = np.int64(statuses.GROW)
    head[layout.STACK_TOP] = saved
    if status < 0:
        head[layout.TOKENS_USED] = tokens_start
        head[layout.ENDS_USED] = ends_start
        return status
    head[layout.C_BASES] += 1
    n_groups = (head[layout.ENDS_USED] - groups) // mask_layout.GROUP_WORDS
    # row 0 holds the slice tokens of no characters: none
    slice_row = slice_row if slice_row > 0 else np.int64(-1)
    record_base(h, slice_row, tokens_start, length, groups, n_groups, parent, head[layout.TOKENS_USED], n_less)
    visited = head[layout.C_NODES] - visited
    if ends == 0 and parent < 0:
        note_walked(h, state, visited)
        if visited >= LEAST_NODES and is_shareable(h, state):
            i64(h, layout.BASES)[number * mask_layout.BASE_WORDS + mask_layout.B_LEARN] = state
            head[layout.C_UNSHARED] += 1
    copy_words(i32(h, layout.TOKEN_LISTS), head[layout.TOKENS_USED], i64(h, layout.STACK), saved, n_less)
    head[layout.TOKENS_USED] += n_less
    if ends:
        set_aux(h, intern_words(h, layout.K_BASE, 2, ends, state, 0, 0), number + 1)
    else:
        i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_BASE] = number
    return number


@kernel
def _walk_below(h, state, ends, other, parent):
    """The walks of :func:`_new_base` below ``ends`` (0: below the root), beside ``other`` where there is a parent; 0 or a
    status.
    """
    if ends == 0:
        return _walk_beside(h, state, other, np.int64(mask_layout.ROOT_NODE), np.int64(0))
    kinds = np.int64(ANY_KIND) if parent >= 0 else head_kinds(h, state)
    if kinds < 0:
        return kinds
    below = i32(h, layout.TRIE_BELOW)
    head = header(h)
    head[layout.WORK_LEFT] -= length_of(h, ends) >> (1 + PASSED_BITS)
    for i in range(0, length_of(h, ends), 2):
        node = word_of(h, ends, i)
        # below most nodes at which whitespace or a number ends, nothing that this state begins with comes
        if node >= 0 and below[node] & kinds == 0:
            continue
        begun = word_of(h, ends, i + 1)
        if parent >= 0:
            status = _walk_beside(h, state, other, node, begun)
        else:
            status = _walk(h, state, node, begun, node + 1, np.int64(-1))
        if status < 0:
            return status
    return np.int64(0)


@kernel
def _walk_root(h, state):
    """The walk of :func:`_new_base` of the whole trie, less what a slice mask holds: ``2 r + b``, ``r`` the row of that mask
    (0: no tokens), ``b`` = 1 if the list of tokens is a bitmask; or a status.
    """
    spelled = spell_far_words(h, state)
    if spelled:
        return min(spelled, np.int64(0))
    head = header(h)
    slice_row = np.int64(0)
    first_node = np.int64(0)
    if head[layout.USE_SLICES]:
        plain = plain_chars(h, state)
        if plain < 0:
            return plain
        chars = plain >> 1
        if chars >= head[layout.MAX_CHARS]:  # every slice token
            slice_row = head[layout.N_SLICES] - 1
            first_node = head[layout.SLICE_END]
        else:
            # the last row holds the tokens of every length, so the row of a number of characters is below it
            slice_row = min(chars, head[layout.N_SLICES] - 2)
            if plain & 1 and slice_row == chars:  # and none of the longer ones
                first_node = head[layout.SLICE_END]
    skipped = slice_row if head[layout.USE_SLICES] else np.int64(-1)
    status = _walk(h, state, np.int64(mask_layout.ROOT_NODE), np.int64(0), first_node, skipped)
    return status if status < 0 else 2 * slice_row + status


@kernel
def _set_apart(h, start):
    """Move the tokens to take away from the list at ``start`` to the stack; how many, or a status.

    :func:`_walk_beside` writes one list: ``t`` is a token to add to the parent's tokens, ``~t`` one to take away from them.
    """
    head = header(h)
    tokens = i32(h, layout.TOKEN_LISTS)
    kept = start
    count = np.int64(0)
    for i in range(start, head[layout.TOKENS_USED]):
        token = np.int64(tokens[i])
        if token >= 0:
            tokens[kept] = token
            kept += 1
        elif push(h, ~token) < 0:
            return np.int64(statuses.GROW)
        else:
            count += 1
    head[layout.TOKENS_USED] = kept
    return count


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
def _row_shape(h, state):
    """Where the row of a state begins, and in the lowest bits whether its heads are few and its row is long; or a status."""
    row = row_of(h, state)
    if row < 0:
        return row
    n_heads = i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_N_HEADS]
    return row << _SHAPE_BITS | (_FEW if n_heads <= MOST_HEADS else 0) | (_LONG if has_long_row(h, state) else 0)


@kernel
def _walk(h, state, node, begun, first_node, skip_chars):
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
    large subtrees at once. Nothing is undone on the way up: an entry of the arrays by depth is overwritten by the next node of
    that depth. Work: a unit for every two nodes visited.
    """
    head = header(h)
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    chars = i32(h, layout.TRIE_CHARS)
    reaches = u8(h, layout.TRIE_REACH)
    ranks = i32(h, layout.TRIE_RANK)
    listed = i32(h, layout.TRIE_LISTED)
    transitions = i32(h, layout.TRANSITIONS)
    # slice tokens come first in the trie, so a node's place tells whether the slice mask may hold its subtree
    slice_end = head[layout.SLICE_END] if skip_chars >= 0 else np.int64(0)
    top, base, levels, end = begin_walk(h, node, 4)
    row = _row_shape(h, state) if top >= 0 else top
    if row < 0:
        return row
    words = i64(h, layout.STACK)  # by depth: states from base on, nodes, whether the node has its end, rows with their shapes
    words[top] = state
    words[top + levels] = node
    words[top + 2 * levels] = 0
    words[top + 3 * levels] = row
    out = i32(h, layout.TOKEN_LISTS)
    used = start = head[layout.TOKENS_USED]
    # a list that may become a bitmask has room for one behind it; below ends (the root is one where a lexeme ended before the
    # token) other walks add to the list, so it stays ids
    spare = head[layout.WORDS] if node < 0 and begun == 0 else np.int64(0)
    room = out.shape[0] - spare
    folded = False
    visited = 0
    at = first_node
    while at < end:
        visited += 1
        if at < slice_end and chars[at] <= skip_chars:
            at += skips[at]
            continue
        depth = base + depths[at]
        before = words[depth - 1]
        byte = np.int64(bytes_[at])
        # nearly every byte is known: a long row is read here, without the call
        row = words[depth - 1 + 3 * levels]
        if row & _LONG:
            after = np.int64(transitions[(row >> _SHAPE_BITS) + byte])
        else:
            after = known_transition(h, before, byte)
        if after == 0:
            if row & _FEW and head_place(h, before, byte) < 0:
                at = _next_child(h, before, words[depth - 1 + levels], at)
            else:  # a head, too, may be dead
                at += skips[at]
            continue
        # the LONGEST lexemes that ended at the top would not have, had this byte been theirs
        if begun and depth == top + 1:
            own = transition(h, begun, byte)
            if own < 0:
                return own
            if own != lexer_layout.BEFORE:
                at += skips[at]
                continue
        if after < 0:
            after = transition(h, before, byte)
            if after < 0:
                return after
            if after == 0:
                at += skips[at]
                continue
        if after == lexer_layout.BEFORE:
            # all bytes that end the lexeme stand below one node: one end for all of them
            if words[depth - 1 + 2 * levels] == 0:
                words[depth - 1 + 2 * levels] = 1
                if add_end(h, words[depth - 1 + levels], longest_of(h, before), before) < 0:
                    return np.int64(statuses.GROW)
            at += skips[at]
            continue
        if used >= room:
            # only a list of the whole trie becomes a bitmask, and needs room behind that
            if spare == 0 or used - start <= 2 * spare or room - start < 3 * spare:
                has_room(h, layout.TOKEN_LISTS, room + spare + min(end - at, 1 << 16))  # the walk starts again: not too often
                return np.int64(statuses.GROW)
            head[layout.TOKENS_USED] = used
            folded = fold(h, start, folded) == mask_layout.AS_BITMASK
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
            first, last = ranks[at + 1], ranks[at + skips[at]]
            if spare and last - first >= _MANY and not folded and used < room:
                head[layout.TOKENS_USED] = used
                folded = fold(h, start, False) == mask_layout.AS_BITMASK
                used = head[layout.TOKENS_USED]
            if not folded and used + last - first > room:
                has_room(h, layout.TOKEN_LISTS, used + last - first + spare)
                return np.int64(statuses.GROW)
            if folded:
                for i in range(first, last):
                    out[start + (listed[i] >> 5)] |= np.int32(1 << (listed[i] & 31))
            else:
                copy_words(out, used, listed, first, last - first)
                used += last - first
            visited += (last - first) >> COPIED_BITS
            at += skips[at]
            continue
        words[depth] = after
        words[depth + levels] = at
        words[depth + 2 * levels] = 0
        words[depth + 3 * levels] = row
        at += 1
    head[layout.TOKENS_USED] = used
    if folded:
        fold(h, start, True)
    status = end_walk(h, top, visited, 0)
    return status if status < 0 else np.int64(folded)


@kernel
def _walk_beside(h, state, other, node, begun):
    """Append the differences between the bases of ``state`` and ``other``: ``t`` for a token that only the first has,
    ``~t`` for one that only the second has, and the ends at nodes by which they differ. 0 or a status.

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
    words = i64(h, layout.STACK)  # by depth: states from base on, the other's, the place of the node's end (-1: none), nodes
    words[top] = state
    words[top + levels] = other
    words[top + 2 * levels] = -1
    words[top + 3 * levels] = node
    # at the top itself a LONGEST lexeme may end before the first byte
    if longest_of(h, state) or longest_of(h, other):
        place = add_end(h, node, 0, 0)
        if place < 0:
            return np.int64(statuses.GROW)
        words[top + 2 * levels] = place
    visited = 0
    at = node + 1
    while at < end:
        visited += 1
        depth = base + depths[at]
        before = words[depth - 1]
        theirs = words[depth - 1 + levels]
        byte = np.int64(bytes_[at])
        if before and is_beside(h, before, theirs) and head_place(h, before, byte) < 0:
            at = _next_child(h, before, words[depth - 1 + 3 * levels], at)
            continue
        if begun and depth == top + 1:
            own = transition(h, begun, byte)
            if own < 0:
                return own
            if own != lexer_layout.BEFORE:
                at += skips[at]
                continue
        # one of the two may be dead already; below such a node all tokens of the other tell them apart
        after = transition(h, before, byte) if before else np.int64(0)
        beside = transition(h, theirs, byte) if theirs else np.int64(0)
        if after < 0 or beside < 0:
            return min(after, beside)
        if after == lexer_layout.BEFORE:
            place = words[depth - 1 + 2 * levels]
            ends = i64(h, layout.ENDS)
            ends[place + mask_layout.E_SCANNED] = longest_of(h, before)
            ends[place + mask_layout.E_BEGUN] = before
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
        scanned = np.int64(0)
        scanned_beside = np.int64(0)
        if beside & lexer_layout.ENDS_BIT:
            beside &= lexer_layout.STATE_MASK
            scanned_beside = accepted_of(h, beside)
            beside = rest_of(h, beside)
        if after & lexer_layout.ENDS_BIT:
            after &= lexer_layout.STATE_MASK
            scanned = accepted_of(h, after)
            after = rest_of(h, after)
        if reaches[at] > 0:
            after = saturated_within(h, after, reaches[at]) if after else after
            beside = saturated_within(h, beside, reaches[at]) if beside else beside
            if after < 0 or beside < 0:
                return min(after, beside)
        if after == beside and scanned == scanned_beside:  # the other's end at this node stays: one noted here would replace it
            at += skips[at]
            continue
        place = np.int64(-1)
        if skips[at] > 1 and (scanned or scanned_beside or longest_of(h, after) or longest_of(h, beside)):
            place = add_end(h, at, scanned, 0)
            if place < 0:
                return np.int64(statuses.GROW)
        if after == beside:
            at += skips[at]
            continue
        words[depth] = after
        words[depth + levels] = beside
        words[depth + 2 * levels] = place
        words[depth + 3 * levels] = at
        row = row_of(h, after) if after else np.int64(0)
        if row < 0:
            return row
        at += 1
    return end_walk(h, top, visited, 0)
