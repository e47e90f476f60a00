"""Mask bases: the tokens that a lexer state allows below some nodes of the token trie, whatever the row is.

The base of a lexer state holds the tokens that stay inside the state's lexemes, and those at whose last byte a lexeme ends
(every row allows what its lexemes allow, so a row can always go on from there). At a node where a lexeme ends but the trie goes
on, the row decides about the tokens below. The base lists such nodes as *ends* ``(node, begun)``, in *groups* by the lexemes
that end there. ``begun`` is 0, or the state of LONGEST lexemes that end at the node: from there only bytes go on by which these
lexemes cannot continue (their transition is ``BEFORE``).

For example, take ``S: "[" L "]"   L: w | w "," L   w: /[a-z]+/`` and as tokens the bytes, ``ab``, ``a,``, ``a]``, ``a,b]``::

    state 3 = {w: [a-z]+}     base: "a" "b" … "z" "ab"     one group: {w} ends at the node "a", with 6 nodes below
    state 5 = {"]", ","}      base: "]" ","                two groups: {","} ends at ",", {"]"} ends at "]"
    row 2, after "[", in state 3: mask = base + delta;     delta: "a," "a]" "a,b]", what row 3 (after w) allows below "a"

After a group's ends, the row matters only through the lexer states in which the next row starts. So :func:`base_of` also
records the base of *such a start state below the nodes of such a group*, which has groups of its own. A token that spans
several lexemes is then found along a chain of bases, and a new row only follows chains that exist already
(:mod:`cdplugin.kernels.masks.masks`). :mod:`cdplugin.kernels.masks.base_walk` describes the walk itself.

Many states differ only in words: keywords beside a name or a comment, or the property names that a text must not equal. The
base of such a state is stored as a difference from that of a *parent*, the simplified state without these words, so the walk
follows only the spellings of the words. A state that resembles one walked before takes that one as its parent
(:mod:`cdplugin.kernels.masks.neighbours`).
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
    """Return the record number of the base of a saturated lexer state, walking the trie if the base is new; or a status.

    ``ends``: 0 for the whole trie, or the ``K_ENDS`` value of a group, for the base below that group's nodes.

    A base is stored as a difference from the base of the *simplified* state, if there is one (made first), or of a neighbour.
    Bases nest one level deep only: a parent has no parent, so a mask is written from two lists at most. Below ends, two kinds
    of bases have no parent. Those of EXACT lexemes, since they might have to remove tokens of the parent (B_LESS), but the
    lists of a delta are only united. And those below ends that :func:`~cdplugin.kernels.masks.ends.overlap`: there one node is
    reached by walks from two nodes of the group, and an end of our own at it would replace the parent's end of the other walk
    too (:func:`~cdplugin.kernels.masks.ends.group_ends`).

    Cost of a new base: a walk of the trie (300,000 nodes for 128,000 tokens, most of them skipped or taken as whole subtrees);
    with a parent, a walk along the words alone.
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
        # that base was made as a difference from a third one; bases nest one level deep only, so it cannot be a parent
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
    """Return the number of the base if it has been made, else ``UNKNOWN``; or a status.

    For the whole trie the number stands in L_BASE. Below ends the key is (ends, state), without the row, so all rows that start
    in the state share the base. The key is interned as a ``K_BASE`` value, whose ``V_AUX`` holds 1 + the number.
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
    """Make a base without a parent, from the shared store or by a walk; return its record number, or a status."""
    shared = shared_base(h, state) if ends == 0 else np.int64(statuses.UNKNOWN)
    return _new_base(h, state, ends, state, np.int64(-1)) if shared == statuses.UNKNOWN else shared


@kernel
def _new_base(h, state, ends, other, parent):
    """Walk and record a new base of ``state`` (:func:`base_of`); return its record number, or a status.

    ``parent``: -1, or the base of the state ``other`` for the same nodes. The walk appends tokens and ends to TOKEN_LISTS and
    ENDS. Then :func:`group_ends` turns the ends into groups, in place, and
    :func:`~cdplugin.kernels.masks.token_lists.close_list` closes the token list. A walk that fails releases what it wrote.
    """
    head = header(h)
    number = head[layout.N_BASES]
    # ask for the record's room first: a walk that cannot be recorded would have to be repeated
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
    """Record what a walk has appended to TOKEN_LISTS and ENDS as a base; 0 or a status. ``walked``: the result of
    :func:`_walk_root` or :func:`_walk_below`.
    """
    head = header(h)
    groups_of_parent = groups_of(h, parent) if parent >= 0 else np.int64(0)
    groups = group_ends(h, ends_start, groups_of_parent, n_groups_of(h, parent) if parent >= 0 else np.int64(0))
    if groups < 0:
        return groups
    # the list must hold only tokens to add before it is closed; the tokens to remove wait on the stack
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
    slice_row = walked >> 1 if walked >> 1 else np.int64(-1)  # row 0 (slice tokens of no characters) is empty
    record_base(h, slice_row, tokens_start, length, groups, n_groups, parent, less_start, n_less)
    return np.int64(0)


@kernel
def _walk_below(h, state, ends, other, parent):
    """Walk below each node of ``ends`` (0: below the root) for :func:`_new_base`, beside ``other`` if there is a parent; 0 or a
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
        # below most nodes at which whitespace or a number ends, no byte comes with which this state can begin
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
    """Walk the whole trie for :func:`_new_base`, except for the part that a slice mask covers.

    Returns ``2 r + b``, or a status. ``r``: the row of that slice mask, 0: none. ``b``: 1 if the token list is a bitmask.
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
            # the last row holds the slice tokens of any length; the rows before it are by number of characters
            slice_row = min(chars, head[layout.N_SLICES] - 2)
            if plain & 1 and slice_row == chars:  # longer plain text is dead: nothing of the slice trie is left to walk
                first_node = head[layout.SLICE_END]
    skipped = slice_row if head[layout.USE_SLICES] else np.int64(-1)
    status = walk_base(h, state, np.int64(mask_layout.ROOT_NODE), np.int64(0), first_node, skipped)
    return status if status < 0 else 2 * slice_row + status


@kernel
def _set_apart(h, start):
    """Move the tokens to remove from the list at ``start`` to the stack; return how many, or a status.

    :func:`~cdplugin.kernels.masks.base_walk.walk_beside` writes both kinds into one list: ``t`` is a token to add to the
    parent's tokens, ``~t`` one to remove from them.
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
