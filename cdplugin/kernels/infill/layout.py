"""The layout of an infilling workspace: tables and scalars of its header, and the records in its tables.

::

    a row of nodes    | word 0: nodes 0 … 63 | word 1: 64 … 127 | … |    W_WIDTH words; the two highest bits: end, final
    a table of rows   [node * symbols + symbol] -> offset in BITS, 0: no row
    a list in POOL    | counts | states | sets | pairs |                 named by its offset

As in the arena, table ``k`` has its address in word ``2k`` of the header and its capacity in word ``2k + 1``; the scalars
(``W_…``) follow. **Tables never move inside a call**: the owner, :class:`cdplugin.infill.workspace.Workspace`, grows them
between calls, with zeros. All tables are int64.

A *node* is a lexeme boundary of the text, numbered from left to right. A *row* is a set of nodes: ``W_WIDTH`` words of ``BITS``
or ``LIVE_BITS``, named by its offset; 0 is no row. A *turn* is a dot's position in ``SYMBOL_DOTS``, so in a *set by turn* the
dots before one symbol are neighbouring bits. *Stamps* save clearing: an entry counts only if it holds the stamp of the current
search. An open-addressing index has a power of two of entries and is at most half full. A *symbol's number*: nonterminals
first, then lexemes; the last lexeme is the end of the text. "Leads to" is short for "may end at".
"""

