"""The arena: hash-consed values, one memo table and one stack, reached through a header.

Everything that the engine computes is a *value*: a kind and a short sequence of int64 words, stored once. Two values are equal
exactly if their ids are equal. So an expression, a lexer state, an Earley row or a parser state is one integer, and every
function of values can be memoised under two integers. (Hash-consing: Goto 1974, Filliâtre and Conchon 2006.)

:mod:`cdplugin.kernels.store.layout` describes header, tables and records. A kernel that runs out of room requests a larger
table (:func:`has_room`) and returns ``GROW``; the owner, :class:`cdplugin.engine.arena.Arena`, grows it and calls again.
Interning and memoising are idempotent, so the second call finds what the first one stored. Every kernel that may allocate
returns a negative status on failure (:mod:`cdplugin.kernels.store.statuses`).

The *stack* replaces recursion and local lists. A kernel remembers ``STACK_TOP``, pushes operands or a work list above it,
interns a range of it, and resets ``STACK_TOP``. So ``STACK[base:top]`` is always the innermost list under construction, and
callees work above it. Nothing recurses: depth is bounded by memory, not by the C stack.

Parameters with the same meaning in all kernels: ``h`` is the address of the arena's header; ``state`` the number of a lexer
state; ``row`` the number of a row; ``cursor`` a parser state (:mod:`cdplugin.kernels.parser.cursors`); ``e`` the id of an
expression; a *value* is named by its id. All ids and numbers count from 1; 0 is none.
"""

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i32, view_i64, view_u8
from cdplugin.kernels.store import layout, statuses


@kernel
def header(h):
    """Return the header as an int64 array of ``HEADER_WORDS``: addresses and capacities of the tables, then the scalars."""
    return view_i64(h, layout.HEADER_WORDS)


@kernel
def i64(h, table):
    """Return table ``table`` as an int64 array of its whole capacity."""
    head = view_i64(h, layout.HEADER_WORDS)
    return view_i64(head[2 * table], head[2 * table + 1])


@kernel
def i32(h, table):
    """Return table ``table`` as an int32 array of its whole capacity."""
    head = view_i64(h, layout.HEADER_WORDS)
    return view_i32(head[2 * table], head[2 * table + 1])


@kernel
def u8(h, table):
    """Return table ``table`` as a uint8 array of its whole capacity."""
    head = view_i64(h, layout.HEADER_WORDS)
    return view_u8(head[2 * table], head[2 * table + 1])


def field(table, words, offset):
    """Make a kernel that reads one field of a record by the record's number: word ``offset`` of the ``words`` per record in
    ``table``.
    """

    @kernel
    def read(h, number):
        """The field of the record with this number: one load after inlining."""
        return i64(h, table)[number * words + offset]

    return read


@kernel
def has_room(h, table, count):
    """Return whether ``table`` can hold ``count`` items; if not, request it in the header (``REQUEST_A``: the table,
    ``REQUEST_B``: ``count``).
    """
    head = view_i64(h, layout.HEADER_WORDS)
    if head[2 * table + 1] >= count:
        return True
    head[layout.REQUEST_A] = table
    head[layout.REQUEST_B] = count
    return False


@kernel
def begin(h):
    """Begin an operation: empty the stack and grant the operation its work. Return False if the arena is broken.

    Adds what the last operation spent to ``WORK_DONE`` and grants ``MAX_WORK``. While the owner holds the counter over several
    calls (``HOLDS_WORK``), the operation continues with what is left.
    """
    head = view_i64(h, layout.HEADER_WORDS)
    head[layout.STACK_TOP] = 0
    if head[layout.HOLDS_WORK] == 0:
        head[layout.WORK_DONE] += head[layout.WORK_GRANTED] - head[layout.WORK_LEFT]
        head[layout.WORK_GRANTED] = head[layout.MAX_WORK]
        head[layout.WORK_LEFT] = head[layout.MAX_WORK]
    return head[layout.IS_BROKEN] == 0


@kernel
def spend(h, work):
    """Subtract ``work`` units from what the operation may still do; return whether it may go on.

    Each loop calls this, or :func:`intern`, at least once per turn, so an operation whose work is used up stops within a turn
    (``LIMIT_WORK``).
    """
    head = view_i64(h, layout.HEADER_WORDS)
    left = head[layout.WORK_LEFT] - work
    head[layout.WORK_LEFT] = left
    return left >= 0


@kernel
def pack(high, low):
    """Return two ids in one word: ``high << 32 | low``. Such words sort by the high id first."""
    return (high << 32) | low


