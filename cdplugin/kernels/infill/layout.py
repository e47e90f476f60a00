"""The layout of an infilling workspace: tables and scalars of its header, and the records in its tables.

::

    a row of nodes    | word 0: nodes 0 … 63 | word 1: 64 … 127 | … |    W_WIDTH words; the two highest bits: end, final
    a table of rows   [node * symbols + symbol] -> offset in BITS, 0: no row
    a list in POOL    | counts | states | sets | pairs |                 named by its offset

As in the arena, table ``k`` has its address in word ``2k`` of the header and its capacity in word ``2k + 1``; the scalars
(``W_…``) follow. **Tables never move inside a call**: the owner, :class:`cdplugin.infill.workspace.Workspace`, grows them
between calls, with zeros. All tables are int64.

*Nodes* are the lexeme boundaries of the text, numbered from left to right. A *row* is a set of nodes: ``W_WIDTH`` words of
``BITS`` or ``LIVE_BITS``, named by its offset; 0 is none. *Stamps* save clearing: an entry counts only if it holds the stamp
of the search under way. An index by open addressing is a power of two large and at most half full.
"""

(
    ELEMENTS,  # the text: a byte (>= 0), GAP, or SLOT less the number of classes that it is planned with
    ACCEPTS,  # before each element and at the end: 1 where the text may end
    NODE_BEFORE,  # before each element and at the end: the first of the nodes there ...
    NODE_LAST,  # ... and the one after the last of them
    NODE_OPEN,  # node -> 1 inside a slot: all lexemes compete there
    SYMBOL_HEADS,  # nonterminals, then lexemes: where their dots begin in SYMBOL_DOTS
    SYMBOL_DOTS,  # the dots before which a symbol is expected, then the ends of rules. Where a dot is here is its turn: in a
    # set by turn, the dots before one symbol lie side by side
    TURN_OF,  # dot -> its turn
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
    AFTER,  # lexeme (last: a text's beginning) -> set by turn of the dots that may be under way after it; see AFTER_KNOWN
    ALIVE,  # node -> set by turn of the dots that may be under way there, W_TURN_SET words
    REST_NODES,  # dot -> set of the nodes at which it has a row in REST
    PENDING,  # set of nonterminals, by rank: their ends at a node are not all followed yet; then the set of its words in use
    RANKS,  # nonterminal -> rank, then rank -> nonterminal: what others are made of comes first
    START_HASH,  # open addressing: 1 + entry of START_SETS
    START_SETS,  # set of lexemes, whether skips may come first, the set of the lexer states in which they start
    CLASS_FIRSTS,  # class -> set of lexemes that it may begin with; all if a skip is among them
    SPAN_SETS,  # node -> set of the lexemes that have a row in SPANS
    ITEM_SETS,  # node -> set of the dots that have a row in ITEMS
    TOUCHED,  # count << 47 | table << 40 | index: the entries that name rows; they are 0 again before the next text
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
    SPAN_OWNERS,  # row of SPANS, by number -> which entry names it
    SPAN_ENDS,  # ends of a lexeme, and a word of the starts of each
    SPAN_BLOCK,  # rows of ends of one lexeme, for 64 starts
    BLOCK,  # 64 words
    NEXT_SPAN_SETS,  # SPAN_SETS of this text, while that of the last one is still there
    CHECKPOINTS,  # what is known before an element (kernels/infill/checkpoints.py)
    CHECKPOINT_AT,  # element -> where in CHECKPOINTS
    LAST_TEXT,  # the elements and ACCEPTS behind each, as they were when the checkpoints were made
    NEXT_ALIVE,  # ALIVE of this text, while facts are reused that go by that of the last ones
    FACTS_AT,  # node -> W_N_TOUCHED, W_BITS_USED and W_N_CHAINED before its facts were found
    BELOW,  # 2 * trie node, one more for what is behind it -> where in BELOW_LISTS; 0 unknown
    BELOW_LISTS,  # numbers of classes, and classes
    CLASS_MARK,  # per class: a stamp
    END_IN_GAPS,  # lexeme -> whether it may end in a gap, whatever comes next (cdplugin.infill.room)
    FACT_INDEX,  # open addressing: stamp << 32 | fact (kernels/infill/derivation.py)
    FACTS,
    FACT_WAYS,
    EDGE_INDEX,  # open addressing: stamp << 32 | edge
    EDGES,  # lexeme and nodes (a key), and what it costs; -1: barred
    HEAP,  # (cost, number of a way or of a place), the cheapest first
    PLACE_INDEX,  # open addressing: stamp << 32 | place (kernels/infill/measure.py)
    TARGETS_OF,  # lexer state -> where in POOL the number of states that a byte leads to is, and then these
    PLACES,  # element << 32 | lexer state, and 1 + what it costs to come there
    MEASURE_INDEX,  # open addressing: stamp << 32 | measure
    MEASURES,  # lexeme and node at which it ends (a key), and 1 + what it costs
    LEAST,  # lexeme -> the bytes that it has at least; empty if W_MOST_IN_GAP is 0
    USEFUL,  # the nodes that have a row in REST, and the final one
    PASSES,  # set by turn of the dots whose rule may end with the symbol after them
    ACTIVE,  # set by turn of the dots of which the next one has a row in REST at some node
    LAST_RANKS,  # as RANKS: what others end with comes first
    DERIVED_HERE,  # set of the nonterminals that have a row in DERIVED at the node under way
    GAP_KEY,  # the lexemes that may lie in the gaps that there is a plan for (kernels/infill/gap_facts.py)
    GAP_LEXEMES,  # those that may lie in this gap
    GAP_STAYS,  # set of the nonterminals that may lie in it
    GAP_FIRST,  # set of the dots of which all that comes before in the rule may lie in it
    GAP_TAIL,  # dot -> 1 + the symbol that the rest of the rule ends with; 0: none, -1: several
    GAP_UP_HEADS,  # symbol -> where in GAP_UPS the nonterminals begin that end where it does
    GAP_UPS,
    GAP_ROWS,  # dot -> row: where the rest behind the symbol after the dot leads
    GAP_LIST,  # the dots that have one
    GAP_ACTIVE,  # set by turn of the dots of which the next one has a tail
    GAP_REACH,  # symbol -> set of itself and all nonterminals up from it, and set by turn of the dots before these
    GAP_TAILED,  # set by turn of the dots that have a tail
    UNNAMED,  # set of the nodes in gaps whose rows are found by tails (kernels/infill/gap_rests.py), not named in REST, DERIVED
    GAP_BASES,  # node of these -> where in BITS what is known of its ends begins (kernels/infill/gap_ends.py)
    GAP_COVERED,  # set of those of these nodes from which nothing comes that does not come from this gap's node
    CHAIN_HEADS,  # symbol -> twice where its dots begin in CHAIN_DOTS, and 1 if it has CHAIN_UPS (kernels/infill/chains.py)
    CHAIN_DOTS,  # number and bits of a word of a set by turn
    CHAIN_UPS,  # symbol -> set of the nonterminals that rules of one symbol lead to from it
    CHAINED,  # (symbol, row of ends) that were followed so
    CHAINED_AT,  # node -> where its pairs begin in CHAINED, and end
    MANY_HERE,  # set of the nonterminals that were followed with many ends at the node under way
    NEAR_FIRST,  # per dot: whether all before it in its rule may be empty
    NEXT_OF,  # lexeme -> set by turn of the dots behind whose symbol the rest of the rule may begin with it
    NEXT_HERE,  # node -> set by turn of the dots behind whose symbol the rest of the rule may lead from here
    NEXT_ANY,  # all that was in one of them
    ASKED,  # set of the nodes whose rests are found when they are asked for (kernels/infill/asked.py)
    REST_STACK,  # (node, dot) that are asked for
    END_LIST,  # some ends
    STARTS_ALONE,  # lexeme -> the lexer state in which it starts by itself; 0 unknown
    FIRSTS_AT,  # two bytes (kernels/infill/ahead.py) -> 1 + where in FIRSTS; 0 unknown
    FIRSTS,  # set of the lexemes that they let begin, and of the skips among these
    AHEAD_AT,  # element -> stamp, and the last element that was looked at
    AHEAD_SETS,  # element -> set of the lexemes that matter before it
    AHEAD_STACK,
    TWIN_OF,  # node -> itself, or the node in a gap that it is the same as (kernels/infill/twins.py)
    TWINS,  # set of the nodes that are the same as another; then two more sets, of one gap
    GAP_OWN,  # node in a gap -> set of the dots from which a rest right of the gap is led to
    GAP_STAYING,  # set by turn of the dots before a symbol that may lie in the gap
    AFTER_KNOWN,  # lexeme (last: a text's beginning) -> 1 if AFTER has what may be under way after it
    AFTER_MARK,  # nonterminals: a stamp where they were expected, then one where they had ended (kernels/infill/alive.py)
    DOT_QUEUE,  # dots that such a search has found
    MISSING,  # lexemes that end in the text and are not in AFTER
    IN_DOUBT,  # rank of a token -> how many tokens before it a mask does not have yet (kernels/infill/doubt.py)
    DOUBT_FIRSTS,  # set of the first bytes of the tokens that it does not have
    BEGINNING,  # byte -> 1 if no lexeme begins with it, 2 if one does; 0 unknown
    BYTE_STARTS,  # 1 if it is known; byte -> where in this table those of STARTS begin that go on with it, and end; then these
    STATE_BITS,  # lexer states of a set under construction, from the least on
    N_WORKSPACE,
) = range(163)

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
    W_N_CHECKED,
    W_MOST_STATES,  # of a closure
    W_ENDS_USED,
    W_MOST_CLASSES,  # of a vocabulary
    W_C_NODES,  # counters: trie nodes of masks,
    W_C_CHECKS,  # answers of pairs.completes that were computed
    W_LEFT,  # nodes up to the hole
    W_BITS_ITEMS,  # what of BITS holds facts and items; the rest belongs to one mask
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
    W_TURN_SET,  # words of a set of dots by turn, of those before a symbol
    W_SPLIT,  # whether a place may have several nodes
    W_N_GATHERED,
    W_PUSH_STAMP,
    W_N_SETS,
    W_STEPS_USED,
    W_ALIVE,  # whether facts are looked for only where ALIVE says
    W_LIVE_USED,
    W_REUSE,  # whether facts are reused for the next text
    W_FIRST,  # the first node of the text in SPANS and of the facts
    W_CHANGED,  # the rightmost node whose spans changed since facts were found; -1 none
    W_FACTS_FIRST,  # the leftmost node that has facts
    W_REUSED_WIDTH,  # W_WIDTH of what is reused of the last text; 0: nothing is
    W_SPAN_ROWS,  # how many rows at the beginning of BITS are for SPANS
    W_N_SPANS,  # how many of them are in use
    W_N_CHECKPOINTS,
    W_CHECKPOINTS_USED,
    W_LAST_ELEMENTS,  # elements of LAST_TEXT
    W_C_ELEMENTS,  # counters: elements that were run through, nodes whose facts were found
    W_C_FACTS,
    W_BELOW_USED,
    W_LOOSE,  # whether each LONGEST lexeme competes with its skip alone (kernels/infill/starts.py)
    W_WORK_LEFT,  # quarters of a unit of work (the arena's) that the operation may still do in the kernels of infilling
    W_N_FACTS,
    W_N_FACT_WAYS,
    W_N_EDGES,
    W_N_PLACES,
    W_N_MEASURES,
    W_MOST_IN_GAP,  # no lexeme with more bytes (LEAST) begins in a gap, none takes more of them; 0: any may
    W_HAS_PLAN,  # whether there is a plan for gaps
    W_GAP_OTHERS,  # gaps that it did not fit, one after another
    W_N_GAP_LIST,
    W_BITS_CLEAN,  # behind what is used of BITS and of LIVE_BITS: up to here there are zeros
    W_LIVE_CLEAN,
    W_REST_WIDTH,  # the width of the rows in REST_NODES
    W_HAS_CHAINS,
    W_N_CHAINED,
    W_CHAINED_FACTS,
    W_ASKED,  # whether rests are found when they are asked for, where that is possible
    W_HAS_SLOTS,  # whether the text has open slots
    W_NARROW,  # whether nodes are told apart by what the text ahead lets begin alone (kernels/infill/ahead.py)
    W_LOOKED,  # the rightmost element that was looked at for that
    W_AHEAD_STAMP,
    W_FIRSTS_USED,
    W_HAS_TWINS,  # whether there is anything in TWINS
    W_DECIDED,  # bits of the mask under way when IN_DOUBT was counted; 0: it was not
    W_STAMPS,  # by counter, from W_N_FACTS on: the stamp of its records in their index
    W_STAMPS_2,
    W_STAMPS_3,
    W_STAMPS_4,
    W_STAMPS_5,
    WORKSPACE_WORDS,
) = range(_S, _S + 91)

