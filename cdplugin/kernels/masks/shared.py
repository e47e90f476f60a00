"""The shared store: mask bases that all grammars of one vocabulary take over from each other instead of walking the trie.

What a walk of the whole trie finds depends on the expressions that are open in a lexer state, not on the numbers of their
lexemes or on the grammar. Half of the nodes that JSON schemas visit in such walks, an earlier schema has visited for the same
expressions. So the owner (:mod:`cdplugin.engine.shared_bases`) keeps a *store* with the tables of an arena: values, bases,
token lists, ends. In it a base belongs to a set of expressions, and a lexeme that ends is named by the place of its expression
in the set::

    arena of grammar 1    state {5: [^"]*"}   walked: tokens, groups of ends {5}        learned by the owner, between steps
    store                 {[^"]*"}            the same tokens, groups of ends {place 0}
    arena of grammar 2    state {9: [^"]*"}   taken over: tokens, groups of ends {9}

One thread writes the store; many read it without a lock. Values are only added: nothing changes or moves. A reader's header
(``SHARED``) is a copy from an earlier time; :func:`find` ignores values that this copy does not count.

An expression's *counterpart* is its id in the store. Arena and store begin with the values of one template, so ids below
``SHARED_SAME`` are their own counterparts. Other counterparts are found part by part (:func:`_counterpart`), which is
hash-consing across arenas. Literals are identified by their bytes (``K_SPELLINGS``), since each grammar numbers its own.

The store has these tables of an arena, and no others:

============  ==================================================================================================
table         what it holds here
============  ==================================================================================================
VALUES, DATA  the template's values; expressions, with ``K_SPELLINGS`` instead of ``K_LITERALS``; ``K_ENDS``, whose
              nodes are those of the same trie; ``K_OPEN``, the key of a base: the expressions of its state, sorted
INDEX         hash table of values, with more slots than there is room for values: it never grows
BASES         records as in an arena, without parents
TOKEN_LISTS   their token lists, copied into the arena that takes a base over
ENDS          their groups: ``G_SCANNED`` is the set of places that end, bit ``i`` for word ``i`` of the key
STACK         scratch of the writer: the words of one value at a time
============  ==================================================================================================

A base is added when it has been walked twice. Three of five keys are walked once only, and their bases would fill most of the
store; of these, the store has the key alone (``V_AUX`` is ``_ONCE``). A base is written before its number goes into the key's
``V_AUX``. A reader ignores numbers that its header does not count: it may see such a number before the data that it names.

Not shared are: bases below ends; bases with a parent, whose walks are short; and states with a lexeme that is not EXACT or has
a further role (tokens that count, values that are tracked).
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

LEAST_NODES = 400  # a base is learned if its walk visited so many nodes
MOST_OPEN = 8  # expressions of a state whose base is shared
_MOST_PARTS = 64  # direct parts of an expression that is shared
_MOST_LITERALS, _MOST_LITERAL_BYTES = 16, 256  # of a K_LITERALS that is shared
_NEVER = 1 << 40  # instead of a counterpart: the expression is too large to be shared
_ONCE = -1  # V_AUX of a key whose base has been walked once
_FULL = -40  # a status of this module: the store has no room


@kernel
def is_shareable(h, state):
    """Return whether a base of the state is worth sharing: few lexemes, all of them EXACT, without token ranges, counts and
    roles.
    """
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
    """Return the record number of the whole-trie base of a saturated state, taken over from the store now; ``UNKNOWN`` if the
    store has none; or a status.
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
    """Add the arena's bases from number ``base`` on that are worth it (``B_LEARN``) to the store; return 0, 1 if the store has
    no room, or a status of the arena.

    ``store``: the owner's own header of the store that this arena reads; nobody else may write to it meanwhile.
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
    """Push the words ``counterpart << 32 | lexeme`` of a state, sorted; return how many, 0 if the store lacks an expression, or
    a status.

    With the owner's ``store`` (else 0), missing expressions are added; ``_FULL`` if there is no room.
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
    """Return the id of an expression in the store, 0 if it is not there; or a status. With ``store``, see :func:`_push_open`.

    Post-order over the parts, with a work list. Memoised (``M_SHARED``), so for a derivative only its new parts are looked up.
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
    """Return the memoised counterpart of ``e``, 0 if it is not in the store, ``_NEVER``, or -1 if it is not memoised.

    For a writer (``store``), a memoised 0 counts as not memoised, since it may add the expression.
    """
    if e < header(h)[layout.SHARED_SAME]:
        return np.int64(e)
    known = memo_get(h, layout.M_SHARED, e, 0)
    return np.int64(-1) if known == 0 and store else known


@kernel
def _n_parts(h, e):
    """Return how many of an expression's words, from the first on, are expressions."""
    kind = kind_of(h, e)
    if kind == layout.K_CAT or kind == layout.K_ALT or kind == layout.K_AND or kind == layout.K_NOT:
        return length_of(h, e)
    return np.int64(1 if kind == layout.K_REPEAT else 0)


