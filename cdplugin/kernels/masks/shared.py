"""Bases that grammars have in common: looked up in a store that all grammars of a vocabulary read, instead of walked anew.

What a walk of the whole trie finds depends on the expressions that are open in a lexer state, not on the numbers of their
lexemes, nor on the grammar: half of the nodes that schemas visit in such walks an earlier schema has visited below the same
expressions. So the owner (:mod:`cdplugin.engine.shared_bases`) keeps a *store*: values, bases, token lists and ends as in an
arena, in which a base stands for a set of expressions, and a lexeme that ends is the place of its expression in the set.

::

    arena of grammar 1    state {5: [^"]*"}   walked: tokens, groups of ends {5}        learned by the owner, between steps
    store                 {[^"]*"}            the same tokens, groups of ends {place 0}
    arena of grammar 2    state {9: [^"]*"}   taken over: tokens, groups of ends {9}

The store is written by one thread and read by many without a lock. Nothing in it ever changes or moves, values are only
added; a reader's header (``SHARED``) is a copy that counts fewer values than there are by now, and :func:`find` passes over
those that it does not count.

An expression's *counterpart* is its id in the store. Both begin with the values of one template, so ids below ``SHARED_SAME``
are their own counterparts; those of others are found part by part (:func:`_counterpart`), which is hash-consing across
arenas: equal ids, equal expressions. Literals are told by their bytes (``K_SPELLINGS``), since each grammar numbers its own.

The store has the tables of an arena that its readers look at, and no others:

============  ==================================================================================================
table         what it holds here
============  ==================================================================================================
VALUES, DATA  the template's values; expressions; ``K_SPELLINGS`` in the place of ``K_LITERALS``; ``K_ENDS``, whose
              nodes are those of the same trie; ``K_OPEN``, the key of a base: the expressions of its state, sorted
INDEX         slots of values, larger than any number of values that there is room for: it never grows
BASES         records as in an arena, without parents
TOKEN_LISTS   their lists, as ids or as a bitmask; copied into the arena that takes a base over
ENDS          their groups: ``G_SCANNED`` is the set of places that end, bit ``i`` for word ``i`` of the key
STACK         the words of one value at a time, by who adds
============  ==================================================================================================

A base is added when it was walked twice: three of five keys are asked for once, by one lexeme of one grammar, and what they
hold would be most of the store. Of these only the key is there (``V_AUX`` is ``_ONCE``). The number of a base is written into
``V_AUX`` after the base, and a reader passes over numbers that its header does not count: it may see the word, but what that
names need not have reached it.

Not shared are bases below ends, bases with a parent (these are walked along a few spellings only), and states with a lexeme
that is not EXACT or that plays a role besides (tokens that count, values that matter).
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.lexer.fields import begun_of, ending_of, n_ranges_of, role_of, symbol_of, value_of
from cdplugin.kernels.lexer.layout import L_BASE, LEXER_WORDS
from cdplugin.kernels.masks import layout as mask_layout
from cdplugin.kernels.masks.fields import groups_of, n_groups_of, n_tokens_of, record_base, tokens_of
from cdplugin.kernels.regex.expressions import EPSILON
from cdplugin.kernels.store import layout, statuses
from cdplugin.kernels.store.arena import (
    aux_of,
    copy_words,
    find,
    has_room,
    header,
    i32,
    i64,
    intern,
    kind_of,
    length_of,
    memo_get,
    memo_put,
    offset_of,
    set_aux,
    sort_range,
    sort_unique,
    spend,
    u8,
    word_of,
)
from cdplugin.kernels.store.stack import push, push_all

LEAST_NODES = 400  # nodes of a walk from which on its base is learned
MOST_OPEN = 8  # expressions of a state that is shared
_MOST_PARTS = 64  # of an expression that is looked for
_MOST_LITERALS, _MOST_LITERAL_BYTES = 16, 256
_NEVER = 1 << 40  # in the place of a counterpart: the expression is too large to be shared
_ONCE = -1  # V_AUX of a key whose base was walked once
_FULL = -40  # among statuses: the store has no room


@kernel
def is_shareable(h, state):
    """Whether a base of the state is worth looking for: few lexemes, all EXACT and with nothing to them but their text."""
    if header(h)[layout.SHARED] == 0 or header(h)[layout.USE_SLICES] == 0:
        return False
    value = value_of(h, state)
    if length_of(h, value) > MOST_OPEN:
        return False
    for i in range(length_of(h, value)):
        lexeme = word_of(h, value, i) >> 32
        is_plain = begun_of(h, lexeme) == lexeme and symbol_of(h, lexeme) == lexeme and n_ranges_of(h, lexeme) == 0
        if not is_plain or ending_of(h, lexeme) != layout.EXACT or role_of(h, lexeme) != layout.PLAIN:
            return False
        if word_of(h, value, i) & layout.LOW_32 <= EPSILON:
            return False
    return True


@kernel
def shared_base(h, state):
    """Record number of the base of a (saturated) state in the whole trie, taken over from the store; ``UNKNOWN`` if that has
    none; or a status.
    """
    if not is_shareable(h, state):
        return np.int64(statuses.UNKNOWN)
    head = header(h)
    first = head[layout.STACK_TOP]
    found = _push_open(h, state, np.int64(0))
    if found > 0:
        found = _known_base(h, first, found)
    if found > 0:
        found = _take_over(h, found - 1, state, first)
    elif found == 0:
        found = np.int64(statuses.UNKNOWN)
    head[layout.STACK_TOP] = first
    return found


@kernel
def learn(h, base, store):
    """Add the bases from number ``base`` on that are worth it (``B_LEARN``) to ``store``, the owner's own header of the store
    that this arena reads, and that nobody else writes to meanwhile. 0; 1 if the store has no room; or a status of the arena.
    """
    head = header(h)
    for number in range(base, head[layout.N_BASES]):
        state = i64(h, layout.BASES)[number * mask_layout.BASE_WORDS + mask_layout.B_LEARN]
        if state == 0:
            continue
        head[layout.STACK_TOP] = 0
        status = _push_open(h, state, store)
        if status > 0:
            status = _add(h, number, store, status)
        if status < 0:
            return np.int64(1) if status == _FULL else status
    return np.int64(0)


# --- expressions in the store ----------------------------------------------------------------------------------------------


@kernel
def _push_open(h, state, store):
    """Push the state's words, ``counterpart << 32 | lexeme`` each, sorted; how many, 0 if an expression is not in the store;
    or a status. With the owner's ``store`` (else 0), what is not there is added; ``_FULL`` if it has no room.
    """
    head = header(h)
    first = head[layout.STACK_TOP]
    value = value_of(h, state)
    count = length_of(h, value)
    for i in range(count):
        word = word_of(h, value, i)
        there = _counterpart(h, word & layout.LOW_32, store)
        if there <= 0:
            head[layout.STACK_TOP] = first
            return there
        if push(h, there << 32 | word >> 32) < 0:
            return np.int64(statuses.GROW)
    sort_range(i64(h, layout.STACK), first, count)
    return count


@kernel
def _counterpart(h, e, store):
    """The id of an expression in the store, 0 if it is not there; or a status. With ``store``: :func:`_push_open`.

    Parts first, from a work list; memoised (``M_SHARED``), so that a derivative asks for what is new in it only.
    """
    head = header(h)
    if e < head[layout.SHARED_SAME]:
        return np.int64(e)
    bottom = head[layout.STACK_TOP]
    if push(h, e) < 0:
        return np.int64(statuses.GROW)
    found = np.int64(0)
    while head[layout.STACK_TOP] > bottom:
        if not spend(h, 2):
            return np.int64(statuses.LIMIT_WORK)
        top = head[layout.STACK_TOP]
        e = i64(h, layout.STACK)[top - 1]
        found = _known_counterpart(h, e, store)
        if found < 0:
            pushed = _push_parts(h, e, store)
            if pushed < 0:
                return pushed
            if pushed:
                continue
            found = _look_up(h, e, store)
            if found < 0:
                return found
            if memo_put(h, layout.M_SHARED, e, 0, found) < 0:
                return np.int64(statuses.GROW)
        head[layout.STACK_TOP] = top - 1
    return found if found < _NEVER else np.int64(0)


@kernel
def _known_counterpart(h, e, store):
    """The memoised counterpart of ``e``, 0 if it is not in the store, ``_NEVER``; -1: not known. To whom adds what is missing
    (``store``), 0 says nothing.
    """
    if e < header(h)[layout.SHARED_SAME]:
        return np.int64(e)
    known = memo_get(h, layout.M_SHARED, e, 0)
    return np.int64(-1) if known == 0 and store else known


@kernel
def _n_parts(h, e):
    """How many of an expression's words, from the first on, are expressions."""
    kind = kind_of(h, e)
    if kind == layout.K_CAT or kind == layout.K_ALT or kind == layout.K_AND or kind == layout.K_NOT:
        return length_of(h, e)
    return np.int64(1 if kind == layout.K_REPEAT else 0)