W_COUNTERS = W_N_FACTS  # the counters: of facts, ways to facts, edges, places and measures

GAP, SLOT = -1, -2  # in ELEMENTS
NO_ELEMENT = 256  # in LAST_TEXT, at a hole's slot: no text has it

NODE_WORK = 6  # quarters of a unit of work of a node of the trie that a walk visits, its transition included

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
INSIDE, ENDS_WITH, CROSSES = range(3)  # P_KIND: the token leads to a state; ends lexemes; ends lexemes inside
P_KIND, P_WHAT, P_CLASS, P_COUNT, P_AT, OUTCOME_WORDS = range(6)
"""An outcome of a profile. Written by profiles.profile_of, read by holes._add_outcomes and profiles.add_tokens.

| field | what | unit |
|---|---|---|
| P_KIND | what the token does | INSIDE, ENDS_WITH, CROSSES |
| P_WHAT | the state that it leads to, or what it ends | lexer state, or K_ACCEPTED value |
| P_CLASS | what is left of it (CROSSES) | class |
| P_COUNT | its tokens, -1: a bitmask | ids |
| P_AT | where they are | words, counted from the profile |
"""

BY_SLOT, BY_GAP, BY_END, COLUMNS_OF_STEPS = range(256, 260)  # columns of STEP_OF after the 256 bytes; and how many there are
S_NEXT, S_BEFORE, S_ENDS, S_CROSSINGS, S_CAP, S_FIRST = range(6)
"""A step in STEPS, named by STEP_OF[set of states, column]. Written by steps.step_of, read by lattice and reach.

| field | what | unit |
|---|---|---|
| S_NEXT | the set after the element, 0: none | set of lexer states |
| S_BEFORE | how many sets of lexemes end before the element; at BY_END, with the text | K_ACCEPTED values |
| S_ENDS | how many end with it; of a gap: how many lexemes end in it | K_ACCEPTED values; lexemes |
| S_CROSSINGS | how many ways to end inside the slot | pairs |
| S_CAP | classes up to which they were listed | class |
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
| COL_SCANS | 2 if it only scans, plus SKIPS if a skip may come first | bits |
| COL_SET | where the others start | set of lexer states |
| COL_TARGET | the lexemes that compete there (W_SPLIT) | index in COLUMN_ITEMS, W_SET words |
"""