@kernel
def _push_parts(h, e, store):
    """Push the parts of ``e`` whose counterparts are not memoised; return 1 if there are any, else 0; or ``GROW``.

    Returns 0 as well if some part has no counterpart, or if the parts are too many: then ``e`` has none either.
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
    """Return the counterpart of ``e``, whose parts have been looked up: 0 if there is none, ``_NEVER`` if ``e`` is too large;
    or a status (``_FULL`` too). With ``store``, add it.
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
    """Push the key of literals by their bytes: for each, its length and its bytes, eight to a word. 0 or ``GROW``; pushes
    nothing if they are too many.
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
    """Intern the value ``(kind, STACK[start:start + count])`` of the arena's stack in the store; return its id there, or
    ``_FULL``.
    """
    if not has_room(store, layout.STACK, count):
        return np.int64(_FULL)
    copy_words(i64(store, layout.STACK), 0, i64(h, layout.STACK), start, count)
    value = np.int64(intern(store, kind, np.int64(0), count))
    return value if value > 0 else np.int64(_FULL)


# --- bases in the store ----------------------------------------------------------------------------------------------------


@kernel
def _write_key(h, first, count):
    """Write the key of a base, the expressions of ``STACK[first:first + count]`` (:func:`_push_open`), above ``STACK_TOP``; 0
    or ``GROW``.
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
    """Return 1 + the store's base for the expressions ``STACK[first:first + count]``, 0 if it has none; or ``GROW``."""
    head = header(h)
    if _write_key(h, first, count) < 0:
        return np.int64(statuses.GROW)
    store = head[layout.SHARED]
    key = find(store, layout.K_OPEN, i64(h, layout.STACK), head[layout.STACK_TOP], count)
    number = aux_of(store, key) if key else np.int64(0)
    # a larger number was added after this header was copied
    return number if 0 < number <= header(store)[layout.N_BASES] else np.int64(0)


@kernel
def _has_room_for(h, n_items, n_groups):
    """Return whether there is room for a base with ``n_items`` items in its token list and ``n_groups`` groups of ends."""
    head = header(h)
    return (
        has_room(h, layout.BASES, (head[layout.N_BASES] + 1) * mask_layout.BASE_WORDS)
        and has_room(h, layout.TOKEN_LISTS, head[layout.TOKENS_USED] + n_items)
        and has_room(h, layout.ENDS, head[layout.ENDS_USED] + mask_layout.GROUP_WORDS * n_groups)
    )


@kernel
def _copy_base(source, number, target, n_items, n_groups):
    """Record a copy of base ``number`` of ``source`` in ``target``, with its token list.

    The caller has written its groups already, behind the used part of ENDS.
    """
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
    """Return how many items of TOKEN_LISTS the token list of a base takes."""
    length = n_tokens_of(h, number)
    return header(h)[layout.WORDS] if length == mask_layout.AS_BITMASK else length


@kernel
def _take_over(h, number, state, first):
    """Copy base ``number`` of the store into the arena as that of ``state``; return its number here, or a status.

    ``STACK[first:]`` has the words of the state (:func:`_push_open`), which turn places into lexemes.
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
    """Return the lexemes at some places (bits) of ``STACK[first:]`` as a ``K_ACCEPTED`` value, or a status."""
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
    """Intern a ``K_ENDS`` value of the store in the arena; return its id, or a status. Trie nodes are the same in both."""
    top = header(h)[layout.STACK_TOP]
    count = length_of(store, ends)
    if not has_room(h, layout.STACK, top + count):
        return np.int64(statuses.GROW)
    copy_words(i64(h, layout.STACK), top, i64(store, layout.DATA), offset_of(store, ends), count)
    return np.int64(intern(h, layout.K_ENDS, top, count))


@kernel
def _add(h, number, store, count):
    """Add base ``number`` to the store for the expressions ``STACK[0:count]`` (:func:`_push_open`); 0, ``GROW``, or ``_FULL``.

    The first time, only the key is added. ``V_AUX`` of the key is set last, so a base for which room ran out half-way does not
    count.
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
    """Return the places in ``STACK[0:count]`` (:func:`_push_open`) of the lexemes of a ``K_ACCEPTED`` value, as bits."""
    places = np.int64(0)
    words = i64(h, layout.STACK)
    for place in range(count):
        for k in range(length_of(h, accepted)):
            if word_of(h, accepted, k) == words[place] & layout.LOW_32:
                places |= np.int64(1) << place
    return places
