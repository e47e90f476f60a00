"""The arena's layout: header words, tables, records, and the kinds of values and memo entries.

::

    header   | 2k: address of table k | 2k + 1: its capacity in items | … | scalars N_VALUES …
    VALUES   | kind offset length hash flags aux | kind offset … |          a record per value id
    DATA     | words of value 1 | words of value 2 | …                       a value is VALUES[id] and its words
    INDEX    | 0 | 7 | 0 | 3 | …                                             hash -> value id
    MEMO     | key result | key result | …                                   a function's arguments, and its result

The header is an int64 array. Table ``k`` has its address in word ``2k`` and its capacity, in items, in word ``2k + 1``; the
scalars follow. A *record* is a fixed number of int64 words at ``number * …_WORDS`` of its table. Its fields are the constants
with a common prefix (``V_``: values, ``X_``: lexemes); the records of lexer, parser and masks are in the ``layout`` modules of
those folders.

**Tables never move inside a call.** Only the Python owner (:class:`cdplugin.engine.arena.Arena`) grows a table, between two
calls. So a kernel may hold a view of a table while it, or a callee, writes to that table.

Numba folds ``layout.NAME`` to a constant. Each table below is listed with its item and its writer. Tables without a record are
read through ``i64``, ``i32`` and ``u8`` of :mod:`cdplugin.kernels.store.arena`.
"""

# --- tables: name, item, who writes ----------------------------------------------------------------------------------------
(
    DATA,  # int64; the words of all values, one value after the other. intern
    VALUES,  # records V_, by value id. intern; the owner of a kind writes its V_AUX
    INDEX,  # int32; hash table of value ids, 0: free, of which INDEX_SLOTS are in use. intern, reindex
    MEMO,  # int64 pairs (packed (kind, a, b), result), one entry after the other. memo_put
    MEMO_INDEX,  # int32; hash table of entries of MEMO, from 1, 0: free, of which MEMO_SLOTS are in use. memo_put
    STACK,  # int64; operands and work lists, empty when an operation begins. every kernel, above its STACK_TOP
    TRANSITIONS,  # int32; rows of lexer states: -1 unknown, 0 dead, else the next state and perhaps ENDS_BIT. lexer
    LEXER_STATES,  # records L_, by lexer state. lexer; masks write L_BASE
    ROWS,  # records R_, by row. parser.earley
    BASES,  # records B_, by mask base. masks.bases
    MASKS,  # records MASK_, by mask. masks.masks
    TOKEN_LISTS,  # int32; lists of token ids, or bitmasks. masks
    ENDS,  # int64; groups of lexeme ends, records G_. masks.ends
    LITERAL_OFFSETS,  # int64; where each literal of the grammar begins in LITERAL_BYTES, and the end. compiler
    LITERAL_BYTES,  # uint8; the literals, sorted. compiler
    LEXEMES,  # records X_, by lexeme number. compiler
    DOT_SYMBOL,  # int64 per dot: the symbol after it: a nonterminal, -2 - lexeme, or END_OF_RULE. parser.rules
    DOT_LEFT,  # int64 per dot: the nonterminal of its rule. parser.rules
    DOT_NULL_REST,  # int64 per dot: 1 if all that follows it may be empty. parser.rules
    RULE_HEADS,  # int64 per nonterminal: its first entry in RULE_LISTS, END_OF_RULE or NOT_EXPANDED. parser.rules
    RULE_LISTS,  # int64 pairs (first dot of a rule, next entry or -1). parser.rules
    CORNER_HEADS,  # int64 per nonterminal: its first entry in CORNER_LISTS. parser.rules
    CORNER_LISTS,  # int64 pairs (dot before the nonterminal with only nullable symbols before it, next entry). parser.rules
    NULLABLE,  # int64 per nonterminal: 1 if it derives the empty text. parser.rules
    VISIT_STAMPS,  # int64 per nonterminal: the STAMP of the search that saw it last. corners. Also a program's results
    TRIE_BYTE,  # uint8 per node of the token trie, in depth-first order: its byte. masks.trie
    TRIE_DEPTH,  # int32 per node: 1 for the children of the root. masks.trie
    TRIE_SKIP,  # int32 per node: nodes of its subtree, itself included. masks.trie
    TRIE_TOKEN,  # int32 per node: the token that ends there, -1: none. masks.trie
    TRIE_CHARS,  # int32 per node of the slice trie: most characters of a token below it. vocabulary
    SLICE_MASKS,  # int32; a bitmask per number of characters: the slice's tokens of at most so many. vocabulary
    TOKEN_OFFSETS,  # int64; where each token begins in TOKEN_BYTES, and the end. vocabulary
    TOKEN_BYTES,  # uint8; the bytes of all tokens. vocabulary
    TRIE_CHILDREN,  # int32; the nodes by parent. masks.trie
    TRIE_FIRST_CHILD,  # int32 per node, the two roots and one more: where its children begin in TRIE_CHILDREN. masks.trie
    TRIE_BELOW,  # int32 per node: bit k: a byte of kind k is below it. masks.trie
    TRIE_RANK,  # int32 per node and one more: tokens that end before it. masks.trie
    TRIE_LISTED,  # int32; the tokens in the order of their nodes. masks.trie
    TRIE_REACH,  # uint8 per node: bytes from it to the deepest node below, at most 255. masks.trie
    TOKEN_RANGES,  # int64; inclusive (first, last) pairs of token ids, of token terminals. compiler
    N_TABLES,
) = range(41)

