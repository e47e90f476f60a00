"""The workspace of one infilling problem: growing tables found through a header of their own, beside the arena's.

Table ``k`` has its address in word ``2k`` of the header and its capacity in word ``2k + 1``; scalars follow. A kernel that
runs out of room writes which table must grow into ``W_TABLE`` and ``W_TO`` and returns ``W_GROW``; the owner
(:mod:`cdplugin.infill.tables`) grows it, zeros included, and calls again. Every operation starts from tables that outlive it
or from nothing, so that calling again is safe.

*Nodes* are the lexeme boundaries of the text with gaps, numbered from left to right as they are found: from 0 or, where facts
are kept for the next text, so that the last one comes just before :func:`end_node` (``W_FIRST``). Sets of nodes are rows of
``W_WIDTH`` words in the table ``BITS``; a row is named by its offset, 0 is none. The two highest bits of a row stand for ``text
may end here`` (:func:`end_node`) and for the end symbol after it (:func:`final_node`).
"""

from __future__ import annotations

import numpy as np

from cdplugin.kernels.jit.decorators import kernel
from cdplugin.kernels.jit.views import view_i64

(
    ELEMENTS,  # the text: a byte (>= 0), GAP, or SLOT less the number of classes that it is planned with
    ACCEPTS,  # before each element and at the end: 1 where the text may end
    NODE_BEFORE,  # before each element and at the end: the first of the nodes there ...
    NODE_LAST,  # ... and the one after the last of them
    NODE_OPEN,  # node -> 1 inside a slot: all lexemes compete there
    SYMBOL_HEADS,  # nonterminals, then lexemes: where their dots begin in SYMBOL_DOTS
    SYMBOL_DOTS,  # the dots before which a symbol is expected
    IS_FIRST,  # per dot: whether it begins a rule
    FIRST_HEADS,  # nonterminals: where the first dots of their rules begin in FIRST_DOTS
    FIRST_DOTS,
    STARTS,  # the lexer states in which all lexemes start
    CLOSURE_OF,  # lexer state -> its record in POOL
    EFFECT_OF,  # lexer state -> its record in POOL
    POOL,
    QUEUE,
    MARK,  # per lexer state: a stamp
    LEXEME_MARK,
    LIVE,  # (set of lexer states, row in LIVE_BITS of the nodes at which all that is in it began) in progress
    LIVE_NEXT,
    SNAPSHOT,  # (lexer state, row of starts in LIVE_BITS) at the hole
    LIVE_SLOT,  # per set of lexer states (in a snapshot: per state): stamp << 32 | position
    BITS,
    SPANS,  # node * n_lexemes + lexeme -> row: where a lexeme that starts at the node may end
    REST,  # node * n_dots + dot -> row: where the rest of a rule that stands at the node may end
    DERIVED,  # node * n_nonterminals + nonterminal -> row: where it may end; the row after it: what was made of it
    ITEMS,  # node * n_dots + dot -> row of origins: the items of the node (left of the hole)
    OUT,  # (node or column) * n_nonterminals + nonterminal -> row: where its end leads to the end of the text
    CLASS_OF,  # per byte of the vocabulary: the class of what is left of the token there
    CLASS_RECORD,  # class -> its record in POOL
    CLASS_HASH,  # open addressing: class
    CLASS_NODE,  # class -> stamp << 32 | node, while one slot is passed
    SLOT_CLASSES,  # per element: where its (class, node) pairs begin in CLASS_LIST, and how many
    CLASS_LIST,
    CROSS_MARK,
    COLUMNS,  # records of columns: kernel offset, kernel length, items offset, items length, has OUT, starts
    COLUMN_ITEMS,
    COLUMN_HASH,
    WALK,
    WALK_AT,
    CHECKED,  # open addressing: (column, lexer state) -> answer
    ENDS_FROM,  # lexer state -> 1 + offset in ENDS_ROWS, 0 unknown
    ENDS_ROWS,  # per lexeme a row: where a lexeme in that state after the hole may end
    WORK,
    WORK_B,
    NT_MARK,  # per nonterminal: a stamp
    FOLLOWS,  # lexeme (or, last, the beginning of a text) -> set of lexemes, W_SET words: what may come next
    ALLOWED,  # node -> set of lexemes, W_SET words: what may start there, going by the lexemes that end there
    PROFILE_OF,  # lexer state -> its record in POOL
    OUTCOME_HASH,
    OUTCOMES,
    WAY_HASH,  # open addressing: stamp << 32 | way
    WAYS,
    DONE,  # per symbol: the nodes at which it was followed last; per dot: the last one, and the row of the origins that were
    INSIDE_OF,  # lexer state -> stamp << 1 | whether a token may end in it, in one walk
    AFTER,  # lexeme (last: a text's beginning) -> set of the dots that may be under way after it; empty if there are many
    ALIVE,  # node -> set of the dots that may be under way there
    REST_NODES,  # dot -> set of the nodes at which it has a row in REST
    PENDING,  # set of nonterminals, by rank: their ends at a node are not all followed yet
    RANKS,  # nonterminal -> rank, then rank -> nonterminal: what others are made of comes first
    START_HASH,  # open addressing: 1 + entry of START_SETS
    START_SETS,  # set of lexemes, whether skips may come first, the set of the lexer states in which they start
    CLASS_FIRSTS,  # class -> set of lexemes that it may begin with; all if a skip is among them
    SPAN_SETS,  # node -> set of the lexemes that have a row in SPANS
    ITEM_SETS,  # node -> set of the dots that have a row in ITEMS
    TOUCHED,  # table << 40 | index: the entries that name rows; they are 0 again before the next text
    REACH_HASH,  # open addressing: stamp << 32 | entry of REACHED
    REACHED,  # (element, set of lexer states): where they lead to in ENDS_ROWS
    REACH_PATH,
    SKIPPED,  # lexeme -> set of the lexemes that it may stand before, as a skip; the end symbol if it may end every text
    TARGET,  # a set of lexemes under construction
    SET_MARK,  # per set of lexemes that match together: a stamp
    GATHERED,  # what ends in a slot, and the row of its starts
    PUSHED,  # open addressing: stamp << 32 | position in QUEUE
    DOT_OUT,  # dot -> stamp, and the row of its items' OUT
    SET_HASH,  # open addressing: set of lexer states
    SET_HEADS,  # set of lexer states -> where in SET_STATES it begins
    SET_STATES,
    STEP_OF,  # set of lexer states -> a row of records in STEPS (kernels/infill/state_sets.py)
    STEPS,
    CLASS_SET,  # class -> 1 + the set of its states, 0 unknown
    LIVE_BITS,  # rows of starts: of what is alive, and of ENDS
    ENDS,  # lexeme * 64 * width + node -> row in LIVE_BITS: where a lexeme that ends at the node may start
    ENDS_SETS,  # lexeme -> set of the nodes that it has a row in ENDS for
    SPAN_ENDS,  # ends of a lexeme, and a word of the starts of each
    SPAN_BLOCK,  # rows of ends of one lexeme, for 64 starts
    BLOCK,  # 64 words
    NEXT_SPAN_SETS,  # SPAN_SETS of this text, while that of the last one is still there
    CHECKPOINTS,  # what is known before an element (kernels/infill/checkpoints.py)
    CHECKPOINT_AT,  # element -> where in CHECKPOINTS
    KEPT_TEXT,  # the elements and ACCEPTS behind each, as they were when the checkpoints were made
    NEXT_ALIVE,  # ALIVE of this text, while facts are kept that go by that of the last ones
    FACTS_AT,  # node -> W_N_TOUCHED and W_BITS_USED before its facts were found
    BELOW,  # 2 * trie node, one more for what is behind it -> where in BELOW_LISTS; 0 unknown
    BELOW_LISTS,  # numbers of classes, and classes
    CLASS_MARK,  # per class: a stamp
    END_IN_GAPS,  # lexeme -> whether it may end in a gap, whatever comes next (cdplugin.infill.room)
) = range(96)
N_WORKSPACE = 96

