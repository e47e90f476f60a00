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
(:mod:`cdplugin.kernels.masks.masks`). How the trie is walked stands in :mod:`cdplugin.kernels.masks.base_walk`.

Many states differ only in keywords that are open beside a name or a comment, or in the property names that are open beside a
text that must be none of them. Such a state takes over the base of a simplified one (its *parent*), without the keywords and
without the exceptions, and is walked only where it differs from that, which is along the spellings of its words. So does one
that most bytes lead on from as from a state that was walked before (:mod:`cdplugin.kernels.masks.neighbours`).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, mask_base_of, value_of
from cdplugin.kernels.lexer.plain_text import plain_chars
from cdplugin.kernels.lexer.simplified import simplified_state
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.masks.base_walk import walk_base, walk_beside
from cdplugin.kernels.masks.ends import PASSED_BITS, group_ends, overlap
from cdplugin.kernels.masks.far_words import is_spelled, spell_far_words
from cdplugin.kernels.masks.fields import groups_of, n_groups_of, parent_of, record_base
from cdplugin.kernels.masks.neighbours import neighbour_of, note_walked
from cdplugin.kernels.masks.shared import LEAST_NODES, is_shareable, shared_base
from cdplugin.kernels.masks.token_lists import close_list
from cdplugin.kernels.masks.walk import ANY_KIND, head_kinds
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import aux_of, copy_words, has_room, header, i32, i64, length_of, set_aux, word_of
from cdplugin.kernels.store.stack import intern_words, push


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
    is_from_root = ends == 0 and parent < 0
    walked = _walk_root(h, state) if is_from_root else _walk_below(h, state, ends, other, parent)
    saved = head[layout.STACK_TOP]
    status = walked if walked < 0 else _record_walked(h, tokens_start, ends_start, walked, parent)
    head[layout.STACK_TOP] = saved
    if status < 0:
        head[layout.TOKENS_USED] = tokens_start
        head[layout.ENDS_USED] = ends_start
        return status
    head[layout.C_BASES] += 1
    visited = head[layout.C_NODES] - visited
    if is_from_root:
        note_walked(h, state, visited)
        if visited >= LEAST_NODES and is_shareable(h, state):
            i64(h, layout.BASES)[number * mask_layout.BASE_WORDS + mask_layout.B_LEARN] = state
            head[layout.C_UNSHARED] += 1
    if ends:
        set_aux(h, intern_words(h, layout.K_BASE, 2, ends, state, 0, 0), number + 1)
    else:
        i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_BASE] = number
    return number


@kernel
def _record_walked(h, tokens_start, ends_start, walked, parent):
    """Record what a walk has appended to TOKEN_LISTS and ENDS as a base. ``walked``: what :func:`_walk_root` or
    :func:`_walk_below` returned. 0 or a status.
    """
    head = header(h)
    groups_of_parent = groups_of(h, parent) if parent >= 0 else np.int64(0)
    groups = group_ends(h, ends_start, groups_of_parent, n_groups_of(h, parent) if parent >= 0 else np.int64(0))
    if groups < 0:
        return groups
    # the list must hold nothing but ids before it is closed; what is taken away waits on the stack
    apart = head[layout.STACK_TOP]
    n_less = _set_apart(h, tokens_start) if parent >= 0 else np.int64(0)
    if n_less < 0:
        return n_less
    length = np.int64(mask_layout.AS_BITMASK if walked & 1 else close_list(h, tokens_start))
    less_start = head[layout.TOKENS_USED]
    if length < 0 or not has_room(h, layout.TOKEN_LISTS, less_start + n_less):
        return np.int64(statuses.GROW)
    copy_words(i32(h, layout.TOKEN_LISTS), less_start, i64(h, layout.STACK), apart, n_less)
    head[layout.TOKENS_USED] = less_start + n_less
    n_groups = (head[layout.ENDS_USED] - groups) // mask_layout.GROUP_WORDS
    slice_row = walked >> 1 if walked >> 1 else np.int64(-1)  # row 0 holds the slice tokens of no characters: none
    record_base(h, slice_row, tokens_start, length, groups, n_groups, parent, less_start, n_less)
    return np.int64(0)


@kernel
def _walk_below(h, state, ends, other, parent):
    """The walks of :func:`_new_base` below ``ends`` (0: below the root), beside ``other`` where there is a parent; 0 or a
    status.
    """
    if ends == 0:
        return walk_beside(h, state, other, np.int64(mask_layout.ROOT_NODE), np.int64(0))
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
            status = walk_beside(h, state, other, node, begun)
        else:
            status = walk_base(h, state, node, begun, node + 1, np.int64(-1))
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
    status = walk_base(h, state, np.int64(mask_layout.ROOT_NODE), np.int64(0), first_node, skipped)
    return status if status < 0 else 2 * slice_row + status


@kernel
def _set_apart(h, start):
    """Move the tokens to take away from the list at ``start`` to the stack; how many, or a status.

    :func:`~cdplugin.kernels.masks.base_walk.walk_beside` writes one list: ``t`` is a token to add to the parent's tokens,
    ``~t`` one to take away from them.
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