(
    ELEMENTS,  # the text: a byte (>= 0), GAP, or SLOT less the number of classes that it is planned with
    ACCEPTS,  # before each element and at the end: 1 where the text may end
    NODE_BEFORE,  # before each element and at the end: the first of the nodes there ...
    NODE_LAST,  # ... and the one after the last of them
    NODE_OPEN,  # node -> 1 inside a slot: all lexemes compete there
    SYMBOL_HEADS,  # symbol -> where the dots before it begin in SYMBOL_DOTS
    SYMBOL_DOTS,  # the dots before a symbol, symbol by symbol, then the dots at the ends of rules
    TURN_OF,  # dot -> its turn: its position in SYMBOL_DOTS
    IS_FIRST,  # dot -> whether it begins a rule
    FIRST_HEADS,  # nonterminal -> where the first dots of its rules begin in FIRST_DOTS
    FIRST_DOTS,
    STARTS,  # the lexer states in which all lexemes start
    CLOSURE_OF,  # lexer state -> its record in POOL
    EFFECT_OF,  # lexer state -> its record in POOL
    POOL,
    QUEUE,
    MARK,  # per lexer state: a stamp
    LEXEME_MARK,
    LIVE,  # (set of lexer states, row in LIVE_BITS of its starts: the nodes at which its lexemes began), now alive
    LIVE_NEXT,
    SNAPSHOT,  # (lexer state, row of starts in LIVE_BITS) alive at the hole
    LIVE_SLOT,  # set of lexer states (in a snapshot: state) -> stamp << 32 | position in LIVE
    BITS,
    SPANS,  # node * n_lexemes + lexeme -> row: where a lexeme that starts at the node may end
    REST,  # node * n_dots + dot -> row: where the rest of the rule behind the dot, begun at the node, may end
    DERIVED,  # node * n_nonterminals + nonterminal -> row: where it may end; the row after it: the ends already followed
    ITEMS,  # node * n_dots + dot -> row of origins: the items of the node (left of the hole)
    OUT,  # (node or column) * n_nonterminals + nonterminal -> row: its ends from which the text can be completed
    CLASS_OF,  # byte of the vocabulary's texts -> the class of the token's suffix from there on
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
    CHECKED_INDEX,  # open addressing: stamp << 32 | entry of CHECKED
    CHECKED,  # a pair (column, lexer state), and 1 + the answer
    ENDS_FROM,  # lexer state -> 1 + offset in ENDS_ROWS, 0 unknown
    ENDS_ROWS,  # per lexeme a row: where a lexeme in that state after the hole may end
    WORK,
    WORK_B,
    NT_MARK,  # per nonterminal: a stamp
    FOLLOWS,  # lexeme (or, last, the beginning of a text) -> set of lexemes, W_SET words: what may come next
    ALLOWED,  # node -> set of lexemes, W_SET words: what may start there, going by the lexemes that end there
    PROFILE_OF,  # lexer state -> its record in POOL
    OUTCOME_INDEX,  # open addressing: stamp << 32 | outcome
    OUTCOMES,  # of the profile under way; the frames of pairs.class_completes
    WAY_HASH,  # open addressing: stamp << 32 | way
    WAYS,
    DONE,  # symbol -> the last nodes where it had many ends (kernels/infill/taken_over.py)
    MOVED,  # dot -> records of what its items moved last (kernels/infill/items.py)
    INSIDE_OF,  # lexer state -> stamp << 1 | whether a token may end in it, in one walk
    AFTER,  # lexeme (last: a text's beginning) -> set by turn of the dots that are alive after it; see AFTER_KNOWN
    ALIVE,  # node -> set by turn of the dots that are alive there, W_TURN_SET words
    REST_NODES,  # dot -> set of the nodes at which it has a row in REST
    PENDING,  # agenda of nonterminals with ends not followed yet, a set by rank; then the set of its words that are not 0
    RANKS,  # nonterminal -> rank, then rank -> nonterminal: what a rule may begin with comes before its left side
    START_HASH,  # open addressing: 1 + entry of START_SETS
    START_SETS,  # set of lexemes, whether skips may come first, the set of the lexer states in which they start
    CLASS_FIRSTS,  # class -> set of lexemes that it may begin with; all lexemes if a skip is among them
    SPAN_SETS,  # node -> set of the lexemes that have a row in SPANS
    ITEM_SETS,  # node -> set of the dots that have a row in ITEMS
    TOUCHED,  # count << 47 | table << 40 | index: the entries that name rows; they are 0 again before the next text
    REACH_INDEX,  # open addressing: stamp << 32 | entry of REACHED
    REACHED,  # element << 32 | set of lexer states, and 1 + where they lead to in ENDS_ROWS
    REACH_PATH,
    SKIPPED,  # skip -> set of the lexemes that it may stand before; the end symbol if it may end every text
    TARGET,  # a set of lexemes under construction: what may start at a node or column
    SET_MARK,  # per set of lexemes that match together: a stamp
    SLOT_ENDS,  # (how lexemes end in the slot under way, row of their starts)
    PUSHED,  # open addressing: stamp << 32 | position in QUEUE
    DOT_OUT,  # dot -> stamp, and the union of OUT over its items' origins
    SET_HASH,  # open addressing: set of lexer states
    SET_HEADS,  # set of lexer states -> where in SET_STATES it begins
    SET_STATES,
    STEP_OF,  # set of lexer states -> a row of records in STEPS (kernels/infill/state_sets.py)
    STEPS,
    CLASS_SET,  # class -> 1 + the set of its states, 0 unknown
    LIVE_BITS,  # rows of starts: of what is alive, and of ENDS
    ENDS,  # lexeme * 64 * width + node -> row in LIVE_BITS: where a lexeme that ends at the node may start
    ENDS_SETS,  # lexeme -> set of the nodes that it has a row in ENDS for
    SPAN_OWNERS,  # row of SPANS, by number -> which entry names it
    SPAN_ENDS,  # ends of a lexeme, and a word of the starts of each
    SPAN_BLOCK,  # rows of ends of one lexeme, for 64 starts
    BLOCK,  # 64 words
    NEXT_SPAN_SETS,  # SPAN_SETS of this text, while that of the last one is still there
    CHECKPOINTS,  # the lattice's state before an element (kernels/infill/checkpoints.py)
    CHECKPOINT_AT,  # element -> where in CHECKPOINTS
    LAST_TEXT,  # the elements and ACCEPTS behind each, as they were when the checkpoints were made
    NEXT_ALIVE,  # ALIVE of this text, while ALIVE still holds that of the texts whose facts are reused
    FACTS_AT,  # node -> W_N_TOUCHED, W_BITS_USED and W_N_CHAINED before its facts were found
    BELOW,  # 2 * trie node, plus 1 without the node's own byte -> where in BELOW_LISTS; 0 unknown
    BELOW_LISTS,  # lists of classes, each after its length
    CLASS_MARK,  # per class: a stamp
    END_IN_GAPS,  # lexeme -> whether a gap can end it whatever follows (cdplugin.infill.room)
    FACT_INDEX,  # open addressing: stamp << 32 | fact (kernels/infill/derivation.py)
    FACTS,
    INFERENCES,
    EDGE_INDEX,  # open addressing: stamp << 32 | edge
    EDGES,  # lexeme and nodes (a key), and what it costs; -1: barred
    HEAP,  # (cost, number of an inference), or (cost << 32 | lexer state, point), the cheapest first
    POINT_OF,  # lexer state -> stamp << 32 | its record in LAYERS, or its point in POINTS (kernels/infill/measure.py)
    LAYERS,  # two lists of states with costs, by turns
    TARGETS_OF,  # lexer state -> where in POOL the list of the states that one byte leads to is, after its length
    POINTS,  # points in gaps
    MEASURE_INDEX,  # open addressing: stamp << 32 | measure
    MEASURES,
    LEAST,  # lexeme -> its least number of bytes; empty if W_MOST_IN_GAP is 0
    USEFUL,  # set of the nodes that have facts, and the final node
    PASSES,  # set by turn of the dots whose rule may end with the symbol after them
    ACTIVE,  # set by turn of the dots whose next dot has a row in REST at some node
    LAST_RANKS,  # as RANKS: what a rule may end with comes before its left side
    DERIVED_HERE,  # set of the nonterminals that have a row in DERIVED at the current node
    GAP_KEY,  # set of the lexemes that may lie in the gaps that the plan is for (kernels/infill/gap_plan.py)
    GAP_LEXEMES,  # set of the lexemes that may lie in the current gap
    GAP_STAYS,  # set of the nonterminals that stay: that may lie in the gap
    GAP_PREFIX_STAYS,  # set of the dots of whose rule all before the dot stays
    GAP_TAIL,  # dot -> 1 + its tail, the symbol that the rest of the rule ends with; 0: none, -1: several
    GAP_UP_HEADS,  # symbol -> where in GAP_UPS its ups begin: the nonterminals that end where it does
    GAP_UPS,
    GAP_ROWS,  # dot -> row: where the rest behind the symbol after the dot leads, right of the gap
    GAP_LIST,  # the dots that have such a row
    GAP_ACTIVE,  # set by turn of the dots whose next dot has a tail
    GAP_REACH,  # symbol -> set of itself and its transitive ups, and set by turn of the dots before these
    GAP_TAILED,  # set by turn of the dots that have a tail
    GAP_BY_END,  # set of the gap nodes whose facts are kept by end and named in REST and DERIVED on demand (gap_rests.py)
    GAP_END_SETS,  # node in GAP_BY_END -> where in BITS the sets of its ends begin (kernels/infill/gap_ends.py)
    GAPS_COVERED,  # set of the nodes in GAP_BY_END that the current gap covers (kernels/infill/gap_ends.py)
    CHAIN_HEADS,  # symbol -> twice where its dots begin in CHAIN_DOTS, plus 1 if it has CHAIN_UPS (kernels/infill/chains.py)
    CHAIN_DOTS,  # (number, bits) of a word of a set by turn
    CHAIN_UPS,  # symbol -> set of the nonterminals that unit rules lead to from it
    CHAINED,  # (symbol, row of ends) whose chain was followed
    CHAINED_AT,  # node -> where its pairs begin in CHAINED, and end
    MANY_HERE,  # set of the nonterminals that were followed with many ends at the current node
    NEAR_FIRST,  # dot -> whether all before it in its rule may be empty
    NEXT_OF,  # lexeme -> set by turn of the dots behind whose symbol the rest of the rule may begin with it
    NEXT_HERE,  # node -> set by turn of the dots behind whose symbol the rest of the rule may lead on from the node
    NEXT_ANY,  # union of NEXT_HERE over the nodes
    ASKED,  # set of the nodes whose rests are found on demand (kernels/infill/asked.py)
    REST_STACK,  # (node, dot, row) of the rests being found
    END_LIST,  # scratch: the useful ends of a row
    STARTS_ALONE,  # lexeme -> the lexer state in which it starts by itself; 0 unknown
    FIRSTS_AT,  # two bytes (kernels/infill/ahead.py) -> 1 + where in FIRSTS; 0 unknown
    FIRSTS,  # set of the lexemes that can begin with them, and of the skips among these
    AHEAD_AT,  # element -> stamp, and the last element that was read
    AHEAD_SETS,  # element -> set of the lexemes that matter before it
    AHEAD_STACK,
    TWIN_OF,  # node -> itself, or the gap node whose twin it is (kernels/infill/twins.py)
    TWINS,  # set of the twins; then the candidates for the current gap, then the nodes that cannot be twins
    GAP_BEYOND_TAIL,  # node in a gap -> set of the dots whose rest leads beyond its tail: to a rest right of the gap
    GAP_STAYING,  # set by turn of the dots before a symbol that stays
    AFTER_KNOWN,  # lexeme (last: a text's beginning) -> 1 if AFTER has its set
    AFTER_MARK,  # nonterminals: a stamp where they were predicted, then one where they were completed (kernels/infill/alive.py)
    DOT_QUEUE,  # dots found by that search
    MISSING,  # lexemes that end in the text and are not in AFTER
    IN_DOUBT,  # rank of a token -> how many tokens before it a mask does not have yet (kernels/infill/doubt.py)
    DOUBT_FIRSTS,  # set of the first bytes of the tokens that it does not have
    BEGINNING,  # byte -> 1 if no lexeme begins with it, 2 if one does; 0 unknown
    BYTE_STARTS,  # 1 if filled; byte -> where in this table its list begins; then the lists: the STARTS that accept the byte
    STATE_BITS,  # scratch: a set of lexer states as bits, from its least state on
    N_WORKSPACE,
) = range(166)

