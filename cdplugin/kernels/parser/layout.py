"""The parser's records: rows; skip items, and cursors."""

from __future__ import annotations

(
    R_ITEMS,  # the kernel items of a row, a K_ITEMS value
    R_ORIGIN,  # the origin that items predicted in it have, a K_ORIGIN value
    R_START,  # the lexer state in which its EXACT lexemes start, 0: none
    R_LONGEST,  # the lexer state in which its LONGEST and LAZY lexemes start, 0: none
    R_ACCEPTS,  # 1: the text may end here
    ROW_WORDS,
) = range(6)

SKIP_ITEM_DOT = 2  # the dot of skip items (parser.skips): the end of the rule S' -> S END. Their "origin" is a skip

ACCEPT_BIT = 1 << 31  # of a cursor of one pair: the text may end here
ACCEPTS_HERE = -1  # the first word of a K_STATE value where the text may end

# what rules.arrange() returns begins with these counts
O_NONTERMINALS, O_LEXEMES, O_DOTS, O_RULES, O_CORNERS, OUT_WORDS = range(6)

# what rules.prepare() is given begins with these counts; P_AS_THEY_ARE: of its first rules, whose lexemes stay without leads
P_RULES, P_SYMBOLS, P_NONTERMINALS, P_LEXEMES, P_START, P_AS_THEY_ARE, PACKED_WORDS = range(7)
