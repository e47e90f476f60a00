"""Token masks: the part that a lexer state decides (bases), the part that a row adds (deltas), and applying masks to logits.

============  ==========================================================================================================
``trie``      builds the token trie as flat arrays; ``walk``: what all walks over it share
``bases``     the tokens that a lexer state allows whatever the row is: from a ``base_walk``, or derived from ``neighbours``,
              ``shared`` bases or ``far_words``; a base consists of ``token_lists`` and of ``ends``
``masks``     adds the tokens that a row allows, by bases or by a ``group_walk``, and writes mask rows; ``doubts`` are tokens
              that depend on a tracked value
questions     ``spelling`` and ``successors`` (``classes``): how tokens spell a text, and where each token leads
logits        ``bitmask`` (CPU) and ``bitmask_triton`` (GPU) apply a mask
records       ``layout`` and ``fields``
============  ==========================================================================================================
"""
