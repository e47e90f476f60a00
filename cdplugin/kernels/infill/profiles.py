"""Profiles: all tokens grouped by what they do to a lexer state, so a mask decides groups instead of tokens. For EXACT lexemes.

To a lexer state a token does one or more of a few things (*outcomes*): it leads to a state inside a lexeme (INSIDE); it ends
lexemes with its last byte (ENDS_WITH); or it ends lexemes inside the token, whose rest has a class (CROSSES,
:mod:`cdplugin.kernels.infill.effects`). Which tokens have which outcomes depends on the state alone. So one walk of the trie
finds them, and they are kept as lists of tokens, or bitmasks where these are shorter. A mask then decides each outcome once per
column.

In the state ``{w: [a-z]*}`` the tokens ``a … z ab`` lead to the same state (INSIDE) and end ``w`` (ENDS_WITH); ``a,`` ends
``w`` before the class of ``,`` (CROSSES), ``a]`` before that of ``]``, ``a,b]`` before that of ``,b]``, and ``ab`` before that
of ``b``: six outcomes for all tokens.
"""

import numpy as np

from cdplugin.kernels.infill import layout as ws
from cdplugin.kernels.infill.workspace import charge, clear_records, number_of, room, tab, whead
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import accepted_of, rest_of
from cdplugin.kernels.lexer.lexer import transition
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import copy_words, fill_words, has_room, header, i32, i64, intern, u8


@kernel
def profile_of(h, w, state):
    """The profile of a lexer state: its offset in ``POOL``, or a status. Memoised; walks the whole trie once.

    Pairs (outcome, token) are listed in ``QUEUE`` and counted, then distributed over the outcomes' lists.
    """
    if not room(w, ws.PROFILE_OF, state + 1):
        return np.int64(statuses.W_GROW)
    known = tab(w, ws.PROFILE_OF)[state]
    if known > 0:
        return known
    clear_records(w, np.int64(ws.W_N_OUTCOMES))
    n_trie = header(h)[layout.N_NODES]
    bytes_ = u8(h, layout.TRIE_BYTE)
    depths = i32(h, layout.TRIE_DEPTH)
    skips = i32(h, layout.TRIE_SKIP)
    tokens = i32(h, layout.TRIE_TOKEN)
    offsets = i64(h, layout.TOKEN_OFFSETS)
    class_of = tab(w, ws.CLASS_OF)
    if not room(w, ws.WORK_B, header(h)[layout.MAX_DEPTH] + 2):
        return np.int64(statuses.W_GROW)
    path = tab(w, ws.WORK_B)
    path[0] = state
    n_pairs = np.int64(0)  # QUEUE: (outcome << 32 | token)
    node = np.int64(0)
    while node < n_trie:
        if not charge(w, ws.NODE_WORK):
            return np.int64(statuses.W_GROW)
        depth = np.int64(depths[node])
        after = transition(h, path[depth - 1], np.int64(bytes_[node]))
        if after < 0:
            return after
        if after == 0:
            node += skips[node]
            continue
        token = np.int64(tokens[node])
        if after & lexer_layout.ENDS_BIT:
            after &= lexer_layout.STATE_MASK
            ended = accepted_of(h, after)
            after = rest_of(h, after)
            charge(w, ws.NODE_WORK * np.int64(skips[node]))
            for below in range(node, node + skips[node]):
                other = np.int64(tokens[below])
                if other < 0:
                    continue
                suffix_class = np.int64(0)
                if below > node:
                    suffix_class = class_of[offsets[other] + depth]
                    if suffix_class == 0:
                        continue
                n_pairs = _note(w, n_pairs, ws.CROSSES if below > node else ws.ENDS_WITH, ended, suffix_class, other)
                if n_pairs < 0:
                    return n_pairs
            if after == 0:
                node += skips[node]
                continue
        if token >= 0:
            n_pairs = _note(w, n_pairs, ws.INSIDE, after, np.int64(0), token)
            if n_pairs < 0:
                return n_pairs
        path[depth] = after
        node += 1
    charge(w, 4 * n_pairs)
    return _write_profile(h, w, state, n_pairs)