_S = 2 * N_WORKSPACE
(
    W_TABLE,  # operands of W_GROW: the table that is full,
    W_TO,  # and the items that it needs
    W_WIDTH,  # words of a row
    W_STAMP,  # the last stamp
    W_NODES,  # nodes of the text so far
    W_BITS_USED,  # words of BITS and of POOL in use
    W_POOL_USED,
    W_ELEMENTS,  # elements of the text
    W_HOLE,  # the element whose left side is asked for, or -1
    W_N_LIVE,  # pairs in LIVE and in SNAPSHOT
    W_N_SNAPSHOT,
    W_N_SYMBOLS_NT,  # nonterminals
    W_N_LEXEMES,  # lexemes, the end of the text (the last one) included
    W_N_DOTS,
    W_N_STARTS,
    W_N_CLASSES,  # classes, the unused 0 included
    W_CLASS_CAP,  # of the slot under way: classes above it are not used in planning
    W_CLASS_LIST_USED,
    W_N_COLUMNS,
    W_COLUMN_ITEMS_USED,
    W_MOST_STATES,  # of a closure
    W_ENDS_USED,
    W_MOST_CLASSES,  # of a vocabulary
    W_C_NODES,  # counters: trie nodes of masks,
    W_C_CHECKS,  # answers of pairs.completes that were computed
    W_LEFT,  # how many nodes lie left of the hole or at it
    W_BITS_ITEMS,  # what of BITS holds facts and items; the rest belongs to one mask
    W_SET,  # words of a set of lexemes
    W_PROFILES,  # whether masks are made from profiles
    W_WAY_STAMP,
    W_N_WAYS,
    W_N_START_SETS,
    W_N_TOUCHED,
    W_BITS_FACTS,  # what of BITS, and of TOUCHED, belongs to facts
    W_TOUCHED_FACTS,
    W_DOT_SET,  # words of a set of dots
    W_TURN_SET,  # words of a set of dots by turn, of those before a symbol
    W_SPLIT,  # whether a place may have several nodes
    W_N_SLOT_ENDS,
    W_PUSH_STAMP,
    W_N_SETS,
    W_STEPS_USED,
    W_ALIVE,  # whether only dots in ALIVE are followed
    W_LIVE_USED,
    W_REUSE,  # whether facts are reused for the next text
    W_FIRST,  # the first node of the text in SPANS and of the facts
    W_CHANGED,  # the rightmost node whose spans changed since the facts were found; -1 none
    W_FACTS_FIRST,  # the leftmost node that has facts
    W_REUSED_WIDTH,  # W_WIDTH of what is reused of the last text; 0: nothing is
    W_SPAN_ROWS,  # how many rows at the beginning of BITS are for SPANS
    W_N_SPANS,  # how many of them are in use
    W_N_CHECKPOINTS,
    W_CHECKPOINTS_USED,
    W_LAST_ELEMENTS,  # elements of LAST_TEXT
    W_C_ELEMENTS,  # counters: elements that the lattice read, nodes whose facts were found
    W_C_FACTS,
    W_BELOW_USED,
    W_LOOSE,  # whether this workspace is loose: each LONGEST lexeme competes with its skip alone (kernels/infill/starts.py)
    W_WORK_LEFT,  # quarters of a unit of work (the arena's) that the operation may still spend in the infilling kernels
    W_N_FACTS,
    W_N_INFERENCES,
    W_N_EDGES,
    W_N_POINTS,
    W_N_MEASURES,
    W_N_CHECKED,
    W_N_OUTCOMES,
    W_N_REACHED,
    W_MOST_IN_GAP,  # the most bytes of a lexeme in a gap, so one whose LEAST is more cannot begin there; 0: no bound
    W_HAS_PLAN,  # whether there is a plan for gaps
    W_GAP_OTHERS,  # how many gaps in succession the plan did not fit
    W_N_GAP_LIST,
    W_BITS_CLEAN,  # BITS and LIVE_BITS are zero from what is used up to here
    W_LIVE_CLEAN,
    W_REST_WIDTH,  # the width of the rows in REST_NODES
    W_HAS_CHAINS,
    W_N_CHAINED,
    W_CHAINED_FACTS,
    W_ASKED,  # whether rests are found on demand, where that is possible
    W_HAS_SLOTS,  # whether the text has open slots
    W_NARROW,  # whether nodes that agree in what the text ahead lets begin are merged (kernels/infill/ahead.py)
    W_LOOKED,  # the rightmost element that was read for that
    W_AHEAD_STAMP,
    W_FIRSTS_USED,
    W_HAS_TWINS,  # whether there is anything in TWINS
    W_CUT,  # whether lexemes that begin before a gap end before it or in it
    W_WAS_CUT,  # the same of the last text
    W_DECIDED,  # bits of the mask under way when IN_DOUBT was counted; 0: it was not
    W_LAYER,  # which of the two lists in LAYERS is read (0 or 1)
    W_LAST,  # MS_LAST and MS_POINT of the lexemes that end next
    W_LAST_POINT,
    W_STAMPS,  # by counter, from W_N_FACTS on: the stamp of its records in their index
    W_STAMPS_2,
    W_STAMPS_3,
    W_STAMPS_4,
    W_STAMPS_5,
    W_STAMPS_6,
    W_STAMPS_7,
    W_STAMPS_8,
    WORKSPACE_WORDS,
) = range(_S, _S + 99)