INT32_TABLES = (
    INDEX,
    MEMO_INDEX,
    TRANSITIONS,
    TOKEN_LISTS,
    TRIE_DEPTH,
    TRIE_SKIP,
    TRIE_TOKEN,
    TRIE_CHARS,
    SLICE_MASKS,
    TRIE_CHILDREN,
    TRIE_FIRST_CHILD,
    TRIE_BELOW,
    TRIE_RANK,
    TRIE_LISTED,
)
UINT8_TABLES = (LITERAL_BYTES, TRIE_BYTE, TRIE_REACH, TOKEN_BYTES)

END_OF_RULE = -1  # in DOT_SYMBOL after the last symbol; in a list: no next entry
NOT_EXPANDED = -2  # in RULE_HEADS: the nonterminal's rules are made when it is first predicted

# --- scalars of the header -------------------------------------------------------------------------------------------------
_S = 2 * N_TABLES
(
    N_VALUES,  # values stored, the unused id 0 included
    DATA_USED,  # words of DATA in use
    MEMO_USED,  # memo entries
    INDEX_SLOTS,  # slots of INDEX in use, a power of two; doubled in place while the table has room
    MEMO_SLOTS,  # the same for MEMO_INDEX
    STACK_TOP,  # words of STACK in use
    REQUEST_A,  # operands of a status (statuses). GROW: the table; NEED_…: the stack index at which the request ends
    REQUEST_B,  # GROW: the capacity needed; NEED_…: the stack index at which the request begins
    STAMP,  # of the last search that stamped VISIT_STAMPS
    N_LEXER_STATES,
    TRANSITIONS_USED,  # items of TRANSITIONS in use
    N_ROWS,
    N_BASES,
    N_MASKS,
    TOKENS_USED,  # items of TOKEN_LISTS in use
    ENDS_USED,  # words of ENDS in use
    MAX_WIDTH,  # Limits.max_expr_width
    FUEL,  # Limits.emptiness_fuel
    MAX_ROW_ITEMS,  # Limits.max_row_items
    MAX_PAIRS,  # Limits.max_pairs
    WORDS,  # int32 words of a mask row
    SLICE_END,  # nodes of the slice trie, which come before all others
    N_NODES,  # nodes of the trie
    MAX_DEPTH,  # bytes of the longest token
    USE_SLICES,  # 1: masks take plain text from SLICE_MASKS
    END_SYMBOL,  # the lexeme number of END
    N_SLICES,  # rows of SLICE_MASKS
    MAX_CHARS,  # code points of the longest slice token
    C_NODES,  # counters, never reset by kernels: trie nodes visited,
    C_DERIVATIVES,  # derivatives computed,
    C_TRANSITIONS,  # transitions filled,
    C_ADVANCES,  # rows advanced,
    C_MASK_HITS,  # masks found in the cache,
    C_MASK_MISSES,  # masks computed,
    C_BASES,  # bases walked,
    C_SUBWALKS,  # walks below the ends of a group for one row
    HAS_TERMINALS,  # 1: some lexeme is a set of tokens
    HAS_CLOCKS,  # 1: some lexeme ends after a number of tokens
    COMPETE,  # 1: lexemes of one row may compete: several are LONGEST or LAZY, or skips
    HAS_TRACKED,  # 1: some lexeme tracks its value; FEW_VALUES: one has so few values that none may be left
    MAX_WORK,  # work, in units of about ten nanoseconds: what an operation is granted,
    WORK_GRANTED,  # what the present operation was granted,
    WORK_LEFT,  # what it has left,
    WORK_DONE,  # what all operations before it spent
    HOLDS_WORK,  # 1: an operation is granted nothing, but continues with what is left
    IS_BROKEN,  # 1: every operation returns BROKEN
    SHARED,  # address of the header of the shared store of bases (masks.shared), 0: none
    SHARED_SAME,  # expressions with ids below this have the same ids in the shared store
    N_MASK_ROWS,  # masks that are cached as whole rows
    C_SHARED,  # bases taken over from the shared store
    C_UNSHARED,  # bases walked that the shared store might have had
    WALKED,  # four words: the last states whose bases were walked whole (masks.neighbours)
    *_MORE,
    HEADER_WORDS,
) = range(_S, _S + 56)

