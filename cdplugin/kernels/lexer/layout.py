"""The lexer's records: lexer states, and the encoding of a transition.

Lexer states are numbered from 1; 0 is dead. The record of a state lies at ``number * LEXER_WORDS`` of LEXER_STATES, and names
its row of TRANSITIONS (:mod:`cdplugin.kernels.lexer.rows`).
"""

L_VALUE, L_ACCEPTED, L_REST, L_PLAIN_RUN, L_SATURATED, L_BASE, L_LONGEST, L_SIMPLIFIED, L_ROLES, L_OWN = range(10)
L_N_HEADS, L_HEADS, L_LOOPS, L_ROW, L_COUNTED, L_FAR, LEXER_WORDS = 13, 14, 17, 18, 19, 20, 21
"""A lexer state in LEXER_STATES. Fields that are computed on demand begin as the value in brackets.

| field | what | unit | written by | read by |
|---|---|---|---|---|
| L_VALUE | the state's (lexeme, expression) words | K_LEXER value | lexer | everybody |
| L_ACCEPTED | lexemes that end here, 0: none | K_ACCEPTED value | lexer | cursors, bases, infill |
| L_REST | the state of what goes on; itself if all does, 0: nothing does | lexer state | lexer | cursors, bases, infill |
| L_PLAIN_RUN | plain text that keeps it alive: slices.plain_run_bound [-1] | 2 n + x characters | lexer | plain_text |
| L_SATURATED | the state with the same masks, its counts cut to the longest token [0] | lexer state | saturated | saturated |
| L_BASE | its mask base in the whole trie [-1] | mask base | bases.base_of | bases |
| L_LONGEST | LONGEST lexemes that match here, 0: none | K_ACCEPTED value | lexer | cursors, bases, infill |
| L_SIMPLIFIED | its simplified state [0] | lexer state | simplified | simplified, lexer.transition |
| L_ROLES | bit r: some lexeme has role r | X_ROLE as bits | lexer | tracked, group_walk |
| L_OWN | bytes by which it may go elsewhere than L_SIMPLIFIED does | byte set, 4 words | simplified | lexer.transition |
| L_N_HEADS | how many bytes may come next, or MANY, or BESIDE + n (rows) [-1] | bytes | rows | rows, heads, bases |
| L_HEADS | these bytes, ascending | 3 words, 8 bytes in each | heads | heads, rows |
| L_LOOPS | bit k: each byte of kind k (or character) leads back [-1] | trie.BYTE_KIND as bits | masks.walk | base_walk |
| L_ROW | its transition row [-1] | index in TRANSITIONS | rows | rows, lexer, base_walk |
| L_FAR | the state without its far words [0] | lexer state | masks.far_words | masks.far_words |
| L_COUNTED | whether some expression has counts that may be cut | 0, 1 | lexer | saturated_within |
"""

ENDS_BIT = 1 << 30
STATE_MASK = ENDS_BIT - 1
BEFORE = ENDS_BIT
"""A transition, an int32 of TRANSITIONS:

| value | meaning |
|---|---|
| -1 | not computed |
| 0 | dead: no lexeme of the state goes on with the byte |
| BEFORE | nothing goes on, and LONGEST lexemes (L_LONGEST) ended before the byte |
| n | the next state |
| ENDS_BIT + n | the next state, in which lexemes end (L_ACCEPTED); what goes on is its L_REST |
"""
TRANSITION_WORK = 24  # units of work of a transition, besides its derivatives

TEXT_BIT = 1 << 30  # set in a pair's lower half: the other bits are the id of a K_TEXT value, not a lexer state
