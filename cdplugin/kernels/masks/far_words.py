"""Words that no token reads to their end: to a mask they are as good as not there.

Inside a property's name the lexer waits for the rest of one or several names, and perhaps for any text that is none of them. No
token has so much of a name that the name ends in it, but for the last few bytes; so the mask is that of any text, or that of
the tokens that spell a part of the names::

    {k1: cription", k2: laration", s: ([^"]* & ~(cription | laration))"}      as {s: [^"]*"}, whose base is known
    {k1: cription"}                                                           c, cr, cri, cript, cription

Of a state that is met for the first time no transition is computed for that: the trie is looked up along the words.

Why the masks are the same. Let no token read a word to its end, nor an exception of ``(A & ~F) T`` and the first byte of what
follows it, and let ``A`` be ``R{m,}``, infinite after whatever was read of it. A token that stays inside a word is allowed by
the text beside the word, too, which goes on with all that tokens read of it; that is looked up. A token inside ``A`` can
be gone on with whether or not finitely many texts are taken away. A token that gets into ``T`` has left ``A`` with a text that
is none of ``F``, or it would have read an exception and a byte of ``T``. And where a lexeme ends inside a token it is none
of the words, so the ends are those of the text as well.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer import layout as lexer_layout
from cdplugin.kernels.lexer.fields import ending_of, far_of, roles_of, value_of
from cdplugin.kernels.lexer.lexer import going_on
from cdplugin.kernels.lexer.simplified import simplified_state
from cdplugin.kernels.masks.walk import child_from
from cdplugin.kernels.regex.expressions import EPSILON, FINITE, THIN, nullable, split
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
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

_MOST_LITERALS = 64  # in one set of them
_MOST_LOOKS = 256  # nodes at which it is asked how an exception goes on


@kernel
def without_far_words(h, state):
    """The simplified state (:func:`~cdplugin.kernels.lexer.simplified.simplified_state`) where no token reads to the end of a
    word or an exception that it drops, and it goes on with all that the words begin with; else the state itself. Or a status.

    The two have one mask then, with the same ends: within a token a word only goes on, as the text beside it does, and an
    exception takes away nothing, since infinitely many texts begin with what was read of it. EXACT lexemes only, and none that
    tracks its value. Memoised in L_FAR.
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
    """Whether no token reads to the end of what the simplified state ``other`` drops of an expression: 1, 0 also where it is
    not seen, or a status.
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
    """How many parts of an intersection are complements of words; 0 of anything else."""
    count = 0
    if kind_of(h, e) == layout.K_AND:
        for i in range(length_of(h, e)):
            count += _is_exception(h, word_of(h, e, i))
    return count


@kernel
def _is_exception(h, e):
    """Whether ``e`` is the complement of words."""
    return kind_of(h, e) == layout.K_NOT and flags_of(h, word_of(h, e, 0)) & (FINITE | THIN) == FINITE | THIN


@kernel
def _only_byte(h, e):
    """The byte of a ``K_BYTES`` with one byte; -1 for anything else."""
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
    """Whether no token reads ``before`` (a byte, -1: nothing), an exception of ``joint``, ``R{m,} & ~F & …``, and the first
    byte of ``tail``; 0 also for other shapes; or a status.
    """
    first, _ = split(h, tail)
    if kind_of(h, first) != layout.K_BYTES:
        return np.int64(0)
    n_others = 0
    for i in range(length_of(h, joint)):
        part = word_of(h, joint, i)
        far = np.int64(1)
        if _is_exception(h, part):
            far = _exception_is_far(h, word_of(h, part, 0), first, before)
        else:
            n_others += 1
            far = np.int64(kind_of(h, part) == layout.K_REPEAT and word_of(h, part, 2) < 0)
        if far <= 0:
            return far
    return np.int64(n_others == 1)


@kernel
def _exception_is_far(h, e, first, before):
    """:func:`_exceptions_are_far` of one exception, literals in sequence and alternatives at its end (a name, each character
    of which may be spelled in several ways). ``first``: a ``K_BYTES``.

    The stack holds what is left of it at a node of the trie.
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
    """Push the nodes of the trie below ``node`` at which literals end, with ``rest``: 1; 0 where they are many; or ``GROW``."""
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
    """Whether no token reads one of the literals to its end, and the lexer state ``other`` goes on with all that tokens read of
    them: 1, 0 also where it is not seen, or a status.
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
    """Whether the trie goes on from a node by one of the bytes ``first``, a ``K_BYTES``."""
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
    """The first child of a node of the trie by a byte, -1: none. The roots are the nodes ``N_NODES``, of plain text, and
    ``N_NODES + 1``, of the rest. Found by bisection.
    """
    place = _place_of(h, node, byte)
    return np.int64(i32(h, layout.TRIE_CHILDREN)[place]) if place >= 0 else np.int64(-1)


@kernel
def _place_of(h, node, byte):
    """Where in TRIE_CHILDREN the children of a node by a byte begin, -1: there are none."""
    children = i32(h, layout.TRIE_CHILDREN)
    bytes_ = u8(h, layout.TRIE_BYTE)
    starts = i32(h, layout.TRIE_FIRST_CHILD)
    end = np.int64(starts[node + 1])
    place = child_from(children, bytes_, np.int64(starts[node]), end, byte)
    return place if place < end and bytes_[children[place]] == byte else np.int64(-1)


@kernel
def is_spelled(h, state):
    """Whether all lexemes of a state are EXACT and begin with literals, of which none has ended."""
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
    """Append the tokens that spell a part of the words of a state to TOKEN_LISTS: 1; 0, and nothing is written, where it has
    anything but words, or some token reads one to its end; or a status.

    Each token comes once, though words begin alike. No lexeme ends inside these tokens, so there are no ends. Work: a bisection
    among the children of a node for each byte that the trie has of a word, in each of the two tries.
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
    for i in range(count):
        out[used + i] = words[base + i]
    head[layout.TOKENS_USED] = used + count
    return np.int64(1 if spend(h, (head[layout.C_NODES] - visited) >> 1) else statuses.LIMIT_WORK)


@kernel
def _push_spellings(h, literals):
    """Push the tokens that spell a part of a literal: 1; 0 where one reads it to its end, or they are many; or a status."""
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
                # behind the first child by a byte there are others where several tokens have the same bytes
                while place < end and bytes_[children[place]] == byte:
                    head[layout.C_NODES] += 1
                    if tokens[children[place]] >= 0 and push(h, tokens[children[place]]) < 0:
                        return np.int64(statuses.GROW)
                    place += 1
                at += 1
            if at == offsets[i + 1]:
                return np.int64(0)
    return np.int64(1)
