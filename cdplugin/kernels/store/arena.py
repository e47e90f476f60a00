"""The arena: one store of hash-consed values, one memo table, one scratch stack, all found through a header.

Everything that the engine computes is a *value*: a kind and a short sequence of int64 words, stored once. Two values are equal
exactly when their ids are equal, so that an expression, a lexer state, an Earley row or a parser state is one integer, and
every function on values can be memoised under two integers.

Layout. The header is an int64 array. Table ``k`` has its address in word ``2k`` and its capacity (in items) in word ``2k + 1``;
scalars follow. Tables are owned by :class:`cdplugin.engine.arena.Arena`. A kernel that runs out of room writes which table must
grow into ``GROW_TABLE`` and ``GROW_TO`` and returns ``GROW``; the owner grows it and calls again. Since interning and
memoising are idempotent, starting again only finds what was stored before. Every kernel that may allocate returns a
negative status on failure.
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i32, view_i64, view_u8

# --- statuses (negative; everything else is a result) ---------------------------------------------------------------------
GROW = -1  # a table is full: grow it and call again
LIMIT_WIDTH = -2  # an expression has too many alternatives
LIMIT_FUEL = -3  # emptiness of an expression could not be decided within the fuel
LIMIT_ROW = -4  # an Earley row has too many items
LIMIT_PAIRS = -5  # a parser state has too many (row, lexer state) pairs
NEED_RULES = -6  # STACK[GROW_TO:GROW_TABLE], nonterminals, are predicted for the first time: give them their rules, call again
NEED_VALUE = -7  # a lexeme that keeps its text has ended, number GROW_TO, text GROW_TABLE: say what value that is (M_VALUE)
NEED_REST = -8  # say what follows lexeme GROW_TO of a rule when its value is GROW_TABLE (M_REST)
LIMIT_WORK = -12  # the operation has used up its work; callers may turn it into GROW, so the owner looks at WORK_LEFT first
BROKEN = -13  # an exception interrupted the owner in the middle of a change: nothing of this arena may be used

# --- tables ---------------------------------------------------------------------------------------------------------------
DATA, VALUES, INDEX, MEMO_KEYS, MEMO_RESULTS, STACK, OLD_KEYS, OLD_RESULTS = range(8)
TRANSITIONS, LEXER_STATES, ROWS, BASES, MASKS, TOKEN_LISTS, ENDS = range(8, 15)
LITERAL_OFFSETS, LITERAL_BYTES, LEXEMES = range(15, 18)
DOT_SYMBOL, DOT_LEFT, DOT_NULL_REST, RULE_HEADS, RULE_LISTS, CORNER_HEADS, CORNER_LISTS, NULLABLE, MARKS = range(18, 27)
TRIE_BYTE, TRIE_DEPTH, TRIE_SKIP, TRIE_TOKEN, TRIE_CHARS, SLICE_MASKS, TOKEN_OFFSETS, TOKEN_BYTES = range(27, 35)
TOKEN_RANGES = 35  # inclusive (first, last) pairs of token ids: what token terminals stand for
N_TABLES = 36

INT32_TABLES = (INDEX, TRANSITIONS, TOKEN_LISTS, TRIE_DEPTH, TRIE_SKIP, TRIE_TOKEN, TRIE_CHARS, SLICE_MASKS)
UINT8_TABLES = (LITERAL_BYTES, TRIE_BYTE, TOKEN_BYTES)

# --- scalars of the header ------------------------------------------------------------------------------------------------
_S = 2 * N_TABLES
N_VALUES, DATA_USED, MEMO_USED, STACK_TOP, GROW_TABLE, GROW_TO, STAMP = range(_S, _S + 7)
N_LEXER_STATES, N_ROWS, N_BASES, N_MASKS, TOKENS_USED, ENDS_USED, ROOT = range(_S + 7, _S + 14)
MAX_WIDTH, FUEL, MAX_ROW_ITEMS, MAX_PAIRS, WORDS, SLICE_END, N_NODES, MAX_DEPTH, USE_SLICES, END_SYMBOL, N_SLICES = range(
    _S + 14, _S + 25
)
MAX_CHARS = _S + 25  # code points of the longest slice token
HAS_TERMINALS = _S + 34  # whether some lexeme is a set of tokens
HAS_CLOCKS = _S + 35  # whether some lexeme ends after a number of tokens
HAS_KEPT = _S + 36  # whether some lexeme keeps its text
# work, in units of some ten nanoseconds: what an operation is granted, what this one was, what is left of it, what others did
MAX_WORK, WORK_GRANTED, WORK_LEFT, WORK_DONE = range(_S + 37, _S + 41)
HOLDS_WORK = _S + 41  # 1: operations are granted nothing, but go on with what is left
IS_BROKEN = _S + 42  # 1: every operation returns BROKEN
# counters: cheap, never reset by the kernels
C_NODES, C_DERIVATIVES, C_TRANSITIONS, C_ADVANCES, C_MASK_HITS, C_MASK_MISSES, C_BASES, C_SUBWALKS = range(_S + 26, _S + 34)
HEADER_WORDS = _S + 44

# --- records --------------------------------------------------------------------------------------------------------------
V_KIND, V_OFFSET, V_LENGTH, V_HASH, V_FLAGS, V_AUX = range(6)  # aux: dense number of a lexer state or row, 0: none
VALUE_WORDS = 6

# record of a lexeme number. A lexeme has one number, but where it matters whether it has begun or how many tokens it has taken,
# it has more: they are one lexeme to the parser (X_SYMBOL) and to the masks.
X_EXPRESSION = 0
X_KIND = 1  # EXACT, LONGEST or LAZY
X_SKIP = 2  # the lexeme that may stand before this one, -1: none
X_RANGES, X_N_RANGES = 3, 4  # for a token terminal: its pairs in TOKEN_RANGES
X_SYMBOL = 5  # the lexeme's number in the rules
X_BEGUN = 6  # its number after a byte
X_TICK = 7  # its number after a token that ends inside it; itself: its tokens are used up; -1: nobody counts
X_IS_SKIP = 8  # whether it is a skip, which leaves the row as it is
X_ROLE = 9  # one of the ROLES, see cdplugin.kernels.lexer.tracked
X_KEPT = 10  # the number under which such a lexeme ends
X_FENCE = 11  # an expression, 0: none; a LONGEST lexeme never ends before a byte that it goes on with
LEXEME_WORDS = 12
PLAIN, KEEPS, VALUE, NEXT, SHADOW, UNSURE = range(6)
EXACT, LONGEST, LAZY = range(3)

# --- kinds of values ------------------------------------------------------------------------------------------------------
K_NONE, K_EMPTY, K_EPSILON, K_BYTES, K_LITERALS, K_CAT, K_ALT, K_AND, K_NOT, K_REPEAT = range(10)
K_LEXER, K_ITEMS, K_ORIGIN, K_ACCEPTED, K_STATE, K_CORNERS, K_FIRST, K_AFTER, K_BASE, K_ENDS, K_TEXT, K_NEXT = range(10, 22)

# --- kinds of memo entries ------------------------------------------------------------------------------------------------
M_DERIVATIVE, M_STAY, M_ONE_CHAR, M_SATURATE, M_AFTER_CHAR, M_CORNERS, M_FIRST, M_START = range(1, 9)
M_RESTRICT, M_COMPLETE, M_ADVANCE, M_STEP, M_MASK, M_SHORTEST, M_WITHIN, M_VALUE, M_REST, M_NEXT, M_CHARS = range(9, 20)

NEW_VALUE_WORK, FIND_VALUE_WORK = 12, 2  # units of work (WORK_LEFT) of an interned value, besides its words

ID_BITS = 29
LOW_32 = 0xFFFFFFFF


@kernel
def header(h):
    """The header as an int64 array."""
    return view_i64(h, HEADER_WORDS)


@kernel
def i64(h, table):
    """Table ``table`` as an int64 array of its whole capacity."""
    head = view_i64(h, HEADER_WORDS)
    return view_i64(head[2 * table], head[2 * table + 1])


@kernel
def i32(h, table):
    """Table ``table`` as an int32 array of its whole capacity."""
    head = view_i64(h, HEADER_WORDS)
    return view_i32(head[2 * table], head[2 * table + 1])


@kernel
def u8(h, table):
    """Table ``table`` as a uint8 array of its whole capacity."""
    head = view_i64(h, HEADER_WORDS)
    return view_u8(head[2 * table], head[2 * table + 1])


@kernel
def has_room(h, table, count):
    """Whether ``table`` can hold ``count`` items; if not, the header says which table must grow to what."""
    head = view_i64(h, HEADER_WORDS)
    if head[2 * table + 1] >= count:
        return True
    head[GROW_TABLE] = table
    head[GROW_TO] = count
    return False


@kernel
def begin(h):
    """Begin an operation: with an empty stack, and all of its work before it. False if the arena is broken."""
    head = view_i64(h, HEADER_WORDS)
    head[STACK_TOP] = 0
    if head[HOLDS_WORK] == 0:
        head[WORK_DONE] += head[WORK_GRANTED] - head[WORK_LEFT]
        head[WORK_GRANTED] = head[MAX_WORK]
        head[WORK_LEFT] = head[MAX_WORK]
    return head[IS_BROKEN] == 0


@kernel
def spend(h, work):
    """Take ``work`` units off what the operation may still do; whether it may go on.

    Loops call this, or :func:`intern`, at least once a turn: an operation that returned ``LIMIT_WORK`` stopped within a turn.
    """
    head = view_i64(h, HEADER_WORDS)
    left = head[WORK_LEFT] - work
    head[WORK_LEFT] = left
    return left >= 0


@kernel
def pack(high, low):
    """Two ids in one word."""
    return (high << 32) | low


@kernel
def mix(hash_, word):
    """One step of a 32-bit FNV-1a-like hash over a 64-bit word; products stay below 2**57, so nothing overflows."""
    hash_ = ((hash_ ^ (word & LOW_32)) * 16777619) & LOW_32
    hash_ = ((hash_ ^ (hash_ >> 15) ^ ((word >> 32) & LOW_32)) * 16777619) & LOW_32
    return hash_


@kernel
def sort_range(array, start, count):
    """Sort ``array[start:start + count]`` in place: insertion sort for short ranges, heapsort for the rest."""
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
def sort_unique(array, start, count):
    """Sort ``array[start:start + count]`` and drop repeated words; return how many are left."""
    sorted_already = True
    for i in range(start + 1, start + count):
        if array[i - 1] >= array[i]:
            sorted_already = False
            break
    if sorted_already:
        return count
    sort_range(array, start, count)
    kept = 0
    for i in range(start, start + count):
        if kept == 0 or array[i] != array[start + kept - 1]:
            array[start + kept] = array[i]
            kept += 1
    return kept


# --- values ---------------------------------------------------------------------------------------------------------------


@kernel
def intern(h, kind, start, count):
    """The id of the value ``(kind, STACK[start:start + count])``, stored now if it is new; or ``GROW``, or ``LIMIT_WORK``.

    Open addressing with linear probing; at most half of the index is used.
    """
    head = header(h)
    head[WORK_LEFT] -= FIND_VALUE_WORK + (count >> 1)
    words = i64(h, STACK)
    hash_ = mix(2166136261, kind)
    for i in range(start, start + count):
        hash_ = mix(hash_, words[i])
    values = i64(h, VALUES)
    data = i64(h, DATA)
    index = i32(h, INDEX)
    mask = index.shape[0] - 1
    slot = (hash_ ^ (hash_ >> 16)) & mask
    while True:
        value = np.int64(index[slot])
        if value == 0:
            break
        record = value * VALUE_WORDS
        if values[record + V_HASH] == hash_ and values[record + V_KIND] == kind and values[record + V_LENGTH] == count:
            offset = values[record + V_OFFSET]
            same = True
            for i in range(count):
                if data[offset + i] != words[start + i]:
                    same = False
                    break
            if same:
                return value
        slot = (slot + 1) & mask
    if not spend(h, NEW_VALUE_WORK + count):
        return LIMIT_WORK
    value = head[N_VALUES]
    offset = head[DATA_USED]
    if not has_room(h, VALUES, (value + 1) * VALUE_WORDS) or not has_room(h, DATA, offset + count):
        return GROW
    if 2 * (value + 1) > index.shape[0]:
        has_room(h, INDEX, 2 * index.shape[0])
        return GROW
    for i in range(count):
        data[offset + i] = words[start + i]
    record = value * VALUE_WORDS
    values[record + V_KIND] = kind
    values[record + V_OFFSET] = offset
    values[record + V_LENGTH] = count
    values[record + V_HASH] = hash_
    values[record + V_FLAGS] = 0
    values[record + V_AUX] = 0
    head[N_VALUES] = value + 1
    head[DATA_USED] = offset + count
    index[slot] = value
    return value


@kernel
def intern_pair(h, kind, first, second):
    """:func:`intern` of two words that are not on the stack."""
    top = header(h)[STACK_TOP]
    if not has_room(h, STACK, top + 2):
        return np.int64(GROW)
    words = i64(h, STACK)
    words[top] = first
    words[top + 1] = second
    return np.int64(intern(h, kind, top, 2))


@kernel
def reindex(h):
    """Fill a fresh, zeroed INDEX from VALUES."""
    head = header(h)
    values = i64(h, VALUES)
    index = i32(h, INDEX)
    mask = index.shape[0] - 1
    for value in range(1, head[N_VALUES]):
        hash_ = values[value * VALUE_WORDS + V_HASH]
        slot = (hash_ ^ (hash_ >> 16)) & mask
        while index[slot] != 0:
            slot = (slot + 1) & mask
        index[slot] = value
    return 0


@kernel
def kind_of(h, value):
    return i64(h, VALUES)[value * VALUE_WORDS + V_KIND]


@kernel
def offset_of(h, value):
    return i64(h, VALUES)[value * VALUE_WORDS + V_OFFSET]


@kernel
def length_of(h, value):
    return i64(h, VALUES)[value * VALUE_WORDS + V_LENGTH]


@kernel
def flags_of(h, value):
    return i64(h, VALUES)[value * VALUE_WORDS + V_FLAGS]


@kernel
def word_of(h, value, position):
    """Word ``position`` of a value's sequence."""
    return i64(h, DATA)[i64(h, VALUES)[value * VALUE_WORDS + V_OFFSET] + position]


