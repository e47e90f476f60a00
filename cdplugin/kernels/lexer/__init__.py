"""The lexer: lexer states as values, their transitions, and what is found out about a state when it is first asked for.

``lexer`` makes states and transitions; ``heads``, ``plain_text``, ``simplified`` and ``counted`` are shortcuts over them, each
of which gives what the transitions give; ``tracked`` is about lexemes on whose value later rules depend.
"""