@kernel
def mix(hash_, word):
    """Mix a 64-bit word into a 32-bit hash, in the manner of FNV-1a. Products stay below 2**57, so nothing overflows.

    ``hash_`` and the result are in ``0 .. 2**32 - 1``. The low half of the word goes in first; the shift by 15 spreads the high
    bits of the product downwards before the other half follows, since slots are taken from the low bits.
    """
    hash_ = ((hash_ ^ (word & layout.LOW_32)) * 16777619) & layout.LOW_32
    hash_ = ((hash_ ^ (hash_ >> 15) ^ ((word >> 32) & layout.LOW_32)) * 16777619) & layout.LOW_32
    return hash_


@kernel
def hash_words(hash_, words, start, count):
    """Mix ``words[start:start + count]`` into a hash (:func:`mix`)."""
    for i in range(start, start + count):
        hash_ = mix(hash_, words[i])
    return hash_


@kernel
def copy_words(to, at, words, start, count):
    """Copy ``words[start:start + count]`` to ``to[at:at + count]``, in ascending order (this matters if the two overlap)."""
    for i in range(count):
        to[at + i] = words[start + i]


@kernel
def fill_words(to, at, count, word):
    """Make ``to[at:at + count]`` all ``word``."""
    for i in range(at, at + count):
        to[i] = word


@kernel
def any_words(words, start, count):
    """Whether any of ``words[start:start + count]`` is not 0."""
    some = np.int64(0)
    for i in range(start, start + count):
        some |= words[i]
    return some != 0


@kernel
def equal_words(a, i, b, j, count):
    """Return whether ``a[i:i + count]`` and ``b[j:j + count]`` are equal."""
    for k in range(count):
        if a[i + k] != b[j + k]:
            return False
    return True


@kernel
def first_slot(hash_, last):
    """Return where a probe of a hash table begins; ``last``: its last slot (the size, a power of two, minus one).

    All tables are probed linearly, ``slot = (slot + 1) & last``. At most half of their slots are used, so every probe meets a
    free one.
    """
    return (hash_ ^ (hash_ >> 16)) & last


