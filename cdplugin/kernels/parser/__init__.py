"""The Earley parser, whose rows and origins are values, and cursors, which step lexer and parser together.

``rules`` cleans the grammar and lays it out as dots and lists; ``corners`` computes left corners; ``earley`` makes rows, with
``completing``; ``cursors`` steps a whole parser state by bytes, ``tokens`` by a token; ``skips`` handles ``%ignore``,
``tracked_scan`` lexemes whose values matter. ``layout`` and ``fields`` describe the records. For queries, ``text_tree`` and
``many_texts`` follow many texts in one call, ``least_costs`` and ``growth`` measure rules.
"""
