"""The Earley parser whose rows are values, and cursors that step lexer and parser together.

``rules`` lays the grammar out as dots and lists; ``corners`` knows what a nonterminal may begin with; ``earley`` makes rows,
with ``completing``; ``cursors`` steps a whole parser state by bytes and tokens; ``skips`` is about ``%ignore``.
"""
