"""The lexer's records: lexer states, and what a transition says."""

from __future__ import annotations

(
    L_VALUE,  # the state as a value (K_LEXER)
    L_ACCEPTED,  # the lexemes that end here, as a K_ACCEPTED value, 0: none
    L_REST,  # the state without what cannot go on; itself if all can, 0: nothing can
    L_PLAIN_RUN,  # characters of plain text that keep it alive (slices.plain_run_bound), -1: not computed
    L_SATURATED,  # the state that has the same mask, with counts cut to the longest token (lexer.saturated), 0: not computed
    L_BASE,  # its mask base in the whole trie, -1: not computed
    L_LONGEST,  # the LONGEST lexemes that match here, as a K_ACCEPTED value, 0: none
    L_SIMPLIFIED,  # the state that its mask base starts from (lexer.simplified), 0: not computed
    L_ROLES,  # bit r: some lexeme has role r (X_ROLE)
    L_OWN,  # 4 words, a set of bytes: those by which it may differ from L_SIMPLIFIED
) = range(10)
L_N_HEADS = 13  # how many bytes may come next (lexer.heads), MANY, or -1: not computed
L_HEADS = 14  # 3 words: these bytes, ascending, eight to a word
L_LOOPS = 17  # bit k: every byte of kind k leads back to the state (masks.loops), -1: not computed
LEXER_WORDS = 18

# A transition: -1 unknown, 0 dead, BEFORE, or the next state, with ENDS_BIT where lexemes end in it
ENDS_BIT = 1 << 30
STATE_MASK = ENDS_BIT - 1
BEFORE = ENDS_BIT  # the lexeme ended before this byte
TRANSITION_WORK = 24  # units of work of a transition, besides its derivatives

TEXT_BIT = 1 << 30  # in the place of a pair's lexer state: the rest is the id of a K_TEXT value