WAY_DOT, WAY_OUT, WAY_ROW, WAY_WORDS = range(4)
"""A way in WAYS, by its number. Written by ways.way_of, read by ways.

| field | what | unit |
|---|---|---|
| WAY_DOT | where the rule stands | dot |
| WAY_OUT | the nodes at which it is to end | row of BITS |
| WAY_ROW | the nodes from which it does; the row after it: the nodes asked about | row of BITS |
"""

F_KEY, F_USERS, F_WAY, F_COST, FACT_WORDS = range(5)
"""A fact in FACTS, by its number. Written by derivation, read there and by cdplugin.infill.complete.

| field | what | unit |
|---|---|---|
| F_KEY | dot, node and end | bits, NODE_BITS for each node |
| F_USERS | the first way that needs it, 0: none | 1 + 2 * way, one more where it is the other need |
| F_WAY | the cheapest way to it, -1: none | way |
| F_COST | its cost | bytes * BYTE, and 1 for each way |
"""

FW_FACT, FW_NEED, FW_OTHER, FW_EDGE, FW_NEXT, FW_NEXT_OTHER, FACT_WAY_WORDS = range(7)
"""A way to a fact in FACT_WAYS, by its number. Written by derivation, read there and by cdplugin.infill.complete.

| field | what | unit |
|---|---|---|
| FW_FACT | what it leads to | fact |
| FW_NEED, FW_OTHER | what it needs, -1: nothing | fact |
| FW_EDGE | the lexeme that it begins with, -1: none | edge |
| FW_NEXT, FW_NEXT_OTHER | the next way that needs the same | as F_USERS |
"""

NODE_BITS = 13  # of a node in a key: rows are at most 128 words wide
EDGE_WORDS = 2  # of an edge: key, cost
PL_KEY, PL_COST, PLACE_WORDS = range(3)
MEASURE_WORDS = 2  # key, 1 + cost
BYTE = 1 << 20  # what a byte in a gap costs
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

REACHED_WORDS = 3  # of an entry of REACHED: element, set of lexer states, rows in ENDS_ROWS
SKIPS, WITH_EXACT = 1, 2  # what of a set of lexemes starts (infill.starts)
