"""The Earley parser whose rows are values, and cursors that step lexer and parser together."""