@kernel
def _push_parts(h, e, store):
    """Push the parts of ``e`` whose counterparts are not known; whether there are any (none, if one has no counterpart, or they
    are too many); or ``GROW``.
    """
    head = header(h)
    top = head[layout.STACK_TOP]
    count = _n_parts(h, e)
    if count > _MOST_PARTS:
        return np.int64(0)
    for i in range(count):
        part = word_of(h, e, i)
        known = _known_counterpart(h, part, store)
        if known == 0 or known == _NEVER:
            head[layout.STACK_TOP] = top
            return np.int64(0)
        if known < 0 and push(h, part) < 0:
            return np.int64(statuses.GROW)
    return np.int64(head[layout.STACK_TOP] > top)


@kernel
def _look_up(h, e, store):
    """The counterpart of ``e``, whose parts' are known: 0 if there is none, ``_NEVER`` if it is too large to have one; or a
    status, ``_FULL`` among them. With ``store`` it is added.
    """
    head = header(h)
    top = head[layout.STACK_TOP]
    kind = kind_of(h, e)
    n_parts = _n_parts(h, e)
    if n_parts > _MOST_PARTS:
        return np.int64(_NEVER)
    if kind == layout.K_LITERALS:
        status = _push_spellings(h, e)
        kind = layout.K_SPELLINGS
    else:
        status = np.int64(push_all(h, e))
    if status < 0:
        return status
    count = head[layout.STACK_TOP] - top
    head[layout.STACK_TOP] = top
    if count == 0:
        return np.int64(_NEVER)
    words = i64(h, layout.STACK)
    for i in range(top, top + n_parts):
        words[i] = _known_counterpart(h, words[i], store)
        if words[i] == 0 or words[i] == _NEVER:
            return words[i]
    if kind == layout.K_ALT or kind == layout.K_AND:
        sort_range(words, top, n_parts)
    if store == 0:
        return find(head[layout.SHARED], kind, words, top, count)
    return _add_value(h, top, count, kind, store)


