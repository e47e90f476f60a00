"""Far words: words that no token reads to their end. Masks can ignore them, and then no new base has to be walked.

Inside a property name the lexer waits for the rest of one or several names, and perhaps for any text that is none of them.
Except in a name's last few bytes, no token contains the rest of a name. So the mask equals that of the arbitrary text alone;
or, if there is none, it is the set of tokens that spell a part of the names::

    {k1: cription", k2: laration", s: ([^"]* & ~(cription | laration))"}      as {s: [^"]*"}, whose base is known
    {k1: cription"}                                                           c, cr, cri, cript, cription

Both are found by following the words in the trie; no transition of the state itself is computed.

Why the masks are equal. Assume that no token reads a word to its end; that no token reads an exception ``F`` of an expression
``(A & ~F) T`` and the first byte after it; and that ``A`` is ``R{m,}``, so infinitely many texts continue whatever was read of
it. There are four kinds of tokens:

- A token that stays inside a word: the arbitrary text allows it too, since the simplified state goes on with every part of a
  word that a token reads. This is checked along the trie.
- A token that stays inside ``A``: it can be continued, since only finitely many of infinitely many texts are excluded.
- A token that leaves ``A`` and enters ``T``: it left ``A`` with a text that is none of ``F``, or it would have read an
  exception and a byte of ``T``.
- A token inside which a lexeme ends: that lexeme is none of the words, so the ends are those of the arbitrary text.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, far_of, roles_of, value_of
from cdplugin.kernels.lexer.lexer import going_on
from cdplugin.kernels.lexer.simplified import denies_words, simplified_state
from cdplugin.kernels.masks.walk import child_from
from cdplugin.kernels.regex.expressions import EPSILON, FINITE, THIN, nullable, split
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    copy_words,
    flags_of,
    has_room,
    header,
    i32,
    i64,
    kind_of,
    length_of,
    sort_unique,
    spend,
    u8,
    word_of,
)
from cdplugin.kernels.store.stack import push, push_pair

_MOST_LITERALS = 64  # of one K_LITERALS that are followed
_MOST_LOOKS = 256  # steps of the search that follows one exception


@kernel
def without_far_words(h, state):
    """Return the simplified state if every word and exception that it drops is far, else ``state`` itself; or a status.

    The two then have the same mask, with the same ends (see above). Only for states of EXACT lexemes, none of which tracks its
    value. Memoised in L_FAR. See :func:`~cdplugin.kernels.lexer.simplified.simplified_state` for what is dropped.
    """
    known = far_of(h, state)
    if known > 0:
        return known
    result = np.int64(state)
    value = value_of(h, state)
    if ending_of(h, word_of(h, value, 0) >> 32) == layout.EXACT and roles_of(h, state) <= 1 << layout.PLAIN:
        other = simplified_state(h, state)
        far = np.int64(0 if other == state else 1) if other > 0 else other
        for i in range(length_of(h, value)):
            if far > 0:
                far = _is_far(h, word_of(h, value, i) & layout.LOW_32, other)
        if far < 0:
            return far
        result = other if far else result
    i64(h, layout.LEXER_STATES)[state * lexer_layout.LEXER_WORDS + lexer_layout.L_FAR] = result
    return result


@kernel
def _is_far(h, e, other):
    """Return 1 if no token reads to the end of the words that the simplified state ``other`` drops of ``e``, 0 if not or not
    found out; or a status.
    """
    body, tail = split(h, e)
    kind = kind_of(h, body)
    if flags_of(h, e) & (THIN | FINITE) == THIN | FINITE:
        if kind == layout.K_LITERALS:
            return _are_far(h, body, other)
        if kind == layout.K_BYTES:
            return np.int64(0)
    second, rest = split(h, tail)
    has_second = _n_exceptions(h, second) > 0
    if _n_exceptions(h, body) > 0:
        return np.int64(0) if has_second else _exceptions_are_far(h, body, tail, np.int64(-1))
    if not has_second:
        return np.int64(1)
    byte = _only_byte(h, body)
    return np.int64(0) if byte < 0 else _exceptions_are_far(h, second, rest, byte)


@kernel
def _n_exceptions(h, e):
    """Return how many parts of an intersection are complements of words; 0 if ``e`` is no intersection."""
    count = 0
    if kind_of(h, e) == layout.K_AND:
        for i in range(length_of(h, e)):
            count += denies_words(h, word_of(h, e, i))
    return count


@kernel
def _only_byte(h, e):
    """Return the byte of a ``K_BYTES`` of one byte; -1 for anything else."""
    found = np.int64(-1)
    if kind_of(h, e) == layout.K_BYTES:
        for byte in range(256):
            if (word_of(h, e, byte >> 6) >> (byte & 63)) & 1:
                if found >= 0:
                    return np.int64(-1)
                found = np.int64(byte)
    return found


@kernel
def _exceptions_are_far(h, joint, tail, before):
    """Return 1 if no token reads an exception of ``joint`` and the first byte of ``tail`` after it; 0 if not or not found out;
    or a status.

    ``joint`` must have the shape ``R{m,} & ~F & …``. ``before``: a byte that comes before ``joint``, -1: none.
    """
    first, _ = split(h, tail)
    if kind_of(h, first) != layout.K_BYTES:
        return np.int64(0)
    n_others = 0
    for i in range(length_of(h, joint)):
        part = word_of(h, joint, i)
        far = np.int64(1)
        if denies_words(h, part):
            far = _exception_is_far(h, word_of(h, part, 0), first, before)
        else:
            n_others += 1
            far = np.int64(kind_of(h, part) == layout.K_REPEAT and word_of(h, part, 2) < 0)
        if far <= 0:
            return far
    return np.int64(n_others == 1)


@kernel
def _exception_is_far(h, e, first, before):
    """Decide :func:`_exceptions_are_far` for one exception ``e``, whose follower is the byte set ``first``.

    ``e`` is literals in sequence with alternatives at its end (a name, each character of which may be spelled in several ways).
    The stack is a work list of pairs (trie node, what is left of the exception).
    """
    head = header(h)
    base = head[layout.STACK_TOP]
    nodes = head[layout.N_NODES]
    for root in range(nodes, nodes + 2):
        node = np.int64(root) if before < 0 else child_by(h, np.int64(root), before)
        if node >= 0 and push_pair(h, node, e) < 0:
            return np.int64(statuses.GROW)
    far = np.int64(1)
    looks = 0
    while head[layout.STACK_TOP] > base and far > 0:
        head[layout.STACK_TOP] -= 2
        node = i64(h, layout.STACK)[head[layout.STACK_TOP]]
        e = i64(h, layout.STACK)[head[layout.STACK_TOP] + 1]
        body, rest = split(h, e)
        kind = kind_of(h, body)
        looks += 1
        if looks > _MOST_LOOKS:
            far = np.int64(0)
        elif kind == layout.K_EPSILON:
            far = np.int64(not _goes_on_with(h, node, first))
        elif kind == layout.K_LITERALS:
            far = _push_behind(h, node, body, rest)
        elif kind == layout.K_ALT and rest == EPSILON:
            for i in range(length_of(h, body)):
                if far > 0 and push_pair(h, node, word_of(h, body, i)) < 0:
                    far = np.int64(statuses.GROW)
        else:
            far = np.int64(0)
    head[layout.STACK_TOP] = base
    return far if far <= 0 or spend(h, 4 * looks) else np.int64(statuses.LIMIT_WORK)


@kernel
def _push_behind(h, node, literals, rest):
    """Push, with ``rest``, the trie nodes below ``node`` at which literals end; return 1, 0 if the literals are too many, or
    ``GROW``.
    """
    low, high, depth = word_of(h, literals, 0), word_of(h, literals, 1), word_of(h, literals, 2)
    if high - low > _MOST_LITERALS:
        return np.int64(0)
    offsets = i64(h, layout.LITERAL_OFFSETS)
    text = u8(h, layout.LITERAL_BYTES)
    for i in range(low, high):
        below = node
        at = offsets[i] + depth
        while below >= 0 and at < offsets[i + 1]:
            below = child_by(h, below, np.int64(text[at]))
            at += 1
        if below >= 0 and push_pair(h, below, rest) < 0:
            return np.int64(statuses.GROW)
    return np.int64(1)


@kernel
def _are_far(h, literals, other):
    """Return 1 if no token reads one of the literals to its end, and the state ``other`` goes on with each part that tokens
    read.

    Returns 0 if not or not found out; or a status.
    """
    low, high, depth = word_of(h, literals, 0), word_of(h, literals, 1), word_of(h, literals, 2)
    if high - low > _MOST_LITERALS:
        return np.int64(0)
    head = header(h)
    offsets = i64(h, layout.LITERAL_OFFSETS)
    text = u8(h, layout.LITERAL_BYTES)
    nodes = head[layout.N_NODES]
    for i in range(low, high):
        for root in range(nodes, nodes + 2):
            node = np.int64(root)
            state = other
            at = offsets[i] + depth
            while node >= 0 and at < offsets[i + 1]:
                node = child_by(h, node, np.int64(text[at]))
                if node >= 0:
                    state = going_on(h, state, np.int64(text[at]))
                    if state <= 0:
                        return state
                at += 1
            if node >= 0:
                return np.int64(0)
        if not spend(h, 16):
            return np.int64(statuses.LIMIT_WORK)
    return np.int64(1)


@kernel
def _goes_on_with(h, node, first):
    """Return whether a trie node has a child by one of the bytes ``first``, a ``K_BYTES``."""
    starts = i32(h, layout.TRIE_FIRST_CHILD)
    children = i32(h, layout.TRIE_CHILDREN)
    bytes_ = u8(h, layout.TRIE_BYTE)
    for i in range(starts[node], starts[node + 1]):
        byte = np.int64(bytes_[children[i]])
        if (word_of(h, first, byte >> 6) >> (byte & 63)) & 1:
            return True
    return False


@kernel
def child_by(h, node, byte):
    """Return the first child of a trie node by a byte, -1: none. Found by bisection.

    The roots are the nodes ``N_NODES``, of the slice trie, and ``N_NODES + 1``, of the rest.
    """
    place = _place_of(h, node, byte)
    return np.int64(i32(h, layout.TRIE_CHILDREN)[place]) if place >= 0 else np.int64(-1)


@kernel
def _place_of(h, node, byte):
    """Return the index in TRIE_CHILDREN of the first child of a node by a byte, -1: none."""
    children = i32(h, layout.TRIE_CHILDREN)
    bytes_ = u8(h, layout.TRIE_BYTE)
    starts = i32(h, layout.TRIE_FIRST_CHILD)
    end = np.int64(starts[node + 1])
    place = child_from(children, bytes_, np.int64(starts[node]), end, byte)
    return place if place < end and bytes_[children[place]] == byte else np.int64(-1)


@kernel
def is_spelled(h, state):
    """Return whether all lexemes of a state are EXACT and begin with literals, none of which has ended."""
    value = value_of(h, state)
    if ending_of(h, word_of(h, value, 0) >> 32) != layout.EXACT:
        return False
    for i in range(length_of(h, value)):
        body, _ = split(h, word_of(h, value, i) & layout.LOW_32)
        if kind_of(h, body) != layout.K_LITERALS or nullable(h, body):
            return False
    return True


@kernel
def spell_far_words(h, state):
    """Append the tokens that spell a part of a state's words to TOKEN_LISTS; return 1, 0, or a status.

    Returns 0, and writes nothing, if the state has anything but words, or if some token reads one to its end. Each token is
    listed once, even if words begin alike. No lexeme ends inside these tokens, so the base has no ends. Work: for each byte of
    a word that the trie has, a bisection among the children of a node, in each of the two tries.
    """
    if not is_spelled(h, state):
        return np.int64(0)
    value = value_of(h, state)
    head = header(h)
    base = head[layout.STACK_TOP]
    done = np.int64(1)
    visited = head[layout.C_NODES]
    for i in range(length_of(h, value)):
        if done > 0:
            body, _ = split(h, word_of(h, value, i) & layout.LOW_32)
            done = _push_spellings(h, body)
    count = sort_unique(i64(h, layout.STACK), base, head[layout.STACK_TOP] - base) if done > 0 else np.int64(0)
    head[layout.STACK_TOP] = base
    if done <= 0:
        return done
    used = head[layout.TOKENS_USED]
    if not has_room(h, layout.TOKEN_LISTS, used + count):
        return np.int64(statuses.GROW)
    out = i32(h, layout.TOKEN_LISTS)
    words = i64(h, layout.STACK)
    copy_words(out, used, words, base, count)
    head[layout.TOKENS_USED] = used + count
    return np.int64(1 if spend(h, (head[layout.C_NODES] - visited) >> 1) else statuses.LIMIT_WORK)


@kernel
def _push_spellings(h, literals):
    """Push the tokens that spell a part of a literal; return 1, 0 if a token reads one to its end or the literals are too many,
    or a status.
    """
    low, high, depth = word_of(h, literals, 0), word_of(h, literals, 1), word_of(h, literals, 2)
    if high - low > _MOST_LITERALS:
        return np.int64(0)
    head = header(h)
    offsets = i64(h, layout.LITERAL_OFFSETS)
    text = u8(h, layout.LITERAL_BYTES)
    children = i32(h, layout.TRIE_CHILDREN)
    starts = i32(h, layout.TRIE_FIRST_CHILD)
    bytes_ = u8(h, layout.TRIE_BYTE)
    tokens = i32(h, layout.TRIE_TOKEN)
    nodes = head[layout.N_NODES]
    for i in range(low, high):
        for root in range(nodes, nodes + 2):
            node = np.int64(root)
            at = offsets[i] + depth
            while at < offsets[i + 1]:
                byte = text[at]
                place = _place_of(h, node, np.int64(byte))
                if place < 0:
                    break
                end = np.int64(starts[node + 1])
                node = np.int64(children[place])
                # where several tokens have the same bytes, each further one is a child of its own
                while place < end and bytes_[children[place]] == byte:
                    head[layout.C_NODES] += 1
                    if tokens[children[place]] >= 0 and push(h, tokens[children[place]]) < 0:
                        return np.int64(statuses.GROW)
                    place += 1
                at += 1
            if at == offsets[i + 1]:
                return np.int64(0)
    return np.int64(1)
