"""The lexer: a lazy DFA over sets of (lexeme, expression). States are hash-consed, transitions are computed on demand.

``states`` makes states, ``lexer`` their transitions, ``rows`` stores these; ``layout`` and ``fields`` describe the records.
``heads``, ``plain_text``, ``spelled_run`` and ``simplified`` are shortcuts, each with the same result as stepping the
transitions. ``tracked`` handles lexemes on whose value later rules depend.
"""
