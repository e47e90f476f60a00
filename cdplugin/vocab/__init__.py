"""The vocabulary: the bytes of every token, from any tokenizer library, and the token trie."""
