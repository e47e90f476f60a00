"""The records of masks: mask bases, groups of lexeme ends, masks; and how a token list is stored.

A token list is a block of ``TOKEN_LISTS``: either ``length`` token ids, or, where that is shorter, the ``WORDS`` words of a
bitmask (marked by ``length == AS_BITMASK``). Token ``t`` is bit ``t & 31`` of word ``t >> 5``, as in a mask row.
"""

B_SLICE, B_TOKENS, B_LENGTH, B_GROUPS, B_N_GROUPS, B_PARENT, B_LESS, B_N_LESS, B_LEARN, BASE_WORDS = range(10)
"""A mask base in BASES, by its number (from 0). Written by bases._new_base.

Without a parent, the tokens of a base are its slice mask and its list. With a parent, they are the parent's tokens, minus
B_LESS, plus its list. A parent has no parent itself.

| field | what | unit | read by |
|---|---|---|---|
| B_SLICE | the slice mask of the plain text left unwalked, -1: none | row of SLICE_MASKS | masks._write_mask |
| B_TOKENS | its token list | index in TOKEN_LISTS | masks |
| B_LENGTH | the length of that list, or AS_BITMASK | ids | masks |
| B_GROUPS | its first group of ends | index in ENDS | masks, bases |
| B_N_GROUPS | how many groups | groups | masks, bases |
| B_PARENT | the base that this one is stored as a difference from, -1: none | mask base | masks, bases |
| B_LESS | tokens of the parent that this base does not allow | index in TOKEN_LISTS | masks._write_mask |
| B_N_LESS | how many these are | ids | masks._write_mask |
| B_LEARN | its state, if the walk was long enough to share the base with other grammars; else 0 | lexer state | shared.learn |
"""

# While a base is walked, ENDS holds its single ends; when the walk is over, groups overwrite them.
E_NODE, E_SCANNED, E_BEGUN, END_WORDS = range(4)
"""One end in ENDS, while a base is walked. Written by ends.add_end (base_walk may complete it later), read by ends.group_ends.

| field | what | unit |
|---|---|---|
| E_NODE | the node at which lexemes end, -1: the root | trie node |
| E_SCANNED | the lexemes that end there; 0: none, which removes the parent base's end at this node | K_ACCEPTED value |
| E_BEGUN | the LONGEST lexemes that ended before the next byte, 0: none | lexer state |
"""
G_SCANNED, G_ENDS, G_NODES, GROUP_WORDS = range(4)
"""A group of ends in ENDS: the nodes where one and the same set of lexemes ends. Written by ends, read by masks.

| field | what | unit |
|---|---|---|
| G_SCANNED | the lexemes that end at all of its nodes | K_ACCEPTED value |
| G_ENDS | the pairs (E_NODE, E_BEGUN) | K_ENDS value |
| G_NODES | trie nodes below them: the cost of a walk | trie nodes |
"""

MASK_BASE, MASK_TOKENS, MASK_LENGTH, MASK_DOUBTS, MASK_N_DOUBTS, MASK_N_DECIDED, MASK_ROW, MASK_WORDS = range(8)
"""A mask in MASKS, by its number (from 0). Written by masks.mask_of, read by masks.fill.

| field | what | unit |
|---|---|---|
| MASK_BASE | its base | mask base |
| MASK_TOKENS | the delta: the tokens that the row adds | index in TOKEN_LISTS |
| MASK_LENGTH | the length of that list, or AS_BITMASK | ids |
| MASK_DOUBTS | tokens that depend on a tracked value | index in TOKEN_LISTS |
| MASK_N_DOUBTS | how many of these are open: each cursor decides them anew | ids |
| MASK_N_DECIDED | how many have been decided, for all cursors: these are allowed | ids |
| MASK_ROW | 1 + where the whole mask row is cached; 0: it never is; below 0: writes until it is | index in TOKEN_LISTS |
"""

AS_BITMASK = 1 << 30  # stored instead of a length
ROOT_NODE = -1
NODES_BITS = 1  # 2 ** NODES_BITS visited trie nodes cost one unit of work
NOT_SPELT = 1 << 40  # NOT_SPELT + place: no sequence of tokens spells the text from this place on (masks.spelling)
