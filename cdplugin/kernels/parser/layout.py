"""The parser's records: rows, skip items, cursors.

A *dot* is a number that stands for a position in a rule, before the symbol ``DOT_SYMBOL[dot]``. The dots of a rule are
consecutive; the last one has the symbol ``END_OF_RULE``. Dot 0 begins ``S' -> S END``, so row 1 has the item
``(0, empty origin)``.
"""

R_ITEMS, R_ORIGIN, R_START, R_LONGEST, R_ACCEPTS, ROW_WORDS = range(6)
"""A row in ROWS, by its number (from 1). Written once, by earley.row_of.

| field | what | unit | read by |
|---|---|---|---|
| R_ITEMS | its kernel items | K_ITEMS value | earley, queries |
| R_ORIGIN | the origin of what is predicted in it | K_ORIGIN value | earley.advance |
| R_START | where its EXACT lexemes start, 0: none | lexer state | cursors, masks |
| R_LONGEST | where its LONGEST and LAZY lexemes start, 0: none | lexer state | cursors, masks |
| R_ACCEPTS | the text may end before it | 0, 1 | cursors |
"""

SKIP_ITEM_DOT = 2  # the dot of skip items (parser.skips): the end of the rule S' -> S END. Their "origin" is a skip

ACCEPT_BIT = 1 << 31
ACCEPTS_HERE = -1
"""A cursor, one int64 word:

| bits | one pair | a set of pairs |
|---|---|---|
| 63 … 32 | row + 1 | 0 |
| 31 | ACCEPT_BIT: the text may end here | 0 |
| 30 … 0 | lexer state | id of a K_STATE value |

The words of a K_STATE value are ``row << 32 | lexer state``, ascending, after ACCEPTS_HERE (-1) where the text may end. In a
word with TEXT_BIT the lower half is the id of a K_TEXT value instead (:mod:`cdplugin.kernels.lexer.tracked`). 0 is the dead
cursor.
"""

O_NONTERMINALS, O_LEXEMES, O_DOTS, O_RULES, O_CORNERS, OUT_WORDS = range(6)
"""The counts at the beginning of the result of rules.arrange; the tables follow, each as long as its count says."""
P_RULES, P_SYMBOLS, P_NONTERMINALS, P_LEXEMES, P_START, P_AS_THEY_ARE, PACKED_WORDS = range(7)
"""The counts at the beginning of the question of rules.prepare. P_AS_THEY_ARE: in so many of the first rules, nothing is
inserted before lexemes.
"""
