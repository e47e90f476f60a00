"""Lexer states: sets of (lexeme, expression) with lazily filled transition rows."""
