"""Owners of the kernels' tables: arenas, and what is laid out in them (lexemes, rules, expressions)."""
