"""The lexer: lexer states as values, their transitions, and what is found out about a state when it is first asked for.

``states`` makes states, ``lexer`` their transitions, in ``rows``; ``layout`` and ``fields`` say what is stored. ``heads``,
``plain_text``, ``spelled_run`` and ``simplified`` are shortcuts, each of which gives what the transitions give; ``tracked`` is
about lexemes on whose value later rules depend.
"""
