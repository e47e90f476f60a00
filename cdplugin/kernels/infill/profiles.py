"""Masks by what tokens do instead of by tokens: for grammars of EXACT lexemes.

From a lexer state a token does one or more of a few things (*outcomes*): it leads to a state inside a lexeme; it ends lexemes
with its last byte; or it ends lexemes inside, and what is left of it has a class (:mod:`cdplugin.kernels.infill.effects`).
Which tokens do what depends on the state alone, so it is found once, by one walk of the trie, and kept as lists of tokens (or
bitmasks where that is shorter). A mask then decides each outcome once beside a column.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.infill.columns import scan
from cdplugin.kernels.infill.effects import E_CROSSINGS, E_ENDS, E_FIRST, E_STATES
from cdplugin.kernels.infill.workspace import (
    CLASS_OF,
    CLASS_RECORD,
    OUTCOME_HASH,
    OUTCOMES,
    POOL,
    PROFILE_OF,
    QUEUE,
    W_GROW,
    W_POOL_USED,
    WORK_B,
    room,
    tab,
    whead,
)
from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.lexer import ENDS_BIT, L_ACCEPTED, L_REST, LEXER_WORDS, STATE_MASK, transition
from cdplugin.kernels.store.arena import GROW as ARENA_GROW
from cdplugin.kernels.store.arena import (
    K_ACCEPTED,
    LEXER_STATES,
    MAX_DEPTH,
    N_NODES,
    STACK,
    STACK_TOP,
    TOKEN_OFFSETS,
    TRIE_BYTE,
    TRIE_DEPTH,
    TRIE_SKIP,
    TRIE_TOKEN,
    WORDS,
    has_room,
    header,
    i32,
    i64,
    intern,
    mix,
    u8,
)

INSIDE, ENDS, CROSSES = range(3)
# a profile: the number of outcomes, then for each: kind, what (state, accepted set), class, number of tokens (-1: a bitmask),
# and where they are, counted from the profile
P_KIND, P_WHAT, P_CLASS, P_COUNT, P_AT = range(5)
OUTCOME_WORDS = 5


@kernel
def profile_of(h, w, state):
    """The profile of a lexer state: its offset in ``POOL``, or a status. Walks the whole trie once."""
    if not room(w, PROFILE_OF, state + 1):
        return np.int64(W_GROW)
    known = tab(w, PROFILE_OF)[state]
    if known > 0:
        return known
    index = tab(w, OUTCOME_HASH)
    for i in range(index.shape[0]):
        index[i] = 0
    n_trie = header(h)[N_NODES]
    bytes_ = u8(h, TRIE_BYTE)
    depths = i32(h, TRIE_DEPTH)
    skips = i32(h, TRIE_SKIP)
    tokens = i32(h, TRIE_TOKEN)
    offsets = i64(h, TOKEN_OFFSETS)
    class_of = tab(w, CLASS_OF)
    if not room(w, WORK_B, header(h)[MAX_DEPTH] + 2):
        return np.int64(W_GROW)
    path = tab(w, WORK_B)
    path[0] = state
    n_outcomes = np.int64(0)
    n_pairs = np.int64(0)  # QUEUE: (outcome << 32 | token)
    node = np.int64(0)
    while node < n_trie:
        depth = np.int64(depths[node])
        after = transition(h, path[depth - 1], np.int64(bytes_[node]))
        if after < 0:
            return after
        if after == 0:
            node += skips[node]
            continue
        token = np.int64(tokens[node])
        if after & ENDS_BIT:
            after &= STATE_MASK
            records = i64(h, LEXER_STATES)
            ended = records[after * LEXER_WORDS + L_ACCEPTED]
            after = records[after * LEXER_WORDS + L_REST]
            for below in range(node, node + skips[node]):
                other = np.int64(tokens[below])
                if other < 0:
                    continue
                group = np.int64(0)
                if below > node:
                    group = class_of[offsets[other] + depth]
                    if group == 0:
                        continue
                outcome = _outcome(w, n_outcomes, CROSSES if below > node else ENDS, ended, group)
                if outcome < 0:
                    return outcome
                n_outcomes = max(n_outcomes, outcome + 1)
                if not room(w, QUEUE, n_pairs + 1):
                    return np.int64(W_GROW)
                tab(w, QUEUE)[n_pairs] = (outcome << 32) | other
                n_pairs += 1
            if after == 0:
                node += skips[node]
                continue
        if token >= 0:
            outcome = _outcome(w, n_outcomes, INSIDE, after, np.int64(0))
            if outcome < 0:
                return outcome
            n_outcomes = max(n_outcomes, outcome + 1)
            if not room(w, QUEUE, n_pairs + 1):
                return np.int64(W_GROW)
            tab(w, QUEUE)[n_pairs] = (outcome << 32) | token
            n_pairs += 1
        path[depth] = after
        node += 1
    return _write_profile(h, w, state, n_outcomes, n_pairs)


@kernel
def _outcome(w, count, kind, what, group):
    """The number of an outcome of the profile under way (``count`` if it is new); or ``W_GROW``."""
    index = tab(w, OUTCOME_HASH)
    if 2 * (count + 1) > index.shape[0]:
        room(w, OUTCOME_HASH, 2 * index.shape[0])
        return np.int64(W_GROW)
    if not room(w, OUTCOMES, (count + 1) * OUTCOME_WORDS):
        return np.int64(W_GROW)
    outcomes = tab(w, OUTCOMES)
    hash_ = mix(mix(2166136261, (what << 2) | kind), group)
    size = index.shape[0] - 1
    slot = (hash_ ^ (hash_ >> 16)) & size
    while index[slot] != 0:
        at = (index[slot] - 1) * OUTCOME_WORDS
        if outcomes[at + P_KIND] == kind and outcomes[at + P_WHAT] == what and outcomes[at + P_CLASS] == group:
            outcomes[at + P_COUNT] += 1
            return index[slot] - 1
        slot = (slot + 1) & size
    index[slot] = count + 1
    at = count * OUTCOME_WORDS
    outcomes[at + P_KIND] = kind
    outcomes[at + P_WHAT] = what
    outcomes[at + P_CLASS] = group
    outcomes[at + P_COUNT] = 1
    return np.int64(count)


@kernel
def _write_profile(h, w, state, n_outcomes, n_pairs):
    """Store the outcomes and their tokens; the profile's offset, or ``W_GROW``. Two tokens' ids, or mask words, to a word."""
    head = whead(w)
    base = head[W_POOL_USED]
    mask_words = (header(h)[WORDS] + 1) // 2
    outcomes = tab(w, OUTCOMES)
    total = 1 + n_outcomes * OUTCOME_WORDS
    for i in range(n_outcomes):
        at = i * OUTCOME_WORDS
        outcomes[at + P_AT] = total
        if outcomes[at + P_COUNT] > mask_words:
            outcomes[at + P_COUNT] = -1
            total += mask_words
        else:
            total += outcomes[at + P_COUNT]
    if not room(w, POOL, base + total):
        return np.int64(W_GROW)
    pool = tab(w, POOL)
    for i in range(base, base + total):
        pool[i] = 0
    pool[base] = n_outcomes
    for i in range(n_outcomes * OUTCOME_WORDS):
        pool[base + 1 + i] = outcomes[i]
    queue = tab(w, QUEUE)
    for i in range(n_pairs):
        at = (queue[i] >> 32) * OUTCOME_WORDS
        token = queue[i] & 0xFFFFFFFF
        if outcomes[at + P_COUNT] == -1:
            pool[base + outcomes[at + P_AT] + (token >> 6)] |= np.int64(1) << (token & 63)
        else:
            pool[base + outcomes[at + P_AT]] = token
            outcomes[at + P_AT] += 1
    head[W_POOL_USED] = base + total
    tab(w, PROFILE_OF)[state] = base
    return base


@kernel
def add_tokens(h, w, profile, outcome, out):
    """OR the tokens of an outcome into a mask row."""
    pool = tab(w, POOL)
    at = profile + 1 + outcome * OUTCOME_WORDS
    first = profile + pool[at + P_AT]
    if pool[at + P_COUNT] >= 0:
        for i in range(first, first + pool[at + P_COUNT]):
            out[pool[i] >> 5] |= np.int32(1 << (pool[i] & 31))
        return
    for i in range(out.shape[0]):
        word = (pool[first + (i >> 1)] >> (32 * (i & 1))) & 0xFFFFFFFF
        out[i] |= np.int32(word - (np.int64(1) << 32) if word >> 31 else word)


@kernel
def accepted_of(h, lexeme):
    """The set of one lexeme, as an accepted set; or a status."""
    head = header(h)
    base = head[STACK_TOP]
    if not has_room(h, STACK, base + 1):
        return np.int64(ARENA_GROW)
    i64(h, STACK)[base] = lexeme
    return np.int64(intern(h, K_ACCEPTED, base, 1))


@kernel
def push_class(h, w, column, group, count):
    """Append to ``OUTCOMES`` the (column, state) pairs in which what is left of a token may end: state 0 is a boundary.

    Classes that are left again are followed. Returns the number of pairs, or a status. The work list lies in ``WORK_B``.
    """
    if not room(w, WORK_B, 2):
        return np.int64(W_GROW)
    work = tab(w, WORK_B)
    work[0] = column
    work[1] = group
    top = 2
    while top > 0:
        top -= 2
        column = tab(w, WORK_B)[top]
        record = tab(w, CLASS_RECORD)[tab(w, WORK_B)[top + 1]]
        pool = tab(w, POOL)
        n_states = pool[record + E_STATES]
        n_ends = pool[record + E_ENDS]
        first = record + E_FIRST
        for i in range(first, first + n_states):
            count = _push_pair(w, count, column, pool[i])
            if count < 0:
                return count
        for i in range(first + n_states, first + n_states + n_ends + pool[record + E_CROSSINGS]):
            crossing = i >= first + n_states + n_ends
            accepted = accepted_of(h, pool[i] >> 32) if crossing else pool[i]
            if accepted < 0:
                return accepted
            after = scan(h, w, column, accepted)
            if after < 0:
                return after
            if after == 0:
                continue
            if not crossing:
                count = _push_pair(w, count, after, np.int64(0))
                if count < 0:
                    return count
                continue
            if not room(w, WORK_B, top + 2):
                return np.int64(W_GROW)
            tab(w, WORK_B)[top] = after
            tab(w, WORK_B)[top + 1] = pool[i] & 0xFFFFFFFF
            top += 2
    return np.int64(count)


@kernel
def _push_pair(w, count, column, state):
    if not room(w, OUTCOMES, 2 * count + 2):
        return np.int64(W_GROW)
    pairs = tab(w, OUTCOMES)
    pairs[2 * count] = column
    pairs[2 * count + 1] = state
    return np.int64(count + 1)