@kernel
def _push_spellings(h, e):
    """Push what tells literals by their bytes: the length of each and its bytes, eight to a word. 0 or ``GROW``; nothing is
    pushed if they are many.
    """
    head = header(h)
    top = head[layout.STACK_TOP]
    offsets = i64(h, layout.LITERAL_OFFSETS)
    text = u8(h, layout.LITERAL_BYTES)
    low, high, depth = word_of(h, e, 0), word_of(h, e, 1), word_of(h, e, 2)
    if high - low > _MOST_LITERALS or offsets[high] - offsets[low] > _MOST_LITERAL_BYTES:
        return np.int64(0)
    for literal in range(low, high):
        start, end = offsets[literal] + depth, offsets[literal + 1]
        if push(h, end - start) < 0:
            return np.int64(statuses.GROW)
        for at in range(start, end, 8):
            word = np.int64(0)
            for i in range(at, min(at + 8, end)):
                word = word << 8 | np.int64(text[i])
            if push(h, word) < 0:
                return np.int64(statuses.GROW)
    head[layout.WORK_LEFT] -= head[layout.STACK_TOP] - top
    return np.int64(0)


@kernel
def _add_value(h, start, count, kind, store):
    """The value ``(kind, STACK[start:start + count])`` of the arena's stack, interned in the store; or ``_FULL``."""
    if not has_room(store, layout.STACK, count):
        return np.int64(_FULL)
    copy_words(i64(store, layout.STACK), 0, i64(h, layout.STACK), start, count)
    value = np.int64(intern(store, kind, np.int64(0), count))
    return value if value > 0 else np.int64(_FULL)