_S = 2 * N_WORKSPACE
(
    W_TABLE,
    W_TO,
    W_WIDTH,
    W_STAMP,
    W_NODES,
    W_BITS_USED,
    W_POOL_USED,
    W_ELEMENTS,
    W_HOLE,  # the element whose left side is asked for, or -1
    W_N_LIVE,
    W_N_SNAPSHOT,
    W_N_SYMBOLS_NT,
    W_N_LEXEMES,
    W_N_DOTS,
    W_N_STARTS,
    W_N_CLASSES,
    W_CLASS_CAP,  # of the slot under way: classes above it are not used in planning
    W_CLASS_LIST_USED,
    W_N_COLUMNS,
    W_COLUMN_ITEMS_USED,
    W_N_CHECKED,
    W_MOST_STATES,
    W_ENDS_USED,
    W_MOST_CLASSES,
    W_C_NODES,  # counters
    W_C_CHECKS,
    W_LEFT,  # nodes up to the hole
    W_BITS_KEPT,  # what of BITS holds facts; the rest belongs to one mask
    W_SET,  # words of a set of lexemes
    W_PROFILES,  # whether masks are made of profiles
    W_WAY_STAMP,
    W_N_WAYS,
    W_N_START_SETS,
    W_N_TOUCHED,
    W_REACH_STAMP,
    W_N_REACHED,
    W_BITS_FACTS,  # what of BITS, and of TOUCHED, is there before items are made
    W_TOUCHED_FACTS,
    W_DOT_SET,  # words of a set of dots
    W_SPLIT,  # whether a place may have several nodes
    W_N_GATHERED,
    W_PUSH_STAMP,
    W_N_SETS,
    W_STEPS_USED,
    W_ALIVE,  # whether facts are looked for only where ALIVE says
    W_LIVE_USED,
    W_KEEP,  # whether facts are kept for the next text
    W_FIRST,  # the first node of the text in SPANS and of the facts
    W_CHANGED,  # the rightmost node whose spans changed since facts were found; -1 none
    W_FACTS_FIRST,  # the leftmost node whose facts are kept
    W_KEPT_WIDTH,  # W_WIDTH of all that is kept; 0: nothing is
    W_SPAN_ROWS,  # how many rows at the beginning of BITS are for SPANS
    W_SPANS_USED,
    W_N_CHECKPOINTS,
    W_CHECKPOINTS_USED,
    W_KEPT_ELEMENTS,
    W_C_ELEMENTS,  # counters: elements that were run through, nodes whose facts were found
    W_C_FACTS,
    W_BELOW_USED,
    W_LOOSE,  # whether each LONGEST lexeme competes with its skip alone (kernels/infill/starts.py)
) = range(_S, _S + 60)
WORKSPACE_WORDS = _S + 61