# --- records ---------------------------------------------------------------------------------------------------------------
V_KIND, V_OFFSET, V_LENGTH, V_HASH, V_FLAGS, V_AUX, VALUE_WORDS = range(7)
"""A value in VALUES, by its id; all six words are int64.

| field | what | unit | written by | read by |
|---|---|---|---|---|
| V_KIND | its kind | K_… | intern | kind_of: everybody |
| V_OFFSET | where its words begin | index in DATA | intern | offset_of, word_of |
| V_LENGTH | how many words it has | words | intern | length_of |
| V_HASH | hash of kind and words | 32 bits | intern | intern, reindex |
| V_FLAGS | what is known of an expression | NULLABLE … MEASURED | constructors, emptiness, lengths | flags_of |
| V_AUX | a note of its kind, 0: none | see below | set_aux | aux_of |

V_AUX by kind: K_LEXER: the lexer state's number; K_ITEMS: the row's number; K_BASE and K_OPEN: 1 + the mask base (-1: walked
once); K_ORIGIN: 1 if it has been restricted to all of its left corners; K_CAT, K_ALT, K_AND, K_REPEAT: 1 +
likely_text.bytes_needed.
"""

X_EXPRESSION, X_KIND, X_SKIP, X_RANGES, X_N_RANGES, X_SYMBOL = range(6)
X_BEGUN, X_TICK, X_IS_SKIP, X_ROLE, X_TRACKED, X_FENCE, X_ALIKE, LEXEME_WORDS = range(6, 14)
"""A lexeme in LEXEMES, by its number. Written by the compiler (engine.lexemes) and, for lexemes made late, by engine.tracked.

A lexeme has one number in the rules, and further ones where it matters whether it has begun or how many tokens it has taken.
To the parser (X_SYMBOL) and to the masks they are one lexeme.

| field | what | unit | read by |
|---|---|---|---|
| X_EXPRESSION | what it matches | expression id | earley, starts: where it starts |
| X_KIND | how it ends | EXACT, LONGEST, LAZY | lexer, earley, bases |
| X_SKIP | what may stand before it, -1: nothing | lexeme | skips, earley, starts |
| X_RANGES | a token terminal's first pair | index of pairs in TOKEN_RANGES | cursors, masks |
| X_N_RANGES | how many pairs; 0: no token terminal | pairs | cursors, masks |
| X_SYMBOL | its number in the rules | lexeme | lexer: what ends |
| X_BEGUN | its number after a byte | lexeme | lexer |
| X_TICK | its number after a token that ends in it; itself: used up; -1: not counted | lexeme | tokens._tick_pair, lexer |
| X_IS_SKIP | it leaves the row as it is | 0, 1 | skips, earley, infill |
| X_ROLE | its role in tracking values (lexer.tracked) | PLAIN … SIGN | lexer, tracked, earley |
| X_TRACKED | the number under which a lexeme with a role ends, -1: none | lexeme | earley, engine.tracked |
| X_FENCE | a LONGEST lexeme never ends before a byte that this goes on with, 0: none | expression id | lexer |
| X_ALIKE | of those that track: strings of so many bytes differ only as values to avoid; 0: none do | bytes | tracked_scan |
"""
X_NONE = (X_SKIP, X_TICK, X_TRACKED)  # fields that are -1 in a plain lexeme; X_SYMBOL and X_BEGUN are its number, the others 0
PLAIN, TRACKS, VALUE, NEXT, SHADOW, UNSURE, SIGN = range(7)  # X_ROLE
FEW_VALUES = 2  # in HAS_TRACKED
EXACT, LONGEST, LAZY = range(3)  # X_KIND

