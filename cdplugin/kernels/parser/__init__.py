"""The Earley parser whose rows are values, and cursors that step lexer and parser together.

``rules`` lays the grammar out as dots and lists; ``corners`` knows what a nonterminal may begin with; ``earley`` makes rows,
with ``completing``; ``cursors`` steps a whole parser state by bytes, ``tokens`` by a token; ``skips`` is about ``%ignore``,
``tracked_scan`` about lexemes whose values matter. ``layout`` and ``fields`` say what is stored. For questions, ``text_tree``
and ``many_texts`` follow many texts at once, ``least_costs`` and ``growth`` measure rules.
"""
