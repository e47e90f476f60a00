"""The records of masks: bases, groups of lexeme ends, and masks. Token lists.

A token list is a block of ``TOKEN_LISTS``: ``length`` ids, or, where that is shorter, the ``WORDS`` words of a bitmask
(``length == AS_BITMASK``). Token ``t`` is bit ``t & 31`` of word ``t >> 5``, as in a mask row.
"""

B_SLICE, B_TOKENS, B_LENGTH, B_GROUPS, B_N_GROUPS, B_PARENT, B_LESS, B_N_LESS, B_LEARN, BASE_WORDS = range(10)
"""A mask base in BASES, by its number (from 0). Written by bases._new_base.

The tokens of a base are: those of the slice mask and the list; or, with a parent, those of the parent, less B_LESS, and the
list. A parent has no parent.

| field | what | unit | read by |
|---|---|---|---|
| B_SLICE | tokens of plain text that were not walked, -1: none | row of SLICE_MASKS | masks._write_mask |
| B_TOKENS | its token list | index in TOKEN_LISTS | masks |
| B_LENGTH | the length of that list, or AS_BITMASK | ids | masks |
| B_GROUPS | its first group of ends | index in ENDS | masks, bases |
| B_N_GROUPS | how many groups | groups | masks, bases |
| B_PARENT | the base of the simplified state, -1: none | mask base | masks, bases |
| B_LESS | tokens of the parent that it has not | index in TOKEN_LISTS | masks._write_mask |
| B_N_LESS | how many these are | ids | masks._write_mask |
| B_LEARN | its state, if its walk was long and may be spared to other grammars; 0: it is not | lexer state | shared.learn |
"""

# While a base is walked, ENDS holds its ends, then groups of them in their place.
E_NODE, E_SCANNED, E_BEGUN, END_WORDS = range(4)
"""An end in ENDS, while a base is walked. Written by ends.add_end (base_walk completes it), read by ends.group_ends.

| field | what | unit |
|---|---|---|
| E_NODE | the node at which lexemes end, -1: the root | trie node |
| E_SCANNED | what ends there, 0: nothing (takes the parent's end away) | K_ACCEPTED value |
| E_BEGUN | the LONGEST lexemes that ended before the next byte, 0: none | lexer state |
"""
G_SCANNED, G_ENDS, G_NODES, GROUP_WORDS = range(4)
"""A group of ends in ENDS. Written by ends, read by masks.

| field | what | unit |
|---|---|---|
| G_SCANNED | what ends at all of its nodes | K_ACCEPTED value |
| G_ENDS | the pairs (E_NODE, E_BEGUN) | K_ENDS value |
| G_NODES | nodes of the trie below them: what a walk would cost | trie nodes |
"""

MASK_BASE, MASK_TOKENS, MASK_LENGTH, MASK_DOUBTS, MASK_N_DOUBTS, MASK_N_DECIDED, MASK_ROW, MASK_WORDS = range(8)
"""A mask in MASKS, by its number (from 0). Written by masks.mask_of, read by masks.fill.

| field | what | unit |
|---|---|---|
| MASK_BASE | its base | mask base |
| MASK_TOKENS | the delta: tokens that the row adds | index in TOKEN_LISTS |
| MASK_LENGTH | the length of that list, or AS_BITMASK | ids |
| MASK_DOUBTS | tokens that depend on a tracked value | index in TOKEN_LISTS |
| MASK_N_DOUBTS | how many are open, to be decided for each cursor | ids |
| MASK_N_DECIDED | or how many have been decided: these are allowed | ids |
| MASK_ROW | 1 + where it stands as a mask row; 0: it never does; below 0: times to write until it does | index in TOKEN_LISTS |
"""

AS_BITMASK = 1 << 30  # in the place of a length
ROOT_NODE = -1
NODES_BITS = 1  # nodes of the trie that are one unit of work, as a power of two
NOT_SPELT = 1 << 40  # plus a place: no token spells the text from there on (masks.spelling)