W_COUNTERS = W_N_FACTS  # the counters: of facts, inferences, edges, points, measures, answers, outcomes and sets that are met

GAP, SLOT = -1, -2  # in ELEMENTS
NO_ELEMENT = 256  # in LAST_TEXT, at a hole's slot: no text has it

NODE_WORK = 6  # quarters of a unit of work for each trie node that a walk visits, its transition included

# --- records ---------------------------------------------------------------------------------------------------------------
C_STATES, C_LEXEMES, C_FIRST = range(3)
"""A closure in POOL, named by CLOSURE_OF[lexer state]. Written by effects.closure_of, read by steps._by_gap.

| field | what | unit |
|---|---|---|
| C_STATES | how many states some string leads to | lexer states |
| C_LEXEMES | how many lexemes end on the way | lexemes |
| C_FIRST … | the states, then the lexemes | lexer states; lexemes |
"""

E_STATES, E_ENDS, E_CROSSINGS, E_FIRST = range(4)
"""An effect in POOL, named by EFFECT_OF[lexer state] or CLASS_RECORD[class]. Written by effects, read by steps and lattice.

| field | what | unit |
|---|---|---|
| E_STATES | how many states a token leads to | lexer states |
| E_ENDS | how many sets of lexemes match together at the end of a token | K_ACCEPTED values |
| E_CROSSINGS | how many ways to end inside a token | pairs |
| E_FIRST … | the states, the sets, and the pairs (lexeme, class), smaller classes first | pairs in a word |
"""