# --- memo -----------------------------------------------------------------------------------------------------------------


@kernel
def _memo_slot(keys, key):
    hash_ = mix(2166136261, key)
    mask = keys.shape[0] - 1
    slot = (hash_ ^ (hash_ >> 16)) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def memo_get(h, kind, a, b):
    """The memoised result of function ``kind`` at ids ``(a, b)``, or -1."""
    keys = i64(h, MEMO_KEYS)
    key = (kind << (2 * ID_BITS)) | (a << ID_BITS) | b
    slot = _memo_slot(keys, key)
    if keys[slot] == 0:
        return -1
    return i64(h, MEMO_RESULTS)[slot]


@kernel
def memo_put(h, kind, a, b, result):
    """Memoise ``result``; returns it, or ``GROW``."""
    head = header(h)
    keys = i64(h, MEMO_KEYS)
    if 2 * (head[MEMO_USED] + 1) > keys.shape[0]:
        has_room(h, MEMO_KEYS, 2 * keys.shape[0])
        return GROW
    key = (kind << (2 * ID_BITS)) | (a << ID_BITS) | b
    slot = _memo_slot(keys, key)
    if keys[slot] == 0:
        keys[slot] = key
        head[MEMO_USED] += 1
    i64(h, MEMO_RESULTS)[slot] = result
    return result


@kernel
def rememo(h):
    """Fill a fresh, zeroed memo table from OLD_KEYS and OLD_RESULTS."""
    keys = i64(h, MEMO_KEYS)
    results = i64(h, MEMO_RESULTS)
    old_keys = i64(h, OLD_KEYS)
    old_results = i64(h, OLD_RESULTS)
    for i in range(old_keys.shape[0]):
        if old_keys[i] != 0:
            slot = _memo_slot(keys, old_keys[i])
            keys[slot] = old_keys[i]
            results[slot] = old_results[i]
    return 0