@kernel
def _note(w, count, kind, what, suffix_class, token):
    """Append the pair of an outcome and a token that has it to ``QUEUE``: how many pairs there are then; or ``W_GROW``."""
    key = (((what << ws.KIND_BITS) | kind) << ws.CLASS_BITS) | suffix_class
    outcome = number_of(w, ws.OUTCOME_INDEX, ws.OUTCOMES, ws.OUTCOME_WORDS, ws.W_N_OUTCOMES, key)
    if outcome < 0 or not room(w, ws.QUEUE, count + 1):
        return np.int64(statuses.W_GROW)
    tab(w, ws.OUTCOMES)[ws.OUTCOME_WORDS * outcome + ws.P_COUNT] += 1
    tab(w, ws.QUEUE)[count] = (outcome << 32) | token
    return count + 1


@kernel
def _write_profile(h, w, state, n_pairs):
    """Store the outcomes and their tokens; the profile's offset, or ``W_GROW``.

    An outcome's tokens are a list with a word for each, or, where that is shorter, a bitmask with two int32 mask words per
    word.
    """
    head = whead(w)
    base = head[ws.W_POOL_USED]
    n_outcomes = head[ws.W_N_OUTCOMES]
    mask_words = (header(h)[layout.WORDS] + 1) // 2
    outcomes = tab(w, ws.OUTCOMES)
    total = 1 + n_outcomes * ws.OUTCOME_WORDS
    for i in range(n_outcomes):
        at = i * ws.OUTCOME_WORDS
        outcomes[at + ws.P_AT] = total
        if outcomes[at + ws.P_COUNT] > mask_words:
            outcomes[at + ws.P_COUNT] = -1
            total += mask_words
        else:
            total += outcomes[at + ws.P_COUNT]
    if not room(w, ws.POOL, base + total):
        return np.int64(statuses.W_GROW)
    pool = tab(w, ws.POOL)
    fill_words(pool, base, total, 0)
    pool[base] = n_outcomes
    copy_words(pool, base + 1, outcomes, 0, n_outcomes * ws.OUTCOME_WORDS)
    queue = tab(w, ws.QUEUE)
    for i in range(n_pairs):
        at = (queue[i] >> 32) * ws.OUTCOME_WORDS
        token = queue[i] & 0xFFFFFFFF
        if outcomes[at + ws.P_COUNT] == -1:
            pool[base + outcomes[at + ws.P_AT] + (token >> 6)] |= np.int64(1) << (token & 63)
        else:
            pool[base + outcomes[at + ws.P_AT]] = token
            outcomes[at + ws.P_AT] += 1
    head[ws.W_POOL_USED] = base + total
    tab(w, ws.PROFILE_OF)[state] = base
    return base


@kernel
def add_tokens(w, profile, outcome, out):
    """OR the tokens of an outcome into a mask row."""
    pool = tab(w, ws.POOL)
    at = profile + 1 + outcome * ws.OUTCOME_WORDS
    first = profile + pool[at + ws.P_AT]
    charge(w, (pool[at + ws.P_COUNT] if pool[at + ws.P_COUNT] >= 0 else out.shape[0]) >> 1)
    if pool[at + ws.P_COUNT] >= 0:
        for i in range(first, first + pool[at + ws.P_COUNT]):
            out[pool[i] >> 5] |= np.int32(1 << (pool[i] & 31))
        return
    for i in range(out.shape[0]):
        word = (pool[first + (i >> 1)] >> (32 * (i & 1))) & 0xFFFFFFFF
        out[i] |= np.int32(word - (np.int64(1) << 32) if word >> 31 else word)


@kernel
def accepted_alone(h, lexeme):
    """The accepted set (``K_ACCEPTED`` value) of one lexeme; or a status."""
    head = header(h)
    base = head[layout.STACK_TOP]
    if not has_room(h, layout.STACK, base + 1):
        return np.int64(statuses.GROW)
    i64(h, layout.STACK)[base] = lexeme
    return np.int64(intern(h, layout.K_ACCEPTED, base, 1))