GAP, SLOT = -1, -2

W_GROW = -20
WIDEN = -21  # more nodes than a row has bits
LIMIT_STATES = -22  # a gap leads to too many lexer states


@kernel
def whead(w):
    """The workspace's header."""
    return view_i64(w, WORKSPACE_WORDS)


@kernel
def tab(w, table):
    """A table of the workspace, of its whole capacity."""
    head = view_i64(w, WORKSPACE_WORDS)
    return view_i64(head[2 * table], head[2 * table + 1])


@kernel
def room(w, table, count):
    """Whether a table can hold ``count`` items; if not, the header says which must grow to what."""
    head = view_i64(w, WORKSPACE_WORDS)
    if head[2 * table + 1] >= count:
        return True
    head[W_TABLE] = table
    head[W_TO] = count
    return False


@kernel
def _row_behind(w, table, word_of_used):
    """The offset of a row of zeros behind what is used of a table of rows; or ``W_GROW``."""
    head = whead(w)
    row = head[word_of_used]
    width = head[W_WIDTH]
    if not room(w, table, row + width):
        return np.int64(W_GROW)
    bits = tab(w, table)
    for i in range(row, row + width):
        bits[i] = 0
    head[word_of_used] = row + width
    return row


@kernel
def new_row(w):
    """The offset of a fresh row of zeros in ``BITS``, or ``W_GROW``."""
    return _row_behind(w, BITS, W_BITS_USED)


@kernel
def live_row(w):
    """The offset of a fresh row of zeros in ``LIVE_BITS``, or ``W_GROW``."""
    return _row_behind(w, LIVE_BITS, W_LIVE_USED)


@kernel
def row_in(w, table, index):
    """The row named by entry ``index`` of a table, made now if there is none; or ``W_GROW``."""
    row = tab(w, table)[index]
    if row == 0:
        head = whead(w)
        count = head[W_N_TOUCHED]
        if not room(w, TOUCHED, count + 1):
            return np.int64(W_GROW)
        row = new_row(w)
        if row > 0:
            tab(w, table)[index] = row
            tab(w, TOUCHED)[count] = (table << 40) | index
            head[W_N_TOUCHED] = count + 1
    return row


@kernel
def forget_rows(w, touched_before, bits_before):
    """Every entry that came to name a row since then is 0 again."""
    head = whead(w)
    touched = tab(w, TOUCHED)
    for i in range(touched_before, head[W_N_TOUCHED]):
        tab(w, touched[i] >> 40)[touched[i] & 0xFFFFFFFFFF] = 0
    head[W_N_TOUCHED] = touched_before
    head[W_BITS_USED] = bits_before


@kernel
def rest_row(w, node, dot):
    """The row of ``REST`` for a dot at a node, made now if there is none; or ``W_GROW``."""
    head = whead(w)
    tab(w, REST_NODES)[dot * head[W_WIDTH] + (node >> 6)] |= np.int64(1) << (node & 63)
    return row_in(w, REST, node * head[W_N_DOTS] + dot)


@kernel
def item_row(w, node, dot):
    """The row of ``ITEMS`` for a dot at a node, made now if there is none; or ``W_GROW``."""
    head = whead(w)
    tab(w, ITEM_SETS)[node * head[W_DOT_SET] + (dot >> 6)] |= np.int64(1) << (dot & 63)
    return row_in(w, ITEMS, node * head[W_N_DOTS] + dot)


@kernel
def end_node(w):
    """The bit for: the text may end here."""
    return 64 * whead(w)[W_WIDTH] - 2


@kernel
def final_node(w):
    """The bit for: and the end symbol was read."""
    return 64 * whead(w)[W_WIDTH] - 1


@kernel
def has_bit(bits, row, node):
    return (bits[row + (node >> 6)] >> (node & 63)) & 1 != 0


@kernel
def set_bit(bits, row, node):
    """Set a bit; whether it was new."""
    word = row + (node >> 6)
    bit = np.int64(1) << (node & 63)
    if bits[word] & bit:
        return False
    bits[word] |= bit
    return True


@kernel
def or_row(bits, into, row, width):
    """``into |= row``; whether anything was new."""
    grew = np.int64(0)
    for i in range(width):
        old = bits[into + i]
        new = old | bits[row + i]
        grew |= old ^ new
        bits[into + i] = new
    return grew != 0


@kernel
def meet(bits, a, b, width):
    """Whether two rows have a node in common."""
    for i in range(width):
        if bits[a + i] & bits[b + i]:
            return True
    return False
