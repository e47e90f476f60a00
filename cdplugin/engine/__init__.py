"""Owners of the kernels' tables: arenas, and what is laid out in them (lexemes, rules, expressions).

======  ================================================================================================================
memory  ``owned_tables`` holds an arena's tables and grows them; ``pages`` and ``blocks`` are where they lie
arena   ``arena`` runs operations until they are finished; ``base_arena`` is what each one is cloned from; ``shared_bases`` is
        what grammars of a vocabulary learn of each other; ``values`` reads what is stored
rules   ``expander`` puts a compiled grammar into an arena: its ``rules`` and ``lexemes``, expressions as ``programs``; it
        makes the late rules of families, ``tracked`` those that depend on a text
======  ================================================================================================================
"""
