"""The records of masks: bases, groups of lexeme ends, and masks. Token lists.

A token list is a block of ``TOKEN_LISTS``: ``length`` ids, or, where that is shorter, the ``WORDS`` words of a bitmask
(``length == AS_BITMASK``).
"""

from __future__ import annotations

(
    B_SLICE,  # of a base: its row of SLICE_MASKS, -1: none
    B_TOKENS,  # its token list in TOKEN_LISTS,
    B_LENGTH,  # and the length of that
    B_GROUPS,  # its first group in ENDS,
    B_N_GROUPS,  # and how many there are
    B_PARENT,  # the base whose tokens it has too, -1: none,
    B_LESS,  # less the ids from here on in TOKEN_LISTS,
    B_N_LESS,  # and how many these are
    BASE_WORDS,
) = range(9)

# While a base is walked, ENDS holds its ends, then groups of them in their place.
E_NODE, E_SCANNED, E_BEGUN, END_WORDS = range(4)  # trie node; what ends there (K_ACCEPTED); the LONGEST lexemes' state or 0
G_SCANNED, G_ENDS, G_NODES, GROUP_WORDS = range(4)  # what ends; the ends (K_ENDS); nodes of the trie below them

(
    MASK_BASE,  # of a mask: its base
    MASK_TOKENS,  # the tokens that the row adds, in TOKEN_LISTS,
    MASK_LENGTH,  # and the length of that list
    MASK_DOUBTS,  # its doubts in TOKEN_LISTS: tokens that depend on a tracked value
    MASK_N_DOUBTS,  # how many are open, to be decided for each cursor
    MASK_N_DECIDED,  # how many have been decided: these are allowed
    MASK_WORDS,
) = range(7)

AS_BITMASK = 1 << 30  # in the place of a length
ROOT_NODE = -1
NODES_BITS = 1  # nodes of the trie that are one unit of work, as a power of two
NOT_SPELT = 1 << 40  # plus a place: no token spells the text from there on (masks.spelling)
