"""Token masks: the trie walk, mask bases by lexer state, rows' deltas, and masking logits."""
