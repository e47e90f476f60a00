"""Token masks: the trie walk, mask bases by lexer state, rows' deltas, and masking logits.

============  ==========================================================================================================
``trie``      the arrays that are walked; ``walk``: what walks share
``bases``     what a lexer state allows whatever the row is: by a ``base_walk``, or from ``neighbours``, ``shared`` bases,
              ``far_words``; ``ends`` and ``token_lists`` are what it consists of
``masks``     adds what a row allows, by bases or by a ``group_walk``, and writes mask rows; ``doubts`` depend on a text
questions     ``spelling`` and ``successors`` (``classes``): how tokens spell a text, where they lead
logits        ``bitmask`` and ``bitmask_triton`` apply a mask
records       ``layout`` and ``fields``
============  ==========================================================================================================
"""