# --- kinds of values: what their words are ---------------------------------------------------------------------------------
(
    K_EMPTY,  # expressions (kernels.regex.expressions): the empty set,
    K_EPSILON,  # the empty string,
    K_BYTES,  # 4 words of a set of bytes,
    K_LITERALS,  # first, end, depth: literals first..end-1 from their byte depth on,
    K_CAT,  # first, rest,
    K_ALT,  # parts, sorted,
    K_AND,  # parts, sorted,
    K_NOT,  # part,
    K_REPEAT,  # part, least, most (-1: any number)
    K_LEXER,  # lexer state: lexeme << 32 | expression, sorted
    K_ITEMS,  # kernel items: dot << 32 | origin, sorted
    K_ORIGIN,  # nonterminal << 32 | items that its completion gives, sorted
    K_ACCEPTED,  # lexemes that end together, sorted
    K_STATE,  # cursor of several pairs: row << 32 | lexer state, sorted, after ACCEPTS_HERE if the text may end
    K_CORNERS,  # left corners of a nonterminal, sorted
    K_FIRST,  # lexeme << 32 | dot that a nonterminal may begin with, sorted
    K_AFTER,  # lexer states after one character of plain text, sorted
    K_BASE,  # ends of a group, lexer state: key of a mask base
    K_ENDS,  # pairs (trie node, state of LONGEST lexemes that end there or 0)
    K_TEXT,  # text before, last byte << 32 | lexer state: text of a lexeme that tracks its value
    K_NEXT,  # lexer states one byte further
    K_CLASSES,  # classes of bytes, 4 words each
    K_OPEN,  # of the shared store (masks.shared): expressions that are open together, sorted,
    K_SPELLINGS,  # and literals: the length of each and its bytes, eight to a word
) = range(1, 25)

# --- kinds of memo entries: function of two ids ----------------------------------------------------------------------------
M_DERIVATIVE, M_PLAIN_RUN, M_ONE_CHAR, M_SATURATE, M_AFTER_CHAR, M_CORNERS, M_FIRST, M_START = range(1, 9)
M_RESTRICT, M_COMPLETE, M_ADVANCE, M_STEP, M_MASK, M_SHORTEST, M_CONTAINED, M_VALUE, M_REST, M_NEXT, M_CHARS = range(9, 20)
M_SHARED, M_CLASSES, M_LETTERS, M_WITHIN, M_ABSORBED, M_DOUBT, M_ALIKE, M_CYCLE, M_TERMINALS, M_BOTH = range(20, 30)

NEW_VALUE_WORK, FIND_VALUE_WORK = 12, 2  # units of work of an interned value, besides its words
SORT_WORK = 3  # units of work of a word of the stack that is sorted
SLOTS_BITS = 4  # slots of a hash table that is filled again that are one unit of work, as a power of two
ID_BITS = 29  # of a memo key: kind << 2 * ID_BITS | a << ID_BITS | b
HASH_SEED = 2166136261  # FNV-1a
LOW_32 = 0xFFFFFFFF