# --- bases in the store ----------------------------------------------------------------------------------------------------


@kernel
def _write_key(h, first, count):
    """Write the expressions of ``STACK[first:first + count]`` (:func:`_push_open`), the key of their base, above ``STACK_TOP``;
    0 or ``GROW``.
    """
    top = header(h)[layout.STACK_TOP]
    if not has_room(h, layout.STACK, top + count):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    for i in range(count):
        words[top + i] = words[first + i] >> 32
    return np.int64(0)


@kernel
def _known_base(h, first, count):
    """1 + the store's base of the expressions ``STACK[first:first + count]``, 0 if it has none; or ``GROW``."""
    head = header(h)
    if _write_key(h, first, count) < 0:
        return np.int64(statuses.GROW)
    store = head[layout.SHARED]
    key = find(store, layout.K_OPEN, i64(h, layout.STACK), head[layout.STACK_TOP], count)
    number = aux_of(store, key) if key else np.int64(0)
    return number if 0 < number <= header(store)[layout.N_BASES] else np.int64(0)  # it may have been added since


@kernel
def _has_room_for(h, n_items, n_groups):
    """Whether there is room for a base with so many items of a token list and groups of ends."""
    head = header(h)
    return (
        has_room(h, layout.BASES, (head[layout.N_BASES] + 1) * mask_layout.BASE_WORDS)
        and has_room(h, layout.TOKEN_LISTS, head[layout.TOKENS_USED] + n_items)
        and has_room(h, layout.ENDS, head[layout.ENDS_USED] + mask_layout.GROUP_WORDS * n_groups)
    )


@kernel
def _copy_base(source, number, target, n_items, n_groups):
    """Record a copy of base ``number``, whose groups lie behind what is in use of ENDS already, with its token list."""
    head = header(target)
    start = head[layout.TOKENS_USED]
    copy_words(i32(target, layout.TOKEN_LISTS), start, i32(source, layout.TOKEN_LISTS), tokens_of(source, number), n_items)
    slice_row = i64(source, layout.BASES)[number * mask_layout.BASE_WORDS + mask_layout.B_SLICE]
    record_base(target, slice_row, start, n_tokens_of(source, number), head[layout.ENDS_USED], n_groups, -1, 0, 0)
    head[layout.TOKENS_USED] = start + n_items
    head[layout.ENDS_USED] += mask_layout.GROUP_WORDS * n_groups


@kernel
def _write_group(h, at, scanned, ends, n_nodes):
    """Write a group of ends at ``ENDS[at:]``."""
    words = i64(h, layout.ENDS)
    words[at + mask_layout.G_SCANNED] = scanned
    words[at + mask_layout.G_ENDS] = ends
    words[at + mask_layout.G_NODES] = n_nodes


@kernel
def _n_items(h, number):
    """How many items the token list of a base takes."""
    length = n_tokens_of(h, number)
    return header(h)[layout.WORDS] if length == mask_layout.AS_BITMASK else length


@kernel
def _take_over(h, number, state, first):
    """Record base ``number`` of the store as that of ``state``, whose lexemes are those of ``STACK[first:]``
    (:func:`_push_open`); its number here, or a status.
    """
    head = header(h)
    store = head[layout.SHARED]
    base = head[layout.N_BASES]
    n_groups = n_groups_of(store, number)
    n_items = _n_items(store, number)
    if not _has_room_for(h, n_items, n_groups):
        return np.int64(statuses.GROW)
    for k in range(0, mask_layout.GROUP_WORDS * n_groups, mask_layout.GROUP_WORDS):
        group = groups_of(store, number) + k
        scanned = _lexemes(h, i64(store, layout.ENDS)[group + mask_layout.G_SCANNED], first)
        ends = scanned if scanned < 0 else _copy_ends(h, store, i64(store, layout.ENDS)[group + mask_layout.G_ENDS])
        if ends < 0:
            return ends
        _write_group(h, head[layout.ENDS_USED] + k, scanned, ends, i64(store, layout.ENDS)[group + mask_layout.G_NODES])
    if not spend(h, (n_items >> 3) + 8):
        return np.int64(statuses.LIMIT_WORK)
    _copy_base(store, number, h, n_items, n_groups)
    head[layout.C_SHARED] += 1
    i64(h, layout.LEXER_STATES)[state * LEXER_WORDS + L_BASE] = base
    return base