# A profile in POOL, named by PROFILE_OF[lexer state]: the number of outcomes, then a record for each, then their tokens.
INSIDE, ENDS_WITH, CROSSES = range(3)  # kinds of outcomes: the token leads to a state; ends lexemes; ends lexemes inside
KIND_BITS, CLASS_BITS = 2, 20
P_KEY, P_COUNT, P_AT, OUTCOME_WORDS = range(4)
"""An outcome of a profile. Written by profiles.profile_of, read by holes._add_outcomes and profiles.add_tokens.

| field | what | unit |
|---|---|---|
| P_KEY | the state that the token leads to, or what it ends | lexer state, or K_ACCEPTED value, above the lower bits |
| … the lower KIND_BITS + CLASS_BITS | its kind; what is left of it (CROSSES), else 0 | class in the lowest |
| P_COUNT | its tokens, -1: a bitmask | ids |
| P_AT | where they are | words, counted from the profile |
"""

BY_SLOT, BY_GAP, BY_END, COLUMNS_OF_STEPS = range(256, 260)  # columns of STEP_OF after the 256 bytes; and how many there are
S_NEXT, S_BEFORE, S_ENDS, S_CROSSINGS, S_CAP, S_FIRST = range(6)
"""A step in STEPS, named by STEP_OF[set of states, column]. Written by steps.step_of, read by lattice and reach.

| field | what | unit |
|---|---|---|
| S_NEXT | the set after the element, 0: none | set of lexer states |
| S_BEFORE | how many sets of lexemes end before the element; of BY_END: at the end of the text | K_ACCEPTED values |
| S_ENDS | how many end with it; of a gap: how many lexemes end in it | K_ACCEPTED values; lexemes |
| S_CROSSINGS | how many ways to end inside the slot | pairs |
| S_CAP | the largest class that was listed | class |
| S_FIRST … | the three lists; pairs (lexeme, class), smaller classes first | pairs in a word |
"""

