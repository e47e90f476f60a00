"""Token masks: the trie walk, mask bases by lexer state, rows' deltas, and masking logits.

``trie`` builds the arrays that are walked; ``bases`` finds what a lexer state allows whatever the row is; ``masks`` adds what
a row allows and writes mask rows; ``ends``, ``walk``, ``neighbours``, ``shared``, ``token_lists`` and ``group_walk`` are parts
of these. ``spelling`` and ``successors`` answer the questions of short endings. ``bitmask`` and ``bitmask_triton`` apply a mask
to logits.
"""