@kernel
def _lexemes(h, places, first):
    """The lexemes at some places (bits) of ``STACK[first:]`` as a ``K_ACCEPTED`` value, or a status."""
    top = header(h)[layout.STACK_TOP]
    if not has_room(h, layout.STACK, top + MOST_OPEN):
        return np.int64(statuses.GROW)
    words = i64(h, layout.STACK)
    count = 0
    for place in range(MOST_OPEN):
        if places >> place & 1:
            words[top + count] = words[first + place] & layout.LOW_32
            count += 1
    return np.int64(intern(h, layout.K_ACCEPTED, top, sort_unique(words, top, count)))


@kernel
def _copy_ends(h, store, ends):
    """The ``K_ENDS`` value of the store in the arena: an id or a status. Nodes of the trie are the same in both."""
    top = header(h)[layout.STACK_TOP]
    count = length_of(store, ends)
    if not has_room(h, layout.STACK, top + count):
        return np.int64(statuses.GROW)
    copy_words(i64(h, layout.STACK), top, i64(store, layout.DATA), offset_of(store, ends), count)
    return np.int64(intern(h, layout.K_ENDS, top, count))


@kernel
def _add(h, number, store, count):
    """Add base ``number`` to the store, for the expressions ``STACK[0:count]`` (:func:`_push_open`), the second time that it is
    asked to: most expressions are one lexeme's of one grammar. 0, ``GROW``, or ``_FULL``.

    The key's ``V_AUX`` is set last, so that a base that found no room half-way is none.
    """
    head, theirs = header(h), header(store)
    top = head[layout.STACK_TOP]
    if _write_key(h, np.int64(0), count) < 0:
        return np.int64(statuses.GROW)
    key = _add_value(h, top, count, layout.K_OPEN, store)
    if key < 0 or aux_of(store, key) > 0:
        return min(key, np.int64(0))
    if aux_of(store, key) == 0:
        set_aux(store, key, np.int64(_ONCE))
        return np.int64(0)
    n_groups = n_groups_of(h, number)
    n_items = _n_items(h, number)
    if not _has_room_for(store, n_items, n_groups):
        return np.int64(_FULL)
    for k in range(0, mask_layout.GROUP_WORDS * n_groups, mask_layout.GROUP_WORDS):
        group = groups_of(h, number) + k
        if push_all(h, i64(h, layout.ENDS)[group + mask_layout.G_ENDS]) < 0:
            return np.int64(statuses.GROW)
        n_words = head[layout.STACK_TOP] - top
        head[layout.STACK_TOP] = top
        ends = _add_value(h, top, n_words, layout.K_ENDS, store)
        if ends < 0:
            return ends
        places = _places(h, i64(h, layout.ENDS)[group + mask_layout.G_SCANNED], count)
        _write_group(store, theirs[layout.ENDS_USED] + k, places, ends, i64(h, layout.ENDS)[group + mask_layout.G_NODES])
    _copy_base(h, number, store, n_items, n_groups)
    set_aux(store, key, theirs[layout.N_BASES])
    return np.int64(0)


@kernel
def _places(h, accepted, count):
    """The places in ``STACK[0:count]`` (:func:`_push_open`) of the lexemes of a ``K_ACCEPTED`` value, as bits."""
    places = np.int64(0)
    words = i64(h, layout.STACK)
    for place in range(count):
        for k in range(length_of(h, accepted)):
            if word_of(h, accepted, k) == words[place] & layout.LOW_32:
                places |= np.int64(1) << place
    return places