COL_START, COL_COUNT, COL_ITEMS, COL_N_ITEMS, COL_EXACT, COL_SCANS, COL_SET, COL_TARGET, COLUMN_WORDS = range(9)
"""A column in COLUMNS, by its number (from 1). Written by columns.make_column, read by columns and holes.

| field | what | unit |
|---|---|---|
| COL_START | its kernel items | index in COLUMN_ITEMS |
| COL_COUNT | how many | items (dot, origin), in a word |
| COL_ITEMS | its items that wait for something | index in COLUMN_ITEMS |
| COL_N_ITEMS | how many | items |
| COL_EXACT | where EXACT lexemes start, 0: none | lexer state |
| COL_SCANS | 2 if it only scans (predicts nothing), plus SKIPS if a skip may come first | bits |
| COL_SET | where the other lexemes start | set of lexer states |
| COL_TARGET | the lexemes that compete there (W_SPLIT) | index in COLUMN_ITEMS, W_SET words |
"""

MV_NODE, MV_ORIGINS, MOVED_WORDS = range(3)
"""What was moved over the symbol behind a dot, in MOVED, by dot. Only items use it, in rows of several words.

| field | what | unit |
|---|---|---|
| MV_NODE | the last node where the dot was followed, -1: none | node |
| MV_ORIGINS | the origins of the items moved from there | row of BITS |
"""