@kernel
def sort_range(array, start, count):
    """Sort ``array[start:start + count]`` in place: insertion sort for short ranges, heapsort for the rest.

    O(n log n) in the worst case, without recursion and extra memory. An attacker could provoke quicksort's worst case.
    """
    if count <= 24:
        for i in range(start + 1, start + count):
            word = array[i]
            j = i - 1
            while j >= start and array[j] > word:
                array[j + 1] = array[j]
                j -= 1
            array[j + 1] = word
        return
    for root in range(count // 2 - 1, -1, -1):
        _sift(array, start, root, count)
    for end in range(count - 1, 0, -1):
        word = array[start]
        array[start] = array[start + end]
        array[start + end] = word
        _sift(array, start, 0, end)


@kernel
def _sift(array, start, root, count):
    """Heapsort's sift-down: restore the max-heap ``array[start:start + count]`` whose only fault may be at ``root``."""
    word = array[start + root]
    while True:
        child = 2 * root + 1
        if child >= count:
            break
        if child + 1 < count and array[start + child + 1] > array[start + child]:
            child += 1
        if array[start + child] <= word:
            break
        array[start + root] = array[start + child]
        root = child
    array[start + root] = word


@kernel
def _is_ascending(array, start, count):
    """Whether ``array[start:start + count]`` is strictly ascending."""
    for i in range(start + 1, start + count):
        if array[i - 1] >= array[i]:
            return False
    return True


@kernel
def sort_unique(array, start, count):
    """Sort ``array[start:start + count]`` and drop duplicates; return how many are left, at the front of the range.

    Most lists are strictly ascending already: these cost one pass.
    """
    if _is_ascending(array, start, count):
        return count
    sort_range(array, start, count)
    kept = 0
    for i in range(start, start + count):
        if kept == 0 or array[i] != array[start + kept - 1]:
            array[start + kept] = array[i]
            kept += 1
    return kept


@kernel
def sort_stack(h, start, count):
    """Do :func:`sort_unique` on the stack and spend work for it: an ambiguous grammar sorts long lists at every step."""
    words = i64(h, layout.STACK)
    if _is_ascending(words, start, count):
        header(h)[layout.WORK_LEFT] -= count
        return count
    header(h)[layout.WORK_LEFT] -= layout.SORT_WORK * count
    return sort_unique(words, start, count)


@kernel
def lower_bound(array, low, high, word):
    """Return the first index in the ascending ``array[low:high]`` whose word is not below ``word``; ``high`` if there
    is none.
    """
    while low < high:
        middle = (low + high) >> 1
        if array[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low


# --- values ---------------------------------------------------------------------------------------------------------------


@kernel
def intern(h, kind, start, count):
    """Return the id of the value ``(kind, STACK[start:start + count])``, storing it if it is new; or ``GROW`` or
    ``LIMIT_WORK``.

    The caller has normalised the words: sets are sorted, without duplicates. The stack is left as it is. Flags and ``V_AUX`` of
    a new value are 0. Open addressing with linear probing; the hash is compared before the words, so a look-up mostly reads
    ``DATA`` once.
    """
    head = header(h)
    # spent without a check: a loop over look-ups calls spend() itself, or stores something, sooner or later
    head[layout.WORK_LEFT] -= layout.FIND_VALUE_WORK + (count >> 1)
    words = i64(h, layout.STACK)
    hash_ = mix(layout.HASH_SEED, kind)
    hash_ = hash_words(hash_, words, start, count)
    values = i64(h, layout.VALUES)
    data = i64(h, layout.DATA)
    index = i32(h, layout.INDEX)
    mask = head[layout.INDEX_SLOTS] - 1
    slot = first_slot(hash_, mask)
    while True:
        value = np.int64(index[slot])
        if value == 0:
            break
        record = value * layout.VALUE_WORDS
        if (
            values[record + layout.V_HASH] == hash_
            and values[record + layout.V_KIND] == kind
            and values[record + layout.V_LENGTH] == count
        ):
            if equal_words(data, values[record + layout.V_OFFSET], words, start, count):
                return value
        slot = (slot + 1) & mask
    if not spend(h, layout.NEW_VALUE_WORK + count):
        return statuses.LIMIT_WORK
    value = head[layout.N_VALUES]
    offset = head[layout.DATA_USED]
    if not has_room(h, layout.VALUES, (value + 1) * layout.VALUE_WORDS) or not has_room(h, layout.DATA, offset + count):
        return statuses.GROW
    # all room is checked before anything is written, so a call that fails leaves no trace
    if 2 * (value + 1) > mask + 1:
        if not _widen(h, layout.INDEX, layout.INDEX_SLOTS):
            return statuses.GROW
        reindex(h)
        mask = head[layout.INDEX_SLOTS] - 1
        slot = _free_slot(index, mask, hash_)
    copy_words(data, offset, words, start, count)
    record = value * layout.VALUE_WORDS
    values[record + layout.V_KIND] = kind
    values[record + layout.V_OFFSET] = offset
    values[record + layout.V_LENGTH] = count
    values[record + layout.V_HASH] = hash_
    values[record + layout.V_FLAGS] = 0
    values[record + layout.V_AUX] = 0
    head[layout.N_VALUES] = value + 1
    head[layout.DATA_USED] = offset + count
    index[slot] = value
    return value


@kernel
def find(h, kind, words, start, count):
    """Return the id of the value ``(kind, words[start:start + count])`` if it is stored, else 0.

    Values from ``N_VALUES`` on are ignored: the header may be a copy that is older than the tables (a reader of the shared
    store).
    """
    end = header(h)[layout.N_VALUES]
    hash_ = hash_words(mix(layout.HASH_SEED, kind), words, start, count)
    values = i64(h, layout.VALUES)
    data = i64(h, layout.DATA)
    index = i32(h, layout.INDEX)
    mask = header(h)[layout.INDEX_SLOTS] - 1
    slot = first_slot(hash_, mask)
    while index[slot] != 0:
        value = np.int64(index[slot])
        record = value * layout.VALUE_WORDS
        if (
            value < end
            and values[record + layout.V_HASH] == hash_
            and values[record + layout.V_KIND] == kind
            and values[record + layout.V_LENGTH] == count
            and equal_words(data, values[record + layout.V_OFFSET], words, start, count)
        ):
            return value
        slot = (slot + 1) & mask
    return np.int64(0)


@kernel
def _free_slot(index, mask, hash_):
    """Return the slot of a hash table for a new entry; ``mask``: its number of slots minus one."""
    slot = first_slot(hash_, mask)
    while index[slot] != 0:
        slot = (slot + 1) & mask
    return slot


@kernel
def _widen(h, table, slots):
    """Clear a hash table and double the slots in use, whose number is header word ``slots``; the caller fills it again.

    False if the owner must enlarge the table first.
    """
    head = header(h)
    n_slots = 2 * head[slots]
    if not has_room(h, table, n_slots):
        return False
    head[layout.WORK_LEFT] -= n_slots >> layout.SLOTS_BITS
    index = i32(h, table)
    for slot in range(n_slots):
        index[slot] = 0
    head[slots] = n_slots
    return True


@kernel
def reindex(h):
    """Fill a cleared INDEX from VALUES; return 0. Values are distinct, so no words are compared."""
    head = header(h)
    values = i64(h, layout.VALUES)
    index = i32(h, layout.INDEX)
    mask = head[layout.INDEX_SLOTS] - 1
    for value in range(1, head[layout.N_VALUES]):
        index[_free_slot(index, mask, values[value * layout.VALUE_WORDS + layout.V_HASH])] = value
    return 0


kind_of = field(layout.VALUES, layout.VALUE_WORDS, layout.V_KIND)
"""A value's kind, ``K_…``."""
offset_of = field(layout.VALUES, layout.VALUE_WORDS, layout.V_OFFSET)
"""Where a value's words begin in DATA."""
length_of = field(layout.VALUES, layout.VALUE_WORDS, layout.V_LENGTH)
"""The number of a value's words."""
flags_of = field(layout.VALUES, layout.VALUE_WORDS, layout.V_FLAGS)
"""Flags of an expression (:mod:`cdplugin.kernels.regex.expressions`)."""
aux_of = field(layout.VALUES, layout.VALUE_WORDS, layout.V_AUX)
"""A word for the use of the value's kind; 0 at first. It is no part of the value, so look-ups ignore it."""


@kernel
def set_aux(h, value, word):
    """Set :func:`aux_of`."""
    i64(h, layout.VALUES)[value * layout.VALUE_WORDS + layout.V_AUX] = word


@kernel
def set_flags(h, value, flags):
    """Add to :func:`flags_of`. Facts about an expression are only ever added."""
    i64(h, layout.VALUES)[value * layout.VALUE_WORDS + layout.V_FLAGS] |= flags


@kernel
def clear_flags(h, value, flags):
    """Remove the visit marks of a search from :func:`flags_of`."""
    i64(h, layout.VALUES)[value * layout.VALUE_WORDS + layout.V_FLAGS] &= ~np.int64(flags)


@kernel
def word_of(h, value, position):
    """Return word ``position`` of a value."""
    return i64(h, layout.DATA)[offset_of(h, value) + position]


# --- memo -----------------------------------------------------------------------------------------------------------------


@kernel
def _memo_slot(h, key):
    """Return the slot of a key in the memo's index: its own, or the free one where it would go."""
    memo = i64(h, layout.MEMO)
    index = i32(h, layout.MEMO_INDEX)
    mask = header(h)[layout.MEMO_SLOTS] - 1
    slot = first_slot(mix(layout.HASH_SEED, key), mask)
    while index[slot] != 0 and memo[2 * np.int64(index[slot]) - 2] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def memo_get(h, kind, a, b):
    """Return the memoised result of function ``kind`` (``M_…``) at ids ``(a, b)``, or -1.

    Both ids are below ``2**ID_BITS``. A function of one id has ``b = 0``; a function of an id and a byte has the byte as ``b``.
    """
    key = (kind << (2 * layout.ID_BITS)) | (a << layout.ID_BITS) | b
    entry = np.int64(i32(h, layout.MEMO_INDEX)[_memo_slot(h, key)])
    return i64(h, layout.MEMO)[2 * entry - 1] if entry else np.int64(-1)


@kernel
def memo_put(h, kind, a, b, result):
    """Memoise ``result`` of function ``kind`` at ``(a, b)``; return it, or ``GROW``. A negative ``result``, a status, is only
    returned.

    Only finished results are stored, so readers need no check. A later result replaces it.
    """
    if result < 0:
        return result
    head = header(h)
    key = (kind << (2 * layout.ID_BITS)) | (a << layout.ID_BITS) | b
    slot = _memo_slot(h, key)
    index = i32(h, layout.MEMO_INDEX)
    entry = np.int64(index[slot])
    if entry == 0:
        entry = head[layout.MEMO_USED] + 1
        if not has_room(h, layout.MEMO, 2 * entry):
            return statuses.GROW
        if 2 * entry > head[layout.MEMO_SLOTS]:
            if not _widen(h, layout.MEMO_INDEX, layout.MEMO_SLOTS):
                return statuses.GROW
            _index_memo(h)
            slot = _memo_slot(h, key)
        i64(h, layout.MEMO)[2 * entry - 2] = key
        index[slot] = entry
        head[layout.MEMO_USED] = entry
    i64(h, layout.MEMO)[2 * entry - 1] = result
    return result


@kernel
def _index_memo(h):
    """Fill a cleared MEMO_INDEX. The keys are distinct, so none are compared."""
    head = header(h)
    memo = i64(h, layout.MEMO)
    index = i32(h, layout.MEMO_INDEX)
    mask = head[layout.MEMO_SLOTS] - 1
    for entry in range(1, head[layout.MEMO_USED] + 1):
        index[_free_slot(index, mask, mix(layout.HASH_SEED, memo[2 * entry - 2]))] = entry