WAY_DOT, WAY_OUT, WAY_ROW, WAY_WORDS = range(4)
"""A way in WAYS, by its number. Written by ways.way_of, read by ways.

| field | what | unit |
|---|---|---|
| WAY_DOT | the dot before the rest of the rule | dot |
| WAY_OUT | the nodes at which the rest is to end | row of BITS |
| WAY_ROW | the nodes from which it does; the row after it: the nodes asked about so far | row of BITS |
"""

F_KEY, F_USERS, F_INFERENCE, F_COST, FACT_WORDS = range(5)
"""A fact in FACTS, by its number. Written by derivation, read there and by cdplugin.infill.complete.

| field | what | unit |
|---|---|---|
| F_KEY | dot, node and end | bits, NODE_BITS for each node |
| F_USERS | the first inference that needs it, 0: none | 1 + 2 * inference, one more where it is INF_OTHER |
| F_INFERENCE | the cheapest inference, -1: none | inference |
| F_COST | its cost | BYTE for each byte, and 1 for each inference |
"""

INF_FACT, INF_NEED, INF_OTHER, INF_EDGE, INF_NEXT, INF_NEXT_OTHER, INFERENCE_WORDS = range(7)
"""An inference in INFERENCES: one way to derive a fact. Written by derivation, read there and by cdplugin.infill.complete.

| field | what | unit |
|---|---|---|
| INF_FACT | the fact that it derives | fact |
| INF_NEED, INF_OTHER | the facts that it needs, -1: none | fact |
| INF_EDGE | the lexeme that it begins with, -1: none | edge |
| INF_NEXT, INF_NEXT_OTHER | the next inference that needs the same fact | as F_USERS |
"""

NODE_BITS = 13  # bits of a node in a key: rows are at most 128 words wide
EDGE_WORDS = 2  # of an edge: key, cost
BY_TEXT = 1 << 62  # in MS_LAST
LY_STATE, LY_COST, LY_BEFORE, LY_POINT, LAYER_WORDS = range(5)
PT_PLACE, PT_COST, PT_BEFORE, POINT_WORDS = range(4)
MS_KEY, MS_COST, MS_LAST, MS_POINT, MEASURE_WORDS = range(5)
"""Records of measure in LAYERS, POINTS and MEASURES; cdplugin.infill.complete reads the last two.

| field | what | unit |
|---|---|---|
| LY_STATE | a state before the element that is read | lexer state |
| LY_COST, PT_COST | what it costs to come there | bytes in gaps |
| LY_BEFORE | the state before the element before | lexer state |
| LY_POINT | the last point in a gap on the way, 0: none | 1 + point |
| PT_PLACE | the gap and the state | element << 32, lexer state |
| PT_BEFORE | the point before, in the same gap or an earlier one, 0: none | 1 + point |
| MS_KEY | the lexeme and the node at which it ends | bits, NODE_BITS for the node |
| MS_COST | what that costs | 1 + bytes in gaps |
| MS_LAST | the element and state from which it ends; BY_TEXT unless a byte in a gap is its last step | as PT_PLACE, flag |
| MS_POINT | the last point in a gap on the way, 0: none | 1 + point |
"""
BYTE = 1 << 20  # the cost of a byte in a gap
MOST_COST = 1 << 60

CP_FIRST, CP_NODES, CP_CLASSES, CP_BITS, CP_LOOKED, CP_N_LIVE, CP_LIVE = range(7)
"""A checkpoint in CHECKPOINTS, named by CHECKPOINT_AT[element]. Written by note_checkpoint, read by return_to.

| field | what | unit |
|---|---|---|
| CP_FIRST | the first node after the element before | node |
| CP_NODES | W_NODES then | nodes |
| CP_CLASSES | W_CLASS_LIST_USED then | pairs |
| CP_BITS | W_LIVE_USED then | words |
| CP_LOOKED | W_LOOKED then | element |
| CP_N_LIVE | W_N_LIVE then | pairs |
| CP_LIVE … | LIVE then | pairs (set of lexer states, row of LIVE_BITS) |
"""

ANSWER_WORDS = 2  # of an entry of CHECKED or REACHED: a key, and 1 + what is known
SKIPS, WITH_EXACT = 1, 2  # flags: skips may come first; EXACT lexemes start, too (infill.starts)
